/// Note [Flat channels]
/// A channel is copied between zeros into planes, one for each remainder of row and column by the
/// strides. What tap t of output pixel (i, j) reads then lies at i * pitch + j + offset[t]: over all
/// pixels of the output at once, laid out with the same pitch, a tap is one long row. The few
/// pixels between its rows are computed and thrown away.
#include "kernels/depthwise.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "kernels/vector.h"

namespace weft::kernels {
namespace {

using namespace vec;

/// Elements that whole blocks of vectors may pass the end by.
constexpr int64_t slack = 128;
/// Multiply-adds that one thread takes at a time: about 20 microseconds.
constexpr int64_t grain_work = 1 << 18;

struct Flat {
    int64_t pitch, rows, plane;  ///< of a plane: columns, rows, and their product
    int64_t planes;
    int64_t pixels;               ///< of the output with this pitch, up to the last one
    int64_t reach;                ///< the largest offset within a plane
    std::vector<int64_t> offset;  ///< of each tap, its plane included

    explicit Flat(const ConvShape& s) {
        const auto padded = [&](int d) {
            return std::max(s.in[d] + 2 * s.padding[d],
                            (s.out[d] - 1) * s.stride[d] + (s.kernel[d] - 1) * s.dilation[d] + 1);
        };
        rows = (padded(1) + s.stride[1] - 1) / s.stride[1];
        pitch = (padded(2) + s.stride[2] - 1) / s.stride[2];
        plane = rows * pitch;
        planes = s.stride[1] * s.stride[2];
        pixels = (s.out[1] - 1) * pitch + s.out[2];
        reach = 0;
        for (int64_t i = 0; i < s.kernel[1]; ++i)
            for (int64_t j = 0; j < s.kernel[2]; ++j) {
                const int64_t y = i * s.dilation[1], x = j * s.dilation[2];
                const int64_t within = y / s.stride[1] * pitch + x / s.stride[2];
                offset.push_back((y % s.stride[1] * s.stride[2] + x % s.stride[2]) * plane +
                                 within);
                reach = std::max(reach, within);
            }
    }
    int64_t taps() const { return static_cast<int64_t>(offset.size()); }
    int64_t elements() const { return planes * plane + slack; }

    /// Calls body(element of the planes, element of the image, count, step): image columns that are
    /// neighbours in a plane are `step` apart in the image.
    template <class Body>
    void for_runs(const ConvShape& s, const Body& body) const {
        const int64_t step = s.stride[2];
        for (int64_t y = 0; y < s.in[1]; ++y) {
            const int64_t py = y + s.padding[1];
            for (int64_t first = 0; first < std::min(step, s.in[2]); ++first) {
                const int64_t px = first + s.padding[2];
                const int64_t at = (py % s.stride[1] * step + px % step) * plane +
                                   py / s.stride[1] * pitch + px / step;
                body(at, y * s.in[2] + first, (s.in[2] - first + step - 1) / step, step);
            }
        }
    }
    template <class T>
    void fill(const ConvShape& s, const T* image, T* to) const {
        for_runs(s, [&](int64_t at, int64_t from, int64_t count, int64_t step) {
            if (step == 1) std::copy_n(image + from, count, to + at);
            else
                for (int64_t i = 0; i < count; ++i) to[at + i] = image[from + i * step];
        });
    }
    template <class T>
    void read(const ConvShape& s, const T* from, T* image) const {
        for_runs(s, [&](int64_t at, int64_t to, int64_t count, int64_t step) {
            for (int64_t i = 0; i < count; ++i) image[to + i * step] = from[at + i];
        });
    }
};

/// to[j] = start + sum of w[t] * from[j + offset[t]], j < n and a little further.
template <class T>
struct Correlate {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(int64_t n, int64_t taps, const int64_t* offset, const T* w,
                                    T start, const T* from, T* to) {
            constexpr int lanes = Simd<T, Bytes>::lanes, wide = 8;
            using V = typename Simd<T, Bytes>::Vector;
            int64_t j = 0;
            for (; j + (wide - 1) * lanes < n; j += wide * lanes)
                block<Bytes, wide>(j, taps, offset, w, V{} + start, from, to);
            for (; j < n; j += lanes) block<Bytes, 1>(j, taps, offset, w, V{} + start, from, to);
        }
    };
    template <int Bytes, int Vecs>
    WEFT_INLINE static void block(int64_t j, int64_t taps, const int64_t* offset, const T* w,
                                  const typename Simd<T, Bytes>::Vector& start, const T* from,
                                  T* to) {
        constexpr int lanes = Simd<T, Bytes>::lanes;
        typename Simd<T, Bytes>::Vector acc[Vecs];
#pragma GCC unroll 8
        for (int v = 0; v < Vecs; ++v) acc[v] = start;
        for (int64_t t = 0; t < taps; ++t) {
            const typename Simd<T, Bytes>::Vector x = w[t] - typename Simd<T, Bytes>::Vector{};
            const T* at = from + j + offset[t];
#pragma GCC unroll 8
            for (int v = 0; v < Vecs; ++v) acc[v] += x * load<T, Bytes>(at + v * lanes);
        }
#pragma GCC unroll 8
        for (int v = 0; v < Vecs; ++v) store<T, Bytes>(to + j + v * lanes, acc[v]);
    }
};

/// What CorrelateRows needs to know beside pointers: rows and columns of the output and of the
/// kernel, and the offsets of the taps of the kernel's first row.
struct Grid {
    int64_t pitch, rows, cols, taps_down, taps_across;
    const int64_t* across;
};

/// The same for rows that lie side by side in one plane, several rows of the output at a time: what
/// is loaded for one tap serves every row that has another tap of its column there. Loads are what
/// Correlate waits for, as most of a tap's vectors lie in two cache lines.
template <class T>
struct CorrelateRows {
    /// Rows of a block, and the fewest taps down that it can do.
    static constexpr int together = 4, fewest = together - 1;

