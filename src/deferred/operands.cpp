/// Where the operands of a batch lie, and one tensor of them.
#include <algorithm>
#include <cstring>
#include <map>

#include "deferred/runner.h"
#include "ops/functions.h"

namespace weft::deferred {
namespace {

/// What a view shows a part of, if nobody can ask for the view's own gradient any more; else null.
const Tensor* base_of_unwatched(const Tensor& t) {
    return t.has(kTracked) && !t.impl()->wrapper ? ops::hooks.base(t, false) : nullptr;
}

}  // namespace

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
    Place known = external_places_[e];
    if (known.block == kNone) {
        const Tensor& t = load_.externals[e];
        known = external_place(t);
        // A copy for calls that record nothing is no part of the graph; others take one of their own.
        if (t.contiguous() || !t.has(kTracked) || mode & kGradMode) external_places_[e] = known;
    }
    return {known.block, known.start + o.offset};
}

/// A tensor with memory is a block; a dense view of one (`E[k]`) that nobody watches is a piece of it,
/// so that the gradients of all such views are one.
Runner::Place Runner::external_place(const Tensor& t) {
    const Tensor* base = t.contiguous() ? base_of_unwatched(t) : nullptr;
    if (base && base->contiguous() && base->dtype() == t.dtype() && t.offset() >= base->offset() &&
        t.offset() + t.numel() <= base->offset() + base->numel()) {  // it may have shrunk since
        auto [at, fresh] = base_blocks_.try_emplace(base->impl(), kNone);
        if (fresh) at->second = add_block(*base);
        return {at->second, t.offset() - base->offset()};
    }
    ModeGuard now(0, kInferenceMode);  // a copy may serve calls of other modes later
    return {add_block(t), 0};
}

/// Whether the pieces are one run of elements, or equal runs at equal distances, in one block.
Runner::Lie Runner::lie_of(const std::vector<Piece>& pieces) {
    size_t first = 0;  // one without elements is read too: its gradient is zeros, not None
    while (first + 1 < pieces.size() && pieces[first].count == 0) ++first;
    Lie lie{pieces[first].block, pieces[first].start, 0, 0, 0};
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
        if (p.count == 0) continue;
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
    static const ops::Function region{"_region"}, view{"view"};
    const Lie& lie = o.lie;
    bool one_run = lie.runs == 1;
    if (one_run || (lie.runs > 1 && !shape.empty() && shape[0] == lie.runs)) {
        if (batch_) ++batch_->aliased;
        const Tensor& block = blocks_[lie.block];
        bool tracked = block.has(kTracked);
        if (one_run && lie.start == 0 && lie.length == block.numel() && (grad || !tracked))
            return equal(block.shape(), shape) ? block : view(block, shape);
        Dims rows = shape.empty() ? Dims{1} : shape;
        int64_t step = one_run ? ops::row_size(rows) / std::max<int64_t>(rows[0], 1) : lie.step;
        if (grad && tracked) {
            Tensor t = region(block, lie.start, step, rows);
            return shape.empty() ? view(t, shape) : t;
        }
        Dims strides(Tensor::layout(block.dtype(), shape).strides());
        if (!shape.empty()) strides[0] = step;
        Tensor t = Tensor::layout(block.dtype(), shape, strides);
        t.share(block, lie.start);
        return t;
    }
    return packed(o, shape);
}

Tensor Runner::packed(const Operands& o, const Dims& shape) {
    static const ops::Function pack{"_pack"};
    if (batch_) {
        ++batch_->packed;
        batch_->pieces += static_cast<int64_t>(o.pieces.size());
    }
    std::vector<Tensor> sources;
    source_of_.resize(blocks_.size(), -1);
    Dims flat;
    for (const Piece& p : o.pieces) {
        if (!flat.empty() && source_of_[p.block] == flat[flat.size() - 3] &&
            p.start == flat[flat.size() - 2] + flat.back()) {
            flat.back() += p.count;  // it goes on where the last one ends
            continue;
        }
        int32_t& s = source_of_[p.block];
        if (s < 0) {
            s = static_cast<int32_t>(sources.size());
            sources.push_back(blocks_[p.block]);
        }
        flat.push_back(s);
        flat.push_back(p.start);
        flat.push_back(p.count);
    }
    for (const Piece& p : o.pieces) source_of_[p.block] = -1;
    return pack.over(sources, {flat, shape});
}

/// The same in one dim, dense.
Tensor Runner::assemble_flat(const Operands& o, bool grad) {
    static const ops::Function contiguous{"contiguous"};
    Tensor t = assemble(o, Dims{o.elements}, grad);
    return t.contiguous() ? t : contiguous(t);
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
Tensor Runner::unlike(const BatchForm& form, const BatchForm::Input& input, Calls calls,
                      int64_t total) {
    static const ops::Function index_select{"index_select"};
    const Tensor& first = shared(calls[0], input);
    int dims = 0;  // of a row
    for (const BatchForm::Input& other : form.in)
        if (!other.shared) dims = other.row.size();
    Dims shape{total};
    for (int d = first.ndim() - dims; d < first.ndim(); ++d)
        shape.push_back(d < 0 ? 1 : first.size(d));
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
    bool each = true;  // one row, and a piece of its own: in the order of the calls
    for (uint32_t call : calls) {
        Place p = place(operand(call, input.from));
        auto [at, fresh] =
            numbers.try_emplace({p.block, p.start}, static_cast<int64_t>(pieces.size()));
        each &= fresh && rows_of(call) == 1;
        if (fresh) pieces.push_back({p.block, p.start, first.numel()});
        to = std::fill_n(to, rows_of(call), at->second);
    }
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
        const int64_t rows = rows_of(call, table), n = rows_of(call, k);
        const int64_t* end = form.shift_indices(from, n, rows, first, to);
        if (calls.size() == 1 && end != from + n) {
            std::copy_n(from, n, to);
            return out;
        }
        WEFT_EXPECT(end == from + n, Index, form.op->public_name,
                    text("indices in [0, ", rows, ")"), std::to_string(*end));
        to += n;
        first += rows;
    }
    return out;
}

}  // namespace weft::deferred
