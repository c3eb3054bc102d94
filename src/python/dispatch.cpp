/// Calls of operators that a mode, or the class of an operand, carries out: `__torch_dispatch__`.
///
/// Note [Dispatch]
/// Where a TorchDispatchMode is entered (kDispatchMode), the door asks about each call behind autocast, traces and
/// mapped levels, and before it would keep or run it; a composite is not asked about, its calls are. The answer
/// (weft/_library/dispatch.py) is computed below the graph, in place of shape rule, memory and kernel: its
/// results get the node that the call's own would get, so backward runs the record's rules, whose calls come
/// through the door again. In-place forms have to write their operand; out= forms are the call, and a write of its
/// result. A tensor whose class defines `__torch_dispatch__` is kDispatching: without a mode the door comes to
/// such an operand before the shape rule, by the marks that it reads anyway. One that `_make_wrapper_subclass`
/// made has meta memory, which nobody reads; what it is made of is its attributes, and kOnCpu says where it lies.
/// Sums of gradients go through the door too (GradBuffer), and no program of a compiled function runs.
#include "python/dispatch.h"

#include "python/tensor_members.h"
#include "python/type.h"

namespace weft::python {
namespace {

/// An input as Python passed it: with `numbers`, a number where it was one.
Object given(const Tensor& t, bool numbers) {
    if (!t.defined()) return none();
    if (!t.storage()) {  // what a factory takes its layout from, on another device
        Tensor like = Tensor::layout_like(t, t.dtype());
        like.allocate_meta();
        return wrapped(like);
    }
    if (!numbers || !t.has(kWrapped)) return wrapped(t);
    ModeGuard below(0, kDispatchMode);
    return wrapped(t).attr("item").call();
}

/// The inputs and attributes of `c` by name.
Object arguments_of(const Call& c) {
    Object words = Object::take(PyDict_New());
    bool numbers = false;  // beside a tensor
    for (int k = 0; k < c.inputs; ++k) numbers |= c.in[k].defined() && !c.in[k].has(kWrapped);
    for (const Param& p : c.op->params) {
        Object value;
        if (p.kind == Param::Kind::Tensors) {
            value = Object::take(PyList_New(0));
            for (int k = p.slot; k < c.inputs; ++k)
                checked(PyList_Append(value.get(), given(c.in[k], numbers).get()));
        } else if (p.is_input()) {
            value = given(c.in[p.slot], numbers);
        } else {
            value = Object::take(to_python(c.attrs[p.slot]));
        }
        checked(PyDict_SetItemString(words.get(), p.name.c_str(), value.get()));
    }
    return words;
}

/// A result for the graph: nothing that has a history, or is an operand.
Tensor own(const Call& c, const Tensor& t) {
    bool taken = t.has(kTracked);
    for (int i = 0; i < c.inputs; ++i) taken |= c.in[i].same(t);
    return taken ? t.alias() : t;
}

void take_results(Call& c, PyObject* results, bool recorded) {
    Object all = PyTuple_Check(results) || PyList_Check(results)
                     ? Object::borrow(results)
                     : Object::take(PyTuple_Pack(1, results));
    c.outputs = 0;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(all.get()); ++k) {
        PyObject* o = PySequence_Fast_GET_ITEM(all.get(), k);
        const Tensor t = o == Py_None ? Tensor() : expect_tensor(o, c.name());
        c.add(recorded || !t.defined() ? t : own(c, t));
    }
    WEFT_EXPECT(c.op->outputs < 0 || c.outputs == c.op->outputs, Type, c.name(),
                text(c.op->outputs, " results of __torch_dispatch__"), text(c.outputs));
}

/// `__torch_dispatch__`, and what Tensor has there.
PyObject* dispatch_name = nullptr;
PyObject* dispatch_disabled = nullptr;

Tensor alias_of_class(const Tensor& t) {
    static PyObject* attributes = import_attr("weft.base.subclasses", "hand_on").release();
    Object from = wrapped(t);
    Object to = Object::take(instance_of(Py_TYPE(from.get()), t));
    Object::borrow(attributes).call(from, to);
    return handle(to.get());
}

/// _plain(tensor): what a tensor of a class is to the core, outside of the graph.
PyObject* plain(PyObject*, PyObject* o) {
    return guarded([&] { return wrap(expect_tensor(o, "_plain").plain_alias()); });
}

/// _wrapper(cls, layout, on_cpu): a tensor of such a class, laid out as a meta tensor.
PyObject* wrapper(PyObject*, PyObject* args) {
    PyTypeObject* cls;
    PyObject* layout;
    int on_cpu;
    if (!PyArg_ParseTuple(args, "O!O!p", &PyType_Type, &cls, &tensor_type, &layout, &on_cpu))
        return nullptr;
    return guarded([&] {
        PyObject* o = instance(cls, handle(layout).plain_alias());
        handle(o).set(kOnCpu, on_cpu);
        return o;
    });
}

/// _disabled_torch_dispatch_impl(func, types, args=(), kwargs=None)
PyObject* run_disabled_dispatch(PyObject*, PyObject* given) {
    return guarded([&] {
        static PyObject* run = import_attr("weft._library.dispatch", "_run_plain").release();
        return checked(PyObject_Call(run, given, nullptr));
    });
}

bool dispatch(Call& c) {
    static PyObject* ask = import_attr("weft._library.dispatch", "_answer").release();
    std::vector<Tensor> before;
    if (c.in_place) before = ops::hooks.before_write(c);
    Object answer = Object::borrow(ask).call(
        py_str(c.op->name), Object::borrow(c.in_place ? Py_True : Py_False), arguments_of(c));
    const bool recorded = PyTuple_GET_ITEM(answer.get(), 0) == Py_True;
    if (c.in_place) {
        c.set(c.dest);
        if (!before.empty()) ops::hooks.after_write(c, before);
        return true;
    }
    take_results(c, PyTuple_GET_ITEM(answer.get(), 1), recorded);
    return recorded;
}

}  // namespace

PyObject* dispatched(const char* name, PyObject* self) {
    static PyObject* ask = import_attr("weft._library.dispatch", "_answer_method").release();
    return guarded(
        [&] { return Object::borrow(ask).call(py_str(name), Object::borrow(self)).release(); });
}

bool class_dispatches(PyTypeObject* cls) {
    PyObject* method = _PyType_Lookup(cls, dispatch_name);
    const bool own = method && method != dispatch_disabled;
    dispatching_known |= own;
    return own;
}

void init_dispatch(PyObject* module) {
    static PyMethodDef functions[] = {{"_disabled_torch_dispatch_impl", run_disabled_dispatch,
                                       METH_VARARGS,
                                       "What `__torch_dispatch__` of Tensor is: the operator of "
                                       "the tensors without their class."},
                                      {"_plain", plain, METH_O, nullptr},
                                      {"_wrapper", wrapper, METH_VARARGS, nullptr},
                                      {}};
    checked(PyModule_AddFunctions(module, functions));
    dispatch_name = checked(PyUnicode_InternFromString("__torch_dispatch__"));
    dispatch_disabled =
        Object::take(PyObject_GetAttrString(module, functions[0].ml_name)).release();
    checked(PyDict_SetItem(tensor_type.tp_dict, dispatch_name, dispatch_disabled));
    PyType_Modified(&tensor_type);
    alias_in_class = alias_of_class;
    ops::hooks.dispatch = dispatch;
}

}  // namespace weft::python
