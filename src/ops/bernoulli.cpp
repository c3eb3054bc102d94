/// Random decisions: Bernoulli, dropout, multinomial.
#include <cmath>

#include "ops/batch.h"
#include "ops/draw.h"

namespace weft {
namespace {

using namespace ops;

const Function bernoulli_p{"bernoulli.p"}, dropout_noise{"_dropout_noise"};

// ---- Bernoulli ---------------------------------------------------------------------------------

void bernoulli_p_kernel(Call& c) {
    double p = c.attr(0).as_double();
    WEFT_EXPECT(p >= 0 && p <= 1, Runtime, c.name(), "p in [0, 1]", text("p=", p));
    draw_dense(c, [&](const Tensor& t) {
        draw_as(t, widened(t.dtype()), [&](const Tensor& wide) {
            dispatch<AllTypes>(wide.dtype(), c.name(), [&]<class T>() {
                kernels::bernoulli(generator(), wide.data<T>(), wide.numel(), p);
            });
        });
    });
}

/// Into `out`, each element with its own probability, walked in out's memory order.
void bernoulli_each(Call& c, const Tensor& probabilities) {
    WEFT_EXPECT(is_floating(probabilities.dtype()), NotImplemented, c.name(),
                "floating probabilities", name(probabilities.dtype()));
    draw_dense(c, [&](const Tensor& t) {
        Tensor p = preserved_layout(t, probabilities.dtype());
        p.allocate();
        copy_into(p, probabilities);
        dispatch<FloatingTypes>(p.dtype(), c.name(), [&]<class P>() {
            const P* at = p.data<P>();
            for (int64_t i = 0; i < p.numel(); ++i)
                WEFT_EXPECT(at[i] >= 0 && at[i] <= 1, Runtime, c.name(), "p_in >= 0 && p_in <= 1",
                            text(at[i]));
            dispatch<AllTypes>(t.dtype(), c.name(), [&]<class T>() {
                kernels::bernoulli(generator(), t.data<T>(), t.numel(), at);
            });
        });
    });
}

/// Out of place PyTorch's result is contiguous, in place it is walked in its own order.
void bernoulli_shape(Call& c) {
    if (c.dest.defined()) self_shape(c);
    else c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape()));
}

void bernoulli_tensor_shape(Call& c) {
    DimSpan self = c.in[0].shape(), p = c.in[1].shape();
    WEFT_EXPECT(broadcast(c.name(), self, p) == Dims(self), Runtime, c.name(),
                text("probabilities that expand to ", to_string(self)), to_string(p));
    self_shape(c);
}

// ---- dropout -----------------------------------------------------------------------------------

double checked_rate(const Call& c, const Value& p) {
    WEFT_EXPECT(p.as_double() >= 0 && p.as_double() <= 1, Runtime, c.name(),
                "a dropout probability between 0 and 1", text(p.as_double()));
    return p.as_double();
}

/// 1 / (1 - p) with probability 1 - p, else 0; attributes p and the size (none: the input's).
void dropout_noise_shape(Call& c) {
    DType t = c.in[0].dtype();
    WEFT_EXPECT(!is_complex(t), NotImplemented, "dropout", "a floating input", name(t));
    WEFT_EXPECT(is_floating(t), Runtime, "dropout", "a floating input", name(t));
    if (c.attr(1).none()) self_shape(c);
    else c.add(Tensor::layout(c.in[0].dtype(), c.attr(1).as_ints()));
}

void dropout_noise_kernel(Call& c) {
    double keep = 1 - c.attr(0).as_double();
    draw_real(c, [&]<class T>(T* to, int64_t n) {
        kernels::bernoulli(generator(), to, n, keep, T{1} / static_cast<T>(keep));
    });
}

/// Whether input and rate leave anything to do; p == 1 gives zeros.
bool drops(Call& c, double p) {
    const Tensor& input = c.in[0];
    if (p == 0 || !c.attr(1).as_bool() || input.numel() == 0) {
        c.set(input);
        return false;
    }
    if (p == 1) {
        c.set(input * zeros({}, input.dtype()));
        return false;
    }
    return true;
}

