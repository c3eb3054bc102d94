/// Kernels that know wide dtypes only, run on narrow ones (Note [Narrow dtypes], tensor/dtype.h).
#pragma once
#include "ops/op.h"

namespace weft::ops {

/// Runs c's kernel on inputs converted to their wide dtypes; its results are converted into
/// c.out(k), which have memory. Pointwise ops on large dense tensors go block by block.
void run_widened(Call& c);

}  // namespace weft::ops
