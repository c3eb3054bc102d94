/// Images read at places between their pixels, and the adjoints. T = float or double.
///
/// A value is a sum over taps: pixels around the place, each times a product of weights, one per
/// axis, that depend on the place. `order` says how often the weights of each axis are derived by the
/// grid's coordinate, so that derivatives of every order are calls of the same three functions.
#pragma once
#include <cstdint>

namespace weft::kernels {

enum class GridMode : uint8_t { Linear, Nearest, Cubic };
enum class GridPadding : uint8_t { Zeros, Border, Reflection };

struct GridShape {
    int dims;         ///< 2 or 3
    int64_t size[3];  ///< of a plane, the slowest first: less than 2^31 pixels in all
    GridMode mode;
    GridPadding padding;
    bool align;    ///< -1 and 1 are the centres of the corner pixels, not their corners
    int order[3];  ///< of the grid's coordinates: the fastest axis first
    int64_t images, channels, places;

    int64_t plane() const { return size[0] * size[1] * (dims == 3 ? size[2] : 1); }
    GridShape derived(int coordinate) const {
        GridShape s = *this;
        ++s.order[coordinate];
        return s;
    }
};

/// y [images, channels, places] from x [images, channels, plane] and grid [images, places, dims].
template <class T>
void grid_sample(const GridShape& s, const T* x, const T* grid, T* y);

/// dx, which is overwritten, from dy: the adjoint in x.
template <class T>
void grid_sample_input(const GridShape& s, const T* dy, const T* grid, T* dx);

/// dgrid [images, places, dims]: the sum over the channels of dy times y's derivatives by the grid.
template <class T>
void grid_sample_grid(const GridShape& s, const T* dy, const T* x, const T* grid, T* dgrid);

}  // namespace weft::kernels
