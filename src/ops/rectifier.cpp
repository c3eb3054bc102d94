/// Activations made of straight lines: relu and its relatives.
///
/// The gradient of each is `grad` times a number that depends on where self lies. That op is linear
/// in `grad` and constant in self almost everywhere, which settles all higher orders: to self its
/// gradient is zero, but there is one, so that a penalty on gradients can be differentiated.
#include <cmath>

#include "ops/batch.h"
#include "ops/copy.h"
#include "ops/pointwise_common.h"

namespace weft {
namespace {

using namespace ops;

const Function threshold_backward{"threshold_backward"}, leaky_relu_backward{"leaky_relu_backward"},
    hardtanh_backward{"hardtanh_backward"}, hardsigmoid_backward{"hardsigmoid_backward"},
    hardswish_backward{"hardswish_backward"}, prelu_kernel{"_prelu_kernel"},
    prelu_backward{"prelu_backward"}, clamp_max{"clamp_max"};

struct Relu {
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return x < T(0) ? T(0) : x;
    }
};
template <class T>
struct Threshold {
    static constexpr int one_loop = 64;
    T threshold, value;
    WEFT_INLINE T operator()(T x) const { return x <= threshold ? value : x; }
};
struct ThresholdBackward {
    double threshold;
    template <class T>
    WEFT_INLINE T operator()(T g, T x) const {
        return x <= static_cast<T>(threshold) ? T(0) : g;
    }
};
struct LeakyRelu {
    static constexpr int one_loop = 64;
    double slope;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return x > T(0) ? x : x * static_cast<T>(slope);
    }
};
struct LeakyReluBackward {
    static constexpr int one_loop = 64;
    double slope;
    template <class T>
    WEFT_INLINE T operator()(T g, T x) const {
        return x > T(0) ? g : g * static_cast<T>(slope);
    }
};
struct HardtanhBackward {
    static constexpr int one_loop = 64;
    double low, high;
    template <class T>
    WEFT_INLINE T operator()(T g, T x) const {
        return ((x > static_cast<T>(low)) & (x < static_cast<T>(high))) ? g : T(0);
    }
};
struct Hardsigmoid {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return Clamp<T>{0, 6}(x + T(3)) / T(6);
    }
};
struct HardsigmoidBackward {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE T operator()(T g, T x) const {
        return x > T(-3) && x < T(3) ? g * T(1.0 / 6) : T(0);
    }
};
struct Hardswish {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return x * Clamp<T>{0, 6}(x + T(3)) / T(6);
    }
};
struct HardswishBackward {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE T operator()(T g, T x) const {
        T inside = g * (x / T(3) + T(0.5));
        return x <= T(-3) ? T(0) : x >= T(3) ? g : inside;
    }
};
struct Softshrink {
    static constexpr int one_loop = 64;
    double lambda;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        T l = static_cast<T>(lambda);
        return x > l ? x - l : x < -l ? x + l : x * T(0);  // NaN, and the sign, stay
    }
};
struct Hardshrink {
    static constexpr int one_loop = 64;
    double lambda;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        T l = static_cast<T>(lambda);
        return x >= -l && x <= l ? T(0) : x;
    }
};
struct ShrinkBackward {
    static constexpr int one_loop = 64;
    double lambda;
    template <class T>
    WEFT_INLINE T operator()(T g, T x) const {
        T l = static_cast<T>(lambda);
        return ((x > l) | (x < -l)) ? g : T(0);
    }
};
struct Prelu {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE T operator()(T x, T w) const {
        return x > T(0) ? x : w * x;
    }
};
struct PreluBackward {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE T operator()(T g, T x, T w) const {
        return x > T(0) ? g : w * g;
    }
};

