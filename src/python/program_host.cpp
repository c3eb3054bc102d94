/// Reading guide: `evaluate` is one case for each verb; calls and frames follow, then exceptions.
#include "python/program_host.h"

#include <frameobject.h>

#include <algorithm>
#include <ctime>

#include "deferred/turn.h"
#include "python/hooks.h"
#include "python/program_frames.h"

namespace weft::python {

using program::FlatInstr;
using program::Verb;

thread_local Running* running = nullptr;

namespace {

PyObject* fail(PyObject* type, const char* format, ...) {
    va_list list;
    va_start(list, format);
    PyErr_FormatV(type, format, list);
    va_end(list);
    return nullptr;
}

PyObject* yes() { return Py_NewRef(Py_None); }
PyObject* done(int result) { return result < 0 ? nullptr : yes(); }
PyObject* truth_of(int result) { return result < 0 ? nullptr : PyBool_FromLong(result); }

/// NameError or UnboundLocalError with the name as its attribute, from which CPython makes suggestions.
PyObject* name_error(PyObject* type, const char* format, PyObject* name) {
    PyErr_Format(type, format, name);
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    PyErr_NormalizeException(&kind, &value, &trace);
    if (value && PyObject_SetAttrString(value, "name", name) < 0) PyErr_Clear();
    PyErr_Restore(kind, value, trace);
    return nullptr;
}

constexpr const char* kUnboundLocal =
    "cannot access local variable '%U' where it is not associated with a value";

PyObject* attr_name(const Frame* frame, const FlatInstr& i) {
    return frame->program->attrs[static_cast<size_t>(i.attr)].get();
}
PyObject* names_of(const Frame* frame, const FlatInstr& i) {
    return i.names < 0 ? nullptr : frame->program->attrs[static_cast<size_t>(i.names)].get();
}

PyObject* global(Frame* frame, PyObject* name) {
    PyObject* found = PyDict_GetItemWithError(frame->globals, name);
    if (found) return Py_NewRef(found);
    if (PyErr_Occurred()) return nullptr;
    if (PyDict_CheckExact(frame->builtins)) {
        found = PyDict_GetItemWithError(frame->builtins, name);
        if (found) return Py_NewRef(found);
        if (PyErr_Occurred()) return nullptr;
    } else {
        found = PyObject_GetItem(frame->builtins, name);
        if (found || !PyErr_ExceptionMatches(PyExc_KeyError)) return found;
        PyErr_Clear();
    }
    return name_error(PyExc_NameError, "name '%U' is not defined", name);
}

constexpr const char* kUnboundFree =
    "cannot access free variable '%U' where it is not associated with a value in enclosing scope";

PyObject* cell(Frame* frame, const FlatInstr& i) {
    if (PyObject* found = PyCell_GET(frame->cells[i.sub])) return Py_NewRef(found);
    const bool own = i.verb == Verb::Cell;
    return name_error(own ? PyExc_UnboundLocalError : PyExc_NameError,
                      own ? kUnboundLocal : kUnboundFree, attr_name(frame, i));
}

PyObject* binary(int32_t op, PyObject* a, PyObject* b) {
    switch (op) {
        case 0:
            return PyNumber_Add(a, b);
        case 1:
            return PyNumber_Subtract(a, b);
        case 2:
            return PyNumber_Multiply(a, b);
        case 3:
            return PyNumber_TrueDivide(a, b);
        case 4:
            return PyNumber_FloorDivide(a, b);
        case 5:
            // as the instruction: a subclass of str may take part
            return PyUnicode_CheckExact(a) && (PyUnicode_CheckExact(b) || !PyUnicode_Check(b))
                       ? PyUnicode_Format(a, b)
                       : PyNumber_Remainder(a, b);
        case 6:
            return PyNumber_Power(a, b, Py_None);
        case 7:
            return PyNumber_MatrixMultiply(a, b);
        case 8:
            return PyNumber_And(a, b);
        case 9:
            return PyNumber_Or(a, b);
        case 10:
            return PyNumber_Xor(a, b);
        case 11:
            return PyNumber_Lshift(a, b);
        default:
            return PyNumber_Rshift(a, b);
    }
}

PyObject* inplace(int32_t op, PyObject* a, PyObject* b) {
    switch (op) {
        case 0:
            return PyNumber_InPlaceAdd(a, b);
        case 1:
            return PyNumber_InPlaceSubtract(a, b);
        case 2:
            return PyNumber_InPlaceMultiply(a, b);
        case 3:
            return PyNumber_InPlaceTrueDivide(a, b);
        case 4:
            return PyNumber_InPlaceFloorDivide(a, b);
        case 5:
            return PyNumber_InPlaceRemainder(a, b);
        case 6:
            return PyNumber_InPlacePower(a, b, Py_None);
        case 7:
            return PyNumber_InPlaceMatrixMultiply(a, b);
        case 8:
            return PyNumber_InPlaceAnd(a, b);
        case 9:
            return PyNumber_InPlaceOr(a, b);
        case 10:
            return PyNumber_InPlaceXor(a, b);
        case 11:
            return PyNumber_InPlaceLshift(a, b);
        default:
            return PyNumber_InPlaceRshift(a, b);
    }
}

PyObject* unary(int32_t op, PyObject* a) {
    switch (op) {
        case 0:
            return PyNumber_Negative(a);
        case 1:
            return PyNumber_Positive(a);
        case 2:
            return PyNumber_Invert(a);
        default: {
            const int truth = PyObject_IsTrue(a);
            return truth < 0 ? nullptr : PyBool_FromLong(!truth);
        }
    }
}

PyObject* compare(int32_t op, PyObject* a, PyObject* b) {
    switch (op) {
        case 6:
            return PyBool_FromLong(a == b);
        case 7:
            return PyBool_FromLong(a != b);
        case 8:
            return truth_of(PySequence_Contains(b, a));
        case 9: {
            const int in = PySequence_Contains(b, a);
            return in < 0 ? nullptr : PyBool_FromLong(!in);
        }
        default:
            return PyObject_RichCompare(a, b, op);  // in the order of Py_LT … Py_GE
    }
}
static_assert(Py_LT == 0 && Py_LE == 1 && Py_EQ == 2 && Py_NE == 3 && Py_GT == 4 && Py_GE == 5);

PyObject* tuple_from(PyObject* const* items, int32_t n) {
    PyObject* out = PyTuple_New(n);
    for (int32_t k = 0; out && k < n; ++k) PyTuple_SET_ITEM(out, k, Py_NewRef(items[k]));
    return out;
}

PyObject* list_from(PyObject* const* items, int32_t n) {
    PyObject* out = PyList_New(n);
    for (int32_t k = 0; out && k < n; ++k) PyList_SET_ITEM(out, k, Py_NewRef(items[k]));
    return out;
}

PyObject* set_from(PyObject* const* items, int32_t n) {
    PyObject* out = PySet_New(nullptr);
    for (int32_t k = 0; out && k < n; ++k)
        if (PySet_Add(out, items[k]) < 0) Py_CLEAR(out);
    return out;
}

PyObject* dict_from(PyObject* const* items, int32_t n) {
    PyObject* out = PyDict_New();
    for (int32_t k = 0; out && k < n; k += 2)
        if (PyDict_SetItem(out, items[k], items[k + 1]) < 0) Py_CLEAR(out);
    return out;
}

bool is_iterable(PyObject* o) { return Py_TYPE(o)->tp_iter || PySequence_Check(o); }

PyObject* extend(PyObject* list, PyObject* items) {
    if (!PyList_CheckExact(items) && !PyTuple_CheckExact(items) && !is_iterable(items))
        return fail(PyExc_TypeError, "Value after * must be an iterable, not %.200s",
                    Py_TYPE(items)->tp_name);
    Object all = Object::steal(PySequence_List(items));
    const Py_ssize_t n = PyList_GET_SIZE(list);
    return all ? done(PyList_SetSlice(list, n, n, all.get())) : nullptr;
}

PyObject* update_set(PyObject* set, PyObject* items) {
    static PyObject* const name = PyUnicode_InternFromString("update");
    return PyObject_CallMethodObjArgs(set, name, items, nullptr);
}

PyObject* merge(PyObject* target, PyObject* mapping) {
    if (PyDict_Update(target, mapping) == 0) return yes();
    if (PyErr_ExceptionMatches(PyExc_AttributeError))
        fail(PyExc_TypeError, "'%.200s' object is not a mapping", Py_TYPE(mapping)->tp_name);
    return nullptr;
}

/// "module.name()", as messages about arguments have it.
Object called(PyObject* callee) {
    Object name = Object::steal(PyObject_GetAttrString(callee, "__qualname__"));
    if (!name) {
        PyErr_Clear();
        return Object::steal(PyObject_Str(callee));
    }
    Object module = Object::steal(PyObject_GetAttrString(callee, "__module__"));
    if (!module) PyErr_Clear();
    if (module && module.get() != Py_None &&
        !(PyUnicode_Check(module.get()) &&
          PyUnicode_CompareWithASCIIString(module.get(), "builtins") == 0))
        return Object::steal(PyUnicode_FromFormat("%S.%S()", module.get(), name.get()));
    return Object::steal(PyUnicode_FromFormat("%S()", name.get()));
}

/// Keyword arguments of a call, which may not be given twice.
PyObject* insert(PyObject* target, PyObject* mapping, PyObject* callee) {
    Object keys;
    if (PyDict_CheckExact(mapping)) {
        keys = Object::steal(PyDict_Keys(mapping));
    } else {
        Object method = Object::steal(PyObject_GetAttrString(mapping, "keys"));
        if (!method && PyErr_ExceptionMatches(PyExc_AttributeError)) {
            PyErr_Clear();
            Object name = called(callee);
            return name
                       ? fail(PyExc_TypeError, "%U argument after ** must be a mapping, not %.200s",
                              name.get(), Py_TYPE(mapping)->tp_name)
                       : nullptr;
        }
        Object given = method ? Object::steal(PyObject_CallNoArgs(method.get())) : Object();
        if (given) keys = Object::steal(PySequence_List(given.get()));
    }
    if (!keys) return nullptr;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(keys.get()); ++k) {
        PyObject* key = PyList_GET_ITEM(keys.get(), k);
        const int is_there = PyDict_Contains(target, key);
        if (is_there < 0) return nullptr;
        if (is_there) {
#if PY_VERSION_HEX < 0x030c0000
            // CPython 3.11 forgets to say it better while an exception is handled
            Object handled = Object::steal(PyErr_GetHandledException());
            if (handled && handled.get() != Py_None) {
                PyErr_SetObject(PyExc_KeyError, key);
                return nullptr;
            }
#endif
            Object name = called(callee);
            return name ? fail(PyExc_TypeError, "%U got multiple values for keyword argument '%S'",
                               name.get(), key)
                        : nullptr;
        }
        Object value = Object::steal(PyObject_GetItem(mapping, key));
        if (!value || PyDict_SetItem(target, key, value.get()) < 0) return nullptr;
    }
    return yes();
}

PyObject* format(int32_t convert, PyObject* value, PyObject* spec) {
    Object text;
    switch (convert) {
        case 0:
            text = Object::borrow(value);
            break;
        case 1:
            text = Object::steal(PyObject_Repr(value));
            break;
        case 2:
            text = Object::steal(PyObject_Str(value));
            break;
        default:
            text = Object::steal(PyObject_ASCII(value));
    }
    if (!text) return nullptr;
    if (PyUnicode_CheckExact(text.get()) && PyUnicode_GET_LENGTH(spec) == 0) return text.release();
    return PyObject_Format(text.get(), spec);
}

PyObject* join(PyObject* const* parts, int32_t n) {
    Object all = Object::steal(tuple_from(parts, n));
    Object nothing = Object::steal(PyUnicode_FromStringAndSize("", 0));
    return all && nothing ? PyUnicode_Join(nothing.get(), all.get()) : nullptr;
}

PyObject* make_function(Frame* frame, const FlatInstr& i, PyObject* defaults, PyObject* words) {
    const Program::Inner& inner = frame->program->inner[static_cast<size_t>(i.sub)];
    Object made = Object::steal(PyFunction_New(inner.code.get(), frame->globals));
    if (!made) return nullptr;
    if (!inner.cells.empty()) {
        Object closure = Object::steal(PyTuple_New(static_cast<Py_ssize_t>(inner.cells.size())));
        if (!closure) return nullptr;
        for (size_t k = 0; k < inner.cells.size(); ++k)
            PyTuple_SET_ITEM(closure.get(), static_cast<Py_ssize_t>(k),
                             Py_NewRef(frame->cells[inner.cells[k]]));
        if (PyFunction_SetClosure(made.get(), closure.get()) < 0) return nullptr;
    }
    if (defaults != Py_None && PyFunction_SetDefaults(made.get(), defaults) < 0) return nullptr;
    if (words != Py_None && PyFunction_SetKwDefaults(made.get(), words) < 0) return nullptr;
    return made.release();
}

PyObject* import(Frame* frame, PyObject* what) {
    PyObject *name = PyTuple_GET_ITEM(what, 0), *names = PyTuple_GET_ITEM(what, 1),
             *level = PyTuple_GET_ITEM(what, 2);
    PyObject* how = PyDict_Check(frame->builtins)
                        ? PyDict_GetItemString(frame->builtins, "__import__")
                        : nullptr;
    if (!how) return fail(PyExc_ImportError, "__import__ not found");
    return into_python([&] {
        return PyObject_CallFunctionObjArgs(how, name, frame->globals, Py_None, names, level,
                                            nullptr);
    });
}

PyObject* import_from(PyObject* module, PyObject* name) {
    if (PyObject* found = PyObject_GetAttr(module, name)) return found;
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return nullptr;
    PyErr_Clear();
    Object package = Object::steal(PyObject_GetAttrString(module, "__name__"));
    if (!package) PyErr_Clear();
    if (package && PyUnicode_Check(package.get())) {
        Object full = Object::steal(PyUnicode_FromFormat("%U.%U", package.get(), name));
        if (!full) return nullptr;
        if (PyObject* found = PyImport_GetModule(full.get())) return found;
        if (PyErr_Occurred()) return nullptr;
    }
    Object shown = package && PyUnicode_Check(package.get())
                       ? std::move(package)
                       : Object::steal(PyUnicode_FromString("<unknown module name>"));
    Object path =
        Object::steal(PyModule_Check(module) ? PyModule_GetFilenameObject(module) : nullptr);
    if (!path) PyErr_Clear();
    Object text = Object::steal(
        path ? PyUnicode_FromFormat("cannot import name %R from %R (%S)", name, shown.get(),
                                    path.get())
             : PyUnicode_FromFormat("cannot import name %R from %R (unknown location)", name,
                                    shown.get()));
    if (text) PyErr_SetImportError(text.get(), shown.get(), path ? path.get() : Py_None);
    return nullptr;
}

// ---- exceptions

void set_raised(PyObject* error) {
    PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(error))), Py_NewRef(error),
                  PyException_GetTraceback(error));
}

