#include "program/compiled_node.h"

#include <algorithm>
#include <memory>
#include <new>

#include "autograd/meta.h"
#include "base/pool.h"
#include "ops/functions.h"
#include "program/local_array.h"
#include "program/step_call.h"

namespace weft::program {

Ref<CompiledNode> CompiledNode::make(Ref<DifferentiablePlan> plan, int32_t part) {
    const SegmentPart& of = plan->parts_.all[static_cast<size_t>(part)];
    const size_t edges = of.edges.size(), saved = of.saved.size();
    const size_t pieces = of.keeps ? plan->kept_pieces() : 0;
    const size_t size = sizeof(CompiledNode) + edges * sizeof(Edge) + saved * sizeof(SavedTensor) +
                        pieces * sizeof(Tensor) + of.bases.size() * sizeof(ops::Snapshot);
    auto* node = new (Pool::allocate(size)) CompiledNode(std::move(plan), part);
    node->size_ = static_cast<uint32_t>(size);
    node->edges_ = reinterpret_cast<Edge*>(node + 1);
    std::uninitialized_default_construct_n(node->edges_, edges);
    node->edge_count_ = static_cast<int>(edges);
    node->saved_ = reinterpret_cast<SavedTensor*>(node->edges_ + edges);
    node->kept_ = reinterpret_cast<Tensor*>(node->saved_ + saved);
    node->kept_count_ = static_cast<int32_t>(pieces);
    std::uninitialized_default_construct_n(node->kept_, pieces);
    node->bases_ = reinterpret_cast<ops::Snapshot*>(node->kept_ + pieces);
    node->results_ = node->plan_->places_[static_cast<size_t>(part)].infos.get();
    node->output_count_ = static_cast<int>(of.outputs.size());
    node->site = Site::here();
    return Ref<CompiledNode>(node);
}

void CompiledNode::deallocate() {
    std::destroy_n(edges_, edge_count_);
    std::destroy_n(saved_, saved_count_);
    std::destroy_n(kept_, kept_count_);
    std::destroy_n(bases_, base_count_);
    const size_t size = size_;
    this->~CompiledNode();
    Pool::free(this, size);
}

std::string CompiledNode::name_of(int k) const {
    const Segment& s = segment();
    const int32_t v = part().outputs[static_cast<size_t>(k)];
    const Step& step = s.steps[static_cast<size_t>(s.value(v).step)];
    if (!step.op->backward_name) return step.op->node_name_of(v - step.first_out);
    return step.op->backward_name(StepOnLayouts(s, step).call);
}

bool CompiledNode::shows_output(int k) const {
    return plan_->parts_.is_held[static_cast<size_t>(part().outputs[static_cast<size_t>(k)])];
}

void CompiledNode::visit_kept(FunctionRef<void(const Tensor&)> see) const {
    for (int i = 0; i < saved_count_; ++i)
        if (saved_[i].kept().defined()) see(saved_[i].kept());
    for (int i = 0; i < kept_count_; ++i)
        if (kept_[i].defined()) see(kept_[i]);
}

Tensor CompiledNode::unpack(size_t i, const std::vector<Tensor>* grads) const {
    const int output = plan_->places_[static_cast<size_t>(part_)].saved[i].output;
    return saved_[i].unpack(const_cast<CompiledNode*>(this), output, grads);
}

bool CompiledNode::leads(int k, int i) const {
    const auto& leads = plan_->places_[static_cast<size_t>(part_)].leads;
    return leads[static_cast<size_t>(k)][static_cast<size_t>(i)];
}

// ---- release: as single nodes, of which a pass releases those that it runs

void CompiledNode::check_unreleased(const std::vector<uint8_t>& ran) const {
    if (!released_ && released_steps_.empty()) [[likely]]
        return;
    for (size_t i = 0; i < ran.size(); ++i)
        if (ran[i] && (released_ || released_steps_[i])) fail_released(*this);
}

void CompiledNode::release_saved() {
    const std::vector<uint8_t>& ran = last_ ? last_->ran : ran_;
    if (released_ || ran.empty()) return;
    if (!released_steps_.empty() || !plan_->covers(part_, ran)) {
        released_steps_.resize(ran.size());
        for (size_t i = 0; i < ran.size(); ++i) released_steps_[i] |= ran[i];
        if (!plan_->covers(part_, released_steps_)) return;
    }
    for (int i = 0; i < saved_count_; ++i) saved_[i].reset();
    std::fill_n(kept_, kept_count_, Tensor());
    std::fill_n(bases_, base_count_, ops::Snapshot());
    // numbers are saved too, though nothing is kept of them
    const std::vector<uint8_t>& reads = plan_->places_[static_cast<size_t>(part_)].reads;
    released_ = std::find(reads.begin(), reads.end(), 1) != reads.end();
}

// ---- a turn in a pass

namespace {

/// What the node does from the gradient of a value in its middle.
class InnerNode final : public LooseNode {
public:
    explicit InnerNode(Ref<CompiledNode> of) : of_(std::move(of)) {
        std::vector<Edge> edges;
        for (int e = 0; e < of_->edge_count(); ++e) edges.push_back(of_->edge(e));
        set_edges(std::move(edges));
        const Segment& s = of_->segment();
        std::vector<Tensor> like(s.values.size());
        for (size_t v = 0; v < like.size(); ++v)
            if (of_->plan().parts().part_of[v] == of_->part_number()) like[v] = s.values[v].layout;
        set_results(like);
        site = of_->site.copy();
        of_->may_run_twice();
    }
    std::string name() const override { return of_->name(); }
    void run(Work& work) override {
        std::vector<int32_t> values;
        std::vector<Tensor> grads;
        for (size_t v = 0; v < work.grads.size(); ++v) {
            if (!work.grads[v].defined()) continue;
            values.push_back(static_cast<int32_t>(v));
            grads.push_back(work.grads[v]);
        }
        of_->run_from(values, grads.data(), work);
    }
    void release_saved() override { of_->release_saved(); }
    bool runs_twice() const override { return true; }
    void visit_kept(FunctionRef<void(const Tensor&)> see) const override { of_->visit_kept(see); }
    bool is_several() const override { return true; }
    bool leads(int k, int i) const override {
        return of_->plan().edges_from(of_->part_number(), k)[static_cast<size_t>(i)];
    }

private:
    Ref<CompiledNode> of_;
};

/// Runs the rules on what the node saved, call by call.
class CalledRules final : public RuleRun {
public:
    CalledRules(CompiledNode& node, const uint8_t* wanted, bool hands_over)
        : RuleRun(node.segment(), node.plan().parts(), node.part_number(), wanted), node_(node),
          hands_over_(hands_over) {}

protected:
    Tensor saved(int32_t v) override {
        node_.check_unreleased(ran);
        const auto [root, offset] = segment_.place_of(v);
        const auto& saved = node_.part().saved;
        const auto found = std::find(saved.begin(), saved.end(), root);
        const bool is_inner = found == saved.end();
        const bool is_kept = is_inner && !parts_.is_remade[static_cast<size_t>(root)];
        const Plan::KeptAt at = is_kept ? node_.plan().kept_at(root) : Plan::KeptAt{0, 0};
        const auto number = static_cast<size_t>(found - saved.begin());
        const Tensor whole = is_kept    ? node_.kept(at.piece)
                             : is_inner ? remade(root)
                                        : node_.unpack(number, asks_);
        if (!is_inner && v == root) {
            check_attached(whole, v);
            return whole;
        }
        const Tensor& like = segment_.layout(v);
        const int64_t begin = offset + at.offset;
        Tensor out = Tensor::from_storage(whole.storage(), whole.bytes() + begin, like.dtype(),
                                          like.shape(), like.strides());
        if (mode & kGradMode) tie(out, v);
        return out;
    }
    Tensor base(int32_t v) override {
        const auto [root, offset] = segment_.place_of(v);
        const auto& bases = node_.part().bases;
        const auto found = std::find(bases.begin(), bases.end(), root);
        if (found == bases.end()) return saved(v);
        const auto number = static_cast<size_t>(found - bases.begin());
        const Tensor t = node_.base(number).show(offset, segment_.layout(v));
        return t.defined() ? t : saved(v);  // lost, so that it raises
    }
    Tensor place(int32_t v) override {
        const Tensor& like = segment_.layout(v);
        Tensor out = Tensor::layout(like.dtype(), like.shape());
        tie(out, v);
        return out;
    }
    bool hands_over() const override { return hands_over_; }
    void add_product(GradBuffer& to, const Tensor& a, const Tensor& b) override {
        to.add_product(a, b);
    }

private:
    /// Gives `t` the place of `v` in the graph.
    void tie(const Tensor& t, int32_t v) {
        if (!segment_.value(v).wants_grad) return;
        if (const int32_t e = edge_of(v); e >= 0) {
            if (const Edge& edge = node_.edge(e)) set_history(t, edge.node, edge.output);
        } else if (parts_.part_of[static_cast<size_t>(v)] == part_) {
            if (!inner_) inner_ = Ref<Node>(new InnerNode(Ref<CompiledNode>(&node_)));
            set_history(t, inner_, static_cast<uint32_t>(v));
        }
    }
    void check_attached(const Tensor& t, int32_t v) const {
        const int32_t e = edge_of(v);
        if (!(mode & kGradMode) || e < 0) return;
        const Edge& edge = node_.edge(e);
        if (edge && edge.node->edge_count() > 0 && is_leaf(t)) fail_detached(node_);
    }

