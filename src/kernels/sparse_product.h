/// Products of a matrix that is told by the places and values of its elements.
///
/// The same call gives the same bits on any number of threads.
#pragma once
#include <cstdint>

namespace weft::kernels {

/// The places of `count` elements.
struct Places {
    int64_t count;
    const int64_t *rows, *cols;
};

/// Adds to each row of `out`, dense rows of `width`, its elements times the rows of `dense` that their columns
/// name, in the order of the elements.
template <class T>
void sparse_product(const Places& places, const T* values, const T* dense, int64_t width, T* out);

/// For each place the dot product of a row of `a` and one of `b`, dense rows of `width`.
template <class T>
void sparse_dots(const Places& places, const T* a, const T* b, int64_t width, T* out);

}  // namespace weft::kernels
