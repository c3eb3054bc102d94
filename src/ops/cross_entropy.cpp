/// Negative log-likelihood of classes, and cross entropy.
///
/// Note [One op for cross entropy]
/// With class targets the log-softmax is never stored: forward keeps one logsumexp per target,
/// backward makes exp(x - lse) where it is needed. That is half the memory and one op instead of
/// two, each way. The composite over log_softmax and nll_loss gives the same numbers (the tests
/// compare them).
#include "kernels/loss.h"

#include "ops/batch.h"
#include "ops/loss.h"

namespace weft {
namespace {

using namespace ops;

constexpr std::string_view kSeveral = "0D or 1D target tensor expected, multi-target not supported";
using kernels::Axis;
using kernels::Targets;

const Function nll_loss{"nll_loss"}, nll_backward{"nll_loss_backward"},
    fused_entropy{"_cross_entropy"}, fused_spatial{"_cross_entropy_spatial"},
    fused_entropy_backward{"_cross_entropy_backward"}, log_softmax{"log_softmax"},
    div_number{"div.Scalar"};

/// Scores [C], [N, C] or [N, C, d1, ...]; classes are this dim.
int class_dim(DimSpan scores) { return scores.size() == 1 ? 0 : 1; }

Axis class_axis(DimSpan scores) { return axis_along(scores, class_dim(scores)); }

/// The targets' shape for such scores.
Dims target_shape(DimSpan scores) {
    Dims out(scores);
    out.erase(class_dim(scores));
    return out;
}

/// The attributes (reduction, ignore_index), wherever they stand in a record.
struct Options {
    Reduction reduction;
    int64_t ignore;
    Options(const char* who, const Value* attrs)
        : reduction(reduction_of(who, attrs[0])), ignore(attrs[1].as_int()) {}
};

/// The op that the user called.
const char* loss_name(const Call& c) { return c.op->function ? c.name() : "cross_entropy"; }

void check_target_shape(const char* who, const Tensor& x, const Tensor& target) {
    int nx = x.ndim(), nt = target.ndim();
    if (nx == 0)  // nll_loss counts the dims, cross_entropy asks for the classes'
        fail(std::string_view(who) == "cross_entropy" ? ErrorKind::Index : ErrorKind::Value, who,
             "scores",
             std::string_view(who) == "cross_entropy"
                 ? "a number (Dimension out of range (expected to be in range of [-1, 0], but got "
                   "1))"
                 : "a number (Expected 1 or more dimensions (got 0))");
    if (nx == 1) {
        WEFT_EXPECT(nt <= 1, Runtime, who, "one target", text(nt, " dims (", kSeveral, ")"));
        WEFT_EXPECT(target.numel() == 1, Value, who, "one target for a 1-d input",
                    text("For 1D input, 1D target must have size 1, but got target size: ",
                         target.numel()));
        return;
    }
    int64_t batch = nt ? target.size(0) : 0;
    WEFT_EXPECT(x.size(0) == batch, Value, who, "a target for each input",
                text(batch, " (Expected input batch_size (", x.size(0),
                     ") to match target batch_size (", batch, ").)"));
    WEFT_EXPECT(nx > 2 || nt <= 1, Runtime, who, "a vector of targets",
                text("shape ", to_string(target.shape()), " (", kSeveral, ")"));
    Dims wanted = target_shape(x.shape());
    WEFT_EXPECT(equal(target.shape(), wanted), Runtime, who, "a target for each place",
                text("others (expected target size ", to_string(wanted), ", got ",
                     to_string(target.shape()), ")"));
}

void check_classes(const char* who, const Tensor& x, const Tensor& weight) {
    WEFT_EXPECT(is_floating(x.dtype()), NotImplemented, who, "scores of a floating dtype",
                name(x.dtype()));
    if (!weight.defined()) return;
    int64_t classes = x.size(class_dim(x.shape()));
    WEFT_EXPECT(
        weight.ndim() == 1 && weight.numel() == classes, Runtime, who, "a weight for each class",
        text("others (weight tensor should be defined either for all ", classes,
             " classes or no classes but got weight tensor of shape: ", to_string(weight.shape()),
             ")"));
}

/// Inputs (scores, targets, weight?).
void check_indexed(const Call& c) {
    const Tensor &x = c.in[0], &target = c.in[1], &weight = c.in[2];
    check_target_shape(loss_name(c), x, target);
    bool classes = target.dtype() == DType::Int64 || target.dtype() == DType::UInt8;
    WEFT_EXPECT(classes, Runtime, loss_name(c), "classes",
                text(name(target.dtype()), " (expected target dtype to be Long or Byte, but got ",
                     scalar_name(target.dtype()), ")"),
                "class indices are integers; probabilities have the input's shape");
    check_classes(loss_name(c), x, weight);
    if (weight.defined())
        WEFT_EXPECT(weight.dtype() == x.dtype(), Runtime, loss_name(c),
                    text("a weight of dtype ", name(x.dtype())), name(weight.dtype()));
}

void indexed_loss_shape(Call& c) {
    bool none = Options(loss_name(c), c.attrs).reduction == Reduction::None;
    check_indexed(c);
    c.add(Tensor::layout(c.in[0].dtype(), none ? target_shape(c.in[0].shape()) : Dims()));
}

void fused_shape(Call& c) {
    indexed_loss_shape(c);
    c.add(Tensor::layout(c.in[0].dtype(), target_shape(c.in[0].shape())));
}

/// The targets as the kernels read them.
struct TargetBatch {
    Tensor target, weight;
    Targets targets;
    int64_t count;
    TargetBatch(const Tensor& t, const Tensor& w, int64_t ignore)
        : target(as_contiguous(t)), weight(w.defined() ? as_contiguous(w) : w),
          targets{target.data<int64_t>(), ignore}, count(target.numel()) {}
    template <class T>
    const T* weights() const {
        return weight.defined() ? weight.data<T>() : nullptr;
    }
};

void check_targets(const Call& c, const TargetBatch& b, int64_t classes) {
    const int64_t* bad = kernels::bad_target(b.targets, b.count, classes);
    if (!bad) [[likely]]
        return;
    fail(ErrorKind::Index, loss_name(c), text("targets in [0, ", classes, ")"),
         text("Target ", *bad, " is out of bounds"), "ignore_index marks targets to leave out");
}

/// Loss per target by `each(y)`, then reduced into c.out(0).
template <class T, class Each>
void reduce_losses(Call& c, const TargetBatch& b, Reduction how, Each&& each) {
    const Tensor& out = c.out(0);
    if (how == Reduction::None) return each(out.data<T>());
    constexpr int64_t kFew = 256;
    T few[kFew];
    Tensor many = b.count > kFew ? Tensor::empty(out.dtype(), Dims{b.count}) : Tensor();
    T* y = many.defined() ? many.data<T>() : few;
    each(y);
    T total;
    kernels::sum<T>(y, &total, {1, b.count, 1});
    double divisor = 1;
    if (how == Reduction::Mean) divisor = kernels::total_weight(b.targets, b.weights<T>(), b.count);
    *out.data<T>() = static_cast<T>(total / divisor);
}

void nll_kernel(Call& c) {
    Options options(loss_name(c), c.attrs);
    Tensor x = as_contiguous(c.in[0]);
    Axis axis = class_axis(x.shape());
    TargetBatch b(c.in[1], c.in[2], options.ignore);
    check_targets(c, b, axis.n);
    dispatch<FloatingTypes>(x.dtype(), c.name(), [&]<class T>() {
        reduce_losses<T>(c, b, options.reduction, [&](T* y) {
            kernels::nll(x.data<T>(), b.targets, b.weights<T>(), y, axis);
        });
    });
}

void fused_kernel(Call& c) {
    Options options(loss_name(c), c.attrs);
    Tensor x = as_contiguous(c.in[0]);
    Axis axis = class_axis(x.shape());
    TargetBatch b(c.in[1], c.in[2], options.ignore);
    check_targets(c, b, axis.n);
    dispatch<FloatingTypes>(x.dtype(), c.name(), [&]<class T>() {
        T* lse = c.out(1).data<T>();
        {
            Unlocked unlocked(8 * x.numel());
            kernels::logsumexp(x.data<T>(), lse, axis);
        }
        reduce_losses<T>(c, b, options.reduction, [&](T* y) {
            kernels::cross_entropy(x.data<T>(), lse, b.targets, b.weights<T>(), y, axis);
        });
    });
}

template <class T>
T target_scale(const TargetBatch& b, Reduction how) {
    if (how != Reduction::Mean) return 1;
    return static_cast<T>(1 / kernels::total_weight(b.targets, b.weights<T>(), b.count));
}

/// Inputs (grad_output, target, weight?), attributes (reduction, ignore_index, size).
void nll_backward_kernel(Call& c) {
    Options options(loss_name(c), c.attrs);
    const Tensor& out = c.out(0);
    Tensor dy = as_contiguous(c.in[0], out.dtype());
    TargetBatch b(c.in[1], c.in[2], options.ignore);
    int64_t stride = options.reduction == Reduction::None;
    dispatch<FloatingTypes>(out.dtype(), c.name(), [&]<class T>() {
        kernels::nll_backward(dy.data<T>(), stride, b.targets, b.weights<T>(),
                              target_scale<T>(b, options.reduction), out.data<T>(),
                              class_axis(out.shape()));
    });
}

/// Inputs (grad_output, scores, lse, target, weight?), attributes (reduction, ignore_index).
void fused_backward_kernel(Call& c) {
    Options options(loss_name(c), c.attrs);
    const Tensor& out = c.out(0);
    Tensor dy = as_contiguous(c.in[0], out.dtype()), x = as_contiguous(c.in[1]),
           lse = as_contiguous(c.in[2]);
    TargetBatch b(c.in[3], c.in[4], options.ignore);
    int64_t stride = options.reduction == Reduction::None;
    Unlocked unlocked(8 * x.numel());
    dispatch<FloatingTypes>(out.dtype(), c.name(), [&]<class T>() {
        kernels::cross_entropy_backward(dy.data<T>(), stride, x.data<T>(), lse.data<T>(), b.targets,
                                        b.weights<T>(), target_scale<T>(b, options.reduction),
                                        out.data<T>(), class_axis(x.shape()));
    });
}

const char* nll_node(const Call& c) {
    return c.in[0].ndim() > 2 ? "NllLoss2DBackward0" : "NllLossBackward0";
}

const char* nll_backward_node(DimSpan size) {
    const size_t dims = size.size();  // of three PyTorch makes four
    return dims == 3  ? "ViewBackward0"
           : dims > 3 ? "NllLoss2DBackwardBackward0"
                      : "NllLossBackwardBackward0";
}

/// What each row's loss counts, of calls with weights [C] of their own: 0 where it is ignored.
Tensor own_weights(const Tensor& weight, const Tensor& target, DimSpan counts, int64_t ignore) {
    static const Function index_op{"index"};
    ModeGuard no_graph(0, kGradMode);
    Tensor of_call = Tensor::empty(DType::Int64, target.shape());
    auto* to_row = of_call.data<int64_t>();
    for (size_t k = 0; k < counts.size(); ++k)
        to_row = std::fill_n(to_row, counts[k], static_cast<int64_t>(k));
    Tensor kept = ne(target, Tensor::scalar(ignore, DType::Int64, true));
    Tensor picked = index_op(weight, of_call, target * to(kept, DType::Int64));
    return picked * to(kept, weight.dtype());
}

/// Losses of the rows, reduced over the first counts[0] rows, the next counts[1], ...; and lse.
template <bool Fused>
void entropy_segments_body(Call& c) {
    static const Function segment_sum{"_segment_sum"}, full_like{"full_like"};
    const Tensor &x = c.in[0], &target = c.in[1];
    const Value &counts = c.attr(0), &ignore = c.attr(2);
    const bool own = c.in[2].defined() && c.in[2].ndim() == 2;
    const Tensor weight = own ? Tensor() : c.in[2];
    auto rows = (Fused ? fused_entropy : nll_loss).all({x, target, weight}, {"none", ignore});
    Reduction how = reduction_of("cross_entropy", c.attr(1));
    Tensor counted, loss = rows[0];
    if (own) {
        counted = own_weights(c.in[2], target, counts.as_ints(), ignore.as_int());
        loss = loss * counted;
    }
    if (how != Reduction::None) loss = segment_sum(loss, counts, false);
    if (how == Reduction::Mean) {
        if (weight.defined())  // of scores -1 the loss is the weight, 0 where it is ignored
            counted = nll_loss(full_like(x, -1, Value()), target, weight, "none", ignore);
        else if (!own)
            counted =
                to(ne(target, Tensor::scalar(ignore.as_int(), DType::Int64, true)), loss.dtype());
        loss = loss / segment_sum(counted, counts, false);
    }
    c.add(std::move(loss));
    if (Fused) c.add(std::move(rows[1]));
}

/// Rows of scores and one target each; one weight for all, or one for each call.
bool class_rows(const BatchCall& c, BatchForm& form, const char* segments) {
    const Tensor &x = c.in(0), &target = c.in(1);
    bool shared = !c.in(2).defined() || c.fixed(2);
    if (x.ndim() < 1 || x.ndim() > 2 || x.numel() == 0) return false;
    form.add_rows(0, x.shape().subspan(static_cast<size_t>(x.ndim() - 1)));
    form.add_rows(1, DimSpan());
    if (shared) form.add_shared(2);
    else form.add_rows(2, c.in(2).shape(), 1);
    form.rows = target.numel();
    if (shared && reduction_of("cross_entropy", c.attr(0)) == Reduction::None) return true;
    form.op = &table().at(segments);
    form.attrs = {Dims{}, c.attr(0), c.attr(1)};
    form.counts_attr = 0;
    return true;
}
bool fused_rows(const BatchCall& c, BatchForm& form) {
    return class_rows(c, form, "_cross_entropy_segments");
}
bool nll_rows(const BatchCall& c, BatchForm& form) { return class_rows(c, form, "_nll_segments"); }

void register_nll(Table& t) {
    t.add("nll_loss(Tensor input, Tensor target, Tensor? weight=None, *, str reduction=\"mean\", "
          "int ignore_index=-100) -> Tensor")
        .autocast(Cast::Float)
        .doc("-weight[t] * input[t] for every target t (int64); the mean is over the weights.\n"
             "Input [C], [N, C] or [N, C, d1, ...] of log-probabilities, target without C.\n"
             "IndexError for a target that is no class.\n"
             ">>> weft.nll_loss(weft.tensor([[-1., -2.]]), weft.tensor([1]))\n"
             "tensor(2.)")
        .shape(indexed_loss_shape)
        .kernel(nll_kernel)
        .batch(nll_rows, save_in(2))
        .function_only()
        .node_name(nll_node)
        .grad(0, save_in(1) | save_in(2),
              [](const Grad& g) {
                  Dims size = g.in_shape(0);
                  Tensor dx = nll_backward(g.grad(), g.in(1), g.in(2), g.attr(0), g.attr(1), size);
                  return g.constant_in(0, dx, nll_backward_node(size));
              })
        .samples({"f(T(4, 3), I(4, high=3))", "f(T(4, 3), I(4, high=3), reduction='none')",
                  "f(T(2, 3, 4), I(2, 4, high=3), reduction='sum')", "f(T(3), I(high=3))",
                  "f(T(5, 3), I(5, high=3), ignore_index=1, reduction='sum')"});
    t.add("nll_loss_backward(Tensor grad_output, Tensor target, Tensor? weight, str reduction, "
          "int ignore_index, int[] size) -> Tensor")
        .doc("The gradient of nll_loss to its input, which had `size`.")
        .shape([](Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.attr(2).as_ints())); })
        .kernel(nll_backward_kernel)
        .internal()
        .node_name([](const Call& c) { return nll_backward_node(c.attr(2).as_ints()); })
        .grad(0, save_in(1) | save_in(2), [](const Grad& g) {
            return nll_loss(g.grad(), g.in(1), g.in(2), g.attr(0), g.attr(1));
        });
}

