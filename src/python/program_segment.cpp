/// Segments and plans for the tests: what tests/program calls.
#include "program/plan.h"
#include "program/trace.h"
#include "python/hooks.h"

namespace weft::python {
namespace {

using program::Plan;
using program::Segment;
using program::Tracer;

struct PyPlan {
    PyObject_HEAD Plan* plan;
};

Plan& plan_of(PyObject* self) { return *reinterpret_cast<PyPlan*>(self)->plan; }

void dealloc(PyObject* self) {
    Ref<Plan>::adopt(reinterpret_cast<PyPlan*>(self)->plan);
    Py_TYPE(self)->tp_free(self);
}

/// run(*tensors): the results, as a tuple.
PyObject* run(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    return guarded([&] {
        const Ref<Plan> plan(&plan_of(self));
        std::vector<Tensor> inputs;
        for (Py_ssize_t i = 0; i < count; ++i) inputs.push_back(expect_tensor(args[i], "run"));
        WEFT_EXPECT(plan->fits(inputs.data(), inputs.size()), Runtime, "run",
                    "tensors laid out as those that were traced", text(count, " others"));
        std::vector<Tensor> outputs(plan->segment().outputs.size());
        plan->run(inputs.data(), outputs.data());
        return tuple_of(outputs).release();
    });
}

PyObject* get_text(PyObject* self, void*) {
    return guarded([&] { return py_str(plan_of(self).segment().text()).release(); });
}
PyObject* get_groups(PyObject* self, void*) {
    return guarded([&] { return py_str(plan_of(self).text()).release(); });
}
PyObject* get_arena(PyObject* self, void*) {
    return PyLong_FromLongLong(plan_of(self).arena_bytes());
}

PyMethodDef plan_methods[] = {{"run",
                               reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(run)),
                               METH_FASTCALL, nullptr},
                              {}};
PyGetSetDef plan_getters[] = {{"text", get_text, nullptr, nullptr, nullptr},
                              {"groups", get_groups, nullptr, nullptr, nullptr},
                              {"arena_bytes", get_arena, nullptr, nullptr, nullptr},
                              {}};
PyTypeObject plan_type = blank_type();

void append_tensors(std::vector<Tensor>& to, PyObject* o) {
    if (is_tensor(o)) return to.push_back(handle(o));
    WEFT_EXPECT(PyTuple_Check(o) || PyList_Check(o), Type, "trace", "tensors as results",
                Py_TYPE(o)->tp_name);
    Object items = Object::take(PySequence_Tuple(o));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i)
        append_tensors(to, PyTuple_GET_ITEM(items.get(), i));
}

Ref<Segment> trace(PyObject* f, const std::vector<Tensor>& inputs) {
    Ref<Tracer> tracer(new Tracer);
    std::vector<Tensor> outputs;
    std::vector<Tensor> traced;
    for (const Tensor& t : inputs) traced.push_back(tracer->input(t));
    Object args = tuple_of(traced);
    traced.clear();
    Tracer::Scope scope(*tracer);
    Object given = Object::take(into_python([&] { return PyObject_CallObject(f, args.get()); }));
    append_tensors(outputs, given.get());
    return tracer->finish(outputs);
}

/// _trace(f, tensors, tiles): a plan of the calls that f makes on these tensors.
PyObject* trace_plan(PyObject*, PyObject* args) {
    PyObject *f, *tensors;
    int tiles = 1;
    if (!PyArg_ParseTuple(args, "OO!|p", &f, &PyTuple_Type, &tensors, &tiles)) return nullptr;
    return guarded([&] {
        std::vector<Tensor> inputs;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); ++i)
            inputs.push_back(expect_tensor(PyTuple_GET_ITEM(tensors, i), "_trace"));
        Ref<Plan> plan(new Plan(trace(f, inputs), {.tiles = tiles != 0}));
        auto* self = reinterpret_cast<PyPlan*>(checked(plan_type.tp_alloc(&plan_type, 0)));
        self->plan = plan.detach();
        return reinterpret_cast<PyObject*>(self);
    });
}

PyMethodDef functions[] = {{"_trace", trace_plan, METH_VARARGS, nullptr}, {}};

}  // namespace

void init_segments(PyObject* module) {
    program::install();
    plan_type.tp_name = "weft._C._Plan";
    plan_type.tp_basicsize = sizeof(PyPlan);
    plan_type.tp_dealloc = dealloc;
    plan_type.tp_flags = Py_TPFLAGS_DEFAULT;
    plan_type.tp_methods = plan_methods;
    plan_type.tp_getset = plan_getters;
    checked(PyType_Ready(&plan_type));
    checked(PyModule_AddFunctions(module, functions));
}

}  // namespace weft::python
