#include "ops/widen.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/half_loops.h"
#include "ops/matmul.h"
#include "ops/pointwise.h"
#include "ops/shape.h"

namespace weft::ops {
namespace {

/// Elements of a block: its wide operands stay in a second-level cache.
constexpr int64_t kBlock = 1 << 17;

Tensor wide(const Tensor& t) {
    if (!t.defined() || !is_narrow(t.dtype())) return t;
    return as_dtype(t, widened(t.dtype()));
}

/// One result, each element from the same place of dense inputs or from a single number, and an
/// error (division of integers) cannot leave half of a written tensor changed.
bool goes_in_blocks(const Call& c) {
    const Tensor& out = c.out(0);
    if (!c.op->pointwise || c.op->random || c.outputs != 1) return false;
    if (out.numel() <= kBlock || !out.contiguous()) return false;
    if (c.dest.defined() && !is_inexact(out.dtype())) return false;
    for (int i = 0; i < c.inputs; ++i) {
        const Tensor& t = c.in[i];
        if (!t.defined()) return false;
        if (t.ndim() == 0) continue;
        if (!t.contiguous() || t.numel() != out.numel()) return false;
    }
    return true;
}

/// Elements [begin, begin + n) of a contiguous tensor.
Tensor piece(const Tensor& t, int64_t begin, int64_t n) {
    if (t.ndim() == 0) return t;
    int64_t step = 1;
    return t.view_as(DimSpan(&n, 1), DimSpan(&step, 1), begin);
}

/// What a pointwise op promotes its operands to, if that is narrow and they become of it before
/// they are wide: integers wrap (255 % -2 of uint8 is 255 % 254, and 255 == -1), and what is
/// compared is rounded (1e6 of float16 is inf). Else Bool.
DType dtype_first(const Call& c) {
    if (!c.op->pointwise) return DType::Bool;
    const DType made = c.out(0).dtype();
    const DType computed = made == DType::Bool ? promoted(c.in, c.inputs) : made;
    const bool first = category(computed) == Category::Integer || made == DType::Bool;
    return first && is_narrow(computed) ? computed : DType::Bool;
}

bool becomes_first(DType first, const Tensor& t) {
    if (first == DType::Bool || !t.defined() || t.dtype() == first) return false;
    return category(t.dtype()) <= category(first) && t.dtype() != DType::Bool;
}

/// The last of the dtypes in the order of the enumerators: the float8 ones are behind all others, and
/// the unsigned ones behind all but these and complex32.
DType last_dtype(const Call& c) {
    DType last = DType::Bool;
    for (int i = 0; i < c.inputs; ++i)
        if (c.in[i].defined()) last = std::max(last, c.in[i].dtype());
    for (int k = 0; k < c.outputs; ++k) last = std::max(last, c.out(k).dtype());
    return last;
}

/// Whether an operand or a result is of uint64.
bool has_uint64(const Call& c) {
    bool any = false;
    for (int i = 0; i < c.inputs; ++i) any |= c.in[i].defined() && c.in[i].dtype() == DType::UInt64;
    for (int k = 0; k < c.outputs; ++k) any |= c.out(k).dtype() == DType::UInt64;
    return any;
}

/// The floating dtype in which the op computes, if it does: then uint64 may become of it first.
bool computes_floating(const Call& c, DType& computed) {
    computed = is_inexact(c.out(0).dtype())      ? c.out(0).dtype()
               : c.op->uint64 == Uint64::Numbers ? DType::Float64
               : c.op->pointwise                 ? promoted(c.in, c.inputs)
                                                 : DType::UInt64;
    return is_inexact(computed);
}

/// int64 with the order of the uint64 of the same bits, and back.
void flip_order(const Tensor& t) {
    constexpr uint64_t first = uint64_t{1} << 63;
    auto* bits = t.data<int64_t>();
    for (int64_t i = 0; i < t.numel(); ++i)
        bits[i] = static_cast<int64_t>(static_cast<uint64_t>(bits[i]) ^ first);
}

/// Gives the kernel for uint64 what it takes (Note [Narrow dtypes]). Whether the order was flipped.
bool replace_uint64(const Call& c, std::vector<Tensor>& in) {
    DType computed;
    const bool pointwise = c.op->pointwise;
    const bool floating = computes_floating(c, computed);
    if (c.op->uint64 == Uint64::Refused && !(pointwise && floating))
        fail_not_implemented(c.name(), DType::UInt64);
    const bool flips = c.op->uint64 == Uint64::Order && !floating;
    for (Tensor& t : in) {
        if (!t.defined() || category(t.dtype()) > Category::Integer) continue;
        if (t.dtype() != DType::UInt64 && !(flips && pointwise)) continue;
        if (floating) {
            t = as_dtype(t, computed);
        } else if (flips) {
            t = as_dtype(as_dtype(t, DType::UInt64), DType::Int64);
            flip_order(t);
        }
    }
    return flips;
}

void run_whole(Call& c) {
    std::vector<Tensor> in(c.in, c.in + c.inputs), out;
    const DType last = last_dtype(c);
    if (last >= DType::UInt16 && c.op->pointwise)
        promoted(c.in, c.inputs);  // comparisons have not asked for it, and there may be none
    const DType first = dtype_first(c);
    const bool flipped = last >= DType::UInt64 && has_uint64(c) && replace_uint64(c, in);
    for (Tensor& t : in) t = wide(becomes_first(first, t) && !flipped ? as_dtype(t, first) : t);
    const OtherOperands widened_in(c, in.data());
    for (int k = 0; k < c.outputs; ++k) {
        out.push_back(c.out(k));
        if (!is_narrow(out[k].dtype())) continue;
        // what is written in place may have gaps, for which its own memory has none
        c.out(k) = Tensor::layout(widened(out[k].dtype()), out[k].shape(), dense_strides(out[k]));
        c.out(k).allocate();
    }
    c.op->kernel(c);
    for (int k = 0; k < c.outputs; ++k) {
        if (flipped && out[k].dtype() == DType::UInt64) flip_order(c.out(k));
        if (is_narrow(out[k].dtype())) copy_into(out[k], c.out(k));
        c.out(k) = std::move(out[k]);
    }
}

// ---- strips ------------------------------------------------------------------------------------

/// Elements of a strip: its wide operands stay in the first-level cache.
constexpr int64_t kStrip = 1024;
/// Fewer elements are done before the loop is found.
constexpr int64_t kFewest = 1024;
/// Shorter rows than this take longer one by one than all converted at once.
constexpr int64_t kShortest = 32;

/// A pointwise loop around another, for operands of which some are converted into that, and its
/// result out of it; or around the one over halves (Note [Halves in registers]).
struct Strips {
    struct Operand {
        kernels::MapLoop convert = nullptr;  ///< null: of the loop's dtype
        int64_t item = 0, wide_item = 0;
    };
    const LoopCall& found;
    Operand at[4];                         ///< the result first
    kernels::MapLoop of_halves = nullptr;  ///< null: there is none, or operands are of other dtypes

