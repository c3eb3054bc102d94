/// Python functions whose arguments are checked before they run.
///
/// Note [Checked functions]
/// A function composed of ops in Python takes anything until an op or an attribute refuses it, by
/// then perhaps with Python's words for a None that has no `dim`, perhaps never. A Checked stands
/// for such a function: it knows for each parameter which kinds of values it takes (weft/base/checks.py
/// reads them off the annotations) and refuses others with TypeError before anything has happened,
/// as PyTorch's argument parser does. For the rest it is the function: its attributes, its
/// signature, its place in a class. A `lenient` one stands for what is a Python function in PyTorch
/// too: it refuses at once only what is neither tensor nor number where a tensor must be, and puts
/// the words for the others in the place of the function's own error. Where all arguments fit and
/// the function fails with Python's words, the error names the function and what it was given
/// (tell_arguments), unless a function of the user's ran below it.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "python/overrides.h"
#include "python/type.h"

namespace weft::python {
namespace {

enum Wanted : unsigned {
    kNone = 1,
    kTensor = 2,
    kInt = 4,
    kFloat = 8,
    kNumber = 16,
    kBool = 32,
    kText = 64,
    kDType = 128,
    kInts = 256,
    kTensors = 512,
    kAnything = 1024,
    kCallable = 2048,
    kNumpyBool = 4096,  ///< a bool may be one of NumPy's
};

/// Parameters in order: those by position, then those by keyword only.
struct Checked {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject* function;
    PyObject* who;
    PyObject* names;
    PyObject* also;  ///< further names of parameters in calls: {name: parameter}
    unsigned* kinds;
    Py_ssize_t positional;
    unsigned rest;  ///< kinds of further positional arguments
    bool lenient;
    bool asks;  ///< an argument may be one whose class answers the call (Note [Overrides])
};

Checked& checked_of(PyObject* o) { return *reinterpret_cast<Checked*>(o); }

bool is_index(PyObject* o) {
    if (PyLong_Check(o)) return !PyBool_Check(o);
    if (is_tensor(o)) {
        const Tensor& t = handle(o);
        return t.ndim() == 0 && !is_inexact(t.dtype()) && t.dtype() != DType::Bool;
    }
    if (!PyIndex_Check(o)) return false;
    PyObject* value = PyNumber_Index(o);  // an array has the method, and fails in it
    if (!value) PyErr_Clear();
    Py_XDECREF(value);
    return value;
}

/// PyTorch takes a 0-d tensor outside of the graph for a number.
bool is_lone_number(PyObject* o) {
    return is_tensor(o) ? handle(o).ndim() == 0 && !requires_grad(handle(o)) : is_number(o);
}

template <class Fits>
bool all_items(PyObject* o, Fits fits) {
    if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
        if (!fits(PySequence_Fast_GET_ITEM(o, i))) return false;
    return true;
}

bool fits_rarer(unsigned kinds, PyObject* o) {
    if (o == Py_None) return kinds & kNone;
    if (PyBool_Check(o)) return kinds & (kBool | kNumber | kFloat);
    if ((kinds & kInt) && is_index(o)) return true;
    if ((kinds & (kFloat | kNumber)) && is_lone_number(o))
        return (kinds & kNumber) || !PyComplex_Check(o);
    if ((kinds & kText) && PyUnicode_Check(o)) return true;
    if ((kinds & kNumpyBool) && !std::strncmp(Py_TYPE(o)->tp_name, "numpy.bool", 10)) return true;
    if ((kinds & kTensors) && all_items(o, is_tensor)) return true;
    if ((kinds & kInts) && all_items(o, is_index)) return true;
    if ((kinds & kCallable) && PyCallable_Check(o)) return true;
    DType dtype;
    return (kinds & kDType) && to_dtype(o, dtype);
}

inline bool fits(unsigned kinds, PyObject* o) {
    if (kinds & kAnything) return true;
    if ((kinds & kTensor) && is_tensor(o)) return true;
    return fits_rarer(kinds, o);
}

std::string kinds_text(unsigned kinds) {
    static constexpr std::pair<unsigned, const char*> words[] = {
        {kTensor, "a Tensor"}, {kTensors, "a list of Tensors"}, {kInt, "an int"},  {kInts, "ints"},
        {kFloat, "a float"},   {kNumber, "a number"},           {kBool, "a bool"}, {kText, "a str"},
        {kDType, "a dtype"},   {kCallable, "a function"},       {kNone, "None"}};
    std::string out;
    for (auto [kind, word] : words)
        if (kinds & kind) out += (out.empty() ? "" : " or ") + std::string(word);
    return out;
}

/// The first argument that does not fit, by place among `kinds` (-1: one of the rest).
struct Misfit {
    PyObject* value = nullptr;
    Py_ssize_t at = -1;
    unsigned kinds = 0;
    bool is_named_otherwise = false;  ///< a keyword is no parameter's name
};

Misfit find_misfit(const Checked& c, PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
    for (Py_ssize_t i = 0; i < count; ++i) {
        const unsigned kinds = i < c.positional ? c.kinds[i] : c.rest;
        if (!fits(kinds, args[i])) return {args[i], i < c.positional ? i : -1, kinds};
    }
    const Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    const Py_ssize_t all = PyTuple_GET_SIZE(c.names);
    bool otherwise = false;
    for (Py_ssize_t k = 0; k < named; ++k) {
        PyObject* name = PyTuple_GET_ITEM(kwnames, k);
        Py_ssize_t i = 0;
        while (i < all && PyTuple_GET_ITEM(c.names, i) != name) ++i;
        if (i == all)  // a name that is not interned
            for (i = 0; i < all && PyUnicode_Compare(PyTuple_GET_ITEM(c.names, i), name) != 0;) ++i;
        if (i == all) otherwise = true;
        else if (!fits(c.kinds[i], args[count + k]))
            return {args[count + k], i, c.kinds[i], otherwise};
    }
    return {nullptr, -1, 0, otherwise};
}

/// The keywords with further names that the function says, and, if it is not lenient, those that
/// PyTorch's parser takes (NumPy's for `dim` and `keepdim`, `x1` and `x2`) or `input` for the first
/// parameter, in their parameters' names; null where there are none of these.
Object renamed(const Checked& c, PyObject* kwnames) {
    auto find = [&](std::string_view wanted) -> PyObject* {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(c.names); ++i)
            if (to_text(PyTuple_GET_ITEM(c.names, i)) == wanted)
                return PyTuple_GET_ITEM(c.names, i);
        return nullptr;
    };
    auto of_parser = [&](std::string_view said) -> PyObject* {
        if (said == "axis") return find("dim");
        if (said == "keepdims") return find("keepdim");
        if (said == "x2") return find("other");
        const bool first = said == "input" || said == "x" || said == "a" || said == "x1";
        return first && c.positional ? PyTuple_GET_ITEM(c.names, 0) : nullptr;
    };
    bool any = false;
    Object out = Object::take(PyTuple_New(PyTuple_GET_SIZE(kwnames)));
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); ++k) {
        PyObject* name = PyTuple_GET_ITEM(kwnames, k);
        std::string_view said = to_text(name);
        PyObject* meant = nullptr;
        if (!find(said)) {
            meant = PyDict_GetItemWithError(c.also, name);
            if (!meant && !c.lenient) meant = of_parser(said);
        }
        any |= meant != nullptr;
        PyTuple_SET_ITEM(out.get(), k, Py_NewRef(meant ? meant : name));
    }
    return any ? std::move(out) : Object();
}

