/// Random tensors, drawn as PyTorch's CPU draws them (see kernels/random.h).
///
/// Elements are drawn in memory order, as PyTorch's iterator walks its result, so that a permuted
/// tensor gets the numbers in another logical order than its contiguous copy would.
#include "ops/random.h"

#include <cmath>
#include <limits>
#include <random>

#include "ops/copy.h"
#include "ops/functions.h"
#include "ops/indexing.h"
#include "ops/pointwise.h"
#include "ops/shape.h"

namespace weft {
namespace ops {
namespace {
thread_local kernels::Generator* chosen = nullptr;
}

kernels::Generator& default_generator() {
    static auto* generator = new kernels::Generator;
    return *generator;
}

kernels::Generator& generator() { return chosen ? *chosen : default_generator(); }

GeneratorScope::GeneratorScope(kernels::Generator& generator) : before_(chosen) { chosen = &generator; }
GeneratorScope::~GeneratorScope() { chosen = before_; }

uint64_t entropy_seed() {
    std::random_device device;
    return (uint64_t{device()} << 32 | device()) & 0x1fffffffffffff;
}

}  // namespace ops

namespace {

using namespace ops;

const Function bernoulli_p{"bernoulli.p"}, dropout_noise{"_dropout_noise"};

Tensor nothing(const Grad& g) { return zeros(g.grad().shape(), g.grad().dtype()); }

template <int DTypeSlot>
void sized_shape(Call& c) {
    DType dtype = c.attr(DTypeSlot).as_dtype(default_dtype);
    DimSpan size = c.attr(0).as_ints();
    count_elements(c.name(), size, item_size(dtype));
    c.add(Tensor::layout(dtype, size));
}

template <int DTypeSlot>
void like_shape(Call& c) {
    c.add(preserved_layout(c.in[0], c.attr(DTypeSlot).as_dtype(c.in[0].dtype())));
}

void self_shape(Call& c) { c.add(preserved_layout(c.in[0], c.in[0].dtype())); }

/// Runs draw(tensor) on c.out(0), or on a dense tensor of the same order that is copied there.
template <class F>
void draw_dense(Call& c, F&& draw) {
    const Tensor& out = c.out(0);
    if (is_dense(out.shape(), out.strides())) return draw(out);
    Tensor dense = preserved_layout(out, out.dtype());
    dense.allocate();
    draw(dense);
    copy_into(out, dense);
}

/// draw(pointer, count) for a floating result. Throws NotImplemented for others.
template <class F>
void draw_real(Call& c, F&& draw) {
    WEFT_EXPECT(is_floating(c.out(0).dtype()), NotImplemented, c.name(), "a floating dtype", name(c.out(0).dtype()));
    draw_dense(c, [&](const Tensor& t) {
        dispatch<FloatingTypes>(t.dtype(), c.name(), [&]<class T>() { draw(t.data<T>(), t.numel()); });
    });
}

// ---- real distributions -------------------------------------------------------------------------

void rand_kernel(Call& c) {
    draw_real(c, [](auto* to, int64_t n) { kernels::uniform(generator(), to, n, 0, 1); });
}

void randn_kernel(Call& c) {
    draw_real(c, [](auto* to, int64_t n) { kernels::normal(generator(), to, n, 0, 1); });
}

void uniform_kernel(Call& c) {
    double from = c.attr(0).as_double(), to = c.attr(1).as_double();
    WEFT_EXPECT(from <= to, Runtime, c.name(), "a [from, to) range", text("from=", from, " > to=", to));
    draw_real(c, [&](auto* out, int64_t n) { kernels::uniform(generator(), out, n, from, to); });
}

void require_std(const Call& c, double std) {
    WEFT_EXPECT(std >= 0, Runtime, c.name(), "std >= 0.0", text("std ", std));
}

/// PyTorch draws a contiguous tensor in blocks, any other one by one.
void normal_fill_kernel(Call& c) {
    double mean = c.attr(0).as_double(), std = c.attr(1).as_double();
    require_std(c, std);
    bool whole = c.in[0].contiguous();
    draw_real(c, [&](auto* out, int64_t n) {
        if (whole) kernels::normal(generator(), out, n, mean, std);
        else kernels::normal_one_by_one(generator(), out, n, mean, std);
    });
}

void exponential_kernel(Call& c) {
    double rate = c.attr(0).as_double();
    WEFT_EXPECT(rate > 0, Runtime, c.name(), "lambda > 0.0", text("lambda=", rate));
    WEFT_EXPECT(is_floating(c.out(0).dtype()), Runtime, c.name(), "a floating dtype (a continuous distribution)",
                name(c.out(0).dtype()));
    draw_real(c, [&](auto* out, int64_t n) { kernels::exponential(generator(), out, n, rate); });
}

void cauchy_kernel(Call& c) {
    double median = c.attr(0).as_double(), sigma = c.attr(1).as_double();
    WEFT_EXPECT(sigma > 0, Runtime, c.name(), "sigma > 0.0", text("sigma=", sigma));
    draw_real(c, [&](auto* out, int64_t n) { kernels::cauchy(generator(), out, n, median, sigma); });
}

void log_normal_kernel(Call& c) {
    double mean = c.attr(0).as_double(), std = c.attr(1).as_double();
    WEFT_EXPECT(std > 0, Runtime, c.name(), "std > 0.0", text("std=", std));
    draw_real(c, [&](auto* out, int64_t n) { kernels::log_normal(generator(), out, n, mean, std); });
}

// ---- normal(mean, std) --------------------------------------------------------------------------

void normal_sized_kernel(Call& c) {
    double mean = c.attr(0).as_double(), std = c.attr(1).as_double();
    require_std(c, std);
    draw_real(c, [&](auto* out, int64_t n) { kernels::normal(generator(), out, n, mean, std); });
}

/// Mean and std by element: standard normals, scaled and shifted. Undefined ones are the numbers.
void normal_of(Call& c, const Tensor& mean, double mean_number, const Tensor& std, double std_number) {
    const Tensor& out = c.out(0);
    require_std(c, std_number);
    WEFT_EXPECT(is_floating(out.dtype()), NotImplemented, c.name(), "floating mean and std", name(out.dtype()));
    Tensor means = mean.defined() ? spread(mean, out.shape(), out.dtype()) : Tensor();
    Tensor stds = std.defined() ? spread(std, out.shape(), out.dtype()) : Tensor();
    dispatch<FloatingTypes>(out.dtype(), c.name(), [&]<class T>() {
        T* to = out.data<T>();
        int64_t n = out.numel();
        for (int64_t i = 0; stds.defined() && i < n; ++i)
            WEFT_EXPECT(stds.data<T>()[i] >= 0, Runtime, c.name(), "all elements of std >= 0.0", text(stds.data<T>()[i]));
        kernels::normal(generator(), to, n, 0, stds.defined() ? 1 : std_number);
        T shift = static_cast<T>(mean_number);
        for (int64_t i = 0; i < n; ++i) {
            if (stds.defined()) to[i] *= stds.data<T>()[i];
            to[i] += means.defined() ? means.data<T>()[i] : shift;
        }
    });
}

// ---- integers -----------------------------------------------------------------------------------

template <class T>
constexpr int kDigits = std::numeric_limits<T>::digits;

/// from <= x < to in the dtype of the result.
void draw_between(Call& c, int64_t from, int64_t to) {
    DType dtype = c.out(0).dtype();
    WEFT_EXPECT(from < to, Runtime, c.name(), "'from' to be less than 'to'", text("from=", from, " >= to=", to));
    WEFT_EXPECT(dtype != DType::Bool || (from >= 0 && to <= 2), Runtime, c.name(), "bounds within bool's",
                text("from=", from, ", to=", to, " (out of bounds for bool)"));
    draw_dense(c, [&](const Tensor& t) {
        dispatch<AllTypes>(dtype, c.name(), [&]<class T>() {
            int64_t low = from, high = to;
            if constexpr (std::is_floating_point_v<T>) {
                low = kernels::float_from(from, kDigits<T>);
                high = kernels::float_to(to, kDigits<T>);
                WEFT_EXPECT(low < high, Runtime, c.name(), "'from' to be less than 'to' in the dtype",
                            text("from=", low, " >= to=", high));
            }
            uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
            kernels::random_in_range(generator(), t.data<T>(), t.numel(), range, low);
        });
    });
}

void random_kernel(Call& c) {
    draw_dense(c, [&](const Tensor& t) {
        dispatch<AllTypes>(t.dtype(), c.name(),
                           [&]<class T>() { kernels::random_default(generator(), t.data<T>(), t.numel()); });
    });
}

/// random_(from, None): to the largest value of the dtype, that included.
void random_upwards(Call& c, int64_t from) {
    constexpr int64_t lowest = std::numeric_limits<int64_t>::min();
    draw_dense(c, [&](const Tensor& t) {
        dispatch<AllTypes>(t.dtype(), c.name(), [&]<class T>() {
            if constexpr (!std::is_same_v<T, bool>) {
                if (from == lowest) return kernels::random_all_bits(generator(), t.data<T>(), t.numel());
            }
            int64_t low = from, last = std::numeric_limits<int64_t>::max();
            if constexpr (std::is_same_v<T, bool>) last = 1;
            if constexpr (std::is_floating_point_v<T>) {
                low = kernels::float_from(from, kDigits<T>);
                last = int64_t{1} << kDigits<T>;
            }
            WEFT_EXPECT(low <= last, Runtime, c.name(), "'from' to be at most the dtype's largest value", text(from));
            uint64_t range = static_cast<uint64_t>(last) - static_cast<uint64_t>(low) + 1;
            kernels::random_in_range(generator(), t.data<T>(), t.numel(), range, low);
        });
    });
}

void randperm_shape(Call& c) {
    int64_t n = c.attr(0).as_int();
    WEFT_EXPECT(n >= 0, Runtime, c.name(), "n of at least 0", std::to_string(n));
    DType dtype = c.attr(1).as_dtype(DType::Int64);
    WEFT_EXPECT(dtype != DType::Bool || n <= 2, Runtime, c.name(), "a dtype that holds n - 1", name(dtype));
    c.add(Tensor::layout(dtype, Dims{n}));
}

void randperm_kernel(Call& c) {
    const Tensor& out = c.out(0);
    dispatch<NumberTypes>(out.dtype(), c.name(),
                          [&]<class T>() { kernels::permutation(generator(), out.data<T>(), out.numel()); });
}

void geometric_kernel(Call& c) {
    double p = c.attr(0).as_double();
    WEFT_EXPECT(p > 0 && p < 1, Runtime, c.name(), "p in (0, 1)", text("p=", p));
    draw_dense(c, [&](const Tensor& t) {
        dispatch<NumberTypes>(t.dtype(), c.name(),
                              [&]<class T>() { kernels::geometric(generator(), t.data<T>(), t.numel(), p); });
    });
}

// ---- Bernoulli ----------------------------------------------------------------------------------

void bernoulli_p_kernel(Call& c) {
    double p = c.attr(0).as_double();
    WEFT_EXPECT(p >= 0 && p <= 1, Runtime, c.name(), "p in [0, 1]", text("p=", p));
    draw_dense(c, [&](const Tensor& t) {
        dispatch<AllTypes>(t.dtype(), c.name(),
                           [&]<class T>() { kernels::bernoulli(generator(), t.data<T>(), t.numel(), p); });
    });
}

/// Into `out`, each element with its own probability, walked in out's memory order.
void bernoulli_each(Call& c, const Tensor& probabilities) {
    WEFT_EXPECT(is_floating(probabilities.dtype()), NotImplemented, c.name(), "floating probabilities",
                name(probabilities.dtype()));
    draw_dense(c, [&](const Tensor& t) {
        Tensor p = preserved_layout(t, probabilities.dtype());
        p.allocate();
        copy_into(p, probabilities);
        dispatch<FloatingTypes>(p.dtype(), c.name(), [&]<class P>() {
            const P* at = p.data<P>();
            for (int64_t i = 0; i < p.numel(); ++i)
                WEFT_EXPECT(at[i] >= 0 && at[i] <= 1, Runtime, c.name(), "p_in >= 0 && p_in <= 1", text(at[i]));
            dispatch<AllTypes>(t.dtype(), c.name(), [&]<class T>() {
                kernels::bernoulli(generator(), t.data<T>(), t.numel(), at);
            });
        });
    });
}

/// Out of place PyTorch's result is contiguous, in place it is walked in its own order.
void bernoulli_shape(Call& c) {
    if (c.dest.defined()) self_shape(c);
    else c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape()));
}

