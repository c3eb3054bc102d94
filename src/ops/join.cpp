/// Several tensors into one.
#include <algorithm>

#include "base/lock.h"
#include "kernels/copy.h"
#include "ops/batch.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/pointwise.h"
#include "ops/shape.h"

namespace weft {
namespace {

using namespace ops;

const Function unbind{"unbind"};

void require_some(const Call& c) {
    WEFT_EXPECT(c.inputs > 0, Runtime, c.name(), "tensors",
                text("none (", c.name(), " expects a non-empty TensorList)"));
}

/// PyTorch lets a 1-d tensor without elements stand for any shape in cat.
bool ignored(const Tensor& t) { return t.ndim() == 1 && t.size(0) == 0; }

const Tensor& model_of(const Call& c) {
    for (int i = 0; i < c.inputs; ++i)
        if (!ignored(c.in[i])) return c.in[i];
    return c.in[0];
}

void cat_shape(Call& c) {
    WEFT_EXPECT(c.inputs > 0, Value, c.name(), "tensors",
                "none (torch.cat(): expected a non-empty list of Tensors)");
    for (int i = 0; i < c.inputs; ++i)
        WEFT_EXPECT(
            c.in[i].ndim() > 0, Runtime, c.name(), "tensors with dimensions",
            text("a zero-dimensional tensor (at position ", i, "), which cannot be concatenated"),
            "stack() joins 0-d tensors");
    const Tensor& model = model_of(c);
    int dim = wrap_dim(c.name(), c.attr(0).as_int(), model.ndim());
    Dims shape(model.shape());
    shape[dim] = 0;
    bool alike = true;
    for (int i = 0; i < c.inputs; ++i) {
        const Tensor& t = c.in[i];
        alike &= t.dtype() == c.in[0].dtype();
        if (ignored(t)) continue;
        WEFT_EXPECT(t.ndim() == model.ndim(), Runtime, c.name(),
                    "tensors that differ in one dimension only",
                    text("another one at position ", i,
                         " (Tensors must have same number of dimensions: got ", model.ndim(),
                         " and ", t.ndim(), ")"));
        for (int d = 0; d < model.ndim(); ++d)
            WEFT_EXPECT(d == dim || t.size(d) == model.size(d), Runtime, c.name(),
                        text("size ", model.size(d), " at dimension ", d),
                        text(t.size(d), " (Sizes of tensors must match except in dimension ", dim,
                             ". Expected size ", model.size(d), " but got size ", t.size(d),
                             " for tensor number ", i, " in the list.)"));
        shape[dim] = size_sum(c.name(), shape[dim], t.size(dim));
    }
    c.add(Tensor::layout(alike ? c.in[0].dtype() : promoted(c.in, c.inputs), shape));
}

bool is_plain(const Tensor& t, DType dtype) { return t.contiguous() && t.dtype() == dtype; }

/// Inputs that lie densely in the result's dtype, each `width(t)` bytes in every row. False if
/// there are others.
template <class Width>
bool concatenated(Call& c, int64_t outer, Width&& width) {
    SmallVector<kernels::Part, 8> parts;
    for (int i = 0; i < c.inputs; ++i) {
        if (c.in[i].numel() == 0) continue;
        if (!is_plain(c.in[i], c.out(0).dtype())) return false;
        parts.push_back({c.in[i].bytes(), width(c.in[i])});
    }
    Unlocked unlocked(c.out(0).numel());
    kernels::concatenate(c.out(0).bytes(), {parts.data(), static_cast<size_t>(parts.size())}, outer,
                         item_size(c.out(0).dtype()));
    return true;
}

/// Each input into its part of the output, seen as [outer, its size along dim, inner].
void cat_kernel(Call& c) {
    const Tensor& out = c.out(0);
    if (out.numel() == 0) return;
    int dim = wrap_dim(c.name(), c.attr(0).as_int(), out.ndim());
    int64_t outer = 1, inner = item_size(out.dtype());
    for (int d = 0; d < dim; ++d) outer *= out.size(d);
    for (int d = dim + 1; d < out.ndim(); ++d) inner *= out.size(d);
    if (concatenated(c, outer, [&](const Tensor& t) { return inner * t.size(dim); })) return;
    int64_t at = 0;
    for (int i = 0; i < c.inputs; ++i) {
        const Tensor& t = c.in[i];
        if (t.numel() == 0) continue;
        copy_into(out.view_as(t.shape(), out.strides(), at * out.stride(dim)), t);
        at += t.size(dim);
    }
}

void cat_gradient(Grad& g) {
    int64_t at = 0;
    for (int i = 0; i < g.inputs(); ++i) {
        Dims shape = g.in_shape(i);
        if (shape.size() == 1 && shape[0] == 0) {
            g.set(i, zeros(shape, g.grad().dtype()));
            continue;
        }
        int64_t size = shape[wrap_dim("cat", g.attr(0).as_int(), shape.size())];
        if (g.needs(i)) g.set(i, slice(g.grad(), g.attr(0), at, at + size));
        at += size;
    }
}

void stack_shape(Call& c) {
    require_some(c);
    const Tensor& first = c.in[0];
    int dim = wrap_dim(c.name(), c.attr(0).as_int(), first.ndim() + 1);
    bool alike = true;
    for (int i = 1; i < c.inputs; ++i) {
        WEFT_EXPECT(equal(c.in[i].shape(), first.shape()), Runtime, c.name(),
                    "tensors of one shape",
                    text("others (stack expects each tensor to be equal size, but got ",
                         to_string(first.shape()), " at entry 0 and ", to_string(c.in[i].shape()),
                         " at entry ", i, ")"));
        alike &= c.in[i].dtype() == first.dtype();
    }
    Dims shape(first.shape());
    shape.insert(dim, c.inputs);
    c.add(Tensor::layout(alike ? first.dtype() : promoted(c.in, c.inputs), shape));
}

void stack_kernel(Call& c) {
    const Tensor& out = c.out(0);
    if (out.numel() == 0) return;
    int dim = wrap_dim(c.name(), c.attr(0).as_int(), out.ndim());
    int64_t outer = 1;
    for (int d = 0; d < dim; ++d) outer *= out.size(d);
    int64_t width = out.numel() / outer / c.inputs * item_size(out.dtype());
    if (concatenated(c, outer, [&](const Tensor&) { return width; })) return;
    Dims strides = without(out.strides(), dim);
    for (int i = 0; i < c.inputs; ++i)
        copy_into(out.view_as(c.in[i].shape(), strides, i * out.stride(dim)), c.in[i]);
}

void stack_gradient(Grad& g) {
    auto parts = unbind.all({g.grad()}, {g.attr(0)});
    for (int i = 0; i < g.inputs(); ++i) g.set(i, std::move(parts[i]));
}

/// The inputs with at least `dims` dimensions, new ones as numpy's atleast_nd puts them.
std::vector<Tensor> with_dims(const Call& c, int dims) {
    std::vector<Tensor> out(c.in, c.in + c.inputs);
    for (Tensor& t : out) {
        if (t.ndim() == 0 && dims > 0) t = reshape(t, Dims{1});
        if (t.ndim() == 1 && dims > 1) t = unsqueeze(t, 0);
        if (t.ndim() == 2 && dims > 2) t = unsqueeze(t, 2);
    }
    return out;
}

// ---- along the diagonal ------------------------------------------------------------------------

void block_diag_shape(Call& c) {
    require_some(c);
    const Tensor& first = c.in[0];
    const int lead = first.ndim() - 2;
    WEFT_EXPECT(lead >= 0, Runtime, c.name(), "matrices", to_string(first.shape()));
    Dims shape(first.shape());
    shape[lead] = shape[lead + 1] = 0;
    for (int i = 0; i < c.inputs; ++i) {
        const Tensor& t = c.in[i];
        bool fits = t.ndim() == first.ndim() && t.dtype() == first.dtype();
        for (int d = 0; fits && d < lead; ++d) fits = t.size(d) == first.size(d);
        WEFT_EXPECT(fits, Runtime, c.name(),
                    text("matrices like ", name(first.dtype()), to_string(first.shape())),
                    text(name(t.dtype()), to_string(t.shape())));
        for (int d : {lead, lead + 1}) shape[d] = size_sum(c.name(), shape[d], t.size(d));
    }
    c.add(Tensor::layout(first.dtype(), shape));
}

/// Each row once: zeros, the row of a block, zeros.
void block_diag_kernel(Call& c) {
    const Tensor& out = c.out(0);
    if (out.numel() == 0) return;
    const int row = out.ndim() - 2, item = item_size(out.dtype());
    const int64_t width = out.size(row + 1) * item;
    const int64_t matrices = out.numel() / out.size(row) / out.size(row + 1);
    std::vector<Tensor> blocks;
    for (int i = 0; i < c.inputs; ++i) blocks.push_back(as_contiguous(c.in[i]));
    Unlocked unlocked(out.numel());
    char* to = out.bytes();
    for (int64_t k = 0; k < matrices; ++k) {
        int64_t before = 0;
        for (const Tensor& block : blocks) {
            const int64_t rows = block.size(row), bytes = block.size(row + 1) * item;
            const char* from = block.bytes() + k * rows * bytes;
            const kernels::Part parts[] = {
                {nullptr, before}, {from, bytes}, {nullptr, width - before - bytes}};
            kernels::concatenate(to, parts, rows, item);
            to += rows * width;
            before += bytes;
        }
    }
}

void block_diag_gradient(Grad& g) {
    int64_t row = 0, column = 0;
    for (int i = 0; i < g.inputs(); ++i) {
        const Dims shape = g.in_shape(i);
        const int64_t below = row + shape[shape.size() - 2],
                      behind = column + shape[shape.size() - 1];
        if (g.needs(i)) g.set(i, slice(slice(g.grad(), -2, row, below), -1, column, behind));
        row = below;
        column = behind;
    }
}

void hstack_body(Call& c) {
    require_some(c);
    auto parts = with_dims(c, 1);
    c.set(cat.over(parts, {parts[0].ndim() == 1 ? 0 : 1}));
}

}  // namespace

namespace {

bool block_diag_rows(const BatchCall& c, BatchForm& form) {
    const auto lead = static_cast<size_t>(c.in(0).ndim() - 2);
    for (int i = 0; i < c.inputs(); ++i) {
        if (c.in(i).numel() == 0) return false;
        form.add_rows(i, c.in(i).shape().subspan(lead));
    }
    form.rows = 1;
    for (int64_t n : c.in(0).shape().first(lead)) form.rows *= n;
    return true;
}

/// Where the inputs lie one after the other in the result, a call is only copies (Batch::Join).
bool cat_rows(const BatchCall& c, BatchForm& form) {
    for (int i = 1; i < c.inputs(); ++i)
        if (c.in(i).ndim() != c.in(0).ndim() || c.in(i).dtype() != c.in(0).dtype()) return false;
    return batch_along<0>(c, form);
}
bool stack_rows(const BatchCall& c, BatchForm& form) {
    int n = c.in(0).ndim() + 1, dim = wrap_dim("stack", c.attr(0).as_int(), n);
    for (int i = 0; i < c.inputs(); ++i) {
        if (c.in(i).dtype() != c.in(0).dtype() || c.in(i).numel() == 0) return false;
        form.add_rows(i, c.in(i).shape().subspan(static_cast<size_t>(dim)));
    }
    form.rows = 1;
    for (int d = 0; d < dim; ++d) form.rows *= c.in(0).size(d);
    form.attrs[0] = dim - n;
    return true;
}

}  // namespace

void register_join(Table& t) {
    t.add("cat(Tensor[] tensors, int dim=0) -> Tensor")
        .doc(
            "The tensors behind each other along `dim`; other sizes agree, dtypes are promoted.\n\n"
            ">>> weft.cat([weft.zeros(1), weft.ones(2)])\ntensor([0., 1., 1.])")
        .shape(cat_shape)
        .kernel(cat_kernel)
        .every_dtype()
        .batch(cat_rows)
        .batch(Batch::Join)
        .function_only()
        .out_form()
        .apart()
        .keep_shapes()
        .joint_grad(0, cat_gradient)
        .alias("concat")
        .alias("concatenate")
        .samples({"f([T(2, 3), T(1, 3)])", "f([T(2, 3), T(2, 1)], -1)", "f([T(2), T(0)])",
                  "f([T(2, 3)], dim=0)"});
    t.add("stack(Tensor[] tensors, int dim=0) -> Tensor")
        .doc("Tensors of one shape along a new dimension.\n\n>>> weft.stack([weft.zeros(2), "
             "weft.ones(2)])\n"
             "tensor([[0., 0.],\n        [1., 1.]])")
        .shape(stack_shape)
        .kernel(stack_kernel)
        .every_dtype()
        .batch(stack_rows)
        .batch(Batch::Join)
        .function_only()
        .out_form()
        .apart()
        .joint_grad(0, stack_gradient)
        .samples({"f([T(2, 3), T(2, 3)])", "f([T(2), T(2)], -1)", "f([T(), T()])", "f([T(0, 2)])"});
    t.add("_block_diag(Tensor[] tensors) -> Tensor")
        .doc("Matrices of one dtype along the diagonal of another, zeros elsewhere.\n"
             "[*, n, m] and [*, k, l] give [*, n + k, m + l].")
        .shape(block_diag_shape)
        .kernel(block_diag_kernel)
        .every_dtype()
        .batch(block_diag_rows)
        .internal()
        .in_packages()
        .node_name("BlockDiagBackward0")
        .keep_shapes()
        .joint_grad(0, block_diag_gradient)
        .samples({"f([T(2, 3), T(1, 2)])", "f([T(2, 3, 1), T(2, 1, 4), T(2, 2, 2)])",
                  "f([T(0, 2), T(2, 1)])"});
    t.add("hstack(Tensor[] tensors) -> Tensor")
        .body(hstack_body)
        .batch(Batch::Body)
        .doc("cat along dimension 1, or 0 for 1-d tensors.\n"
             "[n, a, *] and [n, b, *] give [n, a + b, *].\n"
             ">>> weft.hstack([weft.tensor([1, 2]), weft.tensor([3])])\n"
             "tensor([1, 2, 3])")
        .function_only()
        .samples({"f([T(2, 3), T(2, 1)])", "f([T(2), T()])"});
    t.add("vstack(Tensor[] tensors) -> Tensor")
        .body([](Call& c) {
            require_some(c);
            c.set(cat.over(with_dims(c, 2), {0}));
        })
        .batch(Batch::Body)
        .doc("cat along dimension 0; 1-d tensors are rows.\n"
             "[a, *] and [b, *] give [a + b, *].\n"
             ">>> weft.vstack([weft.tensor([1, 2]), weft.tensor([3, 4])])\n"
             "tensor([[1, 2],\n"
             "        [3, 4]])")
        .function_only()
        .alias("row_stack")
        .samples({"f([T(2, 3), T(3)])"});
    t.add("dstack(Tensor[] tensors) -> Tensor")
        .body([](Call& c) {
            require_some(c);
            c.set(cat.over(with_dims(c, 3), {2}));
        })
        .batch(Batch::Body)
        .doc("cat along dimension 2; 1-d and 2-d tensors get it as a new one.\n"
             "k times [n] give [1, n, k], k times [m, n] give [m, n, k].\n"
             ">>> weft.dstack([weft.tensor([1, 2]), weft.tensor([3, 4])])\n"
             "tensor([[[1, 3],\n"
             "         [2, 4]]])")
        .function_only()
        .samples({"f([T(2, 3), T(2, 3)])", "f([T(3), T(3)])"});
}

}  // namespace weft
