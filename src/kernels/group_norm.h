/// Group normalisation over dense memory [images, channels, inner], T = float or double: each group
/// of channels of each image is brought to mean 0 and variance 1 (Wu and He 2018).
///
/// The same call gives the same bits on any number of threads.
#pragma once
#include <cstdint>

namespace weft::kernels {

struct Groups {
    int64_t images, channels, inner, groups;

    int64_t width() const { return channels / groups; }
    int64_t size() const { return width() * inner; }  ///< elements of a group
};

/// y = (x - mean) * rstd * gamma + beta; gamma and beta [channels] may be null (1 and 0). Written
/// too: mean and rstd = 1 / sqrt(variance + eps), [images, groups].
template <class T>
void group_norm(Groups n, const T* x, const T* gamma, const T* beta, double eps, T* y, T* mean,
                T* rstd);

/// The gradients from what the forward read and saved; dx, dgamma and dbeta may be null.
template <class T>
void group_norm_backward(Groups n, const T* dy, const T* x, const T* gamma, const T* mean,
                         const T* rstd, T* dx, T* dgamma, T* dbeta);

}  // namespace weft::kernels
