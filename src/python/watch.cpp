/// `_C._Log`: what weft/see/recording.py records with.
///
/// The tables come to Python as bytes (python/watch_tables.h).
#include "watch/log.h"

#include "deferred/batcher.h"
#include "python/type.h"
#include "python/watch_tables.h"

#include <cstring>
#include <map>
#include <string>

namespace weft::python {
namespace {

using ops::SpanKind, watch::Log;

class PyLog;

/// (code object, line)
Object site_object(const Site& site) {
    auto* code = static_cast<PyCodeObject*>(site.code());
    return Object::take(Py_BuildValue("(Oi)", code, PyCode_Addr2Line(code, site.offset())));
}

/// While a debugger or a pattern of the user's runs: nothing that it computes is heard of, or kept.
class Aside {
public:
    Aside() {
        mode &= kGradMode | kInferenceMode;
        ops::scopes = {.generator = scopes_.generator};
    }
    ~Aside() {
        mode = mode_;
        ops::scopes = scopes_;
    }
    Aside(const Aside&) = delete;

private:
    const uint32_t mode_ = mode;
    const ops::Scopes scopes_ = ops::scopes;
};

/// A breakpoint, which weft.see.stops owns: patterns, and what happens at a hit, are Python's.
struct PyStop final : watch::Stop {
    PyStop(PyLog& log, PyObject* owner) : log(log), owner(Object::borrow(owner)) {}
    bool fits(Question question, const watch::Event& event) override;
    PyLog& log;
    const Object owner;
};

/// A log that keeps the modules whose calls it hears of: addresses are their names until it ends.
class PyLog final : public Log {
public:
    explicit PyLog(PyObject* self) : self(self) {}
    int64_t open(SpanKind kind, std::string_view name, const void* object) override {
        const int64_t number = Log::open(kind, name, object);
        if (kind == SpanKind::Module && modules.size() < objects.size()) {
            modules.resize(objects.size());
            auto* module = static_cast<PyObject*>(const_cast<void*>(object));
            modules.back() = Object::borrow(module);
        }
        return number;
    }
    int32_t stack_here() override {
        SmallVector<int32_t, 32> inner_first;
        auto* frame = PyThreadState_GetFrame(PyThreadState_Get());
        for (Object at = Object::steal(reinterpret_cast<PyObject*>(frame)); at;) {
            auto* f = reinterpret_cast<PyFrameObject*>(at.get());
            Object code = Object::take(reinterpret_cast<PyObject*>(PyFrame_GetCode(f)));
            if (!is_internal(code.get())) {
                const std::pair<PyObject*, int> line{code.get(), PyFrame_GetLineNumber(f)};
                auto [number, is_new] = line_numbers.try_emplace(line, lines.size());
                if (is_new) lines.emplace_back(std::move(code), line.second);
                inner_first.push_back(static_cast<int32_t>(number->second));
            }
            at = Object::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(f)));
        }
        int32_t stack = -1;
        for (int i = static_cast<int>(inner_first.size()) - 1; i >= 0; --i) {
            const std::pair<int32_t, int32_t> next{stack, inner_first[i]};
            auto [number, is_new] = stack_numbers.try_emplace(next, stacks.size());
            if (is_new) stacks.push_back(next);
            stack = static_cast<int32_t>(number->second);
        }
        return stack;
    }
    void hold() override { Py_INCREF(self); }
    void drop() override { Py_DECREF(self); }

    /// The modules that an event is in, the outermost first.
    Object modules_around(int32_t module) {
        Object out = Object::take(PyList_New(0));
        while (module >= 0) {
            const watch::Event& event = events[static_cast<size_t>(module)];
            checked(PyList_Append(out.get(), modules[static_cast<size_t>(event.name)].get()));
            module = event.parent < 0 ? -1 : events[static_cast<size_t>(event.parent)].module;
        }
        checked(PyList_Reverse(out.get()));
        return out;
    }

