/// A trace from its beginning to its end, and what is at the end.
#include "python/program_trace.h"

#include "deferred/turn.h"
#include "ops/pointwise.h"
#include "python/program_trace_values.h"

namespace weft::python {

using namespace tracing;

/// Says how values at the end are made.
struct Finisher {
    TraceHost& host;
    Stretch& stretch;
    std::vector<Tensor> outputs{};
    std::unordered_map<PyObject*, int32_t> known{};

    int32_t add(PyObject* o, Recipe recipe) {
        const auto number = static_cast<int32_t>(stretch.recipes.size());
        stretch.recipes.push_back(std::move(recipe));
        known.emplace(o, number);
        return number;
    }

    /// Throws Refused.
    int32_t recipe(PyObject* o) {
        using Kind = Recipe::Kind;
        if (auto at = known.find(o); at != known.end()) return at->second;
        if (is_live(o)) return add(o, {Kind::Source, live_of(o).source});
        if (is_traced_tensor(o)) return tensor(o);
        if (is_tensor(o)) return add(o, {Kind::Copy, 0, Object::borrow(o)});
        if (!host.is_own(o) || is_value(o)) return add(o, {Kind::Captured, 0, Object::borrow(o)});
        if (PyTuple_CheckExact(o)) return container(o, Kind::Tuple);
        if (PyList_CheckExact(o)) return container(o, Kind::List);
        if (PyDict_CheckExact(o)) return dict(o);
        if (PySlice_Check(o)) {
            auto* s = reinterpret_cast<PySliceObject*>(o);
            std::vector<int32_t> parts = {recipe(s->start), recipe(s->stop), recipe(s->step)};
            return add(o, {Kind::Slice, 0, {}, std::move(parts)});
        }
        if (PyMethod_Check(o)) {
            std::vector<int32_t> parts = {recipe(PyMethod_GET_SELF(o))};
            if (host.is_own(PyMethod_GET_FUNCTION(o))) throw Refused{"a function"};
            return add(
                o, {Kind::Method, 0, Object::borrow(PyMethod_GET_FUNCTION(o)), std::move(parts)});
        }
        if (Py_TYPE(o) == &PyListIter_Type || Py_TYPE(o) == &PyTupleIter_Type) return iterator(o);
        throw Refused{"a value at the end"};
    }

    int32_t tensor(PyObject* o) {
        using Kind = Recipe::Kind;
        if (auto at = host.actual_.find(o); at != host.actual_.end()) {
            const TraceHost::InputOf& in = at->second;
            if (in.source >= 0) return add(o, {Kind::Source, in.source});
            return add(o, {Kind::Captured, 0, Object::borrow(in.actual)});
        }
        outputs.push_back(python::handle(o));
        return add(o, {Kind::Output, static_cast<int32_t>(outputs.size()) - 1});
    }

    int32_t container(PyObject* o, Recipe::Kind kind) {
        std::vector<int32_t> parts;
        for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); ++k)
            parts.push_back(recipe(PySequence_Fast_GET_ITEM(o, k)));
        return add(o, {kind, 0, {}, std::move(parts)});
    }

    int32_t dict(PyObject* o) {
        std::vector<int32_t> parts;
        Py_ssize_t at = 0;
        PyObject *key, *value;
        while (PyDict_Next(o, &at, &key, &value)) {
            parts.push_back(recipe(key));
            parts.push_back(recipe(value));
        }
        return add(o, {Recipe::Kind::Dict, 0, {}, std::move(parts)});
    }

    int32_t iterator(PyObject* o) {
        Object reduced = Object::take(PyObject_CallMethod(o, "__reduce__", nullptr));
        if (PyTuple_GET_SIZE(reduced.get()) < 3) throw Refused{"an iterator at its end"};
        PyObject* sequence = PyTuple_GET_ITEM(PyTuple_GET_ITEM(reduced.get(), 1), 0);
        const long at = PyLong_AsLong(PyTuple_GET_ITEM(reduced.get(), 2));
        std::vector<int32_t> parts = {recipe(sequence)};
        return add(o, {Recipe::Kind::Iterator, static_cast<int32_t>(at), {}, std::move(parts)});
    }
};

