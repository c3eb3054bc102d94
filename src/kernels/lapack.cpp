#include "kernels/lapack.h"

#include <atomic>
#include <limits>
#include <string>

#include "base/error.h"
#include "kernels/matmul.h"

namespace weft::kernels::lapack {
namespace {

constexpr const char* kNames[][2] = {
#define X(id, real, complex) {real, complex},
    WEFT_LAPACK_ROUTINES(X)
#undef X
};
constexpr int kRoutines = sizeof(kNames) / sizeof(kNames[0]);

}  // namespace

void* routine(Routine which, int letter) {
    static std::atomic<void*> known[kRoutines][4];
    std::atomic<void*>& found = known[static_cast<int>(which)][letter];
    if (void* f = found.load(std::memory_order_relaxed)) return f;
    require_blas("linalg", "for LAPACK's routines");
    const std::string name =
        "sdcz"[letter] + std::string(kNames[static_cast<int>(which)][letter / 2]) + "_";
    void* f = blas_symbol(name.c_str());
    WEFT_EXPECT(f, Runtime, "linalg", "an OpenBLAS with LAPACK", text("one without ", name),
                "pip install scipy-openblas32, or WEFT_BLAS=path");
    found.store(f, std::memory_order_relaxed);
    return f;
}

BlasInt size(int64_t n) {
    WEFT_EXPECT(n <= std::numeric_limits<BlasInt>::max(), Runtime, "linalg", "sizes below 2^31",
                text(n));
    return static_cast<BlasInt>(n);
}

}  // namespace weft::kernels::lapack
