/// Rows are sorted as (key, index) pairs, where the key is an unsigned integer in the order of the
/// numbers: short rows by comparison, long ones and those whose keys lie close by radix (LSD over
/// what a key is more than the least, one byte per pass, passes in which all bytes agree left out;
/// medians by MSD, following the one digit that holds them). Knuth, The Art of Computer Programming
/// 3, 5.2.5.
#include "kernels/order.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "base/parallel.h"

namespace weft::kernels {
namespace {

template <class T>
auto ordered(T x) {
    if constexpr (std::is_same_v<T, bool>) {
        return static_cast<uint32_t>(x);
    } else if constexpr (std::is_same_v<T, int64_t>) {
        return static_cast<uint64_t>(x) ^ (uint64_t{1} << 63);
    } else {
        using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
        constexpr U sign = U{1} << (8 * sizeof(U) - 1);
        if (x != x) return std::numeric_limits<U>::max();
        auto bits = std::bit_cast<U>(x == T{0} ? T{0} : x);
        return static_cast<U>(bits & sign ? ~bits : bits | sign);
    }
}

/// A 64-bit key beside its index.
struct Wide {
    uint64_t key_;
    int64_t index_;
    Wide() = default;
    Wide(uint64_t key, int64_t index) : key_(key), index_(index) {}
    uint64_t key() const { return key_; }
    int64_t index() const { return index_; }
    bool operator<(const Wide& o) const {
        return key_ != o.key_ ? key_ < o.key_ : index_ < o.index_;
    }
};
/// A 32-bit key over its index, in one word. For rows of less than 2^32.
struct Narrow {
    uint64_t word;
    Narrow() = default;
    Narrow(uint32_t key, int64_t index)
        : word(uint64_t{key} << 32 | static_cast<uint64_t>(index)) {}
    uint32_t key() const { return static_cast<uint32_t>(word >> 32); }
    int64_t index() const { return static_cast<int64_t>(word & 0xffffffffu); }
    bool operator<(const Narrow& o) const { return word < o.word; }
};

template <class Entry>
using KeyOf = decltype(std::declval<Entry>().key());

constexpr int64_t kShort = 64;
constexpr int64_t kRadixFrom = 1024;
/// Shorter rows are not worth a pass each over so many entries.
constexpr int64_t kPass = 48;

/// Room for one row at a time, on the stack if it is short.
template <class Entry>
class Row {
public:
    explicit Row(int64_t n) : n_(n) {
        if (n > kShort) heap_.reset(new Entry[2 * n]);
    }
    Entry* begin() { return heap_ ? heap_.get() : short_; }
    Entry* end() { return begin() + n_; }

    template <class T>
    void load(const T* x, int64_t stride, bool descending) {
        Entry* e = begin();
        for (int64_t i = 0; i < n_; ++i) {
            auto key = static_cast<KeyOf<Entry>>(ordered(x[i * stride]));
            e[i] = Entry(descending ? ~key : key, i);
        }
    }
    void sort() {
        if (n_ <= kShort) return std::sort(begin(), end());
        KeyOf<Entry> least = begin()->key(), most = least;
        for (const Entry* e = begin(); e != end(); ++e) {
            least = std::min(least, e->key());
            most = std::max(most, e->key());
        }
        const int digits = (std::bit_width(static_cast<KeyOf<Entry>>(most - least)) + 7) / 8;
        if (n_ < kRadixFrom && digits * kPass > n_) std::sort(begin(), end());
        else radix_sort(least, digits);
    }
    /// The entry that sorting would put at k. Leaves the row in disorder.
    Entry select(int64_t k) {
        int64_t n = n_;
        Entry* e = begin();
        for (int shift = 8 * (sizeof(KeyOf<Entry>) - 1); shift >= 0 && n > kShort; shift -= 8) {
            int64_t counts[256] = {};
            for (int64_t i = 0; i < n; ++i) counts[e[i].key() >> shift & 255]++;
            int digit = 0;
            while (k >= counts[digit]) k -= counts[digit++];
            if (counts[digit] == n) continue;
            int64_t kept = 0;
            for (int64_t i = 0; i < n; ++i) {
                e[kept] = e[i];
                kept += static_cast<int>(e[i].key() >> shift & 255) == digit;
            }
            n = kept;
        }
        if (n > kShort) return e[k];  // equal keys, still in the order of their indices
        std::nth_element(e, e + k, e + n);
        return e[k];
    }

private:
    void radix_sort(KeyOf<Entry> least, int digits) {
        int64_t counts[sizeof(KeyOf<Entry>)][256];
        std::memset(counts, 0, sizeof(counts[0]) * static_cast<size_t>(digits));
        Entry *from = begin(), *to = end();
        const auto count = [&](auto all) {
            for (int64_t i = 0; i < n_; ++i)
                for (int d = 0; d < all; ++d) counts[d][(from[i].key() - least) >> (8 * d) & 255]++;
        };
        constexpr int kDigits = sizeof(KeyOf<Entry>);
        if (digits == kDigits) count(std::integral_constant<int, kDigits>());
        else count(digits);
        for (int d = 0; d < digits; ++d) {
            if (counts[d][(from[0].key() - least) >> (8 * d) & 255] == n_) continue;
            int64_t start = 0;
            for (int64_t& count : counts[d]) start += std::exchange(count, start);
            for (int64_t i = 0; i < n_; ++i)
                to[counts[d][(from[i].key() - least) >> (8 * d) & 255]++] = from[i];
            std::swap(from, to);
        }
        if (from != begin()) std::copy(from, from + n_, begin());
    }

