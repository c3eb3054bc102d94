/// The op record: everything the rest of weft knows about an op, in one place.
///
/// A record is written once, in the file of its family (`unary.cpp`, `shape.cpp`, ...), with the
/// builder of ops/builder.h. Bindings, methods, in-place and out= forms, stubs, docs and the
/// laws of tests/test_every_op.py are loops over the table.
///
/// Reading guide: Param and Op (the record), Call (one execution, what shape rules and kernels
/// see), Grad (what a gradient rule may see).
#pragma once
#include <memory>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "ops/value.h"

namespace weft {

struct Op;
struct Call;
class Grad;

struct Param {
    enum class Kind : uint8_t {
        Tensor,
        Tensors,  // inputs
        Int,
        Ints,
        Float,
        Bool,
        Scalar,
        DType,
        Text,  // attributes
    };
    std::string name;
    std::vector<std::string> aliases;  ///< further names in calls: "input" for self, "axis" for dim
    Kind kind;
    bool optional = false;      ///< `?`: None is accepted
    bool keyword_only = false;  ///< after `*`
    bool has_default = false;
    Value fallback;  ///< the default of an attribute; an input's default is None
    int slot = 0;    ///< index among the inputs or among the attributes
    bool is_input() const { return kind == Kind::Tensor || kind == Kind::Tensors; }
};

/// Which inputs of an in-place or out= form may share memory with what it writes. What PyTorch
/// refuses is refused; weft's own results would be right.
enum class Overlap : uint8_t {
    Any,   ///< all
    Same,  ///< those that are the written elements in their order, as in x.add_(x)
    None,  ///< only the tensor that an in-place form writes
};

/// How calls of the op merge when they are kept to be batched (the layer `deferred`).
enum class Batch : uint8_t {
    None,    ///< not kept: the values that it reads are computed first
    Rows,    ///< rows of one call beside rows of another, as a rule says (ops/batch.h)
    Join,    ///< cat, stack: where the result is its inputs one after the other, only copied
    Alias,   ///< the input's elements in the same order under another shape: nothing is done
    Layout,  ///< reads shapes and dtypes only: runs at once, on values not computed yet
    Body,    ///< a composite whose body reads layouts only: its calls are kept
};
/// What autocast makes of a call's floats, but of float64 (autograd/autocast.cpp).
enum class Cast : uint8_t {
    None,
    Narrow,  ///< the scope's dtype
    Float,   ///< float32
    Within,  ///< computes in float32, the result has the input's dtype: weights may be wider
    Widest,  ///< what the widest of them is, for kernels that want one dtype
};
/// What a kernel that computes in wide dtypes takes for uint64 (Note [Narrow dtypes]).
enum class Uint64 : uint8_t {
    Refused,  ///< nothing, unless a pointwise op computes in a floating dtype
    Bits,     ///< its bits as int64: results are right modulo 2^64
    Order,    ///< the int64 of the same order
    Numbers,  ///< float64
};
/// What memory_format= means to an op.
enum class Formats : uint8_t {
    None,    ///< it has no such argument
    Result,  ///< how the result lies
    Self,    ///< the same; a self that lies so already is the result
};
struct BatchCall;
struct BatchForm;
/// Fills in how a call becomes rows of a larger one. False: the call stays single.
using BatchRule = bool (*)(const BatchCall& call, BatchForm& form);
namespace ops {
struct Span;
struct Way;  // ops/way.h
/// Every pointwise op: by elements, by rows against shared operands or against one row of each call,
/// or by whole calls that broadcast.
bool batch_pointwise(const BatchCall& c, BatchForm& form);
}  // namespace ops

/// Bits that name inputs and outputs in a gradient's list of saved values.
using SaveMask = uint32_t;
constexpr SaveMask save_in(int i) { return SaveMask{1} << i; }
constexpr SaveMask save_out(int k) { return SaveMask{1} << (16 + k); }

/// d(loss)/d(one input), an expression over ops. Never sums, un-broadcasts, casts or validates:
/// the engine does. An undefined result means zero.
using GradRule = Tensor (*)(const Grad&);
/// The same for several inputs at once, where one kernel gives them all: `g.set(i, value)`.
using JointRule = void (*)(Grad&);
/// Adds `grad` to a part of `sum`, the dense gradient of input `i` of a call with these attributes; `where`:
/// indices that say which part, if attributes alone do not.
using PartRule = void (*)(const Tensor& sum, const Tensor& grad, const Tensor& where,
                          const Value* attrs, int i);

/// Floating-point operations of a call that has been laid out: two for a product and its sum.
using FlopRule = int64_t (*)(const Call&);

/// Where elements of an input go in an output (ops/way.h).
using WayRule = void (*)(const ops::Way& way, FunctionRef<void(ops::Span)> add);

/// Some of a call's inputs. Those behind the first 64 (of a custom function, or of `cat`) are in no
/// set, so a set says what may be left unsaid.
class InputSet {
public:
    InputSet() = default;
    explicit InputSet(uint64_t first) : bits_(first) {}
    void add(int i) {
        if (i < kCounted) bits_ |= uint64_t{1} << i;
    }
    bool has(int i) const { return i < kCounted && (bits_ >> i & 1); }
    static constexpr int kCounted = 64;

private:
    uint64_t bits_ = 0;
};

/// Note [Versions]
/// A file of a program names ops by public name, with the version that the name has when it is
/// written: the largest among its records. A name gets the next version when calls that files may
/// have come to mean something else, or when files begin to say what an older weft would
/// misunderstand: the record that changes says `.version(2)`. Files of an older version load as they
/// are, unless a record of theirs says the old calls in today's ops:
///
///     t.add("cube.v1(Tensor self, bool negate) -> Tensor").until(2).body(...);
///
/// Such a record is called by files that are older than version 2 in place of those that came with
/// it, and by nobody else. A file of a newer version than this weft has is refused by name.
struct Op {
    std::string name;         ///< unique: "sum.dim"
    std::string public_name;  ///< what Python calls it: "sum"
    std::string schema;
    std::string doc;
    std::vector<Param> params;
    std::vector<Value> defaults;            ///< of the attributes, in slot order
    int inputs = 0;                         ///< tensor parameters
    int outputs = 1;                        ///< -1: as many as the shape rule says
    std::vector<std::string> output_names;  ///< "values", "indices": given in the schema or empty

