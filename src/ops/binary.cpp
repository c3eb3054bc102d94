/// Arithmetic of two tensors. (Powers are in power.cpp, comparisons and extremes in compare.cpp.)
#include <cmath>
#include <utility>

#include "kernels/chain.h"
#include "kernels/complex.h"
#include "kernels/half_loops.h"
#include "kernels/math.h"
#include "ops/conj.h"
#include "ops/copy.h"
#include "ops/pointwise_common.h"

namespace weft {
namespace {

using namespace ops;
namespace math = kernels::math;

const Function div_mode{"div.Mode"};

using kernels::Add;
using kernels::Mul;
using kernels::Sub;

template <class S>
struct AddScaled {
    S alpha;
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        return static_cast<T>(a + static_cast<T>(alpha) * b);
    }
};
struct Div {
    template <class T>
    static constexpr bool by_element = kernels::is_complex_v<T>;
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        return kernels::over(a, b);
    }
};
struct InverseTimes {
    template <class T>
    static constexpr bool by_element = kernels::is_complex_v<T>;
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        return kernels::times(kernels::over(T(1), a), b);
    }
};
struct DivBackward {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE T operator()(T g, T a, T b) const {
        return kernels::times(-g, kernels::over(kernels::over(a, b), b));
    }
};
struct ScaledMul {
    double scale;
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        return kernels::times(static_cast<T>(scale) * a, b);
    }
};
struct ScaledDiv {
    template <class T>
    static constexpr bool by_element = kernels::is_complex_v<T>;
    double scale;
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        return kernels::over(static_cast<T>(scale) * a, b);
    }
};

/// Truncating a / b and a % b for b != 0. Dividing the smallest integer by -1 wraps, where the
/// processor would trap.
WEFT_INLINE int64_t quotient(int64_t a, int64_t b) {
    return b == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : a / b;
}
WEFT_INLINE int64_t rest(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }
WEFT_INLINE bool rounds_up(int64_t r, int64_t b) { return r != 0 && (r < 0) != (b < 0); }

/// Integers up to 2^51 are divided as doubles, of which a vector has several: a quotient that is no
/// whole number is at least 2^-51 away from one, which is more than the rounding of it. (b is 0 where
/// the last block of a loop lacks elements.)
struct SmallIntegers {
    static constexpr int one_loop = 16;
    static constexpr int64_t kMost = int64_t{1} << 51;
    WEFT_INLINE bool inside(int64_t a, int64_t b) const {
        return (static_cast<uint64_t>(a + kMost) | static_cast<uint64_t>(b + kMost)) <
               static_cast<uint64_t>(2 * kMost);
    }
    WEFT_INLINE static double ratio(int64_t a, int64_t b) {
        return static_cast<double>(a) / static_cast<double>(b);
    }
    WEFT_INLINE static int64_t truncated(int64_t a, int64_t b) {
        return static_cast<int64_t>(ratio(a, b));
    }
    WEFT_INLINE static int64_t floored(int64_t a, int64_t b) {
        const int64_t q = truncated(a, b), r = a - q * b;
        return q - ((r != 0) & ((r ^ b) < 0));
    }
};
struct IntegerTruncDivide : SmallIntegers {
    WEFT_INLINE int64_t operator()(int64_t a, int64_t b) const { return truncated(a, b); }
    WEFT_INLINE int64_t slow(int64_t a, int64_t b) const { return quotient(a, b); }
};
struct TruncDivide {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        return math::trunc(a / b);
    }
};
struct IntegerFmod : SmallIntegers {
    WEFT_INLINE int64_t operator()(int64_t a, int64_t b) const { return a - truncated(a, b) * b; }
    WEFT_INLINE int64_t slow(int64_t a, int64_t b) const { return rest(a, b); }
};
struct IntegerRemainder : SmallIntegers {
    WEFT_INLINE int64_t operator()(int64_t a, int64_t b) const { return a - floored(a, b) * b; }
    WEFT_INLINE int64_t slow(int64_t a, int64_t b) const {
        int64_t r = rest(a, b);
        return rounds_up(r, b) ? r + b : r;
    }
};
struct IntegerFloorDivide : SmallIntegers {
    WEFT_INLINE int64_t operator()(int64_t a, int64_t b) const { return floored(a, b); }
    WEFT_INLINE int64_t slow(int64_t a, int64_t b) const {
        return quotient(a, b) - rounds_up(rest(a, b), b);
    }
};