    int64_t n_;
    Entry short_[kShort];
    std::unique_ptr<Entry[]> heap_;
};

/// Calls `work(row, x, o, i)` for every row of the axis, with the row type its length allows.
template <class T, class Work>
void for_rows(const T* x, Axis axis, Work&& work) {
    auto run = [&]<class Entry>() {
        int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(axis.n, 1));
        parallel_for(axis.outer * axis.inner, grain, [&](int64_t begin, int64_t end) {
            Row<Entry> row(axis.n);
            for (int64_t r = begin; r < end; ++r) {
                int64_t o = r / axis.inner, i = r % axis.inner;
                work(row, x + o * axis.n * axis.inner + i, o, i);
            }
        });
    };
    if (sizeof(ordered(T{})) == 4 && axis.n < (int64_t{1} << 32)) run.template operator()<Narrow>();
    else run.template operator()<Wide>();
}

/// Writes the first k entries of a row.
template <class T, class Entry>
void store(const Entry* e, const T* x, T* values, int64_t* indices, int64_t k, int64_t inner) {
    if (values)
        for (int64_t j = 0; j < k; ++j) values[j * inner] = x[e[j].index() * inner];
    if (indices)
        for (int64_t j = 0; j < k; ++j) indices[j * inner] = e[j].index();
}

template <class P>
P* at(P* base, int64_t offset) {
    return base ? base + offset : nullptr;
}

}  // namespace

template <class T>
void sort(const T* x, T* values, int64_t* indices, bool descending, Axis axis) {
    for_rows(x, axis, [&](auto& row, const T* from, int64_t o, int64_t i) {
        row.load(from, axis.inner, descending);
        row.sort();
        int64_t base = o * axis.n * axis.inner + i;
        store(row.begin(), from, at(values, base), at(indices, base), axis.n, axis.inner);
    });
}

template <class T>
void topk(const T* x, T* values, int64_t* indices, int64_t k, bool largest, bool sorted,
          Axis axis) {
    for_rows(x, axis, [&](auto& row, const T* from, int64_t o, int64_t i) {
        row.load(from, axis.inner, largest);
        auto before = [](const auto& a, const auto& b) { return a.key() < b.key(); };
        auto *first = row.begin(), *last = first + k;
        if (k * 64 <= axis.n) {
            std::partial_sort(first, last, row.end(), before);
        } else if (k > 0) {
            std::nth_element(first, last - 1, row.end(), before);
            if (sorted) std::sort(first, last - 1, before);
        }
        int64_t base = o * k * axis.inner + i;
        store(row.begin(), from, at(values, base), at(indices, base), k, axis.inner);
    });
}

