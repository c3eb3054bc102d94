/// The node of a custom autograd.Function.
#pragma once
#include <string>
#include <vector>

#include "autograd/custom.h"
#include "python/object.h"

namespace weft::python {

class FunctionNode final : public CustomNode {
public:
    /// `takes_gradient`: for each argument of forward, whether it is a tensor (and has an edge).
    FunctionNode(PyObject* context, PyObject* backward, std::string name,
                 std::vector<bool> takes_gradient);
    ~FunctionNode();
    std::string name() const override { return name_; }
    void run(Work& work) override;
    PyObject* context() const { return context_.get(); }

    /// While backward runs: what it got.
    const std::vector<Tensor>* grads = nullptr;
    bool materialize = true;  ///< zeros instead of None for outputs without gradient
    std::vector<bool> output_is_tensor;

private:
    Object arguments(const std::vector<Tensor>& grads) const;

    Object context_, backward_;
    std::string name_;
    std::vector<bool> takes_gradient_;
};

}  // namespace weft::python
