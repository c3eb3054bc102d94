/// `_C._Package`: a package (src/native) from Python. Reading guide: values in, values out, exceptions, the type.
#include <cstring>
#include <map>
#include <memory>

#include "native/host.h"
#include "native/tensors.h"
#include "python/turns.h"
#include "python/type.h"

#include <frameobject.h>

namespace weft::python {

/// In results.cpp: what a call of the op `name` with these outputs returns.
PyObject* named_results(std::string_view name, const std::vector<std::string>& fields,
                        PyObject* items);

namespace {

using native::Kind;
using native::Raw;
using native::Thing;

struct PyPackage {
    PyObject_HEAD native::Context* context;
    /// Python's classes of records and named tuples that came in, or were made for those that go out.
    std::map<const native::Class*, Object>* classes;
};
PyTypeObject package_type = blank_type();

/// CPython's guard of nested calls, for values in values, and a bound for programs that have raised
/// that of CPython beyond what the stack has room for. `depth`: of who goes through the values.
class Nested {
public:
    explicit Nested(int& depth) : depth_(depth) {
        checked(Py_EnterRecursiveCall(" in a value of a package") ? -1 : 0);
        if (depth_ == kDeepest) {
            Py_LeaveRecursiveCall();
            PyErr_SetString(PyExc_RecursionError,
                            "maximum recursion depth exceeded in a value of a package");
            throw PythonError{};
        }
        ++depth_;
    }
    ~Nested() {
        --depth_;
        Py_LeaveRecursiveCall();
    }
    Nested(const Nested&) = delete;

private:
    static constexpr int kDeepest = 1000;  // as of values that weft_run takes
    int& depth_;
};

// ---- values in

/// Values of one call on their way in: what is one object stays one.
class Incoming {
public:
    explicit Incoming(PyPackage& package) : package_(package) {}

    Thing operator()(PyObject* o) {
        if (o == Py_None) return native::none();
        if (is_tensor(o)) return Thing(handle(o));
        if (PyBool_Check(o)) return native::of_bool(o == Py_True);
        if (PyLong_Check(o)) return whole(o);
        if (PyFloat_Check(o)) return native::of_double(PyFloat_AS_DOUBLE(o));
        if (PyUnicode_Check(o)) return native::of_text(to_text(o));
        const Nested nested(depth_);
        if (PyTuple_CheckExact(o)) return native::tuple_of(items(o));
        if (PyList_CheckExact(o) || PyDict_CheckExact(o)) return container(o);
        return other(o);
    }

private:
    static Thing whole(PyObject* o) {
        int overflow = 0;
        const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
        WEFT_EXPECT(!overflow, Overflow, "package", "ints of 64 bits", "one beyond them");
        if (v == -1 && PyErr_Occurred()) throw PythonError{};
        return native::of_int(v);
    }

    std::vector<Thing> items(PyObject* sequence) {
        std::vector<Thing> out;
        for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(sequence); ++k)
            out.push_back((*this)(PySequence_Fast_GET_ITEM(sequence, k)));
        return out;
    }

    /// Of a list or dict, which may hold itself.
    Thing container(PyObject* o) {
        Thing& made = made_[o];
        if (made) return made;
        made = PyList_Check(o) ? native::new_list() : native::new_dict();
        const Thing out = made;
        if (PyList_Check(o)) {
            for (Thing& item : items(o)) out.as<native::List>()->items.push_back(item.release());
            return out;
        }
        Object pairs = Object::take(PyDict_Items(o));
        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(pairs.get()); ++k) {
            PyObject* pair = PyList_GET_ITEM(pairs.get(), k);
            const Thing key = (*this)(PyTuple_GET_ITEM(pair, 0));
            const Thing value = (*this)(PyTuple_GET_ITEM(pair, 1));
            out.as<native::Dict>()->set(key.get(), value.get());
        }
        return out;
    }

