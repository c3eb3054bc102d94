/// Cross entropy of probabilities and of logits against targets in [0, 1].
#include "kernels/math_exp.h"
#include "ops/batch.h"
#include "ops/loss.h"

namespace weft {
namespace {

using namespace ops;
namespace math = kernels::math;

const Function bce{"binary_cross_entropy"}, logits_bce{"binary_cross_entropy_with_logits"},
    bce_backward{"binary_cross_entropy_backward"},
    logits_backward{"_binary_cross_entropy_with_logits_backward"}, sigmoid_of{"sigmoid"};

/// PyTorch's words for a target of another size.
std::string differing_sizes(const Call& c) {
    const std::string target = text("torch.Size(", to_string(c.in[1].shape()), ")");
    const std::string input = text("torch.Size(", to_string(c.in[0].shape()), ")");
    if (c.op->name == "binary_cross_entropy")
        return text("two (Using a target size (", target, ") that is different to the input size (",
                    input, ") is deprecated. Please ensure they have the same size.)");
    return text("two (Target size (", target, ") must be the same as input size (", input, "))");
}

void check_sizes(const Call& c) {
    WEFT_EXPECT(equal(c.in[0].shape(), c.in[1].shape()), Value, c.name(),
                "input and target of one size", differing_sizes(c));
}

/// A weight must broadcast to the input without enlarging it.
void check_weight_fits(const Call& c, const Tensor& weight, const char* which) {
    if (!weight.defined()) return;
    DimSpan shape = c.in[0].shape();
    WEFT_EXPECT(equal(broadcast(c.name(), shape, weight.shape()), shape), Runtime, c.name(),
                text("a ", which, " that broadcasts to the input's size ", to_string(shape)),
                to_string(weight.shape()));
}

/// t * w * scale, for gradient rules.
Tensor weigh(const Tensor& t, const Tensor& weight, double scale) {
    Tensor out = scale == 1 ? t : t * scale;
    return weight.defined() ? out * weight : out;
}

// ---- weighted losses of several calls (Note [Rows] in batch.h) ----

/// Inputs (x, target, weights...) as `c`'s with rows of the dims from `first` on.
void segments_body(Call& c, const Function& loss, int inputs) {
    static const Function segment_sum{"_segment_sum"};
    std::vector<Tensor> in(c.in, c.in + inputs);
    Tensor rows = loss.over(in, {"none"});
    bool mean = reduction_of(c.name(), c.attr(1)) == Reduction::Mean;
    if (rows.ndim() > 1) {
        rows = reshape(rows, Dims{rows.size(0), -1});
        rows = mean ? mean_dim(rows, 1, false) : sum_dim(rows, 1, false);
    }
    c.set(segment_sum(rows, c.attr(0), mean));
}

/// Without weights by elements. Else by rows of the dims on which a shared weight is spread, or
/// those of an own weight that the input does not have in its size.
bool weighted_rows(const BatchCall& c, BatchForm& form, const char* segments) {
    bool weighted = false;
    for (int i = 2; i < c.inputs(); ++i) weighted |= c.in(i).defined();
    if (!weighted) return batch_loss(c, form);
    const Tensor& x = c.in(0);
    if (x.numel() == 0 || c.in(1).dtype() != x.dtype()) return false;
    int ndim = x.ndim(), first = ndim;
    auto shared = [&](int i) { return !c.in(i).defined() || c.fixed(i); };
    auto size = [&](int i, int d) {
        int at = d - (ndim - c.in(i).ndim());
        return at < 0 ? 1 : c.in(i).size(at);
    };
    for (int i = 2; i < c.inputs(); ++i) {
        if (!c.in(i).defined()) continue;
        int same = 0;
        while (same < ndim && size(i, same) == x.size(same)) ++same;
        first = std::min(first, shared(i) ? ndim - c.in(i).ndim() : same);
    }
    for (int i = 0; i < c.inputs(); ++i) {
        Dims row;
        for (int d = first; d < ndim && !shared(i); ++d) row.push_back(size(i, d));
        if (i >= 2 && shared(i)) form.add_shared(i);
        else form.add_rows(i, i < 2 ? x.shape().subspan(static_cast<size_t>(first)) : DimSpan(row));
    }
    form.rows = 1;
    for (int d = 0; d < first; ++d) form.rows *= x.size(d);
    if (reduction_of(c.call.name(), c.attr(0)) == Reduction::None) return true;
    form.op = &table().at(segments);
    form.attrs = {Dims{}, c.attr(0)};
    form.counts_attr = 0;
    return true;
}

// ---- probabilities: inputs (x, target, weight), attribute reduction ----

/// Logarithms are kept above -100, so that a wrong certainty costs 100 and not infinity.
struct Bce {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T x, T t) const {
        T yes = math::log(x), no = math::log1p(-x), least = T(-100);
        yes = yes < least ? least : yes;
        no = no < least ? least : no;
        return (t - T{1}) * no - t * yes;
    }
    template <class T>
    WEFT_INLINE T operator()(T x, T t, T w) const {
        return w * (*this)(x, t);
    }
};
constexpr double kLeastVariance = 1e-12;
struct BceSlope {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T x, T t) const {
        T variance = (T{1} - x) * x, least = static_cast<T>(kLeastVariance);
        return (x - t) / (variance < least ? least : variance);
    }
    template <class T>
    WEFT_INLINE T operator()(T x, T t, T w) const {
        return w * (*this)(x, t);
    }
};

