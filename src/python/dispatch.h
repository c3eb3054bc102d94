/// Calls of operators that a mode carries out (Note [Dispatch] in dispatch.cpp).
#pragma once

#include "python/object.h"

namespace weft::python {

/// Whether modes, or the class of `self`, are to carry out a method that is no call of the door: `item`,
/// `detach`, and the numbers and truths that tensors of one element give.
inline bool dispatches(PyObject* self) {
    return (mode & kDispatchMode) != 0 || handle(self).has(kDispatching);
}

/// Whether a class of tensors defines `__torch_dispatch__`.
bool class_dispatches(PyTypeObject* cls);
/// Whether there was ever a tensor of such a class.
inline bool dispatching_known = false;

/// What they make of the operator `name` of ATen of a tensor; null with an error set.
PyObject* dispatched(const char* name, PyObject* self);

/// The same of the one element, as a number. `self` has one.
inline PyObject* dispatched_element(PyObject* self) {
    return dispatched("_local_scalar_dense", self);
}

/// Installs the door's hook.
void init_dispatch(PyObject* module);

}  // namespace weft::python
