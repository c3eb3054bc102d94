/// One call per optimizer step and group: gathers gradients and state, checks, then updates.
#include "ops/optim.h"

#include <span>
#include <vector>

#include "deferred/turn.h"
#include "ops/watch.h"
#include "ops/write.h"
#include "python/object.h"

namespace weft::python {
namespace {

using ops::StepRule, ops::StepTarget;

void check_like(const Tensor& param, const Tensor& t, PyObject* what) {
    WEFT_EXPECT(equal(t.shape(), param.shape()), Runtime, "optimizer",
                text(to_text(what), " of shape ", to_string(param.shape())), to_string(t.shape()));
}

void check_buffer(const Tensor& param, const Tensor& t, PyObject* what) {
    check_like(param, t, what);
    WEFT_EXPECT(t.dtype() == param.dtype(), Runtime, "optimizer",
                text(to_text(what), " of ", name(param.dtype())), name(t.dtype()));
}

void check_writable(const Tensor& t) {
    WEFT_EXPECT(!t.storage()->read_only, Runtime, "optimizer",
                "parameters and state that may be written",
                "a tensor over read-only memory of another library", "clone() it first");
}

/// Appends the numbers of a group's setting to `out`: one, or those of a tuple such as the betas.
void add_setting(PyObject* value, std::vector<double>& out) {
    if (!PyTuple_Check(value) && !PyList_Check(value))
        return out.push_back(to_double(value, "optimizer"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
        Object item = Object::borrow(PySequence_Fast_GET_ITEM(value, i));
        out.push_back(to_double(item.get(), "optimizer"));
    }
}

class Gather {
public:
    Gather(const StepRule& rule, PyObject* group, PyObject* states, PyObject* names,
           PyObject* start)
        : rule_(rule), group_(group), states_(states), names_(names), start_(start) {}

    std::vector<StepTarget> targets() {
        Object params = Object::borrow(item(group_, "params"));
        WEFT_EXPECT(PyList_Check(params.get()), Type, "optimizer", "a list of parameters",
                    Py_TYPE(params.get())->tp_name);
        std::vector<StepTarget> out;
        bool stateless = true;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names_); ++i)
            stateless = stateless && PyTuple_GET_ITEM(names_, i) == Py_None;
        out.reserve(static_cast<size_t>(PyList_GET_SIZE(params.get())));
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(params.get()); ++i) {
            Object param = Object::borrow(PyList_GET_ITEM(params.get(), i));
            StepTarget t;
            t.param = expect_tensor(param.get(), "optimizer");
            t.grad = grad_of(t.param);
            if (!t.grad.defined()) continue;
            check_writable(t.param);
            if (!stateless) fill(param.get(), t);
            check_like(t.param, t.grad, gradient_.get());
            out.push_back(std::move(t));
        }
        return out;
    }
    static PyObject* item(PyObject* dict, const char* key) {
        PyObject* value = PyDict_GetItemString(dict, key);
        WEFT_EXPECT(value, Runtime, "optimizer", text("the setting '", key, "' in the group"),
                    "none");
        return value;
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
            Tensor tensor = unwrap(value);
            check_writable(tensor);
            if (i < rule_.numbers) {
                WEFT_EXPECT(tensor.numel() == 1, Runtime, "optimizer",
                            text("one element in '", to_text(name), "'"),
                            to_string(tensor.shape()));
                t.numbers[i] = tensor;
            } else {
                check_buffer(t.param, tensor, name);
                t.buffers[i - rule_.numbers] = tensor;
            }
        }
    }

    const StepRule& rule_;
    PyObject *group_, *states_, *names_, *start_;
    Object gradient_ = py_str("a gradient");
};

/// Holds a Write of each of `tensors` while `change` runs.
void write_all(std::span<const Tensor* const> tensors, FunctionRef<void()> change) {
    if (tensors.empty()) return change();
    ops::Write write(*tensors.front());
    write_all(tensors.subspan(1), change);
    write.commit();
}

/// One step of one parameter: it and its state change together.
void step(const StepRule& rule, const StepTarget& t, const double* settings, bool maximize) {
    const Tensor* written[1 + ops::kMaxNumbers + ops::kMaxBuffers] = {&t.param};
    size_t count = 1;
    for (int i = 0; i < rule.numbers; ++i)
        if (t.numbers[i].defined()) written[count++] = &t.numbers[i];
    for (int i = 0; i < rule.buffers; ++i)
        if (t.buffers[i].defined()) written[count++] = &t.buffers[i];
    write_all({written, count}, [&] { rule.step(t, settings, maximize); });
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

/// _fused_step_(rule, settings, group, states, names, start): steps every parameter of `group` that
/// has a gradient. `settings` names the numbers of the group that the rule takes, `names` the
/// entries of a parameter's state: one-element tensors first, None for what this group leaves out.
/// `start(group, param, state)` fills a state in which one is missing.
PyObject* fused_step(PyObject*, PyObject* const* args, Py_ssize_t count) {
    return guarded([&] {
        WEFT_EXPECT(count == 6, Type, "optimizer", "6 arguments", std::to_string(count));
        deferred::InTurn in_order(mode & kDeferMode ? deferred::kAllLevels : 0);
        PyObject *settings = args[1], *group = args[2], *names = args[4];
        WEFT_EXPECT(PyUnicode_Check(args[0]) && PyTuple_Check(settings) && PyDict_Check(group) &&
                        PyTuple_Check(names),
                    Type, "optimizer",
                    "a name, names of settings, a group, states, names, a function",
                    Py_TYPE(group)->tp_name);
        const StepRule* rule = ops::find_step_rule(to_text(args[0]));
        WEFT_EXPECT(rule, Value, "optimizer", "the name of a rule", text(to_text(args[0])));
        WEFT_EXPECT(PyTuple_GET_SIZE(names) == rule->numbers + rule->buffers, Type, "optimizer",
                    text(rule->numbers + rule->buffers, " names of state tensors"),
                    std::to_string(PyTuple_GET_SIZE(names)));
        ops::WatchSpan span(ops::SpanKind::Step, nullptr, rule->name);
        std::vector<double> numbers;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(settings); ++i)
            add_setting(Gather::item(group, to_text(PyTuple_GET_ITEM(settings, i)).data()),
                        numbers);
        WEFT_EXPECT(static_cast<int>(numbers.size()) == rule->settings, Type, "optimizer",
                    text(rule->settings, " numbers as settings"), std::to_string(numbers.size()));
        int maximize = checked(PyObject_IsTrue(Gather::item(group, "maximize")));
        auto targets = Gather(*rule, group, args[3], names, args[5]).targets();
        if (span) [[unlikely]]
            span.give(tensors_of(targets));
        for (const StepTarget& t : targets) step(*rule, t, numbers.data(), maximize != 0);
        if (span) [[unlikely]] {
            std::vector<Tensor> parameters;
            for (const StepTarget& t : targets) parameters.push_back(t.param);
            span.take(tensors_of(targets), parameters);
        }
        return Py_NewRef(Py_None);
    });
}

PyMethodDef functions[] = {{"_fused_step_",
                            reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(fused_step)),
                            METH_FASTCALL, nullptr},
                           {}};

}  // namespace

void init_optim(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace weft::python
