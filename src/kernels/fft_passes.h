/// The arithmetic of transforms in lanes (Note [Transforms in lanes], fft.cpp): `butterfly` and `pass`, then what
/// turns complex numbers in memory into pairs of vectors, and back. Bodies of per_width (vector.h).
#pragma once
#include <complex>
#include <utility>

#include "kernels/fft_plan.h"
#include "kernels/vector.h"

namespace weft::kernels::passes {

using namespace vec;

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
    } else if constexpr (Radix == 8) {
        Pair<V> even[] = {a[0], a[2], a[4], a[6]}, odd[] = {a[1], a[3], a[5], a[7]};
        butterfly<4>(4, even, roots);
        butterfly<4>(4, odd, roots);
        constexpr T s = T(0x1.6a09e667f3bcdp-1);  // sin(2π / 8)
        const Pair<V> one = odd[1], three = odd[3];
        odd[1] = {(one.re + one.im) * s, (one.im - one.re) * s};
        odd[2] = {odd[2].im, -odd[2].re};
        odd[3] = {(three.im - three.re) * s, (three.re + three.im) * -s};
        for (int k = 0; k < 4; ++k) {
            a[k] = plus(even[k], odd[k]);
            a[k + 4] = minus(even[k], odd[k]);
        }
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
            if (p.radix == 8) pass<8, V, T>(p, a, b);
            else if (p.radix == 4) pass<4, V, T>(p, a, b);
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
    /// `to`: elements [first, first + count) of the first lanes' numbers, then of the second's, as complex numbers.
    WEFT_INLINE static void run(const T* z, int64_t n, T* to, int64_t first, int64_t count,
                                T factor) {
        for (int64_t k = first; k < first + count; ++k) {
            const T *at = z + k * 2 * lanes, *mirror = z + (k ? n - k : 0) * 2 * lanes;
            const V a = load<T, Bytes>(at), b = load<T, Bytes>(at + lanes);
            const V c = load<T, Bytes>(mirror), d = load<T, Bytes>(mirror + lanes);
            const T half = factor / 2;
            const V re0 = (a + c) * half, im0 = (b - d) * half;
            const V re1 = (b + d) * half, im1 = (c - a) * half;
            V low, high;
            T* out = to + (k - first) * 4 * lanes;
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
    /// Of elements [first, first + count) of that half.
    WEFT_INLINE static void run(const T* from, T* z, int64_t n, int64_t first, int64_t count,
                                T factor) {
        for (int64_t k = first; k < first + count; ++k) {
            const T* at = from + (k - first) * 4 * lanes;
            const V a = load<T, Bytes>(at) * factor, b = load<T, Bytes>(at + lanes) * factor;
            const V c = load<T, Bytes>(at + 2 * lanes) * factor,
                    d = load<T, Bytes>(at + 3 * lanes) * factor;
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

/// a[j] *= w[j] in every lane, before or behind which the parts change places.
template <class T, int Bytes>
struct Weigh {
    using V = typename Simd<T, Bytes>::Vector;
    WEFT_INLINE static void run(const std::complex<T>* w, T* numbers, int64_t n, bool before,
                                bool behind) {
        auto* a = reinterpret_cast<Pair<V>*>(numbers);
        for (int64_t j = 0; j < n; ++j) {
            Pair<V> z = a[j];
            if (before) z = {z.im, z.re};
            z = times(z, w[j]);
            if (behind) z = {z.im, z.re};
            a[j] = z;
        }
    }
};

}  // namespace weft::kernels::passes
