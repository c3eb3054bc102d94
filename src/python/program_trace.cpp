/// Reading guide: what values are (`use`, `told`), then one case for each instruction. Calls are in
/// program_trace_calls.cpp, the end is in program_trace_end.cpp.
#include "python/program_trace.h"

#include <algorithm>

#include "python/hooks.h"
#include "python/program_trace_values.h"

namespace weft::python {

using program::FlatInstr;
using program::Verb;
using namespace tracing;

// ---- what values are

TraceHost::TraceHost(Frame* at, const std::vector<LiveSource>& varying,
                     const std::vector<VaryingRead>& varying_reads, bool writes)
    : at_(at), varying_(varying), varying_reads_(varying_reads) {
    tracer_->take_writes(writes && !(mode & kDeferMode) && !backend_now());
}

TraceHost::~TraceHost() {
    while (!open_.empty()) {
        PythonHost::free(open_.back());
        open_.pop_back();
    }
}

PyObject* TraceHost::live(PyObject* actual, LiveSource source) {
    PyObject* made = python::checked(live_type.tp_alloc(&live_type, 0));
    made_->sources.push_back(source);
    live_of(made).actual = Py_NewRef(actual);
    live_of(made).traced = nullptr;
    live_of(made).source = static_cast<int32_t>(made_->sources.size()) - 1;
    return made;
}

PyObject* TraceHost::use(PyObject* o) {
    o = use_or_keep(o);
    if (is_live(o) && !PyTuple_CheckExact(live_of(o).actual))
        throw Refused{"an object of the caller's"};
    return o;
}

bool TraceHost::is_usable(PyObject* tensor) const {
    if (!is_plain_tensor(tensor)) return false;
    const Tensor t = python::handle(tensor);
    return !t.has(kPending) || (made_->mode & kDeferMode && promise(t).taken_in() == kDeferMode);
}

/// As what a stretch takes for `t` is laid out.
Tensor TraceHost::laid_out(const Tensor& t) const {
    return made_->mode & kDeferMode ? program::plain_layout(t) : t;
}

/// The first condition on a value is the one that counts.
void TraceHost::ask(PyObject* o, Condition::Kind kind, PyObject* object, int32_t length) {
    PyLive& l = live_of(o);
    if (!std::exchange(l.is_used, true))
        made_->conditions.push_back({kind, l.source, length, Object::borrow(object)});
}

PyObject* TraceHost::input_of(PyObject* tensor, int32_t source) {
    auto [at, is_new] = inputs_.try_emplace(tensor, nullptr);
    if (is_new) {
        const Tensor t = python::handle(tensor);
        at->second = wrap(tracer_->input(laid_out(t), program::wants_grad(t)));
        kept_.push_back(Object::steal(at->second));
        made_->inputs.push_back({source, source < 0 ? Object::borrow(tensor) : Object()});
        actual_.emplace(at->second, InputOf{tensor, source});
        return at->second;
    }
    const int32_t first = actual_.at(at->second).source;
    using Kind = Condition::Kind;
    if (source >= 0 && first >= 0) made_->conditions.push_back({Kind::Same, source, first, {}});
    else if (source >= 0 || first >= 0)
        made_->conditions.push_back(
            {Kind::Identity, std::max(source, first), 0, Object::borrow(tensor)});
    return at->second;
}

/// Of all that a function is given which may ask whether two of them are one.
void TraceHost::require_apart(PyObject* const* args, size_t n) {
    std::vector<PyObject*> found;
    for (size_t k = 0; k < n; ++k) find_inputs(args[k], found);
    if (found.size() < 2) return;
    for (PyObject* o : found) tell_apart(o);
}

void TraceHost::tell_apart(PyObject* o) {
    if (!apart_.insert(o).second) return;
    const Tensor t = python::handle(o);
    auto is_alike = [&](const Distinct& d) {
        return d.like.dtype() == t.dtype() && weft::equal(d.like.shape(), t.shape());
    };
    auto& all = made_->distinct;
    auto at = std::find_if(all.begin(), all.end(), is_alike);
    if (at == all.end()) at = all.insert(at, {Tensor::layout_like(t, t.dtype()), {}, {}});
    const InputOf& of = actual_.at(o);
    if (of.source >= 0) at->sources.push_back(of.source);
    else at->captured.push_back(Object::borrow(of.actual));  // guards say which they are
}

void TraceHost::hashed(PyObject* tensor) {
    if (current_ && current_->actual_.contains(tensor)) current_->tell_apart(tensor);
}

void TraceHost::find_inputs(PyObject* o, std::vector<PyObject*>& found) const {
    if (actual_.contains(o)) found.push_back(o);
    else if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
        for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); ++k)
            find_inputs(PySequence_Fast_GET_ITEM(o, k), found);
    } else if (PyDict_CheckExact(o)) {
        Py_ssize_t at = 0;
        PyObject *key, *value;
        while (PyDict_Next(o, &at, &key, &value)) find_inputs(value, found);
    }
}

