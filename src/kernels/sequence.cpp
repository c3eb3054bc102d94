#include "kernels/sequence.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "kernels/matmul.h"
#include "kernels/panel_gemm.h"
#include "kernels/reduce.h"
#include "kernels/sequence_cells.h"

namespace weft::kernels {
namespace {

/// Units that one thread takes at a time: about 20 microseconds.
constexpr int64_t unit_grain = 1 << 12;
/// Rows of a block, unless one step has more. A transposed product reads 128 before it adds them to
/// its result, and the gates of 128 units take a fifth of level 2. Where the weights themselves do
/// not fit there, a block passes them once through the third level, so blocks are larger: 512 units
/// run 1.1 times as fast with the second number as with the first, 256 the other way round.
constexpr int64_t short_block = 128, long_block = 1024, weight_bytes = int64_t{2} << 20;

template <class T>
int64_t block_rows(const SequenceSizes& n) {
    const int64_t weights = gates_of(n.cell) * n.width * (n.width + n.inputs);
    return weights * static_cast<int64_t>(sizeof(T)) <= weight_bytes ? short_block : long_block;
}

template <class Body>
void for_rows(int64_t rows, int64_t width, const Body& body) {
    parallel_for(rows, std::max<int64_t>(1, unit_grain / std::max<int64_t>(1, width)), body);
}

template <Cell cell, class T>
struct ForwardRows {
    WEFT_INLINE static void run(int64_t rows, int64_t d, Row<T> row) {
        constexpr int G = gates_of(cell), K = kept_of(cell);
        for (int64_t i = 0; i < rows; ++i)
            Step<cell>::template forward<T>(
                d, {row.kept + i * K * d, cell == Cell::Gru ? row.share + i * G * d : nullptr,
                    row.bias, row.inside, row.h + i * d,
                    cell == Cell::Lstm ? row.c + i * d : nullptr, row.out + i * d});
    }
};

template <Cell cell, class T>
struct BackwardRows {
    WEFT_INLINE static void run(int64_t rows, int64_t d, RowBack<T> row, int64_t c_stride,
                                int64_t grad_stride) {
        constexpr int G = gates_of(cell), K = kept_of(cell);
        for (int64_t i = 0; i < rows; ++i)
            Step<cell>::template backward<T>(
                d, {row.kept + i * K * d, row.before + i * d,
                    cell == Cell::Lstm ? row.c_before + i * c_stride : nullptr,
                    row.grad + i * grad_stride, row.g + i * d,
                    cell == Cell::Lstm ? row.dc + i * d : nullptr, row.dx + i * G * d,
                    cell == Cell::Gru ? row.ds + i * G * d : nullptr});
    }
};

/// The states that are kept.
template <Cell cell, class T>
struct States {
    WEFT_INLINE static void run(int64_t rows, int64_t d, const T* kept, T* to) {
        for (int64_t i = 0; i < rows; ++i, kept += kept_of(cell) * d, to += d)
#pragma GCC ivdep
            for (int64_t j = 0; j < d; ++j) to[j] = Step<cell>::template state<T>(kept, d, j);
    }
};

struct StepRows {
    int64_t at, rows;
};

/// The steps in order of running, and their blocks of up to `most` rows: begin(b) is the first step
/// of block b.
class Steps {
public:
    Steps(const SequenceSizes& n, int64_t most) {
        int64_t at = n.reverse ? n.rows() : 0;
        for (int64_t i = 0; i < n.steps; ++i) {
            const int64_t rows = n.batch_sizes[n.reverse ? n.steps - 1 - i : i];
            if (n.reverse) at -= rows;
            steps_.push_back({at, rows});
            if (!n.reverse) at += rows;
        }
        int64_t rows = 0;
        for (int64_t i = 0; i < n.steps; ++i) {
            if (i == 0 || rows + steps_[i].rows > most) {
                begins_.push_back(i);
                rows = 0;
            }
            rows += steps_[i].rows;
        }
        begins_.push_back(n.steps);
    }
    const StepRows& operator[](int64_t i) const { return steps_[i]; }
    int64_t blocks() const { return static_cast<int64_t>(begins_.size()) - 1; }
    int64_t begin(int64_t block) const { return begins_[block]; }
    StepRows block(int64_t b) const {
        const StepRows &first = steps_[begins_[b]], &last = steps_[begins_[b + 1] - 1];
        const int64_t at = std::min(first.at, last.at);
        return {at, std::max(first.at + first.rows, last.at + last.rows) - at};
    }
    int64_t largest_block() const {
        int64_t rows = 0;
        for (int64_t b = 0; b < blocks(); ++b) rows = std::max(rows, block(b).rows);
        return rows;
    }

private:
    std::vector<StepRows> steps_;
    std::vector<int64_t> begins_;
};

/// The products of several groups of rows with one and the same matrix: C = A * op(B) + beta * C.
template <class T>
class SharedProduct {
public:
    /// Groups from which on packing B pays, and rows of the smallest tile that is any good.
    static constexpr int64_t few_groups = 3, few_rows = 4;

