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
        if (!kinds.classes[calls[c].of_class].op->view) continue;
        // What it shows waits, or lies in the block of an earlier flush.
        if (const Overwrite* w = overwrite_of(c, operands[calls[c].operands]))
            for (uint32_t v = calls[c].outputs; v < output_end(c); ++v)
                overwritten[v] = static_cast<uint32_t>(w - overwrites.data());
    }
}

void Overwriting::overwrite(const Tensor& t, ops::Span elements) const {
    Site::Instead line(site_);
    ops::Write::overwrite(*t.storage(), ops::span_of(t, elements));
}

void Overwriting::add(const Tensor& t, ops::Span elements) {
    if (made_) overwrite(t, elements);
    else parts_.push_back({t, elements});
}

void Overwriting::make() {
    made_ = true;
    for (const Part& part : parts_) overwrite(part.of, part.elements);
    parts_.clear();
}

namespace {

/// What the call may save; a composite anything.
bool may_save_input(const Op& op, uint32_t i) {
    return op.body || (i < 16 && op.may_save() & save_in(static_cast<int>(i)));
}
bool may_save_output(const Op& op, int k) { return op.body || op.may_save() & save_out(k); }

}  // namespace

/// `visit(i, elements)` for the part of each call in an operand of their batch.
template <class Visit>
void Runner::each_part(const Operands& of, const Visit& visit) {
    int64_t at = 0;
    for (size_t i = 0; i < of.pieces.size(); ++i) {
        const int64_t times = of.repeats.empty() ? 1 : of.repeats[i];
        const int64_t begin = std::exchange(at, at + of.pieces[i].count * times);
        visit(i, ops::Span{begin, at});
    }
}

void Runner::run_saving(Call& c, Calls calls, std::vector<Tensor>& in,
                        const std::vector<Operands>& operands) {
    const bool later = !load_.overwrites.empty();
    if (later) take_copies(c, calls, in, operands);
    ops::call(c);
    if (later) overwrite_parts(c, calls);
    note_copies(calls, in, operands);
    if (class_of(calls[0]).op->view) note_views(c, calls, operands);
}

/// What the batch may save, and is overwritten later, becomes memory that nothing else looks at.
void Runner::take_copies(const Call& c, Calls calls, std::vector<Tensor>& in,
                         const std::vector<Operands>& operands) {
    parts_.clear();
    for (const Operands& of : operands) {
        if (!may_save_input(*c.op, of.input)) continue;
        Tensor& t = in[of.input];
        bool mine = false;
        each_part(of, [&](size_t i, ops::Span part) {
            const Overwrite* w = load_.overwrite_of(calls[i], operand(calls[i], of.from));
            if (!w || (w->is_tensor() && t.storage()->data == w->data)) return;  // seen anyway
            if (!std::exchange(mine, true)) t = ops::clone(t);
            parts_.push_back({t, part, w->write.get()});
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
                parts_.push_back({c.out(k), {begin, at}, load_.overwrites[by].write.get()});
        }
    }
    for (const SavedPart& part : parts_)
        if (part.of.storage()->watched) part.write->add(part.of, part.elements);
    parts_.clear();
}

/// Whether somebody else than the flush holds the value, or what shares its memory or was copied from
/// there, and so may write it later. Most numbers that a program makes for one call
/// (`weft.tensor([word])`) are gone by now.
bool Runner::is_held(const Operand& o) const {
    if (o.value >= 0) {
        const auto v = static_cast<size_t>(o.value);
        return load_.outputs[v].pending || ops::is_copy(*blocks_[places_[v].block].storage());
    }
    const auto e = static_cast<size_t>(~o.value);
    const Tensor& t = load_.externals[e];
    const uint32_t block = external_places_[e].block;
    const uint32_t ours = 1 + (block != kNone && blocks_[block].same(t));
    return t.impl()->refs > ours || t.impl()->wrapper || t.storage()->refs > 1 ||
           ops::is_copy(*t.storage());
}

/// Of call `i`, the bytes of its operand in the memory it is taken from.
ops::Span Runner::part_in_memory(const Operands& of, Calls calls, size_t i) const {
    const Operand& o = operand(calls[i], of.from);
    const Tensor& whole = memory_of(of, calls, i);
    if (!whole.contiguous()) return ops::span_of(whole);
    const int64_t start = o.value >= 0 ? of.pieces[i].start : o.offset;
    return ops::span_of(whole, {start, start + of.pieces[i].count});
}

/// Where the batch saved copies of what somebody may write to later (Note [Copies] in ops/write.h).
void Runner::note_copies(Calls calls, const std::vector<Tensor>& in,
                         const std::vector<Operands>& operands) {
    for (const Operands& of : operands) {
        const Tensor& saved = in[of.input];
        Storage& copy = *saved.storage();
        const bool as_it_lies = of.lie.runs > 0 && memory_of(of, calls, 0).storage().get() == &copy;
        if (!copy.watched || as_it_lies) continue;
        each_part(of, [&](size_t i, ops::Span part) {
            if (!is_held(operand(calls[i], of.from))) return;
            ops::note_copy(*memory_of(of, calls, i).storage(), part_in_memory(of, calls, i), copy,
                           ops::span_of(saved, part));
        });
    }
}

/// A view that is no piece is a copy, to those that save it, of what somebody may write to later.
void Runner::note_views(Call& c, Calls calls, const std::vector<Operands>& operands) {
    static const ops::Function contiguous{"contiguous"}, contiguous_copy{"_contiguous_copy"};
    const auto outputs =
        static_cast<int>(load_.output_end(calls[0]) - load_.calls[calls[0]].outputs);
    for (int k = 0; k < outputs && k < c.outputs; ++k) {
        Tensor& block = c.out(k);
        // One of several views could not be made anew once a write to what it shows is noted.
        if (c.op->view && c.op->outputs < 0) block = contiguous_copy(block);
        else if (!block.contiguous()) block = contiguous(block);
        if (operands.empty()) continue;
        int64_t at = 0;
        for (size_t i = 0; i < calls.size(); ++i) {
            const uint32_t v = load_.calls[calls[i]].outputs + static_cast<uint32_t>(k);
            const int64_t begin = std::exchange(at, at + load_.outputs[v].numel);
            Storage& memory = *memory_of(operands[0], calls, i).storage();
            if (&memory == block.storage().get() || !is_held(operand(calls[i], 0))) continue;
            ops::note_copy(memory, part_in_memory(operands[0], calls, i), *block.storage(),
                           ops::span_of(block, {begin, at}));
        }
    }
}

}  // namespace weft::deferred
