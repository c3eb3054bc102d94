#include "ops/way.h"

#include "ops/each.h"

namespace weft::ops {

bool each_way(const Op& op, const Way& way, AddSpan add) {
    if (way.elements.empty()) return false;
    if (op.way) {
        op.way(way, add);
        return true;
    }
    if (op.one) {
        add(outputs_of_part(op, way.attrs, way.input, way.elements, way.output));
        return true;
    }
    const bool as_they_lie =
        op.batch == Batch::Alias ||
        (op.pointwise && count_elements(op.name, way.in) == count_elements(op.name, way.out));
    if (as_they_lie) add(way.elements);
    return as_they_lie;
}

}  // namespace weft::ops
