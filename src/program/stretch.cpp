#include "program/stretch.h"

#include "autograd/anomaly.h"
#include "ops/random.h"
#include "ops/scopes.h"

namespace weft::program {

bool stretches_may_run() {
    constexpr uint32_t kOthers = kAutocastMode | kMapMode | kWatchMode | kTraceMode |
                                 kFunctionMode | kMetaMode | kDispatchMode;
    return !(mode & kOthers) && !ops::scopes.pack_hooks && !anomaly::on;
}

int64_t gain_of(const Segment& segment, int32_t steps) {
    constexpr int64_t kStep = 6, kVisit = 5, kElements = 400;
    int64_t elements = 0;
    for (const SegmentValue& v : segment.values)
        if (v.kind == SegmentValue::Kind::Result) elements += v.layout.numel();
    return kStep * steps - kVisit + elements / kElements;
}

bool run_plan(DifferentiablePlan& plan, bool draws, const Tensor* inputs, Tensor* outputs) {
    try {
        if (!draws) {
            plan.run(inputs, outputs);
            return true;
        }
        const kernels::Generator before = ops::generator();
        try {
            plan.run(inputs, outputs);
        } catch (...) {
            ops::generator() = before;
            throw;
        }
        return true;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace weft::program
