/// The Tensor type: life of the wrapper, containers, printing. Properties are in
/// tensor_properties.cpp, plain methods in tensor_methods.cpp, number slots in numbers.cpp, what the
/// collector sees in cycles.cpp, methods that are ops in the table (call.cpp), those that are plain
/// Python in weft/composites/.
#include "ops/element.h"
#include "ops/pointwise.h"
#include "python/dispatch.h"
#include "python/overrides.h"
#include "python/program_trace.h"
#include "python/slots.h"
#include "python/summary.h"
#include "python/tensor_members.h"
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
        Py_SET_REFCNT(as_object(t), 1);  // its type is still there
        return t;
    }
#endif
    PyTensor* t = PyObject_GC_New(PyTensor, &tensor_type);
    checked(as_object(t));
    t->dict = t->weakrefs = nullptr;
    return t;
}

/// Whether a subclass has `__slots__`.
bool has_slots(PyObject* self) { return Py_TYPE(self)->tp_basicsize != tensor_type.tp_basicsize; }

/// Slots are cleared before tensor_dealloc is come to, or by the collector, which does not see the core's references. So
/// the core takes the wrapper over here, which both call before.
void tensor_finalize(PyObject* self) {
    TensorImpl* impl = as_wrapper(self)->impl;
    if (!has_slots(self) || !impl || impl->refs <= 1 || impl->flags & kOwnsWrapper) return;
    Py_INCREF(self);
    impl->flags |= kOwnsWrapper;
    --impl->refs;
}
/// PyObject_GC_IsTracked without a call: the first word before an object links it to others.
bool is_tracked(PyObject* self) { return reinterpret_cast<uintptr_t*>(self)[-2] != 0; }
/// CPython calls a finalizer once; an object that Python sees again may be taken over again. The mark is the lowest
/// bit of the second word before it.
void may_finalize_again(PyObject* self) { reinterpret_cast<uintptr_t*>(self)[-1] &= ~uintptr_t{1}; }

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
    if (is_tracked(self)) PyObject_GC_UnTrack(self);
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
            t = Tensor::empty(ops::default_dtype, Dims{0});
        } else if (data && is_tensor(data)) {
            t = detach(unwrap(data));
        } else if (data && !PyLong_Check(data) &&
                   Py_TYPE(data)->tp_name != std::string_view("torch.Size")) {
            DType f = ops::default_dtype;
            t = tensor_from(data, &f);
        } else if (to_dims(n == 1 ? data : args, sizes)) {
            t = Tensor::empty(ops::default_dtype, sizes);
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

/// The `id` of the object, as PyTorch has it.
Py_hash_t tensor_hash(PyObject* self) {
    if (mode & kTraceMode) [[unlikely]]
        TraceHost::hashed(self);
    const auto id = static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(self));
    return id == -1 ? -2 : id;
}

PyNumberMethods number_slots;
PyMappingMethods mapping_slots;
PySequenceMethods sequence_slots;

/// _extend(name, object): a method or property of Tensor written in Python (weft/base/forms.py).
PyObject* extend_tensors(PyObject*, PyObject* args) {
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
    for (const PyGetSetDef* p = tensor_properties; p->name; ++p) {
        if (p->get == PyObject_GenericGetDict) continue;
        Object made =
            Object::take(overridable_member(PyDict_GetItemString(tensor_type.tp_dict, p->name)));
        checked(PyDict_SetItemString(tensor_type.tp_dict, p->name, made.get()));
    }
    PyType_Modified(&tensor_type);
}

/// Python clears what lies in `__slots__` before a wrapper can turn to be the core's.
void open_slots(PyTypeObject* cls) {
    static PyObject* open = import_attr("weft.base.subclasses", "open_slots").release();
    Object::borrow(open).call(Object::borrow(reinterpret_cast<PyObject*>(cls)));
}

PyMethodDef tensor_functions[] = {{"_contents", py_contents, METH_VARARGS, nullptr},
                                  {"_extend", extend_tensors, METH_VARARGS, nullptr},
                                  {}};

}  // namespace

PyObject* instance(PyTypeObject* cls, Tensor t) {
    if (cls == &tensor_type) return wrap(std::move(t));
    Overrides::note_class(cls);
    if (cls->tp_basicsize > tensor_type.tp_basicsize) [[unlikely]]
        open_slots(cls);
    auto* self = as_wrapper(checked(cls->tp_alloc(cls, 0)));
    t.set(kDispatching, class_dispatches(cls));
    self->impl = t.detach_impl();
    self->impl->wrapper = self;
    return as_object(self);
}

PyObject* instance_of(PyTypeObject* cls, const Tensor& t) {
    PyObject* o = instance(cls, t.plain_alias());
    const Tensor& made = handle(o);
    made.set(kOnCpu, made.has(kDispatching) && t.has(kOnCpu));
    return o;
}

PyObject* wrap(Tensor t) {
    if (!t.defined()) Py_RETURN_NONE;
    TensorImpl* impl = t.impl();
    if (impl->wrapper) {
        PyObject* o = as_object(static_cast<PyTensor*>(impl->wrapper));
        if (!(impl->flags & kOwnsWrapper)) return Py_NewRef(o);
        impl->flags &= static_cast<uint16_t>(~kOwnsWrapper);
        if (has_slots(o)) may_finalize_again(o);
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
    t.tp_finalize = tensor_finalize;
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
    t.tp_methods = tensor_methods;
    t.tp_getset = tensor_properties;
    t.tp_doc = "An n-dimensional array of one dtype, with its place in the graph.\n"
               "\n"
               ">>> t = weft.tensor([[1.0, 2.0]])\n"
               ">>> t.shape, t.dtype, t.requires_grad\n"
               "(torch.Size([1, 2]), torch.float32, False)";
    add_type(module, t, "torch.Tensor", sizeof(PyTensor));
    make_properties_overridable();
    // programs give Tensor methods of their own, as PyTorch's lets them
    t.tp_flags &= ~Py_TPFLAGS_IMMUTABLETYPE;
    checked(PyModule_AddFunctions(module, tensor_functions));
}

}  // namespace weft::python
