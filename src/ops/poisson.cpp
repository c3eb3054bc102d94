/// Poisson numbers.
#include "ops/draw.h"

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

}  // namespace

void register_poisson(Table& t) {
    t.add("poisson(Tensor self) -> Tensor")
        .doc("A number of Poisson's distribution for each rate, of self's dtype. The numbers are\n"
             "PyTorch's under the same seed.\n\n"
             ">>> weft.poisson(weft.zeros(2))\ntensor([0., 0.])")
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
}

}  // namespace weft
