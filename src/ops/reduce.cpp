/// Sums, means, products, any and all, and the view that undoes a reduction's shape.
#include "kernels/complex.h"
#include "kernels/half_sum.h"
#include "ops/axes.h"
#include "ops/batch.h"
#include "ops/conj.h"
#include "ops/way.h"
#include "ops/widen.h"

namespace weft {
namespace {

using namespace ops;
using kernels::Axis;

struct Sum {
    template <class T, class Out>
    static void run(const T* x, Out* y, Axis axis) {
        if constexpr (std::is_same_v<Out, bool>) kernels::any(x, y, axis);
        else kernels::sum(x, y, axis);
    }
};
struct Prod {
    template <class T, class Out>
    static void run(const T* x, Out* y, Axis axis) {
        if constexpr (std::is_same_v<Out, bool>) kernels::all(x, y, axis);
        else kernels::prod(x, y, axis);
    }
};

/// One step of a sum-like reduction; the result dtype is int64 for integers and bools, and bool
/// only where that was asked for.
template <class Kernel>
void reduce_step(const Tensor& from, const Tensor& to, Axis axis) {
    Unlocked unlocked(from.numel());
    dispatch<AllTypes>(from.dtype(), "sum", [&]<class T>() {
        if (to.dtype() == DType::Bool) Kernel::run(from.data<T>(), to.data<bool>(), axis);
        else Kernel::run(from.data<T>(), to.data<kernels::SumOf<T>>(), axis);
    });
}

void mean_step(const Tensor& from, const Tensor& to, Axis axis) {
    Unlocked unlocked(from.numel());
    dispatch<FloatingTypes>(from.dtype(), "mean",
                            [&]<class T>() { kernels::mean(from.data<T>(), to.data<T>(), axis); });
}

template <bool All>
void truth_step(const Tensor& from, const Tensor& to, Axis axis) {
    Unlocked unlocked(from.numel());
    dispatch<AllTypes>(from.dtype(), All ? "all" : "any", [&]<class T>() {
        if constexpr (All) kernels::all(from.data<T>(), to.data<bool>(), axis);
        else kernels::any(from.data<T>(), to.data<bool>(), axis);
    });
}

void add_reduced(Call& c, DType dtype, DimMask mask, bool keepdim) {
    const Tensor& x = c.in[0];
    if (mask == every_dim(x.ndim()) && !keepdim) return c.add(Tensor::layout(dtype, DimSpan()));
    c.add(Tensor::layout(dtype, reduced_shape(x.shape(), mask, keepdim)));
}

/// Integers and bools are summed in int64.
DType sum_dtype(const Tensor& x, const Value& dtype) {
    return dtype.as_dtype(is_inexact(x.dtype()) ? x.dtype() : DType::Int64);
}

DType mean_dtype(const Tensor& x, const Value& dtype) {
    DType t = dtype_or_own(dtype, x);
    WEFT_EXPECT(is_inexact(t), Runtime, "mean", "a floating dtype",
                text(name(t), dtype
                                  ? text(" (as dtype=)")
                                  : text(" (mean(): could not infer output dtype. Input dtype must "
                                         "be either a floating point or complex dtype. Got: ",
                                         scalar_name(t), ")")),
                "pass dtype=torch.float32");
    return t;
}

/// What is summed: the input, converted first if a dtype asks for it.
Tensor summand(const Tensor& x, const Value& dtype) {
    if (dtype.none() || dtype.as_dtype() == DType::Bool) return x;
    return in_dtype(x, widened(dtype.as_dtype()));
}

/// Dimension after dimension.
template <class T>
void complex_product(const Tensor& input, DimMask mask, const Tensor& out) {
    Tensor x = as_contiguous(input);
    for (int d = 0; d < x.ndim(); ++d) {
        if (!(mask >> d & 1)) continue;
        Dims shape(x.shape());
        Axis axis = axis_along(shape, d);
        shape[d] = 1;
        Tensor y = Tensor::empty(x.dtype(), shape);
        for (int64_t o = 0; o < axis.outer; ++o)
            for (int64_t i = 0; i < axis.inner; ++i) {
                T product(1);
                const T* at = x.data<T>() + o * axis.n * axis.inner + i;
                for (int64_t k = 0; k < axis.n; ++k)
                    product = kernels::times(product, at[k * axis.inner]);
                y.data<T>()[o * axis.inner + i] = product;
            }
        x = y;
    }
    copy_into(out, x.view_as(out.shape(), contiguous_strides(out.shape())));
}

/// Sums of complex numbers are sums of their parts.
void reduce_parts(const Tensor& x, DimMask mask, const Tensor& out, ReduceStep run) {
    if (!is_complex(x.dtype()) || !is_complex(out.dtype())) return reduce(x, mask, out, run);
    if (run == ReduceStep{reduce_step<Prod>})
        return dispatch<ComplexTypes>(x.dtype(), "prod",
                                      [&]<class T>() { complex_product<T>(x, mask, out); });
    reduce(parts_of(x), mask, parts_of(out), run);
}

/// Sums and means of halves, as of what they become; other narrow dtypes are widened.
template <ReduceStep Step>
void half_step(const Tensor& from, const Tensor& to, Axis axis) {
    if (!is_half(from.dtype())) return Step(from, to, axis);
    Unlocked unlocked(from.numel());
    const double divisor = Step == ReduceStep{mean_step} ? static_cast<double>(axis.n) : 1;
    kernels::sum_halves(from.bytes(), from.dtype() == DType::BFloat16, to.data<float>(), axis,
                        divisor);
}
template <ReduceStep Step>
void sum_kernel(Call& c, const Value& dtype, DimMask mask) {
    const Tensor &x = c.in[0], &out = c.out(0);
    const DType made = out.dtype();
    if (is_half(x.dtype()) && (made == x.dtype() || made == DType::Float32)) {
        const Tensor sum = is_half(made) ? Tensor::empty(DType::Float32, out.shape()) : out;
        reduce(x, mask, sum, half_step<Step>);
        if (is_half(made)) copy_into(out, sum);
        return;
    }
    if (is_narrow(x.dtype()) || is_narrow(made)) return run_widened(c);
    reduce_parts(summand(x, dtype), mask, out, Step);
}

template <ReduceStep Step>
void full_sum_kernel(Call& c) {
    sum_kernel<Step>(c, c.attr(0), every_dim(c.in[0].ndim()));
}
template <ReduceStep Step>
void dim_sum_kernel(Call& c) {
    sum_kernel<Step>(c, c.attr(2), dim_mask(c.name(), c.attr(0), c.in[0].ndim()));
}

template <ReduceStep Step>
void full_kernel(Call& c) {
    reduce_parts(summand(c.in[0], c.attr(0)), every_dim(c.in[0].ndim()), c.out(0), Step);
}

/// Overloads with (dim, keepdim, dtype).
template <ReduceStep Step>
void dim_kernel(Call& c) {
    reduce_parts(summand(c.in[0], c.attr(2)), dim_mask(c.name(), c.attr(0), c.in[0].ndim()),
                 c.out(0), Step);
}

template <DType (*Dtype)(const Tensor&, const Value&)>
void full_shape(Call& c) {
    c.add(Tensor::layout(Dtype(c.in[0], c.attr(0)), DimSpan()));
}

template <DType (*Dtype)(const Tensor&, const Value&)>
void dim_shape(Call& c) {
    DType dtype = Dtype(c.in[0], c.attr(2));
    add_reduced(c, dtype, dim_mask(c.name(), c.attr(0), c.in[0].ndim()), c.attr(1).as_bool());
}

Tensor spread_full(const Grad& g, const Tensor& t) {
    return spread(t, Value(), false, g.in_shape(0));
}
/// For overloads whose attributes begin with (dim, keepdim).
Tensor spread_dims(const Grad& g, const Tensor& t) {
    return spread(t, g.attr(0), g.attr(1).as_bool(), g.in_shape(0));
}

/// Nothing receives the gradient of an empty mean, but its own derivative must stay finite.
/// The gradient over `count` elements, as `spread` gives it to them: in the graph of gradients
/// elements have memory of their own, else one number may stand for all.
Tensor mean_over(const Grad& g, int64_t count, Tensor (*spread)(const Grad&, const Tensor&)) {
    const auto n = static_cast<double>(std::max<int64_t>(count, 1));
    return mode & kGradMode ? spread(g, g.grad()) / n : spread(g, g.grad() / n);
}

Tensor mean_gradient(const Grad& g) {
    return mean_over(g, count_over(g.in_shape(0), ~DimMask{0}), spread_full);
}
Tensor mean_dim_gradient(const Grad& g) {
    Dims shape = g.in_shape(0);
    DimMask dims = dim_mask("mean", g.attr(0), shape.size());
    return mean_over(g, count_over(shape, dims), spread_dims);
}

// ---- sums of unlike numbers of rows (Note [Rows] in batch.h) -----------------------------------

const Function segment_spread{"_segment_spread"};

void segment_shape(Call& c) {
    DimSpan counts = c.attr(0).as_ints();
    int64_t rows = 0;
    for (int64_t n : counts) rows += n;
    WEFT_EXPECT(c.in[0].ndim() > 0 && c.in[0].size(0) == rows, Runtime, c.op->name,
                text(rows, " rows, as many as the counts say"), to_string(c.in[0].shape()));
    Dims shape(c.in[0].shape());
    shape[0] = static_cast<int64_t>(counts.size());
    c.add(Tensor::layout(c.attr(1).as_bool() ? mean_dtype(c.in[0], c.attr(2))
                                             : sum_dtype(c.in[0], c.attr(2)),
                         shape));
}

/// Segments of one length that follow each other are reduced together.
void segment_kernel(Call& c) {
    Tensor x = as_contiguous(summand(c.in[0], c.attr(2)));
    const Tensor& out = c.out(0);
    DimSpan counts = c.attr(0).as_ints();
    Dims shape(out.shape()), one(out.shape());
    int64_t width = 1, row = 0;
    for (int d = 1; d < shape.size(); ++d) width *= shape[d];
    shape.insert(1, 0);
    one.insert(1, 1);
    ReduceStep run = c.attr(1).as_bool() ? mean_step : ReduceStep{reduce_step<Sum>};
    for (size_t k = 0, end = 0; k < counts.size(); k = end) {
        while (end < counts.size() && counts[end] == counts[k]) ++end;
        shape[0] = one[0] = static_cast<int64_t>(end - k);
        shape[1] = counts[k];
        Tensor segments = x.view_as(shape, contiguous_strides(shape), row * width);
        Tensor to = out.view_as(one, contiguous_strides(one), static_cast<int64_t>(k) * width);
        reduce_parts(segments, DimMask{2}, to, run);
        row += shape[0] * shape[1];
    }
}

void segment_spread_shape(Call& c) {
    int64_t rows = 0;
    for (int64_t n : c.attr(0).as_ints()) rows += n;
    Dims shape(c.in[0].shape());
    WEFT_EXPECT(c.in[0].ndim() > 0 && shape[0] == static_cast<int64_t>(c.attr(0).as_ints().size()),
                Runtime, c.op->name, "a row for each count", to_string(c.in[0].shape()));
    shape[0] = rows;
    c.add(Tensor::layout(c.in[0].dtype(), shape));
}

void segment_spread_kernel(Call& c) {
    Tensor x = as_contiguous(c.in[0]);
    const Tensor& out = c.out(0);
    DimSpan counts = c.attr(0).as_ints();
    int64_t width = counts.empty() ? 0 : x.numel() / static_cast<int64_t>(counts.size()), row = 0;
    if (out.numel() == 0) return;
    if (!c.attr(1).as_bool()) {
        auto bytes = static_cast<size_t>(width * item_size(x.dtype()));
        auto numbers = [&]<class T>() {
            T* to = out.data<T>();
            for (size_t k = 0; k < counts.size(); ++k)
                to = std::fill_n(to, counts[k], x.data<T>()[k]);
        };
        if (bytes == 4) return numbers.operator()<uint32_t>();
        if (bytes == 8) return numbers.operator()<uint64_t>();
        const char* from = x.bytes();
        char* to = out.bytes();
        for (size_t k = 0; k < counts.size(); ++k, from += bytes)
            for (int64_t n = counts[k]; n > 0; --n, to += bytes) std::memcpy(to, from, bytes);
        return;
    }
    for (size_t k = 0; k < counts.size(); row += counts[k++]) {
        Dims many{counts[k], width}, one{1, width};
        Tensor from = x.view_as(one, Dims{width, 1}, static_cast<int64_t>(k) * width);
        ModeGuard no_graph(0, kGradMode);
        from = from / static_cast<double>(std::max<int64_t>(counts[k], 1));
        copy_into(out.view_as(many, Dims{width, 1}, row * width), from);
    }
}

/// Whether dim attribute 0 names the first dim, or all: then rows of unlike number merge.
bool over_segments(const BatchCall& c, BatchForm& form) {
    const Tensor& x = c.in(0);
    DimMask mask = dim_mask(c.call.name(), c.attr(0), x.ndim());
    bool all = x.ndim() == 0 || mask == every_dim(x.ndim());
    if (!all && mask != 1) return false;
    form.rows = all ? x.numel() : x.size(0);
    form.add_rows(0, all ? DimSpan() : x.shape().subspan(1));
    form.counts_attr = 0;
    return x.numel() > 0;
}

/// All elements of each call, whatever their number.
bool all_elements(const BatchCall& c, BatchForm& form) {
    form.add_rows(0, DimSpan());
    form.rows = c.in(0).numel();
    form.counts_attr = 0;
    return form.rows > 0;
}

template <bool Mean>
bool sum_all_rows(const BatchCall& c, BatchForm& form) {
    static const Function segment_sum{"_segment_sum"};
    form.op = &segment_sum.op();
    form.attrs = {Dims{}, Mean, c.attr(0)};
    return all_elements(c, form);
}

template <bool Mean>
bool sum_dim_rows(const BatchCall& c, BatchForm& form) {
    static const Function segment_sum{"_segment_sum"};
    if (!over_segments(c, form)) return batch_along<0>(c, form);
    form.op = &segment_sum.op();
    form.attrs = {Dims{}, Mean, c.attr(2)};
    return true;
}

enum Truth : uint8_t { Any, All, Count };

/// `any`, `all` or `count_nonzero` of the first counts[0] rows, of the next counts[1] rows, ...
void segment_truth_body(Call& c) {
    static const Function segment_sum{"_segment_sum"}, logical_not{"logical_not"};
    int64_t what = c.attr(1).as_int();
    Tensor truth = what == All ? logical_not(c.in[0]) : to(c.in[0], DType::Bool);
    Tensor out = segment_sum(truth, c.attr(0), false, what == Count ? DType::Int64 : DType::Bool);
    if (what == All) out = logical_not(out);
    bool bytes = what != Count && c.in[0].dtype() == DType::UInt8;
    c.set(bytes ? to(out, DType::UInt8) : out);
}

template <int64_t What>
bool truth_rows(const BatchCall& c, BatchForm& form) {
    static const Function segment_truth{"_segment_truth"};
    const bool full = c.call.op->defaults.empty();  // no dim to look at
    if (!full && What != Count && c.attr(0).kind() == Value::Kind::Ints &&
        c.attr(0).as_ints().empty())
        return false;  // nothing is reduced
    if (!(full ? all_elements(c, form) : over_segments(c, form)))
        return !full && batch_along<0>(c, form);
    form.op = &segment_truth.op();
    form.attrs = {Dims{}, What};
    return true;
}

/// Runs of attr(0)[k] rows that become one row each, or rows that become runs.
template <bool kJoined>
void runs_way(const Way& way, AddSpan add) {
    const int64_t per_row = count_elements("_segment_sum", way.in.subspan(1));
    int64_t from = 0, to = 0;
    for (int64_t n : way.attrs[0].as_ints()) {
        const int64_t rows_in = kJoined ? n : 1, rows_out = kJoined ? 1 : n;
        const Span run{from * per_row, (from + rows_in) * per_row};
        if (!within(run, way.elements).empty()) add({to * per_row, (to + rows_out) * per_row});
        from += rows_in;
        to += rows_out;
    }
}

void register_segments(Table& t) {
    t.add(
         "_segment_sum(Tensor self, int[] counts, bool mean=False, *, dtype? dtype=None) -> Tensor")
        .doc("The sum (or mean) of the first counts[0] rows, of the next counts[1] rows, ...")
        .shape(segment_shape)
        .kernel(segment_kernel)
        .way(runs_way<true>)
        .internal()
        .grad(0, 0, [](const Grad& g) { return segment_spread(g.grad(), g.attr(0), g.attr(1)); })
        .samples({"f(T(5, 2), (2, 3))", "f(T(4), (1, 1, 2), True)", "f(T(3), (3, 0))",
                  "f(I(4), (1, 3))", "f(B(4), (1, 3), dtype=weft.float64)"});
    t.add("_segment_truth(Tensor self, int[] counts, int what) -> Tensor")
        .doc("any (0), all (1) or count_nonzero (2) of the first counts[0] rows, of the next ...")
        .body(segment_truth_body)
        .internal()
        .samples({"f(B(4, 2), (1, 3), 0)", "f(B(4), (1, 3), 1)", "f(T(4), (1, 3), 2)"});
    t.add("_segment_spread(Tensor self, int[] counts, bool mean=False) -> Tensor")
        .doc("Row k counts[k] times (divided by it): the gradient of _segment_sum.")
        .shape(segment_spread_shape)
        .kernel(segment_spread_kernel)
        .way(runs_way<false>)
        .internal()
        .grad(0, 0,
              [](const Grad& g) {
                  static const Function segment_sum{"_segment_sum"};
                  return segment_sum(g.grad(), g.attr(0), g.attr(1));
              })
        .samples({"f(T(2, 2), (2, 3))", "f(T(3), (1, 1, 2), True)"});
}

void register_sum_ops(Table& t) {
    t.add("sum(Tensor self, *, dtype? dtype=None) -> Tensor")
        .doc("The sum of all elements, converted to `dtype` first; integers and bools are summed\n"
             "in int64. 0 if there are none.\n\n"
             ">>> weft.sum(weft.tensor([1., 2.]))\n"
             "tensor(3.)")
        .shape(full_shape<sum_dtype>)
        .kernel(full_sum_kernel<reduce_step<Sum>>)
        .every_dtype()
        .uint64(Uint64::Bits)
        .batch(sum_all_rows<false>)
        .grad(0, 0, [](const Grad& g) { return spread_full(g, g.grad()); })
        .onnx("reduce('ReduceSum', cast(self, result.dtype), None, False)")
        .samples({"f(T(2, 3))", "f(T())", "f(T(0, 3))"});
    t.add("sum.dim(Tensor self, int[]? dim, bool keepdim=False, *, dtype? dtype=None) -> Tensor")
        .doc("The sum over `dim` (None or empty: all), which goes away, or has size 1 with\n"
             "`keepdim`. IndexError for a dim out of range.")
        .shape(dim_shape<sum_dtype>)
        .kernel(dim_sum_kernel<reduce_step<Sum>>)
        .every_dtype()
        .uint64(Uint64::Bits)
        .batch(sum_dim_rows<false>)
        .node_name("SumBackward1")
        .grad(0, 0, [](const Grad& g) { return spread_dims(g, g.grad()); })
        .onnx("reduce('ReduceSum', cast(self, result.dtype), dim, keepdim)")
        .samples({"f(T(2, 3), 0)", "f(T(2, 3), dim=-1, keepdim=True)", "f(T(2, 3, 4), (0, 2))",
                  "f(T(), 0)", "f(T(0, 3), 0)", "f(T(2, 3), None)", "f(T(2, 3), [])"});
    t.add("mean(Tensor self, *, dtype? dtype=None) -> Tensor")
        .doc("The mean of all elements; NaN if there are none. RuntimeError for integers and\n"
             "bools.\n\n"
             ">>> weft.mean(weft.tensor([1., 2.]))\n"
             "tensor(1.5000)")
        .shape(full_shape<mean_dtype>)
        .kernel(full_sum_kernel<mean_step>)
        .every_dtype()
        .uint64(Uint64::Bits)
        .batch(sum_all_rows<true>)
        .grad(0, 0, mean_gradient)
        .onnx("reduce('ReduceMean', cast(self, result.dtype), None, False)")
        .samples({"f(T(2, 3))", "f(T())"});
    t.add("mean.dim(Tensor self, int[]? dim, bool keepdim=False, *, dtype? dtype=None) -> Tensor")
        .doc("The mean over `dim` (None or empty: all), which goes away, or has size 1 with\n"
             "`keepdim`.")
        .shape(dim_shape<mean_dtype>)
        .kernel(dim_sum_kernel<mean_step>)
        .every_dtype()
        .uint64(Uint64::Bits)
        .batch(sum_dim_rows<true>)
        .node_name("MeanBackward1")
        .grad(0, 0, mean_dim_gradient)
        .onnx("reduce('ReduceMean', cast(self, result.dtype), dim, keepdim)")
        .samples({"f(T(2, 3), 0)", "f(T(2, 3), dim=-1, keepdim=True)", "f(T(2, 3, 4), (0, 2))",
                  "f(T(), 0)", "f(T(2, 0), 0)"});
}

/// d(prod)/d(x[i]) is the product of the others, so that zeros need no division.
const Function product_of_others{"_product_of_others"};

Tensor prod_gradient(const Grad& g) {
    Dims shape = g.in_shape(0);
    if (shape.empty()) return g.grad();
    Tensor x = cast(g.in(0), g.out_dtype(0));
    Tensor flat = shape.size() == 1 ? x : reshape(x, Dims{-1});
    Tensor d = g.grad() * conj(product_of_others(flat, 0));
    return shape.size() == 1 ? d : reshape(d, shape);
}
Tensor prod_dim_gradient(const Grad& g) {
    if (g.in_shape(0).empty()) return g.grad();
    Tensor x = cast(g.in(0), g.out_dtype(0));
    return spread_dims(g, g.grad()) * conj(product_of_others(x, g.attr(0)));
}

void register_product_ops(Table& t) {
    t.add("prod(Tensor self, *, dtype? dtype=None) -> Tensor")
        .autocast(Cast::Float)
        .doc("The product of all elements; integers and bools in int64. 1 if there are none.\n\n"
             ">>> weft.prod(weft.tensor([2., 3.]))\n"
             "tensor(6.)")
        .shape(full_shape<sum_dtype>)
        .kernel(full_kernel<reduce_step<Prod>>)
        .uint64(Uint64::Bits)
        .batch([](const BatchCall& c, BatchForm& form) {
            return batch_all(c, form, "prod.dim", -1, {false, c.attr(0)});
        })
        .grad(0, save_in(0), prod_gradient)
        .onnx("reduce('ReduceProd', cast(self, result.dtype), None, False)")
        .samples({"f(T(2, 3))", "f(T())", "f(T(0, 3))", "f(T(5) * I(5, high=2))"});
    t.add("prod.dim(Tensor self, int dim, bool keepdim=False, *, dtype? dtype=None) -> Tensor")
        .autocast(Cast::Float)
        .batch(batch_along<0>)
        .doc("The product over one dim, which goes away, or has size 1 with `keepdim`.")
        .shape(dim_shape<sum_dtype>)
        .kernel(dim_kernel<reduce_step<Prod>>)
        .uint64(Uint64::Bits)
        .node_name("ProdBackward1")
        .grad(0, save_in(0), prod_dim_gradient)
        .onnx("reduce('ReduceProd', cast(self, result.dtype), [dim], keepdim)")
        .samples(
            {"f(T(2, 3), 0)", "f(T(2, 3), dim=-1, keepdim=True)", "f(T(), 0)", "f(T(0, 3), 0)"});
}

/// `dim=()` is the one case where reductions of truth reduce nothing.
DimMask truth_mask(const Call& c) {
    const Value& dim = c.attr(0);
    bool nothing = dim.kind() == Value::Kind::Ints && dim.as_ints().empty();
    return nothing ? 0 : dim_mask(c.name(), dim, c.in[0].ndim());
}

/// PyTorch keeps bytes, which were its bools once.
DType truth_dtype(const Call& c) {
    return c.in[0].dtype() == DType::UInt8 ? DType::UInt8 : DType::Bool;
}

template <bool All>
void reduce_truth(Call& c, DimMask mask) {
    const Tensor &out = c.out(0), &self = c.in[0];
    if (!is_narrow(self.dtype()) && !is_complex(self.dtype()))
        return reduce(self, mask, out, truth_step<All>);
    Tensor truth = Tensor::empty(DType::Bool, out.shape());
    reduce(in_dtype(self, DType::Bool), mask, truth, truth_step<All>);
    copy_into(out, truth);
}

template <bool All>
void add_truth(Table& t, std::string_view full, std::string_view over_dims, const char* what) {
    t.add(full)
        .doc(text("Whether ", what, " element is nonzero (NaN is): a 0-d bool.\n>>> weft.",
                  All ? "all" : "any", "(weft.tensor([1, 0]))\ntensor(", All ? "False" : "True",
                  ")"))
        .shape([](Call& c) { c.add(Tensor::layout(truth_dtype(c), DimSpan())); })
        .kernel([](Call& c) { reduce_truth<All>(c, every_dim(c.in[0].ndim())); })
        .batch(truth_rows < All ? Truth::All : Truth::Any >)
        .every_dtype()
        .samples({"f(I(2, 3, high=2))", "f(B(4))", "f(T(0))"});
    t.add(over_dims)
        .doc(text("Whether ", what,
                  " element along `dim` is nonzero: bools of self's shape without `dim`, which\n"
                  "has size 1 with `keepdim`."))
        .shape([](Call& c) { add_reduced(c, truth_dtype(c), truth_mask(c), c.attr(1).as_bool()); })
        .kernel([](Call& c) { reduce_truth<All>(c, truth_mask(c)); })
        .every_dtype()
        .batch(truth_rows < All ? Truth::All : Truth::Any >)
        .samples({"f(B(2, 3), 0)", "f(B(2, 3), dim=(0, 1), keepdim=True)", "f(B(0, 3), 0)"});
}

void nansum_step(const Tensor& from, const Tensor& to, Axis axis) {
    Unlocked unlocked(from.numel());
    dispatch<FloatingTypes>(from.dtype(), "nansum", [&]<class T>() {
        kernels::nansum(from.data<T>(), to.data<T>(), axis);
    });
}

/// In one step, as the sums of a first one may be NaN (of infinities) and count.
void nansum_kernel(Call& c) {
    Tensor x = summand(c.in[0], c.attr(2));
    const DimMask mask = dim_mask(c.name(), c.attr(0), x.ndim());
    if (is_floating(x.dtype()) && c.out(0).dtype() != DType::Bool) {
        const Folded folded = fold(x, mask);
        return nansum_step(folded.x, c.out(0), folded.axis);
    }
    if (is_floating(x.dtype())) x = where(isnan(x), number(0, x.dtype()), x);
    reduce(x, mask, c.out(0), reduce_step<Sum>);
}

void register_counts(Table& t) {
    t.add("count_nonzero(Tensor self, int[]? dim=None) -> Tensor")
        .uint64(Uint64::Bits)
        .doc("How many elements are nonzero, over `dim` or all: int64.\n"
             "Of self's shape without `dim`.\n"
             ">>> weft.count_nonzero(weft.tensor([[1, 0], [2, 3]]), 1)\n"
             "tensor([1, 2])")
        .batch(truth_rows<Truth::Count>)
        .shape([](Call& c) {
            add_reduced(c, DType::Int64, dim_mask(c.name(), c.attr(0), c.in[0].ndim()), false);
        })
        .kernel([](Call& c) {
            DimMask mask = dim_mask(c.name(), c.attr(0), c.in[0].ndim());
            reduce(in_dtype(c.in[0], DType::Bool), mask, c.out(0), reduce_step<Sum>);
        })
        .onnx("reduce('ReduceSum', cast(truth(self), int64), dim, False)")
        .samples({"f(I(2, 3, high=2))", "f(I(2, 3, high=2), 0)", "f(T(0))"});
    t.add("nansum(Tensor self, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> "
          "Tensor")
        .uint64(Uint64::Bits)
        .doc("The sum, NaN counted as 0.\n"
             "Of self's shape without `dim`, which has size 1 with `keepdim`.\n"
             ">>> weft.nansum(weft.tensor([1., float('nan'), 2.]))\n"
             "tensor(3.)")
        .batch(batch_over<0>)
        .shape(dim_shape<sum_dtype>)
        .kernel([](Call& c) {
            ModeGuard no_graph(0, kGradMode);
            nansum_kernel(c);
        })
        .grad(0, save_in(0),
              [](const Grad& g) {
                  return where(isnan(g.in(0)), number(0, g.out_dtype(0)), spread_dims(g, g.grad()));
              })
        .samples({"f(T(2, 3))", "f(T(2, 3), 0, keepdim=True)"});
}

/// Strides 0 over the dims that were reduced.
void spread_shape(Call& c) {
    const Tensor& t = c.in[0];
    Dims size(c.attr(2).as_ints());
    DimMask mask = dim_mask(c.name(), c.attr(0), size.size());
    if (!size.empty() && size[0] == -1) size[0] = t.size(0);
    bool keepdim = c.attr(1).as_bool();
    Dims strides(size.size());
    for (int d = 0, from = 0; d < size.size(); ++d) {
        bool reduced = mask >> d & 1;
        if (!reduced) strides[d] = t.stride(from);
        if (!reduced || keepdim) ++from;
    }
    c.add_view(Tensor::layout(t.dtype(), size, strides), 0);
}

/// Whole calls: as many as there are along a first size of -1.
bool spread_rows(const BatchCall& c, BatchForm& form) {
    const Tensor& out = c.call.out(0);
    if (out.ndim() == 0 || out.numel() == 0) return false;
    DimMask mask = dim_mask("_spread", c.attr(0), out.ndim());
    Dims dims, size{-1};
    for (int d = 0; d < out.ndim(); ++d) {
        if (mask >> d & 1) dims.push_back(d - out.ndim());
        size.push_back(out.size(d));
    }
    form.add_rows(0, c.in(0).shape());
    form.attrs[0] = Value(dims);
    form.attrs[2] = Value(size);
    return true;
}

}  // namespace

void register_reduce(Table& t) {
    register_segments(t);
    register_sum_ops(t);
    register_product_ops(t);
    add_truth<true>(t, "all(Tensor self) -> Tensor",
                    "all.dim(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", "every");
    add_truth<false>(t, "any(Tensor self) -> Tensor",
                     "any.dim(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", "any");
    register_counts(t);
    t.add("_spread(Tensor self, int[]? dim, bool keepdim, int[] size) -> Tensor")
        .doc("A view of a reduction's result (or its gradient) repeated to `size`, the shape\n"
             "before; a first size of -1 stays.")
        .shape(spread_shape)
        .kernel([](Call&) {})
        .view()
        .batch(spread_rows)
        .internal()
        .node_name("ExpandBackward0")
        .grad(0, 0, [](const Grad& g) { return sum_dim(g.grad(), g.attr(0), g.attr(1)); })
        .samples({"f(T(3), 0, False, (2, 3))", "f(T(2, 1), (1,), True, (2, 3))",
                  "f(T(), None, False, (2, 2))"});
}

}  // namespace weft
