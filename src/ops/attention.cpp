/// Scaled dot-product attention (Vaswani et al. 2017).
///
/// Two ways. The fused op never holds the matrix of scores: forward keeps one number per query, and
/// backward makes the scores again, block by block. The composed way is the formula in ops; it
/// serves what the fused one does not (dropout, a mask that wants a gradient, gradients of
/// gradients) and is its oracle.
#include <cmath>
#include <limits>

#include "base/lock.h"
#include "kernels/attention.h"
#include "ops/batch.h"
#include "ops/copy.h"
#include "ops/flops.h"
#include "ops/functions.h"
#include "ops/shape.h"

namespace weft {
namespace {

using namespace ops;
using kernels::AttentionSizes;
using kernels::Heads;
using kernels::ScoreMask;

const Function fused_attention{"_scaled_dot_product_attention"},
    fused_attention_backward{"_scaled_dot_product_attention_backward"}, dropout{"dropout"},
    ones{"ones"}, all_dim{"all.dim"}, repeat_interleave{"repeat_interleave"};

int64_t width(const Tensor& t) { return t.size(t.ndim() - 1); }
int64_t length(const Tensor& t) { return t.size(t.ndim() - 2); }

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// ---- the composed way

Tensor filled(const Tensor& t, const Tensor& where, double value) {
    return masked_fill(t, where, number(value, t.dtype()));
}

/// exp(s) / sum(exp(s)), zeros for a row of minus infinities.
Tensor weights_of(const Tensor& scores) {
    Tensor blind = all_dim(eq(scores, number(kHidden, scores.dtype())), -1, true);
    return filled(softmax(filled(scores, blind, 0), -1), blind, 0);
}

Tensor scores_of(const Tensor& q, const Tensor& k, const Tensor& mask, bool causal, double scale) {
    Tensor s = matmul(q, transpose(k, -2, -1)) * scale;
    if (causal) {
        Dims shape{length(q), length(k)};
        s = filled(s, logical_not(tril(ones(DimSpan(shape), DType::Bool))), kHidden);
    }
    return mask.defined() ? s + mask : s;
}

// ---- the fused way

AttentionSizes attention_sizes(const Tensor& q, const Tensor& v, const Value& causal,
                               const Value& scale) {
    return {q.size(0), q.size(1), q.size(2),         v.size(2),
            q.size(3), v.size(3), scale.as_double(), causal.as_bool()};
}

/// The four dims with dense vectors.
Tensor with_dense_rows(const Tensor& t) {
    return t.stride(3) == 1 || t.size(3) == 1 ? t : as_contiguous(t);
}

template <class T>
Heads<T> heads(const Tensor& t) {
    return {t.data<std::remove_const_t<T>>(), t.stride(0), t.stride(1), t.stride(2)};
}

template <class T>
ScoreMask<T> score_mask(const Tensor& mask) {
    if (!mask.defined()) return {};
    return {mask.data<T>(), mask.stride(0), mask.stride(1), mask.stride(2), mask.stride(3)};
}

/// [batch, heads, length, width] over memory in the order [batch, length, heads, width], as the
/// projections before and after attention read it.
Tensor interleaved(DType dtype, int64_t batch, int64_t heads, int64_t length, int64_t width) {
    Dims shape{batch, heads, length, width};
    Dims strides{length * heads * width, width, heads * width, 1};
    return Tensor::layout(dtype, shape, strides);
}

void attention_shape(Call& c) {
    const Tensor &q = c.in[0], &v = c.in[2];
    c.add(interleaved(q.dtype(), q.size(0), q.size(1), q.size(2), v.size(3)));
    Dims rows{q.size(0), q.size(1), q.size(2)};
    c.add(Tensor::layout(q.dtype(), rows));
}

void attention_kernel(Call& c) {
    Tensor q = with_dense_rows(c.in[0]), k = with_dense_rows(c.in[1]), v = with_dense_rows(c.in[2]);
    AttentionSizes n = attention_sizes(q, v, c.attr(0), c.attr(1));
    Unlocked unlocked(8 * n.batch * n.heads * n.queries * n.keys);
    dispatch<FloatingTypes>(q.dtype(), c.name(), [&]<class T>() {
        kernels::attention<T>(n, heads<const T>(q), heads<const T>(k), heads<const T>(v),
                              score_mask<T>(c.in[3]), heads<T>(c.out(0)), c.out(1).data<T>());
    });
}

void attention_backward_shape(Call& c) {
    for (int i = 1; i <= 3; ++i) {
        const Tensor& t = c.in[i];
        c.add(interleaved(t.dtype(), t.size(0), t.size(1), t.size(2), t.size(3)));
    }
}

void attention_backward_kernel(Call& c) {
    Tensor g = with_dense_rows(c.in[0]), q = with_dense_rows(c.in[1]), k = with_dense_rows(c.in[2]),
           v = with_dense_rows(c.in[3]), out = with_dense_rows(c.in[5]),
           lse = as_contiguous(c.in[6]);
    AttentionSizes n = attention_sizes(q, v, c.attr(0), c.attr(1));
    Unlocked unlocked(16 * n.batch * n.heads * n.queries * n.keys);
    dispatch<FloatingTypes>(q.dtype(), c.name(), [&]<class T>() {
        kernels::attention_backward<T>(n, heads<const T>(q), heads<const T>(k), heads<const T>(v),
                                       score_mask<T>(c.in[4]), heads<const T>(out), lse.data<T>(),
                                       heads<const T>(g), heads<T>(c.out(0)), heads<T>(c.out(1)),
                                       heads<T>(c.out(2)));
    });
}

/// The gradients of query, key and value.
std::vector<Tensor> attention_gradients(const Tensor& grad, const Tensor& q, const Tensor& k,
                                        const Tensor& v, const Tensor& mask, const Tensor& out,
                                        const Tensor& lse, const Value& causal,
                                        const Value& scale) {
    if (!(mode & kGradMode))
        return fused_attention_backward.all({grad, q, k, v, mask, out, lse}, {causal, scale});
    Tensor p = weights_of(scores_of(q, k, mask, causal.as_bool(), scale.as_double()));
    Tensor ds = softmax_backward(matmul(grad, transpose(v, -2, -1)), p, -1) * scale.as_double();
    return {matmul(ds, k), matmul(transpose(ds, -2, -1), q), matmul(transpose(p, -2, -1), grad)};
}

void attention_gradient(Grad& g) {
    if (!g.grad().defined()) return;
    std::vector<Tensor> parts = attention_gradients(g.grad(), g.in(0), g.in(1), g.in(2), g.in(3),
                                                    g.out(0), g.out(1), g.attr(0), g.attr(1));
    for (int i = 0; i < 3; ++i)
        if (g.needs(i)) g.set(i, parts[i]);
}

// ---- the same over memory of one sequence, [length, heads, width]

/// The four dims of it, without a copy.
Tensor with_heads_first(const Tensor& t) {
    Dims shape{1, t.size(1), t.size(0), t.size(2)};
    Dims strides{t.numel(), t.size(2), t.size(1) * t.size(2), 1};
    return t.view_as(shape, strides);
}

void sequence_shape(Call& c) {
    const Tensor &q = c.in[0], &v = c.in[2];
    c.add(Tensor::layout(q.dtype(), Dims{q.size(0), q.size(1), v.size(2)}));
    c.add(Tensor::layout(q.dtype(), Dims{1, q.size(1), q.size(0)}));
}

void sequence_kernel(Call& c) {
    Tensor in[3];
    for (int i = 0; i < 3; ++i) in[i] = with_heads_first(as_contiguous(c.in[i]));
    Tensor out = with_heads_first(c.out(0));
    AttentionSizes n = attention_sizes(in[0], in[2], c.attr(0), c.attr(1));
    Unlocked unlocked(8 * n.heads * n.queries * n.keys);
    dispatch<FloatingTypes>(out.dtype(), c.name(), [&]<class T>() {
        kernels::attention<T>(n, heads<const T>(in[0]), heads<const T>(in[1]),
                              heads<const T>(in[2]), {}, heads<T>(out), c.out(1).data<T>());
    });
}

void sequence_gradient(Grad& g) {
    if (!g.grad().defined()) return;
    auto four = [](const Tensor& t) { return unsqueeze(transpose(t, 0, 1), 0); };
    std::vector<Tensor> parts =
        attention_gradients(four(g.grad()), four(g.in(0)), four(g.in(1)), four(g.in(2)), Tensor(),
                            four(g.out(0)), g.out(1), g.attr(0), g.attr(1));
    for (int i = 0; i < 3; ++i)
        if (g.needs(i)) g.set(i, transpose(select(parts[i], 0, 0), 0, 1));
}

int64_t sequence_flops(const Call& c) {
    const Tensor &q = c.in[0], &v = c.in[2];
    return two_each({q.size(0), q.size(1), v.size(0), q.size(2) + v.size(2)});
}

/// Sequences of unlike lengths are parts of one call (ops/each.h), never rows of one.
bool no_rows(const BatchCall&, BatchForm&) { return false; }

/// Of `scores` products that sum over a head's width, and `values` that sum over its values' or give them.
int64_t attention_flops(const Tensor& q, const Tensor& k, const Tensor& v, int scores, int values) {
    const int64_t pairs = two_each({q.size(0), q.size(1), q.size(2), k.size(2)});
    return pairs * (scores * q.size(3) + values * v.size(3));
}
int64_t attention_forward_flops(const Call& c) {
    return attention_flops(c.in[0], c.in[1], c.in[2], 1, 1);
}
/// The scores are made again.
int64_t attention_backward_flops(const Call& c) {
    return attention_flops(c.in[1], c.in[2], c.in[3], 3, 2);
}

/// Heads of all batches are alike, so calls merge although they have unlike numbers of them.
bool attention_rows(const BatchCall& c, BatchForm& form) {
    for (int i = 0; i < 4; ++i) {
        const Tensor& t = c.in(i);
        if (!t.defined()) {
            form.add_shared(i);
            continue;
        }
        if (t.numel() == 0) return false;
        form.add_rows(i, Dims{1, t.size(2), t.size(3)});
    }
    form.rows = c.in(0).size(0) * c.in(0).size(1);
    return true;
}

// ---- the public function

constexpr const char* kName = "scaled_dot_product_attention";

void check(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool causal) {
    for (const Tensor* t : {&q, &k, &v})
        WEFT_EXPECT(t->ndim() >= 2, Runtime, kName, "query, key and value of two dims at least",
                    to_string(t->shape()), "(..., length, width)");
    WEFT_EXPECT(
        q.dtype() == k.dtype() && q.dtype() == v.dtype(), Runtime, kName, "one dtype",
        text(
            "several (Expected query, key, and value to have the same dtype, but got query.dtype: ",
            name(q.dtype()), " key.dtype: ", name(k.dtype()), " and value.dtype: ", name(v.dtype()),
            " instead.)"));
    WEFT_EXPECT(is_floating(q.dtype()), NotImplemented, kName, "a floating dtype", name(q.dtype()));
    WEFT_EXPECT(width(q) == width(k), Runtime, kName,
                text("keys as wide as the queries, ", width(q)), std::to_string(width(k)));
    WEFT_EXPECT(length(k) == length(v), Runtime, kName,
                text("a value for each of ", length(k), " keys"), std::to_string(length(v)));
    WEFT_EXPECT(!mask.defined() || !causal, Runtime, kName, "attn_mask or is_causal",
                "both (_scaled_dot_product_attention: Explicit attn_mask should not be set when "
                "is_causal=True)");
    WEFT_EXPECT(!mask.defined() || mask.dtype() == DType::Bool || mask.dtype() == q.dtype(),
                Runtime, kName, text("a mask of dtype bool or the query's ", name(q.dtype())),
                mask.defined() ? name(mask.dtype()) : "");
}

/// What a mask adds to the scores: where a bool one is False, minus infinity.
Tensor additive(const Tensor& mask, DType dtype) {
    if (!mask.defined() || mask.dtype() != DType::Bool) return mask;
    Tensor nothing = zeros(mask.shape(), dtype);
    return filled(nothing, logical_not(mask), kHidden);
}

/// Of one that is not computed yet, only its calls know: the composed way serves both.
bool wants_gradient(const Tensor& t) {
    if (!t.defined() || !(mode & kGradMode)) return false;
    if (t.has(kPending) && (mode & kTraceMode)) return promise(t).wants_grad(t);
    return t.has(kPending) ||
           (t.has(kTracked) && hooks.requires_grad(t));  // views are tracked, too
}

bool same_lead(const Tensor& a, const Tensor& b) {
    return a.ndim() == b.ndim() &&
           equal(a.shape().first(a.ndim() - 2), b.shape().first(b.ndim() - 2));
}

/// With leading dims of 1 up to four.
Tensor four_dims(Tensor t) {
    while (t.ndim() < 4) t = unsqueeze(t, 0);
    return t;
}

/// Whether the fused op takes the shapes: no broadcasting of operands.
bool fuses(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
    return q.ndim() <= 4 && same_lead(q, k) && same_lead(q, v) &&
           (!mask.defined() || mask.ndim() <= q.ndim());
}

Tensor run_fused(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool causal,
                 double scale) {
    Tensor m = mask;
    if (m.defined()) {
        Dims scores(q.shape());
        scores.back() = length(k);
        m = four_dims(expand(m, scores));
    }
    Tensor out =
        fused_attention.all({four_dims(q), four_dims(k), four_dims(v), m}, {causal, scale})[0];
    if (out.ndim() == q.ndim()) return out;
    // What backward reads is not what the caller may write: of calls without heads, as in PyTorch.
    // (What waits is read from a copy.) It is no view of it either, which detach_() would refuse.
    if (!out.has(kPending) || (mode & kTraceMode)) {
        Dims size(q.shape());
        size.back() = width(v);
        return unsafe_view(out, size);
    }
    while (out.ndim() > q.ndim()) out = squeeze_dim(out, 0);
    return out;
}

/// Keys and values shared by groups of heads, one for each head of the query.
Tensor for_each_head(const Tensor& t, const Tensor& q) {
    WEFT_EXPECT(q.ndim() >= 3 && t.ndim() >= 3, Runtime, kName, "a dim of heads for enable_gqa",
                to_string(t.shape()));
    int64_t heads = t.size(t.ndim() - 3), wanted = q.size(q.ndim() - 3);
    WEFT_EXPECT(heads > 0 && wanted % heads == 0, Runtime, kName,
                text("a number of heads of key and value that divides the query's ", wanted),
                std::to_string(heads));
    return heads == wanted ? t : repeat_interleave(t, wanted / heads, t.ndim() - 3);
}

void body(Call& c) {
    Tensor q = c.in[0], k = c.in[1], v = c.in[2];
    double p = c.attr(0).as_double();
    bool causal = c.attr(1).as_bool();
    check(q, k, v, c.in[3], causal);
    WEFT_EXPECT(p <= 1, Runtime, kName, "another dropout_p",
                text(p, " (dropout probability has to be between 0 and 1, but got ", p, ")"));
    if (c.attr(3).as_bool()) k = for_each_head(k, q), v = for_each_head(v, q);
    double scale =
        c.attr(2).none() ? 1 / std::sqrt(static_cast<double>(width(q))) : c.attr(2).as_double();
    Tensor mask = additive(c.in[3], q.dtype());
    bool constant = (c.in[3].defined() && c.in[3].dtype() == DType::Bool) || !wants_gradient(mask);
    if (p <= 0 && constant && fuses(q, k, v, mask))
        return c.set(run_fused(q, k, v, mask, causal, scale));
    Tensor weights = weights_of(scores_of(q, k, mask, causal, scale));
    if (p > 0) weights = dropout(weights, p, true);
    c.set(matmul(weights, v));
}

}  // namespace

void register_attention(Table& t) {
    t.add("scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? "
          "attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool "
          "enable_gqa=False) -> Tensor")
        .autocast(Cast::Narrow)
        .doc(
            "softmax(query key^T scale + attn_mask) value, for query (..., L, E), key (..., S, E)\n"
            "and value (..., S, Ev): (..., L, Ev). A bool mask hides keys where it is False, a\n"
            "floating one is added; it broadcasts to (..., L, S). `is_causal`: query i sees keys\n"
            "0 .. i. `scale` is 1 / sqrt(E) by default. `dropout_p` drops weights, always.\n"
            "`enable_gqa`: heads of key and value serve groups of the query's. A query that sees\n"
            "no key gives zeros. Memory grows with L + S, not L S, but for dropout, a mask that\n"
            "wants a gradient and gradients of gradients. RuntimeError for shapes or dtypes that\n"
            "do not fit. Vaswani et al. 2017, Dao et al. 2022.\n\n"
            ">>> x = weft.ones(1, 2, 4)\n"
            ">>> weft.nn.functional.scaled_dot_product_attention(x, x, x).shape\n"
            "torch.Size([1, 2, 4])")
        .body(body)
        .batch(Batch::Body)
        .internal()
        .in_packages()
        .samples({"f(T(2, 3, 5, 4), T(2, 3, 6, 4), T(2, 3, 6, 3))", "f(T(3, 4), T(2, 4), T(2, 4))",
                  "f(T(2, 5, 4), T(2, 5, 4), T(2, 5, 4), is_causal=True, scale=0.7)",
                  "f(T(2, 2, 3, 4), T(2, 2, 3, 4), T(2, 2, 3, 4), B(3, 3))",
                  "f(T(2, 2, 3, 4), T(2, 2, 5, 4), T(2, 2, 5, 4), T(2, 1, 3, 5))",
                  "f(T(1, 4, 3, 2), T(1, 2, 3, 2), T(1, 2, 3, 2), enable_gqa=True)",
                  "f(T(1, 1, 0, 4), T(1, 1, 3, 4), T(1, 1, 3, 4))"});
    t.add(
         "_scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, "
         "bool is_causal, float scale) -> (Tensor, Tensor)")
        .doc("The fused form, for four dims and an additive mask; also the log-sum of each row.")
        .shape(attention_shape)
        .kernel(attention_kernel)
        .flops(attention_forward_flops)
        .internal()
        .batch(attention_rows)
        .constant_output(1)
        .node_name("ScaledDotProductFlashAttentionForCpuBackward0")
        .joint_grad(save_in(0) | save_in(1) | save_in(2) | save_in(3) | save_out(0) | save_out(1),
                    attention_gradient)
        .samples({"f(T(2, 3, 5, 4), T(2, 3, 6, 4), T(2, 3, 6, 3), None, False, 0.5)",
                  "f(T(1, 2, 5, 4), T(1, 2, 5, 4), T(1, 2, 5, 4), None, True, 0.5)"});
    t.add("_attention_of_sequence(Tensor query, Tensor key, Tensor value, bool is_causal, float "
          "scale) -> (Tensor, Tensor)")
        .autocast(Cast::Narrow)
        .doc("The fused form for one sequence, [length, heads, width], as nested tensors hold it.")
        .shape(sequence_shape)
        .kernel(sequence_kernel)
        .flops(sequence_flops)
        .internal()
        .batch(no_rows)
        .constant_output(1)
        .node_name("ScaledDotProductFlashAttentionForCpuBackward0")
        .joint_grad(save_in(0) | save_in(1) | save_in(2) | save_out(0) | save_out(1),
                    sequence_gradient)
        .samples({"f(T(5, 2, 4), T(6, 2, 4), T(6, 2, 3), False, 0.5)",
                  "f(T(5, 2, 4), T(5, 2, 4), T(5, 2, 4), True, 0.5)"});
    t.add("_scaled_dot_product_attention_backward(Tensor grad_output, Tensor query, Tensor key, "
          "Tensor value, Tensor? attn_mask, Tensor output, Tensor logsumexp, bool is_causal, float "
          "scale) -> (Tensor, Tensor, Tensor)")
        .doc("The gradients of query, key and value.")
        .shape(attention_backward_shape)
        .kernel(attention_backward_kernel)
        .flops(attention_backward_flops)
        .internal();
}

}  // namespace weft
