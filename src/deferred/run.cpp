/// Runs the batches of a plan through the door, so that the graph records the batched calls.
///
/// Every result of a batch is a block: a contiguous tensor that holds the results of its calls one
/// after the other. An operand of the next batch is taken from the blocks as it lies, if its pieces
/// stand at equal distances, and is packed otherwise, once for all calls.
#include <algorithm>
#include <cstring>
#include <map>

#include "deferred/tape.h"
#include "ops/functions.h"
#include "ops/pointwise.h"

namespace weft::deferred {
namespace {

using Calls = std::span<const uint32_t>;

class DefaultDType {
public:
    explicit DefaultDType(DType t) : before_(std::exchange(ops::default_dtype, t)) {}
    ~DefaultDType() { ops::default_dtype = before_; }
    DefaultDType(const DefaultDType&) = delete;

private:
    DType before_;
};

/// What a view shows a part of, if nobody can ask for the view's own gradient any more; else null.
const Tensor* base_of_unwatched(const Tensor& t) {
    return t.has(kTracked) && !t.impl()->wrapper ? ops::hooks.base(t) : nullptr;
}

class Runner {
public:
    Runner(Waiting& load, const Kinds& kinds, FlushReport* report)
        : load_(load), kinds_(kinds), report_(report), places_(load.outputs.size()),
          external_places_(load.externals.size()) {}

    /// Runs the batches in order.
    void run_all(const Plan& plan);
    std::vector<Ref<Failure>> failures() { return std::move(failures_); }
    /// Gives the outputs that somebody still holds their places.
    void hand_over();

private:
    static constexpr uint32_t kNone = UINT32_MAX;
    struct Place {
        uint32_t block = kNone;
        int64_t start = 0;
    };
    struct Piece {
        uint32_t block;
        int64_t start, count;
    };

    const Class& class_of(uint32_t call) const { return kinds_.classes[load_.calls[call].of_class]; }
    int64_t rows_of(uint32_t call) const { return class_of(call).rows; }
    /// Rows of input k of the form.
    int64_t rows_of(uint32_t call, size_t k) const {
        const Class& c = class_of(call);
        return c.sizes.empty() ? c.rows : c.sizes[k];
    }
    Tensor shifted_indices(const BatchForm& form, size_t k, Calls calls);
    const Tensor& shared(uint32_t call, const BatchForm::Input& input) const {
        return load_.externals[static_cast<size_t>(~operand(call, input.from).value)];
    }
    bool differ(const BatchForm::Input& input, Calls calls) const;
    Tensor unlike(const BatchForm& form, const BatchForm::Input& input, Calls calls, int64_t total);
    const Operand& operand(uint32_t call, int i) const {
        return load_.operands[load_.calls[call].operands + static_cast<uint32_t>(i)];
    }
    /// How pieces lie: `runs` runs of `length` elements, `step` apart; 0 runs: in no such order.
    struct Lie {
        uint32_t block = kNone;
        int64_t start = 0, runs = 0, length = 0, step = 0;
    };
    /// An input of a batched call.
    struct Operands {
        size_t input;
        std::vector<Piece> pieces;
        Lie lie;
        int64_t rows = 0;
    };

    void run_batch(Calls calls);
    void find_last_uses(const Plan& plan);
    uint32_t add_block(Tensor t);
    Place place(const Operand& o);
    Place external_place(const Tensor& t);
    static Lie lie_of(const std::vector<Piece>& pieces);
    static Dims shape_for(const std::vector<Operands>& operands, int64_t total);
    Tensor assemble(const Operands& o, const Dims& shape, bool grad);
    Tensor assemble(std::vector<Piece> pieces, const Dims& shape, bool grad) {
        Lie lie = lie_of(pieces);
        return assemble({0, std::move(pieces), lie, 0}, shape, grad);
    }
    void run_rows(const Kind& kind, Calls calls);
    void run_join(const Kind& kind, Calls calls);
    void run_single(const Kind& kind, uint32_t call);
    void run_one(const Kind& kind, Calls calls);
    void finish(Call& c, Calls calls);
    void fail(uint32_t call, const Ref<Failure>& failure);
    std::vector<uint32_t> sound(Calls calls);
    void note(const Kind& kind, Calls calls);
    std::string difference(const Kind& a, uint32_t call_a, const Kind& b, uint32_t call_b) const;
    void count(const Kind& kind, Calls calls);

