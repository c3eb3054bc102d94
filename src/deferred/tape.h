/// The calls that wait, and what runs them.
///
/// Reading guide: Tape::keep notes a call under its class (classes.cpp), flush plans (plan.h) and runs
/// (run.cpp) all that wait. The door's hook (defer.h) decides what is kept. One tape per thread (batcher.h).
#pragma once
#include <memory>
#include <unordered_map>

#include "deferred/kinds.h"
#include "deferred/pending.h"
#include "deferred/plan.h"
#include "deferred/report.h"
#include "deferred/worth.h"

namespace weft::deferred {

/// The start of a piece of a value: an output of a waiting call (value >= 0) or an external (~value).
struct Operand {
    static constexpr int64_t kNone = INT64_MIN;
    int64_t value;
    int64_t offset;
    bool none() const { return value == kNone; }
};

/// Note [Large]
/// Elements of one call from which on its own kernel is as fast as a batch: gathering costs more than
/// merging saves, and results of all examples at once leave the cache. Such a call runs at once where
/// its operands have values.
constexpr int64_t kLarge = 1 << 14;
constexpr size_t kBudget = 200'000;

struct Kept {
    uint32_t of_class;
    uint32_t operands;  ///< its first one; they end where the next call's begin
    uint32_t outputs;   ///< likewise
    uint64_t owner;     ///< the example that made it; 0: none
    Site site;
};

struct Output {
    Pending* pending;  ///< null: nobody holds it any more (Pending::destroy)
    int64_t numel;
    uint32_t call;
    DType dtype;
};

/// Note [Overwritten]
/// A write to a value that waits never reaches its memory: `h += x` makes h stand for a new value,
/// other writes go to a copy of it. If a call made before saves the old value, backward of the loop
/// fails, so it has to here. So a write is noted; a batch that may save what is overwritten later
/// gets an operand of its own, and when it is recorded that part of it, or of its result, is
/// overwritten (Note [Copies] in ops/write.h). The same for a tensor with memory of which a batch
/// saves a gathered copy.
struct Overwrite {
    int64_t value;       ///< an output of a waiting call; kNone: memory
    uint32_t by;         ///< calls of a smaller number were made before
    const void* data;    ///< of memory: its storage's
    int64_t begin, end;  ///< the part of a block that it is, in elements; of a tensor, all
    Site site;
    bool is_tensor() const { return data && end == INT64_MAX; }
};

/// Calls that wait: what a flush takes away from the tape.
struct Waiting {
    std::vector<Kept> calls;
    std::vector<Operand> operands;
    std::vector<Output> outputs;
    std::vector<Tensor> externals;  ///< tensors with memory, by number
    bool recorded = false;          ///< some call is part of a graph, and so may save values
    std::vector<Overwrite> overwrites;
    std::vector<uint32_t> overwritten;        ///< by output: an entry of `overwrites`, or kNever
    std::vector<uint32_t> memory_overwrites;  ///< those of tensors with memory
    static constexpr uint32_t kNever = UINT32_MAX;
    ~Waiting() { clear(); }
    void clear() {
        for (const Output& o : outputs)
            if (o.pending) o.pending->among = nullptr;
        calls.clear();
        operands.clear();
        outputs.clear();
        externals.clear();
        recorded = false;
        overwrites.clear();
        overwritten.clear();
        memory_overwrites.clear();
    }
    /// The write that made operand `o` of call `c` another value later, or null.
    const Overwrite* overwrite_of(uint32_t c, const Operand& o) const;
    /// Finds the values that are overwritten, copies that stand for them included.
    void find_overwritten(const Kinds& kinds);
    uint32_t operand_end(size_t c) const {
        return c + 1 < calls.size() ? calls[c + 1].operands
                                    : static_cast<uint32_t>(operands.size());
    }
    uint32_t output_end(size_t c) const {
        return c + 1 < calls.size() ? calls[c + 1].outputs : static_cast<uint32_t>(outputs.size());
    }
};

class Tape {
public:
    /// Keeps `c`, whose shape rule has run; its outputs become pending.
    void keep(Call& c);
    /// Notes that `root`, which waits or has memory, is about to be written (Note [Overwritten]).
    void overwrite(const Tensor& root);
    /// The same where `root`, which is pending, is about to stand for another value: what saved the
    /// old one before is told at once.
    void make_another(const Tensor& root);
    /// Computes everything that waits.
    void flush(const char* reason);
    bool empty() const { return load_->calls.empty(); }
    /// Who reads this memory in calls that wait: a fiber that made all such calls, kSeveral, kNobody.
    uint64_t reader(const Storage& storage);
    /// The last fiber of the batch that has read it, in those or before; 0: none.
    uint64_t last_reader(const Storage& storage);
    static constexpr uint64_t kNobody = UINT64_MAX, kSeveral = UINT64_MAX - 1;
    Kinds& kinds() { return kinds_; }
    /// Calls that failed in flushes since the last time, and whose values nobody has read.
    std::vector<Ref<Failure>> take_failures();
    /// Raises the first of those made outside of fibers.
    void raise_own_failure();

private:
    Operand operand(const Tensor& t);
    int64_t external(const Tensor& t);
    uint32_t fixed_name(const Tensor& t, bool weight);
    /// Note [Views of weights]
    /// Examples that take the same view of one weight (`w.t()`, `w[k]`) get tensors of their own; by
    /// the name of the first of them calls merge as they do by the weight itself.
    const Tensor& first_view(const Tensor& t, const Tensor& base);
    /// What is known of the operands of one call; bits by input.
    struct Noted {
        uint64_t fixed = 0;      ///< one tensor, or one number, in every call of the kind
        uint64_t unlike = 0;     ///< of these: maybe another one (Note [Unlike])
        bool maybe_own = false;  ///< some is fixed, but may be the example's own (Note [Own])
        bool grad = false;
    };
    uint32_t class_of(const Call& c, size_t words, const Noted& noted);
    static bool is_own(const Call& c, const Noted& noted, const BatchForm* form, int i);
    uint32_t each_of(const Call& c, const Noted& noted, const BatchForm* form,
                     std::vector<int64_t>& words);
    uint64_t* note_operand(const Call& c, int i, uint64_t* key, Noted& noted, bool own);
    uint32_t note_call(const Call& c, Noted& noted, bool own);
    uint32_t class_over_own(const Call& c, uint32_t first);
    void choose_own(Waiting& load);
    const Plan& plan(const Waiting& load, FlushReport* report, Plan& fresh);

