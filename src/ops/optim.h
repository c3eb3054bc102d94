/// Optimizer steps over one parameter, each one pass over its memory.
///
/// Updates happen below the graph, as PyTorch's do under no_grad: the caller raises versions.
#pragma once
#include "tensor/tensor.h"

namespace weft::ops {

struct SgdOptions {
    double lr, momentum, dampening, weight_decay;
    bool nesterov, maximize;
};
/// `momentum` is undefined without momentum; `first`: it takes the gradient as it is.
void sgd_step(const Tensor& param, const Tensor& grad, const Tensor& momentum, bool first,
              const SgdOptions& o);

struct AdamOptions {
    double lr, beta1, beta2, eps, weight_decay;
    bool decoupled;  ///< AdamW (Loshchilov & Hutter 2019): decay the parameter, not the gradient
    bool amsgrad, maximize;
};
/// One step of Adam (Kingma & Ba 2015); `step` counts from 1. `largest` is undefined without amsgrad.
void adam_step(const Tensor& param, const Tensor& grad, const Tensor& mean, const Tensor& square,
               const Tensor& largest, double step, const AdamOptions& o);

}  // namespace weft::ops
