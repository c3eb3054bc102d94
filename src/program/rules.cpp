#include "program/rules.h"

#include <algorithm>

#include "autograd/fit.h"
#include "autograd/meta.h"
#include "autograd/op_node.h"
#include "ops/functions.h"
#include "program/step_call.h"

namespace weft::program {

SaveMask saves_of(const Segment& segment, const Step& step) {
    SaveMask mask = 0;
    for (int k = 0; k < step.operands; ++k) {
        const int32_t v = segment.operand(step, k);
        if (v >= 0 && segment.value(v).wants_grad && step.op->differentiable(k))
            mask |= step.op->saves_for(k);
    }
    return mask;
}

RuleRun::RuleRun(const Segment& segment, const Parts& parts, int32_t part, const uint8_t* wanted)
    : segment_(segment), parts_(parts), part_(part), edge_of_(segment.values.size(), -1),
      leads_(segment.values.size()), sums_(segment.values.size()) {
    const SegmentPart& p = this->part();
    sums.resize(p.edges.size());
    ran.resize(p.steps.size());
    for (size_t e = 0; e < p.edges.size(); ++e) {
        edge_of_[static_cast<size_t>(p.edges[e])] = static_cast<int32_t>(e);
        leads_[static_cast<size_t>(p.edges[e])] = wanted[e];
    }
    for (int32_t i : p.steps) {
        const Step& step = segment.steps[static_cast<size_t>(i)];
        if (!any_needed(step)) continue;
        for (int32_t k = 0; k < step.outs; ++k) {
            const auto v = static_cast<size_t>(step.first_out + k);
            if (segment.values[v].wants_grad && parts.part_of[v] == part) leads_[v] = 1;
        }
    }
}

bool RuleRun::leads(const Step& step, int k) const {
    const int32_t v = segment_.operand(step, k);
    return v >= 0 && leads_[static_cast<size_t>(v)] && step.op->differentiable(k);
}

bool RuleRun::any_needed(const Step& step) const {
    for (int k = 0; k < step.operands; ++k)
        if (leads(step, k)) return true;
    return false;
}

void RuleRun::add_product(GradBuffer& to, const Tensor& a, const Tensor& b) {
    // as the engine does, whose sum is over rows that lie one behind the other
    to.add(ops::matmul(ops::transpose(ops::contiguous(a), 0, 1), ops::contiguous(b)));
}

Tensor RuleRun::remade(int32_t value) {
    for (const auto& [v, t] : remade_)
        if (v == value) return t;
    const Step& step = segment_.steps[static_cast<size_t>(segment_.value(value).step)];
    // casts are steps of their own
    const ModeGuard plain(0, kGradMode | kAutocastMode | kAutocastHalfMode);
    Tensor made;  // of one result (Parts)
    call_step(
        segment_, step,
        [&](int32_t v) {
            const Tensor* n = number(v);
            return n ? *n : v < 0 ? Tensor() : base(v);
        },
        [&](int32_t) -> Tensor& { return made; });
    return remade_.emplace_back(value, std::move(made)).second;
}

const Tensor* RuleRun::number(int32_t v) const {
    if (v < 0) return nullptr;
    const SegmentValue& value = segment_.value(v);
    const bool is_one = value.kind == SegmentValue::Kind::Constant && value.layout.has(kWrapped);
    return is_one ? &value.layout : nullptr;
}

/// What the rule of a step sees.
class RuleRun::Context final : public Grad {
public:
    Context(RuleRun& run, const Step& step, std::vector<Tensor>& grads)
        : run_(run), segment_(run.segment_), step_(step), mask_(saves_of(run.segment_, step)),
          results_(static_cast<size_t>(step.operands)) {
        op_ = step.op;
        grads_ = grads.data();
        attrs_ = segment_.attrs.data() + step.first_attr;
        for (int k = 0; k < step.operands; ++k)
            if (!run.leads(step, k)) unneeded_.add(k);
    }
    Dims in_shape(int i) const override {
        const int32_t v = segment_.operand(step_, i);
        return v < 0 ? Dims() : Dims(segment_.layout(v).shape());
    }
    Dims in_layout(int) const override {
        fail(ErrorKind::Runtime, op_->name, "a rule that depends on sizes",
             "one that asks where memory lies");
    }
    Dims out_shape(int k) const override { return Dims(out_layout(k).shape()); }
    DType out_dtype(int k) const override { return out_layout(k).dtype(); }
    int inputs() const override { return step_.operands; }
    Tensor constant_in(int i, Tensor gradient, const char* node, bool zero) const override {
        static const ops::Function op{"_constant_in"};
        if (!(mode & kGradMode) || !gradient.defined()) return gradient;
        const int32_t v = segment_.operand(step_, i);
        if (v < 0 || !segment_.value(v).wants_grad) return gradient;
        if (!zero && requires_grad(gradient)) return gradient;
        Tensor out = op(gradient, run_.place(v), zero);
        if (out.has(kPending)) return out;
        if (auto* made = dynamic_cast<OpNode*>(grad_fn(out).get())) made->rename(node);
        return out;
    }
    void set(int i, Tensor value) override { results_[static_cast<size_t>(i)] = std::move(value); }
    void set_product(int i, const Tensor& a, const Tensor& b) override {
        const int32_t v = segment_.operand(step_, i), edge = run_.edge_of(v);
        if (!run_.hands_over() || !is_wide_floating(a.dtype()))
            set(i, ops::matmul(ops::transpose(a, 0, 1), b));
        else if (edge < 0) run_.add_product(run_.sums_[static_cast<size_t>(v)], a, b);
        else if (!run_.hands_over_product(a.size(0)))
            run_.add_product(run_.sums[static_cast<size_t>(edge)], a, b);
        else run_.summands.products.push_back({edge, a, b});
    }
    using Grad::set_part;
    bool set_part(int i, const Tensor& grad, PartRule add, const Tensor& where) override {
        const int32_t v = segment_.operand(step_, i), edge = run_.edge_of(v);
        if (!needs(i)) return true;
        if (edge < 0 || !run_.hands_over() || !is_wide_floating(grad.dtype()) ||
            grad.dtype() != segment_.layout(v).dtype())
            return false;
        run_.summands.parts.push_back({edge, grad, where, add, attrs_, i});
        return true;
    }
    /// Sums up what the rule gave.
    void take(int i) {
        Tensor& result = results_[static_cast<size_t>(i)];
        if (!result.defined()) return;
        const int32_t v = segment_.operand(step_, i), edge = run_.edge_of(v);
        const Tensor& like = segment_.layout(v);
        if (result.dtype() != like.dtype() || !equal(result.shape(), like.shape()))
            fit_to([&] { return op_->node_name; }, like.shape(), like.dtype(), result, i);
        auto& to =
            edge >= 0 ? run_.sums[static_cast<size_t>(edge)] : run_.sums_[static_cast<size_t>(v)];
        to.add(std::move(result));
    }

protected:
    Tensor saved(int bit) const override {
        if (!(mask_ >> bit & 1))
            fail(ErrorKind::Runtime, op_->name, "a gradient rule that reads what its record saves",
                 text(bit < 16 ? "input " : "output ", bit & 15), "add it to the rule's SaveMask");
        const int32_t v = bit < 16 ? segment_.operand(step_, bit) : step_.first_out + bit - 16;
        const Tensor* number = run_.number(v);
        return number ? *number : v < 0 ? Tensor() : run_.saved(v);
    }

private:
    const Tensor& out_layout(int k) const { return segment_.layout(step_.first_out + k); }

