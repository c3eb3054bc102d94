/// Python frames for programs, made where somebody looks: tracebacks, and functions that ask who called them.
///
/// On CPython 3.11 a frame gets its line and its variables, and calls of what looks at frames see the programs
/// around them; on later versions, whose frames are other structures, it has its code object alone.
#define Py_BUILD_CORE 1
#include <Python.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#include <frameobject.h>

#include "python/program_frames.h"

namespace weft::python {

#if PY_VERSION_HEX < 0x030c0000
namespace {

void fill(_PyInterpreterFrame* f, PyCodeObject* code, const Frame& of) {
    const Program& p = *of.program;
    if (code != p.of) return;  // a comprehension's own
    for (int k = 0; k < code->co_nlocalsplus; ++k) {
        const int32_t at = p.slots[static_cast<size_t>(k)];
        PyObject* value = at >= 0 ? of.registers[at] : of.cells[~at];
        Py_XSETREF(f->localsplus[k], Py_XNewRef(value));
    }
}

}  // namespace

Object frame_of(PyCodeObject* code, int32_t offset, const Frame& of) {
    Object made = Object::steal(
        reinterpret_cast<PyObject*>(PyFrame_New(PyThreadState_Get(), code, of.globals, nullptr)));
    if (!made) return made;
    _PyInterpreterFrame* f = reinterpret_cast<PyFrameObject*>(made.get())->f_frame;
    f->prev_instr = _PyCode_CODE(code) + offset / static_cast<int32_t>(sizeof(_Py_CODEUNIT));
    fill(f, code, of);
    return made;
}

VisibleFrames::VisibleFrames(const Frame* innermost) {
    PyThreadState* state = PyThreadState_Get();
    if (!state->cframe) return;
    std::vector<const Frame*> frames;
    for (const Frame* f = innermost; f; f = static_cast<const Frame*>(f->caller))
        frames.push_back(f);
    outer_ = state->cframe->current_frame;
    cframe_ = state->cframe;
    auto* around = static_cast<_PyInterpreterFrame*>(outer_);
    for (size_t k = frames.size(); k-- > 0;) {
        int32_t offset;
        auto* code = reinterpret_cast<PyCodeObject*>(place_of(*frames[k], frames[k]->pc, &offset));
        Object made = frame_of(code, offset, *frames[k]);
        if (!made) {
            PyErr_Clear();
            break;
        }
        auto* object = reinterpret_cast<PyFrameObject*>(made.get());
        object->f_frame->frame_obj = object;  // borrowed, as where a frame object has its own frame
        object->f_frame->previous = around;
        around = object->f_frame;
        made_.push_back(std::move(made));
    }
    state->cframe->current_frame = around;
}

VisibleFrames::~VisibleFrames() {
    if (!cframe_) return;
    static_cast<_PyCFrame*>(cframe_)->current_frame = static_cast<_PyInterpreterFrame*>(outer_);
    for (const Object& made : made_)
        reinterpret_cast<PyFrameObject*>(made.get())->f_frame->previous = nullptr;
}
#else
/// CPython takes for granted that a frame has begun to run, and with it that cells of free variables are there:
/// who reads them where they are not crashes.
Object frame_of(PyCodeObject* code, int32_t, const Frame& of) {
    Object made = Object::steal(
        reinterpret_cast<PyObject*>(PyFrame_New(PyThreadState_Get(), code, of.globals, nullptr)));
    if (!made) return made;
    _PyInterpreterFrame* f = reinterpret_cast<PyFrameObject*>(made.get())->f_frame;
    const Program& p = *of.program;
    const auto free = static_cast<int>(PyCode_GetNumFree(code));
    for (int k = 0; k < free; ++k) {
        PyObject* cell = code == p.of ? Py_NewRef(of.cells[p.function.own_cells + k])
                                      : PyCell_New(nullptr);  // a comprehension's own
        if (!cell) return {};
        f->localsplus[code->co_nlocalsplus - free + k] = cell;
    }
    return made;
}

VisibleFrames::VisibleFrames(const Frame*) {}
VisibleFrames::~VisibleFrames() = default;
#endif

bool looks_at_frames(PyObject* callee) {
    if (PyMethod_Check(callee)) callee = PyMethod_GET_FUNCTION(callee);
    if (PyFunction_Check(callee)) {
        const Known* known = guarded([&] { return known_of(callee); });
        if (!known) PyErr_Clear();
        return known && known->looks_at_frames;
    }
    if (!PyCFunction_Check(callee)) return false;
    PyObject* module = PyCFunction_GET_SELF(callee);
    if (!module || !PyModule_Check(module)) return false;
    const char* name = PyModule_GetName(module);
    if (!name) PyErr_Clear();
    const std::string_view text = name ? name : "";
    return text == "_warnings" ||
           (text == "sys" &&
            std::string_view(reinterpret_cast<PyCFunctionObject*>(callee)->m_ml->ml_name) ==
                "_getframe");
}

}  // namespace weft::python
