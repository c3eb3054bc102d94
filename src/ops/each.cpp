#include "ops/each.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/write.h"

namespace weft::ops {
namespace {

/// Walks over the calls that the words tell of.
class Walk {
public:
    struct Part {
        DimSpan shape;
        int64_t start = 0, numel = 0;
    };

    Walk(const Op& op, const Value* attrs) : at_(attrs[op.defaults.size()].as_ints().data()) {
        left_ = *at_++;
        inputs_ = at_ + 1;
        in_.resize(static_cast<size_t>(*at_));
        at_ += in_.size() + 1;
        out_.resize(static_cast<size_t>(*at_++));
        dtypes_ = at_;
        at_ += out_.size();
        differing_ = at_ + 1;
        many_differ_ = *at_;
        at_ += many_differ_ + 1;
        attrs_ = attrs;
        if (many_differ_) own_attrs_.assign(attrs, attrs + op.defaults.size());
    }
    bool next() {
        if (left_ == 0) return false;
        --left_;
        for (size_t i = 0; i < in_.size(); ++i)
            if (own(static_cast<int>(i))) step(in_[i]);
        for (Part& out : out_) step(out);
        for (int64_t k = 0; k < many_differ_; ++k)
            own_attrs_[static_cast<size_t>(differing_[k])] = attribute();
        return true;
    }
    bool own(int i) const { return kind(i) != EachInput::Shared; }
    bool number(int i) const { return kind(i) == EachInput::Number; }
    const Part& in(int i) const { return in_[static_cast<size_t>(i)]; }
    const Part& out(int k) const { return out_[static_cast<size_t>(k)]; }
    int outputs() const { return static_cast<int>(out_.size()); }
    DType dtype(int k) const { return static_cast<DType>(dtypes_[k]); }
    const Value* attrs() const { return many_differ_ ? own_attrs_.data() : attrs_; }
    bool attrs_differ() const { return many_differ_ != 0; }

private:
    EachInput kind(int i) const { return static_cast<EachInput>(inputs_[i]); }
    void step(Part& part) {
        part.start += part.numel;
        part.shape = {at_ + 1, static_cast<size_t>(*at_)};
        at_ += part.shape.size() + 1;
        part.numel = 1;
        for (int64_t n : part.shape) part.numel *= n;
    }
    Value attribute() {
        auto kind = static_cast<Value::Kind>(*at_++);
        if (kind == Value::Kind::None) return {};
        if (kind == Value::Kind::Float) return std::bit_cast<double>(*at_++);
        if (kind == Value::Kind::Int) return *at_++;
        DimSpan ints(at_ + 1, static_cast<size_t>(*at_));
        at_ += ints.size() + 1;
        return ints;
    }