    static bool takes(const ConvShape& s) {
        return s.stride[1] == 1 && s.dilation[1] == 1 && s.kernel[1] >= fewest &&
               s.out[1] >= together;
    }

    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(Grid g, const T* w, T start, const T* from, T* to) {
            constexpr int lanes = Simd<T, Bytes>::lanes, widest = Bytes == 64 ? 4 : 2;
            for (int64_t row = 0; row < g.rows; row += together) {
                // The last block may do rows again.
                const int64_t r = std::min(row, g.rows - together);
                const T* in = from + r * g.pitch;
                int64_t j = 0;
                const auto some = [&]<int Vecs>() __attribute__((always_inline)) {
                    block<Bytes, Vecs>(g, w, start, in + j, g.cols - j, to + r * g.cols + j);
                    j += Vecs * lanes;
                };
                while (j + (widest / 2) * lanes < g.cols) some.template operator()<widest>();
                if constexpr (widest > 2)
                    if (j + lanes < g.cols) some.template operator()<2>();
                while (j < g.cols) some.template operator()<1>();
            }
        }
    };

    template <int Bytes, int Vecs>
    WEFT_INLINE static void block(const Grid& g, const T* w, T start, const T* from, int64_t cols,
                                  T* to) {
        constexpr int lanes = Simd<T, Bytes>::lanes;
        using V = typename Simd<T, Bytes>::Vector;
        V acc[together][Vecs];
#pragma GCC unroll 4
        for (int r = 0; r < together; ++r)
#pragma GCC unroll 4
            for (int v = 0; v < Vecs; ++v) acc[r][v] = V{} + start;
        const int64_t step = g.taps_across;
        for (int64_t t = 0; t < g.taps_across; ++t) {
            const T *at = from + g.across[t], *tap = w + t;
            V x[Vecs];
            const auto next = [&]() __attribute__((always_inline)) {
#pragma GCC unroll 4
                for (int v = 0; v < Vecs; ++v) x[v] = load<T, Bytes>(at + v * lanes);
                at += g.pitch;
            };
            const auto add = [&](int r, const T& weight) __attribute__((always_inline)) {
                const V by = weight - V{};
#pragma GCC unroll 4
                for (int v = 0; v < Vecs; ++v) acc[r][v] += by * x[v];
            };
            // Rows of the image that only the first rows of the block, all, only the last ones see.
#pragma GCC unroll 4
            for (int i = 0; i < together - 1; ++i) {
                next();
#pragma GCC unroll 4
                for (int r = 0; r <= i; ++r) add(r, tap[(i - r) * step]);
            }
            for (int64_t i = together - 1; i < g.taps_down; ++i, tap += step) {
                next();
#pragma GCC unroll 4
                for (int r = 0; r < together; ++r) add(r, tap[(together - 1 - r) * step]);
            }
#pragma GCC unroll 4
            for (int i = 0; i < together - 1; ++i) {
                next();
#pragma GCC unroll 4
                for (int r = i + 1; r < together; ++r) add(r, tap[(together - 1 + i - r) * step]);
            }
        }
        const bool whole = cols >= Vecs * lanes;
#pragma GCC unroll 4
        for (int r = 0; r < together; ++r) {
            alignas(64) T part[Vecs * lanes];
            T* const row = whole ? to + r * g.cols : part;
#pragma GCC unroll 4
            for (int v = 0; v < Vecs; ++v) store<T, Bytes>(row + v * lanes, acc[r][v]);
            if (!whole) std::copy_n(part, cols, to + r * g.cols);
        }
    }
};