/// `first`: the first argument, whose class a constructor is known by.
void set_refusal(const Checked& c, const Misfit& m, PyObject* first) {
    std::string_view who = to_text(c.who);
    if (who == "__init__" && first) who = Py_TYPE(first)->tp_name;
    std::string expected = kinds_text(m.kinds), got = Py_TYPE(m.value)->tp_name;
    std::string which = "one of its arguments";
    std::string_view bare = expected;
    for (std::string_view article : {"a ", "an "})
        if (bare.starts_with(article)) bare.remove_prefix(article.size());
    if (m.at >= 0) {
        which = text(who, "(): argument '", to_text(PyTuple_GET_ITEM(c.names, m.at)), "'");
        const bool of_method = to_text(PyTuple_GET_ITEM(c.names, 0)) == "self";
        if (m.at < c.positional) which += text(" (position ", m.at + (of_method ? 0 : 1), ")");
    }
    PyErr_SetString(PyExc_TypeError, text("[", who, "] expected ", expected, ", got ", got, " (",
                                          which, " must be ", bare, ", not ", got, ")")
                                         .c_str());
}

/// The error being raised, taken out of its place.
struct Raised {
    PyObject *type, *value, *trace;

    Raised() {
        PyErr_Fetch(&type, &value, &trace);
        PyErr_NormalizeException(&type, &value, &trace);
    }
    void restore() { PyErr_Restore(type, value, trace); }
    /// The error that is being raised now takes its place, and has it for its cause.
    void become_cause() {
        if (trace) PyException_SetTraceback(value, trace);
        Raised told;
        PyException_SetCause(told.value, Py_NewRef(value));
        told.restore();
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    }
};

