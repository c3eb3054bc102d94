/// Mixed precision: what the layers below share of a scope, beside the bits of `mode` (ops/call.h).
#pragma once

namespace weft::ops {

/// Whether the narrow copies of weights are kept until the outermost scope ends: of a thread, as in
/// PyTorch, and of an example (python/fibers.cpp).
inline thread_local bool keeps_casts = true;

}  // namespace weft::ops
