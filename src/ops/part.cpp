/// Views of a part of a tensor, and the gradients that put the parts back.
#include <cstring>

#include "ops/batch.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/shape.h"

namespace weft {
namespace {

using namespace ops;

const Function select_backward{"select_backward"}, diagonal_backward{"diagonal_backward"};

int part_dim(const Call& c, const Value& dim) {
    WEFT_EXPECT(c.in[0].ndim() > 0, Index, c.name(), "a tensor with dimensions",
                text(c.name(), "() cannot be applied to a 0-dim tensor"));
    return wrap_dim(c.name(), dim.as_int(), c.in[0].ndim());
}

void select_shape(Call& c) {
    const Tensor& self = c.in[0];
    int dim = part_dim(c, c.attr(0));
    const int64_t given = c.attr(1).as_int(), size = self.size(dim);
    WEFT_EXPECT(given >= -size && given < size, Index, c.name(),
                "a position that the dimension has",
                text(given, " (select(): index ", given, " out of range for tensor of size ",
                     to_string(self.shape()), " at dimension ", dim, ")"));
    const int64_t index = given < 0 ? given + size : given;
    add_view(c, without(self.shape(), dim), without(self.strides(), dim), index * self.stride(dim));
}

void first_shape(Call& c) {
    const Tensor& self = c.in[0];
    WEFT_EXPECT(self.ndim() > 0 && self.size(0) > 0, Index, c.op->name,
                "a first position along dim 0", text("shape ", to_string(self.shape())));
    add_view(c, self.shape().subspan(1), self.strides().subspan(1));
}

void slice_shape(Call& c) {
    const Tensor& self = c.in[0];
    int dim = part_dim(c, c.attr(0));
    int64_t step = c.attr(3).as_int();
    Slice span = slice_span(c.name(), self.size(dim), c.attr(1), c.attr(2), step);
    Dims shape(self.shape()), strides(self.strides());
    shape[dim] = span.count;
    strides[dim] = stepped_stride(strides[dim], step, span.count);
    add_view(c, shape, strides, span.start * self.stride(dim));
}

void narrow_body(Call& c) {
    const Tensor& self = c.in[0];
    WEFT_EXPECT(self.ndim() > 0, Runtime, c.name(), "a tensor with dimensions",
                "a 0-d one (narrow() cannot be applied to a 0-dim tensor.)");
    int dim = wrap_dim(c.name(), c.attr(0).as_int(), self.ndim());
    int64_t start = c.attr(1).as_int(), length = c.attr(2).as_int(), size = self.size(dim);
    WEFT_EXPECT(length >= 0, Runtime, c.name(), "a length of at least 0", std::to_string(length));
    WEFT_EXPECT(start >= -size && start <= size, Index, c.name(), "a start in the dimension",
                text(start, " (start out of range (expected to be in range of [", -size, ", ", size,
                     "], but got ", start, "))"));
    if (start < 0) start += size;
    WEFT_EXPECT(
        length <= size - start, Runtime, c.name(), text("start + length of at most ", size),
        text("start (", start, ") + length (", length, ") exceeds dimension size (", size, ")"));
    c.set(slice(self, dim, start, start + length));
}

/// Adds a view of `count` positions from `start` along `dim`. Most parts look like the one before.
void add_part(Call& c, int dim, int64_t start, int64_t count) {
    const Tensor& self = c.in[0];
    int64_t offset = start * self.stride(dim);
    if (c.outputs > 0 && c.out(c.outputs - 1).size(dim) == count)
        return c.add_view(Tensor::layout_like(c.out(c.outputs - 1), self.dtype()), offset);
    Dims shape(self.shape());
    shape[dim] = count;
    add_view(c, shape, self.strides(), offset);
}

void split_shape(Call& c) {
    const Tensor& self = c.in[0];
    WEFT_EXPECT(self.ndim() > 0, Runtime, c.name(), "at least a 1-dimensional tensor",
                "a 0-d tensor");
    int dim = wrap_dim(c.name(), c.attr(1).as_int(), self.ndim());
    int64_t step = c.attr(0).as_int(), size = self.size(dim);
    WEFT_EXPECT(
        step >= 0, Runtime, c.name(), "a size",
        text(step, " (split expects split_size be non-negative, but got split_size=", step, ")"));
    WEFT_EXPECT(step > 0 || size == 0, Runtime, c.name(),
                "a split_size of 0 only for dimension size 0", text("dimension size of ", size));
    if (size == 0) return add_part(c, dim, 0, 0);
    check_parts(c.name(), (size - 1) / step + 1);
    for (int64_t at = 0; at < size; at += step) add_part(c, dim, at, std::min(step, size - at));
}

void split_sizes_shape(Call& c) {
    const Tensor& self = c.in[0];
    WEFT_EXPECT(self.ndim() > 0, Runtime, c.name(), "at least a 1-dimensional tensor",
                "a 0-d tensor");
    int dim = wrap_dim(c.name(), c.attr(1).as_int(), self.ndim());
    DimSpan sizes = c.attr(0).as_ints();
    int64_t sum = 0;
    for (int64_t s : sizes) {
        WEFT_EXPECT(s >= 0, Runtime, c.name(), "split_sizes with only non-negative entries",
                    to_string(sizes));
        sum = size_sum(c.name(), sum, s);
    }
    WEFT_EXPECT(sum == self.size(dim), Runtime, c.name(), "sizes of all parts",
                text("others (split_with_sizes expects split_sizes to sum exactly to ",
                     self.size(dim), " (input tensor's size at dimension ", dim,
                     "), but got split_sizes=", to_string(sizes), ")"));
    int64_t at = 0;
    for (int64_t s : sizes) {
        add_part(c, dim, at, s);
        at += s;
    }
}

Tensor join(const Grad& g, int64_t parts, const Value& dim) {
    std::vector<Tensor> grads;
    grads.reserve(static_cast<size_t>(parts));
    for (int64_t k = 0; k < parts; ++k) grads.push_back(g.grad_or_zeros(static_cast<int>(k)));
    return cat.over(grads, {dim});
}

Tensor split_gradient(const Grad& g) {
    Dims size = g.in_shape(0);
    int64_t whole = size[wrap_dim("split", g.attr(1).as_int(), size.size())],
            step = g.attr(0).as_int();
    return join(g, whole == 0 ? 1 : (whole - 1) / step + 1, g.attr(1));
}

void chunk_body(Call& c) {
    const Tensor& self = c.in[0];
    static const Function split{"split"}, split_sizes{"split.sizes"};
    int64_t chunks = c.attr(0).as_int();
    WEFT_EXPECT(self.ndim() > 0, Runtime, c.name(), "at least a 1-dimensional tensor",
                "a 0-d tensor");
    WEFT_EXPECT(chunks > 0, Runtime, c.name(), "parts",
                text("none (chunk expects `chunks` to be greater than 0, got: ", chunks, ")"));
    int dim = wrap_dim(c.name(), c.attr(1).as_int(), self.ndim());
    int64_t size = self.size(dim), step = size / chunks + (size % chunks != 0);
    if (step == 0) check_parts(c.name(), chunks);
    const Value attrs[] = {step == 0 ? Value(Dims(static_cast<int>(chunks))) : Value(step), dim};
    Call parts(step == 0 ? split_sizes.op() : split.op(), &self, 1, attrs);
    call(parts);
    c.take(parts);
}

void unbind_shape(Call& c) {
    const Tensor& self = c.in[0];
    int dim = part_dim(c, c.attr(0));
    Dims shape = without(self.shape(), dim), strides = without(self.strides(), dim);
    check_parts(c.name(), self.size(dim));
    for (int64_t i = 0; i < self.size(dim); ++i) add_view(c, shape, strides, i * self.stride(dim));
}

Tensor unbind_gradient(const Grad& g) {
    Dims size = g.in_shape(0);
    int64_t count = size[wrap_dim("unbind", g.attr(0).as_int(), size.size())];
    std::vector<Tensor> grads;
    grads.reserve(static_cast<size_t>(count));
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
    WEFT_EXPECT(a != b, Runtime, who, "two dimensions",
                text("one (diagonal dimensions cannot be identical ", attrs[1].as_int(), ", ",
                     attrs[2].as_int(), ")"));
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

// ---- the gradients of parts --------------------------------------------------------------------

void sized_as_shape(Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.attr(0).as_ints())); }

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
    Slice span = slice_span("slice", out.size(dim), c.attr(2), c.attr(3), step);
    Dims shape(out.shape()), strides(out.strides());
    shape[dim] = span.count;
    strides[dim] *= step;
    place(c, shape, strides, span.start * out.stride(dim));
}

