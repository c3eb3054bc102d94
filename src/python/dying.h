/// Operands that die with the call: `a * b` in `(a * b).exp()`.
///
/// Note [Dying operands]
/// Where the interpreter's stack holds the only reference to an operand, nobody can read it after
/// the call, and a large pointwise result may be written over it (ops/reuse.h). A count of 1 alone
/// does not say that: C code may hold its one reference and go on using it (an array of objects, a
/// compiled module, functools.partial). So a call counts only if it comes straight from the
/// bytecode: arguments lie in the running frame's stack behind the callable itself; an operator's
/// frame is at BINARY_OP, with nothing but the interpreter's own dispatch in between. This is known
/// of CPython 3.11; elsewhere nothing is reused. `WEFT_REUSE=0` switches it off.
#pragma once
#include "python/object.h"

namespace weft::python {

/// Which of the arguments of a call of `callable` dies with it, or -1.
int dying_argument(PyObject* callable, PyObject* const* args, Py_ssize_t count);
/// The same for the operands of a number slot: 0, 1 or -1.
int dying_operand(PyObject* a, PyObject* b);

}  // namespace weft::python
