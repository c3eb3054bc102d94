/// Reading order: direct_layout.h (where the taps lie), `Tile` (where the time is spent), `fill`
/// and `PutRow` (the copies), `Bands` (a piece of an image from copy to result), the interface.
#include "kernels/direct_conv.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "kernels/direct_layout.h"
#include "kernels/tile.h"

namespace weft::kernels {
namespace {

using namespace vec;
using namespace direct;

/// Elements that vectors may pass the end of the planes by.
constexpr int64_t slack = 64;
/// What it costs to put a vector of sums in place, in steps of their making.
constexpr int64_t steps_of_put = 16;

/// Where a vector of pixels reads and is written.
struct Place {
    int64_t from, to;
};

/// result[r, pixel] = bias[r] + sum over channels and taps of weight * source.
template <class T>
struct Sums {
    int64_t rows, channels, taps, vectors;
    const Tap* tap;
    const Place* place;
    const T* from;
    int64_t from_step;  ///< between channels
    const T* weight;
    int64_t weight_row, weight_step;  ///< between rows and between channels
    const T* bias;                    ///< may be null
    bool add;                         ///< to what the result is, instead
    T* to;
    int64_t to_row;
};

// ---------------------------------------------------------------------------------------------
// The tile

template <class T, int Bytes, int Rows, int Vecs>
struct Tile {
    using V = typename Simd<T, Bytes>::Vector;
    /// Every third row has a pointer, its neighbours are one and two rows away.
    static constexpr int pointers = (Rows + 2) / 3;

    WEFT_INLINE static void run(const Sums<T>* sums, int64_t row, const Place* place) {
        const Sums<T>& q = *sums;
        V acc[Rows][Vecs];
#pragma GCC unroll 8
        for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
            for (int v = 0; v < Vecs; ++v) acc[r][v] = V{} + (q.bias ? q.bias[row + r] : T(0));
        const T* from[Vecs];
#pragma GCC unroll 4
        for (int v = 0; v < Vecs; ++v) from[v] = q.from + place[v].from;
        const T* weight = q.weight + row * q.weight_row;
        const int64_t step = q.weight_row;
        const Tap *const first = q.tap, *const last = first + q.taps;
        for (int64_t c = q.channels; c > 0; --c) {
            for (const Tap* tap = first; tap != last; ++tap) {
                V x[Vecs];
#pragma GCC unroll 4
                for (int v = 0; v < Vecs; ++v) {
                    x[v] = load<T, Bytes>(from[v] + tap->from);
                    in_register(x[v]);
                }
                const T* at[pointers];
                at[0] = weight + tap->weight;
#pragma GCC unroll 4
                for (int i = 1; i < pointers; ++i) at[i] = at[i - 1] + 3 * step;
#pragma GCC unroll 8
                for (int r = 0; r < Rows; ++r) {
                    V w;
                    broadcast<T>(w, at[r / 3][r % 3 * step]);
#pragma GCC unroll 4
                    for (int v = 0; v < Vecs; ++v) multiply_add<T>(acc[r][v], w, x[v]);
                }
            }
            weight += q.weight_step;
#pragma GCC unroll 4
            for (int v = 0; v < Vecs; ++v) from[v] += q.from_step;
        }
        T* to = q.to + row * q.to_row;
#pragma GCC unroll 8
        for (int r = 0; r < Rows; ++r, to += q.to_row)
#pragma GCC unroll 4
            for (int v = 0; v < Vecs; ++v) {
                T* const at = to + place[v].to;
                store<T, Bytes>(at, q.add ? load<T, Bytes>(at) + acc[r][v] : acc[r][v]);
            }
    }
};

/// All tiles; a few vectors of pixels, which stay in the first-level cache, by all rows at a time.
template <class T>
struct Tiles {
    template <int Bytes>
    struct Body {
        static constexpr int most_vecs = Bytes == 64 ? 4 : 2;

