#include "python/overrides.h"

#include <cstddef>
#include <cstring>
#include <vector>

#include "python/type.h"

namespace weft::python {
namespace {

/// `__torch_function__`, and what it is set to where nobody is asked.
PyObject* function_name = nullptr;
PyObject* function_disabled = nullptr;

/// Whether it is a tensor of PyTorch's, which is data here: its method would call us for ever.
bool is_pytorchs(PyTypeObject* type) {
    while (type->tp_base && type->tp_base != &PyBaseObject_Type) type = type->tp_base;
    return !std::strcmp(type->tp_name, "torch._C.TensorBase");
}

/// Whether a class that is no plain Tensor's has the method. Static types never do.
bool class_overrides(PyTypeObject* type) {
    if (type == &tensor_type || !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return false;
    PyObject* method = _PyType_Lookup(type, function_name);
    return method && method != function_disabled && !is_pytorchs(type);
}

/// An argument of each class that overrides: subclasses before what they derive from, else in order.
class Overriding {
public:
    void add(PyObject* o) {
        if (!class_overrides(Py_TYPE(o))) return;
        for (PyObject* known : found_)
            if (Py_TYPE(known) == Py_TYPE(o)) return;
        auto at = found_.begin();
        while (at != found_.end() && !PyType_IsSubtype(Py_TYPE(o), Py_TYPE(*at))) ++at;
        found_.insert(at, o);
    }
    void add_with_items(PyObject* o) {
        if (!PyTuple_Check(o) && !PyList_Check(o)) return add(o);
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
            add(PySequence_Fast_GET_ITEM(o, i));
    }
    bool empty() const { return found_.empty(); }
    Object tuple() const {
        const auto n = static_cast<Py_ssize_t>(found_.size());
        Object out = Object::take(PyTuple_New(n));
        for (Py_ssize_t i = 0; i < n; ++i)
            PyTuple_SET_ITEM(out.get(), i, Py_NewRef(found_[static_cast<size_t>(i)]));
        return out;
    }

private:
    std::vector<PyObject*> found_;
};

Object tuple_of_objects(PyObject* const* items, Py_ssize_t count) {
    Object out = Object::take(PyTuple_New(count));
    for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(out.get(), i, Py_NewRef(items[i]));
    return out;
}

Object given_by_name(PyObject* names, PyObject* const* values) {
    Object out = Object::take(PyDict_New());
    for (Py_ssize_t k = 0; names && k < PyTuple_GET_SIZE(names); ++k)
        checked(PyDict_SetItem(out.get(), PyTuple_GET_ITEM(names, k), values[k]));
    return out;
}

// ---- members of Tensor

/// A method or property of Tensor that asks for overrides first.
struct Member {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject* inner;
};
Member& member(PyObject* o) { return *reinterpret_cast<Member*>(o); }

PyTypeObject function_method_type = blank_type();
PyTypeObject property_type = blank_type();

PyObject* method_call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    PyObject* out;
    if (Overrides::known() &&
        Overrides::answer(self, args, PyVectorcall_NARGS(nargsf), kwnames, out)) [[unlikely]]
        return out;
    return PyObject_Vectorcall(member(self).inner, args, nargsf, kwnames);
}
PyObject* function_method_get(PyObject* self, PyObject* object, PyObject*) {
    return object ? PyMethod_New(self, object) : Py_NewRef(self);
}

/// The answer to `Tensor.name.__get__(object)`, or to `__set__`, of which `args` are given.
bool answer_access(PyObject* self, const char* how, std::initializer_list<PyObject*> args,
                   PyObject*& out) {
    if (!Overrides::known()) return false;
    if (!(mode & kFunctionMode) && ((mode & kOwnMode) || !Overrides::has(*args.begin())))
        return false;
    PyObject* access = PyObject_GetAttrString(self, how);
    if (!access) return out = nullptr, true;
    const auto count = static_cast<Py_ssize_t>(args.size());
    const bool taken = Overrides::answer(access, args.begin(), count, nullptr, out);
    Py_DECREF(access);
    return taken;
}

PyObject* property_get(PyObject* self, PyObject* object, PyObject* type) {
    if (!object) return Py_NewRef(self);
    PyObject* out;
    if (answer_access(self, "__get__", {object}, out)) [[unlikely]]
        return out;
    PyObject* inner = member(self).inner;
    return Py_TYPE(inner)->tp_descr_get(inner, object, type);
}
int property_set(PyObject* self, PyObject* object, PyObject* value) {
    PyObject* out;
    if (value && answer_access(self, "__set__", {object, value}, out)) [[unlikely]] {
        Py_XDECREF(out);
        return out ? 0 : -1;
    }
    PyObject* inner = member(self).inner;
    return Py_TYPE(inner)->tp_descr_set(inner, object, value);
}

PyObject* member_getattro(PyObject* self, PyObject* name) {
    PyObject* own = _PyObject_GenericGetAttrWithDict(self, name, nullptr, /*suppress=*/1);
    return own || PyErr_Occurred() ? own : PyObject_GetAttr(member(self).inner, name);
}
int member_setattro(PyObject* self, PyObject* name, PyObject* value) {
    return PyObject_SetAttr(member(self).inner, name, value);
}
PyObject* member_repr(PyObject* self) { return PyObject_Repr(member(self).inner); }
PyObject* member_doc(PyObject* self, void*) {
    return PyObject_GetAttrString(member(self).inner, "__doc__");
}
PyObject* member_wrapped(PyObject* self, void*) { return Py_NewRef(member(self).inner); }

/// Members live as long as Tensor.
PyGetSetDef member_getset[] = {{"__doc__", member_doc, nullptr, nullptr, nullptr},
                               {"__wrapped__", member_wrapped, nullptr, nullptr, nullptr},
                               {}};

void ready_member(PyTypeObject& type, const char* name) {
    type.tp_getattro = member_getattro;
    type.tp_setattro = member_setattro;
    type.tp_repr = member_repr;
    type.tp_getset = member_getset;
    ready_type(type, name, sizeof(Member));
}

bool is_property(PyObject* o) {
    return Py_IS_TYPE(o, &PyGetSetDescr_Type) || Py_IS_TYPE(o, &PyProperty_Type);
}

}  // namespace

void Overrides::note_class(PyTypeObject* cls) {
    if (!known_) known_ = class_overrides(cls);
}

bool Overrides::has(PyObject* o) {
    const bool found = class_overrides(Py_TYPE(o));
    known_ |= found;
    return found;
}

void Overrides::look_at(PyObject* o) {
    if (!PyTuple_Check(o) && !PyList_Check(o)) {
        known_ = class_overrides(Py_TYPE(o));
        return;
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o) && !known_; ++i)
        known_ = class_overrides(Py_TYPE(PySequence_Fast_GET_ITEM(o, i)));
}

