/// Systems of equations: inverses, solutions, determinants. `info` of a matrix is the place of a zero
/// pivot, from 1, or 0.
#include "kernels/factor.h"
#include "ops/batch.h"
#include "ops/linalg.h"

namespace weft {
namespace ops {
namespace {

const Function inv_ex{"linalg_inv_ex"}, cofactors{"_linalg_cofactors"}, prod{"prod.dim"},
    det{"linalg_det"};

int64_t solve_work(const Matrices& m, int64_t each) {
    return m.count * m.columns * m.columns * each;
}

[[noreturn]] void fail_singular(std::string_view who, std::string_view got) {
    fail(ErrorKind::LinAlg, who, "an invertible matrix", text("a singular one (", who, got));
}

// ---- inverses

void inv_shape(Call& c) {
    expect_matrix("linalg.inv", c.in[0], true);
    c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape()));
    c.add(Tensor::layout(DType::Int32, batch_of(c.in[0])));
}

void inv_kernel(Call& c) {
    const Tensor A = as_contiguous(c.in[0]), info = c.out(1);
    const Matrices m(A);
    {
        Unlocked unlocked(solve_work(m, m.columns));
        dispatch<MatrixTypes>(A.dtype(), "linalg.inv", [&]<class T>() {
            kernels::inverse(m.count, m.columns, A.data<T>(), c.out(0).data<T>(),
                             info.data<int32_t>());
        });
    }
    const int64_t at = c.attr(0).as_bool() ? first_failed(info) : -1;
    if (at >= 0)
        fail_singular("linalg.inv",
                      text(": ", batch_element(info, at), "The diagonal element ",
                           info.data<int32_t>()[at],
                           " is zero, the inversion could not be completed because the input "
                           "matrix is singular.)"));
}

Tensor inv_gradient(const Grad& g) {
    const Tensor adjoint = mH(g.out(0));
    return -matmul(matmul(adjoint, g.grad()), adjoint);
}

// ---- solutions

/// B is a batch of vectors, not of matrices.
bool is_vectors(DimSpan A, DimSpan B) {
    return B.size() == 1 || (A.size() - 1 == B.size() && equal(A.first(A.size() - 1), B));
}

void solve_shape(Call& c) {
    const Tensor &A = c.in[0], &B = c.in[1];
    const bool left = c.attr(0).as_bool();
    constexpr std::string_view who = "linalg.solve";
    expect_matrix(who, A, true);
    expect_like(who, A, B);
    const bool vectors = is_vectors(A.shape(), B.shape());
    WEFT_EXPECT(left || !vectors, Runtime, who, "matrices with left=False",
                "vectors (Vector broadcasting of the left hand side is not supported for "
                "left=False.)");
    const int n = B.ndim();
    const int64_t size = A.size(A.ndim() - 1), columns = vectors || n < 1 ? 1 : B.size(n - 1),
                  rows = vectors ? B.size(n - 1)
                         : n > 1 ? B.size(n - 2)
                                 : 1;
    WEFT_EXPECT(
        (vectors || n > 1) && size == (left ? rows : columns), Runtime, who, "sizes that fit",
        text("others (linalg.solve: Incompatible shapes of A and B for the equation ",
             left ? "AX" : "XA", " = B (", size, "x", size, " and ", rows, "x", columns, "))"));
    Dims shape = broadcast(who, batch_of(A), without_last(B.shape(), vectors ? 1 : 2));
    if (!vectors || left) shape.push_back(rows);
    if (!vectors) shape.push_back(columns);
    c.add(Tensor::layout(A.dtype(), shape));
    c.add(Tensor::layout(DType::Int32, batch_of(A)));
}

void solve_kernel(Call& c) {
    const bool left = c.attr(0).as_bool(), vectors = is_vectors(c.in[0].shape(), c.in[1].shape());
    const Tensor A = as_contiguous(left ? c.in[0] : transposed(c.in[0])), info = c.out(1);
    const Tensor& out = c.out(0);
    // A X = B in the place of B.
    Tensor X = left ? out : Tensor::empty(out.dtype(), transposed(out).shape());
    copy_into(X, left ? c.in[1] : transposed(c.in[1]));
    const Matrices m(A);
    const DimSpan batch = without_last(X.shape(), vectors ? 1 : 2);
    const Spread spread(batch_of(A), batch);
    int64_t count = 1;
    for (const int64_t size : batch) count *= size;
    const int64_t k = vectors ? 1 : X.size(X.ndim() - 1);
    {
        Unlocked unlocked(solve_work(m, m.columns) + count * m.columns * m.columns * k);
        dispatch<MatrixTypes>(A.dtype(), "linalg.solve", [&]<class T>() {
            kernels::solve({count, spread.of(), m.count}, m.columns, k, A.data<T>(), X.data<T>(),
                           info.data<int32_t>());
        });
    }
    const int64_t at = c.attr(1).as_bool() ? first_failed(info) : -1;
    if (at >= 0)
        fail_singular("linalg.solve",
                      text(": ", batch_element(info, at),
                           "The solver failed because the input matrix is singular.)"));
    if (!left) copy_into(out, transposed(X));
}

void solve_gradient(Grad& g) {
    const Tensor A = g.in(0), X = g.out(0);
    const bool left = g.attr(0).as_bool();
    const Tensor dB = solve_ex.all({mH(A), g.grad()}, {left})[0];
    if (g.needs(1)) g.set(1, dB);
    if (!g.needs(0)) return;
    if (!left) return g.set(0, -matmul(mH(X), dB));
    const bool vectors = is_vectors(A.shape(), X.shape()) || g.in_shape(1).size() == 1;
    if (!vectors) return g.set(0, -matmul(dB, mH(X)));
    g.set(0, -(unsqueeze(dB, -1) * conj(unsqueeze(X, -2))));
}

/// One matrix for each call, or one for all where B has matrices, too.
bool solve_rows(const BatchCall& c, BatchForm& form) {
    const Tensor &A = c.in(0), &B = c.in(1);
    if (A.numel() == 0 || B.numel() == 0) return false;
    if (A.ndim() != 2 && !equal(batch_of(A), B.shape().first(std::min(B.ndim(), A.ndim() - 2))))
        return false;
    if (A.ndim() == 2 && c.fixed(0) && B.ndim() == 2) form.add_shared(0);
    else form.add_rows(0, A.shape());
    form.add_rows(1, B.shape());
    return A.ndim() == B.ndim() || A.ndim() == B.ndim() + 1;
}

void register_solutions(Table& t) {
    t.add("linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)")
        .no_onnx("no inverse of a matrix")
        .doc("The inverse, nan where there is none, and for each matrix where it is singular.\n"
             "LinAlgError for a singular one with `check_errors`.")
        .shape(inv_shape)
        .kernel(inv_kernel)
        .every_dtype()
        .autocast(Cast::Float)
        .batch(batch_last<2>)
        .internal()
        .in_packages()
        .constant_output(1)
        .grad(0, save_out(0), inv_gradient)
        .samples({"f(T(3, 3))", "f(T(2, 2, 2))", "f(T(0, 3, 3))", "f(T(3, 3).mT)"});
    t.add("linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> "
          "(Tensor result, Tensor info)")
        .no_onnx("no systems of equations")
        .doc("The X with A X = B (X A = B if not `left`), nan where A is singular, and for each A\n"
             "where it is. LinAlgError for a singular one with `check_errors`.")
        .shape(solve_shape)
        .kernel(solve_kernel)
        .every_dtype()
        .autocast(Cast::Float)
        .batch(solve_rows)
        .internal()
        .in_packages()
        .constant_output(1)
        .joint_grad(save_in(0) | save_out(0), solve_gradient)
        .keep_shapes()
        .samples({"f(T(3, 3), T(3, 2))", "f(T(2, 3, 3), T(2, 3, 1))", "f(T(3, 3), T(3))",
                  "f(T(3, 3), T(2, 3), left=False)", "f(T(2, 3, 3), T(3, 2))",
                  "f(T(3, 3), T(2, 3, 1))", "f(T(2, 3, 3), T(2, 3))"});
}

// ---- determinants

template <bool Logs>
void determinant_shape(Call& c) {
    const Tensor& A = c.in[0];
    expect_matrix(Logs ? "linalg.slogdet" : "linalg.det", A, true);
    c.add(Tensor::layout(A.dtype(), batch_of(A)));
    if (Logs) c.add(Tensor::layout(real_dtype(A.dtype()), batch_of(A)));
}

template <bool Logs>
void determinant_kernel(Call& c) {
    const Tensor A = as_contiguous(c.in[0]);
    const Matrices m(A);
    Unlocked unlocked(solve_work(m, m.columns));
    dispatch<MatrixTypes>(A.dtype(), c.name(), [&]<class T>() {
        using Real = kernels::lapack::Real<T>;
        kernels::determinant(m.count, m.columns, A.data<T>(), c.out(0).data<T>(),
                             Logs ? c.out(1).data<Real>() : nullptr);
    });
}

Tensor det_gradient(const Grad& g) {
    const Tensor A = g.in(0);
    if (A.size(A.ndim() - 1) == 1) return each(g.grad());  // linear: nothing of A is in it
    return each(g.grad()) * conj(cofactors(A));
}

/// Of a singular matrix from the products of all singular values but one.
Tensor singular_cofactors(const Tensor& A) {
    const std::vector<Tensor> parts = svd.all({A});
    const Tensor &U = parts[0], &S = parts[1], &Vh = parts[2];
    const int64_t n = S.size(S.ndim() - 1);
    Dims shape(S.shape());
    shape.push_back(n);
    Tensor others = Tensor::empty(S.dtype(), shape);
    copy_into(others, unsqueeze(S, -2));
    Dims diagonal(others.strides());
    diagonal.pop_back();
    diagonal[diagonal.size() - 1] = n + 1;
    copy_into(others.view_as(S.shape(), diagonal), Tensor::scalar(1.0, S.dtype()));
    const Tensor turned = conj(det(U) * det(Vh)) * as_dtype(prod(others, -1), A.dtype());
    return matmul(U * unsqueeze(turned, -2), Vh);
}

/// Dᴴ for the adjugate D, so that the derivative of det(A) along E is tr(D E). (Kept conjugated as it
/// comes; `conj` of it is what the gradient wants.)
void cofactors_kernel(Call& c) {
    ModeGuard no_graph(0, kGradMode);
    const Tensor& A = c.in[0];
    const Tensor& out = c.out(0);
    if (out.numel() == 0) return;
    if (A.size(A.ndim() - 1) == 1) return copy_into(out, Tensor::scalar(1.0, A.dtype()));
    const Tensor S = svd.all({A}, {false, false})[1];
    const int64_t n = S.size(S.ndim() - 1), count = S.numel() / n;
    const Tensor values = as_contiguous(S, DType::Float64);
    const double eps = real_dtype(A.dtype()) == DType::Float32 ? 0x1p-23 : 0x1p-52;
    bool singular = false;
    for (int64_t i = 0; i < count; ++i) {
        const double* of = values.data<double>() + i * n;
        singular |= of[n - 1] <= of[0] * static_cast<double>(n) * eps;
    }
    if (singular) return copy_into(out, conj(singular_cofactors(A)));
    copy_into(out, each(det(A)) * mT(inv_ex.all({A})[0]));
}

/// Of C = d Y, with Y the inverse's transpose: dC = <C, dA> Y - C dAᵀ Y.
Tensor cofactors_gradient(const Grad& g) {
    const Tensor A = g.in(0), C = g.out(0), grad = g.grad();
    if (A.size(A.ndim() - 1) == 1) return grad * 0.0;
    const Tensor Y = conj(mT(inv_ex.all({A})[0]));
    const Tensor all = sum_dim(conj(C) * grad, Dims{-2, -1}, true);
    return all * Y - matmul(matmul(conj(C), mT(grad)), Y);
}

Tensor slogdet_gradient(const Grad& g) {
    const bool complex = is_complex(g.out_dtype(0));
    Tensor grad = g.grad(1);
    if (!grad.defined() && !complex) return {};  // the sign of a real determinant is constant
    if (!grad.defined()) grad = g.grad_or_zeros(1);
    if (complex && g.grad(0).defined()) {
        static const Function make{"complex"}, imag{"imag"};
        grad = make(grad, -imag(conj(g.grad(0)) * g.out(0)));
    }
    return each(grad) * inv_ex.all({mH(g.in(0))}, {true})[0];
}

void register_determinants(Table& t) {
    t.add("linalg_det(Tensor A) -> Tensor")
        .doc("The determinant.")
        .shape(determinant_shape<false>)
        .kernel(determinant_kernel<false>)
        .every_dtype()
        .batch(batch_last<2>)
        .internal()
        .in_packages()
        .grad(0, save_in(0), det_gradient)
        .onnx("Det(A)")
        .samples({"f(T(3, 3))", "f(T(2, 2, 2))", "f(T(1, 1))", "f(T(3, 3).mT)"});
    t.add("_linalg_cofactors(Tensor A) -> Tensor")
        .no_onnx("no factors of matrices")
        .doc("The transpose of the adjugate: the derivative of the determinant.")
        .shape([](Call& c) {
            expect_matrix("linalg.det", c.in[0], true);
            c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape()));
        })
        .kernel(cofactors_kernel)
        .every_dtype()
        .batch(batch_last<2>)
        .internal()
        .in_packages()
        .grad(0, save_in(0) | save_out(0), cofactors_gradient)
        .samples({"f(T(3, 3))", "f(T(2, 2, 2))", "f(T(1, 1))"});
    t.add("linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)")
        .doc("Sign and logarithm of the determinant.")
        .shape(determinant_shape<true>)
        .kernel(determinant_kernel<true>)
        .every_dtype()
        .batch(batch_last<2>)
        .internal()
        .in_packages()
        .grad(0, save_in(0) | save_out(0), slogdet_gradient)
        .onnx("(Sign(Det(A)), Log(Abs(Det(A))))")
        .samples({"f(T(3, 3))", "f(T(2, 2, 2))"});
}

}  // namespace
}  // namespace ops

void register_linear_system(Table& table) {
    ops::register_solutions(table);
    ops::register_determinants(table);
}

}  // namespace weft
