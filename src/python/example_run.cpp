/// Examples that run without a stack of their own (Note [Examples without fibers]).
#include "python/example_run.h"

#include <optional>

#include "deferred/pending.h"
#include "python/program_host.h"
#include "python/program_instructions.h"
#include "python/type.h"

namespace weft::python {

using namespace instruction;
using program::Verb;

namespace {

/// Whether to read the value would suspend the example.
bool is_awaited(PyObject* o) {
    if (!is_tensor(o)) return false;
    const Tensor t = handle(o);
    if (!t.has(kPending) || promise(t).taken_in() != kDeferMode) return false;
    const Tensor& root = deferred::root_of(t);
    return root.has(kPending) && deferred::pending(root).waits() && may_wait();
}

bool is_number_type(PyObject* o) {
    const PyTypeObject* types[] = {&PyBool_Type, &PyLong_Type, &PyFloat_Type, &PyComplex_Type};
    for (const PyTypeObject* type : types)
        if (o == reinterpret_cast<const PyObject*>(type)) return true;
    return false;
}

bool reads_its_tensor(PyObject* name) {
    return PyUnicode_CompareWithASCIIString(name, "item") == 0 ||
           PyUnicode_CompareWithASCIIString(name, "tolist") == 0;
}

/// As if so many calls had returned.
void add_to_depth(int calls) {
    PyThreadState* thread = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030C0000
    thread->py_recursion_remaining += calls;
#else
    thread->recursion_remaining += calls;
#endif
}

}  // namespace

bool PythonHost::reads_what_waits(const Frame* frame, const program::FlatInstr& i,
                                  PyObject* const* args) {
    switch (i.verb) {
        case Verb::JumpIfFalse:
            return is_awaited(args[0]);
        case Verb::Unary:
            return program::kUnary[static_cast<size_t>(i.sub)] == "not" && is_awaited(args[0]);
        case Verb::Method:
            return i.count == 1 && is_awaited(args[0]) && reads_its_tensor(attr_name(frame, i));
        case Verb::Call:
            return i.count == 2 && i.names < 0 && is_number_type(args[0]) && is_awaited(args[1]);
        case Verb::Get:
            return (PyList_CheckExact(args[0]) || PyTuple_CheckExact(args[0])) &&
                   is_awaited(args[1]);
        default:
            return false;
    }
}

namespace {

/// While it lives, context variables are those of a contextvars.Context.
class Variables {
public:
    explicit Variables(PyObject* context) : context_(context) {
        if (PyContext_Enter(context) < 0) throw PythonError{};
    }
    ~Variables() {
        const SetAside error;
        if (PyContext_Exit(context_) < 0) PyErr_Clear();
    }
    Variables(const Variables&) = delete;

private:
    PyObject* const context_;
};

/// An example's call of a compiled function.
class ExampleRun {
public:
    ExampleRun(PyObject* compiled, Reach* of, Frame* base, Object variables)
        : compiled_(Object::borrow(compiled)), of_(of), base_(base),
          variables_(std::move(variables)) {}
    ~ExampleRun() {
        for (Frame* frame = at_; frame && frame != base_;)
            PythonHost::free(std::exchange(frame, static_cast<Frame*>(frame->caller)));
        if (base_) PythonHost::free(base_);
    }
    ExampleRun(const ExampleRun&) = delete;

    /// The result, new; or null with an error raised; or null where it `is_waiting`.
    PyObject* begin() {
        here_ = {nullptr, python_frame(), running};
        running = &here_;
        reach = of_;
        mode |= kCompiledMode;
        if (!host_.start(base_)) {
            running = here_.outer;
            return nullptr;
        }
        at_ = base_;
        return run(true, false);
    }
    /// The same of one that waits, or with the error `failure` there. Without `stops`, values that wait are
    /// computed at once from here on.
    PyObject* go_on(PyObject* failure, bool stops) {
        Running* const outer = running;
        const Variables own(variables_.get());
        state_->restore();
        state_.reset();
        here_.within = python_frame();
        here_.outer = outer;
        add_to_depth(-std::exchange(depth_, 0));
        if (handled_) PyErr_SetHandledException(std::exchange(handled_, Object()).get());
        if (failure != Py_None) set_raised(failure);
        return run(stops, failure != Py_None);
    }
    bool is_waiting() const { return state_.has_value(); }

private:
    PyObject* run(bool stops, bool fails) {
        host_.stops = stops;
        program::Machine<PythonHost> machine(host_);
        PyObject* result = machine.go_on(base_, at_, fails);
        if (at_) {
            stop();
            return nullptr;
        }
        running = here_.outer;
        PythonHost::free(std::exchange(base_, nullptr));
        return result;
    }
    void stop() {
        deferred::Batcher& batcher = deferred::Batcher::current();
        if (batcher.reporting) deferred::add_site(batcher.reporting.readers, Site::here());
        ++batcher.tally.waits;
        handled_ = Object::steal(PyErr_GetHandledException());
        if (handled_.get() == Py_None) handled_ = Object();
        if (handled_) PyErr_SetHandledException(Py_None);
        for (Frame* frame = at_; frame; frame = static_cast<Frame*>(frame->caller)) ++depth_;
        add_to_depth(depth_);
        state_.emplace();
        between_examples();
    }

