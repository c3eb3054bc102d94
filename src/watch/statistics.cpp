#include "watch/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace weft::watch {
namespace {

/// Where element `i`, counted row by row, lies from the first one.
int64_t place_of(const Tensor& t, int64_t i) {
    int64_t at = 0;
    for (int d = t.ndim() - 1; d >= 0; --d) {
        at += i % t.size(d) * t.stride(d);
        i /= t.size(d);
    }
    return at;
}

struct Sums {
    double sum = 0, squares = 0, least = INFINITY, most = -INFINITY;
    uint32_t finite = 0, nans = 0, infs = 0;

    void add(double x) {
        if (std::isfinite(x)) {
            ++finite;
            sum += x;
            squares += x * x;
            least = std::min(least, x);
            most = std::max(most, x);
        } else {
            ++(std::isnan(x) ? nans : infs);
        }
    }
};

template <class T>
Sums sums_of(const Tensor& t, int64_t step) {
    Sums sums;
    const T* data = t.data<T>();
    const bool contiguous = t.contiguous();
    for (int64_t i = 0; i < t.numel(); i += step)
        sums.add(static_cast<float>(data[contiguous ? i : place_of(t, i)]));
    return sums;
}
template <>
Sums sums_of<double>(const Tensor& t, int64_t step) {
    Sums sums;
    for (int64_t i = 0; i < t.numel(); i += step)
        sums.add(t.data<double>()[t.contiguous() ? i : place_of(t, i)]);
    return sums;
}

}  // namespace

Statistics statistics_of(const Tensor& t, int32_t value, int64_t sample) {
    Statistics out{.value = value};
    int64_t step = std::max<int64_t>(1, (t.numel() + sample - 1) / sample);
    while (t.numel() > 1 && std::gcd(step, t.numel()) != 1) ++step;  // no column alone
    Sums sums;
    switch (t.dtype()) {
        case DType::Float32:
            sums = sums_of<float>(t, step);
            break;
        case DType::Float64:
            sums = sums_of<double>(t, step);
            break;
        case DType::Float16:
            sums = sums_of<Half>(t, step);
            break;
        case DType::BFloat16:
            sums = sums_of<BFloat16>(t, step);
            break;
        default:
            return out;
    }
    out.counted = sums.finite + sums.nans + sums.infs;
    out.nans = sums.nans;
    out.infs = sums.infs;
    out.mean = out.std = out.least = out.most = NAN;
    if (sums.finite == 0) return out;
    out.mean = sums.sum / sums.finite;
    out.std = std::sqrt(std::max(0.0, sums.squares / sums.finite - out.mean * out.mean));
    out.least = sums.least;
    out.most = sums.most;
    return out;
}

}  // namespace weft::watch
