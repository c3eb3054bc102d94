/// Convolution as products over columns: the values under the kernel are laid side by side
/// (im2col; Chellapilla, Puri and Simard 2006), a piece at a time that stays in the second-level
/// cache, and multiplied by the weight. Where there is a way that does without (`depthwise.h`,
/// `direct_conv.h`), that is taken.
#include "kernels/conv.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>

#include "base/parallel.h"
#include "kernels/depthwise.h"
#include "kernels/direct_conv.h"
#include "kernels/matmul.h"
#include "kernels/simd.h"

namespace weft::kernels {
namespace {

/// Bytes of columns that are made at a time.
constexpr int64_t column_bytes = 1 << 19;
/// Partial weight gradients: at most so many, and together at most so many bytes.
constexpr int64_t most_parts = 16, part_bytes = 1 << 23;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Where the kernel's tap k lies in the input for outputs [first, last): inside, between zeros.
struct Inside {
    int64_t first, last, start;
    WEFT_INLINE Inside(int64_t in, int64_t out, int64_t stride, int64_t from) {
        // input index of output i: i * stride + from
        first = from >= 0 ? 0 : (-from + stride - 1) / stride;
        last = in - from <= 0 ? 0 : (in - from + stride - 1) / stride;
        first = first < out ? first : out;
        last = last < out ? last : out;
        if (last < first) last = first;
        start = first * stride + from;
    }
};

/// Calls `row(columns_row, image_row or null, inside)` for output rows [begin, end) of each tap.
template <class T, class Row>
WEFT_INLINE void for_rows(const ConvShape& s, T* x, T* columns, int64_t begin, int64_t end,
                          const Row& row) {
    const int64_t width = s.out[2];
    T* to = columns;
    for (int64_t c = 0; c < s.in_channels; ++c)
        for (int64_t kd = 0; kd < s.kernel[0]; ++kd)
            for (int64_t kh = 0; kh < s.kernel[1]; ++kh)
                for (int64_t kw = 0; kw < s.kernel[2]; ++kw) {
                    const Inside inside(s.in[2], width, s.stride[2],
                                        kw * s.dilation[2] - s.padding[2]);
                    int64_t od = begin / s.out[1], oh = begin % s.out[1];
                    for (int64_t r = begin; r < end; ++r, to += width) {
                        const int64_t d = od * s.stride[0] + kd * s.dilation[0] - s.padding[0];
                        const int64_t h = oh * s.stride[1] + kh * s.dilation[1] - s.padding[1];
                        const bool in = d >= 0 && d < s.in[0] && h >= 0 && h < s.in[1];
                        row(to, in ? x + ((c * s.in[0] + d) * s.in[1] + h) * s.in[2] : nullptr,
                            inside);
                        if (++oh == s.out[1]) oh = 0, ++od;
                    }
                }
}

template <class T>
struct ToColumns {
    WEFT_INLINE static void run(const ConvShape* shape, const T* image, T* columns, int64_t begin,
                                int64_t end) {
        const ConvShape& s = *shape;
        const int64_t width = s.out[2], stride = s.stride[2];
        for_rows(s, const_cast<T*>(image), columns, begin, end,
                 [&](T* __restrict to, const T* __restrict from, const Inside& inside) {
                     if (!from) {
                         for (int64_t i = 0; i < width; ++i) to[i] = 0;
                         return;
                     }
                     for (int64_t i = 0; i < inside.first; ++i) to[i] = 0;
                     from += inside.start;
                     const int64_t count = inside.last - inside.first;
                     T* __restrict middle = to + inside.first;
                     if (stride == 1)
                         for (int64_t i = 0; i < count; ++i) middle[i] = from[i];
                     else
                         for (int64_t i = 0; i < count; ++i) middle[i] = from[i * stride];
                     for (int64_t i = inside.last; i < width; ++i) to[i] = 0;
                 });
    }
};

template <class T>
struct FromColumns {
    WEFT_INLINE static void run(const ConvShape* shape, T* image, T* columns, int64_t begin,
                                int64_t end) {
        const ConvShape& s = *shape;
        const int64_t stride = s.stride[2];
        for_rows(s, image, columns, begin, end,
                 [&](const T* __restrict from, T* __restrict to, const Inside& inside) {
                     if (!to) return;
                     to += inside.start;
                     from += inside.first;
                     const int64_t count = inside.last - inside.first;
                     if (stride == 1)
                         for (int64_t i = 0; i < count; ++i) to[i] += from[i];
                     else
                         for (int64_t i = 0; i < count; ++i) to[i * stride] += from[i];
                 });
    }
};

/// Note [Whole slices]
/// Where rows of input and output are equally long and the stride is 1, all rows of a slice that a
/// tap reads lie one behind the other, moved by a constant: one copy serves them all, and only the
/// columns at the edge are set apart. Rows are often shorter than a vector, so this is most of the
/// time of the columns.
bool whole_slices(const ConvShape& s) {
    bool moves = s.stride[1] == 1 && s.stride[2] == 1 && s.in[2] == s.out[2];
    for (int64_t k = 0; k < s.kernel[2]; ++k) {
        const int64_t shift = k * s.dilation[2] - s.padding[2];
        moves &= shift < s.in[2] && -shift < s.in[2];
    }
    return moves;
}

/// Calls `slice(columns, input or null, rows before, rows, rows after, shift)` for the output rows
/// [begin, end) of each tap, a slice of the depth at a time. `rows` are those inside of the input;
/// the input's first one is given.
template <class T, class Slice>
WEFT_INLINE void for_slices(const ConvShape& s, T* x, T* columns, int64_t begin, int64_t end,
                            const Slice& slice) {
    const int64_t width = s.out[2];
    T* to = columns;
    for (int64_t c = 0; c < s.in_channels; ++c)
        for (int64_t kd = 0; kd < s.kernel[0]; ++kd)
            for (int64_t kh = 0; kh < s.kernel[1]; ++kh)
                for (int64_t kw = 0; kw < s.kernel[2]; ++kw)
                    for (int64_t r = begin; r < end;) {
                        const int64_t od = r / s.out[1], oh = r % s.out[1];
                        const int64_t count = s.out[1] - oh < end - r ? s.out[1] - oh : end - r;
                        const int64_t d = od * s.stride[0] + kd * s.dilation[0] - s.padding[0];
                        const int64_t from = kh * s.dilation[1] - s.padding[1] + oh;
                        int64_t before = from < 0 ? -from : 0;
                        int64_t after = from + count - s.in[1];
                        if (d < 0 || d >= s.in[0] || before > count) before = count;
                        if (after < 0) after = 0;
                        if (after > count - before) after = count - before;
                        slice(to, x + ((c * s.in[0] + d) * s.in[1] + from + before) * width, before,
                              count - before - after, after, kw * s.dilation[2] - s.padding[2]);
                        to += count * width;
                        r += count;
                    }
}

/// Zeros in the columns that a shifted row reads from beyond its end.
template <class T>
WEFT_INLINE void clear_edge(T* columns, int64_t rows, int64_t width, int64_t shift) {
    const int64_t first = shift < 0 ? 0 : width - shift, count = shift < 0 ? -shift : shift;
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < count; ++i) columns[r * width + first + i] = 0;
}

template <class T>
struct ToColumnsWhole {
    WEFT_INLINE static void run(const ConvShape* shape, const T* image, T* columns, int64_t begin,
                                int64_t end) {
        const int64_t width = shape->out[2];
        for_slices(*shape, const_cast<T*>(image), columns, begin, end,
                   [&](T* __restrict to, const T* __restrict from, int64_t before, int64_t rows,
                       int64_t after, int64_t shift) {
                       for (int64_t i = 0; i < before * width; ++i) to[i] = 0;
                       to += before * width;
                       if (rows > 0) {
                           const int64_t skip = shift < 0 ? -shift : 0;
                           const int64_t count = rows * width - (shift < 0 ? -shift : shift);
                           T* __restrict target = to + skip;
                           const T* __restrict source = from + skip + shift;
                           for (int64_t i = 0; i < count; ++i) target[i] = source[i];
                           clear_edge(to, rows, width, shift);
                       }
                       to += rows * width;
                       for (int64_t i = 0; i < after * width; ++i) to[i] = 0;
                   });
    }
};

/// Integers have one version: their products take longer than any copy.
template <class T>
void to_columns(const ConvShape& s, const T* x, T* columns, int64_t begin, int64_t end) {
    if constexpr (std::is_integral_v<T>) ToColumns<T>::run(&s, x, columns, begin, end);
    else if (whole_slices(s)) per_isa<ToColumnsWhole<T>>(&s, x, columns, begin, end);
    else per_isa<ToColumns<T>>(&s, x, columns, begin, end);
}
template <class T>
void add_columns(const ConvShape& s, T* x, T* columns, int64_t begin, int64_t end) {
    if constexpr (std::is_integral_v<T>) FromColumns<T>::run(&s, x, columns, begin, end);
    else per_isa<FromColumns<T>>(&s, x, columns, begin, end);
}
/// Whether the columns are the image itself.
bool is_product(const ConvShape& s) {
    for (int d = 0; d < 3; ++d)
        if (s.kernel[d] != 1 || s.stride[d] != 1 || s.padding[d] != 0) return false;
    return true;
}

/// `WEFT_CONV=columns` keeps everything on products, the way that the others are tested against.
bool columns_wanted() {
    static const bool wanted = [] {
        const char* way = std::getenv("WEFT_CONV");
        return way && !std::strcmp(way, "columns");
    }();
    return wanted;
}

/// How the outputs of one image are cut: rows of the output at a time.
template <class T>
struct Pieces {
    int64_t rows, width, at_once;
    explicit Pieces(const ConvShape& s) : rows(s.out[0] * s.out[1]), width(s.out[2]) {
        const int64_t row = std::max<int64_t>(1, s.columns() * width * sizeof(T));
        at_once = std::clamp<int64_t>(column_bytes / row, 1, rows);
        at_once = divide_up(rows, divide_up(rows, at_once));
    }
    int64_t elements(const ConvShape& s) const { return s.columns() * at_once * width; }
};

/// Runs `body(image, columns)` over the images, each range of them with memory for its columns.
template <class T, class Body>
void for_images(const ConvShape& s, const Body& body) {
    const int64_t needed = is_product(s) ? 0 : Pieces<T>(s).elements(s);
    parallel_for(s.batch, 1, [&](int64_t begin, int64_t end) {
        std::unique_ptr<T[]> columns(new T[needed]);
        for (int64_t n = begin; n < end; ++n) body(n, columns.get());
    });
}

/// The zeros around an image times a weight that is not finite would be NaN: the adjoint has none.
template <class T>
bool are_finite(const T* w, int64_t n) {
    bool finite = true;
    for (int64_t i = 0; i < n; ++i) finite &= std::fabs(w[i]) <= std::numeric_limits<T>::max();
    return finite;
}

template <class T>
void fill_rows(T* y, const T* bias, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; ++r) std::fill_n(y + r * n, n, bias ? bias[r] : T(0));
}

}  // namespace

