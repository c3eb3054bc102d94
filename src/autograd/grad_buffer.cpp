#include "autograd/grad_buffer.h"

#include <cstring>

#include "autograd/sparse.h"
#include "kernels/matmul.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/watch.h"
#include "ops/write.h"

namespace weft {
namespace {

/// Rows that are worth one GEMM; more would only hold memory.
constexpr int64_t kRows = 256;

bool may_add_in_place(const Tensor& t) {
    return !(mode & (kGradMode | kDispatchMode)) && t.impl()->refs == 1 && !t.impl()->wrapper &&
           t.storage()->refs == 1 && t.storage()->block != 0 && t.contiguous() &&
           !t.has(kTracked) && !t.has(kMeta);
}

template <class T>
void multiply_into(const Tensor& sum, bool fresh, const Tensor& a, const Tensor& b) {
    using kernels::Trans;
    const int64_t m = sum.size(0), n = sum.size(1), rows = a.size(0);
    kernels::gemm<T>(Trans::Yes, Trans::No, m, n, rows, T{1}, a.data<T>(), m, b.data<T>(), n,
                     fresh ? T{0} : T{1}, sum.data<T>(), n);
}

}  // namespace

void GradBuffer::add_to_sum(Tensor t) {
    if (sparse::is(sum_) || sparse::is(t)) [[unlikely]] {
        sum_ = sparse::host.add(sum_, t);
        return;
    }
    if (sum_.has(kPending) || t.has(kPending) || sum_.has(kDispatching) || t.has(kDispatching)) {
        sum_ = sum_ + t;
        return;
    }
    if (may_add_in_place(sum_) && sum_.dtype() == t.dtype()) {
        const ops::Write::Unwritten as_before(sum_);  // how it was summed up is nobody's business
        ops::add_into(sum_, t);
        sum_.set(kLooseView, false);  // the sum is a value of its own, whatever its memory was
        return;
    }
    if (may_add_in_place(t) && sum_.dtype() == t.dtype()) {
        std::swap(sum_, t);
        return add_to_sum(std::move(t));
    }
    sum_ = sum_ + t;
}

void GradBuffer::add_product(Tensor a, Tensor b) {
    rows_ += a.size(0);
    if (!first_.a.defined()) {
        first_ = {std::move(a), std::move(b)};
    } else {
        if (!further_) further_ = std::make_unique<std::vector<Factors>>();
        further_->push_back({std::move(a), std::move(b)});
    }
    if (rows_ >= kRows) flush();
}

void GradBuffer::add_part(const ResultInfo& like, const Part& part) {
    if (sparse::is(sum_)) [[unlikely]]
        sum_ = sparse::host.dense(sum_);
    if (sum_.defined() && sum_.has(kDispatching)) [[unlikely]] {
        Tensor by_class = std::exchange(sum_, Tensor());
        add_part(like, part);
        return add_to_sum(std::move(by_class));
    }
    if (!sum_.defined()) {
        sum_ = Tensor::layout(like.dtype(), like.shape());
        sum_.allocate_beside(part.grad);
        if (!sum_.has(kMeta))
            std::memset(sum_.bytes(), 0,
                        static_cast<size_t>(sum_.numel() * item_size(sum_.dtype())));
    } else if (!may_add_in_place(sum_)) {
        Tensor own = Tensor::layout(sum_.dtype(), sum_.shape());
        own.allocate_beside(sum_);
        ops::copy_into(own, sum_);
        sum_ = own;
    }
    if (sum_.has(kMeta)) return;
    const ops::Write::Unwritten as_before(sum_);
    part.add(sum_, part.grad, part.where, part.attrs, part.input);
}

Tensor GradBuffer::stack_rows(Tensor Factors::* factor) const {
    const Tensor& first = first_.*factor;
    if (!further_ || further_->empty()) return ops::as_contiguous(first);
    const DType dtype = first.dtype();
    const int64_t width = first.size(1);
    Tensor out = Tensor::layout(dtype, Dims{rows_, width});
    out.allocate_beside(first);
    if (out.has(kMeta)) return out;
    int64_t at = 0;
    auto add = [&](const Tensor& part) {
        if (part.contiguous() && part.dtype() == dtype && !part.has(kPending))
            std::memcpy(out.bytes() + at * width * item_size(dtype), part.bytes(),
                        static_cast<size_t>(part.byte_count()));
        else ops::copy_into(out.view_as(part.shape(), Dims{width, 1}, at * width), part);
        at += part.size(0);
    };
    add(first);
    for (const Factors& f : *further_) add(f.*factor);
    return out;
}

void GradBuffer::flush() {
    Tensor all_a, all_b;  // there as long as the span, which shows their bytes
    ops::WatchSpan span(ops::SpanKind::Function, nullptr, "sum of products");
    std::vector<Tensor> inputs;
    if (span) [[unlikely]] {
        inputs = {first_.a, first_.b};
        for (size_t i = 0; further_ && i < further_->size(); ++i)
            inputs.insert(inputs.end(), {(*further_)[i].a, (*further_)[i].b});
    }
    span.give(inputs);
    bool fresh = !sum_.defined() || !may_add_in_place(sum_);
    all_a = stack_rows(&Factors::a);
    all_b = stack_rows(&Factors::b);
    Tensor target = sum_;
    if (fresh) {
        target = Tensor::layout(all_a.dtype(), Dims{all_a.size(1), all_b.size(1)});
        target.allocate_beside(all_a);
    }
    if (!target.has(kMeta))
        dispatch<FloatingTypes>(all_a.dtype(), "backward",
                                [&]<class T>() { multiply_into<T>(target, fresh, all_a, all_b); });
    span.take(inputs, {&target, 1});
    first_ = {};
    if (further_) further_->clear();
    rows_ = 0;
    if (fresh) add(std::move(target));
}

}  // namespace weft
