/// Checks src/kernels/reduce.h against plain loops in long double (integers: exactly), over rows,
/// columns, empty, narrow, wide and chunked shapes; NaN and infinities; in place; the same bits on
/// 1, 2 and 3 threads. Runs itself again for each lower WEFT_CPU level.
#include "kernels/reduce.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/simd.h"

namespace k = weft::kernels;
using k::Axis;

namespace {

int failures = 0;

void report(const std::string& what) {
    if (++failures <= 25) std::printf("FAILED [%s]: %s\n", k::cpu_level_name(), what.c_str());
}

/// The text is made on failure only: there is a check per element.
#define CHECK(ok, ...)                     \
    do {                                   \
        if (!(ok)) report(__VA_ARGS__);    \
    } while (0)

/// An array that works for bool too, with a guard element behind it.
template <class T>
struct Array {
    int64_t size;
    std::unique_ptr<T[]> data;
    explicit Array(int64_t size) : size(size), data(new T[size + 1]()) { data[size] = T(1); }
    Array(const Array& other) : Array(other.size) { std::copy_n(other.data.get(), size, get()); }
    T* get() { return data.get(); }
    const T* get() const { return data.get(); }
    T& operator[](int64_t i) { return data[i]; }
    const T& operator[](int64_t i) const { return data[i]; }
    bool same_bits(const Array& other) const {
        return !std::memcmp(get(), other.get(), (size + 1) * sizeof(T));
    }
};

uint64_t random_state = 7;
double random_unit() {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(random_state >> 11) / 9007199254740992.0;
}

template <class T>
Array<T> random_input(int64_t size, double low, double high) {
    Array<T> x(size);
    for (int64_t i = 0; i < size; ++i) {
        const double v = low + (high - low) * random_unit();
        x[i] = std::is_same_v<T, bool> ? static_cast<T>(random_unit() < 0.7)
                                       : static_cast<T>(std::is_integral_v<T> ? std::floor(v) : v);
    }
    return x;
}

const Axis shapes[] = {{1, 1, 1},    {3, 5, 1},     {7, 16, 1},   {4, 17, 1},    {5, 100, 1},
                       {2, 1000, 1}, {3, 1, 4},     {2, 7, 3},    {2, 40, 2},    {3, 33, 16},
                       {2, 70, 65},  {1, 9, 300},   {2, 50, 600}, {1, 5000, 3},  {1, 3000, 7},
                       {100, 10, 1}, {2, 131075, 1}, {1, 9000, 10}, {1, 300, 257}, {1, 1100, 130},
                       {70, 3, 1},   {65, 2, 2},   {3, 32, 64},   {1, 4, 20000}, {2, 70001, 2}};
const Axis empty_axis[] = {{3, 0, 1}, {2, 0, 5}};
const Axis nothing[] = {{0, 4, 1}, {0, 4, 3}, {2, 4, 0}, {0, 0, 0}};

std::string at(const char* name, Axis a, size_t bytes) {
    return weft::text(name, " {", a.outer, ", ", a.n, ", ", a.inner, "} of ", bytes, " bytes");
}

int64_t inputs(Axis a) { return a.outer * a.n * a.inner; }
int64_t outputs(Axis a) { return a.outer * a.inner; }

/// visit(output index, pointer-like getter of element i along the axis)
template <class Visit>
void each_output(Axis a, const Visit& visit) {
    for (int64_t o = 0; o < a.outer; ++o)
        for (int64_t j = 0; j < a.inner; ++j)
            visit(o * a.inner + j, [=](int64_t i) { return (o * a.n + i) * a.inner + j; });
}

bool close(double got, double want, double bound) {
    if (std::isnan(want)) return std::isnan(got);
    if (std::isinf(want) || got == want) return got == want;
    return std::fabs(got - want) <= bound;
}

template <class T>
constexpr double eps = std::numeric_limits<T>::epsilon();

/// Runs `kernel(out)` on 1, 2 and 3 threads, checks that the bits agree and the guard is whole.
template <class Out, class Kernel>
Array<Out> on_threads(int64_t size, const std::string& what, const Kernel& kernel) {
    Array<Out> first(size);
    for (const int threads : {1, 2, 3}) {
        weft::set_num_threads(threads);
        Array<Out> out(size);
        kernel(out.get());
        CHECK(out[size] == Out(1), "guard of " + what);
        if (threads == 1)
            std::copy_n(out.get(), size, first.get());
        else
            CHECK(out.same_bits(first), weft::text(threads, " threads change bits of ", what));
    }
    return first;
}

// ---------------------------------------------------------------------------------------------

template <class T>
void sums_and_products(Axis a) {
    constexpr bool real = std::is_floating_point_v<T>;
    const auto x = random_input<T>(inputs(a), -3, 5);
    auto name = at("sum", a, sizeof(T));
    const auto sum = on_threads<k::SumOf<T>>(outputs(a), name,
                                             [&](auto* y) { k::sum(x.get(), y, a); });
    each_output(a, [&](int64_t out, auto index) {
        long double want = 0, size = 0;
        for (int64_t i = 0; i < a.n; ++i) {
            want += static_cast<long double>(x[index(i)]);
            size += std::fabs(static_cast<long double>(x[index(i)]));
        }
        // Adding one after the other has a bound of n / 2 in the place of this 8.
        const double bound = real ? 8 * eps<T> * static_cast<double>(size) : 0;
        CHECK(close(static_cast<double>(sum[out]), static_cast<double>(want), bound), name);
    });
    const auto factors = random_input<T>(inputs(a), 0.5, 1.5);
    name = at("prod", a, sizeof(T));
    const auto prod = on_threads<k::SumOf<T>>(outputs(a), name, [&](auto* y) {
        k::prod((real ? factors : x).get(), y, a);
    });
    each_output(a, [&](int64_t out, auto index) {
        if constexpr (real) {
            long double want = 1;
            for (int64_t i = 0; i < a.n; ++i) want *= factors[index(i)];
            const double bound = std::fabs((double)want) * eps<T> * (a.n + 2.0) +
                                 a.n * std::numeric_limits<T>::denorm_min() * 1.0;
            if (std::fabs(want) > 1e3 * std::numeric_limits<T>::min())
                CHECK(close(prod[out], static_cast<double>(want), bound), name);
        } else {
            uint64_t want = 1;
            for (int64_t i = 0; i < a.n; ++i) want *= static_cast<uint64_t>(x[index(i)]);
            CHECK(prod[out] == static_cast<int64_t>(want), name);
        }
    });
}

template <class T>
bool before(T a, T b, bool largest) {
    if (b != b) return false;
    if (a != a) return true;
    return largest ? a > b : a < b;
}

template <class T>
void extremes(Axis a, bool with_nan) {
    auto x = random_input<T>(inputs(a), -50, 50);
    if constexpr (std::is_floating_point_v<T>)
        if (with_nan)
            for (int64_t i = 0; i < inputs(a); i += 1 + inputs(a) / 5)
                x[i] = std::numeric_limits<T>::quiet_NaN();
    for (const bool largest : {true, false}) {
        const auto name = at(largest ? "max" : "min", a, sizeof(T));
        const auto plain = on_threads<T>(outputs(a), name, [&](T* y) {
            largest ? k::max(x.get(), y, a) : k::min(x.get(), y, a);
        });
        Array<T> value(outputs(a));
        const auto index_of = on_threads<int64_t>(outputs(a), "arg" + name, [&](int64_t* y) {
            largest ? k::argmax(x.get(), value.get(), y, a) : k::argmin(x.get(), value.get(), y, a);
        });
        const auto alone = on_threads<int64_t>(outputs(a), "arg" + name, [&](int64_t* y) {
            largest ? k::argmax<T>(x.get(), nullptr, y, a) : k::argmin<T>(x.get(), nullptr, y, a);
        });
        CHECK(alone.same_bits(index_of), "arg without value " + name);
        each_output(a, [&](int64_t out, auto index) {
            int64_t want = 0;
            for (int64_t i = 1; i < a.n; ++i)
                if (before(x[index(i)], x[index(want)], largest)) want = i;
            const T best = x[index(want)];
            CHECK(index_of[out] == want, "arg" + name);
            CHECK(close(plain[out], best, 0) && close(value[out], best, 0), name);
        });
    }
}

template <class T>
void truths(Axis a) {
    for (const double rare : {0.0, 0.02, 0.98, 1.0}) {
        Array<T> x(inputs(a));
        for (int64_t i = 0; i < inputs(a); ++i) x[i] = static_cast<T>(random_unit() < rare);
        const auto any = on_threads<bool>(outputs(a), at("any", a, sizeof(T)),
                                          [&](bool* y) { k::any(x.get(), y, a); });
        const auto all = on_threads<bool>(outputs(a), at("all", a, sizeof(T)),
                                          [&](bool* y) { k::all(x.get(), y, a); });
        each_output(a, [&](int64_t out, auto index) {
            bool some = false, every = true;
            for (int64_t i = 0; i < a.n; ++i) {
                some |= x[index(i)] != T(0);
                every &= x[index(i)] != T(0);
            }
            CHECK(any[out] == some, at("any", a, sizeof(T)));
            CHECK(all[out] == every, at("all", a, sizeof(T)));
        });
    }
}

template <class T>
void statistics(Axis a, double offset) {
    const auto x = random_input<T>(inputs(a), offset - 2, offset + 2);
    const auto mean = on_threads<T>(outputs(a), at("mean", a, sizeof(T)),
                                    [&](T* y) { k::mean(x.get(), y, a); });
    const auto norm = on_threads<T>(outputs(a), at("norm2", a, sizeof(T)),
                                    [&](T* y) { k::norm2(x.get(), y, a); });
    Array<T> average(outputs(a));
    const auto var = on_threads<T>(outputs(a), at("var", a, sizeof(T)), [&](T* y) {
        k::var(x.get(), average.get(), y, 1.0, a);
    });
    const auto biased = on_threads<T>(outputs(a), at("var", a, sizeof(T)), [&](T* y) {
        k::var<T>(x.get(), nullptr, y, 0.0, a);
    });
    each_output(a, [&](int64_t out, auto index) {
        long double sum = 0, squares = 0, spread = 0;
        for (int64_t i = 0; i < a.n; ++i) {
            sum += x[index(i)];
            squares += static_cast<long double>(x[index(i)]) * x[index(i)];
        }
        const long double center = sum / a.n;
        for (int64_t i = 0; i < a.n; ++i)
            spread += (x[index(i)] - center) * (x[index(i)] - center);
        const double scale = std::fabs(offset) + 2;
        CHECK(close(mean[out], (double)center, 4 * eps<T> * scale), at("mean", a, sizeof(T)));
        CHECK(close(average[out], (double)center, 4 * eps<T> * scale), at("average", a, sizeof(T)));
        CHECK(close(norm[out], std::sqrt((double)squares), 2 * eps<T> * std::sqrt((double)squares)),
              at("norm2", a, sizeof(T)));
        const double want = (double)(spread / std::max<int64_t>(0, a.n - 1));
        // Rounding x - mean costs eps * scale once per element, against a spread of about 1.
        CHECK(close(var[out], want, (20 * eps<T> + 4 * eps<T> * eps<T> * scale * scale) *
                                        std::max(1.0, std::fabs(want))),
              weft::text(at("var", a, sizeof(T)), " got ", var[out], " want ", want));
        CHECK(close(biased[out], (double)(spread / a.n), 80 * eps<T>), at("var0", a, sizeof(T)));
    });
}

template <class T>
void scans(Axis a) {
    const auto x = random_input<T>(inputs(a), -2, 3);
    const auto near_one = random_input<T>(inputs(a), 0.9, 1.1);
    const auto sums = on_threads<k::SumOf<T>>(inputs(a), at("cumsum", a, sizeof(T)),
                                              [&](auto* y) { k::cumsum(x.get(), y, a); });
    const auto& factors = std::is_floating_point_v<T> ? near_one : x;
    const auto prods = on_threads<k::SumOf<T>>(inputs(a), at("cumprod", a, sizeof(T)),
                                               [&](auto* y) { k::cumprod(factors.get(), y, a); });
    each_output(a, [&](int64_t, auto index) {
        if constexpr (std::is_floating_point_v<T>) {
            long double sum = 0, prod = 1;
            for (int64_t i = 0; i < a.n; ++i) {
                sum += x[index(i)];
                prod *= near_one[index(i)];
                const double slack = sizeof(T) == 8 ? 1e-16 * (double)i : 0;
                CHECK(close(sums[index(i)], (double)sum,
                            2 * eps<T> * (std::fabs((double)sum) + 1) + slack * (double)(i + 3)),
                      at("cumsum", a, sizeof(T)));
                if (prod > 1e-30L)
                    CHECK(close(prods[index(i)], (double)prod,
                                (2 * eps<T> + slack * 2) * std::fabs((double)prod)),
                          at("cumprod", a, sizeof(T)));
            }
        } else {
            uint64_t sum = 0, prod = 1;
            for (int64_t i = 0; i < a.n; ++i) {
                sum += static_cast<uint64_t>(x[index(i)]);
                prod *= static_cast<uint64_t>(x[index(i)]);
                CHECK(sums[index(i)] == static_cast<int64_t>(sum), at("cumsum", a, sizeof(T)));
                CHECK(prods[index(i)] == static_cast<int64_t>(prod), at("cumprod", a, sizeof(T)));
            }
        }
    });
}

template <class T>
void softmaxes(Axis a) {
    const auto x = random_input<T>(inputs(a), -8, 8);
    const auto dy = random_input<T>(inputs(a), -1, 1);
    const auto y = on_threads<T>(inputs(a), at("softmax", a, sizeof(T)),
                                 [&](T* out) { k::softmax(x.get(), out, a); });
    const auto log_y = on_threads<T>(inputs(a), at("log_softmax", a, sizeof(T)),
                                     [&](T* out) { k::log_softmax(x.get(), out, a); });
    const auto lse = on_threads<T>(outputs(a), at("logsumexp", a, sizeof(T)),
                                   [&](T* out) { k::logsumexp(x.get(), out, a); });
    const auto dx = on_threads<T>(inputs(a), at("softmax_backward", a, sizeof(T)), [&](T* out) {
        k::softmax_backward(y.get(), dy.get(), out, a);
    });
    const auto log_dx = on_threads<T>(
        inputs(a), at("log_softmax_backward", a, sizeof(T)),
        [&](T* out) { k::log_softmax_backward(log_y.get(), dy.get(), out, a); });
    Array<T> in_place(x), grad_in_place(dy);
    k::softmax(in_place.get(), in_place.get(), a);
    CHECK(in_place.same_bits(y), at("softmax in place", a, sizeof(T)));
    k::softmax_backward(y.get(), grad_in_place.get(), grad_in_place.get(), a);
    CHECK(grad_in_place.same_bits(dx), at("softmax_backward in place", a, sizeof(T)));
    each_output(a, [&](int64_t out, auto index) {
        long double sum = 0, dot = 0, total = 0, log_total = 0;
        for (int64_t i = 0; i < a.n; ++i) sum += std::exp((long double)x[index(i)]);
        const long double want_lse = std::log(sum);
        CHECK(close(lse[out], (double)want_lse, 4 * eps<T> * 12), at("logsumexp", a, sizeof(T)));
        for (int64_t i = 0; i < a.n; ++i) {
            dot += (long double)y[index(i)] * dy[index(i)];
            total += dy[index(i)];
            log_total += std::fabs((double)dy[index(i)]);
        }
        for (int64_t i = 0; i < a.n; ++i) {
            const int64_t j = index(i);
            const double want = (double)std::exp(x[j] - want_lse);
            CHECK(close(y[j], want, 24 * eps<T> * want), at("softmax", a, sizeof(T)));
            CHECK(close(log_y[j], (double)(x[j] - want_lse), 8 * eps<T> * 20),
                  at("log_softmax", a, sizeof(T)));
            CHECK(close(dx[j], (double)(y[j] * (dy[j] - dot)), 8 * eps<T> * y[j] * 2),
                  at("softmax_backward", a, sizeof(T)));
            const double want_log = (double)(dy[j] - std::exp((long double)log_y[j]) * total);
            CHECK(close(log_dx[j], want_log,
                        8 * eps<T> * (1 + std::exp((double)log_y[j]) * (double)log_total)),
                  at("log_softmax_backward", a, sizeof(T)));
        }
    });
}

template <class T>
void layer_norms(int64_t rows, int64_t n, bool with_gamma, bool with_beta) {
    const Axis a{rows, n, 1};
    const auto name = at("layer_norm", a, sizeof(T));
    const auto x = random_input<T>(rows * n, 4, 9), dy = random_input<T>(rows * n, -1, 1);
    const auto gamma = random_input<T>(n, 0.5, 2), beta = random_input<T>(n, -1, 1);
    const T* g = with_gamma ? gamma.get() : nullptr;
    const T* b = with_beta ? beta.get() : nullptr;
    const double epsilon = 1e-5;
    Array<T> mean(rows), rstd(rows);
    const auto y = on_threads<T>(rows * n, name, [&](T* out) {
        k::layer_norm(x.get(), g, b, epsilon, out, mean.get(), rstd.get(), rows, n);
    });
    const auto dx = on_threads<T>(rows * n, name + " dx", [&](T* out) {
        k::layer_norm_backward<T>(dy.get(), x.get(), g, mean.get(), rstd.get(), out, nullptr,
                                  nullptr, rows, n);
    });
    const auto dgamma = on_threads<T>(n, name + " dgamma", [&](T* out) {
        k::layer_norm_backward<T>(dy.get(), x.get(), g, mean.get(), rstd.get(), nullptr, out,
                                  nullptr, rows, n);
    });
    const auto dbeta = on_threads<T>(n, name + " dbeta", [&](T* out) {
        k::layer_norm_backward<T>(dy.get(), x.get(), g, mean.get(), rstd.get(), nullptr, nullptr,
                                  out, rows, n);
    });
    Array<T> dx_too(rows * n), dgamma_too(n), dbeta_too(n);
    k::layer_norm_backward(dy.get(), x.get(), g, mean.get(), rstd.get(), dx_too.get(),
                           dgamma_too.get(), dbeta_too.get(), rows, n);
    CHECK(dx_too.same_bits(dx) && dgamma_too.same_bits(dgamma) && dbeta_too.same_bits(dbeta),
          name + " all three at once");
    Array<long double> want_dgamma(n), want_dbeta(n);
    for (int64_t r = 0; r < rows; ++r) {
        const T* row = &x[r * n];
        long double sum = 0, spread = 0, mean_g = 0, mean_gh = 0;
        for (int64_t i = 0; i < n; ++i) sum += row[i];
        const long double center = sum / n;
        for (int64_t i = 0; i < n; ++i) spread += (row[i] - center) * (row[i] - center);
        const long double scale = 1 / std::sqrt(spread / n + epsilon);
        // A row of one element, or nearly equal ones, has a large rstd that magnifies x - mean.
        const double bound = 60 * eps<T> * (1 + (double)scale * 9);
        CHECK(close(mean[r], (double)center, 40 * eps<T>), name + " mean");
        CHECK(close(rstd[r], (double)scale, 60 * eps<T> * (double)scale * (1 + (double)scale)),
              name + " rstd");
        for (int64_t i = 0; i < n; ++i) {
            const long double h = (row[i] - center) * scale, d = dy[r * n + i];
            const long double weighted = d * (g ? g[i] : T(1));
            mean_g += weighted / n;
            mean_gh += weighted * h / n;
            want_dgamma[i] += d * h;
            want_dbeta[i] += d;
            const double want_y = (double)(h * (g ? g[i] : T(1)) + (b ? b[i] : T(0)));
            CHECK(close(y[r * n + i], want_y, bound * 2), name + " y");
        }
        for (int64_t i = 0; i < n; ++i) {
            const long double h = (row[i] - center) * scale;
            const long double weighted = (long double)dy[r * n + i] * (g ? g[i] : T(1));
            CHECK(close(dx[r * n + i], (double)(scale * (weighted - mean_g - h * mean_gh)),
                        bound * 8 * (double)scale),
                  name + " dx");
        }
    }
    for (int64_t i = 0; i < n; ++i) {
        CHECK(close(dgamma[i], (double)want_dgamma[i], 200 * eps<T> * std::sqrt(rows + 1.0) * 10),
              name + " dgamma");
        CHECK(close(dbeta[i], (double)want_dbeta[i], 40 * eps<T> * std::sqrt(rows + 1.0)),
              name + " dbeta");
    }
}

template <class T>
void special_values() {
    const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
    for (const int64_t inner : {1, 3})
        for (const int64_t n : {2, 40}) {
            const Axis a{1, n, inner};
            Array<T> low(n * inner), high(n * inner), holed(n * inner), y(n * inner), out(inner);
            for (int64_t i = 0; i < n * inner; ++i) {
                low[i] = -inf;
                high[i] = holed[i] = T(1);
            }
            high[(n - 1) * inner] = inf;
            holed[(n / 2) * inner] = nan;
            k::logsumexp(low.get(), out.get(), a);
            CHECK(out[0] == -inf, "logsumexp of -inf is -inf");
            k::logsumexp(high.get(), out.get(), a);
            CHECK(out[0] == inf, "logsumexp with inf is inf");
            k::logsumexp(holed.get(), out.get(), a);
            CHECK(std::isnan(out[0]), "logsumexp of NaN is NaN");
            k::softmax(low.get(), y.get(), a);
            CHECK(std::isnan(y[0]), "softmax of -inf only is NaN");
            k::softmax(holed.get(), y.get(), a);
            CHECK(std::isnan(y[0]), "softmax of NaN is NaN");
            k::sum(high.get(), out.get(), a);
            CHECK(out[0] == inf, "sum with inf is inf");
            k::sum(holed.get(), out.get(), a);
            CHECK(std::isnan(out[0]), "sum with NaN is NaN");
            high[0] = T(-1000);
            low[0] = T(0);
            k::softmax(low.get(), y.get(), a);
            CHECK(y[0] == T(1) && y[inner] == T(0), "softmax of one finite element is 1");
        }
    // 1, then many halves of its last place: adding one after the other would lose them all, a
    // block may lose the few that meet the 1.
    const int64_t n = 1 << 20;
    Array<T> x(n);
    for (int64_t i = 0; i < n; ++i) x[i] = static_cast<T>(eps<T> / 2);
    x[0] = 1;
    T total = 0;
    k::sum(x.get(), &total, {1, n, 1});
    CHECK(close(total, 1 + (n - 1) * eps<T> / 2, eps<T> * 40), "rows: small terms are not lost");
    Array<T> wide(4 * n);
    for (int64_t i = 0; i < 4 * n; ++i) wide[i] = x[i / 4];
    T columns[4];
    k::sum(wide.get(), columns, {1, n, 4});
    for (const T column : columns)
        CHECK(close(column, 1 + (n - 1) * eps<T> / 2, eps<T> * 40),
              "columns: small terms are not lost");
}

template <class T>
void empties() {
    constexpr bool real = std::is_floating_point_v<T>;
    for (const Axis a : empty_axis) {
        Array<k::SumOf<T>> y(outputs(a));
        Array<bool> truth(outputs(a));
        for (int64_t i = 0; i < outputs(a); ++i) y[i] = 5;
        const Array<T> x(0);
        k::sum(x.get(), y.get(), a);
        CHECK(y[0] == 0 && y[outputs(a) - 1] == 0, "sum of nothing is 0");
        k::prod(x.get(), y.get(), a);
        CHECK(y[0] == 1 && y[outputs(a) - 1] == 1, "prod of nothing is 1");
        k::any(x.get(), truth.get(), a);
        CHECK(!truth[0], "any of nothing");
        k::all(x.get(), truth.get(), a);
        CHECK(truth[0], "all of nothing");
        if constexpr (real) {
            k::mean(x.get(), y.get(), a);
            CHECK(std::isnan(y[0]), "mean of nothing is NaN");
            k::var<T>(x.get(), nullptr, y.get(), 1, a);
            CHECK(std::isnan(y[0]), "var of nothing is NaN");
            k::norm2(x.get(), y.get(), a);
            CHECK(y[0] == 0, "norm of nothing is 0");
            k::logsumexp(x.get(), y.get(), a);
            CHECK(y[0] == -std::numeric_limits<T>::infinity(), "logsumexp of nothing is -inf");
            k::softmax(x.get(), y.get(), a);
            k::softmax_backward(x.get(), x.get(), y.get(), a);
        }
        k::cumsum(x.get(), y.get(), a);
    }
    for (const Axis a : nothing) {
        Array<T> x(8), value(1);
        Array<k::SumOf<T>> y(1);
        int64_t index[1];
        k::sum(x.get(), y.get(), a);
        k::max(x.get(), value.get(), a);
        k::argmax(x.get(), value.get(), index, a);
        k::cumprod(x.get(), y.get(), a);
        if constexpr (real) {
            k::var<T>(x.get(), nullptr, value.get(), 1, a);
            k::log_softmax(x.get(), value.get(), a);
        }
        CHECK(y[0] == 0 && value[0] == T(0), "no outputs, nothing written");
    }
    if constexpr (real) {
        T one[1] = {3}, y[1], mean[1];
        k::var(one, mean, y, 1.0, {1, 1, 1});
        CHECK(std::isnan(y[0]) && mean[0] == 3, "var of one element is NaN");
        T dgamma[3] = {7, 7, 7}, dbeta[3] = {7, 7, 7};
        k::layer_norm_backward<T>(one, one, nullptr, one, one, nullptr, dgamma, dbeta, 0, 3);
        CHECK(dgamma[2] == 0 && dbeta[2] == 0, "layer_norm of no rows has zero gradients");
    }
}

template <class T>
void all_of() {
    for (const Axis a : shapes) {
        sums_and_products<T>(a);
        extremes<T>(a, false);
        truths<T>(a);
        scans<T>(a);
        if constexpr (std::is_floating_point_v<T>) {
            extremes<T>(a, true);
            statistics<T>(a, 0);
            statistics<T>(a, 100);
            if (inputs(a) < 200000) softmaxes<T>(a);
        }
    }
    empties<T>();
    if constexpr (std::is_floating_point_v<T>) {
        special_values<T>();
        for (const int64_t rows : {1, 3, 33, 300})
            for (const int64_t n : {2, 7, 16, 33, 128, 300})
                layer_norms<T>(rows, n, n % 2, rows % 2);
        layer_norms<T>(5, 64, true, true);
        layer_norms<T>(700, 257, true, true);
    }
}

void again(const char* level) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        setenv("WEFT_CPU", level, 1);
        execl("/proc/self/exe", "reduce_test", "again", static_cast<char*>(nullptr));
        _exit(127);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, std::string("run with WEFT_CPU=") + level);
}

}  // namespace

int main(int argc, char**) {
    all_of<float>();
    all_of<double>();
    all_of<int64_t>();
    all_of<bool>();
    if (argc < 2) {
        again("avx2");
        again("baseline");
    }
    std::printf(failures ? "reduce %s: %d failures\n" : "reduce %s: ok\n", k::cpu_level_name(),
                failures);
    return failures ? 1 : 0;
}
