/// Reading order: `Tile` (where the time is spent), `Driver` (the loops for one thread), the
/// interface.
///
/// Note [Tiles without a packed A]
/// A tile of 6 rows and 4 vectors sums a step with 24 multiply-adds from 10 loads, fewer than any
/// other shape for 32 registers (Note [Tile shape] in packed_gemm.cpp), and its 64 columns divide
/// the sizes that layers have. Its rows of A are six streams that the processor prefetches, so a
/// packed copy would gain 2 % at the price of making it. What packed_gemm is better at is an A that
/// does not stay in level 2 while the panels of B pass.
#include "kernels/panel_gemm.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "base/parallel.h"
#include "kernels/tile.h"

namespace weft::kernels {
namespace {

using namespace vec;

/// Most vectors of a panel of B, and rows of a tile that wide: accumulators, vectors of B and a
/// broadcast fill 32 registers, or 16.
template <int Bytes>
constexpr int most_vectors = Bytes == 64 ? 4 : 2;
template <int Bytes>
constexpr int tile_rows(int vectors) {
    if (Bytes < 64) return 6;
    return vectors == 4 ? 6 : vectors == 2 ? 12 : 8;
}

/// Steps summed in registers before C is read and written.
constexpr int64_t most_depth = 1024;
/// The same where an operand is read across its rows, A transposed or B as it lies: each step meets
/// other cache lines, which serve the next tiles too if they are not too many.
constexpr int64_t short_depth = 128;
/// Rows of C up to which reading an untransposed B as it lies costs less than a packed copy:
/// (32, 512)x(512, 512) runs 1.2 times as fast, (256, 512)x(512, 512) as fast.
constexpr int64_t in_place_rows = 128;
constexpr int64_t bytes_of_step = 256, panel_bytes = most_depth * bytes_of_step;
static_assert(panel_bytes <= product_workspace_bytes);
/// Panels of so few steps lie on the stack: a model of small products never asks for the workspace, a huge page.
constexpr int64_t stack_depth = 128;

// ---------------------------------------------------------------------------------------------
// The tile

/// C = (D + A * B) + E, without D or E where there is none, for one tile of C. Element (r, p) of A lies at a[r * lda + p], or at
/// a[p * lda + r] if `Columns`; b is a packed panel.
template <class T, int Bytes, int Rows, int Vecs, bool Columns>
struct Tile {
    static constexpr int lanes = Simd<T, Bytes>::lanes;
    using V = typename Simd<T, Bytes>::Vector;
    /// Every third row has a pointer, its neighbours are one and two strides away.
    static constexpr int pointers = Columns ? 1 : (Rows + 2) / 3;

    WEFT_INLINE static void run(int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
                                int64_t ldc, const T* d, int64_t ldd, const T* e, int64_t lde) {
        V acc[Rows][Vecs];
#pragma GCC unroll 12
        for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
            for (int v = 0; v < Vecs; ++v) acc[r][v] = V{};
        const T* at[pointers];
        at[0] = a;
        for (int i = 1; i < pointers; ++i) at[i] = at[i - 1] + 3 * lda;
        const auto step = [&](int s) __attribute__((always_inline)) {
            V row[Vecs];
#pragma GCC unroll 4
            for (int v = 0; v < Vecs; ++v) {
                row[v] = load<T, Bytes>(b + v * lanes);
                in_register(row[v]);
            }
#pragma GCC unroll 12
            for (int r = 0; r < Rows; ++r) {
                V x;
                broadcast<T>(x, Columns ? at[0][r] : at[r / 3 % pointers][r % 3 * lda + s]);
#pragma GCC unroll 4
                for (int v = 0; v < Vecs; ++v) multiply_add<T>(acc[r][v], x, row[v]);
            }
            b += ldb;
            opaque(b);
            if constexpr (Columns) {
                at[0] += lda;
                opaque(at[0]);
            }
        };
        const auto advance = [&](int steps) __attribute__((always_inline)) {
            if constexpr (!Columns)
#pragma GCC unroll 4
                for (int i = 0; i < pointers; ++i) {
                    at[i] += steps;
                    opaque(at[i]);
                }
        };
        const T* soon = c;
        int64_t p = k;
        for (; p >= 4; p -= 4) {
            if (soon < c + Rows * ldc) {
#pragma GCC unroll 4
                for (int v = 0; v < Vecs; ++v) __builtin_prefetch(soon + v * lanes, 1);
                soon += ldc;
            }
#pragma GCC unroll 4
            for (int s = 0; s < 4; ++s) step(s);
            advance(4);
        }
        for (; p > 0; --p) {
            step(0);
            advance(1);
        }
#pragma GCC unroll 12
        for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
            for (int v = 0; v < Vecs; ++v) {
                V sum = acc[r][v];
                if (d) sum = load<T, Bytes>(d + r * ldd + v * lanes) + sum;
                if (e) sum = load<T, Bytes>(e + r * lde + v * lanes) + sum;
                store<T, Bytes>(c + r * ldc + v * lanes, sum);
            }
    }
};

// ---------------------------------------------------------------------------------------------
// One thread

template <class T, int Bytes>
struct Driver {
    static constexpr int lanes = Simd<T, Bytes>::lanes;
    static constexpr int most_vecs = most_vectors<Bytes>;

