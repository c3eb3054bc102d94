/// What programs return, as values of the C interface.
#pragma once
#include "base/pool.h"
#include "c/weft.h"
#include "native/value.h"

namespace weft::c {

class Core;

/// A tensor that the caller has. What it is made of is the context's, which takes it back when no other thread can be
/// using its counts: Note [Returned].
struct Lent {
    /// Nothing else has `t`.
    Lent(Tensor t, Core& core);
    Lent(const Lent&) = delete;
    static void* operator new(size_t size) { return Pool::allocate(size); }
    static void operator delete(void* p, size_t size) { Pool::free(p, size); }
    DLManagedTensorVersioned managed;
    const Tensor tensor;
    Core* const core;
    Lent* next;  ///< of those that came back
};

/// What a program returned, for the caller; uses `result` up. Throws if it has no form as a value; then `out` is None.
void to_value(native::Thing result, Core& core, weft_value& out);

/// Frees what to_value made. Any thread.
void clear(weft_value& value);

}  // namespace weft::c