bool Overrides::answer(PyObject* function, PyObject* const* args, Py_ssize_t count,
                       PyObject* kwnames, PyObject*& out) {
    const bool in_mode = mode & kFunctionMode;
    if ((mode & kOwnMode) && !in_mode) return false;
    Overriding overriding;
    const Py_ssize_t total = count + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    for (Py_ssize_t i = 0; i < total && !(mode & kOwnMode); ++i) overriding.add_with_items(args[i]);
    if (overriding.empty() && !in_mode) return false;
    out = guarded([&] {
        static PyObject* ask = import_attr("weft.overrides", "_answer").release();
        return Object::borrow(ask)
            .call(Object::borrow(function), overriding.tuple(), tuple_of_objects(args, count),
                  given_by_name(kwnames, args + count))
            .release();
    });
    return true;
}

bool Overrides::answer(const char* name, std::initializer_list<PyObject*> args, PyObject*& out) {
    bool asked = mode & kFunctionMode;
    if (!(mode & kOwnMode))
        for (PyObject* o : args) asked |= class_overrides(Py_TYPE(o));
    if (!asked) return false;
    PyObject* function = PyDict_GetItemString(tensor_type.tp_dict, name);
    const auto count = static_cast<Py_ssize_t>(args.size());
    return answer(function, args.begin(), count, nullptr, out);
}

PyObject* overridable_member(PyObject* thing) {
    const bool property = is_property(thing);
    if (!property && !PyFunction_Check(thing)) return Py_NewRef(thing);
    PyTypeObject& type = property ? property_type : function_method_type;
    PyObject* made = checked(type.tp_alloc(&type, 0));
    member(made).vectorcall = method_call;
    member(made).inner = Py_NewRef(thing);
    return made;
}

/// _know_overrides(): from now on calls look for overrides: a mode is entered.
PyObject* Overrides::enter(PyObject*, PyObject*) {
    known_ = true;
    Py_RETURN_NONE;
}

namespace {

/// _disabled_torch_function_impl(func, types, args=(), kwargs=None): func's own answer.
PyObject* run_disabled_function(PyObject*, PyObject* given) {
    PyObject *function, *types, *args = nullptr, *kwargs = nullptr;
    if (!PyArg_ParseTuple(given, "OO|OO", &function, &types, &args, &kwargs)) return nullptr;
    return guarded([&] {
        ModeGuard own(kOwnMode, 0);
        Object places = Object::take(args ? PySequence_Tuple(args) : PyTuple_New(0));
        return PyObject_Call(function, places.get(), kwargs == Py_None ? nullptr : kwargs);
    });
}

/// _overrides(o): whether `__torch_function__` of the class of `o` is asked.
PyObject* overrides(PyObject*, PyObject* o) { return PyBool_FromLong(Overrides::has(o)); }

}  // namespace

void init_overrides(PyObject* module) {
    static PyMethodDef functions[] = {
        {"_disabled_torch_function_impl", run_disabled_function, METH_VARARGS,
         "What `__torch_function__` is set to where calls take no notice of a class."},
        {"_know_overrides", Overrides::enter, METH_NOARGS, nullptr},
        {"_overrides", overrides, METH_O, nullptr},
        {}};
    checked(PyModule_AddFunctions(module, functions));
    function_name = checked(PyUnicode_InternFromString("__torch_function__"));
    function_disabled =
        Object::take(PyObject_GetAttrString(module, functions[0].ml_name)).release();
    function_method_type.tp_flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
    function_method_type.tp_vectorcall_offset = offsetof(Member, vectorcall);
    function_method_type.tp_call = PyVectorcall_Call;
    function_method_type.tp_descr_get = function_method_get;
    ready_member(function_method_type, "weft.TensorMethod");
    property_type.tp_descr_get = property_get;
    property_type.tp_descr_set = property_set;
    ready_member(property_type, "weft.TensorProperty");
}

}  // namespace weft::python
