/// Exceptions as weft_error.
#pragma once
#include <string>

#include "c/weft.h"

namespace weft::c {

/// `error` may be null. A text for which there is no memory is null.
void fill(weft_error* error, const char* kind, const std::string& message,
          const std::string& trace = {}) noexcept;

/// The exception in flight. In the heap in which it was thrown.
void tell(weft_error* error) noexcept;

}  // namespace weft::c
