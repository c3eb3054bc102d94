/// `_C._Compiled`: a callable that runs the program of a function or Module where it may, else the thing itself.
#include "python/program.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "python/c_stack.h"
#include "python/example_run.h"
#include "python/program_host.h"
#include "python/program_place.h"
#include "python/recorder.h"
#include "python/type.h"

namespace weft::python {
namespace {

/// How a `_C._Compiled` runs what it calls.
enum class Callee : uint8_t {
    Compiled,
    Plain,  ///< as it is, and what it calls too (weft.compiler.disable)
    Skip,   ///< as it is, but not what it calls
};

struct PyCompiled {
    PyObject_HEAD PyObject* callee;
    PyObject* dict;
    PyObject* weakrefs;
    vectorcallfunc call;
    Reach* reach;
    Callee kind;
};
PyCompiled* compiled(PyObject* o) { return reinterpret_cast<PyCompiled*>(o); }

bool compile_enabled = true;
uint64_t reaches = 0;  ///< made so far

/// Sets bits of the mode, and puts back these alone: what runs may set others to stay.
class Bits {
public:
    Bits(uint32_t set, uint32_t compiled_clear)
        : which_(set | compiled_clear), saved_(mode & which_) {
        mode = (mode | set) & ~compiled_clear;
    }
    ~Bits() { mode = (mode & ~which_) | saved_; }
    Bits(const Bits&) = delete;

private:
    const uint32_t which_, saved_;
};

class ReachScope {
public:
    explicit ReachScope(Reach* r) : outer_(std::exchange(reach, r)) {}
    ~ReachScope() { reach = outer_; }
    ReachScope(const ReachScope&) = delete;

private:
    Reach* const outer_;
};

PyObject* call_itself(PyObject* callee, PyObject* by, PyObject* const* args, size_t n,
                      PyObject* names) {
    if (is_compiled_in_place(callee, by)) return call_past_compiled(callee, args, n, names);
    return into_python([&] { return PyObject_Vectorcall(callee, args, n, names); });
}

PyObject* call_eagerly(PyObject* callee, PyObject* by, PyObject* const* args, size_t n,
                       PyObject* names) {
    // what it calls is compiled still: Module's call looks at the mode
    Bits guard(compile_enabled && programs_run() ? kCompiledMode : 0u, 0);
    return call_itself(callee, by, args, n, names);
}

/// What a call of `by`, which calls `callee`, runs by its program; without a function where that may not run.
Target compiled_target(PyObject* callee, PyObject* by) {
    if (!compile_enabled || !programs_run()) return {};
    Target target = target_of(callee);
    // a module that is compiled in place tells of its errors itself
    if (target.may_be_compiled_in_place && is_compiled_in_place(callee, by))
        target.module = nullptr;
    return target;
}

/// Calls a function, method or Module by its program where that may run, else as it is.
PyObject* call_compiled(PyObject* callee, PyObject* by, PyObject* const* args, size_t n,
                        PyObject* names) {
    const Target target = compiled_target(callee, by);
    if (!target.function) return call_eagerly(callee, by, args, n, names);
    bool handled = false;
    Bits guard(kCompiledMode, 0);
    PyObject* result = run_program(target, args, n, names, handled);
    if (handled || result) return result;
    if (PyErr_Occurred()) return nullptr;
    return call_itself(callee, by, args, n, names);
}

/// While `jit.trace` writes calls down, a call of what was scripted is one of them, with its branches and loops; null:
/// nothing is written down.
PyObject* call_recorded(PyObject* self, PyObject* const* args, size_t n, PyObject* names) {
    Object words = Object::take(PyDict_New());
    for (Py_ssize_t k = 0; names && k < PyTuple_GET_SIZE(names); ++k)
        checked(PyDict_SetItem(words.get(), PyTuple_GET_ITEM(names, k),
                               args[n + static_cast<size_t>(k)]));
    Object given = Object::take(PyTuple_New(static_cast<Py_ssize_t>(n)));
    for (size_t k = 0; k < n; ++k)
        PyTuple_SET_ITEM(given.get(), static_cast<Py_ssize_t>(k), Py_NewRef(args[k]));
    return import_attr("weft.fx.recording", "recorded")
        .call(Object::borrow(self), given, words)
        .release();
}

PyObject* call(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
    if (!has_stack_left()) [[unlikely]] {
        PyErr_SetString(PyExc_RecursionError,
                        "maximum recursion depth exceeded: the thread's stack is used up");
        return nullptr;
    }
    PyCompiled& c = *compiled(self);
    Object callee = Object::borrow(c.callee), kept = Object::borrow(self);
    const auto n = static_cast<size_t>(PyVectorcall_NARGS(count));
    return guarded([&] {
        switch (c.kind) {
            case Callee::Plain: {
                Bits guard(kPlainMode, kCompiledMode);
                return call_itself(callee.get(), self, args, n, names);
            }
            case Callee::Skip:
                return call_itself(callee.get(), self, args, n, names);
            default: {
                if (mode & kTraceMode && c.reach->full_graph && records_calls())
                    return call_recorded(self, args, n, names);
                ReachScope scope(c.reach);
                return call_compiled(callee.get(), self, args, n, names);
            }
        }
    });
}

/// Stretches that were made for a compiled function are its own, as they hold on to Modules, which may hold
/// on to it: they go with it, and the collector finds them by it.
template <class F>
int each_place(const Reach* reach, F&& f) {
    if (!reach) return 0;
    for (const auto& [code, known] : reach->codes)
        if (known->program)
            for (const auto& place : known->program->places)
                if (const int stopped = f(*place)) return stopped;
    return 0;
}
void forget(Reach* reach) {
    each_place(reach, [&](Place& place) {
        place.forget(reach->number);
        return 0;
    });
}
int compiled_traverse(PyObject* self, visitproc visit, void* arg) {
    auto* c = reinterpret_cast<PyCompiled*>(self);
    Py_VISIT(c->callee);
    Py_VISIT(c->dict);
    if (c->reach) Py_VISIT(c->reach->backend.get());
    return each_place(c->reach,
                      [&](Place& place) { return place.traverse(c->reach->number, visit, arg); });
}
int compiled_clear(PyObject* self) {
    auto* c = reinterpret_cast<PyCompiled*>(self);
    Py_CLEAR(c->callee);
    Py_CLEAR(c->dict);
    forget(c->reach);
    return 0;
}
void compiled_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    if (reinterpret_cast<PyCompiled*>(self)->weakrefs) PyObject_ClearWeakRefs(self);
    compiled_clear(self);
    delete compiled(self)->reach;
    Py_TYPE(self)->tp_free(self);  // the type of a subclass is given back by that
}

PyObject* compiled_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    PyObject *callee, *backend = Py_None;
    int full_graph = 0, kind = 0;
    static const char* words[] = {"callee", "fullgraph", "kind", "backend", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|piO", const_cast<char**>(words), &callee,
                                     &full_graph, &kind, &backend))
        return nullptr;
    if (!PyCallable_Check(callee))
        return PyErr_Format(PyExc_TypeError, "[compile] expected a callable, got %.200s",
                            Py_TYPE(callee)->tp_name);
    PyObject* self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    compiled(self)->callee = Py_NewRef(callee);
    compiled(self)->call = call;
    compiled(self)->kind = static_cast<Callee>(std::clamp(kind, 0, 2));
    compiled(self)->reach = new Reach{{}, {}, ++reaches, full_graph != 0};
    if (backend != Py_None) compiled(self)->reach->backend = Object::borrow(backend);
    return self;
}

