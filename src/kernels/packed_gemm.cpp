/// The scheme of K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication"
/// (ACM TOMS 34, 2008): a block of A is packed for the level-2 cache, a panel of B as deep passes
/// through the level-1 cache, and a tile of C is summed in registers over that depth.
///
/// Reading order: `Tile` (where the time is spent), packing, `Feed` (what is packed next, while
/// tiles run), `Driver` (the loops for one thread), `packed_gemm` (the split over the pool).
///
/// Note [Tile shape]
/// One step of a tile of R rows and V vectors is R * V multiply-adds from R + V loads. An Ice Lake
/// server starts 2 multiply-adds of 512 bits a cycle, but was measured to sustain only 1.1 loads
/// into such registers, broadcasts included, so loads per multiply-add decide: 8 x 3 has 0.46 and
/// reaches 97 % of the peak; 14 x 2, which has more accumulators, 0.57 and 93 %; 28 x 1 52 %.
#include "kernels/packed_gemm.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <type_traits>

#include "base/parallel.h"
#include "kernels/tile.h"

namespace weft::kernels {

char* product_workspace() {
    struct Memory {
        char* at = static_cast<char*>(
            std::aligned_alloc(product_workspace_bytes, product_workspace_bytes));
        Memory() {
            if (!at) throw std::bad_alloc();
            madvise(at, product_workspace_bytes, MADV_HUGEPAGE);
        }
        ~Memory() { std::free(at); }
    };
    static thread_local Memory memory;
    return memory.at;
}

namespace {

using namespace vec;

constexpr int tile_vectors = 3;
/// 24 of 32 registers accumulate, or 12 of 16.
template <int Bytes>
constexpr int tile_rows = Bytes == 64 ? 8 : 4;

/// Steps summed in registers before C is read and written, in bytes of one column of A. Shorter
/// ones move C more often: 1024^3 takes 3 % longer with 1024.
constexpr int64_t depth_bytes = 1376;
constexpr int64_t panel_bytes = depth_bytes * 64 * tile_vectors / 4;
/// A packed block of A, more than half of a level-2 cache of 1.25 MB: C and B pass through it too.
/// 530 KB, and so three blocks for 1024^3 rather than two, took 1 to 4 % longer.
constexpr int64_t block_bytes = 720 << 10;
static_assert(block_bytes + 2 * panel_bytes <= product_workspace_bytes);

// ---------------------------------------------------------------------------------------------
// The tile

/// Cache lines to fetch while a tile runs, an eighth of them with each eighth of its steps.
struct Lines {
    static constexpr int64_t most = 256;
    int64_t eighth = 0;
    const char* at[most];
};

/// C = A * B, or C += A * B, for one tile of C: `k` steps over packed panels of A and B.
template <class T, int Bytes, int Vecs>
struct Tile {
    static constexpr int rows = tile_rows<Bytes>, lanes = Simd<T, Bytes>::lanes;
    using V = typename Simd<T, Bytes>::Vector;

