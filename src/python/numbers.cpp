/// Number slots of Tensor: arithmetic enters the door without a name, a schema or a bound method.
#include <cstring>

#include "ops/element.h"
#include "python/slots.h"

namespace weft::python {
namespace {

const Op& op_named(const char* name) { return table().at(name); }

#define WEFT_BINARY_SLOT(slot, name)                                                               \
    PyObject* slot(PyObject* a, PyObject* b) {                                                     \
        static const Op& op = op_named(name);                                                      \
        return call_binary(op, a, b);                                                              \
    }
#define WEFT_UNARY_SLOT(slot, name)                                                                \
    PyObject* slot(PyObject* a) {                                                                  \
        return guarded([&] {                                                                       \
            static const Op& op = op_named(name);                                                  \
            return wrap(ops::call1(op, {operand(a)}));                                             \
        });                                                                                        \
    }
#define WEFT_INPLACE_SLOT(slot, name)                                                              \
    PyObject* slot(PyObject* a, PyObject* b) {                                                     \
        static const Op& op = op_named(name);                                                      \
        return in_place_binary(op, a, b);                                                          \
    }

PyObject* in_place_binary(const Op& op, PyObject* a, PyObject* b) {
    return guarded([&]() -> PyObject* {
        Tensor in[2] = {operand(a)};
        if (is_tensor(b)) in[1] = operand(b);
        else if (is_number(b)) in[1] = number_tensor(b, &in[0]);
        else Py_RETURN_NOTIMPLEMENTED;
        Call c(op, in, 2, op.defaults.data());
        c.dest = in[0];
        c.in_place = true;
        ops::call(c);
        return Py_NewRef(a);
    });
}

WEFT_BINARY_SLOT(nb_add, "add")
WEFT_BINARY_SLOT(nb_multiply, "mul")
WEFT_BINARY_SLOT(nb_floor_divide, "floor_divide")
WEFT_BINARY_SLOT(nb_remainder, "remainder")
WEFT_BINARY_SLOT(nb_and, "bitwise_and")
WEFT_BINARY_SLOT(nb_or, "bitwise_or")
WEFT_BINARY_SLOT(nb_xor, "bitwise_xor")
WEFT_BINARY_SLOT(nb_lshift, "bitwise_left_shift")
WEFT_BINARY_SLOT(nb_rshift, "bitwise_right_shift")
WEFT_UNARY_SLOT(nb_negative, "neg")
WEFT_UNARY_SLOT(nb_absolute, "abs")
WEFT_INPLACE_SLOT(nb_iadd, "add")
WEFT_INPLACE_SLOT(nb_isubtract, "sub")
WEFT_INPLACE_SLOT(nb_imultiply, "mul")
WEFT_INPLACE_SLOT(nb_itrue_divide, "div")
WEFT_INPLACE_SLOT(nb_ifloor_divide, "floor_divide")
WEFT_INPLACE_SLOT(nb_iremainder, "remainder")
WEFT_INPLACE_SLOT(nb_iand, "bitwise_and")
WEFT_INPLACE_SLOT(nb_ior, "bitwise_or")
WEFT_INPLACE_SLOT(nb_ixor, "bitwise_xor")
WEFT_INPLACE_SLOT(nb_ilshift, "bitwise_left_shift")
WEFT_INPLACE_SLOT(nb_irshift, "bitwise_right_shift")

/// `number - tensor` and `number / tensor` are ops of their own in PyTorch's graph.
PyObject* nb_subtract(PyObject* a, PyObject* b) {
    static const Op &sub = op_named("sub"), &rsub = op_named("rsub");
    return is_tensor(a) ? call_binary(sub, a, b) : call_binary(rsub, b, a);
}
PyObject* nb_true_divide(PyObject* a, PyObject* b) {
    static const Op &div = op_named("div"), &rdiv = op_named("rdiv");
    return is_tensor(a) ? call_binary(div, a, b) : call_binary(rdiv, b, a);
}
PyObject* nb_matmul(PyObject* a, PyObject* b) {
    if (!is_tensor(a) || !is_tensor(b)) Py_RETURN_NOTIMPLEMENTED;
    static const Op& op = op_named("matmul");
    return call_binary(op, a, b);
}
PyObject* nb_invert(PyObject* a) {
    return guarded([&] {
        static const Op& op = op_named("bitwise_not");
        Tensor t = operand(a);
        ops::expect_bits(t);
        return wrap(ops::call1(op, {t}));
    });
}
PyObject* nb_positive(PyObject* a) { return Py_NewRef(a); }

PyObject* nb_power(PyObject* a, PyObject* b, PyObject* modulus) {
    if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
    static const Op& op = op_named("pow");
    return call_binary(op, a, b);
}
PyObject* nb_ipower(PyObject* a, PyObject* b, PyObject*) {
    static const Op& op = op_named("pow");
    return in_place_binary(op, a, b);
}

int nb_bool(PyObject* self) {
    auto truth = [&] { return static_cast<int>(ops::truth_of(reading(self))); };
    return guarded_method("bool", {self}, truth, -1);
}
PyObject* nb_int(PyObject* self) {
    return guarded_method("int", {self}, [&]() -> PyObject* {
        Tensor t = reading(self);
        ops::expect_one(t, "int");
        if (is_floating(t.dtype())) return PyLong_FromDouble(t.item_double());
        return element_as_int(t);
    });
}
PyObject* nb_float(PyObject* self) {
    return guarded_method("float", {self}, [&] {
        Tensor t = reading(self);
        ops::expect_one(t, "float");
        return PyFloat_FromDouble(t.item_double());
    });
}
PyObject* nb_index(PyObject* self) {
    return guarded_method("index", {self}, [&] {
        Tensor t = reading(self);
        ops::expect_index(t);
        return element_as_int(t);
    });
}

}  // namespace

PyObject* tensor_compare(PyObject* a, PyObject* b, int how) {
    static const Op* const ops[] = {&op_named("lt"), &op_named("le"), &op_named("eq"),
                                    &op_named("ne"), &op_named("gt"), &op_named("ge")};
    PyObject* other = is_tensor(a) ? b : a;
    if ((how == Py_EQ || how == Py_NE) && !std::strcmp(Py_TYPE(other)->tp_name, "numpy.ndarray"))
        return guarded([&] {  // elementwise, where Python would compare identities
            Object t = wrapped(tensor_sharing(other, how == Py_EQ ? "eq" : "ne"));
            return call_binary(*ops[how], other == a ? t.get() : a, other == b ? t.get() : b);
        });
    return call_binary(*ops[how], a, b);
}

void set_number_slots(PyNumberMethods& n) {
    n.nb_add = nb_add;
    n.nb_subtract = nb_subtract;
    n.nb_multiply = nb_multiply;
    n.nb_true_divide = nb_true_divide;
    n.nb_floor_divide = nb_floor_divide;
    n.nb_remainder = nb_remainder;
    n.nb_matrix_multiply = nb_matmul;
    n.nb_power = nb_power;
    n.nb_and = nb_and;
    n.nb_or = nb_or;
    n.nb_xor = nb_xor;
    n.nb_lshift = nb_lshift;
    n.nb_rshift = nb_rshift;
    n.nb_negative = nb_negative;
    n.nb_positive = nb_positive;
    n.nb_absolute = nb_absolute;
    n.nb_invert = nb_invert;
    n.nb_inplace_add = nb_iadd;
    n.nb_inplace_subtract = nb_isubtract;
    n.nb_inplace_multiply = nb_imultiply;
    n.nb_inplace_true_divide = nb_itrue_divide;
    n.nb_inplace_floor_divide = nb_ifloor_divide;
    n.nb_inplace_remainder = nb_iremainder;
    n.nb_inplace_power = nb_ipower;
    n.nb_inplace_and = nb_iand;
    n.nb_inplace_or = nb_ior;
    n.nb_inplace_xor = nb_ixor;
    n.nb_inplace_lshift = nb_ilshift;
    n.nb_inplace_rshift = nb_irshift;
    n.nb_bool = nb_bool;
    n.nb_int = nb_int;
    n.nb_float = nb_float;
    n.nb_index = nb_index;
}

}  // namespace weft::python