template <class T>
void conv(const ConvShape& s, const T* x, const T* w, const T* bias, T* y) {
    if constexpr (std::is_floating_point_v<T>)
        if (!columns_wanted()) {
            if (is_depthwise(s)) return depthwise(s, x, w, bias, y);
            if (is_direct(s, false)) return direct_conv(s, x, w, bias, y);
        }
    const int64_t m = s.out_channels, k = s.columns(), n = s.out_size(), pixels = s.in_size();
    if (s.batch * m * n == 0) return;
    const bool product = is_product(s);
    const Pieces<T> pieces(s);
    for_images<T>(s, [&](int64_t image, T* columns) {
        for (int64_t g = 0; g < s.groups; ++g) {
            const T* from = x + (image * s.groups + g) * s.in_channels * pixels;
            const T* weight = w + g * m * k;
            T* to = y + (image * s.groups + g) * m * n;
            if (bias) fill_rows(to, bias + g * m, m, n);
            const T beta = bias ? 1 : 0;
            if (product) {
                gemm<T>(Trans::No, Trans::No, m, n, k, 1, weight, k, from, n, beta, to, n);
                continue;
            }
            for (int64_t r = 0; r < pieces.rows; r += pieces.at_once) {
                const int64_t last = std::min(pieces.rows, r + pieces.at_once);
                const int64_t count = (last - r) * pieces.width;
                to_columns(s, from, columns, r, last);
                gemm<T>(Trans::No, Trans::No, m, count, k, 1, weight, k, columns, count, beta,
                        to + r * pieces.width, n);
            }
        }
    });
}

