/// Sorting, the k largest, and the moves that carry their gradients.
#include "kernels/order.h"
#include "ops/axes.h"
#include "ops/batch.h"

namespace weft {
namespace {

using namespace ops;
using kernels::Axis;

const Function pick_along{"_pick_along"};

/// x is read along `dim`, which its contiguous form allows.
struct SortedAlong {
    Tensor x;
    Axis axis;
    SortedAlong(const Call& c, int64_t dim)
        : x(as_contiguous(c.in[0])),
          axis(axis_along(x.shape(), wrap_dim(c.name(), dim, x.ndim()))) {}
};

void run_sort(Call& c, int64_t dim, bool descending, const Tensor* values, const Tensor& indices) {
    SortedAlong along(c, dim);
    if (along.x.numel() == 0) return;
    Unlocked unlocked(16 * along.x.numel());
    dispatch<AllTypes>(along.x.dtype(), c.name(), [&]<class T>() {
        kernels::sort(along.x.data<T>(), values ? values->data<T>() : nullptr,
                      indices.data<int64_t>(), descending, along.axis);
    });
}

/// The gradient goes to where the values came from.
Tensor moved_gradient(const Grad& g, int64_t dim) {
    return place_along(g.grad(), g.out(1), dim, g.in_shape(0));
}

void refuse_complex(const Call& c) {
    if (is_complex(c.in[0].dtype())) fail_dtype(c.name(), NumberTypes::text, c.in[0].dtype());
}

void register_sorts(Table& t) {
    t.add("sort(Tensor self, int dim=-1, bool descending=False, *, bool? stable=None) -> (Tensor "
          "values, Tensor indices)")
        .uint64(Uint64::Order)
        .batch(batch_along<0>)
        .doc("`self` in order along `dim`, and where each value stood (int64). Always stable;\n"
             "NaN counts as greatest. Both of self's shape.\n"
             ">>> weft.sort(weft.tensor([3., 1., 2.])).indices\n"
             "tensor([1, 2, 0])")
        .shape([](Call& c) {
            refuse_complex(c);
            wrap_dim(c.name(), c.attr(0).as_int(), c.in[0].ndim());
            c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape()));
            c.add(Tensor::layout(DType::Int64, c.in[0].shape()));
        })
        .kernel([](Call& c) {
            run_sort(c, c.attr(0).as_int(), c.attr(1).as_bool(), &c.out(0), c.out(1));
        })
        .constant_output(1)
        .node_name(
            [](const Call& c) { return c.attr(2).as_bool() ? "SortBackward1" : "SortBackward0"; })
        .grad(0, save_out(1), [](const Grad& g) { return moved_gradient(g, g.attr(0).as_int()); })
        .samples({"f(T(2, 3))", "f(T(4, 3), 0, True)", "f(T(5), stable=True)", "f(T())",
                  "f(T(0, 3))", "f(I(7), descending=True, stable=True)"});
    t.add("argsort(Tensor self, int dim=-1, bool descending=False, *, bool stable=False) -> Tensor")
        .uint64(Uint64::Order)
        .batch(batch_along<0>)
        .doc("The indices (int64) that sort `self` along `dim`. Always stable.\n"
             "Of self's shape.\n"
             ">>> weft.argsort(weft.tensor([3, 1, 2]))\n"
             "tensor([1, 2, 0])")
        .shape([](Call& c) {
            refuse_complex(c);
            wrap_dim(c.name(), c.attr(0).as_int(), c.in[0].ndim());
            c.add(Tensor::layout(DType::Int64, c.in[0].shape()));
        })
        .kernel([](Call& c) {
            run_sort(c, c.attr(0).as_int(), c.attr(1).as_bool(), nullptr, c.out(0));
        })
        .samples({"f(T(2, 3))", "f(T(4, 3), 0, True)", "f(T())"});
}

void topk_shape(Call& c) {
    const Tensor& x = c.in[0];
    int64_t k = c.attr(0).as_int();
    int dim = wrap_dim(c.name(), c.attr(1).as_int(), x.ndim());
    if (x.dtype() == DType::Bool || is_complex(x.dtype()))
        fail_dtype(c.name(), NumberTypes::text, x.dtype());
    int64_t n = x.ndim() ? x.size(dim) : 1;
    WEFT_EXPECT(k >= 0 && k <= n, Runtime, c.name(), text("k in [0, ", n, "]"),
                text(k, " (selected index k out of range)"));
    Dims shape(x.shape());
    if (x.ndim()) shape[dim] = k;  // a number is its own greatest, were none asked for
    c.add(Tensor::layout(x.dtype(), shape));
    c.add(Tensor::layout(DType::Int64, shape));
}

