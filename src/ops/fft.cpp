/// Discrete Fourier transforms: the three that `weft.fft` is made of.
///
/// Their gradients are each other: PyTorch's convention makes the gradient of y = F x the conjugate
/// transpose of F times the gradient of y.
#include "kernels/fft.h"

#include <cmath>
#include <cstring>

#include "ops/axes.h"
#include "ops/batch.h"
#include "ops/conj.h"
#include "ops/shape.h"

namespace weft {
namespace {

using namespace ops;
using kernels::Axis;

const Function c2c{"_fft_c2c"}, r2c{"_fft_r2c"};

/// The dims of attribute 0, at least one, each once; the last one is the half one of real numbers.
Dims dims_of(const Call& c) {
    Dims dims(c.attr(0).as_ints());
    WEFT_EXPECT(!dims.empty(), Runtime, c.name(), "at least one dim", "none");
    dim_mask(c.name(), c.attr(0), c.in[0].ndim());
    for (int64_t& d : dims) {
        d = wrap_dim(c.name(), d, c.in[0].ndim());
        WEFT_EXPECT(c.in[0].ndim() > 0, Runtime, c.name(), "a tensor that has dims", "a 0-d one");
    }
    return dims;
}

void expect_dtype(const Call& c, bool complex) {
    const DType t = c.in[0].dtype();
    const bool fits = complex ? t == DType::Complex64 || t == DType::Complex128
                              : t == DType::Float32 || t == DType::Float64;
    WEFT_EXPECT(fits, Runtime, c.name(), complex ? "complex64 or complex128" : "float32 or float64",
                text(name(t), " (Unsupported dtype ", scalar_name(t), ")"));
}

/// What normalization 0, 1 or 2 multiplies by: 1, 1/√n, 1/n, for the n numbers of all dims.
double factor_of(const Call& c, DimSpan shape, const Dims& dims) {
    double n = 1;
    for (int64_t d : dims) n *= static_cast<double>(shape[static_cast<size_t>(d)]);
    const int64_t mode = c.attr(1).as_int();
    return mode == 1 ? 1 / std::sqrt(n) : mode == 2 ? 1 / n : 1;
}

template <class F>
void of_both_precisions(DType t, const F& f) {
    if (real_dtype(t) == DType::Float32 || t == DType::Float32) f.template operator()<float>();
    else f.template operator()<double>();
}

/// Complex numbers along dims one after the other, from x into y, and then within y.
template <class T>
void transform(const Tensor& x, const Tensor& y, const Dims& dims, bool inverse, double factor) {
    using C = std::complex<T>;
    const C* from = x.data<C>();
    for (int64_t d : dims) {
        const Axis axis = axis_along(y.shape(), static_cast<int>(d));
        kernels::fft(from, y.data<C>(), axis, inverse, static_cast<T>(factor));
        from = y.data<C>();
        factor = 1;
    }
}

// ---- complex to complex --------------------------------------------------------------------------

void c2c_shape(Call& c) {
    expect_dtype(c, true);
    dims_of(c);
    c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape()));
}

void c2c_kernel(Call& c) {
    const Tensor x = as_contiguous(c.in[0]), &y = c.out(0);
    if (x.numel() == 0) return;
    const Dims dims = dims_of(c);
    Unlocked unlocked(x.numel());
    of_both_precisions(x.dtype(), [&]<class T>() {
        transform<T>(x, y, dims, !c.attr(2).as_bool(), factor_of(c, x.shape(), dims));
    });
}

// ---- real to complex -----------------------------------------------------------------------------

void r2c_shape(Call& c) {
    expect_dtype(c, false);
    const int64_t last = dims_of(c).back();
    Dims shape(c.in[0].shape());
    if (c.attr(2).as_bool()) shape[static_cast<int>(last)] = shape[static_cast<int>(last)] / 2 + 1;
    c.add(Tensor::layout(complex_dtype(c.in[0].dtype()), shape));
}

void r2c_kernel(Call& c) {
    const Tensor x = as_contiguous(c.in[0]), &y = c.out(0);
    if (y.numel() == 0) return;
    if (x.numel() == 0) {  // a half of no numbers has one
        std::memset(y.bytes(), 0, static_cast<size_t>(y.byte_count()));
        return;
    }
    Dims dims = dims_of(c);
    const double factor = factor_of(c, x.shape(), dims);
    const int last = static_cast<int>(dims.back());
    dims.pop_back();
    Unlocked unlocked(x.numel());
    of_both_precisions(x.dtype(), [&]<class T>() {
        kernels::fft_of_real(x.data<T>(), y.data<std::complex<T>>(), axis_along(x.shape(), last),
                             !c.attr(2).as_bool(), static_cast<T>(factor));
        transform<T>(y, y, dims, false, 1);
    });
}

/// x with zeros behind, up to `size` along `dim`.
Tensor padded_to(const Tensor& x, int dim, int64_t size) {
    const int64_t more = size - x.size(dim);
    if (more == 0) return x;
    Dims pad;
    for (int d = x.ndim() - 1; d > dim; --d) {
        pad.push_back(0);
        pad.push_back(0);
    }
    pad.push_back(0);
    pad.push_back(more);
    return constant_pad(x, pad);
}

