/// Cuts a reduction over Axis for the pool, by its shape alone, and joins the partial results: see
/// Note [Same bits on any number of threads].
///
/// A Part is what a stretch of the axis is reduced to: default-constructed it is the identity,
/// `join(other)` appends the part that follows.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/function_ref.h"
#include "base/parallel.h"
#include "kernels/reduce.h"
#include "kernels/simd.h"
#include "kernels/vector.h"

namespace weft::kernels {

/// Elements that one thread takes at a time: several microseconds' worth.
inline constexpr int64_t piece = 1 << 16;
/// Columns reduced together: their accumulators stay in the level-1 cache.
inline constexpr int64_t strip = 256;
/// Rows that a strip sums in T before the sums go into a Part.
inline constexpr int64_t rows_per_block = 32;
/// Narrower rows than this are taken several at a time, as one wide row.
inline constexpr int64_t narrow = 64;

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Stores results first .. first + count - 1.
template <class Part>
using Emit = FunctionRef<void(int64_t first, int64_t count, const Part* parts)>;

/// Rows {outer, n, 1}: `reduce(at, count, part)` joins the `count` elements at offset `at`.
template <class Part>
[[gnu::noinline]] void over_rows(Axis a, FunctionRef<void(int64_t, int64_t, Part*)> reduce,
                                 Emit<Part> emit) {
    constexpr int64_t batch = 64;
    const int64_t chunks = a.n >= 2 * piece ? divide_up(a.n, piece) : 1;
    if (chunks == 1) {
        const int64_t grain = std::max<int64_t>(1, piece / std::max<int64_t>(1, a.n));
        return parallel_for(a.outer, grain, [&](int64_t begin, int64_t end) {
            for (int64_t first = begin; first < end; first += batch) {
                const int64_t count = std::min(batch, end - first);
                Part parts[batch];
                for (int64_t i = 0; i < count; ++i) reduce((first + i) * a.n, a.n, parts + i);
                emit(first, count, parts);
            }
        });
    }
    std::vector<Part> parts(a.outer * chunks);
    parallel_for(a.outer * chunks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t first = i % chunks * piece;
            reduce(i / chunks * a.n + first, std::min(piece, a.n - first), &parts[i]);
        }
    });
    for (int64_t o = 0; o < a.outer; ++o) {
        Part& total = parts[o * chunks];
        for (int64_t c = 1; c < chunks; ++c) total.join(parts[o * chunks + c]);
        emit(o, 1, &total);
    }
}

/// Part j joins `rows` elements from `at + j` on, `stride` apart, for j < width <= strip. The first
/// column lies `column` behind the first of its outer index.
template <class Part>
using ReduceStrip = FunctionRef<void(int64_t at, int64_t rows, int64_t stride, int64_t width,
                                     int64_t column, Part* parts)>;

/// How over_columns cuts: `together` rows are taken as one wide row, `chunks` along the axis.
struct ColumnCut {
    int64_t together, wide, rows, strips, width, rows_per_chunk, chunks;
    ColumnCut(Axis a, bool widen)
        : together(widen && a.inner < narrow && a.n >= 4 * (narrow / a.inner) ? narrow / a.inner
                                                                              : 1),
          wide(together * a.inner), rows(a.n / together), strips(divide_up(a.inner, strip)),
          width(std::min(wide, strip)), rows_per_chunk(std::max(rows_per_block, piece / width)),
          chunks(a.outer * strips < 32 && rows >= 2 * rows_per_chunk
                     ? divide_up(rows, rows_per_chunk)
                     : 1) {}
};

