/// C++ exceptions to Python's: the only place that knows both.
#include <unistd.h>

#include <stdexcept>

#include "python/object.h"

namespace weft::python {

namespace {

/// A Python exception that is set no more.
struct KeptError {
    Object error;
};

/// As PyTorch's allocator says it: RuntimeError.
void no_room() {
    PyErr_SetString(PyExc_RuntimeError, "[alloc] expected room for the call's own tables, got no "
                                        "memory");
}

}  // namespace

void with_error(FunctionRef<void(PyObject*)> f) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (!type) return;
    PyErr_NormalizeException(&type, &value, &trace);
    guarded([&] { return f(value), true; });
    PyErr_Clear();  // nothing that goes wrong here hides the error
    PyErr_Restore(type, value, trace);
}

bool tell_call(std::string_view context) {
    bool is_new = false;
    with_error([&](PyObject* error) {
        is_new = import_attr("weft.base.failures", "add_call")
                     .call(Object::borrow(error), py_str(context))
                     .get() == Py_True;
    });
    return is_new;
}

void tell_module(PyObject* module) {
    with_error([&](PyObject* error) {
        PyObject** names = _PyObject_GetDictPtr(error);
        if (names && *names && PyDict_GetItemString(*names, "_weft_failure"))
            import_attr("weft.base.failures", "add_module")
                .call(Object::borrow(error), Object::borrow(module));
    });
}

void set_python_error() {
    try {
        throw;
    } catch (const PythonError&) {
        // already set
    } catch (const KeptError& e) {
        PyObject* error = e.error.get();
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
    } catch (const Error& e) {
        Object own;
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
            case ErrorKind::LinAlg:
                own = import_attr("weft.linalg", "LinAlgError");
                type = own.get();
                break;
        }
        PyErr_SetString(type, e.what());
        if (!e.context.empty()) tell_call(e.context);
        else forget_failed();
    } catch (const std::bad_alloc&) {
        no_room();
    } catch (const std::length_error&) {  // a vector beyond what could ever be
        no_room();
    } catch (const std::exception& e) {
        PyErr_SetString(PyExc_RuntimeError, e.what());
    }
}

Object take_exception() {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace) PyException_SetTraceback(value, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return Object::steal(value);
}

std::exception_ptr keep_exception() {
    try {
        throw;
    } catch (const PythonError&) {
        return std::make_exception_ptr(KeptError{take_exception()});
    } catch (...) {
        return std::current_exception();
    }
}

void stay_until_exit() {
    for (;;) pause();
}

std::string_view to_text(PyObject* str) {
    Py_ssize_t size;
    const char* data = checked(PyUnicode_AsUTF8AndSize(str, &size));
    return {data, static_cast<size_t>(size)};
}

Object import_attr(const char* module, const char* name) {
    return Object::take(into_python([&] { return PyImport_ImportModule(module); })).attr(name);
}

void add_object(PyObject* module, const char* name, PyObject* object) {
    checked(PyModule_AddObjectRef(module, name, object));
}

}  // namespace weft::python
