#include "deferred/pending.h"

#include "base/pool.h"
#include "deferred/batcher.h"
#include "ops/functions.h"
#include "ops/write.h"

namespace weft::deferred {

Ref<Pending> Pending::make() { return Ref<Pending>(new (Pool::allocate(sizeof(Pending))) Pending); }

void Pending::destroy() {
    if (is_view() && is_pending(base)) --pending(base).views;
    if (among) among->outputs[value].pending = nullptr;
    this->~Pending();
    Pool::free(this, sizeof(Pending));
}

void Pending::settle(const Tensor& t) { deferred::settle(t); }
Tensor Pending::peek(const Tensor& t) { return deferred::peek(t); }

bool requires_grad(const Tensor& t) { return pending(t).requires_grad; }

void raise(Failure& failure) {
    failure.raised = true;
    try {
        std::rethrow_exception(failure.error);
    } catch (const Error& e) {
        throw Error(e, "\n  in the call at " + failure.line);
    } catch (...) {
        if (site_hooks.annotate) site_hooks.annotate("in the call at " + failure.line);
        throw;
    }
}

namespace {

void compute(const Tensor& root) {
    Batcher& batcher = Batcher::current();
    const bool waits = pending(root).waits();
    if (waits && batcher.reporting) add_site(batcher.reporting.readers, Site::here());
    batcher.tally.waits += waits;
    if (waits && host.wait) host.wait();
    // Nobody could wait, or the example around this batch was parked meanwhile.
    if (waits && is_pending(root) && pending(root).waits())
        batcher.tape.flush("a value that is read");
    batcher.tape.raise_own_failure();
    if (!is_pending(root)) return;  // settled meanwhile
    if (pending(root).failure) raise(*pending(root).failure);
    WEFT_EXPECT(!pending(root).waits(), Runtime, "autobatch",
                "a value to be read by the thread that made it", "another thread",
                "read it there before the other thread starts");
    WEFT_EXPECT(pending(root).block.defined(), Runtime, "autobatch", "a value that was computed",
                "one whose flush was interrupted");
}

/// The tensor in whose place `t` lies.
const Tensor& place_of(const Tensor& t) { return pending(t).is_piece() ? pending(t).base : t; }

}  // namespace

void compute_now(const Tensor& t, const char* reason) {
    const Tensor& root = root_of(t);
    if (!is_pending(root) || !pending(root).waits()) return;
    Batcher& batcher = Batcher::current();
    if (batcher.reporting) add_site(batcher.reporting.readers, Site::here());
    batcher.tape.flush(reason);
}

namespace {

/// Tensors that were lent and have another layout now, each with a view of what it was. One for all
/// threads: what was lent may be read on any.
class Relaid {
public:
    static Relaid& all() {
        static auto* all = new Relaid;  // outlives what Python drops at exit
        return *all;
    }
    /// Before the layout of `t` changes; the first time counts: all views were taken before.
    void keep(const Tensor& t) {
        std::erase_if(kept_, [](const Kept& k) { return k.now.impl()->refs == k.held; });
        for (const Kept& k : kept_)
            if (k.now.same(t)) return;
        ModeGuard now(kGradMode, kDeferMode);
        const uint32_t others = t.impl()->refs;
        Tensor before = ops::as_strided(t, Dims(t.shape()), Dims(t.strides()), t.offset());
        kept_.push_back({t, std::move(before), 0});
        kept_.back().held = t.impl()->refs - others;
    }
    /// `t` as it was lent.
    Tensor before(const Tensor& t) const {
        for (const Kept& k : kept_)
            if (k.now.same(t)) return k.before;
        return t;
    }

private:
    struct Kept {
        Tensor now, before;
        uint32_t held;  ///< by this and by the view: with no other, no view waits for it
    };
    std::vector<Kept> kept_;
};

/// What a view of `base` is taken of.
Tensor as_lent(const Tensor& base) { return base.has(kLent) ? Relaid::all().before(base) : base; }

const ops::Function one_of_several{"_one_of_several"};

Tensor taken_view(const Tensor& t, const Pending& self, const Tensor& base) {
    if (!self.replay) {
        const int64_t start = base.offset() + self.start;
        if (!self.several) return ops::as_strided(base, Dims(t.shape()), Dims(t.strides()), start);
        return one_of_several.all({base}, {Dims(t.shape()), Dims(t.strides()), start})[0];
    }
    if (!self.replay->op) return base.alias();
    Call again(*self.replay->op, &base, 1, self.replay->attrs.data());
    ops::call(again);
    return again.out(self.replay->output);
}

/// A piece that is all of a value which nobody else holds becomes that value: then its hooks, and who
/// asks for its gradient, find that of the calls which read its place. `x @ W` of a vector is such a
/// piece, of a product with one row.
void stand_for_base(const Tensor& t, const Pending& self) {
    if (!self.is_piece() || self.several || !is_pending(self.base)) return;
    const Tensor& base = self.base;
    Ref<Pending> of(&pending(base));
    if (of->is_view() || base.impl()->refs != 1 || base.numel() != t.numel() ||
        base.dtype() != t.dtype() || of->requires_grad != self.requires_grad ||
        of->inference != self.inference)
        return;
    of->views = 0;
    t.impl()->slot = std::move(of);
}

}  // namespace

void keep_lent(const Tensor& t) {
    if (t.has(kLent)) Relaid::all().keep(t);
}

void settle(const Tensor& t) {
    static const ops::Function take{"_take"};
    stand_for_base(t, pending(t));
    Ref<Pending> self(&pending(t));
    bool record = self->is_view() ? self->recording : self->requires_grad;
    uint32_t grad = record ? uint32_t{kGradMode} : 0;
    if (self->is_view()) {
        if (is_pending(self->base)) settle(self->base);
        if (!is_pending(t)) return;
        ModeGuard now(grad, kDeferMode | (kGradMode & ~grad));
        const Tensor base = as_lent(self->base);
        ops::Write::Unwritten then(base);  // as it was when the call was made: no write was over
        t.settle(taken_view(t, *self, base));
        t.set(kLent, self->views);
        return;
    }
    compute(t);
    if (!is_pending(t)) return;
    const uint32_t modes = grad | (self->inference ? uint32_t{kInferenceMode} : 0);
    ModeGuard now(modes, kDeferMode | ((kGradMode | kInferenceMode) & ~modes));
    Tensor taken = take(self->block, self->start, Dims(t.shape()), Dims(t.strides()),
                        grad ? Value(self->node_name) : Value(), grad && self->used);
    taken.storage()->maker = self->maker;
    t.settle(taken);
    t.set(kLent, self->views);
    if (self->views) t.storage()->watched = true;  // a custom Function may have saved one of them
    Storage& block = *self->block.storage();
    if (block.watched || !Batcher::current().tape.empty())  // what waits may yet save the block
        ops::note_copy(*t.storage(), ops::span_of(t), block,
                       ops::span_of(self->block, {self->start, self->start + t.numel()}));
}

Tensor in_place_of(const Tensor& block) {
    Tensor out = Tensor::layout(block.dtype(), block.shape());
    Ref<Pending> p = Pending::make();
    p->recording = mode & kGradMode;
    p->requires_grad = p->recording && block.has(kTracked) && ops::hooks.requires_grad(block);
    p->node_name = "AliasBackward0";
    p->block = block;
    out.set(kPending);
    out.impl()->slot = std::move(p);
    return out;
}

Tensor peek(const Tensor& t) {
    const bool shown = !is_pending(root_of(t));  // memory may have been written since it was made
    if (!shown) compute(place_of(t));
    if (!is_pending(t)) return t;
    const Tensor at = place_of(t);
    if (shown || !is_pending(root_of(t))) {
        settle(t);
        return t;
    }
    Tensor dense = Tensor::layout(t.dtype(), t.shape());
    dense.share(pending(at).block,
                pending(at).start + (pending(t).is_piece() ? pending(t).start : 0));
    return dense;
}

}  // namespace weft::deferred