    SharedProduct(int64_t groups, int64_t rows, Trans trans, int64_t n, int64_t k, const T* b,
                  int64_t ldb)
        : trans_(trans), n_(n), k_(k), b_(b), ldb_(ldb) {
        if (groups >= few_groups && rows > few_rows && k > 0 && PackedRight<T>::pays())
            packed_.emplace(trans == Trans::Yes, n, k, b, ldb);
    }
    void operator()(int64_t m, const T* a, T beta, T* c, int64_t ldc) const {
        if (m == 0) return;
        if (packed_) packed_->multiply(m, a, k_, beta, c, ldc);
        else gemm<T>(Trans::No, trans_, m, n_, k_, T(1), a, k_, b_, ldb_, beta, c, ldc);
    }

private:
    Trans trans_;
    int64_t n_, k_;
    const T* b_;
    int64_t ldb_;
    std::optional<PackedRight<T>> packed_;
};

template <class T>
std::unique_ptr<T[]> room(int64_t count) {
    return std::unique_ptr<T[]>(new T[count]);
}

/// The biases of the sums of both shares, then that of the state's share of n (Gru), or zeros.
template <Cell cell, class T>
std::unique_ptr<T[]> biases(int64_t d, const SequenceLayer<T>& layer) {
    constexpr int G = gates_of(cell);
    std::unique_ptr<T[]> bias(new T[(G + 1) * d]());
    for (int64_t j = 0; j < G * d; ++j) {
        const bool apart = cell == Cell::Gru && j >= 2 * d;
        if (layer.b_ih) bias[j] = layer.b_ih[j];
        if (layer.b_hh) bias[apart ? j + d : j] += layer.b_hh[j];
    }
    return bias;
}

template <Cell cell, class T>
void forward(const SequenceSizes& n, const SequenceLayer<T>& layer, T* h, T* c, T* out, T* kept) {
    constexpr int G = gates_of(cell), K = kept_of(cell);
    constexpr bool gru = cell == Cell::Gru;
    const int64_t d = n.width, wide = G * d;
    const Steps steps(n, block_rows<T>(n));
    const auto bias = biases<cell>(d, layer);
    const auto share = room<T>(gru ? n.batch() * wide : 0);
    const auto passing = room<T>(kept ? 0 : steps.largest_block() * K * d);
    const SharedProduct<T> from_input(steps.blocks(), steps.largest_block(), Trans::Yes, wide,
                                      n.inputs, layer.w_ih, n.inputs);
    const SharedProduct<T> from_state(n.steps, n.batch(), Trans::Yes, wide, d, layer.w_hh, d);
    for (int64_t b = 0; b < steps.blocks(); ++b) {
        const auto [first, all] = steps.block(b);
        T* const block = kept ? kept + first * K * d : passing.get();
        from_input(all, layer.x + first * n.inputs, T(0), block, K * d);
        for (int64_t s = steps.begin(b); s < steps.begin(b + 1); ++s) {
            const auto [at, rows] = steps[s];
            T* const here = block + (at - first) * K * d;
            if (gru) from_state(rows, h, T(0), share.get(), wide);
            else from_state(rows, h, T(1), here, K * d);
            for_rows(rows, d, [&, at = at](int64_t begin, int64_t end) {
                per_isa<ForwardRows<cell, T>>(
                    end - begin, d,
                    Row<T>{here + begin * K * d, gru ? &share[begin * wide] : nullptr, bias.get(),
                           &bias[wide], h + begin * d, c ? c + begin * d : nullptr,
                           out + (at + begin) * d});
            });
        }
    }
}

template <class T>
struct Factors {
    T *dgates, *dstate, *before;
};

/// The backward pass of single steps.
template <Cell cell, class T>
class StepsBack {
    static constexpr int G = gates_of(cell), K = kept_of(cell);

public:
    StepsBack(const SequenceSizes& n, const Steps& steps, const SequenceBack<T>& back)
        : d_(n.width), steps_(steps), back_(back),
          to_state_(n.steps, n.batch(), Trans::No, d_, G * d_, back.w_hh, d_),
          zeros_(back.grad ? nullptr : new T[d_]()) {}

