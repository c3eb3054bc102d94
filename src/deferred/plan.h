/// Which calls run together, and in which order.
#pragma once
#include <cstdint>
#include <memory>
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

/// A program in memory of its own.
struct Structure {
    std::vector<uint32_t> groups, begins;
    std::vector<int32_t> producers;
    bool operator==(const Structure&) const = default;
};

/// Plans of the latest structures, compared word by word.
class Plans {
public:
    /// The plan of a structure of groups below `group_count`; `known` tells whether it was there.
    std::shared_ptr<const Plan> of(Structure structure, size_t group_count, bool& known);
    void clear() {
        plans_.clear();
        calls_ = 0;
    }

private:
    // An example that reads some thirty values has as many structures, small ones.
    static constexpr size_t kMost = 32, kMostCalls = 1 << 17;
    struct Known {
        Structure structure;
        Plan plan;
    };
    std::vector<std::shared_ptr<const Known>> plans_;  ///< latest first
    size_t calls_ = 0;                                 ///< in all of them
};

}  // namespace weft::deferred
