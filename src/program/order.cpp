/// Which steps of a segment run, and which run together.
#include "program/plan.h"

namespace weft::program {

namespace {

/// Whether nothing tells if a step has run: it draws nothing, and its values are never refused. Loops over
/// floats refuse none; what other kernels do is theirs to know (an index, a divisor, a target).
bool is_silent(const Segment& segment, const Step& step, const StepLoop* loop) {
    if (step.op->view) return true;
    if (!loop || step.op->random) return false;
    for (int k = 0; k < step.operands; ++k)
        if (const int32_t v = segment.operand(step, k);
            v >= 0 && !is_floating(segment.layout(v).dtype()))
            return false;
    return true;
}

}  // namespace

std::vector<uint8_t> live_steps(const Segment& segment, const std::vector<int32_t>& wanted,
                                const std::vector<std::unique_ptr<StepLoop>>& loops) {
    std::vector<uint8_t> live(segment.steps.size());
    auto need = [&](int32_t v) {
        const int32_t step = segment.value(segment.place_of(v).root).step;
        if (step >= 0) live[static_cast<size_t>(step)] = 1;
    };
    for (int32_t v : wanted) need(v);
    for (size_t i = segment.steps.size(); i-- > 0;) {
        const Step& step = segment.steps[i];
        live[i] |= !is_silent(segment, step, loops[i].get());
        if (!live[i]) continue;
        for (int k = 0; k < step.operands; ++k)
            if (const int32_t v = segment.operand(step, k); v >= 0) need(v);
    }
    return live;
}

namespace {

/// Puts items together in program order. A group stays open while what follows joins it or needs nothing
/// of it; what needs nothing of it comes before it.
class ItemFinder {
public:
    ItemFinder(const Segment& segment, const std::vector<std::unique_ptr<StepLoop>>& loops)
        : segment_(segment), loops_(loops), in_open_(segment.steps.size()) {}

    void add(int32_t i) {
        const Step& step = segment_.steps[static_cast<size_t>(i)];
        const bool tiled = loops_[static_cast<size_t>(i)] != nullptr;
        if (tiled && joins(step)) return put(i);
        if (tiled || needs_open(step)) close();
        if (tiled) put(i);
        else items_.push_back({{i}, false});
    }
    std::vector<PlanItem> finish() {
        close();
        return std::move(items_);
    }

private:
    static constexpr size_t kMost = 64;  // more is no better, and their buffers leave the cache

    void put(int32_t i) {
        open_.steps.push_back(i);
        in_open_[static_cast<size_t>(i)] = 1;
    }
    void close() {
        if (open_.steps.empty()) return;
        for (int32_t i : open_.steps) in_open_[static_cast<size_t>(i)] = 0;
        open_.tiled = open_.steps.size() > 1 || !copies(open_.steps[0]);
        items_.push_back(std::exchange(open_, {}));
    }
    /// Whether a group of this step alone would copy an operand, which its kernel reads as it lies.
    bool copies(int32_t i) const {
        const Step& step = segment_.steps[static_cast<size_t>(i)];
        const Tensor& space = segment_.layout(step.first_out);
        for (int k = 0; k < step.operands; ++k) {
            const int32_t v = segment_.operand(step, k);
            if (v >= 0 && segment_.layout(v).numel() > 1 && !lies_as(segment_.layout(v), space))
                return true;
        }
        return false;
    }
    bool is_of_open(int32_t root) const {
        const int32_t step = segment_.value(root).step;
        return step >= 0 && in_open_[static_cast<size_t>(step)];
    }
    bool needs_open(const Step& step) const {
        for (int k = 0; k < step.operands; ++k) {
            const int32_t v = segment_.operand(step, k);
            if (v >= 0 && is_of_open(segment_.place_of(v).root)) return true;
        }
        return false;
    }
    bool joins(const Step& step) const {
        if (open_.steps.empty() || open_.steps.size() >= kMost) return false;
        const Step& first = segment_.steps[static_cast<size_t>(open_.steps[0])];
        const Tensor& space = segment_.layout(first.first_out);
        if (!lies_as(segment_.layout(step.first_out), space)) return false;
        for (int k = 0; k < step.operands; ++k) {
            const int32_t v = segment_.operand(step, k);
            if (v < 0) continue;
            const auto [root, offset] = segment_.place_of(v);
            if (is_of_open(root) && (offset || !lies_as(segment_.layout(v), space))) return false;
        }
        return true;
    }

    const Segment& segment_;
    const std::vector<std::unique_ptr<StepLoop>>& loops_;
    std::vector<uint8_t> in_open_;
    std::vector<PlanItem> items_;
    PlanItem open_;
};

}  // namespace

std::vector<PlanItem> find_items(const Segment& segment, const std::vector<uint8_t>& is_live,
                                 const std::vector<std::unique_ptr<StepLoop>>& loops) {
    ItemFinder finder(segment, loops);
    for (size_t i = 0; i < segment.steps.size(); ++i)
        if (is_live[i] && !segment.steps[i].op->view &&
            segment.value(segment.steps[i].first_out).kind != SegmentValue::Kind::View)
            finder.add(static_cast<int32_t>(i));
    return finder.finish();
}

}  // namespace weft::program
