/// What instructions and calls share.
#pragma once
#include "python/program_host.h"

namespace weft::python::instruction {

constexpr const char* kUnboundLocal =
    "cannot access local variable '%U' where it is not associated with a value";
constexpr const char* kUnboundFree =
    "cannot access free variable '%U' where it is not associated with a value in enclosing scope";

/// Sets an exception with a text as PyErr_Format makes it; null.
PyObject* fail(PyObject* type, const char* format, ...);
/// NameError or UnboundLocalError with the name as its attribute, from which CPython makes suggestions.
PyObject* name_error(PyObject* type, const char* format, PyObject* name);
/// Raises an exception again, with the traceback that it has.
void set_raised(PyObject* error);

inline PyObject* attr_name(const Frame* frame, const program::FlatInstr& i) {
    return frame->program->attrs[static_cast<size_t>(i.attr)].get();
}
inline PyObject* names_of(const Frame* frame, const program::FlatInstr& i) {
    return i.names < 0 ? nullptr : frame->program->attrs[static_cast<size_t>(i.names)].get();
}
inline bool is_iterable(PyObject* o) { return Py_TYPE(o)->tp_iter || PySequence_Check(o); }
PyObject* tuple_from(PyObject* const* items, int32_t n);
/// "module.name()", as messages about arguments have it.
Object called(PyObject* callee);

}  // namespace weft::python::instruction
