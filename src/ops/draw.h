/// What the families of random ops share: who draws, and in which order.
///
/// Elements are drawn in memory order, as PyTorch's iterator walks its result, so that a permuted
/// tensor gets the numbers in another logical order than its contiguous copy would.
#pragma once
#include <limits>

#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/random.h"
#include "ops/shape.h"

namespace weft::ops {

/// The gradient of what no longer depends on the old values: a zero, not an absent one.
inline Tensor no_influence(const Grad& g) { return zeros(g.grad().shape(), g.grad().dtype()); }

/// Shape rule: as input 0, in its memory order.
inline void self_shape(Call& c) { c.add(preserved_layout(c.in[0], c.in[0].dtype())); }
/// The same in the dtype of an attribute.
template <int DTypeSlot>
void like_shape(Call& c) {
    c.add(preserved_layout(c.in[0], c.attr(DTypeSlot).as_dtype(c.in[0].dtype())));
}

/// Runs draw(tensor) on c.out(0), or on a dense tensor of the same order that is copied there.
template <class F>
void draw_dense(Call& c, F&& draw) {
    const Tensor& out = c.out(0);
    if (is_dense(out.shape(), out.strides())) return draw(out);
    Tensor dense = preserved_layout(out, out.dtype());
    dense.allocate();
    draw(dense);
    copy_into(out, dense);
}

/// draw(pointer, count) for a floating result. Throws NotImplemented for others.
template <class F>
void draw_real(Call& c, F&& draw) {
    WEFT_EXPECT(is_floating(c.out(0).dtype()), NotImplemented, c.name(), "a floating dtype",
                name(c.out(0).dtype()));
    draw_dense(c, [&](const Tensor& t) {
        dispatch<FloatingTypes>(t.dtype(), c.name(),
                                [&]<class T>() { draw(t.data<T>(), t.numel()); });
    });
}

/// Bits of a floating dtype's digits, for kernels::float_from and float_to.
template <class T>
inline constexpr int kDigits = std::numeric_limits<T>::digits;

/// Fills c.out(0) with integers, from <= x < to. Throws Runtime if the dtype or the bounds forbid
/// it.
void draw_between(Call& c, int64_t from, int64_t to);
/// Throws Runtime for a negative std.
void require_std(const Call& c, double std);

}  // namespace weft::ops
