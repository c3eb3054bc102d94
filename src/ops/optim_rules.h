/// What each optimizer does to one element of a parameter.
///
/// A rule is made once per parameter and step, from its settings (in the order that the Python
/// class names them), its counters and whether its state is new. Then it is called for every
/// element with the parameter, the gradient and the state buffers, which it updates. `C` is the
/// type of the arithmetic; the first `kNeeded` buffers are always there. The Python classes say
/// whose papers these are; they also hold the same formulas over ops, which the tests compare.
#pragma once
#include <algorithm>
#include <cmath>

#include "kernels/simd.h"
#include "ops/optim.h"

namespace weft::ops {

/// The one-element state tensors of a parameter: read and written as their dtype rounds them.
class Counters {
public:
    explicit Counters(const Tensor* numbers) : numbers_(numbers) {}
    double value(int i) const { return numbers_[i].item_double(); }
    double set(int i, double to) {
        dispatch<AllTypes>(numbers_[i].dtype(), "optimizer",
                           [&]<class T>() { *numbers_[i].data<T>() = static_cast<T>(to); });
        return value(i);
    }
    double multiply(int i, double by) {
        if (numbers_[i].dtype() == DType::Float32)
            return set(i, static_cast<float>(value(i)) * static_cast<float>(by));
        return set(i, value(i) * by);
    }
    /// Counts this step.
    double step() { return set(0, value(0) + 1); }

private:
    const Tensor* numbers_;
};

template <class C>
struct SgdRule {
    static constexpr int kNumbers = 0, kBuffers = 1, kNeeded = 0;
    struct Settings {
        double lr, momentum, dampening, weight_decay, nesterov;
    };
    C lr, momentum, keep, weight_decay;
    bool nesterov, has_momentum, fresh;

    SgdRule(const Settings& o, Counters&, bool first)
        : lr(o.lr), momentum(o.momentum), keep(1 - o.dampening), weight_decay(o.weight_decay),
          nesterov(o.nesterov != 0), has_momentum(o.momentum != 0), fresh(first) {}
    WEFT_INLINE void operator()(C& p, C g, C* s) const {
        C d = g + weight_decay * p;
        if (has_momentum) {
            C v = fresh ? d : momentum * s[0] + keep * d;
            s[0] = v;
            d = nesterov ? d + momentum * v : v;
        }
        p -= lr * d;
    }
};

template <class C>
struct AdamRule {
    static constexpr int kNumbers = 1, kBuffers = 3, kNeeded = 2;
    struct Settings {
        double lr, beta1, beta2, eps, weight_decay, decoupled, amsgrad;
    };
    C take1, beta2, take2, size, correct, eps, weight_decay, shrink;
    bool amsgrad;

    AdamRule(const Settings& o, Counters& n, bool)
        : take1(1 - o.beta1), beta2(o.beta2), take2(1 - o.beta2), eps(o.eps),
          weight_decay(o.decoupled != 0 ? 0 : o.weight_decay),
          shrink(o.decoupled != 0 ? 1 - o.lr * o.weight_decay : 1), amsgrad(o.amsgrad != 0) {
        double step = n.step();
        size = C(o.lr / (1 - std::pow(o.beta1, step)));
        correct = C(1 / std::sqrt(1 - std::pow(o.beta2, step)));
    }
    WEFT_INLINE void operator()(C& p, C g, C* s) const {
        C w = p * shrink;
        C d = g + weight_decay * w;
        C mean = s[0] + (d - s[0]) * take1;
        C square = s[1] * beta2 + take2 * d * d;
        s[0] = mean;
        s[1] = square;
        C bound = square;
        if (amsgrad) {
            bound = s[2] > square ? s[2] : square;
            s[2] = bound;
        }
        p = w - size * mean / (std::sqrt(bound) * correct + eps);
    }
};

template <class C>
struct RmspropRule {
    static constexpr int kNumbers = 1, kBuffers = 3, kNeeded = 1;
    struct Settings {
        double lr, alpha, eps, weight_decay, momentum, centered;
    };
    C lr, alpha, take, eps, weight_decay, momentum;
    bool has_momentum, centered;

