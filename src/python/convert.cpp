/// Numbers, nested sequences and foreign arrays, to tensors and back.
#include <cstring>
#include <optional>

#include "kernels/convert.h"
#include "ops/copy.h"
#include "ops/pointwise.h"
#include "python/type.h"

namespace weft::python {

bool is_number(PyObject* o) {
    if (PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o)) return true;
    if (is_tensor(o) || PyUnicode_Check(o) || PySequence_Check(o)) return false;
    PyNumberMethods* n = Py_TYPE(o)->tp_as_number;  // NumPy's scalars
    return n && (n->nb_index || n->nb_float);
}

int64_t to_int(PyObject* o, const char* who) {
    Object index = Object::take(PyNumber_Index(o));
    int overflow = 0;
    long long v = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
    if (overflow) fail(ErrorKind::Value, who, "an integer of 64 bits", "one that overflows them");
    if (v == -1 && PyErr_Occurred()) throw PythonError{};
    return v;
}

double to_double(PyObject* o, const char*) {
    double v = PyFloat_AsDouble(o);
    if (v == -1 && PyErr_Occurred()) throw PythonError{};
    return v;
}

/// A Python int as uint64.
static uint64_t to_uint64(PyObject* o) {
    if (!PyIndex_Check(o)) fail(ErrorKind::Type, "number", "an integer", Py_TYPE(o)->tp_name);
    Object index = Object::take(PyNumber_Index(o));
    unsigned long long v = PyLong_AsUnsignedLongLong(index.get());
    if (v == ~0ull && PyErr_Occurred()) {
        PyErr_Clear();
        fail(ErrorKind::Overflow, "number", "an int of 64 bits without a sign", "one beyond them");
    }
    return v;
}

Tensor number_tensor(PyObject* o, const Tensor* like) {
    if (PyBool_Check(o)) return Tensor::scalar(o == Py_True, DType::Bool, true);
    if (PyComplex_Check(o)) {
        Py_complex v = PyComplex_AsCComplex(o);
        return Tensor::scalar(std::complex<double>(v.real, v.imag), DType::Complex128, true);
    }
    bool floating_like = like && is_floating(like->dtype());
    bool integer = PyLong_Check(o) || (!PyFloat_Check(o) && PyIndex_Check(o));
    if (integer && !floating_like) {
        int overflow = 0;
        PyLong_Check(o) && PyLong_AsLongLongAndOverflow(o, &overflow);
        if (overflow > 0 && like && like->dtype() == DType::UInt64)
            return Tensor::scalar(static_cast<int64_t>(to_uint64(o)), DType::Int64, true);
        if (overflow)
            fail(ErrorKind::Overflow, "number", "an int of 64 bits", "one that overflows them");
        return Tensor::scalar(to_int(o, "number"), DType::Int64, true);
    }
    return Tensor::scalar(to_double(o, "number"),
                          floating_like ? widened(like->dtype()) : DType::Float64, true);
}

PyObject* element_as_int(const Tensor& t) {
    const int64_t v = t.item_int();
    if (t.dtype() == DType::UInt64) return PyLong_FromUnsignedLongLong(static_cast<uint64_t>(v));
    return PyLong_FromLongLong(v);
}

bool to_dims(PyObject* o, Dims& out) {
    out.clear();
    if (PyLong_Check(o) && !PyBool_Check(o)) {
        out.push_back(to_int(o, "sizes"));
        return true;
    }
    if (PyTuple_Check(o) || PyList_Check(o)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
            Object item = Object::borrow(PySequence_Fast_GET_ITEM(o, i));  // see read_values
            if (PyBool_Check(item.get()) ||
                (!PyLong_Check(item.get()) && !PyIndex_Check(item.get())))
                return false;
            out.push_back(to_int(item.get(), "sizes"));
        }
        return true;
    }
    if (!is_tensor(o) && !PyBool_Check(o) && PyIndex_Check(o)) {
        out.push_back(to_int(o, "sizes"));
        return true;
    }
    return false;
}

