/// C++ exceptions to Python's: the only place that knows both.
#include "python/object.h"

namespace weft::python {

void set_python_error() {
    try {
        throw;
    } catch (const PythonError&) {
        // already set
    } catch (const Error& e) {
        PyObject* type = PyExc_RuntimeError;
        switch (e.kind) {
            case ErrorKind::Runtime:
                break;
            case ErrorKind::Value:
                type = PyExc_ValueError;
                break;
            case ErrorKind::Type:
                type = PyExc_TypeError;
                break;
            case ErrorKind::Index:
                type = PyExc_IndexError;
                break;
            case ErrorKind::NotImplemented:
                type = PyExc_NotImplementedError;
                break;
            case ErrorKind::Memory:
                type = PyExc_MemoryError;
                break;
            case ErrorKind::Overflow:
                type = PyExc_OverflowError;
                break;
        }
        PyErr_SetString(type, e.what());
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    } catch (const std::exception& e) {
        PyErr_SetString(PyExc_RuntimeError, e.what());
    }
}

std::string_view to_text(PyObject* str) {
    Py_ssize_t size;
    const char* data = checked(PyUnicode_AsUTF8AndSize(str, &size));
    return {data, static_cast<size_t>(size)};
}

Object import_attr(const char* module, const char* name) {
    return Object::take(PyImport_ImportModule(module)).attr(name);
}

void add_object(PyObject* module, const char* name, PyObject* object) {
    checked(PyModule_AddObjectRef(module, name, object));
}

}  // namespace weft::python
