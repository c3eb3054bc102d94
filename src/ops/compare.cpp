/// Comparisons, extremes and logic of two tensors.
#include <cmath>
#include <utility>

#include "kernels/convert.h"
#include "ops/pointwise_common.h"

namespace weft {
namespace {

using namespace ops;

const Function extreme_backward{"extreme_backward"};

#define WEFT_BINARY_FUNCTOR(Name, Out, block, expression)                                          \
    struct Name {                                                                                  \
        static constexpr int one_loop = block;                                                     \
        template <class T>                                                                         \
        WEFT_INLINE Out operator()(T a, T b) const {                                               \
            return static_cast<Out>(expression);                                                   \
        }                                                                                          \
    };
WEFT_BINARY_FUNCTOR(Eq, bool, 0, a == b)
WEFT_BINARY_FUNCTOR(Ne, bool, 0, a != b)
WEFT_BINARY_FUNCTOR(Lt, bool, 0, a < b)
WEFT_BINARY_FUNCTOR(Le, bool, 0, a <= b)
WEFT_BINARY_FUNCTOR(LogicalAnd, bool, 64, int(a != T(0)) & int(b != T(0)))
WEFT_BINARY_FUNCTOR(LogicalOr, bool, 64, int(a != T(0)) | int(b != T(0)))
WEFT_BINARY_FUNCTOR(LogicalXor, bool, 64, (a != T(0)) != (b != T(0)))
WEFT_BINARY_FUNCTOR(BitwiseAnd, T, 64, a& b)
WEFT_BINARY_FUNCTOR(BitwiseOr, T, 64, a | b)
WEFT_BINARY_FUNCTOR(BitwiseXor, T, 64, a ^ b)
/// The larger, or the one that is a number.
WEFT_BINARY_FUNCTOR(Fmax, T, 64, (a >= b || b != b ? a : b))
WEFT_BINARY_FUNCTOR(Fmin, T, 64, (a <= b || b != b ? a : b))
#undef WEFT_BINARY_FUNCTOR

template <class F, class Set = AllTypes>
constexpr auto compare_kernel = map_kernel<F, Set, Result::Bool, 2>;
/// a > b is b < a: the kernel with its operands exchanged.
template <class F>
void exchanged_kernel(Call& c) {
    Tensor exchanged[] = {c.in[1], c.in[0]};
    const OtherOperands now(c, exchanged);
    compare_kernel<F>(c);
}

/// The gradient of max(a, b) by a: all of it where a is larger, half where they are equal. NaN
/// counts as larger.
struct ExtremeBackward {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE T operator()(T g, T a, T b) const {
        return a < b ? T(0) : a == b ? g / T(2) : g;
    }
};

struct IsClose {
    static constexpr int one_loop = 64;
    double rtol, atol;
    bool equal_nan;
    template <class T>
    WEFT_INLINE bool operator()(T a, T b) const {
        if (a == b) return true;
        if constexpr (std::is_floating_point_v<T>)
            if (a != a || b != b) return equal_nan && a != a && b != b;
        if constexpr (kernels::is_complex_v<T>) {
            auto apart = std::abs(a - b);
            return apart <= atol + rtol * std::abs(b) && std::isfinite(apart);
        } else {
            // In T, as the operands are compared to what T can tell apart.
            using R = std::conditional_t<std::is_floating_point_v<T>, T, double>;
            R x = static_cast<R>(a), y = static_cast<R>(b);
            R allowed = static_cast<R>(atol) + std::fabs(static_cast<R>(rtol) * y);
            R apart = std::fabs(x - y);
            return apart <= allowed && apart <= std::numeric_limits<R>::max();
        }
    }
};

void isclose_shape(Call& c) {
    WEFT_EXPECT(c.in[0].dtype() == c.in[1].dtype(), Runtime, c.name(), "tensors of one dtype",
                text(name(c.in[0].dtype()), " and ", name(c.in[1].dtype())));
    for (int k = 0; k < 2; ++k)
        WEFT_EXPECT(c.attr(k).as_double() >= 0, Runtime, c.name(),
                    k ? "atol of at least 0" : "rtol of at least 0", text(c.attr(k).as_double()));
    pointwise<Result::Bool>(c);
}
void isclose_kernel(Call& c) {
    IsClose f{c.attr(0).as_double(), c.attr(1).as_double(), c.attr(2).as_bool()};
    dispatch<WithComplex<AllTypes>>(c.in[0].dtype(), c.name(),
                                    [&]<class T>() { map_inputs<T, bool, 2>(c, f); });
}

std::string schema(std::string_view name) {
    return text(name, "(Tensor self, Tensor other) -> Tensor");
}

OpBuilder comparison(Table& t, void (*kernel)(Call&), std::string_view name,
                     const std::string& alias, std::string_view sign, std::string_view shown,
                     std::source_location where = std::source_location::current()) {
    OpBuilder op = t.add(schema(name), where);
    if (!alias.empty()) op.alias(alias);
    op.shape(pointwise<Result::Bool>)
        .kernel(kernel)
        .uint64(Uint64::Order)
        .pointwise()
        .strided_output()
        .inplace()
        .out_form()
        .doc(text("self ", sign, " other, elementwise, as bools.\n>>> weft.", name,
                  "(weft.tensor([1, 2, 3]), 2)\n", shown))
        .samples(
            {"f(T(2, 3), T(3))", "f(I(5), I(5))", "f(I(5), 2)", "f(I(3), 1.5)", "f(B(3), B(3))"});
    return op;
}

void register_comparisons(Table& t) {
    comparison(t, compare_kernel<Eq, WithComplex<AllTypes>>, "eq", "",
               "==", "tensor([False,  True, False])")
        .float8()
        .onnx("Equal(self, other)");
    comparison(t, compare_kernel<Ne, WithComplex<AllTypes>>, "ne", "not_equal",
               "!=", "tensor([ True, False,  True])")
        .float8()
        .onnx("Not(Equal(self, other))");
    comparison(t, compare_kernel<Lt>, "lt", "less", "<", "tensor([ True, False, False])")
        .onnx("self < other");
    comparison(t, compare_kernel<Le>, "le", "less_equal", "<=", "tensor([ True,  True, False])")
        .onnx("self <= other");
    comparison(t, exchanged_kernel<Lt>, "gt", "greater", ">", "tensor([False, False,  True])")
        .onnx("self > other");
    comparison(t, exchanged_kernel<Le>, "ge", "greater_equal",
               ">=", "tensor([False,  True,  True])")
        .onnx("self >= other");
    t.add("isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, "
          "bool equal_nan=False) -> Tensor")
        .doc("|self - other| <= atol + rtol * |other|, as bools; equal infinities are close. Both "
             "tensors have one dtype.\n"
             ">>> weft.isclose(weft.tensor([1., 2.]), weft.tensor([1.000001, 2.1]))\n"
             "tensor([ True, False])")
        .shape(isclose_shape)
        .uint64(Uint64::Numbers)
        .float8()
        .kernel(isclose_kernel)
        .pointwise()
        .strided_output()
        .samples({"f(T(2, 3), T(3))", "f(I(5), I(5))", "f(T(4), T(4), rtol=1.0, equal_nan=True)"});
}

/// Maximum and its kin: op(a, b) with a gradient through extreme_backward.
template <class F, bool Larger>
OpBuilder extreme(Table& t, std::string_view name,
                  std::source_location where = std::source_location::current()) {
    return pointwise_op<F, AllTypes, Result::Same, 2>(t, schema(name), where)
        .uint64(Uint64::Order)
        .grad(0, save_in(0) | save_in(1),
              [](const Grad& g) {
                  return Larger ? extreme_backward(g.grad(), g.in(0), g.in(1))
                                : extreme_backward(g.grad(), g.in(1), g.in(0));
              })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) {
                  return Larger ? extreme_backward(g.grad(), g.in(1), g.in(0))
                                : extreme_backward(g.grad(), g.in(0), g.in(1));
              })
        .samples({"f(T(2, 3), T(2, 3))", "f(T(2, 1), T(3))", "f(T(), T(0, 3))", "f(I(4), I(4))"});
}