    Thing other(PyObject* o) {
        if (PyComplex_Check(o)) {
            const Py_complex v = PyComplex_AsCComplex(o);
            return native::of_complex({v.real, v.imag});
        }
        if (PyTuple_Check(o) && Py_TYPE(o)->tp_name == std::string_view("torch.Size"))
            return native::tuple_of(items(o), &native::size_class());
        if (PyAnySet_Check(o)) {
            Thing out = native::new_set();
            for (const Thing& item : items(Object::take(PySequence_List(o)).get()))
                out.as<native::Dict>()->set(item.get(), Raw());
            return out;
        }
        if (PyBytes_Check(o))
            return native::bytes_of(
                {PyBytes_AS_STRING(o), static_cast<size_t>(PyBytes_GET_SIZE(o))});
        if (PySlice_Check(o)) {
            const auto* s = reinterpret_cast<PySliceObject*>(o);
            const Thing parts[] = {(*this)(s->start), (*this)(s->stop), (*this)(s->step)};
            return native::make_thing<native::Slice>(parts[0].get(), parts[1].get(),
                                                     parts[2].get());
        }
        if (PyRange_Check(o)) {
            auto part = [&](const char* name) {
                return native::int_in(whole(Object::borrow(o).attr(name).get()).get());
            };
            return native::make_thing<native::Range>(part("start"), part("stop"), part("step"));
        }
        if (o == Py_Ellipsis) return Thing::steal(Raw::immediate(Kind::Ellipsis));
        DType t;
        if (!PyType_Check(o) && to_dtype(o, t))
            return Thing::steal(Raw::immediate(Kind::DType, static_cast<uint64_t>(t)));
        if (Py_TYPE(o)->tp_name == std::string_view("torch.device") ||
            short_name(o) == std::string_view("device"))
            return native::of_text(to_text(Object::take(PyObject_Str(o)).get()));
        if (PyTuple_Check(o)) return named_tuple(o);
        if (PyList_Check(o)) return native::list_of(items(o));
        return record(o);
    }

    static const char* short_name(PyObject* o) {
        const char* name = Py_TYPE(o)->tp_name;
        const char* dot = std::strrchr(name, '.');
        return dot ? dot + 1 : name;
    }

    static bool is_data(PyObject* o) {
        return PyObject_HasAttrString(reinterpret_cast<PyObject*>(Py_TYPE(o)),
                                      "__dataclass_fields__");
    }

    const native::Class& class_for(PyObject* o, std::vector<std::string> fields, bool is_tuple) {
        const native::Class& of =
            package_.context->class_like({short_name(o), std::move(fields), is_tuple, is_data(o)});
        (*package_.classes)[&of] = Object::borrow(reinterpret_cast<PyObject*>(Py_TYPE(o)));
        return of;
    }

    Thing named_tuple(PyObject* o) {
        Object names = Object::steal(
            PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(o)), "_fields"));
        if (!names || !PyTuple_Check(names.get()) ||
            PyTuple_GET_SIZE(names.get()) != PyTuple_GET_SIZE(o)) {
            PyErr_Clear();
            return native::tuple_of(items(o));
        }
        std::vector<std::string> fields;
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names.get()); ++k)
            fields.emplace_back(to_text(PyTuple_GET_ITEM(names.get(), k)));
        return native::tuple_of(items(o), &class_for(o, std::move(fields), true));
    }

    /// An object by its attributes.
    Thing record(PyObject* o) {
        Object attributes;
        if (!PyType_Check(o) && !PyCallable_Check(o) &&
            PyType_HasFeature(Py_TYPE(o), Py_TPFLAGS_HEAPTYPE))
            attributes = Object::steal(PyObject_GetAttrString(o, "__dict__"));
        if (!attributes || !PyDict_Check(attributes.get())) {
            PyErr_Clear();
            fail(ErrorKind::Type, "package",
                 "tensors, numbers, texts, None, tuples, lists, dicts, sets and objects with "
                 "attributes that are such",
                 Py_TYPE(o)->tp_name);
        }
        Thing& made = made_[o];
        if (made) return made;
        Object pairs = Object::take(PyDict_Items(attributes.get()));
        const Py_ssize_t n = PyList_GET_SIZE(pairs.get());
        std::vector<std::string> fields;
        for (Py_ssize_t k = 0; k < n; ++k)
            fields.emplace_back(to_text(PyTuple_GET_ITEM(PyList_GET_ITEM(pairs.get(), k), 0)));
        made = native::make_thing<native::Record>(&class_for(o, std::move(fields), false));
        const Thing out = made;
        for (Py_ssize_t k = 0; k < n; ++k)
            out.as<native::Record>()->fields[static_cast<size_t>(k)] =
                (*this)(PyTuple_GET_ITEM(PyList_GET_ITEM(pairs.get(), k), 1)).release();
        return out;
    }

    PyPackage& package_;
    std::map<PyObject*, Thing> made_;
    int depth_ = 0;
};

