/// Copies between layouts: dense rows, transposes, broadcasts, reversals.
#pragma once
#include <cstdint>
#include <span>

namespace weft::kernels {

/// to[i] = from[i] for every index of `shape`, elements of `item` bytes (1, 2, 4, 8 or 16). Strides count
/// elements; 0 in `from_strides` repeats an element, negative ones are allowed. The two must not
/// overlap, nor the places of `to` each other.
void copy_strided(char* to, const char* from, int item, std::span<const int64_t> shape,
                  std::span<const int64_t> to_strides, std::span<const int64_t> from_strides);

/// One operand of concatenate: `outer` dense rows of `bytes`, or of as many zero bytes.
struct Part {
    const char* from;  ///< null: zeros
    int64_t bytes;
};
/// Row o of `to` is row o of each part, one behind the other; elements of `item` bytes.
void concatenate(char* to, std::span<const Part> parts, int64_t outer, int item);

}  // namespace weft::kernels
