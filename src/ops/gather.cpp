/// Reading and writing one element per index: gather, scatter, take, put. See Note [Lines] in
/// kernels/index.h.
#include <cstring>

#include "base/lock.h"
#include "ops/batch.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/lines.h"
#include "ops/shape.h"

namespace weft {
namespace {

using namespace ops;
using kernels::Combine;

const Function scatter_op{"scatter.value"}, take_op{"take"}, put_op{"put"}, wrap_op{"_wrap_index"};

// ---- gather and scatter ------------------------------------------------------------------------

void gather_shape(Call& c) {
    check_index(c, c.in[1], c.in[0].shape(), checked_dim(c), "self");
    c.add(Tensor::layout(c.in[0].dtype(), c.in[1].shape()));
}

void gather_kernel(Call& c) {
    const Tensor& out = c.out(0);
    if (out.numel() == 0) return;
    LinesOf l(c, c.in[1], c.in[0], out, checked_dim(c));
    Unlocked unlocked(out.numel());
    kernels::gather_lines(out.bytes(), c.in[0].bytes(), l.at(), l.lines, item_size(out.dtype()));
}

void scatter_into(const Tensor& out, const Tensor& source, const LinesOf& l, Combine how) {
    Unlocked unlocked(l.index.numel());
    dispatch_computed(out.dtype(), "scatter", [&]<class T>() {
        kernels::scatter_lines(out.data<T>(), source.data<T>(), l.at(), l.lines, how);
    });
}

/// Inputs grad, index; attributes dim, size.
void gather_backward_kernel(Call& c) {
    const Tensor& out = c.out(0);
    std::memset(out.bytes(), 0, out.numel() * item_size(out.dtype()));
    if (c.in[1].numel() == 0) return;
    int dim = wrap_dim(c.name(), c.attr(0).as_int(), out.ndim());
    LinesOf l(c, c.in[1], out, c.in[0], dim);
    scatter_into(out, c.in[0], l, Combine::Add);
}

Combine combine_of(const Call& c, const Value& reduce) {
    if (reduce.none()) return Combine::Set;
    const std::string& how = reduce.as_text();
    WEFT_EXPECT(how == "add" || how == "multiply", Runtime, c.name(),
                "reduce to be either add or multiply", how);
    return how == "add" ? Combine::Add : Combine::Multiply;
}

void scatter_shape(Call& c) {
    const Tensor &self = c.in[0], &index = c.in[1], &src = c.in[2];
    int dim = checked_dim(c);
    check_index(c, index, self.shape(), dim, "self");
    WEFT_EXPECT(
        src.dtype() == self.dtype(), Runtime, c.name(), "src of self's dtype",
        text(name(src.dtype()), " (scatter(): Expected self.dtype to be equal to src.dtype)"));
    check_index(c, index, src.shape(), -1, "src");
    c.add(Tensor::layout(self.dtype(), self.shape()));
}

template <Combine How>
void scatter_kernel(Call& c) {
    Combine how = How;
    if constexpr (How == Combine::Set) how = combine_of(c, c.attr(1));
    const Tensor& out = c.out(0);
    if (c.in[1].numel() == 0) return start_from_self(c);
    Tensor index = apart(c, c.in[1], DType::Int64), source = c.in[2];
    if (source.may_overlap(out)) source = apart(c, source, out.dtype());
    LinesOf l(c, index, out, source, checked_dim(c));
    start_from_self(c);
    scatter_into(out, source, l, how);
}

void scatter_value_shape(Call& c) {
    check_index(c, c.in[1], c.in[0].shape(), checked_dim(c), "self");
    combine_of(c, c.attr(2));
    c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape()));
}

void scatter_value_kernel(Call& c) {
    const Tensor& out = c.out(0);
    if (c.in[1].numel() == 0) return start_from_self(c);
    Tensor index = apart(c, c.in[1], DType::Int64);
    Tensor number = as_tensor(c.attr(1));
    require_fits(c.name(), number, out.dtype());
    Tensor one = as_dtype(number, out.dtype());
    Tensor source = one.view_as(index.shape(), Dims(index.ndim()));
    LinesOf l(c, index, out, source, checked_dim(c));
    start_from_self(c);
    scatter_into(out, source, l, combine_of(c, c.attr(2)));
}

