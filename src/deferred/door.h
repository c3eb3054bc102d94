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
/// Whether other examples may hold the memory of `t` too: it is older than the batch, or another
/// example of it made it.
bool is_shared(const Tensor& t);
/// Note [Shared state]
/// What examples share changes in the order of the loop: an example that writes to shared memory,
/// accumulates, reads or sets gradients of shared leaves or steps an optimizer does so when all
/// before it are done. Nor does it wait while it does (Stay): the examples after it begin later, or
/// wait in other places, and so find what it left, as far as they have not read it before.
void in_turn();
class InTurn {
public:
    explicit InTurn(bool shared) : stay_(shared && (in_turn(), true)) {}

private:
    Stay stay_;
};
/// To be called in an example's turn before it changes `t`, if that is shared; writes at the door do
/// it. Examples after it that have read the memory did so too early: nothing can mend that, so it is
/// told (`Ordered::stale`).
void change_shared(const Tensor& t);
/// Before the memory of `t` is written to past the door, or is another's from then on.
void prepare_write(const Tensor& t);
/// What examples did for which their order matters.
struct Ordered {
    int64_t changes = 0;     ///< of shared memory, and backward passes
    int64_t late_draws = 0;  ///< of random numbers, by an example that has waited for a value
    std::string stale;       ///< the first line that changed what a later example had read
};
inline thread_local Ordered ordered;
/// The same for random numbers, which are drawn in the order of the loop on every level.
void draw_in_turn();

/// Puts the hooks on the door.
void install();

}  // namespace weft::deferred
