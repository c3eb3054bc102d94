/// Reading guide: lengths; then iterators; then what goes through all items.
#include <utility>

#include "native/operators.h"
#include "native/tensors.h"

namespace weft::native {

bool is_sized(Raw value) {
    switch (value.kind()) {
        case Kind::Text:
        case Kind::Tuple:
        case Kind::List:
        case Kind::Dict:
        case Kind::Set:
        case Kind::View:
        case Kind::Range:
            return true;
        default:
            return false;
    }
}

int64_t length(Raw value) {
    switch (value.kind()) {
        case Kind::Text:
            return characters_in(text_in(value));
        case Kind::Tuple:
        case Kind::List:
            return items_in(value).size;
        case Kind::Dict:
        case Kind::Set:
            return value.as<Dict>()->size;
        case Kind::View:
            return value.as<View>()->dict.as<Dict>()->size;
        case Kind::Range:
            return value.as<Range>()->size();
        case Kind::Tensor:
            return tensor_length(value);
        default:
            raise_as(types::TypeError, "object of type '", type_name(value), "' has no len()");
    }
}

Thing item_at(Raw sequence, int64_t k) {
    const Items items = items_in(sequence);
    return k < items.size ? Thing::borrow(items[k]) : Thing();
}

bool is_iterable(Raw value) {
    return is_sized(value) || value.is(Kind::Iterator) || value.is_tensor();
}

bool has_items(Raw value) {
    return is_iterable(value) && !(value.is_tensor() && operand(value).ndim() == 0);
}

Thing iterate(Raw value) {
    if (value.is(Kind::Iterator)) return Thing::borrow(value);
    if (!is_iterable(value))
        raise_as(types::TypeError, "'", type_name(value), "' object is not iterable");
    Thing made = make_thing<Iterator>();
    auto* i = made.as<Iterator>();
    i->of = value.is_tensor() ? tensor_rows(value).release() : Thing::borrow(value).release();
    if (const Raw of = i->of; of.is(Kind::Dict) || of.is(Kind::Set) || of.is(Kind::View)) {
        const auto* dict = (of.is(Kind::View) ? of.as<View>()->dict : of).as<Dict>();
        i->changes = dict->changes;
        i->size = dict->size;
    }
    return made;
}

namespace {

Thing pair(Raw a, Raw b) {
    Thing out = new_tuple(2);
    a.hold();
    b.hold();
    out.as<Tuple>()->items()[0] = a;
    out.as<Tuple>()->items()[1] = b;
    return out;
}

Thing next_of_dict(Iterator& i, const Dict& dict, bool is_set, View::Of what) {
    if (dict.changes != i.changes) {
        const char* kind = is_set ? "Set" : "dictionary";
        if (dict.size != i.size)
            raise_as(types::RuntimeError, kind, " changed size during iteration");
        raise_as(types::RuntimeError, kind, " keys changed during iteration");
    }
    while (i.at < static_cast<int64_t>(dict.entries.size())) {
        const Dict::Entry& e = dict.entries[static_cast<size_t>(i.at++)];
        if (!e.key) continue;
        if (what == View::Of::Items) return pair(e.key, e.value);
        return Thing::borrow(what == View::Of::Keys ? e.key : e.value);
    }
    return {};
}

Thing next_plain(Iterator& i) {
    const Raw of = i.of;
    switch (of.kind()) {
        case Kind::Tuple:
        case Kind::List:
            return item_at(of, i.at++);
        case Kind::Range: {
            const auto* r = of.as<Range>();
            return i.at < r->size() ? of_int(r->at(i.at++)) : Thing();
        }
        case Kind::Text: {
            const std::string& text = text_in(of);
            const auto at = static_cast<size_t>(i.at);
            if (at >= text.size()) return {};
            const int64_t size = character_size(text, at);
            i.at += size;
            return of_text(std::string_view(text).substr(at, static_cast<size_t>(size)));
        }
        case Kind::Dict:
        case Kind::Set:
            return next_of_dict(i, *of.as<Dict>(), of.is(Kind::Set), View::Of::Keys);
        default:
            return next_of_dict(i, *of.as<View>()->dict.as<Dict>(), false, of.as<View>()->of);
    }
}

/// zip(strict=True): `k` ended first; or the first one, and another goes on.
void expect_all_ended(const Iterator& i, size_t k) {
    auto fail = [](size_t one, const char* how) {
        const std::string others = one == 1 ? " 1" : text("s 1-", one);
        raise_as(types::ValueError, "zip() argument ", one + 1, " is ", how, " than argument",
                 others);
    };
    if (k > 0) fail(k, "shorter");
    for (size_t other = 1; other < i.several.size(); ++other)
        if (next(*i.several[other].as<Iterator>())) fail(other, "longer");
}

Thing next_zipped(Iterator& i) {
    std::vector<Thing> items;
    for (size_t k = 0; k < i.several.size(); ++k) {
        items.push_back(next(*i.several[k].as<Iterator>()));
        if (items.back()) continue;
        if (i.strict) expect_all_ended(i, k);
        return {};
    }
    return i.several.empty() ? Thing() : tuple_of(std::move(items));
}

}  // namespace

Thing next(Iterator& i) {
    Thing out;
    switch (i.how) {
        case Iterator::How::Plain:
            if (i.of) out = next_plain(i);
            break;
        case Iterator::How::Reversed:
            if (i.of && i.at >= 0) {
                if (i.of.is(Kind::Range)) out = of_int(i.of.as<Range>()->at(i.at--));
                else if (const Items items = items_in(i.of); i.at < items.size)
                    out = Thing::borrow(items[i.at--]);
            }
            break;
        case Iterator::How::Enumerate:
            if (!i.of) break;
            if (Thing item = next(*i.of.as<Iterator>()))
                out = pair(of_int(i.at++).get(), item.get());
            break;
        case Iterator::How::Zip:
            out = next_zipped(i);
    }
    if (!out && i.of) std::exchange(i.of, Raw()).drop();
    return out;
}

std::vector<Thing> all_of(Raw iterable) {
    std::vector<Thing> out;
    if (is_sequence(iterable)) {
        for (Raw item : items_in(iterable)) out.push_back(Thing::borrow(item));
        return out;
    }
    const Thing iterator = iterate(iterable);
    while (Thing item = next(*iterator.as<Iterator>())) out.push_back(std::move(item));
    return out;
}

bool contains(Raw container, Raw item) {
    switch (container.kind()) {
        case Kind::Text:
            if (!item.is(Kind::Text))
                raise_as(types::TypeError, "'in <string>' requires string as left operand, not ",
                         type_name(item));
            return text_in(container).find(text_in(item)) != std::string::npos;
        case Kind::Dict:
        case Kind::Set:
            return container.as<Dict>()->has(item);
        case Kind::Tensor:
            return tensor_contains(container, item);
        case Kind::View:
            if (container.as<View>()->of == View::Of::Keys)
                return container.as<View>()->dict.as<Dict>()->has(item);
            break;
        default:
            break;
    }
    if (!is_iterable(container))
        raise_as(types::TypeError, "argument of type '", type_name(container), "' is not iterable");
    const Thing iterator = iterate(container);
    while (const Thing one = next(*iterator.as<Iterator>()))
        if (equal(one.get(), item)) return true;
    return false;
}

}  // namespace weft::native
