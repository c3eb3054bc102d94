/// The node of a custom autograd.Function.
#pragma once
#include <string>
#include <vector>

#include "autograd/saved.h"
#include "python/object.h"

namespace weft::python {

class FunctionNode final : public LooseNode {
public:
    FunctionNode(PyObject* context, PyObject* backward, std::string name, bool materialize);
    ~FunctionNode();
    std::string name() const override { return name_; }
    void run(Work& work) override;
    void release_saved() override;

    /// Keeps `tensors` for backward; those among `outputs` as Note [Saved outputs] says.
    void save(const std::vector<Tensor>& tensors, const std::vector<Tensor>& outputs);
    /// Throws Runtime if one was written since, or after release.
    std::vector<Tensor> saved();
    PyObject* context() const { return context_.get(); }

private:
    void take_results(PyObject* given, Work& work) const;

    Object context_, backward_;
    std::string name_;
    bool materialize_;
    bool released_ = false;
    std::vector<SavedTensor> saved_;
    std::vector<int> output_of_;
};

}  // namespace weft::python
