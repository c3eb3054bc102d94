#include "deferred/plan.h"

#include <algorithm>
#include <queue>

namespace weft::deferred {
namespace {

/// Who waits for whom, as two arrays instead of a list per call.
struct Users {
    explicit Users(const Program& p) : begins(p.groups.size() + 1), missing(p.groups.size()) {
        size_t calls = p.groups.size();
        for (size_t c = 0; c < calls; ++c)
            for (uint32_t k = p.begins[c]; k < p.begins[c + 1]; ++k)
                if (p.producers[k] >= 0) {
                    ++begins[static_cast<size_t>(p.producers[k]) + 1];
                    ++missing[c];
                }
        for (size_t c = 0; c < calls; ++c) begins[c + 1] += begins[c];
        users.resize(begins[calls]);
        std::vector<uint32_t> at(begins.begin(), begins.end() - 1);
        for (size_t c = 0; c < calls; ++c)
            for (uint32_t k = p.begins[c]; k < p.begins[c + 1]; ++k)
                if (p.producers[k] >= 0)
                    users[at[static_cast<size_t>(p.producers[k])]++] = static_cast<uint32_t>(c);
    }
    std::vector<uint32_t> begins, users, missing;
};

/// The mean depth of the calls of each group.
std::vector<float> mean_depths(const Program& p) {
    std::vector<uint32_t> depth(p.groups.size()), count(p.group_count);
    std::vector<double> sum(p.group_count);
    for (size_t c = 0; c < p.groups.size(); ++c) {
        uint32_t d = 0;
        for (uint32_t k = p.begins[c]; k < p.begins[c + 1]; ++k)
            if (p.producers[k] >= 0)
                d = std::max(d, depth[static_cast<size_t>(p.producers[k])] + 1);
        depth[c] = d;
        sum[p.groups[c]] += d;
        ++count[p.groups[c]];
    }
    std::vector<float> mean(p.group_count);
    for (uint32_t k = 0; k < p.group_count; ++k)
        mean[k] = count[k] ? static_cast<float>(sum[k] / count[k]) : 0;
    return mean;
}

}  // namespace

Plan make_plan(const Program& p) {
    const size_t calls = p.groups.size();
    Plan plan;
    plan.order.reserve(calls);
    Users waiting(p);
    std::vector<float> mean = mean_depths(p);
    std::vector<std::vector<uint32_t>> ready(p.group_count);
    using Entry = std::pair<float, uint32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> groups;
    auto add = [&](uint32_t call) {
        auto& list = ready[p.groups[call]];
        if (list.empty()) groups.emplace(mean[p.groups[call]], p.groups[call]);
        list.push_back(call);
    };
    for (uint32_t c = 0; c < calls; ++c)
        if (waiting.missing[c] == 0) add(c);
    while (!groups.empty()) {
        uint32_t group = groups.top().second;
        groups.pop();
        std::vector<uint32_t> batch = std::move(ready[group]);
        ready[group].clear();
        // In the order of the program, so that operands lie in the same order as their users.
        if (!std::is_sorted(batch.begin(), batch.end())) std::sort(batch.begin(), batch.end());
        plan.order.insert(plan.order.end(), batch.begin(), batch.end());
        plan.ends.push_back(static_cast<uint32_t>(plan.order.size()));
        for (uint32_t call : batch)
            for (uint32_t u = waiting.begins[call]; u < waiting.begins[call + 1]; ++u)
                if (--waiting.missing[waiting.users[u]] == 0) add(waiting.users[u]);
    }
    return plan;
}

std::shared_ptr<const Plan> Plans::of(Structure structure, size_t group_count, bool& known) {
    const auto found = std::find_if(plans_.begin(), plans_.end(),
                                    [&](const auto& k) { return k->structure == structure; });
    known = found != plans_.end();
    if (known) {
        std::rotate(plans_.begin(), found, found + 1);
        return {plans_.front(), &plans_.front()->plan};
    }
    Plan plan = make_plan({structure.groups, structure.begins, structure.producers,
                           static_cast<uint32_t>(group_count)});
    const size_t calls = structure.groups.size();
    if (calls > kMostCalls) return std::make_shared<const Plan>(std::move(plan));
    plans_.insert(plans_.begin(),
                  std::make_shared<const Known>(Known{std::move(structure), std::move(plan)}));
    for (calls_ += calls; plans_.size() > kMost || calls_ > kMostCalls; plans_.pop_back())
        calls_ -= plans_.back()->structure.groups.size();
    return {plans_.front(), &plans_.front()->plan};
}

}  // namespace weft::deferred
