#include "program/arena.h"

#include <algorithm>

namespace weft::program {

int64_t Arena::take(int64_t bytes) {
    const int64_t size = std::max<int64_t>(64, (bytes + 63) / 64 * 64);  // places are unlike
    int64_t begin = 0;
    auto at = taken_.begin();
    for (; at != taken_.end() && at->begin - begin < size; ++at) begin = at->end;
    taken_.insert(at, {begin, begin + size});
    bytes_ = std::max(bytes_, begin + size);
    return begin;
}

void Arena::give_back(int64_t offset) {
    auto at = std::find_if(taken_.begin(), taken_.end(),
                           [&](const Block& b) { return b.begin == offset; });
    taken_.erase(at);
}

}  // namespace weft::program
