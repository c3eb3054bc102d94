/// Resampling of images to other sizes, one axis after the other, and the rearrangements between
/// channels and pixels.
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/resample.h"
#include "ops/batch.h"
#include "ops/shape.h"
#include "ops/spatial.h"

namespace weft {
namespace {

using namespace ops;

const Function upsample{"_upsample"}, upsample_backward{"_upsample_backward"},
    shuffle{"pixel_shuffle"}, unshuffle{"pixel_unshuffle"}, channel_shuffle{"channel_shuffle"};

/// How an axis is resampled, and the attributes of `_upsample` after output_size.
enum class Filter : uint8_t { Nearest, NearestExact, Linear, Cubic };
enum ResampleAttr { kSize, kMode, kAlign, kAntialias, kScale };

struct Method {
    Filter filter;
    int dims;              ///< for which alone the mode exists, or 0
    const char* nodes[3];  ///< by the number of spatial dims
};
/// PyTorch's words for an input that no mode takes, or a mode that no input has.
std::string supported(int ndim, const std::string& mode) {
    return text(
        " (Input Error: Only 3D, 4D and 5D input Tensors supported (got ", ndim,
        "D) for the modes: nearest | linear | bilinear | bicubic | trilinear | lanczos | area | "
        "nearest-exact (got ",
        mode, "))");
}

#define WEFT_NODE(name) "Upsample" #name "DBackward0"
Method method_of(const Call& c) {
    static const std::pair<const char*, Method> modes[] = {
        {"nearest",
         {Filter::Nearest, 0, {WEFT_NODE(Nearest1), WEFT_NODE(Nearest2), WEFT_NODE(Nearest3)}}},
        {"nearest-exact",
         {Filter::NearestExact,
          0,
          {WEFT_NODE(NearestExact1), WEFT_NODE(NearestExact2), WEFT_NODE(NearestExact3)}}},
        {"linear", {Filter::Linear, 1, {WEFT_NODE(Linear1)}}},
        {"bilinear", {Filter::Linear, 2, {"", WEFT_NODE(Bilinear2)}}},
        {"bicubic", {Filter::Cubic, 2, {"", WEFT_NODE(Bicubic2)}}},
        {"trilinear", {Filter::Linear, 3, {"", "", WEFT_NODE(Trilinear3)}}}};
    const std::string& mode = c.attr(kMode).as_text();
    for (auto& [name, method] : modes)
        if (mode == name) return method;
    fail(ErrorKind::NotImplemented, "interpolate", "another mode",
         text("'", mode, "'", supported(c.in[0].ndim(), mode)));
}

#undef WEFT_NODE

/// Keys' cubic convolution kernel (1981) with parameter a, at distance d >= 0.
double cubic(double d, double a) {
    if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? (((d - 5) * d + 8) * d - 4) * a : 0;
}

/// The table of one axis and its memory.
struct ResampledAxis {
    int64_t in, out, taps = 1;
    std::vector<int64_t> index;
    std::vector<double> weight;

    ResampledAxis(int64_t in, int64_t out) : in(in), out(out) {}
    kernels::ResampleAxis view() const { return {in, out, taps, index.data(), weight.data()}; }
    bool identity() const {
        if (in != out) return false;
        for (int64_t i = 0; i < out; ++i)
            for (int64_t t = 0; t < taps; ++t) {
                double w = weight[i * taps + t];
                if (w != (index[i * taps + t] == i && w != 0 ? 1 : 0)) return false;
            }
        return true;
    }
    void tap(int64_t i, double w) {
        index.push_back(std::clamp<int64_t>(i, 0, in - 1));
        weight.push_back(w);
    }