    const Product<T> q;
    T* const panel;  ///< memory for one

    /// Vectors of the panel that begins in column j: never one alone after wider ones.
    WEFT_INLINE static int64_t panel_vectors(int64_t n, int64_t j) {
        const int64_t left = (n - j + lanes - 1) / lanes;
        return left == most_vecs + 1 ? (most_vecs + 2) / 2 : std::min<int64_t>(left, most_vecs);
    }
    /// Rows of the next tile, with `left` to do.
    WEFT_INLINE static int64_t next_rows(int64_t vecs, int64_t left) {
        const int64_t most = tile_rows<Bytes>(vecs);
        if (left >= most && !(most == 6 && left == 8)) return most;
        return left >= 8 ? (most == 6 ? 4 : 8) : left >= 4 ? 4 : left >= 2 ? 2 : 1;
    }

    template <int Rows, int Vecs>
    WEFT_INLINE void tile(int64_t k, const T* a, int64_t lda, bool columns, const T* b, int64_t ldb,
                          T* c, int64_t ldc, const T* d, int64_t ldd, const T* e,
                          int64_t lde) const {
        if (columns)
            Outlined<Tile<T, Bytes, Rows, Vecs, true>, Bytes, int64_t, const T*, int64_t, const T*,
                     int64_t, T*, int64_t, const T*, int64_t, const T*, int64_t>::run(k, a, lda, b,
                                                                                      ldb, c, ldc,
                                                                                      d, ldd, e,
                                                                                      lde);
        else
            Outlined<Tile<T, Bytes, Rows, Vecs, false>, Bytes, int64_t, const T*, int64_t, const T*,
                     int64_t, T*, int64_t, const T*, int64_t, const T*, int64_t>::run(k, a, lda, b,
                                                                                      ldb, c, ldc,
                                                                                      d, ldd, e,
                                                                                      lde);
    }
    template <int Vecs, class... Args>
    WEFT_INLINE void tile_of(int64_t rows, Args... args) const {
        constexpr int most = tile_rows<Bytes>(Vecs);
        if (rows == most) return tile<most, Vecs>(args...);
        if constexpr (most > 8)
            if (rows == 8) return tile<8, Vecs>(args...);
        if (rows == 4) return tile<4, Vecs>(args...);
        if (rows == 2) return tile<2, Vecs>(args...);
        tile<1, Vecs>(args...);
    }

    /// What is added to a product: D before, E after the rest. Null: nothing.
    struct Added {
        const T* d;
        int64_t ldd;
        const T* e;
        int64_t lde;
    };

    /// All rows by one panel of B of `cols` columns from j on, `depth` steps from A at `a`.
    WEFT_INLINE void run_panel(int64_t depth, const T* a, int64_t lda, bool columns, const T* b,
                               int64_t ldb, int64_t cols, int64_t j, const Added& added) const {
        const int64_t vecs = (cols + lanes - 1) / lanes, ldd = added.ldd, lde = added.lde;
        const bool whole = cols == vecs * lanes;
        alignas(64) T part[12 * 8 * lanes];
        for (int64_t i = 0; i < q.m;) {
            const int64_t rows = next_rows(vecs, q.m - i);
            const T* from = a + (columns ? i : i * lda);
            T* const c = q.c + i * q.ldc + j;
            const T* const d = added.d ? added.d + i * ldd + j : nullptr;
            const T* const e = added.e ? added.e + i * lde + j : nullptr;
            T* to = whole ? c : part;
            const int64_t ld = whole ? q.ldc : vecs * lanes;
            const T *td = whole ? d : nullptr, *te = whole ? e : nullptr;
            const auto run = [&](auto tiles) __attribute__((always_inline)) {
                tile_of<decltype(tiles)::value>(rows, depth, from, lda, columns, b, ldb, to, ld, td,
                                                ldd, te, lde);
            };
            if (vecs == 1) run(std::integral_constant<int, 1>{});
            if (vecs == 2) run(std::integral_constant<int, 2>{});
            if constexpr (most_vecs > 2) {
                if (vecs == 3) run(std::integral_constant<int, 3>{});
                if (vecs == 4) run(std::integral_constant<int, 4>{});
            }
            if (!whole)
                for (int64_t r = 0; r < rows; ++r)
                    for (int64_t t = 0; t < cols; ++t) {
                        T sum = part[r * ld + t];
                        if (d) sum = d[r * ldd + t] + sum;
                        if (e) sum = e[r * lde + t] + sum;
                        c[r * q.ldc + t] = sum;
                    }
            i += rows;
        }
    }

    WEFT_INLINE static Panel<T> panel_of_b(const Product<T>& q, int64_t p, int64_t depth, int64_t j,
                                           int64_t width, T* out) {
        return {q.b + (q.trans_b ? j * q.ldb + p : p * q.ldb + j),
                q.ldb,
                q.trans_b,
                depth,
                std::min(width, q.n - j),
                width,
                q.alpha,
                out};
    }

