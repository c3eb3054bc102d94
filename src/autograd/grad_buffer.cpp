#include "autograd/grad_buffer.h"

#include <cstring>

#include "kernels/matmul.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/watch.h"

namespace weft {
namespace {

/// Rows that are worth one GEMM; more would only hold memory.
constexpr int64_t kRows = 256;

bool may_add_in_place(const Tensor& t) {
    return !(mode & kGradMode) && t.impl()->refs == 1 && !t.impl()->wrapper &&
           t.storage()->refs == 1 && t.storage()->block != 0 && t.contiguous() && !t.has(kTracked);
}

/// The rows of all factors on top of each other.
Tensor stack_rows(const std::vector<std::pair<Tensor, Tensor>>& factors, bool second,
                  int64_t rows) {
    auto pick = [&](size_t i) -> const Tensor& {
        return second ? factors[i].second : factors[i].first;
    };
    if (factors.size() == 1) return ops::as_contiguous(pick(0));
    int64_t width = pick(0).size(1);
    Tensor out = Tensor::empty(pick(0).dtype(), Dims{rows, width});
    int64_t at = 0;
    for (size_t i = 0; i < factors.size(); ++i) {
        const Tensor& part = pick(i);
        ops::copy_into(out.view_as(part.shape(), Dims{width, 1}, at * width), part);
        at += part.size(0);
    }
    return out;
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
    if (sum_.has(kPending) || t.has(kPending)) {
        sum_ = sum_ + t;
        return;
    }
    if (may_add_in_place(sum_) && sum_.dtype() == t.dtype()) {
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
    if (!products_) products_ = std::make_unique<Products>();
    products_->rows += a.size(0);
    products_->factors.emplace_back(std::move(a), std::move(b));
    if (products_->rows >= kRows) flush();
}

void GradBuffer::add_part(const ResultInfo& like, const Part& part) {
    if (!sum_.defined()) {
        sum_ = Tensor::empty(like.dtype(), like.shape());
        std::memset(sum_.bytes(), 0, static_cast<size_t>(sum_.numel() * item_size(sum_.dtype())));
    } else if (!may_add_in_place(sum_)) {
        Tensor own = Tensor::empty(sum_.dtype(), sum_.shape());
        ops::copy_into(own, sum_);
        sum_ = own;
    }
    part.add(sum_, part.grad, part.where, part.attrs, part.input);
}

void GradBuffer::flush() {
    auto& [factors, rows] = *products_;
    if (factors.empty()) return;
    Tensor all_a, all_b;  // there as long as the span, which shows their bytes
    ops::WatchSpan span(ops::SpanKind::Function, nullptr, "sum of products");
    std::vector<Tensor> inputs;
    if (span) [[unlikely]]
        for (const auto& [a, b] : factors) inputs.insert(inputs.end(), {a, b});
    span.give(inputs);
    const Tensor& a = factors[0].first;
    Dims shape{a.size(1), factors[0].second.size(1)};
    bool fresh = !sum_.defined() || !may_add_in_place(sum_);
    all_a = stack_rows(factors, false, rows);
    all_b = stack_rows(factors, true, rows);
    Tensor target = fresh ? Tensor::empty(a.dtype(), shape) : sum_;
    dispatch<FloatingTypes>(a.dtype(), "backward",
                            [&]<class T>() { multiply_into<T>(target, fresh, all_a, all_b); });
    span.take(inputs, {&target, 1});
    factors.clear();
    rows = 0;
    if (fresh) add(std::move(target));
}

}  // namespace weft
