/// What tensors do in programs, as the binding has it: operators, attributes, items, numbers.
#pragma once
#include "native/operators.h"
#include "ops/op.h"

namespace weft::native {

/// For the door: in defer mode it may stay pending.
Tensor operand(Raw tensor);
/// For reading values, outside of the graph.
Tensor reading(Raw tensor);
/// A number as a 0-d tensor that yields in promotion; `like` is the other operand's dtype.
Tensor number_tensor(Raw number, const Tensor* like);
/// One element as a number.
Thing item_of(const Tensor& t);

// Empty: not for them.
Thing tensor_binary(int32_t op, Raw a, Raw b);
Thing tensor_inplace(int32_t op, Raw a, Raw b);
Thing tensor_unary(int32_t op, Raw a);
Thing tensor_compare(int32_t op, Raw a, Raw b);

bool tensor_truth(Raw tensor);
bool tensor_contains(Raw tensor, Raw item);
int64_t tensor_length(Raw tensor);
int64_t tensor_index(Raw tensor);
int64_t tensor_as_int(Raw tensor);
double tensor_as_double(Raw tensor);
/// A tuple of its rows.
Thing tensor_rows(Raw tensor);
Thing tensor_get_item(Raw tensor, Raw key);
void tensor_set_item(Raw tensor, Raw key, Raw value);
std::string tensor_repr(Raw tensor);
/// Empty: it has no such attribute.
Thing tensor_attribute(Raw tensor, const std::string& name);
/// False: it has none that can be set.
bool tensor_set_attribute(Raw tensor, const std::string& name, Raw value);
/// A new tensor of nested sequences of numbers or tensors; `dtype` may be None.
Thing tensor_from(Raw data, Raw dtype);
/// The results of a call: a tensor, a tuple, or a named tuple.
Thing results_of(Call& c);
/// Nested lists of its elements.
Thing tensor_to_list(const Tensor& t);
/// A torch.Size.
Thing size_of(DimSpan dims);

}  // namespace weft::native