PyObject* compiled_get(PyObject* self, PyObject* instance, PyObject*) {
    return instance && instance != Py_None ? PyMethod_New(self, instance) : Py_NewRef(self);
}

PyObject* get_callee(PyObject* self, void*) {
    return Py_NewRef(reinterpret_cast<PyCompiled*>(self)->callee);
}
PyGetSetDef compiled_getters[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {"callee", get_callee, nullptr, "What it calls.", nullptr},
    {}};

/// _reached(): of each function that calls came to, in order: its code object, None or the reason why it
/// stays Python's, how often programs called it through Python, and the places of its program.
PyObject* reached(PyObject* self, PyObject*) {
    return guarded([&] {
        const auto& codes = compiled(self)->reach->codes;
        Object out = Object::take(PyList_New(0));
        for (const auto& [code, known] : codes) {
            PyObject* left = known->left ? known->left.get() : Py_None;
            Object places = Object::take(PyList_New(0));
            if (known->program)
                for (const auto& place : known->program->places)
                    checked(PyList_Append(places.get(), place->describe(*known->program).get()));
            Object row = Object::take(Py_BuildValue("(OOKO)", code.get(), left,
                                                    static_cast<unsigned long long>(known->calls),
                                                    places.get()));
            checked(PyList_Append(out.get(), row.get()));
        }
        return out.release();
    });
}
PyMethodDef compiled_methods[] = {{"_reached", reached, METH_NOARGS, nullptr}, {}};

PyTypeObject compiled_type = blank_type();

/// _enable_programs(on): the old setting.
PyObject* enable(PyObject*, PyObject* on) {
    const int wanted = PyObject_IsTrue(on);
    if (wanted < 0) return nullptr;
    return PyBool_FromLong(std::exchange(compile_enabled, wanted != 0));
}

