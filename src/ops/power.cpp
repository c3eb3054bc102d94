/// self ** exponent.
#include <cmath>
#include <utility>

#include "kernels/complex.h"
#include "kernels/math.h"
#include "ops/batch.h"
#include "ops/conj.h"
#include "ops/limits.h"
#include "ops/pointwise_common.h"

namespace weft {
namespace {

using namespace ops;
namespace math = kernels::math;

const Function pow_backward{"pow_backward"};

/// By squaring, wrapping as int64 does. With a negative exponent what is not +-1 becomes 0.
WEFT_INLINE int64_t power(int64_t base, int64_t exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
    uint64_t result = 1, factor = static_cast<uint64_t>(base);
    for (; exponent; exponent >>= 1) {
        if (exponent & 1) result *= factor;
        factor *= factor;
    }
    return static_cast<int64_t>(result);
}
WEFT_INLINE float power(float base, float exponent) { return math::pow(base, exponent); }
WEFT_INLINE double power(double base, double exponent) { return math::pow(base, exponent); }

struct Power {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T x, T e) const {
        return power(x, e);
    }
};
struct Cube {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return x * x * x;
    }
};
/// grad * coefficient * x^exponent, and the exponents 0, 2 and -1/2.
struct PowerBackward {
    static constexpr int one_loop = 32;
    double coefficient, exponent;
    template <class T>
    WEFT_INLINE T operator()(T g, T x) const {
        return g * static_cast<T>(coefficient) * power(x, static_cast<T>(exponent));
    }
};
struct Scaled {
    double coefficient;
    template <class T>
    WEFT_INLINE T operator()(T g) const {
        return g * static_cast<T>(coefficient);
    }
};
struct ScaledBySquare {
    static constexpr int one_loop = 64;
    double coefficient;
    template <class T>
    WEFT_INLINE T operator()(T g, T x) const {
        return g * static_cast<T>(coefficient) * (x * x);
    }
};
struct ScaledByRsqrt {
    static constexpr int one_loop = 64;
    double coefficient;
    template <class T>
    WEFT_INLINE T operator()(T g, T x) const {
        return g * static_cast<T>(coefficient) / math::sqrt(x);
    }
};

/// The op that does the work of ** `exponent`, where one does.
const Function* shortcut(double exponent) {
    if (exponent == 2) return &square;
    if (exponent == 0.5) return &ops::sqrt;
    if (exponent == -0.5) return &rsqrt;
    if (exponent == -1) return &reciprocal;
    return nullptr;
}

struct ComplexPower {
    template <class T>
    T operator()(T x, T e) const {
        return math::pow(x, e);
    }
};
void complex_pow(Call& c, DType t) {
    const Tensor& exponent = c.in[1];
    if (exponent.ndim() == 0 && !is_complex(exponent.dtype()))
        if (const Function* other = shortcut(exponent.item_double())) return other->op().kernel(c);
    dispatch<ComplexTypes>(t, c.name(), [&]<class T>() { map_inputs<T, T, 2>(c, ComplexPower{}); });
}

void pow_shape(Call& c) {
    pointwise<Result::Same>(c);
    const Tensor& exponent = c.in[1];
    const bool of_integers = category(c.out(0).dtype()) == Category::Integer;
    WEFT_EXPECT(
        !of_integers || !exponent.has(kWrapped) || exponent.item_int() >= 0, Runtime, c.name(),
        "an exponent of at least 0 for integers",
        text(exponent.item_int(), " (Integers to negative integer powers are not allowed.)"),
        "write 2.0 ** -1, or convert to a floating dtype");
    WEFT_EXPECT(!of_integers || !exponent.has(kWrapped) ||
                    exponent.item_int() <= largest_of(c.out(0).dtype()),
                Runtime, c.name(), text("an exponent that fits ", name(c.out(0).dtype())),
                text(exponent.item_int(), " (value cannot be converted without overflow)"));
}

void pow_kernel(Call& c) {
    DType t = compute_dtype<Result::Same>(c);
    const Tensor& exponent = c.in[1];
    if ((t == DType::Bool || is_complex(t)) && exponent.has(kWrapped) &&
        !is_complex(exponent.dtype()) && exponent.item_double() == 1)
        return copy_into(c.out(0), c.in[0]);
    if (t == DType::Bool && exponent.has(kWrapped)) return copy_into(c.out(0), number(1, t));
    if (is_floating(t) && exponent.ndim() == 0) {
        double e = exponent.item_double();
        if (const Function* other = shortcut(e)) return other->op().kernel(c);
        if (e == 3)
            return dispatch<FloatingTypes>(t, c.name(),
                                           [&]<class T>() { map_inputs<T, T, 1>(c, Cube{}); });
    }
    if (is_complex(t)) return complex_pow(c, t);
    map_kernel<Power, NumberTypes, Result::Same, 2>(c);
}

