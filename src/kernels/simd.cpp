#include "kernels/simd.h"

#include <cstdlib>
#include <cstring>

namespace weft::kernels {
namespace {

CpuLevel detect() {
    CpuLevel best = CpuLevel::Baseline;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
        best = CpuLevel::Avx2;
    if (best == CpuLevel::Avx2 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd"))
        best = CpuLevel::Avx512;
#endif
    if (const char* wish = std::getenv("WEFT_CPU")) {
        if (!std::strcmp(wish, "baseline")) best = CpuLevel::Baseline;
        if (!std::strcmp(wish, "avx2") && best == CpuLevel::Avx512) best = CpuLevel::Avx2;
    }
    return best;
}

}  // namespace

const CpuLevel cpu_level = detect();

const char* cpu_level_name() {
    static const char* const names[] = {"baseline", "avx2", "avx512"};
    return names[static_cast<int>(cpu_level)];
}

}  // namespace weft::kernels
