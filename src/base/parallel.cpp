/// Reading order: how many threads, then `WorkerPool::run` (the caller's side of a call) and
/// `WorkerPool::work` (a worker's life), then fork and exit.
///
/// Note [The state word]
/// One 32-bit word carries a call: a generation, an open bit and the number of workers inside.
/// The caller writes the job, then publishes "next generation, open, nobody inside". A worker
/// enters by adding one while the word is open. The caller takes chunks too; when none are left it
/// clears the open bit and waits for those inside. So a worker that wakes late finds the door
/// closed and nobody waits for it, and the job is only ever read by workers that are inside.
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace weft {
namespace {

thread_local bool inside_body = false;

// ---------------------------------------------------------------------------------------------
// How many threads

int from_environment(const char* name) {
    const char* text = std::getenv(name);
    return text ? static_cast<int>(std::min(std::strtol(text, nullptr, 10), long{max_threads})) : 0;
}

/// Physical cores among the CPUs this process may use: two hyper-threads share one set of vector
/// units.
int usable_cores() {
    std::set<std::string> cores;
#if defined(__linux__)
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
            if (!CPU_ISSET(cpu, &allowed)) continue;
            std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                               "/topology/thread_siblings_list");
            std::string siblings;
            if (!(file >> siblings)) siblings = std::to_string(cpu);
            cores.insert(siblings);
        }
#endif
    return cores.empty() ? static_cast<int>(std::thread::hardware_concurrency())
                         : static_cast<int>(cores.size());
}

/// CPUs' worth of time that the container grants, or max_threads. More threads than that would be
/// stopped for the rest of each period, while the others wait for them.
int granted_cores() {
    std::ifstream file("/sys/fs/cgroup/cpu.max");
    double quota = 0, period = 0;
    if (!(file >> quota >> period) || period <= 0) return max_threads;
    return static_cast<int>(quota / period + 0.5);
}

int default_threads() {
    int count = from_environment("WEFT_NUM_THREADS");
    if (count <= 0) count = from_environment("OMP_NUM_THREADS");
    if (count <= 0) count = std::min(usable_cores(), granted_cores());
    return std::clamp(count, 1, max_threads);
}

// ---------------------------------------------------------------------------------------------
// The pool

void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

/// Long enough to bridge the gap between two large operations called from Python, short enough not
/// to matter to whoever else wants the core.
constexpr auto spin_time = std::chrono::microseconds(50);

/// Spins until `done()`; false if spin_time passed first.
template <class Done>
bool spin_until(const Done& done) {
    const auto end = std::chrono::steady_clock::now() + spin_time;
    do {
        for (int i = 0; i < 32; ++i) {
            if (done()) return true;
            relax();
        }
    } while (std::chrono::steady_clock::now() < end);
    return done();
}

class WorkerPool {
public:
    using Body = FunctionRef<void(int64_t, int64_t)>;

    /// False if another thread has the pool; nothing was run then.
    bool run(int64_t n, int64_t grain, const Body& body, int threads) {
        if (stopped_.load(std::memory_order_relaxed) || busy_.exchange(true)) return false;
        start_workers(threads - 1);
        threads = std::min(threads, static_cast<int>(workers_->size()) + 1);
        const int64_t grains = (n + grain - 1) / grain;
        // Four chunks per thread even out cores that are slower or late.
        job_.chunk = grain * std::max<int64_t>(1, grains / (4 * threads));
        job_.n = n;
        job_.body = &body;
        job_.next.store(0, std::memory_order_relaxed);
        job_.failed.store(false, std::memory_order_relaxed);
        limit_.store(threads - 1, std::memory_order_relaxed);
        const uint32_t now = state_.load(std::memory_order_relaxed);
        state_.store(((now & ~inside_mask) | open_bit) + one_generation);
        state_.notify_all();

        take_chunks();
        state_.fetch_and(~open_bit);
        wait_for_workers();
        std::exception_ptr error = std::move(job_.error);
        job_.error = nullptr;
        busy_.store(false);
        if (error) std::rethrow_exception(error);
        return true;
    }

    /// In a forked child: the workers are gone, and whatever they held with them. The vector of
    /// handles is abandoned because a handle of a thread that does not exist can only abort.
    void forget_workers() {
        workers_ = new std::vector<std::thread>;
        state_.store(0);
        caller_sleeps_.store(false);
        job_.error = nullptr;
        busy_.store(false);
    }

