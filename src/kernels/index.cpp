#include "kernels/index.h"

#include "kernels/convert.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/parallel.h"
#include "kernels/simd.h"

namespace weft::kernels {
namespace {

/// Elements per parallel piece.
constexpr int64_t kGrain = 32768;
/// Columns per parallel piece where rows have to be taken in order.
constexpr int64_t kColumns = 64;

/// Counts through `shape` in row-major order and keeps the offsets of two operands.
class Odometer {
public:
    Odometer(Sizes shape, Sizes first, Sizes second, int64_t start = 0)
        : shape_(shape), first_(first), second_(second) {
        for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
            at_[d] = start % shape[d];
            start /= shape[d];
            a += at_[d] * first[d];
            b += at_[d] * second[d];
        }
    }
    void next() {
        for (int d = static_cast<int>(shape_.size()) - 1; d >= 0; --d) {
            a += first_[d];
            b += second_[d];
            if (++at_[d] < shape_[d]) return;
            a -= first_[d] * shape_[d];
            b -= second_[d] * shape_[d];
            at_[d] = 0;
        }
    }
    const int64_t* index() const { return at_; }
    int64_t a = 0, b = 0;

private:
    static constexpr int kMaxDims = 64;
    Sizes shape_, first_, second_;
    int64_t at_[kMaxDims];
};

Sizes all_but_last(Sizes s) { return s.first(s.size() - 1); }

int64_t product(Sizes shape) {
    int64_t n = 1;
    for (int64_t s : shape) n *= s;
    return n;
}

template <class T>
void add_to(T& to, T value) {
    if constexpr (std::is_same_v<T, bool>) to = to || value;
    else if constexpr (std::is_same_v<T, ComplexHalf>)
        to = convert<T>(convert<std::complex<float>>(to) + convert<std::complex<float>>(value));
    else if constexpr (is_half<T>) to = T(static_cast<float>(to) + static_cast<float>(value));
    else to = static_cast<T>(to + value);
}

template <class T>
void multiply_to(T& to, T value) {
    if constexpr (std::is_same_v<T, ComplexHalf>)
        to = convert<T>(convert<std::complex<float>>(to) * convert<std::complex<float>>(value));
    else if constexpr (is_half<T>) to = T(static_cast<float>(to) * static_cast<float>(value));
    else to = static_cast<T>(to * value);
}

/// NaN wins. Complex numbers have no order: the callers refuse them.
template <bool Larger, class T>
void extreme_to(T& to, T value) {
    if constexpr (is_half<T>) {
        float a = static_cast<float>(to), b = static_cast<float>(value);
        to = (Larger ? b > a : b < a) || b != b ? value : to;
    } else if constexpr (!is_complex_v<T>) {
        to = (Larger ? value > to : value < to) || value != value ? value : to;
    }
}

struct Bits128 {
    uint64_t low, high;
};

/// Calls f with a pointer type of `item` bytes.
template <class F>
void by_size(int item, F&& f) {
    if (item == 1) f.template operator()<uint8_t>();
    else if (item == 2) f.template operator()<uint16_t>();
    else if (item == 4) f.template operator()<uint32_t>();
    else if (item == 8) f.template operator()<uint64_t>();
    else f.template operator()<Bits128>();
}

}  // namespace

// ---- layouts -----------------------------------------------------------------------------------

template <class T>
void add_strided(T* to, Sizes shape, Sizes strides, const T* from) {
    int64_t n = product(shape);
    if (n == 0) return;
    if (shape.empty()) return add_to(*to, *from);
    int64_t line = shape.back(), step = strides.back();
    Odometer at(all_but_last(shape), all_but_last(strides), all_but_last(strides));
    for (int64_t done = 0; done < n; done += line, at.next())
        for (int64_t i = 0; i < line; ++i) add_to(to[at.a + i * step], from[done + i]);
}

