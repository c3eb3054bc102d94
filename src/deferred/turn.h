/// Whose turn it is: what examples share is written, and drawn, in the loop's order.
///
/// Note [Shared state]
/// What examples share changes in the order of the loop: an example that writes to shared memory,
/// accumulates, reads or sets gradients of shared leaves or steps an optimizer does so when all
/// before it are done. Nor does it wait while it does (Stay): the examples after it begin later, or
/// wait in other places, and so find what it left, as far as they have not read it before.
#pragma once
#include <climits>
#include <utility>

#include "deferred/batch.h"
#include "deferred/pending.h"

namespace weft::deferred {

/// Who made the memory that `t` shows, or will show (Note [Numbers]).
inline uint64_t maker_of(const Tensor& t) {
    const Tensor& root = root_of(t);
    return is_pending(root) ? pending(root).maker : uint64_t{root.storage()->maker};
}

/// No fiber waits: a value that is read is computed at once. For scopes over what all examples
/// share, which must not be left half way.
class Stay {
public:
    explicit Stay(bool stay = true);
    ~Stay();
    Stay(const Stay&) = delete;
    /// Whether it makes fibers stay; from now on the caller has to end that (`staying`).
    bool keep() { return std::exchange(by_, 0); }

private:
    int by_;
};
/// On how many levels, from the innermost batch on, other examples may hold the memory of `t` too: the
/// one that runs there did not make it. 0: on none.
int sharing_levels(const Tensor& t);
constexpr int kAllLevels = INT_MAX;
/// Waits until it is this example's turn on so many levels.
void in_turn(int levels);
class InTurn {
public:
    explicit InTurn(int levels) : stay_(levels && (in_turn(levels), true)) {}
    bool keep() { return stay_.keep(); }

private:
    Stay stay_;
};
/// To be called in an example's turn before it changes `t`, if that is shared; writes at the door do
/// it. Examples after it that have read the memory did so too early: nothing can mend that, so it is
/// told (`ExampleBatch::stale`).
void change_shared(const Tensor& t);
/// The same for the layout of `t`: who has taken views of it is not known, so that every later example
/// that has begun counts.
void change_layout(const Tensor& t);
/// The same for what no tensor stands for: a backward pass, which adds to gradients.
void note_change();
/// Before something that is no tensor, such as a module, changes; `maker` made it. Waits for the turn.
/// Who has read it is not known either.
void change_object(uint64_t maker);
/// Waits for the turn to draw random numbers on every level whose examples share the generator, which
/// is nobody's but the example's that made it.
void draw_in_turn(const kernels::Generator& generator);
/// Where no call is kept nobody waits, and a draw only counts as late.
void draw_at_once(const kernels::Generator& generator);

}  // namespace weft::deferred
