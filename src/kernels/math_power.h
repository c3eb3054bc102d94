/// pow, roundings, remainders.
#pragma once
#include <cmath>

#include "kernels/math_base.h"

namespace weft::kernels::math {

// ---- rounding ----------------------------------------------------------------------------------
// Built-ins, because AVX has an instruction for each; the compiler has short sequences for SSE2.

WEFT_INLINE float floor(float x) { return __builtin_floorf(x); }
WEFT_INLINE double floor(double x) { return __builtin_floor(x); }
WEFT_INLINE float ceil(float x) { return __builtin_ceilf(x); }
WEFT_INLINE double ceil(double x) { return __builtin_ceil(x); }
WEFT_INLINE float trunc(float x) { return __builtin_truncf(x); }
WEFT_INLINE double trunc(double x) { return __builtin_trunc(x); }
/// To the nearest integer, halves to the even one.
WEFT_INLINE float round(float x) { return __builtin_rintf(x); }
WEFT_INLINE double round(double x) { return __builtin_rint(x); }

template <class T>
WEFT_INLINE T rsqrt(T x) {
    return T(1) / sqrt(x);
}

// ---- power -------------------------------------------------------------------------------------

/// log2(x) for x >= 0, good to 33 bits.
WEFT_INLINE double rough_log2(float x) {
    const bool denormal = x < std::numeric_limits<float>::min();
    const uint32_t bits = to_bits(select(denormal, x * 0x1p24f, x));
    const uint32_t field = (bits + (Ieee<float>::one - Ieee<float>::sqrt_half)) >> 23;
    const float mantissa = from_bits<float>(bits - (field << 23) + Ieee<float>::one);
    const float n = field_value(field) - 127.0f - select(denormal, 24.0f, 0.0f);
    const float edge = x == 0 ? -infinity<float> : n;
    const double f = static_cast<double>(mantissa - 1.0f);
    const double p = polynomial(
        f, 0x1.71547652efd07p+0, -0x1.7154767bb64d5p-1, 0x1.ec709bfef7394p-2, -0x1.715435e1e5e47p-2,
        0x1.27773374ca496p-2, -0x1.ec8d77bb79ba7p-3, 0x1.a615a5935b813p-3, -0x1.6eafd03148042p-3,
        0x1.45a44fc1d52d9p-3, -0x1.4183cb9faec48p-3, 0x1.3d1ecaab8ca98p-3, -0x1.618c729a721d5p-4);
    return static_cast<double>(x == infinity<float> ? x : edge) + f * p;
}

/// 2^x, good to 34 bits, within the exponents of a float and a little beyond; no nan comes out.
WEFT_INLINE double rough_exp2(double x) {
    const double below = x > 200.0 ? 200.0 : x;
    x = x > -200.0 ? below : -200.0;
    const double shifted = x + Ieee<double>::shifter;
    const double r = x - (shifted - Ieee<double>::shifter);
    const double y = polynomial(r, 0x1p0, 0x1.62e42ff0e1925p-1, 0x1.ebfbe077871d0p-3,
                                0x1.c6b08ac06aae3p-5, 0x1.3b29f39d55bb6p-7, 0x1.5d8a86003ad25p-10,
                                0x1.445c83fdf658cp-13, 0x1.fde5fc123dce8p-17);
    return y * power_of_two<double>(to_bits(shifted));
}

/// C's pow, special cases included (C99 F.9.4.4): 2^(y log2|x|) in double, where infinite factors
/// give the limits, except that of 0 times infinity.
WEFT_INLINE float pow(float x, float y) {
    const double product = static_cast<double>(y) * rough_log2(abs(x));
    const float power = static_cast<float>(rough_exp2(product));
    // Beyond 2^24 every float is even; what the conversion gives beyond 2^31 is the processor's own.
    const bool large = abs(y) >= 0x1p24f;
    const int32_t integer = static_cast<int32_t>(y);
    const bool small_integer = static_cast<float>(integer) == y;
    const bool whole = small_integer | large;
    const uint32_t odd = (small_integer & !large) ? static_cast<uint32_t>(integer) << 31 : 0;
    const float with_sign = from_bits<float>(to_bits(power) | (odd & to_bits(x)));
    const bool undefined = (x < 0) & (x > -infinity<float>)&!whole;
    const float value = select(undefined | (x != x) | (y != y), nan<float>, with_sign);
    const bool one = (y == 0) | (x == 1) | ((x == -1) & (abs(y) == infinity<float>));
    return select(one, 1.0f, value);
}
WEFT_INLINE double pow(double x, double y) { return std::pow(x, y); }

// ---- remainders --------------------------------------------------------------------------------

/// Where `fmod_within` holds: the quotient fits 28 bits, so that every step below is exact.
WEFT_INLINE bool fmod_inside(float x, float y) { return !(abs(x) > 0x1p28f * abs(y)); }

/// C's fmod: x - n y with the sign of x, exact.
WEFT_INLINE float fmod_within(float x, float y) {
    const double a = x, b = y;
    const double quotient = static_cast<double>(static_cast<int32_t>(a / b));
    float rest = copysign(static_cast<float>(a - quotient * b), x);
    rest = select(abs(y) == infinity<float>, x, rest);
    return select((y == 0) | !(abs(x) < infinity<float>), nan<float>, rest);
}

/// Python's % from C's: the sign of y.
template <class T>
WEFT_INLINE T remainder_of(T rest, T y) {
    return select((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest);
}

/// Python's //, from C's fmod of the same arguments, corrected as CPython does.
template <class T>
WEFT_INLINE T floor_divide_of(T x, T y, T rest) {
    T quotient = (x - rest) / y;
    quotient -= select((rest != 0) & ((rest < 0) != (y < 0)), T(1), T(0));
    const T below = floor(quotient), exact = x / y;
    const T whole = below + select(quotient - below > T(0.5), T(1), T(0));
    return select(y == 0, exact, select(quotient == 0, copysign(T(0), exact), whole));
}

}  // namespace weft::kernels::math
