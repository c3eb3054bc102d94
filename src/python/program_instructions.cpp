/// Reading guide: `evaluate` is one case for each verb.
#include "python/program_instructions.h"

#include "python/hooks.h"

namespace weft::python {

using program::FlatInstr;
using program::Verb;

namespace instruction {

PyObject* fail(PyObject* type, const char* format, ...) {
    va_list list;
    va_start(list, format);
    PyErr_FormatV(type, format, list);
    va_end(list);
    return nullptr;
}

PyObject* name_error(PyObject* type, const char* format, PyObject* name) {
    PyErr_Format(type, format, name);
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    PyErr_NormalizeException(&kind, &value, &trace);
    if (value && PyObject_SetAttrString(value, "name", name) < 0) PyErr_Clear();
    PyErr_Restore(kind, value, trace);
    return nullptr;
}

void set_raised(PyObject* error) {
    PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(error))), Py_NewRef(error),
                  PyException_GetTraceback(error));
}

PyObject* tuple_from(PyObject* const* items, int32_t n) {
    PyObject* out = PyTuple_New(n);
    for (int32_t k = 0; out && k < n; ++k) PyTuple_SET_ITEM(out, k, Py_NewRef(items[k]));
    return out;
}

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

}  // namespace instruction

using namespace instruction;

namespace {

PyObject* yes() { return Py_NewRef(Py_None); }
PyObject* done(int result) { return result < 0 ? nullptr : yes(); }
PyObject* truth_of(int result) { return result < 0 ? nullptr : PyBool_FromLong(result); }

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

PyObject* cell(Frame* frame, const FlatInstr& i) {
    if (PyObject* found = PyCell_GET(frame->cells[i.sub])) return Py_NewRef(found);
    const bool own = i.verb == Verb::Cell;
    return name_error(own ? PyExc_UnboundLocalError : PyExc_NameError,
                      own ? kUnboundLocal : kUnboundFree, attr_name(frame, i));
}

/// As the instruction: a subclass of str may take part.
PyObject* remainder(PyObject* a, PyObject* b) {
    return PyUnicode_CheckExact(a) && (PyUnicode_CheckExact(b) || !PyUnicode_Check(b))
               ? PyUnicode_Format(a, b)
               : PyNumber_Remainder(a, b);
}
PyObject* power(PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); }
PyObject* inplace_power(PyObject* a, PyObject* b) { return PyNumber_InPlacePower(a, b, Py_None); }

/// In the order of program::kBinary.
const binaryfunc kBinaryOf[] = {PyNumber_Add,
                                PyNumber_Subtract,
                                PyNumber_Multiply,
                                PyNumber_TrueDivide,
                                PyNumber_FloorDivide,
                                remainder,
                                power,
                                PyNumber_MatrixMultiply,
                                PyNumber_And,
                                PyNumber_Or,
                                PyNumber_Xor,
                                PyNumber_Lshift,
                                PyNumber_Rshift};
const binaryfunc kInplaceOf[] = {PyNumber_InPlaceAdd,
                                 PyNumber_InPlaceSubtract,
                                 PyNumber_InPlaceMultiply,
                                 PyNumber_InPlaceTrueDivide,
                                 PyNumber_InPlaceFloorDivide,
                                 PyNumber_InPlaceRemainder,
                                 inplace_power,
                                 PyNumber_InPlaceMatrixMultiply,
                                 PyNumber_InPlaceAnd,
                                 PyNumber_InPlaceOr,
                                 PyNumber_InPlaceXor,
                                 PyNumber_InPlaceLshift,
                                 PyNumber_InPlaceRshift};
static_assert(std::size(kBinaryOf) == std::size(program::kBinary));
static_assert(std::size(kInplaceOf) == std::size(program::kBinary));

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

Object exception_of(PyObject* what, const char* otherwise) {
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
    Object error = exception_of(what, "exceptions must derive from BaseException");
    if (!error) return nullptr;
    if (cause == Py_None) {
        PyException_SetCause(error.get(), nullptr);
    } else if (cause) {
        Object of = exception_of(cause, "exception causes must derive from BaseException");
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
            return kBinaryOf[i.sub](a[0], a[1]);
        case Verb::Inplace:
            return kInplaceOf[i.sub](a[0], a[1]);
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

}  // namespace weft::python