/// grad * e (e - 1) ... (e - order + 1) self^(e - order), and 0 if a factor is 0, also at self = 0.
void pow_backward_kernel(Call& c) {
    double e = c.attr(0).as_double(), factor = 1;
    int64_t order = c.attr(1).as_int();
    for (int64_t k = 0; k < order; ++k) factor *= e - static_cast<double>(k);
    double rest = e - static_cast<double>(order);
    if (factor == 0) return copy_into(c.out(0), number(0, c.out(0).dtype()));
    dispatch<FloatingTypes>(compute_dtype<Result::Same>(c), c.name(), [&]<class T>() {
        if (rest == 0) return map_inputs<T, T, 1>(c, Scaled{factor});
        if (rest == 2) return map_inputs<T, T, 2>(c, ScaledBySquare{factor});
        if (rest == -0.5) return map_inputs<T, T, 2>(c, ScaledByRsqrt{factor});
        if (rest != 1) return map_inputs<T, T, 2>(c, PowerBackward{factor, rest});
        Value scale(factor);
        const Value* attrs = std::exchange(c.attrs, &scale);
        scaled_mul.op().kernel(c);
        c.attrs = attrs;
    });
}

/// By self: fused where the exponent is a number, else e self^(e - 1), and 0 where e = 0.
Tensor gradient_by_base(const Grad& g) {
    Tensor x = g.in(0), e = g.in(1);
    if (is_complex(g.out_dtype(0))) {
        Tensor flat = ops::eq(e, number(0, e.dtype()));
        return ops::where(flat, number(0, g.grad().dtype()),
                          g.grad() * conj(e * ops::pow(x, e - 1.0)));
    }
    if (e.has(kWrapped)) return pow_backward(g.grad(), x, e.item_double(), 1);
    Tensor zero = number(0, g.grad().dtype());
    Tensor flat = ops::eq(e, number(0, e.dtype()));
    return ops::where(flat, zero, g.grad() * (e * ops::pow(x, e - 1.0)));
}
/// By the exponent: self^e log(self), and 0 where self = 0 and e >= 0.
Tensor gradient_by_exponent(const Grad& g) {
    Tensor x = g.in(0), e = g.in(1);
    if (is_complex(g.out_dtype(0))) {
        Tensor flat = ops::eq(x, number(0, x.dtype()));
        return ops::where(flat, number(0, g.grad().dtype()),
                          g.grad() * conj(g.out(0) * ops::log(ops::to(x, g.out_dtype(0)))));
    }
    if (x.has(kWrapped) && x.item_double() > 0)
        return scaled_mul(g.grad(), g.out(0), std::log(x.item_double()));
    Tensor zero = number(0, g.grad().dtype());
    Tensor flat = logical_and(ops::eq(x, number(0, x.dtype())), ops::ge(e, number(0, e.dtype())));
    return g.grad() * ops::where(flat, zero, g.out(0) * ops::log(x));
}

}  // namespace

void register_power(Table& t) {
    t.add("pow(Tensor self, Tensor exponent) -> Tensor")
        .doc("self ** exponent. Integers stay integers: they wrap, and a negative number as "
             "exponent "
             "raises RuntimeError.\n>>> weft.pow(weft.tensor([1., 2., 3.]), 2)\n"
             "tensor([1., 4., 9.])")
        .shape(pow_shape)
        .kernel(pow_kernel)
        .reads_numbers(save_in(1))
        .batch([](const BatchCall& c, BatchForm& form) {  // squares are no general powers
            return batch_pointwise(c, form);
        })
        .pointwise()
        .strided_output()
        .inplace()
        .out_form()
        .number_self()
        .node_name([](const Call& c) {
            return c.in[1].has(kWrapped)   ? "PowBackward0"
                   : c.in[0].has(kWrapped) ? "PowBackward2"
                                           : "PowBackward1";
        })
        .numbers_apart(save_in(0) | save_in(1))
        .grad(0, save_in(0) | save_in(1), gradient_by_base)
        .grad(1, save_in(0) | save_in(1) | save_out(0), gradient_by_exponent)
        .samples({"f(T(2, 3), 2)", "f(T(2, 3), 3)", "f(T(2, 3, lo=0.5), 0.5)",
                  "f(T(3, lo=0.5), -1.5)", "f(T(2, 3, lo=0.5), T(3))",
                  "f(2, "
                  "T(2, 3))",
                  "f(I(4), 3)", "f(T(), 4)", "f(I(4), I(4))", "f(T(0, 3), 2)"});
    t.add("pow_backward(Tensor grad, Tensor self, float exponent, int order=1) -> Tensor")
        .doc("grad times the derivative of self ** exponent, of any order.")
        .shape(pointwise<Result::Same>)
        .kernel(pow_backward_kernel)
        .pointwise()
        .strided_output()
        .internal()
        .node_name("MulBackward0")
        .grad(0, save_in(1),
              [](const Grad& g) { return pow_backward(g.grad(), g.in(1), g.attr(0), g.attr(1)); })
        .grad(1, save_in(0) | save_in(1), [](const Grad& g) {
            return pow_backward(g.grad() * g.in(0), g.in(1), g.attr(0), g.attr(1).as_int() + 1);
        });
}

}  // namespace weft
