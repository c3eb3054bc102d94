/// Reading guide: arguments first, then results; `Outward` counts and frees what it made if it fails.
#include "c/values.h"

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "c/context.h"
#include "native/errors.h"
#include "native/package.h"
#include "native/utf8.h"
#include "ops/functions.h"
#include "tensor/dlpack.h"

namespace weft::c {

using native::Kind;
using native::Raw;
using native::Thing;

namespace {

// ---------------------------------------------------------------------------------------------
// Arguments

constexpr const char* who = "weft_run";

Tensor to_tensor(const DLTensor* d, bool copies) {
    WEFT_EXPECT(d, Value, who, "a tensor", "null");
    WEFT_EXPECT(d->device.device_type == kDLCPU, Runtime, who, "memory of the CPU",
                text("DLPack device type ", static_cast<int>(d->device.device_type)));
    const DlpackLayout layout(who, {d->dtype.code, d->dtype.bits, d->dtype.lanes}, d->ndim,
                              d->shape, d->strides);
    WEFT_EXPECT(d->data || layout.bytes == 0, Value, who, "data", "null");
    char* const data = static_cast<char*>(d->data) + (d->data ? d->byte_offset : 0);
    const bool aligned = reinterpret_cast<uintptr_t>(data) % item_size(layout.dtype) == 0;
    if (layout.bytes == 0) return Tensor::empty(layout.dtype, layout.shape);
    if (!aligned) {  // copied as bytes: no kernel may read it as it lies
        Tensor own = Tensor::empty(DType::UInt8, Dims{layout.bytes});
        std::memcpy(own.bytes(), data, static_cast<size_t>(layout.bytes));
        return Tensor::from_storage(own.storage(), own.bytes(), layout.dtype, layout.shape,
                                    layout.strides);
    }
    Tensor t = Tensor::from_storage(borrow_storage(data, layout.bytes, nullptr, nullptr), data,
                                    layout.dtype, layout.shape, layout.strides);
    return copies ? ops::clone(t) : t;
}

class Inward {
public:
    explicit Inward(bool copies) : copies_(copies) {}

    Thing thing(const weft_value& v, int depth = 0) const {
        switch (v.kind) {
            case WEFT_NONE:
                return native::none();
            case WEFT_BOOL:
                return native::of_bool(v.as.integer != 0);
            case WEFT_INT:
                return native::of_int(v.as.integer);
            case WEFT_DOUBLE:
                return native::of_double(v.as.number);
            case WEFT_COMPLEX:
                return native::of_complex({v.as.complex.real, v.as.complex.imag});
            case WEFT_STRING:
                return string(v);
            case WEFT_LIST:
            case WEFT_TUPLE:
                return list(v, depth);
            case WEFT_DICT:
                return dict(v, depth);
            case WEFT_TENSOR:
                return Thing(to_tensor(v.as.tensor.data, copies_));
        }
        fail(ErrorKind::Value, who, "a kind of weft_kind", text(static_cast<int>(v.kind)));
    }

private:
    static Thing string(const weft_value& v) {
        WEFT_EXPECT(v.as.string.data || !v.as.string.size, Value, who, "text", "null");
        const std::string_view text(v.as.string.data ? v.as.string.data : "", v.as.string.size);
        WEFT_EXPECT(native::is_utf8(text), Value, who, "text in UTF-8", "other bytes");
        return native::of_text(text);
    }
    static void check(const weft_value& v, int depth) {
        WEFT_EXPECT(v.as.list.items || !v.as.list.size, Value, who, "items", "null");
        WEFT_EXPECT(depth < kMaxDepth, Value, who,
                    text("values in each other at most ", kMaxDepth, " deep"), "deeper ones");
    }
    Thing list(const weft_value& v, int depth) const {
        check(v, depth);
        std::vector<Thing> items;
        items.reserve(v.as.list.size);
        for (size_t k = 0; k < v.as.list.size; ++k)
            items.push_back(thing(v.as.list.items[k], depth + 1));
        return v.kind == WEFT_TUPLE ? native::tuple_of(std::move(items))
                                    : native::list_of(std::move(items));
    }
    Thing dict(const weft_value& v, int depth) const {
        check(v, depth);
        Thing out = native::new_dict();
        for (size_t k = 0; k < v.as.list.size; ++k) {
            const weft_value& key = v.as.list.items[2 * k];
            WEFT_EXPECT(key.kind < WEFT_LIST, Type, who, "keys that are numbers or strings",
                        text("a key of kind ", static_cast<int>(key.kind)));
            Thing name = thing(key, depth + 1);
            Thing value = thing(v.as.list.items[2 * k + 1], depth + 1);
            out.as<native::Dict>()->set(name.get(), value.get());
        }
        return out;
    }

