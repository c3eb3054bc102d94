/// Smooth activations. (Those made of straight lines are in rectifier.cpp.)
///
/// Each has a fused backward op, so that a step costs one kernel either way. The backward ops are
/// linear in `grad`; their own gradients are expressions over ops, which gives all higher orders.
#include <numbers>

#include "kernels/complex.h"
#include "kernels/math.h"
#include "ops/conj.h"
#include "ops/pointwise_common.h"

namespace weft {
namespace {

using namespace ops;
namespace math = kernels::math;

const Function sigmoid_backward{"sigmoid_backward"}, tanh_backward{"tanh_backward"},
    silu_backward{"silu_backward"}, mish_backward{"mish_backward"}, gelu_backward{"gelu_backward"},
    softplus_backward{"softplus_backward"}, logsigmoid_backward{"log_sigmoid_backward"},
    elu_backward{"elu_backward"}, ops_abs{"abs"}, real_part{"real"};

struct Sigmoid {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return math::sigmoid(x);
    }
};
struct SigmoidBackward {
    template <class T>
    WEFT_INLINE T operator()(T g, T y) const {
        return g * (T(1) - y) * y;
    }
};
struct Tanh {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return math::tanh(x);
    }
};
struct TanhBackward {
    template <class T>
    WEFT_INLINE T operator()(T g, T y) const {
        return g * (T(1) - y * y);
    }
};
struct ComplexTanh {
    template <class T>
    T operator()(T x) const {
        return std::tanh(x);
    }
};
struct ComplexSigmoid {
    template <class T>
    T operator()(T x) const {
        return kernels::over(T(1), T(1) + std::exp(-x));
    }
};
struct Silu {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return x * math::sigmoid(x);
    }
};
struct SiluBackward {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T g, T x) const {
        T s = math::sigmoid(x);
        return g * s * (T(1) + x * (T(1) - s));
    }
};
struct ComplexSilu {
    template <class T>
    T operator()(T x) const {
        return kernels::times(x, ComplexSigmoid{}(x));
    }
};
struct ComplexSiluBackward {
    template <class T>
    T operator()(T g, T x) const {
        T s = ComplexSigmoid{}(x);
        return kernels::times(g, std::conj(kernels::times(s, T(1) + kernels::times(x, T(1) - s))));
    }
};

/// Functor F for real numbers, G for complex ones.
template <class F, class G, Result R, int N>
void or_complex_activation(Call& c) {
    if (is_complex(compute_dtype<R>(c))) return map_kernel<G, ComplexTypes, Result::Same, N>(c);
    map_kernel<F, FloatingTypes, R, N>(c);
}

/// tanh(log(1 + e^x)) = n / (n + 2) with n = e^x (e^x + 2): one exp, no cancellation.
template <class T>
struct TanhSoftplus {
    T n;
    bool saturated;
    WEFT_INLINE explicit TanhSoftplus(T x) : saturated(x > T(20)) {
        T e = math::exp(saturated ? T(20) : x);
        n = e * (e + T(2));
    }
    WEFT_INLINE T value() const { return saturated ? T(1) : n / (n + T(2)); }
    /// 1 - value^2
    WEFT_INLINE T slope() const {
        return saturated ? T(0) : T(4) * (n + T(1)) / ((n + T(2)) * (n + T(2)));
    }
};
struct Mish {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return x * TanhSoftplus<T>(x).value();
    }
};
struct MishBackward {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T g, T x) const {
        TanhSoftplus<T> t(x);
        return g * (t.value() + x * math::sigmoid(x) * t.slope());
    }
};

struct Gelu {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return math::gelu(x);
    }
};
struct GeluBackward {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T g, T x) const {
        return g * math::gelu_derivative(x);
    }
};
struct GeluTanh {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return math::gelu_tanh(x);
    }
};
struct GeluTanhBackward {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T g, T x) const {
        return g * math::gelu_tanh_derivative(x);
    }
};

