/// So many values for the time of a call; few of them lie on the stack.
#pragma once
#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>

namespace weft::program {

template <class T, size_t N = 16>
class LocalArray {
public:
    explicit LocalArray(size_t size)
        : data_(size > N ? std::allocator<T>().allocate(size) : reinterpret_cast<T*>(few_)),
          size_(size) {
        for (size_t i = 0; i < size; ++i) {
            ::new (data_ + i) T();
            asm volatile("");  // few stores: keeps them from becoming a call of memset
        }
    }
    ~LocalArray() {
        std::destroy_n(data_, size_);
        if (size_ > N) std::allocator<T>().deallocate(data_, size_);
    }
    LocalArray(const LocalArray&) = delete;

    T* data() { return data_; }
    const T* data() const { return data_; }
    size_t size() const { return size_; }
    T& operator[](size_t i) { return data_[i]; }
    const T& operator[](size_t i) const { return data_[i]; }
    T* begin() { return data_; }
    T* end() { return data_ + size_; }

private:
    alignas(T) std::byte few_[N * sizeof(T)];
    T* const data_;
    const size_t size_;
};

/// Whether no two of the addresses are one; many are sorted.
template <class T>
bool all_differ(T** begin, T** end) {
    constexpr std::ptrdiff_t kFew = 8;
    if (end - begin <= kFew) {
        for (T** a = begin; a != end; ++a)
            for (T** b = begin; b != a; ++b)
                if (*a == *b) return false;
        return true;
    }
    std::sort(begin, end, std::less<>());
    return std::adjacent_find(begin, end) == end;
}

}  // namespace weft::program
