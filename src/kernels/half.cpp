#include "kernels/half_loops.h"

#include "kernels/convert.h"
#include "kernels/vector.h"

namespace weft::kernels {
namespace {

/// Dense elements between float16 and float by the processor's instructions, which baseline
/// x86-64 and others do not have; they round to nearest even as `Half` does.
struct ToFloat {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(float* to, const Half* from, int64_t n) {
            int64_t i = 0;
#if WEFT_VECTOR_ASM
            if constexpr (Bytes > 16) {
                constexpr int lanes = Bytes / 4;
                for (; i + lanes <= n; i += lanes) {
                    const auto& bits =
                        vec::load<uint16_t, Bytes / 2>(reinterpret_cast<const uint16_t*>(from) + i);
                    typename vec::Simd<float, Bytes>::Vector x;
                    asm("vcvtph2ps %1, %0" : "=v"(x) : "vm"(bits));
                    vec::store<float, Bytes>(to + i, x);
                }
            }
#endif
            for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
        }
    };
};

struct ToHalf {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(Half* to, const float* from, int64_t n) {
            int64_t i = 0;
#if WEFT_VECTOR_ASM
            if constexpr (Bytes > 16) {
                constexpr int lanes = Bytes / 4;
                for (; i + lanes <= n; i += lanes) {
                    const typename vec::Simd<float, Bytes>::Vector x =
                        vec::load<float, Bytes>(from + i);
                    typename vec::Simd<uint16_t, Bytes / 2>::Vector bits;
                    asm("vcvtps2ph $0, %1, %0" : "=v"(bits) : "v"(x));
                    vec::store<uint16_t, Bytes / 2>(reinterpret_cast<uint16_t*>(to) + i, bits);
                }
            }
#endif
            for (; i < n; ++i) to[i] = Half(from[i]);
        }
    };
};

struct AnyStep {
    template <class To, class From>
    WEFT_INLINE static void run(char* to, const char* from, const int64_t* s, int64_t n) {
        for (int64_t i = 0; i < n; ++i)
            *reinterpret_cast<To*>(to + i * s[0]) =
                convert<To>(*reinterpret_cast<const From*>(from + i * s[1]));
    }
};

template <class To, class From, class Dense>
void convert_half(const void*, char* const* p, const int64_t* s, int64_t n) {
    if (s[0] != sizeof(To) || s[1] != sizeof(From)) return AnyStep::run<To, From>(p[0], p[1], s, n);
    vec::per_width<Dense::template Body>(reinterpret_cast<To*>(p[0]),
                                         reinterpret_cast<const From*>(p[1]), n);
}

}  // namespace

MapLoop half_to_float() { return convert_half<float, Half, ToFloat>; }
MapLoop float_to_half() { return convert_half<Half, float, ToHalf>; }

}  // namespace weft::kernels
