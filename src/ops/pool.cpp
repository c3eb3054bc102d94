/// Max and average pooling over one to three spatial dims, with windows of a given size or of a
/// given number (adaptive).
///
/// Note [Places of the maxima]
/// max_pool keeps no indices: its backward finds them again in the input, which is alive anyway
/// (it is mostly the saved result of the activation before it). The forms with indices give them
/// as int64 and go back through gather and scatter_add.
#include "kernels/pool.h"

#include <vector>

#include "ops/batch.h"
#include "ops/pointwise_common.h"
#include "ops/spatial.h"

namespace weft {
namespace {

using namespace ops;

const Function max_pool_backward{"_max_pool_backward"}, avg_pool_backward{"_avg_pool_backward"},
    adaptive_backward{"_adaptive_avg_pool_backward"};

/// The tables of a PoolShape, and their memory.
struct Windows {
    kernels::PoolShape s{};
    std::vector<int64_t> begin[3], end[3], count[3];

    void add(int d, int64_t first, int64_t last, int64_t divide) {
        begin[d].push_back(first);
        end[d].push_back(last);
        count[d].push_back(divide);
    }
    void axis(int d, int64_t in, int64_t step) {
        auto n = static_cast<int64_t>(begin[d].size());
        bool pairs = step == 1 && n > 0 && 2 * n <= in;
        for (int64_t i = 0; i < n; ++i) pairs &= begin[d][i] == 2 * i && end[d][i] == 2 * i + 2;
        s.axis[d] = {in, n, step, begin[d].data(), end[d].data(), count[d].data(), pairs};
    }
    void planes(DimSpan shape, int dims) {
        s.planes = 1;
        for (size_t d = 0; d + dims < shape.size(); ++d) s.planes *= shape[d];
    }
};

/// kernel, stride (None or empty: kernel), padding, dilation, ceil_mode.
struct Sizes {
    Triple kernel, stride, padding, dilation;
    bool ceil;
    Sizes(std::string_view who, int dims, const Value& k, const Value& s, const Value& p,
          DimSpan dilated, bool ceil)
        : kernel(triple(who, "kernel_size", k.as_ints(), dims, 1, 1)),
          stride(triple(who, "stride", s.none() || s.as_ints().empty() ? k.as_ints() : s.as_ints(),
                        dims, 1, 1)),
          padding(triple(who, "padding", p.as_ints(), dims, 0, 0)),
          dilation(triple(who, "dilation", dilated, dims, 1, 1)), ceil(ceil) {
        for (int d = 0; d < 3; ++d)
            WEFT_EXPECT(
                2 * padding[d] <= dilation[d] * (kernel[d] - 1) + 1, Runtime, who, "less padding",
                text(padding[d],
                     " (pad should be at most half of effective kernel size, but got pad=",
                     padding[d], ", kernel_size=", kernel[d], " and dilation=", dilation[d], ")"));
    }
    /// Outputs over n inputs; with `ceil` the last window may end outside, not begin there.
    int64_t outputs(int d, int64_t n) const {
        const __int128 padded = __int128{n} + padding[d], up = ceil ? stride[d] - 1 : 0;
        const __int128 room = padded + padding[d] - dilation[d] * (kernel[d] - 1) - 1;
        if (room + up < 0) return 0;
        __int128 out = (room + up) / stride[d] + 1;
        if (ceil && (out - 1) * stride[d] >= padded) --out;
        return size_of("pool", out);
    }
};

/// PyTorch's words, which differ between pools.
std::string wanted_pool_dims(std::string_view who, const Tensor& x, int dims) {
    if (who.starts_with("adaptive"))
        return text(who, "(): Expected ", dims + 1, "D or ", dims + 2, "D tensor, but got",
                    who.starts_with("adaptive_max") ? ": " : " ", to_string(x.shape()));
    return text("non-empty ", dims + 1, "D or ", dims + 2,
                "D (batch mode) tensor expected for input");
}

void check_pool_input(std::string_view who, const Tensor& x, int dims, bool channels = true) {
    WEFT_EXPECT(x.ndim() == dims + 1 || x.ndim() == dims + 2, Runtime, who, "an image or a batch",
                text(x.ndim(), " dimensions (", wanted_pool_dims(who, x, dims), ")"));
    for (int d = x.ndim() - dims - channels; d < x.ndim(); ++d)
        WEFT_EXPECT(x.size(d) > 0, Runtime, who,
                    "an input with non-zero size for non-batch dimensions", to_string(x.shape()));
    WEFT_EXPECT(ImageTypes::has(x.dtype()), NotImplemented, who, "a floating dtype or int64",
                text(name(x.dtype()), " (not implemented)"), "convert with .float()");
}

/// PyTorch's words for windows that no input has.
std::string too_small(DimSpan in, int dims, const Sizes& p) {
    const auto planes = in.size() - static_cast<size_t>(dims) - 1;
    std::string given = std::to_string(in[planes]), made = given;
    for (int d = 3 - dims; d < 3; ++d) {
        const int64_t n = in[in.size() - 3 + static_cast<size_t>(d)];
        given += text("x", n);
        made += text("x", p.outputs(d, n));
    }
    return text("another (Given input size: (", given, "). Calculated output size: (", made,
                "). Output size is too small)");
}

Dims pooled_sizes(std::string_view who, const Tensor& x, int dims, const Sizes& p) {
    check_pool_input(who, x, dims);
    Dims out(x.shape());
    for (int d = 3 - dims; d < 3; ++d) {
        int64_t& n = out[x.ndim() - 3 + d];
        int64_t size = p.outputs(d, n);
        WEFT_EXPECT(size >= 1, Runtime, who, "a window that fits into the padded input",
                    too_small(x.shape(), dims, p));
        n = size;
    }
    return out;
}

Windows windows_of(DimSpan shape, int dims, const Sizes& p, bool include_pad) {
    Windows w;
    Triple in = spatial_sizes(shape, dims);
    for (int d = 0; d < 3; ++d) {
        int64_t n = in[d];
        for (int64_t i = 0, out = p.outputs(d, n); i < out; ++i) {
            int64_t first = i * p.stride[d] - p.padding[d];
            int64_t last = first + p.dilation[d] * (p.kernel[d] - 1) + 1;
            int64_t whole = std::min(last, n + p.padding[d]) - first;
            while (first < 0) first += p.dilation[d];
            last = std::min(last, n);
            w.add(d, first, last, include_pad ? whole : last - first);
        }
        w.axis(d, n, p.dilation[d]);
    }
    w.planes(shape, dims);
    return w;
}

/// Window i of m over n inputs: from floor(i n / m) to ceil((i + 1) n / m).
Windows adaptive_windows(DimSpan in, DimSpan out, int dims) {
    Windows w;
    Triple from = spatial_sizes(in, dims), to = spatial_sizes(out, dims);
    for (int d = 0; d < 3; ++d) {
        int64_t n = from[d], m = to[d];
        for (int64_t i = 0; i < m; ++i) {
            int64_t first = i * n / m, last = ((i + 1) * n + m - 1) / m;
            w.add(d, first, last, last - first);
        }
        w.axis(d, n, 1);
    }
    w.planes(in, dims);
    return w;
}

// ---- max ---------------------------------------------------------------------------------------

/// The dims over which an op pools: written in its name, "max_pool2d".
int pool_dims(const Call& c) {
    size_t at = c.op->name.find_first_of("123");
    return c.op->name[at] - '0';
}

Sizes max_sizes(std::string_view who, int dims, const Value* a) {
    return {who, dims, a[0], a[1], a[2], a[3].as_ints(), a[4].as_bool()};
}

void max_shape(Call& c) {
    int dims = pool_dims(c);
    Dims out = pooled_sizes(c.name(), c.in[0], dims, max_sizes(c.name(), dims, c.attrs));
    c.add(Tensor::layout(c.in[0].dtype(), out));
    if (c.op->outputs == 2) c.add(Tensor::layout(DType::Int64, out));
}

void run_max(Call& c, const Windows& w) {
    Tensor x = as_contiguous(c.in[0]);
    int64_t* index = c.op->outputs == 2 ? c.out(1).data<int64_t>() : nullptr;
    Unlocked unlocked(x.numel());
    dispatch<ImageTypes>(x.dtype(), c.op->public_name, [&]<class T>() {
        kernels::max_pool(w.s, x.data<T>(), c.out(0).data<T>(), index);
    });
}

void max_kernel(Call& c) {
    int dims = pool_dims(c);
    run_max(c, windows_of(c.in[0].shape(), dims, max_sizes(c.name(), dims, c.attrs), true));
}

/// Attributes: those of the forward, then the number of spatial dims.
void max_backward_kernel(Call& c) {
    Tensor dy = as_contiguous(c.in[0]), x = as_contiguous(c.in[1], dy.dtype());
    int dims = static_cast<int>(c.attr(5).as_int());
    Windows w = windows_of(x.shape(), dims, max_sizes(c.name(), dims, c.attrs), true);
    Unlocked unlocked(x.numel());
    dispatch<ImageTypes>(x.dtype(), "max_pool", [&]<class T>() {
        kernels::max_pool_backward(w.s, x.data<T>(), dy.data<T>(), c.out(0).data<T>());
    });
}

template <int dims>
Tensor max_gradient(const Grad& g) {
    return max_pool_backward(g.grad(), g.in(0), g.attr(0), g.attr(1), g.attr(2), g.attr(3),
                             g.attr(4), dims);
}

/// `t` with its last dims as one.
Tensor flat_planes(const Tensor& t, int dims) {
    Dims shape;
    for (int d = 0; d < t.ndim() - dims; ++d) shape.push_back(t.size(d));
    int64_t n = 1;
    for (int d = t.ndim() - dims; d < t.ndim(); ++d) n *= t.size(d);
    shape.push_back(n);
    return reshape(t, shape);
}

/// Values at the places of the maxima, and the adjoint.
Tensor pick(const Tensor& x, const Tensor& index, int dims) {
    return reshape(gather(flat_planes(x, dims), -1, flat_planes(index, dims)), Dims(index.shape()));
}
Tensor spread_back(const Tensor& grad, const Tensor& index, const Dims& shape, int dims) {
    Tensor table = flat_planes(zeros(shape, grad.dtype()), dims);
    return reshape(scatter_add(table, -1, flat_planes(index, dims), flat_planes(grad, dims)),
                   shape);
}

Tensor indices_of_maxima(const Tensor& x, const Grad& g) {
    static const Function of[] = {Function("max_pool1d_with_indices"),
                                  Function("max_pool2d_with_indices"),
                                  Function("max_pool3d_with_indices")};
    return of[g.attr(5).as_int() - 1].all(
        {x}, {g.attr(0), g.attr(1), g.attr(2), g.attr(3), g.attr(4)})[1];
}

const char* kBackwardNodes[] = {"", "SqueezeBackward1", "MaxPool2DWithIndicesBackwardBackward0",
                                "MaxPool3DWithIndicesBackwardBackward0"};
const char* kNodes[] = {"", "SqueezeBackward1", "MaxPool2DWithIndicesBackward0",
                        "MaxPool3DWithIndicesBackward0"};
std::vector<std::string> max_samples(int dims) {
    if (dims == 1)
        return {"f(T(2, 3, 7), 2)", "f(T(3, 8), 3, 2, 1, 1, True)", "f(T(2, 3, 9), 2, 1, 0, 3)"};
    if (dims == 2)
        return {"f(T(2, 3, 6, 7), 2)",
                "f(T(3, 7, 6), 2)",
                "f(T(2, 6, 8), (3, 2), (2, 1), (1, 0))",
                "f(T(1, 2, 7, 8), 3, 2, 1, ceil_mode=True)",
                "f(T(2, 2, 7, 9), 2, 2, dilation=(3, 2))",
                "f(T(0, 2, 4, 4), 2)"};
    return {"f(T(1, 2, 4, 5, 4), 2)", "f(T(2, 4, 5, 4), (2, 3, 2), 1, (1, 1, 0), ceil_mode=True)"};
}

/// Of examples in docs: where ops are, the sizes before the last one, and windows along that.
const char* kWhere[] = {"", "_C.ops.", "_C.ops."};
const char* kOnes[] = {"", ", 1", ", 1, 1"};
const char* kWindows[] = {"2", "(1, 2)", "(1, 1, 2)"};

/// PyTorch's autocast names the pools of volumes only.
template <int dims>
constexpr Cast kCast = dims == 3 ? Cast::Float : Cast::None;

template <int dims>
void register_max(Table& t) {
    std::string attrs = "(Tensor input, int[] kernel_size, int[]? stride=None, int[] padding=[0], "
                        "int[] dilation=[1], bool ceil_mode=False) -> ";
    t.add(text("max_pool", dims, "d", attrs, "Tensor"))
        .autocast(kCast<dims>)
        .doc(text("The largest value of each window over the last ", dims,
                  " dims. `stride` is\n"
                  "kernel_size if None; padding counts as -inf; with ceil_mode windows may end\n"
                  "outside. [n, c, *] gives [n, c, *] with floor((size + 2 padding - dilation\n"
                  "(kernel_size - 1) - 1) / stride + 1) places, ceil with ceil_mode.\n"
                  "RuntimeError for sizes that do not fit.\n>>> x = weft.tensor([1., 3., 2., 4.])\n"
                  ">>> weft.max_pool",
                  dims, "d(x.view(1, 1", kOnes[dims - 1], ", 4), ", kWindows[dims - 1],
                  ").flatten()\ntensor([3., 4.])"))
        .shape(max_shape)
        .kernel(max_kernel)
        .function_only()
        .node_name(kNodes[dims])
        .batch(batch_last<dims>)
        .grad(0, save_in(0), max_gradient<dims>)
        .samples(max_samples(dims));
    t.add(text("max_pool", dims, "d_with_indices", attrs, "(Tensor, Tensor)"))
        .autocast(kCast<dims>)
        .doc("max_pool, and where in its plane each value lies (int64).")
        .shape(max_shape)
        .kernel(max_kernel)
        .internal()
        .in_packages()
        .node_name(kNodes[dims])
        .constant_output(1)
        .batch(batch_last<dims>)
        .grad(0, save_out(1),
              [](const Grad& g) {
                  Tensor dx = spread_back(g.grad(), g.out(1), g.in_shape(0), dims);
                  return g.constant_in(0, dx, kBackwardNodes[dims]);
              })
        .samples(max_samples(dims));
}

void register_max_backward(Table& t) {
    t.add("_max_pool_backward(Tensor grad, Tensor input, int[] kernel_size, int[]? stride, int[] "
          "padding, int[] dilation, bool ceil_mode, int dims) -> Tensor")
        .doc("grad at the places of the maxima of max_pool, 0 elsewhere.")
        .shape([](Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.in[1].shape())); })
        .kernel(max_backward_kernel)
        .internal()
        .node_name([](const Call& c) { return kBackwardNodes[c.attr(5).as_int()]; })
        .grad(0, save_in(1),
              [](const Grad& g) {
                  int dims = static_cast<int>(g.attr(5).as_int());
                  return pick(g.grad(), indices_of_maxima(g.in(1), g), dims);
              })
        .grad(1, 0, zero_gradient_of<1>);
}

