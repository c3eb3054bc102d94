#include "native/utf8.h"

namespace weft::native {

size_t utf8_size(std::string_view text, size_t at) {
    const auto lead = static_cast<unsigned char>(text[at]);
    if (lead < 0x80) return 1;
    const size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || text.size() - at <= more) return 0;
    for (size_t k = 1; k <= more; ++k)
        if ((static_cast<unsigned char>(text[at + k]) & 0xc0) != 0x80) return 0;
    const uint32_t code = code_of_character(text, at, more + 1);
    constexpr uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    const bool good = code >= least[more] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    return good ? more + 1 : 0;
}

uint32_t code_of_character(std::string_view text, size_t at, size_t size) {
    uint32_t code = static_cast<unsigned char>(text[at]) & (size == 1 ? 0x7fu : 0x7fu >> size);
    for (size_t k = 1; k < size && at + k < text.size(); ++k)
        code = code << 6 | (static_cast<unsigned char>(text[at + k]) & 0x3f);
    return code;
}

void append_character(std::string& out, uint32_t code) {
    auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
    if (code < 0x80) return put(code);
    if (code < 0x800) {
        put(0xc0 | code >> 6);
    } else if (code < 0x10000) {
        put(0xe0 | code >> 12);
        put(0x80 | (code >> 6 & 0x3f));
    } else {
        put(0xf0 | code >> 18);
        put(0x80 | (code >> 12 & 0x3f));
        put(0x80 | (code >> 6 & 0x3f));
    }
    put(0x80 | (code & 0x3f));
}

bool is_utf8(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
        const size_t size = utf8_size(text, at);
        if (!size) return false;
        at += size;
    }
    return true;
}

}  // namespace weft::native
