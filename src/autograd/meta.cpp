#include "autograd/meta.h"

#include <algorithm>
#include <new>

#include "autograd/accumulate.h"
#include "autograd/sparse.h"
#include "autograd/taken.h"
#include "base/pool.h"
#include "ops/functions.h"

namespace weft {

void GradMeta::destroy() {
    this->~GradMeta();
    Pool::free(this, sizeof(GradMeta));
}

GradMeta* meta_or_null(const Tensor& t) {
    Slot* slot = t.impl()->slot.get();
    return slot && slot->kind == kMetaSlot ? static_cast<GradMeta*>(slot) : nullptr;
}

GradMeta& meta(const Tensor& t) {
    if (GradMeta* m = meta_or_null(t)) return *m;
    Ref<Slot> old = t.impl()->slot;
    auto* m = new (Pool::allocate(sizeof(GradMeta))) GradMeta;
    t.impl()->slot = Ref<Slot>(m);
    if (old) m->grad_fn = Ref<Node>(static_cast<Node*>(old.get()));
    return *m;
}

Ref<Node> grad_fn(const Tensor& t) {
    Slot* slot = t.impl()->slot.get();
    if (!slot) return nullptr;
    if (slot->kind == kNodeSlot) return Ref<Node>(static_cast<Node*>(slot));
    auto* m = static_cast<GradMeta*>(slot);
    if (m->base.defined()) refresh_view(t, *m);
    return m->grad_fn;
}

uint32_t output_number(const Tensor& t) {
    grad_fn(t);
    GradMeta* m = meta_or_null(t);
    return m ? m->output : 0;
}

bool detail::requires_grad_by_meta(const Tensor& t) {
    GradMeta* m = meta_or_null(t);
    return !m || m->requires_grad || m->grad_fn ||
           (m->base.defined() && over_one_memory(m->base, t) && requires_grad(m->base));
}

bool is_leaf(const Tensor& t) { return !t.has(kTracked) || !grad_fn(t); }

Edge detail::gradient_edge_by_meta(const Tensor& t) {
    Slot* slot = t.impl()->slot.get();
    if (!slot) return {};
    auto& m = *static_cast<GradMeta*>(slot);
    if (m.base.defined()) refresh_view(t, m);
    if (m.grad_fn) return {m.grad_fn, m.output};
    if (!m.requires_grad) return {};
    return {accumulator(t), 0};
}

Edge gradient_edge_as_made(const Tensor& t) {
    GradMeta* m = meta_or_null(t);
    if (!m || !m->base.defined()) return gradient_edge(t);
    if (m->grad_fn) return {m->grad_fn, m->output};
    return m->requires_grad ? Edge{accumulator(t), 0} : Edge{};
}

void set_history(const Tensor& t, const Ref<Node>& node, uint32_t k) {
    t.set(kTracked);
    Slot* slot = t.impl()->slot.get();
    if (k == 0 && (!slot || slot->kind == kNodeSlot)) {
        t.impl()->slot = node;
        return;
    }
    GradMeta& m = meta(t);
    m.requires_grad = false;
    set_producer(m, node, k);
}

void set_producer(GradMeta& m, const Ref<Node>& node, uint32_t k) {
    if (m.accumulator) m.accumulator->forget_leaf();
    if (m.retains_grad) {
        if (m.grad_fn)
            std::erase_if(m.grad_fn->hooks().retain,
                          [&](const auto& entry) { return entry.second == m.retains_grad; });
        node->hooks().retain.emplace_back(k, m.retains_grad);
    }
    m.grad_fn = node;
    m.output = k;
}

void set_requires_grad(const Tensor& t, bool value) {
    if (t.has(kPending)) ops::settle(t);
    if (value == requires_grad(t)) {  // a view made under no_grad does as its base does: on its own
        GradMeta* m = value ? meta_or_null(t) : nullptr;
        if (m && m->base.defined() && !m->grad_fn) m->requires_grad = true;
        return;
    }
    if (!is_leaf(t)) {
        throw Error(ErrorKind::Runtime,
                    "[requires_grad] expected a leaf tensor, got one made by " +
                        grad_fn(t)->name_of(static_cast<int>(output_number(t))) +
                        " (you can only change requires_grad flags of leaf variables.). Hint: "
                        "use var_no_grad = var.detach() for the values outside the graph");
    }
    WEFT_EXPECT(!value || is_inexact(t.dtype()), Runtime, "requires_grad",
                "another tensor (only Tensors of floating point and complex dtype can require "
                "gradients)",
                name(t.dtype()));
    WEFT_EXPECT(!value || !t.has(kInference) || (mode & kInferenceMode), Runtime, "requires_grad",
                "a normal tensor", "an inference tensor (made inside inference_mode)",
                "clone() it first");
    meta(t).requires_grad = value;
    GradMeta* m = meta_or_null(t);
    t.set(kTracked, value || m->base.defined());
}

Tensor grad_of(const Tensor& t) {
    GradMeta* m = meta_or_null(t);
    return m ? m->grad : Tensor();
}

void set_grad(const Tensor& t, const Tensor& grad) {
    if (!grad.defined()) {
        if (GradMeta* m = meta_or_null(t)) m->grad = Tensor();
        return;
    }
    WEFT_EXPECT(!grad.same(t), Runtime, "grad",
                "another tensor (can't assign Variable as its own grad)", "the tensor itself");
    const auto device = [](const Tensor& of) { return of.on_meta() ? "meta" : "cpu"; };
    WEFT_EXPECT(grad.on_meta() == t.on_meta(), Runtime, "grad", "a gradient on the tensor's device",
                text("another (attempting to assign a gradient with device type '", device(grad),
                     "' to a tensor with device type '", device(t),
                     "'. Please ensure that the gradient and the tensor are on the same device)"));
    WEFT_EXPECT(grad.dtype() == t.dtype(), Runtime, "grad", text("a tensor of ", name(t.dtype())),
                name(grad.dtype()));
    WEFT_EXPECT(equal(grad.shape(), t.shape()), Runtime, "grad", "a gradient that fits",
                text("another one (attempting to assign a gradient of size '",
                     to_string(grad.shape()), "' to a tensor of size '", to_string(t.shape()),
                     "'. Please ensure that the gradient and the tensor are the same size)"));
    meta(t).grad = grad;
}

void RetainHook::call(std::vector<Tensor>& grads, const std::vector<Tensor>*) {
    if (!grads[0].defined() || !impl) return;
    GradMeta& m = meta(Tensor(impl));
    static const ops::Function copy{"_contiguous_copy"};
    // t_() may have given the tensor another shape since
    if (sparse::is(grads[0]) || sparse::is(m.grad)) {
        const Tensor old = m.grad;
        Tensor sum = sparse::host.accumulate(old, grads[0]);
        if (impl) meta(Tensor(impl)).grad = std::move(sum);
        return;
    }
    const bool more = m.grad.defined() && equal(m.grad.shape(), grads[0].shape());
    m.grad = more ? ops::add(m.grad, grads[0]) : copy(grads[0]);
}

void retain_grad(const Tensor& t) {
    WEFT_EXPECT(
        requires_grad(t), Runtime, "retain_grad",
        "a tensor that requires grad (can't retain_grad on Tensor that has requires_grad=False)",
        "one that does not");
    GradMeta* stale = meta_or_null(t);
    if (stale && stale->view_kind == ViewKind::Unrecorded && !stale->grad_fn) return;  // a leaf
    if (is_leaf(t) || meta(t).retains_grad) return;
    GradMeta& m = meta(t);
    m.retains_grad = Ref<RetainHook>(new RetainHook(t.impl()));
    HookPlace place = hook_place(t, m.retains_grad);
    place.node->hooks().retain.emplace_back(place.output, std::move(place.hook));
}

void add_tensor_hook(const Tensor& t, Ref<Hook> hook) {
    WEFT_EXPECT(requires_grad(t), Runtime, "register_hook",
                "a tensor that requires grad (cannot register a hook on a tensor that doesn't "
                "require gradient)",
                "one that does not");
    HookPlace place = hook_place(t, std::move(hook));
    if (place.node) place.node->hooks().on_tensor.emplace_back(place.output, std::move(place.hook));
    else meta(t).hooks.push_back(std::move(place.hook));
}

Tensor detach(const Tensor& t) {
    Tensor out = t.alias();
    // An inference tensor stays one, which may be written outside of inference mode.
    out.set(kLooseView, t.has(kInference) && !(mode & kInferenceMode));
    return out;
}

void detach_in_place(const Tensor& t) {
    GradMeta* m = meta_or_null(t);
    WEFT_EXPECT(!m || !m->base.defined(), Runtime, "detach_", "a tensor that is not a view",
                "a view (Can't detach views in-place)", "use detach() instead");
    if (ops::hooks.before_layout) ops::hooks.before_layout(t);  // views that wait keep the graph
    // Hooks are the tensor's: they hear of it again when it is a leaf that wants a gradient.
    Ref<Node> node = grad_fn(t);
    if (NodeHooks* hooks = node ? node->hooks_or_null() : nullptr)
        for (const auto& [k, hook] : hooks->on_tensor)
            if (k == output_number(t)) meta(t).hooks.push_back(hook);
    m = meta_or_null(t);
    if (m) {
        m->grad_fn = nullptr;
        m->requires_grad = false;
        m->output = 0;
    } else {
        t.impl()->slot = nullptr;
    }
    t.set(kTracked, false);
}

}  // namespace weft
