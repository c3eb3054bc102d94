/// Tensor = storage + layout + one opaque slot for the layers below.
///
/// `Tensor` is a one-word handle to a counted `TensorImpl`. The layers below ops see values through
/// it; what the graph knows about a value hangs in `slot` and is none of this layer's business.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>

#include "base/pool.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tensor/storage.h"

namespace weft {

/// What a layer below attaches to a tensor. autograd derives its nodes from it, so that the result
/// of a recorded op costs one allocation there, not two.
struct Slot {
    uint32_t refs = 0;
    uint8_t kind = 0;  ///< for the owning layer
    /// Called when the last reference goes; frees the object.
    virtual void destroy() = 0;

protected:
    ~Slot() = default;
};
inline void release(Slot* slot) { slot->destroy(); }

enum TensorFlag : uint16_t {
    kContiguous = 1,  ///< row-major and dense
    kWrapped = 2,     ///< made from a Python number: yields to other operands in promotion
    kTracked = 4,     ///< a layer below wants to hear of calls with this input (Note [Tracked])
    kLooseView = 8,   ///< a view made without recording, of what is in no graph (and see detach())
    kInference = 16,  ///< made in inference mode: never part of a graph
    kOwnsWrapper = 32,  ///< the binding's object lives as long as the tensor
    kPending = 64,      ///< a result without memory yet (Note [Pending] in ops/call.h)
    kLent = 128,        ///< views of it may be pending that were taken while it was (Note [Places])
    kMeta = 256,        ///< of the meta device: its storage has no values (Note [Meta])
    kDispatching = 512,  ///< of a class that carries calls out itself (Note [Dispatch])
    kOnCpu = 1024,       ///< beside both: its device is the CPU, its values the class knows
};

struct TensorImpl {
    uint32_t refs;
    DType dtype;
    uint8_t ndim;
    uint16_t flags;
    int64_t numel;
    int64_t* dims;  ///< sizes, then strides (in elements); `inline_dims` up to 4 dimensions
    Ref<Storage> storage;
    char* data;  ///< first element
    Ref<Slot> slot;
    void* wrapper;  ///< the language binding's object for this tensor; not owned
    int64_t inline_dims[8];
    uint64_t seen;  ///< what a watcher calls its value (ops/watch.h); 0: none has seen it
};
static_assert(offsetof(TensorImpl, flags) == offsetof(TensorImpl, dtype) + 2 &&
              std::endian::native == std::endian::little);  // Tensor::marks
static_assert(sizeof(TensorImpl) <= 128, "two cache lines: the hot fields, then the dims");

namespace detail {

/// The general case of new_impl: more than four dimensions.
TensorImpl* new_large_impl(DType dtype, int ndim);

inline TensorImpl* new_impl(DType dtype, int ndim) {
    if (ndim > 4) [[unlikely]]
        return new_large_impl(dtype, ndim);
    auto* impl = static_cast<TensorImpl*>(Pool::allocate(sizeof(TensorImpl)));
    impl->refs = 0;
    impl->dtype = dtype;
    impl->ndim = static_cast<uint8_t>(ndim);
    impl->flags = 0;
    impl->numel = 0;
    impl->dims = impl->inline_dims;
    new (&impl->storage) Ref<Storage>;
    impl->data = nullptr;
    new (&impl->slot) Ref<Slot>;
    impl->wrapper = nullptr;
    impl->seen = 0;
    return impl;
}

}  // namespace detail

class Tensor;
/// The binding's alias of a tensor that is kDispatching.
inline Tensor (*alias_in_class)(const Tensor&) = nullptr;

/// Tells the binding that the last reference went although `wrapper` is set (it then owns nothing).
inline void (*release_wrapper)(TensorImpl*) = nullptr;

inline void release(TensorImpl* impl) {
    if (impl->wrapper) [[unlikely]]
        return release_wrapper(impl);
    impl->slot = nullptr;
    impl->storage = nullptr;
    if (impl->dims != impl->inline_dims) [[unlikely]]
        Pool::free(impl->dims, 2 * sizeof(int64_t) * impl->ndim);
    Pool::free(impl, sizeof(TensorImpl));
}

class Tensor {
public:
    Tensor() = default;
    explicit Tensor(TensorImpl* impl) : impl_(impl) {}

    /// A tensor without memory yet: `allocate` gives it some, `share` makes it a view.
    static Tensor layout(DType dtype, DimSpan shape);
    static Tensor layout(DType dtype, DimSpan shape, DimSpan strides);
    /// Same sizes and strides as `other` (dense), of `dtype`.
    static Tensor layout_like(const Tensor& other, DType dtype);
    static Tensor empty(DType dtype, DimSpan shape);
    /// A 0-d tensor.
    template <class T>
    static Tensor scalar(T value, DType dtype, bool wrapped = false);
    static Tensor from_storage(Ref<Storage> storage, char* data, DType dtype, DimSpan shape,
                               DimSpan strides);

    bool defined() const { return static_cast<bool>(impl_); }
    explicit operator bool() const { return defined(); }
    TensorImpl* impl() const { return impl_.get(); }
    TensorImpl* detach_impl() { return impl_.detach(); }