void triangle(char* to, const char* from, int item, int64_t count, int64_t rows, int64_t columns,
              int64_t k, bool lower) {
    int64_t row_bytes = columns * item;
    parallel_for(count * rows, std::max<int64_t>(1, kGrain / columns),
                 [&](int64_t begin, int64_t end) {
                     for (int64_t q = begin; q < end; ++q) {
                         // columns below `edge` lie under the diagonal or on it (lower), or
                         // strictly under (upper)
                         int64_t edge =
                             std::clamp<int64_t>(q % rows + k + (lower ? 1 : 0), 0, columns) * item;
                         char* row = to + q * row_bytes;
                         int64_t kept = lower ? 0 : edge, kept_end = lower ? edge : row_bytes;
                         if (to != from)
                             std::memcpy(row + kept, from + q * row_bytes + kept, kept_end - kept);
                         std::memset(row + (lower ? edge : 0), 0, lower ? row_bytes - edge : edge);
                     }
                 });
}

namespace {

struct AllInside {
    WEFT_INLINE static void run(const int64_t* values, int64_t n, int64_t low, int64_t high,
                                bool* all) {
        // One comparison without signs: values in [low, high) lie below high - low above low.
        const auto width = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
        uint64_t outside = 0;
        for (int64_t i = 0; i < n; ++i)
            outside |= static_cast<uint64_t>(values[i]) - static_cast<uint64_t>(low) >= width;
        *all = outside == 0;
    }
};

}  // namespace

int64_t first_outside(const int64_t* values, int64_t n, int64_t low, int64_t high) {
    bool inside;
    per_isa<AllInside, const int64_t*, int64_t, int64_t, int64_t, bool*>(values, n, low, high,
                                                                         &inside);
    for (int64_t i = 0; !inside && i < n; ++i)
        if (values[i] < low || values[i] >= high) return i;
    return -1;
}

namespace {

struct AddPlaces {
    WEFT_INLINE static void run(int64_t* places, const int64_t* at, int64_t step, int64_t n,
                                int64_t size, int64_t stride, bool* inside) {
        uint64_t outside = 0;
        for (int64_t i = 0; i < n; ++i) {
            const int64_t index = at[i * step], from_start = index < 0 ? index + size : index;
            outside |= static_cast<uint64_t>(from_start) >= static_cast<uint64_t>(size);
            places[i] += from_start * stride;
        }
        *inside = outside == 0;
    }
};

}  // namespace

bool add_places(int64_t* places, const int64_t* at, int64_t step, int64_t n, int64_t size,
                int64_t stride) {
    bool inside;
    per_isa<AddPlaces, int64_t*, const int64_t*, int64_t, int64_t, int64_t, int64_t, bool*>(
        places, at, step, n, size, stride, &inside);
    return inside;
}

// ---- blocks ------------------------------------------------------------------------------------

namespace {

/// Single elements: to[r] = from[rows[r]].
template <class U>
struct TakeElements {
    WEFT_INLINE static void run(U* __restrict to, const U* __restrict from, const int64_t* rows,
                                int64_t n) {
        for (int64_t r = 0; r < n; ++r) to[r] = from[rows[r]];
    }
};

template <class U>
void take_elements(U* to, const U* from, const Blocks& b) {
    auto take = IsaVersions<TakeElements<U>, U*, const U*, const int64_t*, int64_t>::pick();
    if (b.outer_count == 1)
        return parallel_for(b.row_count, kGrain, [&](int64_t begin, int64_t end) {
            take(to + begin, from + b.outer[0], b.rows + begin, end - begin);
        });
    int64_t grain = std::max<int64_t>(1, kGrain / b.row_count);
    parallel_for(b.outer_count, grain, [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o)
            take(to + o * b.row_count, from + b.outer[o], b.rows, b.row_count);
    });
}

}  // namespace

void take_blocks(char* to_, const char* from_, const Blocks& b, int item) {
    by_size(item, [&]<class U>() {
        auto* to = reinterpret_cast<U*>(to_);
        auto* from = reinterpret_cast<const U*>(from_);
        int64_t n = b.inner_count;
        if (n == 1) return take_elements(to, from, b);
        int64_t grain = std::max<int64_t>(1, kGrain / n);
        parallel_for(b.outer_count * b.row_count, grain, [&](int64_t begin, int64_t end) {
            int64_t o = begin / b.row_count, r = begin % b.row_count;
            for (int64_t q = begin; q < end; ++q) {
                const U* source = from + b.outer[o] + b.rows[r];
                U* target = to + q * n;
                if (!b.inner) std::memcpy(target, source, n * sizeof(U));
                else
                    for (int64_t i = 0; i < n; ++i) target[i] = source[b.inner[i]];
                if (++r == b.row_count) r = 0, ++o;
            }
        });
    });
}

