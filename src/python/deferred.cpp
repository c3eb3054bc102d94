/// Deferred execution for Python: what weft/deferred.py calls; reports become dicts.
#include "base/graph_use.h"
#include "deferred/door.h"
#include "deferred/tape.h"

#include "python/object.h"

namespace weft::python {
namespace {

/// _flush(reason): computes all that waits on this thread's tape.
PyObject* flush(PyObject*, PyObject* reason) {
    return guarded([&] {
        static std::string kept;
        kept = to_text(reason);
        deferred::Tape::current().flush(kept.c_str());
        return Py_NewRef(Py_None);
    });
}

/// _set_owner(n): calls are made by fiber n from now on; returns the one before.
PyObject* set_owner(PyObject*, PyObject* n) {
    return guarded([&] {
        auto before = deferred::owner;
        deferred::set_owner(static_cast<uint32_t>(to_int(n, "_set_owner")));
        return PyLong_FromUnsignedLong(before);
    });
}

/// _set_at_once(flag): whether calls run at once from now on; returns what was set before.
PyObject* set_at_once(PyObject*, PyObject* flag) {
    bool before = deferred::at_once;
    deferred::at_once = flag == Py_True;
    return PyBool_FromLong(before);
}

/// _change_shared(tensor): an example puts something else in place of `tensor`, in Python.
PyObject* change_shared(PyObject*, PyObject* tensor) {
    return guarded([&] {
        Tensor t = expect_tensor(tensor, "_change_shared");
        deferred::change_shared(t);
        return Py_NewRef(Py_None);
    });
}

/// _order(): how often examples changed what they share, and drew after they had waited.
PyObject* order(PyObject*, PyObject*) {
    return Py_BuildValue("(LL)", static_cast<long long>(deferred::ordered.changes),
                         static_cast<long long>(deferred::ordered.late_draws));
}

/// _take_stale(): the first line that changed what a later example had read, or None.
PyObject* take_stale(PyObject*, PyObject*) {
    return guarded([]() -> PyObject* {
        std::string line = std::exchange(deferred::ordered.stale, {});
        if (line.empty()) return Py_NewRef(Py_None);
        return py_str(line).release();
    });
}

/// The exception that is set, with its traceback; none is set afterwards.
Object take_exception() {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace) PyException_SetTraceback(value, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return Object::steal(value);
}

/// _failures(): (owner, exception) of failed calls whose values nobody has read, in order of calls.
PyObject* failures(PyObject*, PyObject*) {
    return guarded([] {
        Object out = Object::take(PyList_New(0));
        for (const auto& failure : deferred::Tape::current().take_failures()) {
            try {
                deferred::raise(*failure);
            } catch (...) {
                set_python_error();
            }
            Object error = take_exception();
            Object item = Object::take(Py_BuildValue("(IO)", failure->owner, error.get()));
            checked(PyList_Append(out.get(), item.get()));
        }
        return out.release();
    });
}

class RecursiveCall {
public:
    explicit RecursiveCall(const char* where) { checked(Py_EnterRecursiveCall(where)); }
    ~RecursiveCall() { Py_LeaveRecursiveCall(); }
    RecursiveCall(const RecursiveCall&) = delete;
};

void settle_all(PyObject* o) {
    if (is_tensor(o)) {
        expect_tensor(o, "settle");
    } else if (PyTuple_Check(o) || PyList_Check(o)) {
        RecursiveCall deeper(" in the result of an example");
        // by index: settling may run Python, which may change a list
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
            settle_all(Object::borrow(PySequence_Fast_GET_ITEM(o, i)).get());
    } else if (PyDict_Check(o)) {
        Object values = Object::take(PyDict_Values(o));
        settle_all(values.get());
    }
}

/// _settle(result): gives the tensors in tuples, lists and dicts their values.
PyObject* settle(PyObject*, PyObject* result) {
    return guarded([&] {
        settle_all(result);
        return Py_NewRef(Py_None);
    });
}

PyObject* is_pending(PyObject*, PyObject* o) {
    return PyBool_FromLong(is_tensor(o) && handle(o).has(kPending));
}

Object lines(const std::vector<std::pair<Site, int64_t>>& sites) {
    Object out = Object::take(PyList_New(0));
    for (const auto& [site, calls] : sites) {
        Object item = Object::take(
            Py_BuildValue("(sL)", site.describe().c_str(), static_cast<long long>(calls)));
        checked(PyList_Append(out.get(), item.get()));
    }
    return out;
}

Object as_dict(const deferred::BatchReport& b) {
    return Object::take(Py_BuildValue(
        "{s:s, s:L, s:L, s:L, s:L, s:L, s:s, s:s, s:N}", "op", b.op.c_str(), "calls",
        static_cast<long long>(b.calls), "rows", static_cast<long long>(b.rows), "aliased",
        static_cast<long long>(b.aliased), "packed", static_cast<long long>(b.packed), "pieces",
        static_cast<long long>(b.pieces), "why", b.why.c_str(), "apart", b.apart.c_str(), "lines",
        lines(b.lines).release()));
}

Object as_dict(const deferred::FlushReport& f) {
    Object batches = Object::take(PyList_New(0));
    for (const auto& b : f.batches) checked(PyList_Append(batches.get(), as_dict(b).get()));
    return Object::take(Py_BuildValue(
        "{s:N, s:s, s:L, s:O, s:d, s:d, s:d, s:N}", "causes", lines(f.causes).release(), "reason",
        f.reason.c_str(), "calls", static_cast<long long>(f.calls), "plan_known",
        f.plan_known ? Py_True : Py_False, "plan_s", f.plan_s, "pack_s", f.pack_s, "run_s", f.run_s,
        "batches", batches.release()));
}

/// _report(None): starts a collection, which may lie within others; returns its number of flushes.
/// _report(number): ends it; returns the flushes since as a list of dicts.
PyObject* report(PyObject*, PyObject* start) {
    static thread_local int depth = 0;
    return guarded([&]() -> PyObject* {
        if (start == Py_None) {
            if (depth++ == 0) deferred::reports = new std::vector<deferred::FlushReport>;
            return PyLong_FromSize_t(deferred::reports->size());
        }
        auto first = static_cast<size_t>(to_int(start, "_report"));
        WEFT_EXPECT(depth > 0, Runtime, "explain", "the thread that entered the scope", "another");
        Object out = Object::take(PyList_New(0));
        for (size_t i = first; i < deferred::reports->size(); ++i)
            checked(PyList_Append(out.get(), as_dict((*deferred::reports)[i]).get()));
        if (--depth == 0) delete std::exchange(deferred::reports, nullptr);
        return out.release();
    });
}

/// The caller's context variables and modes for one example after the other: a copy of the variables
/// serves until an example sets one.
class Alone {
public:
    Alone() : callers_(Object::take(PyContext_CopyCurrent())) { enter(); }
    ~Alone() { leave(); }
    Alone(const Alone&) = delete;

