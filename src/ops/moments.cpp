/// Variances, norms and logsumexp.
#include <cmath>
#include <limits>

#include "base/function_ref.h"
#include "ops/axes.h"
#include "ops/batch.h"
#include "ops/conj.h"
#include "ops/pointwise.h"

namespace weft {
namespace {

using namespace ops;
using kernels::Axis;

const Function vector_norm{"linalg_vector_norm"}, amin{"amin"}, is_finite{"isfinite"};
const Function var{"var"}, standard_deviation{"std"}, var_mean{"_var_mean"}, std_mean{"_std_mean"};

/// `t`, with 0 where `mask` holds.
Tensor zero_where(const Tensor& mask, const Tensor& t) {
    return where(mask, number(0, t.dtype()), t);
}
Tensor is_zero(const Tensor& t) { return eq(t, number(0, t.dtype())); }

/// a / b, with 0 where b is 0. The divisor is replaced, not the quotient, so that derivatives of
/// this are finite too.
Tensor divided(const Tensor& a, const Tensor& b) {
    Tensor zero = is_zero(b);
    return zero_where(zero, a) / where(zero, number(1, b.dtype()), b);
}

// ---- variance: attributes (dim, correction, keepdim) ----

double correction_of(const Value& correction) { return correction ? correction.as_double() : 1.0; }

void variance_shape(Call& c) {
    const Tensor& x = c.in[0];
    WEFT_EXPECT(
        is_inexact(x.dtype()), Runtime, c.name(), "another dtype",
        text(name(x.dtype()), " (std and var only support floating point and complex dtypes)"));
    DimMask mask = dim_mask(c.name(), c.attr(0), x.ndim());
    c.add(
        Tensor::layout(real_dtype(x.dtype()), reduced_shape(x.shape(), mask, c.attr(2).as_bool())));
}

/// The sum of the variances of both parts.
void complex_variance(Call& c, bool root) {
    ModeGuard no_graph(0, kGradMode);
    Tensor x = as_contiguous(c.in[0]), sum;
    for (int k = 0; k < 2; ++k) {
        Tensor part = var(part_of(x, k), c.attr(0), c.attr(1), c.attr(2));
        sum = sum.defined() ? sum + part : part;
    }
    copy_into(c.out(0), root ? sqrt(sum) : sum);
    if (c.outputs > 1) copy_into(c.out(1), mean_dim(x, c.attr(0), c.attr(2)));
}

/// The variance or its root, and with a second output the mean.
template <bool Root>
void variance_kernel(Call& c) {
    if (is_complex(c.in[0].dtype())) return complex_variance(c, Root);
    Folded f = fold(c.in[0], dim_mask(c.name(), c.attr(0), c.in[0].ndim()));
    const Tensor& out = c.out(0);
    Unlocked unlocked(f.x.numel());
    dispatch<FloatingTypes>(out.dtype(), c.name(), [&]<class T>() {
        T* y = out.data<T>();
        T* average = c.outputs > 1 ? c.out(1).data<T>() : nullptr;
        kernels::var<T>(f.x.data<T>(), average, y, correction_of(c.attr(1)), f.axis, Root);
    });
}

/// `d`, the gradient of the variance, times d(var)/dx = 2 (x - mean) / (n - correction).
Tensor variance_gradient(const Grad& g, const Tensor& d) {
    Dims shape = g.in_shape(0);
    Tensor x = g.in(0);
    auto n = static_cast<double>(count_over(shape, dim_mask("var", g.attr(0), shape.size())));
    double freedom = std::max(n - correction_of(g.attr(1)), 0.0);
    Tensor scaled = n == 0 ? d : d * (2 / freedom);
    Tensor apart = [&] {  // without freedom the gradient is no function of x
        ModeGuard constant(0, freedom > 0 ? 0 : uint32_t{kGradMode});
        return x - mean_dim(x, g.attr(0), true);
    }();
    return spread(scaled, g.attr(0), g.attr(2).as_bool(), shape) * apart;
}

Tensor deviation_gradient(const Grad& g) {
    return variance_gradient(g, divided(g.grad(), g.out(0) * 2.0));
}

void with_mean_shape(Call& c) {
    variance_shape(c);
    c.add(Tensor::layout(c.in[0].dtype(), c.out(0).shape()));
}
template <bool Root>
Tensor with_mean_gradient(const Grad& g) {
    Tensor d, mean = g.grad(1);
    if (g.grad(0).defined()) d = Root ? deviation_gradient(g) : variance_gradient(g, g.grad(0));
    if (!mean.defined()) return d;
    Dims shape = g.in_shape(0);
    auto n = static_cast<double>(count_over(shape, dim_mask("mean", g.attr(0), shape.size())));
    mean = spread(mean, g.attr(0), g.attr(2).as_bool(), shape) / n;
    return d.defined() ? d + mean : mean;
}

/// The result or results of a call with (dim, correction, keepdim).
using Moments = void (*)(Call&, const Value&, const Value&, const Value&);

void only_var(Call& c, const Value& dim, const Value& correction, const Value& keepdim) {
    c.add(var(c.in[0], dim, correction, keepdim));
}
void only_std(Call& c, const Value& dim, const Value& correction, const Value& keepdim) {
    c.add(standard_deviation(c.in[0], dim, correction, keepdim));
}
void var_and_mean(Call& c, const Value& dim, const Value& correction, const Value& keepdim) {
    for (Tensor& t : var_mean.all({c.in[0]}, {dim, correction, keepdim})) c.add(std::move(t));
}
void std_and_mean(Call& c, const Value& dim, const Value& correction, const Value& keepdim) {
    for (Tensor& t : std_mean.all({c.in[0]}, {dim, correction, keepdim})) c.add(std::move(t));
}

/// The older signatures, with a bool for the correction: 1 or 0.
template <Moments Run>
void add_unbiased(Table& t, const std::string& name, const std::string& result) {
    t.add(name + ".unbiased(Tensor self, bool unbiased) -> " + result)
        .doc("`unbiased` is correction=1, otherwise 0.")
        .body([](Call& c) { Run(c, Value(), c.attr(0).as_int(), false); })
        .batch(Batch::Body)
        .samples({"f(T(2, 3), False)", "f(T(5), unbiased=True)"});
    t.add(name + ".dim(Tensor self, int[]? dim, bool unbiased, bool keepdim=False) -> " + result)
        .doc("`unbiased` is correction=1, otherwise 0.")
        .body([](Call& c) { Run(c, c.attr(0), c.attr(1).as_int(), c.attr(2)); })
        .batch(Batch::Body)
        .samples({"f(T(2, 3), 0, False)", "f(T(2, 3), 1, True, keepdim=True)"});
}

template <Moments Run>
void add_with_mean(Table& t, const std::string& name) {
    t.add(name +
          "(Tensor self, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> "
          "(Tensor, Tensor)")
        .doc(text("The ", name.substr(0, 3),
                  " over `dim` (None or empty: all) and the mean, as a pair, both of self's\n"
                  "shape without `dim`, which has size 1 with `keepdim`.\n>>> weft.",
                  name, "(weft.tensor([1., 3.]), correction=0)\n(tensor(1.), tensor(2.))"))
        .body([](Call& c) { Run(c, c.attr(0), c.attr(1), c.attr(2)); })
        .batch(Batch::Body)
        .samples({"f(T(2, 3))", "f(T(4, 3), 0, correction=0, keepdim=True)"});
    add_unbiased<Run>(t, name, "(Tensor, Tensor)");
}

void register_variance(Table& t) {
    const std::vector<std::string> samples = {
        "f(T(2, 3))", "f(T(3, 4), 0)", "f(T(2, 3, 4), (0, 2), correction=0)",
        "f(T(5), dim=-1, keepdim=True, correction=2)", "f(T(0, 3))"};
    t.add("var(Tensor self, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> "
          "Tensor")
        .batch(batch_over<0>)
        .doc("The variance over `dim` (None or empty: all), divided by n - correction (None: 1).\n"
             "`dim` goes away, or has size 1 with `keepdim`.\n"
             "RuntimeError for integers.\n\n"
             ">>> weft.var(weft.tensor([1., 3.]))\n"
             "tensor(2.)")
        .shape(variance_shape)
        .kernel(variance_kernel<false>)
        .grad(0, save_in(0), [](const Grad& g) { return variance_gradient(g, g.grad()); })
        .samples(samples);
    add_unbiased<only_var>(t, "var", "Tensor");
    t.add("std(Tensor self, int[]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> "
          "Tensor")
        .batch(batch_over<0>)
        .doc("The standard deviation: the square root of var(), with its shapes.\n"
             ">>> weft.std(weft.tensor([1., 3.]), correction=0)\n"
             "tensor(1.)")
        .shape(variance_shape)
        .kernel(variance_kernel<true>)
        .grad(0, save_in(0) | save_out(0), deviation_gradient)
        .samples(samples);
    add_unbiased<only_std>(t, "std", "Tensor");
    t.add(
         "_var_mean(Tensor self, int[]? dim, Scalar? correction, bool keepdim) -> (Tensor, Tensor)")
        .doc("var_mean in one op.")
        .shape(with_mean_shape)
        .kernel(variance_kernel<false>)
        .internal()
        .batch(batch_over<0>)
        .node_name("VarMeanBackward0")
        .grad(0, save_in(0), with_mean_gradient<false>)
        .samples({"f(T(2, 3), 1, None, False)"});
    t.add(
         "_std_mean(Tensor self, int[]? dim, Scalar? correction, bool keepdim) -> (Tensor, Tensor)")
        .doc("std_mean in one op.")
        .shape(with_mean_shape)
        .kernel(variance_kernel<true>)
        .internal()
        .batch(batch_over<0>)
        .node_name("StdMeanBackward0")
        .grad(0, save_in(0) | save_out(0), with_mean_gradient<true>)
        .samples({"f(T(2, 3), 1, None, False)"});
    add_with_mean<var_and_mean>(t, "var_mean");
    add_with_mean<std_and_mean>(t, "std_mean");
}

// ---- norms: attributes (ord, dim, keepdim, dtype) ----

void norm_shape(Call& c) {
    const Tensor& x = c.in[0];
    const char* who = "linalg.vector_norm";
    DType dtype = dtype_or_own(c.attr(3), x);
    WEFT_EXPECT(is_inexact(x.dtype()), Runtime, who, "a floating point or complex tensor as input",
                name(x.dtype()));
    WEFT_EXPECT(is_inexact(dtype) && is_complex(dtype) == is_complex(x.dtype()), Runtime, who,
                is_complex(x.dtype()) ? "a complex dtype" : "a floating dtype", name(dtype));
    DimMask mask = dim_mask(who, c.attr(1), x.ndim());
    double ord = c.attr(0).as_double();
    if (ord < 0 || ord == std::numeric_limits<double>::infinity())
        WEFT_EXPECT(
            count_over(x.shape(), mask) > 0, Runtime, who, "elements to reduce",
            text("shape ", to_string(x.shape()), " (linalg.vector_norm cannot compute the ", ord,
                 " norm on an empty tensor because the operation does not have an identity)"));
    c.add(Tensor::layout(real_dtype(dtype), reduced_shape(x.shape(), mask, c.attr(2).as_bool())));
}

void norm2_step(const Tensor& from, const Tensor& to, Axis axis) {
    Unlocked unlocked(from.numel());
    dispatch<FloatingTypes>(from.dtype(), "norm",
                            [&]<class T>() { kernels::norm2(from.data<T>(), to.data<T>(), axis); });
}

/// Orders other than 2, from other ops.
Tensor general_norm(const Tensor& x, double ord, const Value& dim, const Value& keepdim) {
    ModeGuard no_graph(0, kGradMode);
    constexpr double inf = std::numeric_limits<double>::infinity();
    if (ord == 0) return sum_dim(ne(x, number(0, x.dtype())), dim, keepdim, x.dtype());
    Tensor a = absolute(x);
    if (ord == 1) return sum_dim(a, dim, keepdim);
    if (ord == inf) return amax(a, dim, keepdim);
    if (ord == -inf) return amin(a, dim, keepdim);
    Tensor total = sum_dim(pow(a, number(ord, x.dtype())), dim, keepdim);
    return pow(total, number(1 / ord, x.dtype()));
}

void norm_kernel(Call& c) {
    Tensor x = c.in[0];
    if (is_complex(x.dtype())) {
        ModeGuard no_graph(0, kGradMode);
        x = absolute(x);
    }
    x = in_dtype(x, c.out(0).dtype());
    double ord = c.attr(0).as_double();
    if (ord != 0 && x.numel() > 0 && c.out(0).numel() == x.numel())  // no square that overflows
        return copy_into(c.out(0), reshape(absolute(x), Dims(c.out(0).shape())));
    if (ord == 2) return reduce(x, dim_mask(c.name(), c.attr(1), x.ndim()), c.out(0), norm2_step);
    copy_into(c.out(0), general_norm(x, ord, c.attr(1), c.attr(2)));
}

/// d(norm)/dx = sign(x) |x|^(p-1) / norm^(p-1); 0 where the norm is 0 or, below p = 1, where x is.
Tensor power_norm_gradient(const Tensor& x, const Tensor& r, const Tensor& d, double ord,
                           FunctionRef<Tensor(const Tensor&)> spread_over) {
    auto raised = [](const Tensor& t, double p) { return pow(t, number(p, t.dtype())); };
    if (ord < 1)
        return zero_where(is_zero(x), sgn(x) * raised(absolute(x), ord - 1)) *
               spread_over(d * raised(r, 1 - ord));
    Tensor scale = spread_over(divided(d, raised(r, ord - 1)));
    if (ord < 2) return sgn(x) * raised(absolute(x), ord - 1) * scale;
    return x * raised(absolute(x), ord - 2) * scale;
}

Tensor norm_gradient(const Grad& g) {
    Dims shape = g.in_shape(0);
    DType t = g.out_dtype(0);
    Tensor x = g.in(0), r = g.out(0);
    x = cast(x, is_complex(x.dtype()) ? complex_dtype(t) : t);
    double ord = g.attr(0).as_double();
    auto spread_over = [&](const Tensor& t) {
        return spread(t, g.attr(1), g.attr(2).as_bool(), shape);
    };
    if (ord == 0) return {};
    if (ord == 1) return sgn(x) * spread_over(g.grad());
    if (ord == 2) {  // x / norm is at most 1, where grad / norm may be infinite
        Tensor zero = is_zero(r);
        return x / spread_over(where(zero, number(1, t), r)) *
               spread_over(where(zero, g.grad() * 0.0, g.grad()));  // of a NaN: NaN
    }
    if (r.numel() == x.numel() && !std::isinf(ord)) return sgn(x) * spread_over(g.grad());
    if (std::isinf(ord)) {  // a NaN is a norm that is NaN
        Tensor hits = as_dtype(logical_or(eq(absolute(x), spread_over(r)), ne(x, x)), t);
        return sgn(x) * spread_over(g.grad()) * (hits / sum_dim(hits, g.attr(1), true));
    }
    return power_norm_gradient(x, r, g.grad(), ord, spread_over);
}

/// x, or the magnitudes of complex numbers.
Tensor real_size(const Tensor& x) { return is_complex(x.dtype()) ? absolute(x) : x; }

Value text_order(const Value& p) {
    const std::string& s = p.as_text();
    WEFT_EXPECT(s == "fro", Runtime, "norm", "a number or 'fro'", text("p='", s, "'"),
                "the nuclear norm is linalg.svdvals(x).sum()");
    return 2;
}

void register_norms(Table& t) {
    t.add("linalg_vector_norm(Tensor self, Scalar ord=2, int[]? dim=None, bool keepdim=False, *, "
          "dtype? dtype=None) -> Tensor")
        .batch(batch_over<1>)
        .doc("sum(|x|^ord)^(1/ord) over `dim`; ord 0 counts nonzeros, inf and -inf take the\n"
             "largest and smallest |x|. RuntimeError for integers.")
        .shape(norm_shape)
        .kernel(norm_kernel)
        .internal()
        .in_packages()
        .grad(0, save_in(0) | save_out(0), norm_gradient)
        .samples({"f(T(2, 3))", "f(T(2, 3), 1, 0)", "f(T(2, 3), 3, (0, 1), True)", "f(T(5), 1.5)",
                  "f(T(4), 0.5)", "f(T(2, 3), float('inf'), 1)", "f(T(5), -float('inf'))",
                  "f(T())"});
    t.add("norm(Tensor self, Scalar? p=None, int[]? dim=None, bool keepdim=False, *, dtype? "
          "dtype=None) -> Tensor")
        .batch(Batch::Body)
        .doc("The p-norm over `dim` of the elements (None: p = 2; no matrix norms),\n"
             "differentiable with subgradient 0 at 0.\n\n"
             ">>> weft.norm(weft.tensor([3., 4.]))\n"
             "tensor(5.)")
        .body([](Call& c) {
            Value p = c.attr(0) ? c.attr(0) : Value(2);
            c.set(vector_norm(real_size(c.in[0]), p, c.attr(1), c.attr(2), c.attr(3)));
        })
        .samples({"f(T(2, 3))", "f(T(2, 3), 2, 1)", "f(T(2, 3), p=1, dim=0, keepdim=True)"});
    t.add("norm.text(Tensor self, str p, int[]? dim=None, bool keepdim=False, *, dtype? "
          "dtype=None) -> Tensor")
        .batch(Batch::Body)
        .doc("p='fro' is p=2.")
        .body([](Call& c) {
            c.set(vector_norm(real_size(c.in[0]), text_order(c.attr(0)), c.attr(1), c.attr(2),
                              c.attr(3)));
        })
        .samples({"f(T(2, 3), 'fro')", "f(T(2, 3), p='fro', dim=1)"});
}

// ---- logsumexp ----

void logsumexp_step(const Tensor& from, const Tensor& to, Axis axis) {
    Unlocked unlocked(8 * from.numel());
    dispatch<FloatingTypes>(from.dtype(), "logsumexp", [&]<class T>() {
        kernels::logsumexp(from.data<T>(), to.data<T>(), axis);
    });
}

/// Relative to the largest real part.
void complex_logsumexp(Call& c) {
    ModeGuard no_graph(0, kGradMode);
    Tensor x = as_contiguous(c.in[0]), zero = number(0, real_dtype(x.dtype()));
    if (x.numel() == 0) return copy_into(c.out(0), log(sum_dim(x, c.attr(0), c.attr(1))));
    Tensor top = amax(part_of(x, 0), c.attr(0), true);
    top = where(is_finite(top), top, zero);
    Tensor sum = log(sum_dim(exp(x - top), c.attr(0), true)) + top;
    copy_into(c.out(0), reshape(sum, Dims(c.out(0).shape())));
}

void register_logsumexp(Table& t) {
    t.add("logsumexp(Tensor self, int[] dim, bool keepdim=False) -> Tensor")
        .uint64(Uint64::Bits)
        .batch(batch_along<0>)
        .doc("log(sum(exp(x))) over `dim`, without overflow; -inf for an empty dim. `dim` goes\n"
             "away, or has size 1 with `keepdim`. Integers become floating.\n\n"
             ">>> weft.logsumexp(weft.zeros(2), 0)\n"
             "tensor(0.6931)")
        .shape([](Call& c) {
            const Tensor& x = c.in[0];
            DimMask mask = dim_mask(c.name(), c.attr(0), x.ndim());
            c.add(Tensor::layout(is_inexact(x.dtype()) ? x.dtype() : default_dtype,
                                 reduced_shape(x.shape(), mask, c.attr(1).as_bool())));
        })
        .kernel([](Call& c) {
            if (is_complex(c.in[0].dtype())) return complex_logsumexp(c);
            Tensor x = in_dtype(c.in[0], c.out(0).dtype());
            reduce(x, dim_mask(c.name(), c.attr(0), x.ndim()), c.out(0), logsumexp_step);
        })
        .grad(0, save_in(0) | save_out(0),
              [](const Grad& g) {
                  Dims shape = g.in_shape(0);
                  bool keepdim = g.attr(1).as_bool();
                  return spread(g.grad(), g.attr(0), keepdim, shape) *
                         conj(exp(g.in(0) - spread(g.out(0), g.attr(0), keepdim, shape)));
              })
        .samples({"f(T(2, 3), 0)", "f(T(2, 3), dim=-1, keepdim=True)", "f(T(2, 3), (0, 1))",
                  "f(T(), 0)", "f(T(0, 3), 0)"});
}

}  // namespace

void register_moments(Table& t) {
    register_variance(t);
    register_norms(t);
    register_logsumexp(t);
}

}  // namespace weft
