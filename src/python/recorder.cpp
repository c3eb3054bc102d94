/// Calls that run as always and are written down as they do: what jit.trace asks for (weft/fx/recording.py).
///
/// Note [Recorded]
/// In trace mode with a recorder the door runs each call out of trace mode, so that only the outermost op is
/// heard of, and tells the recorder: the op, what it was given in the order of its schema, and the results.
/// Reads of values are told too, by the places of the binding that read (`reading`). What computes beside the
/// door has to say so itself: custom functions, ops that a library computes and backward passes are told of as
/// a whole (`whole` in weft/fx/recording.py); gradients and memory that are asked for or set, and what generators
/// do, each by itself (recorder.h). Hooks and optimizers with a state are refused: Python keeps what no node can.
#include <algorithm>

#include "autograd/meta.h"
#include "ops/scopes.h"
#include "program/trace.h"
#include "python/call_arguments.h"
#include "python/hooks.h"
#include "python/recorder.h"

namespace weft::python {
namespace {

class Recorder final : public program::CallRecorder {
public:
    explicit Recorder(PyObject* sink) : sink(sink) {}
    void run(Call& c) override;
    PyObject* const
        sink;  ///< borrowed: (name, way, args, kwargs, results, grad, sized), read(tensor)
};

Recorder* now() { return static_cast<Recorder*>(program::CallRecorder::current()); }

/// An input; what may be a number that Python passed, in a tuple.
Object given(const Tensor& t) {
    if (!t.defined()) return none();
    Object o = wrapped(t);
    return t.has(kWrapped) ? Object::take(PyTuple_Pack(1, o.get())) : std::move(o);
}

bool is_placed_input(const Param& p) { return p.is_input() && !p.keyword_only; }
/// Whether an attribute is what it is where it is left out.
bool is_usual(const Op& op, const Param& p, const Object& value) {
    Object usual = Object::take(to_python(op.defaults[static_cast<size_t>(p.slot)]));
    const int same = PyObject_RichCompareBool(value.get(), usual.get(), Py_EQ);
    if (same < 0) throw PythonError{};
    return same && Py_TYPE(value.get()) == Py_TYPE(usual.get());
}

/// Arguments by name, but for the first: the public op has the same ones in another order.
void named_behind_first(const Op& op, const Object& args, const Object& words) {
    const Py_ssize_t count = PyList_GET_SIZE(args.get());
    for (Py_ssize_t k = 1; k < count; ++k)
        checked(PyDict_SetItemString(words.get(), op.params[static_cast<size_t>(k)].name.c_str(),
                                     PyList_GET_ITEM(args.get(), k)));
    checked(PyList_SetSlice(args.get(), 1, count, nullptr));
}

void Recorder::run(Call& c) {
    const Op& op = *c.op;
    const bool draws_elsewhere = op.random && ops::scopes.generator;
    PyObject* const generator = draws_elsewhere ? object_of(*ops::scopes.generator) : nullptr;
    if (generator) note_beside("draws", generator, nullptr);
    const uint32_t had = mode;
    const std::vector<Tensor> in(c.in, c.in + c.inputs);
    {
        const ModeGuard plain(0, kTraceMode);
        ops::call(c);
    }
    Object args = Object::take(PyList_New(0)), words = Object::take(PyDict_New());
    const bool by_name = c.in_place && !op.function && !op.method;
    auto input = [&](int k) {
        const Tensor& t = in[static_cast<size_t>(k)];
        return by_name && t.defined() ? wrapped(t) : given(t);
    };
    arguments_of_call(op, c.inputs, input, c.attrs, args, words);
    if (by_name) named_behind_first(op, args, words);
    Object results = Object::take(PyList_New(0));
    for (int k = 0; k < c.outputs; ++k)
        checked(PyList_Append(results.get(), wrapped(c.out(k)).get()));
    if (c.dest.defined() && !c.in_place)
        checked(PyDict_SetItemString(words.get(), "out", wrapped(c.dest).get()));
    if (generator) checked(PyDict_SetItemString(words.get(), "generator", generator));
    const std::string name = name_of_call(op, c.in_place);
    int sized = 0;  // layouts of results depend on values
    for (int i = 0; i < c.inputs; ++i) sized |= op.reads.has(i);
    const bool is_unknown = draws_elsewhere && !generator;
    const char* way = is_unknown        ? "generator"
                      : c.in_place      ? "in place"
                      : op.outputs == 1 ? "one"
                                        : "several";
    const ModeGuard plain(0, kTraceMode);
    Object::take(into_python([&] {
        return PyObject_CallFunction(sink, "ssOOOii", name.c_str(), way, args.get(), words.get(),
                                     results.get(), (had & kGradMode) != 0, sized);
    }));
}

PyObject* call_in(Recorder* recorder, PyObject* args, Py_ssize_t first) {
    return guarded([&] {
        const program::CallRecorder::Scope scope(recorder);
        Object rest = Object::take(PyTuple_GetSlice(args, first + 1, PyTuple_GET_SIZE(args)));
        return into_python(
            [&] { return PyObject_CallObject(PyTuple_GET_ITEM(args, first), rest.get()); });
    });
}

/// _record_calls(sink, f, *args): what f gives; `sink` hears of calls.
PyObject* record_calls(PyObject*, PyObject* args) {
    Recorder recorder(PyTuple_GET_ITEM(args, 0));
    return call_in(&recorder, args, 1);
}
/// _unrecorded(f, *args): what f gives; nobody hears of its calls.
PyObject* unrecorded(PyObject*, PyObject* args) { return call_in(nullptr, args, 0); }
/// _recording(): who hears of calls, or None.
PyObject* recording(PyObject*, PyObject*) {
    return Py_NewRef(records_calls() ? now()->sink : Py_None);
}

/// _refuse_recorded(who): raises if somebody hears of calls.
PyObject* refuse(PyObject*, PyObject* who) {
    return guarded([&] {
        refuse_recorded(std::string(to_text(who)).c_str());
        return Py_NewRef(Py_None);
    });
}

PyMethodDef recorder_functions[] = {{"_record_calls", record_calls, METH_VARARGS, nullptr},
                                    {"_unrecorded", unrecorded, METH_VARARGS, nullptr},
                                    {"_recording", recording, METH_NOARGS, nullptr},
                                    {"_refuse_recorded", refuse, METH_O, nullptr},
                                    {}};

}  // namespace

bool records_calls() { return now() && (mode & kTraceMode); }

std::string name_of_call(const Op& op, bool in_place) {
    return op.function || op.method || in_place ? op.public_name : "ops." + op.public_name;
}

void arguments_of_call(const Op& op, int inputs, FunctionRef<Object(int)> input, const Value* attrs,
                       const Object& args, const Object& words) {
    const auto last = std::find_if(op.params.rbegin(), op.params.rend(), is_placed_input);
    auto left = op.params.rend() - last;
    for (const Param& p : op.params) {
        Object value;
        if (p.kind == Param::Kind::Tensors) {
            value = Object::take(PyList_New(0));
            for (int k = p.slot; k < inputs; ++k)
                checked(PyList_Append(value.get(), input(k).get()));
        } else {
            value = p.is_input() ? input(p.slot) : Object::take(to_python(attrs[p.slot]));
        }
        if (left-- > 0) {
            checked(PyList_Append(args.get(), value.get()));
        } else if (!p.has_default || p.is_input() || !is_usual(op, p, value)) {
            if (p.is_input() && value.get() == Py_None) continue;
            checked(PyDict_SetItemString(words.get(), p.name.c_str(), value.get()));
        }
    }
}

void note_read(PyObject* tensor) {
    if (!now()) return;
    static PyObject* const name = PyUnicode_InternFromString("read");
    const ModeGuard plain(0, kTraceMode);
    Object::take(into_python([&] { return PyObject_CallMethodOneArg(now()->sink, name, tensor); }));
}

void refuse_recorded(const char* who) {
    WEFT_EXPECT(!(mode & kTraceMode) || !now(), NotImplemented, who,
                "calls that can be written down", "what Python keeps",
                "do it outside of what is traced");
}

void note_beside(const char* how, PyObject* self, PyObject* value) {
    if (!(mode & kTraceMode) || !now()) return;
    const ModeGuard plain(0, kTraceMode);
    Object::take(into_python([&] {
        return PyObject_CallMethod(now()->sink, "beside", "sOO", how, self,
                                   value ? value : Py_None);
    }));
}

void note_called(const char* method, PyObject* self, PyObject* argument, PyObject* result) {
    if (!(mode & kTraceMode) || !now()) return;
    const ModeGuard plain(0, kTraceMode);
    Object given = Object::take(argument ? PyTuple_Pack(1, argument) : PyTuple_New(0));
    Object::take(into_python([&] {
        return PyObject_CallMethod(now()->sink, "called", "sOOO", method, self, given.get(),
                                   result);
    }));
}

PyObject* backward_if_recorded(PyObject* const* args, Py_ssize_t n) {
    if (!(mode & kTraceMode) || !now()) return nullptr;
    const ModeGuard plain(0, kTraceMode);
    Object given = Object::take(PyTuple_New(n));
    for (Py_ssize_t k = 0; k < n; ++k) PyTuple_SET_ITEM(given.get(), k, Py_NewRef(args[k]));
    return checked(into_python(
        [&] { return PyObject_CallMethod(now()->sink, "backward", "(O)", given.get()); }));
}

void init_recorder(PyObject* module) { checked(PyModule_AddFunctions(module, recorder_functions)); }

}  // namespace weft::python
