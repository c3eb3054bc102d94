/// The less common elementary functions: inverse hyperbolic, logarithms of sums, logit, sinc.
#include <cmath>
#include <numbers>

#include "kernels/complex.h"
#include "kernels/math.h"
#include "ops/conj.h"
#include "ops/pointwise_common.h"

namespace weft {
namespace {

using namespace ops;
namespace math = kernels::math;

/// One loop of a C library function, compiled once per type and level.
#define WEFT_MATH_FUNCTOR(Name, expression)                                                        \
    struct Name {                                                                                  \
        static constexpr int one_loop = 32;                                                        \
        template <class T>                                                                         \
        WEFT_INLINE T operator()(T x) const {                                                      \
            return static_cast<T>(expression);                                                     \
        }                                                                                          \
    };
WEFT_MATH_FUNCTOR(Asinh, std::asinh(x))
WEFT_MATH_FUNCTOR(Acosh, std::acosh(x))
WEFT_MATH_FUNCTOR(Atanh, std::atanh(x))
WEFT_MATH_FUNCTOR(Erfinv, math::erfinv(x))
WEFT_MATH_FUNCTOR(Degrees, x* T(180 * std::numbers::inv_pi))
WEFT_MATH_FUNCTOR(Radians, x* T(std::numbers::pi / 180))
#undef WEFT_MATH_FUNCTOR

struct Sinc {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        T y = T(std::numbers::pi) * x;
        return x == T(0) ? T(1) : std::sin(y) / y;
    }
};
struct ComplexSinc {
    template <class T>
    T operator()(T x) const {
        T y = typename T::value_type(std::numbers::pi) * x;
        return x == T(0) ? T(1) : kernels::over(math::sin(y), y);
    }
};
/// Relative to the larger real part.
struct ComplexLogaddexp {
    template <class T>
    static constexpr bool by_element = true;
    template <class T>
    T operator()(T a, T b) const {
        if (a.real() < b.real()) std::swap(a, b);
        if (std::isinf(a.real()) && a.real() == b.real() && a.real() < 0) return a;
        if (std::isinf(a.real()) && a.real() > 0) return a;
        return a + math::log1p(std::exp(b - a));
    }
};
struct Logit {
    static constexpr int one_loop = 32;
    double low;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        T least = static_cast<T>(low), most = T(1) - least;
        x = x < least ? least : x;
        x = x > most ? most : x;
        return std::log(x / (T(1) - x));
    }
};
struct PlainLogit {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return std::log(x / (T(1) - x));
    }
};
struct Logaddexp {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        T sum = at_least(a, b) + math::log1p(math::exp(-math::abs(a - b)));
        return a == b ? a + T(std::numbers::ln2) : sum;  // equal infinities have no difference
    }
};
struct Logaddexp2 {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        T sum =
            at_least(a, b) + T(std::numbers::log2e) * math::log1p(math::exp2(-math::abs(a - b)));
        return a == b ? a + T(1) : sum;
    }
};
struct Xlogy {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T x, T y) const {
        return y != y ? y : x == T(0) ? T(0) : x * math::log(y);
    }
};

#define WEFT_COMPLEX_MATH(Name, function)                                                          \
    struct Name {                                                                                  \
        template <class T>                                                                         \
        T operator()(T x) const {                                                                  \
            return math::function(x);                                                              \
        }                                                                                          \
    };
WEFT_COMPLEX_MATH(ComplexAsinh, asinh)
WEFT_COMPLEX_MATH(ComplexAcosh, acosh)
WEFT_COMPLEX_MATH(ComplexAtanh, atanh)
#undef WEFT_COMPLEX_MATH

