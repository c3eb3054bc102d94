/// The engine: runs a graph backwards.
#pragma once
#include <vector>

#include "autograd/node.h"

namespace weft {

struct BackwardOptions {
    bool keep_graph = false;    ///< keep saved tensors, so that the graph can be run again
    bool create_graph = false;  ///< record the backward pass itself
    bool accumulate = true;     ///< false: nothing is added to leaves (autograd.grad)
    bool by_ops = false;        ///< gradients may be no memory: nothing goes past the door
    bool out_of_place =
        false;  ///< leaves get new sums: this pass reaches those of others, who hold
                ///< their gradients (an example in a batch)
};

/// Runs the graph from `roots` with their gradients. With `targets`, only what they need runs, and
/// the gradients that arrive there are returned (undefined where none did); with
/// `options.accumulate` they are the only leaves that get one.
std::vector<Tensor> backward(const std::vector<Edge>& roots, std::vector<Tensor> gradients,
                             const std::vector<Edge>& targets, const BackwardOptions& options);

/// Turned on by anomaly mode: called after each node with its results.
inline void (*inspect_results)(const Node& node, const std::vector<Tensor>& results) = nullptr;

/// The number of the innermost backward pass of this thread; 0 outside.
uint64_t current_pass();
/// Whether that pass makes the gradients of `node`'s outputs.
bool current_pass_reaches(const Node& node);
/// Whether it adds to all leaves: a pass for chosen inputs does not.
bool current_pass_is_full();
/// Whether a gradient comes to these elements of output `k` of `node` (Note [Reached]); true outside.
bool current_pass_reaches(const Node& node, uint32_t k, int64_t begin, int64_t end);
/// Whether it came through a batch, so that zeros may stand for no gradient.
bool current_pass_is_batched();
/// Whether it must not write into gradients that leaves have.
bool current_pass_adds_out_of_place();

/// Calls `f` when the outermost backward pass of this thread has ended (queue_callback).
void after_backward(Ref<Hook> f);

}  // namespace weft
