/// Products: mm, bmm, mv, dot, outer, matmul, addmm, baddbmm, linear.
///
/// A weight's gradient is a sum of products over all its uses; rules give it with set_product, so
/// that the engine adds the products up at once (Note [Sums of products] in grad_buffer.h).
#include "ops/matmul.h"

#include "base/lock.h"
#include "kernels/matmul.h"
#include "ops/batch.h"
#include "ops/conj.h"
#include "ops/copy.h"
#include "ops/flops.h"
#include "ops/functions.h"
#include "ops/reuse.h"

namespace weft {
namespace ops {
namespace {

using kernels::Trans;

const Function mv{"mv"}, dot{"dot"}, squeeze_row{"_squeeze_row"};

/// Runs a call as the product that `Describe` makes of its layouts.
template <bool (*Describe)(const Call&, Product&)>
bool run_product(const Call& c) {
    Product p;
    p.dtype = c.out(0).dtype();
    if (!Describe(c, p)) return false;
    p.run(c.out(0).bytes(), c.in[p.a].bytes(), c.in[p.b].bytes(),
          p.added < 0 ? nullptr : c.in[p.added].bytes());
    return true;
}

/// The same for operands of any layout: `prepare` copies those that lie otherwise.
template <bool (*Describe)(const Call&, Product&), class Prepare>
void run_product(Call& c, const Prepare& prepare) {
    if (run_product<Describe>(c)) return;
    Tensor in[3];
    for (int i = 0; i < c.inputs; ++i) in[i] = prepare(i, c.in[i]);
    const OtherOperands others(c, in);
    run_product<Describe>(c);
}

/// "2x3"
std::string by(const Tensor& t) {
    std::string out;
    for (int64_t size : t.shape()) out += (out.empty() ? "" : "x") + std::to_string(size);
    return out;
}

// PyTorch's words for operands that do not multiply.

std::string wanted_dims(const Tensor& a, const Tensor& b, int da, int db) {
    if (db == 3) return text(a.ndim() == 3 ? "batch2" : "batch1", " must be a 3D tensor");
    if (db == 2) return text(a.ndim() == 2 ? "mat2" : "self", " must be a matrix");
    if (da == 1)
        return text("1D tensors expected, but got ", a.ndim(), "D and ", b.ndim(), "D tensors");
    return text("vector + matrix @ vector expected, got 1, ", a.ndim(), ", ", b.ndim());
}

std::string do_not_multiply(const Tensor& a, const Tensor& b) {
    if (a.ndim() == 1 && b.ndim() == 1)
        return text("inconsistent tensor size, expected tensor ", to_string(a.shape()), " and src ",
                    to_string(b.shape()), " to have the same number of elements, but got ",
                    a.numel(), " and ", b.numel(), " elements respectively");
    if (a.ndim() == 2 && b.ndim() == 1)
        return text("size mismatch, got input (", a.size(0), "), mat (", by(a), "), vec (",
                    b.size(0), ")");
    if (a.ndim() == 3 && b.ndim() == 3)
        return text("Expected size for first two dimensions of batch2 tensor to be: ",
                    to_string(Dims{a.size(0), a.size(2)}),
                    " but got: ", to_string(b.shape().first(2)), ".");
    return text("mat1 and mat2 shapes cannot be multiplied (", a.ndim() == 1 ? "1x" : "", by(a),
                " and ", by(b), ")");
}

std::string differing(const Tensor& a, const Tensor& b) {
    if (a.ndim() == 1 && b.ndim() == 1)
        return text("dot : expected both vectors to have same dtype, but found ",
                    scalar_name(a.dtype()), " and ", scalar_name(b.dtype()));
    if (b.ndim() == 1)
        return text("expected scalar type ", scalar_name(a.dtype()), " but found ",
                    scalar_name(b.dtype()));
    return text("expected m1 and m2 to have the same dtype, but got: ", name(a.dtype()),
                " != ", name(b.dtype()));
}

void check_product(const Call& c, const Tensor& a, const Tensor& b, int da, int db) {
    WEFT_EXPECT(a.ndim() == da && b.ndim() == db, Runtime, c.name(),
                text("tensors of ", da, " and ", db, " dimensions"),
                text(to_string(a.shape()), " and ", to_string(b.shape()), " (",
                     wanted_dims(a, b, da, db), ")"));
    int64_t ka = a.size(da - 1), kb = b.size(db == 1 ? 0 : db - 2);
    WEFT_EXPECT(ka == kb, Runtime, c.name(), "inner sizes that are equal",
                text(ka, " and ", kb, " (", do_not_multiply(a, b), ")"));
    WEFT_EXPECT(a.dtype() == b.dtype(), Runtime, c.name(), "two tensors of one dtype",
                text(name(a.dtype()), " and ", name(b.dtype()), " (", differing(a, b), ")"),
                "convert one with .to()");
    WEFT_EXPECT(a.dtype() != DType::Bool, NotImplemented, c.name(), "a number dtype", "bool");
}

void mm_shape(Call& c) {
    check_product(c, c.in[0], c.in[1], 2, 2);
    c.add(Tensor::layout(c.in[0].dtype(), Dims{c.in[0].size(0), c.in[1].size(1)}));
}
void mm_kernel(Call& c) {
    run_product<mm_product>(c, [](int, const Tensor& t) { return as_matrices(t); });
}

/// A product of two complex tensors from four of their parts, which are products of real ones.
template <void (*Kernel)(Call&)>
void or_complex_product(Call& c) {
    const Tensor& out = c.out(0);
    if (!is_complex(out.dtype())) return Kernel(c);
    DType part = real_dtype(out.dtype());
    Tensor parts[2][2];
    for (int i = 0; i < 2; ++i)
        for (int k = 0; k < 2; ++k) parts[i][k] = as_contiguous(part_of(c.in[i], k), part);
    auto product = [&](int a, int b) {
        Tensor in[] = {parts[0][a], parts[1][b]};
        Call real(*c.op, in, 2, c.attrs);
        real.add(Tensor::empty(part, out.shape()));
        Kernel(real);
        return real.out(0);
    };
    copy_into(part_of(out, 0), ops::sub(product(0, 0), product(1, 1)));
    copy_into(part_of(out, 1), ops::add(product(0, 1), product(1, 0)));
}

Tensor t(const Tensor& m) { return transpose(m, 0, 1); }
Tensor mt(const Tensor& m) { return transpose(m, -2, -1); }

void mm_grad(Grad& g) {
    if (g.needs(0)) g.set_product(0, t(g.grad()), t(conj(g.in(1))));
    if (g.needs(1)) g.set_product(1, conj(g.in(0)), g.grad());
}

void bmm_shape(Call& c) {
    check_product(c, c.in[0], c.in[1], 3, 3);
    WEFT_EXPECT(c.in[0].size(0) == c.in[1].size(0), Runtime, c.name(), "equal batch sizes",
                text(c.in[0].size(0), " and ", c.in[1].size(0), " (",
                     do_not_multiply(c.in[0], c.in[1]), ")"));
    c.add(Tensor::layout(c.in[0].dtype(), Dims{c.in[0].size(0), c.in[0].size(1), c.in[1].size(2)}));
}

void bmm_kernel(Call& c) {
    run_product<bmm_product>(c, [](int, const Tensor& t) { return as_matrices(t); });
}

void mv_shape(Call& c) {
    check_product(c, c.in[0], c.in[1], 2, 1);
    c.add(Tensor::layout(c.in[0].dtype(), Dims{c.in[0].size(0)}));
}
void mv_kernel(Call& c) {
    Tensor a = layout_of(c.in[0]).fits ? c.in[0] : as_contiguous(c.in[0]);
    Layout l = layout_of(a);
    const Tensor& x = c.in[1];
    int64_t rows = a.size(l.trans == Trans::No ? 0 : 1),
            cols = a.size(l.trans == Trans::No ? 1 : 0);
    dispatch<NumberTypes>(a.dtype(), c.name(), [&]<class T>() {
        kernels::gemv<T>(l.trans, rows, cols, T{1}, a.data<T>(), l.lead, x.data<T>(), x.stride(0),
                         T{0}, c.out(0).data<T>(), 1);
    });
}

void dot_shape(Call& c) {
    check_product(c, c.in[0], c.in[1], 1, 1);
    c.add(Tensor::layout(c.in[0].dtype(), {}));
}
void dot_kernel(Call& c) {
    const Tensor &a = c.in[0], &b = c.in[1];
    dispatch<NumberTypes>(a.dtype(), c.name(), [&]<class T>() {
        *c.out(0).data<T>() =
            kernels::dot<T>(a.numel(), a.data<T>(), a.stride(0), b.data<T>(), b.stride(0));
    });
}

Tensor row(const Tensor& v) { return unsqueeze(v, 0); }
Tensor column(const Tensor& v) { return unsqueeze(v, 1); }

Dims concat(DimSpan a, std::initializer_list<int64_t> b) {
    Dims out(a);
    for (int64_t x : b) out.push_back(x);
    return out;
}

/// A product that nobody else holds, in another shape.
// NOLINTNEXTLINE(performance-unnecessary-value-param): it is taken over
Tensor shaped(Tensor product, const Dims& shape) {
    const Value size(shape);
    Call c(unsafe_view.op(), &product, 1, &size);
    call_in_place_of(c);
    return std::move(c.out(0));
}

/// [..., m, k] @ [..., k, n] over broadcast batch dimensions; `drop_row` leaves out m, which is 1.
Tensor batched_matmul(const Tensor& a, const Tensor& b, bool drop_row = false) {
    Dims lead = broadcast("matmul", a.shape().first(a.ndim() - 2), b.shape().first(b.ndim() - 2));
    int64_t batch = count_elements("matmul", lead);
    auto flat = [&](const Tensor& x) {
        int64_t r = x.size(x.ndim() - 2), s = x.size(x.ndim() - 1);
        Tensor e = expand(x, concat(lead, {r, s}));
        return reshape(e, Dims{batch, r, s});
    };
    Tensor out = bmm(flat(a), flat(b));
    Dims shape = drop_row ? concat(lead, {out.size(2)}) : concat(lead, {out.size(1), out.size(2)});
    return shaped(std::move(out), shape);
}

/// PyTorch's matmul: 1-D operands are rows or columns, more than two dimensions are batches.
void matmul_body(Call& c) {
    Tensor a = c.in[0], b = c.in[1];
    int da = a.ndim(), db = b.ndim();
    WEFT_EXPECT(da > 0 && db > 0, Runtime, "matmul", "two tensors with dimensions",
                text("both arguments to matmul need to be at least 1D, but they are ", da, "D and ",
                     db, "D"));
    check_product(c, a, b, da, db);
    if (da == 1 && db == 1) return c.set(dot(a, b));
    if (da == 2 && db == 1) return c.set(mv(a, b));
    if (da == 1 && db == 2) {
        const Tensor product = mm(row(a), b);
        Call drop(squeeze_row.op(), &product, 1, nullptr);
        call_in_place_of(drop);
        return c.set(std::move(drop.out(0)));
    }
    if (da == 2 && db == 2) return c.set(mm(a, b));
    if (da > 2 && db <= 2) {  // one product of all rows
        int64_t k = a.size(da - 1);
        Tensor rows = reshape(
            a, Dims{k ? a.numel() / k : count_elements("matmul", a.shape().first(da - 1)), k});
        Tensor out = db == 1 ? mv(rows, b) : mm(rows, b);
        Dims shape(a.shape().first(da - 1));
        if (db == 2) shape.push_back(b.size(1));
        return c.set(shaped(std::move(out), shape));
    }
    c.set(da == 1 ? batched_matmul(row(a), b, true) : batched_matmul(a, b));
}

// ---- addmm and linear

void addmm_shape(Call& c) {
    check_product(c, c.in[1], c.in[2], 2, 2);
    WEFT_EXPECT(c.in[0].dtype() == c.in[1].dtype() || c.in[0].has(kWrapped), Runtime, c.name(),
                text("an input of the matrices' ", name(c.in[1].dtype())),
                text(name(c.in[0].dtype()), " (self and mat2 must have the same dtype)"));
    Dims shape{c.in[1].size(0), c.in[2].size(1)};
    Dims bias = broadcast(c.name(), c.in[0].shape(), shape);
    WEFT_EXPECT(bias == shape, Runtime, c.name(),
                text("an input that expands to ", to_string(shape)), to_string(c.in[0].shape()));
    c.add(Tensor::layout(c.in[1].dtype(), shape));
}
Tensor times(const Tensor& x, const Value& factor) {
    if (factor.kind() == Value::Kind::Complex)
        return x * Tensor::scalar(factor.as_complex(), DType::Complex128, true);
    return factor.as_double() == 1 ? x : x * factor.as_double();
}
void addmm_kernel(Call& c) {
    if (is_complex(c.out(0).dtype())) {
        ModeGuard off(0, kGradMode);
        Tensor product = times(mm(c.in[1], c.in[2]), c.attr(1));
        const bool alone = c.attr(0).as_complex() == 0.0;
        return copy_into(c.out(0), alone ? product : product + times(c.in[0], c.attr(0)));
    }
    run_product<addmm_product>(c, [&](int i, const Tensor& t) {
        if (i > 0) return as_matrices(t);
        const Tensor all = Tensor::empty(c.out(0).dtype(), c.out(0).shape());
        copy_into(all, t);
        return all;
    });
}
/// `times` of the conjugate, as gradients have it.
Tensor times_conjugate(const Tensor& x, const Value& factor) {
    return factor.as_complex() == 1.0 ? x : times_conj(x, factor);
}
void addmm_grad(Grad& g) {
    if (g.needs(0)) g.set(0, times_conjugate(g.grad(), g.attr(0)));
    if (!g.needs(1) && !g.needs(2)) return;
    Tensor grad = times_conjugate(g.grad(), g.attr(1));
    if (g.needs(1)) g.set_product(1, t(grad), t(conj(g.in(2))));
    if (g.needs(2)) g.set_product(2, conj(g.in(1)), grad);
}

/// PyTorch's words for the input of a linear map: rows of a matrix times the weight's transpose.
std::string does_not_fit(const Tensor& x, const Tensor& w) {
    const int64_t in = x.ndim() ? x.size(x.ndim() - 1) : 1;
    const int64_t rows = in ? x.numel() / in : 0;
    return text("mat1 and mat2 shapes cannot be multiplied (", rows, "x", in, " and ",
                w.size(w.ndim() - 1), "x", w.ndim() == 2 ? w.size(0) : 1, ")");
}

void linear_shape(Call& c) {
    const Tensor &x = c.in[0], &w = c.in[1], &b = c.in[2];
    WEFT_EXPECT(w.ndim() == 1 || w.ndim() == 2, Runtime, "linear", "a weight [out, in] or [in]",
                to_string(w.shape()));
    const bool vector = w.ndim() == 1;
    const int64_t in = w.size(w.ndim() - 1);
    WEFT_EXPECT(x.ndim() > 0 && x.size(x.ndim() - 1) == in, Runtime, "linear",
                text("an input [..., ", in, "] for a weight ", to_string(w.shape())),
                text(to_string(x.shape()), " (", does_not_fit(x, w), ")"));
    WEFT_EXPECT(x.dtype() == w.dtype() && (!b.defined() || b.dtype() == w.dtype()), Runtime,
                "linear", text("input and bias of the weight's dtype ", name(w.dtype())),
                text(name(x.dtype()), " (", differing(x, w), ")"), "convert with .to()");
    const DimSpan bias = w.shape().first(static_cast<size_t>(w.ndim() - 1));
    WEFT_EXPECT(!b.defined() || equal(b.shape(), bias), Runtime, "linear",
                text("a bias ", to_string(bias)), b.defined() ? to_string(b.shape()) : "");
    Dims shape(x.shape());
    if (vector) shape.pop_back();
    else shape[x.ndim() - 1] = w.size(0);
    c.add(Tensor::layout(x.dtype(), shape));
}

void linear_kernel(Call& c) {
    const Tensor &x = c.in[0], &w = c.in[1], &b = c.in[2], &out = c.out(0);
    if (is_complex(out.dtype())) {
        ModeGuard off(0, kGradMode);
        const int64_t in = w.size(w.ndim() - 1);
        const Tensor rows =
            reshape(x, Dims{count_elements("linear", x.shape().first(x.ndim() - 1)), in});
        const Tensor product = mm(rows, t(w.ndim() == 1 ? unsqueeze(w, 0) : w));
        return copy_into(out, reshape(b.defined() ? product + b : product, out.shape()));
    }
    run_product<linear_product>(c, [](int i, const Tensor& t) {
        if (i == 2) return dense(t);
        return t.ndim() == 2 ? as_matrices(t) : as_contiguous(t);
    });
}

/// Of a weight [in]: every row gives one number.
void vector_grad(Grad& g) {
    const Tensor& x = g.in(0);
    const int64_t rows = g.grad().numel();
    Tensor grad = reshape(g.grad(), Dims{rows, 1});
    if (g.needs(0)) g.set(0, reshape(grad * conj(g.in(1)), g.in_shape(0)));
    if (g.needs(1)) {
        Tensor each = reshape(x, Dims{rows, x.size(x.ndim() - 1)});
        g.set(1, sum_dim(grad * conj(each), Dims{0}));
    }
    if (g.needs(2)) g.set(2, reshape(sum_dim(grad, Dims{0}), Dims{}));
}

/// Whether the weight is one, told by an input that wants a gradient: of others nothing is known.
bool has_weight_vector(const Grad& g) {
    if (g.needs(0)) return g.in_shape(0).size() > g.out_shape(0).size();
    if (g.needs(1)) return g.in_shape(1).size() == 1;
    return g.needs(2) && g.in_shape(2).empty();
}

void linear_grad(Grad& g) {
    const Tensor& grad = g.grad();
    if (has_weight_vector(g)) {
        if (grad.numel()) return vector_grad(g);
        for (int i = 0; i < 3; ++i)  // nothing flowed through no rows
            if (g.needs(i)) g.set(i, zeros(g.in_shape(i), grad.dtype()));
        return;
    }
    auto rows = [](const Tensor& x) {
        if (x.ndim() == 2) return x;
        int64_t width = x.size(x.ndim() - 1), n = 1;
        for (int d = 0; d < x.ndim() - 1; ++d) n *= x.size(d);
        return reshape(x, Dims{n, width});
    };
    Tensor grows = rows(grad);
    if (g.needs(0)) {
        Tensor dx = mm(grows, conj(g.in(1)));
        g.set(0, grad.ndim() == 2 ? dx : view(dx, g.in_shape(0)));
    }
    if (g.needs(1)) g.set_product(1, grows, rows(conj(g.in(0))));
    if (g.needs(2))
        g.set(2, grows.size(0) == 1 ? view(grows, Dims{grows.size(1)}) : sum_dim(grows, Dims{0}));
}

// ---- rows of products (Note [Rows] in batch.h)

const Function linear_each{"_linear_each"};

/// The matrix `fixed` times a vector of each call.
bool vectors(const BatchCall& c, BatchForm& form, int fixed) {
    form.op = &linear.op();
    form.add_rows(1 - fixed, Dims{c.in(1 - fixed).numel()});
    form.add_shared(fixed);
    form.add_shared(-1);
    return true;
}
/// Rows against one matrix, one matrix against columns; else products of pairs.
bool mm_rows(const BatchCall& c, BatchForm& form) {
    const Tensor &a = c.in(0), &b = c.in(1);
    if (a.numel() == 0 || b.numel() == 0) return false;
    if (c.fixed(1)) return batch_last<1>(c, form);
    if (c.fixed(0) && b.size(1) == 1) return vectors(c, form, 0);
    form.op = &bmm.op();
    return batch_whole(c, form);
}
bool bmm_rows(const BatchCall& c, BatchForm& form) {
    if (c.in(0).numel() == 0 || c.in(1).numel() == 0) return false;
    for (int i = 0; i < 2; ++i) form.add_rows(i, c.in(i).shape().subspan(1));
    form.rows = c.in(0).size(0);
    return true;
}
/// One matrix against vectors is a linear layer, and rows go against one vector; else products of
/// pairs.
bool mv_rows(const BatchCall& c, BatchForm& form) {
    const Tensor &m = c.in(0), &v = c.in(1);
    if (m.numel() == 0) return false;
    if (c.fixed(0)) return vectors(c, form, 0);
    if (c.fixed(1)) return batch_last<1>(c, form);
    form.op = &bmm.op();
    form.add_rows(0, m.shape());
    form.add_rows(1, Dims{v.size(0), 1});
    return true;
}
bool dot_rows(const BatchCall& c, BatchForm& form) {
    int64_t n = c.in(0).numel();
    if (n == 0) return false;
    for (int i : {1, 0})
        if (c.fixed(i)) {
            form.op = &mv.op();
            form.add_rows(1 - i, Dims{n});
            form.add_shared(i);
            return true;
        }
    form.op = &bmm.op();
    form.add_rows(0, Dims{1, n});
    form.add_rows(1, Dims{n, 1});
    return true;
}
/// Rows of mat1 against one mat2 and one bias row.
bool addmm_rows(const BatchCall& c, BatchForm& form) {
    const Tensor &bias = c.in(0), &a = c.in(1);
    if (!c.fixed(0) || !c.fixed(2) || a.numel() == 0 || (bias.ndim() == 2 && bias.size(0) != 1))
        return false;
    form.add_shared(0);
    form.add_rows(1, a.shape().subspan(1));
    form.add_shared(2);
    form.rows = a.size(0);
    return true;
}

/// Rows against one weight; else each call's rows against its own.
bool linear_rows(const BatchCall& c, BatchForm& form) {
    const Tensor &x = c.in(0), &w = c.in(1), &b = c.in(2);
    bool one_bias = !b.defined() || c.fixed(2);
    if (w.ndim() == 1) return false;
    if (c.fixed(1)) return one_bias && batch_last<1>(c, form);
    if (x.numel() == 0 || w.numel() == 0) return false;
    form.op = &linear_each.op();
    form.add_rows(0, Dims{x.numel() / w.size(1), w.size(1)});
    form.add_rows(1, w.shape());
    if (one_bias) form.add_shared(2);
    else form.add_rows(2, Dims{1, b.size(0)});
    return true;
}

const char* linear_node(const Call& c) {
    bool bias = c.in[2].defined();
    int rank = c.in[0].ndim();
    if (c.in[1].ndim() == 1 && (bias || rank < 3))
        return bias ? "AddBackward0" : rank == 1 ? "DotBackward0" : "MvBackward0";
    switch (rank) {
        case 1:
            return bias ? "ViewBackward0" : "SqueezeBackward4";
        case 2:
            return bias ? "AddmmBackward0" : "MmBackward0";
        default:
            return bias ? "ViewBackward0" : "UnsafeViewBackward0";
    }
}

}  // namespace

bool describe_product(const Call& c, Product& found) {
    using Describe = bool (*)(const Call&, Product&);
    static constexpr std::pair<Kernel, Describe> kProducts[] = {
        {or_complex_product<mm_kernel>, mm_product},
        {or_complex_product<bmm_kernel>, bmm_product},
        {addmm_kernel, addmm_product},
        {linear_kernel, linear_product}};
    found.dtype = c.out(0).dtype();
    for (const auto& [kernel, describe] : kProducts)
        if (c.op->kernel == kernel) return describe(c, found);
    return false;
}

bool find_product(const Call& c, Product& found) {
    const DType t = c.out(0).dtype();
    return !is_complex(t) && !is_narrow(t) && describe_product(c, found);
}

}  // namespace ops

void register_matmul(Table& table) {
    using namespace ops;
    table.add("mm(Tensor self, Tensor mat2) -> Tensor")
        .float8()
        .autocast(Cast::Narrow)
        .doc("[m, k] times [k, n].\n\n>>> weft.mm(weft.ones(2, 3), weft.ones(3, 1))\n"
             "tensor([[3.],\n        [3.]])")
        .shape(mm_shape)
        .kernel(or_complex_product<mm_kernel>)
        .flops(product_flops<>)
        .batch(mm_rows, save_in(1))
        .out_form()
        .joint_grad(save_in(0) | save_in(1), mm_grad)
        .onnx("MatMul(self, mat2)")
        .samples({"f(T(2, 3), T(3, 4))", "f(T(1, 3), T(3, 1))", "f(T(0, 3), T(3, 2))",
                  "f(T(3, 2).t(), T(4, 3).t())"});
    table.add("bmm(Tensor self, Tensor mat2) -> Tensor")
        .autocast(Cast::Narrow)
        .doc("[b, m, k] times [b, k, n] give [b, m, n], batch by batch. RuntimeError for sizes\n"
             "that do not fit.\n"
             ">>> weft.bmm(weft.ones(2, 1, 3), weft.ones(2, 3, 1)).flatten()\n"
             "tensor([3., 3.])")
        .shape(bmm_shape)
        .kernel(or_complex_product<bmm_kernel>)
        .flops(product_flops<>)
        .batch(bmm_rows)
        .out_form()
        .grad(0, save_in(1), [](const Grad& g) { return bmm(g.grad(), mt(conj(g.in(1)))); })
        .grad(1, save_in(0), [](const Grad& g) { return bmm(mt(conj(g.in(0))), g.grad()); })
        .onnx("MatMul(self, mat2)")
        .samples({"f(T(2, 3, 4), T(2, 4, 2))", "f(T(1, 1, 1), T(1, 1, 1))",
                  "f(T(2, 4, 3).transpose(1, 2), T(2, 4, 2))"});
    table.add("mv(Tensor self, Tensor vec) -> Tensor")
        .doc("[m, k] times [k]. The result is [m]. RuntimeError for sizes that do not fit.\n"
             ">>> weft.mv(weft.tensor([[1., 2.], [3., 4.]]), weft.tensor([1., 1.]))\n"
             "tensor([3., 7.])")
        .shape(mv_shape)
        .kernel(or_complex_product<mv_kernel>)
        .flops(product_flops<>)
        .batch(mv_rows)
        .out_form()
        .joint_grad(save_in(0) | save_in(1),
                    [](Grad& g) {
                        if (g.needs(0)) g.set_product(0, row(g.grad()), row(conj(g.in(1))));
                        if (g.needs(1)) g.set(1, mv(t(conj(g.in(0))), g.grad()));
                    })
        .onnx("MatMul(self, vec)")
        .samples({"f(T(2, 3), T(3))", "f(T(3, 2).t(), T(3))"});
    table.add("dot(Tensor self, Tensor tensor) -> Tensor")
        .doc("The sum of products of two 1-D tensors.\n"
             "[n] and [n] give a 0-d tensor. RuntimeError for other shapes.\n"
             ">>> weft.dot(weft.tensor([1, 2]), weft.tensor([3, 4]))\n"
             "tensor(11)")
        .shape(dot_shape)
        .kernel(or_complex_product<dot_kernel>)
        .flops(product_flops<>)
        .batch(dot_rows)
        .out_form()
        .grad(0, save_in(1), [](const Grad& g) { return g.grad() * conj(g.in(1)); })
        .grad(1, save_in(0), [](const Grad& g) { return g.grad() * conj(g.in(0)); })
        .onnx("MatMul(self, tensor)")
        .samples({"f(T(3), T(3))", "f(T(0), T(0))"});
    table.add("outer(Tensor self, Tensor vec2) -> Tensor")
        .doc("[m] and [n] give [m, n].\n"
             ">>> weft.outer(weft.tensor([1, 2]), weft.tensor([3, 4]))\n"
             "tensor([[3, 4],\n"
             "        [6, 8]])")
        .body([](Call& c) {
            WEFT_EXPECT(c.in[0].ndim() == 1 && c.in[1].ndim() == 1, Runtime, "outer", "two vectors",
                        text("another (outer: Expected 1-D argument ",
                             c.in[0].ndim() == 1 ? "vec2" : "self", ", but got ",
                             c.in[c.in[0].ndim() == 1].ndim(), "-D)"));
            c.set(column(c.in[0]) * c.in[1]);
        })
        .batch(Batch::Body)
        .alias("ger")
        .onnx("Mul(Unsqueeze(self, cast([1], int64)), Unsqueeze(vec2, cast([0], int64)))")
        .samples({"f(T(3), T(4))", "f(T(0), T(2))"});
    table.add("matmul(Tensor self, Tensor other) -> Tensor")
        .autocast(Cast::Narrow)
        .doc("The product of NumPy's `@`: 1-D operands are vectors, leading dimensions are batches "
             "and broadcast.\n\n>>> weft.ones(5, 2, 3) @ weft.ones(3) \n"
             "tensor([[3., 3.],\n        [3., 3.],\n        [3., 3.],\n        [3., 3.],\n        "
             "[3., 3.]])")
        .body(matmul_body)
        .batch(Batch::Body)
        .onnx("MatMul(self, other)")
        .samples({"f(T(3), T(3))", "f(T(2, 3), T(3))", "f(T(3), T(3, 2))", "f(T(2, 3), T(3, 4))",
                  "f(T(5, 2, 3), T(3, 4))", "f(T(5, 2, 3), T(3))", "f(T(5, 1, 2, 3), T(4, 3, 2))",
                  "f(T(3), T(2, 3, 4))", "f(T(2, 3), T(5, 3, 2))"});
    table
        .add("addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> "
             "Tensor")
        .float8()
        .autocast(Cast::Narrow)
        .doc("beta * self + alpha * (mat1 @ mat2), self expanded to the product's shape.\n"
             "mat1 is [n, k], mat2 [k, m], the result [n, m].\n"
             ">>> weft.addmm(weft.tensor([1., 2.]), weft.ones(2, 3), weft.ones(3, 2), alpha=2)\n"
             "tensor([[7., 8.],\n"
             "        [7., 8.]])")
        .shape(addmm_shape)
        .kernel(addmm_kernel)
        .flops(product_flops<1>)
        .batch(addmm_rows, save_in(0) | save_in(2))
        .out_form()
        .older_order({"beta", "self", "alpha", "mat1", "mat2"})
        .older_order({"beta", "self", "mat1", "mat2"})
        .inplace()
        .joint_grad(save_in(1) | save_in(2), addmm_grad)
        .samples({"f(T(4), T(2, 3), T(3, 4))", "f(T(2, 4), T(2, 3), T(3, 4), beta=0.5, alpha=2)"});
    table.add("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor")
        .float8()
        .autocast(Cast::Narrow)
        .doc("input [..., in] times weight [out, in] transposed, plus bias [out]; a weight [in] "
             "and\n"
             "a 0-d bias give a number for each row.\n\n"
             ">>> weft.linear(weft.ones(3), weft.ones(2, 3), weft.ones(2))\ntensor([4., 4.])")
        .shape(linear_shape)
        .kernel(linear_kernel)
        .flops(product_flops<>)
        .batch(linear_rows, save_in(1) | save_in(2))
        .function_only()
        .joint_grad(save_in(0) | save_in(1), linear_grad)
        .node_name(linear_node)
        .samples({"f(T(2, 3), T(4, 3), T(4))", "f(T(3), T(4, 3), T(4))", "f(T(5, 2, 3), T(4, 3))",
                  "f(T(1, 3), T(4, 3), T(4))", "f(T(0, 3), T(4, 3), T(4))", "f(T(5, 2, 3), T(3))",
                  "f(T(3), T(3), T())"});
    table.add("_linear_each(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor")
        .doc("Several linear layers: [b, m, in] times [b, out, in] transposed, plus [b, 1, out].")
        .body([](Call& c) {
            Tensor out = bmm(c.in[0], mt(c.in[1]));
            c.set(c.in[2].defined() ? out + c.in[2] : out);
        })
        .batch(Batch::Body)
        .internal()
        .samples({"f(T(2, 3, 4), T(2, 5, 4))", "f(T(2, 1, 4), T(2, 3, 4), T(2, 1, 3))"});
}

}  // namespace weft