    /// At exit. Gives up where joining could wait for ever: when a body called exit(), or another
    /// thread's call does not end. Those workers then end with the process.
    void stop() {
        stopped_.store(true);
        if (inside_body) return;
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
        while (busy_.exchange(true)) {
            if (std::chrono::steady_clock::now() > end) return;
            std::this_thread::yield();
        }
        state_.fetch_add(one_generation);
        state_.notify_all();
        for (std::thread& worker : *workers_) worker.join();
        workers_->clear();
    }

private:
    static constexpr uint32_t inside_mask = 0x1ff, open_bit = 0x200, one_generation = 0x400;
    static_assert(max_threads <= inside_mask);

    struct Job {
        const Body* body = nullptr;
        int64_t n = 0, chunk = 0;
        alignas(64) std::atomic<int64_t> next{0};
        std::atomic<bool> failed{false};
        std::exception_ptr error;  // written by whoever sets `failed` first
    };

    void take_chunks() noexcept {
        inside_body = true;
        for (;;) {
            const int64_t begin = job_.next.fetch_add(job_.chunk, std::memory_order_relaxed);
            if (begin >= job_.n) break;
            try {
                (*job_.body)(begin, std::min(begin + job_.chunk, job_.n));
            } catch (...) {
                if (!job_.failed.exchange(true)) job_.error = std::current_exception();
                job_.next.store(job_.n, std::memory_order_relaxed);
            }
        }
        inside_body = false;
    }

    void wait_for_workers() {
        const auto empty = [this] { return (state_.load() & inside_mask) == 0; };
        if (spin_until(empty)) return;
        caller_sleeps_.store(true);
        for (uint32_t now = state_.load(); now & inside_mask; now = state_.load()) state_.wait(now);
        caller_sleeps_.store(false);
    }

    /// Workers block all signals, so that they interrupt the thread that waits for them: Python's
    /// main thread.
    void start_workers(int count) {
        if (static_cast<int>(workers_->size()) >= count) return;
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        try {
            while (static_cast<int>(workers_->size()) < count)
                workers_->emplace_back(&WorkerPool::work, this, static_cast<int>(workers_->size()),
                                       state_.load());
        } catch (const std::system_error&) {
            // No more threads to be had: go on with those there are.
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }

    /// A worker's life. `seen` is the last state whose generation it is done with.
    void work(int id, uint32_t seen) {
        const auto fresh = [](uint32_t now, uint32_t old) {
            return now / one_generation != old / one_generation;
        };
        for (;;) {
            const auto called = [&] { return fresh(state_.load(), seen); };
            if (id >= limit_.load(std::memory_order_relaxed) || !spin_until(called))
                for (uint32_t now = state_.load(); !fresh(now, seen); now = state_.load())
                    state_.wait(now);
            if (stopped_.load()) return;
            uint32_t now = state_.load();
            bool entered = false;
            while ((now & open_bit) && id < limit_.load(std::memory_order_relaxed) && !entered)
                entered = state_.compare_exchange_weak(now, now + 1);
            seen = now;
            if (!entered) continue;
            take_chunks();
            if (((state_.fetch_sub(1) - 1) & inside_mask) == 0 && caller_sleeps_.load())
                state_.notify_all();
        }
    }

    alignas(64) std::atomic<uint32_t> state_{0};
    std::atomic<bool> caller_sleeps_{false};
    std::atomic<int> limit_{0};
    alignas(64) std::atomic<bool> busy_{false};
    std::atomic<bool> stopped_{false};
    Job job_;  // belongs to the thread that set busy_, and to workers that are inside
    std::vector<std::thread>* workers_ = new std::vector<std::thread>;
};

std::atomic<int> thread_count{0};  // 0: not yet asked for

/// Never destroyed: a static destructor may still compute, and then runs serially.
WorkerPool& pool() {
    static WorkerPool* const instance = [] {
        auto* made = new WorkerPool;
        pthread_atfork(nullptr, nullptr, [] { pool().forget_workers(); });
        std::atexit([] { pool().stop(); });
        return made;
    }();
    return *instance;
}

}  // namespace

void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> body) {
    if (n <= 0) return;
    grain = std::max<int64_t>(1, grain);
    if (n > grain && !inside_body) {
        const int threads = get_num_threads();
        if (threads > 1 && pool().run(n, grain, body, threads)) return;
    }
    body(0, n);
}

int get_num_threads() {
    int count = thread_count.load(std::memory_order_relaxed);
    if (count > 0) return count;
    const int fallback = default_threads();
    return thread_count.compare_exchange_strong(count, fallback) ? fallback : count;
}

void set_num_threads(int count) { thread_count.store(std::clamp(count, 1, max_threads)); }

bool in_parallel_region() { return inside_body; }

}  // namespace weft