/// An op whose functor takes the first attribute.
template <class F, int N>
void with_number(Call& c) {
    F f{c.attr(0).as_double()};
    dispatch<FloatingTypes>(compute_dtype<Result::Same>(c), c.op->public_name,
                            [&]<class T>() { map_inputs<T, T, N>(c, f); });
}
/// A limit that is NaN leaves nothing else.
void clamp_kernel(Call& c, const Value& low, const Value& high) {
    if (std::isnan(low.as_double()) || std::isnan(high.as_double()))
        return copy_into(c.out(0), number(std::nan(""), c.out(0).dtype()));
    dispatch<NumberTypes>(c.in[0].dtype(), c.op->public_name, [&]<class T>() {
        map_inputs<T, T, 1>(c, Clamp<T>{number_as<T>(low), number_as<T>(high)});
    });
}

void check_lambda(Call& c) {
    double lambda = c.attr(0).as_double();
    WEFT_EXPECT(lambda >= 0 && std::isfinite(lambda), Runtime, c.name(),
                "a finite lambd of at least 0", text(lambda, " (lambda must be in range)"));
    pointwise<Result::Same>(c);
}

void threshold_shape(Call& c) {
    for (int i = 0; i < 2; ++i)
        WEFT_EXPECT(c.in[0].dtype() != DType::UInt8 || std::floor(c.attr(i).as_double()) >= 0,
                    Runtime, c.name(), "numbers of at least 0 for uint8",
                    text(c.attr(i).as_double(), " (value cannot be converted without overflow)"));
    pointwise<Result::Same>(c);
}

void register_relu(Table& t) {
    pointwise_op<Relu, NumberTypes, Result::Same, 1>(t, "relu(Tensor self) -> Tensor")
        .doc("self where positive, else 0; NaN stays. Bool raises.\n"
             ">>> weft.relu(weft.tensor([-1., 2.]))\ntensor([0., 2.])")
        .inplace()
        .grad(0, save_out(0),
              [](const Grad& g) { return threshold_backward(g.grad(), g.out(0), 0); })
        .onnx("Relu(self) if floating(self) else Max(self, 0)")
        .samples({"f(T(2, 3))", "f(T())", "f(T(0, 3))", "f(I(4))"});
    shaped_op(t, "threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
              threshold_shape,
              [](Call& c) {
                  dispatch<NumberTypes>(c.in[0].dtype(), c.name(), [&]<class T>() {
                      map_inputs<T, T, 1>(
                          c, Threshold<T>{number_as<T>(c.attr(0)), number_as<T>(c.attr(1))});
                  });
              })
        .doc("self where it is above `threshold`, else `value`.\n"
             ">>> weft.threshold(weft.tensor([1., 3.]), 2, 0)\ntensor([0., 3.])")
        .function_only()
        .inplace()
        .node_name(
            [](const Call& c) { return c.in_place ? "ThresholdBackward1" : "ThresholdBackward0"; })
        .grad(0, save_in(0),
              [](const Grad& g) { return threshold_backward(g.grad(), g.in(0), g.attr(0)); })
        .onnx("Where(self <= threshold, value, self)")
        .samples({"f(T(2, 3), 0.3, 20)", "f(T(), -0.5, 1.5)", "f(T(0, 3), 0, 0)", "f(I(4), 2, 7)"});
    shaped_op(t, "threshold_backward(Tensor grad, Tensor self, Scalar threshold) -> Tensor",
              with_number<ThresholdBackward, 2>)
        .doc("0 where self <= threshold, else grad.")
        .internal()
        .grad(0, save_in(1),
              [](const Grad& g) { return threshold_backward(g.grad(), g.in(1), g.attr(0)); })
        .grad(1, 0, zero_gradient_of<1>);
    shaped_op(t, "leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
              with_number<LeakyRelu, 1>)
        .doc("self where positive, else negative_slope * self.\n"
             ">>> weft.leaky_relu(weft.tensor([-1., 2.]))\ntensor([-0.0100,  2.0000])")
        .function_only()
        .inplace()
        .node_name(
            [](const Call& c) { return c.in_place ? "LeakyReluBackward1" : "LeakyReluBackward0"; })
        .grad(0, save_in(0),
              [](const Grad& g) { return leaky_relu_backward(g.grad(), g.in(0), g.attr(0)); })
        .onnx("LeakyRelu(self, alpha=float(negative_slope))")
        .samples({"f(T(2, 3))", "f(T(), 0.2)", "f(T(2, 3), negative_slope=0.5)", "f(T(0, 3))"});
    shaped_op(t, "leaky_relu_backward(Tensor grad, Tensor self, Scalar negative_slope) -> Tensor",
              with_number<LeakyReluBackward, 2>)
        .doc("grad where self is positive, else negative_slope * grad.")
        .internal()
        .grad(0, save_in(1),
              [](const Grad& g) { return leaky_relu_backward(g.grad(), g.in(1), g.attr(0)); })
        .grad(1, 0, zero_gradient_of<1>);
}