    Waiting& load_;
    const Kinds& kinds_;
    FlushReport* report_;
    BatchReport* batch_ = nullptr;
    std::vector<Place> places_;
    std::vector<Place> external_places_;
    std::unordered_map<const TensorImpl*, uint32_t> base_blocks_;
    std::vector<Tensor> blocks_;
    std::vector<Ref<Failure>> failed_;            ///< by call; empty as long as none failed
    std::vector<Ref<Failure>> failures_;
    std::vector<uint32_t> last_use_;              ///< of each output: the last batch that reads it
    std::vector<std::vector<uint32_t>> expiring_; ///< blocks that nobody reads after batch b
    uint32_t batch_number_ = 0;
    std::vector<uint32_t> first_of_line_;         ///< a call each, for the report
    std::vector<const Tensor*> matrices_;         ///< shared ones, for Note [Worth]
    int64_t unrecorded_weights_ = 0;
};

uint32_t Runner::add_block(Tensor t) {
    static const ops::Function contiguous{"contiguous"};
    if (!t.contiguous()) t = contiguous(t);
    blocks_.push_back(std::move(t));
    return static_cast<uint32_t>(blocks_.size() - 1);
}

Runner::Place Runner::place(const Operand& o) {
    if (o.value >= 0) {
        Place p = places_[static_cast<size_t>(o.value)];
        p.start += o.offset;
        return p;
    }
    auto e = static_cast<size_t>(~o.value);
    Place& known = external_places_[e];
    if (known.block == kNone) known = external_place(load_.externals[e]);
    return {known.block, known.start + o.offset};
}

/// A tensor with memory is a block; a dense view of one (`E[k]`) that nobody watches is a piece of it,
/// so that the gradients of all such views are one.
Runner::Place Runner::external_place(const Tensor& t) {
    const Tensor* base = t.contiguous() ? base_of_unwatched(t) : nullptr;
    if (base && base->contiguous() && base->dtype() == t.dtype()) {
        auto [at, fresh] = base_blocks_.try_emplace(base->impl(), kNone);
        if (fresh) at->second = add_block(*base);
        return {at->second, t.offset() - base->offset()};
    }
    ModeGuard now(kGradMode, kInferenceMode);  // a copy may serve calls of other modes later
    return {add_block(t), 0};
}

/// Whether the pieces are one run of elements, or equal runs at equal distances, in one block.
Runner::Lie Runner::lie_of(const std::vector<Piece>& pieces) {
    Lie lie{pieces[0].block, pieces[0].start, 0, 0, 0};
    int64_t start = lie.start, length = 0;
    auto end_run = [&] {
        if (lie.runs == 0) lie.length = length;
        else if (length != lie.length) return false;
        if (lie.runs == 1) lie.step = start - lie.start;
        else if (lie.runs > 1 && start != lie.start + lie.runs * lie.step) return false;
        ++lie.runs;
        return lie.step >= 0;
    };
    for (const Piece& p : pieces) {
        if (p.block != lie.block) return {};
        if (p.start == start + length) {
            length += p.count;
            continue;
        }
        if (!end_run()) return {};
        start = p.start;
        length = p.count;
    }
    return end_run() && lie.length > 0 ? lie : Lie{};
}

/// Elements as [runs, length]: of the operands that can be read only so, where the op works element
/// by element and so takes any shape.
Dims Runner::shape_for(const std::vector<Operands>& operands, int64_t total) {
    for (const Operands& o : operands)
        if (o.lie.runs > 1) return {o.lie.runs, o.lie.length};
    return {total};
}

/// The pieces one after the other: as they lie if they can be read so, else packed.
Tensor Runner::assemble(const Operands& o, const Dims& shape, bool grad) {
    static const ops::Function region{"_region"}, pack{"_pack"}, view{"view"};
    const Lie& lie = o.lie;
    bool one_run = lie.runs == 1;
    if (one_run || (lie.runs > 1 && shape.size() > 0 && shape[0] == lie.runs)) {
        if (batch_) ++batch_->aliased;
        const Tensor& block = blocks_[lie.block];
        if (one_run && lie.start == 0 && lie.length == block.numel())
            return equal(block.shape(), shape) ? block : view(block, shape);
        bool tracked = grad && block.has(kTracked);
        Dims rows = shape.empty() ? Dims{1} : shape;
        int64_t step = one_run ? ops::row_size(rows) / std::max<int64_t>(rows[0], 1) : lie.step;
        if (tracked) {
            Tensor t = region(block, lie.start, step, rows);
            return shape.empty() ? view(t, shape) : t;
        }
        Dims strides(Tensor::layout(block.dtype(), shape).strides());
        if (!shape.empty()) strides[0] = step;
        Tensor t = Tensor::layout(block.dtype(), shape, strides);
        t.share(block, lie.start);
        return t;
    }
    tally.pieces += static_cast<int64_t>(o.pieces.size());
    if (batch_) {
        ++batch_->packed;
        batch_->pieces += static_cast<int64_t>(o.pieces.size());
    }
    std::vector<Tensor> sources;
    std::vector<int32_t> number(blocks_.size(), -1);
    Dims flat;
    for (const Piece& p : o.pieces) {
        if (!flat.empty() && number[p.block] == flat[flat.size() - 3] &&
            p.start == flat[flat.size() - 2] + flat.back()) {
            flat.back() += p.count;  // it goes on where the last one ends
            continue;
        }
        int32_t& s = number[p.block];
        if (s < 0) {
            s = static_cast<int32_t>(sources.size());
            sources.push_back(blocks_[p.block]);
        }
        flat.push_back(s);
        flat.push_back(p.start);
        flat.push_back(p.count);
    }
    return pack.over(sources, {flat, shape});
}

void Runner::run_rows(const Kind& kind, Calls calls) {
    static const ops::Function segment_sum{"_segment_sum"}, view{"view"};
    const BatchForm& form = kind.form;
    int64_t total = 0, packed = 0;
    SmallVector<size_t, 4> gathered;
    Dims counts;
    bool counted = form.counts_attr >= 0 || form.then != BatchForm::Then::Nothing;
    for (uint32_t call : calls) {
        total += rows_of(call);
        if (counted) counts.push_back(rows_of(call));
    }
    double start = report_ ? seconds() : 0;
    std::vector<Operands> operands;
    std::vector<Tensor> in(form.in.size());
    bool by_elements = form.counts_attr < 0 && kind.op->batch == Batch::Pointwise;
    for (size_t k = 0; k < in.size(); ++k) {
        const BatchForm::Input& input = form.in[k];
        if (input.from < 0 || operand(calls[0], input.from).none()) continue;
        if (input.shared) {
            in[k] = shared(calls[0], input);
            by_elements &= in[k].ndim() == 0;
            if (input.unlike && differ(input, calls)) {
                in[k] = unlike(form, input, calls, total);
                gathered.push_back(k);
            }
            continue;
        }
        if (input.table >= 0) {
            in[k] = shifted_indices(form, k, calls);
            by_elements = false;
            continue;
        }
        by_elements &= input.row.empty() && input.rows < 0;
        int64_t size = ops::row_size(input.row);
        Operands o{k, {}, {}, 0};
        o.pieces.reserve(calls.size());
        for (uint32_t call : calls) {
            Place p = place(operand(call, input.from));
            int64_t rows = rows_of(call, k);
            o.pieces.push_back({p.block, p.start, size * rows});
            o.rows += rows;
        }
        o.lie = lie_of(o.pieces);
        if (o.lie.runs == 0) packed += o.rows * size;
        operands.push_back(std::move(o));
    }
    if (calls.size() > 1 && packed / static_cast<int64_t>(calls.size()) >= large_call) {
        if (batch_) batch_->why = "operands too large to be gathered";
        for (size_t k = 0; k < calls.size(); ++k) run_rows(kind, calls.subspan(k, 1));
        return;
    }
    Dims elements = by_elements ? shape_for(operands, total) : Dims();
    for (const Operands& o : operands) {
        Dims shape = elements;
        if (!by_elements) {
            shape.push_back(o.rows);
            for (int64_t d : form.in[o.input].row) shape.push_back(d);
        }
        in[o.input] = assemble(o, shape, kind.mode & kGradMode);
    }
    if (by_elements && elements.size() != 1)
        for (size_t k : gathered) in[k] = view(in[k], elements);
    if (report_) report_->pack_s += seconds() - start;
    std::vector<Value> counted_attrs;
    const Value* attrs = form.attrs.data();
    if (form.counts_attr >= 0) {
        counted_attrs = form.attrs;
        counted_attrs[static_cast<size_t>(form.counts_attr)] = counts;
        attrs = counted_attrs.data();
    }
    Call c(*form.op, in.data(), static_cast<int>(in.size()), attrs);
    ops::call(c);
    if (form.then != BatchForm::Then::Nothing)
        c.out(0) = segment_sum(view(c.out(0), Dims{total}), counts, form.then == BatchForm::Then::Mean);
    if (batch_) batch_->rows += total;
    finish(c, calls);
}

/// Whether the calls have not all the same shared input.
bool Runner::differ(const BatchForm::Input& input, Calls calls) const {
    const Tensor& first = shared(calls[0], input);
    auto size = static_cast<size_t>(item_size(first.dtype()));
    const bool number = first.has(kWrapped), plain = !number && base_of_unwatched(first);
    return std::any_of(calls.begin() + 1, calls.end(), [&](uint32_t call) {
        const Tensor& t = shared(call, input);
        if (t.same(first)) return false;
        if (number) return std::memcmp(t.bytes(), first.bytes(), size) != 0;
        return !(plain && t.bytes() == first.bytes() && equal(t.strides(), first.strides()) &&
                 base_of_unwatched(t));
    });
}

/// Each call's own shared input, once for each of its rows (Note [Unlike]).
Tensor Runner::unlike(const BatchForm& form, const BatchForm::Input& input, Calls calls, int64_t total) {
    static const ops::Function index_select{"index_select"}, view{"view"};
    const Tensor& first = shared(calls[0], input);
    size_t dims = 0;  // of a row
    for (const BatchForm::Input& other : form.in)
        if (!other.shared) dims = other.row.size();
    Dims shape{total};
    for (size_t d = dims; d-- > 0;)
        shape.push_back(static_cast<int>(d) < first.ndim() ? first.size(first.ndim() - 1 - static_cast<int>(d)) : 1);
    if (first.has(kWrapped)) {
        Tensor out = Tensor::empty(input.as, shape);
        auto fill = [&]<class T>(T* to) {
            for (uint32_t call : calls) {
                const Tensor& number = shared(call, input);
                T value = std::is_integral_v<T> ? static_cast<T>(number.item_int())
                                                : static_cast<T>(number.item_double());
                to = std::fill_n(to, rows_of(call), value);
            }
        };
        if (input.as == DType::Float32) fill(out.data<float>());
        else if (input.as == DType::Float64) fill(out.data<double>());
        else fill(out.data<int64_t>());
        return out;
    }
    std::vector<Piece> pieces;
    std::map<std::pair<uint32_t, int64_t>, int64_t> numbers;
    Tensor rows = Tensor::empty(DType::Int64, Dims{total});
    auto* to = rows.data<int64_t>();
    for (uint32_t call : calls) {
        Place p = place(operand(call, input.from));
        auto [at, fresh] = numbers.try_emplace({p.block, p.start}, static_cast<int64_t>(pieces.size()));
        if (fresh) pieces.push_back({p.block, p.start, first.numel()});
        to = std::fill_n(to, rows_of(call), at->second);
    }
    const bool each = static_cast<int64_t>(pieces.size()) == total;  // in the order of the calls
    shape[0] = static_cast<int64_t>(pieces.size());
    Tensor gathered = assemble(std::move(pieces), shape, mode & kGradMode);
    return each ? gathered : index_select(gathered, 0, rows);
}

/// The indices of all calls into the rows of all their tables. Throws if one is outside of its own;
/// then the calls run one by one, and the kernel says what is wrong.
Tensor Runner::shifted_indices(const BatchForm& form, size_t k, Calls calls) {
    int64_t total = 0, first = 0;
    for (uint32_t call : calls) total += rows_of(call, k);
    Tensor out = Tensor::empty(DType::Int64, Dims{total});
    auto* to = out.data<int64_t>();
    auto table = static_cast<size_t>(form.in[k].table);
    for (uint32_t call : calls) {
        Place p = place(operand(call, form.in[k].from));
        const int64_t* from = blocks_[p.block].data<int64_t>() + p.start;
        int64_t rows = rows_of(call, table);
        for (int64_t n = rows_of(call, k); n > 0; --n, ++from) {
            bool negative = *from < 0 && form.wrap;
            bool inside = *from < rows && *from >= (form.wrap ? -rows : 0);
            WEFT_EXPECT(inside || calls.size() == 1, Index, form.op->public_name,
                        text("indices in [0, ", rows, ")"), std::to_string(*from));
            *to++ = first + *from + (negative && inside ? rows : 0);
        }
        first += rows;
    }
    return out;
}

void Runner::run_single(const Kind& kind, uint32_t call) {
    std::vector<Tensor> in;
    for (const BatchForm::Input& input : kind.form.in) {
        const Operand& o = operand(call, input.from);
        if (o.none()) {
            in.emplace_back();
            continue;
        }
        if (o.value < 0 && o.offset == 0) {
            const Tensor& whole = load_.externals[static_cast<size_t>(~o.value)];
            if (equal(whole.shape(), input.row)) {
                in.push_back(whole);
                continue;
            }
        }
        Place p = place(o);
        std::vector<Piece> piece{{p.block, p.start, ops::row_size(input.row)}};
        in.push_back(assemble(std::move(piece), input.row, kind.mode & kGradMode));
    }
    Call c(*kind.op, in.data(), static_cast<int>(in.size()), kind.form.attrs.data());
    ops::call(c);
    if (batch_) ++batch_->rows;
    finish(c, Calls(&call, 1));
}

/// cat and stack of whole operands: one copy of all pieces of all calls.
void Runner::run_join(const Kind& kind, Calls calls) {
    std::vector<Piece> pieces;
    int64_t total = 0;
    double start = report_ ? seconds() : 0;
    for (uint32_t call : calls) {
        const std::vector<int64_t>& sizes = class_of(call).sizes;
        for (size_t i = 0; i < sizes.size(); ++i) {
            Place p = place(operand(call, static_cast<int>(i)));
            pieces.push_back({p.block, p.start, sizes[i]});
            total += sizes[i];
        }
    }
    Call c(*kind.op);
    c.set(assemble(std::move(pieces), Dims{total}, kind.mode & kGradMode));
    if (report_) report_->pack_s += seconds() - start;
    if (batch_) batch_->rows += static_cast<int64_t>(calls.size());
    finish(c, calls);
}

/// Notes where the results of the calls lie.
void Runner::finish(Call& c, Calls calls) {
    uint32_t first = load_.calls[calls[0]].outputs;
    auto outputs = static_cast<int>(load_.output_end(calls[0]) - first);
    for (int k = 0; k < outputs; ++k) {
        WEFT_EXPECT(k < c.outputs, Runtime, c.op->name, text(outputs, " outputs"),
                    std::to_string(c.outputs));
        auto output = [&](uint32_t call) { return load_.calls[call].outputs + static_cast<uint32_t>(k); };
        DType dtype = load_.outputs[first + static_cast<uint32_t>(k)].dtype;
        Tensor result = c.out(k);
        int64_t total = 0;
        for (uint32_t call : calls) total += load_.outputs[output(call)].numel;
        // What is made of shared operands alone, such as statistics, is one for all calls.
        int64_t each = load_.outputs[first + static_cast<uint32_t>(k)].numel;
        bool constant = c.op->constant_outputs >> k & 1;
        bool common = constant && result.numel() == each && calls.size() > 1;
        // What only backward reads is there or not as the graph is recorded, which was a guess.
        if (constant && !common && (result.numel() == 0) != (total == 0))
            result = ops::zeros(Dims{total}, dtype);
        WEFT_EXPECT((common || result.numel() == total) && result.dtype() == dtype, Runtime, c.op->name,
                    text(total, " elements of ", name(dtype), " from a batch of ", calls.size(), " calls"),
                    text(result.numel(), " of ", name(result.dtype())));
        uint32_t block = add_block(std::move(result)), last = batch_number_;
        int64_t start = 0;
        for (uint32_t call : calls) {
            uint32_t v = output(call);
            places_[v] = {block, start};
            if (!common) start += load_.outputs[v].numel;
            last = std::max(last, last_use_[v]);
        }
        if (last != kNone) expiring_[last].push_back(block);
    }
}

void Runner::run_one(const Kind& kind, Calls calls) {
    switch (kind.how) {
        case How::Rows: return run_rows(kind, calls);
        case How::Join: return run_join(kind, calls);
        case How::Single:
            for (uint32_t call : calls) run_single(kind, call);
    }
}

void Runner::fail(uint32_t call, const Ref<Failure>& failure) {
    failed_.resize(load_.calls.size());
    failed_[call] = failure;
    for (uint32_t v = load_.calls[call].outputs; v < load_.output_end(call); ++v)
        if (Pending* p = load_.outputs[v].pending) p->failure = failure;
}

/// The calls whose operands exist; the others fail as those did.
std::vector<uint32_t> Runner::sound(Calls calls) {
    std::vector<uint32_t> out;
    for (uint32_t call : calls) {
        Ref<Failure> failure;
        for (uint32_t k = load_.calls[call].operands; k < load_.operand_end(call) && !failure; ++k)
            if (load_.operands[k].value >= 0)
                failure = failed_[load_.outputs[static_cast<size_t>(load_.operands[k].value)].call];
        if (failure) fail(call, failure);
        else out.push_back(call);
    }
    return out;
}

void Runner::run_batch(Calls calls) {
    std::vector<uint32_t> rest;
    if (!failed_.empty()) {
        rest = sound(calls);
        calls = rest;
        if (calls.empty()) return;
    }
    const Kind& kind = kinds_.kinds[class_of(calls[0]).kind];
    ModeGuard now(kind.mode, (kGradMode | kInferenceMode) & ~kind.mode);
    DefaultDType promoted(kind.default_dtype);
    Site::Instead line(load_.calls[calls[0]].site);
    if (report_) note(kind, calls);
    count(kind, calls);
    try {
        run_one(kind, calls);
    } catch (...) {
        if (calls.size() > 1) {  // find the one at fault; the others are not harmed
            if (report_) report_->batches.pop_back();
            for (uint32_t call : calls) run_batch(Calls(&call, 1));
        } else {
            Ref<Failure> failure(new Failure);
            failure->error = std::current_exception();
            const Kept& kept = load_.calls[calls[0]];
            failure->line = kept.site.describe();
            failure->owner = kept.owner;
            failure->call = calls[0];
            failures_.push_back(failure);
            fail(calls[0], failure);
        }
    }
}

/// Blocks go when nobody reads them any more, so that a flush holds what a loop over batches would.
void Runner::find_last_uses(const Plan& plan) {
    last_use_.assign(load_.outputs.size(), 0);
    expiring_.resize(plan.ends.size());
    uint32_t at = 0;
    for (uint32_t b = 0; b < plan.ends.size(); ++b)
        for (; at < plan.ends[b]; ++at) {
            uint32_t call = plan.order[at];
            for (uint32_t k = load_.calls[call].operands; k < load_.operand_end(call); ++k)
                if (load_.operands[k].value >= 0)
                    last_use_[static_cast<size_t>(load_.operands[k].value)] = b;
        }
    for (size_t v = 0; v < load_.outputs.size(); ++v)
        if (load_.outputs[v].pending) last_use_[v] = kNone;  // somebody may ask later
}

void Runner::run_all(const Plan& plan) {
    find_last_uses(plan);
    uint32_t begin = 0;
    for (batch_number_ = 0; batch_number_ < plan.ends.size(); ++batch_number_) {
        uint32_t end = plan.ends[batch_number_];
        run_batch(Calls(plan.order).subspan(begin, end - begin));
        begin = end;
        for (uint32_t block : expiring_[batch_number_])
            blocks_[block] = Tensor();
    }
    int64_t elements = 0;
    for (const Tensor* t : matrices_) elements += t->numel();
    if (elements >= kBeyondCache) tally.weights += unrecorded_weights_;
}

void Runner::count(const Kind& kind, Calls calls) {
    auto n = static_cast<int64_t>(calls.size()), ran = kind.how == How::Single ? n : 1;
    bool recorded = kind.mode & kGradMode;
    tally.batches += ran;
    if (recorded) {
        tally.recorded += n;
        tally.recorded_batches += ran;
    }
    for (uint32_t v = load_.calls[calls[0]].outputs; v < load_.output_end(calls[0]); ++v) {
        int64_t elements = load_.outputs[v].numel * n;
        (elements >= kFar ? tally.far_elements : tally.elements) += elements;
    }
    if (kind.how != How::Rows || n == 1 || kind.op->batch == Batch::Pointwise) return;
    int64_t matrices = 0;
    SmallVector<const Tensor*, 4> seen;
    for (const BatchForm::Input& in : kind.form.in) {
        if (in.from < 0) continue;
        const Operand& o = operand(calls[0], in.from);
        if (o.none() || o.value >= 0) continue;
        const Tensor& t = load_.externals[static_cast<size_t>(~o.value)];
        if (in.shared && t.ndim() >= 2) {
            matrices += t.numel();
            seen.push_back(&t);
        } else if (!is_inexact(t.dtype())) return;  // rows are looked up: the rest is not read
    }
    (recorded ? tally.recorded_weights : unrecorded_weights_) += matrices * n;
    for (const Tensor* t : seen)
        if (std::find(matrices_.begin(), matrices_.end(), t) == matrices_.end()) matrices_.push_back(t);
}

void Runner::note(const Kind& kind, Calls calls) {
    batch_ = &report_->batches.emplace_back();
    batch_->op = kind.op->public_name;
    batch_->calls = static_cast<int64_t>(calls.size());
    batch_->why = kind.why;
    for (uint32_t call : calls) add_site(batch_->lines, load_.calls[call].site);
    const Site& line = load_.calls[calls[0]].site;
    for (uint32_t other : first_of_line_) {
        const Kind& before = kinds_.kinds[class_of(other).kind];
        const Site& site = load_.calls[other].site;
        if (before.op != kind.op || site.code() != line.code() || site.offset() != line.offset()) continue;
        batch_->apart = difference(before, other, kind, calls[0]);
        return;
    }
    first_of_line_.push_back(calls[0]);
}

/// In words, for the report: the first thing that keeps calls of two kinds of one op apart.
std::string Runner::difference(const Kind& a, uint32_t call_a, const Kind& b, uint32_t call_b) const {
    if (&a == &b || a.how != b.how || a.how != How::Rows || a.form.op != b.form.op) return "";
    if (a.mode != b.mode) return "with and without gradients";
    for (size_t k = 0; k < a.form.attrs.size(); ++k) {
        Key one, other;
        append(one, a.form.attrs[k]);
        append(other, b.form.attrs[k]);
        if (one == other) continue;
        for (const Param& p : a.form.op->params)
            if (!p.is_input() && p.slot == static_cast<int>(k)) return "another " + p.name;
    }
    for (size_t k = 0; k < a.form.in.size(); ++k) {
        const BatchForm::Input &one = a.form.in[k], &other = b.form.in[k];
        if (one.from < 0 || operand(call_a, one.from).none() || operand(call_b, other.from).none()) continue;
        if (one.shared != other.shared) return "a weight in some, a value in others";
        if (!one.shared && !equal(one.row, other.row))
            return text("rows of shape ", to_string(one.row), " and ", to_string(other.row));
        if (one.shared && !one.unlike && !shared(call_a, one).same(shared(call_b, other)))
            return shared(call_a, one).has(kWrapped) ? "another number" : "another weight";
    }
    return "";
}

void Runner::hand_over() {
    for (size_t v = 0; v < load_.outputs.size(); ++v) {
        Pending* p = std::exchange(load_.outputs[v].pending, nullptr);
        if (!p) continue;
        p->among = nullptr;
        if (p->failure) continue;
        p->block = blocks_[places_[v].block];
        p->start = places_[v].start;
    }
}

}  // namespace

std::vector<Ref<Failure>> run(Waiting& load, const Plan& plan, const Kinds& kinds,
                              FlushReport* report) {
    Runner runner(load, kinds, report);
    runner.run_all(plan);
    runner.hand_over();
    return runner.failures();
}

}  // namespace weft::deferred
