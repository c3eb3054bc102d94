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

int64_t gain_of(const Segment& segment) {
    constexpr int64_t kStep = 5, kRun = 10, kRecorded = 12, kRecordedRun = 24, kElements = 400;
    int64_t gain = 0, elements = 0;
    bool recorded = false;
    for (const Step& step : segment.steps) {
        const bool wants_grad = segment.value(step.first_out).wants_grad;
        gain += wants_grad ? kRecorded : kStep;
        recorded |= wants_grad;
    }
    for (const SegmentValue& v : segment.values)
        if (v.kind == SegmentValue::Kind::Result) elements += v.layout.numel();
    return gain - (recorded ? kRecordedRun : kRun) + elements / kElements;
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