void dropout_body(Call& c) {
    double p = checked_rate(c, c.attr(0));
    if (drops(c, p)) c.set(c.in[0] * dropout_noise(c.in[0], p, Value()));
}

/// One decision per sample and channel.
void feature_dropout_body(Call& c) {
    const Tensor& input = c.in[0];
    double p = checked_rate(c, c.attr(0));
    if (!drops(c, p)) return;
    WEFT_EXPECT(input.ndim() >= 2, Runtime, c.name(),
                "at least 2 dimensions (Feature dropout requires them)", text(input.ndim()));
    Dims size(input.ndim(), 1);
    size[0] = input.size(0);
    size[1] = input.size(1);
    c.set(input * dropout_noise(input, p, size));
}

/// Klambauer et al. 2017, "Self-Normalizing Neural Networks": dropped elements take SELU's lower
/// limit, mean and variance stay.
void alpha_dropout_body(Call& c) {
    const Tensor& input = c.in[0];
    double p = checked_rate(c, c.attr(0));
    if (!drops(c, p)) return;
    WEFT_EXPECT(is_inexact(input.dtype()), Runtime, c.name(), "a floating input",
                name(input.dtype()));
    constexpr double alpha = 1.7580993408473766;
    double a = 1 / std::sqrt((alpha * alpha * p + 1) * (1 - p));
    Tensor kept;
    {
        ModeGuard constant(0, kGradMode);
        kept = bernoulli_p(input, 1 - p);
    }
    Tensor shift = (kept - 1) * (alpha * a) + alpha * a * p;
    c.set(input * (kept * a) + shift);
}

// ---- multinomial -------------------------------------------------------------------------------

void multinomial_shape(Call& c) {
    const Tensor& self = c.in[0];
    int64_t samples = c.attr(0).as_int();
    WEFT_EXPECT(self.ndim() == 1 || self.ndim() == 2, Runtime, c.name(), "one row or several",
                text(self.ndim(), " dimensions (prob_dist must be 1 or 2 dim)"));
    WEFT_EXPECT(is_floating(self.dtype()), Runtime, c.name(), "floating-point input",
                name(self.dtype()));
    WEFT_EXPECT(samples > 0, Runtime, c.name(),
                "at least one sample (cannot sample n_sample <= 0 samples)",
                std::to_string(samples));
    int64_t categories = self.size(self.ndim() - 1);
    WEFT_EXPECT(c.attr(1).as_bool() || samples <= categories, Runtime, c.name(),
                text("at most ", categories),
                text(samples,
                     " (cannot sample n_sample > prob_dist.size(-1) samples without replacement)"));
    WEFT_EXPECT(categories <= int64_t{1} << 24, Runtime, c.name(), "at most 2^24 categories",
                text(categories));
    Dims shape(self.shape());
    shape[self.ndim() - 1] = samples;
    c.add(Tensor::layout(DType::Int64, shape));
}

void multinomial_kernel(Call& c) {
    Tensor self = as_contiguous(c.in[0]);
    if (c.out(0).numel() == 0) return;
    int64_t categories = self.size(self.ndim() - 1),
            rows = self.numel() / std::max<int64_t>(categories, 1);
    WEFT_EXPECT(categories > 0, Runtime, c.name(), "weights of a sum above 0",
                "none (invalid multinomial distribution (sum of probabilities <= 0))");
    dispatch<FloatingTypes>(self.dtype(), c.name(), [&]<class T>() {
        kernels::Weights state = kernels::inspect_weights(self.data<T>(), rows, categories);
        WEFT_EXPECT(state != kernels::Weights::NegativeOrNotFinite, Runtime, c.name(),
                    "finite weights of at least 0",
                    "probability tensor contains either `inf`, `nan` or element < 0");
        WEFT_EXPECT(state != kernels::Weights::AllZero, Runtime, c.name(),
                    "weights of a sum above 0",
                    "invalid multinomial distribution (sum of probabilities <= 0)");
        kernels::multinomial(generator(), c.out(0).data<int64_t>(), self.data<T>(), rows,
                             categories, c.attr(0).as_int(), c.attr(1).as_bool());
    });
}

}  // namespace

