/// Softmax and its logarithm.
#include "ops/axes.h"
#include "ops/batch.h"

namespace weft {
namespace {

using namespace ops;
using kernels::Axis;

const Function log_softmax_backward{"_log_softmax_backward_data"};

enum class Form { Plain, Log };

void softmax_shape(Call& c) {
    const Tensor& x = c.in[0];
    DType dtype = dtype_or_own(c.attr(1), x);
    wrap_dim(c.name(), c.attr(0).as_int(), x.ndim());
    WEFT_EXPECT(is_floating(dtype), NotImplemented, c.name(), "a floating dtype", name(dtype),
                "pass dtype=torch.float32");
    c.add(Tensor::layout(dtype, x.shape()));
}

template <Form F>
void softmax_kernel(Call& c) {
    const Tensor& out = c.out(0);
    Tensor x = as_contiguous(c.in[0], out.dtype());
    Axis axis = axis_along(x.shape(), wrap_dim(c.name(), c.attr(0).as_int(), x.ndim()));
    Unlocked unlocked(8 * x.numel());
    dispatch<FloatingTypes>(out.dtype(), c.name(), [&]<class T>() {
        if constexpr (F == Form::Plain) kernels::softmax(x.data<T>(), out.data<T>(), axis);
        else kernels::log_softmax(x.data<T>(), out.data<T>(), axis);
    });
}

void softmax_backward_shape(Call& c) { c.add(Tensor::layout(c.in[1].dtype(), c.in[1].shape())); }

template <Form F>
void softmax_backward_kernel(Call& c) {
    const Tensor& out = c.out(0);
    Tensor dy = as_contiguous(c.in[0], out.dtype()), y = as_contiguous(c.in[1]);
    Axis axis = axis_along(y.shape(), wrap_dim(c.name(), c.attr(0).as_int(), y.ndim()));
    Unlocked unlocked(4 * y.numel());
    dispatch<FloatingTypes>(out.dtype(), c.name(), [&]<class T>() {
        if constexpr (F == Form::Plain)
            kernels::softmax_backward(y.data<T>(), dy.data<T>(), out.data<T>(), axis);
        else kernels::log_softmax_backward(y.data<T>(), dy.data<T>(), out.data<T>(), axis);
    });
}

Tensor summed(const Tensor& t, const Value& dim) { return sum_dim(t, dim, true); }

void register_forward(Table& t) {
    t.add("softmax(Tensor self, int dim, dtype? dtype=None) -> Tensor")
        .doc("exp(x) / sum(exp(x)) along `dim`, converted to `dtype` first. Shape of `self`.\n"
             "IndexError for a dim out of range.\n\n"
             ">>> weft.softmax(weft.zeros(2), 0)\n"
             "tensor([0.5000, 0.5000])")
        .shape(softmax_shape)
        .kernel(softmax_kernel<Form::Plain>)
        .batch(batch_along<0>)
        .out_form()
        .grad(0, save_out(0),
              [](const Grad& g) { return softmax_backward(g.grad(), g.out(0), g.attr(0)); })
        .samples({"f(T(2, 3), 0)", "f(T(2, 3), dim=-1)", "f(T(2, 3, 4), 1)", "f(T(), 0)",
                  "f(T(0, 3), 0)"});
    t.add("log_softmax(Tensor self, int dim, dtype? dtype=None) -> Tensor")
        .doc("log(softmax(x)) along `dim`, without underflow. Of self's shape.\n"
             ">>> weft.log_softmax(weft.zeros(2), 0)\n"
             "tensor([-0.6931, -0.6931])")
        .shape(softmax_shape)
        .kernel(softmax_kernel<Form::Log>)
        .batch(batch_along<0>)
        .out_form()
        .grad(0, save_out(0),
              [](const Grad& g) { return log_softmax_backward(g.grad(), g.out(0), g.attr(0)); })
        .samples({"f(T(2, 3), 0)", "f(T(2, 3), dim=-1)", "f(T(2, 3, 4), 1)", "f(T(), 0)",
                  "f(T(0, 3), 0)"});
    t.add("softmin(Tensor input, int dim, dtype? dtype=None) -> Tensor")
        .doc("softmax(-x) along `dim`. Of input's shape.\n"
             ">>> weft.softmin(weft.zeros(2), 0)\n"
             "tensor([0.5000, 0.5000])")
        .body([](Call& c) { c.set(softmax(-c.in[0], c.attr(0), c.attr(1))); })
        .batch(Batch::Body)
        .function_only()
        .samples({"f(T(2, 3), 0)", "f(T(2, 3), dim=-1)"});
}

}  // namespace

void register_softmax(Table& t) {
    register_forward(t);
    t.add("_softmax_backward_data(Tensor grad_output, Tensor output, int dim) -> Tensor")
        .doc("y * (g - sum(g * y)), from the softmax's output y.")
        .shape(softmax_backward_shape)
        .kernel(softmax_backward_kernel<Form::Plain>)
        .internal()
        .grad(0, save_in(1),
              [](const Grad& g) { return softmax_backward(g.grad(), g.in(1), g.attr(0)); })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) {
                  Tensor h = g.grad(), d = g.in(0), y = g.in(1);
                  return h * (d - summed(d * y, g.attr(0))) - d * summed(h * y, g.attr(0));
              })
        .samples({"f(T(2, 3), T(2, 3), 0)", "f(T(2, 3, 2), T(2, 3, 2), 1)", "f(T(), T(), 0)"});
    t.add("_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim) -> Tensor")
        .doc("g - exp(y) * sum(g), from the log_softmax's output y.")
        .shape(softmax_backward_shape)
        .kernel(softmax_backward_kernel<Form::Log>)
        .internal()
        .grad(0, save_in(1),
              [](const Grad& g) { return g.grad() - summed(g.grad() * exp(g.in(1)), g.attr(0)); })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) { return -g.grad() * exp(g.in(1)) * summed(g.in(0), g.attr(0)); })
        .samples({"f(T(2, 3), T(2, 3), 0)", "f(T(2, 3, 2), T(2, 3, 2), 1)", "f(T(), T(), 0)"});
}

}  // namespace weft
