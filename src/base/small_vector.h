/// A vector of trivially copyable values whose first N live inside the object.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <type_traits>

namespace weft {

template <class T, int N>
class SmallVector {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    SmallVector() = default;
    explicit SmallVector(int size, T value = T{}) {
        resize(size);
        std::fill(begin(), end(), value);
    }
    SmallVector(std::initializer_list<T> values) { assign(values.begin(), values.size()); }
    SmallVector(std::span<const T> values) { assign(values.data(), values.size()); }
    SmallVector(const SmallVector& other) { assign(other.data(), other.size_); }
    SmallVector(SmallVector&& other) noexcept { take(other); }
    SmallVector& operator=(const SmallVector& other) {
        if (this != &other) assign(other.data(), other.size_);
        return *this;
    }
    SmallVector& operator=(SmallVector&& other) noexcept {
        if (this != &other) {
            if (heap_) delete[] heap_;
            take(other);
        }
        return *this;
    }
    ~SmallVector() {
        if (heap_) delete[] heap_;
    }

    T* data() { return heap_ ? heap_ : inline_; }
    const T* data() const { return heap_ ? heap_ : inline_; }
    int size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T& operator[](int i) { return data()[i]; }
    const T& operator[](int i) const { return data()[i]; }
    T* begin() { return data(); }
    T* end() { return data() + size_; }
    const T* begin() const { return data(); }
    const T* end() const { return data() + size_; }
    T& back() { return data()[size_ - 1]; }
    operator std::span<const T>() const { return {data(), static_cast<size_t>(size_)}; }
    bool operator==(const SmallVector& other) const {
        return std::equal(begin(), end(), other.begin(), other.end());
    }

    void push_back(T value) {
        if (size_ == capacity_) grow(size_ + 1);
        data()[size_++] = value;
    }
    void pop_back() { --size_; }
    /// New elements are value-initialised.
    void resize(int size) {
        if (size > capacity_) grow(size);
        if (size > size_) std::fill(data() + size_, data() + size, T{});
        size_ = size;
    }
    void insert(int at, T value) {
        push_back(value);
        std::rotate(begin() + at, end() - 1, end());
    }
    void erase(int at) {
        std::copy(begin() + at + 1, end(), begin() + at);
        --size_;
    }
    void clear() { size_ = 0; }

private:
    void assign(const T* values, size_t count) {
        if (static_cast<int>(count) > capacity_) grow(static_cast<int>(count));
        if (count) std::memmove(static_cast<void*>(data()), values, count * sizeof(T));
        size_ = static_cast<int>(count);
    }
    void take(SmallVector& other) {
        heap_ = other.heap_;
        capacity_ = other.capacity_;
        size_ = other.size_;
        if (!heap_ && size_)
            std::memcpy(static_cast<void*>(inline_), other.inline_, sizeof(inline_));
        other.heap_ = nullptr;
        other.capacity_ = N;
        other.size_ = 0;
    }
    void grow(int need) {
        int capacity = std::max(need, 2 * capacity_);
        T* heap = new T[capacity]();
        if (size_) std::memcpy(static_cast<void*>(heap), data(), size_ * sizeof(T));
        if (heap_) delete[] heap_;
        heap_ = heap;
        capacity_ = capacity;
    }

    T* heap_ = nullptr;
    int size_ = 0;
    int capacity_ = N;
    T inline_[N];
};

}  // namespace weft
