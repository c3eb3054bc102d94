/// How tensors print: PyTorch's text to the letter, from raw data and strides.
///
/// A repr is `prefix body{, suffix})`. The body is nested brackets; every element is padded to one
/// width that is chosen by looking at all the elements that will be shown (see ElementFormat in
/// format.cpp). Nothing here depends on the C locale.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace weft {

/// What `set_printoptions` sets.
struct FormatOptions {
    static constexpr int64_t kNoThreshold = std::numeric_limits<int64_t>::max();

    int precision = 4;         ///< digits after the point
    int64_t threshold = 1000;  ///< tensors of more elements are summarised with "..."
    int64_t edgeitems = 3;     ///< elements shown at either end of a summarised dim
    int64_t linewidth = 80;    ///< characters after which a line is broken
    int sci_mode = -1;         ///< 1.0000e+00 always (1), never (0), or where it reads better (-1)
    bool summary = false;      ///< suffixes about the elements (python/summary.h)
};

/// The options of this process; read and written by the holder of the GIL.
FormatOptions& format_options();

/// Sets all but `sci_mode` from a named profile: "default", "short" or "full". Throws Value.
void apply_profile(FormatOptions& options, std::string_view name);

/// The elements to show: the address of element [0, 0, …], sizes, and strides in elements.
struct FormatView {
    DType dtype;
    const void* data;
    DimSpan shape;
    DimSpan strides;
};

/// The suffixes `size=(0, 3)` and `dtype=torch.float64`, each where the body does not tell.
/// `dtype_module` is the text before the dtype's name.
std::vector<std::string> layout_suffixes(DType dtype, DimSpan shape, DType default_dtype,
                                         std::string_view dtype_module = "torch.",
                                         const FormatOptions& options = format_options());

/// The same of a meta tensor, which has no body: device, size, and the dtype unless it is the default.
std::vector<std::string> unseen_suffixes(DType dtype, DimSpan shape, DType default_dtype);

/// The whole repr, closing parenthesis included. `prefix` opens it ("tensor("); lines after the
/// first are indented below its last line, so "Parameter containing:\ntensor(" works as well.
/// Throws Value if precision or edgeitems is negative.
///
///     format_tensor({DType::Float32, data, shape, strides}, "tensor(", suffixes)
///     // tensor([1.0000, 2.5000], grad_fn=<MulBackward0>)
std::string format_tensor(const FormatView& view, std::string_view prefix,
                          std::span<const std::string> suffixes,
                          const FormatOptions& options = format_options());
/// The same without a body: `tensor(..., device='meta', size=(2, 3))`.
std::string format_unseen(std::string_view prefix, std::span<const std::string> suffixes,
                          const FormatOptions& options = format_options());

}  // namespace weft
