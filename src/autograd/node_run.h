/// One node's turn in a backward pass: its hooks, its rule, and what rules need not do (fit.h).
#pragma once
#include "autograd/engine.h"
#include "autograd/reached.h"
#include "autograd/targets.h"

namespace weft {

class NodeRun {
public:
    NodeRun(const BackwardOptions& options, const std::vector<Edge>& targets, const TaskList& tasks,
            Reached& reached)
        : found(targets.size()), options_(options), targets_(targets), tasks_(tasks),
          reached_(reached) {}
    ~NodeRun() {
        for (const Ref<Node>& node : twice_) node->release_saved();
    }

    /// Runs the task's node if the pass wants that. Whatever fails there is thrown on with the line
    /// that made the node.
    void run(NodeTask& task);

    /// What the node hands on, to be taken before the next one runs: a gradient for each edge, or
    /// the factors of one.
    std::vector<Tensor> results;
    Summands summands;
    /// Whether a node of a batched run has run (Note [Graph use]): from there on gradients may be zeros
    /// because other calls of the batch have some.
    bool batched = false;
    /// Whether one has run that stands for several calls: it leads where only some of them do.
    bool parted = false;
    /// Gradients that arrived at targets, and which node each belongs to.
    std::vector<Tensor> found;
    Captures captures;

private:
    bool is_reached(const Node& node);
    void call_hooks(NodeTask& task);
    void call_tensor_hooks(const Node& node,
                           const std::vector<std::pair<uint32_t, Ref<Hook>>>& hooks);
    void find_targets(const NodeTask& task);
    bool runs(const NodeTask& task) const;
    void run_node(Node& node);
    void run_hooked_node(Node& node, NodeHooks& hooks, Node::Work& work);
    void fit_results(const Node& node);
    void call_after_hooks(const Node& node, NodeHooks& hooks);
    void skip_unwanted(const Node& node);

    const BackwardOptions& options_;
    const std::vector<Edge>& targets_;
    const TaskList& tasks_;
    Reached& reached_;
    std::vector<Tensor> grads_;
    std::vector<Tensor> incoming_;  ///< as the node's hooks see them, if there are any
    std::vector<bool> skip_;
    std::vector<Ref<Node>> twice_;  ///< nodes that may run once more
};

}  // namespace weft
