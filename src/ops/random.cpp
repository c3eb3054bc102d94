/// Random tensors of given sizes, drawn as PyTorch's CPU draws them (see kernels/random.h).
#include <numbers>
#include <random>

#include "ops/draw.h"
#include "ops/indexing.h"
#include "ops/limits.h"
#include "ops/pointwise.h"

namespace weft {
namespace ops {

kernels::Generator& default_generator() {
    static auto* generator = new kernels::Generator;
    return *generator;
}

kernels::Generator& generator() {
    return scopes.generator ? *scopes.generator : default_generator();
}

uint64_t entropy_seed() {
    std::random_device device;
    return (uint64_t{device()} << 32 | device()) & 0x1fffffffffffff;
}

void require_std(const Call& c, double std) {
    WEFT_EXPECT(std >= 0, Runtime, c.name(), "another std",
                text(std, " (normal expects std >= 0.0, but found std ", std, ")"));
}

void draw_between(Call& c, int64_t from, int64_t to) {
    DType dtype = c.out(0).dtype();
    WEFT_EXPECT(from < to, Runtime, c.name(), "a range",
                text("none (random_ expects 'from' to be less than 'to', but got from=", from,
                     " >= to=", to, ")"));
    int64_t low = from, high = to;
    if (is_floating(dtype)) {
        low = kernels::float_from(from, digits_of(dtype));
        high = kernels::float_to(to, digits_of(dtype));
        WEFT_EXPECT(low < high, Runtime, c.name(), "'from' to be less than 'to' in the dtype",
                    text("from=", low, " >= to=", high));
    } else {
        WEFT_EXPECT(from >= smallest_of(dtype) && to - 1 <= largest_of(dtype), Runtime, c.name(),
                    text("bounds within ", name(dtype), "'s"),
                    text("from=", from, ", to=", to, " (out of bounds for ", name(dtype), ")"));
    }
    uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    draw_dense(c, [&](const Tensor& t) {
        const bool as_int = is_narrow(dtype) && !is_complex(dtype);
        draw_as(t, as_int ? DType::Int64 : dtype, [&](const Tensor& wide) {
            dispatch<AllTypes>(wide.dtype(), c.name(), [&]<class T>() {
                kernels::random_in_range(generator(), wide.data<T>(), wide.numel(), range, low);
            });
        });
    });
}

void draw_uniform(Call& c, double from, double to) {
    DType dtype = c.out(0).dtype();
    double most = largest_floating(dtype);
    WEFT_EXPECT(to - from <= most, Runtime, c.name(),
                text("to - from of at most ", most, " (uniform_ expects to-from <= max)"),
                text("from=", from, ", to=", to));
    const DType part = real_dtype(dtype);
    if (!is_narrow(part) || !is_floating(part))
        return draw_real(
            c, [&](auto* out, int64_t n) { kernels::uniform(generator(), out, n, from, to); },
            true);
    draw_dense(c, [&](const Tensor& t) {
        const int64_t n = t.numel() * (1 + is_complex(dtype));
        if (part == DType::Float16)
            kernels::uniform_narrow(generator(), t.data<Half>(), n, from, to);
        else kernels::uniform_narrow(generator(), t.data<BFloat16>(), n, from, to);
    });
}

void draw_normal(Call& c, double mean, double std, bool whole) {
    bool narrow = is_narrow(c.out(0).dtype());
    if (is_complex(c.out(0).dtype())) std *= std::numbers::sqrt2 / 2;  // of each part
    draw_real(
        c,
        [&]<class T>(T* out, int64_t n) {
            if (!whole) return kernels::normal_one_by_one(generator(), out, n, mean, std);
            if constexpr (std::is_same_v<T, float>)
                if (narrow) return kernels::normal_reduced(generator(), out, n, mean, std);
            kernels::normal(generator(), out, n, mean, std);
        },
        true);
}

}  // namespace ops

namespace {

using namespace ops;

/// A tensor of the sizes in one attribute and the dtype in another.
template <int Size, int DTypeSlot>
void drawn_shape(Call& c, DType otherwise) {
    DType dtype = c.attr(DTypeSlot).as_dtype(otherwise);
    DimSpan size = c.attr(Size).as_ints();
    count_elements(c.name(), size, item_size(dtype));
    c.add(Tensor::layout(dtype, size));
}
template <int Size, int DTypeSlot>
void real_shape(Call& c) {
    drawn_shape<Size, DTypeSlot>(c, default_dtype);
}
template <int Size, int DTypeSlot>
void int_shape(Call& c) {
    drawn_shape<Size, DTypeSlot>(c, DType::Int64);
}

void rand_kernel(Call& c) { draw_uniform(c, 0, 1); }

void randn_kernel(Call& c) { draw_normal(c, 0, 1, true); }

/// PyTorch draws a contiguous tensor in blocks, any other one by one.
void randn_like_kernel(Call& c) { draw_normal(c, 0, 1, c.out(0).contiguous()); }

void below_kernel(Call& c) { draw_between(c, 0, c.attr(0).as_int()); }
void between_kernel(Call& c) { draw_between(c, c.attr(0).as_int(), c.attr(1).as_int()); }

void randperm_shape(Call& c) {
    int64_t n = c.attr(0).as_int();
    WEFT_EXPECT(n >= 0, Runtime, c.name(), "n of at least 0",
                text(n, " (Trying to create tensor with negative dimension ", n, ": [", n, "])"));
    DType dtype = c.attr(1).as_dtype(DType::Int64);
    bool holds =
        is_floating(dtype) ? n <= int64_t{1} << digits_of(dtype) : n - 1 <= largest_of(dtype);
    WEFT_EXPECT(holds, Runtime, c.name(), "a dtype that holds n - 1",
                text(n, " (too large for result tensor type: ", name(dtype), ")"));
    c.add(Tensor::layout(dtype, Dims{n}));
}

void randperm_kernel(Call& c) {
    const Tensor& out = c.out(0);
    draw_as(out, widened(out.dtype()), [&](const Tensor& wide) {
        dispatch<NumberTypes>(wide.dtype(), c.name(), [&]<class T>() {
            kernels::permutation(generator(), wide.data<T>(), wide.numel());
        });
    });
}

// ---- normal(mean, std) -------------------------------------------------------------------------

void normal_sized_kernel(Call& c) {
    double mean = c.attr(0).as_double(), std = c.attr(1).as_double();
    require_std(c, std);
    draw_normal(c, mean, std, true);
}

/// Mean and std by element: standard normals, scaled and shifted. Undefined ones are the numbers.
void normal_of(Call& c, const Tensor& mean, double mean_number, const Tensor& std,
               double std_number) {
    const Tensor& result = c.out(0);
    bool narrow = is_narrow(result.dtype());
    Tensor out = narrow ? Tensor::empty(widened(result.dtype()), result.shape()) : result;
    require_std(c, std_number);
    WEFT_EXPECT(is_floating(out.dtype()), NotImplemented, c.name(), "floating mean and std",
                name(out.dtype()));
    Tensor means = mean.defined() ? spread(mean, out.shape(), out.dtype()) : Tensor();
    Tensor stds = std.defined() ? spread(std, out.shape(), out.dtype()) : Tensor();
    double spread = stds.defined() ? 1 : std_number;
    dispatch<FloatingTypes>(out.dtype(), c.name(), [&]<class T>() {
        T* to = out.data<T>();
        int64_t n = out.numel();
        for (int64_t i = 0; stds.defined() && i < n; ++i)
            WEFT_EXPECT(stds.data<T>()[i] >= 0, Runtime, c.name(), "other elements",
                        text(stds.data<T>()[i], " (normal expects all elements of std >= 0.0)"));
        if constexpr (std::is_same_v<T, float>) {
            if (narrow) kernels::normal_reduced(generator(), to, n, 0, spread);
            else kernels::normal(generator(), to, n, 0, spread);
        } else {
            kernels::normal(generator(), to, n, 0, spread);
        }
        T shift = static_cast<T>(mean_number);
        for (int64_t i = 0; i < n; ++i) {
            if (stds.defined()) to[i] *= stds.data<T>()[i];
            to[i] += means.defined() ? means.data<T>()[i] : shift;
        }
    });
    if (narrow) copy_into(result, out);
}

// ---- records -----------------------------------------------------------------------------------

/// The record of a function that makes a random tensor.
OpBuilder draw_op(Table& t, std::string_view schema, void (*shape)(Call&), void (*kernel)(Call&),
                  std::source_location where = std::source_location::current()) {
    return t.add(schema, where).shape(shape).kernel(kernel).every_dtype().factory().random();
}

void register_normal(Table& t) {
    t.add("normal.tensors(Tensor mean, Tensor std) -> Tensor")
        .function_only()
        .every_dtype()
        .random()
        .shape([](Call& c) { pointwise_layout(c, c.in[0].dtype()); })
        .kernel([](Call& c) { normal_of(c, c.in[0], 0, c.in[1], 0); })
        .node_name("NormalBackward3")
        .grad(0, 0, no_influence)
        .grad(1, 0, no_influence)
        .doc("Normal numbers; mean and std are tensors or numbers (then with the size).\n\n"
             ">>> weft.normal(weft.ones(2), weft.zeros(2))\ntensor([1., 1.])")
        .samples({"f(T(3, 4), T(4, lo=0.5))"});
    t.add("normal.mean(Tensor mean, float std=1) -> Tensor")
        .function_only()
        .every_dtype()
        .random()
        .shape([](Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape())); })
        .kernel([](Call& c) { normal_of(c, c.in[0], 0, Tensor(), c.attr(0).as_double()); })
        .node_name("NormalBackward1")
        .grad(0, 0, no_influence)
        .doc("Normal numbers around each mean.")
        .samples({"f(T(20), 2.0)"});
    t.add("normal.std(float mean, Tensor std) -> Tensor")
        .function_only()
        .every_dtype()
        .random()
        .shape([](Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape())); })
        .kernel([](Call& c) { normal_of(c, Tensor(), c.attr(0).as_double(), c.in[0], 0); })
        .node_name("NormalBackward2")
        .grad(0, 0, no_influence)
        .doc("Normal numbers of each std.")
        .samples({"f(1.5, T(3, lo=0.5))"});
    draw_op(t, "normal.sized(float mean, float std, int[] size, *, dtype? dtype=None) -> Tensor",
            real_shape<2, 3>, normal_sized_kernel)
        .doc("Normal numbers of that size.")
        .samples({"f(1.5, 0.5, (3, 4))"});
}

}  // namespace