struct Atan2 {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        return math::atan2(a, b);
    }
};
/// Scaled by the larger side, so that the squares neither overflow nor vanish.
struct Hypot {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        a = std::fabs(a);
        b = std::fabs(b);
        T high = a > b ? a : b, low = a > b ? b : a;
        T q = low / high;
        T length = high * std::sqrt(T(1) + q * q);
        constexpr T inf = std::numeric_limits<T>::infinity();
        if (a == inf || b == inf) return inf;
        return high == T(0) ? low : length;
    }
};
struct Lerp {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE T operator()(T a, T b, T w) const {
        if constexpr (kernels::is_complex_v<T>) {
            using kernels::times;
            return std::norm(w) < 0.25f ? a + times(w, b - a) : b - times(b - a, T(1) - w);
        } else {
            return math::abs(w) < T(0.5) ? a + w * (b - a) : b - (b - a) * (T(1) - w);
        }
    }
};
template <class S>
struct LerpNumber {
    static constexpr int one_loop = 64;
    S weight;
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        return Lerp{}(a, b, static_cast<T>(weight));
    }
};
template <class S>
LerpNumber(S) -> LerpNumber<S>;  // which clang before 17 does not deduce of an aggregate

bool is_one(const Value& alpha) {
    return alpha.kind() != Value::Kind::Complex && alpha.as_double() == 1;
}

/// self + sign * alpha * other, or with the operands exchanged.
template <class Plain, class Set, int Sign>
void add_kernel(Call& c) {
    if (is_one(c.attr(0))) return map_kernel<Plain, WithComplex<Set>, Result::Same, 2>(c);
    if (DType t = compute_dtype<Result::Same>(c); is_complex(t))
        return dispatch<ComplexTypes>(t, c.name(), [&]<class T>() {
            using S = std::complex<double>;
            map_inputs<T, T, 2>(c, AddScaled<S>{double{Sign} * c.attr(0).as_complex()});
        });
    dispatch<Set>(compute_dtype<Result::Same>(c), c.name(), [&]<class T>() {
        using S = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
        map_inputs<T, T, 2>(c, AddScaled<S>{Sign * number_as<S>(c.attr(0))});
    });
}

void add_shape(Call& c) {
    pointwise<Result::Same>(c);
    WEFT_EXPECT(c.attr(0).kind() < Value::Kind::Float || is_inexact(c.out(0).dtype()), Runtime,
                c.name(), "an integer alpha for integers",
                "a floating one (For integral input tensors, argument alpha must not be a floating "
                "point number.)");
}
void sub_shape(Call& c) {
    const bool first = c.in[0].dtype() == DType::Bool, second = c.in[1].dtype() == DType::Bool;
    WEFT_EXPECT(!(first && second), Runtime, c.name(), "numbers",
                "bools (Subtraction, the `-` operator, with two bool tensors is not supported. Use "
                "the `^` or `logical_xor()` operator instead.)");
    WEFT_EXPECT(!first && !second, Runtime, c.name(), "numbers",
                "a bool tensor (Subtraction, the `-` operator, with a bool tensor is not "
                "supported. If you are trying to invert a mask, use the `~` or `logical_not()` "
                "operator instead.)");
    add_shape(c);
}

Tensor scaled(const Tensor& t, const Value& alpha) {
    if (alpha.kind() == Value::Kind::Complex)
        return t * Tensor::scalar(std::conj(alpha.as_complex()), DType::Complex128, true);
    return is_one(alpha) ? t : t * alpha.as_double();
}

