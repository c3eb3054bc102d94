/// Intrusive reference: one word, count inside the object.
///
/// Note [One lock]
/// Tensors, storages and nodes are created, referenced and dropped only by the thread that holds
/// the core lock (in Python: the GIL), so the counts are plain integers: an atomic increment costs
/// more than a small kernel's dispatch. Kernels get raw pointers and touch no count, which is why
/// the lock may be released around a long kernel (`Unlocked` in base/lock.h), and why pool threads
/// never see a Ref.
#pragma once
#include <cstdint>
#include <utility>

namespace weft {

/// T needs `uint32_t refs` starting at 0 and a function `void release(T*)` found by ADL, called
/// when the count falls to 0.
template <class T>
class Ref {
public:
    Ref() = default;
    Ref(std::nullptr_t) {}
    explicit Ref(T* object) : object_(object) {
        if (object_) ++object_->refs;
    }
    Ref(const Ref& other) : Ref(other.object_) {}
    Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    template <class U>
        requires std::is_base_of_v<T, U>
    Ref(const Ref<U>& other) : Ref(static_cast<T*>(other.get())) {}
    template <class U>
        requires std::is_base_of_v<T, U>
    Ref(Ref<U>&& other) : object_(other.detach()) {}
    ~Ref() {
        if (object_ && --object_->refs == 0) release(object_);
    }
    Ref& operator=(const Ref& other) { return *this = Ref(other); }
    Ref& operator=(Ref&& other) noexcept {
        T* incoming = other.detach();  // before the old one goes: it may be the same
        T* old = std::exchange(object_, incoming);
        if (old && --old->refs == 0) release(old);
        return *this;
    }

    T* get() const { return object_; }
    T* operator->() const { return object_; }
    T& operator*() const { return *object_; }
    explicit operator bool() const { return object_ != nullptr; }
    bool operator==(const Ref& other) const { return object_ == other.object_; }

    /// Gives up ownership without touching the count; `adopt` is the inverse.
    T* detach() { return std::exchange(object_, nullptr); }
    static Ref adopt(T* object) {
        Ref ref;
        ref.object_ = object;
        return ref;
    }

private:
    T* object_ = nullptr;
};

}  // namespace weft