    PyObject* const self;                             ///< the object that owns it
    std::vector<Object> modules;                      ///< by name; none for others
    std::vector<std::pair<Object, int>> lines;        ///< code objects and lines, of stacks
    std::vector<std::pair<int32_t, int32_t>> stacks;  ///< what called a line, or -1; the line

protected:
    void forget() override {
        stack_numbers.clear(), line_numbers.clear(), stacks.clear(), lines.clear();
        const std::vector<Object> old = std::exchange(modules, {});  // they may run Python
        Log::forget();
    }
    bool stopped(watch::Stop& stop, int32_t event, std::span<const Tensor> inputs,
                 std::span<const Tensor> outputs) override;

private:
    std::map<std::pair<PyObject*, int>, size_t> line_numbers;
    std::map<std::pair<int32_t, int32_t>, size_t> stack_numbers;
};

bool PyStop::fits(Question question, const watch::Event& event) {
    const Aside aside;
    Object of = none();
    if (question == kModule) of = log.modules_around(event.module);
    else if (question == kOp)
        of = event.op ? py_str(text(event.op->public_name, event.in_place ? "_" : ""))
                      : py_str(log.names[static_cast<size_t>(event.name)]);
    else if (event.site >= 0) of = site_object(log.sites[static_cast<size_t>(event.site)]);
    constexpr const char* kMethods[] = {"_is_op", "_is_line", "_is_in"};
    Object answer = owner.attr(kMethods[question]).call(of);
    return checked(PyObject_IsTrue(answer.get())) == 1;
}

void leave();

Object tensor_list(std::span<const Tensor> tensors) {
    Object out = Object::take(PyList_New(0));
    for (const Tensor& t : tensors)
        checked(PyList_Append(out.get(), t.defined() ? wrapped(t).get() : Py_None));
    return out;
}

bool PyLog::stopped(watch::Stop& stop, int32_t event, std::span<const Tensor> inputs,
                    std::span<const Tensor> outputs) {
    struct Leave {  // the breakpoint, the last that wanted the log, may be removed meanwhile
        PyLog& log;
        ~Leave() {
            if (log.finished() && ops::scopes.watcher == &log) leave();
        }
    } const at_the_end{*this};
    const Aside aside;
    raised = true;  // unless it returns
    Object hit =
        static_cast<PyStop&>(stop)
            .owner.attr("_stopped")
            .call(Object::borrow(self), py_int(event), tensor_list(inputs), tensor_list(outputs));
    raised = false;
    return hit.get() == Py_True;
}

struct LogObject {
    PyObject_HEAD PyLog* log;
    PyObject* weak;
};
PyTypeObject log_type = blank_type();

PyLog& log_of(PyObject* self) { return *reinterpret_cast<LogObject*>(self)->log; }

