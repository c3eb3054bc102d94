/// The calls that wait, and what runs them.
///
/// Reading guide: `keep` notes a call (waiting.h) under its class (classes.h), `flush` plans (plan.h) and
/// runs (run.cpp) all that wait. The door's hook (defer.h) decides what is kept. One tape per thread
/// (batcher.h).
#pragma once
#include <memory>

#include "deferred/classes.h"
#include "deferred/plan.h"
#include "deferred/readers.h"
#include "deferred/report.h"
#include "deferred/worth.h"

namespace weft::deferred {

/// Note [Large]
/// Elements of one call from which on its own kernel is as fast as a batch: gathering costs more than
/// merging saves, and results of all examples at once leave the cache. Such a call runs at once where
/// its operands have values.
constexpr int64_t kLarge = 1 << 14;
constexpr size_t kBudget = 200'000;

class Tape {
public:
    /// Keeps `c`, whose shape rule has run; its outputs become pending.
    void keep(Call& c);
    /// Notes that `root`, which waits or has memory, is about to be written (Note [Overwritten]); null
    /// where no call that waits can have saved it.
    Ref<Overwriting> overwrite(const Tensor& root);
    /// The same where `root`, which is pending, is about to stand for another value: what saved the
    /// old one before is told at once.
    void make_another(const Tensor& root);
    /// Computes everything that waits.
    void flush(const char* reason);
    bool empty() const { return load_->calls.empty(); }
    bool flushing() const { return flushes_ > 0; }
    /// Who reads this memory in calls that wait (Readers::of), and who last, in those or before.
    uint64_t reader(const Storage& storage) { return readers_.of(*load_, storage); }
    uint64_t last_reader(const Storage& storage) { return readers_.last(*load_, storage); }
    const Kinds& kinds() const { return classes_.kinds(); }
    /// Calls that failed in flushes since the last time, and whose values nobody has read.
    std::vector<Ref<Failure>> take_failures();
    /// Raises the first of those of the example that runs now (or made outside of examples), before it goes
    /// on to what the loop does not come to.
    void raise_own_failure();

private:
    FlushReport* begin_report(const Waiting& load, const char* reason);
    Structure structure_of(const Waiting& load) const;
    /// Keeps the memory of a load that has run for the calls to come.
    void recycle(std::unique_ptr<Waiting> load);

    std::unique_ptr<Waiting> load_ = std::make_unique<Waiting>();
    std::unique_ptr<Waiting> spare_;  ///< memory of the last flush
    Classes classes_;
    Readers readers_;
    Plans plans_;
    int flushes_ = 0;         ///< that run, one within the other: a user's hook may flush
    bool maybe_own_ = false;  ///< some call that waits has a class over operands of its own
    std::vector<Ref<Failure>> failures_;
};

/// What tests and users of few megabytes change.
struct Settings {
    int64_t large_call = kLarge;
    int64_t ahead =
        1 << 20;  ///< elements that a batch makes for batches long after it (Note [Spread])
    /// Calls that may wait before they are computed in any case: bounds the memory of one flush.
    size_t budget = kBudget;
};

/// Takes calls over operands that no other example uses to their classes over own ones (Note [Own]).
void choose_own(Waiting& load, const Kinds& kinds);

/// Whether less memory is held in another order, which is `out` then.
bool spread(const Waiting& load, const Plan& plan, const Kinds& kinds, int64_t ahead, Plan& out);

/// Runs the batches of `plan` (run.cpp) and gives the outputs that are still wanted their places.
/// Returns the failures of calls, but not of those that only needed the value of a failed one.
std::vector<Ref<Failure>> run(Waiting& load, const Plan& plan, const Kinds& kinds,
                              FlushReport* report);

}  // namespace weft::deferred
