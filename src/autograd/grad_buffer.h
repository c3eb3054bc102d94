/// What has arrived so far for one output of a node during a backward pass.
///
/// Note [Sums of products]
/// A weight used by every node of a tree gets one product a^T b from each use, often of rank one.
/// Made one by one, each costs a weight-sized matrix written and another added. Instead the factors
/// are kept; when the sum is needed, or enough rows wait, they are stacked and multiplied once,
/// straight into the sum.
#pragma once
#include <vector>

#include "autograd/node.h"

namespace weft {

class GradBuffer {
public:
    /// Adds `t`; in place if only this buffer can see the sum and no graph of it is wanted.
    void add(Tensor t);
    /// Adds a^T b, with a [r, m] and b [r, n].
    void add_product(Tensor a, Tensor b);
    /// The sum; undefined if nothing came. The buffer is empty afterwards.
    Tensor take();
    bool empty() const { return !sum_.defined() && factors_.empty(); }

private:
    void flush();
    Tensor sum_;
    std::vector<std::pair<Tensor, Tensor>> factors_;
    int64_t rows_ = 0;
};

}  // namespace weft
