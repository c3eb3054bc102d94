#include "ops/widen.h"

#include <vector>

#include "base/lock.h"
#include "base/parallel.h"
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

/// A pointwise loop over operands of which some are converted into it, and its result out of it.
struct Strips {
    struct Operand {
        char* data = nullptr;
        int64_t item = 0;                    ///< 0: one element repeated
        kernels::MapLoop convert = nullptr;  ///< null: of the loop's dtype
        int64_t wide_item = 0;
    };
    const LoopCall& found;
    Operand at[4];  ///< the result first

    /// Elements [begin, end).
    void run(int64_t begin, int64_t end) const {
        alignas(64) char buffer[4][kStrip * sizeof(int64_t)];
        for (int64_t i = begin; i < end; i += kStrip) {
            const int64_t n = std::min(kStrip, end - i);
            char* p[4];
            int64_t s[4];
            for (int k = 0; k <= found.operands; ++k) {
                const Operand& o = at[k];
                p[k] = o.convert ? buffer[k] : o.data + i * o.item;
                s[k] = o.convert ? o.wide_item : o.item;
                if (k > 0 && o.convert)
                    convert(o, p[k], o.wide_item, o.data + i * o.item, o.item, n);
            }
            found.loop(found.functor, p, s, n);
            if (at[0].convert)
                convert(at[0], at[0].data + i * at[0].item, at[0].item, p[0], s[0], n);
        }
    }

private:
    static void convert(const Operand& o, char* to, int64_t to_step, char* from, int64_t from_step,
                        int64_t n) {
        char* const p[] = {to, from};
        const int64_t s[] = {to_step, from_step};
        o.convert(nullptr, p, s, n);
    }
};

/// What stands for the inputs while the kernel names its loop; empty if they are not of the kind.
std::vector<Tensor> strip_probes(const Call& c) {
    const Tensor& out = c.out(0);
    const DType first = dtype_first(c);
    std::vector<Tensor> probes;
    for (int i = 0; i < c.inputs; ++i) {
        const Tensor& t = c.in[i];
        if (!t.defined()) return {};
        if (t.ndim() == 0) {
            probes.push_back(wide(becomes_first(first, t) ? as_dtype(t, first) : t));
            continue;
        }
        if (!t.contiguous() || t.numel() != out.numel() || becomes_first(first, t)) return {};
        probes.push_back(Tensor::empty(widened(t.dtype()), Dims{0}));
    }
    return probes;
}

bool is_strip_call(const Call& c) {
    const Tensor& out = c.out(0);
    if (!c.op->pointwise || c.op->random || c.outputs != 1) return false;
    if (out.numel() < kFewest || !out.contiguous() || last_dtype(c) >= DType::UInt16) return false;
    return !c.dest.defined() || is_inexact(out.dtype());
}

/// One result of dense operands and single numbers, by a kernel that is one loop: strip by strip,
/// converted in the first-level cache. False: it is something else.
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
    Strips strips{found, {}};
    const auto operand = [](const Tensor& t, DType wide_dtype, bool is_result) {
        const DType dtype = t.dtype();
        Strips::Operand o{t.bytes(), item_size(dtype), nullptr, item_size(wide_dtype)};
        if (dtype != wide_dtype)
            o.convert = is_result ? cast_loop(dtype, wide_dtype) : cast_loop(wide_dtype, dtype);
        return o;
    };
    strips.at[0] = operand(out, widened(out.dtype()), true);
    Tensor numbers[3];
    for (int k = 0; k < found.operands; ++k) {
        const Tensor& t = found.operand[k];
        if (t.ndim() == 0) {
            numbers[k] = as_contiguous(t, found.to[k]);
            strips.at[k + 1] = {numbers[k].bytes(), 0, nullptr, 0};
            continue;
        }
        int i = 0;
        while (i < c.inputs && !probes[static_cast<size_t>(i)].same(t)) ++i;
        if (i == c.inputs || found.to[k] != t.dtype()) return false;
        strips.at[k + 1] = operand(c.in[i], t.dtype(), false);
    }
    Unlocked unlocked(out.numel());
    parallel_for(out.numel(), kPointwiseGrain,
                 [&](int64_t begin, int64_t end) { strips.run(begin, end); });
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
    if (c.op->float8 || (c.op->every_dtype && !c.op->random)) return;
    DType last = last_dtype(c);
    if (is_float8(last) && !asks_for_dtype(c)) fail_not_implemented(c.name(), last);
}

void run_widened(Call& c) {
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

}  // namespace

void run_narrow(Call& c) {
    refuse_float8(c);
    if (c.op->every_dtype) return c.op->kernel(c);
    if (!run_bf16_product(c) && !run_in_strips(c)) run_widened(c);
}

}  // namespace weft::ops