        template <int Rows, int Vecs>
        WEFT_INLINE static void tile(const Sums<T>* q, int64_t row, const Place* place) {
            Outlined<Tile<T, Bytes, Rows, Vecs>, Bytes, const Sums<T>*, int64_t, const Place*>::run(
                q, row, place);
        }
        template <int Vecs>
        WEFT_INLINE static void column(const Sums<T>* q, const Place* place) {
            for (int64_t row = 0; row < q->rows;) {
                const int64_t left = q->rows - row;
                if (left >= 6 && left != 8) tile<6, Vecs>(q, row, place), row += 6;
                else if (left >= 4) tile<4, Vecs>(q, row, place), row += 4;
                else if (left >= 2) tile<2, Vecs>(q, row, place), row += 2;
                else tile<1, Vecs>(q, row, place), row += 1;
            }
        }
        WEFT_INLINE static void run(const Sums<T>* q) {
            for (int64_t v = 0; v < q->vectors;) {
                // never one vector alone after wider tiles
                const int64_t left = q->vectors - v;
                const int64_t vecs = left == most_vecs + 1 ? (most_vecs + 2) / 2
                                                           : std::min<int64_t>(left, most_vecs);
                const Place* place = q->place + v;
                if (vecs == 1) column<1>(q, place);
                if (vecs == 2) column<2>(q, place);
                if constexpr (most_vecs > 2) {
                    if (vecs == 3) column<3>(q, place);
                    if (vecs == 4) column<4>(q, place);
                }
                v += vecs;
            }
        }
    };
};

template <class T>
struct Lanes {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(int64_t* lanes) { *lanes = Simd<T, Bytes>::lanes; }
    };
    static int64_t count() {
        int64_t lanes = 1;
        per_width<Body>(&lanes);
        return lanes;
    }
};

// ---------------------------------------------------------------------------------------------
// From the image and to the result

/// to[i] = from[i * step]
template <class T>
struct Thin {
    WEFT_INLINE static void run(int64_t n, int64_t step, const T* __restrict from,
                                T* __restrict to) {
        if (step == 2)
            for (int64_t i = 0; i < n; ++i) to[i] = from[2 * i];
        else
            for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
    }
};

/// One plane of a channel, of the cells from `first` on.
template <class T>
void fill_plane(const Layout& layout, const int64_t (&left)[3], const int64_t (&first)[3],
                const T* image, T* to) {
    const auto& [size, split, pad] = layout.axis[2].source;
    const auto& slices = layout.axis[0].source;
    const auto& rows = layout.axis[1].source;
    const int64_t cells = layout.size[2];
    const int64_t begin =
        std::min(layout.axis[2].source.begin(left[2], first[2]) - first[2], cells);
    const int64_t end =
        std::max(begin, layout.axis[2].source.end(left[2], first[2] + cells) - first[2]);
    const int64_t start = (first[2] + begin) * split + left[2] - pad;
    for (int64_t i = 0; i < layout.size[0]; ++i)
        for (int64_t j = 0; j < layout.size[1]; ++j, to += cells) {
            const int64_t d = (first[0] + i) * slices.split + left[0] - slices.pad;
            const int64_t h = (first[1] + j) * rows.split + left[1] - rows.pad;
            const bool inside = d >= 0 && d < slices.size && h >= 0 && h < rows.size;
            std::fill_n(to, inside ? begin : cells, T(0));
            if (!inside) continue;
            const T* const from = image + (d * rows.size + h) * size + start;
            if (split == 1) std::copy_n(from, end - begin, to + begin);
            else per_isa<Thin<T>>(end - begin, split, from, to + begin);
            std::fill_n(to + end, cells - end, T(0));
        }
}

/// All planes of channels.
template <class T>
void fill(const Layout& layout, int64_t channels, const int64_t (&first)[3], const T* image,
          T* planes) {
    const Axis* axis = layout.axis;
    for (int64_t c = 0; c < channels; ++c) {
        const T* const from =
            image + c * axis[0].source.size * axis[1].source.size * axis[2].source.size;
        T* to = planes + c * layout.channel;
        int64_t p[3];
        for (p[0] = 0; p[0] < axis[0].planes(); ++p[0])
            for (p[1] = 0; p[1] < axis[1].planes(); ++p[1])
                for (p[2] = 0; p[2] < axis[2].planes(); ++p[2], to += layout.plane()) {
                    const int64_t left[] = {axis[0].source_remainder(p[0]),
                                            axis[1].source_remainder(p[1]),
                                            axis[2].source_remainder(p[2])};
                    fill_plane(layout, left, first, from, to);
                }
    }
}

/// Puts a row of sums in place, `step` elements apart, or adds them there; with `odd`, a second
/// row's sums behind each, `odds` in number and `n` or one less.
template <class T>
struct PutRow {
    WEFT_INLINE static void run(bool add, int64_t n, int64_t step, const T* from, int64_t odds,
                                const T* odd, T* to) {
        if (add)
            rows([](T& x, const T& y) __attribute__((always_inline)) { x += y; }, n, step, from,
                 odds, odd, to);
        else
            rows([](T& x, const T& y) __attribute__((always_inline)) { x = y; }, n, step, from,
                 odds, odd, to);
    }

private:
    template <class Write>
    WEFT_INLINE static void rows(const Write& write, int64_t n, int64_t step,
                                 const T* __restrict from, int64_t odds, const T* __restrict odd,
                                 T* __restrict to) {
        if (odd) {
            for (int64_t i = 0; i < odds; ++i)
                write(to[2 * i], from[i]), write(to[2 * i + 1], odd[i]);
            if (n > odds) write(to[2 * odds], from[odds]);
        } else if (step == 1) {
            for (int64_t i = 0; i < n; ++i) write(to[i], from[i]);
        } else {
            for (int64_t i = 0; i < n; ++i) write(to[i * step], from[i]);
        }
    }
};

// ---------------------------------------------------------------------------------------------
// A band

/// A range of cells of the result.
struct Span {
    int64_t begin, end;
    int64_t size() const { return end - begin; }
};

/// Where rows of pixels lie: steps from a channel, a slice and a row to the next.
struct Rows {
    int64_t channel, slice, row;
    int64_t operator()(int64_t c, int64_t d, int64_t h) const {
        return c * channel + d * slice + h * row;
    }
};

/// Sums that lie apart from the result, since its pixels are not neighbours or fewer than a vector.
template <class T>
struct Apart {
    const T* from;
    Rows rows;
    int64_t first, pixels;  ///< where a row's pixels go in the result's row, and how many
    const T* at(int64_t c, int64_t d, int64_t h) const { return from + rows(c, d, h); }
};

/// Bands of images, one after the other in the same memory.
template <class T>
class Bands {
public:
    Bands(const Layout& layout, const Sums<T>& sums)
        : l_(layout), channels_(sums.channels),
          channel_size_(layout.axis[0].source.size * layout.axis[1].source.size *
                        layout.axis[2].source.size),
          q_(sums), planes_(new T[layout.channels * layout.channel + slack]) {
        std::fill_n(planes_.get() + layout.channels * layout.channel, slack, T(0));
        q_.from = planes_.get();
    }