    RuleRun& run_;
    const Segment& segment_;
    const Step& step_;
    const SaveMask mask_;
    std::vector<Tensor> results_;
};

void RuleRun::run() {
    for (size_t i = part().steps.size(); i-- > 0;)
        run_step(segment_.steps[static_cast<size_t>(part().steps[i])], i);
}

void RuleRun::run_step(const Step& step, size_t number) {
    std::vector<Tensor> grads(static_cast<size_t>(step.outs));
    bool any = false;
    for (int32_t k = 0; k < step.outs; ++k) {
        const auto v = static_cast<size_t>(step.first_out + k);
        if (parts_.part_of[v] == part_) grads[static_cast<size_t>(k)] = sums_[v].take();
        any |= grads[static_cast<size_t>(k)].defined();
    }
    if (!any || !any_needed(step)) return;
    Context g(*this, step, grads);
    asks_ = &grads;
    ran[number] = saves_of(segment_, step) != 0;
    if (step.op->joint) {
        step.op->joint(g);
    } else {
        for (int i = 0; i < step.operands; ++i)
            if (g.needs(i)) g.set(i, step.op->grads[static_cast<size_t>(i)](g));
    }
    for (int i = 0; i < step.operands; ++i)
        if (g.needs(i)) g.take(i);
}

}  // namespace weft::program
