#include "program/record.h"

#include <algorithm>

#include "autograd/meta.h"
#include "ops/batch.h"
#include "ops/functions.h"
#include "program/local_array.h"
#include "program/rows.h"
#include "program/step_call.h"

namespace weft::program {

using Kind = SegmentValue::Kind;

class SegmentOp final : public ops::MadeOp {
public:
    SegmentOp(Ref<Segment> segment, const std::vector<uint8_t>& captured);

    /// The record of several calls that have these inputs in common; null where they do not merge.
    const Op* over_rows(const std::vector<uint8_t>& shared) const;
    const Segment& segment() const { return *segment_; }
    /// Whether calls merge that have no more in common than they must.
    bool merges() const { return over_rows(always_shared_) != nullptr; }
    void run(const Tensor* inputs, Tensor* outputs) const;
    void forget_plan() { plan_ = nullptr; }
    bool pays() const { return batches_ < 16 || merged_ >= 6 * batches_; }

private:
    /// Several calls as one.
    struct OverRows;
    const Ref<Segment> segment_;
    mutable Ref<DifferentiablePlan> plan_;  ///< once it has run alone
    std::vector<uint8_t> always_shared_;
    mutable std::vector<std::pair<std::vector<uint8_t>, std::shared_ptr<OverRows>>> over_;
    bool is_dense_ = true;                      ///< all outputs are
    mutable int64_t batches_ = 0, merged_ = 0;  ///< calls over rows, and of how many each
};

/// Shared inputs come as they are, others as rows of [calls, …].
struct SegmentOp::OverRows final : ops::MadeOp {
    OverRows(const SegmentOp& of, std::unique_ptr<SegmentRows> rows, size_t own);
    void run(Call& c) const;

