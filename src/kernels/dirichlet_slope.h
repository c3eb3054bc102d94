/// The derivative of a Dirichlet number by its own concentration.
#pragma once

namespace weft::kernels {

/// Of a number x that has the distribution Beta(alpha, beta): dx/dalpha with its quantile held,
/// over 1 - x.
double dirichlet_slope(double x, double alpha, double beta);

}  // namespace weft::kernels