void TraceHost::end_at_mark(Stretch& s, Finisher& finisher) const {
    auto value = [&](int32_t r) { return mark_.registers[static_cast<size_t>(r)].get(); };
    s.end_at(
        *at_->code, mark_.pc, [&](int32_t r) { return at_->registers[r] != nullptr; },
        [&](int32_t r) { return value(r) != nullptr; },
        [&](int32_t r) {
            return is_live(value(r)) &&
                   s.sources[static_cast<size_t>(live_of(value(r)).source)].reg == r;
        },
        [&](int32_t r) { return finisher.recipe(value(r)); });
}

void TraceHost::begin() {
    const program::Code& code = *at_->code;
    base_ = PythonHost::new_frame(at_->function, at_->program);
    base_->pc = at_->pc;
    open_.push_back(base_);
    for (int32_t k = 0; k < at_->program->cells; ++k) {
        base_->cells[k] = Py_NewRef(at_->cells[k]);
        cells_.emplace(at_->cells[k], Object());
    }
    Stretch& s = *made_;
    s.mode = mode;
    s.globals = at_->globals;
    s.dtype = ops::default_dtype;
    for (int32_t r = 0; r < code.registers; ++r)
        if (at_->registers[r] && code.is_live(at_->pc, r))
            base_->registers[r] = live(at_->registers[r], {r});
    mark();
}

Object TraceHost::run_base(const char** why) {
    struct Current {
        explicit Current(TraceHost* host) : outer(std::exchange(current_, host)) {}
        ~Current() { current_ = outer; }
        TraceHost* const outer;
    } current(this);
    try {
        program::Tracer::Scope scope(*tracer_);
        const ModeGuard now(0, kDeferMode);
        const deferred::Stay stay;  // what is half traced is nothing to wait with
        program::Machine<TraceHost> machine(*this);
        *why = nullptr;
        Object returned = Object::steal(machine.run(base_));
        if (differs()) throw Refused{"a scope that stays open"};
        return returned;
    } catch (const Refused& refused) {
        *why = refused.why;
    } catch (const PythonError&) {
        *why = why_not();
    } catch (const Error&) {
        *why = why_not();
    }
    forget_error();
    return {};
}

Ref<Stretch> TraceHost::finish(PyObject* returned, const char** why) {
    Stretch& s = *made_;
    const Refused none{"nothing to gain"};
    try {
        Finisher finisher{*this, s};
        if (returned) s.returned = finisher.recipe(returned);
        else end_at_mark(s, finisher);
        Ref<program::Segment> segment = tracer_->finish(finisher.outputs);
        // of a call with views of its result what Python would do is spared, if it is kept
        const bool spares = s.mode & kDeferMode && segment->steps.size() > 1;
        // a backend is asked about all
        if (!s.take(std::move(segment), (reach && reach->backend) || spares ? 1 : 2)) throw none;
    } catch (const Refused& refused) {
        if (!*why || refused.why != none.why) *why = refused.why;
        return {};
    } catch (const program::NotTraceable&) {
        *why = "a value of before";
        return {};
    } catch (const PythonError&) {
        forget_error();
        return {};
    }
    s.guards.seal();
    return std::move(made_);
}

Ref<Stretch> TraceHost::run(int32_t* ended, const char** why) {
    begin();
    struct Restore {
        Frame* outer = running->frame;
        ~Restore() { running->frame = outer; }
    } restore;
    running->frame = base_;
    const Object returned = run_base(why);
    *ended = outermost_ >= 0 ? outermost_ : base_->pc;
    if (!returned) {
        lost_by_writes_ = tracer_->writes() > mark_.writes;
        if (mark_.is_over || lost_by_writes_) return {};
        made_->guards.shrink(mark_.guards);
        tracer_->shrink(mark_.steps);  // those run that might raise, whether they are needed or not
    }
    return finish(returned.get(), why);
}

}  // namespace weft::python
