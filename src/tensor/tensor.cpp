#include "tensor/tensor.h"

#include <cstring>

#include "kernels/convert.h"
#include "tensor/apart.h"

namespace weft {
using detail::new_impl;
using kernels::convert;

TensorImpl* detail::new_large_impl(DType dtype, int ndim) {
    WEFT_EXPECT(ndim <= kMaxDims, Runtime, "tensor", text("at most ", kMaxDims, " dimensions"),
                std::to_string(ndim));
    auto* dims = static_cast<int64_t*>(Pool::allocate(2 * sizeof(int64_t) * ndim));
    TensorImpl* impl = new_impl(dtype, 0);
    impl->ndim = static_cast<uint8_t>(ndim);
    impl->dims = dims;
    return impl;
}

void detail::refuse_bytes(const Tensor& t) {
    fail(ErrorKind::Runtime, "tensor", "a tensor of less than 2**63 bytes",
         text("sizes ", to_string(t.shape()), " of ", name(t.dtype()),
              " (Storage size calculation overflowed with sizes=", to_string(t.shape()), ")"));
}

Tensor Tensor::layout(DType dtype, DimSpan shape) {
    TensorImpl* impl = new_impl(dtype, static_cast<int>(shape.size()));
    Tensor out(impl);
    int64_t step = 1;
    bool overflow = false;
    for (int d = impl->ndim - 1; d >= 0; --d) {
        impl->dims[d] = shape[d];
        impl->dims[impl->ndim + d] = step;
        overflow |=
            shape[d] < 0 || __builtin_mul_overflow(step, shape[d] > 1 ? shape[d] : 1, &step);
    }
    overflow |= step > (INT64_MAX >> 5);
    if (overflow) [[unlikely]] {
        step = count_elements("tensor", shape, item_size(dtype));  // throws, or a size is 0
        contiguous_strides(shape);
    }
    impl->numel = step;
    for (int64_t size : shape) impl->numel = size == 0 ? 0 : impl->numel;
    impl->flags = kContiguous;
    return out;
}

Tensor Tensor::layout(DType dtype, DimSpan shape, DimSpan strides) {
    TensorImpl* impl = new_impl(dtype, static_cast<int>(shape.size()));
    Tensor out(impl);
    for (size_t d = 0; d < shape.size(); ++d) {
        impl->dims[d] = shape[d];
        impl->dims[impl->ndim + d] = strides[d];
    }
    impl->numel = count_elements("tensor", shape);
    impl->flags = is_contiguous(shape, strides) ? kContiguous : 0;
    return out;
}

void Tensor::allocate_meta() const {
    impl_->storage = meta_storage(byte_count());
    impl_->data = impl_->storage->data;
    impl_->flags |= kMeta;
}

Tensor Tensor::empty(DType dtype, DimSpan shape) {
    Tensor out = layout(dtype, shape);
    out.allocate();
    return out;
}

Tensor Tensor::from_storage(Ref<Storage> storage, char* data, DType dtype, DimSpan shape,
                            DimSpan strides) {
    Tensor out = layout(dtype, shape, strides);
    if (storage && storage->meta) out.impl_->flags |= kMeta;
    out.impl_->storage = std::move(storage);
    out.impl_->data = data;
    return out;
}

void Tensor::share(const Tensor& base, int64_t offset) const {
    impl_->storage = base.impl_->storage;
    impl_->data = base.impl_->data + offset * item_size(base.dtype());
    impl_->flags |= base.impl_->flags & (kLooseView | kInference | kMeta);
}

Tensor Tensor::view_as(DimSpan shape, DimSpan strides, int64_t offset) const {
    Tensor out = layout(dtype(), shape, strides);
    out.share(*this, offset);
    return out;
}

Tensor Tensor::alias() const {
    if (has(kDispatching)) [[unlikely]]
        return alias_in_class(*this);
    return plain_alias();
}

Tensor Tensor::plain_alias() const {
    Tensor out = layout_like(*this, dtype());
    out.share(*this, 0);
    out.impl_->flags |= impl_->flags & kWrapped;
    return out;
}

void Tensor::become(const Tensor& other) const {
    Tensor from = other.alias();
    TensorImpl *a = impl_.get(), *b = from.impl();
    std::swap(a->dtype, b->dtype);
    std::swap(a->ndim, b->ndim);
    std::swap(a->numel, b->numel);
    std::swap(a->storage, b->storage);
    std::swap(a->data, b->data);
    bool a_inline = a->dims == a->inline_dims, b_inline = b->dims == b->inline_dims;
    std::swap(a->inline_dims, b->inline_dims);
    std::swap(a->dims, b->dims);
    if (b_inline) a->dims = a->inline_dims;
    if (a_inline) b->dims = b->inline_dims;
    constexpr uint16_t moved = kContiguous | kMeta;
    const auto taken = static_cast<uint16_t>(b->flags & moved);
    b->flags = static_cast<uint16_t>((b->flags & ~moved) | (a->flags & moved));
    a->flags = static_cast<uint16_t>((a->flags & ~moved) | taken);
}

void Tensor::settle(const Tensor& other) const {
    become(other);
    constexpr uint16_t kept = kContiguous | kTracked | kLooseView | kInference | kMeta;
    impl_->flags =
        static_cast<uint16_t>((impl_->flags & kOwnsWrapper) | (other.impl()->flags & kept));
    impl_->slot = other.impl()->slot;
}

Tensor Tensor::resized(DimSpan shape) const {
    Tensor wanted = layout(dtype(), shape);
    if (storage()->data + storage()->bytes - bytes() >= wanted.byte_count()) {
        wanted.share(*this, 0);
    } else {
        wanted.allocate_beside(*this);
        int64_t kept = storage()->data + storage()->bytes - bytes();
        if (kept > 0 && !has(kMeta))
            std::memcpy(wanted.bytes(), bytes(), static_cast<size_t>(kept));
    }
    return wanted;
}

namespace {

void drop_memory(void* storage) { Ref<Storage>::adopt(static_cast<Storage*>(storage)); }

}  // namespace

Storage& memory_of(Storage& storage) {
    const bool is_apart = storage.give_back == drop_memory;
    return is_apart ? *static_cast<Storage*>(storage.owner) : storage;
}

Tensor Tensor::apart() const {
    const Storage* mine = storage().get();
    Ref<Storage> memory(&memory_of(*storage()));  // apart of apart is no chain
    Ref<Storage> own = borrow_storage(mine->data, mine->bytes, drop_memory, memory.detach());
    own->read_only = mine->read_only;
    own->meta = mine->meta;
    own->maker = mine->maker;
    return from_storage(std::move(own), bytes(), dtype(), shape(), strides());
}

bool Tensor::may_overlap(const Tensor& other) const {
    if (numel() == 0 || other.numel() == 0) return false;
    auto last = [](const Tensor& t) {
        char* end = t.bytes() + item_size(t.dtype());
        for (int d = 0; d < t.ndim(); ++d)
            end += (t.size(d) - 1) * t.stride(d) * item_size(t.dtype());
        return end;
    };
    return bytes() < last(other) && other.bytes() < last(*this);
}

namespace {

void require_one(const Tensor& t) {
    WEFT_EXPECT(t.numel() == 1, Runtime, "item", "a tensor with one element",
                text("shape ", to_string(t.shape()), " (a Tensor with ", t.numel(),
                     " elements cannot be converted to Scalar)"));
    WEFT_EXPECT(!t.has(kMeta), Runtime, "item", "a tensor with values",
                "one of the meta device (Tensor.item() cannot be called on meta tensors)");
}

}  // namespace

double Tensor::item_double() const {
    require_one(*this);
    return dispatch_each(dtype(), [&]<class T>() { return convert<double>(*data<T>()); });
}

int64_t Tensor::item_int() const {
    require_one(*this);
    return dispatch_each(dtype(), [&]<class T>() { return convert<int64_t>(*data<T>()); });
}

std::complex<double> Tensor::item_complex() const {
    require_one(*this);
    return dispatch_each(dtype(),
                         [&]<class T>() { return convert<std::complex<double>>(*data<T>()); });
}

void detail::store_number(char* to, DType dtype, int64_t value) {
    dispatch_each(dtype, [&]<class T>() { *reinterpret_cast<T*>(to) = convert<T>(value); });
}
void detail::store_number(char* to, DType dtype, std::complex<double> value) {
    dispatch_each(dtype, [&]<class T>() { *reinterpret_cast<T*>(to) = convert<T>(value); });
}

}  // namespace weft
