#include "autograd/sparse.h"

#include <cstring>

#include "autograd/accumulate.h"
#include "autograd/custom.h"

namespace weft::sparse {
namespace {

/// All ones: nan in every dtype that has one.
alignas(16) unsigned char nothing[16];

/// What the storages of shells have in common: who gets them back.
void give_back(void*) {}

}  // namespace

bool is_shell(const Tensor& t) {
    const Storage* storage = t.storage().get();
    return storage && storage->block == 0 && storage->give_back == give_back;
}

Tensor make_shell(DType dtype, DimSpan shape) {
    known = true;
    std::memset(nothing, 0xff, sizeof nothing);
    Ref<Storage> storage = borrow_storage(nothing, item_size(dtype), give_back, nullptr);
    storage->read_only = true;
    Dims strides(shape.size());
    for (auto& s : strides) s = 0;
    char* data = storage->data;
    return Tensor::from_storage(std::move(storage), data, dtype, shape, strides);
}

void expect_taken(Node& node, const std::vector<Tensor>& grads) {
    for (const Tensor& g : grads) {
        if (!is(g) || dynamic_cast<CustomNode*>(&node) || dynamic_cast<AccumulateGrad*>(&node))
            continue;
        fail(ErrorKind::NotImplemented, node.name(), "a dense gradient",
             text("a sparse one (Could not run '", node.name(),
                  "' with arguments from the 'SparseCPU' backend)"),
             "a sparse gradient goes to a leaf: give the table itself to embedding(sparse=True), "
             "or use sparse=False");
    }
}

}  // namespace weft::sparse
