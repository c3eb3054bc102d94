/// Reading guide: calls and frames, then exceptions, then runs. What instructions do is in
/// program_instructions.cpp.
#include "python/program_host.h"

#include <algorithm>

#include "deferred/turn.h"
#include "python/hooks.h"
#include "python/program_frames.h"
#include "python/program_instructions.h"

namespace weft::python {

using program::FlatInstr;
using program::Verb;
using namespace instruction;

thread_local Running* running = nullptr;

// ---- calls

Target target_of(PyObject* callee) {
    if (PyFunction_Check(callee)) return {callee, nullptr, nullptr};
    if (PyMethod_Check(callee)) {
        PyObject* function = PyMethod_GET_FUNCTION(callee);
        if (PyObject* inner = compiled_callee(function)) function = inner;
        if (PyFunction_Check(function)) return {function, PyMethod_GET_SELF(callee), nullptr};
        return {};
    }
    bool in_place = false;
    if (PyObject* forward = plain_forward_of(callee, &in_place))
        return {forward, callee, callee, in_place};
    if (PyObject* inner = compiled_callee(callee)) return target_of(inner);
    return {};
}

namespace {

#if PY_VERSION_HEX < 0x030c0000
bool enter_recursion() { return !Py_EnterRecursiveCall(""); }
void leave_recursion() { Py_LeaveRecursiveCall(); }
#else
/// Py_EnterRecursiveCall counts calls of C there; a program's are Python's.
bool enter_recursion() {
    PyThreadState* state = PyThreadState_Get();
    if (--state->py_recursion_remaining >= 0) return true;
    ++state->py_recursion_remaining;
    ++state->recursion_headroom;
    PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
    --state->recursion_headroom;
    return false;
}
void leave_recursion() { ++PyThreadState_Get()->py_recursion_remaining; }
#endif

}  // namespace

Frame* PythonHost::new_frame(PyObject* function, const Program* program) {
    const int32_t size = program->code.registers + program->cells;
    const size_t bytes = sizeof(Frame) + static_cast<size_t>(size) * sizeof(PyObject*);
    auto* frame = new (Pool::allocate(bytes)) Frame;
    frame->registers = reinterpret_cast<PyObject**>(frame + 1);
    frame->size = size;
    frame->cells = frame->registers + program->code.registers;
    std::fill_n(frame->registers, size, nullptr);
    frame->code = &program->code;
    frame->program = program;
    frame->function = Py_NewRef(function);
    frame->module = nullptr;
    frame->gained = 0;
    frame->globals = PyFunction_GET_GLOBALS(function);
    frame->builtins = reinterpret_cast<PyFunctionObject*>(function)->func_builtins;
    return frame;
}

Frame* PythonHost::bind(const Target& target, const Program* program, PyObject* const* args,
                        size_t n, PyObject* names) {
    if (!target.self) return bind(target.function, program, args, n, names);
    const size_t words = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
    SmallVector<PyObject*, 12> with_self;
    with_self.push_back(target.self);
    for (size_t k = 0; k < n + words; ++k) with_self.push_back(args[k]);
    return bind(target.function, program, with_self.data(), n + 1, names);
}

PyObject* spread(PyObject* words, std::vector<PyObject*>& args) {
    PyObject* names = PyTuple_New(PyDict_GET_SIZE(words));
    Py_ssize_t at = 0, k = 0;
    PyObject *key, *value;
    while (names && PyDict_Next(words, &at, &key, &value)) {
        PyTuple_SET_ITEM(names, k++, Py_NewRef(key));
        args.push_back(value);
    }
    return names;
}

namespace {

// What fills a frame's registers and cells; false: the arguments do not fit, or an error is set.

size_t parameters_of(const Program& p) {
    return static_cast<size_t>(p.positional) + static_cast<size_t>(p.keyword_only);
}

bool take_places(Frame* frame, PyObject* const* args, size_t n) {
    const Program& p = *frame->program;
    const size_t placed = std::min(n, static_cast<size_t>(p.positional));
    for (size_t k = 0; k < placed; ++k) frame->registers[k] = Py_NewRef(args[k]);
    if (!p.has_args) return true;
    PyObject* rest = tuple_from(args + placed, static_cast<int32_t>(n - placed));
    return (frame->registers[parameters_of(p)] = rest) != nullptr;
}

/// The parameter of a name, past all of them if there is none. Names are mostly one object.
size_t parameter_named(const Program& p, PyObject* variables, PyObject* name) {
    const auto first = static_cast<size_t>(p.positional_only);
    const size_t params = parameters_of(p);
    auto variable = [&](size_t k) {
        return PyTuple_GET_ITEM(variables, static_cast<Py_ssize_t>(k));
    };
    for (size_t k = first; k < params; ++k)
        if (variable(k) == name) return k;
    for (size_t k = first; k < params; ++k)
        if (PyUnicode_Compare(variable(k), name) == 0) return k;
    return params;
}

bool take_words(Frame* frame, PyObject* const* values, PyObject* names) {
    const Program& p = *frame->program;
    PyObject** regs = frame->registers;
    const size_t params = parameters_of(p);
    PyObject* words = nullptr;
    if (p.has_kwargs && !(words = regs[params + (p.has_args ? 1 : 0)] = PyDict_New())) return false;
    const Py_ssize_t given = names ? PyTuple_GET_SIZE(names) : 0;
    if (!given) return true;
    const Object variables = Object::steal(PyCode_GetVarnames(p.of));
    for (Py_ssize_t k = 0; k < given; ++k) {
        PyObject* name = PyTuple_GET_ITEM(names, k);
        const size_t at = parameter_named(p, variables.get(), name);
        if (at < params) {
            if (regs[at]) return false;
            regs[at] = Py_NewRef(values[k]);
        } else if (!words || PyDict_SetItem(words, name, values[k]) < 0) {
            return false;
        }
    }
    return true;
}

bool take_defaults(Frame* frame) {
    const Program& p = *frame->program;
    PyObject** regs = frame->registers;
    const auto positional = static_cast<size_t>(p.positional);
    PyObject* defaults = PyFunction_GET_DEFAULTS(frame->function);
    const size_t optional = defaults ? static_cast<size_t>(PyTuple_GET_SIZE(defaults)) : 0;
    for (size_t k = 0; k < positional; ++k) {
        if (regs[k]) continue;
        if (k + optional < positional) return false;
        regs[k] = Py_NewRef(
            PyTuple_GET_ITEM(defaults, static_cast<Py_ssize_t>(k + optional - positional)));
    }
    if (!p.keyword_only) return true;
    PyObject* by_name = PyFunction_GET_KW_DEFAULTS(frame->function);
    Object variables;
    for (size_t k = positional; k < parameters_of(p); ++k) {
        if (regs[k]) continue;
        if (!by_name) return false;
        if (!variables) variables = Object::steal(PyCode_GetVarnames(p.of));
        PyObject* name = PyTuple_GET_ITEM(variables.get(), static_cast<Py_ssize_t>(k));
        PyObject* value = PyDict_GetItemWithError(by_name, name);
        if (!value) return false;
        regs[k] = Py_NewRef(value);
    }
    return true;
}

bool take_cells(Frame* frame) {
    const Program& p = *frame->program;
    const int32_t own = p.function.own_cells;
    for (int32_t k = 0; k < own; ++k)
        if (!(frame->cells[k] = PyCell_New(nullptr))) return false;
    PyObject* closure = PyFunction_GET_CLOSURE(frame->function);
    for (int32_t k = own; k < p.cells; ++k)
        frame->cells[k] = Py_NewRef(PyTuple_GET_ITEM(closure, k - own));
    return true;
}

}  // namespace

Frame* PythonHost::bind(PyObject* function, const Program* program, PyObject* const* args, size_t n,
                        PyObject* names) {
    if (n > static_cast<size_t>(program->positional) && !program->has_args) return nullptr;
    Frame* frame = new_frame(function, program);
    if (take_places(frame, args, n) && take_words(frame, args + n, names) && take_defaults(frame) &&
        take_cells(frame))
        return frame;
    free(frame);
    return nullptr;
}

void PythonHost::free(Frame* frame) {
    for (int32_t k = 0; k < frame->size; ++k) Py_XDECREF(frame->registers[k]);
    Py_XDECREF(frame->module);
    Py_DECREF(frame->function);
    Pool::free(frame, sizeof(Frame) + static_cast<size_t>(frame->size) * sizeof(PyObject*));
}

bool PythonHost::start(Frame* frame) {
    if (!pause(frame) || !enter_recursion()) return false;
    frame->caller = running->frame;
    running->frame = frame;
    return true;
}

namespace {

/// Note [Gains]
void note_gain(const Frame* frame) {
    Program& p = *const_cast<Program*>(frame->program);
    p.idle = frame->gained > 0 ? 0 : p.idle + 1;
    if (p.idle < Program::kMostIdle || !reach || mode & kDeferMode) return;
    if (reach->number > p.left_by) p.rest = Program::kFirstRest;
    p.left_by = reach->number;
    p.idle = 0;
    p.rests = p.rest;
    p.rest = std::min(p.rest * 2, Program::kLongestRest);
}

}  // namespace

void PythonHost::leave(Frame* frame, PyObject*& result) {
    leave_recursion();
    note_gain(frame);
    Frame* const outer = frame->caller    ? static_cast<Frame*>(frame->caller)
                         : running->outer ? running->outer->frame
                                          : nullptr;
    if (outer) outer->gained += std::max<int64_t>(frame->gained, 0);
    running->frame = static_cast<Frame*>(frame->caller);
    if (!result && frame->module) {
        PyObject** const first = frame->registers + 1;
        PyObject** const end = frame->registers + std::max(1, frame->program->positional);
        const auto still_bound = std::find(first, end, nullptr) - first;  // `del` of the rest
        Object args = Object::steal(tuple_from(first, static_cast<int32_t>(still_bound)));
        if (args) module_failed(frame->module, args.get());
    }
}

namespace {

#if PY_VERSION_HEX < 0x030d0000
constexpr auto get_method = _PyObject_GetMethod;
#else
int get_method(PyObject* o, PyObject* name, PyObject** method) {
    *method = PyObject_GetAttr(o, name);
    return 0;
}
#endif

template <class F>
PyObject* call_seen(Frame* frame, PyObject* callee, F&& call) {
    if (!looks_at_frames(callee)) return into_python(call);
    const deferred::Stay until_then;  // no other fiber runs amid frames that are not its own
    const VisibleFrames seen(frame);
    return into_python(call);
}
PyObject* call_python(Frame* frame, PyObject* callee, PyObject* const* args, size_t n,
                      PyObject* names) {
    return call_seen(frame, callee, [&] { return PyObject_Vectorcall(callee, args, n, names); });
}
PyObject* call_python(Frame* frame, PyObject* callee, PyObject* all, PyObject* words) {
    return call_seen(frame, callee, [&] { return PyObject_Call(callee, all, words); });
}

}  // namespace

/// The frame of `target`'s program, started; else Python calls `callee`.
Frame* PythonHost::call_target(Frame* frame, PyObject* callee, const Target& target,
                               const Program* program, PyObject* const* args, size_t n,
                               PyObject* names, PyObject*& result) {
    Frame* inner = program ? bind(target, program, args, n, names) : nullptr;
    if (!inner) {
        if (!PyErr_Occurred()) result = call_python(frame, callee, args, n, names);
        return nullptr;
    }
    inner->module = Py_XNewRef(target.module);
    if (start(inner)) return inner;
    free(inner);
    return nullptr;
}

Frame* PythonHost::call(Frame* frame, const FlatInstr& i, PyObject* const* args,
                        PyObject*& result) {
    if (i.verb == Verb::CallEx) return call_spread(frame, args, result);
    if (i.verb == Verb::Method) return call_method(frame, i, args, result);
    PyObject* names = names_of(frame, i);
    const Target target = target_of(args[0]);
    const Program* program = target.function ? program_of(target.function) : nullptr;
    const auto words = static_cast<size_t>(names ? PyTuple_GET_SIZE(names) : 0);
    return call_target(frame, args[0], target, program, args + 1,
                       static_cast<size_t>(i.count) - 1 - words, names, result);
}

/// A method of args[0].
Frame* PythonHost::call_method(Frame* frame, const FlatInstr& i, PyObject* const* args,
                               PyObject*& result) {
    PyObject* method = nullptr;
    const int is_unbound = get_method(args[0], attr_name(frame, i), &method);
    if (!method) {
        fails_at_lookup_ = true;
        return nullptr;
    }
    const Object kept = Object::steal(method);
    PyObject* names = names_of(frame, i);
    const auto words = static_cast<size_t>(names ? PyTuple_GET_SIZE(names) : 0);
    const size_t n = static_cast<size_t>(i.count) - words;
    Target target;
    if (!is_unbound) target = target_of(method);
    else if (PyFunction_Check(method)) target.function = method;
    const Program* program = target.function ? program_of(target.function) : nullptr;
    if (is_unbound) return call_target(frame, method, target, program, args, n, names, result);
    return call_target(frame, method, target, program, args + 1, n - 1, names, result);
}

namespace {

/// What stands behind a * in a call, as a tuple; empty with an error set.
Object spread_of(PyObject* callee, PyObject* items) {
    if (PyTuple_CheckExact(items)) return Object::borrow(items);
    if (is_iterable(items)) return Object::steal(PySequence_Tuple(items));
    if (const Object name = called(callee))
        fail(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s", name.get(),
             Py_TYPE(items)->tp_name);
    return {};
}

bool are_texts(PyObject* names) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); ++k)
        if (!PyUnicode_Check(PyTuple_GET_ITEM(names, k))) return false;
    return true;
}

}  // namespace

