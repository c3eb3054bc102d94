/// What happens at the door in a deferred scope.
#pragma once
#include "deferred/pending.h"

namespace weft::deferred {

/// The door's hook: keeps the call, or runs it.
void defer(Call& c);
/// A pending tensor with the elements of `t` outside of the graph; undefined if that must run now.
Tensor detached(const Tensor& t);
/// To be called before memory, layout or gradient flag of `t` change: computes what reads it.
void about_to_write(const Tensor& t);

/// Puts the hooks on the door.
void install();

}  // namespace weft::deferred
