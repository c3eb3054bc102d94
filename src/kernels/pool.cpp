#include "kernels/pool.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/simd_selecting.h"

namespace weft::kernels {
namespace {

/// Elements that one thread takes at a time, about.
constexpr int64_t piece = 1 << 15;

template <class Body>
void for_planes(const PoolShape& s, const Body& body) {
    const int64_t grain = std::max<int64_t>(1, piece / std::max<int64_t>(1, s.in_size()));
    parallel_for(s.planes, grain, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) body(p);
    });
}

/// Places in a plane, as wide as the values, so that loops over both have vectors of one length.
template <class T>
using Place = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

/// The windows along the last dim: place k of window w is at[k * out + w]. Shorter windows than the
/// longest repeat their last place, which changes no maximum.
template <class T>
struct Windows {
    std::vector<Place<T>> at;
    int64_t longest = 0;
    explicit Windows(const PoolShape& s) {
        const PoolAxis& a = s.axis[2];
        WEFT_EXPECT(s.in_size() <= std::numeric_limits<Place<T>>::max(), Runtime, "max_pool",
                    "planes of less than 2^31 elements", text(s.in_size()));
        for (int64_t w = 0; w < a.out; ++w)
            longest = std::max(longest, (a.end[w] - a.begin[w] + a.step - 1) / a.step);
        at.resize(longest * a.out);
        for (int64_t k = 0; k < longest; ++k)
            for (int64_t w = 0; w < a.out; ++w) {
                const int64_t last = (a.end[w] - 1 - a.begin[w]) / a.step;
                at[k * a.out + w] = static_cast<Place<T>>(a.begin[w] + std::min(k, last) * a.step);
            }
    }
};

/// The largest values of all windows of a row of outputs, and their places: tap by tap, because
/// which of a window's values wins cannot be predicted.
template <class T>
struct LargestOfRow {
    WEFT_INLINE static void run(const PoolShape* s, const T* __restrict x,
                                const Windows<T>* windows, int64_t d, int64_t h,
                                T* __restrict value, Place<T>* __restrict place) {
        const PoolAxis a = s->axis[0], b = s->axis[1], c = s->axis[2];
        const Place<T>* __restrict at = windows->at.data();
        const auto first = static_cast<Place<T>>((a.begin[d] * b.in + b.begin[h]) * c.in);
        for (int64_t w = 0; w < c.out; ++w) {
            place[w] = first + at[w];
            value[w] = x[place[w]];
        }
        for (int64_t i = a.begin[d]; i < a.end[d]; i += a.step)
            for (int64_t j = b.begin[h]; j < b.end[h]; j += b.step)
                for (int64_t k = 0; k < windows->longest; ++k)
                    add_tap(c.out, x, static_cast<Place<T>>((i * b.in + j) * c.in), at + k * c.out,
                            value, place);
    }
    WEFT_INLINE static void add_tap(int64_t out, const T* __restrict x, Place<T> row,
                                    const Place<T>* __restrict at, T* __restrict value,
                                    Place<T>* __restrict place) {
        for (int64_t w = 0; w < out; ++w) {
            const Place<T> here = row + at[w];
            const T v = x[here];
            const bool larger = (v > value[w]) | (v != v);
            value[w] = larger ? v : value[w];
            place[w] = larger ? here : place[w];
        }
    }
};

/// Calls `row(first output index, values, places)` for every row of outputs of a plane.
template <class T, class Row>
void for_largest(const PoolShape& s, const T* x, const Windows<T>& windows, const Row& row) {
    const int64_t width = s.axis[2].out;
    std::vector<T> value(width);
    std::vector<Place<T>> place(width);
    for (int64_t d = 0; d < s.axis[0].out; ++d)
        for (int64_t h = 0; h < s.axis[1].out; ++h) {
            per_isa_selecting<LargestOfRow<T>>(&s, x, &windows, d, h, value.data(), place.data());
            row((d * s.axis[1].out + h) * width, value.data(), place.data());
        }
}

/// Note [Windows of two by two]
/// Rows are often shorter than a vector, so nothing runs along a single row of outputs. First two
/// rows become one (a loop over columns), into a buffer of many such rows; then neighbours in the
/// buffer become one (one long loop). The backward goes the same way there and back: `low` says
/// that a column's maximum lies in the lower row, and of equal values in a window the first in
/// memory order counts, of NaNs the last.
constexpr int64_t buffer_size = 4096;

