/// Storage: bytes shared by a tensor and its views, with the version that counts in-place writes.
#pragma once
#include <bit>
#include <cstdint>

#include "base/ref.h"

namespace weft {

namespace ops {
class Write;
}

/// Who makes memory now: a number of the layer that runs examples beside each other, of 48 bits and
/// never given out again, which is more than a program can use up; else 0.
inline thread_local uint64_t memory_maker [[gnu::tls_model("initial-exec")]] = 0;

/// One word, written whole when memory is made.
struct StorageMarks {
    uint64_t maker : 48;     ///< who allocated it (`memory_maker`)
    uint64_t watched : 1;    ///< some node saved it: an in-place write leaves a note
    uint64_t read_only : 1;  ///< borrowed from a read-only exporter (never written by us)
    uint64_t seen : 1;       ///< a watcher wants to hear of its end (ops/watch.h)
    uint64_t meta : 1;       ///< addresses without values (Note [Meta])
    uint64_t : 12;
};
static_assert(sizeof(StorageMarks) == 8);

/// 64 bytes, so that the bytes of an own allocation follow it in the same block, aligned to 64.
struct alignas(64) Storage : StorageMarks {
    uint32_t refs;

private:
    friend class ops::Write;  // Note [Writing] in ops/write.h
    uint32_t version_;

public:
    /// In-place writes so far; views share it.
    uint32_t version() const { return version_; }

    char* data;
    int64_t bytes;
    int64_t block;  ///< size of the allocation including this header; 0 for borrowed memory
    void (*give_back)(void*);  ///< for borrowed memory: called with `owner` at the end
    void* owner;
    void* last_write;  ///< opaque note of the last in-place write, set if `watched`

    /// Of new memory: it bears no other mark.
    void set_maker() {
        static_cast<StorageMarks&>(*this) = std::bit_cast<StorageMarks>(memory_maker);
    }
};
static_assert(sizeof(Storage) == 64);

/// Frees a Storage's write note; installed by the layer that makes notes.
inline void (*release_write_note)(void*) = nullptr;

/// Tells the watcher of this thread, if there is one, that a storage it has seen ends.
inline void (*release_seen)(const Storage*) = nullptr;

struct MemoryStats {
    int64_t current;      ///< bytes in live storages
    int64_t peak;         ///< its maximum since start or reset
    int64_t cached;       ///< bytes kept for reuse
    int64_t allocations;  ///< storages ever allocated
};

namespace detail {

struct LargeBlocks;

/// Free blocks of up to 1 KiB, a list per multiple of 64 bytes: the part of the allocator that
/// small ops feel, hence inline. The others hang on it.
struct SmallBlocks {
    struct Link {
        Link* next;
    };
    static constexpr int64_t kMaxBlock = 1024;
    static constexpr int64_t kMaxBytes = int64_t{8} << 20;
    Link* head[kMaxBlock / 64] = {};
    int64_t kept[kMaxBlock / 64] = {};  ///< bytes
    int64_t
        limit;  ///< of them; 0: no reuse (WEFT_CACHE=0, ASAN, a test that makes allocations fail)
    MemoryStats stats = {};
    LargeBlocks* large = nullptr;  ///< made with the first

    SmallBlocks();
};
extern SmallBlocks process_blocks;
/// Where this thread takes memory from and puts it (Note [Heaps] in heap.h).
inline constinit thread_local SmallBlocks* blocks [[gnu::tls_model("initial-exec")]] =
    &process_blocks;

Storage* allocate_slow(int64_t bytes);
void release_slow(Storage* storage);

/// Puts the block of `storage` on its list; false if it is none of the small ones, or there are enough.
inline bool keep_small(Storage* storage) {
    int64_t block = storage->block;
    if (block == 0 || block > SmallBlocks::kMaxBlock) return false;
    SmallBlocks& small = *blocks;
    int64_t i = block / 64 - 1;
    if (small.kept[i] >= small.limit) return false;
    small.stats.current -= storage->bytes;
    small.stats.cached += block;
    auto* link = reinterpret_cast<SmallBlocks::Link*>(storage);
    link->next = small.head[i];
    small.head[i] = link;
    small.kept[i] += block;
    return true;
}

}  // namespace detail

inline void release(Storage* storage) {
    if (storage->last_write || storage->seen || !detail::keep_small(storage)) [[unlikely]]
        detail::release_slow(storage);
}

/// Uninitialised bytes. Throws weft::Error (Runtime, as PyTorch's allocator) when there are none.
inline Ref<Storage> allocate_storage(int64_t bytes) {
    auto& small = *detail::blocks;
    constexpr int64_t header = sizeof(Storage);
    if (bytes <= detail::SmallBlocks::kMaxBlock - header) [[likely]] {  // their sum may not count
        int64_t i = (bytes + header - 1) / 64;
        if (auto* link = small.head[i]) [[likely]] {
            small.head[i] = link->next;
            small.kept[i] -= (i + 1) * 64;
            auto* storage = reinterpret_cast<Storage*>(link);
            *storage = Storage{};
            storage->data = reinterpret_cast<char*>(storage) + sizeof(Storage);
            storage->bytes = bytes;
            storage->block = (i + 1) * 64;
            auto& stats = small.stats;
            stats.cached -= storage->block;
            stats.allocations++;
            storage->set_maker();
            stats.current += bytes;
            if (stats.current > stats.peak) stats.peak = stats.current;
            return Ref<Storage>(storage);
        }
    }
    return Ref<Storage>(detail::allocate_slow(bytes));
}

/// Note [Meta]
/// A tensor of the meta device has a storage like any other, of addresses that nobody reads or writes: views,
/// offsets, overlaps, versions and sizes need no rule of their own, and where the door is passed by, what is
/// read are zeros. Large ones are address space of the system's, which takes no memory until it is touched;
/// small ones come from the allocator. The mark lies here, and in a flag of every tensor over the storage
/// (kMeta), where the door sees it among its operands without a load more.
/// Throws weft::Error (Runtime) when there is no address space.
Ref<Storage> meta_storage(int64_t bytes);

/// Memory of somebody else; `give_back(owner)` runs when the last reference goes.
Ref<Storage> borrow_storage(void* data, int64_t bytes, void (*give_back)(void*), void* owner);

/// Whether its size may change: that of lent memory may not.
bool is_resizable(const Storage& storage);
/// Sets the number of bytes where the storage lies, which tensors over it may go on to use: what is cut
/// off goes back to the system and reads as anything. False if there is no room for more.
bool resize(Storage& storage, int64_t bytes);

MemoryStats memory_stats();
void reset_peak_memory();
/// Returns the kept bytes to the system.
void empty_memory_cache();
/// Test hook: the n-th allocation from now fails (0: none does).
void fail_allocation(int64_t n);

}  // namespace weft
