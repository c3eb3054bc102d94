/// What a flush did: counts for the estimate (Note [Worth]), and the report that weft.explain shows.
#include <algorithm>

#include "deferred/runner.h"

namespace weft::deferred {

/// Elements of the shared matrices of a batch, times how often it spares to read them.
int64_t Runner::weights_spared(const Kind& kind, Calls calls) const {
    int64_t spared = 0;
    for (const BatchForm::Input& in : kind.form.in) {
        if (in.from < 0) continue;
        const Operand& o = operand(calls[0], in.from);
        if (o.none() || o.value >= 0) continue;
        const Tensor& t = shared(calls[0], in);
        if (!in.shared || t.ndim() < 2) {
            if (!is_inexact(t.dtype())) return 0;  // rows are looked up: the rest is not read
            continue;
        }
        if (!in.in_turn) {
            spared += t.numel() * (static_cast<int64_t>(calls.size()) - 1);
            continue;
        }
        int64_t total = 0, longest = 0;
        for (uint32_t call : calls) {
            total += rows_of(call);
            longest = std::max(longest, rows_of(call));
        }
        spared += t.numel() * (total - longest);
    }
    return spared;
}

/// Whether an operand that comes row by row is in the graph: its gradient reads the matrices again.
bool Runner::rows_want_gradients(const Kind& kind, uint32_t call) {
    return std::any_of(kind.form.in.begin(), kind.form.in.end(), [&](const BatchForm::Input& in) {
        if (in.from < 0 || in.shared || operand(call, in.from).none()) return false;
        return blocks_[place(operand(call, in.from)).block].has(kTracked);
    });
}

/// Counts for Note [Worth].
void Runner::count(const Kind& kind, Calls calls, bool parts) {
    if (kind.how == How::Single && !parts) return;
    Tally& tally = batcher_.tally;
    const bool recorded = kind.mode & kGradMode, merged = calls.size() > 1 && !parts;
    const int64_t each = class_of(calls[0]).calls;
    if (recorded) tally.nodes += each;
    if (!merged) return;
    if (recorded) tally.merged += each * static_cast<int64_t>(calls.size());
    if (kind.how != How::Rows || kind.op->pointwise) return;
    const int64_t weights = weights_spared(kind, calls);
    tally.weights += weights;
    if (recorded && weights && rows_want_gradients(kind, calls[0])) tally.weights_back += weights;
}

void Runner::note(const Kind& kind, Calls calls, bool parts) {
    batch_ = &report_->batches.emplace_back();
    const Op* op = class_of(calls[0]).op;
    batch_->op = op->public_name;
    batch_->calls = static_cast<int64_t>(calls.size());
    if (!parts) batch_->why = kind.why;
    for (uint32_t call : calls) add_site(batch_->lines, load_.calls[call].site);
    const Site& line = load_.calls[calls[0]].site;
    for (uint32_t other : first_of_line_) {
        const Kind& before = kinds_.kinds[class_of(other).kind];
        const Site& site = load_.calls[other].site;
        if (class_of(other).op != op || site.code() != line.code() ||
            site.offset() != line.offset())
            continue;
        batch_->apart = difference(before, other, kind, calls[0]);
        return;
    }
    first_of_line_.push_back(calls[0]);
}

/// In words, for the report: the first thing that keeps calls of two kinds of one op apart.
std::string Runner::difference(const Kind& a, uint32_t call_a, const Kind& b,
                               uint32_t call_b) const {
    if (&a == &b || a.how != b.how || a.how != How::Rows || a.form.op != b.form.op) return "";
    if (a.mode != b.mode) return "with and without gradients";
    for (size_t k = 0; k < a.form.attrs.size(); ++k) {
        Key one, other;
        append(one, a.form.attrs[k]);
        append(other, b.form.attrs[k]);
        if (one == other) continue;
        for (const Param& p : a.form.op->params)
            if (!p.is_input() && p.slot == static_cast<int>(k)) return "another " + p.name;
    }
    for (size_t k = 0; k < a.form.in.size(); ++k) {
        const BatchForm::Input &one = a.form.in[k], &other = b.form.in[k];
        if (one.from < 0 || operand(call_a, one.from).none() || operand(call_b, other.from).none())
            continue;
        if (one.shared != other.shared) return "a weight in some, a value in others";
        if (!one.shared && !equal(one.row, other.row))
            return text("rows of shape ", to_string(one.row), " and ", to_string(other.row));
        if (one.shared && !one.unlike && !shared(call_a, one).same(shared(call_b, other)))
            return shared(call_a, one).has(kWrapped) ? "another number" : "another weight";
    }
    return "";
}

}  // namespace weft::deferred
