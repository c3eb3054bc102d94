/// What `weft.watch` asks of tensors: numbers about their elements, of which no graph, batch or
/// recording hears.
#include "watch/statistics.h"

#include "autograd/sparse.h"
#include "mapped/level.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "python/object.h"

namespace weft::python {
namespace {

class Quiet {
    const ModeGuard guard_{0, kGradMode | kDeferMode | kMapMode | kWatchMode | kAutocastMode};
};

Tensor tensor_of(PyObject* o, const char* who) {
    WEFT_EXPECT(is_tensor(o), Type, who, "a tensor", Py_TYPE(o)->tp_name);
    return handle(o);
}

/// _statistics(tensor, sample): (counted, nan, inf, mean, std, min, max) of at most so many elements;
/// None of a value that waits, and of other dtypes than floating ones.
PyObject* statistics(PyObject*, PyObject* args) {
    PyObject* o;
    long long sample;
    if (!PyArg_ParseTuple(args, "OL", &o, &sample)) return nullptr;
    return guarded([&] {
        const Tensor t = mapped::bottom_of(tensor_of(o, "_statistics"));
        if (t.has(kPending) || sparse::is(t) || !is_floating(t.dtype())) return Py_NewRef(Py_None);
        const watch::Statistics s = watch::statistics_of(t, 0, std::max(sample, 1LL));
        return Py_BuildValue("(IIIdddd)", s.counted, s.nans, s.infs, s.mean, s.std, s.least,
                             s.most);
    });
}

/// _snapshot(tensor): a copy.
PyObject* snapshot(PyObject*, PyObject* o) {
    return guarded([&] {
        const Quiet quiet;
        return wrap(ops::clone(tensor_of(o, "_snapshot")));
    });
}

/// _norm(tensor, snapshot or None): the root of the sum of squares, of the difference to the snapshot.
PyObject* norm(PyObject*, PyObject* args) {
    PyObject *o, *before;
    if (!PyArg_ParseTuple(args, "OO", &o, &before)) return nullptr;
    return guarded([&] {
        const Quiet quiet;
        Tensor t = tensor_of(o, "_norm");
        if (before != Py_None) t = t - tensor_of(before, "_norm");
        return PyFloat_FromDouble(watch::norm_of(t));
    });
}

template <class T>
void mark_live(const Tensor& dense, int64_t units, int64_t inner, char* live) {
    const T* data = dense.data<T>();
    for (int64_t i = 0; i < dense.numel(); i += units * inner)
        for (int64_t u = 0; u < units; ++u)
            for (int64_t k = 0; k < inner; ++k)
                live[u] = static_cast<char>(live[u] | (static_cast<float>(*data++) != 0));
}

/// _live_units(tensor, dim): (how many elements there are at a place along a dim, for each place whether
/// one of them is not zero, as bytes); None of a value that waits, and of other dtypes than floating ones.
PyObject* live_units(PyObject*, PyObject* args) {
    PyObject* o;
    int dim;
    if (!PyArg_ParseTuple(args, "Oi", &o, &dim)) return nullptr;
    return guarded([&] {
        const Quiet quiet;
        const Tensor given = tensor_of(o, "_live_units"), t = mapped::bottom_of(given);
        const int levels =
            t.ndim() - given.ndim();  // of vmap: the dims of their examples come first
        dim += levels;
        if (t.has(kPending) || sparse::is(t) || !is_floating(t.dtype())) return Py_NewRef(Py_None);
        WEFT_EXPECT(dim >= levels && dim < t.ndim(), Index, "_live_units", "a dim of the tensor",
                    std::to_string(dim));
        const Tensor dense =
            ops::as_contiguous(t, is_float8(t.dtype()) ? DType::Float32 : t.dtype());
        const int64_t units = t.size(dim);
        int64_t inner = 1;
        for (int d = dim + 1; d < t.ndim(); ++d) inner *= t.size(d);
        Object live = Object::take(PyBytes_FromStringAndSize(nullptr, units));
        char* marks = PyBytes_AS_STRING(live.get());
        std::fill_n(marks, units, 0);
        const int64_t places = units ? t.numel() / units : 0;
        if (places == 0) return Py_BuildValue("(LO)", 0LL, live.get());
        if (dense.dtype() == DType::Float32) mark_live<float>(dense, units, inner, marks);
        else if (t.dtype() == DType::Float64) mark_live<double>(dense, units, inner, marks);
        else if (t.dtype() == DType::Float16) mark_live<Half>(dense, units, inner, marks);
        else mark_live<BFloat16>(dense, units, inner, marks);
        return Py_BuildValue("(LO)", static_cast<long long>(places), live.get());
    });
}

PyMethodDef statistics_functions[] = {{"_statistics", statistics, METH_VARARGS, nullptr},
                                      {"_snapshot", snapshot, METH_O, nullptr},
                                      {"_norm", norm, METH_VARARGS, nullptr},
                                      {"_live_units", live_units, METH_VARARGS, nullptr},
                                      {}};

}  // namespace

void init_statistics(PyObject* module) {
    checked(PyModule_AddFunctions(module, statistics_functions));
}

}  // namespace weft::python
