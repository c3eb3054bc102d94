#include "python/parse.h"

#include <algorithm>

#include "python/remembered.h"
#include "python/slots.h"

namespace weft::python {
namespace {

const char* type_name(PyObject* o) { return Py_TYPE(o)->tp_name; }

bool is_int(PyObject* o) {
    return (PyLong_Check(o) && !PyBool_Check(o)) ||
           (!PyBool_Check(o) && !is_tensor(o) && PyIndex_Check(o));
}

/// A tensor that stands for an int.
static bool is_whole_tensor(PyObject* o) {
    if (!is_tensor(o)) return false;
    const Tensor t = handle(o);
    return t.ndim() == 0 && !is_inexact(t.dtype()) && t.dtype() != DType::Bool;
}

/// Extra keywords of functions that make tensors; the values that mean what weft does anyway.
bool harmless(std::string_view name, PyObject* value) {
    if (value == Py_None) return true;
    if (name == "pin_memory") return value == Py_False;
    if (name == "device") {
        expect_cpu(value);
        return true;
    }
    if (name == "layout" || name == "memory_format") {
        Object shown = Object::take(PyObject_Str(value));
        std::string_view s = to_text(shown.get());
        return s == "torch.strided" || s == "torch.contiguous_format" ||
               s == "torch.preserve_format";
    }
    return false;
}

std::string_view kind_text(Param::Kind kind) {
    switch (kind) {
        case Param::Kind::Tensor:
            return "a Tensor";
        case Param::Kind::Tensors:
            return "a list of Tensors";
        case Param::Kind::Int:
            return "an int";
        case Param::Kind::Ints:
            return "ints";
        case Param::Kind::Float:
            return "a float";
        case Param::Kind::Bool:
            return "a bool";
        case Param::Kind::Scalar:
            return "a number";
        case Param::Kind::DType:
            return "a dtype";
        case Param::Kind::Text:
            return "a str";
    }
    return "";
}

}  // namespace

void release(Remembered* call) { delete call; }

void Arguments::copy_defaults(const Op& op) {
    int count = static_cast<int>(op.defaults.size());
    WEFT_EXPECT(count <= kAttrs, Runtime, op.name, text("at most ", kAttrs, " attributes"),
                std::to_string(count));
    std::uninitialized_copy_n(op.defaults.data(), count, attrs());
    attrs_made_ = count;
    attrs_used_ = attrs();
}

bool Arguments::set_input(const Op& op, const Param& p, PyObject* value) {
    if (p.kind == Param::Kind::Tensors) {
        if (!PyList_Check(value) && !PyTuple_Check(value)) return false;
        PyObject** items = PySequence_Fast_ITEMS(value);
        const auto n = static_cast<size_t>(PySequence_Fast_GET_SIZE(value));
        for (size_t i = 0; i < n; ++i)
            if (!is_tensor(items[i]) && !(items[i] == Py_None && p.optional)) return false;
        if (!listed_) list_.assign(in_, in_ + p.slot);
        listed_ = true;
        for (size_t i = 0; i < n; ++i)
            list_.push_back(items[i] == Py_None ? Tensor() : handle(items[i]));
        make_operands(list_.data() + list_.size() - n, list_.data() + list_.size());
        return true;
    }
    if (is_tensor(value)) {
        (listed_ ? list_[p.slot] : in_[p.slot]) = operand(value);
        return true;
    }
    if (value == Py_None) return p.optional;
    if (op.pointwise && is_number(value) && (p.slot > 0 || op.number_self)) {
        numbers_[p.slot] = value;
        return any_number_ = true;
    }
    return false;
}

/// PyTorch raises another type for ints beyond 64 bits by what they are: an operand, a list's item.
static int64_t to_int_or(ErrorKind kind, PyObject* value, const char* who) {
    try {
        return to_int(value, who);
    } catch (const Error& e) {
        throw Error(kind, e.what());
    }
}

/// Whether `value` is an int of 64 bits without a sign that has none left for one.
static bool is_wide_unsigned_int(PyObject* value) {
    int overflow = 0;
    if (!PyLong_Check(value) || (PyLong_AsLongLongAndOverflow(value, &overflow), overflow <= 0))
        return false;
    PyLong_AsUnsignedLongLong(value);
    const bool fits = !PyErr_Occurred();
    if (!fits) PyErr_Clear();
    return fits;
}

/// Such ints, of which the attributes have the bits, are taken where the result is floating, or of
/// uint64 and made of nothing else.
void Arguments::complete_wide(const Op& op) {
    DType t = in_[0].defined() ? in_[0].dtype() : DType::Int64;
    for (const Param& p : op.params)
        if (p.kind == Param::Kind::DType) t = attrs()[p.slot].as_dtype(t);
    for (int slot = 0; slot < attrs_made_; ++slot) {
        if (!(wide_ >> slot & 1)) continue;
        Value& value = attrs()[slot];
        const auto bits = static_cast<uint64_t>(value.as_int());
        if (is_inexact(t)) value = static_cast<double>(bits);
        else
            WEFT_EXPECT(
                op.factory && t == DType::UInt64, Runtime, op.public_name, "an int of 64 bits",
                text(bits, " (value cannot be converted to type int64_t without overflow)"));
    }
}

static Value number_in(const Tensor& t) {
    if (t.dtype() == DType::Bool) return t.item_int() != 0;
    if (is_floating(t.dtype())) return t.item_double();
    if (is_complex(t.dtype())) return t.item_complex();
    return t.item_int();
}

/// Of a complex number for an op on real tensors: its imaginary part would be lost.
void Arguments::expect_no_imaginary(const Op& op) const {
    WEFT_EXPECT(!in_[0].defined() || is_complex(in_[0].dtype()) || in_[0].dtype() == DType::Bool,
                Runtime, op.public_name,
                text("a real number for a tensor of dtype ", name(in_[0].dtype())),
                "a complex one (value cannot be converted to type double without overflow)");
}

/// PyTorch takes a 0-d tensor outside the graph wherever it takes a number.
bool Arguments::accepts_number(PyObject* value) const {
    if (!is_tensor(value)) return is_number(value);
    return (ways_ & kLenient) && handle(value).ndim() == 0 && !requires_grad(unwrap(value));
}

/// Whether ints are all that is passed by place, but for self: then they need no brackets.
static bool takes_ints_alone(const Op& op) {
    int ints = 0, others = 0;
    for (const Param& p : op.params)
        if (!p.is_input() && !p.keyword_only) (p.kind == Param::Kind::Ints ? ints : others)++;
    return ints == 1 && others == 0;
}

bool Arguments::set_ints(const Op& op, const Param& p, PyObject* value) {
    Dims dims;
    try {
        if (is_whole_tensor(value)) dims.push_back(to_int(value, op.public_name.c_str()));
        else if (!to_dims(value, dims)) return false;
    } catch (const Error& e) {
        // An int beyond 64 bits: PyTorch's kind is another in a list, or where one may be left out
        // (`x.view(2, 3)`).
        throw Error(is_int(value) && !takes_ints_alone(op) ? e.kind : ErrorKind::Type, e.what());
    }
    attr(op, p.slot) = Value(dims);
    return true;
}

bool Arguments::set_scalar(const Op& op, const Param& p, PyObject* value) {
    const char* who = op.public_name.c_str();
    if (PyBool_Check(value)) {
        attr(op, p.slot) = value == Py_True;
    } else if (is_tensor(value) && accepts_number(value)) {
        if (is_complex(handle(value).dtype())) expect_no_imaginary(op);
        attr(op, p.slot) = number_in(reading(value));
    } else if (PyComplex_Check(value)) {
        expect_no_imaginary(op);
        Py_complex v = PyComplex_AsCComplex(value);
        attr(op, p.slot) = std::complex<double>(v.real, v.imag);
    } else if (is_wide_unsigned_int(value)) {
        wide_ |= 1u << p.slot;
        attr(op, p.slot) = static_cast<int64_t>(PyLong_AsUnsignedLongLong(value));
    } else if (is_int(value)) {
        attr(op, p.slot) = to_int_or(ErrorKind::Overflow, value, who);
    } else if (accepts_number(value)) {
        attr(op, p.slot) = to_double(value, who);
    } else {
        return false;
    }
    return true;
}

bool Arguments::set(const Op& op, const Param& p, PyObject* value) {
    if (p.is_input()) return set_input(op, p, value);
    if (value == Py_None) {
        if (!p.optional) return false;
        attr(op, p.slot) = Value();
        return true;
    }
    switch (p.kind) {
        case Param::Kind::Int:
            if (!is_int(value) && !is_whole_tensor(value)) return false;
            attr(op, p.slot) = to_int(value, op.public_name.c_str());
            return true;
        case Param::Kind::Ints:
            return set_ints(op, p, value);
        case Param::Kind::Float:
            if (!accepts_number(value)) return false;
            attr(op, p.slot) = to_double(value, op.public_name.c_str());
            return true;
        case Param::Kind::Bool:
            if (!PyBool_Check(value)) return false;
            attr(op, p.slot) = value == Py_True;
            return true;
        case Param::Kind::Scalar:
            return set_scalar(op, p, value);
        case Param::Kind::DType: {
            DType t;
            if (!to_dtype(value, t)) return false;
            attr(op, p.slot) = t;
            return true;
        }
        case Param::Kind::Text:
            if (!PyUnicode_Check(value)) return false;
            attr(op, p.slot) = std::string(to_text(value));
            return true;
        default:
            return false;
    }
}

bool Arguments::set_out(const Op& op, PyObject* value) {
    if (value == Py_None) return true;
    if (op.outputs == 1) {
        if (!is_tensor(value)) return refuse("out must be a Tensor, not ", type_name(value));
        if (op.out_form) out_ = unwrap(value);
        else outs_.push_back(unwrap(value));
        return true;
    }
    bool sequence = PyTuple_Check(value) || PyList_Check(value);
    if (!sequence || PySequence_Fast_GET_SIZE(value) != op.outputs)
        return refuse("out must be ", op.outputs, " Tensors");
    for (int k = 0; k < op.outputs; ++k) {
        PyObject* item = PySequence_Fast_GET_ITEM(value, k);
        if (!is_tensor(item)) return refuse("out must be ", op.outputs, " Tensors");
        outs_.push_back(unwrap(item));
    }
    return true;
}

bool Arguments::set_extra(const Op& op, PyObject* name, PyObject* value) {
    extra_ = true;
    std::string_view n = to_text(name);
    if (n == "out" && (ways_ & kOut) && !op.view && op.outputs > 0) return set_out(op, value);
    if (n == "generator" && op.random && op.kernel) {
        if (value == Py_None) return true;
        generator_ = to_generator(value);
        return generator_ || refuse("generator must be a Generator, not ", type_name(value));
    }
    if (op.factory && n == "requires_grad" && PyBool_Check(value)) {
        requires_grad_ = value == Py_True;
        return true;
    }
    const bool format = n == "memory_format";
    if (format && op.memory_format != Formats::None) {
        channels_last_ = channels_last_dims(value);
        if (channels_last_ || harmless(n, value)) return true;
    } else if (!format && op.factory && harmless(n, value)) {
        return true;
    }
    return refuse("an unexpected keyword argument '", n, "'");
}

/// The parameter of that name, or else of that alias; `op.params.size()` if there is none.
static int parameter_called(const Op& op, std::string_view name) {
    const auto& params = op.params;
    const int total = static_cast<int>(params.size());
    for (int i = 0; i < total; ++i)
        if (params[i].name == name) return i;
    for (int i = 0; i < total; ++i)
        if (std::ranges::find(params[i].aliases, name) != params[i].aliases.end()) return i;
    return total;
}

/// The rest of the arguments by place, which are ints without brackets.
bool Arguments::set_loose_ints(const Op& op, const Param& p, PyObject* const* args,
                               Py_ssize_t count) {
    Dims dims;
    for (Py_ssize_t j = 0; j < count; ++j) {
        if (!is_int(args[j]) && !is_whole_tensor(args[j])) return refuse(p.name, " must be ints");
        dims.push_back(to_int_or(ErrorKind::Type, args[j], op.public_name.c_str()));
    }
    attr(op, p.slot) = Value(dims);
    return true;
}

bool Arguments::parse(const Op& op, PyObject* const* args, Py_ssize_t count, PyObject* kwnames,
                      unsigned ways) {
    uint64_t given = 0;
    ways_ = ways;
    channels_last_ = 0;
    const auto& params = op.params;
    int total = static_cast<int>(params.size());
    inputs_ = op.inputs;
    WEFT_EXPECT(op.inputs <= kInputs, Runtime, op.name, text("at most ", kInputs, " inputs"),
                std::to_string(op.inputs));
    for (Py_ssize_t i = 0; i < count; ++i) {
        if (i >= total || params[i].keyword_only)
            return refuse("at most ", i, " positional arguments (", count, " given)");
        const Param& p = params[i];
        bool last = i + 1 == total || params[i + 1].keyword_only;
        if (p.kind == Param::Kind::Ints && last && takes_ints_alone(op) && count > i + 1 &&
            (is_int(args[i]) || is_whole_tensor(args[i]))) {
            if (!set_loose_ints(op, p, args + i, count - i)) return false;
            given |= uint64_t{1} << i;
            break;
        }
        if (!set(op, p, args[i]))
            return refuse(p.name, " must be ", kind_text(p.kind), ", not ", type_name(args[i]));
        given |= uint64_t{1} << i;
    }
    if (kwnames) {
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); ++k) {
            PyObject* name = PyTuple_GET_ITEM(kwnames, k);
            PyObject* value = args[count + k];
            std::string_view n = to_text(name);
            const int i = parameter_called(op, n);
            if (i == total) {
                if (!set_extra(op, name, value)) return false;
                continue;
            }
            if (k < kNamed) by_name_[k] = static_cast<uint8_t>(i);
            if (given >> i & 1) return refuse("multiple values for '", n, "'");
            if (!set(op, params[i], value))
                return refuse(params[i].name, " must be ", kind_text(params[i].kind), ", not ",
                              type_name(value));
            given |= uint64_t{1} << i;
        }
    }
    return complete(op, given);
}

