/// Elementary functions of one tensor. (Activations are in activation.cpp and rectifier.cpp.)
#include <cmath>
#include <numbers>

#include "kernels/complex.h"
#include "kernels/half_loops.h"
#include "kernels/math.h"
#include "ops/batch.h"
#include "ops/conj.h"
#include "ops/limits.h"
#include "ops/pointwise_common.h"

namespace weft {
namespace {

using namespace ops;
namespace math = kernels::math;

const Function cosh{"cosh"}, sinh{"sinh"}, abs_backward{"abs_backward"};

#define WEFT_FUNCTOR(Name, expression)                                                             \
    struct Name {                                                                                  \
        template <class T>                                                                         \
        WEFT_INLINE T operator()(T x) const {                                                      \
            return static_cast<T>(expression);                                                     \
        }                                                                                          \
    };
/// One loop each, for the body is long. (See OneLoop in kernels/map.h.)
#define WEFT_MATH_FUNCTOR(Name, function)                                                          \
    struct Name {                                                                                  \
        static constexpr int one_loop = 32;                                                        \
        template <class T>                                                                         \
        WEFT_INLINE T operator()(T x) const {                                                      \
            return math::function(x);                                                              \
        }                                                                                          \
    };
#define WEFT_PREDICATE(Name, expression)                                                           \
    struct Name {                                                                                  \
        static constexpr int one_loop = 64;                                                        \
        template <class T>                                                                         \
        WEFT_INLINE bool operator()(T x) const {                                                   \
            return expression;                                                                     \
        }                                                                                          \
    };

/// Unsigned, so that the smallest integer wraps.
template <class T>
WEFT_INLINE T negated(T x) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(0 - static_cast<uint64_t>(x));
    else return -x;
}
template <class T>
WEFT_INLINE T magnitude(T x) {
    if constexpr (std::is_integral_v<T>) return x < 0 ? negated(x) : x;
    else return std::fabs(x);
}
/// Integers are round.
WEFT_INLINE int64_t floor(int64_t x) { return x; }
WEFT_INLINE int64_t ceil(int64_t x) { return x; }
WEFT_INLINE int64_t trunc(int64_t x) { return x; }
WEFT_INLINE int64_t round(int64_t x) { return x; }
using math::floor, math::ceil, math::trunc, math::round;

template <class T>
WEFT_INLINE bool finite(T x) {
    if constexpr (std::is_floating_point_v<T>) return magnitude(x) <= std::numeric_limits<T>::max();
    else return true;
}

struct Neg {
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return negated(x);
    }
    WEFT_INLINE uint16_t bits(uint16_t x) const { return x ^ 0x8000; }
};
struct Abs {
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return magnitude(x);
    }
    WEFT_INLINE uint16_t bits(uint16_t x) const { return x & 0x7fff; }
};
WEFT_FUNCTOR(Sign, (x > T(0)) - (x < T(0)))
WEFT_FUNCTOR(Square, x * x)
WEFT_FUNCTOR(Reciprocal, T(1) / x)
WEFT_FUNCTOR(Sqrt, std::sqrt(x))
WEFT_FUNCTOR(Rsqrt, T(1) / std::sqrt(x))
WEFT_MATH_FUNCTOR(Exp, exp)
WEFT_MATH_FUNCTOR(Exp2, exp2)
WEFT_MATH_FUNCTOR(Expm1, expm1)
WEFT_MATH_FUNCTOR(Log, log)
WEFT_MATH_FUNCTOR(Log2, log2)
WEFT_MATH_FUNCTOR(Log10, log10)
WEFT_MATH_FUNCTOR(Log1p, log1p)
WEFT_MATH_FUNCTOR(Asin, asin)
WEFT_MATH_FUNCTOR(Acos, acos)
WEFT_MATH_FUNCTOR(Atan, atan)
WEFT_MATH_FUNCTOR(Sinh, sinh)
WEFT_MATH_FUNCTOR(Cosh, cosh)
WEFT_MATH_FUNCTOR(Erf, erf)
WEFT_MATH_FUNCTOR(Erfc, erfc)
WEFT_FUNCTOR(Floor, floor(x))
WEFT_FUNCTOR(Ceil, ceil(x))
WEFT_FUNCTOR(Trunc, trunc(x))
WEFT_FUNCTOR(Frac, x - trunc(x))
WEFT_FUNCTOR(Round, round(x))

