/// Errors of kernels/math.h in units in the last place, at every CPU level this machine has.
///
/// g++ -std=c++20 -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast -I src
///     tests/kernels/math_ulp.cpp -o math_ulp && ./math_ulp [samples]
/// Prints the largest error of each function and exits with 1 if one is beyond its bound. The
/// reference is the C library in the next wider type.
#include "kernels/math.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <vector>

namespace {

using namespace weft::kernels;
namespace math = weft::kernels::math;

template <class T>
using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;

int failures = 0;
int64_t samples = 150000;

// ---- inputs ------------------------------------------------------------------------------------

struct Random {
    uint64_t state = 88172645463325252u;
    uint64_t operator()() {
        state ^= state << 13;
        state ^= state >> 7;
        return state ^= state << 17;
    }
    double unit() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }
};

template <class T>
std::vector<T> special_values() {
    using L = std::numeric_limits<T>;
    std::vector<T> v;
    for (T x : {T(0), L::denorm_min(), L::min() / 2, L::min(), L::epsilon(), T(0.25), T(0.5),
                T(1) - L::epsilon() / 2, T(1), T(1) + L::epsilon(), T(1.5), T(2), T(2.5), T(3),
                T(4), T(7), T(10), T(16777215), T(16777216), T(16777218), L::max(), L::infinity(),
                L::quiet_NaN()}) {
        v.push_back(x);
        v.push_back(-x);
    }
    return v;
}

/// Special values, all bit patterns alike, and numbers spread over [low, high] and over [-1, 1].
template <class T>
std::vector<T> inputs(double low, double high, uint64_t seed) {
    Random random;
    random.state += seed * 7919;
    std::vector<T> v;
    for (T x : special_values<T>())
        if (!(x < T(low) || x > T(high))) v.push_back(x);
    for (int64_t i = 0; i < samples; ++i) {
        const T any = math::from_bits<T>(static_cast<math::Bits<T>>(random() >> 3 * (i & 1)));
        if (any >= T(low) && any <= T(high)) v.push_back(any);
        const double u = random.unit();
        v.push_back(static_cast<T>(std::max(low, -1e3) * (1 - u) + std::min(high, 1e3) * u));
        const double w = 2 * random.unit() - 1;
        if (w >= low && w <= high) v.push_back(static_cast<T>(w));
    }
    return v;
}

// ---- errors ------------------------------------------------------------------------------------

/// |got - want| in units of the last place of max(|want|, floor); infinite for a wrong special.
template <class T>
double ulps(T got, Wide<T> want, double floor) {
    const T rounded = static_cast<T>(want);
    if (std::isnan(rounded) || std::isnan(got))
        return std::isnan(rounded) && std::isnan(got) ? 0 : INFINITY;
    if (got == rounded)
        return got == 0 && std::signbit(got) != std::signbit(rounded) && floor == 0 ? INFINITY : 0;
    if (std::isinf(got)) {  // overflow may come one last place early
        const T edge = std::copysign(std::numeric_limits<T>::max(), got);
        return edge == rounded ? 1 : INFINITY;
    }
    const double size = std::max(std::fabs(static_cast<double>(rounded)), floor);
    const int exponent = std::max(std::ilogb(size), std::numeric_limits<T>::min_exponent - 1);
    return static_cast<double>(std::fabs(static_cast<Wide<T>>(got) - want)) /
           std::ldexp(1.0, exponent - std::numeric_limits<T>::digits + 1);
}

template <class Body, class T, class... In>
std::vector<std::vector<T>> at_every_level(int64_t n, const In*... in) {
    using Versions = IsaVersions<Body, T*, int64_t, const In*...>;
    std::vector<std::vector<T>> results;
    const auto take = [&](auto version) {
        results.emplace_back(n);
        version(results.back().data(), n, in...);
    };
    take(Versions::baseline);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) take(Versions::avx2);
    if (__builtin_cpu_supports("avx512dq")) take(Versions::avx512);
#endif
    return results;
}

struct Worst {
    double error = 0, x = 0, y = 0, got = 0;
};

void report(const char* name, const char* type, const Worst& worst, double bound) {
    const bool bad = !(worst.error <= bound);
    failures += bad;
    std::printf("%-22s %s %8.3f ulp (bound %.1f) at (%.9g, %.9g) = %.9g%s\n", name, type,
                worst.error, bound, worst.x, worst.y, worst.got, bad ? "  FAILED" : "");
}

