/// Reading guide: `trace` is the door's hook, which refuses or hands on; `Tracer::add` writes a step down.
#include "program/trace.h"

#include <algorithm>

#include "base/pool.h"
#include "ops/scopes.h"
#include "program/rules.h"

namespace weft::program {

constexpr const char* kOnMeta = "a tensor without values";

void Traced::destroy() {
    this->~Traced();
    Pool::free(this, sizeof(Traced));
}

void Traced::settle(const Tensor& t) {
    constexpr const char* kRead = "a value that is read";
    tracer->refuse(kRead, text(kRead, ", of ", name(t.dtype()), to_string(t.shape())),
                   "while calls are traced only layouts are known");
}

Tensor Traced::peek(const Tensor& t) {
    settle(t);
    return t;
}

Tensor Traced::detached(const Tensor& t) {
    Tensor out = Tensor::layout_like(t, t.dtype());
    const int32_t v = tracer->add_view(value, out);
    return tracer->stand_for(v, std::move(out));
}

bool Traced::wants_grad(const Tensor&) const { return grad || tracer->is_loose_view(value); }

Tensor Tracer::stand_for(int32_t value, Tensor laid_out) {
    void* memory = Pool::allocate(sizeof(Traced));
    laid_out.impl()->slot = Ref<Slot>(
        new (memory) Traced(*this, value, segment_->values[static_cast<size_t>(value)].wants_grad));
    laid_out.set(kPending);
    return laid_out;
}

int32_t Tracer::add_value(SegmentValue::Kind kind, Tensor layout) {
    const auto v = static_cast<int32_t>(segment_->values.size());
    SegmentValue& value = segment_->values.emplace_back();
    value.kind = kind;
    value.layout = std::move(layout);
    return v;
}

int32_t Tracer::add_view(int32_t of, const Tensor& like) {
    const int32_t v = add_value(SegmentValue::Kind::View, Tensor::layout_like(like, like.dtype()));
    segment_->values.back().of = of;
    return v;
}

Tensor Tracer::input(const Tensor& like, bool wants_grad) {
    if (like.has(kMeta)) refuse(kOnMeta, kOnMeta, "a plan computes values");
    Tensor layout = Tensor::layout_like(like, like.dtype());
    layout.set(kWrapped, like.has(kWrapped));
    Tensor out = Tensor::layout_like(like, like.dtype());
    out.set(kWrapped, like.has(kWrapped));
    const int32_t v = add_value(SegmentValue::Kind::Input, std::move(layout));
    segment_->values.back().of = static_cast<int32_t>(segment_->inputs.size());
    segment_->values.back().wants_grad = wants_grad;
    segment_->inputs.push_back(v);
    return stand_for(v, std::move(out));
}

Tensor Tracer::part_of(const Tensor& whole, int64_t offset, const Tensor& like) {
    Tensor out = Tensor::layout_like(like, like.dtype());
    const int32_t v = add_view(number_of(whole), out);
    segment_->values.back().offset = offset;
    return stand_for(v, std::move(out));
}

int32_t Tracer::number_of(const Tensor& t) {
    if (!t.defined()) return -1;
    if (t.has(kPending)) return traced(t).value;
    auto [found, is_new] = constants_.try_emplace(t.impl(), 0);
    if (is_new) {
        found->second = add_value(SegmentValue::Kind::Constant, t);
        segment_->values.back().wants_grad = ops::hooks.requires_grad(t);
    }
    return found->second;
}

Ref<Segment> Tracer::finish(const std::vector<Tensor>& outputs) {
    for (const Tensor& t : outputs) {
        if (!is_traced(t) || traced(t).tracer.get() != this)
            throw NotTraceable("a result that was not traced",
                               "what depends on no input is no result of a segment");
        segment_->outputs.push_back(traced(t).value);
    }
    constants_.clear();
    return std::exchange(segment_, nullptr);
}

/// Writes down a call that is laid out; nothing in here is refused.
void Tracer::add(Call& c) {
    Segment& s = *segment_;
    const auto step = static_cast<int32_t>(s.steps.size());
    Step made{c.op,
              static_cast<int32_t>(s.operands.size()),
              c.inputs,
              static_cast<int32_t>(s.attrs.size()),
              0,
              c.outputs,
              (mode & kGradMode) != 0,
              Site::here()};
    bool wants_grad = false;
    for (int i = 0; i < c.inputs; ++i) {
        const int32_t v = number_of(c.in[i]);
        s.operands.push_back(v);
        wants_grad |= v >= 0 && s.value(v).wants_grad && c.op->differentiable(i);
    }
    for (size_t k = 0; k < c.op->defaults.size(); ++k) s.attrs.push_back(c.attrs[k]);
    wants_grad &= made.recorded;
    made.first_out = static_cast<int32_t>(s.values.size());
    for (int k = 0; k < c.outputs; ++k) {
        Tensor& out = c.out(k);
        const int32_t v =
            add_value(c.op->view ? SegmentValue::Kind::View : SegmentValue::Kind::Result,
                      Tensor::layout_like(out, out.dtype()));
        SegmentValue& value = s.values.back();
        value.step = step;
        value.wants_grad = wants_grad && is_inexact(out.dtype()) && c.op->carries_gradient(k);
        if (c.op->view) {
            value.of = s.operand(made, 0);
            value.offset = c.offset_of_view(k) * item_size(c.in[0].dtype());
        }
        out = stand_for(v, std::move(out));
    }
    s.steps.push_back(std::move(made));
}

void Tracer::refuse(const char* why, std::string_view what, std::string_view reason) {
    refused_ = why;
    throw NotTraceable(what, reason);
}

namespace {

/// While it lives, operands that want a gradient say so as those with values do: shape rules may ask.
class Marked {
public:
    explicit Marked(Call& c) : call_(c) { mark(true); }
    ~Marked() { mark(false); }
    Marked(const Marked&) = delete;

private:
    void mark(bool on) {
        for (int i = 0; i < call_.inputs; ++i)
            if (call_.in[i].defined() && call_.in[i].has(kPending) && traced(call_.in[i]).grad)
                call_.in[i].set(kTracked, on);
    }
    Call& call_;
};

}  // namespace

/// Note [Writes]: all but what only the layout of the result tells.
bool Tracer::can_write(const Call& c) const {
    if (!takes_writes_ || !c.in_place || c.op->body || c.op->random || c.op->view) return false;
    if (!is_traced(c.dest) || traced(c.dest).tracer.get() != this) return false;
    const int32_t v = traced(c.dest).value;
    const Segment& s = *segment_;
    if (s.value(v).kind != SegmentValue::Kind::Result) return false;
    if (s.value(v).wants_grad && !(mode & kGradMode)) return false;
    for (const SegmentValue& of : s.values)
        if (of.kind == SegmentValue::Kind::View && of.of == v) return false;
    return !is_read_in_backward(v);
}

bool Tracer::is_read_in_backward(int32_t value) const {
    const Segment& s = *segment_;
    for (const Step& step : s.steps) {
        if (!step.recorded) continue;
        const SaveMask saved = saves_of(s, step);
        for (int k = 0; k < step.operands; ++k)
            if (saved >> k & 1 && s.operand(step, k) == value) return true;
        for (int32_t k = 0; k < step.outs; ++k)
            if (saved >> (16 + k) & 1 && step.first_out + k == value) return true;
    }
    return false;
}

bool Tracer::is_loose_view(int32_t v) const {
    if (!segment_) return false;  // one that leaked
    const Segment& s = *segment_;
    while (v >= 0 && s.value(v).kind == SegmentValue::Kind::View && s.value(v).step >= 0) {
        const Step& step = s.steps[static_cast<size_t>(s.value(v).step)];
        if (step.recorded || !step.op->differentiable()) return false;
        v = s.value(v).of;
        if (s.value(v).wants_grad) return true;
    }
    return false;
}

/// As the call without a destination. Refuses before anything has changed.
void Tracer::write(Call& c) {
    Call made(*c.op, c.in, c.inputs, c.attrs);
    {
        const Marked marked(made);
        made.op->shape(made);
    }
    const Tensor& dest = c.dest;
    const int32_t before = traced(dest).value;
    const bool fits = made.outputs == 1 && made.out(0).dtype() == dest.dtype() &&
                      equal(made.out(0).shape(), dest.shape()) &&
                      equal(made.out(0).strides(), dest.strides());
    if (!fits) refuse("a write", c.op->public_name, "the result is laid out in another way");
    const size_t steps = segment_->steps.size();
    add(made);
    if (is_read_in_backward(before)) {
        shrink(steps);
        refuse("a write", c.op->public_name, "its gradient reads what it writes over");
    }
    Traced& now = traced(dest);
    now.value = traced(made.out(0)).value;
    SegmentValue& value = segment_->values[static_cast<size_t>(now.value)];
    value.writes = segment_->value(before).writes + 1;
    now.grad = value.wants_grad;
    ++writes_;
    c.add(dest);
}

/// Throws unless the call's layouts and what it does follow from layouts.
void Tracer::check_traceable(const Call& c) {
    const Op& op = *c.op;
    bool on_meta = mode & kMetaMode;
    for (int i = 0; i < c.inputs; ++i) on_meta |= c.in[i].defined() && c.in[i].has(kMeta);
    if (on_meta) refuse(kOnMeta, op.public_name, "its result is of the meta device");
    if (c.dest.defined() && !can_write(c))
        refuse("a write", text("a write by ", op.public_name, c.in_place ? "_" : "(out=...)"),
               "a segment writes to nothing that was there before");
    if (op.random && ops::scopes.generator)
        refuse("a generator of one's own", op.public_name, "it draws from a generator of its own");
    if (op.body && op.batch != Batch::Body)
        refuse("calls that depend on values", op.public_name, "what it calls may depend on values");
    for (int i = 0; i < c.inputs; ++i) {
        const Tensor& t = c.in[i];
        if (!t.defined() || !t.has(kPending)) continue;
        if (op.reads.has(i))
            refuse("a layout that depends on values", op.public_name,
                   "the layout of its result depends on values");
        if (op.reads_numbers.has(i) && t.has(kWrapped))
            refuse("a number that is read", op.public_name, "what it does depends on a number");
        if ((mode & kGradMode) && !op.body && op.differentiable(i) && is_traced(t) &&
            is_loose_view(traced(t).value))
            refuse("a view made under no_grad", op.public_name,
                   "its gradient goes to the view, which no segment has in its graph");
    }
}

/// The door's hook. A write, and random numbers, count even where no operand is traced: each run makes them
/// anew.
bool trace(Call& c) {
    if (CallRecorder* recorder = CallRecorder::current()) {
        recorder->run(c);
        return true;
    }
    Tracer* tracer = Tracer::current_;
    bool any = c.dest.defined() || (c.op->random && c.op->kernel);
    for (int i = 0; i < c.inputs; ++i) {
        const Tensor& t = c.in[i];
        if (!t.defined() || !t.has(kPending)) continue;
        any = true;
        if (!is_traced(t) || traced(t).tracer.get() != tracer) ops::settle(t);
    }
    if (!any) return false;
    tracer->check_traceable(c);
    if (c.op->body) {
        c.op->body(c);
        return true;
    }
    if (c.dest.defined()) {
        tracer->write(c);
        return true;
    }
    {
        const Marked marked(c);
        c.op->shape(c);
    }
    tracer->add(c);
    return true;
}

void install() { ops::hooks.trace = trace; }

}  // namespace weft::program
