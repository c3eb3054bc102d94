/// Householder's reflections of one real matrix, most of the work in our products (matmul.h): where
/// matrices are too large for loops over columns. float and double; matrices are row-major.
#pragma once
#include <cstdint>
#include <memory>

namespace weft::kernels {

/// The reflections 1 - tau v vᵀ of a matrix [m, n], min(m, n) of them, with LAPACK's signs.
///
/// A block of them is one matrix 1 - V T Vᵀ with an upper triangle T (Schreiber and Van Loan, "A
/// storage-efficient WY representation for products of Householder transformations", 1989); within it
/// halves are blocks again (Elmroth and Gustavson, "Applying recursion to serial and parallel QR
/// factorization leads to better performance", 2000).
template <class T>
class Reflections {
public:
    /// `k` reflections of m numbers, to be applied to at most n columns.
    Reflections(int64_t m, int64_t n, int64_t k);
    /// Those that make A [m, n] triangular: R in the upper triangle of `qr`, below it the vectors.
    void factor(int64_t n, const T* a, T* qr, T* tau);
    /// Those whose vectors are in A [m, n], as `factor` leaves them.
    void take(int64_t n, const T* a, const T* tau);
    /// The first `columns` of their product.
    void product(int64_t columns, T* q);
    /// X [m, columns] = the adjoint of their product times X.
    void apply_adjoint(int64_t columns, T* x);

private:
    void factor_columns(int64_t from, int64_t end, int64_t n, T* qr, T* tau);
    void take_vectors(int64_t from, int64_t end, const T* a, int64_t n);
    void make_triangle(int64_t from, int64_t end, const T* tau);
    void small_triangle(int64_t from, int64_t end, const T* tau);
    void join(int64_t from, int64_t half, int64_t end);
    void apply(bool adjoint, int64_t from, int64_t end, int64_t columns, int64_t step, T* x);
    T* triangle(int64_t row, int64_t column);

    int64_t m_, k_;
    std::unique_ptr<T[]> v_;  // [m, k], with its ones and zeros
    std::unique_ptr<T[]> t_;  // the T of each block, one below the other
    std::unique_ptr<T[]> panel_, w_;
};

}  // namespace weft::kernels
