/// The real distributions of random.h.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "kernels/random.h"
#include "kernels/random_fill.h"
#include "kernels/simd.h"

namespace weft::kernels {
namespace {

/// unit * (to - from) + from, contracted as in PyTorch's build; `to` itself becomes `from`.
template <class T, bool shifted>
struct Uniform {
    static constexpr int words = words_of<T>;
    T from, to, range;
    WEFT_INLINE T place(T unit) const {
        // Without a shift the product alone is the contracted result, and needs no FMA unit.
        const T value = shifted ? std::fma(unit, range, from) : unit * range;
        return value == to ? from : value;
    }
    WEFT_INLINE T operator()(uint32_t word) const { return place(unit_float(word)); }
    WEFT_INLINE T operator()(uint32_t high, uint32_t low) const {
        return place(unit_double(high, low));
    }
};

// ---- normal numbers ----------------------------------------------------------------------------

/// Cephes' logf (S. Moshier), for x in (0, 1], with the contractions PyTorch's AVX2 build makes.
/// Not kernels::math::log: these bits are the contract.
WEFT_INLINE float cephes_log(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    float m = std::bit_cast<float>((bits & 0x007fffffu) | 0x3f000000u);
    float e = static_cast<float>(static_cast<int32_t>(bits >> 23) - 126);
    const bool small = m < 0.707106781186547524f;
    const float doubled = small ? m : 0.0f;
    m = (m - 1.0f) + doubled;
    e = e - (small ? 1.0f : 0.0f);
    const float z = m * m;
    float y = 7.0376836292e-2f;
    y = std::fma(y, m, -1.1514610310e-1f);
    y = std::fma(y, m, 1.1676998740e-1f);
    y = std::fma(y, m, -1.2420140846e-1f);
    y = std::fma(y, m, 1.4249322787e-1f);
    y = std::fma(y, m, -1.6668057665e-1f);
    y = std::fma(y, m, 2.0000714765e-1f);
    y = std::fma(y, m, -2.4999993993e-1f);
    y = std::fma(y, m, 3.3333331174e-1f);
    y = std::fma(y * m, z, e * -2.12194440e-4f);
    y = std::fma(z, -0.5f, y);
    return std::fma(e, 0.693359375f, m + y);
}

/// Cephes' sinf and cosf for x in [0, 2 pi], likewise.
WEFT_INLINE void cephes_sincos(float x, float& sine, float& cosine) {
    const int32_t octant = (static_cast<int32_t>(x * 1.27323954473516f) + 1) & ~1;
    const float y = static_cast<float>(octant);
    x = std::fma(y, -0.78515625f, x);
    x = std::fma(y, -2.4187564849853515625e-4f, x);
    x = std::fma(y, -3.77489497744594108e-8f, x);
    const float z = x * x;
    float c = std::fma(2.443315711809948e-5f, z, -1.388731625493765e-3f);
    c = std::fma(c, z, 4.166664568298827e-2f);
    c = std::fma(c * z, z, z * -0.5f) + 1.0f;
    float s = std::fma(-1.9515295891e-4f, z, 8.3321608736e-3f);
    s = std::fma(s, z, -1.6666654611e-1f);
    s = std::fma(s * z, x, x);
    const bool straight = (octant & 2) == 0;
    const uint32_t sign_s = static_cast<uint32_t>(octant & 4) << 29;
    const uint32_t sign_c = static_cast<uint32_t>(~(octant - 2) & 4) << 29;
    sine = std::bit_cast<float>(std::bit_cast<uint32_t>(straight ? s : c) ^ sign_s);
    cosine = std::bit_cast<float>(std::bit_cast<uint32_t>(straight ? c : s) ^ sign_c);
}

/// Box-Muller on blocks of 16 words: the first 8 give radii, the last 8 angles; cosines first.
struct NormalBlocks {
    static constexpr int64_t group = 16;
    WEFT_INLINE static void run(const uint32_t* __restrict words, float* __restrict out,
                                int64_t blocks, float mean, float std) {
        constexpr int64_t lanes = 8 * group;
        alignas(64) float first[lanes], second[lanes];
        for (int64_t start = 0; start < blocks; start += group) {
            const int64_t count = std::min(group, blocks - start);
            for (int64_t b = 0; b < count; ++b)
                for (int64_t j = 0; j < 8; ++j) {
                    first[8 * b + j] = 1.0f - unit_float(words[16 * (start + b) + j]);
                    second[8 * b + j] = unit_float(words[16 * (start + b) + j + 8]);
                }
            for (int64_t i = 0; i < 8 * count; ++i) {
                const float radius = __builtin_sqrtf(-2.0f * cephes_log(first[i]));
                float sine, cosine;
                cephes_sincos(6.283185307179586f * second[i], sine, cosine);
                first[i] = std::fma(radius * cosine, std, mean);
                second[i] = std::fma(radius * sine, std, mean);
            }
            for (int64_t b = 0; b < count; ++b)
                for (int64_t j = 0; j < 8; ++j) {
                    out[16 * (start + b) + j] = first[8 * b + j];
                    out[16 * (start + b) + j + 8] = second[8 * b + j];
                }
        }
    }
};

void normal_blocks(Generator& generator, float* out, int64_t blocks, double mean, double std) {
    alignas(64) uint32_t words[kRandomChunk];
    constexpr int64_t step = kRandomChunk / 16;
    for (int64_t i = 0; i < blocks; i += step) {
        const int64_t count = std::min(step, blocks - i);
        generator.fill(words, 16 * count);
        per_isa<NormalBlocks, const uint32_t*, float*, int64_t, float, float>(
            words, out + 16 * i, count, static_cast<float>(mean), static_cast<float>(std));
    }
}

/// The double version is written with the C library's functions, as PyTorch's is.
void normal_blocks(Generator& generator, double* out, int64_t blocks, double mean, double std) {
    for (double* end = out + 16 * blocks; out != end; out += 16) {
        uniform(generator, out, 16, 0, 1);
        for (int j = 0; j < 8; ++j) {
            const double radius = std::sqrt(-2.0 * std::log(1.0 - out[j]));
            const double angle = 2.0 * std::numbers::pi * out[j + 8];
            out[j] = std::fma(radius * std::cos(angle), std, mean);
            out[j + 8] = std::fma(radius * std::sin(angle), std, mean);
        }
    }
}

}  // namespace

double normal_value(Generator& generator, double mean, double std) {
    if (generator.next_double_normal) {
        const double kept = *generator.next_double_normal;
        generator.next_double_normal.reset();
        return std::fma(kept, std, mean);
    }
    const double turn = unit_double(generator);
    const double radius = std::sqrt(-2.0 * std::log1p(-unit_double(generator)));
    const double angle = 2.0 * std::numbers::pi * turn;
    generator.next_double_normal = radius * std::sin(angle);
    return std::fma(radius * std::cos(angle), std, mean);
}

// ---- real numbers ------------------------------------------------------------------------------

template <class T>
void uniform(Generator& generator, T* out, int64_t n, double from, double to) {
    const T low = static_cast<T>(from), high = static_cast<T>(to);
    if (low == 0) random_fill(generator, out, n, Uniform<T, false>{low, high, high - low});
    else random_fill(generator, out, n, Uniform<T, true>{low, high, high - low});
}

template <class T>
void uniform_narrow(Generator& generator, T* out, int64_t n, double from, double to) {
    alignas(64) float drawn[512];
    const T low(static_cast<float>(from)), high(static_cast<float>(to));
    for (int64_t i = 0; i < n; i += 512) {
        const int64_t count = std::min<int64_t>(512, n - i);
        uniform(generator, drawn, count, from, to);
        for (int64_t j = 0; j < count; ++j) {
            const T value(drawn[j]);
            out[i + j] = value.bits == high.bits ? low : value;
        }
    }
}
template void uniform_narrow(Generator&, Half*, int64_t, double, double);
template void uniform_narrow(Generator&, BFloat16*, int64_t, double, double);

template <class T>
void normal(Generator& generator, T* out, int64_t n, double mean, double std) {
    if (n < 16) return normal_one_by_one(generator, out, n, mean, std);
    normal_blocks(generator, out, n / 16, mean, std);
    if (const int64_t rest = n % 16) {
        for (int64_t i = 0; i < rest * words_of<T>; ++i) generator.random();
        normal_blocks(generator, out + n - 16, 1, mean, std);
    }
}

template <class T>
void normal_one_by_one(Generator& generator, T* out, int64_t n, double mean, double std) {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(normal_value(generator, mean, std));
}

void normal_reduced(Generator& generator, float* out, int64_t n, double mean, double std) {
    if (n < 16) return normal_one_by_one(generator, out, n, mean, std);
    normal_blocks(generator, out, n / 16, mean, std);
    if (n % 16) normal_blocks(generator, out + n - 16, 1, mean, std);
}

template <class T>
void exponential(Generator& generator, T* out, int64_t n, double lambda) {
    for (int64_t i = 0; i < n; ++i)
        out[i] = static_cast<T>(-1.0 / lambda * std::log1p(-unit_double(generator)));
}

template <class T>
void cauchy(Generator& generator, T* out, int64_t n, double median, double sigma) {
    for (int64_t i = 0; i < n; ++i) {
        const double angle = std::numbers::pi * (unit_double(generator) - 0.5);
        out[i] = static_cast<T>(std::fma(sigma, std::tan(angle), median));
    }
}

template <class T>
void log_normal(Generator& generator, T* out, int64_t n, double mean, double std) {
    for (int64_t i = 0; i < n; ++i)
        out[i] = static_cast<T>(std::exp(normal_value(generator, mean, std)));
}

// ---- the types in use --------------------------------------------------------------------------

#define WEFT_RANDOM_REAL(T)                                                                        \
    template void uniform(Generator&, T*, int64_t, double, double);                                \
    template void normal(Generator&, T*, int64_t, double, double);                                 \
    template void normal_one_by_one(Generator&, T*, int64_t, double, double);                      \
    template void exponential(Generator&, T*, int64_t, double);                                    \
    template void cauchy(Generator&, T*, int64_t, double, double);                                 \
    template void log_normal(Generator&, T*, int64_t, double, double);

WEFT_RANDOM_REAL(float)
WEFT_RANDOM_REAL(double)

}  // namespace weft::kernels
