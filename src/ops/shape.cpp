/// Views: the same memory under other sizes, strides or order of dimensions. No kernel runs.
#include "ops/shape.h"

#include <numeric>

#include "ops/batch.h"
#include "ops/functions.h"

namespace weft {
namespace {

using namespace ops;

const Function t_op{"t"}, reshape_alias{"_reshape_alias"};

Tensor back_to_input(const Grad& g) { return reshape(g.grad(), g.in_shape(0)); }

// ---- view, reshape and what is made of them ----------------------------------------------------

void view_shape(Call& c) {
    const Tensor& self = c.in[0];
    Dims size = infer_size(c.name(), c.attr(0).as_ints(), self.numel()), strides;
    if (self.contiguous()) return c.add_view(Tensor::layout(self.dtype(), size), 0);
    WEFT_EXPECT(
        view_strides(self.shape(), self.strides(), size, strides), Runtime, c.name(),
        "a size that the tensor's memory can be read as",
        text(to_string(size), " of a tensor of shape ", to_string(self.shape()), " and strides ",
             to_string(self.strides()),
             " (view size is not compatible with input tensor's size and stride (at least "
             "one dimension spans across two contiguous subspaces). Use .reshape(...) instead.)"));
    add_view(c, size, strides);
}

Tensor reshaped(const Tensor& self, const Dims& size) {
    Dims strides;
    if (self.contiguous()) return view(self, size);
    if (view_strides(self.shape(), self.strides(), size, strides)) return reshape_alias(self, size);
    return unsafe_view(self, size);
}

void reshape_body(Call& c) {
    c.set(reshaped(c.in[0], infer_size(c.name(), c.attr(0).as_ints(), c.in[0].numel())));
}

void flatten_body(Call& c) {
    const Tensor& self = c.in[0];
    int first = wrap_dim(c.name(), c.attr(0).as_int(), self.ndim());
    int last = wrap_dim(c.name(), c.attr(1).as_int(), self.ndim());
    if (self.ndim() == 0) return c.set(reshaped(self, {1}));
    WEFT_EXPECT(first <= last, Runtime, c.name(), "dims in order",
                text(first, " and ", last,
                     " (flatten() has invalid args: start_dim cannot come after end_dim)"));
    if (first == last) return c.set(self);
    Dims size;
    int64_t merged = 1;
    for (int d = 0; d < self.ndim(); ++d) {
        if (d < first || d > last) {
            size.push_back(self.size(d));
            continue;
        }
        merged *= self.size(d);
        if (d == last) size.push_back(merged);
    }
    c.set(reshaped(self, size));
}

/// Whether the product is `size`; sizes that are to be found or that none has are for others to judge.
bool multiply_up_to(DimSpan sizes, int64_t size) {
    int64_t product = 1;
    for (int64_t s : sizes)
        if (s < 0 || __builtin_mul_overflow(product, s, &product)) return true;
    return product == size;
}

void unflatten_body(Call& c) {
    const Tensor& self = c.in[0];
    WEFT_EXPECT(self.ndim() > 0, Runtime, c.name(), "a tensor with dimensions",
                "a 0-d one (Dimension specified but tensor has no dimensions)");
    int dim = wrap_dim(c.name(), c.attr(0).as_int(), self.ndim());
    DimSpan sizes = c.attr(1).as_ints();
    WEFT_EXPECT(!sizes.empty(), Runtime, c.name(), "sizes that are not empty", "[]");
    WEFT_EXPECT(multiply_up_to(sizes, self.size(dim)), Runtime, c.name(),
                "sizes that the dimension has",
                text("others (unflatten: Provided sizes ", to_string(sizes),
                     " don't multiply up to the size of dim ", dim, " (", self.size(dim),
                     ") in the input tensor)"));
    Dims inner = infer_size(c.name(), sizes, self.size(dim)), size;
    for (int d = 0; d < self.ndim(); ++d) {
        if (d != dim) size.push_back(self.size(d));
        else
            for (int64_t s : inner) size.push_back(s);
    }
    c.set(view(self, size));
}

// ---- expand ------------------------------------------------------------------------------------

void expand_to(Call& c, DimSpan target) {
    const Tensor& self = c.in[0];
    int n = static_cast<int>(target.size()), lead = n - self.ndim();
    WEFT_EXPECT(lead >= 0, Runtime, c.name(), "a size for each dimension",
                text(to_string(target), " (expand(", tensor_type_name(self.dtype()), "{",
                     to_string(self.shape()), "}, size=", to_string(target),
                     "): the number of sizes provided (", n,
                     ") must be greater or equal to the number of dimensions in the tensor (",
                     self.ndim(), "))"));
    Dims size(target), strides(n);
    for (int d = n - 1; d >= 0; --d) {
        bool fresh = d < lead;
        int64_t have = fresh ? 1 : self.size(d - lead);
        int64_t step = !fresh      ? self.stride(d - lead)
                       : d + 1 < n ? size[d + 1] * strides[d + 1]
                                   : 1;
        if (size[d] == -1) {
            WEFT_EXPECT(!fresh, Runtime, c.name(), "-1 only for dimensions that exist",
                        text("-1 at dimension ", d, " of ", to_string(target)));
            size[d] = have;
        }
        WEFT_EXPECT(size[d] == have || have == 1, Runtime, c.name(),
                    "sizes as they are where they are not 1",
                    text(size[d], " (The expanded size of the tensor (", size[d],
                         ") must match the existing size (", have, ") at non-singleton dimension ",
                         d, ".  Target sizes: ", to_string(target),
                         ".  Tensor sizes: ", to_string(self.shape()), ")"));
        strides[d] = size[d] == have ? step : 0;
    }
    add_view(c, size, strides);
}

// ---- rows of views that are no pieces (Note [Rows] in batch.h) ---------------------------------

bool expand_rows(const BatchCall& c, BatchForm& form) {
    const Tensor& out = c.call.out(0);
    if (out.numel() == 0) return false;
    Dims row(out.ndim() - c.in(0).ndim(), 1), size{-1};
    for (int64_t d : c.in(0).shape()) row.push_back(d);
    for (int64_t d : out.shape()) size.push_back(d);
    form.add_rows(0, row);
    form.attrs[0] = Value(size);
    return true;
}

bool transpose_rows(const BatchCall& c, BatchForm& form) {
    const Tensor& x = c.in(0);
    if (x.ndim() == 0 || x.numel() == 0) return false;
    int first = x.ndim();
    for (int k = 0; k < 2; ++k) {
        int d = wrap_dim("transpose", c.attr(k).as_int(), x.ndim());
        first = std::min(first, d);
        form.attrs[static_cast<size_t>(k)] = d - x.ndim();
    }
    form.add_rows(0, x.shape().subspan(static_cast<size_t>(first)));
    for (int d = 0; d < first; ++d) form.rows *= x.size(d);
    return true;
}

bool t_rows(const BatchCall& c, BatchForm& form) {
    if (c.in(0).ndim() != 2 || c.in(0).numel() == 0) return false;
    form.op = &transpose.op();
    form.add_rows(0, c.in(0).shape());
    form.attrs = {-2, -1};
    return true;
}

bool permute_rows(const BatchCall& c, BatchForm& form) {
    int n = c.in(0).ndim();
    if (n == 0 || c.in(0).numel() == 0) return false;
    Dims order{0};
    for (int64_t d : c.attr(0).as_ints()) order.push_back(1 + wrap_dim("permute", d, n));
    form.add_rows(0, c.in(0).shape());
    form.attrs[0] = Value(order);
    return true;
}

// ---- order of dimensions -----------------------------------------------------------------------

void permuted_view(Call& c, DimSpan order) {
    const Tensor& self = c.in[0];
    Dims shape(self.ndim()), strides(self.ndim());
    for (int d = 0; d < self.ndim(); ++d) {
        shape[d] = self.size(static_cast<int>(order[d]));
        strides[d] = self.stride(static_cast<int>(order[d]));
    }
    add_view(c, shape, strides);
}

void transpose_shape(Call& c) {
    int n = c.in[0].ndim();
    int a = wrap_dim(c.name(), c.attr(0).as_int(), n),
        b = wrap_dim(c.name(), c.attr(1).as_int(), n);
    Dims order(n);
    std::iota(order.begin(), order.end(), 0);
    if (n) std::swap(order[a], order[b]);
    permuted_view(c, order);
}

void t_shape(Call& c) {
    int n = c.in[0].ndim();
    WEFT_EXPECT(n <= 2, Runtime, c.name(), "a tensor with at most 2 dimensions",
                text(n, " dimensions (t() expects a tensor with <= 2 dimensions)"),
                "use transpose or .mT");
    permuted_view(c, n == 2 ? Dims{1, 0} : Dims{0});
}

/// Every dim once, wrapped. Throws Runtime.
Dims wrapped_order(std::string_view who, DimSpan dims, int n) {
    WEFT_EXPECT(static_cast<int>(dims.size()) == n, Runtime, who, "a dim for each dimension",
                text(dims.size(),
                     " (permute(sparse_coo): number of dimensions in the tensor input does not "
                     "match the length "
                     "of the desired ordering of dimensions i.e. input.dim() = ",
                     n, " is not equal to len(dims) = ", dims.size(), ")"));
    Dims order;
    uint64_t seen = 0;
    for (int64_t dim : dims) {
        int d = wrap_dim(who, dim, n);
        WEFT_EXPECT(!(seen >> d & 1), Runtime, who, "every dim once",
                    text(to_string(dims), " (", who, "(): duplicate dims are not allowed.)"));
        seen |= uint64_t{1} << d;
        order.push_back(d);
    }
    return order;
}

void permute_shape(Call& c) {
    permuted_view(c, wrapped_order(c.name(), c.attr(0).as_ints(), c.in[0].ndim()));
}

Tensor permute_gradient(const Grad& g) {
    Dims order = wrapped_order("permute", g.attr(0).as_ints(), g.grad().ndim()), inverse(order);
    for (int d = 0; d < order.size(); ++d) inverse[static_cast<int>(order[d])] = d;
    return permute(g.grad(), inverse);
}

void movedim_body(Call& c) {
    const Tensor& self = c.in[0];
    DimSpan from = c.attr(0).as_ints(), to = c.attr(1).as_ints();
    WEFT_EXPECT(from.size() == to.size(), Runtime, c.name(), "a destination for each dim",
                text("others (movedim: Invalid source or destination dims: source (",
                     to_string(from),
                     " dims) should contain the same number of dims as destination (",
                     to_string(to), " dims))"));
    Dims order(self.ndim(), -1);
    uint64_t taken = 0;
    for (size_t i = 0; i < from.size(); ++i) {
        int s = wrap_dim(c.name(), from[i], self.ndim()),
            d = wrap_dim(c.name(), to[i], self.ndim());
        if (self.ndim() == 0) continue;
        WEFT_EXPECT(!(taken >> s & 1) && order[d] < 0, Runtime, c.name(), "every dim once",
                    text("repeated dim in `source` or `destination`: ", to_string(from), " and ",
                         to_string(to)));
        taken |= uint64_t{1} << s;
        order[d] = s;
    }
    for (int d = 0, s = 0; d < self.ndim(); ++d) {
        if (order[d] >= 0) continue;
        while (taken >> s & 1) ++s;
        order[d] = s++;
    }
    c.set(permute(self, order));
}

// ---- dimensions of size 1 ----------------------------------------------------------------------

void squeeze_where(Call& c, uint64_t mask) {
    const Tensor& self = c.in[0];
    Dims shape, strides;
    for (int d = 0; d < self.ndim(); ++d) {
        if (self.size(d) == 1 && (mask >> d & 1)) continue;
        shape.push_back(self.size(d));
        strides.push_back(self.stride(d));
    }
    add_view(c, shape, strides);
}

void squeeze_dims_shape(Call& c) {
    uint64_t mask = 0;
    for (int64_t dim : c.attr(0).as_ints()) {
        int d = wrap_dim(c.name(), dim, c.in[0].ndim());
        WEFT_EXPECT(!(mask >> d & 1), Runtime, c.name(), "every dim once",
                    text("dim ", d, " appears multiple times in the list of dims"));
        mask |= uint64_t{1} << d;
    }
    squeeze_where(c, mask);
}

void unsqueeze_shape(Call& c) {
    const Tensor& self = c.in[0];
    int dim = wrap_dim(c.name(), c.attr(0).as_int(), self.ndim() + 1);
    Dims shape(self.shape()), strides(self.strides());
    strides.insert(dim, dim < self.ndim() ? self.size(dim) * self.stride(dim) : 1);
    shape.insert(dim, 1);
    add_view(c, shape, strides);
}

/// Sizes and strides count elements: other elements, other numbers.
void view_dtype_shape(Call& c) {
    const Tensor& x = c.in[0];
    DType t = c.attr(0).as_dtype();
    int from = item_size(x.dtype()), to = item_size(t), last = x.ndim() - 1;
    Dims shape(x.shape()), strides(x.strides());
    if (from == to) return c.add_view(Tensor::layout(t, shape, strides), 0);
    WEFT_EXPECT(last >= 0, Runtime, c.name(),
                "a tensor with dimensions for elements of another size",
                text("a 0-d tensor of ", name(x.dtype()), " (self.dim() cannot be 0 to view ",
                     name(x.dtype()), " as ", name(t), ")"));
    WEFT_EXPECT(strides[last] == 1, Runtime, c.name(), "a last dim of stride 1",
                text("stride ", strides[last], " (self.stride(-1) must be 1)"),
                "use contiguous() first");
    int64_t more = from / std::max(to, 1), fewer = to / from;
    bool even = fewer == 0 || (shape[last] % fewer == 0 && x.offset() % fewer == 0);
    for (int d = 0; d < last; ++d) {
        even &= fewer == 0 || strides[d] % fewer == 0;
        strides[d] = fewer ? strides[d] / fewer : strides[d] * more;
    }
    WEFT_EXPECT(even, Runtime, c.name(),
                text("a last size, strides and an offset divisible by ", fewer),
                text("shape ", to_string(x.shape()), ", strides ", to_string(x.strides()),
                     " and offset ", x.offset(), " (self.size(-1) must be divisible by ", fewer,
                     " to view ", scalar_name(x.dtype()), " as ", scalar_name(t),
                     " (different element sizes), but got ", x.size(last), ")"));
    shape[last] = fewer ? shape[last] / fewer : shape[last] * more;
    c.add_view(Tensor::layout(t, shape, strides), 0);
}

// ---- records -----------------------------------------------------------------------------------

void register_sizes(Table& t) {
    view_op(t, "view(Tensor self, int[] size) -> Tensor", view_shape, back_to_input)
        .doc(
            "The same elements under another shape, one size may be -1. Raises RuntimeError if the "
            "memory cannot be read so.\n\n>>> weft.arange(6).view(2, -1).shape\ntorch.Size([2, 3])")
        .method_only()
        .samples({"f(T(2, 3), (6,))", "f(T(2, 3), (3, -1))", "f(T(4), (2, 1, 2))", "f(T(), (1, 1))",
                  "f(T(0, 3), (3, 0))"});
    t.add("view.dtype(Tensor self, dtype dtype) -> Tensor")
        .doc("The same memory read as another dtype: the last dim grows or shrinks where elements\n"
             "have another size. Not differentiable. RuntimeError if the memory cannot be read "
             "so.\n\n"
             ">>> weft.ones(1).view(weft.int32)\ntensor([1065353216], dtype=torch.int32)")
        .shape(view_dtype_shape)
        .reads_place(save_in(0))
        .kernel([](Call&) {})
        .view()
        .method_only()
        .no_onnx("a reinterpretation of memory")
        .samples({"f(I(2, 3), weft.float64)", "f(I(2, 3), weft.int16)",
                  "f(I(2, 4), weft.complex128)", "f(B(3), weft.uint8)",
                  "f(I(4).to(weft.uint8), weft.float32)"});
    view_op(t, "_reshape_alias(Tensor self, int[] size) -> Tensor", view_shape, back_to_input)
        .doc("The view that reshape makes of memory that is not contiguous.")
        .internal()
        .samples({"f(T(2, 3), (3, 2))"});
    t.add("reshape(Tensor self, int[] shape) -> Tensor")
        .body(reshape_body)
        .batch(Batch::Body)
        .doc("The same elements under another shape: a view where the memory allows it, else a "
             "copy.\n\n"
             ">>> weft.arange(6).reshape(3, 2).shape\ntorch.Size([3, 2])")
        .samples({"f(T(2, 3), (6,))", "f(T(2, 3), (3, -1))", "f(T(), (1,))", "f(T(0, 3), (0,))"});
    t.add("flatten(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor")
        .body(flatten_body)
        .batch(Batch::Body)
        .doc("Dimensions start_dim to end_dim as one.\n\n>>> weft.zeros(2, 3, 4).flatten(1).shape\n"
             "torch.Size([2, 12])")
        .samples(
            {"f(T(2, 3))", "f(T(2, 3, 4), 1)", "f(T(2, 3, 4), 0, -2)", "f(T())", "f(T(0, 3))"});
    t.add("unflatten(Tensor self, int dim, int[] sizes) -> Tensor")
        .body(unflatten_body)
        .batch(Batch::Body)
        .doc("One dimension as several, one size may be -1.\n\n"
             ">>> weft.zeros(2, 6).unflatten(1, (2, -1)).shape\ntorch.Size([2, 2, 3])")
        .samples({"f(T(2, 6), 1, (2, 3))", "f(T(4, 3), 0, (2, -1))", "f(T(2, 6), -1, (-1, 2))"});
    t.add("ravel(Tensor self) -> Tensor")
        .body([](Call& c) { c.set(view(contiguous(c.in[0]), Dims{c.in[0].numel()})); })
        .batch(Batch::Body)
        .doc("All elements in one dimension; a view where the memory allows it.\n\n"
             ">>> weft.zeros(2, 3).ravel().shape\ntorch.Size([6])")
        .samples({"f(T(2, 3))", "f(T())", "f(T(0, 3))"});
    t.add("view_as(Tensor self, Tensor other) -> Tensor")
        .body([](Call& c) { c.set(view(c.in[0], Dims(c.in[1].shape()))); })
        .batch(Batch::Body)
        .doc("self.view(other.size()).\n"
             "The elements of self in other's shape, sharing memory.\n"
             ">>> weft.arange(4).view_as(weft.ones(2, 2))\n"
             "tensor([[0, 1],\n"
             "        [2, 3]])")
        .method_only()
        .onnx("Reshape(self, shape(other))")
        .samples({"f(T(2, 3), T(6))"});
    t.add("reshape_as(Tensor self, Tensor other) -> Tensor")
        .body([](Call& c) {
            c.set(reshaped(c.in[0], infer_size(c.name(), c.in[1].shape(), c.in[0].numel())));
        })
        .batch(Batch::Body)
        .doc("self.reshape(other.size()). The elements of self in other's shape.\n"
             ">>> weft.arange(4).reshape_as(weft.ones(2, 2))\n"
             "tensor([[0, 1],\n"
             "        [2, 3]])")
        .method_only()
        .samples({"f(T(2, 3), T(3, 2))"});
    view_op(
        t, "expand(Tensor self, int[] size, *, bool implicit=False) -> Tensor",
        [](Call& c) { expand_to(c, c.attr(0).as_ints()); }, [](const Grad& g) { return g.grad(); })
        .batch(expand_rows)
        .doc("Repeats dimensions of size 1 without copying; -1 keeps a size.\n\n"
             ">>> weft.zeros(3, 1).expand(2, -1, 4).shape\ntorch.Size([2, 3, 4])")
        .method_only()
        .samples(
            {"f(T(3, 1), (3, 4))", "f(T(3), (2, -1))", "f(T(), (2, 2))", "f(T(1, 3), (0, 3))"});
    t.add("broadcast_to(Tensor self, int[] size) -> Tensor")
        .body([](Call& c) { c.set(expand(c.in[0], c.attr(0))); })
        .batch(Batch::Body)
        .doc("self.expand(size). A view of shape `size`.\n"
             ">>> weft.broadcast_to(weft.tensor([1, 2]), (2, 2))\n"
             "tensor([[1, 2],\n"
             "        [1, 2]])")
        .samples({"f(T(3, 1), (3, 4))", "f(T(3), (2, 3))"});
    t.add("expand_as(Tensor self, Tensor other) -> Tensor")
        .body([](Call& c) { c.set(expand(c.in[0], Dims(c.in[1].shape()))); })
        .batch(Batch::Body)
        .doc("self.expand(other.size()). A view of other's shape.\n"
             ">>> weft.tensor([1, 2]).expand_as(weft.ones(2, 2))\n"
             "tensor([[1, 2],\n"
             "        [1, 2]])")
        .method_only()
        .onnx("Expand(self, shape(other))")
        .samples({"f(T(3, 1), T(3, 4))", "f(T(), T(2))"});
}

void register_order(Table& t) {
    view_op(t, "transpose(Tensor self, int dim0, int dim1) -> Tensor", transpose_shape,
            [](const Grad& g) { return transpose(g.grad(), g.attr(0), g.attr(1)); })
        .batch(transpose_rows)
        .doc("Two dimensions exchanged.\n\n>>> weft.zeros(2, 3, 4).transpose(0, 2).shape\n"
             "torch.Size([4, 3, 2])")
        .alias("swapaxes")
        .alias_of("dim0", "axis0")
        .alias_of("dim1", "axis1")
        .alias("swapdims")
        .onnx("swap(self, dim0, dim1)")
        .samples({"f(T(2, 3), 0, 1)", "f(T(2, 3, 4), -1, 0)", "f(T(3), 0, 0)", "f(T(0, 3), 0, 1)"});
    view_op(t, "t(Tensor self) -> Tensor", t_shape, [](const Grad& g) { return t_op(g.grad()); })
        .batch(t_rows)
        .doc("The transpose of a matrix; tensors of fewer dimensions stay as they are.\n\n"
             ">>> weft.zeros(2, 3).t().shape\ntorch.Size([3, 2])")
        .node_name("TBackward0")
        .onnx("swap(self, 0, -1)")
        .samples({"f(T(2, 3))", "f(T(3))", "f(T())"});
    view_op(t, "permute(Tensor self, int[] dims) -> Tensor", permute_shape, permute_gradient)
        .batch(permute_rows)
        .doc("The dimensions in another order.\n\n>>> weft.zeros(2, 3, 4).permute(2, 0, 1).shape\n"
             "torch.Size([4, 2, 3])")
        .samples({"f(T(2, 3, 4), (2, 0, 1))", "f(T(2, 3), (-1, 0))", "f(T(), ())",
                  "f(T(0, 3), (1, 0))"});
    t.add("movedim(Tensor self, int[] source, int[] destination) -> Tensor")
        .body(movedim_body)
        .batch(Batch::Body)
        .doc("Moves dimensions to other places, the rest keeps its order.\n\n"
             ">>> weft.zeros(2, 3, 4).movedim(0, -1).shape\ntorch.Size([3, 4, 2])")
        .alias("moveaxis")
        .samples({"f(T(2, 3, 4), 0, 2)", "f(T(2, 3, 4), (0, 1), (-1, 0))"});
    view_op(
        t, "squeeze(Tensor self) -> Tensor", [](Call& c) { squeeze_where(c, ~uint64_t{0}); },
        back_to_input)
        .doc("Without the dimensions of size 1, or without `dim` if its size is 1.\n\n"
             ">>> weft.zeros(1, 3, 1).squeeze().shape\ntorch.Size([3])")
        .samples({"f(T(1, 3, 1))", "f(T(2, 3))", "f(T())", "f(T(1, 0))"});
    view_op(
        t, "squeeze.dim(Tensor self, int dim) -> Tensor",
        [](Call& c) {
            squeeze_where(c, uint64_t{1} << wrap_dim(c.name(), c.attr(0).as_int(), c.in[0].ndim()));
        },
        back_to_input)
        .doc("Without `dim` if its size is 1.")
        .node_name("SqueezeBackward1")
        .samples({"f(T(1, 3), 0)", "f(T(2, 1), -1)", "f(T(2, 3), 0)"});
    view_op(t, "squeeze.dims(Tensor self, int[] dim) -> Tensor", squeeze_dims_shape, back_to_input)
        .doc("Without those of `dim` whose size is 1.")
        .node_name("SqueezeBackward2")
        .samples({"f(T(1, 3, 1), (0, 2))", "f(T(1, 3), (0, 1))"});
    view_op(t, "unsqueeze(Tensor self, int dim) -> Tensor", unsqueeze_shape,
            [](const Grad& g) { return squeeze_dim(g.grad(), g.attr(0)); })
        .doc("With a new dimension of size 1 at `dim`.\n\n>>> weft.zeros(3).unsqueeze(0).shape\n"
             "torch.Size([1, 3])")
        .samples({"f(T(2, 3), 0)", "f(T(2, 3), -1)", "f(T(), 0)", "f(T(0, 3), 1)"});
}

}  // namespace

void register_shape(Table& t) {
    register_sizes(t);
    register_order(t);
}

}  // namespace weft
