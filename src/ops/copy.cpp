#include "ops/copy.h"

#include <algorithm>
#include <cstring>

#include "base/lock.h"
#include "kernels/convert.h"
#include "kernels/copy.h"
#include "kernels/half_loops.h"
#include "ops/call.h"
#include "ops/pointwise.h"

namespace weft::ops {
namespace {

template <class To>
struct CastTo {
    template <class From>
    WEFT_INLINE To operator()(From x) const {
        return kernels::convert<To>(x);
    }
};

/// The same in a third of the code.
template <class To>
struct CompactCast : CastTo<To> {
    static constexpr int one_loop = 32;
};

template <class T>
inline constexpr bool only_stored = kernels::is_float8<T> || std::is_same_v<T, ComplexHalf>;

template <class To, class From>
kernels::MapLoop loop_between() {
    if constexpr (std::is_same_v<To, float> && std::is_same_v<From, Half>)
        return kernels::half_to_float();
    else if constexpr (std::is_same_v<To, Half> && std::is_same_v<From, float>)
        return kernels::float_to_half();
    else if constexpr (std::is_same_v<To, BFloat16> && std::is_same_v<From, float>)
        return kernels::float_to_bfloat16();
    else if constexpr (only_stored<To> || only_stored<From>)
        return kernels::map_loop<CompactCast<To>, To, From>();
    else return kernels::map_loop<CastTo<To>, To, From>();
}

/// Compiled: between any two wide dtypes, between a narrow one and its wide one, and the frequent
/// others. Null for the rest.
kernels::MapLoop direct_loop(DType to, DType from) {
    if (!is_narrow(to) && !is_narrow(from))
        return dispatch<WithComplex<AllTypes>>(to, "copy", [&]<class To>() {
            return dispatch<WithComplex<AllTypes>>(
                from, "copy", [&]<class From>() { return loop_between<To, From>(); });
        });
    auto pair = [](DType to, DType from) {
        return static_cast<int>(to) << 8 | static_cast<int>(from);
    };
    switch (pair(to, from)) {
#define WEFT_CASTS(narrow, T, wide, W)                                                             \
    case static_cast<int>(DType::narrow) << 8 | static_cast<int>(DType::wide):                     \
        return loop_between<T, W>();                                                               \
    case static_cast<int>(DType::wide) << 8 | static_cast<int>(DType::narrow):                     \
        return loop_between<W, T>();
        WEFT_CASTS(UInt8, uint8_t, Int64, int64_t)
        WEFT_CASTS(Int8, int8_t, Int64, int64_t)
        WEFT_CASTS(Int16, int16_t, Int64, int64_t)
        WEFT_CASTS(Int32, int32_t, Int64, int64_t)
        WEFT_CASTS(Float16, Half, Float32, float)
        WEFT_CASTS(BFloat16, BFloat16, Float32, float)
        WEFT_CASTS(UInt8, uint8_t, Float32, float)
        WEFT_CASTS(Int32, int32_t, Float32, float)
        WEFT_CASTS(UInt16, uint16_t, Int64, int64_t)
        WEFT_CASTS(UInt32, uint32_t, Int64, int64_t)
        WEFT_CASTS(UInt64, uint64_t, Int64, int64_t)
        WEFT_CASTS(UInt64, uint64_t, Float32, float)
        WEFT_CASTS(UInt64, uint64_t, Float64, double)
        WEFT_CASTS(Complex32, ComplexHalf, Complex64, std::complex<float>)
#define X(id, type, name, scalar, category, letter) WEFT_CASTS(id, type, Float32, float)
        WEFT_FLOAT8_DTYPES(X)
#undef X
#undef WEFT_CASTS
        default:
            return nullptr;
    }
}

/// The dtype between a narrow one and another: int64 has the bits of uint64, not its numbers.
DType dtype_between(DType narrow, DType other) {
    const bool numbers = narrow == DType::UInt64 && is_inexact(other);
    return !numbers ? widened(narrow) : is_narrow(other) ? DType::Float32 : DType::Float64;
}

/// to[i] = from[i], where there is no loop through a third dtype, a buffer at a time.
struct CastSteps {
    DType to, from;

