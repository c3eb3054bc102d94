/// Reading order: `butterfly` and `pass` (the arithmetic), `Group` (several transforms at once),
/// then which way a length goes: groups, in two steps, or as a convolution.
///
/// Note [Transforms in lanes]
/// A group is as many transforms as a vector has lanes, each in a lane of its own: the passes of
/// Stockham's algorithm (no reversal of bits) are then plain arithmetic on vectors, whatever the
/// length. A long transform that is alone has no others beside it: of n = a b numbers it is b
/// transforms of a numbers, a factor, and a transforms of b numbers (Gentleman & Sande 1966). A
/// length with a large prime factor is a convolution of a smooth length (Bluestein 1970).
#include "kernels/fft.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "base/parallel.h"
#include "kernels/copy.h"
#include "kernels/fft_plan.h"
#include "kernels/vector.h"

namespace weft::kernels {
namespace {

using namespace vec;

struct Free {
    void operator()(void* p) const { std::free(p); }
};
template <class T>
using Memory = std::unique_ptr<T[], Free>;

template <class T>
Memory<T> memory_for(int64_t count) {
    const size_t bytes = (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    void* p = std::aligned_alloc(64, bytes);
    if (!p) throw std::bad_alloc();
    return Memory<T>(static_cast<T*>(p));
}

// ---------------------------------------------------------------------------------------------
// Passes

/// The real and the imaginary parts of one element of every lane.
template <class V>
struct Pair {
    V re, im;
};

template <class V>
WEFT_INLINE Pair<V> plus(const Pair<V>& a, const Pair<V>& b) {
    return {a.re + b.re, a.im + b.im};
}
template <class V>
WEFT_INLINE Pair<V> minus(const Pair<V>& a, const Pair<V>& b) {
    return {a.re - b.re, a.im - b.im};
}
template <class V, class T>
WEFT_INLINE Pair<V> times(const Pair<V>& a, const std::complex<T>& w) {
    const T c = w.real(), s = w.imag();
    return {a.re * c - a.im * s, a.re * s + a.im * c};
}

/// An odd radix: sums and differences of opposite elements, times cosines and sines.
template <int Radix, class V, class T>
WEFT_INLINE void odd_butterfly(int radix, Pair<V>* a, const std::complex<T>* roots) {
    const int n = Radix ? Radix : radix, half = n / 2;
    Pair<V> sums[most_radix / 2], differences[most_radix / 2], out[most_radix];
    out[0] = a[0];
    for (int i = 0; i < half; ++i) {
        sums[i] = plus(a[i + 1], a[n - 1 - i]);
        differences[i] = minus(a[i + 1], a[n - 1 - i]);
        out[0] = plus(out[0], sums[i]);
    }
    for (int k = 1; k <= half; ++k) {
        Pair<V> even = a[0], odd{};
        for (int i = 0; i < half; ++i) {
            const std::complex<T> w = roots[(i + 1) * k % n];
            even.re += sums[i].re * w.real();
            even.im += sums[i].im * w.real();
            odd.re -= differences[i].im * w.imag();
            odd.im += differences[i].re * w.imag();
        }
        out[k] = plus(even, odd);
        out[n - k] = minus(even, odd);
    }
    for (int k = 0; k < n; ++k) a[k] = out[k];
}

/// The transform of `radix` numbers, in place.
template <int Radix, class V, class T>
WEFT_INLINE void butterfly(int radix, Pair<V>* a, const std::complex<T>* roots) {
    if constexpr (Radix == 2) {
        const Pair<V> sum = plus(a[0], a[1]);
        a[1] = minus(a[0], a[1]);
        a[0] = sum;
    } else if constexpr (Radix == 4) {
        const Pair<V> s0 = plus(a[0], a[2]), d0 = minus(a[0], a[2]);
        const Pair<V> s1 = plus(a[1], a[3]), d1 = minus(a[1], a[3]);
        a[0] = plus(s0, s1);
        a[2] = minus(s0, s1);
        a[1] = {d0.re + d1.im, d0.im - d1.re};
        a[3] = {d0.re - d1.im, d0.im + d1.re};
    } else if constexpr (Radix == 3) {
        constexpr T s = T(0x1.bb67ae8584caap-1);  // sin(2π / 3)
        constexpr std::complex<T> w[] = {{1, 0}, {T(-0.5), -s}, {T(-0.5), s}};
        odd_butterfly<3>(3, a, w);
    } else if constexpr (Radix == 5) {
        constexpr T c1 = T(0x1.3c6ef372fe950p-2), s1 = T(0x1.e6f0e134454ffp-1);
        constexpr T c2 = T(-0x1.9e3779b97f4a8p-1), s2 = T(0x1.2cf2304755a5ep-1);
        constexpr std::complex<T> w[] = {{1, 0}, {c1, -s1}, {c2, -s2}, {c2, s2}, {c1, s1}};
        odd_butterfly<5>(5, a, w);
    } else {
        odd_butterfly<0>(radix, a, roots);
    }
}

/// y = one pass over x.
template <int Radix, class V, class T>
WEFT_INLINE void pass(const typename FftPlan<T>::Pass& p, const Pair<V>* x, Pair<V>* y) {
    const int radix = Radix ? Radix : p.radix;
    const int64_t done = p.done, rest = p.rest;
    const std::complex<T>* w = p.twiddles.data();
    const std::complex<T>* roots = p.roots.data();
    for (int64_t i = 0; i < rest; ++i, w += radix - 1)
        for (int64_t q = 0; q < done; ++q) {
            Pair<V> a[Radix ? Radix : most_radix];
            if constexpr (Radix == 0)
                for (Pair<V>& element : a) element = Pair<V>{};
            for (int j = 0; j < radix; ++j) a[j] = x[q + done * (i + rest * j)];
            butterfly<Radix>(radix, a, roots);
            y[q + done * radix * i] = a[0];
            for (int j = 1; j < radix; ++j)
                y[q + done * (radix * i + j)] = i ? times(a[j], w[j - 1]) : a[j];
        }
}

/// All passes over the n elements at `a`; the result is at a or at b, which is returned.
template <class T, int Bytes>
struct Passes {
    using V = typename Simd<T, Bytes>::Vector;
    WEFT_INLINE static void run(const FftPlan<T>* plan, T* from, T* other, T** result) {
        auto* a = reinterpret_cast<Pair<V>*>(from);
        auto* b = reinterpret_cast<Pair<V>*>(other);
        for (const auto& p : plan->passes) {
            if (p.radix == 4) pass<4, V, T>(p, a, b);
            else if (p.radix == 2) pass<2, V, T>(p, a, b);
            else if (p.radix == 3) pass<3, V, T>(p, a, b);
            else if (p.radix == 5) pass<5, V, T>(p, a, b);
            else pass<0, V, T>(p, a, b);
            std::swap(a, b);
        }
        *result = reinterpret_cast<T*>(a);
    }
};

// ---------------------------------------------------------------------------------------------
// Between complex numbers in memory and pairs of vectors

template <class V, class H, size_t... I>
WEFT_INLINE void take_apart(const V& a, const V& b, V& re, V& im, std::index_sequence<I...>) {
    re = __builtin_shufflevector(a, b, static_cast<int>(2 * I)...);
    im = __builtin_shufflevector(a, b, static_cast<int>(2 * I + 1)...);
}
template <class V, class H, size_t... I>
WEFT_INLINE void put_together(const V& re, const V& im, V& a, V& b, std::index_sequence<I...>) {
    constexpr int n = sizeof...(I);
    a = __builtin_shufflevector(re, im, static_cast<int>(I / 2 + (I % 2 ? n : 0))...);
    b = __builtin_shufflevector(re, im, static_cast<int>(I / 2 + n / 2 + (I % 2 ? n : 0))...);
}

/// n elements of as many complex numbers as there are lanes, `stride` numbers of T apart, to pairs;
/// `swaps`: real and imaginary parts change places, which makes a transform the inverse one.
template <class T, int Bytes>
struct Unpack {
    using V = typename Simd<T, Bytes>::Vector;
    static constexpr int lanes = Simd<T, Bytes>::lanes;
    WEFT_INLINE static void run(const T* from, int64_t stride, T* to, int64_t n, bool swaps) {
        for (int64_t k = 0; k < n; ++k, from += stride, to += 2 * lanes) {
            const V a = load<T, Bytes>(from), b = load<T, Bytes>(from + lanes);
            V re, im;
            take_apart<V, V>(a, b, re, im, std::make_index_sequence<lanes>{});
            store<T, Bytes>(to + (swaps ? lanes : 0), re);
            store<T, Bytes>(to + (swaps ? 0 : lanes), im);
        }
    }
};
/// The way back, times a factor.
template <class T, int Bytes>
struct Pack {
    using V = typename Simd<T, Bytes>::Vector;
    static constexpr int lanes = Simd<T, Bytes>::lanes;
    WEFT_INLINE static void run(const T* from, T* to, int64_t stride, int64_t n, bool swaps,
                                T factor) {
        for (int64_t k = 0; k < n; ++k, from += 2 * lanes, to += stride) {
            const V re = load<T, Bytes>(from + (swaps ? lanes : 0)) * factor;
            const V im = load<T, Bytes>(from + (swaps ? 0 : lanes)) * factor;
            V a, b;
            put_together<V, V>(re, im, a, b, std::make_index_sequence<lanes>{});
            store<T, Bytes>(to, a);
            store<T, Bytes>(to + lanes, b);
        }
    }
};

/// Of pairs of real numbers, one in the real and one in the imaginary parts: element k of either is made of
/// elements k and n - k, in place.
template <class T, int Bytes>
struct Separate {
    using V = typename Simd<T, Bytes>::Vector;
    static constexpr int lanes = Simd<T, Bytes>::lanes;
    /// `to`: elements k < count of the first lanes' numbers, then of the second's, as complex numbers.
    WEFT_INLINE static void run(const T* z, int64_t n, T* to, int64_t count, T factor) {
        for (int64_t k = 0; k < count; ++k) {
            const T *at = z + k * 2 * lanes, *mirror = z + (k ? n - k : 0) * 2 * lanes;
            const V a = load<T, Bytes>(at), b = load<T, Bytes>(at + lanes);
            const V c = load<T, Bytes>(mirror), d = load<T, Bytes>(mirror + lanes);
            const T half = factor / 2;
            const V re0 = (a + c) * half, im0 = (b - d) * half;
            const V re1 = (b + d) * half, im1 = (c - a) * half;
            V low, high;
            T* out = to + k * 4 * lanes;
            put_together<V, V>(re0, im0, low, high, std::make_index_sequence<lanes>{});
            store<T, Bytes>(out, low);
            store<T, Bytes>(out + lanes, high);
            put_together<V, V>(re1, im1, low, high, std::make_index_sequence<lanes>{});
            store<T, Bytes>(out + 2 * lanes, low);
            store<T, Bytes>(out + 3 * lanes, high);
        }
    }
};
/// The way back: z = first + i second, from the first half of each, with the parts swapped for the inverse.
template <class T, int Bytes>
struct Unite {
    using V = typename Simd<T, Bytes>::Vector;
    static constexpr int lanes = Simd<T, Bytes>::lanes;
    WEFT_INLINE static void run(const T* from, T* z, int64_t n) {
        for (int64_t k = 0; k <= n / 2; ++k) {
            const T* at = from + k * 4 * lanes;
            const V a = load<T, Bytes>(at), b = load<T, Bytes>(at + lanes);
            const V c = load<T, Bytes>(at + 2 * lanes), d = load<T, Bytes>(at + 3 * lanes);
            V re0, im0, re1, im1;
            take_apart<V, V>(a, b, re0, im0, std::make_index_sequence<lanes>{});
            take_apart<V, V>(c, d, re1, im1, std::make_index_sequence<lanes>{});
            if (k == 0 || 2 * k == n) im0 = im1 = V{};
            store<T, Bytes>(z + k * 2 * lanes, im0 + re1);
            store<T, Bytes>(z + k * 2 * lanes + lanes, re0 - im1);
            if (k == 0) continue;
            store<T, Bytes>(z + (n - k) * 2 * lanes, re1 - im0);
            store<T, Bytes>(z + (n - k) * 2 * lanes + lanes, re0 + im1);
        }
    }
};

// ---------------------------------------------------------------------------------------------
// Groups

/// Runs Step<T, bytes> for vectors of so many bytes, which this processor has.
template <class T, template <class, int> class Step>
struct Chosen {
    template <int Widest>
    struct Body {
        template <class... Args>
        WEFT_INLINE static void run(int bytes, Args... args) {
            if constexpr (Widest >= 64)
                if (bytes == 64) return Step<T, 64>::run(args...);
            if constexpr (Widest >= 32)
                if (bytes == 32) return Step<T, 32>::run(args...);
            Step<T, 16>::run(args...);
        }
    };
};
template <class T, template <class, int> class Step, class... Args>
void with_vectors(int bytes, Args... args) {
    per_width<Chosen<T, Step>::template Body>(bytes, args...);
}

/// Bytes of a group's pairs that stay in the second-level cache beside the other buffers.
constexpr int64_t group_bytes = int64_t{1} << 18;

/// Vectors for `count` transforms of n numbers: no wider than they fill, nor than the cache takes.
template <class T>
int vector_bytes(int64_t count, int64_t n) {
    int bytes = 16;
    const int widest = cpu_level == CpuLevel::Avx512 ? 64 : cpu_level == CpuLevel::Avx2 ? 32 : 16;
    while (bytes < widest && bytes < count * static_cast<int64_t>(sizeof(T)) &&
           4 * bytes * n <= group_bytes)
        bytes *= 2;
    return bytes;
}

/// Where the transforms of an Axis lie, one after the other.
struct Places {
    Axis axis;
    int64_t count = axis.outer * axis.inner;
    /// Of the first number of transform t, and from number to number.
    int64_t first(int64_t t, int64_t n) const {
        return t / axis.inner * n * axis.inner + t % axis.inner;
    }
    /// Whether transforms [t, t + many) lie beside each other, number by number.
    bool beside(int64_t t, int64_t many) const { return t % axis.inner + many <= axis.inner; }
};

/// Numbers of U of `many` transforms from t on, of n numbers each in `x`, as rows of `lanes` numbers in `to`;
/// what no transform fills is 0.
template <class U>
void gather(const U* x, const Places& at, int64_t t, int64_t many, int64_t n, U* to,
            int64_t lanes) {
    if (many < lanes)
        std::memset(static_cast<void*>(to), 0, static_cast<size_t>(n * lanes) * sizeof(U));
    for (int64_t m = 0; m < many;) {
        int64_t run = 1;  // transforms that lie at equal distances
        const bool rows = at.axis.inner == 1;
        while (m + run < many && (rows || at.beside(t + m, run + 1))) ++run;
        const int64_t shape[] = {n, run}, to_strides[] = {lanes, 1};
        const int64_t strides[] = {at.axis.inner, rows ? n : 1};
        copy_strided(reinterpret_cast<char*>(to + m),
                     reinterpret_cast<const char*>(x + at.first(t + m, n)), sizeof(U), shape,
                     to_strides, strides);
        m += run;
    }
}
template <class U>
void scatter(const U* from, int64_t lanes, U* y, const Places& at, int64_t t, int64_t many,
             int64_t n) {
    for (int64_t m = 0; m < many;) {
        int64_t run = 1;
        const bool rows = at.axis.inner == 1;
        while (m + run < many && (rows || at.beside(t + m, run + 1))) ++run;
        const int64_t shape[] = {run, n}, to_strides[] = {rows ? n : 1, at.axis.inner};
        const int64_t strides[] = {1, lanes};
        copy_strided(reinterpret_cast<char*>(y + at.first(t + m, n)),
                     reinterpret_cast<const char*>(from + m), sizeof(U), shape, to_strides,
                     strides);
        m += run;
    }
}

/// Runs `work(first, many, memory)` for each group of `size` of `count` transforms; the memory has `room` T.
template <class T, class Work>
void for_groups(int64_t count, int64_t size, int64_t n, int64_t room, const Work& work) {
    const int64_t groups = (count + size - 1) / size;
    const int64_t grain = std::max<int64_t>(1, 8192 / (size * n));
    parallel_for(groups, grain, [&](int64_t begin, int64_t end) {
        const Memory<T> memory = memory_for<T>(room);
        for (int64_t g = begin; g < end; ++g)
            work(g * size, std::min(size, count - g * size), memory.get());
    });
}

template <class T>
void fft_in_groups(const std::complex<T>* x, std::complex<T>* y, Axis axis, bool inverse,
                   T factor) {
    const int64_t n = axis.n;
    const auto plan = fft_plan<T>(n);
    const Places at{axis};
    const int bytes = vector_bytes<T>(at.count, n);
    const int64_t lanes = bytes / static_cast<int64_t>(sizeof(T)), part = 2 * n * lanes;
    for_groups<T>(at.count, lanes, n, 3 * part, [&](int64_t t, int64_t many, T* a) {
        T *b = a + part, *rows = b + part, *result = nullptr;
        const bool direct = many == lanes && at.axis.inner > 1 && at.beside(t, many);
        const T* from = rows;
        T* to = rows;
        int64_t stride = 2 * lanes;
        if (direct) {
            from = reinterpret_cast<const T*>(x + at.first(t, n));
            to = reinterpret_cast<T*>(y + at.first(t, n));
            stride = 2 * axis.inner;
        } else {
            gather(x, at, t, many, n, reinterpret_cast<std::complex<T>*>(rows), lanes);
        }
        with_vectors<T, Unpack>(bytes, from, stride, a, n, inverse);
        with_vectors<T, Passes>(bytes, plan.get(), a, b, &result);
        with_vectors<T, Pack>(bytes, static_cast<const T*>(result), to, stride, n, inverse, factor);
        if (!direct) scatter(reinterpret_cast<std::complex<T>*>(rows), lanes, y, at, t, many, n);
    });
}

// ---------------------------------------------------------------------------------------------
// Long transforms, and lengths with large prime factors

/// a of n = a b that is nearest to the root from below; 1 if there is none.
int64_t first_factor(int64_t n) {
    int64_t a = 1;
    for (int64_t d = 2; d * d <= n; ++d)
        if (n % d == 0) a = d;
    return a;
}

/// Numbers from which on a transform that has few beside it is made in two steps, and those that
/// are always.
constexpr int64_t long_alone = 512, long_always = 1 << 14;

template <class T>
void multiply_by_roots(std::complex<T>* y, int64_t rows, int64_t columns, bool inverse) {
    const int64_t n = rows * columns;
    parallel_for(rows, std::max<int64_t>(1, 4096 / columns), [&](int64_t begin, int64_t end) {
        constexpr int64_t step = 16;  // a root is the product of two: few sines
        for (int64_t k = begin; k < end; ++k) {
            std::complex<double> fine[step];
            for (int64_t j = 0; j < step; ++j) fine[j] = unit_root(k * j, n);
            for (int64_t j = 0; j < columns; j += step) {
                const std::complex<double> coarse = unit_root(k * j % n, n);
                std::complex<T>* at = y + k * columns + j;
                for (int64_t i = 0; i < std::min(step, columns - j); ++i) {
                    const double c =
                        coarse.real() * fine[i].real() - coarse.imag() * fine[i].imag();
                    double s = coarse.real() * fine[i].imag() + coarse.imag() * fine[i].real();
                    if (inverse) s = -s;
                    const T re = at[i].real(), im = at[i].imag();
                    at[i] = {re * static_cast<T>(c) - im * static_cast<T>(s),
                             re * static_cast<T>(s) + im * static_cast<T>(c)};
                }
            }
        }
    });
}

/// One transform of n = a b numbers, `step` apart: number j = j1 b + j2, result k = k1 + a k2.
template <class T>
void fft_in_two_steps(const std::complex<T>* x, std::complex<T>* y, int64_t step, int64_t n,
                      bool inverse, T factor) {
    using C = std::complex<T>;
    const int64_t a = first_factor(n), b = n / a;
    const Memory<C> memory = memory_for<C>(n);
    C* const z = memory.get();
    const C* from = x;
    if (step != 1) {
        for (int64_t j = 0; j < n; ++j) z[j] = x[j * step];
        from = z;
    }
    fft(from, z, {1, a, b}, inverse, T(1));
    multiply_by_roots(z, a, b, inverse);
    fft(z, z, {a, b, 1}, inverse, factor);
    const int64_t shape[] = {b, a}, to[] = {a * step, step}, strides[] = {1, b};
    copy_strided(reinterpret_cast<char*>(y), reinterpret_cast<const char*>(z), sizeof(C), shape, to,
                 strides);
}

/// exp(-πi j² / n) for j < n.
template <class T>
Memory<std::complex<T>> chirp_of(int64_t n) {
    auto chirp = memory_for<std::complex<T>>(n);
    int64_t square = 0;  // modulo 2 n
    for (int64_t j = 0; j < n; ++j) {
        chirp[j] = std::complex<T>(unit_root(square, 2 * n));
        square = (square + 2 * j + 1) % (2 * n);
    }
    return chirp;
}

template <class T>
void multiply(std::complex<T>& a, const std::complex<T>& b) {
    a = {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

/// X[k] = chirp[k] sum_j (x[j] chirp[j]) conj(chirp[k - j]), the sum by transforms of m >= 2 n - 1
/// numbers, in blocks of rows.
template <class T>
void fft_by_convolution(const std::complex<T>* x, std::complex<T>* y, Axis axis, bool inverse,
                        T factor) {
    using C = std::complex<T>;
    const int64_t n = axis.n, m = next_smooth(2 * n - 1);
    const Places at{axis};
    const auto chirp = chirp_of<T>(n);
    const auto weights = memory_for<C>(m);
    std::fill_n(weights.get(), m, C{});
    for (int64_t j = 0; j < n; ++j) {
        weights[j] = std::conj(chirp[j]);
        if (j) weights[m - j] = weights[j];
    }
    fft(weights.get(), weights.get(), {1, m, 1}, false, T(1) / static_cast<T>(m));
    const auto turned = [inverse](const C& z) { return inverse ? std::conj(z) : z; };
    constexpr int64_t block = 64;
    const auto rows = memory_for<C>(std::min(block, at.count) * m);
    for (int64_t t = 0; t < at.count; t += block) {
        const int64_t many = std::min(block, at.count - t);
        std::fill_n(rows.get(), many * m, C{});
        for (int64_t r = 0; r < many; ++r) {
            const C* from = x + at.first(t + r, n);
            for (int64_t j = 0; j < n; ++j) {
                rows[r * m + j] = turned(from[j * axis.inner]);
                multiply(rows[r * m + j], chirp[j]);
            }
        }
        fft(rows.get(), rows.get(), {many, m, 1}, false, T(1));
        for (int64_t r = 0; r < many; ++r)
            for (int64_t j = 0; j < m; ++j) multiply(rows[r * m + j], weights[j]);
        fft(rows.get(), rows.get(), {many, m, 1}, true, T(1));
        for (int64_t r = 0; r < many; ++r) {
            C* to = y + at.first(t + r, n);
            for (int64_t k = 0; k < n; ++k) {
                C z = rows[r * m + k];
                multiply(z, chirp[k]);
                to[k * axis.inner] = turned(z) * factor;
            }
        }
    }
}

bool goes_in_groups(int64_t count, int64_t n, int64_t lanes) {
    return is_smooth(n) && n < long_always && (n < long_alone || count >= lanes);
}

}  // namespace

template <class T>
void fft(const std::complex<T>* x, std::complex<T>* y, Axis axis, bool inverse, T factor) {
    const int64_t n = axis.n;
    const Places at{axis};
    if (at.count == 0) return;
    if (goes_in_groups(at.count, n, 16 / static_cast<int64_t>(sizeof(T))))
        return fft_in_groups(x, y, axis, inverse, factor);
    if (!is_smooth(n)) return fft_by_convolution(x, y, axis, inverse, factor);
    if (first_factor(n) == 1) return fft_in_groups(x, y, axis, inverse, factor);
    for (int64_t t = 0; t < at.count; ++t)
        fft_in_two_steps(x + at.first(t, n), y + at.first(t, n), axis.inner, n, inverse, factor);
}

namespace {

/// Real numbers as complex ones, for lengths that do not go in groups.
template <class T>
void fft_of_widened(const T* x, std::complex<T>* y, Axis axis, int64_t kept, T factor) {
    const int64_t n = axis.n, inner = axis.inner;
    const auto wide = memory_for<std::complex<T>>(axis.outer * n * inner);
    for (int64_t i = 0; i < axis.outer * n * inner; ++i) wide[i] = x[i];
    fft(wide.get(), wide.get(), axis, false, factor);
    for (int64_t o = 0; o < axis.outer; ++o)
        std::copy_n(wide.get() + o * n * inner, kept * inner, y + o * kept * inner);
}

template <class T>
void fft_to_real_from_all(const std::complex<T>* x, T* y, Axis axis, T factor) {
    using C = std::complex<T>;
    const int64_t n = axis.n, inner = axis.inner, half = n / 2 + 1;
    const auto all = memory_for<C>(axis.outer * n * inner);
    for (int64_t o = 0; o < axis.outer; ++o)
        for (int64_t k = 0; k < n; ++k)
            for (int64_t i = 0; i < inner; ++i) {
                C z = x[(o * half + (k < half ? k : n - k)) * inner + i];
                if (k == 0 || 2 * k == n) z = z.real();
                all[(o * n + k) * inner + i] = k < half ? z : std::conj(z);
            }
    fft(all.get(), all.get(), axis, true, factor);
    for (int64_t i = 0; i < axis.outer * n * inner; ++i) y[i] = all[i].real();
}

}  // namespace

template <class T>
void fft_of_real(const T* x, std::complex<T>* y, Axis axis, bool whole, T factor) {
    const int64_t n = axis.n, kept = whole ? n : n / 2 + 1;
    const Places at{axis};
    if (at.count == 0) return;
    const int bytes = vector_bytes<T>((at.count + 1) / 2, n);
    const int64_t lanes = bytes / static_cast<int64_t>(sizeof(T)), part = 2 * n * lanes;
    if (!goes_in_groups((at.count + 1) / 2, n, 16 / static_cast<int64_t>(sizeof(T))))
        return fft_of_widened(x, y, axis, kept, factor);
    const auto plan = fft_plan<T>(n);
    for_groups<T>(at.count, 2 * lanes, n, 4 * part, [&](int64_t t, int64_t many, T* a) {
        T *b = a + part, *rows = b + part, *result = nullptr;
        gather(x, at, t, many, n, a, 2 * lanes);
        with_vectors<T, Passes>(bytes, plan.get(), a, b, &result);
        with_vectors<T, Separate>(bytes, static_cast<const T*>(result), n, rows, kept, factor);
        scatter(reinterpret_cast<std::complex<T>*>(rows), 2 * lanes, y, at, t, many, kept);
    });
}

template <class T>
void fft_to_real(const std::complex<T>* x, T* y, Axis axis, T factor) {
    const int64_t n = axis.n, half = n / 2 + 1;
    const Places at{axis};
    if (at.count == 0) return;
    const int bytes = vector_bytes<T>((at.count + 1) / 2, n);
    const int64_t lanes = bytes / static_cast<int64_t>(sizeof(T)), part = 2 * n * lanes;
    if (!goes_in_groups((at.count + 1) / 2, n, 16 / static_cast<int64_t>(sizeof(T))))
        return fft_to_real_from_all(x, y, axis, factor);
    const auto plan = fft_plan<T>(n);
    const Places from{{axis.outer, half, axis.inner}};
    for_groups<T>(
        at.count, 2 * lanes, n, 2 * part + 4 * half * lanes, [&](int64_t t, int64_t many, T* a) {
            T *b = a + part, *rows = b + part, *result = nullptr;
            gather(x, from, t, many, half, reinterpret_cast<std::complex<T>*>(rows), 2 * lanes);
            with_vectors<T, Unite>(bytes, static_cast<const T*>(rows), a, n);
            with_vectors<T, Passes>(bytes, plan.get(), a, b, &result);
            // the parts are swapped: the first numbers are behind the second ones
            for (int64_t k = 0; k < n; ++k) {
                T* row = result + 2 * k * lanes;
                for (int64_t l = 0; l < lanes; ++l) {
                    const T second = row[l] * factor;
                    row[l] = row[l + lanes] * factor;
                    row[l + lanes] = second;
                }
            }
            scatter(result, 2 * lanes, y, at, t, many, n);
        });
}

#define WEFT_FFT(T)                                                                                \
    template void fft(const std::complex<T>*, std::complex<T>*, Axis, bool, T);                    \
    template void fft_of_real(const T*, std::complex<T>*, Axis, bool, T);                          \
    template void fft_to_real(const std::complex<T>*, T*, Axis, T);
WEFT_FFT(float)
WEFT_FFT(double)
#undef WEFT_FFT

}  // namespace weft::kernels
