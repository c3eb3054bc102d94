/// Padding: by a constant, any dims; by reflected, repeated or opposite values, the last one to
/// three dims.
#include "kernels/pad.h"

#include "ops/batch.h"
#include "ops/indexing.h"
#include "ops/shape.h"
#include "ops/spatial.h"

namespace weft {
namespace {

using namespace ops;

const Function pad_places{"_pad_places"}, pad_places_backward{"_pad_places_backward"};

/// PyTorch's words for pads of more dimensions than there are.
std::string too_many(DimSpan pad, DimSpan shape) {
    return text(" (Padding length should be less than or equal to two times the input dimension "
                "but got padding length ",
                pad.size(), " and input of dimension ", shape.size(), ")");
}

/// Sizes after padding; `pad` counts from the last dim on, before and after it.
Dims padded_sizes(const Call& c, DimSpan shape, DimSpan pad) {
    WEFT_EXPECT(pad.size() % 2 == 0, Runtime, c.name(),
                "an even number of pads (Padding length must be divisible by 2)", to_string(pad));
    WEFT_EXPECT(pad.size() <= 2 * shape.size(), Runtime, c.name(),
                "pads for dimensions of the input", text(to_string(pad), too_many(pad, shape)));
    Dims out(shape);
    for (size_t i = 0; i < pad.size() / 2; ++i) {
        int64_t& n = out[static_cast<int>(shape.size() - 1 - i)];
        int64_t size = size_sum(c.name(), size_sum(c.name(), n, pad[2 * i]), pad[2 * i + 1]);
        WEFT_EXPECT(size >= 0, Runtime, c.name(), "a result of sizes of at least 0",
                    text("input of size ", to_string(shape), " with pads ", to_string(pad),
                         ", resulted in a negative output size"));
        n = size;
    }
    return out;
}

void constant_shape(Call& c) {
    require_fits(c.name(), as_tensor(c.attr(1)), c.in[0].dtype());
    c.add(Tensor::layout(c.in[0].dtype(), padded_sizes(c, c.in[0].shape(), c.attr(0).as_ints())));
}

/// The part of `t` that has a partner: t without `cut` (negative pads) on the sides.
Tensor inner_part(const Tensor& t, DimSpan pad, int sign) {
    Dims shape(t.shape());
    int64_t offset = 0;
    for (size_t i = 0; i < pad.size() / 2; ++i) {
        int d = t.ndim() - 1 - static_cast<int>(i);
        int64_t before = std::max<int64_t>(0, sign * pad[2 * i]);
        int64_t after = std::max<int64_t>(0, sign * pad[2 * i + 1]);
        shape[d] = std::max<int64_t>(0, shape[d] - before - after);
        offset += before * t.stride(d);
    }
    return t.view_as(shape, t.strides(), offset);
}

/// The dims that pads count, of a call with pads in attribute 0.
bool pad_rows(const BatchCall& c, BatchForm& form) {
    return ops::detail::batch_last(c, form, static_cast<int>(c.attr(0).as_ints().size() / 2));
}

void constant_kernel(Call& c) {
    const Tensor &x = c.in[0], &y = c.out(0);
    const Value& v = c.attr(1);
    bool whole = v.kind() == Value::Kind::Int || v.kind() == Value::Kind::Bool;
    DimSpan pad = c.attr(0).as_ints();
    if (std::any_of(pad.begin(), pad.end(), [](int64_t p) { return p > 0; }))
        copy_into(y, whole ? Tensor::scalar(v.as_int(), y.dtype())
                           : Tensor::scalar(v.as_double(), y.dtype()));
    Tensor from = inner_part(x, pad, -1);
    if (from.numel()) copy_into(inner_part(y, pad, 1), from);
}

// ---- places ------------------------------------------------------------------------------------

enum class Mode : uint8_t { Reflect, Replicate, Circular };

Mode pad_mode(const Value& text_value) {
    const std::string& s = text_value.as_text();
    return s == "reflect" ? Mode::Reflect : s == "replicate" ? Mode::Replicate : Mode::Circular;
}

/// The input index that output index i of a dim of size n reads.
int64_t padded_place(Mode mode, int64_t i, int64_t before, int64_t after, int64_t n) {
    if (mode == Mode::Circular) {  // around what negative pads leave
        int64_t cut = std::max<int64_t>(0, -before), left = n - cut - std::max<int64_t>(0, -after);
        i -= std::max<int64_t>(0, before);
        return cut + (i % left + left) % left;
    }
    i -= before;
    if (mode == Mode::Replicate) return std::clamp<int64_t>(i, 0, n - 1);
    if (i < 0) i = -i;
    return i >= n ? 2 * (n - 1) - i : i;
}

void places_shape(Call& c) {
    const Tensor& x = c.in[0];
    DimSpan pad = c.attr(0).as_ints();
    const std::string& how = c.attr(1).as_text();
    WEFT_EXPECT(how == "reflect" || how == "replicate" || how == "circular", NotImplemented, "pad",
                "mode 'constant', 'reflect', 'replicate' or 'circular'",
                text("'", how, "' (Unrecognised padding mode ", how, ")"));
    int dims = static_cast<int>(pad.size() / 2);
    WEFT_EXPECT(dims <= x.ndim(), Runtime, "pad", "pads for dimensions of the input",
                text(to_string(pad), too_many(pad, x.shape())));
    WEFT_EXPECT(dims >= 1 && dims <= 3 && pad.size() % 2 == 0 &&
                    (x.ndim() == dims + 1 || x.ndim() == dims + 2),
                NotImplemented, "pad",
                "pads for the last D dims of an input of D + 1 or D + 2 dimensions, D = 1, 2, 3 "
                "(Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now)",
                text("pads ", to_string(pad), " for an input of size ", to_string(x.shape())));
    for (int i = 0; i < dims; ++i) {
        int64_t n = x.size(x.ndim() - 1 - i), most = std::max(pad[2 * i], pad[2 * i + 1]);
        WEFT_EXPECT(how != "reflect" || most < n, Runtime, "pad", "pads that the input can fill",
                    text("more (Argument #4: Padding size should be less than the corresponding "
                         "input dimension, but got: padding (",
                         pad[2 * i], ", ", pad[2 * i + 1], ") at dimension ", x.ndim() - 1 - i,
                         " of input ", to_string(x.shape()), ")"));
        WEFT_EXPECT(how != "circular" || most <= n, Runtime, "pad",
                    "circular pads of at most the input dimension (Padding value causes wrapping "
                    "around more than once)",
                    text("pads ", to_string(pad), " for ", to_string(x.shape())));
        int64_t left = n + std::min<int64_t>(0, pad[2 * i]) + std::min<int64_t>(0, pad[2 * i + 1]);
        WEFT_EXPECT(how != "circular" || left > 0, Runtime, "pad",
                    "circular pads that leave something of the input",
                    text("pads ", to_string(pad), " for ", to_string(x.shape())));
        WEFT_EXPECT(
            how == "circular" || n + pad[2 * i] + pad[2 * i + 1] > 0, Runtime, "pad",
            "pads that leave something of the input",
            text("pads ", to_string(pad), " for ", to_string(x.shape()), " (input is too small)"));
        WEFT_EXPECT(n > 0, Runtime, "pad", "an input with elements in the padded dims",
                    to_string(x.shape()));
    }
    c.add(Tensor::layout(x.dtype(), padded_sizes(c, x.shape(), pad)));
}

/// The kernel's axes, and the memory of what lies outside of the input.
struct Places {
    kernels::PadAxis axes[3];
    Dims edges[3];
    int64_t planes = 1;

