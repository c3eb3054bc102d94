/// How a record is written: OpBuilder, a method for each field of Op that a record may say.
#pragma once
#include <utility>

#include "ops/op.h"

namespace weft {
namespace ops {
/// Throws NotImplemented if an input whose values the shape rule reads has none (Note [On meta]).
void expect_values(const Call& c);
}  // namespace ops

/// Writes one record: `table.add("tanh(Tensor self) -> Tensor").doc(...).shape(...).kernel(...)`.
class OpBuilder {
public:
    explicit OpBuilder(Op& op) : op_(op) {}
    // What takes text is in table.cpp: strings are made there, and not once per record.
    OpBuilder& doc(std::string_view text);
    OpBuilder& shape(void (*rule)(Call&)) {
        op_.shape = rule;
        return *this;
    }
    OpBuilder& kernel(void (*run)(Call&)) {
        op_.kernel = run;
        return *this;
    }
    OpBuilder& body(void (*run)(Call&)) {
        op_.body = run;
        return *this;
    }
    /// Of ops whose work is products: what a profile and a summary count (ops/flops.h).
    OpBuilder& flops(FlopRule rule) {
        op_.flops = rule;
        return *this;
    }
    /// The gradient of input `i`; `saved` is all that the rule reads.
    OpBuilder& grad(int i, SaveMask saved, GradRule rule);
    /// `inputs`: the mask of those that it gives gradients to; the node has edges for these.
    OpBuilder& joint_grad(SaveMask saved, JointRule rule, uint32_t inputs = ~0u) {
        op_.joint = rule;
        op_.joint_saves = saved;
        op_.joint_inputs = inputs;
        return *this;
    }
    /// Inputs of which the node shows nothing where they are numbers: PyTorch has another function
    /// for these, whose name is the node's (a rule of node_name).
    OpBuilder& numbers_apart(uint32_t inputs) {
        op_.numbers_apart = inputs;
        return *this;
    }
    /// Results require grad, and a pass that comes to them raises: where PyTorch lacks the gradient.
    OpBuilder& no_derivative();
    OpBuilder& keep_shapes() {
        op_.keep_shapes = true;
        return *this;
    }
    OpBuilder& constant_output(int k) {
        op_.constant_outputs |= 1u << k;
        return *this;
    }
    OpBuilder& node_name(std::string_view name);
    /// What each output prints as its grad_fn; the node goes by the first.
    OpBuilder& node_names(std::vector<std::string> names) {
        op_.node_name = names[0];
        op_.node_names = std::move(names);
        return *this;
    }
    /// A name that depends on the call, where PyTorch's does.
    OpBuilder& node_name(const char* (*name)(const Call&)) {
        op_.backward_name = name;
        return *this;
    }
    /// Where elements of an input go, of ops whose calls stand between batches of many examples.
    OpBuilder& way(WayRule rule) {
        op_.way = rule;
        return *this;
    }
    /// Calls merge by the rule of all such ops, unless the record names another.
    OpBuilder& pointwise() {
        op_.pointwise = true;
        if (op_.overlap == Overlap::Any) op_.overlap = Overlap::Same;
        if (op_.batch == Batch::None) op_.batch = Batch::Rows;
        if (!op_.batch_rule) op_.batch_rule = ops::batch_pointwise;
        return *this;
    }
    OpBuilder& batch(Batch how) {
        op_.batch = how;
        return *this;
    }
    /// By a rule, in any order with the kind; alone it means Rows.
    OpBuilder& batch(BatchRule rule, SaveMask shared = 0) {
        if (op_.batch != Batch::Join) op_.batch = Batch::Rows;
        op_.batch_rule = rule;
        op_.batch_shared = InputSet(shared);
        return *this;
    }
    OpBuilder& view() {
        op_.view = op_.every_dtype = true;
        return *this;
    }
    OpBuilder& autocast(Cast to) {
        op_.autocast = to;
        return *this;
    }
    OpBuilder& memory_format(Formats means) {
        op_.memory_format = means;
        return *this;
    }
    OpBuilder& uint64(Uint64 taken) {
        op_.uint64 = taken;
        return *this;
    }
    OpBuilder& float8() {
        op_.float8 = true;
        return *this;
    }
    OpBuilder& every_dtype() {
        op_.every_dtype = true;
        return *this;
    }
    OpBuilder& strided_output() {
        op_.strided_output = true;
        return *this;
    }
    /// The in-place form writes one number wherever it writes, so elements may share memory.
    OpBuilder& writes_repeats() {
        op_.writes_repeats = true;
        return *this;
    }
    /// A shape rule that looks at the values of `inputs`; a call in which one has none raises.
    template <void (*rule)(Call&)>
    OpBuilder& shape_of_values(SaveMask inputs) {
        op_.reads = op_.reads_values = InputSet(inputs);
        op_.shape = [](Call& c) {
            ops::expect_values(c);
            rule(c);
        };
        return *this;
    }
    /// Inputs whose place in memory the shape rule looks at, not their values.
    OpBuilder& reads_place(SaveMask inputs) {
        op_.reads = InputSet(inputs);
        return *this;
    }
    /// Inputs that the shape rule or the kernel reads where they have no dimensions.
    OpBuilder& reads_numbers(SaveMask inputs) {
        op_.reads_numbers = InputSet(inputs);
        return *this;
    }
    /// Inputs that may lie on another device than the rest: what is copied from, indices.
    OpBuilder& any_device(SaveMask inputs) {
        op_.any_device = InputSet(inputs);
        return *this;
    }
    OpBuilder& factory() {
        op_.factory = true;
        op_.method = false;
        return *this;
    }
    OpBuilder& random() {
        op_.random = true;
        return *this;
    }
    OpBuilder& inplace() {
        op_.inplace = true;
        return *this;
    }
    OpBuilder& out_form() {
        op_.out_form = true;
        return *this;
    }
    OpBuilder& number_self() {
        op_.number_self = true;
        return *this;
    }
    /// No input may overlap what an in-place or out= form writes, but for those in `allowed`.
    OpBuilder& apart(uint32_t allowed = 0) {
        op_.overlap = Overlap::None;
        op_.overlap_allowed = InputSet(allowed);
        return *this;
    }
    /// Inputs that may overlap what an in-place form writes: read before, as a number is.
    OpBuilder& may_overlap(uint32_t inputs) {
        op_.overlap_allowed = InputSet(inputs);
        return *this;
    }
    OpBuilder& method_only() {
        op_.function = false;
        return *this;
    }
    OpBuilder& function_only() {
        op_.method = false;
        return *this;
    }
    /// Neither a function nor a method: used by gradient rules and by the Python package as
    /// `weft._C.ops.name`.
    OpBuilder& internal() {
        op_.function = op_.method = false;
        return *this;
    }
    /// Files of programs may call an internal op all the same: functions of weft's that they have
    /// bring it in. So its shape rule looks at all that its kernel relies on.
    OpBuilder& in_packages() {
        op_.in_packages = true;
        return *this;
    }
    /// The version of its name with which the record came, or last changed (Note [Versions]).
    OpBuilder& version(int number) {
        op_.version = number;
        return *this;
    }
    /// An older form of a name, for files of versions below `number` (Note [Versions]).
    OpBuilder& until(int number) {
        op_.until = number;
        return *this;
    }
    /// The op in ONNX's operators: an expression over the names of parameters, "self *
    /// Sigmoid(self)". What else it may say is in weft/onnx/records.py.
    OpBuilder& onnx(std::string_view expression);
    /// Why ONNX has no form of it, as in "no inverse of Erf".
    OpBuilder& no_onnx(std::string_view why);
    OpBuilder& alias(std::string_view name);
    /// A further name of parameter `name` in calls, beside NumPy's (schema.cpp).
    OpBuilder& alias_of(std::string_view name, std::string alias);
    /// Names of parameters, in an order in which older programs pass them.
    OpBuilder& older_order(std::vector<std::string> names) {
        op_.older_orders.push_back(std::move(names));
        return *this;
    }
    /// Calls as Python text. T(*sizes, lo=-2, hi=2) is a float tensor, I(*sizes, high=5) int64,
    /// B(*sizes) bool, `f` the op itself.
    OpBuilder& samples(std::initializer_list<std::string_view> calls);
    OpBuilder& samples(std::vector<std::string> calls);

private:
    Op& op_;
};

}  // namespace weft
