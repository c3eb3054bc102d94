#include "kernels/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "kernels/random_fill.h"
#include "kernels/simd.h"

namespace weft::kernels {
namespace {

// ---- the engine --------------------------------------------------------------------------------

WEFT_INLINE uint32_t twist(uint32_t high, uint32_t low) {
    return (((high & 0x80000000u) | (low & 0x7fffffffu)) >> 1) ^ (-(low & 1u) & 0x9908b0dfu);
}

/// The next 624 words. The second loop reads words that are 227 behind, more than any vector holds.
struct Refill {
    WEFT_INLINE static void run(uint32_t* words) {
        for (int i = 0; i < 227; ++i) words[i] = words[i + 397] ^ twist(words[i], words[i + 1]);
        for (int i = 227; i < 623; ++i) words[i] = words[i - 227] ^ twist(words[i], words[i + 1]);
        words[623] = words[396] ^ twist(words[623], words[0]);
    }
};

struct Temper {
    static constexpr int words = 1;
    WEFT_INLINE uint32_t operator()(uint32_t y) const { return mt19937_temper(y); }
};

// ---- integers ----------------------------------------------------------------------------------

/// base + word % (mask + 1).
template <class T>
struct InPowerOfTwo {
    static constexpr int words = 1;
    uint32_t mask;
    int64_t base;
    WEFT_INLINE T operator()(uint32_t word) const { return static_cast<T>(base + (word & mask)); }
};

/// base + word % range for 3 <= range < 2^28. No vector unit divides integers: the quotient is
/// guessed in double, where every intermediate is exact, and is off by one at most.
template <class T>
struct InSmallRange {
    static constexpr int words = 1;
    double range, inverse;
    int64_t base;
    WEFT_INLINE T operator()(uint32_t word) const {
        const double value = std::bit_cast<double>(0x4330000000000000u | word) - 0x1p52;
        const double quotient = static_cast<double>(static_cast<int32_t>(value * inverse));
        double rest = value - quotient * range;
        rest = rest < 0 ? rest + range : rest;
        rest = rest >= range ? rest - range : rest;
        return static_cast<T>(base + static_cast<int32_t>(rest));
    }
};

template <class T>
struct InLargeRange {
    static constexpr int words = 2;
    uint64_t range;
    int64_t base;
    WEFT_INLINE T operator()(uint32_t high, uint32_t low) const {
        const uint64_t rest = (uint64_t{high} << 32 | low) % range;
        return static_cast<T>(static_cast<int64_t>(rest + static_cast<uint64_t>(base)));
    }
};

/// The low bits that T can hold; for floats the rest of a division by 2^digits + 1.
template <class T>
struct LowBits {
    static constexpr int words = words_of<T>;
    WEFT_INLINE T operator()(uint32_t word) const {
        if constexpr (std::is_same_v<T, bool>) return word & 1;
        else if constexpr (std::is_floating_point_v<T>)
            return static_cast<T>(static_cast<int32_t>(word % ((1u << 24) + 1)));
        else return static_cast<T>(word & static_cast<uint32_t>(std::numeric_limits<T>::max()));
    }
    WEFT_INLINE T operator()(uint32_t high, uint32_t low) const {
        const uint64_t word = uint64_t{high} << 32 | low;
        if constexpr (std::is_floating_point_v<T>)
            return static_cast<T>(static_cast<int64_t>(word % ((uint64_t{1} << 53) + 1)));
        else return static_cast<T>(word & static_cast<uint64_t>(std::numeric_limits<T>::max()));
    }
};

template <class T>
struct AllBits {
    static constexpr int words = 2;
    WEFT_INLINE T operator()(uint32_t high, uint32_t low) const {
        return static_cast<T>(static_cast<int64_t>(uint64_t{high} << 32 | low));
    }
};

// ---- events ------------------------------------------------------------------------------------

/// unit_double < p, in integers: `threshold` is p * 2^53 rounded up.
template <class T>
struct Bernoulli {
    static constexpr int words = 2;
    int64_t threshold;
    T one;
    WEFT_INLINE T operator()(uint32_t high, uint32_t low) const {
        const int64_t unit = static_cast<int64_t>(high & 0x1fffffu) << 32 | low;
        return unit < threshold ? one : T(0);
    }
};

/// weights / exponential, largest first. Equal keys (zero weights) keep the order of their indices.
template <class T>
void order_by_keys(int64_t* out, const T* weights, int64_t categories, int64_t samples,
                   std::vector<T>& keys, std::vector<int64_t>& order) {
    for (int64_t j = 0; j < categories; ++j) keys[j] = weights[j] / keys[j];
    std::iota(order.begin(), order.end(), int64_t{0});
    std::partial_sort(
        order.begin(), order.begin() + samples, order.end(),
        [&](int64_t a, int64_t b) { return keys[a] > keys[b] || (keys[a] == keys[b] && a < b); });
    std::copy_n(order.begin(), samples, out);
}

}  // namespace

// ---- Generator ---------------------------------------------------------------------------------

void Generator::manual_seed(uint64_t seed) {
    seed_ = seed;
    words_[0] = static_cast<uint32_t>(seed);
    for (uint32_t i = 1; i < length; ++i)
        words_[i] = 1812433253u * (words_[i - 1] ^ words_[i - 1] >> 30) + i;
    next_ = length;
    fresh_ = true;
    next_double_normal.reset();
    next_float_normal.reset();
}

void Generator::refill() {
    per_isa<Refill, uint32_t*>(words_.data());
    next_ = 0;
    fresh_ = false;
}

void Generator::fill(uint32_t* out, int64_t n) {
    while (n > 0) {
        if (next_ == length) refill();
        const int64_t count = std::min<int64_t>(n, length - next_);
        per_isa<RandomConvert, const uint32_t*, uint32_t*, int64_t, Temper>(words_.data() + next_,
                                                                            out, count, Temper{});
        next_ += static_cast<uint32_t>(count);
        out += count;
        n -= count;
    }
}

namespace {

/// torch.get_rng_state(): the struct of 2017 with 64-bit words, then the float cache.
struct StateBytes {
    uint64_t seed;
    int32_t left;  // words until the next refill, plus one
    int32_t seeded;
    uint64_t next;
    uint64_t words[624];
    double unused_x, normal, unused_rho;
    int32_t has_normal;
    int32_t padding;
    float float_normal;
    uint8_t has_float_normal;
    uint8_t float_padding[3];
};
static_assert(sizeof(StateBytes) == Generator::state_bytes);

}  // namespace

std::array<std::byte, Generator::state_bytes> Generator::state() const {
    StateBytes s{};
    s.seed = seed_;
    s.left = fresh_ ? 1 : static_cast<int32_t>(length + 1 - next_);
    s.seeded = 1;
    s.next = fresh_ ? 0 : next_;
    std::copy(words_.begin(), words_.end(), s.words);
    s.has_normal = next_double_normal.has_value();
    s.normal = next_double_normal.value_or(0);
    s.has_float_normal = next_float_normal.has_value();
    s.float_normal = next_float_normal.value_or(0);
    return std::bit_cast<std::array<std::byte, state_bytes>>(s);
}

bool Generator::set_state(std::span<const std::byte> bytes) {
    if (bytes.size() != state_bytes) return false;
    StateBytes s;
    std::memcpy(&s, bytes.data(), sizeof s);
    const bool fresh = s.left == 1 && s.next == 0;
    const bool started = s.next >= 1 && s.next <= length && s.left + s.next == length + 1;
    if (s.seeded != 1 || !(fresh || started)) return false;
    seed_ = s.seed;
    fresh_ = fresh;
    next_ = fresh ? length : static_cast<uint32_t>(s.next);
    std::transform(s.words, s.words + length, words_.begin(),
                   [](uint64_t word) { return static_cast<uint32_t>(word); });
    next_double_normal.reset();
    next_float_normal.reset();
    if (s.has_normal) next_double_normal = s.normal;
    if (s.has_float_normal) next_float_normal = s.float_normal;
    return true;
}

// ---- numbers of any type -----------------------------------------------------------------------

template <class T>
void random_in_range(Generator& generator, T* out, int64_t n, uint64_t range, int64_t base) {
    if (range >= uint64_t{1} << 28)
        return random_fill(generator, out, n, InLargeRange<T>{range, base});
    const uint32_t mask = static_cast<uint32_t>(range) - 1;
    if (std::has_single_bit(range))
        return random_fill(generator, out, n, InPowerOfTwo<T>{mask, base});
    const double width = static_cast<double>(range);
    random_fill(generator, out, n, InSmallRange<T>{width, 1.0 / width, base});
}

template <class T>
void random_all_bits(Generator& generator, T* out, int64_t n) {
    random_fill(generator, out, n, AllBits<T>{});
}

template <class T>
void random_default(Generator& generator, T* out, int64_t n) {
    random_fill(generator, out, n, LowBits<T>{});
}

namespace {

/// The number nearest to `value` that a float of `digits` bits holds.
int64_t rounded(int64_t value, int digits) {
    if (digits == 53) return static_cast<int64_t>(static_cast<double>(value));
    if (digits == 24) return static_cast<int64_t>(static_cast<float>(value));
    const double scale = std::ldexp(1.0, std::max(0, std::ilogb(value ? value : 1) - digits + 1));
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(value) / scale) * scale);
}

