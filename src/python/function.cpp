/// Nodes whose backward is the user's Python: what weft/autograd/function.py builds on.
///
/// A context (the `ctx` of forward and backward) is a Python object; the node owns it, and it knows
/// the node without owning it. What `tensor.grad_fn` shows is a wrapper of the node as for any other
/// (node.cpp), which passes attributes on to the context: to a user the two look like one.
#include "python/function.h"

#include "autograd/engine.h"
#include "autograd/fit.h"
#include "autograd/reached.h"
#include "ops/functions.h"
#include "ops/write.h"
#include "python/hooks.h"
#include "python/type.h"

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

namespace {

/// What backward returned, as one gradient for each argument of forward that is a tensor.
std::vector<Tensor> gradients_of(PyObject* given, const std::vector<bool>& takes_gradient,
                                 const std::string& name) {
    auto wanted = static_cast<Py_ssize_t>(takes_gradient.size()), count = PyTuple_GET_SIZE(given);
    bool fits = count >= wanted;  // more are fine if they are None
    for (Py_ssize_t i = wanted; i < count; ++i) fits &= PyTuple_GET_ITEM(given, i) == Py_None;
    WEFT_EXPECT(fits, Runtime, name, "one gradient (or None) for each argument of forward",
                text(count, " (function ", name,
                     " returned an incorrect number of gradients (expected ", wanted, ", got ",
                     count, "))"));
    std::vector<Tensor> out;
    for (Py_ssize_t i = 0; i < wanted; ++i) {
        PyObject* g = PyTuple_GET_ITEM(given, i);
        const bool takes = takes_gradient[static_cast<size_t>(i)];
        if (takes) out.emplace_back();
        if (g == Py_None) continue;
        WEFT_EXPECT(is_tensor(g), Runtime, name, "gradients that are tensors or None",
                    text(Py_TYPE(g)->tp_name, " (expected Variable or None (got ",
                         Py_TYPE(g)->tp_name, "))"));
        WEFT_EXPECT(takes, Runtime, name, "None as the gradient of an argument that is no tensor",
                    text("a tensor (function ", name,
                         " returned a gradient different than None at "
                         "position ",
                         i + 1, ", but the corresponding forward input was not a Variable)"));
        out.back() = handle(g);
    }
    return out;
}

}  // namespace

void FunctionNode::run(Work& work) {
    Ref<Node> keep(this);  // the user's code may drop the graph
    Object args = arguments(work.grads);
    struct AtHand {
        explicit AtHand(FunctionNode& node, const std::vector<Tensor>& now)
            : node(node), before(std::exchange(node.grads, &now)) {}
        ~AtHand() { node.grads = before; }
        FunctionNode& node;
        const std::vector<Tensor>* before;
    } at_hand(*this, work.grads);
    Object given = Object::take(
        into_python([&] { return PyObject_Call(backward_.get(), args.get(), nullptr); }));
    if (!PyTuple_Check(given.get())) given = Object::take(PyTuple_Pack(1, given.get()));
    std::vector<Tensor> grads = gradients_of(given.get(), takes_gradient_, name_);
    for (size_t e = 0; e < grads.size(); ++e) {
        if (!grads[e].defined() || !edge(static_cast<int>(e))) continue;
        if (grads[e].has(kPending)) ops::settle_for_call(grads[e]);
        work.results[e] = std::move(grads[e]);
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
        const Tensor t = unwrap(o);
        // Where forward wrote nothing, a view that was written before has its new place.
        const GradMeta* m = meta_or_null(t);
        const bool as_now =
            PyTuple_GET_SIZE(a.dirty) == 0 && (!m || m->view_kind == ViewKind::Plain);
        edges.push_back(as_now ? gradient_edge(t) : gradient_edge_as_made(t));
        any |= requires_grad(t);  // a view made under no_grad wants one and leads nowhere
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
        Tensor written = expect_tensor(o, "mark_dirty");
        ops::Write::was_written(written);
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
        // The node's edges go to what views were made by before the version says they were written.
        Ref<CustomNode> node = make_node(a);
        std::vector<CustomOutput> given = describe_outputs(a);
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
        return tuple_of(node->saved(node->grads)).release();
    });
}

/// ctx._reached(sizes): in a backward over blocks of several uses' outputs, whether a gradient comes to
/// each use, which has so many elements of each block (Note [Reached]).
PyObject* context_reached(PyObject* self, PyObject* sizes) {
    return guarded([&] {
        const FunctionNode* node = as_context(self)->node;
        const Py_ssize_t count = PyList_GET_SIZE(sizes);
        Object out = Object::take(PyList_New(count));
        Dims start(node->output_count());
        for (Py_ssize_t u = 0; u < count; ++u) {
            bool comes = false;
            for (int k = 0; k < node->output_count(); ++k) {
                const int64_t n =
                    to_int(PyTuple_GET_ITEM(PyList_GET_ITEM(sizes, u), k), "_reached");
                const int64_t begin = std::exchange(start[k], start[k] + n);
                const Tensor& g = (*node->grads)[static_cast<size_t>(k)];
                if (comes || !g.defined()) continue;
                const bool known = !g.has(kPending) && g.contiguous() && n > 0;
                comes = !known || !all_zeros(g.view_as(Dims{n}, Dims{1}, begin)) ||
                        current_pass_reaches(*node, static_cast<uint32_t>(k), begin, begin + n);
            }
            PyList_SET_ITEM(out.get(), u, PyBool_FromLong(comes));
        }
        return out.release();
    });
}