void register_hyperbolic(Table& t) {
    analytic_op<Asinh, ComplexAsinh>(t, "asinh")
        .alias("arcsinh")
        .doc("Inverse hyperbolic sine.\n>>> weft.asinh(weft.tensor([0., 1.]))\n"
             "tensor([0.0000, 0.8814])")
        .grad(0, save_in(0),
              [](const Grad& g) { return g.grad() * conj(rsqrt(g.in(0) * g.in(0) + 1.0)); })
        .onnx("Asinh(self)")
        .samples(unary_samples());
    analytic_op<Acosh, ComplexAcosh>(t, "acosh")
        .alias("arccosh")
        .doc("Inverse hyperbolic cosine; NaN below 1.\n>>> weft.acosh(weft.tensor([1., 2.]))\n"
             "tensor([0.0000, 1.3170])")
        .grad(0, save_in(0),
              [](const Grad& g) {
                  Tensor x = conj(g.in(0));
                  if (!is_complex(x.dtype())) return g.grad() * rsqrt(x * x - 1.0);
                  return g.grad() * (rsqrt(x - 1.0) * rsqrt(x - -1.0));
              })
        .onnx("Acosh(self)")
        .samples(unary_samples("lo=1.2, hi=3"));
    analytic_op<Atanh, ComplexAtanh>(t, "atanh")
        .alias("arctanh")
        .doc("Inverse hyperbolic tangent; NaN outside [-1, 1].\n"
             ">>> weft.atanh(weft.tensor([0., 0.5]))\ntensor([0.0000, 0.5493])")
        .grad(0, save_in(0), [](const Grad& g) { return g.grad() / conj(1.0 - g.in(0) * g.in(0)); })
        .onnx("Atanh(self)")
        .samples(unary_samples("lo=-0.8, hi=0.8"));
    real_op<Degrees>(t, "rad2deg")
        .doc("Radians as degrees.\n>>> weft.rad2deg(weft.tensor([0., 1.]))\n"
             "tensor([ 0.0000, 57.2958])")
        .node_name("Rad2DegBackward0")
        .grad(0, 0, [](const Grad& g) { return g.grad() * (180 * std::numbers::inv_pi); })
        .onnx("self * 57.29577951308232")
        .samples(unary_samples());
    real_op<Radians>(t, "deg2rad")
        .doc("Degrees as radians.\n>>> weft.deg2rad(weft.tensor([0., 90.]))\n"
             "tensor([0.0000, 1.5708])")
        .node_name("Deg2RadBackward0")
        .grad(0, 0, [](const Grad& g) { return g.grad() * (std::numbers::pi / 180); })
        .onnx("self * 0.017453292519943295")
        .samples(unary_samples());
    real_op<Erfinv>(t, "erfinv")
        .doc("The inverse of erf; infinite at -1 and 1.\n>>> weft.erfinv(weft.tensor([0., 0.5]))\n"
             "tensor([0.0000, 0.4769])")
        .grad(0, save_in(0),
              [](const Grad& g) {
                  static const Function erfinv{"erfinv"};
                  Tensor y = erfinv(g.in(0));
                  return scaled_mul(g.grad(), ops::exp(y * y), 1 / (2 * std::numbers::inv_sqrtpi));
              })
        .no_onnx("no inverse of Erf")
        .samples(unary_samples("lo=-0.8, hi=0.8"));
}

Tensor sinc_gradient(const Grad& g) {
    Tensor x = g.in(0), zero = number(0, x.dtype()), y = x * std::numbers::pi, square = y * x;
    Tensor slope = (y * ops::cos(y) - ops::sin(y)) / square;
    return g.grad() * conj(ops::where(ops::eq(square, zero), zero, slope));
}

/// 0 where a bound was applied; without bounds NaN outside [0, 1].
Tensor logit_gradient(const Grad& g) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    Tensor x = g.in(0);
    double low = g.attr(0) ? g.attr(0).as_double() : 0;
    Tensor inside =
        logical_and(ops::ge(x, number(low, x.dtype())), ops::le(x, number(1 - low, x.dtype())));
    return ops::where(inside, g.grad() / (x * (1.0 - x)), number(g.attr(0) ? 0 : nan, x.dtype()));
}

void register_logit(Table& t) {
    analytic_op<Sinc, ComplexSinc>(t, "sinc")
        .doc("sin(pi x) / (pi x), 1 at 0.\n>>> weft.sinc(weft.tensor([0., 0.5]))\n"
             "tensor([1.0000, 0.6366])")
        .grad(0, save_in(0), sinc_gradient)
        .onnx(
            "Where(Equal(self, 0), 1, Sin(self * 3.141592653589793) / (self * 3.141592653589793))")
        .samples(unary_samples("lo=0.2"));
    shaped_op(t, "logit(Tensor self, float? eps=None) -> Tensor", pointwise<Result::Float>,
              [](Call& c) {
                  dispatch<FloatingTypes>(c.out(0).dtype(), c.name(), [&]<class T>() {
                      if (c.attr(0)) map_inputs<T, T, 1>(c, Logit{c.attr(0).as_double()});
                      else map_inputs<T, T, 1>(c, PlainLogit{});
                  });
              })
        .doc("log(self / (1 - self)), self clamped to [eps, 1 - eps] first if eps is given.\n"
             ">>> weft.logit(weft.tensor([0.5, 0.9]))\ntensor([0.0000, 2.1972])")
        .inplace()
        .grad(0, save_in(0), logit_gradient)
        .samples({"f(T(2, 3, lo=0.1, hi=0.9))", "f(T(lo=0.1, hi=0.9))", "f(T(0, 3))",
                  "f(T(2, 3, lo=0.1, hi=0.9), 0.05)", "f(T(4), eps=0.1)"});
}

