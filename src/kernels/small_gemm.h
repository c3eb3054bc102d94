/// Products too small or too thin for OpenBLAS to be worth its packing of both operands.
///
/// Reading order: vector.h, `outer_tile` (elements of A times rows of B), `inner_tile` (dot
/// products), then the drivers `Outer`, `Inner` and `Rank1`.
///
/// Note [Tiles and bits]
/// The order in which `Outer` sums an element depends on m, on k and on the distance of its column
/// from the last one; `Inner` has one order for all. So a caller may split n at multiples of
/// `column_span` without changing a bit.
#pragma once
#include <cstdint>
#include <utility>

#include "kernels/vector.h"

namespace weft::kernels::small {

using namespace vec;

/// C[m, n] = alpha * A * B + beta * D. Element (i, p) of A is a[i*ra + p*ca]. Element (p, j) of B
/// is b[p*ldb + j], or b[j*ldb + p] where the driver says transposed. D may be C, or one row (ldd 0).
template <class T>
struct Problem {
    int64_t m, n, k;
    T alpha;
    const T* a;
    int64_t ra, ca;
    const T* b;
    int64_t ldb;
    T beta;
    const T* d;
    int64_t ldd;
    T* c;
    int64_t ldc;

    /// What comes now is added to C.
    WEFT_INLINE void go_on() {
        beta = 1;
        d = c;
        ldd = ldc;
    }
};

inline constexpr int64_t column_span = 256;

/// Writes alpha * acc + beta * D for one vector of C.
template <class T, int Bytes>
WEFT_INLINE void finish(const Problem<T>& q, const typename Simd<T, Bytes>::Unaligned& acc,
                        const T* d, T* c) {
    if (q.beta == T(0)) store<T, Bytes>(c, q.alpha * acc);
    else store<T, Bytes>(c, q.alpha * acc + q.beta * load<T, Bytes>(d));
}

// ---------------------------------------------------------------------------------------------
// Outer

/// Walks the elements of `Rows` rows of A along k, with few enough pointers to stay in registers:
/// every third row has one, its two neighbours are one and two strides away. The 4-row walk may
/// have missing rows, which repeat the last one.
template <class T, int Rows>
struct RowWalk {
    static constexpr int pointers = Rows == 4 ? 4 : (Rows + 2) / 3;
    const T* at[pointers];
    int64_t ra;