// ---- average -----------------------------------------------------------------------------------

/// kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override; a leading size
/// list in the backward.
Sizes avg_sizes(std::string_view who, int dims, const Value* a) {
    static const Dims ones{1};
    return {who, dims, a[0], a[1], a[2], ones, a[3].as_bool()};
}
Windows avg_windows(std::string_view who, DimSpan shape, int dims, const Value* a) {
    Windows w = windows_of(shape, dims, avg_sizes(who, dims, a), a[4].as_bool());
    w.s.divisor = a[5].none() ? 0 : a[5].as_int();
    return w;
}

void run_avg(Call& c, const Windows& w) {
    Tensor x = as_contiguous(c.in[0]);
    Unlocked unlocked(x.numel());
    dispatch<ImageTypes>(x.dtype(), c.op->public_name, [&]<class T>() {
        kernels::avg_pool(w.s, x.data<T>(), c.out(0).data<T>());
    });
}
void run_avg_backward(Call& c, const Windows& w) {
    Tensor dy = as_contiguous(c.in[0]);
    Unlocked unlocked(c.out(0).numel());
    dispatch<ImageTypes>(dy.dtype(), c.op->public_name, [&]<class T>() {
        kernels::avg_pool_backward(w.s, dy.data<T>(), c.out(0).data<T>());
    });
}

