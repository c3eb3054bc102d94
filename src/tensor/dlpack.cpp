#include "tensor/dlpack.h"

#include <algorithm>

namespace weft {
namespace {

enum Code : uint8_t { kInt, kUInt, kFloat, kBFloat = 4, kComplex, kBool };

Code code_of(DType t) {
    if (t == DType::Bool) return kBool;
    if (is_unsigned(t)) return kUInt;
    if (t == DType::BFloat16) return kBFloat;
    return is_complex(t) ? kComplex : is_floating(t) ? kFloat : kInt;
}

DType dtype_named_by(std::string_view who, DlpackType d) {
    for (DType t : kDTypes)
        if (d.lanes == 1 && d.code == code_of(t) && d.bits == 8 * item_size(t)) return t;
    if (d.lanes == 1 && d.code == kUInt && d.bits == 1) return DType::Bool;
    fail(ErrorKind::Runtime, who, "an array of a dtype that weft has",
         text("DLPack type code ", int{d.code}, " of ", int{d.bits}, " bits, ", d.lanes, " lanes"));
}

}  // namespace

DlpackType dlpack_type(DType t) { return {code_of(t), static_cast<uint8_t>(8 * item_size(t)), 1}; }

DlpackLayout::DlpackLayout(std::string_view who, DlpackType type, int32_t ndim,
                           const int64_t* sizes, const int64_t* steps)
    : dtype(dtype_named_by(who, type)) {
    WEFT_EXPECT(ndim >= 0 && ndim <= kMaxDims, Runtime, who, "at most 64 dimensions",
                std::to_string(ndim));
    WEFT_EXPECT(sizes || ndim == 0, Runtime, who, "a shape", "null");
    shape = Dims(DimSpan(sizes, static_cast<size_t>(ndim)));
    for (int64_t n : shape)
        WEFT_EXPECT(n >= 0, Runtime, who, "sizes of at least 0", to_string(shape));
    const int64_t count = count_elements(who, shape);
    strides = contiguous_strides(shape);
    int64_t last = 0;
    bool fits = true;
    for (int i = 0; steps && i < ndim; ++i) {
        WEFT_EXPECT(steps[i] >= 0 || shape[i] <= 1, Runtime, who, "strides of at least 0",
                    text(steps[i], " at dimension ", i), "copy the array first");
        if (steps[i] >= 0) strides[i] = steps[i];
    }
    for (int i = 0; count && i < ndim; ++i) {
        int64_t step;
        fits &= !__builtin_mul_overflow(shape[i] - 1, strides[i], &step) &&
                !__builtin_add_overflow(last, step, &last);
    }
    fits &= !__builtin_mul_overflow(last, item_size(dtype), &bytes) &&
            !__builtin_add_overflow(bytes, item_size(dtype), &bytes);
    WEFT_EXPECT(fits, Runtime, who, "fewer than 2^63 bytes", "strides " + to_string(strides));
    if (count == 0) bytes = 0;
}

}  // namespace weft
