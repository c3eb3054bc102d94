/// What the pointwise families share: functors used by several ops, two fused products for
/// gradient rules, and samples.
#pragma once
#include <limits>

#include "ops/conj.h"
#include "ops/pointwise.h"

namespace weft::ops {

/// x where it is at least `low`, else `low`; NaN in either wins, and so does the first of equals.
template <class T>
WEFT_INLINE T at_least(T x, T low) {
    return ((x >= low) | (x != x)) ? x : low;
}
template <class T>
WEFT_INLINE T at_most(T x, T high) {
    return ((x <= high) | (x != x)) ? x : high;
}

struct Maximum {
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        return at_least(a, b);
    }
};
struct Minimum {
    template <class T>
    WEFT_INLINE T operator()(T a, T b) const {
        return at_most(a, b);
    }
};
/// Bounds that are no NaN.
template <class T>
struct Clamp {
    T low, high;
    WEFT_INLINE T operator()(T x) const {
        x = x < low ? low : x;
        return x > high ? high : x;
    }
};

/// A function of kernels/math.h that is complete with its slow part only.
template <class Op>
struct Guarded : Op {
    static constexpr int one_loop = 32;
    template <class... T>
    WEFT_INLINE auto operator()(T... x) const {
        return Op::fast(x...);
    }
};

/// A number as T; truncated where T is integral.
template <class T>
T number_as(const Value& v) {
    if constexpr (std::is_floating_point_v<T>) return static_cast<T>(v.as_double());
    else return static_cast<T>(v.as_int());
}
/// Bounds of a clamp; None is no bound.
template <class T>
T low_bound(const Value& v) {
    using L = std::numeric_limits<T>;
    return v ? number_as<T>(v) : L::has_infinity ? -L::infinity() : L::lowest();
}
template <class T>
T high_bound(const Value& v) {
    using L = std::numeric_limits<T>;
    return v ? number_as<T>(v) : L::has_infinity ? L::infinity() : L::max();
}

/// scale * self * other and scale * self / other, in one pass (binary.cpp).
inline const Function scaled_mul{"scaled_mul"}, scaled_div{"scaled_div"};

/// The gradient of a function that is constant almost everywhere.
template <int input>
Tensor zero_gradient_of(const Grad& g) {
    return zeros(g.in_shape(input), g.out_dtype(0));
}
inline Tensor zero_gradient(const Grad& g) { return zero_gradient_of<0>(g); }

/// A pointwise op with a shape rule and a kernel of its own.
inline OpBuilder shaped_op(Table& t, std::string_view schema, void (*shape)(Call&),
                           void (*kernel)(Call&),
                           std::source_location where = std::source_location::current()) {
    return t.add(schema, where).shape(shape).kernel(kernel).pointwise().strided_output().out_form();
}
/// The same with the shape rule of ops that keep the promoted dtype.
inline OpBuilder shaped_op(Table& t, std::string_view schema, void (*kernel)(Call&),
                           std::source_location where = std::source_location::current()) {
    return shaped_op(t, schema, pointwise<Result::Same>, kernel, where);
}

/// `Real`, or F where the input is complex.
template <class F, Result R, void (*Real)(Call&)>
void or_complex(Call& c) {
    if (is_complex(c.in[0].dtype())) map_kernel<F, ComplexTypes, R, 1>(c);
    else Real(c);
}

/// A function from floating to floating numbers, which integers become first.
template <class F>
OpBuilder real_op(Table& t, std::string_view name,
                  std::source_location where = std::source_location::current()) {
    auto schema = text(name, "(Tensor self) -> Tensor");
    return pointwise_op<F, FloatingTypes, Result::Float, 1>(t, schema, where).inplace();
}
/// The same, with G for complex numbers.
template <class F, class G>
OpBuilder analytic_op(Table& t, std::string_view name,
                      std::source_location where = std::source_location::current()) {
    return real_op<F>(t, name, where)
        .kernel(or_complex<G, Result::Float, map_kernel<F, FloatingTypes, Result::Float, 1>>);
}
/// Samples of a function of one tensor whose elements lie in `range` ("lo=0.5, hi=2").
inline std::vector<std::string> unary_samples(const std::string& range = "") {
    std::string rest = range.empty() ? "" : ", " + range;
    return {"f(T(2, 3" + rest + "))", "f(T(" + range + "))", "f(T(0, 3))"};
}

}  // namespace weft::ops
