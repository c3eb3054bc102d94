/// Rows of a table by number, and numbers as rows.
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/lock.h"
#include "kernels/reduce.h"
#include "ops/batch.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/indexing.h"

namespace weft {
namespace {

using namespace ops;

const Function embedding_op{"embedding"}, embedding_backward{"embedding_dense_backward"};

void require_indices(const Call& c, const Tensor& indices) {
    WEFT_EXPECT(indices.dtype() == DType::Int64 || indices.dtype() == DType::Int32, Runtime,
                c.name(), "integers",
                text(name(indices.dtype()),
                     " (Expected tensor for argument #1 'indices' to have one of the following "
                     "scalar types: Long, Int; but got ",
                     tensor_type_name(indices.dtype()),
                     " instead (while checking arguments for embedding))"));
}

void embedding_shape(Call& c) {
    const Tensor &weight = c.in[0], &indices = c.in[1];
    WEFT_EXPECT(weight.ndim() == 2, Runtime, c.name(), "a weight that is 2-D",
                to_string(weight.shape()));
    require_indices(c, indices);
    Dims shape(indices.shape());
    shape.push_back(weight.size(1));
    c.add(Tensor::layout(weight.dtype(), shape));
}

/// Rows of a dense table one after the other; of any other as index_select would.
void embedding_kernel(Call& c) {
    Tensor weight = as_contiguous(c.in[0]), index = dense_index(c.in[1]);
    int64_t n = index.numel(), width = weight.size(1);
    const auto* at = index.data<int64_t>();
    int64_t bad = kernels::first_outside(at, n, 0, weight.size(0));
    WEFT_EXPECT(bad < 0, Index, c.name(), text("indices in [0, ", weight.size(0), ")"),
                text(at[bad], " (index out of range in self)"));
    if (n * width == 0) return;
    if (n == 1) {
        int64_t bytes = width * item_size(weight.dtype());
        std::memcpy(c.out(0).bytes(), weight.bytes() + at[0] * bytes, bytes);
        return;
    }
    Tensor places = Tensor::empty(DType::Int64, Dims{n});
    for (int64_t i = 0; i < n; ++i) places.data<int64_t>()[i] = at[i] * width;
    const int64_t start = 0;
    Unlocked unlocked(n * width);
    kernels::take_blocks(c.out(0).bytes(), weight.bytes(),
                         {&start, places.data<int64_t>(), nullptr, 1, n, width},
                         item_size(weight.dtype()));
}

void embedding_backward_shape(Call& c) {
    const Tensor& grad = c.in[0];
    c.add(Tensor::layout(grad.dtype(), Dims{c.attr(0).as_int(), grad.size(grad.ndim() - 1)}));
}

void embedding_backward_kernel(Call& c) {
    const Tensor& out = c.out(0);
    std::memset(out.bytes(), 0, out.numel() * item_size(out.dtype()));
    add_embedding_rows(out, c.in[1], c.in[0], c.attr(1).as_int(), c.attr(2).as_bool());
}

/// The rows of `grad` into the table, those of one index summed up first: to the bit as if they lay in a
/// table of their own that is added.
void add_looked_up(const Tensor& sum, const Tensor& grad, const Tensor& where, const Value* attrs,
                   int) {
    const int64_t width = sum.size(1), padding = attrs[0].as_int();
    auto row = [&](int64_t i) { return sum.view_as(Dims{width}, Dims{1}, i * width); };
    Tensor index = dense_index(where);
    const int64_t n = index.numel(), *at = index.data<int64_t>();
    if (n == 1) {
        if (at[0] != padding) add_into(row(at[0]), grad.view_as(Dims{width}, Dims{1}));
        return;
    }
    std::vector<int64_t> rows(at, at + n);
    std::erase(rows, padding);
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    Tensor places = Tensor::empty(DType::Int64, Dims{n});
    for (int64_t i = 0; i < n; ++i)
        places.data<int64_t>()[i] =
            at[i] == padding ? -1
                             : std::lower_bound(rows.begin(), rows.end(), at[i]) - rows.begin();
    Tensor sums = zeros(Dims{static_cast<int64_t>(rows.size()), width}, sum.dtype());
    add_embedding_rows(sums, places, grad, -1, false);
    for (size_t r = 0; r < rows.size(); ++r)
        add_into(row(rows[r]), sums.view_as(Dims{width}, Dims{1}, static_cast<int64_t>(r) * width));
}

void embedding_gradient(Grad& g) {
    if (!g.needs(0)) return;
    const Tensor indices = g.in(1);
    // few rows of many: the others would be filled with zeros and added
    const bool few = indices.numel() > 0 && 4 * indices.numel() <= g.in_shape(0)[0];
    if (few && !g.attr(1).as_bool() && g.set_part(0, contiguous(g.grad()), add_looked_up, indices))
        return;
    g.set(0, embedding_backward(g.grad(), indices, g.in_shape(0)[0], g.attr(0), g.attr(1)));
}

/// Linear in grad: each row read back, without the padding, divided by the count of its index.
Tensor embedding_double_backward(const Grad& g) {
    Tensor indices = g.in(1), table = g.grad();
    Dims shape(indices.shape());
    shape.push_back(1);
    if (g.attr(2).as_bool()) {
        Tensor ones = full_like(zeros(shape, table.dtype()), 1);
        Tensor count = embedding_backward(ones, indices, g.attr(0), -1, false);
        table = table / maximum(count, full_like(count, 1));
    }
    Tensor rows = embedding_op(table, indices);
    if (g.attr(1).as_int() < 0) return rows;
    Tensor padding = eq(reshape(indices, shape), number(g.attr(1).as_double(), DType::Int64));
    return masked_fill(rows, padding, number(0, rows.dtype()));
}

/// Indices one by one against one table.
bool embedding_rows(const BatchCall& c, BatchForm& form) {
    bool counted = c.attr(1).as_bool();  // the gradient asks how often a row is used in the call
    if (!c.fixed(0) || counted || c.in(1).numel() == 0) return false;
    form.add_shared(0);
    form.add_rows(1, DimSpan());
    form.rows = c.in(1).numel();
    return true;
}

// ---- one_hot -----------------------------------------------------------------------------------

/// Without num_classes the size is the largest value + 1.
void one_hot_shape(Call& c) {
    const Tensor& self = c.in[0];
    WEFT_EXPECT(self.dtype() == DType::Int64, Runtime, "one_hot", "classes",
                text(name(self.dtype()),
                     " (one_hot is only applicable to index tensor of type LongTensor.)"));
    int64_t classes = c.attr(0).as_int();
    WEFT_EXPECT(classes >= -1 && (classes != 0 || self.numel() == 0), Runtime, "one_hot",
                "num_classes above 0, or -1", std::to_string(classes));
    if (classes == -1) {
        WEFT_EXPECT(self.numel() > 0, Runtime, "one_hot", "a tensor with elements, or num_classes",
                    "Can not infer total number of classes from empty tensor.");
        Tensor dense = dense_index(self);
        classes =
            1 + std::max<int64_t>(-1, *std::max_element(dense.data<int64_t>(),
                                                        dense.data<int64_t>() + dense.numel()));
    }
    Dims shape(self.shape());
    shape.push_back(classes);
    c.add(Tensor::layout(DType::Int64, shape));
}

void one_hot_kernel(Call& c) {
    const Tensor& out = c.out(0);
    Tensor index = dense_index(c.in[0]);
    int64_t classes = out.size(out.ndim() - 1);
    const auto* at = index.data<int64_t>();
    int64_t bad = kernels::first_outside(at, index.numel(), 0, classes);
    WEFT_EXPECT(bad < 0, Runtime, "one_hot",
                at[bad] < 0 ? "Class values must be non-negative"
                            : "Class values must be smaller than num_classes",
                std::to_string(at[bad]));
    std::memset(out.bytes(), 0, out.numel() * sizeof(int64_t));
    for (int64_t i = 0; i < index.numel(); ++i) out.data<int64_t>()[i * classes + at[i]] = 1;
}

// ---- counts ------------------------------------------------------------------------------------

/// One more than the largest number, or minlength.
void counts_shape(Call& c) {
    const Tensor& x = c.in[0];
    Tensor dense = as_contiguous(x, DType::Int64);
    const int64_t n = dense.numel(), *at = dense.data<int64_t>();
    int64_t largest = -1;
    if (n > 0) kernels::max<int64_t>(at, &largest, {1, n, 1});
    const bool counted = kernels::first_outside(at, n, 0, std::numeric_limits<int64_t>::max()) < 0;
    WEFT_EXPECT(x.ndim() == 1 && counted, Runtime, "bincount", "numbers to count",
                text(name(x.dtype()), " ", to_string(x.shape()),
                     " (bincount only supports 1-d non-negative integral inputs.)"));
    const int64_t least = c.attr(0).as_int();
    WEFT_EXPECT(least >= 0, Runtime, "bincount", "minlength of at least 0", std::to_string(least));
    c.add(Tensor::layout(DType::Int64, Dims{std::max(least, largest + 1)}));
}

void counts_kernel(Call& c) {
    Tensor x = as_contiguous(c.in[0], DType::Int64);
    const Tensor& out = c.out(0);
    auto* counts = out.data<int64_t>();
    const auto* at = x.data<int64_t>();
    std::memset(counts, 0, out.numel() * sizeof(int64_t));
    for (int64_t i = 0; i < x.numel(); ++i) ++counts[at[i]];
}

}  // namespace

void register_embedding(Table& t) {
    t.add("embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool "
          "scale_grad_by_freq=False, "
          "bool sparse=False) -> Tensor")
        .uint64(Uint64::Bits)
        .float8()
        .doc("Rows of weight [n, d] by int64 indices [...]: [..., d]. The row padding_idx gets no "
             "gradient. "
             "Raises IndexError out of range.\n\n"
             ">>> weft.embedding(weft.eye(3), weft.tensor([2])).tolist()\n[[0.0, 0.0, 1.0]]")
        .shape(embedding_shape)
        .kernel(embedding_kernel)
        .batch(embedding_rows, save_in(0))
        .function_only()
        .joint_grad(save_in(1), embedding_gradient, 1u)
        .samples({"f(T(4, 3), I(5, high=4))", "f(T(4, 3), I(2, 3, high=4), 1)",
                  "f(T(4, 3), I(high=4))", "f(T(4, 3), I(6, high=4), scale_grad_by_freq=True)",
                  "f(T(4, 3), I(0))"});
    t.add("embedding_dense_backward(Tensor grad_output, Tensor indices, int num_weights, int "
          "padding_idx, "
          "bool scale_grad_by_freq) -> Tensor")
        .doc("The rows of grad_output added into a table of zeros: the gradient of embedding.")
        .shape(embedding_backward_shape)
        .kernel(embedding_backward_kernel)
        .internal()
        .grad(0, save_in(1), embedding_double_backward)
        .samples(
            {"f(T(5, 3), I(5, high=4), 4, -1, False)", "f(T(5, 3), I(5, high=4), 4, 1, True)"});
    t.add("one_hot(Tensor self, int num_classes=-1) -> Tensor")
        .doc("int64 [..., num_classes] with 1 at each value, 0 elsewhere; -1: the largest value + "
             "1.\n"
             ">>> weft.nn.functional.one_hot(weft.tensor([1, 0]), 3)\n"
             "tensor([[0, 1, 0],\n"
             "        [1, 0, 0]])")
        .body([](Call& c) {
            static const Function sized{"_one_hot"}, open{"_one_hot_open"};
            c.set((c.attr(0).as_int() == -1 ? open : sized)(c.in[0], c.attr(0)));
        })
        .batch(Batch::Body)
        .internal()
        .in_packages()
        .samples({"f(I(3, 2), 5)", "f(I(4))"});
    t.add("_one_hot(Tensor self, int num_classes) -> Tensor")
        .doc("one_hot of a size that is known.")
        .shape(one_hot_shape)
        .kernel(one_hot_kernel)
        .batch(batch_last<0>)
        .internal()
        .samples({"f(I(3, 2), 5)"});
    t.add("_counts(Tensor self, int minlength=0) -> Tensor")
        .doc("How often each number occurs in a vector of ints of at least 0.")
        .shape_of_values<counts_shape>(save_in(0))
        .kernel(counts_kernel)
        .internal()
        .in_packages()
        .uint64(Uint64::Bits)
        .no_onnx("a size that values decide")
        .samples({"f(I(5, high=4))", "f(I(3, high=4), 7)", "f(I(0))"});
    t.add("_one_hot_open(Tensor self, int num_classes) -> Tensor")
        .doc("one_hot of a size that depends on the values.")
        .shape_of_values<one_hot_shape>(save_in(0))
        .kernel(one_hot_kernel)
        .internal();
}

}  // namespace weft
