/// Pieces of memory as operands: what the batcher needs to pass values from one batch to the next.
///
/// A value lies in a block (a contiguous tensor) from some element on. `_region` shows rows at equal
/// distances without a copy, `_pack` gathers pieces of several blocks, `_take` copies one out. The
/// gradients go by parts (Note [Sums of parts] in autograd/grad_buffer.h).
#include <cstring>
#include <string>

#include "base/intern.h"
#include "kernels/simd.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/shape.h"
#include "ops/way.h"

namespace weft {
namespace {

using namespace ops;

/// `t` as one row of elements.
Tensor flat(const Tensor& t) { return reshape(t, Dims{-1}); }

/// Zeros like input i with the elements of `grad` added at `at`: the differentiable way.
Tensor scattered(const Tensor& grad, const Tensor& at, const Dims& shape) {
    Tensor sum = zeros(Dims{count_elements("_pack", shape)}, grad.dtype());
    return reshape(index_add(sum, at, flat(grad), 0), shape);
}

Tensor int_tensor(int64_t n) { return Tensor::empty(DType::Int64, Dims{n}); }

// ---- _region -----------------------------------------------------------------------------------

/// Strides of rows `step` apart, each dense.
Dims region_strides(DimSpan shape, int64_t step) {
    Dims strides(static_cast<int>(shape.size()));
    int64_t inner = 1;
    for (int d = strides.size() - 1; d > 0; --d) {
        strides[d] = inner;
        inner *= std::max<int64_t>(shape[d], 1);
    }
    strides[0] = step;
    return strides;
}

/// Whether `count` elements from `offset` lie in the contiguous tensor `t`.
void check_within(const Call& c, const Tensor& t, int64_t offset, int64_t count) {
    WEFT_EXPECT(t.defined() && t.contiguous() && offset >= 0 && count >= 0 && offset <= t.numel() &&
                    count <= t.numel() - offset,
                Index, c.op->name, "a piece of a contiguous tensor",
                text(count, " elements from ", offset, " of ", t.defined() ? t.numel() : 0));
}

void region_shape(Call& c) {
    DimSpan shape = c.attr(2).as_ints();
    int64_t step = c.attr(1).as_int(), n = count_elements(c.op->name, shape);
    WEFT_EXPECT(!shape.empty() && step >= 0, Value, c.op->name, "rows and a step of at least 0",
                to_string(shape));
    if (n) check_within(c, c.in[0], c.attr(0).as_int(), (shape[0] - 1) * step + n / shape[0]);
    add_view(c, shape, region_strides(shape, c.attr(1).as_int()), c.attr(0).as_int());
}

void add_region(const Tensor& sum, const Tensor& grad, const Tensor&, const Value* attrs, int) {
    DimSpan shape = attrs[2].as_ints();
    int64_t offset = attrs[0].as_int(), step = attrs[1].as_int();
    if (step == 0 && shape[0] > 1) {  // one row, read many times
        Dims one(shape);
        one[0] = 1;
        add_into(sum.view_as(one, region_strides(one, 1), offset), sum_dim(grad, Dims{0}, true));
        return;
    }
    add_into(sum.view_as(shape, region_strides(shape, step), offset), grad);
}

void region_gradient(Grad& g) {
    if (g.set_part(0, g.grad(), add_region)) return;
    DimSpan shape = g.attr(2).as_ints();
    int64_t n = count_elements("_region", shape), inner = shape[0] ? n / shape[0] : 0;
    Tensor at = int_tensor(n);
    for (int64_t k = 0; k < n; ++k)
        at.data<int64_t>()[k] = g.attr(0).as_int() + k / inner * g.attr(1).as_int() + k % inner;
    g.set(0, scattered(g.grad(), at, g.in_shape(0)));
}

// ---- _pack -------------------------------------------------------------------------------------

/// One piece: `count` elements of input `source` from `offset` on.
struct Piece {
    int64_t source, offset, count;
};
struct Pieces {
    explicit Pieces(const Value& v) : flat(v.as_ints()) {}
    int64_t size() const { return static_cast<int64_t>(flat.size()) / 3; }
    Piece operator[](int64_t k) const { return {flat[3 * k], flat[3 * k + 1], flat[3 * k + 2]}; }
    DimSpan flat;
};

void pack_shape(Call& c) {
    Pieces pieces(c.attr(0));
    int64_t total = 0;
    for (int64_t k = 0; k < pieces.size(); ++k) {
        Piece p = pieces[k];
        WEFT_EXPECT(p.source >= 0 && p.source < c.inputs, Index, c.op->name,
                    text("sources below ", c.inputs), std::to_string(p.source));
        check_within(c, c.in[p.source], p.offset, p.count);
        WEFT_EXPECT(c.in[p.source].dtype() == c.in[0].dtype(), Type, c.op->name, "one dtype",
                    name(c.in[p.source].dtype()));
        total += p.count;
    }
    WEFT_EXPECT(c.inputs > 0 && total == count_elements(c.op->name, c.attr(1).as_ints()), Value,
                c.op->name, text("a size of ", total, " elements"), to_string(c.attr(1).as_ints()));
    c.add(Tensor::layout(c.in[0].dtype(), c.attr(1).as_ints()));
}

void pack_kernel(Call& c) {
    Pieces pieces(c.attr(0));
    int64_t item = item_size(c.out(0).dtype());
    char* to = c.out(0).bytes();
    for (int64_t k = 0; k < pieces.size(); ++k) {
        Piece p = pieces[k];
        std::memcpy(to, c.in[p.source].bytes() + p.offset * item,
                    static_cast<size_t>(p.count * item));
        to += p.count * item;
    }
}

/// Adds the parts of `grad` that are pieces of `source` to where they come from.
struct AddPieces {
    template <class T>
    WEFT_INLINE static void run(T* __restrict sum, const T* __restrict grad, const int64_t* flat,
                                int64_t pieces, int64_t source) {
        for (const int64_t* p = flat; p < flat + 3 * pieces; p += 3) {
            if (p[0] == source)
                for (int64_t e = 0; e < p[2]; ++e) sum[p[1] + e] += grad[e];
            grad += p[2];
        }
    }
};

void add_packed(const Tensor& sum, const Tensor& grad, const Tensor&, const Value* attrs, int i) {
    Tensor dense = as_contiguous(grad);
    dispatch<FloatingTypes>(sum.dtype(), "_pack", [&]<class T>() {
        Pieces pieces(attrs[0]);
        kernels::per_isa<AddPieces>(sum.data<T>(), static_cast<const T*>(dense.data<T>()),
                                    pieces.flat.data(), pieces.size(), int64_t{i});
    });
}

/// The same where `grad` is the one piece of its source.
void add_piece(const Tensor& sum, const Tensor& grad, const Tensor&, const Value* attrs, int i) {
    int64_t offset = Pieces(attrs[0])[i].offset;
    add_into(sum.view_as(grad.shape(), Dims{1}, offset), grad);
}

/// Whether piece k is all that is taken of source k: no need to look for a source's pieces.
bool one_by_one(const Pieces& pieces, int inputs) {
    if (pieces.size() != inputs) return false;
    for (int64_t k = 0; k < inputs; ++k)
        if (pieces[k].source != k) return false;
    return true;
}

void pack_gradient(Grad& g) {
    Pieces pieces(g.attr(0));
    const bool simple = one_by_one(pieces, g.inputs());
    Tensor dense = simple ? as_contiguous(g.grad()) : Tensor();
    int64_t from_piece = 0;
    for (int i = 0; i < g.inputs(); ++i) {
        if (simple) {
            int64_t count = pieces[i].count;
            Tensor part =
                dense.view_as(Dims{count}, Dims{1}, std::exchange(from_piece, from_piece + count));
            if (!g.needs(i) || g.set_part(i, part, add_piece)) continue;
        }
        if (!g.needs(i) || g.set_part(i, g.grad(), add_packed)) continue;
        int64_t n = 0, start = 0, k = 0;
        for (int64_t p = 0; p < pieces.size(); ++p)
            n += pieces[p].source == i ? pieces[p].count : 0;
        Tensor from = int_tensor(n), to = int_tensor(n);
        for (int64_t p = 0; p < pieces.size(); ++p) {
            Piece piece = pieces[p];
            for (int64_t e = 0; piece.source == i && e < piece.count; ++e, ++k) {
                from.data<int64_t>()[k] = start + e;
                to.data<int64_t>()[k] = piece.offset + e;
            }
            start += piece.count;
        }
        g.set(i, scattered(index_select(flat(g.grad()), from, 0), to, g.in_shape(i)));
    }
}

// ---- _take -------------------------------------------------------------------------------------

void taken_shape(Call& c) {
    check_within(c, c.in[0], c.attr(0).as_int(), count_elements(c.op->name, c.attr(1).as_ints()));
    c.add(Tensor::layout(c.in[0].dtype(), c.attr(1).as_ints(), c.attr(2).as_ints()));
}

void taken_kernel(Call& c) {
    const Tensor& out = c.out(0);
    Tensor dense = Tensor::layout(out.dtype(), out.shape());
    copy_into(out, c.in[0].view_as(out.shape(), dense.strides(), c.attr(0).as_int()));
}

void add_taken(const Tensor& sum, const Tensor& grad, const Tensor&, const Value* attrs, int) {
    Tensor dense = Tensor::layout(grad.dtype(), grad.shape());
    add_into(sum.view_as(grad.shape(), dense.strides(), attrs[0].as_int()), grad);
}

const char* taken_name(const Call& c) {
    return c.attr(3).none() ? "TakeBackward0" : intern(c.attr(3).as_text());
}

void taken_gradient(Grad& g) {
    if (g.set_part(0, g.grad(), add_taken)) return;
    int64_t n = g.grad().numel();
    Tensor at = int_tensor(n);
    for (int64_t k = 0; k < n; ++k) at.data<int64_t>()[k] = g.attr(0).as_int() + k;
    g.set(0, scattered(g.grad(), at, g.in_shape(0)));
}

void region_way(const Way& way, AddSpan add) {
    const int64_t start = way.attrs[0].as_int(), step = way.attrs[1].as_int();
    const DimSpan shape = way.attrs[2].as_ints();
    const int64_t inner = count_elements("_region", shape.subspan(1));
    for (int64_t row = 0; row < shape[0]; ++row) {
        const int64_t at = start + row * step;
        const Span part = within(way.elements, {at, at + inner});
        if (!part.empty()) add({part.begin - at + row * inner, part.end - at + row * inner});
    }
}

void pack_way(const Way& way, AddSpan add) {
    const DimSpan pieces = way.attrs[0].as_ints();  // (source, offset, count) of each
    int64_t to = 0;
    for (size_t p = 0; p + 2 < pieces.size(); p += 3) {
        const int64_t from = pieces[p + 1], count = pieces[p + 2];
        const Span part = within(way.elements, {from, from + count});
        if (pieces[p] == way.input && (count == 0 || !part.empty()))
            add({part.begin - from + to, std::max(part.end, part.begin) - from + to});
        to += count;
    }
}

void take_way(const Way& way, AddSpan add) {
    const int64_t start = way.attrs[0].as_int();
    add({way.elements.begin - start, way.elements.end - start});
}

}  // namespace

void register_place(Table& t) {
    t.add("_region(Tensor self, int offset, int step, int[] size) -> Tensor")
        .doc("Rows `step` elements apart, from element `offset` of a contiguous tensor: a view.")
        .shape(region_shape)
        .kernel(no_kernel)
        .view()
        .way(region_way)
        .internal()
        .joint_grad(0, region_gradient)
        .samples({"f(T(4, 3), 0, 3, (4, 3))", "f(T(4, 6), 2, 6, (4, 2))", "f(T(5), 1, 0, (3, 2))",
                  "f(T(4, 3), 3, 3, (2, 3, 1))"});
    t.add("_pack(Tensor[] tensors, int[] pieces, int[] size) -> Tensor")
        .doc("Pieces (source, offset, count) of contiguous tensors, one after the other.")
        .shape(pack_shape)
        .kernel(pack_kernel)
        .every_dtype()
        .way(pack_way)
        .internal()
        .joint_grad(0, pack_gradient)
        .samples({"f([T(4), T(2, 3)], (1, 3, 3, 0, 0, 2, 0, 3, 1), (2, 3))",
                  "f([T(4)], (0, 2, 2, 0, 2, 2), (4,))"});
    t.add("_take(Tensor self, int offset, int[] size, int[] stride, str? name=None, "
          "bool used=False) -> Tensor")
        .doc(
            "Elements of a contiguous tensor from `offset` on, copied into a tensor of their own;\n"
            "`name` is the node's: that of the op which made them. `used`: Note [Taken values].")
        .node_name(taken_name)
        .shape(taken_shape)
        .kernel(taken_kernel)
        .every_dtype()
        .way(take_way)
        .internal()
        .joint_grad(0, taken_gradient)
        .samples({"f(T(4, 3), 3, (2, 3), (3, 1))", "f(T(4, 3), 5, (), ())",
                  "f(T(4, 3), 2, (2, 3), (1, 2))"});
}

}  // namespace weft
