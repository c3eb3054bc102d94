/// Layer normalisation (Ba, Kiros and Hinton 2016).
#include <cmath>

#include "ops/axes.h"
#include "ops/batch.h"
#include "ops/norm.h"
#include "ops/shape.h"

namespace weft {
namespace {

using namespace ops;

const Function forward{"native_layer_norm"}, backward{"native_layer_norm_backward"};

/// The input as rows of the normalized dims.
struct Rows {
    int64_t rows = 1, n = 1;
    Rows(DimSpan shape, size_t normalized) {
        size_t lead = shape.size() - normalized;
        for (size_t d = 0; d < shape.size(); ++d) (d < lead ? rows : n) *= shape[d];
    }
};

void check_parameter(const Tensor& p, const char* which, DimSpan normalized) {
    if (!p.defined()) return;
    WEFT_EXPECT(equal(p.shape(), normalized), Runtime, "layer_norm",
                text(which, " of the same shape as normalized_shape ", to_string(normalized)),
                to_string(p.shape()));
}

/// PyTorch's words for an input that does not end as it should.
std::string given_shape(DimSpan normalized, DimSpan shape) {
    const std::string wanted = to_string(normalized);
    return text("another (Given normalized_shape=", wanted, ", expected input with shape [*, ",
                std::string_view(wanted).substr(1), ", but got input of size", to_string(shape),
                ")");
}

/// Shape of mean and rstd: 1 in place of every normalized dim.
Dims statistics_shape(DimSpan shape, size_t normalized) {
    Dims out(shape);
    for (size_t i = 0; i < normalized; ++i) out[static_cast<int>(shape.size() - 1 - i)] = 1;
    return out;
}

void layer_norm_shape(Call& c) {
    const Tensor& x = c.in[0];
    DimSpan normalized = c.attr(0).as_ints();
    size_t k = normalized.size();
    WEFT_EXPECT(k >= 1, Runtime, "layer_norm", "a normalized_shape of at least one dim", "[]");
    WEFT_EXPECT(x.shape().size() >= k && equal(x.shape().last(k), normalized), Runtime,
                "layer_norm", "an input whose last dims are normalized_shape",
                given_shape(normalized, x.shape()));
    WEFT_EXPECT(is_floating(x.dtype()), NotImplemented, "layer_norm", "a floating dtype",
                name(x.dtype()));
    check_parameter(c.in[1], "weight", normalized);
    check_parameter(c.in[2], "bias", normalized);
    const DType dtype = statistics_dtype(c, "layer_norm", 1, 2);
    c.add(Tensor::layout(x.dtype(), x.shape()));
    Dims statistics = statistics_shape(x.shape(), k);
    c.add(Tensor::layout(dtype, statistics));
    c.add(Tensor::layout(dtype, statistics));
}

template <class T>
T* memory_or_null(const Tensor& t) {
    return t.defined() ? t.data<T>() : nullptr;
}

void layer_norm_kernel(Call& c) {
    Tensor x = as_contiguous(c.in[0]), gamma = dense(c.in[1]), beta = dense(c.in[2]);
    Rows shape(x.shape(), c.attr(0).as_ints().size());
    Unlocked unlocked(4 * x.numel());
    dispatch<FloatingTypes>(x.dtype(), "layer_norm", [&]<class T>() {
        kernels::layer_norm(x.data<T>(), memory_or_null<T>(gamma), memory_or_null<T>(beta),
                            c.attr(1).as_double(), c.out(0).data<T>(), c.out(1).data<T>(),
                            c.out(2).data<T>(), shape.rows, shape.n);
    });
}

void layer_norm_gradient(Grad& g) {
    int wanted = (g.needs(0) ? kInput : 0) | (g.needs(1) ? kWeight : 0) | (g.needs(2) ? kBias : 0);
    Tensor in[] = {g.grad(), g.in(0), g.out(1), g.out(2), g.in(1)};
    Value attrs[] = {g.attr(0), g.attr(1), wanted};
    Call c(backward.op(), in, 5, attrs);
    ops::call(c);
    for (int i = 0; i < 3; ++i)
        if (wanted >> i & 1) g.set(i, std::move(c.out(i)));
}

/// Gradients nobody wants are empty tensors.
void layer_norm_backward_shape(Call& c) {
    const Tensor& x = c.in[1];
    int64_t wanted = c.attr(2).as_int();
    const Dims none{0};
    DimSpan shapes[] = {x.shape(), c.attr(0).as_ints(), c.attr(0).as_ints()};
    for (int i = 0; i < 3; ++i)
        c.add(Tensor::layout(i ? c.in[2].dtype() : x.dtype(),
                             wanted >> i & 1 ? shapes[i] : DimSpan(none)));
}

void layer_norm_backward_kernel(Call& c) {
    const Tensor& x_in = c.in[1];
    Tensor dy = as_contiguous(c.in[0], x_in.dtype()), x = as_contiguous(x_in),
           mean = dense(c.in[2]), rstd = dense(c.in[3]), gamma = dense(c.in[4]);
    Rows shape(x.shape(), c.attr(0).as_ints().size());
    int64_t wanted = c.attr(2).as_int();
    Unlocked unlocked(8 * x.numel());
    dispatch<FloatingTypes>(x.dtype(), "layer_norm", [&]<class T>() {
        auto out = [&](int i) { return wanted >> i & 1 ? c.out(i).data<T>() : nullptr; };
        kernels::layer_norm_backward(dy.data<T>(), x.data<T>(), memory_or_null<T>(gamma),
                                     mean.data<T>(), rstd.data<T>(), out(0), out(1), out(2),
                                     shape.rows, shape.n);
    });
}

/// Note [Second derivative of layer_norm]
/// Per row, with r = (var + eps)^-1/2 and u = (x - mean) r, the symmetric operator
///     A c = r (c - mean(c) - u mean(c u))
/// is du/dx. The backward gives dx = A(w dy), dw = sum(dy u), db = sum(dy). With hx, hw, hb the
/// gradients of those three:
///     to dy: w A hx + hw u + hb
///     to w:  sum(dy A hx)
///     to x:  A(hw dy) - r (b A hx + a A c) - u r <hx, A c> / n,  c = w dy, a = mean(hx u),
///            b = mean(c u)
/// All of it is written over x, not over the saved mean and rstd, so third derivatives hold too.
struct LayerNormSecond {
    Tensor x, u, r;
    Dims last;
    double n;

