/// The saved model from C++.
///
///     make libweft
///     W="-Ibuild/libweft/include -Lbuild/libweft/lib -lweft -Wl,-rpath,$PWD/build/libweft/lib"
///     c++ -std=c++20 examples/deploy/run.cpp -o run $W
///     ./run model.weft 0.5 -1 2 1.5
///
/// The program's `forward` takes numbers, float32 [n], and returns a tuple: float32 [1], and an int.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <weft.h>

namespace {

/// Throws what a function of weft failed with.
struct Check {
    weft_error error{};
    void operator()(int status) {
        if (status == 0) return;
        const std::string what = std::string(error.trace) + error.kind + ": " + error.message;
        weft_error_clear(&error);
        throw std::runtime_error(what);
    }
};

/// A saved model, for one thread.
class Reader {
public:
    explicit Reader(const char* path) {
        Check check;
        weft_program* program = nullptr;
        check(weft_load(path, &program, &check.error));
        const std::unique_ptr<weft_program, decltype(&weft_program_free)> owner(program,
                                                                                weft_program_free);
        weft_context* context = nullptr;
        check(weft_context_new(program, &context, &check.error));
        context_.reset(context);
    }

    /// How sure it is that the sum is positive, and how often it thought.
    std::pair<float, int64_t> operator()(std::vector<float>& numbers) const {
        Check check;
        auto n = static_cast<int64_t>(numbers.size());
        DLTensor row = weft_dense(numbers.data(), weft_float32(), 1, &n);
        const weft_value argument = weft_tensor(&row);
        weft_value result;
        check(weft_run(context_.get(), "forward", &argument, 1, nullptr, &result, &check.error));
        const std::unique_ptr<weft_value, decltype(&weft_value_clear)> owner(&result,
                                                                             weft_value_clear);
        if (result.kind != WEFT_TUPLE || result.as.list.size != 2)
            throw std::runtime_error("expected a tuple of two");
        const weft_value &found = result.as.list.items[0], &thoughts = result.as.list.items[1];
        if (found.kind != WEFT_TENSOR || thoughts.kind != WEFT_INT)
            throw std::runtime_error("expected a tensor and an int");
        return {*static_cast<const float*>(found.as.tensor.data->data), thoughts.as.integer};
    }

private:
    std::unique_ptr<weft_context, decltype(&weft_context_free)> context_{nullptr,
                                                                         weft_context_free};
};

}  // namespace

int main(int argc, char** argv) try {
    if (argc < 3) {
        std::fprintf(stderr, "usage: %s FILE NUMBER...\n", argv[0]);
        return 2;
    }
    std::vector<float> numbers;
    for (int k = 2; k < argc; ++k) numbers.push_back(std::strtof(argv[k], nullptr));
    const Reader reader(argv[1]);
    const auto [probability, thoughts] = reader(numbers);
    std::printf("%.4f %lld\n", static_cast<double>(probability), static_cast<long long>(thoughts));
    return 0;
} catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
