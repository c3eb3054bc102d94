/// Running extremes and logarithms of sums, and places among sorted values.
#include <algorithm>
#include <limits>

#include "kernels/scan.h"
#include "ops/axes.h"
#include "ops/batch.h"
#include "ops/conj.h"
#include "ops/indexing.h"

namespace weft {
namespace {

using namespace ops;
using kernels::Axis;

const Function logcumsumexp_op{"logcumsumexp"};

void best_shape(Call& c) {
    const Tensor& x = c.in[0];
    wrap_dim(c.name(), c.attr(0).as_int(), x.ndim());
    c.add(Tensor::layout(x.dtype(), x.shape()));
    c.add(Tensor::layout(DType::Int64, x.shape()));
}

template <bool Max>
void best_kernel(Call& c) {
    Tensor x = as_contiguous(c.in[0]);
    Unlocked unlocked(2 * x.numel());
    dispatch<AllTypes>(x.dtype(), c.name(), [&]<class T>() {
        auto* run = Max ? kernels::cummax<T> : kernels::cummin<T>;
        run(x.data<T>(), c.out(0).data<T>(), c.out(1).data<int64_t>(), axis_of(c, x));
    });
}

template <bool Max>
void register_best(Table& t) {
    std::string name = Max ? "cummax" : "cummin", size = Max ? "largest" : "smallest";
    t.add(name + "(Tensor self, int dim) -> (Tensor values, Tensor indices)")
        .uint64(Uint64::Order)
        .doc(text("The ", size,
                  " element so far along `dim`, and where it stands last (int64), both of\n"
                  "self's shape. NaN wins.\n\n>>> weft.",
                  name, "(weft.tensor([2, 1, 3]), 0).values\ntensor([", Max ? "2, 2, 3" : "2, 1, 1",
                  "])"))
        .shape(best_shape)
        .kernel(best_kernel<Max>)
        .batch(batch_along<0>)
        .constant_output(1)
        .grad(0, save_out(1),
              [](const Grad& g) {
                  return gather_backward(g.grad(), g.out(1), g.attr(0), g.in_shape(0));
              })
        .samples({"f(T(2, 5), 1)", "f(T(4, 3), 0)", "f(T(), 0)", "f(T(0, 3), -1)", "f(I(6), 0)"});
}

/// The gradient as below by a matrix of the exp(x[j] - y[i]), at most 1: no logarithm of the gradient, whose
/// derivative at 0 would be NaN.
Tensor logcumsumexp_by_matrix(const Tensor& x, const Tensor& y, const Tensor& grad, int dim) {
    const int64_t n = x.size(dim);
    const int last = x.ndim() - 1;
    Tensor from_here = Tensor::empty(DType::Bool, Dims{n, n});
    for (int64_t j = 0; j < n; ++j)
        for (int64_t i = 0; i < n; ++i) from_here.data<bool>()[j * n + i] = i >= j;
    Tensor xs = unsqueeze(transpose(x, dim, last), last + 1);
    Tensor ys = unsqueeze(transpose(y, dim, last), last);
    Tensor nothing = number(-std::numeric_limits<double>::infinity(), x.dtype());
    Tensor weights = ops::exp(ops::where(from_here, xs - ys, nothing));
    Tensor found = weights * unsqueeze(transpose(grad, dim, last), last);
    return transpose(sum_dim(found, Dims{last + 1}, false), dim, last);
}

/// d/dx[j] = sum over i >= j of grad[i] exp(x[j] - y[i]). The sum is taken of positive and of
/// negative gradients apart, in logarithms, so that nothing overflows; what is 0 counts as the
/// exponential of a lowest number, whose own derivatives are no NaN as those of log(0) are.
Tensor logcumsumexp_gradient(const Grad& g) {
    Tensor x = g.in(0), y = g.out(0), grad = g.grad();
    if (x.ndim() == 0 || x.numel() == 0) return grad;
    int dim = wrap_dim("logcumsumexp", g.attr(0).as_int(), x.ndim());
    if (is_complex(x.dtype())) {
        Tensor scaled = flip(grad * ops::exp(-conj(y)), Dims{dim});
        return ops::exp(conj(x)) * flip(cumsum(scaled, dim), Dims{dim});
    }
    constexpr int64_t kLargestMatrix = 4096;
    if (mode & kGradMode && x.size(dim) <= kLargestMatrix)
        return logcumsumexp_by_matrix(x, y, grad, dim);
    Tensor zero = number(0, grad.dtype()), size = ops::log(absolute(grad));
    Tensor nothing = number(grad.dtype() == DType::Float64 ? std::numeric_limits<double>::lowest()
                                                           : std::numeric_limits<float>::lowest(),
                            grad.dtype());
    auto side = [&](const Tensor& mine) {
        Tensor part = ops::where(mine, size, nothing) - y;
        return ops::exp(flip(logcumsumexp_op(flip(part, Dims{dim}), dim), Dims{dim}) + x);
    };
    return side(ops::gt(grad, zero)) - side(ops::lt(grad, zero));
}

void register_logcumsumexp(Table& t) {
    t.add("logcumsumexp(Tensor self, int dim) -> Tensor")
        .doc("Running log(sum(exp(self))) along `dim`, of self's shape. Floating dtypes.\n\n"
             ">>> weft.logcumsumexp(weft.zeros(2), 0)\ntensor([0.0000, 0.6931])")
        .shape([](Call& c) {
            const Tensor& x = c.in[0];
            if (!is_inexact(x.dtype())) fail_dtype(c.name(), FloatingTypes::text, x.dtype());
            wrap_dim(c.name(), c.attr(0).as_int(), x.ndim());
            c.add(Tensor::layout(x.dtype(), x.shape()));
        })
        .kernel([](Call& c) {
            Tensor x = as_contiguous(c.in[0]);
            Unlocked unlocked(16 * x.numel());
            dispatch<WithComplex<FloatingTypes>>(x.dtype(), c.name(), [&]<class T>() {
                kernels::logcumsumexp(x.data<T>(), c.out(0).data<T>(), axis_of(c, x));
            });
        })
        .batch(batch_along<0>)
        .out_form()
        .grad(0, save_in(0) | save_out(0), logcumsumexp_gradient)
        .samples({"f(T(2, 5), 1)", "f(T(4, 3), 0)", "f(T(), 0)", "f(T(0, 3), -1)"});
}

// ---- searchsorted

void searchsorted_shape(Call& c) {
    const Tensor &rows = c.in[0], &x = c.in[1];
    WEFT_EXPECT(rows.ndim() > 0, Runtime, "searchsorted", "boundaries with a dimension",
                "a 0-d tensor");
    WEFT_EXPECT(rows.dtype() == x.dtype(), Runtime, "searchsorted",
                "boundaries and values of one dtype",
                text(name(rows.dtype()), " and ", name(x.dtype())));
    bool fits = rows.ndim() == 1 || rows.ndim() == x.ndim();
    for (int d = 0; fits && rows.ndim() > 1 && d + 1 < x.ndim(); ++d)
        fits = rows.size(d) == x.size(d);
    WEFT_EXPECT(fits, Runtime, "searchsorted", "boundaries for each row of values",
                text("others (torch.searchsorted(): boundaries tensor should be 1 dimension or the "
                     "first N-1 dimensions of boundaries tensor and input value tensor must match, "
                     "but we got boundaries tensor ",
                     to_string(rows.shape()), " and input value tensor ", to_string(x.shape()),
                     ")"));
    c.add(Tensor::layout(DType::Int64, x.shape()));
}

/// Inputs rows [r, n] (or [n]) and values [r, m], NaN counting as greatest.
void searchsorted_kernel(Call& c) {
    Tensor rows = as_contiguous(c.in[0]), x = as_contiguous(c.in[1]);
    bool right = c.attr(0).as_bool();
    int64_t n = rows.size(rows.ndim() - 1), count = x.numel();
    int64_t width = rows.ndim() == 1 || x.ndim() == 0 ? count : x.size(x.ndim() - 1);
    auto* out = c.out(0).data<int64_t>();
    Unlocked unlocked(8 * count);
    dispatch<AllTypes>(x.dtype(), c.name(), [&]<class T>() {
        auto less = [](T a, T b) { return a < b || (b != b && a == a); };
        for (int64_t i = 0; i < count; ++i) {
            const T* row = rows.data<T>() + (rows.ndim() == 1 ? 0 : i / width * n);
            T value = x.data<T>()[i];
            const T* at = right ? std::upper_bound(row, row + n, value, less)
                                : std::lower_bound(row, row + n, value, less);
            out[i] = at - row;
        }
    });
}

}  // namespace

void register_scan(Table& t) {
    register_best<true>(t);
    register_best<false>(t);
    register_logcumsumexp(t);
    t.add("_searchsorted(Tensor sorted_sequence, Tensor self, bool right) -> Tensor")
        .doc("Where values would be inserted into sorted rows; both of one dtype.")
        .shape(searchsorted_shape)
        .kernel(searchsorted_kernel)
        .internal()
        .in_packages()
        .samples(
            {"f(T(5).sort().values, T(2, 3), False)", "f(T(2, 5).sort().values, T(2, 3), True)"});
}

}  // namespace weft