void register_prelu(Table& t) {
    t.add("prelu(Tensor self, Tensor weight) -> Tensor")
        .autocast(Cast::Narrow)
        .doc("self where positive, else weight * self. `weight` has one element, or one for each "
             "channel (dimension 1).\n>>> weft.prelu(weft.tensor([-1., 2.]), weft.tensor([0.5]))\n"
             "tensor([-0.5000,  2.0000])")
        .body([](Call& c) {
            const Tensor &x = c.in[0], &w = c.in[1];
            WEFT_EXPECT(x.dtype() == w.dtype(), Runtime, "prelu", "weight of self's dtype",
                        text(name(x.dtype()), " and ", name(w.dtype())));
            WEFT_EXPECT(w.ndim() <= 1, Runtime, "prelu", "weight to be a scalar or 1D tensor",
                        text(w.ndim(), " dimensions"));
            if (x.ndim() == w.ndim() && w.numel() == 1) return c.set(prelu_kernel(x, w));
            int64_t channels = x.ndim() > 1 && w.numel() != 1 ? x.size(1) : 1;
            WEFT_EXPECT(w.numel() == channels, Runtime, "prelu",
                        "one weight, or one for each channel",
                        text(w.numel(),
                             " (Mismatch of parameter numbers and input channel size. Found "
                             "parameter numbers = ",
                             w.numel(), " and channel size = ", channels, ".)"));
            Dims shape;
            for (int d = 0; d < x.ndim(); ++d) shape.push_back(d == 1 ? channels : 1);
            c.set(prelu_kernel(x, ops::reshape(w, shape)));
        })
        .batch(Batch::Body)
        .samples({"f(T(2, 3), T(3))", "f(T(2, 3, 4), T(3))", "f(T(4), T(1))", "f(T(2, 3), T())"});
    pointwise_op<Prelu, FloatingTypes, Result::Same, 2>(
        t, "_prelu_kernel(Tensor self, Tensor weight) -> Tensor")
        .doc("self where positive, else weight * self, broadcast.")
        .internal()
        .node_name("PreluKernelBackward0")
        .grad(0, save_in(0) | save_in(1),
              [](const Grad& g) { return prelu_backward(g.grad(), g.in(0), g.in(1)); })
        .grad(1, save_in(0),
              [](const Grad& g) {
                  Tensor dw = g.grad() * clamp_max(g.in(0), 0);
                  return g.constant_in(1, dw, "PreluKernelBackwardBackward0");
              })
        .onnx("PRelu(self, weight)");
    pointwise_op<PreluBackward, FloatingTypes, Result::Same, 3>(
        t, "prelu_backward(Tensor grad, Tensor self, Tensor weight) -> Tensor")
        .doc("grad where self is positive, else weight * grad.")
        .internal()
        .node_name("PreluKernelBackwardBackward0")
        .grad(0, save_in(1) | save_in(2),
              [](const Grad& g) { return prelu_backward(g.grad(), g.in(1), g.in(2)); })
        .grad(1, 0, zero_gradient_of<1>)
        .grad(2, save_in(0) | save_in(1), [](const Grad& g) {
            Tensor zero = number(0, g.in(1).dtype());
            return ops::where(ops::gt(g.in(1), zero), zero, g.grad() * g.in(0));
        });
}

