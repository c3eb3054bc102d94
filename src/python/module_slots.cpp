/// Fast attribute lookup and fast calls for weft.nn.Module.
///
/// Note [Module slots]
/// `Module` is a Python class whose `__getattr__` and `__call__` say what it does. CPython reaches
/// them through generic slots: a parameter costs a formatted AttributeError and a Python call, and
/// a call costs a frame. `_speed_up_module(cls)` puts C functions that do the same into the slots
/// of `cls`, unless `cls` has a `__getattr__`, `__getattribute__` or `__call__` of its own. When
/// someone assigns one of these to a class later, CPython itself writes the generic slot again,
/// also in the subclasses. So the Python way is always there, and the fast one is tested against it.
#include "python/object.h"

namespace weft::python {
namespace {

/// More positional arguments than this take the general way.
constexpr Py_ssize_t kMostArgs = 6;

PyObject* str_parameters;
PyObject* str_modules;
PyObject* str_buffers;
PyObject* str_hooked;
PyObject* str_forward;
PyObject* str_getattr;
PyObject* str_getattribute;
PyObject* str_call;
PyObject* str_call_with_hooks;
/// `Module.__getattr__` and `Module.__call__`, owned.
PyObject* module_getattr;
PyObject* module_python_call;

/// A new reference to `name` in the dictionary `table_name` of a module; null if there is none.
PyObject* find_in(PyObject* tables, PyObject* table_name, PyObject* name) {
    PyObject* table = PyDict_GetItemWithError(tables, table_name);
    return table && PyDict_Check(table) ? Py_XNewRef(PyDict_GetItemWithError(table, name)) : nullptr;
}

/// What `object.__getattribute__` and then `Module.__getattr__` do.
PyObject* get_attribute(PyObject* self, PyObject* name) {
    PyObject* value = nullptr;
    const bool of_class = _PyType_Lookup(Py_TYPE(self), name) != nullptr;
    if (of_class) value = _PyObject_GenericGetAttrWithDict(self, name, nullptr, /*suppress=*/1);
    if (value || PyErr_Occurred()) return value;
    PyObject* tables = PyObject_GenericGetDict(self, nullptr);
    if (!tables) return nullptr;
    if (!of_class) value = Py_XNewRef(PyDict_GetItemWithError(tables, name));
    if (!value && !PyErr_Occurred()) value = find_in(tables, str_parameters, name);
    if (!value && !PyErr_Occurred()) value = find_in(tables, str_modules, name);
    if (!value && !PyErr_Occurred()) value = find_in(tables, str_buffers, name);
    Py_DECREF(tables);
    if (!value && !PyErr_Occurred())
        PyErr_Format(PyExc_AttributeError, "'%.200s' object has no attribute '%U'",
                     Py_TYPE(self)->tp_name, name);
    return value;
}

/// Calls `function` as a method of `self` without making a bound method.
PyObject* call_function(PyObject* function, PyObject* self, PyObject* args) {
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    PyObject* stack[kMostArgs + 2] = {nullptr, self};
    for (Py_ssize_t i = 0; i < n; ++i) stack[i + 2] = PyTuple_GET_ITEM(args, i);
    Py_INCREF(function);
    size_t flags = static_cast<size_t>(n + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET;
    PyObject* out = PyObject_Vectorcall(function, stack + 1, flags, nullptr);
    Py_DECREF(function);
    return out;
}

PyObject* call_with_hooks(PyObject* self, PyObject* args, PyObject* kwargs) {
    PyObject* named = kwargs ? Py_NewRef(kwargs) : PyDict_New();
    if (!named) return nullptr;
    PyObject* out = PyObject_CallMethodObjArgs(self, str_call_with_hooks, args, named, nullptr);
    Py_DECREF(named);
    return out;
}

/// What `Module.__call__` does: `forward`, or `_call_with_hooks` if the flag `_hooked` is up.
PyObject* call_module(PyObject* self, PyObject* args, PyObject* kwargs) {
    PyObject* tables = PyObject_GenericGetDict(self, nullptr);
    if (!tables) return nullptr;
    // The flag of an instance is only ever raised, that of the class says "any module".
    bool hooked = PyDict_GetItemWithError(tables, str_hooked) ||
                  _PyType_Lookup(Py_TYPE(self), str_hooked) != Py_False;
    bool own_forward = PyDict_GetItemWithError(tables, str_forward) != nullptr;
    Py_DECREF(tables);
    if (PyErr_Occurred()) return nullptr;
    if (hooked) return call_with_hooks(self, args, kwargs);
    PyObject* forward = own_forward ? nullptr : _PyType_Lookup(Py_TYPE(self), str_forward);
    bool plain = forward && PyFunction_Check(forward) && PyTuple_GET_SIZE(args) <= kMostArgs &&
                 !(kwargs && PyDict_GET_SIZE(kwargs));
    if (plain) return call_function(forward, self, args);
    PyObject* bound = PyObject_GetAttr(self, str_forward);
    if (!bound) return nullptr;
    PyObject* out = PyObject_Call(bound, args, kwargs);
    Py_DECREF(bound);
    return out;
}

/// _speed_up_module(cls): the first class it is given has to be Module itself.
PyObject* speed_up_module(PyObject*, PyObject* cls) {
    if (!PyType_Check(cls)) {
        PyErr_Format(PyExc_TypeError, "[_speed_up_module] expected a class, got %.200s",
                     Py_TYPE(cls)->tp_name);
        return nullptr;
    }
    auto* type = reinterpret_cast<PyTypeObject*>(cls);
    if (!module_getattr) {
        module_getattr = Py_XNewRef(_PyType_Lookup(type, str_getattr));
        module_python_call = Py_XNewRef(_PyType_Lookup(type, str_call));
    }
    PyObject* plain_getattribute = _PyType_Lookup(&PyBaseObject_Type, str_getattribute);
    if (_PyType_Lookup(type, str_getattr) == module_getattr &&
        _PyType_Lookup(type, str_getattribute) == plain_getattribute)
        type->tp_getattro = get_attribute;
    if (_PyType_Lookup(type, str_call) == module_python_call) type->tp_call = call_module;
    PyType_Modified(type);
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"_speed_up_module", speed_up_module, METH_O,
                            "Put C functions into the slots of a module class."},
                           {}};

}  // namespace

void init_module_slots(PyObject* module) {
    const std::pair<PyObject**, const char*> names[] = {
        {&str_parameters, "_parameters"},       {&str_modules, "_modules"},
        {&str_buffers, "_buffers"},             {&str_hooked, "_hooked"},
        {&str_forward, "forward"},              {&str_getattr, "__getattr__"},
        {&str_getattribute, "__getattribute__"}, {&str_call, "__call__"},
        {&str_call_with_hooks, "_call_with_hooks"}};
    for (auto [at, text] : names) *at = checked(PyUnicode_InternFromString(text));
    checked(PyModule_AddFunctions(module, functions));
}

}  // namespace weft::python
