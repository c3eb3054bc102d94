/// Padding of the last three dims of dense memory by the values of other places.
#pragma once
#include <cstdint>

namespace weft::kernels {

/// Which input each output of a dim reads: those in [first, last) neighbours, from `start` on, the others
/// what `edges` lists.
struct PadAxis {
    int64_t in = 1, out = 1, first = 0, last = 1, start = 0;
    const int64_t* edges = nullptr;

    int64_t from(int64_t i) const {
        if (i >= last) return edges[i - (last - first)];
        return i < first ? edges[i] : start + i - first;
    }
};

/// y [planes, out...] from x [planes, in...]; T is any type of the element's size: uint8_t to
/// uint64_t, or std::complex<double>.
template <class T>
void pad(const T* x, T* y, int64_t planes, const PadAxis (&axes)[3]);

/// The adjoint, T floating or complex: dx, which is overwritten, from dy.
template <class T>
void pad_backward(const T* dy, T* dx, int64_t planes, const PadAxis (&axes)[3]);

}  // namespace weft::kernels
