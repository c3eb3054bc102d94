/// The local variables of a frame that runs, read without `f_locals`: that makes a dict which the frame
/// keeps, and with it what the variables held.
#include "python/interpreter.h"

#include "python/object.h"

namespace weft::python {
namespace {

#if PY_VERSION_HEX < 0x030c0000

void read(PyFrameObject* frame, PyCodeObject* code, PyObject* into) {
    for (int i = 0; i < code->co_nlocalsplus; ++i) {
        PyObject* value = frame->f_frame->localsplus[i];
        const auto kind = _PyLocals_GetKind(code->co_localspluskinds, i);
        if (value && (kind & (CO_FAST_CELL | CO_FAST_FREE)) && PyCell_Check(value))
            value = PyCell_GET(value);
        PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, i);
        if (value) checked(PyDict_SetItem(into, name, value));
    }
}

#else

void read(PyFrameObject* frame, PyCodeObject* code, PyObject* into) {
    for (PyObject* names :
         {PyCode_GetVarnames(code), PyCode_GetCellvars(code), PyCode_GetFreevars(code)}) {
        const Object held = Object::take(names);
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
            PyObject* name = PyTuple_GET_ITEM(names, i);
            const Object value = Object::steal(PyFrame_GetVar(frame, name));
            if (value) checked(PyDict_SetItem(into, name, value.get()));
            else PyErr_Clear();  // not bound
        }
    }
}

#endif

/// _locals(frame): a dict of them; of a module or a class body its namespace itself.
PyObject* locals(PyObject*, PyObject* o) {
    return guarded([&] {
        WEFT_EXPECT(PyFrame_Check(o), Type, "_locals", "a frame", Py_TYPE(o)->tp_name);
        auto* frame = reinterpret_cast<PyFrameObject*>(o);
        const Object held = Object::take(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
        auto* code = reinterpret_cast<PyCodeObject*>(held.get());
        if (!(code->co_flags & CO_OPTIMIZED))
            return Object::take(PyFrame_GetLocals(frame)).release();
        Object out = Object::take(PyDict_New());
        read(frame, code, out.get());
        return out.release();
    });
}

PyMethodDef locals_functions[] = {{"_locals", locals, METH_O, nullptr}, {}};

}  // namespace

void init_locals(PyObject* module) { checked(PyModule_AddFunctions(module, locals_functions)); }

}  // namespace weft::python
