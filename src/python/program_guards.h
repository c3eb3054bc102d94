/// What Python told while calls were traced, and whether it would tell the same again.
///
/// Note [Guards]
/// Every read that a stretch of a program depends on is noted with what it gave. A read is noted only if it
/// is *plain*: its answer follows from dictionaries, slots and types, and no code of users runs for it.
///
/// | read | guarded by | holds while |
/// |---|---|---|
/// | attribute of an object | its type, the type's state, its dictionary's state, a `__slots__` field | the same is found, in the same kind of place |
/// | attribute of a Module | the same, and the states of `_parameters`, `_modules`, `_buffers` in the order of the search | the same |
/// | attribute of a class, of `super()` | the states of the class and of its metaclass | the same |
/// | what a class has for its instances | the state of the class | the same |
/// | global | the states of the globals, and of the builtins where it is found there | the same |
/// | cell, type, parts of a function | the word itself | the same |
/// | items of a list or a dictionary | the items themselves; the dictionary's state | the same items in the same order |
/// | call of a Module | its type's `__call__`, `_hooked`, tables of hooks, `forward` | no hooks, the same `forward` |
///
/// "The same" is the same object; for int, float, complex, str, bytes, bool and None one of the same type that
/// is equal to the bit, so that `self.h = 5` in each step changes nothing. A method is looked at as what the
/// class holds: the function. What a descriptor of C's has inside (the function in a staticmethod, a
/// property's getter) is taken as constant, as nothing but a second `__init__` changes it; keys of
/// dictionaries as strings that compare without code of users.
///
/// States are numbers that every change replaces: those of types are CPython's own (`tp_version_tag`), for
/// dictionaries see Note [Versions of dictionaries]. All that is compared in `hold` are *words*, an address
/// and what has to be there, each distinct one once, however many reads depend on it. Where a state differs,
/// its dictionary or type is asked again what it was asked (*facts*), which is enough where something else
/// in it has changed, as by `self.h = …`. Else the reads that depend on it are made again. If all give what
/// they gave, the words are taken as they now are, and it is quick again. A read that fails is remembered
/// with the states that made it fail, so that a program that changes to and fro (`train()`, `eval()`) finds
/// out quickly each time. A type that CPython gives no more states (3.13: after a thousand changes of a
/// class) is asked each time.
///
/// What is kept alive: the objects that were asked, their types, dictionaries and tables, and the answers;
/// of a Module therefore also its parameters and children. Whoever owns guards lets the collector look
/// through them (`traverse`, `clear`), as what they keep alive may own them: a Module its compiled self.
#pragma once
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "python/dict_version.h"

namespace weft::python {

/// Its functions need the lock and no exception set, and leave none; they throw where memory is out.
class Guards {
public:
    Guards() = default;
    Guards(const Guards&) = delete;
    Guards& operator=(const Guards&) = delete;

    /// getattr(holder, name) if that is plain: noted, a new reference. Else null.
    PyObject* attribute(PyObject* holder, PyObject* name);
    /// Where getattr(holder, name) calls the getter of a property: noted, the getter (a new reference). Else null.
    PyObject* property_of(PyObject* holder, PyObject* name);
    /// Whether plainly there is no such attribute; if so, noted.
    bool lacks(PyObject* holder, PyObject* name);
    /// What a class has under a name, as its descriptor is; borrowed, null where there is none.
    PyObject* in_class(PyTypeObject* type, PyObject* name);
    /// The global `name`, else the builtin; null where there is none.
    PyObject* global(PyObject* globals, PyObject* builtins, PyObject* name);
    /// These note what is there now, or return false where it cannot be guarded.
    bool cell(PyObject* cell);
    bool type_of(PyObject* o);
    /// The items of an exact list, tuple or dict.
    bool items(PyObject* sequence);
    /// What calling a function depends on but its globals and cells: `__code__`, `__defaults__`, `__kwdefaults__`.
    bool function(PyObject* function);
    /// That calling `module`, a weft.nn.Module, calls its attribute `forward`, which is guarded too, and does nothing else.
    bool module_call(PyObject* module);

    size_t size() const { return reads_.size(); }
    /// Forgets all reads but the first `count`.
    void shrink(size_t count);
    /// Gives back what only noting needs; noting may go on.
    void seal() { index_.reset(); }
    /// How many words `hold` compares.
    size_t words() const { return words_.size(); }

    /// Whether all that was noted would be told again.
    bool hold() {
        uint64_t differs = 0;  // all are looked at, without a branch for each
#pragma GCC unroll 4
        for (const Word& w : words_) differs |= w.now() ^ w.expected;
        return (!differs && lists_hold()) || hold_again();
    }

    /// What was asked where the last `hold` failed, and what it was told first: borrowed, null if that is not known.
    struct Failure {
        PyObject *holder = nullptr, *name = nullptr, *value = nullptr;
    };
    Failure failure() const;

    int traverse(visitproc visit, void* arg) const;
    void clear();

private:
    /// What a word is: a field of its owner, or the state of a dictionary or type.
    enum class Kind : uint8_t { Field, Dict, Type };
    struct Word {
        const void* at;
        uint64_t expected;
        uint64_t mask;

