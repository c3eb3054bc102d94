/// One source, compiled for baseline x86-64, AVX2 and AVX-512, chosen at run time.
///
/// A kernel is a struct with `template <...> WEFT_INLINE static void run(args...)`, plain loops
/// that the compiler can vectorise. `per_isa<Body>(args...)` runs the version for this processor.
/// Everything the body calls must be WEFT_INLINE too, so that it is compiled for each target.
/// `WEFT_CPU=baseline|avx2|avx512` lowers the level (the switch the tests use); it never raises it.
#pragma once
#include <cstdint>
#include <type_traits>

#define WEFT_INLINE [[gnu::always_inline]] inline

#if defined(__x86_64__)
#if defined(__clang__)
// Its vectors are as wide as the target has them, and it refuses assembly over vectors that are
// wider than the function's that it stands in, before that is inlined: plain C++ says the same.
#define WEFT_WIDEST
#define WEFT_VECTOR_ASM 0
#else
#define WEFT_WIDEST ",prefer-vector-width=512"
#define WEFT_VECTOR_ASM 1
#endif
#define WEFT_TARGET_AVX2 [[gnu::target("avx2,fma,bmi2,f16c")]]
#define WEFT_TARGET_AVX512                                                                         \
    [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512cd,avx2,fma,bmi2,f16c" WEFT_WIDEST)]]
#else
#define WEFT_VECTOR_ASM 0
#define WEFT_TARGET_AVX2
#define WEFT_TARGET_AVX512
#endif

namespace weft::kernels {

enum class CpuLevel : uint8_t { Baseline, Avx2, Avx512 };

/// The level in use, fixed at load. Defined in simd.cpp.
extern const CpuLevel cpu_level;
const char* cpu_level_name();

template <class Body, class... Args>
struct IsaVersions {
    static void baseline(Args... args) { Body::run(args...); }
#if defined(__x86_64__)
    WEFT_TARGET_AVX2 static void avx2(Args... args) { Body::run(args...); }
    WEFT_TARGET_AVX512 static void avx512(Args... args) { Body::run(args...); }
#endif
    using Function = void (*)(Args...);
    static Function pick() {
#if defined(__x86_64__)
        if (cpu_level == CpuLevel::Avx512) return avx512;
        if (cpu_level == CpuLevel::Avx2) return avx2;
#endif
        return baseline;
    }
};

template <class Body, class... Args>
inline void per_isa(Args... args) {
    IsaVersions<Body, Args...>::pick()(args...);
}

}  // namespace weft::kernels
