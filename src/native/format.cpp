/// str, repr and format, as CPython has them (% is in percent.cpp). Reading guide: numbers; values; format specifications.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "native/callables.h"
#include "native/package.h"
#include "native/tensors.h"
#include "native/utf8.h"

namespace weft::native {
namespace {

/// Digits of a double by the letter of a format: e, f or g.
std::string digits_of(double v, char letter, int precision) {
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
    const auto how = letter == 'e'   ? std::chars_format::scientific
                     : letter == 'f' ? std::chars_format::fixed
                                     : std::chars_format::general;
    std::string out(static_cast<size_t>(precision) + 340, '\0');
    const auto end = std::to_chars(out.data(), out.data() + out.size(), v, how, precision);
    out.resize(static_cast<size_t>(end.ptr - out.data()));
    return out;
}

std::string repr_of_complex(std::complex<double> v) {
    auto part = [](double d) {
        std::string s = repr_of_double(d);
        return s.ends_with(".0") ? s.substr(0, s.size() - 2) : s;
    };
    const std::string imag = part(v.imag()) + "j";
    if (v.real() == 0 && !std::signbit(v.real())) return imag;
    return "(" + part(v.real()) + (std::signbit(v.imag()) || imag[0] == '-' ? "" : "+") + imag +
           ")";
}

/// What is being shown, and what around it: a list in itself is [...]. (No list of the thread's: an example that
/// waits for a tensor inside leaves the thread to others.)
struct Showing {
    Raw value;
    const Showing* around;
    int depth;

    Showing(Raw value, const Showing* around)
        : value(value), around(around), depth(around ? around->depth + 1 : 1) {
        if (depth > 501)
            raise_as(types::RecursionError,
                     "maximum recursion depth exceeded while getting the repr of an object");
    }
    bool again() const {
        const Showing* other = around;
        while (other && other->value != value) other = other->around;
        return other != nullptr;
    }
};

std::string repr_in(const Showing* around, Raw value);

std::string repr_of_items(const Showing& in, Raw sequence) {
    std::string out;
    for (int64_t k = 0; const Thing item = item_at(sequence, k); ++k)
        out += (k ? ", " : "") + repr_in(&in, item.get());
    return out;
}

std::string repr_of_bytes(const std::string& bytes) {
    std::string out;
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x80) {
            out += c;
            continue;
        }
        // as a character of two bytes, which ascii_of turns into \xNN
        append_character(out, byte);
    }
    return ascii_of(repr_of_text(out));
}

std::string repr_of_tuple(const Showing& in) {
    const Raw value = in.value;
    const Items items = items_in(value);
    const Class* of = value.as<Tuple>()->of;
    if (!of) return "(" + repr_of_items(in, value) + (items.size == 1 ? ",)" : ")");
    if (of == &bytes_class()) return "b" + repr_of_bytes(bytes_in(value));
    if (of->fields.empty()) return of->name + "([" + repr_of_items(in, value) + "])";
    const bool results = of->name.starts_with("torch.return_types.");
    std::string out = of->name + "(";
    for (int64_t k = 0; k < items.size; ++k)
        out += (results ? (k ? ",\n" : "\n") : (k ? ", " : "")) +
               of->fields[static_cast<size_t>(k)] + "=" + repr_in(&in, items[k]);
    return out + ")";
}

std::string repr_of_record(const Showing& in) {
    const auto* record = in.value.as<Record>();
    if (!record->of->is_data || record->of->is_opaque)
        return "<" + record->of->shown_name() + " object>";
    std::string out;
    for (size_t k = 0; k < record->fields.size(); ++k) {
        const Thing field = Thing::borrow(record->fields[k]);
        if (field && record->of->shows(record->of->fields[k]))
            out +=
                (out.empty() ? "" : ", ") + record->of->fields[k] + "=" + repr_in(&in, field.get());
    }
    return record->of->shown_name() + "(" + out + ")";
}

