/// Scopes of the user's that hold on a thread, beside the bits of `mode` (ops/call.h), and that belong
/// to what runs there. The thread owns them; each scope saves and restores its own member; an example
/// of a batch takes them all along when it waits (`Surroundings`, deferred/batch.h), and a flush begins
/// with none but the watcher. Layers below give them their meaning.
#pragma once
#include <cstdint>

namespace weft {

struct PackHooks;  // autograd/saved.h
namespace kernels {
class Generator;
}

namespace ops {

class Watcher;  // ops/watch.h

struct Scopes {
    /// autocast: whether the narrow copies of weights are kept until the outermost scope ends.
    bool keeps_casts = true;
    /// graph.saved_tensors_hooks: the innermost pair of functions; null: none.
    PackHooks* pack_hooks = nullptr;
    /// What a GeneratorScope names (ops/random.h); null: the default one.
    kernels::Generator* generator = nullptr;
    /// With kWatchMode: who hears of calls; what of its own is open here, the calls' surrounding; and
    /// while a kept call runs, what was open where it was made.
    Watcher* watcher = nullptr;
    int64_t inside = -1, origin = -1;
};
inline constinit thread_local Scopes scopes;

}  // namespace ops
}  // namespace weft