/// _gradients(given, name, arguments): what backward returned for those arguments of forward that have
/// a (shape, dtype) instead of None, summed and cast to that. `arguments` has False for what is no
/// tensor.
PyObject* gradients(PyObject*, PyObject* args) {
    PyObject *given, *name, *arguments;
    if (!PyArg_ParseTuple(args, "O!UO!", &PyTuple_Type, &given, &name, &PyTuple_Type, &arguments))
        return nullptr;
    return guarded([&] {
        const std::string who(to_text(name));
        std::vector<bool> takes;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i)
            takes.push_back(PyTuple_GET_ITEM(arguments, i) != Py_False);
        std::vector<Tensor> grads = gradients_of(given, takes, who);
        Object out = Object::take(PyList_New(0));
        size_t edge = 0;
        for (size_t i = 0; i < takes.size(); ++i) {
            if (!takes[i]) continue;
            Tensor g = std::move(grads[edge++]);
            PyObject* like = PyTuple_GET_ITEM(arguments, static_cast<Py_ssize_t>(i));
            if (!PyTuple_Check(like)) continue;  // wants none
            Dims shape;
            DType dtype;
            WEFT_EXPECT(PyTuple_GET_SIZE(like) == 2 && to_dims(PyTuple_GET_ITEM(like, 0), shape) &&
                            to_dtype(PyTuple_GET_ITEM(like, 1), dtype),
                        Type, "_gradients", "(shape, dtype)", Py_TYPE(like)->tp_name);
            if (g.defined())
                fit_to([&] { return who; }, shape, dtype, g, static_cast<int>(edge) - 1);
            checked(PyList_Append(out.get(), wrapped(std::move(g)).get()));
        }
        return out.release();
    });
}

/// _needs_gradients(arguments): a bool for each. Views are looked at as they are before forward may
/// write them: those that must not be used any more raise, others are made anew if need be.
PyObject* needs_gradients(PyObject*, PyObject* arguments) {
    return guarded([&] {
        Object out = Object::take(PyTuple_New(PyTuple_GET_SIZE(arguments)));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) {
            PyObject* o = PyTuple_GET_ITEM(arguments, i);
            bool needs = false;
            if (is_tensor(o)) {
                const Tensor t = handle(o);
                const bool waits = t.has(kPending);
                needs = waits ? promise(t).wants_grad(t) : requires_grad(t);
                if (needs && !waits && (mode & kGradMode)) grad_fn(t);
            }
            PyTuple_SET_ITEM(out.get(), i, PyBool_FromLong(needs));
        }
        return out.release();
    });
}

/// What makes the node of merged custom functions: called with inputs, results, the 8 bytes of each
/// and the node's name.
PyObject* tie_maker = nullptr;

void tie(Call& c) {
    const auto inputs = c.attr(0).as_int(), results = c.attr(1).as_int();
    WEFT_EXPECT(tie_maker, Runtime, "_tie_rows", "what makes nodes (_set_tie)", "none");
    std::vector<Tensor> in(c.in, c.in + inputs), made;
    for (int64_t k = 0; k < results; ++k) made.push_back(c.in[inputs + k].alias());
    Object given = Object::take(
        PyObject_CallFunction(tie_maker, "NNNsL", tuple_of(in).release(), tuple_of(made).release(),
                              checked(wrap(c.in[inputs + results])), c.attr(2).as_text().c_str(),
                              static_cast<long long>(c.attr(3).as_int())));
    WEFT_EXPECT(PyTuple_Check(given.get()) && PyTuple_GET_SIZE(given.get()) == results, Runtime,
                "_tie_rows", text(results, " results"), Py_TYPE(given.get())->tp_name);
    for (int64_t k = 0; k < results; ++k)
        c.add(expect_tensor(PyTuple_GET_ITEM(given.get(), k), "_tie_rows"));
}

/// _set_tie(make)
PyObject* set_tie(PyObject*, PyObject* make) {
    Py_XSETREF(tie_maker, Py_NewRef(make));
    ops::hooks.tie = tie;
    Py_RETURN_NONE;
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

PyGetSetDef context_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr}, {}};
PyMethodDef context_methods[] = {{"_saved", context_saved, METH_NOARGS, nullptr},
                                 {"_reached", context_reached, METH_O, nullptr},
                                 {}};
PyMethodDef function_functions[] = {{"_record_function", record_function, METH_VARARGS, nullptr},
                                    {"_needs_gradients", needs_gradients, METH_O, nullptr},
                                    {"_gradients", gradients, METH_VARARGS, nullptr},
                                    {"_set_tie", set_tie, METH_O, nullptr},
                                    {}};

}  // namespace

void init_function(PyObject* module) {
    PyTypeObject& t = context_type;
    t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
    t.tp_new = PyType_GenericNew;
    t.tp_dealloc = context_dealloc;
    t.tp_traverse = context_traverse;
    t.tp_clear = context_clear;
    t.tp_getattro = context_getattro;
    t.tp_dictoffset = offsetof(PyContext, dict);
    t.tp_methods = context_methods;
    t.tp_getset = context_getset;
    add_type(module, t, "weft._C._Context", sizeof(PyContext));
    checked(PyModule_AddFunctions(module, function_functions));
}

}  // namespace weft::python
