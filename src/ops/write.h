/// The gate through which a tensor that exists changes: its values, its layout, its memory.
///
/// Note [Writing]
/// Whoever changes a tensor holds a Write while it does. It begins with what has to be so before:
/// it is the writer's turn, the tensor has its value, calls that are kept and read it have run, and
/// it is a tensor that may change, its bytes are kept if a snapshot needs them (Note [Snapshots]); up to here, and until the writer's own checks are done, an error
/// leaves everything as it was. `commit` ends it: the version goes up, and where a node saved the
/// old values the line is noted. Versions, and the members of Tensor that give it another layout
/// or other memory, are private to this class. What layers above add hangs on the door's hooks:
/// turns and kept calls (`before_change`), nodes (`before_write`).
///
/// Note [Copies]
/// A node may have saved a copy of what the user's tensor holds: batches gather their operands, and
/// what they make is copied out for whoever reads it. Such a tensor knows where the copies lie, and a
/// write to it overwrites those parts: their versions go up too. Of the memory of many values only
/// parts are overwritten so; who saved others finds that all went up for parts elsewhere.
#pragma once
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/site.h"
#include "ops/call.h"
#include "ops/snapshot.h"
#include "ops/way.h"

namespace weft::ops {

/// What is known of the writes to memory that a node saved; hangs in Storage::last_write.
struct WriteNote {
    struct Part {
        int64_t begin, end;  ///< bytes from the storage's start
        uint32_t version;    ///< that the write made
        Site site;
    };
    struct Copy {
        int64_t begin, end;
        Ref<WriteNote> copy;
        int64_t to_begin, to_end;  ///< bytes from that storage's start
    };
    uint32_t refs = 0;
    Storage* storage = nullptr;  ///< null: released
    Site site;                   ///< of the last write
    std::vector<Part> parts;
    std::vector<Copy> copies;
    Snapshot::Bytes* bytes = nullptr;  ///< of the snapshots since the last write

    /// The one of `storage`, made if need be.
    static WriteNote& of(Storage& storage);
    /// Of memory that is released.
    static void drop(void* note);
    /// Neither the memory is there any more nor a copy of it.
    bool gone() const;
};
inline void release(WriteNote* note) { delete note; }

/// Bytes that a tensor spans, from its storage's start.
Span span_of(const Tensor& t);
/// Those of elements of a dense tensor.
inline Span span_of(const Tensor& t, Span elements) {
    const int64_t size = item_size(t.dtype()), start = t.bytes() - t.storage()->data;
    return {start + elements.begin * size, start + elements.end * size};
}

/// These bytes of `original` were copied to those of `copy`, or copied from there: a write to the first
/// counts as one to the second.
void note_copy(Storage& original, Span from, Storage& copy, Span to);
/// Whether a part of it counts as a copy of other memory that is there.
bool is_copy(const Storage& memory);
/// `visit(copy, part)` for the copies that a write to `part` of `original` overwrites, copies of copies
/// included.
void each_copy(const Storage& original, Span part, FunctionRef<void(const Storage&, Span)> visit);
/// What wrote `t`, whose version was `version` when it was saved. Null: nothing, or only parts that
/// lie elsewhere or do not matter; those are numbers of elements in their logical order.
const Site* overwritten_by(const Tensor& t, uint32_t version, FunctionRef<bool(Span)> matters);

/// Before something of `t` changes that kept calls see: its flags, or all that a Write changes.
class Change {
public:
    explicit Change(const Tensor& t) : tensor_(t) {
        if (hooks.before_change) stays_ = hooks.before_change(t);
    }
    ~Change() {
        if (stays_) [[unlikely]]
            hooks.after_change();
    }
    Change(const Change&) = delete;

protected:
    const Tensor& tensor_;

private:
    bool stays_ = false;
};

class Write : public Change {
public:
    enum class Inference : uint8_t { Refused, Any };
    /// Throws Runtime for an inference tensor outside of inference mode, unless detach() made it.
    explicit Write(const Tensor& t, Inference allowed = Inference::Refused) : Change(t) {
        if (t.has(kInference) && !(mode & kInferenceMode) && allowed == Inference::Refused)
            [[unlikely]]
            check_inference();
        if (Storage* s = t.storage().get(); s && (s->watched || s->give_back)) [[unlikely]]
            keep_bytes(*s);
    }
    /// For memory that has been written around the gate.
    static void was_written(const Tensor& t);

    /// Values or layout have changed.
    void commit() {
        Storage& storage = *tensor_.storage();
        ++storage.version_;
        if (storage.watched) [[unlikely]]
            note(storage);
    }
    /// While it lasts, `storage` has the version of new memory: for a view that is taken late, of what
    /// has been written since it was due.
    class Unwritten {
    public:
        explicit Unwritten(const Tensor& t)
            : storage_(*t.storage()), version_(std::exchange(storage_.version_, 0)) {}
        ~Unwritten() { storage_.version_ = version_; }
        Unwritten(const Unwritten&) = delete;

    private:
        Storage& storage_;
        const uint32_t version_;
    };
    /// A value that lies in this part of `storage`, and was saved there, has been written elsewhere.
    static void overwrite(Storage& storage, Span part);
    /// The layout of `view`, which shows its memory.
    void become(const Tensor& view);
    /// The memory, layout and dtype of `other`. The version stays its own, apart from `other`'s.
    void show(const Tensor& other);
    /// No memory from now on: `slot` knows the values (Note [Pending] in ops/call.h).
    void hand_over(Ref<Slot> slot);
    /// Another shape, row-major, of the same first elements: others over the old memory keep that.
    /// The same shape changes nothing.
    void resize(DimSpan shape);

private:
    void check_inference() const;
    static void keep_bytes(Storage& storage);
    static void note(Storage& storage);
    static void overwrite(WriteNote& note, Span part);
    void exchange(const Tensor& from);
};

}  // namespace weft::ops
