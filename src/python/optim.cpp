/// One call per optimizer step and group: gathers gradients and state, checks, then updates.
#include "ops/optim.h"

#include <optional>
#include <vector>

#include "autograd/sparse.h"
#include "deferred/turn.h"
#include "ops/watch.h"
#include "ops/write.h"
#include "python/dispatch.h"
#include "python/overrides.h"
#include "python/type.h"

namespace weft::python {
namespace {

using ops::StepRule, ops::StepTarget;

/// `name`: of a state; null: a gradient.
void expect_shape(const Tensor& param, const Tensor& t, PyObject* name) {
    WEFT_EXPECT(equal(t.shape(), param.shape()), Runtime, "optimizer",
                text(name ? to_text(name) : "a gradient", " of shape ", to_string(param.shape())),
                to_string(t.shape()));
}

Tensor expect_writable(Tensor t) {
    WEFT_EXPECT(!t.storage()->read_only, Runtime, "optimizer",
                "parameters and state that may be written",
                "a tensor over read-only memory of another library", "clone() it first");
    return t;
}

/// Of a group, borrowed.
PyObject* setting(PyObject* group, PyObject* name) {
    PyObject* value = PyDict_GetItemWithError(group, name);
    if (!value && PyErr_Occurred()) throw PythonError();
    WEFT_EXPECT(value, Runtime, "optimizer", text("the setting '", to_text(name), "' in the group"),
                "none");
    return value;
}

/// The numbers that a rule takes.
struct Settings {
    /// Those of a group's setting: one, or those of a tuple such as the betas.
    void add(PyObject* value) {
        if (!PyTuple_Check(value) && !PyList_Check(value))
            return add_number(to_double(value, "optimizer"));
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
            Object item = Object::borrow(PySequence_Fast_GET_ITEM(value, i));
            add_number(to_double(item.get(), "optimizer"));
        }
    }
    void add_number(double number) {
        if (count < ops::kMaxSettings) numbers[count] = number;
        ++count;
    }
    double numbers[ops::kMaxSettings];
    int count = 0;
};

class Gather {
public:
    Gather(const StepRule& rule, PyObject* group, PyObject* states, PyObject* names,
           PyObject* start)
        : rule_(rule), group_(group), states_(states), names_(names), start_(start) {}

    std::vector<StepTarget> targets() {
        static PyObject* const kParams = PyUnicode_InternFromString("params");
        Object params = Object::borrow(setting(group_, kParams));
        WEFT_EXPECT(PyList_Check(params.get()), Type, "optimizer", "a list of parameters",
                    Py_TYPE(params.get())->tp_name);
        std::vector<StepTarget> out;
        bool stateless = true;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names_); ++i)
            stateless = stateless && PyTuple_GET_ITEM(names_, i) == Py_None;
        out.reserve(static_cast<size_t>(PyList_GET_SIZE(params.get())));
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(params.get()); ++i) {
            Object param = Object::borrow(PyList_GET_ITEM(params.get(), i));
            Tensor of = expect_tensor(param.get(), "optimizer"), grad = grad_of(of);
            if (!grad.defined()) continue;
            // the package steps by those itself (weft/optim/fused.py)
            WEFT_EXPECT(!sparse::is(grad), Runtime, "optimizer", "dense gradients", "a sparse one");
            StepTarget& t = out.emplace_back();
            t.param = expect_writable(std::move(of));
            t.grad = std::move(grad);
            if (!stateless) fill(param.get(), t);
            expect_shape(t.param, t.grad, nullptr);
        }
        return out;
    }

