/// Gamma numbers that are differentiable by their shape.
#include <algorithm>

#include "base/lock.h"
#include "ops/draw.h"

namespace weft {
namespace {

using namespace ops;

const Function gamma_grad{"_standard_gamma_grad"};

void gamma_shape(Call& c) {
    const Tensor& alpha = c.in[0];
    if (!is_floating(alpha.dtype())) fail_dtype(c.name(), FloatingTypes::text, alpha.dtype());
    c.add(Tensor::layout(alpha.dtype(), alpha.shape()));
}

void gamma_kernel(Call& c) {
    Tensor alpha = as_contiguous(c.in[0]);
    dispatch<FloatingTypes>(alpha.dtype(), c.name(), [&]<class T>() {
        const T* shape = alpha.data<T>();
        for (int64_t i = 0; i < alpha.numel(); ++i)
            WEFT_EXPECT(shape[i] >= 0, Runtime, c.name(), "shapes of at least 0", text(shape[i]));
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

Tensor no_second(const Grad&) {
    fail(ErrorKind::NotImplemented, "_standard_gamma",
         "one derivative (the derivative for '_standard_gamma_grad' is not implemented.)",
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
        .shape([](Call& c) {
            WEFT_EXPECT(std::ranges::equal(c.in[0].shape(), c.in[1].shape()) &&
                            c.in[0].dtype() == c.in[1].dtype(),
                        Runtime, c.name(), "two tensors of one shape and dtype",
                        text(to_string(c.in[0].shape()), " and ", to_string(c.in[1].shape())));
            gamma_shape(c);
        })
        .kernel(gamma_grad_kernel)
        .internal()
        .grad(0, 0, no_second)
        .grad(1, 0, no_second);
}

}  // namespace weft
