/// Reading and writing at positions that tensors name. See Note [Blocks] in kernels/index.h.
#include <cstring>
#include <numeric>

#include "base/lock.h"
#include "kernels/complex.h"
#include "ops/batch.h"
#include "ops/conj.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/indexing.h"
#include "ops/shape.h"

namespace weft {
namespace {

using namespace ops;

const Function index_put{"index_put.plain"}, index_select_op{"index_select"},
    index_fill{"index_fill"}, nonzero{"nonzero"};

void take(const Tensor& out, const Tensor& from, const kernels::Blocks& blocks) {
    if (blocks.count() == 0) return;
    Unlocked unlocked(blocks.count());
    kernels::take_blocks(out.bytes(), from.bytes(), blocks, item_size(out.dtype()));
}

/// Writes or adds `given`, broadcast to `shape`, at the blocks of `out`, whose memory is another.
void put(const Tensor& out, const Tensor& given, DimSpan shape, const kernels::Blocks& blocks,
         bool add) {
    if (blocks.count() == 0) return;
    const int item = item_size(out.dtype());
    if (!add && given.numel() == 1) {
        const Tensor value = as_dtype(given, out.dtype());
        Unlocked unlocked(blocks.count());
        return kernels::fill_blocks(out.bytes(), value.bytes(), blocks, item);
    }
    const Tensor values = spread(given, shape, out.dtype());
    Unlocked unlocked(blocks.count());
    if (!add) return kernels::put_blocks(out.bytes(), values.bytes(), blocks, item);
    dispatch_computed(out.dtype(), "index_put", [&]<class T>() {
        kernels::add_blocks(out.data<T>(), values.data<T>(), blocks);
    });
}

void zero(const Tensor& t) { std::memset(t.bytes(), 0, t.numel() * item_size(t.dtype())); }

/// Inputs `first` to the last of a gradient rule, `head` before them.
std::vector<Tensor> with_index_inputs(std::vector<Tensor> head, const Grad& g, int first) {
    for (int i = first; i < g.inputs(); ++i) head.push_back(g.in(i));
    return head;
}
constexpr SaveMask save_from(int first) { return 0xffff & ~(save_in(first) - 1); }

// ---- x[indices] --------------------------------------------------------------------------------

void require_few(const Call& c) {
    WEFT_EXPECT(c.inputs <= 16, Index, c.name(), "at most 14 index tensors", text(c.inputs));
}

void index_shape(Call& c) {
    require_few(c);
    Indexing plan(c.name(), c.in[0].shape(), c.in + 1, c.inputs - 1);
    c.add(Tensor::layout(c.in[0].dtype(), plan.result));
}

void index_kernel(Call& c) {
    const Tensor& self = c.in[0];
    Indexing plan(c.name(), self.shape(), c.in + 1, c.inputs - 1);
    BlockTables tables(c.name(), plan, self.strides());
    take(c.out(0), self, tables.blocks);
}

void index_backward_shape(Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.attr(0).as_ints())); }

void index_backward_kernel(Call& c) {
    const Tensor& out = c.out(0);
    Indexing plan(c.name(), out.shape(), c.in + 1, c.inputs - 1);
    BlockTables tables(c.name(), plan, out.strides());
    zero(out);
    put(out, c.in[0], plan.result, tables.blocks, true);
}

void index_put_shape(Call& c) {
    require_few(c);
    const Tensor &self = c.in[0], &values = c.in[1];
    Indexing plan(c.name(), self.shape(), c.in + 2, c.inputs - 2);
    WEFT_EXPECT(values.has(kWrapped) || values.dtype() == self.dtype(), Runtime, c.name(),
                text("values of the destination's dtype ", name(self.dtype())),
                text(name(values.dtype()),
                     " (Index put requires the source and destination dtypes match)"));
    WEFT_EXPECT(broadcasts_to(values.shape(), plan.result), Runtime, c.name(), "values that fit",
                text("others (shape mismatch: value tensor of shape ", to_string(values.shape()),
                     " cannot be broadcast to indexing result of shape ", to_string(plan.result),
                     ")"));
    c.add(Tensor::layout(self.dtype(), self.shape()));
}

void index_put_kernel(Call& c) {
    const Tensor& out = c.out(0);
    Indexing plan(c.name(), out.shape(), c.in + 2, c.inputs - 2);
    BlockTables tables(c.name(), plan, out.strides());
    if (c.in[1].has(kWrapped)) require_fits(c.name(), c.in[1], out.dtype());
    Tensor values = apart(c, c.in[1], out.dtype());
    start_from_self(c);
    put(out, values, plan.result, tables.blocks, c.attr(0).as_bool());
}