Tensor fused_gradient(const Grad& g) {
    return fused_entropy_backward(g.grad(), g.in(0), g.out(1), g.in(1), g.in(2), g.attr(0),
                                  g.attr(1));
}

/// The backward is s (p - [c == t]) with p = softmax(x) and s = weight * scale * grad_output.
Tensor fused_second_to_grad(const Grad& g) {
    Tensor x = g.in(1), h = g.grad();
    int64_t dim = class_dim(x.shape());
    Tensor centred = h - sum_dim(h * softmax(x, dim), dim, true);
    return nll_loss(centred, g.in(3), g.in(4), g.attr(0), g.attr(1));
}
Tensor fused_second_to_scores(const Grad& g) {
    Tensor x = g.in(1);
    int64_t dim = class_dim(x.shape());
    Tensor picked = nll_backward(g.in(0), g.in(3), g.in(4), g.attr(0), g.attr(1), Dims(x.shape()));
    return softmax_backward(g.grad(), softmax(x, dim), dim) * -sum_dim(picked, dim, true);
}

void register_fused_entropy(Table& t) {
    t.add("_cross_entropy_segments(Tensor input, Tensor target, Tensor? weight, int[] counts, str "
          "reduction, int ignore_index) -> (Tensor, Tensor)")
        .doc("_cross_entropy of rows [R, C], reduced over runs of counts[k] rows.")
        .body(entropy_segments_body<true>)
        .internal()
        .samples({"f(T(5, 3), I(5, high=3), None, (2, 3), 'mean', -100)",
                  "f(T(3, 4), I(3, high=4), None, (1, 2), 'sum', 1)",
                  "f(T(3, 4), I(3, high=4), T(2, 4, lo=0.1).detach(), (1, 2), 'mean', 1)"});
    t.add("_nll_segments(Tensor input, Tensor target, Tensor? weight, int[] counts, str reduction, "
          "int ignore_index) -> Tensor")
        .doc("nll_loss of rows [R, C], reduced over runs of counts[k] rows.")
        .body(entropy_segments_body<false>)
        .internal()
        .samples({"f(T(5, 3), I(5, high=3), None, (2, 3), 'mean', -100)",
                  "f(T(5, 3), I(5, high=3), T(3, lo=0.1).detach(), (2, 3), 'mean', -100)"});
    const std::pair<const char*, const char*> forms[] = {
        {"_cross_entropy", "NllLossBackward0"}, {"_cross_entropy_spatial", "NllLoss2DBackward0"}};
    for (auto [name, node] : forms)
        t.add(text(name,
                   "(Tensor input, Tensor target, Tensor? weight, str reduction, int ignore_index) "
                   "-> (Tensor, Tensor)"))
            .doc("cross_entropy for class targets, and logsumexp(input) over the classes.")
            .shape(fused_shape)
            .kernel(fused_kernel)
            .batch(fused_rows, save_in(2))
            .internal()
            .constant_output(1)
            .node_name(std::string(node))
            .grad(0, save_in(0) | save_in(1) | save_in(2) | save_out(1), fused_gradient);
    t.add("_cross_entropy_backward(Tensor grad_output, Tensor input, Tensor lse, Tensor target, "
          "Tensor? weight, str reduction, int ignore_index) -> Tensor")
        .doc("The gradient of _cross_entropy to its input; lse is taken as a function of the\n"
             "input.")
        .shape([](Call& c) { c.add(Tensor::layout(c.in[1].dtype(), c.in[1].shape())); })
        .kernel(fused_backward_kernel)
        .internal()
        .grad(0, save_in(1) | save_in(3) | save_in(4), fused_second_to_grad)
        .grad(1, save_in(0) | save_in(1) | save_in(3) | save_in(4), fused_second_to_scores);
}

