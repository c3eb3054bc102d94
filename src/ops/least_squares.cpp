/// Pseudo-inverses and least squares.
#include "kernels/least_squares.h"

#include "ops/batch.h"
#include "ops/linalg.h"

namespace weft {
namespace ops {
namespace {

const Function pinv{"linalg_pinv"}, eigh{"linalg_eigh"};

// ---- pseudo-inverses

void pinv_shape(Call& c) {
    const Tensor& A = c.in[0];
    expect_matrix("linalg.pinv", A, c.attr(2).as_bool());
    const Matrices m(A);
    c.add(Tensor::layout(A.dtype(), joined(batch_of(A), {m.columns, m.rows})));
}

/// V diag(1 / values) Uᴴ, without values of at most max(atol, rtol * the greatest).
void pinv_kernel(Call& c) {
    const ModeGuard no_graph(0, kGradMode);
    const Tensor &A = c.in[0], &out = c.out(0);
    if (out.numel() == 0) return;
    const double rtol = c.attr(0).as_double(), atol = c.attr(1).as_double();
    const bool hermitian = c.attr(2).as_bool();
    const std::vector<Tensor> parts = hermitian ? eigh.all({A}) : svd.all({A}, {false});
    const Tensor values = parts[hermitian ? 0 : 1];
    const Tensor sizes = hermitian ? absolute(values) : values;
    const Tensor least = maximum(amax(sizes, Dims{-1}, true) * rtol, number(atol, sizes.dtype()));
    const Tensor zero = number(0, values.dtype()), kept = gt(sizes, least);
    const Tensor inverse = where(kept, 1.0 / where(kept, values, number(1, values.dtype())), zero);
    const Tensor U = parts[hermitian ? 1 : 0], V = hermitian ? U : mH(parts[2]);
    copy_into(out, matmul(V * unsqueeze(inverse, -2), mH(U)));
}

/// Golub and Pereyra, "The differentiation of pseudo-inverses", 1973.
Tensor of_pseudo_inverse(const Tensor& A, const Tensor& P, const Tensor& grad) {
    const Tensor adjoint = mH(P), back = mH(grad);
    const Tensor left = eye(last(A, 2), Value(), Value(A.dtype())) - matmul(A, P);
    const Tensor right = eye(last(A, 1), Value(), Value(A.dtype())) - matmul(P, A);
    return matmul(matmul(left, back), matmul(P, adjoint)) +
           matmul(matmul(matmul(adjoint, P), back), right) - matmul(matmul(adjoint, grad), adjoint);
}

// ---- least squares

kernels::LeastSquares driver(const Call& c) {
    constexpr std::string_view names[] = {"gels", "gelsy", "gelsd", "gelss"};
    const std::string& name = c.attr(1).as_text();
    for (int i = 0; i < 4; ++i)
        if (names[i] == name) return static_cast<kernels::LeastSquares>(i);
    fail(ErrorKind::Runtime, "linalg.lstsq", "driver 'gels', 'gelsy', 'gelsd' or 'gelss'",
         text("'", name, "' (parameter `driver` should be one of (gels, gelsy, gelsd, gelss))"));
}

void lstsq_shape(Call& c) {
    const Tensor &A = c.in[0], &B = c.in[1];
    constexpr std::string_view who = "linalg.lstsq";
    expect_matrix(who, A);
    expect_matrix(who, B);
    expect_like(who, A, B);
    const kernels::LeastSquares way = driver(c);
    WEFT_EXPECT(
        last(A, 2) == last(B, 2), Runtime, who, "as many rows in both",
        text(last(A, 2), " and ", last(B, 2), " (input.size(-2) should match other.size(-2))"));
    const Dims batch = broadcast(who, batch_of(A), batch_of(B));
    const bool values = way >= kernels::LeastSquares::Gelsd;
    c.add(Tensor::layout(A.dtype(), joined(batch, {last(A, 1), last(B, 1)})));
    c.add(Tensor::layout(DType::Int64, way == kernels::LeastSquares::Gels ? Dims{0} : batch));
    c.add(Tensor::layout(real_dtype(A.dtype()),
                         values ? joined(batch, {std::min(last(A, 2), last(A, 1))}) : Dims{0}));
}

/// Each matrix of a batch that broadcasts to `batch`.
Tensor broadcast_matrices(const Tensor& A, DimSpan batch) {
    const Dims shape = joined(batch, {last(A, 2), last(A, 1)});
    if (equal(A.shape(), shape)) return as_contiguous(A);
    Tensor out = Tensor::empty(A.dtype(), shape);
    copy_into(out, A);
    return out;
}

void lstsq_kernel(Call& c) {
    const Tensor& X = c.out(0);
    const Tensor A = broadcast_matrices(c.in[0], batch_of(X)),
                 B = broadcast_matrices(c.in[1], batch_of(X));
    const kernels::LeastSquares way = driver(c);
    const Matrices m(A);
    int64_t failed = -1;
    {
        Unlocked unlocked(A.numel() * m.columns * 4);
        dispatch<MatrixTypes>(A.dtype(), "linalg.lstsq", [&]<class T>() {
            failed = kernels::least_squares(
                way, {m.count, m.rows, m.columns, last(B, 1)}, c.attr(0).as_double(), A.data<T>(),
                B.data<T>(), X.data<T>(),
                way == kernels::LeastSquares::Gels ? nullptr : c.out(1).data<int64_t>(),
                way >= kernels::LeastSquares::Gelsd ? c.out(2).data<kernels::lapack::Real<T>>()
                                                    : nullptr);
        });
    }
    WEFT_EXPECT(failed < 0, LinAlg, "linalg.lstsq", "matrices of full rank",
                text("another (torch.linalg.lstsq: ",
                     A.ndim() > 2 ? text("(Batch element ", failed, "): ") : std::string(),
                     "The least squares solution could not be computed because the input matrix "
                     "does not have full rank.)"),
                "use the driver 'gelsd'");
}

void lstsq_gradient(Grad& g) {
    const Tensor A = g.in(0), grad = g.grad();
    const Tensor P = pinv(A, g.attr(0), 0.0, false);
    if (g.needs(1)) g.set(1, matmul(mH(P), grad));
    if (g.needs(0)) g.set(0, of_pseudo_inverse(A, P, matmul(grad, mH(g.in(1)))));
}

}  // namespace
}  // namespace ops

void register_least_squares(Table& table) {
    using namespace ops;
    table
        .add("linalg_pinv(Tensor A, *, float rtol, float atol=0.0, bool hermitian=False) -> Tensor")
        .no_onnx("no inverse of a matrix")
        .doc("The pseudo-inverse.")
        .shape(pinv_shape)
        .kernel(pinv_kernel)
        .every_dtype()
        .autocast(Cast::Float)
        .batch(batch_last<2>)
        .internal()
        .in_packages()
        .grad(0, save_in(0) | save_out(0),
              [](const Grad& g) { return of_pseudo_inverse(g.in(0), g.out(0), g.grad()); });
    table
        .add("_linalg_lstsq(Tensor A, Tensor B, float rcond, str driver) -> (Tensor solution, "
             "Tensor rank, Tensor singular_values)")
        .no_onnx("no systems of equations")
        .doc("The X that makes A X - B least, A's rank, and its singular values.")
        .shape(lstsq_shape)
        .kernel(lstsq_kernel)
        .every_dtype()
        .batch([](const BatchCall& c, BatchForm& form) {
            return equal(batch_of(c.in(0)), batch_of(c.in(1))) && batch_whole(c, form);
        })
        .internal()
        .in_packages()
        .constant_output(1)
        .constant_output(2)
        .node_name("LinalgLstsqBackward0")
        .joint_grad(save_in(0) | save_in(1), lstsq_gradient);
}

}  // namespace weft
