/// Factors of symmetric matrices that need not be definite.
#include "kernels/factor_batch.h"

namespace weft::kernels {

using lapack::Routine;

template <class T>
void ldl_factor(int64_t count, int64_t n, bool hermitian, const T* a, T* ld, int32_t* pivots,
                int32_t* info) {
    if (n == 0) {
        std::fill_n(info, count, 0);
        return;
    }
    const Routine routine = hermitian ? Routine::Hetrf : Routine::Sytrf;
    const auto size = lapack::size(n), works = lapack::size(32 * n);
    batch::for_each(count, n * n * n / 3, [&](int64_t begin, int64_t end) {
        auto columns = batch::room<T>(n * n), work = batch::room<T>(works);
        for (int64_t b = begin; b < end; ++b) {
            batch::transpose(n, n, a + b * n * n, columns.get());
            for (int64_t j = 1; j < n; ++j) std::fill_n(columns.get() + j * n, j, T(0));
            lapack::call<T>(routine, 'L', size, columns.get(), size, pivots + b * n, work.get(),
                            works, info + b);
            batch::transpose(n, n, columns.get(), ld + b * n * n);
        }
    });
}

template <class T>
void ldl_solve(Systems s, int64_t n, int64_t k, bool hermitian, const T* ld, const int32_t* pivots,
               T* x) {
    if (n * k == 0) return;
    const Routine routine = hermitian ? Routine::Hetrs : Routine::Sytrs;
    const auto size = lapack::size(n), columns = lapack::size(k);
    batch::for_each(s.count, n * n * k * 2, [&](int64_t begin, int64_t end) {
        auto factors = batch::room<T>(n * n), solution = batch::room<T>(n * k);
        for (int64_t b = begin; b < end; ++b) {
            const int64_t of = s.matrix(b);
            batch::transpose(n, n, ld + of * n * n, factors.get());
            batch::transpose(n, k, x + b * n * k, solution.get());
            BlasInt info = 0;
            lapack::call<T>(routine, 'L', size, columns, factors.get(), size, pivots + of * n,
                            solution.get(), size, &info);
            batch::transpose(k, n, solution.get(), x + b * n * k);
        }
    });
}

#define X(T)                                                                                       \
    template void ldl_factor(int64_t, int64_t, bool, const T*, T*, int32_t*, int32_t*);            \
    template void ldl_solve(Systems, int64_t, int64_t, bool, const T*, const int32_t*, T*);
WEFT_EACH_FACTOR_TYPE(X)
#undef X

}  // namespace weft::kernels
