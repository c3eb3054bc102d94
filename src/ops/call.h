/// THE door: every execution of an op enters here, from Python, from gradient rules, from the
/// engine.
///
/// In order: shape rule -> memory -> kernel -> (a tracked input? the recording hook). A composite
/// runs its body instead. Layers below install hooks; the door knows nothing of what they do.
///
/// Note [Tracked]
/// A tensor with `kTracked` belongs to a graph. The door tells the recording hook about a call when
/// recording is on and an input (or the written tensor) is tracked, or when the op makes views,
/// since a view must follow what is later written into its base.
///
/// Note [Pending]
/// In defer mode the door hands calls to the hook `defer`, which keeps them and gives results that
/// have a shape and a dtype but no memory yet (kPending). Whoever reads a value settles the tensor
/// first: the binding does for all that Python passes on, the hook for calls that are not kept. So
/// outside of defer mode no op ever meets a pending tensor. Map mode and trace mode have tensors without
/// memory of their own; the slot of each, a `Promise`, says what becomes of it.
///
/// Note [On meta]
/// A call with a meta operand (Note [Meta] in tensor/storage.h) is the shape rule and then what records: its
/// results are meta too, and no kernel runs. So is a call of a factory without operands where kMetaMode is set,
/// which says where new tensors lie: Python's scopes and device= set it, a composite's body and a gradient rule
/// have it as their operands lie. What reads its operands' values to lay its results out raises; so does a call
/// with operands on both devices, but of numbers, 0-d tensors and `Op::any_device`. Such calls are neither kept
/// nor traced: they cost nothing that batching or a plan could save.
#pragma once
#include <initializer_list>

#include "base/function_ref.h"
#include "base/graph_use.h"
#include "ops/op.h"
#include "ops/table.h"

