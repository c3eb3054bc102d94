#include "autograd/fit.h"

#include "autograd/sparse.h"
#include "ops/functions.h"

namespace weft {
namespace {

bool broadcasts_to(DimSpan from, DimSpan to) {
    if (from.size() > to.size()) return false;
    size_t lead = to.size() - from.size();
    for (size_t d = 0; d < from.size(); ++d)
        if (from[d] != 1 && from[d] != to[lead + d]) return false;
    return true;
}

}  // namespace

void fit_to(FunctionRef<std::string()> from, DimSpan shape, DType dtype, Tensor& t, int i) {
    if (sparse::is(t)) {
        if (equal(t.shape(), shape) && t.dtype() == dtype) return;
        fail(ErrorKind::Runtime, from(),
             text("a sparse gradient of ", name(dtype), to_string(shape)),
             text(name(t.dtype()), to_string(t.shape())));
    }
    if (!equal(t.shape(), shape)) {
        if (!broadcasts_to(shape, t.shape()))
            fail(ErrorKind::Runtime, from(),
                 text(i < 0 ? std::string("a gradient") : text("gradient ", i), " of shape ",
                      to_string(shape)),
                 text(to_string(t.shape()), " (the function returned an invalid gradient at index ",
                      i, " - got ", to_string(t.shape()), " but expected shape compatible with ",
                      to_string(shape), ")"));
        t = ops::sum_to(t, shape);
    }
    if (t.dtype() == dtype) return;
    // A real input of a complex op: what would move it off the real line counts for nothing.
    static const ops::Function real{"real"};
    if (is_complex(t.dtype()) && !is_complex(dtype)) t = real(t);
    if (t.dtype() != dtype) t = ops::to(t, dtype);
}

}  // namespace weft