    /// `scale`: input steps per output step.
    void nearest(float scale, float shift) {
        for (int64_t i = 0; i < out; ++i)
            tap(static_cast<int64_t>(std::floor((static_cast<float>(i) + shift) * scale)), 1);
    }
    void interpolate(Filter filter, double scale, bool align) {
        taps = filter == Filter::Cubic ? 4 : 2;
        for (int64_t i = 0; i < out; ++i) {
            double at = align ? scale * static_cast<double>(i)
                              : scale * (static_cast<double>(i) + 0.5) - 0.5;
            if (filter == Filter::Linear) at = std::max(0.0, at);
            auto first = static_cast<int64_t>(std::floor(at));
            double t = at - static_cast<double>(first);
            if (filter == Filter::Linear) {
                if (first >= in - 1) first = in - 1, t = 0;
                tap(first, 1 - t);
                tap(first + 1, t);
            } else {
                for (int k = -1; k <= 2; ++k) tap(first + k, cubic(std::fabs(t - k), -0.75));
            }
        }
    }
    /// The filter stretched over `scale` inputs where that is more than one.
    void antialiased(Filter filter, double scale) {
        double stretch = std::max(1.0, scale), reach = (filter == Filter::Cubic ? 2 : 1) * stretch;
        taps = 2 * static_cast<int64_t>(std::ceil(reach)) + 1;
        for (int64_t i = 0; i < out; ++i) {
            double centre = scale * (static_cast<double>(i) + 0.5), total = 0;
            int64_t first = std::max<int64_t>(0, static_cast<int64_t>(centre - reach + 0.5));
            int64_t last = std::min(in, static_cast<int64_t>(centre + reach + 0.5));
            size_t start = weight.size();
            for (int64_t k = first; k < first + taps; ++k) {
                double d = std::fabs((static_cast<double>(k) - centre + 0.5) / stretch);
                double w = filter == Filter::Cubic ? cubic(d, -0.5) : std::max(0.0, 1 - d);
                if (k >= last) w = 0;
                tap(k, w);
                total += w;
            }
            for (size_t t = start; t < weight.size() && total != 0; ++t) weight[t] /= total;
        }
    }
};

/// The table for spatial dim d (counted from the last) of the call.
ResampledAxis resampled_axis(const Call& c, int64_t in, int64_t out, int from_end) {
    Method m = method_of(c);
    bool align = c.attr(kAlign).as_bool();
    const Value& given = c.attr(kScale + 2 - from_end);
    double scale = !given.none() && given.as_double() > 0
                       ? 1 / given.as_double()
                       : static_cast<double>(in) / static_cast<double>(out);
    ResampledAxis axis(in, out);
    if (m.filter == Filter::Nearest || m.filter == Filter::NearestExact) {
        // PyTorch's rounding: in single precision whatever the dtype
        float single = !given.none() && given.as_double() > 0
                           ? static_cast<float>(1 / given.as_double())
                           : static_cast<float>(in) / static_cast<float>(out);
        axis.nearest(single, m.filter == Filter::Nearest ? 0.0f : 0.5f);
        return axis;
    }
    if (align) scale = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
    if (c.attr(kAntialias).as_bool()) axis.antialiased(m.filter, scale);
    else axis.interpolate(m.filter, scale, align);
    return axis;
}

void check_image(const Call& c, int ndim, DimSpan shape, size_t sizes) {
    Method m = method_of(c);
    int dims = ndim - 2;
    const std::string& mode = c.attr(kMode).as_text();
    WEFT_EXPECT(dims >= 1 && dims <= 3, NotImplemented, "interpolate", "an image or a batch",
                text(to_string(shape), supported(ndim, mode)));
    WEFT_EXPECT(m.dims == 0 || m.dims == dims, NotImplemented, "interpolate",
                "another mode or input",
                mode == "bicubic" ? text(ndim, "D", supported(ndim, mode))
                                  : text("these (Got ", ndim, "D input, but ", mode, " mode needs ",
                                         m.dims + 2, "D input)"));
    WEFT_EXPECT(static_cast<int>(sizes) == dims, Runtime, "interpolate",
                text("an output size of ", dims, " numbers"), std::to_string(sizes));
    WEFT_EXPECT(!c.attr(kAntialias).as_bool() || (dims == 2 && m.dims == 2), Runtime, "interpolate",
                "antialias with mode 'bilinear' or 'bicubic' only",
                text("mode '", c.attr(kMode).as_text(), "'"));
}

void resampled_shape(Call& c) {
    const Tensor& x = c.in[0];
    DimSpan size = c.attr(kSize).as_ints();
    check_image(c, x.ndim(), x.shape(), size.size());
    Dims out{x.size(0), x.size(1)};
    for (size_t d = 0; d < size.size(); ++d) {
        WEFT_EXPECT(size[d] > 0 && x.size(static_cast<int>(d) + 2) > 0, Runtime, "interpolate",
                    "Input and output sizes should be greater than 0",
                    text("input ", to_string(x.shape()), " and output ", to_string(size)));
        // a step over more than the whole input: no size comes of it
        const Value& scale = c.attr(kScale + 3 - static_cast<int>(size.size() - d));
        const bool given = !scale.none() && scale.as_double() > 0;
        const double in = static_cast<double>(x.size(static_cast<int>(d) + 2));
        WEFT_EXPECT(!given || in * scale.as_double() > 0.99, Value, "interpolate",
                    "a scale factor that leaves an element of the input",
                    text(scale.as_double(), " for ", x.size(static_cast<int>(d) + 2)));
        out.push_back(size[d]);
    }
    c.add(Tensor::layout(x.dtype(), out));
}

void upsample_shape(Call& c) {
    const DType dtype = c.in[0].dtype();
    WEFT_EXPECT(is_floating(dtype), NotImplemented, "interpolate", "a floating dtype",
                text(name(dtype), " (not implemented)"), "convert with .float()");
    resampled_shape(c);
}

void bytes_shape(Call& c) {
    const DType dtype = c.in[0].dtype();
    const std::string& mode = c.attr(kMode).as_text();
    WEFT_EXPECT(dtype == DType::UInt8 && mode != "linear" && mode != "trilinear", NotImplemented,
                "interpolate", "uint8 in one of the other modes",
                text(name(dtype), " for '", mode, "' (not implemented)"), "convert with .float()");
    resampled_shape(c);
}

/// One axis after the other, the last dim first, through buffers; the last step writes the result.
struct Step {
    ResampledAxis axis;
    int64_t outer, inner;
};
std::vector<Step> steps_of(const Call& c, DimSpan in, DimSpan out) {
    std::vector<Step> steps;
    Dims now(in);
    int n = now.size();
    for (int d = n - 1; d >= 2; --d) {
        ResampledAxis axis = resampled_axis(c, in[d], out[d], n - 1 - d);
        int64_t outer = 1, inner = 1;
        for (int k = 0; k < d; ++k) outer *= now[k];
        for (int k = d + 1; k < n; ++k) inner *= now[k];
        now[d] = out[d];
        if (!axis.identity()) steps.push_back({std::move(axis), outer, inner});
    }
    return steps;
}

template <class T, class Run>
void chain(const Tensor& from, const Tensor& to, size_t count, const Run& run) {
    if (count == 0) return copy_into(to, from);
    std::unique_ptr<T[]> held;
    const T* now = from.data<T>();
    for (size_t i = 0; i < count; ++i) {
        std::unique_ptr<T[]> next;
        T* out = to.data<T>();
        int64_t size = run(i, nullptr, nullptr);
        if (i + 1 < count) next.reset(new T[size]), out = next.get();
        run(i, now, out);
        held = std::move(next);
        now = out;
    }
}

void upsample_kernel(Call& c) {
    Tensor x = as_contiguous(c.in[0]);
    const Tensor& y = c.out(0);
    if (y.numel() == 0) return;
    std::vector<Step> steps = steps_of(c, x.shape(), y.shape());
    dispatch<FloatingTypes>(x.dtype(), "interpolate", [&]<class T>() {
        chain<T>(x, y, steps.size(), [&](size_t i, const T* from, T* to) {
            const Step& s = steps[i];
            if (to) kernels::resample(from, to, s.outer, s.inner, s.axis.view());
            return s.outer * s.axis.out * s.inner;
        });
    });
}

void bytes_kernel(Call& c) {
    Tensor x = as_contiguous(c.in[0]);
    const Tensor& y = c.out(0);
    if (y.numel() == 0) return;
    std::vector<Step> steps = steps_of(c, x.shape(), y.shape());
    chain<uint8_t>(x, y, steps.size(), [&](size_t i, const uint8_t* from, uint8_t* to) {
        const Step& s = steps[i];
        if (to) kernels::resample_bytes(from, to, s.outer, s.inner, s.axis.view());
        return s.outer * s.axis.out * s.inner;
    });
}

void upsample_backward_kernel(Call& c) {
    Tensor dy = as_contiguous(c.in[0]);
    const Tensor& dx = c.out(0);
    if (dx.numel() == 0) return;
    std::vector<Step> steps = steps_of(c, dx.shape(), dy.shape());
    dispatch<FloatingTypes>(dy.dtype(), "interpolate", [&]<class T>() {
        chain<T>(dy, dx, steps.size(), [&](size_t i, const T* from, T* to) {
            const Step& s = steps[steps.size() - 1 - i];
            if (to) kernels::resample_backward(from, to, s.outer, s.inner, s.axis.view());
            return s.outer * s.axis.in * s.inner;
        });
    });
}

const char* upsample_node(const Call& c) {
    Method m = method_of(c);
    if (!c.attr(kAntialias).as_bool()) return m.nodes[c.in[0].ndim() - 3];
    return m.filter == Filter::Cubic ? "UpsampleBicubic2DAaBackward0"
                                     : "UpsampleBilinear2DAaBackward0";
}

void register_upsample(Table& t) {
    t.add("_upsample(Tensor input, int[] output_size, str mode, bool align_corners=False, bool "
          "antialias=False, float? scale_d=None, float? scale_h=None, float? scale_w=None) -> "
          "Tensor")
        .doc("Images (n, c, ...) resampled to `output_size`; a scale, where given, says how far\n"
             "output pixels lie apart instead of the quotient of the sizes.")
        .shape(upsample_shape)
        .kernel(upsample_kernel)
        .internal()
        .in_packages()
        .batch(batch_first)
        .node_name(upsample_node)
        .grad(0, 0,
              [](const Grad& g) {
                  return upsample_backward(g.grad(), g.in_shape(0), g.attr(kMode), g.attr(kAlign),
                                           g.attr(kAntialias), g.attr(kScale), g.attr(kScale + 1),
                                           g.attr(kScale + 2));
              })
        .samples({"f(T(2, 3, 4), (7,), 'linear')", "f(T(2, 3, 4), (3,), 'nearest-exact')",
                  "f(T(1, 2, 4, 3), (6, 2), 'bilinear', True)",
                  "f(T(1, 2, 4, 5), (7, 9), 'bicubic')",
                  "f(T(1, 2, 6, 7), (3, 4), 'bicubic', False, True)",
                  "f(T(1, 1, 2, 3, 2), (4, 2, 3), 'trilinear')",
                  "f(T(1, 1, 2, 3, 2), (4, 2, 3), 'nearest', scale_h=0.7)"});
    t.add("_upsample_bytes(Tensor input, int[] output_size, str mode, bool align_corners=False, "
          "bool antialias=False, float? scale_d=None, float? scale_h=None, float? scale_w=None) -> "
          "Tensor")
        .doc("_upsample of uint8, rounded to a byte after each axis as in Pillow and PyTorch.")
        .shape(bytes_shape)
        .kernel(bytes_kernel)
        .every_dtype()
        .internal()
        .in_packages()
        .batch(batch_first)
        .no_onnx("ONNX rounds once, PyTorch after each axis")
        .samples({"f(T(1, 2, 6, 7).mul(99).byte(), (3, 4), 'bilinear', False, True)",
                  "f(T(1, 2, 4, 3).mul(99).byte(), (6, 2), 'bicubic')",
                  "f(T(1, 2, 4).mul(99).byte(), (3,), 'nearest')"});
    t.add("_upsample_backward(Tensor grad, int[] size, str mode, bool align_corners, bool "
          "antialias, float? scale_d, float? scale_h, float? scale_w) -> Tensor")
        .doc("The adjoint of _upsample for images of `size`.")
        .shape([](Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.attr(0).as_ints())); })
        .kernel(upsample_backward_kernel)
        .internal()
        .grad(0, 0, [](const Grad& g) {
            Dims shape = g.in_shape(0), size(DimSpan(shape).subspan(2));
            return upsample(g.grad(), size, g.attr(kMode), g.attr(kAlign), g.attr(kAntialias),
                            g.attr(kScale), g.attr(kScale + 1), g.attr(kScale + 2));
        });
}