    const int64_t* at_;
    int64_t left_, many_differ_;
    const int64_t *inputs_, *dtypes_, *differing_;
    std::vector<Part> in_, out_;
    const Value* attrs_;
    std::vector<Value> own_attrs_;
};

Tensor walked_part(const Tensor& flat, const Walk::Part& part) {
    return flat.view_as(part.shape, contiguous_strides(part.shape), part.start);
}

void each_shape(Call& c) {
    Walk walk(*c.op->one, c.attrs);
    std::vector<int64_t> total(static_cast<size_t>(walk.outputs()));
    while (walk.next())
        for (int k = 0; k < walk.outputs(); ++k) total[static_cast<size_t>(k)] += walk.out(k).numel;
    for (int k = 0; k < walk.outputs(); ++k)
        c.add(Tensor::layout(walk.dtype(k), Dims{total[static_cast<size_t>(k)]}));
}

void each_kernel(Call& c) {
    const Op& op = *c.op->one;
    Walk walk(op, c.attrs);
    std::vector<Tensor> in(c.in, c.in + c.inputs);
    while (walk.next()) {
        for (int i = 0; i < c.inputs; ++i) {
            if (!walk.own(i)) continue;
            Tensor& t = in[static_cast<size_t>(i)] = walked_part(c.in[i], walk.in(i));
            t.set(kWrapped, walk.number(i));
            t.set(kTracked, c.in[i].has(kTracked));  // shape rules may ask
        }
        Call one(op, in.data(), c.inputs, walk.attrs());
        call_part(one, [&](Call& laid_out) {
            for (int i = 0; i < c.inputs; ++i)
                if (walk.own(i)) in[static_cast<size_t>(i)].set(kTracked, false);
            for (int k = 0; k < laid_out.outputs; ++k) {
                const Tensor& out = laid_out.out(k);
                if (op.view) out.share(in[0], laid_out.offset_of_view(k));
                else if (out.contiguous()) out.share(c.out(k), walk.out(k).start);
                else out.allocate();
            }
        });
        for (int k = 0; k < one.outputs; ++k) {
            WEFT_EXPECT(equal(one.out(k).shape(), walk.out(k).shape), Runtime, op.name,
                        text("a result of shape ", to_string(walk.out(k).shape)),
                        to_string(one.out(k).shape()));
            if (op.view || !one.out(k).contiguous())
                copy_into(walked_part(c.out(k), walk.out(k)), one.out(k));
        }
    }
}

int64_t each_flops(const Call& c) {
    const Op& op = *c.op->one;
    Walk walk(op, c.attrs);
    std::vector<Tensor> in(c.in, c.in + c.inputs);
    int64_t all = 0;
    while (walk.next()) {
        for (int i = 0; i < c.inputs; ++i)
            if (walk.own(i))
                in[static_cast<size_t>(i)] =
                    Tensor::layout(c.in[i].dtype(), Dims(walk.in(i).shape));
        Call one(op, in.data(), c.inputs, walk.attrs());
        for (int k = 0; k < walk.outputs(); ++k)
            one.add(Tensor::layout(walk.dtype(k), Dims(walk.out(k).shape)));
        all += op.flops(one);
    }
    return all;
}

/// Whether gradients are made by ops: their graph is wanted, or some have no memory of their own.
bool by_ops(const Grad& g, int outputs) {
    bool pending = false;
    for (int k = 0; k < outputs; ++k) pending |= g.grad(k).defined() && g.grad(k).has(kPending);
    return pending || (mode & kGradMode);
}

/// The gradients of all calls: sums of those of shared inputs, the others one after the other.
class Gradients {
public:
    Gradients(const Grad& g, const Walk& walk)
        : g_(g), walk_(walk), graph_(by_ops(g, walk.outputs())),
          of_(static_cast<size_t>(g.inputs())), calls_(of_.size()), parts_(of_.size()) {}

