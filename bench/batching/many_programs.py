"""Programs of one example that are not small: attention, recurrent layers, rows, early exits.

Each is `make(lib)`, which gives the modules, a function of one example and a maker of one example
by its number. With the models of this folder they are what the coefficients of Note [Worth] were
fitted to.
"""

import random


def program(make):
    PROGRAMS[make.__name__] = make
    return make


PROGRAMS = {}


def lengths(seed, low, high):
    return random.Random(seed).randint(low, high)


def mlp(lib, *sizes):
    nn = lib.nn
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


@program
def mlp_narrow(lib):
    net = mlp(lib, 16, 32, 32, 4)
    return net, lambda x: net(x).sum(), lambda k: lib.randn(16)


@program
def mlp_wide(lib):
    net = mlp(lib, 256, 512, 512, 16)
    return net, lambda x: net(x).sum(), lambda k: lib.randn(256)


@program
def mlp_over_few_rows(lib):
    net = mlp(lib, 32, 64, 32)
    return net, lambda x: net(x).mean(0).sum(), lambda k: lib.randn(lengths(k, 2, 6), 32)


@program
def mlp_over_many_rows(lib):
    net = mlp(lib, 64, 128, 64)
    return net, lambda x: net(x).mean(0).sum(), lambda k: lib.randn(lengths(k, 30, 90), 64)


@program
def linear_over_hundreds_of_rows(lib):
    net = mlp(lib, 64, 64, 1)
    return net, lambda x: net(x).sum(), lambda k: lib.randn(lengths(k, 150, 240), 64)


@program
def deep_set(lib):
    net = lib.nn.ModuleDict({"each": mlp(lib, 8, 32, 32), "all": mlp(lib, 32, 32, 1)})
    return (net, lambda x: net["all"](net["each"](x).sum(0)).sum(),
            lambda k: lib.randn(lengths(k, 3, 20), 8))  # fmt: skip


@program
def early_exit(lib):
    net = lib.nn.ModuleList([mlp(lib, 64, 64) for _ in range(6)])
    head = lib.nn.Linear(64, 1)
    net.append(head)

    def fn(x):
        for layer in net[:6]:
            x = layer(x).relu() + x
            if head(x).sigmoid().item() > 0.6:
                break
        return head(x).sum()

    return net, fn, lambda k: lib.randn(64)


@program
def early_exit_over_rows(lib):
    net = lib.nn.ModuleList([mlp(lib, 32, 64, 32) for _ in range(4)])
    head = lib.nn.Linear(32, 1)
    net.append(head)

    def fn(x):
        for layer in net[:4]:
            x = layer(x) + x
            if head(x.mean(0)).item() > 0.3:
                break
        return head(x).mean()

    return net, fn, lambda k: lib.randn(lengths(k, 8, 40), 32)


@program
def self_attention(lib):
    net = lib.nn.ModuleDict({n: lib.nn.Linear(32, 32) for n in ("q", "k", "v", "o")})

    def fn(x):
        q, k, v = (net[n](x) for n in "qkv")
        a = ((q @ k.t()) * 32**-0.5).softmax(-1)
        return net["o"](a @ v).mean()

    return net, fn, lambda k: lib.randn(lengths(k, 6, 30), 32)


@program
def long_self_attention(lib):
    net = lib.nn.ModuleDict({n: lib.nn.Linear(64, 64) for n in ("q", "k", "v", "o")})

    def fn(x):
        q, k, v = (net[n](x) for n in "qkv")
        a = ((q @ k.t()) * 64**-0.5).softmax(-1)
        return net["o"](a @ v).mean()

    return net, fn, lambda k: lib.randn(lengths(k, 60, 110), 64)


@program
def multihead_attention(lib):
    net = lib.nn.MultiheadAttention(32, 4, batch_first=True)
    return (net, lambda x: net(x[None], x[None], x[None], need_weights=False)[0].mean(),
            lambda k: lib.randn(lengths(k, 5, 40), 32))  # fmt: skip


@program
def hierarchical_attention(lib):
    net = lib.nn.ModuleDict({"word": lib.nn.GRU(24, 24, batch_first=True),
                             "line": lib.nn.GRU(24, 24, batch_first=True),
                             "w": lib.nn.Linear(24, 24), "s": lib.nn.Linear(24, 24),
                             "out": lib.nn.Linear(24, 5)})  # fmt: skip

    def pooled(h, layer):
        u = layer(h).tanh()
        return ((u.sum(-1)).softmax(0)[:, None] * h).sum(0)

    def fn(lines):
        found = [pooled(net["word"](line[None])[0][0], net["w"]) for line in lines]
        h = net["line"](lib.stack(found)[None])[0][0]
        return net["out"](pooled(h, net["s"])).sum()

    def example(k):
        r = random.Random(k)
        return [lib.randn(r.randint(4, 16), 24) for _ in range(r.randint(2, 6))]

    return net, fn, example


