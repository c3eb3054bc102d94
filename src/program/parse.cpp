/// Text to a Function: Note [Text] in text.h. A line is cut into words; `block` reads lines until the one that
/// closes it.
#include <charconv>

#include "base/error.h"
#include "program/text.h"

namespace weft::program {
namespace {

using Words = std::vector<std::string_view>;

class Parser {
public:
    explicit Parser(std::string_view text) : rest_(text) {}

    Function run(const Facts& facts) {
        header();
        Words words = line();
        expect(words.size() == 1 && words[0] == "{", "a body", words);
        f_.body = block(words);
        expect(words.size() == 1, "the end of the body", words);
        expect(line().empty(), "nothing after the body", {});
        verify(f_, facts);
        return std::move(f_);
    }

private:
    [[noreturn]] void fail(std::string_view wanted, const Words& got) const {
        std::string text = "line " + std::to_string(number_) + ":";
        for (std::string_view word : got) text += " " + std::string(word);
        WEFT_EXPECT(false, Value, "program", wanted, text);
        __builtin_unreachable();
    }
    void expect(bool holds, std::string_view wanted, const Words& got) const {
        if (!holds) fail(wanted, got);
    }

    /// The words of the next line that has any; none at the end.
    Words line() {
        while (!rest_.empty()) {
            ++number_;
            const size_t end = rest_.find('\n');
            std::string_view text = rest_.substr(0, end);
            rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
            Words words = cut(text);
            if (!words.empty()) return words;
        }
        return {};
    }

    static Words cut(std::string_view text) {
        Words words;
        size_t at = 0;
        while ((at = text.find_first_not_of(" \r\t", at)) != std::string_view::npos) {
            if (text[at] == ';') break;
            size_t end;
            if (text[at] == '"') {
                end = text.find('"', at + 1);
                end = end == std::string_view::npos ? text.size() : end + 1;
            } else {
                end = std::min(text.find_first_of(" \r\t", at), text.size());
            }
            words.push_back(text.substr(at, end - at));
            at = end;
        }
        return words;
    }

    int32_t number(std::string_view word, const Words& words) const {
        int32_t value = 0;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
        expect(error == std::errc() && end == word.data() + word.size(), "a number", words);
        return value;
    }
    /// The number of `name=number`.
    bool field(std::string_view word, std::string_view name, int32_t& value,
               const Words& words) const {
        if (!word.starts_with(name) || word.substr(name.size(), 1) != "=") return false;
        value = number(word.substr(name.size() + 1), words);
        return true;
    }

    void header() {
        Words words = line();
        expect(words.size() >= 5 && words[0] == "function" &&
                   field(words[1], "params", f_.params, words) &&
                   field(words[2], "own_cells", f_.own_cells, words) &&
                   field(words[3], "consts", f_.consts, words) &&
                   field(words[4], "attrs", f_.attrs, words),
               "function params= own_cells= consts= attrs= and a name", words);
        for (size_t k = 5; k < words.size(); ++k)
            f_.name += (k > 5 ? " " : "") + std::string(words[k]);
        words = line();
        expect(!words.empty() && words[0] == "registers", "registers", words);
        for (size_t k = 1; k < words.size(); ++k)
            f_.registers.emplace_back(words[k] == "\"\"" ? std::string_view() : words[k]);
        words = line();
        expect(!words.empty() && words[0] == "cells", "cells", words);
        f_.cells.assign(words.begin() + 1, words.end());
    }

    /// Instructions up to the line that begins with `}`, which is left in `words`.
    Region block(Words& words) {
        expect(++depth_ < 200, "regions less than 200 deep", words);
        Region out;
        for (words = line(); !words.empty() && words[0] != "}"; words = line())
            out.push_back(instruction(words));
        expect(!words.empty(), "}", words);
        --depth_;
        return out;
    }

    /// `name%3` as 3.
    int32_t place(std::string_view word, const Words& words) const {
        if (word.starts_with("#")) return ~number(word.substr(1), words);
        const size_t at = word.rfind('%');
        expect(at != std::string_view::npos, "a register or constant", words);
        const int32_t r = number(word.substr(at + 1), words);
        expect(r >= 0 && static_cast<size_t>(r) < f_.registers.size() &&
                   f_.registers[static_cast<size_t>(r)] == word.substr(0, at),
               "a register that is there, by its name", words);
        return r;
    }

    Instruction instruction(Words words) {
        Instruction i;
        size_t at = 0;
        size_t equals = 0;
        while (equals < words.size() && words[equals] != "=") ++equals;
        if (equals < words.size()) {
            for (; at < equals; ++at) i.outs.push_back(place(words[at], words));
            ++at;
        }
        expect(at < words.size(), "a verb", words);
        const int verb = verb_named(words[at]);
        expect(verb >= 0, "a known verb", words);
        i.verb = static_cast<Verb>(verb);
        bool opens = false;
        for (++at; at < words.size(); ++at) {
            const std::string_view word = words[at];
            int32_t n = 0;
            if (word == "{" && at + 1 == words.size()) opens = true;
            else if (word.starts_with("\"")) i.sub = operator_named(i.verb, word, words);
            else if (word.starts_with("@")) i.offset = number(word.substr(1), words);
            else if (field(word, "number", n, words)) i.numbers.push_back(n);
            else if (!field(word, "sub", i.sub, words) && !field(word, "attr", i.attr, words) &&
                     !field(word, "names", i.names, words))
                i.operands.push_back(place(word, words));
        }
        while (opens) {
            i.regions.push_back(block(words));
            opens = words.size() == 2 && words[1] == "{";
            expect(opens || words.size() == 1, "} or } {", words);
        }
        return i;
    }

    int32_t operator_named(Verb verb, std::string_view word, const Words& words) const {
        const std::string_view name =
            word.size() > 1 ? word.substr(1, word.size() - 2) : std::string_view();
        auto find = [&](auto& table) -> int32_t {
            for (size_t k = 0; k < std::size(table); ++k)
                if (table[k] == name) return static_cast<int32_t>(k);
            fail("a known operator", words);
        };
        if (verb == Verb::Binary || verb == Verb::Inplace) return find(kBinary);
        if (verb == Verb::Unary) return find(kUnary);
        if (verb == Verb::Compare) return find(kCompare);
        if (verb == Verb::Format) return find(kConvert);
        fail("a verb with an operator", words);
    }

    std::string_view rest_;
    Function f_;
    int number_ = 0, depth_ = 0;
};

}  // namespace

Function parse(std::string_view text, const Facts& facts) { return Parser(text).run(facts); }

}  // namespace weft::program
