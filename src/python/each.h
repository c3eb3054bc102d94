/// Several calls of one op as one, for Python (Note [Each] in ops/each.h).
#pragma once
#include "python/object.h"

namespace weft::python {

void init_each(PyObject* module);

}  // namespace weft::python
