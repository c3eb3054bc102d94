/// Nodes whose backward is the user's Python: what weft/autograd/function.py builds on.
///
/// A context (the `ctx` of forward and backward) is a Python object; the node owns it, and it knows
/// the node without owning it. What `tensor.grad_fn` shows is a wrapper of the node as for any other
/// (node.cpp), which passes attributes on to the context: to a user the two look like one.
#include "python/function.h"

#include "ops/functions.h"
#include "python/hooks.h"

namespace weft::python {

struct PyContext {
    PyObject_HEAD FunctionNode* node;
    PyObject* dict;
};

namespace {

PyContext* as_context(PyObject* o) { return reinterpret_cast<PyContext*>(o); }
PyTypeObject context_type = blank_type();

}  // namespace

FunctionNode::FunctionNode(PyObject* context, PyObject* backward, std::string name,
                           std::vector<bool> takes_gradient)
    : context_(Object::borrow(context)), backward_(Object::borrow(backward)),
      name_(std::move(name)), takes_gradient_(std::move(takes_gradient)) {
    as_context(context)->node = this;
}

FunctionNode::~FunctionNode() { as_context(context_.get())->node = nullptr; }

/// (ctx, one gradient per output): None for what is no tensor.
Object FunctionNode::arguments(const std::vector<Tensor>& grads) const {
    Object out = Object::take(PyTuple_New(static_cast<Py_ssize_t>(grads.size()) + 1));
    PyTuple_SET_ITEM(out.get(), 0, Object(context_).release());
    for (size_t k = 0; k < grads.size(); ++k) {
        Tensor g = grads[k];
        if (!g.defined() && materialize && output_is_tensor[k])
            g = ops::zeros(result(static_cast<int>(k)).shape(),
                           result(static_cast<int>(k)).dtype());
        PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(k) + 1, checked(wrap(std::move(g))));
    }
    return out;
}

void FunctionNode::run(Work& work) {
    Ref<Node> keep(this);  // the user's code may drop the graph
    Object given =
        Object::take(PyObject_Call(backward_.get(), arguments(work.grads).get(), nullptr));
    if (!PyTuple_Check(given.get())) given = Object::take(PyTuple_Pack(1, given.get()));
    take_results(given.get(), work);
}

void FunctionNode::take_results(PyObject* given, Work& work) const {
    auto wanted = static_cast<Py_ssize_t>(takes_gradient_.size()), count = PyTuple_GET_SIZE(given);
    bool fits = count >= wanted;  // more are fine if they are None
    for (Py_ssize_t i = wanted; i < count; ++i) fits &= PyTuple_GET_ITEM(given, i) == Py_None;
    WEFT_EXPECT(fits, Runtime, name_, "one gradient (or None) for each argument of forward",
                text(count, " (function ", name_,
                     " returned an incorrect number of gradients (expected ", wanted, ", got ",
                     count, "))"));
    int edge = 0;
    for (Py_ssize_t i = 0; i < wanted; ++i) {
        PyObject* g = PyTuple_GET_ITEM(given, i);
        int e = takes_gradient_[i] ? edge++ : -1;
        if (g == Py_None) continue;
        WEFT_EXPECT(is_tensor(g), Runtime, name_, "gradients that are tensors or None",
                    text(Py_TYPE(g)->tp_name, " (expected Variable or None (got ",
                         Py_TYPE(g)->tp_name, "))"));
        WEFT_EXPECT(e >= 0, Runtime, name_, "None as the gradient of an argument that is no tensor",
                    text("a tensor (function ", name_,
                         " returned a gradient different than None at "
                         "position ",
                         i + 1, ", but the corresponding forward input was not a Variable)"));
        if (this->edge(e)) work.results[e] = unwrap(g);
    }
}

namespace {

bool contains(PyObject* tuple, PyObject* o) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
        if (PyTuple_GET_ITEM(tuple, i) == o) return true;
    return false;
}

/// What forward got, returned and said, as _record_function is called with it.
struct Applied {
    PyObject *context, *backward, *name, *inputs, *outputs, *saved, *dirty, *constant;
    int materialize;
};

/// The node, if an input wants a gradient and calls are recorded.
Ref<CustomNode> make_node(const Applied& a) {
    if (!(mode & kGradMode)) return nullptr;
    std::vector<Edge> edges;
    std::vector<bool> takes_gradient;
    bool any = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a.inputs); ++i) {
        PyObject* o = PyTuple_GET_ITEM(a.inputs, i);
        takes_gradient.push_back(is_tensor(o));
        if (!is_tensor(o)) continue;
        edges.push_back(gradient_edge(unwrap(o)));
        any |= static_cast<bool>(edges.back());
    }
    if (!any) return nullptr;
    auto* node = new FunctionNode(a.context, a.backward, std::string(to_text(a.name)),
                                  std::move(takes_gradient));
    Ref<CustomNode> owner(node);
    node->site = Site::here();
    node->set_edges(std::move(edges));
    node->materialize = a.materialize;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(a.outputs); ++k)
        node->output_is_tensor.push_back(is_tensor(PyTuple_GET_ITEM(a.outputs, k)));
    return owner;
}