    bool copies_;
};

// ---------------------------------------------------------------------------------------------
// Results

char* copy_text(std::string_view text) {
    char* out = static_cast<char*>(std::malloc(text.size() + 1));
    if (!out) throw std::bad_alloc();
    std::memcpy(out, text.data(), text.size());
    out[text.size()] = '\0';
    return out;
}

void give_back(DLManagedTensorVersioned* managed) {
    auto* lent = static_cast<Lent*>(managed->manager_ctx);
    lent->core->take_back(lent);
}

/// Note [Results are the caller's]
/// Memory that something else of the context knows is copied: an argument's, a weight's, state's, another
/// result's. So nobody writes what the caller reads, in whatever thread he does.
weft_value lend(Tensor t, Core& core) {
    if (t.impl()->refs > 2 || t.storage()->refs > 1 || t.storage()->block == 0) t = ops::clone(t);
    auto lent = std::make_unique<Lent>();
    lent->storage = t.storage();
    for (int64_t n : t.shape()) lent->dims.push_back(n);
    for (int64_t n : t.strides()) lent->dims.push_back(n);
    const DlpackType type = dlpack_type(t.dtype());
    DLTensor& d = lent->managed.dl_tensor;
    d.data = t.bytes();
    d.device.device_type = kDLCPU;
    d.ndim = t.ndim();
    d.dtype = {type.code, type.bits, type.lanes};
    d.shape = lent->dims.data();
    d.strides = lent->dims.data() + t.ndim();
    lent->managed.version = {1, 0};
    lent->managed.manager_ctx = lent.get();
    lent->managed.deleter = give_back;
    weft_value v = weft_tensor(&d);
    v.as.tensor.owner = &lent.release()->managed;
    core.lend(*static_cast<Lent*>(v.as.tensor.owner->manager_ctx));
    return v;
}

class Outward {
public:
    explicit Outward(Core& core) : core_(core) {}

    /// `own`: nobody else has `r`, so what it alone holds may be taken.
    void value(Raw r, weft_value& out, int depth = 0) {
        out = weft_none();
        WEFT_EXPECT(depth < kMaxDepth, Value, "weft_run",
                    text("a result of values in each other at most ", kMaxDepth, " deep"),
                    "deeper ones, or one in itself");
        WEFT_EXPECT(++count_ <= kMaxValues, Value, "weft_run",
                    text("a result of at most ", kMaxValues, " values"), "more");
        switch (r.kind()) {
            case Kind::None:
                return;
            case Kind::Bool:
                out = weft_bool(r.truth_of_bool());
                return;
            case Kind::Int:
                out = weft_int(native::int_in(r));
                return;
            case Kind::Float:
                out = weft_double(native::double_in(r));
                return;
            case Kind::Complex:
                out.kind = WEFT_COMPLEX;
                out.as.complex = {r.as<native::Number>()->d, r.as<native::Number>()->imag};
                return;
            case Kind::Text: {
                const std::string& text = native::text_in(r);
                out = weft_string(copy_text(text), text.size());
                return;
            }
            case Kind::Tensor:
                return tensor(r, out);
            case Kind::Tuple:
                if (auto* of = r.as<native::Tuple>()->of)
                    return fields({of->fields, r.as<native::Tuple>()->items(), {}}, out, depth);
                [[fallthrough]];
            case Kind::List:
                return list(r, out, depth);
            case Kind::Dict:
                return dict(*r.as<native::Dict>(), out, depth);
            case Kind::Record:
                return fields({r.as<native::Record>()->of->fields,
                               r.as<native::Record>()->fields.data(),
                               r.as<native::Record>()->others},
                              out, depth);
            default:
                fail(ErrorKind::Type, "weft_run",
                     "a result of numbers, strings, tensors, and lists, tuples and dicts of them",
                     text("a value of type ", native::type_name(r)));
        }
    }

private:
    static constexpr int64_t kMaxValues = int64_t{1} << 24;

