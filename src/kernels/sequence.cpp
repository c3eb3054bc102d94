#include "kernels/sequence.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/parallel.h"
#include "kernels/math.h"
#include "kernels/matmul.h"
#include "kernels/panel_gemm.h"
#include "kernels/simd.h"

namespace weft::kernels {
namespace {

/// Units that one thread takes at a time: about 20 microseconds.
constexpr int64_t unit_grain = 1 << 12;

template <class Body>
void for_rows(int64_t rows, int64_t width, const Body& body) {
    parallel_for(rows, std::max<int64_t>(1, unit_grain / std::max<int64_t>(1, width)), body);
}

/// One row of a step, forward: x the input's share of the gates, s the state's.
template <class T>
struct Row {
    const T *x, *s;
    T *h, *c, *out, *kept;
};

/// One row of a step, backward: g the gradient of the new state, replaced by that part of the old
/// state's that does not come through the gates.
template <class T>
struct RowBack {
    const T *before, *kept;
    T *g, *dc, *dx, *ds;
};

template <Cell cell>
struct Step;

template <>
struct Step<Cell::Tanh> {
    template <class T>
    WEFT_INLINE static void forward(int64_t d, Row<T> r) {
#pragma GCC ivdep
        for (int64_t j = 0; j < d; ++j) r.out[j] = r.kept[j] = r.h[j] = math::tanh(r.x[j] + r.s[j]);
    }
    template <class T>
    WEFT_INLINE static void backward(int64_t d, RowBack<T> r) {
#pragma GCC ivdep
        for (int64_t j = 0; j < d; ++j) {
            r.dx[j] = r.g[j] * (1 - r.kept[j] * r.kept[j]);
            r.g[j] = 0;
        }
    }
};

template <>
struct Step<Cell::Relu> {
    template <class T>
    WEFT_INLINE static void forward(int64_t d, Row<T> r) {
#pragma GCC ivdep
        for (int64_t j = 0; j < d; ++j) {
            const T v = r.x[j] + r.s[j];
            r.out[j] = r.kept[j] = r.h[j] = v <= 0 ? T(0) : v;  // NaN stays
        }
    }
    template <class T>
    WEFT_INLINE static void backward(int64_t d, RowBack<T> r) {
#pragma GCC ivdep
        for (int64_t j = 0; j < d; ++j) {
            r.dx[j] = r.kept[j] <= 0 ? T(0) : r.g[j];
            r.g[j] = 0;
        }
    }
};

template <>
struct Step<Cell::Gru> {
    template <class T>
    WEFT_INLINE static void forward(int64_t d, Row<T> row) {
#pragma GCC ivdep
        for (int64_t j = 0; j < d; ++j) {
            const T share = row.s[2 * d + j];
            const T r = math::sigmoid(row.x[j] + row.s[j]);
            const T z = math::sigmoid(row.x[d + j] + row.s[d + j]);
            const T n = math::tanh(row.x[2 * d + j] + r * share);
            row.kept[j] = r;
            row.kept[d + j] = z;
            row.kept[2 * d + j] = n;
            row.kept[3 * d + j] = share;
            row.out[j] = row.h[j] = n + z * (row.h[j] - n);
        }
    }
    template <class T>
    WEFT_INLINE static void backward(int64_t d, RowBack<T> row) {
#pragma GCC ivdep
        for (int64_t j = 0; j < d; ++j) {
            const T r = row.kept[j], z = row.kept[d + j], n = row.kept[2 * d + j], g = row.g[j];
            const T dn = g * (1 - z) * (1 - n * n);
            const T dz = g * (row.before[j] - n) * z * (1 - z);
            const T dr = dn * row.kept[3 * d + j] * r * (1 - r);
            row.dx[j] = row.ds[j] = dr;
            row.dx[d + j] = row.ds[d + j] = dz;
            row.dx[2 * d + j] = dn;
            row.ds[2 * d + j] = dn * r;
            row.g[j] = g * z;
        }
    }
};

template <>
struct Step<Cell::Lstm> {
    template <class T>
    WEFT_INLINE static void forward(int64_t d, Row<T> row) {
#pragma GCC ivdep
        for (int64_t j = 0; j < d; ++j) {
            const T i = math::sigmoid(row.x[j] + row.s[j]);
            const T f = math::sigmoid(row.x[d + j] + row.s[d + j]);
            const T g = math::tanh(row.x[2 * d + j] + row.s[2 * d + j]);
            const T o = math::sigmoid(row.x[3 * d + j] + row.s[3 * d + j]);
            const T c = f * row.c[j] + i * g, t = math::tanh(c);
            row.kept[j] = i;
            row.kept[d + j] = f;
            row.kept[2 * d + j] = g;
            row.kept[3 * d + j] = o;
            row.kept[4 * d + j] = row.c[j];
            row.kept[5 * d + j] = t;
            row.c[j] = c;
            row.out[j] = row.h[j] = o * t;
        }
    }
    template <class T>
    WEFT_INLINE static void backward(int64_t d, RowBack<T> row) {
#pragma GCC ivdep
        for (int64_t j = 0; j < d; ++j) {
            const T i = row.kept[j], f = row.kept[d + j], g = row.kept[2 * d + j];
            const T o = row.kept[3 * d + j], t = row.kept[5 * d + j];
            const T dc = row.dc[j] + row.g[j] * o * (1 - t * t);
            row.dx[j] = dc * g * i * (1 - i);
            row.dx[d + j] = dc * row.kept[4 * d + j] * f * (1 - f);
            row.dx[2 * d + j] = dc * i * (1 - g * g);
            row.dx[3 * d + j] = row.g[j] * t * o * (1 - o);
            row.dc[j] = dc * f;
            row.g[j] = 0;
        }
    }
};

template <Cell cell, class T>
struct ForwardRows {
    WEFT_INLINE static void run(int64_t rows, int64_t d, Row<T> row) {
        constexpr int G = gates_of(cell), K = kept_of(cell);
        for (int64_t i = 0; i < rows; ++i)
            Step<cell>::template forward<T>(
                d, {row.x + i * G * d, row.s + i * G * d, row.h + i * d,
                    cell == Cell::Lstm ? row.c + i * d : nullptr, row.out + i * d,
                    row.kept + i * K * d});
    }
};

template <Cell cell, class T>
struct BackwardRows {
    WEFT_INLINE static void run(int64_t rows, int64_t d, RowBack<T> row) {
        constexpr int G = gates_of(cell), K = kept_of(cell);
        for (int64_t i = 0; i < rows; ++i)
            Step<cell>::template backward<T>(
                d, {row.before + i * d, row.kept + i * K * d, row.g + i * d,
                    cell == Cell::Lstm ? row.dc + i * d : nullptr, row.dx + i * G * d,
                    cell == Cell::Gru ? row.ds + i * G * d : nullptr});
    }
};

template <class T>
struct AddTo {
    WEFT_INLINE static void run(T* to, const T* x, int64_t n) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) to[i] += x[i];
    }
};

