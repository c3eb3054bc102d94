/// Free lists for the small objects of the graph (tensors, nodes): a pop instead of a malloc.
///
/// Under the core lock (Note [One lock]), or of one thread (Note [Heaps] in tensor/heap.h), hence
/// without atomics. Each list holds at most kMaxBytes, so a graph of 10^6 nodes gives its memory back,
/// and one of some 10^4, as a step of a model over trees draws, never asks malloc. `WEFT_CACHE=0` turns
/// the lists off, and so does ASAN.
#pragma once
#include <cstddef>
#include <cstdint>

namespace weft {

class Pool {
public:
    static constexpr size_t kStep = 32;
    static constexpr size_t kMaxSize = 512;
    static constexpr size_t kMaxBytes = size_t{8} << 20;

    struct Link {
        Link* next;
    };
    struct List {
        Link* head;
        size_t bytes;
    };
    struct Lists {
        List of[kMaxSize / kStep + 1] = {};
        size_t limit = 0;  ///< bytes on each; 0: nothing is kept

        Lists();
        /// Gives back what is on them.
        void empty();
    };
    /// Where this thread takes objects from and puts them; the process's, unless a heap of its own is in
    /// use.
    static Lists process;
    static inline constinit thread_local Lists* lists [[gnu::tls_model("initial-exec")]] = &process;

    /// Throws weft::Error (Memory) when the system has none left.
    static void* allocate(size_t size) {
        if (size <= kMaxSize) {
            size_t i = index(size);
            List& list = lists->of[i];
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
            Lists& all = *lists;
            List& list = all.of[i];
            if (list.bytes < all.limit) {
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
    static size_t index(size_t size) { return (size + kStep - 1) / kStep; }
    static void* allocate_slow(size_t size);
    static void free_slow(void* pointer);
};

}  // namespace weft
