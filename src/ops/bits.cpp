/// Shifts, divisors, and the parts of floating numbers: signs, exponents, neighbours.
#include <cmath>
#include <numeric>

#include "ops/pointwise_common.h"

namespace weft {
namespace {

using namespace ops;

/// What C leaves undefined is what PyTorch gives: no bit is left of a shift by the width or more,
/// or of one by less than 0; to the right the sign stays.
struct ShiftLeft {
    WEFT_INLINE int64_t operator()(int64_t a, int64_t b) const {
        bool inside = (b >= 0) & (b < 64);
        return inside ? static_cast<int64_t>(static_cast<uint64_t>(a) << (b & 63)) : 0;
    }
};
struct ShiftRight {
    WEFT_INLINE int64_t operator()(int64_t a, int64_t b) const {
        bool inside = (b >= 0) & (b < 63);
        return a >> (inside ? b : 63);
    }
};
struct Gcd {
    WEFT_INLINE int64_t operator()(int64_t a, int64_t b) const {
        while (a != 0) {
            int64_t rest = a == -1 ? 0 : b % a;
            b = a;
            a = rest;
        }
        return b < 0 ? static_cast<int64_t>(0 - static_cast<uint64_t>(b)) : b;
    }
};
/// The product wraps, as PyTorch's in int or in int64, before its sign is taken off.
struct Lcm {
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        int64_t g = Gcd{}(a, b);
        if (g == 0) return 0;
        using Product = std::conditional_t<sizeof(T) <= 4, int32_t, int64_t>;
        const int64_t product =
            static_cast<Product>(static_cast<uint64_t>(a / g) * static_cast<uint64_t>(b));
        return static_cast<T>(product < 0 ? 0 - static_cast<uint64_t>(product) : product);
    }
};

/// Integers, bool excepted where PyTorch has no meaning for it.
template <class F>
void integer_kernel(Call& c) {
    map_inputs<int64_t, int64_t, 2>(c, F{});
}
void lcm_kernel(Call& c) {
    dispatch_computed(c.out(0).dtype(), c.name(), [&]<class T>() {
        if constexpr (is_wide_unsigned(dtype_of<T>))
            fail_dtype(c.name(), "a dtype that it computes", dtype_of<T>);
        else if constexpr (category(dtype_of<T>) == Category::Integer)
            map_inputs<T, T, 2>(c, Lcm{});
    });
}
void integer_shape(Call& c) {
    pointwise<Result::Same>(c);
    WEFT_EXPECT(category(c.out(0).dtype()) == Category::Integer, NotImplemented, c.name(),
                "integers", text(name(c.out(0).dtype()), " (not implemented for it)"));
}
OpBuilder integer_op(Table& t, std::string_view name, void (*kernel)(Call&),
                     std::source_location where = std::source_location::current()) {
    return shaped_op(t, text(name, "(Tensor self, Tensor other) -> Tensor"), integer_shape, kernel,
                     where)
        .inplace();
}

void register_integers(Table& t) {
    integer_op(t, "bitwise_left_shift", integer_kernel<ShiftLeft>)
        .uint64(Uint64::Bits)
        .doc("self << other. Integers.\n>>> weft.bitwise_left_shift(weft.tensor([1, 3]), 2)\n"
             "tensor([ 4, 12])")
        .number_self()
        .samples({"f(I(5), I(5))", "f(I(2, 1), I(3))", "f(I(3), 2)", "f(I(0), I())"});
    integer_op(t, "bitwise_right_shift", integer_kernel<ShiftRight>)
        .doc("self >> other, the sign kept. Integers.\n"
             ">>> weft.bitwise_right_shift(weft.tensor([4, -8]), 2)\ntensor([ 1, -2])")
        .number_self()
        .samples({"f(I(5), I(5))", "f(I(2, 1), I(3))", "f(I(3), 2)", "f(I(0), I())"});
    integer_op(t, "gcd", integer_kernel<Gcd>)
        .doc("The greatest common divisor, at least 0.\n"
             ">>> weft.gcd(weft.tensor([4, -6]), weft.tensor([6, 9]))\ntensor([2, 3])")
        .samples({"f(I(5, high=30), I(5, high=30))", "f(I(2, 1), I(3))", "f(I(0), I())"});
    integer_op(t, "lcm", lcm_kernel)
        .every_dtype()
        .doc("The least common multiple, at least 0.\n"
             ">>> weft.lcm(weft.tensor([4, 0]), weft.tensor([6, 9]))\ntensor([12,  0])")
        .samples({"f(I(5, high=30), I(5, high=30))", "f(I(2, 1), I(3))", "f(I(0), I())"});
}

struct Copysign {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        return std::copysign(a, b);
    }
};
struct Nextafter {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        if constexpr (is_narrow(dtype_of<T>)) {
            const auto from = static_cast<float>(a), to = static_cast<float>(b);
            if (from != from || to != to) return T(from + to);
            if (from == to) return b;
            const uint16_t sign = (from == 0 ? to : from) < 0 ? 0x8000 : 0;
            if (from == 0) a.bits = sign + 1;
            else a.bits = static_cast<uint16_t>(a.bits + ((from < to) == (from > 0) ? 1 : -1));
            return a;
        } else {
            return std::nextafter(a, b);
        }
    }
};
void nextafter_kernel(Call& c) {
    const DType dtype = compute_dtype<Result::Same>(c);
    if (dtype == DType::Float16) return map_inputs<kernels::Half, kernels::Half, 2>(c, Nextafter{});
    if (dtype == DType::BFloat16)
        return map_inputs<kernels::BFloat16, kernels::BFloat16, 2>(c, Nextafter{});
    map_kernel<Nextafter, FloatingTypes, Result::Same, 2>(c);
}
struct Heaviside {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        return a == T(0) ? b : static_cast<T>(a > T(0));
    }
};
struct SignBit {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE bool operator()(T x) const {
        if constexpr (std::is_floating_point_v<T>) return std::signbit(x);
        else return x < T(0);
    }
};
template <bool Positive>
struct IsInfinite {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE bool operator()(T x) const {
        if constexpr (std::is_floating_point_v<T>)
            return Positive ? x > std::numeric_limits<T>::max()
                            : x < std::numeric_limits<T>::lowest();
        else return false;
    }
};

