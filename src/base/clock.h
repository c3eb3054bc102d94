/// The clock of reports.
#pragma once
#include <chrono>

namespace weft {

/// Since some point in the past; never goes back.
inline double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

}  // namespace weft
