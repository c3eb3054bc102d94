/// How a transform of n numbers is made of short ones, and their factors.
#pragma once
#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

namespace weft::kernels {

/// exp(-2πi j / n), to the last bit or two of a double.
std::complex<double> unit_root(int64_t j, int64_t n);

/// The largest prime that a pass takes.
inline constexpr int most_radix = 13;

template <class T>
struct FftPlan {
    struct Pass {
        int radix;
        int64_t done;                           ///< the product of the radices before it
        int64_t rest;                           ///< that of those behind it
        std::vector<std::complex<T>> twiddles;  ///< radix - 1 for each of the `rest`
        std::vector<std::complex<T>> roots;     ///< of a radix beyond 5: exp(-2πi j / radix)
    };
    int64_t n = 1;
    std::vector<Pass> passes;
    // Of a length with a large prime factor, which has no passes:
    std::vector<std::complex<T>> chirp, weights;
    std::shared_ptr<const FftPlan> inner;  ///< of the convolution

    /// How many numbers are in work.
    int64_t longest() const { return inner ? inner->n : n; }
};

/// What a length has as factors up to most_radix; is_smooth: no others.
bool is_smooth(int64_t n);
/// The smallest m >= n that has no prime factors beyond 5.
int64_t next_smooth(int64_t n);

/// n, or the length of the convolution that makes a transform of n numbers that are not smooth:
/// X[k] = chirp[k] sum_j (x[j] chirp[j]) conj(chirp[k - j]) (Bluestein 1970).
int64_t longest_in_work(int64_t n);
/// exp(-πi j² / n) for j < n.
template <class T>
std::vector<std::complex<T>> chirp_of(int64_t n);
/// The transform of its conjugate as the convolution takes it, divided by its length.
template <class T>
std::vector<std::complex<T>> chirp_weights(const std::vector<std::complex<T>>& chirp);

/// The plan of a length; the latest ones are kept.
template <class T>
std::shared_ptr<const FftPlan<T>> fft_plan(int64_t n);

}  // namespace weft::kernels
