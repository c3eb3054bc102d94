/// Where direct_conv.cpp lays an image and finds what each tap of the kernel reads.
///
/// Note [Taps by offset]
/// Channels of the source are copied between zeros into planes, one for each remainder of an index
/// by the stride. What a tap of the kernel adds to a vector of neighbouring pixels is then a vector
/// of one plane, a fixed offset away from what the first tap adds: a convolution is a product whose
/// right operand is read in place, and the taps of a channel meet in the first-level cache what one
/// of them loaded. The adjoint gathers: result pixels of one remainder by the stride get the same
/// taps from one plane, at offsets that fall.
#pragma once
#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/conv.h"

namespace weft::kernels::direct {

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Where a tap reads the source and its weight, from those of the first, in elements.
struct Tap {
    int64_t from, weight;
};

/// One dimension. An element of the source, and one of the result, is told by a cell and a
/// remainder: it is cell * split + remainder - pad.
struct Axis {
    struct Side {
        int64_t size, split, pad;
        /// The cells whose element is inside, of those from `cell` on or before it.
        int64_t begin(int64_t remainder, int64_t cell) const {
            return std::max(cell, remainder >= pad ? 0 : divide_up(pad - remainder, split));
        }
        int64_t end(int64_t remainder, int64_t cell) const {
            const int64_t room = size - 1 + pad - remainder;
            return std::min(cell, room < 0 ? 0 : room / split + 1);
        }
        int64_t first() const { return pad / split; }
        int64_t cells() const { return (size - 1 + pad) / split + 1 - first(); }
        /// Remainders that an element may have.
        int64_t remainders() const { return std::min(split, size + pad); }
    };
    int64_t taps, dilation, stride;
    int64_t reach;   ///< cells of the source that a cell of the result reads, less one
    int64_t period;  ///< from a tap to the next one of its remainder
    bool transposed;
    Side source, result;

    Axis(const ConvShape& s, int d, bool adjoint)
        : taps(s.kernel[d]), dilation(s.dilation[d]), stride(s.stride[d]),
          reach((taps - 1) * dilation / stride), period(stride / std::gcd(stride, dilation)),
          transposed(adjoint), source{s.in[d], stride, s.padding[d]}, result{s.out[d], 1, 0} {
        if (!transposed) return;
        result = source;
        source = {s.out[d], 1, reach};
    }
    int64_t planes() const { return transposed ? 1 : std::min(taps, period); }
    int64_t plane_of(int64_t tap) const { return transposed ? 0 : tap % period; }
    int64_t source_remainder(int64_t plane) const {
        return transposed ? 0 : plane * dilation % stride;
    }
    int64_t result_remainder(int64_t tap) const { return transposed ? tap * dilation % stride : 0; }
    /// Which cell a tap reads, counted from the first one that any reads.
    int64_t cell_of(int64_t tap) const {
        const int64_t cell = tap * dilation / stride;
        return transposed ? reach - cell : cell;
    }
};

struct Layout {
    Axis axis[3];
    int64_t size[3];   ///< cells of a plane
    int64_t band[2];   ///< cells of the result, in depth and height, that are done at a time
    int64_t bands[2];  ///< how many of them
    int64_t channel;   ///< elements of a channel's planes
    int64_t channels;  ///< whose planes are made at a time
    std::vector<std::vector<Tap>> passes;  ///< taps of the result's pixels of each remainder

    /// Bytes of planes that are made at a time.
    static constexpr int64_t plane_bytes = 1 << 19;
    /// Steps that sums are kept in registers for, at least, where there are so many.
    static constexpr int64_t least_steps = 512;

