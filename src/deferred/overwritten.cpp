/// Values that are written to after a call that waits has saved them (Note [Overwritten] in waiting.h).
#include "deferred/runner.h"
#include "ops/functions.h"
#include "ops/write.h"

namespace weft::deferred {

const Overwrite* Waiting::overwrite_of(uint32_t c, const Operand& o) const {
    if (o.none()) return nullptr;
    if (o.value >= 0) {
        uint32_t at = overwritten[static_cast<size_t>(o.value)];
        return at != kNever && c < overwrites[at].by ? &overwrites[at] : nullptr;
    }
    const Tensor& t = external(o);
    for (uint32_t at : memory_overwrites) {
        const Overwrite& w = overwrites[at];
        if (c < w.by && t.storage()->data == w.data && o.offset >= w.begin && o.offset < w.end)
            return &w;
    }
    return nullptr;
}

void Waiting::find_overwritten(const Kinds& kinds) {
    overwritten.assign(outputs.size(), kNever);
    for (auto at = static_cast<uint32_t>(overwrites.size()); at-- > 0;)  // the first one counts
        if (overwrites[at].data) memory_overwrites.push_back(at);
        else overwritten[static_cast<size_t>(overwrites[at].value)] = at;
    for (uint32_t c = 0; c < calls.size(); ++c) {
        const Operand& in = operands[calls[c].operands];
        if (!kinds.classes[calls[c].of_class].op->view || in.value < 0) continue;
        if (const Overwrite* w = overwrite_of(c, in))
            for (uint32_t v = calls[c].outputs; v < output_end(c); ++v)
                overwritten[v] = static_cast<uint32_t>(w - overwrites.data());
    }
}

namespace {

/// What the call may save; a composite anything.
bool may_save_input(const Op& op, uint32_t i) {
    return op.body || (i < 16 && op.may_save() & save_in(static_cast<int>(i)));
}
bool may_save_output(const Op& op, int k) { return op.body || op.may_save() & save_out(k); }

}  // namespace

/// `visit(i, elements)` for the part of each call in `t`, an operand of their batch.
template <class Visit>
void Runner::each_part(const Operands& of, const Tensor& t, const Visit& visit) {
    const bool one_for_one = of.elements == t.numel();  // else rows stand there several times
    int64_t at = 0;
    for (size_t i = 0; i < of.pieces.size(); ++i) {
        const int64_t begin = std::exchange(at, at + of.pieces[i].count);
        visit(i, one_for_one ? ops::Span{begin, at} : ops::Span{0, t.numel()});
    }
}

void Runner::run_saving(Call& c, Calls calls, std::vector<Tensor>& in,
                        const std::vector<Operands>& operands) {
    const bool later = !load_.overwrites.empty();
    if (later) take_copies(c, calls, in, operands);
    ops::call(c);
    if (later) overwrite_parts(c, calls);
    note_copies(calls, in, operands);
}

/// What the batch may save, and is overwritten later, becomes memory that nothing else looks at.
void Runner::take_copies(const Call& c, Calls calls, std::vector<Tensor>& in,
                         const std::vector<Operands>& operands) {
    parts_.clear();
    for (const Operands& of : operands) {
        if (!may_save_input(*c.op, of.input)) continue;
        Tensor& t = in[of.input];
        bool mine = false;
        each_part(of, t, [&](size_t i, ops::Span part) {
            const Overwrite* w = load_.overwrite_of(calls[i], operand(calls[i], of.from));
            if (!w || (w->is_tensor() && t.storage()->data == w->data)) return;  // seen anyway
            if (!std::exchange(mine, true)) t = ops::clone(t);
            parts_.push_back({t, part, &w->site});
        });
    }
}

void Runner::overwrite_parts(const Call& c, Calls calls) {
    const auto outputs =
        static_cast<int>(load_.output_end(calls[0]) - load_.calls[calls[0]].outputs);
    for (int k = 0; k < outputs && k < c.outputs; ++k) {
        if (!may_save_output(*c.op, k)) continue;
        int64_t at = 0, total = 0;
        for (uint32_t call : calls)
            total += load_.outputs[load_.calls[call].outputs + static_cast<uint32_t>(k)].numel;
        if (total != c.out(k).numel()) continue;  // the calls' results are made of it
        for (uint32_t call : calls) {
            const uint32_t v = load_.calls[call].outputs + static_cast<uint32_t>(k);
            const int64_t begin = std::exchange(at, at + load_.outputs[v].numel);
            const uint32_t by = load_.overwritten[v];
            if (by != Waiting::kNever)
                parts_.push_back({c.out(k), {begin, at}, &load_.overwrites[by].site});
        }
    }
    for (const SavedPart& part : parts_) {
        if (!part.of.storage()->watched) continue;
        Site::Instead line(*part.site);
        ops::Write::overwrite(*part.of.storage(), ops::span_of(part.of, part.elements));
    }
    parts_.clear();
}

/// Whether somebody else than the flush holds the value, or what shares its memory, and so may write
/// there later. Most numbers that a program makes for one call (`weft.tensor([word])`) are gone by now.
bool Runner::is_held(const Operand& o) const {
    if (o.value >= 0) return load_.outputs[static_cast<size_t>(o.value)].pending != nullptr;
    const auto e = static_cast<size_t>(~o.value);
    const Tensor& t = load_.externals[e];
    const uint32_t block = external_places_[e].block;
    const uint32_t ours = 1 + (block != kNone && blocks_[block].same(t));
    return t.impl()->refs > ours || t.impl()->wrapper || t.storage()->refs > 1;
}

/// Where the batch saved copies of what somebody may write to later (Note [Copies] in ops/write.h).
void Runner::note_copies(Calls calls, const std::vector<Tensor>& in,
                         const std::vector<Operands>& operands) {
    auto original = [&](const Operands& of, size_t i) -> const Tensor& {
        const Operand& o = operand(calls[i], of.from);
        return o.value >= 0 ? blocks_[of.pieces[i].block] : load_.external(o);
    };
    for (const Operands& of : operands) {
        const Tensor& saved = in[of.input];
        Storage& copy = *saved.storage();
        const bool as_it_lies = of.lie.runs > 0 && original(of, 0).storage().get() == &copy;
        if (!copy.watched || as_it_lies) continue;
        each_part(of, saved, [&](size_t i, ops::Span part) {
            const Operand& o = operand(calls[i], of.from);
            if (!is_held(o)) return;
            const Tensor& whole = original(of, i);
            ops::Span from = ops::span_of(whole);
            const int64_t start = o.value >= 0 ? of.pieces[i].start : o.offset;
            if (whole.contiguous()) from = ops::span_of(whole, {start, start + of.pieces[i].count});
            ops::note_copy(*whole.storage(), from, copy, ops::span_of(saved, part));
        });
    }
}

}  // namespace weft::deferred
