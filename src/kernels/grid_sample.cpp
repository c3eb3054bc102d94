#include "kernels/grid_sample.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "base/parallel.h"
#include "kernels/simd_selecting.h"

namespace weft::kernels {
namespace {

/// Places whose taps are in a table at the same time.
constexpr int64_t kBlock = 64;
constexpr int kMostTaps = 16;

/// Pixels of a plane that places read, and their weights. Outside of the plane the pixel is the
/// first, of which `inside` keeps nothing: all its bits are 0, else 1.
template <class T>
struct Taps {
    using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    int count;
    T weight[kMostTaps][kBlock];
    int32_t at[kMostTaps][kBlock];
    Bits inside[kMostTaps][kBlock];

    WEFT_INLINE static T kept(T x, Bits inside) {
        return std::bit_cast<T>(std::bit_cast<Bits>(x) & inside);
    }
};

/// The same of one axis, with whole coordinates as T, as wide as the weights.
template <class T>
struct AxisTaps {
    T weight[4][kBlock];
    T at[4][kBlock];
};

/// Coordinates outside of n pixels as the padding sees them; `slope` is multiplied by the
/// derivative, which is 0 on the edge itself. NaN, also of a reflection between edges that are one,
/// is the first pixel.
template <class T>
WEFT_INLINE void place(const GridShape& s, int64_t size, int64_t n, T* __restrict x,
                       T* __restrict slope) {
    const T last = static_cast<T>(size - 1);
    if (s.padding == GridPadding::Reflection) {
        const T low = s.align ? T(0) : T(-0.5), span = s.align ? last : static_cast<T>(size);
#pragma GCC ivdep
        for (int64_t p = 0; p < n; ++p) {
            const T from = x[p] - low, far = std::fabs(from);
            const T times = std::floor(far / span);
            const T rest = far - times * span, half = times * T(0.5);
            const bool back = std::floor(half) != half;
            slope[p] *= (from < 0) != back ? T(-1) : T(1);
            x[p] = (back ? span - rest : rest) + low;
        }
    }
    if (s.padding != GridPadding::Zeros)
#pragma GCC ivdep
        for (int64_t p = 0; p < n; ++p) {
            const T here = x[p] > 0 ? x[p] : T(0);
            slope[p] = ((here > 0) & (here < last)) ? slope[p] : T(0);
            x[p] = here < last ? here : last;
        }
}

/// Tap j of four, and its weight by Keys (1981, a = -0.75), a polynomial of the distance, derived.
template <class T>
WEFT_INLINE void cubic_tap(int j, int order, int64_t n, const T* __restrict x,
                           const T* __restrict slope, T* __restrict at, T* __restrict weight) {
    const bool near = j == 1 || j == 2;
    T c3 = near ? T(1.25) : T(-0.75), c2 = near ? T(-2.25) : T(3.75), c1 = near ? T(0) : T(-6),
      c0 = near ? T(1) : T(3);
    for (int k = 0; k < order; ++k) c0 = c1, c1 = 2 * c2, c2 = 3 * c3, c3 = 0;
    const T sign = j < 2 ? T(1) : T(-1), step = static_cast<T>(j - 1);
#pragma GCC ivdep
    for (int64_t p = 0; p < n; ++p) {
        const T first = std::floor(x[p]), d = sign * (x[p] - first - step);
        at[p] = first + step;
        weight[p] = ((c3 * d + c2) * d + c1) * d + c0;
    }
    for (int k = 0; k < order; ++k)
#pragma GCC ivdep
        for (int64_t p = 0; p < n; ++p) weight[p] *= sign * slope[p];
}

/// The taps of one axis at places x; `slope`: of x by the grid's coordinate. Cubic weights are those
/// of x as it is, and each of their pixels goes where the padding has it.
template <class T>
WEFT_INLINE void axis_taps(const GridShape& s, int64_t size, int order, int64_t n,
                           const T* __restrict x, T* __restrict slope, AxisTaps<T>* to) {
    const bool cubic = s.mode == GridMode::Cubic;
    if (cubic)
#pragma GCC unroll 1
        for (int j = 0; j < 4; ++j) cubic_tap(j, order, n, x, slope, to->at[j], to->weight[j]);
    else std::copy(x, x + n, to->at[0]);
    for (int j = 0; j < (cubic ? 4 : 1); ++j) place(s, size, n, to->at[j], slope);
    const T value = order ? T(0) : T(1), by = order == 1 ? T(1) : T(0);
    if (s.mode == GridMode::Nearest) {
#pragma GCC ivdep
        for (int64_t p = 0; p < n; ++p) {
            to->at[0][p] = std::nearbyint(to->at[0][p]);
            to->weight[0][p] = value;
        }
    } else if (s.mode == GridMode::Linear) {
#pragma GCC ivdep
        for (int64_t p = 0; p < n; ++p) {
            const T here = to->at[0][p], first = std::floor(here), second = first + 1;
            to->at[0][p] = first;
            to->at[1][p] = second;
            to->weight[0][p] = value * (second - here) - by * slope[p];
            to->weight[1][p] = value * (here - first) + by * slope[p];
        }
    }
}

template <class T>
struct TapsOfBlock {
    using Bits = typename Taps<T>::Bits;
    static void make(const GridShape& s, const T* grid, int64_t n, Taps<T>* to) {
        // of float64 one version: few images are
        if constexpr (sizeof(T) == 4) per_isa_selecting<TapsOfBlock<T>>(&s, grid, n, to);
        else run(&s, grid, n, to);
    }
    WEFT_INLINE static void run(const GridShape* shape, const T* __restrict grid, int64_t given,
                                Taps<T>* __restrict to) {
        const GridShape s = *shape;
        // whole vectors: what lies behind the places is of no matter
        const int64_t n = (given + 15) & ~int64_t{15};
        const int each = s.mode == GridMode::Nearest ? 1 : s.mode == GridMode::Linear ? 2 : 4;
        T x[kBlock], slope[kBlock];
        AxisTaps<T> axis;
        int count = 1;
        std::fill(to->weight[0], to->weight[0] + n, T(1));
        std::fill(to->at[0], to->at[0] + n, 0);
        std::fill(to->inside[0], to->inside[0] + n, Bits(-1));
        for (int d = 0; d < s.dims; ++d) {
            const int64_t size = s.size[d];
            const int k = s.dims - 1 - d;
            const T half = static_cast<T>(s.align ? size - 1 : size) / 2;
            const T corner = s.align ? T(0) : T(0.5);
#pragma GCC ivdep
            for (int64_t p = 0; p < n; ++p) x[p] = -1;
            for (int64_t p = 0; p < given; ++p) x[p] = grid[p * s.dims + k];
#pragma GCC ivdep
            for (int64_t p = 0; p < n; ++p) {
                x[p] = (x[p] + 1) * half - corner;
                slope[p] = half;
            }
            axis_taps<T>(s, size, s.order[k], n, x, slope, &axis);
            const T last = static_cast<T>(size - 1);
            const auto stride = static_cast<int32_t>(size);
            // from the last on: none overwrites one that is still to be read
#pragma GCC unroll 1
            for (int t = count - 1; t >= 0; --t)
#pragma GCC unroll 1
                for (int j = each - 1; j >= 0; --j) {
                    const T *w = axis.weight[j], *at = axis.at[j], *outer = to->weight[t];
                    const int32_t* row = to->at[t];
                    const auto* before = to->inside[t];
                    const int to_tap = t * each + j;
#pragma GCC ivdep
                    for (int64_t p = 0; p < n; ++p) {
                        const bool here = (at[p] >= 0) & (at[p] <= last);
                        const auto kept = here ? before[p] : Bits(0);
                        const T pixel = here ? at[p] : T(0);
                        to->at[to_tap][p] =
                            kept ? row[p] * stride + static_cast<int32_t>(pixel) : 0;
                        to->inside[to_tap][p] = kept;
                        to->weight[to_tap][p] = outer[p] * w[p];
                    }
                }
            count *= each;
        }
        to->count = count;
    }
};

template <class T>
struct Sampled {
    WEFT_INLINE static void run(const Taps<T>* __restrict taps, int64_t n, const GridShape* s,
                                const T* __restrict x, T* __restrict y) {
        const int64_t plane = s->plane(), places = s->places;
        for (int64_t c = 0; c < s->channels; ++c, x += plane, y += places)
            for (int t = 0; t < taps->count; ++t) {
                const T* w = taps->weight[t];
                const int32_t* at = taps->at[t];
                const auto* inside = taps->inside[t];
                for (int64_t p = 0; p < n; ++p) {
                    const T part = w[p] * Taps<T>::kept(x[at[p]], inside[p]);
                    y[p] = t ? y[p] + part : part;
                }
            }
    }
};

/// sums[k][p], over the channels, of dy times the values of table k.
template <class T>
struct Slopes {
    WEFT_INLINE static void run(const Taps<T>* __restrict taps, int64_t n, const GridShape* s,
                                const T* __restrict x, const T* __restrict dy,
                                T (*__restrict sums)[kBlock]) {
        const int64_t plane = s->plane(), places = s->places;
        T part[kBlock];
        for (int64_t c = 0; c < s->channels; ++c, x += plane, dy += places)
            for (int t = 0; t < taps->count; ++t) {
                const int32_t* at = taps->at[t];
                const auto* inside = taps->inside[t];
                for (int64_t p = 0; p < n; ++p)
                    part[p] = dy[p] * Taps<T>::kept(x[at[p]], inside[p]);
                for (int k = 0; k < s->dims; ++k) {
                    const T* w = taps[k].weight[t];
                    for (int64_t p = 0; p < n; ++p) sums[k][p] += w[p] * part[p];
                }
            }
    }
};

/// Calls `body(image, first place, how many)` for all blocks of all images.
template <class Body>
void for_blocks(const GridShape& s, const Body& body) {
    const int64_t blocks = (s.places + kBlock - 1) / kBlock;
    const int64_t grain = std::max<int64_t>(1, 256 / std::max<int64_t>(1, s.channels));
    parallel_for(s.images * blocks, grain, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
            const int64_t first = b % blocks * kBlock;
            body(b / blocks, first, std::min(kBlock, s.places - first));
        }
    });
}

}  // namespace

