/// What the losses share: the `reduction` argument, and running a function of N operands with or
/// without the sum over its values.
#pragma once
#include "kernels/loss.h"
#include "ops/axes.h"
#include "ops/pointwise.h"

namespace weft::ops {

enum class Reduction : uint8_t { None, Mean, Sum };

/// Throws Value for anything but "none", "mean" and "sum".
Reduction reduction_of(std::string_view who, const Value& v);
/// `t` reduced, for composites.
Tensor reduced(const Tensor& t, Reduction how);

/// Operands of one loop: contiguous, of one dtype, of the result's shape or one element.
template <int N>
struct LossOperands {
    Tensor t[N];
    char* p[N + 1] = {};
    int64_t strides[N + 1];
    int64_t n;

    LossOperands(const Tensor* in, DimSpan shape, DType dtype) : n(count_elements("loss", shape)) {
        strides[0] = item_size(dtype);
        for (int k = 0; k < N; ++k) {
            t[k] = fitted(in[k], shape, dtype);
            p[k + 1] = t[k].bytes();
            strides[k + 1] = t[k].numel() == 1 ? 0 : item_size(dtype);
        }
    }

private:
    static Tensor fitted(const Tensor& in, DimSpan shape, DType dtype) {
        if (in.numel() == 1 || equal(in.shape(), shape)) return as_contiguous(in, dtype);
        Tensor full = Tensor::empty(dtype, shape);
        copy_into(full, in);
        return full;
    }
};

/// The indices are dropped: N operands of type T.
template <class F, class T, int N>
kernels::MapLoop loop_over() {
    return []<size_t... I>(std::index_sequence<I...>) {
        return kernels::map_loop<F, T, std::enable_if_t<(I >= 0), T>...>();
    }(std::make_index_sequence<N>{});
}

/// c.out(0) = f(in...), or its sum or mean, as the first attribute says.
template <int N, class T, class F>
void run_forward(Call& c, const F& f, const Tensor* in, DimSpan shape) {
    const Tensor& out = c.out(0);
    LossOperands<N> operands(in, shape, out.dtype());
    Reduction how = reduction_of(c.name(), c.attr(0));
    auto loop = loop_over<F, T, N>();
    Unlocked unlocked(operands.n);
    if (how == Reduction::None) {
        operands.p[0] = out.bytes();
        return kernels::map_flat(loop, &f, operands.p, operands.strides, N + 1, operands.n);
    }
    double total = kernels::map_sum<T>(loop, &f, operands.p, operands.strides, N + 1, operands.n);
    if (how == Reduction::Mean) total /= static_cast<double>(operands.n);
    *out.data<T>() = static_cast<T>(total);
}

/// How a functor around another is compiled: as that is (kernels/map.h).
template <class F>
constexpr int one_loop_of = 0;
template <kernels::detail::OneLoop F>
constexpr int one_loop_of<F> = F::one_loop;

template <class F>
struct TimesGrad {
    static constexpr int one_loop = one_loop_of<F>;
    F f;
    template <class T, class... Rest>
    WEFT_INLINE T operator()(T g, Rest... rest) const {
        return g * f(rest...);
    }
};
template <class F, class S>
struct Scaled {
    static constexpr int one_loop = one_loop_of<F>;
    F f;
    S scale;
    template <class T, class... Rest>
    WEFT_INLINE T operator()(T x, Rest... rest) const {
        return static_cast<T>(scale) * f(x, rest...);
    }
};

/// c.out(0) = in[0] * f(in[1], ...) * scale: a backward, whose gradient in[0] is a number or full.
template <int N, class T, class F>
void run_backward(Call& c, const F& f, const Tensor* in, double scale) {
    const Tensor& out = c.out(0);
    if (in[0].numel() == 1) {
        Scaled<F, double> scaled{f, scale * in[0].item_double()};
        LossOperands<N - 1> operands(in + 1, out.shape(), out.dtype());
        operands.p[0] = out.bytes();
        Unlocked unlocked(operands.n);
        return kernels::map_flat(loop_over<decltype(scaled), T, N - 1>(), &scaled, operands.p,
                                 operands.strides, N, operands.n);
    }
    TimesGrad<Scaled<F, double>> product{{f, scale}};
    LossOperands<N> operands(in, out.shape(), out.dtype());
    operands.p[0] = out.bytes();
    Unlocked unlocked(operands.n);
    kernels::map_flat(loop_over<decltype(product), T, N>(), &product, operands.p, operands.strides,
                      N + 1, operands.n);
}

/// The shape of a loss before reduction. Throws Runtime if the two do not broadcast.
inline Dims joint_shape(std::string_view who, const Tensor& x, const Tensor& t) {
    return equal(x.shape(), t.shape()) ? Dims(x.shape()) : broadcast(who, x.shape(), t.shape());
}
/// The promoted dtype. Throws NotImplemented if it is not floating.
DType loss_dtype(std::string_view who, const Tensor* in, int count);
/// Lays out the result by the first attribute, the reduction.
void add_loss(Call& c, DType dtype, DimSpan shape);
/// What the gradient of each of the elements of `shape` is multiplied by.
double scale_of(const Value& reduction, DimSpan shape);

}  // namespace weft::ops
