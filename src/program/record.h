/// Segments as ops.
///
/// Note [Segments as ops]
/// In defer mode a run of a segment is one call of a record that was made of it, so that it is kept, planned and
/// merged as any call is. The record's shape rule gives the layouts of the values that the segment makes; its
/// body is the segment's plan; and its batch rule, which holds as long as each step's own does, has another
/// record run those of several calls as one (Note [Rows of segments]). Nothing is recorded of such a call
/// itself, but what its body does. Results that are views of others, or of inputs, are made of these by their
/// own calls, so that they share memory.
#pragma once
#include "ops/made.h"
#include "program/gradient.h"

namespace weft::program {

class SegmentOp;

/// A plan's segment as an op.
class KeptSegment {
public:
    /// `captured`: the inputs that are the same in all runs. Null where calls would not merge, or would gain
    /// nothing by it.
    static std::unique_ptr<KeptSegment> make(const DifferentiablePlan& plan,
                                             const std::vector<uint8_t>& captured);
    ~KeptSegment();
    KeptSegment(const KeptSegment&) = delete;

    /// As DifferentiablePlan::run, in defer mode: by one call, which is kept. Inputs may be pending.
    void run(const Tensor* inputs, Tensor* outputs) const;

    /// Whether its calls merge, as far as they have run. Where each has a layout of its own, those of the single
    /// calls in it may yet.
    bool pays() const;

private:
    KeptSegment(const DifferentiablePlan& plan, std::shared_ptr<SegmentOp> op);
    void find_results();
    void run_calls(const Tensor* inputs, Tensor* outputs) const;

    const Segment& segment_;               ///< the plan's, whose owner has this one too
    const std::shared_ptr<SegmentOp> op_;  ///< null: of one call, which is itself kept
    std::vector<int32_t> made_;            ///< values, of the record
    std::vector<int32_t> calls_;    ///< steps that are made as they are: views of what is held
    std::vector<int32_t> results_;  ///< by output: which of `made_`, or ~ of the inputs; else empty
};

/// Whether `t`, which may be pending, wants a gradient.
bool wants_grad(const Tensor& t);
/// Whether tensors, which may be pending, are laid out as the segment's inputs, but for strides where all lie densely in their order,
/// and in grad mode require grad where those do.
bool alike(const Segment& segment, const Tensor* inputs, size_t count);
/// The layout of all that are alike to `t`.
Tensor plain_layout(const Tensor& t);

}  // namespace weft::program
