/// UTF-8, and whether bytes are it: no character is longer than it need be, or half of a surrogate pair.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace weft::native {

/// Bytes of the character that begins at `at`; 0 if none does.
size_t utf8_size(std::string_view text, size_t at);
bool is_utf8(std::string_view text);
/// The number of a character of `size` bytes.
uint32_t code_of_character(std::string_view text, size_t at, size_t size);
void append_character(std::string& out, uint32_t code);

}  // namespace weft::native