    WEFT_INLINE RowWalk(const Problem<T>& q, int64_t i0, int64_t valid) : ra(q.ra) {
        at[0] = q.a + i0 * ra;
        for (int r = 1; r < pointers; ++r)
            at[r] = at[r - 1] + (Rows != 4 ? 3 * ra : r < valid ? ra : 0);
    }
    WEFT_INLINE T operator[](int r) const { return Rows == 4 ? *at[r] : at[r / 3][r % 3 * ra]; }
    WEFT_INLINE void advance(int64_t ca) {
#pragma GCC unroll 4
        for (int r = 0; r < pointers; ++r) {
            at[r] += ca;
            opaque(at[r]);
        }
    }
};

/// `Rows` rows from i0 on, of which `valid` exist, by `Vecs` vectors from column j0 on. Tiles of
/// few vectors sum every second or fourth p apart: one chain of additions would wait for itself.
template <class T, int Bytes, int Rows, int Vecs>
WEFT_INLINE void outer_tile(const Problem<T>& q, int64_t i0, int64_t valid, int64_t j0) {
    using V = typename Simd<T, Bytes>::Vector;
    constexpr int lanes = Simd<T, Bytes>::lanes;
    constexpr int chains = Rows * Vecs >= 8 ? 1 : Rows * Vecs >= 4 ? 2 : 4;
    // 4 steps a turn, but 1 where GCC would run out of registers and spill accumulators.
    constexpr int turn = Rows == 8 ? 1 : 4;
    RowWalk<T, Rows> a(q, i0, valid);
    V acc[chains][Rows][Vecs] = {};
    const T* b = q.b + j0;
    const auto step = [&](int s) __attribute__((always_inline)) {
        V row[Vecs];
#pragma GCC unroll 8
        for (int v = 0; v < Vecs; ++v) {
            row[v] = load<T, Bytes>(b + v * lanes);
            if constexpr (Rows > 1) in_register(row[v]);
        }
#pragma GCC unroll 8
        for (int r = 0; r < Rows; ++r) {
            V x = a[r] - V{};
            in_register(x);
#pragma GCC unroll 8
            for (int v = 0; v < Vecs; ++v) acc[s][r][v] += x * row[v];
        }
        a.advance(q.ca);
        b += q.ldb;
        opaque(b);
    };
    int64_t p = q.k;
    for (; p >= turn; p -= turn)
#pragma GCC unroll 4
        for (int s = 0; s < turn; ++s) step(s % chains);
    if constexpr (turn > 1)
        for (; p > 0; --p) step(0);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
        if (Rows == 4 && r >= valid) break;
        T* c = q.c + (i0 + r) * q.ldc + j0;
        const T* d = q.d + (i0 + r) * q.ldd + j0;
#pragma GCC unroll 8
        for (int v = 0; v < Vecs; ++v) {
            V sum = acc[0][r][v];
            if constexpr (chains == 2) sum = sum + acc[1][r][v];
            if constexpr (chains == 4) sum = (sum + acc[1][r][v]) + (acc[2][r][v] + acc[3][r][v]);
            finish<T, Bytes>(q, sum, d + v * lanes, c + v * lanes);
        }
    }
}

/// All columns from j0 on, in tiles of `Vecs` vectors, then half as many, ..., then one, then
/// narrower vectors, then single elements.
template <class T, int Bytes, int Rows, int Vecs>
WEFT_INLINE void outer_columns(const Problem<T>& q, int64_t i0, int64_t valid, int64_t j0) {
    constexpr int64_t width = Vecs * Simd<T, Bytes>::lanes;
    for (; j0 + width <= q.n; j0 += width) outer_tile<T, Bytes, Rows, Vecs>(q, i0, valid, j0);
    if (j0 == q.n) return;
    if constexpr (Vecs > 1) outer_columns<T, Bytes, Rows, Vecs / 2>(q, i0, valid, j0);
    else if constexpr (Bytes > static_cast<int>(sizeof(T)))
        outer_columns<T, Bytes / 2, Rows, 1>(q, i0, valid, j0);
}

/// In blocks of 2 * Step lanes: a keeps its lower half and takes b's lower half above it, b keeps
/// its upper half and takes a's upper half below it.
template <class V, int Lanes, int Step, size_t... I>
WEFT_INLINE void swap_halves(V& a, V& b, std::index_sequence<I...>) {
    constexpr auto pick = [](size_t lane, size_t upper) {
        const size_t in_block = lane % (2 * Step), block = lane - in_block;
        const size_t from = in_block >= Step ? Lanes + in_block - Step : in_block;
        return static_cast<int>(block + from + upper * Step);
    };
    const V lower = __builtin_shufflevector(a, b, pick(I, 0)...);
    b = __builtin_shufflevector(a, b, pick(I, 1)...);
    a = lower;
}
template <class T, int Bytes, int Step>
WEFT_INLINE void swap_halves(typename Simd<T, Bytes>::Vector& a,
                             typename Simd<T, Bytes>::Vector& b) {
    constexpr int lanes = Simd<T, Bytes>::lanes;
    swap_halves<typename Simd<T, Bytes>::Vector, lanes, Step>(a, b,
                                                              std::make_index_sequence<lanes>{});
}

