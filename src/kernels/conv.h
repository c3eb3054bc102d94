/// Convolution and its two gradients over dense memory, T = float, double or int64_t.
///
/// Images are [batch, channels, depth, height, width]; fewer spatial dims have size 1 in front.
/// The weight is [groups * out_channels, in_channels, kernel...]. What deep learning calls
/// convolution is the cross-correlation
///     y[n, o, i] = sum over c, k of w[o, c, k] * x[n, c, i * stride + k * dilation - padding],
/// zero outside of x. The same call gives the same bits on any number of threads.
#pragma once
#include <cstdint>

namespace weft::kernels {

struct ConvShape {
    int64_t batch, groups;
    int64_t in_channels, out_channels;  ///< of one group
    int64_t in[3], out[3];              ///< depth, height, width of x and of y
    int64_t kernel[3], stride[3], padding[3], dilation[3];

    int64_t in_size() const { return in[0] * in[1] * in[2]; }
    int64_t out_size() const { return out[0] * out[1] * out[2]; }
    int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
    int64_t columns() const { return in_channels * taps(); }
};

/// y from x and w; `bias` [groups * out_channels] may be null.
template <class T>
void conv(const ConvShape& s, const T* x, const T* w, const T* bias, T* y);

/// The adjoint in x: dx from dy and w. As an op of its own it is the transposed convolution.
template <class T>
void conv_transposed(const ConvShape& s, const T* dy, const T* w, T* dx);

/// The adjoint in w: dw from x and dy.
template <class T>
void conv_weight(const ConvShape& s, const T* x, const T* dy, T* dw);

/// The values under the kernel, [channels * taps, out], of one image, and the adjoint, which
/// overwrites x. `in_channels` counts all channels; groups and out_channels are not read.
template <class T>
void unfold(const ConvShape& s, const T* x, T* columns);
template <class T>
void fold(const ConvShape& s, const T* columns, T* x);

}  // namespace weft::kernels