/// What is made from numbers into `out` is made in its dtype; no other can be asked for.
void Arguments::take_dtype_of_out(const Op& op) {
    const DType wanted = out_.dtype();
    for (const Param& p : op.params) {
        if (p.kind != Param::Kind::DType) continue;
        Value& given = attr(op, p.slot);
        WEFT_EXPECT(given.as_dtype(wanted) == wanted, Runtime, op.public_name,
                    text("an out= of the dtype asked for, ", name(given.as_dtype(wanted))),
                    text(name(wanted), " (dtype does not match dtype of out parameter)"));
        given = wanted;
    }
}

bool Arguments::complete(const Op& op, uint64_t given) {
    uint64_t all = (uint64_t{1} << op.params.size()) - 1;
    if (given != all) {
        for (size_t i = 0; i < op.params.size(); ++i) {
            const Param& p = op.params[i];
            if (!(given >> i & 1) && !p.has_default && !(p.is_input() && p.optional))
                return refuse("missing argument '", p.name, "'");
        }
    }
    if (extra_ | wide_) [[unlikely]] {
        if (out_.defined() && op.factory) take_dtype_of_out(op);
        if (wide_) complete_wide(op);
    }
    if (!attrs_used_) attrs_used_ = op.defaults.data();
    if (listed_) inputs_ = static_cast<int>(list_.size());
    return !any_number_ || set_numbers(op);
}

/// Python numbers become 0-d tensors that take the other operands' dtype where that loses nothing.
bool Arguments::set_numbers(const Op& op) {
    const Tensor* like = nullptr;
    for (int i = 0; i < op.inputs; ++i)
        if (in_[i].defined() && (!like || category(in_[i].dtype()) > category(like->dtype())))
            like = &in_[i];
    for (int i = 0; i < op.inputs; ++i)
        if (numbers_[i]) {
            Tensor t = number_tensor(numbers_[i], like);
            in_[i] = std::move(t);
        }
    return true;
}

void Arguments::fill(Call& c) const {
    c.in = listed_ ? list_.data() : in_;
    c.inputs = inputs_;
    c.attrs = attrs_used_;
    c.dest = out_;
}

const Param* Arguments::input_for(const Op& op, Py_ssize_t i, Py_ssize_t count) const {
    auto at = static_cast<size_t>(i < count ? i : by_name_[i - count]);
    return at < op.params.size() && op.params[at].is_input() ? &op.params[at] : nullptr;
}

}  // namespace weft::python