/// Swaps lane and row: v[i] lane j becomes v[j] lane i.
template <class T, int Bytes, int Step = Simd<T, Bytes>::lanes / 2>
WEFT_INLINE void transpose(typename Simd<T, Bytes>::Vector* v) {
#pragma GCC unroll 16
    for (int j = 0; j < Simd<T, Bytes>::lanes; ++j)
        if (!(j & Step)) swap_halves<T, Bytes, Step>(v[j], v[j + Step]);
    if constexpr (Step > 1) transpose<T, Bytes, Step / 2>(v);
}

/// The same of 16 floats at each of 16 places, in order, for a wide store each: quarters are loaded into their places,
/// which leaves half of the exchanges.
struct Transpose16 {
    typedef float Quarter __attribute__((vector_size(16)));
    typedef float Half __attribute__((vector_size(32)));
    typedef float Whole __attribute__((vector_size(64)));

    template <size_t... I>
    WEFT_INLINE static void join(const float* const* at, int64_t p, Whole& out,
                                 std::index_sequence<I...>) {
        const Quarter a = load<float, 16>(at[0] + p), b = load<float, 16>(at[4] + p);
        const Quarter c = load<float, 16>(at[8] + p), d = load<float, 16>(at[12] + p);
        const Half low = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
        const Half high = __builtin_shufflevector(c, d, 0, 1, 2, 3, 4, 5, 6, 7);
        out = __builtin_shufflevector(low, high, static_cast<int>(I)...);
    }
    /// Of each quarter: pairs `from`, `from` + 1 of elements of a and b in turn.
    template <int From, size_t... I>
    WEFT_INLINE static void weave(const Whole& a, const Whole& b, Whole& out,
                                  std::index_sequence<I...>) {
        out = __builtin_shufflevector(
            a, b, static_cast<int>(I / 4 * 4 + From + I % 4 / 2 + I % 2 * 16)...);
    }
    /// Of each quarter: two elements of a, from `From` on, then of b.
    template <int From, size_t... I>
    WEFT_INLINE static void pair(const Whole& a, const Whole& b, Whole& out,
                                 std::index_sequence<I...>) {
        out = __builtin_shufflevector(
            a, b, static_cast<int>(I / 4 * 4 + From + I % 2 + I % 4 / 2 * 16)...);
    }
    WEFT_INLINE static void run(const float* const* at, int64_t p, float* out, int64_t width) {
        constexpr auto all = std::make_index_sequence<16>{};
#pragma GCC unroll 4
        for (int64_t q = 0; q < 16; q += 4) {
            Whole u[4], w[4], to;
#pragma GCC unroll 4
            for (int r = 0; r < 4; ++r) join(at + r, p + q, u[r], all);
            weave<0>(u[0], u[1], w[0], all);
            weave<2>(u[0], u[1], w[1], all);
            weave<0>(u[2], u[3], w[2], all);
            weave<2>(u[2], u[3], w[3], all);
            pair<0>(w[0], w[2], to, all);
            store<float, 64>(out + q * width, to);
            pair<2>(w[0], w[2], to, all);
            store<float, 64>(out + (q + 1) * width, to);
            pair<0>(w[1], w[3], to, all);
            store<float, 64>(out + (q + 2) * width, to);
            pair<2>(w[1], w[3], to, all);
            store<float, 64>(out + (q + 3) * width, to);
        }
    }
};

