/// `_C._Log`: what weft/see/recording.py records with.
///
/// The tables come to Python as bytes, of the layouts that `_Log.layouts` names for NumPy.
#include "watch/log.h"

#include "deferred/batcher.h"
#include "python/object.h"

#include <cstring>

namespace weft::python {
namespace {

using ops::SpanKind, watch::Log;

/// A log that keeps the modules whose calls it hears of: addresses are their names until it ends.
class PyLog final : public Log {
public:
    PyLog(PyObject* self, const watch::Options& options) : Log(options), self(self) {}
    int64_t open(SpanKind kind, std::string_view name, const void* object) override {
        const size_t known = objects.size();
        const int64_t number = Log::open(kind, name, object);
        if (kind == SpanKind::Module && objects.size() > known) {
            modules.resize(objects.size());
            auto* module = static_cast<PyObject*>(const_cast<void*>(object));
            modules.back() = Object::borrow(module);
        }
        return number;
    }
    void hold() override { Py_INCREF(self); }
    void drop() override { Py_DECREF(self); }

    PyObject* const self;         ///< the object that owns it
    int scopes = 0;               ///< recordings that need it
    std::vector<Object> modules;  ///< by name; none for others
};

struct LogObject {
    PyObject_HEAD PyLog* log;
};
PyTypeObject log_type = blank_type();

PyLog& log_of(PyObject* self) { return *reinterpret_cast<LogObject*>(self)->log; }

PyObject* new_log(PyTypeObject* type, PyObject* args, PyObject*) {
    int times;
    long long sample;
    if (!PyArg_ParseTuple(args, "pL:_Log", &times, &sample)) return nullptr;
    return guarded([&] {
        Object self = Object::take(type->tp_alloc(type, 0));
        const watch::Options options{.times = times != 0, .sample = std::max(sample, 0LL)};
        reinterpret_cast<LogObject*>(self.get())->log = new PyLog(self.get(), options);
        return self.release();
    });
}

/// The log that hears of what runs on this thread, or null.
PyLog* running_log() {
    auto* log = static_cast<PyLog*>(ops::scopes.watcher);
    return log && !log->finished() ? log : nullptr;
}

/// The thread's watcher is gone; examples that wait may still have it among their surroundings, so that
/// in a batch it stays alive.
void leave() {
    auto* log = static_cast<PyLog*>(ops::scopes.watcher);
    mode &= ~uint32_t{kWatchMode};
    ops::scopes.watcher = nullptr;
    ops::scopes.inside = -1;
    if (log && !deferred::Batcher::current().batch) log->drop();
}

PyObject* start(PyObject* self, PyObject*) {
    return guarded([&] {
        PyLog& log = log_of(self);
        PyLog* around = running_log();
        WEFT_EXPECT(!around || around == &log, Runtime, "record", "no other recording under way",
                    "one");
        if (!around) {
            leave();  // of one that another thread has ended
            log.hold();
            ops::scopes.watcher = &log;
        }
        mode |= kWatchMode;
        ++log.scopes;
        return Py_NewRef(Py_None);
    });
}

/// On another thread than that which started it, it is ended all the same: nothing is heard of there.
PyObject* stop(PyObject* self, PyObject*) {
    PyLog& log = log_of(self);
    if (--log.scopes > 0) Py_RETURN_NONE;
    log.finish();
    if (ops::scopes.watcher == &log) leave();
    Py_RETURN_NONE;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    for (const Object& module : log_of(self).modules) Py_VISIT(module.get());
    return 0;
}
int clear(PyObject* self) {
    log_of(self).modules.clear();
    return 0;
}
void dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    delete &log_of(self);
    Py_TYPE(self)->tp_free(self);
}

template <class T>
PyObject* as_bytes(const watch::Rows<T>& rows) {
    PyObject* out =
        PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(rows.size() * sizeof(T)));
    if (!out) return nullptr;
    char* to = PyBytes_AS_STRING(out);
    rows.for_pieces([&](const T* first, size_t count) {
        std::memcpy(to, first, count * sizeof(T));
        to += count * sizeof(T);
    });
    return out;
}

PyObject* get_events(PyObject* self, void*) {
    log_of(self).name_calls();
    return as_bytes(log_of(self).events);
}
PyObject* get_values(PyObject* self, void*) { return as_bytes(log_of(self).values); }
PyObject* get_operands(PyObject* self, void*) { return as_bytes(log_of(self).operands); }
PyObject* get_dims(PyObject* self, void*) { return as_bytes(log_of(self).dims); }
PyObject* get_memories(PyObject* self, void*) { return as_bytes(log_of(self).memories); }
PyObject* get_found(PyObject* self, void*) { return as_bytes(log_of(self).found); }
PyObject* get_statistics(PyObject* self, void*) { return as_bytes(log_of(self).statistics); }
PyObject* get_count(PyObject* self, void*) { return PyLong_FromSize_t(log_of(self).events.size()); }
PyObject* get_sample(PyObject* self, void*) {
    return PyLong_FromLongLong(log_of(self).options().sample);
}
PyObject* get_seconds_per_tick(PyObject* self, void*) {
    return PyFloat_FromDouble(log_of(self).seconds_per_tick());
}

