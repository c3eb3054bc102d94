#include "ops/element.h"

#include "ops/indexing.h"

namespace weft::ops {

bool truth_of(const Tensor& t) {
    WEFT_EXPECT(t.numel() == 1, Runtime, "bool", "a tensor with one element",
                text("shape ", to_string(t.shape()), " (Boolean value of Tensor with ",
                     t.numel() ? "more than one value is ambiguous)" : "no values is ambiguous)"));
    if (t.dtype() == DType::Bool && !t.has(kMeta)) return t.data<uint8_t>()[0] != 0;
    return t.item_complex() != 0.0;
}

void expect_one(const Tensor& t, const char* who) {
    WEFT_EXPECT(t.numel() == 1, Value, who, "one element",
                text("shape ", to_string(t.shape()),
                     " (only one element tensors can be converted to Python scalars)"));
    WEFT_EXPECT(!is_complex(t.dtype()) || t.item_complex().imag() == 0, Runtime, who,
                "a real number",
                text(t.item_complex().real(), " + ", t.item_complex().imag(),
                     "j (value cannot be converted to type double without overflow)"));
}

void expect_index(const Tensor& t) {
    WEFT_EXPECT(!is_inexact(t.dtype()) && t.numel() == 1, Type, "index",
                "an integer tensor of one element (only integer tensors of a single element can "
                "be converted to an index)",
                text(name(t.dtype()), " ", to_string(t.shape())));
}

void expect_rows(const Tensor& t) {
    WEFT_EXPECT(t.ndim() > 0, Type, "iter", "a tensor with dimensions",
                "a 0-d tensor (iteration over a 0-d tensor)");
}

void expect_bits(const Tensor& t) {
    WEFT_EXPECT(
        !is_inexact(t.dtype()), Type, "~", "another dtype",
        text(name(t.dtype()),
             " (~ (operator.invert) is only implemented on integer and Boolean-type tensors)"));
}

void expect_assignable(const Tensor& number, const Tensor& t) {
    if (!is_floating(t.dtype()) || is_complex(number.dtype()))
        require_fits("index", number, t.dtype());
}

Value number_in(const Tensor& t) {
    if (t.dtype() == DType::Bool) return t.item_int() != 0;
    if (is_floating(t.dtype())) return t.item_double();
    if (is_complex(t.dtype())) return t.item_complex();
    return t.item_int();
}

}  // namespace weft::ops
