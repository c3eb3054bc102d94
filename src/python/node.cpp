/// Nodes of the graph as Python objects: what `tensor.grad_fn` gives.
#include <map>

#include "autograd/accumulate.h"
#include "autograd/op_node.h"
#include "program/compiled_node.h"
#include "python/function.h"
#include "python/hooks.h"
#include "python/node_saved.h"
#include "python/type.h"

namespace weft::python {
namespace {

struct PyNode {
    PyObject_HEAD Node* node;
};
PyTypeObject node_type = blank_type();

Node& node_of(PyObject* self) { return *reinterpret_cast<PyNode*>(self)->node; }

void node_dealloc(PyObject* self) {
    auto* p = reinterpret_cast<PyNode*>(self);
    PyTypeObject* type = Py_TYPE(self);
    p->node->wrapper = nullptr;
    Ref<Node>::adopt(p->node);
    type->tp_free(self);
    if (type != &node_type) Py_DECREF(type);
}

PyObject* node_repr(PyObject* self) {
    Node& n = node_of(self);
    const char* where = dynamic_cast<FunctionNode*>(&n) ? "torch.autograd.function." : "";
    return PyUnicode_FromFormat("<%s%s object at %p>", where, n.name().c_str(), self);
}
PyObject* node_name(PyObject* self, PyObject*) {
    return guarded([&] {
        Node& n = node_of(self);
        // PyTorch's engine lives in a namespace that the names of its own nodes show
        bool plain = dynamic_cast<OpNode*>(&n) || dynamic_cast<FunctionNode*>(&n) ||
                     dynamic_cast<program::CompiledNode*>(&n);
        return py_str(plain ? n.name() : "torch::autograd::" + n.name()).release();
    });
}

PyObject* node_next(PyObject* self, void*) {
    return guarded([&] {
        Node& n = node_of(self);
        std::vector<const Edge*> shown;
        for (int i = 0; i < n.edge_count(); ++i)
            if (n.shows_edge(i)) shown.push_back(&n.edge(i));
        Object out = Object::take(PyTuple_New(static_cast<Py_ssize_t>(shown.size())));
        for (size_t i = 0; i < shown.size(); ++i)
            PyTuple_SET_ITEM(
                out.get(), static_cast<Py_ssize_t>(i),
                checked(Py_BuildValue("(NI)", wrap_node(shown[i]->node), shown[i]->output)));
        return out.release();
    });
}

PyObject* node_metadata(PyObject* self, void*) {
    return guarded([&] {
        Ref<Hook>& kept = node_of(self).hooks().metadata;
        if (!kept) kept = Ref<Hook>(new PyHook(Object::take(PyDict_New()).get(), HookStyle::Plain));
        return Py_NewRef(static_cast<PyHook*>(kept.get())->f.get());
    });
}
PyObject* node_sequence(PyObject* self, PyObject*) {
    return PyLong_FromUnsignedLongLong(node_of(self).sequence);
}
PyObject* node_requires_grad(PyObject*, void*) { Py_RETURN_TRUE; }
PyObject* node_site(PyObject* self, void*) {
    return guarded([&] { return py_str(node_of(self).site.describe()).release(); });
}

/// `_saved_self`, `_saved_result`, attributes by name; `variable` of an accumulator.
PyObject* node_getattro(PyObject* self, PyObject* name) {
    PyObject* found = PyObject_GenericGetAttr(self, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    return guarded([&]() -> PyObject* {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        Object kept[] = {Object::steal(type), Object::steal(value), Object::steal(trace)};
        std::string_view n = to_text(name);
        Node& node = node_of(self);
        if (auto* leaf = dynamic_cast<AccumulateGrad*>(&node); leaf && n == "variable")
            return wrap(leaf->variable());
        if (auto* custom = dynamic_cast<FunctionNode*>(&node)) {
            PyObject* attribute = PyObject_GetAttr(custom->context(), name);
            if (attribute) return attribute;
            PyErr_Clear();
        }
        if (auto* op = dynamic_cast<OpNode*>(&node))
            if (Object saved = saved_attribute(*op, n)) return saved.release();
        PyErr_Restore(kept[0].release(), kept[1].release(), kept[2].release());
        throw PythonError{};
    });
}

/// __dir__(): those that the type has, and those of this node.
PyObject* node_dir(PyObject* self, PyObject*) {
    return guarded([&] {
        Object names = Object::take(PyObject_CallMethod(
            reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__dir__", "O", self));
        auto add = [&](const std::string& name) {
            checked(PyList_Append(names.get(), py_str(name).get()));
        };
        Node& node = node_of(self);
        if (auto* op = dynamic_cast<OpNode*>(&node))
            for (const std::string& name : saved_names(*op)) add(name);
        if (dynamic_cast<AccumulateGrad*>(&node)) add("variable");
        if (auto* custom = dynamic_cast<FunctionNode*>(&node)) {
            Object own = Object::take(PyObject_Dir(custom->context()));
            checked(PyList_SetSlice(names.get(), 0, 0, own.get()));
        }
        return names.release();
    });
}

/// Only a custom function's node takes attributes: they are its ctx's.
int node_setattro(PyObject* self, PyObject* name, PyObject* value) {
    auto* custom = dynamic_cast<FunctionNode*>(&node_of(self));
    return PyObject_GenericSetAttr(custom ? custom->context() : self, name, value);
}

PyObject* add_hook(PyObject* f, Hooks& hooks, HookStyle style) {
    purge(hooks);
    Ref<Hook> hook(new PyHook(f, style));
    hooks.push_back(hook);
    return hook_handle(hook);
}
PyObject* node_register_hook(PyObject* self, PyObject* f) {
    return guarded([&] { return add_hook(f, node_of(self).hooks().after, HookStyle::AfterNode); });
}
PyObject* node_register_prehook(PyObject* self, PyObject* f) {
    return guarded(
        [&] { return add_hook(f, node_of(self).hooks().before, HookStyle::BeforeNode); });
}

PyMethodDef node_methods[] = {
    {"name", node_name, METH_NOARGS, "The name, such as MulBackward0."},
    {"register_hook", node_register_hook, METH_O,
     "register_hook(f): f(grad_inputs, grad_outputs) runs after the node."},
    {"register_prehook", node_register_prehook, METH_O,
     "register_prehook(f): f(grad_outputs) runs before the node."},
    {"_sequence_nr", node_sequence, METH_NOARGS, "The order of recording."},
    {"__dir__", node_dir, METH_NOARGS, nullptr},
    {}};
PyGetSetDef node_getset[] = {
    {"next_functions", node_next, nullptr, "Where the gradients go: (node, output number) pairs.",
     nullptr},
    {"metadata", node_metadata, nullptr, "A dict for the user's notes.", nullptr},
    {"requires_grad", node_requires_grad, nullptr, "True: gradients flow through it.", nullptr},
    {"site", node_site, nullptr, "The line of the user's program that made the node.", nullptr},
    {}};

/// A type per name, so that type(grad_fn).__name__ tells what the node is.
PyTypeObject* type_named(const std::string& name) {
    static auto* types = new std::map<std::string, PyTypeObject*>;
    auto [it, fresh] = types->try_emplace(name, nullptr);
    if (!fresh) return it->second;
    PyType_Slot slots[] = {{0, nullptr}};
    auto* full = new std::string("weft.autograd." + name);  // kept by the type
    PyType_Spec spec = {full->c_str(), sizeof(PyNode), 0, Py_TPFLAGS_DEFAULT, slots};
    Object base = Object::take(PyTuple_Pack(1, &node_type));
    it->second =
        reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpecWithBases(&spec, base.get())));
    it->second->tp_dealloc = node_dealloc;
    checked(PyDict_SetItemString(it->second->tp_dict, "__module__", py_str("weft.autograd").get()));
    return it->second;
}

}  // namespace

PyObject* wrap_node(const Ref<Node>& node) {
    if (!node) Py_RETURN_NONE;
    if (node->wrapper) return Py_NewRef(static_cast<PyObject*>(node->wrapper));
    PyTypeObject* type = type_named(node->name());
    auto* p = reinterpret_cast<PyNode*>(checked(type->tp_alloc(type, 0)));
    p->node = Ref<Node>(node).detach();
    p->node->wrapper = p;
    return reinterpret_cast<PyObject*>(p);
}

PyObject* node_attribute(const Ref<Node>& node, PyObject* name) {
    Object shown = Object::take(wrap_node(node));
    return checked(PyObject_GenericGetAttr(shown.get(), name));
}

Ref<Node> unwrap_node(PyObject* o, const char* who) {
    WEFT_EXPECT(PyType_IsSubtype(Py_TYPE(o), &node_type), Type, who, "a node", Py_TYPE(o)->tp_name);
    return Ref<Node>(reinterpret_cast<PyNode*>(o)->node);
}

void init_node_type(PyObject* module) {
    PyTypeObject& t = node_type;
    t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    t.tp_dealloc = node_dealloc;
    t.tp_repr = node_repr;
    t.tp_getattro = node_getattro;
    t.tp_setattro = node_setattro;
    t.tp_methods = node_methods;
    t.tp_getset = node_getset;
    t.tp_doc = "A node of the graph.\n"
               "\n"
               "What made a tensor that requires grad, and where gradients go from there.\n"
               "\n"
               ">>> x = weft.ones(2, requires_grad=True)\n"
               ">>> (2 * x).grad_fn.name()\n"
               "'MulBackward0'";
    add_type(module, t, "weft.autograd.Node", sizeof(PyNode));
}

}  // namespace weft::python
