/// The core's side of sparse tensors: shells, and what is asked of the package (weft/sparse).
#pragma once
#include "python/object.h"

namespace weft::python {

void init_sparse(PyObject* module);

}  // namespace weft::python
