/// Scopes of the user's that hold on a thread, beside the bits of `mode` (ops/call.h), and that belong
/// to what runs there: an example of a batch takes them along when it waits. Layers below give them
/// their meaning.
#pragma once

namespace weft {

struct PackHooks;  // autograd/saved.h

namespace ops {

/// autocast: whether the narrow copies of weights are kept until the outermost scope ends.
inline thread_local bool keeps_casts = true;
/// graph.saved_tensors_hooks: the pair of functions in force; null: none.
inline thread_local PackHooks* pack_hooks = nullptr;

}  // namespace ops
}  // namespace weft