void register_log_sums(Table& t) {
    pointwise_op<Logaddexp, FloatingTypes, Result::Float, 2>(
        t, "logaddexp(Tensor self, Tensor other) -> Tensor")
        .doc("log(exp(self) + exp(other)) without overflow.\n"
             ">>> weft.logaddexp(weft.tensor([0., 100.]), weft.tensor([0., 1.]))\n"
             "tensor([  0.6931, 100.0000])")
        .kernel([](Call& c) {
            if (is_complex(c.out(0).dtype()))
                map_kernel<ComplexLogaddexp, ComplexTypes, Result::Same, 2>(c);
            else map_kernel<Logaddexp, FloatingTypes, Result::Float, 2>(c);
        })
        .grad(0, save_in(0) | save_in(1),
              [](const Grad& g) { return g.grad() * conj(ops::sigmoid(g.in(0) - g.in(1))); })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) { return g.grad() * conj(ops::sigmoid(g.in(1) - g.in(0))); })
        .samples({"f(T(2, 3), T(2, 3))", "f(T(2, 1), T(3))", "f(T(), T(0, 3))"});
    pointwise_op<Logaddexp2, FloatingTypes, Result::Float, 2>(
        t, "logaddexp2(Tensor self, Tensor other) -> Tensor")
        .doc("log2(2^self + 2^other) without overflow.\n"
             ">>> weft.logaddexp2(weft.tensor([0., 3.]), weft.tensor([0., 3.]))\n"
             "tensor([1., 4.])")
        .grad(0, save_in(0) | save_in(1),
              [](const Grad& g) {
                  return g.grad() * ops::sigmoid((g.in(0) - g.in(1)) * std::numbers::ln2);
              })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) {
                  return g.grad() * ops::sigmoid((g.in(1) - g.in(0)) * std::numbers::ln2);
              })
        .samples({"f(T(2, 3), T(2, 3))", "f(T(2, 1), T(3))", "f(T(), T(0, 3))"});
    pointwise_op<Xlogy, FloatingTypes, Result::Float, 2>(
        t, "xlogy(Tensor self, Tensor other) -> Tensor")
        .doc("self * log(other); 0 where self is 0, NaN where other is NaN.\n"
             ">>> weft.xlogy(weft.tensor([0., 2.]), weft.tensor([0., 1.]))\ntensor([0., 0.])")
        .inplace()
        .number_self()
        .node_name([](const Call& c) {
            return c.in[0].has(kWrapped)   ? "XlogyBackward1"
                   : c.in[1].has(kWrapped) ? "XlogyBackward2"
                                           : "XlogyBackward0";
        })
        .numbers_apart(save_in(0) | save_in(1))
        .grad(0, save_in(0) | save_in(1),
              [](const Grad& g) {
                  Tensor x = g.in(0), y = g.in(1), zero = number(0, g.grad().dtype());
                  Tensor off = logical_and(ops::eq(x, zero), ops::le(y, zero));
                  return g.grad() * ops::masked_fill(ops::log(y), off, zero);
              })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) { return g.grad() * g.in(0) / g.in(1); })
        .onnx("Where(Equal(self, 0), Where(IsNaN(other), other, 0 * self), self * Log(other))")
        .samples({"f(T(2, 3), T(2, 3, lo=0.5))", "f(T(2, 1), T(3, lo=0.5))", "f(2, T(3, lo=0.5))",
                  "f(I(3), 2.5)", "f(T(), T(0, 3))"});
}

}  // namespace

void register_transcendental(Table& t) {
    register_hyperbolic(t);
    register_logit(t);
    register_log_sums(t);
}

}  // namespace weft
