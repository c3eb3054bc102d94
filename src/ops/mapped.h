/// Mapping over examples: the door hands calls made inside of vmap to a layer below first.
#pragma once
#include "ops/call.h"

namespace weft {

/// A bit of `mode`, beside those of ModeFlag: some tensors stand for a value of each example.
constexpr uint32_t kMapMode = 32;

namespace ops {

/// Runs `c` for all examples at once. False if no operand stands for more than one value.
extern bool (*map)(Call& c);

}  // namespace ops
}  // namespace weft
