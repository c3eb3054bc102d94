/// A node of the graph: one recorded call, and where its gradients go.
///
/// Reading guide: Edge and ResultInfo, then Node. The kinds of node are OpNode (record.cpp),
/// AccumulateGrad (accumulate.h), CopySlices (inplace.cpp) and custom functions (custom.h, derived
/// by the binding). The engine (engine.cpp) knows only Node.
#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/graph_use.h"
#include "base/site.h"
#include "ops/op.h"

namespace weft {

class Node;
struct NodeTask;
struct Trace;

/// Kinds of Slot in this layer.
enum SlotKind : uint8_t { kNodeSlot = 1, kMetaSlot = 2 };

/// A tensor's place in the graph: output `output` of `node`. Inputs without gradient have no node.
struct Edge {
    Ref<Node> node;
    uint32_t output = 0;
    explicit operator bool() const { return static_cast<bool>(node); }
};

/// What the gradient of one output must look like; the engine casts and sums to it.
class ResultInfo {
public:
    ResultInfo() = default;
    explicit ResultInfo(const Tensor& t) { set(t); }
    ResultInfo(const ResultInfo&) = delete;
    ~ResultInfo() {
        if (heap_) delete[] heap_;
    }
    /// Once at most.
    void set(const Tensor& t) {
        dtype_ = t.dtype();
        ndim_ = static_cast<uint8_t>(t.ndim());
        if (ndim_ <= kInline) [[likely]] {  // a fixed count is copied without a loop
            std::memcpy(inline_, t.impl()->inline_dims, sizeof(inline_));
        } else {
            heap_ = new int64_t[ndim_];
            std::copy_n(t.impl()->dims, ndim_, heap_);
        }
    }
    DType dtype() const { return dtype_; }
    DimSpan shape() const { return {heap_ ? heap_ : inline_, ndim_}; }
    /// Whether `t` has the shape and the dtype.
    bool describes(const Tensor& t) const {
        const TensorImpl& impl = *t.impl();
        if (impl.dtype != dtype_ || impl.ndim != ndim_) return false;
        const int64_t* dims = heap_ ? heap_ : inline_;
        for (int d = 0; d < ndim_; ++d)
            if (dims[d] != impl.dims[d]) return false;
        return true;
    }

private:
    static constexpr int kInline = 4;
    int64_t inline_[kInline];
    int64_t* heap_ = nullptr;
    uint8_t ndim_ = 0;
    DType dtype_ = DType::Float32;
};

/// A user's function on gradients. `call` may change the tensors in place in the vector.
struct Hook {
    uint32_t refs = 0;
    virtual ~Hook() = default;
    /// Tensor hooks: one gradient. Node pre-hooks: the gradients of the outputs. Node hooks:
    /// `grads` are the gradients of the inputs, `outputs` those that came in.
    virtual void call(std::vector<Tensor>& grads, const std::vector<Tensor>* outputs) = 0;
};
inline void release(Hook* hook) { delete hook; }
using Hooks = std::vector<Ref<Hook>>;

struct NodeHooks {
    std::vector<std::pair<uint32_t, Ref<Hook>>> on_tensor;  ///< by output, in order of registration
    std::vector<std::pair<uint32_t, Ref<Hook>>> retain;     ///< retain_grad: after those
    Hooks before, after;
    Ref<Hook> metadata;                  ///< the binding's: notes that live as long as the node
    std::shared_ptr<const Trace> trace;  ///< in anomaly mode: the stack that made it (anomaly.h)
};

class Node : public Slot {
public:
    Node(const Node&) = delete;

