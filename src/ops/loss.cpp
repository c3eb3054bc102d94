/// Losses that compare input and target element by element.
#include "ops/loss.h"
#include "ops/batch.h"

#include "kernels/math_exp.h"

namespace weft {

ops::Reduction ops::reduction_of(std::string_view who, const Value& v) {
    const std::string& s = v.as_text();
    if (s == "mean") return Reduction::Mean;
    if (s == "sum") return Reduction::Sum;
    WEFT_EXPECT(s == "none", Value, who, "reduction to be 'none', 'mean' or 'sum'",
                text("'", s, "' (", s, " is not a valid value for reduction)"));
    return Reduction::None;
}

Tensor ops::reduced(const Tensor& t, Reduction how) {
    static const Function mean{"mean"};
    if (how == Reduction::None) return t;
    return how == Reduction::Mean ? mean(t) : sum(t);
}

DType ops::loss_dtype(std::string_view who, const Tensor* in, int count) {
    DType dtype = promoted(in, count);
    WEFT_EXPECT(is_floating(dtype), NotImplemented, who, "a floating dtype", name(dtype));
    return dtype;
}

void ops::add_loss(Call& c, DType dtype, DimSpan shape) {
    bool none = reduction_of(c.name(), c.attr(0)) == Reduction::None;
    c.add(Tensor::layout(dtype, none ? shape : DimSpan()));
}

double ops::scale_of(const Value& reduction, DimSpan shape) {
    if (reduction_of("loss", reduction) != Reduction::Mean) return 1;
    return 1 / static_cast<double>(count_elements("loss", shape));
}

namespace {

using namespace ops;
namespace math = kernels::math;

template <class T>
WEFT_INLINE T sign_of(T d) {
    return d > T{0} ? T{1} : d < T{0} ? T{-1} : d * T{0};
}

/// phi(d), phi'(d) and, as ops, phi''(d) of a difference d. Attributes: reduction, then a
/// parameter.
struct Mse {
    static Mse from(const Value*) { return {}; }
    template <class T>
    WEFT_INLINE T value(T d) const {
        return d * d;
    }
    template <class T>
    WEFT_INLINE T slope(T d) const {
        return d + d;
    }
    static Tensor curved(const Tensor&, const Tensor& w, double) { return w * 2.0; }
};
struct SmoothL1 {
    static constexpr int one_loop = 64;
    double beta;
    static SmoothL1 from(const Value* attrs) { return {attrs[1].as_double()}; }
    template <class T>
    WEFT_INLINE T value(T d) const {
        T a = math::abs(d), b = static_cast<T>(beta);
        return a < b ? T(0.5) * a * a / b : a - T(0.5) * b;
    }
    template <class T>
    WEFT_INLINE T slope(T d) const {
        T b = static_cast<T>(beta);
        return math::abs(d) < b ? d / b : sign_of(d);
    }
    static Tensor curved(const Tensor& d, const Tensor& w, double beta) {
        return where(lt(absolute(d), number(beta, d.dtype())), w / beta, number(0, w.dtype()));
    }
};
struct Huber {
    static constexpr int one_loop = 64;
    double delta;
    static Huber from(const Value* attrs) { return {attrs[1].as_double()}; }
    template <class T>
    WEFT_INLINE T value(T d) const {
        T a = math::abs(d), b = static_cast<T>(delta);
        return a <= b ? T(0.5) * a * a : b * (a - T(0.5) * b);
    }
    template <class T>
    WEFT_INLINE T slope(T d) const {
        T b = static_cast<T>(delta);
        return math::abs(d) <= b ? d : b * sign_of(d);
    }
    static Tensor curved(const Tensor& d, const Tensor& w, double delta) {
        return where(le(absolute(d), number(delta, d.dtype())), w, number(0, w.dtype()));
    }
};

template <class L>
struct ValueOf {
    static constexpr int one_loop = one_loop_of<L>;
    L loss;
    template <class T>
    WEFT_INLINE T operator()(T x, T t) const {
        return loss.value(x - t);
    }
};
template <class L>
struct SlopeOf {
    static constexpr int one_loop = one_loop_of<L>;
    L loss;
    template <class T>
    WEFT_INLINE T operator()(T x, T t) const {
        return loss.slope(x - t);
    }
};

/// The record's name of a loss, for its own backward.
template <class L>
struct Names;
template <>
struct Names<Mse> {
    static constexpr const char* backward = "mse_loss_backward";
};
template <>
struct Names<SmoothL1> {
    static constexpr const char* backward = "smooth_l1_loss_backward";
};
template <>
struct Names<Huber> {
    static constexpr const char* backward = "huber_loss_backward";
};
template <class L>
const Function backward_of{Names<L>::backward};

/// The backward of L, for a gradient `d`, with the attributes of the rule's own call.
template <class L>
Tensor call_backward(const Grad& g, const Tensor& d, const Tensor& x, const Tensor& t) {
    if constexpr (std::is_empty_v<L>) return backward_of<L>(d, x, t, g.attr(0));
    else return backward_of<L>(d, x, t, g.attr(0), g.attr(1));
}

/// The two are brought to one shape before anything else is done, so one of no dims counts as much as
/// the other.
DType difference_dtype(const char* who, const Tensor& x, const Tensor& t) {
    DType dtype = promote(x.dtype(), t.dtype());
    WEFT_EXPECT(is_floating(dtype), NotImplemented, who, "a floating dtype", name(dtype));
    return dtype;
}

template <class L>
void difference_shape(Call& c) {
    add_loss(c, difference_dtype(c.name(), c.in[0], c.in[1]),
             joint_shape(c.name(), c.in[0], c.in[1]));
}

template <class L>
void difference_kernel(Call& c) {
    Dims shape = joint_shape(c.name(), c.in[0], c.in[1]);
    dispatch<FloatingTypes>(c.out(0).dtype(), c.name(), [&]<class T>() {
        run_forward<2, T>(c, ValueOf<L>{L::from(c.attrs)}, c.in, shape);
    });
}

template <class L>
void difference_backward_kernel(Call& c) {
    const Tensor& out = c.out(0);
    double scale = scale_of(c.attr(0), out.shape());
    dispatch<FloatingTypes>(out.dtype(), c.name(), [&]<class T>() {
        run_backward<3, T>(c, SlopeOf<L>{L::from(c.attrs)}, c.in, scale);
    });
}

/// h phi''(x - t) g scale: the gradient of the backward to the input, minus it to the target.
template <class L>
Tensor curvature(const Grad& g) {
    Tensor d = g.in(1) - g.in(2);
    double scale = scale_of(g.attr(0), d.shape());
    double p = 0;
    if constexpr (!std::is_empty_v<L>) p = g.attr(1).as_double();
    return L::curved(d, g.grad() * g.in(0) * scale, p);
}

void loss_backward_shape(Call& c) {
    c.add(Tensor::layout(difference_dtype(c.name(), c.in[1], c.in[2]),
                         joint_shape(c.name(), c.in[1], c.in[2])));
}

/// `more`: the parameter after reduction, as schema text.
template <class L>
OpBuilder add_difference_loss(Table& t, const std::string& name, const std::string& more = "") {
    constexpr SaveMask both = save_in(0) | save_in(1), all = both | save_in(2);
    std::string type = more.substr(0, more.find('='));
    t.add(std::string(Names<L>::backward) +
          "(Tensor grad_output, Tensor self, Tensor target, str reduction" + type + ") -> Tensor")
        .doc(text("The gradient of ", name, " to its input; minus the one to its target."))
        .shape(loss_backward_shape)
        .kernel(difference_backward_kernel<L>)
        .internal()
        .grad(0, save_in(1) | save_in(2),
              [](const Grad& g) { return call_backward<L>(g, g.grad(), g.in(1), g.in(2)); })
        .grad(1, all, curvature<L>)
        .grad(2, all, [](const Grad& g) { return -curvature<L>(g); });
    return t
        .add(name + "(Tensor input, Tensor target, *, str reduction=\"mean\"" + more +
             ") -> Tensor")
        .autocast(Cast::Float)
        .shape(difference_shape<L>)
        .batch(batch_loss)
        .kernel(difference_kernel<L>)
        .function_only()
        .grad(0, both,
              [](const Grad& g) { return call_backward<L>(g, g.grad(), g.in(0), g.in(1)); })
        .grad(1, both,
              [](const Grad& g) { return -call_backward<L>(g, g.grad(), g.in(0), g.in(1)); });
}

void check_weight(const char* who, const Tensor& x, const Tensor& weight) {
    WEFT_EXPECT(equal(x.shape(), weight.shape()), Value, who, "weight and input of the same size",
                text(to_string(weight.shape()), " and ", to_string(x.shape())));
}

/// loss * weight, the mean taken over the weights.
Tensor weighted(const Tensor& loss, const Tensor& weight, Reduction how) {
    Tensor product = loss * weight;
    if (how == Reduction::None) return product;
    return how == Reduction::Sum ? sum(product) : sum(product) / sum(weight);
}

void register_differences(Table& t) {
    const std::vector<std::string> common = {
        "f(T(2, 3), T(2, 3))", "f(T(2, 3), T(2, 3), reduction='sum')",
        "f(T(2, 3), T(2, 3), reduction='none')", "f(T(), T())"};
    add_difference_loss<Mse>(t, "mse_loss")
        .doc("The mean (or 'sum', or 'none') of (input - target)^2, with broadcasting.\n"
             "ValueError for another reduction.\n\n"
             ">>> weft.nn.functional.mse_loss(weft.zeros(2), weft.ones(2))\n"
             "tensor(1.)")
        .samples(common);
    t.add("mse_loss.weighted(Tensor input, Tensor target, *, str reduction=\"mean\", Tensor? "
          "weight=None) -> Tensor")
        .autocast(Cast::Float)
        .batch(Batch::Body)
        .doc("weight * (input - target)^2; the mean is over the weights. ValueError if sizes\n"
             "differ.")
        .body([](Call& c) {
            static const Function mse{"mse_loss"};
            if (!c.in[2].defined()) return c.set(mse(c.in[0], c.in[1], c.attr(0)));
            check_weight(c.name(), c.in[0], c.in[2]);
            Tensor d = c.in[0] - c.in[1];
            c.set(weighted(d * d, c.in[2], reduction_of(c.name(), c.attr(0))));
        })
        .function_only()
        .samples({"f(T(2, 3), T(2, 3), weight=T(2, 3, lo=0.1))"});
    add_difference_loss<SmoothL1>(t, "smooth_l1_loss", ", float beta=1.0")
        .doc("0.5 d^2 / beta where |d| < beta, |d| - 0.5 beta elsewhere (Girshick 2015).\n"
             "d = input - target, which broadcast; a 0-d tensor, or d's shape with 'none'.\n"
             "RuntimeError for a negative beta.\n"
             ">>> weft.nn.functional.smooth_l1_loss(weft.tensor([0.5, 3.]), weft.zeros(2))\n"
             "tensor(1.3125)")
        .shape([](Call& c) {
            WEFT_EXPECT(c.attr(1).as_double() >= 0, Runtime, c.name(), "another beta",
                        text(c.attr(1).as_double(),
                             " (smooth_l1_loss does not support negative values for beta)"));
            difference_shape<SmoothL1>(c);
        })
        .samples({common[0], common[1], common[2], "f(T(3), T(3), beta=0.5)"});
    add_difference_loss<Huber>(t, "huber_loss", ", float delta=1.0")
        .doc("0.5 d^2 where |d| <= delta, delta (|d| - 0.5 delta) elsewhere (Huber 1964).\n"
             "d = input - target, which broadcast; a 0-d tensor, or d's shape with 'none'.\n"
             "RuntimeError for a delta that is not positive.\n"
             ">>> weft.nn.functional.huber_loss(weft.tensor([0.5, 3.]), weft.zeros(2))\n"
             "tensor(1.3125)")
        .shape([](Call& c) {
            WEFT_EXPECT(c.attr(1).as_double() > 0, Runtime, c.name(), "another delta",
                        text(c.attr(1).as_double(),
                             " (huber_loss does not support non-positive values for delta)"));
            difference_shape<Huber>(c);
        })
        .samples({common[0], common[1], common[2], "f(T(3), T(3), delta=0.5)"});
    t.add("huber_loss.weighted(Tensor input, Tensor target, *, str reduction=\"mean\", float "
          "delta=1.0, Tensor? weight=None) -> Tensor")
        .autocast(Cast::Float)
        .batch(Batch::Body)
        .doc("weight * huber_loss, reduced as given. ValueError if sizes differ.")
        .body([](Call& c) {
            static const Function huber{"huber_loss"};
            if (!c.in[2].defined()) return c.set(huber(c.in[0], c.in[1], c.attr(0), c.attr(1)));
            check_weight(c.name(), c.in[0], c.in[2]);
            Tensor loss = huber(c.in[0], c.in[1], "none", c.attr(1));
            c.set(reduced(loss * c.in[2], reduction_of(c.name(), c.attr(0))));
        })
        .function_only()
        .samples({"f(T(2, 3), T(2, 3), weight=T(2, 3, lo=0.1))"});
    t.add("l1_loss(Tensor input, Tensor target, *, str reduction=\"mean\", Tensor? weight=None) "
          "-> Tensor")
        .autocast(Cast::Float)
        .batch(Batch::Body)
        .doc("The mean (or 'sum', or 'none') of |input - target|, weighted if a weight is given.\n"
             "The operands broadcast; a 0-d tensor, or their shape with 'none'.\n"
             ">>> weft.l1_loss(weft.tensor([1., 3.]), weft.zeros(2))\n"
             "tensor(2.)")
        .body([](Call& c) {
            Reduction how = reduction_of(c.name(), c.attr(0));
            Tensor x = c.in[0], target = c.in[1];
            WEFT_EXPECT(x.dtype() != DType::Bool && target.dtype() != DType::Bool, Runtime,
                        c.name(), "tensors of numbers",
                        "a bool one (Subtraction, the `-` operator, with a bool tensor is not "
                        "supported)",
                        "convert with .to(dtype) first");
            if (x.dtype() != target.dtype()) {
                const DType dtype = promote(x.dtype(), target.dtype());
                x = to(x, dtype);
                target = to(target, dtype);
            }
            Tensor d = absolute(x - target);
            if (!c.in[2].defined()) return c.set(reduced(d, how));
            check_weight(c.name(), c.in[0], c.in[2]);
            c.set(weighted(d, c.in[2], how));
        })
        .function_only()
        .samples(common);
}

/// t log(t), 0 at 0 where the logarithm is not finite.
Tensor self_information(const Tensor& t) {
    Tensor zero = eq(t, number(0, t.dtype()));
    return t * log(where(zero, number(1, t.dtype()), t));
}

void kl_div_body(Call& c) {
    const std::string& how = c.attr(0).as_text();
    bool batch = how == "batchmean";
    Reduction reduction = batch ? Reduction::Sum : reduction_of(c.name(), c.attr(0));
    const Tensor &x = c.in[0], &t = c.in[1];
    for (int i = 0; i < 2; ++i)
        WEFT_EXPECT(is_floating(c.in[i].dtype()), Runtime, "kl_div", "floating input and target",
                    name(c.in[i].dtype()));
    Tensor loss = c.attr(1).as_bool() ? exp(t) * (t - x) : self_information(t) - t * x;
    loss = reduced(loss, reduction);
    c.set(batch && x.ndim() ? loss / static_cast<double>(x.size(0)) : loss);
}

}  // namespace

void register_loss(Table& t) {
    register_differences(t);
    t.add("kl_div(Tensor input, Tensor target, *, str reduction=\"mean\", bool log_target=False) "
          "-> Tensor")
        .autocast(Cast::Float)
        .doc("target * (log(target) - input) with input in log space, target too if `log_target`\n"
             "says so. reduction 'batchmean' divides the sum by the first size (Kullback and\n"
             "Leibler 1951).\n"
             ">>> p = weft.tensor([0.5, 0.5])\n"
             ">>> weft.kl_div(weft.log(p), p, reduction=\"sum\")\n"
             "tensor(0.)")
        .body(kl_div_body)
        .batch(Batch::Body)
        .function_only()
        .samples({"f(T(2, 3), T(2, 3, lo=0.1), reduction='batchmean')",
                  "f(T(3), T(3, lo=0.1), reduction='sum')",
                  "f(T(2, 3), T(2, 3), reduction='none', log_target=True)"});
}

}  // namespace weft