    void next() {
        mode = mode_;
        int same = PyObject_RichCompareBool(context_.get(), callers_.get(), Py_EQ);
        if (same > 0) return;
        PyErr_Clear();  // of values that cannot be compared
        leave();
        enter();
    }

private:
    void enter() {
        context_ = Object::take(PyContext_Copy(callers_.get()));
        checked(PyContext_Enter(context_.get()));
    }
    void leave() {
        PyContext_Exit(context_.get());
        mode = mode_;
    }
    Object callers_, context_;
    uint32_t mode_ = mode;
};

/// _one_by_one(fn, examples, kwargs): `fn(*example, **kwargs)` for each; the results, and the first
/// exception as (number of the example, exception), or None. Those behind it run all the same.
PyObject* one_by_one(PyObject*, PyObject* args) {
    PyObject *fn, *examples, *kwargs;
    if (!PyArg_ParseTuple(args, "OO!O!", &fn, &PyList_Type, &examples, &PyDict_Type, &kwargs))
        return nullptr;
    return guarded([&] {
        Object results = Object::take(PyList_New(0)), first = Object::borrow(Py_None);
        Alone scope;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(examples); ++i) {
            if (i) scope.next();
            Object result = Object::steal(PyObject_Call(fn, PyList_GET_ITEM(examples, i), kwargs));
            if (result) {
                checked(PyList_Append(results.get(), result.get()));
                continue;
            }
            if (!PyErr_ExceptionMatches(PyExc_Exception)) throw PythonError{};
            Object error = take_exception();
            if (first.get() == Py_None) first = Object::take(Py_BuildValue("(nO)", i, error.get()));
        }
        return Py_BuildValue("(OO)", results.get(), first.get());
    });
}

/// _plan(calls): batches of calls given as (kind, numbers of the earlier calls that it needs).
PyObject* plan(PyObject*, PyObject* calls) {
    return guarded([&] {
        std::vector<uint32_t> kinds, begins{0};
        std::vector<int32_t> producers;
        uint32_t kind_count = 0;
        Object list = Object::take(PySequence_Fast(calls, "calls"));
        for (Py_ssize_t c = 0; c < PySequence_Fast_GET_SIZE(list.get()); ++c) {
            unsigned kind;
            PyObject* needs;
            if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(list.get(), c), "IO!", &kind,
                                  &PyList_Type, &needs))
                throw PythonError{};
            kinds.push_back(kind);
            kind_count = std::max(kind_count, kind + 1);
            for (Py_ssize_t k = 0; k < PyList_GET_SIZE(needs); ++k) {
                int64_t need = to_int(PyList_GET_ITEM(needs, k), "_plan");
                WEFT_EXPECT(need >= -1 && need < c, Value, "_plan", "earlier calls",
                            std::to_string(need));
                producers.push_back(static_cast<int32_t>(need));
            }
            begins.push_back(static_cast<uint32_t>(producers.size()));
        }
        deferred::Plan plan = deferred::make_plan({kinds, begins, producers, kind_count});
        Object out = Object::take(PyList_New(0));
        uint32_t at = 0;
        for (uint32_t end : plan.ends) {
            Object batch = Object::take(PyList_New(0));
            for (; at < end; ++at)
                checked(PyList_Append(batch.get(), py_int(plan.order[at]).get()));
            checked(PyList_Append(out.get(), batch.get()));
        }
        return out.release();
    });
}

