/// Programs of Python functions: what the front end made of their source, ready for the machine.
///
/// Note [Gains]
/// CPython runs its bytecode faster than the machine runs programs; what pays for that is stretches. Both are
/// counted, in instructions (gain_of in program/stretch.h says what a stretch is worth), with the gains of what a function
/// calls; what that loses is its own. One that has lost in kMostIdle calls on end is left to Python for
/// kFirstRest calls, then tried again, and each time left for twice as many; what is compiled anew begins anew.
/// Traces go through it all the same.
#pragma once
#include <unordered_set>

#include "base/pool.h"
#include "program/code.h"
#include "program/machine.h"
#include "python/object.h"

namespace weft::python {

class Place;  // program_place.h

/// A function's instructions with Python's constants; it belongs to the code object and goes with it.
struct Program {
    /// A function that it makes.
    struct Inner {
        Object code;
        std::vector<int32_t> cells;
    };
    /// A comprehension's own code object (weft/frontend/ir.py).
    struct Inlined {
        Object code;
        int32_t parent, offset;
    };
    program::Function function;
    program::Code code;
    PyCodeObject* of;  ///< borrowed
    std::vector<Object> consts, attrs;
    std::vector<Inner> inner;
    std::vector<Inlined> inlined;
    int32_t positional = 0, keyword_only = 0, positional_only = 0;
    bool has_args = false, has_kwargs = false;
    int32_t cells = 0;
    std::vector<std::unique_ptr<Place>> places;
    std::vector<int32_t> slots;  ///< of CPython's frame: the register there, or ~cell
    // Note [Gains]
    static constexpr int32_t kMostIdle = 256, kFirstRest = 4096, kLongestRest = 1 << 24;
    int32_t idle = 0;  ///< how often it lost on end
    int32_t rests = 0,
            rest = kFirstRest;  ///< for how many calls it is left to Python, and next time
    uint64_t left_by = 0;       ///< number of the last Reach for which it is left

    Program();
    ~Program();
    Program(const Program&) = delete;
};

/// From a `Lowered` of the front end; checked.
std::unique_ptr<Program> build_program(PyObject* lowered);

/// A bit of `mode` besides those of ops/call.h: no programs run (weft.compiler.disable).
constexpr uint32_t kPlainMode = 1u << 31;

/// What is known of a code object: its program, or why it stays Python's.
struct Known {
    std::unique_ptr<Program> program;
    Object left;  ///< a weft.frontend.programs.Left
    bool looks_at_frames = false;
    uint64_t calls = 0;  ///< by programs, where it has none of its own
    uint64_t seen = 0;   ///< number of the last Reach that has it
};
/// Made with the first question. Throws PythonError.
Known* known_of(PyObject* function);

/// The code objects that calls of a `_C._Compiled` came to, in order.
struct Reach {
    std::vector<std::pair<Object, Known*>> codes;
    std::unordered_set<const void*> members;
    const uint64_t number;
    const bool full_graph;  ///< a function outside of the subset raises
    Object backend{};  ///< the user's: stretches are run by what it makes of their graphs; or null
};
/// That of the call that runs on this thread; null outside of compiled calls.
extern thread_local Reach* reach;

/// The program by which a function is called; null where it stays Python's, or with an error set, as where
/// `reach` wants a full graph.
Program* program_of(PyObject* function);

/// An activation of a program.
struct Frame : program::FrameOf<PyObject*> {
    const Program* program;
    PyObject* function;  ///< owned
    PyObject* module;    ///< owned: the Module whose call this is, or null
    PyObject** cells;    ///< owned
    PyObject* globals;   ///< the function's
    PyObject* builtins;
    int32_t size;
    int64_t
        gained;  ///< what stretches were worth, in it and in what it called, less its instructions
};

/// What a program that runs is to whoever asks for the line: the innermost one, and the Python frame that it
/// runs in.
struct Running {
    Frame* frame;
    const void* within;
    Running* outer;

    static void* operator new(size_t size) { return Pool::allocate(size); }
    static void operator delete(void* at, size_t size) { Pool::free(at, size); }
};
extern thread_local Running* running;
/// The Python frame that runs now, to be compared only.
const void* python_frame();
/// The code object, borrowed, and the offset in it, of where a program's frame is.
PyObject* place_of(const Frame& frame, int32_t pc, int32_t* offset);

/// What a `_C._Compiled` calls, borrowed; null if it is none, or one that has to be called itself.
PyObject* compiled_callee(PyObject* o);

constexpr int32_t kInlinedShift = 24;  ///< weft/frontend/ir.py

}  // namespace weft::python
