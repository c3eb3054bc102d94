#include "deferred/tape.h"

#include <algorithm>
#include <cstring>

#include "ops/functions.h"
#include "ops/pointwise.h"

namespace weft::deferred {

Tape& Tape::make_current() {
    current_ = new Tape;  // outlives what Python drops at exit
    return *current_;
}

// ---- keeping -----------------------------------------------------------------------------------

int64_t Tape::external(const Tensor& t) {
    const TensorImpl* impl = t.impl();
    int64_t& recent = recent_[(reinterpret_cast<uintptr_t>(impl) >> 7) % kRecent];
    if (recent && static_cast<size_t>(recent) <= load_->externals.size() &&
        load_->externals[static_cast<size_t>(recent - 1)].impl() == impl)
        return recent - 1;
    auto [it, fresh] = numbers_.try_emplace(impl, static_cast<int64_t>(load_->externals.size()));
    if (fresh) load_->externals.push_back(t);
    recent = it->second + 1;
    return it->second;
}

const Tensor& Tape::first_view(const Tensor& t, const Tensor& base) {
    Key key{reinterpret_cast<uintptr_t>(base.impl()), reinterpret_cast<uintptr_t>(t.bytes()),
            uint64_t{base.version()} << 32 | static_cast<uint64_t>(t.dtype()) << 8 |
                static_cast<uint64_t>(t.ndim())};
    for (int64_t size : t.shape()) key.push_back(static_cast<uint64_t>(size));
    for (int64_t stride : t.strides()) key.push_back(static_cast<uint64_t>(stride));
    bool fresh;
    uint32_t number = view_keys_.number(key.data(), key.size(), fresh);
    if (fresh) first_views_.push_back(t);
    return first_views_[number];
}

uint32_t Tape::fixed_name(const Tensor& t, bool weight) {
    auto number = static_cast<size_t>(external(t));
    if (fixed_names_.size() <= number) fixed_names_.resize(number + 1);
    uint32_t& name = fixed_names_[number];
    if (name == 0) name = 2 * ++fixed_count_[weight] + weight;
    return name;
}

uint32_t Tape::reader(const Storage& storage) {
    for (; listed_ < load_->calls.size(); ++listed_) {
        uint32_t by = load_->calls[listed_].owner;
        for (uint32_t k = load_->calls[listed_].operands; k < load_->operand_end(listed_); ++k) {
            const Operand& o = load_->operands[k];
            if (o.none() || o.value >= 0) continue;
            const Tensor& external = load_->externals[static_cast<size_t>(~o.value)];
            auto [known, fresh] = readers_.try_emplace(external.storage()->data, by);
            if (!fresh && known->second != by) known->second = kSeveral;
        }
    }
    auto found = readers_.find(storage.data);  // not the storage: `.data` has one of its own
    return found == readers_.end() ? kNobody : found->second;
}

/// Where the elements of a pending tensor lie or will lie.
Operand Tape::operand(const Tensor& t) {
    const Pending& self = pending(t);
    int64_t offset = 0;
    Pending* root = &pending(t);
    if (self.is_piece()) {
        root = &pending(self.base);
        offset = self.start;
    }
    root->used = true;
    WEFT_EXPECT(!root->waits() || root->among == load_.get(), Runtime, "autobatch",
                "a value to be used by the thread that made it, and not while it is computed",
                "another thread, or a destructor", "read it before (x.tolist(), x.clone())");
    if (root->waits()) return {root->value, offset};
    return {~external(root->block), root->start + offset};
}

/// Note [Unlike]
/// Pointwise calls merge although their numbers (`x / len(xs)`) or their pieces of a weight (`E[k]`)
/// differ: keys do not tell which one it is, and a batch with several gathers them by row. A number
/// is then an element of the dtype that the kernel computes in. An op with a rule of its own has
/// numbers by value: its kernel may look at them.
static bool may_be_unlike(const Call& c, const Tensor& t) {
    constexpr int64_t kSmallPiece = 4096;  // elements; a larger one is worth a batch of its own
    if (c.op->batch != Batch::Pointwise || c.op->batch_rule) return false;
    if (!t.has(kWrapped)) return t.numel() > 0 && t.numel() <= kSmallPiece;
    DType computed = ops::promoted(c.in, c.inputs);
    return computed == DType::Float32 || computed == DType::Float64 || computed == DType::Int64;
}

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
        uint32_t name = what == kFixed ? fixed_name(first, wants_grad) : 0;
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
        *key++ = fixed_names_[static_cast<size_t>(~operands.back().value)];
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
                 uint64_t{c.attrs_number != 0} << 34 | static_cast<uint64_t>(ops::default_dtype) << 40 |
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
    constexpr uint32_t kNobody = UINT32_MAX, kSeveral = UINT32_MAX - 1;
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
        if (known.own < Class::kUnknown && groups.contains(kind_over_own(known))) call.of_class = known.own;
    }
}