    void (*shape)(Call&) = nullptr;   ///< lays out c.out (dtype, sizes, strides), reads no data
    void (*kernel)(Call&) = nullptr;  ///< fills c.out
    void (*body)(Call&) = nullptr;    ///< composite: the whole op, written from others
    FlopRule flops = nullptr;         ///< of products; null: not counted, or those of its body

    std::vector<GradRule> grads;  ///< by input; null: not differentiable
    std::vector<SaveMask> saves;  ///< what each of them reads
    JointRule joint = nullptr;
    SaveMask joint_saves = 0;
    uint32_t joint_inputs =
        ~0u;                     ///< mask of the inputs that it gives gradients to, of the first 32
    uint32_t numbers_apart = 0;  ///< mask of inputs that, as numbers, are none of the node
    bool keep_shapes = false;    ///< gradient rules ask for layouts, of any input
    uint32_t constant_outputs = 0;  ///< mask of outputs that carry no gradient (indices)
    const char* (*backward_name)(const Call&) = nullptr;  ///< a literal
    std::string node_name;                                ///< "MulBackward0"
    std::vector<std::string> node_names;  ///< by output, where PyTorch has a node for each

    Batch batch = Batch::None;
    BatchRule batch_rule = nullptr;  ///< with Batch::Rows and Join
    InputSet batch_shared;  ///< inputs by which calls merge only if it is one tensor (weights)
    WayRule way = nullptr;  ///< null: the rules of ops/way.h
    /// Each element of the result is made of those at its place: inputs broadcast and are promoted, and
    /// a number may stand for one.
    bool pointwise = false;
    bool view = false;  ///< outputs are views of input 0; no kernel, so every dtype
    Cast autocast = Cast::None;
    Formats memory_format = Formats::None;
    bool every_dtype = false;         ///< the kernel takes narrow dtypes (Note [Narrow dtypes])
    Uint64 uint64 = Uint64::Refused;  ///< what the kernel takes for it (Note [Narrow dtypes])
    bool float8 = false;              ///< computes float8 dtypes too (Note [Float8])
    bool strided_output = false;      ///< the kernel writes any layout, also over its own input
    bool writes_repeats = false;      ///< name_ takes elements that share memory: expanded tensors
    /// Inputs whose memory the shape rule or the body looks at: without it there is no layout.
    InputSet reads;
    /// Those of them whose values it reads.
    InputSet reads_values;
    /// Inputs that the shape rule or the kernel reads if they have no dimensions, to check the number or
    /// to choose what runs.
    InputSet reads_numbers;
    InputSet any_device;               ///< inputs that may lie on another device (Note [On meta])
    bool factory = false;              ///< makes tensors: takes requires_grad and device too
    bool random = false;               ///< draws from the generator
    Overlap overlap = Overlap::Any;    ///< pointwise ops: Same, unless the record says more
    InputSet overlap_allowed;          ///< inputs that may overlap all the same
    bool function = true;              ///< weft.name exists
    bool method = true;                ///< Tensor.name exists
    bool inplace = false;              ///< name_ exists
    bool out_form = false;             ///< name(..., out=) exists
    bool number_self = false;          ///< as a function, input 0 may be a Python number
    std::vector<std::string> samples;  ///< calls, as Python text; see tests/test_every_op.py
    int version = 1;           ///< of its name, with which the record came (Note [Versions])
    int until = 0;             ///< the version whose files have it no more; 0: it is today's
    bool in_packages = false;  ///< files of programs may call it though it is internal
    /// A call in ONNX's operators, over the names of parameters (weft/onnx/records.py); empty: a
    /// function of weft/onnx/forms_*.py, or none.
    std::string onnx;
    std::string no_onnx;               ///< why ONNX has no form of it
    std::vector<std::string> aliases;  ///< further public names
    /// Orders of all parameters in PyTorch's older signatures, where numbers stand before the
    /// tensors that they scale: "self alpha other". Such calls warn.
    std::vector<std::vector<std::string>> older_orders;
    std::source_location where;
    const Op* one = nullptr;  ///< of an op over several calls: the op of each (ops/each.h)
    mutable std::shared_ptr<const Op> each;  ///< the op over several calls of this, once wanted

