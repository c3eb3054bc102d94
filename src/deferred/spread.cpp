/// Note [Spread]
/// A plan runs what is ready at once: the products of all steps' inputs with a weight are one batch,
/// and of a long sequence their results are most of the memory of a flush, though each step reads
/// its own only. Where results go after their last use (without a graph), a batch of more than
/// `ahead` elements is cut into runs of that size, in the order in which others need them, and every
/// run but the first waits until somebody does.
#include <algorithm>

#include "deferred/tape.h"

namespace weft::deferred {
namespace {

/// Elements of a call's results that go after their last use: those of a graph stay.
int64_t freed_elements(const Waiting& load, const Kinds& kinds, uint32_t call) {
    if (kinds.kinds[kinds.classes[load.calls[call].of_class].kind].mode & kGradMode) return 0;
    int64_t elements = 0;
    for (uint32_t v = load.calls[call].outputs; v < load.output_end(call); ++v)
        if (!load.outputs[v].pending) elements += load.outputs[v].numel;
    return elements;
}

class Spread {
public:
    Spread(const Waiting& load, const Plan& plan, const Kinds& kinds, int64_t ahead)
        : load_(load), plan_(plan), kinds_(kinds), ahead_(ahead), made_(plan.ends.size()),
          of_batch_(load.calls.size()), held_(load.calls.size()),
          first_use_(load.calls.size(), kNone), before_(plan.ends.size()) {
        for (uint32_t b = 0; b < plan.ends.size(); ++b)
            for (uint32_t call : batch(b)) {
                made_[b] += made(call);
                of_batch_[call] = b;
            }
        for (uint32_t call : plan.order)
            for (uint32_t by : makers(call)) held_[call] += held_for(by);
    }

    /// From the last batch to the first: those that a batch waits for see where its runs went.
    Plan run() {
        std::vector<std::vector<uint32_t>> stays(plan_.ends.size());
        for (auto b = static_cast<uint32_t>(plan_.ends.size()); b-- > 0;) {
            stays[b].assign(batch(b).begin(), batch(b).end());
            cut(stays[b], b);
        }
        Plan out;
        auto add = [&](std::vector<uint32_t>& calls) {
            out.order.insert(out.order.end(), calls.begin(), calls.end());
            out.ends.push_back(static_cast<uint32_t>(out.order.size()));
        };
        for (size_t b = 0; b < stays.size(); ++b) {
            for (auto run = before_[b].rbegin(); run != before_[b].rend(); ++run) add(*run);
            add(stays[b]);
        }
        return out;
    }

private:
    static constexpr uint32_t kNone = UINT32_MAX;

    std::span<const uint32_t> batch(uint32_t b) const {
        uint32_t begin = b ? plan_.ends[b - 1] : 0;
        return {plan_.order.data() + begin, plan_.order.data() + plan_.ends[b]};
    }

    int64_t made(uint32_t call) const { return freed_elements(load_, kinds_, call); }

    /// The calls whose results a call reads; one that made several in a row once.
    SmallVector<uint32_t, 8> makers(uint32_t call) const {
        SmallVector<uint32_t, 8> out;
        for (uint32_t k = load_.calls[call].operands; k < load_.operand_end(call); ++k) {
            if (load_.operands[k].value < 0) continue;
            uint32_t by = load_.outputs[static_cast<size_t>(load_.operands[k].value)].call;
            if (out.empty() || out.back() != by) out.push_back(by);
        }
        return out;
    }

    /// Elements that are held longer if a reader of `call` runs later: its results, or what they are
    /// made of where they can run later too.
    int64_t held_for(uint32_t call) const {
        bool moves = made_[of_batch_[call]] > ahead_;
        return moves ? std::min(made(call), held_[call]) : made(call);
    }

    /// Leaves in `calls` what runs in its place.
    void cut(std::vector<uint32_t>& calls, uint32_t batch) {
        int64_t held = 0, elements = 0;
        for (uint32_t call : calls) held += held_[call];
        if (made_[batch] <= ahead_ || held > made_[batch]) return settle(calls, batch);
        std::stable_sort(calls.begin(), calls.end(), [&](uint32_t a, uint32_t b) {
            return first_use(a, batch) < first_use(b, batch);
        });
        std::vector<std::vector<uint32_t>> runs(1);
        for (size_t i = 0; i < calls.size(); ++i) {
            bool other = i > 0 && first_use(calls[i], batch) != first_use(calls[i - 1], batch);
            if (other && elements >= ahead_) {
                runs.emplace_back();
                elements = 0;
            }
            runs.back().push_back(calls[i]);
            elements += made(calls[i]);
        }
        for (size_t r = runs.size(); r-- > 1;) {
            uint32_t at = first_use(runs[r][0], batch);
            settle(runs[r], at);
            before_[at].push_back(std::move(runs[r]));
        }
        calls = std::move(runs[0]);
        settle(calls, batch);
    }

    /// The batch that reads something of the call first; its own if nobody does.
    uint32_t first_use(uint32_t call, uint32_t batch) const {
        return first_use_[call] == kNone ? batch : first_use_[call];
    }

    /// The calls run at batch `at`, in the order of the program as everywhere.
    void settle(std::vector<uint32_t>& calls, uint32_t at) {
        std::sort(calls.begin(), calls.end());
        for (uint32_t call : calls)
            for (uint32_t by : makers(call)) first_use_[by] = std::min(first_use_[by], at);
    }

    const Waiting& load_;
    const Plan& plan_;
    const Kinds& kinds_;
    const int64_t ahead_;
    std::vector<int64_t> made_;        ///< by batch
    std::vector<uint32_t> of_batch_;   ///< by call
    std::vector<int64_t> held_;        ///< by call: elements held longer if it runs later
    std::vector<uint32_t> first_use_;  ///< by call: the batch before which it must be done
    std::vector<std::vector<std::vector<uint32_t>>> before_;  ///< runs by batch, the last one first
};

}  // namespace

bool spread(const Waiting& load, const Plan& plan, const Kinds& kinds, int64_t ahead, Plan& out) {
    if (load.unrecorded <= 2 * ahead) return false;
    int64_t elements = 0;
    for (size_t c = 0; c < load.calls.size(); ++c)
        elements += freed_elements(load, kinds, static_cast<uint32_t>(c));
    if (elements <= 2 * ahead) return false;
    out = Spread(load, plan, kinds, ahead).run();
    return true;
}

}  // namespace weft::deferred
