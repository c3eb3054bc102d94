#include "kernels/half_loops.h"

#include <vector>

namespace weft::kernels {
namespace {

struct AnyStep {
    template <class To, class From>
    WEFT_INLINE static void run(char* to, const char* from, const int64_t* s, int64_t n) {
        for (int64_t i = 0; i < n; ++i)
            *reinterpret_cast<To*>(to + i * s[0]) =
                convert<To>(*reinterpret_cast<const From*>(from + i * s[1]));
    }
};

/// Dense elements between halves and float, as many at once as the processor has instructions for.
template <class To, class From>
struct Dense {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(To* to, const From* from, int64_t n) {
            int64_t i = 0;
#if WEFT_VECTOR_ASM
            constexpr bool bfloat16 = std::is_same_v<To, BFloat16>;
            if constexpr (Bytes == 64 || (Bytes == 32 && !bfloat16)) {
                constexpr int lanes = Bytes / 4;
                const int64_t whole = bfloat16 && !bf16_gemm_ready() ? 0 : n / lanes * lanes;
                for (; i < whole; i += lanes) {
                    if constexpr (std::is_same_v<To, float>)
                        detail::load_halves<Bytes>(to + i, from + i);
                    else detail::store_halves<Bytes>(to + i, from + i);
                }
            }
#endif
            for (; i < n; ++i) to[i] = convert<To>(from[i]);
        }
    };
};

template <class To, class From>
void convert_half(const void*, char* const* p, const int64_t* s, int64_t n) {
    if (s[0] != sizeof(To) || s[1] != sizeof(From)) return AnyStep::run<To, From>(p[0], p[1], s, n);
    vec::per_width<Dense<To, From>::template Body>(reinterpret_cast<To*>(p[0]),
                                                   reinterpret_cast<const From*>(p[1]), n);
}

}  // namespace

#if WEFT_VECTOR_ASM
void detail::store_rare_halves(BFloat16* to, const float* from, int n) {
    for (int j = 0; j < n; ++j) to[j] = BFloat16(from[j]);
}
#endif

namespace {

std::vector<HalfLoops>& half_loops() {
    static std::vector<HalfLoops> all;
    return all;
}

}  // namespace

void add_half_loops(HalfLoops loops) { half_loops().push_back(loops); }

MapLoop half_loop(MapLoop loop, bool bfloat16) {
    for (const HalfLoops& known : half_loops())
        if (known.over_floats == loop) return bfloat16 ? known.over_bfloat16 : known.over_float16;
    return nullptr;
}

MapLoop half_to_float() { return convert_half<float, Half>; }
MapLoop float_to_half() { return convert_half<Half, float>; }
MapLoop float_to_bfloat16() { return convert_half<BFloat16, float>; }

}  // namespace weft::kernels