/// Of the op with `dims` in its name; avg_pool1d has no divisor_override.
void avg_shape(Call& c) {
    int dims = pool_dims(c);
    WEFT_EXPECT(dims == 1 || c.attr(5).none() || c.attr(5).as_int() != 0, Runtime, c.name(),
                "a divisor_override other than zero (divisor must be not zero)", "0");
    Sizes sizes = avg_sizes(c.name(), dims, c.attrs);
    c.add(Tensor::layout(c.in[0].dtype(), pooled_sizes(c.name(), c.in[0], dims, sizes)));
}
void avg_kernel(Call& c) {
    int dims = pool_dims(c);
    Value with_none[] = {c.attr(0), c.attr(1), c.attr(2),
                         c.attr(3), c.attr(4), dims == 1 ? Value() : c.attr(5)};
    run_avg(c, avg_windows(c.name(), c.in[0].shape(), dims, with_none));
}

const char* kAvgNodes[] = {"", "SqueezeBackward1", "AvgPool2DBackwardBackward0",
                           "AvgPool3DBackwardBackward0"};

template <int dims>
Tensor avg_gradient(const Grad& g) {
    Tensor dx = avg_pool_backward(g.grad(), g.in_shape(0), g.attr(0), g.attr(1), g.attr(2),
                                  g.attr(3), g.attr(4), dims == 1 ? Value() : g.attr(5), dims);
    return g.constant_in(0, dx, kAvgNodes[dims]);
}
template <int dims>
Tensor avg_again(const Grad& g) {
    static const Function op(dims == 1 ? "avg_pool1d" : dims == 2 ? "avg_pool2d" : "avg_pool3d");
    if constexpr (dims == 1)
        return op(g.grad(), g.attr(1), g.attr(2), g.attr(3), g.attr(4), g.attr(5));
    else return op(g.grad(), g.attr(1), g.attr(2), g.attr(3), g.attr(4), g.attr(5), g.attr(6));
}

