/// How much of the thread's C stack is left. A call of a compiled function from Python takes some of it, where
/// CPython's own call of a Python function takes none, so with a raised `sys.setrecursionlimit` it may end first.
#pragma once
#include <pthread.h>

#include <cstddef>
#include <cstdint>

namespace weft::python {

/// Enough for whatever a call does that does not recur.
inline constexpr size_t kStackToSpare = 256 << 10;

/// The address that the stack of this thread should not grow below.
inline uintptr_t lowest_of_stack() {
    pthread_attr_t attr;
    if (pthread_getattr_np(pthread_self(), &attr)) return 1;
    void* lowest = nullptr;
    size_t size = 0;
    pthread_attr_getstack(&attr, &lowest, &size);
    pthread_attr_destroy(&attr);
    return reinterpret_cast<uintptr_t>(lowest) +
           (size < 2 * kStackToSpare ? size / 2 : kStackToSpare);
}

inline bool has_stack_left() {
    // A fact of the thread, the same as long as it lives: fibers take turns on its one stack.
    static thread_local uintptr_t lowest = 0;
    if (!lowest) [[unlikely]]
        lowest = lowest_of_stack();
    return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) > lowest;
}

}  // namespace weft::python
