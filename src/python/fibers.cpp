/// Fibers (weft/batching/fibers.py) as deferred execution sees them: one that reads a value waits.
///
/// Through greenlet's C API: a switch through its Python methods costs twice as much.
#include "python/example_run.h"

#include <greenlet.h>  // wants Python.h before it

#include "autograd/engine.h"
#include "autograd/saved.h"
#include "ops/pointwise.h"
#include "ops/random.h"

namespace weft::python {
namespace {

PyObject* fiber_type;
PyObject* turn_function;

/// What a fiber must find as it left it when it runs again.
class FiberState {
public:
    FiberState() = default;
    ~FiberState() { state_.restore(); }
    FiberState(const FiberState&) = delete;

private:
    const ExampleState state_;
};

/// asyncio keeps its running loop by thread: a fiber takes one that it started itself along.
class RunningLoop {
public:
    explicit RunningLoop(const Object& fiber) {
        static PyObject* name = PyUnicode_InternFromString("asyncio.events");
        events_ = Object::borrow(PyDict_GetItemWithError(PyImport_GetModuleDict(), name));
        if (!events_) return;
        loop_ = Object::take(PyObject_CallMethod(events_.get(), "_get_running_loop", nullptr));
        Object callers = fiber.attr("loop");
        if (loop_.get() == callers.get()) events_ = Object();
        else set(callers.get());
    }
    ~RunningLoop() {
        if (!events_) return;
        SetAside error;
        set(loop_.get());
    }
    RunningLoop(const RunningLoop&) = delete;

private:
    void set(PyObject* loop) {
        Object::steal(PyObject_CallMethod(events_.get(), "_set_running_loop", "O", loop));
    }
    Object events_, loop_;
};

PyGreenlet* greenlet(const Object& o) { return reinterpret_cast<PyGreenlet*>(o.get()); }
Object take(PyGreenlet* g) { return Object::take(reinterpret_cast<PyObject*>(g)); }

/// How deep the thread is in calls (ExampleBatch::callers_depth). greenlet counts for each fiber: one
/// that begins has its maker's depth, which an idle one would keep for whoever takes it next.
std::array<int, 2> depth() {
    const PyThreadState* thread = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030E0000
    return {thread->py_recursion_limit - thread->py_recursion_remaining, 0};
#elif PY_VERSION_HEX >= 0x030C0000
    return {thread->py_recursion_limit - thread->py_recursion_remaining,
            thread->c_recursion_remaining};
#else
    return {thread->recursion_limit - thread->recursion_remaining, 0};
#endif
}

/// _take_depth(): the calling fiber is as deep in calls as who runs the batch.
PyObject* take_depth(PyObject*, PyObject*) {
    const std::array<int, 2> callers = deferred::Batcher::current().batch->callers_depth;
    PyThreadState* thread = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030C0000
    thread->py_recursion_remaining = thread->py_recursion_limit - callers[0];
#if PY_VERSION_HEX < 0x030E0000
    thread->c_recursion_remaining = callers[1];
#endif
#else
    thread->recursion_remaining = thread->recursion_limit - callers[0];
#endif
    Py_RETURN_NONE;
}

void restore_callers_programs(const deferred::ExampleBatch& batch) {
    Programs{static_cast<Running*>(batch.callers_programs[0]),
             static_cast<Reach*>(batch.callers_programs[1])}
        .restore();
}

bool wait() {
    if (!may_wait()) return false;
    Object fiber = take(PyGreenlet_GetCurrent());
    if (reinterpret_cast<PyObject*>(Py_TYPE(fiber.get())) != fiber_type) return false;
    FiberState state;
    RunningLoop loop(fiber);
    Object parent = take(PyGreenlet_GET_PARENT(greenlet(fiber)));
    between_examples();
    Object::take(PyGreenlet_Switch(greenlet(parent), nullptr, nullptr));
    return true;
}

bool turn(int levels, bool draws) {
    FiberState state;
    Object answer = Object::borrow(turn_function)
                        .call(py_int(levels), Object::borrow(draws ? Py_True : Py_False));
    return answer.get() == Py_True;
}

/// _wait(): suspends the example that runs until all that waits was computed; between examples, the
/// one that runs the batch. False where there is none.
PyObject* py_wait(PyObject*, PyObject*) {
    return guarded([] {
        FiberState state;
        deferred::Batcher& batcher = deferred::Batcher::current();
        if (batcher.batch && !batcher.example()) {
            memory_maker = batcher.batch->caller();
            batcher.batch = Ref<deferred::ExampleBatch>(batcher.batch->outer);
        }
        return PyBool_FromLong(wait());
    });
}

/// _set_host(Fiber, turn): the class of fibers, and see Host in deferred/batcher.h.
PyObject* set_host(PyObject*, PyObject* args) {
    PyObject *type, *turn_object;
    if (!PyArg_ParseTuple(args, "O!O", &PyType_Type, &type, &turn_object)) return nullptr;
    PyGreenlet_Import();
    if (!_PyGreenlet_API) return nullptr;
    Py_XSETREF(fiber_type, Py_NewRef(type));
    Py_XSETREF(turn_function, Py_NewRef(turn_object));
    deferred::host.wait = wait;
    deferred::host.turn = turn;
    Py_RETURN_NONE;
}

/// _stay(by): while the sum is positive, examples do not wait (Stay).
PyObject* stay(PyObject*, PyObject* by) {
    return guarded([&] {
        deferred::Batcher::current().staying += static_cast<int>(to_int(by, "_stay"));
        return Py_NewRef(Py_None);
    });
}

/// _begin_batch(count, first): a batch of so many examples begins, the first of which has the index
/// `first`; returns its number. Those of the examples are the ones behind it.
PyObject* begin_batch(PyObject*, PyObject* args) {
    unsigned long long count;
    long long first;
    if (!PyArg_ParseTuple(args, "KL", &count, &first)) return nullptr;
    return guarded([&] {
        deferred::Batcher& batcher = deferred::Batcher::current();
        auto& batch = batcher.batch;
        batch = Ref<deferred::ExampleBatch>(new deferred::ExampleBatch(count, batch, first));
        batch->callers_depth = depth();
        batch->callers_programs = {running, reach};
        between_examples();
        return PyLong_FromUnsignedLongLong(batch->number);
    });
}

/// _end_batch(number, fibers): back to the caller's state, after so many of its examples had a fiber of
/// their own; returns the first line that changed what a later example had read, or None.
PyObject* end_batch(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        unsigned long long wanted;
        long long fibers;
        if (!PyArg_ParseTuple(args, "KL", &wanted, &fibers)) throw PythonError{};
        deferred::Batcher& batcher = deferred::Batcher::current();
        batcher.tally.fibers += fibers;
        auto& current = batcher.batch;
        Ref<deferred::ExampleBatch> batch =
            current;  // an interrupted fiber may have left one of its own
        while (batch && batch->number != wanted) batch = batch->outer;
        WEFT_EXPECT(batch, Runtime, "autobatch", "a batch that runs", std::to_string(wanted));
        current = batch->outer;
        batch->callers.restore();
        restore_callers_programs(*batch);
        if (batch->stale.empty()) return Py_NewRef(Py_None);
        return py_str(batch->stale).release();
    });
}