    static void run(const void* self, char* const* p, const int64_t* s, int64_t n) {
        CastSteps cast = *static_cast<const CastSteps*>(self);
        if (kernels::MapLoop loop = direct_loop(cast.to, cast.from)) return loop(self, p, s, n);
        constexpr int64_t kElements = 256;
        DType between = is_narrow(cast.from) ? dtype_between(cast.from, cast.to)
                                             : dtype_between(cast.to, cast.from);
        CastSteps first{between, cast.from}, second{cast.to, between};
        alignas(64) char buffer[kElements * sizeof(int64_t)];
        for (int64_t i = 0; i < n; i += kElements) {
            int64_t count = std::min(kElements, n - i);
            char* in[] = {buffer, p[1] + i * s[1]};
            int64_t in_steps[] = {item_size(between), s[1]};
            run(&first, in, in_steps, count);
            char* out[] = {p[0] + i * s[0], buffer};
            int64_t out_steps[] = {s[0], item_size(between)};
            run(&second, out, out_steps, count);
        }
    }
};

}  // namespace

kernels::MapLoop cast_loop(DType to, DType from) { return direct_loop(to, from); }

namespace {

/// Elements of one dtype, whatever the layouts.
void copy_same(const Tensor& dest, const Tensor& source) {
    Dims strides(dest.ndim());
    int lead = dest.ndim() - source.ndim();
    for (int d = lead; d < dest.ndim(); ++d)
        strides[d] = source.size(d - lead) == 1 ? 0 : source.stride(d - lead);
    Unlocked unlocked(dest.numel());
    kernels::copy_strided(dest.bytes(), source.bytes(), item_size(dest.dtype()), dest.shape(),
                          dest.strides(), strides);
}

}  // namespace

void fail_copying_out(std::string_view who) {
    fail(ErrorKind::NotImplemented, who, "a tensor with values",
         "one of the meta device (Cannot copy out of meta tensor; no data!)");
}

void copy_into(const Tensor& dest, const Tensor& source) {
    if (dest.has(kMeta)) [[unlikely]]
        return;
    if (source.has(kMeta)) [[unlikely]]
        fail_copying_out("copy");
    if (dest.numel() == 0) return;
    if (source.has(kPending)) [[unlikely]]
        settle(source);
    if (dest.contiguous() && source.contiguous() && dest.dtype() == source.dtype() &&
        dest.numel() == source.numel() && !dest.may_overlap(source)) {
        if (dest.numel() * item_size(dest.dtype()) < 65536) {
            std::memcpy(dest.bytes(), source.bytes(), dest.numel() * item_size(dest.dtype()));
            return;
        }
    }
    Tensor from = source;
    if (dest.may_overlap(source)) {
        from = Tensor::empty(source.dtype(), source.shape());
        copy_into(from, source);
    }
    if (dest.dtype() == from.dtype()) return copy_same(dest, from);
    CastSteps cast{dest.dtype(), from.dtype()};
    kernels::MapLoop loop = direct_loop(cast.to, cast.from);
    run_map(loop ? loop : CastSteps::run, &cast, dest, &from, 1);
}

Tensor as_dtype(const Tensor& t, DType dtype) {
    Tensor out = is_dense(t.shape(), t.strides()) ? Tensor::layout(dtype, t.shape(), t.strides())
                                                  : Tensor::layout(dtype, t.shape());
    out.allocate_beside(t);
    copy_into(out, t);
    if (t.has(kWrapped)) out.set(kWrapped);
    return out;
}

Tensor as_contiguous(const Tensor& t, DType dtype) {
    if (t.contiguous() && t.dtype() == dtype) return t;
    Tensor out = Tensor::layout(dtype, t.shape());
    out.allocate_beside(t);
    copy_into(out, t);
    return out;
}

}  // namespace weft::ops