void bce_shape(Call& c) {
    check_sizes(c);
    const Tensor& x = c.in[0];
    WEFT_EXPECT(is_floating(x.dtype()), NotImplemented, c.name(), "a floating dtype",
                name(x.dtype()));
    WEFT_EXPECT(c.in[1].dtype() == x.dtype(), Runtime, c.name(),
                text("a target of dtype ", name(x.dtype())), name(c.in[1].dtype()),
                "convert the target with .to(input.dtype)");
    check_weight_fits(c, c.in[2], "weight");
    add_loss(c, x.dtype(), x.shape());
}

template <class T>
void check_probabilities(const Tensor& t, const char* which) {
    const T* p = t.data<T>();
    int64_t bad = 0;
    for (int64_t i = 0, n = t.numel(); i < n; ++i) bad += !(p[i] >= T{0} && p[i] <= T{1});
    WEFT_EXPECT(bad == 0, Runtime, "binary_cross_entropy", "probabilities",
                text(bad, " others (all elements of ", which, " should be between 0 and 1)"),
                "binary_cross_entropy_with_logits takes any real number");
}

void bce_kernel(Call& c) {
    Tensor in[] = {as_contiguous(c.in[0]), as_contiguous(c.in[1]), c.in[2]};
    dispatch<FloatingTypes>(in[0].dtype(), c.name(), [&]<class T>() {
        check_probabilities<T>(in[0], "input");
        check_probabilities<T>(in[1], "target");
        if (in[2].defined()) run_forward<3, T>(c, Bce{}, in, in[0].shape());
        else run_forward<2, T>(c, Bce{}, in, in[0].shape());
    });
}

void same_as_input(Call& c) { c.add(Tensor::layout(c.in[1].dtype(), c.in[1].shape())); }

void bce_backward_kernel(Call& c) {
    double scale = scale_of(c.attr(0), c.out(0).shape());
    dispatch<FloatingTypes>(c.out(0).dtype(), c.name(), [&]<class T>() {
        if (c.in[3].defined()) run_backward<4, T>(c, BceSlope{}, c.in, scale);
        else run_backward<3, T>(c, BceSlope{}, c.in, scale);
    });
}

Tensor bce_variance(const Tensor& x) {
    return maximum((1.0 - x) * x, number(kLeastVariance, x.dtype()));
}