/// Integers may not be divided by 0. Looks before anything is written.
void refuse_zero_divisor(const Call& c) {
    if (c.out(0).numel() == 0) return;
    Tensor divisor = as_contiguous(c.in[1], DType::Int64);
    const int64_t* d = divisor.data<int64_t>();
    for (int64_t i = 0; i < divisor.numel(); ++i)
        WEFT_EXPECT(d[i] != 0, Runtime, c.name(), "divisors other than 0",
                    text("0 at element ", i, " (ZeroDivisionError)"),
                    "integers have no infinity; divide with / or convert to a floating dtype");
}
/// An op that divides, by one functor for integers and one for floating dtypes.
template <class Integer, class Floating>
void division_kernel(Call& c) {
    dispatch<NumberTypes>(compute_dtype<Result::Same>(c), c.name(), [&]<class T>() {
        if constexpr (std::is_same_v<T, int64_t>) {
            not_one_loop(c);
            refuse_zero_divisor(c);
            map_inputs<T, T, 2>(c, Integer{});
        } else {
            map_inputs<T, T, 2>(c, Floating{});
        }
    });
}
constexpr auto floor_divide_kernel =
    division_kernel<IntegerFloorDivide, Guarded<math::FloorDivide>>;

enum class Rounding { None, Trunc, Floor };
Rounding rounding(const Value& mode) {
    if (mode.none()) return Rounding::None;
    const std::string& how = mode.as_text();
    WEFT_EXPECT(how == "trunc" || how == "floor", Runtime, "div",
                "rounding_mode to be one of None, 'trunc', or 'floor'", text("'", how, "'"));
    return how == "trunc" ? Rounding::Trunc : Rounding::Floor;
}
void div_mode_shape(Call& c) {
    if (rounding(c.attr(0)) == Rounding::None) pointwise<Result::Float>(c);
    else pointwise<Result::Same>(c);
}
void div_mode_kernel(Call& c) {
    switch (rounding(c.attr(0))) {
        case Rounding::None:
            return ops::div.op().kernel(c);
        case Rounding::Trunc:
            return division_kernel<IntegerTruncDivide, TruncDivide>(c);
        case Rounding::Floor:
            return floor_divide_kernel(c);
    }
}

template <class F>
void scaled_kernel(Call& c) {
    dispatch<WithComplex<FloatingTypes>>(compute_dtype<Result::Same>(c), c.name(), [&]<class T>() {
        map_inputs<T, T, 2>(c, F{c.attr(0).as_double()});
    });
}

void lerp_number_kernel(Call& c) {
    dispatch<WithComplex<FloatingTypes>>(c.out(0).dtype(), c.name(), [&]<class T>() {
        if constexpr (kernels::is_complex_v<T>)
            map_inputs<T, T, 2>(c, LerpNumber{c.attr(0).as_complex()});
        else map_inputs<T, T, 2>(c, LerpNumber{c.attr(0).as_double()});
    });
}

void lerp_shape(Call& c) {
    WEFT_EXPECT(c.in[0].dtype() == c.in[1].dtype() || c.in[1].has(kWrapped), Runtime, c.name(),
                text("dtype ", name(c.in[0].dtype()), " for `end`"), name(c.in[1].dtype()));
    pointwise<Result::Same>(c);
}

