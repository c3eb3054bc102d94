/// Methods of a tensor that are no ops: its sizes, its numbers for Python, its memory, its class.
#include "autograd/sparse.h"
#include "kernels/convert.h"
#include "ops/pointwise.h"
#include "ops/write.h"
#include "python/dispatch.h"
#include "python/overrides.h"
#include "python/slots.h"
#include "python/tensor_members.h"

namespace weft::python {
namespace {

void expect_dimensions(const char* who, const Tensor& t) {
    WEFT_EXPECT(t.ndim(), Index, who, "a tensor with dimensions",
                "a 0-d one (Dimension specified as 0 but tensor has no dimensions)");
}

/// The dim that is asked for by place or by name, or -1 for all.
int one_dim(const char* who, const Tensor& t, PyObject* const* args, Py_ssize_t n,
            PyObject* kwnames) {
    const Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    WEFT_EXPECT(n + named <= 1, Type, who, "at most one argument", std::to_string(n + named));
    if (named) {
        std::string_view name = to_text(PyTuple_GET_ITEM(kwnames, 0));
        WEFT_EXPECT(name == "dim" || name == "axis", Type, who, "dim",
                    text("an unexpected keyword argument '", name, "'"));
    }
    if (n + named == 0 || args[0] == Py_None) return -1;
    WEFT_EXPECT(!PyBool_Check(args[0]), Type, who, "an int", "bool");
    expect_dimensions(who, t);
    return check_dim(who, to_int(args[0], who), t);
}

PyObject* method_size(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
    return guarded([&]() -> PyObject* {
        Tensor t = handle(self);
        const int d = one_dim("size", t, args, n, kwnames);
        return d < 0 ? size_object(t.shape()) : PyLong_FromLongLong(t.size(d));
    });
}
PyObject* method_stride(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
    return guarded([&]() -> PyObject* {
        Tensor t = handle(self);
        const int dim = one_dim("stride", t, args, n, kwnames);
        if (dim >= 0) return PyLong_FromLongLong(t.stride(dim));
        Object out = Object::take(PyTuple_New(t.ndim()));
        for (int d = 0; d < t.ndim(); ++d)
            PyTuple_SET_ITEM(out.get(), d, py_int(t.stride(d)).release());
        return out.release();
    });
}
PyObject* method_item(PyObject* self, PyObject*) {
    if (dispatches(self) && handle(self).numel() == 1) [[unlikely]]
        return dispatched_element(self);
    return guarded_method("item", {self}, [&]() -> PyObject* {
        Tensor t = reading(self);
        if (is_floating(t.dtype())) return PyFloat_FromDouble(t.item_double());
        if (is_complex(t.dtype())) {
            std::complex<double> v = t.item_complex();
            return PyComplex_FromDoubles(v.real(), v.imag());
        }
        return t.dtype() == DType::Bool ? PyBool_FromLong(t.item_int()) : element_as_int(t);
    });
}

PyObject* to_list(const Tensor& t, int d, int64_t offset) {
    if (d == t.ndim()) {
        return dispatch_each(t.dtype(), [&]<class T>() -> PyObject* {
            if constexpr (std::is_same_v<T, bool>)  // memory not written yet may hold any byte
                return PyBool_FromLong(t.data<uint8_t>()[offset] != 0);
            T v = t.data<T>()[offset];
            if constexpr (std::is_same_v<T, uint64_t>) return PyLong_FromUnsignedLongLong(v);
            else if constexpr (std::is_integral_v<T>) return PyLong_FromLongLong(v);
            else if constexpr (kernels::is_complex_v<T>)
                return PyComplex_FromDoubles(kernels::convert<double>(v.real()),
                                             kernels::convert<double>(v.imag()));
            else return PyFloat_FromDouble(kernels::convert<double>(v));
        });
    }
    Object out = Object::take(PyList_New(t.size(d)));
    for (int64_t i = 0; i < t.size(d); ++i)
        PyList_SET_ITEM(out.get(), i, checked(to_list(t, d + 1, offset + i * t.stride(d))));
    return out.release();
}
PyObject* method_tolist(PyObject* self, PyObject*) {
    return guarded([&] {
        Tensor t = reading(self);
        WEFT_EXPECT(!t.has(kDispatching), Runtime, "tolist", "a tensor with values of its own",
                    text("one whose class knows them (.tolist() is not supported for tensor "
                         "subclasses, got ",
                         Py_TYPE(self)->tp_name, ")"),
                    "ask what it is made of");
        if (t.has(kMeta)) ops::fail_copying_out("tolist");
        return to_list(t, 0, 0);
    });
}

template <class F>
PyObject* simple(PyObject* self, F f) {
    return guarded([&] { return f(unwrap(self)); });
}
template <class F>
PyObject* of_layout(PyObject* self, F f) {
    return guarded([&] { return f(handle(self)); });
}
PyObject* method_dim(PyObject* s, PyObject*) {
    return of_layout(s, [](const Tensor& t) { return PyLong_FromLong(t.ndim()); });
}
PyObject* method_numel(PyObject* s, PyObject*) {
    return of_layout(s, [](const Tensor& t) { return PyLong_FromLongLong(t.numel()); });
}
PyObject* method_offset(PyObject* s, PyObject*) {
    return simple(s, [](const Tensor& t) { return PyLong_FromLongLong(t.offset()); });
}
PyObject* method_data_ptr(PyObject* s, PyObject*) {
    return simple(s, [](const Tensor& t) {
        return PyLong_FromVoidPtr(t.numel() && !t.has(kMeta) ? static_cast<void*>(t.bytes())
                                                             : nullptr);
    });
}
PyObject* method_is_contiguous(PyObject* s, PyObject* const* args, Py_ssize_t n,
                               PyObject* kwnames) {
    const Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    return of_layout(s, [&](const Tensor& t) {
        WEFT_EXPECT(n == 0 && named <= 1, Type, "is_contiguous", "memory_format= at most",
                    text(n + named, " arguments"));
        WEFT_EXPECT(
            !named || to_text(PyTuple_GET_ITEM(kwnames, 0)) == "memory_format", Type,
            "is_contiguous", "memory_format",
            text("an unexpected keyword argument '", to_text(PyTuple_GET_ITEM(kwnames, 0)), "'"));
        int dims = named ? channels_last_dims(args[0]) : 0;
        return PyBool_FromLong(dims ? channels_are_last(t, dims) : t.contiguous());
    });
}
PyObject* method_detach(PyObject* s, PyObject*) {
    if (dispatches(s)) [[unlikely]]
        return dispatched("detach", s);
    return guarded([&] {
        Tensor t = operand(s);
        if (!t.has(kPending)) return wrap(detach(t));
        if (Tensor out = promise(t).detached(t); out.defined()) return wrap(out);
        return wrap(detach(unwrap(s)));
    });
}
PyObject* method_detach_(PyObject* s, PyObject*) {
    return guarded([&] {
        Tensor t = unwrap(s);
        ops::Change change(t);
        detach_in_place(t);
        return Py_NewRef(s);
    });
}
PyObject* method_retain_grad(PyObject* s, PyObject*) {
    return guarded([&] {
        retain_grad(unwrap(s));
        return Py_NewRef(Py_None);
    });
}
/// The bytes of the whole storage, for serialisation and DLPack: (address, bytes, offset).
PyObject* method_storage_info(PyObject* s, PyObject*) {
    return simple(s, [](const Tensor& t) {
        return Py_BuildValue("KLL", reinterpret_cast<unsigned long long>(t.storage()->data),
                             static_cast<long long>(t.storage()->bytes),
                             static_cast<long long>(t.offset()));
    });
}
/// Raises for a sparse tensor: what it consists of would not come along.
void refuse_sparse(PyObject* data, const char* who) {
    if (sparse::is(handle(data)) && Py_TYPE(data) != &tensor_type)
        fail(ErrorKind::NotImplemented, who, "a dense tensor", "a sparse one",
             "a sparse tensor is a leaf by requires_grad_(), and a module's by register_buffer");
}

/// Tensor._make_subclass(cls, data, requires_grad=False): data's memory as an instance of cls.
PyObject* make_subclass(PyObject*, PyObject* args) {
    PyTypeObject* cls;
    PyObject* data;
    int requires_grad = 0;
    if (!PyArg_ParseTuple(args, "O!O!|p", &PyType_Type, &cls, &tensor_type, &data, &requires_grad))
        return nullptr;
    return guarded([&] {
        WEFT_EXPECT(PyType_IsSubtype(cls, &tensor_type), Type, "_make_subclass",
                    "a subclass of Tensor", cls->tp_name);
        refuse_sparse(data, "_make_subclass");
        if (handle(data).has(kDispatching)) {
            Object made = Object::take(instance_of(cls, handle(data)));
            if (requires_grad) set_requires_grad(handle(made.get()), true);
            return made.release();
        }
        Tensor t = detach(unwrap(data));
        if (requires_grad) set_requires_grad(t, true);
        return instance(cls, std::move(t));
    });
}

/// Tensor._moved_to(cls): the tensor, its place in the graph included, as an instance of cls. What is left
/// here is empty: for a result that nobody else has yet.
PyObject* moved_to(PyObject* s, PyObject* o) {
    return guarded([&] {
        auto* cls = reinterpret_cast<PyTypeObject*>(o);
        WEFT_EXPECT(Py_TYPE(s) == &tensor_type && PyType_Check(o) &&
                        PyType_IsSubtype(cls, &tensor_type) && cls != &tensor_type,
                    Type, "_moved_to", "a plain tensor and a subclass", Py_TYPE(s)->tp_name);
        Tensor left = Tensor::empty(DType::Float32, Dims{0});
        PyTensor* self = reinterpret_cast<PyTensor*>(s);
        Tensor moved = handle(s);
        --moved.impl()->refs;  // that of `s`
        self->impl = left.detach_impl();
        self->impl->wrapper = self;
        return instance(cls, std::move(moved));
    });
}

/// The tensor as an instance of `cls`, in the graph as a view.
PyObject* as_subclass(PyObject* s, PyObject* o) {
    return guarded([&] {
        auto* cls = reinterpret_cast<PyTypeObject*>(o);
        WEFT_EXPECT(PyType_Check(o) && PyType_IsSubtype(cls, &tensor_type), Type, "as_subclass",
                    "a subclass of Tensor", PyType_Check(o) ? cls->tp_name : Py_TYPE(o)->tp_name);
        refuse_sparse(s, "as_subclass");
        Tensor t = unwrap(s);
        if (t.has(kDispatching)) return instance_of(cls, t);
        return instance(cls, ops::view(t, t.shape()));
    });
}

PyObject* method_is_view(PyObject* self, PyObject*) {
    return guarded([&] {
        const GradMeta* m = meta_or_null(unwrap(self));
        return PyBool_FromLong(m && m->base.defined());
    });
}

/// What the class of `self` makes of a call of its method with further arguments.
bool answer(const char* name, PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names,
            PyObject*& out) {
    std::vector<PyObject*> all{self};
    all.insert(all.end(), args, args + n + (names ? PyTuple_GET_SIZE(names) : 0));
    PyObject* function = PyDict_GetItemString(tensor_type.tp_dict, name);
    return Overrides::answer(function, all.data(), n + 1, names, out);
}

#define WEFT_METHOD(name, f, doc)                                                                  \
    {name,                                                                                         \
     [](PyObject* s, PyObject* none) {                                                             \
         return overridable(name, {s}, [&] { return f(s, none); });                                \
     },                                                                                            \
     METH_NOARGS, doc}
#define WEFT_FAST(name, f, doc)                                                                    \
    {name, c_function(+[](PyObject* s, PyObject* const* args, Py_ssize_t n, PyObject* names) {     \
         PyObject* out;                                                                            \
         const bool answered = Overrides::known() && answer(name, s, args, n, names, out);         \
         return answered ? out : f(s, args, n, names);                                             \
     }),                                                                                           \
     METH_FASTCALL | METH_KEYWORDS, doc}

}  // namespace

PyMethodDef tensor_methods[] = {
    WEFT_FAST("size", method_size,
              "size(dim=None): the sizes, or one of them.\n"
              "\n"
              "IndexError for a dim out of range.\n"
              "\n"
              ">>> weft.ones(2, 3).size(), weft.ones(2, 3).size(-1)\n"
              "(torch.Size([2, 3]), 3)"),
    WEFT_FAST("stride", method_stride,
              "stride(dim=None): the strides in elements, or one of them.\n"
              "\n"
              "A tuple of as many ints as there are dimensions.\n"
              "\n"
              ">>> weft.ones(2, 3).stride()\n"
              "(3, 1)"),
    WEFT_METHOD("item", method_item,
                "The one element as a Python number.\n"
                "\n"
                "RuntimeError unless there is one element.\n"
                "\n"
                ">>> weft.tensor([2.5]).item()\n"
                "2.5"),
    WEFT_METHOD("tolist", method_tolist,
                "Nested lists of Python numbers.\n"
                "\n"
                "As many levels as dimensions; a number for a 0-d tensor.\n"
                "\n"
                ">>> weft.tensor([[1, 2], [3, 4]]).tolist()\n"
                "[[1, 2], [3, 4]]"),
    WEFT_METHOD("dim", method_dim,
                "The number of dimensions.\n"
                "\n"
                ">>> weft.ones(2, 3).dim()\n"
                "2"),
    WEFT_METHOD("ndimension", method_dim,
                "The number of dimensions.\n"
                "\n"
                ">>> weft.ones(2, 3).ndimension()\n"
                "2"),
    WEFT_METHOD("numel", method_numel,
                "The number of elements.\n"
                "\n"
                ">>> weft.ones(2, 3).numel()\n"
                "6"),
    WEFT_METHOD("nelement", method_numel,
                "The number of elements.\n"
                "\n"
                ">>> weft.ones(2, 3).nelement()\n"
                "6"),
    WEFT_METHOD("storage_offset", method_offset,
                "Elements before the first one in the storage.\n"
                "\n"
                ">>> weft.arange(4)[1:].storage_offset()\n"
                "1"),
    WEFT_METHOD("data_ptr", method_data_ptr,
                "The address of the first element.\n"
                "\n"
                ">>> t = weft.ones(2)\n"
                ">>> t[1:].data_ptr() - t.data_ptr()\n"
                "4"),
    WEFT_FAST("is_contiguous", method_is_contiguous,
              "Whether it is dense, and row-major or in the order of `memory_format`.\n"
              "\n"
              "What counts is sizes and strides.\n"
              "\n"
              ">>> weft.ones(2, 3).is_contiguous(), weft.ones(2, 3).t().is_contiguous()\n"
              "(True, False)"),
    WEFT_METHOD("detach", method_detach,
                "The same memory outside the graph.\n"
                "\n"
                "Of self's shape and dtype.\n"
                "\n"
                ">>> weft.ones(2, requires_grad=True).detach()\n"
                "tensor([1., 1.])"),
    WEFT_METHOD("detach_", method_detach_,
                "Takes the tensor itself out of the graph.\n"
                "\n"
                "Its shape stays. RuntimeError for a view.\n"
                "\n"
                ">>> (2 * weft.ones(2, requires_grad=True)).detach_()\n"
                "tensor([2., 2.])"),
    WEFT_METHOD("retain_grad", method_retain_grad,
                "Keeps .grad although it is no leaf.\n"
                "\n"
                "The gradient has self's shape. RuntimeError if self does not require grad.\n"
                "\n"
                ">>> x = weft.ones(2, requires_grad=True)\n"
                ">>> y = 2 * x\n"
                ">>> y.retain_grad()\n"
                ">>> y.sum().backward()\n"
                ">>> y.grad\n"
                "tensor([1., 1.])"),
    {"_storage_info", method_storage_info, METH_NOARGS, nullptr},
    WEFT_METHOD(
        "_is_view", method_is_view,
        "Whether it is a view of `_base`. Views under no_grad of what wants no gradient know "
        "of none."),
    {"_make_subclass", make_subclass, METH_VARARGS | METH_STATIC, nullptr},
    {"_moved_to", moved_to, METH_O, nullptr},
    {"as_subclass", as_subclass, METH_O,
     "The same values, in the same memory and graph, as an instance of a subclass of Tensor.\n"
     "\n"
     "The shape stays. TypeError for a class that is none.\n"
     "\n"
     ">>> weft.ones(2).as_subclass(weft.nn.Parameter).shape\n"
     "torch.Size([2])"},
    {}};

}  // namespace weft::python
