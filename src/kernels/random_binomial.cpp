#include "kernels/random_binomial.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "kernels/random_fill.h"

namespace weft::kernels {
namespace {

/// Failures before each success are geometric numbers: they are drawn until they fill the trials
/// (Devroye, "Non-uniform random variate generation", 1986, X.4.3).
template <class T>
T by_waiting(Generator& generator, T count, T prob) {
    const double log_failure = std::log1p(-prob);
    double trials = 0;
    for (T successes = 0;; ++successes) {
        trials += std::ceil(std::log(unit_double(generator)) / log_failure);
        if (!(trials <= static_cast<double>(count))) return successes;
    }
}

/// What Stirling's formula leaves of log(k!).
double stirling_rest(double k) {
    const double next = k + 1;
    if (k < 10)
        return std::lgamma(next) - 0.5 * std::log(2 * std::numbers::pi) -
               (k + 0.5) * std::log(next) + next;
    const double square = next * next;
    return (1. / 12 - (1. / 360 - 1. / 1260 / square) / square) / next;
}

/// Transformed rejection with squeeze: Hoermann, "The generation of binomial random variates", 1993,
/// algorithm BTRS. For counts and probabilities up to 1/2 whose product is 10 or more.
template <class T>
T binomial_by_rejection(Generator& generator, T count, T prob) {
    const double n = count, p = prob, deviation = std::sqrt(count * prob * (1 - prob));
    const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p;
    const double centre = static_cast<double>(count * prob) + 0.5, sure = 0.92 - 4.2 / b;
    const double ratio = prob / (1 - prob), alpha = (2.83 + 5.1 / b) * deviation;
    const double mode = std::floor((count + 1) * prob);
    while (true) {
        const double u = unit_double(generator) - 0.5, v = unit_double(generator);
        const double distance = 0.5 - std::fabs(u);
        const T drawn = static_cast<T>(std::floor((2 * a / distance + b) * u + centre));
        if (distance >= 0.07 && v <= sure) return drawn;
        const double k = drawn;
        if (k < 0 || k > n) continue;
        const double bound = (mode + 0.5) * std::log((mode + 1) / (ratio * (n - mode + 1))) +
                             (n + 1) * std::log((n - mode + 1) / (n - k + 1)) +
                             (k + 0.5) * std::log(ratio * (n - k + 1) / (k + 1)) +
                             stirling_rest(mode) + stirling_rest(n - mode) - stirling_rest(k) -
                             stirling_rest(n - k);
        if (std::log(v * alpha / (a / (distance * distance) + b)) <= bound) return drawn;
    }
}

/// For probabilities up to 1/2.
template <class T>
T fewer_than_half(Generator& generator, T count, T prob) {
    return count * prob >= 10 ? binomial_by_rejection(generator, count, prob)
                              : by_waiting(generator, count, prob);
}

}  // namespace

template <class T>
void binomial(Generator& generator, T* out, const T* counts, const T* probs, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        const T count = counts[i], prob = probs[i];
        if (std::isnan(count) || std::isnan(prob)) out[i] = std::numeric_limits<T>::quiet_NaN();
        else if (count <= 0 || prob <= 0) out[i] = 0;
        else if (prob >= 1) out[i] = count;
        else if (prob <= T(0.5)) out[i] = fewer_than_half(generator, count, prob);
        else out[i] = count - fewer_than_half(generator, count, static_cast<T>(1.0 - prob));
    }
}

template void binomial(Generator&, float*, const float*, const float*, int64_t);
template void binomial(Generator&, double*, const double*, const double*, int64_t);

}  // namespace weft::kernels
