/// Nodes whose backward is the user's Python: what weft/autograd/function.py builds on.
///
/// A context (the `ctx` of forward and backward) is a Python object; the node owns it, and it knows
/// the node without owning it, so neither keeps the other alive.
#include "python/function.h"

#include <algorithm>

#include "autograd/saved.h"
#include "ops/functions.h"
#include "python/hooks.h"

namespace weft::python {

struct PyContext {
    PyObject_HEAD
    FunctionNode* node;
    PyObject* dict;
};

namespace {

PyContext* as_context(PyObject* o) { return reinterpret_cast<PyContext*>(o); }
PyTypeObject context_type = blank_type();

}  // namespace

FunctionNode::FunctionNode(PyObject* context, PyObject* backward, std::string name, bool materialize)
    : context_(Object::borrow(context)), backward_(Object::borrow(backward)), name_(std::move(name)),
      materialize_(materialize) {
    as_context(context)->node = this;
}

FunctionNode::~FunctionNode() {
    if (context_) as_context(context_.get())->node = nullptr;
}

void FunctionNode::save(const std::vector<Tensor>& tensors, const std::vector<Tensor>& outputs) {
    for (const Tensor& t : tensors) {
        int k = -1;
        for (size_t i = 0; i < outputs.size(); ++i)
            if (t.defined() && outputs[i].defined() && t.same(outputs[i])) k = static_cast<int>(i);
        saved_.emplace_back(t, k >= 0);
        output_of_.push_back(k);
    }
}

std::vector<Tensor> FunctionNode::saved() {
    if (released_) fail_released(*this);
    std::vector<Tensor> out;
    for (size_t i = 0; i < saved_.size(); ++i) out.push_back(saved_[i].unpack(this, output_of_[i]));
    return out;
}

void FunctionNode::release_saved() {
    if (saved_.empty()) return;
    saved_.clear();
    released_ = true;
}

void FunctionNode::run(Work& work) {
    std::vector<Tensor> grads = work.grads;
    if (materialize_)
        for (size_t k = 0; k < grads.size(); ++k)
            if (!grads[k].defined()) grads[k] = ops::zeros(result(k).shape(), result(k).dtype());
    Object arguments = Object::take(PyTuple_New(static_cast<Py_ssize_t>(grads.size()) + 1));
    PyTuple_SET_ITEM(arguments.get(), 0, Object(context_).release());
    for (size_t k = 0; k < grads.size(); ++k)
        PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(k) + 1, checked(wrap(grads[k])));
    Object given = Object::take(PyObject_Call(backward_.get(), arguments.get(), nullptr));
    if (!PyTuple_Check(given.get())) given = Object::take(PyTuple_Pack(1, given.get()));
    take_results(given.get(), work);
}

void FunctionNode::take_results(PyObject* given, Work& work) const {
    Py_ssize_t count = PyTuple_GET_SIZE(given);
    bool extra_none = true;
    for (Py_ssize_t i = edge_count(); i < count; ++i)
        extra_none &= PyTuple_GET_ITEM(given, i) == Py_None;
    WEFT_EXPECT(count >= edge_count() && extra_none, Runtime, name_,
                text(edge_count(), " gradients, one for each argument of forward (function ", name_,
                     " returned an incorrect number of gradients)"),
                std::to_string(count), "return None for arguments that need none");
    for (int i = 0; i < edge_count(); ++i) {
        PyObject* g = PyTuple_GET_ITEM(given, i);
        if (g == Py_None || !edge(i)) continue;
        work.results[i] = expect_tensor(g, name_.c_str());
    }
}

namespace {

bool contains(PyObject* tuple, PyObject* o) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
        if (PyTuple_GET_ITEM(tuple, i) == o) return true;
    return false;
}