    DType dtype() const { return impl_->dtype; }
    int ndim() const { return impl_->ndim; }
    int64_t numel() const { return impl_->numel; }
    DimSpan shape() const { return {impl_->dims, impl_->ndim}; }
    DimSpan strides() const { return {impl_->dims + impl_->ndim, impl_->ndim}; }
    int64_t size(int d) const { return impl_->dims[d]; }
    int64_t stride(int d) const { return impl_->dims[impl_->ndim + d]; }
    bool contiguous() const { return impl_->flags & kContiguous; }
    bool has(TensorFlag flag) const { return impl_->flags & flag; }
    /// Whether its device is meta.
    bool on_meta() const { return (impl_->flags & (kMeta | kOnCpu)) == kMeta; }
    void set(TensorFlag flag, bool on = true) const {
        impl_->flags = static_cast<uint16_t>(on ? impl_->flags | flag : impl_->flags & ~flag);
    }
    /// The dtype's number, then the flags from bit kFlagsAt on: what the door asks of every operand.
    uint32_t marks() const {
        uint32_t word;
        std::memcpy(&word, &impl_->dtype, sizeof(word));
        return word;
    }
    static constexpr int kFlagsAt = 16;
    bool same(const Tensor& other) const { return impl_ == other.impl_; }

    char* bytes() const { return impl_->data; }
    template <class T>
    T* data() const {
        return reinterpret_cast<T*>(impl_->data);
    }
    const Ref<Storage>& storage() const { return impl_->storage; }
    /// Elements between the storage's start and the first element.
    int64_t offset() const { return (impl_->data - impl_->storage->data) / item_size(dtype()); }
    uint32_t version() const { return impl_->storage->version(); }

    /// Bytes of all elements, each counted once. A view that repeats elements may have so many that
    /// they fit no memory: throws Runtime from 2**63 bytes on.
    int64_t byte_count() const;
    /// Gives a tensor made by `layout` its own memory.
    void allocate() const;
    /// The same of the meta device: no memory (Note [Meta]).
    void allocate_meta() const;
    /// The same on the device of `other`.
    void allocate_beside(const Tensor& other) const {
        if (other.has(kMeta)) [[unlikely]]
            allocate_meta();
        else allocate();
    }
    /// Makes a tensor made by `layout` a view of `base`, starting `offset` elements after it.
    void share(const Tensor& base, int64_t offset) const;
    /// Points a tensor that only its maker has, which reuses it, at other memory, or at none.
    void lie_in(Ref<Storage> storage, char* data) const {
        impl_->storage = std::move(storage);
        impl_->data = data;
    }
    /// The same values under another layout; no slot, flags of a fresh view.
    Tensor view_as(DimSpan shape, DimSpan strides, int64_t offset = 0) const;
    /// A second tensor over the same memory and layout, without a slot; of a class that carries calls
    /// out itself, one of that class.
    Tensor alias() const;
    /// The same, never of a class.
    Tensor plain_alias() const;
    /// Memory, layout and slot of `other`, which this pending tensor stood for.
    void settle(const Tensor& other) const;
    /// The same bytes, as old, under another storage, with a version of its own (`.data`).
    Tensor apart() const;
    /// Whether the two may touch the same bytes.
    bool may_overlap(const Tensor& other) const;

    /// The single element as a number. Throws as PyTorch's item() for other sizes.
    double item_double() const;
    int64_t item_int() const;
    std::complex<double> item_complex() const;

private:
    friend class ops::Write;  // Note [Writing] in ops/write.h
    /// Takes over memory, layout and dtype of `other`; slot and wrapper stay.
    void become(const Tensor& other) const;
    /// Of `shape`, row-major: in its own memory if that suffices, else in new memory that starts
    /// with the old elements.
    Tensor resized(DimSpan shape) const;

    Ref<TensorImpl> impl_;
};
static_assert(sizeof(Tensor) == sizeof(void*));

inline Tensor Tensor::layout_like(const Tensor& other, DType dtype) {
    const TensorImpl* from = other.impl();
    TensorImpl* impl = detail::new_impl(dtype, from->ndim);
    for (int d = 0; d < 2 * from->ndim; ++d) impl->dims[d] = from->dims[d];
    impl->numel = from->numel;
    impl->flags = from->flags & kContiguous;
    return Tensor(impl);
}

namespace detail {

/// Throws Runtime: the elements of `t` need 2**63 bytes or more.
[[noreturn]] void refuse_bytes(const Tensor& t);

}  // namespace detail

inline int64_t Tensor::byte_count() const {
    int64_t bytes;
    if (__builtin_mul_overflow(impl_->numel, item_size(impl_->dtype), &bytes)) [[unlikely]]
        detail::refuse_bytes(*this);
    return bytes;
}

inline void Tensor::allocate() const {
    impl_->storage = allocate_storage(byte_count());
    impl_->data = impl_->storage->data;
}

namespace detail {

/// *to = value, of a dtype that is narrow or complex.
void store_number(char* to, DType dtype, int64_t value);
void store_number(char* to, DType dtype, std::complex<double> value);

}  // namespace detail

template <class T>
Tensor Tensor::scalar(T value, DType dtype, bool wrapped) {
    Tensor out = empty(dtype, {});
    if constexpr (std::is_same_v<T, std::complex<double>>) {
        detail::store_number(out.bytes(), dtype, value);
    } else {
        switch (dtype) {
            case DType::Bool:
                *out.data<bool>() = static_cast<bool>(value);
                break;
            case DType::Int64:
                *out.data<int64_t>() = static_cast<int64_t>(value);
                break;
            case DType::Float32:
                *out.data<float>() = static_cast<float>(value);
                break;
            case DType::Float64:
                *out.data<double>() = static_cast<double>(value);
                break;
            default:
                if constexpr (std::is_integral_v<T>)
                    detail::store_number(out.bytes(), dtype, static_cast<int64_t>(value));
                else detail::store_number(out.bytes(), dtype, std::complex<double>(value));
        }
    }
    if (wrapped) out.set(kWrapped);
    return out;
}

}  // namespace weft
