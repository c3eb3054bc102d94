/// Calls while a stretch is traced: of programs, of ops, of what Python has.
#include "python/program_trace.h"

#include <algorithm>
#include <cstring>

#include "python/hooks.h"
#include "python/program_trace_values.h"

namespace weft::python {

using program::FlatInstr;
using program::Verb;
using namespace tracing;

/// The stretch may end here: at the instruction that comes next.
void TraceHost::mark() {
    mark_.pc = base_->pc;
    mark_.registers.clear();
    for (int32_t r = 0; r < base_->code->registers; ++r)
        mark_.registers.push_back(Object::borrow(base_->registers[r]));
    mark_.guards = made_->guards.size();
    mark_.steps = tracer_->steps();
    mark_.writes = tracer_->writes();
    mark_.is_over = false;
}

Frame* TraceHost::enter_program(Frame* frame, const Target& target, PyObject* const* args, size_t n,
                                PyObject* names) {
    Program* program = program_of(target.function);
    if (!program) {
        forget_error();
        return nullptr;
    }
    if (open_.size() > kMostDepth) throw Refused{"it calls deeply"};
    // Recursion over the same object follows values; over Modules that differ, their structure.
    PyObject* first = target.self ? target.self : n ? args[0] : nullptr;
    if (first && is_live(first)) first = live_of(first).actual;
    for (const Frame* f : open_) {
        if (f->program != program) continue;
        PyObject* its = f->registers[0];
        if (its && is_live(its)) its = live_of(its).actual;
        if (!first || !its || !is_module(first) || its == first) throw Refused{"recursion"};
    }
    if (!is_own(target.function) && !made_->guards.function(target.function))
        throw Refused{"a function"};
    if (target.module && !made_->guards.module_call(target.module)) throw Refused{"a module"};
    Frame* inner = PythonHost::bind(target, program, args, n, names);
    if (!inner) throw Refused{"arguments that do not fit"};
    open_.push_back(inner);
    for (int32_t k = 0; k < program->function.own_cells; ++k) own(inner->cells[k]);
    const int32_t params = program->function.params;
    if (program->has_args) own(inner->registers[params - 1 - program->has_kwargs]);
    if (program->has_kwargs) own(inner->registers[params - 1]);
    const size_t given = n + (names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0);
    for (int32_t r = 0; r < params; ++r)
        if (PyObject* o = inner->registers[r]; is_tensor(o) && !is_traced_tensor(o))
            if (o != target.self && std::find(args, args + given, o) == args + given)
                throw Refused{"a tensor as a default value"};
    inner->caller = frame;
    running->frame = inner;
    return inner;
}

Frame* TraceHost::call(Frame* frame, const FlatInstr& i, PyObject* const* args, PyObject*& result) {
    if (--budget_ < 0) throw Refused{"it is long"};
    const Program& p = *frame->program;
    PyObject* names = i.names < 0 ? nullptr : p.attrs[static_cast<size_t>(i.names)].get();
    const size_t words = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
    if (i.verb == Verb::CallEx) {
        PyObject* all = use(args[1]);
        if (is_live(all) || !PyTuple_CheckExact(all)) throw Refused{"arguments of the caller's"};
        PyObject* given = args[2];
        std::vector<PyObject*> flat(PySequence_Fast_ITEMS(all),
                                    PySequence_Fast_ITEMS(all) + PyTuple_GET_SIZE(all));
        Object keys;
        if (given != Py_None && PyDict_GET_SIZE(given)) {
            if (!is_own(given)) throw Refused{"arguments of the caller's"};
            keys = Object::take(spread(given, flat));
        }
        return call_object(frame, use(args[0]), flat.data(),
                           static_cast<size_t>(PyTuple_GET_SIZE(all)), keys.get(), result);
    }
    const size_t n = static_cast<size_t>(i.count) - 1 - words;
    PyObject* callee = use(args[0]);
    if (i.verb == Verb::Method) {
        PyObject* name = p.attrs[static_cast<size_t>(i.attr)].get();
        bool found = false;
        result = call_method(callee, name, args + 1, n, names, found);
        if (found) return nullptr;
        Object method = Object::steal(attribute(callee, name));
        return call_object(frame, method.get(), args + 1, n, names, result);
    }
    return call_object(frame, callee, args + 1, n, names, result);
}

/// A method of a tensor or of a container.
PyObject* TraceHost::call_method(PyObject* holder, PyObject* name, PyObject* const* args, size_t n,
                                 PyObject* names, bool& found) {
    SmallVector<PyObject*, 12> given;
    given.push_back(holder);
    auto use_all = [&](bool keeps) {
        const size_t words = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
        for (size_t k = 0; k < n + words; ++k) {
            given.push_back(keeps ? use_or_keep(args[k]) : use(args[k]));
            if (!keeps) expect_plain(given.back());
        }
    };
    auto call = [&] {
        found = true;
        require_apart(given.data(), given.size());
        PyObject* out = checked(PyObject_VectorcallMethod(name, given.data(), n + 1, names));
        return is_own(out) ? out : of_call(out);
    };
    if (is_live(holder)) throw Refused{"a method of a tuple"};
    if (is_traced_tensor(holder)) {
        note_of_class(name);
        if (!is_method_of_tensors(name)) throw Refused{"a method of a tensor"};
        use_all(false);
        return call();
    }
    if (is_made_here(holder) && is_among(name, kLayoutMethods)) {
        use_all(false);
        return call();
    }
    if (is_container(holder)) {
        if (is_among(name, kWriters)) {
            mutate(holder);
        } else {
            if (!is_among(name, kReaders)) throw Refused{"a method of a container"};
            if (!is_own(holder)) look_into(holder);
        }
        use_all(true);
        PyObject* out = call();
        return is_own(holder) ? out : told(out);
    }
    if (is_value(holder)) {
        use_all(false);
        return call();
    }
    return nullptr;
}

/// The result of a call. Each run makes the tensors in it anew; one that no call of a plan makes is the same in all
/// runs, which a leaf must not be: backward adds to its `.grad`.
PyObject* TraceHost::of_call(PyObject* out) {
    if (is_tensor(out) && is_made_here(out) && requires_grad(python::handle(out))) {
        Py_DECREF(out);
        throw Refused{"a tensor that is made to require a gradient"};
    }
    return is_value(out) || is_tensor(out) ? out : own(out);
}

PyObject* TraceHost::call_bound(PyObject* method, PyObject* const* args, size_t n,
                                PyObject* names) {
    SmallVector<PyObject*, 12> given;
    const size_t words = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
    for (size_t k = 0; k < n + words; ++k) {
        given.push_back(use(args[k]));
        expect_plain(given.back());
    }
    require_apart(given.data(), given.size());
    PyObject* out = checked(PyObject_Vectorcall(method, given.data(), n, names));
    return of_call(out);
}

Frame* TraceHost::call_object(Frame* frame, PyObject* callee, PyObject* const* args, size_t n,
                              PyObject* names, PyObject*& result) {
    if (is_live(callee)) throw Refused{"a call of an object"};
    if (is_bound_to_traced(callee)) {
        result = call_bound(callee, args, n, names);
        return nullptr;
    }
    if (is_scope_type(callee)) {
        if (names) throw Refused{"a scope with a name"};
        result = make_scope(callee, args, n);
        return nullptr;
    }
    Target target = target_of(callee);
    if (target.function && !is_of_ops(target.function))
        if (Frame* inner = enter_program(frame, target, args, n, names)) return inner;
    result = call_builtin(callee, args, n, names);
    return nullptr;
}

PyObject* TraceHost::call_builtin(PyObject* callee, PyObject* const* args, size_t n,
                                  PyObject* names) {
    auto is_own_question = [&] {
        return PyCFunction_Check(callee) && is_builtin_function(callee) &&
               is_of_module(callee, "weft._C") &&
               is_among(
                   std::string_view(reinterpret_cast<PyCFunctionObject*>(callee)->m_ml->ml_name),
                   kOwn);
    };
    const bool ops = is_of_ops(callee) || is_own_question();
    const bool of_python = is_builtin_function(callee) && is_of_module(callee, "builtins");
    if (of_python) {
        const char* name = reinterpret_cast<PyCFunctionObject*>(callee)->m_ml->ml_name;
        if (!is_among(std::string_view(name), kBuiltins)) throw Refused{"a function of Python's"};
        if (std::strcmp(name, "isinstance") == 0 && n == 2)
            return is_instance(args[0], use(args[1]));
        if (std::strcmp(name, "getattr") == 0 && n >= 2)
            return attribute(use(args[0]), use(args[1]));
        if (std::strcmp(name, "callable") == 0 || std::strcmp(name, "id") == 0)
            throw Refused{"a function of Python's"};
        if (std::strcmp(name, "len") == 0 && n == 1) {
            PyObject* o = use(args[0]);
            if (is_live(o)) return PyLong_FromSsize_t(PyTuple_GET_SIZE(live_of(o).actual));
            if (is_module(o)) {
                Object values = Object::steal(values_of_module(o));
                return PyLong_FromSsize_t(PyTuple_GET_SIZE(values.get()));
            }
        }
    } else if (!ops && !is_pure_type(callee) &&
               !(is_builtin_function(callee) && is_of_module(callee, "math"))) {
        throw Refused{"a function of Python's"};
    }
    SmallVector<PyObject*, 12> given;
    std::vector<Object> tuples;
    const size_t words = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
    const bool holds = is_pure_type(callee) || of_python;
    for (size_t k = 0; k < n + words; ++k) {
        PyObject* o = use(args[k]);
        if (is_live(o)) {  // a tuple
            const Py_ssize_t size = PyTuple_GET_SIZE(live_of(o).actual);
            Object items = Object::take(PyTuple_New(size));
            for (Py_ssize_t j = 0; j < size; ++j) {
                Object item = Object::steal(item_of(o, j));
                PyObject* used = holds ? use_or_keep(item.get()) : use(item.get());
                PyTuple_SET_ITEM(items.get(), j, Py_NewRef(used));
            }
            o = own(items.get());
            tuples.push_back(std::move(items));
        } else if (holds && is_module(o)) {
            tuples.push_back(Object::steal(values_of_module(o)));
            o = tuples.back().get();
        } else if (!(holds && is_own(o)) && !is_of(o, "weft.device") && !is_of(o, "device")) {
            expect_plain(o);
        }
        given.push_back(o);
    }
    if (of_python && std::any_of(given.begin(), given.end(), is_tensor))  // abs() is __abs__
        note_special("__", reinterpret_cast<PyCFunctionObject*>(callee)->m_ml->ml_name);
    if (!is_of(callee, "weft.Function")) require_apart(given.data(), given.size());
    PyObject* out = checked(PyObject_Vectorcall(callee, given.data(), n, names));
    return of_call(out);
}

PyObject* TraceHost::is_instance(PyObject* o, PyObject* kinds) {
    auto is_type = [](PyObject* kind) { return PyType_Check(kind); };
    if (is_live(kinds)) throw Refused{"a class of the caller's"};
    if (PyTuple_CheckExact(kinds)) {
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kinds); ++k)
            if (!is_type(PyTuple_GET_ITEM(kinds, k))) throw Refused{"isinstance of no class"};
    } else if (!is_type(kinds)) {
        throw Refused{"isinstance of no class"};
    }
    PyObject* of = use_or_keep(o);
    if (auto at = actual_.find(of); at != actual_.end()) of = at->second.actual;
    if (is_live(of)) {
        PyObject* actual = live_of(of).actual;
        ask(of, Condition::Kind::Type, type_of(actual));
        of = actual;
    } else if (!is_value(of) && !is_tensor(of) && !is_own(of) && !made_->guards.type_of(of)) {
        throw Refused{"a type"};
    }
    const int is = PyObject_IsInstance(of, kinds);
    if (is < 0) checked(nullptr);
    return PyBool_FromLong(is);
}

