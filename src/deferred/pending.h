/// A tensor whose value is not computed yet.
///
/// Note [Places]
/// The slot of a pending tensor is a Pending. A *root* is the output of one kept call: it waits on a
/// tape, then lies in a block (a contiguous tensor with the results of a whole batch) from `start`
/// on. A *view* holds the tensor that it is a piece of: a dense piece has its place there, any other
/// is computed as a copy, like the output of any call. Reading a tensor settles it: its elements are
/// copied out of the block into memory of its own, so that nobody can write into a block; a view
/// becomes a true view of the tensor it was taken of, so that the two still share memory. If that
/// one has got another layout meanwhile (`t_`, `resize_`), it is taken of what was there before.
#pragma once
#include <exception>
#include <memory>

#include "base/site.h"
#include "ops/call.h"

namespace weft::deferred {

struct Waiting;
constexpr uint8_t kPendingSlot = 3;

/// Why a value does not exist: the exception of the call that should have made it, or one before.
struct Failure {
    uint32_t refs = 0;
    std::exception_ptr error;
    std::string line;     ///< of the call
    uint64_t owner = 0;   ///< the example that made the call; 0: none
    uint32_t call = 0;    ///< its number among those that waited with it
    bool raised = false;  ///< somebody read the value and was told
};
inline void release(Failure* f) { delete f; }

/// The call that takes a view again, of a tensor that has memory by now.
struct Replay {
    const Op* op;  ///< null: the same elements, outside of the graph
    std::vector<Value> attrs;
    int output;
};

struct Pending final : Promise {
    Pending() { kind = kPendingSlot; }
    void destroy() override;
    void settle(const Tensor& t) override;
    Tensor peek(const Tensor& t) override;
    Tensor detached(const Tensor& t) override;
    bool wants_grad(const Tensor&) const override { return requires_grad; }
    uint32_t taken_in() const override { return kDeferMode; }
    static Ref<Pending> make();

    bool waits() const { return among != nullptr; }
    bool is_view() const { return base.defined(); }
    /// Whether its place is a part of its base's.
    bool is_piece() const { return is_view() && !replay; }

    bool requires_grad = false;
    bool recording = true;                   ///< whether calls were recorded when it was made
    bool inference = mode & kInferenceMode;  ///< whether it was made in inference mode
    bool several = false;           ///< of a piece: one of several views that one call made
    bool used = false;              ///< a kept call reads its place (Note [Taken values])
    uint64_t maker = memory_maker;  ///< as Storage::maker
    Tensor base;  ///< of a view: the tensor that it was taken of; of a piece: a root
    std::unique_ptr<Replay> replay;  ///< of a view that is no piece
    int64_t start = 0;  ///< elements before its first one: in the block, of a piece in the base
    Tensor block;       ///< once computed
    Waiting* among = nullptr;         ///< while it waits: the calls to whose results it belongs
    uint32_t value = 0;               ///< its number there
    uint32_t views = 0;               ///< pending tensors that are views of it
    const char* node_name = nullptr;  ///< of the call, as its grad_fn prints
    Ref<Failure> failure;
};

static_assert(sizeof(Pending) <= 96);

inline bool is_pending(const Tensor& t) { return t.has(kPending); }
inline Pending& pending(const Tensor& t) { return *static_cast<Pending*>(t.impl()->slot.get()); }
/// What `t` is a view of, after all: a tensor with memory, or the output of a kept call.
inline const Tensor& root_of(const Tensor& t) {
    const Tensor* root = &t;
    while (is_pending(*root) && pending(*root).is_view()) root = &pending(*root).base;
    return *root;
}

/// Throws what the call threw, with its line.
[[noreturn]] void raise(Failure& failure);
/// Gives a pending tensor its value, computing it first if need be. Throws what its call threw.
void settle(const Tensor& t);
/// A computed value: what `block` holds, whose pieces calls that are kept find where they lie.
Tensor in_place_of(const Tensor& block);
/// Before `t`, which has memory, gets another layout: what views taken of it while it was pending
/// show stays as it was (kLent).
void keep_lent(const Tensor& t);
/// The value of `t` for reading only, outside of every graph; `t` may stay pending.
Tensor peek(const Tensor& t);
bool requires_grad(const Tensor& t);
/// Computes all that waits at once, without waiting for other fibers, if `t` does.
void compute_now(const Tensor& t, const char* reason);

}  // namespace weft::deferred
