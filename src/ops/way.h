/// Where elements of a call's inputs go in its results.
///
/// Elements are numbered as they lie in a dense tensor. A record says it by `.way(rule)` where calls of
/// the op stand between the batches of many examples; for others the rules of `each_way` hold.
#pragma once
#include <algorithm>

#include "base/function_ref.h"
#include "ops/op.h"

namespace weft::ops {

/// A range of numbers: of elements, or of bytes.
struct Span {
    int64_t begin, end;
    bool empty() const { return begin >= end; }
};
inline Span within(Span a, Span b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

/// `elements` of input `input`, which is of shape `in`; asked for is output `output`, of shape `out`.
struct Way {
    const Value* attrs;
    int input;
    DimSpan in;
    int output;
    DimSpan out;
    Span elements;
};

/// Adds ranges of elements of the output in which those of the input have a part. They may be too
/// large, and reach beyond the output; an empty one says that the input is used, by no element.
using AddSpan = FunctionRef<void(Span)>;

/// The same of any op. False: it is not told, all may be.
bool each_way(const Op& op, const Way& way, AddSpan add);

}  // namespace weft::ops