PyObject* TraceHost::use_or_keep(PyObject* o) {
    if (!is_live(o)) return o;
    PyLive& l = live_of(o);
    PyObject* actual = l.actual;
    if (l.traced) return l.traced;
    using Kind = Condition::Kind;
    if (is_tensor(actual)) {
        if (!is_usable(actual)) throw Refused{"a tensor of another class"};
        ask(o, Kind::Tensor, type_of(actual));
        kept_.push_back(Object::borrow(o));
        return l.traced = Py_NewRef(input_of(actual, l.source));
    }
    if (is_value(actual)) {
        if (is_number_like(actual)) {
            const LiveSource& s = made_->sources[static_cast<size_t>(l.source)];
            for (const LiveSource& v : varying_)
                if (v.reg == s.reg && v.item == s.item && s.parent < 0)
                    throw Refused{"a number that varies"};
        }
        ask(o, Kind::Equal, actual);
        return actual;
    }
    if (is_fixed(actual)) {
        ask(o, Kind::Identity, actual);
        return actual;
    }
    if (PyTuple_CheckExact(actual))
        ask(o, Kind::Tuple, nullptr, static_cast<int32_t>(PyTuple_GET_SIZE(actual)));
    return o;
}

/// Item k of a live tuple, new.
PyObject* TraceHost::item_of(PyObject* tuple, Py_ssize_t k) {
    PyLive& l = live_of(tuple);
    return live(PyTuple_GET_ITEM(l.actual, k), {-1, l.source, static_cast<int32_t>(k)});
}

PyObject* TraceHost::told(PyObject* o) {
    Object found = Object::steal(o);
    if (!is_tensor(o)) return found.release();
    if (is_traced_tensor(o)) return found.release();
    if (!is_usable(o)) throw Refused{"a tensor of another class"};
    return Py_NewRef(input_of(o, -1));
}

PyObject* TraceHost::own(PyObject* fresh) {
    if (own_.insert(fresh).second) kept_.push_back(Object::borrow(fresh));
    return fresh;
}

void TraceHost::mutate(PyObject* o) {
    if (!is_own(o)) throw Refused{"a write"};
    mark_.is_over = true;
}

PyObject* TraceHost::checked(PyObject* result) {
    if (result) return result;
    forget_error();
    throw Refused{why_not()};
}

/// Nothing but layouts, values and what was made here.
void TraceHost::expect_plain(PyObject* o) {
    if (is_traced_tensor(o) || is_value(o)) return;
    if (Py_TYPE(o) == &tensor_type) return;  // made here, of no traced tensor
    if (PySlice_Check(o) || is_container(o)) return look_into(o);
    throw Refused{"an object"};
}

/// What a container holds counts.
void TraceHost::look_into(PyObject* o) {
    if (PySlice_Check(o)) {
        auto* s = reinterpret_cast<PySliceObject*>(o);
        for (PyObject* part : {s->start, s->stop, s->step}) expect_plain(part);
        return;
    }
    const bool mine = is_own(o);
    if (!mine && !PyTuple_CheckExact(o) && !made_->guards.items(o)) throw Refused{"a container"};
    auto item = [&](PyObject* part) {
        if (is_live(part)) throw Refused{"an object of the caller's"};
        if (is_tensor(part) && !is_traced_tensor(part) && !mine)
            throw Refused{"tensors in a container"};
        if (is_container(part)) look_into(part);
    };
    if (PyDict_CheckExact(o)) {
        Py_ssize_t at = 0;
        PyObject *key, *value;
        while (PyDict_Next(o, &at, &key, &value)) item(value);
    } else if (!PyAnySet_CheckExact(o)) {
        for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(o); ++k)
            item(PySequence_Fast_GET_ITEM(o, k));
    }
}

// ---- instructions

