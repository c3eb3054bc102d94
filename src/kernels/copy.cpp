/// Reading guide: Plane is the innermost two dimensions, in one of four forms; copy_strided cuts
/// everything into runs of their rows and walks those on the pool.
#include "kernels/copy.h"

#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "kernels/strided.h"
#include "kernels/vector.h"

namespace weft::kernels {
namespace {

/// Bytes per parallel piece, about.
constexpr int64_t kGrainBytes = 131072;

/// `rows` rows of `n` elements; strides in elements.
struct Plane {
    int64_t n, rows;
    int64_t to_step, to_row, from_step, from_row;
};

/// An element of complex128.
struct Bits128 {
    uint64_t low, high;
};

// ---- dense rows
// -----------------------------------------------------------------------------------

/// A short row without a call: chunks of 16 bytes, the last one overlapping.
WEFT_INLINE void copy_short(char* to, const char* from, int64_t bytes) {
    if (bytes >= 16) {
        for (int64_t k = 0; k + 16 <= bytes; k += 16) std::memcpy(to + k, from + k, 16);
        std::memcpy(to + bytes - 16, from + bytes - 16, 16);
    } else if (bytes >= 8) {
        std::memcpy(to, from, 8);
        std::memcpy(to + bytes - 8, from + bytes - 8, 8);
    } else if (bytes >= 4) {
        std::memcpy(to, from, 4);
        std::memcpy(to + bytes - 4, from + bytes - 4, 4);
    } else {
        for (int64_t k = 0; k < bytes; ++k) to[k] = from[k];
    }
}

/// Rows of at least a vector that lie unlike in their cache lines. glibc copies a few KB by
/// `rep movsb`, which takes AMD's processors five times as long there.
struct UnlikeRows {
    template <int Bytes>
    struct Body {
        WEFT_INLINE static void run(char* to, const char* from, int64_t bytes, int64_t rows,
                                    int64_t to_row, int64_t from_row) {
            for (int64_t r = 0; r < rows; ++r, to += to_row, from += from_row) {
                for (int64_t k = 0; k + Bytes <= bytes; k += Bytes) {
                    vec::store<char, Bytes>(to + k, vec::load<char, Bytes>(from + k));
                    vec::opaque(k);  // or the loop becomes a call of memcpy
                }
                vec::store<char, Bytes>(to + bytes - Bytes,
                                        vec::load<char, Bytes>(from + bytes - Bytes));
            }
        }
    };
};

void copy_rows(char* to, const char* from, const Plane& p, int item) {
    constexpr int64_t kShort = 256;
    int64_t bytes = p.n * item, to_row = p.to_row * item, from_row = p.from_row * item;
    const auto apart = reinterpret_cast<intptr_t>(to) - reinterpret_cast<intptr_t>(from);
    const bool unlike = (apart | (p.rows > 1 ? to_row - from_row : 0)) & 63;
    if (bytes <= kShort)
        for (int64_t r = 0; r < p.rows; ++r)
            copy_short(to + r * to_row, from + r * from_row, bytes);
    else if (unlike) vec::per_width<UnlikeRows::Body>(to, from, bytes, p.rows, to_row, from_row);
    else
        for (int64_t r = 0; r < p.rows; ++r)
            std::memcpy(to + r * to_row, from + r * from_row, static_cast<size_t>(bytes));
}

// ---- any steps
// ------------------------------------------------------------------------------------

template <class U>
struct CopySteps {
    WEFT_INLINE static void run(U* __restrict to, const U* __restrict from, const Plane* plane) {
        const Plane p = *plane;
        for (int64_t r = 0; r < p.rows; ++r, to += p.to_row, from += p.from_row) {
            if (p.to_step == 1 && p.from_step == 0 && p.n >= 8) {
                const U value = *from;
                for (int64_t i = 0; i < p.n; ++i) to[i] = value;
            } else if (p.to_step == 1 && p.from_step == -1 && p.n >= 8) {
                for (int64_t i = 0; i < p.n; ++i) to[i] = from[-i];
            } else {
                for (int64_t i = 0; i < p.n; ++i) to[i * p.to_step] = from[i * p.from_step];
            }
        }
    }
};

// ---- transposes
// -----------------------------------------------------------------------------------

/// One step of a square transpose in registers: in blocks of 2 * Step lanes, `a` keeps its lower
/// half and gets b's lower half above it, `b` keeps its upper half and gets a's upper half below.
template <int Lanes, int Step, class V, size_t... I>
WEFT_INLINE void exchange(V& a, V& b, std::index_sequence<I...>) {
    const V lower = __builtin_shufflevector(
        a, b,
        ((I % (2 * Step)) < Step ? static_cast<int>(I) : static_cast<int>(I) - Step + Lanes)...);
    b = __builtin_shufflevector(
        a, b,
        ((I % (2 * Step)) < Step ? static_cast<int>(I) + Step : static_cast<int>(I) + Lanes)...);
    a = lower;
}

template <int Lanes, int Step, class V>
WEFT_INLINE void transpose_lanes(V* v) {
    if constexpr (Step >= 1) {
        for (int i = 0; i < Lanes; ++i)
            if (!(i & Step))
                exchange<Lanes, Step>(v[i], v[i + Step], std::make_index_sequence<Lanes>{});
        transpose_lanes<Lanes, Step / 2>(v);
    }
}

/// from_row == 1 and to_step == 1: columns become rows, in squares that fill a vector, taken in
/// squares that fill cache lines.
template <class U>
struct Transpose {
    template <int Bytes>
    struct Body {
        static constexpr int kLanes = std::min<int>(Bytes / static_cast<int>(sizeof(U)), 8);
        using S = vec::Simd<U, kLanes* static_cast<int>(sizeof(U))>;
        static constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(U));
        static constexpr int kVector = kLanes * static_cast<int>(sizeof(U));

