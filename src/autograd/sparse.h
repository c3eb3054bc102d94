/// Sparse tensors, as far as the graph has to know them.
///
/// Note [Sparse gradients]
/// A sparse tensor is indices and values, which are the package's (weft/sparse/tensor.py): an object of
/// a class of Tensor. To the core it is a shell, a tensor of its shape and dtype over one element that
/// stands for all of them and is nan. Calls never read it: the class answers them (Note [Overrides]).
/// The graph passes it on. Where it would be added or copied, the package does it (`host`), and a rule of
/// an op, which would read it, raises. So a gradient of a table's rows stays rows up to `.grad`.
#pragma once
#include <vector>

#include "tensor/tensor.h"

namespace weft {
class Node;
}

namespace weft::sparse {

/// Set once the first shell is made: a program without pays a load and a branch.
inline bool known = false;

bool is_shell(const Tensor& t);
inline bool is(const Tensor& t) { return known && t.defined() && is_shell(t); }

/// A new shell. The bytes of its storage are nobody's to read or write.
Tensor make_shell(DType dtype, DimSpan shape);

/// What the package does with them; installed with the first one.
struct Host {
    /// The sum of two, of which one is sparse at least.
    Tensor (*add)(const Tensor& a, const Tensor& b);
    /// What `.grad` becomes when `grad` comes to what it was, which may be undefined. It is written where a
    /// dense one would be.
    Tensor (*accumulate)(const Tensor& old, const Tensor& grad);
    /// The same values without indices, or all of them as a dense tensor.
    Tensor (*values)(const Tensor& t);
    Tensor (*dense)(const Tensor& t);
};
inline Host host{};

/// Throws NotImplemented if one of `grads` is sparse and `node`, which comes next, is an op: its rule would
/// read it.
void expect_taken(Node& node, const std::vector<Tensor>& grads);

}  // namespace weft::sparse