    /// A MapLoop.
    static void run(const void* self, char* const* p, const int64_t* s, int64_t n) {
        const Strips& q = *static_cast<const Strips*>(self);
        if (q.of_halves && q.dense(s)) q.run_halves(p, s, n);
        else q.run_strips(p, s, n);
    }

private:
    /// Whether each operand lies densely or is one element, if there are several.
    bool dense(const int64_t* s) const {
        bool all = s[0] == at[0].item;
        for (int k = 1; k <= found.operands; ++k)
            all &= s[k] == at[k].item || (s[k] == 0 && found.operands > 1);
        return all;
    }

    void run_halves(char* const* p, const int64_t* s, int64_t n) const {
        float numbers[4];
        char* to[4] = {p[0]};
        for (int k = 1; k <= found.operands; ++k) {
            to[k] = p[k];
            if (s[k] != 0 || !at[k].convert) continue;
            to[k] = reinterpret_cast<char*>(numbers + k);
            convert(at[k], to[k], sizeof(float), p[k], 0, 1);
        }
        of_halves(found.functor, to, s, n);
    }

    void run_strips(char* const* p, const int64_t* s, int64_t n) const {
        alignas(64) char buffer[4][kStrip * sizeof(int64_t)];
        char* to[4];
        int64_t steps[4];
        for (int k = 0; k <= found.operands; ++k)
            steps[k] = at[k].convert && (s[k] || k == 0) ? at[k].wide_item : s[k];
        for (int64_t i = 0; i < n; i += kStrip) {
            const int64_t m = std::min(kStrip, n - i);
            for (int k = 0; k <= found.operands; ++k) {
                to[k] = at[k].convert ? buffer[k] : p[k] + i * s[k];
                if (k > 0 && at[k].convert && (s[k] || i == 0))
                    convert(at[k], to[k], at[k].wide_item, p[k] + i * s[k], s[k], s[k] ? m : 1);
            }
            found.loop(found.functor, to, steps, m);
            if (at[0].convert) convert(at[0], p[0] + i * s[0], s[0], to[0], steps[0], m);
        }
    }

