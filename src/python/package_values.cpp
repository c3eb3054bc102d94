/// Reading guide: values in, values out, exceptions.
#include "python/package_values.h"

#include <cstring>

#include "native/tensors.h"

#include <frameobject.h>

namespace weft::python {

/// In results.cpp: what a call of the op `name` with these outputs returns.
PyObject* named_results(std::string_view name, const std::vector<std::string>& fields,
                        PyObject* items);

namespace {

using native::Kind;
using native::Raw;
using native::Thing;

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

Thing whole(PyObject* o) {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    WEFT_EXPECT(!overflow, Overflow, "package", "ints of 64 bits", "one beyond them");
    if (v == -1 && PyErr_Occurred()) throw PythonError{};
    return native::of_int(v);
}

const char* short_name(PyObject* o) {
    const char* name = Py_TYPE(o)->tp_name;
    const char* dot = std::strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/// What a class of Python's says of its objects, as `told_of` of weft/closing/classes.py has it.
void tell_class(PyTypeObject* type, native::Class& of) {
    const Object kind = Object::borrow(reinterpret_cast<PyObject*>(type));
    const Object told = import_attr("weft.closing.classes", "told_of").call(kind);
    auto found = [&](const char* key) { return PyDict_GetItemString(told.get(), key); };
    auto names = [&](const char* key, std::vector<std::string>& to) {
        PyObject* list = found(key);
        for (Py_ssize_t k = 0; list && k < PyList_GET_SIZE(list); ++k)
            to.emplace_back(to_text(PyList_GET_ITEM(list, k)));
    };
    of.is_data = found("data");
    of.is_itself = found("itself");
    of.is_opaque = found("opaque");
    of.unhashable = found("unhashable");
    names("uncompared", of.uncompared);
    names("unshown", of.unshown);
    if (PyObject* name = found("qualname")) of.qualname = to_text(name);
}

}  // namespace

// ---- values in

Tensor plain_tensor(PyObject* o, std::string_view who) {
    if (!is_its_memory(o)) [[unlikely]]
        fail(ErrorKind::Type, who, "dense tensors, of plain memory with strides",
             text("one of ", Py_TYPE(o)->tp_name, ", which has more than its memory"),
             "pass what it consists of, as to_dense(), values() or to_local() give it");
    return handle(o);
}

Thing Incoming::operator()(PyObject* o) {
    if (o == Py_None) return native::none();
    if (is_tensor(o)) return Thing(plain_tensor(o, "package"));
    if (PyBool_Check(o)) return native::of_bool(o == Py_True);
    if (PyLong_Check(o)) return whole(o);
    if (PyFloat_Check(o)) return native::of_double(PyFloat_AS_DOUBLE(o));
    if (PyUnicode_Check(o)) return native::of_text(to_text(o));
    const Nested nested(depth_);
    if (PyTuple_CheckExact(o)) return native::tuple_of(items(o));
    if (PyList_CheckExact(o) || PyDict_CheckExact(o)) return container(o);
    return other(o);
}

std::vector<Thing> Incoming::items(PyObject* sequence) {
    std::vector<Thing> out;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(sequence); ++k)
        out.push_back((*this)(PySequence_Fast_GET_ITEM(sequence, k)));
    return out;
}

Thing Incoming::container(PyObject* o) {
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

Thing Incoming::other(PyObject* o) {
    if (PyComplex_Check(o)) {
        const Py_complex v = PyComplex_AsCComplex(o);
        return native::of_complex({v.real, v.imag});
    }
    if (PyTuple_Check(o) && Py_TYPE(o)->tp_name == std::string_view("torch.Size"))
        return native::tuple_of(items(o), &native::size_class());
    if (PyAnySet_Check(o)) {
        Thing out = native::new_set(PyFrozenSet_Check(o));
        for (const Thing& item : items(Object::take(PySequence_List(o)).get()))
            out.as<native::Dict>()->set(item.get(), Raw());
        return out;
    }
    if (PyBytes_Check(o))
        return native::bytes_of({PyBytes_AS_STRING(o), static_cast<size_t>(PyBytes_GET_SIZE(o))});
    if (PySlice_Check(o)) {
        const auto* s = reinterpret_cast<PySliceObject*>(o);
        const Thing parts[] = {(*this)(s->start), (*this)(s->stop), (*this)(s->step)};
        return native::make_thing<native::Slice>(parts[0].get(), parts[1].get(), parts[2].get());
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

const native::Class& Incoming::class_for(PyObject* o, std::vector<std::string> fields,
                                         bool is_tuple) {
    native::Class made{short_name(o), std::move(fields), is_tuple};
    if (!is_tuple) tell_class(Py_TYPE(o), made);
    const native::Class& of = state_.context->class_like(made);
    state_.classes[&of] = Object::borrow(reinterpret_cast<PyObject*>(Py_TYPE(o)));
    return of;
}

Thing Incoming::named_tuple(PyObject* o) {
    Object names =
        Object::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(o)), "_fields"));
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

Thing Incoming::record(PyObject* o) {
    Object attributes;
    if (!PyType_Check(o) && !PyCallable_Check(o) &&
        PyType_HasFeature(Py_TYPE(o), Py_TPFLAGS_HEAPTYPE))
        attributes = Object::steal(PyObject_GetAttrString(o, "__dict__"));
    if (!attributes || !PyDict_Check(attributes.get())) {
        PyErr_Clear();
        fail(ErrorKind::Type, "package",
             "tensors, numbers, texts, None, tuples, lists, dicts, sets and objects with "
             "attributes that are such",
             Py_TYPE(o)->tp_name, PyDict_Check(o) ? "dict() makes a dict of it" : "");
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

// ---- values out

namespace {
Object error_object(PackageState& state, const native::Error& e);
}  // namespace

Object Outgoing::operator()(Raw r) {
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

Object Outgoing::tuple(Raw r) {
    const native::Items items = native::items_in(r);
    Object out = Object::take(PyTuple_New(items.size));
    for (int64_t k = 0; k < items.size; ++k)
        PyTuple_SET_ITEM(out.get(), k, (*this)(items[k]).release());
    return out;
}

Object Outgoing::other(Raw r) {
    switch (r.kind()) {
        case Kind::Tuple:
            return r.as<native::Tuple>()->of ? named_tuple(r) : tuple(r);
        case Kind::List:
        case Kind::Dict:
        case Kind::Record: {
            if (const auto found = made_.find(r.bits()); found != made_.end()) return found->second;
            return r.is(Kind::List) ? list(r) : r.is(Kind::Dict) ? dict(r) : record(r);
        }
        case Kind::Set:
        case Kind::View:
        case Kind::Iterator: {
            const Thing items = native::list_of(native::all_of(r));
            Object made = list(items.get());
            if (!r.is(Kind::Set)) return made;
            return Object::take(r.as<native::Dict>()->frozen ? PyFrozenSet_New(made.get())
                                                             : PySet_New(made.get()));
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
            if (r.is(Kind::Error)) return error_object(state_, *r.as<native::Error>());
            [[fallthrough]];
        default:
            fail(ErrorKind::Type, "package", "a value that Python has", native::type_name(r));
    }
}

Object Outgoing::list(Raw r) {
    Object& made = made_[r.bits()];
    made = Object::take(PyList_New(0));
    const Object out = made;
    for (int64_t k = 0; k < native::items_in(r).size; ++k)
        checked(PyList_Append(out.get(), (*this)(native::items_in(r)[k]).get()));
    return out;
}

Object Outgoing::dict(Raw r) {
    Object& made = made_[r.bits()];
    made = Object::take(PyDict_New());
    const Object out = made;
    for (const auto& e : r.as<native::Dict>()->entries)
        if (e.key) checked(PyDict_SetItem(out.get(), (*this)(e.key).get(), (*this)(e.value).get()));
    return out;
}

Object Outgoing::named_tuple(Raw r) {
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
        const Object kind = import_attr("weft.return_types", "KINDS").attr("get").call(py_str(own));
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

Object Outgoing::record(Raw r) {
    const auto* from = r.as<native::Record>();
    const Object type = class_for(*from->of, [&] {
        const native::Class& of = *from->of;
        auto names = [](const std::vector<std::string>& all) {
            Object out = Object::take(PyList_New(0));
            for (const std::string& name : all)
                checked(PyList_Append(out.get(), py_str(name).get()));
            return out;
        };
        auto flag = [](bool is) { return Object::borrow(is ? Py_True : Py_False); };
        const Object make =
            import_attr("weft.closing.loaded", of.is_data ? "dataclass_of" : "class_of");
        if (!of.is_data) return make.call(py_str(of.name), py_str(of.shown_name()));
        return make.call(py_str(of.name), py_str(of.shown_name()), names(of.fields),
                         names(of.uncompared), names(of.unshown), flag(of.is_itself),
                         flag(of.is_opaque), flag(of.unhashable));
    });
    Object& made = made_[r.bits()];
    made =
        Object::borrow(reinterpret_cast<PyObject*>(&PyBaseObject_Type)).attr("__new__").call(type);
    const Object out = made;
    const Object attributes = out.attr("__dict__");
    auto put = [&](const std::string& name, Raw value) {
        if (value)
            checked(PyDict_SetItem(attributes.get(), py_str(name).get(), (*this)(value).get()));
    };
    for (size_t k = 0; k < from->of->fields.size(); ++k) put(from->of->fields[k], from->fields[k]);
    for (const auto& [name, value] : from->others) put(name, value);
    return out;
}

// ---- exceptions

namespace {

Object error_object(PackageState& state, const native::Error& e) {
    if (e.other) {
        try {
            std::rethrow_exception(e.other);
        } catch (...) {
            set_python_error();
        }
        return take_exception();
    }
    const char* home = e.type == &native::types::LinAlgError           ? "weft.linalg"
                       : e.type == &native::types::FrozenInstanceError ? "dataclasses"
                                                                       : "builtins";
    Object type = import_attr(home, e.type->name);
    Object error =
        Object::take(PyObject_CallObject(type.get(), Outgoing(state).tuple(e.args).get()));
    if (e.has_cause)
        PyException_SetCause(error.get(),
                             e.cause ? error_object(state, *e.cause.as<native::Error>()).release()
                                     : nullptr);
    return error;
}

}  // namespace

void set_package_error(PackageState& state, const native::Error& e) {
    Object error = error_object(state, e);
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

}  // namespace weft::python
