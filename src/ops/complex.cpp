/// Complex numbers: their parts, angles and conjugates. Conjugates are made, not marked.
///
/// Gradients follow PyTorch's convention: the gradient of a real loss by z = x + iy is
/// dL/dx + i dL/dy, so rules multiply by the conjugate of a holomorphic function's derivative.
#include <bit>
#include <cmath>
#include <numbers>

#include "kernels/complex.h"
#include "ops/batch.h"
#include "ops/conj.h"
#include "ops/pointwise_common.h"
#include "ops/shape.h"

namespace weft {
namespace {

using namespace ops;

const Function view_as_real{"view_as_real"}, view_as_complex{"view_as_complex"}, imag{"imag"},
    complex_of{"complex"}, abs{"abs"}, atan2{"atan2"};

void view_as_real_shape(Call& c) {
    const Tensor& self = c.in[0];
    WEFT_EXPECT(is_complex(self.dtype()), Runtime, c.name(), "a complex tensor",
                text(name(self.dtype()), " (view_as_real is only supported for complex tensors)"));
    Tensor parts = parts_of(self);
    c.add_view(Tensor::layout(parts.dtype(), parts.shape(), parts.strides()), 0);
}

void view_as_complex_shape(Call& c) {
    const Tensor& self = c.in[0];
    const DType dtype = self.dtype();
    WEFT_EXPECT(dtype == DType::Float32 || dtype == DType::Float64 || dtype == DType::Float16,
                Runtime, c.name(), "a float16, float32 or float64 tensor",
                text(name(dtype),
                     " (view_as_complex is only supported for half, float and double tensors, "
                     "but got a tensor of scalar type: ",
                     scalar_name(dtype), ")"));
    int n = self.ndim() - 1;
    WEFT_EXPECT(n >= 0 && self.size(n) == 2, Runtime, c.name(), "a last dimension of size 2",
                text(to_string(self.shape()), " (Tensor must have a last dimension of size 2)"));
    bool even = self.stride(n) == 1 && self.offset() % 2 == 0;
    Dims shape(n), strides(n);
    for (int d = 0; d < n; ++d) {
        shape[d] = self.size(d);
        strides[d] = self.stride(d) / 2;
        even &= self.stride(d) % 2 == 0 || self.size(d) <= 1;
    }
    WEFT_EXPECT(even, Runtime, c.name(), "parts that lie behind each other",
                text("strides ", to_string(self.strides()),
                     " (Tensor must have a last dimension with stride 1)"),
                "use contiguous() first");
    c.add_view(Tensor::layout(complex_dtype(self.dtype()), shape, strides), 0);
}

void complex_shape(Call& c) {
    DType t = c.in[0].dtype();
    WEFT_EXPECT(t == DType::Float32 || t == DType::Float64 || t == DType::Float16, Runtime,
                c.name(), "both inputs to be Half, Float or Double tensors",
                text(name(t), " and ", name(c.in[1].dtype())));
    WEFT_EXPECT(c.in[1].dtype() == t, Runtime, c.name(), "parts of one dtype",
                text("two (Expected object of scalar type ", scalar_name(t),
                     " but got scalar type ", scalar_name(c.in[1].dtype()),
                     " for second argument)"));
    pointwise_layout(c, complex_dtype(t));
}

void complex_kernel(Call& c) {
    const Tensor& out = c.out(0);
    for (int k = 0; k < 2; ++k) copy_into(part_of(out, k), c.in[k]);
}

struct Conjugate {
    template <class T>
    static constexpr bool by_element = true;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        return T(x.real(), -x.imag());
    }
};
/// The same of a complex64 as one integer, for which there are vectors.
struct FlipSign {
    WEFT_INLINE uint64_t operator()(uint64_t x) const { return x ^ uint64_t{1} << 63; }
};
void conj_kernel(Call& c) {
    const DType dtype = c.in[0].dtype();
    if (!is_complex(dtype)) return copy_into(c.out(0), c.in[0]);
    constexpr bool imaginary_is_high = std::endian::native == std::endian::little;
    if (!imaginary_is_high || compute_dtype<Result::Same>(c) != DType::Complex64)
        return map_kernel<Conjugate, ComplexTypes, Result::Same, 1>(c);
    const FlipSign f;
    run_map_as(DType::Complex64, kernels::map_loop<FlipSign, uint64_t, uint64_t>(), &f, c,
               {1, sizeof(f)});
}

/// x / |x|, and 0 at 0.
struct Sgn {
    static constexpr int one_loop = 16;
    template <class T>
    WEFT_INLINE T operator()(T x) const {
        if constexpr (sizeof(T) == 8) {
            // squares of floats neither overflow nor vanish in double, and there are vectors of these
            const double re = x.real(), im = x.imag(), square = re * re + im * im;
            const double inverse = 1 / std::sqrt(square);
            return {static_cast<float>(square == 0 ? 0.0 : re * inverse),
                    static_cast<float>(square == 0 ? 0.0 : im * inverse)};
        } else {
            const auto size = std::abs(x);
            return size == 0 ? T(0) : T(x.real() / size, x.imag() / size);
        }
    }
};
void sgn_kernel(Call& c) {
    if (!is_complex(c.in[0].dtype())) return ops::sign.op().kernel(c);
    map_kernel<Sgn, ComplexTypes, Result::Same, 1>(c);
}

/// What moves across the direction of z turns it, by 1 / |z|.
Tensor sgn_gradient(const Grad& g) {
    Tensor z = g.in(0);
    if (!is_complex(z.dtype())) return zero_gradient(g);
    Tensor s = sgn(z), size = abs(z), along = s * real(conj(s) * g.grad());
    Tensor zero = number(0, size.dtype());
    return ops::where(ops::eq(size, zero), zero, (g.grad() - along) / size);
}

void angle_shape(Call& c) {
    DType t = c.in[0].dtype();
    pointwise_layout(c, is_inexact(t) ? real_dtype(t) : default_dtype);
}
void angle_kernel(Call& c) {
    ModeGuard off(0, kGradMode);
    const Tensor& self = c.in[0];
    if (is_complex(self.dtype()))
        return copy_into(c.out(0), atan2(part_of(self, 1), part_of(self, 0)));
    Tensor x = ops::to(self, c.out(0).dtype()), zero = Tensor::scalar(0, x.dtype());
    Tensor pi = Tensor::scalar(std::numbers::pi, x.dtype());
    Tensor turned = ops::where(ops::lt(x, zero), pi, zero);
    copy_into(c.out(0), ops::where(ops::isnan(x), x, turned));
}
/// i z / |z|^2, and 0 at 0; the angle of real numbers is constant.
Tensor angle_gradient(const Grad& g) {
    Tensor z = g.in(0);
    if (!is_complex(z.dtype())) return zero_gradient(g);
    Tensor x = real(z), y = imag(z), square = x * x + y * y, zero = number(0, x.dtype());
    Tensor scale = ops::where(ops::eq(square, zero), zero, g.grad() / square);
    return complex_of(-y * scale, x * scale);
}

void polar_kernel(Call& c) {
    ModeGuard off(0, kGradMode);
    const Tensor &size = c.in[0], &angle = c.in[1];
    copy_into(part_of(c.out(0), 0), size * ops::cos(angle));
    copy_into(part_of(c.out(0), 1), size * ops::sin(angle));
}
/// The direction of each angle: polar(1, angle).
Tensor direction(const Tensor& angle) { return complex_of(ops::cos(angle), ops::sin(angle)); }

void part_body(Call& c, int64_t which) {
    const Tensor& self = c.in[0];
    if (is_complex(self.dtype())) return c.set(ops::select(view_as_real(self), -1, which));
    WEFT_EXPECT(which == 0, Runtime, c.name(), "a complex tensor",
                text(name(self.dtype()), " (imag is not implemented for tensors with non-complex "
                                         "dtypes.)"));
    c.set(self);
}

void isreal_body(Call& c) {
    const Tensor& self = c.in[0];
    if (is_complex(self.dtype())) {
        Tensor part = imag(self);
        return c.set(ops::eq(part, number(0, part.dtype())));
    }
    Tensor yes = Tensor::layout(DType::Bool, self.shape());
    yes.allocate_beside(self);
    copy_into(yes, Tensor::scalar(1, DType::Bool));
    c.set(yes);
}

}  // namespace

