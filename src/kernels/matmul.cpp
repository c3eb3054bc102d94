/// Reading order: the oracle, then the thresholds and `choose_way`, which says which kernel takes a
/// product; the `run_*` functions split it over the pool; the interface comes last.
#include "kernels/matmul.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/blas.h"
#include "kernels/chain.h"
#include "kernels/dot_row.h"
#include "kernels/packed_gemm.h"
#include "kernels/panel_gemm.h"
#include "kernels/simd.h"
#include "kernels/small_gemm.h"

namespace weft::kernels {
namespace {

// ---------------------------------------------------------------------------------------------
// The oracle and the trivial cases

enum class Way : uint8_t { Choose, Simple, Dots, Outer, Panels, Packed, Blas };

/// The way that WEFT_GEMM asks for.
Way wanted_way() {
    static const Way wanted = [] {
        const char* env = std::getenv("WEFT_GEMM");
        if (env && !std::strcmp(env, "simple")) return Way::Simple;
        if (env && !std::strcmp(env, "packed") && packed_gemm_ready()) return Way::Packed;
        if (env && !std::strcmp(env, "panels")) return Way::Panels;
        if (env && !std::strcmp(env, "blas")) return Way::Blas;
        return Way::Choose;
    }();
    return wanted;
}

/// int64_t wraps modulo 2^64, which only unsigned arithmetic may do.
template <class T>
using Wrapping = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;

template <class T>
void scale(int64_t m, int64_t n, T beta, T* c, int64_t ldc) {
    using W = Wrapping<T>;
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            T& x = c[i * ldc + j];
            x = beta == T(0) ? T(0) : static_cast<T>(static_cast<W>(beta) * static_cast<W>(x));
        }
}

/// Integer products: rows of B added up, or dot products where B is transposed.
struct IntegerGemm {
    using U = uint64_t;
    WEFT_INLINE static void run(bool trans_b, int64_t m, int64_t n, int64_t k, U alpha, const U* a,
                                int64_t ra, int64_t ca, const U* b, int64_t ldb, U beta, U* c,
                                int64_t ldc) {
        for (int64_t i = 0; i < m; ++i) {
            U* __restrict row = c + i * ldc;
            for (int64_t j = 0; j < n; ++j) row[j] = beta == 0 ? 0 : beta * row[j];
            if (trans_b)
                for (int64_t j = 0; j < n; ++j) {
                    U sum = 0;
                    for (int64_t p = 0; p < k; ++p) sum += a[i * ra + p * ca] * b[j * ldb + p];
                    row[j] += alpha * sum;
                }
        }
        if (trans_b) return;
        // pieces of B that stay in the first-level cache
        constexpr int64_t deep = 8, wide = 512;
        for (int64_t left = 0; left < n; left += wide)
            for (int64_t top = 0; top < k; top += deep)
                for (int64_t i = 0; i < m; ++i)
                    for (int64_t p = top; p < std::min(k, top + deep); p += 4) {
                        // four rows of B before c is written again; behind the last, zeros times it
                        U x[4];
                        const U* from[4];
                        for (int q = 0; q < 4; ++q) {
                            const int64_t at = std::min(p + q, k - 1);
                            x[q] = p + q < k ? alpha * a[i * ra + at * ca] : 0;
                            from[q] = b + at * ldb;
                        }
                        U* __restrict row = c + i * ldc;
                        const int64_t right = std::min(n, left + wide);
#pragma GCC ivdep
                        for (int64_t j = left; j < right; ++j)
                            row[j] += x[0] * from[0][j] + x[1] * from[1][j] + x[2] * from[2][j] +
                                      x[3] * from[3][j];
                    }
    }
};

// ---------------------------------------------------------------------------------------------
// Our own kernels over the pool

// Work is counted in multiply-adds, m * n * k. Measured on one core of an Ice Lake server (AVX-512,
// OpenBLAS 0.3.34), beside it with WEFT_CPU=avx2 and OPENBLAS_CORETYPE=HASWELL.

/// Rows or columns up to which a product is bound by reading the other operand once, which OpenBLAS
/// does slower or copies first: (2, 1024)x(1024, 1024)^T takes 130 us against its 450, and
/// (1, 128)x(128, 640) 2.4 us against 2.7, the bandwidth of level 2.
constexpr int64_t thin = 4;
/// Columns up to which dot products beat copying a transposed B: (128, 128)x(10, 128)^T takes 4.7
/// us against 7.4.
constexpr int64_t few_columns = 16;
/// Up to here OpenBLAS's call costs as much as the product: 8^3 takes 0.04 us against 0.05, 16^3
/// 0.12 both.
constexpr int64_t tiny_work = 1 << 12;
/// Up to here OpenBLAS for AVX-512 has kernels that do not pack, and on an untransposed B whose columns leave part of
/// a panel empty they are faster than ours: (64, 64)x(64, 65) takes 5.0 us against 7.5. Otherwise 64^3 takes 4.8 by
/// both, and a model of such sizes never loads OpenBLAS and its 2 MB. Beyond, it packs and ours win:
/// (16, 128)x(128, 640) takes 17 us against 27.
constexpr int64_t blas_unpacked_work = 1000000, half_panel = 32;
/// On AVX2: (16, 64)x(64, 64)^T 1.8 us against 2.7, 128^3 on par.
constexpr int64_t own_work_avx2 = 1 << 20;
/// The same with A transposed, whose strided reads cost ours the lead beyond the level-1 cache:
/// AVX2 64^3 on par, 128^3 0.86 times.
constexpr int64_t own_work_trans_a = 1 << 18;
/// On AVX-512 panel_gemm takes all larger products of at least so many columns, and of so many rows
/// if B is transposed; docs/decisions/0003-products.md has the table.
constexpr int64_t panel_columns = 16, panel_rows = 16;
/// A transposed A of so many rows does not stay in level 2 while so many columns pass.
constexpr int64_t packed_rows = 640, packed_columns = 256;
/// Without OpenBLAS the baseline serves up to here, 256^3 or about 0.2 ms; beyond, its absence is
/// an error.
constexpr int64_t own_work_alone = 1 << 24;
/// From here on the pool is used: about 60 us of arithmetic, against 5 us to wake it.
constexpr int64_t parallel_work = 1 << 22;
/// The same for thin products, which wait for memory: 2 MB of floats no longer fit level 2.
constexpr int64_t parallel_thin_work = 1 << 19;
/// Multiply-adds summed before they are added to C: bounds the rounding error of long sums.
constexpr int64_t max_depth = 8192;
/// Rows per piece that share one copy of a panel of B.
constexpr int64_t row_block = 64;

/// [first, last) of the i-th of `pieces` near-equal parts of `blocks` blocks of `size`; the last
/// part takes the incomplete block at the end of n.
struct Part {
    int64_t first, last;
    Part(int64_t i, int64_t pieces, int64_t blocks, int64_t size, int64_t n)
        : first(i * blocks / pieces * size),
          last(i + 1 == pieces ? n : (i + 1) * blocks / pieces * size) {}
};

enum class Split : uint8_t { None, Rows, Columns };

/// Runs `kernel(problem)` on pieces of q that give the same bits as the whole: see
/// Note [Tiles and bits]; pieces of rows have at least row_block > thin.
template <class T, class Kernel>
void run_split(const small::Problem<T>& q, bool transposed, Split split, const Kernel& kernel) {
    const bool rows = split == Split::Rows;
    const int64_t size = rows ? row_block : small::column_span, n = rows ? q.m : q.n;
    const int64_t blocks = split == Split::None ? 1 : std::max<int64_t>(1, n / size);
    const int64_t pieces = blocks == 1 ? 1 : std::min<int64_t>(blocks, get_num_threads());
    if (pieces <= 1) return kernel(q);
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
        const int64_t first = Part(begin, pieces, blocks, size, n).first;
        const int64_t last = Part(end - 1, pieces, blocks, size, n).last;
        small::Problem<T> part = q;
        if (rows) {
            part.m = last - first;
            part.a += first * q.ra;
            part.c += first * q.ldc;
            part.d += first * q.ldd;
        } else {
            part.n = last - first;
            part.b += transposed ? first * q.ldb : first;
            part.c += first;
            part.d += first;
        }
        kernel(part);
    });
}