// ---- the public cross_entropy: attributes (ignore_index, reduction, label_smoothing) ----

/// A weight [C] as it lies in scores of `ndim` dims.
Tensor along_classes(const Tensor& weight, DimSpan scores) {
    Dims shape(static_cast<int>(scores.size()), 1);
    shape[class_dim(scores)] = weight.size(0);
    return reshape(weight, shape);
}

Tensor indexed_cross_entropy(const Call& c) {
    const Value &ignore = c.attr(0), &reduction = c.attr(1);
    const Function& op = c.in[0].ndim() > 2 ? fused_spatial : fused_entropy;
    return op(c.in[0], c.in[1], c.in[2], reduction, ignore);
}

/// (1 - e) nll + e / C * sum over all classes, the mean of both over the weights of the targets.
Tensor smoothed_cross_entropy(const Call& c, double smoothing) {
    const Tensor &x = c.in[0], &target = c.in[1], &weight = c.in[2];
    const Value &ignore = c.attr(0), &reduction = c.attr(1);
    int64_t dim = class_dim(x.shape());
    auto classes = static_cast<double>(x.size(static_cast<int>(dim)));
    Tensor logp = log_softmax(x, dim);
    Tensor nll = nll_loss(logp, target, weight, reduction, ignore);
    Tensor all = -sum_dim(weight.defined() ? logp * along_classes(weight, x.shape()) : logp, dim);
    Tensor at = x.ndim() == 1 ? reshape(target, Dims{}) : target;
    Tensor smooth = where(eq(at, Tensor::scalar(ignore.as_int(), DType::Int64, true)),
                          number(0, x.dtype()), all);
    Reduction how = reduction_of(c.name(), reduction);
    if (how != Reduction::None) smooth = sum(smooth);
    if (how == Reduction::Mean) {
        Tensor ones = full_like(Tensor::layout(x.dtype(), x.shape()), -1);
        smooth = smooth / nll_loss(ones, target, weight, "sum", ignore);  // the sum of the weights
    }
    return nll * (1 - smoothing) + smooth * (smoothing / classes);
}

