/// Arithmetic of Python's numbers.
#include <cmath>

#include "native/operators.h"

namespace weft::native {
namespace {

[[noreturn]] void beyond() {
    raise_as(types::OverflowError, "[int] expected a result of 64 bits, got one beyond them");
}

int64_t floor_div(int64_t a, int64_t b) {
    if (b == -1) {
        int64_t out;
        if (__builtin_sub_overflow(int64_t{0}, a, &out)) beyond();
        return out;
    }
    const int64_t q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
int64_t floor_mod(int64_t a, int64_t b) {
    if (b == -1) return 0;
    const int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int64_t power_of(int64_t base, int64_t exponent) {
    int64_t out = 1;
    for (;;) {
        if (exponent & 1 && __builtin_mul_overflow(out, base, &out)) beyond();
        exponent >>= 1;
        if (!exponent) return out;
        if (base == 0 || base == 1) return base == 0 ? 0 : out;
        if (__builtin_mul_overflow(base, base, &base)) beyond();
    }
}

int64_t shift_left(int64_t a, int64_t by) {
    if (by < 0) raise_as(types::ValueError, "negative shift count");
    if (a == 0) return 0;
    if (by > 62) beyond();
    const auto out = static_cast<int64_t>(static_cast<uint64_t>(a) << by);
    if (out >> by != a) beyond();
    return out;
}
int64_t shift_right(int64_t a, int64_t by) {
    if (by < 0) raise_as(types::ValueError, "negative shift count");
    return a >> std::min<int64_t>(by, 63);
}

/// As CPython's: exact where both are doubles.
double divide(int64_t a, int64_t b) {
    if (b == 0) raise_as(types::ZeroDivisionError, "division by zero");
    return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
}

Thing of_doubles(int32_t op, double a, double b);

Thing of_ints(int32_t op, int64_t a, int64_t b) {
    int64_t out = 0;
    switch (op) {
        case Add:
            if (__builtin_add_overflow(a, b, &out)) beyond();
            return of_int(out);
        case Sub:
            if (__builtin_sub_overflow(a, b, &out)) beyond();
            return of_int(out);
        case Mul:
            if (__builtin_mul_overflow(a, b, &out)) beyond();
            return of_int(out);
        case Div:
            return of_double(divide(a, b));
        case FloorDiv:
        case Mod:
            if (b == 0)
                raise_as(types::ZeroDivisionError, op == Mod
                                                       ? "integer modulo by zero"
                                                       : "integer division or modulo by zero");
            return of_int(op == Mod ? floor_mod(a, b) : floor_div(a, b));
        case Pow:
            if (b < 0) return of_doubles(op, static_cast<double>(a), static_cast<double>(b));
            return of_int(power_of(a, b));
        case And:
            return of_int(a & b);
        case Or:
            return of_int(a | b);
        case Xor:
            return of_int(a ^ b);
        case Lshift:
            return of_int(shift_left(a, b));
        case Rshift:
            return of_int(shift_right(a, b));
        default:
            return {};
    }
}

double float_mod(double a, double b) {
    double mod = std::fmod(a, b);
    if (mod != 0) {
        if ((b < 0) != (mod < 0)) mod += b;
    } else {
        mod = std::copysign(0.0, b);
    }
    return mod;
}

double float_floor_div(double a, double b) {
    double mod = std::fmod(a, b);
    double div = (a - mod) / b;
    if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
    if (div == 0) return std::copysign(0.0, a / b);
    const double floored = std::floor(div);
    return div - floored > 0.5 ? floored + 1 : floored;
}

std::complex<double> whole_power(std::complex<double> a, int64_t n) {
    if (n < 0) return 1.0 / whole_power(a, -n);
    std::complex<double> out = 1;
    for (int64_t mask = 1; mask <= n; mask <<= 1) {
        if (n & mask) out *= a;
        a *= a;
    }
    return out;
}

/// In CPython's steps.
Thing complex_power(std::complex<double> a, std::complex<double> b) {
    if (b.imag() == 0 && b.real() == std::floor(b.real()) && std::fabs(b.real()) <= 100 && a != 0.0)
        return of_complex(whole_power(a, static_cast<int64_t>(b.real())));
    if (b == 0.0) return of_complex(1.0);
    if (a == 0.0) {
        if (b.imag() != 0 || b.real() < 0)
            raise_as(types::ZeroDivisionError, "0.0 to a negative or complex power");
        return of_complex(0.0);
    }
    const double size = std::hypot(a.real(), a.imag()), angle = std::atan2(a.imag(), a.real());
    double length = std::pow(size, b.real()), phase = angle * b.real();
    if (b.imag() != 0) {
        length /= std::exp(angle * b.imag());
        phase += b.imag() * std::log(size);
    }
    return of_complex({length * std::cos(phase), length * std::sin(phase)});
}

Thing float_power(double a, double b) {
    if (a == 0 && b < 0)
        raise_as(types::ZeroDivisionError, "0.0 cannot be raised to a negative power");
    if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b))
        return complex_power(a, b);
    const double out = std::pow(a, b);
    if (std::isinf(out) && std::isfinite(a) && std::isfinite(b)) {
        std::vector<Thing> args;
        args.push_back(of_int(34));
        args.push_back(of_text("Numerical result out of range"));
        throw Raised{make_error(types::OverflowError, std::move(args))};
    }
    return of_double(out);
}

Thing of_doubles(int32_t op, double a, double b) {
    switch (op) {
        case Add:
            return of_double(a + b);
        case Sub:
            return of_double(a - b);
        case Mul:
            return of_double(a * b);
        case Div:
            if (b == 0) raise_as(types::ZeroDivisionError, "float division by zero");
            return of_double(a / b);
        case FloorDiv:
            if (b == 0) raise_as(types::ZeroDivisionError, "float floor division by zero");
            return of_double(float_floor_div(a, b));
        case Mod:
            if (b == 0) raise_as(types::ZeroDivisionError, "float modulo");
            return of_double(float_mod(a, b));
        case Pow:
            return float_power(a, b);
        default:
            return {};
    }
}

Thing of_complexes(int32_t op, std::complex<double> a, std::complex<double> b) {
    switch (op) {
        case Add:
            return of_complex(a + b);
        case Sub:
            return of_complex(a - b);
        case Mul:
            return of_complex(a * b);
        case Div:
            if (b == 0.0) raise_as(types::ZeroDivisionError, "complex division by zero");
            return of_complex(a / b);
        case Pow:
            return complex_power(a, b);
        default:
            return {};
    }
}

}  // namespace

int64_t int_of_double(double v) {
    if (std::isnan(v)) raise_as(types::ValueError, "cannot convert float NaN to integer");
    if (std::isinf(v)) raise_as(types::OverflowError, "cannot convert float infinity to integer");
    if (!(v >= -0x1p63 && v < 0x1p63)) beyond();
    return static_cast<int64_t>(v);
}

bool is_number(Raw r) {
    const Kind k = r.kind();
    return k == Kind::Int || k == Kind::Float || k == Kind::Bool || k == Kind::Complex;
}

int64_t in_64_bits(__int128 v) {
    const auto out = static_cast<int64_t>(v);
    if (out != v) beyond();
    return out;
}

double number_as_double(Raw r) {
    return r.is(Kind::Float) ? double_in(r) : static_cast<double>(int_in(r));
}
std::complex<double> number_as_complex(Raw r) {
    if (r.is(Kind::Complex)) return {double_in(r), r.as<Number>()->imag};
    return number_as_double(r);
}

Thing number_binary(int32_t op, Raw a, Raw b) {
    if (a.is_small() && b.is_small()) return of_ints(op, a.small(), b.small());
    const Kind x = a.kind(), y = b.kind();
    auto whole = [](Kind k) { return k == Kind::Int || k == Kind::Bool; };
    auto real = [&](Kind k) { return whole(k) || k == Kind::Float; };
    if (whole(x) && whole(y)) {
        if (x == Kind::Bool && y == Kind::Bool && op >= And && op <= Xor)
            return of_bool(int_in(of_ints(op, int_in(a), int_in(b)).get()) != 0);
        return of_ints(op, int_in(a), int_in(b));
    }
    if (real(x) && real(y)) return of_doubles(op, number_as_double(a), number_as_double(b));
    if ((real(x) || x == Kind::Complex) && (real(y) || y == Kind::Complex))
        return of_complexes(op, number_as_complex(a), number_as_complex(b));
    return {};
}

int order_of_numbers(Raw a, Raw b) {
    auto order = [](auto x, auto y) { return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2; };
    const bool fa = a.is(Kind::Float), fb = b.is(Kind::Float);
    if (!fa && !fb) return order(int_in(a), int_in(b));
    if (fa && fb) return order(double_in(a), double_in(b));
    // long double holds every int of 64 bits
    auto wide = [](Raw r) -> long double {
        return r.is(Kind::Float) ? double_in(r) : static_cast<long double>(int_in(r));
    };
    return order(wide(a), wide(b));
}

}  // namespace weft::native
