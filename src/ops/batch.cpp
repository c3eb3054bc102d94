#include "ops/batch.h"

#include <algorithm>

#include "ops/pointwise.h"

namespace weft {

bool BatchForm::ask(const BatchCall& c) {
    op = c.call.op;
    attrs.assign(c.call.attrs, c.call.attrs + op->defaults.size());
    return op->batch_rule && op->batch_rule(c, *this);
}

bool BatchForm::any_once() const {
    return std::any_of(in.begin(), in.end(), [](const Input& input) { return input.once; });
}

const Value* BatchForm::attrs_over(const Dims& counts, std::vector<Value>& own) const {
    if (counts_attr < 0) return attrs.data();
    own = attrs;
    own[static_cast<size_t>(counts_attr)] = counts;
    return own.data();
}

Tensor BatchForm::result_over(const Dims& counts, const Tensor& rows) const {
    static const ops::Function segment_sum{"_segment_sum"}, view{"view"};
    if (then == Then::Nothing) return rows;
    return segment_sum(view(rows, Dims{rows.numel()}), counts, then == Then::Mean);
}

const int64_t* BatchForm::shift_indices(const int64_t* from, int64_t n, int64_t rows, int64_t first,
                                        int64_t* to) const {
    for (const int64_t* end = from + n; from != end; ++from) {
        const bool negative = *from < 0 && wrap;
        if (*from >= rows || *from < (wrap ? -rows : 0)) return from;
        *to++ = first + *from + (negative ? rows : 0);
    }
    return from;
}

}  // namespace weft

