/// The derivative of a Dirichlet number by its own concentration.
#include "kernels/dirichlet_slope.h"

#include <cmath>

#include "kernels/math_gamma.h"

namespace weft::kernels {
namespace {

/// sum of t(n) (base + sum over k < n of 1 / (total + k) - [own] 1 / (c + k)), where t(0) = 1 and
/// t(n + 1) = t(n) z (total + n) / (c + n): the derivative of z's hypergeometric series.
double series_slope(double z, double total, double c, double base, bool own) {
    double term = 1, sum = 0;
    for (int n = 0; n < 1000000; ++n) {
        const double part = term * base;
        sum += part;
        const double ratio = z * (total + n) / (c + n);
        if (ratio < 1 && std::abs(part) < 1e-17 * (1 - ratio) * std::abs(sum)) break;
        if (!(term >= 1e-300)) break;  // gone, or not a number
        base += 1 / (total + n) - (own ? 1 / (c + n) : 0);
        term *= ratio;
    }
    return sum;
}

}  // namespace

/// Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", 2018: -(dF/dalpha) / f. F
/// is x^alpha (1 - x)^beta / (alpha B) times the series 2F1(total, 1; alpha + 1; x) (DLMF 8.17.8),
/// differentiated term by term; in the upper tail the series of 1 - F. Near 0 and near 1 it is the
/// short one. For large concentrations the normal distribution's first order.
double dirichlet_slope(double x, double alpha, double beta) {
    const double total = alpha + beta, rest = 1 - x;
    if (alpha > 1e7 && beta > 1e7) {
        const double spread = 0.5 * (1 / alpha - 2 / total - 1 / (total + 1));
        return (beta / (total * total) + (x - alpha / total) * spread) / rest;
    }
    const double by_alpha = std::log(x) + math::digamma_of_positive(total) -
                            math::digamma_of_positive(alpha);  // of log(x^alpha / B)
    const bool low = x < 0.5 && x * total < 10, high = rest < 0.5 && rest * total < 10;
    if (low || (!high && x * total <= alpha))
        return -x / alpha * series_slope(x, total, alpha + 1, by_alpha - 1 / alpha, true);
    return x / beta * series_slope(rest, total, beta + 1, by_alpha, false);
}

}  // namespace weft::kernels
