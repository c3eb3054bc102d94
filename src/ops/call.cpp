#include "ops/call.h"

#include "kernels/simd.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/reuse.h"
#include "ops/watch.h"
#include "ops/widen.h"
#include "ops/write.h"

namespace weft::ops {

Hooks hooks;

namespace {

constexpr uint32_t kTrackedMark = uint32_t{kTracked} << Tensor::kFlagsAt;
constexpr uint32_t kMetaMark = uint32_t{kMeta} << Tensor::kFlagsAt;
constexpr uint32_t kDispatchMark = uint32_t{kDispatching} << Tensor::kFlagsAt;

/// Dtypes and flags of operands, in one word (Tensor::marks).
WEFT_INLINE uint32_t marks_of_operands(const Call& c) {
    uint32_t marks = 0;
    for (int i = 0; i < c.inputs; ++i)
        if (c.in[i].defined()) marks |= c.in[i].marks();
    return marks;
}

/// The same of results.
WEFT_INLINE uint32_t marks_of_results(const Call& c) {
    uint32_t marks = c.out(0).defined() ? c.out(0).marks() : 0;
    for (int k = 1; k < c.outputs; ++k) marks |= c.out(k).marks();
    return marks;
}

WEFT_INLINE uint32_t marks_of(const Call& c) { return marks_of_operands(c) | marks_of_results(c); }

/// Whether an operand is of the meta device.
bool has_meta(const Call& c) {
    for (int i = 0; i < c.inputs; ++i)
        if (c.in[i].defined() && c.in[i].on_meta()) return true;
    return false;
}

void run_kernel(Call& c) {
    if (marks_of(c) & kNarrowBit) [[unlikely]]
        return run_narrow(c);
    c.op->kernel(c);
}

/// What is left when the results have memory and values: the graph, and what the modes make of them.
/// `marks`: of the operands.
WEFT_INLINE void finish(Call& c, uint32_t marks) {
    const Op& op = *c.op;
    if (mode & kGradMode) {
        if (op.view || (marks & kTrackedMark && op.differentiable())) hooks.record(c);
    } else if (op.view && c.in[0].has(kTracked)) {
        hooks.record(c);   // nothing is recorded, but a view stays known as one
    } else if (op.view) {  // in inference mode too: as normal a tensor as its base
        if (!c.in[0].has(kInference))
            for (int k = 0; k < c.outputs; ++k) c.out(k).set(kLooseView);
    } else if (mode & kInferenceMode) {
        for (int k = 0; k < c.outputs; ++k) c.out(k).set(kInference);
    }
}

void give_memory(Call& c) {
    if (!c.op->view) {
        for (int k = 0; k < c.outputs; ++k) c.out(k).allocate();
        return;
    }
    for (int k = 0; k < c.outputs; ++k) c.out(k).share(c.in[0], c.offset_of_view(k));
}

std::string who(const Call& c) { return text(c.name(), c.in_place ? "_" : ""); }

const char* device_of(const Tensor& t) { return t.has(kMeta) ? "meta" : "cpu"; }

/// Writes what a class knows, or into it, by its `copy_`.
void write_by_class(const Tensor& dest, const Tensor& made) {
    static const Function copy{"copy"};
    const Tensor in[] = {dest, made};
    Call c(copy.op(), in, 2, copy.op().defaults.data());
    c.dest = dest;
    c.in_place = true;
    call(c);
}

/// Has a mode or a class of an operand carry out what is no composite (Note [Dispatch]).
[[gnu::noinline]] void dispatch(Call& c) {
    if (c.dest.defined() && !c.in_place) {
        if (hooks.before_write) hooks.before_write(c);
        Call apart(*c.op, c.in, c.inputs, c.attrs);
        call(apart);
        const Tensor made = apart.out(0);
        if (made.has(kDispatching) || c.dest.has(kDispatching)) write_by_class(c.dest, made);
        else write_result(c, c.dest, made);
        return c.set(c.dest);
    }
    if (!hooks.dispatch(c)) finish(c, marks_of_operands(c));
}

/// Whether the results of `c` are meta (Note [On meta]).
bool makes_meta(const Call& c) {
    bool any_memory = c.dest.defined();
    for (int i = 0; i < c.inputs; ++i) {
        const Tensor& t = c.in[i];
        if (!t.defined()) continue;
        if (t.on_meta()) return true;
        any_memory |= t.has(kPending) || t.storage();
    }
    return (mode & kMetaMode) && c.op->factory && !any_memory;
}

/// Whether `c` is never kept: its results are meta, or a class carries it out.
bool runs_at_once(const Call& c) {
    const uint32_t marks = marks_of_operands(c) | (c.dest.defined() ? c.dest.marks() : 0);
    return marks & (kMetaMark | kDispatchMark) || ((mode & kMetaMode) && makes_meta(c));
}

/// Throws unless the operands lie on one device.
void expect_one_device(const Call& c) {
    const Tensor* first = nullptr;
    for (int i = 0; i < c.inputs; ++i) {
        const Tensor& t = c.in[i];
        if (!t.defined() || (t.ndim() == 0 && !t.has(kMeta)) || c.op->any_device.has(i)) continue;
        if (!first) first = &t;
        WEFT_EXPECT(
            t.has(kMeta) == first->has(kMeta), Runtime, who(c), "operands on one device",
            text(
                device_of(*first), " and ", device_of(t),
                " (Expected all tensors to be on the same device, but found at least two devices, ",
                device_of(*first), " and ", device_of(t), "!)"),
            "move the others there with to(\"meta\"), or make all of them on the CPU");
    }
}

/// Throws unless what `c` makes may be written to `dest`, of another call than in-place ones.
void expect_device_of(const Call& c, const Tensor& dest) {
    const bool on_meta = (c.op->factory && dest.has(kMeta)) || has_meta(c);
    const char* from = on_meta ? "meta" : "cpu";
    WEFT_EXPECT(on_meta == dest.has(kMeta), Runtime, who(c),
                text("an out= on the device of the operands, ", from),
                text(device_of(dest), " (Attempting to copy from device ", from, " to device ",
                     device_of(dest), ", but cross-device copies are not allowed!)"));
}

/// Throws unless a call with a destination, of which some tensor is meta, may go there.
void expect_places(const Call& c) {
    expect_one_device(c);
    if (!c.in_place) return expect_device_of(c, c.dest);
    if (!c.dest.has(kMeta)) fail_copying_out(who(c));
}

void check_fits(const Call& c, const Tensor& dest, const Tensor& result) {
    WEFT_EXPECT(category(result.dtype()) <= category(dest.dtype()) ||
                    result.dtype() == dest.dtype(),
                Runtime, who(c), "a result that fits the tensor that is written",
                text(name(result.dtype()), " (result type ", scalar_name(result.dtype()),
                     " can't be cast to the desired output type ", scalar_name(dest.dtype()), ")"));
    WEFT_EXPECT(!dest.storage()->read_only, Runtime, who(c), "memory that may be written",
                "a tensor over read-only memory of another library", "clone() it before writing");
}

void check_writable(const Call& c, const Tensor& result) {
    const Tensor& dest = c.dest;
    WEFT_EXPECT(equal(result.shape(), dest.shape()), Runtime, who(c),
                "a result of the same shape as the tensor that is written",
                text("another one (output with shape ", to_string(dest.shape()),
                     " doesn't match the broadcast shape ", to_string(result.shape()), ")"),
                "an in-place operation cannot change the shape of its tensor");
    check_fits(c, dest, result);
    if (c.in_place && c.op->writes_repeats) return;
    const int expanded = dest.numel() ? repeated_dim(dest.shape(), dest.strides()) : -1;
    WEFT_EXPECT(
        expanded < 0, Runtime, who(c), "a tensor whose elements lie apart",
        text(
            "one expanded along dimension ", expanded,
            " (unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation.)"));
}

/// As PyTorch: an out= of another shape is resized, with a warning unless it was empty.
void fit_destination(const Call& c, Write& write, const Tensor& dest, const Tensor& result) {
    DimSpan shape = result.shape();
    if (equal(dest.shape(), shape)) return;
    check_fits(c, dest, result);
    for (int i = 0; i < c.inputs; ++i)
        WEFT_EXPECT(!c.in[i].defined() || !c.in[i].same(dest), Runtime, who(c),
                    text("an out= of the result's shape ", to_string(shape), ", as it is an input"),
                    text(to_string(dest.shape()), " (output doesn't match the broadcast shape)"));
    if (dest.numel() && hooks.warn)
        hooks.warn(text("[out] expected a tensor of the result's shape ", to_string(shape),
                        ", got ", to_string(dest.shape()),
                        " (An output with one or more elements was resized). Hint: pass an empty "
                        "tensor, or out.resize_(0) first"));
    write.resize(shape);
}

/// A kernel may write straight over an input only where each element is read before it is written.
bool can_write_through(const Call& c, const Tensor& result) {
    if (!c.op->strided_output || result.dtype() != c.dest.dtype()) return false;
    for (int i = 0; i < c.inputs; ++i) {
        const Tensor& in = c.in[i];
        if (!in.defined() || !in.may_overlap(c.dest)) continue;
        bool same = in.bytes() == c.dest.bytes() && in.dtype() == c.dest.dtype() &&
                    equal(in.shape(), c.dest.shape()) && equal(in.strides(), c.dest.strides());
        if (!same) return false;
    }
    return true;
}

/// As PyTorch refuses them: operands that share memory with what is written (Op::overlap). Where
/// elements repeat or lie apart it does not look.
void check_overlap(const Call& c, const Tensor& dest) {
    if (c.op->overlap == Overlap::Any) return;
    for (int i = c.in_place; i < c.inputs; ++i) {
        const Tensor& in = c.in[i];
        if (!in.defined() || c.op->overlap_allowed.has(i) || !in.may_overlap(dest)) continue;
        bool same = c.op->overlap == Overlap::Same && in.bytes() == dest.bytes() &&
                    equal(in.shape(), dest.shape()) && equal(in.strides(), dest.strides());
        bool dense = is_dense(in.shape(), in.strides()) && is_dense(dest.shape(), dest.strides());
        WEFT_EXPECT(same || !dense, Runtime, who(c),
                    "operands apart from what is written (unsupported operation: some elements of "
                    "the input tensor and the written-to tensor refer to a single memory location. "
                    "Please clone() the tensor before performing the operation.)",
                    text("input ", i, " over the same memory"));
    }
}

/// Note [In place]
/// In-place and out= forms are the op itself with a destination. The shape rule runs as always; its
/// result must have the destination's shape and a dtype that fits. Kernels that write any layout
/// write through; the result of others is made apart and copied, which also covers operands that
/// overlap the destination. Then the version goes up and the graph hears of it (Note [Writing]).
void call_into(Call& c) {
    const uint32_t marks = marks_of_operands(c) | c.dest.marks();
    if (marks & (kMetaMark | kDispatchMark)) [[unlikely]] {
        if (marks & kDispatchMark) return dispatch(c);
        expect_places(c);
    }
    const bool on_meta = c.dest.has(kMeta);
    Write write(c.dest);
    std::vector<Tensor> before;
    if (hooks.before_write) before = hooks.before_write(c);
    c.op->shape(c);
    if (!c.in_place) fit_destination(c, write, c.dest, c.out(0));
    check_writable(c, c.out(0));
    const bool through = can_write_through(c, c.out(0));
    if (!through || c.op->overlap == Overlap::None) check_overlap(c, c.dest);
    if (through || on_meta) {
        c.out(0) = c.dest;
        for (int k = 1; k < c.outputs; ++k) c.out(k).allocate_beside(c.dest);
        if (!on_meta) run_kernel(c);
    } else {
        give_memory(c);
        run_kernel(c);
        copy_into(c.dest, c.out(0));
        c.out(0) = c.dest;
    }
    write.commit();
    if (!before.empty()) hooks.after_write(c, before);
}

/// Note [On meta]: what is left of a call that is laid out.
void finish_on_meta(Call& c) {
    expect_one_device(c);
    if (c.op->view) give_memory(c);
    else
        for (int k = 0; k < c.outputs; ++k) c.out(k).allocate_meta();
    finish(c, marks_of_operands(c));
}

void run_body(Call& c) {
    if (!has_meta(c)) [[likely]]
        return c.op->body(c);
    const ModeGuard there(kMetaMode, 0);
    c.op->body(c);
}

bool can_reuse(const Call& c, const Tensor& in) {
    const Tensor& out = c.out(0);
    const bool recorded =
        (mode & kGradMode) && c.op->differentiable() && (marks_of_operands(c) & kTrackedMark);
    return c.op->pointwise && c.op->strided_output && c.outputs == 1 && !recorded &&
           out.dtype() == in.dtype() && equal(out.shape(), in.shape()) &&
           equal(out.strides(), in.strides()) && !(marks_of(c) & kNarrowBit);
}

/// What is left of a call that is laid out and in which a narrow dtype or a meta tensor takes part.
template <class Memory>
[[gnu::noinline]] void finish_marked(Call& c, const Memory& memory) {
    if (has_meta(c)) return finish_on_meta(c);
    memory(c);
    run_kernel(c);
    finish(c, marks_of_operands(c));
}

/// The same with an operand that is so, or of a class that carries the call out.
template <class Memory>
[[gnu::noinline]] void carry_out_marked(Call& c, const Memory& memory) {
    if (marks_of_operands(c) & kDispatchMark) return dispatch(c);
    c.op->shape(c);
    finish_marked(c, memory);
}

/// What is left of a call behind the modes; `memory` gives the outputs that the shape rule laid out
/// their bytes.
template <class Memory>
WEFT_INLINE void carry_out(Call& c, const Memory& memory) {
    const Op& op = *c.op;
    if (op.body) return run_body(c);
    if (c.dest.defined()) return call_into(c);
    const uint32_t marks = marks_of_operands(c);
    if (marks & (kNarrowBit | kMetaMark | kDispatchMark)) [[unlikely]]
        return carry_out_marked(c, memory);
    op.shape(c);
    if (marks_of_results(c) & (kNarrowBit | kMetaMark)) [[unlikely]]
        return finish_marked(c, memory);
    memory(c);
    op.kernel(c);
    finish(c, marks);
}

template <class Memory>
[[gnu::noinline]] void carry_out_watched(Call& c, const Memory& memory) {
    WatchSpan span(c);
    carry_out(c, memory);
    span.end(c);
}

/// Where kMetaMode is set: a factory's result lies there; a call on operands of the CPU, its body
/// included, is as it would be without.
[[gnu::noinline]] void carry_out_placed(Call& c) {
    const bool there = makes_meta(c);
    ModeGuard on_cpu(0, (!there && c.inputs > 0) * kMetaMode);
    if (!there || c.op->body || c.dest.defined() || marks_of_operands(c) & kDispatchMark)
        return carry_out(c, give_memory);
    c.op->shape(c);
    finish_on_meta(c);
}

/// Where a mode of operators is entered: it carries the call out, but for a composite, whose calls it does.
[[gnu::noinline]] void carry_out_dispatched(Call& c) {
    for (int i = 0; i < c.inputs; ++i)
        if (c.in[i].defined() && c.in[i].has(kPending)) settle(c.in[i]);
    const ModeGuard at_once(0, kDeferMode);
    if (c.op->body) return run_body(c);
    if (c.dest.defined() && !c.in_place) return dispatch(c);
    WatchSpan span(c);
    dispatch(c);
    span.end(c);
}

/// The door.
template <class Memory>
WEFT_INLINE void enter(Call& c, const Memory& memory) {
    constexpr uint32_t special =
        kDeferMode | kAutocastMode | kMapMode | kWatchMode | kTraceMode | kMetaMode | kDispatchMode;
    if (mode & special) [[unlikely]] {
        if (mode & kAutocastMode && hooks.autocast(c)) return;
        if (mode & kTraceMode && hooks.trace(c)) return;
        if (mode & kMapMode && hooks.map(c)) return;
        if (mode & kDispatchMode) return carry_out_dispatched(c);
        if (mode & kDeferMode) {
            if (!runs_at_once(c)) return hooks.defer(c);
            for (int i = 0; i < c.inputs; ++i)
                if (c.in[i].defined() && c.in[i].has(kPending)) settle(c.in[i]);
            ModeGuard at_once(0, kDeferMode);
            return call(c);
        }
        if (mode & kMetaMode) {
            if (!(mode & kWatchMode)) return carry_out_placed(c);
            WatchSpan span(c);
            carry_out_placed(c);
            return span.end(c);
        }
        if (mode & kWatchMode) {
            const bool whole = scopes.watcher && scopes.watcher->whole_inputs;
            return whole ? carry_out_watched(c, give_memory) : carry_out_watched(c, memory);
        }
    }
    carry_out(c, memory);
}

/// What the user wants to know of a call that failed, beside what was wrong with it.
[[gnu::cold]] void tell(const Call& c, Error& error) {
    if (error.told == c.op) return;  // once, for a call that a mode ran as another of the same op
    const bool is_first = !std::exchange(error.told, c.op);
    std::string operands;
    for (int i = 0; i < c.inputs; ++i) {
        const Tensor& t = c.in[i];
        operands += i ? ", " : "";
        operands += t.defined() ? text(name(t.dtype()), to_string(t.shape())) : "None";
    }
    error.context += text(is_first ? "in " : "\nin ", who(c), "(", operands, ")");
    if (!is_first) return;
    if (const Site site = Site::here()) error.context += " at " + site.place();
    if (hooks.failed) hooks.failed(c);
}

template <class Memory>
WEFT_INLINE void enter_telling(Call& c, const Memory& memory) {
    try {
        enter(c, memory);
    } catch (Error& error) {
        tell(c, error);
        throw;
    }
}

}  // namespace

void expect_values(const Call& c) {
    for (int i = 0; i < c.inputs; ++i)
        WEFT_EXPECT(!c.op->reads_values.has(i) || !c.in[i].has(kMeta), NotImplemented, who(c),
                    "operands with values, for the layout of the result depends on them",
                    text("a meta tensor (aten::", c.op->public_name,
                         ": attempted to run this operator with Meta tensors, but there was no "
                         "fake impl or Meta kernel registered.)"));
}

void settle(const Tensor& t) { promise(t).settle(t); }

void settle_for_call(const Tensor& t) {
    if (!(mode & promise(t).taken_in())) settle(t);
}

void call(Call& c) { enter_telling(c, give_memory); }

void call_over(Call& c, int dying) {
    enter_telling(c, [dying](Call& laid_out) {
        if (can_reuse(laid_out, laid_out.in[dying])) laid_out.out(0).share(laid_out.in[dying], 0);
        else give_memory(laid_out);
    });
}

void call_in_place_of(Call& c) {
    enter_telling(c, [](Call& laid_out) {
        if (laid_out.in[0].contiguous()) laid_out.out(0).share(laid_out.in[0], 0);
        else give_memory(laid_out);
    });
}

Kernel kernel_of(const Call& c) { return marks_of(c) & kNarrowBit ? run_narrow : c.op->kernel; }

void call_part(Call& c, FunctionRef<void(Call&)> memory) {
    c.op->shape(c);
    ModeGuard outside(0, kGradMode);
    memory(c);
    if (!c.op->view) run_kernel(c);
}

void write_result(const Call& c, const Tensor& dest, const Tensor& result) {
    expect_device_of(c, dest);
    Write write(dest);
    check_overlap(c, dest);
    fit_destination(c, write, dest, result);
    Call into(*c.op);
    into.dest = dest;
    check_writable(into, result);
    copy_into(dest, result);
    write.commit();
}

Tensor call1(const Op& op, std::initializer_list<Tensor> in, std::initializer_list<Value> attrs) {
    if (attrs.size() == op.defaults.size()) {
        Call c(op, in.begin(), static_cast<int>(in.size()), attrs.begin());
        call(c);
        return std::move(c.out(0));
    }
    std::vector<Value> all(attrs);
    all.insert(all.end(), op.defaults.begin() + attrs.size(), op.defaults.end());
    Call c(op, in.begin(), static_cast<int>(in.size()), all.data());
    call(c);
    return std::move(c.out(0));
}

}  // namespace weft::ops
