/// What happens at the door in a deferred scope.
#pragma once
#include "deferred/pending.h"

namespace weft::deferred {

/// The door's hook: keeps the call, or runs it.
void defer(Call& c);
/// Puts the hooks on the door.
void install();

}  // namespace weft::deferred
