/// Python arguments to a call, by the op's schema.
#pragma once
#include <span>

#include "kernels/random.h"
#include "ops/arguments.h"
#include "python/object.h"

namespace weft::python {

struct Remembered;
void release(Remembered* call);

/// What Python's objects are to ops::ArgumentsOf.
struct ArgumentValues {
    using Item = PyObject*;
    static bool is_none(PyObject* o) { return o == Py_None; }
    static bool is_tensor(PyObject* o) { return python::is_tensor(o); }
    static Tensor handle(PyObject* o) { return python::handle(o); }
    static Tensor operand(PyObject* o) { return python::operand(o); }
    static bool is_number(PyObject* o) { return python::is_number(o); }
    static Tensor number_tensor(PyObject* o, const Tensor* like) {
        return python::number_tensor(o, like);
    }
    static bool is_sequence(PyObject* o) { return PyList_Check(o) || PyTuple_Check(o); }
    static std::span<PyObject*> items(PyObject* o) {
        return {PySequence_Fast_ITEMS(o), static_cast<size_t>(PySequence_Fast_GET_SIZE(o))};
    }
    static bool is_bool(PyObject* o) { return PyBool_Check(o); }
    static bool truth(PyObject* o) { return o == Py_True; }
    static bool to_dtype(PyObject* o, DType& out) { return python::to_dtype(o, out); }
    static bool is_text(PyObject* o) { return PyUnicode_Check(o); }
    static std::string_view text(PyObject* o) { return to_text(o); }
    static std::string_view type_name(PyObject* o) {
        std::string_view name = Py_TYPE(o)->tp_name;
        return name == "torch.Tensor" ? name.substr(6) : name;
    }
};

/// The arguments of one Python call, converted.
class Arguments : public ops::ArgumentsOf<Arguments, ArgumentValues> {
public:
    explicit Arguments(Explain explain = Explain::No) : ArgumentsOf(explain) {}

    /// False if they do not fit the op (then `reason` says why, and nothing is set as Python error).
    /// Throws for arguments of the right type with bad values.
    enum Ways : unsigned {
        kLenient = 1,  ///< 0-d tensors outside the graph count as numbers, if all else fails
        kOut = 2,      ///< out= is accepted: functions, not methods
    };
    bool parse(const Op& op, PyObject* const* args, Py_ssize_t count, PyObject* kwnames,
               unsigned ways);
    bool is_method() const { return !(ways_ & kOut); }
    void fill(Call& c) const {
        ArgumentsOf::fill(c);
        c.dest = out_;
    }
    /// `out=` of an op that cannot write there itself; empty if there is none.
    const std::vector<Tensor>& destinations() const { return outs_; }
    /// `memory_format=`: the rank whose channels come last in memory, or 0.
    int channels_last() const { return channels_last_; }
    /// `generator=`, or null.
    kernels::Generator* generator() const { return generator_; }

    /// `device=`.
    Where place() const { return place_; }
    /// Whether all arguments were tensors for inputs and constants for attributes.
    bool plain() const { return !any_number_ && !extra_ && !(ways_ & kLenient); }
    /// The parameter of argument `i` of `count` positional ones, if it is an input.
    const Param* input_for(const Op& op, Py_ssize_t i, Py_ssize_t count) const;

private:
    friend ArgumentsOf;
    static constexpr int kNamed = 16;
    static bool is_whole(PyObject* value);
    static int64_t whole(const Op& op, PyObject* value);
    static int64_t loose_int(const Op& op, PyObject* value);
    bool accepts_number(PyObject* value) const;
    static double real(const Op& op, PyObject* value);
    bool set_ints(const Op& op, const Param& p, PyObject* value);
    bool set_scalar(const Op& op, const Param& p, PyObject* value);
    bool set_extra(const Op& op, PyObject* name, PyObject* value);
    bool set_out(const Op& op, PyObject* value);
    void complete_wide(const Op& op);
    void take_dtype_of_out(const Op& op);

    unsigned wide_ = 0;        ///< a bit for each attribute that is an int of 2^63 or more
    uint8_t by_name_[kNamed];  ///< parameters of the arguments by name
    int channels_last_ = 0;
    Where place_ = Where::Unsaid;
    unsigned ways_ = 0;
    kernels::Generator* generator_ = nullptr;
    Tensor out_;
    std::vector<Tensor> outs_;
};

}  // namespace weft::python
