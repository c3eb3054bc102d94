/// Views of a part of a tensor, and the gradients that put the parts back.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/index.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/shape.h"

namespace weft {
namespace {

using namespace ops;

const Function select_backward{"select_backward"}, slice_backward{"slice_backward"},
    diagonal_backward{"diagonal_backward"}, as_strided_backward{"as_strided_backward"};

int part_dim(const Call& c, const Value& dim) {
    WEFT_EXPECT(c.in[0].ndim() > 0, Index, c.name(), "a tensor with dimensions",
                text(c.name(), "() cannot be applied to a 0-dim tensor"));
    return wrap_dim(c.name(), dim.as_int(), c.in[0].ndim());
}

void select_shape(Call& c) {
    const Tensor& self = c.in[0];
    int dim = part_dim(c, c.attr(0));
    int64_t index = wrap_index(c.name(), c.attr(1).as_int(), dim, self.size(dim));
    add_view(c, without(self.shape(), dim), without(self.strides(), dim), index * self.stride(dim));
}

void slice_shape(Call& c) {
    const Tensor& self = c.in[0];
    int dim = part_dim(c, c.attr(0));
    int64_t step = c.attr(3).as_int();
    Span span = slice_span(c.name(), self.size(dim), c.attr(1), c.attr(2), step);
    Dims shape(self.shape()), strides(self.strides());
    shape[dim] = span.count;
    strides[dim] *= step;
    add_view(c, shape, strides, span.start * self.stride(dim));
}

void narrow_body(Call& c) {
    const Tensor& self = c.in[0];
    int dim = part_dim(c, c.attr(0));
    int64_t start = c.attr(1).as_int(), length = c.attr(2).as_int(), size = self.size(dim);
    WEFT_EXPECT(length >= 0, Runtime, c.name(), "a length of at least 0", std::to_string(length));
    WEFT_EXPECT(start >= -size && start <= size, Index, c.name(), text("a start in [", -size, ", ", size, "]"),
                std::to_string(start));
    if (start < 0) start += size;
    WEFT_EXPECT(start + length <= size, Runtime, c.name(), text("start + length of at most ", size),
                text("start (", start, ") + length (", length, ") exceeds dimension size (", size, ")"));
    c.set(slice(self, dim, start, start + length));
}

/// Adds a view of `count` positions from `start` along `dim`.
void add_part(Call& c, int dim, int64_t start, int64_t count) {
    Dims shape(c.in[0].shape());
    shape[dim] = count;
    add_view(c, shape, c.in[0].strides(), start * c.in[0].stride(dim));
}

void split_shape(Call& c) {
    const Tensor& self = c.in[0];
    WEFT_EXPECT(self.ndim() > 0, Runtime, c.name(), "at least a 1-dimensional tensor", "a 0-d tensor");
    int dim = wrap_dim(c.name(), c.attr(1).as_int(), self.ndim());
    int64_t step = c.attr(0).as_int(), size = self.size(dim);
    WEFT_EXPECT(step >= 0, Runtime, c.name(), "split_size be non-negative", text("split_size=", step));
    WEFT_EXPECT(step > 0 || size == 0, Runtime, c.name(), "a split_size of 0 only for dimension size 0",
                text("dimension size of ", size));
    if (size == 0) return add_part(c, dim, 0, 0);
    for (int64_t at = 0; at < size; at += step) add_part(c, dim, at, std::min(step, size - at));
}

void split_sizes_shape(Call& c) {
    const Tensor& self = c.in[0];
    WEFT_EXPECT(self.ndim() > 0, Runtime, c.name(), "at least a 1-dimensional tensor", "a 0-d tensor");
    int dim = wrap_dim(c.name(), c.attr(1).as_int(), self.ndim());
    DimSpan sizes = c.attr(0).as_ints();
    int64_t sum = 0;
    for (int64_t s : sizes) {
        WEFT_EXPECT(s >= 0, Runtime, c.name(), "split_sizes with only non-negative entries", to_string(sizes));
        sum += s;
    }
    WEFT_EXPECT(sum == self.size(dim), Runtime, c.name(),
                text("split_sizes to sum exactly to ", self.size(dim), " (input tensor's size at dimension ",
                     dim, ")"),
                text("split_sizes=", to_string(sizes)));
    int64_t at = 0;
    for (int64_t s : sizes) {
        add_part(c, dim, at, s);
        at += s;
    }
}

Tensor join(const Grad& g, int64_t parts, const Value& dim) {
    std::vector<Tensor> grads;
    for (int64_t k = 0; k < parts; ++k) grads.push_back(g.grad_or_zeros(static_cast<int>(k)));
    return cat.over(grads, {dim});
}

Tensor split_gradient(const Grad& g) {
    Dims size = g.in_shape(0);
    int64_t whole = size[wrap_dim("split", g.attr(1).as_int(), size.size())], step = g.attr(0).as_int();
    return join(g, whole == 0 ? 1 : (whole + step - 1) / step, g.attr(1));
}

void chunk_body(Call& c) {
    const Tensor& self = c.in[0];
    static const Function split{"split"}, split_sizes{"split.sizes"};
    int64_t chunks = c.attr(0).as_int();
    WEFT_EXPECT(self.ndim() > 0, Runtime, c.name(), "at least a 1-dimensional tensor", "a 0-d tensor");
    WEFT_EXPECT(chunks > 0, Runtime, c.name(), "`chunks` greater than 0", std::to_string(chunks));
    int dim = wrap_dim(c.name(), c.attr(1).as_int(), self.ndim());
    int64_t size = self.size(dim), step = (size + chunks - 1) / chunks;
    std::vector<Tensor> parts;
    if (step == 0) parts = split_sizes.all({self}, {Dims(static_cast<int>(chunks)), int64_t{dim}});
    else parts = split.all({self}, {step, int64_t{dim}});
    for (Tensor& part : parts) c.add(std::move(part));
}

void unbind_shape(Call& c) {
    const Tensor& self = c.in[0];
    int dim = part_dim(c, c.attr(0));
    Dims shape = without(self.shape(), dim), strides = without(self.strides(), dim);
    for (int64_t i = 0; i < self.size(dim); ++i) add_view(c, shape, strides, i * self.stride(dim));
}

Tensor unbind_gradient(const Grad& g) {
    Dims size = g.in_shape(0);
    int64_t count = size[wrap_dim("unbind", g.attr(0).as_int(), size.size())];
    std::vector<Tensor> grads;
    for (int64_t k = 0; k < count; ++k) grads.push_back(g.grad_or_zeros(static_cast<int>(k)));
    return stack.over(grads, {g.attr(0)});
}

struct Diagonal {
    Dims shape, strides;
    int64_t offset;
};

Diagonal diagonal_of(std::string_view who, DimSpan shape, DimSpan strides, const Value* attrs) {
    int n = static_cast<int>(shape.size());
    int64_t k = attrs[0].as_int();
    int a = wrap_dim(who, attrs[1].as_int(), n), b = wrap_dim(who, attrs[2].as_int(), n);
    WEFT_EXPECT(a != b, Runtime, who, "two dimensions (diagonal dimensions cannot be identical)",
                text(attrs[1].as_int(), ", ", attrs[2].as_int()));
    int64_t length = k >= 0 ? std::min(shape[a], shape[b] - k) : std::min(shape[a] + k, shape[b]);
    length = std::max<int64_t>(length, 0);
    Diagonal out{without(shape, std::max(a, b)), without(strides, std::max(a, b)), 0};
    out.shape.erase(std::min(a, b));
    out.strides.erase(std::min(a, b));
    out.shape.push_back(length);
    out.strides.push_back(strides[a] + strides[b]);
    if (length) out.offset = k >= 0 ? k * strides[b] : -k * strides[a];
    return out;
}

void diagonal_shape(Call& c) {
    Diagonal d = diagonal_of(c.name(), c.in[0].shape(), c.in[0].strides(), &c.attr(0));
    add_view(c, d.shape, d.strides, d.offset);
}

// ---- any layout ---------------------------------------------------------------------------------

void as_strided_shape(Call& c) {
    const Tensor& self = c.in[0];
    DimSpan size = c.attr(0).as_ints(), stride = c.attr(1).as_ints();
    int64_t offset = c.attr(2).none() ? self.offset() : c.attr(2).as_int();
    WEFT_EXPECT(size.size() == stride.size(), Runtime, c.name(), "as many strides as sizes",
                text(to_string(size), " and ", to_string(stride)));
    WEFT_EXPECT(offset >= 0, Runtime, c.name(), "a storage_offset of at least 0", std::to_string(offset));
    int64_t last = offset;
    bool empty = false;
    for (size_t d = 0; d < size.size(); ++d) {
        WEFT_EXPECT(stride[d] >= 0, Runtime, c.name(), "strides of at least 0", to_string(stride));
        empty |= size[d] == 0;
        last += (size[d] - 1) * stride[d];
    }
    int64_t bytes = (last + 1) * item_size(self.dtype());
    WEFT_EXPECT(empty || bytes <= self.storage()->bytes, Runtime, c.name(),
                text("a layout inside the storage of ", self.storage()->bytes, " bytes"),
                text("sizes ", to_string(size), ", strides ", to_string(stride), ", storage offset ", offset,
                     ", requiring a storage size of ", bytes, " (out of bounds for storage)"));
    add_view(c, size, stride, offset - self.offset());
}

void unfold_shape(Call& c) {
    const Tensor& self = c.in[0];
    int dim = wrap_dim(c.name(), c.attr(0).as_int(), self.ndim());
    int64_t width = c.attr(1).as_int(), step = c.attr(2).as_int();
    int64_t length = self.ndim() ? self.size(dim) : 1, stride = self.ndim() ? self.stride(dim) : 1;
    WEFT_EXPECT(width >= 0 && width <= length, Runtime, c.name(),
                text("a size of at most ", length, " at dimension ", dim), std::to_string(width));
    WEFT_EXPECT(step > 0, Runtime, c.name(), "a step above 0", std::to_string(step));
    Dims shape(self.shape()), strides(self.strides());
    if (self.ndim()) {
        shape[dim] = (length - width) / step + 1;
        strides[dim] = stride * step;
    }
    shape.push_back(width);
    strides.push_back(stride);
    add_view(c, shape, strides);
}

/// Where elements lie: sizes, then strides, then the offset. (The attribute of as_strided_backward.)
Dims geometry(DimSpan size, DimSpan stride, int64_t offset) {
    Dims out(size);
    for (int64_t s : stride) out.push_back(s);
    out.push_back(offset);
    return out;
}

Tensor as_strided_gradient(const Grad& g) {
    Dims in = g.in_shape(0), layout = g.in_layout(0);
    int64_t from = layout.back();
    layout.pop_back();
    int64_t to = g.attr(2).none() ? from : g.attr(2).as_int();
    return as_strided_backward(g.grad(), geometry(g.attr(0).as_ints(), g.attr(1).as_ints(), to),
                               geometry(in, layout, from), false);
}

Tensor unfold_gradient(const Grad& g) {
    Dims in = g.in_shape(0), strides = contiguous_strides(in), from = strides;
    int dim = wrap_dim("unfold", g.attr(0).as_int(), in.size());
    from.push_back(in.empty() ? 1 : strides[dim]);
    if (!in.empty()) from[dim] *= g.attr(2).as_int();
    return as_strided_backward(g.grad(), geometry(g.out_shape(0), from, 0), geometry(in, strides, 0), false);
}

// ---- the gradients of parts ---------------------------------------------------------------------

void sized_shape(Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.attr(0).as_ints())); }

