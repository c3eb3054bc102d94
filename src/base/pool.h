/// Free lists for the small objects of the graph (tensors, nodes): a pop instead of a malloc.
///
/// Under the core lock (Note [One lock]), hence without atomics. Each list holds at most kMaxBytes,
/// so a graph of 10^6 nodes gives its memory back, and one of some 10^4, as a step of a model over
/// trees draws, never asks malloc. `WEFT_CACHE=0` turns the lists off, and so does ASAN.
#pragma once
#include <cstddef>
#include <cstdint>

namespace weft {

class Pool {
public:
    static constexpr size_t kStep = 32;
    static constexpr size_t kMaxSize = 512;
    static constexpr size_t kMaxBytes = size_t{8} << 20;

    /// Throws weft::Error (Memory) when the system has none left.
    static void* allocate(size_t size) {
        if (size <= kMaxSize) {
            size_t i = index(size);
            List& list = lists_[i];
            if (list.head) {
                Link* link = list.head;
                list.head = link->next;
                list.bytes -= i * kStep;
                return link;
            }
        }
        return allocate_slow(size);
    }
    static void free(void* pointer, size_t size) {
        if (size <= kMaxSize) {
            size_t i = index(size);
            List& list = lists_[i];
            if (list.bytes < limit_) {
                auto* link = static_cast<Link*>(pointer);
                link->next = list.head;
                list.head = link;
                list.bytes += i * kStep;
                return;
            }
        }
        free_slow(pointer);
    }

private:
    struct Link {
        Link* next;
    };
    struct List {
        Link* head;
        size_t bytes;
    };
    static size_t index(size_t size) { return (size + kStep - 1) / kStep; }
    static void* allocate_slow(size_t size);
    static void free_slow(void* pointer);

    static List lists_[kMaxSize / kStep + 1];
    static size_t limit_;
};

}  // namespace weft