    const SegmentOp& of;  ///< which has this one
    const std::unique_ptr<SegmentRows> rows;
    const size_t own;  ///< an input that is not shared
};

namespace {

const SegmentOp& op_of(const Call& c) { return static_cast<const SegmentOp&>(*c.op); }

void lay_out(Call& c) {
    const Segment& s = op_of(c).segment();
    for (int32_t v : s.outputs) c.add(Tensor::layout_like(s.layout(v), s.layout(v).dtype()));
}

void run_segment(Call& c) {
    LocalArray<Tensor, 8> outputs(op_of(c).segment().outputs.size());
    op_of(c).run(c.in, outputs.data());
    for (Tensor& t : outputs) c.add(std::move(t));
}

/// Nobody asks it: what the body calls has nodes.
void no_rule(Grad&) {}

constexpr const char* kNodeName = "CompiledBackward0";

/// The shape of the rows of an input: ones before it say nothing.
DimSpan row_of(const Tensor& t) {
    DimSpan shape = t.shape();
    while (!shape.empty() && shape[0] == 1) shape = shape.subspan(1);
    return shape;
}

bool find_rows(const BatchCall& c, BatchForm& form) {
    std::vector<uint8_t> shared;
    for (int i = 0; i < c.inputs(); ++i) shared.push_back(c.fixed(i));
    form.op = op_of(c.call).over_rows(shared);
    if (!form.op) return false;
    for (int i = 0; i < c.inputs(); ++i) {
        if (c.fixed(i)) form.add_shared(i);
        else form.add_rows(i, row_of(c.in(i)));
    }
    return true;
}

void describe(ops::MadeOp& op, const Segment& s) {
    op.name = op.public_name = "compiled";
    op.node_name = kNodeName;
    op.inputs = static_cast<int>(s.inputs.size());
    op.outputs = static_cast<int>(s.outputs.size());
    op.calls = 0;
    for (const Step& step : s.steps) op.calls += !step.op->view;
}

/// Whether an input is a weight to some step: calls merge only if it is one tensor.
bool is_weight(const Segment& s, int32_t input) {
    for (const Step& step : s.steps)
        for (int k = 0; k < step.operands; ++k) {
            const int32_t v = s.operand(step, k);
            if (v >= 0 && step.op->batch_shared.has(k) && s.place_of(v).root == input) return true;
        }
    return false;
}

}  // namespace

SegmentOp::OverRows::OverRows(const SegmentOp& of, std::unique_ptr<SegmentRows> rows, size_t own)
    : of(of), rows(std::move(rows)), own(own) {
    describe(*this, of.segment());
    body = [](Call& c) { static_cast<const OverRows&>(*c.op).run(c); };
}

void SegmentOp::OverRows::run(Call& c) const {
    const Segment& s = of.segment();
    LocalArray<Tensor, 8> outputs(s.outputs.size());
    const int64_t calls = c.in[own].size(0);
    ++of.batches_;
    of.merged_ += calls;
    if (calls > 1 || !of.is_dense_) {  // results are what the batcher has, not copies
        rows->run(calls, c.in, outputs.data());
    } else {
        LocalArray<Tensor> in(s.inputs.size());
        for (size_t i = 0; i < in.size(); ++i) {
            const DimSpan shape = s.layout(s.inputs[i]).shape();
            in[i] = equal(c.in[i].shape(), shape) ? c.in[i] : ops::view(c.in[i], Dims(shape));
        }
        of.run(in.data(), outputs.data());
    }
    for (Tensor& t : outputs) c.add(std::move(t));
}

SegmentOp::SegmentOp(Ref<Segment> segment, const std::vector<uint8_t>& captured)
    : segment_(std::move(segment)), always_shared_(captured) {
    const Segment& s = *segment_;
    describe(*this, s);
    shape = lay_out;
    body = run_segment;
    joint = no_rule;
    joint_inputs = 0;
    backward_name = [](const Call&) { return kNodeName; };  // a record may be gone before a value
    batch = Batch::Rows;
    batch_rule = find_rows;
    for (size_t i = 0; i < s.inputs.size(); ++i) {
        always_shared_[i] |= is_weight(s, s.inputs[i]);
        if (always_shared_[i]) batch_shared.add(static_cast<int>(i));
        if (s.value(s.inputs[i]).wants_grad) joint_inputs |= 1u << i;
    }
    std::vector<uint8_t> is_used(s.values.size());
    for (const Step& step : s.steps)
        for (int k = 0; k < step.operands; ++k)
            if (const int32_t v = s.operand(step, k); v >= 0)
                is_used[static_cast<size_t>(s.place_of(v).root)] = 1;
    for (size_t k = 0; k < s.outputs.size(); ++k) {
        const int32_t v = s.outputs[k];
        if (!s.value(v).wants_grad) constant_outputs |= 1u << k;
        if (is_used[static_cast<size_t>(v)]) used |= 1u << k;
        is_dense_ &= s.layout(v).contiguous();
    }
}

const Op* SegmentOp::over_rows(const std::vector<uint8_t>& shared) const {
    for (const auto& [known, op] : over_)
        if (known == shared) return op.get();
    const auto own = std::find(shared.begin(), shared.end(), 0) - shared.begin();
    std::shared_ptr<OverRows> made;
    if (own < static_cast<ptrdiff_t>(shared.size()))
        if (auto rows = SegmentRows::make(segment_, shared))
            made = std::make_shared<OverRows>(*this, std::move(rows), static_cast<size_t>(own));
    return over_.emplace_back(shared, std::move(made)).second.get();
}

void SegmentOp::run(const Tensor* inputs, Tensor* outputs) const {
    const Ref<DifferentiablePlan> plan =
        plan_ ? plan_ : Ref<DifferentiablePlan>(new DifferentiablePlan(segment_, {}));
    if (!retired) plan_ = plan;
    if (alike(*segment_, inputs, segment_->inputs.size())) {
        try {
            return plan->run(inputs, outputs);
        } catch (const Error&) {  // its calls know the line
        }
    }
    failed = Site();
    plan->run_calls(inputs, outputs, &failed);
}

// ---- keeping

KeptSegment::KeptSegment(const DifferentiablePlan& plan, std::shared_ptr<SegmentOp> op)
    : segment_(plan.segment()), op_(std::move(op)) {
    if (!op_) {
        const std::vector<uint8_t> runs = steps_to_run(segment_);
        for (size_t i = 0; i < runs.size(); ++i)
            if (runs[i]) calls_.push_back(static_cast<int32_t>(i));
        return;
    }
    made_ = plan.parts().made;
    for (const Parts::Event& e : plan.parts().events)
        if (e.kind == Parts::Event::Kind::View) calls_.push_back(e.which);
    if (calls_.empty()) find_results();
}

KeptSegment::~KeptSegment() {
    if (!op_) return;
    op_->retire();
    op_->forget_plan();
}

void KeptSegment::find_results() {
    for (const int32_t v : segment_.outputs) {
        const auto at = std::find(made_.begin(), made_.end(), v);
        const SegmentValue& value = segment_.value(v);
        if (at != made_.end()) results_.push_back(static_cast<int32_t>(at - made_.begin()));
        else if (value.kind == Kind::Input) results_.push_back(~value.of);
        else return results_.clear();  // detach()
    }
}

std::unique_ptr<KeptSegment> KeptSegment::make(const DifferentiablePlan& plan,
                                               const std::vector<uint8_t>& captured) {
    constexpr size_t kMost = 32;  // bits of masks in a record
    const Segment& of = plan.segment();
    const std::vector<int32_t>& made = plan.parts().made;
    if (of.draws() || captured.size() > kMost || made.size() > kMost) return nullptr;
    std::shared_ptr<SegmentOp> op;
    const auto calls = std::count_if(of.steps.begin(), of.steps.end(),
                                     [](const Step& step) { return !step.op->view; });
    if (calls > 1) {
        if (made.empty()) return nullptr;
        Ref<Segment> segment = of.copy();
        segment->outputs = made;
        op = std::make_shared<SegmentOp>(std::move(segment), captured);
        if (!op->merges()) return nullptr;
    }
    return std::unique_ptr<KeptSegment>(new KeptSegment(plan, std::move(op)));
}

bool KeptSegment::pays() const { return !op_ || op_->pays(); }

void KeptSegment::run(const Tensor* inputs, Tensor* outputs) const {
    if (results_.empty()) return run_calls(inputs, outputs);
    Call c(*op_, inputs, op_->inputs, op_->defaults.data());
    ops::call(c);
    for (size_t k = 0; k < results_.size(); ++k)
        outputs[k] = results_[k] < 0 ? inputs[~results_[k]] : c.out(results_[k]);
}

void KeptSegment::run_calls(const Tensor* inputs, Tensor* outputs) const {
    LocalArray<Tensor, 32> tensors(segment_.values.size());
    auto tensor = [&](int32_t v) -> Tensor& { return tensors[static_cast<size_t>(v)]; };
    for (size_t i = 0; i < segment_.inputs.size(); ++i) tensor(segment_.inputs[i]) = inputs[i];
    if (op_) {
        Call c(*op_, inputs, op_->inputs, op_->defaults.data());
        ops::call(c);
        for (size_t k = 0; k < made_.size(); ++k)
            tensor(made_[k]) = std::move(c.out(static_cast<int>(k)));
    }
    auto find = [&](int32_t v) -> const Tensor& {
        int32_t of = v;
        while (segment_.value(of).kind != Kind::Constant && !tensor(of).defined())
            of = segment_.value(of).of;  // detach()
        const bool is_constant = segment_.value(of).kind == Kind::Constant;
        const Tensor& found = is_constant ? segment_.layout(of) : tensor(of);
        return of == v ? found : tensor(v) = outside_graph(found);
    };
    for (const int32_t i : calls_) {
        const Step& step = segment_.steps[static_cast<size_t>(i)];
        call_step(segment_, step, find, tensor);
    }
    for (size_t k = 0; k < segment_.outputs.size(); ++k) outputs[k] = find(segment_.outputs[k]);
}

bool wants_grad(const Tensor& t) {
    return t.has(kPending) ? promise(t).wants_grad(t) : requires_grad(t);
}

Tensor plain_layout(const Tensor& t) {
    return t.contiguous() ? Tensor::layout(t.dtype(), t.shape())
                          : Tensor::layout_like(t, t.dtype());
}

bool alike(const Segment& segment, const Tensor* inputs, size_t count) {
    if (count != segment.inputs.size()) return false;
    for (size_t i = 0; i < count; ++i) {
        const SegmentValue& wanted = segment.value(segment.inputs[i]);
        const Tensor &t = inputs[i], &like = wanted.layout;
        if ((t.has(kPending) && promise(t).taken_in() != kDeferMode) || t.dtype() != like.dtype() ||
            t.has(kWrapped) != like.has(kWrapped) || t.has(kMeta) ||
            !equal(t.shape(), like.shape()) || t.contiguous() != like.contiguous() ||
            (!t.contiguous() && !equal(t.strides(), like.strides())) ||
            (mode & kGradMode && wants_grad(t) != wanted.wants_grad))
            return false;
    }
    return true;
}

}  // namespace weft::program
