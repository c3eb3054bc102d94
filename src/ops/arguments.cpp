#include "ops/arguments.h"

namespace weft::ops {

std::string_view kind_text(Param::Kind kind) {
    constexpr std::string_view kTexts[] = {
        "Tensor", "tuple of Tensors", "int", "tuple of ints", "float", "bool",
        "Number", "torch.dtype",      "str"};
    return kTexts[static_cast<size_t>(kind)];
}

void expect_no_imaginary(const Op& op, const Tensor& self) {
    WEFT_EXPECT(!self.defined() || is_complex(self.dtype()) || self.dtype() == DType::Bool, Runtime,
                op.public_name, text("a real number for a tensor of dtype ", name(self.dtype())),
                "a complex one (value cannot be converted to type double without overflow)");
}

std::string no_overload(std::string_view name, const std::vector<const Op*>& overloads,
                        FunctionRef<std::string(const Op&)> reason) {
    std::string schemas, reasons;
    for (const Op* op : overloads) {
        schemas += "\n  " + op->schema;
        reasons += "\n  " + reason(*op);
    }
    return text("[", name, "] expected arguments of", schemas, "\ngot", reasons);
}

}  // namespace weft::ops
