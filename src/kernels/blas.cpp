#include "kernels/blas.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

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

/// Where OpenBLAS is looked for: the path that was set, else WEFT_BLAS, and no further. Without
/// either beside this library, then wherever the system's loader finds libraries.
std::vector<std::string> candidates(const std::string& set) {
    if (!set.empty()) return {set};
    if (const char* env = std::getenv("WEFT_BLAS")) return {env};
    static constexpr const char* names[] = {"libscipy_openblas.so", "libopenblas.so.0",
                                            "libopenblas.so"};
    std::vector<std::string> found;
    Dl_info here{};
    if (dladdr(reinterpret_cast<void*>(&blas_ready), &here) && here.dli_fname) {
        const std::string file = here.dli_fname;
        if (const size_t end = file.rfind('/'); end != file.npos)
            for (const char* name : names) found.push_back(file.substr(0, end + 1) + name);
    }
    found.insert(found.end(), std::begin(names), std::end(names));
    return found;
}

/// The first that has products; null, and the reasons, if none has.
void* open_first(const std::vector<std::string>& paths, std::string& why_not) {
    SingleThreadedLoad guard;
    why_not.clear();
    for (const std::string& path : paths) {
        void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
        if (handle && find_symbol(handle, "cblas_sgemm") && find_symbol(handle, "cblas_dgemm"))
            return handle;
        if (!why_not.empty()) why_not += "; ";
        why_not += handle ? path + " has no cblas_sgemm" : dlerror();
        if (handle) dlclose(handle);
    }
    return nullptr;
}

}  // namespace

bool blas_ready() {
    const BlasState seen = blas_state.load(std::memory_order_acquire);
    if (seen != BlasState::Untried) return seen == BlasState::Loaded;
    std::lock_guard lock(blas_mutex);
    if (blas_state.load(std::memory_order_relaxed) != BlasState::Untried)
        return blas_state.load(std::memory_order_relaxed) == BlasState::Loaded;
    BlasState result = BlasState::Missing;
    if ((blas.handle = open_first(candidates(blas_path), blas_load_error))) {
        blas.sgemm = reinterpret_cast<CblasGemm<float>>(find_symbol(blas.handle, "cblas_sgemm"));
        blas.dgemm = reinterpret_cast<CblasGemm<double>>(find_symbol(blas.handle, "cblas_dgemm"));
        if (void* f = find_symbol(blas.handle, "openblas_set_num_threads"))
            reinterpret_cast<void (*)(int)>(f)(1);
        result = BlasState::Loaded;
    }
    blas_state.store(result, std::memory_order_release);
    return result == BlasState::Loaded;
}

void require_blas(const char* who, const char* what_for) {
    if (blas_ready()) return;
    std::lock_guard lock(blas_mutex);
    fail(ErrorKind::Runtime, who, text("OpenBLAS ", what_for), blas_load_error,
         "pip install scipy-openblas32, or WEFT_BLAS=path");
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