/// out[p*width + j] = b[j*ldb + p] for p < k and j < cols; columns up to the next multiple of the
/// vector length repeat the last one.
template <class T, int Bytes>
WEFT_INLINE void pack_transposed(const T* b, int64_t ldb, int64_t k, int64_t cols, int64_t width,
                                 T* out) {
    constexpr int lanes = Simd<T, Bytes>::lanes;
    if (k < lanes) {
        if constexpr (lanes > 2) return pack_transposed<T, Bytes / 2>(b, ldb, k, cols, width, out);
        for (int64_t j = 0; j < width; ++j)
            for (int64_t p = 0; p < k; ++p)
                out[p * width + j] = b[(j < cols ? j : cols - 1) * ldb + p];
        return;
    }
    for (int64_t j0 = 0; j0 < width; j0 += lanes) {
        if constexpr (Bytes == 64 && sizeof(T) == 4) {
            const T* at[lanes];
            for (int64_t j = 0; j < lanes; ++j)
                at[j] = b + (j0 + j < cols ? j0 + j : cols - 1) * ldb;
            for (int64_t p0 = 0; p0 < k; p0 += lanes) {
                const int64_t p = p0 + lanes <= k ? p0 : k - lanes;
                Transpose16::run(at, p, out + p * width + j0, width);
            }
            continue;
        }
        for (int64_t p0 = 0; p0 < k; p0 += lanes) {
            const int64_t p = p0 + lanes <= k ? p0 : k - lanes;
            typename Simd<T, Bytes>::Vector v[lanes];
            const T* from = b + (j0 < cols ? j0 : cols - 1) * ldb + p;
#pragma GCC unroll 16
            for (int j = 0; j < lanes; ++j) {
                v[j] = load<T, Bytes>(from);
                from += j0 + j + 1 < cols ? ldb : 0;
            }
            transpose<T, Bytes>(v);
#pragma GCC unroll 16
            for (int j = 0; j < lanes; ++j) store<T, Bytes>(out + (p + j) * width + j0, v[j]);
        }
    }
}

/// Elements of A, any strides, times rows of B. A transposed B is first copied into rows, a panel
/// of two vectors' width at a time.
template <class T>
struct Outer {
    /// Rows of B in a panel: 256 of two AVX-512 vectors are 32 KB, two thirds of a level-1 cache.
    static constexpr int64_t depth = 256;
    /// From so many rows of A on an untransposed panel is copied too: rows of B that lie a multiple
    /// of 4 KB apart share a few cache sets, and each of the m / 8 passes would miss again.
    static constexpr int64_t copy_rows = 32;

    template <int Bytes>
    struct Body {
        static constexpr int lanes = Simd<T, Bytes>::lanes;
        static constexpr int panel = 2 * lanes;
        // 32 vector registers hold 16 accumulators, 16 hold 8.
        static constexpr int accumulators = Bytes == 64 ? 16 : 8;
        static constexpr int max_rows = accumulators / 2;

        /// At most 4 rows, B untransposed: one pass over B, tiles as wide as the registers allow.
        WEFT_INLINE static void thin(const Problem<T>& q) {
            if (q.m == 1) return outer_columns<T, Bytes, 1, 8>(q, 0, 1, 0);
            if (q.m == 2) return outer_columns<T, Bytes, 2, accumulators / 2>(q, 0, 2, 0);
            outer_columns<T, Bytes, 4, accumulators / 4>(q, 0, q.m, 0);
        }

        /// Whole tiles: rows a multiple of max_rows, columns one panel.
        struct Tiles {
            WEFT_INLINE static void run(const Problem<T>* problem) {
                const Problem<T> q = *problem;
                for (int64_t i = 0; i < q.m; i += max_rows)
                    outer_tile<T, Bytes, max_rows, 2>(q, i, max_rows, 0);
            }
        };
        /// All rows of at most one panel of columns. `padded`: B has whole vectors even where C
        /// has not.
        WEFT_INLINE static void all_rows(const Problem<T>& q, bool padded) {
            if (q.n < panel && padded) return through_part(q);
            int64_t i = 0;
            if (q.n == panel) {
                Problem<T> whole = q;
                i = whole.m = q.m / max_rows * max_rows;
                if (i > 0) Outlined<Tiles, Bytes, const Problem<T>*>::run(&whole);
            }
            for (; q.m - i > 2; i += 4)
                outer_columns<T, Bytes, 4, 2>(q, i, q.m - i < 4 ? q.m - i : 4, 0);
            if (q.m - i == 2) outer_columns<T, Bytes, 2, 2>(q, i, 2, 0);
            if (q.m - i == 1) outer_columns<T, Bytes, 1, 2>(q, i, 1, 0);
        }
        /// A padded panel wider than C: whole vectors into a buffer, then the columns that exist.
        WEFT_INLINE static void through_part(const Problem<T>& q) {
            alignas(64) T part[4 * panel];
            Problem<T> to = q;
            to.n = panel;
            to.beta = 0;
            to.c = part;
            to.ldc = panel;
            for (int64_t i = 0; i < q.m; i += 4, to.a += 4 * q.ra) {
                const int64_t valid = q.m - i < 4 ? q.m - i : 4;
                outer_tile<T, Bytes, 4, 2>(to, 0, valid, 0);
                for (int64_t r = 0; r < valid; ++r)
                    for (int64_t j = 0; j < q.n; ++j) {
                        const T sum = part[r * panel + j];
                        q.c[(i + r) * q.ldc + j] =
                            q.beta == T(0) ? sum : sum + q.beta * q.d[(i + r) * q.ldd + j];
                        opaque(j);
                    }
            }
        }

