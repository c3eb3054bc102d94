/// Offsets in one piece of memory for blocks that are not all needed at the same time.
#pragma once
#include <cstdint>
#include <vector>

namespace weft::program {

class Arena {
public:
    /// The lowest gap that is free: an offset that is a multiple of 64.
    int64_t take(int64_t bytes);
    void give_back(int64_t offset);
    /// How much it ever needed.
    int64_t bytes() const { return bytes_; }

private:
    struct Block {
        int64_t begin, end;
    };
    std::vector<Block> taken_;  ///< by their places
    int64_t bytes_ = 0;
};

}  // namespace weft::program
