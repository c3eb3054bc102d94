#include "ops/schema.h"

#include <algorithm>
#include <charconv>

namespace weft {
namespace {

std::string_view trim(std::string_view s) {
    while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
    while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
    return s;
}

[[noreturn]] void malformed(std::string_view schema, std::string_view part) {
    fail(ErrorKind::Value, "schema", "name(Type arg, ...) -> Tensor",
         text("'", part, "' in '", schema, "'"));
}

Param::Kind kind_of(std::string_view type, std::string_view schema) {
    using K = Param::Kind;
    static const std::pair<std::string_view, K> kinds[] = {
        {"Tensor", K::Tensor}, {"Tensor[]", K::Tensors}, {"int", K::Int},
        {"int[]", K::Ints},    {"float", K::Float},      {"bool", K::Bool},
        {"Scalar", K::Scalar}, {"dtype", K::DType},      {"str", K::Text}};
    for (auto& [text, kind] : kinds)
        if (text == type) return kind;
    malformed(schema, type);
}

Value parse_default(std::string_view word, std::string_view schema) {
    if (word == "None") return {};
    if (word == "True") return true;
    if (word == "False") return false;
    if (word.front() == '"') return std::string(word.substr(1, word.size() - 2));
    if (word.front() == '[') {
        Dims dims;
        for (word = word.substr(1, word.size() - 2); !word.empty();) {
            size_t comma = std::min(word.find(';'), word.size());
            dims.push_back(std::stoll(std::string(word.substr(0, comma))));
            word.remove_prefix(std::min(comma + 1, word.size()));
        }
        return dims;
    }
    int64_t integer;
    auto [end, bad] = std::from_chars(word.begin(), word.end(), integer);
    if (bad == std::errc() && end == word.end()) return integer;
    char* stop;
    std::string owned(word);
    double number = std::strtod(owned.c_str(), &stop);
    if (stop != owned.c_str() + owned.size()) malformed(schema, word);
    return number;
}

/// What PyTorch calls a function's tensor and, from python_arg_parser.cpp
/// (numpy_compatibility_arg_names), NumPy's words for its own.
std::vector<std::string> further_names(std::string_view name) {
    if (name == "self") return {"input", "x", "a", "x1"};
    if (name == "input") return {"x", "a", "x1"};
    if (name == "other") return {"x2"};
    if (name == "dim") return {"axis"};
    if (name == "keepdim") return {"keepdims"};
    return {};
}

Param parse_param(std::string_view part, std::string_view schema) {
    size_t space = part.find(' ');
    if (space == part.npos) malformed(schema, part);
    Param p;
    std::string_view type = part.substr(0, space), rest = part.substr(space + 1);
    if (type.ends_with('?')) {
        p.optional = true;
        type.remove_suffix(1);
    }
    p.kind = kind_of(type, schema);
    size_t equals = rest.find('=');
    p.name = rest.substr(0, equals);
    p.aliases = further_names(p.name);
    if (equals != rest.npos) {
        p.has_default = true;
        p.fallback = parse_default(rest.substr(equals + 1), schema);
    }
    return p;
}

int count_outputs(std::string_view result, std::string_view schema) {
    if (result == "Tensor") return 1;
    if (result == "Tensor[]") return -1;
    if (!result.starts_with('(')) malformed(schema, result);
    return 1 + static_cast<int>(std::count(result.begin(), result.end(), ','));
}

/// "(Tensor values, Tensor indices)" names its outputs, "(Tensor, Tensor)" does not.
std::vector<std::string> output_names(std::string_view result) {
    std::vector<std::string> names;
    if (!result.starts_with('(')) return names;
    result = result.substr(1, result.size() - 2);
    while (!result.empty()) {
        size_t comma = std::min(result.find(','), result.size());
        std::string_view part = trim(result.substr(0, comma));
        result.remove_prefix(std::min(comma + 1, result.size()));
        size_t space = part.find(' ');
        if (space != part.npos) names.emplace_back(part.substr(space + 1));
    }
    return names;
}

/// "leaky_relu" -> "LeakyReluBackward0"
std::string camel(std::string_view name) {
    std::string out;
    bool upper = true;
    for (char c : name) {
        if (c == '_') {
            upper = true;
            continue;
        }
        out += upper ? static_cast<char>(std::toupper(c)) : c;
        upper = false;
    }
    return out;
}

}  // namespace

void parse_schema(std::string_view schema, Op& op) {
    size_t open = schema.find('('), arrow = schema.rfind(" -> ");
    if (open == schema.npos || arrow == schema.npos) malformed(schema, schema);
    op.schema = schema;
    op.name = schema.substr(0, open);
    op.public_name = op.name.substr(0, op.name.find('.'));
    op.node_name = camel(op.public_name) + "Backward0";
    op.outputs = count_outputs(trim(schema.substr(arrow + 4)), schema);
    op.output_names = output_names(trim(schema.substr(arrow + 4)));

    std::string_view list = schema.substr(open + 1, schema.rfind(')', arrow) - open - 1);
    bool keyword_only = false;
    while (!(list = trim(list)).empty()) {
        size_t comma = std::min(list.find(','), list.size());
        std::string_view part = trim(list.substr(0, comma));
        list.remove_prefix(std::min(comma + 1, list.size()));
        if (part == "*") {
            keyword_only = true;
            continue;
        }
        Param p = parse_param(part, schema);
        p.keyword_only = keyword_only;
        if (p.is_input()) {
            p.slot = op.inputs++;
        } else {
            p.slot = static_cast<int>(op.defaults.size());
            op.defaults.push_back(p.fallback);
        }
        op.params.push_back(std::move(p));
    }
    // a list of tensors takes the last slots, wherever it is named
    for (Param& list : op.params)
        if (list.kind == Param::Kind::Tensors) {
            for (Param& p : op.params)
                if (p.is_input() && p.slot > list.slot) --p.slot;
            list.slot = op.inputs - 1;
        }
}

int parameter_called(const Op& op, std::string_view name) {
    const auto& params = op.params;
    const int total = static_cast<int>(params.size());
    for (int i = 0; i < total; ++i)
        if (params[i].name == name) return i;
    for (int i = 0; i < total; ++i)
        if (std::ranges::find(params[i].aliases, name) != params[i].aliases.end()) return i;
    return total;
}

}  // namespace weft
