/// The state of one flush while its batches run.
///
/// Reading guide: run.cpp runs batch after batch; operands.cpp finds where operands lie and gathers
/// them; overwritten.cpp sees to values that were saved before they are written; report.cpp counts and
/// reports.
#pragma once
#include <unordered_map>

#include "deferred/batcher.h"
#include "ops/write.h"

namespace weft::deferred {

using Calls = std::span<const uint32_t>;

class Runner {
public:
    Runner(Waiting& load, const Kinds& kinds, FlushReport* report)
        : batcher_(Batcher::current()), load_(load), kinds_(kinds), report_(report),
          places_(load.outputs.size()), external_places_(load.externals.size()) {}

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

    const Class& class_of(uint32_t call) const {
        return kinds_.classes[load_.calls[call].of_class];
    }
    /// Of how many calls of one kind it is as cheap to run a batch as to run them as parts of one.
    static constexpr size_t kMany = 5;
    int64_t rows_of(uint32_t call) const { return class_of(call).rows; }
    /// Rows of input k of the form.
    int64_t rows_of(uint32_t call, size_t k) const {
        const Class& c = class_of(call);
        return c.sizes.empty() ? c.rows : c.sizes[k];
    }
    Tensor shifted_indices(const BatchForm& form, size_t k, Calls calls);
    const Tensor& shared(uint32_t call, const BatchForm::Input& input) const {
        return load_.external(operand(call, input.from));
    }
    bool differ(const BatchForm::Input& input, Calls calls) const;
    Tensor unlike(const BatchForm& form, const BatchForm::Input& input, Calls calls, int64_t total);
    const Kind& kind_of(uint32_t call) const { return kinds_.kind_of(class_of(call)); }
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
        uint32_t input;
        int from;  ///< which operand of the calls
        std::vector<Piece> pieces;
        Lie lie;
        int64_t elements = 0;
        Dims repeats{};  ///< how often the row of each call stands in the input; empty: once
    };
    /// `size(call)` elements of operand `from` of each call.
    template <class Size>
    Operands pieces_of(size_t input, int from, Calls calls, const Size& size) {
        Operands o{static_cast<uint32_t>(input), from, {}, {}, 0};
        o.pieces.reserve(calls.size());
        for (uint32_t call : calls) {
            int64_t n = size(call);
            Place p = place(operand(call, from));
            o.pieces.push_back({p.block, n ? p.start : 0, n});
            o.elements += n;
        }
        o.lie = lie_of(o.pieces);
        return o;
    }

