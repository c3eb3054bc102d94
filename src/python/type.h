/// Static types and tables of methods: what each of the binding's has to say.
#pragma once
#include "python/object.h"

namespace weft::python {

/// Makes a static type ready whose other slots are filled in, for objects of `size` bytes. Flags that are not set
/// are the default ones. Throws PythonError.
void ready_type(PyTypeObject& type, const char* name, size_t size);
/// The same, and adds it to `module` under the last part of its name.
void add_type(PyObject* module, PyTypeObject& type, const char* name, size_t size);

/// A function of any of CPython's signatures, for a table of methods.
template <class F>
PyCFunction c_function(F* f) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

}  // namespace weft::python
