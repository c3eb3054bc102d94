/// Fast attribute lookup and fast calls for weft.nn.Module.
///
/// Note [Module slots]
/// `Module` is a Python class whose `__getattr__` and `__call__` say what it does. CPython reaches
/// them through generic slots: a parameter costs a formatted AttributeError and a Python call, and
/// a call costs a frame. `_speed_up_module(cls)` puts C functions that do the same into the slots
/// of `cls`, unless `cls` has a `__getattr__`, `__getattribute__` or `__call__` of its own. When
/// someone assigns one of these to a class later, CPython itself writes the generic slot again,
/// also in the subclasses. So the Python way is always there, and the fast one is tested against it.
///
/// Note [Remembered attributes]
/// `self.weight` is up to five lookups in dictionaries, and a model asks for the same few again and
/// again. CPython 3.11 gives every state of a dictionary a number that no other state of any
/// dictionary ever has (PEP 509), and every state of a class one as well. So what a lookup found is
/// still true when the numbers of the class, of the instance's dictionary and of the tables that
/// were searched are the same; one slot of a small table keeps all of it, with borrowed pointers
/// that are read after the numbers have matched. Other versions of Python look up each time.
#include "python/module_slots.h"

#include <array>

#include "ops/watch.h"
#include "python/program_host.h"