@program
def set_transformer(lib):
    net = lib.nn.ModuleDict({n: lib.nn.Linear(32, 32) for n in ("q", "k", "v", "f", "g")})
    seeds = lib.nn.Parameter(lib.randn(4, 32))
    net.register_parameter("seeds", seeds)
    norm = lib.nn.LayerNorm(32)

    def block(x, y):
        a = ((net["q"](x) @ net["k"](y).t()) * 32**-0.5).softmax(-1) @ net["v"](y)
        h = norm(x + a)
        return norm(h + net["f"](h).relu())

    def fn(x):
        return net["g"](block(seeds, block(x, block(seeds, x)))).mean()

    return net, fn, lambda k: lib.randn(lengths(k, 10, 60), 32)


@program
def transformer_layer(lib):
    net = lib.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    return net, lambda x: net(x[None]).mean(), lambda k: lib.randn(lengths(k, 6, 40), 32)


@program
def gru_layer(lib):
    net = lib.nn.GRU(32, 32, batch_first=True)
    return net, lambda x: net(x[None])[0].mean(), lambda k: lib.randn(lengths(k, 5, 40), 32)


@program
def lstm_layer(lib):
    net = lib.nn.LSTM(64, 64, batch_first=True)
    return net, lambda x: net(x[None])[0].mean(), lambda k: lib.randn(lengths(k, 20, 60), 64)


@program
def gru_cells(lib):
    net = lib.nn.GRUCell(32, 32)

    def fn(x):
        h = lib.zeros(32)
        for row in x:
            h = net(row, h)
        return h.sum()

    return net, fn, lambda k: lib.randn(lengths(k, 4, 20), 32)


@program
def lstm_cells_wide(lib):
    net = lib.nn.LSTMCell(128, 128)

    def fn(x):
        state = None
        for row in x:
            state = net(row[None], state)
        return state[0].sum()

    return net, fn, lambda k: lib.randn(lengths(k, 3, 12), 128)


@program
def plain_rnn(lib):
    net = lib.nn.ModuleDict({"i": lib.nn.Linear(16, 24), "h": lib.nn.Linear(24, 24)})

    def fn(x):
        h = lib.zeros(24)
        for row in x:
            h = (net["i"](row) + net["h"](h)).tanh()
        return h.sum()

    return net, fn, lambda k: lib.randn(lengths(k, 3, 25), 16)


@program
def halting_rnn(lib):
    net = lib.nn.ModuleDict({"h": lib.nn.GRUCell(32, 32), "stop": lib.nn.Linear(32, 1)})

    def fn(x):
        h = x
        for _ in range(10):
            h = net["h"](x, h)
            if net["stop"](h).item() > 0.2:
                break
        return h.sum()

    return net, fn, lambda k: lib.randn(32)


@program
def embedding_bag_of_words(lib):
    net = lib.nn.ModuleDict({"e": lib.nn.Embedding(1000, 50), "o": lib.nn.Linear(50, 5)})

    def example(k):
        r = random.Random(k)
        return lib.tensor([r.randrange(1000) for _ in range(r.randint(3, 40))])

    return net, lambda words: net["o"](net["e"](words).mean(0)).sum(), example


@program
def text_cnn(lib):
    net = lib.nn.ModuleDict({"e": lib.nn.Embedding(500, 16), "c": lib.nn.Conv1d(16, 24, 3),
                             "o": lib.nn.Linear(24, 4)})  # fmt: skip

    def fn(words):
        h = net["c"](net["e"](words).t()[None]).relu().max(2).values[0]
        return net["o"](h).sum()

    def example(k):
        r = random.Random(k)
        return lib.tensor([r.randrange(500) for _ in range(r.randint(5, 30))])

    return net, fn, example


@program
def small_convolution(lib):
    nn = lib.nn
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                        nn.Linear(8 * 6 * 6, 10))  # fmt: skip
    return net, lambda x: net(x[None]).sum(), lambda k: lib.randn(1, 14, 14)


@program
def larger_convolution(lib):
    nn = lib.nn
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip
    return net, lambda x: net(x[None]).sum(), lambda k: lib.randn(3, 24, 24)


@program
def tree_sums(lib):
    net = lib.nn.ModuleDict({"leaf": lib.nn.Linear(16, 16), "join": lib.nn.Linear(32, 16)})

    def fold(tree):
        if not isinstance(tree, tuple):
            return net["leaf"](tree)
        return net["join"](lib.cat([fold(t) for t in tree])).tanh()

    def example(k):
        r = random.Random(k)

        def grow(depth):
            return (lib.randn(16) if depth == 0 or r.random() < 0.2
                    else (grow(depth - 1), grow(depth - 1)))  # fmt: skip

        return grow(4)

    return net, lambda tree: fold(tree).sum(), example


