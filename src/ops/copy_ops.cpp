/// Copies: into new memory, another dtype, or a tensor that exists.
#include "ops/batch.h"
#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/indexing.h"
#include "ops/reuse.h"
#include "ops/shape.h"

namespace weft {
namespace {

using namespace ops;

const Function to_copy{"_to_copy"};

void copy_kernel(Call& c) { copy_into(c.out(0), c.in[0]); }

Tensor pass(const Grad& g) { return g.grad(); }
/// Nothing of the old value is left: a zero, not an absent gradient.
Tensor nothing(const Grad& g) { return zeros(g.grad().shape(), g.grad().dtype()); }

void unsafe_view_kernel(Call& c) {
    const Tensor& self = c.in[0];
    if (self.storage() == c.out(0).storage()) return;  // call_in_place_of
    copy_into(c.out(0).view_as(self.shape(), contiguous_strides(self.shape())), self);
}

void copy_shape(Call& c) {
    const Tensor &self = c.in[0], &src = c.in[1];
    if (!broadcasts_to(src.shape(), self.shape())) {
        const Dims both = broadcast(c.name(), self.shape(), src.shape());
        fail(ErrorKind::Runtime, c.name(), "a source that broadcasts",
             text("another (output with shape ", to_string(self.shape()),
                  " doesn't match the broadcast shape ", to_string(both), ")"));
    }
    c.add(Tensor::layout(self.dtype(), self.shape()));
}

void fill_shape(Call& c) {
    WEFT_EXPECT(c.in[1].ndim() == 0, Runtime, c.name(), "a number",
                text("a tensor (fill_ only supports 0-dimension value tensor but got tensor with ",
                     c.in[1].ndim(), " dimensions.)"));
    c.add(preserved_layout(c.in[0], c.in[0].dtype()));
}

void fill_kernel(Call& c) {
    if (c.in[1].has(kWrapped)) require_fits(c.name(), c.in[1], c.out(0).dtype());
    copy_into(c.out(0), c.in[1]);
}

void zero_kernel(Call& c) {
    const Tensor& out = c.out(0);
    if (is_dense(out.shape(), out.strides()))
        std::memset(out.bytes(), 0, out.numel() * item_size(out.dtype()));
    else copy_into(out, Tensor::scalar(0, out.dtype()));
}

/// PyTorch counts fill's variants through: by number, by tensor, then both again in place.
const char* fill_node_name(const Call& c) {
    bool number = c.in[1].has(kWrapped);
    if (c.in_place) return number ? "FillBackward2" : "FillBackward3";
    return number ? "FillBackward0" : "FillBackward1";
}

/// A number or parameter into elements; a computed value only into its own tensor.
/// The result has self's shape, so self must come by rows as well.
/// A shared source must not have more dims than self, which a batch flattens to rows.
bool copy_rows(const BatchCall& c, BatchForm& form) {
    return !c.fixed(0) && batch_pointwise(c, form) &&
           (!form.in[1].shared || c.in(1).ndim() <= form.in[0].row.size() + 1);
}
bool fill_rows(const BatchCall& c, BatchForm& form) {
    return c.fixed(1) && batch_pointwise(c, form);
}

/// An op whose result has the elements in another shape, and is no view.
OpBuilder reshaping_copy(Table& t, std::string_view schema,
                         std::source_location where = std::source_location::current()) {
    return t.add(schema, where)
        .kernel(unsafe_view_kernel)
        .every_dtype()
        .batch(Batch::Alias)
        .internal()
        .grad(0, 0, [](const Grad& g) { return reshape(g.grad(), g.in_shape(0)); });
}

}  // namespace

void register_copy_ops(Table& t) {
    t.add("clone(Tensor self) -> Tensor")
        .doc("A copy with its own memory, in self's memory order.\n\n>>> weft.ones(2).clone()\n"
             "tensor([1., 1.])")
        .shape([](Call& c) { c.add(preserved_layout(c.in[0], c.in[0].dtype())); })
        .kernel(copy_kernel)
        .memory_format(Formats::Result)
        .every_dtype()
        .pointwise()
        .grad(0, 0, pass)
        .onnx("Identity(self)")
        .samples({"f(T(2, 3))", "f(T())", "f(T(0, 3))"});
    t.add("_contiguous_copy(Tensor self) -> Tensor")
        .doc("A copy in row-major order.")
        .shape([](Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape())); })
        .kernel(copy_kernel)
        .every_dtype()
        .pointwise()
        .internal()
        .node_name("CloneBackward0")
        .grad(0, 0, pass)
        .onnx("Identity(self)")
        .samples({"f(T(2, 3))"});
    t.add("_constant_in(Tensor self, Tensor other, bool zero=True) -> Tensor")
        .doc("self, as what depends on other too, in pieces where it is constant: the gradient "
             "there is 0,\nor with `zero` False none.")
        .shape([](Call& c) { c.add(preserved_layout(c.in[0], c.in[0].dtype())); })
        .kernel(copy_kernel)
        .every_dtype()
        .internal()
        .grad(0, 0, pass)
        .grad(1, 0,
              [](const Grad& g) {
                  return g.attr(0).as_bool() ? zeros(g.in_shape(1), g.out_dtype(0)) : Tensor();
              })
        .onnx("Identity(self)");
    t.add("contiguous(Tensor self) -> Tensor")
        .doc("self if it lies in row-major order, else a copy that does.\n"
             "Shape and dtype stay.\n"
             ">>> weft.zeros(2, 3).t().contiguous().stride()\n"
             "(2, 1)")
        .body([](Call& c) { c.set(c.in[0].contiguous() ? c.in[0] : contiguous_copy(c.in[0])); })
        .memory_format(Formats::Self)
        .batch(Batch::Body)
        .method_only()
        .samples({"f(T(2, 3))"});
    reshaping_copy(t, "_unsafe_view(Tensor self, int[] size) -> Tensor")
        .doc("The elements copied into another shape: reshape where no view does.")
        .shape([](Call& c) {
            Dims size = infer_size("reshape", c.attr(0).as_ints(), c.in[0].numel());
            c.add(Tensor::layout(c.in[0].dtype(), size));
        })
        .node_name("UnsafeViewBackward0")
        .samples({"f(T(2, 3), (3, 2))"});
    reshaping_copy(t, "_squeeze_row(Tensor self) -> Tensor")
        .doc("The product of a vector, as a matrix of one row, and a matrix: a vector, no view.")
        .shape([](Call& c) {
            const auto shape = c.in[0].shape();
            WEFT_EXPECT(!shape.empty() && shape[0] == 1, Index, "_squeeze_row", "one row",
                        to_string(shape));
            c.add(Tensor::layout(c.in[0].dtype(), Dims(shape.subspan(1))));
        })
        .node_name("SqueezeBackward4")
        .samples({"f(T(1, 3))"});
    t.add("_relaid(Tensor self, int[] size) -> Tensor")
        .doc("A value that nobody else holds, in another shape: its memory, but no view of it.")
        .body([](Call& c) {
            Call relaid(unsafe_view.op(), c.in, 1, c.attrs);
            call_in_place_of(relaid);
            relaid.out(0).set(kLooseView, false);
            c.set(std::move(relaid.out(0)));
        })
        .batch(Batch::Body)
        .internal()
        .in_packages()
        .onnx("form('view', self=self, size=size)");
    t.add("_to_copy(Tensor self, dtype? dtype=None) -> Tensor")
        .doc("A copy in `dtype`.")
        .shape(
            [](Call& c) { c.add(preserved_layout(c.in[0], c.attr(0).as_dtype(c.in[0].dtype()))); })
        .kernel(copy_kernel)
        .every_dtype()
        .pointwise()
        .internal()
        .node_name("ToCopyBackward0")
        .grad(0, 0, pass)
        .onnx("cast(self, result.dtype)");
    t.add("to(Tensor self, dtype? dtype=None) -> Tensor")
        .doc("self in `dtype`: self itself if it has it.")
        .body([](Call& c) {
            bool same = c.attr(0).none() || c.attr(0).as_dtype() == c.in[0].dtype();
            c.set(same ? c.in[0] : to_copy(c.in[0], c.attr(0)));
        })
        .batch(Batch::Body)
        .internal()
        .in_packages()
        .onnx("cast(self, result.dtype)");
    t.add("copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor")
        .alias_of("src", "other")
        .doc("src, broadcast to self's shape, in self's dtype. copy_ writes it into self.\n\n"
             ">>> weft.zeros(2).copy_(weft.tensor([1, 2]))\ntensor([1., 2.])")
        .shape(copy_shape)
        .kernel([](Call& c) { copy_into(c.out(0), c.in[1]); })
        .every_dtype()
        .batch(copy_rows)
        .any_device(save_in(1))
        .pointwise()
        .strided_output()
        .internal()
        .inplace()
        .node_name("CopyBackwards")
        .grad(0, 0, nothing)
        .grad(1, 0, pass)
        .onnx("Expand(cast(src, result.dtype), shape(self))")
        .samples({"f(T(2, 3), T(3))", "f(T(2, 3), T(2, 1))", "f(T(2), T())"});
    t.add("fill(Tensor self, Tensor value) -> Tensor")
        .doc("A number or a 0-d tensor in every element.\n\n>>> weft.zeros(2).fill_(3)\n"
             "tensor([3., 3.])")
        .shape(fill_shape)
        .kernel(fill_kernel)
        .every_dtype()
        .batch(fill_rows)
        .pointwise()
        .strided_output()
        .may_overlap(save_in(1))
        .writes_repeats()
        .function_only()
        .inplace()
        .node_name(fill_node_name)
        .numbers_apart(save_in(1))
        .grad(0, 0, nothing)
        .grad(1, 0, pass)
        .onnx("Expand(cast(value, result.dtype), shape(self))")
        .samples({"f(T(2, 3), 2)", "f(T(2, 3), T())"});
    t.add("zero(Tensor self) -> Tensor")
        .doc("zero_ writes 0 into every element.\n\n>>> weft.ones(2).zero_()\ntensor([0., 0.])")
        .shape([](Call& c) { c.add(preserved_layout(c.in[0], c.in[0].dtype())); })
        .kernel(zero_kernel)
        .every_dtype()
        .strided_output()
        .writes_repeats()
        .internal()
        .inplace()
        .grad(0, 0, nothing)
        .onnx("Expand(cast(0, result.dtype), shape(self))")
        .samples({"f(T(2, 3))"});
}

}  // namespace weft
