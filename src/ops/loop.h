/// The loop that a pointwise kernel would run, for whoever runs it himself, tile by tile.
///
/// Note [Loops]
/// A pointwise kernel chooses a functor and a loop by dtypes, attributes and numbers, converts its operands
/// to one dtype and hands all of it to `map_inputs`. Called on a `LoopCall`, whose operands with dimensions
/// have no elements, it hands them over instead: it does all that it would do, and where it does something
/// else there is nothing to do it to. A kernel that looks at elements before or after its loop says
/// `not_one_loop`.
#pragma once
#include "kernels/map.h"
#include "ops/op.h"

namespace weft::ops {

/// A call whose kernel names its loop instead of running it. Its output is not contiguous, so that calls
/// that are get past the question.
struct LoopCall : Call {
    static constexpr int kFunctorBytes = 64;

    LoopCall(const Op& op, const Tensor* in, int inputs, const Value* attrs)
        : Call(op, in, inputs, attrs) {
        finds_loop = true;
    }
    void add_output(DType dtype, DimSpan shape) {
        add(Tensor::empty(dtype, shape));
        out(0).set(kContiguous, false);
    }
    kernels::MapLoop loop = nullptr;  ///< null: the kernel is no single loop
    int operands = 0;
    Tensor operand[3];  ///< inputs, or what the kernel made of numbers among them
    DType to[3];        ///< what they are converted to first
    alignas(16) char functor[kFunctorBytes] = {};
    bool other = false;  ///< it does something else besides
};

/// For kernels: their part in a LoopCall. `to`: null if the operands are of the loop's dtypes.
void found_loop(Call& c, kernels::MapLoop loop, const void* f, size_t bytes, const Tensor* in,
                int inputs, const DType* to = nullptr);
inline void not_one_loop(Call& c) {
    if (c.finds_loop) static_cast<LoopCall&>(c).other = true;
}

/// The loop that converts elements; null if there is none in one step.
kernels::MapLoop cast_loop(DType to, DType from);

}  // namespace weft::ops
