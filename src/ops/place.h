/// What others ask of the ops of place.cpp.
#pragma once
#include "ops/op.h"

namespace weft::ops {

/// How many elements of the gradient of input i the rule `add` adds `grad` to.
int64_t elements_of_part(PartRule add, const Tensor& grad, const Value* attrs, int i);

}  // namespace weft::ops
