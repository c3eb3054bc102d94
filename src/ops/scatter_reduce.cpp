/// scatter_reduce: sums, products, means and extremes into the places that scatter would write.
#include <algorithm>
#include <limits>

#include "base/lock.h"
#include "ops/batch.h"
#include "ops/lines.h"

namespace weft {
namespace {

using namespace ops;
using kernels::Combine;

const Function scatter_reduce{"_scatter_reduce"}, scatter_value{"scatter.value"};

enum class Reduce { Sum, Prod, Mean, Amax, Amin };

Reduce reduce_of(const Value& v) {
    const std::string& how = v.as_text();
    constexpr std::string_view names[] = {"sum", "prod", "mean", "amax", "amin"};
    for (int k = 0; k < 5; ++k)
        if (how == names[k]) return static_cast<Reduce>(k);
    fail(ErrorKind::Runtime, "scatter_reduce", "reduce to be sum, prod, mean, amax or amin", how);
}

Combine combine_for(Reduce how) {
    switch (how) {
        case Reduce::Prod:
            return Combine::Multiply;
        case Reduce::Amax:
            return Combine::Max;
        case Reduce::Amin:
            return Combine::Min;
        default:
            return Combine::Add;
    }
}

/// What the reduction starts from where self does not count.
template <class T>
T identity(Reduce how) {
    using L = std::numeric_limits<T>;
    switch (how) {
        case Reduce::Prod:
            return T(1);
        case Reduce::Amax:
            return L::has_infinity ? -L::infinity() : L::lowest();
        case Reduce::Amin:
            return L::has_infinity ? L::infinity() : L::max();
        default:
            return T(0);
    }
}

void scatter_reduce_shape(Call& c) {
    const Tensor &self = c.in[0], &index = c.in[1], &src = c.in[2];
    int dim = checked_dim(c);
    reduce_of(c.attr(1));
    check_index(c, index, self.shape(), dim, "self");
    WEFT_EXPECT(
        src.dtype() == self.dtype(), Runtime, c.name(), "src of self's dtype",
        text(name(src.dtype()), " (scatter(): Expected self.dtype to be equal to src.dtype)"));
    check_index(c, index, src.shape(), -1, "src");
    c.add(Tensor::layout(self.dtype(), self.shape()));
}

/// One number, broadcast to the index.
template <class T>
Tensor repeated(T value, const Tensor& index) {
    Tensor one = Tensor::empty(dtype_of<T>, DimSpan());
    *one.data<T>() = value;
    return one.view_as(index.shape(), Dims(index.ndim()));
}

/// How many values went into each place; at least 1.
Tensor counts_of(const Call& c, const Tensor& index, const Tensor& out, bool with_self) {
    Tensor counts = Tensor::empty(DType::Int64, out.shape());
    std::fill_n(counts.data<int64_t>(), counts.numel(), with_self ? 1 : 0);
    Tensor ones = repeated<int64_t>(1, index);
    LinesOf l(c, index, counts, ones, checked_dim(c));
    kernels::scatter_lines(counts.data<int64_t>(), ones.data<int64_t>(), l.at(), l.lines,
                           Combine::Add);
    for (int64_t i = 0; i < counts.numel(); ++i)
        counts.data<int64_t>()[i] = std::max<int64_t>(counts.data<int64_t>()[i], 1);
    return counts;
}

template <class T>
T shared(T sum, int64_t count) {
    if constexpr (std::is_same_v<T, bool>) return sum;
    else if constexpr (std::is_integral_v<T>)
        return static_cast<T>(sum / count - (sum % count != 0 && sum < 0));  // rounded down
    else return sum / static_cast<T>(count);
}

void scatter_reduce_kernel(Call& c) {
    const Tensor& out = c.out(0);
    if (c.in[1].numel() == 0) return start_from_self(c);
    Tensor index = apart(c, c.in[1], DType::Int64), source = c.in[2];
    Reduce how = reduce_of(c.attr(1));
    bool with_self = c.attr(2).as_bool();
    LinesOf l(c, index, out, source, checked_dim(c));
    start_from_self(c);
    Unlocked unlocked(index.numel());
    dispatch<AllTypes>(out.dtype(), c.name(), [&]<class T>() {
        T* to = out.data<T>();
        if (!with_self) {
            Tensor start = repeated<T>(identity<T>(how), index);
            LinesOf s(c, index, out, start, checked_dim(c));
            kernels::scatter_lines(to, start.data<T>(), s.at(), s.lines, Combine::Set);
        }
        kernels::scatter_lines(to, source.data<T>(), l.at(), l.lines, combine_for(how));
        if (how != Reduce::Mean) return;
        Tensor counts = counts_of(c, index, out, with_self);
        for (int64_t i = 0; i < out.numel(); ++i) to[i] = shared(to[i], counts.data<int64_t>()[i]);
    });
}

/// Gradients of the parts that a reduction was made of: self (before include_self) and src.
struct Parts {
    Tensor self, src;
};

Tensor as_flags(const Tensor& condition, DType dtype) { return ops::to(condition, dtype); }

Parts mean_parts(const Grad& g) {
    Tensor index = g.in(1), grad = g.grad();
    Tensor count = ops::full_like(grad, g.attr(2).as_bool() ? 1 : 0);
    Tensor ones = zeros(index.shape(), grad.dtype()) + 1.0;
    count = scatter_add(count, index, ones, g.attr(0));
    Tensor each = grad / ops::maximum(count, number(1, grad.dtype()));
    return {each, gather(each, index, g.attr(0))};
}

/// Equal extremes share the gradient.
Parts extreme_parts(const Grad& g) {
    Tensor self = g.in(0), index = g.in(1), src = g.in(2), out = g.out(0), grad = g.grad();
    DType dtype = grad.dtype();
    Tensor self_hits = as_flags(ops::eq(self, out), dtype);
    Tensor src_hits = as_flags(ops::eq(src, gather(out, index, g.attr(0))), dtype);
    Tensor each = grad / scatter_add(self_hits, index, src_hits, g.attr(0));
    return {self_hits * each, src_hits * gather(each, index, g.attr(0))};
}

/// Right where one factor is zero: its gradient is the product of the others.
Parts product_parts(const Grad& g) {
    Tensor self = g.in(0), index = g.in(1), src = g.in(2), out = g.out(0), grad = g.grad();
    const Value &dim = g.attr(0), &how = g.attr(1), &with_self = g.attr(2);
    Tensor zero = number(0, grad.dtype()), one = number(1, grad.dtype());
    auto without_zeros = [&](const Tensor& t) {
        return ops::masked_fill(t, ops::eq(t, zero), one);
    };
    Tensor others = without_zeros(self);
    others = scatter_reduce(others, index, src, dim, how, with_self) / others;
    Tensor is_zero = ops::eq(src, zero);
    Tensor count =
        scatter_add(zeros(self.shape(), grad.dtype()), index, as_flags(is_zero, grad.dtype()), dim);
    Tensor alone = logical_and(is_zero, ops::eq(gather(count, index, dim), one));
    Tensor rest =
        scatter_reduce(self, index, ops::masked_fill(src, alone, one), dim, how, with_self);
    Tensor src_grad = ops::where(alone, gather(grad * rest, index, dim),
                                 gather(grad * out, index, dim) / without_zeros(src));
    return {grad * others, src_grad};
}

Parts parts_of(const Grad& g) {
    switch (reduce_of(g.attr(1))) {
        case Reduce::Sum:
            return {g.grad(), gather(g.grad(), g.in(1), g.attr(0))};
        case Reduce::Mean:
            return mean_parts(g);
        case Reduce::Prod:
            return product_parts(g);
        default:
            return extreme_parts(g);
    }
}

void scatter_reduce_gradients(Grad& g) {
    WEFT_EXPECT(equal(g.in(2).shape(), g.in(1).shape()), Runtime, "scatter_reduce",
                "src and index of one shape, for gradients",
                text(to_string(g.in(2).shape()), " and ", to_string(g.in(1).shape())));
    Parts parts = parts_of(g);
    if (g.needs(0))
        g.set(0,
              g.attr(2).as_bool() ? parts.self : scatter_value(parts.self, g.in(1), g.attr(0), 0));
    if (g.needs(2)) g.set(2, parts.src);
}

}  // namespace

void register_scatter_reduce(Table& t) {
    t.add("_scatter_reduce(Tensor self, int dim, Tensor index, Tensor src, str reduce, "
          "bool include_self) -> Tensor")
        .doc("self with src reduced into the places that scatter would write.")
        .shape(scatter_reduce_shape)
        .kernel(scatter_reduce_kernel)
        .batch(batch_along<0>)
        .internal()
        .in_packages()
        .node_name("ScatterReduceBackward0")
        .joint_grad(save_in(0) | save_in(1) | save_in(2) | save_out(0), scatter_reduce_gradients)
        .samples({"f(T(3, 4), 0, I(2, 3, high=3), T(2, 3), 'sum', True)",
                  "f(T(3, 4), 1, I(2, 3, high=4), T(2, 3), 'prod', False)",
                  "f(T(3, 4), 0, I(2, 3, high=3), T(2, 3), 'amax', True)",
                  "f(T(3), -1, I(5, high=3), T(5), 'mean', False)",
                  "f(T(3), -1, I(5, high=3), T(5), 'amin', True)"});
}

}  // namespace weft
