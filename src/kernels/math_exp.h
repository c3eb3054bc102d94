/// exp, exp2, expm1 and what is made of them: sigmoid, tanh, sinh, cosh. The logarithms and what is
/// made of those: log1p, softplus. Polynomials are minimax fits (Sollya's fpminimax).
#pragma once
#include "kernels/math_base.h"

namespace weft::kernels::math {

// ---- exponentials ------------------------------------------------------------------------------

/// x = n ln 2 + r, |r| <= ln(2)/2.
template <class T>
struct Octave {
    T r;
    T n;
    Bits<T> low_bits;  // of n, which is all that `scale` looks at
};

/// For |x| within a few times the range of exp; n is that of `nearby`. n ln 2 is taken away in two
/// parts, the first with so few bits that its product with n is exact (Cody & Waite).
template <class T>
WEFT_INLINE Octave<T> octave(T x, T nearby) {
    constexpr bool f = sizeof(T) == 4;
    constexpr T log2_e = T(1.4426950408889634074);
    constexpr T ln2_high = f ? T(0x1.62e4p-1) : T(0x1.62e42fefap-1);
    constexpr T ln2_low = f ? T(0x1.7f7d1cp-20) : T(0x1.cf79abc9e3b3ap-40);
    const T shifted = nearby * log2_e + Ieee<T>::shifter;
    const T n = shifted - Ieee<T>::shifter;
    return {(x - n * ln2_high) - n * ln2_low, n, to_bits(shifted)};
}

template <class T>
WEFT_INLINE Octave<T> octave(T x) {
    return octave(x, x);
}

/// (e^r - 1 - r) / r^2 for |r| <= ln(2)/2.
template <class T>
WEFT_INLINE T exp_tail(T r) {
    if constexpr (sizeof(T) == 4)
        return polynomial(r, 0x1.fffffap-2, 0x1.555492p-3, 0x1.555a26p-5, 0x1.123988p-7,
                          0x1.694cd2p-10);
    else
        return polynomial(r, 0x1.000000000000ap-1, 0x1.55555555554fep-3, 0x1.55555555506acp-5,
                          0x1.1111111126b2ep-7, 0x1.6c16c1847c94ap-10, 0x1.a01a012ffa313p-13,
                          0x1.a019994c1319bp-16, 0x1.71df18b9a77afp-19, 0x1.28ae10fc92d74p-22,
                          0x1.ad9371fbf06c3p-26);
}

/// e^r - 1 and e^r for |r| <= ln(2)/2.
template <class T>
WEFT_INLINE T expm1_rest(T r) {
    return r + r * r * exp_tail(r);
}
template <class T>
WEFT_INLINE T exp_rest(T r) {
    return T(1) + expm1_rest(r);
}

/// Beyond these exp is infinite or 0.
template <class T>
inline constexpr T exp_high = sizeof(T) == 4 ? T(89) : T(710);
template <class T>
inline constexpr T exp_low = sizeof(T) == 4 ? T(-104) : T(-746);

template <class T>
WEFT_INLINE T exp(T x) {
    const Octave<T> o = octave(clamp(x, exp_low<T>, exp_high<T>));
    return scale(exp_rest(o.r), o.low_bits);
}

/// e^x / 2, finite a little further than exp.
template <class T>
WEFT_INLINE T half_exp(T x) {
    const Octave<T> o = octave(clamp(x, exp_low<T>, exp_high<T> + 1));
    return scale(exp_rest(o.r), o.low_bits - 1);
}

/// e^x for x <= 0, 0 where it would be denormal.
template <class T>
WEFT_INLINE T exp_of_negative(T x) {
    constexpr T low = sizeof(T) == 4 ? T(-87) : T(-708);
    const Octave<T> o = octave(x < low ? low : x);
    return x < low ? T(0) : exp_rest(o.r) * power_of_two<T>(o.low_bits);
}

template <class T>
WEFT_INLINE T exp2(T x) {
    constexpr bool f = sizeof(T) == 4;
    x = clamp(x, f ? T(-151) : T(-1076), f ? T(129) : T(1025));
    const T shifted = x + Ieee<T>::shifter;
    const T r = x - (shifted - Ieee<T>::shifter);
    T tail;
    if constexpr (f)
        tail = polynomial(r, 0x1.62e43p-1, 0x1.ebfbd8p-3, 0x1.c6af76p-5, 0x1.3b30ap-7,
                          0x1.5f0b82p-10, 0x1.3fa206p-13);
    else
        tail = polynomial(r, 0x1.62e42fefa39efp-1, 0x1.ebfbdff82c5a6p-3, 0x1.c6b08d704a12cp-5,
                          0x1.3b2ab6fb9fda6p-7, 0x1.5d87fe789e96fp-10, 0x1.4309130f6cbdcp-13,
                          0x1.ffcbfc6685f14p-17, 0x1.62bfc6596b96dp-20, 0x1.b52522bc12186p-24,
                          0x1.e61d4332c1a5fp-28, 0x1.e97317a3287c3p-32);
    return scale(T(1) + r * tail, to_bits(shifted));
}

template <class T>
WEFT_INLINE T expm1(T x) {
    constexpr T low = sizeof(T) == 4 ? T(-18) : T(-40);  // the result is -1 from here on
    const Octave<T> o = octave(clamp(x, low, exp_high<T>));
    const T rest = expm1_rest(o.r);
    // Half of the result, because 2^n itself can overflow where the result does not.
    const T power = power_of_two<T>(o.low_bits - 1);
    const T y = (power * rest + (power - T(0.5))) * T(2);
    const T small = x == 0 ? x : rest;
    return o.n == 0 ? small : y;
}

/// e^-a for a >= 0: exp's bits with fewer operations, which are what bounds these functions. The two factors of
/// 2^n are one of it further up and a constant.
template <class T>
WEFT_INLINE T exp_down(T a) {
    constexpr int up = sizeof(T) == 4 ? 64 : 512;
    constexpr T down = sizeof(T) == 4 ? T(0x1p-64) : T(0x1p-512);
    const Octave<T> o = octave(-(-exp_low<T> < a ? -exp_low<T> : a));
    return exp_rest(o.r) * power_of_two<T>(o.low_bits + up) * down;
}

/// 1 / (1 + e^-x).
template <class T>
WEFT_INLINE T sigmoid(T x) {
    const T e = exp_down(abs(x));
    return (x < 0 ? e : T(1)) / (T(1) + e);
}

/// An odd polynomial near 0, 1 - 2 / (1 + e^2x) elsewhere.
template <class T>
WEFT_INLINE T tanh(T x) {
    const T a = abs(x), z = x * x;
    T tail;
    if constexpr (sizeof(T) == 4)
        tail = polynomial(z, -0x1.555548p-2, 0x1.110c7p-3, -0x1.b90a76p-5, 0x1.584238p-6,
                          -0x1.958c74p-8);
    else
        tail = polynomial(z, -0x1.555555555554cp-2, 0x1.11111111103a8p-3, -0x1.ba1ba1b944192p-5,
                          0x1.664f484c90e02p-6, -0x1.226e2d6cd3a6bp-7, 0x1.d6d2586245a92p-9,
                          -0x1.7d8c6d809d818p-10, 0x1.34678f31c77bep-11, -0x1.e85009e65fa04p-13,
                          0x1.5a3766e60cfedp-14, -0x1.3f08862f69fd0p-16);
    // From 20 on the result is 1; the limit keeps 2^n a normal number, so one factor will do. Sums in place of
    // products by two: the processor's units for those have more to do.
    const T most = T(20) < a ? T(20) : a;
    const Octave<T> o = octave(-(most + most));
    const T e = exp_rest(o.r) * power_of_two<T>(o.low_bits);
    const T large = T(1) - (e + e) / (T(1) + e);
    // x + 0 would lose the sign of -0, which large keeps but is not exact for.
    const T small = x + x * (z * tail);
    return copysign(a < T(0.55) ? small : large, x);
}

template <class T>
WEFT_INLINE T sinh(T x) {
    const T a = abs(x), z = x * x;
    T tail;
    if constexpr (sizeof(T) == 4)
        tail = polynomial(z, 0x1.555556p-3, 0x1.1110eap-7, 0x1.a01c22p-13, 0x1.76771ep-19);
    else
        tail = polynomial(z, 0x1.5555555555556p-3, 0x1.1111111111040p-7, 0x1.a01a01a0318d8p-13,
                          0x1.71de3a40565e2p-19, 0x1.ae646b4d5f193p-26, 0x1.6118df717748fp-33,
                          0x1.b52ebddfaa69cp-41);
    const T h = half_exp(a);
    const T large = h - T(0.25) / h;
    const T small = a + a * (z * tail);
    return copysign(a < 1 ? small : large, x);
}

template <class T>
WEFT_INLINE T cosh(T x) {
    const T h = half_exp(abs(x));
    return h + T(0.25) / h;
}

// ---- logarithms --------------------------------------------------------------------------------

/// x = 2^n (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), for a positive, finite x.
template <class T>
struct Mantissa {
    T f;
    T n;
    Bits<T> field;  // n + bias, unless x is denormal
};

template <class T>
WEFT_INLINE Mantissa<T> split_normal(T x) {
    using I = Ieee<T>;
    const Bits<T> bits = to_bits(x);
    Mantissa<T> m;
    m.field = (bits + (I::one - I::sqrt_half)) >> I::mantissa;
    m.f = from_bits<T>(bits - (m.field << I::mantissa) + I::one) - T(1);
    m.n = field_value(m.field) - T(I::bias);
    return m;
}

template <class T>
WEFT_INLINE Mantissa<T> split_any(T x) {
    constexpr int lift = Ieee<T>::mantissa + 1;
    const bool denormal = x < std::numeric_limits<T>::min();
    Mantissa<T> m = split_normal(denormal ? x * T(Bits<T>{1} << lift) : x);
    m.n -= select(denormal, T(lift), T(0));
    return m;
}

/// log(1 + f) - f for 1 + f in [sqrt(1/2), sqrt(2)). In double the series of atanh(f / (2 + f)), as
/// in fdlibm.
template <class T>
WEFT_INLINE T log_tail(T f) {
    if constexpr (sizeof(T) == 4) {
        const T p =
            polynomial(f, -0x1p-1, 0x1.555548p-2, -0x1.000008p-2, 0x1.99a47ap-3, -0x1.555b8ep-3,
                       0x1.233abcp-3, -0x1.fc3da6p-4, 0x1.e6e092p-4, -0x1.dd9dfcp-4, 0x1.13bb06p-4);
        return f * f * p;
    } else {
        const T s = f / (T(2) + f), z = s * s, square = T(0.5) * f * f;
        const T p = z * polynomial(z, 0x1.5555555555592p-1, 0x1.999999997ff2bp-2,
                                   0x1.24924941e082ap-2, 0x1.c71c52148103dp-3, 0x1.74663d045e550p-3,
                                   0x1.39a1e2da1a237p-3, 0x1.2f041b9804a66p-3);
        return s * (square + p) - square;
    }
}

/// What a logarithm is outside of (0, inf).
template <class T>
WEFT_INLINE T log_or_special(T x, T log_x) {
    const T y = x > 0 ? log_x : (x == 0 ? -infinity<T> : nan<T>);
    return x < infinity<T> ? y : x;
}

template <class T>
WEFT_INLINE T log_sum(T n, T f) {
    constexpr bool is_float = sizeof(T) == 4;
    constexpr T ln2_high = is_float ? T(0x1.62e4p-1) : T(0x1.62e42fefap-1);
    constexpr T ln2_low = is_float ? T(0x1.7f7d1cp-20) : T(0x1.cf79abc9e3b3ap-40);
    return n * ln2_high + (f + (log_tail(f) + n * ln2_low));
}

template <class T>
WEFT_INLINE T log(T x) {
    const Mantissa<T> m = split_any(x);
    return log_or_special(x, log_sum(m.n, m.f));
}

/// n * unit + log(1 + f) * inverse, both constants in two parts: log2 and log10.
template <class T>
WEFT_INLINE T log_in_base(T x, T unit_high, T unit_low, T inverse_high, T inverse_low) {
    const Mantissa<T> m = split_any(x);
    const T tail = log_tail(m.f);
    const T high = upper_half(m.f + tail), low = (m.f - high) + tail;
    const T large = m.n * unit_high, product = high * inverse_high;
    const T sum = large + product;
    const T rest = (large - sum) + product;
    const T small = m.n * unit_low + ((low + high) * inverse_low + low * inverse_high);
    return log_or_special(x, sum + (rest + small));
}

template <class T>
WEFT_INLINE T log2(T x) {
    if constexpr (sizeof(T) == 4) return log_in_base<T>(x, 1, 0, 0x1.714p+0f, 0x1.47652cp-12f);
    else return log_in_base<T>(x, 1, 0, 0x1.7154768p+0, -0x1.6a3e80f444178p-27);
}

template <class T>
WEFT_INLINE T log10(T x) {
    if constexpr (sizeof(T) == 4)
        return log_in_base<T>(x, 0x1.344p-2f, 0x1.3509f8p-18f, 0x1.bccp-2f, -0x1.09d5b2p-15f);
    else
        return log_in_base<T>(x, 0x1.34413508p-2, 0x1.f79fef311f12bp-34, 0x1.bcb7b18p-2,
                              -0x1.6c8d78e6acaa4p-29);
}

/// log of 1 + x as a rounded sum, whose rounding error goes back into the mantissa.
template <class T>
WEFT_INLINE T log1p(T x) {
    const T sum = T(1) + x, part = sum - T(1);
    const T error = (T(1) - (sum - part)) + (x - part);
    const Mantissa<T> m = split_normal(sum);
    // 2^-n in two steps, since 2^-128 is none that a float's exponent field holds.
    const T power =
        T(0.5) * from_bits<T>((Bits<T>(2 * Ieee<T>::bias + 1) - m.field) << Ieee<T>::mantissa);
    const T y = log_or_special(sum, log_sum(m.n, m.f + error * power));
    return x == 0 ? x : y;
}

/// log(1 + e^x), without a threshold: max(x, 0) + log(1 + e^-|x|).
template <class T>
WEFT_INLINE T softplus(T x) {
    const T e = exp(-abs(x));
    T tail;  // (log(1 + e) - e) / e^2
    if constexpr (sizeof(T) == 4)
        tail = polynomial(e, -0x1.ffffd2p-2, 0x1.554ddap-2, -0x1.ff2556p-3, 0x1.935568p-3,
                          -0x1.3a6736p-3, 0x1.b53c48p-4, -0x1.d7efa8p-5, 0x1.4a9226p-6,
                          -0x1.b22adep-9);
    else
        tail = polynomial(e, -0x1.fffffffffff9fp-2, 0x1.5555555551052p-2, -0x1.fffffffdd4a4bp-3,
                          0x1.99999951fb01bp-3, -0x1.55554fbe64ea4p-3, 0x1.2491fed9cfc49p-3,
                          -0x1.fffa8bd000151p-4, 0x1.c6f6a83b8b045p-4, -0x1.98d296b9a7f0dp-4,
                          0x1.712df6166befdp-4, -0x1.4b022086f6829p-4, 0x1.202df1e818ff3p-4,
                          -0x1.d7115508d73eap-5, 0x1.5a892cb910470p-5, -0x1.b632818d96447p-6,
                          0x1.c57efadae6573p-7, -0x1.6b4e60f2711bcp-8, 0x1.a25bf104a387fp-10,
                          -0x1.31f8cd7aaa87ap-12, 0x1.a9067c0618c2ep-16);
    return (x > 0 ? x : T(0)) + (e + e * e * tail);
}

}  // namespace weft::kernels::math
