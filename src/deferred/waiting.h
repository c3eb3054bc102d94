/// The calls that wait, and what they read and make: what a flush takes away from the tape.
#pragma once
#include <climits>
#include <vector>

#include "deferred/externals.h"
#include "deferred/pending.h"
#include "ops/write.h"

namespace weft::deferred {

/// The start of a piece of a value: an output of a waiting call (value >= 0) or an external (~value).
struct Operand {
    static constexpr int64_t kNone = INT64_MIN;
    int64_t value;
    int64_t offset;
    bool none() const { return value == kNone; }
    bool is_external() const { return value < 0 && !none(); }
};

struct Kept {
    uint32_t of_class;
    uint32_t operands;  ///< its first one; they end where the next call's begin
    uint32_t outputs;   ///< likewise
    uint64_t owner;     ///< the example that made it; 0: none
    int64_t inside;     ///< what a watcher had open there
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
/// saves a gathered copy. The write may be refused yet, and the batch may run before it is made: then
/// what it saved counts as overwritten from the write on.
struct Overwriting {
    uint32_t refs = 0;
    /// Elements of `t`, which a batch has saved, are of the old value.
    void add(const Tensor& t, ops::Span elements);
    /// The write is made.
    void make();

private:
    void overwrite(const Tensor& t, ops::Span elements) const;
    struct Part {
        Tensor of;
        ops::Span elements;
    };
    const Site site_ = Site::here();
    bool made_ = false;
    std::vector<Part> parts_;  ///< until then
};
inline void release(Overwriting* write) { delete write; }

struct Overwrite {
    int64_t value;       ///< an output of a waiting call; kNone: memory
    uint32_t by;         ///< calls of a smaller number were made before
    const void* data;    ///< of memory: its storage's
    int64_t begin, end;  ///< the part of a block that it is, in elements; of a tensor, all
    Ref<Overwriting> write;
    bool is_tensor() const { return data && end == INT64_MAX; }
};

struct Waiting {
    std::vector<Kept> calls;
    std::vector<Operand> operands;
    std::vector<Output> outputs;
    Externals externals;
    bool recorded = false;   ///< some call is part of a graph, and so may save values
    int64_t unrecorded = 0;  ///< elements of the results of the others
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
        unrecorded = 0;
        overwrites.clear();
        overwritten.clear();
        memory_overwrites.clear();
    }
    const Tensor& external(const Operand& o) const {
        return externals[static_cast<size_t>(~o.value)];
    }
    /// `visit(number)` for each external that call `c` reads.
    template <class Visit>
    void each_external(size_t c, const Visit& visit) const {
        for (uint32_t k = calls[c].operands; k < operand_end(c); ++k)
            if (operands[k].is_external()) visit(static_cast<size_t>(~operands[k].value));
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

}  // namespace weft::deferred
