/// Runs the batches of a plan through the door, so that the graph records the batched calls.
///
/// Every result of a batch is a block: a contiguous tensor that holds the results of its calls one
/// after the other. An operand of the next batch is taken from the blocks as it lies, if its pieces
/// stand at equal distances, and is packed otherwise, once for all calls.
#include <algorithm>

#include "deferred/runner.h"
#include "ops/functions.h"
#include "ops/pointwise.h"
#include "ops/watch.h"

namespace weft::deferred {
namespace {

class DefaultDType {
public:
    explicit DefaultDType(DType t) : before_(ops::default_dtype) {
        if (before_ != t) ops::default_dtype = t;
        other_ = before_ != t;
    }
    ~DefaultDType() {
        if (other_) ops::default_dtype = before_;
    }
    DefaultDType(const DefaultDType&) = delete;

private:
    DType before_;
    bool other_;  ///< mostly not: then what another thread sets meanwhile stays
};

}  // namespace

/// Rows of each call and of all of them.
void Runner::count_rows(Rows& rows) const {
    const BatchForm& form = rows.kind.form;
    rows.any_once = form.any_once();
    const bool counted =
        rows.any_once || form.counts_attr >= 0 || form.then != BatchForm::Then::Nothing;
    for (uint32_t call : rows.calls) {
        rows.total += rows_of(call);
        if (counted) rows.counts.push_back(rows_of(call));
    }
}

/// What all calls share, indices, and where the rows of the other operands lie.
void Runner::find_rows(Rows& rows) {
    const BatchForm& form = rows.kind.form;
    const Calls calls = rows.calls;
    rows.by_elements = form.counts_attr < 0 && rows.kind.op->pointwise;
    rows.operands.reserve(form.in.size());
    for (size_t k = 0; k < form.in.size(); ++k) {
        const BatchForm::Input& input = form.in[k];
        if (input.from < 0 || operand(calls[0], input.from).none()) continue;
        if (input.shared) {
            rows.in[k] = shared(calls[0], input);
            rows.by_elements &= rows.in[k].ndim() == 0;
            if (input.unlike && differ(input, calls)) {
                rows.in[k] = unlike(form, input, calls, rows.total);
                rows.gathered.push_back(k);
            }
        } else if (input.table >= 0) {
            rows.in[k] = shifted_indices(form, k, calls);
            rows.by_elements = false;
        } else {
            rows.by_elements &= input.row.empty() && input.rows < 0;
            const int64_t size = ops::row_size(input.row);
            rows.operands.push_back(pieces_of(
                k, input.from, calls, [&](uint32_t call) { return size * rows_of(call, k); }));
        }
    }
}

/// Makes one tensor of the rows of each operand.
void Runner::assemble_rows(Rows& rows) {
    static const ops::Function segment_spread{"_segment_spread"}, view{"view"};
    const Dims& counts = rows.counts;
    // Rows of equal number are a dim of their own, along which one row broadcasts.
    const bool dim_of_rows =
        rows.any_once && rows.gathered.empty() &&
        std::all_of(counts.begin(), counts.end(), [&](int64_t n) { return n == counts[0]; });
    const Dims elements = rows.by_elements ? shape_for(rows.operands, rows.total) : Dims();
    for (Operands& o : rows.operands) {
        const BatchForm::Input& input = rows.kind.form.in[o.input];
        Dims shape = elements;
        if (!rows.by_elements) {
            if (dim_of_rows) shape.push_back(counts.size());
            shape.push_back(!dim_of_rows ? rows_in(o, rows.calls) : input.once ? 1 : counts[0]);
            for (int64_t d : input.row) shape.push_back(d);
        }
        Tensor& t = rows.in[o.input] = assemble(o, shape, rows.kind.mode & kGradMode);
        if (!input.once || dim_of_rows) continue;
        t = segment_spread(t, counts);
        o.repeats = counts;
    }
    if (rows.by_elements && elements.size() != 1)
        for (size_t k : rows.gathered) rows.in[k] = view(rows.in[k], elements);
}

/// Whether gathering costs more than the calls' own kernels (Note [Large]).
bool Runner::too_large(const std::vector<Operands>& operands, Calls calls) {
    int64_t packed = 0;
    for (const Operands& o : operands)
        if (o.lie.runs == 0) packed += o.elements;
    if (calls.size() == 1 ||
        packed / static_cast<int64_t>(calls.size()) < batcher_.settings.large_call)
        return false;
    if (batch_) batch_->why = "operands too large to be gathered";
    return true;
}

void Runner::run_rows(const Kind& kind, Calls calls) {
    const BatchForm& form = kind.form;
    const double start = report_ ? seconds() : 0;
    Rows rows(kind, calls);
    count_rows(rows);
    find_rows(rows);
    if (too_large(rows.operands, calls)) {
        for (size_t k = 0; k < calls.size(); ++k) run_rows(kind, calls.subspan(k, 1));
        return;
    }
    assemble_rows(rows);
    if (report_) report_->pack_s += seconds() - start;
    std::vector<Value> own_attrs;
    Call c(*form.op, rows.in.data(), static_cast<int>(rows.in.size()),
           form.attrs_over(rows.counts, own_attrs));
    run_call(c, calls, rows.in, rows.operands);
    c.out(0) = form.result_over(rows.counts, c.out(0));
    if (batch_) batch_->rows += rows.total;
    finish(c, calls);
}

void Runner::run_single(const Kind& kind, uint32_t call) {
    std::vector<Tensor> in;
    std::vector<Operands> operands;
    for (const BatchForm::Input& input : kind.form.in) {
        const Operand& o = operand(call, input.from);
        if (o.none()) {
            in.emplace_back();
            continue;
        }
        if (o.value < 0 && o.offset == 0) {
            const Tensor& whole = load_.external(o);
            if (equal(whole.shape(), input.row)) {
                in.push_back(whole);
                continue;
            }
        }
        Place p = place(o);
        const int64_t size = ops::row_size(input.row);
        Operands of{
            static_cast<uint32_t>(in.size()), input.from, {{p.block, p.start, size}}, {}, size};
        of.lie = lie_of(of.pieces);
        in.push_back(assemble(of, input.row, kind.mode & kGradMode));
        operands.push_back(std::move(of));
    }
    Call c(*kind.op, in.data(), static_cast<int>(in.size()), kind.form.attrs.data());
    run_call(c, Calls(&call, 1), in, operands);
    if (batch_) ++batch_->rows;
    finish(c, Calls(&call, 1));
}

/// cat and stack of whole operands: one copy of all pieces of all calls, also where they lie as they
/// should: somebody may write into them, or into the result.
void Runner::run_join(const Kind& kind, Calls calls) {
    std::vector<Piece> pieces;
    int64_t total = 0;
    double start = report_ ? seconds() : 0;
    for (uint32_t call : calls) {
        const std::vector<int64_t>& sizes = class_of(call).sizes;
        for (size_t i = 0; i < sizes.size(); ++i) {
            Place p = place(operand(call, static_cast<int>(i)));
            pieces.push_back({p.block, p.start, sizes[i]});
            total += sizes[i];
        }
    }
    Call c(*kind.op);
    c.set(packed({0, 0, std::move(pieces), {}, 0}, Dims{total}));
    if (report_) report_->pack_s += seconds() - start;
    if (batch_) batch_->rows += static_cast<int64_t>(calls.size());
    finish(c, calls);
}

/// Calls of unlike shapes as parts of one (Note [Each] in ops/each.h).
void Runner::run_each(Calls calls) {
    const Each& each = kinds_.each[class_of(calls[0]).each];
    const Kind& kind = kind_of(calls[0]);
    double start = report_ ? seconds() : 0;
    std::vector<int64_t> words;
    ops::append_head(words, static_cast<int64_t>(calls.size()), each.inputs, each.outputs,
                     each.differing);
    for (uint32_t call : calls) {
        const std::vector<int64_t>& own = class_of(call).words;
        words.insert(words.end(), own.begin(), own.end());
    }
    std::vector<Tensor> in(each.inputs.size());
    std::vector<Operands> operands;
    operands.reserve(in.size());
    for (size_t i = 0; i < in.size(); ++i) {
        const Operand& o = operand(calls[0], static_cast<int>(i));
        if (o.none()) continue;
        if (each.inputs[i] == ops::EachInput::Shared) {
            in[i] = load_.external(o);
            continue;
        }
        operands.push_back(pieces_of(i, static_cast<int>(i), calls, [&](uint32_t call) {
            return ops::elements_of(class_of(call).words, each.inputs, i);
        }));
    }
    if (too_large(operands, calls)) {
        for (uint32_t call : calls) run_one(kind_of(call), Calls(&call, 1));
        return;
    }
    for (const Operands& o : operands) in[o.input] = assemble_flat(o, kind.mode & kGradMode);
    if (report_) report_->pack_s += seconds() - start;
    std::vector<Value> attrs = each.attrs;
    attrs.emplace_back(DimSpan(words));
    Call c(ops::each_of(*each.op), in.data(), static_cast<int>(in.size()), attrs.data());
    run_call(c, calls, in, operands);
    if (batch_) batch_->rows += static_cast<int64_t>(calls.size());
    finish(c, calls);
}

namespace {

/// Of nodes of a run about which nobody asks.
const Ref<GraphUse>& unasked() {
    static auto* use = new Ref<GraphUse>(new GraphUse);
    return *use;
}

}  // namespace

/// Tells the graph which calls the node of their results is of.
void Runner::mark(const Tensor& results, Calls calls, int k, bool common) {
    std::vector<int64_t> ends;
    if (calls.size() > 1 && !common) {
        ends.reserve(calls.size());
        for (uint32_t call : calls) {
            const uint32_t v = load_.calls[call].outputs + static_cast<uint32_t>(k);
            ends.push_back((ends.empty() ? 0 : ends.back()) + load_.outputs[v].numel);
        }
    }
    ops::hooks.mark(results, batcher_.use ? batcher_.use : unasked(), std::move(ends));
}

/// Notes where the results of the calls lie.
void Runner::finish(Call& c, Calls calls) {
    uint32_t first = load_.calls[calls[0]].outputs;
    auto outputs = static_cast<int>(load_.output_end(calls[0]) - first);
    for (int k = 0; k < outputs; ++k) {
        WEFT_EXPECT(k < c.outputs, Runtime, c.op->name, text(outputs, " outputs"),
                    std::to_string(c.outputs));
        auto output = [&](uint32_t call) {
            return load_.calls[call].outputs + static_cast<uint32_t>(k);
        };
        DType dtype = load_.outputs[first + static_cast<uint32_t>(k)].dtype;
        int64_t total = 0;
        for (uint32_t call : calls) total += load_.outputs[output(call)].numel;
        ops::OutputOverRows result =
            ops::output_over_rows(c, k, static_cast<int64_t>(calls.size()),
                                  load_.outputs[output(calls[0])].numel, total, dtype);
        WEFT_EXPECT(
            result.fits, Runtime, c.op->name,
            text(total, " elements of ", name(dtype), " from a batch of ", calls.size(), " calls"),
            text(result.all.numel(), " of ", name(result.all.dtype())));
        if (c.out(k).has(kTracked))
            mark(c.out(k), calls, k, result.common || c.out(k).numel() != total);
        uint32_t block = add_block(std::move(result.all)), last = batch_number_;
        int64_t start = 0;
        for (uint32_t call : calls) {
            uint32_t v = output(call);
            places_[v] = {block, start};
            if (!result.common) start += load_.outputs[v].numel;
            last = std::max(last, last_use_[v]);
        }
        if (last != kNone) expiring_[last].push_back(block);
    }
}

void Runner::run_one(const Kind& kind, Calls calls) {
    switch (kind.how) {
        case How::Rows:
            return run_rows(kind, calls);
        case How::Join:
            return run_join(kind, calls);
        case How::Single:
            for (uint32_t call : calls) run_single(kind, call);
    }
}

void Runner::fail(uint32_t call, const Ref<Failure>& failure) {
    failed_.resize(load_.calls.size());
    failed_[call] = failure;
    for (uint32_t v = load_.calls[call].outputs; v < load_.output_end(call); ++v)
        if (Pending* p = load_.outputs[v].pending) p->failure = failure;
}

/// The calls whose operands exist; the others fail as those did.
std::vector<uint32_t> Runner::sound(Calls calls) {
    std::vector<uint32_t> out;
    for (uint32_t call : calls) {
        Ref<Failure> failure;
        for (uint32_t k = load_.calls[call].operands; k < load_.operand_end(call) && !failure; ++k)
            if (load_.operands[k].value >= 0)
                failure = failed_[load_.outputs[static_cast<size_t>(load_.operands[k].value)].call];
        if (failure) fail(call, failure);
        else out.push_back(call);
    }
    return out;
}

void Runner::run_batch(Calls calls) {
    std::vector<uint32_t> rest;
    if (!failed_.empty()) {
        rest = sound(calls);
        calls = rest;
        if (calls.empty()) return;
    }
    if (!run_side_by_side(calls)) run_merged(calls, false);
}

/// Calls of several kinds of one group: those of which there are many as a batch each, the others as
/// parts of one call. False if all are of one kind.
bool Runner::run_side_by_side(Calls calls) {
    auto kind = [&](uint32_t call) { return class_of(call).kind; };
    auto each = [&](uint32_t call) { return class_of(call).each; };
    const uint32_t first = kind(calls[0]);
    if (std::all_of(calls.begin(), calls.end(), [&](uint32_t c) { return kind(c) == first; }))
        return false;
    std::vector<uint32_t> sorted(calls.begin(), calls.end()), rest;
    auto runs_of = [&](std::vector<uint32_t>& all, const auto& number, const auto& visit) {
        std::stable_sort(all.begin(), all.end(),
                         [&](uint32_t a, uint32_t b) { return number(a) < number(b); });
        for (size_t i = 0, end; i < all.size(); i = end) {
            for (end = i + 1; end < all.size() && number(all[end]) == number(all[i]);) ++end;
            visit(Calls(all).subspan(i, end - i));
        }
    };
    runs_of(sorted, kind, [&](Calls alike) {
        if (alike.size() >= kMany || each(alike[0]) == Class::kNone) run_merged(alike, false);
        else rest.insert(rest.end(), alike.begin(), alike.end());
    });
    std::sort(rest.begin(), rest.end());
    runs_of(rest, each, [&](Calls parts) {
        bool one_kind = std::all_of(parts.begin(), parts.end(),
                                    [&](uint32_t c) { return kind(c) == kind(parts[0]); });
        run_merged(parts, !one_kind);
    });
    return true;
}

void Runner::run_merged(Calls calls, bool parts) {
    const Kind& kind = kind_of(calls[0]);
    ModeGuard now(kind.mode, (kGradMode | kInferenceMode) & ~kind.mode);
    DefaultDType promoted(kind.default_dtype);
    Site::Instead line(load_.calls[calls[0]].site);
    ops::scopes.origin = load_.calls[calls[0]].inside;
    if (calls.size() > 1 && batcher_.batch) batcher_.batch->outermost().merged = true;
    if (report_) note(kind, calls, parts);
    count(kind, calls, parts);
    double start = report_ ? seconds() : 0;
    try {
        if (parts) run_each(calls);
        else run_one(kind, calls);
        if (report_) batch_->run_s = seconds() - start;
    } catch (...) {
        const std::exception_ptr error = host.keep();  // what the host has must not meet others
        ops::Watcher* watcher = ops::scopes.watcher;
        const bool of_debugger = watcher && std::exchange(watcher->raised, false);
        if (calls.size() == 1 || of_debugger) {
            for (uint32_t call : calls) fail_with(error, call);
        } else {  // find the one at fault; the others are not harmed
            if (report_) report_->batches.pop_back();
            for (uint32_t call : calls) run_batch(Calls(&call, 1));
        }
    }
}

void Runner::fail_with(const std::exception_ptr& error, uint32_t call) {
    Ref<Failure> failure(new Failure);
    failure->error = error;
    const Kept& kept = load_.calls[call];
    const auto& made = class_of(call).made;
    failure->line = made && made->failed ? made->failed.describe() : kept.site.describe();
    failure->owner = kept.owner;
    failure->call = call;
    failures_.push_back(failure);
    fail(call, failure);
}

/// Blocks go when nobody reads them any more, so that a flush holds what a loop over batches would.
void Runner::find_last_uses(const Plan& plan) {
    last_use_.assign(load_.outputs.size(), 0);
    expiring_.resize(plan.ends.size());
    uint32_t at = 0;
    for (uint32_t b = 0; b < plan.ends.size(); ++b)
        for (; at < plan.ends[b]; ++at) {
            uint32_t call = plan.order[at];
            for (uint32_t k = load_.calls[call].operands; k < load_.operand_end(call); ++k)
                if (load_.operands[k].value >= 0)
                    last_use_[static_cast<size_t>(load_.operands[k].value)] = b;
        }
    for (size_t v = 0; v < load_.outputs.size(); ++v)
        if (load_.outputs[v].pending) last_use_[v] = kNone;  // somebody may ask later
}

void Runner::run_all(const Plan& plan) {
    find_last_uses(plan);
    uint32_t begin = 0;
    for (batch_number_ = 0; batch_number_ < plan.ends.size(); ++batch_number_) {
        uint32_t end = plan.ends[batch_number_];
        run_batch(Calls(plan.order).subspan(begin, end - begin));
        begin = end;
        for (uint32_t block : expiring_[batch_number_]) blocks_[block] = Tensor();
    }
}

void Runner::hand_over() {
    for (size_t v = 0; v < load_.outputs.size(); ++v) {
        Pending* p = std::exchange(load_.outputs[v].pending, nullptr);
        if (!p) continue;
        p->among = nullptr;
        if (p->failure) continue;
        p->block = blocks_[places_[v].block];
        p->start = places_[v].start;
    }
}

std::vector<Ref<Failure>> run(Waiting& load, const Plan& plan, const Kinds& kinds,
                              FlushReport* report) {
    Runner runner(load, kinds, report);
    runner.run_all(plan);
    runner.hand_over();
    return runner.failures();
}

}  // namespace weft::deferred
