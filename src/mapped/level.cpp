#include "mapped/level.h"

#include <algorithm>

#include "autograd/meta.h"
#include "deferred/batch.h"
#include "deferred/pending.h"
#include "ops/functions.h"

namespace weft::mapped {
namespace {

using ops::Function;

const Function first{"_first"};

/// A leaf over the same memory, on whatever levels `t` is mapped.
Tensor leaf_of(const Tensor& t) {
    if (is_mapped(t)) return map_over(*mapped(t).level, leaf_of(mapped(t).whole));
    Tensor leaf = detach(t);
    set_requires_grad(leaf, true);
    return leaf;
}

}  // namespace

Level::Level(int64_t size, Draws draws)
    : number(deferred::ExampleBatch::take_number()), size(size), draws(draws), outer(current_) {}

void Level::enter() {
    current_ = this;
    mode |= kMapMode;
    callers_maker_ = std::exchange(memory_maker, number);
}

void Level::leave() {
    over = true;
    current_ = outer.get();
    memory_maker = callers_maker_;
    if (!outer) mode &= ~kMapMode;
}

void Level::go_alone() {
    for (Level* level = this; level; level = level->outer.get()) level->alone = true;
}

Tensor map_over(Level& level, const Tensor& whole) {
    // A value of an inner level stays one, with the examples of this level inside.
    if (is_mapped(whole) && mapped(whole).level->number > level.number)
        return map_over(*mapped(whole).level,
                        map_over(level, ops::transpose(mapped(whole).whole, 0, 1)));
    Tensor t = Tensor::layout(whole.dtype(), whole.shape().subspan(1), whole.strides().subspan(1));
    t.set(kPending);
    t.impl()->slot = Ref<Mapped>(new Mapped(level, whole));
    return t;
}

bool is_mapped_on(const Level& level, const Tensor& t) {
    const Tensor* at = &t;
    while (is_mapped(*at) && mapped(*at).level->number > level.number) at = &mapped(*at).whole;
    return is_mapped(*at) && mapped(*at).level.get() == &level;
}

Tensor whole_of(Level& level, const Tensor& t) {
    if (is_mapped(t)) {
        Mapped& m = mapped(t);
        if (m.level.get() == &level) return m.whole;
        if (m.level->number > level.number)
            return map_over(*m.level, ops::transpose(whole_of(level, m.whole), 0, 1));
    }
    Dims shape{level.size};
    for (int64_t d : t.shape()) shape.push_back(d);
    return ops::expand(t, shape);
}

Tensor fresh_input(Level& level, const Tensor& t) {
    Scope outside(level.outer.get());
    const bool joins = weft::requires_grad(bottom_of(t));  // then it is no view: `t` may be written
    if (!is_mapped_on(level, t)) {
        Tensor apart = joins ? ops::clone(t) : t;
        Tensor whole = whole_of(level, apart);
        return map_over(level, joins ? whole : leaf_of(whole));
    }
    return joins ? map_over(level, ops::clone(whole_of(level, t))) : leaf_of(t);
}

const Tensor& bottom_of(const Tensor& t) {
    const Tensor* at = &t;
    while (is_mapped(*at)) at = &mapped(*at).whole;
    return *at;
}

Tensor Mapped::detached(const Tensor&) {
    return map_over(*level, is_mapped(whole) ? mapped(whole).detached(whole) : detach(whole));
}

void Mapped::settle(const Tensor& t) {
    const Ref<Mapped> self(this);
    WEFT_EXPECT(level->alone || !level->over, Runtime, "vmap",
                "values of the function's examples to be used within it",
                "one that was kept until it was over",
                "return it from the function that vmap runs");
    level->go_alone();
    if (is_mapped(whole)) ops::settle(whole);
    if (!is_mapped(t)) return;
    ModeGuard record(kGradMode, 0);
    Tensor value = first(whole);
    const GradMeta* of = meta_or_null(whole);
    if (of && of->base.defined() && meta_or_null(value))  // whether it may be written is as there
        meta(value).view_kind = of->view_kind;
    t.settle(value);
}

Tensor Mapped::peek(const Tensor& t) {
    settle(t);
    return t;
}

bool Mapped::wants_grad(const Tensor& t) const { return requires_grad(bottom_of(t)); }

}  // namespace weft::mapped
