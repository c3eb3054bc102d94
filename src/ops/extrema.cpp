/// Largest and smallest elements, where they are, and the one in the middle.
#include <limits>

#include "kernels/order.h"
#include "ops/axes.h"
#include "ops/batch.h"

namespace weft {
namespace {

using namespace ops;
using kernels::Axis;

template <bool Max>
void value_step(const Tensor& from, const Tensor& to, Axis axis) {
    Unlocked unlocked(from.numel());
    dispatch<AllTypes>(from.dtype(), Max ? "max" : "min", [&]<class T>() {
        if constexpr (Max) kernels::max(from.data<T>(), to.data<T>(), axis);
        else kernels::min(from.data<T>(), to.data<T>(), axis);
    });
}

void require_any(const Call& c, ErrorKind kind) {
    if (c.in[0].numel() == 0) [[unlikely]]
        fail(kind, c.name(), "a dim",
             text("none (", c.name(),
                  "(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
                  "reduction dim with the 'dim' argument.)"));
}

void extremum_shape(Call& c) {
    require_any(c, ErrorKind::Runtime);
    c.add(Tensor::layout(c.in[0].dtype(), DimSpan()));
}

template <bool Max>
void extremum_kernel(Call& c) {
    reduce(c.in[0], every_dim(c.in[0].ndim()), c.out(0), value_step<Max>);
}

bool names_all(const Value& dim) {
    return dim.none() || (dim.kind() == Value::Kind::Ints && dim.as_ints().empty());
}

void over_dims_shape(Call& c) {
    const Tensor& x = c.in[0];
    DimMask mask = dim_mask(c.name(), c.attr(0), x.ndim());
    if (names_all(c.attr(0))) require_any(c, ErrorKind::Runtime);
    else require_elements(c.name(), x.shape(), mask);
    c.add(Tensor::layout(x.dtype(), reduced_shape(x.shape(), mask, c.attr(1).as_bool())));
}

template <bool Max>
void over_dims_kernel(Call& c) {
    reduce(c.in[0], dim_mask(c.name(), c.attr(0), c.in[0].ndim()), c.out(0), value_step<Max>);
}

void both_shape(Call& c) {
    over_dims_shape(c);
    c.add(Tensor::layout(c.out(0).dtype(), c.out(0).shape()));
}
void both_kernel(Call& c) {
    const DimMask mask = dim_mask(c.name(), c.attr(0), c.in[0].ndim());
    reduce(c.in[0], mask, c.out(0), value_step<false>);
    reduce(c.in[0], mask, c.out(1), value_step<true>);
}

/// The same for the extremum of all elements. (Where it was overwritten, no element has a share.)
Tensor share_among(const Grad& g, const Tensor& hits) {
    Tensor x = g.in(0), share = g.grad() / sum(cast(hits, x.dtype()));
    return masked_fill(zeros(x.shape(), x.dtype()), hits, share);
}

Tensor share_all_gradient(const Grad& g) { return share_among(g, eq(g.in(0), g.out(0))); }

/// A result that is NaN is all of the elements.
Tensor share_numbers_gradient(const Grad& g) {
    Tensor y = g.out(0);
    return share_among(g, maximum(eq(g.in(0), y), ne(y, y)));
}

/// The incoming gradient shared evenly by the elements that equal the extremum, output k.
Tensor share_gradient(const Grad& g, const Value& dim, bool keepdim, int k = 0) {
    Tensor x = g.in(0);
    Dims shape(x.shape());
    Tensor hits = cast(eq(x, spread(g.out(k), dim, keepdim, shape)), x.dtype());
    return spread(g.grad(k), dim, keepdim, shape) * (hits / sum_dim(hits, dim, true));
}

Tensor both_gradient(const Grad& g) {
    Tensor parts[2];
    for (int k = 0; k < 2; ++k)
        if (g.grad(k).defined()) parts[k] = share_gradient(g, g.attr(0), g.attr(1).as_bool(), k);
    if (!parts[0].defined() || !parts[1].defined()) return parts[parts[1].defined()];
    return parts[0] + parts[1];
}

Dims indexed_shape(const Call& c, int64_t dim, bool keepdim) {
    const Tensor& x = c.in[0];
    int d = wrap_dim(c.name(), dim, x.ndim());
    DimMask mask = (DimMask{1} << d) & every_dim(x.ndim());
    require_elements(c.name(), x.shape(), mask);
    return reduced_shape(x.shape(), mask, keepdim);
}

/// (values, indices) along one dim.
void indexed_layout(Call& c) {
    Dims shape = indexed_shape(c, c.attr(0).as_int(), c.attr(1).as_bool());
    c.add(Tensor::layout(c.in[0].dtype(), shape));
    c.add(Tensor::layout(DType::Int64, shape));
}

/// Along one dim, or over all elements of calls of one size.
bool arg_rows(const BatchCall& c, BatchForm& form) {
    if (!c.attr(0).none()) return batch_along<0>(c, form);
    return batch_all(c, form, c.call.op->name.c_str(), -1, {false});
}

template <bool Max>
void run_arg(const Tensor& x, Axis axis, const Tensor* values, const Tensor& indices) {
    Unlocked unlocked(x.numel());
    dispatch<AllTypes>(x.dtype(), Max ? "argmax" : "argmin", [&]<class T>() {
        T* value = values ? values->data<T>() : nullptr;
        if constexpr (Max) kernels::argmax(x.data<T>(), value, indices.data<int64_t>(), axis);
        else kernels::argmin(x.data<T>(), value, indices.data<int64_t>(), axis);
    });
}

Folded along_dim(const Call& c, int64_t dim) {
    const Tensor& x = c.in[0];
    return fold(x, (DimMask{1} << wrap_dim(c.name(), dim, x.ndim())) & every_dim(x.ndim()));
}

template <bool Max>
void indexed_kernel(Call& c) {
    Folded f = along_dim(c, c.attr(0).as_int());
    run_arg<Max>(f.x, f.axis, &c.out(0), c.out(1));
}

/// The gradient goes to the element that was chosen.
Tensor chosen_gradient(const Grad& g) {
    return place_along(g.grad(), g.out(1), g.attr(0).as_int(), g.in_shape(0));
}

void arg_shape(Call& c) {
    const Tensor& x = c.in[0];
    bool keepdim = c.attr(1).as_bool();
    WEFT_EXPECT(x.dtype() != DType::Bool, Runtime, c.name(), "a tensor of a number dtype",
                "bool (does not support bool input)");
    if (c.attr(0).none()) require_any(c, ErrorKind::Index);
    c.add(Tensor::layout(DType::Int64, c.attr(0) ? indexed_shape(c, c.attr(0).as_int(), keepdim)
                                                 : reduced_shape(x.shape(), ~DimMask{0}, keepdim)));
}

template <bool Max>
void arg_kernel(Call& c) {
    if (c.attr(0)) {
        Folded f = along_dim(c, c.attr(0).as_int());
        return run_arg<Max>(f.x, f.axis, nullptr, c.out(0));
    }
    Tensor x = as_contiguous(c.in[0]);
    run_arg<Max>(x, {1, x.numel(), 1}, nullptr, c.out(0));
}

/// max or min, amax or amin, argmax or argmin; `size` is the adjective in the docs.
template <bool Max>
void register_pair(Table& t) {
    const char* size = Max ? "largest" : "smallest";
    std::string m = Max ? "max" : "min", node = Max ? "Max" : "Min";
    t.add(m + "(Tensor self) -> Tensor")
        .uint64(Uint64::Order)
        .doc(text("The ", size,
                  " element, 0-d; a NaN wins. RuntimeError if there is none.\n\n>>> weft.", m,
                  "(weft.tensor([1., 3., 2.]))\ntensor(", Max ? "3" : "1", ".)"))
        .shape(extremum_shape)
        .kernel(extremum_kernel<Max>)
        .batch([](const BatchCall& c, BatchForm& form) {
            return batch_all(c, form, Max ? "amax" : "amin", Dims{-1}, {false});
        })
        .node_name(node + "Backward1")
        .grad(0, save_in(0) | save_out(0), share_all_gradient)
        .samples({"f(T(2, 3))", "f(T())", "f(I(4))"});
    // Before the form with a dim, which a 0-d int64 tensor would be taken for.
    t.add(m + ".other(Tensor self, Tensor other) -> Tensor")
        .doc(text("Elementwise: weft.", Max ? "maximum" : "minimum", "(self, other)."))
        .body([](Call& c) { c.set(Max ? maximum(c.in[0], c.in[1]) : minimum(c.in[0], c.in[1])); })
        .batch(Batch::Body)
        .samples({"f(T(2, 3), T(2, 3))", "f(T(2, 1), T(3))"});
    t.add(m + ".dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)")
        .uint64(Uint64::Order)
        .batch(batch_along<0>)
        .doc(text(
            "The ", size,
            " elements along `dim` and the first index of each (int64), both of self's\n"
            "shape without `dim`, which has size 1 with `keepdim`. IndexError if it is empty."))
        .shape(indexed_layout)
        .kernel(indexed_kernel<Max>)
        .constant_output(1)
        .node_name(node + "Backward0")
        .grad(0, save_out(1), chosen_gradient)
        .samples(
            {"f(T(2, 3), 0)", "f(T(2, 3), dim=-1, keepdim=True)", "f(T(), 0)", "f(T(0, 3), 1)"});
    t.add("a" + m + "(Tensor self, int[]? dim=[], bool keepdim=False) -> Tensor")
        .uint64(Uint64::Order)
        .batch(batch_over<0>)
        .doc(text("The ", size,
                  " elements over `dim` (None or empty: all), which goes away, or has size 1\n"
                  "with `keepdim`. Equal ones share the gradient.\n>>> weft.a",
                  m, "(weft.tensor([[1, 2], [3, 0]]), 1)\ntensor([", Max ? "2, 3" : "1, 0", "])"))
        .shape(over_dims_shape)
        .kernel(over_dims_kernel<Max>)
        .grad(0, save_in(0) | save_out(0),
              [](const Grad& g) { return share_gradient(g, g.attr(0), g.attr(1).as_bool()); })
        .samples({"f(T(2, 3))", "f(T(2, 3), 0)", "f(T(2, 3, 4), (0, 2), True)", "f(T(), -1)",
                  "f(T(0, 3), 1)"});
    t.add("arg" + m + "(Tensor self, int? dim=None, bool keepdim=False) -> Tensor")
        .uint64(Uint64::Order)
        .batch(arg_rows)
        .doc(text(
            "The index (int64) of the first ", size,
            " element along `dim`, or of all elements in "
            "row-major order.\nThe first NaN wins. IndexError if there is none.\n\n>>> weft.arg",
            m, "(weft.tensor([1., 3., 2.]))\ntensor(", Max ? 1 : 0, ")"))
        .shape(arg_shape)
        .kernel(arg_kernel<Max>)
        .samples({"f(T(2, 3))", "f(T(2, 3), 0)", "f(T(2, 3), -1, keepdim=True)", "f(I(7), 0)"});
}

void median_shape_check(const Call& c) {
    WEFT_EXPECT(c.in[0].dtype() != DType::Bool, NotImplemented, "median",
                "a tensor of a number dtype", "bool (not implemented for 'Bool')");
}

void full_median_shape(Call& c) {
    median_shape_check(c);
    c.add(Tensor::layout(c.in[0].dtype(), DimSpan()));
}

void run_median(const Tensor& x, Axis axis, const Tensor& values, int64_t* indices,
                bool skip_nan = false) {
    Unlocked unlocked(8 * x.numel());
    dispatch<NumberTypes>(x.dtype(), "median", [&]<class T>() {
        kernels::median(x.data<T>(), values.data<T>(), indices, skip_nan, axis);
    });
}

/// No element at all: NaN.
template <bool SkipNan>
void full_median(Call& c) {
    Folded f = fold(c.in[0], every_dim(c.in[0].ndim()));
    if (f.axis.n > 0) return run_median(f.x, f.axis, c.out(0), nullptr, SkipNan);
    copy_into(c.out(0), Tensor::scalar(std::numeric_limits<double>::quiet_NaN(), DType::Float64));
}

void kth_shape(Call& c) {
    const Tensor& x = c.in[0];
    if (x.dtype() == DType::Bool || is_complex(x.dtype()))
        fail_dtype(c.name(), NumberTypes::text, x.dtype());
    int dim = wrap_dim(c.name(), c.attr(1).as_int(), x.ndim());
    Dims shape = indexed_shape(c, dim, c.attr(2).as_bool());
    int64_t k = c.attr(0).as_int(), n = x.ndim() ? x.size(dim) : 1;
    WEFT_EXPECT(k >= 1 && k <= n, Runtime, c.name(), text("k in [1, ", n, "]"),
                text(k, " (kthvalue(): selected number k out of range for dimension ", dim, ")"));
    c.add(Tensor::layout(x.dtype(), shape));
    c.add(Tensor::layout(DType::Int64, shape));
}

void register_kthvalue(Table& t) {
    t.add("kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor "
          "indices)")
        .uint64(Uint64::Order)
        .doc("The k-th smallest element along `dim`, counted from 1, and where it stands (int64),\n"
             "both of self's shape without `dim`, which has size 1 with `keepdim`.\n"
             "RuntimeError for a k out of range, IndexError if the dim is empty.\n\n"
             ">>> weft.kthvalue(weft.tensor([3, 1, 2]), 2).values\n"
             "tensor(2)")
        .shape(kth_shape)
        .batch(batch_along<1>)
        .kernel([](Call& c) {
            Folded f = along_dim(c, c.attr(1).as_int());
            Unlocked unlocked(8 * f.x.numel());
            dispatch<NumberTypes>(f.x.dtype(), c.name(), [&]<class T>() {
                kernels::kth(f.x.data<T>(), c.out(0).data<T>(), c.out(1).data<int64_t>(),
                             c.attr(0).as_int() - 1, f.axis);
            });
        })
        .out_form()
        .constant_output(1)
        .grad(0, save_out(1),
              [](const Grad& g) {
                  return place_along(g.grad(), g.out(1), g.attr(1).as_int(), g.in_shape(0));
              })
        .samples({"f(T(4, 3), 2, 0)", "f(T(2, 5), 5, keepdim=True)", "f(T(), 1)", "f(I(9), 4)"});
}

void register_both(Table& t) {
    t.add("_extremes(Tensor self, int[]? dim=[], bool keepdim=False) -> (Tensor min, Tensor max)")
        .uint64(Uint64::Order)
        .doc("The smallest and the largest elements over `dim` (None or empty: all).")
        .batch(batch_over<0>)
        .shape(both_shape)
        .kernel(both_kernel)
        .internal()
        .in_packages()
        .node_name("AminmaxBackward0")
        .grad(0, save_in(0) | save_out(0) | save_out(1), both_gradient)
        .samples({"f(T(2, 3))", "f(T(2, 3), 0)", "f(T(2, 3, 4), (0, 2), True)", "f(T(), -1)"});
}

void register_median(Table& t) {
    t.add("median(Tensor self) -> Tensor")
        .uint64(Uint64::Order)
        .doc("The median of all elements, the lower one of two; NaN if any is or if there are\n"
             "none.\n\n"
             ">>> weft.median(weft.tensor([1., 4., 2., 3.]))\n"
             "tensor(2.)")
        .shape(full_median_shape)
        .kernel(full_median<false>)
        .grad(0, save_in(0) | save_out(0), share_all_gradient)
        .samples({"f(T(2, 3))", "f(T())", "f(I(5))"});
    t.add("_nanmedian(Tensor self) -> Tensor")
        .uint64(Uint64::Order)
        .doc("The median of the elements that are not NaN, the lower one of two; NaN if there are\n"
             "none.")
        .shape(full_median_shape)
        .kernel(full_median<true>)
        .internal()
        .in_packages()
        .node_name("NanmedianBackward0")
        .grad(0, save_in(0) | save_out(0), share_numbers_gradient)
        .samples({"f(T(2, 3))", "f(T())", "f(I(5))"});
    t.add("median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)")
        .uint64(Uint64::Order)
        .doc("The medians along `dim` and where they are (int64), both of self's shape without\n"
             "`dim`, which has size 1 with `keepdim`. IndexError if it is empty.")
        .shape([](Call& c) {
            median_shape_check(c);
            indexed_layout(c);
        })
        .batch(batch_along<0>)
        .kernel([](Call& c) {
            Folded f = along_dim(c, c.attr(0).as_int());
            run_median(f.x, f.axis, c.out(0), c.out(1).data<int64_t>());
        })
        .constant_output(1)
        .node_name("MedianBackward1")
        .grad(0, save_out(1), chosen_gradient)
        .samples({"f(T(4, 3), 0)", "f(T(2, 5), dim=-1, keepdim=True)", "f(T(), 0)"});
}

}  // namespace

void register_extrema(Table& t) {
    register_pair<true>(t);
    register_pair<false>(t);
    register_both(t);
    register_median(t);
    register_kthvalue(t);
}

}  // namespace weft