PyObject* new_log(PyTypeObject* type, PyObject*, PyObject*) {
    return guarded([&] {
        Object self = Object::take(type->tp_alloc(type, 0));
        reinterpret_cast<LogObject*>(self.get())->log = new PyLog(self.get());
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

watch::Options to_options(PyObject* args) {
    int times, stacks = 0;
    long long sample, most;
    if (!PyArg_ParseTuple(args, "pLL|p", &times, &sample, &most, &stacks)) throw PythonError{};
    return {.times = times != 0,
            .sample = std::max(sample, 0LL),
            .most = static_cast<size_t>(std::max(most, 1LL)),
            .stacks = stacks != 0};
}

PyObject* start(PyObject* self, PyObject* args) {
    return guarded([&] {
        PyLog& log = log_of(self);
        PyLog* around = running_log();
        const watch::Options options = to_options(args);
        WEFT_EXPECT(!around || around == &log, Runtime, "record", "no other recording under way",
                    "one");
        if (!around) {
            leave();  // of one that another thread has ended
            log.hold();
            log.listen();
            ops::scopes.watcher = &log;
        }
        mode |= kWatchMode;
        log.want(options);
        return Py_NewRef(Py_None);
    });
}

/// On another thread than that which started it, it is ended all the same: nothing is heard of there.
PyObject* stop(PyObject* self, PyObject* args) {
    return guarded([&] {
        PyLog& log = log_of(self);
        log.want_no_more(to_options(args));
        if (log.is_wanted()) return Py_NewRef(Py_None);
        log.finish();
        if (ops::scopes.watcher == &log) leave();
        return Py_NewRef(Py_None);
    });
}

Ref<watch::Stop> stop_of(PyLog& log, PyObject* owner) {
    for (const Ref<watch::Stop>& stop : log.stops())
        if (static_cast<PyStop&>(*stop).owner.get() == owner) return stop;
    return {};
}

/// break_at(owner, nan, inf, norm_above, sizes, rest, backward, asks): see watch/stop.h.
PyObject* break_at(PyObject* self, PyObject* args) {
    return guarded([&] {
        PyLog& log = log_of(self);
        PyObject *owner, *sizes;
        int nan, inf, asks;
        double norm_above;
        long long rest, backward;
        if (!PyArg_ParseTuple(args, "OppdOLLi", &owner, &nan, &inf, &norm_above, &sizes, &rest,
                              &backward, &asks))
            throw PythonError{};
        Ref<PyStop> stop(new PyStop(log, owner));
        stop->nan = nan, stop->inf = inf, stop->norm_above = norm_above;
        stop->rest = rest, stop->backward = backward;
        stop->asks_shape = sizes != Py_None;
        if (stop->asks_shape) {
            Dims wanted;
            WEFT_EXPECT(to_dims(sizes, wanted), Type, "stop_when", "a shape", "something else");
            stop->shape.assign(wanted.begin(), wanted.end());
        }
        for (int q = 0; q < 3; ++q) stop->asks[q] = asks >> q & 1;
        log.add_stop(stop);
        return Py_NewRef(Py_None);
    });
}
PyObject* break_no_more(PyObject* self, PyObject* owner) {
    return guarded([&] {
        if (Ref<watch::Stop> stop = stop_of(log_of(self), owner)) log_of(self).remove_stop(stop);
        return Py_NewRef(Py_None);
    });
}
PyObject* break_next(PyObject* self, PyObject* owner) {
    return guarded([&] {
        if (Ref<watch::Stop> stop = stop_of(log_of(self), owner)) log_of(self).stop_at_next(stop);
        return Py_NewRef(Py_None);
    });
}

int log_traverse(PyObject* self, visitproc visit, void* arg) {
    for (const Object& module : log_of(self).modules) Py_VISIT(module.get());
    for (const Ref<watch::Stop>& stop : log_of(self).stops())
        Py_VISIT(static_cast<PyStop&>(*stop).owner.get());
    return 0;
}
int log_clear(PyObject* self) {
    log_of(self).modules.clear();
    return 0;
}
void log_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    PyObject_ClearWeakRefs(self);
    delete &log_of(self);
    Py_TYPE(self)->tp_free(self);
}

/// table(name): its bytes, laid out as `layouts` says.
PyObject* table(PyObject* self, PyObject* name) {
    return guarded([&] { return table_bytes(log_of(self), to_text(name)); });
}
PyObject* get_count(PyObject* self, void*) { return PyLong_FromSize_t(log_of(self).events.size()); }
PyObject* get_finished(PyObject* self, void*) { return PyBool_FromLong(log_of(self).finished()); }
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

PyObject* get_sites(PyObject* self, void*) {
    return guarded([&] {
        Object out = Object::take(PyList_New(0));
        for (const Site& site : log_of(self).sites)
            checked(PyList_Append(out.get(), site_object(site).get()));
        return out.release();
    });
}

/// (code object, line) of each line of a stack, and (what called it or -1, line) of each stack.
PyObject* get_stacks(PyObject* self, void*) {
    return guarded([&] {
        const PyLog& log = log_of(self);
        Object lines = Object::take(PyList_New(0)), stacks = Object::take(PyList_New(0));
        for (const auto& [code, line] : log.lines)
            checked(PyList_Append(lines.get(),
                                  Object::take(Py_BuildValue("(Oi)", code.get(), line)).get()));
        for (const auto& [outer, line] : log.stacks)
            checked(PyList_Append(stacks.get(),
                                  Object::take(Py_BuildValue("(ii)", outer, line)).get()));
        return Object::take(PyTuple_Pack(2, lines.get(), stacks.get())).release();
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

PyMethodDef log_methods[] = {
    {"start", start, METH_VARARGS,
     "start(times, sample, most): hears of what runs on this thread from now on; where it may "
     "begin "
     "anew after so many events."},
    {"stop", stop, METH_VARARGS, "stop(times, sample, most): undoes a start with these."},
    {"break_at", break_at, METH_VARARGS,
     "break_at(owner, nan, inf, norm_above, sizes, rest, backward, asks): owner._stopped is "
     "called."},
    {"break_no_more", break_no_more, METH_O, "Undoes the owner's break_at."},
    {"break_next", break_next, METH_O, "owner._stopped is called at the next result."},
    {"number", number, METH_O,
     "The number of the value that a tensor was last seen with, or None."},
    {"add_nodes", add_nodes, METH_O, "The nodes behind a list of tensors, as calls."},
    {"table", table, METH_O, "The rows of a table, as bytes."},
    {"running", running, METH_NOARGS | METH_STATIC,
     "The log that hears of what runs on this thread, or None."},
    {"address", address, METH_O | METH_STATIC, "Where a tensor is, as `found` has it."},
    {}};
PyGetSetDef getset[] = {{"count", get_count, nullptr, nullptr, nullptr},
                        {"finished", get_finished, nullptr, nullptr, nullptr},
                        {"seconds_per_tick", get_seconds_per_tick, nullptr, nullptr, nullptr},
                        {"names", get_names, nullptr, nullptr, nullptr},
                        {"sites", get_sites, nullptr, nullptr, nullptr},
                        {"stacks", get_stacks, nullptr, nullptr, nullptr},
                        {}};

/// _aside(function, *args, **kwargs): calls it; nothing that it computes is heard of, kept or mapped.
PyObject* aside(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    return guarded([&] {
        WEFT_EXPECT(count >= 1, Type, "_aside", "a function and its arguments", "nothing");
        const Aside scope;
        return into_python([&] {
            return PyObject_Vectorcall(args[0], args + 1, static_cast<size_t>(count) - 1, names);
        });
    });
}

/// Nodes that the graph behind a failed call goes back to: some 0.2 ms, for programs that go on.
constexpr size_t kNearest = 1000;

/// What is known of the last call that failed; a recording, if one went on there, by a weak reference, as
/// it has modules. To the end of the process: no destructor may run after Python's.
PyObject* last_failed = nullptr;

void note_failed(const watch::Failed& failed) {
    SetAside error;  // what a failing call has left behind is not ours to see
    guarded([&] {
        if (PyLog* log = running_log()) {
            Py_XSETREF(last_failed, checked(PyWeakref_NewRef(log->self, nullptr)));
            return true;
        }
        Object log = Object::take(new_log(&log_type, nullptr, nullptr));
        log_of(log.get()).add_failed(failed, kNearest);
        Py_XSETREF(last_failed, log.release());
        return true;
    });
    PyErr_Clear();
}

void note_failed_call(const Call& c) {
    note_failed({c.op, c.op->public_name, {c.in, static_cast<size_t>(c.inputs)}, c.in_place});
}

/// _last_failed(): the log of the last call that failed, or None.
PyObject* get_last_failed(PyObject*, PyObject*) {
    if (!last_failed) Py_RETURN_NONE;
    if (PyWeakref_Check(last_failed)) return PyObject_CallNoArgs(last_failed);
    return Py_NewRef(last_failed);
}

PyMethodDef watch_functions[] = {
    {"_aside", c_function(aside), METH_FASTCALL | METH_KEYWORDS,
     "_aside(function, *args, **kwargs): calls it; what it computes is heard of by nobody."},
    {"_last_failed", get_last_failed, METH_NOARGS,
     "The log of the last call that failed, or None."},
    {}};

}  // namespace

void note_failed_function(std::string_view name, PyObject* const* args, Py_ssize_t count) {
    note_failed({nullptr, name, tensors_among(args, count), false});
}
void forget_failed() { Py_CLEAR(last_failed); }

void init_watch(PyObject* module) {
    log_type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
    log_type.tp_weaklistoffset = offsetof(LogObject, weak);
    log_type.tp_traverse = log_traverse;
    log_type.tp_clear = log_clear;
    log_type.tp_new = new_log;
    log_type.tp_dealloc = log_dealloc;
    log_type.tp_methods = log_methods;
    log_type.tp_getset = getset;
    log_type.tp_doc = "_Log(): what ran, as tables.";
    add_type(module, log_type, "weft._C._Log", sizeof(LogObject));
    add_layouts(log_type.tp_dict);
    checked(PyModule_AddFunctions(module, watch_functions));
    watch::install();
    ops::hooks.failed = note_failed_call;
}

}  // namespace weft::python