Tensor r2c_gradient(const Grad& g) {
    const Dims shape = g.in_shape(0);
    const int last = wrap_dim("_fft_r2c", g.attr(0).as_ints().back(), shape.size());
    Tensor grad = g.grad();
    if (g.attr(2).as_bool()) grad = padded_to(grad, last, shape[last]);
    return real(c2c(grad, g.attr(0), g.attr(1), false));
}

// ---- complex to real -----------------------------------------------------------------------------

void c2r_shape(Call& c) {
    expect_dtype(c, true);
    const int last = static_cast<int>(dims_of(c).back());
    const int64_t n = c.attr(2).as_int();
    Dims shape(c.in[0].shape());
    WEFT_EXPECT(n >= 1 && shape[last] == n / 2 + 1, Runtime, c.name(),
                text(n / 2 + 1, " numbers for a last size of ", n, " of at least 1"),
                text(shape[last]));
    shape[last] = n;
    c.add(Tensor::layout(real_dtype(c.in[0].dtype()), shape));
}

void c2r_kernel(Call& c) {
    const Tensor x = as_contiguous(c.in[0]), &y = c.out(0);
    if (y.numel() == 0) return;
    Dims dims = dims_of(c);
    const double factor = factor_of(c, y.shape(), dims);
    const int last = static_cast<int>(dims.back());
    dims.pop_back();
    Tensor between = x;
    if (!dims.empty()) between = Tensor::empty(x.dtype(), x.shape());
    Unlocked unlocked(y.numel());
    of_both_precisions(x.dtype(), [&]<class T>() {
        transform<T>(x, between, dims, true, 1);
        kernels::fft_to_real(between.data<std::complex<T>>(), y.data<T>(),
                             axis_along(y.shape(), last), static_cast<T>(factor));
    });
}

/// All but the first number, and the middle one of an even size, stand for two of the output.
Tensor c2r_gradient(const Grad& g) {
    const Dims shape = g.in_shape(0);
    const Tensor& grad = g.grad();
    const int last = wrap_dim("_fft_c2r", g.attr(0).as_ints().back(), shape.size());
    const int64_t half = shape[last], twice = grad.size(last) - half;
    Dims ones(shape.size());
    for (int64_t& n : ones) n = 1;
    ones[last] = half;
    Tensor factor = zeros(ones, grad.dtype());
    if (!factor.has(kMeta))
        of_both_precisions(grad.dtype(), [&]<class T>() {
            for (int64_t k = 0; k < half; ++k)
                factor.data<T>()[k] = k >= 1 && k <= twice ? T(2) : T(1);
        });
    return r2c(grad, g.attr(0), g.attr(1), true) * factor;
}

}  // namespace

void register_fft(Table& t) {
    t.add("_fft_c2c(Tensor self, int[] dim, int normalization, bool forward) -> Tensor")
        .doc("Complex numbers to complex numbers along `dim`.\n\n"
             ">>> weft.fft.fft(weft.tensor([1 + 0j, 1j]))\ntensor([1.+1.j, 1.-1.j])")
        .shape(c2c_shape)
        .kernel(c2c_kernel)
        .batch(batch_along<0>)
        .internal()
        .in_packages()
        .node_name("FftC2CBackward0")
        .grad(
            0, 0,
            [](const Grad& g) { return c2c(g.grad(), g.attr(0), g.attr(1), !g.attr(2).as_bool()); })
        .no_onnx("complex numbers")
        .samples({"f(torch.complex(T(4), T(4)), [0], 0, True)",
                  "f(torch.complex(T(2, 5), T(2, 5)), [0, 1], 1, False)",
                  "f(torch.complex(T(3), T(3)), [0], 2, False)"});
    t.add("_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor")
        .doc("Real numbers to complex ones along `dim`; `onesided`: only the first half of the "
             "last.\n\n"
             ">>> weft.fft.rfft(weft.ones(4))\ntensor([4.+0.j, 0.+0.j, 0.+0.j])")
        .shape(r2c_shape)
        .kernel(r2c_kernel)
        .batch(batch_along<0>)
        .internal()
        .in_packages()
        .node_name("FftR2CBackward0")
        .grad(0, 0, r2c_gradient)
        .no_onnx("complex numbers")
        .samples(
            {"f(T(4), [0], 0, True)", "f(T(2, 5), [0, 1], 1, True)", "f(T(3, 4), [0], 2, False)"});
    t.add("_fft_c2r(Tensor self, int[] dim, int normalization, int last_dim_size) -> Tensor")
        .doc("The first halves of conjugate symmetric numbers to `last_dim_size` real ones.\n\n"
             ">>> weft.fft.irfft(weft.tensor([4 + 0j, 0, 0]))\ntensor([1., 1., 1., 1.])")
        .shape(c2r_shape)
        .kernel(c2r_kernel)
        .batch(batch_along<0>)
        .internal()
        .in_packages()
        .node_name("FftC2RBackward0")
        .grad(0, 0, c2r_gradient)
        .no_onnx("complex numbers")
        .samples({"f(torch.complex(T(3), T(3)), [0], 0, 4)",
                  "f(torch.complex(T(2, 3), T(2, 3)), [0, 1], 1, 5)",
                  "f(torch.complex(T(3, 2), T(3, 2)), [0], 2, 4)"});
}

}  // namespace weft