/// Calls body(first row, rows) for every step, in order of running or against it.
template <class Body>
void for_steps(const SequenceSizes& n, bool backwards, const Body& body) {
    const int64_t all = n.rows();
    const bool from_last = n.reverse != backwards;
    int64_t at = from_last ? all : 0;
    for (int64_t i = 0; i < n.steps; ++i) {
        const int64_t rows = n.batch_sizes[from_last ? n.steps - 1 - i : i];
        if (from_last) at -= rows;
        body(at, rows);
        if (!from_last) at += rows;
    }
}

/// The product of each step's rows with one and the same matrix, C = A * op(B) + beta * C.
template <class T>
class StepProduct {
public:
    /// Steps from which on packing B pays, and rows of the smallest tile that is any good.
    static constexpr int64_t few_steps = 3, few_rows = 4;

    StepProduct(const SequenceSizes& sizes, Trans trans, int64_t n, int64_t k, const T* b,
                int64_t ldb)
        : trans_(trans), n_(n), k_(k), b_(b), ldb_(ldb) {
        if (sizes.steps >= few_steps && sizes.batch() > few_rows && PackedRight<T>::pays())
            packed_.emplace(trans == Trans::Yes, n, k, b, ldb);
    }
    void operator()(int64_t m, const T* a, T beta, T* c) const {
        if (packed_)
            packed_->multiply(m, a, k_, beta, c, n_);
        else
            gemm<T>(Trans::No, trans_, m, n_, k_, T(1), a, k_, b_, ldb_, beta, c, n_);
    }

private:
    Trans trans_;
    int64_t n_, k_;
    const T* b_;
    int64_t ldb_;
    std::optional<PackedRight<T>> packed_;
};

