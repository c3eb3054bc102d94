#include "ops/axes.h"

#include <algorithm>
#include <bit>

namespace weft::ops {

using kernels::Axis;

DimMask dim_mask(std::string_view who, const Value& dim, int ndim) {
    if (dim.none()) return every_dim(ndim);
    if (dim.kind() == Value::Kind::Int)
        return DimMask{1} << wrap_dim(who, dim.as_int(), ndim) & every_dim(ndim);
    DimSpan dims = dim.as_ints();
    if (dims.empty()) return every_dim(ndim);
    DimMask mask = 0;
    for (int64_t d : dims) {
        int at = wrap_dim(who, d, ndim);
        WEFT_EXPECT(
            !(mask >> at & 1), Runtime, who, "each dim once",
            text("dim ", at, " appears multiple times in the list of dims ", to_string(dims)));
        mask |= DimMask{1} << at;
    }
    return mask & every_dim(ndim);
}

Dims reduced_shape(DimSpan shape, DimMask mask, bool keepdim) {
    Dims out;
    for (size_t d = 0; d < shape.size(); ++d) {
        if (!(mask >> d & 1)) out.push_back(shape[d]);
        else if (keepdim) out.push_back(1);
    }
    return out;
}

int64_t count_over(DimSpan shape, DimMask mask) {
    int64_t count = 1;
    for (size_t d = 0; d < shape.size(); ++d)
        if (mask >> d & 1) count *= shape[d];
    return count;
}

void require_elements(std::string_view who, DimSpan shape, DimMask mask) {
    for (size_t d = 0; d < shape.size(); ++d)
        if (mask >> d & 1)
            WEFT_EXPECT(shape[d] != 0, Index, who,
                        text("reduction dim ", d, " to have non-zero size"),
                        text("shape ", to_string(shape)),
                        "an empty dimension has no largest or smallest element");
}

Axis axis_along(DimSpan shape, int dim) {
    if (shape.empty()) return {1, 1, 1};
    Axis axis{1, shape[dim], 1};
    for (int d = 0; d < dim; ++d) axis.outer *= shape[d];
    for (size_t d = dim + 1; d < shape.size(); ++d) axis.inner *= shape[d];
    if (axis.inner == 0) axis.outer = 0;  // 2**60 times nothing is no loop
    return axis;
}

Axis axis_of(const Call& c, const Tensor& x, int dim_slot) {
    return axis_along(x.shape(), wrap_dim(c.name(), c.attr(dim_slot).as_int(), x.ndim()));
}

namespace {

bool has(DimMask mask, int d) { return mask >> d & 1; }

/// The last run of reduced dims as the middle of an axis, and the dims before it that stay to do.
struct LastRun {
    Axis axis;
    int before;  ///< dims in front of the run
    bool more;   ///< one of those is to be reduced as well
};

LastRun last_run(DimSpan shape, DimMask mask) {
    LastRun run{{1, 1, 1}, 0, false};
    int d = static_cast<int>(shape.size()) - 1;
    for (; d >= 0 && (!has(mask, d) || shape[d] == 1); --d) run.axis.inner *= shape[d];
    for (; d >= 0 && (has(mask, d) || shape[d] == 1); --d) run.axis.n *= shape[d];
    run.before = d + 1;
    for (; d >= 0; --d) {
        run.axis.outer *= shape[d];
        run.more |= has(mask, d) && shape[d] != 1;
    }
    if (run.axis.inner == 0) run.axis.outer = 0;
    return run;
}

void reduce_runs(const Tensor& x, DimSpan shape, DimMask mask, const Tensor& out, ReduceStep step) {
    LastRun run = last_run(shape, mask);
    if (!run.more) return step(x, out, run.axis);
    Tensor partial = Tensor::empty(out.dtype(), Dims{run.axis.outer, run.axis.inner});
    step(x, partial, run.axis);
    Dims rest(shape.first(run.before));
    rest.push_back(run.axis.inner);
    reduce_runs(partial, rest, mask & every_dim(run.before), out, step);
}

/// A dense tensor's dims, those of size 1 left out, outermost in memory first.
Dims memory_order(const Tensor& t) {
    Dims order;
    for (int d = 0; d < t.ndim(); ++d)
        if (t.size(d) != 1) order.push_back(d);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return t.stride(static_cast<int>(a)) > t.stride(static_cast<int>(b));
    });
    return order;
}

