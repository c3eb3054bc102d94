/// The node of a recorded op: edges, result infos, saved tensors and attributes in one allocation.
#pragma once
#include "autograd/saved.h"

namespace weft {

class OpNode final : public Node {
public:
    /// A node for `c`, with an edge for each of `in` that has a place in the graph and what the
    /// rules of those inputs declared as saved; null if no input wants a gradient. `in` are the
    /// inputs as the graph shall see them (an in-place write passes the tensor as it was).
    static Ref<Node> make(const Call& c, const Tensor* in);

    std::string name() const override;
    std::string name_of(int k) const override;
    void run(Work& work) override;
    void release_saved() override;
    void visit_kept(FunctionRef<void(const Tensor&)> see) const override;
    bool runs_twice() const override { return twice_; }
    void may_run_twice() override { twice_ = true; }
    bool shows_output(int k) const override;
    bool shows_edge(int i) const override {
        return op_->differentiable(i) && !(i < 16 && hidden_ >> i & 1);
    }

    const Op& op() const { return *op_; }
    /// The saved value of bit `bit` (see save_in, save_out).
    /// `grads`: as in SavedTensor::unpack.
    Tensor saved(int bit, const std::vector<Tensor>* grads = nullptr) const;
    bool keeps(int bit) const { return mask_ >> bit & 1; }
    SaveMask kept() const { return mask_; }
    /// Whether it would keep it if every input wanted a gradient.
    bool may_keep(int bit) const;
    const Value& attr(int i) const { return attrs_[i]; }
    const Value* attrs() const { return attrs_; }  ///< null: the op has none
    Dims kept_shape(int i) const;
    Dims kept_layout(int i) const;
    /// Another name than the record's, for an in-place form that PyTorch counts as its own.
    void rename(const std::string& name);

private:
    explicit OpNode(const Op& op) : op_(&op) {}
    ~OpNode() = default;
    void deallocate() override;
    class Context;
    void run_rules(Context& g, Work& work);

    const Op* op_;
    SavedTensor* saved_ = nullptr;
    const Value* attrs_ = nullptr;
    Dims* layouts_ = nullptr;        ///< with op.keep_shapes: sizes and layout by input
    const char* variant_ = nullptr;  ///< a node name that depended on the call
    SaveMask mask_ = 0;
    uint32_t size_ = 0;
    uint16_t saved_count_ = 0;
    uint16_t attr_count_ = 0;
    bool released_ = false, twice_ = false;
    uint16_t hidden_ = 0;  ///< numbers that are no inputs of it (Op::numbers_apart)
};

}  // namespace weft