    RmspropRule(const Settings& o, Counters& n, bool)
        : lr(o.lr), alpha(o.alpha), take(1 - o.alpha), eps(o.eps), weight_decay(o.weight_decay),
          momentum(o.momentum), has_momentum(o.momentum > 0), centered(o.centered != 0) {
        n.step();
    }
    WEFT_INLINE void operator()(C& p, C g, C* s) const {
        C d = g + weight_decay * p;
        C square = s[0] * alpha + take * d * d;
        s[0] = square;
        if (centered) {
            C mean = s[2] + (d - s[2]) * take;
            s[2] = mean;
            square -= mean * mean;
        }
        C move = d / (std::sqrt(square) + eps);
        if (has_momentum) {
            move += momentum * s[1];
            s[1] = move;
        }
        p -= lr * move;
    }
};

template <class C>
struct AdagradRule {
    static constexpr int kNumbers = 1, kBuffers = 1, kNeeded = 1;
    struct Settings {
        double lr, lr_decay, weight_decay, eps;
    };
    C rate, weight_decay, eps;

    AdagradRule(const Settings& o, Counters& n, bool)
        : rate(o.lr / (1 + (n.step() - 1) * o.lr_decay)), weight_decay(o.weight_decay), eps(o.eps) {
    }
    WEFT_INLINE void operator()(C& p, C g, C* s) const {
        C d = g + weight_decay * p;
        s[0] += d * d;
        p -= rate * d / (std::sqrt(s[0]) + eps);
    }
};

template <class C>
struct AdadeltaRule {
    static constexpr int kNumbers = 1, kBuffers = 2, kNeeded = 2;
    struct Settings {
        double lr, rho, eps, weight_decay;
    };
    C lr, rho, take, eps, weight_decay;

    AdadeltaRule(const Settings& o, Counters& n, bool)
        : lr(o.lr), rho(o.rho), take(1 - o.rho), eps(o.eps), weight_decay(o.weight_decay) {
        n.step();
    }
    WEFT_INLINE void operator()(C& p, C g, C* s) const {
        C d = g + weight_decay * p;
        s[0] = s[0] * rho + take * d * d;
        C move = std::sqrt(s[1] + eps) / std::sqrt(s[0] + eps) * d;
        s[1] = s[1] * rho + take * move * move;
        p -= lr * move;
    }
};

template <class C>
struct AdamaxRule {
    static constexpr int kNumbers = 1, kBuffers = 2, kNeeded = 2;
    struct Settings {
        double lr, beta1, beta2, eps, weight_decay;
    };
    C size, take, beta2, eps, weight_decay;

    AdamaxRule(const Settings& o, Counters& n, bool)
        : size(o.lr / (1 - std::pow(o.beta1, n.step()))), take(1 - o.beta1), beta2(o.beta2),
          eps(o.eps), weight_decay(o.weight_decay) {}
    WEFT_INLINE void operator()(C& p, C g, C* s) const {
        C d = g + weight_decay * p;
        s[0] += (d - s[0]) * take;
        C before = s[1] * beta2, now = std::abs(d) + eps;
        s[1] = before > now ? before : now;
        p -= size * s[0] / s[1];
    }
};

template <class C>
struct NadamRule {
    static constexpr int kNumbers = 2, kBuffers = 2, kNeeded = 2;
    struct Settings {
        double lr, beta1, beta2, eps, weight_decay, momentum_decay, decoupled;
    };
    C take1, beta2, take2, correct, eps, weight_decay, shrink, of_grad, of_mean;