/// Columns {outer, n, inner}. `widen` allows to take several narrow rows as one wide row, whose
/// columns are joined in the end.
template <class Part>
[[gnu::noinline]] void over_columns(Axis a, bool widen, ReduceStrip<Part> reduce, Emit<Part> emit) {
    const ColumnCut cut(a, widen);
    const auto chunk_of = [&](int64_t i, int64_t c, Part* parts) {
        const int64_t o = i / cut.strips, column = i % cut.strips * strip;
        const int64_t first = c * cut.rows_per_chunk;
        const int64_t count =
            cut.chunks == 1 ? cut.rows : std::min(cut.rows_per_chunk, cut.rows - first);
        reduce(o * a.n * a.inner + first * cut.wide + column, count, cut.wide,
               std::min(strip, cut.wide - column), column, parts);
    };
    const auto finish = [&](int64_t i, Part* parts) {
        const int64_t o = i / cut.strips, column = i % cut.strips * strip;
        const int64_t columns = std::min(strip, a.inner - column);
        for (int64_t g = 1; g < cut.together; ++g)
            for (int64_t j = 0; j < columns; ++j) parts[j].join(parts[g * a.inner + j]);
        if (const int64_t rest = a.n % cut.together)
            reduce((o * a.n + cut.rows * cut.together) * a.inner, rest, a.inner, columns, 0, parts);
        emit(o * a.inner + column, columns, parts);
    };
    const int64_t tasks = a.outer * cut.strips;
    if (cut.chunks == 1) {
        const int64_t grain = std::max<int64_t>(1, piece / (cut.width * (cut.rows + 1)));
        return parallel_for(tasks, grain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                Part parts[strip] = {};
                chunk_of(i, 0, parts);
                finish(i, parts);
            }
        });
    }
    std::vector<Part> all(tasks * cut.chunks * cut.width);
    parallel_for(tasks * cut.chunks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            chunk_of(i / cut.chunks, i % cut.chunks, &all[i * cut.width]);
    });
    for (int64_t i = 0; i < tasks; ++i) {
        Part* parts = &all[i * cut.chunks * cut.width];
        for (int64_t c = 1; c < cut.chunks; ++c)
            for (int64_t j = 0; j < cut.width; ++j) parts[j].join(parts[c * cut.width + j]);
        finish(i, parts);
    }
}

/// Op has a Lane (what a block of rows is merged in), a Part, `start`, `merge(lane, x)` and
/// `flush(part, lane)`: the plain loops for those.
template <class Op, class T>
struct PlainRow {
    WEFT_INLINE static void run(const T* x, int64_t n, typename Op::Part* part) {
        for (int64_t first = 0; first < n; first += 4096) {
            typename Op::Lane acc = Op::start;
            const int64_t end = std::min<int64_t>(n, first + 4096);
            for (int64_t i = first; i < end; ++i) acc = Op::merge(acc, x[i]);
            Op::flush(*part, acc);
        }
    }
};

/// With `static constexpr bool in_registers = true` the lanes of several columns stay there while a
/// block of rows goes by, which is as fast as they are read, and more code.
template <class Op, class T>
struct Strip {
    using Lane = typename Op::Lane;
    using Part = typename Op::Part;

    WEFT_INLINE static void run(const T* x, int64_t rows, int64_t stride, int64_t width,
                                Part* parts) {
        for (int64_t first = 0; first < rows; first += rows_per_block) {
            const int64_t end = std::min(rows, first + rows_per_block);
            int64_t begin = 0;
            if constexpr (requires { requires Op::in_registers; }) {
                constexpr int64_t few = 256 / static_cast<int64_t>(sizeof(Lane));
#pragma GCC unroll 1
                for (; begin + few <= width; begin += few)
                    in_registers<few>(x + first * stride + begin, end - first, stride,
                                      parts + begin);
            }
            Lane acc[strip];
            for (int64_t j = begin; j < width; ++j) acc[j] = Op::start;
            for (int64_t i = first; i < end; ++i) {
                const T* from = x + i * stride;
                for (int64_t j = begin; j < width; ++j) acc[j] = Op::merge(acc[j], from[j]);
            }
            for (int64_t j = begin; j < width; ++j) {
                Op::flush(parts[j], acc[j]);
                vec::opaque(j);
            }
        }
    }

private:
    template <int64_t Width>
    WEFT_INLINE static void in_registers(const T* x, int64_t rows, int64_t stride, Part* parts) {
        Lane acc[Width];
        for (int64_t j = 0; j < Width; ++j) acc[j] = Op::start;
#pragma GCC unroll 1
        for (int64_t i = 0; i < rows; ++i, x += stride)
            for (int64_t j = 0; j < Width; ++j) acc[j] = Op::merge(acc[j], x[j]);
        for (int64_t j = 0; j < Width; ++j) Op::flush(parts[j], acc[j]);
    }
};

/// Reduces with Op, which also has `row(x, n, part)` for a contiguous row.
template <class Op, class T>
void reduce_with(const T* x, Axis a, Emit<typename Op::Part> emit) {
    using Part = typename Op::Part;
    if (a.outer <= 0 || a.inner <= 0) return;
    if (a.inner == 1)
        return over_rows<Part>(
            a, [x](int64_t at, int64_t count, Part* part) { Op::row(x + at, count, part); }, emit);
    over_columns<Part>(
        a, true,
        [x](int64_t at, int64_t rows, int64_t stride, int64_t width, int64_t, Part* parts) {
            per_isa<Strip<Op, T>>(x + at, rows, stride, width, parts);
        },
        emit);
}

}  // namespace weft::kernels
