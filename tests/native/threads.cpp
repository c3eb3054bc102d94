/// Threads with a context each, on one program: what they compute, and what they do to each other's results.
///
///     threads FILE
///
/// Prints "ok", or what went wrong. Under a sanitizer it is what looks for races.
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "c/weft.h"

namespace {

constexpr int kThreads = 4, kRounds = 20, kSize = 192;

[[noreturn]] void die(const std::string& why) {
    std::printf("%s\n", why.c_str());
    std::fflush(stdout);
    std::_Exit(1);
}
void check(bool holds, const char* what) {
    if (!holds) die(std::string("wrong: ") + what);
}

/// Results on their way to be freed by another thread.
struct Bin {
    std::mutex mutex;
    std::vector<weft_value> values;
    void put(weft_value v) {
        std::lock_guard lock(mutex);
        values.push_back(v);
    }
    void empty() {
        std::vector<weft_value> taken;
        {
            std::lock_guard lock(mutex);
            taken.swap(values);
        }
        for (weft_value& v : taken) weft_value_clear(&v);
    }
};

struct Call {
    weft_context* context;
    weft_error error{};

    bool run(const char* entry, std::vector<weft_value> args, weft_value& result) {
        return weft_run(context, entry, args.data(), args.size(), nullptr, &result, &error) == 0;
    }
    weft_value must(const char* entry, std::vector<weft_value> args) {
        weft_value result;
        if (!run(entry, std::move(args), result))
            die(std::string(entry) + ": " + error.message + error.trace);
        return result;
    }
    void must_fail(const char* entry, std::vector<weft_value> args, const char* kind) {
        weft_value result;
        check(!run(entry, std::move(args), result), "a call fails");
        if (std::strcmp(error.kind, kind)) die(std::string(entry) + ": " + error.message);
        weft_error_clear(&error);
    }
};

double sum(const weft_value& v) {
    check(v.kind == WEFT_TENSOR, "a tensor");
    const DLTensor& d = *v.as.tensor.data;
    int64_t n = 1;
    for (int k = 0; k < d.ndim; ++k) n *= d.shape[k];
    double total = 0;
    for (int64_t k = 0; k < n; ++k) total += static_cast<const float*>(d.data)[k];
    return total;
}

/// One context: products that are large enough for the pool, recursion, errors, random numbers.
void work(weft_program* program, int number, Bin& bin, std::atomic<double>& wanted) {
    Call call{nullptr};
    if (weft_context_new(program, &call.context, &call.error)) die(call.error.message);
    std::vector<float> data(kSize * kSize);
    for (size_t k = 0; k < data.size(); ++k) data[k] = static_cast<float>(k % 7) - 3;
    int64_t shape[2] = {kSize, kSize}, row[1] = {3};
    float leaf[3] = {0.5f, -1, 2};
    DLTensor x = weft_dense(data.data(), weft_float32(), 2, shape);
    DLTensor y = weft_dense(leaf, weft_float32(), 1, row);
    weft_seed(call.context, 5, &call.error);
    for (int round = 0; round < kRounds; ++round) {
        weft_value product = call.must("product", {weft_tensor(&x)});
        double none = 0;
        const double s = sum(product);
        if (!wanted.compare_exchange_strong(none, s))
            check(wanted.load() == s, "one result for all");
        bin.put(product);
        weft_value inner[2] = {weft_tensor(&y), weft_tensor(&y)};
        weft_value outer[2] = {weft_list(inner, 2), weft_tensor(&y)};
        bin.put(call.must("tree", {weft_list(outer, 2)}));
        call.must_fail("fails", {weft_int(3)}, "TypeError");
        weft_value drawn = call.must("noise", {weft_int(100)});
        check(std::isfinite(sum(drawn)), "numbers");
        weft_value_clear(&drawn);
        if (round % 8 == number % 8) bin.empty();
    }
    weft_context_free(call.context);  // some of its results are still in the bin
}

void loads(const char* path) {
    for (int k = 0; k < 5; ++k) {
        weft_program* program = nullptr;
        weft_error error{};
        if (weft_load(path, &program, &error)) die(error.message);
        weft_program_free(program);
        check(weft_load("/nothing", &program, &error) != 0, "no such file");
        weft_error_clear(&error);
    }
}

void interrupts(weft_program* program) {
    Call call{nullptr};
    if (weft_context_new(program, &call.context, &call.error)) die(call.error.message);
    float data[2] = {1, 1};
    int64_t shape[1] = {2};
    DLTensor x = weft_dense(data, weft_float32(), 1, shape);
    std::atomic<bool> done = false;
    std::thread other([&] {
        while (!done) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            weft_interrupt(call.context);
        }
    });
    for (int k = 0; k < 5; ++k) call.must_fail("endless", {weft_tensor(&x)}, "KeyboardInterrupt");
    done = true;
    other.join();
    weft_context_free(call.context);
}

/// A context goes while another thread brings back what it lent: before, in between, and after.
void ends(weft_program* program) {
    for (int round = 0; round < 100; ++round) {
        Call call{nullptr};
        if (weft_context_new(program, &call.context, &call.error)) die(call.error.message);
        std::vector<weft_value> results;
        for (int k = 0; k < 8; ++k) results.push_back(call.must("noise", {weft_int(3 + k)}));
        weft_value_clear(&results.back());
        std::atomic<bool> now = false;
        std::thread other([&] {
            while (!now) std::this_thread::yield();
            for (weft_value& v : results) weft_value_clear(&v);
        });
        now = true;
        for (int k = 0; k < round % 3; ++k) std::this_thread::yield();
        weft_context_free(call.context);
        other.join();
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    weft_program* program = nullptr;
    weft_error error{};
    if (weft_load(argv[1], &program, &error)) die(error.message);
    Bin bin;
    std::atomic<double> wanted = 0;
    weft_set_threads(2);
    std::vector<std::thread> threads;
    for (int k = 0; k < kThreads; ++k)
        threads.emplace_back(work, program, k, std::ref(bin), std::ref(wanted));
    threads.emplace_back(loads, argv[1]);
    threads.emplace_back(interrupts, program);
    threads.emplace_back(ends, program);
    for (std::thread& thread : threads) thread.join();
    weft_program_free(program);
    bin.empty();
    std::printf("ok\n");
    return 0;
}
