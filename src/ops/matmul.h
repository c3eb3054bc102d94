/// A product with all decided that layouts decide.
#pragma once
#include "kernels/dot_row.h"
#include "kernels/matmul.h"
#include "ops/op.h"

namespace weft::ops {

/// How a matrix lies in memory: rows one after the other, columns, or neither.
struct Layout {
    kernels::Trans trans;
    int64_t lead;
    bool fits;
};

/// Of the last two dimensions.
Layout layout_of(const Tensor& t);

/// What mm, bmm, addmm and linear run on operands that lie as products want them: outer times batch times
/// out[m, n] = alpha * a[m, k] b[k, n] + beta * added. Who runs one again and again keeps it (program/plan.h).
struct Product {
    DType dtype;
    int a, b, added = -1;  ///< which inputs of the call; added: -1 for none
    kernels::Trans trans_a = kernels::Trans::No, trans_b = kernels::Trans::No;
    int64_t outer = 1, batch = 1, m, n, k;
    int64_t lead_a, lead_b;  ///< elements between rows, or columns where transposed
    int64_t lead_out = 0;    ///< 0: `out` is contiguous
    int64_t step_a = 0, step_b = 0, step_out = 0;     ///< elements between matrices of a batch
    int64_t outer_a = 0, outer_b = 0, outer_out = 0;  ///< between batches
    int64_t lead_added = 0;                           ///< 0 repeats one row
    double alpha = 1, beta = 1;

    /// Itself as a row of dots, with no `plus`, if it is one: for who runs it again and again.
    kernels::DotRow as_row() const;
    /// `plus`: added to each element of what that gives, with `added`, of a contiguous result.
    void run(char* out, const char* a, const char* b, const char* added,
             const char* plus = nullptr) const;
};

/// The product that a call with its outputs laid out is, told from layouts alone. False: it is none of these ops, or
/// something has to be converted or copied first.
bool find_product(const Call& c, Product& found);
/// The same of any dtype, for kernels of their own.
bool describe_product(const Call& c, Product& found);

/// Runs a product of bfloat16 where the processor has an instruction for it; false: it does not, or the call is another.
bool run_bf16_product(Call& c);

// The same for one op each, of a wide real dtype, which `found` has already. False: an operand has to be copied first.
bool mm_product(const Call& c, Product& found);
/// Operands and result may have two batch dimensions instead of one, in any order in memory.
bool bmm_product(const Call& c, Product& found);
bool addmm_product(const Call& c, Product& found);
bool linear_product(const Call& c, Product& found);
/// A tensor whose last two dimensions lie so: `t` itself if it does.
Tensor as_matrices(const Tensor& t);

}  // namespace weft::ops