    void run(int64_t band, const T* image, const T* weight, const T* bias, T* result) {
        int64_t from[3], to[3];
        l_.bounds(band, from, to);
        q_.bias = bias;
        for (int64_t c = 0; c < channels_; c += l_.channels) {
            q_.channels = std::min(l_.channels, channels_ - c);
            q_.weight = weight + c * q_.weight_step;
            q_.add = c > 0;
            fill(l_, q_.channels, from, image + c * channel_size_, planes_.get());
            passes(from, to, result);
            q_.bias = nullptr;
        }
    }

private:
    /// `from` and `to`: the cells of the result.
    void passes(const int64_t (&from)[3], const int64_t (&to)[3], T* result) {
        int64_t left[3];
        for (left[0] = 0; left[0] < side(0).remainders(); ++left[0])
            for (left[1] = 0; left[1] < side(1).remainders(); ++left[1]) {
                apart_.clear();
                const Span d = span(0, left, from, to), h = span(1, left, from, to);
                if (d.size() <= 0 || h.size() <= 0) continue;
                T* const first =
                    result +
                    (element(0, d, left) * side(1).size + element(1, h, left)) * side(2).size;
                for (left[2] = 0; left[2] < side(2).remainders(); ++left[2]) {
                    const Span w = span(2, left, from, to);
                    if (w.size() > 0) pass(from, left, d, h, w, first);
                }
                put(d, h, first);
            }
    }

