/// Padding of the last three dims of dense memory by the values of other places.
#pragma once
#include <cstdint>

namespace weft::kernels {

/// For each output index of a dim the input index it reads.
struct PadAxis {
    int64_t in, out;
    const int64_t* from;
};

/// y [planes, out...] from x [planes, in...]; T is any type of the element's size: uint8_t to
/// uint64_t, or std::complex<double>.
template <class T>
void pad(const T* x, T* y, int64_t planes, const PadAxis (&axes)[3]);

/// The adjoint, T floating or complex: dx, which is overwritten, from dy.
template <class T>
void pad_backward(const T* dy, T* dx, int64_t planes, const PadAxis (&axes)[3]);

}  // namespace weft::kernels
