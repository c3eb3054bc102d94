/// Custom functions in a batch: the door hands their merged calls to the layer that makes nodes.
#pragma once
#include "ops/call.h"

namespace weft::ops {

/// Ties blocks of results to a node of the binding's. `c`: as `_tie_rows` (tie.cpp) has it.
extern void (*tie)(Call& c);

}  // namespace weft::ops
