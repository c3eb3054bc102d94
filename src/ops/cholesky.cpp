/// Factors of positive-definite matrices, and systems solved by them.
#include "kernels/factor.h"
#include "ops/batch.h"
#include "ops/linalg.h"

namespace weft {
namespace ops {
namespace {

const Function cholesky_solve{"_cholesky_solve"};

void cholesky_shape(Call& c) {
    expect_matrix("linalg.cholesky", c.in[0], true);
    c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape()));
    c.add(Tensor::layout(DType::Int32, batch_of(c.in[0])));
}

void cholesky_kernel(Call& c) {
    const Tensor A = as_contiguous(c.in[0]), info = c.out(1);
    const Matrices m(A);
    {
        Unlocked unlocked(m.count * m.columns * m.columns * m.columns / 3);
        dispatch<MatrixTypes>(A.dtype(), "linalg.cholesky", [&]<class T>() {
            kernels::cholesky(m.count, m.columns, c.attr(0).as_bool(), A.data<T>(),
                              c.out(0).data<T>(), info.data<int32_t>());
        });
    }
    const int64_t at = c.attr(1).as_bool() ? first_failed(info) : -1;
    if (at >= 0)
        fail(ErrorKind::LinAlg, "linalg.cholesky", "a positive-definite matrix",
             text("another (linalg.cholesky: ", batch_element(info, at),
                  "The factorization could not be completed because the input is not "
                  "positive-definite (the leading minor of order ",
                  info.data<int32_t>()[at], " is not positive-definite).)"));
}

/// Murray, "Differentiation of the Cholesky decomposition", 2016.
Tensor cholesky_gradient(const Grad& g) {
    const bool upper = g.attr(0).as_bool();
    if (!g.grad().defined()) return {};
    const Tensor L = upper ? mH(g.out(0)) : g.out(0), grad = upper ? mH(g.grad()) : g.grad();
    Tensor P = tril(matmul(mH(L), grad));
    P = P - diag_embed(diagonal(P, 0, -2, -1)) * 0.5;
    const Tensor Y = solve_triangular(mH(L), P, true);
    const Tensor left = mH(solve_triangular(mH(L), mH(Y), true));
    return (left + mH(left)) * 0.5;
}

void cholesky_solve_shape(Call& c) {
    const Tensor &B = c.in[0], &L = c.in[1];
    constexpr std::string_view who = "cholesky_solve";
    expect_matrix(who, B);
    expect_matrix(who, L, true);
    expect_like(who, B, L);
    WEFT_EXPECT(
        B.size(B.ndim() - 2) == L.size(L.ndim() - 1), Runtime, who, "sizes that fit",
        text(to_string(L.shape()), " and ", to_string(B.shape()), " (Incompatible matrix sizes)"));
    Dims shape = broadcast(who, batch_of(B), batch_of(L));
    for (const int64_t size : B.shape().last(2)) shape.push_back(size);
    c.add(Tensor::layout(B.dtype(), shape));
}

void cholesky_solve_kernel(Call& c) {
    const Tensor L = as_contiguous(c.in[1]);
    const Tensor& X = c.out(0);
    copy_into(X, c.in[0]);
    const Matrices l(L), x(X);
    const Spread spread(batch_of(L), batch_of(X));
    Unlocked unlocked(X.numel() * l.columns);
    dispatch<MatrixTypes>(L.dtype(), c.name(), [&]<class T>() {
        kernels::cholesky_solve({x.count, spread.of(), l.count}, x.rows, x.columns,
                                c.attr(0).as_bool(), L.data<T>(), X.data<T>());
    });
}

void cholesky_solve_gradient(Grad& g) {
    const bool upper = g.attr(0).as_bool();
    const Tensor L = g.in(1), dB = cholesky_solve(g.grad(), L, upper);
    if (g.needs(0)) g.set(0, dB);
    if (!g.needs(1)) return;
    const Tensor half = matmul(dB, mH(g.out(0))), both = -(half + mH(half));
    g.set(1, upper ? matmul(L, both) : matmul(both, L));
}

}  // namespace
}  // namespace ops

void register_cholesky(Table& table) {
    using namespace ops;
    table
        .add("linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> "
             "(Tensor L, Tensor info)")
        .no_onnx("no factors of matrices")
        .doc("The Cholesky factor, and for each matrix the order of the minor that fails.\n"
             "LinAlgError for such a one with `check_errors`.")
        .shape(cholesky_shape)
        .kernel(cholesky_kernel)
        .every_dtype()
        .autocast(Cast::Float)
        .batch(batch_last<2>)
        .internal()
        .in_packages()
        .constant_output(1)
        .grad(0, save_out(0), cholesky_gradient);
    table.add("_cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor")
        .no_onnx("no systems of equations")
        .doc("The X with A X = self for the A whose Cholesky factor is input2.")
        .shape(cholesky_solve_shape)
        .kernel(cholesky_solve_kernel)
        .every_dtype()
        .autocast(Cast::Float)
        .batch([](const BatchCall& c, BatchForm& form) {
            return equal(batch_of(c.in(0)), batch_of(c.in(1))) && batch_whole(c, form);
        })
        .internal()
        .in_packages()
        .node_name("CholeskySolveBackward0")
        .joint_grad(save_in(1) | save_out(0), cholesky_solve_gradient);
}

}  // namespace weft