    const std::string& node_name_of(int k) const {
        auto of = static_cast<size_t>(k);
        return of < node_names.size() ? node_names[of] : node_name;
    }
    /// Whether a file of a program may name it: such an op takes arguments of anybody's making.
    bool called_by_packages() const { return function || method || in_packages; }
    bool carries_gradient(int output) const {
        return output >= 32 || !(constant_outputs >> output & 1);
    }
    bool differentiable() const { return joint || !grads.empty(); }
    SaveMask saves_for(int input) const {
        if (joint) return joint_saves;
        return input < static_cast<int>(saves.size()) ? saves[input] : 0;
    }
    /// What some gradient rule reads.
    SaveMask may_save() const {
        SaveMask all = joint_saves;
        for (SaveMask of_input : saves) all |= of_input;
        return all;
    }
    bool differentiable(int input) const {
        if (joint) return input >= 32 || joint_inputs >> input & 1;
        return input < static_cast<int>(grads.size()) && grads[input];
    }
};

/// One execution of an op, on the stack of whoever asked for it.
struct Call {
    explicit Call(const Op& op) : op(&op) {}
    Call(const Op& op, const Tensor* in, int inputs, const Value* attrs)
        : op(&op), in(in), inputs(inputs), attrs(attrs) {}

    const Op* op;
    const Tensor* in = nullptr;  ///< optional inputs may be undefined
    int inputs = 0;
    const Value* attrs = nullptr;
    uint64_t attrs_number = 0;  ///< the same for equal attributes; 0: not known
    Tensor dest;                ///< in-place and out= forms: where the result goes
    bool in_place = false;      ///< dest is input 0
    bool finds_loop = false;    ///< it is a LoopCall: the kernel names its loop (ops/loop.h)
    int outputs = 0;
    int64_t view_offset = 0;  ///< op.view: elements after input 0's first one (output 0)

