/// C++ names for ops, for gradient rules and composites: `ops::mul(a, b)`, `a * b`.
#pragma once
#include <atomic>

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
    const Op& op() const {
        const Op* known = op_.load(std::memory_order_relaxed);
        if (!known) [[unlikely]]
            op_.store(known = &table().at(name_), std::memory_order_relaxed);
        return *known;
    }

private:
    template <class A>
    static void place(Tensor* in, int& t, Value* attrs, int& v, const A& arg) {
        if constexpr (std::is_same_v<A, Tensor>) in[t++] = arg;
        else attrs[v++] = Value(arg);
    }
    Tensor run(const Tensor* in, int inputs) const;
    Tensor run(const Tensor* in, int inputs, const Value* attrs, int given) const;

    const char* name_;
    /// Threads that look it up at the same time find the same.
    mutable std::atomic<const Op*> op_{nullptr};
};

inline const Function add{"add"}, sub{"sub"}, mul{"mul"}, div{"div"}, pow{"pow"}, neg{"neg"},
    exp{"exp"}, log{"log"}, sqrt{"sqrt"}, sin{"sin"}, cos{"cos"}, sign{"sign"}, sigmoid{"sigmoid"},
    tanh{"tanh"}, where{"where"}, eq{"eq"}, ne{"ne"}, gt{"gt"}, ge{"ge"}, lt{"lt"}, le{"le"},
    logical_and{"logical_and"}, logical_not{"logical_not"}, isnan{"isnan"},
    masked_fill{"masked_fill"}, floor{"floor"}, trunc{"trunc"}, matmul{"matmul"}, mm{"mm"},
    bmm{"bmm"}, expand{"expand"}, reshape{"reshape"}, view{"view"}, transpose{"transpose"},
    permute{"permute"}, select{"select"}, slice{"slice"}, narrow{"narrow"}, unsqueeze{"unsqueeze"},
    squeeze{"squeeze"}, as_strided{"as_strided"}, clone{"clone"}, cat{"cat"}, stack{"stack"},
    flip{"flip"}, contiguous{"contiguous"}, gather{"gather"}, scatter_add{"scatter_add"},
    index_select{"index_select"}, index_add{"index_add"}, cumsum{"cumsum"}, to{"to"},
    maximum{"maximum"}, minimum{"minimum"}, sum{"sum"}, sum_dim{"sum.dim"}, absolute{"abs"},
    amax{"amax"}, constant_pad{"constant_pad_nd"}, contiguous_copy{"_contiguous_copy"},
    diag_embed{"diag_embed"}, diagonal{"diagonal"}, div_backward{"div_backward"}, eye{"eye"},
    gather_backward{"gather_backward"}, index_backward{"index_backward"}, index_op{"index"},
    linear{"linear"}, log1p{"log1p"}, logical_or{"logical_or"}, mean_dim{"mean.dim"},
    place_along{"_place_along"}, real{"real"}, reciprocal{"reciprocal"}, relu{"relu"},
    rsqrt{"rsqrt"}, sgn{"sgn"}, slice_backward{"slice_backward"}, softmax{"softmax"},
    softmax_backward{"_softmax_backward_data"}, softplus{"softplus"}, solve_ex{"linalg_solve_ex"},
    solve_triangular{"linalg_solve_triangular"}, square{"square"}, squeeze_dim{"squeeze.dim"},
    svd{"linalg_svd"}, tril{"tril"}, triu{"triu"}, unsafe_view{"_unsafe_view"};

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
