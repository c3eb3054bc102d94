#include "program/parts.h"

#include <algorithm>

#include "program/rules.h"

namespace weft::program {
namespace {

using Kind = SegmentValue::Kind;

void add_once(std::vector<int32_t>& to, int32_t v) {
    if (std::find(to.begin(), to.end(), v) == to.end()) to.push_back(v);
}

/// Of a few instructions an element, so that a result is sooner made again than kept: what 64-bit words are
/// added, multiplied and compared with, and what only moves elements.
bool is_cheap(const Op& op) {
    return op.pointwise && op.kernel && op.outputs == 1 && !op.random &&
           (op.uint64 == Uint64::Bits || op.uint64 == Uint64::Order || op.every_dtype);
}

class PartFinder {
public:
    PartFinder(const Segment& segment, Parts& found)
        : segment_(segment), found_(found), level_(segment.steps.size(), -1),
          has_tensor_(segment.values.size()) {}

    void find() {
        found_.is_held.assign(segment_.values.size(), 0);
        for (int32_t v : segment_.outputs) found_.is_held[at(v)] = 1;
        for (size_t v = 0; v < segment_.values.size(); ++v)
            if (is_source(static_cast<int32_t>(v))) found_.is_held[v] = has_tensor_[v] = 1;
        for (int32_t v : segment_.outputs) make_tensor(v);
        find_levels();
        find_steps();
        find_outputs();
        find_saved();
        find_remade();
        list_events();
    }

private:
    static size_t at(int32_t v) { return static_cast<size_t>(v); }
    const SegmentValue& value(int32_t v) const { return segment_.value(v); }
    const Step& step_of(int32_t v) const { return segment_.steps[at(value(v).step)]; }
    bool is_source(int32_t v) const {
        return value(v).kind == Kind::Input || value(v).kind == Kind::Constant;
    }
    bool is_number(int32_t v) const {
        return value(v).kind == Kind::Constant && value(v).layout.has(kWrapped);
    }
    bool is_held(int32_t v) const { return found_.is_held[at(v)]; }

    /// A run has a tensor for `v`: with what it is a view of, down to what the plan gives.
    void make_tensor(int32_t v) {
        while (!has_tensor_[at(v)]) {
            has_tensor_[at(v)] = 1;
            if (value(v).kind == Kind::Result) found_.made.push_back(v);
            else v = value(v).of;
        }
    }
    /// The last part that there must be before `v` has its tensor; -1: none.
    int32_t part_before(int32_t v) const {
        const int32_t root = segment_.place_of(v).root;
        if (is_source(root) || !value(root).wants_grad) return -1;
        return level_[at(value(root).step)];
    }
    void find_levels() {
        for (size_t i = 0; i < segment_.steps.size(); ++i) {
            const Step& step = segment_.steps[i];
            if (!wants_grad(step)) continue;
            int32_t level = 0;
            for (int k = 0; k < step.operands; ++k) {
                const int32_t v = segment_.operand(step, k);
                if (v < 0 || !value(v).wants_grad || is_source(v)) continue;
                level =
                    std::max(level, is_held(v) ? part_before(v) + 1 : level_[at(value(v).step)]);
            }
            level_[i] = level;
        }
    }
    bool wants_grad(const Step& step) const {
        for (int32_t k = 0; k < step.outs; ++k)
            if (value(step.first_out + k).wants_grad) return true;
        return false;
    }
    /// Whether gradients come to the step inside of a part: those of views that have tensors go another way.
    bool is_inside(const Step& step) const {
        for (int32_t k = 0; k < step.outs; ++k) {
            const int32_t v = step.first_out + k;
            if (value(v).wants_grad && !(step.op->view && is_held(v))) return true;
        }
        return false;
    }
    void find_steps() {
        found_.part_of.assign(segment_.values.size(), -1);
        int32_t parts = 0;
        for (size_t i = 0; i < segment_.steps.size(); ++i)
            if (level_[i] >= 0 && is_inside(segment_.steps[i]))
                parts = std::max(parts, level_[i] + 1);
        found_.all.resize(at(parts));
        for (size_t i = 0; i < segment_.steps.size(); ++i) {
            const Step& step = segment_.steps[i];
            if (level_[i] < 0 || !is_inside(step)) continue;
            found_.all[at(level_[i])].steps.push_back(static_cast<int32_t>(i));
            for (int32_t k = 0; k < step.outs; ++k) {
                const int32_t v = step.first_out + k;
                if (value(v).wants_grad && !(step.op->view && is_held(v)))
                    found_.part_of[at(v)] = level_[i];
            }
        }
    }
    void find_outputs() {
        for (int32_t v : found_.made)
            if (const int32_t part = found_.part_of[at(v)]; part >= 0)
                found_.all[at(part)].outputs.push_back(v);
        for (size_t p = 0; p < found_.all.size(); ++p) {
            SegmentPart& part = found_.all[p];
            for (int32_t i : part.steps) {
                const Step& step = segment_.steps[at(i)];
                for (int k = 0; k < step.operands; ++k) {
                    const int32_t v = segment_.operand(step, k);
                    if (v < 0 || !value(v).wants_grad || !step.op->differentiable(k)) continue;
                    const int32_t from = found_.part_of[at(v)];
                    if (from == static_cast<int32_t>(p) && !is_held(v)) continue;
                    add_once(part.edges, v);
                    if (from >= 0) add_once(found_.all[at(from)].outputs, v);
                }
            }
        }
    }
    void find_saved() {
        for (SegmentPart& part : found_.all) {
            for (int32_t i : part.steps) {
                const Step& step = segment_.steps[at(i)];
                const SaveMask mask = saves_of(segment_, step);
                for (int k = 0; k < std::min(step.operands, 16); ++k)
                    if (mask & save_in(k)) save(part, segment_.operand(step, k));
                for (int k = 0; k < std::min(step.outs, 16); ++k)
                    if (mask & save_out(k)) save(part, step.first_out + k);
            }
        }
    }
    void save(SegmentPart& part, int32_t v) {
        if (v < 0) return;
        const int32_t root = segment_.place_of(v).root;
        if (is_number(root)) return;
        if (has_tensor_[at(root)]) return add_once(part.saved, root);
        add_once(part.inner, root);
    }