namespace {

bool is_array(PyObject* o) {
    return !PyList_CheckExact(o) && !PyTuple_CheckExact(o) && !PyBytes_Check(o) && !is_tensor(o) &&
           (PyObject_CheckBuffer(o) || PyObject_HasAttrString(o, "__array_interface__"));
}
bool is_sequence(PyObject* o) {
    return PyList_Check(o) || PyTuple_Check(o) ||
           (PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !is_tensor(o) &&
            !PyDict_Check(o));
}

/// Sizes of nested sequences, from the first element of each level. Within a sequence a tensor of
/// one element is a number, as in PyTorch; of more, which PyTorch refuses, it is a sequence.
void find_shape(PyObject* data, Dims& shape) {
    if (is_tensor(data)) {
        const Tensor t = unwrap(data);
        if (!shape.empty() && t.numel() == 1) return;
        for (int64_t s : t.shape()) shape.push_back(s);
        return;
    }
    if (is_number(data) || !is_sequence(data)) return;
    Py_ssize_t n = checked(PySequence_Size(data));
    shape.push_back(n);
    WEFT_EXPECT(shape.size() <= kMaxDims, Value, "tensor", "at most 64 nested sequences", "more");
    if (n == 0) return;
    Object first = Object::take(PySequence_GetItem(data, 0));
    find_shape(first.get(), shape);
}

bool is_numpy_bool(PyObject* o) { return !std::strncmp(Py_TYPE(o)->tp_name, "numpy.bool", 10); }

/// A dtype by the letters of the buffer protocol, whose integers have platform sizes.
bool dtype_of_format(const char* format, Py_ssize_t size, DType& out) {
    if (!format) format = "B";
    if (*format == '<' || *format == '=' || *format == '@') ++format;
    std::string_view letters = format;
    if (letters == "l") letters = size == 4 ? "i" : "q";
    if (letters == "L") letters = size == 4 ? "I" : "Q";
    for (DType t : kDTypes)
        if (!letters.empty() && letters == info(t).letter && size == item_size(t)) {
            out = t;
            return true;
        }
    return false;
}

/// A scalar of NumPy brings its own dtype, if it is one of ours.
bool dtype_of_scalar(PyObject* o, DType& out) {
    if (!PyObject_CheckBuffer(o)) return false;
    Py_buffer view;
    if (PyObject_GetBuffer(o, &view, PyBUF_FULL_RO) != 0) {
        PyErr_Clear();
        return false;
    }
    bool known = dtype_of_format(view.format, view.itemsize, out);
    PyBuffer_Release(&view);
    return known;
}

/// Numbers in Python: their dtype where nothing else has a say.
DType dtype_of_number(PyObject* o) {
    if (PyBool_Check(o)) return DType::Bool;
    if (PyComplex_Check(o)) return complex_dtype(ops::default_dtype);
    if (PyFloat_Check(o)) return ops::default_dtype;
    return PyIndex_Check(o) ? DType::Int64 : ops::default_dtype;
}

/// The dtype that holds all elements. Tensors, arrays and scalars of NumPy bring theirs. `depth`:
/// sequences around; `first`: it is the first element of each of them.
void find_dtype(PyObject* data, std::optional<DType>& found, int depth = 0, bool first = true) {
    auto add = [&](DType t) { found = found ? promote(*found, t) : t; };
    DType own;
    if (PyFloat_CheckExact(data) || PyLong_CheckExact(data) || PyBool_Check(data)) {
        add(dtype_of_number(data));
    } else if (is_tensor(data)) {
        add(unwrap(data).dtype());
    } else if (is_number(data) || is_numpy_bool(data)) {
        if (dtype_of_scalar(data, own)) add(own);
        else add(is_numpy_bool(data) ? DType::Bool : dtype_of_number(data));
    } else if (is_array(data) && dtype_of_scalar(data, own)) {
        add(own);
    } else if (is_sequence(data)) {
        WEFT_EXPECT(depth < kMaxDims, Type, "tensor", "at most 64 nested sequences",
                    "more (self-referential lists are incompatible)");
        Object fast = Object::take(PySequence_Fast(data, "a sequence"));
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i)
            find_dtype(Object::borrow(PySequence_Fast_GET_ITEM(fast.get(), i)).get(), found,
                       depth + 1, first && i == 0);
    } else {
        const bool letters = PyUnicode_Check(data);  // a sequence too, where the sizes are found
        fail(letters && depth && first        ? ErrorKind::Value
             : letters || PyBytes_Check(data) ? ErrorKind::Type
                                              : ErrorKind::Runtime,
             "tensor", "numbers, sequences of numbers, arrays or tensors",
             letters ? "str (new(): invalid data type 'str')"
                     : text(Py_TYPE(data)->tp_name, " (Could not infer dtype of ",
                            Py_TYPE(data)->tp_name, ")"));
    }
}

