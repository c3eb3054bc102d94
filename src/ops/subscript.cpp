#include "ops/subscript.h"

#include "ops/copy.h"
#include "ops/element.h"
#include "ops/functions.h"
#include "ops/indexing.h"
#include "ops/shape.h"

namespace weft::ops {
namespace {

const Function index_put_op{"index_put.plain"}, nonzero_op{"nonzero"}, copy_op{"copy"};

struct Selection {
    Tensor view;                  ///< after ints, slices, None and ...
    std::vector<Tensor> indices;  ///< by dimension of `view`; undefined: all of it
    bool advanced = false;
    bool moved = false;  ///< some view was made
    bool to_write = false;
};

/// Dimensions of the indexed tensor that an item takes.
int consumed(const Subscript& item) {
    switch (item.kind) {
        case Subscript::Kind::Int:
        case Subscript::Kind::Slice:
            return 1;
        case Subscript::Kind::Index:
            return is_mask(item.index) ? item.index.ndim() : 1;
        default:
            return 0;
    }
}

void add_tensor_index(Selection& s, int& dim, Tensor index) {
    if (index.dtype() == DType::UInt8) {
        if (hooks.warn)
            hooks.warn(
                "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool "
                "instead.");
        index = as_dtype(index, DType::Bool);
    } else if (index.dtype() == DType::Int32) {
        index = as_dtype(index, DType::Int64);
    }
    WEFT_EXPECT(index.dtype() == DType::Bool || index.dtype() == DType::Int64, Index, "index",
                "ints, slices, None, ... or tensors",
                text("one of ", name(index.dtype()),
                     " (tensors used as indices must be long, int, byte or bool tensors)"));
    s.advanced = true;
    s.indices.resize(static_cast<size_t>(dim));
    if (index.dtype() != DType::Bool) {
        s.indices.push_back(index);
        ++dim;
        return;
    }
    for (int d = 0; d < index.ndim(); ++d)
        WEFT_EXPECT(dim + d < s.view.ndim() && index.size(d) == s.view.size(dim + d), Index,
                    "index", "a mask that fits",
                    text("another one (The shape of the mask ", to_string(index.shape()),
                         " at index ", d, " does not match the shape of the indexed tensor ",
                         to_string(s.view.shape()), " at index ", dim + d, ")"));
    Tensor where = nonzero_op(index);
    for (int d = 0; d < index.ndim(); ++d) s.indices.push_back(select(where, 1, d));
    dim += index.ndim();
}

void add_flag(Selection& s, int& dim, bool holds) {
    s.view = unsqueeze(s.view, dim);
    s.moved = true;
    Tensor index = Tensor::empty(DType::Int64, Dims{holds ? 1 : 0});
    if (holds) *index.data<int64_t>() = 0;
    add_tensor_index(s, dim, index);
}

bool is_all(const Value& start, const Value& stop, int64_t size) {
    return (start.none() || start.as_int() == 0 || start.as_int() <= -size) &&
           (stop.none() || stop.as_int() >= size);
}

void take_slice(Selection& s, int dim, const Subscript& item) {
    WEFT_EXPECT(dim < s.view.ndim(), Index, "index", text("at most ", s.view.ndim(), " indices"),
                "more");
    const int64_t step = item.number;
    WEFT_EXPECT(step > 0, Value, "index", "another slice",
                text(step, " (step must be greater than zero)"),
                "flip() the tensor for a negative step");
    const bool given = item.start || item.stop || step != 1;
    // As in PyTorch, what is written through a slice of everything is the tensor itself.
    if (!given || (s.to_write && step == 1 && is_all(item.start, item.stop, s.view.size(dim))))
        return;
    s.view = call1(slice.op(), {s.view}, {dim, item.start, item.stop, step});
    s.moved = true;
}

/// `from`: the dimension of the indexed tensor.
void apply(Selection& s, int& dim, int from, const Subscript& item, int rest) {
    switch (item.kind) {
        case Subscript::Kind::Int:
            wrap_index("index", item.number, from, s.view.size(dim));
            s.view = select(s.view, dim, item.number);
            s.moved = true;
            return;
        case Subscript::Kind::Slice:
            take_slice(s, dim, item);
            ++dim;
            return;
        case Subscript::Kind::NewAxis:
            s.view = unsqueeze(s.view, dim++);
            s.moved = true;
            return;
        case Subscript::Kind::Ellipsis:
            dim += rest;
            return;
        case Subscript::Kind::Flag:
            return add_flag(s, dim, item.number != 0);
        case Subscript::Kind::Index:
            return add_tensor_index(s, dim, item.index);
    }
}

Selection selected(const Tensor& t, std::span<const Subscript> key, bool to_write) {
    Selection s{t, {}, false, false, to_write};
    int taken = 0, ellipses = 0;
    for (const Subscript& item : key) {
        taken += consumed(item);
        ellipses += item.kind == Subscript::Kind::Ellipsis;
    }
    WEFT_EXPECT(ellipses <= 1, Index, "index", "at most one ...", std::to_string(ellipses));
    WEFT_EXPECT(taken <= t.ndim(), Index, "index",
                text("at most ", t.ndim(), " indices for a tensor of shape ", to_string(t.shape())),
                text(taken, " (too many indices for tensor of dimension ", t.ndim(), ")"));
    int dim = 0, from = 0;
    const int rest = t.ndim() - taken;
    for (const Subscript& item : key) {
        apply(s, dim, from, item, rest);
        from += item.kind == Subscript::Kind::Ellipsis ? rest : consumed(item);
    }
    return s;
}

std::vector<Tensor> with_indices(std::initializer_list<Tensor> first, const Selection& s) {
    std::vector<Tensor> in(first);
    in.insert(in.end(), s.indices.begin(), s.indices.end());
    return in;
}

void write(const Function& op, const std::vector<Tensor>& in) {
    Call c(op.op(), in.data(), static_cast<int>(in.size()), op.op().defaults.data());
    c.dest = in[0];
    c.in_place = true;
    call(c);
}

/// Assigned values may have leading dimensions of size 1 that the target lacks.
Tensor without_leading_ones(Tensor v, int ndim) {
    while (v.ndim() > ndim && v.size(0) == 1) v = select(v, 0, 0);
    return v;
}

}  // namespace

Tensor get_row(const Tensor& t, int64_t index) {
    expect_indexed(t);
    return select(t, 0, wrap_index("index", index, 0, t.size(0)));
}

Tensor get_subscript(const Tensor& t, std::span<const Subscript> key) {
    if (key.size() == 1 && key[0].kind == Subscript::Kind::Int) return get_row(t, key[0].number);
    Selection s = selected(t, key, false);
    if (s.advanced) return index_op.over(with_indices({s.view}, s));
    return s.moved ? s.view : view(s.view, Dims(s.view.shape()));
}

void set_subscript(const Tensor& t, std::span<const Subscript> key, Tensor v) {
    Selection s = selected(t, key, true);
    if (!s.advanced) {
        v = without_leading_ones(v, s.view.ndim());
        if (!broadcasts_to(v.shape(), s.view.shape())) expand(v, s.view.shape());  // says why not
        return write(copy_op, {s.view, v});
    }
    if (v.dtype() != t.dtype()) v = to(v, t.dtype());
    if (v.ndim() > 1) {
        Indexing plan("index_put", s.view.shape(), s.indices.data(),
                      static_cast<int>(s.indices.size()));
        v = without_leading_ones(v, plan.result.size());
    }
    write(index_put_op, with_indices({s.view, v}, s));
}

}  // namespace weft::ops
