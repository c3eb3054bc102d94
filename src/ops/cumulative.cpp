/// Running sums and products.
///
/// Note [Gradients of running products]
/// y[i] = x[i] y[i-1] is a linear recurrence in y, so its adjoint is one as well, run from the end:
/// w[i] = g[i] + x[i+1] w[i+1], and then dx[i] = w[i] y[i-1]. No division, hence right at zeros;
/// and since the adjoint of such a scan is a scan again (`_linear_scan` both ways), right at any
/// order.
#include "kernels/complex.h"
#include "kernels/scan.h"
#include "ops/axes.h"
#include "ops/batch.h"
#include "ops/conj.h"

namespace weft {
namespace {

using namespace ops;
using kernels::Axis;

const Function linear_scan{"_linear_scan"}, shift{"_shift"}, sum_of_rest{"_sum_of_rest"},
    cumprod{"cumprod"};

struct Cumsum {
    template <class T>
    static void run(const T* x, kernels::SumOf<T>* y, Axis axis) {
        kernels::cumsum(x, y, axis);
    }
};
struct Cumprod {
    template <class T>
    static void run(const T* x, kernels::SumOf<T>* y, Axis axis) {
        kernels::cumprod(x, y, axis);
    }
};

/// Integers and bools accumulate in int64.
void running_shape(Call& c) {
    const Tensor& x = c.in[0];
    wrap_dim(c.name(), c.attr(0).as_int(), x.ndim());
    DType own = is_inexact(x.dtype()) ? x.dtype() : DType::Int64;
    c.add(Tensor::layout(c.attr(1).as_dtype(own), x.shape()));
}

template <class T>
void running_product(const T* x, T* y, Axis axis) {
    int64_t size = axis.n * axis.inner;
    for (int64_t at = 0; at < axis.outer * size; ++at)
        y[at] = at % size < axis.inner ? x[at] : kernels::times(y[at - axis.inner], x[at]);
}

template <class Kernel>
void running_kernel(Call& c) {
    const Tensor& out = c.out(0);
    Tensor x = as_contiguous(c.in[0], c.attr(1) ? out.dtype() : c.in[0].dtype());
    Unlocked unlocked(x.numel());
    if (is_complex(x.dtype()) && x.ndim() && std::is_same_v<Kernel, Cumsum>) {
        int dim = wrap_dim(c.name(), c.attr(0).as_int(), x.ndim());
        Tensor from = parts_of(x), to = parts_of(out);
        return dispatch<FloatingTypes>(from.dtype(), c.name(), [&]<class T>() {
            Kernel::run(from.data<T>(), to.data<T>(), axis_along(from.shape(), dim));
        });
    }
    if (is_complex(x.dtype()))
        return dispatch<ComplexTypes>(x.dtype(), c.name(), [&]<class T>() {
            running_product(x.data<T>(), out.data<T>(), axis_of(c, x));
        });
    dispatch<AllTypes>(x.dtype(), c.name(), [&]<class T>() {
        if (out.dtype() == dtype_of<kernels::SumOf<T>>)
            return Kernel::run(x.data<T>(), out.data<kernels::SumOf<T>>(), axis_of(c, x));
        WEFT_EXPECT(false, Runtime, c.name(), "a number dtype", name(out.dtype()));
    });
}

void same_shape(Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape())); }

void scan_kernel(Call& c) {
    const Tensor& out = c.out(0);
    Tensor a = as_contiguous(c.in[0]), b = as_contiguous(c.in[1], out.dtype());
    Unlocked unlocked(2 * out.numel());
    dispatch<WithComplex<FloatingTypes>>(out.dtype(), c.name(), [&]<class T>() {
        auto* run = c.attr(1).as_bool() ? kernels::linear_scan_back<T> : kernels::linear_scan<T>;
        run(a.data<T>(), b.data<T>(), out.data<T>(), axis_of(c, b));
    });
}

void sum_of_rest_kernel(Call& c) {
    const Tensor& out = c.out(0);
    Tensor x = as_contiguous(c.in[0]);
    Unlocked unlocked(out.numel());
    dispatch<WithComplex<FloatingTypes>>(out.dtype(), c.name(), [&]<class T>() {
        kernels::linear_scan_back<T>(nullptr, x.data<T>(), out.data<T>(), axis_of(c, x));
    });
}

void shift_kernel(Call& c) {
    const Tensor& out = c.out(0);
    Tensor x = as_contiguous(c.in[0]);
    dispatch<WithComplex<FloatingTypes>>(out.dtype(), c.name(), [&]<class T>() {
        kernels::shift(x.data<T>(), out.data<T>(), static_cast<T>(c.attr(1).as_double()),
                       c.attr(2).as_bool(), axis_of(c, x));
    });
}

void others_kernel(Call& c) {
    const Tensor& out = c.out(0);
    Tensor x = as_contiguous(c.in[0]);
    if (out.numel() == 0) return;
    Unlocked unlocked(2 * out.numel());
    dispatch<WithComplex<FloatingTypes>>(out.dtype(), c.name(), [&]<class T>() {
        kernels::products_of_others(x.data<T>(), out.data<T>(), axis_of(c, x));
    });
}

