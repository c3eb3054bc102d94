/// Arguments of a call, taken by an op's schema: the rules, which do not ask what language they are written in.
///
/// `Values` says what an argument is (`Item`: one of Python's objects, a value of a package). `Self`, the class that
/// derives from this one, converts what has rules of its own there: `is_whole`, `whole`, `loose_int`,
/// `accepts_number`, `real`, `set_ints`, `set_scalar`.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "ops/call.h"
#include "ops/element.h"

namespace weft::ops {

/// What a parameter takes, in PyTorch's words.
std::string_view kind_text(Param::Kind kind);
/// Throws Runtime for a complex number where the op is on a real tensor: its imaginary part would be lost.
void expect_no_imaginary(const Op& op, const Tensor& self);
/// What is said of a call that no record takes; `reason` says why one does not.
std::string no_overload(std::string_view name, const std::vector<const Op*>& overloads,
                        FunctionRef<std::string(const Op&)> reason);

/// Whether ints are all that is passed by place, but for self: then they need no brackets.
inline bool takes_ints_alone(const Op& op) {
    int ints = 0, others = 0;
    for (const Param& p : op.params)
        if (!p.is_input() && !p.keyword_only) (p.kind == Param::Kind::Ints ? ints : others)++;
    return ints == 1 && others == 0;
}
/// The operand whose dtype numbers among the others take where that loses nothing; null if there is none.
inline const Tensor* numbers_like(const Tensor* in, int inputs) {
    const Tensor* like = nullptr;
    for (int i = 0; i < inputs; ++i)
        if (in[i].defined() && (!like || category(in[i].dtype()) > category(like->dtype())))
            like = &in[i];
    return like;
}
/// For the door. The handles of a list are all taken first: to settle one may run others' code, which may change
/// the list.
inline void settle_for_call(Tensor* begin, Tensor* end) {
    for (Tensor* t = begin; t != end; ++t)
        if (t->defined() && t->has(kPending)) settle_for_call(*t);
}

/// The arguments of one call. Lives on the stack of the call.
template <class Self, class Values>
class ArgumentsOf {
public:
    using Item = typename Values::Item;
    /// Whether a refusal says why: words are made only for the error that no overload fits.
    enum class Explain : bool { No, Yes };
    ArgumentsOf(const ArgumentsOf&) = delete;

    const std::string& reason() const { return reason_; }
    bool wants_grad() const { return requires_grad_; }
    /// The attributes, if any was given.
    const Value* own_attrs() const { return attrs_made_ ? attrs() : nullptr; }
    /// Points `c` at what was parsed.
    void fill(Call& c) const {
        c.in = listed_ ? list_.data() : in_;
        c.inputs = inputs_;
        c.attrs = attrs_made_ ? attrs() : c.op->defaults.data();
    }

protected:
    static constexpr int kInputs = 8, kAttrs = 12;

    explicit ArgumentsOf(Explain explain) : explain_(explain == Explain::Yes) {}
    ~ArgumentsOf() {
        if (attrs_made_) std::destroy_n(attrs(), attrs_made_);
    }

    /// The arguments by place.
    bool take_places(const Op& op, const Item* args, int64_t count) {
        const auto total = static_cast<int64_t>(op.params.size());
        inputs_ = op.inputs;
        WEFT_EXPECT(op.inputs <= kInputs, Runtime, op.name, text("at most ", kInputs, " inputs"),
                    std::to_string(op.inputs));
        for (int64_t i = 0; i < count; ++i) {
            const auto k = static_cast<size_t>(i);
            if (i >= total || op.params[k].keyword_only)
                return refuse("at most ", i, " positional arguments (", count, " given)");
            const bool last = i + 1 == total || op.params[k + 1].keyword_only;
            if (op.params[k].kind == Param::Kind::Ints && last && count > i + 1 &&
                takes_ints_alone(op) && self().is_whole(args[i])) {
                given_ |= uint64_t{1} << i;
                return take_loose_ints(op, k, args + i, count - i);
            }
            if (!take(op, k, args[i], false)) return false;
        }
        return true;
    }
    /// The argument of parameter `i`, by name.
    bool take_named(const Op& op, int i, std::string_view name, Item value) {
        if (given_ >> i & 1) return refuse("multiple values for '", name, "'");
        return take(op, static_cast<size_t>(i), value, true);
    }
    /// Whether all is there that has to be.
    bool is_complete(const Op& op) {
        if (given_ == (uint64_t{1} << op.params.size()) - 1) return true;
        for (size_t i = 0; i < op.params.size(); ++i)
            if (is_missing(op, i)) return refuse_missing(op);
        return true;
    }
    /// The inputs as they go into the call: numbers become 0-d tensors.
    void finish(const Op& op) {
        if (listed_) inputs_ = static_cast<int>(list_.size());
        if (!any_number_) return;
        const Tensor* like = numbers_like(in_, op.inputs);
        for (int i = 0; i < op.inputs; ++i)
            if (numbers_[i]) {
                Tensor t = Values::number_tensor(numbers_[i], like);
                in_[i] = std::move(t);
            }
    }

    Value& attr(const Op& op, int slot) {
        if (!attrs_made_) copy_defaults(op);
        return attrs()[slot];
    }
    Value* attrs() { return reinterpret_cast<Value*>(attr_memory_); }
    const Value* attrs() const { return reinterpret_cast<const Value*>(attr_memory_); }
    template <class... Parts>
    bool refuse(const Parts&... parts) {
        if (explain_) [[unlikely]]
            reason_ = text(parts...);
        return false;
    }

private:
    Self& self() { return static_cast<Self&>(*this); }

