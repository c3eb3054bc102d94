#include "autograd/custom.h"

#include "ops/call.h"

namespace weft {

void CustomNode::save(const std::vector<Tensor>& tensors, const std::vector<Tensor>& outputs) {
    for (const Tensor& t : tensors) {
        int k = -1;
        for (size_t i = 0; i < outputs.size() && t.defined(); ++i)
            if (outputs[i].defined() && t.same(outputs[i])) k = static_cast<int>(i);
        const bool tracked = t.defined() && requires_grad(t);
        const Edge from = k < 0 && tracked ? gradient_edge_as_made(t) : Edge{};
        const bool inside = from && from.node->edge_count() > 0;
        saved_.push_back({SavedTensor(t, k >= 0 && tracked), k, inside});
    }
}

std::vector<Tensor> CustomNode::saved(const std::vector<Tensor>* grads) {
    if (released_) fail_released(*this);
    std::vector<Tensor> out;
    for (const auto& [value, k, inside] : saved_) {
        Tensor t = value.unpack(this, k, grads);
        if (inside && mode & kGradMode && t.defined() && is_leaf(t)) fail_detached(*this);
        if (k >= 0 && t.defined() && !t.has(kTracked)) {  // users see where it belongs, always
            t = t.alias();
            set_history(t, Ref<Node>(this), static_cast<uint32_t>(k));
        }
        out.push_back(std::move(t));
    }
    return out;
}

void CustomNode::release_saved() {
    if (saved_.empty()) return;
    std::vector<Kept> dead = std::move(saved_);  // their release may come back here
    saved_.clear();
    released_ = true;
}

namespace {

/// An output that no gradient reaches.
Tensor constant_output(const CustomOutput& out) {
    const Tensor& t = out.tensor;
    const GradMeta* m = meta_or_null(t);
    if (!out.is_input && m && m->base.defined()) return t;  // as a view made under no_grad
    return requires_grad(t) || (out.is_input && !out.dirty) ? detach(t) : t;
}

Tensor dirty_output(const CustomOutput& out, const Ref<CustomNode>& node, uint32_t k,
                    size_t count) {
    const Tensor& t = out.tensor;
    GradMeta* m = meta_or_null(t);
    WEFT_EXPECT(
        !m || !m->base.defined() || count == 1, Runtime, node->name(),
        "one output from a Function that writes a view in place (If your Function modifies "
        "inplace an input that is a view of another Tensor, your Function cannot return more "
        "than one Tensor)",
        text(count), "write a clone()");
    check_write(node->name(), t, true);
    if (m) m->grad = Tensor();  // it was the gradient of another value
    tie_write(t, node, k);
    return t;
}

Tensor new_output(const Tensor& t, const Ref<CustomNode>& node, uint32_t k) {
    GradMeta* m = meta_or_null(t);
    if (m && m->base.defined()) {
        m->view_kind = ViewKind::FromFunction;
        set_producer(*m, node, k);
        return t;
    }
    bool leaf_of_another = requires_grad(t) && is_leaf(t);
    Tensor out = leaf_of_another ? detach(t) : t;
    set_history(out, node, k);
    return out;
}

}  // namespace

std::vector<Tensor> tie_outputs(const Ref<CustomNode>& node,
                                const std::vector<CustomOutput>& outputs) {
    std::vector<Tensor> made(outputs.size());
    if (node) {
        for (size_t k = 0; k < outputs.size(); ++k) made[k] = outputs[k].tensor;
        node->set_results(made);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
        const CustomOutput& out = outputs[i];
        auto k = static_cast<uint32_t>(i);
        if (!out.tensor.defined()) continue;
        if (!node || out.constant || !is_inexact(out.tensor.dtype())) {
            made[i] = constant_output(out);
        } else if (out.dirty) {
            made[i] = dirty_output(out, node, k, outputs.size());
        } else if (out.is_input) {
            made[i] = detach(out.tensor);
            attach_view(made[i], out.tensor, node, k, ViewKind::FromFunction);
        } else {
            made[i] = new_output(out.tensor, node, k);
        }
    }
    return made;
}

}  // namespace weft
