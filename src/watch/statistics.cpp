#include "watch/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/simd.h"
#include "ops/copy.h"

namespace weft::watch {
namespace {

/// Where element `i`, counted row by row, lies from the first one.
int64_t place_of(const Tensor& t, int64_t i) {
    int64_t at = 0;
    for (int d = t.ndim() - 1; d >= 0; --d) {
        at += i % t.size(d) * t.stride(d);
        i /= t.size(d);
    }
    return at;
}

/// Sums of the finite ones less `shift`, one of them: numbers far from zero that lie close together
/// keep their spread.
struct Sums {
    double shift = 0, sum = 0, squares = 0, least = INFINITY, most = -INFINITY;
    int64_t count = 0, nans = 0, infs = 0;
};

struct AddTo {
    WEFT_INLINE static void run(Sums* sums, const double* values, int64_t n) {
        Sums now = *sums;
        for (int64_t i = 0; now.count == 0 && i < n; ++i)
            if (std::isfinite(values[i])) {
                now.shift = values[i];
                break;
            }
        for (int64_t i = 0; i < n; ++i) {
            const double x = values[i], difference = x - x;
            const bool is_nan = x != x, is_finite = difference == 0;
            const double kept = is_finite ? x - now.shift : 0;
            now.nans += is_nan;
            now.infs += !is_nan & !is_finite;
            now.sum += kept;
            now.squares += kept * kept;
            now.least = std::min(now.least, is_finite ? x : INFINITY);
            now.most = std::max(now.most, is_finite ? x : -INFINITY);
        }
        now.count += n;
        *sums = now;
    }
};

/// A line of the cache: elements that lie together are looked at together.
constexpr int64_t kRun = 16;

template <class T>
Sums sums_of(const Tensor& t, int64_t sample) {
    const int64_t n = t.numel(), runs = (sample + kRun - 1) / kRun;
    int64_t step = std::max(kRun, (n + runs - 1) / runs);
    if (step > kRun)
        while (std::gcd(step, n) != 1) ++step;  // no column alone
    const T* data = t.data<T>();
    const bool contiguous = t.contiguous();
    Sums sums;
    double values[64 * kRun];
    int64_t filled = 0;
    auto add = [&] { kernels::per_isa<AddTo>(&sums, static_cast<const double*>(values), filled); };
    for (int64_t begin = 0; begin < n; begin += step) {
        for (int64_t i = begin; i < std::min(n, begin + kRun); ++i) {
            const T x = data[contiguous ? i : place_of(t, i)];
            if constexpr (sizeof(T) == 2) values[filled++] = static_cast<float>(x);
            else values[filled++] = x;
        }
        if (filled + kRun <= std::ssize(values)) continue;
        add();
        filled = 0;
    }
    add();
    return sums;
}

/// The largest of the elements' bits without the sign: those of an infinity, or beyond: a nan's.
template <class Bits>
struct Largest {
    WEFT_INLINE static void run(const void* data, int64_t n, Bits* out) {
        const auto* bits = static_cast<const Bits*>(data);
        constexpr auto kSign = static_cast<Bits>(std::numeric_limits<Bits>::max());
        Bits most = 0;
        for (int64_t i = 0; i < n; ++i) {
            const auto now = static_cast<Bits>(bits[i] & kSign);
            most = now > most ? now : most;
        }
        *out = most;
    }
};

template <class Bits>
Extremes extremes_among(const Tensor& dense, int64_t n, Bits infinity) {
    // In pieces, for what an infinity among them hides.
    constexpr int64_t kPiece = 1 << 14;
    Extremes out;
    const auto* data = reinterpret_cast<const Bits*>(dense.bytes());
    for (int64_t i = 0; i < n; i += kPiece) {
        Bits most = 0;
        kernels::per_isa<Largest<Bits>>(static_cast<const void*>(data + i), std::min(kPiece, n - i),
                                        &most);
        out.nan |= most > infinity;
        if (most < infinity || out.inf) continue;
        for (int64_t k = i; k < std::min(n, i + kPiece); ++k)
            out.inf |= static_cast<Bits>(data[k] & std::numeric_limits<Bits>::max()) == infinity;
    }
    return out;
}

}  // namespace

Extremes extremes_of(const Tensor& t) {
    if (!is_inexact(t.dtype()) || t.numel() == 0) return {};
    const DType real = real_dtype(t.dtype());
    const int64_t n = t.numel() * (item_size(t.dtype()) / item_size(real));
    const Tensor dense = ops::as_contiguous(t);
    switch (real) {
        case DType::Float32:
            return extremes_among<int32_t>(dense, n, 0x7f800000);
        case DType::Float64:
            return extremes_among<int64_t>(dense, n, 0x7ff0000000000000);
        case DType::Float16:
            return extremes_among<int16_t>(dense, n, 0x7c00);
        default:
            return extremes_among<int16_t>(dense, n, 0x7f80);
    }
}

namespace {

template <class T>
double squares_of(const Tensor& dense, int64_t n) {
    const auto* data = reinterpret_cast<const T*>(dense.bytes());
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
        const auto x =
            static_cast<double>(static_cast<std::conditional_t<sizeof(T) == 2, float, T>>(data[i]));
        sum += x * x;
    }
    return sum;
}

}  // namespace

double norm_of(const Tensor& t) {
    if (!is_inexact(t.dtype())) return 0;
    const DType real = real_dtype(t.dtype());
    const int64_t n = t.numel() * (item_size(t.dtype()) / item_size(real));
    const Tensor dense = ops::as_contiguous(t);
    switch (real) {
        case DType::Float32:
            return std::sqrt(squares_of<float>(dense, n));
        case DType::Float64:
            return std::sqrt(squares_of<double>(dense, n));
        case DType::Float16:
            return std::sqrt(squares_of<Half>(dense, n));
        case DType::BFloat16:
            return std::sqrt(squares_of<BFloat16>(dense, n));
        default:
            return std::sqrt(squares_of<float>(ops::as_contiguous(t, DType::Float32), n));
    }
}

Statistics statistics_of(const Tensor& t, int32_t value, int64_t sample) {
    Statistics out{.value = value};
    Sums sums;
    switch (t.dtype()) {
        case DType::Float32:
            sums = sums_of<float>(t, sample);
            break;
        case DType::Float64:
            sums = sums_of<double>(t, sample);
            break;
        case DType::Float16:
            sums = sums_of<Half>(t, sample);
            break;
        case DType::BFloat16:
            sums = sums_of<BFloat16>(t, sample);
            break;
        default:
            return out;
    }
    out.counted = static_cast<uint32_t>(sums.count);
    out.nans = static_cast<uint32_t>(sums.nans);
    out.infs = static_cast<uint32_t>(sums.infs);
    out.mean = out.std = out.least = out.most = NAN;
    const int64_t finite = sums.count - sums.nans - sums.infs;
    if (finite == 0) return out;
    const auto count = static_cast<double>(finite);
    const double offset = sums.sum / count;
    out.mean = sums.shift + offset;
    out.std = std::sqrt(std::max(0.0, sums.squares / count - offset * offset));
    out.least = sums.least;
    out.most = sums.most;
    return out;
}

}  // namespace weft::watch
