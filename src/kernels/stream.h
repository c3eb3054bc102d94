/// Pointwise loops over more memory than the caches hold.
#pragma once
#include <cstdint>

#include "kernels/map.h"

namespace weft::kernels {

/// Bytes of all operands from which on a loop's output goes past the caches: an ordinary store
/// first reads the line that it overwrites, a third of the traffic of a unary loop, and nothing is
/// left of it when the next reader comes. Two fifths of level 3: with 48 MB of it, operands taking
/// turns, unary on 2 x 16 MB took 2.5 ms against 1.5, binary on 3 x 16 MB 3.7 against 2.8, on
/// 3 x 8 MB 1.4 against 0.9, but unary on 2 x 4 MB 0.30 ms against 0.35.
int64_t stream_bytes();

/// loop(f, p, strides, n) with the same bits, where p[0] is dense, of `item` bytes an element.
/// Runs in blocks whose results are written by non-temporal stores; in the plain way where the
/// output is also an input.
void stream_map(MapLoop loop, const void* f, char* const* p, const int64_t* strides, int operands,
                int64_t item, int64_t n);

/// Copies `bytes` from a buffer past the caches, as far as whole lines of `to` go. Before others read
/// them: `finish_stores`.
void stream_out(char* to, const char* from, int64_t bytes);
/// Non-temporal stores are not ordered with other ones, which the next reader relies on.
void finish_stores();

}  // namespace weft::kernels
