/// sin, cos, tan and their inverses.
#pragma once
#include "kernels/math_base.h"

namespace weft::kernels::math {

/// sin, cos and tan hold for |x| up to here; `map_guarded` (math.h) takes care of the rest.
template <class T>
inline constexpr T trig_limit = sizeof(T) == 4 ? T(1 << 22) : T(1 << 20);

/// x = n pi/2 + r, |r| <= pi/4; of n the low bits.
template <class T>
struct Quadrant {
    T r;
    Bits<T> n;
};

/// In double, where two parts of pi/2 are enough for every float within the limit.
WEFT_INLINE Quadrant<float> quadrant(float x) {
    const double wide = x;
    const double n = (wide * 0x1.45f306dc9c883p-1 + Ieee<double>::shifter) - Ieee<double>::shifter;
    const double r = (wide - n * 0x1.921fb544p+0) - n * 0x1.0b4611a626331p-34;
    return {static_cast<float>(r), static_cast<uint32_t>(static_cast<int32_t>(n))};
}

/// Three parts of pi/2, the first two of 33 bits (fdlibm).
WEFT_INLINE Quadrant<double> quadrant(double x) {
    const double shifted = x * 0x1.45f306dc9c883p-1 + Ieee<double>::shifter;
    const double n = shifted - Ieee<double>::shifter;
    const double r = ((x - n * 0x1.921fb544p+0) - n * 0x1.0b4611a6p-34) - n * 0x1.3198a2e037073p-69;
    return {r, to_bits(shifted)};
}

/// Sine and cosine of |r| <= pi/4.
template <class T>
WEFT_INLINE T sin_rest(T r) {
    const T z = r * r;
    T tail;
    if constexpr (sizeof(T) == 4)
        tail = polynomial(z, -0x1.555556p-3, 0x1.111164p-7, -0x1.a04866p-13, 0x1.77e1f8p-19);
    else
        tail = polynomial(z, -0x1.5555555555548p-3, 0x1.111111110f75dp-7, -0x1.a01a019bf222ep-13,
                          0x1.71de355f05599p-19, -0x1.ae5e5471f54e4p-26, 0x1.5d8e3511cc1aap-33);
    return r + r * (z * tail);
}
template <class T>
WEFT_INLINE T cos_rest(T r) {
    const T z = r * r;
    T tail;
    if constexpr (sizeof(T) == 4)
        tail = polynomial(z, 0x1.55554ap-5, -0x1.6c0c2ap-10, 0x1.99e91p-16);
    else
        tail = polynomial(z, 0x1.555555555554bp-5, -0x1.6c16c16c15016p-10, 0x1.a01a019c8f3eep-16,
                          -0x1.27e4f7f19d4b2p-22, 0x1.1ee9dbd0d86a6p-29, -0x1.8fa681e385240p-37);
    const T half = T(0.5) * z, most = T(1) - half;
    return most + (((T(1) - most) - half) + z * z * tail);
}

/// Bit 1 of n moved to the sign.
template <class T>
WEFT_INLINE T flip_by_half_turn(T y, Bits<T> n) {
    return from_bits<T>(to_bits(y) ^ ((n & 2) << (8 * sizeof(T) - 2)));
}

template <class T>
WEFT_INLINE T sin(T x) {
    const Quadrant<T> q = quadrant(x);
    const T y = (q.n & 1) ? cos_rest(q.r) : sin_rest(q.r);
    return x == 0 ? x : flip_by_half_turn(y, q.n);
}

template <class T>
WEFT_INLINE T cos(T x) {
    const Quadrant<T> q = quadrant(x);
    const T y = (q.n & 1) ? sin_rest(q.r) : cos_rest(q.r);
    return flip_by_half_turn(y, q.n + 1);
}

template <class T>
WEFT_INLINE T tan(T x) {
    const Quadrant<T> q = quadrant(x);
    const T s = sin_rest(q.r), c = cos_rest(q.r);
    const T y = (q.n & 1) ? -c / s : s / c;
    return x == 0 ? x : y;
}

// ---- inverses ----------------------------------------------------------------------------------

/// A constant in two parts, the second what the first leaves over.
template <class T>
inline constexpr T half_pi = T(0x1.921fb54442d18p+0);
template <class T>
inline constexpr T half_pi_low = sizeof(T) == 4 ? T(-0x1.777a5cp-25) : T(0x1.1a62633145c07p-54);

/// asin(s) for 0 <= s <= 0.55, given z = s^2.
template <class T>
WEFT_INLINE T asin_rest(T s, T z) {
    T tail;
    if constexpr (sizeof(T) == 4)
        tail = polynomial(z, 0x1.555532p-3, 0x1.33442cp-4, 0x1.6b0354p-5, 0x1.11d0d8p-5,
                          0x1.1b4a0ap-7, 0x1.7255d4p-5);
    else
        tail = polynomial(z, 0x1.555555555551bp-3, 0x1.333333333b99ep-4, 0x1.6db6db66f0a64p-5,
                          0x1.f1c71f337e79bp-6, 0x1.6e8b4df4bcc2bp-6, 0x1.1c555e5df330cp-6,
                          0x1.c8e745f4f76a7p-7, 0x1.811e5239b8a9cp-7, 0x1.1398f94aa3eb3p-7,
                          0x1.e658adf360a41p-7, -0x1.d32ee7efe5241p-7, 0x1.c2ea0448dd2c7p-5,
                          -0x1.fd47bf2a818ccp-5, 0x1.b0d00a590892ap-5);
    return s + s * (z * tail);
}

/// asin(a) for 0 <= a <= 0.55; beyond, asin(sqrt((1 - a) / 2)), of which asin(a) = pi/2 - 2 ...
template <class T>
WEFT_INLINE T asin_or_rest(T a, bool large) {
    const T half = (T(1) - a) * T(0.5);
    return asin_rest(select(large, sqrt(half), a), select(large, half, a * a));
}

template <class T>
WEFT_INLINE T asin(T x) {
    const bool large = abs(x) > T(0.55);
    const T y = asin_or_rest(abs(x), large);
    return copysign(select(large, half_pi<T> - (T(2) * y - half_pi_low<T>), y), x);
}

template <class T>
WEFT_INLINE T acos(T x) {
    const bool large = abs(x) > T(0.55);
    const T y = asin_or_rest(abs(x), large), twice = T(2) * y;
    const T left = T(2) * half_pi<T> - (twice - T(2) * half_pi_low<T>);
    const T inner = half_pi<T> - (copysign(y, x) - half_pi_low<T>);
    return select(large, select(x < 0, left, twice), inner);
}

/// atan(t) for 0 <= t <= 1.
template <class T>
WEFT_INLINE T atan_rest(T t) {
    const T z = t * t;
    T tail;
    if constexpr (sizeof(T) == 4)
        tail = polynomial(z, -0x1.55553ep-2, 0x1.9991ecp-3, -0x1.24211ap-3, 0x1.c0946cp-4,
                          -0x1.5825f2p-4, 0x1.da9c2ep-5, -0x1.fe7d24p-6, 0x1.6551e2p-7,
                          -0x1.d5a1aap-10);
    else
        tail = polynomial(z, -0x1.5555555555526p-2, 0x1.99999999955b4p-3, -0x1.249249237f57dp-3,
                          0x1.c71c717fcf76cp-4, -0x1.745d11ae74c4cp-4, 0x1.3b13669a29c9ap-4,
                          -0x1.110e5126fa3b8p-4, 0x1.e1bba66bedb20p-5, -0x1.ae5e72bfe9e67p-5,
                          0x1.82dad798fe0acp-5, -0x1.59a3ff1e0359cp-5, 0x1.2c2e5cb19de41p-5,
                          -0x1.e9fa0d38f10fep-6, 0x1.683cc8eceb055p-6, -0x1.c78fcc1616993p-7,
                          0x1.d7b925caa4892p-8, -0x1.7a3998a3a2487p-9, 0x1.b3fac8704d47dp-11,
                          -0x1.3f364a25134c3p-13, 0x1.bbed9a0d9d2e7p-17);
    return t + t * (z * tail);
}

template <class T>
WEFT_INLINE T atan(T x) {
    const T a = abs(x);
    const bool steep = a > 1;
    const T y = atan_rest(steep ? T(1) / a : a);
    return copysign(steep ? half_pi<T> - (y - half_pi_low<T>) : y, x);
}

/// The angle of (x, y) in [-pi, pi], with C's results for zeros and infinities.
template <class T>
WEFT_INLINE T atan2(T y, T x) {
    const T a = abs(x), b = abs(y);
    const bool steep = b > a;
    const T low = steep ? a : b, high = steep ? b : a;
    // Equal magnitudes make the tangent 1 (also of infinities), except that of (0, 0), which is 0.
    const T equal = high == 0 ? T(0) : T(1);
    T angle = atan_rest(low == high ? equal : low / high);
    angle = steep ? half_pi<T> - (angle - half_pi_low<T>) : angle;
    const bool left = to_bits(x) >> (8 * sizeof(T) - 1);
    angle = left ? T(2) * half_pi<T> - (angle - T(2) * half_pi_low<T>) : angle;
    return a != a || b != b ? x + y : copysign(angle, y);
}

}  // namespace weft::kernels::math