template <class T>
void conv_transposed(const ConvShape& s, const T* dy, const T* w, T* dx) {
    if constexpr (std::is_floating_point_v<T>)
        if (!columns_wanted()) {
            if (is_depthwise(s)) return depthwise_transposed(s, dy, w, dx);
            if (is_direct(s, true) && are_finite(w, s.groups * s.out_channels * s.columns()))
                return direct_conv_transposed(s, dy, w, dx);
        }
    const int64_t m = s.out_channels, k = s.columns(), n = s.out_size(), pixels = s.in_size();
    const bool product = is_product(s) && m > 0;
    const Pieces<T> pieces(s);
    for_images<T>(s, [&](int64_t image, T* columns) {
        for (int64_t g = 0; g < s.groups; ++g) {
            const T* from = dy + (image * s.groups + g) * m * n;
            const T* weight = w + g * m * k;
            T* to = dx + (image * s.groups + g) * s.in_channels * pixels;
            if (product) {
                gemm<T>(Trans::Yes, Trans::No, k, n, m, 1, weight, k, from, n, 0, to, n);
                continue;
            }
            std::fill_n(to, s.in_channels * pixels, T(0));
            if (m * n == 0) continue;
            for (int64_t r = 0; r < pieces.rows; r += pieces.at_once) {
                const int64_t last = std::min(pieces.rows, r + pieces.at_once);
                const int64_t count = (last - r) * pieces.width;
                gemm<T>(Trans::Yes, Trans::No, k, count, m, 1, weight, k, from + r * pieces.width,
                        n, 0, columns, count);
                add_columns(s, to, columns, r, last);
            }
        }
    });
}

