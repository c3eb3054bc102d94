/// What an op's node has saved, under PyTorch's names: `_saved_self`, `_saved_dim`, `_saved_result`.
#pragma once
#include <string_view>
#include <vector>

#include "autograd/op_node.h"
#include "python/object.h"

namespace weft::python {

/// The attributes of `node` that begin with `_saved_`: the attributes of the call, the inputs and
/// outputs that a gradient rule of its op reads.
std::vector<std::string> saved_names(const OpNode& node);
/// The value of one of them: of a value that this node did not need None, of a list of tensors a
/// tuple. Null: it has no such attribute. Throws Runtime if what was saved has been released.
Object saved_attribute(const OpNode& node, std::string_view name);

}  // namespace weft::python
