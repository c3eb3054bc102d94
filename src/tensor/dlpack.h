/// DLPack's types and layouts as weft's (https://dmlc.github.io/dlpack/latest/c_api.html).
#pragma once
#include <array>
#include <string_view>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace weft {

/// The fields of a DLDataType.
struct DlpackType {
    uint8_t code, bits;
    uint16_t lanes;
    bool operator==(const DlpackType&) const = default;
};
namespace detail {
extern const std::array<DlpackType, kDTypeCount> dlpack_types;
}
inline DlpackType dlpack_type(DType t) { return detail::dlpack_types[static_cast<size_t>(t)]; }

/// What a DLTensor says of its elements, checked. Throws Runtime, with `who`, for what weft has not.
struct DlpackLayout {
    /// `strides` may be null: row-major.
    DlpackLayout(std::string_view who, DlpackType type, int32_t ndim, const int64_t* shape,
                 const int64_t* strides);
    DType dtype;
    Dims shape, strides;
    int64_t bytes = 0;  ///< from the first element to behind the last
};

}  // namespace weft
