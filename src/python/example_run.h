/// Examples of a batch, as what has to follow one that waits.
///
/// Note [Examples without fibers]
/// An example that is the call of a compiled function runs in frames of the machine, which lie on the heap. Where
/// nothing lies between these and who runs the example, it needs no stack of its own to wait on: before
/// an instruction that reads a value which waits (PythonHost::reads_what_waits), the machine stops, and the fiber
/// that ran it goes on with the next example. Where Python or C called back lies in between, as below a
/// method of a user's object, the example waits in the fiber, as others do, and its frames with it.
///
/// What follows an example of either kind is its `ExampleState`, and its context variables, which
/// weft/batching/examples.py gives to the fiber that runs it. A stack also has the exception that is being
/// handled and the depth of calls; of an example without one, ExampleRun has these. A running loop of asyncio's
/// is set below frames of Python's only (RunningLoop in fibers.cpp).
#pragma once
#include "deferred/batcher.h"
#include "ops/pointwise.h"
#include "python/program.h"

namespace weft::python {

/// The program that runs, and the compiled function that it is part of.
struct Programs {
    Running* innermost;
    Reach* of;
    static Programs now() { return {running, reach}; }
    void restore() const {
        running = innermost;
        reach = of;
    }
};

/// What an example must find as it left it when it runs again: what was so when this was made.
class ExampleState {
public:
    void restore() const {
        if (batch_ && batch_->dtype_setter) ops::default_dtype = dtype_;
        deferred::Batcher::current().batch = batch_;
        own_.restore();
        programs_.restore();
    }

private:
    deferred::Surroundings own_ = deferred::Surroundings::now();
    Programs programs_ = Programs::now();
    Ref<deferred::ExampleBatch> batch_ = deferred::Batcher::current().batch;
    DType dtype_ = ops::default_dtype;
};

/// Whether the example that runs may let others run (fibers.cpp).
bool may_wait();
/// What runs from now on is no example: what runs the batch.
void between_examples();

/// For a call of what `weft.compile` made: a frame, and the reach of it. Where it has to run in another way, as
/// all other calls: null, and it has run, with `result` (program.cpp).
Frame* bind_compiled(PyObject* callee, PyObject* const* args, size_t n, PyObject* names, Reach*& of,
                     PyObject*& result);
void init_example_runs(PyObject* module);

}  // namespace weft::python
