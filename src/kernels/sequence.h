/// Recurrent layers over whole sequences: one direction of one layer with its input's products.
///
/// Rows are packed by step: the first step of every sequence, then the second step of those that
/// have one, ... `batch_sizes` says how many rows each step has and never grows; equal lengths are
/// the case where all are equal. N is their sum.
///
/// Note [A few steps at a time]
/// Some products need not wait for the step before: the input's share of the gates and, in
/// backward, the gradients of the input and the weights. They are made for a block of steps, about
/// 128 rows, just before or just after those are run, so the gates of a block are written, read and
/// read again in the second-level cache. Made for all steps at once each product would fetch them
/// from the third level, which costs more than small products do.
#pragma once
#include <cstdint>

namespace weft::kernels {

enum class Cell : uint8_t { Tanh, Relu, Gru, Lstm };

/// Rows of gates per unit, and what is kept per unit for the backward pass: the state after (Tanh,
/// Relu); r, z, n, the state's share of n and the state after (Gru); i, f, g, o, the cell state
/// after and its tanh (Lstm, where the state after is o times that).
constexpr int gates_of(Cell c) { return c == Cell::Lstm ? 4 : c == Cell::Gru ? 3 : 1; }
constexpr int kept_of(Cell c) { return c == Cell::Lstm ? 6 : c == Cell::Gru ? 5 : 1; }

struct SequenceSizes {
    Cell cell;
    const int64_t* batch_sizes;
    int64_t steps, inputs, width;
    bool reverse;  ///< from the last step to the first

    int64_t batch() const { return steps ? batch_sizes[0] : 0; }
    int64_t rows() const {
        int64_t n = 0;
        for (int64_t t = 0; t < steps; ++t) n += batch_sizes[t];
        return n;
    }
};

/// What a layer reads; everything dense. I = inputs, d = width, G = gates_of(cell).
template <class T>
struct SequenceLayer {
    const T* x;            ///< [N, I]
    const T *w_ih, *w_hh;  ///< [G d, I], [G d, d]
    const T *b_ih, *b_hh;  ///< [G d] each, or null
};

/// h [B, d] and, for Lstm, c [B, d]: the first state on entry, each sequence's last one on return.
/// Written: out [N, d] and kept [N, kept_of(cell) d], which may be null.
template <class T>
void run_sequence(const SequenceSizes& n, const SequenceLayer<T>& layer, T* h, T* c, T* out,
                  T* kept);

/// What the backward pass reads. `grad` is that of `out`, rows `grad_stride` apart (0: one row for
/// all), or null for zeros; h and c are the first states; dh, dc [B, d] the gradients of the last
/// states on entry, of the first ones on return.
template <class T>
struct SequenceBack {
    const T* grad;
    int64_t grad_stride;
    const T *w_hh, *kept, *h, *c;
    T *dh, *dc;
};

/// Written: dgates [N, G d], the gradient of the input's share of the gates; for Gru dstate
/// [N, G d], that of the state's share (elsewhere they are one); before [N, d], the state that each
/// row started from. The gradient of w_hh is dstate^T before, and so on.
template <class T>
void run_sequence_backward(const SequenceSizes& n, const SequenceBack<T>& back, T* dgates,
                           T* dstate, T* before);

/// The sums that a layer's inputs get; null where not wanted. That of b_hh is b_ih's but for Gru.
template <class T>
struct SequenceGradients {
    T *x, *w_ih, *w_hh, *b_ih, *b_hh;
};

/// The same for the sums, without the factors. N >= 1.
template <class T>
void run_sequence_gradients(const SequenceSizes& n, const SequenceBack<T>& back, const T* x,
                            const T* w_ih, const SequenceGradients<T>& to);

}  // namespace weft::kernels