    /// Step s, whose rows of the factors `to` points at.
    void run(int64_t s, const Factors<T>& to) const {
        const auto [at, rows] = steps_[s];
        const int64_t earlier = s ? std::min(rows, steps_[s - 1].rows) : 0;
        const T* const last = s ? back_.kept + steps_[s - 1].at * K * d_ : nullptr;
        if (earlier) per_isa<States<cell, T>>(earlier, d_, last, to.before);
        std::copy(back_.h + earlier * d_, back_.h + rows * d_, to.before + earlier * d_);
        const T* const last_c = cell == Cell::Lstm && earlier ? last + 4 * d_ : nullptr;
        pointwise(at, 0, earlier, last_c, K * d_, to);
        pointwise(at, earlier, rows, back_.c, d_, to);
        constexpr bool gru = cell == Cell::Gru;
        to_state_(rows, gru ? to.dstate : to.dgates, T(gru ? 1 : 0), back_.dh, d_);
    }

private:
    /// Rows [from, to) of a step, whose cell states before lie in c.
    void pointwise(int64_t at, int64_t from, int64_t to, const T* c, int64_t c_stride,
                   const Factors<T>& out) const {
        const int64_t stride = back_.grad ? back_.grad_stride : 0;
        for_rows(to - from, d_, [&](int64_t begin, int64_t end) {
            const int64_t i = from + begin;
            const RowBack<T> row{back_.kept + (at + i) * K * d_,
                                 out.before + i * d_,
                                 c ? c + i * c_stride : nullptr,
                                 back_.grad ? back_.grad + (at + i) * stride : zeros_.get(),
                                 back_.dh + i * d_,
                                 back_.dc ? back_.dc + i * d_ : nullptr,
                                 out.dgates + i * G * d_,
                                 out.dstate ? out.dstate + i * G * d_ : nullptr};
            per_isa<BackwardRows<cell, T>>(end - begin, d_, row, c_stride, stride);
        });
    }

