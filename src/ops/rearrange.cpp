/// Elements at other places: flips, rolls, repeats, triangles and diagonals.
#include <cstring>

#include "base/lock.h"
#include "kernels/index.h"
#include "ops/batch.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/shape.h"

namespace weft {
namespace {

using namespace ops;

const Function roll_op{"roll"}, tril_op{"tril"}, triu_op{"triu"}, repeat_op{"repeat"},
    diagonal_op{"diagonal"}, diag_embed_op{"diag_embed"}, diagonal_copy{"_diagonal_copy"},
    repeat_counts{"_repeat_index"};

void same_layout(Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape())); }

/// The dims of an attribute as a mask. Throws Runtime for a repeated one.
uint64_t flipped_mask(std::string_view who, DimSpan dims, int n) {
    uint64_t mask = 0;
    for (int64_t dim : dims) {
        uint64_t bit = uint64_t{1} << wrap_dim(who, dim, n);
        WEFT_EXPECT(!(mask & bit), Runtime, who, "every dim once",
                    text("dim ", dim, " appears multiple times in the list of dims"));
        mask |= bit;
    }
    return mask;
}

// ---- flip and roll -----------------------------------------------------------------------------

void flip_shape(Call& c) {
    flipped_mask(c.name(), c.attr(0).as_ints(), c.in[0].ndim());
    c.add(preserved_layout(c.in[0], c.in[0].dtype()));
}

/// A copy under negative strides, starting at the last element of the flipped dims.
void flip_kernel(Call& c) {
    const Tensor& self = c.in[0];
    if (self.numel() == 0) return;
    uint64_t mask = flipped_mask(c.name(), c.attr(0).as_ints(), self.ndim());
    Dims strides(self.strides());
    int64_t start = 0;
    for (int d = 0; d < self.ndim(); ++d) {
        if (!(mask >> d & 1)) continue;
        start += (self.size(d) - 1) * strides[d];
        strides[d] = -strides[d];
    }
    copy_into(c.out(0), self.view_as(self.shape(), strides, start));
}

void roll_shape(Call& c) {
    DimSpan shifts = c.attr(0).as_ints(), dims = c.attr(1).as_ints();
    WEFT_EXPECT(!shifts.empty(), Runtime, c.name(), "`shifts`", "none");
    WEFT_EXPECT(dims.empty() ? shifts.size() == 1 : shifts.size() == dims.size(), Runtime, c.name(),
                "a shift for each dimension",
                text("others (shifts and dimensions must align. shifts: ", shifts.size(),
                     ", dims:", dims.size(), ")"));
    WEFT_EXPECT(dims.empty() || c.in[0].ndim(), Index, c.name(), "dims of a tensor that has some",
                text("dimension specified as ", dims[0], " but tensor has no dimensions"));
    for (int64_t dim : dims) wrap_dim(c.name(), dim, c.in[0].ndim());
    same_layout(c);
}

/// Copies box by box: each rolled dim cuts the tensor in two.
void roll_boxes(const Tensor& to, const Tensor& from, DimSpan cuts, int dim, Dims& shape,
                int64_t at_to, int64_t at_from) {
    if (dim == to.ndim()) {
        copy_into(to.view_as(shape, to.strides(), at_to),
                  from.view_as(shape, from.strides(), at_from));
        return;
    }
    int64_t size = to.size(dim), cut = cuts[dim];
    shape[dim] = size - cut;
    roll_boxes(to, from, cuts, dim + 1, shape, at_to + cut * to.stride(dim), at_from);
    if (cut == 0) return;
    shape[dim] = cut;
    roll_boxes(to, from, cuts, dim + 1, shape, at_to, at_from + (size - cut) * from.stride(dim));
    shape[dim] = size;
}

void roll_kernel(Call& c) {
    Tensor self = c.in[0], out = c.out(0);
    if (self.numel() == 0) return;
    DimSpan shifts = c.attr(0).as_ints(), dims = c.attr(1).as_ints();
    if (dims.empty()) {
        self = as_contiguous(self).view_as(Dims{self.numel()}, Dims{1});
        out = out.view_as(self.shape(), self.strides());
    }
    Dims cuts(self.ndim()), shape(self.shape());
    for (size_t i = 0; i < shifts.size() && self.ndim(); ++i) {
        int d = dims.empty() ? 0 : wrap_dim(c.name(), dims[i], self.ndim());
        cuts[d] = ((cuts[d] + shifts[i]) % self.size(d) + self.size(d)) % self.size(d);
    }
    roll_boxes(out, self, cuts, 0, shape, 0, 0);
}

