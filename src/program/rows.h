/// A segment over the rows of several calls.
///
/// Note [Rows of segments]
/// Where calls of one segment merge (Note [Rows] in ops/batch.h), its steps run once each, over the values of all
/// calls: each by its own record's batch rule, as the batcher runs single calls, and so to the same bits. A
/// value of the segment is then a tensor with the elements of all calls one after the other, whatever its shape,
/// or, of what depends on shared inputs alone, the value itself.
#pragma once
#include <memory>

#include "ops/batch.h"
#include "program/segment.h"

namespace weft::program {

class SegmentRows {
public:
    /// `shared`: the inputs that are the same in all calls. Null where a step has no such form.
    static std::unique_ptr<SegmentRows> make(Ref<Segment> segment, std::vector<uint8_t> shared);

    /// Shared inputs as they are, of others [calls, *shape]. Outputs: the elements of all calls.
    void run(int64_t calls, const Tensor* inputs, Tensor* outputs) const;

private:
    struct StepRows {
        int32_t step;
        bool same = false;   ///< of all calls
        bool alias = false;  ///< the same elements
        BatchForm form{};
        bool by_elements = false;  ///< any shape of the same elements will do
    };
    SegmentRows(Ref<Segment> segment, std::vector<uint8_t> shared);
    bool find_forms();
    bool find_form(StepRows& rows, Call& laid_out);
    bool runs() const;
    bool is_shared(int32_t v) const;
    bool is_output(int32_t v) const;

    const Ref<Segment> segment_;
    std::vector<uint8_t> shared_;  ///< by value, of inputs and results
    std::vector<StepRows> steps_;
    class Run;
};

/// All steps but views that nobody needs: a call may raise though its result is not used.
std::vector<uint8_t> steps_to_run(const Segment& segment);
/// `t`, which may have no memory, outside of the graph.
Tensor outside_graph(const Tensor& t);

}  // namespace weft::program