/// c.out(0) is zero but for the part under (shape, strides, offset), which is c.in[0].
void place(Call& c, DimSpan shape, DimSpan strides, int64_t offset) {
    const Tensor& out = c.out(0);
    std::memset(out.bytes(), 0, out.numel() * item_size(out.dtype()));
    copy_into(out.view_as(shape, strides, offset), c.in[0]);
}

void select_backward_kernel(Call& c) {
    const Tensor& out = c.out(0);
    int dim = wrap_dim("select", c.attr(1).as_int(), out.ndim());
    int64_t index = wrap_index("select", c.attr(2).as_int(), dim, out.size(dim));
    place(c, without(out.shape(), dim), without(out.strides(), dim), index * out.stride(dim));
}

void slice_backward_kernel(Call& c) {
    const Tensor& out = c.out(0);
    int dim = wrap_dim("slice", c.attr(1).as_int(), out.ndim());
    int64_t step = c.attr(4).as_int();
    Span span = slice_span("slice", out.size(dim), c.attr(2), c.attr(3), step);
    Dims shape(out.shape()), strides(out.strides());
    shape[dim] = span.count;
    strides[dim] *= step;
    place(c, shape, strides, span.start * out.stride(dim));
}

void diagonal_backward_kernel(Call& c) {
    Diagonal d = diagonal_of("diagonal", c.out(0).shape(), c.out(0).strides(), &c.attr(1));
    place(c, d.shape, d.strides, d.offset);
}

