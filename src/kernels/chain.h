/// Sums, differences and products of which each is an operand of the next.
///
/// Note [Chains]
/// A loop over a tile (Note [Tiles] in program/group.h) reads its operands from the first-level cache and writes its
/// result there, which costs a few times what one addition does. Where a result is the next operation's operand and
/// nothing else's, it stays in registers: blocks of four vectors go through all operations. Each is rounded by itself,
/// nothing is contracted, so the bits are those of the loops one after the other.
#pragma once
#include <cstdint>

#include "kernels/complex.h"
#include "kernels/map.h"

namespace weft::kernels {

struct Add {
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        return static_cast<T>(a + b);
    }
};
struct Sub {
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        return a - b;
    }
};
struct Mul {
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        if constexpr (std::is_same_v<T, bool>) return a && b;
        else return times(a, b);
    }
};

enum class Arithmetic : uint8_t { None, Add, Sub, Mul };
/// Which of these a loop over floats, or over doubles, is.
Arithmetic arithmetic_of(MapLoop loop);

struct Link {
    Arithmetic op;
    bool is_second;  ///< the chain is its second operand, x the first
    bool repeats;    ///< x is one element
    const char* x;
};

/// out[i] is what the links make of first[i]. Operands may be `out`, or lie apart from it; those that repeat lie apart.
template <class T>
void run_chain(T* out, const T* first, bool repeats, const Link* links, int count, int64_t n);

}  // namespace weft::kernels
