#pragma once
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace weft::python {

/// The suffixes of a repr that tell of a tensor's elements: how many are nan or infinite, if any are;
/// of the finite ones the range, the mean and the standard deviation (as Tensor.std has it), of complex
/// ones those of their magnitudes; of bools how many are true. None for less than two elements.
std::vector<std::string> summary_of(const Tensor& t);

}  // namespace weft::python
