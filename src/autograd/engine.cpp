/// Reading guide: Pass::plan counts dependencies, Pass::run runs ready nodes, latest first, and hands
/// their results to the nodes before them. What a pass knows of a node is in task.h, backward for
/// chosen inputs in targets.cpp, what rules need not do in fit.h.
#include "autograd/engine.h"

#include <algorithm>

#include "autograd/anomaly.h"
#include "autograd/fit.h"
#include "autograd/meta.h"
#include "autograd/targets.h"
#include "ops/call.h"

namespace weft {

class Pass {
public:
    Pass(const BackwardOptions& options, const std::vector<Edge>& targets)
        : options_(options), targets_(targets), found_(targets.size()) {}

    void plan(const std::vector<Edge>& roots, std::vector<Tensor>& gradients);
    void run();
    std::vector<Tensor> found() { return std::move(found_); }
    bool reaches(const Node& node) const {
        NodeTask* task = tasks_.find(&node);
        return task && task->wanted();
    }
    bool full() const { return targets_.empty() && options_.accumulate; }
    uint64_t number() const { return number_; }

    static inline thread_local Pass* current = nullptr;

private:
    void push(NodeTask* task);
    NodeTask* pop();
    void run_task(NodeTask& task);
    void call_hooks(NodeTask& task);
    bool runs(const NodeTask& task) const;
    void run_node(Node& node);
    void run_hooked_node(Node& node, NodeHooks& hooks, Node::Work& work);
    void skip_unwanted(const Node& node);
    void deliver(const Node& node);

