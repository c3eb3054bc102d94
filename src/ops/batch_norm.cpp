/// Normalisation by channels: over the batch (Ioffe and Szegedy 2015), over each image (Ulyanov et
/// al. 2016), over groups of channels (Wu and He 2018); and by the root of the mean square.
#include "kernels/batch_norm.h"

#include <cmath>

#include "kernels/group_norm.h"
#include "ops/batch.h"
#include "ops/norm.h"
#include "ops/spatial.h"

namespace weft {
namespace {

using namespace ops;

const Function rsqrt_op{"rsqrt"}, batch_op{"_batch_norm"}, batch_now{"_batch_norm_now"},
    instance_now{"_instance_norm_now"}, batch_backward{"_batch_norm_backward"},
    group_op{"_group_norm"}, group_backward{"_group_norm_backward"}, layer_op{"native_layer_norm"},
    layer_backward{"native_layer_norm_backward"};

kernels::Channels channels_of(DimSpan shape) {
    kernels::Channels n{shape[0], shape[1], 1};
    for (size_t d = 2; d < shape.size(); ++d) n.inner *= shape[d];
    return n;
}

/// Throws for parameters that do not fit; the dtype of the statistics.
DType check_channels(const Call& c, const Tensor& x, int first, int last) {
    WEFT_EXPECT(x.ndim() >= 2, Runtime, c.name(), "an input of at least 2 dimensions",
                to_string(x.shape()));
    WEFT_EXPECT(is_floating(x.dtype()), NotImplemented, c.name(), "a floating dtype",
                name(x.dtype()));
    static const char* names[] = {"input", "weight", "bias", "running_mean", "running_var"};
    for (int i : {3, 4, 1, 2}) {  // as PyTorch looks
        const Tensor& p = c.in[i];
        if (i < first || i > last || !p.defined()) continue;
        WEFT_EXPECT(p.ndim() == 1 && p.size(0) == x.size(1), Runtime, c.name(),
                    "a number for each channel",
                    text(to_string(p.shape()), " (", names[i], " should contain ", x.size(1),
                         " elements not ", p.numel(), ")"));
    }
    return statistics_dtype(c, c.name(), first, last);
}

// ---- the op and its backward ------------------------------------------------------------------

void batch_norm_shape(Call& c) {
    const Tensor& x = c.in[0];
    WEFT_EXPECT(x.ndim() >= 2 || !c.attr(0).as_bool() || c.in[3].defined(), Index, c.name(),
                "an input of at least 2 dimensions", to_string(x.shape()));
    const DType dtype = check_channels(c, x, 1, 4);
    WEFT_EXPECT(c.attr(0).as_bool() || (c.in[3].defined() && c.in[4].defined()), Runtime, c.name(),
                "running_mean and running_var to be defined in evaluation mode", "None");
    c.add(Tensor::layout(x.dtype(), x.shape()));
    for (int k = 0; k < 3; ++k) c.add(Tensor::layout(dtype, Dims{x.size(1)}));
}

void batch_norm_kernel(Call& c) {
    Tensor x = as_contiguous(c.in[0]), gamma = dense(c.in[1]), beta = dense(c.in[2]);
    Tensor running_mean = dense(c.in[3]), running_var = dense(c.in[4]);
    auto n = channels_of(x.shape());
    bool own = c.attr(0).as_bool();
    double eps = c.attr(1).as_double();
    Unlocked unlocked(4 * x.numel());
    dispatch<FloatingTypes>(x.dtype(), "batch_norm", [&]<class T>() {
        T *mean = c.out(1).data<T>(), *rstd = c.out(2).data<T>(), *var = c.out(3).data<T>();
        for (int64_t i = 0; i < n.channels && !own; ++i) {
            mean[i] = running_mean.data<T>()[i];
            var[i] = running_var.data<T>()[i];
            rstd[i] = static_cast<T>(1 / std::sqrt(static_cast<double>(var[i]) + eps));
        }
        kernels::batch_norm<T>(n, x.data<T>(), memory_or_null<T>(gamma), memory_or_null<T>(beta),
                               eps, {mean, rstd, var}, own, c.out(0).data<T>());
    });
}

void batch_norm_gradient(Grad& g) {
    int wanted = (g.needs(0) ? kInput : 0) | (g.needs(1) ? kWeight : 0) | (g.needs(2) ? kBias : 0);
    Tensor in[] = {g.grad(), g.in(0), g.in(1), g.out(1), g.out(2)};
    Value attrs[] = {g.attr(0), g.attr(1), wanted};
    Call c(batch_backward.op(), in, 5, attrs);
    ops::call(c);
    for (int i = 0; i < 3; ++i)
        if (wanted >> i & 1) g.set(i, std::move(c.out(i)));
}

/// Gradients nobody wants are empty tensors.
/// With given statistics each image is for itself; in training their own tie them together.
bool given_rows(const BatchCall& c, BatchForm& form) {
    return !c.attr(0).as_bool() && batch_first(c, form);
}

void batch_norm_backward_shape(Call& c) {
    const Tensor& x = c.in[1];
    int64_t wanted = c.attr(2).as_int();
    const Dims none{0}, channel{x.size(1)};
    DimSpan shapes[] = {x.shape(), channel, channel};
    for (int i = 0; i < 3; ++i)
        c.add(Tensor::layout(i ? c.in[3].dtype() : x.dtype(),
                             wanted >> i & 1 ? shapes[i] : DimSpan(none)));
}

void batch_norm_backward_kernel(Call& c) {
    const Tensor& x_in = c.in[1];
    Tensor dy = as_contiguous(c.in[0], x_in.dtype()), x = as_contiguous(x_in),
           gamma = dense(c.in[2]), mean = dense(c.in[3]), rstd = dense(c.in[4]);
    int64_t wanted = c.attr(2).as_int();
    Unlocked unlocked(6 * x.numel());
    dispatch<FloatingTypes>(x.dtype(), "batch_norm", [&]<class T>() {
        auto out = [&](int i) { return wanted >> i & 1 ? c.out(i).data<T>() : nullptr; };
        kernels::batch_norm_backward<T>(channels_of(x.shape()), dy.data<T>(), x.data<T>(),
                                        memory_or_null<T>(gamma), mean.data<T>(), rstd.data<T>(),
                                        c.attr(0).as_bool(), out(0), out(1), out(2));
    });
}

/// All dims but the channels'.
Dims other_dims(int ndim) {
    Dims out{0};
    for (int d = 2; d < ndim; ++d) out.push_back(d);
    return out;
}
/// A vector over channels, to be broadcast against images of `ndim` dims.
Tensor by_channel(const Tensor& v, int ndim) {
    Dims shape(ndim, 1);
    shape[1] = v.size(0);
    return reshape(v, shape);
}

/// As in Note [Second derivative of layer_norm], with means over all dims but the channels' and the
/// weight a number per channel. With running statistics mean and r are constants, so A c = r c.
struct BatchNormSecond {
    Tensor u, r;
    Dims dims;
    int ndim;
    bool own;

