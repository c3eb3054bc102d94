/// Who reads memory that is about to be written.
#pragma once
#include <unordered_map>

#include "deferred/waiting.h"

namespace weft::deferred {

/// The examples that read memory, by its address, in the calls that wait on one tape.
class Readers {
public:
    static constexpr uint64_t kNobody = UINT64_MAX, kSeveral = UINT64_MAX - 1;
    /// The example that made all waiting calls which read this memory, kSeveral, or kNobody.
    uint64_t of(const Waiting& load, const Storage& storage);
    /// The last example of the batch that has read it, in those calls or before; 0: none.
    uint64_t last(const Waiting& load, const Storage& storage);
    /// The calls are taken away: who read memory older than the batch stays known to that.
    void forget(const Waiting& load);

private:
    struct By {
        uint64_t only, last;
    };
    void list(const Waiting& load);
    std::unordered_map<const void*, By> readers_;  ///< in the first `listed_` calls
    size_t listed_ = 0;
};

}  // namespace weft::deferred
