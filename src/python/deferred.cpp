/// Deferred execution for Python: what weft/batching calls; reports become dicts.
#include "deferred/batcher.h"
#include "deferred/defer.h"
#include "deferred/turn.h"
#include "ops/write.h"

#include "python/type.h"

namespace weft::python {
namespace {

/// _flush(reason): computes all that waits on this thread's tape.
PyObject* flush(PyObject*, PyObject* reason) {
    return guarded([&] {
        const std::string text(to_text(reason));
        deferred::Batcher::current().tape.flush(text.c_str());
        return Py_NewRef(Py_None);
    });
}

/// _change_object(maker): before something that is no tensor changes, made by the example `maker`.
PyObject* change_object(PyObject*, PyObject* maker) {
    return guarded([&] {
        deferred::change_object(static_cast<uint64_t>(to_int(maker, "_change_object")));
        return Py_NewRef(Py_None);
    });
}

/// _failures(): (owner, exception) of failed calls whose values nobody has read, in order of calls.
PyObject* failures(PyObject*, PyObject*) {
    return guarded([] {
        Object out = Object::take(PyList_New(0));
        for (const auto& failure : deferred::Batcher::current().tape.take_failures()) {
            try {
                deferred::raise(*failure);
            } catch (...) {
                set_python_error();
            }
            Object error = take_exception();
            Object item = Object::take(Py_BuildValue(
                "(KO)", static_cast<unsigned long long>(failure->owner), error.get()));
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

/// _in_place_of(block): a computed value in a deferred scope; the block itself elsewhere.
PyObject* in_place_of(PyObject*, PyObject* o) {
    return guarded([&] {
        Tensor block = expect_tensor(o, "_in_place_of");
        const bool whole = (mode & kDeferMode) && block.contiguous();
        return wrap(whole ? deferred::in_place_of(block) : block);
    });
}

/// _written(t): where the value that `t` was taken of while it waited was written since; None: nowhere.
PyObject* written(PyObject*, PyObject* o) {
    return guarded([&] {
        WEFT_EXPECT(is_tensor(o), Type, "_written", "a tensor", Py_TYPE(o)->tp_name);
        const Tensor t = handle(o);
        const Tensor& root = deferred::root_of(t);
        if (root.has(kPending)) return Py_NewRef(Py_None);
        const Site* site = ops::overwritten_by(root, 0, [](ops::Span) { return true; });
        return site ? py_str(site->describe()).release() : Py_NewRef(Py_None);
    });
}

/// _same_root(a, b): whether both tensors show parts of one value or memory.
PyObject* same_root(PyObject*, PyObject* args) {
    PyObject *a, *b;
    if (!PyArg_ParseTuple(args, "O!O!", &tensor_type, &a, &tensor_type, &b)) return nullptr;
    const Tensor ta = handle(a), tb = handle(b);
    const Tensor &left = deferred::root_of(mapped::bottom_of(ta)),
                 &right = deferred::root_of(mapped::bottom_of(tb));
    const bool memory = !left.has(kPending) && !right.has(kPending);
    return PyBool_FromLong(memory ? left.storage() == right.storage() : left.same(right));
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
        "{s:s, s:L, s:L, s:L, s:L, s:L, s:s, s:s, s:N, s:d}", "op", b.op.c_str(), "calls",
        static_cast<long long>(b.calls), "rows", static_cast<long long>(b.rows), "aliased",
        static_cast<long long>(b.aliased), "packed", static_cast<long long>(b.packed), "pieces",
        static_cast<long long>(b.pieces), "why", b.why.c_str(), "apart", b.apart.c_str(), "lines",
        lines(b.lines).release(), "run_s", b.run_s));
}

Object as_dict(const deferred::FlushReport& f) {
    Object batches = Object::take(PyList_New(0));
    for (const auto& b : f.batches) checked(PyList_Append(batches.get(), as_dict(b).get()));
    return Object::take(Py_BuildValue(
        "{s:N, s:N, s:N, s:s, s:L, s:O, s:d, s:d, s:d, s:N}", "causes", lines(f.causes).release(),
        "draws", lines(f.draws).release(), "changes", lines(f.changes).release(), "reason",
        f.reason.c_str(), "calls", static_cast<long long>(f.calls), "plan_known",
        f.plan_known ? Py_True : Py_False, "plan_s", f.plan_s, "pack_s", f.pack_s, "run_s", f.run_s,
        "batches", batches.release()));
}

/// _note_parked(draws): the line that runs waits for its turn to draw, or else to change something.
PyObject* note_parked(PyObject*, PyObject* draws) {
    deferred::Reporting& reporting = deferred::Batcher::current().reporting;
    if (reporting)
        deferred::add_site(draws == Py_True ? reporting.draws : reporting.changes, Site::here());
    Py_RETURN_NONE;
}

/// _report(None): starts a collection, which may lie within others; returns its number of flushes.
/// _report(number): ends it; returns the flushes since as a list of dicts.
PyObject* report(PyObject*, PyObject* start) {
    return guarded([&]() -> PyObject* {
        deferred::Reporting& reporting = deferred::Batcher::current().reporting;
        if (start == Py_None) {
            ++reporting.scopes;
            return PyLong_FromSize_t(reporting.flushes.size());
        }
        auto first = static_cast<size_t>(to_int(start, "_report"));
        WEFT_EXPECT(reporting, Runtime, "explain", "the thread that entered the scope", "another");
        Object out = Object::take(PyList_New(0));
        for (size_t i = first; i < reporting.flushes.size(); ++i)
            checked(PyList_Append(out.get(), as_dict(reporting.flushes[i]).get()));
        if (--reporting.scopes == 0) reporting.flushes.clear();
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

/// Calls of one function with the items of some lists, one item of each, and the same keyword arguments.
class Examples {
public:
    Examples(PyObject* fn, PyObject* columns, PyObject* kwargs)
        : fn_(fn), columns_(columns), args_(static_cast<size_t>(PyList_GET_SIZE(columns)) + 1) {
        PyObject *key, *value;
        Py_ssize_t at = 0, k = 0;
        if (PyDict_GET_SIZE(kwargs)) names_ = Object::take(PyTuple_New(PyDict_GET_SIZE(kwargs)));
        while (PyDict_Next(kwargs, &at, &key, &value)) {
            PyTuple_SET_ITEM(names_.get(), k++, Py_NewRef(key));
            args_.push_back(value);
        }
    }
    Py_ssize_t size() const { return PyList_GET_SIZE(PyList_GET_ITEM(columns_, 0)); }
    PyObject* call(Py_ssize_t i) {
        const Py_ssize_t columns = PyList_GET_SIZE(columns_);
        for (Py_ssize_t k = 0; k < columns; ++k)
            args_[static_cast<size_t>(k) + 1] = PyList_GET_ITEM(PyList_GET_ITEM(columns_, k), i);
        return PyObject_Vectorcall(fn_, args_.data() + 1,
                                   static_cast<size_t>(columns) | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                   names_.get());
    }

private:
    PyObject *fn_, *columns_;
    std::vector<PyObject*> args_;  ///< behind room for a self; borrowed
    Object names_;
};

/// _one_by_one(fn, columns, kwargs, first): `fn(*example, **kwargs)` for each example from number
/// `first` on, up to the first exception; the results, and that exception or None. `columns` are a
/// list for each argument, of one length.
PyObject* one_by_one(PyObject*, PyObject* const* args, Py_ssize_t count) {
    return guarded([&] {
        WEFT_EXPECT(count == 4, Type, "_one_by_one", "4 arguments", std::to_string(count));
        Examples examples(args[0], args[1], args[2]);
        Object results = Object::take(PyList_New(0)), error = Object::borrow(Py_None);
        Alone scope;
        const auto loop = deferred::PlainLoop::begin(to_int(args[3], "_one_by_one"));
        for (bool first = true; loop->index < examples.size(); ++loop->index, first = false) {
            if (!first) scope.next();
            Object result = Object::steal(into_python([&] { return examples.call(loop->index); }));
            if (!result) {
                if (!PyErr_ExceptionMatches(PyExc_Exception)) throw PythonError{};
                error = take_exception();
                break;
            }
            checked(PyList_Append(results.get(), result.get()));
        }
        return checked(PyTuple_Pack(2, results.get(), error.get()));
    });
}

/// _example_index(outer): the index of the example that runs, or of one `outer` calls around it; None
/// where there is none.
PyObject* example_index(PyObject*, PyObject* outer) {
    return guarded([&] {
        std::vector<int64_t> path = deferred::Batcher::current().path();
        int64_t level = to_int(outer, "current_example");
        WEFT_EXPECT(level >= 0, Value, "current_example", "outer of at least 0",
                    std::to_string(level));
        if (level >= static_cast<int64_t>(path.size())) return Py_NewRef(Py_None);
        return py_int(path[level]).release();
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

/// _numbered(): lists of attributes that have a number (Call::attrs_number).
PyObject* numbered(PyObject*, PyObject*) { return PyLong_FromSize_t(deferred::numbered_attrs()); }

/// _kinds(): kinds of calls that are remembered.
PyObject* kinds(PyObject*, PyObject*) {
    return PyLong_FromSize_t(deferred::Batcher::current().tape.kinds().kinds.size());
}

/// _set_budget(n): calls that may wait before they are computed; returns the number before.
PyObject* set_budget(PyObject*, PyObject* n) {
    return guarded([&] {
        auto wanted = static_cast<size_t>(std::max<int64_t>(1, to_int(n, "_set_budget")));
        return PyLong_FromSize_t(
            std::exchange(deferred::Batcher::current().settings.budget, wanted));
    });
}

PyObject* py_saved(const deferred::Saved& s) {
    return Py_BuildValue("(dd)", s.forward, s.backward);
}

constexpr const char* kUse = "weft.graph_use";

/// _begin_run(): what batches record from now on is of one run; returns a handle for `_graph_use`.
PyObject* begin_run(PyObject*, PyObject*) {
    return guarded([] {
        Ref<GraphUse> use(new GraphUse);
        Object handle = Object::take(PyCapsule_New(use.get(), kUse, [](PyObject* capsule) {
            Ref<GraphUse>::adopt(static_cast<GraphUse*>(PyCapsule_GetPointer(capsule, kUse)));
        }));
        ++use->refs;  // the capsule's
        deferred::Batcher::current().use = std::move(use);
        return handle.release();
    });
}

PyObject* end_run(PyObject*, PyObject*) {
    deferred::Batcher::current().use = nullptr;
    Py_RETURN_NONE;
}

/// _graph_use(handle): whether some of what the run recorded was run backward; None as long as it was
/// not and may still be (Note [Graph use]).
PyObject* graph_use(PyObject*, PyObject* handle) {
    return guarded([&]() -> PyObject* {
        auto* use = static_cast<GraphUse*>(PyCapsule_GetPointer(handle, kUse));
        if (!use) throw PythonError{};
        if (!use->ran && use->refs > 1) Py_RETURN_NONE;
        return PyBool_FromLong(use->ran);
    });
}

/// _saved(examples): nanoseconds that batching has saved on this thread so far, as Note [Worth]
/// estimates: forward, and backward if the graph is run. Counts a run of so many examples, if any.
PyObject* saved(PyObject*, PyObject* examples) {
    return guarded([&] {
        int64_t n = to_int(examples, "_saved");
        deferred::Tally& tally = deferred::Batcher::current().tally;
        tally.examples += n;
        tally.runs += n > 0;
        return py_saved(deferred::saved(tally));
    });
}

std::vector<std::pair<const char*, int64_t*>> fields(deferred::Tally& t) {
    return {{"runs", &t.runs},    {"examples", &t.examples}, {"fibers", &t.fibers},
            {"waits", &t.waits},  {"calls", &t.calls},       {"merged", &t.merged},
            {"nodes", &t.nodes},  {"weights", &t.weights},   {"weights_back", &t.weights_back},
            {"passes", &t.passes}};
}

/// _tally(): the counts that the estimate is made of, as a dict.
PyObject* counts(PyObject*, PyObject*) {
    return guarded([] {
        Object out = Object::take(PyDict_New());
        for (auto [name, count] : fields(deferred::Batcher::current().tally))
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

PyObject* reporting(PyObject*, PyObject*) {
    return PyBool_FromLong(deferred::Batcher::current().reporting.scopes > 0);
}

/// _set_large(n): elements from which on a call runs at once (Note [Large]); returns those before.
PyObject* set_large(PyObject*, PyObject* n) {
    return guarded([&] {
        int64_t wanted = std::max<int64_t>(1, to_int(n, "_set_large"));
        return PyLong_FromLongLong(
            std::exchange(deferred::Batcher::current().settings.large_call, wanted));
    });
}

/// _set_ahead(n): elements that a batch makes ahead (Note [Spread]); returns those before.
PyObject* set_ahead(PyObject*, PyObject* n) {
    return guarded([&] {
        return PyLong_FromLongLong(
            std::exchange(deferred::Batcher::current().settings.ahead, to_int(n, "_set_ahead")));
    });
}

PyMethodDef deferred_functions[] = {{"_one_by_one", c_function(one_by_one), METH_FASTCALL, nullptr},
                                    {"_example_index", example_index, METH_O, nullptr},
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
                                    {"_numbered", numbered, METH_NOARGS, nullptr},
                                    {"_plan", plan, METH_O, nullptr},
                                    {"_flush", flush, METH_O, nullptr},
                                    {"_change_object", change_object, METH_O, nullptr},
                                    {"_failures", failures, METH_NOARGS, nullptr},
                                    {"_settle", settle, METH_O, nullptr},
                                    {"_is_pending", is_pending, METH_O, nullptr},
                                    {"_note_parked", note_parked, METH_O, nullptr},
                                    {"_in_place_of", in_place_of, METH_O, nullptr},
                                    {"_same_root", same_root, METH_VARARGS, nullptr},
                                    {"_written", written, METH_O, nullptr},
                                    {"_report", report, METH_O, nullptr},
                                    {}};

}  // namespace

void init_deferred(PyObject* module) {
    deferred::install();
    deferred::host.keep = keep_exception;
    checked(PyModule_AddFunctions(module, deferred_functions));
}

}  // namespace weft::python
