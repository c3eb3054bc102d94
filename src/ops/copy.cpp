#include "ops/copy.h"

#include <cmath>
#include <cstring>

#include "base/lock.h"
#include "kernels/copy.h"
#include "ops/pointwise.h"

namespace weft::ops {
namespace {

template <class To>
struct Cast {
    template <class From>
    WEFT_INLINE To operator()(From x) const {
        if constexpr (std::is_same_v<To, bool>)
            return x != From{0};
        else
            return static_cast<To>(x);
    }
};

kernels::MapLoop cast_loop(DType to, DType from) {
    return dispatch<AllTypes>(to, "copy", [&]<class To>() {
        return dispatch<AllTypes>(from, "copy", [&]<class From>() {
            return kernels::map_loop<Cast<To>, To, From>();
        });
    });
}

/// Elements of one dtype, whatever the layouts.
void copy_same(const Tensor& dest, const Tensor& source) {
    Dims strides(dest.ndim());
    int lead = dest.ndim() - source.ndim();
    for (int d = lead; d < dest.ndim(); ++d)
        strides[d] = source.size(d - lead) == 1 ? 0 : source.stride(d - lead);
    Unlocked unlocked(dest.numel());
    kernels::copy_strided(dest.bytes(), source.bytes(), item_size(dest.dtype()), dest.shape(),
                          dest.strides(), strides);
}

}  // namespace

void copy_into(const Tensor& dest, const Tensor& source) {
    if (dest.numel() == 0) return;
    if (dest.contiguous() && source.contiguous() && dest.dtype() == source.dtype() &&
        dest.numel() == source.numel() && !dest.may_overlap(source)) {
        if (dest.numel() * item_size(dest.dtype()) < 65536) {
            std::memcpy(dest.bytes(), source.bytes(), dest.numel() * item_size(dest.dtype()));
            return;
        }
    }
    Tensor from = source;
    if (dest.may_overlap(source)) {
        from = Tensor::empty(source.dtype(), source.shape());
        copy_into(from, source);
    }
    if (dest.dtype() == from.dtype()) return copy_same(dest, from);
    char none = 0;
    run_map(cast_loop(dest.dtype(), from.dtype()), &none, dest, &from, 1);
}

Tensor as_dtype(const Tensor& t, DType dtype) {
    Tensor out = is_dense(t.shape(), t.strides()) ? Tensor::layout(dtype, t.shape(), t.strides())
                                                  : Tensor::layout(dtype, t.shape());
    out.allocate();
    copy_into(out, t);
    if (t.has(kWrapped)) out.set(kWrapped);
    return out;
}

Tensor as_contiguous(const Tensor& t, DType dtype) {
    if (t.contiguous() && t.dtype() == dtype) return t;
    Tensor out = Tensor::empty(dtype, t.shape());
    copy_into(out, t);
    return out;
}

}  // namespace weft::ops
