#include "ops/optim.h"

#include <cmath>

#include "base/lock.h"
#include "base/parallel.h"
#include "kernels/simd.h"
#include "ops/copy.h"

namespace weft::ops {
namespace {

constexpr int64_t kGrain = 16384;

template <class T>
struct SgdScalars {
    T lr, momentum, keep, weight_decay;
    bool nesterov, has_momentum, first;
};

struct SgdBody {
    template <class T>
    WEFT_INLINE static void run(int64_t n, T* p, const T* g, T* m, T sign, SgdScalars<T> s) {
        for (int64_t i = 0; i < n; ++i) {
            T d = sign * g[i] + s.weight_decay * p[i];
            if (s.has_momentum) {
                T v = s.first ? d : s.momentum * m[i] + s.keep * d;
                m[i] = v;
                d = s.nesterov ? d + s.momentum * v : v;
            }
            p[i] -= s.lr * d;
        }
    }
};

template <class T>
struct AdamScalars {
    T take1, beta2, take2, size, correct, eps, weight_decay, shrink;
};

struct AdamBody {
    template <class T>
    WEFT_INLINE static void run(int64_t n, T* p, const T* g, T* m, T* v, T* largest, T sign,
                                AdamScalars<T> s) {
        for (int64_t i = 0; i < n; ++i) {
            T w = p[i] * s.shrink;
            T d = sign * g[i] + s.weight_decay * w;
            T mean = m[i] + (d - m[i]) * s.take1;
            T square = v[i] * s.beta2 + s.take2 * d * d;
            m[i] = mean;
            v[i] = square;
            T bound = square;
            if (largest) {
                bound = largest[i] > square ? largest[i] : square;
                largest[i] = bound;
            }
            p[i] = w - s.size * mean / (std::sqrt(bound) * s.correct + s.eps);
        }
    }
};

/// Contiguous stand-ins of tensors that are updated; those that are copies are written back.
class Dense {
public:
    Dense(std::initializer_list<Tensor> tensors) {
        for (const Tensor& t : tensors) {
            from_[count_] = t;
            dense_[count_++] = t.defined() ? as_contiguous(t) : t;
        }
    }
    void write_back() {
        for (int i = 0; i < count_; ++i)
            if (from_[i].defined() && !dense_[i].same(from_[i])) copy_into(from_[i], dense_[i]);
    }
    template <class T>
    T* data(int i) const {
        return dense_[i].defined() ? dense_[i].template data<T>() : nullptr;
    }

private:
    Tensor from_[4], dense_[4];
    int count_ = 0;
};

template <class T>
T* at(T* p, int64_t i) {
    return p ? p + i : nullptr;
}

}  // namespace

void sgd_step(const Tensor& param, const Tensor& grad, const Tensor& momentum, bool first,
              const SgdOptions& o) {
    Dense d{param, momentum};
    Tensor g = as_contiguous(grad, param.dtype());
    dispatch<FloatingTypes>(param.dtype(), "sgd", [&]<class T>() {
        SgdScalars<T> s{T(o.lr), T(o.momentum), T(1 - o.dampening), T(o.weight_decay),
                        o.nesterov, momentum.defined(), first};
        T *p = d.data<T>(0), *m = d.data<T>(1), sign = o.maximize ? T(-1) : T(1);
        const T* pg = g.data<T>();
        Unlocked unlocked(param.numel());
        parallel_for(param.numel(), kGrain, [&](int64_t b, int64_t e) {
            kernels::per_isa<SgdBody>(e - b, p + b, pg + b, at(m, b), sign, s);
        });
    });
    d.write_back();
}

void adam_step(const Tensor& param, const Tensor& grad, const Tensor& mean, const Tensor& square,
               const Tensor& largest, double step, const AdamOptions& o) {
    Dense d{param, mean, square, largest};
    Tensor g = as_contiguous(grad, param.dtype());
    double correct1 = 1 - std::pow(o.beta1, step), correct2 = 1 - std::pow(o.beta2, step);
    dispatch<FloatingTypes>(param.dtype(), "adam", [&]<class T>() {
        AdamScalars<T> s{T(1 - o.beta1), T(o.beta2), T(1 - o.beta2), T(o.lr / correct1),
                         T(1 / std::sqrt(correct2)), T(o.eps), o.decoupled ? T(0) : T(o.weight_decay),
                         o.decoupled ? T(1 - o.lr * o.weight_decay) : T(1)};
        T *p = d.data<T>(0), *m = d.data<T>(1), *v = d.data<T>(2), *l = d.data<T>(3);
        const T* pg = g.data<T>();
        T sign = o.maximize ? T(-1) : T(1);
        Unlocked unlocked(param.numel());
        parallel_for(param.numel(), kGrain, [&](int64_t b, int64_t e) {
            kernels::per_isa<AdamBody>(e - b, p + b, pg + b, m + b, v + b, at(l, b), sign, s);
        });
    });
    d.write_back();
}

}  // namespace weft::ops