private:
    /// The state of a parameter; `start` makes what is missing of it.
    void fill(PyObject* param, StepTarget& t) {
        Object state = Object::take(PyObject_GetItem(states_, param));
        WEFT_EXPECT(PyDict_Check(state.get()), Type, "optimizer", "a dict as state",
                    Py_TYPE(state.get())->tp_name);
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names_); ++i) {
            PyObject* name = PyTuple_GET_ITEM(names_, i);
            if (name == Py_None && i >= rule_.numbers) continue;
            PyObject* value = PyDict_GetItemWithError(state.get(), name);
            if ((!value || value == Py_None) && !std::exchange(t.fresh, true)) {
                Object::borrow(start_).call(Object::borrow(group_), Object::borrow(param), state);
                i = -1;  // from the beginning
                continue;
            }
            WEFT_EXPECT(value && is_tensor(value), Runtime, "optimizer",
                        text("a tensor '", to_text(name), "' in the state of every parameter"),
                        value ? Py_TYPE(value)->tp_name : "nothing");
            Tensor tensor = expect_writable(unwrap(value));
            if (i < rule_.numbers) {
                WEFT_EXPECT(tensor.numel() == 1, Runtime, "optimizer",
                            text("one element in '", to_text(name), "'"),
                            to_string(tensor.shape()));
                t.numbers[i] = std::move(tensor);
            } else {
                expect_shape(t.param, tensor, name);
                WEFT_EXPECT(tensor.dtype() == t.param.dtype(), Runtime, "optimizer",
                            text(to_text(name), " of ", weft::name(t.param.dtype())),
                            weft::name(tensor.dtype()));
                t.buffers[i - rule_.numbers] = std::move(tensor);
            }
        }
    }

    const StepRule& rule_;
    PyObject *group_, *states_, *names_, *start_;
};

/// Of a meta parameter: its numbers, such as the count of steps, and nothing of what has no values.
StepTarget without_elements(const StepRule& rule, const StepTarget& t) {
    StepTarget out = t;
    out.param = Tensor::empty(t.param.dtype(), Dims{0});
    out.grad = Tensor::empty(t.grad.dtype(), Dims{0});
    for (int i = 0; i < rule.buffers; ++i)
        if (t.buffers[i].defined()) out.buffers[i] = Tensor::empty(t.buffers[i].dtype(), Dims{0});
    return out;
}

/// One step of one parameter: it and its state change together.
void step(const StepRule& rule, const StepTarget& t, const double* settings, bool maximize,
          ops::LastRule& last) {
    std::optional<ops::Write> writes[1 + ops::kMaxNumbers + ops::kMaxBuffers];
    size_t count = 0;
    writes[count++].emplace(t.param);
    for (int i = 0; i < rule.numbers; ++i)
        if (t.numbers[i].defined()) writes[count++].emplace(t.numbers[i]);
    for (int i = 0; i < rule.buffers; ++i)
        if (t.buffers[i].defined()) writes[count++].emplace(t.buffers[i]);
    rule.step(t.param.has(kMeta) ? without_elements(rule, t) : t, settings, maximize, last);
    while (count > 0) writes[--count]->commit();
}

/// Of each target the parameter, its gradient and its state.
std::vector<Tensor> tensors_of(const std::vector<StepTarget>& targets) {
    std::vector<Tensor> out;
    for (const StepTarget& t : targets) {
        out.insert(out.end(), {t.param, t.grad});
        for (const Tensor& of : t.numbers)
            if (of.defined()) out.push_back(of);
        for (const Tensor& of : t.buffers)
            if (of.defined()) out.push_back(of);
    }
    return out;
}

/// Whether a parameter of the group is of a class that carries calls out itself.
bool any_dispatching(PyObject* group) {
    Object params = Object::take(PyMapping_GetItemString(group, "params"));
    Object all = Object::take(PySequence_Fast(params.get(), "params"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(all.get()); ++i) {
        PyObject* p = PySequence_Fast_GET_ITEM(all.get(), i);
        if (is_tensor(p) && handle(p).has(kDispatching)) return true;
    }
    return false;
}

/// Whether a group's step is to be made of ops: to be differentiated, as an oracle, or for a mode
/// that sees operators.
bool runs_plain(PyObject* group) {
    static PyObject* const kDifferentiable = PyUnicode_InternFromString("differentiable");
    static PyObject* const kForeach = PyUnicode_InternFromString("foreach");
    static PyObject* const kFused = PyUnicode_InternFromString("fused");
    if (mode & kDispatchMode) return true;
    if (dispatching_known && any_dispatching(group)) return true;
    auto is_true = [](PyObject* value) { return checked(PyObject_IsTrue(value)) != 0; };
    if (is_true(Object::take(PyObject_GetItem(group, kDifferentiable)).get())) return true;
    if (Object::take(PyObject_GetItem(group, kForeach)).get() != Py_False) return false;
    PyObject* fused = PyDict_GetItemWithError(group, kFused);
    if (!fused && PyErr_Occurred()) throw PythonError();
    return !fused || !is_true(fused);
}

void step_group(const StepRule& rule, PyObject* group, PyObject* const* args) {
    PyObject *settings = args[1], *names = args[4];
    WEFT_EXPECT(PyTuple_GET_SIZE(names) == rule.numbers + rule.buffers, Type, "optimizer",
                text(rule.numbers + rule.buffers, " names of state tensors"),
                std::to_string(PyTuple_GET_SIZE(names)));
    ops::WatchSpan span(ops::SpanKind::Step, nullptr, rule.name);
    Settings numbers;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(settings); ++i)
        numbers.add(setting(group, PyTuple_GET_ITEM(settings, i)));
    WEFT_EXPECT(numbers.count == rule.settings, Type, "optimizer",
                text(rule.settings, " numbers as settings"), std::to_string(numbers.count));
    static PyObject* const kMaximize = PyUnicode_InternFromString("maximize");
    const bool maximize = checked(PyObject_IsTrue(setting(group, kMaximize))) != 0;
    auto targets = Gather(rule, group, args[3], names, args[5]).targets();
    if (span) [[unlikely]]
        span.give(tensors_of(targets));
    ops::LastRule last;
    for (const StepTarget& t : targets) step(rule, t, numbers.numbers, maximize, last);
    if (span) [[unlikely]] {
        std::vector<Tensor> parameters;
        for (const StepTarget& t : targets) parameters.push_back(t.param);
        span.take(tensors_of(targets), parameters);
    }
}