PyObject* TraceHost::evaluate(Frame* frame, const FlatInstr& i, PyObject* const* args) {
    if (--budget_ < 0) throw Refused{"it is long"};
    switch (i.verb) {
        case Verb::Global: {
            PyObject* name = frame->program->attrs[static_cast<size_t>(i.attr)].get();
            PyObject* found = made_->guards.global(frame->globals, frame->builtins, name);
            if (!found) throw Refused{"a global"};
            expect_fixed(frame->globals, name, found);
            return told(found);
        }
        case Verb::Cell:
        case Verb::Free: {
            PyObject* cell = frame->cells[i.sub];
            if (!PyCell_GET(cell)) throw Refused{"an unbound variable"};
            if (auto at = cells_.find(cell); at != cells_.end()) {
                if (!at->second)
                    at->second = Object::steal(live(
                        PyCell_GET(cell),
                        {static_cast<int32_t>(
                            std::find(base_->cells, base_->cells + base_->program->cells, cell) -
                            base_->registers)}));
                return Py_NewRef(at->second.get());
            }
            if (!is_own(cell) && !made_->guards.cell(cell)) throw Refused{"a cell"};
            PyObject* found = PyCell_GET(cell);
            return is_own(cell) ? Py_NewRef(found) : told(Py_NewRef(found));
        }
        case Verb::SetCell:
            mutate(frame->cells[i.sub]);
            PyCell_Set(frame->cells[i.sub], args[0]);
            return Py_NewRef(Py_None);
        case Verb::NewCell:
            if (frame == base_) throw Refused{"a cell"};
            checked(PythonHost::evaluate(frame, i, args));
            own(frame->cells[i.sub]);
            return Py_NewRef(Py_None);
        case Verb::Attr:
        case Verb::Lookup:
            return attribute(use(args[0]),
                             frame->program->attrs[static_cast<size_t>(i.attr)].get());
        case Verb::Get:
            return get_item(use(args[0]), use(args[1]));
        case Verb::SetGet:
        case Verb::Put: {
            PyObject* holder = use(args[0]);
            if (!PyDict_CheckExact(holder) && !PyList_CheckExact(holder)) throw Refused{"a write"};
            mutate(holder);
            PyObject* const used[] = {holder, use(args[1]), use_or_keep(args[2])};
            expect_plain(used[1]);
            return checked(PythonHost::evaluate(frame, i, used));
        }
        case Verb::Slice: {
            PyObject* const used[] = {use(args[0]), use(args[1]), use(args[2])};
            for (PyObject* o : used) expect_plain(o);
            return own(checked(PythonHost::evaluate(frame, i, used)));
        }
        case Verb::Binary:
        case Verb::Inplace:
        case Verb::Unary:
            return operate(frame, i, args);
        case Verb::Compare:
            return compare(frame, i, args);
        case Verb::Tuple:
        case Verb::List:
        case Verb::Set:
        case Verb::Dict: {
            SmallVector<PyObject*, 12> used;
            for (int32_t k = 0; k < i.count; ++k) used.push_back(use_or_keep(args[k]));
            if (i.verb == Verb::Set)
                for (PyObject* o : used) expect_plain(o);
            if (i.verb == Verb::Dict)
                for (int32_t k = 0; k < i.count; k += 2) expect_plain(used[k]);
            return own(checked(PythonHost::evaluate(frame, i, used.data())));
        }
        case Verb::Insert: {
            PyObject* const used[] = {use(args[0]), use(args[1]), use(args[2])};
            mutate(used[0]);
            if (!PyDict_CheckExact(used[1])) throw Refused{"a container"};
            look_into(used[1]);
            return checked(PythonHost::evaluate(frame, i, used));
        }
        case Verb::Extend:
        case Verb::Update:
        case Verb::Merge:
        case Verb::Append:
        case Verb::Add: {
            PyObject* const used[] = {use(args[0]), use_or_keep(args[1])};
            mutate(used[0]);
            if (i.verb != Verb::Append && !is_value(used[1])) {  // a Size is one
                if (!is_container(used[1])) throw Refused{"a container"};
                look_into(used[1]);
            }
            return checked(PythonHost::evaluate(frame, i, used));
        }
        case Verb::ToTuple:
            return own(checked(PythonHost::evaluate(frame, i, args)));
        case Verb::Iter:
            return iterate(use(args[0]));
        case Verb::Super: {
            PyObject* const used[] = {use(args[0]), use(args[1])};
            return own(checked(PythonHost::evaluate(frame, i, used)));
        }
        case Verb::MakeFunction:
            return own(checked(PythonHost::evaluate(frame, i, args)));
        case Verb::Exit:
            return leave_scope(frame, i, args);
        default:
            throw Refused{"something Python does"};
    }
}

