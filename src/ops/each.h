/// Several calls of one op, of unlike shapes, as one call.
///
/// Note [Each]
/// Where calls cannot be rows of one kernel call (reductions along a dim of unlike length, attention
/// or convolutions over unlike lengths), they are one call all the same: `each_of(op)` takes the
/// elements of all calls' operands one after the other, runs the op's own kernel on each call's part,
/// and leaves the results one after the other. So the values are the loop's to the bit, there is no
/// padding, and the graph has one node. Its gradient runs the op's own rules on each part; where the
/// graph of gradients is wanted it is that of the loop. No op needs to know of it.
///
/// The one attribute more says what the calls are, in words:
///   calls, inputs, kind of each input, outputs, dtype of each output, attributes that differ, which;
///   of each call: ndim and sizes of its own inputs, then of its outputs, then those attributes.
#pragma once
#include "ops/way.h"

namespace weft::ops {

/// What an input of `each_of(op)` is.
enum class EachInput : int64_t {
    Shared,  ///< the same in all calls, passed as it is, or undefined
    Own,     ///< 1-d: the elements of all calls
    Number,  ///< the same, of wrapped numbers, which are 0-d
};

/// The words that stand before those of the calls.
void append_head(std::vector<int64_t>& words, int64_t calls, const std::vector<EachInput>& inputs,
                 const std::vector<DType>& outputs, const std::vector<int>& differing);
/// The words of a shape, of an attribute that may differ.
void append_shape(std::vector<int64_t>& words, DimSpan shape);
void append_attribute(std::vector<int64_t>& words, const Value& value);
/// Of the words of one call: the elements of its own input `i`.
int64_t elements_of(const std::vector<int64_t>& words, const std::vector<EachInput>& inputs,
                    size_t i);
/// Whether calls may differ in attribute `k`, which is `value` in one: numbers and sizes.
bool may_differ(const Op& op, size_t k, const Value& value);

/// Whether calls of `op` may be parts of one.
bool has_each(const Op& op);
/// `op` over several calls; its last attribute holds the words.
const Op& each_of(const Op& op);
/// Which elements of output `k` of `each_of(op)` are of the calls that the elements `part` of input or
/// output `saved` (the bit of save_in, save_out) are of.
Span outputs_of_part(const Op& op, const Value* attrs, int saved, Span part, int k);

}  // namespace weft::ops