        WEFT_INLINE static void run(const Problem<T>* problem, bool transposed) {
            const Problem<T> whole = *problem;  // a copy: stores to C cannot change it
            if (whole.m <= 4 && !transposed) return thin(whole);
            alignas(64) T packed[depth * panel];
            Problem<T> q = whole;
            for (int64_t p = 0; p < whole.k; p += depth) {
                q.k = whole.k - p < depth ? whole.k - p : depth;
                q.a = whole.a + p * whole.ca;
                for (int64_t j = 0; j < whole.n; j += panel) {
                    q.n = whole.n - j < panel ? whole.n - j : panel;
                    q.c = whole.c + j;
                    q.d = (p ? whole.c : whole.d) + j;
                    const bool copied = transposed || (whole.m >= copy_rows && q.n == panel);
                    q.b = transposed ? whole.b + j * whole.ldb + p : whole.b + p * whole.ldb + j;
                    q.ldb = whole.ldb;
                    if (transposed) pack_transposed<T, Bytes>(q.b, q.ldb, q.k, q.n, panel, packed);
                    else if (copied)
                        for (int64_t s = 0; s < q.k; ++s)
                            for (int64_t t = 0; t < panel; t += lanes)
                                store<T, Bytes>(packed + s * panel + t,
                                                load<T, Bytes>(q.b + s * q.ldb + t));
                    if (copied) {
                        q.b = packed;
                        q.ldb = panel;
                    }
                    all_rows(q, copied);
                }
                q.go_on();
            }
        }
    };
    static void run(const Problem<T>& q, bool transposed) { per_width<Body>(&q, transposed); }
};

// ---------------------------------------------------------------------------------------------
// Inner

/// Lane j of acc[0] becomes the sum of the lanes of acc[j]: at each step two vectors become one,
/// lane t added to lane t + Step, so every sum has the same tree. The rest of `acc` is used up.
template <class T, int Bytes, int Step>
WEFT_INLINE void merge_tree(typename Simd<T, Bytes>::Vector* acc) {
#pragma GCC unroll 16
    for (int j = 0; j < Step; ++j) {
        swap_halves<T, Bytes, Step>(acc[j], acc[j + Step]);
        acc[j] += acc[j + Step];
    }
    if constexpr (Step > 1) merge_tree<T, Bytes, Step / 2>(acc);
}

/// out[j] = sum of the lanes of acc[j], j < Count, by the tree of merge_tree; Count a power of two.
template <class T, int Bytes, int Count>
WEFT_INLINE void sum_lanes(typename Simd<T, Bytes>::Vector* acc, T* out) {
    constexpr int lanes = Simd<T, Bytes>::lanes;
    if constexpr (Count >= lanes) {
#pragma GCC unroll 16
        for (int g = 0; g < Count; g += lanes) {
            merge_tree<T, Bytes, lanes / 2>(acc + g);
            store<T, Bytes>(out + g, acc[g]);
        }
    } else {
        typename Simd<T, Bytes / 2>::Vector half[Count], upper;
#pragma GCC unroll 16
        for (int j = 0; j < Count; ++j) {
            halves<T, Bytes>(acc[j], half[j], upper);
            half[j] += upper;
        }
        sum_lanes<T, Bytes / 2, Count>(half, out);
    }
}

