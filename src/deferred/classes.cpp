/// How a kept call finds its class: what of it and of its operands must be equal for calls to merge.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "deferred/tape.h"
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
    return kinds_.kinds[kinds_.classes[number].kind].how == How::Rows ? number : Class::kNone;
}

void Tape::choose_own(Waiting& load) {
    struct Use {
        int64_t calls = 0;
        uint32_t user = kNobody;
    };
    struct Group {
        int64_t calls = 0, own_calls = 0, different = 0;
        uint32_t users = kNobody;
    };
    auto join = [](uint32_t known, uint32_t by) {
        return known == kNobody || known == by ? by : kSeveral;
    };
    std::vector<Use> uses(kinds_.classes.size());  // by class, hence by tensor
    for (const Kept& call : load.calls)
        if (kinds_.classes[call.of_class].own < Class::kUnknown) {
            Use& use = uses[call.of_class];
            ++use.calls;
            use.user = join(use.user, call.owner);
        }
    auto kind_over_own = [&](const Class& c) { return kinds_.classes[c.own].kind; };
    std::unordered_map<uint32_t, Group> groups;
    for (size_t c = 0; c < uses.size(); ++c) {
        if (uses[c].calls == 0) continue;
        Group& group = groups[kind_over_own(kinds_.classes[c])];
        group.calls += uses[c].calls;
        if (uses[c].user != kSeveral) group.own_calls += uses[c].calls;
        group.users = join(group.users, uses[c].user);
        ++group.different;
    }
    // In one fiber all are the same one's: there what is used again is taken for a weight.
    auto chosen = [](const Group& g) {
        return g.different > 1 &&
               (g.users == kSeveral ? 2 * g.own_calls > g.calls : g.calls < 2 * g.different);
    };
    std::erase_if(groups, [&](const auto& group) { return !chosen(group.second); });
    if (groups.empty()) return;
    for (Kept& call : load.calls) {
        const Class& known = kinds_.classes[call.of_class];
        if (known.own < Class::kUnknown && groups.contains(kind_over_own(known)))
            call.of_class = known.own;
    }
}

uint32_t Tape::class_of(const Call& c, size_t words, const Noted& noted) {
    const bool grad = noted.grad;
    bool fresh;
    uint32_t number = kinds_.class_keys.number(key_.data(), words, fresh);
    if (!fresh) return number;
    ++tally.fresh;
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
    Key key;
    if (fits && c.op->batch == Batch::Join && form.rows == 1) kind.how = How::Join;
    else if (fits) kind.how = How::Rows;
    else kind.why = "shapes or operands that do not merge";
    key.push_back(static_cast<uint64_t>(kind.how));
    key.push_back(kind.mode | uint64_t{grad} << 8 | static_cast<uint64_t>(c.out(0).dtype()) << 16 |
                  static_cast<uint64_t>(kind.default_dtype) << 24);
    if (kind.how == How::Rows) {
        kind.form = std::move(form);
        for (BatchForm::Input& in : kind.form.in) {
            in.unlike = in.shared && in.from >= 0 && (noted.unlike >> in.from & 1);
            if (in.unlike && c.in[in.from].has(kWrapped)) in.as = ops::promoted(c.in, c.inputs);
        }
        key.push_back(reinterpret_cast<uintptr_t>(kind.form.op));
        key.push_back(static_cast<uint64_t>(kind.form.then) | uint64_t{kind.form.wrap} << 4 |
                      static_cast<uint64_t>(kind.form.counts_attr + 1) << 8);
        for (const Value& v : kind.form.attrs) append(key, v);
        for (const BatchForm::Input& in : kind.form.in) {
            const Tensor* t = in.from >= 0 ? &c.in[in.from] : nullptr;
            key.push_back(static_cast<uint64_t>(in.from + 1));
            if (!t || !t->defined()) {
                key.push_back(~uint64_t{0});
                continue;
            }
            key.push_back(static_cast<uint64_t>(t->dtype()) | uint64_t{in.shared} << 8 |
                          static_cast<uint64_t>(in.row.size()) << 16 |
                          uint64_t{t->has(kWrapped)} << 9 | uint64_t{in.unlike} << 10 |
                          static_cast<uint64_t>(in.as) << 24);
            if (in.unlike) {
                key.push_back(static_cast<uint64_t>(t->ndim()));
                for (int64_t d : t->shape()) key.push_back(static_cast<uint64_t>(d));
            } else if (!in.shared) {
                key.push_back(static_cast<uint64_t>(in.table + 1));
                for (int64_t d : in.row) key.push_back(static_cast<uint64_t>(d));
            } else if (t->has(kWrapped)) {
                uint64_t bits[2] = {};
                std::memcpy(bits, t->bytes(), static_cast<size_t>(item_size(t->dtype())));
                key.push_back(bits[0]);
                key.push_back(bits[1]);
            } else {
                size_t at = load_->operands.size() - static_cast<size_t>(c.inputs - in.from);
                key.push_back(fixed_names_[static_cast<size_t>(~load_->operands[at].value)]);
            }
        }
    } else if (kind.how == How::Single) {
        key.push_back(number);
    }
    Class made;
    made.op = c.op;
    made.rows = kind.form.rows;
    bool unlike = false;
    for (const BatchForm::Input& in : kind.form.in) unlike |= in.rows >= 0;
    if (kind.how == How::Join)
        for (const BatchForm::Input& in : form.in) made.sizes.push_back(ops::row_size(in.row));
    else if (unlike)
        for (const BatchForm::Input& in : kind.form.in)
            made.sizes.push_back(in.rows >= 0 ? in.rows : kind.form.rows);
    made.kind = kinds_.kind_keys.number(key.data(), key.size(), fresh);
    if (fresh) kinds_.kinds.push_back(std::move(kind));
    kinds_.classes.push_back(made);
    return number;
}

}  // namespace weft::deferred