    /// That of input i of the walk's call.
    void add(int i, Tensor t) {
        auto at = static_cast<size_t>(i);
        if (!walk_.own(i)) {
            if (!t.defined()) return;
            t = sum_to(t, g_.in_shape(i));
            if (!of_[at].defined()) {
                of_[at] = t;  // perhaps another's: not written into
            } else if (graph_ || calls_[at] == 1) {
                of_[at] = of_[at] + t;
            } else {
                add_into(of_[at], t);
            }
            ++calls_[at];
            return;
        }
        const Walk::Part& part = walk_.in(i);
        if (t.defined()) t = sum_to(t, part.shape);
        if (graph_) {
            parts_[at].push_back(t.defined() ? reshape(t, Dims{-1}) : t);
        } else if (t.defined()) {
            if (!of_[at].defined()) of_[at] = zeros(g_.in_shape(i), t.dtype());
            copy_into(walked_part(of_[at], part), t);
        }
    }
    Tensor of(int i) {
        auto at = static_cast<size_t>(i);
        if (!graph_ || !walk_.own(i)) return of_[at];
        const Tensor* any = nullptr;
        for (const Tensor& t : parts_[at])
            if (t.defined()) any = &t;
        if (!any) return {};
        DType dtype = any->dtype();
        Walk again(*g_.op().one, &g_.attr(0));
        for (Tensor& t : parts_[at]) {
            again.next();
            if (!t.defined()) t = zeros(Dims{again.in(i).numel}, dtype);
        }
        return cat.over(parts_[at], {0});
    }

private:
    const Grad& g_;
    const Walk& walk_;
    bool graph_;
    std::vector<Tensor> of_;
    std::vector<int64_t> calls_;
    std::vector<std::vector<Tensor>> parts_;
};

/// What a rule of the op sees of one call.
class PartGrad final : public Grad {
public:
    PartGrad(const Grad& whole, Grad* joint, const Walk& walk, Gradients& found)
        : whole_(whole), joint_(joint), walk_(walk), found_(found),
          by_ops_(by_ops(whole, walk.outputs())),
          grads_of_part_(static_cast<size_t>(walk.outputs())) {
        op_ = whole.op().one;
        grads_ = grads_of_part_.data();
        for (int i = 0; i < whole.inputs(); ++i)
            if (!whole.needs(i)) unneeded_.add(i);
        for (int k = 0; k < walk.outputs(); ++k) {
            Tensor t = whole.grad(k);
            if (t.defined() && !by_ops_) t = as_contiguous(t);
            flat_grads_.push_back(t);
        }
    }
    void move() {
        attrs_ = walk_.attrs();
        for (int k = 0; k < walk_.outputs(); ++k)
            grads_[k] = shown(flat_grads_[static_cast<size_t>(k)], walk_.out(k));
    }
    Dims in_shape(int i) const override {
        return walk_.own(i) ? Dims(walk_.in(i).shape) : whole_.in_shape(i);
    }
    Dims in_layout(int i) const override {
        if (!walk_.own(i)) return whole_.in_layout(i);
        Dims out = contiguous_strides(walk_.in(i).shape);
        out.push_back(0);
        return out;
    }
    Dims out_shape(int k) const override { return Dims(walk_.out(k).shape); }
    DType out_dtype(int k) const override { return walk_.dtype(k); }
    int inputs() const override { return whole_.inputs(); }
    Tensor constant_in(int i, Tensor gradient, const char* node, bool zero) const override {
        return whole_.constant_in(i, std::move(gradient), node, zero);
    }
    void set(int i, Tensor value) override {
        if (needs(i)) found_.add(i, std::move(value));
    }
    void set_product(int i, const Tensor& a, const Tensor& b) override {
        if (needs(i)) found_.add(i, matmul(transpose(a, 0, 1), b));
    }
    /// Of a shared input, whose parts the engine adds up.
    using Grad::set_part;
    bool set_part(int i, const Tensor& grad, PartRule add, const Tensor& where) override {
        return joint_ && !walk_.own(i) && !walk_.attrs_differ() &&
               joint_->set_part(i, grad, add, where);
    }

protected:
    Tensor saved(int bit) const override {
        auto at = static_cast<size_t>(bit);
        if (saved_.size() <= at) saved_.resize(at + 1);
        Tensor& t = saved_[at];
        if (!t.defined()) t = bit < 16 ? whole_.in(bit) : whole_.out(bit - 16);
        if (bit < 16 && !walk_.own(bit)) return t;
        return shown(t, bit < 16 ? walk_.in(bit) : walk_.out(bit - 16));
    }

private:
    Tensor shown(const Tensor& flat, const Walk::Part& part) const {
        if (!flat.defined()) return flat;
        if (!by_ops_) return walked_part(flat, part);
        return view(narrow(reshape(flat, Dims{-1}), 0, part.start, part.numel), Dims(part.shape));
    }