template <class T>
struct PairBuffer {
    alignas(64) T value[buffer_size], low[buffer_size], grad[buffer_size];
};

template <class T>
struct MaxOfPairs {
    WEFT_INLINE static void run(const T* x, T* y, int64_t rows, int64_t out, int64_t width,
                                PairBuffer<T>* buffer) {
        T* __restrict value = buffer->value;
        const int64_t columns = 2 * out, at_once = buffer_size / columns;
        for (int64_t first = 0; first < rows; first += at_once) {
            const int64_t count = rows - first < at_once ? rows - first : at_once;
            for (int64_t r = 0; r < count; ++r) {
                const T* __restrict a = x + 2 * (first + r) * width;
                const T* __restrict b = a + width;
                T* __restrict to = value + r * columns;
                for (int64_t i = 0; i < columns; ++i)
                    to[i] = ((b[i] > a[i]) | (b[i] != b[i])) ? b[i] : a[i];
            }
            T* __restrict to = y + first * out;
            for (int64_t i = 0; i < count * out; ++i) {
                const T a = value[2 * i], b = value[2 * i + 1];
                to[i] = ((b > a) | (b != b)) ? b : a;
            }
        }
    }
};

template <class T>
struct MaxOfPairsBackward {
    WEFT_INLINE static void run(const T* x, const T* dy, T* dx, int64_t rows, int64_t out,
                                int64_t width, PairBuffer<T>* buffer) {
        const int64_t columns = 2 * out, at_once = buffer_size / columns;
        for (int64_t first = 0; first < rows; first += at_once) {
            const int64_t count = rows - first < at_once ? rows - first : at_once;
            for (int64_t r = 0; r < count; ++r)
                fold(x + 2 * (first + r) * width, width, columns, buffer->value + r * columns,
                     buffer->low + r * columns);
            choose(dy + first * out, count * out, buffer);
            for (int64_t r = 0; r < count; ++r)
                unfold(buffer->low + r * columns, buffer->grad + r * columns, columns, width,
                       dx + 2 * (first + r) * width);
        }
    }
    WEFT_INLINE static void fold(const T* __restrict a, int64_t width, int64_t columns,
                                 T* __restrict value, T* __restrict low) {
        const T* __restrict b = a + width;
        for (int64_t i = 0; i < columns; ++i) {
            const bool lower = (b[i] > a[i]) | (b[i] != b[i]);
            value[i] = lower ? b[i] : a[i];
            low[i] = lower ? T(1) : T(0);
        }
    }
    WEFT_INLINE static void choose(const T* __restrict dy, int64_t n, PairBuffer<T>* buffer) {
        const T* __restrict value = buffer->value, * __restrict low = buffer->low;
        T* __restrict grad = buffer->grad;
        for (int64_t i = 0; i < n; ++i) {
            const T a = value[2 * i], b = value[2 * i + 1];
            const bool later = low[2 * i] > low[2 * i + 1];  // a lies behind b in memory
            const bool right = (b > a) | ((b == a) & later) | ((b != b) & !((a != a) & later));
            const T g = dy[i];
            grad[2 * i] = right ? T(0) : g;
            grad[2 * i + 1] = right ? g : T(0);
        }
    }
    WEFT_INLINE static void unfold(const T* __restrict low, const T* __restrict grad,
                                   int64_t columns, int64_t width, T* __restrict upper) {
        T* __restrict lower = upper + width;
        for (int64_t i = 0; i < columns; ++i) {
            upper[i] = low[i] != 0 ? T(0) : grad[i];
            lower[i] = low[i] != 0 ? grad[i] : T(0);
        }
        if (columns < width) upper[columns] = lower[columns] = 0;
    }
};

bool pairs(const PoolShape& s) {
    return s.axis[0].in == 1 && s.axis[0].out == 1 && s.axis[1].pairs && s.axis[2].pairs &&
           2 * s.axis[2].out <= buffer_size && s.axis[2].in <= 2 * s.axis[2].out + 1;
}

}  // namespace

/// Neighbours of a line; the first of equals, of NaNs the last, as everywhere.
template <class T>
struct MaxOfNeighbours {
    WEFT_INLINE static void run(const T* __restrict x, T* __restrict y, int64_t out) {
        for (int64_t o = 0; o < out; ++o) {
            const T a = x[2 * o], b = x[2 * o + 1];
            y[o] = ((b > a) | (b != b)) ? b : a;
        }
    }
};

