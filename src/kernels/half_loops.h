/// Loops over float16 and bfloat16, by the processor's conversions where it has them: they round to
/// nearest even, as those of `Half` and `BFloat16` do.
///
/// Note [Halves in registers]
/// A pointwise op on halves converts strips of its operands to float, runs its loop and converts the
/// result (ops/widen.cpp). Of a sum or a product that is mostly floats on their way to the
/// first-level cache and back. So the file of such an op says `add_half_loops<F, N>()`, N the number
/// of operands, and F's loop over floats has loops over halves beside it, which convert, compute and
/// convert back vector by vector, where the processor has instructions for it. F has to be plain
/// arithmetic: selections would be taken apart into elements. An F that is right on the bits of any
/// half, sign and magnitude, has `bits(uint16_t)` for it.
#pragma once
#include <cstring>
#include <type_traits>

#include "kernels/bf16_gemm.h"
#include "kernels/convert.h"
#include "kernels/map.h"
#include "kernels/vector.h"

namespace weft::kernels {

MapLoop half_to_float();
MapLoop float_to_half();
MapLoop float_to_bfloat16();

#if WEFT_VECTOR_ASM
namespace detail {

/// A vector of floats from as many halves and back. Bytes: 64, or with float16 32.
template <int Bytes>
WEFT_INLINE void load_halves(float* to, const Half* from) {
    const auto& bits = vec::load<uint16_t, Bytes / 2>(&from->bits);
    typename vec::Simd<float, Bytes>::Vector x;
    asm("vcvtph2ps %1, %0" : "=v"(x) : "vm"(bits));
    vec::store<float, Bytes>(to, x);
}
template <int Bytes>
WEFT_INLINE void load_halves(float* to, const BFloat16* from) {
    const auto& bits = vec::load<uint16_t, Bytes / 2>(&from->bits);
    typename vec::Simd<float, Bytes>::Vector x;
    asm("vpmovzxwd %1, %0\n\tvpslld $16, %0, %0" : "=v"(x) : "vm"(bits));
    vec::store<float, Bytes>(to, x);
}
template <int Bytes>
WEFT_INLINE void store_halves(Half* to, const float* from) {
    const typename vec::Simd<float, Bytes>::Vector x = vec::load<float, Bytes>(from);
    typename vec::Simd<uint16_t, Bytes / 2>::Vector bits;
    asm("vcvtps2ph $0, %1, %0" : "=v"(bits) : "v"(x));
    vec::store<uint16_t, Bytes / 2>(&to->bits, bits);
}
/// `n` of them one by one.
void store_rare_halves(BFloat16* to, const float* from, int n);
/// The instruction takes denormal numbers for 0 and keeps what a NaN says, so those go one by one.
template <int Bytes>
WEFT_INLINE void store_halves(BFloat16* to, const float* from) {
    constexpr int nan_or_denormal = 0xa1, lanes = Bytes / 4;
    const typename vec::Simd<float, Bytes>::Vector x = vec::load<float, Bytes>(from);
    uint32_t rare;
    asm("vfpclassps %2, %1, %%k1\n\tkmovw %%k1, %0"
        : "=r"(rare)
        : "v"(x), "i"(nan_or_denormal)
        : "k1");
    if (rare) [[unlikely]] {
        alignas(64) float each[lanes];
        vec::store<float, Bytes>(each, x);
        return store_rare_halves(to, each, lanes);
    }
    typename vec::Simd<uint16_t, Bytes / 2>::Vector bits;
    asm("vcvtneps2bf16 %1, %0" : "=v"(bits) : "v"(x));
    vec::store<uint16_t, Bytes / 2>(&to->bits, bits);
}

/// f over halves that lie densely; an operand with stride 0 is one float, repeated.
template <class F, class H, int N>
struct InRegisters {
    template <int Bytes>
    struct Body {
        static constexpr int lanes = Bytes / 4;
        struct Operand {
            const H* at;
            bool repeats;
            alignas(64) float once[lanes];
        };

