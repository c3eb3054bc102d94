/// A table that grows without moving: rows in pieces of some 64 KB, which malloc keeps for the next one.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <vector>

namespace weft::watch {

template <class T>
class Rows {
public:
    T& operator[](size_t i) { return pieces_[i / kPiece][i % kPiece]; }
    const T& operator[](size_t i) const { return pieces_[i / kPiece][i % kPiece]; }
    size_t size() const { return size_; }
    /// A new row at the end, with what its memory holds: to be set whole.
    T& add() {
        if (size_ == kPiece * pieces_.size())
            pieces_.push_back(std::make_unique_for_overwrite<T[]>(kPiece));
        return (*this)[size_++];
    }
    void push_back(const T& row) { add() = row; }
    void clear() {
        pieces_.clear();
        size_ = 0;
    }
    /// Of rows whose keys rise, the first whose `key_of(row)` is not below `key`; size() if none is.
    template <class Key, class KeyOf>
    size_t first_from(Key key, const KeyOf& key_of) const {
        size_t begin = 0, end = size_;
        while (begin < end) {
            const size_t middle = (begin + end) / 2;
            if (key_of((*this)[middle]) < key) begin = middle + 1;
            else end = middle;
        }
        return begin;
    }
    /// `take(first, count)` for each piece, in order.
    template <class Take>
    void for_pieces(const Take& take) const {
        for (size_t begin = 0; begin < size_; begin += kPiece)
            take(pieces_[begin / kPiece].get(), std::min(kPiece, size_ - begin));
    }

private:
    static constexpr size_t kPiece = std::bit_floor((size_t{64} << 10) / sizeof(T));
    std::vector<std::unique_ptr<T[]>> pieces_;
    size_t size_ = 0;
};

}  // namespace weft::watch
