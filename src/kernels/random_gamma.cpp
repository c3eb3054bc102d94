/// Gamma numbers, drawn as PyTorch draws them, and their derivatives by the shape.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/math_gamma.h"
#include "kernels/random.h"
#include "kernels/random_fill.h"

namespace weft::kernels {
namespace {

/// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.
double gamma_value(Generator& generator, double alpha) {
    double scale = 1;
    if (alpha == 0) return 0;
    if (alpha < 1) {  // a number of shape alpha + 1 times a power of a uniform one
        scale = std::pow(1 - unit_double(generator), 1 / alpha);
        alpha += 1;
    }
    constexpr double third = 1.0f / 3.0f;  // as rounded by PyTorch
    const double d = alpha - third, c = 1 / std::sqrt(9 * d);
    while (true) {
        double x, y;
        do {
            x = normal_value(generator, 0, 1);
            y = 1 + c * x;
        } while (y <= 0);
        const double v = y * y * y, u = 1 - unit_double(generator), square = x * x;
        if (u < 1 - 0.0331 * square * square) return scale * d * v;
        if (std::log(u) < 0.5 * square + d * (1 - v + std::log(v))) return scale * d * v;
    }
}

}  // namespace

template <class T>
void standard_gamma(Generator& generator, T* out, const T* alpha, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        const auto drawn = static_cast<T>(gamma_value(generator, alpha[i]));
        out[i] = std::max(std::numeric_limits<T>::min(), drawn);
    }
}

template void standard_gamma(Generator&, float*, const float*, int64_t);
template void standard_gamma(Generator&, double*, const double*, int64_t);

/// Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", 2018. F by its power series
/// (DLMF 8.7.1), term by term differentiated; far out 1 - F by its asymptotic one (8.11.2); for
/// large alpha the normal distribution's first order.
double standard_gamma_slope(double alpha, double x) {
    if (alpha > 1e5) return 1 + (x - alpha) / (2 * alpha);
    const double log_x = std::log(x), digamma = math::digamma_of_positive(alpha);
    if (x > alpha + 4 * std::sqrt(alpha) + 18) {
        double term = 1, slope = 0, sum = 1, sum_slope = 0;  // of products of (alpha - j) / x
        for (int j = 1; j < alpha + x; ++j) {
            slope = (slope * (alpha - j) + term) / x;
            term *= (alpha - j) / x;
            sum += term;
            sum_slope += slope;
            if (std::abs(term) + std::abs(slope) < 1e-17 * std::abs(sum)) break;
        }
        return sum * (log_x - digamma) + sum_slope;
    }
    double term = x / alpha, derivative = digamma + 1 / alpha, sum = 0;
    for (int n = 1; n < 20000; ++n) {
        const double part = term * (derivative - log_x);
        sum += part;
        if (n > x && std::abs(part) < 1e-17 * std::abs(sum)) break;
        if (term < 1e-300) break;
        derivative += 1 / (alpha + n);
        term *= x / (alpha + n);
    }
    return sum;
}

}  // namespace weft::kernels
