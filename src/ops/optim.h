/// Optimizer steps over one parameter, each one pass over its memory.
///
/// An optimizer is a formula for one element (optim_rules.h); everything else is common to all.
/// Updates happen below the graph, as PyTorch's do under no_grad: the caller raises versions.
#pragma once
#include <string_view>

#include "tensor/tensor.h"

namespace weft::ops {

constexpr int kMaxNumbers = 3, kMaxBuffers = 3, kMaxSettings = 10;

/// One parameter and its state. An undefined buffer is one that the settings do not ask for.
struct StepTarget {
    Tensor param, grad;
    Tensor numbers[kMaxNumbers];  ///< one element each, such as the count of steps
    Tensor buffers[kMaxBuffers];  ///< of the parameter's shape and dtype
    bool fresh = false;           ///< the state was made for this step
};

/// What a rule made of its settings and of the numbers of the parameter before, which mostly are the same
/// for all: its powers and roots take longer than the elements of a small parameter.
struct LastRule {
    static constexpr size_t kSize = 128;
    DType dtype, of_numbers[kMaxNumbers];
    bool fresh, is_there = false;
    double before[kMaxNumbers], after[kMaxNumbers];
    alignas(double) char rule[kSize];
};

struct StepRule {
    std::string_view name;
    int numbers, buffers, settings;
    /// `last`: of the parameters before this one, with the same settings.
    void (*step)(const StepTarget& target, const double* settings, bool maximize, LastRule& last);
};

/// The rule of that name, or nullptr.
const StepRule* find_step_rule(std::string_view name);

}  // namespace weft::ops
