#include "ops/layout.h"

#include <algorithm>
#include <numeric>

#include "ops/shape.h"

namespace weft::ops {

int64_t size_sum(std::string_view who, int64_t a, int64_t b) {
    int64_t sum;
    bool overflow = __builtin_add_overflow(a, b, &sum);
    WEFT_EXPECT(!overflow, Runtime, who, "a size of less than 2**63", text(a, " + ", b));
    return sum;
}

int64_t size_product(std::string_view who, int64_t a, int64_t b) {
    int64_t product;
    bool overflow = __builtin_mul_overflow(a, b, &product);
    WEFT_EXPECT(!overflow, Runtime, who, "a size of less than 2**63", text(a, " * ", b));
    return product;
}

int64_t size_of(std::string_view who, __int128 exact) {
    const auto size = static_cast<int64_t>(exact);
    WEFT_EXPECT(exact == size, Runtime, who, "a size of less than 2**63",
                text(static_cast<double>(exact)));
    return size;
}

int64_t stepped_stride(int64_t stride, int64_t step, int64_t count) {
    int64_t stepped;
    bool overflow = __builtin_mul_overflow(stride, step, &stepped);
    return overflow && count <= 1 ? stride : stepped;
}

void check_parts(std::string_view who, int64_t parts) {
    constexpr int64_t most = int64_t{1} << 26;
    WEFT_EXPECT(parts <= most, Runtime, who, text("at most ", most, " parts"),
                std::to_string(parts));
}

Dims infer_size(std::string_view who, DimSpan size, int64_t numel) {
    Dims out(size);
    int unknown = -1;
    int64_t product = 1;
    bool overflow = false;
    for (int d = 0; d < out.size(); ++d) {
        if (out[d] == -1) {
            WEFT_EXPECT(unknown < 0, Runtime, who,
                        "at most one size of -1 (only one dimension can be inferred)",
                        to_string(size));
            unknown = d;
            continue;
        }
        WEFT_EXPECT(out[d] >= 0, Runtime, who, "sizes of at least 0, or one -1",
                    text("invalid shape dimension ", out[d], " at index ", d, " of shape ",
                         to_string(size)));
        overflow |= __builtin_mul_overflow(product, out[d], &product);
    }
    bool fits =
        !overflow && (product == numel || (unknown >= 0 && product > 0 && numel % product == 0));
    WEFT_EXPECT(
        fits, Runtime, who, "a shape of as many elements",
        text("another (shape '", to_string(size), "' is invalid for input of size ", numel, ")"));
    if (unknown < 0) return out;
    WEFT_EXPECT(product != 0, Runtime, who, "sizes that leave one meaning for -1",
                text("cannot reshape tensor of 0 elements into shape ", to_string(size),
                     " because the unspecified dimension size -1 can be any value"));
    out[unknown] = numel / product;
    return out;
}

namespace {

/// Neighbouring dims that lie behind each other in memory, innermost run first.
struct Run {
    int64_t size, stride;
};

SmallVector<Run, 6> merged(DimSpan shape, DimSpan strides) {
    SmallVector<Run, 6> runs;
    for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
        if (shape[d] == 1) continue;
        if (!runs.empty() && strides[d] == runs.back().size * runs.back().stride)
            runs.back().size *= shape[d];
        else runs.push_back({shape[d], strides[d]});
    }
    return runs;
}

}  // namespace

bool view_strides(DimSpan shape, DimSpan strides, DimSpan target, Dims& out) {
    if (equal(shape, target)) {
        out = strides;
        return true;
    }
    out = contiguous_strides(target);
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
    auto runs = merged(shape, strides);
    int64_t step = runs.empty() ? 1 : runs[0].stride, left = runs.empty() ? 1 : runs[0].size;
    int next = 1;
    for (int d = out.size() - 1; d >= 0; --d) {
        if (left == 1 && target[d] != 1) {
            if (next >= runs.size()) return false;
            step = runs[next].stride;
            left = runs[next++].size;
        }
        if (left % target[d] != 0) return false;
        out[d] = step;
        step *= target[d];
        left /= target[d];
    }
    return left == 1 && next >= runs.size();
}

