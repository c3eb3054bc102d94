#include "deferred/tape.h"

#include <algorithm>

#include "deferred/batcher.h"
#include "ops/watch.h"
#include "ops/write.h"

namespace weft::deferred {

// ---- keeping -----------------------------------------------------------------------------------

Ref<Overwriting> Tape::overwrite(const Tensor& root) {
    if (!load_->recorded) return {};
    const int64_t size = item_size(root.dtype());
    Ref<Overwriting> write;
    auto add = [&](int64_t value, const void* data, int64_t begin, int64_t end) {
        if (!write) write = Ref<Overwriting>(new Overwriting);
        auto by = static_cast<uint32_t>(load_->calls.size());
        load_->overwrites.push_back({value, by, data, begin, end, write});
    };
    // What waits may read a copy of what is written: the block that it was taken of, or a view's.
    auto add_copies = [&](const Storage& of, ops::Span part) {
        ops::each_copy(of, part, [&](const Storage& copy, ops::Span to) {
            if (reader(copy) != Readers::kNobody)
                add(Operand::kNone, copy.data, to.begin / size, to.end / size);
        });
    };
    if (!is_pending(root)) {
        const Storage& storage = *root.storage();
        if (reader(storage) != Readers::kNobody) add(Operand::kNone, storage.data, 0, INT64_MAX);
        add_copies(storage, {0, INT64_MAX});
    } else if (const Pending& p = pending(root); p.waits()) {
        add(p.value, nullptr, 0, INT64_MAX);
    } else if (p.block.defined()) {
        const ops::Span elements{p.start, p.start + root.numel()};
        add(Operand::kNone, p.block.storage()->data, elements.begin, elements.end);
        add_copies(*p.block.storage(), ops::span_of(p.block, elements));
    }
    return write;
}

void Tape::make_another(const Tensor& root) {
    if (Ref<Overwriting> write = overwrite(root)) write->make();
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
    uint32_t of_class = classes_.note(load, c, noted);
    maybe_own_ |= noted.maybe_own && classes_.has_own(load, c, of_class, first);
    Batcher& batcher = Batcher::current();
    auto number = static_cast<uint32_t>(load.calls.size());
    const bool grad = noted.grad;
    load.recorded |= grad;
    const ops::MadeOp* made = kinds().classes[of_class].made.get();
    const char* variant = grad && op.backward_name ? op.backward_name(c) : nullptr;
    load.calls.push_back({of_class, first, static_cast<uint32_t>(load.outputs.size()),
                          batcher.responsible(), ops::scopes.inside, Site::here()});
    for (int k = 0; k < c.outputs; ++k) {
        const Tensor& out = c.out(k);
        Ref<Pending> p = Pending::make();
        p->among = &load;
        p->value = static_cast<uint32_t>(load.outputs.size());
        p->recording = mode & kGradMode;
        p->used = made && made->used >> k & 1;
        p->requires_grad = grad && is_inexact(out.dtype()) && !(op.constant_outputs >> k & 1);
        if (grad) p->node_name = variant ? variant : op.node_name_of(k).c_str();
        load.outputs.push_back({p.get(), out.numel(), number, out.dtype()});
        if (!grad) load.unrecorded += out.numel();
        out.set(kPending);
        out.set(kInference, p->inference);
        out.impl()->slot = std::move(p);
    }
    if (load.calls.size() >= batcher.settings.budget) flush("the budget");
}

namespace {

/// While a flush runs, nothing holds of what does for whoever wanted it: calls that were kept elsewhere
/// run, and their kinds say what held for them. (They were cast when they were kept.) A watcher goes on,
/// but not inside of what is open: calls of several examples run.
class FlushScope {
public:
    explicit FlushScope(int& flushes) : flushes_(flushes) {
        ++flushes_;
        mode &= kWatchMode;
        ops::scopes = {.watcher = callers_.scopes.watcher};
    }
    ~FlushScope() {
        callers_.restore();
        --flushes_;
    }
    FlushScope(const FlushScope&) = delete;

private:
    int& flushes_;
    const Surroundings callers_ = Surroundings::now();
};

}  // namespace

// ---- flushing ----------------------------------------------------------------------------------

FlushReport* Tape::begin_report(const Waiting& load, const char* reason) {
    Reporting& reporting = Batcher::current().reporting;
    if (!reporting) return nullptr;
    FlushReport& report = reporting.flushes.emplace_back();
    report.causes = std::exchange(reporting.readers, {});
    report.draws = std::exchange(reporting.draws, {});
    report.changes = std::exchange(reporting.changes, {});
    report.reason = reason;
    report.calls = static_cast<int64_t>(load.calls.size());
    return &report;
}

Structure Tape::structure_of(const Waiting& load) const {
    Structure out;
    out.groups.reserve(load.calls.size());
    out.begins.reserve(load.calls.size() + 1);
    out.producers.reserve(load.operands.size());
    for (const Kept& call : load.calls) {
        out.groups.push_back(kinds().classes[call.of_class].group);
        out.begins.push_back(call.operands);
    }
    out.begins.push_back(static_cast<uint32_t>(load.operands.size()));
    for (const Operand& o : load.operands)
        out.producers.push_back(
            o.value >= 0 ? static_cast<int32_t>(load.outputs[static_cast<size_t>(o.value)].call)
                         : -1);
    return out;
}

void Tape::flush(const char* reason) {
    if (load_->calls.empty()) return;
    FlushScope now(flushes_);  // first of all: what is dropped below may run Python
    ops::WatchSpan span(ops::SpanKind::Flush, nullptr, reason);
    std::unique_ptr<Waiting> load = std::move(load_);
    load_ = spare_ ? std::move(spare_) : std::make_unique<Waiting>();
    readers_.forget(*load);
    Batcher& batcher = Batcher::current();
    batcher.tally.calls += static_cast<int64_t>(load->calls.size());
    FlushReport* report = begin_report(*load, reason);
    const double start = report ? seconds() : 0;
    if (std::exchange(maybe_own_, false)) choose_own(*load, kinds());
    if (!load->overwrites.empty()) load->find_overwritten(kinds());
    bool known;
    const auto plan = plans_.of(structure_of(*load), kinds().group_keys.size(), known);
    Plan later;
    const bool is_spread = spread(*load, *plan, kinds(), batcher.settings.ahead, later);
    if (report) {
        report->plan_known = known;
        report->plan_s = seconds() - start;
    }
    auto failed = run(*load, is_spread ? later : *plan, kinds(), report);
    std::stable_sort(failed.begin(), failed.end(),
                     [](const auto& a, const auto& b) { return a->call < b->call; });
    for (Ref<Failure>& failure : failed) failures_.push_back(std::move(failure));
    if (report) report->run_s = seconds() - start - report->plan_s - report->pack_s;
    recycle(std::move(load));
    // The flush around and calls that wait have numbers of classes.
    if (flushes_ == 1 && empty() && classes_.forget_many()) plans_.clear();
}

void Tape::recycle(std::unique_ptr<Waiting> load) {
    load->clear();
    if (load->calls.capacity() > kBudget / 4) return;
    // Calls that came in meanwhile, by destructors, are few: the large one takes the next ones.
    if (load_->calls.empty() && load_->externals.empty()) std::swap(load, load_);
    spare_ = std::move(load);
}

std::vector<Ref<Failure>> Tape::take_failures() {
    std::vector<Ref<Failure>> out = std::move(failures_);
    failures_.clear();
    std::erase_if(out, [](const Ref<Failure>& f) { return f->raised; });
    return out;
}

void Tape::raise_own_failure() {
    if (failures_.empty()) return;
    const uint64_t own = Batcher::current().example();
    Ref<Failure> first;
    for (const Ref<Failure>& f : failures_)
        if (f->owner == own && !f->raised && !first) first = f;
    std::erase_if(failures_, [&](const Ref<Failure>& f) { return f->owner == own; });
    if (first) raise(*first);
}

}  // namespace weft::deferred
