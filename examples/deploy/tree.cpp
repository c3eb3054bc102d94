/// A model over trees from C++: every thread scores trees of its own, each of another shape.
///
///     make libweft
///     W="-Ibuild/libweft/include -Lbuild/libweft/lib -lweft -Wl,-rpath,$PWD/build/libweft/lib"
///     c++ -std=c++20 examples/deploy/tree.cpp -o tree $W
///     ./tree tree.weft "(3 (1 2))" "((0 1) (2 3))"
///
/// The program's `forward` takes a tree, a number at a leaf and a pair [left, right] elsewhere, and calls itself for
/// both sides. The trees here are this program's own; for the call they become lists in lists.
#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <weft.h>

namespace {

struct Tree {
    int word = 0;
    std::unique_ptr<Tree> left, right;  ///< both or none
};

/// "3" or "(left right)".
std::unique_ptr<Tree> parse(const char*& text) {
    const auto skip = [&] {
        while (*text == ' ') ++text;
    };
    auto tree = std::make_unique<Tree>();
    skip();
    if (*text == '(') {
        ++text;
        tree->left = parse(text);
        tree->right = parse(text);
        skip();
        if (*text++ != ')') throw std::runtime_error("expected ')'");
        return tree;
    }
    if (!std::isdigit(static_cast<unsigned char>(*text)))
        throw std::runtime_error("expected a number or '('");
    while (std::isdigit(static_cast<unsigned char>(*text)))
        tree->word = 10 * tree->word + *text++ - '0';
    return tree;
}

/// A tree as a value; what pairs point at lies in `pairs`.
weft_value value_of(const Tree& tree, std::deque<std::vector<weft_value>>& pairs) {
    if (!tree.left) return weft_int(tree.word);
    const weft_value left = value_of(*tree.left, pairs), right = value_of(*tree.right, pairs);
    return weft_list(pairs.emplace_back(std::vector{left, right}).data(), 2);
}

struct Failure : std::runtime_error {
    explicit Failure(weft_error& e)
        : std::runtime_error(std::string(e.trace) + e.kind + ": " + e.message) {
        weft_error_clear(&e);
    }
};

/// Handles that free themselves.
struct FreeProgram {
    void operator()(weft_program* p) const { weft_program_free(p); }
};
struct FreeContext {
    void operator()(weft_context* c) const { weft_context_free(c); }
};
using Program = std::unique_ptr<weft_program, FreeProgram>;
using Context = std::unique_ptr<weft_context, FreeContext>;

Program load(const char* path) {
    weft_program* program = nullptr;
    weft_error error{};
    if (weft_load(path, &program, &error)) throw Failure(error);
    return Program(program);
}

Context context_of(weft_program* program) {
    weft_context* context = nullptr;
    weft_error error{};
    if (weft_context_new(program, &context, &error)) throw Failure(error);
    return Context(context);
}

/// What `forward` returns for a tree: a tensor with one number.
float score(weft_context* context, const Tree& tree) {
    std::deque<std::vector<weft_value>> pairs;
    const weft_value argument = value_of(tree, pairs);
    weft_value result;
    weft_error error{};
    if (weft_run(context, "forward", &argument, 1, nullptr, &result, &error)) throw Failure(error);
    const float out = *static_cast<const float*>(result.as.tensor.data->data);
    weft_value_clear(&result);
    return out;
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc < 3) {
        std::fprintf(stderr, "usage: %s FILE TREE...\n", argv[0]);
        return 2;
    }
    const Program program = load(argv[1]);
    std::vector<std::unique_ptr<Tree>> trees;
    for (int k = 2; k < argc; ++k) {
        const char* text = argv[k];
        trees.push_back(parse(text));
    }
    std::vector<float> scores(trees.size());
    std::vector<std::string> errors(trees.size());
    std::atomic<size_t> next = 0;
    const auto work = [&] {
        Context context;
        for (size_t k = next++; k < trees.size(); k = next++) try {
                if (!context) context = context_of(program.get());
                scores[k] = score(context.get(), *trees[k]);
            } catch (const std::exception& e) {
                errors[k] = e.what();
            }
    };
    std::vector<std::thread> threads;
    for (unsigned k = 0; k < std::max(2u, std::thread::hardware_concurrency()); ++k)
        threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    int status = 0;
    for (size_t k = 0; k < trees.size(); ++k) {
        if (errors[k].empty()) {
            std::printf("%.5f\n", static_cast<double>(scores[k]));
        } else {
            std::fprintf(stderr, "%s\n", errors[k].c_str());
            status = 1;
        }
    }
    return status;
} catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