// ---- values out

Object error_object(PyPackage& package, const native::Error& e);

/// Values of one call on their way out.
class Outgoing {
public:
    explicit Outgoing(PyPackage& package) : package_(package) {}

    Object operator()(Raw r) {
        switch (r.kind()) {
            case Kind::None:
                return none();
            case Kind::Bool:
                return Object::take(PyBool_FromLong(r.truth_of_bool()));
            case Kind::Int:
                return py_int(native::int_in(r));
            case Kind::Float:
                return Object::take(PyFloat_FromDouble(native::double_in(r)));
            case Kind::Complex: {
                const auto v = native::number_as_complex(r);
                return Object::take(PyComplex_FromDoubles(v.real(), v.imag()));
            }
            case Kind::Text:
                return py_str(native::text_in(r));
            case Kind::Tensor:
                return wrapped(r.tensor());
            case Kind::DType:
                return Object::borrow(dtype_object(native::dtype_in(r)));
            case Kind::Ellipsis:
                return Object::borrow(Py_Ellipsis);
            default: {
                const Nested nested(depth_);
                return other(r);
            }
        }
    }
    Object tuple(Raw r) {
        const native::Items items = native::items_in(r);
        Object out = Object::take(PyTuple_New(items.size));
        for (int64_t k = 0; k < items.size; ++k)
            PyTuple_SET_ITEM(out.get(), k, (*this)(items[k]).release());
        return out;
    }

private:
    Object other(Raw r) {
        switch (r.kind()) {
            case Kind::Tuple:
                return r.as<native::Tuple>()->of ? named_tuple(r) : tuple(r);
            case Kind::List:
            case Kind::Dict:
            case Kind::Record: {
                if (const auto found = made_.find(r.bits()); found != made_.end())
                    return found->second;
                return r.is(Kind::List) ? list(r) : r.is(Kind::Dict) ? dict(r) : record(r);
            }
            case Kind::Set:
            case Kind::View: {
                const Thing items = native::list_of(native::all_of(r));
                Object made = list(items.get());
                return r.is(Kind::Set) ? Object::take(PySet_New(made.get())) : made;
            }
            case Kind::Slice: {
                const auto* s = r.as<native::Slice>();
                return Object::take(PySlice_New((*this)(s->start).get(), (*this)(s->stop).get(),
                                                (*this)(s->step).get()));
            }
            case Kind::Range: {
                const auto* s = r.as<native::Range>();
                return Object::borrow(reinterpret_cast<PyObject*>(&PyRange_Type))
                    .call(py_int(s->start), py_int(s->stop), py_int(s->step));
            }
            case Kind::Type:
                if (const char* name = r.lasting<native::Type>()->name)
                    return import_attr(r.lasting<native::Type>()->full ? "weft" : "builtins", name);
                [[fallthrough]];
            case Kind::Error:
                if (r.is(Kind::Error)) return error_object(package_, *r.as<native::Error>());
                [[fallthrough]];
            default:
                fail(ErrorKind::Type, "package", "a value that Python has", native::type_name(r));
        }
    }

