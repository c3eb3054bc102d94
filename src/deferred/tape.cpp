#include "deferred/batcher.h"

#include <algorithm>

#include "ops/write.h"

namespace weft::deferred {

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

namespace {

/// `visit(number of an external)` for each that call `c` reads.
template <class Visit>
void each_external(const Waiting& load, size_t c, const Visit& visit) {
    for (uint32_t k = load.calls[c].operands; k < load.operand_end(c); ++k) {
        const Operand& o = load.operands[k];
        if (!o.none() && o.value < 0) visit(static_cast<size_t>(~o.value));
    }
}

}  // namespace

void Tape::list_readers() {
    for (; listed_ < load_->calls.size(); ++listed_) {
        uint64_t by = load_->calls[listed_].owner;
        each_external(*load_, listed_, [&](size_t e) {
            const void* data = load_->externals[e].storage()->data;
            Readers& known = readers_.try_emplace(data, Readers{by, by}).first->second;
            if (known.by != by) known.by = kSeveral;
            known.last = std::max(known.last, by);
        });
    }
}

uint64_t Tape::reader(const Storage& storage) {
    list_readers();
    auto found = readers_.find(storage.data);  // not the storage: `.data` has one of its own
    return found == readers_.end() ? kNobody : found->second.by;
}

uint64_t Tape::last_reader(const Storage& storage) {
    list_readers();
    uint64_t last = 0;
    if (auto now = readers_.find(storage.data); now != readers_.end()) last = now->second.last;
    if (const Ref<ExampleBatch>& batch = Batcher::current().batch) {
        const auto& known = batch->outermost().read_before;
        if (auto before = known.find(storage.data); before != known.end())
            last = std::max(last, before->second);
    }
    return last;
}

void Tape::remember_readers(const Waiting& load) {
    const Ref<ExampleBatch>& batch = Batcher::current().batch;
    if (!batch || batch->outermost().count < 2) return;
    ExampleBatch& outermost = batch->outermost();
    std::vector<uint64_t> last(load.externals.size());
    for (size_t c = 0; c < load.calls.size(); ++c)
        each_external(load, c, [&](size_t e) { last[e] = std::max(last[e], load.calls[c].owner); });
    for (size_t e = 0; e < last.size(); ++e) {
        const Storage* storage = load.externals[e].storage().get();
        if (!storage || !outermost.is_older(storage->maker)) continue;
        uint64_t& by = outermost.read_before[storage->data];
        by = std::max(by, last[e]);
    }
}

/// Where the elements of a pending tensor lie or will lie.
Operand Tape::operand(const Tensor& t) {
    const Pending& self = pending(t);
    int64_t offset = 0;
    Pending* root = &pending(t);
    if (self.is_piece()) {
        root = &pending(self.base);
        offset = t.numel() ? self.start : 0;  // no element may lie beyond all others
    }
    root->used = true;
    WEFT_EXPECT(!root->waits() || root->among == load_.get(), Runtime, "autobatch",
                "a value to be used by the thread that made it, and not while it is computed",
                "another thread, or a destructor", "read it before (x.tolist(), x.clone())");
    if (root->waits()) return {root->value, offset};
    return {~external(root->block), root->start + offset};
}

void Tape::overwrite(const Tensor& root) {
    if (!load_->recorded) return;
    auto by = static_cast<uint32_t>(load_->calls.size());
    Overwrite w{Operand::kNone, by, nullptr, 0, INT64_MAX, Site::here()};
    if (!is_pending(root)) {
        w.data = root.storage()->data;
    } else if (const Pending& p = pending(root); p.waits()) {
        w.value = p.value;
    } else if (p.block.defined()) {
        w.data = p.block.storage()->data;
        w.begin = p.start;
        w.end = p.start + root.numel();
    } else {
        return;
    }
    load_->overwrites.push_back(std::move(w));
}

void Tape::make_another(const Tensor& root) {
    overwrite(root);
    const Pending& p = pending(root);
    if (!p.block.defined() || !p.block.storage()->watched) return;
    ops::Write::overwrite(*p.block.storage(),
                          ops::span_of(p.block, {p.start, p.start + root.numel()}));
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
    Batcher& batcher = Batcher::current();
    auto number = static_cast<uint32_t>(load.calls.size());
    const bool grad = noted.grad;
    load.recorded |= grad;
    const char* variant = grad && op.backward_name ? op.backward_name(c) : nullptr;
    load.calls.push_back({of_class, first, static_cast<uint32_t>(load.outputs.size()),
                          batcher.responsible(), Site::here()});
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
    if (load.calls.size() >= batcher.settings.budget) flush("the budget");
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
        entry->kinds.push_back(kinds_.kind_of(kinds_.classes[call.of_class]).group);
        entry->begins.push_back(call.operands);
    }
    entry->begins.push_back(static_cast<uint32_t>(load.operands.size()));
    for (const Operand& o : load.operands)
        entry->producers.push_back(
            o.value >= 0 ? static_cast<int32_t>(load.outputs[static_cast<size_t>(o.value)].call)
                         : -1);
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
                    static_cast<uint32_t>(kinds_.group_keys.size())};
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
    remember_readers(*load);
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
    Batcher& batcher = Batcher::current();
    batcher.tally.calls += static_cast<int64_t>(load->calls.size());
    FlushReport* report = nullptr;
    double start = 0;
    if (Reporting& reporting = batcher.reporting) {
        report = &reporting.flushes.emplace_back();
        report->causes = std::exchange(reporting.readers, {});
        report->draws = std::exchange(reporting.draws, {});
        report->changes = std::exchange(reporting.changes, {});
        report->reason = reason;
        report->calls = static_cast<int64_t>(load->calls.size());
        start = seconds();
    }
    if (std::exchange(maybe_own_, false)) choose_own(*load);
    if (!load->overwrites.empty()) load->find_overwritten(kinds_);
    Plan fresh, later;
    const Plan& order = plan(*load, report, fresh);
    bool is_spread = spread(*load, order, kinds_, batcher.settings.ahead, later);
    if (report) report->plan_s = seconds() - start;
    auto failed = run(*load, is_spread ? later : order, kinds_, report);
    std::stable_sort(failed.begin(), failed.end(),
                     [](const auto& a, const auto& b) { return a->call < b->call; });
    for (Ref<Failure>& failure : failed) failures_.push_back(std::move(failure));
    if (report) report->run_s = seconds() - start - report->plan_s - report->pack_s;
    load->clear();
    if (load->calls.capacity() <= kBudget / 4) {
        // Calls that came in meanwhile, by destructors, are few: the large one takes the next ones.
        if (load_->calls.empty() && load_->externals.empty()) std::swap(load, load_);
        spare_ = std::move(load);
    }
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
