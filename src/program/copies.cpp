/// Copies that a plan need not make.
#include <algorithm>
#include <numeric>

#include "ops/functions.h"
#include "ops/matmul.h"
#include "program/plan.h"

namespace weft::program {
namespace {

using Kind = SegmentValue::Kind;

/// Ops that give the elements of their input in row-major order, in memory of their own.
bool is_copy(const Op& op) {
    static const ops::Function copies[] = {ops::Function("_unsafe_view"),
                                           ops::Function("_contiguous_copy"),
                                           ops::Function("_squeeze_row")};
    return std::any_of(std::begin(copies), std::end(copies),
                       [&](const ops::Function& f) { return &f.op() == &op; });
}
bool is_batched_product(const Op& op) {
    static const ops::Function bmm{"bmm"};
    return &bmm.op() == &op;
}

class CopyFinder {
public:
    CopyFinder(const Segment& segment, const std::vector<int32_t>& held)
        : segment_(segment), held_(held), is_held_(segment.values.size()),
          uses_(segment.values.size()) {}

    /// Null: there is none.
    Ref<Segment> run() {
        const auto is = [](const Step& s) { return is_copy(*s.op); };
        if (std::none_of(segment_.steps.begin(), segment_.steps.end(), is)) return {};
        made_ = segment_.copy();
        for (int32_t v : held_) is_held_[root(v)] = 1;
        for (const Step& s : made_->steps)
            if (is_copy(*s.op)) share(s);
        for (const Step& s : made_->steps)
            for (int k = 0; k < s.operands && !s.op->view && !is_left_out(s); ++k)
                if (const int32_t v = made_->operand(s, k); v >= 0) ++uses_[root(v)];
        for (const Step& s : made_->steps) {
            if (!is_batched_product(*s.op)) continue;
            for (int k : {0, 1}) read_where_it_lies(s, k);
        }
        for (const Step& s : made_->steps)
            if (is_copy(*s.op) && !is_left_out(s)) write_where_it_goes(s);
        return has_changed_ ? std::move(made_) : Ref<Segment>();
    }

private:
    size_t root(int32_t v) const { return static_cast<size_t>(made_->place_of(v).root); }
    SegmentValue& value(int32_t v) { return made_->values[static_cast<size_t>(v)]; }
    bool is_left_out(const Step& s) const { return made_->value(s.first_out).kind == Kind::View; }

    /// Nothing runs for the step: its result is what lies where `of` does.
    void leave_out(const Step& s, int32_t of) {
        SegmentValue& out = value(s.first_out);
        out.kind = Kind::View;
        out.of = of;
        out.offset = 0;
        has_changed_ = true;
    }
    /// What lies in order already is read where it is.
    void share(const Step& s) {
        const int32_t from = made_->operand(s, 0);
        if (!is_held_[static_cast<size_t>(s.first_out)] && made_->layout(from).contiguous())
            leave_out(s, from);
    }

    /// The product of a step with another layout of an operand or of the result; false: there is none, or it would sum
    /// in another order.
    bool same_product(const Step& s, int operand, const Tensor& in, const Tensor& out) const {
        Tensor ins[2] = {made_->layout(made_->operand(s, 0)), made_->layout(made_->operand(s, 1))};
        auto product = [&](const Tensor& result, ops::Product& p) {
            Call c(*s.op, ins, 2, made_->attrs.data() + s.first_attr);
            c.add(result);
            return ops::find_product(c, p);
        };
        ops::Product before, after;
        if (!product(made_->layout(s.first_out), before)) return false;
        if (operand >= 0) ins[operand] = in;
        return product(out, after) && after.trans_a == before.trans_a &&
               after.trans_b == before.trans_b;
    }

    /// A product reads what was copied for it alone in its place.
    void read_where_it_lies(const Step& s, int k) {
        const int32_t v = made_->operand(s, k);
        if (made_->value(v).kind != Kind::Result || is_held_[static_cast<size_t>(v)] ||
            uses_[static_cast<size_t>(v)] != 1)
            return;
        const Step& copy = made_->steps[static_cast<size_t>(made_->value(v).step)];
        if (!is_copy(*copy.op)) return;
        const int32_t from = made_->operand(copy, 0);
        if (!same_product(s, k, made_->layout(from), made_->layout(s.first_out))) return;
        made_->operands[static_cast<size_t>(s.first_operand + k)] = from;
        leave_out(copy, from);  // nobody reads it
    }

    /// A product writes what is only copied into another order in that one.
    void write_where_it_goes(const Step& copy) {
        const int32_t from = made_->operand(copy, 0), out = copy.first_out;
        const Tensor& seen = made_->layout(from);
        const auto made = static_cast<int32_t>(root(from));
        if (made_->value(made).kind != Kind::Result || is_held_[static_cast<size_t>(made)] ||
            is_held_[static_cast<size_t>(out)] || uses_[static_cast<size_t>(made)] != 1)
            return;
        const Step& s = made_->steps[static_cast<size_t>(made_->value(made).step)];
        if (!is_batched_product(*s.op) || seen.ndim() != 4 || seen.numel() == 0 ||
            seen.numel() != made_->layout(made).numel() || !is_dense(seen.shape(), seen.strides()))
            return;
        int order[4];  // its dimensions as they lie
        std::iota(order, order + 4, 0);
        std::stable_sort(order, order + 4,
                         [&](int a, int b) { return seen.stride(a) > seen.stride(b); });
        const Dims wanted = contiguous_strides(seen.shape());
        Dims sizes, strides;
        for (int d : order) {
            sizes.push_back(seen.size(d));
            strides.push_back(wanted[static_cast<size_t>(d)]);
        }
        const Tensor layout = Tensor::layout(seen.dtype(), sizes, strides);
        if (!same_product(s, -1, {}, layout)) return;
        value(made).layout = layout;
        leave_out(copy, made);
    }

    const Segment& segment_;
    const std::vector<int32_t>& held_;
    Ref<Segment> made_;
    std::vector<uint8_t> is_held_;
    std::vector<int32_t> uses_;  ///< by steps that run, of a root
    bool has_changed_ = false;
};

}  // namespace

Ref<Segment> without_copies(Ref<Segment> segment, const std::vector<int32_t>& held) {
    Ref<Segment> found = CopyFinder(*segment, held).run();
    return found ? found : segment;
}

}  // namespace weft::program
