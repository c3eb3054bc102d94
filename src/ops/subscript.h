/// t[key] and t[key] = value: basic indexing makes views one after the other, tensors in the key are gathered in
/// one op.
#pragma once
#include <span>

#include "ops/value.h"

namespace weft::ops {

/// An item of a key.
struct Subscript {
    enum class Kind : uint8_t {
        Int,
        Slice,
        NewAxis,
        Ellipsis,
        Flag,   ///< True or False, or a 0-d mask: a new dimension of size 1 or 0
        Index,  ///< a tensor of positions, or a mask
    } kind = Kind::Ellipsis;
    int64_t number = 0;  ///< Int: the position; Slice: the step; Flag: 0 or 1
    Value start, stop;
    Tensor index;
};

/// Whether a tensor in a key is a mask.
inline bool is_mask(const Tensor& t) {
    return t.dtype() == DType::Bool || t.dtype() == DType::UInt8;
}

/// Throws Index and Value as PyTorch does.
Tensor get_subscript(const Tensor& t, std::span<const Subscript> key);
/// t[index].
Tensor get_row(const Tensor& t, int64_t index);
/// `value` is broadcast to what the key names, and converted.
void set_subscript(const Tensor& t, std::span<const Subscript> key, Tensor value);

}  // namespace weft::ops