Tensor roll_gradient(const Grad& g) {
    Dims back(g.attr(0).as_ints());
    for (int64_t& s : back) s = -s;
    return roll_op(g.grad(), back, g.attr(1));
}

// ---- repeats -----------------------------------------------------------------------------------

/// self's sizes with 1s in front, to the length of `repeats`. Throws Runtime.
Dims padded_shape(const Call& c, DimSpan repeats) {
    const Tensor& self = c.in[0];
    int lead = static_cast<int>(repeats.size()) - self.ndim();
    WEFT_EXPECT(lead >= 0, Runtime, c.name(),
                text("at least ", self.ndim(), " repeats, one for each dimension"),
                text(to_string(repeats),
                     " (Number of dimensions of repeat dims can not be smaller than "
                     "number of dimensions of tensor)"));
    Dims shape(lead, 1);
    for (int64_t s : self.shape()) shape.push_back(s);
    return shape;
}

void repeat_shape(Call& c) {
    DimSpan repeats = c.attr(0).as_ints();
    Dims shape = padded_shape(c, repeats);
    for (int d = 0; d < shape.size(); ++d) {
        WEFT_EXPECT(repeats[d] >= 0, Runtime, c.name(), "repeats of at least 0",
                    text(to_string(repeats), " (Trying to create tensor with negative dimension ",
                         repeats[d], ": ", to_string(repeats), ")"));
        WEFT_EXPECT(!__builtin_mul_overflow(shape[d], repeats[d], &shape[d]), Runtime, c.name(),
                    "sizes below 2**63", to_string(repeats));
    }
    c.add(Tensor::layout(c.in[0].dtype(), shape));
}

/// out seen as [r0, n0, r1, n1, ...], self repeated along every r.
void repeat_kernel(Call& c) {
    const Tensor &self = c.in[0], &out = c.out(0);
    if (out.numel() == 0) return;
    DimSpan repeats = c.attr(0).as_ints();
    int lead = out.ndim() - self.ndim();
    Dims shape, to, from;
    for (int d = 0; d < out.ndim(); ++d) {
        int64_t n = d < lead ? 1 : self.size(d - lead);
        for (bool inner : {false, true}) {
            if ((inner ? n : repeats[d]) == 1) continue;
            shape.push_back(inner ? n : repeats[d]);
            to.push_back(inner ? out.stride(d) : out.stride(d) * n);
            from.push_back(inner ? self.stride(d - lead) : 0);
        }
    }
    copy_into(out.view_as(shape, to), self.view_as(shape, from));
}

Tensor repeat_gradient(const Grad& g) {
    DimSpan repeats = g.attr(0).as_ints();
    Dims in = g.in_shape(0), shape, dims;
    int lead = static_cast<int>(repeats.size()) - in.size();
    for (int64_t r : repeats)
        if (r == 0) return zeros(in, g.grad().dtype());
    for (int d = 0; d < static_cast<int>(repeats.size()); ++d) {
        if (repeats[d] != 1) {
            dims.push_back(shape.size());
            shape.push_back(repeats[d]);
        }
        shape.push_back(d < lead ? 1 : in[d - lead]);
    }
    Tensor grad = dims.empty() ? g.grad() : sum_dim(reshape(g.grad(), shape), dims, false);
    return reshape(grad, in);
}

bool repeat_rows(const BatchCall& c, BatchForm& form) {
    const Tensor& x = c.in(0);
    if (c.call.out(0).numel() == 0) return false;
    Dims repeats(c.attr(0).as_ints()), row(repeats.size() - x.ndim(), 1);
    for (int64_t d : x.shape()) row.push_back(d);
    repeats.insert(0, 1);
    form.add_rows(0, row);
    form.attrs[0] = Value(repeats);
    return true;
}

