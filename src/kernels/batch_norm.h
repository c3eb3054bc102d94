/// Batch normalisation over dense memory [batch, channels, inner], T = float or double: each
/// channel is brought to mean 0 and variance 1 over batch and inner.
///
/// The same call gives the same bits on any number of threads.
#pragma once
#include <cstdint>

namespace weft::kernels {

struct Channels {
    int64_t batch, channels, inner;
};

/// What one channel needs beside its values, [channels] each.
template <class T>
struct ChannelStats {
    T *mean, *rstd;  ///< rstd = 1 / sqrt(variance + eps)
    T* variance;     ///< biased; may be null
};

/// y = (x - mean) * rstd * gamma + beta; gamma and beta may be null (1 and 0).
/// `own`: mean, variance and rstd are those of x and are written; else mean and rstd are read.
template <class T>
void batch_norm(Channels n, const T* x, const T* gamma, const T* beta, double eps,
                ChannelStats<T> stats, bool own, T* y);

/// The gradients from what the forward read and saved; dx, dgamma and dbeta may be null. `own` as
/// in the forward: then mean and rstd are functions of x.
template <class T>
void batch_norm_backward(Channels n, const T* dy, const T* x, const T* gamma, const T* mean,
                         const T* rstd, bool own, T* dx, T* dgamma, T* dbeta);

}  // namespace weft::kernels