        uint64_t now() const {
            uint64_t value;
            std::memcpy(&value, at, sizeof value);
            return value & mask;
        }
        bool holds() const { return now() == expected; }
    };
    /// Behind each word: what keeps its address alive.
    struct Source {
        Kind kind;
        bool whole = false;  ///< reads depend on more of it than facts tell
        bool asked = false;  ///< there are facts
        Object owner{};
        DictVersion version{};
    };
    /// What a dictionary or type said to a question on the way to some answers: null for "no such key".
    struct Fact {
        uint32_t word;
        Object name, value;
    };
    /// A word that a look-up has come to, not yet noted. `at` names it: the field, the dictionary, the type.
    struct Met {
        Kind kind;
        const void* at;
        PyObject* owner;
        bool whole = false;
    };
    /// A question that a look-up has put to one of these.
    struct Asked {
        const void* at;
        PyObject *name, *value;
    };
    enum class What : uint8_t { Attribute, InClass, Global, Field, Items, Call };
    /// How an answer is found.
    enum class From : uint8_t {
        Unknown,   ///< not plain
        Nothing,   ///< there is no such attribute
        Value,     ///< as it is
        Class,     ///< in a class, to be bound
        Meta,      ///< in a class's class, to be bound
        Property,  ///< by calling a property's getter
    };
    struct Found {
        From from = From::Unknown;
        PyObject* value = nullptr;  ///< borrowed; of a class: not bound yet
        PyObject* self = nullptr;   ///< what it is to be bound to; null: to the class alone
        PyObject* cls = nullptr;
    };
    /// The words that a read depends on, in uses_; how many words and facts there were when it was noted.
    struct Uses {
        uint32_t first = 0, count = 0, words_after = 0, facts_after = 0;
    };
    struct Read {
        What what;
        From from = From::Unknown;
        Uses uses{};
        uint32_t first_item = 0, items = 0;  ///< Items: in items_
        Object holder{};
        Object
            other{};  ///< Global: builtins; Attribute of a super(): the class after which it looks
        Object name{};
        Object value{};
        const void* at = nullptr;  ///< Field
    };
    struct List {
        PyListObject* list;
        uint32_t first_item, items;
    };
    struct Key {
        What what;
        const void *holder, *other, *name;
        bool operator==(const Key&) const = default;
    };
    struct KeyHash {
        size_t operator()(const Key& key) const;
        size_t operator()(const std::pair<uint32_t, const void*>& fact) const;
    };
    /// What is noted already; there while reads are noted.
    struct Index {
        std::unordered_map<const void*, uint32_t> words;
        std::unordered_map<Key, uint32_t, KeyHash> reads;
        std::unordered_set<std::pair<uint32_t, const void*>, KeyHash> facts;  ///< word and name
    };

    // Looking up, in program_guards_find.cpp: fills met_ with all that the answer follows from, also where
    // that is "not plain", and asked_ with the questions to what is not met as a whole.
    void meet_field(PyObject* owner, const void* at) { met_.push_back({Kind::Field, at, owner}); }
    void meet_type(PyTypeObject* type, bool whole = false);
    void meet_dict(PyObject* dict, bool whole = false);
    void meet_class_of(PyObject* found);
    PyObject* get(PyObject* dict, PyObject* name);
    PyObject* get(PyTypeObject* type, PyObject* name);
    bool looks_up_plainly(PyTypeObject* type);
    Found find(const Read& read);
    Found find_attribute(PyObject* holder, PyObject* name);
    Found find_in_object(PyObject* holder, PyObject* name);
    Found find_missing(PyObject* holder, PyObject* dict, PyObject* name);
    Found find_in_tables(PyObject* dict, PyObject* name);
    Found find_in_type(PyObject* holder, PyObject* name);
    Found find_in_super(PyObject* cls, PyObject* self, PyObject* name);
    Found find_data(PyObject* descriptor, PyObject* holder);
    Found find_global(PyObject* globals, PyObject* builtins, PyObject* name);
    Found find_call(PyObject* module);
    bool has_hooks(PyObject* module);

    // Noting.
    static const void* key_of(const Word& word, const Source& source);
    static Key key_of(const Read& read);
    static Read attribute_read(PyObject* holder, PyObject* name);
    Index& index();
    Found look(const Read& read);
    Found look_to_note(const Read& read);
    bool note(Read&& read, const Found& found);
    bool note_field(PyObject* owner, const void* at);
    bool note_words(Uses& uses);
    void note_facts();
    void drop(size_t words, size_t facts);

    // Making reads again.
    bool lists_hold() const {
        for (const List& l : lists_)
            if (!holds(l)) return false;
        return true;
    }
    bool holds(const List& l) const;
    bool hold_again();
    PyObject* ask_again(const Fact& fact) const;
    bool find_differences();
    bool is_affected(const Read& read) const;
    bool is_met_again(const Uses& uses) const;
    bool same_items(const Read& read) const;
    bool tells_again(const Read& read, const Found& found) const;
    bool fails_as_before() const;
    void remember_failure(const Read& read);
    bool rebuild();
    void keep(Object& old, PyObject* now);
    void take_over(Read& read, PyObject* value);
    void take_over_states();

    std::vector<Word> words_;
    std::vector<Source> sources_;
    std::vector<Read> reads_;
    std::vector<uint32_t> uses_;
    std::vector<Object> items_;
    std::vector<List> lists_;
    std::unique_ptr<Index> index_;
    std::vector<Fact> facts_;
    std::vector<Met> met_;
    std::vector<Asked> asked_;
    enum class Differs : uint8_t { No, Unasked, Yes };
    std::vector<Differs> differs_;  ///< of each word; Unasked: not in what anybody asked for
    std::vector<std::pair<Read*, PyObject*>> told_;
    int64_t differs_at_ = -1;  ///< the read where hold failed last
    int64_t failed_ = -1;      ///< the same while its states are known
    std::vector<uint64_t> failed_states_;
    // What is not needed any more: freed where its destructors may do as they like.
    std::vector<Object> gone_;
    std::vector<Source> gone_sources_;
    std::vector<Fact> gone_facts_;
};

}  // namespace weft::python
