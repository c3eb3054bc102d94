/// LU factors with row swaps, and systems solved by them.
#include "kernels/factor.h"
#include "ops/batch.h"
#include "ops/linalg.h"

namespace weft {
namespace ops {
namespace {

const Function permutation{"_linalg_permutation"}, lu_solve{"linalg_lu_solve"};

Tensor rows_of(const Tensor& t, int64_t from, int64_t count) { return narrow(t, -2, from, count); }
Tensor columns_of(const Tensor& t, int64_t from, int64_t count) {
    return narrow(t, -1, from, count);
}

// ---- factors

/// In whose name errors are.
std::string factored_by(const Call& c) {
    return c.attr(1).none() ? "linalg.lu_factor_ex" : c.attr(1).as_text();
}

void lu_shape(Call& c) {
    const Tensor& A = c.in[0];
    expect_matrix(factored_by(c), A);
    const Matrices m(A);
    c.add(Tensor::layout(A.dtype(), A.shape()));
    c.add(Tensor::layout(DType::Int32, joined(batch_of(A), {std::min(m.rows, m.columns)})));
    c.add(Tensor::layout(DType::Int32, batch_of(A)));
}

void lu_kernel(Call& c) {
    const Tensor A = as_contiguous(c.in[0]), info = c.out(2);
    const Matrices m(A);
    {
        Unlocked unlocked(A.numel() * std::min(m.rows, m.columns));
        dispatch<MatrixTypes>(A.dtype(), "linalg.lu_factor", [&]<class T>() {
            kernels::lu_factor(m.count, m.rows, m.columns, A.data<T>(), c.out(0).data<T>(),
                               c.out(1).data<int32_t>(), info.data<int32_t>());
        });
    }
    const int64_t at = c.attr(0).as_bool() ? first_failed(info) : -1;
    if (at < 0) return;
    const int32_t pivot = info.data<int32_t>()[at];
    const std::string who = factored_by(c);
    fail(ErrorKind::Runtime, who, "an invertible matrix",
         text("a singular one (", who, ": ", batch_element(info, at), "U[", pivot, ",", pivot,
              "] is zero and using it on lu_solve would result in a division by zero.)"));
}

/// L [m, k] of a matrix of both factors, its diagonal 1.
Tensor lower_of(const Tensor& LU) {
    const int64_t m = last(LU, 2), k = std::min(m, last(LU, 1));
    return tril(columns_of(LU, 0, k), int64_t{-1}) + eye(m, k, Value(LU.dtype()));
}
/// U [k, n].
Tensor upper_of(const Tensor& LU) {
    return triu(rows_of(LU, 0, std::min(last(LU, 2), last(LU, 1))));
}

/// dA = P (dL U + L dU): dL is strictly lower and dU upper, so L⁻¹ Pᵀ dA U⁻¹ splits into both.
Tensor factor_gradient(const Grad& g) {
    const Tensor LU = g.out(0), grad = g.grad();
    if (!grad.defined()) return {};
    const int64_t m = last(LU, 2), n = last(LU, 1), k = std::min(m, n);
    const Tensor L = lower_of(LU), U = upper_of(LU);
    const Tensor dL = tril(columns_of(grad, 0, k), int64_t{-1}), dU = triu(rows_of(grad, 0, k));
    const Tensor L1 = rows_of(L, 0, k), U1 = columns_of(U, 0, k);
    Tensor lower = matmul(mH(L1), rows_of(dL, 0, k)), upper = matmul(columns_of(dU, 0, k), mH(U1));
    if (n > k) lower = lower - matmul(columns_of(dU, k, n - k), mH(columns_of(U, k, n - k)));
    if (m > k) upper = upper - matmul(mH(rows_of(L, k, m - k)), rows_of(dL, k, m - k));
    const Tensor inner = tril(lower, int64_t{-1}) + triu(upper);
    auto by_lower = [&](const Tensor& B) { return solve_triangular(mH(L1), B, true, true, true); };
    auto by_upper = [&](const Tensor& B) { return solve_triangular(mH(U1), B, false, false); };
    Tensor out = by_lower(by_upper(inner));
    if (n > k) out = cat.over({out, by_lower(columns_of(dU, k, n - k))}, {-1});
    if (m > k) out = cat.over({out, by_upper(rows_of(dL, k, m - k))}, {-2});
    return matmul(permutation(g.out(1), m, LU.dtype()), out);
}

/// P of A = P L U.
void permutation_kernel(Call& c) {
    const Tensor pivots = as_contiguous(c.in[0]);
    const Tensor& out = c.out(0);
    const int64_t k = last(pivots, 1), n = c.attr(0).as_int();
    const int64_t count = k ? pivots.numel() / k : n ? out.numel() / (n * n) : 0;
    std::vector<int64_t> order(static_cast<size_t>(n));
    dispatch<MatrixTypes>(out.dtype(), c.name(), [&]<class T>() {
        T* P = out.data<T>();
        std::fill_n(P, out.numel(), T(0));
        const auto* swaps = pivots.data<int32_t>();
        for (int64_t b = 0; b < count; ++b, P += n * n, swaps += k) {
            for (int64_t i = 0; i < n; ++i) order[static_cast<size_t>(i)] = i;
            for (int64_t i = 0; i < k; ++i) {
                const int64_t other = swaps[i] - 1;
                WEFT_EXPECT(other >= 0 && other < n, Runtime, "linalg.lu",
                            text("pivots in [1, ", n, "]"), text(swaps[i]));
                std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(other)]);
            }
            for (int64_t i = 0; i < n; ++i) P[order[static_cast<size_t>(i)] * n + i] = T(1);
        }
    });
}

// ---- solutions

void lu_solve_shape(Call& c) {
    const Tensor &LU = c.in[0], &pivots = c.in[1], &B = c.in[2];
    constexpr std::string_view who = "linalg.lu_solve";
    expect_matrix(who, LU, true);
    expect_like(who, LU, B);
    WEFT_EXPECT(
        pivots.dtype() == DType::Int32, Runtime, who, "int32 pivots",
        text(name(pivots.dtype()), " (pivots should be a Tensor of scalar type torch.int32)"));
    WEFT_EXPECT(equal(pivots.shape(), without_last(LU.shape(), 1)), Runtime, who,
                "as many pivots as rows",
                text(to_string(pivots.shape()), " and ", to_string(LU.shape()),
                     " (Number of pivots per batch should be same as the dimension of the "
                     "matrix)"));
    const bool left = c.attr(0).as_bool();
    WEFT_EXPECT(B.ndim() >= 2 && last(B, left ? 2 : 1) == last(LU, 1), Runtime, who,
                "sizes that fit",
                text(to_string(LU.shape()), " and ", to_string(B.shape()),
                     " (Incompatible shapes of A and B)"));
    Dims shape = broadcast(who, batch_of(LU), batch_of(B));
    for (const int64_t size : B.shape().last(2)) shape.push_back(size);
    c.add(Tensor::layout(B.dtype(), shape));
}

void lu_solve_kernel(Call& c) {
    ModeGuard no_graph(0, kGradMode);
    // X A = B is Aᴴ Xᴴ = Bᴴ.
    const bool left = c.attr(0).as_bool(), adjoint = c.attr(1).as_bool() == left;
    const Tensor LU = as_contiguous(c.in[0]), pivots = as_contiguous(c.in[1]);
    const Tensor& out = c.out(0);
    const Tensor X = left ? out : Tensor::empty(out.dtype(), transposed(out).shape());
    copy_into(X, left ? c.in[2] : conj(transposed(c.in[2])));
    const Matrices a(LU), x(X);
    const auto* swaps = pivots.data<int32_t>();
    for (int64_t i = 0; i < pivots.numel(); ++i)
        WEFT_EXPECT(swaps[i] >= 1 && swaps[i] <= a.columns, Runtime, "linalg.lu_solve",
                    text("pivots in [1, ", a.columns, "]"), text(swaps[i]));
    const Spread spread(batch_of(LU), batch_of(X));
    {
        Unlocked unlocked(X.numel() * a.columns * 2);
        dispatch<MatrixTypes>(LU.dtype(), c.name(), [&]<class T>() {
            kernels::lu_solve({x.count, spread.of(), a.count}, x.rows, x.columns, adjoint,
                              LU.data<T>(), swaps, X.data<T>());
        });
    }
    if (!left) copy_into(out, conj(transposed(X)));
}

void lu_solve_gradient(Grad& g) {
    const bool left = g.attr(0).as_bool(), adjoint = g.attr(1).as_bool();
    const Tensor LU = g.in(0), pivots = g.in(1), X = g.out(0);
    const Tensor dB = lu_solve(LU, pivots, g.grad(), left, !adjoint);
    if (g.needs(2)) g.set(2, dB);
    if (!g.needs(0)) return;
    Tensor dA = left ? matmul(dB, mH(X)) : matmul(mH(X), dB);
    if (adjoint) dA = mH(dA);
    const Tensor swapped = -matmul(mT(permutation(pivots, last(LU, 1), LU.dtype())), dA);
    g.set(0, tril(matmul(swapped, mH(upper_of(LU))), int64_t{-1}) +
                 triu(matmul(mH(lower_of(LU)), swapped)));
}

}  // namespace
}  // namespace ops

