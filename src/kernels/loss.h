/// Losses over raw contiguous memory: sums of a mapped function, and negative log-likelihood.
///
/// Class scores are seen as [outer, classes, inner] (an Axis whose n is the number of classes),
/// targets as [outer, inner]. Results do not depend on the number of threads. float and double.
#pragma once
#include "kernels/map.h"
#include "kernels/reduce.h"

namespace weft::kernels {

/// The sum over n elements of what `loop` would write. Operands and strides (in bytes, 0 repeats)
/// are those of a MapLoop; p[0] is not read. Kept in T per block of 4096, in double above.
template <class T>
double map_sum(MapLoop loop, const void* f, char* const* p, const int64_t* strides, int operands,
               int64_t n);

/// `loop` over n elements, cut for the pool.
void map_flat(MapLoop loop, const void* f, char* const* p, const int64_t* strides, int operands,
              int64_t n);

/// What a target stands for: weights [classes] or null (1), and a value that is left out.
struct Targets {
    const int64_t* target;
    int64_t ignore;
};

/// The first target that is neither a class nor ignored; null if there is none.
const int64_t* bad_target(Targets t, int64_t count, int64_t classes);

/// Sum of the weights of all targets, ignored ones left out.
template <class T>
double total_weight(Targets t, const T* weight, int64_t count);

/// y[o, i] = -weight[t] * x[o, t, i], 0 where ignored, with t = target[o, i].
template <class T>
void nll(const T* x, Targets t, const T* weight, T* y, Axis axis);

/// dx[o, t, i] = -weight[t] * scale * dy[o * stride..], 0 elsewhere. dy_stride is 0 (one number) or
/// 1 (one per target).
template <class T>
void nll_backward(const T* dy, int64_t dy_stride, Targets t, const T* weight, T scale, T* dx,
                  Axis axis);

/// y[o, i] = weight[t] * (lse[o, i] - x[o, t, i]), 0 where ignored.
template <class T>
void cross_entropy(const T* x, const T* lse, Targets t, const T* weight, T* y, Axis axis);

/// dx[o, c, i] = weight[t] * scale * dy * (exp(x[o, c, i] - lse[o, i]) - [c == t]).
template <class T>
void cross_entropy_backward(const T* dy, int64_t dy_stride, const T* x, const T* lse, Targets t,
                            const T* weight, T scale, T* dx, Axis axis);

}  // namespace weft::kernels
