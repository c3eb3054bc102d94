/// Reads a schema such as "sum.dim(Tensor self, int[]? dim=None, *, dtype? dtype=None) -> Tensor".
#pragma once
#include <string_view>

#include "ops/op.h"

namespace weft {

/// Fills name, public_name, schema, params, defaults, inputs and outputs. Throws Error(Value).
void parse_schema(std::string_view schema, Op& op);

/// The place of a parameter by one of its names; past all of them if there is none.
int parameter_called(const Op& op, std::string_view name);

}  // namespace weft
