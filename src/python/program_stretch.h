/// Stretches: parts of programs that run as plans.
///
/// Note [Stretches]
/// A *place* is an instruction from which a program may go on by plan: its first one, and each one after an
/// instruction that ended a stretch. The second time a place is met with registers of one signature, the
/// machine runs on from there with a host (program_trace.h) for which tensors have a layout alone: calls of
/// ops become steps of a segment, what Python is asked becomes guards, calls of programs are followed, and
/// nothing is changed. It goes on until the function returns or something cannot be told from layouts and
/// guards: a value that is read, a write, a function of Python's. What was done up to there,
/// at the last instruction of the place's own function, is a stretch: what it asks of the registers, guards,
/// a plan, and what the registers hold at its end. From then on, where its conditions hold, the plan runs
/// instead.
///
/// A stretch changes nothing but registers and the generator of random numbers, which is put back where it does
/// not come to its end. So it can be left at any time for the instructions themselves: they
/// are run where the plan raises (an index out of range), and then raise what they raise in their place.
///
/// Loops are followed round only over what Modules, globals and constants hold, or up to kMostTurns times over
/// what the stretch itself has counted; loops over values and lengths end a stretch at their head, and their
/// body is one of its own.
#pragma once
#include "program/record.h"
#include "python/program_guards.h"
#include "python/program_host.h"

namespace weft::python {

/// A value at the start of a stretch: a register, what is in a cell, or an item of a tuple that is one.
struct LiveSource {
    int32_t reg;          ///< of the frame; cells come after registers; -1: an item
    int32_t parent = -1;  ///< of an item: the tuple
    int32_t item = 0;
};

/// An attribute or global that gave other numbers or tensors.
struct VaryingRead {
    const void* holder;  ///< compared only
    Object name;
    int times;
};

/// What a stretch asks of a value.
struct Condition {
    enum class Kind : uint8_t {
        Tensor,    ///< of this type, and memory; its layout is the plan's to check
        Equal,     ///< int, float, str, bool, None …: of this type and equal
        Identity,  ///< this object
        Tuple,     ///< a tuple of this length
        Type,      ///< of this type
    } kind;
    int32_t source;
    int32_t length = 0;
    Object object{};
};

/// How a value at the end of a stretch is made.
struct Recipe {
    enum class Kind : uint8_t {
        Source,    ///< what was there at the start
        Output,    ///< result `number` of the plan
        Captured,  ///< `object`
        Copy,      ///< of the tensor `object`, which the trace made
        Tuple,
        List,
        Dict,
        Slice,
        Method,    ///< of `object`, bound to its one part
        Iterator,  ///< of `object`, which was made by iter(), at item `number`
    } kind;
    int32_t number = 0;
    Object object{};
    std::vector<int32_t> parts{};  ///< recipes before this one
};

struct Stretch {
    uint32_t refs = 0;
    uint32_t mode;
    DType dtype;        ///< the default one
    PyObject* globals;  ///< borrowed: of the function
    std::vector<LiveSource> sources;
    std::vector<Condition> conditions;
    Guards guards;
    Ref<program::DifferentiablePlan> plan;
    std::unique_ptr<program::KeptSegment> kept;  ///< in defer mode; null: calls are kept one by one
    struct Input {
        int32_t source;  ///< -1: `captured`
        Object captured{};
    };
    std::vector<Input> inputs;
    Object backend{}, made{};  ///< who made what runs instead of the plan; or null
    int32_t steps = 0;
    bool draws = false;          ///< random numbers
    int64_t gain = 0;            ///< what a run is worth, in instructions (Note [Gains])
    int64_t runs = 0, left = 0;  ///< how often it ran; how often the instructions did
    uint64_t last = 0;           ///< the visit of its place in which it ran last
    uint64_t reach = 0;          ///< number of the Reach that it was made for
    // The end.
    int32_t pc = -1;  ///< -1: the function returns recipe `returned`
    int32_t returned = -1;
    std::vector<Recipe> recipes;
    std::vector<std::pair<int32_t, int32_t>> writes;  ///< register, recipe
    std::vector<int32_t> clears;                      ///< temporaries that nothing needs any more

    /// Why it may not run: the source of a number that alone is another; that guards alone do not hold.
    struct Differs {
        int32_t source = -1;
        bool guards = false;
    };
    /// Whether it may run: then `inputs` are filled.
    bool holds(Frame* frame, Tensor* inputs, Differs& differs);
    /// Finds `gain`, by measurement: some 100 ns a step, and the traffic of values that stay in the cache.
    void find_gain();
    /// Whether it is worth a run: not where backward is mostly recorded itself, as for gradients of gradients
    /// (Note [Compiled nodes]); now and then it is tried again.
    bool pays() const { return !(mode & kGradMode) || plan->rules_run() * kTried <= runs + left; }
    static constexpr int64_t kTried = 64;
    /// In defer mode: how it is kept, if it is.
    void find_kept();
    bool gave_up() const { return kept && !kept->pays(); }
    /// Whether it does the same with the same weights, for tensors of other sizes. Then the single calls of both
    /// may merge by rows; kept whole, each would only with those of its own size.
    bool is_of_other_sizes(const Stretch& s) const;
    /// Here: it did not run, and nothing has changed.
    program::Onward run(Frame* frame, const Tensor* inputs, PyObject*& result);

    int traverse(visitproc visit, void* arg) const;
};
void release(Stretch* stretch);

/// Numbers of Python's, which may be others with each call.
inline bool is_count(PyObject* o) { return PyLong_CheckExact(o) || PyFloat_CheckExact(o); }
/// The user's backend of the call that runs, borrowed; or null.
inline PyObject* backend_now() { return reach ? reach->backend.get() : nullptr; }

/// What a backend makes of a segment, given the inputs; null with an error set.
Object ask_backend(PyObject* backend, const program::Segment& segment, const Tensor* inputs);
/// Runs it: fills as many outputs as the segment has. False with an error set.
bool run_backend(PyObject* made, const program::Segment& segment, const Tensor* inputs,
                 Tensor* outputs);

}  // namespace weft::python
