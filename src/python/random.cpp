/// The default generator, for weft/random.py.
#include "ops/random.h"

#include <cstring>

#include "python/object.h"

namespace weft::python {
namespace {

PyObject* manual_seed(PyObject*, PyObject* seed) {
    unsigned long long value = PyLong_AsUnsignedLongLongMask(seed);
    if (value == static_cast<unsigned long long>(-1) && PyErr_Occurred()) return nullptr;
    ops::default_generator().manual_seed(value);
    Py_RETURN_NONE;
}
PyObject* initial_seed(PyObject*, PyObject*) {
    return PyLong_FromUnsignedLongLong(ops::default_generator().initial_seed());
}
PyObject* entropy(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(ops::entropy_seed()); }
PyObject* get_state(PyObject*, PyObject*) {
    auto state = ops::default_generator().state();
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(state.data()),
                                     static_cast<Py_ssize_t>(state.size()));
}
PyObject* set_state(PyObject*, PyObject* bytes) {
    return guarded([&] {
        char* data;
        Py_ssize_t size;
        checked(PyBytes_AsStringAndSize(bytes, &data, &size));
        bool fits = ops::default_generator().set_state(
            {reinterpret_cast<const std::byte*>(data), static_cast<size_t>(size)});
        WEFT_EXPECT(fits, Runtime, "set_rng_state", "a state that get_rng_state returned",
                    text(size, " bytes that are none"));
        return Py_NewRef(Py_None);
    });
}

PyMethodDef functions[] = {{"_manual_seed", manual_seed, METH_O, nullptr},
                           {"_initial_seed", initial_seed, METH_NOARGS, nullptr},
                           {"_entropy_seed", entropy, METH_NOARGS, nullptr},
                           {"_get_rng_state", get_state, METH_NOARGS, nullptr},
                           {"_set_rng_state", set_state, METH_O, nullptr},
                           {}};

}  // namespace

void init_random(PyObject* module) { checked(PyModule_AddFunctions(module, functions)); }

}  // namespace weft::python
