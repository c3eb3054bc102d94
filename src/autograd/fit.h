/// Gradients as the engine passes them on: rules neither sum, nor cast, nor validate.
#pragma once
#include "autograd/node.h"

namespace weft {

namespace detail {
Tensor fit_slow(const Node& from, const ResultInfo& want, Tensor t, int i);
}

/// The gradient `t` as the receiving output wants it: summed over what was broadcast, cast.
/// `from` made it for its edge `i`; -1: the user gave it. Throws Runtime if the shapes do not fit.
inline Tensor fit(const Node& from, const ResultInfo& want, Tensor t, int i) {
    if (want.describes(t)) [[likely]]
        return t;
    return detail::fit_slow(from, want, std::move(t), i);
}

}  // namespace weft