    void copy_defaults(const Op& op) {
        const int count = static_cast<int>(op.defaults.size());
        WEFT_EXPECT(count <= kAttrs, Runtime, op.name, text("at most ", kAttrs, " attributes"),
                    std::to_string(count));
        std::uninitialized_copy_n(op.defaults.data(), count, attrs());
        attrs_made_ = count;
    }
    bool take(const Op& op, size_t i, Item value, bool named) {
        if (!set(op, op.params[i], value)) return refuse_kind(op, i, value, named);
        given_ |= uint64_t{1} << i;
        return true;
    }
    /// In PyTorch's words, which do not count the tensor whose method is called.
    bool refuse_kind(const Op& op, size_t i, Item value, bool named) {
        if (!explain_ || !reason_.empty()) return false;
        const Param& p = op.params[i];
        const std::string place =
            named ? "" : text("(position ", i + (self().is_method() ? 0 : 1), ") ");
        return refuse(op.public_name, "(): argument '", p.name == "self" ? "input" : p.name, "' ",
                      place, "must be ", kind_text(p.kind), ", not ", Values::type_name(value));
    }
    bool refuse_missing(const Op& op) {
        if (!explain_) return false;
        int count = 0;
        std::string names;
        for (size_t i = 0; i < op.params.size(); ++i)
            if (is_missing(op, i)) names += text(count++ ? ", \"" : "\"", op.params[i].name, "\"");
        return refuse(op.public_name, "() missing ", count,
                      " required positional arguments: ", names);
    }
    bool is_missing(const Op& op, size_t i) const {
        const Param& p = op.params[i];
        return !(given_ >> i & 1) && !p.has_default && !(p.is_input() && p.optional);
    }
    /// The rest of the arguments by place, which are ints without brackets.
    bool take_loose_ints(const Op& op, size_t i, const Item* args, int64_t count) {
        Dims dims;
        for (int64_t j = 0; j < count; ++j) {
            if (!self().is_whole(args[j]))
                return refuse(op.public_name, "(): argument '", op.params[i].name,
                              "' failed to unpack the object at pos ", j + 1,
                              " with error \"type must be tuple of ints,but got ",
                              Values::type_name(args[j]), "\"");
            dims.push_back(self().loose_int(op, args[j]));
        }
        attr(op, op.params[i].slot) = Value(dims);
        return true;
    }
    bool set_input(const Op& op, const Param& p, Item value) {
        if (p.kind == Param::Kind::Tensors)
            return Values::is_sequence(value) && set_list(p, Values::items(value));
        if (Values::is_tensor(value)) {
            (listed_ ? list_[static_cast<size_t>(p.slot)] : in_[p.slot]) = Values::operand(value);
            return true;
        }
        if (Values::is_none(value)) return p.optional;
        if (op.pointwise && Values::is_number(value) && (p.slot > 0 || op.number_self)) {
            numbers_[p.slot] = value;
            return any_number_ = true;
        }
        return false;
    }
    template <class Items>
    bool set_list(const Param& p, const Items& items) {
        int place = 0;
        for (Item item : items) {
            if (!Values::is_tensor(item) && !(Values::is_none(item) && p.optional))
                return refuse("expected Tensor as element ", place, " in argument ", p.slot,
                              ", but got ", Values::type_name(item));
            ++place;
        }
        if (!listed_) list_.assign(in_, in_ + p.slot);
        listed_ = true;
        const size_t before = list_.size();
        for (Item item : items)
            list_.push_back(Values::is_none(item) ? Tensor() : Values::handle(item));
        settle_for_call(list_.data() + before, list_.data() + list_.size());
        return true;
    }
    bool set(const Op& op, const Param& p, Item value) {
        if (p.is_input()) return set_input(op, p, value);
        if (Values::is_none(value)) {
            if (!p.optional) return false;
            attr(op, p.slot) = Value();
            return true;
        }
        switch (p.kind) {
            case Param::Kind::Int:
                if (!self().is_whole(value)) return false;
                attr(op, p.slot) = self().whole(op, value);
                return true;
            case Param::Kind::Ints:
                return self().set_ints(op, p, value);
            case Param::Kind::Float:
                if (!self().accepts_number(value)) return false;
                attr(op, p.slot) = self().real(op, value);
                return true;
            case Param::Kind::Bool:
                if (!Values::is_bool(value)) return false;
                attr(op, p.slot) = Values::truth(value);
                return true;
            case Param::Kind::Scalar:
                return self().set_scalar(op, p, value);
            case Param::Kind::DType: {
                DType t;
                if (!Values::to_dtype(value, t)) return false;
                attr(op, p.slot) = t;
                return true;
            }
            case Param::Kind::Text:
                if (!Values::is_text(value)) return false;
                attr(op, p.slot) = std::string(Values::text(value));
                return true;
            default:
                return false;
        }
    }

    alignas(Value) std::byte attr_memory_[kAttrs * sizeof(Value)];  // most calls need none
    int attrs_made_ = 0;
    uint64_t given_ = 0;        ///< a bit for each parameter
    std::vector<Tensor> list_;  ///< inputs when a parameter is a list of tensors
    Item numbers_[kInputs] = {};
    int inputs_ = 0;
    bool listed_ = false;
    std::string reason_;

protected:
    int attrs_count() const { return attrs_made_; }

    Tensor in_[kInputs];
    bool any_number_ = false;  ///< numbers given where tensors are expected
    bool extra_ = false;       ///< a keyword that is no parameter
    bool requires_grad_ = false;
    bool explain_;
};

}  // namespace weft::ops