namespace weft::ops {
namespace {

/// Elements up to which a pointwise call of leaves alone merges.
constexpr int64_t kSmallLeaf = 4096;

DimSpan tail(const Tensor& t, int from) { return t.shape().subspan(static_cast<size_t>(from)); }

int64_t product(DimSpan dims) {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
}

/// The shape under `ndim` dimensions.
Dims padded(const Tensor& t, int ndim) {
    Dims out(ndim - t.ndim(), 1);
    for (int64_t d : t.shape()) out.push_back(d);
    return out;
}

/// Dimensions of a shared operand that matter when it is broadcast.
int true_dims(const Tensor& t) {
    int lead = 0;
    while (lead < t.ndim() && t.size(lead) == 1) ++lead;
    return t.ndim() - lead;
}

/// Whether the call computes in the same dtype when its 0-d operands are rows, which have a
/// dimension and so count for more in promotion: those that `becomes_rows` names, or all of them
/// (what is shared may be a piece that is gathered by row).
template <class F>
bool promotes_alike(const BatchCall& c, const F& becomes_rows) {
    std::vector<Tensor> rows, all;
    for (int i = 0; i < c.inputs(); ++i) {
        const Tensor& t = c.in(i);
        if (!t.defined()) continue;
        bool scalar = t.ndim() == 0 && !t.has(kWrapped);
        Tensor row = scalar ? Tensor::layout(t.dtype(), Dims{1}) : t;
        rows.push_back(becomes_rows(i) ? row : t);
        all.push_back(row);
    }
    auto dtype = [](const std::vector<Tensor>& in) {
        return promoted(in.data(), static_cast<int>(in.size()));
    };
    DType before = promoted(c.call.in, c.inputs());
    return dtype(rows) == before && dtype(all) == before;
}

}  // namespace

int64_t row_size(DimSpan row) { return product(row); }

OutputOverRows output_over_rows(Call& made, int k, int64_t calls, int64_t each, int64_t total,
                                DType dtype) {
    OutputOverRows out{made.out(k)};
    const bool constant = made.op->constant_outputs >> k & 1;
    out.common = constant && calls > 1 && each > 0 && out.all.numel() == each;
    // What only backward reads is there or not as the graph is recorded, which was a guess.
    if (constant && !out.common && (out.all.numel() == 0) != (total == 0))
        out.all = zeros(Dims{total}, dtype);
    out.fits = (out.common || out.all.numel() == total) && out.all.dtype() == dtype;
    return out;
}

bool batch_pointwise(const BatchCall& c, BatchForm& form) {
    const Tensor& out = c.call.out(0);
    bool any_row = false, all_full = true;
    for (int i = 0; i < c.inputs(); ++i) any_row |= c.in(i).defined() && !c.fixed(i);
    // Leaves alone are an example's own inputs, or a weight: then copies may not cost much.
    bool leaves = !any_row && out.numel() <= kSmallLeaf;
    auto shared = [&](int i) {
        return !c.in(i).defined() || (c.fixed(i) && (!leaves || c.in(i).has(kWrapped)));
    };
    int kept = 0, rows = 0;
    for (int i = 0; i < c.inputs(); ++i) {
        const Tensor& t = c.in(i);
        if (!t.defined()) continue;
        if (shared(i)) {
            kept = std::max(kept, true_dims(t));
            continue;
        }
        ++rows;
        all_full &= equal(t.shape(), out.shape());
    }
    if (rows == 0 || !promotes_alike(c, [&](int i) { return !shared(i); })) return false;
    // Each operand has all the rows, or one: then rows are as small as they can be.
    int first = out.ndim() - kept;
    auto leads = [&](const Dims& shape, bool one) {
        for (int d = 0; d < first; ++d)
            if (shape[d] != (one ? 1 : out.size(d))) return false;
        return true;
    };
    auto fit = [&](const Dims& shape) {
        while (!leads(shape, false) && !leads(shape, true)) --first;
    };
    for (int i = 0; i < c.inputs() && !all_full; ++i)
        if (c.in(i).defined() && !shared(i)) fit(padded(c.in(i), out.ndim()));
    for (int i = 0; i < c.inputs(); ++i) {
        const Tensor& t = c.in(i);
        if (shared(i)) {
            form.add_shared(i);
            continue;
        }
        Dims shape = padded(t, out.ndim());
        DimSpan row = DimSpan(shape).subspan(static_cast<size_t>(first));
        if (leads(shape, false)) form.add_rows(i, row);
        else form.add_once(i, row);
    }
    form.rows = product(out.shape().first(static_cast<size_t>(first)));
    return true;
}

bool detail::batch_along(const BatchCall& c, BatchForm& form, int attr) {
    int ndim = c.in(0).ndim();
    if (ndim == 0) return false;
    const Value& v = c.attr(attr);
    if (v.none()) return false;
    Dims dims = v.kind() == Value::Kind::Ints ? Dims(v.as_ints()) : Dims{v.as_int()};
    if (dims.empty()) return false;
    int first = ndim;
    for (int64_t& d : dims) {
        if (d >= 0) d -= ndim;
        first = std::min(first, static_cast<int>(d) + ndim);
    }
    for (int i = 0; i < c.inputs(); ++i) {
        const Tensor& t = c.in(i);
        if (!t.defined() || t.ndim() != ndim || t.numel() == 0) return false;
        if (!equal(t.shape().first(static_cast<size_t>(first)),
                   c.in(0).shape().first(static_cast<size_t>(first))))
            return false;
        form.add_rows(i, tail(t, first));
    }
    form.rows = product(c.in(0).shape().first(static_cast<size_t>(first)));
    form.attrs[attr] = v.kind() == Value::Kind::Ints ? Value(dims) : Value(dims[0]);
    return true;
}

bool detail::batch_over(const BatchCall& c, BatchForm& form, int attr) {
    const Value& v = c.attr(attr);
    bool all = v.none() || (v.kind() == Value::Kind::Ints && v.as_ints().empty());
    if (!all && c.in(0).ndim() > 0) return batch_along(c, form, attr);
    if (c.in(0).numel() == 0) return false;
    form.add_rows(0, Dims{c.in(0).numel()});
    form.attrs[static_cast<size_t>(attr)] = Value(Dims{-1});
    return true;
}

bool batch_all(const BatchCall& c, BatchForm& form, const char* name, const Value& dim,
               std::vector<Value> more) {
    if (c.in(0).numel() == 0) return false;
    form.op = &table().at(name);
    form.add_rows(0, Dims{c.in(0).numel()});
    form.attrs = {dim};
    form.attrs.insert(form.attrs.end(), more.begin(), more.end());
    return true;
}

bool batch_loss(const BatchCall& c, BatchForm& form) {
    const Tensor& x = c.in(0);
    if (x.numel() == 0) return false;
    for (int i = 0; i < c.inputs(); ++i) {
        const Tensor& t = c.in(i);
        if (i < 2 && (!equal(t.shape(), x.shape()) || t.dtype() != x.dtype())) return false;
        if (i >= 2 && t.defined()) return false;
        if (i < 2) form.add_rows(i, DimSpan());
        else form.add_shared(i);
    }
    const std::string& reduction = c.attr(0).as_text();
    form.rows = x.numel();
    form.attrs[0] = "none";
    form.then = reduction == "none"   ? BatchForm::Then::Nothing
                : reduction == "mean" ? BatchForm::Then::Mean
                                      : BatchForm::Then::Sum;
    return reduction == "none" || reduction == "mean" || reduction == "sum";
}

bool batch_whole(const BatchCall& c, BatchForm& form) {
    for (int i = 0; i < c.inputs(); ++i) {
        if (!c.in(i).defined()) form.add_shared(i);
        else if (c.in(i).numel() == 0) return false;
        else form.add_rows(i, c.in(i).shape());
    }
    return true;
}

bool batch_first(const BatchCall& c, BatchForm& form) {
    return c.in(0).ndim() > 0 && detail::batch_last(c, form, c.in(0).ndim() - 1);
}

bool detail::batch_last(const BatchCall& c, BatchForm& form, int n) {
    const Tensor& x = c.in(0);
    if (x.ndim() < n || x.numel() == 0) return false;
    int first = x.ndim() - n;
    form.add_rows(0, tail(x, first));
    for (int i = 1; i < c.inputs(); ++i) {
        if (c.in(i).defined() && !c.fixed(i)) return false;
        form.add_shared(i);
    }
    form.rows = product(x.shape().first(static_cast<size_t>(first)));
    return true;
}

}  // namespace weft::ops