/// Compares Body with `reference` on n arguments; `y` repeats x for functions of one argument.
template <class Body, class T, class Reference, class... In>
void compare(const char* name, double bound, double floor, Reference reference,
             const std::vector<T>& x, const std::vector<T>& y, const In*... in) {
    const int64_t n = static_cast<int64_t>(x.size());
    const auto results = at_every_level<Body, T>(n, in...);
    Worst worst;
    for (int64_t i = 0; i < n; ++i) {
        const Wide<T> want = reference(Wide<T>(x[i]), Wide<T>(y[i]));
        for (const auto& got : results) {
            const double error = ulps(got[i], want, floor);
            if (error > worst.error)
                worst = {error, double(x[i]), double(y[i]), double(got[i])};
        }
    }
    report(name, sizeof(T) == 4 ? "float " : "double", worst, bound);
}

struct Case {
    const char* name;
    double float_bound, double_bound;
    double low = -INFINITY, high = INFINITY;
    double floor = 0;  // errors count relative to at least this: 0 asks for relative accuracy
};

template <class Body, class Reference>
void unary(const Case& c, Reference reference) {
    const auto ignore_y = [&](auto x, auto) { return reference(x); };
    const auto xf = inputs<float>(c.low, c.high, 1);
    compare<Body, float>(c.name, c.float_bound, c.floor, ignore_y, xf, xf, xf.data());
    const auto xd = inputs<double>(c.low, c.high, 2);
    compare<Body, double>(c.name, c.double_bound, c.floor, ignore_y, xd, xd, xd.data());
}

template <class Body, class T, class Reference>
void binary(const Case& c, double bound, Reference reference) {
    std::vector<T> x, y;
    for (T a : special_values<T>())
        for (T b : special_values<T>()) {
            x.push_back(a);
            y.push_back(b);
        }
    const auto some = inputs<T>(c.low, c.high, 3), other = inputs<T>(c.low, c.high, 4);
    x.insert(x.end(), some.begin(), some.end());
    while (y.size() < x.size()) y.push_back(other[y.size() % other.size()]);
    compare<Body, T>(c.name, bound, c.floor, reference, x, y, x.data(), y.data());
}

// ---- the functions -----------------------------------------------------------------------------

#define BODY(function)                                                                       \
    struct Body_##function {                                                                 \
        template <class T, class... In>                                                      \
        WEFT_INLINE static void run(T* __restrict out, int64_t n, const In*... in) {         \
            for (int64_t i = 0; i < n; ++i) out[i] = math::function(in[i]...);               \
        }                                                                                    \
    };
BODY(exp) BODY(exp2) BODY(expm1) BODY(sigmoid) BODY(tanh) BODY(sinh) BODY(cosh) BODY(half_exp)
BODY(log) BODY(log2) BODY(log10) BODY(log1p) BODY(softplus) BODY(asin) BODY(acos) BODY(atan)
BODY(erf) BODY(erfc) BODY(erfinv)
BODY(gelu) BODY(gelu_derivative) BODY(gelu_tanh) BODY(gelu_tanh_derivative)
BODY(floor) BODY(ceil) BODY(trunc) BODY(round) BODY(sqrt) BODY(rsqrt) BODY(atan2) BODY(pow)

template <class Op>
struct Complete {
    template <class T, class... In>
    WEFT_INLINE static void run(T* out, int64_t n, const In*... in) {
        math::map_guarded<Op>(out, n, in...);
    }
};

constexpr long double kRootHalf = 0.70710678118654752440084436210484903929L;
constexpr long double kRootTwoOverPi = 0.79788456080286535587989211986876373695L;
constexpr long double kDensity = 0.39894228040143267793994605993438186848L;

