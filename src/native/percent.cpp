/// `format % values`, as CPython has it.
#include <charconv>

#include "native/operators.h"
#include "native/tensors.h"
#include "native/utf8.h"

namespace weft::native {
namespace {

/// What may be asked for `%(key)…`, and whose items need not all be shown.
bool is_mapping(Raw values) {
    return values.is(Kind::Dict) || values.is(Kind::List) || values.is(Kind::Range) ||
           values.is_tensor();
}

/// What `%(key)…` names; leaves `at` behind it.
Thing value_of_key(const std::string& format, size_t& at, Raw values) {
    if (!is_mapping(values)) raise_as(types::TypeError, "format requires a mapping");
    const size_t begin = ++at;
    for (int depth = 1; depth; ++at) {
        if (at == format.size()) raise_as(types::ValueError, "incomplete format key");
        depth += (format[at] == '(') - (format[at] == ')');
    }
    return get_item(values, of_text(format.substr(begin, at - 1 - begin)).get());
}

/// A tensor as the number that `type` shows.
Thing number_of(Raw value, char type, bool whole) {
    if (!value.is_tensor()) return Thing::borrow(value);
    if (whole) return of_int(tensor_as_int(value));
    if (type == 'x' || type == 'X' || type == 'o') return of_int(tensor_index(value));
    return of_double(tensor_as_double(value));
}

std::string in_hex(int v) {
    char buffer[8];
    return {buffer, std::to_chars(buffer, buffer + sizeof buffer, v, 16).ptr};
}

/// `%c`
std::string character_of(Raw value) {
    if (value.is(Kind::Text) && characters_in(text_in(value)) == 1) return text_in(value);
    if (!is_int(value) && !value.is(Kind::Bool))
        raise_as(types::TypeError, "%c requires int or char");
    const int64_t code = int_in(value);
    if (code < 0 || code > 0x10ffff)
        raise_as(types::OverflowError, "%c arg not in range(0x110000)");
    if (code >= 0xd800 && code <= 0xdfff)
        fail(ErrorKind::Value, "%c", "a character of UTF-8", text(code));
    std::string out;
    append_character(out, static_cast<uint32_t>(code));
    return out;
}

}  // namespace

std::string percent_format(const std::string& format, Raw values) {
    const Raw one[] = {values};
    const Items all = values.is(Kind::Tuple) ? items_in(values) : Items{one, 1};
    int64_t used = 0;
    std::string out;
    for (size_t at = 0; at < format.size(); ++at) {
        if (format[at] != '%') {
            out += format[at];
            continue;
        }
        Thing keyed;
        if (format[++at] == '(') keyed = value_of_key(format, at, values);
        Raw value = keyed.get();
        const size_t begin = at;
        while (at < format.size() &&
               std::string_view("-+ 0#.123456789").find(format[at]) != std::string_view::npos)
            ++at;
        if (at == format.size()) raise_as(types::ValueError, "incomplete format");
        const char type = format[at];
        if (type == '%') {
            out += '%';
            continue;
        }
        if (!value) {
            if (used == all.size)
                raise_as(types::TypeError, "not enough arguments for format string");
            value = all[used++];
        }
        std::string spec = format.substr(begin, at - begin);
        const bool left = spec.starts_with('-');
        if (left) spec.erase(0, 1);
        if (std::string_view("srac").find(type) != std::string_view::npos) {
            const Thing shown = of_text(type == 's'   ? str_of(value)
                                        : type == 'r' ? repr_of(value)
                                        : type == 'a' ? ascii_of(repr_of(value))
                                                      : character_of(value));
            out += format_of(shown.get(), (left || spec.empty() ? "" : ">") + spec);
            continue;
        }
        if (std::string_view("diufFeEgGxXo").find(type) == std::string_view::npos)
            raise_as(types::ValueError, "unsupported format character '", type, "' (0x",
                     in_hex(static_cast<unsigned char>(type)), ") at index ", at);
        const bool whole = type == 'd' || type == 'i' || type == 'u';
        const Thing number = number_of(value, type, whole);
        if (!is_number(number.get()))
            raise_as(types::TypeError, "%", type, " format: a real number is required, not ",
                     type_name(value));
        const Thing shown = whole && number.is(Kind::Float)
                                ? of_int(int_of_double(double_in(number.get())))
                                : number;
        out += format_of(shown.get(), (left ? "<" : "") + spec + (whole ? 'd' : type));
    }
    if (used < all.size && values.is(Kind::Tuple))
        raise_as(types::TypeError, "not all arguments converted during string formatting");
    if (used == 0 && !values.is(Kind::Tuple) && !is_mapping(values))
        raise_as(types::TypeError, "not all arguments converted during string formatting");
    return out;
}

}  // namespace weft::native
