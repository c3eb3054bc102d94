/// Python's frames around batches: what users see of them in tracebacks and debuggers.
#include <vector>

#include "python/object.h"

namespace weft::python {
namespace {

/// The traceback without the package's frames; null if none is left.
Object without_internals(PyObject* trace) {
    std::vector<PyTracebackObject*> entries;
    for (auto* t = reinterpret_cast<PyTracebackObject*>(trace); t; t = t->tb_next)
        entries.push_back(t);
    Object kept = Object::borrow(Py_None);
    for (size_t i = entries.size(); i-- > 0;) {
        Object entry = Object::borrow(reinterpret_cast<PyObject*>(entries[i]));
        Object frame = entry.attr("tb_frame");
        if (is_internal(frame.attr("f_code").get())) continue;
        kept = Object::borrow(reinterpret_cast<PyObject*>(&PyTraceBack_Type))
                   .call(kept, frame, entry.attr("tb_lasti"), entry.attr("tb_lineno"));
    }
    return kept.get() == Py_None ? Object() : std::move(kept);
}

/// self._call(*args, **kwargs), with the user's frames alone in the traceback of an exception.
PyObject* call_entry(PyObject* self, PyObject* args, PyObject* kwargs) {
    static PyObject* const name = PyUnicode_InternFromString("_call");
    return guarded([&]() -> PyObject* {
        Object call = Object::take(PyObject_GetAttr(self, name));
        PyObject* result = into_python([&] { return PyObject_Call(call.get(), args, kwargs); });
        if (result) return result;
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        PyErr_NormalizeException(&type, &value, &trace);
        Object t = Object::steal(type), v = Object::steal(value), all = Object::steal(trace);
        const Object full = import_attr("weft", "autobatch").attr("full_tracebacks");
        Object shown = all && full.get() != Py_True ? without_internals(all.get()) : std::move(all);
        checked(PyException_SetTraceback(v.get(), shown ? shown.get() : Py_None));
        PyErr_Restore(t.release(), v.release(), shown.release());
        throw PythonError{};
    });
}

/// A Python frame would add itself to each traceback that goes through it; this type's call does not.
PyType_Slot entry_slots[] = {
    {Py_tp_call, reinterpret_cast<void*>(call_entry)},
    {Py_tp_doc, const_cast<char*>("Called, it calls its `_call`; tracebacks show the user's "
                                  "frames alone.")},
    {0, nullptr}};
PyType_Spec entry_spec{"weft._C._Entry", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                       entry_slots};

/// How a frame object begins, in CPython 3.11 to 3.14.
struct FrameHead {
    PyObject_HEAD PyFrameObject* back;
};

/// _go_back_to(frame): what lies around the calling frame, for whoever asks it for `f_back`: a fiber's
/// first frame has nothing around it. None: nothing. A debugger, a printed stack and a logger then
/// see who called the batch.
PyObject* go_back_to(PyObject*, PyObject* around) {
    PyFrameObject* frame = PyEval_GetFrame();
    if (!frame) Py_RETURN_NONE;
    auto* head = reinterpret_cast<FrameHead*>(frame);
    PyFrameObject* real = PyFrame_GetBack(frame);
    Py_XDECREF(real);
    if (real && real != head->back) Py_RETURN_NONE;  // Python knows what lies around it
    auto* back = around == Py_None ? nullptr : reinterpret_cast<PyFrameObject*>(Py_NewRef(around));
    PyFrameObject* before = std::exchange(head->back, back);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

/// _users_frame(): the innermost frame of the caller's that is not the package's; None if there is none.
PyObject* users_frame(PyObject*, PyObject*) {
    return guarded([] {
        auto object = [](auto* p) { return reinterpret_cast<PyObject*>(p); };
        Object at = Object::borrow(object(PyEval_GetFrame()));
        while (at) {
            auto* frame = reinterpret_cast<PyFrameObject*>(at.get());
            if (!is_internal(Object::steal(object(PyFrame_GetCode(frame))).get())) break;
            at = Object::steal(object(PyFrame_GetBack(frame)));
        }
        return at ? at.release() : Py_NewRef(Py_None);
    });
}

PyMethodDef frames_functions[] = {{"_go_back_to", go_back_to, METH_O, nullptr},
                                  {"_users_frame", users_frame, METH_NOARGS, nullptr},
                                  {}};

}  // namespace

void init_frames(PyObject* module) {
    checked(PyModule_AddFunctions(module, frames_functions));
    add_object(module, "_Entry", Object::take(PyType_FromSpec(&entry_spec)).get());
}

}  // namespace weft::python
