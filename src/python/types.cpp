/// dtype, Size and their conversions.
#include "python/type.h"

namespace weft::python {
namespace {

struct PyDType {
    PyObject_HEAD DType type;
};

PyObject* dtype_repr(PyObject* self) {
    auto& i = info(reinterpret_cast<PyDType*>(self)->type);
    return PyUnicode_FromFormat("torch.%s", i.name.data());
}

PyObject* dtype_reduce(PyObject* self, PyObject*) {
    auto& i = info(reinterpret_cast<PyDType*>(self)->type);
    return guarded([&] {
        Object get = import_attr("builtins", "getattr");
        Object module = Object::take(PyImport_ImportModule("weft"));
        return Py_BuildValue("O(Os)", get.get(), module.get(), i.name.data());
    });
}

PyObject* dtype_is_floating(PyObject* self, void*) {
    return PyBool_FromLong(is_floating(reinterpret_cast<PyDType*>(self)->type));
}
PyObject* dtype_is_complex(PyObject* self, void*) {
    return PyBool_FromLong(is_complex(reinterpret_cast<PyDType*>(self)->type));
}
PyObject* dtype_is_signed(PyObject* self, void*) {
    DType t = reinterpret_cast<PyDType*>(self)->type;
    return PyBool_FromLong(t != DType::Bool && !is_unsigned(t) && t != DType::Float8E8M0FNU);
}
PyObject* dtype_to_real(PyObject* self, PyObject*) {
    DType t = reinterpret_cast<PyDType*>(self)->type;
    return Py_NewRef(dtype_object(real_dtype(t)));
}
PyObject* dtype_to_complex(PyObject* self, PyObject*) {
    DType t = reinterpret_cast<PyDType*>(self)->type;
    if (!is_inexact(t) || is_float8(t)) {
        PyErr_Format(PyExc_RuntimeError,
                     "[to_complex] expected a floating or complex dtype, got %s (Unknown Complex "
                     "ScalarType for %s)",
                     name(t).data(), scalar_name(t).data());
        return nullptr;
    }
    return Py_NewRef(dtype_object(complex_dtype(t)));
}
PyObject* dtype_itemsize(PyObject* self, void*) {
    return PyLong_FromLong(item_size(reinterpret_cast<PyDType*>(self)->type));
}

PyMethodDef dtype_methods[] = {
    {"__reduce__", dtype_reduce, METH_NOARGS, nullptr},
    {"to_real", dtype_to_real, METH_NOARGS, "The dtype of its real part."},
    {"to_complex", dtype_to_complex, METH_NOARGS, "The complex dtype that holds it."},
    {}};
PyGetSetDef dtype_getset[] = {
    {"is_floating_point", dtype_is_floating, nullptr, "whether it is a floating dtype", nullptr},
    {"is_complex", dtype_is_complex, nullptr, "whether it is a complex dtype", nullptr},
    {"is_signed", dtype_is_signed, nullptr, "whether it has negative numbers", nullptr},
    {"itemsize", dtype_itemsize, nullptr, "bytes per element", nullptr},
    {}};

PyTypeObject dtype_class = blank_type();
PyTypeObject size_class = blank_type();
PyObject* dtypes[kDTypeCount];

PyObject* size_repr(PyObject* self) {
    return guarded([&] {
        std::string out = "torch.Size([";
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
            if (i) out += ", ";
            out += to_text(Object::take(PyObject_Str(PyTuple_GET_ITEM(self, i))).get());
        }
        return PyUnicode_FromString((out + "])").c_str());
    });
}

PyObject* size_numel(PyObject* self, PyObject*) {
    return guarded([&] {
        int64_t n = 1;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i)
            n *= to_int(PyTuple_GET_ITEM(self, i), "Size");
        return PyLong_FromLongLong(n);
    });
}

/// Slices, sums and multiples of sizes are sizes, whichever side of a sum is a plain tuple.
PyObject* as_size(PyObject* tuple) {
    if (!tuple || !PyTuple_CheckExact(tuple)) return tuple;
    PyObject* out = PyObject_CallOneArg(reinterpret_cast<PyObject*>(&size_class), tuple);
    Py_DECREF(tuple);
    return out;
}
PyObject* size_concat(PyObject* a, PyObject* b) {
    return as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}
PyObject* size_add(PyObject* a, PyObject* b) {
    if (!PyTuple_Check(a) || !PyTuple_Check(b)) Py_RETURN_NOTIMPLEMENTED;
    return size_concat(a, b);
}
PyObject* size_repeat(PyObject* self, Py_ssize_t count) {
    return as_size(PyTuple_Type.tp_as_sequence->sq_repeat(self, count));
}
PyObject* size_subscript(PyObject* self, PyObject* key) {
    return as_size(PyTuple_Type.tp_as_mapping->mp_subscript(self, key));
}
PyObject* size_reduce(PyObject* self, PyObject*) {
    PyObject* tuple = PyTuple_GetSlice(self, 0, PyTuple_GET_SIZE(self));
    return tuple ? Py_BuildValue("O(N)", &size_class, tuple) : nullptr;
}

PyMethodDef size_methods[] = {{"numel", size_numel, METH_NOARGS, "Product of the sizes."},
                              {"__reduce__", size_reduce, METH_NOARGS, nullptr},
                              {}};
PyNumberMethods size_number;
PySequenceMethods size_sequence;
PyMappingMethods size_mapping;

}  // namespace

