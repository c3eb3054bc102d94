/// The calls that steps stand for.
#pragma once
#include <vector>

#include "ops/call.h"
#include "program/local_array.h"
#include "program/segment.h"

namespace weft::program {

/// A step's call on layouts alone, for who asks its record something.
class StepOnLayouts {
public:
    StepOnLayouts(const Segment& segment, const Step& step)
        : in_(operands_of(segment, step)),
          call(*step.op, in_.data(), step.operands, segment.attrs.data() + step.first_attr) {
        for (int32_t k = 0; k < step.outs; ++k) call.add(segment.layout(step.first_out + k));
    }
    StepOnLayouts(const StepOnLayouts&) = delete;

private:
    static std::vector<Tensor> operands_of(const Segment& segment, const Step& step) {
        std::vector<Tensor> in;
        for (int k = 0; k < step.operands; ++k) {
            const int32_t v = segment.operand(step, k);
            in.push_back(v < 0 ? Tensor() : segment.layout(v));
        }
        return in;
    }
    std::vector<Tensor> in_;

public:
    Call call;
};

/// Makes a step's call: `operand(v)` gives what it is given, `result(v)` is where a result goes.
template <class Operand, class Result>
void call_step(const Segment& segment, const Step& step, Operand&& operand, Result&& result) {
    LocalArray<Tensor, 4> in(static_cast<size_t>(step.operands));
    for (int k = 0; k < step.operands; ++k)
        if (const int32_t v = segment.operand(step, k); v >= 0)
            in[static_cast<size_t>(k)] = operand(v);
    const ModeGuard recorded(0, step.recorded ? 0u : kGradMode);
    Call c(*step.op, in.data(), step.operands, segment.attrs.data() + step.first_attr);
    ops::call(c);
    for (int32_t k = 0; k < step.outs; ++k) result(step.first_out + k) = std::move(c.out(k));
}

}  // namespace weft::program
