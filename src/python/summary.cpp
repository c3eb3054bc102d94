/// What a repr says of a tensor's elements with `set_printoptions(summary=True)`.
#include "python/summary.h"

#include <cmath>
#include <cstdio>

#include "ops/functions.h"
#include "watch/statistics.h"

namespace weft::python {
namespace {

std::string number(double x, int digits = 4) {
    char text[32];
    std::snprintf(text, sizeof text, "%.*g", digits, x);
    return text;
}

int64_t count_true(const Tensor& t) {
    const Tensor dense = ops::to(t, DType::Float64);
    int64_t count = 0;
    for (int64_t i = 0; i < dense.numel(); ++i) count += dense.data<double>()[i] != 0;
    return count;
}

}  // namespace

std::vector<std::string> summary_of(const Tensor& t) {
    if (t.numel() < 2) return {};
    ModeGuard quiet(0, kGradMode | kDeferMode | kWatchMode);
    if (t.dtype() == DType::Bool) return {text("true=", count_true(t), "/", t.numel())};
    static const ops::Function abs{"abs"};
    const bool complex = is_complex(t.dtype());
    Tensor values = complex ? abs(t) : t;
    if (!is_wide_floating(values.dtype()) || !values.contiguous())
        values = ops::to(values, DType::Float64);
    const watch::Statistics s = watch::statistics_of(values, 0, values.numel());
    std::vector<std::string> out;
    if (s.nans) out.push_back(text("nan=", s.nans));
    if (s.infs) out.push_back(text("inf=", s.infs));
    const double finite = s.counted - s.nans - s.infs;
    if (finite == 0) return out;
    out.push_back(
        text(complex ? "abs=[" : "range=[", number(s.least, 6), ", ", number(s.most, 6), "]"));
    out.push_back(text("mean=", number(s.mean)));
    if (finite > 1) out.push_back(text("std=", number(s.std * std::sqrt(finite / (finite - 1)))));
    return out;
}

}  // namespace weft::python
