/// Reading guide: NodeTask is what one pass knows of one node; Pass::plan counts dependencies,
/// Pass::run pops ready nodes, latest first, and hands their results to the nodes before them.
#include "autograd/engine.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "autograd/anomaly.h"
#include "autograd/grad_buffer.h"
#include "autograd/meta.h"
#include "ops/copy.h"
#include "ops/functions.h"

namespace weft {

class Pass;

/// Note [Passes share nodes]
/// Passes nest (a custom backward may call backward) and threads may interleave at released locks,
/// so one node can be in several passes. Each keeps its count and buffers in a NodeTask of its own;
/// they hang in a list on the node, almost always of length one.
struct NodeTask {
    Node* node;
    Pass* pass;
    NodeTask* next;            // other passes' tasks of this node
    int waiting = 0;           // edges into the node not yet served
    bool needed = true;
    std::vector<int> captures; // targets that are outputs of this node
    GradBuffer first;          // output 0
    std::vector<GradBuffer> rest;
    GradBuffer& buffer(uint32_t k) {
        if (k == 0) return first;
        if (rest.empty()) rest.resize(node->output_count() - 1);
        return rest[k - 1];
    }
};

class Pass {
public:
    Pass(const BackwardOptions& options, const std::vector<Edge>& targets)
        : options_(options), targets_(targets), found_(targets.size()) {}
    ~Pass() {
        for (NodeTask& task : tasks_) {
            NodeTask** at = &task.node->tasks;
            while (*at != &task) at = &(*at)->next;
            *at = task.next;
        }
    }

    void plan(const std::vector<Edge>& roots, std::vector<Tensor>& gradients);
    void run();
    std::vector<Tensor> found() { return std::move(found_); }
    bool reaches(const Node& node);
    bool full() const { return targets_.empty() && options_.accumulate; }
    uint64_t number() const { return number_; }

    static inline thread_local Pass* current = nullptr;

private:
    NodeTask* find(const Node* node) {
        for (NodeTask* t = node->tasks; t; t = t->next)
            if (t->pass == this) return t;
        return nullptr;
    }
    NodeTask* task_of(Node* node, bool* fresh);
    void mark_needed();
    void push(NodeTask* task);
    NodeTask* pop();
    void run_task(NodeTask& task);
    void run_node(NodeTask& task, Node::Work& work);
    void deliver(NodeTask& task, Node::Work& work);
    Tensor validated(const Node& from, const Edge& to, Tensor t, int i) const;

