/// `_C._Package`: a package (src/native) from Python. Its values are package_values.h's.
#include "native/tensors.h"
#include "python/package_values.h"
#include "python/turns.h"
#include "python/type.h"

namespace weft::python {
namespace {

using native::Raw;
using native::Thing;

struct PyPackage {
    PyObject_HEAD PackageState* state;
};
PyTypeObject package_type = blank_type();

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

Thing call_library(PackageState& package, std::string_view name, const native::Given& given) {
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

PackageState& package_of(PyObject* self) { return *reinterpret_cast<PyPackage*>(self)->state; }

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
        auto state = std::make_unique<PackageState>();
        state->context = std::make_unique<native::Context>(
            std::move(package), [&](const std::string& name) { return handle(find(name)); });
        native::Context& context = *state->context;
        context.on_pause = [turns = Turns()]() mutable {
            checked(PyErr_CheckSignals());
            turns.offer();
        };
        context.print = print_to_python;
        context.warn = warn_in_python;
        context.library = [of = state.get()](std::string_view name, const native::Given& given) {
            return call_library(*of, name, given);
        };
        Object self = Object::take(type->tp_alloc(type, 0));
        reinterpret_cast<PyPackage*>(self.get())->state = state.release();
        return self.release();
    });
}

void package_dealloc(PyObject* self) {
    delete reinterpret_cast<PyPackage*>(self)->state;
    Py_TYPE(self)->tp_free(self);
}

/// call(entry, args, kwargs)
PyObject* package_call(PyObject* self, PyObject* given) {
    const char* entry;
    PyObject *args, *words;
    if (!PyArg_ParseTuple(given, "sO!O!:call", &entry, &PyTuple_Type, &args, &PyDict_Type, &words))
        return nullptr;
    PackageState& package = package_of(self);
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
            set_package_error(package, *raised.error.as<native::Error>());
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
        PackageState& package = package_of(self);
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
        PackageState& package = package_of(self);
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

/// tensor_methods(): those of tensors, and what each comes to.
PyObject* package_tensor_methods(PyObject*, PyObject*) {
    return guarded([&] {
        constexpr const char* kNames[] = {"values", "layout", "same", "self"};
        Object out = Object::take(PyDict_New());
        for (const native::Builtin* m : native::tensor_methods())
            checked(PyDict_SetItem(out.get(), py_str(std::string(m->name)).get(),
                                   py_str(kNames[static_cast<size_t>(m->to)]).get()));
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
    {"tensor_methods", package_tensor_methods, METH_NOARGS | METH_STATIC,
     "tensor_methods(): of methods of tensors that are no ops, whether they come to what values "
     "say, to what layouts say, to a tensor of the same memory or to the tensor itself."},
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
