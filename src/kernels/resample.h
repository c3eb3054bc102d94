/// Resampling of one axis of dense memory [outer, n, inner]: each output is a weighted sum of a few
/// inputs. T = float or double.
#pragma once
#include <cstdint>

namespace weft::kernels {

/// Output i is the sum over t < taps of weight[i * taps + t] * x[index[i * taps + t]].
struct ResampleAxis {
    int64_t in, out, taps;
    const int64_t* index;
    const double* weight;
};

template <class T>
void resample(const T* x, T* y, int64_t outer, int64_t inner, const ResampleAxis& axis);

/// The same of bytes, by Pillow's arithmetic, which is PyTorch's: weights are integers of 16 bits,
/// with as many bits behind the point as the largest leaves, and sums are rounded and clamped.
void resample_bytes(const uint8_t* x, uint8_t* y, int64_t outer, int64_t inner,
                    const ResampleAxis& axis);

/// The adjoint: dx, which is overwritten, from dy.
template <class T>
void resample_backward(const T* dy, T* dx, int64_t outer, int64_t inner, const ResampleAxis& axis);

}  // namespace weft::kernels
