/// Reading guide: `value` is one case for each kind; `text` and `number` read what is longer.
#include "native/json.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "native/utf8.h"

namespace weft::native {

class JsonReader {
public:
    JsonReader(std::string_view text, const Json::Limits& limits) : text_(text), limits_(limits) {}

    Json run() {
        WEFT_EXPECT(text_.size() <= limits_.bytes, Value, "json",
                    weft::text("at most ", limits_.bytes, " bytes"), std::to_string(text_.size()));
        Json out = value();
        space();
        expect(at_ == text_.size(), "nothing behind the value");
        return out;
    }

private:
    [[noreturn]] void fail(std::string_view wanted) const {
        std::string got = at_ == text_.size() ? "the end" : shown();
        weft::fail(ErrorKind::Value, "json", wanted, weft::text(got, " at byte ", at_));
    }
    void expect(bool holds, std::string_view wanted) const {
        if (!holds) [[unlikely]]
            fail(wanted);
    }
    /// What is there, a few bytes of it.
    std::string shown() const {
        std::string out;
        for (unsigned char c : text_.substr(at_, 12))
            out += c < 32 || c > 126 ? '?' : static_cast<char>(c);
        return "'" + out + "'";
    }

    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    bool take(char c) {
        if (at_ == text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    void space() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' ||
                                      text_[at_] == '\r' || text_[at_] == '\t'))
            ++at_;
    }
    void word(std::string_view wanted) {
        expect(text_.substr(at_, wanted.size()) == wanted, "a value");
        at_ += wanted.size();
    }

    Json value() {
        space();
        expect(++values_ <= limits_.values, "fewer values");
        Json out;
        switch (const char c = peek()) {
            case 'n':
                word("null");
                break;
            case 't':
            case 'f':
                word(c == 't' ? "true" : "false");
                out.value_ = c == 't';
                break;
            case '"':
                out.value_ = quoted();
                break;
            case '[':
                list(out.value_.emplace<std::vector<Json>>());
                break;
            case '{':
                map(out.value_.emplace<std::vector<Json::Member>>());
                break;
            default:
                number(out);
        }
        return out;
    }

    void enter() {
        ++at_;
        expect(++depth_ <= limits_.depth, "values less deep in each other");
        space();
    }

    void list(std::vector<Json>& out) {
        enter();
        if (!take(']')) {
            do out.push_back(value());
            while (more(']'));
        }
        --depth_;
    }

    void map(std::vector<Json::Member>& out) {
        enter();
        if (!take('}')) {
            do {
                space();
                expect(peek() == '"', "a key in quotes");
                std::string key = quoted();
                space();
                expect(take(':'), "':'");
                Json one = value();
                out.emplace_back(std::move(key), std::move(one));
            } while (more('}'));
        }
        --depth_;
        no_key_twice(out);
    }

    /// Behind a value: whether another follows.
    bool more(char end) {
        space();
        if (take(',')) return true;
        expect(take(end), end == ']' ? "',' or ']'" : "',' or '}'");
        return false;
    }

    void no_key_twice(const std::vector<Json::Member>& members) const {
        std::vector<std::string_view> keys;
        keys.reserve(members.size());
        for (const Json::Member& m : members) keys.emplace_back(m.first);
        std::sort(keys.begin(), keys.end());
        expect(std::adjacent_find(keys.begin(), keys.end()) == keys.end(),
               "each key of a map once, before what is");
    }

    void number(Json& out) {
        const size_t begin = at_;
        take('-');
        if (!take('0')) digits("a value");
        bool whole = true;
        if (take('.')) {
            digits("digits behind the point");
            whole = false;
        }
        if (take('e') || take('E')) {
            if (!take('+')) take('-');
            digits("an exponent");
            whole = false;
        }
        const char *first = text_.data() + begin, *last = text_.data() + at_;
        const std::from_chars_result read =
            whole ? std::from_chars(first, last, out.value_.emplace<int64_t>())
                  : std::from_chars(first, last, out.value_.emplace<double>());
        if (read.ec == std::errc() && read.ptr == last) return;
        at_ = begin;
        fail(whole ? "an integer of 64 bits" : "a number in the range of a double");
    }
    void digits(std::string_view wanted) {
        const size_t begin = at_;
        while (peek() >= '0' && peek() <= '9') ++at_;
        expect(at_ > begin, wanted);
    }

    // ---- text

    std::string quoted() {
        ++at_;
        std::string out;
        for (;;) {
            const size_t begin = at_;
            while (at_ < text_.size() && plain(static_cast<unsigned char>(text_[at_]))) ++at_;
            out.append(text_, begin, at_ - begin);
            expect(at_ < text_.size(), "the end of a text in quotes");
            const auto c = static_cast<unsigned char>(text_[at_]);
            if (c == '"') {
                ++at_;
                return out;
            }
            if (c == '\\') escape(out);
            else if (c < 0x20) fail("no control character in a text");
            else wide(out);
        }
    }
    static bool plain(unsigned char c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; }

    void escape(std::string& out) {
        ++at_;
        const char c = peek();
        constexpr std::string_view letters = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
        if (const size_t k = letters.find(c); k != letters.npos && at_ < text_.size()) {
            ++at_;
            out += meant[k];
            return;
        }
        expect(c == 'u', "an escape");
        ++at_;
        uint32_t code = four_digits();
        expect(code < 0xdc00 || code > 0xdfff, "the first half of a surrogate pair");
        if (code >= 0xd800 && code <= 0xdbff) {
            expect(take('\\') && take('u'), "the other half of a surrogate pair");
            const uint32_t low = four_digits();
            expect(low >= 0xdc00 && low <= 0xdfff, "the other half of a surrogate pair");
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        append_character(out, code);
    }
    uint32_t four_digits() {
        expect(text_.size() - at_ >= 4, "four hexadecimal digits");
        uint32_t code = 0;
        const char* first = text_.data() + at_;
        const auto [end, error] = std::from_chars(first, first + 4, code, 16);
        expect(error == std::errc() && end == first + 4, "four hexadecimal digits");
        at_ += 4;
        return code;
    }
    /// A character of several bytes.
    void wide(std::string& out) {
        const size_t size = utf8_size(text_, at_);
        expect(size, "UTF-8");
        out.append(text_, at_, size);
        at_ += size;
    }

    std::string_view text_;
    const Json::Limits& limits_;
    size_t at_ = 0, values_ = 0;
    int depth_ = 0;
};

Json Json::parse(std::string_view text, const Limits& limits) {
    return JsonReader(text, limits).run();
}

const Json* Json::find(std::string_view key) const {
    for (const Member& m : map())
        if (m.first == key) return &m.second;
    return nullptr;
}

std::string json_quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') (out += '\\') += c;
        else if (c == '\n') out += "\\n";
        else if (byte < 0x20) {
            constexpr char digits[] = "0123456789abcdef";
            out += "\\u00";
            out += digits[byte >> 4];
            out += digits[byte & 15];
        } else out += c;
    }
    return out + '"';
}

}  // namespace weft::native
