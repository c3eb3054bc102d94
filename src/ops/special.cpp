/// Special functions that are hot in programs: of distributions, and of their gradients. The long
/// tail is SciPy's (weft/special).
#include <cmath>
#include <numbers>

#include "kernels/math.h"
#include "kernels/math_gamma.h"
#include "ops/pointwise_common.h"

namespace weft {
namespace {

using namespace ops;
namespace math = kernels::math;

const Function digamma{"digamma"}, polygamma{"_polygamma"}, zeta{"special_zeta"},
    erfcx{"special_erfcx"};

struct Zeta {
    static constexpr int one_loop = 32;
    template <class T>
    T operator()(T s, T q) const {
        return static_cast<T>(math::zeta(s, q));
    }
};
/// (-1)^(n+1) n! zeta(n + 1, x), n >= 2.
struct Polygamma {
    static constexpr int one_loop = 32;
    double order, factor;
    template <class T>
    T operator()(T x) const {
        return static_cast<T>(factor * math::zeta(order + 1, x));
    }
};

#define WEFT_SPECIAL_FUNCTOR(Name, expression)                                                     \
    struct Name {                                                                                  \
        static constexpr int one_loop = 32;                                                        \
        template <class T>                                                                         \
        WEFT_INLINE T operator()(T x) const {                                                      \
            return expression;                                                                     \
        }                                                                                          \
    };
WEFT_SPECIAL_FUNCTOR(Erfcx, math::erfcx(x))
WEFT_SPECIAL_FUNCTOR(LogNdtr, math::log_ndtr(x))
WEFT_SPECIAL_FUNCTOR(Ndtr, math::ndtr(x))
WEFT_SPECIAL_FUNCTOR(Entr, x != x  ? x
                           : x > 0 ? -x * math::log(x)
                                   : (x == 0 ? T(0) : -math::infinity<T>))
#undef WEFT_SPECIAL_FUNCTOR

struct Xlog1py {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T x, T y) const {
        return y != y ? y : x == T(0) ? T(0) : x * math::log1p(y);
    }
};

/// A function that has no in-place form.
template <class F>
OpBuilder special_op(Table& t, std::string_view name,
                     std::source_location where = std::source_location::current()) {
    return pointwise_op<F, FloatingTypes, Result::Float, 1>(
        t, text(name, "(Tensor self) -> Tensor"), where);
}

void polygamma_kernel(Call& c) {
    const int64_t n = c.attr(0).as_int();
    if (n == 0) return map_kernel<math::Digamma, FloatingTypes, Result::Float, 1>(c);
    if (n == 1) return map_kernel<math::Trigamma, FloatingTypes, Result::Float, 1>(c);
    const double order = static_cast<double>(n);
    const Polygamma f{order, (n % 2 ? 1 : -1) * std::tgamma(order + 1)};
    dispatch<FloatingTypes>(c.out(0).dtype(), c.name(),
                            [&]<class T>() { map_inputs<T, T, 1>(c, f); });
}

void polygamma_shape(Call& c) {
    WEFT_EXPECT(c.attr(0).as_int() >= 0, Runtime, "polygamma", "an order of at least 0",
                text(c.attr(0).as_int(), " (polygamma(n, x) does not support negative n.)"));
    pointwise<Result::Float>(c);
}

void register_gamma(Table& t) {
    special_op<math::LogGamma>(t, "lgamma")
        .inplace()
        .doc("The logarithm of |gamma(self)|; infinite at 0, -1, ...\n"
             ">>> weft.lgamma(weft.tensor([1., 4.]))\ntensor([0.0000, 1.7918])")
        .grad(0, save_in(0), [](const Grad& g) { return g.grad() * digamma(g.in(0)); })
        .no_onnx("no logarithm of the gamma function")
        .samples({"f(T(2, 3, lo=0.1, hi=9))", "f(T(lo=0.5))", "f(T(0, 3))",
                  "f(T(4, lo=-3.9, hi=-3.1))", "f(I(4))"});
    special_op<math::Digamma>(t, "digamma")
        .inplace()
        .doc("The derivative of lgamma; NaN at -1, -2, ...\n"
             ">>> weft.digamma(weft.tensor([1., 4.]))\ntensor([-0.5772,  1.2561])")
        .grad(0, save_in(0), [](const Grad& g) { return g.grad() * polygamma(g.in(0), 1); })
        .no_onnx("no digamma function")
        .samples({"f(T(2, 3, lo=0.1, hi=9))", "f(T(lo=0.5))", "f(T(0, 3))",
                  "f(T(4, lo=-3.9, hi=-3.1))"});
    shaped_op(t, "_polygamma(Tensor self, int n) -> Tensor", polygamma_shape, polygamma_kernel)
        .inplace()
        .internal()
        .in_packages()
        .node_name("PolygammaBackward0")
        .doc("The n-th derivative of digamma.")
        .grad(0, save_in(0),
              [](const Grad& g) { return g.grad() * polygamma(g.in(0), g.attr(0).as_int() + 1); })
        .no_onnx("no polygamma function")
        .samples({"f(T(2, 3, lo=0.5, hi=9), 1)", "f(T(3, lo=0.5), 2)", "f(T(3, lo=0.5), 0)",
                  "f(T(4, lo=-3.8, hi=-3.2), 1)", "f(T(0, 3), 3)"});
    pointwise_op<Zeta, FloatingTypes, Result::Float, 2>(
        t, "special_zeta(Tensor self, Tensor other) -> Tensor")
        .number_self()
        .internal()
        .in_packages()
        .doc("Hurwitz's zeta: the sum of (other + k)^-self over k = 0, 1, ...\n"
             ">>> weft.special.zeta(weft.tensor([2., 4.]), 1)\ntensor([1.6449, 1.0823])")
        .grad(0, 0,
              [](const Grad&) -> Tensor {
                  fail(ErrorKind::NotImplemented, "zeta", "a gradient by the second argument alone",
                       "one by the first (the derivative for 'self' is not implemented.)",
                       "detach() the first argument");
              })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) {
                  Tensor s = g.in(0);
                  return g.grad() * -s * zeta(s + 1.0, g.in(1));
              })
        .no_onnx("no zeta function")
        .samples({"f(T(2, 3, lo=1.5, hi=4).detach(), T(3, lo=0.5))", "f(3.0, T(4, lo=0.5))",
                  "f(T(lo=1.5).detach(), T(0, 3))"});
}

