/// Pointwise steps over one iteration space, which run together, tile by tile.
///
/// Note [Tiles]
/// A group's steps have results of one shape, laid out alike and densely, so element i of one is made of
/// elements i of others. The group takes a tile of elements after the other and runs all its loops on it;
/// what only later loops of the group read stays in a buffer in the first-level cache. The loops are the
/// kernels' own (Note [Loops] in ops/loop.h), on whole multiples of 64 elements but for the last tile, as
/// a kernel's pieces are, so that the bits are those of the calls one by one, on any number of threads.
/// An operand that does not lie as the results do is copied into a buffer first, converted if it has to be.
/// Sums, differences and products that are only each the next one's operand run as one loop (Note [Chains]
/// in kernels/chain.h).
#pragma once
#include <memory>
#include <vector>

#include "kernels/chain.h"
#include "kernels/map.h"
#include "kernels/strided.h"
#include "ops/loop.h"
#include "program/segment.h"

namespace weft::program {

/// What a pointwise step runs.
struct StepLoop {
    struct Operand {
        int32_t value;  ///< -1: `number`
        Tensor number;
        DType to;
    };
    kernels::MapLoop loop = nullptr;
    int operands = 0;
    Operand operand[3];
    alignas(16) char functor[ops::LoopCall::kFunctorBytes];
};

/// False if the step's kernel is no single loop over wide dtypes.
bool find_loop(const Segment& segment, const Step& step, StepLoop& found);

class Group {
public:
    static constexpr int64_t kTileBytes = 2048;

    /// `table`: where values begin, by the numbers that `Slots` gave.
    void run(char* const* table) const;
    int64_t elements() const { return n_; }
    /// Whether the result in the table's slot `out` may be written over what lies in slot `in`, of as many bytes: nothing
    /// reads that but element by element, before the element is written.
    bool may_write_over(int32_t out, int32_t in) const;

private:
    friend class GroupBuilder;
    /// `slot` >= 0: in the table; else in buffer ~slot, without the offset.
    struct At {
        int32_t slot = 0;
        int32_t stride = 0;  ///< bytes; 0 repeats one element
        int64_t offset = 0;
    };
    struct Loop {
        kernels::MapLoop loop;
        int32_t operands;   ///< the result among them
        bool once = false;  ///< of one element
        At at[4];
        const kernels::StridedPlan<2>* gather = nullptr;
        int32_t first_link = 0, links = 0;  ///< of a chain, which begins with at[1]
        bool is_double = false;
        alignas(16) char functor[ops::LoopCall::kFunctorBytes];
    };
    struct Link {
        kernels::Arithmetic op;
        bool is_second;
        At x;
    };
    /// From a buffer past the caches into memory.
    struct Stream {
        int32_t buffer;
        At to;
    };
    void run_piece(char* const* table, int64_t begin, int64_t end) const;
    void run_tile(char* const* table, char* buffers, int64_t begin, int64_t n) const;
    void run_chain(const Loop& l, char* out, const char* first, char* const* table, char* buffers,
                   int64_t begin, int64_t n) const;

    static constexpr int kMostLinks = 16;
    std::vector<Loop> loops_;
    std::vector<Link> links_;
    std::vector<Stream> streams_;
    std::vector<std::unique_ptr<kernels::StridedPlan<2>>> gathers_;
    int64_t n_ = 0, tile_ = 0;
    int buffers_ = 0;
};

/// Makes a group of steps. `Slots` says where values lie.
class GroupBuilder {
public:
    struct Slots {
        virtual ~Slots() = default;
        /// The place of a value in the table; -1 of one that only the group reads.
        virtual int32_t slot_of(int32_t root) = 0;
        virtual int32_t slot_of_number(const Tensor& number) = 0;
    };
    GroupBuilder(const Segment& segment, Slots& slots) : segment_(segment), slots_(slots) {}
    Group build(const std::vector<const Step*>& steps, const std::vector<const StepLoop*>& loops);

private:
    struct Buffer {
        int first, last;  ///< the loops that write and read it
        int32_t number = -1;
    };
    struct Copied {
        int32_t value;
        DType to;
        Group::At at;
    };
    Group::At operand(const StepLoop::Operand& of);
    Group::At copied(int32_t value, const Group::At& from, DType to);
    Group::At result(int32_t value);
    void add_loop(const Step& step, const StepLoop& of);
    bool add_link(const Step& step, const StepLoop& of, const Group::At* in);
    bool is_link(const StepLoop& of, const Group::At* in) const;
    int uses_of(int32_t root) const;
    int now() const { return static_cast<int>(group_.loops_.size()) - is_linking_; }
    Group::At new_buffer(DType dtype);
    bool lies_as_result(const Tensor& t) const;
    bool moves_much(const std::vector<const Step*>& steps,
                    const std::vector<const StepLoop*>& loops);
    void note_use(Group::At& at);
    void number_buffers();

    const Segment& segment_;
    Slots& slots_;
    Group group_;
    Tensor space_;
    bool streams_ = false, is_linking_ = false;
    std::vector<const StepLoop*> loops_;
    int32_t last_value_ = -1;  ///< that the last loop makes, if it may be a link
    std::vector<Buffer> buffers_;
    std::vector<Copied> copied_;
    std::vector<std::pair<int32_t, Group::At>> made_;
};

/// Whether elements of `t` lie as those of `space`, a dense layout of the same shape.
bool lies_as(const Tensor& t, const Tensor& space);

}  // namespace weft::program
