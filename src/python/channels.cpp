/// memory_format=torch.channels_last: dims (n, height, width, c) in memory.
#include "ops/functions.h"
#include "python/slots.h"

namespace weft::python {
namespace {

/// The dims in memory: 0, 2, ..., n - 1, 1; or the inverse of that.
Dims channels_moved(int ndim, bool back) {
    Dims order{0};
    if (back) order.push_back(ndim - 1);
    for (int d = 2; d < ndim; ++d) order.push_back(back ? d - 1 : d);
    if (!back) order.push_back(1);
    return order;
}

}  // namespace

int channels_last_dims(PyObject* format) {
    static PyObject* last = nullptr;  // the format asked for last, held, and what it means
    static int dims = 0;
    if (format == last) return dims;
    Object shown = Object::take(PyObject_Str(format));
    std::string_view name = to_text(shown.get());
    dims = name == "torch.channels_last" ? 4 : name == "torch.channels_last_3d" ? 5 : 0;
    Py_XSETREF(last, Py_NewRef(format));
    return dims;
}

bool channels_are_last(const Tensor& t, int dims) {
    if (t.ndim() != dims) return false;
    int64_t step = 1;
    Dims order = channels_moved(dims, false);
    for (int k = dims - 1; k >= 0; --k) {
        int d = static_cast<int>(order[k]);
        if (t.size(d) != 1 && t.stride(d) != step) return false;
        step *= t.size(d);
    }
    return true;
}

Tensor with_channels_last(const Tensor& t, int dims) {
    WEFT_EXPECT(t.ndim() == dims, Runtime, "memory_format",
                text("a tensor of rank ", dims, " (required rank ", dims,
                     " tensor to use channels_last format)"),
                text("rank ", t.ndim()));
    if (channels_are_last(t, dims)) return t;
    static const ops::Function permute{"permute"}, contiguous{"contiguous"};
    Tensor moved = contiguous(permute(t, channels_moved(dims, false)));
    return permute(moved, channels_moved(dims, true));
}

}  // namespace weft::python
