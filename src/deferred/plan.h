/// Which calls run together, and in which order: a pure function.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace weft::deferred {

/// Calls by number, in the order in which they were made.
struct Program {
    std::span<const uint32_t> groups;    ///< calls of one group may run together
    std::span<const uint32_t> begins;    ///< operands of call c: [begins[c], begins[c + 1])
    std::span<const int32_t> producers;  ///< of each operand: an earlier call, or -1
    uint32_t group_count = 0;
};

struct Plan {
    std::vector<uint32_t> order;  ///< all calls, batch by batch
    std::vector<uint32_t> ends;   ///< of the batches, in `order`
};

/// Takes, again and again, the group whose calls lie lowest on average among those with calls that
/// are ready, and runs all its ready calls (Neubig, Goldberg and Dyer 2017). Depths are counted from
/// the inputs. What is needed late in all examples, such as the loss, so waits until it can run
/// once, although the examples reach it at unlike depths.
Plan make_plan(const Program& program);

}  // namespace weft::deferred
