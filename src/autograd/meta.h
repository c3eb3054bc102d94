/// What the graph knows of a tensor.
///
/// The result of a recorded op has its node straight in the tensor's slot. Everything else (leaves,
/// views, outputs after the first, retained gradients) has a GradMeta there.
#pragma once
#include "autograd/node.h"
#include "base/function_ref.h"

namespace weft {

class AccumulateGrad;

/// Keeps a non-leaf's gradient when it passes. Forgets the tensor when that dies first.
struct RetainHook final : Hook {
    explicit RetainHook(TensorImpl* impl) : impl(impl) {}
    void call(std::vector<Tensor>& grads, const std::vector<Tensor>*) override;
    TensorImpl* impl;
};

/// Which views may be written in place while recording, the freer the sooner: a view of a view is no
/// freer than that.
enum class ViewKind : uint8_t {
    Plain,         ///< may
    OneOfSeveral,  ///< made with others by one call: must not
    Unrecorded,    ///< made while nothing was recorded (no_grad): must not; has no node
    FromFunction,  ///< made by a custom function, whose gradient is not known by parts: must not
};

struct GradMeta final : Slot {
    GradMeta() { kind = kMetaSlot; }
    ~GradMeta() {
        if (retains_grad) retains_grad->impl = nullptr;
    }
    void destroy() override;

    Ref<Node> grad_fn;
    uint32_t output = 0;
    bool requires_grad = false;  ///< a leaf that wants a gradient
    Ref<RetainHook> retains_grad;
    Tensor grad;
    AccumulateGrad* accumulator = nullptr;  ///< not owned: it owns the tensor
    Hooks hooks;                            ///< a leaf's; others' are on their node
    Hooks after_accumulate;
    Tensor base;                 ///< a view's base, itself no view
    uint32_t base_version = 0;   ///< version for which grad_fn is right (Note [Views])
    uint32_t write_version = 0;  ///< that the last write through the view made,
    Ref<Node> last_write;        ///< and the node that the base had after it
    ViewKind view_kind = ViewKind::Plain;
};

/// The meta of `t`, null if it has none.
GradMeta* meta_or_null(const Tensor& t);
/// The meta of `t`, made if need be (a node in the slot moves into it).
GradMeta& meta(const Tensor& t);

namespace detail {
bool requires_grad_by_meta(const Tensor& t);
Edge gradient_edge_by_meta(const Tensor& t);
inline bool made_by_node(const Tensor& t) {
    const Slot* slot = t.impl()->slot.get();
    return slot && slot->kind == kNodeSlot;
}
}  // namespace detail

inline bool requires_grad(const Tensor& t) {
    return t.has(kTracked) && (detail::made_by_node(t) || detail::requires_grad_by_meta(t));
}
bool is_leaf(const Tensor& t);
/// The node that made `t`; null for leaves.
Ref<Node> grad_fn(const Tensor& t);
uint32_t output_number(const Tensor& t);
/// Where the gradient of `t` goes: its node, or its accumulator if it is a leaf that wants one.
inline Edge gradient_edge(const Tensor& t) {
    if (!t.has(kTracked)) return {};
    if (detail::made_by_node(t)) return {Ref<Node>(static_cast<Node*>(t.impl()->slot.get())), 0};
    return detail::gradient_edge_by_meta(t);
}

/// The same; of a view as it was when last asked for: custom functions write what their other
/// arguments show, whose gradients, hooks included, belong to what they were before.
Edge gradient_edge_as_made(const Tensor& t);

/// Makes `node` the producer of `t` (output `k`).
void set_history(const Tensor& t, const Ref<Node>& node, uint32_t k);
/// The part of it that concerns the meta: a retained gradient moves from the old node to `node`.
void set_producer(GradMeta& m, const Ref<Node>& node, uint32_t k);
/// Throws Runtime for a non-leaf, or for a dtype without gradients.
void set_requires_grad(const Tensor& t, bool value);
Tensor grad_of(const Tensor& t);
/// Checks as PyTorch's setter does, then stores.
void set_grad(const Tensor& t, const Tensor& grad);
void retain_grad(const Tensor& t);
void add_tensor_hook(const Tensor& t, Ref<Hook> hook);

/// The same memory outside the graph. Of an inference tensor it is one too, but made outside of
/// inference mode it may be written there, and so may its views: those have kLooseView.
Tensor detach(const Tensor& t);
void detach_in_place(const Tensor& t);

/// In-place writes and views: what the door's hooks do (inplace.cpp).
std::vector<Tensor> before_write(Call& c);
void after_write(Call& c, const std::vector<Tensor>& before);
/// Throws Runtime if `t` must not be written in place; `recorded`: the write is part of the graph.
void check_write(const std::string& who, const Tensor& t, bool recorded);
/// Makes `node`, which wrote `dest` as its output `k`, part of the graph: its producer, or if it is a
/// view, part of its base's (Note [Views]).
void tie_write(const Tensor& dest, const Ref<Node>& node, uint32_t k);
/// `t` takes the layout of a view of it that `take` makes, and its place in the graph: t_(),
/// unsqueeze_(). `node_name` gives the node its name, from that of the view's.
void become_view(const std::string& who, const Tensor& t, FunctionRef<Tensor()> take,
                 std::string (*node_name)(const std::string&));
/// `t` shows the memory, layout and dtype of the tensor that `take` gives; its place in the graph stays
/// (`.data = `).
void take_memory(const Tensor& t, FunctionRef<Tensor()> take);
/// Marks `view` (an output of a view op on `of`) as a view; `node` made it, if recorded.
void attach_view(const Tensor& view, const Tensor& of, const Ref<Node>& node, uint32_t k,
                 ViewKind kind);
/// Whether a view shows its base's memory still: `.data = ` gives a tensor other memory, or a storage
/// of its own over the same.
inline bool over_one_memory(const Tensor& base, const Tensor& view) {
    const Storage *a = base.storage().get(), *b = view.storage().get();
    return a == b || (a && b && a->data == b->data);
}
/// The base of a view whose gradient goes there and is neither hooked nor retained; else null.
const Tensor* base_of_plain_view(const Tensor& t, bool used);
/// A view's grad_fn made anew after a write through its base or a sibling (Note [Views]).
void refresh_view(const Tensor& view, GradMeta& m);

/// Records a call (record.cpp): the door's hook, and the part that in-place writes share.
void record(Call& c);

/// Puts all hooks of this layer on the door.
void install();

}  // namespace weft
