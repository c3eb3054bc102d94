/// Views of any layout, which may overlap, and their gradient.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/index.h"
#include "ops/batch.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/shape.h"

namespace weft {
namespace {

using namespace ops;

const Function as_strided_backward{"as_strided_backward"};

void as_strided_shape(Call& c) {
    const Tensor& self = c.in[0];
    DimSpan size = c.attr(0).as_ints(), stride = c.attr(1).as_ints();
    int64_t offset = c.attr(2).none() ? self.offset() : c.attr(2).as_int();
    WEFT_EXPECT(size.size() == stride.size(), Runtime, c.name(), "as many strides as sizes",
                text(to_string(size), " and ", to_string(stride)));
    WEFT_EXPECT(offset >= 0 && offset < int64_t{1} << 56, Runtime, c.name(),
                "a storage_offset of at least 0 and below 2**56", std::to_string(offset));
    int64_t last = offset;
    bool empty = false, overflow = false;
    for (size_t d = 0; d < size.size(); ++d) {
        WEFT_EXPECT(stride[d] >= 0, Runtime, c.name(), "strides of at least 0", to_string(stride));
        empty |= size[d] == 0;
        int64_t step;
        overflow |= __builtin_mul_overflow(size[d] - 1, stride[d], &step) ||
                    __builtin_add_overflow(last, step, &last);
    }
    int64_t bytes;
    overflow |= __builtin_add_overflow(last, 1, &bytes) ||
                __builtin_mul_overflow(bytes, item_size(self.dtype()), &bytes);
    WEFT_EXPECT(empty || !overflow, Runtime, c.name(), "a layout of less than 2**63 bytes",
                text("sizes ", to_string(size), ", strides ", to_string(stride)));
    WEFT_EXPECT(empty || self.has(kMeta) || bytes <= self.storage()->bytes, Runtime, c.name(),
                "a layout inside the storage",
                text("another (setStorage: sizes ", to_string(size), ", strides ",
                     to_string(stride), ", storage offset ", offset, ", and itemsize ",
                     item_size(self.dtype()), " requiring a storage size of ", bytes,
                     " are out of bounds for storage of size ", self.storage()->bytes, ")"));
    add_view(c, size, stride, offset - self.offset());
}

void unfold_shape(Call& c) {
    const Tensor& self = c.in[0];
    int dim = wrap_dim(c.name(), c.attr(0).as_int(), self.ndim());
    int64_t width = c.attr(1).as_int(), step = c.attr(2).as_int();
    int64_t length = self.ndim() ? self.size(dim) : 1, stride = self.ndim() ? self.stride(dim) : 1;
    WEFT_EXPECT(width >= 0 && width <= length, Runtime, c.name(), "a size that fits",
                text(width, " (maximum size for tensor at dimension ", dim, " is ", length,
                     " but size is ", width, ")"));
    WEFT_EXPECT(step > 0, Runtime, c.name(), "a step above 0", std::to_string(step));
    Dims shape(self.shape()), strides(self.strides());
    if (self.ndim()) {
        shape[dim] = (length - width) / step + 1;
        strides[dim] = stepped_stride(stride, step, shape[dim]);
    }
    shape.push_back(width);
    strides.push_back(stride);
    add_view(c, shape, strides);
}

/// Where elements lie: sizes, then strides, then the offset. (The attribute of
/// as_strided_backward.)
Dims geometry(DimSpan size, DimSpan stride, int64_t offset) {
    Dims out(size);
    for (int64_t s : stride) out.push_back(s);
    out.push_back(offset);
    return out;
}

Tensor as_strided_gradient(const Grad& g) {
    Dims in = g.in_shape(0), layout = g.in_layout(0);
    if (g.grad().numel() == 0) return zeros(in, g.grad().dtype());
    int64_t from = layout.back();
    layout.pop_back();
    int64_t to = g.attr(2).none() ? from : g.attr(2).as_int();
    return as_strided_backward(g.grad(), geometry(g.attr(0).as_ints(), g.attr(1).as_ints(), to),
                               geometry(in, layout, from), false);
}

Tensor unfold_gradient(const Grad& g) {
    Dims in = g.in_shape(0), strides = contiguous_strides(in), from = strides;
    int dim = wrap_dim("unfold", g.attr(0).as_int(), in.size());
    from.push_back(in.empty() ? 1 : strides[dim]);
    if (!in.empty()) from[dim] *= g.attr(2).as_int();
    return as_strided_backward(g.grad(), geometry(g.out_shape(0), from, 0),
                               geometry(in, strides, 0), false);
}

// ---- the gradient ------------------------------------------------------------------------------

/// Sizes, strides and offset out of one attribute.
struct StridedGeometry {
    explicit StridedGeometry(DimSpan packed) {
        size_t n = packed.size() / 2;
        size = packed.first(n);
        stride = packed.subspan(n, n);
        offset = packed[2 * n];
        for (size_t d = 0; d < n; ++d) {
            empty |= size[d] == 0;
            last += (size[d] - 1) * stride[d];
        }
        last += offset;
    }
    bool inside(const StridedGeometry& other) const {
        return offset >= other.offset && last <= other.last;
    }
    bool dense() const { return is_contiguous(size, stride); }
    /// Whether two elements may share a place.
    bool overlaps() const {
        Dims order(static_cast<int>(size.size()));
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(),
                  [&](int64_t a, int64_t b) { return stride[a] < stride[b]; });
        int64_t reach = 0;
        for (int64_t d : order) {
            if (size[d] == 1) continue;
            if (stride[d] <= reach) return true;
            reach += (size[d] - 1) * stride[d];
        }
        return false;
    }