Object instance_of(PyObject* what, const char* otherwise) {
    if (PyExceptionInstance_Check(what)) return Object::borrow(what);
    if (!PyExceptionClass_Check(what)) {
        PyErr_SetString(PyExc_TypeError, otherwise);
        return {};
    }
    Object made = Object::steal(into_python([&] { return PyObject_CallNoArgs(what); }));
    if (made && !PyExceptionInstance_Check(made.get())) {
        fail(PyExc_TypeError,
             "calling %R should have returned an instance of BaseException, not %R", what,
             Py_TYPE(made.get()));
        return {};
    }
    return made;
}

PyObject* raise_from(PyObject* what, PyObject* cause) {
    Object error = instance_of(what, "exceptions must derive from BaseException");
    if (!error) return nullptr;
    if (cause == Py_None) {
        PyException_SetCause(error.get(), nullptr);
    } else if (cause) {
        Object of = instance_of(cause, "exception causes must derive from BaseException");
        if (!of) return nullptr;
        PyException_SetCause(error.get(), of.release());
    }
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
    return nullptr;
}

PyObject* reraise() {
    Object error = Object::steal(PyErr_GetHandledException());
    if (!error || error.get() == Py_None)
        return fail(PyExc_RuntimeError, "No active exception to reraise");
    set_raised(error.get());
    return nullptr;
}

