/// Whether batching pays: an estimate from counts.
///
/// Note [Worth]
/// To keep a call and to let an example wait costs more than to run a small call. What batching
/// saves is the graph (one node for many calls) and the passes over weights (one product of matrices
/// for many by a vector). Both are estimated from what a run did, never by a clock: a program then
/// takes the same decisions, and so computes the same bits, every time. The coefficients are those of
/// bench/batching_worth.py, which measures programs both ways and fits them; that of `passes`, which
/// cost the more the larger the graph is, is only large, and that of `waits` the largest of several
/// fits.
#pragma once
#include <cstdint>

namespace weft::deferred {

/// What was done on this thread, by what costs and saves time.
struct Tally {
    int64_t calls = 0, recorded = 0;  ///< kept calls; those of them with a gradient
    int64_t batches = 0, recorded_batches = 0;
    int64_t at_once = 0;              ///< calls of examples that were not kept: views, draws
    int64_t fresh = 0;                ///< classes of calls seen for the first time
    int64_t pieces = 0;               ///< of operands that were packed
    int64_t waits = 0;                ///< values that examples waited for
    int64_t elements = 0;             ///< of the results of batches
    int64_t far_elements = 0;         ///< of those with so many that they leave the cache (kFar)
    /// Elements of shared matrices, times merged calls; without a gradient only where all matrices
    /// together have so many (kBeyondCache) that a cache does not hold them from call to call.
    int64_t weights = 0, recorded_weights = 0;
    int64_t passes = 0;               ///< of backward inside of an example, over the graph of all
    int64_t examples = 0, runs = 0;
};
inline thread_local Tally tally;
constexpr int64_t kBeyondCache = 3 << 16;  ///< elements
constexpr int64_t kFar = 3 << 16;

/// Nanoseconds that the plain loop would have taken longer; negative if it would have been faster.
inline double saved(const Tally& t) {
    auto of = [](int64_t n) { return static_cast<double>(n); };
    return 520 * of(t.recorded) + 0.028 * of(t.weights) + 0.066 * of(t.recorded_weights) -
           70 * of(t.calls) - 400 * of(t.batches) - 1900 * of(t.recorded_batches) -
           300 * of(t.at_once) - 4000 * of(t.fresh) - 90 * of(t.pieces) - 2800 * of(t.waits) -
           0.05 * of(t.elements) - 0.23 * of(t.far_elements) - 2e6 * of(t.passes) -
           1500 * of(t.examples) - 13000 * of(t.runs);
}

}  // namespace weft::deferred