    Object list(Raw r) {
        Object& made = made_[r.bits()];
        made = Object::take(PyList_New(0));
        const Object out = made;
        for (int64_t k = 0; k < native::items_in(r).size; ++k)
            checked(PyList_Append(out.get(), (*this)(native::items_in(r)[k]).get()));
        return out;
    }
    Object dict(Raw r) {
        Object& made = made_[r.bits()];
        made = Object::take(PyDict_New());
        const Object out = made;
        for (const auto& e : r.as<native::Dict>()->entries)
            if (e.key)
                checked(PyDict_SetItem(out.get(), (*this)(e.key).get(), (*this)(e.value).get()));
        return out;
    }

    /// Of the class that came in; else one that is made once.
    template <class F>
    const Object& class_for(const native::Class& of, F&& make) {
        Object& known = (*package_.classes)[&of];
        if (!known) known = make();
        return known;
    }

    Object named_tuple(Raw r) {
        const native::Class& of = *r.as<native::Tuple>()->of;
        if (&of == &native::size_class()) {
            Dims dims;
            for (Raw item : native::items_in(r)) dims.push_back(native::int_in(item));
            return Object::take(size_object(dims));
        }
        if (&of == &native::bytes_class()) {
            const std::string bytes = native::bytes_in(r);
            return Object::take(PyBytes_FromStringAndSize(bytes.data(), std::ssize(bytes)));
        }
        const std::string_view name = of.name;
        const Object items = tuple(r);
        if (constexpr std::string_view kOurs = "torch.return_types."; name.starts_with(kOurs)) {
            const std::string_view own = name.substr(kOurs.size());
            const Object kind =
                import_attr("weft.return_types", "KINDS").attr("get").call(py_str(own));
            if (kind.get() != Py_None)
                return Object::take(PyObject_CallObject(
                    kind.attr("_make").get(), Object::take(PyTuple_Pack(1, items.get())).get()));
            return Object::take(named_results(own, of.fields, items.get()));
        }
        const Object type = class_for(of, [&] {
            Object fields = Object::take(PyTuple_New(static_cast<Py_ssize_t>(of.fields.size())));
            for (size_t k = 0; k < of.fields.size(); ++k)
                PyTuple_SET_ITEM(fields.get(), static_cast<Py_ssize_t>(k),
                                 py_str(of.fields[k]).release());
            return import_attr("collections", "namedtuple").call(py_str(name), fields);
        });
        return Object::take(PyObject_CallObject(type.get(), items.get()));
    }

    Object record(Raw r) {
        const auto* from = r.as<native::Record>();
        const Object type = class_for(*from->of, [&] {
            if (from->of->is_data) {
                Object fields = Object::take(PyList_New(0));
                for (const std::string& name : from->of->fields)
                    checked(PyList_Append(fields.get(), py_str(name).get()));
                return import_attr("dataclasses", "make_dataclass")
                    .call(py_str(from->of->name), fields);
            }
            return Object::borrow(reinterpret_cast<PyObject*>(&PyType_Type))
                .call(py_str(from->of->name), Object::take(PyTuple_New(0)),
                      Object::take(PyDict_New()));
        });
        Object& made = made_[r.bits()];
        made = Object::borrow(reinterpret_cast<PyObject*>(&PyBaseObject_Type))
                   .attr("__new__")
                   .call(type);
        const Object out = made;
        const Object attributes = out.attr("__dict__");
        auto put = [&](const std::string& name, Raw value) {
            if (value)
                checked(PyDict_SetItem(attributes.get(), py_str(name).get(), (*this)(value).get()));
        };
        for (size_t k = 0; k < from->of->fields.size(); ++k)
            put(from->of->fields[k], from->fields[k]);
        for (const auto& [name, value] : from->others) put(name, value);
        return out;
    }

