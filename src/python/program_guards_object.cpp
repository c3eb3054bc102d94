/// Guards for the tests: `_C._Guards`, what tests/compiler calls.
#include "python/program_guards.h"
#include "python/type.h"

namespace weft::python {
namespace {

struct PyGuards {
    PyObject_HEAD Guards* guards;
};
PyTypeObject guards_type = blank_type();

Guards& of(PyObject* self) { return *reinterpret_cast<PyGuards*>(self)->guards; }

PyObject* guards_new(PyTypeObject* type, PyObject*, PyObject*) {
    return guarded([&] {
        PyObject* self = checked(type->tp_alloc(type, 0));
        reinterpret_cast<PyGuards*>(self)->guards = new Guards;
        return self;
    });
}
int guards_traverse(PyObject* self, visitproc visit, void* arg) {
    return of(self).traverse(visit, arg);
}
int guards_clear(PyObject* self) {
    of(self).clear();
    return 0;
}
void guards_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    of(self).clear();
    delete &of(self);
    Py_TYPE(self)->tp_free(self);
}

/// What was told in a tuple of one; None if it is not plain.
PyObject* told(PyObject* value) {
    if (!value) return Py_NewRef(Py_None);
    Object owned = Object::take(value);
    return PyTuple_Pack(1, owned.get());
}

using Ask = PyObject* (Guards::*)(PyObject*, PyObject*);
template <Ask ask>
PyObject* two(PyObject* self, PyObject* args) {
    PyObject *holder, *name;
    if (!PyArg_ParseTuple(args, "OU", &holder, &name)) return nullptr;
    return guarded([&] { return told((of(self).*ask)(holder, name)); });
}
PyObject* lacks(PyObject* self, PyObject* args) {
    PyObject *holder, *name;
    if (!PyArg_ParseTuple(args, "OU", &holder, &name)) return nullptr;
    return guarded([&] { return PyBool_FromLong(of(self).lacks(holder, name)); });
}
PyObject* in_class(PyObject* self, PyObject* args) {
    PyObject *type, *name;
    if (!PyArg_ParseTuple(args, "O!U", &PyType_Type, &type, &name)) return nullptr;
    return guarded([&] {
        return told(Py_XNewRef(of(self).in_class(reinterpret_cast<PyTypeObject*>(type), name)));
    });
}
PyObject* global(PyObject* self, PyObject* args) {
    PyObject *globals, *builtins, *name;
    if (!PyArg_ParseTuple(args, "OOU", &globals, &builtins, &name)) return nullptr;
    return guarded([&] { return told(of(self).global(globals, builtins, name)); });
}
template <bool (Guards::*ask)(PyObject*)>
PyObject* one(PyObject* self, PyObject* o) {
    return guarded([&] { return PyBool_FromLong((of(self).*ask)(o)); });
}

/// hold(times=1): of the last time.
PyObject* hold(PyObject* self, PyObject* args) {
    Py_ssize_t times = 1;
    if (!PyArg_ParseTuple(args, "|n", &times)) return nullptr;
    return guarded([&] {
        bool holds = false;
        for (Py_ssize_t i = 0; i < times; ++i) holds = of(self).hold();
        return PyBool_FromLong(holds);
    });
}
PyObject* shrink(PyObject* self, PyObject* count) {
    return guarded([&] {
        of(self).shrink(static_cast<size_t>(to_int(count, "shrink")));
        return Py_NewRef(Py_None);
    });
}
PyObject* seal(PyObject* self, PyObject*) {
    of(self).seal();
    Py_RETURN_NONE;
}
PyObject* get_size(PyObject* self, void*) { return PyLong_FromSize_t(of(self).size()); }
PyObject* get_words(PyObject* self, void*) { return PyLong_FromSize_t(of(self).words()); }

PyMethodDef guards_methods[] = {{"attribute", two<&Guards::attribute>, METH_VARARGS, nullptr},
                                {"property_of", two<&Guards::property_of>, METH_VARARGS, nullptr},
                                {"lacks", lacks, METH_VARARGS, nullptr},
                                {"in_class", in_class, METH_VARARGS, nullptr},
                                {"global_", global, METH_VARARGS, nullptr},
                                {"cell", one<&Guards::cell>, METH_O, nullptr},
                                {"type_of", one<&Guards::type_of>, METH_O, nullptr},
                                {"items", one<&Guards::items>, METH_O, nullptr},
                                {"function", one<&Guards::function>, METH_O, nullptr},
                                {"module_call", one<&Guards::module_call>, METH_O, nullptr},
                                {"hold", hold, METH_VARARGS, nullptr},
                                {"shrink", shrink, METH_O, nullptr},
                                {"seal", seal, METH_NOARGS, nullptr},
                                {}};
PyGetSetDef guards_getters[] = {{"reads", get_size, nullptr, nullptr, nullptr},
                                {"words", get_words, nullptr, nullptr, nullptr},
                                {}};

}  // namespace

void init_guards(PyObject* module) {
    guards_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    guards_type.tp_new = guards_new;
    guards_type.tp_traverse = guards_traverse;
    guards_type.tp_clear = guards_clear;
    guards_type.tp_dealloc = guards_dealloc;
    guards_type.tp_methods = guards_methods;
    guards_type.tp_getset = guards_getters;
    add_type(module, guards_type, "weft._C._Guards", sizeof(PyGuards));
}

}  // namespace weft::python