// ---- pixels and channels -----------------------------------------------------------------------

/// Copies x, seen as `split`, with its dims in another order.
void copy_permuted(const Tensor& x, const Tensor& y, const Dims& split, const Dims& order) {
    Tensor from = as_contiguous(x);
    Dims plain = contiguous_strides(split), strides, shape;
    for (int64_t d : order) {
        shape.push_back(split[static_cast<int>(d)]);
        strides.push_back(plain[static_cast<int>(d)]);
    }
    copy_into(y.view_as(shape, contiguous_strides(shape)), from.view_as(shape, strides));
}

int64_t leading(const Tensor& x, int last) {
    int64_t n = 1;
    for (int d = 0; d < x.ndim() - last; ++d) n *= x.size(d);
    return n;
}

void shuffle_shape(Call& c) {
    const Tensor& x = c.in[0];
    int64_t r = c.attr(0).as_int();
    WEFT_EXPECT(x.ndim() >= 3, Runtime, c.name(), "an input of at least 3 dimensions",
                text("input with ", x.ndim(), " dimension(s)"));
    WEFT_EXPECT(r > 0 && r < (1 << 20), Runtime, c.name(), "a positive upscale_factor",
                std::to_string(r));
    int n = x.ndim();
    WEFT_EXPECT(x.size(n - 3) % (r * r) == 0, Runtime, c.name(), "channels for each place",
                text(x.size(n - 3),
                     " (pixel_shuffle expects its input's 'channel' dimension to be divisible by "
                     "the square of upscale_factor, but input.size(-3)=",
                     x.size(n - 3), " is not divisible by ", r * r, ")"));
    Dims out(x.shape());
    out[n - 3] /= r * r;
    for (int d = n - 2; d < n; ++d) out[d] = size_product(c.name(), out[d], r);
    c.add(Tensor::layout(x.dtype(), out));
}

