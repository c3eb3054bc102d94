#include "ops/linalg.h"

#include <algorithm>

namespace weft::ops {

void expect_matrix(std::string_view who, const Tensor& A, bool square) {
    const int n = A.ndim();
    WEFT_EXPECT(n >= 2, Runtime, who, "matrices",
                text(to_string(A.shape()), " (", who,
                     ": The input tensor A must have at least 2 dimensions.)"));
    WEFT_EXPECT(!square || A.size(n - 1) == A.size(n - 2), Runtime, who, "square matrices",
                text("others (", who, ": A must be batches of square matrices, but they are ",
                     A.size(n - 2), " by ", A.size(n - 1), " matrices)"));
    const DType t = A.dtype();
    static constexpr std::string_view kRefusing[] = {
        "linalg.lu",       "linalg.lu_factor",        "linalg.lu_factor_ex",
        "linalg.lu_solve", "linalg.solve_triangular", "linalg.householder_product"};
    if (!is_inexact(t))  // of two types, as PyTorch's
        fail(std::ranges::find(kRefusing, who) != std::end(kRefusing) ? ErrorKind::NotImplemented
                                                                      : ErrorKind::Runtime,
             who, "a floating or complex tensor", name(t));
    WEFT_EXPECT(!is_narrow(t), NotImplemented, who, "float32, float64 or complex numbers", name(t),
                "convert with .float() first");
}

void expect_like(std::string_view who, const Tensor& A, const Tensor& B) {
    WEFT_EXPECT(A.dtype() == B.dtype(), Runtime, who, "one dtype",
                text(name(A.dtype()), " and ", name(B.dtype())), "convert one with .to()");
}

Matrices::Matrices(const Tensor& A) : rows(A.size(A.ndim() - 2)), columns(A.size(A.ndim() - 1)) {
    count = 1;
    for (const int64_t size : batch_of(A)) count *= size;
}

Dims joined(DimSpan lead, std::initializer_list<int64_t> more) {
    Dims out(lead);
    for (const int64_t size : more) out.push_back(size);
    return out;
}

Tensor transposed(const Tensor& A) {
    Dims shape(A.shape()), strides(A.strides());
    const int n = A.ndim();
    std::swap(shape[n - 1], shape[n - 2]);
    std::swap(strides[n - 1], strides[n - 2]);
    return A.view_as(shape, strides);
}

int64_t first_failed(const Tensor& info) {
    const auto* at = info.data<int32_t>();
    for (int64_t i = 0; i < info.numel(); ++i)
        if (at[i]) return i;
    return -1;
}

std::string batch_element(const Tensor& info, int64_t at) {
    return info.ndim() ? text("(Batch element ", at, "): ") : "";
}

Spread::Spread(DimSpan from, DimSpan to) : own_(equal(from, to)) {
    if (own_) return;
    const size_t lead = to.size() - from.size();
    Dims strides(to.size(), 0), at(to.size(), 0);
    int64_t step = 1, count = 1, place = 0;
    for (size_t d = from.size(); d-- > 0; step *= from[d])
        if (from[d] != 1) strides[lead + d] = step;
    for (const int64_t size : to) count *= size;
    of_.resize(static_cast<size_t>(count));
    for (int64_t& of : of_) {
        of = place;
        for (size_t d = to.size(); d-- > 0;) {
            place += strides[d];
            if (++at[d] < to[d]) break;
            place -= strides[d] * to[d];
            at[d] = 0;
        }
    }
}

}  // namespace weft::ops
