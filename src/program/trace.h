/// From calls to a segment: tensors without memory go through the door, which writes the calls down.
///
/// Note [Traced]
/// A traced tensor has the layout that a value will have, no memory, and the number of the value in its
/// tracer's segment. In trace mode the door hands a call with a traced operand to the tracer: it runs the
/// record's shape rule and adds a step; a composite runs its body, so that only primitive calls are steps.
/// A call whose operands all have memory runs as always, and what it gives is a constant of the segment,
/// as is every tensor with memory that a step reads. What would make the segment say something else than
/// the calls do is refused with NotTraceable: a value that is read, a write, a generator of one's own, a
/// layout that depends on values. A refused call leaves no step behind. Random numbers are drawn by steps,
/// none of which is dropped or changes its turn among the others.
///
/// Note [Writes]
/// A write over what a step has made is the step that makes another value, and the tensor that is written stands for
/// that from there on. So it is where nobody can tell: there is no view of what is written, the result is laid out as
/// it is, no gradient rule reads what was there before (the calls themselves raise in backward), and it is not a
/// value with a gradient that is written where nothing is recorded. Of a result the version counts its writes. Who
/// traces says whether writes are to be taken; what was noted before one must not be used after it.
#pragma once
#include <unordered_map>

#include "ops/call.h"
#include "program/segment.h"

namespace weft::program {

constexpr uint8_t kTracedSlot = 5;

/// Why a segment cannot stand for the calls; the calls themselves are right.
struct NotTraceable : Error {
    NotTraceable(std::string_view what, std::string_view reason)
        : Error(ErrorKind::Runtime,
                text("[trace] expected calls that depend on layouts alone, got ", what, ": ",
                     reason)) {}
};

/// The door's hook.
bool trace(Call& c);

/// Who runs the calls of trace mode instead of a Tracer (Note [Recorded] in python/recorder.cpp).
class CallRecorder {
public:
    virtual void run(Call& c) = 0;
    /// Who hears of this thread's calls; null: nobody.
    static CallRecorder* current() { return current_; }

    /// While it lives, calls are told to `recorder`; null: to nobody. The one around it hears nothing.
    class Scope {
    public:
        explicit Scope(CallRecorder* recorder)
            : mode_(recorder ? kTraceMode : 0u, recorder ? 0u : kTraceMode),
              outer_(std::exchange(current_, recorder)) {}
        ~Scope() { current_ = outer_; }
        Scope(const Scope&) = delete;

    private:
        ModeGuard mode_;
        CallRecorder* const outer_;
    };

protected:
    ~CallRecorder() = default;

private:
    static inline thread_local CallRecorder* current_ = nullptr;
};

class Tracer {
public:
    uint32_t refs = 0;

    /// A traced tensor laid out as `like`, which may be a number (kWrapped).
    Tensor input(const Tensor& like, bool wants_grad = false);
    /// What lies in the memory of the traced `whole`, so many bytes after its first element, laid out as
    /// `like`.
    Tensor part_of(const Tensor& whole, int64_t offset, const Tensor& like);
    /// The value that `t` stands for; a tensor with memory becomes a constant.
    int32_t number_of(const Tensor& t);
    size_t steps() const { return segment_->steps.size(); }
    /// From now on; and how many there were.
    void take_writes(bool on) { takes_writes_ = on; }
    size_t writes() const { return writes_; }
    /// Forgets all steps but the first `count`: nothing that stays may need the others.
    void shrink(size_t count) { segment_->steps.resize(count); }
    /// Why a call was refused last, in a few words; null if none was.
    const char* refused() const { return refused_; }
    /// What has been written down. The tracer must not be used any more.
    Ref<Segment> finish(const std::vector<Tensor>& outputs);

    /// Whether calls of this thread are traced now, so that only layouts are known.
    static bool is_tracing() { return current_ && (mode & kTraceMode); }

    /// What runs is traced by it.
    class Scope {
    public:
        explicit Scope(Tracer& tracer)
            : mode_(kTraceMode, 0), outer_(std::exchange(current_, &tracer)) {}
        ~Scope() { current_ = outer_; }
        Scope(const Scope&) = delete;

    private:
        ModeGuard mode_;
        Tracer* outer_;
    };

private:
    friend bool trace(Call& c);
    friend struct Traced;
    Tensor stand_for(int32_t value, Tensor laid_out);
    int32_t add_value(SegmentValue::Kind kind, Tensor layout);
    int32_t add_view(int32_t of, const Tensor& like);
    void add(Call& c);
    void write(Call& c);
    bool can_write(const Call& c) const;
    bool is_read_in_backward(int32_t value) const;
    /// Whether it is a view made under no_grad of what wants a gradient: by itself it is a leaf that does.
    bool is_loose_view(int32_t value) const;
    void check_traceable(const Call& c);
    [[noreturn]] void refuse(const char* why, std::string_view what, std::string_view reason);

    Ref<Segment> segment_{new Segment};
    const char* refused_ = nullptr;
    bool takes_writes_ = false;
    size_t writes_ = 0;
    std::unordered_map<const TensorImpl*, int32_t> constants_;
    static inline thread_local Tracer* current_ = nullptr;
};
inline void release(Tracer* tracer) { delete tracer; }

struct Traced final : Promise {
    Traced(Tracer& tracer, int32_t value, bool wants_grad)
        : tracer(&tracer), value(value), grad(wants_grad) {
        kind = kTracedSlot;
    }
    void destroy() override;
    /// Throws NotTraceable.
    void settle(const Tensor& t) override;
    Tensor peek(const Tensor& t) override;
    /// Itself outside of the graph is a step like any other.
    Tensor detached(const Tensor& t) override;
    bool wants_grad(const Tensor&) const override;
    uint32_t taken_in() const override { return kTraceMode; }

    Ref<Tracer> tracer;
    int32_t value;
    bool grad;
};

inline bool is_traced(const Tensor& t) {
    return t.has(kPending) && t.impl()->slot->kind == kTracedSlot;
}
inline Traced& traced(const Tensor& t) { return *static_cast<Traced*>(t.impl()->slot.get()); }

/// Puts the hook on the door.
void install();

}  // namespace weft::program
