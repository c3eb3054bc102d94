#include "ops/pointwise.h"

#include <algorithm>
#include <cstring>

#include "base/lock.h"
#include "base/parallel.h"
#include "kernels/stream.h"
#include "kernels/strided.h"
#include "ops/layout.h"
#include "ops/shape.h"

namespace weft::ops {
namespace {

struct Typed {
    DType type = DType::Bool;
    bool any = false;
    void join(DType t) {
        type = any ? promote(type, t) : t;
        any = true;
    }
};

Typed combine(Typed high, Typed low) {
    if (!high.any) return low;
    if (!low.any || category(low.type) <= category(high.type)) return high;
    if (!is_floating(high.type)) return low;
    return {promote(high.type, complex_dtype(high.type)), true};
}

template <int N>
void run_strided(kernels::MapLoop loop, const void* f, const Tensor& out, const Tensor* in) {
    char* base[N];
    base[0] = out.bytes();
    for (int k = 1; k < N; ++k) base[k] = in[k - 1].bytes();
    auto stride_of = [&](int k, int d) -> int64_t {
        const Tensor& t = k == 0 ? out : in[k - 1];
        int axis = d - (out.ndim() - t.ndim());
        if (axis < 0 || t.size(axis) == 1) return 0;
        return t.stride(axis) * item_size(t.dtype());
    };
    kernels::StridedPlan<N> plan(out.shape(), stride_of);
    Unlocked unlocked(plan.count);
    parallel_for(plan.count, kPointwiseGrain, [&](int64_t begin, int64_t end) {
        plan.run(base, begin, end,
                 [&](char* const* p, const int64_t* s, int64_t n) { loop(f, p, s, n); });
    });
}

}  // namespace

DType promoted(const Tensor* in, int inputs) {
    Typed dimensioned, scalars, numbers;
    for (int i = 0; i < inputs; ++i) {
        const Tensor& t = in[i];
        if (!t.defined()) continue;
        if (t.has(kWrapped))
            numbers.join(is_floating(t.dtype())  ? default_dtype
                         : is_complex(t.dtype()) ? complex_dtype(default_dtype)
                                                 : t.dtype());
        else (t.ndim() ? dimensioned : scalars).join(t.dtype());
    }
    return combine(dimensioned, combine(scalars, numbers)).type;
}

namespace {

bool same_dims(const TensorImpl* a, const TensorImpl* b) {
    if (a->ndim != b->ndim) return false;
    for (int d = 0; d < a->ndim; ++d)
        if (a->dims[d] != b->dims[d]) return false;
    return true;
}

/// Whether all inputs have the first one's sizes.
bool alike(const Call& c) {
    for (int i = 1; i < c.inputs; ++i)
        if (!same_dims(c.in[0].impl(), c.in[i].impl())) return false;
    return true;
}

[[gnu::noinline]] void broadcast_layout(Call& c, DType dtype) {
    Dims shape(c.in[0].shape());
    for (int i = 1; i < c.inputs; ++i) shape = broadcast(c.name(), shape, c.in[i].shape());
    bool row_major = std::find(shape.begin(), shape.end(), 1) == shape.end();
    for (int i = 0; i < c.inputs; ++i) row_major &= c.in[i].contiguous();
    if (row_major) return c.add(Tensor::layout(dtype, shape));  // as the general case says
    c.add(Tensor::layout(dtype, shape, strides_in_order(shape, c.in, c.inputs)));
}

/// The first one's if it is dense; where elements repeat, others may tell more of the order.
Tensor layout_of_alike(const Call& c, DType dtype) {
    const Tensor& first = c.in[0];
    if (c.inputs == 1 || is_dense(first.shape(), first.strides()))
        return preserved_layout(first, dtype);
    return Tensor::layout(dtype, first.shape(), strides_in_order(first.shape(), c.in, c.inputs));
}

}  // namespace

void pointwise_layout(Call& c, DType dtype) {
    const Tensor& first = c.in[0];
    const Tensor& last = c.in[c.inputs - 1];
    if (alike(c)) [[likely]] {
        if (!first.contiguous()) c.add(layout_of_alike(c, dtype));
        else c.add(Tensor::layout_like(first, dtype));
    } else if (c.inputs == 2 && last.ndim() == 0 && first.contiguous()) {
        // a number or a 0-d operand leaves the layout to the other one
        c.add(Tensor::layout_like(first, dtype));
    } else if (c.inputs == 2 && first.ndim() == 0 && last.contiguous()) {
        c.add(Tensor::layout_like(last, dtype));
    } else {
        broadcast_layout(c, dtype);
    }
}

void run_map(kernels::MapLoop loop, const void* f, const Tensor& out, const Tensor* in,
             int inputs) {
    int64_t n = out.numel();
    bool flat = out.contiguous();
    char* p[4] = {out.bytes()};
    int64_t s[4] = {item_size(out.dtype())};
    for (int i = 0; i < inputs; ++i) {
        p[i + 1] = in[i].bytes();
        s[i + 1] = in[i].numel() == 1 ? 0 : item_size(in[i].dtype());
        flat &= in[i].numel() == 1 || (in[i].contiguous() && in[i].numel() == n);
    }
    if (flat) [[likely]] {
        if (n <= kPointwiseGrain) {
            loop(f, p, s, n);
            return;
        }
        int64_t bytes = 0;
        for (int k = 0; k <= inputs; ++k) bytes += n * s[k];
        const bool stream = bytes >= kernels::stream_bytes();
        Unlocked unlocked(n);
        parallel_for(n, kPointwiseGrain, [&](int64_t begin, int64_t end) {
            char* at[4];
            for (int k = 0; k <= inputs; ++k) at[k] = p[k] + begin * s[k];
            if (!stream) return loop(f, at, s, end - begin);
            kernels::stream_map(loop, f, at, s, inputs + 1, s[0], end - begin);
        });
        return;
    }
    if (n == 0) return;
    switch (inputs) {
        case 1:
            return run_strided<2>(loop, f, out, in);
        case 2:
            return run_strided<3>(loop, f, out, in);
        default:
            return run_strided<4>(loop, f, out, in);
    }
}

namespace {

/// The common case of run_map: dense operands of the loop's dtype, not worth a second thread.
template <int N>
bool run_small_map(DType dtype, kernels::MapLoop loop, const void* f, const Call& c) {
    const TensorImpl& out = *c.out(0).impl();
    if (!(out.flags & kContiguous) || out.numel > kPointwiseGrain) return false;
    char* p[N + 1] = {out.data};
    int64_t s[N + 1] = {item_size(out.dtype)};
    const int64_t step = item_size(dtype);
#pragma GCC unroll 3
    for (int i = 0; i < N; ++i) {
        const TensorImpl& in = *c.in[i].impl();
        bool one = in.numel == 1;
        bool dense = (in.flags & kContiguous) && in.numel == out.numel;
        if (in.dtype != dtype || !(one || dense)) return false;
        p[i + 1] = in.data;
        s[i + 1] = one ? 0 : step;
    }
    loop(f, p, s, out.numel);
    return true;
}

bool run_small_map(DType dtype, kernels::MapLoop loop, const void* f, const Call& c, int inputs) {
    switch (inputs) {
        case 1:
            return run_small_map<1>(dtype, loop, f, c);
        case 2:
            return run_small_map<2>(dtype, loop, f, c);
        default:
            return run_small_map<3>(dtype, loop, f, c);
    }
}

}  // namespace

void found_loop(Call& c, kernels::MapLoop loop, const void* f, size_t bytes, const Tensor* in,
                int inputs, const DType* to) {
    auto& found = static_cast<LoopCall&>(c);
    found.other |= found.loop != nullptr;
    if (found.other) return;
    found.loop = loop;
    found.operands = inputs;
    std::memcpy(found.functor, f, bytes);
    for (int i = 0; i < inputs; ++i) {
        found.operand[i] = in[i];
        found.to[i] = to ? *to : in[i].dtype();
    }
}

void run_map_as(DType dtype, kernels::MapLoop loop, const void* f, Call& c, LoopSize size) {
    const int inputs = size.inputs;
    if (run_small_map(dtype, loop, f, c, inputs)) return;  // never for a LoopCall
    if (c.finds_loop) [[unlikely]]
        return found_loop(c, loop, f, size.functor, c.in, inputs, &dtype);
    bool ready = true;
    for (int i = 0; i < inputs; ++i) ready &= c.in[i].dtype() == dtype;
    if (ready) return run_map(loop, f, c.out(0), c.in, inputs);
    Tensor converted[3];
    for (int i = 0; i < inputs; ++i)
        converted[i] = c.in[i].dtype() == dtype ? c.in[i] : as_dtype(c.in[i], dtype);
    run_map(loop, f, c.out(0), converted, inputs);
}

}  // namespace weft::ops
