/// The node that stands for a part of a segment (Note [Compiled nodes]).
#pragma once
#include "autograd/saved.h"
#include "ops/snapshot.h"
#include "program/gradient.h"
#include "program/rules.h"

namespace weft::program {

/// Rules as a plan: for gradients of these values, laid out so, and these edges.
struct BackwardPlan {
    /// One of the plan's results, or, without any, what is always the same.
    struct Source {
        int32_t result = -1;
        Tensor constant;
    };
    struct Sum {
        int edge;
        Source value;
    };
    struct Product {
        int edge;
        Source a, b;
    };
    struct Piece {
        int edge;
        Source grad, where;
        PartRule add;
        const Value* attrs;
        int input;
    };
    bool is_for(std::span<const int32_t> values, const Tensor* grads,
                std::span<const uint8_t> edges) const;

    std::vector<int32_t> given;
    std::vector<Tensor> layouts;
    std::vector<uint8_t> wanted;
    uint32_t autocast = 0;  ///< bits of the mode
    Ref<Plan> plan;         ///< null: rules run call by call
    /// What it reads behind the gradients, by places among what is saved; ~k: piece k of what is kept.
    std::vector<int32_t> reads;
    std::vector<Sum> sums;
    std::vector<Product> products;
    std::vector<Piece> pieces;
    std::vector<uint8_t> ran;  ///< as in RuleRun
};

class CompiledNode final : public Node {
public:
    static Ref<CompiledNode> make(Ref<DifferentiablePlan> plan, int32_t part);
    /// To be filled in at once by its maker.
    Edge& edge_place(int i) { return edges_[i]; }
    void save(const Tensor& t, bool is_output) {
        new (saved_ + saved_count_) SavedTensor(t, is_output);
        ++saved_count_;  // a tensor that must not be saved throws
    }
    /// As it is now, however it is written.
    void save_base(const Tensor& t) { new (bases_ + base_count_++) ops::Snapshot(t); }
    /// The pieces of what a run keeps.
    void keep(const Tensor* pieces) { std::copy_n(pieces, kept_count_, kept_); }

    std::string name() const override { return "CompiledBackward0"; }
    /// As the node of the call that made it.
    std::string name_of(int k) const override;
    void run(Work& work) override;
    /// The same from gradients of any values of the part.
    void run_from(std::span<const int32_t> values, Tensor* grads, Work& work);
    void release_saved() override;
    void visit_kept(FunctionRef<void(const Tensor&)> see) const override;
    bool runs_twice() const override { return twice_; }
    void may_run_twice() override { twice_ = true; }
    bool shows_output(int k) const override;
    bool is_several() const override { return true; }
    bool leads(int k, int i) const override;

    const SegmentPart& part() const { return plan_->parts_.all[static_cast<size_t>(part_)]; }
    const Segment& segment() const { return *plan_->segment_; }
    int32_t part_number() const { return part_; }
    const DifferentiablePlan& plan() const { return *plan_; }
    /// Throws Runtime if what one of these steps reads was released.
    void check_unreleased(const std::vector<uint8_t>& ran) const;
    /// `grads`: of the step that reads it, if its own are known (SavedTensor::unpack).
    Tensor unpack(size_t i, const std::vector<Tensor>* grads = nullptr) const;
    const ops::Snapshot& base(size_t i) const { return bases_[i]; }
    const Tensor& kept(int32_t piece) const { return kept_[piece]; }

private:
    CompiledNode(Ref<DifferentiablePlan> plan, int32_t part)
        : plan_(std::move(plan)), part_(part) {}
    ~CompiledNode() = default;
    void deallocate() override;
    void run_plan(const BackwardPlan& backward, Tensor* grads, Work& work);
    void run_rules(std::span<const int32_t> values, const Tensor* grads,
                   std::span<const uint8_t> wanted, Work& work);

    Ref<DifferentiablePlan> plan_;
    SavedTensor* saved_ = nullptr;
    Tensor* kept_ = nullptr;
    ops::Snapshot* bases_ = nullptr;
    int32_t part_;
    int32_t saved_count_ = 0, kept_count_ = 0, base_count_ = 0;
    uint32_t size_ = 0;
    bool released_ = false, twice_ = false;
    const BackwardPlan* last_ = nullptr;  ///< what ran since the last release, if it was a plan
    std::vector<uint8_t> ran_, released_steps_;  ///< by step; empty: none
};

}  // namespace weft::program