PyObject* match(PyObject* kinds) {
    const Py_ssize_t n = PyTuple_Check(kinds) ? PyTuple_GET_SIZE(kinds) : 1;
    for (Py_ssize_t k = 0; k < n; ++k) {
        PyObject* kind = PyTuple_Check(kinds) ? PyTuple_GET_ITEM(kinds, k) : kinds;
        if (!PyExceptionClass_Check(kind))
            return fail(PyExc_TypeError,
                        "catching classes that do not inherit from BaseException is not allowed");
    }
    Object error = Object::steal(PyErr_GetHandledException());
    return PyBool_FromLong(PyErr_GivenExceptionMatches(error.get(), kinds));
}

PyObject* assertion_failed(PyObject* message) {
    Object error = Object::steal(message ? PyObject_CallOneArg(PyExc_AssertionError, message)
                                         : PyObject_CallNoArgs(PyExc_AssertionError));
    if (error) PyErr_SetObject(PyExc_AssertionError, error.get());
    return nullptr;
}

/// A special method, bound; null without an error: the type has none.
PyObject* special(PyObject* o, const char* name) {
    Object key = Object::steal(PyUnicode_InternFromString(name));
    PyObject* found = key ? _PyType_Lookup(Py_TYPE(o), key.get()) : nullptr;
    if (!found) return nullptr;
    descrgetfunc get = Py_TYPE(found)->tp_descr_get;
    return get ? get(found, o, reinterpret_cast<PyObject*>(Py_TYPE(o))) : Py_NewRef(found);
}

