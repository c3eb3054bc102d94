/// What the families that index share: checked positions as tables of offsets.
#pragma once
#include <vector>

#include "kernels/index.h"
#include "ops/table.h"

namespace weft::ops {

/// The plan of `x[indices]`: which dimensions are indexed and what shape results. An undefined
/// index keeps its dimension whole. (NumPy's rule: the dimensions of the broadcast indices stand
/// where the indexed ones were if those are neighbours, else in front.)
struct Indexing {
    /// Throws Index for too many indices, for shapes that do not broadcast, and for other dtypes
    /// than int64.
    Indexing(std::string_view who, DimSpan shape, const Tensor* indices, int count);

    Dims result;        ///< sizes of x[indices]
    Dims rows;          ///< the broadcast shape of the indices
    Dims outer, inner;  ///< dimensions of x before and behind them, in the result's order
    Dims indexed;       ///< dimensions of x that are indexed
    Dims shape;         ///< of x
    const Tensor* indices;
};

/// The tables of kernels::Blocks (see there) for memory under `strides`.
class BlockTables {
public:
    /// Throws Index for a position out of range; negative ones count from the end.
    BlockTables(std::string_view who, const Indexing& plan, DimSpan strides);
    kernels::Blocks blocks;

private:
    std::vector<int64_t> outer_, rows_, inner_;
};

/// An int64 index as dense memory.
Tensor dense_index(const Tensor& index);
/// Throws `kind` unless every value of the dense `index` lies in [low, size).
void require_inside(std::string_view who, ErrorKind kind, const Tensor& index, int64_t low,
                    int64_t size, int64_t dim);
/// Makes c.out(0), which may be input 0 itself, hold input 0's values.
void start_from_self(const Call& c);
/// `t` as dense memory of `dtype` that c.out(0) does not share. To be taken before c.out(0)
/// changes.
Tensor apart(const Call& c, const Tensor& t, DType dtype);
/// `t` broadcast to `shape`, dense, of `dtype`.
Tensor spread(const Tensor& t, DimSpan shape, DType dtype);
/// A number as a 0-d tensor of its own kind.
Tensor as_tensor(const Value& number);
/// Throws Runtime if a number does not fit in `dtype`: beyond an integer's range, or with an imaginary
/// part where there is room for none.
void require_fits(std::string_view who, const Tensor& value, DType dtype);

/// Whether values of shape `from` broadcast to a tensor of shape `to` as it is.
bool broadcasts_to(DimSpan from, DimSpan to);

/// A dim of `t`, counting a 0-d tensor as one of size 1.
inline int64_t size_along(const Tensor& t, int dim) { return t.ndim() ? t.size(dim) : 1; }
/// A 0-d tensor seen as 1-d; others as they are.
Tensor at_least_1d(const Tensor& t);

/// rows of `grad` added into the rows of `table` that `indices` names; int64, unchecked. Positions
/// equal to `padding` are left out. (Below the door: for the engine's buffers.)
void add_embedding_rows(const Tensor& table, const Tensor& indices, const Tensor& grad,
                        int64_t padding, bool by_frequency);

}  // namespace weft::ops
