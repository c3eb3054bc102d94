/// Reading guide: `PlanBuilder` decides once where every value lies and prepares calls and groups;
/// `Plan::Frame` is what a run works in; `Plan::run` is short.
#include "program/plan.h"

#include <algorithm>
#include <sstream>

#include "ops/call.h"
#include "program/arena.h"

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

    Plan& plan_;
    const Segment& segment_;
    const Plan::Options options_;
    const std::vector<int32_t>& kept_;
    std::vector<Fate> values_;
    std::vector<int64_t> offsets_ = std::vector<int64_t>(segment_.values.size());
    std::vector<int32_t> pieces_ = std::vector<int32_t>(segment_.values.size());
    static constexpr int64_t kOwnPiece = int64_t{1} << 16;
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
    std::vector<Tensor> in;
    for (int k = 0; k < step.operands; ++k) {
        const int32_t v = segment_.operand(step, k);
        in.push_back(v < 0 ? Tensor() : segment_.layout(v));
    }
    if (step.outs != 1) return false;
    Call c(*step.op, in.data(), step.operands, segment_.attrs.data() + step.first_attr);
    c.add(segment_.layout(step.first_out));
    ops::Product product;
    return ops::find_product(c, product) && product.added >= 0 && product.alpha == 1 &&
           product.beta == 1;
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
            if (values_[v].home == Home::Arena) f(static_cast<int32_t>(v), values_[v]);
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
    int32_t shared = -1;
    for (int32_t v : kept_) {
        const int64_t bytes = (segment_.layout(v).byte_count() + 63) / 64 * 64;
        const bool own = bytes >= kOwnPiece;
        int32_t piece = own ? -1 : shared;
        if (piece < 0) {
            piece = static_cast<int32_t>(plan_.kept_bytes_.size());
            plan_.kept_bytes_.push_back(0);
            if (!own) shared = piece;
        }
        int64_t& end = plan_.kept_bytes_[static_cast<size_t>(piece)];
        pieces_[static_cast<size_t>(v)] = piece;
        offsets_[static_cast<size_t>(v)] = end;
        end += bytes;
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
    std::vector<Tensor> in;
    for (int k = 0; k < step.operands; ++k) {
        const int32_t v = segment_.operand(step, k);
        in.push_back(v < 0 ? Tensor() : segment_.layout(v));
    }
    Call c(*step.op, in.data(), step.operands, segment_.attrs.data() + step.first_attr);
    for (int32_t k = 0; k < step.outs; ++k) c.add(segment_.layout(step.first_out + k));
    if (prepare_product(item, c)) return;
    plan_.order_.push_back({Plan::Next::Kind::Call, static_cast<int32_t>(plan_.calls_.size())});
    const auto first = static_cast<int32_t>(plan_.operands_.size());
    for (int k = 0; k < step.operands; ++k) {
        plan_.operands_.push_back(segment_.operand(step, k));
        see(segment_.operand(step, k));
    }
    for (int32_t k = 0; k < step.outs; ++k) see(step.first_out + k);
    plan_.calls_.push_back({item.steps[0], first, ops::kernel_of(c)});
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
    auto add_fixes = [&](int32_t root, int32_t& first, int32_t& count) {
        first = static_cast<int32_t>(plan_.fixes_.size());
        count = static_cast<int32_t>(fate(root).fixes.size());
        for (const Plan::Fix& f : fate(root).fixes) plan_.fixes_.push_back(f);
    };
    for (Plan::Bound& b : plan_.made_) {
        add_fixes(b.value, b.first_fix, b.fixes);
        plan_.has_fixes_ |= b.fixes > 0;
    }
    for (size_t v = 0; v < values_.size(); ++v) {
        const Fate& of = values_[v];
        const auto value = static_cast<int32_t>(v);
        if (of.slot < 0) continue;
        if (of.home == Home::Input) {
            plan_.inputs_.push_back({value, of.slot, segment_.values[v].of, 0, 0});
            add_fixes(value, plan_.inputs_.back().first_fix, plan_.inputs_.back().fixes);
            plan_.has_fixes_ |= plan_.inputs_.back().fixes > 0;
        } else if (of.home == Home::Arena || of.home == Home::Kept) {
            auto& placed = of.home == Home::Arena ? plan_.placed_ : plan_.kept_;
            placed.push_back({value, of.slot, offsets_[v], 0, 0, pieces_[v]});
            add_fixes(value, placed.back().first_fix, placed.back().fixes);
        }
    }
}