void put_blocks(char* to_, const char* from_, const Blocks& b, int item) {
    by_size(item, [&]<class U>() {
        auto* from = reinterpret_cast<const U*>(from_);
        int64_t n = b.inner_count;
        for (int64_t o = 0; o < b.outer_count; ++o)
            for (int64_t r = 0; r < b.row_count; ++r, from += n) {
                U* target = reinterpret_cast<U*>(to_) + b.outer[o] + b.rows[r];
                if (n == 1) *target = *from;
                else if (!b.inner) std::memcpy(target, from, n * sizeof(U));
                else
                    for (int64_t i = 0; i < n; ++i) target[b.inner[i]] = from[i];
            }
    });
}

void fill_blocks(char* to_, const char* value_, const Blocks& b, int item) {
    by_size(item, [&]<class U>() {
        auto* to = reinterpret_cast<U*>(to_);
        const U value = *reinterpret_cast<const U*>(value_);
        const int64_t *rows = b.rows, n = b.inner_count, row_count = b.row_count;
        for (int64_t o = 0; o < b.outer_count; ++o) {
            U* base = to + b.outer[o];
            if (n == 1)
                for (int64_t r = 0; r < row_count; ++r) base[rows[r]] = value;
            else if (!b.inner)
                for (int64_t r = 0; r < row_count; ++r) std::fill_n(base + rows[r], n, value);
            else
                for (int64_t r = 0; r < row_count; ++r)
                    for (int64_t i = 0; i < n; ++i) base[rows[r] + b.inner[i]] = value;
        }
    });
}

template <class T>
void add_blocks(T* to, const T* from, const Blocks& b) {
    auto columns = [&](int64_t begin, int64_t end) {
        const T* row = from;
        for (int64_t o = 0; o < b.outer_count; ++o)
            for (int64_t r = 0; r < b.row_count; ++r, row += b.inner_count) {
                T* target = to + b.outer[o] + b.rows[r];
                if (!b.inner)
                    for (int64_t i = begin; i < end; ++i) add_to(target[i], row[i]);
                else
                    for (int64_t i = begin; i < end; ++i) add_to(target[b.inner[i]], row[i]);
            }
    };
    if (b.count() < kGrain) columns(0, b.inner_count);
    else parallel_for(b.inner_count, kColumns, columns);
}

namespace {

struct AddRows {
    template <class T>
    WEFT_INLINE static void run(T* to, const T* from, const int64_t* index, int64_t n,
                                int64_t width, int64_t skip, const int64_t* count, int64_t begin,
                                int64_t end) {
        for (int64_t r = 0; r < n; ++r) {
            if (index[r] == skip) continue;
            T* __restrict target = to + index[r] * width;
            const T* __restrict row = from + r * width;
            T scale = count ? T{1} / static_cast<T>(count[index[r]]) : T{1};
            if (!count)
                for (int64_t i = begin; i < end; ++i) target[i] += row[i];
            else
                for (int64_t i = begin; i < end; ++i) target[i] += scale * row[i];
        }
    }
};

}  // namespace

template <class T>
void add_rows(T* to, const T* from, const int64_t* index, int64_t n, int64_t width, int64_t skip,
              const int64_t* count) {
    auto columns = [&](int64_t begin, int64_t end) {
        per_isa<AddRows>(to, from, index, n, width, skip, count, begin, end);
    };
    if (n * width < kGrain) columns(0, width);
    else parallel_for(width, kColumns, columns);
}

// ---- lines -------------------------------------------------------------------------------------

