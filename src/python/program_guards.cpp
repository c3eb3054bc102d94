#include "python/program_guards.h"

#include <algorithm>

namespace weft::python {
namespace {

/// A type's state that no type ever has: the type got no number, so that every look at it is a new one.
constexpr uint64_t kNever = ~uint64_t{0};
constexpr uint64_t kAllBits = ~uint64_t{0};
constexpr uint64_t kTagBits = 0xFFFFFFFF;
static_assert(sizeof(PyObject*) == sizeof(uint64_t) && sizeof(Object) == sizeof(PyObject*));
static_assert(offsetof(PyTypeObject, tp_version_tag) + sizeof(uint64_t) <= sizeof(PyTypeObject));

/// Whether two values are the same to a program that takes them as constants.
bool same(PyObject* a, PyObject* b) {
    if (a == b) return true;
    if (!a || !b || Py_TYPE(a) != Py_TYPE(b)) return false;
    if (PyFloat_CheckExact(a)) {
        const double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
        return !std::memcmp(&x, &y, sizeof x);
    }
    if (PyComplex_CheckExact(a)) {
        const Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
        return !std::memcmp(&x, &y, sizeof x);
    }
    if (PyLong_CheckExact(a) || PyUnicode_CheckExact(a) || PyBytes_CheckExact(a))
        return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
    return false;
}

/// A new reference to what was found, bound to its object.
PyObject* bound(PyObject* found, PyObject* self, PyObject* cls) {
    if (PyFunction_Check(found) && self) return PyMethod_New(found, self);
    descrgetfunc get = Py_TYPE(found)->tp_descr_get;
    return get ? into_python([&] { return get(found, self, cls); }) : Py_NewRef(found);
}

/// Calls `f` with each item of a list, with each key and value of a dictionary.
template <class F>
void for_items(PyObject* o, F&& f) {
    if (PyList_Check(o)) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i) f(PyList_GET_ITEM(o, i));
        return;
    }
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value);) {
        f(key);
        f(value);
    }
}

}  // namespace

// ---- noting

size_t Guards::KeyHash::operator()(const Key& key) const {
    size_t mixed = static_cast<size_t>(key.what);
    for (const void* p : {key.holder, key.other, key.name})
        mixed = (mixed ^ reinterpret_cast<uintptr_t>(p)) * 0x9E3779B97F4A7C15u;
    return mixed ^ mixed >> 32;
}

size_t Guards::KeyHash::operator()(const std::pair<uint32_t, const void*>& fact) const {
    return (*this)(Key{What::Field, fact.second, nullptr, nullptr}) + fact.first;
}

const void* Guards::key_of(const Word& word, const Source& source) {
    switch (source.kind) {
        case Kind::Field:
            return word.at;
        case Kind::Dict:
            return source.version.dict();
        case Kind::Type:
            return source.owner.get();
    }
    return nullptr;
}

Guards::Key Guards::key_of(const Read& read) {
    const void* name = read.what == What::Field ? read.at : read.name.get();
    return {read.what, read.holder.get(), read.other.get(), name};
}

Guards::Index& Guards::index() {
    if (!index_) {
        index_ = std::make_unique<Index>();
        for (uint32_t i = 0; i < words_.size(); ++i)
            index_->words.emplace(key_of(words_[i], sources_[i]), i);
        for (uint32_t i = 0; i < reads_.size(); ++i) index_->reads.emplace(key_of(reads_[i]), i);
    }
    return *index_;
}

Guards::Found Guards::look(const Read& read) {
    met_.clear();
    asked_.clear();
    return find(read);
}

/// Looks up for a read that is to be noted. A word stands for one state: where what was noted came from
/// another one, it has to be told again in this one, or nothing can be added to it.
Guards::Found Guards::look_to_note(const Read& read) {
    Found found = look(read);
    const bool is_as_noted = std::ranges::all_of(met_, [&](const Met& met) {
        const auto it = index().words.find(met.at);
        return it == index().words.end() || words_[it->second].holds();
    });
    if (is_as_noted) return found;
    return hold_again() ? look(read) : Found{};
}