PyObject* exit_with(PyObject* exit, PyObject* error) {
    Object trace = Object::steal(PyException_GetTraceback(error));
    PyObject* result = into_python([&] {
        return PyObject_CallFunctionObjArgs(exit, reinterpret_cast<PyObject*>(Py_TYPE(error)),
                                            error, trace ? trace.get() : Py_None, nullptr);
    });
    return result;
}

}  // namespace

PyObject* PythonHost::evaluate(Frame* frame, const FlatInstr& i, PyObject* const* a) {
    switch (i.verb) {
        case Verb::Global:
            return global(frame, attr_name(frame, i));
        case Verb::Cell:
        case Verb::Free:
            return cell(frame, i);
        case Verb::SetCell: {
            PyCell_Set(frame->cells[i.sub], a[0]);
            return yes();
        }
        case Verb::NewCell: {
            PyObject* made = PyCell_New(nullptr);
            if (!made) return nullptr;
            Py_SETREF(frame->cells[i.sub], made);
            return yes();
        }
        case Verb::Attr:
        case Verb::Lookup:
            return PyObject_GetAttr(a[0], attr_name(frame, i));
        case Verb::SetAttr:
            return done(PyObject_SetAttr(a[0], attr_name(frame, i), a[1]));
        case Verb::DelAttr:
            return done(PyObject_SetAttr(a[0], attr_name(frame, i), nullptr));
        case Verb::Get:
            return PyObject_GetItem(a[0], a[1]);
        case Verb::SetGet:
            return done(PyObject_SetItem(a[0], a[1], a[2]));
        case Verb::DelGet:
            return done(PyObject_DelItem(a[0], a[1]));
        case Verb::Slice:
            return PySlice_New(a[0], a[1], a[2]);
        case Verb::Binary:
            return binary(i.sub, a[0], a[1]);
        case Verb::Inplace:
            return inplace(i.sub, a[0], a[1]);
        case Verb::Unary:
            return unary(i.sub, a[0]);
        case Verb::Compare:
            return compare(i.sub, a[0], a[1]);
        case Verb::Tuple:
            return tuple_from(a, i.count);
        case Verb::List:
            return list_from(a, i.count);
        case Verb::Set:
            return set_from(a, i.count);
        case Verb::Dict:
            return dict_from(a, i.count);
        case Verb::Extend:
            return extend(a[0], a[1]);
        case Verb::Update:
            return update_set(a[0], a[1]);
        case Verb::Merge:
            return merge(a[0], a[1]);
        case Verb::Insert:
            return insert(a[0], a[1], a[2]);
        case Verb::Append:
            return done(PyList_Append(a[0], a[1]));
        case Verb::Add:
            return done(PySet_Add(a[0], a[1]));
        case Verb::Put:
            return done(PyDict_SetItem(a[0], a[1], a[2]));
        case Verb::ToTuple:
            return PyList_AsTuple(a[0]);
        case Verb::Format:
            return format(i.sub, a[0], a[1]);
        case Verb::Join:
            return join(a, i.count);
        case Verb::Super:
            return PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PySuper_Type), a[0],
                                                a[1], nullptr);
        case Verb::Iter:
            return PyObject_GetIter(a[0]);
        case Verb::MakeFunction:
            return make_function(frame, i, a[0], a[1]);
        case Verb::Import:
            return import(frame, names_of(frame, i));
        case Verb::ImportFrom:
            return import_from(a[0], attr_name(frame, i));
        case Verb::Raise:
            return raise_from(a[0], i.count > 1 ? a[1] : nullptr);
        case Verb::Reraise:
            return reraise();
        case Verb::Match:
            return match(a[0]);
        case Verb::Fail:
            return assertion_failed(i.count ? a[0] : nullptr);
        case Verb::Exit:
            return into_python([&] {
                return PyObject_CallFunctionObjArgs(a[0], Py_None, Py_None, Py_None, nullptr);
            });
        case Verb::ExitError:
            return exit_with(a[0], a[1]);
        default:
            return fail(PyExc_SystemError, "[program] no such instruction");
    }
}