void register_normal_functions(Table& t) {
    constexpr double root_half = 1 / std::numbers::sqrt2;
    special_op<Erfcx>(t, "special_erfcx")
        .internal()
        .in_packages()
        .doc("exp(self^2) erfc(self), without underflow.\n"
             ">>> weft.special.erfcx(weft.tensor([0., 1.]))\ntensor([1.0000, 0.4276])")
        .grad(0, save_in(0) | save_out(0),
              [](const Grad& g) {
                  return g.grad() * (2.0 * g.in(0) * g.out(0) - 2 * std::numbers::inv_sqrtpi);
              })
        .no_onnx("no scaled complement of Erf")
        .samples(unary_samples());
    special_op<Ndtr>(t, "special_ndtr")
        .internal()
        .in_packages()
        .doc("The probability that a standard normal variable is below self.\n"
             ">>> weft.special.ndtr(weft.tensor([0., 1.]))\ntensor([0.5000, 0.8413])")
        .grad(0, save_in(0),
              [](const Grad& g) {
                  Tensor x = g.in(0);
                  return g.grad() * exp(x * x * -0.5) *
                         (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
              })
        .onnx("(Erf(self * 0.7071067811865476) + 1) * 0.5")
        .samples(unary_samples());
    special_op<LogNdtr>(t, "special_log_ndtr")
        .internal()
        .in_packages()
        .doc("The logarithm of special.ndtr, exact far out too.\n"
             ">>> weft.special.log_ndtr(weft.tensor([-9., 0.]))\ntensor([-43.6282,  -0.6931])")
        .grad(0, save_in(0),
              [](const Grad& g) {
                  constexpr double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
                  return g.grad() / erfcx(g.in(0) * -root_half) * scale;
              })
        .no_onnx("no logarithm of Erf's complement")
        .samples(unary_samples());
    special_op<Entr>(t, "special_entr")
        .internal()
        .in_packages()
        .doc("-self log(self); 0 at 0, -inf below.\n"
             ">>> weft.special.entr(weft.tensor([0., 0.5]))\ntensor([0.0000, 0.3466])")
        .grad(0, save_in(0), [](const Grad& g) { return g.grad() * (-log(g.in(0)) - 1.0); })
        .onnx("Where(Equal(self, 0), 0, Where(self < 0, -inf, -self * Log(self)))")
        .samples(unary_samples("lo=0.2, hi=2"));
    pointwise_op<Xlog1py, FloatingTypes, Result::Float, 2>(
        t, "special_xlog1py(Tensor self, Tensor other) -> Tensor")
        .number_self()
        .internal()
        .in_packages()
        .doc("self log(1 + other); 0 where self is 0, NaN where other is NaN.\n"
             ">>> weft.special.xlog1py(weft.tensor([0., 2.]), weft.tensor([-1., 0.]))\n"
             "tensor([0., 0.])")
        .node_name([](const Call& c) {
            return c.in[0].has(kWrapped)   ? "SpecialXlog1PyBackward1"
                   : c.in[1].has(kWrapped) ? "SpecialXlog1PyBackward2"
                                           : "SpecialXlog1PyBackward0";
        })
        .grad(0, save_in(0) | save_in(1),
              [](const Grad& g) {
                  Tensor x = g.in(0), y = g.in(1), zero = number(0, g.grad().dtype());
                  Tensor off = ops::mul(ops::eq(x, zero), ops::le(y, number(-1, y.dtype())));
                  return g.grad() * ops::masked_fill(log1p(y), off, zero);
              })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) { return g.grad() * g.in(0) / (g.in(1) + 1.0); })
        .onnx("Where(Equal(self, 0), Where(IsNaN(other), other, 0 * self), self * form('log1p', "
              "self=other))")
        .samples({"f(T(2, 3), T(2, 3, lo=-0.5))", "f(T(2, 1), T(3, lo=-0.5))",
                  "f(2, T(3, lo=-0.5))", "f(I(3), 2.5)"});
}

}  // namespace

void register_special(Table& t) {
    register_gamma(t);
    register_normal_functions(t);
}

}  // namespace weft
