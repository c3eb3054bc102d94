/// Poisson numbers, drawn as PyTorch draws them.
#include <cmath>

#include "kernels/random.h"
#include "kernels/random_fill.h"

namespace weft::kernels {
namespace {

/// Uniform factors until their product falls to exp(-rate) (Knuth, volume 2, 3.4.1).
int64_t by_products(Generator& generator, double rate) {
    const double limit = std::exp(-rate);
    double product = 1;
    for (int64_t count = 0;; ++count) {
        product *= unit_double(generator);
        if (product <= limit) return count;
    }
}

/// Transformed rejection with squeeze: Hoermann, "The transformed rejection method for generating
/// Poisson random variables", 1993, algorithm PTRS. For rates of 10 and more.
int64_t poisson_by_rejection(Generator& generator, double rate) {
    const double log_rate = std::log(rate);
    const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
    const double log_inverse_alpha = std::log(1.1239 + 1.1328 / (b - 3.4));
    const double sure = 0.9277 - 3.6224 / (b - 2);
    while (true) {
        const double u = unit_double(generator) - 0.5, v = unit_double(generator);
        const double distance = 0.5 - std::fabs(u);
        const auto k = static_cast<int64_t>(std::floor((2 * a / distance + b) * u + rate + 0.43));
        if (distance >= 0.07 && v <= sure) return k;
        if (k < 0 || (distance < 0.013 && v > distance)) continue;
        const double bound = std::log(a / (distance * distance) + b);
        const auto count = static_cast<double>(k);
        if (std::log(v) + log_inverse_alpha - bound <=
            -rate + count * log_rate - std::lgamma(count + 1))
            return k;
    }
}

}  // namespace

template <class T>
void poisson(Generator& generator, T* out, const T* rates, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        const auto rate = static_cast<double>(rates[i]);
        const int64_t k = rate >= 10  ? poisson_by_rejection(generator, rate)
                          : rate == 0 ? 0
                                      : by_products(generator, rate);
        out[i] = static_cast<T>(k);
    }
}

template void poisson(Generator&, float*, const float*, int64_t);
template void poisson(Generator&, double*, const double*, int64_t);

}  // namespace weft::kernels
