/// One batch of examples: who they are, and what holds for all of them while they run.
///
/// Note [Numbers]
/// A batch takes as many numbers as it has examples, and one for itself: no other batch, on any
/// thread, ever gets them again. Memory bears the number of who made it (Storage::maker), so that one
/// comparison tells whether it is older than a batch, an example's own, or another's.
#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ref.h"
#include "ops/call.h"
#include "ops/scopes.h"

namespace weft::deferred {

class PlainLoop;

/// What holds on a thread for what runs there, and so has to follow an example that waits, or the one
/// that runs a batch: whoever runs in between has its own.
struct Surroundings {
    uint64_t maker;   ///< `memory_maker`
    uint32_t mode;    ///< `mode`
    PlainLoop* loop;  ///< examples that run one by one: the innermost such loop; or null
    ops::Scopes scopes;

    static Surroundings now();
    void restore() const;
};

class ExampleBatch {
public:
    /// A batch of `count` examples, in what runs now: `outer` is its batch, or null. The user's index
    /// of the first one is `first_index`.
    ExampleBatch(uint64_t count, Ref<ExampleBatch> outer, int64_t first_index)
        : number(next_), count(count), first_index(first_index), outer(std::move(outer)) {
        next_ += count + 1;
        uint64_t example = caller();
        for (ExampleBatch* b = this->outer.get(); b; example = b->caller(), b = b->outer.get())
            b->note_inner(*this, example);
    }

    uint32_t refs = 0;
    const uint64_t number;  ///< that of what runs the examples, which are number + 1 and on
    const uint64_t count;
    const int64_t first_index;
    const Ref<ExampleBatch> outer;
    /// How many forks lie between the first process and that which began the batch.
    const int process = forks;
    const Surroundings callers = Surroundings::now();
    /// Who runs the batch: an example of `outer`, or 0.
    uint64_t caller() const { return callers.maker; }
    /// How deep in calls the caller is: frames of the host's language; calls of C that the host allows
    /// yet. A fiber that begins an example is as deep.
    std::array<int, 2> callers_depth{};
    /// What programs of the host's the caller runs in (python/program.h).
    std::array<void*, 2> callers_programs{};

    /// The last example, by number, that has set the default dtype: then each has its own, and the next
    /// one to begin has `dtype`. 0: none, so that nobody touches what the process has.
    uint64_t dtype_setter = 0;
    DType dtype = DType::Float32;

    /// One example is left, or on probation: calls run at once, for none would merge with them.
    bool at_once = false;
    /// Several calls have run as one, so that nodes may belong to several examples (of the outermost
    /// batch, as flushes are; use `outermost().merged`).
    bool merged = false;
    /// What examples did for which their order matters.
    int64_t changes = 0;     ///< of what they share, and backward passes
    int64_t late_draws = 0;  ///< of random numbers, by an example that has waited for a value
    std::string stale;       ///< the first line that changed what a later example had read
    uint64_t last_begun = 0;
    /// An example before which, on every level, nobody is left: that stays so.
    uint64_t first = 0;
    /// The last reader, by address of memory older than the batch, in calls that were flushed.
    std::unordered_map<const void*, uint64_t> read_before;

    ExampleBatch& outermost() {
        ExampleBatch* b = this;
        while (b->outer) b = b->outer.get();
        return *b;
    }
    bool is_older(uint64_t maker) const { return maker < number; }
    /// The example in which `maker` made memory: itself, or one in which a batch of its own ran. Other
    /// numbers as they are.
    uint64_t example_of(uint64_t maker) const {
        auto after =
            std::upper_bound(inner_.begin(), inner_.end(), maker,
                             [](uint64_t m, const Inner& range) { return m < range.begin; });
        if (after == inner_.begin() || maker >= (--after)->end) return maker;
        return after->example;
    }
    /// Whether memory of `maker` is `example`'s own, or of no example in particular.
    bool is_own(uint64_t maker, uint64_t example) const {
        return maker == example || maker == number || example_of(maker) == example;
    }
    /// That users count by.
    int64_t index_of(uint64_t example) const {
        return first_index + static_cast<int64_t>(example - number - 1);
    }
    /// Whether examples may wait for one another. In a child of a fork amid the batch none does: what the
    /// others would do meanwhile, the parent's do.
    bool may_wait() const { return process == forks; }
    static void note_fork() { ++forks; }
    bool has(uint64_t example) const { return example > number && example <= number + count; }

    /// A number of its own for something else that makes memory.
    static uint64_t take_number() { return next_++; }
    /// Test hook: the next batch has this number, or a later one.
    static void skip_to(uint64_t next) { next_ = std::max(next_, next); }

private:
    struct Inner {
        uint64_t begin, end, example;
    };
    void note_inner(const ExampleBatch& b, uint64_t example) {
        uint64_t end = b.number + b.count + 1;
        if (!inner_.empty() && inner_.back().end == b.number && inner_.back().example == example)
            inner_.back().end = end;
        else inner_.push_back({b.number, end, example});
    }
    std::vector<Inner> inner_;         ///< numbers of batches that examples ran, in order
    static inline uint64_t next_ = 1;  ///< guarded by the core lock
    static inline int forks = 0;
};
inline void release(ExampleBatch* b) { delete b; }

}  // namespace weft::deferred