std::string repr_of_dict(const Showing& in) {
    const auto* dict = in.value.as<Dict>();
    const bool set = in.value.is(Kind::Set);
    if (set && dict->size == 0) return type_name(in.value) + "()";
    std::string out;
    for (size_t k = 0; k < dict->entries.size(); ++k) {
        const Thing key = Thing::borrow(dict->entries[k].key);
        const Thing value = Thing::borrow(dict->entries[k].value);
        if (!key) continue;
        out += (out.empty() ? "" : ", ") + repr_in(&in, key.get());
        if (!set) out += ": " + repr_in(&in, value.get());
    }
    out = "{" + out + "}";
    return dict->frozen ? "frozenset(" + out + ")" : out;
}

std::string repr_of_view(const Showing& in) {
    constexpr const char* names[] = {"dict_keys", "dict_values", "dict_items"};
    std::string out;
    for (const Thing& item : all_of(in.value))
        out += (out.empty() ? "" : ", ") + repr_in(&in, item.get());
    return text(names[static_cast<int>(in.value.as<View>()->of)], "([", out, "])");
}

std::string repr_of_range(const Range& r) {
    return r.step == 1 ? text("range(", r.start, ", ", r.stop, ")")
                       : text("range(", r.start, ", ", r.stop, ", ", r.step, ")");
}

std::string repr_of_error(const Showing& in) {
    const auto* e = in.value.as<Error>();
    return e->type->name + ("(" + repr_of_items(in, e->args)) + ")";
}

std::string repr_of_type(const Type& t) {
    if (t.kind == Kind::Tensor || t.kind == Kind::DType)
        return text("<class 'torch.", t.name, "'>");
    return text("<class '", t.name, "'>");
}

}  // namespace

std::string repr_of_double(double v) {
    if (!std::isfinite(v)) return digits_of(v, 'g', 6);
    char shortest[32];
    const auto end =
        std::to_chars(shortest, shortest + sizeof shortest, v, std::chars_format::scientific);
    const std::string_view all(shortest, static_cast<size_t>(end.ptr - shortest));
    const size_t e = all.find('e');
    int exponent = 0;
    std::from_chars(shortest + e + (all[e + 1] == '+' ? 2 : 1), end.ptr, exponent);
    if (exponent < -4 || exponent >= 16) return std::string(all);
    char fixed[64];
    const auto done = std::to_chars(fixed, fixed + sizeof fixed, v, std::chars_format::fixed);
    std::string out(fixed, done.ptr);
    return out.find('.') == out.npos ? out + ".0" : out;
}

std::string repr_of_text(std::string_view v) {
    const char quote = v.find('\'') != v.npos && v.find('"') == v.npos ? '"' : '\'';
    std::string out(1, quote);
    for (const char c : v) {
        constexpr char digits[] = "0123456789abcdef";
        const auto byte = static_cast<unsigned char>(c);
        if (c == quote || c == '\\') (out += '\\') += c;
        else if (c == '\n') out += "\\n";
        else if (c == '\r') out += "\\r";
        else if (c == '\t') out += "\\t";
        else if (byte < 0x20 || byte == 0x7f)
            ((out += "\\x") += digits[byte >> 4]) += digits[byte & 15];
        else out += c;
    }
    return out + quote;
}

std::string ascii_of(const std::string& v) {
    std::string out;
    for (size_t at = 0; at < v.size();) {
        const auto size = static_cast<size_t>(character_size(v, at));
        if (size == 1) {
            out += v[at++];
            continue;
        }
        const uint32_t code = code_of_character(v, at, size);
        at += size;
        const int width = code < 0x100 ? 2 : code < 0x10000 ? 4 : 8;
        out += code < 0x100 ? "\\x" : code < 0x10000 ? "\\u" : "\\U";
        for (int k = width - 1; k >= 0; --k) out += "0123456789abcdef"[code >> (4 * k) & 15];
    }
    return out;
}

