/// Elementwise math for float and double that the compiler turns into vector code.
///
/// math_exp.h    exp half_exp exp2 expm1 sigmoid tanh sinh cosh log log2 log10 log1p softplus
/// math_trig.h   sin cos tan asin acos atan atan2
/// math_erf.h    erf erfc erfinv gelu gelu_derivative gelu_tanh gelu_tanh_derivative
/// math_power.h  floor ceil trunc round rsqrt pow (and sqrt, abs, copysign in math_base.h)
/// here          Sin Cos Tan Fmod Remainder FloorDivide, functors for the whole range
///
/// Call them in a plain loop inside a `per_isa` body. Infinities, nan, signed zeros and denormals
/// come out as C's. Errors, in units in the last place, are asserted by tests/kernels/math_ulp.cpp.
/// sin, cos, tan, fmod and their kin hold in vector code in a part of the range only, see
/// `map_guarded`. pow and fmod of doubles are the C library's.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/math_base.h"
#include "kernels/math_erf.h"
#include "kernels/math_exp.h"
#include "kernels/math_power.h"
#include "kernels/math_trig.h"

namespace weft::kernels::math {

/// A function that only the C library completes: `fast` holds where `inside` says so. Called, it is
/// right everywhere, but not vectorised; `map_guarded` is both.
template <class Op>
struct Guarded {
    template <class... T>
    WEFT_INLINE auto operator()(T... x) const {
        return Op::inside(x...) ? Op::fast(x...) : Op::slow(x...);
    }
};

struct TrigDomain {
    template <class T>
    WEFT_INLINE static bool inside(T x) {
        return abs(x) <= trig_limit<T>;
    }
};
struct Sin : TrigDomain, Guarded<Sin> {
    template <class T>
    WEFT_INLINE static T fast(T x) {
        return math::sin(x);
    }
    template <class T>
    static T slow(T x) {
        return std::sin(x);
    }
};
struct Cos : TrigDomain, Guarded<Cos> {
    template <class T>
    WEFT_INLINE static T fast(T x) {
        return math::cos(x);
    }
    template <class T>
    static T slow(T x) {
        return std::cos(x);
    }
};
struct Tan : TrigDomain, Guarded<Tan> {
    template <class T>
    WEFT_INLINE static T fast(T x) {
        return math::tan(x);
    }
    template <class T>
    static T slow(T x) {
        return std::tan(x);
    }
};

struct FmodDomain {
    WEFT_INLINE static bool inside(float x, float y) { return fmod_inside(x, y); }
    WEFT_INLINE static bool inside(double, double) { return false; }

protected:
    WEFT_INLINE static float rest(float x, float y) { return fmod_within(x, y); }
    WEFT_INLINE static double rest(double x, double y) { return std::fmod(x, y); }
};
struct Fmod : FmodDomain, Guarded<Fmod> {
    template <class T>
    WEFT_INLINE static T fast(T x, T y) {
        return rest(x, y);
    }
    template <class T>
    static T slow(T x, T y) {
        return std::fmod(x, y);
    }
};
struct Remainder : FmodDomain, Guarded<Remainder> {
    template <class T>
    WEFT_INLINE static T fast(T x, T y) {
        return remainder_of(rest(x, y), y);
    }
    template <class T>
    static T slow(T x, T y) {
        return remainder_of(std::fmod(x, y), y);
    }
};
struct FloorDivide : FmodDomain, Guarded<FloorDivide> {
    template <class T>
    WEFT_INLINE static T fast(T x, T y) {
        return floor_divide_of(x, y, rest(x, y));
    }
    template <class T>
    static T slow(T x, T y) {
        return floor_divide_of(x, y, std::fmod(x, y));
    }
};

/// out[i] = Op(in[i]...): blocks that are inside go through `fast`, blocks that are not are sorted
/// out element by element. `in` are pointers or anything else with an index; `out` may be one.
template <class Op, class T, class... In>
WEFT_INLINE void map_guarded(T* out, int64_t n, In... in) {
    constexpr int64_t block = 512;
    for (int64_t start = 0; start < n; start += block) {
        const int64_t end = std::min(n, start + block);
        unsigned outside = 0;
        for (int64_t i = start; i < end; ++i) outside |= !Op::inside(in[i]...);
        if (!outside) [[likely]] {
            for (int64_t i = start; i < end; ++i) out[i] = Op::fast(in[i]...);
        } else {
            for (int64_t i = start; i < end; ++i) out[i] = Op{}(in[i]...);
        }
    }
}

}  // namespace weft::kernels::math