// ---- the gradient of any layout -------------------------------------------------------------------

/// Sizes, strides and offset out of one attribute.
struct Geometry {
    explicit Geometry(DimSpan packed) {
        size_t n = packed.size() / 2;
        size = packed.first(n);
        stride = packed.subspan(n, n);
        offset = packed[2 * n];
        for (size_t d = 0; d < n; ++d) {
            empty |= size[d] == 0;
            last += (size[d] - 1) * stride[d];
        }
        last += offset;
    }
    bool inside(const Geometry& other) const { return offset >= other.offset && last <= other.last; }
    bool dense() const { return is_contiguous(size, stride); }
    /// Whether two elements may share a place.
    bool overlaps() const {
        Dims order(static_cast<int>(size.size()));
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return stride[a] < stride[b]; });
        int64_t reach = 0;
        for (int64_t d : order) {
            if (size[d] == 1) continue;
            if (stride[d] <= reach) return true;
            reach += (size[d] - 1) * stride[d];
        }
        return false;
    }

    DimSpan size, stride;
    int64_t offset = 0, last = 0;
    bool empty = false;
};

void accumulate(const Tensor& memory, const Geometry& at, const Tensor& values) {
    Tensor from = as_contiguous(values);
    dispatch<NumberTypes>(memory.dtype(), "as_strided", [&]<class T>() {
        kernels::add_strided(memory.data<T>(), at.size, at.stride, from.data<T>());
    });
}

