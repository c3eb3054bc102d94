/// Convolutions whose groups have one input channel: no products worth the name, so each channel is
/// convolved where it lies in the first-level cache. The contracts are those of conv.h.
#pragma once
#include "kernels/conv.h"

namespace weft::kernels {

/// Whether the functions here take the shape: two dimensions, one input channel per group.
bool is_depthwise(const ConvShape& s);

template <class T>
void depthwise(const ConvShape& s, const T* x, const T* w, const T* bias, T* y);
template <class T>
void depthwise_transposed(const ConvShape& s, const T* dy, const T* w, T* dx);
template <class T>
void depthwise_weight(const ConvShape& s, const T* x, const T* dy, T* dw);

}  // namespace weft::kernels
