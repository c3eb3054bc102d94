/// Vectors of a chosen width for the kernels that the compiler would not vectorise by itself: sums
/// (it may not reorder them), register tiles, transposes.
///
/// Bodies are templates on the width, `per_width<Body>(args...)` runs the widest this processor
/// has. Everything is inlined into a function for one target, as in simd.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/simd.h"

namespace weft::kernels::vec {

/// `Bytes` wide vectors of T; a plain T where that is one element.
template <class T, int Bytes>
struct Simd {
    static constexpr int lanes = Bytes / static_cast<int>(sizeof(T));
    typedef T Vector __attribute__((vector_size(Bytes)));
    typedef T Unaligned __attribute__((vector_size(Bytes), aligned(alignof(T)), may_alias));
};
template <class T>
struct Simd<T, sizeof(T)> {
    static constexpr int lanes = 1;
    using Vector = T;
    using Unaligned = T;
};

#if defined(__clang__)
// It forgets how a type was aligned once a template or `auto` has deduced it.
template <class T, int Bytes>
WEFT_INLINE typename Simd<T, Bytes>::Vector load(const T* p) {
    typename Simd<T, Bytes>::Vector v;
    __builtin_memcpy(&v, p, Bytes);
    return v;
}

template <class T, int Bytes>
WEFT_INLINE void store(T* p, const typename Simd<T, Bytes>::Unaligned& v) {
    __builtin_memcpy(p, &v, Bytes);
}
#else
/// The vector at p, by reference: a vector by value is an ABI question for baseline functions.
template <class T, int Bytes>
WEFT_INLINE const typename Simd<T, Bytes>::Unaligned& load(const T* p) {
    return *reinterpret_cast<const typename Simd<T, Bytes>::Unaligned*>(p);
}

template <class T, int Bytes>
WEFT_INLINE void store(T* p, const typename Simd<T, Bytes>::Unaligned& v) {
    *reinterpret_cast<typename Simd<T, Bytes>::Unaligned*>(p) = v;
}
#endif

/// Keeps GCC from loading a vector again at each use.
template <class V>
WEFT_INLINE void in_register(V& v) {
#if WEFT_VECTOR_ASM
    asm("" : "+v"(v));
#else
    (void)v;
#endif
}
/// Keeps GCC from replacing a pointer or counter by others, and from vectorising a loop over it.
template <class V>
WEFT_INLINE void opaque(V& v) {
    asm("" : "+r"(v));
}

/// Runs `Body<Bytes>` for the widest vectors of this processor.
template <template <int> class Body, class... Args>
inline void per_width(Args... args) {
#if defined(__x86_64__)
    if (cpu_level == CpuLevel::Avx512) return IsaVersions<Body<64>, Args...>::avx512(args...);
    if (cpu_level == CpuLevel::Avx2) return IsaVersions<Body<32>, Args...>::avx2(args...);
#endif
    IsaVersions<Body<16>, Args...>::baseline(args...);
}

/// Runs `Body` as a function of its own, from inside a body that has vectors of `Bytes`: GCC then
/// allocates registers for this loop alone.
template <class Body, int Bytes, class... Args>
struct Outlined {
    [[gnu::noinline]] static void baseline(Args... args) { Body::run(args...); }
#if defined(__x86_64__)
    WEFT_TARGET_AVX2 [[gnu::noinline]] static void avx2(Args... args) { Body::run(args...); }
    WEFT_TARGET_AVX512 [[gnu::noinline]] static void avx512(Args... args) { Body::run(args...); }
#endif
    WEFT_INLINE static void run(Args... args) {
#if defined(__x86_64__)
        if constexpr (Bytes == 64) return avx512(args...);
        if constexpr (Bytes == 32) return avx2(args...);
#endif
        return baseline(args...);
    }
};

template <class V, class H, int Half, size_t... I>
WEFT_INLINE void split(const V& v, H& lower, H& upper, std::index_sequence<I...>) {
    lower = __builtin_shufflevector(v, v, static_cast<int>(I)...);
    upper = __builtin_shufflevector(v, v, static_cast<int>(I + Half)...);
}

/// The two halves of a vector. Bytes / 2 must still be at least one element.
template <class T, int Bytes>
WEFT_INLINE void halves(const typename Simd<T, Bytes>::Vector& v,
                        typename Simd<T, Bytes / 2>::Vector& lower,
                        typename Simd<T, Bytes / 2>::Vector& upper) {
    constexpr int half = Simd<T, Bytes>::lanes / 2;
    if constexpr (half == 1) {
        lower = v[0];
        upper = v[1];
    } else {
        split<typename Simd<T, Bytes>::Vector, typename Simd<T, Bytes / 2>::Vector, half>(
            v, lower, upper, std::make_index_sequence<half>{});
    }
}

}  // namespace weft::kernels::vec
