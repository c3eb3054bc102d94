/// Products of medium size, where copying the left operand would cost more than it saves: panels of
/// B are packed (once for many products, if asked), A is read where it lies.
#pragma once
#include <cstdint>
#include <memory>

namespace weft::kernels {

/// C[m, n] = alpha * op(A)[m, k] * op(B)[k, n] + beta * C with gemm's contract, m, n, k >= 1, on
/// any processor. Same bits on any number of threads. With beta 1, `d` may stand for C there. `e`: added to what comes of that, if not null.
template <class T>
void panel_gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
                int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc,
                const T* d = nullptr, int64_t ldd = 0, const T* e = nullptr, int64_t lde = 0);

/// A right operand that several products share, packed once.
template <class T>
class PackedRight {
public:
    PackedRight(bool trans_b, int64_t n, int64_t k, const T* b, int64_t ldb);
    /// Whether this processor has tiles worth packing for.
    static bool pays();
    /// C[m, n] = A[m, k] * op(B) + beta * C. Same bits on any number of threads.
    void multiply(int64_t m, const T* a, int64_t lda, T beta, T* c, int64_t ldc) const;

private:
    struct Free {
        void operator()(T* p) const;
    };
    int64_t n_, k_;
    std::unique_ptr<T, Free> data_;
};

}  // namespace weft::kernels