    WEFT_INLINE static void run(int64_t k, const T* a, const T* b, T* c, int64_t ldc, bool add,
                                const Lines* lines) {
        V acc[rows][Vecs];
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
            for (int v = 0; v < Vecs; ++v) acc[r][v] = V{};
        const auto step = [&](int s) __attribute__((always_inline)) {
            V row[Vecs];
#pragma GCC unroll 4
            for (int v = 0; v < Vecs; ++v) {
                row[v] = load<T, Bytes>(b + (s * Vecs + v) * lanes);
                in_register(row[v]);
            }
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) {
                V x;
                broadcast<T>(x, a[s * rows + r]);
#pragma GCC unroll 4
                for (int v = 0; v < Vecs; ++v) multiply_add<T>(acc[r][v], x, row[v]);
            }
        };
        const char* const* line = lines->at;
        const T* soon = c;
        const int64_t eighth = k / 32;
        for (int64_t part = 0; part < 8; ++part) {
            if (part < rows) {
#pragma GCC unroll 4
                for (int v = 0; v < Vecs; ++v) __builtin_prefetch(soon + v * lanes, 1);
                soon += ldc;
            }
            for (int64_t t = lines->eighth; t > 0; --t) __builtin_prefetch(*line++, 0, 2);
            for (int64_t t = part < 7 ? eighth : k / 4 - 7 * eighth; t > 0; --t) {
#pragma GCC unroll 4
                for (int s = 0; s < 4; ++s) step(s);
                a += 4 * rows;
                b += 4 * Vecs * lanes;
            }
        }
        for (k %= 4; k > 0; --k) {
            step(0);
            a += rows;
            b += Vecs * lanes;
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r)
#pragma GCC unroll 4
            for (int v = 0; v < Vecs; ++v) {
                T* to = c + r * ldc + v * lanes;
                store<T, Bytes>(to, add ? load<T, Bytes>(to) + acc[r][v] : acc[r][v]);
            }
    }
};

template <class T, int Bytes>
WEFT_INLINE void tile(int64_t vecs, int64_t k, const T* a, const T* b, T* c, int64_t ldc, bool add,
                      const Lines* lines) {
    const auto run = [&]<int Vecs>(std::integral_constant<int, Vecs>) {
        Outlined<Tile<T, Bytes, Vecs>, Bytes, int64_t, const T*, const T*, T*, int64_t, bool,
                 const Lines*>::run(k, a, b, c, ldc, add, lines);
    };
    if (vecs == 3) return run(std::integral_constant<int, 3>{});
    if (vecs == 2) return run(std::integral_constant<int, 2>{});
    run(std::integral_constant<int, 1>{});
}

// ---------------------------------------------------------------------------------------------
// Fetching

/// Slices of an operand that the next tiles need, fetched and packed between the present ones:
/// waiting for them afterwards would cost a tenth. Source rows that lie a power of two apart share
/// a few cache sets, so they cannot be fetched long before either.
template <class T>
struct Feed {
    int64_t slices = 0, packed = 0;
    int64_t slice_rows = 0, row_lines = 0;  ///< what a slice covers of the source, in cache lines
    int64_t row_step = 0, slice_step = 0;   ///< in bytes
    const char* from = nullptr;
    int64_t per_tile = 0;
    int64_t slice = 0, row = 0, line = 0;  ///< the next line to fetch

    WEFT_INLINE void fetch(Lines& lines) {
        const int64_t count = slice < slices ? per_tile : 0;
        const Feed f = *this;  // copies: stores to `lines` cannot change them
        int64_t s = f.slice, r = f.row, l = f.line;
        const char* at = f.from + s * f.slice_step + r * f.row_step;
        for (int64_t t = 0; t < count;) {
            const int64_t run = std::min(f.row_lines - l, count - t);
            for (int64_t u = 0; u < run; ++u) lines.at[t + u] = at + (l + u) * 64;
            t += run, l += run;
            if (l < f.row_lines) break;
            l = 0, at += f.row_step;
            if (++r < f.slice_rows) continue;
            r = 0, s = s + 1 < f.slices ? s + 1 : 0;
            at = f.from + s * f.slice_step;
            if (s == 0) {
                slice = f.slices;
                lines.eighth = t / 8;
                return;
            }
        }
        lines.eighth = count / 8;
        slice = s, row = r, line = l;
    }
};

// ---------------------------------------------------------------------------------------------
// One thread

template <class T, int Bytes>
struct Driver {
    static constexpr int lanes = Simd<T, Bytes>::lanes;
    static constexpr int rows = tile_rows<Bytes>;
    static constexpr int64_t columns = tile_vectors * lanes;
    static constexpr int64_t slice_steps = 16;

    struct Span {
        int64_t first, size;
    };
    /// A block of A: rows by steps.
    struct Block {
        Span i, p;
    };

    const Product<T> q;
    T* const packed_a;
    T* packed_b;       ///< the panel in use
    T* next_packed_b;  ///< the one after it
    int64_t row_part, step_part;
    Feed<T> feed;
    Lines lines;

