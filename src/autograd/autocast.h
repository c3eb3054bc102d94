/// Mixed precision (Python: weft.amp.autocast). The scope itself is bits of `mode`
/// (ops/call.h).
#pragma once

namespace weft {

void install_autocast();
/// Drops the narrow copies of weights: the outermost scope of this thread ends.
void forget_casts();

}  // namespace weft