void index_put_gradient(Grad& g) {
    if (g.needs(0)) {
        Tensor none = ops::zeros({}, g.grad().dtype());
        g.set(0, g.attr(0).as_bool()
                     ? g.grad()
                     : index_put.over(with_index_inputs({g.grad(), none}, g, 2), {false}));
    }
    if (g.needs(1)) g.set(1, index_op.over(with_index_inputs({g.grad()}, g, 2)));
}

/// Masks become the indices of their true elements, by dimension.
void index_put_body(Call& c) {
    const Tensor& self = c.in[0];
    std::vector<Tensor> in{self, c.in[1]};
    int dim = 0;
    for (int i = 2; i < c.inputs; ++i) {
        const Tensor& index = c.in[i];
        if (index.dtype() != DType::Bool) {
            in.push_back(index);
            ++dim;
            continue;
        }
        for (int d = 0; d < index.ndim(); ++d, ++dim)
            WEFT_EXPECT(dim < self.ndim() && index.size(d) == self.size(dim), Index, c.name(),
                        text("a mask of the indexed tensor's shape ", to_string(self.shape())),
                        text(to_string(index.shape()), " at dimension ", dim));
        Tensor where = nonzero(index);
        for (int d = 0; d < index.ndim(); ++d) in.push_back(ops::select(where, 1, d));
    }
    Call plain(index_put.op(), in.data(), static_cast<int>(in.size()), c.attrs);
    plain.dest = c.in_place ? self : Tensor();
    plain.in_place = c.in_place;
    ops::call(plain);
    c.set(plain.out(0));
}

// ---- one dimension, one index vector -----------------------------------------------------------

/// `index` alone along `dim` of a tensor of `shape`.
struct IndexAlong {
    IndexAlong(std::string_view who, const Tensor& self, const Tensor& index, const Value& dim_attr)
        : dim(wrap_dim(who, dim_attr.as_int(), self.ndim())),
          indices(static_cast<size_t>(dim) + 1) {
        indices[static_cast<size_t>(dim)] = at_least_1d(dense_index(index));
    }
    Indexing plan(std::string_view who, DimSpan shape) const {
        return {who, shape, indices.data(), dim + 1};
    }
    const Tensor& index() const { return indices.back(); }

    int dim;
    std::vector<Tensor> indices;
};

/// PyTorch's words for a source that has other rows than indices.
std::string fewer_rows(const Call& c, int64_t indices, int64_t rows, int dim) {
    const bool adds = c.op->name != "index_copy";
    return text(rows, " (", c.op->name, "_(): Number of indices (", indices,
                ") should be equal to source.size(dim)", adds ? ": (" : " (", rows, ")",
                adds ? text(", for dim: ", dim) : "", ")");
}

void require_vector(const Call& c, const Tensor& index, ErrorKind kind = ErrorKind::Index) {
    if (index.ndim() > 1)
        fail(kind, c.name(), "an index of one dimension",
             text(index.ndim(), " (", c.name(), kind == ErrorKind::Index ? "" : "_",
                  "(): Index is supposed to be a vector)"));
    WEFT_EXPECT(
        index.dtype() == DType::Int64 || index.dtype() == DType::Int32, Runtime, c.name(),
        "an int64 index",
        text(name(index.dtype()), " (", c.name(), "(): Expected dtype int32 or int64 for index)"));
}

void index_select_shape(Call& c) {
    const Tensor &self = c.in[0], &index = c.in[1];
    require_vector(c, index);
    int dim = wrap_dim(c.name(), c.attr(0).as_int(), self.ndim());
    Dims shape(self.shape());
    WEFT_EXPECT(self.ndim() || index.numel() == 1, Runtime, c.name(), "one index for a 0-d tensor",
                text(index.numel()));
    if (self.ndim()) shape[dim] = index.numel();
    c.add(Tensor::layout(self.dtype(), shape));
}

void index_select_kernel(Call& c) {
    Tensor self = at_least_1d(c.in[0]);
    IndexAlong along(c.name(), self, c.in[1], c.attr(0));
    int64_t size = self.size(along.dim);
    const auto* values = along.index().data<int64_t>();
    int64_t bad = kernels::first_outside(values, along.index().numel(), 0, size);
    WEFT_EXPECT(bad < 0, Index, c.name(), text("indices in [0, ", size, ")"),
                text(values[bad], " (index out of range in self)"));
    BlockTables tables(c.name(), along.plan(c.name(), self.shape()), self.strides());
    take(c.out(0), self, tables.blocks);
}