/// _kinds(): kinds of calls that are remembered.
PyObject* kinds(PyObject*, PyObject*) {
    return PyLong_FromSize_t(deferred::Tape::current().kinds().kinds.size());
}

/// _set_budget(n): calls that may wait before they are computed; returns the number before.
PyObject* set_budget(PyObject*, PyObject* n) {
    return guarded([&] {
        size_t before = deferred::Tape::current().budget;
        deferred::Tape::current().budget =
            static_cast<size_t>(std::max<int64_t>(1, to_int(n, "_set_budget")));
        return PyLong_FromSize_t(before);
    });
}

PyObject* py_saved(const deferred::Saved& s) {
    return Py_BuildValue("(ddd)", s.forward, s.calls, s.batches);
}

/// _begin_run(): the nodes of batches are those of a run from now on; returns its number.
PyObject* begin_run(PyObject*, PyObject*) {
    uint64_t run = begin_graph_run();
    deferred::graph_run = static_cast<uint16_t>(run % kGraphUses);
    return PyLong_FromUnsignedLongLong(run);
}

PyObject* end_run(PyObject*, PyObject*) {
    deferred::graph_run = 0;
    Py_RETURN_NONE;
}

/// _graph_use(run): which part of its calls and of its batches' nodes ran backward; None as long as
/// there is a graph; () if that is not known any more.
PyObject* graph_use(PyObject*, PyObject* run) {
    return guarded([&]() -> PyObject* {
        auto number = static_cast<uint64_t>(to_int(run, "_graph_use"));
        const GraphUse& use = graph_uses[number % kGraphUses];
        if (use.run != number) return PyTuple_New(0);
        if (use.gone < use.made) Py_RETURN_NONE;
        auto share = [](double part, double of) { return of > 0 ? std::min(1.0, part / of) : 0.0; };
        return Py_BuildValue("(dd)", share(use.ran_calls, static_cast<double>(use.made_calls)),
                             share(use.ran, use.made));
    });
}

