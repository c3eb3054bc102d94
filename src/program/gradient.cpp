/// Reading guide: `prepare` decides what a run makes, `Run` is one; `trace_backward` makes the plan of a
/// node's turn, which is in compiled_node.cpp.
#include "program/gradient.h"

#include <algorithm>
#include <sstream>

#include "autograd/anomaly.h"
#include "autograd/meta.h"
#include "ops/scopes.h"
#include "program/compiled_node.h"
#include "program/local_array.h"
#include "program/step_call.h"
#include "program/trace.h"

namespace weft::program {

using Kind = SegmentValue::Kind;

DifferentiablePlan::DifferentiablePlan(Ref<Segment> segment, Plan::Options options)
    : segment_(std::move(segment)), options_(options), parts_(*segment_),
      backward_(parts_.all.size()) {
    for (const SegmentValue& v : segment_->values)
        if (v.kind == Kind::Constant && v.wants_grad) is_constant_ = false;
    for (const Parts::Event& e : parts_.events) gives_views_ |= e.kind != Parts::Event::Kind::Node;
}
DifferentiablePlan::~DifferentiablePlan() = default;

int64_t DifferentiablePlan::kept_bytes() const {
    int64_t sum = 0;
    for (size_t k = 0; forward_ && k < forward_->kept_pieces(); ++k)
        sum += forward_->kept_bytes(static_cast<int32_t>(k));
    return sum;
}

Plan& DifferentiablePlan::make_plain() {
    plain_ = Ref<Plan>(gives_views_ ? new Plan(segment_, options_, parts_.made, {})
                                    : new Plan(segment_, options_));
    return *plain_;
}

bool DifferentiablePlan::asks_as(const Tensor* inputs) const {
    if (!(mode & kGradMode)) return true;
    for (size_t i = 0; i < segment_->inputs.size(); ++i)
        if (requires_grad(inputs[i]) != segment_->value(segment_->inputs[i]).wants_grad)
            return false;
    return true;
}

/// A run's tensors are the inputs, what the plan gives, and views of those.
void DifferentiablePlan::number_handles() {
    if (!handles_.empty()) return;
    handles_.assign(segment_->values.size(), -1);
    for (int32_t v : segment_->inputs) handles_[static_cast<size_t>(v)] = handle_count_++;
    for (int32_t v : parts_.made) handles_[static_cast<size_t>(v)] = handle_count_++;
    for (const Parts::Event& e : parts_.events) {
        if (e.kind == Parts::Event::Kind::Detach)
            handles_[static_cast<size_t>(e.which)] = handle_count_++;
        if (e.kind != Parts::Event::Kind::View) continue;
        const Step& step = segment_->steps[static_cast<size_t>(e.which)];
        for (int32_t k = 0; k < step.outs; ++k)
            handles_[static_cast<size_t>(step.first_out + k)] = handle_count_++;
    }
    for (size_t v = 0; v < handles_.size(); ++v) {
        if (segment_->values[v].kind != Kind::Constant) continue;
        constants_.emplace_back(handles_[v] = handle_count_++, segment_->values[v].layout);
    }
}

void DifferentiablePlan::prepare() {
    number_handles();
    forward_ = Ref<Plan>(new Plan(segment_, options_, parts_.made, parts_.kept));
    for (size_t p = 0; p < parts_.all.size(); ++p)
        places_.push_back(places_of(static_cast<int32_t>(p)));
}

DifferentiablePlan::Places DifferentiablePlan::places_of(int32_t number) const {
    const SegmentPart& part = parts_.all[static_cast<size_t>(number)];
    auto output_of = [&](int32_t from, int32_t v) {
        const auto& outputs = parts_.all[static_cast<size_t>(from)].outputs;
        const auto k = std::find(outputs.begin(), outputs.end(), v);
        return k == outputs.end() ? -1 : static_cast<int32_t>(k - outputs.begin());
    };
    Places places;
    places.infos.reset(new ResultInfo[part.outputs.size()]);
    for (size_t k = 0; k < part.outputs.size(); ++k) {
        const int32_t v = part.outputs[k];
        places.infos[k].set(segment_->layout(v));
        const bool is_tensor = segment_->value(v).kind == Kind::Result;
        places.outputs.push_back(is_tensor ? handles_[static_cast<size_t>(v)] : -1);
    }
    for (int32_t v : part.edges) {
        const int32_t from = parts_.part_of[static_cast<size_t>(v)];
        if (parts_.is_held[static_cast<size_t>(v)])
            places.edges.push_back({handles_[static_cast<size_t>(v)], -1, -1});
        else places.edges.push_back({-1, from, output_of(from, v)});
    }
    for (int32_t v : part.saved)
        places.saved.push_back({handles_[static_cast<size_t>(v)], output_of(number, v)});
    for (int32_t i : part.steps)
        places.reads.push_back(saves_of(*segment_, segment_->steps[static_cast<size_t>(i)]) != 0);
    for (int32_t v : part.outputs) {
        const std::vector<uint8_t>& edges = places.leads.emplace_back(edges_from(number, v));
        places.parted |= std::find(edges.begin(), edges.end(), 0) != edges.end();
    }
    return places;
}

std::vector<uint8_t> DifferentiablePlan::edges_from(int32_t number, int32_t value) const {
    const SegmentPart& part = parts_.all[static_cast<size_t>(number)];
    std::vector<uint8_t> leads(part.edges.size()), is_used(segment_->values.size());
    is_used[static_cast<size_t>(value)] = 1;
    for (size_t i = part.steps.size(); i-- > 0;) {
        const Step& step = segment_->steps[static_cast<size_t>(part.steps[i])];
        bool used = false;
        for (int32_t k = 0; k < step.outs; ++k)
            used |= is_used[static_cast<size_t>(step.first_out + k)];
        if (!used) continue;
        for (int k = 0; k < step.operands; ++k) {
            const int32_t v = segment_->operand(step, k);
            if (v < 0 || !segment_->value(v).wants_grad || !step.op->differentiable(k)) continue;
            const auto edge = std::find(part.edges.begin(), part.edges.end(), v);
            if (edge != part.edges.end()) leads[static_cast<size_t>(edge - part.edges.begin())] = 1;
            else is_used[static_cast<size_t>(v)] = 1;
        }
    }
    return leads;
}

bool DifferentiablePlan::covers(int32_t part, const std::vector<uint8_t>& steps) const {
    const std::vector<uint8_t>& reads = places_[static_cast<size_t>(part)].reads;
    for (size_t i = 0; i < reads.size(); ++i)
        if (reads[i] && !steps[i]) return false;
    return true;
}

/// One run: its tensors, and the nodes so far.
class DifferentiablePlan::Run {
public:
    /// `recorded`: with the nodes.
    Run(DifferentiablePlan& plan, const Tensor* inputs, bool recorded)
        : plan_(plan), segment_(*plan.segment_), tensors_(static_cast<size_t>(plan.handle_count_)),
          nodes_(plan.parts_.all.size()), kept_(recorded ? plan.forward_->kept_pieces() : 0) {
        const size_t count = segment_.inputs.size();
        std::copy_n(inputs, count, tensors_.data());
        if (recorded) plan.forward_->run(inputs, tensors_.data() + count, kept_.data());
        else plan.plain().run(inputs, tensors_.data() + count);
        for (const auto& [handle, t] : plan.constants_) tensors_[static_cast<size_t>(handle)] = t;
        for (const Parts::Event& e : plan.parts_.events) {
            if (e.kind == Parts::Event::Kind::Node) {
                if (recorded) make_node(e.which);
            } else if (e.kind == Parts::Event::Kind::View) {
                make_views(e.which);
            } else {
                tensor(e.which) = detach(tensor(segment_.value(e.which).of));
            }
        }
    }
    void give(Tensor* outputs) {
        for (size_t k = 0; k < segment_.outputs.size(); ++k)
            outputs[k] = tensor(segment_.outputs[k]);
    }

private:
    Tensor& tensor(int32_t v) {
        return tensors_[static_cast<size_t>(plan_.handles_[static_cast<size_t>(v)])];
    }
    void make_views(int32_t number) {
        const Step& step = segment_.steps[static_cast<size_t>(number)];
        const ModeGuard plain(0, kDeferMode | kMapMode);
        auto of = [&](int32_t v) -> Tensor& { return tensor(v); };
        call_step(segment_, step, of, of);
    }
    void make_node(int32_t number) {
        const Places& places = plan_.places_[static_cast<size_t>(number)];
        Ref<CompiledNode> node = CompiledNode::make(Ref<DifferentiablePlan>(&plan_), number);
        for (size_t e = 0; e < places.edges.size(); ++e) {
            const Places::End& to = places.edges[e];
            node->edge_place(static_cast<int>(e)) =
                to.handle >= 0
                    ? gradient_edge(tensors_[static_cast<size_t>(to.handle)])
                    : Edge{nodes_[static_cast<size_t>(to.part)], static_cast<uint32_t>(to.output)};
        }
        for (const Places::Saved& s : places.saved)
            node->save(tensors_[static_cast<size_t>(s.handle)], s.output >= 0);
        for (int32_t v : plan_.parts_.all[static_cast<size_t>(number)].bases)
            node->save_base(tensor(v));
        if (plan_.parts_.all[static_cast<size_t>(number)].keeps) node->keep(kept_.data());
        for (size_t k = 0; k < places.outputs.size(); ++k)
            if (places.outputs[k] >= 0)
                set_history(tensors_[static_cast<size_t>(places.outputs[k])], node,
                            static_cast<uint32_t>(k));
        nodes_[static_cast<size_t>(number)] = std::move(node);
    }

