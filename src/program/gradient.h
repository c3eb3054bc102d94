/// Plans whose results are parts of the graph.
///
/// Note [Compiled nodes]
/// A run is a plan of the segment that also leaves the values that gradient rules read, those that no
/// tensor bears in one piece of memory, and a node for each part (Note [Parts]). The node's turn in a pass
/// is a plan too: of the rules, run once on traced tensors for each choice of gradients that come and
/// edges that want some, and kept. Where the pass is itself recorded, or values are none (batches, vmap),
/// or a watcher wants to hear of calls, or a rule cannot be traced, the rules run on what was saved, call
/// by call, as the engine runs those of single nodes. Then a value in the middle of the part needs a place
/// in the graph: it is an output of an `InnerNode`, which does what the node does from there on. That costs
/// more than single nodes do, so who runs the plan may ask how often it came to that (`rules_run`).
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "autograd/node.h"
#include "program/parts.h"
#include "program/plan.h"

namespace weft::program {

class CompiledNode;
struct BackwardPlan;

class DifferentiablePlan {
public:
    DifferentiablePlan(Ref<Segment> segment, Plan::Options options);
    ~DifferentiablePlan();
    DifferentiablePlan(const DifferentiablePlan&) = delete;

    uint32_t refs = 0;

    /// Whether these are laid out as the segment's inputs and have memory, and in grad mode require grad where
    /// those do.
    bool fits(const Tensor* inputs, size_t count) const {
        return segment_->inputs_fit(inputs, count) && asks_as(inputs);
    }
    /// Only the last of this, of inputs that are laid out so.
    bool asks_as(const Tensor* inputs) const;
    /// Fills `outputs`, as many as the segment has, as its calls would, one by one. `inputs` must fit.
    /// Outside of grad mode, or where nothing requires grad: without nodes.
    void run(const Tensor* inputs, Tensor* outputs);
    /// The same by the calls themselves, whatever the inputs' strides. `failed`: the line of one that raises.
    void run_calls(const Tensor* inputs, Tensor* outputs, Site* failed = nullptr);

    const Segment& segment() const { return *segment_; }
    const Parts& parts() const { return parts_; }
    /// Bytes of the values that a run leaves for backward, but for results and inputs.
    int64_t kept_bytes() const;
    /// Where a kept value lies in what a run keeps.
    Plan::KeptAt kept_at(int32_t value) const { return forward_->kept_at(value); }
    size_t kept_pieces() const { return forward_->kept_pieces(); }
    /// Whether all of the part's steps whose rules read something are among these.
    bool covers(int32_t part, const std::vector<uint8_t>& steps) const;
    /// How often rules were run call by call in a pass that was itself recorded.
    int64_t rules_run() const { return rules_run_; }
    /// For each edge of a part whether the value is made of it.
    std::vector<uint8_t> edges_from(int32_t part, int32_t value) const;
    /// What forward and backward run, as far as they are made: a line for each thing.
    std::string text() const;

private:
    friend class CompiledNode;
    class Run;
    Plan& plain() { return plain_ ? *plain_ : make_plain(); }
    Plan& make_plain();
    void number_handles();
    void prepare();
    /// The backward plan for these gradients; null if there is none.
    const BackwardPlan* find_backward(int32_t part, std::span<const int32_t> given,
                                      const Tensor* grads, std::span<const uint8_t> wanted);
    std::unique_ptr<BackwardPlan> trace_backward(int32_t part, std::span<const int32_t> given,
                                                 const Tensor* grads,
                                                 std::span<const uint8_t> wanted);
    /// Where a part's node finds what, in the order of its outputs, edges and saved values.
    struct Places {
        struct End {
            int32_t handle;        ///< of a tensor with a place in the graph; else
            int32_t part, output;  ///< an output of that part's node
        };
        struct Saved {
            int32_t handle, output;  ///< which output of the node itself; -1: none
        };
        std::vector<int32_t> outputs;  ///< handles; -1: no tensor bears it
        std::vector<End> edges;
        std::vector<Saved> saved;
        std::unique_ptr<ResultInfo[]> infos;      ///< of the outputs
        std::vector<uint8_t> reads;               ///< by step: whether its rule reads something
        std::vector<std::vector<uint8_t>> leads;  ///< of each output: to which edges
        bool parted = false;                      ///< not every output leads to every edge
    };
    Places places_of(int32_t part) const;

    Ref<Segment> segment_;
    const Plan::Options options_;
    Parts parts_;
    bool is_constant_ = true;   ///< no constant requires grad
    bool gives_views_ = false;  ///< outputs are views
    int64_t rules_run_ = 0;
    Ref<Plan> plain_, forward_;
    std::vector<int32_t> handles_;  ///< by value: which of a run's tensors it is
    int32_t handle_count_ = 0;
    std::vector<std::pair<int32_t, Tensor>> constants_;                 ///< handles
    std::vector<Places> places_;                                        ///< by part
    std::vector<std::vector<std::unique_ptr<BackwardPlan>>> backward_;  ///< by part
};
inline void release(DifferentiablePlan* plan) { delete plan; }

}  // namespace weft::program
