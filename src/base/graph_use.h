/// How much of the graph of a batched run is run backward.
///
/// Note [Graph use]
/// What batching saves in a backward pass counts only if one comes (Note [Worth] in deferred/worth.h),
/// and only for the calls that it reaches. So nodes of batches bear the number of their run and how
/// many calls they stand for; here lies what was made, run and freed of each run. A node that runs
/// counts for the part of its calls that gradients arrived for: a gradient of a piece of a block is
/// one of as many calls, and its share passes on to the nodes before. Only counts, no clocks.
#pragma once
#include <cstdint>

namespace weft {

struct GraphUse {
    uint64_t run = 0;
    uint32_t made = 0, gone = 0, ran = 0;  ///< nodes
    int64_t made_calls = 0;
    double ran_calls = 0;
};

/// What a node of a batch bears; run 0: a node of no batch.
struct BatchMark {
    uint16_t run = 0;    ///< a place in graph_uses, whose first one is free
    uint16_t calls = 0;  ///< capped
};
inline constinit thread_local BatchMark batch_mark;

constexpr uint64_t kGraphUses = 1024;
/// The latest runs; one before them has its place taken. Guarded by the lock that guards all nodes.
inline constinit GraphUse graph_uses[kGraphUses];
inline constinit uint64_t graph_runs = 0;

/// A run begins; returns its number.
inline uint64_t begin_graph_run() {
    graph_runs += graph_runs % kGraphUses == kGraphUses - 1 ? 2 : 1;
    uint64_t run = graph_runs;
    graph_uses[run % kGraphUses] = {run};
    return run;
}

}  // namespace weft
