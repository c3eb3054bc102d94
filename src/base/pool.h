/// Free lists for the small objects of the graph (tensors, nodes): a pop instead of a malloc.
///
/// Under the core lock (Note [One lock]), hence without atomics. Each list is bounded, so a graph
/// of 10^6 nodes gives its memory back. `WEFT_CACHE=0` turns the lists off, and so does ASAN.
#pragma once
#include <cstddef>
#include <cstdint>

namespace weft {

class Pool {
public:
    static constexpr size_t kStep = 32;
    static constexpr size_t kMaxSize = 512;
    static constexpr uint32_t kMaxLength = 8192;

    /// Throws weft::Error (Memory) when the system has none left.
    static void* allocate(size_t size) {
        if (size <= kMaxSize) {
            List& list = lists_[index(size)];
            if (list.head) {
                Link* link = list.head;
                list.head = link->next;
                --list.length;
                return link;
            }
        }
        return allocate_slow(size);
    }
    static void free(void* pointer, size_t size) {
        if (size <= kMaxSize) {
            List& list = lists_[index(size)];
            if (list.length < limit_) {
                auto* link = static_cast<Link*>(pointer);
                link->next = list.head;
                list.head = link;
                ++list.length;
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
        uint32_t length;
    };
    static size_t index(size_t size) { return (size + kStep - 1) / kStep; }
    static void* allocate_slow(size_t size);
    static void free_slow(void* pointer);

    static List lists_[kMaxSize / kStep + 1];
    static uint32_t limit_;
};

}  // namespace weft