/// log(1 + e^(beta x)) / beta; x itself where beta x > threshold.
struct Softplus {
    static constexpr int one_loop = 32;
    double beta, threshold;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        T b = static_cast<T>(beta), z = x * b;
        return z > static_cast<T>(threshold) ? x : math::softplus(z) / b;
    }
};
struct SoftplusBackward {
    static constexpr int one_loop = 32;
    double beta, threshold;
    template <class T>
    WEFT_INLINE T operator()(T g, T x) const {
        T z = x * static_cast<T>(beta);
        return z > static_cast<T>(threshold) ? g : g * math::sigmoid(z);
    }
};
struct LogSigmoid {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return T(0) - math::softplus(-x);
    }
};
struct LogSigmoidBackward {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T g, T x) const {
        return g * math::sigmoid(-x);
    }
};
struct Softsign {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return x / (T(1) + (x < T(0) ? -x : x));
    }
};
struct ComplexSoftsign {
    template <class T>
    T operator()(T x) const {
        return x / (1 + std::abs(x));
    }
};

/// x / d with d = 1 + |x|, where d moves along x / |x|.
Tensor softsign_gradient(const Grad& g) {
    Tensor x = g.in(0), d = ops_abs(x) + 1.0;
    if (!is_complex(x.dtype())) return g.grad() / d / d;
    return g.grad() / d - sgn(x) * (real_part(conj(x) * g.grad()) / (d * d));
}
/// Of two ops, so that self may be written afterwards: the gradient is made of tanh(self).
void tanhshrink_body(Call& c) {
    const Tensor& self = c.in[0];
    WEFT_EXPECT(
        self.dtype() != DType::Bool, Runtime, c.name(), "numbers",
        "a bool tensor (Subtraction, the `-` operator, with a bool tensor is not supported)");
    c.set(self - ops::tanh(self));
}

/// elu, selu and celu are positive * x above 0, negative * (e^(inner x) - 1) below.
struct EluNumbers {
    double positive, negative, inner;
};
struct Elu : EluNumbers {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        T below = static_cast<T>(negative) * math::expm1(x * static_cast<T>(inner));
        return x <= T(0) ? below : x * static_cast<T>(positive);
    }
};
struct EluBackward : EluNumbers {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T g, T x) const {
        T below = static_cast<T>(inner * negative) * math::exp(x * static_cast<T>(inner));
        return g * (x > T(0) ? static_cast<T>(positive) : below);
    }
};

/// Klambauer et al., arXiv:1706.02515.
constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
constexpr double kSeluScale = 1.0507009873554804934193349852946;

/// Runs F, made from the call's attributes, over the floating dtypes.
template <class F, int N>
void run_floating(Call& c, const F& f) {
    dispatch<FloatingTypes>(compute_dtype<Result::Same>(c), c.op->public_name,
                            [&]<class T>() { map_inputs<T, T, N>(c, f); });
}

bool is_tanh(const Value& approximate) {
    const std::string& how = approximate.as_text();
    if (how == "none") return false;
    WEFT_EXPECT(how == "tanh", Runtime, "gelu", "approximate to be 'none' or 'tanh'",
                text("'", how, "'"));
    return true;
}
template <class Exact, class Approximate, int N>
void gelu_kernel(Call& c) {
    if (is_tanh(c.attr(0))) run_floating<Approximate, N>(c, {});
    else run_floating<Exact, N>(c, {});
}

/// d2 gelu / dx2: density (2 - x^2), or of x s(v), s the logistic function and
/// v = scale (x + 0.044715 x^3): s(1 - s) (2v' + x (v'' + (1 - 2s) v'^2)).
Tensor gelu_curvature(const Tensor& x, bool tanh) {
    Tensor xx = x * x;
    constexpr double scale = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    if (!tanh) return ops::exp(xx * -0.5) * ((2.0 - xx) * (scale / 4));
    constexpr double cube = scale * 0.044715;
    Tensor s = ops::sigmoid(x * (xx * cube + scale));
    Tensor d = xx * (3 * cube) + scale;
    Tensor dd = x * (6 * cube);
    return s * (1.0 - s) * (d * 2.0 + x * (dd + (1.0 - s * 2.0) * d * d));
}

