/// A count that many objects take their numbers from.
#pragma once
#include <atomic>
#include <cstdint>

namespace weft {

/// Exact under the core lock (Note [One lock] in ref.h), and one instruction as dear as a plain integer.
/// Threads beside each other (Note [Heaps] in tensor/heap.h) may get a number twice: what is numbered
/// must then be compared with its own thread's only.
class Counter {
public:
    /// The number before this one is counted.
    uint64_t next() {
        const uint64_t now = count();
        count_.store(now + 1, std::memory_order_relaxed);
        return now;
    }
    uint64_t count() const { return count_.load(std::memory_order_relaxed); }

private:
    std::atomic<uint64_t> count_{0};
};

}  // namespace weft