void diagonal_backward_kernel(Call& c) {
    Diagonal d = diagonal_of("diagonal", c.out(0).shape(), c.out(0).strides(), &c.attr(1));
    place(c, d.shape, d.strides, d.offset);
}

// ---- gradients by parts (Note [Sums of parts] in grad_buffer.h)

void add_select(const Tensor& sum, const Tensor& grad, const Tensor&, const Value* attrs, int) {
    int dim = wrap_dim("select", attrs[0].as_int(), sum.ndim());
    int64_t index = wrap_index("select", attrs[1].as_int(), dim, sum.size(dim));
    add_into(sum.view_as(without(sum.shape(), dim), without(sum.strides(), dim),
                         index * sum.stride(dim)),
             grad);
}
void select_gradient(Grad& g) {
    if (!g.set_part(0, g.grad(), add_select))
        g.set(0, select_backward(g.grad(), g.in_shape(0), g.attr(0), g.attr(1)));
}

void add_slice(const Tensor& sum, const Tensor& grad, const Tensor&, const Value* attrs, int) {
    int dim = wrap_dim("slice", attrs[0].as_int(), sum.ndim());
    int64_t step = attrs[3].as_int();
    Slice span = slice_span("slice", sum.size(dim), attrs[1], attrs[2], step);
    Dims strides(sum.strides());
    strides[dim] *= step;
    add_into(sum.view_as(grad.shape(), strides, span.start * sum.stride(dim)), grad);
}
void slice_gradient(Grad& g) {
    if (!g.set_part(0, g.grad(), add_slice))
        g.set(0,
              slice_backward(g.grad(), g.in_shape(0), g.attr(0), g.attr(1), g.attr(2), g.attr(3)));
}