std::vector<CustomOutput> describe_outputs(const Applied& a) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a.dirty); ++i) {
        PyObject* o = PyTuple_GET_ITEM(a.dirty, i);
        expect_tensor(o, "mark_dirty").storage()->version++;
        WEFT_EXPECT(
            contains(a.outputs, o), Runtime, "mark_dirty",
            "every tensor that forward wrote among its outputs",
            "one that was not returned (Some elements marked as dirty during the forward method "
            "were not returned as output. The inputs that are modified inplace must all be "
            "outputs of the Function.)");
    }
    std::vector<CustomOutput> out(PyTuple_GET_SIZE(a.outputs));
    for (size_t k = 0; k < out.size(); ++k) {
        PyObject* o = PyTuple_GET_ITEM(a.outputs, static_cast<Py_ssize_t>(k));
        if (is_tensor(o))
            out[k] = {unwrap(o), contains(a.inputs, o), contains(a.dirty, o),
                      contains(a.constant, o)};
    }
    return out;
}

/// _record_function(ctx, backward, name, inputs, outputs, saved, dirty, constant, materialize):
/// the outputs, tied to a node if an input wants a gradient.
PyObject* record_function(PyObject*, PyObject* args) {
    Applied a;
    if (!PyArg_ParseTuple(args, "O!OUO!O!O!O!O!p", &context_type, &a.context, &a.backward, &a.name,
                          &PyTuple_Type, &a.inputs, &PyTuple_Type, &a.outputs, &PyTuple_Type,
                          &a.saved, &PyTuple_Type, &a.dirty, &PyTuple_Type, &a.constant,
                          &a.materialize))
        return nullptr;
    return guarded([&] {
        std::vector<CustomOutput> given = describe_outputs(a);
        Ref<CustomNode> node = make_node(a);
        std::vector<Tensor> made = tie_outputs(node, given);
        if (node) {
            std::vector<Tensor> keep;
            for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a.saved); ++i) {
                PyObject* o = PyTuple_GET_ITEM(a.saved, i);
                keep.push_back(o == Py_None ? Tensor() : expect_tensor(o, "save_for_backward"));
            }
            node->save(keep, made);
        }
        Object out = Object::take(PyTuple_New(static_cast<Py_ssize_t>(made.size())));
        for (size_t i = 0; i < made.size(); ++i) {
            auto k = static_cast<Py_ssize_t>(i);
            bool tensor = made[i].defined();
            PyObject* o = tensor ? checked(wrap(std::move(made[i])))
                                 : Py_NewRef(PyTuple_GET_ITEM(a.outputs, k));
            if (tensor && node) track_cycles(o);  // ctx may hold it
            PyTuple_SET_ITEM(out.get(), k, o);
        }
        return out.release();
    });
}

/// The tensors saved for backward, checked to be as they were; None where no node was made.
PyObject* context_saved(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        FunctionNode* node = as_context(self)->node;
        if (!node) Py_RETURN_NONE;
        return tuple_of(node->saved()).release();
    });
}

/// What a ctx has of the node: name(), next_functions, metadata, register_hook, ...
PyObject* context_getattro(PyObject* self, PyObject* name) {
    PyObject* found = PyObject_GenericGetAttr(self, name);
    FunctionNode* node = as_context(self)->node;
    if (found || !node || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    static const char* const passed_on[] = {"name",          "next_functions",   "metadata",
                                            "register_hook", "register_prehook", "_sequence_nr",
                                            "site"};
    for (const char* each : passed_on)
        if (PyUnicode_CompareWithASCIIString(name, each) == 0) {
            PyErr_Clear();
            return guarded([&] { return node_attribute(Ref<Node>(node), name); });
        }
    return nullptr;
}

void context_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    Py_CLEAR(as_context(self)->dict);
    Py_TYPE(self)->tp_free(self);
}
int context_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(as_context(self)->dict);
    return 0;
}
int context_clear(PyObject* self) {
    Py_CLEAR(as_context(self)->dict);
    return 0;
}

PyMethodDef context_methods[] = {{"_saved", context_saved, METH_NOARGS, nullptr}, {}};
PyMethodDef functions[] = {{"_record_function", record_function, METH_VARARGS, nullptr}, {}};

}  // namespace

void init_function(PyObject* module) {
    PyTypeObject& t = context_type;
    t.tp_name = "weft._C._Context";
    t.tp_basicsize = sizeof(PyContext);
    t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
    t.tp_new = PyType_GenericNew;
    t.tp_dealloc = context_dealloc;
    t.tp_traverse = context_traverse;
    t.tp_clear = context_clear;
    t.tp_getattro = context_getattro;
    t.tp_dictoffset = offsetof(PyContext, dict);
    t.tp_methods = context_methods;
    checked(PyType_Ready(&t));
    add_object(module, "_Context", reinterpret_cast<PyObject*>(&t));
    checked(PyModule_AddFunctions(module, functions));
}

}  // namespace weft::python
