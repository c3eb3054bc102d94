/// Reading order: fft_passes.h (the arithmetic), groups (several transforms at once), then which way a length
/// goes: groups, in two steps, or as a convolution.
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
#include "kernels/fft_passes.h"

namespace weft::kernels {
namespace {

using namespace passes;

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

/// The transforms of a group, from a or b; where they are, a or b.
template <class T>
T* transformed(int bytes, const FftPlan<T>& plan, T* a, T* b) {
    T* result = nullptr;
    if (!plan.inner) {
        with_vectors<T, Passes>(bytes, &plan, a, b, &result);
        return result;
    }
    const int64_t n = plan.n, m = plan.inner->n,
                  element = 2 * bytes / static_cast<int64_t>(sizeof(T));
    with_vectors<T, Weigh>(bytes, plan.chirp.data(), a, n, false, false);
    std::fill(a + n * element, a + m * element, T(0));
    result = transformed(bytes, *plan.inner, a, b);
    with_vectors<T, Weigh>(bytes, plan.weights.data(), result, m, false, true);
    result = transformed(bytes, *plan.inner, result, result == a ? b : a);
    with_vectors<T, Weigh>(bytes, plan.chirp.data(), result, n, true, false);
    return result;
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

/// Numbers [k, k + size) of U of `many` transforms from t on, of n numbers each in `x`, as rows of `lanes` numbers
/// in `to`; what no transform fills is 0.
template <class U>
void gather(const U* x, const Places& at, int64_t t, int64_t many, int64_t n, int64_t k,
            int64_t size, U* to, int64_t lanes) {
    if (many < lanes)
        std::memset(static_cast<void*>(to), 0, static_cast<size_t>(size * lanes) * sizeof(U));
    x += k * at.axis.inner;
    for (int64_t m = 0; m < many;) {
        int64_t run = 1;  // transforms that lie at equal distances
        const bool rows = at.axis.inner == 1;
        while (m + run < many && (rows || at.beside(t + m, run + 1))) ++run;
        const int64_t shape[] = {size, run}, to_strides[] = {lanes, 1};
        const int64_t strides[] = {at.axis.inner, rows ? n : 1};
        copy_strided(reinterpret_cast<char*>(to + m),
                     reinterpret_cast<const char*>(x + at.first(t + m, n)), sizeof(U), shape,
                     to_strides, strides);
        m += run;
    }
}
template <class U>
void scatter(const U* from, int64_t lanes, U* y, const Places& at, int64_t t, int64_t many,
             int64_t n, int64_t k, int64_t size) {
    y += k * at.axis.inner;
    for (int64_t m = 0; m < many;) {
        int64_t run = 1;
        const bool rows = at.axis.inner == 1;
        while (m + run < many && (rows || at.beside(t + m, run + 1))) ++run;
        const int64_t shape[] = {run, size}, to_strides[] = {rows ? n : 1, at.axis.inner};
        const int64_t strides[] = {1, lanes};
        copy_strided(reinterpret_cast<char*>(y + at.first(t + m, n)),
                     reinterpret_cast<const char*>(from + m), sizeof(U), shape, to_strides,
                     strides);
        m += run;
    }
}

/// Calls part(k, size) for parts of n numbers, whose rows of a group stay in the first-level cache.
template <class Part>
void in_parts(int64_t n, const Part& part) {
    constexpr int64_t most = 128;
    for (int64_t k = 0; k < n; k += most) part(k, std::min(most, n - k));
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
    using C = std::complex<T>;
    const int64_t n = axis.n;
    const auto plan = fft_plan<T>(n);
    const Places at{axis};
    const int bytes = vector_bytes<T>(at.count, plan->longest());
    const int64_t lanes = bytes / static_cast<int64_t>(sizeof(T)),
                  part = 2 * plan->longest() * lanes;
    for_groups<T>(at.count, lanes, n, 3 * part, [&](int64_t t, int64_t many, T* a) {
        T *b = a + part, *rows = b + part;
        auto* numbers = reinterpret_cast<C*>(rows);
        const bool direct = many == lanes && at.axis.inner > 1 && at.beside(t, many);
        const int64_t stride = direct ? 2 * axis.inner : 2 * lanes;
        in_parts(n, [&](int64_t k, int64_t size) {
            if (!direct) gather(x, at, t, many, n, k, size, numbers, lanes);
            const C* from = direct ? x + at.first(t, n) + k * axis.inner : numbers;
            with_vectors<T, Unpack>(bytes, reinterpret_cast<const T*>(from), stride,
                                    a + k * 2 * lanes, size, inverse);
        });
        const T* result = transformed(bytes, *plan, a, b);
        in_parts(n, [&](int64_t k, int64_t size) {
            C* to = direct ? y + at.first(t, n) + k * axis.inner : numbers;
            with_vectors<T, Pack>(bytes, result + k * 2 * lanes, reinterpret_cast<T*>(to), stride,
                                  size, inverse, factor);
            if (!direct) scatter(numbers, lanes, y, at, t, many, n, k, size);
        });
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

template <class T>
void multiply(std::complex<T>& a, const std::complex<T>& b) {
    a = {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

/// Of large prime factors, too few or too long for groups: in blocks of rows.
template <class T>
void fft_by_convolution(const std::complex<T>* x, std::complex<T>* y, Axis axis, bool inverse,
                        T factor) {
    using C = std::complex<T>;
    const int64_t n = axis.n, m = longest_in_work(n);
    const Places at{axis};
    const auto chirp = chirp_of<T>(n), weights = chirp_weights(chirp);
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
    const int64_t longest = longest_in_work(n);
    return longest < long_always && (longest < long_alone || count >= lanes);
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
    if (!goes_in_groups((at.count + 1) / 2, n, 16 / static_cast<int64_t>(sizeof(T))))
        return fft_of_widened(x, y, axis, kept, factor);
    const auto plan = fft_plan<T>(n);
    const int bytes = vector_bytes<T>((at.count + 1) / 2, plan->longest());
    const int64_t lanes = bytes / static_cast<int64_t>(sizeof(T)),
                  part = 2 * plan->longest() * lanes;
    for_groups<T>(at.count, 2 * lanes, n, 4 * part, [&](int64_t t, int64_t many, T* a) {
        T *b = a + part, *rows = b + part;
        gather(x, at, t, many, n, 0, n, a, 2 * lanes);
        const T* result = transformed(bytes, *plan, a, b);
        in_parts(kept, [&](int64_t k, int64_t size) {
            with_vectors<T, Separate>(bytes, result, n, rows, k, size, factor);
            scatter(reinterpret_cast<std::complex<T>*>(rows), 2 * lanes, y, at, t, many, kept, k,
                    size);
        });
    });
}

template <class T>
void fft_to_real(const std::complex<T>* x, T* y, Axis axis, T factor) {
    const int64_t n = axis.n, half = n / 2 + 1;
    const Places at{axis};
    if (at.count == 0) return;
    if (!goes_in_groups((at.count + 1) / 2, n, 16 / static_cast<int64_t>(sizeof(T))))
        return fft_to_real_from_all(x, y, axis, factor);
    const auto plan = fft_plan<T>(n);
    const int bytes = vector_bytes<T>((at.count + 1) / 2, plan->longest());
    const int64_t lanes = bytes / static_cast<int64_t>(sizeof(T)),
                  part = 2 * plan->longest() * lanes;
    const Places from{{axis.outer, half, axis.inner}};
    for_groups<T>(
        at.count, 2 * lanes, n, 2 * part + 4 * half * lanes, [&](int64_t t, int64_t many, T* a) {
            T *b = a + part, *rows = b + part;
            in_parts(half, [&](int64_t k, int64_t size) {
                gather(x, from, t, many, half, k, size, reinterpret_cast<std::complex<T>*>(rows),
                       2 * lanes);
                with_vectors<T, Unite>(bytes, static_cast<const T*>(rows), a, n, k, size, factor);
            });
            const T* result = transformed(bytes, *plan, a, b);
            // the parts are swapped: the first numbers are behind the second ones
            scatter(result + lanes, 2 * lanes, y, at, t, std::min(many, lanes), n, 0, n);
            scatter(result, 2 * lanes, y, at, t + lanes, many - lanes, n, 0, n);
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
