#include "deferred/turn.h"

#include "deferred/batcher.h"
#include "kernels/random.h"

namespace weft::deferred {
namespace {

/// On how many levels examples share what `maker` made, from the innermost one on.
int levels_that_share(const Batcher& batcher, uint64_t maker) {
    int levels = 0;
    uint64_t example = batcher.example();
    for (ExampleBatch* b = example ? batcher.batch.get() : nullptr; b && !b->is_own(maker, example);
         b = b->outer.get()) {
        ++levels;
        example = b->caller();
    }
    return levels;
}

void take_turn(Batcher& batcher, int levels, bool draws) {
    const uint64_t example = batcher.example();
    if (!example || levels == 0 || example == batcher.batch->first || !host.turn) return;
    int depth = 0;
    for (ExampleBatch* b = batcher.batch.get(); b; b = b->outer.get()) ++depth;
    const Ref<ExampleBatch> batch = batcher.batch;  // while it waits others run
    if (host.turn(std::min(levels, depth), draws) && levels >= depth) batch->first = example;
}

/// Notes a change of what `maker` made in every batch whose examples share it, and for each example
/// that runs there whether one behind it, `last(batch)`, has read it.
template <class Last>
void note_change_of(uint64_t maker, const Last& last) {
    Batcher& batcher = Batcher::current();
    uint64_t example = batcher.example();
    if (!example) return;
    for (ExampleBatch* b = batcher.batch.get(); b && !b->is_own(maker, example);
         b = b->outer.get()) {
        ++b->changes;
        uint64_t reader = last(*b);
        if (b->has(reader) && reader > example && b->stale.empty())
            b->stale = text("example ", b->index_of(example), ", at ", Site::here().describe());
        example = b->caller();
    }
}

}  // namespace

Stay::Stay(bool stay) : by_(stay) { Batcher::current().staying += by_; }
Stay::~Stay() { Batcher::current().staying -= by_; }

int sharing_levels(const Tensor& t) {
    const Batcher& batcher = Batcher::current();
    return batcher.example() ? levels_that_share(batcher, maker_of(t)) : 0;
}

void in_turn(int levels) { take_turn(Batcher::current(), levels, false); }

void change_shared(const Tensor& t) {
    const Tensor& root = root_of(t);
    note_change_of(maker_of(t), [&](const ExampleBatch& b) {
        if (is_pending(root)) return uint64_t{0};
        return b.example_of(Batcher::current().tape.last_reader(*root.storage()));
    });
}

void change_layout(const Tensor& t) {
    note_change_of(maker_of(t), [](const ExampleBatch& b) { return b.last_begun; });
}

void change_object(uint64_t maker) {
    Batcher& batcher = Batcher::current();
    if (!batcher.example() || batcher.batch->is_own(maker, memory_maker)) return;
    in_turn(levels_that_share(batcher, maker));
    note_change_of(maker, [](const ExampleBatch& b) { return b.last_begun; });
}

void note_change() {
    Batcher& batcher = Batcher::current();
    if (!batcher.example()) return;
    for (ExampleBatch* b = batcher.batch.get(); b; b = b->outer.get()) ++b->changes;
}

void draw_in_turn(const kernels::Generator& generator) {
    Batcher& batcher = Batcher::current();
    const int levels = levels_that_share(batcher, generator.maker);
    ExampleBatch* b = batcher.batch.get();
    for (int level = 0; level < levels; ++level, b = b->outer.get()) b->late_draws += b->at_once;
    take_turn(batcher, levels, true);
}

void draw_at_once(const kernels::Generator& generator) {
    const Batcher& batcher = Batcher::current();
    if (levels_that_share(batcher, generator.maker)) ++batcher.batch->late_draws;
}

}  // namespace weft::deferred