/// Whether all that ran below the function was the package's: no error of a function of the user.
bool is_ours(PyObject* trace) {
    for (auto* t = reinterpret_cast<PyTracebackObject*>(trace); t; t = t->tb_next) {
        Object code = Object::take(reinterpret_cast<PyObject*>(PyFrame_GetCode(t->tb_frame)));
        if (!is_internal(code.get())) return false;
    }
    return true;
}

/// Whether an error comes of the argument that did not fit: words of its own, as for a value that
/// the function looked at, stay.
bool is_of_misfit(PyObject* error) {
    if (is_slip(error)) return true;
    return PyErr_GivenExceptionMatches(error, PyExc_RuntimeError) ||
           PyErr_GivenExceptionMatches(error, PyExc_IndexError) ||
           PyErr_GivenExceptionMatches(error, PyExc_OverflowError);
}

/// The words for the misfit, after the function itself has failed.
void replace_error(const Checked& c, const Misfit& m, PyObject* first) {
    Raised error;
    if (!is_of_misfit(error.value) || !is_ours(error.trace)) return error.restore();
    set_refusal(c, m, first);
    error.become_cause();
}

}  // namespace

std::string call_text(std::string_view who, PyObject* const* args, Py_ssize_t count) {
    std::string given;
    for (Py_ssize_t i = 0; i < count; ++i) {
        given += i ? ", " : "";
        if (!is_tensor(args[i])) given += Py_TYPE(args[i])->tp_name;
        else given += text(name(handle(args[i]).dtype()), to_string(handle(args[i]).shape()));
    }
    return text("in ", who, "(", given, ") at ", Site::here().place());
}

void tell_function(Error& error, std::string_view who, PyObject* const* args, Py_ssize_t count) {
    if (!error.context.empty()) return;
    error.context = call_text(who, args, count);
    note_failed_function(who, args, count);
}

void tell_operands(std::string_view who, PyObject* const* args, Py_ssize_t count) {
    Raised error;
    const bool ours = is_ours(error.trace);
    error.restore();
    if (ours && tell_call(call_text(who, args, count))) note_failed_function(who, args, count);
}

void tell_arguments(std::string_view who, PyObject* const* args, Py_ssize_t count) {
    Raised error;
    if (!is_slip(error.value) || !is_ours(error.trace)) return error.restore();
    std::string given;
    for (Py_ssize_t i = 0; i < count; ++i)
        given += (i ? ", " : "") + std::string(Py_TYPE(args[i])->tp_name);
    const bool index = PyErr_GivenExceptionMatches(error.value, PyExc_IndexError);
    Object said = Object::take(PyObject_Str(error.value));
    PyErr_SetString(index ? PyExc_IndexError : PyExc_TypeError,
                    text("[", who, "] expected arguments that it can compute with, got (", given,
                         "): ", to_text(said.get()))
                        .c_str());
    error.become_cause();
}

