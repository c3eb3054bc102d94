/// Reading guide: `find_form` says how a step runs, `Run` runs them; `make` tries with two calls.
#include "program/rows.h"

#include <algorithm>

#include "autograd/meta.h"
#include "ops/functions.h"
#include "program/local_array.h"
#include "program/step_call.h"
#include "program/trace.h"

namespace weft::program {

using Kind = SegmentValue::Kind;

std::vector<uint8_t> steps_to_run(const Segment& s) {
    std::vector<uint8_t> needed(s.values.size()), steps(s.steps.size());
    auto need = [&](int32_t v) {
        for (; !needed[static_cast<size_t>(v)]; v = s.value(v).of) {
            needed[static_cast<size_t>(v)] = 1;
            if (s.value(v).kind != Kind::View) return;
        }
    };
    for (int32_t v : s.outputs) need(v);
    for (size_t i = steps.size(); i-- > 0;) {
        const Step& step = s.steps[i];
        steps[i] = !step.op->view;
        for (int32_t k = 0; k < step.outs; ++k)
            steps[i] |= needed[static_cast<size_t>(step.first_out + k)];
        for (int k = 0; steps[i] && k < step.operands; ++k)
            if (const int32_t v = s.operand(step, k); v >= 0) need(v);
    }
    return steps;
}

Tensor outside_graph(const Tensor& t) {
    return t.has(kPending) ? promise(t).detached(t) : detach(t);
}

SegmentRows::SegmentRows(Ref<Segment> segment, std::vector<uint8_t> shared)
    : segment_(std::move(segment)), shared_(segment_->values.size()) {
    for (size_t i = 0; i < shared.size(); ++i)
        shared_[static_cast<size_t>(segment_->inputs[i])] = shared[i];
}

std::unique_ptr<SegmentRows> SegmentRows::make(Ref<Segment> segment, std::vector<uint8_t> shared) {
    std::unique_ptr<SegmentRows> rows(new SegmentRows(std::move(segment), std::move(shared)));
    return rows->find_forms() && rows->runs() ? std::move(rows) : nullptr;
}

bool SegmentRows::is_shared(int32_t v) const {
    while (segment_->value(v).kind == Kind::View && segment_->value(v).step < 0)
        v = segment_->value(v).of;
    return segment_->value(v).kind == Kind::Constant || shared_[static_cast<size_t>(v)];
}

bool SegmentRows::is_output(int32_t v) const {
    const std::vector<int32_t>& all = segment_->outputs;
    return std::find(all.begin(), all.end(), v) != all.end();
}

bool SegmentRows::find_forms() {
    const Segment& s = *segment_;
    const std::vector<uint8_t> runs = steps_to_run(s);
    for (size_t i = 0; i < runs.size(); ++i) {
        if (!runs[i]) continue;
        const Step& step = s.steps[i];
        StepOnLayouts on(s, step);
        StepRows rows{.step = static_cast<int32_t>(i)};
        if (!find_form(rows, on.call)) return false;
        for (int32_t k = 0; k < step.outs; ++k)
            shared_[static_cast<size_t>(step.first_out + k)] = rows.same;
        steps_.push_back(std::move(rows));
    }
    return true;
}

bool SegmentRows::find_form(StepRows& rows, Call& c) {
    const Op& op = *c.op;
    const Step& step = segment_->steps[static_cast<size_t>(rows.step)];
    InputSet same;
    bool all = true;
    for (int i = 0; i < c.inputs; ++i) {
        const int32_t v = segment_->operand(step, i);
        const bool is_same = v < 0 || is_shared(v);
        if (is_same) same.add(i);
        all &= is_same;
    }
    rows.same = all;
    if (all) return true;
    if (op.batch == Batch::Alias) {
        rows.alias = c.outputs == 1;
        return rows.alias &&
               (op.view || !is_output(step.first_out));  // a result has a node of its own
    }
    if (op.batch != Batch::Rows && op.batch != Batch::Join) return false;
    if (op.random || op.body || c.inputs > InputSet::kCounted) return false;
    BatchForm& form = rows.form;
    if (!form.ask({c, same})) return false;
    rows.by_elements = op.pointwise && form.counts_attr < 0;
    for (const BatchForm::Input& in : form.in) {
        if (in.from < 0 || !c.in[in.from].defined()) continue;
        if (in.table >= 0 || (in.shared && !same.has(in.from))) return false;
        if (in.shared) rows.by_elements &= c.in[in.from].ndim() == 0;
        else rows.by_elements &= in.row.empty() && in.rows < 0 && !in.once;
    }
    return true;
}

/// One run: a tensor for each value.
class SegmentRows::Run {
public:
    Run(const SegmentRows& of, int64_t calls, const Tensor* inputs)
        : of_(of), segment_(*of.segment_), calls_(calls), tensors_(segment_.values.size()) {
        for (size_t i = 0; i < segment_.inputs.size(); ++i) tensor(segment_.inputs[i]) = inputs[i];
        for (const StepRows& rows : of.steps_) {
            const Step& step = segment_.steps[static_cast<size_t>(rows.step)];
            const Site::Instead line(step.site);
            const ModeGuard recorded(0, step.recorded ? 0u : kGradMode);
            if (rows.alias) alias(step);
            else if (rows.same) run_once(step);
            else run_rows(rows, step);
        }
    }
    const Tensor& find(int32_t v) {
        const SegmentValue& value = segment_.value(v);
        if (value.kind == Kind::Constant) return value.layout;
        Tensor& t = tensor(v);
        if (!t.defined()) t = outside_graph(find(value.of));
        return t;
    }

private:
    Tensor& tensor(int32_t v) { return tensors_[static_cast<size_t>(v)]; }

