/// Choices and bounds: where, clamp; and the fused addcmul, addcdiv.
#include <cmath>

#include "kernels/complex.h"
#include "kernels/half_loops.h"
#include "ops/batch.h"
#include "ops/conj.h"
#include "ops/indexing.h"
#include "ops/pointwise_common.h"

namespace weft {
namespace {

using namespace ops;

const Function clamp_backward{"clamp_backward"};

// ---- where

/// Bits are moved, not numbers: one loop for each size of element. The condition is read as bytes,
/// which the compiler turns into vector code, as it does not with bools.
struct Where {
    template <class T>
    WEFT_INLINE T operator()(uint8_t c, T a, T b) const {
        return c != 0 ? a : b;
    }
};
/// `value` where the condition is `when`, else a.
template <class T>
struct WhereNumber {
    T value;
    bool when;
    WEFT_INLINE T operator()(bool c, T a) const { return c == when ? value : a; }
};

template <class Bits>
void choose(Call& c, const Tensor& condition, const Tensor& a, const Tensor& b) {
    bool number_a = a.ndim() == 0;
    if (number_a || b.ndim() == 0) {
        WhereNumber<Bits> f{*(number_a ? a : b).data<Bits>(), number_a};
        Tensor in[] = {condition, number_a ? b : a};
        return run_map_of(c, kernels::map_loop<WhereNumber<Bits>, Bits, bool, Bits>(), f, in, 2);
    }
    Where f;
    Tensor in[] = {condition, a, b};
    run_map_of(c, kernels::map_loop<Where, Bits, uint8_t, Bits, Bits>(), f, in, 3);
}

void where_shape(Call& c) {
    DType given = c.in[0].dtype();
    WEFT_EXPECT(
        given == DType::Bool || given == DType::UInt8, Runtime, c.name(), "bools",
        text(name(given),
             " (where expected condition to be a boolean tensor, but got a tensor with dtype ",
             scalar_name(given), ")"),
        "compare to get one: where(condition != 0, ...)");
    DType t = promoted(c.in + 1, 2);
    for (int i = 1; i < 3; ++i)
        if (c.in[i].has(kWrapped) && is_narrow(t) && !is_floating(t))
            require_fits(c.name(), c.in[i], t);
    pointwise_layout(c, t);
}
void where_kernel(Call& c) {
    DType t = promoted(c.in + 1, 2);
    Tensor a = c.in[1].dtype() == t ? c.in[1] : as_dtype(c.in[1], t);
    Tensor b = c.in[2].dtype() == t ? c.in[2] : as_dtype(c.in[2], t);
    Tensor condition = c.in[0].dtype() == DType::Bool ? c.in[0] : as_dtype(c.in[0], DType::Bool);
    dispatch_size(t, [&]<class U>() { choose<U>(c, condition, a, b); });
}

void register_where(Table& t) {
    t.add("where(Tensor condition, Tensor self, Tensor other) -> Tensor")
        .doc("self where condition (bool) holds, else other; all broadcast, numbers allowed.\n"
             ">>> weft.where(weft.tensor([True, False]), weft.tensor([1., 2.]), 0)\n"
             "tensor([1., 0.])")
        .shape(where_shape)
        .kernel(where_kernel)
        .reads_numbers(save_in(1) | save_in(2))
        .every_dtype()
        .pointwise()
        .strided_output()
        .out_form()
        .function_only()
        .grad(1, save_in(0),
              [](const Grad& g) {
                  return ops::where(g.in(0), g.grad(), number(0, g.grad().dtype()));
              })
        .grad(2, save_in(0),
              [](const Grad& g) {
                  return ops::where(g.in(0), number(0, g.grad().dtype()), g.grad());
              })
        .onnx("Where(truth(condition), self, other)")
        .samples({"f(B(2, 3), T(2, 3), T(2, 3))", "f(B(2, 1), T(3), 0.5)", "f(B(3), 1, T(2, 3))",
                  "f(B(3), 1, 0)", "f(B(), T(), T(0, 3))", "f(B(4), I(4), T(4))"});
    t.add("where.self(Tensor self, Tensor condition, Tensor other) -> Tensor")
        .doc("self where condition (bool) holds, else other.\n"
             ">>> weft.tensor([1., 2.]).where(weft.tensor([True, False]), 0)\ntensor([1., 0.])")
        .body([](Call& c) { c.set(ops::where(c.in[1], c.in[0], c.in[2])); })
        .pointwise()
        .batch(Batch::Body)
        .method_only()
        .onnx("Where(truth(condition), self, other)")
        .samples({"T(2, 3).where(B(2, 3), T(2, 3))"});
}

// ---- clamp

template <class T>
struct ClampBackward {
    T low, high;
    WEFT_INLINE T operator()(T g, T x) const { return x >= low && x <= high ? g : T(0); }
};
struct ClampTensor {
    static constexpr int one_loop = 64;
    template <class T>
    WEFT_INLINE T operator()(T x, T low, T high) const {
        T y = Clamp<T>{low, high}(x);
        return ((low != low) | (high != high)) ? low + high : y;
    }
};

/// The dtype of self and the numbers in `bounds`, which count as Python's numbers do.
DType with_numbers(const Tensor& self, const Value& low, const Value& high) {
    DType t = self.dtype();
    if (is_complex(t)) fail_dtype("clamp", NumberTypes::text, t);
    for (const Value* v : {&low, &high}) {
        if (v->kind() == Value::Kind::Float && !is_floating(t)) t = default_dtype;
        if (v->kind() == Value::Kind::Int && t == DType::Bool) t = DType::Int64;
    }
    for (const Value* v : {&low, &high}) {
        if (v->kind() == Value::Kind::Complex && !is_floating(t))
            fail_dtype("clamp", NumberTypes::text, DType::Complex64);
        if (*v && is_narrow(t)) require_fits("clamp", as_tensor(*v), t);
    }
    return t;
}
void clamp_to(Call& c, const Value& low, const Value& high) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    auto undefined = [](const Value& v) { return v && std::isnan(v.as_double()); };
    if (undefined(low) || undefined(high))
        return copy_into(c.out(0), number(nan, c.out(0).dtype()));
    dispatch<NumberTypes>(with_numbers(c.in[0], low, high), c.name(), [&]<class T>() {
        map_inputs<T, T, 1>(c, Clamp<T>{low_bound<T>(low), high_bound<T>(high)});
    });
}
void clamp_shape(Call& c) {
    WEFT_EXPECT(c.attr(0) || c.attr(1), Runtime, c.name(), "a bound",
                "none (torch.clamp: At least one of 'min' or 'max' must not be None)");
    pointwise_layout(c, with_numbers(c.in[0], c.attr(0), c.attr(1)));
}

/// min and max as tensors, either may be missing.
struct Bounds {
    Tensor in[3];
    int count = 0;
    explicit Bounds(const Call& c) {
        for (int i = 0; i < c.inputs; ++i)
            if (c.in[i].defined()) in[count++] = c.in[i];
    }
};
void clamp_tensor_shape(Call& c) {
    Bounds given(c);
    for (int i = 0; i < given.count; ++i)
        if (is_complex(given.in[i].dtype()))
            fail_dtype(c.name(), NumberTypes::text, given.in[i].dtype());
    WEFT_EXPECT(given.count > 1, Runtime, c.name(), "a bound",
                "none (torch.clamp: At least one of 'min' or 'max' must not be None)");
    Call defined(*c.op, given.in, given.count, c.attrs);
    pointwise<Result::Same>(defined);
    c.add(std::move(defined.out(0)));
}
void clamp_tensor_kernel(Call& c) {
    Bounds given(c);
    Call defined(*c.op, given.in, given.count, c.attrs);
    defined.add(c.out(0));
    bool low = c.in[1].defined();
    if (given.count == 3) map_kernel<ClampTensor, AllTypes, Result::Same, 3>(defined);
    else if (low) map_kernel<Maximum, AllTypes, Result::Same, 2>(defined);
    else map_kernel<Minimum, AllTypes, Result::Same, 2>(defined);
}

Tensor only_where(const Tensor& condition, const Tensor& t) {
    return ops::where(condition, t, number(0, t.dtype()));
}
Tensor gradient_within(const Grad& g) {
    Tensor x = g.in(0), low = g.in(1), high = g.in(2);
    if (!high.defined()) return only_where(ops::ge(x, low), g.grad());
    if (!low.defined()) return only_where(ops::le(x, high), g.grad());
    return only_where(logical_and(ops::ge(x, low), ops::le(x, high)), g.grad());
}
Tensor gradient_by_low(const Grad& g) {
    Tensor x = g.in(0), low = g.in(1), high = g.in(2), below = ops::lt(x, low);
    return only_where(high.defined() ? logical_and(below, ops::lt(low, high)) : below, g.grad());
}
Tensor gradient_by_high(const Grad& g) {
    Tensor x = g.in(0), low = g.in(1), high = g.in(2), above = ops::gt(x, high);
    return only_where(low.defined() ? logical_or(above, ops::lt(high, low)) : above, g.grad());
}

void register_clamp(Table& t) {
    shaped_op(t, "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", clamp_shape,
              [](Call& c) { clamp_to(c, c.attr(0), c.attr(1)); })
        .doc("self held between min and max, either of which may be None. NaN stays.\n"
             ">>> weft.clamp(weft.tensor([-1., 0.5, 3.]), 0, 1)\ntensor([0.0000, 0.5000, 1.0000])")
        .inplace()
        .alias("clip")
        .node_name("ClampBackward1")
        .grad(0, save_in(0),
              [](const Grad& g) { return clamp_backward(g.grad(), g.in(0), g.attr(0), g.attr(1)); })
        .samples({"f(T(2, 3), -0.5, 0.5)", "f(T(), min=0)", "f(T(0, 3), max=1.5)", "f(I(5), 1, 3)",
                  "f(I(5), 0.5)"});
    shaped_op(t, "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
              clamp_tensor_shape, clamp_tensor_kernel)
        .doc("self held between the elements of min and max, broadcast.\n"
             ">>> weft.clamp(weft.tensor([-1., 3.]), max=weft.tensor([0., 1.]))\n"
             "tensor([-1.,  1.])")
        .inplace()
        .alias("clip")
        .grad(0, save_in(0) | save_in(1) | save_in(2), gradient_within)
        .grad(1, save_in(0) | save_in(1) | save_in(2), gradient_by_low)
        .grad(2, save_in(0) | save_in(1) | save_in(2), gradient_by_high)
        .samples({"f(T(2, 3), T(2, 3), T(2, 3))", "f(T(2, 1), min=T(3))", "f(T(2, 3), max=T())",
                  "f(I(5), I(5), I(5))"});
    shaped_op(
        t, "clamp_min(Tensor self, Scalar min) -> Tensor",
        [](Call& c) { pointwise_layout(c, with_numbers(c.in[0], c.attr(0), {})); },
        [](Call& c) { clamp_to(c, c.attr(0), {}); })
        .doc("self where above min, else min.\n"
             ">>> weft.clamp_min(weft.tensor([-1., 3.]), 0)\ntensor([0., 3.])")
        .inplace()
        .grad(0, save_in(0),
              [](const Grad& g) { return clamp_backward(g.grad(), g.in(0), g.attr(0), Value()); })
        .onnx("Max(self, min)")
        .samples({"f(T(2, 3), 0.1)", "f(I(4), 2)", "f(T(), -1)"});
    shaped_op(t, "clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", pointwise<Result::Same>,
              map_kernel<Maximum, AllTypes, Result::Same, 2>)
        .doc("self where above min, else min.\n"
             ">>> weft.clamp_min(weft.tensor([-1., 3.]), weft.tensor([0., 4.]))\ntensor([0., 4.])")
        .inplace()
        .node_name("ClampMinBackward1")
        .grad(0, save_in(0) | save_in(1),
              [](const Grad& g) { return only_where(ops::ge(g.in(0), g.in(1)), g.grad()); })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) { return only_where(ops::lt(g.in(0), g.in(1)), g.grad()); })
        .onnx("Max(self, min)")
        .samples({"f(T(2, 3), T(3))", "f(T(2, 3), T())"});
    shaped_op(
        t, "clamp_max(Tensor self, Scalar max) -> Tensor",
        [](Call& c) { pointwise_layout(c, with_numbers(c.in[0], c.attr(0), {})); },
        [](Call& c) { clamp_to(c, {}, c.attr(0)); })
        .doc("self where below max, else max.\n"
             ">>> weft.clamp_max(weft.tensor([-1., 3.]), 0)\ntensor([-1.,  0.])")
        .inplace()
        .grad(0, save_in(0),
              [](const Grad& g) { return clamp_backward(g.grad(), g.in(0), Value(), g.attr(0)); })
        .onnx("Min(self, max)")
        .samples({"f(T(2, 3), 0.1)", "f(I(4), 2)", "f(T(), -1)"});
    shaped_op(t, "clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", pointwise<Result::Same>,
              map_kernel<Minimum, AllTypes, Result::Same, 2>)
        .doc("self where below max, else max.\n"
             ">>> weft.clamp_max(weft.tensor([-1., 3.]), weft.tensor([0., 4.]))\n"
             "tensor([-1.,  3.])")
        .inplace()
        .node_name("ClampMaxBackward1")
        .grad(0, save_in(0) | save_in(1),
              [](const Grad& g) { return only_where(ops::le(g.in(0), g.in(1)), g.grad()); })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) { return only_where(ops::gt(g.in(0), g.in(1)), g.grad()); })
        .onnx("Min(self, max)")
        .samples({"f(T(2, 3), T(3))", "f(T(2, 3), T())"});
    t.add("clamp_backward(Tensor grad, Tensor self, Scalar? min, Scalar? max) -> Tensor")
        .doc("grad where min <= self <= max, else 0.")
        .shape(pointwise<Result::Same>)
        .kernel([](Call& c) {
            dispatch<FloatingTypes>(compute_dtype<Result::Same>(c), c.name(), [&]<class T>() {
                map_inputs<T, T, 2>(
                    c, ClampBackward<T>{low_bound<T>(c.attr(0)), high_bound<T>(c.attr(1))});
            });
        })
        .pointwise()
        .strided_output()
        .internal()
        .node_name("WhereBackward0")
        .grad(0, save_in(1), [](const Grad& g) {
            return clamp_backward(g.grad(), g.in(1), g.attr(0), g.attr(1));
        });
}