PyObject* dtype_object(DType t) { return dtypes[static_cast<int>(t)]; }

bool to_dtype(PyObject* o, DType& out) {
    if (Py_TYPE(o) == &dtype_class) out = reinterpret_cast<PyDType*>(o)->type;
    else if (o == reinterpret_cast<PyObject*>(&PyFloat_Type)) out = DType::Float64;
    else if (o == reinterpret_cast<PyObject*>(&PyLong_Type)) out = DType::Int64;
    else if (o == reinterpret_cast<PyObject*>(&PyBool_Type)) out = DType::Bool;
    else return false;
    return true;
}

Where to_place(PyObject* device) {
    if (device == Py_None) return Where::Unsaid;
    if (PyUnicode_Check(device) && to_text(device) == "cpu") return Where::Cpu;
    static PyObject* const cpu = import_attr("weft.base.device", "CPU").release();
    if (device == cpu) return Where::Cpu;  // what `x.device` gives
    Object is_meta = import_attr("weft.base.device", "is_meta").call(Object::borrow(device));
    return is_meta.get() == Py_True ? Where::Meta : Where::Cpu;
}

void expect_unpinned(const std::string& who, bool pinned) {
    WEFT_EXPECT(!pinned, Runtime, who, "pin_memory=False",
                "True (pin_memory=True requires a CUDA or other accelerator backend; no pinned "
                "memory allocator is available on this system.)");
}

PyObject* size_object(DimSpan dims) {
    PyObject* out = size_class.tp_alloc(&size_class, static_cast<Py_ssize_t>(dims.size()));
    if (!out) return nullptr;
    for (size_t i = 0; i < dims.size(); ++i)
        PyTuple_SET_ITEM(out, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(dims[i]));
    return out;
}

PyObject* to_python(const Value& v) {
    switch (v.kind()) {
        case Value::Kind::None:
            Py_RETURN_NONE;
        case Value::Kind::Bool:
            return PyBool_FromLong(v.as_bool());
        case Value::Kind::Int:
            return PyLong_FromLongLong(v.as_int());
        case Value::Kind::Float:
            return PyFloat_FromDouble(v.as_double());
        case Value::Kind::Complex:
            return PyComplex_FromDoubles(v.as_complex().real(), v.as_complex().imag());
        case Value::Kind::DType:
            return Py_NewRef(dtype_object(v.as_dtype()));
        case Value::Kind::Ints:
            return size_object(v.as_ints());
        case Value::Kind::Text:
            return PyUnicode_FromString(v.as_text().c_str());
    }
    Py_UNREACHABLE();
}

namespace {

PyObject* py_promote_types(PyObject*, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"type1", "type2", nullptr};
    PyObject *a, *b;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:promote_types", const_cast<char**>(names),
                                     &a, &b))
        return nullptr;
    return guarded([&] {
        DType first, second;
        WEFT_EXPECT(to_dtype(a, first), Type, "promote_types", "a dtype", Py_TYPE(a)->tp_name);
        WEFT_EXPECT(to_dtype(b, second), Type, "promote_types", "a dtype", Py_TYPE(b)->tp_name);
        return Py_NewRef(dtype_object(promote(first, second)));
    });
}

PyMethodDef type_functions[] = {
    {"promote_types", c_function(py_promote_types), METH_VARARGS | METH_KEYWORDS,
     "promote_types(type1, type2)\n\nThe smallest dtype that holds the values of both.\n\n"
     ">>> weft.promote_types(weft.int64, weft.float32)\ntorch.float32\n"},
    {}};

}  // namespace

void init_types(PyObject* module) {
    checked(PyModule_AddFunctions(module, type_functions));
    dtype_class.tp_repr = dtype_repr;
    dtype_class.tp_methods = dtype_methods;
    dtype_class.tp_getset = dtype_getset;
    dtype_class.tp_doc =
        "The type of a tensor's elements.\n"
        "\n"
        ">>> weft.ones(2).dtype, weft.int8.itemsize, weft.float16.is_floating_point\n"
        "(torch.float32, 1, True)";
    add_type(module, dtype_class, "torch.dtype", sizeof(PyDType));
    for (DType t : kDTypes) {
        auto* d = reinterpret_cast<PyDType*>(checked(dtype_class.tp_alloc(&dtype_class, 0)));
        d->type = t;
        PyObject*& object = dtypes[static_cast<int>(t)];
        object = reinterpret_cast<PyObject*>(d);
        add_object(module, name(t).data(), object);
    }

    size_number.nb_add = size_add;
    size_sequence.sq_concat = size_concat;
    size_sequence.sq_repeat = size_repeat;
    size_mapping.mp_subscript = size_subscript;
    size_class.tp_base = &PyTuple_Type;
    size_class.tp_repr = size_repr;
    size_class.tp_as_number = &size_number;
    size_class.tp_as_sequence = &size_sequence;
    size_class.tp_as_mapping = &size_mapping;
    size_class.tp_methods = size_methods;
    size_class.tp_doc = "The sizes of a tensor: a tuple of ints.\n"
                        "\n"
                        ">>> weft.ones(2, 3).shape, weft.ones(2, 3).shape.numel()\n"
                        "(torch.Size([2, 3]), 6)";
    add_type(module, size_class, "torch.Size", 0);
}

}  // namespace weft::python