// ---- a frame

/// From so many bytes on the arena is not kept between runs: the allocator has others who want them.
constexpr int64_t kKeptArena = int64_t{1} << 20;

struct Plan::Frame {
    std::vector<char*> table;
    std::vector<Tensor> tensors;  ///< what kernels are given, by value
    std::vector<Tensor> in;
    std::vector<Call> calls;
    std::vector<Tensor> made;
    Ref<Storage> arena;
    std::vector<Ref<Storage>> memory;  ///< of what lies in the arena
    std::vector<Ref<Storage>> kept;    ///< of what is kept, in this run
};

std::unique_ptr<Plan::Frame> Plan::make_frame() const {
    auto frame = std::make_unique<Frame>();
    frame->table.resize(static_cast<size_t>(slots_));
    for (const auto& [slot, t] : fixed_) frame->table[static_cast<size_t>(slot)] = t.bytes();
    frame->tensors.resize(segment_->values.size());
    frame->made.resize(made_.size());
    for (const Fix& f : fixes_) {
        const Tensor& layout = segment_->layout(f.value);
        Tensor& t = frame->tensors[static_cast<size_t>(f.value)];
        t = Tensor::layout_like(layout, layout.dtype());
        t.set(kWrapped, layout.has(kWrapped));
    }
    for (int32_t v : operands_) {
        if (v < 0) frame->in.emplace_back();
        else if (segment_->value(v).kind == SegmentValue::Kind::Constant)
            frame->in.push_back(segment_->layout(v));
        else frame->in.push_back(frame->tensors[static_cast<size_t>(v)]);
    }
    for (const Prepared& p : calls_) {
        const Step& step = segment_->steps[static_cast<size_t>(p.step)];
        Call& c =
            frame->calls.emplace_back(*step.op, frame->in.data() + p.first_operand, step.operands,
                                      segment_->attrs.data() + step.first_attr);
        for (int32_t k = 0; k < step.outs; ++k)
            c.add(frame->tensors[static_cast<size_t>(step.first_out + k)]);
    }
    auto storages = [&](const std::vector<Placed>& all, std::vector<Ref<Storage>>& to) {
        auto nobody = [](void*) {};
        for (const Placed& p : all)
            to.push_back(
                borrow_storage(nullptr, segment_->layout(p.value).byte_count(), nobody, nullptr));
    };
    storages(placed_, frame->memory);
    storages(kept_, frame->kept);
    if (arena_bytes_ <= kKeptArena) place_arena(*frame);
    return frame;
}

void Plan::place_arena(Frame& frame) const {
    if (placed_.empty()) return;
    frame.arena = allocate_storage(arena_bytes_);
    place(frame, placed_, frame.memory, [&](int32_t) { return frame.arena->data; });
}

/// Each value has a storage of its own: kernels tell by it whether two lie in one memory.
void Plan::place(Frame& frame, const std::vector<Placed>& all, std::vector<Ref<Storage>>& memory,
                 FunctionRef<char*(int32_t piece)> begin) const {
    for (size_t i = 0; i < all.size(); ++i) {
        const Placed& p = all[i];
        char* const at = begin(p.piece) + p.offset;
        frame.table[static_cast<size_t>(p.slot)] = memory[i]->data = at;
        for (int32_t k = p.first_fix; k < p.first_fix + p.fixes; ++k) {
            const Fix& f = fixes_[static_cast<size_t>(k)];
            frame.tensors[static_cast<size_t>(f.value)].lie_in(memory[i], at + f.offset);
        }
    }
}

inline void Plan::bind(Frame& frame, const Bound& bound, const Tensor& to) const {
    frame.table[static_cast<size_t>(bound.slot)] = to.bytes();
    for (int32_t k = bound.first_fix; k < bound.first_fix + bound.fixes; ++k) {
        const Fix& f = fixes_[static_cast<size_t>(k)];
        frame.tensors[static_cast<size_t>(f.value)].lie_in(to.storage(), to.bytes() + f.offset);
    }
}

void Plan::let_go(Frame& frame, const std::vector<Bound>& bound) const {
    for (const Bound& b : bound)
        for (int32_t k = b.first_fix; k < b.first_fix + b.fixes; ++k)
            frame.tensors[static_cast<size_t>(fixes_[static_cast<size_t>(k)].value)].lie_in(
                nullptr, nullptr);
}

