/// Element types. Another dtype is one line in WEFT_DTYPES (and its printing, if it is new there).
#pragma once
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace weft {

/// X(enumerator, C++ type, name, category, letter of the buffer protocol)
#define WEFT_DTYPES(X)                                \
    X(Bool, bool, "bool", Bool, "?")                  \
    X(Int64, int64_t, "int64", Integer, "q")          \
    X(Float32, float, "float32", Floating, "f")       \
    X(Float64, double, "float64", Floating, "d")

/// In the order of promotion: a higher category wins, within one the later line wins.
enum class Category : uint8_t { Bool, Integer, Floating };

enum class DType : uint8_t {
#define X(id, type, name, category, letter) id,
    WEFT_DTYPES(X)
#undef X
};

inline constexpr int kDTypeCount = 0
#define X(id, type, name, category, letter) +1
    WEFT_DTYPES(X)
#undef X
    ;

struct DTypeInfo {
    std::string_view name;
    uint8_t size;
    Category category;
    const char* letter;
};

inline constexpr DTypeInfo kDTypeInfo[kDTypeCount] = {
#define X(id, type, name, category, letter) {name, sizeof(type), Category::category, letter},
    WEFT_DTYPES(X)
#undef X
};

constexpr const DTypeInfo& info(DType t) { return kDTypeInfo[static_cast<int>(t)]; }
constexpr int item_size(DType t) { return info(t).size; }
constexpr std::string_view name(DType t) { return info(t).name; }
constexpr Category category(DType t) { return info(t).category; }
constexpr bool is_floating(DType t) { return category(t) == Category::Floating; }

template <class T>
struct DTypeOf;
#define X(id, type, name, category, letter)                \
    template <>                                            \
    struct DTypeOf<type> {                                 \
        static constexpr DType value = DType::id;          \
    };
WEFT_DTYPES(X)
#undef X
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

/// The dtype both convert to (PyTorch's promotion for two tensors of the same rank class).
constexpr DType promote(DType a, DType b) {
    if (a == b) return a;
    if (category(a) != category(b)) return category(a) > category(b) ? a : b;
    return a > b ? a : b;
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
    static constexpr bool has(DType t) { return !is_floating(t); }
    static constexpr std::string_view text = "an integer or bool dtype";
};

[[noreturn]] inline void fail_dtype(std::string_view op, std::string_view expected, DType got) {
    fail(ErrorKind::Runtime, op, text("a tensor of ", expected), name(got),
         "convert with .to(dtype) first");
}

/// Calls `f.template operator()<T>()` with the C++ type of `t`; `op` names the caller in the error.
template <class Set, class F>
auto dispatch(DType t, std::string_view op, F&& f) {
    switch (t) {
#define X(id, type, name, category, letter)               \
    case DType::id:                                       \
        if constexpr (Set::has(DType::id)) return f.template operator()<type>(); \
        break;
        WEFT_DTYPES(X)
#undef X
    }
    if constexpr (std::is_same_v<Set, AllTypes>) __builtin_unreachable();
    fail_dtype(op, Set::text, t);
}

}  // namespace weft