namespace {

std::string repr_in(const Showing* around, Raw value) {
    switch (value.kind()) {
        case Kind::None:
            return "None";
        case Kind::Bool:
            return value.truth_of_bool() ? "True" : "False";
        case Kind::Int:
            return std::to_string(int_in(value));
        case Kind::Float:
            return repr_of_double(double_in(value));
        case Kind::Complex:
            return repr_of_complex(number_as_complex(value));
        case Kind::Text:
            return repr_of_text(text_in(value));
        case Kind::Tensor:
            return tensor_repr(value);
        case Kind::DType:
            return text("torch.", name(dtype_in(value)));
        case Kind::Ellipsis:
            return "Ellipsis";
        case Kind::Range:
            return repr_of_range(*value.as<Range>());
        case Kind::Type:
            return repr_of_type(*value.lasting<Type>());
        case Kind::Class:
            return text("<class '", value.lasting<Class>()->name, "'>");
        case Kind::Function:
            return text("<function ", value.lasting<Function>()->name, ">");
        case Kind::Builtin:
            return text("<built-in function ", value.lasting<Builtin>()->name, ">");
        case Kind::Ops:
            return text("<built-in function ", value.lasting<Ops>()->name, ">");
        default:
            break;
    }
    const Showing in(value, around);
    switch (value.kind()) {
        case Kind::List:
            return in.again() ? "[...]" : "[" + repr_of_items(in, value) + "]";
        case Kind::Tuple:
            return in.again() ? "(...)" : repr_of_tuple(in);
        case Kind::Dict:
        case Kind::Set:
            return in.again() ? "{...}" : repr_of_dict(in);
        case Kind::View:
            return repr_of_view(in);
        case Kind::Slice: {
            const auto* s = value.as<Slice>();
            return text("slice(", repr_in(&in, s->start), ", ", repr_in(&in, s->stop), ", ",
                        repr_in(&in, s->step), ")");
        }
        case Kind::Error:
            return repr_of_error(in);
        case Kind::Record:
            return in.again() ? "..." : repr_of_record(in);
        default:
            return text("<", type_name(value), " object>");
    }
}

}  // namespace

std::string repr_of(Raw value) { return repr_in(nullptr, value); }

std::string str_of(Raw value) {
    if (value.is(Kind::Text)) return text_in(value);
    return value.is(Kind::Error) ? message_of(*value.as<Error>()) : repr_of(value);
}

// ---- format specifications

namespace {

struct Spec {
    std::string fill = " ";
    char align = 0, sign = '-', type = 0, grouping = 0;
    bool other = false, zero = false;  ///< '#', '0'
    bool says_sign = false;
    int64_t width = 0, precision = -1;
};

constexpr int64_t kWidest = 1 << 24;

Spec spec_of(std::string_view s, Raw value) {
    Spec out;
    size_t at = 0;
    auto is_align = [&](size_t k) {
        return k < s.size() && std::string_view("<>=^").find(s[k]) != std::string_view::npos;
    };
    const std::string all(s);
    const size_t first = s.empty() ? 0 : static_cast<size_t>(character_size(all, 0));
    if (!s.empty() && is_align(first)) {
        out.fill = s.substr(0, first);
        out.align = s[first];
        at = first + 1;
    } else if (is_align(0)) {
        out.align = s[at++];
    }
    auto take = [&](std::string_view any) -> char {
        return at < s.size() && any.find(s[at]) != any.npos ? s[at++] : '\0';
    };
    if (const char c = take("+- ")) {
        out.sign = c;
        out.says_sign = true;
    }
    out.other = take("#") != 0;
    if (take("0") && !out.align) {
        out.zero = true;
        out.fill = "0";
        out.align = '=';
    }
    auto number = [&](int64_t& to) {
        const auto [end, error] = std::from_chars(s.data() + at, s.data() + s.size(), to);
        const bool any = end != s.data() + at;
        if (any && (error != std::errc() || to > kWidest))
            raise_as(types::ValueError, "Too many decimal digits in format string");
        at = static_cast<size_t>(end - s.data());
        return any;
    };
    if (at < s.size() && s[at] >= '0' && s[at] <= '9') number(out.width);
    out.grouping = take(",_");
    if (take(".") && !number(out.precision))
        raise_as(types::ValueError, "Format specifier missing precision");
    if (at < s.size()) out.type = s[at++];
    if (at < s.size())
        raise_as(types::ValueError, "Invalid format specifier '", s, "' for object of type '",
                 type_name(value), "'");
    return out;
}

std::string padded(const std::string& body, const std::string& sign, const Spec& spec, char align) {
    if (spec.align) align = spec.align;
    const int64_t more = spec.width - characters_in(sign) - characters_in(body);
    if (more <= 0) return sign + body;
    auto filled = [&](int64_t n) {
        std::string out;
        for (int64_t k = 0; k < n; ++k) out += spec.fill;
        return out;
    };
    switch (align) {
        case '<':
            return sign + body + filled(more);
        case '^':
            return filled(more / 2) + sign + body + filled(more - more / 2);
        case '=':
            return sign + filled(more) + body;
        default:
            return filled(more) + sign + body;
    }
}

/// Puts `grouping` between groups of digits before the point.
std::string grouped(const std::string& digits, char grouping, size_t size) {
    const char* all = size == 3 ? "0123456789" : "0123456789abcdefABCDEF";
    const size_t whole = std::min(digits.find_first_not_of(all), digits.size());
    std::string out;
    for (size_t k = 0; k < whole; ++k) {
        if (k && (whole - k) % size == 0) out += grouping;
        out += digits[k];
    }
    return out + digits.substr(whole);
}

[[noreturn]] void unknown_code(char code, Raw value) {
    raise_as(types::ValueError, "Unknown format code '", code, "' for object of type '",
             type_name(value), "'");
}

std::string sign_of(bool negative, const Spec& spec) {
    if (negative) return "-";
    return spec.sign == '-' ? "" : std::string(1, spec.sign);
}

std::string in_base(uint64_t v, int base, bool upper) {
    char buffer[72];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, v, base);
    std::string out(buffer, end.ptr);
    if (upper)
        std::ranges::transform(out, out.begin(),
                               [](char c) { return c >= 'a' ? static_cast<char>(c - 32) : c; });
    return out;
}