/// A Python number as an element of an integer dtype; throws as PyTorch's for one that overflows.
template <class T>
T checked_integer(int64_t v) {
    if constexpr (sizeof(T) < sizeof(int64_t)) {
        bool wraps = std::is_unsigned_v<T> && v < 0 && v >= -int64_t{std::numeric_limits<T>::max()};
        WEFT_EXPECT(wraps ||
                        (v >= std::numeric_limits<T>::min() && v <= std::numeric_limits<T>::max()),
                    Runtime, "tensor", text("a number that fits ", name(dtype_of<T>)),
                    text(v, " (value cannot be converted to type ", name(dtype_of<T>),
                         " without overflow)"));
    }
    return static_cast<T>(v);
}

template <class T>
T read_real(PyObject* o) {
    if (is_tensor(o)) {
        Tensor t = reading(o);
        WEFT_EXPECT(t.numel() == 1, Value, "tensor", "tensors of one element among numbers",
                    text("one of shape ", to_string(t.shape())));
        if constexpr (std::is_floating_point_v<T>) return static_cast<T>(t.item_double());
        else return static_cast<T>(t.item_int());
    }
    if constexpr (std::is_same_v<T, bool>) {
        return checked(PyObject_IsTrue(o)) != 0;
    } else if constexpr (std::is_floating_point_v<T>) {
        return static_cast<T>(to_double(o, "tensor"));
    } else if constexpr (std::is_same_v<T, uint64_t>) {
        return to_uint64(o);
    } else {
        if (PyFloat_Check(o)) {
            double v = PyFloat_AS_DOUBLE(o);
            WEFT_EXPECT(v >= -9.3e18 && v <= 9.2e18, Runtime, "tensor", "a number that fits int64",
                        std::to_string(v));
            if (std::is_unsigned_v<T> && v < 0)  // -1.5 does not wrap, as -1 does
                return checked_integer<T>(v <= -1 ? std::numeric_limits<int64_t>::min() : 0);
            return checked_integer<T>(static_cast<int64_t>(v));
        }
        return checked_integer<T>(to_int(o, "tensor"));
    }
}

template <class T>
T read_number(PyObject* o) {
    if constexpr (kernels::is_complex_v<T>) {
        using Part = typename T::value_type;
        if (is_tensor(o)) return kernels::convert<T>(reading(o).item_complex());
        Py_complex v = PyComplex_AsCComplex(o);
        if (v.real == -1 && PyErr_Occurred()) throw PythonError{};
        return {kernels::convert<Part>(v.real), kernels::convert<Part>(v.imag)};
    } else if constexpr (kernels::is_half<T> || kernels::is_float8<T>) {
        return kernels::convert<T>(read_number<double>(o));
    } else {
        return read_real<T>(o);
    }
}

