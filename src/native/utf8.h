/// Whether bytes are UTF-8: no character is longer than it need be, or half of a surrogate pair.
#pragma once
#include <string_view>

namespace weft::native {

/// Bytes of the character that begins at `at`; 0 if none does.
size_t utf8_size(std::string_view text, size_t at);
bool is_utf8(std::string_view text);

}  // namespace weft::native
