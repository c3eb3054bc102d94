/// The end of the graph at a leaf: adds what arrives to the leaf's `.grad`.
#pragma once
#include "autograd/meta.h"

namespace weft {

class AccumulateGrad final : public Node {
public:
    static Ref<Node> make(const Tensor& leaf);
    std::string name() const override { return "AccumulateGrad"; }
    void run(Work& work) override;
    bool runs_without_gradient() const override { return true; }  // for the hooks behind it
    Hooks* leaf_hooks() override;
    void visit_kept(FunctionRef<void(const Tensor&)> see) const override {
        if (leaf_.defined()) see(leaf_);
    }
    const Tensor& variable() const { return leaf_; }
    /// The leaf was written in place and is no leaf any more. It may now own this node, by the graph
    /// that it is part of, so the node must not own it.
    void forget_leaf();

private:
    explicit AccumulateGrad(const Tensor& leaf);
    ~AccumulateGrad();
    void deallocate() override;
    Tensor leaf_;  ///< undefined once it is no leaf
    ResultInfo info_;
};

/// The accumulator of a leaf that requires grad: one at a time.
Ref<Node> accumulator(const Tensor& leaf);

/// leaf.grad += grad, in place where nobody else holds the memory that would change.
/// Several threads may do this for one leaf: it keeps the core lock (Note [One lock]).
void accumulate_grad(const Tensor& leaf, Tensor grad);

}  // namespace weft
