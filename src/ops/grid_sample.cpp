/// Images read at places between their pixels.
///
/// Three ops that are closed under derivatives: `_grid_sample`, its adjoint in the images, and its
/// derivative in the grid, each with an `order` by which the weights of the taps are derived.
#include "kernels/grid_sample.h"

#include "ops/batch.h"
#include "ops/shape.h"
#include "ops/spatial.h"

namespace weft {
namespace {

using namespace ops;
using kernels::GridMode;
using kernels::GridPadding;
using kernels::GridShape;

const Function grid_sample{"_grid_sample"}, input_gradient{"_grid_sample_input"},
    grid_gradient{"_grid_sample_grid"};

/// Attributes of all three; only the adjoint has a size.
enum GridAttr { kGridMode, kGridPadding, kGridAlign, kGridOrder, kGridSize };

constexpr std::string_view kGridSample = "grid_sample";

GridMode grid_mode(const Call& c) {
    const std::string& mode = c.attr(kGridMode).as_text();
    if (mode == "bilinear") return GridMode::Linear;
    if (mode == "nearest") return GridMode::Nearest;
    WEFT_EXPECT(mode == "bicubic", Value, kGridSample,
                "mode to be 'bilinear', 'nearest' or 'bicubic'",
                text("another (nn.functional.grid_sample(): expected mode to be 'bilinear', "
                     "'nearest' or 'bicubic', but got: '",
                     mode, "')"));
    return GridMode::Cubic;
}

GridPadding padding_of(const Call& c) {
    const std::string& padding = c.attr(kGridPadding).as_text();
    if (padding == "zeros") return GridPadding::Zeros;
    if (padding == "border") return GridPadding::Border;
    WEFT_EXPECT(padding == "reflection", Value, kGridSample,
                "padding_mode to be 'zeros', 'border' or 'reflection'",
                text("another (nn.functional.grid_sample(): expected padding_mode to be 'zeros', "
                     "'border', or 'reflection', but got: '",
                     padding, "')"));
    return GridPadding::Reflection;
}

/// What the images of `shape` and a grid have to be like; [n, *out] of the grid are the result's.
void check_grid(const Call& c, DimSpan shape, const Tensor& grid) {
    const int ndim = static_cast<int>(shape.size()), dims = ndim - 2;
    const GridMode mode = grid_mode(c);
    padding_of(c);
    WEFT_EXPECT((dims == 2 || dims == 3) && grid.ndim() == ndim && grid.size(ndim - 1) == dims,
                Runtime, kGridSample, "a 4D or 5D input and a grid of as many dimensions",
                text(to_string(shape), " and ", to_string(grid.shape()),
                     " (grid_sampler(): expected grid to have size ", dims,
                     " in last dimension, but got grid with sizes ", to_string(grid.shape()), ")"));
    WEFT_EXPECT(
        grid.size(0) == shape[0], Runtime, kGridSample, "a grid for each image",
        text("others (grid_sampler(): expected grid and input to have same batch size, but got "
             "input with sizes ",
             to_string(shape), " and grid with sizes ", to_string(grid.shape()), ")"));
    int64_t plane = 1;
    for (int d = 2; d < ndim; ++d) {
        WEFT_EXPECT(shape[d] > 0, Runtime, kGridSample, "an input with pixels",
                    text(to_string(shape),
                         " (grid_sampler(): expected input to have non-empty spatial dimensions)"));
        plane = size_product(kGridSample, plane, shape[d]);
    }
    WEFT_EXPECT(plane < int64_t{1} << 31, Runtime, kGridSample, "images of less than 2^31 pixels",
                to_string(shape));
    WEFT_EXPECT(mode != GridMode::Cubic || dims == 2, Runtime, kGridSample,
                "a 4D input for mode 'bicubic'", "a 5D one");
    DimSpan order = c.attr(kGridOrder).as_ints();
    WEFT_EXPECT(order.empty() || static_cast<int>(order.size()) == dims, Runtime, kGridSample,
                "an order for each coordinate", to_string(order));
    for (int64_t n : order)
        WEFT_EXPECT(n >= 0 && n < 1000, Runtime, kGridSample, "orders of 0 to 999",
                    to_string(order));
}

void check_dtype(const Tensor& x, const Tensor& other) {
    WEFT_EXPECT(is_floating(x.dtype()), NotImplemented, kGridSample, "a floating dtype",
                text(name(x.dtype()), " (not implemented for '", scalar_name(x.dtype()), "')"),
                "convert with .float()");
    WEFT_EXPECT(other.dtype() == x.dtype(), Runtime, kGridSample, "a grid of the input's dtype",
                text("another (expected scalar type ", scalar_name(x.dtype()), " but found ",
                     scalar_name(other.dtype()), ")"),
                "convert one of them with .to(dtype)");
}

/// `grad` is of the result for these images.
void check_gradient(DimSpan image, const Tensor& grid, const Tensor& grad) {
    Dims shape{image[0], image[1]};
    for (int64_t n : grid.shape().subspan(1).first(image.size() - 2)) shape.push_back(n);
    WEFT_EXPECT(equal(grad.shape(), shape), Runtime, kGridSample,
                text("a gradient of shape ", to_string(shape)), to_string(grad.shape()));
}

void sample_shape(Call& c) {
    const Tensor &x = c.in[0], &grid = c.in[1];
    check_grid(c, x.shape(), grid);
    check_dtype(x, grid);
    Dims out(grid.shape());
    out[grid.ndim() - 1] = 0;
    for (int d = grid.ndim() - 1; d > 1; --d) out[d] = out[d - 1];
    out[1] = x.size(1);
    c.add(Tensor::layout(x.dtype(), out));
}

/// Inputs: the gradient and the grid.
void input_shape(Call& c) {
    const Tensor &grad = c.in[0], &grid = c.in[1];
    WEFT_EXPECT(grad.ndim() >= 2, Runtime, kGridSample, "a gradient of images",
                to_string(grad.shape()));
    Dims shape{grad.size(0), grad.size(1)};
    for (int64_t n : c.attr(kGridSize).as_ints()) shape.push_back(n);
    check_grid(c, shape, grid);
    check_gradient(shape, grid, grad);
    check_dtype(grad, grid);
    c.add(Tensor::layout(grad.dtype(), shape));
}

/// Inputs: the gradient, the images and the grid.
void grid_shape(Call& c) {
    const Tensor &grad = c.in[0], &x = c.in[1], &grid = c.in[2];
    check_grid(c, x.shape(), grid);
    check_gradient(x.shape(), grid, grad);
    check_dtype(x, grid);
    check_dtype(x, grad);
    c.add(Tensor::layout(grid.dtype(), grid.shape()));
}

GridShape shape_of(const Call& c, DimSpan image, int64_t grid_elements) {
    GridShape s{};
    s.dims = static_cast<int>(image.size()) - 2;
    s.mode = grid_mode(c);
    s.padding = padding_of(c);
    s.align = c.attr(kGridAlign).as_bool();
    DimSpan order = c.attr(kGridOrder).as_ints();
    for (size_t k = 0; k < order.size(); ++k) s.order[k] = static_cast<int>(order[k]);
    for (int d = 0; d < s.dims; ++d) s.size[d] = image[d + 2];
    s.images = image[0];
    s.channels = image[1];
    s.places = s.images ? grid_elements / s.images / s.dims : 0;
    return s;
}

void sample_kernel(Call& c) {
    Tensor x = as_contiguous(c.in[0]), grid = as_contiguous(c.in[1]);
    const GridShape s = shape_of(c, x.shape(), grid.numel());
    Unlocked unlocked(4 * c.out(0).numel());
    dispatch<FloatingTypes>(x.dtype(), kGridSample, [&]<class T>() {
        kernels::grid_sample(s, x.data<T>(), grid.data<T>(), c.out(0).data<T>());
    });
}

void input_kernel(Call& c) {
    Tensor dy = as_contiguous(c.in[0]), grid = as_contiguous(c.in[1]);
    const GridShape s = shape_of(c, c.out(0).shape(), grid.numel());
    Unlocked unlocked(4 * dy.numel() + c.out(0).numel());
    dispatch<FloatingTypes>(dy.dtype(), kGridSample, [&]<class T>() {
        kernels::grid_sample_input(s, dy.data<T>(), grid.data<T>(), c.out(0).data<T>());
    });
}

void grid_kernel(Call& c) {
    Tensor dy = as_contiguous(c.in[0]), x = as_contiguous(c.in[1]), grid = as_contiguous(c.in[2]);
    const GridShape s = shape_of(c, x.shape(), grid.numel());
    Unlocked unlocked(8 * dy.numel());
    dispatch<FloatingTypes>(x.dtype(), kGridSample, [&]<class T>() {
        kernels::grid_sample_grid(s, dy.data<T>(), x.data<T>(), grid.data<T>(), c.out(0).data<T>());
    });
}

/// Images and their grids beside each other.
bool image_rows(const BatchCall& c, BatchForm& form) {
    for (int i = 0; i < c.inputs(); ++i) {
        if (c.in(i).numel() == 0) return false;
        form.add_rows(i, c.in(i).shape().subspan(1));
    }
    form.rows = c.in(0).size(0);
    return true;
}

// ---- derivatives -------------------------------------------------------------------------------

[[gnu::cold]] Tensor sampled(const Grad& g, const Tensor& x, const Tensor& grid,
                             const Value& order) {
    return grid_sample(x, grid, g.attr(kGridMode), g.attr(kGridPadding), g.attr(kGridAlign), order);
}
[[gnu::cold]] Tensor to_input(const Grad& g, const Tensor& dy, const Tensor& grid,
                              const Value& order, DimSpan image) {
    return input_gradient(dy, grid, g.attr(kGridMode), g.attr(kGridPadding), g.attr(kGridAlign),
                          order, Dims(image.subspan(2)));
}
/// Zeros where nothing depends on the grid.
[[gnu::cold]] Tensor to_grid(const Grad& g, const Tensor& dy, const Tensor& x, const Tensor& grid,
                             const Value& order) {
    if (g.attr(kGridMode).as_text() == "nearest") return zeros(grid.shape(), grid.dtype());
    return grid_gradient(dy, x, grid, g.attr(kGridMode), g.attr(kGridPadding), g.attr(kGridAlign),
                         order);
}

/// Of `_grid_sample_grid`, whose value has a dimension for the coordinates k: sums over k, with h_k, of
/// shape [n, 1, *out], and what is derived once more by k.
[[gnu::cold]] void derive_grid_gradient(Grad& g) {
    const Tensor h = g.grad(), dy = g.in(0), x = g.in(1), grid = g.in(2);
    const int dims = h.ndim() - 2;
    Dims order(g.attr(kGridOrder).as_ints());
    while (order.size() < dims) order.push_back(0);
    Tensor sums[3];
    auto add_to = [&](int i, Tensor part) { sums[i] = sums[i].defined() ? sums[i] + part : part; };
    for (int k = 0; k < dims; ++k) {
        ++order[k];
        const Tensor hk = unsqueeze(select(h, -1, k), 1), part = dy * hk;
        if (g.needs(0)) add_to(0, hk * sampled(g, x, grid, order));
        if (g.needs(1)) add_to(1, to_input(g, part, grid, order, x.shape()));
        if (g.needs(2)) add_to(2, to_grid(g, part, x, grid, order));
        --order[k];
    }
    for (int i = 0; i < 3; ++i)
        if (g.needs(i)) g.set(i, sums[i]);
}

const char* backward_node(const Call& c) {
    return c.in[0].ndim() == 5 ? "GridSampler3DBackwardBackward0"
                               : "GridSampler2DBackwardBackward0";
}

void register_sample(Table& t) {
    t.add("_grid_sample(Tensor input, Tensor grid, str mode, str padding_mode, bool align_corners, "
          "int[] order=[]) -> Tensor")
        .doc(
            "Images [n, c, *] at the places [n, *out, dims] of a grid: [n, c, *out]. `order`: how\n"
            "often it is derived by each coordinate.")
        .shape(sample_shape)
        .kernel(sample_kernel)
        .internal()
        .in_packages()
        .autocast(Cast::Float)
        .batch(image_rows)
        .node_name([](const Call& c) {
            return c.in[0].ndim() == 5 ? "GridSampler3DBackward0" : "GridSampler2DBackward0";
        })
        .grad(0, save_in(1),
              [](const Grad& g) {
                  return to_input(g, g.grad(), g.in(1), g.attr(kGridOrder), g.in_shape(0));
              })
        .grad(1, save_in(0) | save_in(1),
              [](const Grad& g) {
                  return to_grid(g, g.grad(), g.in(0), g.in(1), g.attr(kGridOrder));
              })
        .samples({"f(T(2, 3, 4, 5), T(2, 3, 2, 2), 'bilinear', 'zeros', False)",
                  "f(T(2, 3, 4, 5), T(2, 3, 2, 2), 'bilinear', 'border', True)",
                  "f(T(1, 2, 4, 5), T(1, 3, 2, 2), 'bicubic', 'reflection', False)",
                  "f(T(1, 2, 4, 5), T(1, 3, 2, 2), 'nearest', 'zeros', False)",
                  "f(T(1, 2, 3, 4, 3), T(1, 2, 1, 2, 3), 'bilinear', 'reflection', True)",
                  "f(T(0, 2, 4, 5), T(0, 3, 2, 2), 'bilinear', 'zeros', False)"});
}

void register_gradients(Table& t) {
    t.add("_grid_sample_input(Tensor grad, Tensor grid, str mode, str padding_mode, bool "
          "align_corners, int[] order, int[] size) -> Tensor")
        .doc("The adjoint of _grid_sample in images of spatial sizes `size`.")
        .shape(input_shape)
        .kernel(input_kernel)
        .internal()
        .batch(image_rows)
        .node_name(backward_node)
        .grad(0, save_in(1),
              [](const Grad& g) { return sampled(g, g.grad(), g.in(1), g.attr(kGridOrder)); })
        .grad(1, save_in(0) | save_in(1), [](const Grad& g) {
            return to_grid(g, g.in(0), g.grad(), g.in(1), g.attr(kGridOrder));
        });
    t.add("_grid_sample_grid(Tensor grad, Tensor input, Tensor grid, str mode, str padding_mode, "
          "bool align_corners, int[] order) -> Tensor")
        .doc("grad times the derivative of _grid_sample by the grid, summed over the channels.")
        .shape(grid_shape)
        .kernel(grid_kernel)
        .internal()
        .batch(image_rows)
        .node_name(backward_node)
        .joint_grad(save_in(0) | save_in(1) | save_in(2), derive_grid_gradient);
}

}  // namespace

void register_grid_sample(Table& t) {
    register_sample(t);
    register_gradients(t);
}

}  // namespace weft
