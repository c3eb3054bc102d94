/// Distances between all pairs of rows, for the norms that torch.cdist is used with.
#include "kernels/distance.h"

#include <limits>

#include "base/lock.h"
#include "ops/batch.h"
#include "ops/copy.h"
#include "ops/functions.h"

namespace weft {
namespace {

using namespace ops;
using kernels::Metric;

const Function distance_backward{"_pair_distances_backward"};

Metric metric_of(const Value& p) {
    const double value = p.as_double();
    WEFT_EXPECT(value == 1 || value == 2 || value == std::numeric_limits<double>::infinity(), Value,
                "_pair_distances", "p of 1, 2 or inf", text(value));
    return value == 1 ? Metric::One : value == 2 ? Metric::Two : Metric::Max;
}

kernels::PairSizes pair_sizes(const Tensor& a, const Tensor& b) {
    return {a.size(0), a.size(1), b.size(1), a.size(2)};
}

void distance_shape(Call& c) {
    const Tensor &a = c.in[0], &b = c.in[1];
    metric_of(c.attr(0));
    WEFT_EXPECT(is_floating(a.dtype()) && a.dtype() == b.dtype(), Runtime, c.name(),
                "two operands of one floating dtype",
                text(name(a.dtype()), " and ", name(b.dtype())));
    WEFT_EXPECT(a.ndim() == 3 && b.ndim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(2),
                Runtime, c.name(), "two equally long stacks of rows of one size",
                text(to_string(a.shape()), " and ", to_string(b.shape())));
    Dims shape{a.size(0), a.size(1), b.size(1)};
    c.add(Tensor::layout(a.dtype(), shape));
}

/// Batches of both, beside each other.
bool pair_rows(const BatchCall& c, BatchForm& form) {
    for (int i = 0; i < 2; ++i) {
        if (c.in(i).numel() == 0) return false;
        form.add_rows(i, c.in(i).shape().subspan(1));
    }
    form.rows = c.in(0).size(0);
    return true;
}

int64_t pair_work(const kernels::PairSizes& n) { return n.batch * n.rows * n.others * n.width; }

void distance_kernel(Call& c) {
    Tensor a = as_contiguous(c.in[0]), b = as_contiguous(c.in[1]);
    const auto n = pair_sizes(a, b);
    Unlocked unlocked(pair_work(n));
    dispatch<FloatingTypes>(a.dtype(), c.name(), [&]<class T>() {
        kernels::distances<T>(metric_of(c.attr(0)), n, a.data<T>(), b.data<T>(),
                              c.out(0).data<T>());
    });
}

/// Inputs: the gradient and the value of the distances, then a and b.
void distance_backward_shape(Call& c) {
    for (int i : {2, 3}) c.add(Tensor::layout(c.in[i].dtype(), c.in[i].shape()));
}

void distance_backward_kernel(Call& c) {
    Tensor dy = as_contiguous(c.in[0], c.in[2].dtype()), y = as_contiguous(c.in[1]),
           a = as_contiguous(c.in[2]), b = as_contiguous(c.in[3]);
    const auto n = pair_sizes(a, b);
    Unlocked unlocked(2 * pair_work(n));
    dispatch<FloatingTypes>(a.dtype(), c.name(), [&]<class T>() {
        kernels::distances_backward<T>(metric_of(c.attr(0)), n, dy.data<T>(), a.data<T>(),
                                       b.data<T>(), y.data<T>(), c.out(0).data<T>(),
                                       c.out(1).data<T>());
    });
}

/// With a graph of it.
void composed_gradient(Grad& g) {
    Tensor dy = unsqueeze(g.grad(), 3), y = unsqueeze(g.out(0), 3);
    Tensor diff = unsqueeze(g.in(0), 2) - unsqueeze(g.in(1), 1), zero = number(0, y.dtype()), each;
    const Metric p = metric_of(g.attr(0));
    if (p == Metric::Two) {
        Tensor same = eq(y, zero);
        each = diff * where(same, zero, dy / where(same, number(1, y.dtype()), y));
    } else {
        each = sign(diff) * dy;
        if (p == Metric::Max) each = where(eq(absolute(diff), y), each, zero);
    }
    Dims others{2}, rows{1};
    if (g.needs(0)) g.set(0, sum_dim(each, others, false));
    if (g.needs(1)) g.set(1, -sum_dim(each, rows, false));
}

void distance_gradient(Grad& g) {
    if (mode & kGradMode) return composed_gradient(g);
    auto parts = distance_backward.all({g.grad(), g.out(0), g.in(0), g.in(1)}, {g.attr(0)});
    for (int i : {0, 1})
        if (g.needs(i)) g.set(i, parts[i]);
}

}  // namespace

void register_distance(Table& t) {
    t.add("_pair_distances(Tensor a, Tensor b, float p) -> Tensor")
        .doc("The p-norm, p 1, 2 or inf, of the difference of each row of a (B, P, M) and each of\n"
             "b (B, R, M): (B, P, R).")
        .shape(distance_shape)
        .kernel(distance_kernel)
        .internal()
        .in_packages()
        .batch(pair_rows)
        .node_name("CdistBackward0")
        .joint_grad(save_in(0) | save_in(1) | save_out(0), distance_gradient)
        .samples({"f(T(2, 3, 4), T(2, 5, 4), 1.)", "f(T(1, 3, 2), T(1, 70, 2), 2.)",
                  "f(T(1, 3, 4), T(1, 2, 4), float('inf'))", "f(T(1, 0, 4), T(1, 2, 4), 2.)"});
    t.add("_pair_distances_backward(Tensor grad, Tensor value, Tensor a, Tensor b, float p) -> "
          "(Tensor, Tensor)")
        .doc("The gradients of _pair_distances' a and b. Equal points have none; of several "
             "largest\n"
             "differences each has the whole, as PyTorch's have.")
        .shape(distance_backward_shape)
        .kernel(distance_backward_kernel)
        .internal();
}

}  // namespace weft