void hardtanh_shape(Call& c) {
    bool negative = c.attr(0).as_int() < 0 || c.attr(1).as_int() < 0;
    WEFT_EXPECT(c.in[0].dtype() != DType::UInt8 || !negative, Runtime, c.name(),
                "limits of at least 0 for uint8",
                "negative ones (cannot do hardtanh on an unsigned type with negative limits)");
    pointwise<Result::Same>(c);
}

void register_hard(Table& t) {
    shaped_op(t, "hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
              hardtanh_shape, [](Call& c) { clamp_kernel(c, c.attr(0), c.attr(1)); })
        .doc("self held between min_val and max_val; the gradient at the bounds is 0. Bool "
             "raises.\n"
             ">>> weft.hardtanh(weft.tensor([-3., 0.5]))\ntensor([-1.0000,  0.5000])")
        .function_only()
        .inplace()
        .grad(0, save_in(0),
              [](const Grad& g) {
                  return hardtanh_backward(g.grad(), g.in(0), g.attr(0), g.attr(1));
              })
        .onnx("Clip(self, min_val, max_val)")
        .samples(
            {"f(T(2, 3))", "f(T(), -0.5, 0.4)", "f(T(2, 3), min_val=0, max_val=6)", "f(T(0, 3))"});
    shaped_op(t, "relu6(Tensor self) -> Tensor", [](Call& c) { clamp_kernel(c, 0, 6); })
        .doc("self held between 0 and 6.\n>>> weft.relu6(weft.tensor([-3., 7.]))\ntensor([0., 6.])")
        .function_only()
        .inplace()
        .node_name("HardtanhBackward0")
        .grad(0, save_in(0),
              [](const Grad& g) { return hardtanh_backward(g.grad(), g.in(0), 0, 6); })
        .onnx("Clip(self, 0, 6)")
        .samples({"f(T(2, 3, lo=-1, hi=8))", "f(T())", "f(T(0, 3))", "f(I(4))"});
    shaped_op(t,
              "hardtanh_backward(Tensor grad, Tensor self, Scalar min_val, "
              "Scalar max_val) -> Tensor",
              [](Call& c) {
                  HardtanhBackward f{c.attr(0).as_double(), c.attr(1).as_double()};
                  dispatch<FloatingTypes>(compute_dtype<Result::Same>(c), c.name(),
                                          [&]<class T>() { map_inputs<T, T, 2>(c, f); });
              })
        .doc("grad where self is between the bounds, else 0.")
        .internal()
        .grad(0, save_in(1),
              [](const Grad& g) {
                  return hardtanh_backward(g.grad(), g.in(1), g.attr(0), g.attr(1));
              })
        .grad(1, 0, zero_gradient_of<1>);
    pointwise_op<Hardsigmoid, FloatingTypes, Result::Same, 1>(t,
                                                              "hardsigmoid(Tensor self) -> Tensor")
        .doc("relu6(self + 3) / 6.\n>>> weft.hardsigmoid(weft.tensor([-4., 0.]))\n"
             "tensor([0.0000, 0.5000])")
        .function_only()
        .inplace()
        .grad(0, save_in(0), [](const Grad& g) { return hardsigmoid_backward(g.grad(), g.in(0)); })
        .onnx("HardSigmoid(self, alpha=1 / 6, beta=0.5)")
        .samples(unary_samples("lo=-5, hi=5"));
    pointwise_op<HardsigmoidBackward, FloatingTypes, Result::Same, 2>(
        t, "hardsigmoid_backward(Tensor grad, Tensor self) -> Tensor")
        .doc("grad / 6 where |self| < 3, else 0.")
        .internal()
        .grad(0, save_in(1), [](const Grad& g) { return hardsigmoid_backward(g.grad(), g.in(1)); })
        .grad(1, 0, zero_gradient_of<1>);
    pointwise_op<Hardswish, FloatingTypes, Result::Same, 1>(t, "hardswish(Tensor self) -> Tensor")
        .doc("self * relu6(self + 3) / 6 (arXiv:1905.02244).\n"
             ">>> weft.hardswish(weft.tensor([-4., 3.]))\ntensor([-0., 3.])")
        .function_only()
        .inplace()
        .grad(0, save_in(0), [](const Grad& g) { return hardswish_backward(g.grad(), g.in(0)); })
        .onnx("self * HardSigmoid(self, alpha=1 / 6, beta=0.5)")
        .samples(unary_samples("lo=-5, hi=5"));
    pointwise_op<HardswishBackward, FloatingTypes, Result::Same, 2>(
        t, "hardswish_backward(Tensor grad, Tensor self) -> Tensor")
        .doc("grad * hardswish'(self).")
        .internal()
        .grad(0, save_in(1), [](const Grad& g) { return hardswish_backward(g.grad(), g.in(1)); })
        // The second derivative is 1/3 within (-3, 3): twice the slope of hardsigmoid.
        .grad(1, save_in(0) | save_in(1), [](const Grad& g) {
            return hardsigmoid_backward(scaled_mul(g.grad(), g.in(0), 2.0), g.in(1));
        });
}

