/// Backward for chosen inputs: which nodes have to run.
#pragma once
#include "autograd/task.h"

namespace weft {

/// The targets that are outputs of one node: `task.capture`, then `next[capture]` and so on to -1.
struct Captures {
    std::vector<int> next;
};

/// Leaves `needed` only on tasks from whose edges a target can be reached, and sets `capture`. With
/// `run_targets`, the targets' own nodes run too (and free what they saved), as in PyTorch's
/// backward(inputs=).
Captures mark_needed(TaskList& tasks, const std::vector<Edge>& targets, bool run_targets);

}  // namespace weft