    /// Room for items, all None, so that they can be freed at any time.
    static weft_value room(weft_kind kind, size_t size, size_t items) {
        weft_value out = weft_none();
        auto* at = static_cast<weft_value*>(std::calloc(items ? items : 1, sizeof(weft_value)));
        if (!at) throw std::bad_alloc();
        out.kind = kind;
        out.as.list.items = at;
        out.as.list.size = size;
        return out;
    }
    void tensor(Raw r, weft_value& out) { out = lend(r.tensor(), core_); }
    void list(Raw r, weft_value& out, int depth) {
        const native::Items items = native::items_in(r);
        const auto size = static_cast<size_t>(items.size);
        out = room(r.is(Kind::List) ? WEFT_LIST : WEFT_TUPLE, size, size);
        for (size_t k = 0; k < size; ++k)
            value(items[static_cast<int64_t>(k)], out.as.list.items[k], depth + 1);
    }
    void dict(const native::Dict& d, weft_value& out, int depth) {
        const auto size = static_cast<size_t>(d.size);
        out = room(WEFT_DICT, size, 2 * size);
        weft_value* at = out.as.list.items;
        for (const native::Dict::Entry& entry : d.entries) {
            if (!entry.key) continue;
            value(entry.key, *at++, depth + 1);
            value(entry.value, *at++, depth + 1);
        }
    }
    /// Fields with names: those of the class that are set, then the others.
    struct Fields {
        const std::vector<std::string>& names;
        const Raw* values;
        const std::vector<std::pair<std::string, Raw>>& others;
    };
    void fields(const Fields& of, weft_value& out, int depth) {
        size_t size = of.others.size();
        for (size_t k = 0; k < of.names.size(); ++k) size += static_cast<bool>(of.values[k]);
        out = room(WEFT_DICT, size, 2 * size);
        weft_value* at = out.as.list.items;
        const auto add = [&](const std::string& name, Raw r) {
            *at++ = weft_string(copy_text(name), name.size());
            value(r, *at++, depth + 1);
        };
        for (size_t k = 0; k < of.names.size(); ++k)
            if (of.values[k]) add(of.names[k], of.values[k]);
        for (const auto& other : of.others) add(other.first, other.second);
    }

    Core& core_;
    int64_t count_ = 0;
};

}  // namespace

Thing to_thing(const weft_value& value, bool copies) { return Inward(copies).thing(value); }

weft_value to_value(Thing result, Core& core) {
    weft_value out = weft_none();
    try {
        Outward(core).value(result.get(), out);
    } catch (...) {
        clear(out);
        throw;
    }
    return out;
}

void clear(weft_value& v) {
    switch (v.kind) {
        case WEFT_STRING:
            std::free(const_cast<char*>(v.as.string.data));
            break;
        case WEFT_LIST:
        case WEFT_TUPLE:
        case WEFT_DICT: {
            const size_t items = v.as.list.size * (v.kind == WEFT_DICT ? 2 : 1);
            for (size_t k = 0; k < items; ++k) clear(v.as.list.items[k]);
            std::free(v.as.list.items);
            break;
        }
        case WEFT_TENSOR:
            if (auto* owner = v.as.tensor.owner; owner && owner->deleter) owner->deleter(owner);
            break;
        default:
            break;
    }
    v = weft_none();
}

}  // namespace weft::c
