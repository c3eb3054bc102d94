/// Methods of lists, dicts, sets, numbers, and those of tensors that are no ops; those of texts are in texts.cpp. `g.args[0]` is the value itself.
#include <algorithm>
#include <bit>
#include <cmath>

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

/// Of lists and tuples, from a place to another.
Thing sequence_index(Host&, const Given& g) {
    const int64_t size = length(g.args[0]);
    auto place = [&](int64_t k, int64_t otherwise) {
        if (g.n <= k) return otherwise;
        const int64_t at = index_of(g.args[k], nullptr);
        return at < 0 ? std::max<int64_t>(at + size, 0) : at;
    };
    const int64_t end = place(3, INT64_MAX);
    for (int64_t k = place(2, 0); k < end; ++k) {
        const Thing item = item_at(g.args[0], k);
        if (!item) break;
        if (equal(item.get(), g.args[1])) return of_int(k);
    }
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
Thing dict_pop(Host&, const Given& g) {
    if (dict(g).size)  // CPython asks no hash of an empty one
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
    out.as<Dict>()->frozen = dict(g).frozen;
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
Thing set_pop(Host&, const Given& g) {
    for (const Dict::Entry& e : dict(g).entries) {
        if (!e.key) continue;
        Thing out = Thing::borrow(e.key);
        dict(g).take(e.key);
        return out;
    }
    std::vector<Thing> args;
    args.push_back(of_text("pop from an empty set"));
    throw Raised{make_error(types::KeyError, std::move(args))};
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
        out = binary(Op, out.get(), set_of(g.args[k]).get());
    }
    return out;
}

/// The same into the set itself.
template <int32_t Op>
Thing set_changed(Host& host, const Given& g) {
    const Thing out = set_binary<Op>(host, g);
    dict(g).clear();
    for (const Dict::Entry& e : out.as<Dict>()->entries)
        if (e.key) dict(g).set(e.key, Raw());
    return none();
}

/// Whether `left` has all of `right`, or with `none` nothing of it.
bool has_all(const Dict& left, const Dict& right, bool none = false) {
    return std::ranges::all_of(
        right.entries, [&](const Dict::Entry& e) { return !e.key || left.has(e.key) != none; });
}
Thing set_is_subset(Host&, const Given& g) {
    return of_bool(has_all(*set_of(g.args[1]).as<Dict>(), dict(g)));
}
Thing set_is_superset(Host&, const Given& g) {
    return of_bool(has_all(dict(g), *set_of(g.args[1]).as<Dict>()));
}
/// Of a view, too.
Thing set_is_disjoint(Host&, const Given& g) {
    const Thing self = keys_as_set(g.args[0]);
    return of_bool(has_all(*self.as<Dict>(), *set_of(g.args[1]).as<Dict>(), /*none=*/true));
}

// ---- numbers

Thing int_bit_length(Host&, const Given& g) {
    const int64_t v = int_in(g.args[0]);
    return of_int(std::bit_width(v < 0 ? -static_cast<uint64_t>(v) : static_cast<uint64_t>(v)));
}
Thing int_bit_count(Host&, const Given& g) {
    const int64_t v = int_in(g.args[0]);
    return of_int(std::popcount(v < 0 ? -static_cast<uint64_t>(v) : static_cast<uint64_t>(v)));
}
Thing int_conjugate(Host&, const Given& g) { return of_int(int_in(g.args[0])); }
Thing float_is_integer(Host&, const Given& g) {
    const double v = double_in(g.args[0]);
    return of_bool(std::isfinite(v) && std::floor(v) == v);
}
Thing float_conjugate(Host&, const Given& g) { return of_double(double_in(g.args[0])); }
Thing complex_conjugate(Host&, const Given& g) {
    return of_complex(std::conj(number_as_complex(g.args[0])));
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
Thing of_dtype(DType t) {
    return Thing::steal(Raw::immediate(Kind::DType, static_cast<uint64_t>(t)));
}
Thing dtype_to_real(Host&, const Given& g) { return of_dtype(real_dtype(dtype_in(g.args[0]))); }
Thing dtype_to_complex(Host&, const Given& g) {
    const DType t = dtype_in(g.args[0]);
    if (!is_floating(t) && !is_complex(t))
        raise_as(types::RuntimeError, "[to_complex] expected a floating or complex dtype, got ",
                 name(t));
    return of_dtype(complex_dtype(t));
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
    {Kind::List, {"index", 2, 4, "", sequence_index, true}},
    {Kind::List, {"count", 2, 2, "", sequence_count, true}},
    {Kind::Tuple, {"index", 2, 4, "", sequence_index, true}},
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
    {Kind::Set, {"pop", 1, 1, "", set_pop, true}},
    {Kind::Set, {"update", 1, -1, "", set_update, true}},
    {Kind::Set, {"union", 1, -1, "", set_binary<Or>, true}},
    {Kind::Set, {"intersection", 1, -1, "", set_binary<And>, true}},
    {Kind::Set, {"difference", 1, -1, "", set_binary<Sub>, true}},
    {Kind::Set, {"symmetric_difference", 2, 2, "", set_binary<Xor>, true}},
    {Kind::Set, {"intersection_update", 1, -1, "", set_changed<And>, true}},
    {Kind::Set, {"difference_update", 1, -1, "", set_changed<Sub>, true}},
    {Kind::Set, {"symmetric_difference_update", 2, 2, "", set_changed<Xor>, true}},
    {Kind::Set, {"issubset", 2, 2, "", set_is_subset, true}},
    {Kind::Set, {"issuperset", 2, 2, "", set_is_superset, true}},
    {Kind::Set, {"isdisjoint", 2, 2, "", set_is_disjoint, true}},
    {Kind::View, {"isdisjoint", 2, 2, "", set_is_disjoint, true}},
    {Kind::Set, {"clear", 1, 1, "", dict_clear, true}},
    {Kind::Set, {"copy", 1, 1, "", dict_copy, true}},
    {Kind::Int, {"bit_length", 1, 1, "", int_bit_length, true}},
    {Kind::Int, {"bit_count", 1, 1, "", int_bit_count, true}},
    {Kind::Int, {"conjugate", 1, 1, "", int_conjugate, true}},
    {Kind::Bool, {"bit_length", 1, 1, "", int_bit_length, true}},
    {Kind::Bool, {"bit_count", 1, 1, "", int_bit_count, true}},
    {Kind::Bool, {"conjugate", 1, 1, "", int_conjugate, true}},
    {Kind::Float, {"is_integer", 1, 1, "", float_is_integer, true}},
    {Kind::Float, {"conjugate", 1, 1, "", float_conjugate, true}},
    {Kind::Complex, {"conjugate", 1, 1, "", complex_conjugate, true}},
    {Kind::DType, {"to_real", 1, 1, "", dtype_to_real, true}},
    {Kind::DType, {"to_complex", 1, 1, "", dtype_to_complex, true}},
    {Kind::Tensor, {"item", 1, 1, "", tensor_item, true}},
    {Kind::Tensor, {"tolist", 1, 1, "", tensor_list, true}},
    {Kind::Tensor, {"size", 1, 2, " dim axis ", tensor_size, true, Comes::Layout}},
    {Kind::Tensor, {"stride", 1, 2, " dim axis ", tensor_stride, true, Comes::Layout}},
    {Kind::Tensor, {"dim", 1, 1, "", tensor_dim, true, Comes::Layout}},
    {Kind::Tensor, {"ndimension", 1, 1, "", tensor_dim, true, Comes::Layout}},
    {Kind::Tensor, {"numel", 1, 1, "", tensor_numel, true, Comes::Layout}},
    {Kind::Tensor, {"nelement", 1, 1, "", tensor_numel, true, Comes::Layout}},
    {Kind::Tensor, {"is_contiguous", 1, 1, "", tensor_is_contiguous, true, Comes::Layout}},
    {Kind::Tensor, {"detach", 1, 1, "", tensor_detach, true, Comes::Same}},
    {Kind::Tensor, {"detach_", 1, 1, "", tensor_detach_, true, Comes::Self}},
    {Kind::Tensor, {"storage_offset", 1, 1, "", tensor_offset, true}},
    {Kind::Tensor, {"element_size", 1, 1, "", tensor_element_size, true, Comes::Layout}},
    {Kind::Tensor, {"is_floating_point", 1, 1, "", tensor_is_floating_point, true, Comes::Layout}},
    {Kind::Tensor, {"is_complex", 1, 1, "", tensor_is_complex, true, Comes::Layout}},
    {Kind::Tensor,
     {"requires_grad_", 1, 2, " requires_grad ", tensor_requires_grad_, true, Comes::Self}},
};
/// What a frozenset has not.
constexpr std::string_view kChangesSets =
    " add discard remove pop update clear intersection_update difference_update "
    "symmetric_difference_update ";
/// It takes any keyword.
constexpr Builtin kDictUpdate{"update", 1, 2, "*", dict_update, true};
constexpr Builtin kSizeNumel{"numel", 1, 1, "", size_numel, true};

}  // namespace

const Builtin* method_named(Raw self, std::string_view name) {
    const Kind kind = self.kind();
    if (kind == Kind::Dict && name == kDictUpdate.name) return &kDictUpdate;
    if (kind == Kind::Text) return text_method_named(name);
    if (kind == Kind::Set && self.as<Dict>()->frozen &&
        kChangesSets.find(" " + std::string(name) + " ") != kChangesSets.npos)
        return nullptr;
    for (const OfKind& m : kMethods)
        if (m.kind == kind && m.method.name == name) return &m.method;
    if (kind == Kind::Tuple && self.as<Tuple>()->of == &size_class() && name == "numel")
        return &kSizeNumel;
    return nullptr;
}

std::vector<std::string_view> method_names() {
    std::vector<std::string_view> out = text_method_names();
    for (const OfKind& m : kMethods) out.push_back(m.method.name);
    out.push_back(kDictUpdate.name);
    return out;
}

std::vector<const Builtin*> tensor_methods() {
    std::vector<const Builtin*> out;
    for (const OfKind& m : kMethods)
        if (m.kind == Kind::Tensor) out.push_back(&m.method);
    return out;
}

}  // namespace weft::native