WEFT_PREDICATE(IsNan, x != x)
WEFT_PREDICATE(IsInf, !finite(x) && x == x)
WEFT_PREDICATE(IsFinite, finite(x))
WEFT_PREDICATE(LogicalNot, !x)

WEFT_FUNCTOR(FlipBits, ~x)
// ---- complex numbers ---------------------------------------------------------------------------

#define WEFT_COMPLEX_FUNCTOR(Name, expression)                                                     \
    struct Name {                                                                                  \
        template <class T>                                                                         \
        T operator()(T x) const {                                                                  \
            return expression;                                                                     \
        }                                                                                          \
    };
WEFT_COMPLEX_FUNCTOR(ComplexNeg, -x)
WEFT_COMPLEX_FUNCTOR(ComplexSquare, kernels::times(x, x))
WEFT_COMPLEX_FUNCTOR(ComplexReciprocal, kernels::over(T(1), x))
WEFT_COMPLEX_FUNCTOR(ComplexSqrt, std::sqrt(x))
WEFT_COMPLEX_FUNCTOR(ComplexRsqrt, kernels::over(T(1), std::sqrt(x)))
#define WEFT_COMPLEX_MATH(Name, function) WEFT_COMPLEX_FUNCTOR(Name, math::function(x))
WEFT_COMPLEX_MATH(ComplexExp, exp)
WEFT_COMPLEX_MATH(ComplexExp2, exp2)
WEFT_COMPLEX_MATH(ComplexExpm1, expm1)
WEFT_COMPLEX_MATH(ComplexLog, log)
WEFT_COMPLEX_MATH(ComplexLog2, log2)
WEFT_COMPLEX_MATH(ComplexLog10, log10)
WEFT_COMPLEX_MATH(ComplexLog1p, log1p)
WEFT_COMPLEX_MATH(ComplexSin, sin)
WEFT_COMPLEX_MATH(ComplexCos, cos)
WEFT_COMPLEX_MATH(ComplexTan, tan)
WEFT_COMPLEX_MATH(ComplexAsin, asin)
WEFT_COMPLEX_MATH(ComplexAcos, acos)
WEFT_COMPLEX_MATH(ComplexAtan, atan)
WEFT_COMPLEX_MATH(ComplexSinh, sinh)
WEFT_COMPLEX_MATH(ComplexCosh, cosh)
#undef WEFT_COMPLEX_MATH
#undef WEFT_COMPLEX_FUNCTOR

struct ComplexAbs {
    template <class T>
    T operator()(std::complex<T> x) const {
        return std::abs(x);
    }
};
struct ComplexIsNan {
    template <class T>
    bool operator()(T x) const {
        return x != x;
    }
};
struct ComplexIsFinite {
    template <class T>
    bool operator()(T x) const {
        return finite(x.real()) && finite(x.imag());
    }
};
struct ComplexIsInf {
    template <class T>
    bool operator()(T x) const {
        return std::isinf(x.real()) || std::isinf(x.imag());
    }
};
struct ComplexNot {
    template <class T>
    bool operator()(T x) const {
        return x == T(0);
    }
};

void abs_kernel(Call& c) {
    if (!is_complex(c.in[0].dtype())) return map_kernel<Abs, NumberTypes, Result::Same, 1>(c);
    dispatch<ComplexTypes>(c.in[0].dtype(), c.name(), [&]<class T>() {
        if constexpr (kernels::is_complex_v<T>)
            map_inputs<T, typename T::value_type, 1>(c, ComplexAbs{});
    });
}

/// A bool, read as the byte that it is: the compiler makes no vector code of !bool.
WEFT_FUNCTOR(FlipBool, x ^ 1)

