/// Autocast on the CPU: runs a call in the dtype that its record names, after PyTorch's lists
/// (aten/src/ATen/autocast_mode.h, AT_FORALL_LOWER_PRECISION_FP and AT_FORALL_FP32 of the CPU).
///
/// float64, integers and numbers are never cast. The narrow copy of a leaf that wants a gradient is
/// kept until the outermost scope ends, so that a weight used ten times is cast once, and its
/// gradients are summed before they are cast back.
#include "autograd/autocast.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "autograd/meta.h"
#include "ops/functions.h"
#include "ops/scopes.h"

namespace weft {
namespace {

struct Kept {
    Tensor leaf, copy;
    uint32_t version;
};
/// Of the thread's outermost scope. A thread that ends within one leaves it as it is: to release
/// tensors there would take the core lock, which a thread at its end has no right to.
thread_local std::unordered_map<const TensorImpl*, Kept>* kept = nullptr;

Tensor cast(const Tensor& t, DType dtype) {
    bool keep = ops::scopes.keeps_casts && (mode & kGradMode) && dtype != DType::Float32 &&
                t.dtype() == DType::Float32 && requires_grad(t) && is_leaf(t);
    if (!keep) return ops::to(t, dtype);
    if (!kept) kept = new std::unordered_map<const TensorImpl*, Kept>;
    auto found = kept->find(t.impl());
    if (found != kept->end() && found->second.version == t.version() &&
        found->second.copy.dtype() == dtype)
        return found->second.copy;
    ModeGuard now(0, kDeferMode);  // calls that are kept share the one copy
    Tensor copy = ops::to(t, dtype);
    kept->insert_or_assign(t.impl(), Kept{t, copy, static_cast<uint32_t>(t.version())});
    return copy;
}

bool is_castable(const Tensor& t) {
    if (!t.defined() || t.has(kWrapped)) return false;
    DType d = t.dtype();
    return d == DType::Float32 || d == DType::Float16 || d == DType::BFloat16;
}

/// Whether input 0 is narrow and another one, such as a weight, is not.
bool has_wider(const Call& c) {
    if (!is_castable(c.in[0]) || c.in[0].dtype() == DType::Float32) return false;
    for (int i = 1; i < c.inputs; ++i)
        if (c.in[i].defined() && c.in[i].dtype() == DType::Float32) return true;
    return false;
}

/// The dtype that the inputs of `c` are cast to.
DType cast_dtype(const Call& c) {
    const DType narrow = mode & kAutocastHalfMode ? DType::Float16 : DType::BFloat16;
    if (c.op->autocast == Cast::Narrow) return narrow;
    if (c.op->autocast != Cast::Widest) return DType::Float32;
    DType widest = narrow;
    for (int i = 0; i < c.inputs; ++i)
        if (is_castable(c.in[i])) widest = promote(widest, c.in[i].dtype());
    return widest;
}

bool run_cast(Call& c) {
    const Cast wanted = c.op->autocast;
    if (wanted == Cast::None || c.dest.defined()) return false;
    if (wanted == Cast::Within && !has_wider(c)) return false;
    const DType dtype = cast_dtype(c);
    ModeGuard off(0, kAutocastMode | kAutocastHalfMode);
    std::vector<Tensor> in(c.in, c.in + c.inputs);
    for (Tensor& t : in)
        if (is_castable(t) && t.dtype() != dtype) t = cast(t, dtype);
    {
        const ops::OtherOperands now(c, in.data());
        ops::call(c);
    }
    if (wanted == Cast::Within) c.out(0) = ops::to(c.out(0), c.in[0].dtype());
    return true;
}

}  // namespace

void install_autocast() { ops::hooks.autocast = run_cast; }

void forget_casts() { delete std::exchange(kept, nullptr); }

}  // namespace weft
