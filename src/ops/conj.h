/// The conjugate in gradient rules: free for real tensors.
#pragma once
#include "ops/functions.h"

namespace weft::ops {

inline const Function make_conj{"_conj"};
/// The complex conjugate of `t`; a real tensor itself.
inline Tensor conj(const Tensor& t) { return is_complex(t.dtype()) ? make_conj(t) : t; }
/// t times the conjugate of a number.
inline Tensor times_conj(const Tensor& t, const Value& v) {
    if (v.kind() != Value::Kind::Complex) return t * v.as_double();
    return t * Tensor::scalar(std::conj(v.as_complex()), DType::Complex128, true);
}

/// Real and imaginary parts of a complex tensor as a last dimension, over the same memory. (Below
/// the door: not recorded.)
inline Tensor parts_of(const Tensor& t) {
    Dims shape(t.shape()), strides(t.strides());
    for (int d = 0; d < t.ndim(); ++d) strides[d] *= 2;
    shape.push_back(2);
    strides.push_back(1);
    return Tensor::from_storage(t.storage(), t.bytes(), real_dtype(t.dtype()), shape, strides);
}
/// One of them.
inline Tensor part_of(const Tensor& t, int which) {
    Tensor parts = parts_of(t);
    return parts.view_as(t.shape(), parts.strides().first(t.ndim()), which);
}

/// dispatch<ComplexTypes>: the two complex dtypes alone.
struct ComplexTypes {
    static constexpr bool has(DType t) { return is_complex(t); }
    static constexpr bool complex = true;
    static constexpr std::string_view text = "a complex dtype";
};

}  // namespace weft::ops