/// args[0](*args[1], **args[2])
Frame* PythonHost::call_spread(Frame* frame, PyObject* const* args, PyObject*& result) {
    PyObject* callee = args[0];
    const Object all = spread_of(callee, args[1]);
    if (!all) return nullptr;
    PyObject* words = args[2] == Py_None ? nullptr : args[2];
    const Target target = target_of(callee);
    const Program* program = target.function ? program_of(target.function) : nullptr;
    if (!program) {
        if (!PyErr_Occurred()) result = call_python(frame, callee, all.get(), words);
        return nullptr;
    }
    const auto n = static_cast<size_t>(PyTuple_GET_SIZE(all.get()));
    PyObject** items = PySequence_Fast_ITEMS(all.get());
    std::vector<PyObject*> flat(items, items + n);
    Object names;
    if (words && PyDict_GET_SIZE(words)) {
        names = Object::steal(spread(words, flat));
        if (!names) return nullptr;
        if (!are_texts(names.get())) {  // CPython has the words for it
            result = PyObject_Call(callee, all.get(), words);
            return nullptr;
        }
    }
    return call_target(frame, callee, target, program, flat.data(), n, names.get(), result);
}

/// What CPython's loop does on its way back, and where a function begins: signals and, when their turn comes,
/// other threads.
bool PythonHost::pause(Frame*) {
    if (PyErr_CheckSignals() < 0) return false;
    if (++pauses_ & 7) return true;
    turns_.offer();
    return true;
}

