#include "ops/indexing.h"

#include <cmath>

#include "ops/copy.h"
#include "ops/limits.h"
#include "ops/shape.h"

namespace weft::ops {
namespace {

bool none_between(const Dims& dims) {
    for (int i = 1; i < dims.size(); ++i)
        if (dims[i] != dims[i - 1] + 1) return false;
    return true;
}

/// Shapes of the defined indices, for an error.
std::string shapes_of(const Tensor* indices, const Dims& dims) {
    std::string out;
    for (int64_t d : dims) {
        if (!out.empty()) out += ", ";
        out += to_string(indices[d].shape());
    }
    return out;
}

/// Every offset of a block of dimensions, in row-major order.
std::vector<int64_t> offsets(DimSpan shape, const Dims& dims, DimSpan strides) {
    std::vector<int64_t> out{0};
    for (int64_t d : dims) {
        std::vector<int64_t> next;
        next.reserve(
            static_cast<size_t>(size_product("index", static_cast<int64_t>(out.size()), shape[d])));
        for (int64_t base : out)
            for (int64_t i = 0; i < shape[d]; ++i) next.push_back(base + i * strides[d]);
        out = std::move(next);
    }
    return out;
}

int64_t product(DimSpan shape, const Dims& dims) {
    int64_t n = 1;
    for (int64_t d : dims) n *= shape[d];
    return n;
}

bool lie_behind_each_other(DimSpan shape, const Dims& dims, DimSpan strides) {
    int64_t step = 1;
    for (int i = dims.size() - 1; i >= 0; --i) {
        if (shape[dims[i]] != 1 && strides[dims[i]] != step) return false;
        step *= shape[dims[i]];
    }
    return true;
}

}  // namespace

Indexing::Indexing(std::string_view who, DimSpan shape, const Tensor* indices, int count)
    : shape(shape), indices(indices) {
    int n = static_cast<int>(shape.size());
    WEFT_EXPECT(count <= n, Index, who, text("at most ", n, " indices"),
                text(count, " (too many indices for tensor of dimension ", n, ")"));
    for (int d = 0; d < count; ++d) {
        if (!indices[d].defined()) continue;
        WEFT_EXPECT(indices[d].dtype() == DType::Int64, Index, who,
                    "tensors used as indices to be long, int, byte or bool tensors",
                    name(indices[d].dtype()));
        indexed.push_back(d);
    }
    for (int64_t d : indexed) {
        DimSpan have = indices[d].shape();
        bool fits = true;
        for (size_t i = 1; i <= std::min<size_t>(have.size(), rows.size()); ++i) {
            int64_t x = have[have.size() - i], y = rows[rows.size() - static_cast<int>(i)];
            fits &= x == y || x == 1 || y == 1;
        }
        WEFT_EXPECT(fits, Index, who, "indexing tensors whose shapes broadcast",
                    text("shape mismatch: indexing tensors could not be broadcast together with "
                         "shapes ",
                         shapes_of(indices, indexed)));
        rows = broadcast(who, rows, have);
    }
    bool together = none_between(indexed);
    int64_t first = indexed.empty() ? n : indexed[0];
    for (int d = 0; d < n; ++d) {
        if (d < count && indices[d].defined()) continue;
        (together && d < first ? outer : inner).push_back(d);
    }
    for (int64_t d : outer) result.push_back(shape[d]);
    for (int64_t s : rows) result.push_back(s);
    for (int64_t d : inner) result.push_back(shape[d]);
}

BlockTables::BlockTables(std::string_view who, const Indexing& plan, DimSpan strides)
    : outer_(offsets(plan.shape, plan.outer, strides)),
      rows_(static_cast<size_t>(count_elements(who, plan.rows))) {
    for (int64_t d : plan.indexed) {
        const Tensor& given = plan.indices[d];
        const bool a_line = given.ndim() == 1 && equal(given.shape(), plan.rows);
        const Tensor index = a_line ? given : spread(given, plan.rows, DType::Int64);
        const int64_t size = plan.shape[d], step = a_line ? index.stride(0) : 1;
        if (!kernels::add_places(rows_.data(), index.data<int64_t>(), step, index.numel(), size,
                                 strides[d]))
            require_inside(who, ErrorKind::Index, dense_index(index), -size, size, d);
    }
    bool dense = lie_behind_each_other(plan.shape, plan.inner, strides);
    if (!dense) inner_ = offsets(plan.shape, plan.inner, strides);
    blocks = {outer_.data(),
              rows_.data(),
              dense ? nullptr : inner_.data(),
              static_cast<int64_t>(outer_.size()),
              static_cast<int64_t>(rows_.size()),
              product(plan.shape, plan.inner)};
}

bool broadcasts_to(DimSpan from, DimSpan to) {
    if (from.size() > to.size()) return false;
    const size_t lead = to.size() - from.size();
    for (size_t d = 0; d < from.size(); ++d)
        if (from[d] != 1 && from[d] != to[lead + d]) return false;
    return true;
}

Tensor dense_index(const Tensor& index) { return as_contiguous(index, DType::Int64); }

void require_inside(std::string_view who, ErrorKind kind, const Tensor& index, int64_t low,
                    int64_t size, int64_t dim) {
    const auto* values = index.data<int64_t>();
    int64_t bad = kernels::first_outside(values, index.numel(), low, size);
    if (bad < 0) [[likely]]
        return;
    fail(kind, who,
         size ? text("indices in [", low, ", ", size - 1, "]") : "a dimension that is not empty",
         text("index ", values[bad], " is out of bounds for dimension ", dim, " with size ", size));
}

void start_from_self(const Call& c) {
    const Tensor &self = c.in[0], &out = c.out(0);
    if (self.storage() == out.storage() && self.bytes() == out.bytes()) return;
    copy_into(out, self);
}

Tensor apart(const Call& c, const Tensor& t, DType dtype) {
    if (!t.may_overlap(c.out(0))) return as_contiguous(t, dtype);
    return spread(t, t.shape(), dtype);
}

Tensor spread(const Tensor& t, DimSpan shape, DType dtype) {
    if (equal(t.shape(), shape) && t.contiguous() && t.dtype() == dtype) return t;
    Tensor out = Tensor::empty(dtype, shape);
    copy_into(out, t);
    return out;
}

Tensor as_tensor(const Value& number) {
    if (number.kind() == Value::Kind::Complex)
        return Tensor::scalar(number.as_complex(), DType::Complex128);
    if (number.kind() == Value::Kind::Float)
        return Tensor::scalar(number.as_double(), DType::Float64);
    return Tensor::scalar(number.as_int(), DType::Int64);
}

namespace {

/// The largest number of a dtype that is not complex, and the least; -1 is 255 to PyTorch.
double greatest(DType t) {
    if (t == DType::Int64) return 0x1.fffffffffffffp62;  // the last below 2^63
    if (t == DType::UInt64) return 0x1.fffffffffffffp63;
    return category(t) == Category::Integer ? static_cast<double>(largest_of(t))
                                            : largest_floating(t);
}
double least(DType t, bool whole) {
    if (is_floating(t)) return -greatest(t);
    if (is_unsigned(t)) return whole ? -greatest(t) : 0;
    return t == DType::Int64 ? -0x1p63 : -greatest(t) - 1;
}

bool fits(double x, DType t, bool whole) {
    if (!std::isfinite(x)) return is_floating(t);
    return x >= least(t, whole) && x <= greatest(t);
}

}  // namespace

void require_fits(std::string_view who, const Tensor& value, DType dtype) {
    DType from = value.dtype();
    if (dtype == DType::Bool || from == dtype || (is_wide_floating(dtype) && from == DType::Int64))
        return;
    std::complex<double> x;
    if (is_complex(from)) x = *as_dtype(value, DType::Complex128).data<std::complex<double>>();
    else x = value.item_double();
    DType part = real_dtype(dtype);
    bool whole = category(from) <= Category::Integer;
    if (from == DType::Int64 && part == DType::Int64) return;
    bool good = fits(x.real(), part, whole) &&
                (is_complex(dtype) ? fits(x.imag(), part, whole) : x.imag() == 0);
    WEFT_EXPECT(good, Runtime, who, text("a value that fits in ", name(dtype)),
                text(x.real(), is_complex(from) ? text(" + ", x.imag(), "j") : std::string(),
                     " (value cannot be converted to type ", name(dtype), " without overflow)"));
}

Tensor at_least_1d(const Tensor& t) {
    if (t.ndim()) return t;
    return t.view_as(Dims{1}, Dims{1});
}

void add_embedding_rows(const Tensor& table, const Tensor& indices, const Tensor& grad,
                        int64_t padding, bool by_frequency) {
    if (is_narrow(table.dtype())) {
        Tensor wide = as_dtype(table, widened(table.dtype()));
        add_embedding_rows(wide, indices, grad, padding, by_frequency);
        return copy_into(table, wide);
    }
    Tensor index = dense_index(indices), rows = as_contiguous(grad, table.dtype());
    std::vector<int64_t> count;
    if (by_frequency) {
        count.resize(static_cast<size_t>(table.size(0)));
        for (int64_t i = 0; i < index.numel(); ++i)
            ++count[static_cast<size_t>(index.data<int64_t>()[i])];
    }
    dispatch<FloatingTypes>(table.dtype(), "embedding", [&]<class T>() {
        kernels::add_rows(table.data<T>(), rows.data<T>(), index.data<int64_t>(), index.numel(),
                          table.size(1), padding, count.empty() ? nullptr : count.data());
    });
}

}  // namespace weft::ops