void tile_body(Call& c) {
    Dims repeats(c.attr(0).as_ints());
    while (repeats.size() < c.in[0].ndim()) repeats.insert(0, 1);
    c.set(repeat_op(c.in[0], repeats));
}

/// Each position of `dim` behind itself: expanded, copied, and read as one dimension.
void repeat_interleave_body(Call& c) {
    Tensor self = c.in[0];
    int64_t repeats = c.attr(0).as_int();
    WEFT_EXPECT(repeats >= 0, Runtime, c.name(), "Repeats must be non-negative",
                std::to_string(repeats));
    if (c.attr(1).none()) self = reshape(self, Dims{self.numel()});
    if (self.ndim() == 0) self = reshape(self, Dims{1});
    int dim = c.attr(1).none() ? 0 : wrap_dim(c.name(), c.attr(1).as_int(), self.ndim());
    Dims spread(self.shape()), merged(self.shape());
    spread.insert(dim + 1, repeats);
    merged[dim] = size_product(c.name(), merged[dim], repeats);
    c.set(view(contiguous_copy(expand(unsqueeze(self, dim + 1), spread)), merged));
}

/// How often each position counts, as index_select's index. The size depends on the data.
void repeat_index_shape(Call& c) {
    const Tensor& repeats = c.in[0];
    WEFT_EXPECT(repeats.ndim() <= 1, Runtime, "repeat_interleave", "0-dim or 1-dim repeats",
                text(repeats.ndim(), "-dim ones"));
    WEFT_EXPECT(repeats.dtype() == DType::Int64 || repeats.dtype() == DType::Int32, NotImplemented,
                "repeat_interleave", "int64 or int32 repeats", name(repeats.dtype()));
    int64_t size = c.attr(0).as_int(), total = 0;
    WEFT_EXPECT(
        repeats.numel() == size || repeats.ndim() == 0 || repeats.numel() == 1, Runtime,
        "repeat_interleave", "a number for each",
        text(repeats.numel(),
             " (repeats must have the same size as input along dim, but got repeats.size(0) = ",
             repeats.numel(), " and input.size(0) = ", size, ")"));
    Tensor counts = as_contiguous(repeats, DType::Int64);
    for (int64_t i = 0; i < size; ++i) {
        int64_t n = counts.data<int64_t>()[repeats.numel() == 1 ? 0 : i];
        WEFT_EXPECT(n >= 0, Runtime, "repeat_interleave", "numbers of times",
                    text(n, " (repeats can not be negative)"));
        total = size_sum("repeat_interleave", total, n);
    }
    c.add(Tensor::layout(DType::Int64, Dims{total}));
}

void repeat_index_kernel(Call& c) {
    Tensor counts = as_contiguous(c.in[0], DType::Int64);
    auto* out = c.out(0).data<int64_t>();
    for (int64_t i = 0; i < c.attr(0).as_int(); ++i)
        out = std::fill_n(out, counts.data<int64_t>()[counts.numel() == 1 ? 0 : i], i);
}

void require_output_size(const Call& c, const Value& given, int64_t size) {
    WEFT_EXPECT(given.none() || given.as_int() == size, Runtime, c.name(),
                text("an output_size of ", size, ", the sum of repeats"),
                text("another one (allocated size does not match required size)"));
}

void repeat_interleave_counts_body(Call& c) {
    const Tensor& repeats = c.in[0];
    WEFT_EXPECT(repeats.ndim() == 1, Runtime, c.name(), "1-dim repeats",
                text(repeats.ndim(), "-dim ones (repeat_interleave only accept 1D vector as "
                                     "repeat)"));
    Tensor index = repeat_counts(repeats, repeats.numel());
    require_output_size(c, c.attr(0), index.numel());
    c.set(to(index, repeats.dtype()));
}

void repeat_interleave_tensor_body(Call& c) {
    Tensor self = c.in[0];
    if (c.attr(0).none()) self = reshape(self, Dims{self.numel()});
    int dim = c.attr(0).none() ? 0 : wrap_dim(c.name(), c.attr(0).as_int(), self.ndim());
    int64_t size = self.ndim() ? self.size(dim) : 1;
    Tensor index = repeat_counts(c.in[1], size);
    require_output_size(c, c.attr(1), index.numel());
    c.set(index_select(self, dim, index));
}