void require_plain(const Value& reduce) {
    WEFT_EXPECT(reduce.none() || reduce.as_text() == "add", Runtime, "scatter",
                "a differentiable reduce",
                "derivative for scatter with reduce='multiply' is not implemented",
                "use scatter_add or index_put");
}

/// What of the gradient is left for self: all where something was added, else without the indexed.
Tensor around(const Grad& g, const Value& reduce) {
    require_plain(reduce);
    if (!reduce.none()) return g.grad();
    return scatter_op(g.grad(), g.in(1), g.attr(0), 0);
}

/// The gradient at the indices, with zeros for what src has beyond them.
Tensor at_indices(const Grad& g) {
    Tensor grad = gather(g.grad(), g.in(1), g.attr(0));
    Dims src = g.in_shape(2), now(grad.shape());
    for (int d = 0; d < src.size(); ++d) {
        if (now[d] == src[d]) continue;
        int64_t have = now[d];
        now[d] = src[d];
        grad = slice_backward(grad, now, d, 0, have, 1);
    }
    return grad;
}

// ---- the flattened tensor ----------------------------------------------------------------------

/// self's elements as an index into one dimension, wrapped. Throws Index.
Tensor flat_index(const Call& c, const Tensor& index, int64_t size) {
    Tensor dense = dense_index(index), out = Tensor::empty(DType::Int64, Dims{index.numel()});
    int64_t bad = kernels::first_outside(dense.data<int64_t>(), index.numel(), -size, size);
    WEFT_EXPECT(bad < 0, Index, c.name(), text("indices in [", -size, ", ", size, ")"),
                text("out of range: tried to access index ", dense.data<int64_t>()[bad],
                     " on a tensor of ", size, " elements"));
    for (int64_t i = 0; i < index.numel(); ++i) {
        int64_t at = dense.data<int64_t>()[i];
        out.data<int64_t>()[i] = at < 0 ? at + size : at;
    }
    return out;
}

void require_index(const Call& c, const Tensor& index) {
    WEFT_EXPECT(index.dtype() == DType::Int64, Runtime, c.name(), "an int64 index",
                name(index.dtype()));
}

/// Memory of any layout as [n] under one stride is not possible, so a table of all places.
kernels::Blocks flat_blocks(const Tensor& index) {
    static const int64_t start = 0;
    return {&start, index.data<int64_t>(), nullptr, 1, index.numel(), 1};
}

void take_shape(Call& c) {
    require_index(c, c.in[1]);
    c.add(Tensor::layout(c.in[0].dtype(), c.in[1].shape()));
}

void take_kernel(Call& c) {
    Tensor self = as_contiguous(c.in[0]), index = flat_index(c, c.in[1], self.numel());
    if (index.numel() == 0) return;
    kernels::take_blocks(c.out(0).bytes(), self.bytes(), flat_blocks(index),
                         item_size(self.dtype()));
}

Tensor take_gradient(const Grad& g) {
    Dims in = g.in_shape(0);
    int64_t n = 1;
    for (int64_t s : in) n *= s;
    return reshape(
        index_backward.over({reshape(g.grad(), Dims{-1}), reshape(g.in(1), Dims{-1})}, {Dims{n}}),
        in);
}

void put_shape(Call& c) {
    const Tensor &self = c.in[0], &index = c.in[1], &source = c.in[2];
    require_index(c, index);
    WEFT_EXPECT(source.dtype() == self.dtype(), Runtime, c.name(),
                text("a source of self's dtype ", name(self.dtype())), name(source.dtype()));
    WEFT_EXPECT(source.numel() == index.numel(), Index, c.name(),
                "source and index to have the same number of elements",
                text("source.numel() = ", source.numel(), ", index.numel() = ", index.numel()));
    c.add(Tensor::layout(self.dtype(), self.shape()));
}

void put_kernel(Call& c) {
    const Tensor& out = c.out(0);
    Tensor index = flat_index(c, c.in[1], out.numel()), source = as_contiguous(c.in[2]);
    copy_into(out, c.in[0]);
    if (index.numel() == 0) return;
    kernels::Blocks blocks = flat_blocks(index);
    if (!c.attr(0).as_bool())
        return kernels::put_blocks(out.bytes(), source.bytes(), blocks, item_size(out.dtype()));
    dispatch_computed(out.dtype(), "put", [&]<class T>() {
        kernels::add_blocks(out.data<T>(), source.data<T>(), blocks);
    });
}

