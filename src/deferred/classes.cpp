#include "deferred/classes.h"

#include <algorithm>
#include <cstring>

#include "ops/functions.h"
#include "ops/pointwise.h"

namespace weft::deferred {
namespace {

/// Note [Unlike]
/// Pointwise calls merge although their numbers (`x / len(xs)`) or their pieces of a weight (`E[k]`)
/// differ: keys do not tell which one it is, and a batch with several gathers them by row. A number
/// is then an element of the dtype that the kernel computes in. An op with a rule of its own has
/// numbers by value: its kernel may look at them.
bool may_be_unlike(const Call& c, const Tensor& t) {
    constexpr int64_t kSmallPiece = 4096;  // elements; a larger one is worth a batch of its own
    if (c.op->batch_rule != ops::batch_pointwise) return false;
    if (!t.has(kWrapped)) return t.numel() > 0 && t.numel() <= kSmallPiece;
    DType computed = ops::promoted(c.in, c.inputs);
    return computed == DType::Float32 || computed == DType::Float64 || computed == DType::Int64;
}

/// Kernels refuse dtypes: the user learns it at the call, from one on no elements. Other ops than
/// pointwise ones need all; they refuse bool and complex.
void check_dtypes(const Call& c) {
    bool pointwise = c.op->pointwise, odd = c.op->body;
    std::vector<Tensor> in;
    for (int i = 0; i < c.inputs; ++i) {
        const Tensor& t = c.in[i];
        if (t.defined()) odd |= t.dtype() == DType::Bool || is_complex(t.dtype());
        if (!t.defined() || t.has(kWrapped)) in.push_back(t);
        else if (pointwise && t.ndim()) in.push_back(Tensor::empty(t.dtype(), Dims(t.ndim(), 0)));
        else in.push_back(Tensor::layout(t.dtype(), t.shape()));
    }
    if (!pointwise && !odd) return;
    for (Tensor& t : in)
        if (t.defined() && !t.storage()) t = ops::full_like(Tensor::empty(t.dtype(), t.shape()), 1);
    ModeGuard now(0, kDeferMode | kGradMode | kWatchMode);
    Call probe(*c.op, in.data(), c.inputs, c.attrs);
    try {
        ops::call(probe);
    } catch (const Error& e) {
        if (e.kind == ErrorKind::NotImplemented) throw;
    }
}

/// Whether all operands come by rows of one shape, or are shared: such pointwise calls are of one kind
/// whatever their shapes, and are not planned with those that are not.
bool rows_are_alike(const BatchForm& form) {
    const BatchForm::Input* first = nullptr;
    for (const BatchForm::Input& in : form.in) {
        if (in.shared) continue;
        if (in.once || (first && !equal(in.row, first->row))) return false;
        first = &in;
    }
    return true;
}

/// Where the elements of a pending tensor lie or will lie.
Operand operand_of(Waiting& load, const Tensor& t) {
    const Pending& self = pending(t);
    int64_t offset = 0;
    Pending* root = &pending(t);
    if (self.is_piece()) {
        root = &pending(self.base);
        offset = t.numel() ? self.start : 0;  // no element may lie beyond all others
    }
    root->used = true;
    WEFT_EXPECT(!root->waits() || root->among == &load, Runtime, "autobatch",
                "a value to be used by the thread that made it, and not while it is computed",
                "another thread, or a destructor", "read it before (x.tolist(), x.clone())");
    if (root->waits()) return {root->value, offset};
    return {~load.externals.number(root->block), root->start + offset};
}

/// What an operand is to the key of its call.
enum Part : uint64_t { kAbsent, kRow, kNumber, kFixed, kUnlike };

/// Adds input i, which has a value, to the operands; `name` gets that of a fixed one.
Part note_external(Waiting& load, const Call& c, int i, bool wants_grad, bool own, Noted& noted,
                   uint32_t& name) {
    const Tensor& t = c.in[i];
    Part part = kRow;
    if (t.has(kWrapped)) part = kNumber;
    else if (wants_grad || (!own && c.op->batch_shared.has(i))) part = kFixed;
    const bool recorded = (mode & kGradMode) && c.op->differentiable(i);
    const Tensor* base = part == kFixed && wants_grad ? ops::hooks.base(t, recorded) : nullptr;
    const Tensor& first = base ? load.externals.first_view(t, *base) : t;
    const bool maybe_own = part == kFixed && !base && (!wants_grad || may_be_unlike(c, t));
    noted.maybe_own |= maybe_own;
    if ((part == kNumber || base || (own && maybe_own)) && may_be_unlike(c, t)) part = kUnlike;
    if (part == kFixed) name = load.externals.name(first, wants_grad);
    // Of others than fixed ones, calls do not ask whether it is the same tensor.
    const bool known = part == kFixed && first.same(t);
    load.operands.push_back({~(known ? load.externals.number(t) : load.externals.add(t, name)), 0});
    return part;
}

/// Adds input i to the operands, and to the key from `key` on; returns the key's new end.
uint64_t* note_operand(Waiting& load, const Call& c, int i, uint64_t* key, Noted& noted, bool own) {
    const Tensor& t = c.in[i];
    if (!t.defined()) {
        load.operands.push_back({Operand::kNone, 0});
        *key++ = kAbsent;
        noted.fixed.add(i);
        return key;
    }
    Part part = kRow;
    uint32_t name = 0;
    bool wants_grad = false;
    if (is_pending(t)) {
        wants_grad = requires_grad(t);
        load.operands.push_back(operand_of(load, t));
    } else {
        wants_grad = t.has(kTracked) && ops::hooks.requires_grad(t);
        part = note_external(load, c, i, wants_grad, own, noted, name);
    }
    noted.grad |= wants_grad && (mode & kGradMode) && c.op->differentiable(i);
    DimSpan shape = t.shape();
    *key++ = part | static_cast<uint64_t>(t.dtype()) << 8 | shape.size() << 16;
    if (!c.op->body) {  // a segment is one of these sizes
        std::memcpy(key, shape.data(),
                    4 * sizeof(int64_t));  // there is room for four in every tensor
        for (size_t d = 4; d < shape.size(); ++d) key[d] = static_cast<uint64_t>(shape[d]);
        key += shape.size();
    }
    if (part == kRow) return key;
    noted.fixed.add(i);
    if (part == kUnlike) {
        noted.unlike.add(i);
        *key++ = t.has(kWrapped);
        return key;
    }
    if (part == kFixed) {
        *key++ = name;
        return key;
    }
    key[0] = key[1] = 0;
    std::memcpy(key, t.bytes(), static_cast<size_t>(item_size(t.dtype())));
    return key + 2;
}

/// Makes the class of a call whose key is new, and its kind if that is new too.
class ClassMaker {
public:
    /// The operands of `c` are the last ones of `load`.
    ClassMaker(Kinds& kinds, const Waiting& load, const Call& c, const Noted& noted)
        : kinds_(kinds), load_(load), call_(c), noted_(noted) {
        made_.op = kind_.op = c.op;
        kind_.default_dtype = ops::default_dtype;
        kind_.mode = mode & (noted.grad ? kGradMode | kInferenceMode : uint32_t{kInferenceMode});
    }
    Class make(uint32_t number);

private:
    bool ask_rule();
    void set_form(bool fits);
    uint32_t number_kind(uint32_t number);
    void add_rows_to_key();
    void add_to_key(const BatchForm::Input& in, bool sizes);
    uint32_t find_each(bool fits);
    bool is_own(int i, bool fits) const;
    bool add_inputs(Each& each, Key& key, bool fits);
    bool add_outputs(Each& each, Key& key);
    void add_attributes(Each& each, Key& key);
    uint32_t name_of(int i) const {
        const size_t at = load_.operands.size() - static_cast<size_t>(call_.inputs - i);
        return load_.externals.name_of(~load_.operands[at].value);
    }
    /// Words of the kind's key that are those of its group, too.
    void add(uint64_t word) {
        key_.push_back(word);
        group_.push_back(word);
    }