/// The distance of such numbers around `value`.
int64_t gap(int64_t value, int digits) {
    const uint64_t magnitude = value < 0 ? -static_cast<uint64_t>(value) : value;
    return int64_t{1} << (std::bit_width(magnitude) - digits);
}

}  // namespace

int64_t float_from(int64_t from, int digits) {
    const int64_t next = rounded(from + 1, digits);
    return next < from ? next + gap(from + 1, digits) : from;
}

int64_t float_to(int64_t to, int digits) {
    const int64_t last = rounded(to - 1, digits);
    return last >= to ? last - gap(to - 1, digits) : to;
}

template <class T>
void bernoulli(Generator& generator, T* out, int64_t n, double p, T one) {
    random_fill(generator, out, n, Bernoulli<T>{static_cast<int64_t>(std::ceil(p * 0x1p53)), one});
}

template <class T, class P>
void bernoulli(Generator& generator, T* out, int64_t n, const P* p) {
    for (int64_t i = 0; i < n; ++i) {
        if constexpr (std::is_same_v<P, double>)
            out[i] = static_cast<T>(unit_double(generator) < p[i]);
        else out[i] = static_cast<T>(unit_float(generator.random()) < p[i]);
    }
}

template <class T>
void geometric(Generator& generator, T* out, int64_t n, double p) {
    const double scale = std::log1p(-p);
    for (int64_t i = 0; i < n; ++i)
        out[i] = static_cast<T>(std::ceil(std::log(unit_double(generator)) / scale));
}