template <class T>
void max_pool(const PoolShape& s, const T* x, T* y, int64_t* index) {
    const int64_t in = s.in_size(), out = s.out_size(), width = s.axis[2].in;
    if (!index && s.axis[2].pairs && in == width)  // planes of one line
        return for_planes(s, [&](int64_t p) {
            per_isa_selecting<MaxOfNeighbours<T>>(x + p * in, y + p * out, out);
        });
    const bool fast = pairs(s) && !index;
    const Windows<T> windows(s);
    for_planes(s, [&](int64_t p) {
        const T* from = x + p * in;
        T* to = y + p * out;
        if (fast) {
            PairBuffer<T> buffer;
            return per_isa_selecting<MaxOfPairs<T>>(from, to, s.axis[1].out, s.axis[2].out, width,
                                                    &buffer);
        }
        for_largest(s, from, windows, [&](int64_t o, const T* value, const Place<T>* place) {
            std::copy_n(value, s.axis[2].out, to + o);
            if (index) std::copy_n(place, s.axis[2].out, index + p * out + o);
        });
    });
}

template <class T>
void max_pool_backward(const PoolShape& s, const T* x, const T* dy, T* dx) {
    const int64_t in = s.in_size(), out = s.out_size(), width = s.axis[2].in;
    const bool fast = pairs(s);
    const Windows<T> windows(s);
    for_planes(s, [&](int64_t p) {
        const T *from = x + p * in, *grad = dy + p * out;
        T* to = dx + p * in;
        if (fast) {
            PairBuffer<T> buffer;
            per_isa_selecting<MaxOfPairsBackward<T>>(from, grad, to, s.axis[1].out, s.axis[2].out,
                                                     width, &buffer);
            std::fill(to + 2 * s.axis[1].out * width, to + in, T(0));
            return;
        }
        std::fill_n(to, in, T(0));
        for_largest(s, from, windows, [&](int64_t o, const T*, const Place<T>* place) {
            for (int64_t w = 0; w < s.axis[2].out; ++w) to[place[w]] += grad[o + w];
        });
    });
}

namespace {

/// The windows [first, last) along the last dim that lie `stride` apart and are alike: `taps`
/// places side by side, of one count.
struct Alike {
    int64_t first = 0, last = 0, stride = 1, taps = 0;

