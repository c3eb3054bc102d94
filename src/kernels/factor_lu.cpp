#include <limits>

#include "kernels/factor_batch.h"

namespace weft::kernels {
namespace {

using lapack::Real;
using lapack::Routine;

/// Up to which our own loops are faster: of factors, and of a solution after them.
constexpr int64_t kSmall = 40;

template <class T>
struct SmallFactor {
    WEFT_INLINE static void run(int64_t begin, int64_t end, int64_t rows, int64_t columns, T* lu,
                                int32_t* pivots, int32_t* info) {
        if (rows != columns) {
            const int64_t least = std::min(rows, columns);
            for (int64_t b = begin; b < end; ++b)
                info[b] = small::lu(rows, columns, lu + b * rows * columns, pivots + b * least);
            return;
        }
        small::with_size<T>(rows, [&](auto n) __attribute__((always_inline)) {
            for (int64_t b = begin; b < end; ++b)
                info[b] = small::lu(n, n, lu + b * n * n, pivots + b * n);
        });
    }
};

template <class T, bool Adjoint, class N, class K>
WEFT_INLINE void solve_small(N n, K k, const T* lu, const int32_t* pivots, T* x) {
    if constexpr (Adjoint) {
        small::triangle<true, false, true>(n, k, lu, x);
        small::triangle<false, true, true>(n, k, lu, x);
        small::swap_back(n, k, pivots, x);
    } else {
        small::swap_all(n, k, pivots, x);
        small::triangle<false, true, false>(n, k, lu, x);
        small::triangle<true, false, false>(n, k, lu, x);
    }
}

template <class T, bool Adjoint>
struct SmallSolve {
    WEFT_INLINE static void run(int64_t begin, int64_t end, const Systems* s, int64_t size,
                                int64_t columns, const T* lu, const int32_t* pivots, T* x) {
        small::with_size<T>(size, [&](auto n) __attribute__((always_inline)) {
            for (int64_t b = begin; b < end; ++b) {
                const int64_t of = s->matrix(b);
                T* to = x + b * n * columns;
                if (columns == 1)
                    solve_small<T, Adjoint>(n, std::integral_constant<int64_t, 1>(),
                                            lu + of * n * n, pivots + of * n, to);
                else solve_small<T, Adjoint>(n, columns, lu + of * n * n, pivots + of * n, to);
            }
        });
    }
};

/// `scratch`: n * n elements.
template <class T>
struct SmallInverse {
    WEFT_INLINE static void run(int64_t begin, int64_t end, int64_t size, const T* a, T* x,
                                int32_t* info, T* scratch) {
        int32_t pivots[kSmall];
        small::with_size<T>(size, [&](auto n) __attribute__((always_inline)) {
            for (int64_t b = begin; b < end; ++b) {
                const T* from = a + b * n * n;
                T* to = x + b * n * n;
                for (int64_t i = 0; i < n * n; ++i) scratch[i] = from[i];
                info[b] = small::lu(n, n, scratch, pivots);
                for (int64_t i = 0; i < n * n; ++i) to[i] = T(0);
                for (int64_t i = 0; i < n; ++i) to[i * n + i] = T(1);
                solve_small<T, false>(n, n, scratch, pivots, to);
            }
        });
    }
};

/// What the diagonal of factors and their swaps say of the determinant.
template <class T>
WEFT_INLINE void put_determinant(int64_t n, const T* lu, const int32_t* pivots, T* det,
                                 Real<T>* log) {
    T product(1);
    Real<T> sum(0);
    for (int64_t i = 0; i < n; ++i) {
        const T d = lu[i * n + i];
        if (pivots[i] != i + 1) product = -product;
        if (log) {
            const Real<T> size = std::abs(d);
            sum += std::log(size);
            if constexpr (lapack::is_complex<T>)
                product = times(product, size == 0 ? T(0) : d / size);
            else product *= static_cast<T>((d > 0) - (d < 0));
        } else {
            product = times(product, d);
        }
    }
    *det = product;
    if (log) *log = sum;
}

template <class T>
struct SmallDeterminant {
    WEFT_INLINE static void run(int64_t begin, int64_t end, int64_t size, const T* a, T* det,
                                Real<T>* logs, T* scratch) {
        int32_t pivots[kSmall];
        small::with_size<T>(size, [&](auto n) __attribute__((always_inline)) {
            for (int64_t b = begin; b < end; ++b) {
                for (int64_t i = 0; i < n * n; ++i) scratch[i] = a[b * n * n + i];
                small::lu(n, n, scratch, pivots);
                put_determinant<T>(n, scratch, pivots, det + b, logs ? logs + b : nullptr);
            }
        });
    }
};

int64_t lu_flops(int64_t n) { return n * n * n * 2 / 3; }

template <class T>
BlasInt getrf(int64_t m, int64_t n, T* a, int32_t* pivots) {
    BlasInt info = 0;
    lapack::call<T>(Routine::Getrf, lapack::size(m), lapack::size(n), a, lapack::size(m), pivots,
                    &info);
    return info;
}

/// The first zero pivot of A, of whose transpose it is known that there is one.
template <class T>
int32_t zero_pivot(int64_t n, const T* a) {
    auto columns = batch::room<T>(n * n);
    auto pivots = batch::room<int32_t>(n);
    batch::transpose(n, n, a, columns.get());
    const BlasInt info = getrf(n, n, columns.get(), pivots.get());
    return info ? info : lapack::size(n);
}

template <class T>
void fill_nan(int64_t n, T* x) {
    std::fill_n(x, n, T(std::numeric_limits<Real<T>>::quiet_NaN()));
}

/// By the factors of Aᵀ, which column-major memory has: Xᵀ Aᵀ = Bᵀ.
template <class T>
void solve_by_transpose(int64_t n, int64_t k, const T* lu, const int32_t* pivots, T* x) {
    if (k == 1) {
        BlasInt info = 0;
        return lapack::call<T>(Routine::Getrs, 'T', lapack::size(n), BlasInt{1}, lu,
                               lapack::size(n), pivots, x, lapack::size(n), &info);
    }
    batch::solve_right('U', 'N', 'N', k, n, lu, x);
    batch::solve_right('L', 'N', 'U', k, n, lu, x);
    small::swap_back(n, k, pivots, x);
}

}  // namespace

template <class T>
void lu_factor(int64_t count, int64_t m, int64_t n, const T* a, T* lu, int32_t* pivots,
               int32_t* info) {
    const int64_t least = std::min(m, n), flops = least * m * n;
    batch::for_each(count, flops, [&](int64_t begin, int64_t end) {
        if (std::max(m, n) <= kSmall) {
            std::copy(a + begin * m * n, a + end * m * n, lu + begin * m * n);
            return small::run<SmallFactor<T>, T>(begin, end, m, n, lu, pivots, info);
        }
        auto columns = batch::room<T>(m * n);
        for (int64_t b = begin; b < end; ++b) {
            batch::transpose(m, n, a + b * m * n, columns.get());
            info[b] = least ? getrf(m, n, columns.get(), pivots + b * least) : 0;
            batch::transpose(n, m, columns.get(), lu + b * m * n);
        }
    });
}

template <class T>
void lu_solve(Systems s, int64_t n, int64_t k, bool adjoint, const T* lu, const int32_t* pivots,
              T* x) {
    if (n * k == 0) return;
    batch::for_each(s.count, n * n * k * 2, [&](int64_t begin, int64_t end) {
        if (n <= kSmall)
            return adjoint
                       ? small::run<SmallSolve<T, true>, T>(begin, end, &s, n, k, lu, pivots, x)
                       : small::run<SmallSolve<T, false>, T>(begin, end, &s, n, k, lu, pivots, x);
        for (int64_t b = begin; b < end; ++b) {
            const T* factors = lu + s.matrix(b) * n * n;
            const int32_t* swaps = pivots + s.matrix(b) * n;
            T* to = x + b * n * k;
            // BLAS sees Uᵀ in the lower triangle and Lᵀ in the upper one.
            if (adjoint) {
                batch::solve_right('L', 'C', 'N', k, n, factors, to);
                batch::solve_right('U', 'C', 'U', k, n, factors, to);
                small::swap_back(n, k, swaps, to);
            } else {
                small::swap_all(n, k, swaps, to);
                batch::solve_right('U', 'N', 'U', k, n, factors, to);
                batch::solve_right('L', 'N', 'N', k, n, factors, to);
            }
        }
    });
}

template <class T>
void solve(Systems s, int64_t n, int64_t k, const T* a, T* x, int32_t* info) {
    auto pivots = batch::room<int32_t>(s.matrices * n);
    auto lu = batch::room<T>(s.matrices * n * n);
    std::copy_n(a, s.matrices * n * n, lu.get());
    const bool is_small = n <= kSmall;
    batch::for_each(s.matrices, lu_flops(n), [&](int64_t begin, int64_t end) {
        if (is_small)
            return small::run<SmallFactor<T>, T>(begin, end, n, n, lu.get(), pivots.get(), info);
        for (int64_t b = begin; b < end; ++b) {
            info[b] = getrf(n, n, lu.get() + b * n * n, pivots.get() + b * n);
            if (info[b]) info[b] = zero_pivot(n, a + b * n * n);
        }
    });
    if (is_small) lu_solve<T>(s, n, k, false, lu.get(), pivots.get(), x);
    batch::for_each(s.count, n * n * k * 2, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
            const int64_t of = s.matrix(b);
            T* to = x + b * n * k;
            if (info[of]) fill_nan(n * k, to);
            else if (!is_small && k)
                solve_by_transpose(n, k, lu.get() + of * n * n, pivots.get() + of * n, to);
        }
    });
}