/// The last `left` elements before `end`, behind zeros: reads one whole vector that ends there.
template <class T, int Bytes>
WEFT_INLINE void load_tail(const T* end, int64_t left, typename Simd<T, Bytes>::Vector& out) {
    using I = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    constexpr int lanes = Simd<T, Bytes>::lanes;
    alignas(64) static constexpr struct Mask {
        I bits[2 * lanes] = {};
        constexpr Mask() {
            for (int j = lanes; j < 2 * lanes; ++j) bits[j] = -1;
        }
    } mask;
    using Bits = typename Simd<I, Bytes>::Vector;
    const Bits keep = load<I, Bytes>(mask.bits + left);
    const typename Simd<T, Bytes>::Vector all = load<T, Bytes>(end - lanes);
    out = (typename Simd<T, Bytes>::Vector)((Bits)all & keep);
}

/// Dot products of `Rows` rows of A (contiguous: ca == 1) with `Cols` rows of the transposed B, of
/// which `rows` and `cols` exist. Needs k >= lanes.
template <class T, int Bytes, int Rows, int Cols>
WEFT_INLINE void inner_tile(const Problem<T>& q, int64_t i0, int64_t rows, int64_t j0,
                            int64_t cols) {
    using V = typename Simd<T, Bytes>::Vector;
    constexpr int lanes = Simd<T, Bytes>::lanes;
    const T *a[Rows], *b[Cols];
    a[0] = q.a + i0 * q.ra;
    for (int r = 1; r < Rows; ++r) a[r] = a[r - 1] + (r < rows ? q.ra : 0);
    b[0] = q.b + j0 * q.ldb;
    for (int j = 1; j < Cols; ++j) b[j] = b[j - 1] + (j < cols ? q.ldb : 0);
    V acc[Rows * Cols] = {};
    int64_t p = 0;
    for (; p + lanes <= q.k; p += lanes) {
        V x[Rows];
#pragma GCC unroll 4
        for (int r = 0; r < Rows; ++r) x[r] = load<T, Bytes>(a[r] + p);
#pragma GCC unroll 8
        for (int j = 0; j < Cols; ++j) {
            const V y = load<T, Bytes>(b[j] + p);
#pragma GCC unroll 4
            for (int r = 0; r < Rows; ++r) acc[r * Cols + j] += x[r] * y;
        }
    }
    if (const int64_t left = q.k - p) {
#pragma GCC unroll 4
        for (int r = 0; r < Rows; ++r) {
            V x, y;
            load_tail<T, Bytes>(a[r] + q.k, left, x);
#pragma GCC unroll 8
            for (int j = 0; j < Cols; ++j) {
                load_tail<T, Bytes>(b[j] + q.k, left, y);
                acc[r * Cols + j] += x * y;
            }
        }
    }
    alignas(64) T sums[Rows * Cols];
    sum_lanes<T, Bytes, Rows * Cols>(acc, sums);
    for (int r = 0; r < Rows && r < rows; ++r) {
        T* c = q.c + (i0 + r) * q.ldc + j0;
        const T* d = q.d + (i0 + r) * q.ldd + j0;
        if (cols == Cols) {
            constexpr int bytes = Cols * sizeof(T) < Bytes ? Cols * sizeof(T) : Bytes;
#pragma GCC unroll 8
            for (int j = 0; j < Cols; j += Simd<T, bytes>::lanes)
                finish<T, bytes>(q, load<T, bytes>(sums + r * Cols + j), d + j, c + j);
        } else {
            for (int64_t j = 0; j < cols; ++j) {
                finish<T, sizeof(T)>(q, sums[r * Cols + j], d + j, c + j);
                opaque(j);
            }
        }
    }
}