void register_sums(Table& t) {
    shaped_op(t, "add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", add_shape,
              add_kernel<Add, AllTypes, 1>)
        .uint64(Uint64::Bits)
        .doc("self + alpha * other, with broadcasting and PyTorch's promotion.\n"
             ">>> weft.add(weft.tensor([1, 2]), weft.tensor([10, 20]), alpha=2)\ntensor([21, 42])")
        .older_order({"self", "alpha", "other"})
        .inplace()
        .number_self()
        .grad(0, 0, [](const Grad& g) { return g.grad(); })
        .grad(1, 0, [](const Grad& g) { return scaled(g.grad(), g.attr(0)); })
        .onnx("self + (other if alpha == 1 else other * alpha)")
        .samples({"f(T(2, 3), T(2, 3))", "f(T(2, 1), T(3))", "f(T(3), 2)", "f(T(3), T(3), alpha=2)",
                  "f(I(3), 1.5)", "f(B(3), B(3))", "f(T(0, 3), T())"});
    shaped_op(t, "sub(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", sub_shape,
              add_kernel<Sub, NumberTypes, -1>)
        .uint64(Uint64::Bits)
        .doc("self - alpha * other. Bool raises.\n"
             ">>> weft.sub(weft.tensor([1., 2.]), 0.5)\ntensor([0.5000, 1.5000])")
        .older_order({"self", "alpha", "other"})
        .inplace()
        .number_self()
        .alias("subtract")
        .grad(0, 0, [](const Grad& g) { return g.grad(); })
        .grad(1, 0, [](const Grad& g) { return -scaled(g.grad(), g.attr(0)); })
        .onnx("self - (other if alpha == 1 else other * alpha)")
        .samples({"f(T(2, 3), T(2, 3))", "f(T(2, 1), T(3))", "f(T(3), 2)", "f(T(3), T(3), alpha=2)",
                  "f(I(3), 2)"});
    shaped_op(t, "rsub(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", sub_shape,
              [](Call& c) {
                  Tensor exchanged[] = {c.in[1], c.in[0]};
                  const OtherOperands now(c, exchanged);
                  add_kernel<Sub, NumberTypes, -1>(c);
              })
        .uint64(Uint64::Bits)
        .doc("other - alpha * self. Bool raises.\n"
             ">>> weft.rsub(weft.tensor([1., 2.]), 3)\ntensor([2., 1.])")
        .function_only()
        .node_name(
            [](const Call& c) { return c.in[1].has(kWrapped) ? "RsubBackward1" : "RsubBackward0"; })
        .numbers_apart(save_in(1))
        .grad(0, 0, [](const Grad& g) { return -scaled(g.grad(), g.attr(0)); })
        .grad(1, 0, [](const Grad& g) { return g.grad(); })
        .onnx("other - (self if alpha == 1 else self * alpha)")
        .samples({"f(T(2, 3), 2)", "f(T(3), 2, alpha=3)", "f(I(3), 2)"});
    shaped_op(t, "lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor", lerp_shape,
              lerp_number_kernel)
        .doc("self + weight * (end - self). One floating dtype.\n"
             ">>> weft.lerp(weft.tensor([0., 10.]), weft.tensor([4., 20.]), 0.25)\n"
             "tensor([ 1.0000, 12.5000])")
        .inplace()
        .grad(0, 0, [](const Grad& g) { return g.grad() - times_conj(g.grad(), g.attr(0)); })
        .grad(1, 0, [](const Grad& g) { return times_conj(g.grad(), g.attr(0)); })
        .onnx("form('lerp.Tensor', self=self, end=end, weight=cast(weight, self.dtype))")
        .samples({"f(T(2, 3), T(2, 3), 0.3)", "f(T(2, 1), T(3), 0.8)", "f(T(), T(0, 3), -1)"});
    shaped_op(t, "lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", lerp_shape,
              map_kernel<Lerp, WithComplex<FloatingTypes>, Result::Same, 3>)
        .doc("self + weight * (end - self).\n"
             ">>> weft.lerp(weft.zeros(2), weft.ones(2), weft.tensor([0.25, 1.]))\n"
             "tensor([0.2500, 1.0000])")
        .inplace()
        .node_name("LerpBackward1")
        .grad(0, save_in(2), [](const Grad& g) { return g.grad() * conj(1.0 - g.in(2)); })
        .grad(1, save_in(2), [](const Grad& g) { return g.grad() * conj(g.in(2)); })
        .grad(2, save_in(0) | save_in(1),
              [](const Grad& g) { return g.grad() * conj(g.in(1) - g.in(0)); })
        .onnx("Where(Abs(weight) < 0.5, self + (end - self) * weight, "
              "end - (end - self) * (1 - weight))")
        .samples({"f(T(2, 3), T(2, 3), T(2, 3))", "f(T(2, 1), T(3), T())"});
}

