/// A segment made ready to run.
///
/// Note [Plans]
/// A plan drops the steps that nothing needs and that could not raise, puts pointwise steps together (group.h), and gives each
/// value that lives only within a run a place in one piece of memory, the arena; results, and what is large, get memory of
/// their own in each run. What runs is prepared: calls whose operands are tensors made once, with pointers
/// into the arena, handed straight to their kernels. A run only points those of inputs and results to where
/// these lie today. All of this hangs in a frame; a run takes one that is idle, or makes another, so a plan
/// may run in itself (a kernel may let other threads have the lock). A run that fails drops its frame.
///
/// Note [Large values]
/// A large value takes memory when the item that makes it runs, and gives it back when the last that reads it has run;
/// a group writes over an operand that dies with it. So a run holds no more at any time than the calls one by one, and in
/// blocks of the sizes that the allocator has from those. A node's turn that is the last one (`run_last`) drops what it
/// was given, and what was kept for it, in the same way.
///
/// The bits of the results are those of the calls one by one.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ops/matmul.h"
#include "program/group.h"
#include "program/segment.h"

namespace weft::program {

/// Steps that run together; a group if they are `tiled`, else one, or a product and what is added to it.
struct PlanItem {
    std::vector<int32_t> steps;
    bool tiled = false;
};

class Plan {
public:
    struct Options {
        bool tiles = true;  ///< pointwise steps are put together
    };

    Plan(Ref<Segment> segment, Options options);
    /// `results`: values, none of them twice, in place of the segment's outputs. `kept`: results of steps,
    /// not among those, that a run leaves in one piece of memory of its own.
    Plan(Ref<Segment> segment, Options options, std::vector<int32_t> results,
         std::vector<int32_t> kept);
    ~Plan();
    Plan(const Plan&) = delete;

    uint32_t refs = 0;

    /// Whether these are laid out as the segment's inputs, and have memory.
    bool fits(const Tensor* inputs, size_t count) const;
    /// Fills `outputs`, one for each result, outside of every graph. `inputs` must fit. A result that is a
    /// part of an input shares its memory; one that is an input is that tensor. `kept`: the memory of
    /// values that were to be kept, as bytes, kept_pieces() tensors.
    void run(const Tensor* inputs, Tensor* outputs, Tensor* kept = nullptr) {
        run(inputs, outputs, kept, nullptr);
    }
    /// The same, but large inputs go as soon as nothing reads them any more.
    void run_last(Tensor* inputs, Tensor* outputs) { run(inputs, outputs, nullptr, inputs); }
    /// Where in that memory a value that was to be kept lies. Large values have pieces of their own.
    struct KeptAt {
        int32_t piece;
        int64_t offset;
    };
    KeptAt kept_at(int32_t value) const;
    size_t kept_pieces() const { return kept_bytes_.size(); }
    int64_t kept_bytes(int32_t piece) const { return kept_bytes_[static_cast<size_t>(piece)]; }

