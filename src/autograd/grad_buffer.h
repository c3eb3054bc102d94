/// What has arrived so far for one output of a node during a backward pass.
///
/// Note [Sums of products]
/// A weight used by every node of a tree gets one product a^T b from each use, often of rank one.
/// Made one by one, each costs a weight-sized matrix written and another added. Instead the factors
/// are kept; when the sum is needed, or enough rows wait, they are stacked and multiplied once,
/// straight into the sum.
///
/// Note [Sums of parts]
/// A loop over the rows of a tensor, or over pieces of one large result, gives that tensor one
/// gradient per piece. Each as a tensor of the whole size, all but a piece zero, would make the
/// sum quadratic. Instead a rule says where its piece belongs, and it is added there.
#pragma once
#include <memory>
#include <vector>

#include "autograd/node.h"

namespace weft {

class GradBuffer {
public:
    /// Adds `t`; in place if only this buffer can see the sum and no graph of it is wanted.
    void add(Tensor&& t) {
        if (!sum_.defined()) sum_ = std::move(t);
        else if (t.defined()) add_to_sum(std::move(t));
    }
    /// Adds a^T b, with a [r, m] and b [r, n].
    void add_product(Tensor a, Tensor b);
    /// Adds what fills only a part of a gradient like `like`.
    void add_part(const ResultInfo& like, const Part& part);
    /// The sum; undefined if nothing came. The buffer is empty afterwards.
    Tensor take() {
        if (first_.a.defined()) flush();
        return std::move(sum_);
    }

private:
    struct Factors {
        Tensor a, b;
    };
    void add_to_sum(Tensor t);
    void flush();
    /// Those of all products, or of the second ones, on top of each other.
    Tensor stack_rows(Tensor Factors::* factor) const;
    Tensor sum_;
    Factors first_;  ///< mostly there is one product; undefined: none
    std::unique_ptr<std::vector<Factors>> further_;
    int64_t rows_ = 0;
};

}  // namespace weft