namespace weft::python {

ModuleWays module_ways;

namespace {

/// More positional arguments than this take the general way.
constexpr Py_ssize_t kMostArgs = 6;

PyObject* str_parameters;
PyObject* str_modules;
PyObject* str_buffers;
PyObject* str_hooked;
PyObject* str_forward;
PyObject* str_compiled;
PyObject* str_getattr;
PyObject* str_getattribute;
PyObject* str_call;
PyObject* str_call_with_hooks;
/// Stands for "the forward that a plain call runs" among the remembered; equal to no attribute's name.
PyObject *plain_forward, *compiled_forward;

/// The dictionary of an instance, borrowed; null with an error set.
PyObject* dict_of(PyObject* self) {
    PyObject** at = _PyObject_GetDictPtr(self);
    if (at && *at) return *at;
    PyObject* made = PyObject_GenericGetDict(self, nullptr);
    Py_XDECREF(made);  // the instance holds it
    return made;
}

/// `_parameters`, `_modules` and `_buffers` of an instance in the order of the search, borrowed; null
/// where the search ended before.
using Tables = std::array<PyObject*, 3>;

/// What was found for a name, and the states it was found in (Note [Remembered attributes]).
struct FoundSlot {
    PyObject* name = nullptr;   ///< owned
    PyObject* value = nullptr;  ///< borrowed from a table, the instance's dictionary or the class
    bool of_class = false;
    unsigned class_state = 0;
    uint64_t instance_state = 0;
    Tables tables{};
    uint64_t tables_state = 0;
};

#if PY_VERSION_HEX < 0x030C0000
constexpr size_t kRemembered = 1024;
FoundSlot remembered[kRemembered];

uint64_t state(PyObject* dict) { return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag; }

/// Zero: the class has none.
unsigned state(PyTypeObject* type) {
    return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

/// The states' sum, which every change raises, as numbers are given out in rising order.
uint64_t state(const Tables& tables) {
    uint64_t sum = 0;
    for (PyObject* table : tables) sum += table ? state(table) : 0;
    return sum;
}

FoundSlot& slot(uint64_t instance_state, PyObject* name) {
    uint64_t mixed = instance_state * 0x9E3779B97F4A7C15u ^ reinterpret_cast<uintptr_t>(name) >> 4;
    return remembered[(mixed ^ mixed >> 32) % kRemembered];
}

/// What is remembered for `name` of `self`, or null.
const FoundSlot* recall(PyObject* self, PyObject* dict, PyObject* name) {
    const FoundSlot& found = slot(state(dict), name);
    bool holds = found.name == name && found.instance_state == state(dict) && found.class_state &&
                 found.class_state == state(Py_TYPE(self)) &&
                 found.tables_state == state(found.tables);
    return holds ? &found : nullptr;
}

void remember(PyObject* self, PyObject* dict, PyObject* name, PyObject* value, bool of_class,
              const Tables& tables = {}) {
    FoundSlot& found = slot(state(dict), name);
    Py_INCREF(name);
    Py_XSETREF(found.name, name);
    found.value = value;
    found.of_class = of_class;
    found.class_state = state(Py_TYPE(self));
    found.instance_state = state(dict);
    found.tables = tables;
    found.tables_state = state(tables);
}
#else
const FoundSlot* recall(PyObject*, PyObject*, PyObject*) { return nullptr; }
void remember(PyObject*, PyObject*, PyObject*, PyObject*, bool, const Tables& = {}) {}
#endif

/// A new reference to the value of an attribute that the class of `self` has.
PyObject* get_of_class(PyObject* self, PyObject* dict, PyObject* name, PyObject* attribute) {
    if (!PyFunction_Check(attribute) || PyDict_GetItemWithError(dict, name))
        return PyErr_Occurred() ? nullptr
                                : _PyObject_GenericGetAttrWithDict(self, name, nullptr, 1);
    if (PyErr_Occurred()) return nullptr;
    remember(self, dict, name, attribute, /*of_class=*/true);
    return PyMethod_New(attribute, self);
}

/// A new reference to `name` in the instance or its tables; null without an error: it is in none.
/// `denied`: the class has one, which raised AttributeError, and may not the next time.
PyObject* get_of_instance(PyObject* self, PyObject* dict, PyObject* name, bool denied) {
    PyObject* value = denied ? nullptr : PyDict_GetItemWithError(dict, name);
    Tables tables{};
    PyObject* const names[] = {str_parameters, str_modules, str_buffers};
    for (size_t i = 0; i < tables.size() && !value && !PyErr_Occurred(); ++i) {
        PyObject* table = PyDict_GetItemWithError(dict, names[i]);
        if (!table || !PyDict_Check(table)) continue;
        tables[i] = table;
        value = PyDict_GetItemWithError(table, name);
    }
    if (value && !denied) remember(self, dict, name, value, /*of_class=*/false, tables);
    return Py_XNewRef(value);
}

/// What `object.__getattribute__` and then `Module.__getattr__` do.
PyObject* get_attribute(PyObject* self, PyObject* name) {
    PyObject* dict = dict_of(self);
    if (!dict) return nullptr;
    if (const FoundSlot* found = recall(self, dict, name))
        return found->of_class ? PyMethod_New(found->value, self) : Py_NewRef(found->value);
    PyObject* attribute = _PyType_Lookup(Py_TYPE(self), name);
    PyObject* value = attribute ? get_of_class(self, dict, name, attribute) : nullptr;
    if (!value && !PyErr_Occurred()) value = get_of_instance(self, dict, name, attribute);
    if (!value && !PyErr_Occurred())
        PyErr_Format(PyExc_AttributeError, "'%.200s' object has no attribute '%U'",
                     Py_TYPE(self)->tp_name, name);
    return value;
}

/// Calls `function` as a method of `self` without making a bound method.
PyObject* call_function(PyObject* function, PyObject* self, PyObject* const* args, Py_ssize_t n) {
    PyObject* stack[kMostArgs + 2] = {nullptr, self};
    for (Py_ssize_t i = 0; i < n; ++i) stack[i + 2] = args[i];
    Py_INCREF(function);
    size_t flags = static_cast<size_t>(n + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET;
    PyObject* out = PyObject_Vectorcall(function, stack + 1, flags, nullptr);
    Py_DECREF(function);
    return out;
}
PyObject* call_function(PyObject* function, PyObject* self, PyObject* args) {
    return call_function(function, self, PySequence_Fast_ITEMS(args), PyTuple_GET_SIZE(args));
}

/// Calls what the module itself has for `forward`.
PyObject* call_own(PyObject* forward, PyObject* args) {
    PyObject* stack[kMostArgs + 1] = {};
    const Py_ssize_t n = PyTuple_GET_SIZE(args);
    std::copy_n(PySequence_Fast_ITEMS(args), n, stack + 1);
    const Object kept = Object::borrow(forward);
    const size_t flags = static_cast<size_t>(n) | PY_VECTORCALL_ARGUMENTS_OFFSET;
    return PyObject_Vectorcall(forward, stack + 1, flags, nullptr);
}

PyObject* call_with_hooks(PyObject* self, PyObject* args, PyObject* kwargs) {
    PyObject* named = kwargs ? Py_NewRef(kwargs) : PyDict_New();
    if (!named) return nullptr;
    PyObject* out = PyObject_CallMethodObjArgs(self, str_call_with_hooks, args, named, nullptr);
    Py_DECREF(named);
    return out;
}

/// Whether something may have to happen around `forward`: the flag of an instance is only ever
/// raised, that of the class says "any module".
bool is_hooked(PyObject* self, PyObject* dict) {
    return PyDict_GetItemWithError(dict, str_hooked) ||
           _PyType_Lookup(Py_TYPE(self), str_hooked) != Py_False;
}

/// The function that a call of a module without hooks runs; null if `forward` is none of its class. (One of its own
/// that is compiled, as OptimizedModule's, is remembered too.)
PyObject* find_forward(PyObject* self, PyObject* dict) {
    if (PyObject* own = PyDict_GetItemWithError(dict, str_forward)) {
        if (compiled_callee(own) && !PyDict_GetItemWithError(dict, str_compiled))
            remember(self, dict, plain_forward, own, /*of_class=*/false);
        return nullptr;
    }
    if (PyErr_Occurred()) return nullptr;
    PyObject* forward = _PyType_Lookup(Py_TYPE(self), str_forward);
    if (!forward || !PyFunction_Check(forward)) return nullptr;
    PyObject* compiled = PyDict_GetItemWithError(dict, str_compiled);
    remember(self, dict, compiled ? compiled_forward : plain_forward, forward, /*of_class=*/true);
    if (compiled) remember(self, dict, str_compiled, compiled, /*of_class=*/false);
    return PyErr_Occurred() ? nullptr : forward;
}

/// Whether `forward` is that of a layer of the package, not of a user's class.
bool is_own(PyObject* forward) {
    PyObject* names = PyFunction_Check(forward) ? PyFunction_GET_MODULE(forward) : nullptr;
    return names && PyUnicode_Check(names) && to_text(names).starts_with("weft.nn.");
}

/// The `forward` that calls of a layer of the package run; null where it is a user's, of the class or the instance.
PyObject* own_forward(PyObject* self) {
    PyObject** dict = _PyObject_GetDictPtr(self);
    if (dict && *dict && PyDict_Contains(*dict, str_forward) != 0) return nullptr;
    PyObject* forward = _PyType_Lookup(Py_TYPE(self), str_forward);
    return forward && is_own(forward) ? forward : nullptr;
}

/// After a layer of ours failed with Python's own words for an argument: the words for that.
PyObject* explain(PyObject* self, PyObject* args, PyObject* kwargs) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError) && !PyErr_ExceptionMatches(PyExc_TypeError) &&
        !PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_IndexError))
        return nullptr;
    bool is_telling = false;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);  // _PyType_Lookup clears errors
    PyErr_NormalizeException(&type, &value, &trace);
    guarded([&]() -> PyObject* {
        PyObject* forward = own_forward(self);
        if (!forward || !is_slip(value)) return nullptr;
        is_telling = true;
        const Py_ssize_t n = PyTuple_GET_SIZE(args);
        Object given = Object::take(PyTuple_New(n + 1));
        PyTuple_SET_ITEM(given.get(), 0, Py_NewRef(self));
        for (Py_ssize_t i = 0; i < n; ++i)
            PyTuple_SET_ITEM(given.get(), i + 1, Py_NewRef(PyTuple_GET_ITEM(args, i)));
        Object named = kwargs ? Object::borrow(kwargs) : Object::take(PyDict_New());
        return import_attr("weft.base.checks", "explain")
            .call(Object::borrow(forward), given, named)
            .release();
    });
    if (PyErr_Occurred()) {  // the words; what the old error held goes
        SetAside words;
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    } else {
        PyErr_Restore(type, value, trace);
        if (is_telling)
            guarded([&]() -> PyObject* {
                tell_arguments(Py_TYPE(self)->tp_name, PySequence_Fast_ITEMS(args),
                               PyTuple_GET_SIZE(args));
                return nullptr;
            });
    }
    return nullptr;
}

