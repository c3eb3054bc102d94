/// Ops by name, modes, and how builtins are called. What builtins and methods do is in builtins.cpp and methods.cpp.
#include "native/callables.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "native/host.h"
#include "native/tensors.h"

namespace weft::native {
namespace {

/// By name, then by version; the last is today's.
using OpsByName = std::map<std::string, std::vector<Ops>, std::less<>>;

/// Whether files of a version call a record of these (Note [Versions]).
bool has(const std::vector<const Op*>& records, const Op& op, int version) {
    if (op.until) return op.version <= version && version < op.until;
    const bool replaced = std::ranges::any_of(
        records, [&](const Op* old) { return old->until && old->until == op.version; });
    return op.version <= version || !replaced;
}

std::vector<Ops> by_version(const Ops& all) {
    std::vector<Ops> out;
    int latest = 1;
    for (const Op* op : all.overloads)
        if (!op->until) latest = std::max(latest, op->version);
    for (int version = 1; version <= latest; ++version) {
        Ops& of = out.emplace_back(all);
        of.version = version;
        std::erase_if(of.overloads,
                      [&](const Op* op) { return !has(all.overloads, *op, version); });
    }
    return out;
}

OpsByName all_ops() {
    std::map<std::string, Ops> found;
    auto add = [&](const std::string& name, const std::string& shown, const Op& op, bool in_place) {
        Ops& ops = found[name];
        ops.name = shown;
        ops.in_place = in_place;
        ops.overloads.push_back(&op);
    };
    for (const Op& op : table().all()) {
        std::vector<std::string> names{op.public_name};
        names.insert(names.end(), op.aliases.begin(), op.aliases.end());
        for (const std::string& name : names) {
            if (op.function) add(name, name, op, false);
            if (op.method && op.inputs > 0) add("Tensor." + name, name, op, false);
            if (op.inplace) add("Tensor." + name + "_", name + "_", op, true);
            if (op.inplace && op.function) add(name + "_", name + "_", op, true);
            if (op.called_by_packages()) add("ops." + name, name, op, false);
        }
    }
    OpsByName out;
    for (const auto& [name, all] : found) out[name] = by_version(all);
    return out;
}

const std::vector<Ops>* versions_of(std::string_view name) {
    static const OpsByName all = all_ops();
    const auto found = all.find(name);
    return found == all.end() ? nullptr : &found->second;
}

constexpr Mode kModes[] = {
    {"no_grad", [](uint32_t m) { return m & ~(kGradMode | kEnabledInInference); }},
    {"enable_grad",
     [](uint32_t m) { return m | (m & kInferenceMode ? kEnabledInInference : kGradMode); }},
    {"inference_mode",
     [](uint32_t m) { return (m | kInferenceMode) & ~(kGradMode | kEnabledInInference); }},
    {"autocast_bfloat16", [](uint32_t m) { return (m & ~kAutocastHalfMode) | kAutocastMode; }},
    {"autocast_float16", [](uint32_t m) { return m | kAutocastMode | kAutocastHalfMode; }},
    {"no_autocast", [](uint32_t m) { return m & ~(kAutocastMode | kAutocastHalfMode); }},
};

}  // namespace

const Ops* ops_named(std::string_view name) {
    const std::vector<Ops>* found = versions_of(name);
    return found ? &found->back() : nullptr;
}

const Ops* ops_named(std::string_view name, int64_t version) {
    const std::vector<Ops>* found = versions_of(name);
    return found ? &(*found)[static_cast<size_t>(version - 1)] : nullptr;
}

bool is_internal_op(std::string_view name) {
    if (!name.starts_with("ops.")) return false;
    return !ops_named(name) && std::ranges::any_of(table().all(), [&](const Op& op) {
        return op.public_name == name.substr(4);
    });
}

const Mode* mode_named(std::string_view name) {
    for (const Mode& m : kModes)
        if (m.name == name) return &m;
    return nullptr;
}

Raw word(const Given& given, std::string_view name) {
    for (int64_t k = 0; k < given.words(); ++k)
        if ((*given.names)[static_cast<size_t>(k)] == name) return given.args[given.n + k];
    return Raw();
}

Thing run_builtin(Host& host, const Builtin& builtin, const Given& given) {
    for (int64_t k = 0; k < given.words(); ++k) {
        const std::string& name = (*given.names)[static_cast<size_t>(k)];
        if (builtin.words != "*" && builtin.words.find(" " + name + " ") == std::string_view::npos)
            raise_as(types::TypeError, "'", name, "' is an invalid keyword argument for ",
                     builtin.name, "()");
    }
    const int64_t least = builtin.least, most = builtin.most, self = builtin.method;
    if (given.n < least || (most >= 0 && given.n > most)) {
        const int64_t n = given.n - self;
        const std::string of = self ? std::string(type_name(given.args[0])) + "." : "";
        if (least == most && most <= self + 1)
            raise_as(types::TypeError, of, builtin.name, "() takes ",
                     most == self ? "no arguments (" : "exactly one argument (", n, " given)");
        if (least == most)
            raise_as(types::TypeError, builtin.name, " expected ", least - self, " arguments, got ",
                     n);
        if (given.n < least)
            raise_as(types::TypeError, builtin.name, " expected at least ", least - self,
                     " argument", least - self == 1 ? "" : "s", ", got ", n);
        raise_as(types::TypeError, builtin.name, " expected at most ", most - self, " argument",
                 most - self == 1 ? "" : "s", ", got ", n);
    }
    return builtin.run ? builtin.run(host, given) : host.context().library(builtin.name, given);
}

namespace {

/// With all its fields, or none of them.
Thing make_record(const Class& of, const Given& given) {
    const auto fields = static_cast<int64_t>(of.fields.size());
    if (given.words() || (given.n && given.n != fields))
        raise_as(types::TypeError, of.name, "() takes ", fields, " positional arguments but ",
                 given.n + given.words(), " were given");
    Thing out = make_thing<Record>(&of);
    for (int64_t k = 0; k < given.n; ++k)
        out.as<Record>()->fields[static_cast<size_t>(k)] = Thing::borrow(given.args[k]).release();
    return out;
}

}  // namespace

Thing make_named(const Class& of, const Given& given) {
    if (!of.is_tuple) return make_record(of, given);
    const auto n = static_cast<int64_t>(of.fields.size());
    std::vector<Thing> values(of.fields.size());
    if (given.n > n)
        raise_as(types::TypeError, of.name, ".__new__() takes ", n + 1,
                 " positional arguments but ", given.n + 1, " were given");
    for (int64_t k = 0; k < given.n; ++k)
        values[static_cast<size_t>(k)] = Thing::borrow(given.args[k]);
    for (int64_t k = 0; k < given.words(); ++k) {
        const std::string& name = (*given.names)[static_cast<size_t>(k)];
        const int64_t field = of.field(name);
        if (field < 0)
            raise_as(types::TypeError, of.name, ".__new__() got an unexpected keyword argument '",
                     name, "'");
        if (values[static_cast<size_t>(field)])
            raise_as(types::TypeError, of.name, ".__new__() got multiple values for argument '",
                     name, "'");
        values[static_cast<size_t>(field)] = Thing::borrow(given.args[given.n + k]);
    }
    for (size_t k = 0; k < values.size(); ++k)
        if (!values[k])
            raise_as(types::TypeError, of.name,
                     ".__new__() missing 1 required positional argument: '", of.fields[k], "'");
    return tuple_of(std::move(values), &of);
}

// ---- types

namespace {

/// A number's text without the underscores that stand between its digits; all of it where one stands elsewhere.
std::string without_underscores(const std::string& s) {
    const auto is_digit = [&](size_t k) {
        return k < s.size() && std::isalnum(static_cast<unsigned char>(s[k]));
    };
    std::string out;
    for (size_t k = 0; k < s.size(); ++k) {
        if (s[k] != '_') out.push_back(s[k]);
        else if (!k || !is_digit(k - 1) || !is_digit(k + 1)) return s;
    }
    return out;
}

}  // namespace

double double_of_text(const std::string& given) {
    std::string s = without_underscores(given);
    const auto space = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
    while (!s.empty() && space(s.back())) s.pop_back();
    s.erase(s.begin(), std::find_if_not(s.begin(), s.end(), space));
    const char* first = s.data() + (s.starts_with('+') ? 1 : 0);
    const char* last = s.data() + s.size();
    double out = 0;
    const auto [end, error] = std::from_chars(first, last, out);
    const std::string_view rest(first, static_cast<size_t>(last - first));
    if (error == std::errc::result_out_of_range && end == last)
        return rest.find("e-") == rest.npos ? (rest[0] == '-' ? -HUGE_VAL : HUGE_VAL) : 0;
    if (error != std::errc() || end != last || s.empty())
        raise_as(types::ValueError, "could not convert string to float: ", repr_of_text(given));
    return out;
}

namespace {

int64_t int_of_text(Raw value, int64_t base) {
    const std::string s = without_underscores(text_in(value));
    const auto not_space = [](char c) { return c != ' ' && c != '\n' && c != '\t' && c != '\r'; };
    const auto first = std::find_if(s.begin(), s.end(), not_space);
    const auto last = std::find_if(s.rbegin(), std::make_reverse_iterator(first), not_space).base();
    std::string_view digits(first, last);
    const bool negative = digits.starts_with('-');
    if (negative || digits.starts_with('+')) digits.remove_prefix(1);
    int64_t out = 0;
    bool good = !digits.empty();
    for (const char c : digits) {
        const int64_t d = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'z' ? c - 'a' + 10
                          : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                                 : 99;
        if (d >= base) {
            good = false;
            break;
        }
        if (__builtin_mul_overflow(out, base, &out) ||
            __builtin_sub_overflow(out, d, &out))  // negative numbers reach further
            raise_as(types::OverflowError, "[int] expected an integer of 64 bits, got ", digits);
    }
    if (!good)
        raise_as(types::ValueError, "invalid literal for int() with base ", base, ": ",
                 repr_of(value));
    if (!negative && __builtin_sub_overflow(int64_t{0}, out, &out))
        raise_as(types::OverflowError, "[int] expected an integer of 64 bits, got ", digits);
    return out;
}

Thing make_int(const Given& g) {
    if (g.n == 0) return of_int(0);
    const Raw v = g.args[0];
    switch (v.kind()) {
        case Kind::Int:
        case Kind::Bool:
            return of_int(int_in(v));
        case Kind::Float:
            return of_int(int_of_double(double_in(v)));
        case Kind::Tensor:
            return of_int(tensor_as_int(v));
        case Kind::Text: {
            const int64_t base = g.n > 1 ? index_of(g.args[1], nullptr) : 10;
            if (base < 2 || base > 36)
                raise_as(types::ValueError, "int() base must be >= 2 and <= 36, or 0");
            return of_int(int_of_text(v, base));
        }
        default:
            raise_as(types::TypeError,
                     "int() argument must be a string, a bytes-like object or a real number, not '",
                     type_name(v), "'");
    }
}

Thing make_float(const Given& g) {
    if (g.n == 0) return of_double(0);
    const Raw v = g.args[0];
    switch (v.kind()) {
        case Kind::Int:
        case Kind::Bool:
        case Kind::Float:
            return of_double(number_as_double(v));
        case Kind::Tensor:
            return of_double(tensor_as_double(v));
        case Kind::Text:
            return of_double(double_of_text(text_in(v)));
        default:
            raise_as(types::TypeError, "float() argument must be a string or a real number, not '",
                     type_name(v), "'");
    }
}

Thing make_dict(const Given& g) {
    Thing out = new_dict();
    auto* d = out.as<Dict>();
    if (g.n && g.args[0].is(Kind::Dict)) {
        for (const Dict::Entry& e : g.args[0].as<Dict>()->entries)
            if (e.key) d->set(e.key, e.value);
    } else if (g.n) {
        update(*d, g.args[0]);
    }
    for (int64_t k = 0; k < g.words(); ++k)
        d->set(of_text((*g.names)[static_cast<size_t>(k)]).get(), g.args[g.n + k]);
    return out;
}

Thing make_range(const Given& g) {
    if (g.n == 0) raise_as(types::TypeError, "range expected at least 1 argument, got 0");
    int64_t v[3] = {0, 0, 1};
    for (int64_t k = 0; k < g.n; ++k) v[g.n == 1 ? 1 : k] = index_of(g.args[k], nullptr);
    if (v[2] == 0) raise_as(types::ValueError, "range() arg 3 must not be zero");
    return make_thing<Range>(v[0], v[1], v[2]);
}

Thing make_slice(const Given& g) {
    const Raw none = Raw::none();
    if (g.n == 1) return make_thing<Slice>(none, g.args[0], none);
    return make_thing<Slice>(g.args[0], g.args[1], g.n > 2 ? g.args[2] : none);
}

}  // namespace

Thing construct(Host&, const Type& type, const Given& g) {
    if (g.words() && type.kind != Kind::Dict && type.kind != Kind::Complex)
        raise_as(types::TypeError, type.name, "() takes no keyword arguments");
    if (type.kind == Kind::Error) {
        std::vector<Thing> args;
        for (int64_t k = 0; k < g.n; ++k) args.push_back(Thing::borrow(g.args[k]));
        return make_error(type, std::move(args));
    }
    const int64_t most = type.kind == Kind::Int || type.kind == Kind::Complex   ? 2
                         : type.kind == Kind::Range || type.kind == Kind::Slice ? 3
                                                                                : 1;
    if (g.n > most)
        raise_as(types::TypeError, type.name, " expected at most ", most, " argument",
                 most == 1 ? "" : "s", ", got ", g.n);
    auto items = [&] { return g.n ? all_of(g.args[0]) : std::vector<Thing>(); };
    switch (type.kind) {
        case Kind::Bool:
            return of_bool(g.n && truth(g.args[0]));
        case Kind::Int:
            return make_int(g);
        case Kind::Float:
            return make_float(g);
        case Kind::Complex: {
            std::complex<double> v = 0;
            for (int64_t k = 0; k < g.n; ++k) {
                const Thing number =
                    g.args[k].is_tensor() ? item_of(reading(g.args[k])) : Thing::borrow(g.args[k]);
                if (!is_number(number.get()))
                    raise_as(types::TypeError,
                             "complex() first argument must be a string or a number, not '",
                             type_name(g.args[k]), "'");
                const auto part = number_as_complex(number.get());
                v += k ? part * std::complex<double>(0, 1) : part;
            }
            return of_complex(v);
        }
        case Kind::Text:
            return g.n ? of_text(str_of(g.args[0])) : of_text("");
        case Kind::Tuple:
            if (&type == &types::Bytes) break;
            return tuple_of(items(), &type == &types::Size ? &size_class() : nullptr);
        case Kind::List:
            return list_of(items());
        case Kind::Dict:
            return make_dict(g);
        case Kind::Set: {
            Thing out = new_set(&type == &types::FrozenSet);
            for (const Thing& item : items()) out.as<Dict>()->set(item.get(), Raw());
            return out;
        }
        case Kind::Range:
            return make_range(g);
        case Kind::Slice:
            if (g.n == 0) raise_as(types::TypeError, "slice expected at least 1 argument, got 0");
            return make_slice(g);
        default:
            break;
    }
    raise_as(types::TypeError, "cannot create '", type.shown(), "' instances");
}

}  // namespace weft::native
