#include "autograd/targets.h"

namespace weft {
namespace {

/// The tasks below `start` that are not `seen` yet, each after those it has edges to. A stack, not
/// recursion: graphs are deep.
void append_in_order(const TaskList& tasks, NodeTask* start, std::vector<NodeTask*>& order) {
    std::vector<std::pair<NodeTask*, int>> stack{{start, 0}};
    start->seen = true;
    while (!stack.empty()) {
        auto& [task, i] = stack.back();
        if (i == task->node->edge_count()) {
            order.push_back(task);
            stack.pop_back();
            continue;
        }
        const Edge& edge = task->node->edge(i++);
        NodeTask* next = edge ? tasks.find(edge.node.get()) : nullptr;
        if (!next || next->seen) continue;
        next->seen = true;
        stack.emplace_back(next, 0);
    }
}

bool leads_to_target(const TaskList& tasks, const Node& node) {
    for (int i = 0; i < node.edge_count(); ++i)
        if (const Edge& edge = node.edge(i))
            if (tasks.find(edge.node.get())->wanted()) return true;
    return false;
}

}  // namespace

Captures mark_needed(TaskList& tasks, const std::vector<Edge>& targets, bool run_targets) {
    Captures captures{std::vector<int>(targets.size(), -1)};
    for (NodeTask* task = tasks.first(); task; task = task->later) task->needed = false;
    for (size_t k = 0; k < targets.size(); ++k)
        if (NodeTask* task = targets[k] ? tasks.find(targets[k].node.get()) : nullptr) {
            captures.next[k] = task->capture;
            task->capture = static_cast<int>(k);
        }
    std::vector<NodeTask*> order;
    for (NodeTask* task = tasks.first(); task; task = task->later)
        if (!task->seen) append_in_order(tasks, task, order);
    for (NodeTask* task : order)
        task->needed = leads_to_target(tasks, *task->node) || (run_targets && task->capture >= 0);
    return captures;
}

}  // namespace weft
