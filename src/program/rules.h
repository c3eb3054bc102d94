/// The gradient rules of a part's steps, run backwards: on traced tensors, which makes a segment of them,
/// or on tensors with values, as the engine runs the nodes of single calls.
#pragma once
#include "autograd/grad_buffer.h"
#include "program/parts.h"

namespace weft::program {

class RuleRun {
public:
    /// `wanted`: by edge.
    RuleRun(const Segment& segment, const Parts& parts, int32_t part, const uint8_t* wanted);
    virtual ~RuleRun() = default;
    RuleRun(const RuleRun&) = delete;

    /// The gradient of a value of the part.
    void give(int32_t value, Tensor grad) {
        sums_[static_cast<size_t>(value)].add(std::move(grad));
    }
    void run();

    /// What comes to the edges.
    std::vector<GradBuffer> sums;
    Summands summands;
    /// By step of the part: whether its rule was asked, and saves something.
    std::vector<uint8_t> ran;

protected:
    /// A value that a rule reads.
    virtual Tensor saved(int32_t value) = 0;
    /// One that another is made again of: no rule may read it in this pass, and it may have been written.
    virtual Tensor base(int32_t value) { return saved(value); }
    /// A tensor at the place that the value has in the graph, whose values nobody reads.
    virtual Tensor place(int32_t value) = 0;
    /// Whether products and parts go to `summands`.
    virtual bool hands_over() const { return true; }
    /// Whether a product of so many rows is left to the engine: it stacks those of few.
    virtual bool hands_over_product(int64_t) const { return true; }
    /// a^T b for a value within the part.
    virtual void add_product(GradBuffer& to, const Tensor& a, const Tensor& b);

    /// The root `value`, which is to be made again.
    Tensor remade(int32_t value);

    int32_t edge_of(int32_t value) const { return edge_of_[static_cast<size_t>(value)]; }

    const Segment& segment_;
    const Parts& parts_;
    const int32_t part_;
    const std::vector<Tensor>* asks_ = nullptr;  ///< the gradients of the step whose rule runs

private:
    class Context;
    const SegmentPart& part() const { return parts_.all[static_cast<size_t>(part_)]; }
    bool leads(const Step& step, int k) const;
    bool any_needed(const Step& step) const;
    void run_step(const Step& step, size_t number);
    /// `value` if it is a number.
    const Tensor* number(int32_t value) const;

    std::vector<int32_t> edge_of_;  ///< by value; -1
    std::vector<uint8_t> leads_;    ///< by value: whether its gradient is of use
    std::vector<GradBuffer> sums_;  ///< by value
    std::vector<std::pair<int32_t, Tensor>> remade_;
};

/// What the rules of those operands that want a gradient declare as saved.
SaveMask saves_of(const Segment& segment, const Step& step);

}  // namespace weft::program