bool PythonHost::unpack(Frame* frame, const FlatInstr& i, PyObject* value) {
    const int32_t* outs = frame->code->numbers.data() + i.out;
    const int32_t n = i.target;
    PyObject** regs = frame->registers;
    auto put = [&](int32_t k, PyObject* o) { Py_XSETREF(regs[outs[k]], o); };
    if (i.sub < 0 && (PyTuple_CheckExact(value) || PyList_CheckExact(value)) &&
        PySequence_Fast_GET_SIZE(value) == n) {
        Object kept = Object::borrow(value);
        for (int32_t k = 0; k < n; ++k) put(k, Py_NewRef(PySequence_Fast_GET_ITEM(value, k)));
        return true;
    }
    Object iterator = Object::steal(PyObject_GetIter(value));
    if (!iterator) {
        if (PyErr_ExceptionMatches(PyExc_TypeError) && !is_iterable(value))
            fail(PyExc_TypeError, "cannot unpack non-iterable %.200s object",
                 Py_TYPE(value)->tp_name);
        return false;
    }
    const int32_t before = i.sub < 0 ? n : i.sub;
    std::vector<Object> items;
    for (int32_t k = 0; k < before; ++k) {
        Object item = Object::steal(PyIter_Next(iterator.get()));
        if (!item) {
            if (PyErr_Occurred()) return false;
            if (i.sub < 0)
                fail(PyExc_ValueError, "not enough values to unpack (expected %d, got %d)", n, k);
            else
                fail(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %d)",
                     before + i.names, k);
            return false;
        }
        items.push_back(std::move(item));
    }
    if (i.sub < 0) {
        Object more = Object::steal(PyIter_Next(iterator.get()));
        if (more) fail(PyExc_ValueError, "too many values to unpack (expected %d)", n);
        if (PyErr_Occurred()) return false;
    } else {
        Object rest = Object::steal(PySequence_List(iterator.get()));
        if (!rest) return false;
        const Py_ssize_t size = PyList_GET_SIZE(rest.get()), after = i.names;
        if (size < after) {
            fail(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %zd)",
                 before + i.names, before + size);
            return false;
        }
        std::vector<Object> last;
        for (Py_ssize_t k = size - after; k < size; ++k)
            last.push_back(Object::borrow(PyList_GET_ITEM(rest.get(), k)));
        if (PyList_SetSlice(rest.get(), size - after, size, nullptr) < 0) return false;
        items.push_back(std::move(rest));
        for (Object& o : last) items.push_back(std::move(o));
    }
    for (int32_t k = 0; k < n; ++k) put(k, items[static_cast<size_t>(k)].release());
    return true;
}

PyObject* PythonHost::next(PyObject* iterator, bool& done) {
    PyObject* value = into_python([&] { return (*Py_TYPE(iterator)->tp_iternext)(iterator); });
    if (value) return value;
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return nullptr;
        PyErr_Clear();
    }
    done = true;
    return nullptr;
}

bool PythonHost::enter(Frame* frame, const FlatInstr& i, PyObject* manager) {
    const char* kind = Py_TYPE(manager)->tp_name;
    Object enter = Object::steal(special(manager, "__enter__"));
    if (!enter) {
        if (!PyErr_Occurred())
            fail(PyExc_TypeError, "'%.200s' object does not support the context manager protocol",
                 kind);
        return false;
    }
    Object exit = Object::steal(special(manager, "__exit__"));
    if (!exit) {
        if (!PyErr_Occurred())
            fail(PyExc_TypeError,
                 "'%.200s' object does not support the context manager protocol (missed __exit__ "
                 "method)",
                 kind);
        return false;
    }
    PyObject* value = into_python([&] { return PyObject_CallNoArgs(enter.get()); });
    if (!value) return false;
    Py_XSETREF(frame->registers[i.target], exit.release());
    Py_XSETREF(frame->registers[i.out], value);
    return true;
}

// ---- calls

Target target_of(PyObject* callee) {
    if (PyFunction_Check(callee)) return {callee, nullptr, nullptr};
    if (PyMethod_Check(callee)) {
        PyObject* function = PyMethod_GET_FUNCTION(callee);
        if (PyObject* inner = compiled_callee(function)) function = inner;
        if (PyFunction_Check(function)) return {function, PyMethod_GET_SELF(callee), nullptr};
        return {};
    }
    bool in_place = false;
    if (PyObject* forward = plain_forward_of(callee, &in_place))
        return {forward, callee, callee, in_place};
    if (PyObject* inner = compiled_callee(callee)) return target_of(inner);
    return {};
}