/// Forgets all words and facts but so many. What goes may run any code: it goes last.
void Guards::drop(size_t words, size_t facts) {
    const auto first_word = sources_.begin() + static_cast<std::ptrdiff_t>(words);
    const auto first_fact = facts_.begin() + static_cast<std::ptrdiff_t>(facts);
    if (index_) {
        for (size_t i = words; i < words_.size(); ++i)
            index_->words.erase(key_of(words_[i], sources_[i]));
        for (size_t i = facts; i < facts_.size(); ++i)
            index_->facts.erase({facts_[i].word, facts_[i].name.get()});
    }
    const std::vector<Source> gone(std::make_move_iterator(first_word),
                                   std::make_move_iterator(sources_.end()));
    const std::vector<Fact> gone_facts(std::make_move_iterator(first_fact),
                                       std::make_move_iterator(facts_.end()));
    words_.resize(words);
    sources_.erase(first_word, sources_.end());
    facts_.erase(first_fact, facts_.end());
}

/// Makes words of what a look-up has met, as it is now.
bool Guards::note_words(Uses& uses) {
    const size_t words = words_.size(), used = uses_.size();
    for (const Met& met : met_) {
        auto [it, is_new] = index().words.try_emplace(met.at, static_cast<uint32_t>(words_.size()));
        uses_.push_back(it->second);
        if (!is_new) {
            sources_[it->second].whole |= met.whole;
            continue;
        }
        Word word{met.at, 0, kAllBits};
        Source source{.kind = met.kind, .whole = met.whole};
        if (met.kind == Kind::Dict) {
            source.version = DictVersion(met.owner);
            word.at = source.version.at();
        } else {
            source.owner = Object::borrow(met.owner);
        }
        if (met.kind == Kind::Type) {
            word.at = &reinterpret_cast<PyTypeObject*>(met.owner)->tp_version_tag;
            word.mask = kTagBits;
        }
        if (word.at) word.expected = word.now();
        if (met.kind == Kind::Type && !word.expected) word.expected = kNever;
        words_.push_back(word);
        sources_.push_back(std::move(source));
        if (!word.at) {  // no place for a watcher
            drop(words, facts_.size());
            uses_.resize(used);
            return false;
        }
    }
    note_facts();
    uses = {static_cast<uint32_t>(used), static_cast<uint32_t>(met_.size()),
            static_cast<uint32_t>(words_.size()), static_cast<uint32_t>(facts_.size())};
    return true;
}

void Guards::note_facts() {
    for (const Asked& asked : asked_) {
        const uint32_t word = index().words.at(asked.at);
        if (!index().facts.emplace(word, asked.name).second) continue;
        sources_[word].asked = true;
        facts_.push_back({word, Object::borrow(asked.name), Object::borrow(asked.value)});
    }
}

/// Notes that `read` gave `found`; false where that cannot be guarded.
bool Guards::note(Read&& read, const Found& found) {
    if (found.from == From::Unknown) return false;
    auto [it, is_new] =
        index().reads.try_emplace(key_of(read), static_cast<uint32_t>(reads_.size()));
    if (!is_new) return tells_again(reads_[it->second], found);
    read.from = found.from;
    read.value = Object::borrow(found.value);
    if (!note_words(read.uses)) {
        index().reads.erase(key_of(read));
        return false;
    }
    reads_.push_back(std::move(read));
    failed_ = -1;
    return true;
}

/// An attribute's look-up as a read; of a `super()`, which is another object each time, by what it is about.
Guards::Read Guards::attribute_read(PyObject* holder, PyObject* name) {
    Read read{
        .what = What::Attribute, .holder = Object::borrow(holder), .name = Object::borrow(name)};
    if (Py_IS_TYPE(holder, &PySuper_Type)) {
        read.other = Object::borrow(holder).attr("__thisclass__");
        read.holder = Object::borrow(holder).attr("__self__");
    }
    return read;
}

PyObject* Guards::attribute(PyObject* holder, PyObject* name) {
    Read read = attribute_read(holder, name);
    const Found found = look_to_note(read);
    const bool is_there =
        found.from == From::Value || found.from == From::Class || found.from == From::Meta;
    if (!is_there || !note(std::move(read), found)) return nullptr;
    return found.from == From::Value ? Py_NewRef(found.value)
                                     : checked(bound(found.value, found.self, found.cls));
}

