/// One element from one type to another, as PyTorch's CPU converts.
#pragma once
#include <complex>
#include <type_traits>

#include "kernels/float8.h"
#include "kernels/half.h"

namespace weft::kernels {

template <class T>
inline constexpr bool is_half = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
/// The floats of 8 bits, which are of the size of their only member.
template <class T>
inline constexpr bool is_float8 = requires(T x) {
    requires sizeof(T) == 1 && sizeof(x.bits) == 1;
    static_cast<float>(x);
};
template <class T>
struct ComplexPart {
    using type = T;
    static constexpr bool complex = false;
};
template <class T>
struct ComplexPart<std::complex<T>> {
    using type = T;
    static constexpr bool complex = true;
};
template <>
struct ComplexPart<ComplexHalf> {
    using type = Half;
    static constexpr bool complex = true;
};
template <class T>
inline constexpr bool is_complex_v = ComplexPart<T>::complex;

/// Integers wrap, floats round to nearest even or towards zero for integers; complex to real drops
/// the imaginary part, to bool asks whether either part is not zero.
template <class To, class From>
WEFT_INLINE To convert(From x) {
    if constexpr (std::is_same_v<To, From>) {
        return x;
    } else if constexpr (std::is_same_v<From, ComplexHalf>) {
        return convert<To>(std::complex<float>(convert<float>(x.real()), convert<float>(x.imag())));
    } else if constexpr (is_half<From> || is_float8<From>) {
        return convert<To>(static_cast<float>(x));
    } else if constexpr (is_half<To> || is_float8<To>) {
        return To(convert<float>(x));
    } else if constexpr (std::is_same_v<To, ComplexHalf>) {
        if constexpr (is_complex_v<From>) return {convert<Half>(x.real()), convert<Half>(x.imag())};
        else return {convert<Half>(x), Half(0.0f)};
    } else if constexpr (is_complex_v<From>) {
        if constexpr (std::is_same_v<To, bool>) return x.real() != 0 || x.imag() != 0;
        else if constexpr (is_complex_v<To>)
            return To(static_cast<typename To::value_type>(x.real()),
                      static_cast<typename To::value_type>(x.imag()));
        else return convert<To>(x.real());
    } else if constexpr (is_complex_v<To>) {
        return To(convert<typename To::value_type>(x), 0);
    } else if constexpr (std::is_same_v<To, bool>) {
        return x != From{0};
    } else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, uint64_t>) {
        constexpr From half = 0x1p63;  // int64 holds what lies below
        const bool upper = x >= half;
        return static_cast<To>(static_cast<int64_t>(upper ? x - half : x)) ^ To { upper } << 63;
    } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> &&
                         (sizeof(To) < 4 || std::is_unsigned_v<To>)) {
        return static_cast<To>(static_cast<int64_t>(x));
    } else {
        return static_cast<To>(x);
    }
}

}  // namespace weft::kernels