/// What an item's __index__ or __float__ does may shrink the list that holds it.
template <class T>
void read_values(PyObject* data, DimSpan shape, size_t d, T*& at) {
    if (d == shape.size()) {
        if (!is_tensor(data) && !is_number(data))
            fail(ErrorKind::Type, "tensor", text("a number at depth ", d), Py_TYPE(data)->tp_name,
                 "nested sequences must have equal lengths");
        *at++ = read_number<T>(data);
        return;
    }
    if (is_tensor(data)) {
        Tensor t = reading(data);
        WEFT_EXPECT(equal(t.shape(), shape.subspan(d)), Value, "tensor",
                    text("an element of shape ", to_string(shape.subspan(d))),
                    text(to_string(t.shape()),
                         " (only one element tensors can be converted to Python scalars)"));
        Tensor to = Tensor::empty(dtype_of<T>, t.shape());
        ops::copy_into(to, t);
        std::memcpy(at, to.bytes(), to.numel() * sizeof(T));
        at += to.numel();
        return;
    }
    Object fast = is_number(data) || !is_sequence(data)
                      ? Object()
                      : Object::take(PySequence_Fast(data, "a sequence"));
    int64_t n = fast ? PySequence_Fast_GET_SIZE(fast.get()) : -1;
    if (n != shape[d]) {
        if (n < 0 && (n = PyObject_Size(data)) < 0) PyErr_Clear();  // a dict or str has a length
        fail(n < 0 || n == shape[d] ? ErrorKind::Type : ErrorKind::Value, "tensor",
             "sequences of one length",
             n < 0 || n == shape[d] ? std::string(Py_TYPE(data)->tp_name)
                                    : text("others (expected sequence of length ", shape[d],
                                           " at dim ", d, " (got ", n, "))"),
             "ragged lists are not tensors: pad them, or keep a list of tensors");
    }
    for (int64_t i = 0; i < n; ++i) {
        WEFT_EXPECT(i < PySequence_Fast_GET_SIZE(fast.get()), Value, "tensor",
                    "a sequence that keeps its length", "one that lost items while it was read");
        read_values(Object::borrow(PySequence_Fast_GET_ITEM(fast.get(), i)).get(), shape, d + 1,
                    at);
    }
}

/// The class of an array's elements, as NumPy names it; that of `data` itself where it has no such.
std::string kind_of_elements(PyObject* data) {
    Object kind = Object::steal(PyObject_GetAttrString(data, "dtype"));
    if (kind) kind = Object::steal(PyObject_GetAttrString(kind.get(), "type"));
    PyErr_Clear();
    const bool is_class = kind && PyType_Check(kind.get());
    const auto* of = is_class ? reinterpret_cast<PyTypeObject*>(kind.get()) : Py_TYPE(data);
    return of->tp_name;
}

/// Raises for a NumPy array whose numbers have the bytes of another machine's order.
void refuse_foreign_order(PyObject* data, const char* who) {
    Object kind = Object::steal(PyObject_GetAttrString(data, "dtype"));
    Object native = kind ? Object::steal(PyObject_GetAttrString(kind.get(), "isnative")) : Object();
    PyErr_Clear();
    WEFT_EXPECT(!native || native.get() != Py_False, Value, who,
                "an array of the machine's order of bytes",
                "one of the other (given numpy array has byte order different from the native byte "
                "order. Conversion between byte orders is currently not supported.)",
                "convert it with astype(a.dtype.newbyteorder('=')) first");
}

/// Some exporters have no format for their elements: NumPy for those of dates.
[[noreturn]] void fail_without_dtype(PyObject* data, const char* who) {
    PyErr_Clear();
    refuse_foreign_order(data, who);
    const std::string kind = kind_of_elements(data);
    fail(ErrorKind::Type, who, "an array of a dtype that weft has",
         text("one of ", kind, " (can't convert np.ndarray of type ", kind,
              ". The only supported types are: float64, float32, float16, complex64, complex128, "
              "int64, "
              "int32, int16, int8, uint64, uint32, uint16, uint8, and bool.)"),
         "convert it with astype() first");
}

}  // namespace