// ---- exceptions

void PythonHost::catch_error(PyObject*& error, PyObject*& before) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyException_SetTraceback(value, trace ? trace : Py_None);
    before = PyErr_GetHandledException();
    if (!before) before = Py_NewRef(Py_None);
    PyErr_SetHandledException(value);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    error = value;
}

void PythonHost::handle(PyObject* error) { PyErr_SetHandledException(error); }

void PythonHost::raise(PyObject* error) { set_raised(error); }

void PythonHost::unbound(Frame* frame, int32_t r) {
    Object name = py_str(frame->program->function.registers[static_cast<size_t>(r)]);
    const bool outer = frame->code->instrs[static_cast<size_t>(frame->pc)].verb == Verb::Outer;
    name_error(outer ? PyExc_NameError : PyExc_UnboundLocalError,
               outer ? kUnboundFree : kUnboundLocal, name.get());
}

namespace {

/// One more entry before those of the exception that is set.
void add_entry(PyObject* code, int32_t offset, const Frame& of) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    Object frame = frame_of(reinterpret_cast<PyCodeObject*>(code), offset, of);
    PyObject* entry = nullptr;
    if (frame) {
        const int line = PyCode_Addr2Line(reinterpret_cast<PyCodeObject*>(code), offset);
        entry = PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyTraceBack_Type), "OOii",
                                      trace ? trace : Py_None, frame.get(), offset, line);
    }
    if (entry) Py_XSETREF(trace, entry);
    else PyErr_Clear();
    PyErr_Restore(type, value, trace);
}