EluNumbers elu_numbers(const Value* v) {
    double alpha = v[0].as_double(), scale = v[1].as_double(), inner = v[2].as_double();
    return {scale, alpha * scale, inner};
}
double celu_alpha(const Value& v) {
    WEFT_EXPECT(v.as_double() != 0, Runtime, "celu", "alpha other than 0", "0 (ZeroDivisionError)");
    return v.as_double();
}

/// Name, shape rule and properties of a function that floating dtypes keep.
template <class F, int N>
OpBuilder floating_op(Table& t, std::string_view schema,
                      std::source_location where = std::source_location::current()) {
    return pointwise_op<F, FloatingTypes, Result::Same, N>(t, schema, where);
}
void register_sigmoids(Table& t) {
    pointwise_op<Sigmoid, FloatingTypes, Result::Float, 1>(t, "sigmoid(Tensor self) -> Tensor")
        .doc("1 / (1 + e^-self).\n>>> weft.sigmoid(weft.tensor([0., 2.]))\n"
             "tensor([0.5000, 0.8808])")
        .inplace()
        .kernel(or_complex_activation<Sigmoid, ComplexSigmoid, Result::Float, 1>)
        .grad(0, save_out(0),
              [](const Grad& g) {
                  Tensor y = g.out(0);
                  if (!is_complex(y.dtype())) return sigmoid_backward(g.grad(), y);
                  return g.grad() * conj((1.0 - y) * y);
              })
        .onnx("Sigmoid(self)")
        .samples(unary_samples());
    floating_op<SigmoidBackward, 2>(t, "sigmoid_backward(Tensor grad, Tensor output) -> Tensor")
        .doc("grad * (1 - output) * output.")
        .internal()
        .grad(0, save_in(1), [](const Grad& g) { return sigmoid_backward(g.grad(), g.in(1)); })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) { return g.grad() * g.in(0) * (1.0 - g.in(1) * 2.0); });
    pointwise_op<Tanh, FloatingTypes, Result::Float, 1>(t, "tanh(Tensor self) -> Tensor")
        .doc("Hyperbolic tangent.\n>>> weft.tanh(weft.tensor([0., 1.]))\ntensor([0.0000, 0.7616])")
        .inplace()
        .kernel(or_complex_activation<Tanh, ComplexTanh, Result::Float, 1>)
        .grad(0, save_out(0),
              [](const Grad& g) {
                  Tensor y = g.out(0);
                  if (!is_complex(y.dtype())) return tanh_backward(g.grad(), y);
                  return g.grad() * conj(1.0 - y * y);
              })
        .onnx("Tanh(self)")
        .samples(unary_samples());
    floating_op<TanhBackward, 2>(t, "tanh_backward(Tensor grad, Tensor output) -> Tensor")
        .doc("grad * (1 - output^2).")
        .internal()
        .grad(0, save_in(1), [](const Grad& g) { return tanh_backward(g.grad(), g.in(1)); })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) { return scaled_mul(g.grad() * g.in(0), g.in(1), -2.0); });
    floating_op<LogSigmoid, 1>(t, "logsigmoid(Tensor self) -> Tensor")
        .doc("log(1 / (1 + e^-self)), finite for all finite self.\n"
             ">>> weft.logsigmoid(weft.tensor([0., -100.]))\ntensor([  -0.6931, -100.0000])")
        .function_only()
        .node_name("LogSigmoidBackward0")
        .grad(0, save_in(0), [](const Grad& g) { return logsigmoid_backward(g.grad(), g.in(0)); })
        .onnx("0 - Softplus(-self)")
        .samples(unary_samples());
    floating_op<LogSigmoidBackward, 2>(t,
                                       "log_sigmoid_backward(Tensor grad, Tensor self) -> Tensor")
        .doc("grad / (1 + e^self).")
        .internal()
        .grad(0, save_in(1), [](const Grad& g) { return logsigmoid_backward(g.grad(), g.in(1)); })
        .grad(1, save_in(0) | save_in(1), [](const Grad& g) {
            Tensor s = ops::sigmoid(g.in(1));
            return scaled_mul(g.grad() * g.in(0), s * (1.0 - s), -1.0);
        });
    pointwise_op<Softsign, FloatingTypes, Result::Float, 1>(t, "softsign(Tensor self) -> Tensor")
        .doc("self / (1 + |self|).\n>>> weft.softsign(weft.tensor([1., -3.]))\n"
             "tensor([ 0.5000, -0.7500])")
        .function_only()
        .node_name("DivBackward0")
        .kernel(or_complex_activation<Softsign, ComplexSoftsign, Result::Float, 1>)
        .grad(0, save_in(0), softsign_gradient)
        .onnx("Softsign(self)")
        .samples(unary_samples());
    t.add("tanhshrink(Tensor self) -> Tensor")
        .doc("self - tanh(self). Of self's shape.\n"
             ">>> weft.tanhshrink(weft.tensor([0., 1.]))\n"
             "tensor([0.0000, 0.2384])")
        .body(tanhshrink_body)
        .batch(Batch::Body)
        .function_only()
        .onnx("self - Tanh(self)")
        .samples(unary_samples());
}

