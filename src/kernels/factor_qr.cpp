/// Householder's reflections: QR factors, and products of reflections.
#include "kernels/factor_batch.h"
#include "kernels/reflections.h"
#include "kernels/small_reflection.h"

namespace weft::kernels {
namespace {

using lapack::Routine;

/// Up to how many elements of a matrix our own loops are faster.
constexpr int64_t kSmall = 64 * 64;
/// Columns that leave the products' blocks so empty that LAPACK, which takes one by one, is faster.
constexpr int64_t kNarrow = 12;

/// LAPACK's geqr2, with its signs.
template <class T>
struct SmallFactor {
    WEFT_INLINE static void run(int64_t m, int64_t n, T* a, T* tau, T* w) {
        for (int64_t k = 0; k < std::min(m, n); ++k)
            tau[k] = small::reflect_column(m - k, n, n - k - 1, a + k * n + k, w);
    }
};

/// LAPACK's org2r: the first `columns` of the product of k reflections.
template <class T>
struct SmallProduct {
    WEFT_INLINE static void run(int64_t m, int64_t n, int64_t k, const T* a, const T* tau,
                                int64_t columns, T* q, T* w) {
        for (int64_t i = 0; i < m * columns; ++i) q[i] = T(0);
        for (int64_t i = 0; i < std::min(m, columns); ++i) q[i * (columns + 1)] = T(1);
        for (int64_t i = k - 1; i >= 0; --i)
            small::reflect(m - i, n, a + i * (n + 1), tau[i], columns - i, columns,
                           q + i * (columns + 1), w);
    }
};

/// Of small matrices; like the other two ways, the reflections of one matrix after the other.
template <class T>
class SmallReflections {
public:
    SmallReflections(int64_t m, int64_t n, int64_t k) : m_(m), k_(k), w_(batch::room<T>(n)) {}
    void factor(int64_t n, const T* a, T* qr, T* tau) {
        std::copy_n(a, m_ * n, qr);
        small::run<SmallFactor<T>, T>(m_, n, qr, tau, w_.get());
        take(n, qr, tau);
    }
    void take(int64_t n, const T* a, const T* tau) {
        n_ = n;
        a_ = a;
        tau_ = tau;
    }
    void product(int64_t columns, T* q) {
        small::run<SmallProduct<T>, T>(m_, n_, k_, a_, tau_, columns, q, w_.get());
    }

private:
    int64_t m_, k_, n_ = 0;
    const T *a_ = nullptr, *tau_ = nullptr;
    std::unique_ptr<T[]> w_;
};

/// Of complex and of narrow matrices, by `geqrf` and `ungqr`.
template <class T>
class LapackReflections {
public:
    LapackReflections(int64_t m, int64_t n, int64_t k)
        : m_(m), k_(k), rows_(lapack::size(m)), works_(64 * lapack::size(n)),
          a_(batch::room<T>(m * n)), work_(batch::room<T>(works_)) {}
    void factor(int64_t n, const T* a, T* qr, T* tau) {
        batch::transpose(m_, n, a, a_.get());
        BlasInt info = 0;
        lapack::call<T>(Routine::Geqrf, rows_, lapack::size(n), a_.get(), rows_, tau, work_.get(),
                        works_, &info);
        batch::transpose(n, m_, a_.get(), qr);
        tau_ = tau;
    }
    void take(int64_t n, const T* a, const T* tau) {
        batch::transpose(m_, k_, a, n, a_.get(), m_);
        tau_ = tau;
    }
    void product(int64_t columns, T* q) {
        BlasInt info = 0;
        lapack::call<T>(Routine::Orgqr, rows_, lapack::size(columns), lapack::size(k_), a_.get(),
                        rows_, tau_, work_.get(), works_, &info);
        batch::transpose(columns, m_, a_.get(), q);
    }

private:
    int64_t m_, k_;
    BlasInt rows_, works_;
    std::unique_ptr<T[]> a_, work_;
    const T* tau_ = nullptr;
};

/// Calls body(reflections, b) for each matrix b of a batch, with `k` reflections of m numbers, for at most n
/// columns.
template <class T, class Body>
void with_reflections(int64_t count, int64_t m, int64_t n, int64_t k, const Body& body) {
    auto run = [&]<class R>() {
        batch::for_each(count, m * n * k * 4, [&](int64_t begin, int64_t end) {
            R reflections(m, n, k);
            for (int64_t b = begin; b < end; ++b) body(reflections, b);
        });
    };
    if (m * n <= kSmall) return run.template operator()<SmallReflections<T>>();
    if constexpr (!lapack::is_complex<T>)
        if (n > kNarrow) return run.template operator()<Reflections<T>>();
    run.template operator()<LapackReflections<T>>();
}

}  // namespace

template <class T>
void qr_factor(int64_t count, int64_t m, int64_t n, const T* a, T* qr, T* tau) {
    const int64_t k = std::min(m, n);
    if (k == 0) return;
    with_reflections<T>(count, m, n, k, [&](auto& reflections, int64_t b) {
        reflections.factor(n, a + b * m * n, qr + b * m * n, tau + b * k);
    });
}

template <class T>
void reflections_product(int64_t count, int64_t m, int64_t n, int64_t k, const T* a, const T* tau,
                         int64_t columns, T* q) {
    if (m * columns == 0) return;
    with_reflections<T>(count, m, std::max(n, columns), k, [&](auto& reflections, int64_t b) {
        reflections.take(n, a + b * m * n, tau + b * k);
        reflections.product(columns, q + b * m * columns);
    });
}

template <class T>
void qr(int64_t count, int64_t m, int64_t n, int64_t columns, int64_t rows, const T* a, T* q,
        T* r) {
    const int64_t k = std::min(m, n);
    auto factors = batch::room<T>(count * m * n), tau = batch::room<T>(count * k);
    with_reflections<T>(count, m, std::max(n, columns), k, [&](auto& reflections, int64_t b) {
        T* factor = factors.get() + b * m * n;
        reflections.factor(n, a + b * m * n, factor, tau.get() + b * k);
        if (q) reflections.product(columns, q + b * m * columns);
        for (int64_t i = 0; i < rows; ++i) {
            const T* from = factor + i * n;
            T* to = r + (b * rows + i) * n;
            const int64_t zeros = std::min(i, n);
            std::fill_n(to, zeros, T(0));
            std::copy(from + zeros, from + n, to + zeros);
        }
    });
}

#define X(T)                                                                                       \
    template void qr_factor(int64_t, int64_t, int64_t, const T*, T*, T*);                          \
    template void reflections_product(int64_t, int64_t, int64_t, int64_t, const T*, const T*,      \
                                      int64_t, T*);                                                \
    template void qr(int64_t, int64_t, int64_t, int64_t, int64_t, const T*, T*, T*);
WEFT_EACH_FACTOR_TYPE(X)
#undef X

}  // namespace weft::kernels
