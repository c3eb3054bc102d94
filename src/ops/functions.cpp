#include "ops/functions.h"

#include "kernels/chain.h"
#include "kernels/convert.h"
#include "kernels/map.h"
#include "ops/pointwise.h"
#include "ops/write.h"

namespace weft::ops {

Tensor Function::run(const Tensor* in, int inputs) const {
    const Op& o = op();
    Call c(o, in, inputs, o.defaults.data());
    call(c);
    return std::move(c.out(0));
}

Tensor Function::run(const Tensor* in, int inputs, const Value* attrs, int given) const {
    const Op& o = op();
    std::vector<Value> all;
    if (given < static_cast<int>(o.defaults.size())) {
        all.assign(attrs, attrs + given);
        all.insert(all.end(), o.defaults.begin() + given, o.defaults.end());
        attrs = all.data();
    }
    Call c(o, in, inputs, attrs);
    call(c);
    return std::move(c.out(0));
}

std::vector<Tensor> Function::all(std::initializer_list<Tensor> in,
                                  std::initializer_list<Value> attrs) const {
    std::vector<Value> values(attrs);
    values.insert(values.end(), op().defaults.begin() + attrs.size(), op().defaults.end());
    Call c(op(), in.begin(), static_cast<int>(in.size()), values.data());
    call(c);
    std::vector<Tensor> out;
    for (int k = 0; k < c.outputs; ++k) out.push_back(std::move(c.out(k)));
    return out;
}

Tensor Function::over(const std::vector<Tensor>& in, std::initializer_list<Value> attrs) const {
    return run(in.data(), static_cast<int>(in.size()), attrs.begin(),
               static_cast<int>(attrs.size()));
}

Tensor number(double value, DType like) {
    return Tensor::scalar(value, is_floating(like) ? widened(like) : DType::Float64, true);
}

Tensor zeros(DimSpan shape, DType dtype) {
    Tensor out = Tensor::layout(dtype, shape);
    if (mode & kMetaMode) [[unlikely]] {
        out.allocate_meta();
        return out;
    }
    out.allocate();
    std::memset(out.bytes(), 0, out.numel() * item_size(dtype));
    return out;
}

Tensor full_like(const Tensor& like, double value) {
    Tensor out = Tensor::layout(like.dtype(), like.shape());
    if (like.has(kMeta) || ((mode & kMetaMode) && !like.storage())) [[unlikely]] {
        out.allocate_meta();
        return out;
    }
    out.allocate();
    dispatch_each(like.dtype(), [&]<class T>() {
        std::fill_n(out.data<T>(), out.numel(), kernels::convert<T>(value));
    });
    return out;
}

namespace {

/// The loop of an addition to `sum`, if one over two ranges of memory is all there is to it and nobody hears of it.
kernels::MapLoop loop_of_sum(const Tensor& sum, const Tensor& t) {
    constexpr uint32_t kHeard =
        kGradMode | kDeferMode | kAutocastMode | kMapMode | kWatchMode | kTraceMode;
    if (mode & kHeard || sum.dtype() != t.dtype() || sum.has(kPending) || t.has(kPending) ||
        !sum.contiguous() || !t.contiguous() || !equal(sum.shape(), t.shape()))
        return nullptr;
    const int64_t bytes = sum.byte_count();
    if (sum.bytes() < t.bytes() + bytes && t.bytes() < sum.bytes() + bytes) return nullptr;
    if (sum.dtype() == DType::Float32)
        return kernels::map_loop<kernels::Add, float, float, float>();
    if (sum.dtype() == DType::Float64)
        return kernels::map_loop<kernels::Add, double, double, double>();
    return nullptr;
}

}  // namespace

void add_into(const Tensor& sum, const Tensor& t) {
    if (const kernels::MapLoop loop = loop_of_sum(sum, t)) {
        Write write(sum);
        const Tensor in[] = {sum, t};
        const kernels::Add f;
        run_map(loop, &f, sum, in, 2);
        return write.commit();
    }
    const Op& op = add.op();
    Tensor in[] = {sum, t};
    Call c(op, in, 2, op.defaults.data());
    c.dest = sum;
    c.in_place = true;
    call(c);
}

Tensor sum_to(const Tensor& t, DimSpan shape) {
    if (equal(t.shape(), shape)) return t;
    if (shape.size() == 0) return sum(t);
    Dims dims;
    int lead = t.ndim() - static_cast<int>(shape.size());
    for (int d = 0; d < t.ndim(); ++d)
        if (d < lead || (shape[d - lead] == 1 && t.size(d) != 1)) dims.push_back(d);
    Tensor out = dims.empty() ? t : sum_dim(t, dims, true);
    return equal(out.shape(), shape) ? out : view(out, Dims(shape));
}

}  // namespace weft::ops