    const Segment& segment() const { return *segment_; }
    /// Bytes of the values that live only within a run, but for large ones.
    int64_t arena_bytes() const { return arena_bytes_; }
    /// A line for each thing that runs, in order: the values that it makes.
    std::string text() const;

private:
    friend class PlanBuilder;
    struct Frame;
    /// A tensor of a frame that lies in the memory of a value that each run brings along.
    struct Fix {
        int32_t value;
        int64_t offset;
    };
    /// A value whose memory is new in each run: an input, or what a result lies in.
    struct Bound {
        int32_t value, slot, source;  ///< source: which input; of results -1
        int32_t first_fix, fixes;
        bool is_large = false;
    };
    /// Note [Large values]
    struct Large {
        Bound bound;
        int32_t made = -1, piece = -1;  ///< which result; which piece of what is kept
        int32_t over = -1;              ///< the large value in whose memory it is written
    };
    /// What becomes of a large value, or of an input, before item i (`when` is 2 i) or after it (2 i + 1).
    struct Turn {
        enum class Kind : uint8_t { Take, GiveBack, Drop } kind;
        int32_t when, number;
    };
    struct Placed {
        int32_t value, slot;
        int64_t offset;  ///< in the arena, or in the piece of what is kept that is not large
        int32_t first_fix, fixes;
    };
    struct Prepared {
        int32_t step;
        int32_t first_operand;
        void (*kernel)(Call&);
    };
    /// A value in the memory that the table names.
    struct Place {
        int32_t slot = -1;
        int64_t offset = 0;
    };
    /// Of a call that needs nothing but addresses.
    struct PreparedProduct {
        ops::Product product;
        Place out, a, b, added, plus;
        kernels::DotRow row{};
    };
    struct Next {
        enum class Kind : uint8_t { Group, Product, Call } kind;
        int32_t number;
    };
    struct Result {
        int32_t made = -1, input = -1;  ///< of the bound results; or of the inputs
        bool whole = false;             ///< it is that value, not a part
        int64_t offset = 0;
        int32_t value = -1;
    };
    void build(Options options, const std::vector<int32_t>& kept);
    void run(const Tensor* inputs, Tensor* outputs, Tensor* kept, Tensor* dropped);
    std::unique_ptr<Frame> make_frame() const;
    void place_arena(Frame& frame) const;
    void place(Frame& frame, const std::vector<Placed>& all, std::vector<Ref<Storage>>& memory,
               char* begin) const;
    void bind(Frame& frame, const Bound& bound, const Tensor& to) const;
    void let_go(Frame& frame, const Bound& bound) const;
    void make_result(Frame& frame, size_t number, Tensor made) const;
    void take_turn(Frame& frame, const Turn& turn, Tensor* kept, Tensor* dropped) const;
    void take_memory(Frame& frame, size_t number, Tensor* kept) const;
    void run_item(Frame& frame, const Next& next) const;
    void run_items(Frame& frame, Tensor* kept, Tensor* dropped) const;
    void take_results(Frame& frame, const Tensor* inputs, Tensor* outputs) const;
    void let_go(Frame& frame) const;

    Ref<Segment> segment_;
    std::vector<PlanItem> items_;
    std::vector<Next> order_;
    std::vector<Group> groups_;
    std::vector<PreparedProduct> products_;
    std::vector<Prepared> calls_;
    std::vector<int32_t> operands_;  ///< values, of the prepared calls
    std::vector<Bound> inputs_, made_;
    std::vector<int32_t> wanted_;  ///< the results
    std::vector<Placed> placed_, kept_;
    std::vector<Large> large_;
    std::vector<Turn> turns_;  ///< in their order
    std::vector<Fix> fixes_;
    bool has_fixes_ = false;  ///< of inputs or results
    std::vector<Result> results_;
    std::vector<std::pair<int32_t, Tensor>> fixed_;  ///< slots of constants and numbers
    int32_t slots_ = 0;
    int64_t arena_bytes_ = 0;
    std::vector<int64_t> kept_bytes_;  ///< of each piece
    int32_t shared_piece_ = -1;        ///< the one with all that is not large
    static constexpr int64_t kLarge = int64_t{1} << 16;
    std::vector<std::unique_ptr<Frame>> idle_;
};
inline void release(Plan* plan) { delete plan; }

/// Which steps run and in which order: a pure function of the segment.
std::vector<PlanItem> find_items(const Segment& segment, const std::vector<uint8_t>& is_live,
                                 const std::vector<std::unique_ptr<StepLoop>>& loops);
/// The same without copies that change nothing but where elements lie: what reads one reads what it is of, and a product of
/// matrices of a batch reads and writes them where they lie. `held`: values that are to be made as they are. Steps that
/// are left out have views for results, and what is written elsewhere has another layout.
Ref<Segment> without_copies(Ref<Segment> segment, const std::vector<int32_t>& held);
/// For each step whether it has to run: one of these values needs it, or it might raise or draws.
std::vector<uint8_t> live_steps(const Segment& segment, const std::vector<int32_t>& wanted,
                                const std::vector<std::unique_ptr<StepLoop>>& loops);

}  // namespace weft::program
