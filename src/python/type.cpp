#include "python/type.h"

namespace weft::python {

void ready_type(PyTypeObject& type, const char* name, size_t size) {
    type.tp_name = name;
    type.tp_basicsize = static_cast<Py_ssize_t>(size);
    if (!type.tp_flags) type.tp_flags = Py_TPFLAGS_DEFAULT;
    checked(PyType_Ready(&type));
}

void add_type(PyObject* module, PyTypeObject& type, const char* name, size_t size) {
    ready_type(type, name, size);
    const std::string_view full = name;
    add_object(module, name + full.rfind('.') + 1, reinterpret_cast<PyObject*>(&type));
}

}  // namespace weft::python
