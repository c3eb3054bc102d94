/// The Tensor type: life of the wrapper, properties, plain methods. Number slots are in numbers.cpp,
/// what the collector sees in cycles.cpp, methods that are ops in the table (call.cpp), those that
/// are plain Python in weft/composites/.
#include "autograd/sparse.h"
#include "deferred/defer.h"
#include "deferred/turn.h"
#include "kernels/convert.h"
#include "ops/copy.h"
#include "ops/element.h"
#include "ops/pointwise.h"
#include "ops/write.h"
#include "python/dispatch.h"
#include "python/overrides.h"
#include "python/recorder.h"
#include "python/slots.h"
#include "python/summary.h"
#include "python/type.h"
#include "tensor/format.h"

namespace weft::python {

PyTypeObject tensor_type = blank_type();

namespace {

PyTensor* as_wrapper(PyObject* o) { return reinterpret_cast<PyTensor*>(o); }
PyObject* as_object(PyTensor* t) { return reinterpret_cast<PyObject*>(t); }

// ---- life (Note [Wrapper and tensor])

/// Dead plain wrappers, kept for reuse. Untracked by the collector until they get attributes.
constexpr int kFreeLimit = 4096;
[[maybe_unused]] PyTensor* free_list[kFreeLimit];  // ASAN wants none
[[maybe_unused]] int free_count = 0;

PyTensor* new_wrapper() {
#if !defined(__SANITIZE_ADDRESS__)
    if (free_count > 0) {
        PyTensor* t = free_list[--free_count];
        PyObject_Init(as_object(t), &tensor_type);
        return t;
    }
#endif
    PyTensor* t = PyObject_GC_New(PyTensor, &tensor_type);
    checked(as_object(t));
    t->dict = t->weakrefs = nullptr;
    return t;
}

void tensor_dealloc(PyObject* self) {
    PyTensor* t = as_wrapper(self);
    TensorImpl* impl = t->impl;
    bool plain = Py_TYPE(self) == &tensor_type;
    if (impl && impl->refs > 1 && (!plain || t->dict || t->weakrefs)) {
        // the core still holds the tensor: it now owns the wrapper, which keeps class, attributes and
        // those who wait for its end
        Py_SET_REFCNT(self, 1);
        if (!plain) Py_INCREF(Py_TYPE(self));  // subtype_dealloc drops one after us
        impl->flags |= kOwnsWrapper;
        --impl->refs;
        return;
    }
    if (PyObject_GC_IsTracked(self)) PyObject_GC_UnTrack(self);
    if (t->weakrefs) PyObject_ClearWeakRefs(self);
    Py_CLEAR(t->dict);
    if (impl) {
        t->impl = nullptr;
        impl->wrapper = nullptr;
        if (--impl->refs == 0) release(impl);
    }
#if !defined(__SANITIZE_ADDRESS__)
    if (plain && free_count < kFreeLimit) {
        free_list[free_count++] = t;
        return;
    }
#endif
    Py_TYPE(self)->tp_free(self);
}

/// The tensor's last reference went while it owned its wrapper.
void drop_wrapper(TensorImpl* impl) {
    auto* t = static_cast<PyTensor*>(impl->wrapper);
    impl->wrapper = nullptr;
    t->impl = nullptr;
    release(impl);
    Py_DECREF(as_object(t));
}

int tensor_setattro(PyObject* self, PyObject* name, PyObject* value) {
    int result = PyObject_GenericSetAttr(self, name, value);
    if (as_wrapper(self)->dict) track_cycles(self);
    return result;
}

/// A tensor without an object yet, as an instance of `cls`.
PyObject* instance(PyTypeObject* cls, Tensor t) {
    if (cls == &tensor_type) return wrap(std::move(t));
    Overrides::note_class(cls);
    auto* self = as_wrapper(checked(cls->tp_alloc(cls, 0)));
    self->impl = t.detach_impl();
    self->impl->wrapper = self;
    return as_object(self);
}

PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    return guarded([&]() -> PyObject* {
        PyObject* data = nullptr;
        if (kwargs && PyDict_GET_SIZE(kwargs) && type == &tensor_type)
            fail(ErrorKind::Type, "Tensor", "Tensor(data) or Tensor(*sizes)", "keyword arguments",
                 "use weft.tensor(data, dtype=...)");
        Py_ssize_t n = PyTuple_GET_SIZE(args);
        if (n == 1) data = PyTuple_GET_ITEM(args, 0);
        Tensor t;
        Dims sizes;
        if (n == 0) {
            t = Tensor::empty(DType::Float32, Dims{0});
        } else if (data && is_tensor(data)) {
            t = detach(unwrap(data));
        } else if (data && !PyLong_Check(data) &&
                   Py_TYPE(data)->tp_name != std::string_view("torch.Size")) {
            DType f = DType::Float32;
            t = tensor_from(data, &f);
        } else if (to_dims(n == 1 ? data : args, sizes)) {
            t = Tensor::empty(DType::Float32, sizes);
        } else {
            fail(ErrorKind::Type, "Tensor", "data or sizes",
                 Py_TYPE(PyTuple_GET_ITEM(args, 0))->tp_name);
        }
        return instance(type, std::move(t));
    });
}

// ---- containers

Py_ssize_t tensor_length(PyObject* self) {
    return overridable("__len__", {self}, PyLong_AsSsize_t, [&] {
        return guarded_method(
            "len", {self}, [&]() -> Py_ssize_t { return ops::length_of(handle(self)); },
            Py_ssize_t{-1});
    });
}
PyObject* tensor_subscript(PyObject* self, PyObject* key) {
    return overridable("__getitem__", {self, key}, [&] {
        return guarded_method("getitem", {self, key},
                              [&] { return wrap(get_item(operand(self), key)); });
    });
}
int tensor_assign(PyObject* self, PyObject* key, PyObject* value) {
    auto assign = [&] {
        if (!value) fail(ErrorKind::Type, "del", "an assignment", "del of a tensor's element");
        set_item(operand(self), key, value);
        return 0;
    };
    const auto own = [&] {
        return guarded_method("setitem", {self, key, value ? value : Py_None}, assign, -1);
    };
    if (!value) return own();
    return overridable("__setitem__", {self, key, value}, [](PyObject*) { return 0; }, own);
}

PyObject* tensor_iter(PyObject* self) {
    return guarded_method("iter", {self}, [&] {
        ops::expect_rows(handle(self));
        Object rows = Object::take(PyObject_CallMethod(self, "unbind", "i", 0));
        return PyObject_GetIter(rows.get());
    });
}
int tensor_contains(PyObject* self, PyObject* element) {
    const auto own = [&] {
        WEFT_EXPECT(is_tensor(element) || is_number(element), Runtime, "contains",
                    "a Tensor or a number (Tensor.__contains__ only supports Tensor or scalar)",
                    Py_TYPE(element)->tp_name);
        Object same = Object::take(PyObject_RichCompare(self, element, Py_EQ));
        Object any = Object::take(PyObject_CallMethod(same.get(), "any", nullptr));
        return checked(PyObject_IsTrue(any.get()));
    };
    return overridable("__contains__", {self, element}, PyObject_IsTrue,
                       [&] { return guarded_int(own); });
}

// ---- printing

std::vector<std::string> suffixes(const Tensor& t) {
    auto out = t.has(kMeta) ? unseen_suffixes(t.dtype(), t.shape(), ops::default_dtype)
                            : layout_suffixes(t.dtype(), t.shape(), ops::default_dtype);
    if (Ref<Node> fn = grad_fn(t))
        out.push_back("grad_fn=<" + fn->name_of(static_cast<int>(output_number(t))) + ">");
    else if (requires_grad(t)) out.push_back("requires_grad=True");
    return out;
}

PyObject* own_repr(PyObject* self) {
    return guarded([&] {
        // At once: print writes its arguments one by one, and no other example may come between.
        if (handle(self).has(kPending) && promise(handle(self)).taken_in() == kDeferMode)
            deferred::compute_now(handle(self), "a value that is printed");
        Tensor t = unwrap(self);
        auto extra = suffixes(t);
        if (format_options().summary && !t.has(kMeta)) {
            auto summary = summary_of(t);
            extra.insert(extra.begin(), summary.begin(), summary.end());
        }
        FormatView view{t.dtype(), t.bytes(), t.shape(), t.strides()};
        // a class that results keep is shown, as PyTorch does
        const std::string prefix = Overrides::has(self) ? Py_TYPE(self)->tp_name : "tensor";
        if (t.has(kMeta)) return py_str(format_unseen(prefix + "(", extra)).release();
        return py_str(format_tensor(view, prefix + "(", extra)).release();
    });
}
/// _contents(tensor, indent): what its repr has between the parentheses, without suffixes.
PyObject* py_contents(PyObject*, PyObject* args) {
    PyObject* tensor;
    Py_ssize_t indent;
    if (!PyArg_ParseTuple(args, "On", &tensor, &indent)) return nullptr;
    return guarded([&] {
        WEFT_EXPECT(is_tensor(tensor) && indent >= 0, Type, "_contents", "a tensor and an indent",
                    Py_TYPE(tensor)->tp_name);
        Tensor t = unwrap(tensor);
        const FormatView view{t.dtype(), t.bytes(), t.shape(), t.strides()};
        const auto before = static_cast<size_t>(indent);
        std::string out = format_tensor(view, std::string(before, ' '), {});
        return py_str(out.substr(before, out.size() - before - 1)).release();
    });
}
PyObject* tensor_repr(PyObject* self) {
    return overridable("__repr__", {self}, [&] { return own_repr(self); });
}

// ---- properties

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
PyObject* get_is_meta(const Tensor& t) { return PyBool_FromLong(t.has(kMeta)); }
PyObject* get_is_cpu(const Tensor& t) { return PyBool_FromLong(!t.has(kMeta)); }
PyObject* get_device(const Tensor& t) {
    static PyObject* const cpu = import_attr("weft.base.device", "CPU").release();
    static PyObject* const meta = import_attr("weft.base.device", "META").release();
    return Py_NewRef(t.has(kMeta) ? meta : cpu);
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
            WEFT_EXPECT(from.has(kMeta) == t.has(kMeta), Runtime, "data",
                        "a tensor of the same device",
                        "another (Attempted to call `variable.set_data(tensor)`, but `variable` "
                        "and `tensor` have incompatible tensor type.)");
            return from;
        });
        return 0;
    });
}