    const Axis::Side& side(int d) const { return l_.axis[d].result; }
    Span span(int d, const int64_t (&left)[3], const int64_t (&from)[3],
              const int64_t (&to)[3]) const {
        return {side(d).begin(left[d], from[d]), side(d).end(left[d], to[d])};
    }
    /// The first element of a span.
    int64_t element(int d, const Span& cells, const int64_t (&left)[3]) const {
        return cells.begin * side(d).split + left[d] - side(d).pad;
    }
    Rows result_rows() const {
        const int64_t row = side(2).size, slice = side(1).size * row;
        return {side(0).size * slice, side(0).split * slice, side(1).split * row};
    }

    /// The pixels of one remainder.
    void pass(const int64_t (&from)[3], const int64_t (&left)[3], const Span& d, const Span& h,
              const Span& w, T* result) {
        const std::vector<Tap>& taps = l_.pass(left);
        // Rows without anything between them are one.
        const int64_t pitch = l_.size[2];
        const bool joined = pitch == w.size() && pitch == side(2).size && side(1).split == 1;
        int64_t rows = joined ? 1 : h.size(), run = joined ? h.size() * pitch : w.size();
        // Vectors of each row, or fewer ones of all rows and what lies between them.
        const int64_t flat = (rows - 1) * pitch + run;
        const bool dense =
            side(2).split == 1 && run >= lanes_ && (l_.channels == channels_ || run % lanes_ == 0);
        const int64_t steps = q_.channels * static_cast<int64_t>(taps.size());
        const bool by_rows = rows * divide_up(run, lanes_) * steps <=
                             divide_up(flat, lanes_) * (steps + (dense ? steps_of_put : 0));
        const bool in_place = by_rows && dense;
        if (!by_rows) rows = 1, run = flat;
        Rows at = result_rows();
        if (!in_place) {
            at.row = by_rows && !joined ? std::max(run, lanes_) : pitch;
            at.slice = divide_up(std::max(rows * at.row, run), lanes_) * lanes_;
            at.channel = d.size() * at.slice;
        }
        const int64_t start =
            ((d.begin - from[0]) * l_.size[1] + h.begin - from[1]) * pitch + w.begin - from[2];
        find_places(start, d.size(), rows, run, by_rows, at);
        q_.taps = static_cast<int64_t>(taps.size());
        q_.tap = taps.data();
        q_.vectors = static_cast<int64_t>(places_.size());
        q_.place = places_.data();
        q_.to = result + element(2, w, left);
        q_.to_row = at.channel;
        const bool add = q_.add;
        if (!in_place) q_.add = false, q_.to = make_apart(at, element(2, w, left), w.size());
        per_width<Tiles<T>::template Body>(static_cast<const Sums<T>*>(&q_));
        q_.add = add;
    }
    /// The vectors of `slices` times `rows` runs of pixels. If `again`, the last of a run does pixels
    /// again rather than pass its end.
    void find_places(int64_t start, int64_t slices, int64_t rows, int64_t run, bool again,
                     const Rows& at) {
        places_.clear();
        for (int64_t i = 0; i < slices; ++i)
            for (int64_t j = 0; j < rows; ++j)
                for (int64_t p = 0; p < run; p += lanes_) {
                    const int64_t pixel =
                        again ? std::max<int64_t>(0, std::min(p, run - lanes_)) : p;
                    places_.push_back(
                        {start + (i * l_.size[1] + j) * l_.size[2] + pixel, at(0, i, j) + pixel});
                }
    }
    T* make_apart(const Rows& at, int64_t first, int64_t pixels) {
        if (memory_.size() == apart_.size()) memory_.emplace_back();
        std::vector<T>& memory = memory_[apart_.size()];
        memory.resize(std::max<size_t>(memory.size(), q_.rows * at.channel));
        apart_.push_back({memory.data(), at, first, pixels});
        return memory.data();
    }
    /// Rows of one set of sums, or of two that alternate.
    void put(const Apart<T>& one, const Apart<T>* other, const Span& d, const Span& h,
             T* result) const {
        const Rows at = result_rows();
        for (int64_t c = 0; c < q_.rows; ++c)
            for (int64_t i = 0; i < d.size(); ++i)
                for (int64_t j = 0; j < h.size(); ++j)
                    per_isa<PutRow<T>>(q_.add, one.pixels, side(2).split, one.at(c, i, j),
                                       other ? other->pixels : 0,
                                       other ? other->at(c, i, j) : nullptr,
                                       result + at(c, i, j) + one.first);
    }
    void put(const Span& d, const Span& h, T* result) const {
        if (apart_.size() == 2 && side(2).split == 2) {
            const bool swapped = apart_[1].first < apart_[0].first;
            return put(apart_[swapped], &apart_[!swapped], d, h, result);
        }
        for (const Apart<T>& one : apart_) put(one, nullptr, d, h, result);
    }