    BatchNormSecond(const Tensor& x, const Tensor& mean_given, const Tensor& rstd, bool own,
                    double eps)
        : dims(other_dims(x.ndim())), ndim(x.ndim()), own(own) {
        Tensor centred = x - (own ? mean(x) : by_channel(mean_given, ndim));
        r = own ? pow(mean(centred * centred) + eps, number(-0.5, x.dtype()))
                : by_channel(rstd, ndim);
        u = centred * r;
    }
    Tensor mean(const Tensor& t) const { return mean_dim(t, dims, true); }
    Tensor apply(const Tensor& c) const {
        return own ? r * (c - mean(c) - u * mean(c * u)) : r * c;
    }
};

void batch_norm_second_gradient(Grad& g) {
    Tensor dy = g.in(0), w = g.in(2), hx = g.grad(0), hw = g.grad(1), hb = g.grad(2);
    bool own = g.attr(0).as_bool();
    BatchNormSecond s(g.in(1), g.in(3), g.in(4), own, g.attr(1).as_double());
    Tensor to_dy, to_x, to_w;
    auto weighted = [&](const Tensor& t) { return w.defined() ? t * by_channel(w, s.ndim) : t; };
    if (hx.defined()) {
        Tensor ahx = s.apply(hx);
        to_dy = weighted(ahx);
        if (w.defined()) to_w = sum_dim(dy * ahx, s.dims, false);
        Tensor c = weighted(dy), ac = s.apply(c);
        if (own)
            to_x = -s.r * (s.mean(c * s.u) * ahx + s.mean(hx * s.u) * ac) -
                   s.u * s.r * s.mean(hx * ac);
    }
    if (hw.defined()) {
        hw = by_channel(hw, s.ndim);
        to_dy = plus(to_dy, hw * s.u);
        to_x = plus(to_x, s.apply(hw * dy));
    }
    if (hb.defined()) to_dy = plus(to_dy, expand(by_channel(hb, s.ndim), Dims(dy.shape())));
    if (g.needs(0)) g.set(0, to_dy);
    if (g.needs(1)) g.set(1, to_x);
    if (g.needs(2)) g.set(2, to_w);
}

// ---- the public forms --------------------------------------------------------------------------

/// running = (1 - momentum) * running + momentum * now, in place.
void move_towards(const Tensor& running, const Tensor& now, double momentum) {
    if (!running.defined()) return;
    ModeGuard constant(0, kGradMode);
    Tensor in[] = {running * (1 - momentum), now * momentum};
    Call c(add.op(), in, 2, add.op().defaults.data());
    c.dest = running;
    ops::call(c);
}

double unbiased(double count) { return count / std::max(1.0, count - 1); }

/// Running statistics move example by example: such a call does not wait.
void now(Call& c, const Function& same) {
    Call run(same.op(), c.in, 5, c.attrs);
    ops::call(run);
    c.set(std::move(run.out(0)));
}

void batch_body(Call& c) {
    const Tensor& x = c.in[0];
    if (x.ndim() == 1 && x.numel() == 0) return c.set(clone(x));  // as PyTorch: nothing to do
    bool training = c.attr(0).as_bool();
    if (training && c.in[3].defined() && (mode & kDeferMode)) return now(c, batch_now);
    Value attrs[] = {training, c.attr(2)};
    Call native(batch_op.op(), c.in, 5, attrs);
    ops::call(native);
    if (training && c.in[3].defined() && x.numel()) {
        auto n = channels_of(x.shape());
        double momentum = c.attr(1).as_double();
        move_towards(c.in[3], native.out(1), momentum);
        move_towards(c.in[4], native.out(3) * unbiased(static_cast<double>(n.batch * n.inner)),
                     momentum);
    }
    c.set(std::move(native.out(0)));
}

/// A vector over channels, once per image.
Tensor per_image(const Tensor& v, int64_t images) {
    if (!v.defined()) return v;
    return reshape(expand(v, Dims{images, v.size(0)}), Dims{images * v.size(0)});
}

/// Each image of each channel as a channel of one large image.
void instance_body(Call& c) {
    const Tensor& x = c.in[0];
    check_channels(c, x, 1, 4);
    bool own = c.attr(0).as_bool();
    if (own && c.in[3].defined() && (mode & kDeferMode)) return now(c, instance_now);
    int64_t images = x.size(0), channels = x.size(1);
    WEFT_EXPECT(own || (c.in[3].defined() && c.in[4].defined()), Runtime, c.name(),
                "running_mean and running_var to be defined when use_input_stats is False", "None");
    Dims flat(x.shape());
    flat[0] = 1;
    flat[1] = images * channels;
    Tensor in[5] = {reshape(x, flat)};
    for (int i = 1; i < 5; ++i) in[i] = per_image(c.in[i], images);
    Value attrs[] = {own, c.attr(2)};
    Call native(batch_op.op(), in, 5, attrs);
    ops::call(native);
    if (own && c.in[3].defined() && x.numel()) {
        double momentum = c.attr(1).as_double();
        auto average = [&](const Tensor& t) {
            return mean_dim(reshape(t, Dims{images, channels}), Dims{0}, false);
        };
        auto count = static_cast<double>(channels_of(x.shape()).inner);
        move_towards(c.in[3], average(native.out(1)), momentum);
        move_towards(c.in[4], average(native.out(3)) * unbiased(count), momentum);
    }
    c.set(view(native.out(0), Dims(x.shape())));
}

// ---- groups ------------------------------------------------------------------------------------

void group_shape(Call& c) {
    const Tensor& x = c.in[0];
    int64_t groups = c.attr(0).as_int();
    WEFT_EXPECT(x.ndim() < 2 || (groups > 0 && x.size(1) % groups == 0), Runtime, "group_norm",
                "other groups",
                text(groups,
                     " (Expected number of channels in input to be divisible by num_groups, but "
                     "got input of shape ",
                     to_string(x.shape()), " and num_groups=", groups, ")"));
    const DType dtype = check_channels(c, x, 1, 2);
    c.add(Tensor::layout(x.dtype(), x.shape()));
    Dims statistics{x.size(0), groups};
    c.add(Tensor::layout(dtype, statistics));
    c.add(Tensor::layout(dtype, statistics));
}

kernels::Groups groups_of(DimSpan shape, int64_t groups) {
    auto n = channels_of(shape);
    return {n.batch, n.channels, n.inner, groups};
}

void group_kernel(Call& c) {
    Tensor x = as_contiguous(c.in[0]), gamma = dense(c.in[1]), beta = dense(c.in[2]);
    Unlocked unlocked(4 * x.numel());
    dispatch<FloatingTypes>(x.dtype(), "group_norm", [&]<class T>() {
        kernels::group_norm<T>(groups_of(x.shape(), c.attr(0).as_int()), x.data<T>(),
                               memory_or_null<T>(gamma), memory_or_null<T>(beta),
                               c.attr(1).as_double(), c.out(0).data<T>(), c.out(1).data<T>(),
                               c.out(2).data<T>());
    });
}

/// Inputs: dy, x, weight, mean, rstd. Gradients nobody wants are empty tensors.
void group_backward_kernel(Call& c) {
    const Tensor& x_in = c.in[1];
    Tensor dy = as_contiguous(c.in[0], x_in.dtype()), x = as_contiguous(x_in),
           gamma = dense(c.in[2]), mean = dense(c.in[3]), rstd = dense(c.in[4]);
    int64_t wanted = c.attr(2).as_int();
    Unlocked unlocked(6 * x.numel());
    dispatch<FloatingTypes>(x.dtype(), "group_norm", [&]<class T>() {
        auto out = [&](int i) { return wanted >> i & 1 ? c.out(i).data<T>() : nullptr; };
        kernels::group_norm_backward<T>(groups_of(x.shape(), c.attr(0).as_int()), dy.data<T>(),
                                        x.data<T>(), memory_or_null<T>(gamma), mean.data<T>(),
                                        rstd.data<T>(), out(0), out(1), out(2));
    });
}

/// With a graph of it: groups as rows of layer_norm; the weight belongs to the channels and stays
/// outside.
void group_composed(Grad& g) {
    Tensor dy = g.grad(), x = g.in(0), w = g.in(1);
    auto n = groups_of(x.shape(), g.attr(0).as_int());
    Dims rows{n.images * n.groups, n.size()}, last{n.size()}, statistics{n.images * n.groups, 1};
    Tensor flat = reshape(x, rows), none;
    Dims others = other_dims(x.ndim());
    if (g.needs(0)) {
        Tensor weighted = w.defined() ? dy * by_channel(w, x.ndim()) : dy;
        Tensor mean = reshape(g.out(1), statistics), rstd = reshape(g.out(2), statistics);
        Tensor dx = layer_backward.all({reshape(weighted, rows), flat, mean, rstd, none},
                                       {last, g.attr(1), kInput})[0];
        g.set(0, reshape(dx, Dims(x.shape())));
    }
    if (g.needs(1)) {
        Tensor u = layer_op.all({flat, none, none}, {last, g.attr(1)})[0];
        g.set(1, sum_dim(dy * reshape(u, Dims(x.shape())), others, false));
    }
    if (g.needs(2)) g.set(2, sum_dim(dy, others, false));
}

void group_gradient(Grad& g) {
    if (mode & kGradMode) return group_composed(g);
    int wanted = (g.needs(0) ? kInput : 0) | (g.needs(1) ? kWeight : 0) | (g.needs(2) ? kBias : 0);
    auto parts = group_backward.all({g.grad(), g.in(0), g.in(1), g.out(1), g.out(2)},
                                    {g.attr(0), g.attr(1), wanted});
    for (int i = 0; i < 3; ++i)
        if (wanted >> i & 1) g.set(i, parts[i]);
}

// ---- root of the mean square -------------------------------------------------------------------

void rms_body(Call& c) {
    const Tensor &x = c.in[0], &w = c.in[1];
    DimSpan normalized = c.attr(0).as_ints();
    WEFT_EXPECT(
        x.shape().size() >= normalized.size(), Value, "rms_norm",
        text("an input of ", normalized.size(), " dimensions or more"),
        text(x.ndim(), " (Input tensor must have at least ", normalized.size(), " dimensions)"));
    if (!is_inexact(x.dtype())) fail_dtype("rms_norm", FloatingTypes::text, x.dtype());
    WEFT_EXPECT(!normalized.empty() && x.shape().size() >= normalized.size() &&
                    equal(x.shape().last(normalized.size()), normalized),
                Runtime, "rms_norm",
                text("an input whose last dims are normalized_shape ", to_string(normalized)),
                text("input of size ", to_string(x.shape())));
    WEFT_EXPECT(!w.defined() || equal(w.shape(), normalized), Runtime, "rms_norm",
                text("weight of the same shape as normalized_shape ", to_string(normalized)),
                w.defined() ? to_string(w.shape()) : "");
    Dims last;
    for (int i = -static_cast<int>(normalized.size()); i < 0; ++i) last.push_back(i);
    double tiny =
        real_dtype(x.dtype()) == DType::Float64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
    double eps = c.attr(1).none() ? tiny : c.attr(1).as_double();
    Tensor y = x * rsqrt_op(mean_dim(x * x, last, true) + eps);
    c.set(w.defined() ? to(y * w, x.dtype()) : y);
}

void register_groups(Table& t) {
    t.add("group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float "
          "eps=1e-05, bool cudnn_enabled=True) -> Tensor")
        .autocast(Cast::Within)
        .doc("Normalises groups of channels of each image (n, channels, *), then scales and\n"
             "shifts by channel. RuntimeError for sizes that do not fit. Wu and He 2018.\n\n"
             ">>> weft.group_norm(weft.tensor([[1., 3., 2., 2.]]), 2).tolist()[0][2:]\n[0.0, 0.0]")
        .body([](Call& c) {
            Value attrs[] = {c.attr(0), c.attr(1)};
            Call native(group_op.op(), c.in, 3, attrs);
            ops::call(native);
            c.set(std::move(native.out(0)));
        })
        .batch(Batch::Body)
        .function_only()
        .samples({"f(T(2, 4, 3), 2)", "f(T(2, 4, 3, 2), 2, T(4), T(4))", "f(T(3, 6), 3, T(6))",
                  "f(T(2, 4, 3), 4, T(4), T(4), eps=0.1)"});
    t.add("_group_norm(Tensor input, Tensor? weight, Tensor? bias, int num_groups, float eps) -> "
          "(Tensor, Tensor, Tensor)")
        .doc("group_norm with the mean and 1 / sqrt(var + eps) of each group.")
        .shape(group_shape)
        .kernel(group_kernel)
        .internal()
        .batch(batch_first, save_in(1) | save_in(2))
        .node_name("NativeGroupNormBackward0")
        .constant_output(1)
        .constant_output(2)
        .joint_grad(save_in(0) | save_in(1) | save_out(1) | save_out(2), group_gradient);
    t.add("_group_norm_backward(Tensor grad, Tensor input, Tensor? weight, Tensor mean, Tensor "
          "rstd, int num_groups, float eps, int wanted) -> (Tensor, Tensor, Tensor)")
        .doc("The gradients of group_norm's input, weight and bias; `wanted` has a bit for each,\n"
             "those not wanted come out empty.")
        .shape(batch_norm_backward_shape)
        .kernel(group_backward_kernel)
        .internal();
    t.add("rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> "
          "Tensor")
        .doc("x / sqrt(mean(x^2) + eps) * weight over the last dims, which must be\n"
             "`normalized_shape`; eps None is the dtype's. Zhang and Sennrich 2019.\n\n"
             ">>> weft.rms_norm(weft.tensor([3., 3.]), (2,))\ntensor([1., 1.])")
        .body(rms_body)
        .batch(Batch::Body)
        .function_only()
        .samples({"f(T(2, 3), (3,))", "f(T(2, 3, 4), (3, 4), T(3, 4), 1e-3)"});
}

}  // namespace

void register_batch_norm(Table& t) {
    t.add("batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "
          "running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor")
        .autocast(Cast::Within)
        .doc("Normalises each channel of (n, channels, *) over everything else: with the input's\n"
             "statistics in training, which also moves the running ones, else with the running\n"
             "ones. Ioffe and Szegedy 2015.\n"
             "Of input's shape; weight, bias and running statistics are [channels].\n"
             ">>> x = weft.tensor([[1.], [3.]])\n"
             ">>> weft.batch_norm(x, None, None, None, None, True, 0.1, 0.0, False)\n"
             "tensor([[-1.],\n"
             "        [ 1.]])")
        .body(batch_body)
        .batch(Batch::Body)
        .function_only()
        .samples({"f(T(4, 3), T(3), T(3), None, None, True, 0.1, 1e-5, False)",
                  "f(T(2, 3, 4), T(3), None, None, None, True, 0.1, 1e-5, False)",
                  "f(T(2, 3, 2, 2), None, T(3), None, None, True, 0.1, 1e-2, False)",
                  "f(T(2, 3, 4), T(3), T(3), T(3).detach(), T(3, lo=1).detach(), False, 0.1, 1e-5, "
                  "False)",
                  "f(T(4, 3), T(3), T(3), T(3).detach(), T(3, lo=1).detach(), False, 0.1, 1e-5, "
                  "False)"});
    t.add("_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "
          "running_var, bool training, float eps) -> (Tensor, Tensor, Tensor, Tensor)")
        .doc("batch_norm with the mean, 1 / sqrt(var + eps) and biased var that it used.")
        .shape(batch_norm_shape)
        .kernel(batch_norm_kernel)
        .internal()
        .batch(given_rows, save_in(1) | save_in(2) | save_in(3) | save_in(4))
        .node_name("NativeBatchNormBackward0")
        .constant_output(1)
        .constant_output(2)
        .constant_output(3)
        .joint_grad(save_in(0) | save_in(1) | save_out(1) | save_out(2), batch_norm_gradient,
                    save_in(0) | save_in(1) | save_in(2));
    t.add("_batch_norm_now(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
          "Tensor? "
          "running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor")
        .doc("batch_norm that moves running statistics: calls of several examples, in their order.")
        .body(batch_body)
        .internal();
    t.add("_instance_norm_now(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
          "Tensor? "
          "running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> "
          "Tensor")
        .doc("instance_norm, likewise.")
        .body(instance_body)
        .internal();
    t.add("_batch_norm_backward(Tensor grad, Tensor input, Tensor? weight, Tensor mean, Tensor "
          "rstd, bool training, float eps, int wanted=7) -> (Tensor, Tensor, Tensor)")
        .doc("The gradients of batch_norm's input, weight and bias; `wanted` has a bit for each,\n"
             "those not wanted come out empty. In training mean and rstd are taken as functions\n"
             "of the input.")
        .shape(batch_norm_backward_shape)
        .kernel(batch_norm_backward_kernel)
        .internal()
        .node_name("NativeBatchNormBackwardBackward0")
        .joint_grad(save_in(0) | save_in(1) | save_in(2) | save_in(3) | save_in(4),
                    batch_norm_second_gradient);
    t.add("instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "
          "running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> "
          "Tensor")
        .autocast(Cast::Within)
        .doc("Normalises each channel of each image (n, channels, *): batch_norm image by image.\n"
             "Ulyanov, Vedaldi and Lempitsky 2016.\n"
             "Of input's shape; weight, bias and running statistics are [channels].\n"
             ">>> x = weft.tensor([[[1., 3.]]])\n"
             ">>> weft.instance_norm(x, None, None, None, None, True, 0.1, 0.0, False)\n"
             "tensor([[[-1.,  1.]]])")
        .body(instance_body)
        .batch(Batch::Body)
        .function_only()
        .samples({"f(T(2, 3, 4), T(3), T(3), None, None, True, 0.1, 1e-5, False)",
                  "f(T(2, 3, 2, 2), None, None, T(3).detach(), T(3, lo=1).detach(), False, 0.1, "
                  "1e-5, False)"});
    register_groups(t);
}

}  // namespace weft