/// sums[t] += sum over j < n of g[j] * from[j + offset[t]]; g is 0 up to the next whole vector.
template <class T>
struct Dots {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(int64_t n, int64_t taps, const int64_t* offset, const T* g,
                                    const T* from, T* sums) {
            constexpr int together = 8;
            int64_t t = 0;
            for (; t + together <= taps; t += together)
                some<Bytes, together>(n, offset + t, g, from, sums + t);
            for (; t < taps; ++t) some<Bytes, 1>(n, offset + t, g, from, sums + t);
        }
    };
    template <int Bytes, int Taps>
    WEFT_INLINE static void some(int64_t n, const int64_t* offset, const T* g, const T* from,
                                 T* sums) {
        constexpr int lanes = Simd<T, Bytes>::lanes;
        typename Simd<T, Bytes>::Vector acc[Taps] = {};
        const T* at[Taps];
#pragma GCC unroll 8
        for (int t = 0; t < Taps; ++t) at[t] = from + offset[t];
        for (int64_t j = 0; j < n; j += lanes) {
            const typename Simd<T, Bytes>::Vector x = load<T, Bytes>(g + j);
#pragma GCC unroll 8
            for (int t = 0; t < Taps; ++t) acc[t] += x * load<T, Bytes>(at[t] + j);
        }
#pragma GCC unroll 8
        for (int t = 0; t < Taps; ++t) {
            T total = 0;
            for (int i = 0; i < lanes; ++i) total += acc[t][i];
            sums[t] += total;
        }
    }
};

template <class T, class Body>
void for_channels(const ConvShape& s, const Flat& flat, const Body& body) {
    const int64_t work = flat.pixels * flat.taps() * s.out_channels;
    parallel_for(s.batch * s.groups, std::max<int64_t>(1, grain_work / std::max<int64_t>(1, work)),
                 body);
}

/// Output rows to and from the flat layout.
template <class T>
void spread(const ConvShape& s, const Flat& flat, const T* rows, T* to) {
    for (int64_t i = 0; i < s.out[1]; ++i)
        std::copy_n(rows + i * s.out[2], s.out[2], to + i * flat.pitch);
}
template <class T>
void gather(const ConvShape& s, const Flat& flat, const T* from, T* rows) {
    for (int64_t i = 0; i < s.out[1]; ++i)
        std::copy_n(from + i * flat.pitch, s.out[2], rows + i * s.out[2]);
}

template <class T>
std::unique_ptr<T[]> zeros(int64_t n) {
    return std::unique_ptr<T[]>(new T[n]());
}

}  // namespace

bool is_depthwise(const ConvShape& s) {
    return s.in_channels == 1 && s.in[0] == 1 && s.out[0] == 1 && s.kernel[0] == 1 &&
           s.padding[0] == 0 && s.groups > 1 && s.out_size() > 0 && s.in_size() > 0;
}

template <class T>
void depthwise(const ConvShape& s, const T* x, const T* w, const T* bias, T* y) {
    const Flat flat(s);
    const bool by_rows = CorrelateRows<T>::takes(s);
    const Grid grid{flat.pitch, s.out[1], s.out[2], s.kernel[1], s.kernel[2], flat.offset.data()};
    for_channels<T>(s, flat, [&](int64_t begin, int64_t end) {
        const auto image = zeros<T>(flat.elements()),
                   out = zeros<T>(by_rows ? 0 : flat.pixels + slack);
        const T* const from = image.get();
        for (int64_t c = begin; c < end; ++c) {
            flat.fill(s, x + c * s.in_size(), image.get());
            for (int64_t o = 0; o < s.out_channels; ++o) {
                const int64_t filter = c % s.groups * s.out_channels + o;
                const T *weights = w + filter * flat.taps(), start = bias ? bias[filter] : T(0);
                T* const to = y + (c * s.out_channels + o) * s.out_size();
                if (by_rows) {
                    per_width<CorrelateRows<T>::template Body>(grid, weights, start, from, to);
                    continue;
                }
                per_width<Correlate<T>::template Body>(flat.pixels, flat.taps(), flat.offset.data(),
                                                       weights, start, from, out.get());
                gather(s, flat, out.get(), to);
            }
        }
    });
}