Tensor tensor_sharing(PyObject* data, const char* who) {
    auto view = std::make_unique<Py_buffer>();
    if (PyObject_GetBuffer(data, view.get(), PyBUF_FULL) != 0) {
        PyErr_Clear();
        if (PyObject_GetBuffer(data, view.get(), PyBUF_FULL_RO) != 0) {
            if (PyErr_ExceptionMatches(PyExc_ValueError)) fail_without_dtype(data, who);
            throw PythonError{};
        }
    }
    struct Guard {
        Py_buffer* v;
        ~Guard() {
            if (v) PyBuffer_Release(v);
        }
    } guard{view.get()};
    DType dtype;
    if (!dtype_of_format(view->format, view->itemsize, dtype)) fail_without_dtype(data, who);
    Dims shape(view->ndim), strides(view->ndim);
    for (int d = 0; d < view->ndim; ++d) {
        shape[d] = view->shape[d];
        WEFT_EXPECT(view->strides[d] >= 0, Value, who, "strides of at least 0",
                    text(view->strides[d], " bytes at dimension ", d), "copy the array first");
        WEFT_EXPECT(view->strides[d] % view->itemsize == 0 || shape[d] <= 1, Value, who,
                    text("strides that are multiples of ", view->itemsize),
                    std::to_string(view->strides[d]));
        strides[d] = view->strides[d] / view->itemsize;
    }
    auto* bytes = static_cast<char*>(view->buf);
    Ref<Storage> storage = borrow_storage(bytes, view->len, release_buffer, view.get());
    storage->read_only = view->readonly;
    guard.v = nullptr;
    view.release();
    return Tensor::from_storage(std::move(storage), bytes, dtype, shape, strides);
}

namespace {

/// Reads `items` with `convert`, which tells whether one is what it takes; undefined if one is not.
template <class T, class Convert>
Tensor read_plain(DType dtype, std::span<PyObject*> items, const Convert& convert) {
    Tensor out = Tensor::empty(dtype, Dims{static_cast<int64_t>(items.size())});
    T* to = out.data<T>();
    for (PyObject* item : items)
        if (!convert(item, *to++)) return {};
    return out;
}

/// A list of Python's own ints, or of its floats, in one pass that runs no Python: most lists are one.
/// Undefined for all others.
Tensor tensor_from_plain_list(PyObject* data) {
    if (!PyList_CheckExact(data) || PyList_GET_SIZE(data) == 0) return {};
    std::span<PyObject*> items(PySequence_Fast_ITEMS(data),
                               static_cast<size_t>(PyList_GET_SIZE(data)));
    auto to_int = [](PyObject* o, int64_t& to) {
        int overflow = 1;
        if (PyLong_CheckExact(o)) to = PyLong_AsLongLongAndOverflow(o, &overflow);
        return overflow == 0;
    };
    auto to_float = [](PyObject* o, auto& to) {
        if (!PyFloat_CheckExact(o)) return false;
        to = static_cast<std::remove_reference_t<decltype(to)>>(PyFloat_AS_DOUBLE(o));
        return true;
    };
    if (PyLong_CheckExact(items[0])) return read_plain<int64_t>(DType::Int64, items, to_int);
    if (!PyFloat_CheckExact(items[0])) return {};
    if (ops::default_dtype == DType::Float32)
        return read_plain<float>(DType::Float32, items, to_float);
    if (ops::default_dtype == DType::Float64)
        return read_plain<double>(DType::Float64, items, to_float);
    return {};
}

}  // namespace

