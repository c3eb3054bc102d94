/// What one user of the core, of several at once, takes memory from.
///
/// Note [Heaps]
/// Lists of free objects (base/pool.h) and of free blocks (storage.h) are touched without a lock. In
/// Python all threads share the process's, under the core lock (Note [One lock] in base/ref.h). Where
/// there is no such lock, whoever runs beside others (a context of src/c) has a heap of its own and uses
/// it while it runs: what it makes, counts included, belongs to it alone, and only the bytes of tensors
/// may be shared, if nobody writes them. What one heap gave another may take back: every object and
/// every block is an allocation of its own. Only the statistics then count it in both.
#pragma once
#include <utility>

#include "base/pool.h"
#include "tensor/storage.h"

namespace weft {

class Heap {
public:
    Heap() = default;
    Heap(const Heap&) = delete;
    ~Heap();

    /// While it lives, its thread makes and drops objects in `heap`.
    class Use {
    public:
        explicit Use(Heap& heap)
            : objects_(std::exchange(Pool::lists, &heap.objects_)),
              blocks_(std::exchange(detail::blocks, &heap.blocks_)) {}
        ~Use() {
            Pool::lists = objects_;
            detail::blocks = blocks_;
        }
        Use(const Use&) = delete;

    private:
        Pool::Lists* objects_;
        detail::SmallBlocks* blocks_;
    };

private:
    Pool::Lists objects_;
    detail::SmallBlocks blocks_;
};

}  // namespace weft
