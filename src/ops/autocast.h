/// Mixed precision: the door hands calls made in an autocast scope to a layer below first.
#pragma once
#include "ops/call.h"

namespace weft {

/// Bits of `mode`, beside those of ModeFlag.
constexpr uint32_t kAutocastMode = 8;       ///< products run in a narrow float
constexpr uint32_t kAutocastHalfMode = 16;  ///< that float is float16, not bfloat16
constexpr uint32_t kAutocastBits = kAutocastMode | kAutocastHalfMode;

namespace ops {

/// Runs `c` on inputs of the dtype that autocast wants for its op. False if it leaves the op alone.
extern bool (*autocast)(Call& c);
/// Whether the narrow copies of weights are kept until the outermost scope ends.
inline thread_local bool keeps_casts = true;

}  // namespace ops
}  // namespace weft