    const Object compiled_;  ///< has `of_`
    Reach* const of_;
    Frame* base_;
    const Object variables_;  ///< its contextvars.Context
    Frame* at_ = nullptr;     ///< where it waits
    Running here_{};
    PythonHost host_;
    std::optional<ExampleState> state_;  ///< while it waits
    Object handled_;
    int depth_ = 0;
};

struct PyWaiting {
    PyObject_HEAD ExampleRun* run;
};
PyTypeObject waiting_type = blank_type();
PyWaiting* waiting(PyObject* o) { return reinterpret_cast<PyWaiting*>(o); }

void waiting_dealloc(PyObject* self) {
    delete waiting(self)->run;
    PyObject_Free(self);
}

/// _run_example(fn, args, kwargs, context): fn(*args, **kwargs) in a copy of the context; or, where that stops
/// without a stack, a `_Waiting`.
PyObject* run_example(PyObject*, PyObject* const* given, Py_ssize_t count) {
    return guarded([&]() -> PyObject* {
        WEFT_EXPECT(count == 4, Type, "_run_example", "four arguments", std::to_string(count));
        PyObject *const fn = given[0], *const words = given[2];
        std::vector<PyObject*> args(PySequence_Fast_ITEMS(given[1]),
                                    PySequence_Fast_ITEMS(given[1]) + PyTuple_GET_SIZE(given[1]));
        const size_t n = args.size();
        const Object names = Object::take(spread(words, args));
        Object variables = Object::take(PyContext_Copy(given[3]));
        const Variables own(variables.get());
        Reach* of = nullptr;
        PyObject* result = nullptr;
        Frame* frame = bind_compiled(fn, args.data(), n, names.get(), of, result);
        if (!frame) return result;
        auto run = std::make_unique<ExampleRun>(fn, of, frame, std::move(variables));
        result = run->begin();
        if (!run->is_waiting()) return result;
        PyWaiting* made = PyObject_New(PyWaiting, &waiting_type);
        if (made) made->run = run.release();
        return reinterpret_cast<PyObject*>(made);
    });
}

/// Names of what examples, fibers and schedules have (weft/batching).
struct Names {
    PyObject *served = PyUnicode_InternFromString("served"),
             *waiting = PyUnicode_InternFromString("waiting"),
             *rest = PyUnicode_InternFromString("rest"),
             *failure = PyUnicode_InternFromString("failure"),
             *fiber = PyUnicode_InternFromString("fiber"),
             *example = PyUnicode_InternFromString("example");
};

Object get(PyObject* o, PyObject* name) { return Object::take(PyObject_GetAttr(o, name)); }
void set(PyObject* o, PyObject* name, PyObject* value) {
    if (PyObject_SetAttr(o, name, value) < 0) throw PythonError{};
}

/// _resume_examples(fiber, schedule): the examples that are next and wait in no fiber go on, and those that stop
/// again wait again. Until one, then `fiber.example`, comes to its end: (its result,), or its exception. None: no
/// such example is next.
PyObject* resume_examples(PyObject*, PyObject* const* given, Py_ssize_t count) {
    static const Names* names = new Names;
    return guarded([&]() -> PyObject* {
        WEFT_EXPECT(count == 2, Type, "_resume_examples", "two arguments", std::to_string(count));
        PyObject *const fiber = given[0], *const schedule = given[1];
        for (;;) {
            const Object served = get(schedule, names->served);
            const Py_ssize_t left = PyList_GET_SIZE(served.get());
            if (!left) return Py_NewRef(Py_None);
            const Object example = Object::borrow(PyList_GET_ITEM(served.get(), left - 1));
            const Object rest = get(example.get(), names->rest);
            if (Py_TYPE(rest.get()) != &waiting_type) return Py_NewRef(Py_None);
            const Object failure = get(example.get(), names->failure);
            if (PyList_SetSlice(served.get(), left - 1, left, nullptr) < 0) throw PythonError{};
            set(fiber, names->example, example.get());
            set(example.get(), names->fiber, fiber);
            set(example.get(), names->rest, Py_None);
            set(example.get(), names->failure, Py_None);
            ExampleRun& run = *waiting(rest.get())->run;
            PyObject* result = run.go_on(failure.get(), true);
            if (!run.is_waiting()) return result ? Py_BuildValue("(N)", result) : nullptr;
            set(example.get(), names->rest, rest.get());
            set(example.get(), names->fiber, Py_None);
            // another list, if others have gone on meanwhile
            if (PyList_Append(get(schedule, names->waiting).get(), example.get()) < 0)
                throw PythonError{};
        }
    });
}

/// _end_example(waiting, error): raises the error where it waits; what it reads then is computed at once.
PyObject* end_example(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *self, *error;
        if (!PyArg_ParseTuple(args, "O!O", &waiting_type, &self, &error)) return nullptr;
        ExampleRun& run = *waiting(self)->run;
        WEFT_EXPECT(run.is_waiting(), Runtime, "_end_example", "one that waits", "another");
        return run.go_on(error, false);
    });
}

PyMethodDef example_run_functions[] = {
    {"_run_example", c_function(run_example), METH_FASTCALL, nullptr},
    {"_resume_examples", c_function(resume_examples), METH_FASTCALL, nullptr},
    {"_end_example", end_example, METH_VARARGS, nullptr},
    {}};

}  // namespace

void init_example_runs(PyObject* module) {
    PyTypeObject& t = waiting_type;
    t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    t.tp_dealloc = waiting_dealloc;
    t.tp_doc = "An example that waits for a value, in no fiber.";
    add_type(module, t, "weft._C._Waiting", sizeof(PyWaiting));
    checked(PyModule_AddFunctions(module, example_run_functions));
}

}  // namespace weft::python
