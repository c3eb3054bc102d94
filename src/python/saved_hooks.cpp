/// What weft/autograd/graph.py needs: functions that pack and unpack saved tensors, versions, and
/// questions to the pass under way.
#include "autograd/engine.h"
#include "autograd/saved.h"
#include "ops/write.h"
#include "python/object.h"

namespace weft::python {
namespace {

struct PyPacked final : Packed {
    PyPacked(Object object, Object f) : object(std::move(object)), f(std::move(f)) {}
    Tensor unpack() override {
        Object out = f.call(object);
        WEFT_EXPECT(is_tensor(out.get()), Type, "unpack_hook",
                    "the unpack hook to return a tensor (Output of saved tensor unpack_hook "
                    "expected to be a Tensor)",
                    Py_TYPE(out.get())->tp_name);
        return unwrap(out.get());
    }
    Object object, f;
};

/// The pairs in force in this thread: each knows the one below it.
struct PyPackHooks final : PackHooks {
    PyPackHooks(PyObject* pack, PyObject* unpack)
        : pack_function(Object::borrow(pack)), unpack_function(Object::borrow(unpack)),
          below(ops::scopes.pack_hooks), deferring(mode & kDeferMode) {}
    Ref<Packed> pack(const Tensor& t) override {
        Object keep = pack_function, unpack = unpack_function;  // the function may pop this pair
        return Ref<Packed>(new PyPacked(keep.call(wrapped(t)), unpack));
    }
    Object pack_function, unpack_function;
    PackHooks* below;
    uint32_t deferring;  ///< the flag before: calls under hooks are recorded at once
};

PyObject* push(PyObject*, PyObject* args) {
    PyObject *pack, *unpack;
    if (!PyArg_ParseTuple(args, "OO:_push_saved_hooks", &pack, &unpack)) return nullptr;
    ops::scopes.pack_hooks = new PyPackHooks(pack, unpack);
    mode &= ~uint32_t{kDeferMode};
    Py_RETURN_NONE;
}

PyObject* pop(PyObject*, PyObject*) {
    return guarded([] {
        auto* top = static_cast<PyPackHooks*>(ops::scopes.pack_hooks);
        WEFT_EXPECT(top, Runtime, "_pop_saved_hooks", "a pair pushed before", "none");
        ops::scopes.pack_hooks = top->below;
        mode |= top->deferring;
        delete top;
        return Py_NewRef(Py_None);
    });
}

/// Whether such a pair is in force.
PyObject* has_hooks(PyObject*, PyObject*) {
    return PyBool_FromLong(ops::scopes.pack_hooks != nullptr);
}

/// As if the tensor had been written in place.
PyObject* increment_version(PyObject*, PyObject* o) {
    return guarded([&] {
        Tensor t = expect_tensor(o, "increment_version");
        WEFT_EXPECT(!t.has(kInference), Runtime, "increment_version",
                    "a tensor that counts versions (Inference tensors do not track version "
                    "counter)",
                    "an inference tensor");
        ops::Write::was_written(t);
        return Py_NewRef(Py_None);
    });
}
PyObject* py_current_pass(PyObject*, PyObject*) {
    return PyLong_FromUnsignedLongLong(current_pass());
}
PyObject* py_pass_reaches(PyObject*, PyObject* node) {
    return guarded(
        [&] { return PyBool_FromLong(current_pass_reaches(*unwrap_node(node, "_pass_reaches"))); });
}

PyObject* py_pass_is_full(PyObject*, PyObject*) { return PyBool_FromLong(current_pass_is_full()); }

PyMethodDef saved_hooks_functions[] = {
    {"_push_saved_hooks", push, METH_VARARGS, "_push_saved_hooks(pack, unpack), for this thread"},
    {"_pop_saved_hooks", pop, METH_NOARGS, nullptr},
    {"_has_saved_hooks", has_hooks, METH_NOARGS, nullptr},
    {"_increment_version", increment_version, METH_O, nullptr},
    {"_current_pass", py_current_pass, METH_NOARGS, "The number of this thread's pass; 0: none."},
    {"_pass_is_full", py_pass_is_full, METH_NOARGS, "Whether that pass is for all leaves."},
    {"_pass_reaches", py_pass_reaches, METH_O, "Whether that pass makes the node's gradients."},
    {}};

}  // namespace

void init_saved_hooks(PyObject* module) {
    checked(PyModule_AddFunctions(module, saved_hooks_functions));
}

}  // namespace weft::python