template <class T>
void depthwise_transposed(const ConvShape& s, const T* dy, const T* w, T* dx) {
    const Flat flat(s);
    // Element e of a plane gets w[t] * dy[e - offset of t in it], from the taps of that plane. The
    // outputs of several filters are one longer list of taps.
    const int64_t span = flat.reach + flat.plane + slack;
    struct Tap {
        int64_t index, offset;
    };
    std::vector<std::vector<Tap>> by_plane(flat.planes);
    for (int64_t o = 0; o < s.out_channels; ++o)
        for (int64_t t = 0; t < flat.taps(); ++t)
            by_plane[flat.offset[t] / flat.plane].push_back(
                {o * flat.taps() + t, o * span - flat.offset[t] % flat.plane});
    for_channels<T>(s, flat, [&](int64_t begin, int64_t end) {
        const auto grads = zeros<T>(s.out_channels * span), planes = zeros<T>(flat.elements());
        std::vector<int64_t> offsets;
        std::vector<T> weights;
        for (int64_t c = begin; c < end; ++c) {
            const T* filters = w + c % s.groups * s.out_channels * flat.taps();
            for (int64_t o = 0; o < s.out_channels; ++o)
                spread(s, flat, dy + (c * s.out_channels + o) * s.out_size(),
                       grads.get() + o * span + flat.reach);
            for (int64_t p = 0; p < flat.planes; ++p) {
                offsets.clear(), weights.clear();
                for (const Tap& tap : by_plane[p])
                    offsets.push_back(tap.offset), weights.push_back(filters[tap.index]);
                per_width<Correlate<T>::template Body>(
                    flat.plane, static_cast<int64_t>(offsets.size()),
                    static_cast<const int64_t*>(offsets.data()),
                    static_cast<const T*>(weights.data()), T(0),
                    static_cast<const T*>(grads.get()) + flat.reach, planes.get() + p * flat.plane);
            }
            flat.read(s, planes.get(), dx + c * s.in_size());
        }
    });
}

template <class T>
void depthwise_weight(const ConvShape& s, const T* x, const T* dy, T* dw) {
    const Flat flat(s);
    const int64_t work = s.batch * flat.pixels * flat.taps() * s.out_channels;
    const int64_t grain = std::max<int64_t>(1, grain_work / std::max<int64_t>(1, work));
    parallel_for(s.groups, grain, [&](int64_t begin, int64_t end) {
        const auto image = zeros<T>(flat.elements()), grad = zeros<T>(flat.pixels + slack);
        std::fill_n(dw + begin * s.out_channels * flat.taps(),
                    (end - begin) * s.out_channels * flat.taps(), T(0));
        for (int64_t g = begin; g < end; ++g)
            for (int64_t n = 0; n < s.batch; ++n) {
                const int64_t c = n * s.groups + g;
                flat.fill(s, x + c * s.in_size(), image.get());
                for (int64_t o = 0; o < s.out_channels; ++o) {
                    spread(s, flat, dy + (c * s.out_channels + o) * s.out_size(), grad.get());
                    per_width<Dots<T>::template Body>(flat.pixels, flat.taps(), flat.offset.data(),
                                                      static_cast<const T*>(grad.get()),
                                                      static_cast<const T*>(image.get()),
                                                      dw + (g * s.out_channels + o) * flat.taps());
                }
            }
    });
}

#define WEFT_DEPTHWISE(T)                                                                          \
    template void depthwise<T>(const ConvShape&, const T*, const T*, const T*, T*);                \
    template void depthwise_transposed<T>(const ConvShape&, const T*, const T*, T*);               \
    template void depthwise_weight<T>(const ConvShape&, const T*, const T*, T*);
WEFT_DEPTHWISE(float)
WEFT_DEPTHWISE(double)
#undef WEFT_DEPTHWISE

}  // namespace weft::kernels
