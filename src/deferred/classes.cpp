/// How a kept call finds its class: what of it and of its operands must be equal for calls to merge.
#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>

#include "deferred/batcher.h"
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
    if (c.op->batch != Batch::Pointwise || c.op->batch_rule) return false;
    if (!t.has(kWrapped)) return t.numel() > 0 && t.numel() <= kSmallPiece;
    DType computed = ops::promoted(c.in, c.inputs);
    return computed == DType::Float32 || computed == DType::Float64 || computed == DType::Int64;
}

/// Kernels refuse dtypes: the user learns it at the call, from one on no elements. Other ops than
/// pointwise ones need all; they refuse bool and complex.
void check_dtypes(const Call& c) {
    bool pointwise = c.op->batch == Batch::Pointwise, odd = false;
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
    ModeGuard now(0, kDeferMode | kGradMode);
    Call probe(*c.op, in.data(), c.inputs, c.attrs);
    try {
        ops::call(probe);
    } catch (const Error& e) {
        if (e.kind == ErrorKind::NotImplemented) throw;
    }
}

/// The form of a call that runs by itself.
BatchForm alone(const Call& c) {
    BatchForm form;
    form.op = c.op;
    form.attrs.assign(c.attrs, c.attrs + c.op->defaults.size());
    for (int i = 0; i < c.inputs; ++i) {
        if (c.in[i].defined()) form.add_rows(i, c.in[i].shape());
        else form.add_shared(i);
    }
    return form;
}

/// Whether all operands come by rows of one shape, or are shared: such pointwise calls are of one kind
/// whatever their shapes, and are not planned with those that are not.
bool rows_are_alike(const Kind& kind) {
    const BatchForm::Input* first = nullptr;
    for (const BatchForm::Input& in : kind.form.in) {
        if (in.shared) continue;
        if (in.once || (first && !equal(in.row, first->row))) return false;
        first = &in;
    }
    return kind.how == How::Rows;
}

}  // namespace

/// Adds input i to the operands, and to the key from `key` on; returns the key's new end.
uint64_t* Tape::note_operand(const Call& c, int i, uint64_t* key, Noted& noted, bool own) {
    enum : uint64_t { kAbsent, kRow, kNumber, kFixed, kUnlike };
    const Tensor& t = c.in[i];
    std::vector<Operand>& operands = load_->operands;
    if (!t.defined()) {
        operands.push_back({Operand::kNone, 0});
        *key++ = kAbsent;
        noted.fixed |= uint64_t{1} << i;
        return key;
    }
    uint64_t what = kRow;
    uint32_t name = 0;
    bool wants_grad = false;
    if (is_pending(t)) {
        wants_grad = requires_grad(t);
        operands.push_back(operand(t));
    } else {
        wants_grad = t.has(kTracked) && ops::hooks.requires_grad(t);
        if (t.has(kWrapped)) what = kNumber;
        else if (wants_grad || (!own && (c.op->batch_shared >> i & 1))) what = kFixed;
        const Tensor* base = what == kFixed && wants_grad ? ops::hooks.base(t) : nullptr;
        const Tensor& first = base ? first_view(t, *base) : t;
        const bool piece = base != nullptr;
        bool maybe_own = what == kFixed && !piece && (!wants_grad || may_be_unlike(c, t));
        noted.maybe_own |= maybe_own;
        if ((what == kNumber || piece || (own && maybe_own)) && may_be_unlike(c, t)) {
            what = kUnlike;
            noted.unlike |= uint64_t{1} << i;
        }
        if (what == kFixed) name = fixed_name(first, wants_grad);
        if (what == kFixed && first.same(t)) {
            operands.push_back({~external(t), 0});
        } else {  // calls do not ask whether it is the same tensor
            operands.push_back({~static_cast<int64_t>(load_->externals.size()), 0});
            load_->externals.push_back(t);
            if (name) {
                fixed_names_.resize(load_->externals.size());
                fixed_names_.back() = name;
            }
        }
    }
    noted.grad |= wants_grad && (mode & kGradMode) && c.op->differentiable(i);
    DimSpan shape = t.shape();
    *key++ = what | static_cast<uint64_t>(t.dtype()) << 8 | shape.size() << 16;
    std::memcpy(key, shape.data(), 4 * sizeof(int64_t));  // there is room for four in every tensor
    for (size_t d = 4; d < shape.size(); ++d) key[d] = static_cast<uint64_t>(shape[d]);
    key += shape.size();
    if (what == kRow) return key;
    noted.fixed |= uint64_t{1} << i;
    if (what == kUnlike) {
        *key++ = t.has(kWrapped);
        return key;
    }
    if (what == kFixed) {
        *key++ = name;
        return key;
    }
    key[0] = key[1] = 0;
    std::memcpy(key, t.bytes(), static_cast<size_t>(item_size(t.dtype())));
    return key + 2;
}

