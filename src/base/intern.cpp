#include "base/intern.h"

#include <mutex>
#include <unordered_set>

namespace weft {

const char* intern(const std::string& name) {
    static std::mutex mutex;
    static auto* names = new std::unordered_set<std::string>;  // never destroyed: nodes print late
    std::lock_guard lock(mutex);
    return names->insert(name).first->c_str();
}

}  // namespace weft
