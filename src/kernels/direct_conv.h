/// Convolution and its adjoint without columns: register tiles of channels by pixels read the image
/// through the taps' offsets. The contracts are those of conv.h.
#pragma once
#include "kernels/conv.h"

namespace weft::kernels {

/// Whether that is the way: nothing is empty, a pixel is read by several taps, rows fill vectors,
/// and there is not far more padding than image.
bool is_direct(const ConvShape& s, bool transposed);

template <class T>
void direct_conv(const ConvShape& s, const T* x, const T* w, const T* bias, T* y);
template <class T>
void direct_conv_transposed(const ConvShape& s, const T* dy, const T* w, T* dx);

}  // namespace weft::kernels
