/// A segment: primitive calls in order, on numbered values of which only the layouts are known.
///
/// A tracer writes it (trace.h), a plan runs it (plan.h). A value is an input, a constant (a tensor with
/// memory that was there before), the result of a step, or a view of another value. Steps that make views
/// are kept too, for the text and for gradient rules, though nothing runs for them.
#pragma once
#include <vector>

#include "base/site.h"
#include "ops/op.h"

namespace weft::program {

struct SegmentValue {
    enum class Kind : uint8_t { Input, Constant, Result, View };
    Kind kind;
    bool wants_grad = false;
    int32_t of =
        -1;  ///< Input: its place among the inputs; View: the value that it shows a part of
    int64_t offset = 0;  ///< View: bytes from the first element of `of` to its own
    int32_t step = -1;   ///< Result, View: what makes it; -1 of a View: detach()
    uint32_t writes =
        0;  ///< Result: of how many writes, one over the other, it is what came out (Note [Writes])
    Tensor layout;  ///< without memory; Constant: the tensor itself
};

struct Step {
    const Op* op = nullptr;
    int32_t first_operand = 0, operands = 0;  ///< in Segment::operands
    int32_t first_attr = 0;                   ///< in Segment::attrs
    int32_t first_out = 0, outs = 0;          ///< its values, one behind the other
    bool recorded = false;                    ///< made in grad mode
    Site site{};
};

/// Sizes and strides lie one behind the other; they are few, and this is asked with each run.
inline bool laid_out_alike(const TensorImpl& a, const TensorImpl& b) {
    if (a.dtype != b.dtype || a.ndim != b.ndim ||
        ((a.flags ^ b.flags) & (kWrapped | kPending | kMeta)))
        return false;
    for (int i = 0; i < 2 * a.ndim; ++i)
        if (a.dims[i] != b.dims[i]) return false;
    return true;
}

class Segment {
public:
    uint32_t refs = 0;
    std::vector<SegmentValue> values;
    std::vector<Step> steps;
    std::vector<int32_t> operands;  ///< values; -1: an optional operand that is not given
    std::vector<Value> attrs;
    std::vector<int32_t> inputs, outputs;

    const SegmentValue& value(int32_t v) const { return values[static_cast<size_t>(v)]; }
    const Tensor& layout(int32_t v) const { return value(v).layout; }
    /// Operand i of a step.
    int32_t operand(const Step& s, int i) const {
        return operands[static_cast<size_t>(s.first_operand + i)];
    }
    /// The value in whose memory `v` lies, and after how many bytes.
    struct Place {
        int32_t root;
        int64_t offset;
    };
    Place place_of(int32_t v) const;

    /// Whether a run draws random numbers.
    bool draws() const;

    /// Whether a tensor is laid out as input i, and has memory.
    bool input_fits(size_t i, const Tensor& t) const {
        return laid_out_alike(*t.impl(), *layout(inputs[i]).impl());
    }
    /// The same of all.
    bool inputs_fit(const Tensor* tensors, size_t count) const;

    Ref<Segment> copy() const;

    /// A line for each value: "%3 = tanh(%2) : float32[4, 64]".
    std::string text() const;
};
inline void release(Segment* segment) { delete segment; }

}  // namespace weft::program
