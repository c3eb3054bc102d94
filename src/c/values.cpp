/// Reading guide: tensors, then other values; `Outward` counts, and to_value frees what it made if it fails.
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

char* copy_text(std::string_view text) {
    char* out = static_cast<char*>(std::malloc(text.size() + 1));
    if (!out) throw std::bad_alloc();
    std::memcpy(out, text.data(), text.size());
    out[text.size()] = '\0';
    return out;
}

/// Note [Results are the caller's]
/// Memory that something else of the context knows is copied: an argument's, a weight's, state's, another
/// result's. So nobody writes what the caller reads, in whatever thread he does. `own`: nothing but the result has what
/// `r` lies in.
Tensor callers_own(Raw r, bool own) {
    const TensorImpl& t = *r.impl();
    if (!own || t.refs > 1 || t.storage->refs > 1 || t.storage->block == 0)
        return ops::clone(r.tensor());
    return t.slot ? r.tensor().alias() : r.tensor();  // its graph goes now
}

class Outward {
public:
    explicit Outward(Core& core) : core_(core) {}

    /// `own`: nothing but the result has what `r` lies in.
    void value(Raw r, weft_value& out, bool own = true, int depth = 0) {
        out = weft_none();
        WEFT_EXPECT(depth < kMaxDepth, Value, "weft_run",
                    text("a result of values in each other at most ", kMaxDepth, " deep"),
                    "deeper ones, or one in itself");
        WEFT_EXPECT(++count_ <= kMaxValues, Value, "weft_run",
                    text("a result of at most ", kMaxValues, " values"), "more");
        if (r.is_object()) own &= r.object()->refs == 1;
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
                return tensor(r, out, own);
            case Kind::Tuple:
                if (auto* of = r.as<native::Tuple>()->of; of == &native::bytes_class())
                    return bytes(r, out);
                else if (of && of != &native::size_class())
                    return fields({of->fields, r.as<native::Tuple>()->items(), {}}, out, own,
                                  depth);
                [[fallthrough]];
            case Kind::List:
                return list(r, out, own, depth);
            case Kind::View:
            case Kind::Iterator:
                return list(native::list_of(native::all_of(r)).get(), out, false, depth);
            case Kind::Dict:
                return dict(*r.as<native::Dict>(), out, own, depth);
            case Kind::Record:
                return fields({r.as<native::Record>()->of->fields,
                               r.as<native::Record>()->fields.data(),
                               r.as<native::Record>()->others},
                              out, own, depth);
            default:
                fail(ErrorKind::Type, "weft_run",
                     "a result of numbers, strings, bytes, tensors, and lists, tuples and dicts of "
                     "them",
                     text("a value of type ", native::type_name(r)),
                     "a list of its items, or str() of it, is one");
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
    static void bytes(Raw r, weft_value& out) {
        const std::string all = native::bytes_in(r);
        out = weft_bytes(copy_text(all), all.size());
    }
    void tensor(Raw r, weft_value& out, bool own) {
        auto* lent = new Lent(callers_own(r, own), core_);
        out = weft_tensor(&lent->managed.dl_tensor);
        out.as.tensor.owner = &lent->managed;
    }
    void list(Raw r, weft_value& out, bool own, int depth) {
        const native::Items items = native::items_in(r);
        const auto size = static_cast<size_t>(items.size);
        out = room(r.is(Kind::List) ? WEFT_LIST : WEFT_TUPLE, size, size);
        for (size_t k = 0; k < size; ++k)
            value(items[static_cast<int64_t>(k)], out.as.list.items[k], own, depth + 1);
    }
    void dict(const native::Dict& d, weft_value& out, bool own, int depth) {
        const auto size = static_cast<size_t>(d.size);
        out = room(WEFT_DICT, size, 2 * size);
        weft_value* at = out.as.list.items;
        for (const native::Dict::Entry& entry : d.entries) {
            if (!entry.key) continue;
            value(entry.key, *at++, own, depth + 1);
            value(entry.value, *at++, own, depth + 1);
        }
    }
    /// Fields with names: those of the class that are set, then the others.
    struct Fields {
        const std::vector<std::string>& names;
        const Raw* values;
        const std::vector<std::pair<std::string, Raw>>& others;
    };
    void fields(const Fields& of, weft_value& out, bool own, int depth) {
        size_t size = of.others.size();
        for (size_t k = 0; k < of.names.size(); ++k) size += static_cast<bool>(of.values[k]);
        out = room(WEFT_DICT, size, 2 * size);
        weft_value* at = out.as.list.items;
        const auto add = [&](const std::string& name, Raw r) {
            *at++ = weft_string(copy_text(name), name.size());
            value(r, *at++, own, depth + 1);
        };
        for (size_t k = 0; k < of.names.size(); ++k)
            if (of.values[k]) add(of.names[k], of.values[k]);
        for (const auto& other : of.others) add(other.first, other.second);
    }

    Core& core_;
    int64_t count_ = 0;
};

}  // namespace

void to_value(Thing result, Core& core, weft_value& out) {
    try {
        Outward(core).value(result.get(), out);
    } catch (...) {
        clear(out);
        throw;
    }
}

Lent::Lent(Tensor t, Core& core) : tensor(std::move(t)), core(&core) {
    const DlpackType type = dlpack_type(tensor.dtype());
    int64_t* const dims = tensor.impl()->dims;
    managed.version = {1, 0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensorVersioned* self) {
        auto* lent = static_cast<Lent*>(self->manager_ctx);
        lent->core->take_back(lent);
    };
    managed.flags = 0;
    DLTensor& d = managed.dl_tensor;
    d.data = tensor.bytes();
    d.device = {kDLCPU, 0};
    d.ndim = tensor.ndim();
    d.dtype = {type.code, type.bits, type.lanes};
    d.shape = dims;
    d.strides = dims + d.ndim;
    d.byte_offset = 0;
    core.count_lent();
}

void clear(weft_value& v) {
    switch (v.kind) {
        case WEFT_STRING:
        case WEFT_BYTES:
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
