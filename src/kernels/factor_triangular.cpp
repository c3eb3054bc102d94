/// Triangular systems, and the factors of positive-definite matrices.
#include "kernels/factor_batch.h"
#include "kernels/matmul.h"

namespace weft::kernels {
namespace {

using lapack::Routine;

constexpr int64_t kSmall = 24;  // up to which our own loops are faster

template <class T>
struct SmallCholesky {
    WEFT_INLINE static void run(int64_t begin, int64_t end, int64_t size, bool upper, const T* a,
                                T* factor, int32_t* info) {
        T scratch[kSmall * kSmall];
        small::with_size<T>(size, [&](auto n) __attribute__((always_inline)) {
            for (int64_t b = begin; b < end; ++b) {
                const T* from = a + b * n * n;
                T* to = factor + b * n * n;
                if (!upper) {
                    for (int64_t i = 0; i < n * n; ++i) to[i] = from[i];
                    info[b] = small::cholesky(n, to);
                    continue;
                }
                for (int64_t i = 0; i < n; ++i)
                    for (int64_t j = 0; j <= i; ++j)
                        scratch[i * n + j] = small::conjugate(from[j * n + i]);
                info[b] = small::cholesky(n, scratch);
                for (int64_t i = 0; i < n; ++i)
                    for (int64_t j = 0; j < n; ++j)
                        to[i * n + j] = small::conjugate(scratch[j * n + i]);
            }
        });
    }
};

template <class T, bool Upper, bool Unit>
struct SmallTriangle {
    WEFT_INLINE static void run(int64_t begin, int64_t end, const Systems* s, int64_t size,
                                int64_t k, const T* a, T* x) {
        const int64_t n = size;
        for (int64_t b = begin; b < end; ++b)
            small::triangle<Upper, Unit, false>(n, k, a + s->matrix(b) * n * n, x + b * n * k);
    }
};

template <class T, bool Upper>
struct SmallCholeskySolve {
    WEFT_INLINE static void run(int64_t begin, int64_t end, const Systems* s, int64_t size,
                                int64_t k, const T* factor, T* x) {
        const int64_t n = size;
        for (int64_t b = begin; b < end; ++b) {
            const T* of = factor + s->matrix(b) * n * n;
            T* to = x + b * n * k;
            small::triangle<Upper, false, Upper>(n, k, of, to);
            small::triangle<Upper, false, !Upper>(n, k, of, to);
        }
    }
};

/// One triangle of A, zeros in the other one.
template <class T>
void copy_triangle(int64_t n, bool upper, const T* a, T* to) {
    for (int64_t i = 0; i < n; ++i, a += n, to += n) {
        const int64_t from = upper ? i : 0, end = upper ? n : i + 1;
        std::fill(to, to + from, T(0));
        std::copy(a + from, a + end, to + from);
        std::fill(to + end, to + n, T(0));
    }
}

/// Zeros where the minor of order `failed` is not positive.
template <class T>
void clear_failed(int64_t n, bool upper, int32_t failed, T* factor) {
    const int64_t kept = failed - 1;
    if (!upper) std::fill(factor + kept * n, factor + n * n, T(0));
    else
        for (int64_t i = 0; i < n; ++i)
            std::fill(factor + i * n + kept, factor + (i + 1) * n, T(0));
}

constexpr int64_t kBlock = 32;

/// Solves by the triangle [n, n] at `a`, whose rows lie `step` apart, or by its transpose, the k rows of
/// `x`, which lie `step` apart too; n <= kBlock.
template <class T>
struct Block {
    WEFT_INLINE static void run(Triangle of, bool transposed, int64_t n, int64_t k, int64_t step,
                                const T* a, T* x) {
        T rows[kBlock * kBlock];
        const T* t = a;
        int64_t t_step = step;
        if (!transposed) {  // what an unknown takes off the others lies in a column
            for (int64_t i = 0; i < n; ++i)
                for (int64_t j = 0; j < n; ++j) rows[j * kBlock + i] = a[i * step + j];
            t = rows;
            t_step = kBlock;
        }
        const bool down = of.upper == transposed;
        for (int64_t r = 0; r < n; ++r) {
            const int64_t i = down ? r : n - 1 - r;
            const int64_t from = down ? i + 1 : 0, end = down ? n : i;
            const T* row = t + i * t_step;
            for (int64_t c = 0; c < k; ++c) {
                T* to = x + c * step;
                if (!of.unit) to[i] /= row[i];
                small::subtract(to + from, to[i], row + from, end - from);
            }
        }
    }
};

}  // namespace

/// Rows of Xᵀ, so that products with rows of A, and sums along them, are long.
template <class T>
void batch::solve_few(Triangle of, bool transposed, int64_t n, int64_t k, const T* a, T* x) {
    const auto room = batch::room<T>(n * k);
    T* to = room.get();
    batch::transpose(n, k, x, to);
    const bool down = of.upper == transposed;
    for (int64_t done = 0; done < n; done += kBlock) {
        const int64_t size = std::min(kBlock, n - done), first = down ? done : n - done - size;
        // What these rows of A have beside their block: of unknowns that are solved, or else will be.
        const int64_t other = down == transposed ? first + size : 0;
        const int64_t width = down == transposed ? n - other : first;
        const T* rows = a + first * n;
        if (!transposed)
            gemm(Trans::No, Trans::Yes, k, size, width, T(-1), to + other, n, rows + other, n, T(1),
                 to + first, n);
        per_isa<Block<T>>(of, transposed, size, k, n, rows + first, to + first);
        if (transposed)
            gemm(Trans::No, Trans::No, k, width, size, T(-1), to + first, n, rows + other, n, T(1),
                 to + other, n);
    }
    batch::transpose(k, n, to, x);
}
template void batch::solve_few(Triangle, bool, int64_t, int64_t, const float*, float*);
template void batch::solve_few(Triangle, bool, int64_t, int64_t, const double*, double*);

template <class T>
void cholesky(int64_t count, int64_t n, bool upper, const T* a, T* factor, int32_t* info) {
    batch::for_each(count, n * n * n / 3, [&](int64_t begin, int64_t end) {
        if (n <= kSmall)
            return small::run<SmallCholesky<T>, T>(begin, end, n, upper, a, factor, info);
        const auto size = lapack::size(n);
        for (int64_t b = begin; b < end; ++b) {
            // Seen in columns: Āᵀ's factor in the other triangle is the transpose of A's.
            T* to = factor + b * n * n;
            copy_triangle(n, upper, a + b * n * n, to);
            BlasInt failed = 0;
            lapack::call<T>(Routine::Potrf, upper ? 'L' : 'U', size, to, size, &failed);
            info[b] = failed;
            if (failed) clear_failed(n, upper, failed, to);
        }
    });
}

template <class T>
void triangular_solve(Systems s, int64_t n, int64_t k, Triangle of, const T* a, T* x) {
    if (n * k == 0) return;
    batch::for_each(s.count, n * n * k, [&](int64_t begin, int64_t end) {
        if (n <= kSmall) {
            auto run = [&]<bool Upper, bool Unit>() {
                small::run<SmallTriangle<T, Upper, Unit>, T>(begin, end, &s, n, k, a, x);
            };
            if (of.upper && of.unit) run.template operator()<true, true>();
            else if (of.upper) run.template operator()<true, false>();
            else if (of.unit) run.template operator()<false, true>();
            else run.template operator()<false, false>();
            return;
        }
        for (int64_t b = begin; b < end; ++b)  // Xᵀ Aᵀ = Bᵀ
            batch::solve_right(of.upper ? 'L' : 'U', 'N', of.unit ? 'U' : 'N', k, n,
                               a + s.matrix(b) * n * n, x + b * n * k);
    });
}

template <class T>
void cholesky_solve(Systems s, int64_t n, int64_t k, bool upper, const T* factor, T* x) {
    if (n * k == 0) return;
    batch::for_each(s.count, n * n * k * 2, [&](int64_t begin, int64_t end) {
        if (n <= kSmall)
            return upper
                       ? small::run<SmallCholeskySolve<T, true>, T>(begin, end, &s, n, k, factor, x)
                       : small::run<SmallCholeskySolve<T, false>, T>(begin, end, &s, n, k, factor,
                                                                     x);
        const char triangle = upper ? 'L' : 'U';
        for (int64_t b = begin; b < end; ++b) {
            const T* of = factor + s.matrix(b) * n * n;
            T* to = x + b * n * k;
            batch::solve_right(triangle, upper ? 'C' : 'N', 'N', k, n, of, to);
            batch::solve_right(triangle, upper ? 'N' : 'C', 'N', k, n, of, to);
        }
    });
}

#define X(T)                                                                                       \
    template void cholesky(int64_t, int64_t, bool, const T*, T*, int32_t*);                        \
    template void triangular_solve(Systems, int64_t, int64_t, Triangle, const T*, T*);             \
    template void cholesky_solve(Systems, int64_t, int64_t, bool, const T*, T*);
WEFT_EACH_FACTOR_TYPE(X)
#undef X

}  // namespace weft::kernels