PyGetSetDef properties[] = {
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

// ---- methods

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
    if (dispatches() && handle(self).numel() == 1) [[unlikely]]
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
                return PyComplex_FromDoubles(v.real(), v.imag());
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
/// The `id` of the object, as PyTorch has it.
Py_hash_t tensor_hash(PyObject* self) {
    const auto id = static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(self));
    return id == -1 ? -2 : id;
}
PyObject* method_detach(PyObject* s, PyObject*) {
    if (dispatches()) [[unlikely]]
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
        PyTensor* self = as_wrapper(s);
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
PyMethodDef methods[] = {
    WEFT_FAST("size", method_size, "size(dim=None): the sizes, or one of them."),
    WEFT_FAST("stride", method_stride,
              "stride(dim=None): the strides in elements, or one of them."),
    WEFT_METHOD("item", method_item, "The one element as a Python number."),
    WEFT_METHOD("tolist", method_tolist, "Nested lists of Python numbers."),
    WEFT_METHOD("dim", method_dim, "The number of dimensions."),
    WEFT_METHOD("ndimension", method_dim, "The number of dimensions."),
    WEFT_METHOD("numel", method_numel, "The number of elements."),
    WEFT_METHOD("nelement", method_numel, "The number of elements."),
    WEFT_METHOD("storage_offset", method_offset, "Elements before the first one in the storage."),
    WEFT_METHOD("data_ptr", method_data_ptr, "The address of the first element."),
    WEFT_FAST("is_contiguous", method_is_contiguous,
              "Whether it is dense, and row-major or in the order of `memory_format`."),
    WEFT_METHOD("detach", method_detach, "The same memory outside the graph."),
    WEFT_METHOD("detach_", method_detach_, "Takes the tensor itself out of the graph."),
    WEFT_METHOD("retain_grad", method_retain_grad, "Keeps .grad although it is no leaf."),
    {"_storage_info", method_storage_info, METH_NOARGS, nullptr},
    WEFT_METHOD(
        "_is_view", method_is_view,
        "Whether it is a view of `_base`. Views under no_grad of what wants no gradient know "
        "of none."),
    {"_make_subclass", make_subclass, METH_VARARGS | METH_STATIC, nullptr},
    {"_moved_to", moved_to, METH_O, nullptr},
    {"as_subclass", as_subclass, METH_O,
     "The same values, in the same memory and graph, as an instance of a subclass of Tensor."},
    {}};

PyNumberMethods number_slots;
PyMappingMethods mapping_slots;
PySequenceMethods sequence_slots;

/// _extend(name, object): a method or property of Tensor written in Python (weft/base/forms.py).
PyObject* extend(PyObject*, PyObject* args) {
    const char* name;
    PyObject* object;
    if (!PyArg_ParseTuple(args, "sO", &name, &object)) return nullptr;
    return guarded([&] {
        Object made = Object::take(overridable_member(object));
        checked(PyDict_SetItemString(tensor_type.tp_dict, name, made.get()));
        PyType_Modified(&tensor_type);
        return Py_NewRef(Py_None);
    });
}

/// All but `__dict__`; methods in C ask by themselves.
void make_properties_overridable() {
    for (const PyGetSetDef& p : std::span(properties, std::size(properties) - 2)) {
        Object made =
            Object::take(overridable_member(PyDict_GetItemString(tensor_type.tp_dict, p.name)));
        checked(PyDict_SetItemString(tensor_type.tp_dict, p.name, made.get()));
    }
    PyType_Modified(&tensor_type);
}

PyMethodDef module_functions[] = {{"_contents", py_contents, METH_VARARGS, nullptr},
                                  {"_extend", extend, METH_VARARGS, nullptr},
                                  {}};

}  // namespace