    NadamRule(const Settings& o, Counters& n, bool)
        : take1(1 - o.beta1), beta2(o.beta2), take2(1 - o.beta2), eps(o.eps),
          weight_decay(o.decoupled != 0 ? 0 : o.weight_decay),
          shrink(o.decoupled != 0 ? 1 - o.lr * o.weight_decay : 1) {
        double step = n.step();
        auto momentum = [&](double at) {
            return o.beta1 * (1 - 0.5 * std::pow(0.96, at * o.momentum_decay));
        };
        double now = momentum(step), next = momentum(step + 1), product = n.multiply(1, now);
        correct = C(1 / (1 - std::pow(o.beta2, step)));
        of_grad = C(o.lr * (1 - now) / (1 - product));
        of_mean = C(o.lr * next / (1 - product * next));
    }
    WEFT_INLINE void operator()(C& p, C g, C* s) const {
        C w = p * shrink;
        C d = g + weight_decay * w;
        s[0] += (d - s[0]) * take1;
        s[1] = s[1] * beta2 + take2 * d * d;
        p = w - (of_grad * d + of_mean * s[0]) / (std::sqrt(s[1] * correct) + eps);
    }
};

template <class C>
struct RadamRule {
    static constexpr int kNumbers = 1, kBuffers = 2, kNeeded = 2;
    struct Settings {
        double lr, beta1, beta2, eps, weight_decay, decoupled;
    };
    C take1, beta2, take2, size, rectify, eps, weight_decay, shrink;
    bool adaptive;

    RadamRule(const Settings& o, Counters& n, bool)
        : take1(1 - o.beta1), beta2(o.beta2), take2(1 - o.beta2), rectify(0), eps(o.eps),
          weight_decay(o.decoupled != 0 ? 0 : o.weight_decay),
          shrink(o.decoupled != 0 ? 1 - o.lr * o.weight_decay : 1) {
        double step = n.step(), power = std::pow(o.beta2, step), limit = 2 / (1 - o.beta2) - 1;
        double length = limit - 2 * step * power / (1 - power);
        size = C(o.lr / (1 - std::pow(o.beta1, step)));
        adaptive = length > 5;
        if (adaptive)
            rectify = C(std::sqrt(1 - power) * std::sqrt((length - 4) * (length - 2) * limit /
                                                         ((limit - 4) * (limit - 2) * length)));
    }
    WEFT_INLINE void operator()(C& p, C g, C* s) const {
        C w = p * shrink;
        C d = g + weight_decay * w;
        s[0] += (d - s[0]) * take1;
        s[1] = s[1] * beta2 + take2 * d * d;
        C move = size * s[0];
        p = w - (adaptive ? move * rectify / (std::sqrt(s[1]) + eps) : move);
    }
};

template <class C>
struct AsgdRule {
    static constexpr int kNumbers = 3, kBuffers = 1, kNeeded = 1;  // numbers: step, eta, mu
    struct Settings {
        double lr, lambd, alpha, t0, weight_decay;
    };
    C eta, mu, shrink, weight_decay;

    AsgdRule(const Settings& o, Counters& n, bool)
        : eta(n.value(1)), mu(n.value(2)), shrink(1 - o.lambd * n.value(1)),
          weight_decay(o.weight_decay) {
        double step = n.step();
        n.set(1, o.lr / std::pow(1 + o.lambd * o.lr * step, o.alpha));
        n.set(2, 1 / std::max(1.0, step - o.t0));
    }
    WEFT_INLINE void operator()(C& p, C g, C* s) const {
        C d = g + weight_decay * p;
        p = p * shrink - eta * d;
        s[0] = mu == C(1) ? p : s[0] + (p - s[0]) * mu;
    }
};

template <class C>
struct RpropRule {
    static constexpr int kNumbers = 1, kBuffers = 2, kNeeded = 2;
    struct Settings {
        double less, more, smallest, largest;
    };
    C less, more, smallest, largest;

    RpropRule(const Settings& o, Counters& n, bool)
        : less(o.less), more(o.more), smallest(o.smallest), largest(o.largest) {
        n.step();
    }
    WEFT_INLINE void operator()(C& p, C g, C* s) const {
        C product = g * s[0];
        C size = s[1] * (product > 0 ? more : product < 0 ? less : C(1));
        size = size < smallest ? smallest : size;
        size = size > largest ? largest : size;
        C d = product < 0 ? C(0) : g;
        p -= d > 0 ? size : d < 0 ? -size : C(0);
        s[0] = d;
        s[1] = size;
    }
};

}  // namespace weft::ops
