/// What the families of linear algebra share: checks of matrices in PyTorch's words, batches of them,
/// errors of LAPACK's, products in gradient rules. The kernels are those of kernels/factor.h.
#pragma once
#include "base/lock.h"
#include "ops/conj.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/table.h"

namespace weft::ops {

/// dispatch<MatrixTypes>: what matrices are factored in.
using MatrixTypes = WithComplex<FloatingTypes>;

/// Throws Runtime unless A is a floating or complex (square) matrix or a batch; NotImplemented for
/// narrow ones.
void expect_matrix(std::string_view who, const Tensor& A, bool square = false);
/// Throws Runtime unless both have one dtype.
void expect_like(std::string_view who, const Tensor& A, const Tensor& B);

/// Sizes of a batch of matrices.
struct Matrices {
    int64_t rows, columns, count;
    explicit Matrices(const Tensor& A);
};

/// The size of the last dim (`back` 1) or of one before it.
inline int64_t last(const Tensor& t, int back) { return t.size(t.ndim() - back); }
/// The shape without its last `n` dims.
inline DimSpan without_last(DimSpan shape, int n) { return shape.first(shape.size() - n); }
inline DimSpan batch_of(const Tensor& A) { return without_last(A.shape(), 2); }
/// `lead`, then `more`.
Dims joined(DimSpan lead, std::initializer_list<int64_t> more);

/// The place of the first that is not 0, or -1.
int64_t first_failed(const Tensor& info);
/// "(Batch element 3): " for a batch.
std::string batch_element(const Tensor& info, int64_t at);

/// Which matrix of `from` each of `to` uses, where shapes of batches broadcast.
class Spread {
public:
    Spread(DimSpan from, DimSpan to);
    /// Null: each its own.
    const int64_t* of() const { return own_ ? nullptr : of_.data(); }

private:
    bool own_;
    std::vector<int64_t> of_;
};

/// The matrices' transposes, a view below the door.
Tensor transposed(const Tensor& A);

inline Tensor mT(const Tensor& A) { return transpose(A, -2, -1); }
inline Tensor mH(const Tensor& A) { return conj(mT(A)); }
/// A number for each matrix, as one that broadcasts with them.
inline Tensor each(const Tensor& numbers) { return unsqueeze(unsqueeze(numbers, -1), -1); }

}  // namespace weft::ops