        /// Arrays that the compiler keeps in registers.
        template <std::size_t... I>
        WEFT_INLINE static void compute(const F& f, H* to, const Operand* in,
                                        std::index_sequence<I...>) {
            alignas(64) float x[N][lanes], y[lanes];
            for (int k = 0; k < N; ++k) {
                if (in[k].repeats)
                    vec::store<float, Bytes>(x[k], vec::load<float, Bytes>(in[k].once));
                else load_halves<Bytes>(x[k], in[k].at);
            }
            for (int j = 0; j < lanes; ++j) y[j] = f(x[I][j]...);
            store_halves<Bytes>(to, y);
        }

        WEFT_INLINE static void run(const void* f_, char* const* p, const int64_t* s, int64_t n) {
            const F f = *static_cast<const F*>(f_);
            H rest[N + 1][lanes] = {};  // what the last vector lacks is computed too, from zeros
            Operand in[N];
#pragma GCC unroll 1
            for (int k = 0; k < N; ++k) {
                in[k].at = reinterpret_cast<const H*>(p[k + 1]);
                in[k].repeats = s[k + 1] == 0;
                if (in[k].repeats)
                    for (float& x : in[k].once) x = *reinterpret_cast<const float*>(p[k + 1]);
            }
            H* out = reinterpret_cast<H*>(p[0]);
#pragma GCC unroll 1
            for (; n > 0; n -= lanes, out += lanes) {
                H* to = out;
                if (n < lanes) [[unlikely]] {
#pragma GCC unroll 1
                    for (int k = 0; k < N; ++k) {
                        if (in[k].repeats) continue;
                        std::memcpy(rest[k], in[k].at, static_cast<size_t>(n) * sizeof(H));
                        in[k].at = rest[k];
                    }
                    to = rest[N];
                }
                compute(f, to, in, std::make_index_sequence<N>{});
                if (n < lanes) std::memcpy(out, to, static_cast<size_t>(n) * sizeof(H));
                for (int k = 0; k < N; ++k) in[k].at += lanes;
            }
        }
    };
    static MapLoop pick() {
        using Args = IsaVersions<Body<64>, const void*, char* const*, const int64_t*, int64_t>;
        if (cpu_level == CpuLevel::Avx512 && (std::is_same_v<H, Half> || bf16_gemm_ready()))
            return Args::avx512;
        if constexpr (std::is_same_v<H, Half>)
            if (cpu_level == CpuLevel::Avx2)
                return IsaVersions<Body<32>, const void*, char* const*, const int64_t*,
                                   int64_t>::avx2;
        return nullptr;
    }
};

}  // namespace detail
#endif

namespace detail {

template <class F>
struct OfBits {
    F f;
    WEFT_INLINE uint16_t operator()(uint16_t x) const { return f.bits(x); }
};

}  // namespace detail

/// One loop and the same over halves; null where there is none.
struct HalfLoops {
    MapLoop over_floats, over_float16, over_bfloat16;
};
void add_half_loops(HalfLoops loops);

template <class F, int N>
void add_half_loops() {
    [[maybe_unused]] const MapLoop over_floats = []<size_t... I>(std::index_sequence<I...>) {
        return map_loop<F, float, std::enable_if_t<(I >= 0), float>...>();
    }(std::make_index_sequence<N>{});
    if constexpr (requires(const F& f, uint16_t x) { f.bits(x); }) {
        const MapLoop of_bits = map_loop<detail::OfBits<F>, uint16_t, uint16_t>();
        add_half_loops({over_floats, of_bits, of_bits});
    } else {
#if WEFT_VECTOR_ASM
        add_half_loops({over_floats, detail::InRegisters<F, Half, N>::pick(),
                        detail::InRegisters<F, BFloat16, N>::pick()});
#endif
    }
}

/// What `loop` over floats is over halves; null if it was not added. Operands have to lie densely; of
/// several some may be one float, repeated.
MapLoop half_loop(MapLoop loop, bool bfloat16);

}  // namespace weft::kernels
