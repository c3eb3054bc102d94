#include "tensor/dlpack.h"

#include <algorithm>

namespace weft {
namespace {

enum Code : uint8_t {
    kInt,
    kUInt,
    kFloat,
    kBFloat = 4,
    kComplex,
    kBool,
    kFloat8 = 10,  ///< and those behind it, in the order of DType
};

constexpr Code code_of(DType t) {
    if (t == DType::Bool) return kBool;
    if (is_unsigned(t)) return kUInt;
    if (t == DType::BFloat16) return kBFloat;
    if (is_float8(t))
        return static_cast<Code>(kFloat8 + static_cast<int>(t) -
                                 static_cast<int>(DType::Float8E4M3FN));
    return is_complex(t) ? kComplex : is_floating(t) ? kFloat : kInt;
}

DType dtype_named_by(std::string_view who, DlpackType d) {
    for (DType t : kDTypes)
        if (dlpack_type(t) == d) return t;
    if (d == DlpackType{kUInt, 1, 1}) return DType::Bool;
    fail(ErrorKind::Runtime, who, "an array of a dtype that weft has",
         text("DLPack type code ", int{d.code}, " of ", int{d.bits}, " bits, ", d.lanes, " lanes"));
}

}  // namespace

constinit const std::array<DlpackType, kDTypeCount> detail::dlpack_types = [] {
    std::array<DlpackType, kDTypeCount> types{};
    for (DType t : kDTypes)
        types[static_cast<size_t>(t)] = {code_of(t), static_cast<uint8_t>(8 * item_size(t)), 1};
    return types;
}();

DlpackLayout::DlpackLayout(std::string_view who, DlpackType type, int32_t ndim,
                           const int64_t* sizes, const int64_t* steps)
    : dtype(dtype_named_by(who, type)) {
    WEFT_EXPECT(ndim >= 0 && ndim <= kMaxDims, Runtime, who, "at most 64 dimensions",
                std::to_string(ndim));
    WEFT_EXPECT(sizes || ndim == 0, Runtime, who, "a shape", "null");
    shape = Dims(DimSpan(sizes, static_cast<size_t>(ndim)));
    strides = shape;
    int64_t count = 1, last = 0;
    bool fits = true, counts = true;
    for (int i = ndim - 1; i >= 0; --i) {
        const int64_t n = sizes[i];
        WEFT_EXPECT(n >= 0, Runtime, who, "sizes of at least 0", to_string(shape));
        WEFT_EXPECT(!steps || steps[i] >= 0 || n <= 1, Runtime, who, "strides of at least 0",
                    text(steps[i], " at dimension ", i), "copy the array first");
        strides[i] = steps && steps[i] >= 0 ? steps[i] : count;
        counts &= !__builtin_mul_overflow(count, n > 1 ? n : 1, &count);
        int64_t step;
        fits &= !__builtin_mul_overflow(n - 1, strides[i], &step) &&
                !__builtin_add_overflow(last, step, &last);
    }
    if (!counts) [[unlikely]] {
        count_elements(who, shape);  // throws, or a size is 0
        contiguous_strides(shape);
    }
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;  // no bytes
    fits &= !__builtin_mul_overflow(last, item_size(dtype), &bytes) &&
            !__builtin_add_overflow(bytes, item_size(dtype), &bytes);
    WEFT_EXPECT(fits, Runtime, who, "fewer than 2^63 bytes", "strides " + to_string(strides));
}

}  // namespace weft
