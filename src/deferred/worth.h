/// Whether batching pays: an estimate from counts.
///
/// Note [Worth]
/// To keep a call and to let an example wait costs more than to run a small call. What batching
/// saves is the graph (one node for many calls) and the passes over weights (one product of matrices
/// for many by a vector). Both are estimated from what a run did, never by a clock: a program then
/// takes the same decisions, and so computes the same bits, every time. Most of it is saved in a
/// backward pass. Whether one follows is seen by the graph (Note [Graph use] in base/graph_use.h): as
/// long as nothing is known it is taken to, later what became of the runs before. The coefficients are about the mean of several fits of
/// bench/batching_worth.py, which measures programs both ways: without a graph, with one that is
/// dropped, with one that is run; that of `passes`, which cost the more the larger the graph is, is
/// only large, and that of `waits` the largest of the fits.
#pragma once
#include <cstdint>

namespace weft::deferred {

/// What was done on this thread, by what costs and saves time.
struct Tally {
    int64_t calls = 0, recorded = 0;  ///< kept calls; those of them with a gradient
    int64_t batches = 0, recorded_batches = 0;
    int64_t at_once = 0;       ///< calls of examples that were not kept: views, draws
    int64_t fresh = 0;         ///< classes of calls seen for the first time
    int64_t pieces = 0;        ///< of operands that were packed
    int64_t waits = 0;         ///< values that examples waited for
    int64_t elements = 0;      ///< of the results of batches
    int64_t far_elements = 0;  ///< of those with so many that they leave the cache (kFar)
    /// Elements of shared matrices, times the calls that a batch spares, where all matrices together
    /// have so many (kBeyondCache) that a cache does not hold them from call to call.
    int64_t weights = 0;
    int64_t recorded_weights = 0;  ///< such elements, however few, of recorded calls
    int64_t passes = 0;            ///< of backward inside of an example, over the graph of all
    int64_t examples = 0, runs = 0;
};
constexpr int64_t kBeyondCache = 3 << 16;  ///< elements
constexpr int64_t kFar = 3 << 16;

/// Nanoseconds that the plain loop would have taken longer; negative if it would have been faster.
struct Saved {
    double forward;   ///< in the run itself
    double backward;  ///< if it is run backward
};
inline Saved saved(const Tally& t) {
    auto of = [](int64_t n) { return static_cast<double>(n); };
    double forward = 130 * of(t.recorded) + 0.028 * of(t.weights) + 0.01 * of(t.recorded_weights) -
                     70 * of(t.calls) - 420 * of(t.batches) - 280 * of(t.recorded_batches) -
                     300 * of(t.at_once) - 4000 * of(t.fresh) - 90 * of(t.pieces) -
                     2800 * of(t.waits) - 0.05 * of(t.elements) - 0.23 * of(t.far_elements) -
                     2e6 * of(t.passes) - 1500 * of(t.examples) - 13000 * of(t.runs);
    return {forward,
            420 * of(t.recorded) + 0.04 * of(t.recorded_weights) - 1600 * of(t.recorded_batches)};
}

}  // namespace weft::deferred
