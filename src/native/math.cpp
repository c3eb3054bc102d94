/// Python's module math, of ints of 64 bits.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "native/host.h"
#include "native/tensors.h"

namespace weft::native {
namespace {

constexpr int32_t kMul = 2;

[[noreturn]] void beyond(const char* who) {
    raise_as(types::OverflowError, "[", who, "] expected a result of 64 bits, got a larger one");
}

double real(Raw v) {
    if (v.is_tensor()) return tensor_as_double(v);
    if (!is_number(v) || v.is(Kind::Complex))
        raise_as(types::TypeError, "must be real number, not ", type_name(v));
    return number_as_double(v);
}

Thing checked_math(double out, std::initializer_list<double> args) {
    bool finite = true, nan = false;
    for (const double a : args) {
        finite &= std::isfinite(a);
        nan |= std::isnan(a);
    }
    if (std::isnan(out) && !nan) raise_as(types::ValueError, "math domain error");
    if (std::isinf(out) && finite) raise_as(types::OverflowError, "math range error");
    return of_double(out);
}

template <double (*F)(double)>
Thing math1(Host&, const Given& g) {
    const double v = real(g.args[0]);
    return checked_math(F(v), {v});
}
/// The same where infinity is a pole of it: no result is out of range.
template <double (*F)(double)>
Thing with_poles(Host&, const Given& g) {
    const double v = real(g.args[0]);
    const double out = F(v);
    if (std::isinf(out) && std::isfinite(v)) raise_as(types::ValueError, "math domain error");
    return checked_math(out, {v});
}

template <double (*F)(double, double)>
Thing math2(Host&, const Given& g) {
    const double a = real(g.args[0]), b = real(g.args[1]);
    return of_double(F(a, b));
}

double log_of(double v, double (*f)(double)) {
    if (v <= 0) raise_as(types::ValueError, "math domain error");
    return f(v);
}
Thing math_log(Host&, const Given& g) {
    const double v = log_of(real(g.args[0]), std::log);
    if (g.n == 1) return of_double(v);
    const double base = log_of(real(g.args[1]), std::log);
    if (base == 0) raise_as(types::ZeroDivisionError, "float division by zero");
    return of_double(v / base);
}

Thing whole(const Given& g, double (*f)(double)) {
    const Raw v = g.args[0];
    return is_int(v) || v.is(Kind::Bool) ? of_int(int_in(v)) : of_int(int_of_double(f(real(v))));
}

Thing math_pow(Host&, const Given& g) {
    const double a = real(g.args[0]), b = real(g.args[1]);
    const double out = std::pow(a, b);
    if (std::isinf(out) && a == 0 && std::isfinite(b))
        raise_as(types::ValueError, "math domain error");
    return checked_math(out, {a, b});
}

Thing math_prod(Host&, const Given& g) {
    const Raw start = word(g, "start");
    Thing out = start ? Thing::borrow(start) : of_int(1);
    for (const Thing& item : all_of(g.args[0])) out = binary(kMul, out.get(), item.get());
    return out;
}

Thing math_gcd(Host&, const Given& g) {
    int64_t out = 0;
    for (int64_t k = 0; k < g.n; ++k) out = std::gcd(out, index_of(g.args[k], nullptr));
    return of_int(out);
}

Thing math_comb(Host&, const Given& g) {
    const int64_t n = index_of(g.args[0], nullptr), k = index_of(g.args[1], nullptr);
    if (n < 0) raise_as(types::ValueError, "n must be a non-negative integer");
    if (k < 0) raise_as(types::ValueError, "k must be a non-negative integer");
    int64_t out = k <= n;
    for (int64_t i = 1; i <= std::min(k, n - k); ++i) {
        if (__builtin_mul_overflow(out, n - i + 1, &out)) beyond("comb");
        out /= i;
    }
    return of_int(out);
}

Thing math_lcm(Host&, const Given& g) {
    int64_t out = 1;
    for (int64_t k = 0; k < g.n; ++k) {
        const int64_t a = index_of(g.args[k], nullptr);
        const int64_t common = std::gcd(out, a);
        if (common && __builtin_mul_overflow(out / common, a, &out)) beyond("lcm");
        if (!common) out = 0;
    }
    return of_int(out < 0 ? -out : out);
}

/// n (n - 1) ..., of k factors.
Thing falling(int64_t n, int64_t k, const char* who) {
    int64_t out = k <= n;
    for (int64_t i = 0; i < std::min(k, n); ++i)
        if (__builtin_mul_overflow(out, n - i, &out)) beyond(who);
    return of_int(out);
}

Thing math_factorial(Host&, const Given& g) {
    const int64_t n = index_of(g.args[0], nullptr);
    if (n < 0) raise_as(types::ValueError, "factorial() not defined for negative values");
    return falling(n, n, "factorial");
}

Thing math_perm(Host&, const Given& g) {
    const int64_t n = index_of(g.args[0], nullptr);
    const bool all = g.n < 2 || g.args[1].is(Kind::None);
    const int64_t k = all ? n : index_of(g.args[1], nullptr);
    if (n < 0 && all) raise_as(types::ValueError, "factorial() not defined for negative values");
    if (n < 0) raise_as(types::ValueError, "n must be a non-negative integer");
    if (k < 0) raise_as(types::ValueError, "k must be a non-negative integer");
    return falling(n, k, "perm");
}

Thing math_isqrt(Host&, const Given& g) {
    const int64_t n = index_of(g.args[0], nullptr);
    if (n < 0) raise_as(types::ValueError, "isqrt() argument must be nonnegative");
    auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
    while (root > 0 && root > n / root) --root;
    while (root + 1 <= n / (root + 1)) ++root;
    return of_int(root);
}

Thing math_fmod(Host&, const Given& g) {
    const double a = real(g.args[0]), b = real(g.args[1]);
    return checked_math(std::fmod(a, b), {a, b});
}

/// In long double, whose exponents have room for the squares.
Thing math_hypot(Host&, const Given& g) {
    long double sum = 0;
    bool infinite = false;
    for (int64_t k = 0; k < g.n; ++k) {
        const double v = real(g.args[k]);
        infinite |= std::isinf(v);
        sum += static_cast<long double>(v) * static_cast<long double>(v);
    }
    if (infinite) return of_double(std::numeric_limits<double>::infinity());
    return of_double(static_cast<double>(std::sqrt(sum)));
}

Thing math_isclose(Host&, const Given& g) {
    const double a = real(g.args[0]), b = real(g.args[1]);
    const Raw relative = word(g, "rel_tol"), absolute = word(g, "abs_tol");
    const double rel = relative ? real(relative) : 1e-9, abs = absolute ? real(absolute) : 0.0;
    if (rel < 0 || abs < 0) raise_as(types::ValueError, "tolerances must be non-negative");
    if (a == b) return of_bool(true);
    if (std::isinf(a) || std::isinf(b)) return of_bool(false);
    const double apart = std::fabs(a - b);
    return of_bool(apart <= std::fabs(rel * b) || apart <= std::fabs(rel * a) || apart <= abs);
}

Thing math_modf(Host&, const Given& g) {
    double whole = 0;
    const double part = std::modf(real(g.args[0]), &whole);
    std::vector<Thing> both;
    both.push_back(of_double(part));
    both.push_back(of_double(whole));
    return tuple_of(std::move(both));
}

constexpr double kPi = 3.141592653589793238462643383279502884;

constexpr Builtin kMath[] = {
    {"math.sqrt", 1, 1, "", math1<std::sqrt>},
    {"math.exp", 1, 1, "", math1<std::exp>},
    {"math.sin", 1, 1, "", math1<std::sin>},
    {"math.cos", 1, 1, "", math1<std::cos>},
    {"math.tan", 1, 1, "", math1<std::tan>},
    {"math.tanh", 1, 1, "", math1<std::tanh>},
    {"math.asin", 1, 1, "", math1<std::asin>},
    {"math.acos", 1, 1, "", math1<std::acos>},
    {"math.atan", 1, 1, "", math1<std::atan>},
    {"math.sinh", 1, 1, "", math1<std::sinh>},
    {"math.cosh", 1, 1, "", math1<std::cosh>},
    {"math.asinh", 1, 1, "", math1<std::asinh>},
    {"math.acosh", 1, 1, "", with_poles<std::acosh>},
    {"math.atanh", 1, 1, "", with_poles<std::atanh>},
    {"math.exp2", 1, 1, "", math1<std::exp2>},
    {"math.expm1", 1, 1, "", math1<std::expm1>},
    {"math.log1p", 1, 1, "", with_poles<std::log1p>},
    {"math.cbrt", 1, 1, "", math1<std::cbrt>},
    {"math.degrees", 1, 1, "",
     [](Host&, const Given& g) { return of_double(real(g.args[0]) * (180.0 / kPi)); }},
    {"math.radians", 1, 1, "",
     [](Host&, const Given& g) { return of_double(real(g.args[0]) * (kPi / 180.0)); }},
    {"math.copysign", 2, 2, "", math2<std::copysign>},
    {"math.fmod", 2, 2, "", math_fmod},
    {"math.hypot", 0, -1, "", math_hypot},
    {"math.isclose", 2, 2, " rel_tol abs_tol ", math_isclose},
    {"math.modf", 1, 1, "", math_modf},
    {"math.erf", 1, 1, "", math1<std::erf>},
    {"math.erfc", 1, 1, "", math1<std::erfc>},
    {"math.fabs", 1, 1, "", math1<std::fabs>},
    {"math.atan2", 2, 2, "", math2<std::atan2>},
    {"math.log", 1, 2, "", math_log},
    {"math.log2", 1, 1, "",
     [](Host&, const Given& g) { return of_double(log_of(real(g.args[0]), std::log2)); }},
    {"math.log10", 1, 1, "",
     [](Host&, const Given& g) { return of_double(log_of(real(g.args[0]), std::log10)); }},
    {"math.floor", 1, 1, "", [](Host&, const Given& g) { return whole(g, std::floor); }},
    {"math.ceil", 1, 1, "", [](Host&, const Given& g) { return whole(g, std::ceil); }},
    {"math.pow", 2, 2, "", math_pow},
    {"math.isnan", 1, 1, "",
     [](Host&, const Given& g) { return of_bool(std::isnan(real(g.args[0]))); }},
    {"math.isinf", 1, 1, "",
     [](Host&, const Given& g) { return of_bool(std::isinf(real(g.args[0]))); }},
    {"math.isfinite", 1, 1, "",
     [](Host&, const Given& g) { return of_bool(std::isfinite(real(g.args[0]))); }},
    {"math.gcd", 0, -1, "", math_gcd},
    {"math.lcm", 0, -1, "", math_lcm},
    {"math.comb", 2, 2, "", math_comb},
    {"math.perm", 1, 2, "", math_perm},
    {"math.factorial", 1, 1, "", math_factorial},
    {"math.isqrt", 1, 1, "", math_isqrt},
    {"math.prod", 1, 1, " start ", math_prod},
};

}  // namespace

const Builtin* math_named(std::string_view name) { return named(kMath, name); }

}  // namespace weft::native
