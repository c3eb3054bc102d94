#include "autograd/accumulate.h"

#include "autograd/engine.h"
#include "autograd/sparse.h"
#include "base/lock.h"
#include "base/pool.h"
#include "ops/copy.h"
#include "ops/functions.h"

namespace weft {

Ref<Node> AccumulateGrad::make(const Tensor& leaf) {
    return Ref<Node>(new (Pool::allocate(sizeof(AccumulateGrad))) AccumulateGrad(leaf));
}

AccumulateGrad::AccumulateGrad(const Tensor& leaf) : leaf_(leaf), info_(leaf) {
    sequence = UINT64_MAX;  // before everything else that is ready: frees its buffer early
    results_ = &info_;
    output_count_ = 1;
}

void AccumulateGrad::deallocate() {
    this->~AccumulateGrad();
    Pool::free(this, sizeof(AccumulateGrad));
}

AccumulateGrad::~AccumulateGrad() { forget_leaf(); }

void AccumulateGrad::forget_leaf() {
    GradMeta* m = leaf_.defined() ? meta_or_null(leaf_) : nullptr;
    if (m && m->accumulator == this) m->accumulator = nullptr;
    leaf_ = Tensor();
}

Hooks* AccumulateGrad::leaf_hooks() {
    if (!leaf_.defined()) return nullptr;
    GradMeta* m = meta_or_null(leaf_);
    return m && !m->hooks.empty() ? &m->hooks : nullptr;
}

Ref<Node> accumulator(const Tensor& leaf) {
    GradMeta& m = meta(leaf);
    if (m.accumulator) return Ref<Node>(m.accumulator);
    Ref<Node> node = AccumulateGrad::make(leaf);
    m.accumulator = static_cast<AccumulateGrad*>(node.get());
    return node;
}

namespace {

const ops::Function copy{"copy"};

/// dest = f(dest, other), in place.
void write(const ops::Function& f, const Tensor& dest, const Tensor& other) {
    Tensor in[] = {dest, other};
    Call c(f.op(), in, 2, f.op().defaults.data());
    c.dest = dest;
    c.in_place = true;
    ops::call(c);
}

/// Nobody but the one reference at hand can see this tensor's memory.
bool sole_owner(const Tensor& t) {
    return t.impl()->refs == 1 && !t.impl()->wrapper && t.storage()->refs == 1 &&
           t.storage()->block != 0;
}

/// A gradient lies in memory as its leaf does if that is dense, else row-major: then optimizers
/// walk both in one order.
bool lies_like(const Tensor& grad, const Tensor& leaf) {
    if (leaf.contiguous() || !is_dense(leaf.shape(), leaf.strides())) return grad.contiguous();
    return equal(grad.strides(), leaf.strides());
}

/// A copy of its own, for it may be written; part of the graph if one is wanted.
Tensor copy_lying_like(const Tensor& grad, const Tensor& leaf) {
    // `.data = ` may have given the leaf another shape since
    const bool dense = equal(grad.shape(), leaf.shape()) && is_dense(leaf.shape(), leaf.strides());
    const bool recorded = requires_grad(grad);
    if (recorded && (mode & kGradMode) && !dense) return ops::clone(grad);
    Tensor out = dense ? Tensor::layout_like(leaf, grad.dtype())
                       : Tensor::layout(grad.dtype(), grad.shape());
    out.allocate_beside(grad);
    if (recorded && (mode & kGradMode)) write(copy, out, grad);
    else ops::copy_into(out, grad);
    return out;
}

}  // namespace

void accumulate_grad(const Tensor& leaf, Tensor grad) {
    Locked locked;
    bool graph = mode & kGradMode;
    if (grad.on_meta() && !leaf.on_meta()) [[unlikely]]
        ops::fail_copying_out("backward");
    Tensor old = meta(leaf).grad;
    Tensor sum;
    if (sparse::is(old) || sparse::is(grad)) [[unlikely]] {
        sum = sparse::host.accumulate(old, grad);
        meta(leaf).grad = sum;
        return;
    }
    if (!old.defined()) {
        if (!graph && sole_owner(grad) && lies_like(grad, leaf) && !requires_grad(grad)) {
            sum = std::move(grad);
            sum.set(kLooseView, false);  // whatever its memory was a view of is gone
        } else {
            sum = grad.has(kDispatching) ? ops::clone(grad) : copy_lying_like(grad, leaf);
        }
    } else if (graph || old.has(kDispatching) || grad.has(kDispatching) ||
               current_pass_adds_out_of_place()) {
        sum = old + grad;
    } else {
        return write(ops::add, old, grad);
    }
    meta(leaf).grad = sum;
}

void AccumulateGrad::run(Work& work) {
    if (!leaf_.defined()) {
        WEFT_EXPECT(
            !work.grads[0].defined(), Runtime, "backward", "a leaf",
            "a tensor that was written in place since (leaf variable has been moved into the "
            "graph interior)");
        return;
    }
    GradMeta* m = meta_or_null(leaf_);
    if (work.grads[0].defined()) {
        if (m && m->requires_grad) accumulate_grad(leaf_, std::move(work.grads[0]));  // still
        m = meta_or_null(leaf_);
    }
    if (!m || m->after_accumulate.empty()) return;
    Hooks hooks = m->after_accumulate;  // a hook may remove itself
    for (auto& hook : hooks) {
        std::vector<Tensor> leaf{leaf_};
        hook->call(leaf, nullptr);
    }
}

}  // namespace weft
