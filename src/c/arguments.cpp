#include "c/arguments.h"

#include <bit>
#include <cstring>

#include "base/error.h"
#include "native/package.h"
#include "native/utf8.h"
#include "ops/functions.h"
#include "tensor/dlpack.h"

namespace weft::c {

using native::Raw;
using native::Thing;

namespace {

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
            case WEFT_BYTES:
                return bytes(v);
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
    static Thing bytes(const weft_value& v) {
        WEFT_EXPECT(v.as.string.data || !v.as.string.size, Value, who, "bytes", "null");
        return native::bytes_of({v.as.string.data, v.as.string.size});
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

/// Whether nothing but the place has this tensor, and it is as to_tensor makes one over the caller's memory, wherever
/// that lies and however it is laid out.
bool is_bare(const TensorImpl& t) {
    const Storage* s = t.storage.get();
    return t.refs == 1 && s && s->refs == 1 && s->block == 0 && !s->give_back &&
           s->version() == 0 && !s->last_write &&
           std::bit_cast<uint64_t>(static_cast<const StorageMarks&>(*s)) == 0 && !t.slot &&
           !t.seen && !(t.flags & ~kContiguous) && t.numel > 0;
}

/// Puts a bare tensor over the memory of `d`. False: that is laid out otherwise, or has to be looked at by to_tensor.
bool lay_over(TensorImpl& t, const DLTensor& d) {
    const DlpackType type{d.dtype.code, d.dtype.bits, d.dtype.lanes};
    if (d.device.device_type != kDLCPU || d.ndim != t.ndim || !(type == dlpack_type(t.dtype)) ||
        !d.data || (!d.shape && t.ndim > 0))
        return false;
    int64_t count = 1, last = 0;  // that no number is too large was seen when it was made
    for (int i = t.ndim - 1; i >= 0; --i) {
        const int64_t n = t.dims[i], step = t.dims[t.ndim + i];
        if (d.shape[i] != n || (d.strides ? d.strides[i] : count) != step) return false;
        count *= n;
        last += (n - 1) * step;
    }
    char* const data = static_cast<char*>(d.data) + d.byte_offset;
    const int64_t item = item_size(t.dtype);
    if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(item) != 0) return false;
    t.storage->data = t.data = data;
    t.storage->bytes = (last + 1) * item;
    return true;
}

}  // namespace

void Arguments::free() {
    for (Raw r : std::exchange(values_, {})) r.drop();
}

inline void Arguments::put(const weft_value& v, bool copies) {
    const auto k = static_cast<size_t>(count_);
    if (k == values_.size()) values_.push_back(Raw::none());
    Raw& at = values_[k];
    const DLTensor* d = v.kind == WEFT_TENSOR ? v.as.tensor.data : nullptr;
    if (!d || !at.is_tensor() || !lay_over(*at.impl(), *d)) {
        Thing made = Inward(copies).thing(v);
        std::exchange(at, made.release()).drop();
    }
    ++count_;
}

native::Given Arguments::take(const weft_value* args, size_t count, const weft_value* named,
                              bool copies) {
    for (size_t k = 0; k < count; ++k) put(args[k], copies);
    if (!named) return {values_.data(), count_, nullptr};
    WEFT_EXPECT(named->kind == WEFT_DICT, Type, who, "a dict of named arguments",
                text("a value of kind ", static_cast<int>(named->kind)));
    for (size_t k = 0; k < named->as.list.size; ++k) {
        const weft_value* pair = named->as.list.items + 2 * k;
        WEFT_EXPECT(pair->kind == WEFT_STRING, Type, who, "names of arguments",
                    text("a key of kind ", static_cast<int>(pair->kind)));
        names_.emplace_back(pair->as.string.data, pair->as.string.size);
        put(pair[1], copies);
    }
    return {values_.data(), static_cast<int64_t>(count), names_.empty() ? nullptr : &names_};
}

void Arguments::let_go() {
    for (; count_ > 0; --count_) {
        Raw& at = values_[static_cast<size_t>(count_ - 1)];
        if (!at.is_tensor() || !is_bare(*at.impl())) std::exchange(at, Raw::none()).drop();
    }
    names_.clear();
}

}  // namespace weft::c