template <class T>
void run_own(const small::Problem<T>& q, bool transposed, Way way) {
    const int64_t work = q.m * q.n * q.k;
    const bool is_thin = q.m <= thin || q.n <= thin;
    if (work < parallel_thin_work && q.k <= max_depth)
        return way == Way::Dots ? small::Inner<T>::run(q) : small::Outer<T>::run(q, transposed);
    Split split = Split::None;
    if (work >= (is_thin ? parallel_thin_work : parallel_work))
        split = q.m >= 2 * row_block ? Split::Rows : Split::Columns;
    small::Problem<T> step = q;
    for (int64_t p = 0; p < q.k; p += max_depth) {
        step.k = std::min(max_depth, q.k - p);
        step.a = q.a + p * q.ca;
        step.b = q.b + (transposed ? p : p * q.ldb);
        if (way == Way::Dots)
            run_split(step, transposed, split,
                      [](const small::Problem<T>& part) { small::Inner<T>::run(part); });
        else
            run_split(step, transposed, split, [transposed](const small::Problem<T>& part) {
                small::Outer<T>::run(part, transposed);
            });
        step.go_on();
    }
}

/// Whether few rows of A are done with a transposed B sooner than it is copied: long dot products have few sums of
/// lanes. AVX-512: (8, 128)x(512, 128)^T takes 11 us against 14, (16, 512)x(128, 512)^T 19 against 24; AVX2:
/// (8, 384)x(1152, 384)^T 92 against 143.
bool dots_beat_copies(int64_t m, int64_t k) {
    if (cpu_level == CpuLevel::Avx512) return m <= 16 && k >= 128;
    return cpu_level == CpuLevel::Avx2 && m <= 8 && k >= 384;
}