namespace {

PyObject* checked_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf,
                             PyObject* kwnames) {
    const Checked& c = checked_of(self);
    PyObject* answered;
    if (c.asks && Overrides::known_for(args, PyVectorcall_NARGS(nargsf), kwnames) &&
        Overrides::answer(self, args, PyVectorcall_NARGS(nargsf), kwnames, answered)) [[unlikely]]
        return answered;
    const Misfit m = find_misfit(c, args, PyVectorcall_NARGS(nargsf), kwnames);
    if (m.is_named_otherwise) [[unlikely]] {
        Object names;
        if (!guarded([&] { return names = renamed(c, kwnames), Py_True; })) return nullptr;
        if (names.get()) return checked_vectorcall(self, args, nargsf, names.get());
    }
    if (!m.value) {
        PyObject* out = PyObject_Vectorcall(c.function, args, nargsf, kwnames);
        if (out) return out;
        const Py_ssize_t count =
            PyVectorcall_NARGS(nargsf) + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
        return guarded([&]() -> PyObject* {
            tell_arguments(to_text(c.who), args, count);
            tell_operands(to_text(c.who), args, count);
            return nullptr;
        });
    }
    PyObject* first = PyVectorcall_NARGS(nargsf) ? args[0] : nullptr;
    return guarded([&]() -> PyObject* {
        const bool certain = (m.kinds & kCallable) || ((m.kinds & (kTensor | kTensors)) &&
                                                       !(m.kinds & kNumber) && !is_number(m.value));
        if (!c.lenient || certain) return set_refusal(c, m, first), nullptr;
        Object kept = Object::borrow(m.value);
        PyObject* out = PyObject_Vectorcall(c.function, args, nargsf, kwnames);
        if (!out) replace_error(c, m, first);
        return out;
    });
}

PyObject* checked_get(PyObject* self, PyObject* object, PyObject*) {
    if (!object || object == Py_None) return Py_NewRef(self);
    return PyMethod_New(self, object);
}

PyObject* checked_getattro(PyObject* self, PyObject* name) {
    // without the words of an AttributeError that nobody reads
    PyObject* own = _PyObject_GenericGetAttrWithDict(self, name, nullptr, /*suppress=*/1);
    if (own || PyErr_Occurred()) return own;
    return PyObject_GetAttr(checked_of(self).function, name);
}

int checked_setattro(PyObject* self, PyObject* name, PyObject* value) {
    return PyObject_SetAttr(checked_of(self).function, name, value);
}

PyObject* checked_repr(PyObject* self) { return PyObject_Repr(checked_of(self).function); }

/// The function below the check; what that wraps is its own `__wrapped__`.
PyObject* checked_wrapped(PyObject* self, void*) { return Py_NewRef(checked_of(self).function); }
PyObject* checked_doc(PyObject* self, void*) {
    return PyObject_GetAttrString(checked_of(self).function, "__doc__");
}
PyObject* checked_module(PyObject* self, void*) {
    return PyObject_GetAttrString(checked_of(self).function, "__module__");
}

/// Pickles and copies by name, as functions do.
PyObject* checked_reduce(PyObject* self, PyObject*) {
    return PyObject_GetAttrString(checked_of(self).function, "__qualname__");
}

/// explain(args, kwargs): raises in the place of the error being handled, if an argument misfits.
PyObject* checked_explain(PyObject* self, PyObject* args) {
    PyObject *given, *named;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &given, &PyDict_Type, &named))
        return nullptr;
    return guarded([&]() -> PyObject* {
        std::vector<PyObject*> values;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i)
            values.push_back(PyTuple_GET_ITEM(given, i));
        const auto count = static_cast<Py_ssize_t>(values.size());
        Object names = Object::take(PyTuple_New(PyDict_GET_SIZE(named)));
        PyObject *key, *value;
        for (Py_ssize_t at = 0, k = 0; PyDict_Next(named, &at, &key, &value); ++k) {
            PyTuple_SET_ITEM(names.get(), k, Py_NewRef(key));
            values.push_back(value);
        }
        const Misfit m = find_misfit(checked_of(self), values.data(), count, names.get());
        if (m.value) return set_refusal(checked_of(self), m, nullptr), nullptr;
        return Py_NewRef(Py_None);
    });
}

int checked_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(checked_of(self).function);
    Py_VISIT(checked_of(self).also);
    return 0;
}
int checked_clear(PyObject* self) {
    Py_CLEAR(checked_of(self).function);
    Py_CLEAR(checked_of(self).also);
    return 0;
}
void checked_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    Checked& c = checked_of(self);
    Py_CLEAR(c.function);
    Py_CLEAR(c.who);
    Py_CLEAR(c.names);
    Py_CLEAR(c.also);
    delete[] c.kinds;
    PyObject_GC_Del(self);
}

PyTypeObject checked_type = blank_type();