    PyPackage& package_;
    std::map<uint64_t, Object> made_;
    int depth_ = 0;
};

// ---- exceptions

Object error_object(PyPackage& package, const native::Error& e) {
    if (e.other) {
        try {
            std::rethrow_exception(e.other);
        } catch (...) {
            set_python_error();
        }
        return take_exception();
    }
    const bool ours = e.type == &native::types::LinAlgError;
    Object type = import_attr(ours ? "weft.linalg" : "builtins", e.type->name);
    Object error =
        Object::take(PyObject_CallObject(type.get(), Outgoing(package).tuple(e.args).get()));
    if (e.has_cause)
        PyException_SetCause(error.get(),
                             e.cause ? error_object(package, *e.cause.as<native::Error>()).release()
                                     : nullptr);
    return error;
}

/// Sets the exception with which a run ended, with the lines of the package in its traceback.
void set_error(PyPackage& package, const native::Error& e) {
    Object error = error_object(package, e);
    Object trace = Object::steal(PyException_GetTraceback(error.get()));
    Object globals = Object::take(PyDict_New());
    for (const auto& line : e.lines) {
        Object code = Object::take(reinterpret_cast<PyObject*>(
            PyCode_NewEmpty(line.function->file.c_str(), line.function->name.c_str(), line.line)));
        Object frame = Object::take(reinterpret_cast<PyObject*>(
            PyFrame_New(PyThreadState_Get(), reinterpret_cast<PyCodeObject*>(code.get()),
                        globals.get(), nullptr)));
        trace = Object::borrow(reinterpret_cast<PyObject*>(&PyTraceBack_Type))
                    .call(trace ? trace : python::none(), frame, py_int(0), py_int(line.line));
    }
    if (trace) PyException_SetTraceback(error.get(), trace.get());
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
    if (!e.told.empty()) tell_call(e.told);
    else forget_failed();
}

// ---- ops of libraries (Note [Libraries] in native/package.h)

/// `name` of weft/_library_ops.py.
Object of_library_ops(const char* name) { return import_attr("weft._library_ops", name); }

/// Raises what Python raised: the program may catch it as the nearest class of exceptions that it has.
[[noreturn]] void raise_pythons() {
    const std::exception_ptr kept = native::keep_other();
    Object error;
    try {
        std::rethrow_exception(kept);
    } catch (...) {
        set_python_error();
        error = take_exception();
    }
    Object bases =
        Object::borrow(reinterpret_cast<PyObject*>(Py_TYPE(error.get()))).attr("__mro__");
    const native::Type* type = nullptr;
    for (Py_ssize_t k = 0; !type && k < PyTuple_GET_SIZE(bases.get()); ++k)
        type = native::type_named(to_text(
            Object::take(PyObject_GetAttrString(PyTuple_GET_ITEM(bases.get(), k), "__name__"))
                .get()));
    std::vector<Thing> words;
    words.push_back(native::of_text(to_text(Object::take(PyObject_Str(error.get())).get())));
    Thing made = native::make_error(type ? *type : native::types::Other, std::move(words));
    made.as<native::Error>()->other = kept;
    throw native::Raised{std::move(made)};
}

Thing call_library(PyPackage& package, std::string_view name, const native::Given& given) {
    try {
        Outgoing out(package);
        Object args = Object::take(PyTuple_New(given.n));
        for (int64_t k = 0; k < given.n; ++k)
            PyTuple_SET_ITEM(args.get(), k, out(given.args[k]).release());
        Object words = Object::take(PyDict_New());
        for (int64_t k = 0; k < given.words(); ++k)
            checked(PyDict_SetItem(words.get(),
                                   py_str((*given.names)[static_cast<size_t>(k)]).get(),
                                   out(given.args[given.n + k]).get()));
        const Object op = of_library_ops("op_named").call(py_str(name));
        const Object made = Object::take(PyObject_Call(op.get(), args.get(), words.get()));
        return Incoming(package)(made.get());
    } catch (const PythonError&) {
        raise_pythons();
    }
}