/// Which kernel takes a product with m, n >= 2 and k >= 2.
Way choose_way(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k) {
    if (trans_b && !trans_a && (m <= thin || n <= few_columns || dots_beat_copies(m, k)))
        return Way::Dots;
    if (m <= thin) return Way::Outer;
    const int64_t work = m * n * k;
    if (work <= tiny_work) return Way::Outer;
    if (cpu_level == CpuLevel::Avx512) {
        if (!trans_b && work <= blas_unpacked_work && n % half_panel && blas_ready())
            return Way::Blas;
        if (trans_a && m >= packed_rows && n >= packed_columns) return Way::Packed;
        if (trans_b && !trans_a && m < panel_rows) return Way::Outer;
        if (n >= panel_columns || !blas_ready()) return Way::Panels;
        return Way::Blas;
    }
    if (work <= (trans_a ? own_work_trans_a : own_work_avx2)) return Way::Outer;
    if (blas_ready()) return Way::Blas;
    if (packed_gemm_ready()) return Way::Packed;
    return work > own_work_alone ? Way::Blas : Way::Outer;
}

// ---------------------------------------------------------------------------------------------
// OpenBLAS over the pool

/// Pieces of a product, from its size alone: OpenBLAS sums an element in another order when the
/// matrix around it changes, so the cut must not depend on the number of threads. One thread pays
/// for each cut with more packing (halves: 1 to 9 %), so there are few: 2 from about 0.5 ms on.
int64_t blas_pieces(double work) {
    int64_t pieces = work < 1 << 25 ? 1 : 2;
    for (double limit = 1ll << 31; work > limit && pieces < 64; limit *= 4) pieces *= 2;
    return pieces;
}

BlasInt to_int(const char* what, int64_t value) {
    WEFT_EXPECT(value <= INT_MAX, Runtime, "matmul", text(what, " below 2^31"), text(value));
    return static_cast<BlasInt>(value);
}

