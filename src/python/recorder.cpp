/// Calls that run as always and are written down as they do: what jit.trace asks for (weft/fx/recording.py).
///
/// Note [Recorded]
/// In trace mode with a recorder the door runs each call out of trace mode, so that only the outermost op is
/// heard of, and tells the recorder: the op, what it was given in the order of its schema, and the results.
/// Reads of values are told too, by the places of the binding that read (`reading`). What computes beside the
/// door has to say so itself: custom functions, ops that a library computes and `autograd.grad` are told of as
/// a whole (`whole` in weft/fx/recording.py), a backward pass is refused.
#include <algorithm>

#include "autograd/meta.h"
#include "ops/scopes.h"
#include "program/trace.h"
#include "python/call_arguments.h"
#include "python/hooks.h"
#include "python/object.h"

namespace weft::python {
namespace {

class Recorder final : public program::CallRecorder {
public:
    explicit Recorder(PyObject* sink) : sink(sink) {}
    void run(Call& c) override;
    PyObject* const
        sink;  ///< borrowed: (name, way, args, kwargs, results, grad, sized), read(tensor)
};

Recorder* now() { return static_cast<Recorder*>(program::CallRecorder::current); }

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

void Recorder::run(Call& c) {
    const Op& op = *c.op;
    const bool draws_elsewhere = op.random && ops::scopes.generator;
    const uint32_t had = mode;
    const std::vector<Tensor> in(c.in, c.in + c.inputs);
    {
        const ModeGuard plain(0, kTraceMode);
        ops::call(c);
    }
    Object args = Object::take(PyList_New(0)), words = Object::take(PyDict_New());
    auto input = [&](int k) { return given(in[static_cast<size_t>(k)]); };
    arguments_of_call(op, c.inputs, input, c.attrs, args, words);
    Object results = Object::take(PyList_New(0));
    for (int k = 0; k < c.outputs; ++k)
        checked(PyList_Append(results.get(), wrapped(c.out(k)).get()));
    if (c.dest.defined() && !c.in_place)
        checked(PyDict_SetItemString(words.get(), "out", wrapped(c.dest).get()));
    const std::string name = name_of_call(op, c.in_place);
    int sized = 0;  // layouts of results depend on values
    for (int i = 0; i < c.inputs; ++i) sized |= op.reads.has(i);
    const char* way = draws_elsewhere   ? "generator"
                      : c.in_place      ? "in place"
                      : op.outputs == 1 ? "one"
                                        : "several";
    const ModeGuard plain(0, kTraceMode);
    Object::take(into_python([&] {
        return PyObject_CallFunction(sink, "ssOOOii", name.c_str(), way, args.get(), words.get(),
                                     results.get(), (had & kGradMode) != 0, sized);
    }));
}

/// While it lives, calls are told to `recorder`; null: to nobody.
class Scope {
public:
    explicit Scope(Recorder* recorder)
        : mode_(recorder ? kTraceMode : 0u, recorder ? 0u : kTraceMode),
          outer_(std::exchange(program::CallRecorder::current, recorder)) {}
    ~Scope() { program::CallRecorder::current = outer_; }
    Scope(const Scope&) = delete;

private:
    ModeGuard mode_;
    program::CallRecorder* outer_;
};

PyObject* call_in(Recorder* recorder, PyObject* args, Py_ssize_t first) {
    return guarded([&] {
        const Scope scope(recorder);
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
    return Py_NewRef(now() && (mode & kTraceMode) ? now()->sink : Py_None);
}

PyMethodDef functions[] = {{"_record_calls", record_calls, METH_VARARGS, nullptr},
                           {"_unrecorded", unrecorded, METH_VARARGS, nullptr},
                           {"_recording", recording, METH_NOARGS, nullptr},
                           {}};

}  // namespace

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
                "calls that can be written down", "a backward pass while calls are recorded",
                "use autograd.grad, or trace what gives the loss");
}

void init_recorder(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace weft::python