template <class T>
void median(const T* x, T* values, int64_t* indices, bool skip_nan, Axis axis) {
    for_rows(x, axis, [&](auto& row, const T* from, int64_t o, int64_t i) {
        int64_t to = o * axis.inner + i, found = -1, numbers = axis.n;
        if (skip_nan) {
            for (int64_t j = 0; j < axis.n; ++j)
                numbers -= from[j * axis.inner] != from[j * axis.inner];
        } else {
            for (int64_t j = 0; j < axis.n && found < 0; ++j)
                if (from[j * axis.inner] != from[j * axis.inner]) found = j;
        }
        if (found < 0) {
            row.load(from, axis.inner, false);  // NaN is the largest
            found = row.select(std::max<int64_t>(numbers - 1, 0) / 2).index();
        }
        values[to] = from[found * axis.inner];
        if (indices) indices[to] = found;
    });
}

namespace {

/// Hoare's selection by the median of three (Sedgewick 1978, "Implementing quicksort programs"),
/// which decides by its exchanges which of equal entries ends at k.
template <class Entry>
void select_by_exchange(Entry* e, int64_t n, int64_t k) {
    auto order = [&](int64_t low, int64_t high) {
        if (e[low].key() > e[high].key()) std::swap(e[low], e[high]);
    };
    int64_t left = 0, right = n - 1;
    while (right > left + 1) {
        std::swap(e[left + (right - left) / 2], e[left + 1]);
        order(left + 1, right);
        order(left, right);
        order(left + 1, left);
        const auto pivot = e[left].key();
        int64_t i = left + 1, j = right;
        while (true) {
            while (e[++i].key() < pivot) {
            }
            while (e[--j].key() > pivot) {
            }
            if (j < i) break;
            std::swap(e[i], e[j]);
        }
        std::swap(e[left], e[j]);
        if (j <= k) left = i;
        if (j >= k) right = j - 1;
    }
    if (right == left + 1) order(left, right);
}

}  // namespace

template <class T>
void kth(const T* x, T* values, int64_t* indices, int64_t k, Axis axis) {
    for_rows(x, axis, [&](auto& row, const T* from, int64_t o, int64_t i) {
        row.load(from, axis.inner, false);
        select_by_exchange(row.begin(), axis.n, k);
        int64_t to = o * axis.inner + i;
        store(row.begin() + k, from, values + to, indices + to, 1, axis.inner);
    });
}

template <class T>
void pick_along(const T* x, const int64_t* index, T* y, int64_t k, Axis axis) {
    for (int64_t o = 0; o < axis.outer; ++o)
        for (int64_t j = 0; j < k; ++j)
            for (int64_t i = 0; i < axis.inner; ++i) {
                int64_t to = (o * k + j) * axis.inner + i;
                y[to] = x[(o * axis.n + index[to]) * axis.inner + i];
            }
}

template <class T>
void place_along(const T* x, const int64_t* index, T* y, int64_t k, Axis axis) {
    std::memset(y, 0, sizeof(T) * axis.outer * axis.n * axis.inner);
    for (int64_t o = 0; o < axis.outer; ++o)
        for (int64_t j = 0; j < k; ++j)
            for (int64_t i = 0; i < axis.inner; ++i) {
                int64_t from = (o * k + j) * axis.inner + i;
                y[(o * axis.n + index[from]) * axis.inner + i] = x[from];
            }
}

#define WEFT_ORDER(T)                                                                              \
    template void sort(const T*, T*, int64_t*, bool, Axis);                                        \
    template void topk(const T*, T*, int64_t*, int64_t, bool, bool, Axis);                         \
    template void median(const T*, T*, int64_t*, bool, Axis);                                      \
    template void kth(const T*, T*, int64_t*, int64_t, Axis);                                      \
    template void pick_along(const T*, const int64_t*, T*, int64_t, Axis);                         \
    template void place_along(const T*, const int64_t*, T*, int64_t, Axis);
WEFT_ORDER(float)
WEFT_ORDER(double)
WEFT_ORDER(int64_t)
WEFT_ORDER(bool)
#undef WEFT_ORDER

}  // namespace weft::kernels