    virtual std::string name() const = 0;
    /// What output k prints as its grad_fn.
    virtual std::string name_of(int) const { return name(); }
    /// The gradients of the edges from those of the outputs; `wanted(i)` tells which to make.
    /// Undefined ones are zero.
    struct Work;
    virtual void run(Work& work) = 0;
    /// Whether it runs even where no gradient arrived at any output.
    virtual bool runs_without_gradient() const { return false; }
    /// Whether it stands for several calls, so that it may be reached where only some of them are
    /// (Note [Reached]); and whether a gradient of output k may come to edge i.
    virtual bool is_several() const { return false; }
    virtual bool leads(int, int) const { return true; }
    /// Drops what was saved; a later run raises.
    virtual void release_saved() {}
    /// The tensors that it keeps alive, as they lie: for whoever counts. What a user's pack hook made of
    /// one is none.
    virtual void visit_kept(FunctionRef<void(const Tensor&)>) const {}
    /// One pass may run it twice: by itself, for a value that it saved, and within the node of a write
    /// into a view. So what it saved is dropped when the pass ends.
    virtual bool runs_twice() const { return false; }
    virtual void may_run_twice() {}
    /// Which outputs and edges its hooks see: those that PyTorch's node has.
    virtual bool shows_output(int) const { return true; }
    virtual bool shows_edge(int) const { return true; }
    /// Hooks that belong to the tensor, not to the node (leaves).
    virtual Hooks* leaf_hooks() { return nullptr; }

    int edge_count() const { return edge_count_; }
    int output_count() const { return output_count_; }
    const Edge& edge(int i) const { return edges_[i]; }
    const ResultInfo& result(int k) const { return results_[k]; }
    NodeHooks& hooks() {
        if (!hooks_) hooks_ = std::make_unique<NodeHooks>();
        return *hooks_;
    }
    NodeHooks* hooks_or_null() const { return hooks_.get(); }

    /// Of a node of a batched run: which run, and where each call's elements of its outputs end.
    struct Batched {
        Ref<GraphUse> use;  ///< Note [Graph use]
        std::vector<std::vector<int64_t>> ends;
    };
    std::unique_ptr<Batched> batched;
    uint64_t sequence;  ///< order of recording: the engine runs the latest first
    Site site;
    union {
        NodeTask* tasks = nullptr;  ///< backward passes under way that count on this node (task.h)
        Node* next_dead;            ///< of a node that waits for its release (Note [No recursion])
    };
    void* wrapper = nullptr;  ///< the binding's object for this node; not owned

protected:
    Node();
    ~Node();
    friend class ReleaseQueue;
    /// Frees the memory; called from a loop, never from within another node's release.
    virtual void deallocate() = 0;
    void destroy() final;

    Edge* edges_ = nullptr;
    ResultInfo* results_ = nullptr;
    int edge_count_ = 0;
    int output_count_ = 0;
    std::unique_ptr<NodeHooks> hooks_;
};

/// The gradient a^T b of an edge, not yet multiplied (Note [Sums of products]).
struct Product {
    int edge;
    Tensor a, b;
};

/// A gradient that fills a part of an edge's (Note [Sums of parts]).
struct Part {
    int edge;
    Tensor grad, where;
    PartRule add;  ///< takes these, and which input of the op it is
    const Value* attrs;
    int input;
};

/// What rules leave to the engine to add up.
struct Summands {
    std::vector<Product> products;
    std::vector<Part> parts;
};

/// One execution of a node by the engine.
struct Node::Work {
    std::vector<Tensor>& grads;     ///< by output
    std::vector<Tensor>& results;   ///< by edge
    const std::vector<bool>* skip;  ///< edges nobody asked for; null: none
    Summands* summands;             ///< where rules may leave those; null: they make whole tensors
    bool& parted;                   ///< set by a node whose gradients do not all lead to all edges
    bool last = false;  ///< what was saved is not wanted again: the node may drop it as it goes
    bool wanted(int i) const { return !(skip && (*skip)[i]); }
};

/// Nodes with their edges and results in vectors, for kinds that are rare.
class LooseNode : public Node {
public:
    virtual ~LooseNode() = default;
    void set_edges(std::vector<Edge> edges);
    void set_results(const std::vector<Tensor>& results);

protected:
    void deallocate() override { delete this; }

private:
    std::vector<Edge> edge_store_;
    std::unique_ptr<ResultInfo[]> result_store_;
};

/// How many nodes were ever made: the next one's `sequence`.
uint64_t nodes_made();
/// How many of them are there.
uint64_t nodes_alive();

/// "MulBackward0, made at model.py:12, in forward: `y = x * b`"
std::string describe(const Node& node);

}  // namespace weft
