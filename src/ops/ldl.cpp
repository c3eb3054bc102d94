/// LDL factors of symmetric matrices, and systems solved by them.
#include "kernels/factor.h"
#include "ops/batch.h"
#include "ops/linalg.h"

namespace weft {
namespace ops {
namespace {

void ldl_shape(Call& c) {
    const Tensor& A = c.in[0];
    expect_matrix("linalg.ldl_factor", A, true);
    c.add(Tensor::layout(A.dtype(), A.shape()));
    c.add(Tensor::layout(DType::Int32, without_last(A.shape(), 1)));
    c.add(Tensor::layout(DType::Int32, batch_of(A)));
}

void ldl_kernel(Call& c) {
    const Tensor A = as_contiguous(c.in[0]);
    const Matrices m(A);
    Unlocked unlocked(A.numel() * m.columns);
    dispatch<MatrixTypes>(A.dtype(), c.name(), [&]<class T>() {
        kernels::ldl_factor(m.count, m.columns, c.attr(0).as_bool(), A.data<T>(),
                            c.out(0).data<T>(), c.out(1).data<int32_t>(), c.out(2).data<int32_t>());
    });
}

void ldl_solve_shape(Call& c) {
    const Tensor &LD = c.in[0], &pivots = c.in[1], &B = c.in[2];
    constexpr std::string_view who = "linalg.ldl_solve";
    expect_matrix(who, LD, true);
    expect_like(who, LD, B);
    const bool fit = B.ndim() >= 2 && B.size(B.ndim() - 2) == LD.size(LD.ndim() - 1) &&
                     equal(pivots.shape(), without_last(LD.shape(), 1));
    WEFT_EXPECT(fit, Runtime, who, "sizes that fit",
                text(to_string(LD.shape()), ", ", to_string(pivots.shape()), " and ",
                     to_string(B.shape()), " (Incompatible shapes of A and B)"));
    WEFT_EXPECT(pivots.dtype() == DType::Int32, Runtime, who, "int32 pivots",
                text(name(pivots.dtype()), " (Expected pivots to be integers)"));
    Dims shape = broadcast(who, batch_of(LD), batch_of(B));
    for (const int64_t size : B.shape().last(2)) shape.push_back(size);
    c.add(Tensor::layout(B.dtype(), shape));
}

/// Blocks of two rows have their swap twice, negative.
void expect_pivots(const Tensor& pivots, int64_t n) {
    const auto* swaps = pivots.data<int32_t>();
    for (int64_t i = 0; i < pivots.numel(); ++i) {
        const int64_t k = i % n, to = std::abs(static_cast<int64_t>(swaps[i]));
        bool known = to >= 1 && to <= n;
        if (swaps[i] < 0) {
            int64_t run = 0;  // of negative ones before this
            while (run < k && swaps[i - run - 1] < 0) ++run;
            known &= run % 2 ? swaps[i] == swaps[i - 1] : k + 1 < n && swaps[i + 1] < 0;
        }
        WEFT_EXPECT(known, Runtime, "linalg.ldl_solve", text("LAPACK's swaps of ", n, " rows"),
                    text(swaps[i]));
    }
}

void ldl_solve_kernel(Call& c) {
    const Tensor LD = as_contiguous(c.in[0]), pivots = as_contiguous(c.in[1]);
    const Tensor& X = c.out(0);
    copy_into(X, c.in[2]);
    const Matrices a(LD), x(X);
    if (a.columns) expect_pivots(pivots, a.columns);
    const Spread spread(batch_of(LD), batch_of(X));
    Unlocked unlocked(X.numel() * a.columns * 2);
    dispatch<MatrixTypes>(LD.dtype(), c.name(), [&]<class T>() {
        kernels::ldl_solve({x.count, spread.of(), a.count}, x.rows, x.columns, c.attr(0).as_bool(),
                           LD.data<T>(), pivots.data<int32_t>(), X.data<T>());
    });
}

}  // namespace
}  // namespace ops

void register_ldl(Table& table) {
    using namespace ops;
    table
        .add("linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor "
             "pivots, Tensor info)")
        .no_onnx("no factors of matrices")
        .doc("The factors of a symmetric A = L D Lᵀ.")
        .shape(ldl_shape)
        .kernel(ldl_kernel)
        .every_dtype()
        .batch(batch_last<2>)
        .internal()
        .in_packages()
        .constant_output(1)
        .constant_output(2)
        .no_derivative();
    table
        .add("linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> "
             "Tensor")
        .no_onnx("no systems of equations")
        .doc("The X with A X = B for those factors of A.")
        .shape(ldl_solve_shape)
        .kernel(ldl_solve_kernel)
        .every_dtype()
        .internal()
        .in_packages()
        .no_derivative();
}

}  // namespace weft
