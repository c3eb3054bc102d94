/// Counts of successes, drawn as PyTorch draws them.
#pragma once
#include <cstdint>

#include "kernels/random.h"

namespace weft::kernels {

/// binomial: out[i] is how many of counts[i] trials succeed, each with probability probs[i]; nan where
/// that is nan. T is float or double.
template <class T>
void binomial(Generator& generator, T* out, const T* counts, const T* probs, int64_t n);

}  // namespace weft::kernels
