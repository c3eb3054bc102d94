/// Reading guide: Pass::plan counts dependencies, Pass::run runs ready nodes, latest first, and hands
/// their results to the nodes before them. What a node does in its turn is in node_run.cpp, what a
/// pass knows of a node in task.h, backward for chosen inputs in targets.cpp.
#include "autograd/engine.h"

#include <algorithm>

#include "autograd/fit.h"
#include "autograd/node_run.h"
#include "base/counter.h"
#include "ops/watch.h"

namespace weft {

class Pass {
public:
    Pass(const BackwardOptions& options, const std::vector<Edge>& targets)
        : options_(options), targets_(targets) {}

    void plan(const std::vector<Edge>& roots, std::vector<Tensor>& gradients);
    void run();
    std::vector<Tensor> found() { return std::move(turn_.found); }
    bool reaches(const Node& node) const {
        NodeTask* task = tasks_.find(&node);
        return task && task->wanted();
    }
    Reached& reached() { return reached_; }
    bool out_of_place() const { return options_.out_of_place; }
    bool batched() const { return turn_.batched; }
    bool full() const { return targets_.empty() && options_.accumulate; }
    uint64_t number() const { return number_; }

    static inline thread_local Pass* current = nullptr;

private:
    void push(NodeTask* task);
    NodeTask* pop();
    void deliver(const NodeTask& task);

    static inline Counter passes;
    uint64_t number_ = passes.next() + 1;
    BackwardOptions options_;
    const std::vector<Edge>& targets_;
    TaskList tasks_;
    Reached reached_{tasks_};
    NodeRun turn_{options_, targets_, tasks_, reached_};
    std::vector<NodeTask*> ready_;
};

void Pass::plan(const std::vector<Edge>& roots, std::vector<Tensor>& gradients) {
    options_.by_ops |= (mode & kDispatchMode) != 0;
    for (const Edge& root : roots) tasks_.find_or_add(root.node.get());
    for (NodeTask* task = tasks_.first(); task; task = task->later) {  // the list grows meanwhile
        const Node& node = *task->node;
        for (int i = 0; i < node.edge_count(); ++i)
            if (Node* next = node.edge(i).node.get()) ++tasks_.find_or_add(next)->waiting;
    }
    for (size_t i = 0; i < roots.size(); ++i) {
        Node& node = *roots[i].node;
        uint32_t k = roots[i].output;
        reached_.add_root(roots[i]);
        options_.by_ops |= gradients[i].has(kPending);
        fit(node, node.result(k), gradients[i], -1);
        tasks_.find(&node)->buffer(k).add(std::move(gradients[i]));
    }
    if (!targets_.empty()) turn_.captures = mark_needed(tasks_, targets_, options_.accumulate);
    if (roots.size() == 1) tasks_.first()->only_root = true;
    for (NodeTask* task = tasks_.first(); task; task = task->later)
        if (task->waiting == 0) push(task);
}

namespace {

bool runs_later(const NodeTask* a, const NodeTask* b) {
    return a->node->sequence < b->node->sequence;
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
    ModeGuard guard(options_.create_graph ? grad : 0,
                    kDeferMode | (options_.create_graph ? 0 : grad));
    while (!ready_.empty()) {
        NodeTask* task = pop();
        turn_.run(*task);
        deliver(*task);
    }
}

void Pass::deliver(const NodeTask& task) {
    const Node& node = *task.node;
    for (Part& p : turn_.summands.parts) {
        const Edge& edge = node.edge(p.edge);
        const ResultInfo& whole = edge.node->result(edge.output);
        NodeTask* next = tasks_.find(edge.node.get());
        next->buffer(edge.output).add_part(whole, p);
    }
    turn_.summands.parts.clear();
    for (Product& p : turn_.summands.products) {
        const Edge& edge = node.edge(p.edge);
        NodeTask* next = tasks_.find(edge.node.get());
        next->buffer(edge.output).add_product(std::move(p.a), std::move(p.b));
    }
    turn_.summands.products.clear();
    for (int i = 0; i < node.edge_count(); ++i) {
        const Edge& edge = node.edge(i);
        if (!edge) {
            turn_.results[i] = Tensor();
            continue;
        }
        NodeTask* next = tasks_.find(edge.node.get());
        next->buffer(edge.output).add(std::move(turn_.results[i]));
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

bool current_pass_adds_out_of_place() { return Pass::current && Pass::current->out_of_place(); }

bool current_pass_is_batched() { return Pass::current && Pass::current->batched(); }

bool current_pass_reaches(const Node& node) {
    return Pass::current && Pass::current->reaches(node);
}

bool current_pass_reaches(const Node& node, uint32_t k, int64_t begin, int64_t end) {
    return !Pass::current || Pass::current->reached().part(node, k, {begin, end});
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
        ops::WatchSpan span(ops::SpanKind::Backward);
        Pass pass(options, targets);
        pass.plan(roots, gradients);
        pass.run();
        found = pass.found();
    }
    if (depth == 1) run_callbacks();
    return found;
}

}  // namespace weft