/// _saved(examples): nanoseconds that batching has saved on this thread so far, as Note [Worth]
/// estimates: forward, and backward if all of the graph is run, of calls and of batches. Counts a run
/// of so many examples, if any.
PyObject* saved(PyObject*, PyObject* examples) {
    return guarded([&] {
        int64_t n = to_int(examples, "_saved");
        deferred::tally.examples += n;
        deferred::tally.runs += n > 0;
        return py_saved(deferred::saved(deferred::tally));
    });
}

std::vector<std::pair<const char*, int64_t*>> fields(deferred::Tally& t) {
    return {{"calls", &t.calls},       {"recorded", &t.recorded},
            {"batches", &t.batches},   {"recorded_batches", &t.recorded_batches},
            {"at_once", &t.at_once},   {"fresh", &t.fresh},
            {"pieces", &t.pieces},     {"waits", &t.waits},
            {"elements", &t.elements}, {"far_elements", &t.far_elements},
            {"weights", &t.weights},   {"recorded_weights", &t.recorded_weights},
            {"passes", &t.passes},     {"examples", &t.examples},
            {"runs", &t.runs}};
}

/// _tally(): the counts that the estimate is made of, as a dict.
PyObject* counts(PyObject*, PyObject*) {
    return guarded([] {
        Object out = Object::take(PyDict_New());
        for (auto [name, count] : fields(deferred::tally))
            checked(PyDict_SetItemString(out.get(), name, py_int(*count).get()));
        return out.release();
    });
}

/// _saved_by(counts): the estimate for such a dict.
PyObject* saved_by(PyObject*, PyObject* counts) {
    return guarded([&] {
        deferred::Tally t;
        for (auto [name, count] : fields(t))
            *count = to_int(PyDict_GetItemString(counts, name), name);
        return py_saved(deferred::saved(t));
    });
}

PyObject* reporting(PyObject*, PyObject*) { return PyBool_FromLong(deferred::reports != nullptr); }

/// _set_large(n): elements from which on a call runs at once (Note [Large]); returns those before.
PyObject* set_large(PyObject*, PyObject* n) {
    return guarded([&] {
        int64_t before = deferred::large_call;
        deferred::large_call = std::max<int64_t>(1, to_int(n, "_set_large"));
        return PyLong_FromLongLong(before);
    });
}

/// _set_ahead(n): elements that a batch makes ahead (Note [Spread]); returns those before.
PyObject* set_ahead(PyObject*, PyObject* n) {
    return guarded([&] {
        return PyLong_FromLongLong(std::exchange(deferred::ahead, to_int(n, "_set_ahead")));
    });
}

PyMethodDef functions[] = {{"_one_by_one", one_by_one, METH_VARARGS, nullptr},
                           {"_set_large", set_large, METH_O, nullptr},
                           {"_set_ahead", set_ahead, METH_O, nullptr},
                           {"_begin_run", begin_run, METH_NOARGS, nullptr},
                           {"_end_run", end_run, METH_NOARGS, nullptr},
                           {"_graph_use", graph_use, METH_O, nullptr},
                           {"_saved", saved, METH_O, nullptr},
                           {"_tally", counts, METH_NOARGS, nullptr},
                           {"_saved_by", saved_by, METH_O, nullptr},
                           {"_reporting", reporting, METH_NOARGS, nullptr},
                           {"_set_budget", set_budget, METH_O, nullptr},
                           {"_kinds", kinds, METH_NOARGS, nullptr},
                           {"_plan", plan, METH_O, nullptr},
                           {"_flush", flush, METH_O, nullptr},
                           {"_set_owner", set_owner, METH_O, nullptr},
                           {"_set_at_once", set_at_once, METH_O, nullptr},
                           {"_change_shared", change_shared, METH_O, nullptr},
                           {"_order", order, METH_NOARGS, nullptr},
                           {"_take_stale", take_stale, METH_NOARGS, nullptr},
                           {"_failures", failures, METH_NOARGS, nullptr},
                           {"_settle", settle, METH_O, nullptr},
                           {"_is_pending", is_pending, METH_O, nullptr},
                           {"_report", report, METH_O, nullptr},
                           {}};

}  // namespace

void init_deferred(PyObject* module) {
    deferred::install();
    checked(PyModule_AddFunctions(module, functions));
}

}  // namespace weft::python
