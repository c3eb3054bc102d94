#include "python/hooks.h"

#include <algorithm>

#include "python/type.h"

namespace weft::python {

Object tuple_of(const std::vector<Tensor>& tensors) {
    Object out = Object::take(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
    for (size_t i = 0; i < tensors.size(); ++i)
        PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), checked(wrap(tensors[i])));
    return out;
}

namespace {

/// Puts what a hook returned in the place of a gradient. It must look like the one it replaces.
void replace(Tensor& grad, PyObject* result, const char* who) {
    if (result == Py_None && !grad.defined()) return;
    WEFT_EXPECT(result == Py_None || is_tensor(result), Type, who, "a Tensor or None from the hook",
                Py_TYPE(result)->tp_name);
    Tensor t = result == Py_None ? Tensor() : unwrap(result);
    WEFT_EXPECT(grad.defined(), Runtime, who, "None from the hook where there is no gradient",
                "a tensor (can't replace a None gradient with a non-None value)");
    if (t.defined()) {
        WEFT_EXPECT(equal(t.shape(), grad.shape()), Runtime, who,
                    text("a gradient of shape ", to_string(grad.shape()), " from the hook"),
                    text(to_string(t.shape()), " (hook has changed the size of value)"));
        WEFT_EXPECT(t.dtype() == grad.dtype(), Runtime, who,
                    text("a gradient of ", name(grad.dtype()), " from the hook"),
                    text(name(t.dtype()), " (hook has changed the type of value)"));
    }
    grad = std::move(t);
}

void replace_all(std::vector<Tensor>& grads, PyObject* result, const char* who) {
    if (result == Py_None) return;
    WEFT_EXPECT(PyTuple_Check(result), Type, who,
                text("None or a tuple of ", grads.size(), " gradients from the hook"),
                text(Py_TYPE(result)->tp_name, " (expected tuple)"));
    WEFT_EXPECT(
        PyTuple_GET_SIZE(result) == static_cast<Py_ssize_t>(grads.size()), Runtime, who,
        text(grads.size(), " gradients from the hook"),
        text(PyTuple_GET_SIZE(result), " (hook has returned an incorrect number of values)"));
    for (size_t i = 0; i < grads.size(); ++i)
        replace(grads[i], PyTuple_GET_ITEM(result, static_cast<Py_ssize_t>(i)), who);
}

}  // namespace

struct PyHandle {
    PyObject_HEAD PyHook* hook;  // null once that is gone
    Py_ssize_t id;
};

namespace {

PyHook* hook_of(PyObject* handle) { return reinterpret_cast<PyHandle*>(handle)->hook; }

void handle_dealloc(PyObject* self) {
    if (PyHook* hook = hook_of(self)) hook->handle = nullptr;
    Py_TYPE(self)->tp_free(self);
}
PyObject* handle_remove(PyObject* self, PyObject*) {
    Object dead;  // its release may free the hook
    if (PyHook* hook = hook_of(self)) dead = std::move(hook->f);
    Py_RETURN_NONE;
}
PyObject* handle_id(PyObject* self, void*) {
    return PyLong_FromSsize_t(reinterpret_cast<PyHandle*>(self)->id);
}
PyObject* handle_enter(PyObject* self, PyObject*) { return Py_NewRef(self); }
PyObject* handle_exit(PyObject* self, PyObject*) { return handle_remove(self, nullptr); }

PyMethodDef handle_methods[] = {{"remove", handle_remove, METH_NOARGS, "Takes the hook away."},
                                {"__enter__", handle_enter, METH_NOARGS, nullptr},
                                {"__exit__", handle_exit, METH_VARARGS, nullptr},
                                {}};
PyGetSetDef handle_getset[] = {{"id", handle_id, nullptr, "A number of its own.", nullptr}, {}};
PyTypeObject handle_type = blank_type();

}  // namespace

PyHook::~PyHook() {
    if (handle) handle->hook = nullptr;
}

int visit_hook(const Ref<Hook>& hook, visitproc visit, void* arg) {
    auto* p = hook->refs == 1 ? dynamic_cast<PyHook*>(hook.get()) : nullptr;
    if (p) Py_VISIT(p->f.get());
    return 0;
}

void PyHook::call(std::vector<Tensor>& grads, const std::vector<Tensor>* outputs) {
    if (!f) return;
    Object keep = f;  // it may remove itself
    switch (style) {
        case HookStyle::Gradient: {
            Object result = keep.call(wrapped(grads[0]));
            if (result.get() != Py_None) replace(grads[0], result.get(), "register_hook");
            return;
        }
        case HookStyle::BeforeNode:
            return replace_all(grads, keep.call(tuple_of(grads)).get(), "register_prehook");
        case HookStyle::AfterNode:
            return replace_all(grads, keep.call(tuple_of(grads), tuple_of(*outputs)).get(),
                               "register_hook");
        case HookStyle::Plain:
            if (grads.empty()) keep.call();
            else keep.call(wrapped(grads[0]));
            return;
    }
}

PyObject* hook_handle(const Ref<Hook>& hook) {
    static Py_ssize_t ids = 0;
    auto* h = reinterpret_cast<PyHandle*>(checked(handle_type.tp_alloc(&handle_type, 0)));
    h->hook = static_cast<PyHook*>(hook.get());
    h->hook->handle = h;
    h->id = ids++;
    return reinterpret_cast<PyObject*>(h);
}

void purge(Hooks& hooks) {
    std::erase_if(hooks, [](const Ref<Hook>& h) {
        auto* p = dynamic_cast<PyHook*>(h.get());
        return p && !p->f;
    });
}

void init_hooks(PyObject* module) {
    handle_type.tp_dealloc = handle_dealloc;
    handle_type.tp_methods = handle_methods;
    handle_type.tp_getset = handle_getset;
    handle_type.tp_doc = "What registering a hook returns: remove() takes the hook away.\n"
                         "\n"
                         ">>> x = weft.ones(2, requires_grad=True)\n"
                         ">>> handle = x.register_hook(lambda grad: 2 * grad)\n"
                         ">>> handle.remove()";
    add_type(module, handle_type, "weft.HookHandle", sizeof(PyHandle));
}

}  // namespace weft::python