    void alias(const Step& step) {
        const Tensor& t = find(segment_.operand(step, 0));
        tensor(step.first_out) = step.recorded ? t : outside_graph(t);
    }
    void run_once(const Step& step) {
        call_step(
            segment_, step, [&](int32_t v) -> const Tensor& { return find(v); },
            [&](int32_t v) -> Tensor& { return tensor(v); });
    }

    static Tensor in_shape(const Tensor& t, const Dims& shape) {
        return equal(t.shape(), shape) ? t : ops::reshape(t, shape);
    }
    Dims shape_of(const BatchForm& form, const BatchForm::Input& in, bool apart) const {
        const int64_t rows = in.rows < 0 ? form.rows : in.rows;
        Dims shape{apart ? calls_ : calls_ * rows};
        if (apart) shape.push_back(rows);
        for (int64_t n : in.row) shape.push_back(n);
        return shape;
    }
    /// Of operands that are taken element by element: that of the first one that does not lie densely.
    Dims common_shape(const StepRows& rows, const Step& step) {
        const Tensor* first = nullptr;
        for (const BatchForm::Input& in : rows.form.in) {
            if (in.shared) continue;
            const Tensor& t = find(segment_.operand(step, in.from));
            if (!first || (first->contiguous() && !t.contiguous())) first = &t;
        }
        return Dims(first->shape());
    }

