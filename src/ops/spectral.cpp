/// Eigenvalues and singular values, with their vectors.
#include "kernels/spectral.h"

#include "ops/batch.h"
#include "ops/linalg.h"

namespace weft {
namespace ops {
namespace {

const Function phase_free{"_linalg_phase_free"};

[[noreturn]] void fail_converging(std::string_view who, const Tensor& A, kernels::Unconverged at,
                                  std::string_view of) {
    const std::string element =
        A.ndim() > 2 ? text("(Batch element ", at.matrix, "): ") : std::string();
    fail(ErrorKind::LinAlg, who, "an iteration that converges",
         at.code == -4 && who == "linalg.svd"
             ? text("another (linalg.svd: ", element,
                    "The algorithm failed to converge because the input matrix contained "
                    "non-finite values.)")
             : text("another (", who, ": ", element,
                    "The algorithm failed to converge because the input matrix is "
                    "ill-conditioned or has too many repeated ",
                    of, " (error code: ", at.code, ").)"));
}

/// Vectors that nobody wants are empty.
Tensor vectors_or_none(DType dtype, bool wanted, const Dims& shape) {
    return Tensor::layout(dtype, wanted ? shape : Dims{0});
}
template <class T>
T* data_or_null(const Tensor& t, bool wanted) {
    return wanted ? t.data<T>() : nullptr;
}

/// V diag(numbers) of columns.
Tensor scaled_columns(const Tensor& V, const Tensor& numbers) { return V * unsqueeze(numbers, -2); }

/// `gaps` [..., n, n] with infinity on the diagonal.
Tensor gaps_apart(const Tensor& gaps) {
    const int64_t n = gaps.size(gaps.ndim() - 1);
    const Tensor diagonal = eye(n, Value(), Value(DType::Bool));
    return masked_fill(gaps, diagonal,
                       number(std::numeric_limits<double>::infinity(), real_dtype(gaps.dtype())));
}

// ---- symmetric matrices

void eigh_shape(Call& c) {
    const Tensor& A = c.in[0];
    expect_matrix("linalg.eigh", A, true);
    const std::string& triangle = c.attr(0).as_text();
    WEFT_EXPECT(
        triangle == "L" || triangle == "U" || triangle == "l" || triangle == "u", Runtime,
        "linalg.eigh", "UPLO 'L' or 'U'",
        text("'", triangle, "' (Expected UPLO argument to be 'L' or 'U', but got ", triangle, ")"));
    c.add(Tensor::layout(real_dtype(A.dtype()), without_last(A.shape(), 1)));
    c.add(vectors_or_none(A.dtype(), c.attr(1).as_bool(), Dims(A.shape())));
}

void eigh_kernel(Call& c) {
    const Tensor A = as_contiguous(c.in[0]);
    const Matrices m(A);
    const bool upper = c.attr(0).as_text() == "U" || c.attr(0).as_text() == "u";
    kernels::Unconverged at;
    {
        Unlocked unlocked(A.numel() * m.columns * 4);
        dispatch<MatrixTypes>(A.dtype(), "linalg.eigh", [&]<class T>() {
            at = kernels::eigh(m.count, m.columns, upper, A.data<T>(),
                               c.out(0).data<kernels::lapack::Real<T>>(),
                               data_or_null<T>(c.out(1), c.attr(1).as_bool()));
        });
    }
    if (at.matrix >= 0) fail_converging("linalg.eigh", A, at, "eigenvalues");
}

/// Giles, "Collected matrix derivative results", 2008.
Tensor eigh_gradient(const Grad& g) {
    const Tensor values = g.out(0), V = g.out(1);
    const Tensor &d_values = g.grad(0), &dV = g.grad(1);
    if (!d_values.defined() && !dV.defined()) return {};
    if (!dV.defined()) return matmul(scaled_columns(V, d_values), mH(V));
    const Tensor P = phase_free(matmul(mH(V), dV), "linalg.eigh");
    const Tensor gaps = gaps_apart(unsqueeze(values, -2) - unsqueeze(values, -1));
    Tensor inner = (P - mH(P)) * (0.5 / gaps);
    if (d_values.defined()) inner = inner + diag_embed(d_values);
    return matmul(matmul(V, inner), mH(V));
}

// ---- any square matrix

void eig_shape(Call& c) {
    const Tensor& A = c.in[0];
    expect_matrix("linalg.eig", A, true);
    const DType dtype = complex_dtype(A.dtype());
    c.add(Tensor::layout(dtype, without_last(A.shape(), 1)));
    c.add(vectors_or_none(dtype, c.attr(0).as_bool(), Dims(A.shape())));
}

void eig_kernel(Call& c) {
    const Tensor A = as_contiguous(c.in[0]);
    const Matrices m(A);
    kernels::Unconverged at;
    bool finite = true;
    {
        Unlocked unlocked(A.numel() * m.columns * 10);
        dispatch<MatrixTypes>(A.dtype(), "linalg.eig", [&]<class T>() {
            using Real = kernels::lapack::Real<T>;
            const auto* parts = A.data<Real>();
            const int64_t count = A.numel() * static_cast<int64_t>(sizeof(T) / sizeof(Real));
            for (int64_t i = 0; i < count; ++i) finite &= std::isfinite(parts[i]);
            if (finite)
                at = kernels::eig(m.count, m.columns, A.data<T>(),
                                  c.out(0).data<std::complex<Real>>(),
                                  data_or_null<std::complex<Real>>(c.out(1), c.attr(0).as_bool()));
        });
    }
    WEFT_EXPECT(finite, Runtime, "linalg.eig", "finite numbers",
                "infinite ones or nan (torch.linalg.eig: input tensor should not contain infs or "
                "NaNs.)");
    if (at.matrix >= 0) fail_converging("linalg.eig", A, at, "eigenvalues");
}

/// Boeddeker et al., "On the computation of complex-valued gradients with application to statistically
/// optimum beamforming", 2017; columns of V have norm 1.
Tensor eig_gradient(const Grad& g) {
    const Tensor values = g.out(0), V = g.out(1);
    const Tensor &d_values = g.grad(0), &dV = g.grad(1);
    if (!d_values.defined() && !dV.defined()) return {};
    Tensor inner;
    if (d_values.defined()) inner = diag_embed(d_values);
    if (dV.defined()) {
        Tensor P = phase_free(matmul(mH(V), dV), "linalg.eig");
        P = P - matmul(mH(V), scaled_columns(V, real(diagonal(P, 0, -2, -1))));
        const Tensor off = P / gaps_apart(conj(unsqueeze(values, -2) - unsqueeze(values, -1)));
        inner = inner.defined() ? inner + off : off;
    }
    return solve_ex.all({mH(V), matmul(inner, mH(V))}, {true, true})[0];
}

// ---- singular values

void svd_shape(Call& c) {
    const Tensor& A = c.in[0];
    expect_matrix("linalg.svd", A);
    const bool full = c.attr(0).as_bool(), vectors = c.attr(1).as_bool();
    const Matrices a(A);
    const int64_t k = std::min(a.rows, a.columns);
    const DimSpan batch = batch_of(A);
    c.add(vectors_or_none(A.dtype(), vectors, joined(batch, {a.rows, full ? a.rows : k})));
    c.add(Tensor::layout(real_dtype(A.dtype()), joined(batch, {k})));
    c.add(vectors_or_none(A.dtype(), vectors, joined(batch, {full ? a.columns : k, a.columns})));
}

void svd_kernel(Call& c) {
    const Tensor A = as_contiguous(c.in[0]);
    const bool full = c.attr(0).as_bool(), vectors = c.attr(1).as_bool();
    const Matrices m(A);
    kernels::Unconverged at;
    {
        Unlocked unlocked(A.numel() * m.columns * 10);
        dispatch<MatrixTypes>(A.dtype(), "linalg.svd", [&]<class T>() {
            at = kernels::svd(
                m.count, m.rows, m.columns, full, A.data<T>(), data_or_null<T>(c.out(0), vectors),
                c.out(1).data<kernels::lapack::Real<T>>(), data_or_null<T>(c.out(2), vectors));
        });
    }
    if (at.matrix >= 0) fail_converging("linalg.svd", A, at, "singular values");
}

/// Giles, "Collected matrix derivative results", 2008; with the parts outside of the two bases.
Tensor svd_gradient(const Grad& g) {
    const Tensor S = g.out(1);
    const int64_t k = S.size(S.ndim() - 1);
    const Tensor U = narrow(g.out(0), -1, int64_t{0}, k);
    const Tensor V = mH(narrow(g.out(2), -2, int64_t{0}, k));
    const int64_t m = U.size(U.ndim() - 2), n = V.size(V.ndim() - 2);
    const Tensor &dS = g.grad(1), rows = unsqueeze(S, -1), columns = unsqueeze(S, -2);
    if (!g.grad(0).defined() && !g.grad(2).defined())
        return dS.defined() ? matmul(scaled_columns(U, dS), mH(V)) : Tensor();
    const Tensor gaps = gaps_apart(square(columns) - square(rows));
    Tensor inner, outside, phases;  // phases: of the pairs of vectors; together they must not count
    auto add_to = [](Tensor& sum, const Tensor& t) { sum = sum.defined() ? sum + t : t; };
    if (dS.defined()) add_to(inner, diag_embed(dS));
    if (g.grad(0).defined()) {
        const Tensor dU = narrow(g.grad(0), -1, int64_t{0}, k), P = matmul(mH(U), dU);
        add_to(phases, P);
        add_to(inner, (P - mH(P)) / gaps * columns);
        if (m > k) add_to(outside, matmul((dU - matmul(U, P)) / columns, mH(V)));
        if (is_complex(U.dtype()) && g.grad(2).defined())
            add_to(inner, diag_embed(diagonal(P - mH(P), 0, -2, -1) / (S * 2.0)));
    }
    if (g.grad(2).defined()) {
        const Tensor dV = mH(narrow(g.grad(2), -2, int64_t{0}, k)), P = matmul(mH(V), dV);
        add_to(phases, P);
        add_to(inner, rows * ((P - mH(P)) / gaps));
        if (n > k) add_to(outside, matmul(U, mH((dV - matmul(V, P)) / columns)));
    }
    if (is_complex(U.dtype())) add_to(inner, (phase_free(phases, "linalg.svd") - phases) * 0.0);
    Tensor result = matmul(matmul(U, inner), mH(V));
    if (outside.defined()) result = result + outside;
    return result;
}

// ---- phases

/// Throws Runtime where the diagonal of P is not real.
void phase_kernel(Call& c) {
    copy_into(c.out(0), c.in[0]);
    if (!is_complex(c.in[0].dtype())) return;
    const Tensor P = as_contiguous(c.in[0], DType::Complex128);
    const Matrices m(P);
    const auto* p = P.data<std::complex<double>>();
    double most = 1, phase = 0;
    for (int64_t i = 0; i < P.numel(); ++i) most = std::max(most, std::abs(p[i]));
    for (int64_t b = 0; b < m.count; ++b)
        for (int64_t i = 0; i < m.columns; ++i)
            phase = std::max(phase, std::fabs(p[(b * m.columns + i) * m.columns + i].imag()));
    const std::string& who = c.attr(0).as_text();
    WEFT_EXPECT(phase <= 1e-2 * most, Runtime, who,
                "a loss that does not see the phases of the vectors",
                text("one that does (", who,
                     "_backward: The eigenvectors in the complex case are specified up to "
                     "multiplication by e^{i phi}. The specified loss function depends on this "
                     "quantity, so it is ill-defined.)"));
}

void register_eigenvalues(Table& t) {
    t.add("linalg_eigh(Tensor A, str UPLO=\"L\", *, bool compute_v=True) -> (Tensor eigenvalues, "
          "Tensor eigenvectors)")
        .no_onnx("no eigenvalues")
        .doc("Eigenvalues, ascending, and, with `compute_v`, eigenvectors of symmetric matrices.")
        .shape(eigh_shape)
        .kernel(eigh_kernel)
        .every_dtype()
        .autocast(Cast::Float)
        .batch(batch_last<2>)
        .internal()
        .in_packages()
        .grad(0, save_out(0) | save_out(1), eigh_gradient);
    t.add("linalg_eig(Tensor self, *, bool compute_v=True) -> (Tensor eigenvalues, Tensor "
          "eigenvectors)")
        .no_onnx("no eigenvalues")
        .doc("Eigenvalues and, with `compute_v`, eigenvectors, complex.")
        .shape(eig_shape)
        .kernel(eig_kernel)
        .every_dtype()
        .autocast(Cast::Float)
        .batch(batch_last<2>)
        .internal()
        .in_packages()
        .grad(0, save_out(0) | save_out(1), eig_gradient);
    t.add("_linalg_phase_free(Tensor self, str who) -> Tensor")
        .no_onnx("no eigenvalues")
        .doc("A copy of self. RuntimeError where its diagonal is not real: a loss saw phases.")
        .shape([](Call& c) {
            expect_matrix(c.attr(0).as_text(), c.in[0], true);
            c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape()));
        })
        .kernel(phase_kernel)
        .every_dtype()
        .internal()
        .in_packages()
        .grad(0, 0, [](const Grad& g) { return g.grad(); })
        .samples({"f(T(3, 3), 'linalg.eigh')"});
}

}  // namespace
}  // namespace ops

void register_spectral(Table& table) {
    using namespace ops;
    register_eigenvalues(table);
    table
        .add("linalg_svd(Tensor A, bool full_matrices=True, *, bool compute_uv=True) -> (Tensor U, "
             "Tensor S, Tensor Vh)")
        .no_onnx("no singular values")
        .doc("Singular values, descending, and, with `compute_uv`, singular vectors.")
        .shape(svd_shape)
        .kernel(svd_kernel)
        .every_dtype()
        .autocast(Cast::Float)
        .batch(batch_last<2>)
        .internal()
        .in_packages()
        .grad(0, save_out(0) | save_out(1) | save_out(2), svd_gradient);
}

}  // namespace weft
