#include "ops/made.h"

#include <unordered_set>

namespace weft::ops {
namespace {

std::unordered_set<const Op*>& all_made() {
    static auto* all = new std::unordered_set<const Op*>;  // outlives what Python drops at exit
    return *all;
}

}  // namespace

MadeOp::MadeOp() { all_made().insert(this); }
MadeOp::~MadeOp() { all_made().erase(this); }

std::shared_ptr<const MadeOp> as_made(const Op& op) {
    if (!all_made().contains(&op)) return nullptr;
    return static_cast<const MadeOp&>(op).shared_from_this();
}

}  // namespace weft::ops
