#include "kernels/blas.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>

#include "base/error.h"
#include "kernels/matmul.h"

namespace weft::kernels {
namespace {

struct Blas {
    void* handle = nullptr;
    CblasGemm<float> sgemm = nullptr;
    CblasGemm<double> dgemm = nullptr;
};

std::mutex blas_mutex;
std::string blas_path;        // guarded by blas_mutex
std::string blas_load_error;  // guarded by blas_mutex
enum class BlasState : uint8_t { Untried, Loaded, Missing };
std::atomic<BlasState> blas_state{BlasState::Untried};
Blas blas;  // written once, before blas_state becomes Loaded

void* find_symbol(void* handle, const char* name) {
    if (void* found = dlsym(handle, (std::string("scipy_") + name).c_str())) return found;
    return dlsym(handle, name);
}

/// OpenBLAS starts one thread per core while it loads, which takes 10 to 30 ms against 0.4 without;
/// it reads this variable then and never again.
struct SingleThreadedLoad {
    static constexpr const char* name = "OPENBLAS_NUM_THREADS";
    const bool unset = std::getenv(name) == nullptr;
    SingleThreadedLoad() {
        if (unset) setenv(name, "1", 1);
    }
    ~SingleThreadedLoad() {
        if (unset) unsetenv(name);
    }
};

}  // namespace

bool blas_ready() {
    const BlasState seen = blas_state.load(std::memory_order_acquire);
    if (seen != BlasState::Untried) return seen == BlasState::Loaded;
    std::lock_guard lock(blas_mutex);
    if (blas_state.load(std::memory_order_relaxed) != BlasState::Untried)
        return blas_state.load(std::memory_order_relaxed) == BlasState::Loaded;
    std::string path = blas_path;
    if (const char* env = std::getenv("WEFT_BLAS"); path.empty() && env) path = env;
    BlasState result = BlasState::Missing;
    if (path.empty()) {
        blas_load_error = "no path to OpenBLAS";
    } else {
        SingleThreadedLoad guard;
        blas.handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
        if (!blas.handle) blas_load_error = dlerror();
    }
    if (blas.handle) {
        blas.sgemm = reinterpret_cast<CblasGemm<float>>(find_symbol(blas.handle, "cblas_sgemm"));
        blas.dgemm = reinterpret_cast<CblasGemm<double>>(find_symbol(blas.handle, "cblas_dgemm"));
        if (void* f = find_symbol(blas.handle, "openblas_set_num_threads"))
            reinterpret_cast<void (*)(int)>(f)(1);
        if (blas.sgemm && blas.dgemm) result = BlasState::Loaded;
        else blas_load_error = path + " has no cblas_sgemm";
    }
    blas_state.store(result, std::memory_order_release);
    return result == BlasState::Loaded;
}

void require_blas(const char* who, const char* what_for) {
    if (blas_ready()) return;
    std::lock_guard lock(blas_mutex);
    fail(ErrorKind::Runtime, who, text("OpenBLAS ", what_for), blas_load_error,
         "pip install scipy-openblas32");
}

template <>
CblasGemm<float> cblas_gemm() {
    return blas.sgemm;
}
template <>
CblasGemm<double> cblas_gemm() {
    return blas.dgemm;
}

void set_blas_path(const char* path) {
    std::lock_guard lock(blas_mutex);
    blas_path = path ? path : "";
    if (blas_state.load(std::memory_order_relaxed) == BlasState::Missing)
        blas_state.store(BlasState::Untried, std::memory_order_release);
}

void* blas_symbol(const char* name) {
    require_blas(name, "to be installed");
    return find_symbol(blas.handle, name);
}

}  // namespace weft::kernels
