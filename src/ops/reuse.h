/// Calls whose operand dies with them: a chain of pointwise ops then works in one piece of memory.
#pragma once
#include "ops/call.h"

namespace weft::ops {

/// Storages from which on memory is worth reusing: smaller ones are in level 2 anyway.
inline constexpr int64_t reuse_bytes = int64_t{1} << 20;

/// `call`, for a `c` whose input `dying` nobody can read afterwards: neither the tensor nor its
/// storage has another owner. A pointwise result of its dtype and layout is written over it, unless
/// the call is recorded, since gradients may want the input.
void call_over(Call& c, int dying);

/// `call`, for a result of the elements of input 0, in their order, which nobody can read afterwards:
/// out(0) lies in its memory, and the kernel finds that there is nothing to copy.
void call_in_place_of(Call& c);

}  // namespace weft::ops