template <class T>
void conv_weight(const ConvShape& s, const T* x, const T* dy, T* dw) {
    if constexpr (std::is_floating_point_v<T>)
        if (!columns_wanted() && is_depthwise(s)) return depthwise_weight(s, x, dy, dw);
    const int64_t m = s.out_channels, k = s.columns(), n = s.out_size(), pixels = s.in_size();
    const int64_t size = s.groups * m * k;
    if (size == 0) return;
    if (s.batch * n == 0) return void(std::fill_n(dw, size, T(0)));
    const bool product = is_product(s);
    const Pieces<T> pieces(s);
    // Parts by shape alone, added in order: Note [Same bits on any number of threads].
    const int64_t fit = std::max<int64_t>(1, part_bytes / (size * sizeof(T)));
    const int64_t each = divide_up(s.batch, std::min({most_parts, fit, s.batch}));
    const int64_t parts = divide_up(s.batch, each);
    std::unique_ptr<T[]> others(new T[(parts - 1) * size]);
    parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
        std::unique_ptr<T[]> columns(new T[product ? 0 : pieces.elements(s)]);
        for (int64_t image = begin * each; image < std::min(end * each, s.batch); ++image) {
            const int64_t part = image / each;
            T* out = part ? others.get() + (part - 1) * size : dw;
            for (int64_t g = 0; g < s.groups; ++g) {
                const T* from = x + (image * s.groups + g) * s.in_channels * pixels;
                const T* grad = dy + (image * s.groups + g) * m * n;
                T* to = out + g * m * k;
                T beta = image % each ? 1 : 0;
                if (product) {
                    gemm<T>(Trans::No, Trans::Yes, m, k, n, 1, grad, n, from, n, beta, to, k);
                    continue;
                }
                for (int64_t r = 0; r < pieces.rows; r += pieces.at_once, beta = 1) {
                    const int64_t last = std::min(pieces.rows, r + pieces.at_once);
                    const int64_t count = (last - r) * pieces.width;
                    to_columns(s, from, columns.get(), r, last);
                    gemm<T>(Trans::No, Trans::Yes, m, k, count, 1, grad + r * pieces.width, n,
                            columns.get(), count, beta, to, k);
                }
            }
        }
    });
    for (int64_t part = 1; part < parts; ++part)
        for (int64_t i = 0; i < size; ++i) dw[i] += others[(part - 1) * size + i];
}

template <class T>
void unfold(const ConvShape& s, const T* x, T* columns) {
    to_columns(s, x, columns, 0, s.out[0] * s.out[1]);
}

template <class T>
void fold(const ConvShape& s, const T* columns, T* x) {
    std::fill_n(x, s.in_channels * s.in_size(), T(0));
    add_columns(s, x, const_cast<T*>(columns), int64_t{0}, s.out[0] * s.out[1]);
}

#define WEFT_UNFOLD(T)                                                                             \
    template void unfold<T>(const ConvShape&, const T*, T*);                                       \
    template void fold<T>(const ConvShape&, const T*, T*);
WEFT_UNFOLD(float)
WEFT_UNFOLD(double)
#undef WEFT_UNFOLD

#define WEFT_CONV(T)                                                                               \
    template void conv<T>(const ConvShape&, const T*, const T*, const T*, T*);                     \
    template void conv_transposed<T>(const ConvShape&, const T*, const T*, T*);                    \
    template void conv_weight<T>(const ConvShape&, const T*, const T*, T*);
WEFT_CONV(float)
WEFT_CONV(double)
WEFT_CONV(int64_t)
#undef WEFT_CONV

}  // namespace weft::kernels
