/// Reading guide: calls and frames, then exceptions, then runs. What instructions do is in
/// program_instructions.cpp.
#include "python/program_host.h"

#include <algorithm>
#include <ctime>

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

Frame* PythonHost::bind(PyObject* function, const Program* program, PyObject* const* args, size_t n,
                        PyObject* names) {
    const Program& p = *program;
    const auto positional = static_cast<size_t>(p.positional);
    const size_t params = positional + static_cast<size_t>(p.keyword_only);
    if (n > positional && !p.has_args) return nullptr;
    Frame* frame = new_frame(function, program);
    PyObject** regs = frame->registers;
    auto refuse = [&]() -> Frame* {
        free(frame);
        return nullptr;
    };
    for (size_t k = 0; k < std::min(n, positional); ++k) regs[k] = Py_NewRef(args[k]);
    size_t last = params;
    if (p.has_args) {
        const size_t more = n > positional ? n - positional : 0;
        PyObject* rest = tuple_from(args + std::min(n, positional), static_cast<int32_t>(more));
        regs[last++] = rest;
        if (!rest) return refuse();
    }
    PyObject* words = nullptr;
    if (p.has_kwargs && !(words = regs[last] = PyDict_New())) return refuse();
    const Py_ssize_t given = names ? PyTuple_GET_SIZE(names) : 0;
    PyObject* variables = given ? PyCode_GetVarnames(p.of) : nullptr;
    Object kept = Object::steal(variables);
    for (Py_ssize_t k = 0; k < given; ++k) {
        PyObject* name = PyTuple_GET_ITEM(names, k);
        PyObject* value = args[n + static_cast<size_t>(k)];
        size_t at = static_cast<size_t>(p.positional_only);
        while (at < params && PyTuple_GET_ITEM(variables, static_cast<Py_ssize_t>(at)) != name)
            ++at;
        if (at == params) {
            at = static_cast<size_t>(p.positional_only);
            while (at < params &&
                   PyUnicode_Compare(PyTuple_GET_ITEM(variables, static_cast<Py_ssize_t>(at)),
                                     name) != 0)
                ++at;
        }
        if (at < params) {
            if (regs[at]) return refuse();
            regs[at] = Py_NewRef(value);
        } else if (!words || PyDict_SetItem(words, name, value) < 0) {
            return refuse();
        }
    }
    PyObject* defaults = PyFunction_GET_DEFAULTS(function);
    const size_t optional = defaults ? static_cast<size_t>(PyTuple_GET_SIZE(defaults)) : 0;
    for (size_t k = 0; k < positional; ++k) {
        if (regs[k]) continue;
        if (k + optional < positional) return refuse();
        regs[k] = Py_NewRef(
            PyTuple_GET_ITEM(defaults, static_cast<Py_ssize_t>(k + optional - positional)));
    }
    if (p.keyword_only) {
        PyObject* by_name = PyFunction_GET_KW_DEFAULTS(function);
        for (size_t k = positional; k < params; ++k) {
            if (regs[k]) continue;
            if (!kept) kept = Object::steal(PyCode_GetVarnames(p.of));
            PyObject* value =
                by_name ? PyDict_GetItemWithError(
                              by_name, PyTuple_GET_ITEM(kept.get(), static_cast<Py_ssize_t>(k)))
                        : nullptr;
            if (!value) return refuse();
            regs[k] = Py_NewRef(value);
        }
    }
    const int32_t own = p.function.own_cells;
    for (int32_t k = 0; k < own; ++k)
        if (!(frame->cells[k] = PyCell_New(nullptr))) return refuse();
    PyObject* closure = PyFunction_GET_CLOSURE(function);
    for (int32_t k = own; k < p.cells; ++k)
        frame->cells[k] = Py_NewRef(PyTuple_GET_ITEM(closure, k - own));
    return frame;
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
        Object args = Object::steal(
            tuple_from(frame->registers + 1,
                       std::count_if(frame->registers + 1,
                                     frame->registers + std::max(1, frame->program->positional),
                                     [](PyObject* o) { return o != nullptr; })));
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

Frame* PythonHost::call(Frame* frame, const FlatInstr& i, PyObject* const* args,
                        PyObject*& result) {
    PyObject* names = names_of(frame, i);
    PyObject* callee = args[0];
    Object found;
    if (i.verb == Verb::Method) {
        PyObject* method = nullptr;
        const int is_unbound = get_method(args[0], attr_name(frame, i), &method);
        if (!method) {
            fails_at_lookup_ = true;
            return nullptr;
        }
        found = Object::steal(method);
        callee = method;
        if (is_unbound) {
            const size_t words = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
            const size_t n = static_cast<size_t>(i.count) - words;
            if (PyFunction_Check(callee)) {
                Program* program = program_of(callee);
                Frame* inner = program ? bind(callee, program, args, n, names) : nullptr;
                if (inner) {
                    if (start(inner)) return inner;
                    free(inner);
                    return nullptr;
                }
                if (PyErr_Occurred()) return nullptr;
            }
            result = call_python(frame, callee, args, n, names);
            return nullptr;
        }
    }
    Object all, words_tuple;
    std::vector<PyObject*> flat;
    PyObject* const* given = args + 1;
    size_t n = static_cast<size_t>(i.count) - 1;
    if (i.verb == Verb::CallEx) {
        if (!PyTuple_CheckExact(args[1])) {
            if (!is_iterable(args[1])) {
                Object name = called(callee);
                if (name)
                    fail(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s",
                         name.get(), Py_TYPE(args[1])->tp_name);
                return nullptr;
            }
            all = Object::steal(PySequence_Tuple(args[1]));
            if (!all) return nullptr;
        } else {
            all = Object::borrow(args[1]);
        }
        PyObject* words = args[2] == Py_None ? nullptr : args[2];
        const Target target = target_of(callee);
        Program* program = target.function ? program_of(target.function) : nullptr;
        if (!program) {
            if (!PyErr_Occurred()) result = call_python(frame, callee, all.get(), words);
            return nullptr;
        }
        n = static_cast<size_t>(PyTuple_GET_SIZE(all.get()));
        flat.assign(PySequence_Fast_ITEMS(all.get()), PySequence_Fast_ITEMS(all.get()) + n);
        if (words && PyDict_GET_SIZE(words)) {
            words_tuple = Object::steal(spread(words, flat));
            if (!words_tuple) return nullptr;
            bool text = true;
            for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(words_tuple.get()); ++k)
                text &= PyUnicode_Check(PyTuple_GET_ITEM(words_tuple.get(), k)) != 0;
            if (!text) {  // CPython has the words for it
                result = PyObject_Call(callee, all.get(), words);
                return nullptr;
            }
        }
        names = words_tuple.get();
        given = flat.data();
    } else if (names) {
        n -= static_cast<size_t>(PyTuple_GET_SIZE(names));
    }
    const Target target = target_of(callee);
    Program* program = target.function ? program_of(target.function) : nullptr;
    if (!program) {
        if (!PyErr_Occurred()) result = call_python(frame, callee, given, n, names);
        return nullptr;
    }
    Frame* inner = bind(target, program, given, n, names);
    if (!inner) {
        if (!PyErr_Occurred()) result = call_python(frame, callee, given, n, names);
        return nullptr;
    }
    inner->module = Py_XNewRef(target.module);
    if (start(inner)) return inner;
    free(inner);
    return nullptr;
}

