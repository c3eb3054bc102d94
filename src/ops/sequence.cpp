/// One direction of one recurrent layer over whole sequences: what nn.RNN, nn.GRU and nn.LSTM run.
///
/// The backward pass is a kernel too; when a graph of it is wanted, the same formula is written with
/// ops instead, which is also what the kernel is tested against.
#include "kernels/sequence.h"

#include <algorithm>
#include <array>

#include "base/lock.h"
#include "ops/copy.h"
#include "ops/functions.h"

namespace weft {
namespace {

using namespace ops;
using kernels::Cell;
using kernels::SequenceSizes;

const Function sequence_backward{"_rnn_sequence_backward"}, linear{"linear"}, relu{"relu"};

/// The attributes and sizes of a call: batch_sizes, cell, reverse.
struct Layer {
    Cell cell;
    DimSpan sizes;
    bool reverse;
    int64_t width;

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
    SequenceSizes for_kernel() const {
        return {cell, sizes.data(), static_cast<int64_t>(sizes.size()), width, reverse};
    }
};

Layer layer_of(const Call& c, const Tensor& w) {
    return Layer([&](int i) -> const Value& { return c.attr(i); }, w);
}

void check_shape(const char* what, const Tensor& t, DimSpan want, DType dtype) {
    WEFT_EXPECT(equal(t.shape(), want), Runtime, "_rnn_sequence", text(what, " of shape ", to_string(want)),
                to_string(t.shape()));
    WEFT_EXPECT(t.dtype() == dtype, Runtime, "_rnn_sequence", text(what, " of dtype ", name(dtype)),
                name(t.dtype()));
}

Tensor matrix(DType dtype, int64_t rows, int64_t cols) {
    Dims shape{rows, cols};
    return Tensor::layout(dtype, shape);
}

void forward_shape(Call& c) {
    const Tensor &gates = c.in[0], &w = c.in[3];
    DType dtype = w.dtype();
    WEFT_EXPECT(w.ndim() == 2 && is_floating(dtype), Runtime, c.name(), "a floating matrix of weights",
                text(name(dtype), " of shape ", to_string(w.shape())));
    DimSpan sizes = c.attr(0).as_ints();
    WEFT_EXPECT(!sizes.empty() && sizes.back() >= 0 && std::is_sorted(sizes.rbegin(), sizes.rend()),
                Runtime, c.name(), "one step at least, and steps of no more rows than the one before",
                to_string(sizes));
    Layer n = layer_of(c, w);
    const Dims gates_shape{n.rows(), n.wide()}, w_shape{n.wide(), n.width}, bias_shape{n.wide()},
        state_shape{n.batch(), n.width};
    check_shape("weights", w, w_shape, dtype);
    check_shape("gates", gates, gates_shape, dtype);
    check_shape("a state", c.in[1], state_shape, dtype);
    if (c.in[4].defined()) check_shape("a bias", c.in[4], bias_shape, dtype);
    WEFT_EXPECT(c.in[2].defined() == (n.cell == Cell::Lstm), Runtime, c.name(), "a cell state for lstm only",
                c.attr(1).as_text());
    if (n.cell == Cell::Lstm) check_shape("a cell state", c.in[2], state_shape, dtype);
    c.add(matrix(dtype, n.rows(), n.width));
    c.add(matrix(dtype, n.batch(), n.width));
    c.add(matrix(dtype, n.cell == Cell::Lstm ? n.batch() : 0, n.width));
    c.add(matrix(dtype, n.rows(), n.width));
    c.add(matrix(dtype, n.rows(), kept_of(n.cell) * n.width));
}

Tensor dense(const Tensor& t) { return t.defined() ? as_contiguous(t) : t; }

template <class T>
T* memory(const Tensor& t) {
    return t.defined() && t.numel() ? t.data<T>() : nullptr;
}

/// Outputs past those that a call holds in place; a call of its own, or GCC 12 warns of the branch
/// not taken.
[[gnu::noinline]] const Tensor& late_output(const Call& c, int k) { return c.out(k); }

int64_t work(const Layer& n) { return n.rows() * n.wide() * n.width / 8; }

void forward_kernel(Call& c) {
    Tensor gates = dense(c.in[0]), w = dense(c.in[3]), bias = dense(c.in[4]);
    Layer n = layer_of(c, w);
    copy_into(c.out(1), c.in[1]);
    if (c.in[2].defined()) copy_into(c.out(2), c.in[2]);
    Unlocked unlocked(work(n));
    dispatch<FloatingTypes>(w.dtype(), c.name(), [&]<class T>() {
        kernels::run_sequence<T>(n.for_kernel(), memory<T>(gates), memory<T>(w), memory<T>(bias),
                                 memory<T>(c.out(1)), memory<T>(c.out(2)), memory<T>(c.out(0)),
                                 memory<T>(late_output(c, 3)),
                                 memory<T>(late_output(c, 4)));
    });
}

/// Inputs: the gradients of output, h_n and c_n, then w, before, kept.
void backward_shape(Call& c) {
    const Tensor& w = c.in[3];
    Layer n = layer_of(c, w);
    c.add(matrix(w.dtype(), n.rows(), n.wide()));
    c.add(matrix(w.dtype(), n.cell == Cell::Gru ? n.rows() : 0, n.wide()));
    c.add(matrix(w.dtype(), n.batch(), n.width));
    c.add(matrix(w.dtype(), n.cell == Cell::Lstm ? n.batch() : 0, n.width));
}

void backward_kernel(Call& c) {
    Tensor grad = dense(c.in[0]), w = dense(c.in[3]), before = dense(c.in[4]), kept = dense(c.in[5]);
    Layer n = layer_of(c, w);
    for (int i : {1, 2}) {
        const Tensor& to = c.out(i + 1);
        if (c.in[i].defined()) copy_into(to, c.in[i]);
        else if (to.numel()) std::fill_n(to.bytes(), to.numel() * item_size(to.dtype()), char(0));
    }
    Unlocked unlocked(work(n));
    dispatch<FloatingTypes>(w.dtype(), c.name(), [&]<class T>() {
        kernels::run_sequence_backward<T>(n.for_kernel(), memory<T>(grad), memory<T>(w),
                                          memory<T>(before), memory<T>(kept), memory<T>(c.out(2)),
                                          memory<T>(late_output(c, 3)), memory<T>(c.out(0)),
                                          memory<T>(c.out(1)));
    });
}

// ---- the same in ops

Tensor rows_of(const Tensor& t, int64_t at, int64_t n) { return narrow(t, 0, at, n); }

/// `state` with its first rows replaced.
Tensor with_first(const Tensor& state, const Tensor& rows) {
    int64_t n = rows.size(0), all = state.size(0);
    return n == all ? rows : cat.over({rows, rows_of(state, n, all - n)}, {0});
}

/// One step of the forward pass, as backward needs it.
struct StepValues {
    int64_t at, rows;
    Tensor h, c;                    ///< before
    std::array<Tensor, 4> gate;     ///< activated: i f g o, r z n, or the one
    Tensor share, tanh_c;           ///< Gru: the state's share of n; Lstm
};

/// The state after `s`, which is completed.
void step_forward(Cell cell, StepValues& s, const Tensor& x, const Tensor& from_state, Tensor& h, Tensor& c) {
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

struct Gradients {
    Tensor gates, state_share, h, c, before;
};

Gradients composed(const Grad& grads, const Layer& n) {
    Tensor gates = grads.in(0), h = grads.in(1), c = grads.in(2), w = grads.in(3), bias = grads.in(4);
    std::vector<StepValues> steps;
    int64_t at = n.reverse ? n.rows() : 0;
    for (size_t t = 0; t < n.sizes.size(); ++t) {
        int64_t rows = n.sizes[n.reverse ? n.sizes.size() - 1 - t : t];
        if (n.reverse) at -= rows;
        StepValues s{at, rows, rows_of(h, 0, rows), c.defined() ? rows_of(c, 0, rows) : Tensor(), {}, {}, {}};
        Tensor h_next, c_next;
        step_forward(n.cell, s, rows_of(gates, at, rows), linear(s.h, w, bias), h_next, c_next);
        h = with_first(h, h_next);
        if (c.defined()) c = with_first(c, c_next);
        steps.push_back(std::move(s));
        if (!n.reverse) at += rows;
    }
    Tensor out = grads.grad_or_zeros(0), dh = grads.grad_or_zeros(1), dc = grads.grad_or_zeros(2);
    std::vector<Tensor> dgates, dstate, before;
    for (auto s = steps.rbegin(); s != steps.rend(); ++s) {
        Tensor g = rows_of(dh, 0, s->rows) + rows_of(out, s->at, s->rows);
        Tensor cell = c.defined() ? rows_of(dc, 0, s->rows) : Tensor();
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

Gradients by_kernel(const Grad& g, const Layer& n) {
    auto parts = sequence_backward.all({g.grad(0), g.grad(1), g.grad(2), g.in(3), g.out(3), g.out(4)},
                                       {g.attr(0), g.attr(1), g.attr(2)});
    Tensor share = n.cell == Cell::Gru ? parts[1] : parts[0];
    return {parts[0], share, parts[2], parts[3], g.out(3)};
}

void gradient(Grad& g) {
    Layer n([&](int i) -> const Value& { return g.attr(i); }, g.in(3));
    Gradients d = mode & kGradMode ? composed(g, n) : by_kernel(g, n);
    if (g.needs(0)) g.set(0, d.gates);
    if (g.needs(1)) g.set(1, d.h);
    if (g.needs(2)) g.set(2, d.c);
    if (g.needs(3)) {
        if (mode & kGradMode) g.set(3, matmul(transpose(d.state_share, 0, 1), d.before));
        else g.set_product(3, d.state_share, d.before);
    }
    if (g.needs(4)) {
        Dims first{0};
        g.set(4, sum_dim(d.state_share, first, false));
    }
}

}  // namespace

void register_sequence(Table& t) {
    t.add("_rnn_sequence(Tensor gates, Tensor h, Tensor? c, Tensor w, Tensor? bias, int[] batch_sizes, "
          "str cell, bool reverse) -> (Tensor, Tensor, Tensor, Tensor, Tensor)")
        .doc("A recurrent layer over packed rows: gates [N, G d], the input's share; h and (for lstm)\n"
             "c [B, d]; w [G d, d]; bias [G d]. `cell` is tanh, relu, gru or lstm. Gives the outputs\n"
             "[N, d], the last h and c, and two tensors for backward.")
        .shape(forward_shape).kernel(forward_kernel).internal()
        .constant_output(3).constant_output(4)
        .node_name("RnnSequenceBackward0")
        .joint_grad(save_in(0) | save_in(1) | save_in(2) | save_in(3) | save_in(4) | save_out(3) |
                        save_out(4),
                    gradient)
        .samples({"f(T(6, 12), T(2, 3), T(2, 3), T(12, 3), None, [2, 2, 2], 'lstm', False)[:3]",
                  "f(T(6, 12), T(3, 3), T(3, 3), T(12, 3), T(12), [3, 2, 1], 'lstm', True)[:3]",
                  "f(T(6, 9), T(3, 3), None, T(9, 3), T(9), [3, 2, 1], 'gru', False)[:2]",
                  "f(T(6, 9), T(3, 3), None, T(9, 3), None, [3, 2, 1], 'gru', True)[:2]",
                  "f(T(3, 3), T(2, 3), None, T(3, 3), T(3), [2, 1], 'tanh', False)[:2]",
                  "f(T(3, 3), T(2, 3), None, T(3, 3), None, [2, 1], 'tanh', True)[:2]",
                  "f(T(3, 3), T(2, 3), None, T(3, 3), None, [2, 1], 'relu', True)[:2]"});
    t.add("_rnn_sequence_backward(Tensor? grad, Tensor? grad_h, Tensor? grad_c, Tensor w, Tensor before, "
          "Tensor kept, int[] batch_sizes, str cell, bool reverse) -> (Tensor, Tensor, Tensor, Tensor)")
        .doc("The gradients of _rnn_sequence's gates, of the state's share of them (gru), of h and c.")
        .shape(backward_shape).kernel(backward_kernel).internal();
}

}  // namespace weft
