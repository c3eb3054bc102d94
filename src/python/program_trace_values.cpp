#include "python/program_trace_values.h"

#include <cstring>

#include "ops/table.h"
#include "program/trace.h"
#include "python/type.h"

namespace weft::python {
namespace tracing {

PyTypeObject live_type = blank_type();

bool is_live(PyObject* o) { return Py_TYPE(o) == &live_type; }
PyLive& live_of(PyObject* o) { return *reinterpret_cast<PyLive*>(o); }
PyObject* type_of(PyObject* o) { return reinterpret_cast<PyObject*>(Py_TYPE(o)); }

void dealloc_live(PyObject* o) {
    Py_XDECREF(live_of(o).actual);
    Py_XDECREF(live_of(o).traced);
    Py_TYPE(o)->tp_free(o);
}

PyObject* parameter_type() {
    static PyObject* const type = import_attr("weft.nn", "Parameter").release();
    return type;
}
PyTypeObject* module_type() {
    static PyObject* const type = import_attr("weft.nn", "Module").release();
    return reinterpret_cast<PyTypeObject*>(type);
}

bool is_plain_tensor(PyObject* o) {
    return Py_TYPE(o) == &tensor_type ||
           reinterpret_cast<PyObject*>(Py_TYPE(o)) == parameter_type();
}
bool is_traced_tensor(PyObject* o) {
    return Py_TYPE(o) == &tensor_type && program::is_traced(python::handle(o));
}
bool is_made_here(PyObject* o) { return Py_TYPE(o) == &tensor_type && !is_traced_tensor(o); }
bool is_module(PyObject* o) { return PyType_IsSubtype(Py_TYPE(o), module_type()); }

PyTypeObject* size_type() {
    static PyTypeObject* const type = [] {
        Object size = Object::take(size_object(DimSpan()));
        return Py_TYPE(size.get());
    }();
    return type;
}
PyTypeObject* dtype_type() { return Py_TYPE(dtype_object(DType::Float32)); }

bool is_number_like(PyObject* o) {
    return PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyComplex_CheckExact(o);
}
bool is_value(PyObject* o) {
    return o == Py_None || PyBool_Check(o) || is_number_like(o) || PyUnicode_CheckExact(o) ||
           PyBytes_CheckExact(o) || Py_TYPE(o) == size_type() || Py_TYPE(o) == dtype_type() ||
           o == Py_Ellipsis || Py_TYPE(o) == &PyRange_Type;
}
bool is_container(PyObject* o) {
    return PyTuple_CheckExact(o) || PyList_CheckExact(o) || PyDict_CheckExact(o) ||
           PyAnySet_CheckExact(o);
}
bool is_bound_builtin(PyObject* o) {
    return PyCFunction_Check(o) && PyCFunction_GET_SELF(o) &&
           !PyModule_Check(PyCFunction_GET_SELF(o)) && !PyUnicode_Check(PyCFunction_GET_SELF(o));
}
bool is_fixed(PyObject* o) {
    return PyFunction_Check(o) || (PyCFunction_Check(o) && !is_bound_builtin(o)) ||
           PyType_Check(o) || PyModule_Check(o) || is_module(o);
}

void forget_error() {
    if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
    PyErr_Clear();
}

bool is_of(PyObject* o, const char* type) { return std::strcmp(Py_TYPE(o)->tp_name, type) == 0; }

bool is_name_of_op(PyObject* name) {
    static PyObject* const names = [] {
        Object set = Object::take(PySet_New(nullptr));
        for (const Op& op : table().all())
            checked(PySet_Add(set.get(), py_str(op.public_name).get()));
        return set.release();
    }();
    return PySet_Contains(names, name) > 0;
}

bool is_builtin_function(PyObject* o) {
    if (!PyCFunction_Check(o)) return false;
    PyObject* module = PyCFunction_GET_SELF(o);
    return module && PyUnicode_Check(module) | PyModule_Check(module);
}
bool is_of_module(PyObject* function, const char* module) {
    Object name = Object::steal(PyObject_GetAttrString(function, "__module__"));
    if (!name) PyErr_Clear();
    return name && PyUnicode_Check(name.get()) &&
           PyUnicode_CompareWithASCIIString(name.get(), module) == 0;
}

bool is_of_ops(PyObject* o) {
    if (is_of(o, "weft.Function") || is_of(o, "weft.Method")) return true;
    if (is_builtin_function(o) && is_of_module(o, "weft._C")) {
        Object name = Object::steal(PyObject_GetAttrString(o, "__name__"));
        return name && is_name_of_op(name.get());
    }
    if (!PyFunction_Check(o) && !is_of(o, "weft.CheckedFunction")) return false;
    Object module = Object::steal(PyObject_GetAttrString(o, "__module__"));
    if (!module || !PyUnicode_Check(module.get())) {
        PyErr_Clear();
        return false;
    }
    const std::string_view name = to_text(module.get());
    return name.starts_with("weft.composites.") || name.starts_with("weft.nn.functional");
}

bool is_among(std::string_view name, std::string_view names) {
    return names.find(" " + std::string(name) + " ") != std::string_view::npos;
}
bool is_among(PyObject* name, std::string_view names) { return is_among(to_text(name), names); }

bool is_method_of_tensors(PyObject* name) {
    PyObject* method = _PyType_Lookup(&tensor_type, name);
    if (!method || is_of_ops(method)) return method;
    const bool is_ours = Py_IS_TYPE(method, &PyMethodDescr_Type) ||
                         Py_IS_TYPE(method, &PyWrapperDescr_Type) ||
                         is_of(method, "weft.CheckedFunction");
    return is_ours && is_among(name, kLayoutMethods);
}
bool is_bound_to_traced(PyObject* o) {
    PyObject* self = PyMethod_Check(o)      ? PyMethod_GET_SELF(o)
                     : PyCFunction_Check(o) ? PyCFunction_GET_SELF(o)
                                            : nullptr;
    return self && is_traced_tensor(self);
}

bool is_pure_type(PyObject* o) {
    for (PyTypeObject* t :
         {&PyRange_Type, &PyLong_Type, &PyFloat_Type, &PyBool_Type, &PyTuple_Type, &PyList_Type,
          &PyDict_Type, &PyZip_Type, &PyEnum_Type, &PyReversed_Type, &PySlice_Type})
        if (o == reinterpret_cast<PyObject*>(t)) return true;
    return Py_TYPE(o) == &PyType_Type && o == reinterpret_cast<PyObject*>(size_type());
}

bool is_scope_type(PyObject* o) {
    static PyObject* const types = [] {
        Object of[] = {import_attr("weft.base.modes", "no_grad"),
                       import_attr("weft.base.modes", "enable_grad"),
                       import_attr("weft.base.modes", "set_grad_enabled")};
        return PyTuple_Pack(3, of[0].get(), of[1].get(), of[2].get());
    }();
    if (!PyType_Check(o)) return false;
    for (Py_ssize_t k = 0; k < 3; ++k)
        if (PyTuple_GET_ITEM(types, k) == o) return true;
    return false;
}

}  // namespace tracing

void init_trace(PyObject*) {
    tracing::live_type.tp_dealloc = tracing::dealloc_live;
    ready_type(tracing::live_type, "weft._C._Live", sizeof(tracing::PyLive));
}

}  // namespace weft::python
