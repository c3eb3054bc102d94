/// Convolution and transposed convolution over one to three spatial dims, unfold and fold.
///
/// Note [Three products]
/// With F(x, w) the convolution, T(y, w) its adjoint in x (the transposed convolution) and G(x, y)
/// its adjoint in w, each is linear in both operands and
///     <F(x, w), y> = <x, T(y, w)> = <w, G(x, y)>.
/// So the gradients of each are the other two, and three kernels serve every order.
#include "kernels/conv.h"

#include "ops/batch.h"
#include "ops/conj.h"
#include "ops/flops.h"
#include "ops/spatial.h"

namespace weft {
namespace {

using namespace ops;

const Function convolution{"convolution"}, weight_gradient{"_convolution_weight"},
    pad_op{"constant_pad_nd"}, im2col{"im2col"}, col2im{"col2im"};

/// The attributes of `convolution`, in schema order.
enum ConvAttr { kStride, kPadding, kDilation, kTransposed, kOutputPadding, kGroups };

struct ConvGeometry {
    Triple stride, padding, dilation;
    ConvGeometry(std::string_view who, int dims, const Value& stride, const Value& padding,
                 const Value& dilation)
        : stride(triple(who, "stride", stride.as_ints(), dims, 1, 1)),
          padding(triple(who, "padding", padding.as_ints(), dims, 0, 0)),
          dilation(triple(who, "dilation", dilation.as_ints(), dims, 1, 1)) {}
    void put(kernels::ConvShape& s) const {
        for (int d = 0; d < 3; ++d) {
            s.stride[d] = stride[d];
            s.padding[d] = padding[d];
            s.dilation[d] = dilation[d];
        }
    }
};

/// The kernel's view of a convolution from images x to images y with the weight w.
kernels::ConvShape conv_shape(DimSpan x, DimSpan y, DimSpan w, const ConvGeometry& g,
                              int64_t groups) {
    int dims = static_cast<int>(w.size()) - 2;
    kernels::ConvShape s{};
    s.batch = x[0];
    s.groups = groups;
    s.in_channels = w[1];
    s.out_channels = w[0] / groups;
    Triple in = spatial_sizes(x, dims), out = spatial_sizes(y, dims), k = spatial_sizes(w, dims);
    for (int d = 0; d < 3; ++d) {
        s.in[d] = in[d];
        s.out[d] = out[d];
        s.kernel[d] = k[d];
    }
    g.put(s);
    return s;
}

void check_operands(const Call& c, int dims, bool transposed, int64_t groups) {
    const Tensor &x = c.in[0], &w = c.in[1], &bias = c.in[2];
    std::string_view who = c.name();
    WEFT_EXPECT(ImageTypes::has(x.dtype()) || is_complex(x.dtype()), NotImplemented, who,
                "an input of a number dtype", text(name(x.dtype()), " (not implemented)"),
                "convert with .float()");
    WEFT_EXPECT(w.dtype() == x.dtype() && (!bias.defined() || bias.dtype() == x.dtype()), Runtime,
                who, "weight and bias of the input's dtype",
                text("another (expected scalar type ", scalar_name(x.dtype()), " but found ",
                     scalar_name(w.dtype() != x.dtype() ? w.dtype() : bias.dtype()), ")"),
                "convert one of them with .to(dtype)");
    WEFT_EXPECT(
        dims >= 1 && dims <= 3 && w.ndim() == x.ndim(), Runtime, who,
        text("weight and input of the same number of dimensions, 3 to 5"),
        text("weight of size ", to_string(w.shape()), " and input of size ", to_string(x.shape())));
    WEFT_EXPECT(groups >= 1, Runtime, who,
                "groups of at least 1 (non-positive groups is not "
                "supported)",
                std::to_string(groups));
    WEFT_EXPECT(w.size(0) >= groups && w.size(0) % groups == 0, Runtime, who,
                "groups that divide the weight",
                text(groups, " (Given groups=", groups, ", expected weight to be ",
                     w.size(0) < groups ? "at least " : "divisible by ", groups,
                     " at dimension 0, but got weight of size ", to_string(w.shape()),
                     " instead)"));
    int64_t wanted = transposed ? w.size(0) : size_product(who, w.size(1), groups);
    WEFT_EXPECT(x.size(1) == wanted, Runtime, who, "as many channels as the weight has",
                text(x.size(1), " (Given ", transposed ? "transposed=1" : text("groups=", groups),
                     ", weight of size ", to_string(w.shape()), ", expected input",
                     to_string(x.shape()), " to have ", wanted, " channels, but got ", x.size(1),
                     " channels instead)"));
    int64_t made = transposed ? size_product(who, w.size(1), groups) : w.size(0);
    WEFT_EXPECT(!bias.defined() || (bias.ndim() == 1 && bias.size(0) == made), Runtime, who,
                "a number for each channel of the result",
                text("others (Given ", transposed ? "transposed=1, " : "", "weight of size ",
                     to_string(w.shape()), ", expected bias to be 1-dimensional with ", made,
                     " elements, but got bias of size ", to_string(bias.shape()), " instead)"));
}

/// "(2, 3)": the last two of three.
std::string pair(const auto& sizes) { return text("(", sizes[1], ", ", sizes[2], ")"); }

/// PyTorch's words for a kernel that is larger than its input.
std::string weight_does_not_fit(const Tensor& x, const Tensor& w, const ConvGeometry& g, int dims) {
    std::string padded, kernel;
    for (int d = 3 - dims; d < 3; ++d) {
        const char* by = d > 3 - dims ? " x " : "";
        padded += text(by, x.size(d + dims - 1) + 2 * g.padding[d]);
        kernel += text(by, g.dilation[d] * (w.size(d + dims - 1) - 1) + 1);
    }
    return text("another (Calculated padded input size per channel: (", padded, "). Kernel size: (",
                kernel, "). Kernel size can't be greater than actual input size)");
}

/// Sizes of the result's spatial dims.
void add_spatial(Call& c, Dims& out, const ConvGeometry& g, bool transposed, int dims) {
    const Tensor &x = c.in[0], &w = c.in[1];
    Triple extra = triple(c.name(), "output_padding", c.attr(kOutputPadding).as_ints(), dims, 0, 0);
    for (int d = 3 - dims; d < 3; ++d) {
        const __int128 n = x.size(d + dims - 1), k = w.size(d + dims - 1);
        const __int128 reach = g.dilation[d] * (k - 1) + 1;
        __int128 size;
        if (transposed) {
            WEFT_EXPECT(extra[d] < std::max(g.stride[d], g.dilation[d]), Runtime, c.name(),
                        "an output_padding smaller than either stride or dilation",
                        std::to_string(extra[d]));
            size = (n - 1) * g.stride[d] - 2 * g.padding[d] + reach + extra[d];
        } else {
            size = n + 2 * g.padding[d] - reach;
            size = size < 0 ? 0 : size / g.stride[d] + 1;
        }
        WEFT_EXPECT(k > 0 && n > 0 && size > 0, Runtime, c.name(),
                    "a kernel that fits into the padded input", weight_does_not_fit(x, w, g, dims));
        out.push_back(size_of(c.name(), size));
    }
}

void convolution_shape(Call& c) {
    const Tensor &x = c.in[0], &w = c.in[1];
    int dims = x.ndim() - 2;
    bool transposed = c.attr(kTransposed).as_bool();
    int64_t groups = c.attr(kGroups).as_int();
    check_operands(c, dims, transposed, groups);
    ConvGeometry g(c.name(), dims, c.attr(kStride), c.attr(kPadding), c.attr(kDilation));
    Dims out{x.size(0), transposed ? w.size(1) * groups : w.size(0)};
    add_spatial(c, out, g, transposed, dims);
    c.add(Tensor::layout(x.dtype(), out));
}

template <class T>
void add_bias(const Tensor& y, const Tensor& bias) {
    int64_t channels = bias.size(0), n = y.numel() / std::max<int64_t>(1, y.size(0) * channels);
    T* at = y.data<T>();
    for (int64_t r = 0; r < y.size(0) * channels; ++r, at += n) {
        T b = bias.data<T>()[r % channels];
        for (int64_t i = 0; i < n; ++i) at[i] += b;
    }
}

/// The kernel of a product (a, b), for complex operands: Gauss's three real products.
void run_by_parts(Call& c) {
    Tensor a[3], b[3], made[3];
    for (int k = 0; k < 2; ++k) {
        a[k] = as_contiguous(part_of(as_contiguous(c.in[0]), k));
        b[k] = as_contiguous(part_of(as_contiguous(c.in[1]), k));
    }
    ModeGuard off(0, kGradMode);
    a[2] = a[0] + a[1];
    b[2] = b[0] + b[1];
    for (int k = 0; k < 3; ++k) {
        Tensor in[] = {a[k], b[k], Tensor()};
        Call part(*c.op, in, c.inputs, c.attrs);
        ops::call(part);
        made[k] = std::move(part.out(0));
    }
    copy_into(part_of(c.out(0), 0), made[0] - made[1]);
    copy_into(part_of(c.out(0), 1), made[2] - made[0] - made[1]);
}

void complex_convolution(Call& c) {
    run_by_parts(c);
    if (c.inputs < 3 || !c.in[2].defined()) return;
    ModeGuard off(0, kGradMode);
    Dims channels(c.out(0).ndim() - 1, 1);
    channels[0] = c.in[2].size(0);
    copy_into(c.out(0), c.out(0) + reshape(c.in[2], channels));
}

void convolution_kernel(Call& c) {
    if (is_complex(c.in[0].dtype())) return complex_convolution(c);
    Tensor x = as_contiguous(c.in[0]), w = as_contiguous(c.in[1]), bias = c.in[2];
    if (bias.defined()) bias = as_contiguous(bias);
    const Tensor& y = c.out(0);
    bool transposed = c.attr(kTransposed).as_bool();
    ConvGeometry g(c.name(), x.ndim() - 2, c.attr(kStride), c.attr(kPadding), c.attr(kDilation));
    auto s = transposed ? conv_shape(y.shape(), x.shape(), w.shape(), g, c.attr(kGroups).as_int())
                        : conv_shape(x.shape(), y.shape(), w.shape(), g, c.attr(kGroups).as_int());
    Unlocked unlocked(x.numel() * s.taps() * s.out_channels);
    dispatch<ImageTypes>(x.dtype(), "convolution", [&]<class T>() {
        if (!transposed)
            return kernels::conv(s, x.data<T>(), w.data<T>(), memory_or_null<T>(bias), y.data<T>());
        kernels::conv_transposed(s, x.data<T>(), w.data<T>(), y.data<T>());
        if (bias.defined()) add_bias<T>(y, bias);
    });
}

/// The output_padding with which a transposed convolution from `from` gives `to`.
Dims missing(DimSpan from, DimSpan to, DimSpan w, const ConvGeometry& g) {
    Dims out;
    int dims = static_cast<int>(w.size()) - 2;
    for (int d = 3 - dims; d < 3; ++d) {
        int at = d + dims - 1;
        out.push_back(to[at] - ((from[at] - 1) * g.stride[d] - 2 * g.padding[d] +
                                g.dilation[d] * (w[at] - 1) + 1));
    }
    return out;
}

/// T(y, w), of the images' sizes `to`. Images may end beyond the last place of the kernel.
Tensor adjoint(const Tensor& y, const Tensor& w, const Dims& to, const Value& stride,
               const Value& padding, const Value& dilation, const Value& groups) {
    ConvGeometry g("convolution", w.ndim() - 2, stride, padding, dilation);
    return convolution(y, w, Tensor(), stride, padding, dilation, true,
                       missing(y.shape(), to, w.shape(), g), groups);
}

/// F(x, w) of the sizes `to`: an output_padding of a stride or more gives more places.
Tensor direct(const Tensor& x, const Tensor& w, const Dims& to, const Value& stride,
              const Value& padding, const Value& dilation, const Value& groups) {
    const Dims none{0};
    Tensor out = convolution(x, w, Tensor(), stride, padding, dilation, false, none, groups);
    for (int d = 2; d < out.ndim(); ++d)
        if (out.size(d) != to[d]) out = narrow(out, d, 0, to[d]);
    return out;
}

void convolution_gradient(Grad& g) {
    const Tensor& dy = g.grad();
    Value s = g.attr(kStride), p = g.attr(kPadding), d = g.attr(kDilation), n = g.attr(kGroups);
    bool transposed = g.attr(kTransposed).as_bool();
    auto set = [&](int i, Tensor gradient) {  // one op of both in PyTorch
        for (int of = 0; of < 2; ++of)
            if (g.needs(of))
                gradient = g.constant_in(of, gradient, "ConvolutionBackwardBackward0", false);
        g.set(i, gradient);
    };
    if (g.needs(0))
        set(0, transposed ? direct(dy, conj(g.in(1)), g.in_shape(0), s, p, d, n)
                          : adjoint(dy, conj(g.in(1)), g.in_shape(0), s, p, d, n));
    if (g.needs(1)) {
        Dims kernel(DimSpan(g.in_shape(1)).subspan(2));
        set(1, transposed ? weight_gradient(dy, conj(g.in(0)), kernel, s, p, d, n)
                          : weight_gradient(conj(g.in(0)), dy, kernel, s, p, d, n));
    }
    if (g.needs(2)) {
        Dims dims{0};
        for (int i = 2; i < dy.ndim(); ++i) dims.push_back(i);
        set(2, sum_dim(dy, dims, false));
    }
}

/// Every tap for each place of the smaller image. Of a weight's gradient, whose inputs are the images,
/// the number is the same.
int64_t convolution_flops(const Call& c) {
    const Tensor &x = c.in[0], &w = c.in[1];
    const Tensor& image = c.attr(kTransposed).as_bool() ? x : c.out(0);
    return two_each({x.size(0), places(image, 2), places(w, 0)});
}
int64_t weight_flops(const Call& c) {
    return two_each({c.in[1].size(0), places(c.in[1], 2), places(c.out(0), 0)});
}

void weight_shape(Call& c) {
    const Tensor &x = c.in[0], &y = c.in[1];
    int64_t groups = c.attr(4).as_int();
    Dims out{y.size(1), x.size(1) / groups};
    for (int64_t k : c.attr(0).as_ints()) out.push_back(k);
    c.add(Tensor::layout(x.dtype(), out));
}

void weight_kernel(Call& c) {
    if (is_complex(c.in[0].dtype())) return run_by_parts(c);
    Tensor x = as_contiguous(c.in[0]), y = as_contiguous(c.in[1], x.dtype());
    const Tensor& w = c.out(0);
    ConvGeometry g("convolution", x.ndim() - 2, c.attr(1), c.attr(2), c.attr(3));
    auto s = conv_shape(x.shape(), y.shape(), w.shape(), g, c.attr(4).as_int());
    Unlocked unlocked(x.numel() * s.taps() * s.out_channels);
    dispatch<ImageTypes>(x.dtype(), "convolution", [&]<class T>() {
        kernels::conv_weight(s, x.data<T>(), y.data<T>(), w.data<T>());
    });
}

// ---- the public forms --------------------------------------------------------------------------

/// The padding before and after each dim under which the result has the input's size.
Tensor pad_same(std::string_view who, const Tensor& x, const Tensor& w, const Value& stride,
                const Value& dilation, Dims& padding) {
    int dims = w.ndim() - 2;
    Triple step = triple(who, "stride", stride.as_ints(), dims, 1, 1);
    Triple apart = triple(who, "dilation", dilation.as_ints(), dims, 1, 1);
    Dims more(2 * dims, 0);
    bool uneven = false;
    for (int d = 0; d < dims; ++d) {
        WEFT_EXPECT(step[3 - dims + d] == 1, Runtime, who,
                    "stride 1 (padding='same' is not supported for strided convolutions)",
                    to_string(stride.as_ints()));
        int64_t total = apart[3 - dims + d] * (w.size(d + 2) - 1);
        padding.push_back(total / 2);
        more[2 * (dims - 1 - d) + 1] = total % 2;
        uneven |= total % 2 != 0;
    }
    return uneven ? pad_op(x, more, 0.0) : x;
}

/// Runs `run(batched input)` with a batch dim added for an input without one.
template <class Run>
void with_batch(Call& c, int dims, const Run& run) {
    const Tensor &x = c.in[0], &w = c.in[1];
    WEFT_EXPECT(w.ndim() == dims + 2, Runtime, c.name(),
                text("a weight of ", dims + 2, " dimensions"), to_string(w.shape()));
    WEFT_EXPECT(x.ndim() == dims + 1 || x.ndim() == dims + 2, Runtime, c.name(),
                "an image or a batch",
                text(x.ndim(), " dimensions (Expected ", dims + 1, "D (unbatched) or ", dims + 2,
                     "D (batched) input to conv", dims,
                     "d, but got input of size: ", to_string(x.shape()), ")"));
    if (x.ndim() == dims + 2) return c.set(run(x));
    c.set(squeeze_dim(run(unsqueeze(x, 0)), 0));
}

template <int dims>
void conv_body(Call& c) {
    with_batch(c, dims, [&](const Tensor& x) {
        return convolution(x, c.in[1], c.in[2], c.attr(0), c.attr(1), c.attr(2), false, Dims{0},
                           c.attr(3));
    });
}

template <int dims>
void conv_text_body(Call& c) {
    with_batch(c, dims, [&](const Tensor& x) {
        const std::string& how = c.attr(1).as_text();
        WEFT_EXPECT(how == "same" || how == "valid", Runtime, c.name(),
                    "padding to be ints, 'same' or 'valid'", text("'", how, "'"));
        Dims padding;
        Tensor from = x;
        if (how == "same") from = pad_same(c.name(), x, c.in[1], c.attr(0), c.attr(2), padding);
        else padding.push_back(0);
        return convolution(from, c.in[1], c.in[2], c.attr(0), padding, c.attr(2), false, Dims{0},
                           c.attr(3));
    });
}

template <int dims>
void transposed_body(Call& c) {
    with_batch(c, dims, [&](const Tensor& x) {
        return convolution(x, c.in[1], c.in[2], c.attr(0), c.attr(1), c.attr(4), true, c.attr(2),
                           c.attr(3));
    });
}

const char* kSizes[] = {"", "length", "height, width", "depth, height, width"};

template <int dims>
void register_conv_of(Table& t) {
    std::string n = text(dims, "d"), sizes = kSizes[dims];
    const char* ones = dims == 1 ? "" : dims == 2 ? ", 1" : ", 1, 1";  // of the docs' examples
    std::string head = text("conv", n,
                            "(Tensor input, Tensor weight, Tensor? bias=None, int[] "
                            "stride=[1], ");
    std::string x = dims == 1 ? "T(2, 4, 7)" : dims == 2 ? "T(2, 4, 5, 6)" : "T(1, 4, 3, 4, 3)";
    std::string one = dims == 1 ? "T(2, 7)" : dims == 2 ? "T(2, 5, 6)" : "T(2, 3, 4, 3)";
    auto w = [](int a, int b) {
        return text("T(", a, ", ", b, dims == 1 ? ", 3)" : dims == 2 ? ", 3, 2)" : ", 2, 3, 2)");
    };
    t.add(text("conv", n, ".text", head.substr(head.find('(')),
               "str padding=\"valid\", int[] "
               "dilation=[1], int groups=1) -> Tensor"))
        .autocast(Cast::Narrow)
        .doc("conv with padding='same' (the result has the input's size) or 'valid' (none).")
        .body(conv_text_body<dims>)
        .batch(Batch::Body)
        .function_only()
        .samples({text("f(", x, ", ", w(3, 4), ", T(3), padding='same')"),
                  text("f(", one, ", ", w(3, 2), ", padding='same', dilation=2)")});
    t.add(head + "int[] padding=[0], int[] dilation=[1], int groups=1) -> Tensor")
        .autocast(Cast::Narrow)
        .doc(text(
            "Cross-correlation of images [batch, channels, ", sizes,
            "], or one without\n"
            "batch, with a weight [out, channels / groups, *kernel]: [batch, out, *] with\n"
            "floor((size + 2 padding - dilation (kernel - 1) - 1) / stride + 1) places. Zeros\n"
            "around by `padding` (ints, 'same' or 'valid'). RuntimeError for sizes that do\n"
            "not fit.\n\n"
            ">>> x, w = weft.ones(1, 1",
            ones, ", 4), weft.ones(1, 1", ones, ", 3)\n>>> weft.conv", n,
            "(x, w).flatten().tolist()\n[3.0, 3.0]"))
        .body(conv_body<dims>)
        .batch(Batch::Body)
        .function_only()
        .samples({text("f(", x, ", ", w(3, 4), ", T(3))"), text("f(", one, ", ", w(3, 2), ")"),
                  text("f(", x, ", ", w(4, 2), ", T(4), 2, 1, 1, 2)"),
                  text("f(", x, ", ", w(4, 1), ", None, padding=2, dilation=2, groups=4)"),
                  text("f(", x, ", T(3, 4",
                       dims == 1   ? ""
                       : dims == 2 ? ", 1"
                                   : ", 1, 1",
                       ", 1))")});
    t.add(text("conv_transpose", n,
               "(Tensor input, Tensor weight, Tensor? bias=None, int[] "
               "stride=[1], int[] padding=[0], int[] output_padding=[0], int groups=1, int[] "
               "dilation=[1]) -> Tensor"))
        .autocast(Cast::Narrow)
        .doc(text("The adjoint of conv", n, ": images [batch, channels, ", sizes,
                  "] and a weight\n"
                  "[channels, out / groups, *kernel] give [batch, out, *] with (size - 1) stride\n"
                  "- 2 padding + dilation (kernel - 1) + output_padding + 1 places.\n"
                  ">>> x, w = weft.ones(1, 1",
                  ones, ", 2), weft.ones(1, 1", ones, ", 2)\n>>> weft.conv_transpose", n,
                  "(x, w).flatten().tolist()\n[1.0, 2.0, 1.0]"))
        .body(transposed_body<dims>)
        .batch(Batch::Body)
        .function_only()
        .samples({text("f(", x, ", ", w(4, 3), ", T(3))"), text("f(", one, ", ", w(2, 3), ")"),
                  text("f(", x, ", ", w(4, 2), ", T(4), 2, 1, 1, 2)"),
                  text("f(", x, ", ", w(4, 1), ", None, 3, padding=1, output_padding=2, groups=4)"),
                  text("f(", x, ", ", w(4, 1), ", dilation=2, output_padding=1)")});
}

// ---- unfold and fold ---------------------------------------------------------------------------

/// kernel_size, dilation, padding, stride are attributes `first` on; places of the kernel in out.
kernels::ConvShape window(const Call& c, int first, int64_t height, int64_t width) {
    auto two = [&](const char* what, int i, int64_t least) {
        return triple(c.name(), what, c.attr(first + i).as_ints(), 2, least, least);
    };
    Triple kernel = two("kernel_size", 0, 1);
    ConvGeometry g(c.name(), 2, c.attr(first + 3), c.attr(first + 2), c.attr(first + 1));
    kernels::ConvShape s{};
    s.groups = s.batch = s.out_channels = 1;
    g.put(s);
    int64_t in[] = {1, height, width};
    for (int d = 0; d < 3; ++d) {
        s.in[d] = in[d];
        s.kernel[d] = d ? kernel[d] : 1;
        s.stride[d] = d ? s.stride[d] : 1;
        s.padding[d] = d ? s.padding[d] : 0;
        s.dilation[d] = d ? s.dilation[d] : 1;
        const __int128 room =
            __int128{s.in[d]} + 2 * s.padding[d] - s.dilation[d] * (s.kernel[d] - 1) - 1;
        s.out[d] = room < 0 ? 0 : size_of(c.name(), room / s.stride[d] + 1);
    }
    size_product(c.name(), s.out[1], s.out[2]);
    WEFT_EXPECT(s.out[1] > 0 && s.out[2] > 0, Runtime, c.name(),
                "a kernel that fits into the padded image",
                text("another (Given input with spatial size (", height, ", ", width,
                     "), kernel_size=", pair(kernel), ", dilation=", pair(g.dilation), ", padding=",
                     pair(g.padding), ", calculated shape of the array of sliding blocks as (",
                     s.out[1], ", ", s.out[2], "), but its components must be at least one.)"));
    return s;
}

void check_conv_images(const Call& c, int with_batch) {
    const Tensor& x = c.in[0];
    WEFT_EXPECT(x.ndim() == with_batch || x.ndim() == with_batch - 1, Runtime, c.name(),
                text(with_batch - 1, "D or ", with_batch,
                     "D (batched) input with a non-zero batch "
                     "size"),
                text("input of size ", to_string(x.shape())));
    WEFT_EXPECT(is_floating(x.dtype()), NotImplemented, c.name(), "a floating dtype",
                name(x.dtype()));
}

void im2col_shape(Call& c) {
    check_conv_images(c, 4);
    const Tensor& x = c.in[0];
    int n = x.ndim();
    auto s = window(c, 0, x.size(n - 2), x.size(n - 1));
    Dims out;
    if (n == 4) out.push_back(x.size(0));
    out.push_back(size_product(c.name(), x.size(n - 3), s.taps()));
    out.push_back(s.out_size());
    c.add(Tensor::layout(x.dtype(), out));
}

void im2col_kernel(Call& c) {
    Tensor x = as_contiguous(c.in[0]);
    int n = x.ndim();
    auto s = window(c, 0, x.size(n - 2), x.size(n - 1));
    s.in_channels = x.size(n - 3);
    if (c.out(0).numel() == 0) return;  // whatever the number of images
    dispatch<FloatingTypes>(x.dtype(), "unfold", [&]<class T>() {
        for (int64_t i = 0; i < (n == 4 ? x.size(0) : 1); ++i)
            kernels::unfold(s, x.data<T>() + i * s.in_channels * s.in_size(),
                            c.out(0).data<T>() + i * s.columns() * s.out_size());
    });
}

void col2im_shape(Call& c) {
    check_conv_images(c, 3);
    const Tensor& x = c.in[0];
    int n = x.ndim();
    Triple size = triple(c.name(), "output_size", c.attr(0).as_ints(), 2, 1, 1);
    auto s = window(c, 1, size[1], size[2]);
    WEFT_EXPECT(x.size(n - 2) % s.taps() == 0, Runtime, c.name(),
                text("size of input's dimension 1 to be divisible by the product of kernel_size ",
                     s.taps()),
                std::to_string(x.size(n - 2)));
    WEFT_EXPECT(x.size(n - 1) == s.out_size(), Runtime, c.name(),
                "a column for each place of the kernel",
                text(x.size(n - 1), " columns (Given output_size=", pair(size),
                     ", kernel_size=", pair(s.kernel), ", dilation=", pair(s.dilation),
                     ", padding=", pair(s.padding), ", stride=", pair(s.stride),
                     ", expected size of input's dimension 2 to match the calculated "
                     "number of sliding blocks ",
                     s.out[1], " * ", s.out[2], " = ", s.out_size(),
                     ", but got input.size(2)=", x.size(n - 1), ".)"));
    Dims out;
    if (n == 3) out.push_back(x.size(0));
    out.push_back(x.size(n - 2) / s.taps());
    out.push_back(size[1]);
    out.push_back(size[2]);
    c.add(Tensor::layout(x.dtype(), out));
}

void col2im_kernel(Call& c) {
    Tensor x = as_contiguous(c.in[0]);
    const Tensor& out = c.out(0);
    int n = out.ndim();
    auto s = window(c, 1, out.size(n - 2), out.size(n - 1));
    s.in_channels = out.size(n - 3);
    if (out.numel() == 0) return;
    dispatch<FloatingTypes>(x.dtype(), "fold", [&]<class T>() {
        for (int64_t i = 0; i < (n == 4 ? out.size(0) : 1); ++i)
            kernels::fold(s, x.data<T>() + i * s.columns() * s.out_size(),
                          out.data<T>() + i * s.in_channels * s.in_size());
    });
}

void register_unfold(Table& t) {
    t.add("im2col(Tensor input, int[] kernel_size, int[] dilation, int[] padding, int[] stride) -> "
          "Tensor")
        .doc("The patches of images [n, c, h, w] as columns [n, c * taps, places].")
        .shape(im2col_shape)
        .kernel(im2col_kernel)
        .internal()
        .in_packages()
        .batch(batch_last<3>)
        .node_name("Im2ColBackward0")
        .grad(0, 0,
              [](const Grad& g) {
                  Dims shape = g.in_shape(0);
                  Dims size(DimSpan(shape).last(2));
                  return col2im(g.grad(), size, g.attr(0), g.attr(1), g.attr(2), g.attr(3));
              })
        .samples({"f(T(2, 3, 4, 5), (2, 3), (1, 1), (0, 1), (1, 2))", "f(T(3, 4, 5), 2, 1, 0, 2)"});
    t.add("col2im(Tensor input, int[] output_size, int[] kernel_size, int[] dilation, int[] "
          "padding, int[] stride) -> Tensor")
        .doc("Columns [n, c * taps, places] added into images [n, c, h, w]: the adjoint of im2col.")
        .shape(col2im_shape)
        .kernel(col2im_kernel)
        .internal()
        .in_packages()
        .batch(batch_last<2>)
        .node_name("Col2ImBackward0")
        .grad(0, 0,
              [](const Grad& g) {
                  return im2col(g.grad(), g.attr(1), g.attr(2), g.attr(3), g.attr(4));
              })
        .samples({"f(T(2, 12, 6), (4, 5), (2, 3), (2, 1), (1, 0), (2, 1))"});
}

}  // namespace

void register_conv(Table& t) {
    t.add("convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, "
          "int[] dilation, bool transposed, int[] output_padding, int groups) -> Tensor")
        .autocast(Cast::Narrow)
        .doc("Convolution, or with `transposed` its adjoint, of a batch of images with one to\n"
             "three spatial dims; see conv2d and conv_transpose2d.\n"
             "input [n, channels, *], weight [out, channels / groups, *].\n"
             ">>> x, w = weft.ones(1, 1, 3), weft.ones(1, 1, 2)\n"
             ">>> weft.convolution(x, w, None, [1], [0], [1], False, [0], 1)\n"
             "tensor([[[2., 2.]]])")
        .shape(convolution_shape)
        .kernel(convolution_kernel)
        .flops(convolution_flops)
        .function_only()
        .batch(batch_first, save_in(1) | save_in(2))
        .joint_grad(save_in(0) | save_in(1), convolution_gradient)
        .samples({"f(T(2, 4, 5, 6), T(3, 4, 2, 3), T(3), (2, 1), (1, 2), (1, 2), False, (0, 0), 1)",
                  "f(T(2, 4, 3), T(4, 3, 2), None, (3,), (1,), (1,), True, (1,), 2)"});
    t.add("_convolution_weight(Tensor input, Tensor grad, int[] kernel_size, int[] stride, int[] "
          "padding, int[] dilation, int groups) -> Tensor")
        .doc("The gradient of convolution's weight from that of its result.")
        .shape(weight_shape)
        .kernel(weight_kernel)
        .flops(weight_flops)
        .internal()
        .node_name("ConvolutionBackwardBackward0")
        .grad(0, save_in(1),
              [](const Grad& g) {
                  return adjoint(conj(g.in(1)), g.grad(), g.in_shape(0), g.attr(1), g.attr(2),
                                 g.attr(3), g.attr(4));
              })
        .grad(1, save_in(0),
              [](const Grad& g) {
                  return direct(conj(g.in(0)), g.grad(), g.in_shape(1), g.attr(1), g.attr(2),
                                g.attr(3), g.attr(4));
              })
        .samples({"f(T(2, 4, 5), T(2, 6, 2), (3,), (2,), (0,), (1,), 2)"});
    register_conv_of<1>(t);
    register_conv_of<2>(t);
    register_conv_of<3>(t);
    register_unfold(t);
}

}  // namespace weft
