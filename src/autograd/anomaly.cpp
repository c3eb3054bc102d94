#include "autograd/anomaly.h"

#include "autograd/engine.h"
#include "autograd/sparse.h"
#include "ops/functions.h"

namespace weft::anomaly {
namespace {

bool has_nan(const Tensor& t) {
    if (sparse::is(t)) return has_nan(sparse::host.values(t));
    const ops::Function any{"any"};
    return any(ops::isnan(t.has(kPending) ? host.values(t) : t)).item_int() != 0;
}

void check_results(const Node& node, const std::vector<Tensor>& results) {
    ModeGuard quiet(0, kGradMode);
    for (size_t i = 0; i < results.size(); ++i)
        if (results[i].defined() && is_floating(results[i].dtype()) && has_nan(results[i]))
            throw Error(ErrorKind::Runtime, text("Function '", node.name(),
                                                 "' returned nan values in its ", i, "th output."));
}

const Trace* trace_of(const Node& node) {
    NodeHooks* hooks = node.hooks_or_null();
    return hooks ? hooks->trace.get() : nullptr;
}

}  // namespace

void set(bool enabled, bool check_nan) {
    on = enabled;
    inspect_results = enabled && check_nan ? check_results : nullptr;
}

bool checks_nan() { return inspect_results != nullptr; }

std::shared_ptr<const Trace> trace() {
    auto made = std::make_shared<Trace>();
    if (host.stack) made->stack = host.stack();
    if (const Node* by = Running::current) {
        made->induced_by = by->name();
        if (NodeHooks* hooks = by->hooks_or_null()) made->parent = hooks->trace;
    }
    return made;
}

void report(const Node& node) {
    if (!on || !host.warn) return;
    const Trace* trace = trace_of(node);
    if (!trace)
        return host.warn(text("Error detected in ", node.name(),
                              ". No forward pass information "
                              "available. Enable detect anomaly during forward pass for more "
                              "information."));
    host.warn(text("Error detected in ", node.name(),
                   ". Traceback of forward call that caused the "
                   "error:\n",
                   trace->stack));
    for (; !trace->induced_by.empty() && trace->parent; trace = trace->parent.get())
        host.warn(text("\n\nPrevious calculation was induced by ", trace->induced_by,
                       ". Traceback of forward call that induced the previous calculation:\n",
                       trace->parent->stack));
}

}  // namespace weft::anomaly
