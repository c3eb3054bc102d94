#include "kernels/stream.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "kernels/vector.h"

namespace weft::kernels {
namespace {

/// Results held back before they are streamed out. Few, so that the processor computes the next
/// ones while these drain: 8 KB took 8 % longer.
constexpr int64_t block_bytes = 1024;
constexpr int max_operands = 4;

/// Copies a whole number of cache lines from one aligned place to another, past the caches.
template <int Bytes>
struct CopyPast {
    WEFT_INLINE static void run(char* to, const char* from) {
#if WEFT_VECTOR_ASM
        using V = typename vec::Simd<float, Bytes>::Vector;
        for (int64_t i = 0; i < block_bytes; i += Bytes) {
            const V v = *reinterpret_cast<const V*>(from + i);
            V& out = *reinterpret_cast<V*>(to + i);
            if constexpr (Bytes == 16) asm volatile("movntps %1, %0" : "=m"(out) : "x"(v));
            else asm volatile("vmovntps %1, %0" : "=m"(out) : "v"(v));
        }
#else
        std::memcpy(to, from, block_bytes);
#endif
    }
};

}  // namespace

void finish_stores() {
#if defined(__x86_64__)
    asm volatile("sfence" ::: "memory");
#endif
}

void stream_out(char* to, const char* from, int64_t bytes) {
    const bool aligned =
        (reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % 64 == 0;
    for (; aligned && bytes >= block_bytes; bytes -= block_bytes) {
        vec::per_width<CopyPast>(to, from);
        to += block_bytes;
        from += block_bytes;
    }
    std::memcpy(to, from, static_cast<size_t>(bytes));
}

int64_t stream_bytes() {
    static const int64_t bytes = [] {
        int64_t cache = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
        cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
        return std::max(int64_t{8} << 20, cache / 5 * 2);
    }();
    return bytes;
}

void stream_map(MapLoop loop, const void* f, char* const* p, const int64_t* strides, int operands,
                int64_t item, int64_t n) {
    char* at[max_operands];
    bool apart = reinterpret_cast<uintptr_t>(p[0]) % 64 == 0;
    for (int k = 0; k < operands; ++k) {
        at[k] = p[k];
        apart &= k == 0 || p[k] != p[0];
    }
    const int64_t block = block_bytes / item;
    if (apart && n >= block) {
        alignas(64) char buffer[block_bytes];
        for (; n >= block; n -= block) {
            char* const out = at[0];
            at[0] = buffer;
            loop(f, at, strides, block);
            vec::per_width<CopyPast>(out, static_cast<const char*>(buffer));
            at[0] = out;
            for (int k = 0; k < operands; ++k) at[k] += block * strides[k];
        }
        finish_stores();
    }
    if (n > 0) loop(f, at, strides, n);
}

}  // namespace weft::kernels
