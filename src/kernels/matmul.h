/// Matrix products on raw pointers, T = float, double or int64_t.
///
/// Matrices are row-major: element (i, j) of X lies at x[i * ldx + j], with ldx >= columns of X as
/// stored. `Trans::Yes` reads a stored matrix as its transpose, so a column-major operand is a
/// transposed one. Element counts, not bytes, everywhere; increments may be any value, 0 included.
/// The output must not overlap an input.
///
/// Small products run on our own kernels (small_gemm.h), larger ones too where those beat OpenBLAS
/// (panel_gemm.h, packed_gemm.h); else OpenBLAS is called, loaded on the first one that needs it.
/// The same call gives the same bits whatever the number of threads. NaN and infinity propagate as
/// in the plain sum of products, except that `alpha == 0` or `k == 0` reads neither A nor B, and `beta == 0` does not read C.
#pragma once
#include <cstdint>

namespace weft::kernels {

enum class Trans : uint8_t { No, Yes };

/// C[m, n] = alpha * op(A)[m, k] * op(B)[k, n] + beta * C. Any of m, n, k may be 0.
/// Throws Error(Runtime) if the product is large and OpenBLAS cannot be loaded.
template <class T>
void gemm(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc);

/// C[m, n] = (alpha * op(A) * op(B) + beta * D) + E, with gemm's bits on a copy of D, beta != 0, and E, unless it is
/// null, added to what that gives. Rows of D lie ldd elements apart, 0 repeats one; E lies as C does.
template <class T>
void gemm_add(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
              int64_t lda, const T* b, int64_t ldb, T beta, const T* d, int64_t ldd, T* c,
              int64_t ldc, const T* e = nullptr);

/// `batch` independent products; operand i starts at `x + i * stride_x`. A stride of 0 shares the
/// operand (not allowed for C). A shared B with untransposed, evenly stacked A and C becomes one
/// gemm of batch * m rows.
template <class T>
void gemm_batched(Trans trans_a, Trans trans_b, int64_t batch, int64_t m, int64_t n, int64_t k,
                  T alpha, const T* a, int64_t lda, int64_t stride_a, const T* b, int64_t ldb,
                  int64_t stride_b, T beta, T* c, int64_t ldc, int64_t stride_c);

/// outer * batch independent products op(A) * op(B), whose matrices lie outer_x and step_x elements apart, with the bits
/// of gemm of each.
template <class T>
void gemm_nested(Trans trans_a, Trans trans_b, int64_t outer, int64_t batch, int64_t m, int64_t n,
                 int64_t k, const T* a, int64_t lda, int64_t outer_a, int64_t step_a, const T* b,
                 int64_t ldb, int64_t outer_b, int64_t step_b, T* c, int64_t ldc, int64_t outer_c,
                 int64_t step_c);

/// y = alpha * op(A) * x + beta * y, where A is stored as [rows, cols]. Trans::No: x has `cols`
/// elements and y `rows`; Trans::Yes: the other way round.
template <class T>
void gemv(Trans trans_a, int64_t rows, int64_t cols, T alpha, const T* a, int64_t lda, const T* x,
          int64_t incx, T beta, T* y, int64_t incy);

/// A[m, n] += alpha * x[m] * y[n]^T: a rank-1 weight gradient added in place.
template <class T>
void ger(int64_t m, int64_t n, T alpha, const T* x, int64_t incx, const T* y, int64_t incy, T* a,
         int64_t lda);

/// Sum of x[i] * y[i].
template <class T>
T dot(int64_t n, const T* x, int64_t incx, const T* y, int64_t incy);

/// The textbook triple loop with the same contract as gemm: the oracle of the fast ways.
/// `WEFT_GEMM=simple` in the environment makes gemm, gemm_batched and gemv use it throughout;
/// `packed`, `panels` and `blas` choose that way for every product that is not one of vectors.
template <class T>
void gemm_simple(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
                 int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc);

/// Where OpenBLAS (the library of the PyPI package scipy-openblas32) lies. Nothing is loaded yet.
/// Unset, the environment variable WEFT_BLAS is taken. A change after loading has no effect.
void set_blas_path(const char* path);

/// Address of a function of the loaded OpenBLAS/LAPACK by its plain name ("cblas_sgemm",
/// "dgesv_"; the library's prefix is added), nullptr if it lacks that name. Loads the library;
/// throws Error(Runtime) if there is none.
void* blas_symbol(const char* name);

}  // namespace weft::kernels
