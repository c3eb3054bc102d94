/// One direction of one recurrent layer over whole sequences: what nn.RNN, nn.GRU and nn.LSTM run.
///
/// The backward pass is a kernel too; when a graph of it is wanted, the same formula is written with
/// ops instead, which is also what the kernel is tested against.
#include "kernels/sequence.h"

#include <algorithm>
#include <array>

#include "base/lock.h"
#include "ops/batch.h"
#include "ops/copy.h"
#include "ops/flops.h"
#include "ops/functions.h"

namespace weft {
namespace {

using namespace ops;
using kernels::Cell;
using kernels::SequenceSizes;

const Function sequence_backward{"_rnn_sequence_backward"},
    sequence_gradients{"_rnn_sequence_gradients"};

/// Rows below which the factors of the weights' gradients are handed over, to be stacked with those
/// of other calls (Note [Sums of products]), instead of sums.
constexpr int64_t kFewRows = 64;

/// The attributes and sizes of a call: batch_sizes, cell, reverse.
struct Layer {
    Cell cell;
    DimSpan sizes;
    bool reverse;
    int64_t width;

    /// `w` is that of the state.
    template <class Attributes>
    Layer(const Attributes& attr, const Tensor& w)
        : cell(cell_of(attr(1).as_text())), sizes(attr(0).as_ints()), reverse(attr(2).as_bool()),
          width(w.size(1)) {}