    /// Whether what the step reads is there in the part's backward.
    bool has_operands(const SegmentPart& part, const Step& step) const {
        for (int k = 0; k < step.operands; ++k) {
            const int32_t v = segment_.operand(step, k);
            if (v < 0) continue;
            const int32_t root = segment_.place_of(v).root;
            if (is_number(root)) continue;
            const auto& there = has_tensor_[at(root)] ? part.saved : part.inner;
            if (found_.is_remade[at(root)] && is_far(step_of(root), step)) return false;
            if (std::find(there.begin(), there.end(), root) == there.end()) return false;
        }
        return true;
    }
    /// Whether one could not run on the other's tiles: what is made again of what is made again far from
    /// there would lie in memory for long.
    bool is_far(const Step& a, const Step& b) const {
        for (const Step* s = &a; s < &b; ++s)
            if (!s->op->pointwise && !s->op->view) return true;
        return false;
    }
    /// Values are kept unless each part that reads one can make it again.
    void find_remade() {
        found_.is_remade.assign(segment_.values.size(), 0);
        for (const Step& step : segment_.steps) {
            if (!is_cheap(*step.op)) continue;
            bool is_read = false, can = true;
            for (const SegmentPart& part : found_.all) {
                const auto& inner = part.inner;
                if (std::find(inner.begin(), inner.end(), step.first_out) == inner.end()) continue;
                is_read = true;
                can = can && has_operands(part, step);
            }
            found_.is_remade[at(step.first_out)] = is_read && can;
        }
        for (SegmentPart& part : found_.all)
            for (int32_t v : part.inner) {
                if (found_.is_remade[at(v)]) {
                    add_bases(part, step_of(v));
                    continue;
                }
                part.keeps = true;
                add_once(found_.kept, v);
            }
    }
    void add_bases(SegmentPart& part, const Step& step) {
        for (int k = 0; k < step.operands; ++k) {
            const int32_t v = segment_.operand(step, k);
            const int32_t root = v < 0 ? v : segment_.place_of(v).root;
            if (root >= 0 && has_tensor_[at(root)] && !is_number(root)) add_once(part.bases, root);
        }
    }

    /// Views as soon as what they show is there, so that the parts that use them find them.
    void list_events() {
        list_views(-1);
        for (size_t p = 0; p < found_.all.size(); ++p) {
            found_.events.push_back({Parts::Event::Kind::Node, static_cast<int32_t>(p)});
            list_views(static_cast<int32_t>(p));
        }
    }
    void list_views(int32_t after) {
        int32_t listed = -1;
        for (size_t n = 0; n < segment_.values.size(); ++n) {
            const auto v = static_cast<int32_t>(n);
            if (value(v).kind != Kind::View || !has_tensor_[n] || part_before(v) != after) continue;
            const int32_t step = value(v).step;
            if (step < 0) found_.events.push_back({Parts::Event::Kind::Detach, v});
            else if (step != listed) found_.events.push_back({Parts::Event::Kind::View, step});
            if (step >= 0) listed = step;
        }
    }

    const Segment& segment_;
    Parts& found_;
    std::vector<int32_t> level_;  ///< of a step: its part
    std::vector<uint8_t> has_tensor_;
};

}  // namespace

Parts::Parts(const Segment& segment) { PartFinder(segment, *this).find(); }

}  // namespace weft::program