void bernoulli_tensor_shape(Call& c) {
    broadcast(c.name(), c.in[0].shape(), c.in[1].shape());
    self_shape(c);
}

// ---- dropout ------------------------------------------------------------------------------------

double checked_rate(const Call& c, const Value& p) {
    WEFT_EXPECT(p.as_double() >= 0 && p.as_double() <= 1, Runtime, c.name(),
                "a dropout probability between 0 and 1", text(p.as_double()));
    return p.as_double();
}

/// 1 / (1 - p) with probability 1 - p, else 0; attributes p and the size (none: the input's).
void dropout_noise_shape(Call& c) {
    WEFT_EXPECT(is_floating(c.in[0].dtype()), Runtime, "dropout", "a floating input", name(c.in[0].dtype()));
    if (c.attr(1).none()) self_shape(c);
    else c.add(Tensor::layout(c.in[0].dtype(), c.attr(1).as_ints()));
}

void dropout_noise_kernel(Call& c) {
    double keep = 1 - c.attr(0).as_double();
    draw_real(c, [&]<class T>(T* to, int64_t n) {
        kernels::bernoulli(generator(), to, n, keep, T{1} / static_cast<T>(keep));
    });
}

/// Whether input and rate leave anything to do; p == 1 gives zeros.
bool drops(Call& c, double p) {
    const Tensor& input = c.in[0];
    if (p == 0 || !c.attr(1).as_bool() || input.numel() == 0) {
        c.set(input);
        return false;
    }
    if (p == 1) {
        c.set(input * zeros({}, input.dtype()));
        return false;
    }
    return true;
}

