/// Values of the C interface to Things and back.
#pragma once
#include <atomic>

#include "base/pool.h"
#include "c/weft.h"
#include "native/value.h"

namespace weft::c {

struct Core;

/// Values in each other, of arguments and of results.
inline constexpr int kMaxDepth = 1000;

/// Tensors lie over the caller's memory, or, with `copies`, do not.
native::Thing to_thing(const weft_value& value, bool copies);

/// A tensor that the caller has. Its memory is the context's, which takes it back when no other thread can be using
/// its counts: Note [Returned].
struct Lent {
    static void* operator new(size_t size) { return Pool::allocate(size); }
    static void operator delete(void* p, size_t size) { Pool::free(p, size); }
    DLManagedTensorVersioned managed{};
    Ref<Storage> storage;
    Dims dims;
    Core* core = nullptr;
    Lent* next = nullptr;
};

/// What a program returned, for the caller; uses `result` up. Throws if it has no form as a value.
weft_value to_value(native::Thing result, Core& core);

/// Frees what to_value made. Any thread.
void clear(weft_value& value);

}  // namespace weft::c