void flip_bools(Call& c) {
    FlipBool f;
    run_map_of(c, kernels::map_loop<FlipBool, uint8_t, uint8_t>(), f, c.in, 1);
}
void bitwise_not_kernel(Call& c) {
    dispatch<IntegralTypes>(c.in[0].dtype(), c.name(), [&]<class T>() {
        if constexpr (std::is_same_v<T, bool>) flip_bools(c);
        else map_inputs<T, T, 1>(c, FlipBits{});
    });
}
void logical_not_kernel(Call& c) {
    if (c.in[0].dtype() == DType::Bool) return flip_bools(c);
    if (is_complex(c.in[0].dtype()))
        return map_kernel<ComplexNot, ComplexTypes, Result::Bool, 1>(c);
    map_kernel<LogicalNot, NumberTypes, Result::Bool, 1>(c);
}

/// Nearest multiple of 10^-decimals.
struct RoundDecimals {
    static constexpr int one_loop = 64;
    double power;  ///< 10^|decimals|
    bool negative;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        T p = static_cast<T>(power);
        return negative ? round(x / p) * p : round(x * p) / p;
    }
};

void round_kernel(Call& c) {
    int64_t decimals = c.attr(0).as_int();
    if (decimals == 0) return map_kernel<Round, NumberTypes, Result::Same, 1>(c);
    RoundDecimals f{std::pow(10.0, std::abs(static_cast<double>(decimals))), decimals < 0};
    dispatch<FloatingTypes>(c.in[0].dtype(), c.name(),
                            [&]<class T>() { map_inputs<T, T, 1>(c, f); });
}

template <class T>
struct NanToNum {
    static constexpr int one_loop = 64;
    T nan, posinf, neginf;
    WEFT_INLINE T operator()(T given) const {
        using Wide = std::conditional_t<is_narrow(dtype_of<T>), float, T>;
        using L = std::numeric_limits<Wide>;
        const auto x = static_cast<Wide>(given);
        T y = x > L::max() ? posinf : given;
        y = x < L::lowest() ? neginf : y;
        return x != x ? nan : y;
    }
};

/// Takes the halves as they are, since the largest number is theirs.
void nan_to_num_kernel(Call& c) {
    if (!is_floating(c.in[0].dtype())) return copy_into(c.out(0), c.in[0]);
    dispatch_computed(c.in[0].dtype(), c.name(), [&]<class T>() {
        if constexpr (is_floating(dtype_of<T>)) {
            const double most = largest_floating(dtype_of<T>);
            auto or_else = [](const Value& v, double otherwise) {
                return kernels::convert<T>(v ? v.as_double() : otherwise);
            };
            map_inputs<T, T, 1>(c, NanToNum<T>{or_else(c.attr(0), 0), or_else(c.attr(1), most),
                                               or_else(c.attr(2), -most)});
        }
    });
}

/// grad * sign(self)
struct AbsBackward {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE T operator()(T g, T x) const {
        return x > 0 ? g : x < 0 ? -g : g * T(0);
    }
};

/// A function whose result has the dtype of its argument.
template <class F, class Set>
OpBuilder same_op(Table& t, std::string_view name,
                  std::source_location where = std::source_location::current()) {
    auto schema = text(name, "(Tensor self) -> Tensor");
    return pointwise_op<F, Set, Result::Same, 1>(t, schema, where).inplace();
}
template <class F, class G>
OpBuilder predicate_op(Table& t, std::string_view name,
                       std::source_location where = std::source_location::current()) {
    auto schema = text(name, "(Tensor self) -> Tensor");
    return pointwise_op<F, AllTypes, Result::Bool, 1>(t, schema, where)
        .kernel(or_complex<G, Result::Bool, map_kernel<F, AllTypes, Result::Bool, 1>>)
        .uint64(Uint64::Numbers);
}

/// 1 - x^2
Tensor one_minus_square(const Tensor& x) { return scaled_mul(x, x, -1.0) + 1.0; }
/// grad * factor * exp(-x^2): the derivative of erf up to the factor.
Tensor gauss(const Grad& g, double factor) {
    Tensor x = g.in(0);
    return scaled_mul(g.grad(), ops::exp(scaled_mul(x, x, -1.0)), factor);
}

