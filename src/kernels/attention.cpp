#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "base/parallel.h"
#include "kernels/math.h"
#include "kernels/matmul.h"
#include "kernels/row_sums.h"
#include "kernels/simd.h"
#include "kernels/vector.h"

namespace weft::kernels {
namespace {

/// A block of scores is 128 x 256 floats: it stays in the level-2 cache between the products.
constexpr int64_t query_block = 128, key_block = 256;

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();

/// One block of scores: `rows` queries from `row` on, `cols` keys from `col` on.
struct Block {
    int64_t row, rows, col, cols;
    bool causal;
    /// Keys of the block that query row + r sees.
    WEFT_INLINE int64_t seen(int64_t r) const {
        return causal ? std::clamp<int64_t>(row + r - col + 1, 0, cols) : cols;
    }
};

template <class T>
WEFT_INLINE void add_mask(T* s, const T* mask, int64_t step, int64_t n) {
    if (step == 1) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) s[i] += mask[i];
    } else {
        for (int64_t i = 0; i < n; ++i) s[i] += mask[i * step];
    }
}

/// Scores become weights relative to the largest score so far; what was summed before shrinks.
template <class T>
struct OnlineSoftmax {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(T* s, Block b, const T* mask, int64_t mask_row,
                                    int64_t mask_key, T* largest, T* total, T* out, int64_t out_row,
                                    int64_t width) {
            for (int64_t r = 0; r < b.rows; ++r, s += b.cols, out += out_row) {
                const int64_t n = b.seen(r);
                if (mask) add_mask(s, mask + r * mask_row, mask_key, n);
                const T now = n ? row_max<T, Bytes>(s, n) : -infinity<T>;
                const T top = now > largest[r] || now != now ? now : largest[r];
                if (top == -infinity<T>) {  // nothing to see yet
                    for (int64_t i = 0; i < b.cols; ++i) s[i] = 0;
                    continue;
                }
#pragma GCC ivdep
                for (int64_t i = 0; i < n; ++i) s[i] = math::exp(s[i] - top);
                for (int64_t i = n; i < b.cols; ++i) s[i] = 0;
                Total<T> sum;
                row_sum<T, Bytes>(s, n, &sum);
                if (top != largest[r]) {
                    const T shrink = math::exp(largest[r] - top);
                    total[r] *= shrink;
                    for (int64_t i = 0; i < width; ++i) out[i] *= shrink;
                    largest[r] = top;
                }
                total[r] += static_cast<T>(sum.get());
            }
        }
    };
};

template <class T>
struct FinishRows {
    WEFT_INLINE static void run(const T* largest, const T* total, T* lse, T* out, int64_t out_row,
                                int64_t rows, int64_t width) {
        for (int64_t r = 0; r < rows; ++r, out += out_row) {
            const T scale = total[r] == 0 ? T(0) : 1 / total[r];
            for (int64_t i = 0; i < width; ++i) out[i] *= scale;
            lse[r] = total[r] == 0 ? infinity<T> : largest[r] + std::log(total[r]);
        }
    }
};

/// Scores become weights, by the log-sum of the forward pass.
template <class T>
struct WeightsAgain {
    WEFT_INLINE static void run(T* s, Block b, const T* mask, int64_t mask_row, int64_t mask_key,
                                const T* lse) {
        for (int64_t r = 0; r < b.rows; ++r, s += b.cols) {
            const int64_t n = b.seen(r);
            if (mask) add_mask(s, mask + r * mask_row, mask_key, n);
            const T shift = lse[r];
#pragma GCC ivdep
            for (int64_t i = 0; i < n; ++i) s[i] = math::exp(s[i] - shift);
            for (int64_t i = n; i < b.cols; ++i) s[i] = 0;
        }
    }
};

/// The gradient of the scores: p (dp - delta), scaled.
template <class T>
struct ScoreGradient {
    WEFT_INLINE static void run(const T* p, T* dp, int64_t rows, int64_t cols, const T* delta,
                                T scale) {
        for (int64_t r = 0; r < rows; ++r, p += cols, dp += cols) {
            const T shift = delta[r];
#pragma GCC ivdep
            for (int64_t i = 0; i < cols; ++i) dp[i] = p[i] * (dp[i] - shift) * scale;
        }
    }
};

template <class T>
struct RowDots {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(const T* a, int64_t a_row, const T* b, int64_t b_row,
                                    int64_t rows, int64_t n, T* out) {
            for (int64_t r = 0; r < rows; ++r, a += a_row, b += b_row) {
                Total<T> total;
                lane_sums<T, Bytes, 1>(
                    n,
                    [a, b]<int W>(int64_t i, auto* to) __attribute__((always_inline)) {
                        to[0] = vec::load<T, W>(a + i);
                        to[0] *= vec::load<T, W>(b + i);
                    },
                    &total);
                out[r] = static_cast<T>(total.get());
            }
        }
    };
};

template <class T>
void clear_rows(T* x, int64_t row, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; ++r) std::fill_n(x + r * row, width, T(0));
}

/// Where a block's mask begins.
template <class T>
const T* mask_at(const ScoreMask<T>& m, int64_t b, int64_t h, const Block& block) {
    return m.data ? m.data + b * m.batch + h * m.head + block.row * m.row + block.col * m.key
                  : nullptr;
}

/// scores[rows, cols] = scale * q k^T.
template <class T>
void score(const AttentionSizes& n, const Heads<const T>& q, const Heads<const T>& k, int64_t b,
           int64_t h, const Block& block, T* scores) {
    gemm<T>(Trans::No, Trans::Yes, block.rows, block.cols, n.width, static_cast<T>(n.scale),
            q.at(b, h, block.row), q.row, k.at(b, h, block.col), k.row, T(0), scores, block.cols);
}