// ---- addcmul, addcdiv

template <class S>
struct Addcmul {
    S value;
    template <class T>
    WEFT_INLINE T operator()(T a, T b, T c) const {
        return a + kernels::times(kernels::times(static_cast<T>(value), b), c);
    }
};
template <class S>
Addcmul(S) -> Addcmul<S>;  // which clang before 17 does not deduce of an aggregate
template <class S>
struct Addcdiv {
    static constexpr int one_loop = 64;
    S value;
    template <class T>
    WEFT_INLINE T operator()(T a, T b, T c) const {
        return a + kernels::times(static_cast<T>(value), kernels::over(b, c));
    }
};
template <class S>
Addcdiv(S) -> Addcdiv<S>;

/// The widest number of T's kind, and `value` as such.
template <class T>
auto widest(const Value& value) {
    if constexpr (kernels::is_complex_v<T>) return value.as_complex();
    else if constexpr (std::is_floating_point_v<T>) return value.as_double();
    else return value.as_int();
}

/// grad * conj(factor) * conj(value).
Tensor gradient_of_product(const Tensor& grad, const Tensor& factor, const Value& value) {
    if (value.kind() != Value::Kind::Complex) return scaled_mul(grad, conj(factor), value);
    return times_conj(grad, value) * conj(factor);
}