/// The gradient of fmax (fmin) by its first or second tensor: the first is taken where it is larger
/// (smaller), equal, or the other NaN.
Tensor taken_of(const Grad& g, const Function& at_least, bool is_first) {
    Tensor a = g.in(0), b = g.in(1), zero = number(0, g.grad().dtype());
    Tensor first = logical_or(at_least(a, b), ops::isnan(b));
    return is_first ? ops::where(first, g.grad(), zero) : ops::where(first, zero, g.grad());
}
template <bool Larger, bool First>
Tensor taken(const Grad& g) {
    return taken_of(g, Larger ? ops::ge : ops::le, First);
}

void register_extremes(Table& t) {
    extreme<Maximum, true>(t, "maximum")
        .doc("The larger of self and other; NaN if either is. Equal elements share the gradient.\n"
             ">>> weft.maximum(weft.tensor([1, 5]), weft.tensor([2, 3]))\ntensor([2, 5])")
        .onnx("self + other if boolean(self) else Max(self, other)");
    extreme<Minimum, false>(t, "minimum")
        .doc("The smaller of self and other; NaN if either is. Equal elements share the gradient.\n"
             ">>> weft.minimum(weft.tensor([1, 5]), weft.tensor([2, 3]))\ntensor([1, 3])")
        .onnx("self * other if boolean(self) else Min(self, other)");
    pointwise_op<ExtremeBackward, FloatingTypes, Result::Same, 3>(
        t, "extreme_backward(Tensor grad, Tensor self, Tensor other) -> Tensor")
        .doc("0 where self < other, grad / 2 where they are equal, else grad.")
        .internal()
        .node_name("MaskedFillBackward0")
        .grad(0, save_in(1) | save_in(2),
              [](const Grad& g) { return extreme_backward(g.grad(), g.in(1), g.in(2)); });
    pointwise_op<Fmax, AllTypes, Result::Same, 2>(t, schema("fmax"))
        .uint64(Uint64::Order)
        .doc("The larger of self and other; the other one where one is NaN.\n"
             ">>> weft.fmax(weft.tensor([1., float('nan')]), weft.tensor([0., 3.]))\n"
             "tensor([1., 3.])")
        .grad(0, save_in(0) | save_in(1), taken<true, true>)
        .grad(1, save_in(0) | save_in(1), taken<true, false>)
        .onnx("Where(IsNaN(self), other, Where(IsNaN(other), self, Max(self, other))) if "
              "floating(self) else form('maximum', self=self, other=other)")
        .samples({"f(T(2, 3), T(2, 3))", "f(T(2, 1), T(3))", "f(I(4), I(4))"});
    pointwise_op<Fmin, AllTypes, Result::Same, 2>(t, schema("fmin"))
        .uint64(Uint64::Order)
        .doc("The smaller of self and other; the other one where one is NaN.\n"
             ">>> weft.fmin(weft.tensor([1., float('nan')]), weft.tensor([0., 3.]))\n"
             "tensor([0., 3.])")
        .grad(0, save_in(0) | save_in(1), taken<false, true>)
        .grad(1, save_in(0) | save_in(1), taken<false, false>)
        .onnx("Where(IsNaN(self), other, Where(IsNaN(other), self, Min(self, other))) if "
              "floating(self) else form('minimum', self=self, other=other)")
        .samples({"f(T(2, 3), T(2, 3))", "f(T(2, 1), T(3))", "f(I(4), I(4))"});
}