    std::unique_ptr<Waiting> load_ = std::make_unique<Waiting>();
    std::vector<Ref<Failure>> failures_;
    std::unordered_map<const TensorImpl*, int64_t> numbers_;  ///< of externals
    /// Fixed tensors in order of appearance, by external, 0 for others: what keys name them by, so
    /// that the same program has the same keys whatever else it reads.
    std::vector<uint32_t> fixed_names_;
    uint32_t fixed_count_[2] = {};  ///< of weights, of others: each has names of its own
    static constexpr size_t kRecent = 64;
    int64_t recent_[kRecent] = {};  ///< the same for some, + 1, by address
    Interned view_keys_;
    std::vector<Tensor> first_views_;  ///< by number of the key
    struct Readers {
        uint64_t by, last;
    };
    void list_readers();
    void remember_readers(const Waiting& load);
    std::unordered_map<const void*, Readers>
        readers_;  ///< by address, in the first `listed_` calls
    size_t listed_ = 0;
    bool maybe_own_ = false;          ///< some call that waits has a class over operands of its own
    std::unique_ptr<Waiting> spare_;  ///< memory of the last flush
    Kinds kinds_;
    Key key_, attrs_;  ///< memory for the key of one call

    struct Remembered {
        std::vector<uint32_t> kinds, begins;
        std::vector<int32_t> producers;
        Plan plan;
    };
    std::vector<std::unique_ptr<Remembered>> plans_;  ///< latest first
};

/// What tests and users of few megabytes change.
struct Settings {
    int64_t large_call = kLarge;
    int64_t ahead =
        1 << 20;  ///< elements that a batch makes for batches long after it (Note [Spread])
    /// Calls that may wait before they are computed in any case: bounds the memory of one flush.
    size_t budget = kBudget;
};

/// Whether less memory is held in another order, which is `out` then.
bool spread(const Waiting& load, const Plan& plan, const Kinds& kinds, int64_t ahead, Plan& out);

/// Runs the batches of `plan` (run.cpp) and gives the outputs that are still wanted their places.
/// Returns the failures of calls, but not of those that only needed the value of a failed one.
std::vector<Ref<Failure>> run(Waiting& load, const Plan& plan, const Kinds& kinds,
                              FlushReport* report);

}  // namespace weft::deferred