std::vector<std::string> avg_samples(int dims) {
    if (dims == 1) return {"f(T(2, 3, 7), 2)", "f(T(3, 8), 3, 2, 1, True, False)"};
    if (dims == 2)
        return {"f(T(2, 3, 6, 7), 2)", "f(T(2, 6, 8), (3, 2), (2, 1), (1, 0))",
                "f(T(1, 2, 7, 8), 3, 2, 1, ceil_mode=True)",
                "f(T(1, 2, 7, 8), 3, 2, 1, True, False)",
                "f(T(2, 2, 7, 9), 2, divisor_override=3)"};
    return {"f(T(1, 2, 4, 5, 4), 2)", "f(T(2, 4, 5, 4), (2, 3, 2), 1, (1, 1, 0), ceil_mode=True)"};
}

template <int dims>
void register_avg(Table& t) {
    OpBuilder op = t.add(text("avg_pool", dims,
                              "d(Tensor input, int[] kernel_size, int[]? stride=None, int[] "
                              "padding=[0], bool ceil_mode=False, bool count_include_pad=True",
                              dims == 1 ? "" : ", int? divisor_override=None", ") -> Tensor"));
    op.doc(text("The mean of each window over the last ", dims,
                " dims. Zeros of the padding\n"
                "count unless count_include_pad is False; divisor_override divides all sums.\n"
                "[n, c, *] gives [n, c, *] with floor((size + 2 padding - kernel_size) / stride\n"
                "+ 1) places, ceil with ceil_mode.\n>>> x = weft.tensor([1., 3., 2., 4.])\n"
                ">>> weft.",
                kWhere[dims - 1], "avg_pool", dims, "d(x.view(1, 1", kOnes[dims - 1], ", 4), ",
                kWindows[dims - 1], ").flatten()\ntensor([2., 3.])"))
        .autocast(kCast<dims>)
        .shape(avg_shape)
        .kernel(avg_kernel)
        .batch(batch_last<dims>)
        .node_name(dims == 1 ? "SqueezeBackward1" : text("AvgPool", dims, "DBackward0"))
        .grad(0, 0, avg_gradient<dims>)
        .samples(avg_samples(dims));
    if (dims == 1) op.function_only();
    else op.internal().in_packages();
}