    Places(DimSpan in, DimSpan out, DimSpan pad, Mode mode) {
        const int n = static_cast<int>(in.size()), dims = static_cast<int>(pad.size() / 2);
        for (int d = 0; d < n - dims; ++d) planes *= in[d];
        for (int from_end = 0; from_end < dims; ++from_end) {
            const int64_t before = pad[2 * from_end], after = pad[2 * from_end + 1];
            kernels::PadAxis& a = axes[2 - from_end];
            Dims& outside = edges[2 - from_end];
            a.in = in[n - 1 - from_end];
            a.out = out[n - 1 - from_end];
            a.first = std::clamp<int64_t>(before, 0, a.out);
            a.last = std::max(a.first, a.out - std::max<int64_t>(0, after));
            if (a.last > a.first) a.start = padded_place(mode, a.first, before, after, a.in);
            for (int64_t i = 0; i < a.first; ++i)
                outside.push_back(padded_place(mode, i, before, after, a.in));
            for (int64_t i = a.last; i < a.out; ++i)
                outside.push_back(padded_place(mode, i, before, after, a.in));
            a.edges = outside.data();
        }
    }
};

void places_kernel(Call& c) {
    Tensor x = as_contiguous(c.in[0]);
    const Tensor& y = c.out(0);
    Places p(x.shape(), y.shape(), c.attr(0).as_ints(), pad_mode(c.attr(1)));
    Unlocked unlocked(y.numel());
    auto run = [&]<class T>() { kernels::pad(x.data<T>(), y.data<T>(), p.planes, p.axes); };
    switch (item_size(x.dtype())) {
        case 1:
            return run.operator()<uint8_t>();
        case 2:
            return run.operator()<uint16_t>();
        case 4:
            return run.operator()<uint32_t>();
        case 8:
            return run.operator()<uint64_t>();
        default:
            return run.operator()<std::complex<double>>();
    }
}

void places_backward_kernel(Call& c) {
    Tensor dy = as_contiguous(c.in[0]);
    const Tensor& dx = c.out(0);
    Places p(dx.shape(), dy.shape(), c.attr(1).as_ints(), pad_mode(c.attr(2)));
    dispatch<WithComplex<FloatingTypes>>(dy.dtype(), "pad", [&]<class T>() {
        kernels::pad_backward(dy.data<T>(), dx.data<T>(), p.planes, p.axes);
    });
}

/// What PyTorch calls the node of such padding, and that of its gradient.
struct PlacesNodes {
    const char *forward, *backward;
};
PlacesNodes places_nodes(const Value& pad, Mode mode) {
    static const PlacesNodes names[2][3] = {
        {{"ReflectionPad1DBackward0", "ReflectionPad1DBackwardBackward0"},
         {"ReflectionPad2DBackward0", "ReflectionPad2DBackwardBackward0"},
         {"ReflectionPad3DBackward0", "ReflectionPad3DBackwardBackward0"}},
        {{"ReplicationPad1DBackward0", "ReplicationPad1DBackwardBackward0"},
         {"ReplicationPad2DBackward0", "ReplicationPad2DBackwardBackward0"},
         {"ReplicationPad3DBackward0", "ReplicationPad3DBackwardBackward0"}}};
    if (mode == Mode::Circular) return {"CopySlices", nullptr};
    return names[mode == Mode::Replicate][pad.as_ints().size() / 2 - 1];
}
const char* places_node(const Call& c) {
    return places_nodes(c.attr(0), pad_mode(c.attr(1))).forward;
}

/// PyTorch's gradients of the first two depend on the input, as zeros.
Tensor places_gradient(const Grad& g) {
    Tensor dx = pad_places_backward(g.grad(), g.in_shape(0), g.attr(0), g.attr(1));
    const char* node = places_nodes(g.attr(0), pad_mode(g.attr(1))).backward;
    return node ? g.constant_in(0, dx, node) : dx;
}

void pad_body(Call& c) {
    const std::string& how = c.attr(1).as_text();
    if (how == "constant") {
        Value value = c.attr(2).none() ? 0.0 : c.attr(2).as_double();
        return c.set(constant_pad(c.in[0], c.attr(0), value));
    }
    WEFT_EXPECT(c.attr(2).none() || c.attr(2).as_double() == 0, Runtime, "pad",
                "no value with a mode other than 'constant'",
                text("mode '", how, "' (Padding mode doesn't take in value argument)"));
    c.set(pad_places(c.in[0], c.attr(0), c.attr(1)));
}

}  // namespace

void register_pad(Table& t) {
    t.add("constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor")
        .float8()
        .uint64(Uint64::Bits)
        .doc("self with `value` around it. `pad` counts from the last dim on, before and after\n"
             "it; negative pads cut off.\n"
             "Size n of a padded dim becomes before + n + after.\n"
             ">>> weft.constant_pad_nd(weft.tensor([1, 2]), (1, -1))\n"
             "tensor([0, 1])")
        .shape(constant_shape)
        .kernel(constant_kernel)
        .batch(pad_rows)
        .function_only()
        .grad(0, 0,
              [](const Grad& g) {
                  Dims back;
                  for (int64_t p : g.attr(0).as_ints()) back.push_back(-p);
                  return constant_pad(g.grad(), back, 0.0);
              })
        .samples({"f(T(2, 3), (1, 2))", "f(T(2, 3, 4), (1, 0, 0, 2, 1, 1), 2.5)",
                  "f(T(2, 3), (-1, 1, 2, -1), 7)", "f(I(4), (2, 0), 3)", "f(T(0, 2), (1, 1, 2, 0))",
                  "f(T(3), (0, 0))", "f(T(3, 4), (2, -2))"});
    t.add("pad(Tensor input, int[] pad, str mode=\"constant\", float? value=None) -> Tensor")
        .doc("Pads from the last dim on, before and after it: with `value`, or mode 'reflect',\n"
             "'replicate' or 'circular' over the last one to three dims.")
        .body(pad_body)
        .batch(Batch::Body)
        .internal()
        .in_packages()
        .samples({"f(T(2, 3), (1, 2))", "f(T(2, 3, 5), (2, 1), mode='reflect')",
                  "f(T(3, 5), (2, 1), mode='replicate')",
                  "f(T(1, 2, 3, 4), (2, 1, 0, 2), 'reflect')",
                  "f(T(2, 3, 4), (2, -1, 1, 3), mode='replicate')",
                  "f(T(1, 2, 3, 4), (2, 4, 3, 0), mode='circular')",
                  "f(T(1, 2, 4, 4), (-1, 1, -2, 1), mode='circular')",
                  "f(T(1, 2, 3, 4, 2), (1, 1, 2, 0, 1, 2), mode='reflect')",
                  "f(T(2, 3, 4, 2), (1, 1, 2, 0, 1, 2), mode='replicate')",
                  "f(T(1, 2, 3, 4, 2), (1, 1, 2, 0, 1, 2), mode='circular')"});
    t.add("_pad_places(Tensor input, int[] pad, str mode) -> Tensor")
        .float8()
        .uint64(Uint64::Bits)
        .doc("pad with a mode other than 'constant'.")
        .shape(places_shape)
        .kernel(places_kernel)
        .batch(pad_rows)
        .internal()
        .node_name(places_node)
        .grad(0, 0, places_gradient);
    t.add("_pad_places_backward(Tensor grad, int[] size, int[] pad, str mode) -> Tensor")
        .float8()
        .doc("The adjoint of _pad_places.")
        .shape([](Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.attr(0).as_ints())); })
        .kernel(places_backward_kernel)
        .internal()
        .grad(0, 0, [](const Grad& g) { return pad_places(g.grad(), g.attr(1), g.attr(2)); });
}

}  // namespace weft