void dropout_body(Call& c) {
    double p = checked_rate(c, c.attr(0));
    if (drops(c, p)) c.set(c.in[0] * dropout_noise(c.in[0], p, Value()));
}

/// One decision per sample and channel.
void feature_dropout_body(Call& c) {
    const Tensor& input = c.in[0];
    double p = checked_rate(c, c.attr(0));
    if (!drops(c, p)) return;
    WEFT_EXPECT(input.ndim() >= 2, Runtime, c.name(), "at least 2 dimensions (Feature dropout requires them)",
                text(input.ndim()));
    Dims size(input.ndim(), 1);
    size[0] = input.size(0);
    size[1] = input.size(1);
    c.set(input * dropout_noise(input, p, size));
}

/// Klambauer et al. 2017, "Self-Normalizing Neural Networks": dropped elements take SELU's lower
/// limit, mean and variance stay.
void alpha_dropout_body(Call& c) {
    const Tensor& input = c.in[0];
    double p = checked_rate(c, c.attr(0));
    if (!drops(c, p)) return;
    constexpr double alpha = 1.7580993408473766;
    double a = 1 / std::sqrt((alpha * alpha * p + 1) * (1 - p));
    Tensor kept = bernoulli_p(input, 1 - p);
    Tensor shift = (kept - 1) * (alpha * a) + alpha * a * p;
    c.set(input * (kept * a) + shift);
}