template <class T>
void inverse(int64_t count, int64_t n, const T* a, T* x, int32_t* info) {
    batch::for_each(count, n * n * n * 2, [&](int64_t begin, int64_t end) {
        if (n <= kSmall) {
            T scratch[kSmall * kSmall];
            small::run<SmallInverse<T>, T>(begin, end, n, a, x, info, scratch);
        } else {
            // In columns the memory is Aᵀ, and what it becomes the inverse's transpose.
            std::copy(a + begin * n * n, a + end * n * n, x + begin * n * n);
            auto pivots = batch::room<int32_t>(n);
            const auto size = lapack::size(n), room = lapack::size(64 * n);
            auto work = batch::room<T>(room);
            for (int64_t b = begin; b < end; ++b) {
                T* to = x + b * n * n;
                info[b] = getrf(n, n, to, pivots.get());
                BlasInt failed = 0;
                if (info[b]) info[b] = zero_pivot(n, a + b * n * n);
                else
                    lapack::call<T>(Routine::Getri, size, to, size, pivots.get(), work.get(), room,
                                    &failed);
            }
        }
        for (int64_t b = begin; b < end; ++b) {
            if (info[b]) fill_nan(n * n, x + b * n * n);
            for (int64_t i = 0; i < n * n; ++i) x[b * n * n + i] += T(0);  // no zero is negative
        }
    });
}

