/// Reading guide: `PlanBuilder` decides once where every value lies and prepares calls and groups. What a run
/// does is in plan_run.cpp.
#include "program/plan.h"

#include <algorithm>

#include "ops/call.h"
#include "program/arena.h"
#include "program/step_call.h"

namespace weft::program {

// ---- building

class PlanBuilder : GroupBuilder::Slots {
public:
    PlanBuilder(Plan& plan, Plan::Options options, const std::vector<int32_t>& kept)
        : plan_(plan), segment_(*plan.segment_), options_(options), kept_(kept),
          values_(segment_.values.size()) {}
    void build();

private:
    enum class Home : uint8_t { None, Fixed, Input, Made, Kept, Arena, Buffer };
    struct Fate {
        Home home = Home::None;
        int32_t slot = -1;
        int32_t item = -1, last = -1;  ///< that makes it, that reads it last
        bool leaves = false;           ///< another item than its own reads it
        std::vector<Plan::Fix> fixes;
    };
    Fate& fate(int32_t v) { return values_[static_cast<size_t>(v)]; }
    const Step& step_of(int32_t i) const { return segment_.steps[static_cast<size_t>(i)]; }
    bool is_large(int32_t v) const { return segment_.layout(v).byte_count() >= Plan::kLarge; }

    int32_t slot_of(int32_t root) override;
    int32_t slot_of_number(const Tensor& number) override;

    void find_items();
    void find_lives();
    void find_homes();
    void place_in_arena();
    void place_kept();
    void prepare(const PlanItem& item);
    void prepare_group(const PlanItem& item);
    bool is_sum_of_product(const Step& step) const;
    bool prepare_product(const PlanItem& item, const Call& c);
    void join_sums();
    int32_t product_in(const PlanItem& item) const;
    int32_t plus_of(const PlanItem& item) const;
    Plan::Place place_of(int32_t value);
    void see(int32_t value);
    void name_results();
    void list_bound();
    void list_turns();
    int32_t find_over(const Plan::Large& result) const;

