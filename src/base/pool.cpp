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

Pool::Lists::Lists() : limit(pooling() ? kMaxBytes : 0) {}

void Pool::Lists::empty() {
    for (List& list : of) {
        while (Link* link = list.head) {
            list.head = link->next;
            std::free(link);
        }
        list.bytes = 0;
    }
}

Pool::Lists Pool::process;

void* Pool::allocate_slow(size_t size) {
    size_t rounded = (size + kStep - 1) / kStep * kStep;
    void* pointer = std::malloc(rounded);
    if (!pointer) throw Error(ErrorKind::Memory, "[alloc] out of memory for the graph");
    return pointer;
}

void Pool::free_slow(void* pointer) { std::free(pointer); }

}  // namespace weft