void register_arithmetic(Table& t) {
    same_op<Neg, NumberTypes>(t, "neg")
        .kernel(or_complex<ComplexNeg, Result::Same, map_kernel<Neg, NumberTypes, Result::Same, 1>>)
        .uint64(Uint64::Bits)
        .alias("negative")
        .shape([](Call& c) {
            WEFT_EXPECT(c.in[0].dtype() != DType::Bool, Runtime, c.name(),
                        "a tensor of a number dtype",
                        "bool (Negation, the `-` operator, on a bool tensor is not supported)",
                        "use `~` or logical_not() to invert a mask");
            pointwise<Result::Same>(c);
        })
        .doc("-self. Bool raises.\n>>> weft.neg(weft.tensor([1., -2.]))\ntensor([-1.,  2.])")
        .grad(0, 0, [](const Grad& g) { return -g.grad(); })
        .onnx("-self")
        .samples({"f(T(2, 3))", "f(T())", "f(T(0, 3))", "f(I(4))"});
    same_op<Abs, NumberTypes>(t, "abs")
        .float8()
        .kernel(abs_kernel)
        .alias("absolute")
        .shape([](Call& c) {
            DType t = c.in[0].dtype();
            WEFT_EXPECT(!c.in_place || !is_complex(t), Runtime, "abs_", "real numbers",
                        text(name(t), " (In-place abs is not supported for complex tensors.)"));
            pointwise_layout(c, real_dtype(t));
        })
        .doc("|self|. The gradient at 0 is 0.\n>>> weft.abs(weft.tensor([-1, 2]))\ntensor([1, 2])")
        .grad(0, save_in(0),
              [](const Grad& g) {
                  Tensor x = g.in(0);
                  return is_complex(x.dtype()) ? g.grad() * sgn(x) : abs_backward(g.grad(), x);
              })
        .onnx("Abs(self)")
        .samples({"f(T(2, 3))", "f(T())", "f(T(0, 3))", "f(I(4))"});
    pointwise_op<AbsBackward, FloatingTypes, Result::Same, 2>(
        t, "abs_backward(Tensor grad, Tensor self) -> Tensor")
        .doc("grad * sign(self).")
        .internal()
        .node_name("MulBackward0")
        .grad(0, save_in(1), [](const Grad& g) { return abs_backward(g.grad(), g.in(1)); })
        .grad(1, 0, zero_gradient_of<1>);
    same_op<Sign, AllTypes>(t, "sign")
        .doc("-1, 0 or 1 by the sign of self; 0 for NaN.\n"
             ">>> weft.sign(weft.tensor([-2., 0., 5.]))\ntensor([-1.,  0.,  1.])")
        .grad(0, 0, zero_gradient)
        .onnx("Where(IsNaN(self), 0, Sign(self)) if floating(self) else Sign(self)")
        .samples({"f(T(2, 3))", "f(T())", "f(T(0, 3))", "f(I(4))"});
    t.add("square(Tensor self) -> Tensor")
        .uint64(Uint64::Bits)
        .doc("self * self; bool becomes int64.\n>>> weft.square(weft.tensor([3, -2]))\n"
             "tensor([9, 4])")
        .shape([](Call& c) {
            DType in = c.in[0].dtype();
            pointwise_layout(c, in == DType::Bool ? DType::Int64 : in);
        })
        .kernel([](Call& c) {
            if (is_complex(c.out(0).dtype()))
                return map_kernel<ComplexSquare, ComplexTypes, Result::Same, 1>(c);
            dispatch<NumberTypes>(c.out(0).dtype(), c.name(),
                                  [&]<class T>() { map_inputs<T, T, 1>(c, Square{}); });
        })
        .pointwise()
        .strided_output()
        .inplace()
        .out_form()
        .node_name("PowBackward0")
        .grad(0, save_in(0), [](const Grad& g) { return scaled_mul(g.grad(), conj(g.in(0)), 2.0); })
        .onnx("self * self")
        .samples({"f(T(2, 3))", "f(T())", "f(T(0, 3))", "f(I(4))"});
    analytic_op<Reciprocal, ComplexReciprocal>(t, "reciprocal")
        .doc("1 / self.\n>>> weft.reciprocal(weft.tensor([2., -4.]))\ntensor([ 0.5000, -0.2500])")
        .grad(0, save_out(0),
              [](const Grad& g) {
                  Tensor r = conj(g.out(0));
                  return scaled_mul(g.grad(), r * r, -1.0);
              })
        .onnx("Reciprocal(self)")
        .samples(unary_samples("lo=0.5"));
    analytic_op<Sqrt, ComplexSqrt>(t, "sqrt")
        .doc("Square root; NaN below 0.\n>>> weft.sqrt(weft.tensor([4., 9.]))\ntensor([2., 3.])")
        .grad(0, save_out(0),
              [](const Grad& g) { return scaled_div(g.grad(), conj(g.out(0)), 0.5); })
        .onnx("Sqrt(self)")
        .samples(unary_samples("lo=0.5"));
    analytic_op<Rsqrt, ComplexRsqrt>(t, "rsqrt")
        .doc("1 / sqrt(self).\n>>> weft.rsqrt(weft.tensor([4., 1.]))\ntensor([0.5000, 1.0000])")
        .grad(0, save_out(0),
              [](const Grad& g) {
                  Tensor r = conj(g.out(0));
                  return scaled_mul(g.grad(), r * r * r, -0.5);
              })
        .onnx("Reciprocal(Sqrt(self))")
        .samples(unary_samples("lo=0.5"));
    t.add("positive(Tensor self) -> Tensor")
        .doc("self itself. Bool raises. Of self's shape.\n"
             ">>> weft.positive(weft.tensor([-1, 2]))\n"
             "tensor([-1,  2])")
        .body([](Call& c) {
            if (!NumberTypes::has(c.in[0].dtype()))
                fail_dtype(c.name(), NumberTypes::text, c.in[0].dtype());
            c.set(c.in[0]);
        })
        .batch(Batch::Body)
        .onnx("Identity(self)")
        .samples({"f(T(2, 3))"});
}