namespace {

/// One line, where the index steps through dense memory along the line or across it.
template <class U>
struct GatherLine {
    WEFT_INLINE static void run(U* __restrict to, const U* __restrict from, const int64_t* index,
                                int64_t n, int64_t to_step, int64_t from_step, int64_t step) {
        if (to_step == 1 && from_step == 0 && step == 1)
            for (int64_t i = 0; i < n; ++i) to[i] = from[index[i]];
        else if (to_step == 1 && from_step == 1)
            for (int64_t i = 0; i < n; ++i) to[i] = from[i + index[i] * step];
        else
            for (int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step + index[i] * step];
    }
};

}  // namespace

void gather_lines(char* to_, const char* from_, const int64_t* index, const Lines& l, int item) {
    int64_t line = l.shape.back(), lines = product(all_but_last(l.shape));
    by_size(item, [&]<class U>() {
        auto* to = reinterpret_cast<U*>(to_);
        auto* from = reinterpret_cast<const U*>(from_);
        parallel_for(lines, std::max<int64_t>(1, kGrain / line), [&](int64_t begin, int64_t end) {
            Odometer at(all_but_last(l.shape), all_but_last(l.strides), all_but_last(l.other),
                        begin);
            for (int64_t q = begin; q < end; ++q, at.next())
                per_isa<GatherLine<U>, U*, const U*, const int64_t*, int64_t, int64_t, int64_t,
                        int64_t>(to + at.b, from + at.a, index + q * line, line, l.other.back(),
                                 l.strides.back(), l.step);
        });
    });
}

template <class T>
void scatter_lines(T* to, const T* from, const int64_t* index, const Lines& l, Combine how) {
    int64_t line = l.shape.back(), lines = product(all_but_last(l.shape));
    int64_t s = l.strides.back(), t = l.other.back();
    Odometer at(all_but_last(l.shape), all_but_last(l.strides), all_but_last(l.other));
    auto each = [&](auto&& combine) {
        for (int64_t q = 0; q < lines; ++q, at.next(), index += line) {
            T* target = to + at.a;
            const T* source = from + at.b;
            if (s == 0 && l.step == 1 && t == 1)
                for (int64_t i = 0; i < line; ++i) combine(target[index[i]], source[i]);
            else
                for (int64_t i = 0; i < line; ++i)
                    combine(target[i * s + index[i] * l.step], source[i * t]);
        }
    };
    switch (how) {
        case Combine::Set:
            return each([](T& a, T b) { a = b; });
        case Combine::Add:
            return each([](T& a, T b) { add_to(a, b); });
        case Combine::Multiply:
            return each([](T& a, T b) { multiply_to(a, b); });
        case Combine::Max:  // of numbers with an order; narrow ones come widened
            if constexpr (std::is_arithmetic_v<T>) each([](T& a, T b) { extreme_to<true>(a, b); });
            return;
        case Combine::Min:
            if constexpr (std::is_arithmetic_v<T>) each([](T& a, T b) { extreme_to<false>(a, b); });
            return;
    }
}

// ---- masks -------------------------------------------------------------------------------------

namespace {

/// Eight bools at a time, as words: 255 of them can be added before a byte of the sum overflows.
struct CountTrue {
    WEFT_INLINE static void run(const bool* x, int64_t n, int64_t* count) {
        constexpr int64_t kMost = 255;
        int64_t total = 0, words = n / 8, done = 0;
        while (done < words) {
            const int64_t stop = words - done < kMost ? words : done + kMost;
            uint64_t bytes = 0;
            for (; done < stop; ++done) {
                uint64_t word;
                std::memcpy(&word, x + done * 8, 8);
                bytes += word;
            }
            constexpr uint64_t kEven = 0x00ff00ff00ff00ff;
            const uint64_t pairs = (bytes & kEven) + (bytes >> 8 & kEven);
            total += static_cast<int64_t>(pairs * 0x0001000100010001 >> 48);
        }
        for (int64_t i = words * 8; i < n; ++i) total += x[i];
        *count = total;
    }
};

}  // namespace

int64_t count_nonzero(const bool* x, int64_t n) {
    int64_t count = 0;
    per_isa<CountTrue, const bool*, int64_t, int64_t*>(x, n, &count);
    return count;
}