/// `t` with its dims permuted to `order`; dims left out have size 1.
Tensor permuted(const Tensor& t, const Dims& order) {
    Dims shape, strides;
    for (int64_t d : order) {
        shape.push_back(t.size(static_cast<int>(d)));
        strides.push_back(t.stride(static_cast<int>(d)));
    }
    return t.view_as(shape, strides);
}

DimMask permuted(DimMask mask, const Dims& order) {
    DimMask out = 0;
    for (int i = 0; i < order.size(); ++i)
        if (has(mask, static_cast<int>(order[i]))) out |= DimMask{1} << i;
    return out;
}

/// Those of `order` that stay, in that order.
Dims kept_dims(const Dims& order, DimMask mask) {
    Dims kept;
    for (int64_t d : order)
        if (!has(mask, static_cast<int>(d))) kept.push_back(d);
    return kept;
}

/// Reduces in memory order; where that leaves the kept dims in another order than theirs, the
/// result, which is the smaller one, is permuted.
void reduce_dense(const Tensor& x, DimMask mask, const Tensor& out, ReduceStep step) {
    Dims order = memory_order(x), kept = kept_dims(order, mask);
    Tensor memory = permuted(x, order);
    if (std::is_sorted(kept.begin(), kept.end()))
        return reduce_runs(memory, memory.shape(), permuted(mask, order), out, step);
    Dims shape, strides(kept.size()), in_order = kept;
    for (int64_t d : kept) shape.push_back(x.size(static_cast<int>(d)));
    Tensor result = Tensor::empty(out.dtype(), shape);
    reduce_runs(memory, memory.shape(), permuted(mask, order), result, step);
    std::sort(in_order.begin(), in_order.end());
    Dims wanted;
    for (int i = 0; i < in_order.size(); ++i) {
        int at = static_cast<int>(std::find(kept.begin(), kept.end(), in_order[i]) - kept.begin());
        wanted.push_back(shape[at]);
        strides[i] = result.stride(at);
    }
    copy_into(out.view_as(wanted, contiguous_strides(wanted)), result.view_as(wanted, strides));
}

}  // namespace

void reduce(const Tensor& x, DimMask mask, const Tensor& out, ReduceStep step) {
    if (x.contiguous()) [[likely]]
        return reduce_runs(x, x.shape(), mask, out, step);
    if (x.numel() > 0 && is_dense(x.shape(), x.strides())) return reduce_dense(x, mask, out, step);
    Tensor dense = as_contiguous(x);
    reduce_runs(dense, dense.shape(), mask, out, step);
}

Folded fold(const Tensor& x, DimMask mask) {
    if (x.contiguous()) {
        LastRun run = last_run(x.shape(), mask);
        if (!run.more) return {x, run.axis};
    } else if (x.numel() > 0 && is_dense(x.shape(), x.strides())) {
        Dims order = memory_order(x), kept = kept_dims(order, mask);
        LastRun run = last_run(permuted(x, order).shape(), permuted(mask, order));
        if (!run.more && std::is_sorted(kept.begin(), kept.end())) return {x, run.axis};
    }
    Dims order;
    for (int d = 0; d < x.ndim(); ++d) order.push_back(d);
    Dims kept = kept_dims(order, mask), reduced = kept_dims(order, ~mask);
    int64_t n = count_over(x.shape(), mask), outer = 1;
    for (int64_t d : kept) outer *= x.size(static_cast<int>(d));
    for (int64_t d : reduced) kept.push_back(d);
    return {as_contiguous(permuted(x, kept)), {outer, n, 1}};
}

Tensor spread(const Tensor& t, const Value& dim, bool keepdim, const Dims& shape) {
    static const Function op{"_spread"};
    return op(t, dim, keepdim, shape);
}

}  // namespace weft::ops
