#include "autograd/node_run.h"

#include "autograd/anomaly.h"
#include "autograd/fit.h"
#include "autograd/sparse.h"
#include "ops/copy.h"
#include "ops/watch.h"

namespace weft {
namespace {

/// So many undefined tensors, if those there are undefined.
void fit_size(std::vector<Tensor>& ts, int n) {
    if (ts.size() != static_cast<size_t>(n)) ts.resize(n);
}

bool any_defined(const std::vector<Tensor>& ts) {
    for (const Tensor& t : ts)
        if (t.defined()) return true;
    return false;
}

/// Those of `all` that a node's hooks see, by position.
template <class Shown>
std::vector<Tensor> pick(const std::vector<Tensor>& all, const Shown& shown) {
    std::vector<Tensor> out;
    for (size_t i = 0; i < all.size(); ++i)
        if (shown(static_cast<int>(i))) out.push_back(all[i]);
    return out;
}

template <class Shown>
void put_back(std::vector<Tensor>& all, std::vector<Tensor> seen, const Shown& shown) {
    size_t at = 0;
    for (size_t i = 0; i < all.size(); ++i)
        if (shown(static_cast<int>(i))) all[i] = std::move(seen[at++]);
}

/// Throws the exception in flight with the line that made `node`. Call in a catch block.
[[noreturn]] void rethrow_from(const Node& node) {
    anomaly::report(node);
    try {
        throw;
    } catch (Error& e) {
        throw Error(e, "\n  in the backward of " + describe(node));
    } catch (...) {
        if (site_hooks.annotate) site_hooks.annotate("in the backward of " + describe(node));
        throw;
    }
}

}  // namespace

void NodeRun::run(NodeTask& task) {
    Node& node = *task.node;
    fit_size(grads_, node.output_count());
    fit_size(results, node.edge_count());
    for (int k = 0; k < node.output_count(); ++k) grads_[k] = task.buffer(k).take();
    const bool plain = task.capture < 0 && !node.hooks_or_null() && node.edge_count() > 0 &&
                       !(parted && node.runs_without_gradient());
    if (!plain && (batched || parted) && !is_reached(node)) [[unlikely]] {
        for (Tensor& g : grads_) g = Tensor();
        return;
    }
    if (!plain && (task.wanted() || task.only_root)) {
        try {
            call_hooks(task);
        } catch (...) {
            rethrow_from(node);
        }
    }
    if (runs(task)) {
        try {
            if (node.batched) node.batched->use->ran = batched = true;
            ops::WatchSpan span(ops::SpanKind::Node, &node);
            run_node(node);
        } catch (...) {
            rethrow_from(node);
        }
    }
    for (Tensor& g : grads_) g = Tensor();
}

/// Whether the pass comes to the node in the loop too (Note [Reached]).
bool NodeRun::is_reached(const Node& node) {
    for (const Tensor& g : grads_)
        if (g.defined() && !(batched && all_zeros(g))) return true;
    return reached_.any(node);
}

void NodeRun::call_tensor_hooks(const Node& node,
                                const std::vector<std::pair<uint32_t, Ref<Hook>>>& hooks) {
    auto copy = hooks;  // a hook may remove itself
    for (auto& [k, hook] : copy) {
        if (!grads_[k].defined() && node.is_several() && !reached_.part(node, k, {0, INT64_MAX}))
            continue;
        std::vector<Tensor> one{grads_[k]};
        hook->call(one, nullptr);
        grads_[k] = std::move(one[0]);
    }
}

void NodeRun::call_hooks(NodeTask& task) {
    Node& node = *task.node;
    if (Hooks* leaf = node.edge_count() == 0 ? node.leaf_hooks() : nullptr) {
        Hooks copy = *leaf;
        for (auto& hook : copy) hook->call(grads_, nullptr);
    }
    // As in PyTorch, a target on the way to others is found as it arrived, before its hooks.
    if (task.needed) find_targets(task);
    if (NodeHooks* hooks = node.hooks_or_null()) {
        call_tensor_hooks(node, hooks->on_tensor);
        call_tensor_hooks(node, hooks->retain);
    }
    if (!task.needed) find_targets(task);
}

namespace {

/// A gradient that its asker may write: each element has memory of its own.
Tensor writable(const Tensor& grad) {
    if (!grad.defined() || grad.has(kPending) || sparse::is(grad)) return grad;
    if (repeated_dim(grad.shape(), grad.strides()) < 0) return grad;
    Tensor out = Tensor::layout(grad.dtype(), grad.shape());
    out.allocate_beside(grad);
    ops::copy_into(out, grad);
    return out;
}

}  // namespace

void NodeRun::find_targets(const NodeTask& task) {
    for (int k = task.capture; k >= 0; k = captures.next[k]) {
        Tensor& grad = grads_[targets_[k].output];
        if (!options_.create_graph) grad = writable(grad);
        found[k] = grad;
    }
}

bool NodeRun::runs(const NodeTask& task) const {
    if (task.node->edge_count() > 0) return task.needed;
    return options_.accumulate && task.wanted();
}

void NodeRun::run_node(Node& node) {
    if (!targets_.empty()) skip_unwanted(node);
    if (sparse::known) [[unlikely]]
        sparse::expect_taken(node, grads_);
    Node::Work work{grads_,
                    results,
                    targets_.empty() ? nullptr : &skip_,
                    options_.create_graph || options_.by_ops || inspect_results ? nullptr
                                                                                : &summands,
                    parted,
                    !options_.keep_graph && !node.runs_twice()};
    if (NodeHooks* hooks = node.hooks_or_null()) {
        run_hooked_node(node, *hooks, work);
    } else {
        if (!any_defined(grads_) && !node.runs_without_gradient()) return;
        anomaly::Running running(node);
        node.run(work);
        if (inspect_results) inspect_results(node, results);
    }
    fit_results(node);
    if (NodeHooks* hooks = node.hooks_or_null()) call_after_hooks(node, *hooks);
    if (options_.keep_graph) return;
    if (node.runs_twice()) twice_.emplace_back(&node);
    else node.release_saved();
}

void NodeRun::fit_results(const Node& node) {
    for (int i = 0; i < node.edge_count(); ++i) {
        const Edge& to = node.edge(i);
        if (to && results[i].defined()) fit(node, to.node->result(to.output), results[i], i);
    }
}

void NodeRun::run_hooked_node(Node& node, NodeHooks& hooks, Node::Work& work) {
    auto shown = [&node](int k) { return node.shows_output(k); };
    for (auto& hook : Hooks(hooks.before)) {
        std::vector<Tensor> seen = pick(grads_, shown);
        hook->call(seen, nullptr);
        put_back(grads_, std::move(seen), shown);
    }
    incoming_.clear();
    if (!hooks.after.empty()) {
        incoming_ = pick(grads_, shown);
        work.summands = nullptr;
    }
    if (any_defined(grads_) || node.runs_without_gradient()) {
        anomaly::Running running(node);
        node.run(work);
    }
    if (inspect_results) inspect_results(node, results);
}

void NodeRun::call_after_hooks(const Node& node, NodeHooks& hooks) {
    auto led = [&node](int i) { return node.shows_edge(i); };
    for (auto& hook : Hooks(hooks.after)) {
        std::vector<Tensor> seen = pick(results, led);
        hook->call(seen, &incoming_);
        put_back(results, std::move(seen), led);
    }
}

void NodeRun::skip_unwanted(const Node& node) {
    skip_.assign(node.edge_count(), false);
    for (int i = 0; i < node.edge_count(); ++i)
        if (Node* next = node.edge(i).node.get()) skip_[i] = !tasks_.find(next)->wanted();
}

}  // namespace weft
