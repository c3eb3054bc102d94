/// Names made at run time that live as long as the program.
#pragma once
#include <string>

namespace weft {

/// The one copy of `name`. From any thread.
const char* intern(const std::string& name);

}  // namespace weft
