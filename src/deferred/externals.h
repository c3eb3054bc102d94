/// The tensors with memory that waiting calls read.
#pragma once
#include <unordered_map>
#include <vector>

#include "deferred/kinds.h"

namespace weft::deferred {

/// They have numbers, by which operands refer to them, and the fixed ones names, by which keys do.
class Externals {
public:
    size_t size() const { return tensors_.size(); }
    bool empty() const { return tensors_.empty(); }
    const Tensor& operator[](size_t number) const { return tensors_[number]; }
    /// The number of `t`, the same each time.
    int64_t number(const Tensor& t);
    /// A number of its own, where nobody asks whether `t` came before; with a name unless that is 0.
    int64_t add(const Tensor& t, uint32_t name);
    /// Names count fixed tensors in order of appearance, so that the same program has the same keys
    /// whatever else it reads. Weights have names apart from those of others.
    uint32_t name(const Tensor& t, bool weight);
    uint32_t name_of(int64_t number) const { return names_[static_cast<size_t>(number)]; }
    /// Note [Views of weights]
    /// Examples that take the same view of one weight (`w.t()`, `w[k]`) get tensors of their own; by
    /// the name of the first of them calls merge as they do by the weight itself.
    const Tensor& first_view(const Tensor& t, const Tensor& base);
    void clear();

private:
    std::vector<Tensor> tensors_;                             ///< by number
    std::unordered_map<const TensorImpl*, int64_t> numbers_;  ///< but of those that were added
    static constexpr size_t kRecent = 64;
    int64_t recent_[kRecent] = {};  ///< the same for some, + 1, by address
    std::vector<uint32_t> names_;   ///< by number; 0: none
    uint32_t count_[2] = {};        ///< of names: of others, of weights
    Interned view_keys_;
    std::vector<Tensor> first_views_;  ///< by number of the key
};

}  // namespace weft::deferred