void Tape::keep(Call& c) {
    const Op& op = *c.op;
    Waiting& load = *load_;
    auto first = static_cast<uint32_t>(load.operands.size());
    Noted noted;
    uint32_t of_class = note_call(c, noted, false);
    if (noted.maybe_own) {
        if (kinds_.classes[of_class].own == Class::kUnknown) {
            uint32_t own = class_over_own(c, first);
            kinds_.classes[of_class].own = own;
        }
        maybe_own_ |= kinds_.classes[of_class].own != Class::kNone;
    }
    auto number = static_cast<uint32_t>(load.calls.size());
    const bool grad = noted.grad;
    const char* variant = grad && op.backward_name ? op.backward_name(c) : nullptr;
    load.calls.push_back({of_class, first, static_cast<uint32_t>(load.outputs.size()), owner,
                          Site::here()});
    for (int k = 0; k < c.outputs; ++k) {
        const Tensor& out = c.out(k);
        Ref<Pending> p = Pending::make();
        p->among = &load;
        p->value = static_cast<uint32_t>(load.outputs.size());
        p->recording = mode & kGradMode;
        p->requires_grad = grad && is_inexact(out.dtype()) && !(op.constant_outputs >> k & 1);
        if (grad) p->node_name = variant ? variant : op.node_name_of(k).c_str();
        load.outputs.push_back({p.get(), out.numel(), number, out.dtype()});
        out.set(kPending);
        out.impl()->slot = std::move(p);
    }
    if (load.calls.size() >= budget) flush("the budget");
}

namespace {

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

// ---- flushing ----------------------------------------------------------------------------------

namespace {

constexpr size_t kRememberedPlans = 8, kClasses = 1 << 16;

}  // namespace

const Plan& Tape::plan(const Waiting& load, FlushReport* report, Plan& fresh) {
    auto entry = std::make_unique<Remembered>();
    size_t calls = load.calls.size();
    entry->kinds.reserve(calls);
    entry->begins.reserve(calls + 1);
    entry->producers.reserve(load.operands.size());
    for (const Kept& call : load.calls) {
        entry->kinds.push_back(kinds_.classes[call.of_class].kind);
        entry->begins.push_back(call.operands);
    }
    entry->begins.push_back(static_cast<uint32_t>(load.operands.size()));
    for (const Operand& o : load.operands)
        entry->producers.push_back(
            o.value >= 0 ? static_cast<int32_t>(load.outputs[static_cast<size_t>(o.value)].call) : -1);
    for (size_t i = 0; i < plans_.size(); ++i) {
        const Remembered& known = *plans_[i];
        if (known.kinds != entry->kinds || known.begins != entry->begins ||
            known.producers != entry->producers)
            continue;
        std::rotate(plans_.begin(), plans_.begin() + static_cast<ptrdiff_t>(i),
                    plans_.begin() + static_cast<ptrdiff_t>(i) + 1);
        if (report) report->plan_known = true;
        return plans_.front()->plan;
    }
    Program program{entry->kinds, entry->begins, entry->producers,
                    static_cast<uint32_t>(kinds_.kinds.size())};
    entry->plan = make_plan(program);
    if (calls > kBudget / 4) {  // too large to keep
        fresh = std::move(entry->plan);
        return fresh;
    }
    plans_.insert(plans_.begin(), std::move(entry));
    if (plans_.size() > kRememberedPlans) plans_.pop_back();
    return plans_.front()->plan;
}

void Tape::flush(const char* reason) {
    if (load_->calls.empty()) return;
    ModeGuard now(0, kDeferMode);  // first of all: what is dropped below may run Python
    std::unique_ptr<Waiting> load = std::move(load_);
    load_ = spare_ ? std::move(spare_) : std::make_unique<Waiting>();
    numbers_.clear();
    readers_.clear();
    listed_ = 0;
    fixed_names_.clear();
    fixed_count_[0] = fixed_count_[1] = 0;
    std::fill_n(recent_, kRecent, 0);
    // Dropped when all is computed: a destructor of the user's may ask for a value that waits.
    std::vector<Tensor> first_views = std::move(first_views_);
    first_views_.clear();
    view_keys_.clear();
    tally.calls += static_cast<int64_t>(load->calls.size());
    FlushReport* report = nullptr;
    double start = 0;
    if (reports) {
        report = &reports->emplace_back();
        report->causes = std::move(readers);
        readers.clear();
        report->reason = reason;
        report->calls = static_cast<int64_t>(load->calls.size());
        start = seconds();
    }
    if (std::exchange(maybe_own_, false)) choose_own(*load);
    Plan fresh;
    const Plan& order = plan(*load, report, fresh);
    if (report) report->plan_s = seconds() - start;
    auto failed = run(*load, order, kinds_, report);
    std::stable_sort(failed.begin(), failed.end(),
                     [](const auto& a, const auto& b) { return a->call < b->call; });
    for (Ref<Failure>& failure : failed) failures_.push_back(std::move(failure));
    if (report) report->run_s = seconds() - start - report->plan_s - report->pack_s;
    load->clear();
    if (load->calls.capacity() <= kBudget / 4) spare_ = std::move(load);
    if (kinds_.classes.size() > kClasses) {
        kinds_.clear();
        plans_.clear();
    }
}

std::vector<Ref<Failure>> Tape::take_failures() {
    std::vector<Ref<Failure>> out = std::move(failures_);
    failures_.clear();
    std::erase_if(out, [](const Ref<Failure>& f) { return f->raised; });
    return out;
}

void Tape::raise_own_failure() {
    Ref<Failure> first;
    for (const Ref<Failure>& f : failures_)
        if (f->owner == 0 && !f->raised && !first) first = f;
    std::erase_if(failures_, [](const Ref<Failure>& f) { return f->owner == 0; });
    if (first) raise(*first);
}

}  // namespace weft::deferred