/// Of no letter: as g, but with a digit behind the point, and exponents one digit sooner.
std::string short_digits(double v, int precision) {
    if (!std::isfinite(v)) return digits_of(v, 'g', precision);
    auto without_zeros = [](std::string s) {
        while (s.find('.') != s.npos && (s.back() == '0' || s.back() == '.')) {
            const bool point = s.back() == '.';
            s.pop_back();
            if (point) break;
        }
        return s;
    };
    const std::string wide = digits_of(v, 'e', precision - 1);
    const size_t e = wide.find('e');
    int exponent = 0;
    std::from_chars(wide.data() + e + (wide[e + 1] == '+' ? 2 : 1), wide.data() + wide.size(),
                    exponent);
    if (exponent < -4 || exponent + 1 > precision - 1)
        return without_zeros(wide.substr(0, e)) + wide.substr(e);
    const std::string out = without_zeros(digits_of(v, 'f', std::max(precision - exponent - 1, 0)));
    return out.find('.') == out.npos ? out + ".0" : out;
}

/// Groups of digits; zeros that fill the width are grouped with them.
std::string grouped(std::string digits, const Spec& spec, const std::string& sign, size_t size) {
    std::string out = grouped(digits, spec.grouping, size);
    if (spec.fill != "0" || spec.align != '=' || digits[0] > '9') return out;  // or inf, nan
    const int64_t width = spec.width - characters_in(sign);
    while (static_cast<int64_t>(out.size()) < width)
        out = grouped(digits.insert(0, 1, '0'), spec.grouping, size);
    return out;
}

