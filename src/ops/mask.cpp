/// Reading and writing where a mask is true.
#include <bit>

#include "base/lock.h"
#include "ops/batch.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/indexing.h"
#include "ops/pointwise.h"
#include "ops/shape.h"

namespace weft {
namespace {

using namespace ops;

const Function masked_select_op{"masked_select"}, masked_scatter_op{"masked_scatter"};

void require_mask(const Call& c, const Tensor& mask) {
    WEFT_EXPECT(
        mask.dtype() == DType::Bool, Runtime, c.name(), "bools",
        text(name(mask.dtype()),
             c.op->name == "masked_select"
                 ? " (masked_select: expected BoolTensor for mask)"
                 : text(" (", c.op->name, "_ only supports boolean masks, but got mask with dtype ",
                        name(mask.dtype()), ")")));
}

/// dispatch's argument as a bool read by the kernels.
const bool* flags(const Tensor& mask) { return mask.data<bool>(); }

// ---- masked_fill -------------------------------------------------------------------------------

/// A choice by bits, so that no branch waits on the mask.
template <class U>
struct FillWhere {
    U value;
    WEFT_INLINE U operator()(U x, bool masked) const {
        if constexpr (std::is_same_v<U, Bits128>) {
            uint64_t mask = -static_cast<uint64_t>(masked);
            return {(value.low & mask) | (x.low & ~mask), (value.high & mask) | (x.high & ~mask)};
        } else {
            U mask = static_cast<U>(-static_cast<U>(masked));
            return static_cast<U>((value & mask) | (x & static_cast<U>(~mask)));
        }
    }
};

void masked_fill_shape(Call& c) {
    require_mask(c, c.in[1]);
    WEFT_EXPECT(c.in[2].ndim() == 0, Runtime, c.name(), "a number",
                text("a tensor (masked_fill_ only supports a 0-dimensional value tensor, but got "
                     "tensor with ",
                     c.in[2].ndim(), " dimension(s).)"));
    pointwise_layout(c, c.in[0].dtype());
}

void masked_fill_kernel(Call& c) {
    const Tensor& out = c.out(0);
    if (c.in[2].has(kWrapped) || is_complex(c.in[2].dtype()))
        require_fits(c.name(), c.in[2], out.dtype());
    Tensor value = as_dtype(c.in[2], out.dtype());
    dispatch_size(out.dtype(), [&]<class U>() {
        FillWhere<U> f{*value.data<U>()};
        run_map_of(c, kernels::map_loop<FillWhere<U>, U, U, bool>(), f, c.in, 2);
    });
}

Tensor number_zero(const Grad& g) { return number(0, g.grad().dtype()); }

// ---- masked_select and masked_scatter ----------------------------------------------------------

/// The mask broadcast against self, dense.
Tensor whole_mask(const Call& c, const Tensor& self, const Tensor& mask) {
    return spread(mask, broadcast(c.name(), self.shape(), mask.shape()), DType::Bool);
}

/// The size of the result depends on the mask's values.
void masked_select_shape(Call& c) {
    require_mask(c, c.in[1]);
    Tensor mask = whole_mask(c, c.in[0], c.in[1]);
    c.add(Tensor::layout(c.in[0].dtype(), Dims{kernels::count_nonzero(flags(mask), mask.numel())}));
}

void masked_select_kernel(Call& c) {
    Tensor mask = whole_mask(c, c.in[0], c.in[1]),
           self = spread(c.in[0], mask.shape(), c.in[0].dtype());
    Unlocked unlocked(mask.numel());
    kernels::masked_take(c.out(0).bytes(), self.bytes(), flags(mask), mask.numel(),
                         c.out(0).numel(), item_size(self.dtype()));
}

Tensor masked_select_gradient(const Grad& g) {
    Tensor mask = g.in(1);
    Dims shape = broadcast("masked_select", g.in_shape(0), mask.shape());
    return masked_scatter_op(zeros(shape, g.grad().dtype()), mask, g.grad());
}

/// Reads the mask to see that source suffices.
void masked_scatter_shape(Call& c) {
    const Tensor &self = c.in[0], &source = c.in[2];
    require_mask(c, c.in[1]);
    WEFT_EXPECT(source.dtype() == self.dtype(), Runtime, c.name(),
                text("a source of self's dtype ", name(self.dtype())), name(source.dtype()));
    Tensor mask = whole_mask(c, self, c.in[1]);
    int64_t ones = kernels::count_nonzero(flags(mask), mask.numel());
    WEFT_EXPECT(source.numel() >= ones, Runtime, c.name(),
                text("a source of at least ", ones, " elements"),
                text(source.numel(), " (Number of elements of source < number of ones in mask)"));
    c.add(Tensor::layout(self.dtype(), mask.shape()));
}

void masked_scatter_kernel(Call& c) {
    const Tensor& out = c.out(0);
    Tensor mask = whole_mask(c, c.in[0], c.in[1]), source = as_contiguous(c.in[2]);
    copy_into(out, c.in[0]);
    kernels::masked_put(out.bytes(), source.bytes(), flags(mask), mask.numel(),
                        item_size(out.dtype()));
}

/// The masked elements of the gradient, with zeros for what source had left over.
Tensor masked_scatter_source(const Grad& g) {
    Tensor taken = masked_select_op(g.grad(), g.in(1));
    Dims shape = g.in_shape(2);
    int64_t missing = -taken.numel();
    int64_t all = 1;
    for (int64_t s : shape) all *= s;
    missing += all;
    if (missing) taken = cat.over({taken, zeros(Dims{missing}, taken.dtype())});
    return reshape(taken, shape);
}

// ---- nonzero -----------------------------------------------------------------------------------

/// The number of rows depends on the values. The coordinates along each dimension lie densely.
void nonzero_shape(Call& c) {
    Tensor set = as_contiguous(c.in[0], DType::Bool);
    int64_t count = kernels::count_nonzero(flags(set), set.numel());
    c.add(Tensor::layout(DType::Int64, Dims{count, set.ndim()}, Dims{1, count}));
}

void nonzero_kernel(Call& c) {
    Tensor set = as_contiguous(c.in[0], DType::Bool);
    kernels::nonzero(flags(set), set.shape(), c.out(0).data<int64_t>(), c.out(0).size(0));
}

}  // namespace

void register_mask(Table& t) {
    t.add("masked_fill(Tensor self, Tensor mask, Tensor value) -> Tensor")
        .doc("self with a number or 0-d tensor where mask, broadcast, is true.\n\n"
             ">>> weft.zeros(2).masked_fill(weft.tensor([True, False]), 1)\ntensor([1., 0.])")
        .shape(masked_fill_shape)
        .kernel(masked_fill_kernel)
        .reads_numbers(save_in(2))
        .every_dtype()
        .batch([](const BatchCall& c, BatchForm& form) {  // the value stays 0-d
            bool one = c.in(2).has(kWrapped) || (c.fixed(2) && !(c.fixed(0) && c.fixed(1)));
            return one && batch_pointwise(c, form);
        })
        .pointwise()
        .strided_output()
        .inplace()
        .may_overlap(save_in(2))
        .node_name([](const Call& c) {
            return c.in[2].has(kWrapped) ? "MaskedFillBackward0" : "MaskedFillBackward1";
        })
        .numbers_apart(save_in(2))
        .grad(0, save_in(1),
              [](const Grad& g) { return masked_fill(g.grad(), g.in(1), number_zero(g)); })
        .grad(2, save_in(1), [](const Grad& g) { return g.grad() * g.in(1); })
        .onnx("Where(mask, cast(value, result.dtype), cast(self, result.dtype))")
        .samples({"f(T(2, 3), B(2, 3), 1.5)", "f(T(2, 3), B(3), T())", "f(T(2, 1), B(2, 3), 0)",
                  "f(T(0, 3), B(3), 1)"});
    t.add("masked_select(Tensor self, Tensor mask) -> Tensor")
        .doc("The elements where mask is true, in one dimension; both broadcast.\n\n"
             ">>> weft.arange(3).masked_select(weft.tensor([True, False, True]))\ntensor([0, 2])")
        .shape_of_values<masked_select_shape>(save_in(1))
        .kernel(masked_select_kernel)
        .every_dtype()
        .grad(0, save_in(1), masked_select_gradient)
        .samples(
            {"f(T(2, 3), B(2, 3))", "f(T(2, 3), B(3))", "f(T(3), B(2, 3))", "f(T(0, 3), B(3))"});
    t.add("masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor")
        .doc("self with source's elements, in order, where mask is true.\n\n"
             ">>> weft.zeros(3).masked_scatter(weft.tensor([True, False, True]), weft.tensor([1., "
             "2.]))\n"
             "tensor([1., 0., 2.])")
        .shape_of_values<masked_scatter_shape>(save_in(1))
        .kernel(masked_scatter_kernel)
        .every_dtype()
        .inplace()
        .grad(0, save_in(1),
              [](const Grad& g) { return masked_fill(g.grad(), g.in(1), number_zero(g)); })
        .grad(2, save_in(1), masked_scatter_source)
        .samples({"f(T(2, 3), B(2, 3), T(8))", "f(T(2, 3), B(3), T(2, 3))"});
    t.add("nonzero(Tensor self) -> Tensor")
        .doc("Coordinates of the elements that are not zero, [n, ndim] int64.\n\n"
             ">>> weft.tensor([0, 3, 4]).nonzero().tolist()\n[[1], [2]]")
        .shape_of_values<nonzero_shape>(save_in(0))
        .kernel(nonzero_kernel)
        .every_dtype()
        .samples({"f(I(3, 4))", "f(B(5))", "f(I(0, 3))"});
    t.add("argwhere(Tensor self) -> Tensor")
        .shape_of_values<nonzero_shape>(save_in(0))
        .kernel(nonzero_kernel)
        .every_dtype()
        .doc("nonzero().\n"
             "[k, d] of int64: a row for each of k true elements of a tensor with d dims.\n"
             ">>> weft.argwhere(weft.tensor([[0, 1], [1, 0]]))\n"
             "tensor([[0, 1],\n"
             "        [1, 0]])")
        .samples({"f(I(3, 4))"});
}

}  // namespace weft