    static inline uint64_t passes = 0;
    uint64_t number_ = ++passes;
    BackwardOptions options_;
    const std::vector<Edge>& targets_;
    std::vector<Tensor> found_;
    Captures captures_;
    TaskList tasks_;
    std::vector<NodeTask*> ready_;
    // of the node at work
    std::vector<Tensor> grads_, results_;
    std::vector<Product> products_;
    std::vector<bool> skip_;
};

void Pass::plan(const std::vector<Edge>& roots, std::vector<Tensor>& gradients) {
    for (const Edge& root : roots) tasks_.find_or_add(root.node.get());
    for (NodeTask* task = tasks_.first(); task; task = task->later) {  // the list grows meanwhile
        const Node& node = *task->node;
        for (int i = 0; i < node.edge_count(); ++i)
            if (Node* next = node.edge(i).node.get()) ++tasks_.find_or_add(next)->waiting;
    }
    for (size_t i = 0; i < roots.size(); ++i) {
        Node& node = *roots[i].node;
        uint32_t k = roots[i].output;
        fit(node, node.result(k), gradients[i], -1);
        tasks_.find(&node)->buffer(k).add(std::move(gradients[i]));
    }
    if (!targets_.empty()) captures_ = mark_needed(tasks_, targets_);
    for (NodeTask* task = tasks_.first(); task; task = task->later)
        if (task->waiting == 0) push(task);
}

namespace {

bool runs_later(const NodeTask* a, const NodeTask* b) { return a->node->sequence < b->node->sequence; }

/// So many undefined tensors, if those there are undefined.
void fit_size(std::vector<Tensor>& ts, int n) {
    if (ts.size() != static_cast<size_t>(n)) ts.resize(n);
}

bool any_defined(const std::vector<Tensor>& ts) {
    for (const Tensor& t : ts)
        if (t.defined()) return true;
    return false;
}

void call_tensor_hooks(const std::vector<std::pair<uint32_t, Ref<Hook>>>& hooks,
                       std::vector<Tensor>& grads) {
    auto copy = hooks;  // a hook may remove itself
    for (auto& [k, hook] : copy) {
        std::vector<Tensor> one{grads[k]};
        hook->call(one, nullptr);
        grads[k] = std::move(one[0]);
    }
}

/// Throws the exception in flight with the line that made `node`. Call in a catch block.
[[noreturn]] void rethrow_from(const Node& node) {
    anomaly::report(node);
    try {
        throw;
    } catch (Error& e) {
        throw Error(e.kind, text(e.what(), "\n  in the backward of ", describe(node)));
    } catch (...) {
        if (site_hooks.annotate) site_hooks.annotate("in the backward of " + describe(node));
        throw;
    }
}

}  // namespace

void Pass::push(NodeTask* task) {
    ready_.push_back(task);
    if (ready_.size() > 1) std::push_heap(ready_.begin(), ready_.end(), runs_later);
}

NodeTask* Pass::pop() {
    if (ready_.size() > 1) std::pop_heap(ready_.begin(), ready_.end(), runs_later);
    NodeTask* task = ready_.back();
    ready_.pop_back();
    return task;
}

void Pass::run() {
    struct Current {
        explicit Current(Pass* pass) : outer(current) { current = pass; }
        ~Current() { current = outer; }
        Pass* outer;
    } scope(this);
    uint32_t grad = kGradMode;
    ModeGuard guard(options_.create_graph ? grad : 0, options_.create_graph ? 0 : grad);
    while (!ready_.empty()) run_task(*pop());
}

void Pass::run_task(NodeTask& task) {
    Node& node = *task.node;
    fit_size(grads_, node.output_count());
    fit_size(results_, node.edge_count());
    for (int k = 0; k < node.output_count(); ++k) grads_[k] = task.buffer(k).take();
    bool plain = task.capture < 0 && !node.hooks_or_null() && node.edge_count() > 0;
    if (!plain && task.wanted()) call_hooks(task);
    if (runs(task)) {
        try {
            run_node(node);
        } catch (...) {
            rethrow_from(node);
        }
    }
    for (Tensor& g : grads_) g = Tensor();
    deliver(node);
}

void Pass::call_hooks(NodeTask& task) {
    Node& node = *task.node;
    if (Hooks* leaf = node.edge_count() == 0 ? node.leaf_hooks() : nullptr) {
        Hooks copy = *leaf;
        for (auto& hook : copy) hook->call(grads_, nullptr);
    }
    if (NodeHooks* hooks = node.hooks_or_null()) {
        call_tensor_hooks(hooks->on_tensor, grads_);
        call_tensor_hooks(hooks->retain, grads_);
    }
    for (int k = task.capture; k >= 0; k = captures_.next[k]) found_[k] = grads_[targets_[k].output];
}

bool Pass::runs(const NodeTask& task) const {
    if (task.node->edge_count() > 0) return task.needed;
    return options_.accumulate && task.wanted();
}

void Pass::run_node(Node& node) {
    if (!targets_.empty()) skip_unwanted(node);
    Node::Work work{grads_, results_, targets_.empty() ? nullptr : &skip_,
                    options_.create_graph || inspect_results ? nullptr : &products_};
    if (NodeHooks* hooks = node.hooks_or_null()) {
        run_hooked_node(node, *hooks, work);
    } else {
        if (!any_defined(grads_) && !node.runs_without_gradient()) return;
        anomaly::Running running(node);
        node.run(work);
        if (inspect_results) inspect_results(node, results_);
    }
    for (int i = 0; i < node.edge_count(); ++i) {
        const Edge& to = node.edge(i);
        if (to && results_[i].defined()) fit(node, to.node->result(to.output), results_[i], i);
    }
    if (!options_.keep_graph) node.release_saved();
}

void Pass::run_hooked_node(Node& node, NodeHooks& hooks, Node::Work& work) {
    for (auto& hook : Hooks(hooks.before)) hook->call(grads_, nullptr);
    std::vector<Tensor> incoming;
    if (!hooks.after.empty()) {
        incoming = grads_;
        work.products = nullptr;
    }
    if (any_defined(grads_) || node.runs_without_gradient()) {
        anomaly::Running running(node);
        node.run(work);
    }
    if (inspect_results) inspect_results(node, results_);
    for (auto& hook : Hooks(hooks.after)) hook->call(results_, &incoming);
}

void Pass::skip_unwanted(const Node& node) {
    skip_.assign(node.edge_count(), false);
    for (int i = 0; i < node.edge_count(); ++i)
        if (Node* next = node.edge(i).node.get()) skip_[i] = !tasks_.find(next)->wanted();
}

void Pass::deliver(const Node& node) {
    for (Product& p : products_) {
        const Edge& edge = node.edge(p.edge);
        tasks_.find(edge.node.get())->buffer(edge.output).add_product(std::move(p.a), std::move(p.b));
    }
    products_.clear();
    for (int i = 0; i < node.edge_count(); ++i) {
        const Edge& edge = node.edge(i);
        if (!edge) {
            results_[i] = Tensor();
            continue;
        }
        NodeTask* next = tasks_.find(edge.node.get());
        next->buffer(edge.output).add(std::move(results_[i]));
        if (--next->waiting == 0) push(next);
    }
}

namespace {
thread_local int depth = 0;
thread_local Hooks* callbacks = nullptr;

void run_callbacks() {
    if (!callbacks) return;
    Hooks now = std::move(*callbacks);
    callbacks->clear();
    std::vector<Tensor> none;
    for (auto& f : now) f->call(none, nullptr);
}
}  // namespace

uint64_t current_pass() { return Pass::current ? Pass::current->number() : 0; }

bool current_pass_reaches(const Node& node) {
    return Pass::current && Pass::current->reaches(node);
}

bool current_pass_is_full() { return !Pass::current || Pass::current->full(); }

void after_backward(Ref<Hook> f) {
    WEFT_EXPECT(depth > 0, Runtime, "queue_callback", "a backward pass under way", "none");
    if (!callbacks) callbacks = new Hooks;
    callbacks->push_back(std::move(f));
}

std::vector<Tensor> backward(const std::vector<Edge>& roots, std::vector<Tensor> gradients,
                             const std::vector<Edge>& targets, const BackwardOptions& options) {
    struct Depth {
        Depth() { ++depth; }
        ~Depth() {
            if (--depth == 0 && callbacks) callbacks->clear();
        }
    } guard;
    std::vector<Tensor> found;
    {
        Pass pass(options, targets);
        pass.plan(roots, gradients);
        pass.run();
        found = pass.found();
    }
    if (depth == 1) run_callbacks();
    return found;
}

}  // namespace weft