PyObject* Guards::property_of(PyObject* holder, PyObject* name) {
    Read read = attribute_read(holder, name);
    const Found found = look_to_note(read);
    if (found.from != From::Property) return nullptr;
    Object getter = Object::borrow(found.value).attr("fget");
    if (getter.get() == Py_None || !note(std::move(read), found)) return nullptr;
    return getter.release();
}

bool Guards::lacks(PyObject* holder, PyObject* name) {
    Read read = attribute_read(holder, name);
    const Found found = look_to_note(read);
    return found.from == From::Nothing && note(std::move(read), found);
}

PyObject* Guards::in_class(PyTypeObject* type, PyObject* name) {
    Read read{.what = What::InClass,
              .holder = Object::borrow(reinterpret_cast<PyObject*>(type)),
              .name = Object::borrow(name)};
    const Found found = look_to_note(read);
    note(std::move(read), found);
    return found.value;
}

PyObject* Guards::global(PyObject* globals, PyObject* builtins, PyObject* name) {
    Read read{.what = What::Global,
              .holder = Object::borrow(globals),
              .other = Object::borrow(builtins),
              .name = Object::borrow(name)};
    const Found found = look_to_note(read);
    if (found.from != From::Value || !note(std::move(read), found)) return nullptr;
    return Py_NewRef(found.value);
}

bool Guards::note_field(PyObject* owner, const void* at) {
    Read read{.what = What::Field, .holder = Object::borrow(owner), .at = at};
    const Found found = look_to_note(read);
    return note(std::move(read), found);
}

bool Guards::cell(PyObject* cell) {
    if (!PyCell_Check(cell) || !PyCell_GET(cell)) return false;
    return note_field(cell, &reinterpret_cast<PyCellObject*>(cell)->ob_ref);
}

bool Guards::type_of(PyObject* o) { return note_field(o, &o->ob_type); }

bool Guards::function(PyObject* function) {
    if (!PyFunction_Check(function)) return false;
    const size_t before = size();
    auto* f = reinterpret_cast<PyFunctionObject*>(function);
    if (note_field(function, &f->func_code) && note_field(function, &f->func_defaults) &&
        note_field(function, &f->func_kwdefaults) &&
        (!f->func_kwdefaults || items(f->func_kwdefaults)))
        return true;
    shrink(before);
    return false;
}

bool Guards::module_call(PyObject* module) {
    Read read{.what = What::Call, .holder = Object::borrow(module)};
    const Found found = look_to_note(read);
    return note(std::move(read), found);
}

bool Guards::items(PyObject* sequence) {
    if (PyTuple_CheckExact(sequence)) return true;
    const bool is_list = PyList_CheckExact(sequence);
    if (!is_list && !PyDict_CheckExact(sequence)) return false;
    Read read{.what = What::Items, .holder = Object::borrow(sequence)};
    const Found found = look_to_note(read);
    const size_t noted = reads_.size(), first = items_.size();
    read.first_item = static_cast<uint32_t>(first);
    for_items(sequence, [&](PyObject* item) { items_.push_back(Object::borrow(item)); });
    read.items = static_cast<uint32_t>(items_.size() - first);
    const List list{reinterpret_cast<PyListObject*>(sequence), read.first_item, read.items};
    const bool holds = note(std::move(read), found);
    if (reads_.size() == noted) items_.resize(first);  // known already, or not to be guarded
    else if (is_list) lists_.push_back(list);
    return holds;
}

void Guards::shrink(size_t count) {
    if (count >= reads_.size()) return;
    if (index_)
        for (size_t i = count; i < reads_.size(); ++i) index_->reads.erase(key_of(reads_[i]));
    const auto first = reads_.begin() + static_cast<std::ptrdiff_t>(count);
    // Destructors of what goes may run any code: it goes last.
    const std::vector<Read> gone(std::make_move_iterator(first),
                                 std::make_move_iterator(reads_.end()));
    reads_.erase(first, reads_.end());
    std::vector<Object> gone_items;
    for (const Read& read : gone) {
        if (read.what != What::Items) continue;
        for (uint32_t i = 0; i < read.items; ++i)
            gone_items.push_back(std::move(items_[read.first_item + i]));
        if (PyList_CheckExact(read.holder.get())) lists_.pop_back();
    }
    items_.resize(items_.size() - gone_items.size());
    uses_.resize(gone.front().uses.first);
    failed_ = -1;
    const Uses last = count ? reads_.back().uses : Uses{};
    drop(last.words_after, last.facts_after);
}

