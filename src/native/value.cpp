/// Life of values, and dicts. Reading guide: `Dead::free` is one case for each kind; then Dict.
#include "native/value.h"

#include <span>

#include "base/small_vector.h"
#include "native/operators.h"
#include "native/package.h"

namespace weft::native {
namespace {

template <class T>
void free_as(Object* o, size_t more = 0) {
    static_cast<T*>(o)->~T();
    Pool::free(o, sizeof(T) + more);
}

/// Objects that nothing refers to any more, to be taken apart one after the other: what holds others that hold
/// others does not go deeper and deeper.
class Dead {
public:
    explicit Dead(Object* o) { all_.push_back(o); }
    void take_apart() {
        while (!all_.empty()) {
            Object* o = all_.back();
            all_.pop_back();
            free(o);
        }
    }

private:
    void free(Object* o);
    void drop(Raw r) {
        if (!r.is_object()) return r.drop();
        if (r && --r.object()->refs == 0) all_.push_back(r.object());
    }
    void drop(std::span<const Raw> items) {
        for (Raw r : items) drop(r);
    }

    SmallVector<Object*, 8> all_;
};

void Dead::free(Object* o) {
    switch (o->kind) {
        case Kind::Int:
        case Kind::Float:
        case Kind::Complex:
            return free_as<Number>(o);
        case Kind::Text:
            return free_as<Text>(o);
        case Kind::Tuple: {
            auto* t = static_cast<Tuple*>(o);
            const auto size = static_cast<size_t>(t->size);
            drop({t->items(), size});
            return free_as<Tuple>(o, size * sizeof(Raw));
        }
        case Kind::List:
            drop(static_cast<List*>(o)->items);
            return free_as<List>(o);
        case Kind::Dict:
        case Kind::Set:
            for (const Dict::Entry& e : static_cast<Dict*>(o)->entries) {
                drop(e.key);
                drop(e.value);
            }
            return free_as<Dict>(o);
        case Kind::View:
            drop(static_cast<View*>(o)->dict);
            return free_as<View>(o);
        case Kind::Slice: {
            auto* s = static_cast<Slice*>(o);
            for (Raw r : {s->start, s->stop, s->step}) drop(r);
            return free_as<Slice>(o);
        }
        case Kind::Range:
            return free_as<Range>(o);
        case Kind::Iterator:
            drop(static_cast<Iterator*>(o)->of);
            drop(static_cast<Iterator*>(o)->several);
            return free_as<Iterator>(o);
        case Kind::Method:
            drop(static_cast<Method*>(o)->self);
            return free_as<Method>(o);
        case Kind::Record:
            drop(static_cast<Record*>(o)->fields);
            for (const auto& [name, value] : static_cast<Record*>(o)->others) drop(value);
            return free_as<Record>(o);
        case Kind::Error:
            drop(static_cast<Error*>(o)->args);
            drop(static_cast<Error*>(o)->cause);
            return free_as<Error>(o);
        default:
            return;  // all others are immediate
    }
}

}  // namespace

void Raw::destroy(Object* o) { Dead(o).take_apart(); }

// ---- making them

Thing new_tuple(int64_t size, const Class* of) {
    const size_t items = static_cast<size_t>(size) * sizeof(Raw);
    auto* made = new (Pool::allocate(sizeof(Tuple) + items)) Tuple(size);
    std::fill_n(made->items(), size, Raw());
    made->refs = 1;
    made->of = of;
    return Thing::steal(Raw(static_cast<Object*>(made)));
}

Thing tuple_of(std::vector<Thing> items, const Class* of) {
    Thing made = new_tuple(static_cast<int64_t>(items.size()), of);
    for (size_t k = 0; k < items.size(); ++k) made.as<Tuple>()->items()[k] = items[k].release();
    return made;
}

Thing list_of(std::vector<Thing> items) {
    Thing made = new_list();
    for (Thing& item : items) made.as<List>()->items.push_back(item.release());
    return made;
}

int64_t Range::size() const {
    if (step > 0)
        return start >= stop ? 0
                             : static_cast<int64_t>((static_cast<uint64_t>(stop) -
                                                     static_cast<uint64_t>(start) - 1) /
                                                    static_cast<uint64_t>(step)) +
                                   1;
    return start <= stop ? 0
                         : static_cast<int64_t>(
                               (static_cast<uint64_t>(start) - static_cast<uint64_t>(stop) - 1) /
                               (0 - static_cast<uint64_t>(step))) +
                               1;
}

Record::Record(const Class* of) : Object(Kind::Record), of(of), fields(of->fields.size(), Raw()) {}

Raw Record::find(std::string_view name) const {
    if (const int64_t k = of->field(name); k >= 0) return fields[static_cast<size_t>(k)];
    for (const auto& [other, value] : others)
        if (other == name) return value;
    return Raw();
}

void Record::set(std::string_view name, Raw value) {
    value.hold();
    const auto put = [&](Raw& at) {
        const Raw old = std::exchange(at, value);
        if (old) old.drop();
    };
    if (const int64_t k = of->field(name); k >= 0) return put(fields[static_cast<size_t>(k)]);
    for (auto& [other, at] : others)
        if (other == name) return put(at);
    others.emplace_back(name, value);
}

int64_t characters_in(const std::string& text) {
    int64_t n = 0;
    for (const char c : text) n += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    return n;
}

// ---- dicts

int64_t Dict::place(Raw key) const {
    const uint64_t hash = hash_of(key);
    if (table.empty()) return -1;
    const size_t mask = table.size() - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
        const int32_t k = table[at];
        if (k == kFree) return -1;
        if (k == kGone) continue;
        const Entry& e = entries[static_cast<size_t>(k)];
        if (e.hash == hash && (e.key == key || equal(e.key, key))) return k;
    }
}