    CompiledNode& node_;
    const bool hands_over_;
    Ref<Node> inner_;
};

}  // namespace

void CompiledNode::run(Work& work) {
    const std::vector<int32_t>& outputs = part().outputs;
    LocalArray<int32_t, 8> values(outputs.size());
    LocalArray<Tensor, 8> grads(outputs.size());
    size_t n = 0;
    for (size_t k = 0; k < outputs.size(); ++k) {
        if (!work.grads[k].defined()) continue;
        values[n] = outputs[k];
        grads[n++] = std::move(work.grads[k]);
    }
    run_from({values.data(), n}, grads.data(), work);
}

void CompiledNode::run_from(std::span<const int32_t> values, Tensor* grads, Work& work) {
    work.parted |= plan_->places_[static_cast<size_t>(part_)].parted;
    LocalArray<uint8_t, 32> wanted(static_cast<size_t>(edge_count_));
    for (int e = 0; e < edge_count_; ++e)
        wanted[static_cast<size_t>(e)] = edges_[e] && work.wanted(e);
    const std::span<const uint8_t> edges(wanted.data(), wanted.size());
    bool by_calls = (mode & (kGradMode | kMapMode | kTraceMode | kWatchMode | kDispatchMode)) != 0;
    for (size_t i = 0; i < values.size(); ++i) by_calls |= grads[i].has(kPending);
    const BackwardPlan* backward =
        by_calls ? nullptr : plan_->find_backward(part_, values, grads, edges);
    if (backward && backward->plan) run_plan(*backward, grads, work);
    else run_rules(values, grads, edges, work);
}

void CompiledNode::run_plan(const BackwardPlan& backward, Tensor* grads, Work& work) {
    check_unreleased(backward.ran);
    last_ = &backward;
    const size_t given = backward.given.size();
    LocalArray<Tensor> inputs(given + backward.reads.size());
    for (int i = 0; i < base_count_; ++i)
        if (bases_[i].is_written()) [[unlikely]]
            return run_rules(backward.given, grads, backward.wanted, work);
    std::move(grads, grads + given, inputs.data());
    for (size_t i = 0; i < backward.reads.size(); ++i) {
        const int32_t from = backward.reads[i];
        const auto number = static_cast<size_t>(from);
        if (from >= 0 && saved_[number].is_written()) [[unlikely]]  // it may matter to no step
            return run_rules(backward.given, inputs.data(), backward.wanted, work);
        inputs[given + i] = from < 0 ? kept_[~from] : unpack(number);
    }
    if (!backward.plan->fits(inputs.data(), inputs.size())) [[unlikely]]  // t_() since
        return run_rules(backward.given, inputs.data(), backward.wanted, work);
    LocalArray<Tensor> made(backward.plan->segment().outputs.size());
    if (work.last) {
        release_saved();
        backward.plan->run_last(inputs.data(), made.data());
    } else {
        backward.plan->run(inputs.data(), made.data());
    }
    auto get = [&](const BackwardPlan::Source& from) {
        return from.result < 0 ? ops::clone(from.constant) : made[static_cast<size_t>(from.result)];
    };
    auto part = [&](const BackwardPlan::Piece& p) {
        const Tensor where = p.where.result < 0 ? p.where.constant : get(p.where);
        return weft::Part{p.edge, get(p.grad), where, p.add, p.attrs, p.input};
    };
    for (const BackwardPlan::Sum& s : backward.sums)
        work.results[static_cast<size_t>(s.edge)] = get(s.value);
    if (work.summands) {
        for (const BackwardPlan::Product& p : backward.products)
            work.summands->products.push_back({p.edge, get(p.a), get(p.b)});
        for (const BackwardPlan::Piece& p : backward.pieces)
            work.summands->parts.push_back(part(p));
        return;
    }
    auto add = [&](int e, auto&& to) {
        GradBuffer sum;
        sum.add(std::move(work.results[static_cast<size_t>(e)]));
        to(sum);
        work.results[static_cast<size_t>(e)] = sum.take();
    };
    for (const BackwardPlan::Product& p : backward.products)
        add(p.edge, [&](GradBuffer& sum) {
            sum.add(ops::matmul(ops::transpose(get(p.a), 0, 1), get(p.b)));
        });
    for (const BackwardPlan::Piece& p : backward.pieces)
        add(p.edge, [&](GradBuffer& sum) {
            const Edge& to = edges_[p.edge];
            sum.add_part(to.node->result(static_cast<int>(to.output)), part(p));
        });
}

void CompiledNode::run_rules(std::span<const int32_t> values, const Tensor* grads,
                             std::span<const uint8_t> wanted, Work& work) {
    plan_->rules_run_ += (mode & kGradMode) != 0;
    CalledRules rules(*this, wanted.data(), work.summands != nullptr);
    for (size_t i = 0; i < values.size(); ++i) rules.give(values[i], grads[i]);
    rules.run();
    check_unreleased(rules.ran);
    last_ = nullptr;
    ran_ = std::move(rules.ran);
    for (int e = 0; e < edge_count_; ++e)
        work.results[static_cast<size_t>(e)] = rules.sums[static_cast<size_t>(e)].take();
    if (!work.summands) return;
    for (weft::Product& p : rules.summands.products)
        work.summands->products.push_back(std::move(p));
    for (weft::Part& p : rules.summands.parts) work.summands->parts.push_back(std::move(p));
}

}  // namespace weft::program
