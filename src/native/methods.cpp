/// Methods of lists, dicts, sets, texts, and those of tensors that are no ops. `g.args[0]` is the value itself.
#include <algorithm>

#include "autograd/meta.h"
#include "native/host.h"
#include "native/tensors.h"
#include "ops/write.h"

namespace weft::native {
namespace {

std::vector<Raw>& list(const Given& g) { return g.args[0].as<List>()->items; }
Dict& dict(const Given& g) { return *g.args[0].as<Dict>(); }

// ---- lists

Thing list_append(Host&, const Given& g) {
    g.args[1].hold();
    list(g).push_back(g.args[1]);
    return none();
}
Thing list_extend(Host&, const Given& g) {
    std::vector<Thing> items = all_of(g.args[1]);
    for (Thing& item : items) list(g).push_back(item.release());
    return none();
}
Thing list_pop(Host&, const Given& g) {
    auto& items = list(g);
    if (items.empty()) raise_as(types::IndexError, "pop from empty list");
    const auto size = static_cast<int64_t>(items.size());
    int64_t at = g.n > 1 ? index_of(g.args[1], nullptr) : -1;
    if (at < 0) at += size;
    if (at < 0 || at >= size) raise_as(types::IndexError, "pop index out of range");
    Thing out = Thing::steal(items[static_cast<size_t>(at)]);
    items.erase(items.begin() + at);
    return out;
}
Thing list_insert(Host&, const Given& g) {
    auto& items = list(g);
    const auto size = static_cast<int64_t>(items.size());
    int64_t at = index_of(g.args[1], nullptr);
    if (at < 0) at += size;
    g.args[2].hold();
    items.insert(items.begin() + std::clamp<int64_t>(at, 0, size), g.args[2]);
    return none();
}
Thing list_remove(Host&, const Given& g) {
    for (int64_t k = 0; const Thing item = item_at(g.args[0], k); ++k) {
        if (!equal(item.get(), g.args[1])) continue;
        auto& items = list(g);
        if (k >= static_cast<int64_t>(items.size())) break;
        const auto at = items.begin() + static_cast<std::ptrdiff_t>(k);
        const Thing gone = Thing::steal(*at);
        items.erase(at);
        return none();
    }
    raise_as(types::ValueError, "list.remove(x): x not in list");
}
Thing list_reverse(Host&, const Given& g) {
    std::ranges::reverse(list(g));
    return none();
}
Thing list_sort(Host&, const Given& g) {
    const Raw reverse = word(g, "reverse");
    sort_list(g.args[0], reverse && truth(reverse));
    return none();
}
Thing list_clear(Host&, const Given& g) {
    std::vector<Raw> old = std::exchange(list(g), {});
    for (Raw r : old) r.drop();
    return none();
}
Thing list_copy(Host&, const Given& g) { return list_of(all_of(g.args[0])); }

/// Of lists and tuples.
Thing sequence_index(Host&, const Given& g) {
    for (int64_t k = 0; const Thing item = item_at(g.args[0], k); ++k)
        if (equal(item.get(), g.args[1])) return of_int(k);
    if (g.args[0].is(Kind::Tuple)) raise_as(types::ValueError, "tuple.index(x): x not in tuple");
    raise_as(types::ValueError, repr_of(g.args[1]), " is not in list");
}
Thing sequence_count(Host&, const Given& g) {
    int64_t n = 0;
    for (int64_t k = 0; const Thing item = item_at(g.args[0], k); ++k)
        n += equal(item.get(), g.args[1]);
    return of_int(n);
}

// ---- dicts and sets

Thing dict_get(Host&, const Given& g) {
    if (const Raw found = dict(g).find(g.args[1])) return Thing::borrow(found);
    return g.n > 2 ? Thing::borrow(g.args[2]) : none();
}
template <View::Of What>
Thing dict_view(Host&, const Given& g) {
    return make_thing<View>(What, g.args[0]);
}
[[noreturn]] void no_key(Raw key) {
    std::vector<Thing> args;
    args.push_back(Thing::borrow(key));
    throw Raised{make_error(types::KeyError, std::move(args))};
}
Thing dict_pop(Host&, const Given& g) {
    if (Thing out = dict(g).take(g.args[1])) return out;
    if (g.n > 2) return Thing::borrow(g.args[2]);
    no_key(g.args[1]);
}
Thing dict_setdefault(Host&, const Given& g) {
    if (const Raw found = dict(g).find(g.args[1])) return Thing::borrow(found);
    const Raw value = g.n > 2 ? g.args[2] : Raw::none();
    dict(g).set(g.args[1], value);
    return Thing::borrow(value);
}
Thing dict_update(Host& host, const Given& g) {
    const Thing other = construct(host, *type_named("dict"), {g.args + 1, g.n - 1, g.names});
    for (const Dict::Entry& e : other.as<Dict>()->entries)
        if (e.key) dict(g).set(e.key, e.value);
    return none();
}
Thing dict_clear(Host&, const Given& g) {
    dict(g).clear();
    return none();
}
Thing dict_copy(Host&, const Given& g) {
    Thing out = make_thing<Dict>(g.args[0].kind());
    for (const Dict::Entry& e : dict(g).entries)
        if (e.key) out.as<Dict>()->set(e.key, e.value);
    return out;
}
Thing dict_popitem(Host&, const Given& g) {
    auto& d = dict(g);
    auto& entries = d.entries;
    while (!entries.empty() && !entries.back().key) entries.pop_back();
    if (entries.empty()) {
        std::vector<Thing> args;
        args.push_back(of_text("popitem(): dictionary is empty"));
        throw Raised{make_error(types::KeyError, std::move(args))};
    }
    std::vector<Thing> pair;
    pair.push_back(Thing::borrow(entries.back().key));
    pair.push_back(d.take(pair[0].get()));
    return tuple_of(std::move(pair));
}

Thing set_add(Host&, const Given& g) {
    dict(g).set(g.args[1], Raw());
    return none();
}
Thing set_discard(Host&, const Given& g) {
    dict(g).take(g.args[1]);
    return none();
}
Thing set_remove(Host&, const Given& g) {
    if (!dict(g).take(g.args[1])) no_key(g.args[1]);
    return none();
}
Thing set_update(Host&, const Given& g) {
    for (int64_t k = 1; k < g.n; ++k)
        for (const Thing& item : all_of(g.args[k])) dict(g).set(item.get(), Raw());
    return none();
}

/// Of the binary operator `op` with each of the others.
template <int32_t Op>
Thing set_binary(Host& host, const Given& g) {
    Thing out = dict_copy(host, g);
    for (int64_t k = 1; k < g.n; ++k) {
        Thing other = new_set();
        for (const Thing& item : all_of(g.args[k])) other.as<Dict>()->set(item.get(), Raw());
        out = binary(Op, out.get(), other.get());
    }
    return out;
}
constexpr int32_t kSub = 1, kAnd = 8, kOr = 9;

// ---- texts

const std::string& self(const Given& g) { return text_in(g.args[0]); }
const std::string& text_argument(const Given& g, int64_t k, const char* who) {
    if (!g.args[k].is(Kind::Text))
        raise_as(types::TypeError, who, " argument must be str, not ", type_name(g.args[k]));
    return text_in(g.args[k]);
}

Thing text_join(Host&, const Given& g) {
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

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

Thing text_split(Host&, const Given& g) {
    const std::string& s = self(g);
    std::vector<Thing> out;
    int64_t most = g.n > 2 ? index_of(g.args[2], nullptr) : -1;
    if (g.n < 2 || g.args[1].is_none()) {
        size_t at = 0;
        for (;;) {
            while (at < s.size() && is_space(s[at])) ++at;
            if (at == s.size()) break;
            size_t end = at;
            while (end < s.size() && !is_space(s[end])) ++end;
            if (most-- == 0) {
                end = s.size();
                while (is_space(s[end - 1])) --end;
            }
            out.push_back(of_text(s.substr(at, end - at)));
            at = end;
        }
        return list_of(std::move(out));
    }
    const std::string& by = text_argument(g, 1, "split()");
    if (by.empty()) raise_as(types::ValueError, "empty separator");
    size_t at = 0;
    for (;;) {
        const size_t end = most-- == 0 ? s.npos : s.find(by, at);
        out.push_back(of_text(s.substr(at, end == s.npos ? end : end - at)));
        if (end == s.npos) return list_of(std::move(out));
        at = end + by.size();
    }
}

template <bool Left, bool Right>
Thing text_strip(Host&, const Given& g) {
    const std::string& s = self(g);
    const bool given = g.n > 1 && !g.args[1].is_none();
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

template <char From, char To>
Thing text_case(Host&, const Given& g) {
    std::string out = self(g);
    for (char& c : out)
        if (c >= From && c <= From + 25) c = static_cast<char>(c - From + To);
    return of_text(std::move(out));
}

template <bool Ends>
Thing text_begins(Host&, const Given& g) {
    const Raw one[] = {g.args[1]};
    const Items all = g.args[1].is(Kind::Tuple) ? items_in(g.args[1]) : Items{one, 1};
    for (Raw r : all) {
        if (!r.is(Kind::Text))
            raise_as(types::TypeError, Ends ? "endswith" : "startswith",
                     " first arg must be str or a tuple of str, not ", type_name(r));
        if (Ends ? self(g).ends_with(text_in(r)) : self(g).starts_with(text_in(r)))
            return of_bool(true);
    }
    return of_bool(false);
}

Thing text_replace(Host&, const Given& g) {
    const std::string &s = self(g), &from = text_argument(g, 1, "replace()"),
                      &to = text_argument(g, 2, "replace()");
    std::string out;
    size_t at = 0;
    if (from.empty())
        raise_as(types::ValueError, "[str.replace] expected a text that is not empty");
    for (size_t found; (found = s.find(from, at)) != s.npos; at = found + from.size())
        out += s.substr(at, found - at) + to;
    return of_text(out + s.substr(at));
}

Thing text_find(Host&, const Given& g) {
    const size_t at = self(g).find(text_argument(g, 1, "find()"));
    return of_int(at == std::string::npos ? -1 : characters_in(self(g).substr(0, at)));
}
Thing text_index(Host& host, const Given& g) {
    Thing at = text_find(host, g);
    if (int_in(at.get()) < 0) raise_as(types::ValueError, "substring not found");
    return at;
}
Thing text_count(Host&, const Given& g) {
    const std::string &s = self(g), &of = text_argument(g, 1, "count()");
    if (of.empty()) return of_int(characters_in(s) + 1);
    int64_t n = 0;
    for (size_t at = 0; (at = s.find(of, at)) != s.npos; at += of.size()) ++n;
    return of_int(n);
}
Thing text_is_digit(Host&, const Given& g) {
    const std::string& s = self(g);
    return of_bool(!s.empty() &&
                   std::ranges::all_of(s, [](char c) { return c >= '0' && c <= '9'; }));
}

Thing text_encode(Host&, const Given& g) {
    for (int64_t k = 1; k < g.n; ++k)
        if (std::string_view(text_argument(g, k, "encode()")) != (k == 1 ? "utf-8" : "strict"))
            raise_as(types::ValueError, "[str.encode] expected UTF-8, got ", repr_of(g.args[k]));
    return bytes_of(self(g));
}

/// The field of a replacement: a place, a name, or the next one.
Thing field_of(const Given& g, const std::string& name, int64_t& next_place) {
    const bool number = !name.empty() && name.find_first_not_of("0123456789") == name.npos;
    if (name.empty() || number) {
        const int64_t k = number ? std::stoll(name.substr(0, 9)) : next_place++;
        if (k + 1 >= g.n)
            raise_as(types::IndexError, "Replacement index ", k,
                     " out of range for positional args tuple");
        return Thing::borrow(g.args[k + 1]);
    }
    const Raw found = word(g, name);
    if (!found) no_key(of_text(name).get());
    return Thing::borrow(found);
}

Thing text_format(Host&, const Given& g) {
    const std::string& s = self(g);
    std::string out;
    int64_t place = 0;
    for (size_t at = 0; at < s.size(); ++at) {
        const char c = s[at];
        if ((c == '{' || c == '}') && at + 1 < s.size() && s[at + 1] == c) {
            out += c;
            ++at;
            continue;
        }
        if (c == '}') raise_as(types::ValueError, "Single '}' encountered in format string");
        if (c != '{') {
            out += c;
            continue;
        }
        const size_t end = s.find('}', at);
        if (end == s.npos) raise_as(types::ValueError, "expected '}' before end of string");
        std::string field = s.substr(at + 1, end - at - 1), spec;
        if (const size_t colon = field.find(':'); colon != field.npos) {
            spec = field.substr(colon + 1);
            field.resize(colon);
        }
        char convert = 0;
        if (const size_t mark = field.find('!'); mark != field.npos && mark + 1 < field.size()) {
            convert = field[mark + 1];
            field.resize(mark);
        }
        const Thing value = field_of(g, field, place);
        if (convert)
            out += format_of(of_text(convert == 's'   ? str_of(value.get())
                                     : convert == 'a' ? ascii_of(repr_of(value.get()))
                                                      : repr_of(value.get()))
                                 .get(),
                             spec);
        else out += format_of(value.get(), spec);
        at = end;
    }
    return of_text(std::move(out));
}

// ---- tensors

Thing tensor_item(Host&, const Given& g) { return item_of(reading(g.args[0])); }
Thing tensor_list(Host&, const Given& g) { return tensor_to_list(reading(g.args[0])); }

/// The dim that is asked for by place or by name; -1: all.
int one_dim(const char* who, const Tensor& t, const Given& g) {
    const Raw dim = g.n > 1 ? g.args[1] : g.words() ? g.args[g.n] : Raw::none();
    if (dim.is_none()) return -1;
    WEFT_EXPECT(!dim.is(Kind::Bool), Type, who, "an int", "bool");
    WEFT_EXPECT(t.ndim(), Index, who, "a tensor with dimensions",
                "a 0-d one (Dimension specified as 0 but tensor has no dimensions)");
    return wrap_dim(who, index_of(dim, nullptr), t.ndim());
}
Thing tensor_size(Host&, const Given& g) {
    const Tensor t = g.args[0].tensor();
    const int d = one_dim("size", t, g);
    return d < 0 ? size_of(t.shape()) : of_int(t.size(d));
}
Thing tensor_stride(Host&, const Given& g) {
    const Tensor t = g.args[0].tensor();
    const int d = one_dim("stride", t, g);
    if (d >= 0) return of_int(t.stride(d));
    std::vector<Thing> out;
    for (const int64_t s : t.strides()) out.push_back(of_int(s));
    return tuple_of(std::move(out));
}
Thing tensor_dim(Host&, const Given& g) { return of_int(g.args[0].tensor().ndim()); }
Thing tensor_numel(Host&, const Given& g) { return of_int(g.args[0].tensor().numel()); }
Thing tensor_is_contiguous(Host&, const Given& g) {
    return of_bool(g.args[0].tensor().contiguous());
}
Thing tensor_detach(Host&, const Given& g) {
    Tensor t = operand(g.args[0]);
    if (t.has(kPending)) {
        if (Tensor out = promise(t).detached(t); out.defined()) return Thing(std::move(out));
        ops::settle(t);
    }
    return Thing(detach(t));
}
Thing tensor_detach_(Host&, const Given& g) {
    const Tensor t = g.args[0].tensor();
    if (t.has(kPending)) ops::settle(t);
    ops::Change change(t);
    detach_in_place(t);
    return Thing::borrow(g.args[0]);
}
Thing tensor_offset(Host&, const Given& g) {
    const Tensor t = g.args[0].tensor();
    if (t.has(kPending)) ops::settle(t);
    return of_int(t.offset());
}
Thing tensor_element_size(Host&, const Given& g) {
    return of_int(item_size(g.args[0].tensor().dtype()));
}
Thing tensor_is_floating_point(Host&, const Given& g) {
    return of_bool(is_floating(g.args[0].tensor().dtype()));
}
Thing tensor_is_complex(Host&, const Given& g) {
    return of_bool(is_complex(g.args[0].tensor().dtype()));
}
Thing tensor_requires_grad_(Host&, const Given& g) {
    const Raw wanted = g.n > 1 ? g.args[1] : g.words() ? g.args[g.n] : Raw::boolean(true);
    tensor_set_attribute(g.args[0], "requires_grad", wanted);
    return Thing::borrow(g.args[0]);
}

Thing size_numel(Host&, const Given& g) {
    int64_t n = 1;
    for (Raw r : items_in(g.args[0])) n *= int_in(r);
    return of_int(n);
}

struct OfKind {
    Kind kind;
    Builtin method;
};

constexpr OfKind kMethods[] = {
    {Kind::List, {"append", 2, 2, "", list_append, true}},
    {Kind::List, {"extend", 2, 2, "", list_extend, true}},
    {Kind::List, {"pop", 1, 2, "", list_pop, true}},
    {Kind::List, {"insert", 3, 3, "", list_insert, true}},
    {Kind::List, {"remove", 2, 2, "", list_remove, true}},
    {Kind::List, {"reverse", 1, 1, "", list_reverse, true}},
    {Kind::List, {"sort", 1, 1, " reverse ", list_sort, true}},
    {Kind::List, {"clear", 1, 1, "", list_clear, true}},
    {Kind::List, {"copy", 1, 1, "", list_copy, true}},
    {Kind::List, {"index", 2, 2, "", sequence_index, true}},
    {Kind::List, {"count", 2, 2, "", sequence_count, true}},
    {Kind::Tuple, {"index", 2, 2, "", sequence_index, true}},
    {Kind::Tuple, {"count", 2, 2, "", sequence_count, true}},
    {Kind::Dict, {"get", 2, 3, "", dict_get, true}},
    {Kind::Dict, {"keys", 1, 1, "", dict_view<View::Of::Keys>, true}},
    {Kind::Dict, {"values", 1, 1, "", dict_view<View::Of::Values>, true}},
    {Kind::Dict, {"items", 1, 1, "", dict_view<View::Of::Items>, true}},
    {Kind::Dict, {"pop", 2, 3, "", dict_pop, true}},
    {Kind::Dict, {"popitem", 1, 1, "", dict_popitem, true}},
    {Kind::Dict, {"setdefault", 2, 3, "", dict_setdefault, true}},
    {Kind::Dict, {"clear", 1, 1, "", dict_clear, true}},
    {Kind::Dict, {"copy", 1, 1, "", dict_copy, true}},
    {Kind::Set, {"add", 2, 2, "", set_add, true}},
    {Kind::Set, {"discard", 2, 2, "", set_discard, true}},
    {Kind::Set, {"remove", 2, 2, "", set_remove, true}},
    {Kind::Set, {"update", 1, -1, "", set_update, true}},
    {Kind::Set, {"union", 1, -1, "", set_binary<kOr>, true}},
    {Kind::Set, {"intersection", 1, -1, "", set_binary<kAnd>, true}},
    {Kind::Set, {"difference", 1, -1, "", set_binary<kSub>, true}},
    {Kind::Set, {"clear", 1, 1, "", dict_clear, true}},
    {Kind::Set, {"copy", 1, 1, "", dict_copy, true}},
    {Kind::Text, {"join", 2, 2, "", text_join, true}},
    {Kind::Text, {"split", 1, 3, "", text_split, true}},
    {Kind::Text, {"strip", 1, 2, "", text_strip<true, true>, true}},
    {Kind::Text, {"lstrip", 1, 2, "", text_strip<true, false>, true}},
    {Kind::Text, {"rstrip", 1, 2, "", text_strip<false, true>, true}},
    {Kind::Text, {"lower", 1, 1, "", text_case<'A', 'a'>, true}},
    {Kind::Text, {"upper", 1, 1, "", text_case<'a', 'A'>, true}},
    {Kind::Text, {"startswith", 2, 2, "", text_begins<false>, true}},
    {Kind::Text, {"endswith", 2, 2, "", text_begins<true>, true}},
    {Kind::Text, {"replace", 3, 3, "", text_replace, true}},
    {Kind::Text, {"find", 2, 2, "", text_find, true}},
    {Kind::Text, {"encode", 1, 3, "", text_encode, true}},
    {Kind::Text, {"index", 2, 2, "", text_index, true}},
    {Kind::Text, {"count", 2, 2, "", text_count, true}},
    {Kind::Text, {"isdigit", 1, 1, "", text_is_digit, true}},
    {Kind::Tensor, {"item", 1, 1, "", tensor_item, true}},
    {Kind::Tensor, {"tolist", 1, 1, "", tensor_list, true}},
    {Kind::Tensor, {"size", 1, 2, " dim axis ", tensor_size, true}},
    {Kind::Tensor, {"stride", 1, 2, " dim axis ", tensor_stride, true}},
    {Kind::Tensor, {"dim", 1, 1, "", tensor_dim, true}},
    {Kind::Tensor, {"ndimension", 1, 1, "", tensor_dim, true}},
    {Kind::Tensor, {"numel", 1, 1, "", tensor_numel, true}},
    {Kind::Tensor, {"nelement", 1, 1, "", tensor_numel, true}},
    {Kind::Tensor, {"is_contiguous", 1, 1, "", tensor_is_contiguous, true}},
    {Kind::Tensor, {"detach", 1, 1, "", tensor_detach, true}},
    {Kind::Tensor, {"detach_", 1, 1, "", tensor_detach_, true}},
    {Kind::Tensor, {"storage_offset", 1, 1, "", tensor_offset, true}},
    {Kind::Tensor, {"element_size", 1, 1, "", tensor_element_size, true}},
    {Kind::Tensor, {"is_floating_point", 1, 1, "", tensor_is_floating_point, true}},
    {Kind::Tensor, {"is_complex", 1, 1, "", tensor_is_complex, true}},
    {Kind::Tensor, {"requires_grad_", 1, 2, " requires_grad ", tensor_requires_grad_, true}},
};
/// These take any keyword.
constexpr Builtin kDictUpdate{"update", 1, 2, "*", dict_update, true},
    kTextFormat{"format", 1, -1, "*", text_format, true};
constexpr Builtin kSizeNumel{"numel", 1, 1, "", size_numel, true};

}  // namespace

const Builtin* method_named(Raw self, std::string_view name) {
    const Kind kind = self.kind();
    if (kind == Kind::Dict && name == kDictUpdate.name) return &kDictUpdate;
    if (kind == Kind::Text && name == kTextFormat.name) return &kTextFormat;
    for (const OfKind& m : kMethods)
        if (m.kind == kind && m.method.name == name) return &m.method;
    if (kind == Kind::Tuple && self.as<Tuple>()->of == &size_class() && name == "numel")
        return &kSizeNumel;
    return nullptr;
}

}  // namespace weft::native