        WEFT_INLINE static void square(U* to, const U* from, const Plane& p) {
            typename S::Vector v[kLanes];
#pragma GCC unroll 8
            for (int k = 0; k < kLanes; ++k) v[k] = vec::load<U, kVector>(from + k * p.from_step);
            transpose_lanes<kLanes, kLanes / 2>(v);
#pragma GCC unroll 8
            for (int k = 0; k < kLanes; ++k) vec::store<U, kVector>(to + k * p.to_row, v[k]);
        }
        WEFT_INLINE static void edge(U* to, const U* from, const Plane& p, int64_t n,
                                     int64_t rows) {
            for (int64_t r = 0; r < rows; ++r)
                for (int64_t i = 0; i < n; ++i) to[r * p.to_row + i] = from[i * p.from_step + r];
        }
        WEFT_INLINE static void run(U* to, const U* from, const Plane* plane) {
            const Plane p = *plane;
            constexpr int64_t kStrip = 64;  // rows of `from` whose pages stay at hand
            for (int64_t i = 0; i < p.n; i += kStrip)
                for (int64_t r = 0; r < p.rows; r += kLine)
                    strip(to + r * p.to_row + i, from + i * p.from_step + r, p,
                          std::min(kStrip, p.n - i), std::min(kLine, p.rows - r));
        }
        WEFT_INLINE static void strip(U* to, const U* from, const Plane& p, int64_t n,
                                      int64_t rows) {
            for (int64_t i = 0; i < n; i += kLine) {
                U* target = to + i;
                const U* source = from + i * p.from_step;
                if (rows < kLine || n - i < kLine) {
                    edge(target, source, p, std::min(kLine, n - i), rows);
                    continue;
                }
                for (int64_t y = 0; y < kLine; y += kLanes)
                    for (int64_t x = 0; x < kLine; x += kLanes)
                        square(target + y * p.to_row + x, source + x * p.from_step + y, p);
            }
        }
    };
};

template <class U>
void copy_plane(char* to, const char* from, const Plane& p) {
    auto* target = reinterpret_cast<U*>(to);
    auto* source = reinterpret_cast<const U*>(from);
    if constexpr (sizeof(U) >= 2 && sizeof(U) <= 8) {
        const bool repeats = p.from_step == 0 && p.n >= 8;  // CopySteps fills those rows
        if (p.to_step == 1 && p.from_row == 1 && !repeats && p.n > 1 && p.rows > 1)
            return vec::per_width<Transpose<U>::template Body, U*, const U*, const Plane*>(
                target, source, &p);
    }
    per_isa<CopySteps<U>, U*, const U*, const Plane*>(target, source, &p);
}

void copy_any_plane(char* to, const char* from, const Plane& p, int item) {
    if (p.to_step == 1 && p.from_step == 1) return copy_rows(to, from, p, item);
    if (item == 1) return copy_plane<uint8_t>(to, from, p);
    if (item == 2) return copy_plane<uint16_t>(to, from, p);
    if (item == 4) return copy_plane<uint32_t>(to, from, p);
    if (item == 8) return copy_plane<uint64_t>(to, from, p);
    copy_plane<Bits128>(to, from, p);
}

/// The plane that the first two dimensions of `plan` span; there may be fewer, of two operands.
Plane first_plane(StridedPlan<2>& plan, int item) {
    for (int d = plan.ndim; d < 2; ++d) {
        plan.sizes[d] = 1;
        plan.strides[d][0] = plan.strides[d][1] = item;
    }
    // The dimension along which `from` lies densely goes with the one along which `to` does.
    if (plan.strides[0][1] != item)
        for (int d = 2; d < plan.ndim; ++d)
            if (plan.strides[d][1] == item) {
                std::swap(plan.sizes[1], plan.sizes[d]);
                std::swap(plan.strides[1], plan.strides[d]);
            }
    return {plan.sizes[0],
            plan.sizes[1],
            plan.strides[0][0] / item,
            plan.strides[1][0] / item,
            plan.strides[0][1] / item,
            plan.strides[1][1] / item};
}

/// In pieces of `cut` rows of one plane; planes are counted through the outer dimensions.
void copy_planes(char* to, const char* from, const StridedPlan<2>& plan, const Plane& plane,
                 int item) {
    int64_t row_bytes = plane.n * item;
    int64_t cut = std::clamp<int64_t>(kGrainBytes / row_bytes / 16 * 16, 16,
                                      std::max<int64_t>(plane.rows, 16));
    int64_t cuts = (plane.rows + cut - 1) / cut, planes = plan.count / (plane.n * plane.rows);
    int64_t grain = std::max<int64_t>(1, kGrainBytes / (row_bytes * std::min(cut, plane.rows)));
    parallel_for(planes * cuts, grain, [&](int64_t begin, int64_t end) {
        for (int64_t q = begin; q < end; ++q) {
            int64_t first = q % cuts * cut, rest = q / cuts;
            char* t = to + first * plan.strides[1][0];
            const char* f = from + first * plan.strides[1][1];
            for (int d = 2; d < plan.ndim; ++d) {
                t += rest % plan.sizes[d] * plan.strides[d][0];
                f += rest % plan.sizes[d] * plan.strides[d][1];
                rest /= plan.sizes[d];
            }
            Plane part = plane;
            part.rows = std::min(cut, plane.rows - first);
            copy_any_plane(t, f, part, item);
        }
    });
}

}  // namespace

