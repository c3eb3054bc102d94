/// Segments and plans for the tests: what tests/program calls.
#include "autograd/meta.h"
#include "program/gradient.h"
#include "program/plan.h"
#include "program/trace.h"
#include "python/hooks.h"
#include "python/type.h"

namespace weft::python {
namespace {

using program::DifferentiablePlan;
using program::Plan;
using program::Segment;
using program::Tracer;

struct PyPlan {
    PyObject_HEAD Plan* plan;
    DifferentiablePlan* graph;  ///< or null: results are outside of every graph
};

Plan& plan_of(PyObject* self) { return *reinterpret_cast<PyPlan*>(self)->plan; }
DifferentiablePlan* graph_of(PyObject* self) { return reinterpret_cast<PyPlan*>(self)->graph; }

void plan_dealloc(PyObject* self) {
    Ref<Plan>::adopt(reinterpret_cast<PyPlan*>(self)->plan);
    Ref<DifferentiablePlan>::adopt(reinterpret_cast<PyPlan*>(self)->graph);
    Py_TYPE(self)->tp_free(self);
}

/// run(*tensors): the results, as a tuple.
PyObject* plan_run(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    return guarded([&] {
        const Ref<Plan> plan(&plan_of(self));
        const Ref<DifferentiablePlan> graph(graph_of(self));
        std::vector<Tensor> inputs;
        for (Py_ssize_t i = 0; i < count; ++i) inputs.push_back(expect_tensor(args[i], "run"));
        WEFT_EXPECT(graph ? graph->fits(inputs.data(), inputs.size())
                          : plan->fits(inputs.data(), inputs.size()),
                    Runtime, "run", "tensors laid out as those that were traced",
                    text(count, " others"));
        std::vector<Tensor> outputs(plan->segment().outputs.size());
        if (graph) graph->run(inputs.data(), outputs.data());
        else plan->run(inputs.data(), outputs.data());
        return tuple_of(outputs).release();
    });
}

PyObject* get_text(PyObject* self, void*) {
    return guarded([&] { return py_str(plan_of(self).segment().text()).release(); });
}
PyObject* get_groups(PyObject* self, void*) {
    return guarded([&] {
        return py_str(graph_of(self) ? graph_of(self)->text() : plan_of(self).text()).release();
    });
}
PyObject* get_arena(PyObject* self, void*) {
    return PyLong_FromLongLong(plan_of(self).arena_bytes());
}
PyObject* get_kept(PyObject* self, void*) {
    return PyLong_FromLongLong(graph_of(self) ? graph_of(self)->kept_bytes() : 0);
}
PyObject* get_parts(PyObject* self, void*) {
    return PyLong_FromSize_t(graph_of(self) ? graph_of(self)->parts().all.size() : 0);
}

PyMethodDef plan_methods[] = {{"run", c_function(plan_run), METH_FASTCALL, nullptr}, {}};
PyGetSetDef plan_getters[] = {{"text", get_text, nullptr, nullptr, nullptr},
                              {"groups", get_groups, nullptr, nullptr, nullptr},
                              {"arena_bytes", get_arena, nullptr, nullptr, nullptr},
                              {"kept_bytes", get_kept, nullptr, nullptr, nullptr},
                              {"parts", get_parts, nullptr, nullptr, nullptr},
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

Ref<Segment> trace(PyObject* f, const std::vector<Tensor>& inputs, bool grad) {
    Ref<Tracer> tracer(new Tracer);
    std::vector<Tensor> outputs;
    std::vector<Tensor> traced;
    for (const Tensor& t : inputs) traced.push_back(tracer->input(t, grad && requires_grad(t)));
    Object args = tuple_of(traced);
    traced.clear();
    Tracer::Scope scope(*tracer);
    Object given = Object::take(into_python([&] { return PyObject_CallObject(f, args.get()); }));
    append_tensors(outputs, given.get());
    return tracer->finish(outputs);
}

/// _trace(f, tensors, tiles=True, grad=False): a plan of the calls that f makes on these tensors, with
/// `grad` one whose results are parts of the graph.
PyObject* trace_plan(PyObject*, PyObject* args) {
    PyObject *f, *tensors;
    int tiles = 1, grad = 0;
    if (!PyArg_ParseTuple(args, "OO!|pp", &f, &PyTuple_Type, &tensors, &tiles, &grad))
        return nullptr;
    return guarded([&] {
        std::vector<Tensor> inputs;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); ++i)
            inputs.push_back(expect_tensor(PyTuple_GET_ITEM(tensors, i), "_trace"));
        const Plan::Options options{.tiles = tiles != 0};
        Ref<Segment> segment = trace(f, inputs, grad);
        Ref<DifferentiablePlan> graph;
        if (grad) graph = Ref<DifferentiablePlan>(new DifferentiablePlan(segment, options));
        Ref<Plan> plan(new Plan(segment, options));
        auto* self = reinterpret_cast<PyPlan*>(checked(plan_type.tp_alloc(&plan_type, 0)));
        self->plan = plan.detach();
        self->graph = graph.detach();
        return reinterpret_cast<PyObject*>(self);
    });
}

PyMethodDef program_segment_functions[] = {{"_trace", trace_plan, METH_VARARGS, nullptr}, {}};

}  // namespace

void init_segments(PyObject* module) {
    program::install();
    plan_type.tp_dealloc = plan_dealloc;
    plan_type.tp_methods = plan_methods;
    plan_type.tp_getset = plan_getters;
    ready_type(plan_type, "weft._C._Plan", sizeof(PyPlan));
    checked(PyModule_AddFunctions(module, program_segment_functions));
}

}  // namespace weft::python
