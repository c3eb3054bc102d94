/// Whether batching pays: an estimate from counts.
///
/// Note [Worth]
/// The plain loop is the rival. What a batched run does less (+) and more (-) than it, in nanoseconds:
///
///   runs       -5000   a run begins and ends
///   examples   -1000   an example begins and ends, its result gets memory of its own
///   fibers     -6500   it stops for a value, so that the next one needs another stack
///   waits       -900   it stops, and goes on: two switches
///   calls       -300   a call is kept, planned and its operands gathered, or settles what it reads
///   weights   +0.023   an element of a matrix that all examples share was not read again for one of
///                      them: a product of matrices in place of many with vectors
///
/// and if the graph is run backward:
///
///   merged      +780   a call ran with others: no node of its own to record and to run
///   nodes      -2000   the node of a batch runs, and undoes the gathering
///   weights   +0.023   the same for the gradients of the rows, where they want any. (The gradient of
///                      the matrix is one product in the loop too: Note [Sums of products] in
///                      autograd/grad_buffer.h.)
///
/// Only recorded calls count as merged: without a graph the kernel calls that are spared cost about
/// what keeping does, so that large weights alone make batching pay. With one a training step is better
/// batched as soon as some five calls share a node. Calls that run as parts of one (Note [Each] in
/// ops/each.h) or alone merge nothing: each has a kernel call and a backward formula of its own, as in
/// the loop. A pass of backward inside of an example runs over the graph of all: never worth it.
///
/// Never a clock decides: a program takes the same decisions, and so computes the same bits, every
/// time. The numbers are rounded from a fit, and their ratios alone matter: `bench/batching_choice.py`
/// measures some sixty programs both ways, of 8 to 512 examples, forward only and training, shows what
/// is chosen wrongly, and with `--fit` seeks those numbers at which least time is lost. Whether a
/// backward pass follows is seen by the graph (Note [Graph use] in base/graph_use.h): as long as
/// nothing is known it is taken to, later what became of the runs before.
#pragma once
#include <cstdint>

namespace weft::deferred {

/// What was done on this thread, by what costs and saves time.
struct Tally {
    int64_t runs = 0, examples = 0;
    int64_t fibers = 0;   ///< examples that stopped
    int64_t waits = 0;    ///< values that examples waited for
    int64_t calls = 0;    ///< of examples, kept or run at once
    int64_t merged = 0;   ///< kept calls with a gradient that became one node with others
    int64_t nodes = 0;    ///< of batches with a gradient
    int64_t weights = 0;  ///< elements of shared matrices, for each time that they were not read
    int64_t weights_back = 0;  ///< of these: for rows that want a gradient
    int64_t passes = 0;        ///< of backward inside of an example, over the graph of all
};

/// Nanoseconds that the plain loop would have taken longer; negative if it would have been faster.
struct Saved {
    double forward;   ///< in the run itself
    double backward;  ///< if it is run backward
};
inline Saved saved(const Tally& t) {
    auto of = [](int64_t n) { return static_cast<double>(n); };
    return {0.023 * of(t.weights) - 300 * of(t.calls) - 900 * of(t.waits) - 6500 * of(t.fibers) -
                1000 * of(t.examples) - 5000 * of(t.runs) - 2e6 * of(t.passes),
            780 * of(t.merged) + 0.023 * of(t.weights_back) - 2000 * of(t.nodes)};
}

}  // namespace weft::deferred