template <class T>
void run_blas(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
              int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
    require_blas("matmul", "for a product of this size");
    const CblasGemm<T> blas_gemm = cblas_gemm<T>();
    int64_t row_pieces = 1, column_pieces = 1;
    for (int64_t left = blas_pieces(1.0 * m * n * k); left > 1; left /= 2)
        (m / row_pieces > n / column_pieces ? row_pieces : column_pieces) *= 2;
    constexpr int64_t size = 64;
    const int64_t row_blocks = std::max<int64_t>(1, m / size);
    const int64_t column_blocks = std::max<int64_t>(1, n / size);
    row_pieces = std::min(row_pieces, row_blocks);
    column_pieces = std::min(column_pieces, column_blocks);
    const BlasInt int_k = to_int("the inner dimension", k);
    const BlasInt int_lda = to_int("the row stride of A", lda);
    const BlasInt int_ldb = to_int("the row stride of B", ldb);
    const BlasInt int_ldc = to_int("the row stride of C", ldc);
    to_int("the number of rows", m), to_int("the number of columns", n);
    const auto one = [&](int64_t index) {
        const Part rows(index / column_pieces, row_pieces, row_blocks, size, m);
        const Part columns(index % column_pieces, column_pieces, column_blocks, size, n);
        constexpr BlasInt row_major = 101, as_is = 111, transposed = 112;
        blas_gemm(row_major, trans_a ? transposed : as_is, trans_b ? transposed : as_is,
                  static_cast<BlasInt>(rows.last - rows.first),
                  static_cast<BlasInt>(columns.last - columns.first), int_k, alpha,
                  a + rows.first * (trans_a ? 1 : lda), int_lda,
                  b + columns.first * (trans_b ? ldb : 1), int_ldb, beta,
                  c + rows.first * ldc + columns.first, int_ldc);
    };
    parallel_for(row_pieces * column_pieces, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) one(i);
    });
}

// ---------------------------------------------------------------------------------------------
// Vectors

/// A vector with stride 1: the original where it has that, else a copy.
template <class T>
class Contiguous {
public:
    Contiguous(const T* x, int64_t n, int64_t stride) : data_(x) {
        if (stride == 1) return;
        T* copy = n <= on_stack ? small_ : (large_.resize(n), large_.data());
        for (int64_t i = 0; i < n; ++i) copy[i] = x[i * stride];
        data_ = copy;
    }
    const T* data() const { return data_; }

private:
    static constexpr int64_t on_stack = 512;
    const T* data_;
    T small_[on_stack];
    std::vector<T> large_;
};

/// c[n] = alpha * x * op(B) + beta * d for x[k]: the vector is the single row of the left operand.
template <class T>
void run_row(bool trans_b, int64_t n, int64_t k, T alpha, const T* x, int64_t incx, const T* b,
             int64_t ldb, T beta, const T* d, T* c) {
    if (!trans_b)
        return run_own(small::Problem<T>{1, n, k, alpha, x, 0, incx, b, ldb, beta, d, n, c, n},
                       false, Way::Outer);
    if (incx == 1)
        return run_own(small::Problem<T>{1, n, k, alpha, x, 0, 1, b, ldb, beta, d, n, c, n}, true,
                       Way::Dots);
    const Contiguous<T> in(x, k, incx);
    run_own(small::Problem<T>{1, n, k, alpha, in.data(), 0, 1, b, ldb, beta, d, n, c, n}, true,
            Way::Dots);
}

template <class T>
void dot_row(const DotRow& row, void* c, const void* x, const void* b, const void* d) {
    auto* out = static_cast<T*>(c);
    small::Inner<T>::run({1, row.n, row.k, static_cast<T>(row.alpha), static_cast<const T*>(x), 0,
                          1, static_cast<const T*>(b), row.lead_b, static_cast<T>(row.beta),
                          static_cast<const T*>(d), row.n, out, row.n});
}

/// C[m, n] = alpha * x y^T + beta * C.
template <class T>
void rank_1(int64_t m, int64_t n, T alpha, const T* x, int64_t incx, const T* y, int64_t incy,
            T beta, T* c, int64_t ldc) {
    using W = Wrapping<T>;
    const Contiguous<T> row(y, n, incy);
    const int64_t grain = m * n < parallel_thin_work ? m : std::max<int64_t>(1, (1 << 16) / n);
    parallel_for(m, grain, [&](int64_t begin, int64_t end) {
        small::Rank1<W>::run(end - begin, n, static_cast<W>(alpha),
                             reinterpret_cast<const W*>(x + begin * incx), incx,
                             reinterpret_cast<const W*>(row.data()), static_cast<W>(beta),
                             reinterpret_cast<W*>(c + begin * ldc), ldc);
    });
}

