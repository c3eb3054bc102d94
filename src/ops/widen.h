/// Kernels that know wide dtypes only, run on narrow ones (Note [Narrow dtypes], tensor/dtype.h).
#pragma once
#include "ops/op.h"

namespace weft::ops {

/// The narrow dtypes that processors convert themselves.
constexpr bool is_half(DType t) { return t == DType::Float16 || t == DType::BFloat16; }

/// Runs c's kernel where an operand or a result is narrow. One that takes wide dtypes alone gets its
/// inputs converted to these; its results are converted into c.out(k), which have memory. Pointwise
/// ops go strip by strip, or on halves in registers, where they are one loop over rows that are not
/// short, else dense ones block by block; products of bfloat16 take the processor's instruction,
/// where it has one. Throws NotImplemented for float8 dtypes in ops that would compute in them
/// (Note [Float8]).
void run_narrow(Call& c);

/// The same without the special ways, for kernels that take some narrow dtypes as they are and are
/// called again with the others widened.
void run_widened(Call& c);

}  // namespace weft::ops