    void run_rows(const StepRows& rows, const Step& step) {
        const BatchForm& form = rows.form;
        const bool apart = form.any_once();
        const Dims common = rows.by_elements ? common_shape(rows, step) : Dims();
        LocalArray<Tensor, 8> in(form.in.size());
        for (size_t k = 0; k < form.in.size(); ++k) {
            const BatchForm::Input& input = form.in[k];
            const int32_t v = input.from < 0 ? -1 : segment_.operand(step, input.from);
            if (v < 0) continue;
            const Tensor& t = find(v);
            if (input.shared) in[k] = t;
            else if (of_.is_shared(v)) in[k] = repeated(t, input, form, apart);
            else in[k] = in_shape(t, rows.by_elements ? common : shape_of(form, input, apart));
        }
        Dims counts;
        if (form.counts_attr >= 0 || form.then != BatchForm::Then::Nothing)
            counts = Dims(static_cast<int>(calls_), form.rows);
        std::vector<Value> own_attrs;
        Call c(*form.op, in.data(), static_cast<int>(form.in.size()),
               form.attrs_over(counts, own_attrs));
        ops::call(c);
        c.out(0) = form.result_over(counts, c.out(0));
        for (int32_t k = 0; k < step.outs; ++k) take(c, step, k);
    }
    /// A value of all calls, as the rows of each.
    Tensor repeated(const Tensor& t, const BatchForm::Input& input, const BatchForm& form,
                    bool apart) const {
        Dims shape{calls_};
        for (int64_t n : t.shape()) shape.push_back(n);
        return in_shape(ops::expand(t, shape), shape_of(form, input, apart));
    }
    void take(Call& c, const Step& step, int32_t k) {
        const Tensor& one = segment_.layout(step.first_out + k);
        ops::OutputOverRows out;
        if (k < c.outputs)
            out =
                ops::output_over_rows(c, k, calls_, one.numel(), calls_ * one.numel(), one.dtype());
        WEFT_EXPECT(out.fits && !out.common, Runtime, step.op->name,
                    text(calls_, " times ", to_string(one.shape()), " from so many calls"),
                    "another result");
        if (out.all.has(kTracked) && calls_ > 1) mark(out.all, one.numel());
        // gradients of a result are looked for where it is used
        if (!out.all.contiguous() && of_.is_output(step.first_out + k))
            out.all = ops::contiguous(out.all);
        tensor(step.first_out + k) = std::move(out.all);
    }

    /// Tells the graph which elements are of which call. Nobody asks about these nodes: the batcher marks those of
    /// results.
    void mark(const Tensor& all, int64_t each) const {
        static auto* unasked = new Ref<GraphUse>(new GraphUse);
        std::vector<int64_t> ends;
        ends.reserve(static_cast<size_t>(calls_));
        for (int64_t call = 1; call <= calls_; ++call) ends.push_back(call * each);
        ops::hooks.mark(all, *unasked, std::move(ends));
    }

    const SegmentRows& of_;
    const Segment& segment_;
    const int64_t calls_;
    LocalArray<Tensor, 32> tensors_;
};

void SegmentRows::run(int64_t calls, const Tensor* inputs, Tensor* outputs) const {
    Run run(*this, calls, inputs);
    for (size_t k = 0; k < segment_->outputs.size(); ++k) {
        const int32_t v = segment_->outputs[k];
        const Tensor& t = run.find(v);
        outputs[k] = t;
        if (!is_shared(v)) continue;
        Dims shape{calls};
        for (int64_t n : t.shape()) shape.push_back(n);
        outputs[k] = ops::expand(t, shape);
    }
}

/// Whether the forms fit together, told by the layouts of two calls.
bool SegmentRows::runs() const {
    const Segment& s = *segment_;
    const Ref<Tracer> tracer(new Tracer);
    std::vector<Tensor> inputs, outputs(s.outputs.size());
    for (int32_t v : s.inputs) {
        const Tensor& one = s.layout(v);
        Dims shape{2};
        for (int64_t n : one.shape()) shape.push_back(n);
        inputs.push_back(tracer->input(is_shared(v) ? one : Tensor::layout(one.dtype(), shape),
                                       s.value(v).wants_grad));
    }
    try {
        const ModeGuard plain(0, kDeferMode);
        const Tracer::Scope scope(*tracer);
        run(2, inputs.data(), outputs.data());
    } catch (const Error&) {
        return false;
    }
    for (size_t k = 0; k < outputs.size(); ++k) {
        const Tensor& one = s.layout(s.outputs[k]);
        if (outputs[k].numel() != 2 * one.numel() || outputs[k].dtype() != one.dtype())
            return false;
    }
    return true;
}

}  // namespace weft::program