/// What CPython's loop does on its way back, and where a function begins: signals and, when their turn comes,
/// other threads.
bool PythonHost::pause(Frame*) {
    if (PyErr_CheckSignals() < 0) return false;
    if (++pauses_ & 7) return true;
    timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    // A thread that waits asks for its turn after 5 ms in which nobody else had one: what lets go
    // more often, and takes the lock again, is never asked.
    const int64_t turn = now.tv_sec * 100 + now.tv_nsec / 10'000'000;
    if (std::exchange(turn_, turn) != turn) {
        PyThreadState* state = PyEval_SaveThread();
        into_python([&] { PyEval_RestoreThread(state); });
    }
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
        number = one.parent;
        at = one.offset;
    }
    add_entry(reinterpret_cast<PyObject*>(p.of), std::max(at, 0), *frame);
}

// ---- runs

bool programs_run() {
    constexpr uint32_t kOthers = kAutocastMode | kMapMode | kWatchMode | kTraceMode | kPlainMode;
    if (mode & kOthers) return false;
    PyThreadState* state = PyThreadState_Get();
    return !state->c_tracefunc && !state->c_profilefunc;
}

PyObject* run_program(const Target& target, PyObject* const* args, size_t n, PyObject* names,
                      bool& handled) {
    handled = false;
    Program* program = program_of(target.function);
    if (!program) return nullptr;
    Frame* frame = PythonHost::bind(target, program, args, n, names);
    if (!frame) {
        handled = PyErr_Occurred();
        return nullptr;
    }
    handled = true;
    frame->module = Py_XNewRef(target.module);
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