/// Note [Through memory]
/// as_strided reads memory that its input wrote. Backwards the gradient is added into that memory
/// under the layout of the view (source) and read under the layout of the input (target). Where
/// elements of the input share a place, each gets its part. The transpose of this map is the same
/// with source and target exchanged, hence `shared_source`: whose sharing counts.
void through_memory(const Tensor& out, const Tensor& values, const Geometry& source,
                    const Geometry& target, bool shared_source) {
    const Geometry& shared = shared_source ? source : target;
    bool divided = shared.overlaps();
    if (!divided && source.dense() && target.inside(source))
        return copy_into(out, as_contiguous(values).view_as(target.size, target.stride,
                                                            target.offset - source.offset));
    bool direct = !divided && target.dense() && source.inside(target);
    int64_t first = direct ? target.offset : std::min(source.offset, target.offset);
    Tensor memory = out;
    if (!direct) memory = Tensor::empty(out.dtype(), Dims{std::max(source.last, target.last) + 1 - first});
    std::memset(memory.bytes(), 0, memory.numel() * item_size(memory.dtype()));
    Tensor written = memory.view_as(source.size, source.stride, source.offset - first);
    if (source.overlaps()) accumulate(written, source, values);
    else copy_into(written, values);
    if (direct) return;
    if (divided) {
        Tensor counts = zeros(memory.shape(), memory.dtype()), one = Tensor::scalar(1, memory.dtype());
        accumulate(counts.view_as(shared.size, shared.stride, shared.offset - first), shared,
                   one.view_as(shared.size, Dims(static_cast<int>(shared.size.size()))));
        dispatch<NumberTypes>(memory.dtype(), "as_strided", [&]<class T>() {
            kernels::divide_by_counts(memory.data<T>(), counts.data<T>(), memory.numel());
        });
    }
    copy_into(out, memory.view_as(target.size, target.stride, target.offset - first));
}

