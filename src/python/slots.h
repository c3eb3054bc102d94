/// Slots of the Tensor type that have files of their own.
#pragma once
#include "python/object.h"

namespace weft::python {

// numbers.cpp
void set_number_slots(PyNumberMethods& n);
PyObject* tensor_compare(PyObject* a, PyObject* b, int how);

// channels.cpp
/// The rank of torch.channels_last or torch.channels_last_3d; 0 for anything else.
int channels_last_dims(PyObject* format);
bool channels_are_last(const Tensor& t, int dims);
/// `t` itself or a copy whose channels come last in memory, through the door.
Tensor with_channels_last(const Tensor& t, int dims);

// cycles.cpp (Note [Cycles])
int tensor_traverse(PyObject* self, visitproc visit, void* arg);
int tensor_clear(PyObject* self);

}  // namespace weft::python