void register_bce(Table& t) {
    constexpr SaveMask used = save_in(0) | save_in(1) | save_in(2), all = used | save_in(3);
    t.add("binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, *, str "
          "reduction=\"mean\") -> Tensor")
        .autocast(Cast::Float)
        .batch([](const BatchCall& b, BatchForm& form) {
            return weighted_rows(b, form, "_binary_cross_entropy_segments");
        })
        .doc("-(t log(x) + (1 - t) log(1 - x)) * weight, logarithms kept above -100; the mean\n"
             "(or 'sum', or 'none'). RuntimeError for elements outside [0, 1], ValueError for\n"
             "sizes that differ.\n"
             ">>> weft.binary_cross_entropy(weft.tensor([0.5]), weft.tensor([1.]))\n"
             "tensor(0.6931)")
        .shape(bce_shape)
        .kernel(bce_kernel)
        .function_only()
        .grad(0, used,
              [](const Grad& g) {
                  return bce_backward(g.grad(), g.in(0), g.in(1), g.in(2), g.attr(0));
              })
        .grad(1, save_in(0) | save_in(2),
              [](const Grad& g) {
                  Tensor x = g.in(0);
                  double scale = scale_of(g.attr(0), x.shape());
                  return weigh(g.grad() * (log1p(-x) - log(x)), g.in(2), scale);
              })
        .samples({"f(T(2, 3, lo=0.1, hi=0.9), T(2, 3, lo=0.1, hi=0.9))",
                  "f(T(3, lo=0.1, hi=0.9), T(3, lo=0.1, hi=0.9), reduction='none')",
                  "f(T(lo=0.1, hi=0.9), T(lo=0.1, hi=0.9), reduction='sum')"});
    t.add("_binary_cross_entropy_segments(Tensor input, Tensor target, Tensor? weight, int[] "
          "counts, "
          "str reduction) -> Tensor")
        .doc("binary_cross_entropy of rows, reduced over runs of counts[k] rows.")
        .body([](Call& c) { segments_body(c, bce, 3); })
        .internal()
        .samples({"f(T(3, 2, lo=0.1, hi=0.9), T(3, 2, lo=0.1, hi=0.9), None, (1, 2), 'mean')"});
    t.add("binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? "
          "weight, str reduction) -> Tensor")
        .doc("The gradient of binary_cross_entropy to its input, (x - t) / (x (1 - x)).")
        .shape(same_as_input)
        .kernel(bce_backward_kernel)
        .internal()
        .grad(0, all,
              [](const Grad& g) {
                  return bce_backward(g.grad(), g.in(1), g.in(2), g.in(3), g.attr(0));
              })
        .grad(1, all,
              [](const Grad& g) {
                  Tensor x = g.in(1), p = g.in(2), v = bce_variance(x);
                  Tensor curve = (x * x - x * p * 2.0 + p) / (v * v);
                  return weigh(g.grad() * g.in(0) * curve, g.in(3), scale_of(g.attr(0), x.shape()));
              })
        .grad(2, save_in(0) | save_in(1) | save_in(3), [](const Grad& g) {
            Tensor x = g.in(1);
            return weigh(-g.grad() * g.in(0) / bce_variance(x), g.in(3),
                         scale_of(g.attr(0), x.shape()));
        });
}

// ---- logits: inputs (x, target, weight, pos_weight), attribute reduction ----

/// (1 - t) x + (1 + (p - 1) t) softplus(-x), with p the weight of positives.
struct Logits {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T x, T t) const {
        return x * ((x > T{0} ? T{1} : T{0}) - t) + math::log1p(math::exp(-math::abs(x)));
    }
    template <class T>
    WEFT_INLINE T operator()(T x, T t, T w) const {
        return w * (*this)(x, t);
    }
    template <class T>
    WEFT_INLINE T operator()(T x, T t, T w, T p) const {
        T soft = (x < T{0} ? -x : T{0}) + math::log1p(math::exp(-math::abs(x)));
        return w * ((T{1} - t) * x + (T{1} + (p - T{1}) * t) * soft);
    }
};
struct LogitsSlope {
    static constexpr int one_loop = 32;
    template <class T>
    WEFT_INLINE T operator()(T x, T t) const {
        return math::sigmoid(x) - t;
    }
    template <class T>
    WEFT_INLINE T operator()(T x, T t, T w) const {
        return w * (*this)(x, t);
    }
    template <class T>
    WEFT_INLINE T operator()(T x, T t, T w, T p) const {
        return w * ((T{1} - t) - (T{1} + (p - T{1}) * t) * math::sigmoid(-x));
    }
};

void logits_shape(Call& c) {
    check_sizes(c);
    for (int i = 0; i < 2; ++i)
        if (!is_floating(c.in[i].dtype()))
            fail_dtype(c.name(), FloatingTypes::text, c.in[i].dtype());
    WEFT_EXPECT(is_floating(c.in[1].dtype()), Runtime, c.name(), "a target of a floating dtype",
                text(name(c.in[1].dtype()), " (result type Float can't be cast to it)"));
    check_weight_fits(c, c.in[2], "weight");
    check_weight_fits(c, c.in[3], "pos_weight");
    add_loss(c, c.in[1].dtype(), c.in[0].shape());  // PyTorch writes into 1 - target
}

/// Calls `run` with how many operands there are: weights that are not given are not read, and a
/// missing weight before a pos_weight is 1.
template <class Run>
void with_weights(Tensor* operands, const Tensor& weight, const Tensor& positive, DType dtype,
                  Run&& run) {
    operands[0] = weight;
    operands[1] = positive;
    if (positive.defined() && !weight.defined()) operands[0] = Tensor::scalar(1.0, dtype);
    if (positive.defined()) run(std::integral_constant<int, 2>{});
    else if (weight.defined()) run(std::integral_constant<int, 1>{});
    else run(std::integral_constant<int, 0>{});
}

void logits_kernel(Call& c) {
    DType dtype = c.out(0).dtype();
    Tensor in[4] = {c.in[0], c.in[1]};
    with_weights(in + 2, c.in[2], c.in[3], dtype, [&](auto weights) {
        dispatch<FloatingTypes>(dtype, c.name(), [&]<class T>() {
            run_forward<2 + weights, T>(c, Logits{}, in, c.in[0].shape());
        });
    });
}

