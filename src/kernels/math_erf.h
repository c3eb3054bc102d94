/// erf, erfc, erfinv, and GELU in both forms.
#pragma once
#include "kernels/math_exp.h"

namespace weft::kernels::math {

/// e^(a^2) erfc(a) for a >= 0 up to where erfc ends, as 1 / (sqrt(pi) a + h(a)) with a rational
/// minimax fit of h = N / D. h is 1 at 0 and vanishes at infinity, so that the errors of D and N,
/// largest at the far end, do not count there.
template <class T>
WEFT_INLINE T scaled_erfc(T a) {
    T n, d;
    if constexpr (sizeof(T) == 4) {
        n = polynomial(a, 0x1p0, 0x1.c90842p-1, 0x1.ab625cp-2, 0x1.b2c402p-4, 0x1.9beb98p-7);
        d = polynomial(a, 0x1p0, 0x1.896636p+0, 0x1.22465cp+0, 0x1.f000eap-2, 0x1.eac772p-4,
                       0x1.d0c202p-7);
    } else {
        n = polynomial(a, 0x1p0, 0x1.c09751c136007p+0, 0x1.91eebd4f1b7d9p+0, 0x1.d390238f5a7b2p-1,
                       0x1.7f7befe5286d5p-2, 0x1.c888de0ca817ap-4, 0x1.89640c74e75b7p-6,
                       0x1.d9c54d2e6708dp-9, 0x1.6bcd09de623adp-12, 0x1.12abece4c1200p-16);
        d = polynomial(a, 0x1p0, 0x1.32bcb2ec2da00p+1, 0x1.6b8da080face8p+1, 0x1.13e9b94cb54afp+1,
                       0x1.2673365c9fab0p+0, 0x1.cbdb7b3e0b124p-2, 0x1.09de4dcbdb2c7p-3,
                       0x1.c24ee24245038p-6, 0x1.0c81d66ebfe11p-8, 0x1.9a816162ef7a9p-12,
                       0x1.35ef067a4c368p-16);
    }
    constexpr T root_pi = T(0x1.c5bf891b4ef6bp+0);
    return d / (root_pi * a * d + n);
}

/// e^(-c a^2) as e^r 2^n. The square is taken in two parts of which the first is exact: near
/// underflow one last place of it would be a hundred of the result.
template <class T>
WEFT_INLINE Octave<T> gaussian_octave(T a, T c) {
    const T high = upper_half(a), exact = -c * high * high, rest = -c * (a - high) * (a + high);
    Octave<T> o = octave(exact, exact + rest);
    o.r += rest;
    return o;
}

template <class T>
WEFT_INLINE T erfc_of_positive(T a) {
    constexpr T end = sizeof(T) == 4 ? T(10.25) : T(27.5);
    a = a > end ? end : a;
    const Octave<T> o = gaussian_octave(a, T(1));
    return scale(exp_rest(o.r) * scaled_erfc(a), o.low_bits);
}

template <class T>
WEFT_INLINE T erfc(T x) {
    const T y = erfc_of_positive(abs(x));
    return x < 0 ? T(2) - y : y;
}

/// (erf(x) - x) / x for |x| <= 1, given z = x^2.
template <class T>
WEFT_INLINE T erf_tail(T z) {
    if constexpr (sizeof(T) == 4)
        return polynomial(z, 0x1.06eba8p-3, -0x1.81273ep-2, 0x1.ce2cf2p-4, -0x1.b7f88cp-6,
                          0x1.540172p-8, -0x1.a3d812p-11, 0x1.4917a4p-14);
    else
        return polynomial(z, 0x1.06eba8214db69p-3, -0x1.812746b0379b2p-2, 0x1.ce2f21a0408d1p-4,
                          -0x1.b82ce311ee09bp-6, 0x1.565bccf7e2856p-8, -0x1.c02db0149d904p-11,
                          0x1.f9a2b75531772p-14, -0x1.f4ca204c771c5p-17, 0x1.b97e44280cfb9p-20,
                          -0x1.5bfe763844720p-23, 0x1.d6e3ddfeb1f49p-27, -0x1.ab15c51d2ebebp-31);
}

template <class T>
WEFT_INLINE T erf(T x) {
    const T a = abs(x), small = a + a * erf_tail(x * x);
    T rest;
    if constexpr (sizeof(T) == 4) {
        // erfc as the exponential of one polynomial (N. Juffa's form): its error needs to be small
        // against 1 only. From 3.95 on erf is 1.
        const T b = a > T(3.95f) ? T(3.95f) : a;
        rest = exp_of_negative(-polynomial(b, 0x1.cdd708p-12, 0x1.206e82p0, 0x1.4712cep-1,
                                           0x1.a3f046p-4, -0x1.613aa8p-6, 0x1.793f8ap-9,
                                           -0x1.7813aap-13));
    } else {
        rest = erfc_of_positive(a);
    }
    return copysign(a < 1 ? small : T(1) - rest, x);
}

/// The x of erf(x) = y, by a fit good to 20 bits in w = -log(1 - y^2) (after Giles 2010) and one
/// step of Halley's method, which triples the bits.
WEFT_INLINE double erfinv(double y) {
    const double a = abs(y), rest = 1.0 - a, w = -log(rest * (1.0 + a));
    const bool middle = w < 5.0;
    const double near = w - 2.5, far = sqrt(w) - 4.2;
    const double p =
        polynomial(near, 0x1.805c5e2c155a3p+0, 0x1.f91ec5e5138cfp-3, -0x1.11ca4e027db11p-8,
                   -0x1.48a6e3a01cff9p-10, 0x1.ca7124fd52770p-13, -0x1.270ff53c6b3bcp-18,
                   -0x1.d9a26ef46df75p-19, 0x1.7112ba193e900p-22, 0x1.ea36935e45ffbp-26);
    const double q =
        polynomial(far, 0x1.02abab8f0e552p+2, 0x1.028aadd06af17p+0, 0x1.a0b555f6362e1p-11,
                   -0x1.8a9cbd32732dbp-11, 0x1.0660a34db11d2p-12, 0x1.0f4a6e4b2dae5p-15,
                   0x1.e042990204540p-18, -0x1.b56f138a3d748p-15, 0x1.1717d46c98b0fp-16);
    const double x = a * select(middle, p, q), square = x * x, growth = exp(square);
    // (erf(x) - a) e^(x^2), from whichever of erf and erfc is small.
    const double low = (x + x * erf_tail(square) - a) * growth;
    const double high = rest * growth - scaled_erfc(x);
    const double step = 0x1.c5bf891b4ef6bp-1 * select(x < 0.6, low, high);
    const double inner = copysign(x - step / (1.0 + x * step), y);
    return a == 1.0 ? copysign(infinity<double>, y) : inner;
}
WEFT_INLINE float erfinv(float y) { return static_cast<float>(erfinv(static_cast<double>(y))); }

// ---- GELU: x times the probability P(x) that a standard normal variable is below x --------------

/// From here on 1 - P(x) is 0.
template <class T>
inline constexpr T normal_end = sizeof(T) == 4 ? T(14.5) : T(39);
template <class T>
inline constexpr T root_half = T(0x1.6a09e667f3bcdp-1);

template <class T>
WEFT_INLINE T gelu(T x) {
    const T a = abs(x) > normal_end<T> ? normal_end<T> : abs(x);
    const Octave<T> o = gaussian_octave(a, T(0.5));
    // a (1 - P(a)), multiplied before it can become denormal.
    const T rest = scale(exp_rest(o.r) * scaled_erfc(a * root_half<T>) * (T(0.5) * a), o.low_bits);
    return x < 0 ? -rest : x - rest;
}

template <class T>
WEFT_INLINE T gelu_derivative(T x) {
    constexpr T inverse_root_2pi = T(0x1.9884533d43651p-2);
    const T a = abs(x) > normal_end<T> ? normal_end<T> : abs(x);
    const Octave<T> o = gaussian_octave(a, T(0.5));
    const T factor = T(0.5) * scaled_erfc(a * root_half<T>) - a * inverse_root_2pi;
    const T rest = scale(exp_rest(o.r) * factor, o.low_bits);
    return x < 0 ? rest : T(1) - rest;
}

/// Hendrycks & Gimpel's approximation, x/2 (1 + tanh(u)) = x sigmoid(2u).
template <class T>
WEFT_INLINE T gelu_tanh(T x) {
    constexpr T two_root = T(0x1.9884533d43651p+0);
    return x * sigmoid(two_root * (x + T(0.044715) * x * x * x));
}

template <class T>
WEFT_INLINE T gelu_tanh_derivative(T x) {
    constexpr T two_root = T(0x1.9884533d43651p+0);
    x = clamp(x, T(-40), T(40));  // the result is 0 or 1 beyond
    const T z = T(0.044715) * x * x;
    const T e = exp(-abs(two_root * x * (T(1) + z))), inverse = T(1) / (T(1) + e);
    const T s = (x < 0 ? e : T(1)) * inverse;
    return s + x * (two_root * (T(1) + T(3) * z)) * (e * inverse * inverse);
}

}  // namespace weft::kernels::math
