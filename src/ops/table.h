/// The table of all ops. Families register explicitly in table.cpp.
#pragma once
#include <deque>
#include <source_location>
#include <string_view>
#include <unordered_map>

#include "ops/builder.h"

namespace weft {

class Table {
public:
    /// `schema` is "name[.overload](Type arg, ..., *, Type arg=default) -> Tensor". Types: Tensor,
    /// Tensor?, Tensor[], int, int?, int[], int[]?, float, float?, bool, Scalar, Scalar?, dtype?,
    /// str. Throws on a malformed schema or a name that is taken.
    OpBuilder add(std::string_view schema,
                  std::source_location where = std::source_location::current());
    const Op* find(std::string_view name) const;  ///< nullptr if there is none
    const Op& at(std::string_view name) const;
    const std::deque<Op>& all() const { return ops_; }

private:
    std::deque<Op> ops_;
    std::unordered_map<std::string, Op*> by_name_;
};

/// The one table; every family is registered on first use.
const Table& table();

}  // namespace weft
