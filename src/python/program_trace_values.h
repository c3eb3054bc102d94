/// What a trace asks of Python's objects.
#pragma once
#include <string_view>

#include "python/program_trace.h"

namespace weft::python::tracing {

/// Stands in a register for what was there at the start and has not been looked at.
struct PyLive {
    PyObject_HEAD PyObject* actual;
    PyObject* traced;  ///< of a tensor that was used
    int32_t source;
    bool is_used;
};
extern PyTypeObject live_type;
bool is_live(PyObject* o);
PyLive& live_of(PyObject* o);
PyObject* type_of(PyObject* o);
PyObject* parameter_type();
PyTypeObject* module_type();
bool is_plain_tensor(PyObject* o);
bool is_traced_tensor(PyObject* o);
/// A tensor that the trace made of no traced one: others are traced before anything is asked of them.
bool is_made_here(PyObject* o);
bool is_module(PyObject* o);
PyTypeObject* size_type();
PyTypeObject* dtype_type();
/// Of exactly these types nothing but the value counts.
bool is_number_like(PyObject* o);
bool is_value(PyObject* o);
bool is_container(PyObject* o);
/// A method of an object in C, made by each look-up: `out.append`.
bool is_bound_builtin(PyObject* o);
/// What is itself, whatever it is asked.
bool is_fixed(PyObject* o);
/// An error that a trace came to: what runs after it comes to the same. Ctrl-C is another matter.
void forget_error();
bool is_of(PyObject* o, const char* type);
/// Names of the records, for functions of `_C` that are written by hand.
bool is_name_of_op(PyObject* name);
bool is_builtin_function(PyObject* o);
bool is_of_module(PyObject* function, const char* module);
/// Functions of the package that call ops and do nothing else.
bool is_of_ops(PyObject* o);
/// `names` has a space around each.
bool is_among(std::string_view name, std::string_view names);
bool is_among(PyObject* name, std::string_view names);
/// Of those that ops are, or that tell of layouts.
bool is_method_of_tensors(PyObject* name);
/// Such a method, looked up in a traced tensor.
bool is_bound_to_traced(PyObject* o);
bool is_pure_type(PyObject* o);
/// Note [Scopes]
bool is_scope_type(PyObject* o);

/// What a layout says of a tensor.
constexpr std::string_view kLayoutAttributes =
    " shape dtype device ndim T mT H mH is_cuda layout real imag itemsize ";
constexpr std::string_view kLayoutMethods =
    " size dim numel nelement stride ndimension is_floating_point is_complex "
    "is_contiguous element_size get_device __len__ ";
/// Methods of containers that change nothing, and those that change what was made here.
constexpr std::string_view kReaders = " items keys values get index count copy ";
constexpr std::string_view kWriters =
    " append extend insert pop update setdefault add reverse clear remove ";
constexpr std::string_view kBuiltins =
    " len isinstance min max abs sum getattr divmod round any all callable id ";
/// Of weft's own functions that are no ops: those that only tell what a stretch depends on anyway.
constexpr std::string_view kOwn = " get_default_dtype is_grad_enabled promote_types tensor ";

}  // namespace weft::python::tracing
