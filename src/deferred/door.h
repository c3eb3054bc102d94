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
/// While positive, no fiber waits: a value that is read is computed at once. For scopes over what all
/// examples share, which must not be left half way.
inline thread_local int staying = 0;
class Stay {
public:
    explicit Stay(bool stay = true) : by_(stay) { staying += by_; }
    ~Stay() { staying -= by_; }
    Stay(const Stay&) = delete;

private:
    int by_;
};
/// Whether `dest` is older than the batch. It is written in the order of the loop, as
/// far as examples come there in its order: nobody waits there (Stay), lest others read what is about
/// to be written.
bool is_shared(const Tensor& dest);

/// Puts the hooks on the door.
void install();

}  // namespace weft::deferred