PyMethodDef checked_methods[] = {{"__reduce__", checked_reduce, METH_NOARGS, nullptr},
                                 {"_explain", checked_explain, METH_VARARGS, nullptr},
                                 {}};
PyGetSetDef checked_getset[] = {{"__wrapped__", checked_wrapped, nullptr, nullptr, nullptr},
                                {"__doc__", checked_doc, nullptr, nullptr, nullptr},
                                {"__module__", checked_module, nullptr, nullptr, nullptr},
                                {}};

/// _checked(function, who, names, kinds, positional, rest, lenient, asks, also)
PyObject* make_checked(PyObject*, PyObject* args) {
    PyObject *function, *who, *names, *kinds, *also;
    Py_ssize_t positional;
    unsigned rest;
    int lenient, asks;
    if (!PyArg_ParseTuple(args, "OUO!O!nIppO!", &function, &who, &PyTuple_Type, &names,
                          &PyTuple_Type, &kinds, &positional, &rest, &lenient, &asks, &PyDict_Type,
                          &also))
        return nullptr;
    return guarded([&]() -> PyObject* {
        const Py_ssize_t n = PyTuple_GET_SIZE(names);
        WEFT_EXPECT(PyTuple_GET_SIZE(kinds) == n && positional <= n, Runtime, "_checked",
                    "a kind for each name", std::to_string(n));
        auto bits = std::make_unique<unsigned[]>(static_cast<size_t>(n));
        for (Py_ssize_t i = 0; i < n; ++i)
            bits[i] = static_cast<unsigned>(to_int(PyTuple_GET_ITEM(kinds, i), "_checked"));
        auto* c = PyObject_GC_New(Checked, &checked_type);
        if (!c) throw PythonError{};
        c->vectorcall = checked_vectorcall;
        c->function = Py_NewRef(function);
        c->who = Py_NewRef(who);
        c->names = Py_NewRef(names);
        c->also = Py_NewRef(also);
        c->kinds = bits.release();
        c->positional = positional;
        c->rest = rest;
        c->lenient = lenient;
        c->asks = asks;
        auto* object = reinterpret_cast<PyObject*>(c);
        PyObject_GC_Track(object);
        return object;
    });
}

PyMethodDef checked_functions[] = {{"_checked", make_checked, METH_VARARGS, nullptr}, {}};

}  // namespace

bool is_slip(PyObject* error) {
    using Words = std::initializer_list<std::string_view>;
    Object shown = Object::take(PyObject_Str(error));
    std::string_view said = to_text(shown.get());
    if (said.starts_with("[")) return false;  // words of our own
    if (PyErr_GivenExceptionMatches(error, PyExc_AttributeError)) return true;
    auto says = [&](PyObject* type, Words words) {
        return PyErr_GivenExceptionMatches(error, type) &&
               std::ranges::any_of(words, [&](auto w) { return said.find(w) != said.npos; });
    };
    return says(PyExc_TypeError,
                {"unsupported operand", "not supported between", " object is not ", " has no len()",
                 "cannot be interpreted", "must be real number", "bad operand type",
                 "is not iterable", "cannot unpack", "argument must be a string"}) ||
           says(PyExc_ValueError, {"truth value of an array", "to unpack", "zip() argument"}) ||
           says(PyExc_OverflowError, {"cannot convert float"}) ||
           says(PyExc_IndexError, {"tuple index out of range", "list index out of range"});
}

void init_checked(PyObject* module) {
    checked_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                            Py_TPFLAGS_METHOD_DESCRIPTOR;
    checked_type.tp_vectorcall_offset = offsetof(Checked, vectorcall);
    checked_type.tp_call = PyVectorcall_Call;
    checked_type.tp_traverse = checked_traverse;
    checked_type.tp_clear = checked_clear;
    checked_type.tp_dealloc = checked_dealloc;
    checked_type.tp_repr = checked_repr;
    checked_type.tp_getattro = checked_getattro;
    checked_type.tp_setattro = checked_setattro;
    checked_type.tp_descr_get = checked_get;
    checked_type.tp_methods = checked_methods;
    checked_type.tp_getset = checked_getset;
    ready_type(checked_type, "weft.CheckedFunction", sizeof(Checked));
    checked(PyModule_AddFunctions(module, checked_functions));
}

}  // namespace weft::python
