/// Householder's reflections: QR factors, and products of reflections.
#include <limits>

#include "kernels/factor_batch.h"

namespace weft::kernels {
namespace {

using lapack::Real;
using lapack::Routine;

/// Up to how many elements of a matrix our own loops are faster.
constexpr int64_t kSmall = 64 * 64;

/// The norm of a column's elements [from, m).
template <class T>
WEFT_INLINE Real<T> norm_below(int64_t from, int64_t m, int64_t n, const T* column) {
    auto squares = [&](double scale) __attribute__((always_inline)) {
        double sum = 0;
        for (int64_t i = from; i < m; ++i) {
            const double re = std::real(column[i * n]) * scale,
                         im = std::imag(column[i * n]) * scale;
            sum += re * re + im * im;
        }
        return sum;
    };
    const double sum = squares(1);
    if (sum > 1e-280 && sum < 1e280) return static_cast<Real<T>>(std::sqrt(sum));
    double most = 0;
    for (int64_t i = from; i < m; ++i)
        most = std::fmax(most, static_cast<double>(small::magnitude(column[i * n])));
    if (!(most > 0) || !(most < std::numeric_limits<double>::infinity()))
        return static_cast<Real<T>>(std::sqrt(sum));
    return static_cast<Real<T>>(std::sqrt(squares(1 / most)) * most);
}

/// x [m, columns], whose rows lie `step` apart, becomes (1 - factor v vᴴ) x for the v in a column of
/// `n` wide rows, whose first element is 1. `w`: room for `columns`.
template <class T>
WEFT_INLINE void reflect(int64_t m, int64_t n, const T* v, T factor, int64_t columns, int64_t step,
                         T* x, T* __restrict w) {
    for (int64_t j = 0; j < columns; ++j) w[j] = x[j];
    for (int64_t i = 1; i < m; ++i) {
        const T f = small::conjugate(v[i * n]);
        const T* __restrict row = x + i * step;
        for (int64_t j = 0; j < columns; ++j) w[j] += times(f, row[j]);
    }
    for (int64_t j = 0; j < columns; ++j) w[j] = times(factor, w[j]);
    for (int64_t j = 0; j < columns; ++j) x[j] -= w[j];
    for (int64_t i = 1; i < m; ++i) {
        const T f = v[i * n];
        T* __restrict row = x + i * step;
        for (int64_t j = 0; j < columns; ++j) row[j] -= times(f, w[j]);
    }
}

/// LAPACK's geqr2, with its signs.
template <class T>
struct SmallFactor {
    WEFT_INLINE static void run(int64_t m, int64_t n, T* a, T* tau, T* w) {
        for (int64_t k = 0; k < std::min(m, n); ++k) {
            T* column = a + k * n + k;
            const Real<T> rest = norm_below(1, m - k, n, column);
            const T alpha = *column;
            if (rest == 0 && std::imag(alpha) == 0) {
                tau[k] = T(0);
                continue;
            }
            const Real<T> size = std::hypot(std::hypot(std::real(alpha), std::imag(alpha)), rest),
                          beta = -std::copysign(size, std::real(alpha));
            tau[k] = (T(beta) - alpha) / beta;
            const T scale = over(T(1), alpha - T(beta));
            for (int64_t i = 1; i < m - k; ++i) column[i * n] = times(column[i * n], scale);
            *column = T(beta);
            reflect(m - k, n, column, small::conjugate(tau[k]), n - k - 1, n, column + 1, w);
        }
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
            reflect(m - i, n, a + i * (n + 1), tau[i], columns - i, columns, q + i * (columns + 1),
                    w);
    }
};

/// `geqrf` and `orgqr` for matrices of one size.
template <class T>
class Reflections {
public:
    Reflections(int64_t m, int64_t n, int64_t k, int64_t columns)
        : m_(m), n_(n), k_(k), columns_(columns), rows_(lapack::size(std::max<int64_t>(m, 1))),
          a_(batch::room<T>(m * std::max(n, columns))) {
        T factor{}, product{};
        factored(nullptr, &factor, -1);
        multiplied(nullptr, &product, -1);
        works_ = static_cast<BlasInt>(std::max(std::real(factor), std::real(product))) + 1;
        work_ = batch::room<T>(works_);
    }
    void factor(const T* a, T* qr, T* tau) {
        batch::transpose(m_, n_, a, a_.get());
        factored(tau, work_.get(), works_);
        batch::transpose(n_, m_, a_.get(), qr);
    }
    void product(const T* a, const T* tau, T* q) {
        batch::transpose(m_, std::min(n_, columns_), a, n_, a_.get(), m_);
        multiplied(tau, work_.get(), works_);
        batch::transpose(columns_, m_, a_.get(), q);
    }

private:
    void factored(T* tau, T* work, BlasInt works) {
        BlasInt info = 0;
        lapack::call<T>(Routine::Geqrf, lapack::size(m_), lapack::size(n_), a_.get(), rows_, tau,
                        work, works, &info);
    }
    void multiplied(const T* tau, T* work, BlasInt works) {
        BlasInt info = 0;
        lapack::call<T>(Routine::Orgqr, lapack::size(m_), lapack::size(columns_), lapack::size(k_),
                        a_.get(), rows_, tau, work, works, &info);
    }

