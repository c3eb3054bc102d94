/// The floats of 8 bits and complex numbers of two float16: what memory holds, with conversions from
/// and to float as PyTorch's, to nearest even.
#pragma once
#include <array>
#include <bit>
#include <cstdint>

#include "kernels/half.h"
#include "kernels/simd.h"

namespace weft::kernels {

/// What the codes at the ends of the range are, and what is too large becomes.
enum class Float8Kind : uint8_t {
    Ieee,    ///< the last exponent is infinity and NaN; too large: infinity
    Finite,  ///< "fn": the last code is NaN; too large, infinity too: the largest number
    NoZero,  ///< "fnuz": the code of -0 is the only NaN; too large: NaN
};

/// Sign, exponent and `Mantissa` bits.
template <int Mantissa, int Bias, Float8Kind Kind>
struct Float8 {
    uint8_t bits;

    Float8() = default;
    WEFT_INLINE explicit Float8(float x) {
        constexpr int shift = 23 - Mantissa;
        constexpr uint32_t bias = static_cast<uint32_t>(127 - Bias) << 23;
        constexpr uint32_t smallest = bias + (1u << 23);
        // Below the smallest normal number the last bit is that of a float near this power of two:
        // the addition rounds.
        constexpr uint32_t near = static_cast<uint32_t>(128 - Bias + shift) << 23;
        const uint32_t word = std::bit_cast<uint32_t>(x), size = word & 0x7fffffffu;
        const uint32_t tiny =
            std::bit_cast<uint32_t>(std::bit_cast<float>(size) + std::bit_cast<float>(near)) - near;
        const uint32_t half = (1u << (shift - 1)) - 1;
        const uint32_t normal = (size - bias + half + (size >> shift & 1)) >> shift;
        uint32_t result = size < smallest ? tiny : normal;
        result = result > kLargest ? kTooLarge : result;
        result = size > 0x7f800000u ? kNan : result;
        uint32_t sign = word >> 24 & 0x80u;
        if constexpr (Kind == Float8Kind::NoZero) sign = result == 0 ? 0 : sign;
        bits = static_cast<uint8_t>(sign | result);
    }
    WEFT_INLINE explicit operator float() const { return std::bit_cast<float>(kWords[bits]); }

private:
    static constexpr uint32_t kNan = Kind == Float8Kind::NoZero ? 0x80 : 0x7f;
    static constexpr uint32_t kInfinity = 0x80 - (1 << Mantissa);  // of Ieee
    static constexpr uint32_t kLargest = Kind == Float8Kind::Ieee     ? kInfinity - 1
                                         : Kind == Float8Kind::Finite ? 0x7e
                                                                      : 0x7f;
    static constexpr uint32_t kTooLarge = Kind == Float8Kind::Ieee     ? kInfinity
                                          : Kind == Float8Kind::Finite ? kLargest
                                                                       : kNan;

    /// The float of a code, as bits; the NaN is that of PyTorch.
    static constexpr uint32_t word_of(uint32_t code) {
        const uint32_t sign = (code & 0x80) << 24, size = code & 0x7f;
        const uint32_t fraction = size << (23 - Mantissa);
        if (Kind == Float8Kind::NoZero && code == kNan) return 0x7f800001u;
        if (Kind == Float8Kind::Ieee && size >= kInfinity) {
            const uint32_t quiet = size > kInfinity ? 0x7fc00000u : 0x7f800000u;
            return sign | quiet | (fraction & 0x007fffffu);
        }
        if (Kind == Float8Kind::Finite && size == kNan) return sign | 0x7ff00000u;
        if (size >> Mantissa) return sign | (fraction + (static_cast<uint32_t>(127 - Bias) << 23));
        if (size == 0) return sign;
        const int zeros =
            std::countl_zero(size) - (31 - Mantissa);  // to the place of the hidden bit
        const auto exponent = static_cast<uint32_t>(128 - Bias - zeros);
        return sign | exponent << 23 | ((fraction << zeros) & 0x007fffffu);
    }
    static constexpr auto kWords = [] {
        std::array<uint32_t, 256> words{};
        for (uint32_t code = 0; code < 256; ++code) words[code] = word_of(code);
        return words;
    }();
};

using Float8E4M3FN = Float8<3, 7, Float8Kind::Finite>;
using Float8E4M3FNUZ = Float8<3, 8, Float8Kind::NoZero>;
using Float8E5M2 = Float8<2, 15, Float8Kind::Ieee>;
using Float8E5M2FNUZ = Float8<2, 16, Float8Kind::NoZero>;

/// A power of two, 2^-127 to 2^127, or NaN: the exponent of a float.
struct Float8E8M0FNU {
    uint8_t bits;

    Float8E8M0FNU() = default;
    WEFT_INLINE explicit Float8E8M0FNU(float x) {
        const uint32_t word = std::bit_cast<uint32_t>(x), exponent = word >> 23 & 0xffu;
        // half way from a power to the next goes up, but from 2^-127, whose float has no hidden bit
        const bool half = word & 0x400000u, more = (word & 0x3fffffu) || exponent;
        bits = static_cast<uint8_t>(exponent + (half && more && exponent != 0xffu));
    }
    WEFT_INLINE explicit operator float() const {
        const uint32_t power = bits ? static_cast<uint32_t>(bits) << 23 : 0x00400000u;
        return std::bit_cast<float>(bits == 0xff ? 0x7f800001u : power);
    }
};

/// A complex number of two float16.
struct ComplexHalf {
    using value_type = Half;
    Half parts[2];

    ComplexHalf() = default;
    ComplexHalf(Half real, Half imag) : parts{real, imag} {}
    Half real() const { return parts[0]; }
    Half imag() const { return parts[1]; }
};

}  // namespace weft::kernels
