/// Poisson numbers, and counts of successes.
#include "kernels/random_binomial.h"
#include "ops/draw.h"
#include "tensor/dtype.h"

namespace weft {
namespace {

using namespace ops;

void poisson_kernel(Call& c) {
    Tensor rates = as_contiguous(c.in[0]);
    const Tensor& out = c.out(0);
    dispatch<FloatingTypes>(out.dtype(), c.name(), [&]<class T>() {
        const T* rate = rates.data<T>();
        for (int64_t i = 0; i < rates.numel(); ++i)
            WEFT_EXPECT(rate[i] >= 0, Runtime, c.name(), "rates of at least 0",
                        text(rate[i], " (invalid Poisson rate, expected rate to be non-negative)"));
        kernels::poisson(generator(), out.data<T>(), rate, out.numel());
    });
}

void binomial_kernel(Call& c) {
    const Tensor counts = as_contiguous(c.in[0]), &out = c.out(0);
    const Tensor probs = as_contiguous(expand(c.in[1], counts.shape()));
    dispatch<FloatingTypes>(out.dtype(), c.name(), [&]<class T>() {
        kernels::binomial(generator(), out.data<T>(), counts.data<T>(), probs.data<T>(),
                          out.numel());
    });
}

}  // namespace

void register_poisson(Table& t) {
    t.add("poisson(Tensor self) -> Tensor")
        .doc("A number of Poisson's distribution for each rate, of self's dtype. The numbers are\n"
             "PyTorch's under the same seed. Of self's shape.\n"
             ">>> weft.poisson(weft.zeros(2))\n"
             "tensor([0., 0.])")
        .shape([](Call& c) {
            const Tensor& rates = c.in[0];
            if (!is_floating(rates.dtype()))
                fail_dtype(c.name(), FloatingTypes::text, rates.dtype());
            c.add(Tensor::layout(rates.dtype(), rates.shape()));
        })
        .kernel(poisson_kernel)
        .random()
        .function_only()
        .grad(0, 0, [](const Grad& g) { return zeros(g.in_shape(0), g.out_dtype(0)); })
        .no_onnx("no draws of Poisson's distribution")
        .samples({"f(T(5, 6, lo=0, hi=9))", "f(T(40, lo=10, hi=300))", "f(T(0, 3))"});
    t.add("binomial(Tensor count, Tensor prob) -> Tensor")
        .doc(
            "How many of count trials succeed, each with probability prob, for each pair; prob is "
            "expanded\n"
            "to count's shape. The numbers are PyTorch's under the same seed.\n\n"
            ">>> weft.binomial(weft.tensor([0.0, 5.0]), weft.tensor([0.5, 1.0]))\ntensor([0., 5.])")
        .shape([](Call& c) {
            const Tensor &count = c.in[0], &prob = c.in[1];
            WEFT_EXPECT(is_floating(count.dtype()), Value, c.name(), "counts of a floating dtype",
                        text(name(count.dtype()),
                             " (binomial only supports floating-point dtypes for "
                             "count, got: ",
                             scalar_name(count.dtype()), ")"));
            WEFT_EXPECT(count.dtype() == prob.dtype(), Runtime, c.name(), "floats of one dtype",
                        text(name(count.dtype()), " and ", name(prob.dtype()), " (Found dtype ",
                             scalar_name(prob.dtype()), " but expected ",
                             scalar_name(count.dtype()), ")"));
            c.add(Tensor::layout(count.dtype(), count.shape()));
        })
        .kernel(binomial_kernel)
        .random()
        .function_only()
        .no_derivative()
        .no_onnx("no draws of the binomial distribution")
        .samples({"f(T(5, 6, lo=9, hi=10).detach().floor(), T(5, 6, lo=0, hi=1).detach())",
                  "f(T(40, lo=90, hi=91).detach().floor(), T(40, lo=0.2, hi=1).detach())",
                  "f(T(0, 3).detach(), T(0, 3).detach())"});
}

}  // namespace weft