template <class T>
void determinant(int64_t count, int64_t n, const T* a, T* det, Real<T>* logs) {
    batch::for_each(count, lu_flops(n), [&](int64_t begin, int64_t end) {
        if (n <= kSmall) {
            T scratch[kSmall * kSmall];
            return small::run<SmallDeterminant<T>, T>(begin, end, n, a, det, logs, scratch);
        }
        auto lu = batch::room<T>(n * n);
        auto pivots = batch::room<int32_t>(n);
        for (int64_t b = begin; b < end; ++b) {
            std::copy_n(a + b * n * n, n * n, lu.get());  // of Aᵀ: the same
            getrf(n, n, lu.get(), pivots.get());
            put_determinant<T>(n, lu.get(), pivots.get(), det + b, logs ? logs + b : nullptr);
        }
    });
}

#define X(T)                                                                                       \
    template void lu_factor(int64_t, int64_t, int64_t, const T*, T*, int32_t*, int32_t*);          \
    template void lu_solve(Systems, int64_t, int64_t, bool, const T*, const int32_t*, T*);         \
    template void solve(Systems, int64_t, int64_t, const T*, T*, int32_t*);                        \
    template void inverse(int64_t, int64_t, const T*, T*, int32_t*);                               \
    template void determinant(int64_t, int64_t, const T*, T*, Real<T>*);
WEFT_EACH_FACTOR_TYPE(X)
#undef X

}  // namespace weft::kernels
