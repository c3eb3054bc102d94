/// What the normalisations share.
///
/// Note [Mixed normalisation]
/// A float16 or bfloat16 input may come with float32 parameters (weight, bias, running statistics), as
/// layers that stay in float32 in a narrow model: the result is narrow, the statistics and the
/// parameters' gradients are float32.
#pragma once
#include "ops/functions.h"

namespace weft::ops {

/// The dtype of the statistics: that of the parameters `c.in[first..last]`, the input's without any.
/// Throws Runtime for dtypes that do not go together.
inline DType statistics_dtype(const Call& c, std::string_view who, int first, int last) {
    const DType x = c.in[0].dtype();
    const Tensor* seen = nullptr;
    for (int i = first; i <= last; ++i) {
        const Tensor& p = c.in[i];
        if (!p.defined()) continue;
        const bool mixed = is_narrow(x) && p.dtype() == DType::Float32;
        WEFT_EXPECT((p.dtype() == x || mixed) && (!seen || seen->dtype() == p.dtype()), Runtime,
                    who,
                    text("parameters of the input's dtype ", name(x),
                         is_narrow(x) ? ", or all of float32" : ""),
                    name(p.dtype()), "mixed dtypes: convert with .to(dtype)");
        seen = &p;
    }
    return seen ? seen->dtype() : x;
}

/// Which gradients a backward makes: bits of its attribute `wanted`.
enum Wanted { kInput = 1, kWeight = 2, kBias = 4 };

/// a + b, where a may be none.
inline Tensor plus(const Tensor& a, const Tensor& b) { return a.defined() ? a + b : b; }

}  // namespace weft::ops
