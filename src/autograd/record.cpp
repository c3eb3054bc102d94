/// Draws the graph: called by the door after a kernel (see Note [Tracked] in ops/call.h).
#include "autograd/autocast.h"
#include "autograd/meta.h"
#include "autograd/op_node.h"
#include "ops/write.h"

namespace weft {

void record(Call& c) {
    const Op& op = *c.op;
    bool recorded = mode & kGradMode;
    Ref<Node> node = recorded && op.differentiable() ? OpNode::make(c, c.in) : nullptr;
    if (op.view) {
        if (!op.differentiable()) return;  // the same bits as other numbers
        ViewKind kind = !recorded        ? ViewKind::Unrecorded
                        : op.outputs < 0 ? ViewKind::OneOfSeveral
                                         : ViewKind::Plain;
        for (int k = 0; k < c.outputs; ++k) attach_view(c.out(k), c.in[0], node, k, kind);
        return;
    }
    if (!node) return;
    for (int k = 0; k < c.outputs; ++k)
        if (is_inexact(c.out(k).dtype()) && op.carries_gradient(k)) set_history(c.out(k), node, k);
}

void install() {
    ops::hooks.record = record;
    ops::hooks.requires_grad = [](const Tensor& t) { return requires_grad(t); };
    ops::hooks.base = base_of_plain_view;
    ops::hooks.mark = [](const Tensor& t, const Ref<GraphUse>& use, std::vector<int64_t> ends) {
        Ref<Node> node = grad_fn(t);
        if (!node) return;
        if (!node->batched) node->batched.reset(new Node::Batched);
        node->batched->use = use;
        node->batched->ends.resize(static_cast<size_t>(node->output_count()));
        node->batched->ends[output_number(t)] = std::move(ends);
    };
    ops::hooks.before_write = before_write;
    ops::hooks.after_write = after_write;
    install_autocast();
    release_write_note = ops::WriteNote::drop;
}

}  // namespace weft