PyObject* wrap(Tensor t) {
    if (!t.defined()) Py_RETURN_NONE;
    TensorImpl* impl = t.impl();
    if (impl->wrapper) {
        PyObject* o = as_object(static_cast<PyTensor*>(impl->wrapper));
        if (!(impl->flags & kOwnsWrapper)) return Py_NewRef(o);
        impl->flags &= static_cast<uint16_t>(~kOwnsWrapper);
        ++impl->refs;
        return o;
    }
    PyTensor* w = new_wrapper();
    w->impl = t.detach_impl();
    w->impl->wrapper = w;
    return as_object(w);
}

void track_cycles(PyObject* tensor) {
    if (!PyObject_GC_IsTracked(tensor)) PyObject_GC_Track(tensor);
}

Tensor expect_tensor(PyObject* o, const char* who) {
    WEFT_EXPECT(is_tensor(o), Type, who, "a Tensor", Py_TYPE(o)->tp_name);
    return unwrap(o);
}

int check_dim(const char* who, int64_t dim, const Tensor& t) {
    return wrap_dim(who, dim, t.ndim());
}

void init_tensor_type(PyObject* module) {
    release_wrapper = drop_wrapper;
    set_number_slots(number_slots);
    mapping_slots = {tensor_length, tensor_subscript, tensor_assign};
    PyTypeObject& t = tensor_type;
    t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
    t.tp_new = tensor_new;
    t.tp_dealloc = tensor_dealloc;
    t.tp_traverse = tensor_traverse;
    t.tp_clear = tensor_clear;
    t.tp_setattro = tensor_setattro;
    t.tp_dictoffset = offsetof(PyTensor, dict);
    t.tp_weaklistoffset = offsetof(PyTensor, weakrefs);
    t.tp_repr = tensor_repr;
    t.tp_richcompare = tensor_compare;
    t.tp_hash = tensor_hash;
    t.tp_as_number = &number_slots;
    t.tp_as_mapping = &mapping_slots;
    sequence_slots.sq_contains = tensor_contains;
    t.tp_as_sequence = &sequence_slots;
    t.tp_iter = tensor_iter;
    t.tp_methods = methods;
    t.tp_getset = properties;
    t.tp_doc = "An n-dimensional array of one dtype, with its place in the graph.";
    add_type(module, t, "torch.Tensor", sizeof(PyTensor));
    make_properties_overridable();
    // programs give Tensor methods of their own, as PyTorch's lets them
    t.tp_flags &= ~Py_TPFLAGS_IMMUTABLETYPE;
    checked(PyModule_AddFunctions(module, module_functions));
}

}  // namespace weft::python
