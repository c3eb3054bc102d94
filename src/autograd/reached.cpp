#include "autograd/reached.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "autograd/op_node.h"
#include "ops/copy.h"
#include "ops/each.h"
#include "ops/functions.h"

namespace weft {
namespace {

const ops::Function take{"_take"}, region{"_region"}, pack{"_pack"}, view{"view"},
    contiguous{"contiguous"};

int64_t count(DimSpan shape) {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
}

ops::Span within(ops::Span a, ops::Span b) {
    return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

/// Of rows of `per_in` elements, those that `elements` are in, as rows of `per_out`.
ops::Span rows(ops::Span elements, int64_t per_in, int64_t per_out) {
    return {elements.begin / per_in * per_out, (elements.end + per_in - 1) / per_in * per_out};
}

/// Where the elements of calls end in output `k`, if `node` is that of a batch of several.
const std::vector<int64_t>* ends_of(const Node& node, uint32_t k) {
    if (!node.batched || node.batched->ends[k].empty()) return nullptr;
    return &node.batched->ends[k];
}

/// Whether each row of output `k` is made of the same row of edge `i`. An operand that all rows share
/// has other ones.
bool by_rows(const OpNode& node, int i, DimSpan in, DimSpan out, int k) {
    return in[0] == out[0] && ends_of(node, static_cast<uint32_t>(k)) &&
           !node.op().batch_shared.has(i);
}

/// Of an op over runs of rows, the first of counts[0] rows, the next of counts[1]: those; or null.
const Value* counts_of(const OpNode& node) {
    for (const Param& p : node.op().params)
        if (p.name == "counts" && p.kind == Param::Kind::Ints) return &node.attr(p.slot);
    return nullptr;
}

/// Where `elements` of runs of rows go whose results are one row each, or rows that become runs.
ops::Span runs(ops::Span elements, DimSpan counts, int64_t per_in, int64_t per_out, bool joined) {
    ops::Span found{INT64_MAX, 0};
    int64_t from = 0, to = 0;
    for (int64_t n : counts) {
        const ops::Span in{from, from + (joined ? n : 1) * per_in};
        const ops::Span out{to, to + (joined ? 1 : n) * per_out};
        if (!within(in, elements).empty())
            found = {std::min(found.begin, out.begin), std::max(found.end, out.end)};
        from = in.end;
        to = out.end;
    }
    return found;
}

/// Elements of an output of `node` that elements of one of its inputs have a part in.
ops::Span part_of(const OpNode& node, int i, ops::Span elements, DimSpan in, DimSpan out, int k) {
    const int64_t from = count(in), to = count(out);
    if (node.op().one) return ops::outputs_of_part(node.op(), &node.attr(0), i, elements, k);
    if (&node.op() == &view.op() || &node.op() == &contiguous.op()) return elements;
    if (node.op().pointwise && from == to) return elements;
    if (from == 0 || to == 0 || in.empty() || out.empty()) return {0, to};
    const Value* of_rows = counts_of(node);
    if (!of_rows && by_rows(node, i, in, out, k)) return rows(elements, from / in[0], to / out[0]);
    if (!of_rows) return {0, to};
    const DimSpan counts = of_rows->as_ints();
    const auto several = static_cast<int64_t>(counts.size());
    int64_t total = 0;
    for (int64_t n : counts) total += n;
    if (in[0] == total && out[0] == several)
        return runs(elements, counts, from / in[0], to / out[0], true);
    if (in[0] == several && out[0] == total)
        return runs(elements, counts, from / in[0], to / out[0], false);
    return {0, to};
}

}  // namespace

bool all_zeros(const Tensor& t) {
    if (t.has(kPending) || t.numel() == 0) return false;
    const Tensor dense = ops::as_contiguous(t);
    const int64_t size = item_size(real_dtype(t.dtype())), bytes = t.numel() * item_size(t.dtype());
    if (size < 2) return false;
    // Zeros may be negative: the sign is the highest bit of an element.
    uint64_t signs = 0;
    for (int64_t at = size; at <= 8; at += size) signs |= uint64_t{1} << (8 * at - 1);
    const char* from = dense.bytes();
    for (int64_t at = 0; at < bytes; at += 8, from += 8) {
        uint64_t word = 0;
        std::memcpy(&word, from, static_cast<size_t>(std::min<int64_t>(8, bytes - at)));
        if (word & ~signs) return false;
    }
    return true;
}

void Reached::find_users() {
    if (!users_.empty()) return;
    for (NodeTask* task = tasks_.first(); task; task = task->later)
        for (int i = 0; i < task->node->edge_count(); ++i)
            if (const Node* from = task->node->edge(i).node.get())
                users_[from].push_back({task->node, i});
}

bool Reached::is_root(const Place& place) const {
    return std::any_of(roots_.begin(), roots_.end(), [&](const Place& root) {
        return root.node == place.node && root.output == place.output;
    });
}

void Reached::visit(const Node* node, uint32_t k, ops::Span elements) {
    const int64_t n = count(node->result(static_cast<int>(k)).shape());
    elements = within(elements, {0, n});
    if (node->batched && !elements.empty()) {  // a call's result is reached, or not, as a whole
        const std::vector<int64_t>* ends = ends_of(*node, k);
        if (!ends) return places_.push_back({node, k, {0, n}});
        auto first = std::upper_bound(ends->begin(), ends->end(), elements.begin);
        auto last = std::lower_bound(ends->begin(), ends->end(), elements.end);
        elements = {first == ends->begin() ? 0 : *(first - 1), last == ends->end() ? n : *last};
    }
    if (n == 0 || !elements.empty()) places_.push_back({node, k, elements});
}

void Reached::follow(const User& user, ops::Span elements) {
    const Node& node = *user.node;
    const auto* of = dynamic_cast<const OpNode*>(&node);
    const Edge& edge = node.edge(user.edge);
    const DimSpan in = edge.node->result(static_cast<int>(edge.output)).shape();
    const Op* op = of && !elements.empty() ? &of->op() : nullptr;  // no element's way is told
    if (op == &take.op()) {
        const int64_t start = of->attr(0).as_int();
        return visit(&node, 0, {elements.begin - start, elements.end - start});
    }
    if (op == &region.op() && of->attr(1).as_int() > 0) {
        const int64_t start = of->attr(0).as_int(), step = of->attr(1).as_int();
        const DimSpan shape = of->attr(2).as_ints();
        const int64_t inner = count(shape) / std::max<int64_t>(shape[0], 1);
        for (int64_t row = 0; row < shape[0]; ++row) {
            const int64_t at = start + row * step;
            const ops::Span part = within(elements, {at, at + inner});
            if (!part.empty())
                visit(&node, 0, {part.begin - at + row * inner, part.end - at + row * inner});
        }
        return;
    }
    if (op == &pack.op()) {
        const DimSpan flat = of->attr(0).as_ints();  // (source, offset, count) of each piece
        int64_t to = 0;
        for (size_t p = 0; p + 2 < flat.size(); p += 3) {
            const ops::Span part = within(elements, {flat[p + 1], flat[p + 1] + flat[p + 2]});
            if (flat[p] == user.edge && flat[p + 2] == 0) visit(&node, 0, {0, INT64_MAX});
            else if (flat[p] == user.edge && !part.empty())
                visit(&node, 0, {part.begin - flat[p + 1] + to, part.end - flat[p + 1] + to});
            to += flat[p + 2];
        }
        return;
    }
    for (int k = 0; k < node.output_count(); ++k) {
        const DimSpan out = node.result(k).shape();
        ops::Span part{0, count(out)};
        if (op) part = part_of(*of, user.edge, elements, in, out, k);
        if (part.empty()) part = {0, count(out)};  // who reads what has no elements is not told
        visit(&node, static_cast<uint32_t>(k), part);
    }
}

bool Reached::part(const Node& node, uint32_t k, ops::Span elements) {
    find_users();
    places_.clear();
    std::vector<Place> seen;
    visit(&node, k, elements);
    while (!places_.empty()) {
        const Place at = places_.back();
        places_.pop_back();
        if (!unreached_.insert({at.node, at.output, at.elements.begin, at.elements.end}).second)
            continue;
        seen.push_back(at);
        if (is_root(at)) {  // what led here is not known to be unreached
            for (const Place& p : seen)
                unreached_.erase({p.node, p.output, p.elements.begin, p.elements.end});
            return true;
        }
        auto users = users_.find(at.node);
        if (users == users_.end()) continue;
        for (const User& user : users->second)
            if (user.node->edge(user.edge).output == at.output) follow(user, at.elements);
    }
    return false;
}

bool Reached::any(const Node& node) {
    for (int k = 0; k < node.output_count(); ++k)
        if (part(node, static_cast<uint32_t>(k), {0, INT64_MAX})) return true;
    return false;
}

}  // namespace weft
