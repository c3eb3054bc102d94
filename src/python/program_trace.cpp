/// Reading guide: what values are (`use`, `told`), then one case for each instruction, calls, the end.
#include "python/program_trace.h"

#include <algorithm>
#include <cstring>

#include "deferred/turn.h"
#include "ops/pointwise.h"
#include "ops/table.h"
#include "python/hooks.h"

namespace weft::python {

using program::FlatInstr;
using program::Verb;

namespace {

/// Stands in a register for what was there at the start and has not been looked at.
struct PyLive {
    PyObject_HEAD PyObject* actual;
    PyObject* traced;  ///< of a tensor that was used
    int32_t source;
    bool is_used;
};
PyTypeObject live_type = blank_type();

bool is_live(PyObject* o) { return Py_TYPE(o) == &live_type; }
PyLive& live_of(PyObject* o) { return *reinterpret_cast<PyLive*>(o); }
PyObject* type_of(PyObject* o) { return reinterpret_cast<PyObject*>(Py_TYPE(o)); }

void dealloc_live(PyObject* o) {
    Py_XDECREF(live_of(o).actual);
    Py_XDECREF(live_of(o).traced);
    Py_TYPE(o)->tp_free(o);
}

PyObject* parameter_type() {
    static PyObject* const type = import_attr("weft.nn", "Parameter").release();
    return type;
}
PyTypeObject* module_type() {
    static PyObject* const type = import_attr("weft.nn", "Module").release();
    return reinterpret_cast<PyTypeObject*>(type);
}

bool is_plain_tensor(PyObject* o) {
    return Py_TYPE(o) == &tensor_type ||
           reinterpret_cast<PyObject*>(Py_TYPE(o)) == parameter_type();
}
bool is_traced_tensor(PyObject* o) {
    return Py_TYPE(o) == &tensor_type && program::is_traced(python::handle(o));
}
bool is_module(PyObject* o) { return PyType_IsSubtype(Py_TYPE(o), module_type()); }

PyTypeObject* size_type() {
    static PyTypeObject* const type = [] {
        Object size = Object::take(size_object(DimSpan()));
        return Py_TYPE(size.get());
    }();
    return type;
}
PyTypeObject* dtype_type() { return Py_TYPE(dtype_object(DType::Float32)); }

/// Of exactly these types nothing but the value counts.
bool is_number_like(PyObject* o) {
    return PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyComplex_CheckExact(o);
}
bool is_value(PyObject* o) {
    return o == Py_None || PyBool_Check(o) || is_number_like(o) || PyUnicode_CheckExact(o) ||
           PyBytes_CheckExact(o) || Py_TYPE(o) == size_type() || Py_TYPE(o) == dtype_type() ||
           o == Py_Ellipsis || Py_TYPE(o) == &PyRange_Type;
}
bool is_container(PyObject* o) {
    return PyTuple_CheckExact(o) || PyList_CheckExact(o) || PyDict_CheckExact(o) ||
           PyAnySet_CheckExact(o);
}
/// A method of an object in C, made by each look-up: `out.append`.
bool is_bound_builtin(PyObject* o) {
    return PyCFunction_Check(o) && PyCFunction_GET_SELF(o) &&
           !PyModule_Check(PyCFunction_GET_SELF(o)) && !PyUnicode_Check(PyCFunction_GET_SELF(o));
}
/// What is itself, whatever it is asked.
bool is_fixed(PyObject* o) {
    return PyFunction_Check(o) || (PyCFunction_Check(o) && !is_bound_builtin(o)) ||
           PyType_Check(o) || PyModule_Check(o) || is_module(o);
}

/// An error that a trace came to: what runs after it comes to the same. Ctrl-C is another matter.
void forget_error() {
    if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
    PyErr_Clear();
}

bool is_of(PyObject* o, const char* type) { return std::strcmp(Py_TYPE(o)->tp_name, type) == 0; }

/// Names of the records, for functions of `_C` that are written by hand.
bool is_name_of_op(PyObject* name) {
    static PyObject* const names = [] {
        Object set = Object::take(PySet_New(nullptr));
        for (const Op& op : table().all())
            checked(PySet_Add(set.get(), py_str(op.public_name).get()));
        return set.release();
    }();
    return PySet_Contains(names, name) > 0;
}

bool is_builtin_function(PyObject* o) {
    if (!PyCFunction_Check(o)) return false;
    PyObject* module = PyCFunction_GET_SELF(o);
    return module && PyUnicode_Check(module) | PyModule_Check(module);
}
bool is_of_module(PyObject* function, const char* module) {
    Object name = Object::steal(PyObject_GetAttrString(function, "__module__"));
    if (!name) PyErr_Clear();
    return name && PyUnicode_Check(name.get()) &&
           PyUnicode_CompareWithASCIIString(name.get(), module) == 0;
}

/// Functions of the package that call ops and do nothing else.
bool is_of_ops(PyObject* o) {
    if (is_of(o, "weft.Function") || is_of(o, "weft.Method")) return true;
    if (is_builtin_function(o) && is_of_module(o, "weft._C")) {
        Object name = Object::steal(PyObject_GetAttrString(o, "__name__"));
        return name && is_name_of_op(name.get());
    }
    if (!PyFunction_Check(o) && !is_of(o, "weft.CheckedFunction")) return false;
    Object module = Object::steal(PyObject_GetAttrString(o, "__module__"));
    if (!module || !PyUnicode_Check(module.get())) {
        PyErr_Clear();
        return false;
    }
    const std::string_view name = to_text(module.get());
    return name.starts_with("weft.composites.") || name.starts_with("weft.nn.functional");
}

/// `names` has a space around each.
bool is_among(std::string_view name, std::string_view names) {
    return names.find(" " + std::string(name) + " ") != std::string_view::npos;
}
bool is_among(PyObject* name, std::string_view names) { return is_among(to_text(name), names); }

/// What a layout says of a tensor.
constexpr std::string_view kLayoutAttributes =
    " shape dtype device ndim T mT H mH is_cuda layout real imag itemsize ";
constexpr std::string_view kLayoutMethods =
    " size dim numel nelement stride ndimension is_floating_point is_complex "
    "is_contiguous element_size get_device __len__ ";
/// Methods of containers that change nothing, and those that change what was made here.
constexpr std::string_view kReaders = " items keys values get index count copy ";
constexpr std::string_view kWriters =
    " append extend insert pop update setdefault add reverse clear remove ";
constexpr std::string_view kBuiltins =
    " len isinstance min max abs sum getattr divmod round any all callable id ";

/// Of those that ops are, or that tell of layouts.
bool is_method_of_tensors(PyObject* name) {
    PyObject* method = _PyType_Lookup(&tensor_type, name);
    return method && (is_of_ops(method) || is_among(name, kLayoutMethods));
}
/// Such a method, looked up in a traced tensor.
bool is_bound_to_traced(PyObject* o) {
    PyObject* self = PyMethod_Check(o)      ? PyMethod_GET_SELF(o)
                     : PyCFunction_Check(o) ? PyCFunction_GET_SELF(o)
                                            : nullptr;
    return self && is_traced_tensor(self);
}

bool is_pure_type(PyObject* o) {
    for (PyTypeObject* t :
         {&PyRange_Type, &PyLong_Type, &PyFloat_Type, &PyBool_Type, &PyTuple_Type, &PyList_Type,
          &PyDict_Type, &PyZip_Type, &PyEnum_Type, &PyReversed_Type, &PySlice_Type})
        if (o == reinterpret_cast<PyObject*>(t)) return true;
    return Py_TYPE(o) == &PyType_Type && o == reinterpret_cast<PyObject*>(size_type());
}

}  // namespace

// ---- what values are

TraceHost::TraceHost(Frame* at, const std::vector<LiveSource>& varying,
                     const std::vector<VaryingRead>& varying_reads)
    : at_(at), varying_(varying), varying_reads_(varying_reads) {}

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

PyObject* TraceHost::use_or_keep(PyObject* o) {
    if (!is_live(o)) return o;
    PyLive& l = live_of(o);
    PyObject* actual = l.actual;
    if (l.traced) return l.traced;
    using Kind = Condition::Kind;
    if (is_tensor(actual)) {
        if (!is_usable(actual)) throw Refused{"a tensor of another class"};
        ask(o, Kind::Tensor, type_of(actual));
        const Tensor t = python::handle(actual);
        l.traced = wrap(tracer_->input(laid_out(t), program::wants_grad(t)));
        made_->inputs.push_back({l.source});
        actual_.emplace(l.traced, InputOf{actual, l.source});
        kept_.push_back(Object::borrow(l.traced));
        kept_.push_back(Object::borrow(o));
        return l.traced;
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
    auto [at, is_new] = inputs_.try_emplace(o, nullptr);
    if (is_new) {
        const Tensor t = python::handle(o);
        at->second = wrap(tracer_->input(laid_out(t), program::wants_grad(t)));
        kept_.push_back(Object::steal(at->second));
        made_->inputs.push_back({-1, found});
        actual_.emplace(at->second, InputOf{o, -1});
    }
    return Py_NewRef(at->second);
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
    throw Refused{"an exception"};
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
            if (i.verb != Verb::Append) {
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
        default:
            throw Refused{"something Python does"};
    }
}

PyObject* TraceHost::attribute(PyObject* holder, PyObject* name) {
    if (is_live(holder)) throw Refused{"an attribute of a tuple"};
    if (is_traced_tensor(holder)) {
        // a method is looked up before its arguments are made
        if (is_method_of_tensors(name)) return own(checked(PyObject_GetAttr(holder, name)));
        if (!is_among(name, kLayoutAttributes)) throw Refused{"an attribute of a tensor"};
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
    if (is_traced_tensor(holder)) return checked(PyObject_GetItem(holder, key));
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
        // two stand-ins may be of one object, this time or the next
        if (parts[0] != parts[1] && actual_.contains(parts[0]) && actual_.contains(parts[1]))
            throw Refused{"whether two objects are one"};
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

/// On the way back in a loop: not round one over values.
bool TraceHost::pause(Frame* frame) {
    const FlatInstr& jump = frame->code->instrs[static_cast<size_t>(frame->pc)];
    const FlatInstr& head = frame->code->instrs[static_cast<size_t>(jump.target)];
    if (head.verb == Verb::Next) return true;  // its iterator was made here
    if (frame == base_ || ++turns_ > kMostTurns) throw Refused{"a loop over values"};
    return true;
}

// ---- calls

/// The stretch may end here: at the instruction that comes next.
void TraceHost::mark() {
    mark_.pc = base_->pc;
    mark_.registers.clear();
    for (int32_t r = 0; r < base_->code->registers; ++r)
        mark_.registers.push_back(Object::borrow(base_->registers[r]));
    mark_.guards = made_->guards.size();
    mark_.steps = tracer_->steps();
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
        PyObject* out = checked(PyObject_VectorcallMethod(name, given.data(), n + 1, names));
        return is_value(out) || is_tensor(out) || is_own(out) ? out : own(out);
    };
    if (is_live(holder)) throw Refused{"a method of a tuple"};
    if (is_traced_tensor(holder)) {
        if (!is_method_of_tensors(name)) throw Refused{"a method of a tensor"};
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

PyObject* TraceHost::call_bound(PyObject* method, PyObject* const* args, size_t n,
                                PyObject* names) {
    SmallVector<PyObject*, 12> given;
    const size_t words = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
    for (size_t k = 0; k < n + words; ++k) {
        given.push_back(use(args[k]));
        expect_plain(given.back());
    }
    PyObject* out = checked(PyObject_Vectorcall(method, given.data(), n, names));
    return is_value(out) || is_tensor(out) ? out : own(out);
}

Frame* TraceHost::call_object(Frame* frame, PyObject* callee, PyObject* const* args, size_t n,
                              PyObject* names, PyObject*& result) {
    if (is_live(callee)) throw Refused{"a call of an object"};
    if (is_bound_to_traced(callee)) {
        result = call_bound(callee, args, n, names);
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
    const bool ops =
        is_of_ops(callee) || (PyCFunction_Check(callee) && is_builtin_function(callee) &&
                              is_of_module(callee, "weft._C"));
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
    PyObject* out = checked(PyObject_Vectorcall(callee, given.data(), n, names));
    return is_value(out) || is_tensor(out) ? out : own(out);
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

void TraceHost::leave(Frame* frame, PyObject*& result) {
    if (!result) throw Refused{"an exception"};
    running->frame = static_cast<Frame*>(frame->caller);
}

void TraceHost::free(Frame* frame) {
    open_.erase(std::find(open_.begin(), open_.end(), frame));
    PythonHost::free(frame);
}

// ---- the end

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
    const program::Code& code = *at_->code;
    s.pc = mark_.pc;
    for (int32_t r = 0; r < code.registers; ++r) {
        PyObject* value = mark_.registers[static_cast<size_t>(r)].get();
        if (!code.is_live(s.pc, r)) {
            if (r >= code.named) s.clears.push_back(r);
        } else if (!value) {
            if (at_->registers[r]) s.clears.push_back(r);
        } else if (!is_live(value) ||
                   s.sources[static_cast<size_t>(live_of(value).source)].reg != r) {
            s.writes.emplace_back(r, finisher.recipe(value));
        }
    }
}

Ref<Stretch> TraceHost::run(int32_t* ended, const char** why) {
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
    Object result;
    bool returned = false;
    *why = "an exception";
    Frame* const outer = running->frame;
    struct Restore {
        Frame* outer;
        ~Restore() { running->frame = outer; }
    } restore{outer};
    running->frame = base_;
    try {
        program::Tracer::Scope scope(*tracer_);
        const ModeGuard now(0, kDeferMode);
        const deferred::Stay stay;  // what is half traced is nothing to wait with
        program::Machine<TraceHost> machine(*this);
        result = Object::steal(machine.run(base_));
        returned = true;
        *why = nullptr;
    } catch (const Refused& refused) {
        *why = refused.why;
    } catch (const PythonError&) {
    } catch (const Error&) {
    }
    *ended = base_->pc;
    if (!returned) {
        forget_error();
        if (mark_.is_over) return {};
        s.guards.shrink(mark_.guards);
        tracer_->shrink(mark_.steps);  // those run that might raise, whether they are needed or not
    }
    const Refused none{"nothing to gain"};
    try {
        Finisher finisher{*this, s};
        if (returned) s.returned = finisher.recipe(result.get());
        else end_at_mark(s, finisher);
        Ref<program::Segment> segment = tracer_->finish(finisher.outputs);
        for (const program::Step& step : segment->steps) s.steps += !step.op->view;
        // of a call with views of its result what Python would do is spared, if it is kept
        const bool spares = s.mode & kDeferMode && s.steps == 1 && segment->steps.size() > 1;
        const int fewest = reach && reach->backend ? 1 : 2;  // a backend is asked about all
        if (s.steps < fewest && !spares) throw none;
        s.draws = segment->draws();
        s.plan = Ref<program::DifferentiablePlan>(
            new program::DifferentiablePlan(std::move(segment), {}));
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

void init_trace(PyObject*) {
    live_type.tp_name = "weft._C._Live";
    live_type.tp_basicsize = sizeof(PyLive);
    live_type.tp_dealloc = dealloc_live;
    live_type.tp_flags = Py_TPFLAGS_DEFAULT;
    python::checked(PyType_Ready(&live_type));
}

}  // namespace weft::python