void exponentials() {
    unary<Body_exp>({"exp", 1.5, 1.5}, [](auto x) { return std::exp(x); });
    unary<Body_half_exp>({"half_exp", 1.5, 1.5}, [](auto x) { return std::exp(x) / 2; });
    unary<Body_exp2>({"exp2", 1.5, 1.5}, [](auto x) { return std::exp2(x); });
    unary<Body_expm1>({"expm1", 2, 2.5}, [](auto x) { return std::expm1(x); });
    unary<Body_sigmoid>({"sigmoid", 2, 2}, [](auto x) { return 1 / (1 + std::exp(-x)); });
    unary<Body_tanh>({"tanh", 2, 2}, [](auto x) { return std::tanh(x); });
    unary<Body_sinh>({"sinh", 2, 2}, [](auto x) { return std::sinh(x); });
    unary<Body_cosh>({"cosh", 2, 2}, [](auto x) { return std::cosh(x); });
}

void logarithms() {
    unary<Body_log>({"log", 1.5, 1.5}, [](auto x) { return std::log(x); });
    unary<Body_log2>({"log2", 1.5, 1.5}, [](auto x) { return std::log2(x); });
    unary<Body_log10>({"log10", 1.5, 1.5}, [](auto x) { return std::log10(x); });
    unary<Body_log1p>({"log1p", 2, 2}, [](auto x) { return std::log1p(x); });
    unary<Body_softplus>({"softplus", 2.5, 2.5}, [](auto x) {
        return std::max(x, decltype(x)(0)) + std::log1p(std::exp(-std::fabs(x)));
    });
}

void trigonometry() {
    unary<Complete<math::Sin>>({"sin", 2, 2}, [](auto x) { return std::sin(x); });
    unary<Complete<math::Cos>>({"cos", 2, 2}, [](auto x) { return std::cos(x); });
    unary<Complete<math::Tan>>({"tan", 3.5, 3.5}, [](auto x) { return std::tan(x); });
    unary<Body_asin>({"asin", 2, 2}, [](auto x) { return std::asin(x); });
    unary<Body_acos>({"acos", 2, 2}, [](auto x) { return std::acos(x); });
    unary<Body_atan>({"atan", 2, 2}, [](auto x) { return std::atan(x); });
    const Case c{"atan2", 2.5, 2.5};
    const auto reference = [](auto y, auto x) { return std::atan2(y, x); };
    binary<Body_atan2, float>(c, c.float_bound, reference);
    binary<Body_atan2, double>(c, c.double_bound, reference);
}

void error_functions() {
    const auto below = [](auto x) { return std::erfc(-x * decltype(x)(kRootHalf)) / 2; };
    const auto gelu_derivative = [=](auto x) {
        const auto slope = x * decltype(x)(kDensity) * std::exp(-x * x / 2);
        return below(x) + (std::isinf(x) ? 0 : slope);
    };
    const auto squashed = [](auto x) {
        const auto u = decltype(x)(kRootTwoOverPi) * (x + decltype(x)(0.044715L) * x * x * x);
        return 1 / (1 + std::exp(-2 * u));
    };
    const auto gelu_tanh_derivative = [=](auto x) {
        using X = decltype(x);
        if (std::fabs(x) > 1000) return X(x > 0);
        const X du = X(kRootTwoOverPi) * (1 + 3 * X(0.044715L) * x * x), s = squashed(x);
        return s + x * 2 * du * s * (1 - s);
    };
    unary<Body_erf>({"erf", 2, 2}, [](auto x) { return std::erf(x); });
    unary<Body_erfc>({"erfc", 4, 5}, [](auto x) { return std::erfc(x); });
    const auto erfinv = [](auto y) {  // Newton's method from a near value
        using Y = decltype(y);
        if (y == 0) return y;
        Y x = math::erfinv(static_cast<double>(y));
        for (int i = 0; i < 2 && std::isfinite(x); ++i) {
            const Y a = std::fabs(x), below_one = std::erfc(a) - (1 - std::fabs(y));
            const Y error = a < 1 ? std::erf(a) - std::fabs(y) : -below_one;
            const Y step = error * std::exp(a * a) * Y(0.88622692545275801364908374167L);
            x -= y < 0 ? -step : step;
        }
        return x;
    };
    unary<Body_erfinv>({"erfinv", 1, 4}, erfinv);
    unary<Body_gelu>({"gelu", 4.5, 5.5}, [=](auto x) {
        return std::isinf(x) && x < 0 ? -decltype(x)(0) : x * below(x);  // the limit, not nan
    });
    unary<Body_gelu_derivative>({"gelu_derivative", 3, 3, -INFINITY, INFINITY, 0.5},
                                gelu_derivative);
    // The cube's rounding is amplified by its size: relative accuracy ends where the result does.
    unary<Body_gelu_tanh>({"gelu_tanh", 3, 3, -INFINITY, INFINITY, 0.25},
                          [=](auto x) { return x * squashed(x); });
    unary<Body_gelu_tanh_derivative>(
        {"gelu_tanh_derivative", 4, 4, -INFINITY, INFINITY, 0.5}, gelu_tanh_derivative);
}