Tensor probability_cross_entropy(const Call& c, double smoothing) {
    const Tensor &x = c.in[0], &weight = c.in[2];
    WEFT_EXPECT(is_floating(c.in[1].dtype()), Runtime, c.name(),
                "a floating point target with class probabilities (it has the input's shape)",
                name(c.in[1].dtype()), "class indices have no class dim");
    WEFT_EXPECT(
        c.attr(0).as_int() < 0, Runtime, c.name(), "no ignore_index for class probabilities",
        text(c.attr(0).as_int(), " (ignore_index is not supported for floating point target)"));
    WEFT_EXPECT(x.ndim() > 0, Index, c.name(), "an input of 1 or more dims", "0 dims");
    check_classes(c.name(), x, weight);
    int64_t dim = class_dim(x.shape());
    auto classes = static_cast<double>(x.size(static_cast<int>(dim)));
    Tensor target = c.in[1];
    if (smoothing > 0) target = target * (1 - smoothing) + smoothing / classes;
    Tensor product = log_softmax(x, dim) * target;
    if (weight.defined()) product = product * along_classes(weight, x.shape());
    Reduction how = reduction_of(c.name(), c.attr(1));
    if (how == Reduction::None) return -sum_dim(product, dim);
    Tensor total = -sum(product);
    return how == Reduction::Sum
               ? total
               : div_number(total, number(static_cast<double>(x.numel()) / classes, x.dtype()));
}

