/// Kernels that read and write at computed positions, on raw pointers.
///
/// Offsets and strides count elements. Positions are checked (`first_outside`) and wrapped by the
/// callers. Writes to one place happen in the order of the elements, so that the last of several
/// wins and sums have the same bits on any number of threads.
/// T is the type of any dtype (the sum of bools is "or"), if nothing else is said.
#pragma once
#include <cstdint>
#include <span>

namespace weft::kernels {

using Sizes = std::span<const int64_t>;

/// to[offset of element i under `strides`] += from[i], i in row-major order of `shape`.
template <class T>
void add_strided(T* to, Sizes shape, Sizes strides, const T* from);

/// Position of the first of `n` values outside [low, high), -1 if there is none.
int64_t first_outside(const int64_t* values, int64_t n, int64_t low, int64_t high);
/// places[i] += stride * the index at[i * step] into a dimension of `size`, negative ones counting from
/// its end. False if some index lies outside; then `places` has no meaning.
bool add_places(int64_t* places, const int64_t* at, int64_t step, int64_t n, int64_t size,
                int64_t stride);

/// Note [Blocks]
/// Advanced indexing sees a tensor as [outer, rows, inner]: an element's place is
/// outer[o] + rows[r] + inner[i], three tables of offsets, where the rows come from index tensors
/// and the other two from the dimensions that are not indexed. `inner == nullptr` means that the
/// inner elements lie behind each other. The other side is dense, [outer, rows, inner].
struct Blocks {
    const int64_t *outer, *rows, *inner;
    int64_t outer_count, row_count, inner_count;
    int64_t count() const { return outer_count * row_count * inner_count; }
};
/// to[o, r, i] = from[place]; elements of `item` bytes (1, 2, 4, 8 or 16).
void take_blocks(char* to, const char* from, const Blocks& blocks, int item);
/// to[place] = from[o, r, i].
void put_blocks(char* to, const char* from, const Blocks& blocks, int item);
/// The same of one value, which `value` shows, at every place.
void fill_blocks(char* to, const char* value, const Blocks& blocks, int item);
/// to[place] += from[o, r, i].
template <class T>
void add_blocks(T* to, const T* from, const Blocks& blocks);

/// Note [Lines]
/// gather and scatter walk a dense index tensor of `shape`, line by line along its last dimension.
/// The indexed side's place is its place under `strides` (0 along the dimension that the index
/// replaces) plus index * step; the other side's is its place under `other`.
struct Lines {
    Sizes shape;  ///< at least one dimension, no size 0
    Sizes strides;
    int64_t step;
    Sizes other;
};
/// to[other place] = from[indexed place]; elements of `item` bytes.
void gather_lines(char* to, const char* from, const int64_t* index, const Lines& lines, int item);
enum class Combine : uint8_t { Set, Add, Multiply, Max, Min };  // NaN wins in the last two
/// to[indexed place] = (to[indexed place] combined with) from[other place].
template <class T>
void scatter_lines(T* to, const T* from, const int64_t* index, const Lines& lines, Combine how);

int64_t count_nonzero(const bool* x, int64_t n);
/// Coordinates of the `count` elements that are not zero, one dimension behind the other:
/// out[d * count + k].
template <class T>
void nonzero(const T* x, Sizes shape, int64_t* out, int64_t count);

/// to = the `count` elements where `mask` of the `n` elements of `from`, in order; of `item` bytes.
void masked_take(char* to, const char* from, const bool* mask, int64_t n, int64_t count, int item);
/// to[i] = the next element of `from` where mask[i]; others stay.
void masked_put(char* to, const char* from, const bool* mask, int64_t n, int item);

/// Row i of `from` [n, width], divided by count[index[i]] if that is not null, is added to row
/// index[i] of `to`, except where index[i] == skip. T = float or double.
template <class T>
void add_rows(T* to, const T* from, const int64_t* index, int64_t n, int64_t width, int64_t skip,
              const int64_t* count);

/// Triangles of `count` matrices [rows, columns] of `item` bytes: keeps column - row <= k (lower)
/// or
/// >= k, zeros elsewhere. to == from is allowed.
void triangle(char* to, const char* from, int item, int64_t count, int64_t rows, int64_t columns,
              int64_t k, bool lower);

}  // namespace weft::kernels