    DimSpan size, stride;
    int64_t offset = 0, last = 0;
    bool empty = false;
};

void accumulate(const Tensor& memory, const StridedGeometry& at, const Tensor& values) {
    Tensor from = as_contiguous(values);
    dispatch_computed(memory.dtype(), "as_strided", [&]<class T>() {
        kernels::add_strided(memory.data<T>(), at.size, at.stride, from.data<T>());
    });
}

void divide(const Tensor& memory, const Tensor& counts) {
    DType wide = widened(memory.dtype());
    Tensor sums = as_contiguous(memory, wide), by = as_contiguous(counts, wide);
    dispatch<WithComplex<NumberTypes>>(wide, "as_strided", [&]<class T>() {
        T *x = sums.data<T>(), *n = by.data<T>();
        for (int64_t i = 0; i < memory.numel(); ++i)
            if (n[i] != T(0) && n[i] != T(1)) x[i] /= n[i];
    });
    if (!sums.same(memory)) copy_into(memory, sums);
}

/// Note [Through memory]
/// as_strided reads memory that its input wrote. Backwards the gradient is added into that memory
/// under the layout of the view (source) and read under the layout of the input (target). Where
/// elements of the input share a place, each gets its part. The transpose of this map is the same
/// with source and target exchanged, hence `shared_source`: whose sharing counts.
void through_memory(const Tensor& out, const Tensor& values, const StridedGeometry& source,
                    const StridedGeometry& target, bool shared_source) {
    const StridedGeometry& shared = shared_source ? source : target;
    bool divided = shared.overlaps();
    if (!divided && source.dense() && target.inside(source))
        return copy_into(out, as_contiguous(values).view_as(target.size, target.stride,
                                                            target.offset - source.offset));
    bool direct = !divided && target.dense() && source.inside(target);
    int64_t first = direct ? target.offset : std::min(source.offset, target.offset);
    Tensor memory = out;
    if (!direct)
        memory = Tensor::empty(out.dtype(), Dims{std::max(source.last, target.last) + 1 - first});
    std::memset(memory.bytes(), 0, memory.numel() * item_size(memory.dtype()));
    Tensor written = memory.view_as(source.size, source.stride, source.offset - first);
    if (source.overlaps()) accumulate(written, source, values);
    else copy_into(written, values);
    if (direct) return;
    if (divided) {
        Tensor counts = zeros(memory.shape(), memory.dtype()),
               one = Tensor::scalar(1, memory.dtype());
        accumulate(counts.view_as(shared.size, shared.stride, shared.offset - first), shared,
                   one.view_as(shared.size, Dims(static_cast<int>(shared.size.size()))));
        divide(memory, counts);
    }
    copy_into(out, memory.view_as(target.size, target.stride, target.offset - first));
}

void as_strided_backward_shape(Call& c) {
    const StridedGeometry source(c.attr(0).as_ints());
    WEFT_EXPECT(equal(c.in[0].shape(), source.size), Runtime, c.name(),
                text("a gradient of the source's shape ", to_string(source.size)),
                to_string(c.in[0].shape()));
    c.add(Tensor::layout(c.in[0].dtype(), StridedGeometry(c.attr(1).as_ints()).size));
}

void as_strided_backward_kernel(Call& c) {
    StridedGeometry source(c.attr(0).as_ints()), target(c.attr(1).as_ints());
    if (target.empty) return;
    if (source.empty) {
        std::memset(c.out(0).bytes(), 0, c.out(0).numel() * item_size(c.out(0).dtype()));
        return;
    }
    through_memory(c.out(0), c.in[0], source, target, c.attr(2).as_bool());
}

}  // namespace

