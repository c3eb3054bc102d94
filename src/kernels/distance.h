/// Distances between all pairs of rows of two matrices, T = float or double.
///
/// The same call gives the same bits on any number of threads.
#pragma once
#include <cstdint>

namespace weft::kernels {

/// The norm of the difference: sum of magnitudes, Euclidean, largest magnitude (a NaN wins).
enum class Metric : uint8_t { One, Two, Max };

/// `batch` pairs of matrices a [rows, width] and b [others, width].
struct PairSizes {
    int64_t batch, rows, others, width;
};

/// y [batch, rows, others]. Everything dense.
template <class T>
void distances(Metric p, const PairSizes& n, const T* a, const T* b, T* y);

/// The gradients of a and b from that of y. Equal points have none; of several largest differences
/// each has the whole.
template <class T>
void distances_backward(Metric p, const PairSizes& n, const T* dy, const T* a, const T* b,
                        const T* y, T* da, T* db);

}  // namespace weft::kernels
