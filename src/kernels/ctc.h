/// Connectionist temporal classification (Graves et al. 2006) over raw memory. float and double.
#pragma once
#include <cstdint>

namespace weft::kernels {

/// Log-probabilities [time, batch, classes] and the target of each example: `counts[b]` classes from
/// targets[starts[b]] on. All targets are classes, `frames[b]` is at most `time`.
///
/// The states of an example are blank, y1, blank, y2, ..., blank.
struct Ctc {
    int64_t time, batch, classes, blank, longest;
    const int64_t *targets, *starts, *frames, *counts;

    /// Numbers for each frame of `alpha`: two that stand before the first state, then the states of
    /// the longest target.
    int64_t width() const { return 2 * longest + 3; }
};

/// loss[b] = -log of the probability of all alignments; alpha [batch, time, width] what backward
/// reads: log of that of the prefixes that end in a state at a frame.
template <class T>
void ctc(const Ctc& c, const T* log_probs, T* loss, T* alpha);

/// d log_probs [time, batch, classes], as the gradient by what log_softmax made them of: p - q, with
/// p = exp(log_probs) and q the probability of a class at a frame given the target. 0 for an infinite
/// loss if `zero_infinity`, else NaN.
template <class T>
void ctc_backward(const Ctc& c, bool zero_infinity, const T* d_loss, const T* log_probs,
                  const T* loss, const T* alpha, T* d_log_probs);

}  // namespace weft::kernels