template <class T>
void grid_sample(const GridShape& s, const T* x, const T* grid, T* y) {
    for_blocks(s, [&](int64_t i, int64_t first, int64_t n) {
        Taps<T> taps;
        TapsOfBlock<T>::make(s, grid + (i * s.places + first) * s.dims, n, &taps);
        per_isa_selecting<Sampled<T>>(&taps, n, &s, x + i * s.channels * s.plane(),
                                      y + i * s.channels * s.places + first);
    });
}

template <class T>
void grid_sample_input(const GridShape& s, const T* dy, const T* grid, T* dx) {
    const int64_t plane = s.plane(), planes = s.images * s.channels;
    // whole images where there are enough: the taps are those of all channels
    const int64_t grain =
        std::min<int64_t>(s.channels, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, s.places)));
    parallel_for(planes, std::max<int64_t>(1, grain), [&](int64_t begin, int64_t end) {
        std::fill(dx + begin * plane, dx + end * plane, T(0));
        Taps<T> taps;
        for (int64_t from = begin; from < end;) {
            const int64_t i = from / s.channels, to = std::min(end, (i + 1) * s.channels);
            for (int64_t first = 0; first < s.places; first += kBlock) {
                const int64_t n = std::min(kBlock, s.places - first);
                const T* at_grid = grid + (i * s.places + first) * s.dims;
                TapsOfBlock<T>::make(s, at_grid, n, &taps);
                for (int64_t c = from; c < to; ++c) {
                    const T* grad = dy + c * s.places + first;
                    T* sum = dx + c * plane;
                    for (int t = 0; t < taps.count; ++t)
                        for (int64_t p = 0; p < n; ++p)
                            if (taps.inside[t][p])
                                sum[taps.at[t][p]] += taps.weight[t][p] * grad[p];
                }
            }
            from = to;
        }
    });
}