Tensor put_gradient(const Grad& g) {
    if (g.attr(0).as_bool()) return g.grad();
    return put_op(g.grad(), g.in(1), zeros(g.in_shape(1), g.grad().dtype()), false);
}

/// Indices broadcast against self but along dim; then gather.
void take_along_body(Call& c) {
    Tensor self = c.in[0], index = c.in[1];
    require_index(c, index);
    int dim = 0;
    if (c.attr(0).none()) {
        self = reshape(self, Dims{-1});
        index = reshape(index, Dims{-1});
    } else {
        dim = wrap_dim(c.name(), c.attr(0).as_int(), self.ndim());
        WEFT_EXPECT(self.ndim() == index.ndim(), Runtime, c.name(), "as many dimensions of indices",
                    text(index.ndim(),
                         " (torch.take_along_dim(): input and indices should have the same number "
                         "of dimensions, but got ",
                         self.ndim(), " dimensions for input, and ", index.ndim(),
                         " dimensions for indices)"));
        Dims whole(self.shape()), picked(index.shape());
        if (self.ndim()) whole[dim] = picked[dim] = 1;
        Dims both = broadcast(c.name(), whole, picked), wide = both;
        if (self.ndim()) {
            both[dim] = index.size(dim);
            wide[dim] = self.size(dim);
        }
        index = expand(index, both);
        self = expand(self, wide);
    }
    c.set(gather(self, wrap_op(index, size_along(self, dim)), dim));
}

void wrap_index_kernel(Call& c) {
    Tensor index = dense_index(c.in[0]);
    int64_t size = c.attr(0).as_int();
    auto* out = c.out(0).data<int64_t>();
    for (int64_t i = 0; i < index.numel(); ++i) {
        int64_t at = index.data<int64_t>()[i];
        out[i] = at < 0 ? at + size : at;
    }
}

void register_flat(Table& t) {
    t.add("take(Tensor self, Tensor index) -> Tensor")
        .doc("Elements of the flattened tensor. Raises IndexError out of range.\n\n"
             ">>> weft.arange(4).view(2, 2).take(weft.tensor([3, 0]))\ntensor([3, 0])")
        .shape(take_shape)
        .kernel(take_kernel)
        .every_dtype()
        .apart()
        .grad(0, save_in(1), take_gradient)
        .samples(
            {"f(T(2, 3), I(4, high=6))", "f(T(2, 3), I(2, 2, high=6))", "f(T(), I(2, high=1))"});
    t.add("put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor")
        .doc("self with source written (or added) at positions of the flattened tensor.\n"
             "Of self's shape; index and source have equally many elements.\n"
             ">>> weft.zeros(2, 2).put(weft.tensor([3]), weft.ones(1)).tolist()\n"
             "[[0.0, 0.0], [0.0, 1.0]]")
        .shape(put_shape)
        .kernel(put_kernel)
        .every_dtype()
        .inplace()
        .apart()
        .grad(0, save_in(1), put_gradient)
        .keep_shapes()
        .grad(2, save_in(1),
              [](const Grad& g) { return reshape(take_op(g.grad(), g.in(1)), g.in_shape(2)); })
        .samples({"f(T(2, 3), weft.tensor([4, 0]), T(2))", "f(T(2, 3), I(3, high=6), T(3), True)"});
    t.add("take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor")
        .body(take_along_body)
        .batch(Batch::Body)
        .doc("gather with indices that broadcast against self; without dim, of the flattened "
             "tensor.\n\n"
             ">>> x = weft.tensor([[3, 1, 2]])\n>>> x.take_along_dim(x.argsort(1), 1)\ntensor([[1, "
             "2, 3]])")
        .samples({"f(T(2, 3), I(2, 2, high=3), 1)", "f(T(2, 3), I(1, 3, high=2), dim=0)",
                  "f(T(2, 3), I(2, high=6))"});
    t.add("_wrap_index(Tensor index, int size) -> Tensor")
        .doc("Negative indices counted from the end.")
        .shape([](Call& c) { c.add(Tensor::layout(DType::Int64, c.in[0].shape())); })
        .kernel(wrap_index_kernel)
        .batch(batch_last<0>)
        .internal();
}

}  // namespace