/// The gradient of an input that was read at g.in(1) along g.attr(0): zeros with grad added there.
Tensor index_select_gradient(const Grad& g) {
    Dims in = g.in_shape(0);
    if (in.empty()) return reshape(g.grad(), in);
    int dim = wrap_dim("index_select", g.attr(0).as_int(), in.size());
    std::vector<Tensor> inputs(static_cast<size_t>(dim) + 2);
    inputs[0] = g.grad();
    inputs.back() = reshape(g.in(1), Dims{-1});
    return index_backward.over(inputs, {in});
}

/// self, index and a source with as many positions along dim as there are indices.
void along_shape(Call& c, ErrorKind mismatch) {
    const Tensor &self = c.in[0], &index = c.in[1], &source = c.in[2];
    require_vector(c, index);
    int dim = wrap_dim(c.name(), c.attr(0).as_int(), self.ndim());
    if (self.ndim() && source.ndim() && source.ndim() != self.ndim())
        fail(mismatch, c.name(), text("a source of ", self.ndim(), " dimensions, as self"),
             text(source.ndim(), " (their dimensionality must match)"));
    WEFT_EXPECT(source.dtype() == self.dtype(), Runtime, c.name(),
                text("a source of self's dtype ", name(self.dtype())), name(source.dtype()));
    if (index.numel() != size_along(source, dim))
        fail(mismatch, c.name(), "a row for each index",
             fewer_rows(c, index.numel(), size_along(source, dim), dim));
    bool fits = source.ndim() == self.ndim();
    for (int d = 0; fits && d < self.ndim(); ++d) fits = d == dim || source.size(d) == self.size(d);
    WEFT_EXPECT(
        fits, Runtime, c.name(),
        text("a source of self's shape ", to_string(self.shape()), " but for dimension ", dim),
        to_string(source.shape()));
    c.add(Tensor::layout(self.dtype(), self.shape()));
}

Tensor scaled_source(const Tensor& t, const Value& alpha) {
    if (alpha.kind() != Value::Kind::Complex && alpha.as_double() == 1) return t;
    Tensor out = Tensor::empty(t.dtype(), t.shape());
    dispatch<WithComplex<AllTypes>>(t.dtype(), "index_add", [&]<class T>() {
        T by;
        if constexpr (kernels::is_complex_v<T>) by = static_cast<T>(alpha.as_complex());
        else if constexpr (std::is_floating_point_v<T>) by = static_cast<T>(alpha.as_double());
        else by = static_cast<T>(alpha.as_int());
        for (int64_t i = 0; i < t.numel(); ++i)
            out.data<T>()[i] = kernels::times(by, t.data<T>()[i]);
    });
    return out;
}

/// Writes (or adds) the source along dim, after all checks.
template <bool Add>
void along_kernel(Call& c) {
    Tensor out = at_least_1d(c.out(0));
    IndexAlong along(c.name(), out, c.in[1], c.attr(0));
    bool by_line = Add && c.out(0).ndim() > 1;  // where PyTorch's check is another one
    require_inside(c.name(), by_line ? ErrorKind::Runtime : ErrorKind::Index, along.index(), 0,
                   out.size(along.dim), along.dim);
    Indexing plan = along.plan(c.name(), out.shape());
    BlockTables tables(c.name(), plan, out.strides());
    Tensor source = apart(c, c.in[2], out.dtype());
    if constexpr (Add) source = scaled_source(source, c.attr(1));
    start_from_self(c);
    put(out, source, plan.result, tables.blocks, Add);
}

void index_fill_shape(Call& c) {
    if (c.in[1].dtype() != DType::Int32)
        WEFT_EXPECT(c.in[1].dtype() == DType::Int64, Index, c.name(), "an int64 index",
                    name(c.in[1].dtype()));
    require_vector(c, c.in[1], ErrorKind::Runtime);
    wrap_dim(c.name(), c.attr(0).as_int(), c.in[0].ndim());
    if (c.inputs > 2)
        WEFT_EXPECT(c.in[2].ndim() == 0, Runtime, c.name(), "a number",
                    text("a tensor (index_fill_ only supports a 0-dimensional value tensor, but "
                         "got tensor with ",
                         c.in[2].ndim(), " dimension(s).)"));
    c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape()));
}