template <class T>
void integer_gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
                  int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
    using U = const uint64_t*;
    const int64_t ra = trans_a ? 1 : lda, ca = trans_a ? lda : 1;
    const int64_t grain = std::max<int64_t>(1, (1 << 17) / std::max<int64_t>(1, n * k));
    parallel_for(m, grain, [&](int64_t begin, int64_t end) {
        per_isa<IntegerGemm>(trans_b, end - begin, n, k, static_cast<uint64_t>(alpha),
                             reinterpret_cast<U>(a + begin * ra), ra, ca, reinterpret_cast<U>(b),
                             ldb, static_cast<uint64_t>(beta),
                             reinterpret_cast<uint64_t*>(c + begin * ldc), ldc);
    });
}

/// Products of `work` multiply-adds each: over the pool, unless each goes there itself.
template <class One>
void each_of_batch(int64_t count, int64_t work, const One& one) {
    const auto some = [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) one(i);
    };
    if (work >= parallel_work) return some(0, count);
    parallel_for(count, std::max<int64_t>(1, parallel_work / 4 / std::max<int64_t>(1, work)), some);
}

}  // namespace

// ---------------------------------------------------------------------------------------------
// The interface

template <class T>
void DotRow::find_kernel() {
    kernel = nullptr;
    if (n > 1 && k > 1 && k <= max_depth && n * k < parallel_thin_work && alpha != 0 &&
        wanted_way() != Way::Simple)
        kernel = dot_row<T>;
}
template void DotRow::find_kernel<float>();
template void DotRow::find_kernel<double>();

template <class T>
void gemm_simple(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
                 int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
    using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
    if (alpha == T(0)) k = 0;
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            Sum sum = 0;
            for (int64_t p = 0; p < k; ++p)
                sum += static_cast<Sum>(trans_a == Trans::Yes ? a[p * lda + i] : a[i * lda + p]) *
                       static_cast<Sum>(trans_b == Trans::Yes ? b[j * ldb + p] : b[p * ldb + j]);
            if (k > 0) sum *= static_cast<Sum>(alpha);
            T& out = c[i * ldc + j];
            if (beta != T(0)) sum += static_cast<Sum>(beta) * static_cast<Sum>(out);
            out = static_cast<T>(sum);
        }
}

template <class T>
void gemv(Trans trans_a, int64_t rows, int64_t cols, T alpha, const T* a, int64_t lda, const T* x,
          int64_t incx, T beta, T* y, int64_t incy) {
    const bool transposed = trans_a == Trans::Yes;
    const int64_t n = transposed ? cols : rows, k = transposed ? rows : cols;
    if (n <= 0) return;
    if (k <= 0 || alpha == T(0)) return scale(n, 1, beta, y, incy);
    if (wanted_way() == Way::Simple)
        return gemm_simple(trans_a, Trans::No, n, 1, k, alpha, a, lda, x, incx, beta, y, incy);
    if constexpr (std::is_integral_v<T>) {
        integer_gemm(transposed, false, n, 1, k, alpha, a, lda, x, incx, beta, y, incy);
    } else {
        if (incy == 1) return run_row(!transposed, n, k, alpha, x, incx, a, lda, beta, y, y);
        std::vector<T> apart(n);
        run_row(!transposed, n, k, alpha, x, incx, a, lda, T(0), apart.data(), apart.data());
        for (int64_t i = 0; i < n; ++i) {
            T& out = y[i * incy];
            out = beta == T(0) ? apart[i] : apart[i] + beta * out;
        }
    }
}

