#include "native/arguments.h"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "autograd/meta.h"
#include "native/tensors.h"
#include "ops/schema.h"

namespace weft::native {

bool ArgumentValues::to_dtype(Raw value, DType& out) {
    if (value.is(Kind::DType)) {
        out = dtype_in(value);
        return true;
    }
    if (!value.is(Kind::Type)) return false;
    switch (value.lasting<Type>()->kind) {
        case Kind::Float:
            out = DType::Float64;
            return true;
        case Kind::Int:
            out = DType::Int64;
            return true;
        case Kind::Bool:
            out = DType::Bool;
            return true;
        default:
            return false;
    }
}

bool Arguments::is_whole(Raw value) {
    return is_int(value) || (value.is_tensor() && ops::is_whole(value.tensor()));
}
int64_t Arguments::whole(const Op&, Raw value) {
    if (is_int(value)) return int_in(value);
    read_ = true;
    return reading(value).item_int();
}
double Arguments::real(const Op&, Raw value) {
    if (value.is(Kind::Complex)) raise_as(types::TypeError, "must be real number, not complex");
    if (!value.is_tensor()) return number_as_double(value);
    read_ = true;
    return reading(value).item_double();
}

bool Arguments::accepts_number(Raw value) const {
    if (!value.is_tensor()) return is_number(value);
    const Tensor t = value.tensor();
    return lenient_ && t.ndim() == 0 && !requires_grad(t);
}

bool Arguments::set_ints(const Op& op, const Param& p, Raw value) {
    Dims dims;
    if (is_whole(value)) {
        dims.push_back(whole(op, value));
    } else {
        if (!is_sequence(value)) return false;
        for (Raw item : items_in(value)) {
            if (!is_whole(item)) return false;
            dims.push_back(whole(op, item));
        }
    }
    attr(op, p.slot) = Value(dims);
    return true;
}

bool Arguments::set_scalar(const Op& op, const Param& p, Raw value) {
    if (!accepts_number(value)) return false;
    switch (value.kind()) {
        case Kind::Bool:
            attr(op, p.slot) = value.truth_of_bool();
            return true;
        case Kind::Int:
            attr(op, p.slot) = int_in(value);
            return true;
        case Kind::Float:
            attr(op, p.slot) = double_in(value);
            return true;
        case Kind::Complex:
            ops::expect_no_imaginary(op, in_[0]);
            attr(op, p.slot) = number_as_complex(value);
            return true;
        default:
            if (is_complex(value.tensor().dtype())) ops::expect_no_imaginary(op, in_[0]);
            read_ = true;
            attr(op, p.slot) = ops::number_in(reading(value));
            return true;
    }
}

/// Keywords that are no parameters: of functions that make tensors, with the values that mean what weft does anyway.
bool Arguments::set_extra(const Op& op, const std::string& name, Raw value) {
    extra_ = true;
    if (name == "out") return value.is_none() || refuse("out= is not taken by packages");
    if (name == "generator" && op.random) {
        return value.is_none() || refuse("generator= is not taken by packages");
    }
    if (op.factory && name == "requires_grad" && value.is(Kind::Bool)) {
        requires_grad_ = value.truth_of_bool();
        return true;
    }
    const bool cpu = name == "device" && value.is(Kind::Text) && text_in(value) == "cpu";
    const bool unpinned = name == "pin_memory" && value == Raw::boolean(false);
    const bool known = name == "device" || name == "pin_memory" || name == "layout";
    if (op.factory && known && (value.is_none() || cpu || unpinned)) return true;
    if (name == "memory_format" && op.memory_format != Formats::None && value.is_none())
        return true;
    return refuse("unexpected argument '", name, "'");
}

bool Arguments::parse(const Op& op, const Given& given, bool lenient) {
    lenient_ = lenient;
    if (!take_places(op, given.args, given.n)) return false;
    const auto total = static_cast<int>(op.params.size());
    for (int64_t k = 0; k < given.words(); ++k) {
        const std::string& name = (*given.names)[static_cast<size_t>(k)];
        const Raw value = given.args[given.n + k];
        const int i = parameter_called(op, name);
        if (i < total ? !take_named(op, i, name, value) : !set_extra(op, name, value)) return false;
    }
    if (!is_complete(op)) return false;
    finish(op);
    return true;
}

// ---- calls

namespace {

Thing run(const Ops& ops, Call& c) {
    if (ops.in_place) {
        c.dest = c.in[0];
        c.in_place = true;
    }
    ops::call(c);
    return results_of(c);
}

[[noreturn]] void fail_arguments(const Ops& called, const Given& given) {
    auto reason = [&](const Op& op) {
        Arguments arguments(Arguments::Explain::Yes);
        arguments.parse(op, given, false);
        return arguments.reason();
    };
    throw weft::Error(ErrorKind::Type, ops::no_overload(called.name, called.overloads, reason));
}

}  // namespace

bool Remembered::is_like(const Ops& ops, const Given& given) const {
    if (ops_ != &ops || n_ != given.n + given.words()) return false;
    for (int k = 0; k < n_; ++k) {
        const Raw value = given.args[k];
        switch (how_[k]) {
            case How::Tensor:
                if (!value.is_tensor()) return false;
                break;
            case How::List:
                if (!is_sequence(value)) return false;
                break;
            case How::Number:
                if (value.is_tensor() || !is_number(value)) return false;
                break;
            case How::Same: {
                const Raw same = same_[k].get();
                if (value == same) break;
                if (!value.is(Kind::Float) || !same.is(Kind::Float) ||
                    std::bit_cast<uint64_t>(double_in(value)) !=
                        std::bit_cast<uint64_t>(double_in(same)))
                    return false;
            }
        }
    }
    return true;
}

Thing Remembered::run(const Ops& ops, const Given& given) {
    if (!is_like(ops, given)) return {};
    Tensor few[kArgs];
    std::vector<Tensor> many;
    Tensor* in = few;
    int inputs = inputs_;
    Raw number{};
    int number_at = -1;
    for (int k = 0; k < n_; ++k) {
        if (how_[k] == How::Tensor) {
            in[slot_[k]] = operand(given.args[k]);
        } else if (how_[k] == How::Number) {
            number = given.args[k];
            number_at = slot_[k];
        } else if (how_[k] == How::List) {
            many.assign(few, few + slot_[k]);
            for (Raw item : items_in(given.args[k])) {
                if (!item.is_tensor()) return {};
                many.push_back(item.tensor());
            }
            ops::settle_for_call(many.data(), many.data() + many.size());
            in = many.data();
            inputs = static_cast<int>(many.size());
        }
    }
    if (number_at >= 0) {
        Tensor t = number_tensor(number, ops::numbers_like(in, inputs));
        in[number_at] = std::move(t);
    }
    missed_ = 0;
    const Ref<Attrs> attrs = attrs_;
    Call c(*op_, in, inputs, attrs ? attrs->values.data() : op_->defaults.data());
    return native::run(ops, c);
}

void Remembered::keep(const Ops& ops, const Op& op, const Arguments& arguments,
                      const Given& given) {
    // what changes from call to call is not worth keeping, but now and then
    if (missed_ < 1000) ++missed_;
    if (missed_ > 8 && missed_ % 64) return;
    const int64_t n = given.n + given.words();
    if (!arguments.plain() || n > kArgs || op.inputs > kArgs) return;
    int numbers = 0;
    ops_ = nullptr;
    for (int64_t k = 0; k < n; ++k) {
        const Raw value = given.args[k];
        const int at = k < given.n
                           ? static_cast<int>(k)
                           : parameter_called(op, (*given.names)[static_cast<size_t>(k - given.n)]);
        // loose ints all belong to the last parameter
        const Param* p =
            at < static_cast<int>(op.params.size()) ? &op.params[static_cast<size_t>(at)] : nullptr;
        const bool input = p && p->is_input() && !value.is_none();
        how_[k] = !input                            ? How::Same
                  : value.is_tensor()               ? How::Tensor
                  : p->kind == Param::Kind::Tensors ? How::List
                                                    : How::Number;
        slot_[k] = input ? static_cast<int8_t>(p->slot) : int8_t{0};
        numbers += how_[k] == How::Number;
        // a list may change and be the same one
        if (how_[k] == How::Same && (value.is(Kind::List) || value.is_tensor())) return;
        if (how_[k] == How::Same && value.is(Kind::Tuple))
            for (Raw item : items_in(value))
                if (!is_int(item)) return;
        same_[k] = how_[k] == How::Same ? Thing::borrow(value) : Thing();
    }
    if (numbers > 1) return;
    op_ = &op;
    n_ = static_cast<int8_t>(n);
    inputs_ = static_cast<int8_t>(op.inputs);
    attrs_ = nullptr;
    if (const Value* attrs = arguments.own_attrs())
        attrs_ = Ref<Attrs>(new Attrs{0, std::vector<Value>(attrs, attrs + op.defaults.size())});
    ops_ = &ops;
}

namespace {

Thing called_by_arguments(const Ops& ops, const Given& given, Remembered* memory) {
    if (memory)
        if (Thing out = memory->run(ops, given)) return out;
    for (const bool lenient : {false, true})
        for (const Op* op : ops.overloads) {
            Arguments arguments;
            if (!arguments.parse(*op, given, lenient)) continue;
            if (memory) memory->keep(ops, *op, arguments, given);
            Call c(*op);
            arguments.fill(c);
            Thing out = run(ops, c);
            if (arguments.wants_grad()) {
                const Raw r = out.get();
                if (r.is_tensor()) set_requires_grad(r.tensor(), true);
            }
            return out;
        }
    fail_arguments(ops, given);
}

[[noreturn]] void no_room() {
    fail(ErrorKind::Runtime, "alloc", "room for the call's own tables", "no memory");
}

}  // namespace

Thing call_ops(const Ops& ops, const Given& given, Remembered* memory) {
    try {
        return called_by_arguments(ops, given, memory);
    } catch (const std::bad_alloc&) {
        no_room();
    } catch (const std::length_error&) {
        no_room();
    }
}

}  // namespace weft::native
