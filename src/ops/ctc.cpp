/// Connectionist temporal classification (Graves et al. 2006).
#include "kernels/ctc.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/lock.h"
#include "ops/axes.h"
#include "ops/pointwise.h"

namespace weft {
namespace {

using namespace ops;

constexpr const char* kCtcLoss = "ctc_loss";

void check_lengths(const char* what, DimSpan lengths, int64_t batch, int64_t most) {
    WEFT_EXPECT(static_cast<int64_t>(lengths.size()) == batch, Runtime, kCtcLoss,
                text(batch, " ", what),
                text(lengths.size(), " (", what, " must be of size batch_size)"));
    for (int64_t n : lengths) {
        WEFT_EXPECT(
            n >= 0, Runtime, kCtcLoss, text(what, " that are not negative"),
            text(n, " (Expected ", what, " to have value at least 0, but got value ", n, ")"));
        WEFT_EXPECT(n <= most, Runtime, kCtcLoss, text(what, " of at most ", most),
                    text(n, " (Expected ", what, " to have value at most ", most,
                         ", but got value ", n, ")"));
    }
}

/// Inputs (log_probs, targets), attributes (input_lengths, target_lengths, blank).
void check_ctc(const Tensor& log_probs, const Tensor& targets, const Value* attrs) {
    WEFT_EXPECT(log_probs.ndim() == 3, Runtime, kCtcLoss, "log_probs (time, batch, classes)",
                to_string(log_probs.shape()));
    WEFT_EXPECT(log_probs.numel() > 0, Runtime, kCtcLoss, "log_probs that are not empty",
                text(to_string(log_probs.shape()), " (log_probs tensor must not be empty)"));
    WEFT_EXPECT(is_floating(log_probs.dtype()), NotImplemented, kCtcLoss,
                "log_probs of a floating dtype",
                text(name(log_probs.dtype()), " (\"ctc_loss_cpu\" not implemented for '",
                     scalar_name(log_probs.dtype()), "')"));
    WEFT_EXPECT(targets.dtype() == DType::Int64, Runtime, kCtcLoss, "targets of dtype int64",
                name(targets.dtype()));
    const int64_t batch = log_probs.size(1), classes = log_probs.size(2);
    const int64_t blank = attrs[2].as_int();
    WEFT_EXPECT(blank >= 0 && blank < classes, Runtime, kCtcLoss,
                text("a blank in [0, ", classes, ")"),
                text(blank, " (blank must be in label range)"));
    constexpr int64_t many = int64_t{1} << 40;  // so that sums of lengths cannot overflow
    const DimSpan counts = attrs[1].as_ints();
    check_lengths("input_lengths", attrs[0].as_ints(), batch, log_probs.size(0));
    check_lengths("target_lengths", counts, batch, many);
    if (targets.ndim() == 1) {
        const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
        WEFT_EXPECT(targets.size(0) == all, Runtime, kCtcLoss, text(all, " targets"),
                    text(targets.size(0), " (Expected tensor to have size ", all,
                         " at dimension 0, but got size ", targets.size(0),
                         " for argument #2 'targets')"));
        return;
    }
    const int64_t longest = *std::max_element(counts.begin(), counts.end());
    WEFT_EXPECT(targets.ndim() == 2 && targets.size(0) == batch, Runtime, kCtcLoss,
                text("targets (", batch, ", longest) or all after each other"),
                text(to_string(targets.shape()), " (Expected tensor to have size ", batch,
                     " at dimension 0 for argument #2 'targets')"));
    WEFT_EXPECT(targets.size(1) >= longest, Runtime, kCtcLoss,
                text("at least ", longest, " targets in a row"),
                text(targets.size(1), " (Expected tensor to have size at least ", longest,
                     " at dimension 1, but got size ", targets.size(1),
                     " for argument #2 'targets')"));
}

/// The operands as the kernels read them.
struct Operands {
    Tensor log_probs, targets;
    std::vector<int64_t> starts;
    kernels::Ctc sizes;

