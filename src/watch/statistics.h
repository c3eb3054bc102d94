/// What the numbers in a tensor are like.
#pragma once
#include "tensor/tensor.h"

namespace weft::watch {

struct Statistics {
    int32_t value;  ///< whose: a number of the asker's
    uint32_t counted = 0, nans = 0, infs = 0;
    double mean = 0, std = 0, least = 0,
           most = 0;  ///< of the finite ones; std divides by their number
};

/// Of about `sample` elements at most, in runs at equal distances; of none if the dtype is not floating.
Statistics statistics_of(const Tensor& t, int32_t value, int64_t sample);

struct Extremes {
    bool nan = false, inf = false;
};
/// Of all elements; neither if the dtype is not floating or complex.
Extremes extremes_of(const Tensor& t);
/// The root of the sum of the squares of all elements' absolute values; 0 for other dtypes.
double norm_of(const Tensor& t);

}  // namespace weft::watch