Tensor tensor_from(PyObject* data, const DType* dtype) {
    if (!dtype)
        if (Tensor plain = tensor_from_plain_list(data); plain.defined()) return plain;
    if (is_tensor(data) || (!is_number(data) && is_array(data))) {
        Tensor t = is_tensor(data) ? reading(data) : tensor_sharing(data, "tensor");
        Tensor out = Tensor::empty(dtype ? *dtype : t.dtype(), t.shape());
        ops::copy_into(out, t);
        return out;
    }
    Dims shape;
    find_shape(data, shape);
    DType type;
    if (dtype) {
        type = *dtype;
    } else {
        std::optional<DType> found;
        find_dtype(data, found);
        type = found.value_or(ops::default_dtype);
    }
    Tensor out = Tensor::empty(type, shape);
    dispatch_each(type, [&]<class T>() {
        T* at = out.data<T>();
        read_values<T>(data, shape, 0, at);
    });
    return out;
}

namespace {

/// The same where new tensors lie; that of a meta tensor lies where it does.
Tensor placed_from(PyObject* data, const DType* dtype) {
    const bool of_meta = is_tensor(data) && handle(data).on_meta();
    if (!(mode & kMetaMode) && !of_meta) [[likely]]
        return tensor_from(data, dtype);
    Tensor like = of_meta ? handle(data) : tensor_from(data, dtype);
    Tensor out = Tensor::layout(dtype ? *dtype : like.dtype(), like.shape());
    out.allocate_meta();
    return out;
}

PyObject* py_tensor(PyObject*, PyObject* args, PyObject* kwargs) {
    if (PyTuple_GET_SIZE(args) == 1 && !kwargs)  // most calls: nothing to parse
        return guarded_method("tensor", {PyTuple_GET_ITEM(args, 0)}, [&] {
            return wrap(placed_from(PyTuple_GET_ITEM(args, 0), nullptr));
        });
    static const char* names[] = {"data",          "dtype",      "device",
                                  "requires_grad", "pin_memory", nullptr};
    PyObject *data, *dtype = Py_None, *device = Py_None;
    PyObject* requires_grad = Py_False;
    int pinned = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOOp:tensor", const_cast<char**>(names),
                                     &data, &dtype, &device, &requires_grad, &pinned))
        return nullptr;
    return guarded_method("tensor", {data}, [&] {
        WEFT_EXPECT(PyBool_Check(requires_grad), Type, "tensor", "requires_grad to be a bool",
                    Py_TYPE(requires_grad)->tp_name);
        DType type;
        bool given = dtype != Py_None;
        const PlaceScope there(to_place(device));
        expect_unpinned("tensor", pinned != 0);
        WEFT_EXPECT(!given || to_dtype(dtype, type), Type, "tensor", "a dtype",
                    Py_TYPE(dtype)->tp_name);
        Tensor t = placed_from(data, given ? &type : nullptr);
        if (requires_grad == Py_True) set_requires_grad(t, true);
        return wrap(std::move(t));
    });
}

PyObject* py_sharing(PyObject*, PyObject* data) {
    return guarded([&] {
        Tensor t = tensor_sharing(data, "from_numpy");
        if ((mode & (kInferenceMode | kGradMode)) == kInferenceMode) t.set(kInference);
        return wrap(std::move(t));
    });
}

PyMethodDef convert_functions[] = {
    {"tensor", c_function(py_tensor), METH_VARARGS | METH_KEYWORDS,
     "tensor(data, *, dtype=None, device=None, requires_grad=False)\n\n"
     "A new tensor with the values of numbers, nested sequences, arrays or a tensor.\n\n"
     ">>> weft.tensor([1, 2.5])\ntensor([1.0000, 2.5000])\n"},
    {"_sharing", py_sharing, METH_O, "A tensor over the memory of a buffer or array."},
    {}};

[[noreturn]] void fail_buffer(const char* message) {
    PyErr_SetString(PyExc_BufferError, message);
    throw PythonError{};
}

