/// The pointwise halves of GRU and LSTM cells, each one kernel.
///
/// A cell is two products and about ten pointwise ops on small rows; fused, the pointwise part costs
/// as much as one of them. Its backward is one kernel too; when a graph of the backward pass is
/// wanted, the same formula is written with ops instead.
#include <tuple>

#include "kernels/math.h"
#include "kernels/simd.h"
#include "ops/batch.h"
#include "ops/copy.h"
#include "ops/functions.h"

namespace weft {
namespace ops {
namespace {

const Function gru_gates{"_gru_gates"}, gru_gates_backward{"_gru_gates_backward"},
    lstm_gates{"_lstm_gates"}, lstm_gates_backward{"_lstm_gates_backward"};

bool recorded() { return mode & kGradMode; }

/// Columns [i * width, (i + 1) * width) of the last dimension.
Tensor part(const Tensor& t, int i, int64_t width) { return narrow(t, -1, i * width, width); }

// ---- GRU: r, z = sigmoid(i + h), n = tanh(i_n + r * h_n), h' = n + z * (h - n)

struct GruForward {
    template <class T>
    WEFT_INLINE static void run(int64_t rows, int64_t d, const T* gi, const T* gh, const T* h,
                                T* out, T* kept) {
        for (int64_t row = 0; row < rows; ++row) {
#pragma GCC ivdep  // the rows of gates do not overlap
            for (int64_t j = 0; j < d; ++j) {
                T r = kernels::math::sigmoid(gi[j] + gh[j]);
                T z = kernels::math::sigmoid(gi[d + j] + gh[d + j]);
                T n = kernels::math::tanh(gi[2 * d + j] + r * gh[2 * d + j]);
                kept[j] = r;
                kept[d + j] = z;
                kept[2 * d + j] = n;
                out[j] = n + z * (h[j] - n);
            }
            gi += 3 * d, gh += 3 * d, kept += 3 * d, h += d, out += d;
        }
    }
};

struct GruBackward {
    template <class T>
    WEFT_INLINE static void run(int64_t rows, int64_t d, const T* g, const T* gh, const T* h,
                                const T* kept, T* dgi, T* dgh, T* dh) {
        for (int64_t row = 0; row < rows; ++row) {
#pragma GCC ivdep  // the rows of gates do not overlap
            for (int64_t j = 0; j < d; ++j) {
                T r = kept[j], z = kept[d + j], n = kept[2 * d + j];
                T dn = g[j] * (1 - z) * (1 - n * n);
                T dz = g[j] * (h[j] - n) * z * (1 - z);
                T dr = dn * gh[2 * d + j] * r * (1 - r);
                dgi[j] = dgh[j] = dr;
                dgi[d + j] = dgh[d + j] = dz;
                dgi[2 * d + j] = dn;
                dgh[2 * d + j] = dn * r;
                dh[j] = g[j] * z;
            }
            g += d, h += d, dh += d, gh += 3 * d, kept += 3 * d, dgi += 3 * d, dgh += 3 * d;
        }
    }
};

void check_gates(const Call& c, const Tensor& gi, const Tensor& gh, const Tensor& state,
                 int gates) {
    int64_t d = state.ndim() ? state.size(state.ndim() - 1) : 0;
    Dims want(state.shape());
    if (!want.empty()) want.back() = gates * d;
    WEFT_EXPECT(state.ndim() > 0 && equal(gi.shape(), want) && equal(gh.shape(), want), Runtime,
                c.name(),
                text("gates of shape ", to_string(want), " for a state ", to_string(state.shape())),
                text(to_string(gi.shape()), " and ", to_string(gh.shape())));
    WEFT_EXPECT(is_floating(state.dtype()) && gi.dtype() == state.dtype() &&
                    gh.dtype() == state.dtype(),
                Runtime, c.name(), "input, state and weights of one floating dtype",
                text(name(gi.dtype()), " and ", name(state.dtype())));
}

void gru_shape(Call& c) {
    check_gates(c, c.in[0], c.in[1], c.in[2], 3);
    c.add(Tensor::layout(c.in[2].dtype(), c.in[2].shape()));
    c.add(Tensor::layout(c.in[0].dtype(), c.in[0].shape()));
}
void gru_kernel(Call& c) {
    Tensor gi = as_contiguous(c.in[0]), gh = as_contiguous(c.in[1]), h = as_contiguous(c.in[2]);
    int64_t d = h.size(h.ndim() - 1);
    dispatch<FloatingTypes>(h.dtype(), c.name(), [&]<class T>() {
        kernels::per_isa<GruForward>(d ? h.numel() / d : 0, d, static_cast<const T*>(gi.data<T>()),
                                     static_cast<const T*>(gh.data<T>()),
                                     static_cast<const T*>(h.data<T>()), c.out(0).data<T>(),
                                     c.out(1).data<T>());
    });
}

void gru_backward_shape(Call& c) {
    c.add(Tensor::layout(c.in[1].dtype(), c.in[1].shape()));
    c.add(Tensor::layout(c.in[1].dtype(), c.in[1].shape()));
    c.add(Tensor::layout(c.in[2].dtype(), c.in[2].shape()));
}
void gru_backward_kernel(Call& c) {
    Tensor g = as_contiguous(c.in[0]), gh = as_contiguous(c.in[1]);
    Tensor h = as_contiguous(c.in[2]), kept = as_contiguous(c.in[3]);
    int64_t d = h.size(h.ndim() - 1);
    dispatch<FloatingTypes>(h.dtype(), c.name(), [&]<class T>() {
        kernels::per_isa<GruBackward>(d ? h.numel() / d : 0, d, static_cast<const T*>(g.data<T>()),
                                      static_cast<const T*>(gh.data<T>()),
                                      static_cast<const T*>(h.data<T>()),
                                      static_cast<const T*>(kept.data<T>()), c.out(0).data<T>(),
                                      c.out(1).data<T>(), c.out(2).data<T>());
    });
}

void gru_grad(Grad& g) {
    Tensor grad = g.grad_or_zeros(0), gh = g.in(1), h = g.in(2);
    if (!recorded()) {
        auto parts = gru_gates_backward.all({grad, gh, h, g.out(1)});
        for (int i = 0; i < 3; ++i)
            if (g.needs(i)) g.set(i, parts[i]);
        return;
    }
    int64_t d = h.size(h.ndim() - 1);
    Tensor gi = g.in(0);
    Tensor r = sigmoid(part(gi, 0, d) + part(gh, 0, d)),
           z = sigmoid(part(gi, 1, d) + part(gh, 1, d));
    Tensor n = tanh(part(gi, 2, d) + r * part(gh, 2, d));
    Tensor dn = grad * (1 - z) * (1 - n * n);
    Tensor dz = grad * (h - n) * z * (1 - z), dr = dn * part(gh, 2, d) * r * (1 - r);
    if (g.needs(0)) g.set(0, cat.over({dr, dz, dn}, {-1}));
    if (g.needs(1)) g.set(1, cat.over({dr, dz, dn * r}, {-1}));
    if (g.needs(2)) g.set(2, grad * z);
}

// ---- LSTM: i, f, g, o from the gates; c' = f * c + i * g, h' = o * tanh(c')

struct LstmForward {
    template <class T>
    WEFT_INLINE static void run(int64_t rows, int64_t d, const T* gi, const T* gh, const T* c,
                                T* h_out, T* c_out, T* kept) {
        for (int64_t row = 0; row < rows; ++row) {
#pragma GCC ivdep  // the rows of gates do not overlap
            for (int64_t j = 0; j < d; ++j) {
                T i = kernels::math::sigmoid(gi[j] + gh[j]);
                T f = kernels::math::sigmoid(gi[d + j] + gh[d + j]);
                T g = kernels::math::tanh(gi[2 * d + j] + gh[2 * d + j]);
                T o = kernels::math::sigmoid(gi[3 * d + j] + gh[3 * d + j]);
                T after = f * c[j] + i * g, t = kernels::math::tanh(after);
                kept[j] = i;
                kept[d + j] = f;
                kept[2 * d + j] = g;
                kept[3 * d + j] = o;
                kept[4 * d + j] = t;
                c_out[j] = after;
                h_out[j] = o * t;
            }
            gi += 4 * d, gh += 4 * d, kept += 5 * d, c += d, c_out += d, h_out += d;
        }
    }
};

struct LstmBackward {
    template <class T>
    WEFT_INLINE static void run(int64_t rows, int64_t d, const T* gh, const T* gc, const T* c,
                                const T* kept, T* dgates, T* dc) {
        for (int64_t row = 0; row < rows; ++row) {
#pragma GCC ivdep  // the rows of gates do not overlap
            for (int64_t j = 0; j < d; ++j) {
                T i = kept[j], f = kept[d + j], g = kept[2 * d + j], o = kept[3 * d + j];
                T t = kept[4 * d + j], dafter = gc[j] + gh[j] * o * (1 - t * t);
                dgates[j] = dafter * g * i * (1 - i);
                dgates[d + j] = dafter * c[j] * f * (1 - f);
                dgates[2 * d + j] = dafter * i * (1 - g * g);
                dgates[3 * d + j] = gh[j] * t * o * (1 - o);
                dc[j] = dafter * f;
            }
            gh += d, gc += d, c += d, dc += d, kept += 5 * d, dgates += 4 * d;
        }
    }
};

void lstm_shape(Call& c) {
    check_gates(c, c.in[0], c.in[1], c.in[2], 4);
    Dims kept(c.in[2].shape());
    kept.back() *= 5;
    c.add(Tensor::layout(c.in[2].dtype(), c.in[2].shape()));
    c.add(Tensor::layout(c.in[2].dtype(), c.in[2].shape()));
    c.add(Tensor::layout(c.in[2].dtype(), kept));
}
void lstm_kernel(Call& c) {
    Tensor gi = as_contiguous(c.in[0]), gh = as_contiguous(c.in[1]), s = as_contiguous(c.in[2]);
    int64_t d = s.size(s.ndim() - 1);
    dispatch<FloatingTypes>(s.dtype(), c.name(), [&]<class T>() {
        kernels::per_isa<LstmForward>(d ? s.numel() / d : 0, d, static_cast<const T*>(gi.data<T>()),
                                      static_cast<const T*>(gh.data<T>()),
                                      static_cast<const T*>(s.data<T>()), c.out(0).data<T>(),
                                      c.out(1).data<T>(), c.out(2).data<T>());
    });
}

void lstm_backward_shape(Call& c) {
    Dims gates(c.in[2].shape());
    gates.back() *= 4;
    c.add(Tensor::layout(c.in[2].dtype(), gates));
    c.add(Tensor::layout(c.in[2].dtype(), c.in[2].shape()));
}
void lstm_backward_kernel(Call& c) {
    Tensor in[4];
    for (int i = 0; i < 4; ++i) in[i] = as_contiguous(c.in[i]);
    int64_t d = in[2].size(in[2].ndim() - 1);
    dispatch<FloatingTypes>(in[2].dtype(), c.name(), [&]<class T>() {
        const T* p[4];
        for (int i = 0; i < 4; ++i) p[i] = in[i].data<T>();
        kernels::per_isa<LstmBackward>(d ? in[2].numel() / d : 0, d, p[0], p[1], p[2], p[3],
                                       c.out(0).data<T>(), c.out(1).data<T>());
    });
}

void lstm_grad(Grad& g) {
    Tensor gh = g.grad_or_zeros(0), gc = g.grad_or_zeros(1), c = g.in(2);
    if (!recorded()) {
        auto parts = lstm_gates_backward.all({gh, gc, c, g.out(2)});
        if (g.needs(0)) g.set(0, parts[0]);
        if (g.needs(1)) g.set(1, parts[0]);
        if (g.needs(2)) g.set(2, parts[1]);
        return;
    }
    int64_t d = c.size(c.ndim() - 1);
    Tensor sum = g.in(0) + g.in(1);
    Tensor i = sigmoid(part(sum, 0, d)), f = sigmoid(part(sum, 1, d)), u = tanh(part(sum, 2, d)),
           o = sigmoid(part(sum, 3, d));
    Tensor t = tanh(f * c + i * u), dafter = gc + gh * o * (1 - t * t);
    Tensor gates = cat.over({dafter * u * i * (1 - i), dafter * c * f * (1 - f),
                             dafter * i * (1 - u * u), gh * t * o * (1 - o)},
                            {-1});
    if (g.needs(0)) g.set(0, gates);
    if (g.needs(1)) g.set(1, gates);
    if (g.needs(2)) g.set(2, dafter * f);
}

// ---- cells

/// Gates and state by rows of their last dim.
bool gate_rows(const BatchCall& c, BatchForm& form) {
    const Tensor& state = c.in(2);
    if (state.ndim() == 0 || state.numel() == 0) return false;
    for (int i = 0; i < 3; ++i)
        form.add_rows(i, c.in(i).shape().subspan(static_cast<size_t>(c.in(i).ndim() - 1)));
    form.rows = state.numel() / state.size(state.ndim() - 1);
    return true;
}

void gru_cell_body(Call& c) {
    c.set(gru_gates.all(
        {linear(c.in[0], c.in[2], c.in[4]), linear(c.in[1], c.in[3], c.in[5]), c.in[1]})[0]);
}
void lstm_cell_body(Call& c) {
    auto out = lstm_gates.all(
        {linear(c.in[0], c.in[3], c.in[5]), linear(c.in[1], c.in[4], c.in[6]), c.in[2]});
    c.add(std::move(out[0]));
    c.add(std::move(out[1]));
}
template <const Function& activation>
void rnn_cell_body(Call& c) {
    WEFT_EXPECT(c.in[0].ndim() <= 2, Runtime, c.name(), "an input (batch, features)",
                text("one of ", c.in[0].ndim(), " dims (input has inconsistent input_size)"));
    c.set(activation(linear(c.in[0], c.in[2], c.in[4]) + linear(c.in[1], c.in[3], c.in[5])));
}

}  // namespace
}  // namespace ops

void register_recurrent(Table& t) {
    using namespace ops;
    t.add("_gru_gates(Tensor gi, Tensor gh, Tensor h) -> (Tensor, Tensor)")
        .autocast(Cast::Widest)
        .doc("The pointwise part of a GRU cell; the second output keeps the gates.")
        .shape(gru_shape)
        .kernel(gru_kernel)
        .batch(gate_rows)
        .internal()
        .constant_output(1)
        .node_name("AddBackward0")
        .joint_grad(save_in(0) | save_in(1) | save_in(2) | save_out(1), gru_grad)
        .samples({"f(T(2, 9), T(2, 9), T(2, 3))", "f(T(9), T(9), T(3))"});
    t.add("_gru_gates_backward(Tensor grad, Tensor gh, Tensor h, Tensor kept) -> (Tensor, Tensor, "
          "Tensor)")
        .doc("Gradients of _gru_gates for gi, gh and h.")
        .shape(gru_backward_shape)
        .kernel(gru_backward_kernel)
        .internal();
    t.add("_lstm_gates(Tensor gi, Tensor gh, Tensor c) -> (Tensor, Tensor, Tensor)")
        .autocast(Cast::Widest)
        .doc("The pointwise part of an LSTM cell: h, c, what is kept for backward.")
        .shape(lstm_shape)
        .kernel(lstm_kernel)
        .batch(gate_rows)
        .internal()
        .in_packages()
        .constant_output(2)
        .node_names({"MulBackward0", "AddBackward0"})
        .joint_grad(save_in(0) | save_in(1) | save_in(2) | save_out(2), lstm_grad)
        .no_onnx("a kernel of weft's own, which keeps what gradients need")
        .samples({"f(T(2, 12), T(2, 12), T(2, 3))", "f(T(12), T(12), T(3))"});
    t.add("_lstm_gates_backward(Tensor gh, Tensor gc, Tensor c, Tensor kept) -> (Tensor, Tensor)")
        .doc("Gradients of _lstm_gates for the gates and c.")
        .shape(lstm_backward_shape)
        .kernel(lstm_backward_kernel)
        .internal();
    t.add("gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
          "Tensor? b_hh=None) -> Tensor")
        .doc("One GRU step (Cho et al. 2014, as PyTorch has it): input [..., in], hx [..., d],\n"
             "w_ih [3d, in], w_hh [3d, d].\n"
             "The result is [..., d], the next state.\n"
             ">>> x, h = weft.ones(1, 3), weft.zeros(1, 2)\n"
             ">>> weft.gru_cell(x, h, weft.zeros(6, 3), weft.zeros(6, 2))\n"
             "tensor([[0., 0.]])")
        .body(gru_cell_body)
        .batch(Batch::Body)
        .function_only()
        .samples({"f(T(2, 4), T(2, 3), T(9, 4), T(9, 3), T(9), T(9))",
                  "f(T(4), T(3), T(9, 4), T(9, 3))"});
    t.add("_lstm_cell(Tensor input, Tensor h, Tensor c, Tensor w_ih, Tensor w_hh, Tensor? "
          "b_ih=None, "
          "Tensor? b_hh=None) -> (Tensor, Tensor)")
        .doc("One LSTM step (Hochreiter & Schmidhuber 1997, as PyTorch has it).")
        .body(lstm_cell_body)
        .batch(Batch::Body)
        .internal()
        .in_packages();
    t.add("rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
          "Tensor? b_hh=None) -> Tensor")
        .doc("tanh(input w_ih^T + b_ih + hx w_hh^T + b_hh).\n"
             "input [..., in], hx [..., d], w_ih [d, in], w_hh [d, d]; the result is [..., d].\n"
             ">>> x, h = weft.ones(1, 3), weft.zeros(1, 2)\n"
             ">>> weft.rnn_tanh_cell(x, h, weft.zeros(2, 3), weft.zeros(2, 2))\n"
             "tensor([[0., 0.]])")
        .body(rnn_cell_body<ops::tanh>)
        .batch(Batch::Body)
        .function_only()
        .samples({"f(T(2, 4), T(2, 3), T(3, 4), T(3, 3), T(3), T(3))"});
    t.add("rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
          "Tensor? b_hh=None) -> Tensor")
        .doc("relu(input w_ih^T + b_ih + hx w_hh^T + b_hh).\n"
             "input [..., in], hx [..., d], w_ih [d, in], w_hh [d, d]; the result is [..., d].\n"
             ">>> x, h = weft.ones(1, 3), weft.zeros(1, 2)\n"
             ">>> weft.rnn_relu_cell(x, h, weft.ones(2, 3), weft.zeros(2, 2))\n"
             "tensor([[3., 3.]])")
        .body(rnn_cell_body<ops::relu>)
        .batch(Batch::Body)
        .function_only()
        .samples({"f(T(2, 4), T(2, 3), T(3, 4), T(3, 3), T(3), T(3))"});
}

}  // namespace weft
