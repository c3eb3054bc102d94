/// One call per optimizer step, over all parameters of a group.
#include "ops/optim.h"

#include "autograd/saved.h"
#include "python/object.h"

namespace weft::python {
namespace {

/// A list of tensors (or None) of a known length.
class TensorList {
public:
    TensorList(PyObject* o, const char* what, Py_ssize_t length) : list_(o), what_(what) {
        WEFT_EXPECT(PyList_Check(o) || PyTuple_Check(o), Type, "optimizer", text("a list of ", what),
                    Py_TYPE(o)->tp_name);
        size_ = PySequence_Fast_GET_SIZE(o);
        WEFT_EXPECT(length < 0 || size_ == length || size_ == 0, Runtime, "optimizer",
                    text(length, " ", what), std::to_string(size_));
    }
    Py_ssize_t size() const { return size_; }
    Tensor operator[](Py_ssize_t i) const {
        if (size_ == 0) return {};
        PyObject* o = PySequence_Fast_GET_ITEM(list_, i);
        return o == Py_None ? Tensor() : expect_tensor(o, "optimizer");
    }

private:
    PyObject* list_;
    const char* what_;
    Py_ssize_t size_;
};

void check_like(const Tensor& param, const Tensor& t, const char* what) {
    if (!t.defined()) return;
    WEFT_EXPECT(equal(t.shape(), param.shape()), Runtime, "optimizer",
                text(what, " of shape ", to_string(param.shape())), to_string(t.shape()));
}

void check_state(const Tensor& param, const Tensor& t, const char* what) {
    check_like(param, t, what);
    WEFT_EXPECT(!t.defined() || t.dtype() == param.dtype(), Runtime, "optimizer",
                text(what, " of ", name(param.dtype())), name(t.dtype()));
}

void wrote(const Tensor& t) {
    if (!t.defined()) return;
    t.storage()->version++;
    if (t.storage()->watched) note_write(*t.storage());
}

PyObject* fused_sgd(PyObject*, PyObject* args) {
    PyObject *params_, *grads_, *momenta_;
    ops::SgdOptions o{};
    int nesterov, maximize, first;
    if (!PyArg_ParseTuple(args, "OOOddddppp:_fused_sgd_", &params_, &grads_, &momenta_, &o.lr,
                          &o.momentum, &o.dampening, &o.weight_decay, &nesterov, &maximize, &first))
        return nullptr;
    return guarded([&] {
        o.nesterov = nesterov;
        o.maximize = maximize;
        TensorList params(params_, "parameters", -1), grads(grads_, "gradients", params.size()),
            momenta(momenta_, "momentum buffers", params.size());
        for (Py_ssize_t i = 0; i < params.size(); ++i) {
            check_like(params[i], grads[i], "a gradient");
            check_state(params[i], momenta[i], "a momentum buffer");
        }
        for (Py_ssize_t i = 0; i < params.size(); ++i) {
            Tensor p = params[i], m = momenta[i];
            ops::sgd_step(p, grads[i], m, first, o);
            wrote(p);
            wrote(m);
        }
        return Py_NewRef(Py_None);
    });
}

PyObject* fused_adam(PyObject*, PyObject* args) {
    PyObject *params_, *grads_, *means_, *squares_, *largest_, *steps_;
    ops::AdamOptions o{};
    int decoupled, amsgrad, maximize;
    if (!PyArg_ParseTuple(args, "OOOOOOdddddppp:_fused_adam_", &params_, &grads_, &means_, &squares_,
                          &largest_, &steps_, &o.lr, &o.beta1, &o.beta2, &o.eps, &o.weight_decay,
                          &decoupled, &amsgrad, &maximize))
        return nullptr;
    return guarded([&] {
        o.decoupled = decoupled;
        o.amsgrad = amsgrad;
        o.maximize = maximize;
        TensorList params(params_, "parameters", -1), grads(grads_, "gradients", params.size()),
            means(means_, "averages", params.size()), squares(squares_, "averages", params.size()),
            largest(largest_, "maxima", params.size()), steps(steps_, "step counts", params.size());
        for (Py_ssize_t i = 0; i < params.size(); ++i) {
            check_like(params[i], grads[i], "a gradient");
            check_state(params[i], means[i], "an average");
            check_state(params[i], squares[i], "an average");
            check_state(params[i], largest[i], "a maximum");
            WEFT_EXPECT(means[i].defined() && squares[i].defined() && steps[i].defined() &&
                            (!o.amsgrad || largest[i].defined()),
                        Runtime, "optimizer", "state for every parameter", "None");
        }
        for (Py_ssize_t i = 0; i < params.size(); ++i) {
            Tensor p = params[i], step = steps[i], mean = means[i], square = squares[i],
                   top = o.amsgrad ? largest[i] : Tensor();
            double now = step.item_double() + 1;
            ops::adam_step(p, grads[i], mean, square, top, now, o);
            dispatch<AllTypes>(step.dtype(), "adam",
                               [&]<class T>() { *step.data<T>() = static_cast<T>(now); });
            for (const Tensor& t : {p, step, mean, square, top}) wrote(t);
        }
        return Py_NewRef(Py_None);
    });
}

PyMethodDef functions[] = {{"_fused_sgd_", fused_sgd, METH_VARARGS, nullptr},
                           {"_fused_adam_", fused_adam, METH_VARARGS, nullptr},
                           {}};

}  // namespace

void init_optim(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace weft::python
