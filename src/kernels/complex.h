/// Arithmetic and elementary functions of std::complex, beside those of kernels/math*.h for reals.
/// Products and quotients are the plain formulas: no second look at infinities, as in C99's Annex G.
#pragma once
#include <cmath>
#include <complex>

#include "kernels/convert.h"

namespace weft::kernels {

template <class T>
concept Complex = is_complex_v<T>;

template <class T>
WEFT_INLINE T times(T a, T b) {
    if constexpr (Complex<T>)
        return T(a.real() * b.real() - a.imag() * b.imag(),
                 a.real() * b.imag() + a.imag() * b.real());
    else if constexpr (std::is_same_v<T, bool>) return a && b;
    else return static_cast<T>(a * b);
}

/// Smith 1962, "Algorithm 116: Complex division": scaled by the larger part of the divisor.
template <class T>
WEFT_INLINE T over(T a, T b) {
    if constexpr (Complex<T>) {
        using R = typename T::value_type;
        const R c = b.real(), d = b.imag();
        if (std::fabs(c) >= std::fabs(d)) {
            if (c == 0 && d == 0) return T(a.real() / std::fabs(c), a.imag() / std::fabs(d));
            const R q = d / c, scale = R(1) / (c + d * q);
            return T((a.real() + a.imag() * q) * scale, (a.imag() - a.real() * q) * scale);
        }
        const R q = c / d, scale = R(1) / (c * q + d);
        return T((a.real() * q + a.imag()) * scale, (a.imag() * q - a.real()) * scale);
    } else {
        return a / b;
    }
}

namespace math {

#define WEFT_COMPLEX_FUNCTION(name)                                                                \
    template <class T>                                                                             \
    inline std::complex<T> name(std::complex<T> x) {                                               \
        return std::name(x);                                                                       \
    }
WEFT_COMPLEX_FUNCTION(exp)
WEFT_COMPLEX_FUNCTION(log)
WEFT_COMPLEX_FUNCTION(log10)
WEFT_COMPLEX_FUNCTION(sqrt)
WEFT_COMPLEX_FUNCTION(sin)
WEFT_COMPLEX_FUNCTION(cos)
WEFT_COMPLEX_FUNCTION(tan)
WEFT_COMPLEX_FUNCTION(sinh)
WEFT_COMPLEX_FUNCTION(cosh)
WEFT_COMPLEX_FUNCTION(tanh)
WEFT_COMPLEX_FUNCTION(asin)
WEFT_COMPLEX_FUNCTION(acos)
WEFT_COMPLEX_FUNCTION(atan)
WEFT_COMPLEX_FUNCTION(asinh)
WEFT_COMPLEX_FUNCTION(acosh)
WEFT_COMPLEX_FUNCTION(atanh)
#undef WEFT_COMPLEX_FUNCTION

template <class T>
inline std::complex<T> exp2(std::complex<T> x) {
    return std::exp(x * T(0.693147180559945309417L));
}
template <class T>
inline std::complex<T> log2(std::complex<T> x) {
    return std::log(x) * T(1.442695040888963407360L);
}
/// Accurate near 0, where log(1 + x) would lose digits.
template <class T>
inline std::complex<T> log1p(std::complex<T> x) {
    const T re = x.real(), im = x.imag();
    const T angle = std::atan2(im, re + T(1)), size = std::abs(x);
    if (size < T(0.5)) return {T(0.5) * std::log1p(re * (T(2) + re) + im * im), angle};
    return {std::log(std::hypot(re + T(1), im)), angle};
}
/// Where a part is zero, infinite or NaN, what the array API standard says; PyTorch has NaN there.
template <class T>
inline std::complex<T> expm1(std::complex<T> x) {
    const T re = x.real(), im = x.imag();
    if (im == T(0)) return {std::expm1(re) + T(0), im};
    if (re == -std::numeric_limits<T>::infinity())
        return {T(-1), std::isfinite(im) ? std::copysign(T(0), std::sin(im)) : T(0)};
    if (re == std::numeric_limits<T>::infinity())
        return std::isfinite(im) ? std::complex<T>(re * std::cos(im), re * std::sin(im))
                                 : std::complex<T>(re, im - im);
    const T half = std::sin(im / T(2)), grown = std::exp(re);
    return {std::expm1(re) - T(2) * grown * half * half, grown * std::sin(im)};
}
template <class T>
inline std::complex<T> pow(std::complex<T> x, std::complex<T> e) {
    if (e == std::complex<T>(0)) return 1;
    return std::pow(x, e);
}

}  // namespace math
}  // namespace weft::kernels
