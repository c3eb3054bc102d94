/// What the batcher remembers of calls that look alike, from flush to flush.
///
/// Note [Kinds]
/// Calls of one *class* have the same op, attributes, shapes, dtypes and fixed operands: found by one
/// look-up of a key of a few words, compared word by word. The first call of a class asks the op's
/// rule for its form (Note [Rows] in ops/batch.h). Classes that differ only in numbers of rows are of
/// one *kind*, whose calls run as one; kinds that differ only in sizes or numbers are of one *group*,
/// and are planned together: the rarer ones run as parts of one call (Note [Each] in ops/each.h).
#pragma once
#include <deque>
#include <vector>

#include "ops/batch.h"
#include "ops/each.h"
#include "ops/made.h"

namespace weft::deferred {

using Key = std::vector<uint64_t>;

/// Keys to consecutive numbers.
class Interned {
public:
    /// The number of `key`; `fresh` tells whether it is new.
    uint32_t number(const uint64_t* key, size_t words, bool& fresh);
    /// Takes back the newest number.
    void forget_last();
    size_t size() const { return entries_.size(); }
    void clear();

private:
    struct Entry {
        uint64_t hash;
        size_t begin;
        uint32_t words;
    };
    void grow();
    std::vector<Entry> entries_;
    std::vector<uint64_t> words_;
    std::vector<uint32_t> table_;  ///< entry + 1 by hash; 0 is free
};

/// What calls have in common that may be parts of one (Note [Each] in ops/each.h).
struct Each {
    const Op* op = nullptr;
    std::vector<ops::EachInput> inputs;
    std::vector<DType> outputs;
    std::vector<int> differing;  ///< attributes
    std::vector<Value> attrs;
};

enum class How : uint8_t {
    Rows,    ///< rows of all calls together
    Join,    ///< the pieces of all calls copied one after the other
    Single,  ///< one call at a time
};

/// A kind: what runs.
struct Kind {
    How how = How::Single;
    BatchForm form;                        ///< of its first class; `rows` are the class's
    uint32_t mode = 0;                     ///< grad and inference flags of the calls
    DType default_dtype = DType::Float32;  ///< to which integers are promoted
    const Op* op = nullptr;
    uint32_t group = 0;
    std::string why;  ///< for the report: why its calls stay single
};

struct Class {
    uint32_t kind = 0;
    uint32_t group = 0;      ///< its kind's
    const Op* op = nullptr;  ///< that was called: calls of several ops may be of one kind
    int64_t rows = 1;
    int64_t calls = 1;                        ///< of ops, for which one of its stands
    std::shared_ptr<const ops::MadeOp> made;  ///< its op, if that was made at run time
    static constexpr uint32_t kNone = UINT32_MAX, kUnknown = UINT32_MAX - 1;
    uint32_t each = kNone;       ///< what its calls can be parts of
    std::vector<int64_t> words;  ///< of one of them (ops/each.h)
    std::vector<int64_t> sizes;  ///< of a Join: elements of each operand; else rows, where unlike
    uint32_t own =
        kUnknown;  ///< the class of the same call over an operand of its own (Note [Own])
};

struct Kinds {
    Interned class_keys, kind_keys, group_keys, each_keys;
    std::vector<Class> classes;
    std::deque<Kind> kinds;
    std::deque<Each> each;
    const Kind& kind_of(const Class& c) const { return kinds[c.kind]; }
    void clear();
};

void append(Key& key, const Value& v);
/// For Call::attrs_number. Equal attributes may get another number when many have been seen since:
/// their calls are of another class then, but of the same kind.
uint64_t number_of_attrs(const Value* attrs, size_t count);
/// How many are known; bounded.
size_t numbered_attrs();

}  // namespace weft::deferred