/// The product of what stands before (p) times that of what stands after (s), two scans, of which s
/// begins with 1 at the end.
[[gnu::cold]] Tensor others_gradient(const Grad& g) {
    const Value& dim = g.attr(0);
    const Tensor x = g.in(0), h = g.grad();
    const Tensor p = shift(cumprod(x, dim), dim, 1.0, false);
    const Tensor s = linear_scan(x, shift(zeros(x.shape(), x.dtype()), dim, 1.0, true), dim, true);
    const Tensor before = linear_scan(conj(x), shift(h * conj(s), dim, 0.0, true), dim, true);
    const Tensor after = shift(linear_scan(conj(x), h * conj(p), dim, false), dim, 0.0, false);
    return before * conj(p) + after * conj(s);
}

void register_running(Table& t) {
    t.add("cumsum(Tensor self, int dim, *, dtype? dtype=None) -> Tensor")
        .batch(batch_along<0>)
        .doc("Running sums along `dim`, converted to `dtype` first; integers and bools in int64.\n"
             "Of self's shape.\n\n"
             ">>> weft.cumsum(weft.tensor([1., 2., 3.]), 0)\n"
             "tensor([1., 3., 6.])")
        .shape(running_shape)
        .kernel(running_kernel<Cumsum>)
        .uint64(Uint64::Bits)
        .out_form()
        .inplace()
        .grad(0, 0, [](const Grad& g) { return sum_of_rest(g.grad(), g.attr(0)); })
        .samples(
            {"f(T(2, 3), 0)", "f(T(2, 3), dim=-1)", "f(T(), 0)", "f(T(0, 3), 0)", "f(I(4), 0)"});
    t.add("cumprod(Tensor self, int dim, *, dtype? dtype=None) -> Tensor")
        .batch(batch_along<0>)
        .doc("Running products along `dim`, converted to `dtype` first; integers and bools in\n"
             "int64. Of self's shape.\n\n"
             ">>> weft.cumprod(weft.tensor([1., 2., 3.]), 0)\n"
             "tensor([1., 2., 6.])")
        .shape(running_shape)
        .kernel(running_kernel<Cumprod>)
        .uint64(Uint64::Bits)
        .out_form()
        .inplace()
        .grad(0, save_in(0) | save_out(0),
              [](const Grad& g) {
                  Dims shape = g.in_shape(0);
                  if (shape.empty() || shape[wrap_dim("cumprod", g.attr(0).as_int(),
                                                      static_cast<int>(shape.size()))] <= 1)
                      return g.grad();
                  Tensor x = cast(g.in(0), g.out_dtype(0));
                  return linear_scan(conj(x), g.grad(), g.attr(0), true) *
                         conj(shift(g.out(0), g.attr(0), 1.0, false));
              })
        .samples({"f(T(2, 3), 0)", "f(T(2, 3), dim=-1)", "f(T(), 0)", "f(T(0, 3), 0)",
                  "f(T(2, 5) * I(2, 5, high=2), 1)"});
}

}  // namespace

void register_cumulative(Table& t) {
    register_running(t);
    t.add("_sum_of_rest(Tensor self, int dim) -> Tensor")
        .doc("Sums from each element to the last along `dim`: cumsum's adjoint.")
        .shape(same_shape)
        .kernel(sum_of_rest_kernel)
        .internal()
        .node_name("FlipBackward0")
        .grad(0, 0, [](const Grad& g) { return cumsum(g.grad(), g.attr(0)); })
        .samples({"f(T(2, 3), 0)", "f(T(2, 3), 1)", "f(T(), 0)"});
    t.add("_product_of_others(Tensor self, int dim) -> Tensor")
        .doc("The product of all elements along `dim` but the element itself.")
        .shape(same_shape)
        .kernel(others_kernel)
        .internal()
        .grad(0, save_in(0), others_gradient)
        .samples({"f(T(2, 3), 1)", "f(T(4, 3), 0)", "f(T(2, 1), 1)", "f(T(0, 3), 0)",
                  "f(T(2, 5) * I(2, 5, high=2), 1)"});
    t.add("_linear_scan(Tensor decay, Tensor input, int dim, bool back) -> Tensor")
        .doc("y[i] = decay[i] y[i-1] + input[i] along `dim`; with `back` y[i] = decay[i+1]\n"
             "y[i+1] + input[i]. The two are each other's adjoint; decay[0] is never read.")
        .shape([](Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape())); })
        .kernel(scan_kernel)
        .internal()
        .grad(0, save_in(0) | save_out(0),
              [](const Grad& g) {
                  bool back = g.attr(1).as_bool();
                  Tensor adjoint = linear_scan(conj(g.in(0)), g.grad(), g.attr(0), !back);
                  const Tensor y = conj(g.out(0));
                  auto before = [&](const Tensor& t) { return shift(t, g.attr(0), 0.0, false); };
                  return back ? y * before(adjoint) : adjoint * before(y);
              })
        .grad(1, save_in(0),
              [](const Grad& g) {
                  return linear_scan(conj(g.in(0)), g.grad(), g.attr(0), !g.attr(1).as_bool());
              })
        .samples({"f(T(2, 4), T(2, 4), 1, False)", "f(T(4, 2), T(4, 2), 0, True)",
                  "f(T(), T(), 0, True)"});
    t.add("_shift(Tensor self, int dim, float first, bool back) -> Tensor")
        .doc("Elements moved one place along `dim`, `first` where none came from; with `back` to\n"
             "the left.")
        .shape(same_shape)
        .kernel(shift_kernel)
        .internal()
        .grad(0, 0,
              [](const Grad& g) { return shift(g.grad(), g.attr(0), 0.0, !g.attr(2).as_bool()); })
        .samples(
            {"f(T(2, 3), 1, 1.0, False)", "f(T(2, 3), 0, 0.0, True)", "f(T(), 0, 1.0, False)"});
}

}  // namespace weft