Raw Dict::find(Raw key) const {
    const int64_t k = place(key);
    return k < 0 ? Raw() : entries[static_cast<size_t>(k)].value;
}

void Dict::set(Raw key, Raw value) {
    if (value) value.hold();
    if (const int64_t k = place(key); k >= 0) {
        const Raw old = std::exchange(entries[static_cast<size_t>(k)].value, value);
        if (old) old.drop();
        return;
    }
    if (entries.size() * 3 >= table.size() * 2) grow();
    key.hold();
    const uint64_t hash = hash_of(key);
    const size_t mask = table.size() - 1;
    size_t at = hash & mask;
    while (table[at] >= 0) at = (at + 1) & mask;
    table[at] = static_cast<int32_t>(entries.size());
    entries.push_back({hash, key, value});
    ++size;
    ++changes;
}

/// Room for more, without those that were removed.
void Dict::grow() {
    std::erase_if(entries, [](const Entry& e) { return !e.key; });
    size_t room = 8;
    while (room * 2 < (entries.size() + 1) * 4) room *= 2;
    table.assign(room, kFree);
    for (size_t k = 0; k < entries.size(); ++k) {
        size_t at = entries[k].hash & (room - 1);
        while (table[at] >= 0) at = (at + 1) & (room - 1);
        table[at] = static_cast<int32_t>(k);
    }
}

Thing Dict::take(Raw key) {
    const int64_t k = place(key);
    if (k < 0) return {};
    Entry& e = entries[static_cast<size_t>(k)];
    const size_t mask = table.size() - 1;
    size_t at = e.hash & mask;
    while (table[at] != k) at = (at + 1) & mask;
    table[at] = kGone;
    const Thing gone = Thing::steal(std::exchange(e.key, Raw()));
    --size;
    ++changes;
    // of a set nothing else is there to be had
    return e.value ? Thing::steal(std::exchange(e.value, Raw())) : gone;
}

void Dict::clear() {
    std::vector<Entry> old = std::exchange(entries, {});
    table.clear();
    size = 0;
    ++changes;
    for (const Entry& e : old) {
        if (e.key) e.key.drop();
        if (e.value) e.value.drop();
    }
}

}  // namespace weft::native
