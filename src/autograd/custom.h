/// Functions whose backward the user wrote: what they keep, and how their outputs join the graph.
#pragma once
#include "autograd/meta.h"
#include "autograd/saved.h"

namespace weft {

class CustomNode : public LooseNode {
public:
    /// Keeps `tensors` (undefined ones too) for backward; those among `outputs` as Note [Saved
    /// outputs] says.
    void save(const std::vector<Tensor>& tensors, const std::vector<Tensor>& outputs);
    /// Throws Runtime if one was written since, after release, and where gradients of gradients are
    /// recorded if one was detached in place. `grads`: as in SavedTensor::unpack.
    std::vector<Tensor> saved(const std::vector<Tensor>* grads = nullptr);
    void release_saved() override;
    void visit_kept(FunctionRef<void(const Tensor&)> see) const override {
        for (const Kept& kept : saved_)
            if (kept.value.kept().defined()) see(kept.value.kept());
    }
    bool runs_twice() const override { return twice_; }
    void may_run_twice() override { twice_ = true; }
    /// The user may want to know that nothing flowed.
    bool runs_without_gradient() const override { return true; }

private:
    struct Kept {
        SavedTensor value;
        int output;   ///< which one it is; -1: none
        bool inside;  ///< the graph had computed it
    };
    std::vector<Kept> saved_;
    bool released_ = false, twice_ = false;
};

/// One thing that a custom forward returned.
struct CustomOutput {
    Tensor tensor;          ///< undefined: not a tensor
    bool is_input = false;  ///< an argument of forward, returned as it is
    bool dirty = false;     ///< an argument that forward wrote in place
    bool constant = false;  ///< carries no gradient
};

/// Ties what forward returned to `node`, or takes it out of the graph if nothing is recorded
/// (`node` null). Returns the tensors to hand out: an argument returned as it is comes back as a
/// view, so that it can have a place of its own. Throws Runtime for writes that the graph refuses.
std::vector<Tensor> tie_outputs(const Ref<CustomNode>& node,
                                const std::vector<CustomOutput>& outputs);

}  // namespace weft
