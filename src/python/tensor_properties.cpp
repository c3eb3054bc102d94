/// Attributes of a tensor that are no calls: what it is, and its place in the graph.
#include "deferred/turn.h"
#include "ops/write.h"
#include "python/dispatch.h"
#include "python/recorder.h"
#include "python/tensor_members.h"

namespace weft::python {
namespace {

template <PyObject* (*F)(const Tensor&)>
PyObject* getter(PyObject* self, void*) {
    return guarded([&] { return F(unwrap(self)); });
}
/// Of what a pending tensor knows without its value.
template <PyObject* (*F)(const Tensor&)>
PyObject* plain_getter(PyObject* self, void*) {
    return guarded([&] { return F(handle(self)); });
}

PyObject* get_shape(const Tensor& t) { return size_object(t.shape()); }
PyObject* get_dtype(const Tensor& t) { return Py_NewRef(dtype_object(t.dtype())); }
PyObject* get_is_meta(const Tensor& t) { return PyBool_FromLong(t.on_meta()); }
PyObject* get_is_cpu(const Tensor& t) { return PyBool_FromLong(!t.on_meta()); }
PyObject* get_device(const Tensor& t) {
    static PyObject* const cpu = import_attr("weft.base.device", "CPU").release();
    static PyObject* const meta = import_attr("weft.base.device", "META").release();
    return Py_NewRef(t.on_meta() ? meta : cpu);
}
PyObject* get_ndim(const Tensor& t) { return PyLong_FromLong(t.ndim()); }
PyObject* get_requires_grad(const Tensor& t) {
    return PyBool_FromLong(t.has(kPending) ? promise(t).wants_grad(t) : requires_grad(t));
}
PyObject* get_is_leaf(const Tensor& t) {
    return PyBool_FromLong(t.has(kPending) ? !promise(t).wants_grad(t) : is_leaf(t));
}
/// Note [Shared state] in deferred/turn.h
void gradients_in_turn(const Tensor& t) {
    if (mode & kDeferMode) deferred::in_turn(deferred::sharing_levels(t));
}
PyObject* get_grad(const Tensor& t) {
    gradients_in_turn(t);
    return wrap(grad_of(t));
}
/// The same, told to who records calls.
PyObject* grad_attr(PyObject* self, void*) {
    return guarded([&] {
        Object found = Object::take(getter<get_grad>(self, nullptr));
        note_beside("grad", self, found.get());
        return found.release();
    });
}
PyObject* get_grad_fn(const Tensor& t) { return wrap_node(grad_fn(t)); }
PyObject* get_version(const Tensor& t) {
    WEFT_EXPECT(!t.has(kInference) || t.has(kLooseView), Runtime, "_version", "a normal tensor",
                "an inference tensor (Inference tensors do not track version counter.)");
    return PyLong_FromLong(t.version());
}
PyObject* get_output_nr(const Tensor& t) { return PyLong_FromLong(output_number(t)); }
PyObject* get_retains(const Tensor& t) {
    GradMeta* m = meta_or_null(t);
    return PyBool_FromLong(m && m->retains_grad);
}
PyObject* get_itemsize(const Tensor& t) { return PyLong_FromLong(item_size(t.dtype())); }
PyObject* get_nbytes(const Tensor& t) {
    return PyLong_FromLongLong(t.numel() * item_size(t.dtype()));
}
PyObject* get_base(const Tensor& t) {
    GradMeta* m = meta_or_null(t);
    return wrap(m ? m->base : Tensor());
}
PyObject* get_inference(const Tensor& t) { return PyBool_FromLong(t.has(kInference)); }
PyObject* get_data(const Tensor& t) {
    if (t.has(kDispatching)) return dispatched("detach", wrapped(t).get());
    Tensor out = t.apart();
    if (t.has(kInference)) {
        out.set(kInference);
        out.set(kLooseView, !(mode & kInferenceMode));
    }
    return wrap(std::move(out));
}

int set_requires_grad_attr(PyObject* self, PyObject* value, void*) {
    return guarded_int([&] {
        WEFT_EXPECT(value && PyBool_Check(value), Runtime, "requires_grad", "a bool",
                    value ? Py_TYPE(value)->tp_name : "del");
        Tensor t = unwrap(self);
        ops::Change change(t);
        set_requires_grad(t, value == Py_True);
        return 0;
    });
}
int set_grad_attr(PyObject* self, PyObject* value, void*) {
    return guarded_int([&] {
        bool clear = !value || value == Py_None;
        note_beside("set grad", self, value);
        gradients_in_turn(handle(self));
        WEFT_EXPECT(clear || is_tensor(value), Type, "grad", "another value",
                    text(Py_TYPE(value)->tp_name,
                         " (assigned grad expected to be a Tensor or None but got grad of type ",
                         Py_TYPE(value)->tp_name, ")"));
        set_grad(unwrap(self), clear ? Tensor() : unwrap(value));
        return 0;
    });
}
/// t.data = other: the tensor shows other memory from now on; its place in the graph stays.
int set_data_attr(PyObject* self, PyObject* value, void*) {
    return guarded_int([&] {
        WEFT_EXPECT(value, Type, "data", "a tensor", "del");
        note_beside("set data", self, value);
        Tensor t = unwrap(self);
        take_memory(t, [&] {
            Tensor from = expect_tensor(value, "data");
            WEFT_EXPECT(from.on_meta() == t.on_meta(), Runtime, "data",
                        "a tensor of the same device",
                        "another (Attempted to call `variable.set_data(tensor)`, but `variable` "
                        "and `tensor` have incompatible tensor type.)");
            return from;
        });
        return 0;
    });
}

}  // namespace

PyGetSetDef tensor_properties[] = {
    {"shape", plain_getter<get_shape>, nullptr, "The sizes.", nullptr},
    {"dtype", plain_getter<get_dtype>, nullptr, "The type of the elements.", nullptr},
    {"ndim", plain_getter<get_ndim>, nullptr, "The number of dimensions.", nullptr},
    {"requires_grad", plain_getter<get_requires_grad>, set_requires_grad_attr,
     "Whether gradients flow to or through it.", nullptr},
    {"is_leaf", plain_getter<get_is_leaf>, nullptr, "Whether no recorded op made it.", nullptr},
    {"grad", grad_attr, set_grad_attr, "The gradient accumulated so far, or None.", nullptr},
    {"grad_fn", getter<get_grad_fn>, nullptr, "The node that made it, or None.", nullptr},
    {"data", getter<get_data>, set_data_attr,
     "The values outside the graph; writes are not seen by it.", nullptr},
    {"_version", getter<get_version>, nullptr, "In-place writes so far.", nullptr},
    {"output_nr", getter<get_output_nr>, nullptr, "Which output of grad_fn it is.", nullptr},
    {"retains_grad", getter<get_retains>, nullptr, "Whether retain_grad() was called.", nullptr},
    {"itemsize", plain_getter<get_itemsize>, nullptr, "Bytes per element.", nullptr},
    {"is_meta", plain_getter<get_is_meta>, nullptr, "Whether it has no memory and no values.",
     nullptr},
    {"is_cpu", plain_getter<get_is_cpu>, nullptr, "Whether it lies in main memory.", nullptr},
    {"device", plain_getter<get_device>, nullptr, "Where it lies.", nullptr},
    {"nbytes", plain_getter<get_nbytes>, nullptr, "Bytes of all elements.", nullptr},
    {"_base", getter<get_base>, nullptr, "The tensor a view was taken of, or None.", nullptr},
    {"_inference", getter<get_inference>, nullptr, nullptr, nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {}};

}  // namespace weft::python