/// Dot products of contiguous rows of A and rows of the transposed B.
template <class T>
struct Inner {
    template <int Bytes>
    struct Body {
        /// Columns of a tile of 4 rows.
        static constexpr int wide = Bytes == 64 ? 4 : 2;
        /// So few columns stay in level 1 while all rows pass.
        static constexpr int64_t few = 16;

        template <int Rows, int Cols>
        WEFT_INLINE static void panel(const Problem<T>& q, int64_t i0, int64_t rows) {
            for (int64_t j = 0; j < q.n; j += Cols)
                inner_tile<T, Bytes, Rows, Cols>(q, i0, rows, j, q.n - j < Cols ? q.n - j : Cols);
        }
        /// All rows with the same few columns, which stay in level 1, then with the next ones.
        struct ByColumns {
            WEFT_INLINE static void run(const Problem<T>* problem) {
                const Problem<T> q = *problem;
                for (int64_t j = 0; j < q.n; j += wide)
                    for (int64_t i = 0; i < q.m; i += 4)
                        inner_tile<T, Bytes, 4, wide>(q, i, q.m - i < 4 ? q.m - i : 4, j,
                                                      q.n - j < wide ? q.n - j : wide);
            }
        };
        WEFT_INLINE static void run(const Problem<T>* problem) {
            const Problem<T> q = *problem;  // a copy: stores to C cannot change it
            if (q.k < Simd<T, Bytes>::lanes) {
                if constexpr (Bytes > 16) Body<Bytes / 2>::run(problem);
                else plain(q);
                return;
            }
            if (q.m > 4 && q.n > few)
                return Outlined<ByColumns, Bytes, const Problem<T>*>::run(problem);
            int64_t i = 0;
            for (; q.m - i > 2; i += 4) panel<4, wide>(q, i, q.m - i < 4 ? q.m - i : 4);
            if (q.m - i == 2) panel<2, 2 * wide>(q, i, 2);
            if (q.m - i == 1) panel<1, 8>(q, i, 1);
        }
    };
    /// k below the narrowest vector.
    WEFT_INLINE static void plain(const Problem<T>& q) {
        for (int64_t i = 0; i < q.m; ++i)
            for (int64_t j = 0; j < q.n; ++j) {
                T sum = 0;
                for (int64_t p = 0; p < q.k; ++p) sum += q.a[i * q.ra + p] * q.b[j * q.ldb + p];
                finish<T, sizeof(T)>(q, sum, q.d + i * q.ldd + j, q.c + i * q.ldc + j);
            }
    }
    static void run(const Problem<T>& q) { per_width<Body>(&q); }
};

// ---------------------------------------------------------------------------------------------
// Rank1

/// a[i, j] = beta * a[i, j] + (alpha * x[i]) * y[j], rows of a and y contiguous.
template <class T>
struct Rank1 {
    struct Body {
        WEFT_INLINE static void run(int64_t m, int64_t n, T alpha, const T* x, int64_t incx,
                                    const T* y, T beta, T* a, int64_t lda) {
            for (int64_t i = 0; i < m; ++i) {
                const T s = alpha * x[i * incx];
                T* __restrict row = a + i * lda;
                const T* __restrict from = y;
                if (beta == T(0))
                    for (int64_t j = 0; j < n; ++j) row[j] = s * from[j];
                else if (beta == T(1))
                    for (int64_t j = 0; j < n; ++j) row[j] += s * from[j];
                else
                    for (int64_t j = 0; j < n; ++j) row[j] = beta * row[j] + s * from[j];
            }
        }
    };
    static void run(int64_t m, int64_t n, T alpha, const T* x, int64_t incx, const T* y, T beta,
                    T* a, int64_t lda) {
        per_isa<Body>(m, n, alpha, x, incx, y, beta, a, lda);
    }
};

}  // namespace weft::kernels::small
