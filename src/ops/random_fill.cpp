/// Writes random numbers over a tensor: x.uniform_() and its kin.
#include "kernels/convert.h"
#include "ops/draw.h"
#include "ops/limits.h"

namespace weft {
namespace {

using namespace ops;

void uniform_kernel(Call& c) {
    double from = c.attr(0).as_double(), to = c.attr(1).as_double();
    WEFT_EXPECT(from <= to, Runtime, c.name(), "a [from, to) range",
                text("from=", from, " > to=", to));
    draw_uniform(c, from, to);
}

/// PyTorch draws a contiguous tensor in blocks, any other one by one.
void normal_fill_kernel(Call& c) {
    double mean = c.attr(0).as_double(), std = c.attr(1).as_double();
    require_std(c, std);
    draw_normal(c, mean, std, c.in[0].contiguous());
}

void exponential_kernel(Call& c) {
    double rate = c.attr(0).as_double();
    WEFT_EXPECT(rate > 0, Runtime, c.name(), "lambda > 0.0", text("lambda=", rate));
    WEFT_EXPECT(is_floating(c.out(0).dtype()), Runtime, c.name(),
                "a floating dtype (a continuous distribution)", name(c.out(0).dtype()));
    draw_real(c, [&](auto* out, int64_t n) { kernels::exponential(generator(), out, n, rate); });
}

void cauchy_kernel(Call& c) {
    double median = c.attr(0).as_double(), sigma = c.attr(1).as_double();
    WEFT_EXPECT(sigma > 0, Runtime, c.name(), "sigma > 0.0", text("sigma=", sigma));
    draw_real(c,
              [&](auto* out, int64_t n) { kernels::cauchy(generator(), out, n, median, sigma); });
}

void log_normal_kernel(Call& c) {
    double mean = c.attr(0).as_double(), std = c.attr(1).as_double();
    WEFT_EXPECT(std > 0, Runtime, c.name(), "std > 0.0", text("std=", std));
    draw_real(c,
              [&](auto* out, int64_t n) { kernels::log_normal(generator(), out, n, mean, std); });
}

void random_kernel(Call& c) {
    draw_dense(c, [&](const Tensor& t) {
        dispatch_computed(t.dtype(), c.name(), [&]<class T>() {
            if constexpr (kernels::is_half<T>) {
                uint64_t range = (uint64_t{1} << digits_of(t.dtype())) + 1;
                draw_as(t, DType::Int64, [&](const Tensor& wide) {
                    kernels::random_in_range(generator(), wide.data<int64_t>(), wide.numel(), range,
                                             0);
                });
            } else if constexpr (kernels::is_complex_v<T> || is_wide_unsigned(dtype_of<T>)) {
                fail_dtype(c.name(), AllTypes::text, t.dtype());
            } else {
                kernels::random_default(generator(), t.data<T>(), t.numel());
            }
        });
    });
}

/// random_(from, None): to the largest value of the dtype, that included.
void random_upwards(Call& c, int64_t from) {
    constexpr int64_t lowest = std::numeric_limits<int64_t>::min();
    draw_dense(c, [&](const Tensor& t) {
        DType dtype = t.dtype();
        int64_t low = from;
        int64_t last = is_floating(dtype) ? int64_t{1} << digits_of(dtype) : largest_of(dtype);
        if (is_floating(dtype)) low = kernels::float_from(from, digits_of(dtype));
        WEFT_EXPECT(low <= last, Runtime, c.name(),
                    "'from' to be at most the dtype's largest value", text(from));
        uint64_t range = static_cast<uint64_t>(last) - static_cast<uint64_t>(low) + 1;
        draw_as(t, is_narrow(dtype) ? DType::Int64 : dtype, [&](const Tensor& wide) {
            dispatch<AllTypes>(wide.dtype(), c.name(), [&]<class T>() {
                if constexpr (!std::is_same_v<T, bool>) {
                    if (from == lowest && !is_narrow(dtype))
                        return kernels::random_all_bits(generator(), wide.data<T>(), wide.numel());
                }
                kernels::random_in_range(generator(), wide.data<T>(), wide.numel(), range, low);
            });
        });
    });
}

void geometric_kernel(Call& c) {
    double p = c.attr(0).as_double();
    WEFT_EXPECT(p > 0 && p < 1, Runtime, c.name(), "p in (0, 1)", text("p=", p));
    draw_dense(c, [&](const Tensor& t) {
        draw_as(t, widened(t.dtype()), [&](const Tensor& wide) {
            dispatch<NumberTypes>(wide.dtype(), c.name(), [&]<class T>() {
                kernels::geometric(generator(), wide.data<T>(), wide.numel(), p);
            });
        });
    });
}

/// A record of x.name_(...) alone: the old values do not matter, so their gradient is zero.
OpBuilder fill_op(Table& t, std::string_view schema, void (*kernel)(Call&),
                  std::source_location where = std::source_location::current()) {
    return t.add(schema, where)
        .shape(self_shape)
        .kernel(kernel)
        .strided_output()
        .every_dtype()
        .random()
        .internal()
        .inplace()
        .grad(0, 0, no_influence);
}

}  // namespace

void register_random_fill(Table& t) {
    fill_op(t, "uniform(Tensor self, float from=0, float to=1) -> Tensor", uniform_kernel)
        .doc("uniform_ draws each element from [from, to).\n"
             ">>> x = weft.empty(2, 3).uniform_(1, 2)\n"
             ">>> bool((x >= 1).all() and (x < 2).all())\n"
             "True");
    fill_op(t, "normal.fill(Tensor self, float mean=0, float std=1) -> Tensor", normal_fill_kernel)
        .doc("normal_ draws each element from a normal distribution.\n"
             ">>> weft.empty(2, 3).normal_(0, 1).shape\n"
             "torch.Size([2, 3])");
    fill_op(t, "random(Tensor self) -> Tensor", random_kernel)
        .node_name("RandomBackward2")
        .doc("random_ draws integers from [0, the dtype's largest], or from [from, to).\n"
             ">>> weft.empty(2, 3).random_().shape\n"
             "torch.Size([2, 3])");
    fill_op(t, "random.to(Tensor self, int to) -> Tensor",
            [](Call& c) { draw_between(c, 0, c.attr(0).as_int()); })
        .node_name("RandomBackward1")
        .doc("random_ draws integers from [0, to).");
    fill_op(t, "random.from(Tensor self, int from, int? to) -> Tensor", [](Call& c) {
        if (c.attr(1).none()) random_upwards(c, c.attr(0).as_int());
        else draw_between(c, c.attr(0).as_int(), c.attr(1).as_int());
    }).doc("random_ draws integers from [from, to).");
    fill_op(t, "exponential(Tensor self, float lambd=1) -> Tensor", exponential_kernel)
        .doc("exponential_ draws from lambd * exp(-lambd * x).\n"
             ">>> bool((weft.empty(2, 3).exponential_() > 0).all())\n"
             "True");
    fill_op(t, "cauchy(Tensor self, float median=0, float sigma=1) -> Tensor", cauchy_kernel)
        .doc("cauchy_ draws from a Cauchy distribution.\n"
             ">>> weft.empty(2, 3).cauchy_().shape\n"
             "torch.Size([2, 3])");
    fill_op(t, "log_normal(Tensor self, float mean=1, float std=2) -> Tensor", log_normal_kernel)
        .doc("log_normal_ draws numbers whose logarithm is normal.\n"
             ">>> bool((weft.empty(2, 3).log_normal_() > 0).all())\n"
             "True");
    fill_op(t, "geometric(Tensor self, float p) -> Tensor", geometric_kernel)
        .doc("geometric_ draws the number of trials up to the first success.\n"
             ">>> bool((weft.empty(2, 3).geometric_(0.5) >= 1).all())\n"
             "True");
}

}  // namespace weft