void register_products(Table& t) {
    pointwise_op<Mul, WithComplex<AllTypes>, Result::Same, 2>(
        t, "mul(Tensor self, Tensor other) -> Tensor")
        .float8()
        .uint64(Uint64::Bits)
        .doc("self * other.\n>>> weft.mul(weft.tensor([1, 2]), 3)\ntensor([3, 6])")
        .inplace()
        .number_self()
        .alias("multiply")
        .grad(0, save_in(1), [](const Grad& g) { return g.grad() * conj(g.in(1)); })
        .grad(1, save_in(0), [](const Grad& g) { return g.grad() * conj(g.in(0)); })
        .onnx("self * other")
        .samples({"f(T(2, 3), T(2, 3))", "f(T(2, 1), T(3))", "f(T(3), 2)", "f(B(3), B(3))",
                  "f(I(3), 1.5)"});
    shaped_op(t, "scaled_mul(Tensor self, Tensor other, Scalar scale) -> Tensor",
              pointwise<Result::Same>, scaled_kernel<ScaledMul>)
        .doc("scale * self * other.")
        .internal()
        .node_name("MulBackward0")
        .grad(0, save_in(1),
              [](const Grad& g) { return scaled_mul(g.grad(), conj(g.in(1)), g.attr(0)); })
        .grad(1, save_in(0),
              [](const Grad& g) { return scaled_mul(g.grad(), conj(g.in(0)), g.attr(0)); })
        .onnx("self * other * scale");
    shaped_op(t, "_times(Tensor self, Scalar number) -> Tensor", pointwise<Result::Same>,
              [](Call& c) {
                  ModeGuard off(0, kGradMode);
                  copy_into(c.out(0), c.in[0] * c.attr(0).as_double());
              })
        .doc("self * number, of which nothing is saved.")
        .internal()
        .in_packages()
        .node_name("MulBackward1")
        .grad(0, 0,
              [](const Grad& g) {
                  static const Function times{"_times"};
                  return times(g.grad(), g.attr(0));
              })
        .onnx("self * number");
    pointwise_op<Div, WithComplex<FloatingTypes>, Result::Float, 2>(
        t, "div(Tensor self, Tensor other) -> Tensor")
        .doc("self / other; integers become floating.\n"
             ">>> weft.div(weft.tensor([1, 3]), 2)\ntensor([0.5000, 1.5000])")
        .inplace()
        .number_self()
        .alias("divide")
        .alias("true_divide")
        .grad(0, save_in(1), [](const Grad& g) { return g.grad() / conj(g.in(1)); })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) { return div_backward(g.grad(), conj(g.in(0)), conj(g.in(1))); })
        .onnx("self / other")
        .samples({"f(T(2, 3), T(2, 3, lo=0.5))", "f(T(2, 1), T(3, lo=0.5))", "f(T(3), 2)",
                  "f(I(3), 2)"});
    pointwise_op<Div, WithComplex<FloatingTypes>, Result::Float, 2>(
        t, "div.Scalar(Tensor self, Tensor other) -> Tensor")
        .doc("self / other, for a number in a composite.")
        .internal()
        .node_name("DivBackward1")
        .grad(0, save_in(1), [](const Grad& g) { return g.grad() / conj(g.in(1)); })
        .onnx("self / other")
        .samples({"f(T(2, 3), 2)"});
    pointwise_op<InverseTimes, WithComplex<FloatingTypes>, Result::Float, 2>(
        t, "rdiv(Tensor self, Tensor other) -> Tensor")
        .doc("1 / self * other: a number divided by self, rounded as PyTorch does.")
        .internal()
        .node_name("MulBackward0")
        .grad(0, save_in(0) | save_in(1),
              [](const Grad& g) { return div_backward(g.grad(), conj(g.in(1)), conj(g.in(0))); })
        .grad(1, save_in(0), [](const Grad& g) { return g.grad() / conj(g.in(0)); })
        .onnx("other / self")
        .samples({"f(T(3, lo=0.5), 2)", "f(I(3) + 1, 2)"});
    pointwise_op<DivBackward, WithComplex<FloatingTypes>, Result::Same, 3>(
        t, "div_backward(Tensor grad, Tensor self, Tensor other) -> Tensor")
        .doc("-grad * self / other^2: the gradient of self / other by other.")
        .internal()
        .node_name("MulBackward0")
        .grad(0, save_in(1) | save_in(2),
              [](const Grad& g) { return div_backward(g.grad(), conj(g.in(1)), conj(g.in(2))); })
        .grad(1, save_in(0) | save_in(2),
              [](const Grad& g) { return div_backward(g.grad(), conj(g.in(0)), conj(g.in(2))); })
        .grad(2, save_in(2) | save_out(0), [](const Grad& g) {
            return scaled_div(g.grad() * conj(g.out(0)), conj(g.in(2)), -2.0);
        });
    shaped_op(t, "scaled_div(Tensor self, Tensor other, Scalar scale) -> Tensor",
              pointwise<Result::Same>, scaled_kernel<ScaledDiv>)
        .doc("scale * self / other.")
        .internal()
        .node_name("DivBackward0")
        .grad(0, save_in(1),
              [](const Grad& g) { return scaled_div(g.grad(), conj(g.in(1)), g.attr(0)); })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) {
                  return div_backward(g.grad(), conj(g.in(0)), conj(g.in(1))) *
                         g.attr(0).as_double();
              })
        .onnx("self / other * scale");
}