// ---- the type

void print_to_python(std::string_view text) {
    Object out = Object::borrow(PySys_GetObject("stdout"));
    if (!out || out.get() == Py_None) return;
    out.attr("write").call(py_str(text));
}

void warn_in_python(std::string_view text) { checked(warn_user(std::string(text).c_str())); }

PyPackage& package_of(PyObject* self) { return *reinterpret_cast<PyPackage*>(self); }

PyObject* package_new(PyTypeObject* type, PyObject* args, PyObject*) {
    const char* json;
    Py_ssize_t size;
    PyObject* tensors;
    if (!PyArg_ParseTuple(args, "s#O!:_Package", &json, &size, &PyDict_Type, &tensors))
        return nullptr;
    return guarded([&] {
        auto find = [&](const std::string& name) {
            return PyDict_GetItemWithError(tensors, py_str(name).get());
        };
        auto package = native::Package::parse(
            {json, static_cast<size_t>(size)},
            [&](const std::string& name) {
                PyObject* found = find(name);
                return found && is_tensor(found);
            },
            [](const std::string& name) {
                return of_library_ops("op_named").call(py_str(name)).get() != Py_None;
            });
        auto context = std::make_unique<native::Context>(
            std::move(package), [&](const std::string& name) { return handle(find(name)); });
        context->on_pause = [turns = Turns()]() mutable {
            checked(PyErr_CheckSignals());
            turns.offer();
        };
        context->print = print_to_python;
        context->warn = warn_in_python;
        Object self = Object::take(type->tp_alloc(type, 0));
        package_of(self.get()).context = context.release();
        package_of(self.get()).classes = new std::map<const native::Class*, Object>;
        package_of(self.get()).context->library =
            [of = &package_of(self.get())](std::string_view name, const native::Given& given) {
                return call_library(*of, name, given);
            };
        return self.release();
    });
}

void package_dealloc(PyObject* self) {
    delete package_of(self).classes;
    delete package_of(self).context;
    Py_TYPE(self)->tp_free(self);
}

/// call(entry, args, kwargs)
PyObject* package_call(PyObject* self, PyObject* given) {
    const char* entry;
    PyObject *args, *words;
    if (!PyArg_ParseTuple(given, "sO!O!:call", &entry, &PyTuple_Type, &args, &PyDict_Type, &words))
        return nullptr;
    PyPackage& package = package_of(self);
    const Object alive = Object::borrow(self);
    return guarded([&]() -> PyObject* {
        const native::Function& function = package.context->package().entry(entry);
        std::vector<Thing> values;
        std::vector<std::string> names;
        Incoming incoming(package);
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(args); ++k)
            values.push_back(incoming(PyTuple_GET_ITEM(args, k)));
        PyObject *key, *value;
        for (Py_ssize_t at = 0; PyDict_Next(words, &at, &key, &value);) {
            names.emplace_back(to_text(key));
            values.push_back(incoming(value));
        }
        const std::vector<Raw> raw = native::borrowed(values);
        try {
            return Outgoing(package)(package.context
                                         ->call(function, {raw.data(), PyTuple_GET_SIZE(args),
                                                           names.empty() ? nullptr : &names})
                                         .get())
                .release();
        } catch (const native::Raised& raised) {
            set_error(package, *raised.error.as<native::Error>());
            throw PythonError{};
        }
    });
}

/// field(object, name)
PyObject* package_field(PyObject* self, PyObject* given) {
    Py_ssize_t number;
    const char* name;
    if (!PyArg_ParseTuple(given, "ns:field", &number, &name)) return nullptr;
    return guarded([&]() -> PyObject* {
        PyPackage& package = package_of(self);
        const Thing found = package.context->field(static_cast<size_t>(number), name);
        WEFT_EXPECT(found, Value, "package", "an attribute of an object of the package",
                    text("'", name, "' of number ", number));
        return Outgoing(package)(found.get()).release();
    });
}