/// Writes of forward into an argument (mark_dirty) become part of the graph.
Tensor rewritten(PyObject* o, const Ref<Node>& node, int k) {
    Tensor t = unwrap(o);
    WEFT_EXPECT(!(requires_grad(t) && is_leaf(t)), Runtime, node->name(),
                "a tensor that may be written in place",
                "a leaf Variable that requires grad (it is being used in an in-place operation)",
                "write a clone()");
    GradMeta* m = meta_or_null(t);
    WEFT_EXPECT(!m || !m->base.defined(), Runtime, node->name(), "mark_dirty on a tensor that is no view",
                "a view", "clone() it first");
    set_history(t, node, static_cast<uint32_t>(k));
    return t;
}

/// _record_function(ctx, backward, name, inputs, outputs, saved, dirty, constant, materialize):
/// the outputs, tied to a node if an input wants a gradient.
PyObject* record_function(PyObject*, PyObject* args) {
    PyObject *context, *backward, *name, *inputs, *outputs, *saved, *dirty, *constant;
    int materialize;
    if (!PyArg_ParseTuple(args, "O!OUO!O!O!O!O!p", &context_type, &context, &backward, &name,
                          &PyTuple_Type, &inputs, &PyTuple_Type, &outputs, &PyTuple_Type, &saved,
                          &PyTuple_Type, &dirty, &PyTuple_Type, &constant, &materialize))
        return nullptr;
    return guarded([&] {
        std::vector<Edge> edges;
        bool any = false;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); ++i) {
            PyObject* o = PyTuple_GET_ITEM(inputs, i);
            edges.push_back(is_tensor(o) && (mode & kGradMode) ? gradient_edge(unwrap(o)) : Edge{});
            any |= static_cast<bool>(edges.back());
        }
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dirty); ++i)
            expect_tensor(PyTuple_GET_ITEM(dirty, i), "mark_dirty").storage()->version++;
        if (!any) return Py_NewRef(outputs);

        auto* node = new FunctionNode(context, backward, std::string(to_text(name)), materialize);
        Ref<Node> owner(node);
        node->site = Site::here();
        node->set_edges(std::move(edges));
        Py_ssize_t count = PyTuple_GET_SIZE(outputs);
        std::vector<Tensor> given(count);
        for (Py_ssize_t k = 0; k < count; ++k)
            if (PyObject* o = PyTuple_GET_ITEM(outputs, k); is_tensor(o)) given[k] = unwrap(o);
        node->set_results(given);

        Object out = Object::take(PyTuple_New(count));
        std::vector<Tensor> made(count);
        for (Py_ssize_t k = 0; k < count; ++k) {
            PyObject* o = PyTuple_GET_ITEM(outputs, k);
            Tensor& t = made[k];
            t = given[k];
            bool tracked = t.defined() && is_floating(t.dtype()) && !contains(constant, o);
            if (tracked && contains(dirty, o)) {
                t = rewritten(o, owner, static_cast<int>(k));
            } else if (tracked) {
                if (contains(inputs, o) || requires_grad(t)) t = t.alias();
                set_history(t, owner, static_cast<uint32_t>(k));
            }
            PyTuple_SET_ITEM(out.get(), k, t.defined() ? checked(wrap(t)) : Py_NewRef(o));
        }
        std::vector<Tensor> keep;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(saved); ++i) {
            PyObject* o = PyTuple_GET_ITEM(saved, i);
            keep.push_back(o == Py_None ? Tensor() : expect_tensor(o, "save_for_backward"));
        }
        node->save(keep, made);
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
PyObject* context_next(PyObject* self, void*) {
    return guarded([&]() -> PyObject* {
        FunctionNode* node = as_context(self)->node;
        if (!node) return PyTuple_New(0);
        Object shown = Object::take(wrap_node(Ref<Node>(node)));
        return shown.attr("next_functions").release();
    });
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
PyGetSetDef context_getset[] = {
    {"next_functions", context_next, nullptr, "Where the gradients go.", nullptr}, {}};
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
    t.tp_dictoffset = offsetof(PyContext, dict);
    t.tp_methods = context_methods;
    t.tp_getset = context_getset;
    checked(PyType_Ready(&t));
    add_object(module, "_Context", reinterpret_cast<PyObject*>(&t));
    checked(PyModule_AddFunctions(module, functions));
}

}  // namespace weft::python