    DifferentiablePlan& plan_;
    const Segment& segment_;
    LocalArray<Tensor> tensors_;
    LocalArray<Ref<Node>, 4> nodes_;
    LocalArray<Tensor, 4> kept_;
};

void DifferentiablePlan::run(const Tensor* inputs, Tensor* outputs) {
    const Ref<DifferentiablePlan> alive(this);
    const bool records = mode & kGradMode;
    bool tracked = records && !is_constant_;
    for (size_t i = 0; records && !tracked && i < segment_->inputs.size(); ++i)
        tracked = segment_->value(segment_->inputs[i]).wants_grad && requires_grad(inputs[i]);
    if (!tracked) {
        if (!gives_views_) return plain().run(inputs, outputs);
        number_handles();
        return Run(*this, inputs, false).give(outputs);
    }
    if (anomaly::on || ops::scopes.pack_hooks) [[unlikely]]
        return run_calls(inputs, outputs);
    if (!forward_) prepare();
    Run(*this, inputs, true).give(outputs);
}

/// For who wants to hear of each node, or of each tensor that one saves.
void DifferentiablePlan::run_calls(const Tensor* inputs, Tensor* outputs, Site* failed) {
    const Segment& s = *segment_;
    std::vector<Tensor> tensors(s.values.size());
    for (size_t v = 0; v < s.values.size(); ++v) {
        const SegmentValue& value = s.values[v];
        if (value.kind == Kind::Input) tensors[v] = inputs[value.of];
        if (value.kind == Kind::Constant) tensors[v] = value.layout;
    }
    auto in = [&](int32_t v) {
        const SegmentValue& value = s.value(v);
        Tensor& t = tensors[static_cast<size_t>(v)];
        if (!t.defined()) t = detach(tensors[static_cast<size_t>(value.of)]);
        return t;
    };
    const ModeGuard plain(0, kDeferMode | kMapMode | kTraceMode);
    for (const Step& step : s.steps) {
        const Site::Instead line(step.site);
        try {
            call_step(s, step, in,
                      [&](int32_t v) -> Tensor& { return tensors[static_cast<size_t>(v)]; });
        } catch (...) {
            if (failed) *failed = step.site.copy();
            throw;
        }
    }
    for (size_t k = 0; k < s.outputs.size(); ++k) outputs[k] = in(s.outputs[k]);
}

// ---- backward

namespace {

constexpr uint32_t kAutocast = kAutocastMode | kAutocastHalfMode;

/// Writes the rules' calls down.
class TracedRules final : public RuleRun {
public:
    TracedRules(const Segment& segment, const Parts& parts, int32_t part, const uint8_t* wanted,
                const Plan& forward, Tracer& tracer)
        : RuleRun(segment, parts, part, wanted), forward_(forward), tracer_(tracer) {}