void unshuffle_shape(Call& c) {
    const Tensor& x = c.in[0];
    int64_t r = c.attr(0).as_int();
    WEFT_EXPECT(x.ndim() >= 3, Runtime, c.name(), "an input of at least 3 dimensions",
                text("input with ", x.ndim(), " dimension(s)"));
    WEFT_EXPECT(r > 0 && r < (1 << 20), Runtime, c.name(), "a positive downscale_factor",
                std::to_string(r));
    int n = x.ndim();
    WEFT_EXPECT(x.size(n - 2) % r == 0 && x.size(n - 1) % r == 0, Runtime, c.name(),
                text("height and width to be divisible by downscale_factor ", r),
                to_string(x.shape()));
    Dims out(x.shape());
    out[n - 3] = size_product(c.name(), out[n - 3], r * r);
    out[n - 2] /= r;
    out[n - 1] /= r;
    c.add(Tensor::layout(x.dtype(), out));
}

void channel_shuffle_shape(Call& c) {
    const Tensor& x = c.in[0];
    int64_t groups = c.attr(0).as_int();
    WEFT_EXPECT(x.ndim() > 2, Runtime, c.name(), "an input of more than 2 dimensions",
                text("input with sizes ", to_string(x.shape())));
    WEFT_EXPECT(groups > 0, Runtime, c.name(), "a positive number of groups to divide channels in",
                std::to_string(groups));
    WEFT_EXPECT(x.size(1) % groups == 0, Runtime, c.name(),
                text("a number of channels divisible by groups ", groups),
                std::to_string(x.size(1)));
    c.add(Tensor::layout(x.dtype(), x.shape()));
}

