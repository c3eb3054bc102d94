/// Calls that look like one made before need no parsing.
///
/// Note [Remembered calls]
/// A program makes the same calls again and again, with the same names, numbers and words over other
/// tensors. An op's callable keeps what the last few of them came to: which record it was and its
/// attributes. A call is like a remembered one if it has tensors in the same places and equal
/// constants elsewhere. Kept are only calls whose meaning those tell alone: where the record
/// depended on what a tensor holds, or a number became a tensor, each call is parsed.
#pragma once
#include "python/parse.h"

namespace weft::python {

struct Remembered {
    static constexpr int kArgs = 8;
    uint32_t refs = 0;
    const Op* op = nullptr;
    Py_ssize_t positional = 0;
    int given = 0;                    ///< arguments, those by name included
    Object names;                     ///< of the last ones, a tuple or null
    Object constants[kArgs];          ///< empty: a tensor, or a list of tensors
    const Param* inputs[kArgs] = {};  ///< where it goes
    std::vector<Value> attrs;         ///< empty: the defaults

    bool is_like(PyObject* const* args, Py_ssize_t count, PyObject* kwnames) const;
    /// Call::attrs_number, for calls that are kept.
    uint64_t attrs_number() const {
        return attrs.empty() || attrs_number_ ? attrs_number_ : number_attrs();
    }

private:
    uint64_t number_attrs() const;
    mutable uint64_t attrs_number_ = 0;
};

/// The inputs of a call like one made before.
class Recalled {
public:
    explicit Recalled(const Ref<Remembered>& call) : call_(call) {}
    Recalled(const Recalled&) = delete;
    const Op& op() const { return *call_->op; }
    /// False if a list holds something else than tensors.
    bool take(PyObject* const* args);
    void fill(Call& c) const {
        c.in = in_;
        c.inputs = inputs_;
        c.attrs = call_->attrs.empty() ? op().defaults.data() : call_->attrs.data();
        if (mode & kDeferMode) c.attrs_number = call_->attrs_number();
    }

private:
    static constexpr int kFew = 8;
    bool take_list(int slot, PyObject* list);

    Ref<Remembered> call_;  // which others may push out of the memory during the call
    Tensor few_[kFew];
    std::vector<Tensor> many_;
    Tensor* in_ = few_;
    int inputs_ = 0;
};

/// The last few different calls of one callable.
class Memory {
public:
    static inline bool enabled = true;

    /// A call like this one, or null.
    const Ref<Remembered>& find(PyObject* const* args, Py_ssize_t count, PyObject* kwnames);
    /// Keeps a call that was parsed into `arguments` as the record `op`, if it may be kept.
    void keep(const std::vector<const Op*>& overloads, const Op& op, const Arguments& arguments,
              PyObject* const* args, Py_ssize_t count, PyObject* kwnames);

private:
    static constexpr int kCalls = 4;
    /// A prime: calls that come in pairs or fours would else be noted at their last one for ever.
    static constexpr int kPatience = 17;
    Ref<Remembered> calls_[kCalls];
    int next_ = 0;
    int missed_ = 0;  ///< since the last one that was found
};

}  // namespace weft::python