// ---- multinomial --------------------------------------------------------------------------------

void multinomial_shape(Call& c) {
    const Tensor& self = c.in[0];
    int64_t samples = c.attr(0).as_int();
    WEFT_EXPECT(self.ndim() == 1 || self.ndim() == 2, Runtime, c.name(), "prob_dist of 1 or 2 dim",
                text(self.ndim()));
    WEFT_EXPECT(is_floating(self.dtype()), Runtime, c.name(), "floating-point input", name(self.dtype()));
    WEFT_EXPECT(samples > 0, Runtime, c.name(), "at least one sample (cannot sample n_sample <= 0 samples)",
                std::to_string(samples));
    int64_t categories = self.size(self.ndim() - 1);
    WEFT_EXPECT(c.attr(1).as_bool() || samples <= categories, Runtime, c.name(),
                text("at most ", categories, " samples without replacement"), text(samples));
    WEFT_EXPECT(categories <= int64_t{1} << 24, Runtime, c.name(), "at most 2^24 categories", text(categories));
    Dims shape(self.shape());
    shape[self.ndim() - 1] = samples;
    c.add(Tensor::layout(DType::Int64, shape));
}

void multinomial_kernel(Call& c) {
    Tensor self = as_contiguous(c.in[0]);
    if (c.out(0).numel() == 0) return;
    int64_t categories = self.size(self.ndim() - 1), rows = self.numel() / std::max<int64_t>(categories, 1);
    dispatch<FloatingTypes>(self.dtype(), c.name(), [&]<class T>() {
        kernels::Weights state = kernels::inspect_weights(self.data<T>(), rows, categories);
        WEFT_EXPECT(state != kernels::Weights::NegativeOrNotFinite, Runtime, c.name(), "finite weights of at least 0",
                    "probability tensor contains either `inf`, `nan` or element < 0");
        WEFT_EXPECT(state != kernels::Weights::AllZero, Runtime, c.name(), "weights of a sum above 0",
                    "invalid multinomial distribution (sum of probabilities <= 0)");
        kernels::multinomial(generator(), c.out(0).data<int64_t>(), self.data<T>(), rows, categories,
                             c.attr(0).as_int(), c.attr(1).as_bool());
    });
}

