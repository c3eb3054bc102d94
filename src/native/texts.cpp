/// Methods of texts. `g.args[0]` is the text itself. Reading guide: parts of a text, then searching, splitting, filling,
/// what characters are, and format.
///
/// Note [Letters]
/// A text is UTF-8, and its places are counted in characters. Which characters are letters, digits or spaces, and how
/// they change their case, this layer knows of ASCII alone: a method that asks for it raises for other texts.
#include <algorithm>

#include "native/host.h"

namespace weft::native {
namespace {

const std::string& self(const Given& g) { return text_in(g.args[0]); }
const std::string& as_text(Raw r, const char* who) {
    if (!r.is(Kind::Text))
        raise_as(types::TypeError, who, " argument must be str, not ", type_name(r));
    return text_in(r);
}
const std::string& text_argument(const Given& g, int64_t k, const char* who) {
    return as_text(g.args[k], who);
}
/// By place or by name; None where it is neither.
Raw given_or_none(const Given& g, int64_t k, std::string_view name) {
    const Raw found = g.n > k ? g.args[k] : word(g, name);
    return found ? found : Raw::none();
}
const std::string& separator(Raw r) {
    const std::string& by = as_text(r, "separator");
    if (by.empty()) raise_as(types::ValueError, "empty separator");
    return by;
}

/// Of what is asked for letters, digits or spaces (Note [Letters]).
const std::string& ascii_self(const Given& g, const char* who) {
    const std::string& s = self(g);
    if (std::ranges::any_of(s, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
        raise_as(types::ValueError, "[str.", who, "] expected a text of ASCII, got ",
                 repr_of(g.args[0]));
    return s;
}
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_letter(char c) { return is_lower(c) || is_upper(c); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f');
}
/// Of what is asked for spaces alone: its letters may be any.
void expect_plain_spaces(Raw text) {
    constexpr std::string_view others[] = {
        "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81",
        "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86",
        "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8",
        "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
    for (const std::string_view space : others)
        if (text_in(text).find(space) != std::string::npos)
            raise_as(types::ValueError, "[str] expected spaces of ASCII, got ", repr_of(text));
}
char lower(char c) { return is_upper(c) ? static_cast<char>(c + 32) : c; }
char upper(char c) { return is_lower(c) ? static_cast<char>(c - 32) : c; }

// ---- parts

/// The part of a text between two places that are given as arguments; none of those Python looks in where it begins
/// behind its end.
struct Part {
    std::string_view text;
    int64_t begin = 0;  ///< in characters
    bool is_one = false;

    Part(const Given& g, int64_t k) {
        const std::string& s = self(g);
        const int64_t size = characters_in(s);
        auto place = [&](int64_t at, int64_t otherwise) {
            if (g.n <= at || g.args[at].is_none()) return otherwise;
            const int64_t v = index_of(g.args[at], nullptr);
            return v < 0 ? std::max<int64_t>(v + size, 0) : v;
        };
        begin = place(k, 0);
        const int64_t end = std::min(place(k + 1, size), size);
        is_one = begin <= end;
        if (!is_one) return;
        size_t from = 0;
        for (int64_t i = 0; i < begin; ++i) from += static_cast<size_t>(character_size(s, from));
        size_t to = from;
        for (int64_t i = begin; i < end; ++i) to += static_cast<size_t>(character_size(s, to));
        text = std::string_view(s).substr(from, to - from);
    }
};

// ---- searching

template <bool Last>
int64_t found_in(const Given& g, const char* who) {
    const std::string& wanted = text_argument(g, 1, who);
    const Part part(g, 2);
    if (!part.is_one) return -1;
    const size_t at = Last ? part.text.rfind(wanted) : part.text.find(wanted);
    if (at == std::string_view::npos) return -1;
    return part.begin + characters_in(std::string(part.text.substr(0, at)));
}
template <bool Last>
Thing text_find(Host&, const Given& g) {
    return of_int(found_in<Last>(g, Last ? "rfind()" : "find()"));
}
template <bool Last>
Thing text_index(Host&, const Given& g) {
    const int64_t at = found_in<Last>(g, Last ? "rindex()" : "index()");
    if (at < 0) raise_as(types::ValueError, "substring not found");
    return of_int(at);
}
Thing text_count(Host&, const Given& g) {
    const std::string& of = text_argument(g, 1, "count()");
    const Part part(g, 2);
    if (!part.is_one) return of_int(0);
    if (of.empty()) return of_int(characters_in(std::string(part.text)) + 1);
    int64_t n = 0;
    for (size_t at = 0; (at = part.text.find(of, at)) != part.text.npos; at += of.size()) ++n;
    return of_int(n);
}

template <bool Ends>
Thing text_begins(Host&, const Given& g) {
    const Raw one[] = {g.args[1]};
    const Items all = g.args[1].is(Kind::Tuple) ? items_in(g.args[1]) : Items{one, 1};
    const Part part(g, 2);
    for (Raw r : all) {
        if (!r.is(Kind::Text))
            raise_as(types::TypeError, Ends ? "endswith" : "startswith",
                     " first arg must be str or a tuple of str, not ", type_name(r));
        const std::string& wanted = text_in(r);
        if (part.is_one && (Ends ? part.text.ends_with(wanted) : part.text.starts_with(wanted)))
            return of_bool(true);
    }
    return of_bool(false);
}

Thing text_replace(Host&, const Given& g) {
    const std::string &s = self(g), &from = text_argument(g, 1, "replace()"),
                      &to = text_argument(g, 2, "replace()");
    int64_t most = g.n > 3 ? index_of(g.args[3], nullptr) : -1;
    std::string out;
    size_t at = 0;
    if (from.empty()) {  // before each character, and at the end
        while (at < s.size() && most != 0) {
            const auto size = static_cast<size_t>(character_size(s, at));
            out += to + s.substr(at, size);
            at += size;
            --most;
        }
        return of_text(out + (most != 0 ? to : "") + s.substr(at));
    }
    for (size_t found; most != 0 && (found = s.find(from, at)) != s.npos; --most) {
        out += s.substr(at, found - at) + to;
        at = found + from.size();
    }
    return of_text(out + s.substr(at));
}

// ---- splitting and joining

Thing text_join(Host&, const Given& g) {
    if (!has_items(g.args[1])) raise_as(types::TypeError, "can only join an iterable");
    std::string out;
    int64_t k = 0;
    for (const Thing& item : all_of(g.args[1])) {
        if (!item.is(Kind::Text))
            raise_as(types::TypeError, "sequence item ", k, ": expected str instance, ",
                     type_name(item.get()), " found");
        out += (k++ ? self(g) : "") + text_in(item.get());
    }
    return of_text(std::move(out));
}

using Words = std::vector<std::string>;

Words split_at_spaces(const std::string& s, int64_t most) {
    Words out;
    size_t at = 0;
    for (;;) {
        while (at < s.size() && is_space(s[at])) ++at;
        if (at == s.size()) return out;
        size_t end = at;
        while (end < s.size() && !is_space(s[end])) ++end;
        if (most-- == 0) end = s.size();
        out.push_back(s.substr(at, end - at));
        at = end;
    }
}
Words split_at(const std::string& s, const std::string& by, int64_t most) {
    Words out;
    size_t at = 0;
    for (;;) {
        const size_t end = most-- == 0 ? s.npos : s.find(by, at);
        out.push_back(s.substr(at, end == s.npos ? end : end - at));
        if (end == s.npos) return out;
        at = end + by.size();
    }
}
std::string turned(std::string s) {
    std::ranges::reverse(s);
    return s;
}
/// From the right it is the turned text that is split.
template <bool Last>
Thing text_split(Host&, const Given& g) {
    const Raw by = given_or_none(g, 1, "sep"), times = given_or_none(g, 2, "maxsplit");
    const int64_t most = times.is_none() ? -1 : index_of(times, nullptr);
    const std::string s = Last ? turned(self(g)) : self(g);
    Words words;
    if (by.is_none()) {
        expect_plain_spaces(g.args[0]);
        words = split_at_spaces(s, most);
    } else {
        const std::string& text = separator(by);
        words = split_at(s, Last ? turned(text) : text, most);
    }
    if (Last) std::ranges::reverse(words);
    std::vector<Thing> out;
    for (std::string& one : words) out.push_back(of_text(Last ? turned(one) : one));
    return list_of(std::move(out));
}

template <bool Last>
Thing text_partition(Host&, const Given& g) {
    const std::string &s = self(g), &by = separator(g.args[1]);
    const size_t at = Last ? s.rfind(by) : s.find(by);
    const bool found = at != s.npos;
    std::vector<Thing> out;
    out.push_back(of_text(found ? s.substr(0, at) : Last ? "" : s));
    out.push_back(of_text(found ? by : ""));
    out.push_back(of_text(found ? s.substr(at + by.size()) : Last ? s : ""));
    return tuple_of(std::move(out));
}

Thing text_lines(Host&, const Given& g) {
    const std::string& s = self(g);
    expect_plain_spaces(g.args[0]);
    const Raw keeps = given_or_none(g, 1, "keepends");
    std::vector<Thing> out;
    for (size_t at = 0; at < s.size();) {
        const size_t end = std::min(s.find_first_of("\n\r\v\f\x1c\x1d\x1e", at), s.size());
        size_t next = std::min(end + 1, s.size());
        if (end + 1 < s.size() && s[end] == '\r' && s[end + 1] == '\n') ++next;
        out.push_back(of_text(s.substr(at, (truth(keeps) ? next : end) - at)));
        at = next;
    }
    return list_of(std::move(out));
}

// ---- what stands at the ends

template <bool Left, bool Right>
Thing text_strip(Host&, const Given& g) {
    const bool given = g.n > 1 && !g.args[1].is_none();
    const std::string& s = self(g);
    if (!given) expect_plain_spaces(g.args[0]);
    const std::string& any = given ? text_argument(g, 1, "strip") : s;
    std::vector<size_t> at;  // of each character, and the end
    for (size_t k = 0; k < s.size(); k += static_cast<size_t>(character_size(s, k)))
        at.push_back(k);
    at.push_back(s.size());
    auto goes = [&](size_t k) {
        const std::string one = s.substr(at[k], at[k + 1] - at[k]);
        return given ? any.find(one) != any.npos : one.size() == 1 && is_space(one[0]);
    };
    size_t first = 0, last = at.size() - 1;
    while (Left && first < last && goes(first)) ++first;
    while (Right && last > first && goes(last - 1)) --last;
    return of_text(s.substr(at[first], at[last] - at[first]));
}

template <bool Ends>
Thing text_without(Host&, const Given& g) {
    const std::string &s = self(g),
                      &part = text_argument(g, 1, Ends ? "removesuffix()" : "removeprefix()");
    if (!(Ends ? s.ends_with(part) : s.starts_with(part))) return of_text(s);
    return of_text(Ends ? s.substr(0, s.size() - part.size()) : s.substr(part.size()));
}

enum class Side { Left, Right, Center };
template <Side At>
Thing text_filled(Host&, const Given& g) {
    const std::string& s = self(g);
    const std::string fill = g.n > 2 ? as_text(g.args[2], "fill") : " ";
    if (characters_in(fill) != 1)
        raise_as(types::TypeError, "The fill character must be exactly one character long");
    const int64_t width = index_of(g.args[1], nullptr);
    const int64_t more = std::max<int64_t>(width - characters_in(s), 0);
    const int64_t left = At == Side::Left    ? 0
                         : At == Side::Right ? more
                                             : more / 2 + (more & width & 1);
    std::string out;
    for (int64_t k = 0; k < left; ++k) out += fill;
    out += s;
    for (int64_t k = left; k < more; ++k) out += fill;
    return of_text(std::move(out));
}

Thing text_zfill(Host&, const Given& g) {
    const std::string& s = self(g);
    const int64_t more = index_of(g.args[1], nullptr) - characters_in(s);
    if (more <= 0) return of_text(s);
    const size_t sign = !s.empty() && (s[0] == '-' || s[0] == '+');
    return of_text(s.substr(0, sign) + std::string(static_cast<size_t>(more), '0') +
                   s.substr(sign));
}

// ---- letters

enum class Case { Lower, Upper, Swap, Capital, Title };
template <Case To>
Thing text_case(Host&, const Given& g) {
    constexpr const char* names[] = {"lower", "upper", "swapcase", "capitalize", "title"};
    std::string out = ascii_self(g, names[static_cast<int>(To)]);
    bool inside = false;  // of a word, or of the text
    for (char& c : out) {
        const bool rest = inside;
        inside = To == Case::Title ? is_letter(c) : true;
        if (To == Case::Lower) c = lower(c);
        else if (To == Case::Upper) c = upper(c);
        else if (To == Case::Swap) c = is_lower(c) ? upper(c) : lower(c);
        else c = rest ? lower(c) : upper(c);
    }
    return of_text(std::move(out));
}

bool is_word(char c) { return is_letter(c) || is_digit(c); }
template <bool (*Is)(char)>
Thing text_is(Host&, const Given& g) {
    const std::string& s = ascii_self(g, "is...");
    return of_bool(!s.empty() && std::ranges::all_of(s, Is));
}
/// Whether there are letters, and all are of one case.
template <bool Upper>
Thing text_is_case(Host&, const Given& g) {
    const std::string& s = ascii_self(g, Upper ? "isupper" : "islower");
    return of_bool(std::ranges::any_of(s, is_letter) &&
                   std::ranges::none_of(s, Upper ? is_lower : is_upper));
}
Thing text_is_ascii(Host&, const Given& g) {
    return of_bool(std::ranges::all_of(self(g), [](char c) { return (c & 0x80) == 0; }));
}
Thing text_is_identifier(Host&, const Given& g) {
    const std::string& s = ascii_self(g, "isidentifier");
    auto fits = [](char c) { return is_word(c) || c == '_'; };
    return of_bool(!s.empty() && !is_digit(s[0]) && std::ranges::all_of(s, fits));
}

Thing text_encode(Host&, const Given& g) {
    for (int64_t k = 1; k < g.n; ++k)
        if (std::string_view(text_argument(g, k, "encode()")) != (k == 1 ? "utf-8" : "strict"))
            raise_as(types::ValueError, "[str.encode] expected UTF-8, got ", repr_of(g.args[k]));
    return bytes_of(self(g));
}

// ---- format

class Format {
public:
    Format(Host& host, const Given& given) : host_(host), given_(given) {}

    /// A text with its replacement fields filled; those in a specification are one deep.
    std::string filled(const std::string& s, int depth = 2) {
        if (depth < 0) raise_as(types::ValueError, "Max string recursion exceeded");
        std::string out;
        for (size_t at = 0; at < s.size(); ++at) {
            const char c = s[at];
            const bool twice = at + 1 < s.size() && s[at + 1] == c;
            if (c != '{' && c != '}') {
                out += c;
            } else if (twice) {
                out += c;
                ++at;
            } else if (c == '}') {
                raise_as(types::ValueError, "Single '}' encountered in format string");
            } else {
                const size_t end = end_of_field(s, at);
                out += replaced(s.substr(at + 1, end - at - 1), depth);
                at = end;
            }
        }
        return out;
    }

private:
    static size_t end_of_field(const std::string& s, size_t at) {
        int open = 0;
        for (size_t k = at; k < s.size(); ++k) {
            open += (s[k] == '{') - (s[k] == '}');
            if (open == 0) return k;
        }
        if (at + 1 == s.size())
            raise_as(types::ValueError, "Single '{' encountered in format string");
        raise_as(types::ValueError, "expected '}' before end of string");
    }

    /// name!conversion:specification
    std::string replaced(std::string field, int depth) {
        std::string spec;
        if (const size_t colon = field.find(':'); colon != field.npos) {
            spec = field.substr(colon + 1);
            field.resize(colon);
        }
        char convert = 0;
        if (const size_t mark = field.find('!'); mark != field.npos && mark + 1 < field.size()) {
            convert = field[mark + 1];
            field.resize(mark);
        }
        const Thing value = of(field);
        spec = filled(spec, depth - 1);
        if (!convert) return format_of(value.get(), spec);
        const std::string shown = repr_of(value.get());
        const std::string text = convert == 's'   ? str_of(value.get())
                                 : convert == 'a' ? ascii_of(shown)
                                                  : shown;
        return format_of(of_text(text).get(), spec);
    }

    /// An argument by its place, its name, or the next one; then attributes and items of it.
    Thing of(const std::string& field) {
        const size_t end = std::min(field.find_first_of(".["), field.size());
        Thing value = argument(field.substr(0, end));
        for (size_t at = end; at < field.size();) {
            const bool item = field[at] == '[';
            const size_t stop = item ? field.find(']', at)
                                     : std::min(field.find_first_of(".[", at + 1), field.size());
            if (stop == field.npos) raise_as(types::ValueError, "Missing ']' in format string");
            const std::string name = field.substr(at + 1, stop - at - 1);
            if (name.empty()) raise_as(types::ValueError, "Empty attribute in format string");
            value = !item          ? host_.attribute(value.get(), name, nullptr)
                    : digits(name) ? get_item(value.get(), of_int(number(name)).get())
                                   : get_item(value.get(), of_text(name).get());
            at = stop + item;
        }
        return value;
    }

    static bool digits(const std::string& s) {
        return !s.empty() && std::ranges::all_of(s, is_digit);
    }
    static int64_t number(const std::string& s) { return std::stoll(s.substr(0, 9)); }

    Thing argument(const std::string& name) {
        if (name.empty() || digits(name)) {
            const bool by_number = !name.empty();
            if (by_number ? next_ > 0 : next_ < 0)
                raise_as(types::ValueError, "cannot switch from ",
                         by_number ? "automatic field numbering to manual field specification"
                                   : "manual field specification to automatic field numbering");
            const int64_t k = by_number ? number(name) : next_;
            next_ = by_number ? -1 : next_ + 1;
            if (k + 1 >= given_.n)
                raise_as(types::IndexError, "Replacement index ", k,
                         " out of range for positional args tuple");
            return Thing::borrow(given_.args[k + 1]);
        }
        if (const Raw found = word(given_, name)) return Thing::borrow(found);
        std::vector<Thing> args;
        args.push_back(of_text(name));
        throw Raised{make_error(types::KeyError, std::move(args))};
    }

    Host& host_;
    const Given& given_;
    int64_t next_ = 0;  ///< the next argument without a name; -1: they are numbered
};

Thing text_format(Host& host, const Given& g) { return of_text(Format(host, g).filled(self(g))); }

constexpr Builtin kTextMethods[] = {
    {"join", 2, 2, "", text_join, true},
    {"split", 1, 3, " sep maxsplit ", text_split<false>, true},
    {"rsplit", 1, 3, " sep maxsplit ", text_split<true>, true},
    {"partition", 2, 2, "", text_partition<false>, true},
    {"rpartition", 2, 2, "", text_partition<true>, true},
    {"splitlines", 1, 2, " keepends ", text_lines, true},
    {"strip", 1, 2, "", text_strip<true, true>, true},
    {"lstrip", 1, 2, "", text_strip<true, false>, true},
    {"rstrip", 1, 2, "", text_strip<false, true>, true},
    {"removeprefix", 2, 2, "", text_without<false>, true},
    {"removesuffix", 2, 2, "", text_without<true>, true},
    {"ljust", 2, 3, "", text_filled<Side::Left>, true},
    {"rjust", 2, 3, "", text_filled<Side::Right>, true},
    {"center", 2, 3, "", text_filled<Side::Center>, true},
    {"zfill", 2, 2, "", text_zfill, true},
    {"lower", 1, 1, "", text_case<Case::Lower>, true},
    {"casefold", 1, 1, "", text_case<Case::Lower>, true},
    {"upper", 1, 1, "", text_case<Case::Upper>, true},
    {"swapcase", 1, 1, "", text_case<Case::Swap>, true},
    {"capitalize", 1, 1, "", text_case<Case::Capital>, true},
    {"title", 1, 1, "", text_case<Case::Title>, true},
    {"startswith", 2, 4, "", text_begins<false>, true},
    {"endswith", 2, 4, "", text_begins<true>, true},
    {"replace", 3, 4, "", text_replace, true},
    {"find", 2, 4, "", text_find<false>, true},
    {"rfind", 2, 4, "", text_find<true>, true},
    {"index", 2, 4, "", text_index<false>, true},
    {"rindex", 2, 4, "", text_index<true>, true},
    {"count", 2, 4, "", text_count, true},
    {"isdigit", 1, 1, "", text_is<is_digit>, true},
    {"isdecimal", 1, 1, "", text_is<is_digit>, true},
    {"isnumeric", 1, 1, "", text_is<is_digit>, true},
    {"isalpha", 1, 1, "", text_is<is_letter>, true},
    {"isalnum", 1, 1, "", text_is<is_word>, true},
    {"isspace", 1, 1, "", text_is<is_space>, true},
    {"isupper", 1, 1, "", text_is_case<true>, true},
    {"islower", 1, 1, "", text_is_case<false>, true},
    {"isascii", 1, 1, "", text_is_ascii, true},
    {"isidentifier", 1, 1, "", text_is_identifier, true},
    {"encode", 1, 3, "", text_encode, true},
    {"format", 1, -1, "*", text_format, true},
};

}  // namespace

const Builtin* text_method_named(std::string_view name) { return named(kTextMethods, name); }

std::vector<std::string_view> text_method_names() {
    std::vector<std::string_view> out;
    for (const Builtin& m : kTextMethods) out.push_back(m.name);
    return out;
}

}  // namespace weft::native
