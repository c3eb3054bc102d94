/// What the Tensor type (tensor.cpp) is made of.
#pragma once
#include "python/type.h"

namespace weft::python {

extern PyGetSetDef tensor_properties[];  ///< tensor_properties.cpp; ends with an empty one
extern PyMethodDef tensor_methods[];     ///< tensor_methods.cpp; ends with an empty one

/// A tensor without an object yet, as an instance of `cls`.
PyObject* instance(PyTypeObject* cls, Tensor t);
/// A second object over `t`, which is of a class that carries calls out, outside of the graph.
PyObject* instance_of(PyTypeObject* cls, const Tensor& t);

}  // namespace weft::python