/// _enable_stretches(on): whether programs may run by plan; the old setting.
PyObject* enable_stretches(PyObject*, PyObject* on) {
    const int wanted = PyObject_IsTrue(on);
    if (wanted < 0) return nullptr;
    return PyBool_FromLong(std::exchange(Place::enabled, wanted != 0));
}

/// _speed_up_compiled(cls): lets a subclass be called as fast as `Compiled`; it has no `__call__` of its own.
PyObject* speed_up(PyObject*, PyObject* cls) {
    auto* type = reinterpret_cast<PyTypeObject*>(cls);
    if (PyType_Check(cls) && PyType_IsSubtype(type, &compiled_type))
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    Py_RETURN_NONE;
}

PyMethodDef program_functions[] = {{"_enable_programs", enable, METH_O, nullptr},
                                   {"_enable_stretches", enable_stretches, METH_O, nullptr},
                                   {"_speed_up_compiled", speed_up, METH_O, nullptr},
                                   {}};

[[noreturn]] void refuse(PyObject* function, const Known& known) {
    Object error = import_attr("weft.compiler.errors", "unsupported")
                       .call(Object::borrow(function), known.left);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
    throw PythonError{};
}

}  // namespace

thread_local Reach* reach = nullptr;

Frame* bind_compiled(PyObject* o, PyObject* const* args, size_t n, PyObject* names, Reach*& of,
                     PyObject*& result) {
    PyObject* callee = PyObject_TypeCheck(o, &compiled_type) ? compiled(o)->callee : nullptr;
    const bool may_run = callee && compiled(o)->kind == Callee::Compiled;
    const Target target = may_run ? compiled_target(callee, o) : Target{};
    if (!target.function) {
        result = into_python([&] { return PyObject_Vectorcall(o, args, n, names); });
        return nullptr;
    }
    of = compiled(o)->reach;
    const ReachScope scope(of);
    const Bits guard(kCompiledMode, 0);
    bool handled = false;
    Frame* frame = PythonHost::bind_call(target, args, n, names, handled);
    if (!handled) result = call_itself(callee, o, args, n, names);
    return frame;
}

PyObject* compiled_callee(PyObject* o) {
    if (!PyObject_TypeCheck(o, &compiled_type)) return nullptr;
    const PyCompiled& c = *compiled(o);
    const bool wants_more = c.reach->full_graph && !(reach && reach->full_graph);
    return c.kind != Callee::Compiled || wants_more ? nullptr : c.callee;
}

Program* program_of(PyObject* function) {
    return guarded([&]() -> Program* {
        Known& known = *known_of(function);
        if (reach && known.seen != reach->number) [[unlikely]] {
            known.seen = reach->number;
            if (reach->members.insert(&known).second)
                reach->codes.emplace_back(Object::borrow(PyFunction_GET_CODE(function)), &known);
        }
        Program* const program = known.program.get();
        const bool is_left = program && reach && reach->number <= program->left_by &&
                             program->rests > 0 && !(mode & kTraceMode);
        if (is_left) --program->rests;
        if (program && !is_left) return program;
        known.calls += !(mode & kTraceMode);
        if (is_left) return nullptr;
        if (reach && reach->full_graph && known.left.attr("by_choice").get() != Py_True)
            refuse(function, known);
        return nullptr;
    });
}

void init_program_index();
void init_trace(PyObject* module);
void init_program_text(PyObject* module);
/// In package.cpp.
void init_package(PyObject* module);
/// In files.cpp.
void init_files(PyObject* module);

void init_programs(PyObject* module) {
    init_program_index();
    init_trace(module);
    init_program_text(module);
    init_package(module);
    init_files(module);
    const char* setting = std::getenv("WEFT_COMPILE");
    compile_enabled = !setting || std::string_view(setting) != "0";
    PyTypeObject& t = compiled_type;
    t.tp_dictoffset = offsetof(PyCompiled, dict);
    t.tp_weaklistoffset = offsetof(PyCompiled, weakrefs);
    t.tp_vectorcall_offset = offsetof(PyCompiled, call);
    t.tp_call = PyVectorcall_Call;
    t.tp_descr_get = compiled_get;
    t.tp_new = compiled_new;
    t.tp_dealloc = compiled_dealloc;
    t.tp_traverse = compiled_traverse;
    t.tp_clear = compiled_clear;
    t.tp_getset = compiled_getters;
    t.tp_methods = compiled_methods;
    t.tp_flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
    t.tp_doc = "Calls its callee, by the program of its source where that may run.";
    add_type(module, t, "weft._C._Compiled", sizeof(PyCompiled));
    checked(PyModule_AddFunctions(module, program_functions));
}

}  // namespace weft::python
