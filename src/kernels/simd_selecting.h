/// per_isa for kernels that select.
#pragma once
#include "kernels/simd.h"

namespace weft::kernels {

/// Runs Body with vectors of at most 32 bytes: GCC 12 takes selections between wider ones apart.
template <class Body, class... Args>
inline void per_isa_selecting(Args... args) {
#if defined(__x86_64__)
    if (cpu_level != CpuLevel::Baseline) return IsaVersions<Body, Args...>::avx2(args...);
#endif
    IsaVersions<Body, Args...>::baseline(args...);
}

}  // namespace weft::kernels
