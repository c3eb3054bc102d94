/// Backends of the user's: a segment is told to Python, which makes a `weft.fx.GraphModule` of it
/// (weft/compiler/backends.py) and asks the backend for what is to run instead.
#include "python/call_arguments.h"
#include "python/hooks.h"
#include "python/program_stretch.h"

namespace weft::python {

using program::Segment;
using program::SegmentValue;
using program::Step;

namespace {

Object operand_told(const Segment& s, int32_t value) {
    if (value < 0) return none();
    const SegmentValue& v = s.value(value);
    const bool is_number = v.kind == SegmentValue::Kind::Constant && v.layout.has(kWrapped);
    if (is_number)
        return Object::take(PyObject_CallMethod(wrapped(v.layout).get(), "item", nullptr));
    return Object::take(Py_BuildValue("(si)", "%", value));
}

/// (name, args, kwargs, number of the first result, how many, several results, in grad mode)
Object step_told(const Segment& s, const Step& step) {
    Object args = Object::take(PyList_New(0)), words = Object::take(PyDict_New());
    auto input = [&](int k) { return operand_told(s, s.operand(step, k)); };
    arguments_of_call(*step.op, step.operands, input, s.attrs.data() + step.first_attr, args,
                      words);
    return Object::take(Py_BuildValue(
        "(sOOiiOO)", name_of_call(*step.op, false).c_str(), args.get(), words.get(), step.first_out,
        step.outs, step.op->outputs == 1 ? Py_False : Py_True, step.recorded ? Py_True : Py_False));
}

Object dims_told(DimSpan dims) {
    Object out = Object::take(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
    for (size_t k = 0; k < dims.size(); ++k)
        PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(k), py_int(dims[k]).release());
    return out;
}

/// (kind, of, offset in elements, sizes, strides, the constant or None): of a view that no step made
Object value_told(const SegmentValue& v) {
    using Kind = SegmentValue::Kind;
    const char* kind = v.kind == Kind::Input                ? "input"
                       : v.kind == Kind::Constant           ? "constant"
                       : v.kind == Kind::View && v.step < 0 ? "view"
                                                            : "result";
    Object constant = v.kind == Kind::Constant ? wrapped(v.layout) : none();
    return Object::take(Py_BuildValue(
        "(siLOOO)", kind, v.of, static_cast<long long>(v.offset / item_size(v.layout.dtype())),
        dims_told(v.layout.shape()).get(), dims_told(v.layout.strides()).get(), constant.get()));
}

template <class Items, class F>
Object list_of(const Items& items, F&& told) {
    Object out = Object::take(PyList_New(0));
    for (const auto& item : items) checked(PyList_Append(out.get(), told(item).get()));
    return out;
}

/// The values, the steps, the numbers of the results.
Object told(const Segment& s) {
    auto step = [&](const Step& one) { return step_told(s, one); };
    auto number = [](int32_t v) { return py_int(v); };
    return Object::take(PyTuple_Pack(3, list_of(s.values, value_told).get(),
                                     list_of(s.steps, step).get(),
                                     list_of(s.outputs, number).get()));
}

Object tuple_of_inputs(const Segment& s, const Tensor* inputs) {
    return tuple_of(std::vector<Tensor>(inputs, inputs + s.inputs.size()));
}

/// While it lives, Python is as outside of compiled calls: what a backend and what it made do runs as it is.
class Outside {
public:
    Outside() : mode_(kPlainMode, kCompiledMode), reach_(std::exchange(reach, nullptr)) {}
    ~Outside() { reach = reach_; }
    Outside(const Outside&) = delete;

private:
    ModeGuard mode_;
    Reach* const reach_;
};

void take_results(const Segment& segment, const Object& results, Tensor* outputs) {
    auto expect = [](bool fine, const std::string& got) {
        WEFT_EXPECT(fine, Runtime, "compile",
                    "of what the backend made the tensors that its graph gives", got);
    };
    Object items = Object::take(PySequence_Tuple(results.get()));
    const auto count = static_cast<size_t>(PyTuple_GET_SIZE(items.get()));
    expect(count == segment.outputs.size(),
           text(count, " results in place of ", segment.outputs.size()));
    for (size_t k = 0; k < count; ++k) {
        PyObject* o = PyTuple_GET_ITEM(items.get(), static_cast<Py_ssize_t>(k));
        expect(is_tensor(o), Py_TYPE(o)->tp_name);
        const Tensor& like = segment.layout(segment.outputs[k]);
        outputs[k] = handle(o);
        expect(outputs[k].dtype() == like.dtype() && equal(outputs[k].shape(), like.shape()),
               text(name(outputs[k].dtype()), to_string(outputs[k].shape()), " in place of ",
                    name(like.dtype()), to_string(like.shape())));
    }
}

}  // namespace

Object ask_backend(PyObject* backend, const Segment& segment, const Tensor* inputs) {
    return Object::steal(guarded([&] {
        Object graph = told(segment), given = tuple_of_inputs(segment, inputs);
        const Outside outside;
        return into_python([&] {
            return import_attr("weft.compiler.backends", "ask")
                .call(Object::borrow(backend), graph, given)
                .release();
        });
    }));
}

bool run_backend(PyObject* made, const Segment& segment, const Tensor* inputs, Tensor* outputs) {
    return guarded([&] {
        Object given = tuple_of_inputs(segment, inputs);
        const Outside outside;
        Object results =
            Object::take(into_python([&] { return PyObject_CallObject(made, given.get()); }));
        take_results(segment, results, outputs);
        return true;
    });
}

}  // namespace weft::python