namespace {

/// The columns of one line that are not zero: each column is written, the place moves on only where
/// it counts, so no branch can mispredict.
template <class T>
struct NonzeroLine {
    static constexpr int64_t kBlock = 32;
    WEFT_INLINE static void run(const T* x, int64_t n, int64_t** place, const int64_t* end) {
        int64_t* out = *place;
        for (int64_t start = 0; start < n && out != end; start += kBlock) {
            int64_t stop = start + kBlock < n ? start + kBlock : n;
            bool some = false;
            for (int64_t i = start; i < stop; ++i) some |= x[i] != T{0};
            for (int64_t i = start; some && i < stop && out != end; ++i) {
                *out = i;
                out += static_cast<int64_t>(x[i] != T{0});
            }
        }
        *place = out;
    }
};

}  // namespace

template <class T>
void nonzero(const T* x, Sizes shape, int64_t* out, int64_t count) {
    if (shape.empty() || count == 0) return;
    const size_t lead = shape.size() - 1;
    int64_t *place = out + static_cast<int64_t>(lead) * count, *end = place + count;
    auto write = IsaVersions<NonzeroLine<T>, const T*, int64_t, int64_t**, const int64_t*>::pick();
    Odometer at(all_but_last(shape), all_but_last(shape), all_but_last(shape));
    for (; place != end; x += shape.back(), at.next()) {
        const int64_t before = count - (end - place);
        write(x, shape.back(), &place, end);
        const int64_t found = count - (end - place) - before;
        for (size_t d = 0; found && d < lead; ++d)
            std::fill_n(out + static_cast<int64_t>(d) * count + before, found, at.index()[d]);
    }
}

/// Eight elements at once where all of them count or none does.
void masked_take(char* to_, const char* from_, const bool* mask, int64_t n, int64_t count,
                 int item) {
    constexpr uint64_t kAll = 0x0101010101010101;
    by_size(item, [&]<class U>() {
        auto *to = reinterpret_cast<U*>(to_), *end = to + count;
        auto* from = reinterpret_cast<const U*>(from_);
        int64_t i = 0;
        for (; i + 8 <= n && end - to >= 8; i += 8) {
            uint64_t flags;
            std::memcpy(&flags, mask + i, 8);
            if (flags == kAll) {
                std::memcpy(to, from + i, 8 * sizeof(U));
                to += 8;
            } else if (flags) {
                for (int64_t k = i; k < i + 8; ++k) {
                    *to = from[k];
                    to += mask[k];
                }
            }
        }
        for (; to != end; ++i) {
            *to = from[i];
            to += mask[i];
        }
    });
}

void masked_put(char* to_, const char* from_, const bool* mask, int64_t n, int item) {
    by_size(item, [&]<class U>() {
        auto* to = reinterpret_cast<U*>(to_);
        auto* from = reinterpret_cast<const U*>(from_);
        for (int64_t i = 0; i < n; ++i)
            if (mask[i]) to[i] = *from++;
    });
}

// clang-format off
#define WEFT_FOR_ALL(X)                                                                  \
    X(float) X(double) X(int64_t) X(bool) X(std::complex<float>) X(std::complex<double>) \
    X(uint8_t) X(int8_t) X(int16_t) X(int32_t) X(Half) X(BFloat16)                       \
    X(uint16_t) X(uint32_t) X(uint64_t) X(ComplexHalf)
// clang-format on
#define X(T)                                                                                       \
    template void add_strided(T*, Sizes, Sizes, const T*);                                         \
    template void add_blocks(T*, const T*, const Blocks&);                                         \
    template void scatter_lines(T*, const T*, const int64_t*, const Lines&, Combine);
WEFT_FOR_ALL(X)
#undef X
#undef WEFT_FOR_ALL
template void nonzero(const bool*, Sizes, int64_t*, int64_t);
template void add_rows(float*, const float*, const int64_t*, int64_t, int64_t, int64_t,
                       const int64_t*);
template void add_rows(double*, const double*, const int64_t*, int64_t, int64_t, int64_t,
                       const int64_t*);

}  // namespace weft::kernels
