#include "base/error.h"

namespace weft {

std::string concatenated(std::initializer_list<Streamed> parts) {
    std::ostringstream out;
    for (const Streamed& part : parts) part.put(out, part.value);
    return out.str();
}

}  // namespace weft
