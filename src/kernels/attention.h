/// softmax(Q K^T * scale + mask) V by blocks of queries and keys, without the matrix of scores
/// (Milakov and Gimelshein 2018; Dao et al. 2022).
#pragma once
#include <cstdint>

namespace weft::kernels {

/// The vectors of one operand: [batch, heads, length, width] with dense vectors, strides in elements.
template <class T>
struct Heads {
    T* data = nullptr;
    int64_t batch = 0, head = 0, row = 0;  ///< strides
    T* at(int64_t b, int64_t h, int64_t r) const { return data + b * batch + h * head + r * row; }
};

/// What is added to the scores, [batch, heads, queries, keys] with any strides, 0 included. Minus
/// infinity hides a key. `data` null: nothing.
template <class T>
struct ScoreMask {
    const T* data = nullptr;
    int64_t batch = 0, head = 0, row = 0, key = 0;
};

struct AttentionSizes {
    int64_t batch, heads, queries, keys, width, value_width;
    double scale;
    bool causal;  ///< query i sees keys 0 .. i
};

/// out and lse, the logarithm of the sum of each row's exponentials, [batch, heads, queries] dense.
/// A query that sees no key gives zeros, and lse = +infinity, which makes its weights zero again.
template <class T>
void attention(const AttentionSizes& n, Heads<const T> q, Heads<const T> k, Heads<const T> v,
               ScoreMask<T> mask, Heads<T> out, T* lse);

/// The gradients of q, k and v from that of `out`. They must not overlap each other or an input.
template <class T>
void attention_backward(const AttentionSizes& n, Heads<const T> q, Heads<const T> k,
                        Heads<const T> v, ScoreMask<T> mask, Heads<const T> out, const T* lse,
                        Heads<const T> dout, Heads<T> dq, Heads<T> dk, Heads<T> dv);

}  // namespace weft::kernels