void register_exponential(Table& t) {
    analytic_op<Exp, ComplexExp>(t, "exp")
        .doc("e^self.\n>>> weft.exp(weft.tensor([0., 1.]))\ntensor([1.0000, 2.7183])")
        .grad(0, save_out(0), [](const Grad& g) { return g.grad() * conj(g.out(0)); })
        .onnx("Exp(self)")
        .samples(unary_samples());
    analytic_op<Exp2, ComplexExp2>(t, "exp2")
        .doc("2^self.\n>>> weft.exp2(weft.tensor([0., 3.]))\ntensor([1., 8.])")
        .grad(0, save_out(0),
              [](const Grad& g) { return scaled_mul(g.grad(), conj(g.out(0)), std::numbers::ln2); })
        .onnx("Pow(2, self)")
        .samples(unary_samples());
    analytic_op<Expm1, ComplexExpm1>(t, "expm1")
        .doc("e^self - 1, exact near 0.\n>>> weft.expm1(weft.tensor([0., 1e-5]))\n"
             "tensor([0.0000e+00, 1.0000e-05])")
        .grad(0, save_out(0), [](const Grad& g) { return g.grad() * (conj(g.out(0)) + 1.0); })
        .onnx("Tanh(self * 0.5) * (Exp(self) + 1)")
        .samples(unary_samples());
    analytic_op<Log, ComplexLog>(t, "log")
        .doc("Natural logarithm; NaN below 0.\n>>> weft.log(weft.tensor([1., 10.]))\n"
             "tensor([0.0000, 2.3026])")
        .grad(0, save_in(0), [](const Grad& g) { return g.grad() / conj(g.in(0)); })
        .onnx("Log(self)")
        .samples(unary_samples("lo=0.5"));
    analytic_op<Log2, ComplexLog2>(t, "log2")
        .doc("Logarithm to base 2.\n>>> weft.log2(weft.tensor([1., 8.]))\ntensor([0., 3.])")
        .grad(
            0, save_in(0),
            [](const Grad& g) { return scaled_div(g.grad(), conj(g.in(0)), std::numbers::log2e); })
        .onnx("Log(self) * 1.4426950408889634")
        .samples(unary_samples("lo=0.5"));
    analytic_op<Log10, ComplexLog10>(t, "log10")
        .doc("Logarithm to base 10.\n>>> weft.log10(weft.tensor([1., 1000.]))\ntensor([0., 3.])")
        .grad(
            0, save_in(0),
            [](const Grad& g) { return scaled_div(g.grad(), conj(g.in(0)), std::numbers::log10e); })
        .onnx("Log(self) * 0.4342944819032518")
        .samples(unary_samples("lo=0.5"));
    analytic_op<Log1p, ComplexLog1p>(t, "log1p")
        .node_name("Log1PBackward0")
        .doc("log(1 + self), exact near 0.\n>>> weft.log1p(weft.tensor([0., 1.]))\n"
             "tensor([0.0000, 0.6931])")
        .grad(0, save_in(0), [](const Grad& g) { return g.grad() / (conj(g.in(0)) + 1.0); })
        .onnx("Where(Abs(self) < 0.5, 2 * Atanh(self / (self + 2)), Log(self + 1))")
        .samples(unary_samples("lo=-0.5"));
    real_op<Erf>(t, "erf")
        .doc("The error function 2/sqrt(pi) int_0^x e^(-t^2) dt.\n"
             ">>> weft.erf(weft.tensor([0., 1.]))\ntensor([0.0000, 0.8427])")
        .grad(0, save_in(0), [](const Grad& g) { return gauss(g, 2 * std::numbers::inv_sqrtpi); })
        .onnx("Erf(self)")
        .samples(unary_samples());
    real_op<Erfc>(t, "erfc")
        .doc("1 - erf(self), exact for large self.\n>>> weft.erfc(weft.tensor([0., 1.]))\n"
             "tensor([1.0000, 0.1573])")
        .grad(0, save_in(0), [](const Grad& g) { return gauss(g, -2 * std::numbers::inv_sqrtpi); })
        .onnx("1 - Erf(self)")
        .samples(unary_samples());
}

