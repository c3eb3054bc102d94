#include "autograd/reached.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "autograd/op_node.h"
#include "autograd/sparse.h"
#include "ops/copy.h"
#include "ops/way.h"

namespace weft {
namespace {

int64_t count(DimSpan shape) { return count_elements("backward", shape); }

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

}  // namespace

bool all_zeros(const Tensor& t) {
    if (t.has(kPending) || t.has(kMeta) || t.has(kDispatching) || t.numel() == 0 || sparse::is(t))
        return false;
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
    elements = ops::within(elements, {0, n});
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
    const int i = user.edge;
    const auto* of = dynamic_cast<const OpNode*>(&node);
    const Edge& edge = node.edge(i);
    const DimSpan in = edge.node->result(static_cast<int>(edge.output)).shape();
    for (int k = 0; k < node.output_count(); ++k) {
        const auto output = static_cast<uint32_t>(k);
        const DimSpan out = node.result(k).shape();
        if (!node.leads(k, i)) continue;
        const int64_t from = count(in), to = count(out);
        // by whom what has no elements is read is not told
        auto go = [&](ops::Span p) { visit(&node, output, p.empty() ? ops::Span{0, to} : p); };
        if (of && ops::each_way(of->op(), {of->attrs(), i, in, k, out, elements}, go)) continue;
        const bool told = of && !elements.empty() && from && to && !in.empty() && !out.empty();
        if (told && by_rows(*of, i, in, out, k)) go(rows(elements, from / in[0], to / out[0]));
        else go({0, to});
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