    LayerNormSecond(const Tensor& x, int normalized, double eps) : x(x) {
        n = 1;
        for (int i = 1; i <= normalized; ++i) {
            last.push_back(-i);
            n *= static_cast<double>(x.size(x.ndim() - i));
        }
        Tensor centred = x - mean(x);
        r = pow(mean(centred * centred) + eps, number(-0.5, x.dtype()));
        u = centred * r;
    }
    Tensor mean(const Tensor& t) const { return mean_dim(t, last, true); }
    Tensor apply(const Tensor& c) const { return r * (c - mean(c) - u * mean(c * u)); }
};

void layer_norm_second_gradient(Grad& g) {
    Tensor dy = g.in(0), w = g.in(4), hx = g.grad(0), hw = g.grad(1), hb = g.grad(2);
    int normalized = static_cast<int>(g.attr(0).as_ints().size());
    LayerNormSecond s(g.in(1), normalized, g.attr(1).as_double());
    Tensor to_dy, to_x, to_w;
    auto weighted = [&](const Tensor& t) { return w.defined() ? t * w : t; };
    if (hx.defined()) {
        Tensor ahx = s.apply(hx);
        to_dy = weighted(ahx);
        if (w.defined()) to_w = dy * ahx;
        Tensor c = weighted(dy), ac = s.apply(c);
        to_x = -s.r * (s.mean(c * s.u) * ahx + s.mean(hx * s.u) * ac) - s.u * s.r * s.mean(hx * ac);
    }
    if (hw.defined()) {
        to_dy = plus(to_dy, hw * s.u);
        to_x = plus(to_x, s.apply(hw * dy));
    }
    if (hb.defined()) to_dy = plus(to_dy, expand(hb, Dims(dy.shape())));
    if (g.needs(0)) g.set(0, to_dy);
    if (g.needs(1)) g.set(1, to_x);
    if (g.needs(4)) g.set(4, to_w);
}

}  // namespace

namespace {

bool norm_rows(const BatchCall& c, BatchForm& form) {
    switch (c.attr(0).as_ints().size()) {
        case 1:
            return batch_last<1>(c, form);
        case 2:
            return batch_last<2>(c, form);
        case 3:
            return batch_last<3>(c, form);
        default:
            return false;
    }
}

}  // namespace

void register_norm(Table& t) {
    t.add("layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? "
          "bias=None, float eps=1e-05) -> Tensor")
        .autocast(Cast::Within)
        .doc("(x - mean) / sqrt(var + eps) * weight + bias over the last dims, which must be\n"
             "`normalized_shape`; weight and bias have that shape. Var is biased. RuntimeError\n"
             "for shapes that do not fit. Ba, Kiros and Hinton 2016.\n\n"
             ">>> weft.layer_norm(weft.tensor([1., 3.]), (2,))\n"
             "tensor([-1.0000,  1.0000])")
        .body([](Call& c) {
            Call native(forward.op(), c.in, 3, c.attrs);
            ops::call(native);
            c.set(std::move(native.out(0)));
        })
        .batch(Batch::Body)
        .function_only()
        .samples({"f(T(2, 3), (3,))", "f(T(2, 3), (3,), T(3), T(3))",
                  "f(T(2, 3, 4), (3, 4), T(3, 4))", "f(T(2, 3), (3,), None, T(3), eps=0.1)",
                  "f(T(0, 3), (3,))"});
    t.add("native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, "
          "float eps) -> (Tensor, Tensor, Tensor)")
        .doc("layer_norm with the mean and 1 / sqrt(var + eps) of each row, 1 in place of the\n"
             "normalized dims.\n\n"
             ">>> x = weft.tensor([[1.0, 3.0]])\n"
             ">>> weft.native_layer_norm(x, (2,), None, None, 0.0)\n"
             "(tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))")
        .shape(layer_norm_shape)
        .kernel(layer_norm_kernel)
        .function_only()
        .no_onnx("the statistics of layer_norm, which has a form")
        .batch(norm_rows, save_in(1) | save_in(2))
        .constant_output(1)
        .constant_output(2)
        .joint_grad(save_in(0) | save_in(1) | save_out(1) | save_out(2), layer_norm_gradient)
        .samples({"f(T(2, 3), (3,), T(3), T(3), 1e-5)"});
    t.add("native_layer_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, "
          "Tensor mean, Tensor rstd, Tensor? weight, float eps, int wanted=7) -> (Tensor, Tensor, "
          "Tensor)")
        .doc("The gradients of native_layer_norm's input, weight and bias; `wanted` has a bit\n"
             "for each, those not wanted come out empty. mean and rstd are taken as functions of\n"
             "the input.")
        .shape(layer_norm_backward_shape)
        .kernel(layer_norm_backward_kernel)
        .internal()
        .joint_grad(save_in(0) | save_in(1) | save_in(4), layer_norm_second_gradient);
}

}  // namespace weft
