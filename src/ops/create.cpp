/// New tensors from sizes and numbers.
#include <cmath>
#include <cstring>
#include <optional>

#include "base/lock.h"
#include "ops/batch.h"
#include "ops/indexing.h"
#include "ops/pointwise.h"
#include "ops/shape.h"

namespace weft {
namespace {

using namespace ops;

/// A tensor of the sizes in attribute 0. Throws Runtime for negative or overflowing ones.
void sized(Call& c, DType dtype) {
    DimSpan size = c.attr(0).as_ints();
    count_elements(c.name(), size, item_size(dtype));
    c.add(Tensor::layout(dtype, size));
}

template <int DTypeSlot>
void sized_shape(Call& c) {
    sized(c, c.attr(DTypeSlot).as_dtype(default_dtype));
}

// ---- constants ---------------------------------------------------------------------------------

void zeros_kernel(Call& c) {
    const Tensor& out = c.out(0);
    Unlocked unlocked(out.numel() / 8);
    std::memset(out.bytes(), 0, out.numel() * item_size(out.dtype()));
}

void fill(const Call& c, const Value& value) {
    const Tensor& out = c.out(0);
    if (value.kind() >= Value::Kind::Float || is_narrow(out.dtype()))
        require_fits(c.name(), as_tensor(value), out.dtype());
    Tensor number =
        value.kind() == Value::Kind::Complex ? Tensor::scalar(value.as_complex(), out.dtype())
        : value.kind() == Value::Kind::Float ? Tensor::scalar(value.as_double(), out.dtype())
                                             : Tensor::scalar(value.as_int(), out.dtype());
    constexpr int64_t few = 1024;  // the copy of one element into many has wider stores
    if (out.numel() > few) return copy_into(out, number);
    dispatch_size(out.dtype(),
                  [&]<class U>() { std::fill_n(out.data<U>(), out.numel(), *number.data<U>()); });
}

void ones_kernel(Call& c) { fill(c, 1); }

DType dtype_of_number(const Value& v) {
    if (v.kind() == Value::Kind::Float) return default_dtype;
    if (v.kind() == Value::Kind::Complex) return complex_dtype(default_dtype);
    return v.kind() == Value::Kind::Bool ? DType::Bool : DType::Int64;
}

void eye_shape(Call& c) {
    int64_t n = c.attr(0).as_int(), m = c.attr(1).none() ? n : c.attr(1).as_int();
    WEFT_EXPECT(n >= 0, Runtime, c.name(), "a size",
                text(n, " (n must be greater or equal to 0, got ", n, ")"));
    WEFT_EXPECT(m >= 0, Runtime, c.name(), "a size",
                text(m, " (m must be greater or equal to 0, got ", m, ")"));
    c.add(Tensor::layout(c.attr(2).as_dtype(default_dtype), Dims{n, m}));
}

void eye_kernel(Call& c) {
    zeros_kernel(c);
    const Tensor& out = c.out(0);
    Tensor one = Tensor::scalar(1, out.dtype());
    dispatch_size(out.dtype(), [&]<class U>() {
        for (int64_t i = 0; i < std::min(out.size(0), out.size(1)); ++i)
            out.data<U>()[i * (out.size(1) + 1)] = *one.data<U>();
    });
}

// ---- ranges ------------------------------------------------------------------------------------

/// The bounds of arange, which has a form without start and step.
struct Range {
    explicit Range(const Call& c) {
        bool short_form = c.op->defaults.size() == 2;
        end = short_form ? c.attr(0) : c.attr(1);
        if (!short_form) start = c.attr(0), step = c.attr(2);
        const Value& asked = c.attr(short_form ? 1 : 3);
        bool real = false;
        for (const Value* v : {&start, &end, &step}) {
            WEFT_EXPECT(
                v->kind() != Value::Kind::Complex, Runtime, c.name(), "real bounds",
                "a complex one (value cannot be converted to type double without overflow)");
            real |= v->kind() == Value::Kind::Float;
        }
        dtype = asked.as_dtype(real ? default_dtype : DType::Int64);
    }
    Value start = 0, end, step = 1;
    DType dtype;
};

int64_t range_length(const Call& c, const Range& r) {
    double start = r.start.as_double(), end = r.end.as_double(), step = r.step.as_double();
    WEFT_EXPECT(step != 0, Runtime, c.name(), "step must be nonzero", text(step));
    WEFT_EXPECT(std::isfinite(start) && std::isfinite(end), Runtime, c.name(), "finite bounds",
                text("unsupported range: ", start, " -> ", end));
    WEFT_EXPECT(step > 0 ? end >= start : end <= start, Runtime, c.name(),
                "bounds in the order of the step's sign",
                text("start ", start, ", end ", end, ", step ", step,
                     " (upper bound and lower bound inconsistent with step sign)"));
    if (r.dtype == DType::Int64) {  // (PyTorch counts the others as it does floating ones)
        int64_t a = r.start.as_int(), b = r.end.as_int(), s = r.step.as_int();
        WEFT_EXPECT(s != 0, Runtime, c.name(), "step must be nonzero", text(step));
        uint64_t span = s > 0 ? static_cast<uint64_t>(b) - static_cast<uint64_t>(a)
                              : static_cast<uint64_t>(a) - static_cast<uint64_t>(b);
        uint64_t stride = s > 0 ? static_cast<uint64_t>(s) : -static_cast<uint64_t>(s);
        return static_cast<int64_t>(span / stride + (span % stride != 0));
    }
    double length = std::ceil((end - start) / step);
    WEFT_EXPECT(length < 0x1p62, Runtime, c.name(), "a size that fits in memory",
                text(length, " elements"));
    return static_cast<int64_t>(length);
}

void arange_shape(Call& c) {
    Range r(c);
    WEFT_EXPECT(r.dtype != DType::Bool, NotImplemented, c.name(), "a number dtype", "bool");
    c.add(Tensor::layout(r.dtype, Dims{range_length(c, r)}));
}

void arange_kernel(Call& c) {
    Range r(c);
    const Tensor& out = c.out(0);
    dispatch<NumberTypes>(out.dtype(), c.name(), [&]<class T>() {
        using S = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
        S start, step;
        if constexpr (std::is_floating_point_v<T>)
            start = r.start.as_double(), step = r.step.as_double();
        else start = r.start.as_int(), step = r.step.as_int();
        T* to = out.data<T>();
        // integers in the end fit, their products on the way need not: those may wrap
        using W = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
        for (int64_t i = 0, n = out.numel(); i < n; ++i)
            to[i] = static_cast<T>(
                static_cast<S>(static_cast<W>(start) + static_cast<W>(i) * static_cast<W>(step)));
    });
}

/// Attributes: start, end, steps, ..., dtype last.
void steps_shape(Call& c) {
    int64_t steps = c.attr(2).as_int();
    WEFT_EXPECT(steps >= 0, Runtime, c.name(), "steps",
                text(steps, " (number of steps must be non-negative)"));
    const auto is_complex_number = [&](int i) { return c.attr(i).kind() == Value::Kind::Complex; };
    const DType inferred =
        is_complex_number(0) || is_complex_number(1) ? complex_dtype(default_dtype) : default_dtype;
    DType dtype = c.attr(static_cast<int>(c.op->defaults.size()) - 1).as_dtype(inferred);
    WEFT_EXPECT(!is_complex(inferred) || is_complex(dtype), Runtime, c.name(),
                "a complex dtype for complex ends",
                text(name(dtype), " (inferred dtype can't be safely cast to passed dtype)"));
    c.add(Tensor::layout(dtype, Dims{steps}));
}

/// Even steps, or `base` to the power of each.
void complex_linspace(Call& c, std::optional<double> base) {
    const Tensor& out = c.out(0);
    Tensor made = Tensor::empty(DType::Complex128, out.shape());
    auto* at = made.data<std::complex<double>>();
    std::complex<double> start = c.attr(0).as_complex(), end = c.attr(1).as_complex();
    for (int64_t i = 0, n = out.numel(); i < n; ++i) {
        double part = n > 1 ? static_cast<double>(i) / static_cast<double>(n - 1) : 0;
        at[i] = start + (end - start) * part;
        if (base) at[i] = std::pow(std::complex<double>(*base), at[i]);
    }
    copy_into(out, made);
}

/// Even steps, counted from whichever end is nearer, so that both ends are exact.
void linspace_kernel(Call& c) {
    const Tensor& out = c.out(0);
    if (is_complex(out.dtype())) return complex_linspace(c, {});
    dispatch<NumberTypes>(out.dtype(), c.name(), [&]<class T>() {
        using S = std::conditional_t<std::is_floating_point_v<T>, T, double>;
        S start = static_cast<S>(static_cast<T>(c.attr(0).as_double()));
        S end = static_cast<S>(static_cast<T>(c.attr(1).as_double()));
        int64_t n = out.numel();
        S step = n > 1 ? (end - start) / static_cast<S>(n - 1) : S{0};
        for (int64_t i = 0; i < n; ++i) {
            bool near_start = i < n / 2 || n == 1;
            S at = near_start ? std::fma(step, static_cast<S>(i), start)
                              : std::fma(-step, static_cast<S>(n - 1 - i), end);
            out.data<T>()[i] = static_cast<T>(at);
        }
    });
}

/// In double between ends of the result's dtype, as PyTorch does.
void logspace_kernel(Call& c) {
    const Tensor& out = c.out(0);
    double base = c.attr(3).as_double();
    int64_t n = out.numel();
    if (is_complex(out.dtype())) return complex_linspace(c, base);
    dispatch<NumberTypes>(out.dtype(), c.name(), [&]<class T>() {
        double start = static_cast<double>(static_cast<T>(c.attr(0).as_double()));
        double end = static_cast<double>(static_cast<T>(c.attr(1).as_double()));
        double step = n > 1 ? (end - start) / static_cast<double>(n - 1) : 0;
        for (int64_t i = 0; i < n; ++i) {
            bool near_start = i < n / 2 || n == 1;
            double at = near_start ? start + step * static_cast<double>(i)
                                   : end - step * static_cast<double>(n - 1 - i);
            out.data<T>()[i] = static_cast<T>(std::pow(base, at));
        }
    });
}

void register_like(Table& t) {
    t.add("empty_like(Tensor self, *, dtype? dtype=None) -> Tensor")
        .batch(Batch::Layout)
        .shape(like_shape<0>)
        .kernel(no_kernel)
        .every_dtype()
        .memory_format(Formats::Result)
        .factory()
        .doc("Uninitialised memory, shaped and ordered as self. Shape and dtype of self.\n"
             ">>> weft.empty_like(weft.ones(2, 3)).shape\n"
             "torch.Size([2, 3])")
        .onnx("full(sizes(self), 0, result.dtype)")
        .samples({"f(T(2, 3))"});
    t.add("zeros_like(Tensor self, *, dtype? dtype=None) -> Tensor")
        .batch(Batch::Layout)
        .shape(like_shape<0>)
        .kernel(zeros_kernel)
        .every_dtype()
        .memory_format(Formats::Result)
        .factory()
        .doc("Zeros, shaped and ordered as self.\n\n>>> weft.zeros_like(weft.ones(2))\ntensor([0., "
             "0.])")
        .onnx("full(sizes(self), 0, result.dtype)")
        .samples({"f(T(2, 3))", "f(I(2))", "f(T(), dtype=weft.int64)", "f(T(0, 3))"});
    t.add("ones_like(Tensor self, *, dtype? dtype=None) -> Tensor")
        .batch(Batch::Layout)
        .shape(like_shape<0>)
        .kernel(ones_kernel)
        .every_dtype()
        .memory_format(Formats::Result)
        .factory()
        .doc("Ones, shaped and ordered as self.\n\n>>> weft.ones_like(weft.zeros(2))\ntensor([1., "
             "1.])")
        .onnx("full(sizes(self), 1, result.dtype)")
        .samples({"f(T(2, 3))", "f(I(2))", "f(T(), dtype=weft.bool)", "f(T(0, 3))"});
    t.add("full_like(Tensor self, Scalar fill_value, *, dtype? dtype=None) -> Tensor")
        .batch(Batch::Layout)
        .shape(like_shape<1>)
        .kernel([](Call& c) { fill(c, c.attr(0)); })
        .every_dtype()
        .memory_format(Formats::Result)
        .factory()
        .doc("fill_value in every element, shaped and ordered as self.\n\n"
             ">>> weft.full_like(weft.zeros(2), 3)\ntensor([3., 3.])")
        .onnx("full(sizes(self), fill_value, result.dtype)")
        .samples({"f(T(2, 3), 2)", "f(I(2), 1.5)", "f(T(), True, dtype=weft.bool)"});
}

}  // namespace

void register_create(Table& t) {
    t.add("empty(int[] size, *, dtype? dtype=None) -> Tensor")
        .shape(sized_shape<1>)
        .kernel(no_kernel)
        .every_dtype()
        .memory_format(Formats::Result)
        .factory()
        .doc("Uninitialised memory of that size. Shape `size`.\n"
             ">>> weft.empty(2, 3).shape\n"
             "torch.Size([2, 3])")
        .onnx("full(size, 0, result.dtype)")
        .samples({"f(2, 3)"});
    t.add("zeros(int[] size, *, dtype? dtype=None) -> Tensor")
        .shape(sized_shape<1>)
        .kernel(zeros_kernel)
        .every_dtype()
        .factory()
        .out_form()
        .doc("Zeros of that size.\n\n>>> weft.zeros(2)\ntensor([0., 0.])")
        .onnx("full(size, 0, result.dtype)")
        .samples({"f(2, 3)", "f((2,), dtype=weft.int64)", "f(())", "f(0, 3)"});
    t.add("ones(int[] size, *, dtype? dtype=None) -> Tensor")
        .shape(sized_shape<1>)
        .kernel(ones_kernel)
        .every_dtype()
        .factory()
        .out_form()
        .doc("Ones of that size.\n\n>>> weft.ones(2)\ntensor([1., 1.])")
        .onnx("full(size, 1, result.dtype)")
        .samples({"f(2, 3)", "f((2,), dtype=weft.bool)", "f(())", "f(0, 3)"});
    t.add("full(int[] size, Scalar fill_value, *, dtype? dtype=None) -> Tensor")
        .shape([](Call& c) { sized(c, c.attr(2).as_dtype(dtype_of_number(c.attr(1)))); })
        .kernel([](Call& c) { fill(c, c.attr(1)); })
        .every_dtype()
        .factory()
        .out_form()
        .doc("fill_value in every element; its kind is the default dtype's.\n\n"
             ">>> weft.full((2,), 3)\ntensor([3, 3])")
        .onnx("full(size, fill_value, result.dtype)")
        .samples({"f((2, 3), 1.5)", "f((2,), True)", "f((2,), 3, dtype=weft.float64)", "f((), 2)"});
    t.add("eye(int n, int? m=None, *, dtype? dtype=None) -> Tensor")
        .shape(eye_shape)
        .kernel(eye_kernel)
        .every_dtype()
        .factory()
        .out_form()
        .doc("[n, m] with 1 on the diagonal, 0 elsewhere.\n\n>>> weft.eye(2).tolist()\n[[1.0, "
             "0.0], [0.0, 1.0]]")
        .samples({"f(3)", "f(2, 3)", "f(3, 2, dtype=weft.int64)", "f(0)"});
    t.add("arange(Scalar end, *, dtype? dtype=None) -> Tensor")
        .shape(arange_shape)
        .kernel(arange_kernel)
        .factory()
        .out_form()
        .doc("start, start + step, ... below end; int64 if all three are integers.\n"
             "A vector of ceil((end - start) / step) elements.\n"
             ">>> weft.arange(3)\n"
             "tensor([0, 1, 2])")
        .samples({"f(5)", "f(2.5)", "f(0)", "f(3, dtype=weft.float64)"});
    t.add("arange.start(Scalar start, Scalar end, Scalar step=1, *, dtype? dtype=None) -> Tensor")
        .shape(arange_shape)
        .kernel(arange_kernel)
        .factory()
        .out_form()
        .doc("start, start + step, ... below end.\n\n>>> weft.arange(5, 0, -2)\ntensor([5, 3, 1])")
        .samples({"f(1, 5)", "f(1, 2, 0.25)", "f(5, 0, -2)", "f(3, 3)"});
    t.add("linspace(Scalar start, Scalar end, int steps, *, dtype? dtype=None) -> Tensor")
        .shape(steps_shape)
        .kernel(linspace_kernel)
        .factory()
        .out_form()
        .doc("`steps` numbers evenly from start to end, both included; complex between complex "
             "ends.\n"
             "The result is [steps].\n"
             ">>> weft.linspace(0, 1, 3)\n"
             "tensor([0.0000, 0.5000, 1.0000])")
        .samples({"f(0, 1, 5)", "f(3, -2, 4)", "f(1, 2, 1)", "f(0, 10, 5, dtype=weft.int64)",
                  "f(0, 1, 0)", "f(0, 1j, 5)", "f(1, 2 + 1j, 1, dtype=weft.complex128)"});
    t.add("logspace(Scalar start, Scalar end, int steps, float base=10.0, *, dtype? dtype=None) -> "
          "Tensor")
        .shape(steps_shape)
        .kernel(logspace_kernel)
        .factory()
        .out_form()
        .doc("base to the power of each number of linspace. The result is [steps].\n"
             ">>> weft.logspace(0, 2, 3)\n"
             "tensor([  1.,  10., 100.])")
        .samples({"f(0, 2, 3)", "f(0, 3, 4, base=2.0)", "f(1, 2, 1)", "f(0, 1j, 3)"});
    register_like(t);
}

}  // namespace weft
