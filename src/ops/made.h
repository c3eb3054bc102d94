/// Records that are made at run time, beside those of the table: programs.
///
/// Note [Made records]
/// Who remembers records by their addresses, as the batcher does by its classes, holds on to one that was
/// made at run time, so that no other gets its address. Of one that is `retired` there are no more calls: it
/// need not be remembered once those that wait have run.
#pragma once
#include <memory>

#include "base/counter.h"
#include "base/site.h"
#include "ops/op.h"

namespace weft::ops {

struct MadeOp : Op, std::enable_shared_from_this<MadeOp> {
    MadeOp();
    virtual ~MadeOp();
    MadeOp(const MadeOp&) = delete;

    int64_t calls = 1;    ///< of other ops, for which one of it stands
    uint32_t used = 0;    ///< mask of outputs that it uses itself, as later calls might
    mutable Site failed;  ///< of these, that which made the last call fail

    void retire() {
        retired = true;
        all_retired.next();
    }
    bool retired = false;
    static Counter all_retired;  ///< how many ever were
};

/// `op` as one of them; null if it is of the table.
std::shared_ptr<const MadeOp> as_made(const Op& op);

}  // namespace weft::ops