    int64_t m_, n_, k_, columns_;
    BlasInt rows_, works_ = 0;
    std::unique_ptr<T[]> a_, work_;
};

template <class T>
void factor_small(int64_t m, int64_t n, const T* a, T* qr, T* tau, T* w) {
    std::copy_n(a, m * n, qr);
    small::run<SmallFactor<T>, T>(m, n, qr, tau, w);
}

}  // namespace

template <class T>
void qr_factor(int64_t count, int64_t m, int64_t n, const T* a, T* qr, T* tau) {
    const int64_t k = std::min(m, n);
    if (k == 0) return;
    batch::for_each(count, m * n * k * 2, [&](int64_t begin, int64_t end) {
        if (m * n <= kSmall) {
            auto w = batch::room<T>(n);
            for (int64_t b = begin; b < end; ++b)
                factor_small(m, n, a + b * m * n, qr + b * m * n, tau + b * k, w.get());
            return;
        }
        Reflections<T> lapacks(m, n, k, k);
        for (int64_t b = begin; b < end; ++b)
            lapacks.factor(a + b * m * n, qr + b * m * n, tau + b * k);
    });
}

template <class T>
void reflections_product(int64_t count, int64_t m, int64_t n, int64_t k, const T* a, const T* tau,
                         int64_t columns, T* q) {
    if (m * columns == 0) return;
    batch::for_each(count, m * columns * k * 4 + m * columns, [&](int64_t begin, int64_t end) {
        if (m * std::max(n, columns) <= kSmall) {
            auto w = batch::room<T>(columns);
            for (int64_t b = begin; b < end; ++b)
                small::run<SmallProduct<T>, T>(m, n, k, a + b * m * n, tau + b * k, columns,
                                               q + b * m * columns, w.get());
            return;
        }
        Reflections<T> lapacks(m, n, k, columns);
        for (int64_t b = begin; b < end; ++b)
            lapacks.product(a + b * m * n, tau + b * k, q + b * m * columns);
    });
}

template <class T>
void qr(int64_t count, int64_t m, int64_t n, int64_t columns, int64_t rows, const T* a, T* q,
        T* r) {
    const int64_t k = std::min(m, n);
    auto factors = batch::room<T>(count * m * n), tau = batch::room<T>(count * k);
    qr_factor(count, m, n, a, factors.get(), tau.get());
    if (q) reflections_product(count, m, n, k, factors.get(), tau.get(), columns, q);
    for (int64_t b = 0; b < count; ++b)
        for (int64_t i = 0; i < rows; ++i) {
            const T* from = factors.get() + (b * m + i) * n;
            T* to = r + (b * rows + i) * n;
            const int64_t zeros = std::min(i, n);
            std::fill_n(to, zeros, T(0));
            std::copy(from + zeros, from + n, to + zeros);
        }
}

#define X(T)                                                                                       \
    template void qr_factor(int64_t, int64_t, int64_t, const T*, T*, T*);                          \
    template void reflections_product(int64_t, int64_t, int64_t, int64_t, const T*, const T*,      \
                                      int64_t, T*);                                                \
    template void qr(int64_t, int64_t, int64_t, int64_t, int64_t, const T*, T*, T*);
WEFT_EACH_FACTOR_TYPE(X)
#undef X

}  // namespace weft::kernels
