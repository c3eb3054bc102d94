#include "python/parse.h"

#include <algorithm>

#include "ops/schema.h"
#include "python/remembered.h"
#include "python/slots.h"

namespace weft::python {
namespace {

bool is_int(PyObject* o) {
    return (PyLong_Check(o) && !PyBool_Check(o)) ||
           (!PyBool_Check(o) && !is_tensor(o) && PyIndex_Check(o));
}

/// Extra keywords of functions that make tensors; the values that mean what weft does anyway.
bool harmless(const std::string& who, std::string_view name, PyObject* value) {
    if (value == Py_None) return true;
    if (name == "pin_memory") {
        expect_unpinned(who, value == Py_True);
        return value == Py_False;
    }
    if (name == "layout" || name == "memory_format") {
        Object shown = Object::take(PyObject_Str(value));
        std::string_view s = to_text(shown.get());
        return s == "torch.strided" || s == "torch.contiguous_format" ||
               s == "torch.preserve_format";
    }
    return false;
}

}  // namespace

void release(Remembered* call) { delete call; }

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
    for (int slot = 0; slot < attrs_count(); ++slot) {
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

/// PyTorch takes a 0-d tensor outside the graph wherever it takes a number.
bool Arguments::accepts_number(PyObject* value) const {
    if (!is_tensor(value)) return is_number(value);
    return (ways_ & kLenient) && handle(value).ndim() == 0 && !requires_grad(unwrap(value));
}

bool Arguments::is_whole(PyObject* value) {
    return is_int(value) || (is_tensor(value) && ops::is_whole(handle(value)));
}
int64_t Arguments::whole(const Op& op, PyObject* value) {
    return to_int(value, op.public_name.c_str());
}
int64_t Arguments::loose_int(const Op& op, PyObject* value) {
    return to_int_or(ErrorKind::Type, value, op.public_name.c_str());
}
double Arguments::real(const Op& op, PyObject* value) {
    return to_double(value, op.public_name.c_str());
}

bool Arguments::set_ints(const Op& op, const Param& p, PyObject* value) {
    Dims dims;
    try {
        if (is_tensor(value) && ops::is_whole(handle(value))) dims.push_back(whole(op, value));
        else if (!to_dims(value, dims)) return false;
    } catch (const Error& e) {
        // An int beyond 64 bits: PyTorch's kind is another in a list, or where one may be left out
        // (`x.view(2, 3)`).
        throw Error(is_int(value) && !ops::takes_ints_alone(op) ? e.kind : ErrorKind::Type,
                    e.what());
    }
    attr(op, p.slot) = Value(dims);
    return true;
}

bool Arguments::set_scalar(const Op& op, const Param& p, PyObject* value) {
    const char* who = op.public_name.c_str();
    if (PyBool_Check(value)) {
        attr(op, p.slot) = value == Py_True;
    } else if (is_tensor(value) && accepts_number(value)) {
        if (is_complex(handle(value).dtype())) ops::expect_no_imaginary(op, in_[0]);
        attr(op, p.slot) = ops::number_in(reading(value));
    } else if (PyComplex_Check(value)) {
        ops::expect_no_imaginary(op, in_[0]);
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

bool Arguments::set_out(const Op& op, PyObject* value) {
    if (value == Py_None) return true;
    if (op.outputs == 1) {
        if (!is_tensor(value))
            return refuse(op.public_name, "(): argument 'out' must be Tensor, not ",
                          ArgumentValues::type_name(value));
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
        return generator_ ||
               refuse(op.public_name, "(): argument 'generator' must be torch.Generator, not ",
                      ArgumentValues::type_name(value));
    }
    if (op.factory && n == "requires_grad" && PyBool_Check(value)) {
        requires_grad_ = value == Py_True;
        return true;
    }
    if (op.factory && n == "device") {
        place_ = to_place(value);
        return true;
    }
    const bool format = n == "memory_format";
    if (format && op.memory_format != Formats::None) {
        channels_last_ = channels_last_dims(value);
        if (channels_last_ || harmless(op.public_name, n, value)) return true;
    } else if (!format && op.factory && harmless(op.public_name, n, value)) {
        return true;
    }
    return refuse("an unexpected keyword argument '", n, "'");
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

bool Arguments::parse(const Op& op, PyObject* const* args, Py_ssize_t count, PyObject* kwnames,
                      unsigned ways) {
    ways_ = ways;
    if (!take_places(op, args, count)) return false;
    const Py_ssize_t words = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    const auto total = static_cast<int>(op.params.size());
    for (Py_ssize_t k = 0; k < words; ++k) {
        PyObject* name = PyTuple_GET_ITEM(kwnames, k);
        PyObject* value = args[count + k];
        const std::string_view n = to_text(name);
        const int i = parameter_called(op, n);
        if (i == total) {
            if (!set_extra(op, name, value)) return false;
            continue;
        }
        if (k < kNamed) by_name_[k] = static_cast<uint8_t>(i);
        if (!take_named(op, i, n, value)) return false;
    }
    if (!is_complete(op)) return false;
    if (extra_ | wide_) [[unlikely]] {
        if (out_.defined() && op.factory) take_dtype_of_out(op);
        if (wide_) complete_wide(op);
    }
    finish(op);
    return true;
}

const Param* Arguments::input_for(const Op& op, Py_ssize_t i, Py_ssize_t count) const {
    auto at = static_cast<size_t>(i < count ? i : by_name_[i - count]);
    return at < op.params.size() && op.params[at].is_input() ? &op.params[at] : nullptr;
}

}  // namespace weft::python