    Kinds& kinds_;
    const Waiting& load_;
    const Call& call_;
    const Noted& noted_;
    Kind kind_;
    Class made_;
    Key key_, group_;  ///< what makes a kind, and of it what does not hang on sizes and numbers
};

Class ClassMaker::make(uint32_t number) {
    const bool fits = ask_rule();
    if (kind_.how != How::Join) made_.each = find_each(fits);
    if (!fits && made_.each == Class::kNone) kind_.why = "shapes or operands that do not merge";
    set_form(fits);
    made_.kind = number_kind(number);
    made_.made = ops::as_made(*call_.op);
    if (made_.made) made_.calls = made_.made->calls;
    made_.group = kinds_.kind_of(made_).group;
    return made_;
}

/// Sets how calls like this one run; false if there is no form for it.
bool ClassMaker::ask_rule() {
    BatchForm& form = kind_.form;
    if (!form.ask({call_, noted_.fixed})) return false;
    const bool join = call_.op->batch == Batch::Join && form.rows == 1;
    kind_.how = join ? How::Join : How::Rows;
    return true;
}

/// The form as it is kept: that of a call that runs by itself if it does not come by rows; and what
/// the class knows of it.
void ClassMaker::set_form(bool fits) {
    BatchForm& form = kind_.form;
    if (kind_.how == How::Rows) {
        bool several = false;  // numbers of rows
        for (BatchForm::Input& in : form.in) {
            several |= in.rows >= 0;
            in.unlike = in.shared && in.from >= 0 && noted_.unlike.has(in.from);
            if (in.unlike && call_.in[in.from].has(kWrapped))
                in.as = ops::promoted(call_.in, call_.inputs);
        }
        made_.rows = form.rows;
        if (!several) return;
        for (const BatchForm::Input& in : form.in)
            made_.sizes.push_back(in.rows >= 0 ? in.rows : form.rows);
        return;
    }
    if (fits)
        for (const BatchForm::Input& in : form.in) made_.sizes.push_back(ops::row_size(in.row));
    form = {};
    form.op = call_.op;
    form.attrs.assign(call_.attrs, call_.attrs + call_.op->defaults.size());
    for (int i = 0; i < call_.inputs; ++i) {
        if (call_.in[i].defined()) form.add_rows(i, call_.in[i].shape());
        else form.add_shared(i);
    }
}

/// The number of the kind of class `number`.
uint32_t ClassMaker::number_kind(uint32_t number) {
    add(static_cast<uint64_t>(kind_.how));
    add(kind_.mode | uint64_t{noted_.grad} << 8 |
        static_cast<uint64_t>(call_.out(0).dtype()) << 16 |
        static_cast<uint64_t>(kind_.default_dtype) << 24);
    if (kind_.how == How::Rows) add_rows_to_key();
    else if (kind_.how == How::Single) key_.push_back(number);
    bool fresh;
    const uint32_t kind = kinds_.kind_keys.number(key_.data(), key_.size(), fresh);
    if (!fresh) return kind;
    if (kind_.how != How::Rows) group_ = {made_.each, made_.each == Class::kNone ? kind : 0};
    kind_.group = kinds_.group_keys.number(group_.data(), group_.size(), fresh);
    kinds_.kinds.push_back(std::move(kind_));
    return kind;
}

void ClassMaker::add_rows_to_key() {
    const BatchForm& form = kind_.form;
    // A new field does not compile here: either it keeps kinds apart, or it is no part of what runs.
    [[maybe_unused]] const auto& [op, in_, attrs, rows, wrap, then, counts] = form;
    add(reinterpret_cast<uintptr_t>(form.op));
    add(static_cast<uint64_t>(form.then) | uint64_t{form.wrap} << 4 |
        static_cast<uint64_t>(form.counts_attr + 1) << 8);
    const bool sizes = made_.each == Class::kNone || (call_.op->pointwise && rows_are_alike(form));
    for (const BatchForm::Input& in : form.in) add_to_key(in, sizes);
    for (size_t k = 0; k < form.attrs.size(); ++k) {
        append(key_, form.attrs[k]);
        if (!ops::may_differ(*form.op, k, form.attrs[k])) append(group_, form.attrs[k]);
    }
}

/// `sizes`: those of calls that are planned together are the same.
void ClassMaker::add_to_key(const BatchForm::Input& in, bool sizes) {
    [[maybe_unused]] const auto& [from, shared, row, rows, table, once, unlike, as, turn] = in;
    add(static_cast<uint64_t>(in.from + 1));
    const Tensor* t = in.from >= 0 ? &call_.in[in.from] : nullptr;
    if (!t || !t->defined()) return add(~uint64_t{0});
    add(static_cast<uint64_t>(t->dtype()) | uint64_t{in.shared} << 8 |
        static_cast<uint64_t>(in.row.size()) << 16 | uint64_t{t->has(kWrapped)} << 9 |
        uint64_t{in.unlike} << 10 | uint64_t{in.once} << 11 | static_cast<uint64_t>(in.as) << 24);
    auto add_sizes = [&](DimSpan shape) {
        for (int64_t d : shape) key_.push_back(static_cast<uint64_t>(d));
        if (!sizes) return;
        for (int64_t d : shape) group_.push_back(static_cast<uint64_t>(d));
    };
    if (in.unlike) {
        add(static_cast<uint64_t>(t->ndim()));
        add_sizes(t->shape());
    } else if (!in.shared) {
        add(static_cast<uint64_t>(in.table + 1));
        add_sizes(in.row);
    } else if (t->has(kWrapped)) {
        uint64_t bits[2] = {};
        std::memcpy(bits, t->bytes(), static_cast<size_t>(item_size(t->dtype())));
        key_.insert(key_.end(), bits, bits + 2);
    } else {
        add(name_of(in.from));
    }
}

/// The number of what the calls of its like have in common that may be parts of one call (Note [Each]
/// in ops/each.h), and the words of such a call; kNone where there are none.
uint32_t ClassMaker::find_each(bool fits) {
    if (!ops::has_each(*call_.op)) return Class::kNone;
    Each each;
    each.op = call_.op;
    each.attrs.assign(call_.attrs, call_.attrs + call_.op->defaults.size());
    Key key{reinterpret_cast<uintptr_t>(call_.op), kind_.mode | uint64_t{noted_.grad} << 32 |
                                                       static_cast<uint64_t>(ops::default_dtype)
                                                           << 40};
    const bool some = add_inputs(each, key, fits);
    if (!add_outputs(each, key) || !some) return Class::kNone;
    add_attributes(each, key);
    bool fresh;
    uint32_t number = kinds_.each_keys.number(key.data(), key.size(), fresh);
    if (fresh) kinds_.each.push_back(std::move(each));
    return number;
}

/// Whether each call has input i of its own, as its form says; without one, what no weight is read by.
bool ClassMaker::is_own(int i, bool fits) const {
    if (!noted_.fixed.has(i) || noted_.unlike.has(i)) return true;
    if (!fits) return call_.op->batch == Batch::Rows && !call_.op->batch_shared.has(i);
    const std::vector<BatchForm::Input>& in = kind_.form.in;
    return std::any_of(in.begin(), in.end(), [&](const BatchForm::Input& input) {
        return input.from == i && !input.shared;
    });
}

/// False if no input is the call's own.
bool ClassMaker::add_inputs(Each& each, Key& key, bool fits) {
    bool some = false;
    for (int i = 0; i < call_.inputs; ++i) {
        const Tensor& t = call_.in[i];
        const bool number = t.defined() && t.has(kWrapped);  // each call has its own
        const bool own = t.defined() && (number || is_own(i, fits));
        each.inputs.push_back(number ? ops::EachInput::Number
                              : own  ? ops::EachInput::Own
                                     : ops::EachInput::Shared);
        some |= own && !number;
        key.push_back(static_cast<uint64_t>(each.inputs.back()));
        if (own) {
            ops::append_shape(made_.words, t.shape());
            key.push_back(static_cast<uint64_t>(t.dtype()) | static_cast<uint64_t>(t.ndim()) << 8);
        } else {
            key.push_back(t.defined() ? name_of(i) : ~uint64_t{0});
        }
    }
    return some;
}

/// False if one may be there or not: that depends on what is recorded, which is not known yet.
bool ClassMaker::add_outputs(Each& each, Key& key) {
    bool known = true;
    for (int k = 0; k < call_.outputs; ++k) {
        const Tensor& out = call_.out(k);
        const bool constant = call_.op->constant_outputs >> k & 1;
        if (constant && out.numel() == 0 && call_.out(0).numel() != 0) known = false;
        each.outputs.push_back(out.dtype());
        key.push_back(static_cast<uint64_t>(out.dtype()));
        ops::append_shape(made_.words, out.shape());
    }
    return known;
}

void ClassMaker::add_attributes(Each& each, Key& key) {
    for (size_t k = 0; k < call_.op->defaults.size(); ++k) {
        const Value& v = call_.attrs[k];
        if (ops::may_differ(*call_.op, k, v)) {
            each.differing.push_back(static_cast<int>(k));
            ops::append_attribute(made_.words, v);
        } else {
            key.push_back(k);
            append(key, v);
        }
    }
}

}  // namespace

uint32_t Classes::note(Waiting& load, const Call& c, Noted& noted, bool own) {
    const Op& op = *c.op;
    attrs_.clear();
    const bool given = c.attrs != op.defaults.data();
    if (given && !c.attrs_number)
        for (size_t k = 0; k < op.defaults.size(); ++k) append(attrs_, c.attrs[k]);
    size_t longest = attrs_.size() + 3 + static_cast<size_t>(c.inputs) * (kMaxDims + 3);
    if (key_.size() < longest) key_.resize(longest);
    uint64_t* end = key_.data();
    *end++ = reinterpret_cast<uintptr_t>(&op);
    if (c.attrs_number) *end++ = c.attrs_number;
    end = std::copy(attrs_.begin(), attrs_.end(), end);
    size_t first = load.operands.size();
    try {
        for (int i = 0; i < c.inputs; ++i) end = note_operand(load, c, i, end, noted, own);
        *end++ = uint64_t{noted.grad} << 32 | uint64_t{given} << 33 |
                 uint64_t{c.attrs_number != 0} << 34 |
                 static_cast<uint64_t>(ops::default_dtype) << 40 |
                 (mode & (kGradMode | kInferenceMode));
        return class_of(load, c, static_cast<size_t>(end - key_.data()), noted);
    } catch (...) {
        load.operands.resize(first);
        throw;
    }
}

/// The class of the key of so many words.
uint32_t Classes::class_of(const Waiting& load, const Call& c, size_t words, const Noted& noted) {
    bool fresh;
    uint32_t number = kinds_.class_keys.number(key_.data(), words, fresh);
    if (!fresh) return number;
    try {
        check_dtypes(c);
        kinds_.classes.push_back(ClassMaker(kinds_, load, c, noted).make(number));
    } catch (...) {
        kinds_.class_keys.forget_last();
        throw;
    }
    return number;
}

uint32_t Classes::class_over_own(Waiting& load, const Call& c, uint32_t first) {
    std::vector<Operand> kept(load.operands.begin() + first, load.operands.end());
    load.operands.resize(first);
    Noted noted;
    uint32_t number = note(load, c, noted, true);
    load.operands.resize(first);
    load.operands.insert(load.operands.end(), kept.begin(), kept.end());
    const Class& own = kinds_.classes[number];
    bool merges = kinds_.kind_of(own).how == How::Rows || own.each != Class::kNone;
    return merges ? number : Class::kNone;
}

bool Classes::has_own(Waiting& load, const Call& c, uint32_t of_class, uint32_t first) {
    if (kinds_.classes[of_class].own == Class::kUnknown) {
        const uint32_t own = class_over_own(load, c, first);
        kinds_.classes[of_class].own = own;
    }
    return kinds_.classes[of_class].own != Class::kNone;
}

/// A quarter of all. What is left has to be found out anew, in microseconds each.
bool Classes::many_are_retired() {
    constexpr uint64_t kFew = 64;
    if (ops::MadeOp::all_retired.count() - looked_at_ < kFew) return false;
    looked_at_ = ops::MadeOp::all_retired.count();
    const auto retired = std::count_if(kinds_.classes.begin(), kinds_.classes.end(),
                                       [](const Class& c) { return c.made && c.made->retired; });
    return 4 * static_cast<size_t>(retired) > kinds_.classes.size();
}

bool Classes::forget_many() {
    constexpr size_t kMost = 1 << 16;
    if (kinds_.classes.size() <= kMost && !many_are_retired()) return false;
    kinds_.clear();
    return true;
}

}  // namespace weft::deferred