namespace {

/// Whether dim `a` lies within dim `b`: 1, -1 if it is the other way, 0 if no operand tells. Of equal
/// strides the larger dim is the outer one. A size of 1, or a repeated element, says nothing.
int compare_dims(DimSpan shape, const Tensor* in, int inputs, int64_t a, int64_t b) {
    auto stride = [&](const Tensor& t, int64_t d) -> int64_t {
        auto axis = static_cast<int>(d) - static_cast<int>(shape.size()) + t.ndim();
        return axis < 0 || t.size(axis) != shape[static_cast<size_t>(d)] ? 0 : t.stride(axis);
    };
    for (int i = 0; i < inputs; ++i) {
        if (!in[i].defined()) continue;
        const int64_t x = stride(in[i], a), y = stride(in[i], b);
        if (x == 0 || y == 0) continue;
        if (x != y) return x < y ? 1 : -1;
        if (shape[static_cast<size_t>(a)] < shape[static_cast<size_t>(b)]) return 1;
    }
    return 0;
}

}  // namespace

Dims strides_in_order(DimSpan shape, const Tensor* in, int inputs) {
    const int n = static_cast<int>(shape.size());
    Dims order(n);  // innermost first
    std::iota(order.begin(), order.end(), 0);
    std::reverse(order.begin(), order.end());
    for (int i = 1; i < n; ++i)
        for (int at = i, j = i - 1; j >= 0; --j) {
            const int first = compare_dims(shape, in, inputs, order[at], order[j]);
            if (first < 0) break;
            if (first == 0) continue;
            std::swap(order[at], order[j]);
            at = j;
        }
    Dims strides(n);
    int64_t step = 1;
    for (int64_t d : order) {
        strides[static_cast<int>(d)] = step;
        step *= std::max<int64_t>(shape[static_cast<size_t>(d)], 1);
    }
    return strides;
}

Dims dense_strides(const Tensor& t) {
    if (t.contiguous() || is_dense(t.shape(), t.strides())) return Dims(t.strides());
    return strides_in_order(t.shape(), &t, 1);
}

Tensor preserved_layout(const Tensor& t, DType dtype) {
    if (t.contiguous()) return Tensor::layout(dtype, t.shape());
    return Tensor::layout(dtype, t.shape(), dense_strides(t));
}

Slice slice_span(std::string_view who, int64_t size, const Value& start, const Value& end,
                 int64_t step) {
    WEFT_EXPECT(step > 0, Runtime, who, "a positive step", std::to_string(step), "flip() reverses");
    auto clamp = [&](const Value& v, int64_t otherwise) {
        if (v.none()) return otherwise;
        int64_t at = v.as_int();
        if (at < 0) at += size;
        return std::clamp<int64_t>(at, 0, size);
    };
    int64_t first = clamp(start, 0), last = std::max(clamp(end, size), first);
    int64_t length = last - first;
    return {first, length / step + (length % step != 0)};
}

int64_t wrap_index(std::string_view who, int64_t index, int dim, int64_t size) {
    WEFT_EXPECT(index >= -size && index < size, Index, who,
                size ? "a position that the dimension has" : "a dimension that is not empty",
                text(index, " (index ", index, " is out of bounds for dimension ", dim,
                     " with size ", size, ")"));
    return index < 0 ? index + size : index;
}

Dims without(DimSpan dims, int dim) {
    Dims out(dims);
    out.erase(dim);
    return out;
}

OpBuilder view_op(Table& t, std::string_view schema, void (*shape)(Call&), GradRule grad,
                  std::source_location where) {
    return t.add(schema, where)
        .shape(shape)
        .kernel(no_kernel)
        .every_dtype()
        .view()
        .batch(Batch::Alias)
        .grad(0, 0, grad);
}

}  // namespace weft::ops