/// _fused_step_(rule, settings, group, states, names, start): steps every parameter of `group` that
/// has a gradient; or False, and nothing is done, where the step is to be made of ops. `settings`
/// names the numbers of the group that the rule takes, `names` the entries of a parameter's state:
/// one-element tensors first, None for what this group leaves out. `start(group, param, state)` fills
/// a state in which one is missing.
PyObject* fused_step(PyObject*, PyObject* const* args, Py_ssize_t count) {
    return guarded([&] {
        WEFT_EXPECT(count == 6, Type, "optimizer", "6 arguments", std::to_string(count));
        PyObject* group = args[2];
        WEFT_EXPECT(PyUnicode_Check(args[0]) && PyTuple_Check(args[1]) && PyDict_Check(group) &&
                        PyTuple_Check(args[4]),
                    Type, "optimizer",
                    "a name, names of settings, a group, states, names, a function",
                    Py_TYPE(group)->tp_name);
        if (runs_plain(group)) return Py_NewRef(Py_False);
        refuse_recorded("step");
        deferred::InTurn in_order(mode & kDeferMode ? deferred::kAllLevels : 0);
        const StepRule* rule = ops::find_step_rule(to_text(args[0]));
        WEFT_EXPECT(rule, Value, "optimizer", "the name of a rule", text(to_text(args[0])));
        step_group(*rule, group, args);
        return Py_NewRef(Py_True);
    });
}

/// What `Tensor.grad` is where nobody has replaced it.
PyObject* own_grad = nullptr;

/// Whether `o.grad = None` does what it does for every tensor, heard by nobody.
bool has_own_grad(PyObject* o, PyObject* name) {
    return is_tensor(o) && Py_TYPE(o)->tp_setattro == tensor_type.tp_setattro &&
           _PyType_Lookup(Py_TYPE(o), name) == own_grad;
}

/// _forget_gradients_(params): param.grad = None for each.
PyObject* forget_gradients(PyObject*, PyObject* params) {
    return guarded([&] {
        static PyObject* const kGrad = PyUnicode_InternFromString("grad");
        Object all = Object::take(PySequence_Fast(params, "params are no sequence"));
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(all.get()); ++i) {
            Object param = Object::borrow(PySequence_Fast_GET_ITEM(all.get(), i));
            if (!(mode & (kTraceMode | kDeferMode)) && !Overrides::known() &&
                has_own_grad(param.get(), kGrad))
                set_grad(unwrap(param.get()), Tensor());
            else checked(PyObject_SetAttr(param.get(), kGrad, Py_None));
        }
        return Py_NewRef(Py_None);
    });
}

PyMethodDef optim_functions[] = {{"_fused_step_", c_function(fused_step), METH_FASTCALL, nullptr},
                                 {"_forget_gradients_", forget_gradients, METH_O, nullptr},
                                 {}};

}  // namespace

void init_optim(PyObject* module) {
    own_grad = checked(PyDict_GetItemString(tensor_type.tp_dict, "grad"));
    Py_INCREF(own_grad);
    checked(PyModule_AddFunctions(module, optim_functions));
}

}  // namespace weft::python
