/// Spans that Python opens: a function's call as an event, and `profiler.record_function`.
#include "ops/watch.h"

#include <optional>

#include "python/type.h"
#include "python/watch_tables.h"

namespace weft::python {

std::vector<Tensor> tensors_among(PyObject* const* items, Py_ssize_t count) {
    std::vector<Tensor> out;
    for (Py_ssize_t i = 0; i < count; ++i)
        if (is_tensor(items[i])) out.push_back(handle(items[i]));
    return out;
}

namespace {

/// _within(kind, name, function, *args, **kwargs): calls it, as an event of that kind, of which the
/// tensors among `args` and among its results are the operands.
PyObject* within(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    return guarded([&] {
        WEFT_EXPECT(count >= 3, Type, "_within", "a kind, a name, a function and its arguments",
                    std::to_string(count));
        const std::string_view wanted = to_text(args[0]);
        size_t kind = 0;
        while (kind < kind_names().size() && wanted != kind_names()[kind]) ++kind;
        WEFT_EXPECT(kind < kind_names().size(), Value, "_within", "a kind of event", text(wanted));
        ops::WatchSpan span(static_cast<ops::SpanKind>(kind), nullptr, to_text(args[1]));
        const std::vector<Tensor> inputs = tensors_among(args + 3, count - 3);
        span.give(inputs);
        Object out = Object::take(into_python([&] {
            return PyObject_Vectorcall(args[2], args + 3, static_cast<size_t>(count) - 3, names);
        }));
        PyObject* one = out.get();
        if (PyTuple_Check(one))
            span.take(inputs, tensors_among(PySequence_Fast_ITEMS(one), PyTuple_GET_SIZE(one)));
        else span.take(inputs, tensors_among(&one, 1));
        return out.release();
    });
}

/// Base of `profiler.record_function`: a span of the user's, between __enter__ and __exit__.
struct NamedObject {
    PyObject_HEAD std::string* name;
    std::optional<ops::WatchSpan>* span;
};
PyTypeObject named_span_type = blank_type();

NamedObject& named(PyObject* self) { return *reinterpret_cast<NamedObject*>(self); }

PyObject* new_named(PyTypeObject* type, PyObject* args, PyObject* given) {
    static const char* words[] = {"name", nullptr};
    PyObject* name;
    if (!PyArg_ParseTupleAndKeywords(args, given, "O:record_function", const_cast<char**>(words),
                                     &name))
        return nullptr;
    return guarded([&] {
        WEFT_EXPECT(PyUnicode_Check(name), Type, "record_function", "a name, a str",
                    Py_TYPE(name)->tp_name);
        Object self = Object::take(type->tp_alloc(type, 0));
        named(self.get()).name = new std::string(to_text(name));
        named(self.get()).span = new std::optional<ops::WatchSpan>();
        return self.release();
    });
}
PyObject* enter_named(PyObject* self, PyObject*) {
    return guarded([&] {
        NamedObject& of = named(self);
        WEFT_EXPECT(!*of.span, Runtime, "record_function", "a span that is not open", *of.name,
                    "make one for each time");
        of.span->emplace(ops::SpanKind::Named, nullptr, *of.name);
        return Py_NewRef(self);
    });
}
PyObject* exit_named(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    std::optional<ops::WatchSpan>& span = *named(self).span;
    if (span && count > 0 && args[0] != Py_None) span->fail();
    span.reset();
    Py_RETURN_NONE;
}
PyObject* get_name(PyObject* self, void*) {
    return guarded([&] { return py_str(*named(self).name).release(); });
}
void free_named(PyObject* self) {
    delete named(self).span;
    delete named(self).name;
    Py_TYPE(self)->tp_free(self);
}
PyMethodDef named_methods[] = {{"__enter__", enter_named, METH_NOARGS, nullptr},
                               {"__exit__", c_function(exit_named), METH_FASTCALL, nullptr},
                               {}};
PyGetSetDef named_getset[] = {{"name", get_name, nullptr, "What it shows as.", nullptr}, {}};

PyMethodDef spans_functions[] = {
    {"_within", c_function(within), METH_FASTCALL | METH_KEYWORDS,
     "_within(kind, name, function, *args, **kwargs): calls it, as an event of that kind."},
    {}};

}  // namespace

void init_spans(PyObject* module) {
    checked(PyModule_AddFunctions(module, spans_functions));
    named_span_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    named_span_type.tp_new = new_named;
    named_span_type.tp_dealloc = free_named;
    named_span_type.tp_methods = named_methods;
    named_span_type.tp_getset = named_getset;
    named_span_type.tp_doc = "_Named(name): a span of the user's.";
    add_type(module, named_span_type, "weft._C._Named", sizeof(NamedObject));
}

}  // namespace weft::python