    const Grad& whole_;
    Grad* joint_;
    const Walk& walk_;
    Gradients& found_;
    bool by_ops_;
    std::vector<Tensor> grads_of_part_, flat_grads_;
    mutable std::vector<Tensor> saved_;
};

template <int I>
Tensor each_gradient(const Grad& g) {
    const Op& op = *g.op().one;
    Walk walk(op, &g.attr(0));
    Gradients found(g, walk);
    PartGrad part(g, nullptr, walk, found);
    while (walk.next()) {
        part.move();
        found.add(I, op.grads[I](part));
    }
    return found.of(I);
}

void each_joint(Grad& g) {
    const Op& op = *g.op().one;
    Walk walk(op, &g.attr(0));
    Gradients found(g, walk);
    PartGrad part(g, &g, walk, found);
    while (walk.next()) {
        part.move();
        op.joint(part);
    }
    for (int i = 0; i < g.inputs(); ++i) {
        Tensor sum = found.of(i);
        if (sum.defined()) g.set(i, sum);
    }
}

constexpr int kMostInputs = 8;

template <int... I>
GradRule each_rule(int i, std::integer_sequence<int, I...>) {
    static constexpr GradRule rules[] = {each_gradient<I>...};
    return rules[i];
}

/// What the record of one call says holds for several, but for what is set here.
Op over_several(const Op& op) {
    Op out = op;
    out.one = &op;
    Param calls;
    calls.name = "calls";
    calls.kind = Param::Kind::Ints;
    calls.slot = static_cast<int>(out.defaults.size());
    out.params.push_back(calls);
    out.defaults.emplace_back();
    out.shape = each_shape;
    out.kernel = each_kernel;
    if (op.flops) out.flops = each_flops;
    out.view = out.strided_output = false;
    out.every_dtype = true;
    for (size_t i = 0; i < out.grads.size(); ++i)
        if (out.grads[i])
            out.grads[i] =
                each_rule(static_cast<int>(i), std::make_integer_sequence<int, kMostInputs>());
    if (out.joint) out.joint = each_joint;
    out.backward_name = nullptr;  // it asks one call
    if (out.node_name.empty()) out.node_name = out.name;
    out.batch = Batch::None;
    out.pointwise = false;
    out.batch_rule = nullptr;
    out.batch_shared = InputSet();
    out.autocast = Cast::None;  // each call has been cast before it was kept
    return out;
}

}  // namespace

void append_head(std::vector<int64_t>& words, int64_t calls, const std::vector<EachInput>& inputs,
                 const std::vector<DType>& outputs, const std::vector<int>& differing) {
    words.push_back(calls);
    words.push_back(static_cast<int64_t>(inputs.size()));
    for (EachInput in : inputs) words.push_back(static_cast<int64_t>(in));
    words.push_back(static_cast<int64_t>(outputs.size()));
    for (DType t : outputs) words.push_back(static_cast<int64_t>(t));
    words.push_back(static_cast<int64_t>(differing.size()));
    words.insert(words.end(), differing.begin(), differing.end());
}

void append_shape(std::vector<int64_t>& words, DimSpan shape) {
    words.push_back(static_cast<int64_t>(shape.size()));
    words.insert(words.end(), shape.begin(), shape.end());
}

int64_t elements_of(const std::vector<int64_t>& words, const std::vector<EachInput>& inputs,
                    size_t i) {
    const int64_t* at = words.data();
    for (size_t before = 0; before < i; ++before)
        if (inputs[before] != EachInput::Shared) at += *at + 1;
    int64_t n = 1;
    for (int64_t d : DimSpan(at + 1, static_cast<size_t>(*at))) n *= d;
    return n;
}

void append_attribute(std::vector<int64_t>& words, const Value& value) {
    words.push_back(static_cast<int64_t>(value.kind()));
    if (value.kind() == Value::Kind::Float)
        words.push_back(std::bit_cast<int64_t>(value.as_double()));
    else if (value.kind() == Value::Kind::Int) words.push_back(value.as_int());
    else if (value.kind() == Value::Kind::Ints) append_shape(words, value.as_ints());
}

bool may_differ(const Op& op, size_t k, const Value& value) {
    using Kind = Value::Kind;
    if (value.kind() != Kind::None && value.kind() != Kind::Float && value.kind() != Kind::Int &&
        value.kind() != Kind::Ints)
        return false;
    for (const Param& p : op.params)
        if (!p.is_input() && p.slot == static_cast<int>(k))
            return p.kind == Param::Kind::Float || p.kind == Param::Kind::Scalar ||
                   p.kind == Param::Kind::Ints;
    return false;
}

bool has_each(const Op& op) {
    if (op.random || op.body || !(op.kernel || op.view) || op.inputs > kMostInputs) return false;
    if (op.batch != Batch::Rows) return false;
    for (const Param& p : op.params)
        if (p.kind == Param::Kind::Tensors) return false;
    return true;
}

const Op& each_of(const Op& op) {
    if (!op.each) op.each = std::make_shared<const Op>(over_several(op));
    return *op.each;
}

Span outputs_of_part(const Op& op, const Value* attrs, int saved, Span part, int k) {
    Walk walk(*op.one, attrs);
    Span found{INT64_MAX, 0};
    while (walk.next()) {
        if (saved >= 16 || walk.own(saved)) {
            const Walk::Part& of = saved < 16 ? walk.in(saved) : walk.out(saved - 16);
            if (of.start >= part.end || of.start + of.numel <= part.begin) continue;
        }
        const Walk::Part& out = walk.out(k);
        found = {std::min(found.begin, out.start), std::max(found.end, out.start + out.numel)};
    }
    return found;
}

}  // namespace weft::ops