/// set_field(object, name, value)
PyObject* package_set_field(PyObject* self, PyObject* given) {
    Py_ssize_t number;
    const char* name;
    PyObject* value;
    if (!PyArg_ParseTuple(given, "nsO:set_field", &number, &name, &value)) return nullptr;
    return guarded([&] {
        PyPackage& package = package_of(self);
        package.context->set_field(static_cast<size_t>(number), name, Incoming(package)(value));
        return none().release();
    });
}

/// places(): for each place (Note [Stretches]) its function, lines, how many stretches, steps and runs it has, and why
/// the last trace ended.
PyObject* package_places(PyObject* self, PyObject*) {
    return guarded([&] {
        Object out = Object::take(PyList_New(0));
        for (const auto& p : package_of(self).context->places()) {
            Object one = Object::take(Py_BuildValue(
                "{ss si si sz sL sL sL}", "function", p.function->name.c_str(), "line", p.line,
                "end", p.end, "why", p.why, "stretches", static_cast<long long>(p.stretches),
                "steps", static_cast<long long>(p.steps), "runs", static_cast<long long>(p.runs)));
            checked(PyList_Append(out.get(), one.get()));
        }
        return out.release();
    });
}

PyObject* package_by_plan(PyObject* self, void*) {
    return PyBool_FromLong(package_of(self).context->by_plan);
}
int package_set_by_plan(PyObject* self, PyObject* value, void*) {
    const int wanted = value ? PyObject_IsTrue(value) : 1;
    if (wanted >= 0) package_of(self).context->by_plan = wanted != 0;
    return wanted < 0 ? -1 : 0;
}

PyObject* package_entries(PyObject* self, void*) {
    return guarded([&] {
        const auto& entries = package_of(self).context->package().entries();
        Object out = Object::take(PyTuple_New(static_cast<Py_ssize_t>(entries.size())));
        for (size_t k = 0; k < entries.size(); ++k)
            PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(k),
                             py_str(entries[k].first).release());
        return out.release();
    });
}

/// methods(): the names of methods that values of programs have, those that are ops left out.
PyObject* package_known_methods(PyObject*, PyObject*) {
    return guarded([&] {
        Object out = Object::take(PySet_New(nullptr));
        for (const std::string_view name : native::method_names())
            checked(PySet_Add(out.get(), py_str(std::string(name)).get()));
        return out.release();
    });
}

PyMethodDef package_methods[] = {
    {"call", package_call, METH_VARARGS,
     "call(entry, args, kwargs): calls an entry with values of Python's."},
    {"field", package_field, METH_VARARGS,
     "field(object, name): an attribute of an object of the package."},
    {"places", package_places, METH_NOARGS,
     "places(): where parts of it run as plans, how often, and why they end."},
    {"methods", package_known_methods, METH_NOARGS | METH_STATIC,
     "methods(): the names of methods that values of programs have, ops left out."},
    {"set_field", package_set_field, METH_VARARGS, "set_field(object, name, value): writes it."},
    {}};
PyGetSetDef package_getset[] = {
    {"entries", package_entries, nullptr, "The names of what may be called.", nullptr},
    {"by_plan", package_by_plan, package_set_by_plan,
     "Whether what is met again may run as a plan.", nullptr},
    {}};

}  // namespace

void init_package(PyObject* module) {
    native::keep_other = keep_exception;
    PyTypeObject& t = package_type;
    t.tp_doc = "_Package(json, tensors): functions that run without Python's (src/native).";
    t.tp_new = package_new;
    t.tp_dealloc = package_dealloc;
    t.tp_methods = package_methods;
    t.tp_getset = package_getset;
    add_type(module, t, "weft._C._Package", sizeof(PyPackage));
}

}  // namespace weft::python