/// Adds the operands of `c`; returns its class.
uint32_t Tape::note_call(const Call& c, Noted& noted, bool own) {
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
    size_t first = load_->operands.size();
    try {
        for (int i = 0; i < c.inputs; ++i) end = note_operand(c, i, end, noted, own);
        *end++ = uint64_t{noted.grad} << 32 | uint64_t{given} << 33 |
                 uint64_t{c.attrs_number != 0} << 34 |
                 static_cast<uint64_t>(ops::default_dtype) << 40 |
                 (mode & (kGradMode | kInferenceMode));
        return class_of(c, static_cast<size_t>(end - key_.data()), noted);
    } catch (...) {
        load_->operands.resize(first);
        throw;
    }
}

/// Note [Own]
/// Where an op has a weight, a tensor without a gradient may be one that all examples share (frozen,
/// a buffer) or each example's own data (`a @ x`); so may a parameter of a pointwise op be one of
/// many (`h * scales[k]`). Which, only their calls together tell: each is kept as if it was shared,
/// and if most are over tensors that no other example uses, a flush takes the classes in which such
/// operands are stacked like all others, or gathered (Note [Unlike]).
uint32_t Tape::class_over_own(const Call& c, uint32_t first) {
    std::vector<Operand> kept(load_->operands.begin() + first, load_->operands.end());
    load_->operands.resize(first);
    Noted noted;
    uint32_t number = note_call(c, noted, true);
    load_->operands.resize(first);
    load_->operands.insert(load_->operands.end(), kept.begin(), kept.end());
    const Class& own = kinds_.classes[number];
    bool merges = kinds_.kind_of(own).how == How::Rows || own.each != Class::kNone;
    return merges ? number : Class::kNone;
}

void Tape::choose_own(Waiting& load) {
    struct Use {
        int64_t calls = 0;
        uint64_t user = kNobody;
    };
    struct Group {
        int64_t calls = 0, own_calls = 0, different = 0;
        uint64_t users = kNobody;
    };
    auto join = [](uint64_t known, uint64_t by) {
        return known == kNobody || known == by ? by : kSeveral;
    };
    auto add = [&](Use& use, const Kept& call) {
        ++use.calls;
        use.user = join(use.user, call.owner);
    };
    auto count = [&](Group& group, const Use& use) {
        group.calls += use.calls;
        if (use.user != kSeveral) group.own_calls += use.calls;
        group.users = join(group.users, use.user);
        ++group.different;
    };
    // In one fiber all are the same one's: there what is used again is taken for a weight.
    auto chosen = [](const Group& g) {
        return g.different > 1 &&
               (g.users == kSeveral ? 2 * g.own_calls > g.calls : g.calls < 2 * g.different);
    };
    // By class, of one shape, and by what is like it but for the shape: both hence by tensor.
    std::vector<Use> uses(kinds_.classes.size());
    std::map<std::pair<uint32_t, uint32_t>, Use> any_shape;
    auto kind_over_own = [&](const Class& c) { return kinds_.classes[c.own].kind; };
    auto group_over_own = [&](const Class& c) { return kinds_.kinds[kind_over_own(c)].group; };
    auto like = [&](const Class& c) { return std::pair(group_over_own(c), c.each); };
    for (const Kept& call : load.calls) {
        const Class& known = kinds_.classes[call.of_class];
        if (known.own >= Class::kUnknown) continue;
        add(uses[call.of_class], call);
        if (known.each != Class::kNone) add(any_shape[like(known)], call);
    }
    std::unordered_map<uint32_t, Group> kinds, groups;
    for (size_t c = 0; c < uses.size(); ++c)
        if (uses[c].calls) count(kinds[kind_over_own(kinds_.classes[c])], uses[c]);
    for (const auto& [at, use] : any_shape) count(groups[at.first], use);
    for (Kept& call : load.calls) {
        const Class& known = kinds_.classes[call.of_class];
        if (known.own >= Class::kUnknown) continue;
        // Of other shapes than the rest of a group, what all share may be a weight.
        bool own = known.each != Class::kNone && any_shape[like(known)].user != kSeveral &&
                   chosen(groups[group_over_own(known)]);
        if (own || chosen(kinds[kind_over_own(known)])) call.of_class = known.own;
    }
}