    WEFT_INLINE Driver(const Product<T>& product, char* space)
        : q(product), packed_a(reinterpret_cast<T*>(space)),
          packed_b(reinterpret_cast<T*>(space + block_bytes)),
          next_packed_b(reinterpret_cast<T*>(space + block_bytes + panel_bytes)) {
        step_part = part_size(q.k, depth_bytes / sizeof(T), 1);
        const int64_t most = block_bytes / (step_part * sizeof(T)) / rows * rows;
        row_part = part_size(q.m, most, rows);
    }

    WEFT_INLINE Block block_at(int64_t i, int64_t p) const {
        return {{i, std::min(row_part, q.m - i)}, {p, std::min(step_part, q.k - p)}};
    }
    /// The block after this one; empty after the last.
    WEFT_INLINE Block next(const Block& block) const {
        const int64_t i = block.i.first + row_part;
        if (i < q.m) return block_at(i, block.p.first);
        const int64_t p = block.p.first + step_part;
        return p < q.k ? block_at(0, p) : Block{};
    }
    /// The panel of B that begins in column j.
    WEFT_INLINE Span columns_at(int64_t j) const {
        // two panels of two vectors rather than one of a single vector
        const int64_t last = q.n % columns;
        const bool spare = q.n > columns && last > 0 && last <= lanes;
        return {j, std::min(spare && j < 4 * lanes ? 2 * lanes : columns, q.n - j)};
    }

    WEFT_INLINE Panel<T> panel_of_a(const Block& block, int64_t index) const {
        const int64_t i = block.i.first + index * rows;
        return {q.a + (q.trans_a ? block.p.first * q.lda + i : i * q.lda + block.p.first),
                q.lda,
                !q.trans_a,
                block.p.size,
                std::min<int64_t>(rows, q.m - i),
                rows,
                T(1),
                packed_a + index * rows * block.p.size};
    }
    WEFT_INLINE Panel<T> panel_of_b(const Block& block, const Span& j, T* out) const {
        return {q.b +
                    (q.trans_b ? j.first * q.ldb + block.p.first : block.p.first * q.ldb + j.first),
                q.ldb,
                q.trans_b,
                block.p.size,
                j.size,
                (j.size + lanes - 1) / lanes * lanes,
                q.alpha,
                out};
    }
    WEFT_INLINE void pack_a(const Block& block, int64_t first) const {
        for (int64_t index = first; index * rows < block.i.size; ++index)
            pack<T, rows* static_cast<int>(sizeof(T))>(panel_of_a(block, index));
    }

    /// Prepares `feed` for panels of `slices` slices over `tiles` tiles.
    WEFT_INLINE void plan(const Panel<T>& slice, int64_t slices, int64_t slice_step,
                          int64_t tiles) {
        feed = {};
        feed.slices = slices;
        feed.from = reinterpret_cast<const char*>(slice.from);
        feed.row_step = slice.ld * sizeof(T);
        feed.slice_step = slice_step * sizeof(T);
        feed.slice_rows = slice.transposed ? slice.cols : slice.k;
        feed.row_lines = ((slice.transposed ? slice.k : slice.cols) * sizeof(T) + 63) / 64;
        const int64_t all = slices * feed.slice_rows * feed.row_lines;
        feed.per_tile = std::min(Lines::most, ((all + tiles - 1) / tiles + 7) / 8 * 8);
    }

    /// Tiles of all rows of the block by one panel of B. `pack_slice(index)` packs a slice of the
    /// feed that was fetched before the last tile began; if `in_place`, over that panel of A.
    template <class PackSlice>
    WEFT_INLINE void run_tiles(const Block& block, const Span& j, bool in_place,
                               const PackSlice& pack_slice) {
        const int64_t k = block.p.size, vecs = (j.size + lanes - 1) / lanes;
        const bool add = block.p.first > 0 || q.beta != T(0);
        T* c = q.c + block.i.first * q.ldc + j.first;
        const T* a = packed_a;
        for (int64_t i = 0; i < block.i.size; i += rows, a += rows * k, c += rows * q.ldc) {
            const int64_t ready = in_place ? std::min(feed.slice, i / rows + 1) : feed.slice;
            feed.fetch(lines);
            const int64_t m = std::min<int64_t>(rows, block.i.size - i);
            if (m == rows && j.size == vecs * lanes) {
                tile<T, Bytes>(vecs, k, a, packed_b, c, q.ldc, add, &lines);
            } else {
                alignas(64) T part[rows * columns];
                tile<T, Bytes>(vecs, k, a, packed_b, part, columns, false, &lines);
                for (int64_t r = 0; r < m; ++r) {
                    T* __restrict to = c + r * q.ldc;
                    const T* __restrict sums = part + r * columns;
                    for (int64_t t = 0; t < j.size; ++t) to[t] = add ? to[t] + sums[t] : sums[t];
                }
            }
            for (; feed.packed < ready; ++feed.packed) pack_slice(feed.packed);
        }
    }

