/// Discrete Fourier transforms along the middle of an Axis, X[k] = sum x[j] exp(-2πi jk / n), of any
/// length n, multiplied by a factor. float and double; n >= 1. Same bits on any number of threads.
#pragma once
#include <complex>

#include "kernels/reduce.h"

namespace weft::kernels {

/// Complex numbers to complex numbers; `inverse`: exp(+2πi jk / n). y may be x.
template <class T>
void fft(const std::complex<T>* x, std::complex<T>* y, Axis axis, bool inverse, T factor);

/// Real numbers to the first n / 2 + 1 of their transform, or all n of it (`whole`).
template <class T>
void fft_of_real(const T* x, std::complex<T>* y, Axis axis, bool whole, T factor);

/// The inverse of that: n real numbers from the first n / 2 + 1 complex ones, of which the imaginary parts
/// at 0 and at n / 2 do not count.
template <class T>
void fft_to_real(const std::complex<T>* x, T* y, Axis axis, T factor);

}  // namespace weft::kernels
