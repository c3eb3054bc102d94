#include "autograd/meta.h"
#include "ops/call.h"

namespace weft {

void view_in_place(const Tensor& self, FunctionRef<Tensor(const Tensor&)> view) {
    bool recorded = (mode & kGradMode) && self.has(kTracked);
    if (!recorded) {
        self.become(view(detach(self)));
        self.storage()->version++;
        return;
    }
    WEFT_EXPECT(!is_leaf(self) || !requires_grad(self), Runtime, "view_in_place",
                "a tensor that the graph may change",
                "a leaf (a leaf Variable that requires grad is being used in an in-place operation.)");
    Tensor before = self.alias(), after;
    before.impl()->slot = std::move(self.impl()->slot);
    before.set(kTracked);
    try {
        after = view(before);
    } catch (...) {
        self.impl()->slot = std::move(before.impl()->slot);
        throw;
    }
    self.become(after);
    self.impl()->slot = after.impl()->slot;
    self.storage()->version++;
}

}  // namespace weft