/// 1 / sqrt(1 - x^2); of complex x by factors, which know the side of the cut that x lies on: what
/// is subtracted leaves a zero its sign, what is added does not.
Tensor asin_slope(const Tensor& x) {
    if (!is_complex(x.dtype())) return rsqrt(one_minus_square(x));
    return rsqrt(-(x - 1.0)) * rsqrt(x - -1.0);
}

void register_trigonometric(Table& t) {
    analytic_op<Guarded<math::Sin>, ComplexSin>(t, "sin")
        .doc("Sine of radians.\n>>> weft.sin(weft.tensor([0., 1.]))\ntensor([0.0000, 0.8415])")
        .grad(0, save_in(0), [](const Grad& g) { return g.grad() * ops::cos(conj(g.in(0))); })
        .onnx("Sin(self)")
        .samples(unary_samples());
    analytic_op<Guarded<math::Cos>, ComplexCos>(t, "cos")
        .doc("Cosine of radians.\n>>> weft.cos(weft.tensor([0., 1.]))\ntensor([1.0000, 0.5403])")
        .grad(0, save_in(0),
              [](const Grad& g) { return scaled_mul(g.grad(), ops::sin(conj(g.in(0))), -1.0); })
        .onnx("Cos(self)")
        .samples(unary_samples());
    analytic_op<Guarded<math::Tan>, ComplexTan>(t, "tan")
        .doc("Tangent of radians.\n>>> weft.tan(weft.tensor([0., 1.]))\ntensor([0.0000, 1.5574])")
        .grad(0, save_out(0),
              [](const Grad& g) {
                  Tensor y = conj(g.out(0));
                  return g.grad() * (y * y + 1.0);
              })
        .onnx("Tan(self)")
        .samples(unary_samples("lo=-1, hi=1"));
    analytic_op<Asin, ComplexAsin>(t, "asin")
        .alias("arcsin")
        .doc("Inverse sine, in [-pi/2, pi/2]; NaN outside [-1, 1].\n"
             ">>> weft.asin(weft.tensor([0., 1.]))\ntensor([0.0000, 1.5708])")
        .grad(0, save_in(0), [](const Grad& g) { return g.grad() * asin_slope(conj(g.in(0))); })
        .onnx("Asin(self)")
        .samples(unary_samples("lo=-0.8, hi=0.8"));
    analytic_op<Acos, ComplexAcos>(t, "acos")
        .alias("arccos")
        .doc("Inverse cosine, in [0, pi]; NaN outside [-1, 1].\n"
             ">>> weft.acos(weft.tensor([0., 1.]))\ntensor([1.5708, 0.0000])")
        .grad(0, save_in(0),
              [](const Grad& g) { return scaled_mul(g.grad(), asin_slope(conj(g.in(0))), -1.0); })
        .onnx("Acos(self)")
        .samples(unary_samples("lo=-0.8, hi=0.8"));
    analytic_op<Atan, ComplexAtan>(t, "atan")
        .alias("arctan")
        .doc("Inverse tangent, in [-pi/2, pi/2].\n>>> weft.atan(weft.tensor([0., 1.]))\n"
             "tensor([0.0000, 0.7854])")
        .grad(0, save_in(0),
              [](const Grad& g) {
                  Tensor x = conj(g.in(0));
                  return g.grad() / (x * x + 1.0);
              })
        .onnx("Atan(self)")
        .samples(unary_samples());
    analytic_op<Sinh, ComplexSinh>(t, "sinh")
        .doc("Hyperbolic sine.\n>>> weft.sinh(weft.tensor([0., 1.]))\ntensor([0.0000, 1.1752])")
        .grad(0, save_in(0), [](const Grad& g) { return g.grad() * cosh(conj(g.in(0))); })
        .onnx("Sinh(self)")
        .samples(unary_samples());
    analytic_op<Cosh, ComplexCosh>(t, "cosh")
        .doc("Hyperbolic cosine.\n>>> weft.cosh(weft.tensor([0., 1.]))\ntensor([1.0000, 1.5431])")
        .grad(0, save_in(0), [](const Grad& g) { return g.grad() * sinh(conj(g.in(0))); })
        .onnx("Cosh(self)")
        .samples(unary_samples());
}

