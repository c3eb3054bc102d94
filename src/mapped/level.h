/// Tensors that stand for one value of each of many examples: what vmap runs its function on.
///
/// Note [Mapped]
/// `vmap` runs its function once, on *mapped* tensors. One has the shape, dtype and strides that the
/// value has in one example, and no memory: its `whole` holds the values of all examples, along dim 0.
/// The door hands a call with a mapped operand to `map` (map.cpp), which makes one call over the
/// wholes of it, by the same rule of the record by which calls of examples merge in a batch
/// (Note [Rows] in ops/batch.h). So the cost of a call hardly depends on the number of examples,
/// there is no tape and no plan, and the graph is that of the calls over wholes: a gradient per
/// example is a part of the gradient of a whole, as examples do not depend on each other.
/// Gradients may be mapped too: then one backward pass over a plain graph makes a row per example.
///
/// What cannot be done for all examples at once is the one rule *alone*: from then on the run is that
/// of the first example, each mapped tensor is its first row, and whoever runs the level runs the
/// other examples after it, one by one. A level goes alone when a value is read, when what is older
/// than it is written to, and where a call has no way for all at once or fails: then the first example
/// makes it, and says what it has to say. So the function runs once for all examples or once for each,
/// and never in part.
///
/// Levels nest. An operand of an inner level has a whole that may be mapped on outer ones.
#pragma once
#include "base/ref.h"
#include "ops/call.h"

namespace weft::mapped {

constexpr uint8_t kMappedSlot = 4;

enum class Draws : uint8_t { Error, Different, Same };

/// One run of a function for `size` examples.
class Level {
public:
    Level(int64_t size, Draws draws);
    Level(const Level&) = delete;

    uint32_t refs = 0;
    const uint64_t number;  ///< of what makes memory in it (Storage::maker)
    const int64_t size;
    const Draws draws;
    const Ref<Level> outer;
    bool alone = false;  ///< it is the run of the first example
    bool over = false;

    /// What runs is its function, until `leave`.
    void enter();
    void leave();
    /// From the inside out, as what the first example reads may depend on every level.
    void go_alone();
    /// The level that runs; null outside of all.
    static Level* current() { return current_; }

private:
    friend class Scope;
    uint64_t callers_maker_ = 0;
    static inline thread_local Level* current_ = nullptr;
};
inline void release(Level* level) { delete level; }

/// What runs is part of another level, or of none.
class Scope {
public:
    explicit Scope(Level* level) : saved_(std::exchange(Level::current_, level)) {}
    ~Scope() { Level::current_ = saved_; }
    Scope(const Scope&) = delete;

private:
    Level* saved_;
};

struct Mapped final : Promise {
    Mapped(Level& level, Tensor whole) : level(&level), whole(std::move(whole)) {
        kind = kMappedSlot;
    }
    void destroy() override { delete this; }
    void settle(const Tensor& t) override;
    Tensor peek(const Tensor& t) override;
    Tensor detached(const Tensor& t) override;
    bool wants_grad(const Tensor& t) const override;
    uint32_t taken_in() const override { return kMapMode; }

    Ref<Level> level;
    Tensor whole;  ///< [size, ...]
};

inline bool is_mapped(const Tensor& t) {
    return t.has(kPending) && t.impl()->slot->kind == kMappedSlot;
}
inline Mapped& mapped(const Tensor& t) { return *static_cast<Mapped*>(t.impl()->slot.get()); }

/// The tensor that stands for `whole`'s rows in the examples of `level`.
Tensor map_over(Level& level, const Tensor& whole);
/// `t` of all examples of `level` along dim 0: what it holds, or each time the same.
Tensor whole_of(Level& level, const Tensor& t);
/// The same values, each in every example of `level`, as a fresh input of a graph: part of the graph
/// around if `t` is, and differentiable in any case.
Tensor fresh_input(Level& level, const Tensor& t);
/// Whether `t` has a value for each example of `level`.
bool is_mapped_on(const Level& level, const Tensor& t);
/// What holds the values of all examples on all levels.
const Tensor& bottom_of(const Tensor& t);
/// Puts the hook on the door.
void install();

}  // namespace weft::mapped
