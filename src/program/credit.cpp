#include "program/credit.h"

#include <algorithm>
#include <iterator>

namespace weft::program {

bool Credit::was_here(uint64_t signature) {
    if (std::find(std::begin(recent_), std::end(recent_), signature) != std::end(recent_))
        return true;
    recent_[next_++ % kRecent] = signature;
    return false;
}

bool Credit::grants(uint64_t signature, bool at_once, bool has_any) {
    const auto tries = std::count(failed_.begin(), failed_.end(), signature);
    if (was_here(signature)) {
        if (tries < kMostTries) return true;
        over_ |= ++fruitless_ >= kMostFruitless && !has_any;
    }
    return at_once && tries == 0;
}

bool Credit::begins_rest() {
    if (debt_ < kMostDebt) return false;
    debt_ = 0;
    rests_ = rest_;
    rest_ = std::min(rest_ * 2, kLongestRest);
    return true;
}

void Credit::note_failure(uint64_t signature, bool has_any) {
    failed_.push_back(signature);
    over_ |= failed_.size() >= kMostFailures && !has_any;
}

}  // namespace weft::program