/// Whether each call has input i of its own, as its form says; without one, what no weight is read by.
bool Tape::is_own(const Call& c, const Noted& noted, const BatchForm* form, int i) {
    if (!(noted.fixed >> i & 1) || (noted.unlike >> i & 1)) return true;
    if (!form) return c.op->batch == Batch::Rows && !(c.op->batch_shared >> i & 1);
    return std::any_of(form->in.begin(), form->in.end(),
                       [&](const BatchForm::Input& in) { return in.from == i && !in.shared; });
}

/// The number of what the calls of `c`'s like have in common that may be parts of one call, and the
/// words of such a call; kNone where there are none.
uint32_t Tape::each_of(const Call& c, const Noted& noted, const BatchForm* form,
                       std::vector<int64_t>& words) {
    if (!ops::has_each(*c.op)) return Class::kNone;
    Each each;
    each.op = c.op;
    each.attrs.assign(c.attrs, c.attrs + c.op->defaults.size());
    const uint64_t modes = mode & (noted.grad ? kGradMode | kInferenceMode : kInferenceMode);
    Key key{reinterpret_cast<uintptr_t>(c.op),
            modes | uint64_t{noted.grad} << 32 | static_cast<uint64_t>(ops::default_dtype) << 40};
    size_t first = load_->operands.size() - static_cast<size_t>(c.inputs);
    bool any = false;
    for (int i = 0; i < c.inputs; ++i) {
        const Tensor& t = c.in[i];
        bool number = t.defined() && t.has(kWrapped);  // each call has its own
        bool own = t.defined() && (number || is_own(c, noted, form, i));
        each.inputs.push_back(number ? ops::EachInput::Number
                              : own  ? ops::EachInput::Own
                                     : ops::EachInput::Shared);
        any |= own && !number;
        key.push_back(static_cast<uint64_t>(each.inputs.back()));
        if (own) {
            ops::append_shape(words, t.shape());
            key.push_back(static_cast<uint64_t>(t.dtype()) | static_cast<uint64_t>(t.ndim()) << 8);
        } else if (!t.defined()) {
            key.push_back(~uint64_t{0});
        } else {
            const Operand& o = load_->operands[first + static_cast<size_t>(i)];
            key.push_back(fixed_names_[static_cast<size_t>(~o.value)]);
        }
    }
    for (int k = 0; k < c.outputs; ++k) {
        const Tensor& out = c.out(k);
        // Whether it is there may depend on what is recorded, which is not known yet.
        bool constant = c.op->constant_outputs >> k & 1;
        if (constant && out.numel() == 0 && c.out(0).numel() != 0) any = false;
        each.outputs.push_back(out.dtype());
        key.push_back(static_cast<uint64_t>(out.dtype()));
        ops::append_shape(words, out.shape());
    }
    for (size_t k = 0; k < c.op->defaults.size(); ++k) {
        const Value& v = c.attrs[k];
        if (ops::may_differ(*c.op, k, v)) {
            each.differing.push_back(static_cast<int>(k));
            ops::append_attribute(words, v);
        } else {
            key.push_back(k);
            append(key, v);
        }
    }
    if (!any) return Class::kNone;
    bool fresh;
    uint32_t number = kinds_.each_keys.number(key.data(), key.size(), fresh);
    if (fresh) kinds_.each.push_back(std::move(each));
    return number;
}

