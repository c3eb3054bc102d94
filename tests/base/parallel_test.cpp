/// Checks src/base/parallel.cpp: coverage, chunk contract, exceptions, nesting, concurrent callers,
/// fork, dispatch latency. Run it with WEFT_NUM_THREADS unset; it sets thread counts itself.
#include "base/parallel.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

int failures = 0;

void check(bool ok, const char* what) {
    if (ok) return;
    std::printf("FAILED: %s\n", what);
    ++failures;
}

/// Every index once, every range on multiples of the grain.
void covers_once() {
    for (const int64_t n : {0, 1, 2, 63, 64, 65, 1000, 4097})
        for (const int64_t grain : {1, 7, 64, 5000}) {
            std::vector<std::atomic<int>> seen(n);
            std::atomic<bool> on_multiples{true};
            weft::parallel_for(n, grain, [&](int64_t begin, int64_t end) {
                if (begin % grain != 0 || (end % grain != 0 && end != n)) on_multiples = false;
                for (int64_t i = begin; i < end; ++i) ++seen[i];
            });
            bool once = true;
            for (auto& count : seen) once &= count == 1;
            check(once, "every index exactly once");
            check(on_multiples, "ranges begin and end at multiples of the grain");
        }
}

void uses_other_threads() {
    std::atomic<int> inside{0}, most{0};
    weft::parallel_for(4, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int now = ++inside;
            for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            --inside;
        }
    });
    check(most > 1, "several threads run at once");
}

void small_work_stays_here() {
    const auto here = std::this_thread::get_id();
    int calls = 0;
    bool same = true;
    weft::parallel_for(100, 100, [&](int64_t, int64_t) {
        ++calls;
        same &= std::this_thread::get_id() == here;
    });
    check(calls == 1 && same, "n <= grain is one call on the caller");
}

void exceptions_arrive() {
    for (int64_t bad = 0; bad < 64; bad += 9) {
        bool caught = false;
        try {
            weft::parallel_for(64, 1, [&](int64_t begin, int64_t end) {
                if (begin <= bad && bad < end) throw std::runtime_error("bad");
            });
        } catch (const std::runtime_error& error) {
            caught = std::string("bad") == error.what();
        }
        check(caught, "an exception of a body reaches the caller");
    }
    covers_once();
}

void nests_serially() {
    std::atomic<int> sum{0};
    std::atomic<bool> marked{true}, whole{true};
    weft::parallel_for(8, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            if (weft::in_parallel_region() != (weft::get_num_threads() > 1)) marked = false;
            weft::parallel_for(100, 1, [&](int64_t b, int64_t e) {
                if (b != 0 || e != 100) whole = false;
                sum += static_cast<int>(e - b);
            });
        }
    });
    check(sum == 800 && marked && whole, "nested calls run serially");
    check(!weft::in_parallel_region(), "the region ends with the call");
}

void concurrent_callers() {
    std::atomic<int64_t> total{0};
    std::vector<std::thread> callers;
    for (int t = 0; t < 4; ++t)
        callers.emplace_back([&] {
            for (int round = 0; round < 500; ++round)
                weft::parallel_for(256, 1, [&](int64_t begin, int64_t end) {
                    total += end - begin;
                });
        });
    for (auto& caller : callers) caller.join();
    check(total == 4 * 500 * 256, "calls from several threads at once");
}

/// The child must work with workers of its own, whether the parent's spin or sleep.
void survives_fork(int idle_ms) {
    uses_other_threads();
    std::this_thread::sleep_for(std::chrono::milliseconds(idle_ms));
    const pid_t child = fork();
    if (child == 0) {
        failures = 0;
        covers_once();
        uses_other_threads();
        std::exit(failures ? 1 : 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a forked child computes and exits");
    uses_other_threads();
}

void print_latency() {
    using clock = std::chrono::steady_clock;
    double best = 1e9;
    for (int round = 0; round < 2000; ++round) {
        const auto start = clock::now();
        weft::parallel_for(2, 1, [](int64_t, int64_t) {});
        best = std::min(best, std::chrono::duration<double>(clock::now() - start).count());
    }
    std::printf("dispatch, best of 2000: %.2f us\n", best * 1e6);
}

}  // namespace

int main() {
    check(weft::get_num_threads() >= 1, "at least one thread");
    for (const int threads : {2, 1, 4, 3}) {
        weft::set_num_threads(threads);
        check(weft::get_num_threads() == threads, "set_num_threads");
        covers_once();
        if (threads > 1) uses_other_threads();
        small_work_stays_here();
        exceptions_arrive();
        nests_serially();
        concurrent_callers();
    }
    weft::set_num_threads(0);
    check(weft::get_num_threads() == 1, "clamped to one thread");
    weft::set_num_threads(3);
    survives_fork(0);
    survives_fork(20);
    weft::set_num_threads(2);
    print_latency();
    std::printf(failures ? "%d failures\n" : "parallel: ok\n", failures);
    return failures ? 1 : 0;
}