void register_rounding(Table& t) {
    same_op<Floor, NumberTypes>(t, "floor")
        .uint64(Uint64::Bits)
        .doc("The largest integer not above self.\n>>> weft.floor(weft.tensor([1.7, -1.2]))\n"
             "tensor([ 1., -2.])")
        .grad(0, 0, zero_gradient)
        .onnx("Floor(self) if floating(self) else Identity(self)")
        .samples({"f(T(2, 3))", "f(T())", "f(T(0, 3))", "f(I(4))"});
    same_op<Ceil, NumberTypes>(t, "ceil")
        .uint64(Uint64::Bits)
        .doc("The smallest integer not below self.\n>>> weft.ceil(weft.tensor([1.2, -1.7]))\n"
             "tensor([ 2., -1.])")
        .grad(0, 0, zero_gradient)
        .onnx("Ceil(self) if floating(self) else Identity(self)")
        .samples({"f(T(2, 3))", "f(T())", "f(T(0, 3))", "f(I(4))"});
    same_op<Trunc, NumberTypes>(t, "trunc")
        .uint64(Uint64::Bits)
        .alias("fix")
        .doc("self without its fraction.\n>>> weft.trunc(weft.tensor([1.7, -1.7]))\n"
             "tensor([ 1., -1.])")
        .grad(0, 0, zero_gradient)
        .onnx("Where(self < 0, Ceil(self), Floor(self)) if floating(self) else Identity(self)")
        .samples({"f(T(2, 3))", "f(T())", "f(T(0, 3))", "f(I(4))"});
    same_op<Frac, FloatingTypes>(t, "frac")
        .doc("self - trunc(self). Floating dtypes.\n>>> weft.frac(weft.tensor([1.25, -1.25]))\n"
             "tensor([ 0.2500, -0.2500])")
        .grad(0, 0, [](const Grad& g) { return g.grad(); })
        .onnx("self - form('trunc', self=self)")
        .samples(unary_samples());
    shaped_op(t, "round(Tensor self, *, int decimals=0) -> Tensor", round_kernel)
        .uint64(Uint64::Bits)
        .doc("To the nearest multiple of 10^-decimals, halves to the even one.\n"
             ">>> weft.round(weft.tensor([0.5, 1.5, 2.6]))\ntensor([0., 2., 3.])")
        .inplace()
        .node_name(
            [](const Call& c) { return c.attr(0).as_int() ? "RoundBackward1" : "RoundBackward0"; })
        .grad(0, 0, zero_gradient)
        .samples({"f(T(2, 3))", "f(T(2, 3), decimals=1)", "f(T(), decimals=-1)", "f(T(0, 3))"});
}