/// Notes what the classes of tensors have under a name, which programs may replace: methods and operators are theirs.
PyObject* TraceHost::note_of_class(PyObject* name) {
    PyObject* const found = made_->guards.in_class(&tensor_type, name);
    if (made_->guards.in_class(reinterpret_cast<PyTypeObject*>(parameter_type()), name) != found)
        throw Refused{"what a parameter does otherwise than a tensor"};
    return found;
}
void TraceHost::note_special(std::string_view before, std::string_view name) {
    const std::string text = std::string(before).append(name).append("__");
    PyObject* const found =
        note_of_class(Object::take(PyUnicode_InternFromString(text.c_str())).get());
    if (found && !Py_IS_TYPE(found, &PyWrapperDescr_Type))
        throw Refused{"an operator of tensors that was replaced"};
}

/// The same of what an operator calls.
void TraceHost::note_operator(const FlatInstr& i, PyObject* const* used) {
    constexpr std::string_view binary[] = {"add", "sub",    "mul",    "truediv", "floordiv",
                                           "mod", "pow",    "matmul", "and",     "or",
                                           "xor", "lshift", "rshift"};
    constexpr std::string_view unary[] = {"neg", "pos", "invert", "bool"};
    constexpr std::string_view compared[] = {"lt", "le", "eq", "ne", "gt", "ge"};
    static_assert(std::size(binary) == std::size(program::kBinary));
    static_assert(std::size(unary) == std::size(program::kUnary));
    if (std::none_of(used, used + i.count, is_tensor)) return;
    const auto op = static_cast<size_t>(i.sub);
    if (i.verb == Verb::Unary) return note_special("__", unary[op]);
    if (i.verb == Verb::Compare) {
        if (op >= std::size(compared)) return note_special("__", "contains");
        return note_special("__", compared[op]);
    }
    if (i.verb == Verb::Inplace) note_special("__i", binary[op]);
    note_special("__", binary[op]);
    note_special("__r", binary[op]);
}

PyObject* TraceHost::attribute(PyObject* holder, PyObject* name) {
    if (is_live(holder)) throw Refused{"an attribute of a tuple"};
    const bool tells_layout = is_among(name, kLayoutAttributes);
    if (is_traced_tensor(holder) || (is_made_here(holder) && tells_layout)) {
        PyObject* const of_class = note_of_class(name);
        // a method is looked up before its arguments are made
        if (is_method_of_tensors(name)) return own(checked(PyObject_GetAttr(holder, name)));
        if (!tells_layout || !of_class || !is_of(of_class, "weft.TensorProperty"))
            throw Refused{"an attribute of a tensor"};
        PyObject* found = checked(PyObject_GetAttr(holder, name));
        return is_value(found) ? found : own(found);
    }
    if (is_own(holder) && (PySlice_Check(holder) || is_container(holder)))
        throw Refused{"an attribute of a container"};
    if (is_value(holder)) return checked(PyObject_GetAttr(holder, name));
    PyObject* found = made_->guards.attribute(holder, name);
    if (!found) throw Refused{"an attribute"};
    if (PyMethod_Check(found)) return own(found);
    expect_fixed(holder, name, found);
    return told(found);
}

/// Note [Varying]
void TraceHost::expect_fixed(PyObject* holder, PyObject* name, PyObject* found) const {
    if (!is_number_like(found) && !is_tensor(found)) return;
    for (const VaryingRead& v : varying_reads_)
        if (v.times >= 2 && v.holder == holder && v.name.get() == name) {
            Py_DECREF(found);
            throw Refused{"an attribute that varies"};
        }
}