template <class T>
void gemm(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
    if (m <= 0 || n <= 0) return;
    if (k <= 0 || alpha == T(0)) return scale(m, n, beta, c, ldc);
    if (wanted_way() == Way::Simple)
        return gemm_simple(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    const bool ta = trans_a == Trans::Yes, tb = trans_b == Trans::Yes;
    if (k == 1) return rank_1(m, n, alpha, a, ta ? 1 : lda, b, tb ? ldb : 1, beta, c, ldc);
    if constexpr (std::is_integral_v<T>) {
        integer_gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    } else {
        if (m == 1)
            return gemv(tb ? Trans::No : Trans::Yes, tb ? n : k, tb ? k : n, alpha, b, ldb, a,
                        ta ? lda : 1, beta, c, 1);
        if (n == 1)
            return gemv(trans_a, ta ? k : m, ta ? m : k, alpha, a, lda, b, tb ? 1 : ldb, beta, c,
                        ldc);
        Way way = wanted_way();
        if (way == Way::Choose) way = choose_way(ta, tb, m, n, k);
        if (way == Way::Blas) return run_blas(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        if (way == Way::Packed)
            return packed_gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        if (way == Way::Panels)
            return panel_gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        run_own(small::Problem<T>{m, n, k, alpha, a, ta ? 1 : lda, ta ? lda : 1, b, ldb, beta, c,
                                  ldc, c, ldc},
                tb, way);
    }
}

template <class T>
void gemm_add(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
              int64_t lda, const T* b, int64_t ldb, T beta, const T* d, int64_t ldd, T* c,
              int64_t ldc, const T* e) {
    if constexpr (!std::is_integral_v<T>) {
        const bool ta = trans_a == Trans::Yes, tb = trans_b == Trans::Yes;
        if (e && m > 1 && n > 1 && k > 1 && alpha != T(0) && beta == T(1) &&
            (wanted_way() == Way::Panels ||
             (wanted_way() == Way::Choose && choose_way(ta, tb, m, n, k) == Way::Panels)))
            return panel_gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, d, ldd, e, ldc);
    }
    if (e) {
        gemm_add(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, d, ldd, c, ldc);
        const int64_t strides[] = {sizeof(T), sizeof(T), sizeof(T)};
        const Add add;
        for (int64_t i = 0; i < m; ++i) {
            char* const row[] = {reinterpret_cast<char*>(c + i * ldc),
                                 const_cast<char*>(reinterpret_cast<const char*>(e + i * ldc)),
                                 reinterpret_cast<char*>(c + i * ldc)};
            map_loop<Add, T, T, T>()(&add, row, strides, n);
        }
        return;
    }
    if constexpr (!std::is_integral_v<T>) {
        const bool ta = trans_a == Trans::Yes, tb = trans_b == Trans::Yes;
        Way way = wanted_way();
        if (way != Way::Simple && m > 0 && n > 1 && k > 1 && alpha != T(0)) {
            if (m == 1) return run_row(tb, n, k, alpha, a, ta ? lda : 1, b, ldb, beta, d, c);
            if (way == Way::Choose) way = choose_way(ta, tb, m, n, k);
            if (way == Way::Panels && beta == T(1))
                return panel_gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, d, ldd);
            if (way == Way::Dots || way == Way::Outer)
                return run_own(small::Problem<T>{m, n, k, alpha, a, ta ? 1 : lda, ta ? lda : 1, b,
                                                 ldb, beta, d, ldd, c, ldc},
                               tb, way);
        }
    }
    for (int64_t i = 0; i < m && n > 0; ++i)
        std::memcpy(c + i * ldc, d + i * ldd, static_cast<size_t>(n) * sizeof(T));
    gemm(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

template <class T>
void gemm_batched(Trans trans_a, Trans trans_b, int64_t batch, int64_t m, int64_t n, int64_t k,
                  T alpha, const T* a, int64_t lda, int64_t stride_a, const T* b, int64_t ldb,
                  int64_t stride_b, T beta, T* c, int64_t ldc, int64_t stride_c) {
    if (m <= 0 || n <= 0 || batch <= 0) return;
    const bool one_a = m == 1 || stride_a == m * lda, one_c = m == 1 || stride_c == m * ldc;
    if (trans_a == Trans::No && stride_b == 0 && one_a && one_c)
        return gemm(trans_a, trans_b, batch * m, n, k, alpha, a, m == 1 ? stride_a : lda, b, ldb,
                    beta, c, m == 1 ? stride_c : ldc);
    each_of_batch(batch, m * n * k, [&](int64_t i) {
        gemm(trans_a, trans_b, m, n, k, alpha, a + i * stride_a, lda, b + i * stride_b, ldb, beta,
             c + i * stride_c, ldc);
    });
}

template <class T>
void gemm_nested(Trans trans_a, Trans trans_b, int64_t outer, int64_t batch, int64_t m, int64_t n,
                 int64_t k, const T* a, int64_t lda, int64_t outer_a, int64_t step_a, const T* b,
                 int64_t ldb, int64_t outer_b, int64_t step_b, T* c, int64_t ldc, int64_t outer_c,
                 int64_t step_c) {
    each_of_batch(outer * batch, m * n * k, [&](int64_t index) {
        const int64_t i = index / batch, j = index % batch;
        gemm(trans_a, trans_b, m, n, k, T(1), a + i * outer_a + j * step_a, lda,
             b + i * outer_b + j * step_b, ldb, T(0), c + i * outer_c + j * step_c, ldc);
    });
}

template <class T>
void ger(int64_t m, int64_t n, T alpha, const T* x, int64_t incx, const T* y, int64_t incy, T* a,
         int64_t lda) {
    if (m <= 0 || n <= 0 || alpha == T(0)) return;
    rank_1(m, n, alpha, x, incx, y, incy, T(1), a, lda);
}

template <class T>
T dot(int64_t n, const T* x, int64_t incx, const T* y, int64_t incy) {
    if (n <= 0) return T(0);
    if constexpr (std::is_integral_v<T>) {
        uint64_t sum = 0;
        for (int64_t i = 0; i < n; ++i)
            sum += static_cast<uint64_t>(x[i * incx]) * static_cast<uint64_t>(y[i * incy]);
        return static_cast<T>(sum);
    } else {
        constexpr int64_t block = 4096, group = 16;
        const int64_t blocks = (n + block - 1) / block;
        std::vector<T> sums(blocks);
        parallel_for(blocks, group, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                const int64_t first = i * block, length = std::min(block, n - first);
                const Contiguous<T> xs(x + first * incx, length, incx);
                const Contiguous<T> ys(y + first * incy, length, incy);
                small::Inner<T>::run({1, 1, length, T(1), xs.data(), 0, 1, ys.data(), 0, T(0),
                                      &sums[i], 1, &sums[i], 1});
            }
        });
        double total = 0;
        for (const T sum : sums) total += sum;
        return static_cast<T>(total);
    }
}

