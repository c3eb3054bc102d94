/// Values to a call, by the op's schema.
///
/// Note [Remembered by instruction]
/// An instruction makes the same call again and again. What its last call came to is kept with it: the record, where
/// each tensor goes, the attributes. A call is like that if it has tensors, numbers for pointwise operands and lists
/// in the same places, and equal constants elsewhere; then nothing is parsed.
#pragma once
#include "native/callables.h"
#include "native/package.h"
#include "native/tensors.h"
#include "ops/arguments.h"

namespace weft::native {

/// What values are to ops::ArgumentsOf.
struct ArgumentValues {
    using Item = Raw;
    static bool is_none(Raw r) { return r.is_none(); }
    static bool is_tensor(Raw r) { return r.is_tensor(); }
    static Tensor handle(Raw r) { return r.tensor(); }
    static Tensor operand(Raw r) { return native::operand(r); }
    static bool is_number(Raw r) { return native::is_number(r); }
    static Tensor number_tensor(Raw r, const Tensor* like) {
        return native::number_tensor(r, like);
    }
    static bool is_sequence(Raw r) { return native::is_sequence(r); }
    static Items items(Raw r) { return items_in(r); }
    static bool is_bool(Raw r) { return r.is(Kind::Bool); }
    static bool truth(Raw r) { return r.truth_of_bool(); }
    static bool to_dtype(Raw r, DType& out);
    static bool is_text(Raw r) { return r.is(Kind::Text); }
    static const std::string& text(Raw r) { return text_in(r); }
    static std::string type_name(Raw r) { return native::type_name(r); }
};

class Arguments : public ops::ArgumentsOf<Arguments, ArgumentValues> {
public:
    explicit Arguments(Explain explain = Explain::No) : ArgumentsOf(explain) {}

    /// False if they do not fit the op (then `reason` says why). Throws for arguments of the right type with bad
    /// values. `lenient`: 0-d tensors outside the graph count as numbers.
    bool parse(const Op& op, const Given& given, bool lenient);
    bool is_method() const { return false; }
    /// Whether values of the same kinds and equal constants always come to the same.
    bool plain() const { return !extra_ && !lenient_ && !read_; }

private:
    friend ArgumentsOf;
    static bool is_whole(Raw value);
    int64_t whole(const Op& op, Raw value);
    int64_t loose_int(const Op& op, Raw value) { return whole(op, value); }
    bool accepts_number(Raw value) const;
    double real(const Op& op, Raw value);
    bool set_ints(const Op& op, const Param& p, Raw value);
    bool set_scalar(const Op& op, const Param& p, Raw value);
    bool set_extra(const Op& op, const std::string& name, Raw value);

    bool read_ = false;  ///< an attribute is what a tensor held
    bool lenient_ = false;
};

/// The last call of an instruction.
class Remembered {
public:
    /// Runs a call like it; empty if it is none.
    Thing run(const Ops& ops, const Given& given);
    void keep(const Ops& ops, const Op& op, const Arguments& arguments, const Given& given);
    /// The ops of a method of tensors, which this instruction calls; null if it is none.
    const Ops* method_called(const Package& package, const std::string& name) {
        if (!looked_up_) {
            method_ = package.ops("Tensor." + name);
            looked_up_ = true;
        }
        return method_;
    }

private:
    const Ops* method_ = nullptr;
    bool looked_up_ = false;
    static constexpr int kArgs = 8;
    enum class How : uint8_t { Tensor, List, Number, Same };
    bool is_like(const Ops& ops, const Given& given) const;

    const Ops* ops_ = nullptr;
    const Op* op_ = nullptr;
    int8_t n_ = 0;
    int8_t inputs_ = 0;  ///< but for those of a list
    int16_t missed_ = 0;
    How how_[kArgs];
    int8_t slot_[kArgs];
    Thing same_[kArgs];
    /// Kept by who uses them: others may make this instruction remember another call meanwhile.
    struct Attrs {
        uint32_t refs = 0;
        std::vector<Value> values;
        friend void release(Attrs* attrs) { delete attrs; }
    };
    Ref<Attrs> attrs_;
};

/// Calls ops by name. `memory` may be null.
Thing call_ops(const Ops& ops, const Given& given, Remembered* memory);

}  // namespace weft::native
