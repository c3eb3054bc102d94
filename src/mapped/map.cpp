/// Reading guide: `map` is the door's hook: it finds the level of a call, lets levels go alone, and
/// hands on. `run_mapped` chooses how: writes, views, `run_pointwise`, `run_rows` (by the record's
/// batch rule), `run_parts` (Note [Each] in ops/each.h), `run_singly`.
#include <algorithm>

#include "mapped/level.h"
#include "ops/batch.h"
#include "ops/each.h"
#include "ops/functions.h"
#include "ops/pointwise.h"
#include "ops/write.h"

namespace weft::mapped {
namespace {

using ops::Function;

const Function copy_op{"copy"}, contiguous_copy{"_contiguous_copy"};

/// A call has no way for all examples at once.
struct NoWay {};

Dims joined(std::initializer_list<int64_t> first, DimSpan rest) {
    Dims out;
    for (int64_t d : first) out.push_back(d);
    for (int64_t d : rest) out.push_back(d);
    return out;
}

/// `whole` of values that broadcast with others of `ndim` dimensions.
Tensor broadcasting(const Tensor& whole, int ndim) {
    if (whole.ndim() > ndim) return whole;
    Dims shape = joined({whole.size(0)}, Dims(ndim + 1 - whole.ndim(), 1));
    for (int64_t d : whole.shape().subspan(1)) shape.push_back(d);
    return ops::view(whole, shape);
}

/// One call for all examples of a level.
class MappedCall {
public:
    MappedCall(Level& level, Call& c) : level_(level), c_(c), op_(*c.op) {
        for (int i = 0; i < c.inputs; ++i) mapped_[i] = c.in[i].defined() && on_level(c.in[i]);
    }
    void run();
    void run_draw();

private:
    bool on_level(const Tensor& t) const {
        return is_mapped(t) && mapped(t).level.get() == &level_;
    }
    const Tensor& whole(int i) const { return mapped(c_.in[i]).whole; }
    Tensor whole_or_repeated(int i) const { return whole_of(level_, c_.in[i]); }

    void run_layout();
    bool overlaps() const;
    void run_write();
    void run_alias();
    void run_view();
    bool run_pointwise(const Call& laid_out);
    bool run_rows(const Call& laid_out);
    bool run_parts(const Call& laid_out);
    void run_singly();
    Tensor indices(const BatchForm& form, size_t k) const;
    Tensor operand(const BatchForm& form, size_t k, bool apart) const;
    void take_rows(Call& made, const Call& laid_out);
    Tensor as_in_one(const Tensor& whole, const Tensor& one) const;