template <class T>
void grid_sample_grid(const GridShape& s, const T* dy, const T* x, const T* grid, T* dgrid) {
    for_blocks(s, [&](int64_t i, int64_t first, int64_t n) {
        Taps<T> taps[3];
        T sums[3][kBlock] = {};
        const int64_t start = (i * s.places + first) * s.dims;
        for (int k = 0; k < s.dims; ++k) {
            TapsOfBlock<T>::make(s.derived(k), grid + start, n, &taps[k]);
        }
        per_isa_selecting<Slopes<T>>(taps, n, &s, x + i * s.channels * s.plane(),
                                     dy + i * s.channels * s.places + first, sums);
        for (int64_t p = 0; p < n; ++p)
            for (int k = 0; k < s.dims; ++k) dgrid[start + p * s.dims + k] = sums[k][p];
    });
}

#define WEFT_GRID_SAMPLE(T)                                                                        \
    template void grid_sample<T>(const GridShape&, const T*, const T*, T*);                        \
    template void grid_sample_input<T>(const GridShape&, const T*, const T*, T*);                  \
    template void grid_sample_grid<T>(const GridShape&, const T*, const T*, const T*, T*);
WEFT_GRID_SAMPLE(float)
WEFT_GRID_SAMPLE(double)
#undef WEFT_GRID_SAMPLE

}  // namespace weft::kernels