void powers_and_roundings() {
    const Case c{"pow", 1, 1};
    const auto power = [](auto x, auto y) { return std::pow(x, y); };
    binary<Body_pow, float>(c, c.float_bound, power);
    binary<Body_pow, double>(c, c.double_bound, power);
    unary<Body_floor>({"floor", 0, 0}, [](auto x) { return std::floor(x); });
    unary<Body_ceil>({"ceil", 0, 0}, [](auto x) { return std::ceil(x); });
    unary<Body_trunc>({"trunc", 0, 0}, [](auto x) { return std::trunc(x); });
    unary<Body_round>({"round", 0, 0}, [](auto x) { return std::nearbyint(x); });
    unary<Body_sqrt>({"sqrt", 0.5, 0.5001}, [](auto x) { return std::sqrt(x); });
    unary<Body_rsqrt>({"rsqrt", 2, 2}, [](auto x) { return 1 / std::sqrt(x); });
    const auto remainder = [](auto x, auto y) {
        const auto rest = std::fmod(x, y);
        return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
    };
    binary<Complete<math::Fmod>, float>({"fmod", 0, 0}, 0,
                                       [](auto x, auto y) { return std::fmod(x, y); });
    binary<Complete<math::Remainder>, float>({"remainder", 0.5, 0.5}, 0.5, remainder);
    // Beyond 2^24 the exact quotient is no float, and CPython's algorithm is itself inexact.
    const auto quotient = [](auto x, auto y) { return std::floor(x / y); };
    std::vector<float> x, y;
    for (int i = -3000; i <= 3000; ++i)
        for (float d : {-7.0f, -2.5f, -0.75f, 0.5f, 3.0f, 11.0f}) {
            x.push_back(0.25f * static_cast<float>(i));
            y.push_back(d);
        }
    compare<Complete<math::FloorDivide>, float>("floor_divide", 0, 0.5, quotient, x, y, x.data(),
                                               y.data());
}

// ---- values that must be exact -----------------------------------------------------------------

template <class T>
void expect(const char* what, T got, T want) {
    if (got == want && std::signbit(got) == std::signbit(want)) return;
    std::printf("%s: got %.17g, want %.17g  FAILED\n", what, double(got), double(want));
    ++failures;
}

template <class T>
void exact_values() {
    expect("exp(0)", math::exp(T(0)), T(1));
    expect("log(1)", math::log(T(1)), T(0));
    expect("tanh(0)", math::tanh(T(0)), T(0));
    expect("tanh(20)", math::tanh(T(20)), T(1));
    expect("tanh(-1e30)", math::tanh(T(-1e30)), T(-1));
    expect("sigmoid(0)", math::sigmoid(T(0)), T(0.5));
    expect("sigmoid(50)", math::sigmoid(T(50)), T(1));
    expect("erf(7)", math::erf(T(7)), T(1));
    expect("cos(0)", math::cos(T(0)), T(1));
    for (int k = -120; k <= 120; ++k) {
        const T power = std::ldexp(T(1), k);
        expect("exp2(k)", math::exp2(T(k)), power);
        expect("log2(2^k)", math::log2(power), T(k));
        expect("pow(2, k)", math::pow(T(2), T(k)), power);
    }
    T power = 1;
    for (int k = 0; k <= 10; ++k, power *= 10) expect("log10(10^k)", math::log10(power), T(k));
    for (int k = -60; k <= 60; ++k) expect("pow(k, 2)", math::pow(T(k), T(2)), T(k * k));
}

}  // namespace

int main(int count, char** arguments) {
    if (count > 1) samples = std::atoll(arguments[1]);
    exponentials();
    logarithms();
    trigonometry();
    error_functions();
    powers_and_roundings();
    exact_values<float>();
    exact_values<double>();
    std::printf("%d failures\n", failures);
    return failures != 0;
}
