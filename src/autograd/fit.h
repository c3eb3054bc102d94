/// Gradients as the engine passes them on: rules neither sum, nor cast, nor validate.
#pragma once
#include "autograd/node.h"
#include "base/function_ref.h"

namespace weft {

/// Makes the gradient `t` one of that shape and dtype: summed over what was broadcast, cast. `from`
/// made it for its edge `i`; -1: the user gave it. Throws Runtime if the shapes do not fit.
void fit_to(FunctionRef<std::string()> from, DimSpan shape, DType dtype, Tensor& t, int i);

/// The same for what the receiving output wants.
inline void fit(const Node& from, const ResultInfo& want, Tensor& t, int i) {
    if (!want.describes(t)) [[unlikely]]
        fit_to([&] { return from.name(); }, want.shape(), want.dtype(), t, i);
}

}  // namespace weft
