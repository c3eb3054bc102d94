/// QR factors, and Householder's reflections.
#include "kernels/factor.h"
#include "ops/batch.h"
#include "ops/linalg.h"

namespace weft {
namespace ops {
namespace {

// ---- QR

bool wants_q(const Call& c) { return c.attr(0).as_text() != "r"; }

void qr_shape(Call& c) {
    const Tensor& A = c.in[0];
    expect_matrix("linalg.qr", A);
    const std::string& mode = c.attr(0).as_text();
    WEFT_EXPECT(mode == "reduced" || mode == "complete" || mode == "r", Runtime, "linalg.qr",
                "another mode",
                text("'", mode, "' (qr received unrecognized mode '", mode,
                     "' but expected one of 'reduced' (default), 'r', or 'complete')"));
    const Matrices m(A);
    const int64_t k = mode == "complete" ? m.rows : std::min(m.rows, m.columns);
    c.add(Tensor::layout(A.dtype(), wants_q(c) ? joined(batch_of(A), {m.rows, k}) : Dims{0}));
    c.add(Tensor::layout(A.dtype(), joined(batch_of(A), {k, m.columns})));
}

void qr_kernel(Call& c) {
    const Tensor A = as_contiguous(c.in[0]);
    const Matrices m(A);
    const int64_t k = last(c.out(1), 2);
    Unlocked unlocked(A.numel() * std::min(m.rows, m.columns) * 2);
    dispatch<MatrixTypes>(A.dtype(), "linalg.qr", [&]<class T>() {
        kernels::qr(m.count, m.rows, m.columns, k, k, A.data<T>(),
                    wants_q(c) ? c.out(0).data<T>() : nullptr, c.out(1).data<T>());
    });
}

Tensor tall_gradient(const Tensor& Q, const Tensor& R, const Tensor& dQ, const Tensor& dR) {
    const Tensor M = matmul(R, mH(dR)) - matmul(mH(dQ), Q);
    const Tensor below = tril(M, int64_t{-1});
    const Tensor both = below + mH(below) + diag_embed(real(diagonal(M, 0, -2, -1)));
    return solve_triangular(mH(R), dQ + matmul(Q, both), false, false);
}

/// Walter and Lehmann, "Algorithmic differentiation of linear algebra functions", 2010. Of A = [X Y]:
/// the QR of X, and R's rest is Qᴴ Y.
Tensor qr_gradient(const Grad& g) {
    if (!g.grad(0).defined() && !g.grad(1).defined()) return {};
    const std::string& mode = g.attr(0).as_text();
    WEFT_EXPECT(mode != "r", Runtime, "linalg.qr", "a mode that computes Q",
                "'r' (The derivative of linalg.qr depends on Q, which is not computed when "
                "mode='r'.)",
                "use mode='reduced'");
    const Tensor Q = g.out(0), R = g.out(1);
    const int64_t m = last(Q, 2), n = last(R, 1);
    WEFT_EXPECT(m <= n || mode != "complete", Runtime, "linalg.qr", "mode='reduced'",
                "'complete' (The QR decomposition is not differentiable when mode='complete' and "
                "nrows > ncols)");
    const Tensor dQ = g.grad_or_zeros(0), dR = g.grad_or_zeros(1);
    if (m >= n) return tall_gradient(Q, R, dQ, dR);
    auto left = [&](const Tensor& t) { return narrow(t, -1, int64_t{0}, m); };
    auto right = [&](const Tensor& t) { return narrow(t, -1, m, n - m); };
    const Tensor Y = matmul(Q, right(R)), dY = matmul(Q, right(dR));
    const Tensor dX = tall_gradient(Q, left(R), dQ + matmul(Y, mH(right(dR))), left(dR));
    return cat.over({dX, dY}, {-1});
}

// ---- reflections

void reflections_kernel(Call& c) {
    const Tensor A = as_contiguous(c.in[0]);
    const Matrices m(A);
    Unlocked unlocked(A.numel() * std::min(m.rows, m.columns));
    dispatch<MatrixTypes>(A.dtype(), "geqrf", [&]<class T>() {
        kernels::qr_factor(m.count, m.rows, m.columns, A.data<T>(), c.out(0).data<T>(),
                           c.out(1).data<T>());
    });
}

void householder_shape(Call& c) {
    const Tensor &A = c.in[0], &tau = c.in[1];
    constexpr std::string_view who = "linalg.householder_product";
    expect_matrix(who, A);
    expect_like(who, A, tau);
    WEFT_EXPECT(tau.ndim() == A.ndim() - 1 && equal(batch_of(A), without_last(tau.shape(), 1)) &&
                    last(tau, 1) <= last(A, 1),
                Runtime, who,
                text("at most ", last(A, 1), " factors for each matrix of ", to_string(A.shape())),
                to_string(tau.shape()));
    WEFT_EXPECT(last(A, 2) >= last(A, 1), Runtime, who, "at least as many rows as columns",
                text(last(A, 2), " by ", last(A, 1),
                     " (input.shape[-2] must be greater than or equal to input.shape[-1])"));
    c.add(Tensor::layout(A.dtype(), A.shape()));
}

void householder_kernel(Call& c) {
    const Tensor A = as_contiguous(c.in[0]), tau = as_contiguous(c.in[1]);
    const Matrices m(A);
    Unlocked unlocked(A.numel() * m.columns * 2);
    dispatch<MatrixTypes>(A.dtype(), c.name(), [&]<class T>() {
        kernels::reflections_product(m.count, m.rows, m.columns, last(tau, 1), A.data<T>(),
                                     tau.data<T>(), m.columns, c.out(0).data<T>());
    });
}

/// Q = H1 (H2 (... E)), S before each reflection made anew: of H S = S - tau v (vᴴ S).
void product_gradient(Grad& g) {
    const Tensor A = g.in(0), tau = g.in(1);
    const int64_t m = last(A, 2), n = last(A, 1), k = last(tau, 1);
    const Tensor V = tril(A, int64_t{-1}) + eye(m, n, Value(A.dtype()));
    std::vector<Tensor> S(static_cast<size_t>(k + 1)), dV, d_tau;
    auto vector = [&](int64_t i) { return narrow(V, -1, i, int64_t{1}); };
    auto factor = [&](int64_t i) { return unsqueeze(narrow(tau, -1, i, int64_t{1}), -1); };
    S[static_cast<size_t>(k)] = eye(m, n, Value(A.dtype()));
    for (int64_t i = k - 1; i > 0; --i) {
        const Tensor& after = S[static_cast<size_t>(i + 1)];
        const Tensor v = vector(i);
        S[static_cast<size_t>(i)] = after - factor(i) * matmul(v, matmul(mH(v), after));
    }
    Tensor G = g.grad();
    for (int64_t i = 0; i < k; ++i) {
        const Tensor &after = S[static_cast<size_t>(i + 1)], v = vector(i), f = conj(factor(i));
        const Tensor w = matmul(mH(v), after), dw = -(f * matmul(mH(v), G));
        dV.push_back(matmul(after, mH(dw)) - f * matmul(G, mH(w)));
        d_tau.push_back(-sum_dim(conj(matmul(v, w)) * G, Dims{-2, -1}));
        G = G + matmul(v, dw);
    }
    if (k == 0) {
        for (const int i : {0, 1})
            if (g.needs(i)) g.set(i, zeros(g.in_shape(i), A.dtype()));
        return;
    }
    for (int64_t i = k; i < n; ++i) dV.push_back(dV[0] * 0.0);
    if (g.needs(0)) g.set(0, tril(cat.over(dV, {-1}), int64_t{-1}));
    if (g.needs(1)) g.set(1, stack.over(d_tau, {-1}));
}

}  // namespace
}  // namespace ops

void register_orthogonal(Table& table) {
    using namespace ops;
    table.add("linalg_qr(Tensor A, str mode=\"reduced\") -> (Tensor Q, Tensor R)")
        .no_onnx("no factors of matrices")
        .doc("The QR decomposition: orthonormal columns and an upper triangle.")
        .shape(qr_shape)
        .kernel(qr_kernel)
        .every_dtype()
        .autocast(Cast::Float)
        .batch(batch_last<2>)
        .internal()
        .in_packages()
        .grad(0, save_out(0) | save_out(1), qr_gradient)
        .samples({"f(T(3, 3))", "f(T(4, 2))", "f(T(2, 3, 3))", "f(T(2, 3))"});
    table.add("_linalg_geqrf(Tensor self) -> (Tensor a, Tensor tau)")
        .no_onnx("no factors of matrices")
        .doc("R above the vectors of Householder's reflections, and their factors.")
        .shape([](Call& c) {
            const Tensor& A = c.in[0];
            expect_matrix("geqrf", A);
            const Matrices m(A);
            c.add(Tensor::layout(A.dtype(), A.shape()));
            c.add(Tensor::layout(A.dtype(), joined(batch_of(A), {std::min(m.rows, m.columns)})));
        })
        .kernel(reflections_kernel)
        .every_dtype()
        .batch(batch_last<2>)
        .internal()
        .in_packages()
        .grad(0, 0,
              [](const Grad&) -> Tensor {
                  throw Error(ErrorKind::NotImplemented,
                              "the derivative for 'geqrf' is not implemented.");
              })
        .node_name("GeqrfBackward0");
    table.add("linalg_householder_product(Tensor A, Tensor tau) -> Tensor")
        .no_onnx("no factors of matrices")
        .doc("The first columns of the product of Householder's reflections.")
        .shape(householder_shape)
        .kernel(householder_kernel)
        .every_dtype()
        .batch(batch_whole)
        .internal()
        .in_packages()
        .joint_grad(save_in(0) | save_in(1), product_gradient)
        .samples({"f(T(3, 2), T(2))", "f(T(2, 3, 3), T(2, 1))", "f(T(4, 2), T(0))"});
}

}  // namespace weft
