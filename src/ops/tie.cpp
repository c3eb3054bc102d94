/// Where the results of custom functions join the graph when calls are kept.
///
/// Note [Ties]
/// In a batch a custom function's forward is calls like any other, outside of the graph. Then one call
/// of `_tie` takes its inputs and results and gives the results again, with a gradient. Such calls
/// merge whatever they did, as rows of single elements; what a merged one becomes is one node over
/// the blocks, whose backward runs those of all functions in it (weft/autograd/_merged.py). Which they
/// are is told by one more operand: 8 bytes for each.
#include "base/intern.h"
#include "ops/batch.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/shape.h"

namespace weft {
namespace ops {
namespace {

int inputs_of(const Call& c) { return static_cast<int>(c.attr(0).as_int()); }
int results_of(const Call& c) { return static_cast<int>(c.attr(1).as_int()); }

void tie_shape(Call& c) {
    for (int k = 0; k < results_of(c); ++k) {
        const Tensor& result = c.in[inputs_of(c) + k];
        c.add(preserved_layout(result, result.dtype()));
    }
}

void tie_kernel(Call& c) {
    for (int k = 0; k < c.outputs; ++k) copy_into(c.out(k), c.in[inputs_of(c) + k]);
}

/// A leaf is one operand for all calls: its gradients are summed. What backward reads is only read.
bool tie_rows(const BatchCall& b, BatchForm& form) {
    static const Function rows{"_tie_rows"};
    const int inputs = inputs_of(b.call), passed = inputs + results_of(b.call) + 1;
    int64_t shared = 0;
    for (int i = 0; i < passed; ++i) {
        if (i < inputs && b.fixed(i)) {
            form.add_shared(i);
            shared |= int64_t{1} << i;
        } else {
            form.add_rows(i, {}, b.in(i).numel());
        }
    }
    form.op = &rows.op();
    form.attrs.push_back(shared);
    return true;
}

/// As the node prints.
const char* tie_node(const Call& c) { return intern(c.attr(2).as_text()); }

void no_rule(Grad&) {
    fail(ErrorKind::Runtime, "_tie", "a call that is kept", "one that ran by itself");
}

}  // namespace
}  // namespace ops

void register_tie(Table& t) {
    using namespace ops;
    t.add("_tie(Tensor[] tensors, *, int inputs, int results, str node) -> Tensor[]")
        .doc(
            "In a deferred scope: the results of a custom function as parts of the graph. "
            "`tensors`\n"
            "are its inputs that want a gradient, its results, 8 bytes that name it, and whatever\n"
            "else backward reads.")
        .shape(tie_shape)
        .kernel(tie_kernel)
        .every_dtype()
        .batch(tie_rows)
        .internal()
        .node_name(tie_node)
        .joint_grad(0, no_rule);
    t.add("_tie_rows(Tensor[] tensors, *, int inputs, int results, str node, int shared) -> "
          "Tensor[]")
        .doc("Several of them: blocks of elements, but for inputs in the mask `shared`.")
        .body([](Call& c) { hooks.tie(c); })
        .internal();
}

}  // namespace weft
