/// Stretches (Note [Stretches] in program/stretch.h) of programs whose values are Python's.
#pragma once
#include "program/record.h"
#include "program/stretch.h"
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
        Same,      ///< the object of another source
        Tuple,     ///< a tuple of this length
        Type,      ///< of this type
    } kind;
    int32_t source;
    int32_t number = 0;  ///< the length; or the other source, which earlier conditions are about
    Object object{};
};

/// Tensors of one dtype and shape of which something may have asked whether two are one: no two are.
/// Demanded of all that were asked about, not pair by pair, which would be half their number squared.
struct Distinct {
    Tensor like;
    std::vector<int32_t> sources;
    std::vector<Object> captured;  ///< others than these, too
    /// Whether it is so, of the objects that `value` finds, in their number's time but for a sort.
    bool holds(FunctionRef<PyObject*(int32_t)> value) const;
};

struct Stretch : program::StretchOf<Object> {
    static constexpr size_t kMost = 256;  ///< in one place
    PyObject* globals;                    ///< borrowed: of the function
    std::vector<LiveSource> sources;
    std::vector<Condition> conditions;
    std::vector<Distinct> distinct;  ///< of sources that conditions are about
    Guards guards;
    std::unique_ptr<program::KeptSegment> kept;  ///< in defer mode; null: calls are kept one by one
    struct Input {
        int32_t source;  ///< -1: `captured`
        Object captured{};
    };
    std::vector<Input> inputs;
    Object backend{}, made{};  ///< who made what runs instead of the plan; or null
    uint64_t reach = 0;        ///< number of the Reach that it was made for

    /// Why it may not run: the source of a number that alone is another; that guards alone do not hold.
    struct Differs {
        int32_t source = -1;
        bool guards = false;
    };
    /// Whether it may run: then `inputs` are filled.
    bool holds(Frame* frame, Tensor* inputs, Differs& differs);
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
using Recipe = Stretch::Recipe;
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
