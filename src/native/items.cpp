/// Items and slices of what is no tensor.
#include <algorithm>

#include "native/operators.h"
#include "native/package.h"
#include "native/tensors.h"

namespace weft::native {
namespace {

/// A place within `size` items, counted from the end where it is negative.
int64_t place_of(Raw key, int64_t size, const char* message) {
    int64_t at = index_of(key, nullptr);
    if (at < 0) at += size;
    if (at < 0 || at >= size) raise_text(types::IndexError, message);
    return at;
}

[[noreturn]] void wrong_index(const char* kind, Raw key) {
    raise_as(types::TypeError, kind, " indices must be integers or slices, not ", type_name(key));
}

bool is_index(Raw key) { return is_int(key) || key.is(Kind::Bool) || key.is_tensor(); }

/// Where character `at` of a text begins.
size_t byte_of(const std::string& text, int64_t at) {
    size_t byte = 0;
    while (at-- > 0) byte += static_cast<size_t>(character_size(text, byte));
    return byte;
}

Thing item_of_text(Raw holder, Raw key) {
    const std::string& text = text_in(holder);
    const int64_t size = characters_in(text);
    const bool plain = size == static_cast<int64_t>(text.size());
    auto character = [&](int64_t at) {
        const size_t byte = plain ? static_cast<size_t>(at) : byte_of(text, at);
        return text.substr(byte, static_cast<size_t>(character_size(text, byte)));
    };
    if (key.is(Kind::Slice)) {
        const Span s = span_of(*key.as<Slice>(), size);
        if (plain && s.step == 1)
            return of_text(text.substr(static_cast<size_t>(s.start), static_cast<size_t>(s.count)));
        std::vector<size_t> bytes;
        for (size_t at = 0; at < text.size(); at += static_cast<size_t>(character_size(text, at)))
            bytes.push_back(at);
        std::string out;
        for (int64_t k = 0; k < s.count; ++k) {
            const size_t at = bytes[static_cast<size_t>(s.start + k * s.step)];
            out.append(text, at, static_cast<size_t>(character_size(text, at)));
        }
        return of_text(std::move(out));
    }
    if (!is_index(key))
        raise_as(types::TypeError, "string indices must be integers, not '", type_name(key), "'");
    return of_text(character(place_of(key, size, "string index out of range")));
}

Thing item_of_sequence(Raw holder, Raw key) {
    const Items items = items_in(holder);
    const bool list = holder.is(Kind::List);
    if (key.is(Kind::Slice)) {
        const Span s = span_of(*key.as<Slice>(), items.size);
        std::vector<Thing> out;
        for (int64_t k = 0; k < s.count; ++k)
            out.push_back(Thing::borrow(items[s.start + k * s.step]));
        if (list) return list_of(std::move(out));
        return tuple_of(std::move(out), class_of_parts(holder.as<Tuple>()->of));
    }
    if (!is_index(key)) wrong_index(list ? "list" : "tuple", key);
    return Thing::borrow(items[place_of(
        key, items.size, list ? "list index out of range" : "tuple index out of range")]);
}

void set_slice(Raw holder, const Slice& slice, Raw value) {
    if (!has_items(value)) raise_as(types::TypeError, "can only assign an iterable");
    std::vector<Thing> given = all_of(value);
    auto& items = holder.as<List>()->items;
    const Span s = span_of(slice, static_cast<int64_t>(items.size()));
    std::vector<Thing> gone;
    if (s.step == 1) {
        const auto first = items.begin() + s.start, last = first + s.count;
        for (auto it = first; it != last; ++it) gone.push_back(Thing::steal(*it));
        const auto at = items.erase(first, last);
        std::vector<Raw> fresh;
        for (Thing& one : given) fresh.push_back(one.release());
        items.insert(at, fresh.begin(), fresh.end());
        return;
    }
    if (static_cast<int64_t>(given.size()) != s.count)
        raise_as(types::ValueError, "attempt to assign sequence of size ", given.size(),
                 " to extended slice of size ", s.count);
    for (int64_t k = 0; k < s.count; ++k) {
        Raw& at = items[static_cast<size_t>(s.start + k * s.step)];
        gone.push_back(Thing::steal(std::exchange(at, given[static_cast<size_t>(k)].release())));
    }
}

}  // namespace

Thing set_of(Raw iterable) {
    Thing out = new_set();
    for (const Thing& item : all_of(iterable)) out.as<Dict>()->set(item.get(), Raw());
    return out;
}

Thing keys_as_set(Raw value) {
    const bool is_set = value.is(Kind::View) && value.as<View>()->of != View::Of::Values;
    return is_set ? set_of(value) : Thing::borrow(value);
}

int64_t index_of(Raw value, const char* who) {
    if (is_int(value) || value.is(Kind::Bool)) return int_in(value);
    if (value.is_tensor()) return tensor_index(value);
    if (who) raise_as(types::TypeError, who);
    raise_as(types::TypeError, "'", type_name(value),
             "' object cannot be interpreted as an integer");
}

Span span_of(const Slice& slice, int64_t size) {
    auto bound = [](Raw r) {
        return index_of(r, "slice indices must be integers or None or have an __index__ method");
    };
    int64_t step = slice.step.is_none() ? 1 : bound(slice.step);
    if (step == 0) raise_as(types::ValueError, "slice step cannot be zero");
    step = std::max(step, -(int64_t{1} << 62));
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
    auto clamped = [&](Raw r, int64_t otherwise) {
        if (r.is_none()) return otherwise;
        int64_t at = bound(r);
        if (at < 0) at = at < -size ? low : at + size;
        return std::clamp(at, low, high);
    };
    const int64_t start = clamped(slice.start, step < 0 ? high : low);
    const int64_t stop = clamped(slice.stop, step < 0 ? low : high);
    int64_t count = 0;
    if (step > 0 && start < stop) count = (stop - start - 1) / step + 1;
    if (step < 0 && start > stop) count = (start - stop - 1) / -step + 1;
    return {start, step, count};
}

Thing get_item(Raw holder, Raw key) {
    switch (holder.kind()) {
        case Kind::Tensor:
            return tensor_get_item(holder, key);
        case Kind::Tuple:
        case Kind::List:
            return item_of_sequence(holder, key);
        case Kind::Text:
            return item_of_text(holder, key);
        case Kind::Dict: {
            const Raw found = holder.as<Dict>()->find(key);
            if (!found) no_key(key);
            return Thing::borrow(found);
        }
        case Kind::Range: {
            const auto* r = holder.as<Range>();
            if (key.is(Kind::Slice)) {
                const Span s = span_of(*key.as<Slice>(), r->size());
                return make_thing<Range>(r->at(s.start), r->at(s.start + s.count * s.step),
                                         r->step * s.step);
            }
            if (!is_index(key)) wrong_index("range", key);
            return of_int(r->at(place_of(key, r->size(), "range object index out of range")));
        }
        default:
            raise_as(types::TypeError, "'", type_name(holder), "' object is not subscriptable");
    }
}

void set_item(Raw holder, Raw key, Raw value) {
    switch (holder.kind()) {
        case Kind::Tensor:
            return tensor_set_item(holder, key, value);
        case Kind::Dict:
            return holder.as<Dict>()->set(key, value);
        case Kind::List: {
            if (key.is(Kind::Slice)) return set_slice(holder, *key.as<Slice>(), value);
            if (!is_index(key)) wrong_index("list", key);
            auto& items = holder.as<List>()->items;
            const int64_t at = place_of(key, static_cast<int64_t>(items.size()),
                                        "list assignment index out of range");
            value.hold();
            std::exchange(items[static_cast<size_t>(at)], value).drop();
            return;
        }
        default:
            raise_as(types::TypeError, "'", type_name(holder),
                     "' object does not support item assignment");
    }
}

void del_item(Raw holder, Raw key) {
    switch (holder.kind()) {
        case Kind::Tensor:
            fail(ErrorKind::Type, "del", "an assignment", "del of a tensor's element");
        case Kind::Dict:
            if (!holder.as<Dict>()->take(key)) no_key(key);
            return;
        case Kind::List: {
            auto& items = holder.as<List>()->items;
            const auto size = static_cast<int64_t>(items.size());
            if (key.is(Kind::Slice)) {
                const Span s = span_of(*key.as<Slice>(), size);
                std::vector<bool> goes(items.size());
                for (int64_t k = 0; k < s.count; ++k)
                    goes[static_cast<size_t>(s.start + k * s.step)] = true;
                std::vector<Raw> kept;
                std::vector<Thing> gone;
                for (size_t k = 0; k < items.size(); ++k) {
                    if (goes[k]) gone.push_back(Thing::steal(items[k]));
                    else kept.push_back(items[k]);
                }
                items.swap(kept);
                return;
            }
            if (!is_index(key)) wrong_index("list", key);
            const int64_t at = place_of(key, size, "list assignment index out of range");
            const Thing gone = Thing::steal(items[static_cast<size_t>(at)]);
            items.erase(items.begin() + at);
            return;
        }
        default:
            raise_as(types::TypeError, "'", type_name(holder),
                     "' object doesn't support item deletion");
    }
}

}  // namespace weft::native
