#include "autograd/op_node.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <new>
#include <string>

#include "autograd/meta.h"
#include "base/intern.h"
#include "base/pool.h"
#include "ops/functions.h"
#include "ops/watch.h"

namespace weft {
namespace {

/// std::popcount is a call on processors that may lack the instruction; masks have few bits.
int count_bits(SaveMask mask) {
    int n = 0;
    for (; mask; mask &= mask - 1) ++n;
    return n;
}

int index_of(SaveMask mask, int bit) { return count_bits(mask & ((SaveMask{1} << bit) - 1)); }

/// A product that is made with others later (Note [Sums of products]) shows where a rule asks for it,
/// as the call that it would be; what it takes then, in GradBuffer::flush.
[[gnu::noinline]] void show_product(const Tensor& a, const Tensor& b) {
    static const ops::Function mm{"mm"};
    const Dims turned{a.size(1), a.size(0)};
    const bool has_memory = !a.has(kPending) && a.storage();
    const Tensor in[] = {has_memory ? a.view_as(turned, Dims{a.stride(1), a.stride(0)})
                                    : Tensor::layout(a.dtype(), turned),
                         b};
    Call c(mm.op(), in, 2, nullptr);
    ops::WatchSpan span(c);
    c.add(Tensor::layout(a.dtype(), Dims{a.size(1), b.size(1)}));
    span.end(c);
}

/// Attributes other than the defaults have to be kept.
int attributes_to_keep(const Call& c) {
    return c.attrs == c.op->defaults.data() ? 0 : static_cast<int>(c.op->defaults.size());
}

/// Writes sizes, then strides and offset.
void keep_layout(Dims* kept, const Tensor& t) {
    new (kept) Dims(t.defined() ? Dims(t.shape()) : Dims());
    new (kept + 1) Dims(t.defined() ? Dims(t.strides()) : Dims());
    if (t.defined()) kept[1].push_back(t.offset());
}

}  // namespace

Ref<Node> OpNode::make(const Call& c, const Tensor* in) {
    const Op& op = *c.op;
    const bool joint = op.joint;
    const GradRule* rules = op.grads.data();
    const SaveMask* saves = op.saves.data();
    const int ruled = joint ? c.inputs : std::min(c.inputs, static_cast<int>(op.grads.size()));
    bool any = false;
    SaveMask mask = 0;
    for (int i = 0; i < ruled; ++i) {
        if (!in[i].defined() || !requires_grad(in[i])) continue;
        if (joint ? !op.differentiable(i) : !rules[i]) continue;
        any = true;
        mask |= joint ? op.joint_saves : saves[i];
    }
    if (!any) return nullptr;
    if (c.inputs < 16) mask &= ~SaveMask{0} << 16 | (save_in(c.inputs) - 1);  // lists may be short

    int attrs = attributes_to_keep(c), saved = count_bits(mask);
    size_t size = sizeof(OpNode) + c.inputs * sizeof(Edge) + c.outputs * sizeof(ResultInfo) +
                  saved * sizeof(SavedTensor) + attrs * sizeof(Value) +
                  (op.keep_shapes ? 2 * c.inputs * sizeof(Dims) : 0);
    auto* node = new (Pool::allocate(size)) OpNode(op);
    node->size_ = static_cast<uint32_t>(size);
    char* at = reinterpret_cast<char*>(node + 1);
    auto carve = [&]<class T>(T*& field, int count) {
        field = reinterpret_cast<T*>(at);
        at += count * sizeof(T);
    };
    carve(node->edges_, c.inputs);
    for (int i = 0; i < c.inputs; ++i) {
        bool tracked = i < ruled && in[i].defined() && in[i].has(kTracked) &&
                       (joint ? op.differentiable(i) : rules[i] != nullptr);
        new (&node->edges_[i]) Edge(tracked ? gradient_edge(in[i]) : Edge{});
    }
    node->edge_count_ = c.inputs;
    carve(node->results_, c.outputs);
    for (int k = 0; k < c.outputs; ++k) new (&node->results_[k]) ResultInfo(c.out(k));
    node->output_count_ = c.outputs;
    node->mask_ = mask;
    carve(node->saved_, saved);
    node->attrs_ = op.defaults.data();
    if (attrs) {
        Value* values;
        carve(values, attrs);
        std::uninitialized_copy_n(c.attrs, attrs, values);
        node->attrs_ = values;
        node->attr_count_ = static_cast<uint16_t>(attrs);
    }
    if (op.keep_shapes) {
        carve(node->layouts_, 2 * c.inputs);
        for (int i = 0; i < c.inputs; ++i) keep_layout(node->layouts_ + 2 * i, in[i]);
    }
    Ref<Node> owner(node);
    node->site = Site::here();
    if (op.backward_name) {
        node->variant_ = op.backward_name(c);
        for (int i = 0; i < c.inputs && op.numbers_apart >> i; ++i)
            if (op.numbers_apart >> i & 1 && in[i].has(kWrapped))
                node->hidden_ |= static_cast<uint16_t>(1 << i);
    }
    for (SaveMask rest = mask; rest; rest &= rest - 1) {
        int bit = std::countr_zero(rest);
        SavedTensor* slot = node->saved_ + node->saved_count_;
        if (bit < 16) new (slot) SavedTensor(in[bit], false);
        else new (slot) SavedTensor(c.out(bit - 16), op.carries_gradient(bit - 16));
        ++node->saved_count_;  // a user's pack hook may throw: only what exists is destroyed
    }
    return owner;
}

void OpNode::deallocate() {
    std::destroy_n(edges_, edge_count_);
    std::destroy_n(results_, output_count_);
    std::destroy_n(saved_, saved_count_);
    if (attr_count_) std::destroy_n(const_cast<Value*>(attrs_), attr_count_);
    if (layouts_) std::destroy_n(layouts_, 2 * edge_count_);
    size_t size = size_;
    this->~OpNode();
    Pool::free(this, size);
}

void OpNode::rename(const std::string& name) { variant_ = intern(name); }

std::string OpNode::name() const { return variant_ ? variant_ : op_->node_name; }
std::string OpNode::name_of(int k) const { return variant_ ? variant_ : op_->node_name_of(k); }

bool OpNode::shows_output(int k) const {
    return is_inexact(results_[k].dtype()) && op_->carries_gradient(k);
}

void OpNode::release_saved() {
    if (saved_count_ == 0) return;
    for (int i = 0; i < saved_count_; ++i) saved_[i].reset();
    released_ = true;
}

void OpNode::visit_kept(FunctionRef<void(const Tensor&)> see) const {
    for (int i = 0; i < saved_count_; ++i)
        if (saved_[i].kept().defined()) see(saved_[i].kept());
}

Tensor OpNode::saved(int bit, const std::vector<Tensor>* grads) const {
    if (released_) fail_released(*this);
    if (!keeps(bit))
        fail(ErrorKind::Runtime, op_->name, "a gradient rule that reads what its record saves",
             text(bit < 16 ? "input " : "output ", bit & 15), "add it to the rule's SaveMask");
    return saved_[index_of(mask_, bit)].unpack(const_cast<OpNode*>(this), bit - 16, grads);
}

bool OpNode::may_keep(int bit) const { return op_->may_save() >> bit & 1; }

Dims OpNode::kept_shape(int i) const {
    if (layouts_) return layouts_[2 * i];
    if (!edges_[i]) fail(ErrorKind::Runtime, op_->name, "keep_shapes() in the record", "none");
    return Dims(edges_[i].node->result(static_cast<int>(edges_[i].output)).shape());
}

Dims OpNode::kept_layout(int i) const {
    if (!layouts_) fail(ErrorKind::Runtime, op_->name, "keep_shapes() in the record", "none");
    return layouts_[2 * i + 1];
}

namespace {

/// Whether an input that the graph had computed is in the graph still.
void check_attached(const Node& node, const Edge& from, const Tensor& t) {
    if (from && from.node->edge_count() > 0 && is_leaf(t)) [[unlikely]]
        fail_detached(node);
}

}  // namespace

/// What the gradient rules see of a node at work.
class OpNode::Context final : public Grad {
public:
    Context(const OpNode& node, Work& work) : node_(node), work_(work) {
        op_ = node.op_;
        grads_ = work.grads.data();
        attrs_ = node.attrs_;
        for (int i = 0; i < node.edge_count_; ++i)
            if (node.edges_[i] && work.wanted(i)) any_ = true;
            else unneeded_.add(i);
    }
    /// Whether any gradient is wanted.
    bool any() const { return any_; }
    Dims in_shape(int i) const override { return node_.kept_shape(i); }
    Dims in_layout(int i) const override { return node_.kept_layout(i); }
    Dims out_shape(int k) const override { return Dims(node_.results_[k].shape()); }
    DType out_dtype(int k) const override { return node_.results_[k].dtype(); }
    int inputs() const override { return node_.edge_count_; }
    Tensor constant_in(int i, Tensor gradient, const char* node, bool zero) const override {
        static const ops::Function op{"_constant_in"};
        const Edge& to = node_.edges_[i];
        if (!(mode & kGradMode) || !to || !gradient.defined()) return gradient;
        if (!zero && requires_grad(gradient)) return gradient;
        const ResultInfo& input = to.node->result(static_cast<int>(to.output));
        Tensor place = Tensor::layout(input.dtype(), input.shape());  // nobody reads its values
        set_history(place, to.node, to.output);
        place.set(kMeta, gradient.has(kMeta));
        Tensor out = op(gradient, place, zero);
        if (out.has(kPending))
            return out;  // its node is made when the batch is, and named by the op
        if (auto* made = dynamic_cast<OpNode*>(grad_fn(out).get())) made->rename(node);
        return out;
    }
    void set(int i, Tensor value) override { work_.results[i] = std::move(value); }
    void set_product(int i, const Tensor& a, const Tensor& b) override {
        if (work_.summands && is_wide_floating(a.dtype()) && !a.has(kDispatching) &&
            !b.has(kDispatching)) {
            if (mode & kWatchMode) [[unlikely]]
                show_product(a, b);
            work_.summands->products.push_back({i, a, b});
        } else {
            work_.results[i] = ops::matmul(ops::transpose(a, 0, 1), b);
        }
    }
    using Grad::set_part;
    bool set_part(int i, const Tensor& grad, PartRule add, const Tensor& where) override {
        if (!node_.edges_[i]) return true;  // nobody asks
        DType wanted =
            node_.edges_[i].node->result(static_cast<int>(node_.edges_[i].output)).dtype();
        if (!work_.summands || !is_wide_floating(grad.dtype()) || grad.dtype() != wanted ||
            grad.has(kDispatching))
            return false;
        work_.summands->parts.push_back({i, grad, where, add, node_.attrs_, i});
        return true;
    }

protected:
    Tensor saved(int bit) const override {
        Tensor t = node_.saved(bit, &work_.grads);
        if (mode & kGradMode && bit < std::min(node_.edge_count_, 16))
            check_attached(node_, node_.edges_[bit], t);
        return t;
    }

private:
    bool any_ = false;
    const OpNode& node_;
    Work& work_;
};

void OpNode::run(Work& work) {
    Context g(*this, work);
    if (!g.any()) return;  // a node that leads nowhere
    if (released_) fail_released(*this);
    bool on_meta = false;  // what the rule makes anew lies where the gradients do
    for (const Tensor& grad : work.grads) on_meta |= grad.defined() && grad.on_meta();
    if (on_meta || mode & kMetaMode) [[unlikely]] {
        const ModeGuard there(on_meta * kMetaMode, !on_meta * kMetaMode);
        return run_rules(g, work);
    }
    run_rules(g, work);
}

void OpNode::run_rules(Context& g, Work& work) {
    if (op_->joint) return op_->joint(g);
    const GradRule* rules = op_->grads.data();  // edges go only from inputs that have one
    for (int i = 0; i < edge_count_; ++i)
        if (g.needs(i)) work.results[i] = rules[i](g);
}

Tensor Grad::grad_or_zeros(int k) const {
    if (grads_[k].defined()) return grads_[k];
    return ops::zeros(out_shape(k), out_dtype(k));
}

}  // namespace weft