void register_gated(Table& t) {
    floating_op<Silu, 1>(t, "silu(Tensor self) -> Tensor")
        .doc("self * sigmoid(self) (arXiv:1702.03118).\n>>> weft.silu(weft.tensor([0., 1.]))\n"
             "tensor([0.0000, 0.7311])")
        .kernel(or_complex_activation<Silu, ComplexSilu, Result::Same, 1>)
        .function_only()
        .inplace()
        .grad(0, save_in(0), [](const Grad& g) { return silu_backward(g.grad(), g.in(0)); })
        .onnx("self * Sigmoid(self)")
        .samples(unary_samples());
    floating_op<SiluBackward, 2>(t, "silu_backward(Tensor grad, Tensor self) -> Tensor")
        .doc("grad * conj(s (1 + self (1 - s))), s = sigmoid(self).")
        .internal()
        .node_name("MulBackward0")
        .kernel(or_complex_activation<SiluBackward, ComplexSiluBackward, Result::Same, 2>)
        .grad(0, save_in(1), [](const Grad& g) { return silu_backward(g.grad(), conj(g.in(1))); })
        .grad(1, save_in(0) | save_in(1), [](const Grad& g) {
            Tensor x = conj(g.in(1)), s = ops::sigmoid(x);
            return conj(g.grad()) * g.in(0) * (s * (1.0 - s) * (x * (1.0 - s * 2.0) + 2.0));
        });
    floating_op<Mish, 1>(t, "mish(Tensor self) -> Tensor")
        .doc("self * tanh(softplus(self)) (arXiv:1908.08681).\n"
             ">>> weft.mish(weft.tensor([0., 1.]))\n"
             "tensor([0.0000, 0.8651])")
        .function_only()
        .inplace()
        .grad(0, save_in(0), [](const Grad& g) { return mish_backward(g.grad(), g.in(0)); })
        .onnx("self * Tanh(Softplus(self))")
        .samples(unary_samples());
    floating_op<MishBackward, 2>(t, "mish_backward(Tensor grad, Tensor self) -> Tensor")
        .doc("grad * (y + self * sigmoid(self) * (1 - y^2)), y = tanh(softplus(self)).")
        .internal()
        .node_name("MulBackward0")
        .grad(0, save_in(1), [](const Grad& g) { return mish_backward(g.grad(), g.in(1)); })
        .grad(1, save_in(0) | save_in(1), [](const Grad& g) {
            Tensor x = g.in(1), s = ops::sigmoid(x), y = ops::tanh(softplus(x));
            return g.grad() * g.in(0) * ((1.0 - y * y) * s * (x * (1.0 - s - s * y * 2.0) + 2.0));
        });
    shaped_op(t, "gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
              gelu_kernel<Gelu, GeluTanh, 1>)
        .doc("self * Phi(self), Phi the normal distribution function; approximate='tanh' is the "
             "formula of the paper (arXiv:1606.08415).\n>>> weft.gelu(weft.tensor([0., 1.]))\n"
             "tensor([0.0000, 0.8413])")
        .function_only()
        .grad(0, save_in(0),
              [](const Grad& g) { return gelu_backward(g.grad(), g.in(0), g.attr(0)); })
        .onnx("Gelu(self, approximate=approximate)")
        .samples({"f(T(2, 3))", "f(T())", "f(T(0, 3))", "f(T(2, 3), approximate='tanh')"});
    shaped_op(t, "gelu_backward(Tensor grad, Tensor self, *, str approximate=\"none\") -> Tensor",
              gelu_kernel<GeluBackward, GeluTanhBackward, 2>)
        .doc("grad * gelu'(self).")
        .internal()
        .grad(0, save_in(1),
              [](const Grad& g) { return gelu_backward(g.grad(), g.in(1), g.attr(0)); })
        .grad(1, save_in(0) | save_in(1), [](const Grad& g) {
            return g.grad() * g.in(0) * gelu_curvature(g.in(1), is_tanh(g.attr(0)));
        });
    shaped_op(t, "softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
              [](Call& c) {
                  Softplus f{c.attr(0).as_double(), c.attr(1).as_double()};
                  run_floating<Softplus, 1>(c, f);
              })
        .doc("log(1 + e^(beta self)) / beta; self itself where beta self > threshold.\n"
             ">>> weft.softplus(weft.tensor([0., 30.]))\ntensor([ 0.6931, 30.0000])")
        .function_only()
        .grad(0, save_in(0),
              [](const Grad& g) {
                  return softplus_backward(g.grad(), g.in(0), g.attr(0), g.attr(1));
              })
        .onnx("Where(self * beta > threshold, self, Softplus(self * beta) / beta)")
        .samples({"f(T(2, 3))", "f(T(), 2.0)", "f(T(2, 3), beta=3, threshold=2)", "f(T(0, 3))"});
    shaped_op(t,
              "softplus_backward(Tensor grad, Tensor self, Scalar beta, "
              "Scalar threshold) -> Tensor",
              [](Call& c) {
                  SoftplusBackward f{c.attr(0).as_double(), c.attr(1).as_double()};
                  run_floating<SoftplusBackward, 2>(c, f);
              })
        .doc("grad * sigmoid(beta self), or grad beyond the threshold.")
        .internal()
        .grad(0, save_in(1),
              [](const Grad& g) {
                  return softplus_backward(g.grad(), g.in(1), g.attr(0), g.attr(1));
              })
        .grad(1, save_in(0) | save_in(1), [](const Grad& g) {
            double beta = g.attr(0).as_double();
            Tensor z = g.in(1) * beta, s = ops::sigmoid(z);
            Tensor d = scaled_mul(g.grad() * g.in(0), s * (1.0 - s), beta);
            Tensor past = ops::gt(z, number(g.attr(1).as_double(), z.dtype()));
            return ops::where(past, number(0, z.dtype()), d);
        });
}

