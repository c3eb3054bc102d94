/// In-place writes in the graph, and the views they reach.
///
/// Note [Views]
/// A view shares memory with its base, so a write through one changes what the other computes. Each
/// view made while recording knows its base (itself no view). A write through a view is recorded on
/// the base, as CopySlices: the gradient of the written part goes through the written op, the rest
/// passes. Views whose memory was written since they were made get their grad_fn anew when asked
/// for: an as_strided of the base. The storage's version tells when that is due.
#include <optional>

#include "autograd/accumulate.h"
#include "autograd/fit.h"
#include "autograd/meta.h"
#include "autograd/op_node.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/write.h"

namespace weft {
namespace {

void write_op(const ops::Function& function, const Tensor& dest, std::initializer_list<Tensor> in) {
    Call c(function.op(), in.begin(), static_cast<int>(in.size()), function.op().defaults.data());
    c.dest = dest;
    c.in_place = true;
    ops::call(c);
}

const ops::Function copy_op{"copy"}, view_as_real{"view_as_real"},
    view_as_complex{"view_as_complex"};

/// Where a view's elements lie in its base's memory. A view of the real parts of a complex base, or
/// of a real one as complex numbers, counts in other elements than the base; both are real numbers
/// in pairs, so between such two a place is one of real numbers.
class Place {
public:
    /// `from`: the base's first element, which the offset counts from.
    Place(const Tensor& base, const Tensor& view, int64_t from)
        : parts_(is_complex(base.dtype()) && !is_complex(view.dtype())),
          pairs_(is_complex(view.dtype()) && !is_complex(base.dtype())), shape_(view.shape()),
          strides_(view.strides()),
          offset_(view.offset() * (pairs_ ? 2 : 1) - from * (parts_ ? 2 : 1)) {
        if (!pairs_) return;
        for (int64_t& stride : strides_) stride *= 2;
        shape_.push_back(2);
        strides_.push_back(1);
    }
    /// What lies there, in memory like the base's.
    Tensor of(const Tensor& memory) const {
        Tensor whole = parts_ ? view_as_real(memory) : memory;
        bool all = parts_ && offset_ == whole.offset() && equal(shape_, whole.shape()) &&
                   equal(strides_, whole.strides());
        return all ? whole : ops::as_strided(whole, shape_, strides_, offset_);
    }
    /// That as elements of the view, and elements of the view as that.
    Tensor shown(const Tensor& t) const { return pairs_ ? view_as_complex(t) : t; }
    Tensor laid(const Tensor& t) const { return pairs_ ? view_as_real(t) : t; }

private:
    bool parts_, pairs_;
    Dims shape_, strides_;
    int64_t offset_;
};

class CopySlices final : public LooseNode {
public:
    CopySlices(const Tensor& base, const Tensor& view, Ref<Node> written)
        : base_(Tensor::layout(base.dtype(), base.shape(), base.strides())), view_(view),
          place_(base, view, base.offset()), written_(std::move(written)) {
        std::vector<Edge> edges{gradient_edge(base)};
        for (int i = 1; i < written_->edge_count(); ++i) edges.push_back(written_->edge(i));
        set_edges(std::move(edges));
        set_results({base});
        written_->may_run_twice();
    }
    std::string name() const override { return "CopySlices"; }
    bool runs_twice() const override { return written_ && written_->runs_twice(); }

