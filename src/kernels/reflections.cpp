#include "kernels/reflections.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/factor_batch.h"
#include "kernels/matmul.h"
#include "kernels/small_reflection.h"
#include "kernels/vector.h"

namespace weft::kernels {
namespace {

/// Columns that are made triangular one by one, side by side in a vector; and those of a block.
template <class T>
constexpr int64_t kPanel = vec::Simd<T, 64>::lanes;
constexpr int64_t kBlock = 64;

/// Makes the `width` first columns of P [m, kPanel] triangular.
///
/// A pass over the rows turns them by one reflection and sums the products of the next column with
/// all, which give its norm and what the next reflection takes off each column.
template <class T>
struct Panel {
    static constexpr int64_t lanes = kPanel<T>;
    using V = typename vec::Simd<T, 64>::Vector;

    /// From row `first` on, row[k] *= scale and row += row[k] * factors, whose element k is 1 and
    /// stands for 0; the sums of row[next] * row behind that row.
    WEFT_INLINE static void pass(int64_t first, int64_t m, int64_t k, T scale, const T* factors,
                                 int64_t next, T* p, T* sums) {
        V keep, f = vec::load<T, 64>(factors), total[4] = {};
        for (int64_t j = 0; j < lanes; ++j) keep[j] = j == k ? T(0) : T(1);
        auto turn = [&](T* row, V& sum, bool counts) __attribute__((always_inline)) {
            const T x = row[k] * scale, y = row[next] + x * factors[next];
            const V turned = vec::load<T, 64>(row) * keep + x * f;
            vec::store<T, 64>(row, turned);
            if (counts) sum += y * turned;
        };
        T* row = p + first * lanes;
        turn(row, total[0], false);
        row += lanes;
        int64_t i = first + 1;
        for (; i + 4 <= m; i += 4, row += 4 * lanes)
            for (int64_t u = 0; u < 4; ++u) turn(row + u * lanes, total[u], true);
        for (; i < m; ++i, row += lanes) turn(row, total[0], true);
        vec::store<T, 64>(sums, (total[0] + total[1]) + (total[2] + total[3]));
    }