template <class T>
void permutation(Generator& generator, T* out, int64_t n) {
    // PyTorch draws 32 bits and swaps forwards where the bias of a rest is small, else 64 bits in
    // the inside-out order (Fisher & Yates; Durstenfeld 1964).
    if (n < int64_t{std::numeric_limits<uint32_t>::max() / 20}) {
        for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(i);
        for (int64_t i = 0; i + 1 < n; ++i)
            std::swap(out[i], out[i + generator.random() % static_cast<uint32_t>(n - i)]);
        return;
    }
    for (int64_t i = 0; i < n; ++i) {
        const uint64_t place = generator.random64() % static_cast<uint64_t>(i + 1);
        out[i] = out[place];
        out[place] = static_cast<T>(i);
    }
}

template <class T>
Weights inspect_weights(const T* weights, int64_t rows, int64_t categories) {
    for (int64_t i = 0; i < rows * categories; ++i)
        if (!(weights[i] >= 0 && weights[i] <= std::numeric_limits<T>::max()))
            return Weights::NegativeOrNotFinite;
    for (int64_t row = 0; row < rows; ++row) {
        const T* begin = weights + row * categories;
        if (std::all_of(begin, begin + categories, [](T w) { return w == 0; }))
            return Weights::AllZero;
    }
    return Weights::Usable;
}

template <class T>
void multinomial(Generator& generator, int64_t* out, const T* weights, int64_t rows,
                 int64_t categories, int64_t samples, bool replacement) {
    std::vector<T> scratch(categories);
    std::vector<int64_t> order(categories);
    for (int64_t row = 0; row < rows; ++row, weights += categories, out += samples) {
        if (!replacement || samples == 1) {
            exponential(generator, scratch.data(), categories, 1);
            order_by_keys(out, weights, categories, samples, scratch, order);
            continue;
        }
        std::partial_sum(weights, weights + categories, scratch.begin());
        const T sum = scratch.back();
        for (T& edge : scratch) edge /= sum;
        scratch.back() = 1;
        for (int64_t i = 0; i < samples; ++i) {
            const double unit = unit_double(generator);
            out[i] = std::lower_bound(scratch.begin(), scratch.end(), unit) - scratch.begin();
        }
    }
}

// ---- the types in use --------------------------------------------------------------------------

#define WEFT_RANDOM_WEIGHTS(T)                                                                     \
    template Weights inspect_weights(const T*, int64_t, int64_t);                                  \
    template void multinomial(Generator&, int64_t*, const T*, int64_t, int64_t, int64_t, bool);
#define WEFT_RANDOM_ANY(T)                                                                         \
    template void random_in_range(Generator&, T*, int64_t, uint64_t, int64_t);                     \
    template void random_default(Generator&, T*, int64_t);                                         \
    template void bernoulli(Generator&, T*, int64_t, double, T);                                   \
    template void bernoulli(Generator&, T*, int64_t, const float*);                                \
    template void bernoulli(Generator&, T*, int64_t, const double*);                               \
    template void geometric(Generator&, T*, int64_t, double);
#define WEFT_RANDOM_WIDE(T)                                                                        \
    template void random_all_bits(Generator&, T*, int64_t);                                        \
    template void permutation(Generator&, T*, int64_t);

WEFT_RANDOM_WEIGHTS(float)
WEFT_RANDOM_WEIGHTS(double)
WEFT_RANDOM_ANY(bool)
WEFT_RANDOM_ANY(uint8_t)
WEFT_RANDOM_ANY(int8_t)
WEFT_RANDOM_ANY(int16_t)
WEFT_RANDOM_ANY(int32_t)
WEFT_RANDOM_ANY(int64_t)
WEFT_RANDOM_ANY(float)
WEFT_RANDOM_ANY(double)
WEFT_RANDOM_WIDE(int64_t)
WEFT_RANDOM_WIDE(float)
WEFT_RANDOM_WIDE(double)
template void permutation(Generator&, int32_t*, int64_t);

}  // namespace weft::kernels