// ---- records ------------------------------------------------------------------------------------

/// A record of x.name_(...) alone: the old values do not matter, so their gradient is zero.
OpBuilder fill_op(Table& t, std::string_view schema, void (*kernel)(Call&),
                  std::source_location where = std::source_location::current()) {
    return t.add(schema, where).shape(self_shape).kernel(kernel).strided_output().random().internal().inplace()
        .grad(0, 0, nothing);
}

void register_fills(Table& t) {
    fill_op(t, "uniform(Tensor self, float from=0, float to=1) -> Tensor", uniform_kernel)
        .doc("uniform_ draws each element from [from, to).");
    fill_op(t, "normal.fill(Tensor self, float mean=0, float std=1) -> Tensor", normal_fill_kernel)
        .doc("normal_ draws each element from a normal distribution.");
    fill_op(t, "random(Tensor self) -> Tensor", random_kernel).node_name("RandomBackward2")
        .doc("random_ draws integers from [0, the dtype's largest], or from [from, to).");
    fill_op(t, "random.to(Tensor self, int to) -> Tensor", [](Call& c) { draw_between(c, 0, c.attr(0).as_int()); })
        .node_name("RandomBackward1").doc("random_ draws integers from [0, to).");
    fill_op(t, "random.from(Tensor self, int from, int? to) -> Tensor",
            [](Call& c) {
                if (c.attr(1).none()) random_upwards(c, c.attr(0).as_int());
                else draw_between(c, c.attr(0).as_int(), c.attr(1).as_int());
            })
        .doc("random_ draws integers from [from, to).");
    fill_op(t, "exponential(Tensor self, float lambd=1) -> Tensor", exponential_kernel)
        .doc("exponential_ draws from lambd * exp(-lambd * x).");
    fill_op(t, "cauchy(Tensor self, float median=0, float sigma=1) -> Tensor", cauchy_kernel)
        .doc("cauchy_ draws from a Cauchy distribution.");
    fill_op(t, "log_normal(Tensor self, float mean=1, float std=2) -> Tensor", log_normal_kernel)
        .doc("log_normal_ draws numbers whose logarithm is normal.");
    fill_op(t, "geometric(Tensor self, float p) -> Tensor", geometric_kernel)
        .doc("geometric_ draws the number of trials up to the first success.");
}