/// (text, module or None) of each name.
PyObject* get_names(PyObject* self, void*) {
    return guarded([&] {
        PyLog& log = log_of(self);
        Object out = Object::take(PyList_New(0));
        for (size_t i = 0; i < log.names.size(); ++i) {
            Object module = i < log.modules.size() && log.modules[i] ? log.modules[i] : none();
            Object pair =
                Object::take(Py_BuildValue("(NO)", py_str(log.names[i]).release(), module.get()));
            checked(PyList_Append(out.get(), pair.get()));
        }
        return out.release();
    });
}

/// (code object, line) of each site.
PyObject* get_sites(PyObject* self, void*) {
    return guarded([&] {
        Object out = Object::take(PyList_New(0));
        for (const Site& site : log_of(self).sites) {
            auto* code = static_cast<PyCodeObject*>(site.code());
            Object pair =
                Object::take(Py_BuildValue("(Oi)", code, PyCode_Addr2Line(code, site.offset())));
            checked(PyList_Append(out.get(), pair.get()));
        }
        return out.release();
    });
}

/// address(tensor): by which the tables name those that were there.
PyObject* address(PyObject*, PyObject* tensor) {
    return guarded(
        [&] { return PyLong_FromVoidPtr(expect_tensor(tensor, "_Log.address").impl()); });
}
/// number(tensor): of the value that it was last seen with, or None.
PyObject* number(PyObject* self, PyObject* tensor) {
    return guarded([&]() -> PyObject* {
        const int32_t value = log_of(self).seen(expect_tensor(tensor, "graph"));
        if (value < 0) Py_RETURN_NONE;
        return PyLong_FromLong(value);
    });
}
PyObject* add_nodes(PyObject* self, PyObject* tensors) {
    return guarded([&] {
        std::vector<Tensor> roots;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(tensors); ++i)
            roots.push_back(unwrap(PyList_GET_ITEM(tensors, i)));
        log_of(self).add_nodes(roots);
        return Py_NewRef(Py_None);
    });
}
/// running(): the log that hears of what runs on this thread, or None.
PyObject* running(PyObject*, PyObject*) {
    PyLog* log = running_log();
    return Py_NewRef(log ? log->self : Py_None);
}

PyMethodDef methods[] = {
    {"start", start, METH_NOARGS, "Hears of what runs on this thread from now on."},
    {"stop", stop, METH_NOARGS, "Hears of no more; on the thread that started it."},
    {"number", number, METH_O,
     "The number of the value that a tensor was last seen with, or None."},
    {"add_nodes", add_nodes, METH_O, "The nodes behind a list of tensors, as calls."},
    {"running", running, METH_NOARGS | METH_STATIC,
     "The log that hears of what runs on this thread, or None."},
    {"address", address, METH_O | METH_STATIC, "Where a tensor is, as `found` has it."},
    {}};
PyGetSetDef getset[] = {{"events", get_events, nullptr, nullptr, nullptr},
                        {"values", get_values, nullptr, nullptr, nullptr},
                        {"operands", get_operands, nullptr, nullptr, nullptr},
                        {"dims", get_dims, nullptr, nullptr, nullptr},
                        {"memories", get_memories, nullptr, nullptr, nullptr},
                        {"found", get_found, nullptr, nullptr, nullptr},
                        {"statistics", get_statistics, nullptr, nullptr, nullptr},
                        {"count", get_count, nullptr, nullptr, nullptr},
                        {"sample", get_sample, nullptr, nullptr, nullptr},
                        {"seconds_per_tick", get_seconds_per_tick, nullptr, nullptr, nullptr},
                        {"names", get_names, nullptr, nullptr, nullptr},
                        {"sites", get_sites, nullptr, nullptr, nullptr},
                        {}};

