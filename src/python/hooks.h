/// Python callables as hooks on tensors and nodes.
#pragma once
#include "autograd/engine.h"
#include "python/object.h"

namespace weft::python {

/// How a hook's callable is called and its result used.
enum class HookStyle : uint8_t {
    Gradient,    ///< f(grad) -> grad or None
    BeforeNode,  ///< f(grad_outputs) -> the same or None
    AfterNode,   ///< f(grad_inputs, grad_outputs) -> grad_inputs or None
    Plain,       ///< f(tensor) or f(); the result is ignored
};

struct PyHandle;

struct PyHook final : Hook {
    PyHook(PyObject* f, HookStyle style) : f(Object::borrow(f)), style(style) {}
    ~PyHook();
    void call(std::vector<Tensor>& grads, const std::vector<Tensor>* outputs) override;
    Object f;  ///< empty once removed
    HookStyle style;
    PyHandle* handle = nullptr;  ///< knows the hook without owning it (Note [Cycles])
};

/// Shows the collector the callable of a hook that only its list holds.
int visit_hook(const Ref<Hook>& hook, visitproc visit, void* arg);

/// A handle with remove() for a hook that was registered.
PyObject* hook_handle(const Ref<Hook>& hook);
/// Drops hooks whose handle was removed, so that a list does not grow with every step.
void purge(Hooks& hooks);
Object tuple_of(const std::vector<Tensor>& tensors);
void init_hooks(PyObject* module);

}  // namespace weft::python
