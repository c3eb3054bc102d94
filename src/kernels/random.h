/// PyTorch's CPU random numbers, bit for bit: same seed, same calls, same values.
///
/// The engine is MT19937 (Matsumoto & Nishimura 1998, initialisation of 2002). What PyTorch draws
/// from it is public: how many words each value takes, which bits of them count, and where a
/// product and a sum are contracted. Every fill writes `n` contiguous elements in order and leaves
/// the generator where PyTorch's would stand. Results do not depend on threads or on the CPU level.
/// Arguments are checked by the callers; `n == 0` draws nothing.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/half.h"
#include "kernels/simd.h"

namespace weft::kernels {

/// The output function of MT19937.
WEFT_INLINE uint32_t mt19937_temper(uint32_t y) {
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ y >> 18;
}

class Generator {
public:
    /// The size of `torch.get_rng_state()`, whose layout `state` and `set_state` share.
    static constexpr size_t state_bytes = 5056;
    static constexpr uint64_t default_seed = 67280421310721;

    explicit Generator(uint64_t seed = default_seed) { manual_seed(seed); }

    /// Who made it: a number of the layer that runs examples beside each other, as Storage::maker.
    uint64_t maker = 0;

    /// Restarts the engine from the low 32 bits of `seed` and forgets the cached normals.
    void manual_seed(uint64_t seed);
    uint64_t initial_seed() const { return seed_; }

    uint32_t random() {
        if (next_ == length) refill();
        return mt19937_temper(words_[next_++]);
    }
    /// The first word drawn is the high half.
    uint64_t random64() {
        const uint64_t high = random();
        return high << 32 | random();
    }
    /// The next `n` results of `random()`.
    void fill(uint32_t* out, int64_t n);

    std::array<std::byte, state_bytes> state() const;
    /// False, and nothing changed, when the bytes are not a state.
    bool set_state(std::span<const std::byte> bytes);

    /// The second value of a Box-Muller pair, kept for the next call.
    std::optional<double> next_double_normal;
    std::optional<float> next_float_normal;

private:
    static constexpr uint32_t length = 624;

    void refill();

    alignas(64) std::array<uint32_t, length> words_;
    uint64_t seed_;
    uint32_t next_;  // words_[next_] is the next to be tempered; `length` when none is left
    bool fresh_;     // seeded and not drawn from: PyTorch's state tells this from "none is left"
};

// ---- real numbers: T is float or double ------------------------------------------------------

/// uniform_(from, to): [from, to).
template <class T>
void uniform(Generator& generator, T* out, int64_t n, double from, double to);

/// uniform_(from, to) of Half or BFloat16: drawn as float; what rounds up to `to` becomes `from`.
template <class T>
void uniform_narrow(Generator& generator, T* out, int64_t n, double from, double to);

/// normal_(mean, std) of a contiguous tensor: blocks of 16 from 16 values on, else one by one.
template <class T>
void normal(Generator& generator, T* out, int64_t n, double mean, double std);

/// normal_(mean, std) of a tensor that is not contiguous: one by one at every size.
template <class T>
void normal_one_by_one(Generator& generator, T* out, int64_t n, double mean, double std);

/// normal_(mean, std) of a contiguous bfloat16 or float16 tensor, before the cast from float:
/// unlike the float fill it draws no words for a last block that is drawn again.
void normal_reduced(Generator& generator, float* out, int64_t n, double mean, double std);

/// exponential_(lambda).
template <class T>
void exponential(Generator& generator, T* out, int64_t n, double lambda);

/// cauchy_(median, sigma).
template <class T>
void cauchy(Generator& generator, T* out, int64_t n, double median, double sigma);

/// log_normal_(mean, std).
template <class T>
void log_normal(Generator& generator, T* out, int64_t n, double mean, double std);

// ---- numbers of any type: bool, uint8, int8, int16, int32, int64, float, double -----------------

/// random_(from, to) and randint: `base + [0, range)`. For floats pass bounds that went through
/// `float_from` and `float_to`.
template <class T>
void random_in_range(Generator& generator, T* out, int64_t n, uint64_t range, int64_t base);

/// random_(from=lowest int64, to=None): all 64 bits. T is int64, float or double.
template <class T>
void random_all_bits(Generator& generator, T* out, int64_t n);

/// random_(): [0, largest of T], for floats [0, 2^digits].
template <class T>
void random_default(Generator& generator, T* out, int64_t n);

/// The bounds random_ uses for a float type with `digits` bits (24, 53, 11, 8): moved inwards to
/// the next representable number when `from` or `to - 1` is not one.
int64_t float_from(int64_t from, int digits);
int64_t float_to(int64_t to, int digits);

/// bernoulli_(p): `one` with probability p, else 0. Dropout's mask is bernoulli(1 - p) and its
/// noise is the same with one = 1 / (1 - p).
template <class T>
void bernoulli(Generator& generator, T* out, int64_t n, double p, T one = T(1));

/// bernoulli_(tensor): p holds n probabilities; P is float or double.
template <class T, class P>
void bernoulli(Generator& generator, T* out, int64_t n, const P* p);

/// geometric_(p).
template <class T>
void geometric(Generator& generator, T* out, int64_t n, double p);

/// out[i] has the gamma distribution of shape alpha[i] >= 0 and scale 1. T is float or double.
template <class T>
void standard_gamma(Generator& generator, T* out, const T* alpha, int64_t n);
/// d(sample) / d(alpha) of a gamma variable, the quantile held: -(dF/dalpha) / density.
double standard_gamma_slope(double alpha, double sample);

/// poisson: out[i] is drawn at rate rates[i], which is at least 0. T is float or double.
template <class T>
void poisson(Generator& generator, T* out, const T* rates, int64_t n);

/// randperm(n). T is any type that can hold n - 1.
template <class T>
void permutation(Generator& generator, T* out, int64_t n);

/// What a row of multinomial's weights can be.
enum class Weights : uint8_t { Usable, NegativeOrNotFinite, AllZero };
template <class T>
Weights inspect_weights(const T* weights, int64_t rows, int64_t categories);

/// multinomial: `samples` indices for each of `rows` rows of `categories` usable weights (T is
/// float or double). Without replacement the draws come in PyTorch's order: weights over one
/// exponential each, the largest first (Efraimidis & Spirakis 2006).
template <class T>
void multinomial(Generator& generator, int64_t* out, const T* weights, int64_t rows,
                 int64_t categories, int64_t samples, bool replacement);

}  // namespace weft::kernels