    Operands(const Tensor& given, const Tensor& classes, const Value* attrs)
        : log_probs(as_contiguous(given)), targets(as_contiguous(classes)) {
        const DimSpan counts = attrs[1].as_ints();
        int64_t start = 0;
        for (int64_t n : counts) {
            starts.push_back(start);
            start += targets.ndim() == 1 ? n : targets.size(1);
        }
        sizes = {log_probs.size(0),
                 log_probs.size(1),
                 log_probs.size(2),
                 attrs[2].as_int(),
                 *std::max_element(counts.begin(), counts.end()),
                 targets.data<int64_t>(),
                 starts.data(),
                 attrs[0].as_ints().data(),
                 counts.data()};
        for (int64_t b = 0; b < sizes.batch; ++b)
            for (int64_t k = 0; k < sizes.counts[b]; ++k) {
                const int64_t target = sizes.targets[sizes.starts[b] + k];
                WEFT_EXPECT(target >= 0 && target < sizes.classes, Runtime, kCtcLoss,
                            text("targets in [0, ", sizes.classes, ")"), text(target));
            }
    }
};

void ctc_shape(Call& c) {
    check_ctc(c.in[0], c.in[1], c.attrs);
    const DimSpan counts = c.attr(1).as_ints();
    const int64_t longest = *std::max_element(counts.begin(), counts.end());
    kernels::Ctc sizes{};
    sizes.longest = longest;
    c.add(Tensor::layout(c.in[0].dtype(), Dims{c.in[0].size(1)}));
    c.add(Tensor::layout(c.in[0].dtype(), Dims{c.in[0].size(1), c.in[0].size(0), sizes.width()}));
}

void ctc_kernel(Call& c) {
    const Operands o(c.in[0], c.in[1], c.attrs);
    Unlocked unlocked(20 * c.out(1).numel());
    dispatch<FloatingTypes>(c.out(0).dtype(), c.name(), [&]<class T>() {
        kernels::ctc<T>(o.sizes, o.log_probs.data<T>(), c.out(0).data<T>(), c.out(1).data<T>());
    });
}

/// Inputs (grad_output, log_probs, targets, loss, log_alpha), attributes (input_lengths,
/// target_lengths, blank, zero_infinity).
void ctc_backward_kernel(Call& c) {
    const Operands o(c.in[1], c.in[2], c.attrs);
    const Tensor d_loss = as_contiguous(c.in[0], c.in[1].dtype());
    const Tensor loss = as_contiguous(c.in[3]), alpha = as_contiguous(c.in[4]);
    Unlocked unlocked(20 * alpha.numel() + 4 * o.log_probs.numel());
    dispatch<FloatingTypes>(c.out(0).dtype(), c.name(), [&]<class T>() {
        kernels::ctc_backward<T>(o.sizes, c.attr(3).as_bool(), d_loss.data<T>(),
                                 o.log_probs.data<T>(), loss.data<T>(), alpha.data<T>(),
                                 c.out(0).data<T>());
    });
}

}  // namespace

void register_ctc(Table& t) {
    static const Function backward{"_ctc_loss_backward"};
    t.add("_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, "
          "int blank=0, bool zero_infinity=False) -> (Tensor, Tensor)")
        .autocast(Cast::Float)
        .no_onnx("no sums over alignments")
        .doc(
            "ctc_loss of each example, and the logarithms of the probabilities of the prefixes of\n"
            "all alignments. log_probs (time, batch, classes), targets int64 (batch, longest) or\n"
            "all after each other. zero_infinity: infinite losses have no gradient.")
        .shape(ctc_shape)
        .kernel(ctc_kernel)
        .internal()
        .in_packages()
        .constant_output(1)
        .node_name("CtcLossBackward0")
        .grad(0, save_in(0) | save_in(1) | save_out(0) | save_out(1), [](const Grad& g) {
            return backward(g.grad(), g.in(0), g.in(1), g.out(0), g.out(1), g.attr(0), g.attr(1),
                            g.attr(2), g.attr(3));
        });
    t.add("_ctc_loss_backward(Tensor grad_output, Tensor log_probs, Tensor targets, Tensor loss, "
          "Tensor log_alpha, int[] input_lengths, int[] target_lengths, int blank, bool "
          "zero_infinity) -> Tensor")
        .doc("The gradient of _ctc_loss to what log_softmax made its log_probs of.")
        .shape([](Call& c) { c.add(Tensor::layout(c.in[1].dtype(), c.in[1].shape())); })
        .kernel(ctc_backward_kernel)
        .internal()
        .no_derivative();
}

}  // namespace weft
