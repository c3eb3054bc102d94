/// Gradients as the engine passes them on: rules neither sum, nor cast, nor validate.
#pragma once
#include "autograd/node.h"

namespace weft {

namespace detail {
void fit_slow(const Node& from, const ResultInfo& want, Tensor& t, int i);
}

/// Makes the gradient `t` what the receiving output wants: summed over what was broadcast, cast.
/// `from` made it for its edge `i`; -1: the user gave it. Throws Runtime if the shapes do not fit.
inline void fit(const Node& from, const ResultInfo& want, Tensor& t, int i) {
    if (!want.describes(t)) [[unlikely]]
        detail::fit_slow(from, want, t, i);
}

}  // namespace weft
