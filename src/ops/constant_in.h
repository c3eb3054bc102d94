/// Gradients that are constant in an input, piece by piece.
#pragma once
#include "ops/call.h"
#include "ops/functions.h"

namespace weft::ops {

/// `gradient`, a number per piece of `x`, where a rule knows nothing to say of its derivative to
/// `x`. That is 0, but where the graph of gradients is wanted it exists: a penalty on gradients may
/// have nothing else to go back to.
inline Tensor constant_in(const Tensor& gradient, const Tensor& x) {
    static const Function op{"_constant_in"};
    bool wanted = (mode & kGradMode) && !hooks.requires_grad(gradient) && hooks.requires_grad(x);
    return wanted ? op(gradient, x) : gradient;
}

}  // namespace weft::ops
