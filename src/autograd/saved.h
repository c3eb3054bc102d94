/// A tensor kept for the backward pass.
///
/// Note [Saved outputs]
/// A node that kept its own output would own the tensor that owns the node. So an output is kept as
/// an alias: same memory, no slot; reading it back attaches the node again, for second derivatives.
#pragma once
#include "autograd/node.h"
#include "ops/scopes.h"

namespace weft {

/// What a user's pack hook returned; `unpack` gives the tensor back, in any place of the graph:
/// it is put where the saved one was.
struct Packed {
    uint32_t refs = 0;
    Edge origin;          ///< where the gradient of the saved tensor goes, unless it was an output
    bool wanted = false;  ///< a view made under no_grad of what requires grad: that goes nowhere
    ResultInfo saved;     ///< what was packed: its shape and dtype
    virtual ~Packed() = default;
    virtual Tensor unpack() = 0;
};
inline void release(Packed* p) { delete p; }

/// A pair of functions of graph.saved_tensors_hooks.
struct PackHooks {
    virtual ~PackHooks() = default;
    virtual Ref<Packed> pack(const Tensor& t) = 0;
};

class SavedTensor {
public:
    SavedTensor() = default;
    SavedTensor(const Tensor& t, bool is_output) : is_output_(is_output) {
        if (!t.defined()) return;
        if (is_output | (ops::scopes.pack_hooks != nullptr) | t.has(kInference)) {
            keep(t);
            return;
        }
        value_ = t;
        version_ = t.version();
        t.storage()->watched = true;
    }

    /// The tensor as it was. `owner` made it, as output `k`, if it was an output.
    /// Throws Runtime if it was written in place since, naming both lines; not in a pass through a
    /// batch if only what has a part of `grads`, the gradients at hand, that is zero was written.
    Tensor unpack(Node* owner, int k, const std::vector<Tensor>* grads = nullptr) const {
        bool as_it_lies = !is_output_ && value_.defined() && value_.version() == version_;
        return as_it_lies ? value_ : unpack_slow(owner, k, grads);
    }
    /// Whether its memory was written since, or may have been: then `unpack` may throw.
    bool is_written() const { return !packed_ && value_.defined() && value_.version() != version_; }
    /// As it lies; undefined if there is none, or a pack hook has made something of it.
    const Tensor& kept() const { return value_; }
    void reset() {
        value_ = Tensor();
        packed_ = nullptr;
    }

private:
    void keep(const Tensor& t);
    void pack(const Tensor& t);
    Tensor unpack_slow(Node* owner, int k, const std::vector<Tensor>* grads) const;
    Tensor unpack_again(Node* owner, int k) const;
    Tensor value_;
    Ref<Packed> packed_;
    uint32_t version_ = 0;
    bool is_output_ = false;
};

/// Test switch: a value that was written raises in a pass through a batch even where its gradients are
/// zeros.
inline bool zeros_matter = false;

/// For a value that a node saved as part of the graph and that detach_() took out of it since: where the
/// gradients' own graph is drawn it would lack its part. Throws Runtime.
[[noreturn]] void fail_detached(const Node& node);
[[noreturn]] void fail_released(const Node& node);

}  // namespace weft
