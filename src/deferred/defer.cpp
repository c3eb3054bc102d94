/// The door's hook: which calls are kept, which run at once, which are only another view.
#include "deferred/defer.h"

#include <pthread.h>

#include "deferred/batcher.h"
#include "deferred/turn.h"
#include "ops/functions.h"
#include "ops/random.h"
#include "ops/write.h"

namespace weft::deferred {
namespace {

void settle_all(const Call& c) {
    for (int i = 0; i < c.inputs; ++i)
        if (c.in[i].defined() && is_pending(c.in[i])) settle(c.in[i]);
}

void run_now(Call& c) {
    ModeGuard now(0, kDeferMode);
    ops::call(c);
}

void run_settled(Call& c) {
    settle_all(c);
    run_now(c);
}

/// A dense piece of a pending tensor needs no kernel: its place is known. Nor do all its elements
/// under another shape: there they lie in their logical order, whatever the strides.
bool view_of_pending(Call& c) {
    const Tensor base = c.in[0];
    bool dense = base.contiguous(), whole = c.op->view && c.op->batch == Batch::Alias;
    for (int k = 0; k < c.outputs; ++k) dense &= c.out(k).contiguous();
    if (!dense && !whole) return false;
    const Pending& of = pending(base);
    const Tensor& root = of.is_piece() ? of.base : base;
    const int64_t start = of.is_piece() ? of.start : 0;
    const bool recording = mode & kGradMode;
    pending(root).views += static_cast<uint32_t>(c.outputs);
    for (int k = 0; k < c.outputs; ++k) {
        const Tensor& out = c.out(k);
        Ref<Pending> p = Pending::make();
        p->base = root;
        p->start = whole ? start : start + c.offset_of_view(k);
        p->recording = recording;
        p->inference = of.inference;
        p->several = of.several || c.op->outputs < 0;
        p->requires_grad = of.requires_grad && recording;
        out.set(kPending);
        out.impl()->slot = std::move(p);
    }
    return true;
}

/// The outputs are copies of parts of input 0; a later write into one must reach the other.
void remember_view(Call& c) {
    for (int k = 0; k < c.outputs; ++k) {
        Pending& p = pending(c.out(k));
        p.base = c.in[0];
        std::vector<Value> attrs(c.attrs, c.attrs + c.op->defaults.size());
        p.replay.reset(new Replay{c.op, std::move(attrs), k});
        if (is_pending(p.base)) ++pending(p.base).views;
    }
}

/// A view whose root has its memory by now is a true view; one made outside of the graph, of a value
/// in it, must not lead back there.
void settle_special_views(const Call& c) {
    for (int i = 0; i < c.inputs; ++i) {
        const Tensor& t = c.in[i];
        if (!t.defined() || !is_pending(t) || !pending(t).is_view()) continue;
        const Tensor& base = pending(t).base;
        bool outside = (mode & kGradMode) && pending(t).is_piece() && is_pending(base) &&
                       requires_grad(base) && !requires_grad(t);
        if (!is_pending(root_of(base)) || outside) settle(t);
    }
}

void check_failed(const Call& c) {
    for (int i = 0; i < c.inputs; ++i) {
        const Tensor& t = c.in[i];
        if (!t.defined() || !is_pending(t)) continue;
        const Tensor& root = pending(t).is_piece() ? pending(t).base : t;
        if (pending(root).failure) settle(root);  // throws
    }
}

/// x += y where x is pending and nobody shares its elements: x stands for a new value from now on.
bool rebind(Call& c) {
    const Tensor dest = c.dest;
    if (!c.in_place || !is_pending(dest) || pending(dest).is_view() || pending(dest).views)
        return false;
    if (!c.op->pointwise || !dest.contiguous()) return false;
    const bool inference = pending(dest).inference;
    if (inference && !(mode & kInferenceMode)) return false;  // it is refused
    if (requires_grad(dest) && (!(mode & kGradMode) || !c.op->differentiable(0))) return false;
    Call apart(*c.op, c.in, c.inputs, c.attrs);
    apart.op->shape(apart);
    const Tensor& out = apart.out(0);
    if (!equal(out.shape(), dest.shape()) || out.dtype() != dest.dtype()) return false;
    Tape& tape = Batcher::current().tape;
    tape.make_another(dest);
    tape.keep(apart);
    pending(out).inference = inference;
    dest.impl()->slot = out.impl()->slot;
    c.outputs = 1;
    c.out(0) = dest;
    return true;
}

/// Computes the calls that wait and read the memory of `t`.
void run_readers(const Tensor& t) {
    Tape& tape = Batcher::current().tape;
    if (!tape.empty() && tape.reader(*t.storage()) != Readers::kNobody)
        tape.flush("memory that is written in place");
}

/// The same, but other examples may go on first: so their calls merge.
void wait_for_readers(const Tensor& t) {
    for (;;) {  // while this fiber waits, others may read the memory or write there
        Batcher& batcher = Batcher::current();
        uint64_t reader = batcher.tape.reader(*t.storage());
        if (reader == Readers::kNobody) break;
        if (batcher.reporting) add_site(batcher.reporting.readers, Site::here());
        if (reader == batcher.responsible() && host.wait && host.wait()) continue;
        run_readers(t);  // other examples are at it: the order is that of the loop
    }
}

/// To be asked before anything waits: what is kept later reads the new value.
Ref<Overwriting> note_overwrite(const Call& c) {
    Tape& tape = Batcher::current().tape;
    const Tensor& root = root_of(c.dest);
    if (tape.empty()) return {};
    return tape.overwrite(root);
}

void write(Call& c) {
    InTurn in_order(sharing_levels(c.dest));
    settle_special_views(c);
    check_failed(c);
    if (rebind(c)) return;
    const Ref<Overwriting> noted = note_overwrite(c);
    settle_all(c);
    ops::Change change(c.dest);
    run_now(c);  // throws if it is refused
    if (noted) noted->make();
}

/// Note [Large]. An input among several may be a weight of any size.
bool large(const Call& c, int64_t elements) {
    return c.out(0).numel() >= elements || (c.inputs == 1 && c.in[0].numel() >= elements);
}

bool kept(Batch how) { return how == Batch::Rows || how == Batch::Join; }

/// Memory that another example made and writes to is read after that one is done.
void read_in_turn(const Call& c, const ExampleBatch& batch) {
    for (int i = 0; i < c.inputs; ++i) {
        const Tensor& t = c.in[i];
        if (!t.defined() || !t.storage() || t.version() == 0) continue;
        uint64_t maker = maker_of(t);
        if (!batch.is_older(maker) && !batch.is_own(maker, memory_maker)) return in_turn(1);
    }
}

/// A call that is not kept.
void run_at_once(Call& c) {
    Batcher& batcher = Batcher::current();
    batcher.tally.calls += batcher.example() != 0;
    run_now(c);
}

/// Where no call would merge with this one (ExampleBatch::at_once).
void run_alone(Call& c) {
    settle_all(c);
    if (c.dest.defined() && is_pending(c.dest)) settle(c.dest);
    if (c.op->random && c.op->kernel) draw_at_once(ops::generator());
    run_now(c);
}

/// A composite: the calls of its body are kept, unless it reads values.
void run_body(Call& c) {
    if (c.op->batch == Batch::Body) return c.op->body(c);
    run_settled(c);
}

/// A call of an op with a batch rule.
void keep(Call& c, bool waiting) {
    Batcher& batcher = Batcher::current();
    c.op->shape(c);
    if (waiting || !large(c, batcher.settings.large_call)) return batcher.tape.keep(c);
    Call now(*c.op, c.in, c.inputs, c.attrs);
    run_now(now);
    c.take(now);
}

bool same_elements(const Call& c) {
    return c.outputs == 1 && c.out(0).contiguous() && c.out(0).numel() == c.in[0].numel();
}

/// Another view of a pending tensor: a place in it if it has one, else a copy that is kept.
void view(Call& c) {
    static const ops::Function contiguous_copy{"_contiguous_copy"};
    const Op& op = *c.op;
    Tensor dense;
    const Tensor* in = c.in;
    if (!op.view && !c.in[0].contiguous()) {
        dense = contiguous_copy(c.in[0]);
        in = &dense;
    }
    Call probe(op, in, c.inputs, c.attrs);
    op.shape(probe);
    if (dense.defined() && same_elements(probe)) {
        const Tensor& out = probe.out(0);
        out.set(kPending);
        out.impl()->slot = dense.impl()->slot;  // a copy in another shape: no view
    } else if (!view_of_pending(probe)) {
        if (!kept(op.batch)) return run_settled(c);
        Batcher::current().tape.keep(probe);
        remember_view(probe);
    }
    c.take(probe);
}

}  // namespace

void defer(Call& c) {
    const Op& op = *c.op;
    Batcher& batcher = Batcher::current();
    if (batcher.at_once()) return run_alone(c);
    if (op.random && op.kernel) draw_in_turn(ops::generator());
    if (batcher.example()) read_in_turn(c, *batcher.batch);
    if (op.batch == Batch::Layout) return run_at_once(c);
    if (c.dest.defined()) return write(c);
    if (op.body && !kept(op.batch)) return run_body(c);
    bool waiting = false, special = false;
    for (int i = 0; i < c.inputs; ++i) {
        const Tensor& t = c.in[i];
        if (!t.defined() || !is_pending(t)) continue;
        waiting = true;
        special |= pending(t).is_view() || pending(t).failure;
    }
    const bool is_view = op.view || op.batch == Batch::Alias;
    if (op.random || (is_view ? !waiting : !kept(op.batch))) {
        settle_all(c);
        return run_at_once(c);
    }
    if (special) {
        settle_special_views(c);
        check_failed(c);
    }
    if (!is_view) return keep(c, waiting);
    if (op.view && !is_pending(c.in[0])) return run_now(c);
    if (op.view && op.batch == Batch::None) return run_settled(c);  // its shape rule may read
    view(c);
}

Tensor Pending::detached(const Tensor& t) {
    ModeGuard outside(0, kGradMode);
    Tensor out = ops::clone(t);
    if (!is_pending(out) || !equal(out.strides(), t.strides())) return {};
    Pending& p = pending(out);
    p.base = t;
    p.replay.reset(new Replay{nullptr, {}, 0});
    if (is_pending(t)) ++pending(t).views;
    return out;
}

namespace {

/// Within another change it is the turn already. What an example does outside of defer mode, such as a
/// custom Function's forward, has its turn too.
[[gnu::noinline]] bool change_in_turn(const Tensor& t) {
    const Batcher& batcher = Batcher::current();
    if (!(mode & kDeferMode) && (!batcher.example() || batcher.staying)) {
        change_shared(t);
        run_readers(t);
        return false;
    }
    InTurn in_order(sharing_levels(t));
    if (is_pending(t)) settle(t);
    wait_for_readers(t);
    change_shared(t);
    return in_order.keep();
}

bool before_change(const Tensor& t) {
    const Batcher& batcher = Batcher::current();
    const bool alone = !(mode & kDeferMode) && !batcher.batch && batcher.tape.empty();
    return !alone && change_in_turn(t);
}

void before_layout(const Tensor& t) {
    keep_lent(t);
    change_layout(t);
}

}  // namespace

void install() {
    ops::hooks.defer = defer;
    ops::hooks.before_change = before_change;
    ops::hooks.after_change = [] { --Batcher::current().staying; };
    ops::hooks.before_layout = before_layout;
    pthread_atfork(nullptr, nullptr, ExampleBatch::note_fork);
}

}  // namespace weft::deferred
