"""JAX and onnxruntime beside `weft.compile`: the same programs, written for each by hand.

Each function gives a step without arguments, or None where the peer is not installed
(`make bench PEERS=1` installs both). Gradients and Adam in JAX are `jax.grad` and the formula.
"""

import functools
import importlib
import io
import os

import gpt
import numpy as np

ASKED = os.environ.get("WEFT_BENCH_PEERS") == "1"


def peer(module):
    """A maker that gives None where `module` is not asked for or not installed."""

    def decorate(make):
        @functools.wraps(make)
        def maker(*args):
            if not ASKED:
                return None
            try:
                return make(importlib.import_module(module), *args)
            except ModuleNotFoundError:
                return None

        return maker

    return decorate


def jitted(jax, f, *args):
    """A step that waits for its result."""
    fast, args = jax.jit(f), [jax.numpy.asarray(a) for a in args]
    return lambda: jax.block_until_ready(fast(*args))


@peer("jax")
def chain(jax, elements):
    def f(x):
        sigmoid, tanh = jax.nn.sigmoid, jax.numpy.tanh
        return tanh(sigmoid(x) * 2 - 1 + x) * sigmoid(x + 0.5) - x

    return jitted(jax, f, np.random.randn(elements).astype(np.float32))


@peer("jax")
def gelu(jax, elements):
    def f(x):
        inner = 0.7978845608 * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1 + jax.numpy.tanh(inner))

    return jitted(jax, f, np.random.randn(elements).astype(np.float32))


def layers(sizes):
    """Weights and biases as arrays."""
    made = []
    for a, b in zip(sizes, sizes[1:]):
        made += [np.random.randn(a, b).astype(np.float32) * a**-0.5, np.zeros(b, np.float32)]
    return made


@peer("jax")
def perceptron(jax):
    def f(x, *params):
        for k in range(0, len(params), 2):
            x = x @ params[k] + params[k + 1]
            x = jax.numpy.tanh(x) if k < len(params) - 2 else x
        return x

    return jitted(jax, f, np.random.randn(1, 8).astype(np.float32), *layers([8, 64, 64, 2]))


@peer("jax")
def perceptron_step(jax):
    """The step with Adam, as mlp.adam_step."""
    jnp = jax.numpy
    x, y = jnp.asarray(np.random.randn(32, 64), jnp.float32), np.random.randint(0, 10, 32)

    def loss_of(params):
        w1, b1, w2, b2 = params
        scores = jax.nn.log_softmax(jax.nn.relu(x @ w1 + b1) @ w2 + b2)
        return -scores[jnp.arange(32), y].mean()

    @jax.jit
    def update(t, params, m, v):
        loss, grads = jax.value_and_grad(loss_of)(params)
        m = [0.9 * a + 0.1 * g for a, g in zip(m, grads)]
        v = [0.999 * a + 0.001 * g * g for a, g in zip(v, grads)]
        fit = jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        new = [p - 1e-3 * fit * a / (jnp.sqrt(b) + 1e-8) for p, a, b in zip(params, m, v)]
        return loss, t + 1, new, m, v

    params = [jnp.asarray(p) for p in layers([64, 128, 10])]
    zeros = [jnp.zeros_like(p) for p in params]
    state = [1.0, params, zeros, zeros]

    def step():
        loss, *state[:] = jax.block_until_ready(update(*state))
        return loss

    return step


def session(ort, model, feeds):
    """A step of an ONNX model on one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    made = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: made.run(None, feeds)


@peer("onnxruntime")
def perceptron_onnx(ort):
    onnx = importlib.import_module("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    params, nodes, last = layers([8, 64, 64, 2]), [], "x"
    for k in range(0, len(params), 2):
        nodes.append(helper.make_node("Gemm", [last, f"p{k}", f"p{k + 1}"], [f"h{k}"]))
        last = f"h{k}"
        if k < len(params) - 2:
            nodes.append(helper.make_node("Tanh", [last], [f"t{k}"]))
            last = f"t{k}"
    graph = helper.make_graph(
        nodes, "mlp", [helper.make_tensor_value_info("x", kind, [1, 8])],
        [helper.make_tensor_value_info(last, kind, [1, 2])],
        [onnx.numpy_helper.from_array(p, f"p{k}") for k, p in enumerate(params)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    x = np.random.randn(1, 8).astype(np.float32)
    return session(ort, model.SerializeToString(), {"x": x})


@peer("onnxruntime")
def gpt_onnx(ort, batch, length):
    """The GPT of gpt.py, as PyTorch exports it."""
    torch, file = importlib.import_module("torch"), io.BytesIO()
    importlib.import_module("onnx")
    model, tokens = gpt.forward(torch, batch, length)
    torch.onnx.export(model.eval(), (tokens,), file, input_names=["tokens"], dynamo=False)
    return session(ort, file.getvalue(), {"tokens": tokens.numpy()})