PyObject* TraceHost::get_item(PyObject* holder, PyObject* key) {
    if (is_live(key)) throw Refused{"a tuple of the caller's as an index"};
    if (is_live(holder)) {
        if (!PyLong_CheckExact(key)) throw Refused{"an item of a tuple"};
        const Py_ssize_t n = PyTuple_GET_SIZE(live_of(holder).actual);
        Py_ssize_t k = PyLong_AsSsize_t(key);
        if (k < 0) k += n;
        if (PyErr_Occurred() || k < 0 || k >= n) {
            forget_error();
            throw Refused{"an item of a tuple"};
        }
        return item_of(holder, k);
    }
    expect_plain(key);
    if (is_traced_tensor(holder)) {
        note_special("__", "getitem");
        return checked(PyObject_GetItem(holder, key));
    }
    if (is_value(holder)) {
        PyObject* found = checked(PyObject_GetItem(holder, key));
        return is_value(found) ? found : own(found);
    }
    if (is_module(holder) && PyLong_CheckExact(key)) {
        Object values = Object::steal(values_of_module(holder));
        return checked(PyObject_GetItem(values.get(), key));
    }
    if (!is_container(holder)) throw Refused{"an item of an object"};
    if (!is_own(holder) && !PyTuple_CheckExact(holder) && !made_->guards.items(holder))
        throw Refused{"an item of a container"};
    PyObject* found = checked(PyObject_GetItem(holder, key));
    if (PySlice_Check(key)) return own(found);
    return is_own(holder) ? found : told(found);
}

PyObject* TraceHost::operate(Frame* frame, const FlatInstr& i, PyObject* const* args) {
    PyObject* used[2] = {};
    for (int32_t k = 0; k < i.count; ++k) {
        used[k] = use(args[k]);
        if (is_live(used[k])) throw Refused{"a tuple of the caller's"};
        expect_plain(used[k]);
    }
    if (i.verb == Verb::Unary && i.sub == 3)  // not
        return PyBool_FromLong(!truth(used[0]));
    if (i.verb == Verb::Inplace && is_container(used[0]) && !PyTuple_CheckExact(used[0]))
        mutate(used[0]);
    note_operator(i, used);
    PyObject* found = checked(PythonHost::evaluate(frame, i, used));
    return is_container(found) ? own(found) : found;
}

PyObject* TraceHost::compare(Frame* frame, const FlatInstr& i, PyObject* const* args) {
    if (i.sub == 6 || i.sub == 7) {  // is, is not
        PyObject* parts[2];
        for (int k = 0; k < 2; ++k) {
            parts[k] = use_or_keep(args[k]);
            if (!is_live(parts[k])) continue;
            // told from None by its type
            if (args[1 - k] != Py_None) throw Refused{"whether two objects are one"};
            ask(parts[k], Condition::Kind::Type, type_of(live_of(parts[k]).actual));
        }
        require_apart(parts, 2);
        for (int k = 0; k < 2; ++k) {
            // a number, or a tensor's stand-in, is one with nothing for sure but a constant of the program
            const bool sure = is_live(parts[k]) || parts[k] == Py_None || PyBool_Check(parts[k]) ||
                              is_fixed(parts[k]) || is_traced_tensor(parts[k]) ||
                              Py_TYPE(parts[k]) == dtype_type() || parts[1 - k] == Py_None;
            if (!sure) throw Refused{"whether two objects are one"};
        }
        return PyBool_FromLong((parts[0] == parts[1]) == (i.sub == 6));
    }
    PyObject* used[2] = {use(args[0]), use(args[1])};
    for (PyObject* o : used) {
        if (is_live(o)) throw Refused{"a tuple of the caller's"};
        if (!is_fixed(o) && !is_of(o, "weft.device") && !is_of(o, "device")) expect_plain(o);
    }
    note_operator(i, used);
    return checked(PythonHost::evaluate(frame, i, used));
}

/// What iterating a container of Modules goes through, new; null with Refused for another.
PyObject* TraceHost::values_of_module(PyObject* module) {
    static PyObject* const kinds = [] {
        Object list = import_attr("weft.nn", "ModuleList");
        Object sequential = import_attr("weft.nn", "Sequential");
        return PyTuple_Pack(2, list.get(), sequential.get());
    }();
    static PyObject* const names[] = {PyUnicode_InternFromString("__iter__"),
                                      PyUnicode_InternFromString("__getitem__"),
                                      PyUnicode_InternFromString("_modules")};
    bool is_one = false;
    for (Py_ssize_t k = 0; k < 2; ++k) {
        auto* kind = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(kinds, k));
        is_one |= PyType_IsSubtype(Py_TYPE(module), kind) &&
                  _PyType_Lookup(Py_TYPE(module), names[0]) == _PyType_Lookup(kind, names[0]) &&
                  _PyType_Lookup(Py_TYPE(module), names[1]) == _PyType_Lookup(kind, names[1]);
    }
    if (!is_one) throw Refused{"an object that is iterated"};
    Object modules = Object::steal(made_->guards.attribute(module, names[2]));
    if (!modules || !PyDict_CheckExact(modules.get()) || !made_->guards.items(modules.get()) ||
        !made_->guards.type_of(module))
        throw Refused{"an object that is iterated"};
    Object list = Object::take(PyDict_Values(modules.get()));
    return own(python::checked(PyList_AsTuple(list.get())));
}

