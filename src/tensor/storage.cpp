/// A size-classed caching allocator.
///
/// Classes: multiples of 64 bytes up to 1 KiB, then eight steps per power of two, so at most an
/// eighth is lost. A freed block goes to its class; reuse saves the page faults that dominate large
/// eager pointwise work. Where a class is empty, a block of the next ones serves, of up to twice the
/// size: batches whose sizes change from step to step would else fill all classes. What is kept is
/// bounded by kCacheLimit or, where that is more, by what the process had in use at once before: a
/// step gets the memory of the step before it, and never is more held than the largest one needed. Beyond
/// kCacheLimit the system may take the pages when it is short of them; before an allocation fails all
/// go back. All under the core lock (Note [One lock]), or of one thread (Note [Heaps] in heap.h).
#include "tensor/storage.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "tensor/heap.h"

namespace weft {
namespace {

constexpr int64_t kCacheLimit = int64_t{256} << 20;
constexpr int64_t kSmall = 1024;
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int kClasses = 16 + 8 * 54;
constexpr int kLargerClasses = 8;  ///< that may serve for an empty one

bool caching_wanted() {
#if defined(__SANITIZE_ADDRESS__)
    return false;
#else
    const char* wish = std::getenv("WEFT_CACHE");
    return !(wish && wish[0] == '0');
#endif
}

}  // namespace

struct detail::LargeBlocks {
    std::vector<void*> free_blocks[kClasses];
    int64_t touched[kClasses] = {};  ///< how many had been taken or put back then
    int64_t touches = 0;
    int64_t kept = 0;  ///< bytes of them
    int64_t used = 0;  ///< bytes of the blocks in live storages
    int64_t most = 0;  ///< the maximum of that
    int64_t fail_in = 0;
    const bool caching = caching_wanted();