namespace {

#if PY_VERSION_HEX < 0x030c0000
bool enter_recursion() { return !Py_EnterRecursiveCall(""); }
void leave_recursion() { Py_LeaveRecursiveCall(); }
#else
/// Py_EnterRecursiveCall counts calls of C there; a program's are Python's.
bool enter_recursion() {
    PyThreadState* state = PyThreadState_Get();
    if (--state->py_recursion_remaining >= 0) return true;
    ++state->py_recursion_remaining;
    ++state->recursion_headroom;
    PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
    --state->recursion_headroom;
    return false;
}
void leave_recursion() { ++PyThreadState_Get()->py_recursion_remaining; }
#endif

}  // namespace

Frame* PythonHost::new_frame(PyObject* function, const Program* program) {
    const int32_t size = program->code.registers + program->cells;
    const size_t bytes = sizeof(Frame) + static_cast<size_t>(size) * sizeof(PyObject*);
    auto* frame = new (Pool::allocate(bytes)) Frame;
    frame->registers = reinterpret_cast<PyObject**>(frame + 1);
    frame->size = size;
    frame->cells = frame->registers + program->code.registers;
    std::fill_n(frame->registers, size, nullptr);
    frame->code = &program->code;
    frame->program = program;
    frame->function = Py_NewRef(function);
    frame->module = nullptr;
    frame->gained = false;
    frame->globals = PyFunction_GET_GLOBALS(function);
    frame->builtins = reinterpret_cast<PyFunctionObject*>(function)->func_builtins;
    return frame;
}

Frame* PythonHost::bind(const Target& target, const Program* program, PyObject* const* args,
                        size_t n, PyObject* names) {
    if (!target.self) return bind(target.function, program, args, n, names);
    const size_t words = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
    SmallVector<PyObject*, 12> with_self;
    with_self.push_back(target.self);
    for (size_t k = 0; k < n + words; ++k) with_self.push_back(args[k]);
    return bind(target.function, program, with_self.data(), n + 1, names);
}

PyObject* spread(PyObject* words, std::vector<PyObject*>& args) {
    PyObject* names = PyTuple_New(PyDict_GET_SIZE(words));
    Py_ssize_t at = 0, k = 0;
    PyObject *key, *value;
    while (names && PyDict_Next(words, &at, &key, &value)) {
        PyTuple_SET_ITEM(names, k++, Py_NewRef(key));
        args.push_back(value);
    }
    return names;
}

Frame* PythonHost::bind(PyObject* function, const Program* program, PyObject* const* args, size_t n,
                        PyObject* names) {
    const Program& p = *program;
    const auto positional = static_cast<size_t>(p.positional);
    const size_t params = positional + static_cast<size_t>(p.keyword_only);
    if (n > positional && !p.has_args) return nullptr;
    Frame* frame = new_frame(function, program);
    PyObject** regs = frame->registers;
    auto refuse = [&]() -> Frame* {
        free(frame);
        return nullptr;
    };
    for (size_t k = 0; k < std::min(n, positional); ++k) regs[k] = Py_NewRef(args[k]);
    size_t last = params;
    if (p.has_args) {
        const size_t more = n > positional ? n - positional : 0;
        PyObject* rest = tuple_from(args + std::min(n, positional), static_cast<int32_t>(more));
        regs[last++] = rest;
        if (!rest) return refuse();
    }
    PyObject* words = nullptr;
    if (p.has_kwargs && !(words = regs[last] = PyDict_New())) return refuse();
    const Py_ssize_t given = names ? PyTuple_GET_SIZE(names) : 0;
    PyObject* variables = given ? PyCode_GetVarnames(p.of) : nullptr;
    Object kept = Object::steal(variables);
    for (Py_ssize_t k = 0; k < given; ++k) {
        PyObject* name = PyTuple_GET_ITEM(names, k);
        PyObject* value = args[n + static_cast<size_t>(k)];
        size_t at = static_cast<size_t>(p.positional_only);
        while (at < params && PyTuple_GET_ITEM(variables, static_cast<Py_ssize_t>(at)) != name)
            ++at;
        if (at == params) {
            at = static_cast<size_t>(p.positional_only);
            while (at < params &&
                   PyUnicode_Compare(PyTuple_GET_ITEM(variables, static_cast<Py_ssize_t>(at)),
                                     name) != 0)
                ++at;
        }
        if (at < params) {
            if (regs[at]) return refuse();
            regs[at] = Py_NewRef(value);
        } else if (!words || PyDict_SetItem(words, name, value) < 0) {
            return refuse();
        }
    }
    PyObject* defaults = PyFunction_GET_DEFAULTS(function);
    const size_t optional = defaults ? static_cast<size_t>(PyTuple_GET_SIZE(defaults)) : 0;
    for (size_t k = 0; k < positional; ++k) {
        if (regs[k]) continue;
        if (k + optional < positional) return refuse();
        regs[k] = Py_NewRef(
            PyTuple_GET_ITEM(defaults, static_cast<Py_ssize_t>(k + optional - positional)));
    }
    if (p.keyword_only) {
        PyObject* by_name = PyFunction_GET_KW_DEFAULTS(function);
        for (size_t k = positional; k < params; ++k) {
            if (regs[k]) continue;
            if (!kept) kept = Object::steal(PyCode_GetVarnames(p.of));
            PyObject* value =
                by_name ? PyDict_GetItemWithError(
                              by_name, PyTuple_GET_ITEM(kept.get(), static_cast<Py_ssize_t>(k)))
                        : nullptr;
            if (!value) return refuse();
            regs[k] = Py_NewRef(value);
        }
    }
    const int32_t own = p.function.own_cells;
    for (int32_t k = 0; k < own; ++k)
        if (!(frame->cells[k] = PyCell_New(nullptr))) return refuse();
    PyObject* closure = PyFunction_GET_CLOSURE(function);
    for (int32_t k = own; k < p.cells; ++k)
        frame->cells[k] = Py_NewRef(PyTuple_GET_ITEM(closure, k - own));
    return frame;
}

