/// Values of programs that run without Python.
///
/// Note [Words]
/// A value is one word. Integers that fit 63 bits lie in it, and so does what is immutable and lives as long as
/// the process or the package (None, dtypes, ops, functions); a tensor is a pointer to its TensorImpl, all else a
/// pointer to a counted Object. Counts are plain: a value belongs to one Context, a Context to one thread at a time.
/// `Raw` is the word, of which nobody keeps count; `Thing` owns one reference.
#pragma once
#include <complex>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/pool.h"
#include "tensor/tensor.h"

namespace weft::native {

enum class Kind : uint8_t {
    None,
    Bool,
    Int,
    Float,
    Complex,
    Text,
    Tuple,
    List,
    Dict,
    Set,
    View,  ///< keys, values or items of a dict
    Slice,
    Range,
    Iterator,
    Tensor,
    DType,
    Device,  ///< no value has it: devices are texts
    Ellipsis,
    Function,  ///< of the package
    Method,    ///< of a value: what `value.name` gives
    Builtin,
    Ops,  ///< a public name of ops
    Type,
    Class,   ///< of records and named tuples
    Record,  ///< an object with attributes
    Error,
    Mode,  ///< no_grad() and the like
    Live,  ///< stands in a register while a stretch is traced (trace.h)
};

struct Object {
    uint32_t refs = 0;
    Kind kind;
    explicit Object(Kind kind) : kind(kind) {}
};

class Raw {
public:
    Raw() = default;  // any word; `Raw()` is empty
    explicit Raw(Object* o) : bits_(reinterpret_cast<uintptr_t>(o)) {}
    explicit Raw(TensorImpl* t) : bits_(reinterpret_cast<uintptr_t>(t) | kTensorTag) {}
    static constexpr bool fits(int64_t v) {
        return v >= -(int64_t{1} << 62) && v < int64_t{1} << 62;
    }
    static Raw small(int64_t v) { return Raw(static_cast<uint64_t>(v) << 1 | 1, 0); }
    static Raw immediate(Kind kind, uint64_t payload = 0) {
        return Raw(payload << 16 | static_cast<uint64_t>(kind) << 3 | kImmediateTag, 0);
    }
    static Raw lasting(Kind kind, const void* p) {
        return immediate(kind, reinterpret_cast<uintptr_t>(p));
    }
    static Raw none() { return immediate(Kind::None); }
    static Raw boolean(bool v) { return immediate(Kind::Bool, v); }

    explicit operator bool() const { return bits_ != 0; }
    bool operator==(const Raw&) const = default;
    uint64_t bits() const { return bits_; }

    bool is_small() const { return bits_ & 1; }
    bool is_tensor() const { return (bits_ & 7) == kTensorTag; }
    bool is_object() const { return (bits_ & 7) == 0; }
    bool is_immediate() const { return (bits_ & 7) == kImmediateTag; }
    Kind kind() const {
        if (is_small()) return Kind::Int;
        if (is_tensor()) return Kind::Tensor;
        if (is_immediate()) return static_cast<Kind>(bits_ >> 3 & 0xff);
        return object()->kind;
    }
    bool is(Kind k) const { return kind() == k; }
    bool is_none() const { return *this == none(); }

    Object* object() const { return reinterpret_cast<Object*>(bits_); }
    TensorImpl* impl() const { return reinterpret_cast<TensorImpl*>(bits_ & ~uint64_t{7}); }
    Tensor tensor() const { return Tensor(impl()); }
    uint64_t payload() const { return bits_ >> 16; }
    template <class T>
    const T* lasting() const {
        return reinterpret_cast<const T*>(payload());
    }
    template <class T>
    T* as() const {
        return static_cast<T*>(object());
    }
    int64_t small() const { return static_cast<int64_t>(bits_) >> 1; }
    bool truth_of_bool() const { return payload() != 0; }

    void hold() const {
        if (is_object()) ++object()->refs;
        else if (is_tensor()) ++impl()->refs;
    }
    void drop() const {
        if (is_object()) {
            if (--object()->refs == 0) destroy(object());
        } else if (is_tensor() && --impl()->refs == 0) {
            release(impl());
        }
    }

private:
    static constexpr uint64_t kTensorTag = 2, kImmediateTag = 4;
    Raw(uint64_t bits, int) : bits_(bits) {}
    static void destroy(Object* o);