    explicit Alike(const PoolAxis& a) {
        if (a.out < 2 || a.step != 1) return;
        const int64_t middle = a.out / 2;
        stride = a.begin[middle] - a.begin[middle - 1];
        taps = a.end[middle] - a.begin[middle];
        const auto like = [&](int64_t w) {
            return a.begin[w] == a.begin[middle] + (w - middle) * stride &&
                   a.end[w] == a.begin[w] + taps && a.count[w] == a.count[middle];
        };
        for (first = last = middle; first > 0 && like(first - 1); --first) {
        }
        while (last < a.out && like(last)) ++last;
    }
};

template <class T>
WEFT_INLINE T divisor(const PoolShape& s, int64_t d, int64_t h, int64_t w) {
    return static_cast<T>(s.divisor ? s.divisor
                                    : s.axis[0].count[d] * s.axis[1].count[h] * s.axis[2].count[w]);
}

/// Calls `each(input row)` for the rows that a row of windows covers.
template <class Each>
WEFT_INLINE void for_input_rows(const PoolShape& s, int64_t d, int64_t h, const Each& each) {
    const PoolAxis &a = s.axis[0], &b = s.axis[1];
    for (int64_t i = a.begin[d]; i < a.end[d]; i += a.step)
        for (int64_t j = b.begin[h]; j < b.end[h]; j += b.step) each((i * b.in + j) * s.axis[2].in);
}

/// Averages of a row of windows: the rows under it are added up, then neighbours in their sum.
template <class T>
struct MeansOfRow {
    WEFT_INLINE static void run(const PoolShape* s, const Alike* alike, int64_t d, int64_t h,
                                const T* x, T* __restrict sums, T* __restrict y) {
        const PoolAxis& c = s->axis[2];
        const int64_t width = c.in, first = alike->first, last = alike->last;
        bool add = false;
        for_input_rows(*s, d, h, [&](int64_t row) __attribute__((always_inline)) {
            const T* __restrict from = x + row;
            if (add)
                for (int64_t i = 0; i < width; ++i) sums[i] += from[i];
            else
                for (int64_t i = 0; i < width; ++i) sums[i] = from[i];
            add = true;
        });
        if (!add) std::fill_n(sums, width, T(0));
        for (int64_t w = 0; w < c.out; ++w) {
            if (w == first) w = last;
            if (w == c.out) break;
            T sum = 0;
            for (int64_t k = c.begin[w]; k < c.end[w]; k += c.step) sum += sums[k];
            y[w] = sum / divisor<T>(*s, d, h, w);
        }
        if (first == last) return;
        const int64_t n = last - first, stride = alike->stride;
        const T by = divisor<T>(*s, d, h, first);
        T* __restrict to = y + first;
        for (int64_t i = 0; i < n; ++i) to[i] = 0;
        for (int64_t k = 0; k < alike->taps; ++k) {
            const T* __restrict from = sums + c.begin[first] + k;
            if (stride == 1)
                for (int64_t i = 0; i < n; ++i) to[i] += from[i];
            else if (stride == 2)
                for (int64_t i = 0; i < n; ++i) to[i] += from[2 * i];
            else
                for (int64_t i = 0; i < n; ++i) to[i] += from[i * stride];
        }
        for (int64_t i = 0; i < n; ++i) to[i] /= by;
    }
};

/// The same back: what each column gets is added to the rows.
template <class T>
struct MeansOfRowBackward {
    WEFT_INLINE static void run(const PoolShape* s, int64_t d, int64_t h, const T* __restrict dy,
                                T* __restrict shares, T* dx) {
        const PoolAxis& c = s->axis[2];
        const int64_t width = c.in;
        for (int64_t i = 0; i < width; ++i) shares[i] = 0;
        for (int64_t w = 0; w < c.out; ++w) {
            const T share = dy[w] / divisor<T>(*s, d, h, w);
            for (int64_t k = c.begin[w]; k < c.end[w]; k += c.step) shares[k] += share;
        }
        for_input_rows(*s, d, h, [&](int64_t row) __attribute__((always_inline)) {
            T* __restrict to = dx + row;
            for (int64_t i = 0; i < width; ++i) to[i] += shares[i];
        });
    }
};

/// Integers, which are seldom averaged, have one version.
template <class Body, class T, class... Args>
void run_means(Args... args) {
    if constexpr (std::is_floating_point_v<T>) per_isa<Body>(args...);
    else Body::run(args...);
}

/// Calls `row(d, h, first output, memory for a row of the input)` for a plane's rows of outputs.
template <class T, class Row>
void for_output_rows(const PoolShape& s, const Row& row) {
    std::vector<T> space(s.axis[2].in);
    for (int64_t d = 0; d < s.axis[0].out; ++d)
        for (int64_t h = 0; h < s.axis[1].out; ++h)
            row(d, h, (d * s.axis[1].out + h) * s.axis[2].out, space.data());
}

}  // namespace

template <class T>
void avg_pool(const PoolShape& s, const T* x, T* y) {
    const Alike alike(s.axis[2]);
    for_planes(s, [&](int64_t p) {
        for_output_rows<T>(s, [&](int64_t d, int64_t h, int64_t o, T* space) {
            run_means<MeansOfRow<T>, T>(&s, &alike, d, h, x + p * s.in_size(), space,
                                        y + p * s.out_size() + o);
        });
    });
}

template <class T>
void avg_pool_backward(const PoolShape& s, const T* dy, T* dx) {
    for_planes(s, [&](int64_t p) {
        T* const to = dx + p * s.in_size();
        std::fill_n(to, s.in_size(), T(0));
        for_output_rows<T>(s, [&](int64_t d, int64_t h, int64_t o, T* space) {
            run_means<MeansOfRowBackward<T>, T>(&s, d, h, dy + p * s.out_size() + o, space, to);
        });
    });
}

#define WEFT_POOL(T)                                                                               \
    template void max_pool<T>(const PoolShape&, const T*, T*, int64_t*);                           \
    template void max_pool_backward<T>(const PoolShape&, const T*, const T*, T*);                  \
    template void avg_pool<T>(const PoolShape&, const T*, T*);                                     \
    template void avg_pool_backward<T>(const PoolShape&, const T*, T*);
WEFT_POOL(float)
WEFT_POOL(double)
WEFT_POOL(int64_t)
#undef WEFT_POOL

}  // namespace weft::kernels