void PythonHost::free(Frame* frame) {
    for (int32_t k = 0; k < frame->size; ++k) Py_XDECREF(frame->registers[k]);
    Py_XDECREF(frame->module);
    Py_DECREF(frame->function);
    Pool::free(frame, sizeof(Frame) + static_cast<size_t>(frame->size) * sizeof(PyObject*));
}

bool PythonHost::start(Frame* frame) {
    if (!pause(frame) || !enter_recursion()) return false;
    frame->caller = running->frame;
    running->frame = frame;
    return true;
}

namespace {

/// Note [Gains]
void note_gain(const Frame* frame) {
    constexpr int32_t kMostIdle = 64;
    Program& p = *const_cast<Program*>(frame->program);
    p.has_gained |= frame->gained;
    if (p.has_gained || ++p.idle < kMostIdle || !reach) return;
    p.left_by = reach->number;
    p.idle = 0;
}

}  // namespace

void PythonHost::leave(Frame* frame, PyObject*& result) {
    leave_recursion();
    note_gain(frame);
    Frame* const outer = frame->caller    ? static_cast<Frame*>(frame->caller)
                         : running->outer ? running->outer->frame
                                          : nullptr;
    if (outer) outer->gained |= frame->gained;
    running->frame = static_cast<Frame*>(frame->caller);
    if (!result && frame->module) {
        Object args = Object::steal(
            tuple_from(frame->registers + 1,
                       std::count_if(frame->registers + 1,
                                     frame->registers + std::max(1, frame->program->positional),
                                     [](PyObject* o) { return o != nullptr; })));
        if (args) module_failed(frame->module, args.get());
    }
}

namespace {

#if PY_VERSION_HEX < 0x030d0000
constexpr auto get_method = _PyObject_GetMethod;
#else
int get_method(PyObject* o, PyObject* name, PyObject** method) {
    *method = PyObject_GetAttr(o, name);
    return 0;
}
#endif

template <class F>
PyObject* call_seen(Frame* frame, PyObject* callee, F&& call) {
    if (!looks_at_frames(callee)) return into_python(call);
    const deferred::Stay until_then;  // no other fiber runs amid frames that are not its own
    const VisibleFrames seen(frame);
    return into_python(call);
}
PyObject* call_python(Frame* frame, PyObject* callee, PyObject* const* args, size_t n,
                      PyObject* names) {
    return call_seen(frame, callee, [&] { return PyObject_Vectorcall(callee, args, n, names); });
}
PyObject* call_python(Frame* frame, PyObject* callee, PyObject* all, PyObject* words) {
    return call_seen(frame, callee, [&] { return PyObject_Call(callee, all, words); });
}

}  // namespace

Frame* PythonHost::call(Frame* frame, const FlatInstr& i, PyObject* const* args,
                        PyObject*& result) {
    PyObject* names = names_of(frame, i);
    PyObject* callee = args[0];
    Object found;
    if (i.verb == Verb::Method) {
        PyObject* method = nullptr;
        const int is_unbound = get_method(args[0], attr_name(frame, i), &method);
        if (!method) {
            fails_at_lookup_ = true;
            return nullptr;
        }
        found = Object::steal(method);
        callee = method;
        if (is_unbound) {
            const size_t words = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
            const size_t n = static_cast<size_t>(i.count) - words;
            if (PyFunction_Check(callee)) {
                Program* program = program_of(callee);
                Frame* inner = program ? bind(callee, program, args, n, names) : nullptr;
                if (inner) {
                    if (start(inner)) return inner;
                    free(inner);
                    return nullptr;
                }
                if (PyErr_Occurred()) return nullptr;
            }
            result = call_python(frame, callee, args, n, names);
            return nullptr;
        }
    }
    Object all, words_tuple;
    std::vector<PyObject*> flat;
    PyObject* const* given = args + 1;
    size_t n = static_cast<size_t>(i.count) - 1;
    if (i.verb == Verb::CallEx) {
        if (!PyTuple_CheckExact(args[1])) {
            if (!is_iterable(args[1])) {
                Object name = called(callee);
                if (name)
                    fail(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s",
                         name.get(), Py_TYPE(args[1])->tp_name);
                return nullptr;
            }
            all = Object::steal(PySequence_Tuple(args[1]));
            if (!all) return nullptr;
        } else {
            all = Object::borrow(args[1]);
        }
        PyObject* words = args[2] == Py_None ? nullptr : args[2];
        const Target target = target_of(callee);
        Program* program = target.function ? program_of(target.function) : nullptr;
        if (!program) {
            if (!PyErr_Occurred()) result = call_python(frame, callee, all.get(), words);
            return nullptr;
        }
        n = static_cast<size_t>(PyTuple_GET_SIZE(all.get()));
        flat.assign(PySequence_Fast_ITEMS(all.get()), PySequence_Fast_ITEMS(all.get()) + n);
        if (words && PyDict_GET_SIZE(words)) {
            words_tuple = Object::steal(spread(words, flat));
            if (!words_tuple) return nullptr;
            bool text = true;
            for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(words_tuple.get()); ++k)
                text &= PyUnicode_Check(PyTuple_GET_ITEM(words_tuple.get(), k)) != 0;
            if (!text) {  // CPython has the words for it
                result = PyObject_Call(callee, all.get(), words);
                return nullptr;
            }
        }
        names = words_tuple.get();
        given = flat.data();
    } else if (names) {
        n -= static_cast<size_t>(PyTuple_GET_SIZE(names));
    }
    const Target target = target_of(callee);
    Program* program = target.function ? program_of(target.function) : nullptr;
    if (!program) {
        if (!PyErr_Occurred()) result = call_python(frame, callee, given, n, names);
        return nullptr;
    }
    Frame* inner = bind(target, program, given, n, names);
    if (!inner) {
        if (!PyErr_Occurred()) result = call_python(frame, callee, given, n, names);
        return nullptr;
    }
    inner->module = Py_XNewRef(target.module);
    if (start(inner)) return inner;
    free(inner);
    return nullptr;
}

