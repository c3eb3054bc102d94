/// What one backward pass knows of one node.
///
/// Note [Passes share nodes]
/// Passes nest (a custom backward may call backward) and threads may interleave at released locks,
/// so one node can be in several passes. Each keeps its count and buffers in a NodeTask of its own;
/// they hang in a list on the node, almost always of length one.
#pragma once
#include <memory>

#include "autograd/grad_buffer.h"
#include "base/pool.h"

namespace weft {

class TaskList;

struct NodeTask {
    NodeTask(Node* node, const TaskList* list) : node(node), list(list), next(node->tasks) {
        node->tasks = this;
    }
    ~NodeTask() {
        NodeTask** at = &node->tasks;
        while (*at != this) at = &(*at)->next;
        *at = next;
    }
    NodeTask(const NodeTask&) = delete;

    GradBuffer& buffer(uint32_t k) { return k == 0 ? first : further(k); }

    /// Whether the gradients of its outputs are of use.
    bool wanted() const { return needed || capture >= 0; }

    Node* node;
    const TaskList* list;
    NodeTask* next;             ///< other passes' tasks of this node
    NodeTask* later = nullptr;  ///< the pass's next task, in order of discovery
    int waiting = 0;            ///< edges into the node not yet served
    int capture = -1;           ///< a target that is an output of this node; -1: none is
    bool needed = true;         ///< a target can be reached by its edges, or all is wanted
    bool seen = false;          ///< by mark_needed
    bool only_root = false;     ///< its tensors' hooks are called even if it leads to no target
    GradBuffer first;           ///< of output 0

private:
    GradBuffer& further(uint32_t k) {
        if (!rest_) rest_ = std::make_unique<GradBuffer[]>(node->output_count() - 1);
        return rest_[k - 1];
    }
    std::unique_ptr<GradBuffer[]> rest_;
};

/// The tasks of one pass, in order of discovery.
class TaskList {
public:
    TaskList() = default;
    TaskList(const TaskList&) = delete;
    ~TaskList() {
        while (NodeTask* task = first_) {
            first_ = task->later;
            task->~NodeTask();
            Pool::free(task, sizeof(NodeTask));
        }
    }
    NodeTask* first() const { return first_; }
    /// The task of `node`; null if the pass has not met it.
    NodeTask* find(const Node* node) const {
        for (NodeTask* task = node->tasks; task; task = task->next)
            if (task->list == this) return task;
        return nullptr;
    }
    NodeTask* find_or_add(Node* node) {
        if (NodeTask* task = find(node)) return task;
        auto* task = new (Pool::allocate(sizeof(NodeTask))) NodeTask(node, this);
        *end_ = task;
        end_ = &task->later;
        return task;
    }

private:
    NodeTask* first_ = nullptr;
    NodeTask** end_ = &first_;
};

}  // namespace weft
