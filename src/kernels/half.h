/// float16 (IEEE 754 binary16) and bfloat16 as 16 bits in memory, with conversions from and to float
/// that round to nearest even and have no branches, so that loops of them vectorise.
#pragma once
#include <bit>
#include <cstdint>

#include "kernels/simd.h"

namespace weft::kernels {

struct Half {
    uint16_t bits;

    Half() = default;
    WEFT_INLINE explicit Half(float x) {
        const uint32_t word = std::bit_cast<uint32_t>(x), sign = word >> 16 & 0x8000u;
        const uint32_t size = word & 0x7fffffffu;
        // Below 2^-14 the last bit is 2^-24, that of a float near 0.5: the addition rounds.
        const uint32_t tiny =
            std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000u;
        const uint32_t normal = (size - 0x38000000u + 0xfffu + (size >> 13 & 1)) >> 13;
        const uint32_t huge = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
        uint32_t result = size < 0x38800000u ? tiny : normal;
        result = size >= 0x47800000u ? huge : result;
        bits = static_cast<uint16_t>(sign | result);
    }
    WEFT_INLINE explicit operator float() const {
        const uint32_t sign = (bits & 0x8000u) << 16, rest = (bits & 0x7fffu) << 13;
        const uint32_t normal = rest + 0x38000000u, huge = rest + 0x70000000u;
        const float tiny = std::bit_cast<float>(rest + 0x38800000u) - 0x1p-14f;
        uint32_t result = rest < 0x00800000u ? std::bit_cast<uint32_t>(tiny) : normal;
        result = rest >= 0x0f800000u ? huge : result;
        return std::bit_cast<float>(sign | result);
    }
};

struct BFloat16 {
    uint16_t bits;

    BFloat16() = default;
    WEFT_INLINE explicit BFloat16(float x) {
        const uint32_t word = std::bit_cast<uint32_t>(x);
        const uint32_t near = (word + 0x7fffu + (word >> 16 & 1)) >> 16;
        bits = static_cast<uint16_t>((word & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : near);
    }
    WEFT_INLINE explicit operator float() const {
        return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    }
};

}  // namespace weft::kernels
