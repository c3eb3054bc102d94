/// Reductions, scans and row-wise normalisations over raw contiguous memory.
///
/// An input is seen as [outer, n, inner] with the reduced axis in the middle; a reduction writes
/// [outer, inner], everything else writes [outer, n, inner]. Rows are {rows, n, 1}; a full
/// reduction is {1, n, 1}. An in-place call (y == x) is allowed where the shapes agree.
///
/// The same call gives the same bits on any number of threads: work is cut by shape alone.
/// Floating sums are pairwise over blocks; integer ones wrap modulo 2^64.
/// Element types: float, double, int64_t, bool, where `Real` means float or double only.
#pragma once
#include <cstdint>
#include <type_traits>

namespace weft::kernels {

struct Axis {
    int64_t outer;
    int64_t n;
    int64_t inner;
};

/// What a sum or product of T is kept in: itself for floating types, int64_t for the others.
template <class T>
using SumOf = std::conditional_t<std::is_floating_point_v<T>, T, int64_t>;

/// Empty axis: 0 and 1.
template <class T>
void sum(const T* x, SumOf<T>* y, Axis axis);
template <class T>
void prod(const T* x, SumOf<T>* y, Axis axis);

/// Real. The sum, NaN counted as 0.
template <class T>
void nansum(const T* x, T* y, Axis axis);

/// Real. Empty axis: NaN.
template <class T>
void mean(const T* x, T* y, Axis axis);

/// Largest / smallest element; a NaN wins. n >= 1 or nothing to write (callers check).
template <class T>
void max(const T* x, T* y, Axis axis);
template <class T>
void min(const T* x, T* y, Axis axis);

/// Index of the first largest / smallest element, of the first NaN if there is one, and its value.
/// Either output may be null. n >= 1 or nothing to write (callers check).
template <class T>
void argmax(const T* x, T* value, int64_t* index, Axis axis);
template <class T>
void argmin(const T* x, T* value, int64_t* index, Axis axis);

/// Whether some / every element is nonzero (NaN counts as nonzero). Empty axis: false and true.
template <class T>
void any(const T* x, bool* y, Axis axis);
template <class T>
void all(const T* x, bool* y, Axis axis);

/// Real. Two passes: sum of (x - mean)^2 / max(0, n - correction); NaN or inf where that divides
/// by 0. With `root` the roots of these, also of those that T does not hold. `average` (the means)
/// may be null.
template <class T>
void var(const T* x, T* average, T* variance, double correction, Axis axis, bool root = false);

/// Real. sqrt(sum of squares), summed in double for float; not rescaled, so double values beyond
/// 1e154 overflow.
template <class T>
void norm2(const T* x, T* y, Axis axis);

/// Real. log(sum(exp(x))), shifted by the maximum. Empty axis or all -inf: -inf; any +inf: +inf.
template <class T>
void logsumexp(const T* x, T* y, Axis axis);

/// Running sums and products along the axis.
template <class T>
void cumsum(const T* x, SumOf<T>* y, Axis axis);
template <class T>
void cumprod(const T* x, SumOf<T>* y, Axis axis);

/// Real. y = exp(x - logsumexp(x)) and its logarithm, along the axis.
template <class T>
void softmax(const T* x, T* y, Axis axis);
template <class T>
void log_softmax(const T* x, T* y, Axis axis);

/// Real. From the forward's OUTPUT y and the gradient dy: dx = y * (dy - sum(y * dy)), and
/// dx = dy - exp(y) * sum(dy). dx may be dy.
template <class T>
void softmax_backward(const T* y, const T* dy, T* dx, Axis axis);
template <class T>
void log_softmax_backward(const T* y, const T* dy, T* dx, Axis axis);

/// Real. Over rows of n: y = (x - mean) * rstd * gamma + beta, with rstd = 1 / sqrt(var + eps) and
/// the biased variance. gamma, beta [n] may be null (1 and 0); mean, rstd [rows] may be null.
template <class T>
void layer_norm(const T* x, const T* gamma, const T* beta, double eps, T* y, T* mean, T* rstd,
                int64_t rows, int64_t n);

/// Real. From what the forward read and saved. Any of dx [rows, n], dgamma [n], dbeta [n] may be
/// null and is then not computed; they are overwritten, not accumulated. gamma may be null.
template <class T>
void layer_norm_backward(const T* dy, const T* x, const T* gamma, const T* mean, const T* rstd,
                         T* dx, T* dgamma, T* dbeta, int64_t rows, int64_t n);

}  // namespace weft::kernels
