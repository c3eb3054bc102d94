#include "ops/made.h"

#include <mutex>
#include <unordered_set>

namespace weft::ops {
namespace {

struct AllMade {
    std::mutex mutex;
    std::unordered_set<const Op*> ops;  // guarded by it
};

AllMade& all_made() {
    static auto* all = new AllMade;  // outlives what Python drops at exit
    return *all;
}

}  // namespace

Counter MadeOp::all_retired;

MadeOp::MadeOp() {
    std::lock_guard lock(all_made().mutex);
    all_made().ops.insert(this);
}
MadeOp::~MadeOp() {
    std::lock_guard lock(all_made().mutex);
    all_made().ops.erase(this);
}

std::shared_ptr<const MadeOp> as_made(const Op& op) {
    std::lock_guard lock(all_made().mutex);
    if (!all_made().ops.contains(&op)) return nullptr;
    return static_cast<const MadeOp&>(op).shared_from_this();
}

}  // namespace weft::ops
