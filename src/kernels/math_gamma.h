/// The logarithm of gamma and its derivatives, Hurwitz's zeta, and erfc scaled.
///
/// Up to 10 the recurrence gamma(x + 1) = x gamma(x) leads to where Stirling's series holds; the
/// ten factors are gathered in products, so that one division or logarithm serves them all
/// (Abramowitz and Stegun, 6.1.41, 6.3.18, 6.4.12). Below 0: reflection.
#pragma once
#include <cmath>

#include "kernels/math_erf.h"

namespace weft::kernels::math {

constexpr int kGammaSteps = 10;
constexpr double kPi = 0x1.921fb54442d18p1;

/// log gamma(x) for x > 0. Next to its zeros 1 and 2 the error is small against 1 only.
WEFT_INLINE double log_gamma_of_positive(double x) {
    double product = 1;
    for (int k = 0; k < kGammaSteps; ++k) product *= x + k;
    const bool shift = x < kGammaSteps;
    const double y = shift ? x + kGammaSteps : x, inverse = 1 / y;
    const double tail = inverse * polynomial(inverse * inverse, 1.0 / 12, -1.0 / 360, 1.0 / 1260,
                                             -1.0 / 1680, 1.0 / 1188, -691.0 / 360360, 1.0 / 156);
    constexpr double half_log_2pi = 0x1.d67f1c864beb5p-1;
    const double sum = (y - 0.5) * log(y) - y + half_log_2pi + tail - log(shift ? product : 1.0);
    return ((x == 1) | (x == 2)) ? 0.0 : sum;
}

/// The derivative of log gamma for x > 0.
WEFT_INLINE double digamma_of_positive(double x) {
    double product = 1, slope = 0;
    for (int k = 0; k < kGammaSteps; ++k) {
        slope = slope * (x + k) + product;
        product *= x + k;
    }
    const bool shift = x < kGammaSteps;
    const double y = shift ? x + kGammaSteps : x, inverse = 1 / y, square = inverse * inverse;
    const double tail = square * polynomial(square, 1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240,
                                            1.0 / 132, -691.0 / 32760, 1.0 / 12);
    return log(y) - 0.5 * inverse - tail - (shift ? slope / product : 0.0);
}

/// The second derivative of log gamma for x > 0.
WEFT_INLINE double trigamma_of_positive(double x) {
    double squares = 1, sum = 0;  // sum / squares = sum of 1 / (x + k)^2
    for (int k = 0; k < kGammaSteps; ++k) {
        const double square = (x + k) * (x + k);
        sum = sum * square + squares;
        squares *= square;
    }
    const bool shift = x < kGammaSteps;
    const double y = shift ? x + kGammaSteps : x, inverse = 1 / y, square = inverse * inverse;
    const double tail = inverse * square *
                        polynomial(square, 1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66,
                                   -691.0 / 2730, 7.0 / 6);
    return inverse + 0.5 * square + tail + (shift ? sum / squares : 0.0);
}

/// Vector code for positive numbers, one by one for others. Doubles: the C library's.
struct LogGamma {
    static constexpr int one_loop = 32;
    static double slow(double x) {
        int sign;
        return ::lgamma_r(x, &sign);
    }
    static float slow(float x) { return static_cast<float>(slow(static_cast<double>(x))); }
    WEFT_INLINE static bool inside(float x) { return x > 0 && x < infinity<float>; }
    WEFT_INLINE static bool inside(double) { return true; }
    WEFT_INLINE double operator()(double x) const { return slow(x); }
    WEFT_INLINE float operator()(float x) const {
        return static_cast<float>(log_gamma_of_positive(static_cast<double>(x)));
    }
};

struct Digamma {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE static bool inside(T x) {
        return x > 0;
    }
    template <class T>
    static T slow(T value) {
        const double x = value;
        if (x == 0) return copysign(infinity<T>, -value);
        if (!(x < 0) || x == std::floor(x)) return nan<T>;
        // cot has the period 1: from the nearest pole the angle is exact
        const double angle = kPi * (x - std::nearbyint(x));
        return static_cast<T>(digamma_of_positive(1 - x) - kPi / std::tan(angle));
    }
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return static_cast<T>(digamma_of_positive(static_cast<double>(x)));
    }
};

