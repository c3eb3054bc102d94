/// The multi-class margin loss (Crammer and Singer 2001).
#include "kernels/margin.h"

#include "base/lock.h"
#include "kernels/loss.h"
#include "ops/axes.h"
#include "ops/batch.h"
#include "ops/pointwise.h"

namespace weft {
namespace {

using namespace ops;

constexpr const char* kMultiMargin = "multi_margin_loss";

/// Inputs (scores [rows, classes], targets [rows]), attributes (p, margin).
void margin_shape(Call& c) {
    const Tensor &x = c.in[0], &target = c.in[1];
    WEFT_EXPECT(x.ndim() == 2 && x.size(1) > 0 && target.ndim() == 1 && target.size(0) == x.size(0),
                Runtime, kMultiMargin, "scores (rows, classes) and a target for each row",
                text(to_string(x.shape()), " and ", to_string(target.shape())));
    WEFT_EXPECT(is_floating(x.dtype()), NotImplemented, kMultiMargin, "scores of a floating dtype",
                name(x.dtype()));
    WEFT_EXPECT(target.dtype() == DType::Int64, Runtime, kMultiMargin, "targets of dtype int64",
                name(target.dtype()));
    WEFT_EXPECT(c.attr(0).as_int() == 1 || c.attr(0).as_int() == 2, Value, kMultiMargin,
                "p of 1 or 2", text(c.attr(0).as_int(), " (only p == 1 and p == 2 supported)"));
    c.add(Tensor::layout(x.dtype(), Dims{x.size(0)}));
}

void margin_kernel(Call& c) {
    const Tensor x = as_contiguous(c.in[0]), target = as_contiguous(c.in[1]);
    const kernels::Targets targets{target.data<int64_t>(), 0};  // none is left out
    const int64_t* bad = kernels::bad_target(targets, target.numel(), x.size(1));
    WEFT_EXPECT(!bad, Runtime, kMultiMargin, text("targets in [0, ", x.size(1), ")"),
                text(*bad, " (a target out of range)"));
    Unlocked unlocked(x.numel());
    dispatch<FloatingTypes>(x.dtype(), c.name(), [&]<class T>() {
        kernels::multi_margin<T>(x.size(0), x.size(1), x.data<T>(), target.data<int64_t>(),
                                 static_cast<int>(c.attr(0).as_int()),
                                 static_cast<T>(c.attr(1).as_double()), c.out(0).data<T>());
    });
}

/// A hinge that is open pulls its own score up and the target's down by its slope; that of the
/// target's score itself, of the constant `margin`, does both to one.
Tensor margin_gradient(const Grad& g) {
    const Tensor &x = g.in(0), labels = unsqueeze(g.in(1), 1);
    const Tensor hinge = x - gather(x, 1, labels) + g.attr(1).as_double();
    const Tensor open = to(gt(hinge, number(0, x.dtype())), x.dtype());
    const Tensor slope = g.attr(0).as_int() == 1 ? open : hinge * open * 2.0;
    const Tensor d = slope * (unsqueeze(g.grad(), 1) / static_cast<double>(x.size(1)));
    return scatter_add(d, 1, labels, -sum_dim(d, 1, true));
}

}  // namespace

void register_margin(Table& t) {
    t.add("_multi_margin_loss(Tensor input, Tensor target, int p=1, float margin=1.0) -> Tensor")
        .doc("sum over i != y of max(0, margin - x[y] + x[i])^p / classes, of each row x.\n"
             "input (rows, classes), target (rows) int64.")
        .shape(margin_shape)
        .kernel(margin_kernel)
        .internal()
        .in_packages()
        .node_name("MultiMarginLossBackward0")
        .grad(0, save_in(0) | save_in(1), margin_gradient)
        .samples(
            {"f(T(3, 4), I(3, high=4))", "f(T(3, 4), I(3, high=4), 2, 0.5)", "f(T(0, 3), I(0))"});
}

}  // namespace weft