PyObject* failed(PyObject* self, PyObject* args, PyObject* kwargs) {
    explain(self, args, kwargs);
    bool own = false;
    {
        SetAside error;  // _PyType_Lookup clears errors
        own = own_forward(self) != nullptr;
    }
    if (own)
        guarded([&] {
            tell_operands(Py_TYPE(self)->tp_name, PySequence_Fast_ITEMS(args),
                          PyTuple_GET_SIZE(args));
            return true;
        });
    tell_module(self);
    return nullptr;
}

/// `forward`, or `_call_with_hooks` if the flag `_hooked` is up; or, where `compile()` made one of the module, what
/// it made, which itself comes back here with `past_compiled`.
PyObject* run_module(PyObject* self, PyObject* args, PyObject* kwargs, bool past_compiled = false) {
    PyObject* dict = dict_of(self);
    if (!dict) return nullptr;
    bool plain = PyTuple_GET_SIZE(args) <= kMostArgs && !(kwargs && PyDict_GET_SIZE(kwargs));
    const FoundSlot* found = plain ? recall(self, dict, plain_forward) : nullptr;
    if (found && found->of_class) return call_function(found->value, self, args);
    if (found) return call_own(found->value, args);
    if (!past_compiled && !(mode & kCompiledMode))
        if (PyObject* compiled = PyDict_GetItemWithError(dict, str_compiled)) {
            Object kept = Object::borrow(compiled);
            return PyObject_Call(compiled, args, kwargs);
        }
    bool hooked = is_hooked(self, dict);
    if (PyErr_Occurred()) return nullptr;
    if (hooked) return call_with_hooks(self, args, kwargs);
    if (PyObject* forward = plain ? find_forward(self, dict) : nullptr)
        return call_function(forward, self, args);
    PyObject* bound = PyErr_Occurred() ? nullptr : PyObject_GetAttr(self, str_forward);
    if (!bound) return nullptr;
    PyObject* out = PyObject_Call(bound, args, kwargs);
    Py_DECREF(bound);
    return out;
}