void register_divisions(Table& t) {
    shaped_op(t, "div.Mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
              div_mode_shape, div_mode_kernel)
        .doc("self / other, rounded towards 0 ('trunc') or down ('floor'). Integers stay integers; "
             "an integer divisor of 0 raises RuntimeError.\n"
             ">>> weft.div(weft.tensor([-7, 7]), 2, rounding_mode='trunc')\ntensor([-3,  3])")
        .inplace()
        .number_self()
        .alias("divide")
        .node_name("DivBackward2")
        .grad(
            0, save_in(1),
            [](const Grad& g) { return g.attr(0).none() ? g.grad() / g.in(1) : zero_gradient(g); })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) {
                  return g.attr(0).none() ? div_backward(g.grad(), g.in(0), g.in(1))
                                          : zeros(g.in_shape(1), g.out_dtype(0));
              })
        .samples({"f(T(2, 3), T(2, 3, lo=0.5), rounding_mode='floor')",
                  "f(T(2, 1), T(3, lo=0.5), rounding_mode='trunc')",
                  "f(T(3), 2, rounding_mode=None)", "f(I(3), 2, rounding_mode='floor')",
                  "f(I(7), 2, rounding_mode='trunc')"});
    shaped_op(t, "floor_divide(Tensor self, Tensor other) -> Tensor", pointwise<Result::Same>,
              floor_divide_kernel)
        .doc("self // other, rounded down as in Python. An integer divisor of 0 raises "
             "RuntimeError. "
             "Has no gradient.\n>>> weft.floor_divide(weft.tensor([-7, 7]), 2)\ntensor([-4,  3])")
        .no_derivative()
        .inplace()
        .number_self()
        .samples({"f(I(3), 2)", "f(I(3), -2)", "f(I(2, 3), 1.5)"});
    shaped_op(t, "remainder(Tensor self, Tensor other) -> Tensor", pointwise<Result::Same>,
              division_kernel<IntegerRemainder, Guarded<math::Remainder>>)
        .doc("self % other as in Python: it has the sign of other. An integer divisor of 0 raises "
             "RuntimeError.\n>>> weft.remainder(weft.tensor([-7, 7]), 3)\ntensor([2, 1])")
        .inplace()
        .number_self()
        .node_name([](const Call& c) {
            return c.in[1].has(kWrapped) ? "RemainderBackward0" : "RemainderBackward1";
        })
        .numbers_apart(save_in(1))
        .grad(0, 0, [](const Grad& g) { return g.grad(); })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) { return -g.grad() * div_mode(g.in(0), g.in(1), "floor"); })
        .samples({"f(T(2, 3), T(2, 3, lo=0.5))", "f(T(3), 0.7)", "f(I(3), -2)",
                  "f(T(2, 1), T(3, lo=0.5))"});
    shaped_op(t, "fmod(Tensor self, Tensor other) -> Tensor", pointwise<Result::Same>,
              division_kernel<IntegerFmod, Guarded<math::Fmod>>)
        .doc("The rest of self / other as C's fmod gives it: it has the sign of self. An integer "
             "divisor of 0 raises RuntimeError.\n"
             ">>> weft.fmod(weft.tensor([-7, 7]), 3)\ntensor([-1,  1])")
        .inplace()
        .node_name(
            [](const Call& c) { return c.in[1].has(kWrapped) ? "FmodBackward0" : "FmodBackward1"; })
        .numbers_apart(save_in(1))
        .grad(0, 0, [](const Grad& g) { return g.grad(); })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) { return -g.grad() * div_mode(g.in(0), g.in(1), "trunc"); })
        .onnx("Mod(self, other, fmod=1)")
        .samples({"f(T(2, 3), T(2, 3, lo=0.5))", "f(T(3), 0.7)", "f(I(3), 2)",
                  "f(T(2, 1), T(3, lo=0.5))"});
}

