/// Python functions that pack and unpack saved tensors (autograd.graph.saved_tensors_hooks).
#include "autograd/saved.h"
#include "python/object.h"

namespace weft::python {
namespace {

struct PyPacked final : Packed {
    PyPacked(Object object, Object f) : object(std::move(object)), f(std::move(f)) {}
    Tensor unpack() override {
        Object out = f.call(object);
        WEFT_EXPECT(is_tensor(out.get()), Type, "unpack_hook",
                    "the unpack hook to return a tensor (Output of saved tensor unpack_hook expected "
                    "to be a Tensor)",
                    Py_TYPE(out.get())->tp_name);
        return unwrap(out.get());
    }
    Object object, f;
};

/// The pairs in force in this thread: each knows the one below it.
struct PyPackHooks final : PackHooks {
    PyPackHooks(PyObject* pack, PyObject* unpack)
        : pack_function(Object::borrow(pack)), unpack_function(Object::borrow(unpack)),
          below(pack_hooks) {}
    Ref<Packed> pack(const Tensor& t) override {
        Object keep = pack_function, unpack = unpack_function;  // the function may pop this pair
        return Ref<Packed>(new PyPacked(keep.call(wrapped(t)), unpack));
    }
    Object pack_function, unpack_function;
    PackHooks* below;
};

PyObject* push(PyObject*, PyObject* args) {
    PyObject *pack, *unpack;
    if (!PyArg_ParseTuple(args, "OO:_push_saved_hooks", &pack, &unpack)) return nullptr;
    pack_hooks = new PyPackHooks(pack, unpack);
    Py_RETURN_NONE;
}

PyObject* pop(PyObject*, PyObject*) {
    return guarded([] {
        auto* top = static_cast<PyPackHooks*>(pack_hooks);
        WEFT_EXPECT(top, Runtime, "_pop_saved_hooks", "a pair pushed before", "none");
        pack_hooks = top->below;
        delete top;
        return Py_NewRef(Py_None);
    });
}

PyMethodDef functions[] = {
    {"_push_saved_hooks", push, METH_VARARGS, "_push_saved_hooks(pack, unpack), for this thread"},
    {"_pop_saved_hooks", pop, METH_NOARGS, nullptr},
    {}};

}  // namespace

void init_saved_hooks(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace weft::python
