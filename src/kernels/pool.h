/// Pooling over planes of dense memory [planes, depth, height, width], T = float, double or
/// int64_t (averages cut off).
///
/// The window of an output is a product of one range per dim, given by tables, so that strided,
/// dilated and adaptive pooling are the same loops. A NaN wins; of equal values the first does.
#pragma once
#include <cstdint>

namespace weft::kernels {

/// For each output index of a dim its window: input indices begin, begin + step, ... below end.
struct PoolAxis {
    int64_t in, out, step;
    const int64_t *begin, *end;
    const int64_t* count;  ///< averages: what the dim contributes to the divisor
    bool pairs;            ///< the window of i is exactly 2i, 2i + 1
};

struct PoolShape {
    int64_t planes;
    PoolAxis axis[3];
    int64_t divisor;  ///< averages: used for every window unless 0
    int64_t in_size() const { return axis[0].in * axis[1].in * axis[2].in; }
    int64_t out_size() const { return axis[0].out * axis[1].out * axis[2].out; }
};

/// Largest values; `index`, their places in the plane, may be null. No window may be empty.
template <class T>
void max_pool(const PoolShape& s, const T* x, T* y, int64_t* index);

/// dx, which is overwritten, from dy; the places are found again in x.
template <class T>
void max_pool_backward(const PoolShape& s, const T* x, const T* dy, T* dx);

template <class T>
void avg_pool(const PoolShape& s, const T* x, T* y);
template <class T>
void avg_pool_backward(const PoolShape& s, const T* dy, T* dx);

}  // namespace weft::kernels