/// In compiled mode, where the call would do nothing but run `forward`.
PyObject* run_compiled(PyObject* self, PyObject* args, PyObject* kwargs) {
    PyObject* forward = kwargs && PyDict_GET_SIZE(kwargs) ? nullptr : plain_forward_of(self);
    if (!forward || !programs_run()) return run_module(self, args, kwargs);
    bool handled = false;
    PyObject* out = run_program({forward, self, nullptr}, PySequence_Fast_ITEMS(args),
                                static_cast<size_t>(PyTuple_GET_SIZE(args)), nullptr, handled);
    return out || handled || PyErr_Occurred() ? out : run_module(self, args, kwargs);
}

PyObject* call_watched(PyObject* self, PyObject* args, PyObject* kwargs) {
    ops::WatchSpan span(ops::SpanKind::Module, self, Py_TYPE(self)->tp_name);
    PyObject* out = run_module(self, args, kwargs);
    if (!out) {
        span.fail();
        failed(self, args, kwargs);
    }
    return out;
}

/// What `Module.__call__` does.
PyObject* call_module(PyObject* self, PyObject* args, PyObject* kwargs) {
    if (mode & kWatchMode) [[unlikely]]
        return call_watched(self, args, kwargs);
    PyObject* out = mode & kCompiledMode ? guarded([&] { return run_compiled(self, args, kwargs); })
                                         : run_module(self, args, kwargs);
    return out ? out : failed(self, args, kwargs);
}

}  // namespace

PyObject* plain_forward_of(PyObject* module, bool* in_place) {
    if (Py_TYPE(module)->tp_call != call_module) return nullptr;
    PyObject* dict = dict_of(module);
    if (!dict) return nullptr;
    if (const FoundSlot* found = recall(module, dict, plain_forward))
        return found->of_class ? found->value : nullptr;
    if (in_place) *in_place = true;
    if (const FoundSlot* found = recall(module, dict, compiled_forward)) return found->value;
    if (is_hooked(module, dict)) return nullptr;
    return find_forward(module, dict);
}

