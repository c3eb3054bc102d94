/// DLPack: tensors to and from other array libraries without copying.
///
/// The structures are those of the DLPack 1.0 ABI (https://dmlc.github.io/dlpack/latest/c_api.html).
/// Both capsules are spoken: "dltensor", and "dltensor_versioned", which knows of read-only memory.
#include "tensor/dlpack.h"
#include "python/object.h"

namespace weft::python {
namespace {

constexpr int32_t kCpu = 1;
constexpr uint64_t kReadOnly = 1;
constexpr const char* kPlain = "dltensor";
constexpr const char* kVersioned = "dltensor_versioned";

struct DLTensor {
    void* data;
    int32_t device_type, device_id;
    int32_t ndim;
    DlpackType dtype;
    int64_t* shape;
    int64_t* strides;
    uint64_t byte_offset;
};
struct Managed {
    DLTensor tensor;
    void* owner;
    void (*deleter)(Managed*);
};
struct ManagedVersioned {
    uint32_t major, minor;
    void* owner;
    void (*deleter)(ManagedVersioned*);
    uint64_t flags;
    DLTensor tensor;
};

/// A tensor lent out: its storage lives until the consumer calls the deleter.
template <class M>
struct LentManaged {
    M managed{};
    Ref<Storage> storage;
    Dims dims;
};

template <class M>
M* lend(const Tensor& t) {
    auto* lent = new LentManaged<M>;
    lent->storage = t.storage();
    for (int64_t s : t.shape()) lent->dims.push_back(s);
    for (int64_t s : t.strides()) lent->dims.push_back(s);
    M& m = lent->managed;
    m.tensor = {t.bytes(),
                kCpu,
                0,
                t.ndim(),
                dlpack_type(t.dtype()),
                lent->dims.data(),
                lent->dims.data() + t.ndim(),
                0};
    m.owner = lent;
    m.deleter = [](M* self) {
        Lock lock;
        delete static_cast<LentManaged<M>*>(self->owner);
    };
    return &m;
}

/// A capsule that nobody consumed gives its tensor back.
template <class M>
void drop_capsule(PyObject* capsule) {
    const char* name = std::is_same_v<M, Managed> ? kPlain : kVersioned;
    if (!PyCapsule_IsValid(capsule, name)) return;
    auto* m = static_cast<M*>(PyCapsule_GetPointer(capsule, name));
    if (m->deleter) m->deleter(m);
}

bool wants_versioned(PyObject* version) {
    if (version == Py_None) return false;
    WEFT_EXPECT(PyTuple_Check(version) && PyTuple_GET_SIZE(version) == 2, Type, "__dlpack__",
                "max_version (major, minor)", Py_TYPE(version)->tp_name);
    return to_int(PyTuple_GET_ITEM(version, 0), "__dlpack__") >= 1;
}

/// _to_dlpack(tensor, max_version or None): a capsule over the tensor's memory.
PyObject* to_dlpack(PyObject*, PyObject* args) {
    PyObject *o, *version;
    if (!PyArg_ParseTuple(args, "OO", &o, &version)) return nullptr;
    return guarded([&]() -> PyObject* {
        Tensor t = expect_tensor(o, "__dlpack__");
        bool read_only = t.storage()->read_only;
        if (wants_versioned(version)) {
            auto* m = lend<ManagedVersioned>(t);
            m->major = 1;
            m->flags = read_only ? kReadOnly : 0;
            return checked(PyCapsule_New(m, kVersioned, drop_capsule<ManagedVersioned>));
        }
        if (read_only) {
            PyErr_SetString(PyExc_BufferError,
                            "[__dlpack__] expected a consumer that knows of read-only memory "
                            "(max_version of at least (1, 0)), got one that does not");
            throw PythonError{};
        }
        return checked(PyCapsule_New(lend<Managed>(t), kPlain, drop_capsule<Managed>));
    });
}

template <class M>
void give_back(void* owner) {
    Lock lock;
    auto* m = static_cast<M*>(owner);
    if (m->deleter) m->deleter(m);
}

template <class M>
Tensor take(PyObject* capsule, const char* name, const char* used) {
    auto* m = static_cast<M*>(checked(PyCapsule_GetPointer(capsule, name)));
    const DLTensor& d = m->tensor;
    WEFT_EXPECT(d.device_type == kCpu, Runtime, "from_dlpack", "memory of the CPU",
                text("DLPack device type ", d.device_type));
    const DlpackLayout layout("from_dlpack", d.dtype, d.ndim, d.shape, d.strides);
    char* data = static_cast<char*>(d.data) + d.byte_offset;
    Ref<Storage> storage = borrow_storage(data, layout.bytes, give_back<M>, m);
    if constexpr (std::is_same_v<M, ManagedVersioned>) storage->read_only = m->flags & kReadOnly;
    PyCapsule_SetName(capsule, used);
    PyCapsule_SetDestructor(capsule, nullptr);
    return Tensor::from_storage(std::move(storage), data, layout.dtype, layout.shape,
                                layout.strides);
}

/// _from_dlpack(capsule): a tensor over its memory; the capsule is used up.
PyObject* from_dlpack(PyObject*, PyObject* capsule) {
    return guarded([&]() -> PyObject* {
        WEFT_EXPECT(PyCapsule_CheckExact(capsule), Runtime, "from_dlpack", "a DLPack capsule",
                    Py_TYPE(capsule)->tp_name);
        if (PyCapsule_IsValid(capsule, kVersioned))
            return wrap(take<ManagedVersioned>(capsule, kVersioned, "used_dltensor_versioned"));
        const char* name = PyCapsule_GetName(capsule);
        WEFT_EXPECT(PyCapsule_IsValid(capsule, kPlain), Runtime, "from_dlpack",
                    "a capsule named 'dltensor'", text("'", name ? name : "", "'"),
                    "a capsule can be consumed once only");
        return wrap(take<Managed>(capsule, kPlain, "used_dltensor"));
    });
}

PyMethodDef dlpack_functions[] = {{"_to_dlpack", to_dlpack, METH_VARARGS, nullptr},
                                  {"_from_dlpack", from_dlpack, METH_O, nullptr},
                                  {}};

}  // namespace

void init_dlpack(PyObject* module) { checked(PyModule_AddFunctions(module, dlpack_functions)); }

}  // namespace weft::python