// ---- making reads again

bool Guards::holds(const List& l) const {
    return PyList_GET_SIZE(l.list) == static_cast<Py_ssize_t>(l.items) &&
           (!l.items ||
            !std::memcmp(l.list->ob_item, &items_[l.first_item], l.items * sizeof(PyObject*)));
}

/// Whether a read may give another answer than it did.
bool Guards::is_affected(const Read& read) const {
    if (read.what == What::Items && PyList_CheckExact(read.holder.get())) return true;
    for (uint32_t i = 0; i < read.uses.count; ++i)
        if (differs_[uses_[read.uses.first + i]] == Differs::Yes) return true;
    return false;
}

PyObject* Guards::ask_again(const Fact& fact) const {
    const Source& source = sources_[fact.word];
    PyObject* value =
        source.kind == Kind::Dict
            ? PyDict_GetItemWithError(source.version.dict(), fact.name.get())
            : _PyType_Lookup(reinterpret_cast<PyTypeObject*>(source.owner.get()), fact.name.get());
    if (!value) PyErr_Clear();
    return value;
}

/// Sees which words differ; returns whether any does in what was asked for.
bool Guards::find_differences() {
    differs_.resize(words_.size());
    bool any = false;
    for (size_t i = 0; i < words_.size(); ++i) {
        const bool has_facts = sources_[i].asked && !sources_[i].whole;
        differs_[i] = words_[i].holds() ? Differs::No : has_facts ? Differs::Unasked : Differs::Yes;
        any = any || differs_[i] == Differs::Yes;
    }
    for (const Fact& fact : facts_) {
        if (differs_[fact.word] != Differs::Unasked || ask_again(fact) == fact.value.get())
            continue;
        differs_[fact.word] = Differs::Yes;
        any = true;
    }
    return any;
}

/// Whether the last look-up has come to these words and no others.
bool Guards::is_met_again(const Uses& uses) const {
    if (met_.size() != uses.count) return false;
    for (uint32_t i = 0; i < uses.count; ++i) {
        const uint32_t word = uses_[uses.first + i];
        if (met_[i].at != key_of(words_[word], sources_[word])) return false;
    }
    return true;
}

bool Guards::same_items(const Read& read) const {
    uint32_t i = 0;
    bool all = true;
    for_items(read.holder.get(), [&](PyObject* item) {
        all = all && i < read.items && same(items_[read.first_item + i].get(), item);
        ++i;
    });
    return all && i == read.items;
}

bool Guards::tells_again(const Read& read, const Found& found) const {
    return found.from == read.from && same(read.value.get(), found.value) &&
           (read.what != What::Items || same_items(read));
}

/// Whether the read that failed last has to fail again: the states are those in which it did. Fields are not
/// remembered, as another object may come to lie where one was.
bool Guards::fails_as_before() const {
    if (failed_ < 0) return false;
    const Uses& uses = reads_[static_cast<size_t>(failed_)].uses;
    for (uint32_t i = 0; i < uses.count; ++i) {
        const uint32_t word = uses_[uses.first + i];
        const bool is_field = sources_[word].kind == Kind::Field;
        if (is_field ? !words_[word].holds() : words_[word].now() != failed_states_[i])
            return false;
    }
    return true;
}

void Guards::remember_failure(const Read& read) {
    failed_ = -1;
    if (!read.uses.count || !is_met_again(read.uses)) return;
    failed_states_.clear();
    for (uint32_t i = 0; i < read.uses.count; ++i) {
        const uint32_t word = uses_[read.uses.first + i];
        const bool is_field = sources_[word].kind == Kind::Field;
        if (is_field ? !words_[word].holds() : !words_[word].now()) return;
        failed_states_.push_back(words_[word].now());
    }
    failed_ = &read - reads_.data();
}