/// The value is input 2, or attribute 1 where it is a number.
void index_fill_kernel(Call& c) {
    Tensor out = at_least_1d(c.out(0));
    IndexAlong along(c.name(), out, c.in[1], c.attr(0));
    Indexing plan = along.plan(c.name(), out.shape());
    BlockTables tables(c.name(), plan, out.strides());
    Tensor value = c.inputs > 2 ? apart(c, c.in[2], c.in[2].dtype()) : as_tensor(c.attr(1));
    WEFT_EXPECT(is_complex(out.dtype()) || !is_complex(value.dtype()), Runtime, c.name(),
                text("a value of dtype ", name(out.dtype())),
                "a complex one (Converting complex Scalar to non-complex type is not supported)");
    if (c.inputs <= 2) require_fits(c.name(), value, out.dtype());
    start_from_self(c);
    put(out, value, plan.result, tables.blocks, false);
}

Tensor index_unfilled(const Grad& g) { return index_fill(g.grad(), g.in(1), g.attr(0), 0); }

/// What index_fill wrote, each place once, however often the index names it.
Tensor index_filled(const Grad& g) { return g.grad() - index_unfilled(g); }

Tensor selected_gradient(const Grad& g) { return index_select_op(g.grad(), g.in(1), g.attr(0)); }

/// Positions of the first dim, in tables of unlike length (Note [Rows] in batch.h).
bool index_select_rows(const BatchCall& c, BatchForm& form) {
    const Tensor &x = c.in(0), &index = c.in(1);
    if (x.ndim() == 0 || x.numel() == 0 || index.ndim() != 1 || index.numel() == 0 ||
        index.dtype() != DType::Int64 ||
        wrap_dim("index_select", c.attr(0).as_int(), x.ndim()) != 0)
        return false;
    form.add_rows(0, x.shape().subspan(1), x.size(0));
    form.add_indices(1, 0, index.numel());
    form.rows = index.numel();
    form.attrs[0] = 0;
    return true;
}

bool index_add_rows(const BatchCall& c, BatchForm& form) {
    const Tensor &x = c.in(0), &index = c.in(1), &source = c.in(2);
    if (x.ndim() == 0 || x.numel() == 0 || index.ndim() != 1 || index.numel() == 0 ||
        index.dtype() != DType::Int64 || source.ndim() != x.ndim() ||
        wrap_dim("index_add", c.attr(0).as_int(), x.ndim()) != 0)
        return false;
    form.rows = x.size(0);
    form.add_rows(0, x.shape().subspan(1));
    form.add_indices(1, 0, index.numel());
    form.add_rows(2, source.shape().subspan(1), source.size(0));
    form.attrs[0] = 0;
    return true;
}