void cross_entropy_body(Call& c) {
    double smoothing = c.attr(2).as_double();
    WEFT_EXPECT(!is_complex(c.in[0].dtype()), NotImplemented, c.name(),
                "scores of a floating dtype", name(c.in[0].dtype()));
    WEFT_EXPECT(
        smoothing >= 0 && smoothing <= 1, Runtime, c.name(), "a share",
        text(smoothing, " (label_smoothing must be between 0.0 and 1.0. Got: ", smoothing, ")"));
    if (equal(c.in[0].shape(), c.in[1].shape()))
        return c.set(probability_cross_entropy(c, smoothing));
    c.set(smoothing > 0 ? smoothed_cross_entropy(c, smoothing) : indexed_cross_entropy(c));
}

}  // namespace

void register_cross_entropy(Table& t) {
    register_nll(t);
    register_fused_entropy(t);
    t.add("cross_entropy(Tensor input, Tensor target, Tensor? weight=None, *, int "
          "ignore_index=-100, str reduction=\"mean\", float label_smoothing=0.0) -> Tensor")
        .autocast(Cast::Float)
        .doc("nll_loss(log_softmax(input), target). Input [C], [N, C] or [N, C, d1, ...] of any\n"
             "real scores; target either classes (int64, no C) or probabilities (the input's\n"
             "shape). Label smoothing after Szegedy et al. 2016. IndexError for a target that is\n"
             "no class.\n\n"
             ">>> weft.nn.functional.cross_entropy(weft.zeros(1, 2), weft.tensor([1]))\n"
             "tensor(0.6931)")
        .body(cross_entropy_body)
        .batch(Batch::Body)
        .function_only()
        .samples(
            {"f(T(4, 3), I(4, high=3))", "f(T(4, 3), I(4, high=3), reduction='none')",
             "f(T(2, 3, 4), I(2, 4, high=3), reduction='sum')", "f(T(3), I(high=3))",
             "f(T(4, 3), T(4, 3), label_smoothing=0.1)",
             "f(T(5, 3), I(5, high=3), ignore_index=1, label_smoothing=0.2, reduction='sum')"});
}

}  // namespace weft