void logits_backward_kernel(Call& c) {
    DType dtype = c.out(0).dtype();
    double scale = scale_of(c.attr(0), c.out(0).shape());
    Tensor in[5] = {c.in[0], c.in[1], c.in[2]};
    with_weights(in + 3, c.in[3], c.in[4], dtype, [&](auto weights) {
        dispatch<FloatingTypes>(dtype, c.name(), [&]<class T>() {
            run_backward<3 + weights, T>(c, LogitsSlope{}, in, scale);
        });
    });
}

/// 1 + (p - 1) t
Tensor positive_factor(const Tensor& t, const Tensor& p) { return (p - 1.0) * t + 1.0; }

/// d/dt of the loss: (p - 1) softplus(-x) - x.
Tensor logits_target_gradient(const Grad& g) {
    Tensor x = g.in(0), p = g.in(3);
    Tensor slope = p.defined() ? (p - 1.0) * softplus(-x) - x : -x;
    return weigh(g.grad() * slope, g.in(2), scale_of(g.attr(0), x.shape()));
}

void register_logits(Table& t) {
    constexpr SaveMask used = save_in(0) | save_in(1) | save_in(2) | save_in(3),
                       all = used | save_in(4);
    t.add("binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, *, "
          "str reduction=\"mean\", Tensor? pos_weight=None) -> Tensor")
        .autocast(Cast::Float)
        .batch(
            [](const BatchCall& b, BatchForm& form) {
                return weighted_rows(b, form, "_binary_cross_entropy_with_logits_segments");
            },
            save_in(3))
        .doc("binary_cross_entropy of sigmoid(input), without overflow; `pos_weight` multiplies\n"
             "the positive part. Of the target's dtype. ValueError for sizes that differ.\n"
             ">>> weft.binary_cross_entropy_with_logits(weft.zeros(2), weft.ones(2))\n"
             "tensor(0.6931)")
        .shape(logits_shape)
        .kernel(logits_kernel)
        .function_only()
        .grad(0, used,
              [](const Grad& g) {
                  return logits_backward(g.grad(), g.in(0), g.in(1), g.in(2), g.in(3), g.attr(0));
              })
        .grad(1, save_in(0) | save_in(2) | save_in(3), logits_target_gradient)
        .samples({"f(T(2, 3), T(2, 3))", "f(T(3), T(3), reduction='none')",
                  "f(T(), T(), reduction='sum')"});
    t.add("_binary_cross_entropy_with_logits_segments(Tensor input, Tensor target, Tensor? weight, "
          "Tensor? pos_weight, int[] counts, str reduction) -> Tensor")
        .doc("binary_cross_entropy_with_logits of rows, reduced over runs of counts[k] rows.")
        .body([](Call& c) { segments_body(c, logits_bce, 4); })
        .internal()
        .samples({"f(T(3, 2), T(3, 2), None, T(2).detach(), (1, 2), 'mean')"});
    t.add("_binary_cross_entropy_with_logits_backward(Tensor grad_output, Tensor self, Tensor "
          "target, Tensor? weight, Tensor? pos_weight, str reduction) -> Tensor")
        .doc("The gradient of binary_cross_entropy_with_logits to its input.")
        .shape([](Call& c) {
            c.add(Tensor::layout(loss_dtype(c.name(), c.in + 1, 2), c.in[1].shape()));
        })
        .kernel(logits_backward_kernel)
        .internal()
        .grad(0, all,
              [](const Grad& g) {
                  return logits_backward(g.grad(), g.in(1), g.in(2), g.in(3), g.in(4), g.attr(0));
              })
        .grad(1, all,
              [](const Grad& g) {
                  Tensor x = g.in(1), p = g.in(4);
                  Tensor curve = sigmoid_of(x) * sigmoid_of(-x);
                  if (p.defined()) curve = curve * positive_factor(g.in(2), p);
                  return weigh(g.grad() * g.in(0) * curve, g.in(3), scale_of(g.attr(0), x.shape()));
              })
        .grad(2, save_in(0) | save_in(1) | save_in(3) | save_in(4), [](const Grad& g) {
            Tensor x = g.in(1), p = g.in(4), hg = -g.grad() * g.in(0);
            if (p.defined()) hg = hg * ((p - 1.0) * sigmoid_of(-x) + 1.0);
            return weigh(hg, g.in(3), scale_of(g.attr(0), x.shape()));
        });
}

}  // namespace

void register_binary_loss(Table& t) {
    register_bce(t);
    register_logits(t);
}

}  // namespace weft
