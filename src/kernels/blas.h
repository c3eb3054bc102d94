/// OpenBLAS, loaded when first needed, from where candidates() in blas.cpp says. A path is set in matmul.h.
#pragma once
#include <type_traits>

namespace weft::kernels {

using BlasInt = int;  // scipy-openblas32 has 32-bit integers

template <class T>
using CblasGemm = void (*)(BlasInt order, BlasInt trans_a, BlasInt trans_b, BlasInt m, BlasInt n,
                           BlasInt k, T alpha, const T* a, BlasInt lda, const T* b, BlasInt ldb,
                           T beta, T* c, BlasInt ldc);

/// True if OpenBLAS can be called; tries to load it, once per path. Any thread may ask.
bool blas_ready();

/// Throws Error(Runtime) "[who] expected OpenBLAS <what_for>, got <why not>" unless blas_ready().
void require_blas(const char* who, const char* what_for);

/// cblas_sgemm or cblas_dgemm. Only after blas_ready().
template <class T>
CblasGemm<T> cblas_gemm();

}  // namespace weft::kernels