    WEFT_INLINE static void run(int64_t m, int64_t width, T* p, T* tau) {
        // Squares between these neither vanish beside their sum nor exceed the type.
        constexpr T least =
                        std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon() * T(1e6),
                    most = std::numeric_limits<T>::max() / T(1e6);
        alignas(64) T factors[lanes], sums[lanes], w[lanes];
        auto only_sum = [&](int64_t first, int64_t next) __attribute__((always_inline)) {
            const int64_t other = (next + 1) % lanes;
            for (int64_t j = 0; j < lanes; ++j) factors[j] = j == other ? T(1) : T(0);
            pass(first, m, other, T(1), factors, next, p, sums);
        };
        only_sum(0, 0);
        for (int64_t k = 0; k < width; ++k) {
            T* row = p + k * lanes;
            const int64_t next = std::min(k + 1, lanes - 1);
            const T alpha = row[k], below = sums[k];
            bool plain = below >= least;
            for (int64_t j = k; j < lanes; ++j) plain &= std::fabs(sums[j]) <= most;
            if (!plain) {
                tau[k] = small::reflect_column(m - k, lanes, lanes - k - 1, row + k, w);
                if (k + 1 < m) only_sum(k + 1, next);
                continue;
            }
            const T beta = -std::copysign(std::sqrt(alpha * alpha + below), alpha);
            const T scale = T(1) / (alpha - beta);
            tau[k] = (beta - alpha) / beta;
            for (int64_t j = 0; j < lanes; ++j) {
                const T taken = tau[k] * (row[j] + scale * sums[j]);
                factors[j] = j > k ? -taken : T(0);
                if (j > k) row[j] -= taken;
            }
            factors[k] = T(1);
            row[k] = beta;
            if (k + 1 < m) pass(k + 1, m, k, scale, factors, next, p, sums);
        }
    }
};

}  // namespace

template <class T>
Reflections<T>::Reflections(int64_t m, int64_t n, int64_t k)
    : m_(m), k_(k), v_(batch::room<T>(m * k)), t_(batch::room<T>(k * kBlock)),
      panel_(batch::room<T>(m * kPanel<T>)), w_(batch::room<T>(2 * kBlock * std::max(n, kBlock))) {}

template <class T>
T* Reflections<T>::triangle(int64_t row, int64_t column) {
    return t_.get() + row * kBlock + column % kBlock;
}

template <class T>
void Reflections<T>::apply(bool adjoint, int64_t from, int64_t end, int64_t columns, int64_t step,
                           T* x) {
    if (columns == 0) return;
    const int64_t size = end - from, rows = m_ - from;
    const T* v = v_.get() + from * k_ + from;
    T *w = w_.get(), *turned = w + size * columns;
    gemm(Trans::Yes, Trans::No, size, columns, rows, T(1), v, k_, x + from * step, step, T(0), w,
         columns);
    gemm(adjoint ? Trans::Yes : Trans::No, Trans::No, size, columns, size, T(1),
         triangle(from, from), kBlock, w, columns, T(0), turned, columns);
    gemm(Trans::No, Trans::No, rows, columns, size, T(-1), v, k_, turned, columns, T(1),
         x + from * step, step);
}

template <class T>
void Reflections<T>::small_triangle(int64_t from, int64_t end, const T* tau) {
    const int64_t size = end - from;
    const T* v = v_.get() + from * k_ + from;
    T products[kPanel<T> * kPanel<T>];
    gemm(Trans::Yes, Trans::No, size, size, m_ - from, T(1), v, k_, v, k_, T(0), products, size);
    T* t = triangle(from, from);
    for (int64_t j = 0; j < size; ++j) {
        for (int64_t i = 0; i < size; ++i) {
            T sum = 0;
            for (int64_t p = i; p < j; ++p) sum += t[i * kBlock + p] * products[p * size + j];
            t[i * kBlock + j] = i == j ? tau[from + j] : -tau[from + j] * sum;
        }
    }
}

template <class T>
void Reflections<T>::join(int64_t from, int64_t half, int64_t end) {
    const int64_t left = half - from, right = end - half;
    const T *v = v_.get() + half * k_, *t = triangle(half, half);
    T *w = w_.get(), *turned = w + left * right;
    gemm(Trans::Yes, Trans::No, left, right, m_ - half, T(1), v + from, k_, v + half, k_, T(0), w,
         right);
    gemm(Trans::No, Trans::No, left, right, right, T(1), w, right, t, kBlock, T(0), turned, right);
    gemm(Trans::No, Trans::No, left, right, left, T(-1), triangle(from, from), kBlock, turned,
         right, T(0), triangle(from, half), kBlock);
    for (int64_t i = half; i < end; ++i) std::fill_n(triangle(i, from), left, T(0));
}

/// The first half of a block of more columns than a panel has.
template <class T>
static int64_t half_of(int64_t from, int64_t end) {
    const int64_t panels = (end - from + kPanel<T> - 1) / kPanel<T>;
    return from + panels / 2 * kPanel<T>;
}

template <class T>
void Reflections<T>::make_triangle(int64_t from, int64_t end, const T* tau) {
    if (end - from <= kPanel<T>) return small_triangle(from, end, tau);
    const int64_t half = half_of<T>(from, end);
    make_triangle(from, half, tau);
    make_triangle(half, end, tau);
    join(from, half, end);
}

template <class T>
void Reflections<T>::factor_columns(int64_t from, int64_t end, int64_t n, T* qr, T* tau) {
    if (end - from > kPanel<T>) {
        const int64_t half = half_of<T>(from, end);
        factor_columns(from, half, n, qr, tau);
        apply(true, from, half, end - half, n, qr + half);
        factor_columns(half, end, n, qr, tau);
        return join(from, half, end);
    }
    const int64_t size = end - from, rows = m_ - from;
    T* p = panel_.get();
    for (int64_t i = 0; i < rows; ++i) {
        const T* row = qr + (from + i) * n + from;
        std::copy_n(row, size, p + i * kPanel<T>);
        std::fill_n(p + i * kPanel<T> + size, kPanel<T> - size, T(0));
    }
    per_isa<Panel<T>>(rows, size, p, tau + from);
    for (int64_t i = 0; i < rows; ++i)
        std::copy_n(p + i * kPanel<T>, size, qr + (from + i) * n + from);
    take_vectors(from, end, qr, n);
    small_triangle(from, end, tau);
}

/// V's columns [from, end) out of a matrix that has them below its diagonal.
template <class T>
void Reflections<T>::take_vectors(int64_t from, int64_t end, const T* a, int64_t n) {
    for (int64_t i = 0; i < m_; ++i) {
        const int64_t below = std::clamp(i, from, end);
        T* row = v_.get() + i * k_;
        std::copy(a + i * n + from, a + i * n + below, row + from);
        std::fill(row + below, row + end, T(0));
        if (below < end && below == i) row[i] = T(1);
    }
}

template <class T>
void Reflections<T>::factor(int64_t n, const T* a, T* qr, T* tau) {
    std::copy_n(a, m_ * n, qr);
    for (int64_t from = 0; from < k_; from += kBlock) {
        const int64_t end = std::min(k_, from + kBlock);
        factor_columns(from, end, n, qr, tau);
        apply(true, from, end, n - end, n, qr + end);
    }
}

template <class T>
void Reflections<T>::take(int64_t n, const T* a, const T* tau) {
    take_vectors(0, k_, a, n);
    for (int64_t from = 0; from < k_; from += kBlock)
        make_triangle(from, std::min(k_, from + kBlock), tau);
}

template <class T>
void Reflections<T>::product(int64_t columns, T* q) {
    std::fill_n(q, m_ * columns, T(0));
    for (int64_t i = 0; i < columns; ++i) q[i * (columns + 1)] = T(1);
    for (int64_t block = (k_ - 1) / kBlock; block >= 0; --block) {
        const int64_t from = block * kBlock, end = std::min(k_, from + kBlock);
        apply(false, from, end, columns - from, columns, q + from);
    }
}

template <class T>
void Reflections<T>::apply_adjoint(int64_t columns, T* x) {
    for (int64_t from = 0; from < k_; from += kBlock)
        apply(true, from, std::min(k_, from + kBlock), columns, columns, x);
}

template class Reflections<float>;
template class Reflections<double>;

}  // namespace weft::kernels
