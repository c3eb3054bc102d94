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

/// Of `sample` elements at most, at equal distances; of none if the dtype is not floating.
Statistics statistics_of(const Tensor& t, int32_t value, int64_t sample);

}  // namespace weft::watch
