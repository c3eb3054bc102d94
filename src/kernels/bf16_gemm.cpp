/// Reading order: `Bf16Tile` (where the time is spent), packing, `panel_of_all` (one panel of B by
/// all rows of A), the interface.
///
/// Note [Pairs]
/// vdpbf16ps adds two products of neighbours to each float. So B is packed as pairs of rows,
/// interleaved: 64 columns of them are a panel. A row of A is read as pairs where it lies. An odd k
/// gets a zero.
#include "kernels/bf16_gemm.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "kernels/copy.h"
#include "kernels/vector.h"

namespace weft::kernels {

bool bf16_gemm_ready() {
#if WEFT_VECTOR_ASM
    static const bool ready = cpu_level == CpuLevel::Avx512 && __builtin_cpu_supports("avx512bf16");
    return ready;
#else
    return false;
#endif
}

#if WEFT_VECTOR_ASM
namespace {

using namespace vec;

constexpr int panel_columns = 64, lanes = 16, most_rows = 6;
using Floats = Simd<float, 64>::Vector;
using Pairs = Simd<uint32_t, 64>::Vector;
/// Two neighbours.
typedef uint32_t Bits __attribute__((aligned(2), may_alias));

/// sums[r][j] = sum over p of the pairs p of row r of A and of column j of the panel.
template <int Rows, int Vecs>
struct Bf16Tile {
    WEFT_INLINE static void run(int64_t pairs, const BFloat16* a, int64_t lda, const uint32_t* b,
                                float* sums) {
        Floats acc[Rows][Vecs];
#pragma GCC unroll 6
        for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
            for (int v = 0; v < Vecs; ++v) acc[r][v] = Floats{};
        for (int64_t p = 0; p < pairs; ++p, b += panel_columns, a += 2) {
            Pairs row[Vecs];
#pragma GCC unroll 4
            for (int v = 0; v < Vecs; ++v) row[v] = load<uint32_t, 64>(b + v * lanes);
#pragma GCC unroll 6
            for (int r = 0; r < Rows; ++r) {
                Pairs x;
                asm("vpbroadcastd %1, %0"
                    : "=v"(x)
                    : "m"(*reinterpret_cast<const Bits*>(a + r * lda)));
#pragma GCC unroll 4
                for (int v = 0; v < Vecs; ++v)
                    asm("vdpbf16ps %2, %1, %0" : "+v"(acc[r][v]) : "v"(x), "v"(row[v]));
            }
        }
#pragma GCC unroll 6
        for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 4
            for (int v = 0; v < Vecs; ++v)
                store<float, 64>(sums + r * panel_columns + v * lanes, acc[r][v]);
    }
};

/// Pairs of rows of an untransposed B, columns [0, cols); what is beyond is 0.
struct PackRows {
    WEFT_INLINE static void run(const BFloat16* b, int64_t ldb, int64_t k, int64_t cols,
                                uint32_t* to) {
        for (int64_t p = 0; p < k; p += 2, to += panel_columns) {
            const BFloat16 *first = b + p * ldb, *second = first + ldb;
            if (p + 1 < k)
                for (int64_t j = 0; j < cols; ++j)
                    to[j] = first[j].bits | static_cast<uint32_t>(second[j].bits) << 16;
            else
                for (int64_t j = 0; j < cols; ++j) to[j] = first[j].bits;
            for (int64_t j = cols; j < panel_columns; ++j) to[j] = 0;
        }
    }
};

/// The same of a transposed one, whose columns lie as rows.
void pack_columns(const BFloat16* b, int64_t ldb, int64_t k, int64_t cols, uint32_t* to) {
    const int64_t pairs = k / 2;
    if (cols < panel_columns)
        std::memset(to, 0, static_cast<size_t>((k + 1) / 2 * panel_columns) * sizeof(uint32_t));
    if (ldb % 2 == 0 && pairs > 0) {
        const int64_t shape[] = {pairs, cols}, steps[] = {panel_columns, 1}, from[] = {1, ldb / 2};
        copy_strided(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(b), 4, shape, steps,
                     from);
    } else {
        for (int64_t j = 0; j < cols; ++j)
            for (int64_t p = 0; p < pairs; ++p)
                std::memcpy(to + p * panel_columns + j, b + j * ldb + 2 * p, 4);
    }
    for (int64_t j = 0; j < cols && k % 2; ++j)
        to[pairs * panel_columns + j] = b[j * ldb + k - 1].bits;
}

/// Rows of C at once: alpha times the sums, plus beta times D, rounded.
struct Finish {
    WEFT_INLINE static void run(const float* sums, int64_t rows, int64_t cols, float alpha,
                                float beta, const BFloat16* d, int64_t ldd, BFloat16* c,
                                int64_t ldc) {
        for (int64_t r = 0; r < rows; ++r, sums += panel_columns, c += ldc, d += d ? ldd : 0) {
            if (d)
                for (int64_t j = 0; j < cols; ++j)
                    c[j] = BFloat16(alpha * sums[j] + beta * static_cast<float>(d[j]));
            else
                for (int64_t j = 0; j < cols; ++j) c[j] = BFloat16(alpha * sums[j]);
        }
    }
};

/// All rows of an A with whole pairs by one packed panel.
struct PanelOfAll {
    template <int Rows>
    WEFT_INLINE static void tile(int64_t vecs, int64_t pairs, const BFloat16* a, int64_t lda,
                                 const uint32_t* panel, float* sums) {
        if (vecs == 4) Bf16Tile<Rows, 4>::run(pairs, a, lda, panel, sums);
        else if (vecs == 3) Bf16Tile<Rows, 3>::run(pairs, a, lda, panel, sums);
        else if (vecs == 2) Bf16Tile<Rows, 2>::run(pairs, a, lda, panel, sums);
        else Bf16Tile<Rows, 1>::run(pairs, a, lda, panel, sums);
    }
    WEFT_INLINE static void run(const Bf16Product* product, const BFloat16* a, int64_t lda,
                                const uint32_t* panel, int64_t first, int64_t last, int64_t j,
                                int64_t cols, BFloat16* c) {
        const Bf16Product& q = *product;
        const int64_t pairs = (q.k + 1) / 2, vecs = (cols + lanes - 1) / lanes;
        alignas(64) float sums[most_rows * panel_columns];
        for (int64_t i = first; i < last;) {
            const int64_t rows = last - i >= most_rows ? most_rows : last - i >= 2 ? 2 : 1;
            const BFloat16* from = a + i * lda;
            if (rows == most_rows) tile<most_rows>(vecs, pairs, from, lda, panel, sums);
            else if (rows == 2) tile<2>(vecs, pairs, from, lda, panel, sums);
            else tile<1>(vecs, pairs, from, lda, panel, sums);
            Finish::run(sums, rows, cols, q.alpha, q.beta, q.d ? q.d + i * q.ldd + j : nullptr,
                        q.ldd, c + i * q.n + j, q.n);
            i += rows;
        }
    }
};

/// A as rows of whole pairs: itself, or a copy in `memory`.
const BFloat16* rows_of_pairs(const Bf16Product& q, const BFloat16* a, int64_t& lda,
                              std::vector<BFloat16>& memory) {
    if (q.trans_a == Trans::No && q.k % 2 == 0) return a;
    const int64_t width = q.k + q.k % 2;
    memory.assign(static_cast<size_t>(q.m * width), BFloat16(0.0f));
    const bool turned = q.trans_a == Trans::Yes;
    const int64_t shape[] = {q.m, q.k}, to[] = {width, 1};
    const int64_t from[] = {turned ? 1 : lda, turned ? lda : 1};
    copy_strided(reinterpret_cast<char*>(memory.data()), reinterpret_cast<const char*>(a), 2, shape,
                 to, from);
    lda = width;
    return memory.data();
}

}  // namespace

void bf16_gemm(const Bf16Product& q) {
    const int64_t panels = (q.n + panel_columns - 1) / panel_columns;
    const bool is_small = 1.0 * q.batch * q.m * q.n * q.k < 1 << 22;
    const int64_t grain = is_small ? q.batch : std::max<int64_t>(1, (1 << 22) / (q.m * q.n * q.k));
    const auto one = [&](int64_t at, int64_t begin, int64_t end) {
        std::vector<BFloat16> memory;
        std::vector<uint32_t> panel(static_cast<size_t>((q.k + 1) / 2 * panel_columns));
        int64_t lda = q.lda;
        const BFloat16* const a = rows_of_pairs(q, q.a + at * q.step_a, lda, memory);
        const BFloat16* const b = q.b + at * q.step_b;
        for (int64_t p = begin; p < end; ++p) {
            const int64_t j = p * panel_columns;
            const int64_t cols = std::min<int64_t>(panel_columns, q.n - j);
            if (q.trans_b == Trans::Yes)
                pack_columns(b + j * q.ldb, q.ldb, q.k, cols, panel.data());
            else per_isa<PackRows>(b + j, q.ldb, q.k, cols, panel.data());
            IsaVersions<PanelOfAll, const Bf16Product*, const BFloat16*, int64_t, const uint32_t*,
                        int64_t, int64_t, int64_t, int64_t, BFloat16*>::avx512(&q, a, lda,
                                                                               panel.data(), 0, q.m,
                                                                               j, cols,
                                                                               q.c +
                                                                                   at * q.m * q.n);
        }
    };
    if (q.batch > 1)
        return parallel_for(q.batch, grain, [&](int64_t begin, int64_t end) {
            for (int64_t at = begin; at < end; ++at) one(at, 0, panels);
        });
    parallel_for(panels, is_small ? panels : 1,
                 [&](int64_t begin, int64_t end) { one(0, begin, end); });
}
#else
void bf16_gemm(const Bf16Product&) {}
#endif

}  // namespace weft::kernels