void register_lu(Table& table) {
    using namespace ops;
    table
        .add("linalg_lu_factor_ex(Tensor A, *, bool check_errors=False, str? who=None) -> (Tensor "
             "LU, Tensor pivots, Tensor info)")
        .no_onnx("no factors of matrices")
        .doc("The factors of A = P L U in one matrix, the row swaps, and the first zero pivot or "
             "0.\nRuntimeError for a zero pivot with `check_errors`, in the name of `who`.")
        .shape(lu_shape)
        .kernel(lu_kernel)
        .every_dtype()
        .batch(batch_last<2>)
        .internal()
        .in_packages()
        .constant_output(1)
        .constant_output(2)
        .grad(0, save_out(0) | save_out(1), factor_gradient)
        .samples({"f(T(3, 3))", "f(T(2, 3, 4))", "f(T(4, 2))"});
    table.add("_linalg_permutation(Tensor pivots, int rows, dtype dtype) -> Tensor")
        .no_onnx("no factors of matrices")
        .doc("P [rows, rows] of A = P L U, of the row swaps that LAPACK names.")
        .shape([](Call& c) {
            const Tensor& pivots = c.in[0];
            const int64_t n = c.attr(0).as_int();
            WEFT_EXPECT(pivots.dtype() == DType::Int32 && pivots.ndim() > 0 && n >= last(pivots, 1),
                        Runtime, "linalg.lu", "at most as many int32 pivots as rows",
                        text(name(pivots.dtype()), to_string(pivots.shape()), " for ", n));
            const Dims shape = joined(without_last(pivots.shape(), 1), {n, n});
            count_elements("linalg.lu", shape, 16);
            c.add(Tensor::layout(c.attr(1).as_dtype(DType::Float32), shape));
        })
        .kernel(permutation_kernel)
        .every_dtype()
        .internal()
        .in_packages();
    table
        .add("linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool "
             "adjoint=False) -> Tensor")
        .no_onnx("no systems of equations")
        .doc("The X with A X = B for the factors of A; of Aᴴ with `adjoint`; X A = B if not "
             "`left`.")
        .shape(lu_solve_shape)
        .kernel(lu_solve_kernel)
        .every_dtype()
        .batch([](const BatchCall& c, BatchForm& form) {
            return equal(batch_of(c.in(0)), batch_of(c.in(2))) && batch_whole(c, form);
        })
        .internal()
        .in_packages()
        .joint_grad(save_in(0) | save_in(1) | save_out(0), lu_solve_gradient, 0b101);
}

}  // namespace weft
