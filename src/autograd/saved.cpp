#include "autograd/saved.h"

#include <algorithm>
#include <numeric>

#include "autograd/engine.h"
#include "autograd/meta.h"
#include "autograd/op_node.h"
#include "autograd/reached.h"
#include "ops/copy.h"
#include "ops/each.h"
#include "ops/functions.h"
#include "ops/write.h"

namespace weft {

void SavedTensor::keep(const Tensor& t) {
    WEFT_EXPECT(!t.has(kInference), Runtime, "save_for_backward", "a normal tensor",
                "an inference tensor (Inference tensors cannot be saved for backward. Please do "
                "not use Tensors created in inference mode in computation tracked by autograd. To "
                "work around this, you can make a clone to get a normal tensor and use it in "
                "autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.)",
                "clone() it first");
    if (ops::scopes.pack_hooks && !t.has(kWrapped)) [[unlikely]]  // a Python number is no tensor
        return pack(t);
    value_ = is_output_ ? t.alias() : t;
    version_ = t.version();
    t.storage()->watched = true;
}

/// What the functions do is not recorded, so not saved either. They get an input itself, but of an
/// output an alias outside the graph (Note [Saved outputs]).
void SavedTensor::pack(const Tensor& t) {
    ModeGuard quiet(0, kGradMode);
    uint32_t before = t.version();
    packed_ = ops::scopes.pack_hooks->pack(is_output_ ? t.alias() : t);
    packed_->saved.set(t);
    WEFT_EXPECT(t.version() == before, Runtime, "pack_hook",
                "the saved value unchanged (A saved tensor pack hook is modifying its input in "
                "place)",
                text("version ", t.version(), " after version ", before), "write a clone() there");
    if (is_output_ || !requires_grad(t)) return;
    packed_->origin = gradient_edge(t);
    packed_->wanted = !packed_->origin;
}

namespace {

/// What an unpack hook gave, in the dtype of what was saved: rules and their kernels go by that.
Tensor like_saved(const Tensor& t, const ResultInfo& saved) {
    WEFT_EXPECT(equal(t.shape(), saved.shape()), Runtime, "unpack_hook",
                text("a tensor of the saved one's shape ", to_string(saved.shape())),
                to_string(t.shape()));
    if (t.dtype() == saved.dtype()) return t;
    WEFT_EXPECT(
        is_inexact(saved.dtype()) || !is_inexact(t.dtype()), Runtime, "unpack_hook",
        text("the saved tensor's dtype ", name(saved.dtype()), " (Expected dtype int64 for index)"),
        name(t.dtype()), "convert it back in the hook");
    WEFT_EXPECT(is_complex(saved.dtype()) || !is_complex(t.dtype()), Runtime, "unpack_hook",
                text("the saved tensor's dtype ", name(saved.dtype())), name(t.dtype()));
    return ops::to(t, saved.dtype());
}

}  // namespace

Tensor SavedTensor::unpack_again(Node* owner, int k) const {
    Ref<Packed> keep = packed_;  // the function may release the node
    Tensor t = like_saved(keep->unpack(), keep->saved);
    if (is_output_ ? !(mode & kGradMode) : !keep->origin && !keep->wanted) return t;
    Tensor out = t.alias();
    if (keep->wanted) set_requires_grad(out, true);
    else if (is_output_) set_history(out, Ref<Node>(owner), k);
    else set_history(out, keep->origin.node, keep->origin.output);
    return out;
}

namespace {

/// Of gradient `k` of a batch's node, the elements of the calls that `part` of a saved value is of: calls
/// of unlike shapes are told by the op (Note [Each] in ops/each.h), rows lie in one order in both.
ops::Span of_same_calls(const Node& node, int saved, const Tensor& value, ops::Span part,
                        const Tensor& g, int k) {
    if (node.is_several()) return {0, g.numel()};  // calls of one example
    auto* of = dynamic_cast<const OpNode*>(&node);
    if (of && of->op().one) return ops::outputs_of_part(of->op(), of->attrs(), saved, part, k);
    const int64_t common = std::gcd(g.numel(), value.numel());
    const int64_t per = g.numel() / common, each = value.numel() / common;
    return {part.begin * per / each, (part.end * per + each - 1) / each};
}

/// Whether any of these elements is other than zero.
bool flows(const Tensor& g, ops::Span elements) {
    if (elements.empty()) return false;
    const Dims count{elements.end - elements.begin};
    return !all_zeros(ops::as_contiguous(g).view_as(count, Dims{1}, elements.begin));
}

}  // namespace

Tensor SavedTensor::unpack_slow(Node* owner, int k, const std::vector<Tensor>* grads) const {
    if (packed_) [[unlikely]]
        return unpack_again(owner, k);
    if (!value_.defined()) return {};
    auto matters = [&](ops::Span part) {
        if (!grads || part.empty() || zeros_matter || !current_pass_is_batched()) return true;
        for (size_t g = 0; g < grads->size(); ++g) {
            const Tensor& of = (*grads)[g];
            const int output = static_cast<int>(g), saved = k + 16;  // save_in, save_out
            if (of.defined() && flows(of, of_same_calls(*owner, saved, value_, part, of, output)))
                return true;
        }
        return false;
    };
    if (const Site* site = ops::overwritten_by(value_, version_, matters)) [[unlikely]] {
        std::string made;
        if (Ref<Node> fn = is_output_ ? Ref<Node>(owner) : grad_fn(value_)) {
            int output = is_output_ ? k : static_cast<int>(output_number(value_));
            const std::string name = fn->name_of(output);
            made = text(", which is output ", output, " of ",
                        name.substr(0, name.rfind("Backward")), ",");
        }
        throw Error(ErrorKind::Runtime,
                    text("[backward] expected the saved value unchanged, got another (one of the "
                         "variables needed "
                         "for gradient computation has been modified by an inplace operation: [",
                         tensor_type_name(value_.dtype()), " ", to_string(value_.shape()), "]",
                         made, " is at version ", value_.version(), "; expected version ", version_,
                         " instead.)\n  saved at ", owner->site.describe(), "\n  overwritten at ",
                         site->describe(),
                         "\n  Hint: write out of place there, or clone() the tensor before"));
    }
    if (!is_output_ || !(mode & kGradMode)) return value_;
    Tensor out = value_.alias();
    set_history(out, Ref<Node>(owner), k);
    return out;
}

void fail_detached(const Node& node) {
    throw Error(ErrorKind::Runtime,
                text("[backward] expected a saved value that is part of the graph, as it was, got "
                     "one taken out of it (Trying to use a saved tensor that has been detached "
                     "in-place, i.e. with .detach_(). This is not supported, please use "
                     "out-of-place `.detach()` instead)\n  saved at ",
                     node.site.describe()));
}

void fail_released(const Node& node) {
    throw Error(
        ErrorKind::Runtime,
        text("Trying to backward through the graph a second time (or directly access saved "
             "tensors after they have already been freed). Saved intermediate values of the "
             "graph are freed when you call .backward() or autograd.grad(). Specify "
             "retain_graph=True if you need to backward through the graph a second time or "
             "if you need to access saved tensors after calling backward.\n  [",
             node.name(), "] expected its saved tensors, got a node already released"));
}

}  // namespace weft