void register_bernoulli(Table& t) {
    t.add("bernoulli(Tensor self) -> Tensor").shape(bernoulli_shape)
        .kernel([](Call& c) { bernoulli_each(c, c.in[0]); }).random().grad(0, 0, nothing)
        .doc("1 with the probability given by each element, else 0.\n\n"
             ">>> weft.bernoulli(weft.ones(2))\ntensor([1., 1.])");
    t.add("bernoulli.p(Tensor self, float p=0.5) -> Tensor").shape(bernoulli_shape).kernel(bernoulli_p_kernel)
        .strided_output().random().inplace().node_name("BernoulliBackward2").grad(0, 0, nothing)
        .doc("1 with probability p, else 0, shaped as self.");
    t.add("bernoulli.tensor(Tensor self, Tensor p) -> Tensor").shape(bernoulli_tensor_shape)
        .kernel([](Call& c) { bernoulli_each(c, c.in[1]); }).strided_output().random().internal().inplace()
        .node_name("BernoulliBackward1").grad(0, 0, nothing).grad(1, 0, nothing)
        .doc("bernoulli_ with the probabilities of another tensor.");
    t.add("dropout(Tensor input, float p, bool train) -> Tensor").body(dropout_body).random().function_only()
        .doc("In training each element is 0 with probability p and divided by 1 - p otherwise; else the input "
             "itself. Srivastava et al. 2014.\n\n>>> weft.dropout(weft.ones(2), 0.0, True)\ntensor([1., 1.])");
    t.add("feature_dropout(Tensor input, float p, bool train) -> Tensor").body(feature_dropout_body).random()
        .function_only().doc("dropout of whole channels: one decision for each [n, c].");
    t.add("alpha_dropout(Tensor input, float p, bool train) -> Tensor").body(alpha_dropout_body).random()
        .function_only().doc("dropout that keeps mean and variance of SELU's outputs. Klambauer et al. 2017.");
    t.add("_dropout_noise(Tensor self, float p, int[]? size=None) -> Tensor").shape(dropout_noise_shape)
        .kernel(dropout_noise_kernel).random().internal().doc("1 / (1 - p) with probability 1 - p, else 0.");
    t.add("multinomial(Tensor self, int num_samples, bool replacement=False) -> Tensor").shape(multinomial_shape)
        .kernel(multinomial_kernel).random()
        .doc("Indices drawn with the weights of each row: [..., num_samples] int64.\n\n"
             ">>> weft.multinomial(weft.tensor([0., 1.]), 1)\ntensor([1])");
}

