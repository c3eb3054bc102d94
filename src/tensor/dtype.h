/// Element types, their promotion, and dispatch from a dtype to a C++ type.
///
/// Note [Narrow dtypes]
/// Kernels are compiled for the wide types only: bool, int64, float32, float64 and, where an op says
/// so, complex64 and complex128. The narrow ones exist in memory: where a kernel meets them, the
/// door (ops/call.cpp) converts its inputs to `widened(dtype)`, lets the kernel write wide results
/// and narrows those. Kernels that only move elements go by their size (`dispatch_size`) and say
/// `.every_dtype()` in the record. Shape rules, promotion and gradients see the true dtypes.
/// uint64 has no wide dtype: where a result is floating, kernels get its numbers in that dtype, else
/// what the record says (`.uint64(...)`, ops/op.h), and those of other records refuse it.
#pragma once
#include <array>
#include <complex>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "kernels/half.h"

namespace weft {

using kernels::BFloat16;
using kernels::Half;

/// X(enumerator, C++ type, name, category, letter of the buffer protocol). The lists are in the
/// order of the enumerators; a narrow dtype has kNarrowBit, a complex one kComplexBit.
#define WEFT_REAL_DTYPES(X)                                                                        \
    X(Bool, bool, "bool", Bool, "?")                                                               \
    X(Int64, int64_t, "int64", Integer, "q")                                                       \
    X(Float32, float, "float32", Floating, "f")                                                    \
    X(Float64, double, "float64", Floating, "d")
#define WEFT_COMPLEX_DTYPES(X)                                                                     \
    X(Complex64, std::complex<float>, "complex64", Complex, "Zf")                                  \
    X(Complex128, std::complex<double>, "complex128", Complex, "Zd")
#define WEFT_NARROW_DTYPES(X)                                                                      \
    X(UInt8, uint8_t, "uint8", Integer, "B")                                                       \
    X(Int8, int8_t, "int8", Integer, "b")                                                          \
    X(Int16, int16_t, "int16", Integer, "h")                                                       \
    X(Int32, int32_t, "int32", Integer, "i")                                                       \
    X(Float16, Half, "float16", Floating, "e")                                                     \
    X(BFloat16, kernels::BFloat16, "bfloat16", Floating, "")                                       \
    X(UInt16, uint16_t, "uint16", Integer, "H")                                                    \
    X(UInt32, uint32_t, "uint32", Integer, "I")                                                    \
    X(UInt64, uint64_t, "uint64", Integer, "Q")
#define WEFT_DTYPES(X) WEFT_REAL_DTYPES(X) WEFT_COMPLEX_DTYPES(X) WEFT_NARROW_DTYPES(X)

/// In the order of promotion: a higher category wins.
enum class Category : uint8_t { Bool, Integer, Floating, Complex };

inline constexpr uint8_t kComplexBit = 4, kNarrowBit = 8;

enum class DType : uint8_t {
    Bool,
    Int64,
    Float32,
    Float64,
    Complex64 = kComplexBit,
    Complex128,
    UInt8 = kNarrowBit,
    Int8,
    Int16,
    Int32,
    Float16,
    BFloat16,
    UInt16,
    UInt32,
    UInt64 = kNarrowBit | 16,
};

/// Enumerators lie below it; not every number below it is one.
inline constexpr int kDTypeCount = 25;
inline constexpr DType kDTypes[] = {
#define X(id, type, name, category, letter) DType::id,
    WEFT_DTYPES(X)
#undef X
};

struct DTypeInfo {
    std::string_view name;
    uint8_t size = 0;
    Category category = Category::Bool;
    const char* letter = nullptr;
};

inline constexpr auto kDTypeInfo = [] {
    std::array<DTypeInfo, kDTypeCount> table{};
#define X(id, type, name, category, letter)                                                        \
    table[static_cast<int>(DType::id)] = {name, sizeof(type), Category::category, letter};
    WEFT_DTYPES(X)
#undef X
    return table;
}();

constexpr const DTypeInfo& info(DType t) { return kDTypeInfo[static_cast<uint8_t>(t)]; }
constexpr int item_size(DType t) { return info(t).size; }
constexpr std::string_view name(DType t) { return info(t).name; }
constexpr Category category(DType t) { return info(t).category; }
constexpr bool is_floating(DType t) { return category(t) == Category::Floating; }
constexpr bool is_complex(DType t) {
    return static_cast<uint8_t>(t) & kComplexBit && t < DType::UInt8;
}
/// Floating or complex.
constexpr bool is_inexact(DType t) { return category(t) >= Category::Floating; }
constexpr bool is_narrow(DType t) { return static_cast<uint8_t>(t) & kNarrowBit; }
/// uint16, uint32 or uint64, which promote to floating dtypes alone, as PyTorch's.
constexpr bool is_wide_unsigned(DType t) { return t >= DType::UInt16; }
constexpr bool is_unsigned(DType t) { return t == DType::UInt8 || is_wide_unsigned(t); }

/// The dtype in which kernels compute for `t`.
constexpr DType widened(DType t) {
    if (!is_narrow(t)) return t;
    return is_floating(t) ? DType::Float32 : DType::Int64;
}
/// float32 or float64.
constexpr bool is_wide_floating(DType t) { return is_floating(t) && !is_narrow(t); }
/// The dtype of real and imaginary part; `t` itself if it is real.
constexpr DType real_dtype(DType t) {
    return t == DType::Complex64 ? DType::Float32 : t == DType::Complex128 ? DType::Float64 : t;
}
/// The complex dtype whose parts hold a floating `t`.
constexpr DType complex_dtype(DType t) {
    return t == DType::Float64 || t == DType::Complex128 ? DType::Complex128 : DType::Complex64;
}

template <class T>
struct DTypeOf;
#define X(id, type, name, category, letter)                                                        \
    template <>                                                                                    \
    struct DTypeOf<type> {                                                                         \
        static constexpr DType value = DType::id;                                                  \
    };
WEFT_DTYPES(X)
#undef X
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

namespace detail {

inline constexpr auto kNoDType = static_cast<DType>(0xff);

constexpr DType promote_slowly(DType a, DType b) {
    if (category(a) < category(b)) std::swap(a, b);
    if (a == b) return a;
    if (is_wide_unsigned(a) || is_wide_unsigned(b)) return is_floating(a) ? a : kNoDType;
    if (is_complex(a)) {
        bool wide = a == DType::Complex128 || b == DType::Complex128 || b == DType::Float64;
        return wide ? DType::Complex128 : DType::Complex64;
    }
    if (category(a) != category(b)) return a;
    if (item_size(a) != item_size(b)) return item_size(a) > item_size(b) ? a : b;
    return is_floating(a) ? DType::Float32 : DType::Int16;  // float16 and bfloat16, int8 and uint8
}

inline constexpr auto kPromotion = [] {
    std::array<std::array<DType, kDTypeCount>, kDTypeCount> table{};
    for (DType a : kDTypes)
        for (DType b : kDTypes)
            table[static_cast<uint8_t>(a)][static_cast<uint8_t>(b)] = promote_slowly(a, b);
    return table;
}();

[[noreturn]] inline void fail_promotion(DType a, DType b) {
    fail(ErrorKind::Runtime, "promote_types", "dtypes with a common one",
         text(name(a), " and ", name(b),
              " (Promotion for uint16, uint32, uint64 types is not supported)"),
         "convert with .to(dtype) first");
}

}  // namespace detail

/// The dtype both convert to (PyTorch's promotion for two tensors of the same rank class).
constexpr DType promote(DType a, DType b) {
    const DType both = detail::kPromotion[static_cast<uint8_t>(a)][static_cast<uint8_t>(b)];
    if (both == detail::kNoDType) [[unlikely]]
        detail::fail_promotion(a, b);
    return both;
}

/// Sets of dtypes an op accepts.
struct AllTypes {
    static constexpr bool has(DType) { return true; }
    static constexpr std::string_view text = "any dtype";
};
struct NumberTypes {
    static constexpr bool has(DType t) { return t != DType::Bool; }
    static constexpr std::string_view text = "a number dtype";
};
struct FloatingTypes {
    static constexpr bool has(DType t) { return is_floating(t); }
    static constexpr std::string_view text = "a floating dtype";
};
struct IntegralTypes {
    static constexpr bool has(DType t) { return category(t) <= Category::Integer; }
    static constexpr std::string_view text = "an integer or bool dtype";
};
/// A set whose kernels are compiled for complex64 and complex128 too.
template <class Set>
struct WithComplex : Set {
    static constexpr bool has(DType t) { return is_complex(t) || Set::has(t); }
    static constexpr bool complex = true;
};
template <class Set>
concept TakesComplex = Set::complex;

[[noreturn]] inline void fail_dtype(std::string_view op, std::string_view expected, DType got) {
    fail(ErrorKind::NotImplemented, op, text("a tensor of ", expected), name(got),
         "convert with .to(dtype) first");
}

/// Calls `f.template operator()<T>()` with the C++ type of `t`, a wide one (Note [Narrow dtypes]);
/// `op` names the caller in the error.
template <class Set, class F>
auto dispatch(DType t, std::string_view op, F&& f) {
    switch (t) {
#define X(id, type, name, category, letter)                                                        \
    case DType::id:                                                                                \
        if constexpr (Set::has(DType::id)) return f.template operator()<type>();                   \
        break;
        WEFT_REAL_DTYPES(X)
#undef X
#define X(id, type, name, category, letter)                                                        \
    case DType::id:                                                                                \
        if constexpr (TakesComplex<Set>) return f.template operator()<type>();                     \
        break;
        WEFT_COMPLEX_DTYPES(X)
#undef X
        default:
            break;
    }
    fail_dtype(op, Set::text, t);
}

/// The same for every dtype: for short code only.
template <class F>
auto dispatch_each(DType t, F&& f) {
    switch (t) {
#define X(id, type, name, category, letter)                                                        \
    case DType::id:                                                                                \
        return f.template operator()<type>();
        WEFT_DTYPES(X)
#undef X
    }
    __builtin_unreachable();
}

/// An element of 16 bytes that is only moved.
struct Bits128 {
    uint64_t low, high;
};

/// Calls `f` with an unsigned type of the size of t's elements, for kernels that only move them.
template <class F>
auto dispatch_size(DType t, F&& f) {
    switch (item_size(t)) {
        case 1:
            return f.template operator()<uint8_t>();
        case 2:
            return f.template operator()<uint16_t>();
        case 4:
            return f.template operator()<uint32_t>();
        case 8:
            return f.template operator()<uint64_t>();
        default:
            return f.template operator()<Bits128>();
    }
}

}  // namespace weft