/// What becomes of a StopIteration that would leave the frame of a generator.
void leave_generator(PyObject* code) {
    if (!(reinterpret_cast<PyCodeObject*>(code)->co_flags & CO_GENERATOR) ||
        !PyErr_ExceptionMatches(PyExc_StopIteration))
        return;
    Object cause = take_exception();
    PyErr_SetString(PyExc_RuntimeError, "generator raised StopIteration");
    Object error = take_exception();
    PyException_SetCause(error.get(), Py_NewRef(cause.get()));
    PyException_SetContext(error.get(), cause.release());
    PyObject* type = Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(error.get())));
    PyErr_Restore(type, error.release(), nullptr);
}

}  // namespace

void PythonHost::note(Frame* frame, int32_t pc) {
    const Program& p = *frame->program;
    const FlatInstr& i = p.code.instrs[static_cast<size_t>(pc)];
    if (i.verb == Verb::Reraise) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        Object handled = Object::steal(PyErr_GetHandledException());
        const bool again = value == handled.get();
        PyErr_Restore(type, value, trace);
        if (again) return;
    }
    int32_t at = std::exchange(fails_at_lookup_, false) ? i.target : i.offset;
    int32_t number = at >= 0 ? at >> kInlinedShift : 0;
    while (number) {
        const Program::Inlined& one = p.inlined[static_cast<size_t>(number) - 1];
        add_entry(one.code.get(), at & ((1 << kInlinedShift) - 1), *frame);
        leave_generator(one.code.get());
        number = one.parent;
        at = one.offset;
    }
    add_entry(reinterpret_cast<PyObject*>(p.of), std::max(at, 0), *frame);
}