    void run(Work& work) override {
        if (!written_) fail_released(*this);
        Tensor all = Tensor::layout(base_.dtype(), base_.shape(), base_.strides());
        all.allocate_beside(work.grads[0]);
        std::optional<ops::Write::Unwritten> as_new;  // nobody else sees these writes
        if (!(mode & kGradMode)) as_new.emplace(all);
        write_op(copy_op, all, {all, work.grads[0]});
        Tensor part = place_.of(all);
        std::vector<Tensor> grads{place_.shown(ops::clone(part))};
        std::vector<Tensor> results(written_->edge_count());
        Work inner{grads, results, work.skip, nullptr, work.parted};
        written_->run(inner);
        if (results.empty() || !results[0].defined()) {
            write_op(copy_op, part, {part, ops::number(0, part.dtype())});
        } else {
            fit(*written_, view_, results[0], 0);
            write_op(copy_op, part, {part, place_.laid(results[0])});
        }
        for (size_t i = 1; i < results.size(); ++i) work.results[i] = std::move(results[i]);
        work.results[0] = std::move(all);
    }
    void release_saved() override {
        if (written_) written_->release_saved();
    }
    void visit_kept(FunctionRef<void(const Tensor&)> see) const override {
        if (written_) written_->visit_kept(see);
    }

private:
    Tensor base_;  // layout only
    ResultInfo view_;
    Place place_;
    Ref<Node> written_;
};

/// `t` as it is now: its place in the graph, and its values if they are about to be written.
Tensor as_it_was(const Tensor& t, bool values) {
    Tensor out;
    if (values) {
        out = Tensor::layout(t.dtype(), t.shape());
        out.allocate_beside(t);
        ops::copy_into(out, t);
    } else {
        out = t.alias();
    }
    if (requires_grad(t)) {
        Edge edge = gradient_edge(t);
        set_history(out, edge.node, edge.output);
    }
    return out;
}

}  // namespace

void check_write(const std::string& who, const Tensor& t, bool recorded) {
    auto refuse = [&](const char* what, const char* hint) {
        fail(ErrorKind::Runtime, who, "a tensor that may be written in place", what, hint);
    };
    bool wanted = requires_grad(t);
    const char* loose =
        "a view made outside the graph (A view was created in no_grad mode and is being modified "
        "inplace with grad mode enabled)";
    const char* together = "make the view and the write both under no_grad(), or both outside";
    if (t.has(kLooseView) && recorded) refuse(loose, together);
    GradMeta* m = meta_or_null(t);
    if (!m || !m->base.defined()) {
        if (wanted && is_leaf(t))
            refuse("a leaf (a leaf Variable that requires grad is being used in an in-place "
                   "operation.)",
                   "write under no_grad(), or write a clone()");
        return;
    }
    if (m->view_kind == ViewKind::Unrecorded && (wanted || recorded)) refuse(loose, together);
    if (m->view_kind == ViewKind::OneOfSeveral && (wanted || recorded))
        refuse(
            "one of several views made by one call (This view is the output of a function that "
            "returns multiple views. Such functions do not allow the output views to be modified "
            "inplace)",
            "clone() it, or write into the base");
    if (m->view_kind == ViewKind::FromFunction && (wanted || recorded))
        refuse("a view that a custom Function returned (This view was created inside a custom "
               "Function "
               "(or because an input was returned as-is) and the autograd logic to handle "
               "view+inplace "
               "would override the custom backward associated with the custom Function)",
               "clone() the output of the Function");
    if (wanted && is_leaf(m->base))
        refuse("a view of one (a view of a leaf Variable that requires grad is being used in an "
               "in-place operation.)",
               "write under no_grad(), or write a clone()");
}

std::vector<Tensor> before_write(Call& c) {
    const Tensor& dest = c.dest;
    if (!(mode & kGradMode)) return {};
    SaveMask saves = 0;
    bool recorded = false;
    for (int i = 0; i < c.inputs; ++i)
        if (c.op->differentiable(i) && c.in[i].defined() && requires_grad(c.in[i])) {
            recorded = true;
            saves |= c.op->saves_for(i);
            gradient_edge(c.in[i]);  // throws for a view that must not be used: nothing is written
        }
    if (!c.in_place && (recorded || requires_grad(dest)))
        fail(ErrorKind::Runtime, c.name(), "a tensor that may be written in place",
             "out= with tensors that require grad (functions with out=... arguments don't support "
             "automatic differentiation)",
             "use the result instead of out=");
    recorded &= is_inexact(dest.dtype());  // bools and integers have no gradient to pass on
    check_write(text(c.name(), c.in_place ? "_" : ""), dest, recorded);
    if (!recorded) return {};
    WEFT_EXPECT(!dest.has(kInference), Runtime, c.name(),
                "a normal tensor for an in-place write that needs a gradient",
                "an inference tensor", "clone() it first");
    std::vector<Tensor> before(c.in, c.in + c.inputs);
    for (int i = 0; i < c.inputs; ++i) {
        bool shares = c.in[i].defined() && c.in[i].storage() == dest.storage();
        if (i == 0 || shares) before[i] = as_it_was(c.in[i], shares && (saves & save_in(i)));
    }
    return before;
}

void after_write(Call& c, const std::vector<Tensor>& before) {
    Ref<Node> node = OpNode::make(c, before.data());
    if (node) tie_write(c.dest, node, 0);
}

void tie_write(const Tensor& dest, const Ref<Node>& node, uint32_t k) {
    GradMeta* m = meta_or_null(dest);
    if (!m || !m->base.defined()) return set_history(dest, node, k);
    Tensor base = m->base;
    if (!over_one_memory(base, dest)) {  // the base shows other memory since
        m->base = Tensor();
        return set_history(dest, node, k);
    }
    Ref<Node> slices(new CopySlices(base, dest, node));
    slices->site = Site::here();
    set_history(base, slices, 0);
    m->last_write = slices;
    m->write_version = dest.version();
    if (m->retains_grad) grad_fn(dest);  // what it keeps is the gradient of the new value
}

namespace {

/// A view that shows other memory is none any more: what happens to its base is nothing to it.
void leave_base(const Tensor& t, GradMeta& m) {
    m.base = Tensor();
    m.view_kind = ViewKind::Plain;
    t.set(kTracked, m.grad_fn || m.requires_grad);
}

/// A leaf of another shape or dtype: what is recorded from now on has a node that knows them.
void forget_accumulator(const Tensor& leaf) {
    if (GradMeta* m = meta_or_null(leaf)) m->accumulator = nullptr;
}

}  // namespace

void take_memory(const Tensor& t, FunctionRef<Tensor()> take) {
    ops::Write write(t, ops::Write::Inference::Any);
    Tensor from = take();
    const bool alike = equal(t.shape(), from.shape()) && t.dtype() == from.dtype();
    if (requires_grad(t) && !alike) {
        WEFT_EXPECT(is_inexact(from.dtype()), Runtime, "data",
                    "a floating tensor for one that requires grad", name(from.dtype()));
        WEFT_EXPECT(is_leaf(t), Runtime, "data",
                    text("a ", name(t.dtype()), " tensor of shape ", to_string(t.shape()),
                         " for a value that the graph has computed so"),
                    text(name(from.dtype()), " of shape ", to_string(from.shape())),
                    "detach() it first");
    }
    GradMeta* m = meta_or_null(t);
    const bool leaves = m && m->base.defined() && !over_one_memory(from, t);
    if (leaves && m->view_kind == ViewKind::Plain) grad_fn(t);  // the last that it sees of writes
    write.show(from);
    if (!alike) forget_accumulator(t);
    if (leaves) leave_base(t, *m);
}

void become_view(const std::string& who, const Tensor& t, FunctionRef<Tensor()> take,
                 std::string (*node_name)(const std::string&)) {
    ops::Write write(t);
    bool recording = mode & kGradMode;
    if (recording) check_write(who, t, false);
    // A value in the graph stays there under its new shape, in no_grad() too, if it can be told
    // where: not of one of several views whose memory was written.
    const GradMeta* before = meta_or_null(t);
    const bool lost = before && before->base.defined() && before->view_kind != ViewKind::Plain &&
                      before->base_version != t.version();
    const bool told = recording || !lost, leaf = told && is_leaf(t);
    const bool inside = told && requires_grad(t) && !leaf;
    ModeGuard recorded(inside ? uint32_t{kGradMode} : 0, 0);
    recording |= inside;
    Tensor view = take();
    Edge edge = recording && requires_grad(t) ? gradient_edge(view) : Edge{};
    write.become(view);
    write.commit();
    if (leaf) forget_accumulator(t);  // (asked before the write: a view is made anew after it)
    GradMeta* m = meta_or_null(t);
    bool is_view = m && m->base.defined();
    if (edge) {
        if (auto* node = dynamic_cast<OpNode*>(edge.node.get()))
            node->rename(node_name(node->name()));
        if (is_view) set_producer(*m, edge.node, edge.output);
        else set_history(t, edge.node, edge.output);
    }
    // Unrecorded, the node of a view does not know the new layout: it is made anew when asked for.
    if (is_view && recording) m->base_version = t.version();
}

void attach_view(const Tensor& view, const Tensor& of, const Ref<Node>& node, uint32_t k,
                 ViewKind kind) {
    if (!is_inexact(of.dtype()) || of.has(kInference)) return;
    GradMeta* of_meta = meta_or_null(of);
    GradMeta& m = meta(view);
    m.base = of_meta && of_meta->base.defined() ? of_meta->base : of;
    m.base_version = view.version();
    m.view_kind = of_meta && of_meta->base.defined() ? std::max(kind, of_meta->view_kind) : kind;
    m.grad_fn = node;
    m.output = k;
    view.set(kTracked);
}

const Tensor* base_of_plain_view(const Tensor& t, bool used) {
    GradMeta* m = meta_or_null(t);
    if (!m || !m->base.defined()) return nullptr;
    if (used && m->view_kind != ViewKind::Plain) refresh_view(t, *m);
    if (m->view_kind >= ViewKind::Unrecorded || !m->grad_fn) return nullptr;
    if (m->retains_grad || !m->hooks.empty() || m->grad_fn->hooks_or_null()) return nullptr;
    if (m->base_version != t.version() || m->base.storage() != t.storage()) return nullptr;
    const GradMeta* base = meta_or_null(m->base);
    for (const Node* node = m->grad_fn.get(); node && node->edge_count() == 1;
         node = node->edge(0).node.get()) {
        if (base && node == base->grad_fn.get()) break;
        if (node->hooks_or_null()) return nullptr;  // of a view between the two
    }
    if (requires_grad(m->base)) return &m->base;
    // The leaf may be a view itself, of a tensor without gradient: it is where the views' nodes end.
    const Node* node = m->grad_fn.get();
    while (node && node->edge_count() == 1) node = node->edge(0).node.get();
    auto* end = dynamic_cast<const AccumulateGrad*>(node);
    return end && end->variable().defined() && end->variable().storage() == t.storage()
               ? &end->variable()
               : nullptr;
}

namespace {

/// A view that may not be written cannot be made anew either: of its node it knows no more than that
/// the memory has changed.
void check_still_good(const GradMeta& m) {
    if (m.view_kind == ViewKind::Plain) return;
    if (m.view_kind == ViewKind::OneOfSeveral)
        fail(ErrorKind::Runtime, "backward", "one of several views of one call, as it was made",
             "one with its base written since (is a view and its base or another view of its base "
             "has been modified inplace. This view is the output of a function that returns "
             "multiple views. Such functions do not allow the output views to be modified inplace)",
             "clone() it, or make it anew after the write");
    const bool custom = m.view_kind == ViewKind::FromFunction;
    fail(ErrorKind::Runtime, "backward", "a view as it was made",
         custom ? text(m.grad_fn ? m.grad_fn->name() : "a custom Function",
                       "'s view, with its base written since (is a view and its base or another "
                       "view of its base has been modified inplace. This view was created inside "
                       "a custom Function (or because an input was returned as-is))")
                : "one made in no_grad mode, with its base written since (A view was created in "
                  "no_grad mode and its base or another view of its base has been modified "
                  "inplace with grad mode enabled)",
         custom ? "clone() the output of the Function"
                : "make the view where the graph is recorded");
}

/// Where a gradient ends of what was taken out of the graph after views of it were made.
class Nowhere final : public LooseNode {
public:
    explicit Nowhere(const Tensor& t) { set_results({t}); }
    std::string name() const override { return "DetachBackward"; }
    void run(Work&) override {}
};

}  // namespace

void refresh_view(const Tensor& view, GradMeta& m) {
    if (m.base_version == view.version()) return;
    const bool recorded = requires_grad(m.base);
    if (!recorded && !m.grad_fn) return;
    check_still_good(m);
    if (!over_one_memory(m.base, view)) {
        // Of writes to it since then the base's place in the graph says nothing.
        if (!m.grad_fn) return;
        fail(ErrorKind::Runtime, "backward", "a view as it was made",
             "one that was written, with a base that shows other memory since (.data = )",
             "make it anew after the write");
    }
    m.base_version = view.version();
    ModeGuard grad(kGradMode, 0);
    Place place(m.base, view, 0);
    Tensor base = m.base;
    // detach_() was called on the base since: a view that was written before leads nowhere, but for
    // the one through which it was.
    const bool own = m.last_write && m.write_version == view.version();
    if (!recorded || (own && grad_fn(base) != m.last_write)) {
        base = base.alias();
        set_history(base, own ? m.last_write : Ref<Node>(new Nowhere(base)), 0);
    }
    m.last_write = nullptr;
    set_producer(m, grad_fn(place.shown(place.of(base))), 0);
}

}  // namespace weft