void register_pixels(Table& t) {
    t.add("pixel_shuffle(Tensor self, int upscale_factor) -> Tensor")
        .doc("(*, c r^2, h, w) as (*, c, h r, w r). Shi et al. 2016.\n"
             "[*, c r^2, h, w] gives [*, c, h r, w r]. RuntimeError for other channels.\n"
             ">>> weft.pixel_shuffle(weft.arange(4).view(1, 4, 1, 1), 2)\n"
             "tensor([[[[0, 1],\n"
             "          [2, 3]]]])")
        .shape(shuffle_shape)
        .batch(batch_last<3>)
        .function_only()
        .kernel([](Call& c) {
            const Tensor &x = c.in[0], &y = c.out(0);
            int64_t r = c.attr(0).as_int(), n = y.ndim();
            Dims split{leading(y, 3), y.size(n - 3), r, r, x.size(n - 2), x.size(n - 1)};
            copy_permuted(x, y, split, {0, 1, 4, 2, 5, 3});
        })
        .grad(0, 0, [](const Grad& g) { return unshuffle(g.grad(), g.attr(0)); })
        .samples({"f(T(2, 8, 2, 3), 2)", "f(T(9, 1, 2), 3)", "f(T(0, 4, 2, 3), 2)",
                  "f(I(1, 4, 2, 2), 2)"});
    t.add("pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor")
        .doc("(*, c, h r, w r) as (*, c r^2, h, w): the inverse of pixel_shuffle.\n"
             "[*, c, h r, w r] gives [*, c r^2, h, w]. RuntimeError for other sizes.\n"
             ">>> weft.pixel_unshuffle(weft.arange(4).view(1, 1, 2, 2), 2).flatten()\n"
             "tensor([0, 1, 2, 3])")
        .shape(unshuffle_shape)
        .batch(batch_last<3>)
        .function_only()
        .kernel([](Call& c) {
            const Tensor &x = c.in[0], &y = c.out(0);
            int64_t r = c.attr(0).as_int(), n = x.ndim();
            Dims split{leading(x, 3), x.size(n - 3), y.size(n - 2), r, y.size(n - 1), r};
            copy_permuted(x, y, split, {0, 1, 3, 5, 2, 4});
        })
        .grad(0, 0, [](const Grad& g) { return shuffle(g.grad(), g.attr(0)); })
        .samples({"f(T(2, 2, 4, 6), 2)", "f(T(1, 3, 6), 3)"});
    t.add("channel_shuffle(Tensor self, int groups) -> Tensor")
        .doc(
            "The channels (n, c, *), seen as [groups, c / groups], transposed. Zhang et al. 2018.\n"
            ">>> weft.channel_shuffle(weft.arange(4).view(1, 4, 1), 2).flatten()\n"
            "tensor([0, 2, 1, 3])")
        .shape(channel_shuffle_shape)
        .batch(batch_first)
        .function_only()
        .kernel([](Call& c) {
            const Tensor &x = c.in[0], &y = c.out(0);
            int64_t groups = c.attr(0).as_int();
            int64_t inner = x.numel() / std::max<int64_t>(1, x.size(0) * x.size(1));
            copy_permuted(x, y, {x.size(0), groups, x.size(1) / groups, inner}, {0, 2, 1, 3});
        })
        .grad(0, 0,
              [](const Grad& g) {
                  return channel_shuffle(g.grad(), g.in_shape(0)[1] / g.attr(0).as_int());
              })
        .samples({"f(T(2, 6, 3), 2)", "f(T(1, 6, 2, 2), 3)"});
}

}  // namespace

void register_resample(Table& t) {
    register_upsample(t);
    register_pixels(t);
}

}  // namespace weft
