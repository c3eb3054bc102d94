/// Python arguments to a call, by the op's schema.
#pragma once
#include <cstddef>
#include <memory>

#include "kernels/random.h"
#include "python/object.h"

namespace weft::python {

struct Remembered;
void release(Remembered* call);

/// The arguments of one Python call, converted. Lives on the stack of the call.
class Arguments {
public:
    /// Whether a refusal says why: words are made only for the error that no overload fits.
    enum class Explain : bool { No, Yes };
    explicit Arguments(Explain explain = Explain::No) : explain_(explain == Explain::Yes) {}
    Arguments(const Arguments&) = delete;
    ~Arguments() {
        if (attrs_made_) std::destroy_n(attrs(), attrs_made_);
    }

    /// False if they do not fit the op (then `reason` says why, and nothing is set as Python error).
    /// Throws for arguments of the right type with bad values.
    enum Ways : unsigned {
        kLenient = 1,  ///< 0-d tensors outside the graph count as numbers, if all else fails
        kOut = 2,      ///< out= is accepted: functions, not methods
    };
    bool parse(const Op& op, PyObject* const* args, Py_ssize_t count, PyObject* kwnames,
               unsigned ways);
    const std::string& reason() const { return reason_; }
    /// Points `c` at what was parsed.
    void fill(Call& c) const;
    bool wants_grad() const { return requires_grad_; }
    /// `out=` of an op that cannot write there itself; empty if there is none.
    const std::vector<Tensor>& destinations() const { return outs_; }
    /// `memory_format=`: the rank whose channels come last in memory, or 0.
    int channels_last() const { return channels_last_; }
    /// `generator=`, or null.
    kernels::Generator* generator() const { return generator_; }

    /// Whether all arguments were tensors for inputs and constants for attributes.
    bool plain() const { return !any_number_ && !extra_ && !(ways_ & kLenient); }
    /// The parameter of argument `i` of `count` positional ones, if it is an input.
    const Param* input_for(const Op& op, Py_ssize_t i, Py_ssize_t count) const;
    /// The attributes, if any was given.
    const Value* own_attrs() const { return attrs_made_ ? attrs_used_ : nullptr; }

private:
    static constexpr int kInputs = 8, kAttrs = 12, kNamed = 16;
    bool set(const Op& op, const Param& p, PyObject* value);
    bool set_ints(const Op& op, const Param& p, PyObject* value);
    bool set_loose_ints(const Op& op, const Param& p, PyObject* const* args, Py_ssize_t count);
    bool set_scalar(const Op& op, const Param& p, PyObject* value);
    bool set_input(const Op& op, const Param& p, PyObject* value);
    bool set_extra(const Op& op, PyObject* name, PyObject* value);
    template <class... Parts>
    bool refuse(const Parts&... parts) {
        if (explain_) [[unlikely]]
            reason_ = text(parts...);
        return false;
    }
    Value& attr(const Op& op, int slot) {
        if (!attrs_made_) copy_defaults(op);
        return attrs()[slot];
    }
    Value* attrs() { return reinterpret_cast<Value*>(attr_memory_); }
    void copy_defaults(const Op& op);
    bool set_numbers(const Op& op);
    bool complete(const Op& op, uint64_t given);
    void complete_wide(const Op& op);
    void take_dtype_of_out(const Op& op);
    bool set_out(const Op& op, PyObject* value);
    bool accepts_number(PyObject* value) const;
    void expect_no_imaginary(const Op& op) const;

    Tensor in_[kInputs];
    std::vector<Tensor> list_;  // inputs when a parameter is a list of tensors
    alignas(Value) std::byte attr_memory_[kAttrs * sizeof(Value)];  // most calls need none
    int attrs_made_ = 0;
    unsigned wide_ = 0;  ///< a bit for each attribute that is an int of 2^63 or more
    const Value* attrs_used_ = nullptr;
    int inputs_ = 0;
    bool listed_ = false;
    bool extra_ = false;       ///< a keyword that is no parameter
    uint8_t by_name_[kNamed];  ///< parameters of the arguments by name
    bool requires_grad_ = false;
    int channels_last_ = 0;
    PyObject* numbers_[kInputs] = {};  // Python numbers given where tensors are expected
    bool any_number_ = false;
    bool explain_;
    unsigned ways_ = 0;
    kernels::Generator* generator_ = nullptr;
    Tensor out_;
    std::vector<Tensor> outs_;
    std::string reason_;
};

}  // namespace weft::python
