/// How calls become rows of one larger call: the rules that records name with `.batch(rule)`.
///
/// Note [Rows]
/// A rule looks at one call (layouts and attributes, no values) and says which inputs come row by
/// row and which are the same for all rows. An input of `rows * prod(row)` elements is that many
/// rows of the shape `row`, in its elements' logical order. The batched call gets, for each such
/// input, one tensor [R, *row] with the rows of all calls on top of each other, and must give
/// outputs whose elements are the calls' results, one after the other. So calls merge although they have unlike
/// numbers of rows, and dims in attributes are counted from the end.
#pragma once
#include "ops/table.h"

namespace weft {

/// The call that a rule looks at.
struct BatchCall {
    const Call& call;
    InputSet same;  ///< inputs that are one tensor, or one number, in every call of the kind

    bool fixed(int i) const { return same.has(i); }
    const Tensor& in(int i) const { return call.in[i]; }
    const Value& attr(int i) const { return call.attrs[i]; }
    int inputs() const { return call.inputs; }
};

struct BatchForm {
    struct Input {
        int from;           ///< which input of the call
        bool shared;        ///< passed as it is; it must be fixed, or undefined
        Dims row;           ///< else the shape of one row
        int64_t rows = -1;  ///< how many, where not `form.rows`
        int table = -1;  ///< of int64 indices: they count rows of this input, in each call from 0
        bool once = false;       ///< one row of each call, which all its rows read
        bool unlike = false;     ///< shared, but another one in some calls (Note [Unlike])
        DType as = DType::Bool;  ///< what an unlike number is converted to
        bool in_turn = false;    ///< shared, and read anew for each row of a call: a recurrence
    };
    const Op* op = nullptr;  ///< what runs, mostly the call's own op
    std::vector<Input> in;
    std::vector<Value> attrs;  ///< of `op`
    int64_t rows = 1;          ///< in one call
    bool wrap = false;         ///< negative indices count from the end of the table
    enum class Then : uint8_t { Nothing, Sum, Mean };
    Then then = Then::Nothing;  ///< what becomes of the rows of each call: losses
    int counts_attr = -1;  ///< attribute that gets the rows of each call, for ops that join them

    /// Asks the rule of the call's op. False if the call becomes no rows.
    bool ask(const BatchCall& c);
    bool any_once() const;
    /// The attributes of `op` over calls of so many rows each; `own` holds them where they differ.
    const Value* attrs_over(const Dims& counts, std::vector<Value>& own) const;
    /// What becomes of `rows`, the result for the rows of all calls.
    Tensor result_over(const Dims& counts, const Tensor& rows) const;

    void add_rows(int from, DimSpan row, int64_t n = -1) {
        in.push_back({from, false, Dims(row), n});
    }
    void add_once(int from, DimSpan row) {
        add_rows(from, row, 1);
        in.back().once = true;
    }
    /// Indices into the rows of input `table` of the form.
    void add_indices(int from, int table, int64_t n) { in.push_back({from, false, {}, n, table}); }
    void add_shared(int from) { in.push_back({from, true, {}}); }

    /// Indices of one call into its `rows` rows of a table, as those into a table where `first` rows of
    /// other calls lie before them. Where it ends: at the first index that is outside, or behind `n`.
    const int64_t* shift_indices(const int64_t* from, int64_t n, int64_t rows, int64_t first,
                                 int64_t* to) const;
};

namespace ops {

/// All inputs together from one dim on, which attribute `A` (Int or Ints) names.
template <int A>
bool batch_along(const BatchCall& c, BatchForm& form);
/// The same, where None or no dims stand for all: those are one row.
template <int A>
bool batch_over(const BatchCall& c, BatchForm& form);
/// A reduction of all elements as the op `name` of one row along its last dim, with `more` after it.
bool batch_all(const BatchCall& c, BatchForm& form, const char* name, const Value& dim,
               std::vector<Value> more);
/// Equal whole calls beside each other, attributes unchanged: for ops that take leading dims.
bool batch_whole(const BatchCall& c, BatchForm& form);
/// Input 0 as rows of its last `N` dims, further inputs shared.
template <int N>
bool batch_last(const BatchCall& c, BatchForm& form);
/// Input 0 as rows of its first dim, further inputs shared: images beside images.
bool batch_first(const BatchCall& c, BatchForm& form);

namespace detail {
bool batch_along(const BatchCall& c, BatchForm& form, int attr);
bool batch_over(const BatchCall& c, BatchForm& form, int attr);
bool batch_last(const BatchCall& c, BatchForm& form, int n);
}  // namespace detail

template <int A>
bool batch_along(const BatchCall& c, BatchForm& form) {
    return detail::batch_along(c, form, A);
}
template <int A>
bool batch_over(const BatchCall& c, BatchForm& form) {
    return detail::batch_over(c, form, A);
}
template <int N>
bool batch_last(const BatchCall& c, BatchForm& form) {
    return detail::batch_last(c, form, N);
}

/// A loss of equal shapes whose attribute 0 is the reduction: element by element, then reduced.
bool batch_loss(const BatchCall& c, BatchForm& form);

/// Elements of one row.
int64_t row_size(DimSpan row);

/// An output of a call over the rows of several.
struct OutputOverRows {
    Tensor all;           ///< the elements of all calls, in their order
    bool common = false;  ///< or one for all calls: what is made of shared operands alone
    bool fits = false;    ///< it has the elements that it should
};
/// Output k of `made`, where one of `calls` calls has `each` elements, and all have `total`.
OutputOverRows output_over_rows(Call& made, int k, int64_t calls, int64_t each, int64_t total,
                                DType dtype);

}  // namespace ops
}  // namespace weft