// ---- triangles and diagonals -------------------------------------------------------------------

void triangle_shape(Call& c) {
    WEFT_EXPECT(c.in[0].ndim() >= 2, Runtime, c.name(), "matrices",
                text(c.in[0].ndim(), " dimensions (", c.name(),
                     ": input tensor must have at least 2 dimensions)"));
    same_layout(c);
}

template <bool Lower>
void triangle_kernel(Call& c) {
    const Tensor& out = c.out(0);
    Tensor self = as_contiguous(c.in[0]);
    int64_t rows = out.size(out.ndim() - 2), columns = out.size(out.ndim() - 1),
            k = std::clamp(c.attr(0).as_int(), -rows - 1, columns);
    if (out.numel() == 0) return;
    int64_t count = out.numel() / (rows * columns);
    Unlocked unlocked(out.numel());
    kernels::triangle(out.bytes(), self.bytes(), item_size(out.dtype()), count, rows, columns, k,
                      Lower);
}

/// Where a diagonal of `self` goes when it is embedded: the sizes of the result.
struct Embedding {
    Embedding(const Call& c, const Value* attrs) {
        const Tensor& self = c.in[0];
        int64_t k = attrs[0].as_int();
        int n = self.ndim() + 1;
        a = wrap_dim(c.name(), attrs[1].as_int(), n);
        b = wrap_dim(c.name(), attrs[2].as_int(), n);
        WEFT_EXPECT(self.ndim() > 0, Runtime, c.name(), "a tensor with dimensions", "a 0-d tensor");
        WEFT_EXPECT(a != b, Runtime, c.name(), "two dimensions",
                    text("one (diagonal dimensions cannot be identical ", attrs[1].as_int(), ", ",
                         attrs[2].as_int(), ")"));
        constexpr int64_t far = std::numeric_limits<int64_t>::max();
        int64_t side = size_sum(c.name(), self.size(self.ndim() - 1), k < -far ? far : std::abs(k));
        shape = self.shape();
        shape.pop_back();
        shape.insert(std::min(a, b), side);
        shape.insert(std::max(a, b), side);
    }
    int a, b;
    Dims shape;
};

void diag_embed_shape(Call& c) {
    c.add(Tensor::layout(c.in[0].dtype(), Embedding(c, &c.attr(0)).shape));
}

void diag_embed_kernel(Call& c) {
    const Tensor &self = c.in[0], &out = c.out(0);
    std::memset(out.bytes(), 0, out.numel() * item_size(out.dtype()));
    if (self.numel() == 0) return;
    Embedding e(c, &c.attr(0));
    int64_t k = c.attr(0).as_int();
    Dims strides(out.strides());
    strides.erase(std::max(e.a, e.b));
    strides.erase(std::min(e.a, e.b));
    strides.push_back(out.stride(e.a) + out.stride(e.b));
    copy_into(
        out.view_as(self.shape(), strides, k >= 0 ? k * out.stride(e.b) : -k * out.stride(e.a)),
        self);
}

/// Into the last two dims; into others, calls stay single.
bool diag_embed_rows(const BatchCall& c, BatchForm& form) {
    int64_t n = c.call.out(0).ndim(), a = c.attr(1).as_int(), b = c.attr(2).as_int();
    if ((a < 0 ? a : a - n) != -2 || (b < 0 ? b : b - n) != -1) return false;
    form.attrs[1] = -2;
    form.attrs[2] = -1;
    return batch_last<1>(c, form);
}

void diag_body(Call& c) {
    int n = c.in[0].ndim();
    WEFT_EXPECT(n == 1 || n == 2, Runtime, c.name(), "a 1-d or 2-d tensor", text(n, " dimensions"));
    c.set(n == 1 ? diag_embed_op(c.in[0], c.attr(0))
                 : diagonal_copy(diagonal_op(c.in[0], c.attr(0))));
}