    /// Gives blocks back to the system until at most `bytes` are kept: of the class that was longest
    /// without use, so that sizes of the past make room for those of now.
    void keep_at_most(int64_t bytes);
};

namespace {

/// The process's are never destroyed: tensors may outlive static destruction.
detail::LargeBlocks& large() {
    if (!detail::blocks->large) detail::blocks->large = new detail::LargeBlocks;
    return *detail::blocks->large;
}

struct Class {
    int index;
    int64_t size;
};

Class class_of(int64_t size) {
    if (size <= kSmall) {
        int64_t step = (size + 63) / 64;
        return {static_cast<int>(step - 1), step * 64};
    }
    int log =
        63 - std::countl_zero(static_cast<uint64_t>(size - 1));  // 2^log <= size-1 < 2^(log+1)
    int64_t step = int64_t{1} << (log - 3);
    int64_t rounded = (size + step - 1) / step * step;
    int eighth = static_cast<int>((rounded - 1) >> (log - 3)) & 7;
    return {16 + (log - 10) * 8 + eighth, rounded};
}

/// Of a class beyond the small ones.
int64_t size_of(int index) {
    int log = (index - 16) / 8 + 10, eighth = (index - 16) % 8;
    return (int64_t{1} << log) + (int64_t{eighth + 1} << (log - 3));
}

/// Large blocks are mapped by us: `aligned_alloc` would reserve an alignment more of address space
/// for each, and keep it. ASAN watches only what malloc gives.
bool is_mapped([[maybe_unused]] int64_t size) {
#if defined(__SANITIZE_ADDRESS__)
    return false;
#else
    return size >= kHugePage;
#endif
}

/// `size` bytes (a multiple of the page) that begin with a huge page; null if there are none.
void* map(int64_t size) {
    constexpr int access = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
    void* room = mmap(nullptr, size + kHugePage, access, kind, -1, 0);
    if (room == MAP_FAILED) return nullptr;
    char* begin = static_cast<char*>(room);
    const int64_t before = -reinterpret_cast<intptr_t>(begin) & (kHugePage - 1);
    if (before) munmap(begin, before);
    munmap(begin + before + size, kHugePage - before);
    // fewer page faults on first touch; only a hint, so its result does not matter
    madvise(begin + before, size, MADV_HUGEPAGE);
    return begin + before;
}

void* system_allocate(int64_t size) {
    return is_mapped(size) ? map(size) : std::aligned_alloc(64, size);
}

void system_free(void* block, int64_t size) {
    if (is_mapped(size)) munmap(block, size);
    else std::free(block);
}

}  // namespace

void detail::LargeBlocks::keep_at_most(int64_t bytes) {
    while (kept > bytes) {
        int oldest = -1;
        for (int i = 16; i < kClasses; ++i) {
            if (!free_blocks[i].empty() && (oldest < 0 || touched[i] < touched[oldest])) oldest = i;
        }
        system_free(free_blocks[oldest].back(), size_of(oldest));
        free_blocks[oldest].pop_back();
        kept -= size_of(oldest);
        blocks->stats.cached -= size_of(oldest);
    }
}

namespace {

/// A block of class `c` or a larger one, which `c` then is.
void* take_block(Class& c) {
    detail::LargeBlocks& s = large();
    int last = c.index < 16 ? c.index : std::min(c.index + kLargerClasses, kClasses - 1);
    for (int i = c.index; i <= last; ++i) {
        auto& list = s.free_blocks[i];
        if (list.empty()) continue;
        void* block = list.back();
        list.pop_back();
        if (i != c.index) c = {i, size_of(i)};
        s.touched[i] = ++s.touches;
        s.kept -= c.size;
        detail::blocks->stats.cached -= c.size;
        return block;
    }
    s.keep_at_most(std::max(kCacheLimit, s.most - s.used - c.size));
    void* block = system_allocate(c.size);
    if (!block) {
        empty_memory_cache();
        block = system_allocate(c.size);
    }
    return block;
}

}  // namespace

detail::SmallBlocks::SmallBlocks() : limit(caching_wanted() ? kMaxBytes : 0) {}

detail::SmallBlocks detail::process_blocks;

Storage* detail::allocate_slow(int64_t bytes) {
    LargeBlocks& s = weft::large();
    constexpr int64_t header = sizeof(Storage);
    void* block = nullptr;
    Class c{};
    if (bytes < (int64_t{1} << 60) && !(s.fail_in && --s.fail_in == 0)) {
        c = class_of(bytes + header);
        block = take_block(c);
    }
    MemoryStats& stats = blocks->stats;
    if (!block) [[unlikely]]
        fail(ErrorKind::Runtime, "alloc", text("room for ", bytes, " bytes"),
             text("no memory (", stats.current, " bytes in use)"));
    auto* storage = static_cast<Storage*>(block);
    *storage = Storage{};
    storage->data = static_cast<char*>(block) + header;
    storage->bytes = bytes;
    storage->block = c.size;
    if (c.size > SmallBlocks::kMaxBlock) s.most = std::max(s.most, s.used += c.size);
    stats.current += bytes;
    stats.allocations++;
    storage->set_maker();
    if (stats.current > stats.peak) stats.peak = stats.current;
    return storage;
}

namespace {

/// A Storage alone, which is the smallest of blocks.
void* take_header() {
    detail::SmallBlocks& small = *detail::blocks;
    if (auto* link = small.head[0]) {
        small.head[0] = link->next;
        small.kept[0] -= sizeof(Storage);
        small.stats.cached -= sizeof(Storage);
        return link;
    }
    void* header = std::aligned_alloc(64, sizeof(Storage));
    if (!header) throw Error(ErrorKind::Memory, "[alloc] out of memory");
    return header;
}

void drop_header(Storage* storage) {
    storage->block = sizeof(Storage);
    storage->bytes = 0;
    if (!detail::keep_small(storage)) std::free(storage);
}

}  // namespace

Ref<Storage> borrow_storage(void* data, int64_t bytes, void (*give_back)(void*), void* owner) {
    auto* storage = static_cast<Storage*>(take_header());
    *storage = Storage{};
    storage->data = static_cast<char*>(data);
    storage->bytes = bytes;
    storage->set_maker();
    storage->give_back = give_back;
    storage->owner = owner;
    return Ref<Storage>(storage);
}

namespace {

/// As many bytes as the allocator has ready; beyond them a block would be mapped and given back each time.
constexpr int64_t kSmallMeta = 64 << 10;

/// The address; the size follows from the storage, which is gone by then.
struct Addresses {
    void* begin;
    size_t bytes;
};

void unmap(void* owner) {
    auto* addresses = static_cast<Addresses*>(owner);
    munmap(addresses->begin, addresses->bytes);
    delete addresses;
}

}  // namespace

Ref<Storage> meta_storage(int64_t bytes) {
    Ref<Storage> storage;
    if (bytes <= kSmallMeta) {
        storage = allocate_storage(bytes);
    } else {
        constexpr int access = PROT_READ | PROT_WRITE;
        constexpr int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void* begin = mmap(nullptr, static_cast<size_t>(bytes), access, kind, -1, 0);
        if (begin == MAP_FAILED)
            fail(ErrorKind::Runtime, "meta", text("addresses for ", bytes, " bytes"),
                 "no address space");
        storage =
            borrow_storage(begin, bytes, unmap, new Addresses{begin, static_cast<size_t>(bytes)});
    }
    storage->meta = 1;
    return storage;
}

namespace {

/// The bytes that a storage may have where it lies; -1 of memory that somebody lent.
int64_t room_of(const Storage& storage) {
    if (storage.block) return storage.block - static_cast<int64_t>(sizeof(Storage));
    if (!storage.meta) return -1;
    return static_cast<int64_t>(static_cast<const Addresses*>(storage.owner)->bytes);
}

/// Gives whole pages from `begin` to `end` back to the system; they read as zeros then.
void drop_pages(const char* begin, const char* end) {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + page - 1) & -page;
    const uintptr_t last = reinterpret_cast<uintptr_t>(end) & -page;
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace

bool is_resizable(const Storage& storage) { return room_of(storage) >= 0; }

bool resize(Storage& storage, int64_t bytes) {
    if (bytes > room_of(storage)) return false;
    if (bytes < storage.bytes) drop_pages(storage.data + bytes, storage.data + storage.bytes);
    if (storage.block) {
        MemoryStats& stats = detail::blocks->stats;
        stats.current += bytes - storage.bytes;
        stats.peak = std::max(stats.peak, stats.current);
    }
    storage.bytes = bytes;
    return true;
}

void detail::release_slow(Storage* storage) {
    if (storage->seen) release_seen(storage);
    if (storage->last_write) release_write_note(storage->last_write);
    if ((storage->seen || storage->last_write) && keep_small(storage)) return;
    if (storage->block == 0) {
        if (storage->give_back) storage->give_back(storage->owner);
        drop_header(storage);
        return;
    }
    LargeBlocks& s = weft::large();
    MemoryStats& stats = blocks->stats;
    stats.current -= storage->bytes;
    const Class c = class_of(storage->block);
    if (c.size <= SmallBlocks::kMaxBlock) return std::free(storage);
    s.used -= c.size;
    if (!s.caching) return system_free(storage, c.size);
    s.free_blocks[c.index].push_back(storage);
    s.touched[c.index] = ++s.touches;
    s.kept += c.size;
    stats.cached += c.size;
    if (s.kept <= kCacheLimit) return;
    if (is_mapped(c.size)) madvise(storage, c.size, MADV_FREE);
    s.keep_at_most(std::max(kCacheLimit, s.most - s.used));
}

MemoryStats memory_stats() { return detail::blocks->stats; }

void reset_peak_memory() {
    MemoryStats& stats = detail::blocks->stats;
    stats.peak = stats.current;
}

void empty_memory_cache() {
    detail::LargeBlocks& s = large();
    s.keep_at_most(0);
    s.most = s.used;
    auto& small = *detail::blocks;
    for (size_t i = 0; i < std::size(small.head); ++i) {
        while (auto* link = small.head[i]) {
            small.head[i] = link->next;
            std::free(link);
        }
        small.kept[i] = 0;
    }
    small.stats.cached = 0;
}

void fail_allocation(int64_t n) {
    empty_memory_cache();
    large().fail_in = n;
    detail::blocks->limit = n || !large().caching ? 0 : detail::SmallBlocks::kMaxBytes;
}

Heap::~Heap() {
    Use now(*this);
    empty_memory_cache();
    delete blocks_.large;
    objects_.empty();
}

}  // namespace weft
