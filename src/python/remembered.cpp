#include "python/remembered.h"

#include "deferred/kinds.h"

namespace weft::python {
namespace {

/// Whether equal means the same for every call: what cannot change, and compares in a few steps.
bool is_constant(PyObject* o) {
    if (o == Py_None || PyBool_Check(o)) return true;
    if (PyLong_CheckExact(o)) return true;
    if (PyTuple_CheckExact(o)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
            if (!PyLong_CheckExact(PyTuple_GET_ITEM(o, i))) return false;
        return true;
    }
    DType t;
    return PyFloat_CheckExact(o) || PyUnicode_CheckExact(o) || to_dtype(o, t);
}

bool same_constant(PyObject* kept, PyObject* given) {
    if (kept == given) return true;
    if (!PyLong_CheckExact(kept) || !PyLong_CheckExact(given)) return false;
    int large = 0, too = 0;
    return PyLong_AsLongAndOverflow(kept, &large) == PyLong_AsLongAndOverflow(given, &too) &&
           !large && !too;
}

bool same_names(PyObject* a, PyObject* b) {
    if (a == b) return true;
    if (!a || !b || PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(a); ++k)
        if (PyTuple_GET_ITEM(a, k) != PyTuple_GET_ITEM(b, k)) return false;
    return true;
}

/// Whether a record before `op` in the list could take a tensor there for a number.
bool ambiguous(const std::vector<const Op*>& overloads, const Op& op, size_t at) {
    for (const Op* before : overloads) {
        if (before == &op) return false;
        if (at < before->params.size() && !before->params[at].is_input()) return true;
    }
    return false;
}

}  // namespace

bool Remembered::is_like(PyObject* const* args, Py_ssize_t count, PyObject* kwnames) const {
    if (count != positional || !same_names(names.get(), kwnames)) return false;
    for (int i = 0; i < given; ++i) {
        PyObject* kept = constants[i].get();
        if (kept ? !same_constant(kept, args[i])
                 : inputs[i]->kind == Param::Kind::Tensor && !is_tensor(args[i]))
            return false;
    }
    return true;
}

uint64_t Remembered::number_attrs() const {
    return attrs_number_ = deferred::number_of_attrs(attrs.data(), attrs.size());
}

bool Recalled::take(PyObject* const* args) {
    inputs_ = op().inputs;
    for (int i = 0; i < call_->given; ++i) {
        if (call_->constants[i]) continue;
        const Param& to = *call_->inputs[i];
        if (to.kind == Param::Kind::Tensor) in_[to.slot] = operand(args[i]);
        else if (!take_list(to.slot, args[i])) return false;
    }
    return true;
}

bool Recalled::take_list(int slot, PyObject* list) {
    if (!PyList_Check(list) && !PyTuple_Check(list)) return false;
    const auto n = static_cast<int>(PySequence_Fast_GET_SIZE(list));
    if (slot + n > kFew) {
        many_.assign(few_, few_ + slot);
        many_.resize(static_cast<size_t>(slot + n));
        in_ = many_.data();
    }
    inputs_ = slot + n;
    for (int k = 0; k < n; ++k) {
        PyObject* item = PySequence_Fast_GET_ITEM(list, k);
        if (!is_tensor(item)) return false;
        in_[slot + k] = handle(item);
    }
    make_operands(in_ + slot, in_ + slot + n);
    return true;
}

const Ref<Remembered>& Memory::find(PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
    static const Ref<Remembered> none;
    if (!enabled) return none;
    for (const Ref<Remembered>& call : calls_) {
        if (!call) break;
        if (!call->is_like(args, count, kwnames)) continue;
        missed_ = 0;
        return call;
    }
    ++missed_;
    return none;
}

void Memory::keep(const std::vector<const Op*>& overloads, const Op& op, const Arguments& arguments,
                  PyObject* const* args, Py_ssize_t count, PyObject* kwnames) {
    // Where calls seldom repeat, to note each one would only cost.
    if (calls_[kCalls - 1] && missed_ > kCalls && missed_ % kPatience != 0) return;
    Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (count + named > Remembered::kArgs || !arguments.plain()) return;
    Ref<Remembered> call(new Remembered);
    call->op = &op;
    call->positional = count;
    call->given = static_cast<int>(count + named);
    call->names = Object::borrow(kwnames);
    for (Py_ssize_t i = 0; i < count + named; ++i) {
        const Param* to = arguments.input_for(op, i, count);
        call->inputs[i] = to;
        bool list = to && to->kind == Param::Kind::Tensors;
        if (to && (list || is_tensor(args[i]))) {
            if (ambiguous(overloads, op, static_cast<size_t>(to - op.params.data()))) return;
            continue;
        }
        if (!is_constant(args[i])) return;
        call->constants[i] = Object::borrow(args[i]);
    }
    if (const Value* attrs = arguments.own_attrs())
        call->attrs.assign(attrs, attrs + op.defaults.size());
    calls_[next_] = std::move(call);
    next_ = (next_ + 1) % kCalls;
}

}  // namespace weft::python
