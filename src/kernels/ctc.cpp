/// All sums over alignments are kept as logarithms. A frame is a vector loop over the states; frames
/// follow each other, examples run side by side.
#include "kernels/ctc.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "kernels/math_exp.h"
#include "kernels/simd.h"

namespace weft::kernels {
namespace {

template <class T>
inline constexpr T never = -std::numeric_limits<T>::infinity();

template <class T>
WEFT_INLINE T log_of_sum(T a, T b, T c) {
    const T ab = a > b ? a : b, largest = ab > c ? ab : c;
    const T base = largest == never<T> ? T(0) : largest;
    return math::log(math::exp(a - base) + math::exp(b - base) + math::exp(c - base)) + base;
}

/// What the states of an example emit, and which may be left out between two others.
template <class T>
struct States {
    int64_t count;
    std::vector<int64_t> emits;
    std::vector<T> skip;     // at s: 0 if s may follow s - 2, else -inf; two more behind the last
    std::vector<T> emitted;  // at the frame of `look`

    [[gnu::noinline]] States(const Ctc& c, int64_t b)
        : count(2 * c.counts[b] + 1), emits(static_cast<size_t>(count), c.blank),
          skip(static_cast<size_t>(count) + 2, never<T>), emitted(static_cast<size_t>(count)) {
        const int64_t* target = c.targets + c.starts[b];
        for (int64_t k = 0; k < c.counts[b]; ++k) {
            emits[static_cast<size_t>(2 * k + 1)] = target[k];
            if (k && target[k] != target[k - 1]) skip[static_cast<size_t>(2 * k + 1)] = 0;
        }
    }
    /// What the states emit, as vectors can read it.
    const T* look(const T* log_probs) {
        for (size_t s = 0; s < emits.size(); ++s) emitted[s] = log_probs[emits[s]];
        return emitted.data();
    }
};

/// to[s] = log(e^from[s] + e^near[s] + e^(far[s] + skip[s])) + emitted[s].
template <class T>
struct NextFrame {
    WEFT_INLINE static void run(int64_t n, const T* from, const T* near, const T* far,
                                const T* skip, const T* emitted, T* to) {
#pragma GCC ivdep
#pragma GCC unroll 1
        for (int64_t s = 0; s < n; ++s)
            to[s] = log_of_sum(from[s], near[s], far[s] + skip[s]) + emitted[s];
    }
};
/// `step`: where the neighbours of a state lie, before it or behind it.
template <class T>
void next_frame(int64_t n, const T* from, int64_t step, const T* skip, const T* emitted, T* to) {
    per_isa<NextFrame<T>>(n, from, from + step, from + 2 * step, skip, emitted, to);
}

/// q[s] = the probability of state s at a frame, given the target.
template <class T>
struct Posterior {
    WEFT_INLINE static void run(int64_t n, const T* alpha, const T* beta, const T* emitted, T loss,
                                T* q) {
#pragma GCC ivdep
#pragma GCC unroll 1
        for (int64_t s = 0; s < n; ++s) {
            const T both = alpha[s] + beta[s], log_q = both - emitted[s] + loss;
            q[s] = math::exp(both == never<T> ? never<T> : log_q);
        }
    }
};

/// to[c] = e^from[c] * scale.
template <class T>
struct ScaledExp {
    WEFT_INLINE static void run(int64_t n, const T* from, T scale, T* to) {
#pragma GCC ivdep
#pragma GCC unroll 1
        for (int64_t c = 0; c < n; ++c) to[c] = math::exp(from[c]) * scale;
    }
};

template <class T>
T forward(const Ctc& c, int64_t b, const T* log_probs, T* alpha) {
    States<T> states(c, b);
    const int64_t frames = c.frames[b], row = c.batch * c.classes;
    std::fill_n(alpha, c.time * c.width(), never<T>);
    if (frames == 0) return c.counts[b] ? -never<T> : T(0);
    const T* from = log_probs + b * c.classes;
    T* at = alpha + 2;
    std::copy_n(states.look(from), std::min<int64_t>(2, states.count), at);
    for (int64_t t = 1; t < frames; ++t, at += c.width()) {
        from += row;
        next_frame<T>(states.count, at, -1, states.skip.data(), states.look(from), at + c.width());
    }
    const int64_t last = states.count - 1;
    return -log_of_sum(at[last], last ? at[last - 1] : never<T>, never<T>);
}

template <class T>
void backward(const Ctc& c, int64_t b, bool zero_infinity, T scale, T loss, const T* log_probs,
              const T* alpha, T* d) {
    const int64_t frames = c.frames[b], row = c.batch * c.classes;
    const bool impossible = loss == -never<T>;
    for (int64_t t = 0; t < c.time; ++t)
        if (t >= frames || impossible)
            std::fill_n(d + t * row + b * c.classes, c.classes,
                        t < frames && !zero_infinity ? std::numeric_limits<T>::quiet_NaN() : T(0));
    if (impossible || frames == 0) return;
    States<T> states(c, b);
    const auto n = static_cast<size_t>(states.count);
    // beta of this frame and the one behind it, with two states that are never reached
    std::vector<T> betas[2] = {std::vector<T>(n + 2, never<T>), std::vector<T>(n + 2, never<T>)};
    std::vector<T> q(n), skip(states.skip.begin() + 2, states.skip.end());
    T *beta = betas[0].data(), *behind = betas[1].data();
    for (int64_t t = frames - 1; t >= 0; --t) {
        const T* from = log_probs + t * row + b * c.classes;
        T* to = d + t * row + b * c.classes;
        const T* emitted = states.look(from);
        if (t == frames - 1) {
            for (size_t s = n > 1 ? n - 2 : 0; s < n; ++s) beta[s] = emitted[s];
        } else {
            std::swap(beta, behind);
            next_frame<T>(states.count, behind, 1, skip.data(), emitted, beta);
        }
        per_isa<Posterior<T>, int64_t, const T*, const T*, const T*>(
            states.count, alpha + t * c.width() + 2, beta, emitted, loss, q.data());
        per_isa<ScaledExp<T>>(c.classes, from, scale, to);
        T blanks = q[0];
        for (size_t s = 1; s < n; s += 2) {
            to[states.emits[s]] -= q[s] * scale;
            blanks += q[s + 1];
        }
        to[c.blank] -= blanks * scale;
    }
}

/// Examples that one thread takes at a time.
int64_t grain(const Ctc& c) {
    return std::max<int64_t>(1, 4096 / std::max<int64_t>(1, c.time * c.width()));
}

}  // namespace

template <class T>
void ctc(const Ctc& c, const T* log_probs, T* loss, T* alpha) {
    parallel_for(c.batch, grain(c), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b)
            loss[b] = forward(c, b, log_probs, alpha + b * c.time * c.width());
    });
}

template <class T>
void ctc_backward(const Ctc& c, bool zero_infinity, const T* d_loss, const T* log_probs,
                  const T* loss, const T* alpha, T* d_log_probs) {
    parallel_for(c.batch, grain(c), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b)
            backward(c, b, zero_infinity, d_loss[b], loss[b], log_probs,
                     alpha + b * c.time * c.width(), d_log_probs);
    });
}

#define WEFT_CTC(T)                                                                                \
    template void ctc(const Ctc&, const T*, T*, T*);                                               \
    template void ctc_backward(const Ctc&, bool, const T*, const T*, const T*, const T*, T*);
WEFT_CTC(float)
WEFT_CTC(double)
#undef WEFT_CTC

}  // namespace weft::kernels