    const int64_t d_;
    const Steps& steps_;
    const SequenceBack<T> back_;
    const SharedProduct<T> to_state_;
    const std::unique_ptr<T[]> zeros_;
};

template <Cell cell, class T>
void backward(const SequenceSizes& n, const SequenceBack<T>& back, const Factors<T>& to) {
    const int64_t d = n.width, wide = gates_of(cell) * d;
    const Steps steps(n, block_rows<T>(n));
    const StepsBack<cell, T> run(n, steps, back);
    for (int64_t s = n.steps; s-- > 0;) {
        const int64_t at = steps[s].at;
        run.run(s, {to.dgates + at * wide, to.dstate ? to.dstate + at * wide : nullptr,
                    to.before + at * d});
    }
}

/// to (+)= the sums of the columns of x [rows, n]; `space` has n elements.
template <class T>
void add_columns(int64_t rows, int64_t n, const T* x, bool add, T* to, T* space) {
    sum(x, add ? space : to, Axis{1, rows, n});
    if (add)
        for (int64_t j = 0; j < n; ++j) to[j] += space[j];
}

template <Cell cell, class T>
void gradients(const SequenceSizes& n, const SequenceBack<T>& back, const T* x, const T* w_ih,
               const SequenceGradients<T>& to) {
    constexpr bool gru = cell == Cell::Gru;
    const int64_t d = n.width, wide = gates_of(cell) * d, inputs = n.inputs;
    const Steps steps(n, block_rows<T>(n));
    const StepsBack<cell, T> run(n, steps, back);
    const int64_t most = steps.largest_block();
    const auto dgates = room<T>(most * wide), dstate = room<T>(gru ? most * wide : 0),
               before = room<T>(most * d), space = room<T>(wide);
    T* const shares = gru ? dstate.get() : dgates.get();
    std::optional<SharedProduct<T>> to_input;
    if (to.x) to_input.emplace(steps.blocks(), most, Trans::No, inputs, wide, w_ih, inputs);
    for (int64_t b = steps.blocks(); b-- > 0;) {
        const auto [first, rows] = steps.block(b);
        for (int64_t s = steps.begin(b + 1); s-- > steps.begin(b);) {
            const int64_t at = steps[s].at - first;
            run.run(s, {&dgates[at * wide], gru ? &dstate[at * wide] : nullptr, &before[at * d]});
        }
        const bool add = b + 1 < steps.blocks();
        const auto weight = [&, rows = rows](const T* a, const T* right, int64_t cols, T* sum) {
            if (sum)
                gemm<T>(Trans::Yes, Trans::No, wide, cols, rows, T(1), a, wide, right, cols, T(add),
                        sum, cols);
        };
        if (to_input) (*to_input)(rows, dgates.get(), T(0), to.x + first * inputs, inputs);
        weight(shares, before.get(), d, to.w_hh);
        weight(dgates.get(), x + first * inputs, inputs, to.w_ih);
        if (to.b_ih) add_columns(rows, wide, dgates.get(), add, to.b_ih, space.get());
        if (to.b_hh) add_columns(rows, wide, shares, add, to.b_hh, space.get());
    }
}

/// Calls f.template operator()<cell>().
template <class F>
void with_cell(Cell cell, const F& f) {
    switch (cell) {
        case Cell::Tanh:
            return f.template operator()<Cell::Tanh>();
        case Cell::Relu:
            return f.template operator()<Cell::Relu>();
        case Cell::Gru:
            return f.template operator()<Cell::Gru>();
        case Cell::Lstm:
            return f.template operator()<Cell::Lstm>();
    }
}

}  // namespace

template <class T>
void run_sequence(const SequenceSizes& n, const SequenceLayer<T>& layer, T* h, T* c, T* out,
                  T* kept) {
    with_cell(n.cell, [&]<Cell cell>() { forward<cell>(n, layer, h, c, out, kept); });
}

template <class T>
void run_sequence_backward(const SequenceSizes& n, const SequenceBack<T>& back, T* dgates,
                           T* dstate, T* before) {
    with_cell(n.cell, [&]<Cell cell>() { backward<cell, T>(n, back, {dgates, dstate, before}); });
}

template <class T>
void run_sequence_gradients(const SequenceSizes& n, const SequenceBack<T>& back, const T* x,
                            const T* w_ih, const SequenceGradients<T>& to) {
    with_cell(n.cell, [&]<Cell cell>() { gradients<cell>(n, back, x, w_ih, to); });
}

#define WEFT_SEQUENCE(T)                                                                           \
    template void run_sequence<T>(const SequenceSizes&, const SequenceLayer<T>&, T*, T*, T*, T*);  \
    template void run_sequence_backward<T>(const SequenceSizes&, const SequenceBack<T>&, T*, T*,   \
                                           T*);                                                    \
    template void run_sequence_gradients<T>(const SequenceSizes&, const SequenceBack<T>&,          \
                                            const T*, const T*, const SequenceGradients<T>&);
WEFT_SEQUENCE(float)
WEFT_SEQUENCE(double)
#undef WEFT_SEQUENCE

}  // namespace weft::kernels
