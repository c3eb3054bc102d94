/// C++ names for ops, for gradient rules and composites: `ops::mul(a, b)`, `a * b`.
#pragma once
#include "ops/call.h"

namespace weft::ops {

/// An op by name, looked up once. Tensors become inputs, everything else attributes, both in
/// schema order; attributes left out take their defaults.
class Function {
public:
    constexpr explicit Function(const char* name) : name_(name) {}

    template <class... Args>
    Tensor operator()(const Args&... args) const {
        constexpr int tensors = (0 + ... + (std::is_same_v<Args, Tensor> ? 1 : 0));
        constexpr int values = sizeof...(Args) - tensors;
        if constexpr (values == 0) {
            const Tensor in[] = {args...};
            return run(in, tensors);
        } else {
            Tensor in[tensors + 1];
            Value attrs[values];
            int t = 0, v = 0;
            (place(in, t, attrs, v, args), ...);
            return run(in, tensors, attrs, values);
        }
    }
    /// Several outputs.
    std::vector<Tensor> all(std::initializer_list<Tensor> in,
                            std::initializer_list<Value> attrs = {}) const;
    /// An op whose input is a list of tensors.
    Tensor over(const std::vector<Tensor>& in, std::initializer_list<Value> attrs = {}) const;
    const Op& op() const { return op_ ? *op_ : *(op_ = &table().at(name_)); }

private:
    template <class A>
    static void place(Tensor* in, int& t, Value* attrs, int& v, const A& arg) {
        if constexpr (std::is_same_v<A, Tensor>)
            in[t++] = arg;
        else
            attrs[v++] = Value(arg);
    }
    Tensor run(const Tensor* in, int inputs) const;
    Tensor run(const Tensor* in, int inputs, const Value* attrs, int given) const;

    const char* name_;
    mutable const Op* op_ = nullptr;
};

#define WEFT_FUNCTION(name) inline const Function name{#name};
WEFT_FUNCTION(add) WEFT_FUNCTION(sub) WEFT_FUNCTION(mul) WEFT_FUNCTION(div) WEFT_FUNCTION(pow)
WEFT_FUNCTION(neg) WEFT_FUNCTION(exp) WEFT_FUNCTION(log) WEFT_FUNCTION(sqrt) WEFT_FUNCTION(sin)
WEFT_FUNCTION(cos) WEFT_FUNCTION(sign) WEFT_FUNCTION(sigmoid) WEFT_FUNCTION(tanh)
WEFT_FUNCTION(where) WEFT_FUNCTION(eq) WEFT_FUNCTION(ne) WEFT_FUNCTION(gt) WEFT_FUNCTION(ge)
WEFT_FUNCTION(lt) WEFT_FUNCTION(le) WEFT_FUNCTION(logical_and) WEFT_FUNCTION(logical_not)
WEFT_FUNCTION(isnan) WEFT_FUNCTION(masked_fill) WEFT_FUNCTION(floor) WEFT_FUNCTION(trunc)
WEFT_FUNCTION(matmul) WEFT_FUNCTION(mm) WEFT_FUNCTION(bmm)
WEFT_FUNCTION(expand) WEFT_FUNCTION(reshape) WEFT_FUNCTION(view) WEFT_FUNCTION(transpose)
WEFT_FUNCTION(permute) WEFT_FUNCTION(select) WEFT_FUNCTION(slice) WEFT_FUNCTION(narrow)
WEFT_FUNCTION(unsqueeze) WEFT_FUNCTION(squeeze) WEFT_FUNCTION(as_strided) WEFT_FUNCTION(clone)
WEFT_FUNCTION(cat) WEFT_FUNCTION(stack) WEFT_FUNCTION(flip) WEFT_FUNCTION(contiguous)
WEFT_FUNCTION(gather) WEFT_FUNCTION(scatter_add) WEFT_FUNCTION(index_select)
WEFT_FUNCTION(index_add) WEFT_FUNCTION(cumsum) WEFT_FUNCTION(to)
WEFT_FUNCTION(maximum) WEFT_FUNCTION(minimum)
#undef WEFT_FUNCTION
inline const Function sum{"sum"}, sum_dim{"sum.dim"};

/// A number as a 0-d operand that takes the other side's dtype in promotion.
Tensor number(double value, DType like);
/// New tensors shaped like another one.
Tensor zeros(DimSpan shape, DType dtype);
Tensor full_like(const Tensor& like, double value);
/// sum += t, for tensors outside the graph.
void add_into(const Tensor& sum, const Tensor& t);
/// Sums `t` down to `shape` (the inverse of broadcasting). Returns `t` if nothing is to do.
Tensor sum_to(const Tensor& t, DimSpan shape);

}  // namespace weft::ops

namespace weft {

inline Tensor operator+(const Tensor& a, const Tensor& b) { return ops::add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return ops::sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return ops::mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return ops::div(a, b); }
inline Tensor operator-(const Tensor& a) { return ops::neg(a); }
inline Tensor operator+(const Tensor& a, double b) { return a + ops::number(b, a.dtype()); }
inline Tensor operator-(const Tensor& a, double b) { return a - ops::number(b, a.dtype()); }
inline Tensor operator*(const Tensor& a, double b) { return a * ops::number(b, a.dtype()); }
inline Tensor operator/(const Tensor& a, double b) { return a / ops::number(b, a.dtype()); }
inline Tensor operator+(double a, const Tensor& b) { return ops::number(a, b.dtype()) + b; }
inline Tensor operator-(double a, const Tensor& b) { return ops::number(a, b.dtype()) - b; }
inline Tensor operator*(double a, const Tensor& b) { return ops::number(a, b.dtype()) * b; }
inline Tensor operator/(double a, const Tensor& b) { return ops::number(a, b.dtype()) / b; }

}  // namespace weft