void register_along(Table& t) {
    t.add("index_select(Tensor self, int dim, Tensor index) -> Tensor")
        .doc("The positions along `dim` that a vector names. Raises IndexError out of range.\n"
             "Size n of `dim` becomes that of `index`, [k]; the dtype stays.\n"
             ">>> weft.arange(4).index_select(0, weft.tensor([2, 0]))\n"
             "tensor([2, 0])")
        .shape(index_select_shape)
        .batch(index_select_rows)
        .kernel(index_select_kernel)
        .every_dtype()
        .out_form()
        .apart()
        .grad(0, save_in(1), index_select_gradient)
        .samples({"f(T(4, 3), 0, I(5, high=4))", "f(T(2, 3, 2), -2, I(2, high=3))",
                  "f(T(3), 0, I(high=3))", "f(T(4, 3), 0, I(0))"});
    t.add("index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> "
          "Tensor")
        .batch(index_add_rows)
        .doc("self with alpha * source added at the named positions along `dim`.\n"
             "index is [k], source has size k at `dim` and else self's sizes.\n"
             ">>> weft.zeros(3).index_add(0, weft.tensor([1, 1]), weft.ones(2))\n"
             "tensor([0., 2., 0.])")
        .shape([](Call& c) { along_shape(c, ErrorKind::Runtime); })
        .kernel(along_kernel<true>)
        .strided_output()
        .apart()
        .inplace()
        .grad(0, 0, [](const Grad& g) { return g.grad(); })
        .grad(2, save_in(1),
              [](const Grad& g) {
                  Tensor grad = selected_gradient(g);
                  const Value& alpha = g.attr(1);
                  if (alpha.kind() != Value::Kind::Complex && alpha.as_double() == 1) return grad;
                  return times_conj(grad, alpha);
              })
        .samples({"f(T(4, 3), 0, I(5, high=4), T(5, 3))",
                  "f(T(2, 3), -1, I(2, high=3), T(2, 2), alpha=2)"});
    t.add("index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor")
        .doc("self with source written at the named positions along `dim`; the last of several "
             "wins.\n"
             "index is [k], source has size k at `dim` and else self's sizes.\n"
             ">>> weft.zeros(3).index_copy(0, weft.tensor([1]), weft.ones(1))\n"
             "tensor([0., 1., 0.])")
        .shape([](Call& c) { along_shape(c, ErrorKind::Index); })
        .kernel(along_kernel<false>)
        .every_dtype()
        .strided_output()
        .apart()
        .inplace()
        .grad(0, save_in(1), index_unfilled)
        .grad(2, save_in(1), selected_gradient)
        .samples({"f(T(4, 3), 0, weft.tensor([2, 0]), T(2, 3))"});
    t.add("index_fill(Tensor self, int dim, Tensor index, Scalar value) -> Tensor")
        .doc("self with a number or 0-d tensor at the named positions along `dim`.\n\n"
             ">>> weft.zeros(3).index_fill(0, weft.tensor([1]), 2)\ntensor([0., 2., 0.])")
        .shape(index_fill_shape)
        .kernel(index_fill_kernel)
        .every_dtype()
        .strided_output()
        .apart()
        .inplace()
        .grad(0, save_in(1), index_unfilled)
        .samples({"f(T(4, 3), 0, weft.tensor([2, 0]), 1.5)"});
    t.add("index_fill.tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor")
        .doc("The same with a 0-d tensor.")
        .shape(index_fill_shape)
        .kernel(index_fill_kernel)
        .every_dtype()
        .strided_output()
        .apart(save_in(2))
        .inplace()
        .node_name("IndexFillBackward1")
        .grad(0, save_in(1), index_unfilled)
        .grad(2, save_in(1), index_filled)
        .samples({"f(T(4, 3), 1, weft.tensor([2, 0]), T())"});
}

// ---- rows of several calls (Note [Rows] in batch.h) --------------------------------------------

/// Indices with a first dim for the calls, and self too if it is not shared: what each call's
/// indices read of its own self, one after the other.
void index_each_body(Call& c) {
    const bool shared = c.attr(0).as_bool();
    std::vector<Tensor> in(c.in, c.in + c.inputs);
    int width = 1, first = -1, last = -1, defined = 0;
    for (int i = 1; i < c.inputs; ++i) {
        if (!in[static_cast<size_t>(i)].defined()) continue;
        width = std::max(width, in[static_cast<size_t>(i)].ndim());
        if (first < 0) first = i - 1;
        last = i - 1;
        ++defined;
    }
    bool together = last - first + 1 == defined;
    int64_t calls = in[static_cast<size_t>(first) + 1].size(0);
    if (!shared) {
        Dims shape(width, 1);
        shape[0] = calls;
        Tensor each = Tensor::empty(DType::Int64, shape);
        std::iota(each.data<int64_t>(), each.data<int64_t>() + calls, 0);
        in.insert(in.begin() + 1, each);
    }
    Tensor out = index_op.over(in);
    // The calls' dim is the first of the result, or comes behind the kept dims before the indices.
    const int before = together ? first : 0, at = shared && together ? before : 0;
    Dims order;
    order.push_back(at);
    if (shared) {
        for (int d = 0; d < out.ndim(); ++d)
            if (d != at) order.push_back(d);
    } else {  // [calls, indices, kept...]: the kept dims before the indices go in front of them
        for (int d = 0; d < before; ++d) order.push_back(width + d);
        for (int d = 1; d < width; ++d) order.push_back(d);
        for (int d = width + before; d < out.ndim(); ++d) order.push_back(d);
    }
    c.set(permute(out, order));
}

