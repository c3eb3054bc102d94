/// Number slots of Tensor: arithmetic enters the door without a name, a schema or a bound method.
#include <cstring>

#include "ops/element.h"
#include "python/dispatch.h"
#include "python/overrides.h"
#include "python/slots.h"

namespace weft::python {
namespace {

const Op& op_named(const char* name) { return table().at(name); }

/// `a op b`: the op `name`, and the attributes of Tensor that stand for it: `method`, and
/// `reflected`, of which `b` is the tensor.
#define WEFT_BINARY_SLOT(slot, name, method, reflected)                                            \
    PyObject* slot(PyObject* a, PyObject* b) {                                                     \
        static const Op& op = op_named(name);                                                      \
        return binary({method, reflected}, a, b, [&] { return call_binary(op, a, b); });           \
    }
/// Of a number and a tensor the tensor is the first operand, as the reflected methods have it: what
/// `grad_fn.next_functions` shows.
#define WEFT_COMMUTING_SLOT(slot, name)                                                            \
    PyObject* slot(PyObject* a, PyObject* b) {                                                     \
        static const Op& op = op_named(name);                                                      \
        return binary({name, name}, a, b, [&] {                                                    \
            return is_tensor(a) ? call_binary(op, a, b) : call_binary(op, b, a);                   \
        });                                                                                        \
    }
#define WEFT_UNARY_SLOT(slot, name)                                                                \
    PyObject* slot(PyObject* a) {                                                                  \
        static const Op& op = op_named(name);                                                      \
        return overridable(name, {a}, [&] {                                                        \
            return guarded([&] { return wrap(ops::call1(op, {operand(a)})); });                    \
        });                                                                                        \
    }
#define WEFT_INPLACE_SLOT(slot, name, method)                                                      \
    PyObject* slot(PyObject* a, PyObject* b) {                                                     \
        static const Op& op = op_named(name);                                                      \
        return overridable(method, {a, b}, [&] { return in_place_binary(op, a, b); });             \
    }

struct SlotNames {
    const char *method, *reflected;
};
/// `own`, unless an operand's class answers; it is asked by the operand that is a tensor, or has the
/// class.
template <class F>
PyObject* binary(SlotNames names, PyObject* a, PyObject* b, F own) {
    if (!Overrides::known()) [[likely]] {
        PyObject* out = own();
        if (out != Py_NotImplemented || !(Overrides::has(a) || Overrides::has(b))) return out;
        Py_DECREF(out);
    }
    return is_tensor(a) ? overridable(names.method, {a, b}, own)
                        : overridable(names.reflected, {b, a}, own);
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

WEFT_COMMUTING_SLOT(nb_add, "add")
WEFT_COMMUTING_SLOT(nb_multiply, "mul")
WEFT_BINARY_SLOT(nb_floor_divide, "floor_divide", "__floordiv__", "__rfloordiv__")
WEFT_BINARY_SLOT(nb_remainder, "remainder", "__mod__", "__rmod__")
WEFT_BINARY_SLOT(nb_and, "bitwise_and", "__and__", "__rand__")
WEFT_BINARY_SLOT(nb_or, "bitwise_or", "__or__", "__ror__")
WEFT_BINARY_SLOT(nb_xor, "bitwise_xor", "__xor__", "__rxor__")
WEFT_BINARY_SLOT(nb_lshift, "bitwise_left_shift", "__lshift__", "__rlshift__")
WEFT_BINARY_SLOT(nb_rshift, "bitwise_right_shift", "__rshift__", "__rrshift__")
WEFT_UNARY_SLOT(nb_negative, "neg")
WEFT_UNARY_SLOT(nb_absolute, "abs")
WEFT_INPLACE_SLOT(nb_iadd, "add", "add_")
WEFT_INPLACE_SLOT(nb_isubtract, "sub", "sub_")
WEFT_INPLACE_SLOT(nb_imultiply, "mul", "mul_")
WEFT_INPLACE_SLOT(nb_itrue_divide, "div", "__itruediv__")
WEFT_INPLACE_SLOT(nb_ifloor_divide, "floor_divide", "__ifloordiv__")
WEFT_INPLACE_SLOT(nb_iremainder, "remainder", "__imod__")
WEFT_INPLACE_SLOT(nb_iand, "bitwise_and", "__iand__")
WEFT_INPLACE_SLOT(nb_ior, "bitwise_or", "__ior__")
WEFT_INPLACE_SLOT(nb_ixor, "bitwise_xor", "__ixor__")
WEFT_INPLACE_SLOT(nb_ilshift, "bitwise_left_shift", "__ilshift__")
WEFT_INPLACE_SLOT(nb_irshift, "bitwise_right_shift", "__irshift__")

/// `number - tensor` and `number / tensor` are ops of their own in PyTorch's graph.
PyObject* nb_subtract(PyObject* a, PyObject* b) {
    static const Op &sub = op_named("sub"), &rsub = op_named("rsub");
    return binary({"sub", "__rsub__"}, a, b,
                  [&] { return is_tensor(a) ? call_binary(sub, a, b) : call_binary(rsub, b, a); });
}
PyObject* nb_true_divide(PyObject* a, PyObject* b) {
    static const Op &div = op_named("div"), &rdiv = op_named("rdiv");
    return binary({"div", "__rtruediv__"}, a, b,
                  [&] { return is_tensor(a) ? call_binary(div, a, b) : call_binary(rdiv, b, a); });
}
PyObject* nb_matmul(PyObject* a, PyObject* b) {
    static const Op& op = op_named("matmul");
    return binary({"matmul", "__rmatmul__"}, a, b, [&]() -> PyObject* {
        if (!is_tensor(a) || !is_tensor(b)) Py_RETURN_NOTIMPLEMENTED;
        return call_binary(op, a, b);
    });
}
PyObject* nb_invert(PyObject* a) {
    static const Op& op = op_named("bitwise_not");
    const auto own = [&] {
        Tensor t = operand(a);
        ops::expect_bits(t);
        return wrap(ops::call1(op, {t}));
    };
    return overridable("__invert__", {a}, [&] { return guarded(own); });
}
PyObject* nb_positive(PyObject* a) {
    const auto own = [&] {
        WEFT_EXPECT(handle(a).dtype() != DType::Bool, Runtime, "positive", "numbers",
                    "a bool tensor (The `+` operator, on a bool tensor is not supported.)");
        return Py_NewRef(a);
    };
    return overridable("positive", {a}, [&] { return guarded(own); });
}

PyObject* nb_power(PyObject* a, PyObject* b, PyObject* modulus) {
    if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
    static const Op& op = op_named("pow");
    return binary({"pow", "__rpow__"}, a, b, [&] { return call_binary(op, a, b); });
}
PyObject* nb_ipower(PyObject* a, PyObject* b, PyObject*) {
    static const Op& op = op_named("pow");
    return overridable("pow_", {a, b}, [&] { return in_place_binary(op, a, b); });
}

/// Whether modes of operators give the number that a tensor of one element is.
bool element_dispatches(PyObject* self) { return dispatches(self) && handle(self).numel() == 1; }

/// That number, as `convert` has it.
PyObject* dispatched_as(PyObject* self, PyObject* (*convert)(PyObject*)) {
    Object element = Object::take(dispatched_element(self));
    return convert(element.get());
}

int nb_bool(PyObject* self) {
    auto truth = [&] {
        if (element_dispatches(self)) [[unlikely]]
            return PyObject_IsTrue(Object::take(dispatched_element(self)).get());
        return static_cast<int>(ops::truth_of(reading(self)));
    };
    return overridable("__bool__", {self}, PyObject_IsTrue,
                       [&] { return guarded_method("bool", {self}, truth, -1); });
}
PyObject* nb_int(PyObject* self) {
    const auto own = [&]() -> PyObject* {
        if (element_dispatches(self)) [[unlikely]]
            return dispatched_as(self, PyNumber_Long);
        Tensor t = reading(self);
        ops::expect_one(t, "int");
        if (is_floating(t.dtype())) return PyLong_FromDouble(t.item_double());
        return element_as_int(t);
    };
    return overridable("__int__", {self}, [&] { return guarded_method("int", {self}, own); });
}
PyObject* nb_float(PyObject* self) {
    const auto own = [&]() -> PyObject* {
        if (element_dispatches(self)) [[unlikely]]
            return dispatched_as(self, PyNumber_Float);
        Tensor t = reading(self);
        ops::expect_one(t, "float");
        return PyFloat_FromDouble(t.item_double());
    };
    return overridable("__float__", {self}, [&] { return guarded_method("float", {self}, own); });
}
PyObject* nb_index(PyObject* self) {
    const auto own = [&]() -> PyObject* {
        if (element_dispatches(self)) [[unlikely]]
            return dispatched_as(self, PyNumber_Index);
        Tensor t = reading(self);
        ops::expect_index(t);
        return element_as_int(t);
    };
    return overridable("__index__", {self}, [&] { return guarded_method("index", {self}, own); });
}

}  // namespace

PyObject* tensor_compare(PyObject* a, PyObject* b, int how) {
    static const Op* const ops[] = {&op_named("lt"), &op_named("le"), &op_named("eq"),
                                    &op_named("ne"), &op_named("gt"), &op_named("ge")};
    static constexpr const char* names[] = {"lt", "le", "__eq__", "ne", "gt", "ge"};
    PyObject* out;
    if (Overrides::known() && Overrides::answer(names[how], {a, b}, out)) [[unlikely]]
        return out;
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