bool Guards::hold_again() {
    {
        // Whose destructors may do as they like, so it goes first.
        const std::vector<Object> gone = std::exchange(gone_, {});
        const std::vector<Source> gone_sources = std::exchange(gone_sources_, {});
        const std::vector<Fact> gone_facts = std::exchange(gone_facts_, {});
    }
    if (fails_as_before()) return false;
    differs_at_ = -1;
    told_.clear();
    bool elsewhere = false;
    if (find_differences() || !lists_hold()) {
        for (Read& read : reads_) {
            if (!is_affected(read)) continue;
            const Found found = look(read);
            if (!tells_again(read, found)) {
                differs_at_ = &read - reads_.data();
                remember_failure(read);
                return false;
            }
            told_.push_back({&read, found.value});
            elsewhere = elsewhere || !is_met_again(read.uses);
        }
    }
    failed_ = -1;
    for (auto [read, value] : told_) take_over(*read, value);
    if (elsewhere) return rebuild();
    take_over_states();
    return true;
}

/// Keeps what is there now; what was there goes later, as its destructor may do as it likes.
void Guards::keep(Object& old, PyObject* now) {
    if (old.get() != now) gone_.push_back(std::exchange(old, Object::borrow(now)));
}

/// Keeps the equal values that are there now, as those that were may lie nowhere any more.
void Guards::take_over(Read& read, PyObject* value) {
    keep(read.value, value);
    if (read.what != What::Items) return;
    uint32_t i = read.first_item;
    for_items(read.holder.get(), [&](PyObject* item) { keep(items_[i++], item); });
}

/// What differs is from now on what is expected.
void Guards::take_over_states() {
    for (Fact& fact : facts_)
        if (differs_[fact.word] == Differs::Yes) keep(fact.value, ask_again(fact));
    for (size_t i = 0; i < words_.size(); ++i) {
        if (differs_[i] == Differs::No) continue;
        words_[i].expected = words_[i].now();
        if (sources_[i].kind == Kind::Type && !words_[i].expected) words_[i].expected = kNever;
    }
}

/// Makes all words anew, after a read has found the same in another place.
bool Guards::rebuild() {
    const bool had_index = index_ != nullptr;
    std::vector<Word> words;
    std::vector<uint32_t> uses;
    std::vector<Uses> uses_of;
    words.swap(words_);
    uses.swap(uses_);
    gone_facts_.swap(facts_);
    gone_sources_.swap(sources_);
    index().words.clear();
    index().facts.clear();
    bool all = true;
    for (Read& read : reads_) {
        uses_of.push_back(read.uses);
        all = all && tells_again(read, look(read)) && note_words(read.uses);
    }
    if (!all) {
        words_.swap(words);
        uses_.swap(uses);
        facts_.swap(gone_facts_);
        sources_.swap(gone_sources_);
        for (size_t i = 0; i < reads_.size(); ++i) reads_[i].uses = uses_of[i];
        index_.reset();
    }
    if (!had_index) index_.reset();
    return all;
}

// ---- the collector

Guards::Failure Guards::failure() const {
    if (differs_at_ < 0 || static_cast<size_t>(differs_at_) >= reads_.size()) return {};
    const Read& read = reads_[static_cast<size_t>(differs_at_)];
    return {read.holder.get(), read.name.get(), read.value.get()};
}

int Guards::traverse(visitproc visit, void* arg) const {
    for (const std::vector<Source>* sources : {&sources_, &gone_sources_}) {
        for (const Source& source : *sources) {
            Py_VISIT(source.owner.get());
            Py_VISIT(source.version.dict());
        }
    }
    for (const std::vector<Fact>* facts : {&facts_, &gone_facts_}) {
        for (const Fact& fact : *facts) {
            Py_VISIT(fact.name.get());
            Py_VISIT(fact.value.get());
        }
    }
    for (const Read& read : reads_)
        for (const Object* o : {&read.holder, &read.other, &read.name, &read.value})
            Py_VISIT(o->get());
    for (const std::vector<Object>* objects : {&items_, &gone_})
        for (const Object& o : *objects) Py_VISIT(o.get());
    return 0;
}

void Guards::clear() {
    shrink(0);
    seal();
    const std::vector<Object> gone = std::exchange(gone_, {});
    const std::vector<Source> gone_sources = std::exchange(gone_sources_, {});
    const std::vector<Fact> gone_facts = std::exchange(gone_facts_, {});
}

}  // namespace weft::python