namespace weft {

/// One thread-local word of flags, so that the common case tests one word.
enum ModeFlag : uint32_t {
    kGradMode = 1,           ///< record calls
    kInferenceMode = 2,      ///< results never join a graph
    kDeferMode = 4,          ///< calls are kept, to be batched (Note [Pending])
    kAutocastMode = 8,       ///< products run in a narrow float
    kAutocastHalfMode = 16,  ///< that float is float16, not bfloat16
    kMapMode = 32,           ///< some tensors stand for a value of each example of vmap
    /// In place of kGradMode where enable_grad() is asked for in inference mode: is_grad_enabled() says
    /// so, but nothing is recorded.
    kEnabledInInference = 64,
    kWatchMode = 128,      ///< `scopes.watcher` hears of calls (Note [Watching])
    kTraceMode = 256,      ///< calls on traced tensors are written down (Note [Traced])
    kCompiledMode = 512,   ///< calls of Modules run their programs (python/program.h)
    kFunctionMode = 1024,  ///< a mode of functions is entered (Note [Overrides])
    kOwnMode = 2048,       ///< no argument's __torch_function__ is asked (Note [Overrides])
    kMetaMode = 4096,      ///< new tensors are of the meta device (Note [On meta])
    kDispatchMode = 8192,  ///< a mode of operators is entered (Note [Dispatch])
};
inline thread_local uint32_t mode [[gnu::tls_model("initial-exec")]] = kGradMode;

class ModeGuard {
public:
    ModeGuard(uint32_t set, uint32_t clear) : saved_(mode) { mode = (mode | set) & ~clear; }
    ~ModeGuard() { mode = saved_; }
    ModeGuard(const ModeGuard&) = delete;

private:
    uint32_t saved_;
};

/// The slot of a tensor without memory (Note [Pending]), by the layer that made it.
struct Promise : Slot {
    /// Gives `t`, which bears this, its value, or throws.
    virtual void settle(const Tensor& t) = 0;
    /// The value for reading only; `t` may stay as it is.
    virtual Tensor peek(const Tensor& t) = 0;
    /// `t` outside of the graph; undefined if only its value could be.
    virtual Tensor detached(const Tensor& t) = 0;
    virtual bool wants_grad(const Tensor& t) const = 0;
    /// The bit of `mode` with which the door takes it as it is.
    virtual uint32_t taken_in() const = 0;
};
inline Promise& promise(const Tensor& t) { return *static_cast<Promise*>(t.impl()->slot.get()); }

namespace ops {

/// Gives a tensor without memory its value.
void settle(const Tensor& t);
/// The same if no call would take it as it is now.
void settle_for_call(const Tensor& t);

/// While it lives, a call has other operands.
class OtherOperands {
public:
    OtherOperands(Call& c, const Tensor* in) : call_(c), in_(std::exchange(c.in, in)) {}
    ~OtherOperands() { call_.in = in_; }
    OtherOperands(const OtherOperands&) = delete;

private:
    Call& call_;
    const Tensor* in_;
};

/// What the layers below add to the door; each installs its own when weft is loaded.
struct Hooks {
    /// In an autocast scope: runs the call on inputs of the dtype that its op wants. False: goes on.
    bool (*autocast)(Call&) = nullptr;
    /// Where a mode of operators is entered: has it carry the call out. False if the graph has to
    /// hear of it.
    bool (*dispatch)(Call&) = nullptr;
    /// In trace mode: writes the call down and lays out its results. False if no operand is traced.
    bool (*trace)(Call&) = nullptr;
    /// In map mode: runs the call for all examples at once. False if no operand stands for several
    /// values: goes on.
    bool (*map)(Call&) = nullptr;
    /// After the kernel, for a differentiable op with a tracked input, or a view.
    void (*record)(Call&) = nullptr;
    /// In defer mode, instead of all else: keeps the call or runs it.
    void (*defer)(Call&) = nullptr;
    /// A call has failed; those around it, whose part it was, are not told of.
    void (*failed)(const Call&) = nullptr;
    /// Runs `_tie_rows`: ties blocks of results to a node of the binding's (tie.cpp).
    void (*tie)(Call&) = nullptr;
    /// Whether a tensor with values wants a gradient.
    bool (*requires_grad)(const Tensor&) = nullptr;
    /// What a recorded view shows a part of, unless someone watches the view's own gradient; or null.
    /// `used`: a recorded call uses it, which throws for a view that a write has made useless.
    const Tensor* (*base)(const Tensor& view, bool used) = nullptr;
    /// The node of `t`, if it has one, belongs to a batched run from now on (Note [Graph use]). `ends`:
    /// of the results of several calls by rows or parts, which lie in `t` one after the other, the
    /// elements behind each; else empty.
    void (*mark)(const Tensor& t, const Ref<GraphUse>&, std::vector<int64_t> ends) = nullptr;
    /// Before `t` changes (Note [Writing]): waits for what has to be done before, and gives it its
    /// value. True if `after_change` is to be called when it has changed.
    bool (*before_change)(const Tensor& t) = nullptr;
    void (*after_change)() = nullptr;
    /// Before `t` gets another layout or other memory.
    void (*before_layout)(const Tensor& t) = nullptr;
    /// Before a write into c.dest; may refuse it by throwing. Returns the inputs as the graph shall
    /// see them, or nothing if the write is not recorded.
    std::vector<Tensor> (*before_write)(Call&) = nullptr;
    /// After such a write, if it is recorded.
    void (*after_write)(Call&, const std::vector<Tensor>& before) = nullptr;
    /// Shows a warning to the user; may throw.
    void (*warn)(const std::string&) = nullptr;
};
extern Hooks hooks;

/// Runs `c`. With `c.dest` the result goes there (Note [In place]). On an error no tensor has
/// changed: rules check before kernels write.
void call(Call& c);

/// What the door runs for a call that is laid out and no view: the record's kernel, or what converts
/// around it.
using Kernel = void (*)(Call&);
Kernel kernel_of(const Call& c);

/// One of several calls that are recorded as one (Note [Each] in ops/each.h): the shape rule, then
/// `memory`, which gives the outputs their bytes, then the kernel; of a view only the first two.
void call_part(Call& c, FunctionRef<void(Call&)> memory);

/// Puts a result of `c`, which has its value, into `dest`, an out= of any shape: for ops that cannot
/// write there directly.
void write_result(const Call& c, const Tensor& dest, const Tensor& result);

/// One output, inputs and attributes in schema order; attributes left out take their defaults.
Tensor call1(const Op& op, std::initializer_list<Tensor> in,
             std::initializer_list<Value> attrs = {});

}  // namespace ops
}  // namespace weft
