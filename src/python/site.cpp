/// Provenance: the innermost Python frame outside weft. See Note [Sites] in base/site.h.
///
/// On CPython 3.11 the frame chain is read directly; on later versions through the public API, which
/// makes a frame object and so costs more.
#include "python/interpreter.h"

#include <string>

#include "program/trace.h"
#include "python/code_extra.h"
#include "python/program.h"

namespace weft::python {
namespace {

/// What a code object's extra slot says: 0 unknown, else one of these.
enum : intptr_t { kUser = 1, kInternal = 2 };
Py_ssize_t kind_index = -1;
std::string package_prefix;

}  // namespace

bool is_internal(PyObject* code) {
    void* extra = nullptr;
    get_extra(code, kind_index, &extra);
    auto kind = reinterpret_cast<intptr_t>(extra);
    if (kind == 0) [[unlikely]] {
        PyObject* file = reinterpret_cast<PyCodeObject*>(code)->co_filename;
        const char* name = PyUnicode_AsUTF8(file);
        if (!name) PyErr_Clear();
        bool inside =
            name && !package_prefix.empty() && std::string_view(name).starts_with(package_prefix);
        kind = inside ? kInternal : kUser;
        set_extra(code, kind_index, reinterpret_cast<void*>(kind));
    }
    return kind == kInternal;
}

namespace {

bool sites_enabled = true;

void expect_no_trace(const char* message) {
    if (program::Tracer::is_tracing())
        fail(ErrorKind::Runtime, "trace", "calls without a warning", text("this one: ", message));
}

/// A new reference to the code object of the innermost program frame outside of weft, which is `in`.
PyObject* site_in(const Running& program, int32_t* offset, const Frame*& in) {
    for (in = program.frame; in; in = static_cast<const Frame*>(in->caller)) {
        PyObject* code = place_of(*in, in->pc, offset);
        if (!is_internal(code)) return Py_NewRef(code);
    }
    return nullptr;
}

/// The same of the innermost frame; `in` is null if that is Python's.
PyObject* find_user(int32_t* offset, const Frame*& in) {
    in = nullptr;
#if PY_VERSION_HEX < 0x030c0000
    PyThreadState* state = _PyThreadState_UncheckedGet();
    if (!state || !state->cframe) return nullptr;
    const Running* program = running;
    for (_PyInterpreterFrame* f = state->cframe->current_frame; f; f = f->previous) {
        if (program && program->within == f) {
            if (PyObject* code = site_in(*program, offset, in)) return code;
            while (program && program->within == f) program = program->outer;
        }
        auto* code = reinterpret_cast<PyObject*>(f->f_code);
        if (_PyFrame_IsIncomplete(f) || is_internal(code)) continue;
        *offset = static_cast<int32_t>(_PyInterpreterFrame_LASTI(f) * sizeof(_Py_CODEUNIT));
        return Py_NewRef(code);
    }
    return nullptr;
#else
    PyFrameObject* frame = PyEval_GetFrame();
    Py_XINCREF(frame);
    const Running* program = running;
    while (frame) {
        if (program && program->within == frame) {
            if (PyObject* code = site_in(*program, offset, in)) {
                Py_DECREF(frame);
                return code;
            }
            while (program && program->within == frame) program = program->outer;
        }
        auto* code = reinterpret_cast<PyObject*>(PyFrame_GetCode(frame));
        if (!is_internal(code)) {
            *offset = PyFrame_GetLasti(frame);
            Py_DECREF(frame);
            return code;
        }
        Py_DECREF(code);
        PyFrameObject* back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    return nullptr;
#endif
}

void* capture(int32_t* offset) {
    const Frame* in;
    return sites_enabled ? find_user(offset, in) : nullptr;
}

/// Warns at the line of a program, if the innermost line outside of weft is in one; 1: it is not.
int warn_at_line(PyObject* category, PyObject* message) {
    if (!running) return 1;
    int32_t offset;
    const Frame* in;
    Object found = Object::steal(find_user(&offset, in));
    if (!in) return 1;
    auto* code = reinterpret_cast<PyCodeObject*>(found.get());
    PyObject* module = PyDict_GetItemString(in->globals, "__name__");
    static PyObject* const name = PyUnicode_InternFromString("__warningregistry__");
    Object registry = Object::take(PyDict_New());
    PyObject* known = checked(PyDict_SetDefault(in->globals, name, registry.get()));
    return into_python([&] {
        return PyErr_WarnExplicitObject(category, message, code->co_filename,
                                        PyCode_Addr2Line(code, offset), module, known);
    });
}

/// _warn_in_program(message, category): whether it was the program's to warn.
PyObject* warn_in_program(PyObject*, PyObject* args) {
    PyObject *message, *category;
    if (!PyArg_ParseTuple(args, "UO", &message, &category)) return nullptr;
    return guarded([&]() -> PyObject* {
        expect_no_trace(PyUnicode_AsUTF8(message));
        const int how = warn_at_line(category, message);
        return how < 0 ? nullptr : PyBool_FromLong(how == 0);
    });
}

void release_code(void* code) { Py_DECREF(static_cast<PyObject*>(code)); }

std::string place_of(void* p, int32_t offset) {
    auto* code = static_cast<PyCodeObject*>(p);
    const SetAside pending;
    try {
        return text(to_text(code->co_filename), ":", PyCode_Addr2Line(code, offset), ", in ",
                    to_text(code->co_name));
    } catch (const PythonError&) {
        PyErr_Clear();
        return "an unknown line";
    }
}

std::string describe_code(void* p, int32_t offset) {
    auto* code = static_cast<PyCodeObject*>(p);
    const int line = PyCode_Addr2Line(code, offset);
    std::string out = place_of(p, offset);
    SetAside pending;  // looking for the line must not disturb an error on its way
    try {
        Object getline = import_attr("linecache", "getline");
        Object source = getline.call(Object::borrow(code->co_filename), py_int(line));
        Object stripped = Object::take(PyObject_CallMethod(source.get(), "strip", nullptr));
        if (std::string_view s = to_text(stripped.get()); !s.empty()) out += text(": `", s, "`");
    } catch (const PythonError&) {
        PyErr_Clear();
    }
    return out;
}

void annotate(const std::string& line) {
    with_error([&](PyObject* error) {
        Object::take(PyObject_CallMethod(error, "add_note", "s", line.c_str()));
    });
}

PyObject* set_provenance(PyObject*, PyObject* on) {
    sites_enabled = on == Py_True;
    Py_RETURN_NONE;
}

/// Files below this folder are weft's own; the package calls it first of all.
PyObject* set_package(PyObject*, PyObject* folder) {
    return guarded([&] {
        package_prefix = text(to_text(folder), "/");
        return Py_NewRef(Py_None);
    });
}

PyMethodDef site_functions[] = {{"_set_package", set_package, METH_O, nullptr},
                                {"_warn_in_program", warn_in_program, METH_VARARGS, nullptr},
                                {"_set_provenance", set_provenance, METH_O,
                                 "Turns the recording of lines on or off (benchmarks)."},
                                {}};

}  // namespace

int warn_user(const char* message) {
    expect_no_trace(message);
    const int how = warn_at_line(PyExc_UserWarning, py_str(message).get());
    return how <= 0 ? how
                    : into_python([&] { return PyErr_WarnEx(PyExc_UserWarning, message, 1); });
}

const void* python_frame() {
#if PY_VERSION_HEX < 0x030c0000
    PyThreadState* state = _PyThreadState_UncheckedGet();
    return state && state->cframe ? state->cframe->current_frame : nullptr;
#else
    return PyEval_GetFrame();
#endif
}

void init_site(PyObject* module) {
    kind_index = request_extra_index(nullptr);
    checked(PyModule_AddFunctions(module, site_functions));
    site_hooks = {
        capture,       release_code, [](void* code) { Py_INCREF(static_cast<PyObject*>(code)); },
        describe_code, place_of,     annotate};
}

}  // namespace weft::python