template <class F>
OpBuilder logical(Table& t, std::string_view name, std::string_view word, std::string_view shown,
                  std::source_location where = std::source_location::current()) {
    return pointwise_op<F, WithComplex<AllTypes>, Result::Bool, 2>(t, schema(name), where)
        .uint64(Uint64::Bits)
        .doc(text("self ", word, " other, as bools; what is not 0 is true.\n>>> weft.", name,
                  "(weft.tensor([0, 1, 2]), weft.tensor([0, 0, 3]))\n", shown))
        .inplace()
        .samples({"f(B(2, 3), B(3))", "f(I(5), B(5))", "f(T(4), I(4))"});
}
template <class F>
OpBuilder bitwise(Table& t, std::string_view name, std::string_view sign, std::string_view shown,
                  std::source_location where = std::source_location::current()) {
    return pointwise_op<F, IntegralTypes, Result::Same, 2>(t, schema(name), where)
        .uint64(Uint64::Bits)
        .doc(text("self ", sign, " other, bit by bit; int64 and bool.\n>>> weft.", name,
                  "(weft.tensor([1, 6]), 3)\n", shown))
        .inplace()
        .number_self()
        .samples({"f(I(5), I(5))", "f(B(2, 3), B(3))", "f(I(5), 3)", "f(I(4), B(4))"});
}

void register_logic(Table& t) {
    logical<LogicalAnd>(t, "logical_and", "and", "tensor([False, False,  True])")
        .onnx("And(truth(self), truth(other))");
    logical<LogicalOr>(t, "logical_or", "or", "tensor([False,  True,  True])")
        .onnx("Or(truth(self), truth(other))");
    logical<LogicalXor>(t, "logical_xor", "xor", "tensor([False,  True, False])")
        .onnx("Xor(truth(self), truth(other))");
    bitwise<BitwiseAnd>(t, "bitwise_and", "&", "tensor([1, 2])")
        .onnx("And(self, other) if boolean(self) else BitwiseAnd(self, other)");
    bitwise<BitwiseOr>(t, "bitwise_or", "|", "tensor([3, 7])")
        .onnx("Or(self, other) if boolean(self) else BitwiseOr(self, other)");
    bitwise<BitwiseXor>(t, "bitwise_xor", "^", "tensor([2, 5])")
        .onnx("Xor(self, other) if boolean(self) else BitwiseXor(self, other)");
}

}  // namespace

void register_compare(Table& t) {
    register_comparisons(t);
    register_extremes(t);
    register_logic(t);
}

}  // namespace weft
