/// What the families of random ops share: who draws, and in which order.
///
/// Elements are drawn in memory order, as PyTorch's iterator walks its result, so that a permuted
/// tensor gets the numbers in another logical order than its contiguous copy would.
#pragma once

#include "ops/conj.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/random.h"
#include "ops/shape.h"

namespace weft::ops {

/// The gradient of what no longer depends on the old values: a zero, not an absent one.
inline Tensor no_influence(const Grad& g) { return zeros(g.grad().shape(), g.grad().dtype()); }

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

/// Runs draw(tensor) on a dense `t`, or on one of `dtype` that is converted into it.
template <class F>
void draw_as(const Tensor& t, DType dtype, F&& draw) {
    if (t.dtype() == dtype) return draw(t);
    Tensor drawn = Tensor::empty(dtype, Dims{t.numel()});
    draw(drawn);
    copy_into(t, drawn.view_as(t.shape(), t.strides()));
}

/// draw(pointer, count) for a floating result, or with `parts` for those of a complex one. Throws NotImplemented for others.
template <class F>
void draw_real(Call& c, F&& draw, bool parts = false) {
    DType dtype = c.out(0).dtype();
    WEFT_EXPECT(is_floating(dtype) || (parts && is_complex(dtype)), NotImplemented, c.name(),
                "a floating dtype", name(dtype));
    draw_dense(c, [&](const Tensor& t) {
        if (t.dtype() == DType::Complex32) {
            Tensor parts = parts_of(t);  // of a dense tensor: dense
            return draw_as(parts.view_as(Dims{2 * t.numel()}, Dims{1}), DType::Float32,
                           [&](const Tensor& wide) { draw(wide.data<float>(), wide.numel()); });
        }
        if (is_complex(t.dtype()))
            return dispatch<FloatingTypes>(real_dtype(t.dtype()), c.name(),
                                           [&]<class T>() { draw(t.data<T>(), 2 * t.numel()); });
        draw_as(t, widened(t.dtype()), [&](const Tensor& wide) {
            dispatch<FloatingTypes>(wide.dtype(), c.name(),
                                    [&]<class T>() { draw(wide.data<T>(), wide.numel()); });
        });
    });
}

/// Digits of a floating dtype, for kernels::float_from and float_to.
inline int digits_of(DType t) {
    switch (t) {
        case DType::Float16:
            return 11;
        case DType::BFloat16:
            return 8;
        case DType::Float32:
            return 24;
        default:
            return 53;
    }
}

/// Fills c.out(0) with integers, from <= x < to. Throws Runtime if the dtype or the bounds forbid
/// it.
void draw_between(Call& c, int64_t from, int64_t to);
/// Fills c.out(0), of a floating dtype. `whole`: as a contiguous tensor is drawn.
void draw_uniform(Call& c, double from, double to);
void draw_normal(Call& c, double mean, double std, bool whole);
/// Throws Runtime for a negative std.
void require_std(const Call& c, double std);

}  // namespace weft::ops