void register_triangles(Table& t) {
    t.add("tril(Tensor self, int diagonal=0) -> Tensor")
        .shape(triangle_shape)
        .batch(batch_last<2>)
        .kernel(triangle_kernel<true>)
        .every_dtype()
        .doc("The lower triangle of each matrix, zeros above `diagonal`.\n"
             "[*, m, n], of self's shape.\n"
             ">>> weft.ones(2, 2).tril().tolist()\n"
             "[[1.0, 0.0], [1.0, 1.0]]")
        .inplace()
        .grad(0, 0, [](const Grad& g) { return tril_op(g.grad(), g.attr(0)); })
        .onnx("Trilu(self, cast(diagonal, int64), upper=0)")
        .samples({"f(T(3, 4))", "f(T(2, 3, 3), 1)", "f(T(3, 3), -1)", "f(T(0, 3))"});
    t.add("triu(Tensor self, int diagonal=0) -> Tensor")
        .shape(triangle_shape)
        .batch(batch_last<2>)
        .kernel(triangle_kernel<false>)
        .every_dtype()
        .doc("The upper triangle of each matrix, zeros below `diagonal`.\n"
             "[*, m, n], of self's shape.\n"
             ">>> weft.ones(2, 2).triu(1).tolist()\n"
             "[[0.0, 1.0], [0.0, 0.0]]")
        .inplace()
        .grad(0, 0, [](const Grad& g) { return triu_op(g.grad(), g.attr(0)); })
        .onnx("Trilu(self, cast(diagonal, int64), upper=1)")
        .samples({"f(T(3, 4))", "f(T(2, 3, 3), 1)", "f(T(3, 3), -1)", "f(T(0, 3))"});
    t.add("diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor")
        .shape(diag_embed_shape)
        .batch(diag_embed_rows)
        .kernel(diag_embed_kernel)
        .every_dtype()
        .doc("Matrices of zeros with the last dimension on a diagonal.\n\n"
             ">>> weft.ones(2).diag_embed().tolist()\n[[1.0, 0.0], [0.0, 1.0]]")
        .grad(0, 0,
              [](const Grad& g) { return diagonal_op(g.grad(), g.attr(0), g.attr(1), g.attr(2)); })
        .samples({"f(T(3))", "f(T(2, 3), 1)", "f(T(2, 3), -1, 0, 2)"});
    t.add("diag(Tensor self, int diagonal=0) -> Tensor")
        .body(diag_body)
        .batch(Batch::Body)
        .doc("A matrix with self on a diagonal, or a copy of a matrix's diagonal.\n"
             "[n] gives [n + |diagonal|, n + |diagonal|], [m, n] a vector.\n"
             ">>> weft.diag(weft.tensor([1, 2])).tolist()\n"
             "[[1, 0], [0, 2]]")
        .samples({"f(T(3))", "f(T(3, 3))", "f(T(3, 4), 1)", "f(T(2), -1)"});
    t.add("_diagonal_copy(Tensor self) -> Tensor")
        .doc("A copy of a view made by diagonal.")
        .shape(same_layout)
        .kernel([](Call& c) { copy_into(c.out(0), c.in[0]); })
        .every_dtype()
        .internal()
        .pointwise()
        .node_name("DiagonalBackward0_copy")
        .grad(0, 0, [](const Grad& g) { return g.grad(); });
}

}  // namespace