bool is_compiled_in_place(PyObject* module, PyObject* by) {
    PyObject** dict = _PyObject_GetDictPtr(module);
    if (!dict || !*dict) return false;
    if (const FoundSlot* found = recall(module, *dict, str_compiled)) return found->value == by;
    return PyDict_GetItemWithError(*dict, str_compiled) == by;
}

PyObject* call_past_compiled(PyObject* module, PyObject* const* args, size_t n, PyObject* names) {
    PyObject* const dict = dict_of(module);
    const bool plain = dict && n <= kMostArgs && !names;
    if (const FoundSlot* found = plain ? recall(module, dict, compiled_forward) : nullptr)
        return into_python(
            [&] { return call_function(found->value, module, args, static_cast<Py_ssize_t>(n)); });
    Object all = Object::take(PyTuple_New(static_cast<Py_ssize_t>(n)));
    for (size_t k = 0; k < n; ++k)
        PyTuple_SET_ITEM(all.get(), static_cast<Py_ssize_t>(k), Py_NewRef(args[k]));
    Object words;
    for (Py_ssize_t k = 0; names && k < PyTuple_GET_SIZE(names); ++k) {
        if (!words) words = Object::take(PyDict_New());
        checked(PyDict_SetItem(words.get(), PyTuple_GET_ITEM(names, k),
                               args[n + static_cast<size_t>(k)]));
    }
    return into_python([&] { return run_module(module, all.get(), words.get(), true); });
}

void module_failed(PyObject* module, PyObject* args) { failed(module, args, nullptr); }

namespace {

/// _speed_up_module(cls): the first class it is given has to be Module itself.
PyObject* speed_up_module(PyObject*, PyObject* cls) {
    if (!PyType_Check(cls)) {
        PyErr_Format(PyExc_TypeError, "[_speed_up_module] expected a class, got %.200s",
                     Py_TYPE(cls)->tp_name);
        return nullptr;
    }
    auto* type = reinterpret_cast<PyTypeObject*>(cls);
    if (!module_ways.getattr) {
        module_ways = {Py_XNewRef(_PyType_Lookup(type, str_getattr)),
                       Py_XNewRef(_PyType_Lookup(type, str_call)),
                       Py_XNewRef(_PyType_Lookup(type, str_call_with_hooks))};
    }
    PyObject* plain_getattribute = _PyType_Lookup(&PyBaseObject_Type, str_getattribute);
    if (_PyType_Lookup(type, str_getattr) == module_ways.getattr &&
        _PyType_Lookup(type, str_getattribute) == plain_getattribute)
        type->tp_getattro = get_attribute;
    if (_PyType_Lookup(type, str_call) == module_ways.call) type->tp_call = call_module;
    PyType_Modified(type);
    Py_RETURN_NONE;
}

/// _call_module(module, args, kwargs): as the fast slot does.
PyObject* call_of_module(PyObject*, PyObject* given) {
    PyObject *self, *args, *kwargs;
    if (!PyArg_ParseTuple(given, "OO!O!", &self, &PyTuple_Type, &args, &PyDict_Type, &kwargs))
        return nullptr;
    return run_module(self, args, kwargs);
}

PyMethodDef module_slots_functions[] = {
    {"_speed_up_module", speed_up_module, METH_O,
     "Put C functions into the slots of a module class."},
    {"_call_module", call_of_module, METH_VARARGS, "Call a module as the fast slot does."},
    {}};

}  // namespace

void init_module_slots(PyObject* module) {
    const std::pair<PyObject**, const char*> names[] = {
        {&str_parameters, "_parameters"}, {&str_modules, "_modules"},
        {&str_buffers, "_buffers"},       {&str_hooked, "_hooked"},
        {&str_forward, "forward"},        {&str_compiled, "_compiled_call_impl"},
        {&str_getattr, "__getattr__"},    {&str_getattribute, "__getattribute__"},
        {&str_call, "__call__"},          {&str_call_with_hooks, "_call_with_hooks"}};
    for (auto [at, text] : names) *at = checked(PyUnicode_InternFromString(text));
    plain_forward = checked(PyUnicode_FromString("forward of a plain call"));
    compiled_forward = checked(PyUnicode_FromString("forward of a call that compile() made"));
    checked(PyModule_AddFunctions(module, module_slots_functions));
}

}  // namespace weft::python