    std::vector<int32_t> reads;  ///< as in BackwardPlan

protected:
    Tensor saved(int32_t v) override {
        const auto [root, offset] = segment_.place_of(v);
        const auto& saved = parts_.all[static_cast<size_t>(part_)].saved;
        const auto found = std::find(saved.begin(), saved.end(), root);
        if (found != saved.end()) {
            const auto i = static_cast<int32_t>(found - saved.begin());
            const Tensor whole = input(i, segment_.layout(root));
            return v == root ? whole : tracer_.part_of(whole, offset, segment_.layout(v));
        }
        if (parts_.is_remade[static_cast<size_t>(root)]) {
            const Tensor whole = remade(root);
            return v == root ? whole : tracer_.part_of(whole, offset, segment_.layout(v));
        }
        const auto [piece, begin] = forward_.kept_at(root);
        const Dims bytes{forward_.kept_bytes(piece)};
        const Tensor kept = input(~piece, Tensor::layout(DType::UInt8, bytes));
        return tracer_.part_of(kept, begin + offset, segment_.layout(v));
    }
    Tensor place(int32_t) override { return {}; }  // no gradients of gradients here
    /// Factors of many rows would only hold memory until the plan's end.
    bool hands_over_product(int64_t rows) const override { return rows < 256; }

private:
    Tensor input(int32_t place, const Tensor& like) {
        for (size_t i = 0; i < reads.size(); ++i)
            if (reads[i] == place) return inputs_[i];
        reads.push_back(place);
        return inputs_.emplace_back(tracer_.input(like));
    }
    const Plan& forward_;
    Tracer& tracer_;
    std::vector<Tensor> inputs_;
};

}  // namespace

std::unique_ptr<BackwardPlan> DifferentiablePlan::trace_backward(int32_t part,
                                                                 std::span<const int32_t> given,
                                                                 const Tensor* grads,
                                                                 std::span<const uint8_t> wanted) {
    auto made = std::make_unique<BackwardPlan>();
    made->given.assign(given.begin(), given.end());
    made->wanted.assign(wanted.begin(), wanted.end());
    made->autocast = mode & kAutocast;
    for (size_t i = 0; i < given.size(); ++i)
        made->layouts.push_back(Tensor::layout_like(grads[i], grads[i].dtype()));
    Ref<Tracer> tracer(new Tracer);
    TracedRules rules(*segment_, parts_, part, wanted.data(), *forward_, *tracer);
    std::vector<Tensor> results;
    auto source = [&](const Tensor& t) {
        if (!t.defined() || !is_traced(t)) return BackwardPlan::Source{-1, t};
        results.push_back(t);
        return BackwardPlan::Source{static_cast<int32_t>(results.size() - 1), {}};
    };
    try {
        const ModeGuard plain(0, kGradMode | kDeferMode | kMapMode | kWatchMode);
        const Tracer::Scope scope(*tracer);
        for (size_t i = 0; i < given.size(); ++i) rules.give(given[i], tracer->input(grads[i]));
        rules.run();
    } catch (const Error&) {
        return made;  // call by call it says so again, if it is to be said
    }
    for (size_t e = 0; e < rules.sums.size(); ++e)
        if (Tensor sum = rules.sums[e].take(); sum.defined())
            made->sums.push_back({static_cast<int>(e), source(sum)});
    for (const weft::Product& p : rules.summands.products) {
        BackwardPlan::Source a = source(p.a), b = source(p.b);
        made->products.push_back({p.edge, std::move(a), std::move(b)});
    }
    for (const weft::Part& p : rules.summands.parts) {
        BackwardPlan::Source grad = source(p.grad), where = source(p.where);
        made->pieces.push_back(
            {p.edge, std::move(grad), std::move(where), p.add, p.attrs, p.input});
    }
    made->reads = std::move(rules.reads);
    made->ran = std::move(rules.ran);
    made->plan = Ref<Plan>(new Plan(tracer->finish(results), options_));
    return made;
}

bool BackwardPlan::is_for(std::span<const int32_t> values, const Tensor* grads,
                          std::span<const uint8_t> edges) const {
    if (!std::equal(values.begin(), values.end(), given.begin(), given.end()) ||
        !std::equal(edges.begin(), edges.end(), wanted.begin()) || (mode & kAutocast) != autocast)
        return false;
    for (size_t i = 0; i < layouts.size(); ++i)
        if (!equal(grads[i].strides(), layouts[i].strides()) || grads[i].has(kWrapped))
            return false;
    return true;
}

const BackwardPlan* DifferentiablePlan::find_backward(int32_t part, std::span<const int32_t> given,
                                                      const Tensor* grads,
                                                      std::span<const uint8_t> wanted) {
    constexpr size_t kMost = 32;
    auto& known = backward_[static_cast<size_t>(part)];
    for (const auto& b : known)
        if (b->is_for(given, grads, wanted)) return b.get();
    if (known.size() >= kMost) return nullptr;
    std::unique_ptr<BackwardPlan> made = trace_backward(part, given, grads, wanted);
    return known.emplace_back(std::move(made)).get();
}

std::string DifferentiablePlan::text() const {
    std::ostringstream out;
    if (forward_) out << forward_->text();
    for (size_t p = 0; p < backward_.size(); ++p)
        for (const auto& b : backward_[p]) {
            out << "backward of part " << p << '\n';
            if (b->plan) out << b->plan->text();
        }
    return out.str();
}

}  // namespace weft::program