void register_rearrange(Table& t) {
    t.add("flip(Tensor self, int[] dims) -> Tensor")
        .batch(batch_along<0>)
        .shape(flip_shape)
        .kernel(flip_kernel)
        .every_dtype()
        .doc("The order reversed along `dims`; a copy. Of self's shape.\n"
             ">>> weft.arange(3).flip(0)\n"
             "tensor([2, 1, 0])")
        .grad(0, 0, [](const Grad& g) { return flip(g.grad(), g.attr(0)); })
        .samples({"f(T(2, 3), (0,))", "f(T(2, 3), (0, -1))", "f(T(3), ())", "f(T(0, 3), (1,))"});
    t.add("fliplr(Tensor self) -> Tensor")
        .body([](Call& c) {
            WEFT_EXPECT(c.in[0].ndim() >= 2, Runtime, c.name(),
                        "a tensor with at least 2 dimensions", text(c.in[0].ndim()));
            c.set(flip(c.in[0], Dims{1}));
        })
        .batch(Batch::Body)
        .doc("flip along dimension 1. [n, m, *], of self's shape.\n"
             ">>> weft.fliplr(weft.tensor([[1, 2], [3, 4]]))\n"
             "tensor([[2, 1],\n"
             "        [4, 3]])")
        .samples({"f(T(2, 3))"});
    t.add("flipud(Tensor self) -> Tensor")
        .body([](Call& c) {
            WEFT_EXPECT(c.in[0].ndim() >= 1, Runtime, c.name(),
                        "a tensor with at least 1 dimension", "0");
            c.set(flip(c.in[0], Dims{0}));
        })
        .batch(Batch::Body)
        .doc("flip along dimension 0. [n, *], of self's shape.\n"
             ">>> weft.flipud(weft.tensor([1, 2, 3]))\n"
             "tensor([3, 2, 1])")
        .samples({"f(T(2, 3))"});
    t.add("roll(Tensor self, int[] shifts, int[] dims=[]) -> Tensor")
        .shape(roll_shape)
        .batch(batch_over<1>)
        .kernel(roll_kernel)
        .every_dtype()
        .doc("Moves the elements along `dims`, or of the flattened tensor; the last come first.\n\n"
             ">>> weft.arange(4).roll(1)\ntensor([3, 0, 1, 2])")
        .grad(0, 0, roll_gradient)
        .samples(
            {"f(T(2, 3), 1)", "f(T(2, 3), (1, -2), (0, 1))", "f(T(4), -1, 0)", "f(T(0, 3), 1, 1)"});
    t.add("repeat(Tensor self, int[] repeats) -> Tensor")
        .shape(repeat_shape)
        .kernel(repeat_kernel)
        .every_dtype()
        .batch(repeat_rows)
        .doc("Copies beside each other, so many along each dimension.\n\n"
             ">>> weft.arange(2).repeat(2, 2).tolist()\n[[0, 1, 0, 1], [0, 1, 0, 1]]")
        .method_only()
        .grad(0, 0, repeat_gradient)
        .samples({"f(T(2, 3), (2, 1))", "f(T(2), (3, 2))", "f(T(), (2,))", "f(T(2), (0,))"});
    t.add("tile(Tensor self, int[] dims) -> Tensor")
        .body(tile_body)
        .batch(Batch::Body)
        .doc("repeat with 1 for the leading dimensions that are not given.\n\n"
             ">>> weft.arange(2).tile(2)\ntensor([0, 1, 0, 1])")
        .samples({"f(T(2, 3), (2,))", "f(T(2), (2, 2))"});
    t.add("repeat_interleave(Tensor self, int repeats, int? dim=None, *, int? output_size=None) -> "
          "Tensor")
        .body(repeat_interleave_body)
        .batch(Batch::Body)
        .doc("Each position `repeats` times along `dim`, or of the flattened tensor; repeats is a\n"
             "number or one count for each position.\n"
             "Size n of `dim` becomes n * repeats, or the sum of the counts.\n"
             ">>> weft.arange(2).repeat_interleave(2)\n"
             "tensor([0, 0, 1, 1])")
        .samples({"f(T(2, 3), 2)", "f(T(2, 3), 2, 1)", "f(T(2, 3), 0, dim=-1)"});
    t.add("repeat_interleave.tensor(Tensor self, Tensor repeats, int? dim=None, *, int? "
          "output_size=None) "
          "-> Tensor")
        .body(repeat_interleave_tensor_body)
        .doc("Position i repeats[i] times along `dim`.")
        .samples({"f(T(3, 2), I(3), 0)", "f(T(3, 2), I(2), dim=1)", "f(T(2, 2), I(4))"});
    t.add("repeat_interleave.counts(Tensor repeats, *, int? output_size=None) -> Tensor")
        .body(repeat_interleave_counts_body)
        .function_only()
        .doc("Position i repeats[i] times: what index_select takes to repeat rows.\n\n"
             ">>> weft.repeat_interleave(weft.tensor([2, 0, 1]))\ntensor([0, 0, 2])")
        .samples({"f(I(4))", "f(repeats=I(0))"});
    t.add("_repeat_index(Tensor repeats, int size) -> Tensor")
        .shape_of_values<repeat_index_shape>(save_in(0))
        .doc("Position i, repeats[i] times.")
        .kernel(repeat_index_kernel)
        .internal();
    register_triangles(t);
}

}  // namespace weft
