/// Products of sparse matrices with dense ones, over the places and values of their elements. The two
/// ops are each other's gradients.
#include "kernels/sparse_product.h"

#include <algorithm>

#include "base/lock.h"
#include "ops/copy.h"
#include "ops/flops.h"
#include "ops/functions.h"
#include "ops/indexing.h"

namespace weft {
namespace {

using namespace ops;

const Function sparse_product{"_sparse_product"}, sparse_dots{"_sparse_dots"};

void expect_sparse_places(const Call& c, const Tensor& values) {
    const Tensor &rows = c.in[0], &cols = c.in[1];
    WEFT_EXPECT(rows.ndim() == 1 && cols.ndim() == 1 && rows.dtype() == DType::Int64 &&
                    cols.dtype() == DType::Int64 && rows.numel() == cols.numel(),
                Runtime, c.name(), "int64 rows and as many columns",
                text(to_string(rows.shape()), " and ", to_string(cols.shape())));
    WEFT_EXPECT(is_floating(values.dtype()), Runtime, c.name(), "a floating dtype",
                name(values.dtype()));
}

void sparse_product_shape(Call& c) {
    const Tensor &values = c.in[2], &dense = c.in[3];
    expect_sparse_places(c, values);
    const int64_t size = c.attr(0).as_int();
    WEFT_EXPECT(values.ndim() == 1 && values.numel() == c.in[0].numel() && dense.ndim() == 2 &&
                    dense.dtype() == values.dtype() && size >= 0,
                Runtime, c.name(), "a value for each place and a matrix of their dtype",
                text(to_string(values.shape()), " and ", to_string(dense.shape())));
    c.add(Tensor::layout(dense.dtype(), Dims{size, dense.size(1)}));
}

kernels::Places places_of(const Call& c, const Tensor& rows, const Tensor& cols, int64_t row_end,
                          int64_t col_end) {
    require_inside(c.name(), ErrorKind::Index, rows, 0, row_end, 0);
    require_inside(c.name(), ErrorKind::Index, cols, 0, col_end, 1);
    return {rows.numel(), rows.data<int64_t>(), cols.data<int64_t>()};
}

void sparse_product_kernel(Call& c) {
    Tensor rows = as_contiguous(c.in[0]), cols = as_contiguous(c.in[1]),
           values = as_contiguous(c.in[2]), dense = as_contiguous(c.in[3]);
    const auto places = places_of(c, rows, cols, c.out(0).size(0), dense.size(0));
    const int64_t width = dense.size(1);
    Unlocked unlocked(places.count * width);
    dispatch<FloatingTypes>(dense.dtype(), c.name(), [&]<class T>() {
        T* out = c.out(0).data<T>();
        std::fill_n(out, c.out(0).numel(), T(0));
        kernels::sparse_product<T>(places, values.data<T>(), dense.data<T>(), width, out);
    });
}

void dots_shape(Call& c) {
    const Tensor &a = c.in[2], &b = c.in[3];
    expect_sparse_places(c, a);
    WEFT_EXPECT(a.ndim() == 2 && b.ndim() == 2 && a.size(1) == b.size(1) && a.dtype() == b.dtype(),
                Runtime, c.name(), "two matrices with rows of one length and dtype",
                text(to_string(a.shape()), " and ", to_string(b.shape())));
    c.add(Tensor::layout(a.dtype(), Dims{c.in[0].numel()}));
}

void dots_kernel(Call& c) {
    Tensor rows = as_contiguous(c.in[0]), cols = as_contiguous(c.in[1]), a = as_contiguous(c.in[2]),
           b = as_contiguous(c.in[3]);
    const auto places = places_of(c, rows, cols, a.size(0), b.size(0));
    Unlocked unlocked(places.count * a.size(1));
    dispatch<FloatingTypes>(a.dtype(), c.name(), [&]<class T>() {
        kernels::sparse_dots<T>(places, a.data<T>(), b.data<T>(), a.size(1), c.out(0).data<T>());
    });
}

int64_t flops(const Call& c) { return two_each({c.in[0].numel(), c.in[3].size(1)}); }

}  // namespace

void register_sparse_product(Table& t) {
    t.add("_sparse_product(Tensor rows, Tensor cols, Tensor values, Tensor dense, int size) -> "
          "Tensor")
        .doc("A matrix of `size` rows with these elements, times a dense one; places may repeat.")
        .shape(sparse_product_shape)
        .kernel(sparse_product_kernel)
        .flops(flops)
        .internal()
        .node_name("SparseAddmmBackward0")
        .grad(2, save_in(0) | save_in(1) | save_in(3),
              [](const Grad& g) { return sparse_dots(g.in(0), g.in(1), g.grad(), g.in(3)); })
        .grad(3, save_in(0) | save_in(1) | save_in(2),
              [](const Grad& g) {
                  return sparse_product(g.in(1), g.in(0), g.in(2), g.grad(), g.in_shape(3)[0]);
              })
        .samples({"f(I(5, high=3), I(5, high=4), T(5), T(4, 2), 3)",
                  "f(I(3, high=2), I(3, high=2), T(3), T(2, 70), 2)",
                  "f(I(0, high=2), I(0, high=2), T(0), T(2, 3), 2)"});
    t.add("_sparse_dots(Tensor rows, Tensor cols, Tensor a, Tensor b) -> Tensor")
        .doc("For each place the dot product of a row of `a` and one of `b`.")
        .shape(dots_shape)
        .kernel(dots_kernel)
        .flops(flops)
        .internal()
        .node_name("SparseSampledAddmmBackward0")
        .grad(2, save_in(0) | save_in(1) | save_in(3),
              [](const Grad& g) {
                  return sparse_product(g.in(0), g.in(1), g.grad(), g.in(3), g.in_shape(2)[0]);
              })
        .grad(3, save_in(0) | save_in(1) | save_in(2),
              [](const Grad& g) {
                  return sparse_product(g.in(1), g.in(0), g.grad(), g.in(2), g.in_shape(3)[0]);
              })
        .samples({"f(I(5, high=3), I(5, high=4), T(3, 2), T(4, 2))",
                  "f(I(2, high=2), I(2, high=2), T(2, 70), T(2, 70))"});
}

}  // namespace weft
