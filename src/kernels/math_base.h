/// What the math functions share: the bits of a float, polynomials, powers of two.
///
/// Everything here and in math*.h is written for the auto-vectoriser: no branch (a ternary is a
/// select), no table, no call, and no conversion that one of the levels lacks. Where an exact
/// product is needed its factors have few bits: the baseline level has no FMA.
#pragma once
#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/simd.h"

namespace weft::kernels::math {

template <class T>
struct Ieee;
template <>
struct Ieee<float> {
    using Bits = uint32_t;
    static constexpr int mantissa = 23, bias = 127;
    static constexpr Bits one = 0x3f800000u;
    static constexpr Bits sqrt_half = 0x3f3504f3u;
    static constexpr float shifter = 0x1.8p23f;  // adding it rounds to an integer
};
template <>
struct Ieee<double> {
    using Bits = uint64_t;
    static constexpr int mantissa = 52, bias = 1023;
    static constexpr Bits one = 0x3ff0000000000000u;
    static constexpr Bits sqrt_half = 0x3fe6a09e667f3bcdu;
    static constexpr double shifter = 0x1.8p52;
};
template <class T>
using Bits = typename Ieee<T>::Bits;

template <class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();
template <class T>
inline constexpr T nan = std::numeric_limits<T>::quiet_NaN();

template <class T>
WEFT_INLINE Bits<T> to_bits(T x) {
    return std::bit_cast<Bits<T>>(x);
}
template <class T>
WEFT_INLINE T from_bits(Bits<T> bits) {
    return std::bit_cast<T>(bits);
}

/// c0 + c1 x + c2 x^2 + ... by Horner's rule; the coefficients are rounded to T.
template <class T>
WEFT_INLINE T polynomial(T, double c0) {
    return static_cast<T>(c0);
}
template <class T, class... Rest>
WEFT_INLINE T polynomial(T x, double c0, Rest... rest) {
    return static_cast<T>(c0) + x * polynomial(x, rest...);
}

WEFT_INLINE float abs(float x) { return __builtin_fabsf(x); }
WEFT_INLINE double abs(double x) { return __builtin_fabs(x); }
WEFT_INLINE float copysign(float x, float s) { return __builtin_copysignf(x, s); }
WEFT_INLINE double copysign(double x, double s) { return __builtin_copysign(x, s); }
/// Correctly rounded; nan below 0.
WEFT_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
WEFT_INLINE double sqrt(double x) { return __builtin_sqrt(x); }

/// `yes ? a : b` in bits, for where the compiler would make a branch: round a square root, or when
/// the same condition comes twice.
template <class T>
WEFT_INLINE T select(bool yes, T a, T b) {
    const Bits<T> mask = -static_cast<Bits<T>>(yes);
    return from_bits<T>((to_bits(a) & mask) | (to_bits(b) & ~mask));
}

/// x without the lower half of its mantissa: products of two such numbers are exact.
WEFT_INLINE float upper_half(float x) { return from_bits<float>(to_bits(x) & 0xfffff000u); }
WEFT_INLINE double upper_half(double x) {
    return from_bits<double>(to_bits(x) & 0xfffffffff8000000u);
}

/// x limited to [low, high]; nan stays nan. Both tests are of x itself: of a test whose result
/// follows from the other's, the compiler would make a branch of its own.
template <class T>
WEFT_INLINE T clamp(T x, T low, T high) {
    const T below = x > high ? high : x;
    return x < low ? low : below;
}

/// 2^n for an n that the exponent field holds; only the low bits of n count.
template <class T>
WEFT_INLINE T power_of_two(Bits<T> n) {
    return from_bits<T>((n << Ieee<T>::mantissa) + Ieee<T>::one);
}

/// y * 2^n for a y near 1 and an n up to twice as far out as an exponent can be: two factors, so
/// that overflow and the one rounding of a denormal come out right.
template <class T>
WEFT_INLINE T scale(T y, Bits<T> n) {
    const Bits<T> half = n >> 1;
    return y * power_of_two<T>(half) * power_of_two<T>(n - half);
}

/// The exponent field as a number.
WEFT_INLINE float field_value(uint32_t field) {
    return static_cast<float>(static_cast<int32_t>(field));
}
WEFT_INLINE double field_value(uint64_t field) {
    return from_bits<double>(field | 0x4330000000000000u) - 0x1p52;
}

}  // namespace weft::kernels::math
