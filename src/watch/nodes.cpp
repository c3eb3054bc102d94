/// What a log tells after the fact: the graph of nodes, as calls.
#include <queue>

#include "autograd/accumulate.h"
#include "autograd/meta.h"
#include "autograd/op_node.h"
#include "watch/log.h"

namespace weft::watch {

using ops::SpanKind;

int32_t Log::add(DType dtype, DimSpan shape, int32_t event) {
    const auto number = static_cast<int32_t>(values.size());
    values.push_back({.event = event,
                      .memory = -1,
                      .dims = static_cast<uint32_t>(dims.size()),
                      .ndim = static_cast<uint8_t>(shape.size()),
                      .dtype = dtype,
                      .marks = kRequiresGrad});
    for (int64_t size : shape) dims.push_back(size);
    return number;
}

/// What an edge leads to: a result of a call, a leaf, or what was before the nodes that are looked at.
int32_t Log::value_at(const Edge& edge, Results& results) {
    if (!edge) return -1;
    const Node* node = edge.node.get();
    auto [at, is_new] = results.try_emplace(node, 0);
    auto* leaf = dynamic_cast<const AccumulateGrad*>(node);
    if (leaf && leaf->variable().defined()) {  // not so: written in place since, no leaf any more
        if (!is_new) return at->second;
        at->second = add(leaf->variable(), -1, -1, false);
        found.push_back({at->second, leaf->variable().impl()});
        return at->second;
    }
    if (is_new) {
        at->second = static_cast<int32_t>(values.size());
        for (int k = 0; k < node->output_count(); ++k)
            add(node->result(k).dtype(), node->result(k).shape(), -1);
    }
    return at->second + static_cast<int32_t>(edge.output);
}

void Log::add_node(const Node& node, Results& results) {
    std::vector<int32_t> inputs;
    for (int i = 0; i < node.edge_count(); ++i) inputs.push_back(value_at(node.edge(i), results));
    const auto number = static_cast<int32_t>(events.size());
    auto* op = dynamic_cast<const OpNode*>(&node);
    Event& event = events.add();
    event = {.kind = op ? SpanKind::Call : SpanKind::Function, .parent = -1};
    if (op) event.op = &op->op();
    else event.name = name_of(nullptr, node.name());
    event.site = number_of(node.site.copy());
    event.node = node.sequence + 1;
    event.saved = op ? op->kept() : 0;
    event.inputs = static_cast<uint32_t>(inputs.size());
    event.outputs = static_cast<uint32_t>(node.output_count());
    event.operands = static_cast<uint32_t>(operands.size());
    for (int32_t value : inputs) operands.push_back(value);
    results[&node] = static_cast<int32_t>(values.size());
    for (int k = 0; k < node.output_count(); ++k)
        operands.push_back(add(node.result(k).dtype(), node.result(k).shape(), number));
}

Log::Results Log::add_graph(const std::vector<Tensor>& roots, size_t most) {
    struct Reached {
        int waits = 0;  ///< nodes before it that have not come yet
        std::vector<const Node*> after;
    };
    std::unordered_map<const Node*, Reached> nodes;
    std::vector<const Node*> found_nodes;
    auto reach = [&](const Node* node) {
        if (!node || dynamic_cast<const AccumulateGrad*>(node)) return false;
        if (nodes.contains(node)) return true;
        if (found_nodes.size() >= most) return false;
        nodes.try_emplace(node);
        found_nodes.push_back(node);
        return true;
    };
    for (const Tensor& t : roots) reach(gradient_edge(t).node.get());
    for (size_t i = 0; i < found_nodes.size(); ++i) {
        const Node* node = found_nodes[i];
        for (int k = 0; k < node->edge_count(); ++k) {
            const Node* before = node->edge(k).node.get();
            if (!reach(before)) continue;
            nodes[before].after.push_back(node);
            ++nodes[node].waits;
        }
    }
    // By the order of recording, but none before those that it reads: nodes of views come later.
    auto later = [](const Node* a, const Node* b) { return a->sequence > b->sequence; };
    std::priority_queue<const Node*, std::vector<const Node*>, decltype(later)> ready(later);
    for (const Node* node : found_nodes)
        if (nodes[node].waits == 0) ready.push(node);
    Results results;
    while (!ready.empty()) {
        const Node* node = ready.top();
        ready.pop();
        add_node(*node, results);
        for (const Node* next : nodes[node].after)
            if (--nodes[next].waits == 0) ready.push(next);
    }
    return results;
}

void Log::add_nodes(const std::vector<Tensor>& roots) {
    std::vector<Edge> held;  // a view's node may be made as it is asked for
    for (const Tensor& t : roots) held.push_back(gradient_edge(t));
    const Results results = add_graph(roots, SIZE_MAX);
    for (size_t i = 0; i < roots.size(); ++i) {
        auto at = results.find(held[i].node.get());
        if (at != results.end())
            found.push_back({at->second + static_cast<int32_t>(held[i].output), roots[i].impl()});
    }
}

void Log::add_failed(const Failed& failed, size_t most) {
    std::vector<Tensor> roots;
    for (const Tensor& t : failed.inputs)
        if (t.defined() && !t.has(kPending) && requires_grad(t)) roots.push_back(t);
    std::vector<Edge> held;
    for (const Tensor& t : roots) held.push_back(gradient_edge(t));
    Results results = add_graph(roots, most);
    std::vector<int32_t> inputs;
    size_t root = 0;
    for (const Tensor& t : failed.inputs) {
        if (!t.defined()) inputs.push_back(-1);
        else if (root < roots.size() && t.same(roots[root]))
            inputs.push_back(value_at(held[root++], results));
        else inputs.push_back(add(t.dtype(), t.shape(), -1));
    }
    Event& event = events.add();
    event = {.kind = failed.op ? SpanKind::Call : SpanKind::Function, .parent = -1};
    event.failed = true;
    event.in_place = failed.in_place;
    event.op = failed.op;
    if (!failed.op) event.name = name_of(nullptr, failed.name);
    event.site = number_of(Site::here());
    event.inputs = static_cast<uint32_t>(inputs.size());
    event.operands = static_cast<uint32_t>(operands.size());
    for (int32_t value : inputs) operands.push_back(value);
}

}  // namespace weft::watch