#define WEFT_MATMUL(T)                                                                             \
    template void gemm_simple(Trans, Trans, int64_t, int64_t, int64_t, T, const T*, int64_t,       \
                              const T*, int64_t, T, T*, int64_t);                                  \
    template void gemv(Trans, int64_t, int64_t, T, const T*, int64_t, const T*, int64_t, T, T*,    \
                       int64_t);                                                                   \
    template void gemm(Trans, Trans, int64_t, int64_t, int64_t, T, const T*, int64_t, const T*,    \
                       int64_t, T, T*, int64_t);                                                   \
    template void gemm_add(Trans, Trans, int64_t, int64_t, int64_t, T, const T*, int64_t,          \
                           const T*, int64_t, T, const T*, int64_t, T*, int64_t, const T*);        \
    template void gemm_batched(Trans, Trans, int64_t, int64_t, int64_t, int64_t, T, const T*,      \
                               int64_t, int64_t, const T*, int64_t, int64_t, T, T*, int64_t,       \
                               int64_t);                                                           \
    template void gemm_nested(Trans, Trans, int64_t, int64_t, int64_t, int64_t, int64_t, const T*, \
                              int64_t, int64_t, int64_t, const T*, int64_t, int64_t, int64_t, T*,  \
                              int64_t, int64_t, int64_t);                                          \
    template void ger(int64_t, int64_t, T, const T*, int64_t, const T*, int64_t, T*, int64_t);     \
    template T dot(int64_t, const T*, int64_t, const T*, int64_t);
WEFT_MATMUL(float)
WEFT_MATMUL(double)
WEFT_MATMUL(int64_t)
#undef WEFT_MATMUL

}  // namespace weft::kernels
