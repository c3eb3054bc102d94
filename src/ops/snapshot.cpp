#include "ops/snapshot.h"

#include <cstring>

#include "base/pool.h"
#include "ops/write.h"
#include "tensor/apart.h"

namespace weft::ops {

Snapshot::Snapshot(const Tensor& t) : begin_(t.bytes() - t.storage()->data) {
    Storage& memory = memory_of(*t.storage());
    memory.watched = true;
    WriteNote& note = WriteNote::of(memory);
    if (!note.bytes) {
        note.bytes = new (Pool::allocate(sizeof(Bytes))) Bytes;
        note.bytes->memory = Ref<Storage>(&memory);
    }
    bytes_ = Ref<Bytes>(note.bytes);
}

void release(Snapshot::Bytes* bytes) {
    auto* note = static_cast<WriteNote*>(bytes->memory->last_write);
    if (note && note->bytes == bytes) note->bytes = nullptr;
    bytes->~Bytes();
    Pool::free(bytes, sizeof(Snapshot::Bytes));
}

void Snapshot::Bytes::part() {
    Ref<Storage> copy = allocate_storage(memory->bytes);
    if (memory->bytes) std::memcpy(copy->data, memory->data, static_cast<size_t>(memory->bytes));
    static_cast<WriteNote*>(memory->last_write)->bytes = nullptr;
    memory = std::move(copy);
    written = true;
}

Tensor Snapshot::show(int64_t offset, const Tensor& like) const {
    if (bytes_->lost) return {};
    return Tensor::from_storage(bytes_->memory, bytes_->memory->data + begin_ + offset,
                                like.dtype(), like.shape(), like.strides());
}

}  // namespace weft::ops