void as_strided_backward_shape(Call& c) {
    c.add(Tensor::layout(c.in[0].dtype(), Geometry(c.attr(1).as_ints()).size));
}

void as_strided_backward_kernel(Call& c) {
    Geometry source(c.attr(0).as_ints()), target(c.attr(1).as_ints());
    if (target.empty) return;
    if (source.empty) {
        std::memset(c.out(0).bytes(), 0, c.out(0).numel() * item_size(c.out(0).dtype()));
        return;
    }
    through_memory(c.out(0), c.in[0], source, target, c.attr(2).as_bool());
}

// ---- records --------------------------------------------------------------------------------

void register_views(Table& t) {
    view_op(t, "select(Tensor self, int dim, int index) -> Tensor", select_shape,
            [](const Grad& g) { return select_backward(g.grad(), g.in_shape(0), g.attr(0), g.attr(1)); })
        .doc("One position along `dim`, which goes away. Raises IndexError out of range.\n\n"
             ">>> weft.arange(6).view(2, 3).select(1, -1)\ntensor([2, 5])")
        .samples({"f(T(2, 3), 0, 1)", "f(T(2, 3), -1, -1)", "f(T(3), 0, 0)"});
    view_op(t, "slice(Tensor self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor", slice_shape,
            [](const Grad& g) {
                return slice_backward(g.grad(), g.in_shape(0), g.attr(0), g.attr(1), g.attr(2), g.attr(3));
            })
        .doc("Positions start to end along `dim`, by Python's rule.").internal()
        .samples({"f(T(4, 3), 0, 1, 3)", "f(T(4, 3), 1, None, None, 2)", "f(T(4), 0, -3, 10)", "f(T(4), 0, 3, 1)"});
    t.add("narrow(Tensor self, int dim, int start, int length) -> Tensor").body(narrow_body)
        .doc("`length` positions from `start` along `dim`.\n\n>>> weft.arange(5).narrow(0, 1, 3)\n"
             "tensor([1, 2, 3])")
        .samples({"f(T(4, 3), 0, 1, 2)", "f(T(4, 3), -1, -2, 1)"});
    view_op(t, "split(Tensor self, int split_size, int dim=0) -> Tensor[]", split_shape, split_gradient)
        .doc("Views of `split_size` positions each along `dim` (the last may be shorter), or of the "
             "given sizes.\n\n>>> [p.tolist() for p in weft.arange(5).split(2)]\n[[0, 1], [2, 3], [4]]")
        .samples({"f(T(5, 2), 2)", "f(T(2, 4), 2, dim=-1)", "f(T(3), 5)"});
    auto by_sizes = [](const Grad& g) {
        return join(g, static_cast<int64_t>(g.attr(0).as_ints().size()), g.attr(1));
    };
    view_op(t, "split.sizes(Tensor self, int[] split_size, int dim=0) -> Tensor[]", split_sizes_shape, by_sizes)
        .doc("Views of the given sizes along `dim`.").node_name("SplitWithSizesBackward0")
        .samples({"f(T(5, 2), (2, 3))", "f(T(2, 4), (1, 0, 3), dim=1)"});
    view_op(t, "split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]", split_sizes_shape,
            by_sizes)
        .doc("Views of the given sizes along `dim`.").samples({"f(T(5, 2), (2, 3))"});
    t.add("chunk(Tensor self, int chunks, int dim=0) -> Tensor[]").body(chunk_body)
        .doc("At most `chunks` views of equal size along `dim` (the last may be shorter).\n\n"
             ">>> [p.tolist() for p in weft.arange(5).chunk(2)]\n[[0, 1, 2], [3, 4]]")
        .samples({"f(T(5, 2), 2)", "f(T(2, 4), 3, dim=-1)"});
    view_op(t, "unbind(Tensor self, int dim=0) -> Tensor[]", unbind_shape, unbind_gradient)
        .doc("Each position along `dim` as a view.\n\n>>> [p.item() for p in weft.arange(3).unbind()]\n"
             "[0, 1, 2]")
        .samples({"f(T(3, 2))", "f(T(2, 3), 1)", "f(T(2, 3), dim=-1)"});
    view_op(t, "diagonal(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor", diagonal_shape,
            [](const Grad& g) {
                return diagonal_backward(g.grad(), g.in_shape(0), g.attr(0), g.attr(1), g.attr(2));
            })
        .doc("The diagonal of dim1 and dim2 as the last dimension; offset > 0 lies above the main one.\n\n"
             ">>> weft.eye(2).diagonal()\ntensor([1., 1.])")
        .samples({"f(T(3, 4))", "f(T(3, 4), 1)", "f(T(2, 3, 4), -1, 0, -1)", "f(T(2, 2), 5)"});
    view_op(t, "unfold(Tensor self, int dimension, int size, int step) -> Tensor", unfold_shape, unfold_gradient)
        .doc("Windows of `size` positions, `step` apart, along `dimension`; they are the last dimension.\n\n"
             ">>> weft.arange(4).unfold(0, 2, 1).tolist()\n[[0, 1], [1, 2], [2, 3]]")
        .method_only().samples({"f(T(5), 0, 2, 1)", "f(T(2, 6), -1, 3, 2)", "f(T(5, 2), 0, 5, 1)"});
    view_op(t, "as_strided(Tensor self, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
            as_strided_shape, as_strided_gradient)
        .doc("Any layout over the tensor's storage; the offset counts from the storage's start.\n\n"
             ">>> weft.arange(4).as_strided((2, 2), (1, 1)).tolist()\n[[0, 1], [1, 2]]")
        .keep_shapes().samples({"f(T(6), (2, 3), (3, 1))", "f(T(4), (3, 2), (1, 1))", "f(T(6), (2,), (2,), 1)"});
}

}  // namespace

