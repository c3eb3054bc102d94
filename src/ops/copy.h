/// Copies values between tensors of any layout and dtype. Below the door: not recorded, no version.
#pragma once
#include <string_view>

#include "tensor/tensor.h"

namespace weft::ops {

/// dest[...] = source[...], source broadcast to dest's shape (which must be possible).
void copy_into(const Tensor& dest, const Tensor& source);
/// Throws NotImplemented: a meta tensor has no values that could be copied.
[[noreturn]] void fail_copying_out(std::string_view who);
/// `t` as a contiguous tensor of `dtype`: `t` itself if it is one.
Tensor as_contiguous(const Tensor& t, DType dtype);
inline Tensor as_contiguous(const Tensor& t) {
    return t.contiguous() ? t : as_contiguous(t, t.dtype());
}
/// The same for an optional input, which may be undefined.
inline Tensor dense(const Tensor& t) { return t.defined() ? as_contiguous(t) : t; }

/// `t` in another dtype, in the same memory order.
Tensor as_dtype(const Tensor& t, DType dtype);

}  // namespace weft::ops
