#include "python/program_stretch.h"

#include <algorithm>

#include "ops/pointwise.h"
#include "program/local_array.h"
#include "python/program_trace.h"

namespace weft::python {

using program::Onward;

namespace {

using Tensors = program::LocalArray<Tensor, 24>;

PyObject* value_of(const Frame* frame, const std::vector<LiveSource>& sources, int32_t source) {
    const LiveSource& s = sources[static_cast<size_t>(source)];
    if (s.reg >= frame->code->registers) return PyCell_GET(frame->registers[s.reg]);
    if (s.reg >= 0) return frame->registers[s.reg];
    return PyTuple_GET_ITEM(value_of(frame, sources, s.parent), s.item);
}

bool equal(PyObject* a, PyObject* b) {
    if (a == b) return true;
    if (Py_TYPE(a) != Py_TYPE(b)) return false;
    if (PyFloat_CheckExact(a)) {
        const double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
        return std::memcmp(&x, &y, sizeof x) == 0;
    }
    if (PyComplex_CheckExact(a)) return false;
    const int is = PyObject_RichCompareBool(a, b, Py_EQ);
    if (is < 0) PyErr_Clear();
    return is > 0;
}

bool meets(const Condition& c, PyObject* value, const Frame* frame,
           const std::vector<LiveSource>& sources) {
    using Kind = Condition::Kind;
    switch (c.kind) {
        case Kind::Tensor:
        case Kind::Type:
            return reinterpret_cast<PyObject*>(Py_TYPE(value)) == c.object.get();
        case Kind::Equal:
            return equal(value, c.object.get());
        case Kind::Identity:
            return value == c.object.get();
        case Kind::Same:
            return value == value_of(frame, sources, c.number);
        case Kind::Tuple:
            return PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == c.number;
    }
    return false;
}

}  // namespace

void release(Stretch* stretch) { delete stretch; }

bool Distinct::holds(FunctionRef<PyObject*(int32_t)> value) const {
    const size_t n = sources.size();
    if (n == 0) return true;
    program::LocalArray<PyObject*, 16> all(n + captured.size());
    for (size_t k = 0; k < n; ++k) all[k] = value(sources[k]);
    for (size_t k = 0; k < captured.size(); ++k) all[n + k] = captured[k].get();
    return program::all_differ(all.begin(), all.end());
}

bool Stretch::holds(Frame* frame, Tensor* tensors, Differs& differs) {
    if (mode != weft::mode || globals != frame->globals || dtype != ops::default_dtype)
        return false;
    if (backend.get() != backend_now() || (backend && mode & kDeferMode)) return false;
    for (const Condition& c : conditions) {
        PyObject* value = value_of(frame, sources, c.source);
        if (!value) return false;
        if (!meets(c, value, frame, sources)) {
            if (c.kind == Condition::Kind::Equal && is_count(value) &&
                Py_TYPE(value) == Py_TYPE(c.object.get()))
                differs.source = c.source;
            return false;
        }
    }
    auto of_source = [&](int32_t source) { return value_of(frame, sources, source); };
    for (const Distinct& d : distinct)
        if (!d.holds(of_source)) return false;
    const program::Segment& segment = plan->segment();
    const bool defers = mode & kDeferMode;
    const program::SegmentValue* const values = segment.values.data();
    const int32_t* value = segment.inputs.data();
    Tensor* to = tensors;
    for (const Input& in : inputs) {
        *to = handle(in.source < 0 ? in.captured.get() : value_of(frame, sources, in.source));
        if (!defers && !program::laid_out_alike(*to->impl(), *values[*value].layout.impl()))
            return false;
        ++to, ++value;
    }
    if (!(defers ? program::alike(segment, tensors, inputs.size()) : plan->asks_as(tensors)))
        return false;
    differs.guards = !guards.hold();
    return !differs.guards;
}

namespace {

PyObject* make(const Recipe& r, const Stretch& s, const Frame* frame, const Tensor* outputs,
               const std::vector<Object>& made) {
    using Kind = Recipe::Kind;
    auto part = [&](size_t k) { return made[static_cast<size_t>(r.parts[k])].get(); };
    const auto n = static_cast<Py_ssize_t>(r.parts.size());
    switch (r.kind) {
        case Kind::Source:
            return Py_NewRef(value_of(frame, s.sources, r.number));
        case Kind::Output:
            return wrap(outputs[r.number]);
        case Kind::Captured:
            return Py_NewRef(r.object.get());
        case Kind::Copy:
            return PyObject_CallMethod(r.object.get(), "clone", nullptr);
        case Kind::Tuple: {
            PyObject* out = PyTuple_New(n);
            for (Py_ssize_t k = 0; out && k < n; ++k)
                PyTuple_SET_ITEM(out, k, Py_NewRef(part(static_cast<size_t>(k))));
            return out;
        }
        case Kind::List: {
            PyObject* out = PyList_New(n);
            for (Py_ssize_t k = 0; out && k < n; ++k)
                PyList_SET_ITEM(out, k, Py_NewRef(part(static_cast<size_t>(k))));
            return out;
        }
        case Kind::Dict: {
            Object out = Object::take(PyDict_New());
            for (size_t k = 0; k < r.parts.size(); k += 2)
                checked(PyDict_SetItem(out.get(), part(k), part(k + 1)));
            return out.release();
        }
        case Kind::Slice:
            return PySlice_New(part(0), part(1), part(2));
        case Kind::Method:
            return PyMethod_New(r.object.get(), part(0));
        case Kind::Iterator: {
            Object it = Object::take(PyObject_GetIter(part(0)));
            Object::take(PyObject_CallMethod(it.get(), "__setstate__", "i", r.number));
            return it.release();
        }
        default:
            break;
    }
    return nullptr;
}

}  // namespace

Onward Stretch::run(Frame* frame, const Tensor* tensors, PyObject*& result) {
    Tensors given(plan->segment().outputs.size());
    Tensor* const outputs = given.data();
    if (made) {
        if (!run_backend(made.get(), plan->segment(), tensors, outputs)) {
            // where the calls raise, the instructions do so in their place; else it is the backend's fault
            Object error = take_exception();
            Tensors tried(given.size());
            if (!program::run_plan(*plan, draws, tensors, tried.data())) return Onward::Here;
            PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
            return Onward::Failed;
        }
    } else if (mode & kDeferMode) {
        if (!kept) return Onward::Here;
        try {
            kept->run(tensors, outputs);
        } catch (const Error&) {
            return Onward::Here;
        } catch (const PythonError&) {  // an example that waited is not wanted any more
            return Onward::Failed;
        }
    } else if (!program::run_plan(*plan, draws, tensors, outputs)) {
        return Onward::Here;
    }
    ++runs;
    frame->gained += gain;
    if (returned >= 0 && recipes.size() == 1) {  // the common end
        result = checked(make(recipes[0], *this, frame, outputs, {}));
        return Onward::Return;
    }
    std::vector<Object> values;
    values.reserve(recipes.size());
    for (const Recipe& r : recipes)
        values.push_back(Object::take(make(r, *this, frame, outputs, values)));
    if (returned >= 0) {
        result = values[static_cast<size_t>(returned)].release();
        return Onward::Return;
    }
    for (auto [reg, recipe] : writes)
        Py_XSETREF(frame->registers[reg], Py_NewRef(values[static_cast<size_t>(recipe)].get()));
    for (int32_t reg : clears) Py_CLEAR(frame->registers[reg]);
    frame->pc = pc;
    return Onward::Jump;
}

bool Stretch::is_of_other_sizes(const Stretch& s) const {
    if (mode != s.mode || inputs.size() != s.inputs.size()) return false;
    bool differs = false;
    for (size_t k = 0; k < inputs.size(); ++k) {
        const Input &a = inputs[k], &b = s.inputs[k];
        const auto layout = [k](const Stretch& of) {
            return of.plan->segment().layout(of.plan->segment().inputs[k]);
        };
        if (a.source != b.source || a.captured.get() != b.captured.get()) return false;
        if (layout(*this).dtype() != layout(s).dtype()) return false;
        differs |= !weft::equal(layout(*this).shape(), layout(s).shape());
    }
    return differs;
}

void Stretch::find_kept() {
    std::vector<uint8_t> captured;
    for (const Input& in : inputs) captured.push_back(in.source < 0);
    kept = program::KeptSegment::make(*plan, captured);
}

int Stretch::traverse(visitproc visit, void* arg) const {
    for (const Condition& c : conditions) Py_VISIT(c.object.get());
    for (const Distinct& d : distinct)
        for (const Object& o : d.captured) Py_VISIT(o.get());
    for (const Input& in : inputs) Py_VISIT(in.captured.get());
    for (const Recipe& r : recipes) Py_VISIT(r.object.get());
    Py_VISIT(backend.get());
    Py_VISIT(made.get());
    return guards.traverse(visit, arg);
}

}  // namespace weft::python
