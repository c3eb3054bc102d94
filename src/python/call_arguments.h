/// Calls of ops as Python would write them.
#pragma once
#include "python/object.h"

namespace weft::python {

/// The name of an op for Python: in weft._C, or behind "ops." in weft._C.ops.
std::string name_of_call(const Op& op, bool in_place);
/// Fills a list and a dict: inputs as `input` gives them, and attributes that are not what they are when left
/// out; what is before the last tensor stands in its place.
void arguments_of_call(const Op& op, int inputs, FunctionRef<Object(int)> input, const Value* attrs,
                       const Object& args, const Object& words);

}  // namespace weft::python