struct Trigamma {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE static bool inside(T x) {
        return x > 0;
    }
    template <class T>
    static T slow(T value) {
        const double x = value;
        if (!(x <= 0) || x < std::numeric_limits<double>::lowest()) return nan<T>;
        if (x == std::floor(x)) return infinity<T>;
        const double turn = kPi / std::sin(kPi * (x - std::nearbyint(x)));
        return static_cast<T>(turn * turn - trigamma_of_positive(1 - x));
    }
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return static_cast<T>(trigamma_of_positive(static_cast<double>(x)));
    }
};

/// Hurwitz's zeta, the sum of (q + k)^-s, by Euler and Maclaurin's formula: infinite at the poles
/// s = 1 and q = 0, -1, ...; nan for s < 1, and for q < 0 unless s is an integer.
inline double zeta(double s, double q) {
    if (s == 1) return infinity<double>;
    if (!(s > 1) || q != q) return nan<double>;
    if (q <= 0 && q == std::floor(q)) return infinity<double>;
    if (q <= 0 && s != std::floor(s)) return nan<double>;
    double sum = 0, term = 0, y = q;
    for (int k = 0; k < 12 || y <= 12; ++k, y += 1) {
        term = std::pow(y, -s);
        sum += term;
        if (y > 0 && abs(term) < abs(sum) * 0x1p-54) return sum;
    }
    term = std::pow(y, -s);
    sum += y * term / (s - 1) + 0.5 * term;
    // Bernoulli numbers over factorials, B(2j) / (2j)!
    constexpr double ratios[] = {1.0 / 12,
                                 -1.0 / 720,
                                 1.0 / 30240,
                                 -1.0 / 1209600,
                                 1.0 / 47900160,
                                 -691.0 / 1307674368000,
                                 1.0 / 74724249600,
                                 -3617.0 / 10670622842880000,
                                 43867.0 / 5109094217170944000};
    double rising = s * term / y;
    for (int j = 0; j < 9; ++j) {
        const double part = rising * ratios[j];
        sum += part;
        if (abs(part) < abs(sum) * 0x1p-54) break;
        rising *= (s + 2 * j + 1) * (s + 2 * j + 2) / (y * y);
    }
    return sum;
}

/// e^(x^2) erfc(x): a rational fit, from 26 on the asymptotic series.
WEFT_INLINE double erfcx(double x) {
    const double a = abs(x), inverse = 0.5 / (a * a);
    constexpr double inverse_root_pi = 0x1.20dd750429b6dp-1;
    const double far =
        inverse_root_pi / a *
        polynomial(inverse, 1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0, -135135.0);
    const double right = select(a < 26, scaled_erfc(a < 26 ? a : 26), far);
    const double low = clamp(x, -30.0, 0.0), high = upper_half(low);  // infinite before -30
    const double left = 2 * exp(high * high) * exp((low - high) * (low + high));
    return x < 0 ? left - right : right;
}
WEFT_INLINE float erfcx(float x) { return static_cast<float>(erfcx(static_cast<double>(x))); }

/// The probability that a standard normal variable is below x.
WEFT_INLINE double ndtr(double x) { return 0.5 * erfc(-x * root_half<double>); }
WEFT_INLINE float ndtr(float x) { return static_cast<float>(ndtr(static_cast<double>(x))); }

/// The logarithm of the probability that a standard normal variable is below x.
WEFT_INLINE double log_ndtr(double x) {
    const double t = x * root_half<double>;
    const double a = t < 0 ? -t : 0;
    const double left = log(0.5 * erfcx(a)) - a * a;
    const double right = log1p(-0.5 * erfc(t));
    return x < -1 ? left : right;
}
WEFT_INLINE float log_ndtr(float x) { return static_cast<float>(log_ndtr(static_cast<double>(x))); }

}  // namespace weft::kernels::math