/// What CPython's loop does on its way back, and where a function begins: signals and, when their turn comes,
/// other threads.
bool PythonHost::pause(Frame*) {
    if (PyErr_CheckSignals() < 0) return false;
    if (++pauses_ & 7) return true;
    timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    // A thread that waits asks for its turn after 5 ms in which nobody else had one: what lets go
    // more often, and takes the lock again, is never asked.
    const int64_t turn = now.tv_sec * 100 + now.tv_nsec / 10'000'000;
    if (std::exchange(turn_, turn) != turn) {
        PyThreadState* state = PyEval_SaveThread();
        into_python([&] { PyEval_RestoreThread(state); });
    }
    return true;
}

// ---- exceptions

void PythonHost::catch_error(PyObject*& error, PyObject*& before) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyException_SetTraceback(value, trace ? trace : Py_None);
    before = PyErr_GetHandledException();
    if (!before) before = Py_NewRef(Py_None);
    PyErr_SetHandledException(value);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    error = value;
}

void PythonHost::handle(PyObject* error) { PyErr_SetHandledException(error); }

void PythonHost::raise(PyObject* error) { set_raised(error); }

void PythonHost::unbound(Frame* frame, int32_t r) {
    Object name = py_str(frame->program->function.registers[static_cast<size_t>(r)]);
    const bool outer = frame->code->instrs[static_cast<size_t>(frame->pc)].verb == Verb::Outer;
    name_error(outer ? PyExc_NameError : PyExc_UnboundLocalError,
               outer ? kUnboundFree : kUnboundLocal, name.get());
}

namespace {

/// One more entry before those of the exception that is set.
void add_entry(PyObject* code, int32_t offset, const Frame& of) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    Object frame = frame_of(reinterpret_cast<PyCodeObject*>(code), offset, of);
    PyObject* entry = nullptr;
    if (frame) {
        const int line = PyCode_Addr2Line(reinterpret_cast<PyCodeObject*>(code), offset);
        entry = PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyTraceBack_Type), "OOii",
                                      trace ? trace : Py_None, frame.get(), offset, line);
    }
    if (entry) Py_XSETREF(trace, entry);
    else PyErr_Clear();
    PyErr_Restore(type, value, trace);
}

}  // namespace

void PythonHost::note(Frame* frame, int32_t pc) {
    const Program& p = *frame->program;
    const FlatInstr& i = p.code.instrs[static_cast<size_t>(pc)];
    if (i.verb == Verb::Reraise) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        Object handled = Object::steal(PyErr_GetHandledException());
        const bool again = value == handled.get();
        PyErr_Restore(type, value, trace);
        if (again) return;
    }
    int32_t at = std::exchange(fails_at_lookup_, false) ? i.target : i.offset;
    int32_t number = at >= 0 ? at >> kInlinedShift : 0;
    while (number) {
        const Program::Inlined& one = p.inlined[static_cast<size_t>(number) - 1];
        add_entry(one.code.get(), at & ((1 << kInlinedShift) - 1), *frame);
        number = one.parent;
        at = one.offset;
    }
    add_entry(reinterpret_cast<PyObject*>(p.of), std::max(at, 0), *frame);
}

// ---- runs

bool programs_run() {
    constexpr uint32_t kOthers = kAutocastMode | kMapMode | kWatchMode | kTraceMode | kPlainMode;
    if (mode & kOthers) return false;
    PyThreadState* state = PyThreadState_Get();
    return !state->c_tracefunc && !state->c_profilefunc;
}

PyObject* run_program(const Target& target, PyObject* const* args, size_t n, PyObject* names,
                      bool& handled) {
    handled = false;
    Program* program = program_of(target.function);
    if (!program) return nullptr;
    Frame* frame = PythonHost::bind(target, program, args, n, names);
    if (!frame) {
        handled = PyErr_Occurred();
        return nullptr;
    }
    handled = true;
    frame->module = Py_XNewRef(target.module);
    // on the heap, as all does that is read from fibers: the caller's stack may be away meanwhile
    const std::unique_ptr<Running> here(new Running{nullptr, python_frame(), running});
    struct Restore {
        Running* outer;
        ~Restore() { running = outer; }
    } restore{running};
    running = here.get();
    PythonHost host;
    PyObject* result = nullptr;
    if (host.start(frame)) {
        program::Machine<PythonHost> machine(host);
        result = machine.run(frame);
    }
    PythonHost::free(frame);
    return result;
}

}  // namespace weft::python