/// _enter_example(number): what runs from now on is this example of the batch.
PyObject* enter_example(PyObject*, PyObject* number) {
    return guarded([&] {
        const auto& batch = deferred::Batcher::current().batch;
        auto example = static_cast<uint64_t>(to_int(number, "_enter_example"));
        WEFT_EXPECT(batch && batch->has(example), Runtime, "autobatch",
                    "an example of the batch that runs", std::to_string(example));
        memory_maker = example;
        deferred::Batcher::current().loop = nullptr;
        batch->last_begun = std::max(batch->last_begun, example);
        mode = batch->callers.mode | kDeferMode;
        return Py_NewRef(Py_None);
    });
}

/// _example(): the number of the example whose the calls are that are made now; 0: no example's.
PyObject* example(PyObject*, PyObject*) {
    return PyLong_FromUnsignedLongLong(deferred::Batcher::current().responsible());
}

/// _leave_example(): none runs from now on.
PyObject* leave_example(PyObject*, PyObject*) {
    deferred::ExampleBatch& batch = *deferred::Batcher::current().batch;
    if (batch.dtype_setter == memory_maker) batch.dtype = ops::default_dtype;
    between_examples();
    Py_RETURN_NONE;
}

/// _set_at_once(flag): whether calls of the batch run at once from now on.
PyObject* set_at_once(PyObject*, PyObject* flag) {
    deferred::Batcher::current().batch->at_once = flag == Py_True;
    Py_RETURN_NONE;
}

/// _skip_numbers(n): batches have numbers from n on (tests).
PyObject* skip_numbers(PyObject*, PyObject* n) {
    return guarded([&] {
        deferred::ExampleBatch::skip_to(static_cast<uint64_t>(to_int(n, "_skip_numbers")));
        return Py_NewRef(Py_None);
    });
}

/// _order(): how often examples of the batch changed what they share, and drew after they had waited.
PyObject* order(PyObject*, PyObject*) {
    const deferred::ExampleBatch& batch = *deferred::Batcher::current().batch;
    return Py_BuildValue("(LL)", static_cast<long long>(batch.changes),
                         static_cast<long long>(batch.late_draws));
}

/// _shield(fn): fn(), below which no unwinding goes (Note [Threads at exit]): what lies under the
/// first frame of a fiber is another fiber's.
PyObject* shield(PyObject*, PyObject* fn) {
    return into_python([&] { return PyObject_CallNoArgs(fn); });
}

PyMethodDef fibers_functions[] = {{"_shield", shield, METH_O, nullptr},
                                  {"_take_depth", take_depth, METH_NOARGS, nullptr},
                                  {"_stay", stay, METH_O, nullptr},
                                  {"_begin_batch", begin_batch, METH_VARARGS, nullptr},
                                  {"_end_batch", end_batch, METH_VARARGS, nullptr},
                                  {"_enter_example", enter_example, METH_O, nullptr},
                                  {"_example", example, METH_NOARGS, nullptr},
                                  {"_leave_example", leave_example, METH_NOARGS, nullptr},
                                  {"_set_at_once", set_at_once, METH_O, nullptr},
                                  {"_skip_numbers", skip_numbers, METH_O, nullptr},
                                  {"_order", order, METH_NOARGS, nullptr},
                                  {"_wait", py_wait, METH_NOARGS, nullptr},
                                  {"_set_host", set_host, METH_VARARGS, nullptr},
                                  {}};

}  // namespace

bool may_wait() {
    // A backward pass belongs to the thread, and so does a flush, amid which Python may collect garbage.
    // Between examples (a signal handler) nobody can wait.
    const deferred::Batcher& batcher = deferred::Batcher::current();
    return fiber_type && batcher.example() && !batcher.staying && batcher.batch->may_wait() &&
           !current_pass() && !batcher.tape.flushing();
}

void between_examples() {
    const deferred::ExampleBatch& batch = *deferred::Batcher::current().batch;
    batch.callers.restore();
    restore_callers_programs(batch);
    memory_maker = batch.number;
    if (batch.dtype_setter) ops::default_dtype = batch.dtype;
}

void init_fibers(PyObject* module) {
    checked(PyModule_AddFunctions(module, fibers_functions));
    init_example_runs(module);
}

}  // namespace weft::python
