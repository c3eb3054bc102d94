/// What the fills of random*.cpp share: words of the generator, converted a chunk at a time.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/random.h"
#include "kernels/simd.h"

namespace weft::kernels {

/// out[i] = op(words[i]), or of word pairs when Op::words is 2.
struct RandomConvert {
    template <class T, class Op>
    WEFT_INLINE static void run(const uint32_t* __restrict words, T* __restrict out, int64_t n,
                                Op op) {
        for (int64_t i = 0; i < n; ++i) {
            if constexpr (Op::words == 2) out[i] = op(words[2 * i], words[2 * i + 1]);
            else out[i] = op(words[i]);
        }
    }
};

inline constexpr int64_t kRandomChunk = 1248;  // words on the stack, two refills

template <class T, class Op>
void random_fill(Generator& generator, T* out, int64_t n, Op op) {
    alignas(64) uint32_t words[kRandomChunk];
    constexpr int64_t step = kRandomChunk / Op::words;
    for (int64_t i = 0; i < n; i += step) {
        const int64_t count = std::min(step, n - i);
        generator.fill(words, count * Op::words);
        per_isa<RandomConvert, const uint32_t*, T*, int64_t, Op>(words, out + i, count, op);
    }
}

WEFT_INLINE float unit_float(uint32_t word) {
    return static_cast<float>(static_cast<int32_t>(word & 0xffffffu)) * 0x1p-24f;
}

/// The low 53 bits over 2^53, in conversions that every level has as vector instructions.
WEFT_INLINE double unit_double(uint32_t high, uint32_t low) {
    const double tail = std::bit_cast<double>(0x4330000000000000u | low) - 0x1p52;
    return static_cast<double>(static_cast<int32_t>(high & 0x1fffffu)) * 0x1p-21 + tail * 0x1p-53;
}

/// The words a number of type T takes.
template <class T>
inline constexpr int words_of = sizeof(T) == 8 ? 2 : 1;

inline double unit_double(Generator& generator) {
    const uint32_t high = generator.random();
    return unit_double(high, generator.random());
}

/// One normal number; the other of its pair is kept by the generator.
double normal_value(Generator& generator, double mean, double std);

}  // namespace weft::kernels