/// Indices of the first dims, all of one shape: an element of each is a row. Others beside each
/// other, of equal shapes.
bool index_rows(const BatchCall& c, BatchForm& form) {
    const Tensor& x = c.in(0);
    const Tensor* model = nullptr;
    bool leading = true;
    int width = 0;
    for (int i = 1; i < c.inputs(); ++i) {
        const Tensor& index = c.in(i);
        leading &= index.defined();
        if (!index.defined()) continue;
        if (!model) model = &index;
        if (index.numel() == 0) return false;
        leading &= equal(index.shape(), model->shape());
        width = std::max(width, index.ndim());
    }
    if (!model || x.numel() == 0) return false;
    const bool shared = c.fixed(0);
    if (shared) form.add_shared(0);
    if (leading) {
        form.rows = model->numel();
        if (!shared) form.add_rows(0, x.shape().subspan(1), x.size(0));
        if (shared) form.add_rows(1, DimSpan());
        else form.add_indices(1, 0, form.rows);
        for (int i = 2; i < c.inputs(); ++i) form.add_rows(i, DimSpan());
        form.wrap = !shared;
        return true;
    }
    static const Function each{"_index_each"};
    form.op = &each.op();
    form.attrs = {shared};
    if (!shared) form.add_rows(0, x.shape());
    for (int i = 1; i < c.inputs(); ++i) {
        const Tensor& index = c.in(i);
        if (!index.defined()) {
            form.add_shared(i);
            continue;
        }
        Dims row(width - index.ndim(), 1);
        for (int64_t d : index.shape()) row.push_back(d);
        form.add_rows(i, row);
    }
    return true;
}

}  // namespace

void register_index(Table& t) {
    t.add("index(Tensor self, Tensor[]? indices) -> Tensor")
        .any_device(~save_in(0))
        .batch(index_rows)
        .doc("self[indices] with int64 index tensors that broadcast; an undefined one keeps its "
             "dimension. Raises IndexError out of range.")
        .shape(index_shape)
        .kernel(index_kernel)
        .every_dtype()
        .internal()
        .joint_grad(
            save_from(1),
            [](Grad& g) {
                if (g.needs(0))
                    g.set(0, index_backward.over(with_index_inputs({g.grad()}, g, 1),
                                                 {g.in_shape(0)}));
            },
            save_in(0))
        .samples({"f(T(4, 3), [I(5, high=4)])", "f(T(4, 3), [None, I(2, 2, high=3)])",
                  "f(T(2, 3, 4), [I(2, 1, high=2), None, I(3, high=4)])"});
    t.add("_index_each(Tensor self, Tensor[]? indices, bool shared) -> Tensor")
        .doc("self[k][indices[k]] for every k, or self[indices[k]] of one shared self; each index\n"
             "has as many dims, the first one for k.")
        .body(index_each_body)
        .internal()
        .samples({"f(T(2, 4, 3), [None, I(2, 2, high=3)], False)",
                  "f(T(4, 3), [None, I(2, 2, high=3)], True)"});
    t.add("index_backward(Tensor grad, Tensor[]? indices, int[] size) -> Tensor")
        .any_device(~save_in(0))
        .doc("Zeros of `size` with grad added at the indices: the gradient of index.")
        .shape(index_backward_shape)
        .kernel(index_backward_kernel)
        .every_dtype()
        .internal()
        .node_name("IndexPutBackward0")
        .joint_grad(
            save_from(1),
            [](Grad& g) {
                if (g.needs(0)) g.set(0, index_op.over(with_index_inputs({g.grad()}, g, 1)));
            },
            save_in(0))
        .samples({"f(T(5, 3), [I(5, high=4)], (4, 3))"});
    t.add(
         "index_put(Tensor self, Tensor[] indices, Tensor values, bool accumulate=False) -> Tensor")
        .doc(
            "self with values, broadcast, written (or added) at self[indices], a list of int64 or\n"
            "bool tensors; the last of several writes wins. Raises IndexError before anything is\n"
            "written.\n\n"
            ">>> weft.zeros(3).index_put([weft.tensor([2, 0])], weft.tensor(1.))\n"
            "tensor([1., 0., 1.])")
        .body(index_put_body)
        .inplace()
        .samples({"f(T(4, 3), [weft.tensor([2, 0])], T(2, 3))", "f(T(4, 3), [B(4)], T())",
                  "f(T(4, 3), (I(5, high=4), I(5, high=3)), T(5), accumulate=True)"});
    t.add(
         "index_put.plain(Tensor self, Tensor values, Tensor[]? indices, bool accumulate=False) -> "
         "Tensor")
        .any_device(~(save_in(0) | save_in(1)))
        .doc("The same with int64 indices; an undefined one keeps its dimension.")
        .shape(index_put_shape)
        .kernel(index_put_kernel)
        .every_dtype()
        .strided_output()
        .apart()
        .internal()
        .joint_grad(save_from(2), index_put_gradient, save_in(0) | save_in(1))
        .samples({"f(T(4, 3), T(2, 3), [weft.tensor([2, 0])])",
                  "f(T(4, 3), T(), [None, I(2, high=3)], True)"});
    register_along(t);
}

}  // namespace weft