void register_strided(Table& t) {
    view_op(t, "unfold(Tensor self, int dimension, int size, int step) -> Tensor", unfold_shape,
            unfold_gradient)
        .batch(batch_along<0>)
        .doc("Windows of `size` positions, `step` apart, along `dimension`; they are the last "
             "dimension.\n\n"
             ">>> weft.arange(4).unfold(0, 2, 1).tolist()\n[[0, 1], [1, 2], [2, 3]]")
        .method_only()
        .samples({"f(T(5), 0, 2, 1)", "f(T(2, 6), -1, 3, 2)", "f(T(5, 2), 0, 5, 1)"});
    view_op(t,
            "as_strided(Tensor self, int[] size, int[] stride, int? storage_offset=None) -> Tensor",
            as_strided_shape, as_strided_gradient)
        .batch(Batch::None)
        .reads_place(save_in(0))
        .doc("Any layout over the tensor's storage; the offset counts from the storage's start.\n"
             "A view of shape `size`.\n"
             ">>> weft.arange(4).as_strided((2, 2), (1, 1)).tolist()\n"
             "[[0, 1], [1, 2]]")
        .keep_shapes()
        .samples({"f(T(6), (2, 3), (3, 1))", "f(T(4), (3, 2), (1, 1))", "f(T(6), (2,), (2,), 1)"});
    view_op(t,
            "_one_of_several(Tensor self, int[] size, int[] stride, int? storage_offset=None) "
            "-> Tensor[]",
            as_strided_shape, as_strided_gradient)
        .batch(Batch::None)
        .reads_place(save_in(0))
        .doc("as_strided, as one of several views that one call made: which may not be written.")
        .keep_shapes()
        .internal()
        .node_name("AsStridedBackward0")
        .samples({"f(T(6), (2, 3), (3, 1))", "f(T(6), (2,), (2,), 1)"});
    t.add("as_strided_backward(Tensor grad, int[] source, int[] target, bool shared_source=False) "
          "-> Tensor")
        .doc("grad added into memory under one layout (sizes, strides, offset) and read under "
             "another: "
             "the gradient of as_strided and unfold.")
        .shape(as_strided_backward_shape)
        .kernel(as_strided_backward_kernel)
        .every_dtype()
        .internal()
        .node_name("AsStridedBackwardBackward0")
        .grad(0, 0,
              [](const Grad& g) {
                  return as_strided_backward(g.grad(), g.attr(1), g.attr(0), !g.attr(2).as_bool());
              })
        .samples({"f(T(3, 2), (3, 2, 1, 1, 0), (4, 1, 0))"});
}

}  // namespace weft