uint32_t Tape::class_of(const Call& c, size_t words, const Noted& noted) {
    const bool grad = noted.grad;
    bool fresh;
    uint32_t number = kinds_.class_keys.number(key_.data(), words, fresh);
    if (!fresh) return number;
    try {
        check_dtypes(c);
    } catch (...) {
        kinds_.class_keys.forget_last();
        throw;
    }
    Kind kind;
    kind.op = c.op;
    kind.default_dtype = ops::default_dtype;
    kind.mode = mode & (grad ? kGradMode | kInferenceMode : uint32_t{kInferenceMode});
    kind.form = alone(c);
    BatchForm form;
    form.op = c.op;
    form.attrs = kind.form.attrs;
    BatchRule rule = c.op->batch_rule ? c.op->batch_rule : ops::batch_pointwise;
    bool fits = rule({c, noted.fixed}, form);
    Key key, group;  // what makes a kind, and of it what does not hang on shapes and numbers
    if (fits && c.op->batch == Batch::Join && form.rows == 1) kind.how = How::Join;
    else if (fits) kind.how = How::Rows;
    Class made;
    made.op = c.op;
    made.each = kind.how == How::Join ? Class::kNone
                                      : each_of(c, noted, fits ? &form : nullptr, made.words);
    if (kind.how == How::Single && made.each == Class::kNone)
        kind.why = "shapes or operands that do not merge";
    key.push_back(static_cast<uint64_t>(kind.how));
    key.push_back(kind.mode | uint64_t{grad} << 8 | static_cast<uint64_t>(c.out(0).dtype()) << 16 |
                  static_cast<uint64_t>(kind.default_dtype) << 24);
    if (kind.how == How::Rows) {
        kind.form = std::move(form);
        for (BatchForm::Input& in : kind.form.in) {
            in.unlike = in.shared && in.from >= 0 && (noted.unlike >> in.from & 1);
            if (in.unlike && c.in[in.from].has(kWrapped)) in.as = ops::promoted(c.in, c.inputs);
        }
        const bool sizes =
            made.each == Class::kNone || (c.op->batch == Batch::Pointwise && rows_are_alike(kind));
        key.push_back(reinterpret_cast<uintptr_t>(kind.form.op));
        key.push_back(static_cast<uint64_t>(kind.form.then) | uint64_t{kind.form.wrap} << 4 |
                      static_cast<uint64_t>(kind.form.counts_attr + 1) << 8);
        group = key;
        for (const BatchForm::Input& in : kind.form.in) {
            const Tensor* t = in.from >= 0 ? &c.in[in.from] : nullptr;
            auto add = [&](uint64_t word, bool of_group = true) {
                key.push_back(word);
                if (of_group) group.push_back(word);
            };
            add(static_cast<uint64_t>(in.from + 1));
            if (!t || !t->defined()) {
                add(~uint64_t{0});
                continue;
            }
            add(static_cast<uint64_t>(t->dtype()) | uint64_t{in.shared} << 8 |
                static_cast<uint64_t>(in.row.size()) << 16 | uint64_t{t->has(kWrapped)} << 9 |
                uint64_t{in.unlike} << 10 | uint64_t{in.once} << 11 |
                static_cast<uint64_t>(in.as) << 24);
            if (in.unlike) {
                add(static_cast<uint64_t>(t->ndim()));
                for (int64_t d : t->shape()) add(static_cast<uint64_t>(d), sizes);
            } else if (!in.shared) {
                add(static_cast<uint64_t>(in.table + 1));
                for (int64_t d : in.row) add(static_cast<uint64_t>(d), sizes);
            } else if (t->has(kWrapped)) {
                uint64_t bits[2] = {};
                std::memcpy(bits, t->bytes(), static_cast<size_t>(item_size(t->dtype())));
                add(bits[0], false);
                add(bits[1], false);
            } else {
                size_t at = load_->operands.size() - static_cast<size_t>(c.inputs - in.from);
                add(fixed_names_[static_cast<size_t>(~load_->operands[at].value)]);
            }
        }
        for (size_t k = 0; k < kind.form.attrs.size(); ++k) {
            const Value& v = kind.form.attrs[k];
            append(key, v);
            if (!ops::may_differ(*kind.form.op, k, v)) append(group, v);
        }
    } else if (kind.how == How::Single) {
        key.push_back(number);
    }
    made.rows = kind.form.rows;
    bool unlike = false;
    for (const BatchForm::Input& in : kind.form.in) unlike |= in.rows >= 0;
    if (kind.how == How::Join)  // NOLINTNEXTLINE(bugprone-use-after-move): moved from for Rows only
        for (const BatchForm::Input& in : form.in) made.sizes.push_back(ops::row_size(in.row));
    else if (unlike)
        for (const BatchForm::Input& in : kind.form.in)
            made.sizes.push_back(in.rows >= 0 ? in.rows : kind.form.rows);
    made.kind = kinds_.kind_keys.number(key.data(), key.size(), fresh);
    if (fresh) {
        if (kind.how != How::Rows) group = {made.each, made.each == Class::kNone ? made.kind : 0};
        kind.group = kinds_.group_keys.number(group.data(), group.size(), fresh);
        kinds_.kinds.push_back(std::move(kind));
    }
    kinds_.classes.push_back(made);
    return number;
}

}  // namespace weft::deferred