    static Cell cell_of(const std::string& name) {
        static constexpr std::pair<const char*, Cell> names[] = {
            {"tanh", Cell::Tanh}, {"relu", Cell::Relu}, {"gru", Cell::Gru}, {"lstm", Cell::Lstm}};
        for (auto& [known, cell] : names)
            if (name == known) return cell;
        fail(ErrorKind::Value, "_rnn_sequence", "tanh, relu, gru or lstm", name);
    }
    int64_t batch() const { return sizes[0]; }
    int64_t rows() const {
        int64_t n = 0;
        for (int64_t each : sizes) n += each;
        return n;
    }
    int64_t wide() const { return gates_of(cell) * width; }
    SequenceSizes for_kernel(int64_t inputs) const {
        return {cell, sizes.data(), static_cast<int64_t>(sizes.size()), inputs, width, reverse};
    }
};

Layer layer_of(const Call& c, const Tensor& w) {
    return Layer([&](int i) -> const Value& { return c.attr(i); }, w);
}

void check_shape(const char* what, const Tensor& t, DimSpan want, DType dtype) {
    WEFT_EXPECT(equal(t.shape(), want), Runtime, "_rnn_sequence",
                text(what, " of shape ", to_string(want)), to_string(t.shape()));
    WEFT_EXPECT(t.dtype() == dtype, Runtime, "_rnn_sequence", text(what, " of dtype ", name(dtype)),
                name(t.dtype()));
}

Tensor matrix(DType dtype, int64_t rows, int64_t cols) {
    Dims shape{rows, cols};
    return Tensor::layout(dtype, shape);
}

/// Whether the call is recorded (Note [Tracked]), so that a backward pass may follow.
bool records_layer(const Call& c) {
    return mode & kGradMode && std::any_of(c.in, c.in + c.inputs, [](const Tensor& t) {
               return t.defined() && t.has(kTracked);
           });
}

void layer_shape(Call& c) {
    const Tensor &x = c.in[0], &w = c.in[4];
    DType dtype = w.dtype();
    WEFT_EXPECT(w.ndim() == 2 && is_floating(dtype), Runtime, c.name(),
                "a floating matrix of weights",
                text(name(dtype), " of shape ", to_string(w.shape())));
    WEFT_EXPECT(x.ndim() == 2, Runtime, c.name(), "rows of inputs", to_string(x.shape()));
    DimSpan sizes = c.attr(0).as_ints();
    WEFT_EXPECT(!sizes.empty() && sizes.back() >= 0 && std::is_sorted(sizes.rbegin(), sizes.rend()),
                Runtime, c.name(),
                "one step at least, and steps of no more rows than the one before",
                to_string(sizes));
    // so that the rows of all steps can be counted
    WEFT_EXPECT(sizes[0] <= x.size(0), Runtime, c.name(),
                text("steps of at most ", x.size(0), " rows, as the inputs have"),
                to_string(sizes));
    Layer n = layer_of(c, w);
    const int64_t inputs = x.size(1);
    const Dims x_shape{n.rows(), inputs}, bias_shape{n.wide()}, state_shape{n.batch(), n.width},
        w_ih_shape{n.wide(), inputs}, w_hh_shape{n.wide(), n.width};
    check_shape("weights of the state", w, w_hh_shape, dtype);
    check_shape("weights of the input", c.in[3], w_ih_shape, dtype);
    check_shape("inputs", x, x_shape, dtype);
    check_shape("a state", c.in[1], state_shape, dtype);
    for (int i : {5, 6})
        if (c.in[i].defined()) check_shape("a bias", c.in[i], bias_shape, dtype);
    WEFT_EXPECT(c.in[2].defined() == (n.cell == Cell::Lstm), Runtime, c.name(),
                "a cell state for lstm only", c.attr(1).as_text());
    if (n.cell == Cell::Lstm) check_shape("a cell state", c.in[2], state_shape, dtype);
    c.add(matrix(dtype, n.rows(), n.width));
    c.add(matrix(dtype, n.batch(), n.width));
    c.add(matrix(dtype, n.cell == Cell::Lstm ? n.batch() : 0, n.width));
    c.add(matrix(dtype, records_layer(c) ? n.rows() : 0, kept_of(n.cell) * n.width));
}

template <class T>
T* memory(const Tensor& t) {
    return t.defined() && t.numel() ? t.data<T>() : nullptr;
}

/// Outputs past those that a call holds in place. GCC 12 warns of the branch not taken where it knows
/// which one.
const Tensor& late_output(const Call& c, int k) {
    asm("" : "+r"(k));
    return c.out(k);
}

int64_t layer_work(const Layer& n, int64_t inputs) {
    return n.rows() * n.wide() * (n.width + inputs) / 8;
}

void layer_kernel(Call& c) {
    Tensor x = dense(c.in[0]), w_ih = dense(c.in[3]), w_hh = dense(c.in[4]), b_ih = dense(c.in[5]),
           b_hh = dense(c.in[6]);
    Layer n = layer_of(c, w_hh);
    copy_into(c.out(1), c.in[1]);
    if (c.in[2].defined()) copy_into(c.out(2), c.in[2]);
    Unlocked unlocked(layer_work(n, x.size(1)));
    dispatch<FloatingTypes>(x.dtype(), c.name(), [&]<class T>() {
        kernels::run_sequence<T>(
            n.for_kernel(x.size(1)),
            {memory<T>(x), memory<T>(w_ih), memory<T>(w_hh), memory<T>(b_ih), memory<T>(b_hh)},
            memory<T>(c.out(1)), memory<T>(c.out(2)), memory<T>(c.out(0)),
            memory<T>(late_output(c, 3)));
    });
}

// ---- backward. Inputs of both ops: the gradients of output, h_n and c_n, then w_hh, kept, h, c;
// of the one that sums, x and w_ih too. The first outputs of both are the gradients of h and c.

void add_states(Call& c, const Layer& n) {
    c.add(matrix(c.in[3].dtype(), n.batch(), n.width));
    c.add(matrix(c.in[3].dtype(), n.cell == Cell::Lstm ? n.batch() : 0, n.width));
}

void layer_backward_shape(Call& c) {
    const Tensor& w = c.in[3];
    Layer n = layer_of(c, w);
    add_states(c, n);
    c.add(matrix(w.dtype(), n.rows(), n.wide()));
    c.add(matrix(w.dtype(), n.cell == Cell::Gru ? n.rows() : 0, n.wide()));
    c.add(matrix(w.dtype(), n.rows(), n.width));
}

/// Inputs of forward that the sums are wanted for, a bit each.
bool wanted(const Call& c, int i) { return c.attr(3).as_int() >> i & 1; }

void gradients_shape(Call& c) {
    const Tensor& w = c.in[3];
    Layer n = layer_of(c, w);
    add_states(c, n);
    auto rows = [&](int i, int64_t count) { return wanted(c, i) ? count : 0; };
    c.add(matrix(w.dtype(), rows(0, n.rows()), c.in[7].size(1)));
    c.add(matrix(w.dtype(), rows(3, n.wide()), c.in[7].size(1)));
    c.add(matrix(w.dtype(), rows(4, n.wide()), n.width));
    const bool gru = n.cell == Cell::Gru;  // elsewhere the biases' gradients are one
    for (bool is : {wanted(c, 5) || (!gru && wanted(c, 6)), gru && wanted(c, 6)}) {
        Dims shape{is ? n.wide() : 0};
        c.add(Tensor::layout(w.dtype(), shape));
    }
}

/// The inputs that both ops share, dense.
struct BackInputs {
    Tensor grad, w, kept, h, c;
    int64_t grad_stride = 0;