/// What a consumer of the buffer holds: the memory outlives `.data = ` on the tensor.
struct LentBuffer {
    Ref<Storage> storage;
    std::unique_ptr<Py_ssize_t[]> dims;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    return guarded_int([&] {
        view->obj = nullptr;
        if (!(mode & kOwnMode) && !is_its_memory(self))
            fail_buffer("[buffer] expected a dense tensor, got one that has more than its memory");
        if (mode & kTraceMode) note_read(self);
        Tensor t = unwrap(self);  // its memory, where `reading` may give a copy
        WEFT_EXPECT(!t.has(kMeta), Type, "buffer", "a tensor with values",
                    "one of the meta device (can't convert meta device type tensor to numpy. Use "
                    "Tensor.cpu() to copy the tensor to host memory first.)");
        if (requires_grad(t))
            fail_buffer("[buffer] expected a tensor outside the graph, got one that requires grad. "
                        "Hint: use tensor.detach()");
        if (!*info(t.dtype()).letter)
            fail(
                ErrorKind::Type, "buffer", "a dtype that NumPy has",
                text(name(t.dtype()), " (Got unsupported ScalarType ", scalar_name(t.dtype()), ")"),
                "convert with .float() first");
        bool strided = (flags & PyBUF_STRIDES) == PyBUF_STRIDES;
        bool row_major = (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS ||
                         (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS;
        if ((!strided || row_major) && !t.contiguous())
            fail_buffer("[buffer] expected a contiguous tensor, got strides");
        if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && t.ndim() > 1)
            fail_buffer(
                "[buffer] expected a consumer of row-major memory, got one of column-major");
        if ((flags & PyBUF_WRITABLE) && t.storage()->read_only)
            fail_buffer("[buffer] expected a reader, got a writer of read-only memory");
        Py_ssize_t bytes;  // an expanded tensor may have more than can be counted
        WEFT_EXPECT(!__builtin_mul_overflow(t.numel(), item_size(t.dtype()), &bytes), Runtime,
                    "buffer", "a tensor of less than 2**63 bytes", "more");
        auto lent = std::make_unique<LentBuffer>();
        lent->storage = t.storage();
        lent->dims = std::make_unique<Py_ssize_t[]>(2 * t.ndim() + 1);
        int size = item_size(t.dtype());
        for (int d = 0; d < t.ndim(); ++d) {
            lent->dims[d] = t.size(d);
            // of an empty tensor or a dim of one, a stride may be anything: there it may wrap
            lent->dims[t.ndim() + d] =
                static_cast<int64_t>(static_cast<uint64_t>(t.stride(d)) * size);
        }
        *view = {};
        view->buf = t.bytes();
        view->obj = Py_NewRef(self);
        view->len = bytes;
        view->itemsize = size;
        view->readonly = t.storage()->read_only;
        view->ndim = t.ndim();
        // NumPy's int64 is a long where that has 64 bits
        const char* letter = sizeof(long) != 8            ? info(t.dtype()).letter
                             : t.dtype() == DType::Int64  ? "l"
                             : t.dtype() == DType::UInt64 ? "L"
                                                          : info(t.dtype()).letter;
        view->format = flags & PyBUF_FORMAT ? const_cast<char*>(letter) : nullptr;
        view->shape = (flags & PyBUF_ND) == PyBUF_ND ? lent->dims.get() : nullptr;
        view->strides = strided ? lent->dims.get() + t.ndim() : nullptr;
        view->internal = lent.release();
        return 0;
    });
}
void free_buffer(PyObject*, Py_buffer* view) { delete static_cast<LentBuffer*>(view->internal); }
PyBufferProcs buffer_slots = {get_buffer, free_buffer};

}  // namespace

bool is_its_memory(PyObject* o) {
    if (Py_TYPE(o) == &tensor_type) return true;
    if (handle(o).has(kDispatching)) return false;
    static PyObject* name = checked(PyUnicode_InternFromString("_lends_memory"));
    return _PyType_Lookup(Py_TYPE(o), name) != Py_False;
}

void init_convert(PyObject* module) {
    tensor_type.tp_as_buffer = &buffer_slots;
    checked(PyModule_AddFunctions(module, convert_functions));
}

}  // namespace weft::python
