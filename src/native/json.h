/// JSON as values, for files of anybody's making: strict, with limits.
///
/// Read is RFC 8259 in UTF-8 and nothing more: no comments, no trailing commas, no NaN, no key twice, no text that
/// is not UTF-8 and no half of a surrogate pair. An integer is one of 64 bits; a number with a point or an exponent
/// is a double, and one beyond its range is refused.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace weft::native {

class Json {
public:
    enum class Kind : uint8_t { Null, Bool, Int, Float, Text, List, Map };
    using Member = std::pair<std::string, Json>;
    struct Limits {
        size_t bytes = size_t{100} << 20;  ///< of the text
        size_t values = size_t{4} << 20;
        int depth = 100;  ///< of lists and maps in each other
    };

    /// Throws a ValueError that says at which byte what is wrong.
    static Json parse(std::string_view text, const Limits& limits);
    static Json parse(std::string_view text) { return parse(text, Limits()); }

    Kind kind() const { return static_cast<Kind>(value_.index()); }
    bool is(Kind kind) const { return this->kind() == kind; }
    // Of a value of that kind:
    bool as_bool() const { return std::get<bool>(value_); }
    int64_t as_int() const { return std::get<int64_t>(value_); }
    /// Of an integer too.
    double as_double() const {
        return is(Kind::Int) ? static_cast<double>(as_int()) : std::get<double>(value_);
    }
    const std::string& as_text() const { return std::get<std::string>(value_); }
    const std::vector<Json>& list() const { return std::get<std::vector<Json>>(value_); }
    /// In the text's order.
    const std::vector<Member>& map() const { return std::get<std::vector<Member>>(value_); }
    /// The value of a map's key; null if there is none. Looks at one after the other.
    const Json* find(std::string_view key) const;

private:
    friend class JsonReader;
    /// In the order of Kind.
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<Json>,
                 std::vector<Member>>
        value_;
};

/// `text` in quotes, as JSON has it.
std::string json_quoted(std::string_view text);

}  // namespace weft::native
