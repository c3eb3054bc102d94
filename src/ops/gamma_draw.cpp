/// Gamma and Dirichlet numbers that are differentiable by their shape.
#include <algorithm>
#include <limits>
#include <numeric>

#include "base/lock.h"
#include "kernels/dirichlet_slope.h"
#include "ops/draw.h"

namespace weft {
namespace {

using namespace ops;

const Function gamma_grad{"_standard_gamma_grad"}, dirichlet_grad{"_dirichlet_grad"};

void gamma_shape(Call& c) {
    const Tensor& alpha = c.in[0];
    if (!is_floating(alpha.dtype())) fail_dtype(c.name(), FloatingTypes::text, alpha.dtype());
    c.add(Tensor::layout(alpha.dtype(), alpha.shape()));
}

template <class T>
void expect_shapes(const Call& c, const T* shape, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
        WEFT_EXPECT(shape[i] >= 0, Runtime, c.name(), "shapes of at least 0", text(shape[i]));
}

void gamma_kernel(Call& c) {
    Tensor alpha = as_contiguous(c.in[0]);
    dispatch<FloatingTypes>(alpha.dtype(), c.name(), [&]<class T>() {
        const T* shape = alpha.data<T>();
        expect_shapes(c, shape, alpha.numel());
        kernels::standard_gamma(generator(), c.out(0).data<T>(), shape, alpha.numel());
    });
}

void gamma_grad_kernel(Call& c) {
    Tensor alpha = as_contiguous(c.in[0]), sample = as_contiguous(c.in[1]);
    dispatch<FloatingTypes>(alpha.dtype(), c.name(), [&]<class T>() {
        const T *a = alpha.data<T>(), *x = sample.data<T>();
        T* out = c.out(0).data<T>();
        Unlocked unlocked(alpha.numel() * 64);
        for (int64_t i = 0; i < alpha.numel(); ++i)
            out[i] = static_cast<T>(kernels::standard_gamma_slope(a[i], x[i]));
    });
}

/// Each row is gamma numbers, drawn as doubles, over their sum.
void dirichlet_kernel(Call& c) {
    Tensor alpha = as_contiguous(c.in[0]);
    const int64_t n = alpha.numel(), width = alpha.ndim() ? alpha.shape().back() : 1;
    dispatch<FloatingTypes>(alpha.dtype(), c.name(), [&]<class T>() {
        const T* shape = alpha.data<T>();
        expect_shapes(c, shape, n);
        std::vector<double> drawn(shape, shape + n);
        kernels::standard_gamma(generator(), drawn.data(), drawn.data(), n);
        constexpr T least = std::numeric_limits<T>::min();
        constexpr T most = 1 - std::numeric_limits<T>::epsilon() / 2;
        T* out = c.out(0).data<T>();
        for (int64_t first = 0; first < n; first += width) {
            const auto row = drawn.begin() + first;
            const double sum = std::accumulate(row, row + width, 0.0);
            for (int64_t i = 0; i < width; ++i)
                out[first + i] = std::clamp(static_cast<T>(row[i] / sum), least, most);
        }
    });
}

void dirichlet_grad_kernel(Call& c) {
    Tensor x = as_contiguous(c.in[0]), alpha = as_contiguous(c.in[1]);
    Tensor total = as_contiguous(c.in[2]);
    dispatch<FloatingTypes>(x.dtype(), c.name(), [&]<class T>() {
        const T *value = x.data<T>(), *a = alpha.data<T>(), *sum = total.data<T>();
        T* out = c.out(0).data<T>();
        Unlocked unlocked(x.numel() * 128);
        for (int64_t i = 0; i < x.numel(); ++i)
            out[i] = static_cast<T>(
                kernels::dirichlet_slope(value[i], a[i], static_cast<double>(sum[i]) - a[i]));
    });
}

/// A concentration moves its own number, with its quantile held, and the others of the row keep
/// their shares of what is left.
Tensor through_dirichlet(const Grad& g) {
    const Tensor &alpha = g.in(0), &x = g.out(0);
    Tensor slope = dirichlet_grad(x, alpha, expand(sum_dim(alpha, -1, true), Dims(alpha.shape())));
    return slope * (g.grad() - sum_dim(x * g.grad(), -1, true));
}

/// Shape rule: tensors of one shape and floating dtype, whose result is like them.
void alike_shape(Call& c) {
    for (int i = 1; i < c.inputs; ++i)
        WEFT_EXPECT(std::ranges::equal(c.in[0].shape(), c.in[i].shape()) &&
                        c.in[0].dtype() == c.in[i].dtype(),
                    Runtime, c.name(), "tensors of one shape and dtype",
                    text(to_string(c.in[0].shape()), " and ", to_string(c.in[i].shape())));
    gamma_shape(c);
}

Tensor no_second(const Grad& g) {
    const std::string& name = g.op().public_name;
    fail(ErrorKind::NotImplemented, name,
         text("one derivative (the derivative for '", name, "' is not implemented.)"),
         "a second one");
}

}  // namespace

void register_gamma_draw(Table& t) {
    t.add("_standard_gamma(Tensor self) -> Tensor")
        .doc("A number of the gamma distribution of each shape, with scale 1. The numbers are\n"
             "PyTorch's under the same seed.")
        .shape(gamma_shape)
        .kernel(gamma_kernel)
        .random()
        .internal()
        .in_packages()
        .node_name("StandardGammaBackward0")
        .grad(0, save_in(0) | save_out(0),
              [](const Grad& g) { return g.grad() * gamma_grad(g.in(0), g.out(0)); })
        .no_onnx("no draws of the gamma distribution")
        .samples({"f(T(5, 6, lo=0.5, hi=9))", "f(T(40, lo=0.01, hi=1))", "f(T(0, 3))"});
    t.add("_standard_gamma_grad(Tensor self, Tensor output) -> Tensor")
        .doc("The derivative of a gamma number by its shape, the quantile held.")
        .shape(alike_shape)
        .kernel(gamma_grad_kernel)
        .internal()
        .grad(0, 0, no_second)
        .grad(1, 0, no_second);
    t.add("_sample_dirichlet(Tensor self) -> Tensor")
        .doc("Probabilities of the Dirichlet distribution of the concentrations in each row. The\n"
             "numbers are PyTorch's under the same seed.")
        .shape(gamma_shape)
        .kernel(dirichlet_kernel)
        .random()
        .internal()
        .in_packages()
        .node_name("_DirichletBackward")
        .grad(0, save_in(0) | save_out(0), through_dirichlet)
        .no_onnx("no draws of the gamma distribution")
        .samples({"f(T(5, 3, lo=0.5, hi=9))", "f(T(4, lo=0.1, hi=1))", "f(T(0, 3))"});
    t.add("_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor")
        .doc("The derivative of a Dirichlet number by its concentration, the quantile held, over\n"
             "1 - x.")
        .shape(alike_shape)
        .kernel(dirichlet_grad_kernel)
        .internal()
        .in_packages()
        .grad(0, 0, no_second)
        .grad(1, 0, no_second)
        .grad(2, 0, no_second)
        .no_onnx("no draws of the gamma distribution");
}

}  // namespace weft