/// 1 / (a^2 + b^2), 0 where both are 0.
Tensor inverse_square_length(const Tensor& a, const Tensor& b) {
    Tensor squares = a * a + b * b, zero = number(0, squares.dtype());
    return ops::where(ops::eq(squares, zero), zero, reciprocal(squares));
}

void register_plane(Table& t) {
    pointwise_op<Atan2, FloatingTypes, Result::Float, 2>(
        t, "atan2(Tensor self, Tensor other) -> Tensor")
        .doc("The angle of the point (other, self), in [-pi, pi].\n"
             ">>> weft.atan2(weft.tensor([1., 0.]), weft.tensor([0., -1.]))\n"
             "tensor([1.5708, 3.1416])")
        .inplace()
        .alias("arctan2")
        .grad(0, save_in(0) | save_in(1),
              [](const Grad& g) {
                  return g.grad() * g.in(1) * inverse_square_length(g.in(0), g.in(1));
              })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) {
                  return -g.grad() * g.in(0) * inverse_square_length(g.in(0), g.in(1));
              })
        .samples({"f(T(2, 3), T(2, 3, lo=0.5))", "f(T(2, 1), T(3, lo=0.5))", "f(T(), T(0, 3))",
                  "f(I(3), I(3))"});
    pointwise_op<Hypot, FloatingTypes, Result::Same, 2>(
        t, "hypot(Tensor self, Tensor other) -> Tensor")
        .doc("sqrt(self^2 + other^2) without overflow between. Floating dtypes.\n"
             ">>> weft.hypot(weft.tensor([3., 1e30]), weft.tensor([4., 0.]))\n"
             "tensor([5.0000e+00, 1.0000e+30])")
        .inplace()
        .grad(0, save_in(0) | save_out(0),
              [](const Grad& g) { return g.grad() * (g.in(0) / g.out(0)); })
        .grad(1, save_in(1) | save_out(0),
              [](const Grad& g) { return g.grad() * (g.in(1) / g.out(0)); })
        .onnx("Sqrt(self * self + other * other)")
        .samples({"f(T(2, 3), T(2, 3, lo=0.5))", "f(T(2, 1), T(3, lo=0.5))", "f(T(), T(0, 3))"});
}

}  // namespace

void register_binary(Table& t) {
    using kernels::add_half_loops;
    add_half_loops<Add, 2>();
    add_half_loops<Sub, 2>();
    add_half_loops<AddScaled<double>, 2>();
    add_half_loops<Mul, 2>();
    add_half_loops<ScaledMul, 2>();
    add_half_loops<Div, 2>();
    add_half_loops<ScaledDiv, 2>();
    register_sums(t);
    register_products(t);
    register_divisions(t);
    register_plane(t);
}

}  // namespace weft