    Level& level_;
    Call& c_;
    const Op& op_;
    std::vector<uint8_t> mapped_ = std::vector<uint8_t>(static_cast<size_t>(c_.inputs));
};

void MappedCall::run() {
    if (op_.batch == Batch::Layout) return run_layout();
    if (c_.dest.defined()) return run_write();
    if (op_.body && op_.batch == Batch::Body) return op_.body(c_);
    if (op_.random || (op_.view && op_.batch == Batch::None)) throw NoWay{};
    if (op_.batch == Batch::None) return run_singly();  // its shape rule may look at memory
    if (op_.batch == Batch::Alias) return run_alias();
    if (op_.view) return run_view();
    Call laid_out(op_, c_.in, c_.inputs, c_.attrs);
    op_.shape(laid_out);
    Scope outside(level_.outer.get());
    if (run_pointwise(laid_out) || run_rows(laid_out) || run_parts(laid_out)) return;
    run_singly();
}

/// What reads shapes and dtypes only is the same for all examples.
void MappedCall::run_layout() {
    std::vector<Tensor> in(c_.in, c_.in + c_.inputs);
    for (Tensor& t : in)
        if (t.defined() && t.has(kPending)) t = Tensor::layout(t.dtype(), t.shape(), t.strides());
    Call plain(op_, in.data(), c_.inputs, c_.attrs);
    ops::call(plain);
    c_.take(plain);
}

/// Whether an operand shares memory with what is written, which the op may refuse.
bool MappedCall::overlaps() const {
    auto in_one = [](const Tensor& t) { return bottom_of(t).view_as(t.shape(), t.strides()); };
    const Tensor dest = in_one(c_.dest);
    for (int i = c_.in_place; i < c_.inputs; ++i) {
        if (!c_.in[i].defined() || op_.overlap == Overlap::Any || op_.overlap_allowed.has(i))
            continue;
        const Tensor in = in_one(c_.in[i]);
        const bool same = op_.overlap == Overlap::Same && in.bytes() == dest.bytes() &&
                          equal(in.shape(), dest.shape()) && equal(in.strides(), dest.strides());
        if (in.may_overlap(dest) && !same) return true;
    }
    return false;
}

/// A write is the op without a destination, copied into the whole: of the result's shape and dtype, or
/// the first example says what is wrong. What the graph saves of the op must not be written.
void MappedCall::run_write() {
    const Tensor dest = c_.dest;
    if (overlaps()) throw NoWay{};
    std::vector<Tensor> in(c_.in, c_.in + c_.inputs);
    const auto& memory = bottom_of(dest).storage();
    auto used = [](const Tensor& t) { return t.defined() && bottom_of(t).has(kTracked); };
    if (mode & kGradMode && std::any_of(in.begin(), in.end(), used))
        for (Tensor& t : in)
            if (t.defined() && bottom_of(t).storage() == memory) t = ops::clone(t);
    Call apart(op_, in.data(), c_.inputs, c_.attrs);
    ops::call(apart);
    const Tensor& result = apart.out(0);
    if (!on_level(dest) || !equal(result.shape(), dest.shape()) || result.dtype() != dest.dtype())
        throw NoWay{};
    Scope outside(level_.outer.get());
    const Tensor to = mapped(dest).whole;
    const Tensor copied[] = {to, whole_of(level_, result)};
    Call write(copy_op.op(), copied, 2, copy_op.op().defaults.data());
    write.dest = to;
    write.in_place = true;
    ops::call(write);
    c_.outputs = 1;
    c_.out(0) = dest;
    for (int k = 1; k < apart.outputs; ++k) c_.add(apart.out(k));
}

/// The same elements under another shape.
void MappedCall::run_alias() {
    Call laid_out(op_, c_.in, c_.inputs, c_.attrs);
    op_.shape(laid_out);
    Scope outside(level_.outer.get());
    Dims shape = joined({level_.size}, laid_out.out(0).shape());
    c_.add(map_over(level_, op_.view ? ops::view(whole(0), shape) : ops::reshape(whole(0), shape)));
}

/// A view of the whole, by the rule of the record, whose dims count from the end.
void MappedCall::run_view() {
    Call laid_out(op_, c_.in, c_.inputs, c_.attrs);
    op_.shape(laid_out);
    BatchForm form;
    const bool has_rows = form.ask({laid_out, InputSet()});
    Scope outside(level_.outer.get());
    if (!has_rows) {
        const Tensor& in = c_.in[0];
        if (laid_out.outputs == 1 && equal(laid_out.out(0).shape(), in.shape()) &&
            equal(laid_out.out(0).strides(), in.strides()))
            return c_.add(map_over(level_, ops::view(whole(0), Dims(whole(0).shape()))));
        if (laid_out.out(0).numel()) throw NoWay{};
        return run_singly();  // no element, and so nothing that a write could reach
    }
    const BatchForm::Input& input = form.in[0];
    Tensor from = whole(0);
    if (input.row.size() > c_.in[0].ndim())
        from = ops::view(from, joined({level_.size}, input.row));
    Call view(*form.op, &from, 1, form.attrs.data());
    ops::call(view);
    if (view.outputs != laid_out.outputs) throw NoWay{};
    for (int k = 0; k < view.outputs; ++k) {
        if (!equal(view.out(k).shape(), joined({level_.size}, laid_out.out(k).shape())))
            throw NoWay{};
        c_.add(map_over(level_, view.out(k)));
    }
}

/// One draw for all examples: of as many elements, from the wholes of what it depends on.
void MappedCall::run_draw() {
    std::vector<Tensor> in(c_.in, c_.in + c_.inputs);
    std::vector<Value> attrs(c_.attrs, c_.attrs + op_.defaults.size());
    Scope outside(level_.outer.get());
    int ndim = 0;
    for (const Tensor& t : in) ndim = std::max(ndim, t.defined() ? t.ndim() : 0);
    bool any = false;
    for (Tensor& t : in) {
        if (!t.defined()) continue;
        any = true;
        t = broadcasting(whole_of(level_, t), ndim);
    }
    for (const Param& p : op_.params)
        if (!p.is_input() && p.name == "size" && p.kind == Param::Kind::Ints) {
            Value& size = attrs[static_cast<size_t>(p.slot)];
            if (!size.none()) size = Value(joined({level_.size}, size.as_ints()));
            any = true;
        }
    if (!any) throw NoWay{};
    Call all(op_, in.data(), c_.inputs, attrs.data());
    ops::call(all);
    for (int k = 0; k < all.outputs; ++k) {
        if (all.out(k).ndim() == 0 || all.out(k).size(0) != level_.size) throw NoWay{};
        c_.add(map_over(level_, all.out(k)));
    }
}

/// `whole` laid out in each row as the result of one example is: code may ask for a view of it.
Tensor MappedCall::as_in_one(const Tensor& whole, const Tensor& one) const {
    if (!one.contiguous() || whole.contiguous()) return whole;
    return contiguous_copy(whole);
}

/// Element by element: operands broadcast over the examples, if that does not change the dtype.
bool MappedCall::run_pointwise(const Call& laid_out) {
    if (op_.batch_rule != ops::batch_pointwise || laid_out.outputs != 1) return false;
    const Tensor& out = laid_out.out(0);
    std::vector<Tensor> in(c_.in, c_.in + c_.inputs);
    for (int i = 0; i < c_.inputs; ++i)
        if (mapped_[i]) in[i] = broadcasting(whole(i), out.ndim());
    if (c_.inputs > 1 && ops::promoted(in.data(), c_.inputs) != ops::promoted(c_.in, c_.inputs))
        return false;
    Call all(op_, in.data(), c_.inputs, c_.attrs);
    ops::call(all);
    c_.add(map_over(level_, as_in_one(all.out(0), out)));
    return true;
}

/// Indices into the rows of a table of each example, as indices into the rows of all.
Tensor MappedCall::indices(const BatchForm& form, size_t k) const {
    const BatchForm::Input& input = form.in[k];
    const BatchForm::Input& table = form.in[static_cast<size_t>(input.table)];
    const int64_t rows = table.rows < 0 ? form.rows : table.rows;
    Tensor from = ops::contiguous(whole_or_repeated(input.from));
    if (is_mapped(from) || from.has(kPending) || from.dtype() != DType::Int64) throw NoWay{};
    Tensor out = Tensor::empty(DType::Int64, Dims{from.numel()});
    const int64_t* at = from.data<int64_t>();
    auto* to = out.data<int64_t>();
    const int64_t each = from.numel() / level_.size;
    for (int64_t b = 0; b < level_.size; ++b, at += each, to += each)
        if (form.shift_indices(at, each, rows, b * rows, to) != at + each) throw NoWay{};
    return out;
}

/// Input k of the form, of all examples. `apart`: rows of each example in a dim of their own.
Tensor MappedCall::operand(const BatchForm& form, size_t k, bool apart) const {
    const BatchForm::Input& input = form.in[k];
    if (input.from < 0 || !c_.in[input.from].defined()) return {};
    if (input.shared) {
        if (mapped_[input.from] || input.unlike) throw NoWay{};
        return c_.in[input.from];
    }
    if (input.table >= 0) return indices(form, k);
    const int64_t rows = input.rows < 0 ? form.rows : input.rows;
    Dims shape =
        apart ? joined({level_.size, rows}, input.row) : joined({level_.size * rows}, input.row);
    Tensor t = whole_or_repeated(input.from);
    return equal(t.shape(), shape) ? t : ops::reshape(t, shape);
}

/// The results of a call over rows as those of the examples.
void MappedCall::take_rows(Call& made, const Call& laid_out) {
    for (int k = 0; k < laid_out.outputs; ++k) {
        const Tensor& one = laid_out.out(k);
        if (k >= made.outputs) throw NoWay{};
        auto [all, common, fits] = ops::output_over_rows(made, k, level_.size, one.numel(),
                                                         level_.size * one.numel(), one.dtype());
        if (!fits) throw NoWay{};
        const Dims shape = common ? Dims(one.shape()) : joined({level_.size}, one.shape());
        if (!equal(all.shape(), shape)) all = ops::reshape(all, shape);
        c_.add(common ? all : map_over(level_, as_in_one(all, one)));
    }
}

/// By the record's rule: the examples' rows beside each other.
bool MappedCall::run_rows(const Call& laid_out) {
    if (op_.batch != Batch::Rows && op_.batch != Batch::Join) return false;
    BatchForm form;
    InputSet fixed;
    for (int i = 0; i < c_.inputs; ++i)
        if (!mapped_[i]) fixed.add(i);
    if (c_.inputs > InputSet::kCounted || !form.ask({laid_out, fixed})) return false;
    for (const BatchForm::Input& input : form.in)
        if (input.shared && input.from >= 0 && mapped_[input.from]) return false;
    const bool apart = form.any_once();
    std::vector<Tensor> in;
    for (size_t k = 0; k < form.in.size(); ++k) in.push_back(operand(form, k, apart));
    const Dims counts(static_cast<int>(level_.size), form.rows);
    std::vector<Value> own_attrs;
    Call all(*form.op, in.data(), static_cast<int>(in.size()), form.attrs_over(counts, own_attrs));
    ops::call(all);
    all.out(0) = form.result_over(counts, all.out(0));
    take_rows(all, laid_out);
    return true;
}

/// As parts of one call, whose kernel runs for one example after the other.
bool MappedCall::run_parts(const Call& laid_out) {
    if (!ops::has_each(op_)) return false;
    std::vector<ops::EachInput> kinds;
    std::vector<Tensor> in(c_.in, c_.in + c_.inputs);
    std::vector<int64_t> one, words;
    for (int i = 0; i < c_.inputs; ++i) {
        kinds.push_back(mapped_[i] ? ops::EachInput::Own : ops::EachInput::Shared);
        if (!mapped_[i]) continue;
        ops::append_shape(one, c_.in[i].shape());
        in[i] = ops::reshape(whole(i), Dims{whole(i).numel()});
    }
    std::vector<DType> dtypes;
    for (int k = 0; k < laid_out.outputs; ++k) {
        const Tensor& out = laid_out.out(k);
        // Whether that is there depends on what is recorded in each part.
        if (op_.constant_outputs >> k & 1 && out.numel() == 0) return false;
        dtypes.push_back(out.dtype());
        ops::append_shape(one, out.shape());
    }
    ops::append_head(words, level_.size, kinds, dtypes, {});
    for (int64_t b = 0; b < level_.size; ++b) words.insert(words.end(), one.begin(), one.end());
    std::vector<Value> attrs(c_.attrs, c_.attrs + op_.defaults.size());
    attrs.emplace_back(DimSpan(words));
    Call all(ops::each_of(op_), in.data(), c_.inputs, attrs.data());
    ops::call(all);
    take_rows(all, laid_out);
    return true;
}

/// A call for each example.
void MappedCall::run_singly() {
    Scope outside(level_.outer.get());
    std::vector<std::vector<Tensor>> columns;
    std::vector<Tensor> in(c_.in, c_.in + c_.inputs);
    for (int64_t b = 0; b < level_.size; ++b) {
        for (int i = 0; i < c_.inputs; ++i)
            if (mapped_[i]) in[i] = ops::select(whole(i), 0, b);
        Call one(op_, in.data(), c_.inputs, c_.attrs);
        ops::call(one);
        columns.resize(static_cast<size_t>(one.outputs));
        for (int k = 0; k < one.outputs; ++k) columns[static_cast<size_t>(k)].push_back(one.out(k));
    }
    for (const std::vector<Tensor>& column : columns) {
        for (const Tensor& t : column)
            if (!t.defined() || !equal(t.shape(), column[0].shape())) throw NoWay{};
        c_.add(map_over(level_, ops::stack.over(column, {0})));
    }
}

/// The innermost level that an operand is mapped on; values of levels that are alone are settled.
Level* level_of(const Call& c) {
    Level* level = nullptr;
    auto look = [&](const Tensor& t) {
        while (t.defined() && is_mapped(t) && (mapped(t).level->alone || mapped(t).level->over))
            ops::settle(t);
        if (t.defined() && is_mapped(t) && (!level || mapped(t).level->number > level->number))
            level = mapped(t).level.get();
    };
    for (int i = 0; i < c.inputs; ++i) look(c.in[i]);
    if (c.dest.defined()) look(c.dest);
    return level;
}

/// Makes memory that only this tensor shows, made in the level, a value of each example.
bool adopt(Level& level, const Tensor& t) {
    if (t.impl()->slot || !t.contiguous() || t.has(kTracked) || t.has(kLooseView) ||
        t.has(kWrapped) || t.storage()->refs != 1 || t.storage()->maker < level.number)
        return false;
    Tensor whole = contiguous_copy(whole_of(level, t.alias()));
    ops::Write(t).hand_over(Ref<Mapped>(new Mapped(level, std::move(whole))));
    return true;
}

/// Levels inside of `at` for which a write to `dest` changes what their examples share go alone; `at`
/// itself takes the tensor over, or goes alone.
void note_write(const Tensor& dest, Level* at) {
    const Tensor& bottom = bottom_of(dest);
    const uint64_t maker = bottom.storage() ? uint64_t{bottom.storage()->maker} : UINT64_MAX;
    for (Level* level = Level::current(); level; level = level->outer.get()) {
        if (level->alone) return;
        if (is_mapped_on(*level, dest)) {
            if (maker < level->number) level->go_alone();  // an input of the function
            return;
        }
        if (level == at) {
            Scope outside(level->outer.get());
            if (!is_mapped(dest) && adopt(*level, dest)) return;
            return level->go_alone();
        }
        if (maker < level->number) return level->go_alone();
    }
}

/// The call once more through the door, after what decides where it goes has changed.
bool call_anew(Call& c) {
    Call again(*c.op, c.in, c.inputs, c.attrs);
    again.dest = c.dest;
    again.in_place = c.in_place;
    ops::call(again);
    c.take(again);
    return true;
}

/// Random numbers of a level are the same for all examples, or drawn for all at once, as PyTorch does.
/// False if `c` goes on as any call: it is a write, or the first example draws.
bool draw(Call& c, Level*& at) {
    Level& level = *Level::current();
    WEFT_EXPECT(level.draws != Draws::Error, Runtime, "vmap", "a function without random numbers",
                text("one that draws them in ", c.op->public_name,
                     " (vmap: called random operation while in randomness error mode)"),
                "randomness='different' or 'same'");
    if (level.alone) return false;
    if (level.draws == Draws::Different) {
        at = &level;
        if (!c.dest.defined()) MappedCall(level, c).run_draw();
        return !c.dest.defined();
    }
    if (at == &level) {  // the same numbers for unlike values: example by example
        level.go_alone();
        return false;
    }
    Scope outside(level.outer.get());
    return call_anew(c);
}

bool map(Call& c) {
    Level* level = level_of(c);
    Ref<Level> keep;
    try {
        if (c.op->random && c.op->kernel && Level::current() && draw(c, level)) return true;
        if (level && level->alone) level = level_of(c);
        if (c.dest.defined() && level) {
            note_write(c.dest, level);
            if (level->alone) level = level_of(c);
        }
        if (!level) return false;
        keep = Ref<Level>(level);
        MappedCall(*level, c).run();
        return true;
    } catch (const NoWay&) {
    } catch (const Error&) {  // the first example will say the same, in its own words, or go on
        if (!level || level->alone) throw;
    }
    level->go_alone();
    return call_anew(c);
}

bool (*change_below)(const Tensor& t);

/// What changes other than by a call with mapped operands.
bool before_change(const Tensor& t) {
    if (mode & kMapMode && Level::current()) {
        if (is_mapped(t)) ops::settle(t);
        note_write(t, nullptr);
    }
    return change_below && change_below(t);
}

}  // namespace

void install() {
    ops::hooks.map = map;
    change_below = std::exchange(ops::hooks.before_change, before_change);
}

}  // namespace weft::mapped
