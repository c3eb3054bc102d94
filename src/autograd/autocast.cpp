/// Autocast on the CPU: which ops run in a narrow float, which in float32. PyTorch's lists
/// (aten/src/ATen/autocast_mode.h, AT_FORALL_LOWER_PRECISION_FP and AT_FORALL_FP32 of the CPU).
///
/// float64, integers and numbers are never cast. The narrow copy of a leaf that wants a gradient is
/// kept until the outermost scope ends, so that a weight used ten times is cast once, and its
/// gradients are summed before they are cast back.
#include "autograd/autocast.h"

#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "autograd/meta.h"
#include "ops/autocast.h"
#include "ops/functions.h"

namespace weft {
namespace {

enum class Cast : uint8_t {
    None,
    Narrow,  ///< runs in the scope's dtype
    Float,   ///< runs in float32
    Within,  ///< computes in float32, the result has the input's dtype: weights may be wider
};

const std::unordered_set<std::string_view> narrow_ops{
    "conv1d",
    "conv1d.text",
    "conv2d",
    "conv2d.text",
    "conv3d",
    "conv3d.text",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolution",
    "bmm",
    "mm",
    "addmm",
    "linear",
    "matmul",
    "prelu",
    "scaled_dot_product_attention",
};
const std::unordered_set<std::string_view> float_ops{
    "avg_pool3d",
    "max_pool3d",
    "max_pool3d_with_indices",
    "adaptive_avg_pool3d",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "polar",
    "prod",
    "prod.dim",
    "view_as_complex",
    "cholesky_solve",
    "mse_loss",
    "mse_loss.weighted",
    "nll_loss",
    "smooth_l1_loss",
    "cross_entropy",
    "l1_loss",
    "huber_loss",
    "huber_loss.weighted",
    "kl_div",
};
const std::unordered_set<std::string_view> within_ops{
    "layer_norm",
    "group_norm",
    "batch_norm",
    "instance_norm",
};

/// The policy of each op, by address: names are looked up once.
Cast policy(const Op& op) {
    static const std::unordered_map<const Op*, Cast> policies = [] {
        std::unordered_map<const Op*, Cast> out;
        for (const Op& each : table().all()) {
            if (narrow_ops.count(each.name)) out[&each] = Cast::Narrow;
            if (float_ops.count(each.name)) out[&each] = Cast::Float;
            if (within_ops.count(each.name)) out[&each] = Cast::Within;
        }
        return out;
    }();
    auto found = policies.find(&op);
    return found == policies.end() ? Cast::None : found->second;
}

struct Kept {
    Tensor leaf, copy;
    uint32_t version;
};
thread_local std::unordered_map<const TensorImpl*, Kept> kept;
thread_local bool keeps = true;

Tensor cast(const Tensor& t, DType dtype) {
    bool keep = keeps && (mode & kGradMode) && dtype != DType::Float32 &&
                t.dtype() == DType::Float32 && requires_grad(t) && is_leaf(t);
    if (!keep) return ops::to(t, dtype);
    auto found = kept.find(t.impl());
    if (found != kept.end() && found->second.version == t.version() &&
        found->second.copy.dtype() == dtype)
        return found->second.copy;
    ModeGuard now(0, kDeferMode);  // calls that are kept share the one copy
    Tensor copy = ops::to(t, dtype);
    kept.insert_or_assign(t.impl(), Kept{t, copy, static_cast<uint32_t>(t.version())});
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

bool run_cast(Call& c) {
    Cast wanted = policy(*c.op);
    if (wanted == Cast::None || c.dest.defined()) return false;
    DType dtype = wanted != Cast::Narrow     ? DType::Float32
                  : mode & kAutocastHalfMode ? DType::Float16
                                             : DType::BFloat16;
    if (wanted == Cast::Within && !has_wider(c)) return false;
    ModeGuard off(0, kAutocastBits);
    std::vector<Tensor> in(c.in, c.in + c.inputs);
    for (Tensor& t : in)
        if (is_castable(t) && t.dtype() != dtype) t = cast(t, dtype);
    const Tensor* given = c.in;
    c.in = in.data();
    try {
        ops::call(c);
    } catch (...) {
        c.in = given;
        throw;
    }
    c.in = given;
    if (wanted == Cast::Within) c.out(0) = ops::to(c.out(0), c.in[0].dtype());
    return true;
}

}  // namespace

void install_autocast() { ops::autocast = run_cast; }

void forget_casts() { kept.clear(); }

bool keep_casts(bool on) {
    bool before = keeps;
    keeps = on;
    return before;
}

}  // namespace weft
