/// Tensors laid over memory that is there: what files, shared memory and pickles are read into.
#include <cstring>
#include <limits>

#include "python/object.h"

namespace weft::python {
namespace {

constexpr const char* kWho = "_over";

/// The bytes of a contiguous buffer of any format, kept as long as the storage.
Ref<Storage> storage_over(PyObject* exporter) {
    auto view = std::make_unique<Py_buffer>();
    if (PyObject_GetBuffer(exporter, view.get(), PyBUF_WRITABLE) != 0) {
        PyErr_Clear();
        if (PyObject_GetBuffer(exporter, view.get(), PyBUF_SIMPLE) != 0) throw PythonError{};
    }
    bool read_only = view->readonly;
    auto* bytes = static_cast<char*>(view->buf);
    int64_t size = view->len;
    Ref<Storage> storage = borrow_storage(bytes, size, release_buffer, view.release());
    storage->read_only = read_only;
    return storage;
}

/// Checks sizes, strides and offset against the bytes there are; returns the number of elements.
void expect_inside(int64_t bytes, int64_t offset, DType dtype, DimSpan shape, DimSpan strides) {
    WEFT_EXPECT(shape.size() == strides.size() && shape.size() <= kMaxDims, Value, kWho,
                "a stride for each of at most 64 sizes",
                text(shape.size(), " sizes and ", strides.size(), " strides"));
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    int64_t last = 0, count = 1;
    bool empty = false, overflow = false;
    for (size_t d = 0; d < shape.size(); ++d) {
        WEFT_EXPECT(shape[d] >= 0 && strides[d] >= 0, Value, kWho,
                    "sizes and strides of at least 0",
                    text("size ", shape[d], " and stride ", strides[d], " at dimension ", d));
        empty |= shape[d] == 0;
        int64_t step = 0;
        overflow |= shape[d] && __builtin_mul_overflow(count, shape[d], &count);
        overflow |= shape[d] && (__builtin_mul_overflow(shape[d] - 1, strides[d], &step) ||
                                 __builtin_add_overflow(last, step, &last));
    }
    int64_t size = item_size(dtype);
    overflow |= count > kMost / size || last > kMost / size - 1;
    int64_t needed = empty ? 0 : overflow ? kMost : (last + 1) * size;
    WEFT_EXPECT(!overflow && offset >= 0 && offset <= bytes && needed <= bytes - offset, Value,
                kWho, text("a layout inside ", bytes, " bytes"),
                text("shape ", to_string(shape), ", strides ", to_string(strides), " of ",
                     name(dtype), " from byte ", offset));
}

/// _over(source, dtype, byte_offset, shape, strides): a tensor over the memory of another tensor's
/// whole storage, or of a buffer; ValueError unless the layout lies inside it, at an address that
/// is a multiple of the element's size.
PyObject* storage_over_buffer(PyObject*, PyObject* args) {
    PyObject *source, *dtype, *sizes, *steps;
    long long offset;
    if (!PyArg_ParseTuple(args, "OOLOO", &source, &dtype, &offset, &sizes, &steps)) return nullptr;
    return guarded([&] {
        DType type;
        WEFT_EXPECT(to_dtype(dtype, type), Type, kWho, "a dtype", Py_TYPE(dtype)->tp_name);
        Dims shape, strides;
        WEFT_EXPECT(to_dims(sizes, shape) && to_dims(steps, strides), Type, kWho, "tuples of ints",
                    Py_TYPE(sizes)->tp_name);
        Ref<Storage> storage = is_tensor(source) ? unwrap(source).storage() : storage_over(source);
        expect_inside(storage->bytes, offset, type, shape, strides);
        char* at = storage->data + offset;
        auto alignment = std::min<uintptr_t>(item_size(type), alignof(double));
        WEFT_EXPECT(reinterpret_cast<uintptr_t>(at) % alignment == 0, Value, kWho,
                    text("memory aligned to ", alignment, " bytes"), text("byte offset ", offset));
        return wrap(Tensor::from_storage(std::move(storage), at, type, shape, strides));
    });
}

/// Another, larger storage for the only tensor over its own, with what that holds.
void move_to_larger(const Tensor& t, int64_t bytes) {
    Storage& old = *t.storage();
    Tensor larger = t.has(kMeta) ? Tensor::layout(DType::UInt8, Dims{bytes})
                                 : Tensor::empty(DType::UInt8, Dims{bytes});
    if (t.has(kMeta)) larger.allocate_meta();
    else std::memcpy(larger.bytes(), old.data, static_cast<size_t>(old.bytes));
    t.share(larger, t.bytes() - old.data);
}

/// _resize_storage(tensor, bytes): sets the size of the tensor's whole storage.
PyObject* resize_storage(PyObject*, PyObject* args) {
    PyObject* o;
    long long bytes;
    if (!PyArg_ParseTuple(args, "OL", &o, &bytes)) return nullptr;
    return guarded([&] {
        constexpr const char* who = "resize_";
        const Tensor t = unwrap(o);
        WEFT_EXPECT(bytes >= 0, Runtime, who, "at least 0 bytes", text(bytes));
        WEFT_EXPECT(is_resizable(*t.storage()), Runtime, who, "memory of weft's own",
                    "a storage over that of another library (Trying to resize storage that is not "
                    "resizable)");
        if (!resize(*t.storage(), bytes)) {
            WEFT_EXPECT(t.storage()->refs == 1, Runtime, who,
                        "a size that its memory had before, as several tensors lie there",
                        text(bytes, " bytes"), "clone the tensors into a storage of that size");
            move_to_larger(t, bytes);
        }
        return Py_NewRef(Py_None);
    });
}

PyObject* storage_is_resizable(PyObject*, PyObject* o) {
    return guarded([&] { return PyBool_FromLong(is_resizable(*unwrap(o).storage())); });
}

PyMethodDef storage_functions[] = {
    {"_over", storage_over_buffer, METH_VARARGS, "A tensor over memory that is there."},
    {"_resize_storage", resize_storage, METH_VARARGS, "Sets the size of a tensor's storage."},
    {"_is_resizable", storage_is_resizable, METH_O, "Whether the size of its storage may change."},
    {}};

}  // namespace

void init_storage(PyObject* module) { checked(PyModule_AddFunctions(module, storage_functions)); }

}  // namespace weft::python