    uint64_t bits_;
};
static_assert(sizeof(Raw) == sizeof(void*));

/// An owned value, or none at all.
class Thing {
public:
    Thing() = default;
    static Thing steal(Raw raw) {
        Thing t;
        t.raw_ = raw;
        return t;
    }
    static Thing borrow(Raw raw) {
        if (raw) raw.hold();
        return steal(raw);
    }
    explicit Thing(Tensor t) : raw_(t.detach_impl()) {}
    Thing(const Thing& other) : Thing(borrow(other.raw_)) {}
    Thing(Thing&& other) noexcept : raw_(std::exchange(other.raw_, Raw())) {}
    Thing& operator=(Thing other) noexcept {
        std::swap(raw_, other.raw_);
        return *this;
    }
    ~Thing() {
        if (raw_) raw_.drop();
    }

    Raw get() const { return raw_; }
    Raw release() { return std::exchange(raw_, Raw()); }
    explicit operator bool() const { return static_cast<bool>(raw_); }
    Raw operator->() const = delete;
    bool is(Kind kind) const { return raw_.is(kind); }
    template <class T>
    T* as() const {
        return raw_.as<T>();
    }

private:
    Raw raw_{};
};

inline std::vector<Raw> borrowed(const std::vector<Thing>& things) {
    std::vector<Raw> out;
    for (const Thing& one : things) out.push_back(one.get());
    return out;
}

// ---- what objects are made of

struct Class;
struct Type;
struct Function;

struct Number : Object {
    union {
        int64_t i;
        double d;
    };
    double imag = 0;
    explicit Number(int64_t v) : Object(Kind::Int), i(v) {}
    explicit Number(double v) : Object(Kind::Float), d(v) {}
    explicit Number(std::complex<double> v) : Object(Kind::Complex), d(v.real()), imag(v.imag()) {}
};

struct Text : Object {
    std::string text;
    explicit Text(std::string text) : Object(Kind::Text), text(std::move(text)) {}
};

/// Its items lie behind it. With a class it is a named tuple.
struct Tuple : Object {
    const Class* of = nullptr;
    int64_t size;
    explicit Tuple(int64_t size) : Object(Kind::Tuple), size(size) {}
    Raw* items() { return reinterpret_cast<Raw*>(this + 1); }
};

struct List : Object {
    std::vector<Raw> items;
    List() : Object(Kind::List) {}
};

/// Of a dict or set (whose values are empty): in the order in which they came, found by hash.
struct Dict : Object {
    struct Entry {
        uint64_t hash;
        Raw key, value;  ///< no key: it was removed
    };
    explicit Dict(Kind kind) : Object(kind) {}
    std::vector<Entry> entries;
    std::vector<int32_t> table;  ///< places in entries; kFree, kGone
    int64_t size = 0;
    uint32_t changes = 0;  ///< of its keys
    bool frozen = false;   ///< of a set: nothing changes it, and it is a key
    static constexpr int32_t kFree = -1, kGone = -2;