std::string format_double(double v, const Spec& spec, Raw value) {
    if (spec.other)
        raise_as(types::ValueError, "[format] expected a specification of a float without '#'");
    char type = spec.type;
    const bool upper = type == 'E' || type == 'F' || type == 'G';
    if (upper) type = static_cast<char>(type + 32);
    const bool percent = type == '%';
    auto precision = static_cast<int>(spec.precision < 0 ? 6 : spec.precision);
    std::string body;
    const double magnitude = std::fabs(v);
    if (type == 0 && spec.precision < 0) {
        body = repr_of_double(magnitude);
    } else if (type == 0) {
        body = short_digits(magnitude, std::max(precision, 1));
    } else if (percent) {
        body = digits_of(magnitude * 100, 'f', precision) + "%";
    } else if (type == 'e' || type == 'f') {
        body = digits_of(magnitude, type, precision);
    } else if (type == 'g' || type == 'n') {
        body = digits_of(magnitude, 'g', std::max(precision, 1));
    } else {
        unknown_code(spec.type, value);
    }
    if (upper)
        std::ranges::transform(body, body.begin(), [](char c) {
            return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
        });
    const std::string sign = sign_of(std::signbit(v) && !std::isnan(v), spec);
    if (spec.grouping) body = grouped(body, spec, sign, 3);
    return padded(body, sign, spec, '>');
}

/// Both parts in one form, the second with its sign.
std::string format_complex(std::complex<double> v, const Spec& spec, Raw value) {
    if (spec.width || spec.zero || !spec.type || spec.type == '%')
        raise_as(types::ValueError,
                 "[format] expected a specification of a complex with a type and without a width");
    Spec second = spec;
    second.sign = '+';
    return format_double(v.real(), spec, value) + format_double(v.imag(), second, value) + "j";
}

std::string format_int(int64_t v, const Spec& spec, Raw value) {
    const uint64_t magnitude = v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
    std::string sign = sign_of(v < 0, spec);
    const bool real =
        spec.type && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
    if (real) return format_double(static_cast<double>(v), spec, value);
    if (spec.precision >= 0)
        raise_as(types::ValueError, "Precision not allowed in integer format specifier");
    std::string body;
    switch (spec.type) {
        case 0:
        case 'd':
        case 'n':
            body = std::to_string(magnitude);
            break;
        case 'b':
        case 'o':
        case 'x':
        case 'X':
            body = in_base(magnitude,
                           spec.type == 'b'   ? 2
                           : spec.type == 'o' ? 8
                                              : 16,
                           spec.type == 'X');
            if (spec.other) (sign += '0') += spec.type;
            break;
        default:
            unknown_code(spec.type, value);
    }
    if (spec.grouping) body = grouped(body, spec, sign, spec.type == 0 || spec.type == 'd' ? 3 : 4);
    return padded(body, sign, spec, '>');
}

std::string format_text(std::string v, const Spec& spec, Raw value) {
    if (spec.type && spec.type != 's') unknown_code(spec.type, value);
    constexpr const char* where = " not allowed in string format specifier";
    if (spec.says_sign) raise_as(types::ValueError, spec.sign == ' ' ? "Space" : "Sign", where);
    if (spec.other) raise_as(types::ValueError, "Alternate form (#)", where);
    if (spec.grouping)
        raise_as(types::ValueError, "Cannot specify '", spec.grouping, "' with 's'.");
    if (spec.align == '=' && !spec.zero)
        raise_as(types::ValueError, "'=' alignment not allowed in string format specifier");
    if (spec.precision >= 0 && spec.precision < characters_in(v)) {
        size_t at = 0;
        for (int64_t k = 0; k < spec.precision; ++k)
            at += static_cast<size_t>(character_size(v, at));
        v.resize(at);
    }
    Spec plain = spec;
    if (spec.zero) plain.align = '<';
    return padded(v, "", plain, '<');
}

}  // namespace

std::string format_of(Raw value, std::string_view spec) {
    if (value.is_tensor() && value.tensor().ndim() == 0)
        return format_of(item_of(reading(value)).get(), spec);
    if (spec.empty()) return str_of(value);
    switch (value.kind()) {
        case Kind::Bool:
        case Kind::Int: {
            const Spec s = spec_of(spec, value);
            return format_int(int_in(value), s, value);
        }
        case Kind::Float:
            return format_double(double_in(value), spec_of(spec, value), value);
        case Kind::Complex:
            return format_complex(number_as_complex(value), spec_of(spec, value), value);
        case Kind::Text:
            return format_text(text_in(value), spec_of(spec, value), value);
        default:
            raise_as(types::TypeError, "unsupported format string passed to ", type_name(value),
                     ".__format__");
    }
}

}  // namespace weft::native
