/// Fibers (weft/_fibers.py) as deferred execution sees them: one that reads a value waits.
///
/// Through greenlet's C API: a switch through its Python methods costs twice as much.
#include "python/object.h"

#include <greenlet.h>  // wants Python.h before it

#include "autograd/engine.h"
#include "autograd/saved.h"
#include "deferred/door.h"
#include "deferred/tape.h"
#include "ops/pointwise.h"
#include "ops/random.h"

namespace weft::python {
namespace {

PyObject* fiber_type;
PyObject* turn_function;

/// What a fiber must find as it left it when it runs again.
class FiberState {
public:
    FiberState()
        : mode_(mode), hooks_(pack_hooks), owner_(deferred::owner), examples_(deferred::examples),
          dtype_(ops::default_dtype) {}
    ~FiberState() {
        ops::default_dtype = dtype_;
        mode = mode_;
        pack_hooks = hooks_;
        deferred::set_owner(owner_);
        deferred::examples = examples_;
    }

private:
    uint32_t mode_;
    PackHooks* hooks_;
    uint32_t owner_;
    deferred::Examples examples_;
    DType dtype_;
    ops::GeneratorScope draws_{ops::default_generator()};
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

bool wait() {
    // A backward pass belongs to the thread.
    if (!fiber_type || current_pass() || deferred::staying) return false;
    Object fiber = take(PyGreenlet_GetCurrent());
    if (reinterpret_cast<PyObject*>(Py_TYPE(fiber.get())) != fiber_type) return false;
    FiberState state;
    RunningLoop loop(fiber);
    Object parent = take(PyGreenlet_GET_PARENT(greenlet(fiber)));
    Object::take(PyGreenlet_Switch(greenlet(parent), nullptr, nullptr));
    return true;
}

bool turn(bool outer) {
    FiberState state;
    return Object::take(PyObject_CallOneArg(turn_function, outer ? Py_True : Py_False)).get() ==
           Py_True;
}

/// _wait(): suspends the example that runs until all that waits was computed; False outside of one.
PyObject* py_wait(PyObject*, PyObject*) {
    return guarded([] { return PyBool_FromLong(wait()); });
}

/// _set_host(Fiber, turn): the class of fibers, and see Host in deferred/tape.h.
PyObject* set_host(PyObject*, PyObject* args) {
    PyObject *type, *turn_object;
    if (!PyArg_ParseTuple(args, "O!O", &PyType_Type, &type, &turn_object)) return nullptr;
    PyGreenlet_Import();
    if (!_PyGreenlet_API) return nullptr;
    Py_XSETREF(fiber_type, Py_NewRef(type));
    Py_XSETREF(turn_function, Py_NewRef(turn_object));
    deferred::host = {wait, turn};
    Py_RETURN_NONE;
}

/// _stay(by): while the sum is positive, examples do not wait (Stay).
PyObject* stay(PyObject*, PyObject* by) {
    return guarded([&] {
        deferred::staying += static_cast<int>(to_int(by, "_stay"));
        return Py_NewRef(Py_None);
    });
}

/// _begin_batch(first, count): a batch of the fibers from `first` on begins; returns the outer one.
PyObject* begin_batch(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        deferred::Examples& batch = deferred::examples;
        Object outer = Object::take(Py_BuildValue("III", batch.start, batch.first, batch.count));
        unsigned first, count;
        if (!PyArg_ParseTuple(args, "II", &first, &count)) return nullptr;
        if (batch.count == 0) deferred::Tape::current().forget_readers();
        // From a number that nothing has: what is born now is not older.
        batch = {static_cast<uint32_t>(++weft::detail::small_blocks.stats.allocations), first,
                 count};
        return outer.release();
    });
}

/// _end_batch(outer)
PyObject* end_batch(PyObject*, PyObject* outer) {
    deferred::Examples& batch = deferred::examples;
    if (!PyArg_ParseTuple(outer, "III", &batch.start, &batch.first, &batch.count)) return nullptr;
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"_stay", stay, METH_O, nullptr},
                           {"_begin_batch", begin_batch, METH_VARARGS, nullptr},
                           {"_end_batch", end_batch, METH_O, nullptr},
                           {"_wait", py_wait, METH_NOARGS, nullptr},
                           {"_set_host", set_host, METH_VARARGS, nullptr},
                           {}};

}  // namespace

void init_fibers(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace weft::python