/// For numpy.dtype: a row's fields as (name, format, offset), and its size.
#define FIELD(Row, field, format)                                                                  \
    Object::take(Py_BuildValue("(ssn)", #field, format, offsetof(Row, field)))

Object layout(const char* name, size_t size, std::initializer_list<Object> fields) {
    Object list = Object::take(PyList_New(0));
    for (const Object& f : fields) checked(PyList_Append(list.get(), f.get()));
    return Object::take(Py_BuildValue("(sOn)", name, list.get(), static_cast<Py_ssize_t>(size)));
}

Object layouts() {
    using watch::Event, watch::Found, watch::Memory, watch::Seen, watch::Statistics;
    Object all = Object::take(PyList_New(0));
    for (const Object& row :
         {layout("events", sizeof(Event),
                 {FIELD(Event, kind, "u1"), FIELD(Event, failed, "?"), FIELD(Event, in_place, "?"),
                  FIELD(Event, backward, "?"), FIELD(Event, inputs, "u4"),
                  FIELD(Event, outputs, "u4"), FIELD(Event, parent, "i4"), FIELD(Event, name, "i4"),
                  FIELD(Event, site, "i4"), FIELD(Event, operands, "u4"), FIELD(Event, saved, "u4"),
                  FIELD(Event, node, "u8"), FIELD(Event, began, "i8"), FIELD(Event, ended, "i8"),
                  FIELD(Event, bytes, "i8")}),
          layout("values", sizeof(Seen),
                 {FIELD(Seen, event, "i4"), FIELD(Seen, memory, "i4"), FIELD(Seen, dims, "u4"),
                  FIELD(Seen, ndim, "u1"), FIELD(Seen, dtype, "u1"), FIELD(Seen, marks, "u1")}),
          layout("memories", sizeof(Memory),
                 {FIELD(Memory, bytes, "i8"), FIELD(Memory, event, "i4"),
                  FIELD(Memory, since, "i4"), FIELD(Memory, freed, "i4"),
                  FIELD(Memory, last, "i4")}),
          layout("found", sizeof(Found), {FIELD(Found, value, "i4"), FIELD(Found, tensor, "u8")}),
          layout("statistics", sizeof(Statistics),
                 {FIELD(Statistics, value, "i4"), FIELD(Statistics, counted, "u4"),
                  FIELD(Statistics, nans, "u4"), FIELD(Statistics, infs, "u4"),
                  FIELD(Statistics, mean, "f8"), FIELD(Statistics, std, "f8"),
                  FIELD(Statistics, least, "f8"), FIELD(Statistics, most, "f8")})})
        checked(PyList_Append(all.get(), row.get()));
    return all;
}

constexpr const char* kKinds[] = {"call", "module", "function", "backward",
                                  "node", "step",   "flush",    "named"};
static_assert(std::size(kKinds) == static_cast<size_t>(SpanKind::Named) + 1);

Object kinds() {
    Object out = Object::take(PyTuple_New(std::size(kKinds)));
    for (size_t i = 0; i < std::size(kKinds); ++i)
        PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), py_str(kKinds[i]).release());
    return out;
}

/// By the number that a value's row has for it.
Object dtypes() {
    Object out = Object::take(PyDict_New());
    for (DType t : kDTypes)
        checked(PyDict_SetItem(out.get(), py_int(static_cast<int64_t>(t)).get(), dtype_object(t)));
    return out;
}

/// Those among `items` that are tensors.
std::vector<Tensor> tensors_among(PyObject* const* items, Py_ssize_t count) {
    std::vector<Tensor> out;
    for (Py_ssize_t i = 0; i < count; ++i)
        if (is_tensor(items[i])) out.push_back(handle(items[i]));
    return out;
}

/// _within(kind, name, function, *args, **kwargs): calls it, as an event of that kind, of which the
/// tensors among `args` and among its results are the operands.
PyObject* within(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    return guarded([&] {
        WEFT_EXPECT(count >= 3, Type, "_within", "a kind, a name, a function and its arguments",
                    std::to_string(count));
        const std::string_view wanted = to_text(args[0]);
        size_t kind = 0;
        while (kind < std::size(kKinds) && wanted != kKinds[kind]) ++kind;
        WEFT_EXPECT(kind < std::size(kKinds), Value, "_within", "a kind of event", text(wanted));
        ops::WatchSpan span(static_cast<SpanKind>(kind), nullptr, to_text(args[1]));
        span.give(tensors_among(args + 3, count - 3));
        Object out = Object::take(into_python([&] {
            return PyObject_Vectorcall(args[2], args + 3, static_cast<size_t>(count) - 3, names);
        }));
        PyObject* one = out.get();
        if (PyTuple_Check(one))
            span.take(tensors_among(PySequence_Fast_ITEMS(one), PyTuple_GET_SIZE(one)));
        else span.take(tensors_among(&one, 1));
        return out.release();
    });
}
PyMethodDef functions[] = {
    {"_within", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(within)),
     METH_FASTCALL | METH_KEYWORDS,
     "_within(kind, name, function, *args, **kwargs): calls it, as an event of that kind."},
    {}};

}  // namespace

void init_watch(PyObject* module) {
    log_type.tp_name = "weft._C._Log";
    log_type.tp_basicsize = sizeof(LogObject);
    log_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    log_type.tp_traverse = traverse;
    log_type.tp_clear = clear;
    log_type.tp_new = new_log;
    log_type.tp_dealloc = dealloc;
    log_type.tp_methods = methods;
    log_type.tp_getset = getset;
    log_type.tp_doc = "_Log(times, sample): what ran, as tables.";
    checked(PyType_Ready(&log_type));
    checked(PyDict_SetItemString(log_type.tp_dict, "layouts", layouts().get()));
    checked(PyDict_SetItemString(log_type.tp_dict, "kinds", kinds().get()));
    checked(PyDict_SetItemString(log_type.tp_dict, "dtypes", dtypes().get()));
    checked(PyDict_SetItemString(
        log_type.tp_dict, "marks",
        Object::take(Py_BuildValue("(iii)", watch::kRequiresGrad, watch::kView, watch::kStrided))
            .get()));
    checked(PyModule_AddFunctions(module, functions));
    add_object(module, "_Log", reinterpret_cast<PyObject*>(&log_type));
    watch::install();
}

}  // namespace weft::python