/// d|a|/da by the signs of both: where the sign stays the gradient passes.
Tensor copysign_gradient(const Grad& g) {
    Tensor a = g.in(0), zero = number(0, g.grad().dtype());
    Tensor ratio = ops::where(ops::eq(a, zero), zero, g.out(0) / a);
    return g.grad() * ratio;
}

void register_signs(Table& t) {
    pointwise_op<Copysign, FloatingTypes, Result::Float, 2>(
        t, "copysign(Tensor self, Tensor other) -> Tensor")
        .doc("The magnitude of self with the sign of other.\n"
             ">>> weft.copysign(weft.tensor([1., -2.]), weft.tensor([-1., 0.]))\n"
             "tensor([-1.,  2.])")
        .inplace()
        .node_name([](const Call& c) {
            return c.in[1].has(kWrapped) ? "CopysignBackward1" : "CopysignBackward0";
        })
        .numbers_apart(save_in(1))
        .grad(0, save_in(0) | save_out(0), copysign_gradient)
        .grad(1, 0, [](const Grad& g) { return zeros(g.in_shape(1), g.out_dtype(0)); })
        .samples({"f(T(2, 3), T(2, 3))", "f(T(2, 1), T(3))", "f(T(3), -2.0)", "f(I(3), I(3))"});
    pointwise_op<SignBit, AllTypes, Result::Bool, 1>(t, "signbit(Tensor self) -> Tensor")
        .uint64(Uint64::Numbers)
        .doc("Whether the sign bit is set: negative numbers, and -0.\n"
             ">>> weft.signbit(weft.tensor([-1., 0., -0.]))\ntensor([ True, False,  True])")
        .samples({"f(T(2, 3))", "f(I(4))", "f(B(2))"});
    pointwise_op<IsInfinite<true>, AllTypes, Result::Bool, 1>(t, "isposinf(Tensor self) -> Tensor")
        .uint64(Uint64::Numbers)
        .doc("Whether elements are +infinity.\n>>> weft.isposinf(weft.tensor([1., float('inf')]))\n"
             "tensor([False,  True])")
        .onnx("IsInf(self, detect_negative=0) if floating(self) else truth(self * 0)")
        .samples({"f(T(2, 3))", "f(I(4))", "f(B(2))"});
    pointwise_op<IsInfinite<false>, AllTypes, Result::Bool, 1>(t, "isneginf(Tensor self) -> Tensor")
        .uint64(Uint64::Numbers)
        .doc(
            "Whether elements are -infinity.\n>>> weft.isneginf(weft.tensor([1., -float('inf')]))\n"
            "tensor([False,  True])")
        .onnx("IsInf(self, detect_positive=0) if floating(self) else truth(self * 0)")
        .samples({"f(T(2, 3))", "f(I(4))", "f(B(2))"});
    shaped_op(
        t, "heaviside(Tensor self, Tensor values) -> Tensor",
        [](Call& c) {
            WEFT_EXPECT(c.in[0].dtype() == c.in[1].dtype(), Runtime, c.name(),
                        "tensors of one dtype",
                        text(name(c.in[0].dtype()), " and ", name(c.in[1].dtype())));
            pointwise<Result::Same>(c);
        },
        map_kernel<Heaviside, AllTypes, Result::Same, 2>)
        .doc("0 below 0, `values` at 0, 1 above.\n"
             ">>> weft.heaviside(weft.tensor([-2., 0., 3.]), weft.tensor(0.5))\n"
             "tensor([0.0000, 0.5000, 1.0000])")
        .no_derivative()
        .inplace()
        .onnx("Where(Equal(self, 0), values, cast(self > 0, self.dtype))")
        .samples({"f(I(5), I(5))", "f(I(2, 1), I(3))"});
}

