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
///
/// Note [Float8]
/// The float8 dtypes are for storage: ops move and convert them. Those that compute refuse them
/// (ops/widen.cpp), but where they are asked for a result in another dtype that they compute in, and
/// where the record says `.float8()`.
#pragma once
#include <array>
#include <complex>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "kernels/float8.h"
#include "kernels/half.h"

namespace weft {

using kernels::BFloat16;
using kernels::ComplexHalf;
using kernels::Half;

/// X(enumerator, C++ type, name, what messages that programs know from PyTorch call it, category,
/// letter of the buffer protocol). The lists are in the
/// order of the enumerators; a narrow dtype has kNarrowBit.
#define WEFT_REAL_DTYPES(X)                                                                        \
    X(Bool, bool, "bool", "Bool", Bool, "?")                                                       \
    X(Int64, int64_t, "int64", "Long", Integer, "q")                                               \
    X(Float32, float, "float32", "Float", Floating, "f")                                           \
    X(Float64, double, "float64", "Double", Floating, "d")
#define WEFT_COMPLEX_DTYPES(X)                                                                     \
    X(Complex64, std::complex<float>, "complex64", "ComplexFloat", Complex, "Zf")                  \
    X(Complex128, std::complex<double>, "complex128", "ComplexDouble", Complex, "Zd")
#define WEFT_NARROW_DTYPES(X)                                                                      \
    X(UInt8, uint8_t, "uint8", "Byte", Integer, "B")                                               \
    X(Int8, int8_t, "int8", "Char", Integer, "b")                                                  \
    X(Int16, int16_t, "int16", "Short", Integer, "h")                                              \
    X(Int32, int32_t, "int32", "Int", Integer, "i")                                                \
    X(Float16, Half, "float16", "Half", Floating, "e")                                             \
    X(BFloat16, kernels::BFloat16, "bfloat16", "BFloat16", Floating, "")                           \
    X(UInt16, uint16_t, "uint16", "UInt16", Integer, "H")                                          \
    X(UInt32, uint32_t, "uint32", "UInt32", Integer, "I")                                          \
    X(UInt64, uint64_t, "uint64", "UInt64", Integer, "Q")                                          \
    X(Complex32, ComplexHalf, "complex32", "ComplexHalf", Complex, "")
#define WEFT_FLOAT8_DTYPES(X)                                                                      \
    X(Float8E4M3FN, kernels::Float8E4M3FN, "float8_e4m3fn", "Float8_e4m3fn", Floating, "")         \
    X(Float8E4M3FNUZ, kernels::Float8E4M3FNUZ, "float8_e4m3fnuz", "Float8_e4m3fnuz", Floating, "") \
    X(Float8E5M2, kernels::Float8E5M2, "float8_e5m2", "Float8_e5m2", Floating, "")                 \
    X(Float8E5M2FNUZ, kernels::Float8E5M2FNUZ, "float8_e5m2fnuz", "Float8_e5m2fnuz", Floating, "") \
    X(Float8E8M0FNU, kernels::Float8E8M0FNU, "float8_e8m0fnu", "Float8_e8m0fnu", Floating, "")
/// Those that ops compute in (Note [Float8]).
#define WEFT_COMPUTED_DTYPES(X) WEFT_REAL_DTYPES(X) WEFT_COMPLEX_DTYPES(X) WEFT_NARROW_DTYPES(X)
#define WEFT_DTYPES(X) WEFT_COMPUTED_DTYPES(X) WEFT_FLOAT8_DTYPES(X)

/// In the order of promotion: a higher category wins.
enum class Category : uint8_t { Bool, Integer, Floating, Complex };

inline constexpr uint8_t kNarrowBit = 8;

enum class DType : uint8_t {
    Bool,
    Int64,
    Float32,
    Float64,
    Complex64,
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
    Complex32,
    Float8E4M3FN,
    Float8E4M3FNUZ,
    Float8E5M2,
    Float8E5M2FNUZ,
    Float8E8M0FNU,
};

/// Enumerators lie below it; not every number below it is one.
inline constexpr int kDTypeCount = 31;
inline constexpr DType kDTypes[] = {
#define X(id, type, name, scalar, category, letter) DType::id,
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
#define X(id, type, name, scalar, category, letter)                                                \
    table[static_cast<int>(DType::id)] = {name, sizeof(type), Category::category, letter};
    WEFT_DTYPES(X)
#undef X
    return table;
}();

inline constexpr auto kScalarNames = [] {
    std::array<std::string_view, kDTypeCount> table{};
#define X(id, type, name, scalar, category, letter) table[static_cast<int>(DType::id)] = scalar;
    WEFT_DTYPES(X)
#undef X
    return table;
}();

constexpr const DTypeInfo& info(DType t) { return kDTypeInfo[static_cast<uint8_t>(t)]; }
constexpr int item_size(DType t) { return info(t).size; }
constexpr std::string_view name(DType t) { return info(t).name; }
/// What messages that programs know from PyTorch call it: "Float" of float32, "Long" of int64.
constexpr std::string_view scalar_name(DType t) { return kScalarNames[static_cast<uint8_t>(t)]; }
/// "torch.FloatTensor" of float32.
inline std::string tensor_type_name(DType t) {
    return "torch." + std::string(scalar_name(t)) + "Tensor";
}
constexpr Category category(DType t) { return info(t).category; }
constexpr bool is_floating(DType t) { return category(t) == Category::Floating; }
constexpr bool is_complex(DType t) {
    constexpr uint32_t complex = 1u << static_cast<int>(DType::Complex64) |
                                 1u << static_cast<int>(DType::Complex128) |
                                 1u << static_cast<int>(DType::Complex32);
    return complex >> static_cast<uint8_t>(t) & 1;
}
/// Floating or complex.
constexpr bool is_inexact(DType t) { return category(t) >= Category::Floating; }
constexpr bool is_narrow(DType t) { return static_cast<uint8_t>(t) & kNarrowBit; }
/// uint16, uint32 or uint64, which promote to floating dtypes alone, as PyTorch's.
constexpr bool is_wide_unsigned(DType t) { return t >= DType::UInt16 && t <= DType::UInt64; }
/// A float of 8 bits (Note [Float8]).
constexpr bool is_float8(DType t) { return t >= DType::Float8E4M3FN; }
constexpr bool is_unsigned(DType t) { return t == DType::UInt8 || is_wide_unsigned(t); }

/// The dtype in which kernels compute for `t`.
constexpr DType widened(DType t) {
    if (!is_narrow(t)) return t;
    return is_floating(t) ? DType::Float32 : is_complex(t) ? DType::Complex64 : DType::Int64;
}
/// float32 or float64.
constexpr bool is_wide_floating(DType t) { return is_floating(t) && !is_narrow(t); }
/// The dtype of real and imaginary part; `t` itself if it is real.
constexpr DType real_dtype(DType t) {
    return t == DType::Complex64    ? DType::Float32
           : t == DType::Complex128 ? DType::Float64
           : t == DType::Complex32  ? DType::Float16
                                    : t;
}
/// The complex dtype whose parts hold a floating `t`.
constexpr DType complex_dtype(DType t) {
    if (t == DType::Float64 || t == DType::Complex128) return DType::Complex128;
    return t == DType::Float16 || t == DType::Complex32 ? DType::Complex32 : DType::Complex64;
}

template <class T>
struct DTypeOf;
#define X(id, type, name, scalar, category, letter)                                                \
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
    if (is_float8(a) || is_float8(b)) return kNoDType;
    if (is_wide_unsigned(a) || is_wide_unsigned(b)) return is_floating(a) ? a : kNoDType;
    if (is_complex(a)) return complex_dtype(promote_slowly(real_dtype(a), real_dtype(b)));
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
    const bool float8 = is_float8(a) || is_float8(b);
    fail(ErrorKind::Runtime, "promote_types", "dtypes with a common one",
         text(name(a), " and ", name(b), " (Promotion for ",
              float8 ? "Float8 Types" : "uint16, uint32, uint64 types",
              " is not supported, attempted to promote ", scalar_name(a), " and ", scalar_name(b),
              ")"),
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

/// For a dtype that the op does not compute, in the words that programs know.
[[noreturn]] inline void fail_not_implemented(std::string_view op, DType got) {
    fail(ErrorKind::NotImplemented, op, "a dtype that it computes",
         text(name(got), " (\"", op, "_cpu\" not implemented for '", scalar_name(got), "')"),
         "convert with .to(dtype) first");
}

/// Calls `f.template operator()<T>()` with the C++ type of `t`, a wide one (Note [Narrow dtypes]);
/// `op` names the caller in the error.
template <class Set, class F>
auto dispatch(DType t, std::string_view op, F&& f) {
    switch (t) {
#define X(id, type, name, scalar, category, letter)                                                \
    case DType::id:                                                                                \
        if constexpr (Set::has(DType::id)) return f.template operator()<type>();                   \
        break;
        WEFT_REAL_DTYPES(X)
#undef X
#define X(id, type, name, scalar, category, letter)                                                \
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

/// The same for every dtype: for short code that moves or converts.
template <class F>
auto dispatch_each(DType t, F&& f) {
    switch (t) {
#define X(id, type, name, scalar, category, letter)                                                \
    case DType::id:                                                                                \
        return f.template operator()<type>();
        WEFT_DTYPES(X)
#undef X
    }
    __builtin_unreachable();
}

/// The same for every dtype that ops compute in; `op` names the caller in the error for the others.
template <class F>
auto dispatch_computed(DType t, std::string_view op, F&& f) {
    switch (t) {
#define X(id, type, name, scalar, category, letter)                                                \
    case DType::id:                                                                                \
        return f.template operator()<type>();
        WEFT_COMPUTED_DTYPES(X)
#undef X
        default:
            fail_not_implemented(op, t);
    }
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
