/// Recurrent layers over whole sequences: the loop over steps with one product each; the input's
/// products are made before, for all steps at once.
///
/// Rows are packed by step: the first step of every sequence, then the second step of those that
/// have one, ... `batch_sizes` says how many rows each step has and never grows; equal lengths are
/// the case where all are equal. N is their sum.
#pragma once
#include <cstdint>

namespace weft::kernels {

enum class Cell : uint8_t { Tanh, Relu, Gru, Lstm };

/// Rows of gates per unit, and what is kept per unit for the backward pass: the output (Tanh,
/// Relu); r, z, n and the state's share of n (Gru); i, f, g, o, the state before and the tanh of
/// the state after (Lstm).
constexpr int gates_of(Cell c) { return c == Cell::Lstm ? 4 : c == Cell::Gru ? 3 : 1; }
constexpr int kept_of(Cell c) { return c == Cell::Lstm ? 6 : c == Cell::Gru ? 4 : 1; }

struct SequenceSizes {
    Cell cell;
    const int64_t* batch_sizes;
    int64_t steps, width;
    bool reverse;  ///< from the last step to the first

    int64_t batch() const { return steps ? batch_sizes[0] : 0; }
    int64_t rows() const {
        int64_t n = 0;
        for (int64_t t = 0; t < steps; ++t) n += batch_sizes[t];
        return n;
    }
};

/// G = gates_of(cell), d = width, K = kept_of(cell); everything dense.
/// gates [N, G d]: the input's share; w [G d, d]; bias [G d] of the state's share or null;
/// h [B, d] and, for Lstm, c [B, d]: the first state on entry, each sequence's last one on return.
/// Written: out [N, d], before [N, d] (the state that each row started from), kept [N, K d].
template <class T>
void run_sequence(const SequenceSizes& n, const T* gates, const T* w, const T* bias, T* h, T* c,
                  T* out, T* before, T* kept);

/// grad [N, d] of `out`, or null for zeros; dh, dc [B, d]: the gradients of the last states on
/// entry, of the first ones on return. Written: dgates [N, G d], the gradient of the input's share
/// of the gates, and for Gru dstate [N, G d], that of the state's share (elsewhere they are one).
template <class T>
void run_sequence_backward(const SequenceSizes& n, const T* grad, const T* w, const T* before,
                           const T* kept, T* dh, T* dc, T* dgates, T* dstate);

}  // namespace weft::kernels