/// self = mantissa * 2^exponent with a mantissa in [0.5, 1).
void frexp_kernel(Call& c) {
    Tensor x = as_contiguous(c.in[0]);
    dispatch<FloatingTypes>(x.dtype(), c.name(), [&]<class T>() {
        const T* from = x.data<T>();
        T* mantissa = c.out(0).data<T>();
        auto* exponent = c.out(1).data<int64_t>();
        for (int64_t i = 0; i < x.numel(); ++i) {
            int power = 0;
            mantissa[i] = std::frexp(from[i], &power);
            exponent[i] = power;
        }
    });
}

void register_parts(Table& t) {
    shaped_op(t, "nextafter(Tensor self, Tensor other) -> Tensor", nextafter_kernel)
        .every_dtype()
        .doc("The next floating number after self towards other.\n"
             ">>> weft.nextafter(weft.tensor(1.), weft.tensor(2.)) > 1\ntensor(True)")
        .inplace()
        .grad(0, save_in(0) | save_in(1),
              [](const Grad& g) {
                  return ops::where(ops::eq(g.in(0), g.in(1)), number(0, g.grad().dtype()),
                                    g.grad());
              })
        .grad(1, 0, [](const Grad& g) { return zeros(g.in_shape(1), g.out_dtype(0)); })
        .no_onnx("neighbours of a floating-point number")
        .samples({"f(T(2, 3), T(2, 3))", "f(T(2, 1), T(3))", "f(T(), T(0, 3))"});
    t.add("_frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)")
        .doc("self = mantissa * 2^exponent with |mantissa| in [0.5, 1); the exponent as int64.")
        .shape([](Call& c) {
            const Tensor& x = c.in[0];
            if (!is_floating(x.dtype())) fail_dtype("frexp", FloatingTypes::text, x.dtype());
            c.add(Tensor::layout(x.dtype(), x.shape()));
            c.add(Tensor::layout(DType::Int64, x.shape()));
        })
        .kernel(frexp_kernel)
        .internal()
        .in_packages()
        .constant_output(1)
        .node_name("FrexpBackward0")
        .grad(0, save_out(1),
              [](const Grad& g) {
                  static const Function exp2{"exp2"};
                  Tensor power = ops::to(-g.out(1), g.grad().dtype());
                  return g.grad() * exp2(power);
              })
        .samples({"f(T(2, 3))"});
}

}  // namespace

void register_bits(Table& t) {
    register_integers(t);
    register_signs(t);
    register_parts(t);
}

}  // namespace weft