    Raw find(Raw key) const;  ///< borrowed, empty if it is not there
    bool has(Raw key) const { return place(key) >= 0; }
    void set(Raw key, Raw value);  ///< takes references of its own
    Thing take(Raw key);           ///< removes; empty if it is not there
    void clear();
    /// The entry of a key, -1 if there is none.
    int64_t place(Raw key) const;

private:
    void grow();
};

struct View : Object {
    enum class Of : uint8_t { Keys, Values, Items } of;
    Raw dict;
    View(Of of, Raw dict) : Object(Kind::View), of(of), dict(dict) { dict.hold(); }
};

struct Slice : Object {
    Raw start, stop, step;
    Slice(Raw start, Raw stop, Raw step)
        : Object(Kind::Slice), start(start), stop(stop), step(step) {
        for (Raw r : {start, stop, step}) r.hold();
    }
};

struct Range : Object {
    int64_t start, stop, step;
    Range(int64_t start, int64_t stop, int64_t step)
        : Object(Kind::Range), start(start), stop(stop), step(step) {}
    int64_t size() const;
    int64_t at(int64_t k) const { return start + k * step; }
};

/// Goes through a list, tuple, text, range, dict, set or view; counts (enumerate), or goes through several (zip).
struct Iterator : Object {
    enum class How : uint8_t { Plain, Reversed, Enumerate, Zip } how = How::Plain;
    Raw of{};                  ///< what it goes through; of enumerate an iterator; empty at the end
    int64_t at = 0;            ///< the next place; of a text in bytes; the count of enumerate
    uint32_t changes = 0;      ///< of a dict, when it began
    int64_t size = 0;          ///< of a dict, then
    bool strict = false;       ///< zip: all have to end at once
    std::vector<Raw> several;  ///< iterators
    Iterator() : Object(Kind::Iterator) {}
};

struct Builtin;
struct Ops;
struct Method : Object {
    Raw self;
    const Ops* ops;  ///< or null
    const Builtin* builtin;
    Method(Raw self, const Ops* ops, const Builtin* builtin)
        : Object(Kind::Method), self(self), ops(ops), builtin(builtin) {
        self.hold();
    }
};

/// An object with attributes.
struct Record : Object {
    const Class* of;
    std::vector<Raw> fields;                          ///< in the class's order; empty: not set
    std::vector<std::pair<std::string, Raw>> others;  ///< set beside them
    explicit Record(const Class* of);
    Raw find(std::string_view name) const;  ///< borrowed, empty if it is not set
    void set(std::string_view name, Raw value);
};

/// An exception. Its lines are those of the functions that it left, the innermost first.
struct Error : Object {
    struct Line {
        const Function* function;
        int32_t line;
    };
    const Type* type;
    Raw args;  ///< a tuple
    Raw cause{};
    bool has_cause = false;    ///< `raise … from`
    std::string told;          ///< of the call that failed (weft::Error::context)
    std::exception_ptr other;  ///< what is no error of programs: it passes through
    std::vector<Line> lines;
    Error(const Type* type, Raw args) : Object(Kind::Error), type(type), args(args) {}
};

// ---- making them

template <class T, class... Args>
T* make(Args&&... args) {
    T* made = new (Pool::allocate(sizeof(T))) T(std::forward<Args>(args)...);
    made->refs = 1;
    return made;
}
template <class T, class... Args>
Thing make_thing(Args&&... args) {
    return Thing::steal(Raw(static_cast<Object*>(make<T>(std::forward<Args>(args)...))));
}

inline Thing none() { return Thing::steal(Raw::none()); }
inline Thing of_bool(bool v) { return Thing::steal(Raw::boolean(v)); }
inline Thing of_int(int64_t v) {
    return Raw::fits(v) ? Thing::steal(Raw::small(v)) : make_thing<Number>(v);
}
inline Thing of_double(double v) { return make_thing<Number>(v); }
inline Thing of_complex(std::complex<double> v) { return make_thing<Number>(v); }
inline Thing of_text(std::string_view v) { return make_thing<Text>(std::string(v)); }
inline Thing of_text(std::string&& v) { return make_thing<Text>(std::move(v)); }
inline Thing of_text(const char* v) { return of_text(std::string_view(v)); }
/// Its items are empty; to be written at once.
Thing new_tuple(int64_t size, const Class* of = nullptr);
Thing tuple_of(std::vector<Thing> items, const Class* of = nullptr);
Thing list_of(std::vector<Thing> items);
inline Thing new_list() { return make_thing<List>(); }
inline Thing new_dict() { return make_thing<Dict>(Kind::Dict); }
inline Thing new_set(bool frozen = false) {
    Thing made = make_thing<Dict>(Kind::Set);
    made.as<Dict>()->frozen = frozen;
    return made;
}

// ---- reading them

inline bool is_int(Raw r) { return r.is_small() || r.is(Kind::Int); }
/// Of an Int or a Bool.
inline int64_t int_in(Raw r) {
    if (r.is_small()) return r.small();
    return r.is(Kind::Bool) ? r.truth_of_bool() : r.as<Number>()->i;
}
inline double double_in(Raw r) { return r.as<Number>()->d; }
inline const std::string& text_in(Raw r) { return r.as<Text>()->text; }
inline DType dtype_in(Raw r) { return static_cast<DType>(r.payload()); }

struct Items {
    const Raw* data;
    int64_t size;
    const Raw* begin() const { return data; }
    const Raw* end() const { return data + size; }
    Raw operator[](int64_t k) const { return data[k]; }
};
/// Of a tuple or a list.
inline Items items_in(Raw r) {
    if (r.is(Kind::Tuple)) return {r.as<Tuple>()->items(), r.as<Tuple>()->size};
    const auto& items = r.as<List>()->items;
    return {items.data(), static_cast<int64_t>(items.size())};
}
inline bool is_sequence(Raw r) { return r.is(Kind::Tuple) || r.is(Kind::List); }

/// Bytes of the character at a place of UTF-8.
inline int64_t character_size(const std::string& text, size_t at) {
    const auto c = static_cast<unsigned char>(text[at]);
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}
int64_t characters_in(const std::string& text);

}  // namespace weft::native
