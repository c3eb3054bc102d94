/// t[key] and t[key] = value: basic indexing makes views one after the other, tensors in the key
/// are gathered in one op.
#include "deferred/turn.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/indexing.h"
#include "python/object.h"

namespace weft::python {
namespace {

const ops::Function index_op{"index"}, index_put_op{"index_put.plain"}, nonzero_op{"nonzero"},
    copy_op{"copy"};

struct Selection {
    Tensor view;                  ///< after ints, slices, None and ...
    std::vector<Tensor> indices;  ///< by dimension of `view`; undefined: all of it
    bool advanced = false;
    bool moved = false;  ///< some view was made
    bool to_write = false;
};

/// PyTorch's old masks were bytes; they still work, with a warning.
bool is_mask(const Tensor& t) { return t.dtype() == DType::Bool || t.dtype() == DType::UInt8; }

bool is_integer_scalar(PyObject* o) {
    if (PyBool_Check(o)) return false;
    if (PyLong_Check(o)) return true;
    if (is_tensor(o)) {
        Tensor t = handle(o);
        if (mapped::is_mapped(t)) return false;  // one for each example: gathered, not read
        return t.ndim() == 0 && category(t.dtype()) == Category::Integer && !is_mask(t);
    }
    return !PySequence_Check(o) && PyIndex_Check(o);  // not an array of one
}

int64_t int_of(PyObject* o) { return is_tensor(o) ? reading(o).item_int() : to_int(o, "index"); }

/// Bounds beyond 64 bits are as far as bounds go.
Value slice_bound(PyObject* o) {
    if (o == Py_None) return Value();
    if (!PyLong_Check(o)) return Value(int_of(o));
    Py_ssize_t bound = PyNumber_AsSsize_t(o, nullptr);
    if (bound == -1 && PyErr_Occurred()) throw PythonError{};
    return Value(int64_t{bound});
}

/// Dimensions of the indexed tensor that an item takes.
int consumed(PyObject* o) {
    if (o == Py_None || o == Py_Ellipsis || PyBool_Check(o)) return 0;
    if (is_tensor(o) && is_mask(handle(o))) return handle(o).ndim();
    return 1;
}

Tensor index_tensor(PyObject* o) {
    if (is_tensor(o))  // no values are needed where the index stays as it is
        return handle(o).dtype() == DType::Int64 ? operand(o) : unwrap(o);
    WEFT_EXPECT(PySequence_Check(o), Index, "index",
                "ints, slices, None, ..., sequences, or integer or bool tensors",
                Py_TYPE(o)->tp_name);
    Tensor t = tensor_from(o, nullptr);
    if (t.numel() == 0 && is_floating(t.dtype())) t = Tensor::empty(DType::Int64, t.shape());
    return t;
}

void add_tensor_index(Selection& s, int& dim, Tensor index, PyObject* item) {
    if (index.dtype() == DType::UInt8) {
        if (warn_user(
                "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool "
                "instead.") != 0)
            throw PythonError{};
        index = ops::as_dtype(index, DType::Bool);
    } else if (index.dtype() == DType::Int32) {
        index = ops::as_dtype(index, DType::Int64);
    }
    WEFT_EXPECT(index.dtype() == DType::Bool || index.dtype() == DType::Int64, Index, "index",
                "ints, slices, None, ..., or integer or bool tensors",
                is_tensor(item) ? text("a tensor of ", name(index.dtype()))
                                : Py_TYPE(item)->tp_name);
    s.advanced = true;
    s.indices.resize(dim);
    if (index.dtype() != DType::Bool) {
        s.indices.push_back(index);
        ++dim;
        return;
    }
    for (int d = 0; d < index.ndim(); ++d)
        WEFT_EXPECT(dim + d < s.view.ndim() && index.size(d) == s.view.size(dim + d), Index,
                    "index",
                    text("a mask of the indexed tensor's shape ", to_string(s.view.shape())),
                    text(to_string(index.shape()), " at dimension ", dim));
    Tensor where = nonzero_op(index);
    for (int d = 0; d < index.ndim(); ++d) s.indices.push_back(ops::select(where, 1, d));
    dim += index.ndim();
}

/// True, False or a 0-d mask: a new dimension of size 1 or 0.
void add_flag(Selection& s, int& dim, bool holds, PyObject* item) {
    s.view = ops::unsqueeze(s.view, dim);
    s.moved = true;
    Tensor index = Tensor::empty(DType::Int64, Dims{holds ? 1 : 0});
    if (holds) *index.data<int64_t>() = 0;
    add_tensor_index(s, dim, index, item);
}

bool is_all(const Value& start, const Value& stop, int64_t size) {
    return (start.none() || start.as_int() == 0 || start.as_int() <= -size) &&
           (stop.none() || stop.as_int() >= size);
}

void apply(Selection& s, int& dim, PyObject* item, int rest) {
    if (is_integer_scalar(item)) {
        s.view = ops::select(s.view, dim, int_of(item));
        s.moved = true;
    } else if (PySlice_Check(item)) {
        auto* slice = reinterpret_cast<PySliceObject*>(item);
        WEFT_EXPECT(dim < s.view.ndim(), Index, "index",
                    text("at most ", s.view.ndim(), " indices"), "more");
        int64_t step = slice->step == Py_None ? 1 : int_of(slice->step);
        WEFT_EXPECT(step > 0, Value, "index", "a slice step greater than zero",
                    std::to_string(step), "flip() the tensor for a negative step");
        Value start = slice_bound(slice->start), stop = slice_bound(slice->stop);
        bool given = start || stop || step != 1;
        // As in PyTorch, what is written through a slice of everything is the tensor itself.
        if (given && !(s.to_write && step == 1 && is_all(start, stop, s.view.size(dim)))) {
            s.view = ops::call1(ops::slice.op(), {s.view}, {dim, start, stop, step});
            s.moved = true;
        }
        ++dim;
    } else if (item == Py_None) {
        s.view = ops::unsqueeze(s.view, dim++);
        s.moved = true;
    } else if (item == Py_Ellipsis) {
        dim += rest;
    } else if (PyBool_Check(item)) {
        add_flag(s, dim, item == Py_True, item);
    } else if (is_tensor(item) && is_mask(handle(item)) && handle(item).ndim() == 0) {
        add_flag(s, dim, reading(item).item_int() != 0, item);
    } else {
        add_tensor_index(s, dim, index_tensor(item), item);
    }
}

Selection select(const Tensor& t, PyObject* key, bool to_write) {
    Selection s{t, {}, false, false, to_write};
    PyObject* one[] = {key};
    PyObject** items = one;
    Py_ssize_t n = 1;
    if (PyTuple_Check(key)) {
        items = &PyTuple_GET_ITEM(key, 0);
        n = PyTuple_GET_SIZE(key);
    }
    int taken = 0, ellipses = 0;
    for (Py_ssize_t i = 0; i < n; ++i) {
        taken += consumed(items[i]);
        ellipses += items[i] == Py_Ellipsis;
    }
    WEFT_EXPECT(ellipses <= 1, Index, "index", "at most one ...", std::to_string(ellipses));
    WEFT_EXPECT(taken <= t.ndim(), Index, "index",
                text("at most ", t.ndim(), " indices for a tensor of shape ", to_string(t.shape())),
                text(taken, " (too many indices)"));
    int dim = 0;
    for (Py_ssize_t i = 0; i < n; ++i) apply(s, dim, items[i], t.ndim() - taken);
    return s;
}

std::vector<Tensor> with_indices(std::initializer_list<Tensor> first, const Selection& s) {
    std::vector<Tensor> in(first);
    in.insert(in.end(), s.indices.begin(), s.indices.end());
    return in;
}

void write(const ops::Function& op, const std::vector<Tensor>& in) {
    Call c(op.op(), in.data(), static_cast<int>(in.size()), op.op().defaults.data());
    c.dest = in[0];
    c.in_place = true;
    ops::call(c);
}

/// Assigned values may have leading dimensions of size 1 that the target lacks.
Tensor without_leading_ones(Tensor v, int ndim) {
    while (v.ndim() > ndim && v.size(0) == 1) v = ops::select(v, 0, 0);
    return v;
}

}  // namespace

Tensor get_item(const Tensor& t, PyObject* key) {
    if (PyLong_CheckExact(key)) {
        WEFT_EXPECT(t.ndim() > 0, Index, "index", "a tensor with dimensions",
                    "a 0-d tensor (invalid index of a 0-dim tensor)", "use tensor.item()");
        return ops::select(t, 0, to_int(key, "index"));
    }
    Selection s = select(t, key, false);
    if (s.advanced) return index_op.over(with_indices({s.view}, s));
    return s.moved ? s.view : ops::view(s.view, Dims(s.view.shape()));
}

void set_item(const Tensor& t, PyObject* key, PyObject* value) {
    deferred::InTurn in_order(mode & kDeferMode ? deferred::sharing_levels(t) : 0);
    Selection s = select(t, key, true);
    Tensor v;
    if (is_tensor(value)) v = operand(value);
    else if (is_number(value)) {
        v = number_tensor(value, &t);  // beyond a half's range it becomes infinite
        if (!is_floating(t.dtype()) || is_complex(v.dtype()))
            ops::require_fits("index", v, t.dtype());
    } else if (PySequence_Check(value)) v = tensor_from(value, nullptr);
    else
        fail(ErrorKind::Type, "index", "a tensor, number or sequence to assign",
             Py_TYPE(value)->tp_name);
    if (s.advanced) {
        if (v.dtype() != t.dtype()) v = ops::to(v, t.dtype());
        if (v.ndim() > 1) {
            ops::Indexing plan("index_put", s.view.shape(), s.indices.data(),
                               static_cast<int>(s.indices.size()));
            v = without_leading_ones(v, plan.result.size());
        }
        return write(index_put_op, with_indices({s.view, v}, s));
    }
    write(copy_op, {s.view, without_leading_ones(v, s.view.ndim())});
}

}  // namespace weft::python
