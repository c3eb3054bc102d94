/// Tensors where programs want numbers: what both front ends (python, native) answer, in PyTorch's words.
#pragma once
#include "ops/value.h"

namespace weft::ops {

/// bool(t). Throws Runtime unless it has one element.
bool truth_of(const Tensor& t);
/// Of int(t) and float(t): throws unless it has one element, which is real.
void expect_one(const Tensor& t, const char* who);
/// Of t.__index__(): throws Type unless it has one element, an integer.
void expect_index(const Tensor& t);
/// Of len(t). Throws Type if it has no dimensions.
inline int64_t length_of(const Tensor& t) {
    WEFT_EXPECT(t.ndim() > 0, Type, "len", "a tensor with dimensions",
                "none (len() of a 0-d tensor)");
    return t.size(0);
}
/// Of iter(t): throws Type if it has no dimensions.
void expect_rows(const Tensor& t);
/// Of t[int]: throws Index if it has no dimensions.
inline void expect_indexed(const Tensor& t) {
    WEFT_EXPECT(t.ndim() > 0, Index, "index", "a tensor with dimensions",
                "a 0-d tensor (invalid index of a 0-dim tensor)", "use tensor.item()");
}
/// Of ~t: throws Type for floating and complex dtypes.
void expect_bits(const Tensor& t);
/// Of `t[key] = number`: throws Runtime if the number, as a tensor, does not fit. Beyond a half's range it
/// becomes infinite.
void expect_assignable(const Tensor& number, const Tensor& t);

/// Whether its element stands for an int, where sizes and positions are asked for.
inline bool is_whole(const Tensor& t) {
    return t.ndim() == 0 && !is_inexact(t.dtype()) && t.dtype() != DType::Bool;
}
/// Its element as an attribute.
Value number_in(const Tensor& t);

}  // namespace weft::ops