/// The frame holds nobody's memory any more.
void Plan::let_go(Frame& frame) const {
    if (has_fixes_) {
        let_go(frame, inputs_);
        let_go(frame, made_);
    }
    for (Tensor& t : frame.made) t = Tensor();
    if (arena_bytes_ > kKeptArena) frame.arena = nullptr;
}

// ---- running

Plan::Plan(Ref<Segment> segment, Options options) : Plan(segment, options, segment->outputs, {}) {}
Plan::Plan(Ref<Segment> segment, Options options, std::vector<int32_t> results,
           std::vector<int32_t> kept)
    : segment_(std::move(segment)), wanted_(std::move(results)) {
    std::vector<int32_t> held = wanted_;
    held.insert(held.end(), kept.begin(), kept.end());
    if (options.tiles) segment_ = without_copies(std::move(segment_), held);
    PlanBuilder(*this, options, kept).build();
}
Plan::~Plan() = default;

Plan::KeptAt Plan::kept_at(int32_t value) const {
    for (const Placed& p : kept_)
        if (p.value == value) return {p.piece, p.offset};
    return {-1, 0};
}

bool Plan::fits(const Tensor* inputs, size_t count) const {
    return segment_->inputs_fit(inputs, count);
}

void Plan::run(const Tensor* inputs, Tensor* outputs, Tensor* kept) {
    const Ref<Plan> alive(this);
    const ModeGuard plain(0, kGradMode | kDeferMode | kMapMode | kTraceMode | kWatchMode);
    std::unique_ptr<Frame> frame;
    if (idle_.empty()) {
        frame = make_frame();
    } else {
        frame = std::move(idle_.back());
        idle_.pop_back();
    }
    if (arena_bytes_ > kKeptArena) place_arena(*frame);
    for (const Bound& b : inputs_) bind(*frame, b, inputs[b.source]);
    if (!kept_.empty()) {
        for (size_t k = 0; k < kept_bytes_.size(); ++k)
            kept[k] = Tensor::empty(DType::UInt8, Dims{kept_bytes_[k]});
        place(*frame, kept_, frame->kept, [&](int32_t piece) { return kept[piece].bytes(); });
    }
    for (size_t m = 0; m < made_.size(); ++m) {
        const Tensor& layout = segment_->layout(made_[m].value);
        Tensor made = Tensor::layout_like(layout, layout.dtype());
        made.allocate();
        made.set(kInference, mode & kInferenceMode);
        bind(*frame, made_[m], made);
        frame->made[m] = std::move(made);
    }
    run_items(*frame);
    take_results(*frame, inputs, outputs);
    let_go(*frame);
    idle_.push_back(std::move(frame));
}

void Plan::run_items(Frame& frame) const {
    char* const* const table = frame.table.data();
    auto address = [&](const Place& p) { return table[p.slot] + p.offset; };
    for (const Next& next : order_) {
        const auto n = static_cast<size_t>(next.number);
        switch (next.kind) {
            case Next::Kind::Group:
                groups_[n].run(table);
                break;
            case Next::Kind::Product: {
                const PreparedProduct& p = products_[n];
                p.product.run(address(p.out), address(p.a), address(p.b),
                              p.added.slot < 0 ? nullptr : address(p.added),
                              p.plus.slot < 0 ? nullptr : address(p.plus));
                break;
            }
            case Next::Kind::Call:
                calls_[n].kernel(frame.calls[n]);
        }
    }
}

void Plan::take_results(Frame& frame, const Tensor* inputs, Tensor* outputs) const {
    for (size_t k = 0; k < results_.size(); ++k) {
        const Result& r = results_[k];
        const Tensor& whole =
            r.made >= 0 ? frame.made[static_cast<size_t>(r.made)] : inputs[r.input];
        if (r.whole) {
            outputs[k] = whole;
            continue;
        }
        const Tensor& layout = segment_->layout(r.value);
        outputs[k] = Tensor::from_storage(whole.storage(), whole.bytes() + r.offset, layout.dtype(),
                                          layout.shape(), layout.strides());
    }
}

std::string Plan::text() const {
    std::ostringstream out;
    for (const PlanItem& item : items_) {
        out << (item.tiled ? "group" : "call");
        for (int32_t i : item.steps) {
            const Step& step = segment_->steps[static_cast<size_t>(i)];
            for (int32_t k = 0; k < step.outs; ++k) out << " %" << step.first_out + k;
            out << ' ' << step.op->name;
        }
        out << '\n';
    }
    return out.str();
}

}  // namespace weft::program