// ---- scopes

bool TraceHost::differs() const {
    return ((mode ^ made_->mode) & (kGradMode | kEnabledInInference)) != 0;
}

/// After a scope has changed the mode.
void TraceHost::note_mode() {
    if (mode & kGradMode && !(made_->mode & kGradMode)) throw Refused{"a scope that records"};
    if (!depth_ && !differs()) outermost_ = -1;
    else if (outermost_ < 0) outermost_ = base_->pc;
}

PyObject* TraceHost::make_scope(PyObject* type, PyObject* const* args, size_t n) {
    PyObject* on = n == 1 ? use(args[0]) : nullptr;
    if (made_->mode & kDeferMode || n > 1 || (on && !PyBool_Check(on))) throw Refused{"a scope"};
    PyObject* made = own(checked(PyObject_Vectorcall(type, &on, n, nullptr)));
    note_mode();
    return made;
}

bool TraceHost::enter(Frame* frame, const FlatInstr& i, PyObject* manager) {
    if (!is_own(manager) || !is_scope_type(type_of(manager))) throw Refused{"a with"};
    if (!PythonHost::enter(frame, i, manager)) checked(nullptr);
    own(frame->registers[i.target]);
    depth_ += frame == base_;
    note_mode();
    return true;
}

PyObject* TraceHost::leave_scope(Frame* frame, const FlatInstr& i, PyObject* const* args) {
    if (!is_own(args[0])) throw Refused{"a with"};
    PyObject* left = checked(PythonHost::evaluate(frame, i, args));
    depth_ -= frame == base_;
    note_mode();
    return left;
}

void TraceHost::leave(Frame* frame, PyObject*& result) {
    if (!result) throw Refused{why_not()};
    running->frame = static_cast<Frame*>(frame->caller);
}

void TraceHost::free(Frame* frame) {
    open_.erase(std::find(open_.begin(), open_.end(), frame));
    PythonHost::free(frame);
}

}  // namespace weft::python