    static void convert(const Operand& o, char* to, int64_t to_step, char* from, int64_t from_step,
                        int64_t n) {
        char* const p[] = {to, from};
        const int64_t s[] = {to_step, from_step};
        o.convert(nullptr, p, s, n);
    }
};

/// What stands for the inputs while the kernel names its loop; empty if they are not of the kind.
std::vector<Tensor> strip_probes(const Call& c) {
    const DType first = dtype_first(c);
    std::vector<Tensor> probes;
    for (int i = 0; i < c.inputs; ++i) {
        const Tensor& t = c.in[i];
        if (!t.defined()) return {};
        if (t.ndim() == 0) {
            probes.push_back(wide(becomes_first(first, t) ? as_dtype(t, first) : t));
            continue;
        }
        if (becomes_first(first, t)) return {};
        probes.push_back(Tensor::empty(widened(t.dtype()), Dims{0}));
    }
    return probes;
}

/// Elements that any plan of the call has in a row, at least: along the dim of the smallest stride.
int64_t row_length(const Call& c) {
    const Tensor& out = c.out(0);
    bool flat = out.contiguous();
    for (int i = 0; i < c.inputs; ++i)
        flat &= c.in[i].ndim() == 0 || (c.in[i].contiguous() && c.in[i].numel() == out.numel());
    if (flat) return out.numel();
    int64_t length = 1, step = std::numeric_limits<int64_t>::max();
    for (int d = 0; d < out.ndim(); ++d) {
        if (out.size(d) == 1 || std::abs(out.stride(d)) >= step) continue;
        step = std::abs(out.stride(d));
        length = out.size(d);
    }
    return step ? length : 1;  // repeated elements are written once
}

bool is_strip_call(const Call& c) {
    const Tensor& out = c.out(0);
    if (!c.op->pointwise || c.op->random || c.outputs != 1) return false;
    if (out.numel() < kFewest || last_dtype(c) >= DType::UInt16) return false;
    for (int i = 0; i < c.inputs; ++i)
        if (!c.in[i].defined()) return false;
    return (!c.dest.defined() || is_inexact(out.dtype())) && row_length(c) >= kShortest;
}

/// One result, by a kernel that is one loop: strip by strip, converted in the first-level cache, or
/// in registers. False: it is something else.
bool run_in_strips(Call& c) {
    if (!is_strip_call(c)) return false;
    const Tensor& out = c.out(0);
    const std::vector<Tensor> probes = strip_probes(c);
    if (probes.empty()) return false;
    LoopCall found(*c.op, probes.data(), c.inputs, c.attrs);
    found.add_output(widened(out.dtype()), Dims{0});
    try {
        c.op->kernel(found);
    } catch (const Error&) {
        return false;  // it will say so when it runs
    }
    if (!found.loop || found.other) return false;
    const DType dtype = out.dtype();
    bool halves = is_half(dtype);
    Strips strips{found, {}};
    const auto operand = [](DType to, DType from) {
        const int64_t small = std::min(item_size(to), item_size(from));
        return Strips::Operand{to == from ? nullptr : cast_loop(to, from), small,
                               std::max(item_size(to), item_size(from))};
    };
    strips.at[0] = operand(dtype, widened(dtype));
    Tensor in[3];
    for (int k = 0; k < found.operands; ++k) {
        const Tensor& t = found.operand[k];
        if (t.ndim() == 0) {
            in[k] = as_contiguous(t, found.to[k]);
            strips.at[k + 1] = operand(found.to[k], found.to[k]);
            continue;
        }
        int i = 0;
        while (i < c.inputs && !probes[static_cast<size_t>(i)].same(t)) ++i;
        if (i == c.inputs || found.to[k] != t.dtype()) return false;
        in[k] = c.in[i];
        halves &= in[k].dtype() == dtype;
        strips.at[k + 1] = operand(t.dtype(), in[k].dtype());
    }
    if (halves) strips.of_halves = kernels::half_loop(found.loop, dtype == DType::BFloat16);
    run_map(Strips::run, &strips, out, in, found.operands);
    return true;
}

/// Whether the call asks for its result in another dtype than float8: then the op computes in that.
bool asks_for_dtype(const Call& c) {
    for (int k = 0; k < std::ssize(c.op->defaults); ++k)
        if (c.attr(k).kind() == Value::Kind::DType && !is_float8(c.attr(k).as_dtype())) return true;
    return false;
}

/// Throws where the call would compute in a float8 dtype.
void refuse_float8(const Call& c) {
    if (c.op->float8) return;
    DType last = last_dtype(c);
    if (is_float8(last) && !asks_for_dtype(c)) fail_not_implemented(c.name(), last);
}

}  // namespace

void run_widened(Call& c) {
    refuse_float8(c);
    if (!goes_in_blocks(c)) return run_whole(c);
    const Tensor* inputs = c.in;
    Tensor whole = c.out(0);
    std::vector<Tensor> in(c.inputs);
    for (int64_t begin = 0; begin < whole.numel(); begin += kBlock) {
        int64_t n = std::min(kBlock, whole.numel() - begin);
        for (int i = 0; i < c.inputs; ++i) in[i] = piece(inputs[i], begin, n);
        const OtherOperands now(c, in.data());
        c.out(0) = piece(whole, begin, n);
        run_whole(c);
    }
    c.out(0) = std::move(whole);
}

void run_narrow(Call& c) {
    if (c.op->every_dtype) {
        if (c.op->random) refuse_float8(c);
        return c.op->kernel(c);
    }
    if (!run_bf16_product(c) && !run_in_strips(c)) run_widened(c);
}

}  // namespace weft::ops