    /// At least `pieces` bands where there are so many rows.
    Layout(const ConvShape& s, bool transposed, int64_t all_channels, int64_t element_bytes,
           int64_t pieces)
        : axis{{s, 0, transposed}, {s, 1, transposed}, {s, 2, transposed}} {
        const int64_t room = plane_bytes / element_bytes;
        const int64_t row = planes() * (axis[2].result.cells() + axis[2].reach);
        const int64_t slice = axis[1].result.cells() + axis[1].reach;
        // Fewer channels rather than bands that have less than their taps reach beyond them.
        const int64_t fewest = std::min((axis[0].result.cells() + axis[0].reach) * slice,
                                        (2 * axis[0].reach + 1) * (2 * axis[1].reach + 1));
        const int64_t least = std::min(divide_up(least_steps, s.taps()), all_channels);
        channels = std::clamp(room / (row * fewest), least, all_channels);
        cut(std::max<int64_t>(1, room / (row * channels)), pieces);
        for (int d = 0; d < 3; ++d)
            size[d] = (d < 2 ? band[d] : axis[d].result.cells()) + axis[d].reach;
        // An odd number of cache lines, so that the channels share no sets of a cache.
        constexpr int64_t line = 16;
        channel = (divide_up(planes() * plane(), line) | 1) * line;
        find_taps();
    }
    int64_t plane() const { return size[0] * size[1] * size[2]; }
    int64_t planes() const { return axis[0].planes() * axis[1].planes() * axis[2].planes(); }
    /// The cells of the result that a band has.
    void bounds(int64_t index, int64_t (&first)[3], int64_t (&last)[3]) const {
        const int64_t of[3] = {index / bands[1] * band[0], index % bands[1] * band[1], 0};
        for (int d = 0; d < 3; ++d) {
            const int64_t cells = axis[d].result.cells(), begin = axis[d].result.first();
            first[d] = begin + of[d];
            last[d] = begin + (d < 2 ? std::min(cells, of[d] + band[d]) : cells);
        }
    }
    const std::vector<Tap>& pass(const int64_t (&left)[3]) const { return passes[index(left)]; }

private:
    int64_t index(const int64_t (&left)[3]) const {
        return (left[0] * axis[1].result.remainders() + left[1]) * axis[2].result.remainders() +
               left[2];
    }
    /// Bands of about so many rows of cells, those that are read included.
    void cut(int64_t rows, int64_t pieces) {
        const int64_t depth = axis[0].result.cells(), height = axis[1].result.cells();
        const int64_t slice = height + axis[1].reach;
        band[0] = std::clamp<int64_t>(rows / slice - axis[0].reach, 1, depth);
        band[1] = band[0] > 1
                      ? height
                      : std::clamp<int64_t>(rows / (axis[0].reach + 1) - axis[1].reach, 1, height);
        for (int d = 0; d < 2; ++d) {
            const int64_t cells = axis[d].result.cells();
            const int64_t parts =
                std::clamp(divide_up(cells, band[d]), std::min(pieces, cells), cells);
            pieces = divide_up(pieces, parts);
            band[d] = divide_up(cells, parts);
            bands[d] = divide_up(cells, band[d]);
        }
    }
    void find_taps() {
        passes.resize(axis[0].result.remainders() * axis[1].result.remainders() *
                      axis[2].result.remainders());
        int64_t k[3], weight = 0;
        for (k[0] = 0; k[0] < axis[0].taps; ++k[0])
            for (k[1] = 0; k[1] < axis[1].taps; ++k[1])
                for (k[2] = 0; k[2] < axis[2].taps; ++k[2], ++weight) {
                    int64_t plane_index = 0, cell = 0, left[3];
                    bool seen = true;
                    for (int d = 0; d < 3; ++d) {
                        plane_index = plane_index * axis[d].planes() + axis[d].plane_of(k[d]);
                        cell = cell * size[d] + axis[d].cell_of(k[d]);
                        left[d] = axis[d].result_remainder(k[d]);
                        seen &= left[d] < axis[d].result.remainders();
                    }
                    if (seen) passes[index(left)].push_back({plane_index * plane() + cell, weight});
                }
    }
};

}  // namespace weft::kernels::direct
