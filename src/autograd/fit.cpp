#include "autograd/fit.h"

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

void detail::fit_slow(const Node& from, const ResultInfo& want, Tensor& t, int i) {
    if (!equal(t.shape(), want.shape())) {
        if (!broadcasts_to(want.shape(), t.shape()))
            fail(ErrorKind::Runtime, from.name(),
                 text(i < 0 ? std::string("a gradient") : text("gradient ", i), " of shape ",
                      to_string(want.shape())),
                 text(to_string(t.shape()), " (the function returned an invalid gradient at index ",
                      i, " - got ", to_string(t.shape()), " but expected shape compatible with ",
                      to_string(want.shape()), ")"));
        t = ops::sum_to(t, want.shape());
    }
    if (t.dtype() == want.dtype()) return;
    // A real input of a complex op: what would move it off the real line counts for nothing.
    static const ops::Function real{"real"};
    if (is_complex(t.dtype()) && !is_complex(want.dtype())) t = real(t);
    if (t.dtype() != want.dtype()) t = ops::to(t, want.dtype());
}

}  // namespace weft