template <class T>
void attend(const AttentionSizes& n, const Heads<const T>& q, const Heads<const T>& k,
            const Heads<const T>& v, const ScoreMask<T>& mask, const Heads<T>& out, T* lse,
            int64_t b, int64_t h, int64_t row, T* scores) {
    const int64_t rows = std::min(query_block, n.queries - row);
    T largest[query_block], total[query_block];
    std::fill_n(largest, rows, -infinity<T>);
    std::fill_n(total, rows, T(0));
    T* to = out.at(b, h, row);
    clear_rows(to, out.row, rows, n.value_width);
    const int64_t end = n.causal ? std::min(n.keys, row + rows) : n.keys;
    for (int64_t col = 0; col < end; col += key_block) {
        Block block{row, rows, col, std::min(key_block, end - col), n.causal};
        score(n, q, k, b, h, block, scores);
        vec::per_width<OnlineSoftmax<T>::template Body>(scores, block, mask_at(mask, b, h, block),
                                                        mask.row, mask.key, &largest[0], &total[0],
                                                        to, out.row, n.value_width);
        gemm<T>(Trans::No, Trans::No, rows, n.value_width, block.cols, T(1), scores, block.cols,
                v.at(b, h, col), v.row, T(1), to, out.row);
    }
    per_isa<FinishRows<T>>(static_cast<const T*>(largest), static_cast<const T*>(total),
                           lse + (b * n.heads + h) * n.queries + row, to, out.row, rows,
                           n.value_width);
}

}  // namespace

template <class T>
void attention(const AttentionSizes& n, Heads<const T> q, Heads<const T> k, Heads<const T> v,
               ScoreMask<T> mask, Heads<T> out, T* lse) {
    const int64_t blocks = (n.queries + query_block - 1) / query_block;
    parallel_for(n.batch * n.heads * blocks, 1, [&](int64_t begin, int64_t end) {
        std::unique_ptr<T[]> scores(new T[query_block * std::min(key_block, n.keys)]);
        for (int64_t i = begin; i < end; ++i)
            attend(n, q, k, v, mask, out, lse, i / blocks / n.heads, i / blocks % n.heads,
                   i % blocks * query_block, scores.get());
    });
}

template <class T>
void attention_backward(const AttentionSizes& n, Heads<const T> q, Heads<const T> k,
                        Heads<const T> v, ScoreMask<T> mask, Heads<const T> out, const T* lse,
                        Heads<const T> dout, Heads<T> dq, Heads<T> dk, Heads<T> dv) {
    parallel_for(n.batch * n.heads, 1, [&](int64_t begin, int64_t end) {
        const int64_t most = query_block * std::min(key_block, n.keys);
        std::unique_ptr<T[]> memory(new T[2 * most + n.queries]);
        T *p = memory.get(), *dp = p + most, *delta = dp + most;
        for (int64_t i = begin; i < end; ++i) {
            const int64_t b = i / n.heads, h = i % n.heads;
            const T* log_sum = lse + i * n.queries;
            clear_rows(dq.at(b, h, 0), dq.row, n.queries, n.width);
            clear_rows(dk.at(b, h, 0), dk.row, n.keys, n.width);
            clear_rows(dv.at(b, h, 0), dv.row, n.keys, n.value_width);
            vec::per_width<RowDots<T>::template Body>(dout.at(b, h, 0), dout.row, out.at(b, h, 0),
                                                      out.row, n.queries, n.value_width, delta);
            for (int64_t col = 0; col < n.keys; col += key_block) {
                const int64_t cols = std::min(key_block, n.keys - col);
                const int64_t first = n.causal ? col / query_block * query_block : 0;
                for (int64_t row = first; row < n.queries; row += query_block) {
                    Block block{row, std::min(query_block, n.queries - row), col, cols, n.causal};
                    const int64_t rows = block.rows;
                    score(n, q, k, b, h, block, p);
                    per_isa<WeightsAgain<T>>(p, block, mask_at(mask, b, h, block), mask.row,
                                             mask.key, log_sum + row);
                    const T* g = dout.at(b, h, row);
                    gemm<T>(Trans::Yes, Trans::No, cols, n.value_width, rows, T(1), p, cols, g,
                            dout.row, T(1), dv.at(b, h, col), dv.row);
                    gemm<T>(Trans::No, Trans::Yes, rows, cols, n.value_width, T(1), g, dout.row,
                            v.at(b, h, col), v.row, T(0), dp, cols);
                    per_isa<ScoreGradient<T>>(static_cast<const T*>(p), dp, rows, cols,
                                              static_cast<const T*>(delta + row),
                                              static_cast<T>(n.scale));
                    gemm<T>(Trans::No, Trans::No, rows, n.width, cols, T(1), dp, cols,
                            k.at(b, h, col), k.row, T(1), dq.at(b, h, row), dq.row);
                    gemm<T>(Trans::Yes, Trans::No, cols, n.width, rows, T(1), dp, cols,
                            q.at(b, h, row), q.row, T(1), dk.at(b, h, col), dk.row);
                }
            }
        }
    });
}

#define WEFT_ATTENTION(T)                                                                          \
    template void attention<T>(const AttentionSizes&, Heads<const T>, Heads<const T>,              \
                               Heads<const T>, ScoreMask<T>, Heads<T>, T*);                        \
    template void attention_backward<T>(const AttentionSizes&, Heads<const T>, Heads<const T>,     \
                                        Heads<const T>, ScoreMask<T>, Heads<const T>, const T*,    \
                                        Heads<const T>, Heads<T>, Heads<T>, Heads<T>);
WEFT_ATTENTION(float)
WEFT_ATTENTION(double)
#undef WEFT_ATTENTION

}  // namespace weft::kernels