void register_predicates(Table& t) {
    predicate_op<IsNan, ComplexIsNan>(t, "isnan")
        .float8()
        .doc("Whether elements are NaN, as bools.\n"
             ">>> weft.isnan(weft.tensor([1., float('nan')]))\n"
             "tensor([False,  True])")
        .onnx("IsNaN(self) if floating(self) else truth(self * 0)")
        .samples({"f(T(2, 3))", "f(I(4))", "f(B(2))"});
    predicate_op<IsInf, ComplexIsInf>(t, "isinf")
        .float8()
        .doc("Whether elements are infinite.\n>>> weft.isinf(weft.tensor([1., float('inf')]))\n"
             "tensor([False,  True])")
        .onnx("IsInf(self) if floating(self) else truth(self * 0)")
        .samples({"f(T(2, 3))", "f(I(4))", "f(B(2))"});
    predicate_op<IsFinite, ComplexIsFinite>(t, "isfinite")
        .float8()
        .doc("Whether elements are neither infinite nor NaN.\n"
             ">>> weft.isfinite(weft.tensor([1., float('nan')]))\ntensor([ True, False])")
        .onnx("Not(IsNaN(self * 0)) if floating(self) else truth(self * 0 + 1)")
        .samples({"f(T(2, 3))", "f(I(4))", "f(B(2))"});
    shaped_op(t, "logical_not(Tensor self) -> Tensor", pointwise<Result::Bool>, logical_not_kernel)
        .uint64(Uint64::Bits)
        .doc("Whether elements are zero.\n>>> weft.logical_not(weft.tensor([0, 3]))\n"
             "tensor([ True, False])")
        .inplace()
        .onnx("Not(truth(self))")
        .samples({"f(T(2, 3))", "f(I(4))", "f(B(2))"});
    shaped_op(t, "bitwise_not(Tensor self) -> Tensor", bitwise_not_kernel)
        .uint64(Uint64::Bits)
        .doc("~self: all bits flipped; for bools, not.\n>>> weft.bitwise_not(weft.tensor([0, 5]))\n"
             "tensor([-1, -6])")
        .inplace()
        .onnx("Not(self) if boolean(self) else BitwiseNot(self)")
        .samples({"f(I(4))", "f(B(2, 3))", "f(I())"});
    shaped_op(t,
              "nan_to_num(Tensor self, float? nan=None, float? posinf=None, "
              "float? neginf=None) -> Tensor",
              nan_to_num_kernel)
        .every_dtype()
        .doc("NaN becomes `nan` (0), infinities become `posinf` and `neginf` (the dtype's largest "
             "and "
             "lowest number).\n>>> weft.nan_to_num(weft.tensor([1., float('nan')]))\n"
             "tensor([1., 0.])")
        .inplace()
        .grad(0, save_in(0),
              [](const Grad& g) {
                  static const Function isfinite{"isfinite"};
                  return ops::where(isfinite(g.in(0)), g.grad(), number(0, g.grad().dtype()));
              })
        .samples({"f(T(2, 3))", "f(T(2, 3), nan=1.0, posinf=2.0)", "f(T())", "f(I(3))"});
}

#undef WEFT_FUNCTOR
#undef WEFT_MATH_FUNCTOR
#undef WEFT_PREDICATE

}  // namespace

void register_unary(Table& t) {
    kernels::add_half_loops<Neg, 1>();
    kernels::add_half_loops<Abs, 1>();
    register_arithmetic(t);
    register_exponential(t);
    register_trigonometric(t);
    register_rounding(t);
    register_predicates(t);
}

}  // namespace weft
