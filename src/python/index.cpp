/// Keys of t[key] and t[key] = value; what they mean is in ops/subscript.h.
#include <memory>
#include <vector>

#include "deferred/turn.h"
#include "ops/element.h"
#include "ops/functions.h"
#include "ops/subscript.h"
#include "python/object.h"

namespace weft::python {
namespace {

bool is_integer_scalar(PyObject* o) {
    if (PyBool_Check(o)) return false;
    if (PyLong_Check(o)) return true;
    if (is_tensor(o)) {
        Tensor t = handle(o);
        if (mapped::is_mapped(t)) return false;  // one for each example: gathered, not read
        return t.ndim() == 0 && category(t.dtype()) == Category::Integer && !ops::is_mask(t);
    }
    return !PySequence_Check(o) && PyIndex_Check(o);  // not an array of one
}

int64_t int_of(PyObject* o) {
    if (!is_tensor(o)) return to_int(o, "index");
    const Tensor t = reading(o);
    ops::expect_index(t);
    return t.item_int();
}

/// A part of a slice, in Python's words for what is none.
int64_t slice_part(PyObject* o) {
    if (PyIndex_Check(o)) return int_of(o);
    PyErr_SetString(PyExc_TypeError,
                    "slice indices must be integers or None or have an __index__ method");
    throw PythonError{};
}

/// Bounds beyond 64 bits are as far as bounds go.
Value slice_bound(PyObject* o) {
    if (o == Py_None) return Value();
    if (!PyLong_Check(o)) return Value(slice_part(o));
    Py_ssize_t bound = PyNumber_AsSsize_t(o, nullptr);
    if (bound == -1 && PyErr_Occurred()) throw PythonError{};
    return Value(int64_t{bound});
}

Tensor index_tensor(PyObject* o) {
    if (is_tensor(o))  // no values are needed where the index stays as it is
        return handle(o).dtype() == DType::Int64 ? operand(o) : unwrap(o);
    WEFT_EXPECT(PySequence_Check(o), Index, "index", "another index",
                text(Py_TYPE(o)->tp_name,
                     " (only integers, slices (`:`), ellipsis (`...`), None and long or byte "
                     "Variables are valid indices (got ",
                     Py_TYPE(o)->tp_name, "))"));
    Tensor t = tensor_from(o, nullptr);
    if (t.numel() == 0 && is_floating(t.dtype())) t = Tensor::empty(DType::Int64, t.shape());
    return t;
}

ops::Subscript subscript_of(PyObject* item) {
    using Kind = ops::Subscript::Kind;
    ops::Subscript out{};
    if (is_integer_scalar(item)) {
        out.kind = Kind::Int;
        out.number = int_of(item);
    } else if (PySlice_Check(item)) {
        auto* slice = reinterpret_cast<PySliceObject*>(item);
        out.kind = Kind::Slice;
        out.number = slice->step == Py_None ? 1 : slice_part(slice->step);
        out.start = slice_bound(slice->start);
        out.stop = slice_bound(slice->stop);
    } else if (item == Py_None) {
        out.kind = Kind::NewAxis;
    } else if (item == Py_Ellipsis) {
        out.kind = Kind::Ellipsis;
    } else if (PyBool_Check(item)) {
        out.kind = Kind::Flag;
        out.number = item == Py_True;
    } else if (is_tensor(item) && ops::is_mask(handle(item)) && handle(item).ndim() == 0) {
        out.kind = Kind::Flag;
        out.number = reading(item).item_int() != 0;
    } else {
        out.kind = Kind::Index;
        out.index = index_tensor(item);
        const DType t = out.index.dtype();
        // who wrote a list is told of the list
        WEFT_EXPECT(is_tensor(item) || t == DType::Bool || t == DType::Int64 || t == DType::UInt8 ||
                        t == DType::Int32,
                    Index, "index", "ints, slices, None, ..., or integer or bool tensors",
                    Py_TYPE(item)->tp_name);
    }
    return out;
}

/// Whether a list is a key of several subscripts, as PyTorch has it: one of up to 31 items of which one
/// is no number.
bool stands_for_tuple(PyObject* key) {
    if (!PyList_Check(key) || PyList_GET_SIZE(key) >= 32) return false;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(key); ++k) {
        PyObject* item = PyList_GET_ITEM(key, k);
        if (is_tensor(item) || PySequence_Check(item) || PySlice_Check(item) || item == Py_None ||
            item == Py_Ellipsis)
            return true;
    }
    return false;
}

/// A key's items; a few without an allocation.
class Key {
public:
    explicit Key(PyObject* key) {
        Object listed;
        if (stands_for_tuple(key)) [[unlikely]] {
            if (PyErr_WarnEx(PyExc_UserWarning,
                             "Using a non-tuple sequence for multidimensional indexing is "
                             "deprecated; use x[tuple(seq)] instead of x[seq]",
                             1) < 0)
                throw PythonError{};
            listed = Object::take(PyList_AsTuple(key));
            key = listed.get();
        }
        PyObject* one[] = {key};
        PyObject** items = PyTuple_Check(key) ? &PyTuple_GET_ITEM(key, 0) : one;
        const size_t n = PyTuple_Check(key) ? static_cast<size_t>(PyTuple_GET_SIZE(key)) : 1;
        if (n > kFew) {
            many_.reserve(n);
            for (size_t k = 0; k < n; ++k) many_.push_back(subscript_of(items[k]));
            return;
        }
        try {
            for (; size_ < n; ++size_)
                new (few() + size_) ops::Subscript(subscript_of(items[size_]));
        } catch (...) {
            std::destroy_n(few(), size_);
            throw;
        }
    }
    ~Key() { std::destroy_n(few(), size_); }
    Key(const Key&) = delete;
    std::span<const ops::Subscript> items() {
        if (many_.empty()) return {few(), size_};
        return many_;
    }

private:
    static constexpr size_t kFew = 3;
    ops::Subscript* few() { return reinterpret_cast<ops::Subscript*>(memory_); }
    alignas(ops::Subscript) std::byte memory_[kFew * sizeof(ops::Subscript)];
    size_t size_ = 0;
    std::vector<ops::Subscript> many_;
};

/// The value of t[key] = value, as a tensor.
Tensor assigned(const Tensor& t, PyObject* value) {
    Tensor v;
    if (is_tensor(value)) v = operand(value);
    else if (is_number(value)) {
        v = number_tensor(value, &t);
        ops::expect_assignable(v, t);
    } else if (PySequence_Check(value)) v = tensor_from(value, nullptr);
    else
        fail(ErrorKind::Type, "index", "a tensor, number or sequence to assign",
             Py_TYPE(value)->tp_name);
    return v;
}

}  // namespace

Tensor get_item(const Tensor& t, PyObject* key) {
    if (PyLong_CheckExact(key)) {
        return ops::get_row(t, to_int(key, "index"));
    }
    return ops::get_subscript(t, Key(key).items());
}

void set_item(const Tensor& t, PyObject* key, PyObject* value) {
    deferred::InTurn in_order(mode & kDeferMode ? deferred::sharing_levels(t) : 0);
    Key where(key);
    ops::set_subscript(t, where.items(), assigned(t, value));
}

}  // namespace weft::python
