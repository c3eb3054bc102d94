/// What messages that programs know from PyTorch call dtypes.
#pragma once
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace weft {

/// "Float" of float32, "Long" of int64.
constexpr std::string_view scalar_name(DType t) {
    switch (t) {
        case DType::Bool:
            return "Bool";
        case DType::UInt8:
            return "Byte";
        case DType::Int8:
            return "Char";
        case DType::Int16:
            return "Short";
        case DType::Int32:
            return "Int";
        case DType::Int64:
            return "Long";
        case DType::UInt16:
            return "UInt16";
        case DType::UInt32:
            return "UInt32";
        case DType::UInt64:
            return "UInt64";
        case DType::Float16:
            return "Half";
        case DType::BFloat16:
            return "BFloat16";
        case DType::Float32:
            return "Float";
        case DType::Float64:
            return "Double";
        case DType::Complex64:
            return "ComplexFloat";
        case DType::Complex128:
            return "ComplexDouble";
        default:
            return name(t);
    }
}

/// "torch.FloatTensor" of float32.
inline std::string tensor_type_name(DType t) {
    return "torch." + std::string(scalar_name(t)) + "Tensor";
}

}  // namespace weft
