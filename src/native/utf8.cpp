#include "native/utf8.h"

#include <cstdint>

namespace weft::native {

size_t utf8_size(std::string_view text, size_t at) {
    const auto lead = static_cast<unsigned char>(text[at]);
    if (lead < 0x80) return 1;
    const size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || text.size() - at <= more) return 0;
    uint32_t code = lead & (0x3fu >> more);
    for (size_t k = 1; k <= more; ++k) {
        const auto c = static_cast<unsigned char>(text[at + k]);
        if ((c & 0xc0) != 0x80) return 0;
        code = code << 6 | (c & 0x3f);
    }
    constexpr uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    const bool good = code >= least[more] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    return good ? more + 1 : 0;
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
