/// How operands of products lie, and what runs on them.
#include "base/lock.h"
#include "kernels/bf16_gemm.h"
#include "ops/copy.h"
#include "ops/matmul.h"

namespace weft::ops {

using kernels::Trans;

namespace {

Layout matrix_layout(int64_t rows, int64_t cols, int64_t r, int64_t c) {
    if (rows == 0 || cols == 0) return {Trans::No, std::max<int64_t>(cols, 1), true};
    if ((c == 1 || cols == 1) && (r >= cols || rows == 1))
        return {Trans::No, std::max(r, std::max<int64_t>(cols, 1)), true};
    if ((r == 1 || rows == 1) && (c >= rows || cols == 1))
        return {Trans::Yes, std::max(c, std::max<int64_t>(rows, 1)), true};
    return {Trans::No, 0, false};
}
/// False where an operand lies otherwise.
bool lay_out(Product& p, const Layout& a, const Layout& b) {
    p.trans_a = a.trans;
    p.lead_a = a.lead;
    p.trans_b = b.trans;
    p.lead_b = b.lead;
    return a.fits && b.fits;
}

}  // namespace

Layout layout_of(const Tensor& t) {
    const int d = t.ndim() - 2;
    if (t.numel() == 0) return matrix_layout(0, t.size(d + 1), 0, 1);
    return matrix_layout(t.size(d), t.size(d + 1), t.stride(d), t.stride(d + 1));
}

Tensor as_matrices(const Tensor& t) { return layout_of(t).fits ? t : as_contiguous(t); }

// ---- the product of a call, from its layouts

bool mm_product(const Call& c, Product& p) {
    p.a = 0;
    p.b = 1;
    p.m = c.out(0).size(0);
    p.n = c.out(0).size(1);
    p.k = c.in[0].size(1);
    return lay_out(p, layout_of(c.in[0]), layout_of(c.in[1]));
}

namespace {

/// Elements between batches and between matrices of one; false where matrices repeat, or there are others.
bool steps_of(const Tensor& t, int64_t outer, int64_t batch, int64_t& between, int64_t& step) {
    if (t.ndim() == 3) {
        step = t.stride(0);
        between = batch * step;
        return t.size(0) == outer * batch && (step != 0 || t.size(0) == 1);
    }
    between = t.stride(0);
    step = t.stride(1);
    return t.size(0) == outer && t.size(1) == batch && (between != 0 || outer == 1) &&
           (step != 0 || batch == 1);
}

/// Some of them have two batch dimensions.
bool nested_product(const Call& c, Product& p) {
    const Tensor &a = c.in[0], &b = c.in[1], &out = c.out(0);
    for (const Tensor* t : {&a, &b, &out}) {
        if (t->ndim() != 4) continue;
        p.outer = t->size(0);
        p.batch = t->size(1);
    }
    const int d = out.ndim() - 2;
    p.m = a.size(a.ndim() - 2);
    p.k = a.size(a.ndim() - 1);
    p.n = b.size(b.ndim() - 1);
    p.lead_out = out.stride(d);
    return out.numel() > 0 && p.k > 0 && out.size(d) == p.m && out.size(d + 1) == p.n &&
           b.size(b.ndim() - 2) == p.k && out.stride(d + 1) == 1 && p.lead_out >= p.n &&
           steps_of(a, p.outer, p.batch, p.outer_a, p.step_a) &&
           steps_of(b, p.outer, p.batch, p.outer_b, p.step_b) &&
           steps_of(out, p.outer, p.batch, p.outer_out, p.step_out) &&
           lay_out(p, layout_of(a), layout_of(b));
}

}  // namespace

bool bmm_product(const Call& c, Product& p) {
    p.a = 0;
    p.b = 1;
    const Tensor &a = c.in[0], &b = c.in[1], &out = c.out(0);
    if (a.ndim() > 4 || b.ndim() > 4 || std::min(a.ndim(), b.ndim()) < 3) return false;
    if (std::max({a.ndim(), b.ndim(), out.ndim()}) == 4) return nested_product(c, p);
    p.batch = out.size(0);
    p.m = out.size(1);
    p.n = out.size(2);
    p.k = a.size(2);
    p.step_a = a.stride(0);
    p.step_b = b.stride(0);
    return lay_out(p, layout_of(a), layout_of(b));
}
bool addmm_product(const Call& c, Product& p) {
    const Tensor &added = c.in[0], &out = c.out(0);
    p.a = 1;
    p.b = 2;
    p.m = out.size(0);
    p.n = out.size(1);
    p.k = c.in[1].size(1);
    p.beta = c.attr(0).as_double();
    p.alpha = c.attr(1).as_double();
    if (p.beta != 0) {
        const int d = added.ndim() - 1;
        p.added = 0;
        if (d < 0 || added.dtype() != out.dtype() || added.size(d) != p.n ||
            (p.n > 1 && added.stride(d) != 1))
            return false;
        p.lead_added = d == 0 || added.size(0) == 1 ? 0 : added.stride(0);
    }
    return lay_out(p, layout_of(c.in[1]), layout_of(c.in[2]));
}
/// All leading dimensions of the input as one; a weight [in] is [1, in].
bool linear_product(const Call& c, Product& p) {
    const Tensor &x = c.in[0], &w = c.in[1];
    const bool vector = w.ndim() == 1;
    p.a = 0;
    p.b = 1;
    p.k = x.size(x.ndim() - 1);
    p.n = vector ? 1 : w.size(0);
    p.m = 1;
    for (int d = 0; d < x.ndim() - 1; ++d) p.m *= x.size(d);
    if (c.in[2].defined()) p.added = 2;
    const bool one_piece = x.ndim() == 2 || x.contiguous();
    const Layout rows = x.ndim() == 2 ? layout_of(x) : matrix_layout(p.m, p.k, p.k, 1);
    return lay_out(p, rows,
                   matrix_layout(p.k, p.n, w.stride(w.ndim() - 1), vector ? p.k : w.stride(0))) &&
           one_piece && (p.added < 0 || p.n <= 1 || c.in[2].stride(0) == 1);
}

// ---- running

kernels::DotRow Product::as_row() const {
    kernels::DotRow row{n, k, lead_b, alpha, added < 0 ? 0 : beta};
    if (m != 1 || outer != 1 || batch != 1 || lead_out || trans_a != Trans::No ||
        trans_b != Trans::Yes)
        return row;
    if (dtype == DType::Float32) row.find_kernel<float>();
    if (dtype == DType::Float64) row.find_kernel<double>();
    return row;
}

void Product::run(char* out, const char* a, const char* b, const char* added,
                  const char* plus) const {
    dispatch<NumberTypes>(dtype, "matmul", [&]<class T>() {
        auto* c = reinterpret_cast<T*>(out);
        auto *pa = reinterpret_cast<const T*>(a), *pb = reinterpret_cast<const T*>(b);
        auto* d = reinterpret_cast<const T*>(added);
        const Unlocked unlocked(outer * batch * m * n * k / 8);
        const auto by = static_cast<T>(alpha);
        if (lead_out)
            return kernels::gemm_nested<T>(trans_a, trans_b, outer, batch, m, n, k, pa, lead_a,
                                           outer_a, step_a, pb, lead_b, outer_b, step_b, c,
                                           lead_out, outer_out, step_out);
        if (batch != 1)
            return kernels::gemm_batched<T>(trans_a, trans_b, batch, m, n, k, by, pa, lead_a,
                                            step_a, pb, lead_b, step_b, T{0}, c, n, m * n);
        if (!d)
            return kernels::gemm<T>(trans_a, trans_b, m, n, k, by, pa, lead_a, pb, lead_b, T{0}, c,
                                    n);
        kernels::gemm_add<T>(trans_a, trans_b, m, n, k, by, pa, lead_a, pb, lead_b,
                             static_cast<T>(beta), d, lead_added, c, n,
                             reinterpret_cast<const T*>(plus));
    });
}

// ---- bfloat16 ----------------------------------------------------------------------------------

namespace {

/// Multiply-adds from which on a product of bfloat16 is not converted to float.
constexpr int64_t least_bf16_work = 1 << 15;

bool all_of_bfloat16(const Call& c) {
    if (c.outputs != 1 || c.out(0).dtype() != DType::BFloat16 || !c.out(0).contiguous())
        return false;
    for (int i = 0; i < c.inputs; ++i)
        if (c.in[i].defined() && c.in[i].dtype() != DType::BFloat16) return false;
    return true;
}

}  // namespace

bool run_bf16_product(Call& c) {
    Product p;
    if (!kernels::bf16_gemm_ready() || !all_of_bfloat16(c) || !describe_product(c, p)) return false;
    if (p.outer != 1 || p.lead_out || p.m < 2 || p.n < 2 || p.k < 2) return false;
    if (1.0 * p.batch * p.m * p.n * p.k < least_bf16_work) return false;
    const auto at = [](const Tensor& t) {
        return reinterpret_cast<const kernels::BFloat16*>(t.bytes());
    };
    const kernels::Bf16Product q{p.trans_a,
                                 p.trans_b,
                                 p.batch,
                                 p.m,
                                 p.n,
                                 p.k,
                                 static_cast<float>(p.alpha),
                                 at(c.in[p.a]),
                                 p.lead_a,
                                 p.step_a,
                                 at(c.in[p.b]),
                                 p.lead_b,
                                 p.step_b,
                                 static_cast<float>(p.beta),
                                 p.added < 0 ? nullptr : at(c.in[p.added]),
                                 p.lead_added,
                                 reinterpret_cast<kernels::BFloat16*>(c.out(0).bytes())};
    const Unlocked unlocked(p.batch * p.m * p.n * p.k / 8);
    kernels::bf16_gemm(q);
    return true;
}

}  // namespace weft::ops