template <Cell cell, class T>
void forward(const SequenceSizes& n, const T* gates, const T* w, const T* bias, T* h, T* c, T* out,
             T* before, T* kept) {
    constexpr int G = gates_of(cell), K = kept_of(cell);
    const int64_t d = n.width, wide = G * d;
    std::unique_ptr<T[]> share(new T[n.batch() * wide]);
    const StepProduct<T> product(n, Trans::Yes, wide, d, w, d);
    for_steps(n, false, [&](int64_t at, int64_t rows) {
        std::copy_n(h, rows * d, before + at * d);
        if (bias)
            for (int64_t i = 0; i < rows; ++i) std::copy_n(bias, wide, &share[i * wide]);
        product(rows, h, T(bias ? 1 : 0), share.get());
        for_rows(rows, d, [&](int64_t begin, int64_t end) {
            Row<T> row{gates + (at + begin) * wide, &share[begin * wide], h + begin * d,
                       c ? c + begin * d : nullptr, out + (at + begin) * d,
                       kept + (at + begin) * K * d};
            per_isa<ForwardRows<cell, T>>(end - begin, d, row);
        });
    });
}

template <Cell cell, class T>
void backward(const SequenceSizes& n, const T* grad, const T* w, const T* before, const T* kept, T* dh,
              T* dc, T* dgates, T* dstate) {
    constexpr int G = gates_of(cell), K = kept_of(cell);
    const int64_t d = n.width, wide = G * d;
    const StepProduct<T> product(n, Trans::No, d, wide, w, d);
    for_steps(n, true, [&](int64_t at, int64_t rows) {
        for_rows(rows, d, [&](int64_t begin, int64_t end) {
            const int64_t from = at + begin;
            if (grad) per_isa<AddTo<T>>(dh + begin * d, grad + from * d, (end - begin) * d);
            RowBack<T> row{before + from * d,          kept + from * K * d,
                           dh + begin * d,             dc ? dc + begin * d : nullptr,
                           dgates + from * wide,       dstate ? dstate + from * wide : nullptr};
            per_isa<BackwardRows<cell, T>>(end - begin, d, row);
        });
        product(rows, (dstate ? dstate : dgates) + at * wide, T(1), dh);
    });
}

/// Calls f.template operator()<cell>().
template <class F>
void with_cell(Cell cell, const F& f) {
    switch (cell) {
        case Cell::Tanh: return f.template operator()<Cell::Tanh>();
        case Cell::Relu: return f.template operator()<Cell::Relu>();
        case Cell::Gru: return f.template operator()<Cell::Gru>();
        case Cell::Lstm: return f.template operator()<Cell::Lstm>();
    }
}

}  // namespace

template <class T>
void run_sequence(const SequenceSizes& n, const T* gates, const T* w, const T* bias, T* h, T* c,
                  T* out, T* before, T* kept) {
    with_cell(n.cell, [&]<Cell cell>() { forward<cell>(n, gates, w, bias, h, c, out, before, kept); });
}

template <class T>
void run_sequence_backward(const SequenceSizes& n, const T* grad, const T* w, const T* before,
                           const T* kept, T* dh, T* dc, T* dgates, T* dstate) {
    with_cell(n.cell,
              [&]<Cell cell>() { backward<cell>(n, grad, w, before, kept, dh, dc, dgates, dstate); });
}

#define WEFT_SEQUENCE(T)                                                                           \
    template void run_sequence<T>(const SequenceSizes&, const T*, const T*, const T*, T*, T*, T*,  \
                                  T*, T*);                                                         \
    template void run_sequence_backward<T>(const SequenceSizes&, const T*, const T*, const T*,     \
                                           const T*, T*, T*, T*, T*);
WEFT_SEQUENCE(float)
WEFT_SEQUENCE(double)
#undef WEFT_SEQUENCE

}  // namespace weft::kernels