    int64_t rows_in(const Operands& o, Calls calls) const {
        int64_t rows = 0;
        for (uint32_t call : calls) rows += rows_of(call, o.input);
        return rows;
    }
    void run_batch(Calls calls);
    void run_merged(Calls calls, bool parts);
    void find_last_uses(const Plan& plan);
    uint32_t add_block(Tensor t);
    Place place(const Operand& o);
    Place external_place(const Tensor& t);
    static Lie lie_of(const std::vector<Piece>& pieces);
    static Dims shape_for(const std::vector<Operands>& operands, int64_t total);
    Tensor assemble(const Operands& o, const Dims& shape, bool grad);
    Tensor assemble_flat(const Operands& o, bool grad);
    /// The same in memory of its own.
    Tensor packed(const Operands& o, const Dims& shape);
    Tensor assemble(std::vector<Piece> pieces, const Dims& shape, bool grad) {
        Lie lie = lie_of(pieces);
        return assemble({0, 0, std::move(pieces), lie, 0}, shape, grad);
    }
    /// A batched call of rows while it is put together.
    struct Rows {
        Rows(const Kind& kind, Calls calls) : kind(kind), calls(calls), in(kind.form.in.size()) {}
        const Kind& kind;
        Calls calls;
        std::vector<Tensor> in;
        std::vector<Operands> operands;   ///< those that come row by row
        SmallVector<size_t, 4> gathered;  ///< inputs of which calls have another one each
        int64_t total = 0;
        Dims counts;               ///< of each call, if the form asks
        bool any_once = false;     ///< some input is one row of each call
        bool by_elements = false;  ///< any shape of the same elements will do
    };
    void count_rows(Rows& rows) const;
    void find_rows(Rows& rows);
    void assemble_rows(Rows& rows);
    bool too_large(const std::vector<Operands>& operands, Calls calls);
    void run_rows(const Kind& kind, Calls calls);
    void run_join(const Kind& kind, Calls calls);
    void run_single(const Kind& kind, uint32_t call);
    void run_one(const Kind& kind, Calls calls);
    bool run_side_by_side(Calls calls);
    void run_each(Calls calls);
    void mark(const Tensor& results, Calls calls, int k, bool common);
    void finish(Call& c, Calls calls);
    /// Runs the batch, and sees to what it saves if somebody writes to that later.
    void run_call(Call& c, Calls calls, std::vector<Tensor>& in,
                  const std::vector<Operands>& operands) {
        const bool saves = c.op->body || c.op->differentiable();
        if ((mode & kGradMode) && saves) run_saving(c, calls, in, operands);
        else ops::call(c);
    }
    void run_saving(Call& c, Calls calls, std::vector<Tensor>& in,
                    const std::vector<Operands>& operands);
    void take_copies(const Call& c, Calls calls, std::vector<Tensor>& in,
                     const std::vector<Operands>& operands);
    void overwrite_parts(const Call& c, Calls calls);
    template <class Visit>
    static void each_part(const Operands& of, const Visit& visit);
    bool is_held(const Operand& o) const;
    ops::Span part_in_memory(const Operands& of, Calls calls, size_t i) const;
    void note_views(Call& c, Calls calls, const std::vector<Operands>& operands);
    const Tensor& memory_of(const Operands& of, Calls calls, size_t i) const {
        const Operand& o = operand(calls[i], of.from);
        return o.value >= 0 ? blocks_[of.pieces[i].block] : load_.external(o);
    }
    void note_copies(Calls calls, const std::vector<Tensor>& in,
                     const std::vector<Operands>& operands);
    void fail(uint32_t call, const Ref<Failure>& failure);
    void fail_with(const std::exception_ptr& error, uint32_t call);
    std::vector<uint32_t> sound(Calls calls);
    void note(const Kind& kind, Calls calls, bool parts);
    std::string difference(const Kind& a, uint32_t call_a, const Kind& b, uint32_t call_b) const;
    int64_t weights_spared(const Kind& kind, Calls calls) const;
    bool rows_want_gradients(const Kind& kind, uint32_t call);
    void count(const Kind& kind, Calls calls, bool parts);

    Batcher& batcher_;
    Waiting& load_;
    const Kinds& kinds_;
    FlushReport* report_;
    BatchReport* batch_ = nullptr;
    std::vector<Place> places_;
    std::vector<Place> external_places_;
    std::unordered_map<const TensorImpl*, uint32_t> base_blocks_;
    std::vector<Tensor> blocks_;
    std::vector<int32_t> source_of_;    ///< by block: its number in what is packed now, or -1
    std::vector<Ref<Failure>> failed_;  ///< by call; empty as long as none failed
    std::vector<Ref<Failure>> failures_;
    std::vector<uint32_t> last_use_;               ///< of each output: the last batch that reads it
    std::vector<std::vector<uint32_t>> expiring_;  ///< blocks that nobody reads after batch b
    uint32_t batch_number_ = 0;
    std::vector<uint32_t> first_of_line_;  ///< a call each, for the report
    /// What a batch saves and is overwritten later (Note [Overwritten]): elements of a tensor.
    struct SavedPart {
        Tensor of;
        ops::Span elements;
        Overwriting* write;
    };
    std::vector<SavedPart> parts_;
};

}  // namespace weft::deferred