void register_exponential_units(Table& t) {
    shaped_op(t, "elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
              [](Call& c) { run_floating<Elu, 1>(c, {elu_numbers(c.attrs)}); })
        .doc("scale * self above 0, scale * alpha * (e^(input_scale self) - 1) below "
             "(arXiv:1511.07289).\n>>> weft.elu(weft.tensor([1., -1.]))\n"
             "tensor([ 1.0000, -0.6321])")
        .function_only()
        .inplace()
        .node_name([](const Call& c) { return c.in_place ? "EluBackward1" : "EluBackward0"; })
        .grad(0, save_in(0),
              [](const Grad& g) {
                  return elu_backward(g.grad(), g.in(0), g.attr(0), g.attr(1), g.attr(2));
              })
        .onnx("Where(self > 0, self, (Exp(self * input_scale) - 1) * alpha) * scale")
        .samples({"f(T(2, 3))", "f(T(), 0.5)", "f(T(2, 3), alpha=2.0)", "f(T(0, 3))"});
    shaped_op(t, "selu(Tensor self) -> Tensor",
              [](Call& c) { run_floating<Elu, 1>(c, {{kSeluScale, kSeluAlpha * kSeluScale, 1}}); })
        .doc("elu with the constants that keep mean 0 and variance 1 (arXiv:1706.02515).\n"
             ">>> weft.selu(weft.tensor([1., -1.]))\ntensor([ 1.0507, -1.1113])")
        .function_only()
        .inplace()
        .node_name([](const Call& c) { return c.in_place ? "EluBackward1" : "EluBackward0"; })
        .grad(0, save_in(0),
              [](const Grad& g) {
                  return elu_backward(g.grad(), g.in(0), kSeluAlpha, kSeluScale, 1.0);
              })
        .onnx("Selu(self)")
        .samples(unary_samples());
    shaped_op(t, "celu(Tensor self, Scalar alpha=1) -> Tensor",
              [](Call& c) {
                  double alpha = celu_alpha(c.attr(0));
                  run_floating<Elu, 1>(c, {{1, alpha, 1 / alpha}});
              })
        .doc("self above 0, alpha * (e^(self / alpha) - 1) below (arXiv:1704.07483). alpha 0 "
             "raises.\n"
             ">>> weft.celu(weft.tensor([1., -1.]), 2.0)\ntensor([ 1.0000, -0.7869])")
        .function_only()
        .inplace()
        .node_name([](const Call& c) { return c.in_place ? "CeluBackward1" : "CeluBackward0"; })
        .grad(0, save_in(0),
              [](const Grad& g) {
                  double alpha = g.attr(0).as_double();
                  return elu_backward(g.grad(), g.in(0), alpha, 1.0, 1 / alpha);
              })
        .onnx("Celu(self, alpha=float(alpha))")
        .samples({"f(T(2, 3))", "f(T(), 0.5)", "f(T(2, 3), alpha=2.0)", "f(T(0, 3))"});
    shaped_op(t,
              "elu_backward(Tensor grad, Tensor self, Scalar alpha, Scalar scale, "
              "Scalar input_scale) -> Tensor",
              [](Call& c) { run_floating<EluBackward, 2>(c, {elu_numbers(c.attrs)}); })
        .doc("grad * elu'(self).")
        .internal()
        .grad(0, save_in(1),
              [](const Grad& g) {
                  return elu_backward(g.grad(), g.in(1), g.attr(0), g.attr(1), g.attr(2));
              })
        .grad(1, save_in(0) | save_in(1), [](const Grad& g) {
            EluNumbers n = elu_numbers(&g.attr(0));
            Tensor x = g.in(1), zero = number(0, x.dtype());
            Tensor d = scaled_mul(g.grad() * g.in(0), ops::exp(x * n.inner),
                                  n.negative * n.inner * n.inner);
            return ops::where(ops::lt(x, zero), d, zero);
        });
}

}  // namespace

void register_activation(Table& t) {
    register_sigmoids(t);
    register_gated(t);
    register_exponential_units(t);
}

}  // namespace weft