    explicit BackInputs(const Call& call)
        : grad(call.in[0]), w(dense(call.in[3])), kept(dense(call.in[4])), h(dense(call.in[5])),
          c(dense(call.in[6])) {
        if (grad.defined() && grad.numel()) {
            if (grad.strides()[0] == 0) grad = grad.view_as(Dims{1, grad.size(1)}, grad.strides());
            else grad_stride = grad.size(1);
            grad = dense(grad);
        }
        for (int i : {1, 2}) {
            const Tensor& to = call.out(i - 1);
            const int64_t bytes = to.numel() * item_size(to.dtype());
            if (call.in[i].defined()) copy_into(to, call.in[i]);
            else if (bytes) std::fill_n(to.bytes(), bytes, char(0));
        }
    }
    template <class T>
    kernels::SequenceBack<T> for_kernel(const Call& call) const {
        return {memory<T>(grad), grad_stride,  memory<T>(w),           memory<T>(kept),
                memory<T>(h),    memory<T>(c), memory<T>(call.out(0)), memory<T>(call.out(1))};
    }
};

void layer_backward_kernel(Call& c) {
    BackInputs in(c);
    Layer n = layer_of(c, in.w);
    Unlocked unlocked(layer_work(n, 0));
    dispatch<FloatingTypes>(in.w.dtype(), c.name(), [&]<class T>() {
        kernels::run_sequence_backward<T>(n.for_kernel(0), in.for_kernel<T>(c), memory<T>(c.out(2)),
                                          memory<T>(late_output(c, 3)),
                                          memory<T>(late_output(c, 4)));
    });
}

void gradients_kernel(Call& c) {
    BackInputs in(c);
    Tensor x = dense(c.in[7]), w_ih = dense(c.in[8]);
    Layer n = layer_of(c, in.w);
    Unlocked unlocked(layer_work(n, 2 * x.size(1)));
    dispatch<FloatingTypes>(in.w.dtype(), c.name(), [&]<class T>() {
        kernels::run_sequence_gradients<T>(
            n.for_kernel(x.size(1)), in.for_kernel<T>(c), memory<T>(x), memory<T>(w_ih),
            {memory<T>(c.out(2)), memory<T>(late_output(c, 3)), memory<T>(late_output(c, 4)),
             memory<T>(late_output(c, 5)), memory<T>(late_output(c, 6))});
    });
}

// ---- the same in ops

Tensor layer_rows(const Tensor& t, int64_t at, int64_t n) { return narrow(t, 0, at, n); }

/// `state` with its first rows replaced.
Tensor with_first(const Tensor& state, const Tensor& rows) {
    int64_t n = rows.size(0), all = state.size(0);
    return n == all ? rows : cat.over({rows, layer_rows(state, n, all - n)}, {0});
}

/// One step of the forward pass, as backward needs it.
struct StepValues {
    int64_t at, rows;
    Tensor h, c;                 ///< before
    std::array<Tensor, 4> gate;  ///< activated: i f g o, r z n, or the one
    Tensor share, tanh_c;        ///< Gru: the state's share of n; Lstm
};

/// The state after `s`, which is completed.
void step_forward(Cell cell, StepValues& s, const Tensor& x, const Tensor& from_state, Tensor& h,
                  Tensor& c) {
    int64_t d = s.h.size(1);
    auto part = [d](const Tensor& t, int i) { return narrow(t, 1, i * d, d); };
    if (cell == Cell::Gru) {
        s.share = part(from_state, 2);
        for (int i : {0, 1}) s.gate[i] = sigmoid(part(x, i) + part(from_state, i));
        s.gate[2] = tanh(part(x, 2) + s.gate[0] * s.share);
        h = s.gate[2] + s.gate[1] * (s.h - s.gate[2]);
        return;
    }
    Tensor sum = x + from_state;
    if (cell != Cell::Lstm) {
        h = s.gate[0] = cell == Cell::Tanh ? tanh(sum) : relu(sum);
        return;
    }
    for (int i = 0; i < 4; ++i) s.gate[i] = i == 2 ? tanh(part(sum, i)) : sigmoid(part(sum, i));
    c = s.gate[1] * s.c + s.gate[0] * s.gate[2];
    s.tanh_c = tanh(c);
    h = s.gate[3] * s.tanh_c;
}

/// The gradients of the two shares of the gates; g and dc become what reaches the old state
/// otherwise than through the gates.
std::pair<Tensor, Tensor> step_backward(Cell cell, const StepValues& s, Tensor& g, Tensor& dc) {
    auto& [i, f, u, o] = s.gate;
    if (cell == Cell::Gru) {
        Tensor dn = g * (1 - f) * (1 - u * u), dz = g * (s.h - u) * f * (1 - f),
               dr = dn * s.share * i * (1 - i);
        g = g * f;
        return {cat.over({dr, dz, dn}, {1}), cat.over({dr, dz, dn * i}, {1})};
    }
    Tensor d;
    if (cell == Cell::Tanh) {
        d = g * (1 - i * i);
    } else if (cell == Cell::Relu) {
        d = where(gt(i, number(0, i.dtype())), g, number(0, g.dtype()));
    } else {
        Tensor sum = dc + g * o * (1 - s.tanh_c * s.tanh_c);
        d = cat.over({sum * u * i * (1 - i), sum * s.c * f * (1 - f), sum * i * (1 - u * u),
                      g * s.tanh_c * o * (1 - o)},
                     {1});
        dc = sum * f;
    }
    g = {};
    return {d, d};
}

struct LayerGradients {
    Tensor gates, state_share, h, c, before;
};

LayerGradients composed_layer(const Grad& grads, const Layer& n) {
    Tensor h = grads.in(1), c = grads.in(2), w = grads.in(4), bias = grads.in(6),
           gates = linear(grads.in(0), grads.in(3), grads.in(5));
    std::vector<StepValues> steps;
    int64_t at = n.reverse ? n.rows() : 0;
    for (size_t t = 0; t < n.sizes.size(); ++t) {
        int64_t rows = n.sizes[n.reverse ? n.sizes.size() - 1 - t : t];
        if (n.reverse) at -= rows;
        StepValues s{
            at, rows, layer_rows(h, 0, rows), c.defined() ? layer_rows(c, 0, rows) : Tensor(), {},
            {}, {}};
        Tensor h_next, c_next;
        step_forward(n.cell, s, layer_rows(gates, at, rows), linear(s.h, w, bias), h_next, c_next);
        h = with_first(h, h_next);
        if (c.defined()) c = with_first(c, c_next);
        steps.push_back(std::move(s));
        if (!n.reverse) at += rows;
    }
    Tensor out = grads.grad_or_zeros(0), dh = grads.grad_or_zeros(1), dc = grads.grad_or_zeros(2);
    std::vector<Tensor> dgates, dstate, before;
    for (auto s = steps.rbegin(); s != steps.rend(); ++s) {
        Tensor g = layer_rows(dh, 0, s->rows) + layer_rows(out, s->at, s->rows);
        Tensor cell = c.defined() ? layer_rows(dc, 0, s->rows) : Tensor();
        auto [dx, ds] = step_backward(n.cell, *s, g, cell);
        Tensor through = matmul(ds, w);
        dh = with_first(dh, g.defined() ? g + through : through);
        if (c.defined()) dc = with_first(dc, cell);
        dgates.push_back(dx);
        dstate.push_back(ds);
        before.push_back(s->h);
    }
    auto in_order = [&](std::vector<Tensor> parts) {
        if (!n.reverse) std::reverse(parts.begin(), parts.end());
        return cat.over(parts, {0});
    };
    return {in_order(dgates), in_order(dstate), dh, c.defined() ? dc : Tensor(), in_order(before)};
}

LayerGradients by_kernel(const Grad& g, const Layer& n) {
    auto parts = sequence_backward.all(
        {g.grad(0), g.grad(1), g.grad(2), g.in(4), g.out(3), g.in(1), g.in(2)},
        {g.attr(0), g.attr(1), g.attr(2)});
    return {parts[2], n.cell == Cell::Gru ? parts[3] : parts[2], parts[0], parts[1], parts[4]};
}

/// The gradients that `d` gives factors of.
void multiply(Grad& g, const LayerGradients& d) {
    const auto product = [&](int i, const Tensor& a, const Tensor& b) {
        if (mode & kGradMode) g.set(i, matmul(transpose(a, 0, 1), b));
        else g.set_product(i, a, b);
    };
    Dims first{0};
    if (g.needs(0)) g.set(0, matmul(d.gates, g.in(3)));
    if (g.needs(1)) g.set(1, d.h);
    if (g.needs(2)) g.set(2, d.c);
    if (g.needs(3)) product(3, d.gates, g.in(0));
    if (g.needs(4)) product(4, d.state_share, d.before);
    if (g.needs(5)) g.set(5, sum_dim(d.gates, first, false));
    if (g.needs(6)) g.set(6, sum_dim(d.state_share, first, false));
}

void layer_gradient(Grad& g) {
    Layer n([&](int i) -> const Value& { return g.attr(i); }, g.in(4));
    if (mode & kGradMode) return multiply(g, composed_layer(g, n));
    if (n.rows() < kFewRows) return multiply(g, by_kernel(g, n));
    int64_t wanted = 0;
    for (int i : {0, 3, 4, 5, 6}) wanted |= static_cast<int64_t>(g.needs(i)) << i;
    auto sums = sequence_gradients.all(
        {g.grad(0), g.grad(1), g.grad(2), g.in(4), g.out(3), g.in(1), g.in(2), g.in(0), g.in(3)},
        {g.attr(0), g.attr(1), g.attr(2), wanted});
    static constexpr int inputs[] = {1, 2, 0, 3, 4, 5};
    for (int k = 0; k < 6; ++k)
        if (g.needs(inputs[k])) g.set(inputs[k], sums[k]);
    if (g.needs(6)) g.set(6, sums[n.cell == Cell::Gru ? 6 : 5]);
}

// ---- how many operations they are

int64_t layer_flops(const Call& c) {
    return two_each({c.in[0].size(0), places(c.in[3], 0)}) +
           two_each({c.in[0].size(0), places(c.in[4], 0)});
}
/// What goes back through the states.
int64_t layer_backward_flops(const Call& c) {
    return two_each({c.out(2).size(0), places(c.in[3], 0)});
}
int64_t gradients_flops(const Call& c) {
    const int64_t rows = c.in[7].size(0);
    const int64_t by_state = two_each({rows, places(c.in[3], 0)}),
                  by_input = two_each({rows, places(c.in[8], 0)});
    return by_state * (1 + wanted(c, 4)) + by_input * (wanted(c, 0) + wanted(c, 3));
}

// ---- sequences of unlike length beside each other

Tensor positions(const Dims& at) {
    Tensor out = Tensor::layout(DType::Int64, Dims{at.size()});
    if (mode & kMetaMode) {  // the body of a call on meta
        out.allocate_meta();
        return out;
    }
    out.allocate();
    std::copy(at.begin(), at.end(), out.data<int64_t>());
    return out;
}
Dims inverse(const Dims& order) {
    Dims out(order.size());
    for (int i = 0; i < order.size(); ++i) out[static_cast<int>(order[i])] = i;
    return out;
}

/// Packed, the longest first; the results go back to their places.
void sequences_body(Call& c) {
    static const Function sequence{"_rnn_sequence"};
    DimSpan counts = c.attr(0).as_ints();
    std::vector<int64_t> order(counts.size()), starts(counts.size());
    for (size_t i = 0, at = 0; i < counts.size(); at += static_cast<size_t>(counts[i++])) {
        order[i] = static_cast<int64_t>(i);
        starts[i] = static_cast<int64_t>(at);
    }
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return counts[static_cast<size_t>(a)] > counts[static_cast<size_t>(b)];
    });
    Dims rows, sizes, first;
    for (int64_t i : order) first.push_back(i);
    for (int64_t t = 0;; ++t) {
        int64_t before = rows.size();
        for (int64_t i : order) {
            if (counts[static_cast<size_t>(i)] <= t) break;
            rows.push_back(starts[static_cast<size_t>(i)] + t);
        }
        if (rows.size() == before) break;
        sizes.push_back(rows.size() - before);
    }
    Tensor by_row = positions(rows), by_call = positions(first), none;
    auto select = [](const Tensor& t, const Tensor& at) { return index_select(t, 0, at); };
    auto out = sequence.all({select(c.in[0], by_row), select(c.in[1], by_call),
                             c.in[2].defined() ? select(c.in[2], by_call) : none, c.in[3], c.in[4],
                             c.in[5], c.in[6]},
                            {sizes, c.attr(1), c.attr(2)});
    Tensor back = positions(inverse(first));
    c.add(select(out[0], positions(inverse(rows))));
    c.add(select(out[1], back));
    c.add(c.in[2].defined() ? select(out[2], back) : out[2]);
    c.add(out[3]);
}

