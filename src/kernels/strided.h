/// Walks n strided operands together, in as few and as long inner loops as their layouts allow.
///
/// Axes of size 1 are dropped, axes that lie behind each other in every operand are fused, and the
/// axis with the smallest strides is innermost. Strides are in bytes here; 0 repeats an element.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "base/function_ref.h"

namespace weft::kernels {

template <int N>
struct StridedPlan {
    static constexpr int kMax = 64;
    int ndim = 0;
    int64_t sizes[kMax];  ///< innermost first
    int64_t strides[kMax][N];
    int64_t count = 1;

    /// `stride_of(operand, axis)` in bytes, axes outermost first.
    template <class StrideOf>
    StridedPlan(std::span<const int64_t> shape, StrideOf&& stride_of) {
        for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
            count *= shape[d];
            if (shape[d] == 1) continue;
            sizes[ndim] = shape[d];
            for (int k = 0; k < N; ++k) strides[ndim][k] = stride_of(k, d);
            ++ndim;
        }
        sort();
        fuse();
    }

    /// Calls `loop(pointers, strides, n)` for elements [begin, end) in the plan's order.
    template <class Loop>
    void run(char* const (&base)[N], int64_t begin, int64_t end, Loop&& loop) const {
        if (begin >= end) return;
        if (ndim == 0) {
            static constexpr int64_t none[N] = {};
            return loop(base, none, int64_t{1});
        }
        int64_t index[kMax], rest = begin;
        char* at[N];
        for (int k = 0; k < N; ++k) at[k] = base[k];
        for (int d = 0; d < ndim; ++d) {
            index[d] = rest % sizes[d];
            rest /= sizes[d];
            for (int k = 0; k < N; ++k) at[k] += index[d] * strides[d][k];
        }
        for (int64_t done = begin; done < end;) {
            const int64_t n = std::min(sizes[0] - index[0], end - done);
            const int64_t rows = ndim > 1 && index[0] == 0 ? sizes[1] - index[1] : 0;
            if (rows > 1 && rows * n <= end - done) {  // without a look at the other axes
                for (int64_t r = 0; r < rows; ++r) {
                    loop(at, strides[0], n);
                    for (int k = 0; k < N; ++k) at[k] += strides[1][k];
                }
                done += rows * n;
                index[1] += rows;
                carry(index, at, 1);
            } else {
                loop(at, strides[0], n);
                done += n;
                index[0] += n;
                for (int k = 0; k < N; ++k) at[k] += n * strides[0][k];
                carry(index, at, 0);
            }
        }
    }

private:
    /// From axis `d` on, those that have come to their end begin again.
    void carry(int64_t* index, char** at, int d) const {
        for (; d + 1 < ndim && index[d] == sizes[d]; ++d) {
            for (int k = 0; k < N; ++k) at[k] += strides[d + 1][k] - sizes[d] * strides[d][k];
            index[d] = 0;
            ++index[d + 1];
        }
    }
    /// Insertion sort by the first operand's stride, then the others': the output is walked in
    /// memory order.
    void sort() {
        auto less = [&](int a, int b) {
            for (int k = 0; k < N; ++k) {
                int64_t x = strides[a][k] < 0 ? -strides[a][k] : strides[a][k];
                int64_t y = strides[b][k] < 0 ? -strides[b][k] : strides[b][k];
                if (x != y && x && y) return x < y;
            }
            return false;
        };
        for (int i = 1; i < ndim; ++i)
            for (int j = i; j > 0 && less(j, j - 1); --j) swap(j, j - 1);
    }
    void swap(int a, int b) {
        std::swap(sizes[a], sizes[b]);
        for (int k = 0; k < N; ++k) std::swap(strides[a][k], strides[b][k]);
    }
    void fuse() {
        int out = 0;
        for (int d = 1; d < ndim; ++d) {
            bool joins = true;
            for (int k = 0; k < N; ++k) joins &= strides[d][k] == strides[out][k] * sizes[out];
            if (joins) {
                sizes[out] *= sizes[d];
                continue;
            }
            ++out;
            sizes[out] = sizes[d];
            for (int k = 0; k < N; ++k) strides[out][k] = strides[d][k];
        }
        if (ndim) ndim = out + 1;
    }
};

}  // namespace weft::kernels