void register_part(Table& t) {
    register_views(t);
    t.add("as_strided_backward(Tensor grad, int[] source, int[] target, bool shared_source=False) -> Tensor")
        .doc("grad added into memory under one layout (sizes, strides, offset) and read under another: "
             "the gradient of as_strided and unfold.")
        .shape(as_strided_backward_shape).kernel(as_strided_backward_kernel).internal()
        .node_name("AsStridedBackwardBackward0")
        .grad(0, 0, [](const Grad& g) {
            return as_strided_backward(g.grad(), g.attr(1), g.attr(0), !g.attr(2).as_bool());
        })
        .samples({"f(T(3, 2), (3, 2, 1, 1, 0), (4, 1, 0))"});
    t.add("select_backward(Tensor grad_output, int[] input_sizes, int dim, int index) -> Tensor")
        .doc("Zeros of input_sizes with grad_output at `index` of `dim`: the gradient of select.")
        .shape(sized_shape).kernel(select_backward_kernel).internal()
        .node_name("SelectBackwardBackward0")
        .grad(0, 0, [](const Grad& g) { return select(g.grad(), g.attr(1), g.attr(2)); })
        .samples({"f(T(3), (2, 3), 0, 1)"});
    t.add("slice_backward(Tensor grad_output, int[] input_sizes, int dim, int? start, int? end, int step) -> Tensor")
        .doc("Zeros of input_sizes with grad_output in a slice of `dim`: the gradient of slice.")
        .shape(sized_shape).kernel(slice_backward_kernel).internal()
        .node_name("SliceBackwardBackward0")
        .grad(0, 0, [](const Grad& g) { return slice(g.grad(), g.attr(1), g.attr(2), g.attr(3), g.attr(4)); })
        .samples({"f(T(2, 3), (4, 3), 0, 1, 3, 1)"});
    t.add("diagonal_backward(Tensor grad_output, int[] input_sizes, int offset, int dim1, int dim2) -> Tensor")
        .doc("Zeros of input_sizes with grad_output on a diagonal: the gradient of diagonal.")
        .shape(sized_shape).kernel(diagonal_backward_kernel).internal()
        .node_name("DiagonalBackwardBackward0")
        .grad(0, 0, [](const Grad& g) {
            static const Function diagonal{"diagonal"};
            return diagonal(g.grad(), g.attr(1), g.attr(2), g.attr(3));
        })
        .samples({"f(T(3), (3, 4), 0, 0, 1)"});
}

}  // namespace weft