/// Single sequences of any length, by one layer's weights.
bool sequence_rows(const BatchCall& c, BatchForm& form) {
    DimSpan sizes = c.attr(0).as_ints();
    bool single = std::all_of(sizes.begin(), sizes.end(), [](int64_t n) { return n == 1; });
    for (int i = 3; i < 7; ++i) single &= !c.in(i).defined() || c.fixed(i);
    if (!single || c.in(0).numel() == 0) return false;
    form.op = &table().at("_rnn_sequences");
    form.rows = c.in(0).size(0);
    form.add_rows(0, c.in(0).shape().subspan(1), form.rows);
    for (int i = 1; i < 3; ++i) {
        if (c.in(i).defined()) form.add_rows(i, c.in(i).shape().subspan(1), 1);
        else form.add_shared(i);
    }
    for (int i = 3; i < 7; ++i) form.add_shared(i);
    form.in[4].in_turn = true;
    form.attrs = {Dims{}, c.attr(1), c.attr(2)};
    form.counts_attr = 0;
    return true;
}

}  // namespace

void register_sequence(Table& t) {
    t.add("_rnn_sequences(Tensor x, Tensor h, Tensor? c, Tensor w_ih, Tensor w_hh, Tensor? b_ih, "
          "Tensor? b_hh, int[] counts, str cell, bool reverse) -> (Tensor, Tensor, Tensor, Tensor)")
        .doc("_rnn_sequence of single sequences one after the other, the first of counts[0] rows, "
             "...")
        .body(sequences_body)
        .internal()
        .constant_output(3)
        .samples(
            {"f(T(6, 2), T(3, 3), T(3, 3), T(12, 2), T(12, 3), None, None, [2, 1, 3], 'lstm', "
             "True)[:3]",
             "f(T(5, 2), T(2, 3), None, T(9, 2), T(9, 3), None, None, [1, 4], 'gru', False)[:2]"});
    t.add("_rnn_sequence(Tensor x, Tensor h, Tensor? c, Tensor w_ih, Tensor w_hh, Tensor? b_ih, "
          "Tensor? b_hh, int[] batch_sizes, str cell, bool reverse) -> "
          "(Tensor, Tensor, Tensor, Tensor)")
        .doc("A recurrent layer over packed rows: x [N, I]; h and (for lstm) c [B, d];\n"
             "w_ih [G d, I]; w_hh [G d, d]; b_ih and b_hh [G d]. `cell` is tanh, relu, gru or "
             "lstm.\n"
             "Gives the outputs [N, d], the last h and c, and, if recorded, a tensor for backward.")
        .shape(layer_shape)
        .kernel(layer_kernel)
        .flops(layer_flops)
        .internal()
        .in_packages()
        .constant_output(3)
        .batch(sequence_rows, save_in(3) | save_in(4) | save_in(5) | save_in(6))
        .node_name("RnnSequenceBackward0")
        .joint_grad(save_in(0) | save_in(1) | save_in(2) | save_in(3) | save_in(4) | save_in(5) |
                        save_in(6) | save_out(3),
                    layer_gradient)
        .samples(
            {"f(T(6, 2), T(2, 3), T(2, 3), T(12, 2), T(12, 3), None, None, [2, 2, 2], 'lstm', "
             "False)[:3]",
             "f(T(6, 2), T(3, 3), T(3, 3), T(12, 2), T(12, 3), T(12), T(12), [3, 2, 1], 'lstm', "
             "True)[:3]",
             "f(T(6, 2), T(3, 3), None, T(9, 2), T(9, 3), T(9), T(9), [3, 2, 1], 'gru', False)[:2]",
             "f(T(6, 2), T(3, 3), None, T(9, 2), T(9, 3), None, None, [3, 2, 1], 'gru', True)[:2]",
             "f(T(3, 2), T(2, 3), None, T(3, 2), T(3, 3), T(3), None, [2, 1], 'tanh', False)[:2]",
             "f(T(3, 2), T(2, 3), None, T(3, 2), T(3, 3), None, T(3), [2, 1], 'tanh', True)[:2]",
             "f(T(3, 2), T(2, 3), None, T(3, 2), T(3, 3), None, None, [2, 1], 'relu', True)[:2]",
             "f(T(3, 2), T(1, 3), T(1, 3), T(12, 2), T(12, 3), T(12), T(12), [1, 1, 1], 'lstm', "
             "True)[:3]"});
    t.add("_rnn_sequence_backward(Tensor? grad, Tensor? grad_h, Tensor? grad_c, Tensor w_hh, "
          "Tensor kept, Tensor h, Tensor? c, int[] batch_sizes, str cell, bool reverse) -> "
          "(Tensor, Tensor, Tensor, Tensor, Tensor)")
        .doc(
            "The gradients of _rnn_sequence's h and c, of the input's and (gru) the state's share\n"
            "of the gates, and the states that the steps began with.")
        .shape(layer_backward_shape)
        .kernel(layer_backward_kernel)
        .flops(layer_backward_flops)
        .internal();
    t.add("_rnn_sequence_gradients(Tensor? grad, Tensor? grad_h, Tensor? grad_c, Tensor w_hh, "
          "Tensor kept, Tensor h, Tensor? c, Tensor x, Tensor w_ih, int[] batch_sizes, str cell, "
          "bool reverse, int wanted) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)")
        .doc("The gradients of _rnn_sequence's h, c, x, w_ih, w_hh, b_ih and b_hh; `wanted` has a\n"
             "bit for each input. Elsewhere than for gru the last two are one, given as b_ih's.")
        .shape(gradients_shape)
        .kernel(gradients_kernel)
        .flops(gradients_flops)
        .internal();
}

}  // namespace weft
