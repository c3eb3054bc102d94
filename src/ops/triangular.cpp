/// Triangular systems, which the gradients of factors solve too.
#include "kernels/factor.h"
#include "ops/batch.h"
#include "ops/linalg.h"

namespace weft {
namespace ops {
namespace {

constexpr std::string_view kSolveTriangular = "linalg.solve_triangular";

void triangular_shape(Call& c) {
    const Tensor &A = c.in[0], &B = c.in[1];
    expect_matrix(kSolveTriangular, A, true);
    expect_matrix(kSolveTriangular, B);
    expect_like(kSolveTriangular, A, B);
    WEFT_EXPECT(A.size(A.ndim() - 1) == B.size(B.ndim() - (c.attr(1).as_bool() ? 2 : 1)), Runtime,
                kSolveTriangular, "sizes that fit",
                text(to_string(A.shape()), " and ", to_string(B.shape()),
                     " (Incompatible shapes of A and B)"));
    Dims shape = broadcast(kSolveTriangular, batch_of(A), batch_of(B));
    for (const int64_t size : B.shape().last(2)) shape.push_back(size);
    c.add(Tensor::layout(A.dtype(), shape));
}

void triangular_kernel(Call& c) {
    const bool left = c.attr(1).as_bool();
    const kernels::Triangle of{c.attr(0).as_bool() == left, c.attr(2).as_bool()};
    const Tensor A = as_contiguous(left ? c.in[0] : transposed(c.in[0]));
    const Tensor& out = c.out(0);
    const Tensor X = left ? out : Tensor::empty(out.dtype(), transposed(out).shape());
    copy_into(X, left ? c.in[1] : transposed(c.in[1]));
    const Matrices a(A), x(X);
    const Spread spread(batch_of(A), batch_of(X));
    {
        Unlocked unlocked(X.numel() * a.columns);
        dispatch<MatrixTypes>(A.dtype(), kSolveTriangular, [&]<class T>() {
            kernels::triangular_solve({x.count, spread.of(), a.count}, x.rows, x.columns, of,
                                      A.data<T>(), X.data<T>());
        });
    }
    if (!left) copy_into(out, transposed(X));
}

void triangular_gradient(Grad& g) {
    const bool upper = g.attr(0).as_bool(), left = g.attr(1).as_bool(), unit = g.attr(2).as_bool();
    const Tensor dB = solve_triangular(mH(g.in(0)), g.grad(), !upper, left, unit);
    if (g.needs(1)) g.set(1, dB);
    if (!g.needs(0)) return;
    const Tensor X = g.out(0);
    const Tensor dA = -(left ? matmul(dB, mH(X)) : matmul(mH(X), dB));
    g.set(0, upper ? triu(dA, int64_t{unit}) : tril(dA, -int64_t{unit}));
}

bool triangular_rows(const BatchCall& c, BatchForm& form) {
    const Tensor &A = c.in(0), &B = c.in(1);
    if (A.numel() == 0 || B.numel() == 0 || !equal(batch_of(A), batch_of(B))) return false;
    if (A.ndim() == 2 && c.fixed(0)) form.add_shared(0);
    else form.add_rows(0, A.shape());
    form.add_rows(1, B.shape());
    return true;
}

}  // namespace
}  // namespace ops

void register_triangular(Table& table) {
    using namespace ops;
    table
        .add("linalg_solve_triangular(Tensor A, Tensor B, *, bool upper, bool left=True, bool "
             "unitriangular=False) -> Tensor")
        .no_onnx("no systems of equations")
        .doc("The X with A X = B (X A = B if not `left`) for a triangular A.")
        .shape(triangular_shape)
        .kernel(triangular_kernel)
        .every_dtype()
        .batch(triangular_rows)
        .internal()
        .in_packages()
        .joint_grad(save_in(0) | save_out(0), triangular_gradient)
        .samples({"f(T(3, 3), T(3, 2), upper=True)", "f(T(3, 3), T(3, 2), upper=False)",
                  "f(T(2, 3, 3), T(2, 2, 3), upper=True, left=False)",
                  "f(T(3, 3), T(2, 3, 2), upper=False, unitriangular=True)"});
}

}  // namespace weft