// ---- records -----------------------------------------------------------------------------------

bool diagonal_rows(const BatchCall& c, BatchForm& form) {
    const Tensor& x = c.in(0);
    if (c.call.out(0).numel() == 0) return false;
    int first = x.ndim();
    for (int k : {1, 2}) {
        int d = wrap_dim("diagonal", c.attr(k).as_int(), x.ndim());
        first = std::min(first, d);
        form.attrs[static_cast<size_t>(k)] = d - x.ndim();
    }
    form.add_rows(0, x.shape().subspan(static_cast<size_t>(first)));
    for (int d = 0; d < first; ++d) form.rows *= x.size(d);
    return true;
}

void register_views(Table& t) {
    view_op(t, "select(Tensor self, int dim, int index) -> Tensor", select_shape, nullptr)
        .joint_grad(0, select_gradient)
        .batch(batch_along<0>)
        .doc("One position along `dim`, which goes away. Raises IndexError out of range.\n"
             "[*, n, *] gives [*, *].\n"
             ">>> weft.arange(6).view(2, 3).select(1, -1)\n"
             "tensor([2, 5])")
        .samples({"f(T(2, 3), 0, 1)", "f(T(2, 3), -1, -1)", "f(T(3), 0, 0)"});
    view_op(t, "_first(Tensor self) -> Tensor", first_shape,
            [](const Grad& g) {
                return select_backward(g.grad(), g.in_shape(0), int64_t{0}, int64_t{0});
            })
        .batch(Batch::None)
        .doc("The first position along dim 0: what a value of all examples is in the first one.\n"
             "Who asks for its gradient gets that of all uses of the value (Note [Taken values]).")
        .internal()
        .node_name("SelectBackward0")
        .samples({"f(T(2, 3))", "f(T(3))"});
    view_op(t,
            "slice(Tensor self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
            slice_shape, nullptr)
        .batch(batch_along<0>)
        .joint_grad(0, slice_gradient)
        .doc("Positions start to end along `dim`, by Python's rule: its size becomes\n"
             "ceil((end - start) / step).\n"
             ">>> weft.slice_copy(weft.arange(5), 0, 1, 3)\n"
             "tensor([1, 2])")
        .internal()
        .in_packages()
        .samples({"f(T(4, 3), 0, 1, 3)", "f(T(4, 3), 1, None, None, 2)", "f(T(4), 0, -3, 10)",
                  "f(T(4), 0, 3, 1)"});
    t.add("narrow(Tensor self, int dim, int start, int length) -> Tensor")
        .body(narrow_body)
        .batch(Batch::Body)
        .doc("`length` positions from `start` along `dim`.\n\n>>> weft.arange(5).narrow(0, 1, 3)\n"
             "tensor([1, 2, 3])")
        .samples({"f(T(4, 3), 0, 1, 2)", "f(T(4, 3), -1, -2, 1)"});
    view_op(t, "split(Tensor self, int split_size, int dim=0) -> Tensor[]", split_shape,
            split_gradient)
        .alias_of("self", "tensor")
        .alias_of("split_size", "split_size_or_sections")
        .batch(batch_along<1>)
        .doc(
            "Views of `split_size` positions each along `dim` (the last may be shorter), or of the "
            "given sizes.\n\n>>> [p.tolist() for p in weft.arange(5).split(2)]\n[[0, 1], [2, 3], "
            "[4]]")
        .samples({"f(T(5, 2), 2)", "f(T(2, 4), 2, dim=-1)", "f(T(3), 5)"});
    auto by_sizes = [](const Grad& g) {
        return join(g, static_cast<int64_t>(g.attr(0).as_ints().size()), g.attr(1));
    };
    view_op(t, "split.sizes(Tensor self, int[] split_size, int dim=0) -> Tensor[]",
            split_sizes_shape, by_sizes)
        .alias_of("self", "tensor")
        .alias_of("split_size", "split_size_or_sections")
        .batch(batch_along<1>)
        .doc("Views of the given sizes along `dim`.")
        .node_name("SplitWithSizesBackward0")
        .samples({"f(T(5, 2), (2, 3))", "f(T(2, 4), (1, 0, 3), dim=1)"});
    view_op(t, "split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]",
            split_sizes_shape, by_sizes)
        .batch(batch_along<1>)
        .doc("Views of the given sizes along `dim`.\n"
             "RuntimeError unless they add up to the size of `dim`.\n"
             ">>> weft.split_with_sizes(weft.arange(3), [1, 2])\n"
             "(tensor([0]), tensor([1, 2]))")
        .samples({"f(T(5, 2), (2, 3))", "f(T(2, 5), (2, 3), 1)"});
    t.add("chunk(Tensor self, int chunks, int dim=0) -> Tensor[]")
        .body(chunk_body)
        .batch(Batch::Body)
        .doc("At most `chunks` views of equal size along `dim` (the last may be shorter).\n\n"
             ">>> [p.tolist() for p in weft.arange(5).chunk(2)]\n[[0, 1, 2], [3, 4]]")
        .samples({"f(T(5, 2), 2)", "f(T(2, 4), 3, dim=-1)"});
    view_op(t, "unbind(Tensor self, int dim=0) -> Tensor[]", unbind_shape, unbind_gradient)
        .batch(batch_along<0>)
        .doc("Each position along `dim` as a view. n of shape [*, *] of one [*, n, *].\n"
             ">>> [p.item() for p in weft.arange(3).unbind()]\n"
             "[0, 1, 2]")
        .samples({"f(T(3, 2))", "f(T(2, 3), 1)", "f(T(2, 3), dim=-1)"});
    view_op(t, "diagonal(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
            diagonal_shape,
            [](const Grad& g) {
                return diagonal_backward(g.grad(), g.in_shape(0), g.attr(0), g.attr(1), g.attr(2));
            })
        .batch(diagonal_rows)
        .doc("The diagonal of dim1 and dim2 as the last dimension; offset > 0 lies above the main "
             "one.\n\n"
             ">>> weft.eye(2).diagonal()\ntensor([1., 1.])")
        .samples({"f(T(3, 4))", "f(T(3, 4), 1)", "f(T(2, 3, 4), -1, 0, -1)", "f(T(2, 2), 5)"});
}

}  // namespace