void register_avg_backward(Table& t) {
    t.add("_avg_pool_backward(Tensor grad, int[] size, int[] kernel_size, int[]? stride, int[] "
          "padding, bool ceil_mode, bool count_include_pad, int? divisor_override, int dims) -> "
          "Tensor")
        .doc("The adjoint of avg_pool for inputs of `size`.")
        .shape([](Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.attr(0).as_ints())); })
        .kernel([](Call& c) {
            run_avg_backward(c, avg_windows(c.name(), c.attr(0).as_ints(),
                                            static_cast<int>(c.attr(7).as_int()), c.attrs + 1));
        })
        .internal()
        .node_name([](const Call& c) { return kAvgNodes[c.attr(7).as_int()]; })
        .grad(0, 0, [](const Grad& g) {
            switch (g.attr(7).as_int()) {
                case 1:
                    return avg_again<1>(g);
                case 2:
                    return avg_again<2>(g);
                default:
                    return avg_again<3>(g);
            }
        });
}

// ---- adaptive ----------------------------------------------------------------------------------

/// The output's sizes. Means over lines and planes may have no channels, as in PyTorch.
Dims adaptive_sizes(std::string_view who, const Tensor& x, DimSpan wanted, int dims,
                    bool mean = true) {
    check_pool_input(who, x, dims, !mean || dims == 3);
    WEFT_EXPECT(wanted.size() == 1 || static_cast<int>(wanted.size()) == dims, Runtime, who,
                text("output_size to be one int or ", dims, " ints"), to_string(wanted));
    Dims out(x.shape());
    for (int d = 0; d < dims; ++d) {
        int64_t n = wanted[wanted.size() == 1 ? 0 : d];
        WEFT_EXPECT(n >= 0, Runtime, who,
                    "elements of output_size to be greater than or equal to 0", to_string(wanted));
        out[x.ndim() - dims + d] = n;
    }
    return out;
}