void register_normal(Table& t) {
    t.add("normal.tensors(Tensor mean, Tensor std) -> Tensor").function_only().random()
        .shape([](Call& c) { pointwise_layout(c, c.in[0].dtype()); })
        .kernel([](Call& c) { normal_of(c, c.in[0], 0, c.in[1], 0); })
        .node_name("NormalBackward3").grad(0, 0, nothing).grad(1, 0, nothing)
        .doc("Normal numbers; mean and std are tensors or numbers (then with the size).\n\n"
             ">>> weft.normal(weft.ones(2), weft.zeros(2))\ntensor([1., 1.])");
    t.add("normal.mean(Tensor mean, float std=1) -> Tensor").function_only().random()
        .shape([](Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape())); })
        .kernel([](Call& c) { normal_of(c, c.in[0], 0, Tensor(), c.attr(0).as_double()); })
        .node_name("NormalBackward1").grad(0, 0, nothing).doc("Normal numbers around each mean.");
    t.add("normal.std(float mean, Tensor std) -> Tensor").function_only().random()
        .shape([](Call& c) { c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape())); })
        .kernel([](Call& c) { normal_of(c, Tensor(), c.attr(0).as_double(), c.in[0], 0); })
        .node_name("NormalBackward2").grad(0, 0, nothing).doc("Normal numbers of each std.");
    t.add("normal.sized(float mean, float std, int[] size, *, dtype? dtype=None) -> Tensor")
        .shape([](Call& c) { c.add(Tensor::layout(c.attr(3).as_dtype(default_dtype), c.attr(2).as_ints())); })
        .kernel(normal_sized_kernel).factory().random().doc("Normal numbers of that size.");
}

}  // namespace

void register_random(Table& t) {
    t.add("rand(int[] size, *, dtype? dtype=None) -> Tensor").shape(sized_shape<1>).kernel(rand_kernel).factory()
        .random().out_form().doc("Uniform numbers from [0, 1).");
    t.add("randn(int[] size, *, dtype? dtype=None) -> Tensor").shape(sized_shape<1>).kernel(randn_kernel).factory()
        .random().out_form().doc("Standard normal numbers.");
    t.add("randint(int high, int[] size, *, dtype? dtype=None) -> Tensor")
        .shape([](Call& c) { c.add(Tensor::layout(c.attr(2).as_dtype(DType::Int64), c.attr(1).as_ints())); })
        .kernel([](Call& c) { draw_between(c, 0, c.attr(0).as_int()); }).factory().random().out_form()
        .doc("Integers from [low, high); low is 0 if it is not given.");
    t.add("randint.low(int low, int high, int[] size, *, dtype? dtype=None) -> Tensor")
        .shape([](Call& c) { c.add(Tensor::layout(c.attr(3).as_dtype(DType::Int64), c.attr(2).as_ints())); })
        .kernel([](Call& c) { draw_between(c, c.attr(0).as_int(), c.attr(1).as_int()); }).factory().random()
        .out_form().doc("Integers from [low, high).");
    t.add("randperm(int n, *, dtype? dtype=None) -> Tensor").shape(randperm_shape).kernel(randperm_kernel).factory()
        .random().out_form().doc("0 to n - 1 in random order.");
    t.add("rand_like(Tensor self, *, dtype? dtype=None) -> Tensor").shape(like_shape<0>).kernel(rand_kernel).factory()
        .random().doc("Uniform numbers from [0, 1), shaped as self.");
    t.add("randn_like(Tensor self, *, dtype? dtype=None) -> Tensor").shape(like_shape<0>)
        .kernel([](Call& c) {
            bool whole = c.out(0).contiguous();
            draw_real(c, [&](auto* to, int64_t n) {
                if (whole) kernels::normal(generator(), to, n, 0, 1);
                else kernels::normal_one_by_one(generator(), to, n, 0, 1);
            });
        })
        .factory().random().doc("Standard normal numbers, shaped as self.");
    t.add("randint_like(Tensor self, int high, *, dtype? dtype=None) -> Tensor").shape(like_shape<1>)
        .kernel([](Call& c) { draw_between(c, 0, c.attr(0).as_int()); }).factory().random()
        .doc("Integers from [low, high) in self's dtype, shaped as self.");
    t.add("randint_like.low(Tensor self, int low, int high, *, dtype? dtype=None) -> Tensor").shape(like_shape<2>)
        .kernel([](Call& c) { draw_between(c, c.attr(0).as_int(), c.attr(1).as_int()); }).factory().random()
        .doc("Integers from [low, high), shaped as self.");
    register_normal(t);
    register_fills(t);
    register_bernoulli(t);
}

}  // namespace weft
