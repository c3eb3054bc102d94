/// The matrix exponential.
#include "kernels/matrix_exp.h"

#include "ops/batch.h"
#include "ops/linalg.h"

namespace weft {
namespace ops {
namespace {

const Function matrix_exp{"linalg_matrix_exp"}, zeros_like{"zeros_like"};

void shape(Call& c) {
    expect_matrix("linalg.matrix_exp", c.in[0], true);
    c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape()));
}

void matrix_exp_kernel(Call& c) {
    const Tensor A = as_contiguous(c.in[0]);
    const Matrices m(A);
    Unlocked unlocked(m.count * m.columns * m.columns * m.columns * 5);
    dispatch<MatrixTypes>(A.dtype(), "linalg.matrix_exp", [&]<class T>() {
        kernels::matrix_exp(m.count, m.columns, A.data<T>(), c.out(0).data<T>());
    });
}

/// Mathias, "A chain rule for matrix functions", 1996: the exponential of [[A, E], [0, A]] has the
/// derivative along E in its corner.
Tensor matrix_exp_gradient(const Grad& g) {
    const Tensor H = mH(g.in(0));
    const int64_t n = H.size(H.ndim() - 1);
    const Tensor upper = cat.over({H, g.grad()}, {-1}), lower = cat.over({zeros_like(H), H}, {-1});
    const Tensor both = matrix_exp(cat.over({upper, lower}, {-2}));
    return narrow(narrow(both, -2, 0, n), -1, n, n);
}

}  // namespace
}  // namespace ops

void register_matrix_exp(Table& table) {
    using namespace ops;
    table.add("linalg_matrix_exp(Tensor self) -> Tensor")
        .no_onnx("no matrix exponential")
        .doc("The matrix exponential.")
        .shape(shape)
        .kernel(matrix_exp_kernel)
        .every_dtype()
        .batch(batch_last<2>)
        .internal()
        .in_packages()
        .grad(0, save_in(0), matrix_exp_gradient)
        .samples({"f(T(3, 3))", "f(T(2, 2, 2))", "f(T(1, 1))", "f(T(0, 2, 2))"});
}

}  // namespace weft
