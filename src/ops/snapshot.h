/// Bytes of memory as they were at a time.
///
/// Note [Snapshots]
/// Who may need the bytes of memory as they are now, when they may have been written, takes a Snapshot.
/// It costs no copy: the gate (Note [Writing] in ops/write.h) makes one before the next write to that
/// memory, whichever storage shows it (Tensor::apart), for all snapshots since the write before, and it
/// goes with the last of them. What counts as a write but changes no bytes there (Note [Copies]) makes
/// none. Memory that shows elsewhere, as a
/// NumPy array does, is written around the gate: nothing hears of it, or hears of it late, and then the
/// bytes are lost.
#pragma once
#include "tensor/tensor.h"

namespace weft::ops {

class Snapshot {
public:
    Snapshot() = default;
    /// Of a tensor that has memory.
    explicit Snapshot(const Tensor& t);

    /// What lies `offset` bytes behind the tensor's first element, laid out as `like`; undefined if the
    /// bytes are lost. Not to be written.
    Tensor show(int64_t offset, const Tensor& like) const;

    /// Whether the memory was written since.
    bool is_written() const { return bytes_->written; }

    /// What all snapshots of one memory between two writes have in common.
    struct Bytes {
        uint32_t refs = 0;
        Ref<Storage> memory;  ///< what has them: the memory itself until it is written, then a copy
        bool written = false, lost = false;
        /// Before the memory is written.
        void part();
    };

private:
    Ref<Bytes> bytes_;
    int64_t begin_ = 0;
};
void release(Snapshot::Bytes* bytes);

}  // namespace weft::ops