void register_random(Table& t) {
    draw_op(t, "rand(int[] size, *, dtype? dtype=None) -> Tensor", real_shape<0, 1>, rand_kernel)
        .out_form()
        .doc("Uniform numbers from [0, 1).\n"
             "Shape `size`. The numbers are PyTorch's under the same seed.\n"
             ">>> weft.rand(2, 3).shape\n"
             "torch.Size([2, 3])")
        .samples({"f(3, 4)", "f((20,))", "f(0, 3)"});
    draw_op(t, "randn(int[] size, *, dtype? dtype=None) -> Tensor", real_shape<0, 1>, randn_kernel)
        .out_form()
        .doc("Standard normal numbers.\n"
             "Shape `size`. The numbers are PyTorch's under the same seed.\n"
             ">>> weft.randn(2, 3).shape\n"
             "torch.Size([2, 3])")
        .samples({"f(3, 4)", "f((20,))", "f(5, dtype=weft.float64)"});
    draw_op(t, "randint(int high, int[] size, *, dtype? dtype=None) -> Tensor", int_shape<1, 2>,
            below_kernel)
        .out_form()
        .doc("Integers from [low, high); low is 0 if it is not given.\n"
             "Shape `size`, int64. RuntimeError unless low < high.\n"
             ">>> weft.randint(10, (2, 3)).shape\n"
             "torch.Size([2, 3])")
        .samples({"f(10, (3, 4))", "f(10, (2,), dtype=weft.float32)"});
    draw_op(t, "randint.low(int low, int high, int[] size, *, dtype? dtype=None) -> Tensor",
            int_shape<2, 3>, between_kernel)
        .out_form()
        .doc("Integers from [low, high).")
        .samples({"f(-3, 10, (3, 4))", "f(0, 2**40, (5,))"});
    draw_op(t, "randperm(int n, *, dtype? dtype=None) -> Tensor", randperm_shape, randperm_kernel)
        .out_form()
        .doc("0 to n - 1 in random order. The result is [n] of int64.\n"
             ">>> weft.randperm(4).sort().values\n"
             "tensor([0, 1, 2, 3])")
        .samples({"f(10)", "f(0)"});
    draw_op(t, "rand_like(Tensor self, *, dtype? dtype=None) -> Tensor", like_shape<0>, rand_kernel)
        .batch(Batch::Layout)
        .memory_format(Formats::Result)
        .doc("Uniform numbers from [0, 1), shaped as self.\n"
             ">>> weft.rand_like(weft.ones(2, 3)).shape\n"
             "torch.Size([2, 3])")
        .samples({"f(T(3, 4))"});
    draw_op(t, "randn_like(Tensor self, *, dtype? dtype=None) -> Tensor", like_shape<0>,
            randn_like_kernel)
        .batch(Batch::Layout)
        .memory_format(Formats::Result)
        .doc("Standard normal numbers, shaped as self.\n"
             ">>> weft.randn_like(weft.ones(2, 3)).shape\n"
             "torch.Size([2, 3])")
        .samples({"f(T(3, 4))", "f(T(20))"});
    draw_op(t, "randint_like(Tensor self, int high, *, dtype? dtype=None) -> Tensor", like_shape<1>,
            below_kernel)
        .batch(Batch::Layout)
        .memory_format(Formats::Result)
        .doc("Integers from [low, high) in self's dtype, shaped as self.\n"
             ">>> weft.randint_like(weft.ones(2, 3), 10).shape\n"
             "torch.Size([2, 3])")
        .samples({"f(T(3, 4), 10)"});
    draw_op(t, "randint_like.low(Tensor self, int low, int high, *, dtype? dtype=None) -> Tensor",
            like_shape<2>, between_kernel)
        .batch(Batch::Layout)
        .memory_format(Formats::Result)
        .doc("Integers from [low, high), shaped as self.")
        .samples({"f(T(3, 4), -5, 10)"});
    register_normal(t);
}

}  // namespace weft
