#include "autograd/taken.h"

#include "autograd/engine.h"
#include "autograd/meta.h"
#include "autograd/op_node.h"
#include "autograd/reached.h"
#include "ops/functions.h"

namespace weft {
namespace {

const ops::Function take_op{"_take"}, first_op{"_first"}, pack{"_pack"}, contiguous{"contiguous"};

class PartHook final : public Hook {
public:
    PartHook(PartOf part, Ref<Hook> hook) : part_(std::move(part)), hook_(std::move(hook)) {}
    void call(std::vector<Tensor>& grads, const std::vector<Tensor>*) override {
        if (!grads[0].defined()) return;
        Tensor before = part_.take(grads[0]);
        const int64_t end = part_.offset + before.numel();
        if (all_zeros(before) && part_.whole.node &&
            !current_pass_reaches(*part_.whole.node, part_.whole.output, part_.offset, end))
            return;
        std::vector<Tensor> part{before};
        uint32_t version = before.version();
        hook_->call(part, nullptr);
        if (part[0].impl() == before.impl() && before.version() == version) return;
        grads[0] = part_.with(grads[0], part[0]);
    }

private:
    PartOf part_;
    Ref<Hook> hook_;
};

}  // namespace

Tensor PartOf::take(const Tensor& gradient) const {
    return take_op(contiguous(gradient), offset, shape, strides);
}

Tensor PartOf::with(const Tensor& gradient, const Tensor& part) const {
    int64_t n = part.numel(), end = offset + n;
    const int64_t pieces[] = {0, 0, offset, 1, 0, n, 0, end, gradient.numel() - end};
    return pack.over({contiguous(gradient), contiguous(part)},
                     {DimSpan(pieces), Dims(gradient.shape())});
}

std::optional<PartOf> part_of(const Tensor& t) {
    Ref<Node> node = grad_fn(t);
    auto* taken = dynamic_cast<const OpNode*>(node.get());
    if (taken && &taken->op() == &first_op.op()) {
        Edge whole = taken->edge(0);
        auto* outer = dynamic_cast<const OpNode*>(whole.node.get());
        for (; outer && &outer->op() == &first_op.op();
             outer = dynamic_cast<const OpNode*>(whole.node.get()))
            whole = Edge(outer->edge(0));
        return PartOf{whole, 0, Dims(t.shape()), contiguous_strides(t.shape())};
    }
    if (!taken || &taken->op() != &take_op.op() || !taken->attr(4).as_bool()) return {};
    return PartOf{taken->edge(0), taken->attr(0).as_int(), taken->attr(1).as_ints(),
                  taken->attr(2).as_ints()};
}

HookPlace hook_place(const Tensor& t, Ref<Hook> hook) {
    auto part = part_of(t);
    if (!part) return {grad_fn(t), output_number(t), std::move(hook)};
    Edge whole = part->whole;
    return {std::move(whole.node), whole.output,
            Ref<Hook>(new PartHook(std::move(*part), std::move(hook)))};
}

}  // namespace weft
