/// Reading guide: `Plan::Frame` is what a run works in; `Plan::run` is short.
#include <sstream>

#include "ops/call.h"
#include "ops/write.h"
#include "program/plan.h"

namespace weft::program {

// ---- a frame

/// From so many bytes on the arena is not kept between runs: the allocator has others who want them.
constexpr int64_t kKeptArena = int64_t{1} << 20;

struct Plan::Frame {
    std::vector<char*> table;
    std::vector<Tensor> tensors;  ///< what kernels are given, by value
    std::vector<Tensor> in;
    std::vector<Call> calls;
    std::vector<Tensor> made;
    std::vector<Tensor> large;  ///< those that live only within the run, while they do
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
    frame->large.resize(large_.size());
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
    place(frame, placed_, frame.memory, frame.arena->data);
}

/// Each value has a storage of its own: kernels tell by it whether two lie in one memory.
void Plan::place(Frame& frame, const std::vector<Placed>& all, std::vector<Ref<Storage>>& memory,
                 char* begin) const {
    for (size_t i = 0; i < all.size(); ++i) {
        const Placed& p = all[i];
        char* const at = begin + p.offset;
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

void Plan::let_go(Frame& frame, const Bound& bound) const {
    for (int32_t k = bound.first_fix; k < bound.first_fix + bound.fixes; ++k)
        frame.tensors[static_cast<size_t>(fixes_[static_cast<size_t>(k)].value)].lie_in(nullptr,
                                                                                        nullptr);
}

/// The frame holds nobody's memory any more.
inline void Plan::let_go(Frame& frame) const {
    if (has_fixes_) {
        for (const Bound& b : inputs_) let_go(frame, b);
        for (const Bound& b : made_) let_go(frame, b);
    }
    for (Tensor& t : frame.made) t = Tensor();
    if (arena_bytes_ > kKeptArena) frame.arena = nullptr;
}

// ---- running

Plan::Plan(Ref<Segment> segment, Options options) : Plan(segment, options, segment->outputs, {}) {}
Plan::Plan(Ref<Segment> segment, Options options, std::vector<int32_t> results,
           std::vector<int32_t> kept)
    : segment_(std::move(segment)), wanted_(std::move(results)) {
    build(options, kept);
}
Plan::~Plan() = default;

Plan::KeptAt Plan::kept_at(int32_t value) const {
    for (const Placed& p : kept_)
        if (p.value == value) return {shared_piece_, p.offset};
    for (const Large& l : large_)
        if (l.bound.value == value) return {l.piece, 0};
    return {-1, 0};
}

bool Plan::fits(const Tensor* inputs, size_t count) const {
    return segment_->inputs_fit(inputs, count);
}

void Plan::run(const Tensor* inputs, Tensor* outputs, Tensor* kept, Tensor* dropped) {
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
        Tensor& piece = kept[shared_piece_];
        piece = Tensor::empty(DType::UInt8, Dims{kept_bytes(shared_piece_)});
        place(*frame, kept_, frame->kept, piece.bytes());
    }
    for (size_t m = 0; m < made_.size(); ++m) {
        if (made_[m].is_large) continue;
        const Tensor& layout = segment_->layout(made_[m].value);
        Tensor made = Tensor::layout_like(layout, layout.dtype());
        made.allocate();
        make_result(*frame, m, std::move(made));
    }
    run_items(*frame, kept, dropped);
    take_results(*frame, inputs, outputs);
    let_go(*frame);
    idle_.push_back(std::move(frame));
}

inline void Plan::make_result(Frame& frame, size_t number, Tensor made) const {
    made.set(kInference, mode & kInferenceMode);
    for (uint32_t k = segment_->value(made_[number].value).writes; k > 0; --k) {
        ops::Write write(made);  // Note [Writes] in trace.h
        write.commit();
    }
    bind(frame, made_[number], made);
    frame.made[number] = std::move(made);
}

/// The memory of a large value.
void Plan::take_memory(Frame& frame, size_t number, Tensor* kept) const {
    const Large& l = large_[number];
    const Tensor& layout = segment_->layout(l.bound.value);
    Tensor t = l.piece >= 0 ? Tensor::layout(DType::UInt8, Dims{kept_bytes(l.piece)})
                            : Tensor::layout_like(layout, layout.dtype());
    if (l.over < 0) {
        t.allocate();
    } else {
        const Tensor& over = frame.large[static_cast<size_t>(l.over)];
        t.lie_in(over.storage(), over.bytes());
    }
    if (l.made >= 0) return make_result(frame, static_cast<size_t>(l.made), std::move(t));
    bind(frame, l.bound, t);
    (l.piece >= 0 ? kept[l.piece] : frame.large[number]) = std::move(t);
}

void Plan::take_turn(Frame& frame, const Turn& turn, Tensor* kept, Tensor* dropped) const {
    const auto number = static_cast<size_t>(turn.number);
    switch (turn.kind) {
        case Turn::Kind::Take:
            return take_memory(frame, number, kept);
        case Turn::Kind::GiveBack:
            let_go(frame, large_[number].bound);
            frame.large[number] = Tensor();
            return;
        case Turn::Kind::Drop:
            if (!dropped) return;
            let_go(frame, inputs_[number]);
            dropped[inputs_[number].source] = Tensor();
    }
}

inline void Plan::run_item(Frame& frame, const Next& next) const {
    char* const* const table = frame.table.data();
    auto address = [&](const Place& p) { return table[p.slot] + p.offset; };
    const auto n = static_cast<size_t>(next.number);
    switch (next.kind) {
        case Next::Kind::Group:
            groups_[n].run(table);
            break;
        case Next::Kind::Product: {
            const PreparedProduct& p = products_[n];
            if (p.row.kernel) {
                p.row.kernel(p.row, address(p.out), address(p.a), address(p.b),
                             address(p.added.slot < 0 ? p.out : p.added));
                break;
            }
            p.product.run(address(p.out), address(p.a), address(p.b),
                          p.added.slot < 0 ? nullptr : address(p.added),
                          p.plus.slot < 0 ? nullptr : address(p.plus));
            break;
        }
        case Next::Kind::Call:
            calls_[n].kernel(frame.calls[n]);
    }
}

void Plan::run_items(Frame& frame, Tensor* kept, Tensor* dropped) const {
    if (turns_.empty()) {
        for (const Next& next : order_) run_item(frame, next);
        return;
    }
    auto turn = turns_.begin();
    auto take_turns = [&](size_t when) {
        for (; turn != turns_.end() && turn->when == static_cast<int32_t>(when); ++turn)
            take_turn(frame, *turn, kept, dropped);
    };
    for (size_t i = 0; i < order_.size(); ++i) {
        take_turns(2 * i);
        run_item(frame, order_[i]);
        take_turns(2 * i + 1);
    }
}

inline void Plan::take_results(Frame& frame, const Tensor* inputs, Tensor* outputs) const {
    for (size_t k = 0; k < results_.size(); ++k) {
        const Result& r = results_[k];
        const Tensor& whole =
            r.made >= 0 ? frame.made[static_cast<size_t>(r.made)] : inputs[r.input];
        if (r.whole) {
            outputs[k] = whole;
            continue;
        }
        const Tensor& layout = segment_->layout(r.value);
        outputs[k] = Tensor::layout_like(layout, layout.dtype());
        outputs[k].lie_in(whole.storage(), whole.bytes() + r.offset);
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
