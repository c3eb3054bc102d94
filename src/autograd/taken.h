/// Note [Taken values]
/// A value of a batch that is read gets memory and a node of its own, `_take`, below the batch's
/// block. But calls that used the value while it waited read the block, past that node. Then the
/// gradient of the value is what arrives at its part of the block: hooks, retain_grad and `inputs=`
/// look there. (A view that was used while it waited has no such part: a gradient for it is that of
/// its later uses.) The same holds for the value of vmap's first example, `_first` of what holds the
/// values of all (Note [Mapped] in mapped/level.h).
#pragma once
#include <optional>

#include "autograd/node.h"

namespace weft {

/// A part of the gradient of another value: `shape` elements from `offset` on.
struct PartOf {
    Edge whole;
    int64_t offset = 0;
    Dims shape, strides;

    Tensor take(const Tensor& gradient) const;
    /// The whole gradient with another one for the part.
    Tensor with(const Tensor& gradient, const Tensor& part) const;
};

/// Where the gradient of `t` arrives, if that is more than at its own node.
std::optional<PartOf> part_of(const Tensor& t);

/// Where a hook on the gradient of `t` belongs, and the hook as it is called there; no node for leaves.
struct HookPlace {
    Ref<Node> node;
    uint32_t output = 0;
    Ref<Hook> hook;
};
HookPlace hook_place(const Tensor& t, Ref<Hook> hook);

}  // namespace weft
