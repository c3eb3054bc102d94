/// Anomaly mode for weft/autograd/anomaly.py.
#include "autograd/anomaly.h"
#include "deferred/batcher.h"

#include "python/program_frames.h"

namespace weft::python {
namespace {

std::string stack() {
    SetAside pending;
    try {
        const bool in_program = running && running->frame && running->within == python_frame();
        const VisibleFrames seen(in_program ? running->frame : nullptr);
        Object lines = import_attr("traceback", "format_stack").call();
        Object joined = Object::take(PyUnicode_Join(py_str("").get(), lines.get()));
        std::string out(to_text(joined.get()));
        for (int64_t index : deferred::Batcher::current().path())
            out += text("in example ", index, "\n");
        return out;
    } catch (const PythonError&) {
        PyErr_Clear();
        return {};
    }
}

/// A filter may turn the warning into an exception; the error that it explains goes first.
void warn(const std::string& message) {
    SetAside pending;
    if (warn_user(message.c_str()) < 0) PyErr_Clear();
}

PyObject* set_anomaly(PyObject*, PyObject* args) {
    int enabled, check_nan;
    if (!PyArg_ParseTuple(args, "pp", &enabled, &check_nan)) return nullptr;
    anomaly::set(enabled, check_nan);
    Py_RETURN_NONE;
}
PyObject* is_anomaly(PyObject*, PyObject*) { return PyBool_FromLong(anomaly::on); }
PyObject* is_nan_check(PyObject*, PyObject*) { return PyBool_FromLong(anomaly::checks_nan()); }

PyMethodDef anomaly_functions[] = {
    {"_set_anomaly", set_anomaly, METH_VARARGS, "_set_anomaly(enabled, check_nan)"},
    {"is_anomaly_enabled", is_anomaly, METH_NOARGS,
     "Whether anomaly mode is on.\n"
     "\n"
     ">>> weft.is_anomaly_enabled()\n"
     "False"},
    {"is_anomaly_check_nan_enabled", is_nan_check, METH_NOARGS,
     "Whether anomaly mode is on and looks for nan.\n"
     "\n"
     ">>> weft.is_anomaly_check_nan_enabled()\n"
     "False"},
    {}};

}  // namespace

void init_anomaly(PyObject* module) {
    checked(PyModule_AddFunctions(module, anomaly_functions));
    anomaly::host = {stack, warn, [](const Tensor& t) { return promise(t).peek(t); }};
}

}  // namespace weft::python
