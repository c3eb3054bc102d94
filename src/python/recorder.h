/// What is done beside the door while calls are recorded (Note [Recorded] in recorder.cpp).
#pragma once
#include "python/object.h"

namespace weft::python {

/// Whether somebody hears of calls on this thread.
bool records_calls();

/// Tells who records, if somebody does, that `self` is asked for something, or about to be changed.
void note_beside(const char* how, PyObject* self, PyObject* value);
/// The same of a method that has run; `argument` may be null.
void note_called(const char* method, PyObject* self, PyObject* argument, PyObject* result);
/// If somebody records, a pass is run and told as a whole: then what it gave, else null.
PyObject* backward_if_recorded(PyObject* const* args, Py_ssize_t n);
/// The object of a generator, borrowed; null if it is none of Python's.
PyObject* object_of(const kernels::Generator& generator);

}  // namespace weft::python
