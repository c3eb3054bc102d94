/// Slots of the Tensor type that have files of their own.
#pragma once
#include "python/object.h"

namespace weft::python {

// numbers.cpp
void set_number_slots(PyNumberMethods& n);
PyObject* tensor_compare(PyObject* a, PyObject* b, int how);

// cycles.cpp (Note [Cycles])
int tensor_traverse(PyObject* self, visitproc visit, void* arg);
int tensor_clear(PyObject* self);

}  // namespace weft::python