    /// One panel of B, while the next one is packed behind the tiles.
    WEFT_INLINE void run_panel(const Block& block, const Span& j, const Span& next_j) {
        const Panel<T> panel = panel_of_b(block, next_j, next_packed_b);
        const int64_t k = panel.k, slices = (k + slice_steps - 1) / slice_steps;
        const Panel<T> first = panel.steps(0, std::min(slice_steps, k));
        plan(first, slices, panel.transposed ? slice_steps : slice_steps * panel.ld,
             (block.i.size + rows - 1) / rows);
        run_tiles(block, j, false, [&](int64_t s) __attribute__((always_inline)) {
            const int64_t p = s * slice_steps;
            pack<T, Bytes>(panel.steps(p, std::min(slice_steps, k - p)));
        });
        const int64_t done = feed.packed * slice_steps;
        if (done < k) pack<T, Bytes>(panel.steps(done, k - done));
        std::swap(packed_b, next_packed_b);
    }

    /// The last panel of B, after whose tiles the panels of A are replaced by the next block's: it
    /// is no deeper, so they are not used any more.
    WEFT_INLINE void run_last_panel(const Block& block, const Span& j, const Block& next_block) {
        const int64_t tiles = (block.i.size + rows - 1) / rows;
        const int64_t panels = (next_block.i.size + rows - 1) / rows;
        feed = {};
        if (panels > 0)
            plan(panel_of_a(next_block, 0), std::min(panels, tiles),
                 q.trans_a ? rows : rows * q.lda, tiles);
        run_tiles(block, j, true, [&](int64_t index) __attribute__((always_inline)) {
            pack<T, rows* static_cast<int>(sizeof(T))>(panel_of_a(next_block, index));
        });
        pack_a(next_block, feed.packed);
    }

    WEFT_INLINE void run() {
        Block block = block_at(0, 0);
        pack_a(block, 0);
        while (block.i.size > 0) {
            const Block next_block = next(block);
            Span j = columns_at(0);
            pack<T, Bytes>(panel_of_b(block, j, packed_b));
            for (int64_t after = j.size; after < q.n; after += j.size) {
                const Span next_j = columns_at(after);
                run_panel(block, j, next_j);
                j = next_j;
            }
            run_last_panel(block, j, next_block);
            block = next_block;
        }
    }
};

template <class T>
struct OneThread {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(const Product<T>* product, char* space) {
            Driver<T, Bytes>(*product, space).run();
        }
    };
    static void run(const Product<T>& q) {
        if (q.beta != T(0) && q.beta != T(1))
            for (int64_t i = 0; i < q.m; ++i)
                for (int64_t j = 0; j < q.n; ++j) q.c[i * q.ldc + j] *= q.beta;
        per_width<Body>(&q, product_workspace());
    }
};

}  // namespace

bool packed_gemm_ready() { return cpu_level >= CpuLevel::Avx2; }

template <class T>
void packed_gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
                 int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
    over_grid<T>({trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc},
                 [](const Product<T>& part) { OneThread<T>::run(part); });
}
template void packed_gemm(bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t,
                          const float*, int64_t, float, float*, int64_t);
template void packed_gemm(bool, bool, int64_t, int64_t, int64_t, double, const double*, int64_t,
                          const double*, int64_t, double, double*, int64_t);

}  // namespace weft::kernels