/// One function of two ops, with a name for each of its nodes.
template <bool Soft>
Tensor shrink_backward(const Tensor& grad, const Tensor& self, const Value& lambd) {
    static const Function op{Soft ? "softshrink_backward" : "hardshrink_backward"};
    return op(grad, self, lambd);
}
template <bool Soft>
Tensor shrink_gradient(const Grad& g) {
    return shrink_backward<Soft>(g.grad(), g.in(0), g.attr(0));
}
template <bool Soft>
void register_shrink_backward(Table& t) {
    shaped_op(t,
              text(Soft ? "soft" : "hard",
                   "shrink_backward(Tensor grad, Tensor self, Scalar lambd) -> Tensor"),
              with_number<ShrinkBackward, 2>)
        .doc("0 where |self| <= lambd, else grad.")
        .internal()
        .grad(0, save_in(1),
              [](const Grad& g) { return shrink_backward<Soft>(g.grad(), g.in(1), g.attr(0)); })
        .grad(1, 0, zero_gradient_of<1>);
}

void register_shrink(Table& t) {
    shaped_op(t, "softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", with_number<Softshrink, 1>)
        .shape(check_lambda)
        .doc("self moved towards 0 by lambd, 0 where |self| <= lambd. lambd < 0 raises.\n"
             ">>> weft.softshrink(weft.tensor([-1., 0.3]))\ntensor([-0.5000,  0.0000])")
        .function_only()
        .grad(0, save_in(0), shrink_gradient<true>)
        .onnx("Where(self > lambd, self - lambd, Where(self < -lambd, self + lambd, self * 0))")
        .samples({"f(T(2, 3))", "f(T(), 0.2)", "f(T(2, 3), lambd=1.0)", "f(T(0, 3))"});
    shaped_op(t, "hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor", with_number<Hardshrink, 1>)
        .doc("0 where |self| <= lambd, else self.\n"
             ">>> weft.hardshrink(weft.tensor([-1., 0.3]))\ntensor([-1.,  0.])")
        .grad(0, save_in(0), shrink_gradient<false>)
        .onnx("Where(And(self >= -lambd, self <= lambd), 0, self)")
        .samples({"f(T(2, 3))", "f(T(), 0.2)", "f(T(2, 3), lambd=1.0)", "f(T(0, 3))"});
    register_shrink_backward<true>(t);
    register_shrink_backward<false>(t);
}

}  // namespace

void register_rectifier(Table& t) {
    register_relu(t);
    register_prelu(t);
    register_hard(t);
    register_shrink(t);
}

}  // namespace weft