void topk_kernel(Call& c) {
    if (!c.out(0).numel()) return;
    int64_t k = c.in[0].ndim() ? c.attr(0).as_int() : 1;
    SortedAlong along(c, c.attr(1).as_int());
    Unlocked unlocked(16 * along.x.numel());
    dispatch<AllTypes>(along.x.dtype(), c.name(), [&]<class T>() {
        kernels::topk(along.x.data<T>(), c.out(0).data<T>(), c.out(1).data<int64_t>(), k,
                      c.attr(2).as_bool(), c.attr(3).as_bool(), along.axis);
    });
}

/// Elements per step of the axis: the k of pick and place.
int64_t places(const Tensor& index, Axis axis) {
    int64_t rows = axis.outer * axis.inner;
    return rows ? index.numel() / rows : 0;
}

void pick_kernel(Call& c) {
    SortedAlong along(c, c.attr(0).as_int());
    Tensor index = as_contiguous(c.in[1]);
    Unlocked unlocked(index.numel());
    dispatch<AllTypes>(along.x.dtype(), c.name(), [&]<class T>() {
        kernels::pick_along(along.x.data<T>(), index.data<int64_t>(), c.out(0).data<T>(),
                            places(index, along.axis), along.axis);
    });
}

void place_kernel(Call& c) {
    Tensor x = as_contiguous(c.in[0]), index = as_contiguous(c.in[1]);
    const Tensor& out = c.out(0);
    Axis axis = axis_along(out.shape(), wrap_dim(c.name(), c.attr(0).as_int(), out.ndim()));
    Unlocked unlocked(out.numel());
    dispatch<AllTypes>(x.dtype(), c.name(), [&]<class T>() {
        kernels::place_along(x.data<T>(), index.data<int64_t>(), out.data<T>(), places(index, axis),
                             axis);
    });
}

/// The two are each other's gradient. `index` may lack `dim`, as what a reduction gives.
void register_moves(Table& t) {
    t.add("_pick_along(Tensor self, Tensor index, int dim) -> Tensor")
        .doc("The elements at `index` (int64) along `dim`, in the shape of `index`.")
        .shape([](Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.in[1].shape())); })
        .kernel(pick_kernel)
        .internal()
        .node_name("GatherBackward0")
        .grad(0, save_in(1),
              [](const Grad& g) {
                  return place_along(g.grad(), g.in(1), g.attr(0).as_int(), g.in_shape(0));
              })
        .samples({"f(T(3, 4), I(1, 4, high=3), 0)", "f(T(4), I(high=4), 0)"});
    t.add("_place_along(Tensor self, Tensor index, int dim, int[] size) -> Tensor")
        .doc("Zeros of `size` with the elements of `self` at `index` along `dim`, each place\n"
             "once.")
        .shape([](Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.attr(1).as_ints())); })
        .kernel(place_kernel)
        .internal()
        .node_name("ScatterBackward0")
        .grad(0, save_in(1),
              [](const Grad& g) { return pick_along(g.grad(), g.in(1), g.attr(0).as_int()); })
        .samples({"f(T(1, 4), I(1, 4, high=3), 0, (3, 4))", "f(T(), I(high=4), 0, (4,))"});
}

}  // namespace

void register_sort(Table& t) {
    register_sorts(t);
    t.add("topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor "
          "values, Tensor indices)")
        .uint64(Uint64::Order)
        .batch(batch_along<1>)
        .doc("The k largest (or smallest) elements along `dim` in order, and where they stood\n"
             "(int64). RuntimeError for a k out of range.\n\n"
             ">>> weft.topk(weft.tensor([3., 1., 2.]), 2).values\n"
             "tensor([3., 2.])")
        .shape(topk_shape)
        .kernel(topk_kernel)
        .constant_output(1)
        .grad(0, save_out(1), [](const Grad& g) { return moved_gradient(g, g.attr(1).as_int()); })
        .samples({"f(T(2, 3), 2)", "f(T(4, 3), 2, 0, False)", "f(T(), 1)", "f(T(5), 0)"});
    register_moves(t);
}

}  // namespace weft
