/// The machine's host for Python: what instructions do with Python's objects, as CPython's own do it.
#pragma once
#include "python/program.h"
#include "python/turns.h"

namespace weft::python {

/// The function that a call of `callee` runs, and what goes before its arguments (null: nothing); the module if
/// it is one that is called. Null: Python calls it.
struct Target {
    PyObject* function = nullptr;           ///< borrowed
    PyObject* self = nullptr;               ///< borrowed
    PyObject* module = nullptr;             ///< borrowed
    bool may_be_compiled_in_place = false;  ///< the module: else its `compile()` made nothing
};

class PythonHost {
public:
    using Raw = PyObject*;
    using Frame = python::Frame;

    static void hold(PyObject* o) { Py_INCREF(o); }
    static void drop(PyObject* o) { Py_DECREF(o); }
    static PyObject* constant(Frame* frame, int32_t k) {
        return frame->program->consts[static_cast<size_t>(k)].get();
    }

    static PyObject* evaluate(Frame* frame, const program::FlatInstr& i, PyObject* const* args);
    Frame* call(Frame* frame, const program::FlatInstr& i, PyObject* const* args,
                PyObject*& result);
    static bool unpack(Frame* frame, const program::FlatInstr& i, PyObject* value);
    static int truth(PyObject* o) {
        return o == Py_True ? 1 : o == Py_False || o == Py_None ? 0 : PyObject_IsTrue(o);
    }
    static PyObject* next(PyObject* iterator, bool& done);
    static bool enter(Frame* frame, const program::FlatInstr& i, PyObject* manager);
    static void catch_error(PyObject*& error, PyObject*& before);
    static void handle(PyObject* error);
    static void raise(PyObject* error);
    void note(Frame* frame, int32_t pc);
    static void unbound(Frame* frame, int32_t r);
    void leave(Frame* frame, PyObject*& result);
    static void free(Frame* frame);
    static void finished(Frame* frame) { --frame->gained; }
    /// Note [Examples without fibers]
    bool waits(Frame* frame, const program::FlatInstr& i, PyObject* const* args) const {
        return stops && reads_what_waits(frame, i, args);
    }
    bool stops = false;
    bool pause(Frame*);
    program::Onward at_place(Frame* frame, PyObject*& result);

    /// A frame of `function` with arguments as PyObject_Vectorcall takes them; null without an error: they do not
    /// fit, which the function itself says best.
    static Frame* bind(PyObject* function, const Program* program, PyObject* const* args, size_t n,
                       PyObject* names);
    /// The same of a target, whose `self` goes first.
    static Frame* bind(const Target& target, const Program* program, PyObject* const* args,
                       size_t n, PyObject* names);
    /// One with empty registers and cells.
    static Frame* new_frame(PyObject* function, const Program* program);
    /// The same for a call of a target that has a program. Null, and not `handled`, where it has none or they do
    /// not fit; null, and `handled`, with an error raised.
    static Frame* bind_call(const Target& target, PyObject* const* args, size_t n, PyObject* names,
                            bool& handled);
    /// Starts a frame that is bound: false: an error is raised (recursion too deep).
    bool start(Frame* frame);

private:
    Frame* call_method(Frame* frame, const program::FlatInstr& i, PyObject* const* args,
                       PyObject*& result);
    Frame* call_spread(Frame* frame, PyObject* const* args, PyObject*& result);
    Frame* call_target(Frame* frame, PyObject* callee, const Target& target, const Program* program,
                       PyObject* const* args, size_t n, PyObject* names, PyObject*& result);
    static bool reads_what_waits(const Frame* frame, const program::FlatInstr& i,
                                 PyObject* const* args);
    uint32_t pauses_ = 0;
    bool fails_at_lookup_ = false;  ///< the call under way: its method is not there
    Turns turns_;
};

Target target_of(PyObject* callee);
/// Keyword arguments for a call of PyObject_Vectorcall's kind: the values go behind `args`; the names, new.
PyObject* spread(PyObject* words, std::vector<PyObject*>& args);
/// The function that a plain call of a Module runs; null: not plain (module_slots.cpp). `in_place`: whether its
/// `compile()` may have made something.
PyObject* plain_forward_of(PyObject* module, bool* in_place = nullptr);
/// Whether it is a Module whose `compile()` made `by`, and the call of one that does not ask.
bool is_compiled_in_place(PyObject* module, PyObject* by);
PyObject* call_past_compiled(PyObject* module, PyObject* const* args, size_t n, PyObject* names);
/// After the plain call of a Module has failed: what its own call says of that.
void module_failed(PyObject* module, PyObject* args);

/// Runs a target's program; null with an error set. `handled` if it has one. An error is told of its module.
PyObject* run_program(const Target& target, PyObject* const* args, size_t n, PyObject* names,
                      bool& handled);
/// Calls the function of a frame that is bound and has not begun, with its arguments, as CPython does; null with an
/// error set, which has entries for it.
PyObject* call_past_programs(const Frame* frame);
/// Whether programs may run at all now: not while calls are watched or mapped, nor under a tracer or
/// profiler of Python's.
bool programs_run();

}  // namespace weft::python
