/// So many values for the time of a call; few of them lie on the stack.
#pragma once
#include <cstddef>
#include <memory>

namespace weft::program {

template <class T, size_t N = 16>
class LocalArray {
public:
    explicit LocalArray(size_t size) : size_(size) {
        if (size > N) many_.reset(new T[size]());
        data_ = many_ ? many_.get() : few_;
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
    T few_[N] = {};
    std::unique_ptr<T[]> many_;
    T* data_;
    size_t size_;
};

}  // namespace weft::program