void register_part(Table& t) {
    register_views(t);
    t.add("select_backward(Tensor grad_output, int[] input_sizes, int dim, int index) -> Tensor")
        .doc("Zeros of input_sizes with grad_output at `index` of `dim`: the gradient of select.")
        .shape(sized_as_shape)
        .kernel(select_backward_kernel)
        .every_dtype()
        .internal()
        .node_name("SelectBackwardBackward0")
        .grad(0, 0, [](const Grad& g) { return select(g.grad(), g.attr(1), g.attr(2)); })
        .samples({"f(T(3), (2, 3), 0, 1)"});
    t.add("slice_backward(Tensor grad_output, int[] input_sizes, int dim, int? start, int? end, "
          "int step) -> Tensor")
        .doc("Zeros of input_sizes with grad_output in a slice of `dim`: the gradient of slice.")
        .shape(sized_as_shape)
        .kernel(slice_backward_kernel)
        .every_dtype()
        .internal()
        .node_name("SliceBackwardBackward0")
        .grad(0, 0,
              [](const Grad& g) {
                  return slice(g.grad(), g.attr(1), g.attr(2), g.attr(3), g.attr(4));
              })
        .samples({"f(T(2, 3), (4, 3), 0, 1, 3, 1)"});
    t.add("diagonal_backward(Tensor grad_output, int[] input_sizes, int offset, int dim1, int "
          "dim2) -> Tensor")
        .doc("Zeros of input_sizes with grad_output on a diagonal: the gradient of diagonal.")
        .shape(sized_as_shape)
        .kernel(diagonal_backward_kernel)
        .every_dtype()
        .internal()
        .node_name("DiagonalBackwardBackward0")
        .grad(0, 0,
              [](const Grad& g) {
                  static const Function diagonal{"diagonal"};
                  return diagonal(g.grad(), g.attr(1), g.attr(2), g.attr(3));
              })
        .samples({"f(T(3), (3, 4), 0, 0, 1)"});
}

}  // namespace weft
