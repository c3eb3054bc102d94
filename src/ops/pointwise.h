/// Shape rule and runner shared by all pointwise ops: promotion, broadcasting, layout.
#pragma once
#include "kernels/map.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/loop.h"

namespace weft::ops {

/// dtype of a pointwise result, given the dtype the op computes in.
enum class Result : uint8_t {
    Same,   ///< the promoted dtype
    Float,  ///< integers and bools become the default dtype first
    Bool,   ///< a comparison: computes in the promoted dtype, gives bool
};

inline constexpr DType kDefaultDType = DType::Float32;
/// The floating dtype that integers become; torch.set_default_dtype changes it.
inline DType default_dtype = kDefaultDType;

/// PyTorch's promotion over the defined inputs: dimensioned tensors, then 0-d tensors, then
/// numbers; a lower class counts only if its category is higher.
DType promoted(const Tensor* in, int inputs);

template <Result R>
DType compute_dtype(const Call& c) {
    DType t = c.in[0].dtype();
    bool alike = !c.in[0].has(kWrapped);
    for (int i = 1; i < c.inputs; ++i) alike &= c.in[i].dtype() == t;
    if (!alike) t = promoted(c.in, c.inputs);
    if (R == Result::Float && !is_inexact(t)) t = default_dtype;
    return t;
}

/// Lays out the result of broadcasting all inputs, of `dtype`, in the memory order of the first
/// input that has the result's shape.
void pointwise_layout(Call& c, DType dtype);

/// The shape rule.
template <Result R>
void pointwise(Call& c) {
    pointwise_layout(c, R == Result::Bool ? DType::Bool : compute_dtype<R>(c));
}

/// Elements per parallel piece: below it a second thread costs more than it saves.
inline constexpr int64_t kPointwiseGrain = 32768;

/// Runs `loop` over c.out(0) and operands already of the loop's dtypes.
void run_map(kernels::MapLoop loop, const void* f, const Tensor& out, const Tensor* in, int inputs);
/// The same for the kernel of `c`.
template <class F>
void run_map_of(Call& c, kernels::MapLoop loop, const F& f, const Tensor* in, int inputs) {
    static_assert(sizeof(F) <= LoopCall::kFunctorBytes);
    if (c.finds_loop) return found_loop(c, loop, &f, sizeof(F), in, inputs);
    run_map(loop, &f, c.out(0), in, inputs);
}

/// How many inputs a loop has, and of how many bytes its functor is.
struct LoopSize {
    uint8_t inputs, functor;
};
/// The same over the inputs of `c`, converted to `dtype` where they are of another.
void run_map_as(DType dtype, kernels::MapLoop loop, const void* f, Call& c, LoopSize size);

/// Converts the inputs to T where needed and applies f. Out = bool for Result::Bool.
template <class T, class Out, int N, class F>
void map_inputs(Call& c, const F& f) {
    auto loop = []<size_t... I>(std::index_sequence<I...>) {
        return kernels::map_loop<F, Out, std::enable_if_t<(I >= 0), T>...>();
    }(std::make_index_sequence<N>{});
    static_assert(sizeof(F) <= LoopCall::kFunctorBytes);
    run_map_as(dtype_of<T>, loop, &f, c, {N, sizeof(F)});
}

/// The kernel of a pointwise op with functor F over N tensors of the dtypes in Set.
template <class F, class Set, Result R, int N>
inline void map_kernel(Call& c) {
    dispatch<Set>(compute_dtype<R>(c), c.op->public_name, [&]<class T>() {
        using Out = std::conditional_t<R == Result::Bool, bool, T>;
        map_inputs<T, Out, N>(c, F{});
    });
}

/// Name, shape rule, kernel and the properties that every pointwise op has.
template <class F, class Set, Result R, int N>
OpBuilder pointwise_op(Table& table, std::string_view schema,
                       std::source_location where = std::source_location::current()) {
    return table.add(schema, where)
        .shape(pointwise<R>)
        .kernel(map_kernel<F, Set, R, N>)
        .pointwise()
        .strided_output()
        .out_form();
}

}  // namespace weft::ops