void copy_strided(char* to, const char* from, int item, std::span<const int64_t> shape,
                  std::span<const int64_t> to_strides, std::span<const int64_t> from_strides) {
    StridedPlan<2> plan(shape, [&](int k, int d) {
        return (k == 0 ? to_strides : from_strides)[static_cast<size_t>(d)] * item;
    });
    if (plan.count == 0) return;
    const Plane plane = first_plane(plan, item);
    if (plan.count == plane.n * plane.rows && plan.count * item <= kGrainBytes)
        return copy_any_plane(to, from, plane, item);
    if (plan.ndim > 1) return copy_planes(to, from, plan, plane, item);
    parallel_for(plane.n, kGrainBytes / item, [&](int64_t begin, int64_t end) {
        Plane part = plane;
        part.n = end - begin;
        copy_any_plane(to + begin * plan.strides[0][0], from + begin * plan.strides[0][1], part,
                       item);
    });
}

namespace {

/// `rows` rows of one part of concatenate, `to_row` bytes apart.
void concatenate_part(char* to, const Part& part, int64_t first, int64_t rows, int64_t to_row,
                      int item) {
    if (part.bytes == 0) return;
    if (!part.from) {
        for (int64_t r = 0; r < rows; ++r)
            std::memset(to + r * to_row, 0, static_cast<size_t>(part.bytes));
        return;
    }
    const char* from = part.from + first * part.bytes;
    if (part.bytes == item) {  // single elements, a step apart
        copy_any_plane(to, from, {rows, 1, to_row / item, 0, 1, 0}, item);
    } else {
        copy_rows(to, from, {part.bytes, rows, 1, to_row, 1, part.bytes}, 1);
    }
}

}  // namespace

/// In blocks of rows, so that the pages of `to` are written once, not once for each part.
void concatenate(char* to, std::span<const Part> parts, int64_t outer, int item) {
    constexpr int64_t kRows = 32, kBlockBytes = 16384;
    int64_t row = 0;
    for (const Part& part : parts) row += part.bytes;
    if (row == 0) return;
    const int64_t rows = std::max(kRows, kBlockBytes / row);
    auto copy = [&](int64_t first, int64_t last) {
        char* target = to + first * row;
        for (const Part& part : parts) {
            concatenate_part(target, part, first, last - first, row, item);
            target += part.bytes;
        }
    };
    if (outer * row <= kGrainBytes && outer <= rows) return copy(0, outer);
    int64_t grain = std::max<int64_t>(1, kGrainBytes / row / rows);
    parallel_for((outer + rows - 1) / rows, grain, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) copy(b * rows, std::min(outer, (b + 1) * rows));
    });
}

}  // namespace weft::kernels