void register_complex(Table& t) {
    t.add("view_as_real(Tensor self) -> Tensor")
        .shape(view_as_real_shape)
        .kernel(no_kernel)
        .every_dtype()
        .view()
        .grad(0, 0,
              [](const Grad& g) {  // no elements are contiguous under any strides
                  const Tensor& parts = g.grad();
                  return view_as_complex(parts.numel() ? contiguous(parts) : ops::clone(parts));
              })
        .doc("The parts of complex numbers as a last dimension of size 2, over the same memory.\n\n"
             ">>> weft.view_as_real(weft.tensor([1 + 2j]))\ntensor([[1., 2.]])")
        .no_onnx("complex numbers");
    t.add("view_as_complex(Tensor self) -> Tensor")
        .autocast(Cast::Float)
        .shape(view_as_complex_shape)
        .reads_place(save_in(0))
        .kernel(no_kernel)
        .every_dtype()
        .view()
        .grad(0, 0, [](const Grad& g) { return view_as_real(contiguous(g.grad())); })
        .doc("Pairs of floats as complex numbers, over the same memory.\n"
             "[*, 2] of float32 or float64 gives [*] of complex64 or complex128.\n"
             ">>> weft.view_as_complex(weft.tensor([[1., 2.]]))\n"
             "tensor([1.+2.j])")
        .no_onnx("complex numbers")
        .samples({"f(T(3, 2))", "f(T(2, 3, 2))", "f(T(2))"});
    t.add("complex(Tensor real, Tensor imag) -> Tensor")
        .shape(complex_shape)
        .kernel(complex_kernel)
        .every_dtype()
        .pointwise()
        .function_only()
        .grad(0, 0, [](const Grad& g) { return real(g.grad()); })
        .grad(1, 0, [](const Grad& g) { return imag(g.grad()); })
        .doc("real + i imag, of floats.\n\n"
             ">>> weft.complex(weft.tensor([1.]), weft.tensor([2.]))\ntensor([1.+2.j])")
        .no_onnx("complex numbers")
        .samples({"f(T(2, 3), T(2, 3))", "f(T(2, 1), T(3))", "f(T(), T(0, 3))"});
    t.add("polar(Tensor abs, Tensor angle) -> Tensor")
        .autocast(Cast::Float)
        .shape(complex_shape)
        .kernel(polar_kernel)
        .pointwise()
        .function_only()
        .grad(0, save_in(1),
              [](const Grad& g) {
                  Tensor along = real(g.grad() * conj(direction(g.in(1))));
                  return g.constant_in(0, along, "SelectBackward0");
              })
        .grad(1, save_out(0), [](const Grad& g) { return imag(g.grad() * conj(g.out(0))); })
        .doc("abs (cos(angle) + i sin(angle)).\n\n"
             ">>> weft.polar(weft.tensor([2.]), weft.tensor([0.]))\ntensor([2.+0.j])")
        .no_onnx("complex numbers")
        .samples({"f(T(2, 3, lo=0.5), T(2, 3))"});
    t.add("_conj(Tensor self) -> Tensor")
        .shape(pointwise<Result::Same>)
        .kernel(conj_kernel)
        .pointwise()
        .strided_output()
        .internal()
        .node_name("ConjBackward0")
        .grad(0, 0, [](const Grad& g) { return conj(g.grad()); })
        .doc("The conjugate of a complex tensor.");
    t.add("conj(Tensor self) -> Tensor")
        .body([](Call& c) { c.set(ops::conj(c.in[0])); })
        .alias("conj_physical")
        .batch(Batch::Body)
        .doc("The complex conjugate; a real tensor itself. Of self's shape and dtype.\n"
             ">>> weft.tensor([1 + 2j]).conj()\n"
             "tensor([1.-2.j])")
        .no_onnx("complex numbers")
        .samples({"f(T(2, 3))"});
    t.add("real(Tensor self) -> Tensor")
        .body([](Call& c) { part_body(c, 0); })
        .batch(Batch::Body)
        .function_only()
        .doc("The real part, over the same memory; a real tensor itself. Of self's shape.\n"
             ">>> weft.real(weft.tensor([1 + 2j]))\n"
             "tensor([1.])")
        .no_onnx("complex numbers")
        .samples({"f(T(2, 3))"});
    t.add("imag(Tensor self) -> Tensor")
        .body([](Call& c) { part_body(c, 1); })
        .batch(Batch::Body)
        .function_only()
        .doc("The imaginary part, over the same memory. RuntimeError for real tensors.\n"
             "Of self's shape.\n"
             ">>> weft.imag(weft.tensor([1 + 2j]))\n"
             "tensor([2.])")
        .no_onnx("complex numbers");
    t.add("sgn(Tensor self) -> Tensor")
        .shape(pointwise<Result::Same>)
        .kernel(sgn_kernel)
        .pointwise()
        .strided_output()
        .inplace()
        .out_form()
        .grad(0, save_in(0), sgn_gradient)
        .doc("self / |self|, 0 at 0: the sign of real numbers.\n\n"
             ">>> weft.sgn(weft.tensor([3 + 4j]))\ntensor([0.6000+0.8000j])")
        .onnx("form('sign', self=self)")
        .samples({"f(T(2, 3))", "f(I(4))"});
    t.add("angle(Tensor self) -> Tensor")
        .shape(angle_shape)
        .kernel(angle_kernel)
        .pointwise()
        .grad(0, save_in(0), angle_gradient)
        .doc("The angle of complex numbers in [-pi, pi]; pi for negative real ones, else 0.\n\n"
             ">>> weft.angle(weft.tensor([1j, -1.]))\ntensor([1.5708, 3.1416])")
        .onnx(
            "Where(IsNaN(self), self, Where(self < 0, cast(3.141592653589793, self.dtype), 0)) if "
            "floating(self) else Where(self < 0, cast(3.141592653589793, result.dtype), cast(0, "
            "result.dtype))")
        .samples({"f(T(2, 3))"});
    t.add("isreal(Tensor self) -> Tensor")
        .body(isreal_body)
        .batch(Batch::Body)
        .doc("Whether the imaginary part is 0. A bool of self's shape.\n"
             ">>> weft.isreal(weft.tensor([1 + 0j, 1j]))\n"
             "tensor([ True, False])")
        .onnx("truth(cast(self, float32) * 0 + 1)")
        .samples({"f(T(2, 3))"});
}

}  // namespace weft