void register_bernoulli(Table& t) {
    t.add("bernoulli(Tensor self) -> Tensor")
        .shape(bernoulli_shape)
        .kernel([](Call& c) { bernoulli_each(c, c.in[0]); })
        .random()
        .grad(0, 0, no_influence)
        .doc("1 with the probability given by each element, else 0.\n\n"
             ">>> weft.bernoulli(weft.ones(2))\ntensor([1., 1.])")
        .samples({"f(T(3, 4, lo=0, hi=1))"});
    t.add("bernoulli.p(Tensor self, float p=0.5) -> Tensor")
        .shape(bernoulli_shape)
        .kernel(bernoulli_p_kernel)
        .strided_output()
        .random()
        .inplace()
        .node_name("BernoulliBackward2")
        .grad(0, 0, no_influence)
        .doc("1 with probability p, else 0, shaped as self.\n"
             ">>> weft.bernoulli(weft.zeros(2), 1.0)\n"
             "tensor([1., 1.])")
        .samples({"f(T(3, 4), 0.3)"});
    t.add("bernoulli.tensor(Tensor self, Tensor p) -> Tensor")
        .shape(bernoulli_tensor_shape)
        .kernel([](Call& c) { bernoulli_each(c, c.in[1]); })
        .strided_output()
        .random()
        .internal()
        .inplace()
        .node_name("BernoulliBackward1")
        .grad(0, 0, no_influence)
        .grad(1, 0, no_influence)
        .doc("bernoulli_ with the probabilities of another tensor.");
    t.add("dropout(Tensor input, float p, bool train) -> Tensor")
        .batch(Batch::Body)
        .body(dropout_body)
        .random()
        .function_only()
        .doc("In training each element is 0 with probability p and divided by 1 - p otherwise; "
             "else the input "
             "itself. Srivastava et al. 2014.\n\n>>> weft.dropout(weft.ones(2), 0.0, "
             "True)\ntensor([1., 1.])")
        .samples({"f(T(3, 4), 0.5, True)", "f(T(3, 4), 0.5, False)", "f(T(5), 1.0, True)"});
    t.add("feature_dropout(Tensor input, float p, bool train) -> Tensor")
        .batch(Batch::Body)
        .body(feature_dropout_body)
        .random()
        .function_only()
        .doc("dropout of whole channels: one decision for each [n, c].\n"
             "[n, c, *], of input's shape.\n"
             ">>> weft.feature_dropout(weft.ones(1, 2, 3), 0.5, False)\n"
             "tensor([[[1., 1., 1.],\n"
             "         [1., 1., 1.]]])")
        .samples({"f(T(2, 3, 4), 0.5, True)"});
    t.add("alpha_dropout(Tensor input, float p, bool train) -> Tensor")
        .batch(Batch::Body)
        .body(alpha_dropout_body)
        .random()
        .function_only()
        .doc("dropout that keeps mean and variance of SELU's outputs. Klambauer et al. 2017.\n"
             "Of input's shape.\n"
             ">>> weft.alpha_dropout(weft.ones(2), 0.5, False)\n"
             "tensor([1., 1.])")
        .samples({"f(T(3, 4), 0.5, True)"});
    t.add("_dropout_noise(Tensor self, float p, int[]? size=None) -> Tensor")
        .batch(Batch::Layout)
        .shape(dropout_noise_shape)
        .kernel(dropout_noise_kernel)
        .random()
        .internal()
        .in_packages()
        .doc("1 / (1 - p) with probability 1 - p, else 0.")
        .no_onnx("noise that gradients keep; dropout has a form");
    t.add("multinomial(Tensor self, int num_samples, bool replacement=False) -> Tensor")
        .shape(multinomial_shape)
        .kernel(multinomial_kernel)
        .random()
        .doc("Indices drawn with the weights of each row: [..., num_samples] int64.\n\n"
             ">>> weft.multinomial(weft.tensor([0., 1.]), 1)\ntensor([1])")
        .samples({"f(T(6, lo=0.1), 3)", "f(T(2, 4, lo=0.1), 5, True)"});
}

}  // namespace weft