    static inline uint64_t passes = 0;
    uint64_t number_ = ++passes;
    BackwardOptions options_;
    const std::vector<Edge>& targets_;
    std::vector<Tensor> found_;
    std::deque<NodeTask> tasks_;
    std::vector<NodeTask*> ready_;
    std::vector<Tensor> grads_, results_;
    std::vector<bool> skip_;
};

NodeTask* Pass::task_of(Node* node, bool* fresh) {
    NodeTask* task = find(node);
    *fresh = !task;
    if (!task) {
        task = &tasks_.emplace_back();
        task->node = node;
        task->pass = this;
        task->next = node->tasks;
        node->tasks = task;
    }
    return task;
}

void Pass::plan(const std::vector<Edge>& roots, std::vector<Tensor>& gradients) {
    bool fresh;
    for (const Edge& root : roots) task_of(root.node.get(), &fresh);
    for (size_t at = 0; at < tasks_.size(); ++at) {  // a queue: tasks_ grows behind `at`
        Node* node = tasks_[at].node;
        for (int i = 0; i < node->edge_count(); ++i)
            if (node->edge(i)) task_of(node->edge(i).node.get(), &fresh)->waiting++;
    }
    for (size_t i = 0; i < roots.size(); ++i) {
        Tensor g = validated(*roots[i].node, roots[i], std::move(gradients[i]), -1);
        find(roots[i].node.get())->buffer(roots[i].output).add(std::move(g));
    }
    if (!targets_.empty()) mark_needed();
    for (NodeTask& task : tasks_)
        if (task.waiting == 0) push(&task);
}

/// Only nodes from which a target can be reached run. In an order in which every node comes after
/// those it has edges to, one sweep settles it; the order is found with a stack, not recursion.
void Pass::mark_needed() {
    for (NodeTask& task : tasks_) task.needed = false;
    for (size_t k = 0; k < targets_.size(); ++k)
        if (NodeTask* task = targets_[k] ? find(targets_[k].node.get()) : nullptr)
            task->captures.push_back(static_cast<int>(k));
    std::vector<std::pair<NodeTask*, int>> stack;
    std::vector<NodeTask*> order;
    std::vector<char> state(tasks_.size());  // not shared with `waiting`, which the run needs
    std::unordered_map<NodeTask*, size_t> number;
    for (size_t i = 0; i < tasks_.size(); ++i) number[&tasks_[i]] = i;
    for (NodeTask& start : tasks_) {
        if (state[number[&start]]) continue;
        state[number[&start]] = 1;
        stack.emplace_back(&start, 0);
        while (!stack.empty()) {
            auto& [task, i] = stack.back();
            if (i == task->node->edge_count()) {
                order.push_back(task);
                stack.pop_back();
                continue;
            }
            const Edge& edge = task->node->edge(i++);
            if (!edge) continue;
            NodeTask* next = find(edge.node.get());
            if (state[number[next]]) continue;
            state[number[next]] = 1;
            stack.emplace_back(next, 0);
        }
    }
    for (NodeTask* task : order) {
        bool below = false;
        for (int i = 0; i < task->node->edge_count() && !below; ++i)
            if (const Edge& edge = task->node->edge(i)) {
                NodeTask* next = find(edge.node.get());
                below = next->needed || !next->captures.empty();
            }
        task->needed = below;
    }
}

void Pass::push(NodeTask* task) {
    ready_.push_back(task);
    std::push_heap(ready_.begin(), ready_.end(),
                   [](NodeTask* a, NodeTask* b) { return a->node->sequence < b->node->sequence; });
}

NodeTask* Pass::pop() {
    std::pop_heap(ready_.begin(), ready_.end(),
                  [](NodeTask* a, NodeTask* b) { return a->node->sequence < b->node->sequence; });
    NodeTask* task = ready_.back();
    ready_.pop_back();
    return task;
}

bool Pass::reaches(const Node& node) {
    NodeTask* task = find(&node);
    return task && (targets_.empty() || task->needed || !task->captures.empty());
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

namespace {

void call_tensor_hooks(const std::vector<std::pair<uint32_t, Ref<Hook>>>& hooks,
                       std::vector<Tensor>& grads) {
    auto copy = hooks;  // a hook may remove itself
    for (auto& [k, hook] : copy) {
        std::vector<Tensor> one{grads[k]};
        hook->call(one, nullptr);
        grads[k] = std::move(one[0]);
    }
}

bool any_defined(const std::vector<Tensor>& ts) {
    return std::any_of(ts.begin(), ts.end(), [](const Tensor& t) { return t.defined(); });
}

}  // namespace

void Pass::run_task(NodeTask& task) {
    Node& node = *task.node;
    grads_.resize(node.output_count());
    for (int k = 0; k < node.output_count(); ++k) grads_[k] = task.buffer(k).take();
    bool wanted = targets_.empty() || task.needed || !task.captures.empty();
    NodeHooks* hooks = wanted ? node.hooks_or_null() : nullptr;
    if (Hooks* leaf = wanted ? node.leaf_hooks() : nullptr) {
        Hooks copy = *leaf;
        for (auto& hook : copy) hook->call(grads_, nullptr);
    }
    if (hooks) {
        call_tensor_hooks(hooks->on_tensor, grads_);
        call_tensor_hooks(hooks->retain, grads_);
    }
    for (int k : task.captures) found_[k] = grads_[targets_[k].output];
    bool leaf = node.edge_count() == 0;
    bool runs = targets_.empty() ? options_.accumulate || !leaf
                                 : task.needed || (leaf && options_.accumulate && !task.captures.empty());
    results_.clear();
    results_.resize(node.edge_count());
    Node::Work work{grads_, results_, nullptr, {}, false};
    if (runs) {
        try {
            run_node(task, work);
        } catch (Error& e) {
            anomaly::report(node);
            throw Error(e.kind, text(e.what(), "\n  in the backward of ", describe(node)));
        } catch (...) {
            anomaly::report(node);
            if (site_hooks.annotate) site_hooks.annotate("in the backward of " + describe(node));
            throw;
        }
    }
    deliver(task, work);
}

void Pass::run_node(NodeTask& task, Node::Work& work) {
    Node& node = *task.node;
    NodeHooks* hooks = node.hooks_or_null();
    if (hooks)
        for (auto& hook : Hooks(hooks->before)) hook->call(grads_, nullptr);
    bool runs = any_defined(grads_) || node.runs_without_gradient();
    if (!runs && !hooks) return;
    if (!targets_.empty()) {
        skip_.assign(node.edge_count(), false);
        for (int i = 0; i < node.edge_count(); ++i)
            if (const Edge& edge = node.edge(i)) {
                NodeTask* next = find(edge.node.get());
                skip_[i] = !next->needed && next->captures.empty();
            }
        work.skip = &skip_;
    }
    work.may_defer_products = !options_.create_graph && !inspect_results && !(hooks && !hooks->after.empty());
    std::vector<Tensor> incoming;
    if (hooks && !hooks->after.empty()) incoming = grads_;
    if (runs) {
        anomaly::Running running(node);
        node.run(work);
    }
    if (inspect_results) inspect_results(node, results_);
    if (hooks)
        for (auto& hook : Hooks(hooks->after)) hook->call(results_, &incoming);
    for (int i = 0; i < node.edge_count(); ++i)
        if (node.edge(i) && results_[i].defined())
            results_[i] = validated(node, node.edge(i), std::move(results_[i]), i);
    if (!options_.keep_graph) node.release_saved();
}

/// The gradient as the receiving output wants it: summed over what was broadcast, cast.
Tensor Pass::validated(const Node& from, const Edge& to, Tensor t, int i) const {
    const ResultInfo& want = to.node->result(static_cast<int>(to.output));
    if (!equal(t.shape(), want.shape())) {
        bool fits = t.ndim() >= static_cast<int>(want.shape().size());
        size_t lead = fits ? t.ndim() - want.shape().size() : 0;
        for (size_t d = 0; fits && d < want.shape().size(); ++d)
            fits = want.shape()[d] == 1 || want.shape()[d] == t.shape()[lead + d];
        if (!fits)
            fail(ErrorKind::Runtime, from.name(),
                 text(i < 0 ? std::string("a gradient") : text("gradient ", i), " of shape ",
                      to_string(want.shape())),
                 text(to_string(t.shape()), " (the function returned an invalid gradient at index ", i,
                      " - got ", to_string(t.shape()), " but expected shape compatible with ",
                      to_string(want.shape()), ")"));
        t = ops::sum_to(t, want.shape());
    }
    if (t.dtype() != want.dtype()) t = ops::to(t, want.dtype());
    return t;
}

void Pass::deliver(NodeTask& task, Node::Work& work) {
    Node& node = *task.node;
    for (auto& [i, factors] : work.products) {
        const Edge& edge = node.edge(i);
        find(edge.node.get())->buffer(edge.output).add_product(factors.first, factors.second);
    }
    for (int i = 0; i < node.edge_count(); ++i) {
        const Edge& edge = node.edge(i);
        if (!edge) continue;
        NodeTask* next = find(edge.node.get());
        if (results_[i].defined()) next->buffer(edge.output).add(std::move(results_[i]));
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