    /// Packs all of B: steps of at most most_depth, each panel after panel.
    WEFT_INLINE static void pack_all(const Product<T>& q, T* out) {
        const int64_t part = part_size(q.k, most_depth, 1);
        for (int64_t p = 0; p < q.k; p += part) {
            const int64_t depth = std::min(part, q.k - p);
            for (int64_t j = 0; j < q.n;) {
                const int64_t width = panel_vectors(q.n, j) * lanes;
                pack<T, Bytes>(panel_of_b(q, p, depth, j, width, out));
                out += depth * width;
                j += width;
            }
        }
    }

    /// `packed`: B by pack_all, or null. `in_place`: read B as it lies where that can be.
    WEFT_INLINE void run(const T* packed, bool in_place) const {
        const int64_t part = part_size(q.k, q.trans_a || in_place ? short_depth : most_depth, 1);
        for (int64_t p = 0; p < q.k; p += part) {
            const int64_t depth = std::min(part, q.k - p);
            const T* a = q.a + (q.trans_a ? p * q.lda : p);
            const bool is_first = p == 0 && q.d;
            const T* d = is_first ? q.d : p > 0 || q.beta != T(0) ? q.c : nullptr;
            const Added added{d, is_first ? q.ldd : q.ldc, p + depth == q.k ? q.e : nullptr, q.lde};
            for (int64_t j = 0; j < q.n;) {
                const int64_t width = panel_vectors(q.n, j) * lanes;
                const int64_t cols = std::min(width, q.n - j);
                const bool as_is = in_place && cols == width;
                if (!packed && !as_is) pack<T, Bytes>(panel_of_b(q, p, depth, j, width, panel));
                run_panel(depth, a, q.lda, q.trans_a,
                          as_is    ? q.b + p * q.ldb + j
                          : packed ? packed
                                   : panel,
                          as_is ? q.ldb : width, cols, j, added);
                if (packed) packed += depth * width;
                j += width;
            }
        }
    }
};

template <class T>
struct OneThread {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(const Product<T>* product, const T* packed, bool in_place,
                                    char* space) {
            Driver<T, Bytes>{*product, reinterpret_cast<T*>(space)}.run(packed, in_place);
        }
    };
    static void run(const Product<T>& q, const T* packed, bool in_place) {
        if (q.beta != T(0) && q.beta != T(1))
            for (int64_t i = 0; i < q.m; ++i)
                for (int64_t j = 0; j < q.n; ++j) q.c[i * q.ldc + j] *= q.beta;
        if (q.k > stack_depth) return per_width<Body>(&q, packed, in_place, product_workspace());
        alignas(64) char panel[stack_depth * bytes_of_step];
        per_width<Body>(&q, packed, in_place, panel);
    }
    template <int Bytes>
    struct Pack {
        WEFT_INLINE static void run(const Product<T>* product, T* out) {
            Driver<T, Bytes>::pack_all(*product, out);
        }
    };
};

}  // namespace

template <class T>
void panel_gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
                int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc, const T* d,
                int64_t ldd, const T* e, int64_t lde) {
    const bool in_place = !trans_b && alpha == T(1) && m <= in_place_rows;
    over_grid<T>({trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, d, ldd, e, lde},
                 [&](const Product<T>& part) { OneThread<T>::run(part, nullptr, in_place); });
}

template <class T>
void PackedRight<T>::Free::operator()(T* p) const {
    std::free(p);
}

template <class T>
PackedRight<T>::PackedRight(bool trans_b, int64_t n, int64_t k, const T* b, int64_t ldb)
    : n_(n), k_(k) {
    const int64_t bytes = ((n + 63) / 64 * 64 * k * sizeof(T) + 63) / 64 * 64;
    data_.reset(static_cast<T*>(std::aligned_alloc(64, bytes)));
    if (!data_) throw std::bad_alloc();
    const Product<T> q{false, trans_b, 0, n, k, T(1), nullptr, 0, b, ldb, T(0), nullptr, 0};
    per_width<OneThread<T>::template Pack>(&q, data_.get());
}

template <class T>
bool PackedRight<T>::pays() {
    return cpu_level == CpuLevel::Avx512;
}

template <class T>
void PackedRight<T>::multiply(int64_t m, const T* a, int64_t lda, T beta, T* c, int64_t ldc) const {
    constexpr int64_t rows = 24;  // whole tiles of every shape
    const int64_t grain = 1.0 * m * n_ * k_ < parallel_work ? m : rows;
    parallel_for(m, grain, [&](int64_t begin, int64_t end) {
        OneThread<T>::run({false, false, end - begin, n_, k_, T(1), a + begin * lda, lda, nullptr,
                           0, beta, c + begin * ldc, ldc},
                          data_.get(), false);
    });
}

template void panel_gemm(bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t,
                         const float*, int64_t, float, float*, int64_t, const float*, int64_t,
                         const float*, int64_t);
template void panel_gemm(bool, bool, int64_t, int64_t, int64_t, double, const double*, int64_t,
                         const double*, int64_t, double, double*, int64_t, const double*, int64_t,
                         const double*, int64_t);
template class PackedRight<float>;
template class PackedRight<double>;

}  // namespace weft::kernels