    Plan& plan_;
    const Segment& segment_;
    const Plan::Options options_;
    const std::vector<int32_t>& kept_;
    std::vector<Fate> values_;
    std::vector<int64_t> offsets_ = std::vector<int64_t>(segment_.values.size());
    std::vector<int32_t> pieces_ = std::vector<int32_t>(segment_.values.size());
    std::vector<std::unique_ptr<StepLoop>> loops_;
    std::vector<int32_t> uses_;  ///< by steps that run, of a root; held ones have more than one
};

void PlanBuilder::build() {
    find_items();
    if (options_.tiles) join_sums();
    find_lives();
    find_homes();
    place_in_arena();
    place_kept();
    for (const PlanItem& item : plan_.items_) prepare(item);
    name_results();
    list_bound();
    list_turns();
}

void PlanBuilder::find_items() {
    std::vector<int32_t> needed = plan_.wanted_;
    needed.insert(needed.end(), kept_.begin(), kept_.end());
    loops_.resize(segment_.steps.size());
    for (size_t i = 0; options_.tiles && i < loops_.size(); ++i) {
        auto found = std::make_unique<StepLoop>();
        if (find_loop(segment_, segment_.steps[i], *found)) loops_[i] = std::move(found);
    }
    plan_.items_ = program::find_items(segment_, live_steps(segment_, needed, loops_), loops_);
}

/// Whether the step is a product to which a row is added, as a layer's with a bias.
bool PlanBuilder::is_sum_of_product(const Step& step) const {
    if (step.outs != 1) return false;
    ops::Product product;
    return ops::find_product(StepOnLayouts(segment_, step).call, product) && product.added >= 0 &&
           product.alpha == 1 && product.beta == 1;
}

/// Whether an item is one sum of floats in one piece: the product with something added that is one of its operands,
/// which nothing else needs; -1: no.
int32_t PlanBuilder::product_in(const PlanItem& item) const {
    if (!item.tiled || item.steps.size() != 1) return -1;
    const Step& sum = step_of(item.steps[0]);
    const StepLoop& loop = *loops_[static_cast<size_t>(item.steps[0])];
    const Tensor& out = segment_.layout(sum.first_out);
    if (kernels::arithmetic_of(loop.loop) != kernels::Arithmetic::Add || !out.contiguous())
        return -1;
    int32_t found = -1;
    for (int k = 0; k < 2; ++k) {
        const int32_t v = loop.operand[k].value;
        if (v < 0 || segment_.layout(v).dtype() != out.dtype() ||
            !segment_.layout(v).contiguous() || !equal(segment_.layout(v).shape(), out.shape()))
            return -1;
        const SegmentValue& value = segment_.value(v);
        if (value.kind == SegmentValue::Kind::Result && uses_[static_cast<size_t>(v)] == 1 &&
            is_sum_of_product(step_of(value.step)))
            found = value.step;
    }
    return found;
}

/// Sums of a product and something else are made with it, where its rows are at hand.
void PlanBuilder::join_sums() {
    uses_.assign(values_.size(), 0);
    for (const PlanItem& item : plan_.items_)
        for (int32_t s : item.steps)
            for (int k = 0; k < step_of(s).operands; ++k)
                if (const int32_t v = segment_.operand(step_of(s), k); v >= 0)
                    ++uses_[static_cast<size_t>(segment_.place_of(v).root)];
    auto hold = [&](const std::vector<int32_t>& held) {
        for (int32_t v : held) uses_[static_cast<size_t>(segment_.place_of(v).root)] += 2;
    };
    hold(plan_.wanted_);
    hold(kept_);
    for (PlanItem& item : plan_.items_) {
        const int32_t product = product_in(item);
        if (product < 0) continue;
        for (PlanItem& other : plan_.items_)
            if (!other.tiled && other.steps == std::vector<int32_t>{product}) other.steps.clear();
        item.steps.insert(item.steps.begin(), product);
        item.tiled = false;
    }
    std::erase_if(plan_.items_, [](const PlanItem& item) { return item.steps.empty(); });
}

/// The operand of the sum behind a product that is not the product.
int32_t PlanBuilder::plus_of(const PlanItem& item) const {
    const StepLoop& loop = *loops_[static_cast<size_t>(item.steps[1])];
    const int32_t product = step_of(item.steps[0]).first_out;
    return loop.operand[loop.operand[0].value == product ? 1 : 0].value;
}

void PlanBuilder::find_lives() {
    for (size_t i = 0; i < plan_.items_.size(); ++i) {
        const auto item = static_cast<int32_t>(i);
        for (int32_t s : plan_.items_[i].steps) {
            const Step& step = step_of(s);
            for (int32_t k = 0; k < step.outs; ++k)
                fate(step.first_out + k).item = fate(step.first_out + k).last = item;
        }
        for (int32_t s : plan_.items_[i].steps) {
            const Step& step = step_of(s);
            for (int k = 0; k < step.operands; ++k) {
                const int32_t v = segment_.operand(step, k);
                if (v < 0) continue;
                Fate& root = fate(segment_.place_of(v).root);
                root.last = item;
                root.leaves |= root.item != item;
            }
        }
    }
}

void PlanBuilder::find_homes() {
    for (size_t v = 0; v < values_.size(); ++v) {
        Fate& of = values_[v];
        switch (segment_.values[v].kind) {
            case SegmentValue::Kind::Input:
                of.home = Home::Input;
                break;
            case SegmentValue::Kind::Constant:
                of.home = Home::Fixed;
                break;
            case SegmentValue::Kind::View:
                break;
            case SegmentValue::Kind::Result:
                if (of.item < 0) break;
                const PlanItem& item = plan_.items_[static_cast<size_t>(of.item)];
                const bool is_passed_on =  // a product's, to its sum
                    !item.tiled && segment_.values[v].step != item.steps.back();
                const bool is_inner = item.tiled && !of.leaves;
                of.home = is_inner || is_passed_on ? Home::Buffer : Home::Arena;
        }
    }
    auto leave = [&](int32_t v, Home home) {
        Fate& root = fate(segment_.place_of(v).root);
        if (root.home == Home::Buffer || root.home == Home::Arena) root.home = home;
    };
    for (int32_t v : plan_.wanted_) leave(v, Home::Made);
    for (int32_t v : kept_) leave(v, Home::Kept);
}

void PlanBuilder::place_in_arena() {
    Arena arena;
    auto each = [&](auto&& f) {
        for (size_t v = 0; v < values_.size(); ++v)
            if (values_[v].home == Home::Arena && !is_large(static_cast<int32_t>(v)))
                f(static_cast<int32_t>(v), values_[v]);
    };
    std::vector<std::vector<int32_t>> made(plan_.items_.size()), over(plan_.items_.size());
    each([&](int32_t v, const Fate& of) {
        made[static_cast<size_t>(of.item)].push_back(v);
        over[static_cast<size_t>(of.last)].push_back(v);
    });
    for (size_t i = 0; i < made.size(); ++i) {
        for (int32_t v : made[i])
            offsets_[static_cast<size_t>(v)] = arena.take(segment_.layout(v).byte_count());
        for (int32_t v : over[i]) arena.give_back(offsets_[static_cast<size_t>(v)]);
    }
    plan_.arena_bytes_ = arena.bytes();
}

void PlanBuilder::place_kept() {
    for (int32_t v : kept_) {
        const int64_t bytes = segment_.layout(v).byte_count();
        int32_t piece = is_large(v) ? -1 : plan_.shared_piece_;
        if (piece < 0) {
            piece = static_cast<int32_t>(plan_.kept_bytes_.size());
            plan_.kept_bytes_.push_back(0);
            if (!is_large(v)) plan_.shared_piece_ = piece;
        }
        int64_t& end = plan_.kept_bytes_[static_cast<size_t>(piece)];
        pieces_[static_cast<size_t>(v)] = piece;
        offsets_[static_cast<size_t>(v)] = end;
        end += is_large(v) ? bytes : (bytes + 63) / 64 * 64;
        slot_of(v);
    }
}

int32_t PlanBuilder::slot_of(int32_t root) {
    Fate& of = fate(root);
    if (of.home == Home::Buffer || of.home == Home::None) return -1;
    if (of.slot < 0) {
        of.slot = plan_.slots_++;
        if (of.home == Home::Fixed) plan_.fixed_.emplace_back(of.slot, segment_.layout(root));
    }
    return of.slot;
}

int32_t PlanBuilder::slot_of_number(const Tensor& number) {
    plan_.fixed_.emplace_back(plan_.slots_, number);
    return plan_.slots_++;
}

/// A kernel is given a tensor for `value`.
void PlanBuilder::see(int32_t value) {
    if (value < 0) return;
    const auto [root, offset] = segment_.place_of(value);
    if (fate(root).home == Home::Fixed) return;
    slot_of(root);
    std::vector<Plan::Fix>& fixes = fate(root).fixes;
    const auto same = [&](const Plan::Fix& f) { return f.value == value; };
    if (std::none_of(fixes.begin(), fixes.end(), same)) fixes.push_back({value, offset});
}

void PlanBuilder::prepare(const PlanItem& item) {
    if (item.tiled) return prepare_group(item);
    const Step& step = step_of(item.steps[0]);
    const StepOnLayouts on(segment_, step);
    if (prepare_product(item, on.call)) return;
    plan_.order_.push_back({Plan::Next::Kind::Call, static_cast<int32_t>(plan_.calls_.size())});
    const auto first = static_cast<int32_t>(plan_.operands_.size());
    for (int k = 0; k < step.operands; ++k) {
        plan_.operands_.push_back(segment_.operand(step, k));
        see(segment_.operand(step, k));
    }
    for (int32_t k = 0; k < step.outs; ++k) see(step.first_out + k);
    plan_.calls_.push_back({item.steps[0], first, ops::kernel_of(on.call)});
}

void PlanBuilder::prepare_group(const PlanItem& item) {
    std::vector<const Step*> steps;
    std::vector<const StepLoop*> loops;
    for (int32_t s : item.steps) {
        steps.push_back(&step_of(s));
        loops.push_back(loops_[static_cast<size_t>(s)].get());
    }
    plan_.order_.push_back({Plan::Next::Kind::Group, static_cast<int32_t>(plan_.groups_.size())});
    plan_.groups_.push_back(GroupBuilder(segment_, *this).build(steps, loops));
}

Plan::Place PlanBuilder::place_of(int32_t value) {
    const auto [root, offset] = segment_.place_of(value);
    return {slot_of(root), offset};
}

bool PlanBuilder::prepare_product(const PlanItem& item, const Call& c) {
    const Step& step = step_of(item.steps[0]);
    Plan::PreparedProduct made;
    if (!ops::find_product(c, made.product)) return false;
    auto operand = [&](int k) { return place_of(segment_.operand(step, k)); };
    made.out = place_of(step_of(item.steps.back()).first_out);
    made.a = operand(made.product.a);
    made.b = operand(made.product.b);
    if (made.product.added >= 0) made.added = operand(made.product.added);
    if (item.steps.size() > 1) made.plus = place_of(plus_of(item));
    else made.row = made.product.as_row();
    plan_.order_.push_back(
        {Plan::Next::Kind::Product, static_cast<int32_t>(plan_.products_.size())});
    plan_.products_.push_back(made);
    return true;
}

void PlanBuilder::name_results() {
    std::vector<int32_t> made(values_.size(), -1);
    for (int32_t v : plan_.wanted_) {
        const auto [root, offset] = segment_.place_of(v);
        Plan::Result result;
        result.value = v;
        result.whole = v == root;
        result.offset = offset;
        if (fate(root).home == Home::Input) {
            result.input = segment_.value(root).of;
        } else {
            int32_t& number = made[static_cast<size_t>(root)];
            if (number < 0) {
                number = static_cast<int32_t>(plan_.made_.size());
                plan_.made_.push_back({root, slot_of(root), -1, 0, 0});
            }
            result.made = number;
        }
        plan_.results_.push_back(result);
    }
}

/// What each run points anew, and what lies in the arena.
void PlanBuilder::list_bound() {
    auto bound = [&](int32_t root, int32_t source) {
        Plan::Bound b{root, fate(root).slot, source, static_cast<int32_t>(plan_.fixes_.size()),
                      static_cast<int32_t>(fate(root).fixes.size())};
        for (const Plan::Fix& f : fate(root).fixes) plan_.fixes_.push_back(f);
        return b;
    };
    for (size_t m = 0; m < plan_.made_.size(); ++m) {
        Plan::Bound& b = plan_.made_[m] = bound(plan_.made_[m].value, -1);
        plan_.has_fixes_ |= b.fixes > 0;
        b.is_large = is_large(b.value);
        if (b.is_large) plan_.large_.push_back({b, static_cast<int32_t>(m)});
    }
    for (size_t v = 0; v < values_.size(); ++v) {
        const Fate& of = values_[v];
        const auto value = static_cast<int32_t>(v);
        if (of.slot < 0) continue;
        if (of.home == Home::Input) {
            plan_.inputs_.push_back(bound(value, segment_.values[v].of));
            plan_.has_fixes_ |= plan_.inputs_.back().fixes > 0;
        } else if (of.home == Home::Arena || of.home == Home::Kept) {
            const Plan::Bound b = bound(value, -1);
            if (is_large(value)) {
                plan_.large_.push_back({b, -1, of.home == Home::Kept ? pieces_[v] : -1});
                continue;
            }
            auto& placed = of.home == Home::Arena ? plan_.placed_ : plan_.kept_;
            placed.push_back({value, of.slot, offsets_[v], b.first_fix, b.fixes});
        }
    }
}

/// The large value in whose memory this one may be written, as it dies with the item that makes it; -1: none.
int32_t PlanBuilder::find_over(const Plan::Large& result) const {
    const Fate& made = values_[static_cast<size_t>(result.bound.value)];
    const Plan::Next& next = plan_.order_[static_cast<size_t>(made.item)];
    if (next.kind != Plan::Next::Kind::Group) return -1;
    const Group& group = plan_.groups_[static_cast<size_t>(next.number)];
    for (size_t k = 0; k < plan_.large_.size(); ++k) {
        const Plan::Large& other = plan_.large_[k];
        const Fate& of = values_[static_cast<size_t>(other.bound.value)];
        const auto number = static_cast<int32_t>(k);
        const auto is_over = [&](const Plan::Large& l) { return l.over == number; };
        if (of.home == Home::Arena && of.item != made.item && of.last == made.item &&
            segment_.layout(other.bound.value).byte_count() ==
                segment_.layout(result.bound.value).byte_count() &&
            std::none_of(plan_.large_.begin(), plan_.large_.end(), is_over) &&
            group.may_write_over(made.slot, of.slot))
            return number;
    }
    return -1;
}

/// Note [Large values]
void PlanBuilder::list_turns() {
    using Kind = Plan::Turn::Kind;
    const auto end = static_cast<int32_t>(2 * plan_.items_.size()) - 1;
    for (size_t k = 0; k < plan_.large_.size(); ++k) {
        Plan::Large& l = plan_.large_[k];
        const Fate& of = fate(l.bound.value);
        const auto number = static_cast<int32_t>(k);
        l.over = find_over(l);
        plan_.turns_.push_back({Kind::Take, 2 * of.item, number});
        plan_.turns_.push_back(
            {Kind::GiveBack, of.home == Home::Arena ? 2 * of.last + 1 : end, number});
    }
    for (size_t k = 0; k < plan_.inputs_.size(); ++k) {
        const Plan::Bound& b = plan_.inputs_[k];
        const auto is_result = [&](const Plan::Result& r) { return r.input == b.source; };
        if (is_large(b.value) &&
            std::none_of(plan_.results_.begin(), plan_.results_.end(), is_result))
            plan_.turns_.push_back(
                {Kind::Drop, 2 * fate(b.value).last + 1, static_cast<int32_t>(k)});
    }
    std::stable_sort(plan_.turns_.begin(), plan_.turns_.end(),
                     [](const Plan::Turn& a, const Plan::Turn& b) { return a.when < b.when; });
}

void Plan::build(Options options, const std::vector<int32_t>& kept) {
    std::vector<int32_t> held = wanted_;
    held.insert(held.end(), kept.begin(), kept.end());
    if (options.tiles) segment_ = without_copies(std::move(segment_), held);
    PlanBuilder(*this, options, kept).build();
}

}  // namespace weft::program
