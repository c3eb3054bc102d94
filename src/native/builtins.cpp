#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/meta.h"
#include "native/host.h"
#include "native/tensors.h"
#include "native/utf8.h"
#include "ops/pointwise.h"

namespace weft::native {
namespace {

constexpr int32_t kAdd = 0, kFloorDiv = 4, kMod = 5, kPow = 6, kLt = 0, kGt = 4;

bool flag(const Given& g, std::string_view name) {
    const Raw r = word(g, name);
    return r && truth(r);
}
Raw word_or(const Given& g, std::string_view name, Raw otherwise) {
    const Raw r = word(g, name);
    return r ? r : otherwise;
}
/// An argument by place or by name; empty if it is not given.
Raw argument(const Given& g, int64_t place, std::string_view name) {
    return g.n > place ? g.args[place] : word(g, name);
}

Thing abs_of(Host&, const Given& g) {
    const Raw v = g.args[0];
    switch (v.kind()) {
        case Kind::Tensor: {
            static const ops::Function abs{"abs"};
            return Thing(abs(operand(v)));
        }
        case Kind::Int:
        case Kind::Bool:
            return int_in(v) < 0 ? unary(0, v) : of_int(int_in(v));
        case Kind::Float:
            return of_double(std::fabs(double_in(v)));
        case Kind::Complex:
            return of_double(std::abs(number_as_complex(v)));
        default:
            raise_as(types::TypeError, "bad operand type for abs(): '", type_name(v), "'");
    }
}

/// The least or greatest; of several arguments, or of the items of one.
Thing extreme(const Given& g, const char* who, int32_t order) {
    std::vector<Thing> items;
    if (g.n == 1) items = all_of(g.args[0]);
    else
        for (int64_t k = 0; k < g.n; ++k) items.push_back(Thing::borrow(g.args[k]));
    if (items.empty()) {
        if (const Raw otherwise = word(g, "default")) return Thing::borrow(otherwise);
        raise_as(types::ValueError, who, "() arg is an empty sequence");
    }
    Thing best = items[0];
    for (size_t k = 1; k < items.size(); ++k)
        if (truth(compare(order, items[k].get(), best.get()).get())) best = items[k];
    return best;
}

Thing sum_of(Host&, const Given& g) {
    const Raw start = argument(g, 1, "start");
    Thing total = start ? Thing::borrow(start) : of_int(0);
    if (total.is(Kind::Text))
        raise_as(types::TypeError, "sum() can't sum strings [use ''.join(seq) instead]");
    for (const Thing& item : all_of(g.args[0])) total = binary(kAdd, total.get(), item.get());
    return total;
}

/// Stable, by < alone.
void sort_by(std::vector<size_t>& order, const std::vector<Thing>& keys, bool reverse) {
    auto less = [&](size_t a, size_t b) {
        const Raw x = keys[reverse ? b : a].get(), y = keys[reverse ? a : b].get();
        if (x.is_small() && y.is_small()) return x.small() < y.small();
        return truth(compare(kLt, x, y).get());
    };
    std::stable_sort(order.begin(), order.end(), less);
}

std::vector<Thing> sorted_items(std::vector<Thing> items, const std::vector<Thing>& keys,
                                bool reverse) {
    std::vector<size_t> order(items.size());
    std::iota(order.begin(), order.end(), size_t{0});
    sort_by(order, keys, reverse);
    std::vector<Thing> out;
    for (const size_t k : order) out.push_back(std::move(items[k]));
    return out;
}

Thing sorted_of(Host&, const Given& g) {
    std::vector<Thing> items = all_of(g.args[0]);
    return list_of(sorted_items(items, items, flag(g, "reverse")));
}

/// (values, keys, reverse)
struct Keyed {
    std::vector<Thing> values, keys;
    explicit Keyed(const Given& g) : values(all_of(g.args[0])), keys(all_of(g.args[1])) {
        if (keys.size() != values.size())
            raise_as(types::ValueError, "[package] expected a key for each value, got ",
                     keys.size(), " for ", values.size());
    }
};
Thing sorted_by(Host&, const Given& g) {
    const Keyed k(g);
    return list_of(sorted_items(k.values, k.keys, g.n > 2 && truth(g.args[2])));
}
Thing extreme_by(const Given& g, const char* who, int32_t order) {
    const Keyed k(g);
    if (k.values.empty()) raise_as(types::ValueError, who, "() arg is an empty sequence");
    size_t best = 0;
    for (size_t i = 1; i < k.keys.size(); ++i)
        if (truth(compare(order, k.keys[i].get(), k.keys[best].get()).get())) best = i;
    return k.values[best];
}

Thing any_of(const Given& g, bool wanted) {
    const Thing iterator = iterate(g.args[0]);
    while (const Thing item = next(*iterator.as<Iterator>()))
        if (truth(item.get()) == wanted) return of_bool(wanted);
    return of_bool(!wanted);
}

Thing enumerated(Host&, const Given& g) {
    Thing made = make_thing<Iterator>();
    auto* i = made.as<Iterator>();
    i->how = Iterator::How::Enumerate;
    if (const Raw start = argument(g, 1, "start")) i->at = index_of(start, nullptr);
    i->of = iterate(g.args[0]).release();
    return made;
}

Thing zipped(Host&, const Given& g) {
    Thing made = make_thing<Iterator>();
    auto* i = made.as<Iterator>();
    i->how = Iterator::How::Zip;
    i->strict = flag(g, "strict");
    for (int64_t k = 0; k < g.n; ++k) {
        if (!is_iterable(g.args[k]))
            raise_as(types::TypeError, "'", type_name(g.args[k]), "' object is not iterable");
        i->several.push_back(iterate(g.args[k]).release());
    }
    return made;
}

Thing next_of(Host&, const Given& g) {
    if (!g.args[0].is(Kind::Iterator))
        raise_as(types::TypeError, "'", type_name(g.args[0]), "' object is not an iterator");
    if (Thing item = next(*g.args[0].as<Iterator>())) return item;
    if (g.n > 1) return Thing::borrow(g.args[1]);
    throw Raised{make_error(types::StopIteration, {})};
}

Thing reversed_of(Host&, const Given& g) {
    const Raw v = g.args[0];
    if (v.is_tensor()) {
        static const ops::Function flip{"flip"};
        const Tensor t = operand(v);
        return t.ndim() ? Thing(flip(t, Dims{0})) : Thing::borrow(v);
    }
    Thing of = Thing::borrow(v);
    if (v.is(Kind::Dict) || v.is(Kind::View) || v.is(Kind::Text)) of = list_of(all_of(v));
    if (!is_sequence(of.get()) && !of.is(Kind::Range))
        raise_as(types::TypeError, "'", type_name(v), "' object is not reversible");
    Thing made = make_thing<Iterator>();
    auto* i = made.as<Iterator>();
    i->how = Iterator::How::Reversed;
    i->at = length(of.get()) - 1;
    i->of = of.release();
    return made;
}

Thing print_of(Host& host, const Given& g) {
    std::string out;
    const Raw sep = word_or(g, "sep", Raw::none()), end = word_or(g, "end", Raw::none());
    for (int64_t k = 0; k < g.n; ++k) {
        if (k) out += sep.is_none() ? " " : str_of(sep);
        out += str_of(g.args[k]);
    }
    out += end.is_none() ? "\n" : str_of(end);
    host.context().print(out);
    return none();
}

Thing divmod_of(Host&, const Given& g) {
    const Raw a = g.args[0], b = g.args[1];
    const auto is_real = [](Raw r) { return is_number(r) && !r.is(Kind::Complex); };
    const bool of_floats = a.is(Kind::Float) || b.is(Kind::Float);
    if (!is_real(a) || !is_real(b))
        raise_as(types::TypeError, "unsupported operand type(s) for divmod(): '", type_name(a),
                 "' and '", type_name(b), "'");
    if (of_floats && number_as_double(b) == 0) raise_as(types::ZeroDivisionError, "float divmod()");
    std::vector<Thing> out;
    out.push_back(binary(kFloorDiv, a, b));
    out.push_back(binary(kMod, a, b));
    return tuple_of(std::move(out));
}

/// With a modulus as CPython's, of its sign; a negative power is one of the inverse.
Thing pow_of(Host&, const Given& g) {
    const Raw a = g.args[0], b = g.args[1], mod = argument(g, 2, "mod");
    if (!mod || mod.is_none()) return binary(kPow, a, b);
    for (Raw r : {a, b, mod})
        if (!is_int(r) && !r.is(Kind::Bool))
            raise_as(types::TypeError,
                     "pow() 3rd argument not allowed unless all arguments are integers");
    const __int128 m = int_in(mod);
    if (m == 0) raise_as(types::ValueError, "pow() 3rd argument cannot be 0");
    const __int128 size = m < 0 ? -m : m;
    __int128 base = (int_in(a) % size + size) % size, out = 1 % size;
    __int128 power = int_in(b);
    if (power < 0) {
        __int128 x = 1, y = 0, p = base, q = size;  // p is x times the base, up to multiples
        while (q) {
            const __int128 k = p / q;
            p = std::exchange(q, p - k * q);
            x = std::exchange(y, x - k * y);
        }
        if (p != 1) raise_as(types::ValueError, "base is not invertible for the given modulus");
        base = (x % size + size) % size;
        power = -power;
    }
    for (; power; power >>= 1) {
        if (power & 1) out = out * base % size;
        base = base * base % size;
    }
    return of_int(static_cast<int64_t>(m < 0 && out ? out + m : out));
}

/// Half to even, by the shortest digits as CPython's.
double rounded(double v, int64_t digits) {
    if (!std::isfinite(v) || digits > 323) return v;
    if (digits < -308) return std::copysign(0.0, v);
    if (digits >= 0) {
        const Thing number = of_double(v);
        return double_of_text(format_of(number.get(), text(".", digits, "f")));
    }
    const double power = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(v / power) * power;
}

Thing round_of(Host&, const Given& g) {
    const Raw v = g.args[0], digits = argument(g, 1, "ndigits");
    const bool plain = !digits || digits.is_none();
    switch (v.kind()) {
        case Kind::Float:
            if (plain) return of_int(int_of_double(std::nearbyint(double_in(v))));
            return of_double(rounded(double_in(v), index_of(digits, nullptr)));
        case Kind::Int:
        case Kind::Bool: {
            const int64_t n = plain ? 0 : index_of(digits, nullptr);
            if (n >= 0) return of_int(int_in(v));
            if (n < -19) return of_int(0);
            __int128 power = 1;
            for (int64_t k = n; k < 0; ++k) power *= 10;
            __int128 whole = int_in(v) / power * power;
            const __int128 rest = int_in(v) - whole, twice = 2 * (rest < 0 ? -rest : rest);
            if (twice > power || (twice == power && whole / power % 2 != 0))
                whole += rest < 0 ? -power : power;
            return of_int(in_64_bits(whole));
        }
        default:
            raise_as(types::TypeError, "type ", type_name(v), " doesn't define __round__ method");
    }
}

Thing type_of_value(Host&, const Given& g) {
    const Raw v = g.args[0];
    if (const Type* type = type_of(v)) return Thing::steal(Raw::lasting(Kind::Type, type));
    const Class* of = v.is(Kind::Tuple) ? v.as<Tuple>()->of : v.as<Record>()->of;
    return Thing::steal(Raw::lasting(Kind::Class, of));
}

Thing tensor_of(Host&, const Given& g) {
    const Raw dtype = argument(g, 1, "dtype"), wants = word(g, "requires_grad");
    if (dtype && !dtype.is_none() && !dtype.is(Kind::DType) && !dtype.is(Kind::Type))
        fail(ErrorKind::Type, "tensor", "a dtype", type_name(dtype));
    Thing out = tensor_from(g.args[0], dtype ? dtype : Raw::none());
    if (wants && truth(wants)) set_requires_grad(out.get().tensor(), true);
    return out;
}

Thing promoted(Host&, const Given& g) {
    for (int k = 0; k < 2; ++k)
        if (!g.args[k].is(Kind::DType))
            fail(ErrorKind::Type, "promote_types", "dtypes", type_name(g.args[k]));
    const DType t = promote(dtype_in(g.args[0]), dtype_in(g.args[1]));
    return Thing::steal(Raw::immediate(Kind::DType, static_cast<uint64_t>(t)));
}

Thing ord_of(Host&, const Given& g) {
    const Raw v = g.args[0];
    if (!v.is(Kind::Text))
        raise_as(types::TypeError, "ord() expected string of length 1, but ", type_name(v),
                 " found");
    const std::string& text = text_in(v);
    if (const int64_t n = characters_in(text); n != 1)
        raise_as(types::TypeError, "ord() expected a character, but string of length ", n,
                 " found");
    return of_int(code_of_character(text, 0, text.size()));
}

/// Texts are UTF-8, which has no halves of surrogate pairs.
Thing chr_of(Host&, const Given& g) {
    const int64_t code = index_of(g.args[0], nullptr);
    if (code < 0 || code > 0x10ffff)
        raise_as(types::ValueError, "chr() arg not in range(0x110000)");
    if (code >= 0xd800 && code <= 0xdfff)
        fail(ErrorKind::Value, "chr", "a character of UTF-8", text(code));
    std::string out;
    append_character(out, static_cast<uint32_t>(code));
    return of_text(std::move(out));
}

Thing warn_of(Host& host, const Given& g) {
    host.context().warn(str_of(g.args[0]));
    return none();
}

Thing has_attribute(Host& host, const Given& g) {
    const Raw v = g.args[0];
    if (!g.args[1].is(Kind::Text))
        raise_as(types::TypeError, "hasattr(): attribute name must be string");
    const std::string& name = text_in(g.args[1]);
    const Kind k = v.kind();
    if (name == "__iter__") return of_bool(is_iterable(v) || k == Kind::Iterator);
    if (name == "__len__") return of_bool(is_iterable(v));
    if (name == "__index__") return of_bool(is_int(v) || k == Kind::Bool || k == Kind::Tensor);
    if (name == "__float__") return of_bool(is_number(v) || k == Kind::Tensor);
    if (name == "__getitem__")
        return of_bool(is_sequence(v) || k == Kind::Dict || k == Kind::Text || k == Kind::Tensor ||
                       k == Kind::Range);
    if (name == "__call__")
        return of_bool(k == Kind::Function || k == Kind::Builtin || k == Kind::Ops ||
                       k == Kind::Method || k == Kind::Type || k == Kind::Class);
    try {
        host.attribute(v, name, nullptr);
        return of_bool(true);
    } catch (const Raised& raised) {
        if (is_subtype(raised.error.as<Error>()->type, &types::AttributeError))
            return of_bool(false);
        throw;
    }
}

constexpr Builtin kBuiltins[] = {
    {"len", 1, 1, "", [](Host&, const Given& g) { return of_int(length(g.args[0])); }},
    {"abs", 1, 1, "", abs_of},
    {"min", 1, -1, " default ", [](Host&, const Given& g) { return extreme(g, "min", kLt); }},
    {"max", 1, -1, " default ", [](Host&, const Given& g) { return extreme(g, "max", kGt); }},
    {"sum", 1, 2, " start ", sum_of},
    {"any", 1, 1, "", [](Host&, const Given& g) { return any_of(g, true); }},
    {"all", 1, 1, "", [](Host&, const Given& g) { return any_of(g, false); }},
    {"sorted", 1, 1, " reverse ", sorted_of},
    {"sorted_by", 2, 3, "", sorted_by},
    {"min_by", 2, 3, "", [](Host&, const Given& g) { return extreme_by(g, "min", kLt); }},
    {"max_by", 2, 3, "", [](Host&, const Given& g) { return extreme_by(g, "max", kGt); }},
    {"enumerate", 1, 2, " start ", enumerated},
    {"zip", 0, -1, " strict ", zipped},
    {"iter", 1, 1, "", [](Host&, const Given& g) { return iterate(g.args[0]); }},
    {"next", 1, 2, "", next_of},
    {"index", 1, 1, "", [](Host&, const Given& g) { return of_int(index_of(g.args[0], nullptr)); }},
    {"reversed", 1, 1, "", reversed_of},
    {"isinstance", 2, 2, "",
     [](Host&, const Given& g) { return of_bool(is_instance(g.args[0], g.args[1])); }},
    {"print", 0, -1, " sep end flush ", print_of},
    {"divmod", 2, 2, "", divmod_of},
    {"round", 1, 2, " ndigits ", round_of},
    {"pow", 2, 3, " mod ", pow_of},
    {"repr", 1, 1, "", [](Host&, const Given& g) { return of_text(repr_of(g.args[0])); }},
    {"type", 1, 1, "", type_of_value},
    {"tensor", 1, 2, " dtype requires_grad ", tensor_of},
    {"is_tensor", 1, 1, "", [](Host&, const Given& g) { return of_bool(g.args[0].is_tensor()); }},
    {"is_grad_enabled", 0, 0, "",
     [](Host&, const Given&) { return of_bool(mode & (kGradMode | kEnabledInInference)); }},
    {"is_autocast_cpu_enabled", 0, 0, "",
     [](Host&, const Given&) { return of_bool(mode & kAutocastMode); }},
    {"promote_types", 2, 2, "", promoted},
    {"get_default_dtype", 0, 0, "",
     [](Host&, const Given&) {
         return Thing::steal(
             Raw::immediate(Kind::DType, static_cast<uint64_t>(ops::default_dtype)));
     }},
    {"ord", 1, 1, "", ord_of},
    {"chr", 1, 1, "", chr_of},
    {"warn", 1, 3, " category stacklevel ", warn_of},
    {"hasattr", 2, 2, "", has_attribute},
};

}  // namespace

const Builtin* builtin_named(std::string_view name) {
    return name.starts_with("math.") ? math_named(name) : named(kBuiltins, name);
}

void sort_list(Raw list, bool reverse) {
    auto& items = list.as<List>()->items;
    std::vector<Thing> all;
    for (Raw item : items) all.push_back(Thing::borrow(item));
    std::vector<Thing> in_order = sorted_items(all, all, reverse);
    if (items.size() != in_order.size()) raise_as(types::ValueError, "list modified during sort");
    for (size_t k = 0; k < items.size(); ++k) std::exchange(items[k], in_order[k].release()).drop();
}

}  // namespace weft::native