@program
def graph_network(lib):
    net = lib.nn.ModuleDict({"m": lib.nn.Linear(16, 16), "u": lib.nn.Linear(32, 16)})

    def fn(graph):
        h, a = graph
        for _ in range(3):
            h = net["u"](lib.cat([h, a @ net["m"](h).relu()], 1)).tanh()
        return h.sum(0).sum()

    def example(k):
        n = lengths(k, 5, 25)
        return lib.randn(n, 16), (lib.rand(n, n) < 0.2).float()

    return net, fn, example


@program
def pointer_scores(lib):
    net = lib.nn.ModuleDict({"q": lib.nn.Linear(32, 32), "k": lib.nn.Linear(32, 32)})

    def fn(x):
        q, total = x.mean(0), 0
        keys = net["k"](x)
        for _ in range(4):
            w = (keys @ net["q"](q)).softmax(0)
            q = w @ x
            total = total + w.max()
        return total

    return net, fn, lambda k: lib.randn(lengths(k, 5, 30), 32)


@program
def beam_of_scores(lib):
    net = lib.nn.ModuleDict({"h": lib.nn.GRUCell(16, 16), "o": lib.nn.Linear(16, 30),
                             "e": lib.nn.Embedding(30, 16)})  # fmt: skip

    def fn(x):
        h, word, total = x, lib.tensor(1), 0
        for _ in range(6):
            h = net["h"](net["e"](word), h)
            scores = net["o"](h).log_softmax(0)
            best = int(scores.argmax())
            total = total + scores[best]
            word = lib.tensor(best)
        return total

    return net, fn, lambda k: lib.randn(16)


@program
def beam_search(lib):
    net = lib.nn.ModuleDict({"h": lib.nn.GRUCell(32, 32), "o": lib.nn.Linear(32, 30),
                             "e": lib.nn.Embedding(30, 32)})  # fmt: skip

    def fn(x):
        beams = [(0.0, x, 1)]
        for _ in range(5):
            found = []
            for score, h, word in beams:
                h = net["h"](net["e"](lib.tensor(word)), h)
                scores, words = net["o"](h).log_softmax(0).topk(4)
                found += [(score + s, h, int(w)) for s, w in zip(scores, words)]
            beams = sorted(found, key=lambda beam: -float(beam[0]))[:4]
        return beams[0][0]

    return net, fn, lambda k: lib.randn(32)


@program
def neural_ode(lib):
    net = mlp(lib, 8, 32, 8)

    def fn(x):
        dt = 0.1
        for _ in range(8):
            a = net(x)
            x = x + dt * (a + net(x + dt * a)) / 2
        return x.sum()

    return net, fn, lambda k: lib.randn(8)


@program
def adaptive_ode(lib):
    net = mlp(lib, 8, 32, 8)

    def fn(x):
        t, dt = 0.0, 0.2
        for _ in range(12):
            a = net(x)
            b = net(x + dt * a)
            if ((a - b) * dt).abs().max().item() > 0.05:
                dt *= 0.5
            x, t = x + dt * (a + b) / 2, t + dt
            if t >= 1:
                break
        return x.sum()

    return net, fn, lambda k: lib.randn(8)


@program
def squeeze_of_a_large_vector(lib):
    net = mlp(lib, 2048, 64, 8)
    return net, lambda x: net(x).sum(), lambda k: lib.randn(2048)


@program
def pointwise_over_thousands(lib):
    net = lib.nn.Linear(1, 1)

    def fn(x):
        for _ in range(6):
            x = (x * 0.9 + 0.1).tanh()
        return net(x.mean()[None]).sum()

    return net, fn, lambda k: lib.randn(4000)


@program
def mixture_of_two(lib):
    net = lib.nn.ModuleList([mlp(lib, 48, 96, 48), mlp(lib, 48, 96, 48), lib.nn.Linear(48, 1)])

    def fn(x):
        for _ in range(2):
            x = net[0](x) if net[2](x).item() > 0 else net[1](x)
        return x.sum()

    return net, fn, lambda k: lib.randn(48)


@program
def layer_norm_over_rows(lib):
    net = lib.nn.Sequential(lib.nn.LayerNorm(48), lib.nn.Linear(48, 48), lib.nn.GELU(),
                            lib.nn.LayerNorm(48), lib.nn.Linear(48, 1))  # fmt: skip
    return net, lambda x: net(x).mean(), lambda k: lib.randn(lengths(k, 10, 60), 48)