    const Value& attr(int i) const { return attrs[i]; }
    const char* name() const { return op->public_name.c_str(); }
    Tensor& out(int k) { return many_ ? many_->out[k] : few_[k]; }
    const Tensor& out(int k) const { return many_ ? many_->out[k] : few_[k]; }
    /// Shape rules: adds an output.
    void add(Tensor t) {
        if (outputs < kFew && !many_) [[likely]]
            few_[outputs++] = std::move(t);
        else add_to_many(std::move(t));
    }
    void add_view(Tensor t, int64_t offset) {
        if (op->outputs < 0) {
            if (!many_) many_ = std::make_unique<Many>();
            many_->offsets.push_back(offset);
        }
        view_offset = offset;
        add(std::move(t));
    }
    int64_t offset_of_view(int k) const { return many_ ? many_->offsets[k] : view_offset; }
    /// Composite bodies: the one result.
    void set(Tensor t) {
        outputs = 1;
        out(0) = std::move(t);
    }
    /// The results of another call.
    void take(Call& other) {
        for (int k = 0; k < kFew; ++k) few_[k] = std::move(other.few_[k]);
        many_ = std::move(other.many_);
        outputs = std::exchange(other.outputs, 0);
        view_offset = other.view_offset;
    }

private:
    static constexpr int kFew = 3;
    struct Many {
        Many() { out.reserve(8); }
        std::vector<Tensor> out;
        SmallVector<int64_t, 8> offsets;
    };
    [[gnu::noinline]] void add_to_many(Tensor t) {
        if (!many_) {
            many_ = std::make_unique<Many>();
            for (int k = 0; k < kFew; ++k) many_->out.push_back(std::move(few_[k]));
        }
        many_->out.push_back(std::move(t));
        ++outputs;
    }
    Tensor few_[kFew];
    std::unique_ptr<Many> many_;
};

/// What a gradient rule may see: the incoming gradients, what its record declared as saved, the
/// attributes, and the shapes. The layer of the graph fills it in (autograd/record.cpp).
class Grad {
public:
    virtual ~Grad() = default;
    /// Gradient of output k; undefined if nothing flowed there (then it counts as zero).
    const Tensor& grad(int k = 0) const { return grads_[k]; }
    /// The same, zeros instead of undefined.
    Tensor grad_or_zeros(int k) const;
    Tensor in(int i) const { return saved(i); }
    Tensor out(int k) const { return saved(16 + k); }
    const Value& attr(int i) const { return attrs_[i]; }
    const Op& op() const { return *op_; }
    /// Whether input i wants a gradient.
    bool needs(int i) const { return !unneeded_.has(i); }
    /// Sizes of input i: always for those that need a gradient, for others with `keep_shapes`.
    virtual Dims in_shape(int i) const = 0;
    /// With `keep_shapes`: the strides of input i, then its offset in its storage.
    virtual Dims in_layout(int i) const = 0;
    virtual Dims out_shape(int k) const = 0;
    virtual DType out_dtype(int k) const = 0;
    virtual int inputs() const = 0;
    /// `gradient`, which is constant in input i, piece by piece. In the graph of gradients it depends
    /// on the input all the same, as in PyTorch: a penalty on gradients may have nothing else to go
    /// back to. Its derivative is 0, or with `zero` false none. `node`: what its node prints.
    virtual Tensor constant_in(int i, Tensor gradient, const char* node,
                               bool zero = true) const = 0;
    /// Joint rules: the gradient of input i.
    virtual void set(int i, Tensor value) = 0;
    /// Joint rules: the gradient of input i is a^T b, with a [r, m] and b [r, n]. The engine adds
    /// such products into one buffer instead of making each (Note [Sums of products]).
    virtual void set_product(int i, const Tensor& a, const Tensor& b) = 0;
    /// Joint rules: the gradient of input i is zero but for a part of it, and `add` puts `grad`
    /// there. False if a whole tensor is wanted instead, with `set` (Note [Sums of parts]).
    virtual bool set_part(int i, const Tensor& grad, PartRule add, const Tensor& where) = 0;
    bool set_part(int i, const Tensor& grad, PartRule add) { return set_part(i, grad, add, {}); }

protected:
    virtual Tensor saved(int bit) const = 0;
    const Op* op_ = nullptr;
    Tensor* grads_ = nullptr;
    const Value* attrs_ = nullptr;
    InputSet unneeded_;
};

}  // namespace weft