// ---- runs

bool programs_run() {
    constexpr uint32_t kOthers = kAutocastMode | kMapMode | kWatchMode | kTraceMode | kPlainMode |
                                 kFunctionMode | kMetaMode | kDispatchMode;
    if (mode & kOthers) return false;
    PyThreadState* state = PyThreadState_Get();
    return !state->c_tracefunc && !state->c_profilefunc;
}

Frame* PythonHost::bind_call(const Target& target, PyObject* const* args, size_t n, PyObject* names,
                             bool& handled) {
    Program* program = program_of(target.function);
    Frame* frame = program ? bind(target, program, args, n, names) : nullptr;
    handled = frame || PyErr_Occurred();
    if (frame) frame->module = Py_XNewRef(target.module);
    return frame;
}

PyObject* call_past_programs(const Frame* frame) {
    const Program& p = *frame->program;
    PyObject** regs = frame->registers;
    std::vector<PyObject*> args(regs, regs + p.positional);
    const auto words = static_cast<size_t>(p.keyword_only);
    PyObject** const only = regs + p.positional;
    if (p.has_args) {
        PyObject* rest = only[words];
        args.insert(args.end(), PySequence_Fast_ITEMS(rest),
                    PySequence_Fast_ITEMS(rest) + PyTuple_GET_SIZE(rest));
    }
    const size_t n = args.size();
    Object named;
    if (p.has_kwargs) named = Object::steal(PyDict_Copy(only[words + p.has_args]));
    else if (words) named = Object::steal(PyDict_New());
    if (words) {
        const Object variables = Object::steal(PyCode_GetVarnames(p.of));
        for (size_t k = 0; named && k < words; ++k) {
            PyObject* name = PyTuple_GET_ITEM(variables.get(), p.positional + static_cast<int>(k));
            if (PyDict_SetItem(named.get(), name, only[k]) < 0) return nullptr;
        }
    }
    Object names;
    if (named && PyDict_GET_SIZE(named.get())) names = Object::steal(spread(named.get(), args));
    const ModeGuard plain(0, kCompiledMode);
    return into_python(
        [&] { return PyObject_Vectorcall(frame->function, args.data(), n, names.get()); });
}

PyObject* run_program(const Target& target, PyObject* const* args, size_t n, PyObject* names,
                      bool& handled) {
    Frame* frame = PythonHost::bind_call(target, args, n, names, handled);
    if (!frame) return nullptr;
    // on the heap, as all does that is read from fibers: the caller's stack may be away meanwhile
    const std::unique_ptr<Running> here(new Running{nullptr, python_frame(), running});
    struct Restore {
        Running* outer;
        ~Restore() { running = outer; }
    } restore{running};
    running = here.get();
    PythonHost host;
    PyObject* result = nullptr;
    if (host.start(frame)) {
        program::Machine<PythonHost> machine(host);
        result = machine.run(frame);
    }
    PythonHost::free(frame);
    return result;
}

}  // namespace weft::python
