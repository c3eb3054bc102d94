/// What Python's garbage collector sees of a tensor.
///
/// Note [Cycles]
/// A hook may refer to the tensor it is on, a ctx to an output of its function. Such cycles run
/// through the core, whose counts Python's collector does not know, so a wrapper visits for it what
/// would die with the wrapper: what hangs on a tensor that nobody else holds, and on a node that
/// only this tensor holds. A cycle through more of the graph than that is freed by backward, which
/// drops saved tensors, or by `handle.remove()`; the collector leaves it alone.
/// Only wrappers that got attributes, hooks or a custom function's node are tracked: tracking all
/// would cost every small op.
#include "python/function.h"
#include "python/hooks.h"
#include "python/slots.h"

namespace weft::python {
namespace {

int visit_node(const Ref<Node>& node, visitproc visit, void* arg) {
    if (!node || node->refs != 1) return 0;
    if (auto* custom = dynamic_cast<FunctionNode*>(node.get())) Py_VISIT(custom->context());
    NodeHooks* hooks = node->hooks_or_null();
    if (!hooks) return 0;
    for (auto& [k, hook] : hooks->on_tensor)
        if (int stop = visit_hook(hook, visit, arg)) return stop;
    for (Hooks* list : {&hooks->before, &hooks->after})
        for (auto& hook : *list)
            if (int stop = visit_hook(hook, visit, arg)) return stop;
    return 0;
}

}  // namespace

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
    PyTensor* t = reinterpret_cast<PyTensor*>(self);
    if (!t->impl || t->impl->refs != 1) return 0;
    Py_VISIT(t->dict);
    const Ref<Slot>& slot = t->impl->slot;
    if (!slot) return 0;
    // looked at without taking references: the counts are what is asked
    if (slot->kind == kNodeSlot)
        return visit_node(reinterpret_cast<const Ref<Node>&>(slot), visit, arg);
    if (slot->kind != kMetaSlot) return 0;  // a value that waits
    auto* m = static_cast<GradMeta*>(slot.get());
    for (Hooks* list : {&m->hooks, &m->after_accumulate})
        for (auto& hook : *list)
            if (int stop = visit_hook(hook, visit, arg)) return stop;
    return visit_node(m->grad_fn, visit, arg);
}

int tensor_clear(PyObject* self) {
    PyTensor* t = reinterpret_cast<PyTensor*>(self);
    // The collector does not see the core's references: what it holds of a subclass keeps its attributes.
    if (t->impl && t->impl->refs > 1 && Py_TYPE(self) != &tensor_type) return 0;
    Py_CLEAR(t->dict);
    if (!t->impl || !t->impl->slot || t->impl->slot->kind != kMetaSlot) return 0;
    auto* m = static_cast<GradMeta*>(t->impl->slot.get());
    Hooks hooks = std::move(m->hooks), after = std::move(m->after_accumulate);
    return 0;
}

}  // namespace weft::python