void adaptive_shape(Call& c) {
    const bool mean = c.op->outputs == 1;
    Dims out = adaptive_sizes(c.name(), c.in[0], c.attr(0).as_ints(), pool_dims(c), mean);
    c.add(Tensor::layout(c.in[0].dtype(), out));
    if (c.op->outputs == 2) c.add(Tensor::layout(DType::Int64, out));
}

/// One window over everything is the mean, in PyTorch too.
template <int dims>
void adaptive_avg_body(Call& c) {
    static const Function op(dims == 1   ? "_adaptive_avg_pool1d"
                             : dims == 2 ? "_adaptive_avg_pool2d"
                                         : "_adaptive_avg_pool3d");
    const Tensor& x = c.in[0];
    Dims out = adaptive_sizes(c.name(), x, c.attr(0).as_ints(), dims), all;
    for (int d = -dims; d < 0; ++d)
        if (out[x.ndim() + d] == 1) all.push_back(d);
    if (dims > 1 && all.size() == dims) return c.set(mean_dim(x, all, true));
    c.set(op(x, c.attr(0)));
}

const char* kAdaptiveNodes[] = {"", "SqueezeBackward1", "AdaptiveAvgPool2DBackwardBackward0",
                                "AdaptiveAvgPool3DBackwardBackward0"};
const char* kAdaptiveMaxNodes[] = {"", "SqueezeBackward1", "AdaptiveMaxPool2DBackwardBackward0",
                                   "AdaptiveMaxPool3DBackwardBackward0"};

