/// Floating-point operations of products, from the shapes of a call (`Op::flops`).
///
/// As PyTorch's `torch.utils.flop_counter` counts: a product and its sum are two, and what is not
/// made of products, a bias, an activation, a mask, is none. Counts that no int64 holds wrap round.
#pragma once
#include <initializer_list>

#include "ops/op.h"

namespace weft::ops {

/// Two for each element of a box of such sizes.
inline int64_t two_each(std::initializer_list<int64_t> sizes) {
    uint64_t n = 2;
    for (int64_t size : sizes) n *= static_cast<uint64_t>(size);
    return static_cast<int64_t>(n);
}

/// All elements of the result, each a sum over the last dim of input `i`.
template <int i = 0>
int64_t product_flops(const Call& c) {
    const Tensor& a = c.in[i];
    return two_each({c.out(0).numel(), a.size(a.ndim() - 1)});
}

/// The product of the sizes from dim `first` on.
inline int64_t places(const Tensor& t, int first) {
    uint64_t n = 1;
    for (int d = first; d < t.ndim(); ++d) n *= static_cast<uint64_t>(t.size(d));
    return static_cast<int64_t>(n);
}

}  // namespace weft::ops