void addcdiv_shape(Call& c) {
    WEFT_EXPECT(is_inexact(c.in[1].dtype()) || is_inexact(c.in[2].dtype()), Runtime, c.name(),
                "a floating tensor1 or tensor2",
                "integers (Integer division with addcdiv is no longer supported)",
                "add value * tensor1 / tensor2");
    pointwise<Result::Same>(c);
}

void register_fused_products(Table& t) {
    shaped_op(t,
              "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, "
              "Scalar value=1) -> Tensor",
              pointwise<Result::Same>,
              [](Call& c) {
                  DType t = compute_dtype<Result::Same>(c);
                  dispatch<WithComplex<NumberTypes>>(t, c.name(), [&]<class T>() {
                      map_inputs<T, T, 3>(c, Addcmul{widest<T>(c.attr(0))});
                  });
              })
        .doc("self + value * tensor1 * tensor2.\n"
             ">>> weft.addcmul(weft.ones(2), weft.tensor([1., 2.]), weft.tensor([3., 4.]),\n"
             "...              value=0.5)\n"
             "tensor([2.5000, 5.0000])")
        .older_order({"self", "value", "tensor1", "tensor2"})
        .inplace()
        .grad(0, 0, [](const Grad& g) { return g.grad(); })
        .grad(1, save_in(2),
              [](const Grad& g) { return gradient_of_product(g.grad(), g.in(2), g.attr(0)); })
        .grad(2, save_in(1),
              [](const Grad& g) { return gradient_of_product(g.grad(), g.in(1), g.attr(0)); })
        .onnx("self + tensor1 * tensor2 * value")
        .samples({"f(T(2, 3), T(2, 3), T(2, 3))", "f(T(3), T(2, 1), T(3), value=0.5)",
                  "f(I(3), I(3), I(3), value=2)", "f(T(0, 3), T(3), T())"});
    shaped_op(t,
              "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, "
              "Scalar value=1) -> Tensor",
              addcdiv_shape,
              [](Call& c) {
                  DType t = compute_dtype<Result::Same>(c);
                  dispatch<WithComplex<FloatingTypes>>(t, c.name(), [&]<class T>() {
                      map_inputs<T, T, 3>(c, Addcdiv{widest<T>(c.attr(0))});
                  });
              })
        .doc("self + value * tensor1 / tensor2.\n"
             ">>> weft.addcdiv(weft.ones(2), weft.tensor([1., 2.]), weft.tensor([2., 4.]))\n"
             "tensor([1.5000, 1.5000])")
        .older_order({"self", "value", "tensor1", "tensor2"})
        .inplace()
        .grad(0, 0, [](const Grad& g) { return g.grad(); })
        .grad(1, save_in(2),
              [](const Grad& g) {
                  if (!is_complex(g.grad().dtype()))
                      return scaled_div(g.grad(), g.in(2), g.attr(0));
                  return times_conj(g.grad(), g.attr(0)) / conj(g.in(2));
              })
        .grad(2, save_in(1) | save_in(2),
              [](const Grad& g) {
                  return div_backward(times_conj(g.grad(), g.attr(0)), conj(g.in(1)),
                                      conj(g.in(2)));
              })
        .onnx("self + tensor1 / tensor2 * value")
        .samples({"f(T(2, 3), T(2, 3), T(2, 3, lo=0.5))",
                  "f(T(3), T(2, 1), T(3, lo=0.5), value=0.5)", "f(T(0, 3), T(3), T(lo=1))"});
}

}  // namespace

void register_ternary(Table& t) {
    register_where(t);
    register_clamp(t);
    register_fused_products(t);
    kernels::add_half_loops<Addcmul<double>, 3>();
    kernels::add_half_loops<Addcdiv<double>, 3>();
}

}  // namespace weft