PyObject* TraceHost::iterate(PyObject* o) {
    if (is_live(o)) {
        const Py_ssize_t n = PyTuple_GET_SIZE(live_of(o).actual);
        Object items = Object::take(PyTuple_New(n));
        for (Py_ssize_t k = 0; k < n; ++k) PyTuple_SET_ITEM(items.get(), k, item_of(o, k));
        return own(checked(PyObject_GetIter(own(items.get()))));
    }
    if (is_module(o)) {
        Object values = Object::steal(values_of_module(o));
        return own(checked(PyObject_GetIter(values.get())));
    }
    if (Py_TYPE(o) == &PyRange_Type) {
        if (PyObject_Size(o) > kMostTurns) throw Refused{"a loop over a length"};
        return own(checked(PyObject_GetIter(o)));
    }
    if (is_own(o) || is_value(o)) return own(checked(PyObject_GetIter(o)));
    if (!is_container(o)) throw Refused{"an object that is iterated"};
    look_into(o);
    return own(checked(PyObject_GetIter(o)));
}

PyObject* TraceHost::next(PyObject* iterator, bool& done) {
    if (!is_own(iterator)) throw Refused{"an iterator of the caller's"};
    if (--budget_ < 0) throw Refused{"it is long"};
    mark_.is_over = true;
    PyObject* value = PythonHost::next(iterator, done);
    if (done) return nullptr;
    if (PyTuple_CheckExact(checked(value))) own(value);  // of zip, enumerate, items
    return value;
}

bool TraceHost::unpack(Frame* frame, const FlatInstr& i, PyObject* value) {
    Object used = Object::borrow(use(value));
    if (is_live(used.get())) {
        const Py_ssize_t n = PyTuple_GET_SIZE(live_of(used.get()).actual);
        Object items = Object::take(PyTuple_New(n));
        for (Py_ssize_t k = 0; k < n; ++k) PyTuple_SET_ITEM(items.get(), k, item_of(used.get(), k));
        used = std::move(items);
    } else if (!is_traced_tensor(used.get())) {
        if (!is_value(used.get()) && !is_container(used.get())) throw Refused{"an object"};
        if (is_container(used.get()) && !is_own(used.get())) look_into(used.get());
    }
    if (!PythonHost::unpack(frame, i, used.get())) checked(nullptr);
    const int32_t* outs = frame->code->numbers.data() + i.out;
    for (int32_t k = 0; k < i.target; ++k)
        if (is_container(frame->registers[outs[k]]) && is_own(used.get()))
            own(frame->registers[outs[k]]);
    if (i.sub >= 0) own(frame->registers[outs[i.sub]]);
    return true;
}

int TraceHost::truth(PyObject* o) {
    o = use(o);
    if (is_live(o)) return PyTuple_GET_SIZE(live_of(o).actual) != 0;
    if (is_traced_tensor(o)) throw Refused{"a value that is read"};
    if (is_container(o) && !is_own(o) && !PyTuple_CheckExact(o) && !made_->guards.items(o))
        throw Refused{"a container"};
    if (!is_container(o) && !is_value(o) && !PyFunction_Check(o) && !PyType_Check(o))
        throw Refused{"an object"};
    return PyObject_IsTrue(o) > 0;
}

/// On the way back in a loop. Of one over values in its own function only to what the next turn asks first.
bool TraceHost::pause(Frame* frame) {
    const FlatInstr& jump = frame->code->instrs[static_cast<size_t>(frame->pc)];
    const FlatInstr& head = frame->code->instrs[static_cast<size_t>(jump.target)];
    if (head.verb == Verb::Next) return true;  // its iterator was made here
    if (frame == base_ ? std::exchange(went_round_, true) : ++turns_ > kMostTurns)
        throw Refused{"a loop over values"};
    return true;
}

}  // namespace weft::python
