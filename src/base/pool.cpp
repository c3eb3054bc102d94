#include "base/pool.h"

#include <cstdlib>

#include "base/error.h"

namespace weft {
namespace {

bool pooling() {
#if defined(__SANITIZE_ADDRESS__)
    return false;
#else
    const char* wish = std::getenv("WEFT_CACHE");
    return !(wish && wish[0] == '0');
#endif
}

}  // namespace

Pool::List Pool::lists_[kMaxSize / kStep + 1];
size_t Pool::limit_ = pooling() ? kMaxBytes : 0;

void* Pool::allocate_slow(size_t size) {
    size_t rounded = (size + kStep - 1) / kStep * kStep;
    void* pointer = std::malloc(rounded);
    if (!pointer) throw Error(ErrorKind::Memory, "[alloc] out of memory for the graph");
    return pointer;
}

void Pool::free_slow(void* pointer) { std::free(pointer); }

}  // namespace weft
