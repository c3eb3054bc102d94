#include "python/sparse.h"

#include "autograd/sparse.h"

namespace weft::python {
namespace {

/// A function of weft/sparse/gradients.py, by its name.
Object function_of(const char* name) { return import_attr("weft.sparse.gradients", name); }

Tensor result(const Object& made) { return expect_tensor(made.get(), "backward"); }

Tensor add(const Tensor& a, const Tensor& b) {
    static PyObject* f = function_of("add").release();
    return result(Object::borrow(f).call(wrapped(a), wrapped(b)));
}
Tensor accumulate(const Tensor& old, const Tensor& grad) {
    static PyObject* f = function_of("accumulate").release();
    return result(Object::borrow(f).call(wrapped(old), wrapped(grad)));
}
Tensor values(const Tensor& t) {
    static PyObject* f = function_of("values").release();
    return result(Object::borrow(f).call(wrapped(t)));
}
Tensor dense(const Tensor& t) {
    static PyObject* f = function_of("dense").release();
    return result(Object::borrow(f).call(wrapped(t)));
}

/// _sparse_shell(dtype, shape): Note [Sparse gradients].
PyObject* make_shell(PyObject*, PyObject* args) {
    PyObject *dtype, *shape;
    if (!PyArg_ParseTuple(args, "OO", &dtype, &shape)) return nullptr;
    return guarded([&] {
        DType of;
        Dims dims;
        WEFT_EXPECT(to_dtype(dtype, of) && to_dims(shape, dims), Type, "_sparse_shell",
                    "a dtype and a shape", Py_TYPE(dtype)->tp_name);
        sparse::host = {add, accumulate, values, dense};
        return wrap(sparse::make_shell(of, dims));
    });
}

/// _sparse_known(): whether a sparse tensor was ever made.
PyObject* known(PyObject*, PyObject*) { return PyBool_FromLong(sparse::known); }

PyMethodDef sparse_functions[] = {{"_sparse_shell", make_shell, METH_VARARGS, nullptr},
                                  {"_sparse_known", known, METH_NOARGS, nullptr},
                                  {}};

}  // namespace

void init_sparse(PyObject* module) { checked(PyModule_AddFunctions(module, sparse_functions)); }

}  // namespace weft::python
