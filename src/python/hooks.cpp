#include "python/hooks.h"

#include <algorithm>

namespace weft::python {

Object tuple_of(const std::vector<Tensor>& tensors) {
    Object out = Object::take(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
    for (size_t i = 0; i < tensors.size(); ++i)
        PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), checked(wrap(tensors[i])));
    return out;
}

namespace {

void replace_all(std::vector<Tensor>& grads, PyObject* result, const char* who) {
    if (result == Py_None) return;
    if (is_tensor(result) && grads.size() == 1) {
        grads[0] = unwrap(result);
        return;
    }
    bool fits = (PyTuple_Check(result) || PyList_Check(result)) &&
                PySequence_Fast_GET_SIZE(result) == static_cast<Py_ssize_t>(grads.size());
    WEFT_EXPECT(fits, Runtime, who, text("None or a tuple of ", grads.size(), " gradients"),
                Py_TYPE(result)->tp_name);
    for (size_t i = 0; i < grads.size(); ++i) {
        PyObject* item = PySequence_Fast_GET_ITEM(result, static_cast<Py_ssize_t>(i));
        grads[i] = item == Py_None ? Tensor() : expect_tensor(item, who);
    }
}

struct PyHandle {
    PyObject_HEAD
    Hook* hook;
};

void handle_dealloc(PyObject* self) {
    Ref<Hook>::adopt(reinterpret_cast<PyHandle*>(self)->hook);
    Py_TYPE(self)->tp_free(self);
}
PyObject* handle_remove(PyObject* self, PyObject*) {
    static_cast<PyHook*>(reinterpret_cast<PyHandle*>(self)->hook)->f = Object();
    Py_RETURN_NONE;
}
PyObject* handle_enter(PyObject* self, PyObject*) { return Py_NewRef(self); }
PyObject* handle_exit(PyObject* self, PyObject*) { return handle_remove(self, nullptr); }

PyMethodDef handle_methods[] = {
    {"remove", handle_remove, METH_NOARGS, "Takes the hook away."},
    {"__enter__", handle_enter, METH_NOARGS, nullptr},
    {"__exit__", handle_exit, METH_VARARGS, nullptr},
    {}};
PyTypeObject handle_type = blank_type();

}  // namespace

void PyHook::call(std::vector<Tensor>& grads, const std::vector<Tensor>* outputs) {
    if (!f) return;
    Object keep = f;  // it may remove itself
    switch (style) {
        case HookStyle::Gradient: {
            Object result = keep.call(wrapped(grads[0]));
            WEFT_EXPECT(result.get() == Py_None || is_tensor(result.get()), Type, "hook",
                        "None or a Tensor from a tensor hook", Py_TYPE(result.get())->tp_name);
            if (result.get() == Py_None) return;
            Tensor t = unwrap(result.get());
            WEFT_EXPECT(equal(t.shape(), grads[0].shape()), Runtime, "hook",
                        text("a gradient of shape ", to_string(grads[0].shape())), to_string(t.shape()));
            grads[0] = t;
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

PyObject* hook_handle(Ref<Hook> hook) {
    auto* h = reinterpret_cast<PyHandle*>(checked(handle_type.tp_alloc(&handle_type, 0)));
    h->hook = hook.detach();
    return reinterpret_cast<PyObject*>(h);
}

void purge(Hooks& hooks) {
    std::erase_if(hooks, [](const Ref<Hook>& h) {
        auto* p = dynamic_cast<PyHook*>(h.get());
        return p && !p->f;
    });
}

void init_hooks(PyObject* module) {
    handle_type.tp_name = "weft.HookHandle";
    handle_type.tp_basicsize = sizeof(PyHandle);
    handle_type.tp_flags = Py_TPFLAGS_DEFAULT;
    handle_type.tp_dealloc = handle_dealloc;
    handle_type.tp_methods = handle_methods;
    handle_type.tp_doc = "What registering a hook returns: remove() takes the hook away.";
    checked(PyType_Ready(&handle_type));
    add_object(module, "HookHandle", reinterpret_cast<PyObject*>(&handle_type));
}

}  // namespace weft::python