    const Layout& l_;
    const int64_t channels_, channel_size_;
    Sums<T> q_;
    const std::unique_ptr<T[]> planes_;
    const int64_t lanes_ = Lanes<T>::count();
    std::vector<Place> places_;
    std::vector<Apart<T>> apart_;
    std::vector<std::vector<T>> memory_;
};

/// What both directions share: the planes of a band of one group of an image, then its sums.
template <class T>
void correlate(const ConvShape& s, bool transposed, const T* from, const T* w, const T* bias,
               T* to) {
    Sums<T> sums{};
    sums.channels = transposed ? s.out_channels : s.in_channels;
    sums.rows = transposed ? s.in_channels : s.out_channels;
    sums.weight_row = transposed ? s.taps() : s.columns();
    sums.weight_step = transposed ? s.columns() : s.taps();
    const double work = 1.0 * s.batch * s.groups * s.out_channels * s.columns() * s.out_size();
    const int64_t pieces =
        work < parallel_work ? 1 : divide_up(get_num_threads(), s.batch * s.groups);
    const Layout layout(s, transposed, sums.channels, sizeof(T), pieces);
    sums.from_step = layout.channel;
    const int64_t bands = layout.bands[0] * layout.bands[1], tasks = s.batch * s.groups * bands;
    const int64_t from_size = sums.channels * (transposed ? s.out_size() : s.in_size());
    const int64_t to_size = sums.rows * (transposed ? s.in_size() : s.out_size());
    parallel_for(tasks, work < parallel_work ? tasks : 1, [&](int64_t begin, int64_t end) {
        Bands<T> worker(layout, sums);
        for (int64_t task = begin; task < end; ++task) {
            const int64_t image = task / bands, group = image % s.groups;
            worker.run(task % bands, from + image * from_size,
                       w + group * s.out_channels * s.columns(),
                       bias ? bias + group * s.out_channels : nullptr, to + image * to_size);
        }
    });
}

}  // namespace

bool is_direct(const ConvShape& s, bool transposed) {
    if (s.batch * s.groups * s.out_channels * s.columns() * s.out_size() * s.in_size() == 0)
        return false;
    // A single tap reads nothing again that a copy might save.
    if (s.taps() == 1) return false;
    // Zeros around might be far more than what they stand round.
    constexpr int64_t usual = 64, factor = 4;
    for (int d = 0; d < 3; ++d) {
        const int64_t reach = (s.kernel[d] - 1) * s.dilation[d] + s.stride[d];
        if (s.padding[d] + reach > std::max(usual, factor * s.in[d])) return false;
    }
    // Images of a vector or two leave much of it empty.
    const Axis height(s, 1, transposed), width(s, 2, transposed);
    const int64_t rows = divide_up(height.result.size, height.result.split),
                  lanes = Lanes<float>::count();
    const int64_t run = divide_up(width.result.size, width.result.split);
    const int64_t flat = (rows - 1) * (run + width.reach) + run;
    const int64_t vectors = std::min(rows * divide_up(run, lanes), divide_up(flat, lanes));
    return 2 * vectors * lanes <= 3 * rows * run;
}

template <class T>
void direct_conv(const ConvShape& s, const T* x, const T* w, const T* bias, T* y) {
    correlate(s, false, x, w, bias, y);
}

template <class T>
void direct_conv_transposed(const ConvShape& s, const T* dy, const T* w, T* dx) {
    correlate<T>(s, true, dy, w, nullptr, dx);
}

#define WEFT_DIRECT_CONV(T)                                                                        \
    template void direct_conv<T>(const ConvShape&, const T*, const T*, const T*, T*);              \
    template void direct_conv_transposed<T>(const ConvShape&, const T*, const T*, T*);
WEFT_DIRECT_CONV(float)
WEFT_DIRECT_CONV(double)
#undef WEFT_DIRECT_CONV

}  // namespace weft::kernels