template <int dims>
void register_adaptive(Table& t) {
    std::string n = text(dims, "d"), size = "(Tensor input, int[] output_size) -> ";
    std::string x = dims == 1 ? "T(2, 3, 7)" : dims == 2 ? "T(2, 3, 5, 7)" : "T(2, 2, 4, 5, 3)";
    std::string one = dims == 1 ? "T(2, 7)" : dims == 2 ? "T(2, 5, 7)" : "T(2, 4, 5, 3)";
    std::vector<std::string> calls = {text("f(", x, ", 3)"), text("f(", one, ", 2)"),
                                      text("f(", x, ", 1)"), text("f(", x, ", 9)")};
    OpBuilder avg = t.add("adaptive_avg_pool" + n + size + "Tensor");
    avg.doc(text("The means of `output_size` windows that cover the last ", dims,
                 " dims; window\n"
                 "i of m over n runs from floor(i n / m) to ceil((i + 1) n / m).\n"
                 "[n, c, *] gives [n, c, *output_size].\n"
                 ">>> x = weft.tensor([1., 3., 2., 4.])\n>>> weft.",
                 kWhere[dims - 1], "adaptive_avg_pool", dims, "d(x.view(1, 1", kOnes[dims - 1],
                 ", 4), ", kWindows[dims - 1], ").flatten()\ntensor([2., 3.])"))
        .autocast(kCast<dims>)
        .body(adaptive_avg_body<dims>)
        .batch(Batch::Body)
        .samples(calls);
    t.add("_adaptive_avg_pool" + n + size + "Tensor")
        .doc("adaptive_avg_pool by windows.")
        .shape(adaptive_shape)
        .internal()
        .batch(batch_last<dims>)
        .kernel(
            [](Call& c) { run_avg(c, adaptive_windows(c.in[0].shape(), c.out(0).shape(), dims)); })
        .node_name(dims == 1 ? "SqueezeBackward1" : text("AdaptiveAvgPool", dims, "DBackward0"))
        .grad(0, 0, [](const Grad& g) {
            Tensor dx = adaptive_backward(g.grad(), g.in_shape(0), dims);
            bool mean =
                dims == 1 && g.out_shape(0).back() == 1;  // which is what PyTorch calls then
            return mean ? dx : g.constant_in(0, dx, kAdaptiveNodes[dims]);
        });
    OpBuilder max = t.add("adaptive_max_pool" + n + size + "(Tensor, Tensor)");
    max.doc(text("The maxima of the windows of adaptive_avg_pool, and where in its plane each\n"
                 "lies (int64), both [n, c, *output_size].\n"
                 ">>> x = weft.tensor([1., 3., 2., 4.])\n>>> weft.",
                 kWhere[dims - 1], "adaptive_max_pool", dims, "d(x.view(1, 1", kOnes[dims - 1],
                 ", 4), ", kWindows[dims - 1], ")[0].flatten()\ntensor([3., 4.])"))
        .autocast(kCast<dims>)
        .shape(adaptive_shape)
        .batch(batch_last<dims>)
        .kernel([](Call& c) {
            WEFT_EXPECT(c.in[0].numel() > 0 || c.out(0).numel() == 0, Runtime, c.name(),
                        "windows with elements", to_string(c.in[0].shape()));
            run_max(c, adaptive_windows(c.in[0].shape(), c.out(0).shape(), dims));
        })
        .constant_output(1)
        .node_name(dims == 1 ? "SqueezeBackward1" : text("AdaptiveMaxPool", dims, "DBackward0"))
        .grad(0, save_out(1),
              [](const Grad& g) {
                  Tensor dx = spread_back(g.grad(), g.out(1), g.in_shape(0), dims);
                  return g.constant_in(0, dx, kAdaptiveMaxNodes[dims]);
              })
        .samples(calls);
    if (dims == 1) avg.function_only(), max.function_only();
    else avg.internal().in_packages(), max.internal().in_packages();
}

void register_adaptive_backward(Table& t) {
    t.add("_adaptive_avg_pool_backward(Tensor grad, int[] size, int dims) -> Tensor")
        .doc("The adjoint of adaptive_avg_pool for inputs of `size`.")
        .shape([](Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.attr(0).as_ints())); })
        .kernel([](Call& c) {
            run_avg_backward(c, adaptive_windows(c.out(0).shape(), c.in[0].shape(),
                                                 static_cast<int>(c.attr(1).as_int())));
        })
        .internal()
        .node_name([](const Call& c) { return kAdaptiveNodes[c.attr(1).as_int()]; })
        .grad(0, 0, [](const Grad& g) {
            static const Function of[] = {Function("_adaptive_avg_pool1d"),
                                          Function("_adaptive_avg_pool2d"),
                                          Function("_adaptive_avg_pool3d")};
            int dims = static_cast<int>(g.attr(1).as_int());
            const Tensor& h = g.grad();
            Dims out = g.in_shape(0), size(DimSpan(out).last(dims));
            return of[dims - 1](h, size);
        });
}

}  // namespace

void register_pool(Table& t) {
    register_max<1>(t);
    register_max<2>(t);
    register_max<3>(t);
    register_max_backward(t);
    register_avg<1>(t);
    register_avg<2>(t);
    register_avg<3>(t);
    register_avg_backward(t);
    register_adaptive<1>(t);
    register_adaptive<2>(t);
    register_adaptive<3>(t);
    register_adaptive_backward(t);
}

}  // namespace weft