void register_gather(Table& t) {
    t.add("gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor")
        .batch(batch_along<0>)
        .doc("out[i][j] = self[index[i][j]][j] for dim 0, and so on; index may be smaller than "
             "self. "
             "Raises RuntimeError out of range.\n\n"
             ">>> weft.tensor([[1, 2], [3, 4]]).gather(1, weft.tensor([[1], [0]])).tolist()\n[[2], "
             "[3]]")
        .shape(gather_shape)
        .kernel(gather_kernel)
        .every_dtype()
        .out_form()
        .apart()
        .grad(0, save_in(1),
              [](const Grad& g) {
                  return gather_backward(g.grad(), g.in(1), g.attr(0), g.in_shape(0));
              })
        .samples({"f(T(3, 4), 0, I(2, 3, high=3))", "f(T(3, 4), -1, I(3, 5, high=4))",
                  "f(T(3), 0, I(4, high=3))", "f(T(), 0, I(high=1))"});
    t.add("gather_backward(Tensor grad, Tensor index, int dim, int[] size) -> Tensor")
        .doc("Zeros of `size` with grad added where gather read: its gradient.")
        .shape([](Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.attr(1).as_ints())); })
        .kernel(gather_backward_kernel)
        .every_dtype()
        .internal()
        .node_name("ScatterAddBackward0")
        .grad(0, save_in(1), [](const Grad& g) { return gather(g.grad(), g.in(1), g.attr(0)); })
        .samples({"f(T(2, 3), I(2, 3, high=3), 0, (3, 4))"});
    t.add("scatter(Tensor self, int dim, Tensor index, Tensor src, *, str? reduce=None) -> Tensor")
        .doc("self with self[index[i][j]][j] = src[i][j] for dim 0, and so on; src is a tensor or "
             "a number, "
             "reduce may be 'add' or 'multiply'. Raises RuntimeError out of range.\n\n"
             ">>> weft.zeros(3).scatter(0, weft.tensor([1]), 2.0)\ntensor([0., 2., 0.])")
        .shape(scatter_shape)
        .batch(batch_along<0>)
        .kernel(scatter_kernel<Combine::Set>)
        .every_dtype()
        .strided_output()
        .apart()
        .inplace()
        .grad(0, save_in(1), [](const Grad& g) { return around(g, g.attr(1)); })
        .grad(2, save_in(1),
              [](const Grad& g) {
                  require_plain(g.attr(1));
                  return at_indices(g);
              })
        .samples({"f(T(3, 4), 0, weft.tensor([[0, 1], [2, 0]]), T(3, 4))",
                  "f(T(3), 0, weft.tensor([2, 0]), T(2))"});
    t.add("scatter.value(Tensor self, int dim, Tensor index, Scalar value, *, str? reduce=None) -> "
          "Tensor")
        .doc("The same with a number.")
        .shape(scatter_value_shape)
        .batch(batch_along<0>)
        .kernel(scatter_value_kernel)
        .every_dtype()
        .strided_output()
        .apart()
        .inplace()
        .node_name("ScatterBackward1")
        .grad(0, save_in(1), [](const Grad& g) { return around(g, g.attr(2)); })
        .samples({"f(T(3, 4), 1, I(2, 3, high=4), 1.5)", "f(T(3), 0, I(2, high=3), 2)"});
    t.add("scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor")
        .doc("self with src added as scatter writes it, in the order of the index.\n"
             "Of self's shape; index and src have as many dims.\n"
             ">>> weft.zeros(2).scatter_add(0, weft.tensor([1, 1]), weft.ones(2))\n"
             "tensor([0., 2.])")
        .shape(scatter_shape)
        .batch(batch_along<0>)
        .kernel(scatter_kernel<Combine::Add>)
        .every_dtype()
        .strided_output()
        .apart()
        .inplace()
        .grad(0, 0, [](const Grad& g) { return g.grad(); })
        .grad(2, save_in(1), at_indices)
        .samples({"f(T(3, 4), 0, I(2, 3, high=3), T(2, 3))", "f(T(3), -1, I(5, high=3), T(5))"});
    register_flat(t);
}

}  // namespace weft
