/// Reading guide: operators; then order, equality, truth and hashes.
#include "native/operators.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "native/package.h"
#include "native/tensors.h"
#include "program/verbs.h"

namespace weft::native {
namespace {

enum Order : int32_t { Lt, Le, Eq, Ne, Gt, Ge, Is, IsNot, In, NotIn };

[[noreturn]] void unsupported(int32_t op, bool in_place, Raw a, Raw b) {
    std::string sign(program::kBinary[op]);
    if (in_place) sign += "=";
    else if (op == Pow) sign = "** or pow()";
    raise_as(types::TypeError, "unsupported operand type(s) for ", sign, ": '", type_name(a),
             "' and '", type_name(b), "'");
}

constexpr int64_t kMostItems = int64_t{1} << 48;

Thing repeat(Raw sequence, int64_t times) {
    times = std::max<int64_t>(times, 0);
    auto room = [&](int64_t size) {
        if (size && times > kMostItems / size) raise_text(types::MemoryError, "");
    };
    if (sequence.is(Kind::Text)) {
        const std::string& text = text_in(sequence);
        room(static_cast<int64_t>(text.size()));
        std::string out;
        out.reserve(text.size() * static_cast<size_t>(times));
        for (int64_t k = 0; k < times; ++k) out += text;
        return of_text(std::move(out));
    }
    const Items items = items_in(sequence);
    room(items.size);
    std::vector<Thing> out;
    out.reserve(static_cast<size_t>(items.size * times));
    for (int64_t k = 0; k < times && items.size; ++k)
        for (Raw item : items) out.push_back(Thing::borrow(item));
    return sequence.is(Kind::List) ? list_of(std::move(out)) : tuple_of(std::move(out));
}

Thing joined(Raw a, Raw b) {
    std::vector<Thing> out;
    for (Raw from : {a, b})
        for (Raw item : items_in(from)) out.push_back(Thing::borrow(item));
    if (a.is(Kind::List)) return list_of(std::move(out));
    return tuple_of(std::move(out), class_of_parts(a.as<Tuple>()->of));
}

bool is_text(Raw r) { return r.is(Kind::Text); }

/// Of texts, tuples, lists; empty if they take no part.
Thing sequence_binary(int32_t op, Raw a, Raw b) {
    auto sequence = [](Raw r) { return is_sequence(r) || is_text(r); };
    auto whole = [](Raw r) { return is_int(r) || r.is(Kind::Bool) || r.is_tensor(); };
    if (op == Add && sequence(a)) {
        if (is_text(a) && is_text(b)) return of_text(text_in(a) + text_in(b));
        if (is_sequence(a) && a.kind() == b.kind()) return joined(a, b);
        const char* kind = is_text(a) ? "str" : a.is(Kind::List) ? "list" : "tuple";
        raise_as(types::TypeError, "can only concatenate ", kind, " (not \"", type_name(b),
                 "\") to ", kind);
    }
    if (op == Mul && (sequence(a) || sequence(b))) {
        if (sequence(a) && whole(b)) return repeat(a, index_of(b, nullptr));
        if (sequence(b) && whole(a)) return repeat(b, index_of(a, nullptr));
        raise_as(types::TypeError, "can't multiply sequence by non-int of type '",
                 type_name(sequence(a) ? b : a), "'");
    }
    return {};
}

Thing copy_of_dict(Raw from) {
    Thing out = make_thing<Dict>(from.kind());
    out.as<Dict>()->frozen = from.as<Dict>()->frozen;
    for (const Dict::Entry& e : from.as<Dict>()->entries)
        if (e.key) out.as<Dict>()->set(e.key, e.value);
    return out;
}

Thing dict_binary(int32_t op, Raw left, Raw right) {
    const Thing l = keys_as_set(left), r = keys_as_set(right);
    const Raw a = l.get(), b = r.get();
    if (a.kind() != b.kind() || !(a.is(Kind::Dict) || a.is(Kind::Set))) return {};
    auto* y = b.as<Dict>();
    if (op == Or) {
        Thing out = copy_of_dict(a);
        for (const Dict::Entry& e : y->entries)
            if (e.key) out.as<Dict>()->set(e.key, e.value);
        return out;
    }
    if (a.is(Kind::Dict) || !(op == And || op == Sub || op == Xor)) return {};
    Thing out = new_set(a.as<Dict>()->frozen);
    for (const Dict::Entry& e : a.as<Dict>()->entries)
        if (e.key && y->has(e.key) == (op == And)) out.as<Dict>()->set(e.key, Raw());
    if (op == Xor)
        for (const Dict::Entry& e : y->entries)
            if (e.key && !a.as<Dict>()->has(e.key)) out.as<Dict>()->set(e.key, Raw());
    return out;
}

Thing binary_or_none(int32_t op, Raw a, Raw b) {
    if (Thing out = number_binary(op, a, b)) return out;
    if (a.is(Kind::Text) && op == Mod) return of_text(percent_format(text_in(a), b));
    if (a.is_tensor() || b.is_tensor())
        if (Thing out = tensor_binary(op, a, b)) return out;
    if (Thing out = sequence_binary(op, a, b)) return out;
    return dict_binary(op, a, b);
}

}  // namespace

void update(Dict& dict, Raw pairs) {
    int64_t k = 0;
    for (const Thing& pair : all_of(pairs)) {
        if (!has_items(pair.get()))
            raise_as(types::TypeError, "cannot convert dictionary update sequence element #", k,
                     " to a sequence");
        const std::vector<Thing> two = all_of(pair.get());
        if (two.size() != 2)
            raise_as(types::ValueError, "dictionary update sequence element #", k, " has length ",
                     two.size(), "; 2 is required");
        dict.set(two[0].get(), two[1].get());
        ++k;
    }
}

Thing binary(int32_t op, Raw a, Raw b) {
    if (Thing out = binary_or_none(op, a, b)) return out;
    unsupported(op, false, a, b);
}

Thing inplace(int32_t op, Raw a, Raw b) {
    if (a.is_tensor()) {
        if (Thing out = tensor_inplace(op, a, b)) return out;
    } else if (a.is(Kind::List) && op == Add) {
        if (!is_iterable(b))
            raise_as(types::TypeError, "'", type_name(b), "' object is not iterable");
        for (Thing& item : all_of(b)) a.as<List>()->items.push_back(item.release());
        return Thing::borrow(a);
    } else if (a.is(Kind::List) && op == Mul && (is_int(b) || b.is(Kind::Bool) || b.is_tensor())) {
        Thing all = repeat(a, index_of(b, nullptr));
        std::swap(a.as<List>()->items, all.as<List>()->items);
        return Thing::borrow(a);
    } else if (a.is(Kind::Dict) && op == Or && !b.is(Kind::Dict)) {
        update(*a.as<Dict>(), b);
        return Thing::borrow(a);
    } else if ((a.is(Kind::Dict) || (a.is(Kind::Set) && !a.as<Dict>()->frozen)) &&
               a.kind() == b.kind()) {
        if (Thing out = dict_binary(op, a, b)) {
            auto *x = a.as<Dict>(), *y = out.as<Dict>();
            std::swap(x->entries, y->entries);
            std::swap(x->table, y->table);
            std::swap(x->size, y->size);
            ++x->changes;
            return Thing::borrow(a);
        }
    }
    // CPython asks a sequence on the right where the left is no container
    const bool is_container = a.is(Kind::Dict) || a.is(Kind::Set) || a.is(Kind::View) ||
                              a.is(Kind::Range) || a.is(Kind::Record);
    if (op == Mul && is_container) unsupported(op, true, a, b);
    if (Thing out = binary_or_none(op, a, b)) return out;
    unsupported(op, true, a, b);
}

Thing unary(int32_t op, Raw a) {
    if (op == 3) return of_bool(!truth(a));
    if (a.is_tensor()) return tensor_unary(op, a);
    const Kind k = a.kind();
    if (k == Kind::Int || k == Kind::Bool) {
        const int64_t v = int_in(a);
        if (op == 2) return of_int(~v);
        return op == 1 ? of_int(v) : number_binary(Sub, Raw::small(0), a);
    }
    if (k == Kind::Float && op < 2) return of_double(op == 0 ? -double_in(a) : double_in(a));
    if (k == Kind::Complex && op < 2)
        return of_complex(op == 0 ? -number_as_complex(a) : number_as_complex(a));
    const char* const signs[] = {"-", "+", "~"};
    raise_as(types::TypeError, "bad operand type for unary ", signs[op], ": '", type_name(a), "'");
}

// ---- order

namespace {

constexpr int kUnordered = 2;

/// One level down, in a comparison that goes into values of values. (No count of the thread's: an example that
/// waits for the truth of a tensor inside leaves the thread to others.)
int deeper(int depth) {
    if (depth >= 400)
        raise_as(types::RecursionError, "maximum recursion depth exceeded in comparison");
    return depth + 1;
}

Thing compare(int32_t op, Raw a, Raw b, int depth);

bool equal(Raw a, Raw b, int depth) {
    if (a == b) return true;
    if (a.is_small() && b.is_small()) return false;
    return truth(compare(Eq, a, b, depth).get());
}

bool order_holds(int32_t op, int order) {
    if (order == kUnordered) return op == Ne;
    switch (op) {
        case Lt:
            return order < 0;
        case Le:
            return order <= 0;
        case Eq:
            return order == 0;
        case Ne:
            return order != 0;
        case Gt:
            return order > 0;
        default:
            return order >= 0;
    }
}

bool same_dicts(const Dict& a, const Dict& b, int depth) {
    if (a.size != b.size) return false;
    for (size_t at = 0; at < a.entries.size(); ++at) {
        const Thing key = Thing::borrow(a.entries[at].key);
        if (!key) continue;
        const int64_t k = b.place(key.get());
        if (k < 0) return false;
        const Thing x = Thing::borrow(a.entries[at].value),
                    y = Thing::borrow(b.entries[static_cast<size_t>(k)].value);
        if (x && !equal(x.get(), y.get(), depth)) return false;
    }
    return true;
}

bool same_ranges(const Range& a, const Range& b) {
    const int64_t n = a.size();
    if (n != b.size()) return false;
    return n == 0 || (a.start == b.start && (n == 1 || a.step == b.step));
}

bool same_records(const Record& a, const Record& b, int depth) {
    if (!a.of->is_data || !b.of->is_data || a.of->name != b.of->name || a.of->is_itself)
        return false;
    return std::ranges::all_of(a.of->fields, [&](const std::string& name) {
        if (!a.of->compares(name)) return true;
        const Thing x = Thing::borrow(a.find(name)), y = Thing::borrow(b.find(name));
        return x && y ? equal(x.get(), y.get(), depth) : !x && !y;
    });
}

/// The caller's objects bring classes of their own, with what these objects have.
bool is_same_class(Raw a, Raw b) { return a.lasting<Class>()->name == b.lasting<Class>()->name; }

/// Of two that are no numbers and no tensors.
bool same(Raw a, Raw b, int depth) {
    if (a == b) return true;
    if (a.is(Kind::Class) && b.is(Kind::Class)) return is_same_class(a, b);
    if (a.kind() != b.kind() || a.is_immediate()) return false;
    depth = deeper(depth);
    switch (a.kind()) {
        case Kind::Text:
            return text_in(a) == text_in(b);
        case Kind::Tuple:
            if (is_bytes(a) != is_bytes(b)) return false;
            [[fallthrough]];
        case Kind::List: {
            if (items_in(a).size != items_in(b).size) return false;
            for (int64_t k = 0;; ++k) {
                const Thing x = item_at(a, k), y = item_at(b, k);
                if (!x || !y) return !x && !y;
                if (!equal(x.get(), y.get(), depth)) return false;
            }
        }
        case Kind::Dict:
        case Kind::Set:
            return same_dicts(*a.as<Dict>(), *b.as<Dict>(), depth);
        case Kind::Slice: {
            const auto *x = a.as<Slice>(), *y = b.as<Slice>();
            return equal(x->start, y->start, depth) && equal(x->stop, y->stop, depth) &&
                   equal(x->step, y->step, depth);
        }
        case Kind::Range:
            return same_ranges(*a.as<Range>(), *b.as<Range>());
        case Kind::Record:
            return same_records(*a.as<Record>(), *b.as<Record>(), depth);
        default:
            return false;
    }
}

Thing ordered(int32_t op, Raw a, Raw b, int depth) {
    const Kind k = a.kind();
    if (k == b.kind()) {
        if (k == Kind::Text) {
            const int order = text_in(a).compare(text_in(b));  // UTF-8 has the order of characters
            return of_bool(order_holds(op, order < 0 ? -1 : order > 0));
        }
        if (k == Kind::Tuple || k == Kind::List) {
            depth = deeper(depth);
            for (int64_t i = 0;; ++i) {
                const Thing x = item_at(a, i), y = item_at(b, i);
                if (!x || !y) return of_bool(order_holds(op, x ? 1 : y ? -1 : 0));
                if (!equal(x.get(), y.get(), depth)) return compare(op, x.get(), y.get(), depth);
            }
        }
        if (k == Kind::Set) {
            const auto *x = a.as<Dict>(), *y = b.as<Dict>();
            const bool up = op == Lt || op == Le;
            const Dict &small = up ? *x : *y, &large = up ? *y : *x;
            if (op == Lt || op == Gt ? small.size >= large.size : small.size > large.size)
                return of_bool(false);
            for (const Dict::Entry& e : small.entries)
                if (e.key && !large.has(e.key)) return of_bool(false);
            return of_bool(true);
        }
    }
    raise_as(types::TypeError, "'", program::kCompare[op], "' not supported between instances of '",
             type_name(a), "' and '", type_name(b), "'");
}

/// Keys and items of dicts as sets; of items alone the values need not be keys.
Thing views_compared(int32_t op, Raw a, Raw b, int depth) {
    auto items = [](Raw r) { return r.is(Kind::View) && r.as<View>()->of == View::Of::Items; };
    if ((op == Eq || op == Ne) && items(a) && items(b)) {
        const Raw x = a.as<View>()->dict, y = b.as<View>()->dict;
        return of_bool(same_dicts(*x.as<Dict>(), *y.as<Dict>(), depth) == (op == Eq));
    }
    const Thing x = keys_as_set(a), y = keys_as_set(b);
    if (x.is(Kind::Set) && y.is(Kind::Set)) {
        a = x.get();
        b = y.get();
    }
    if (op == Eq || op == Ne) return of_bool(same(a, b, depth) == (op == Eq));
    return ordered(op, a, b, depth);
}

Thing compare(int32_t op, Raw a, Raw b, int depth) {
    if (op == Is || op == IsNot) {
        // small numbers and texts are one object in CPython by chance only
        const bool same = a == b || (a.is(Kind::Class) && b.is(Kind::Class) && is_same_class(a, b));
        return of_bool(same == (op == Is));
    }
    if (op == In || op == NotIn) return of_bool(contains(b, a) == (op == In));
    if (a.is_tensor() || b.is_tensor())
        if (Thing out = tensor_compare(op, a, b)) return out;
    if (a.is(Kind::View) || b.is(Kind::View)) return views_compared(op, a, b, depth);
    if (is_number(a) && is_number(b)) {
        if (!a.is(Kind::Complex) && !b.is(Kind::Complex))
            return of_bool(order_holds(op, order_of_numbers(a, b)));
        if (op == Eq || op == Ne)
            return of_bool((number_as_complex(a) == number_as_complex(b)) == (op == Eq));
    }
    if (op == Eq || op == Ne) return of_bool(same(a, b, depth) == (op == Eq));
    return ordered(op, a, b, depth);
}

}  // namespace

Thing compare(int32_t op, Raw a, Raw b) { return compare(op, a, b, 0); }

bool equal(Raw a, Raw b) { return equal(a, b, 0); }

bool truth(Raw value) {
    switch (value.kind()) {
        case Kind::None:
            return false;
        case Kind::Bool:
            return value.truth_of_bool();
        case Kind::Int:
            return int_in(value) != 0;
        case Kind::Float:
            return double_in(value) != 0;
        case Kind::Complex:
            return number_as_complex(value) != 0.0;
        case Kind::Text:
            return !text_in(value).empty();
        case Kind::Tensor:
            return tensor_truth(value);
        default:
            return !is_sized(value) || length(value) != 0;
    }
}

namespace {

uint64_t mixed(uint64_t h) {
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdull;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53ull;
    return h ^ h >> 33;
}

uint64_t hash_of(Raw key, int depth) {
    switch (key.kind()) {
        case Kind::Int:
        case Kind::Bool:
            return mixed(static_cast<uint64_t>(int_in(key)));
        case Kind::Float: {
            const double v = double_in(key);
            if (v >= -0x1p63 && v < 0x1p63 && v == std::floor(v))
                return mixed(static_cast<uint64_t>(static_cast<int64_t>(v)));
            return mixed(std::hash<double>()(v));
        }
        case Kind::Complex: {
            const auto v = number_as_complex(key);
            const Thing real = of_double(v.real());
            return v.imag() == 0
                       ? hash_of(real.get(), depth)
                       : mixed(hash_of(real.get(), depth) + std::hash<double>()(v.imag()));
        }
        case Kind::Text:
            return mixed(std::hash<std::string>()(text_in(key)));
        case Kind::Tuple: {
            depth = deeper(depth);
            uint64_t h = 17;
            for (Raw item : items_in(key)) h = mixed(h * 31 + hash_of(item, depth));
            return h;
        }
        case Kind::Range:
            return mixed(static_cast<uint64_t>(key.as<Range>()->size()));
        case Kind::Record: {
            const auto* record = key.as<Record>();
            const Class& of = *record->of;
            if (of.unhashable) break;
            if (!of.is_data || of.is_itself) return mixed(key.bits());
            depth = deeper(depth);
            uint64_t h = 19;  // equal ones have equal fields
            for (size_t k = 0; k < record->fields.size(); ++k)
                if (const Raw field = record->fields[k]; field && of.compares(of.fields[k]))
                    h = mixed(h * 31 + hash_of(field, depth));
            return h;
        }
        case Kind::Class:
            return mixed(std::hash<std::string>()(key.lasting<Class>()->name));
        case Kind::Set: {
            if (!key.as<Dict>()->frozen) break;
            uint64_t h = 23;  // in any order
            for (const Dict::Entry& e : key.as<Dict>()->entries)
                if (e.key) h += mixed(e.hash);
            return mixed(h);
        }
        case Kind::List:
        case Kind::Dict:
        case Kind::Slice:
            break;
        default:
            return mixed(key.bits());
    }
    raise_as(types::TypeError, "unhashable type: '", type_name(key), "'");
}

}  // namespace

uint64_t hash_of(Raw key) { return hash_of(key, 0); }

}  // namespace weft::native
