"""Programs that batching has little to offer: small calls, values read after a few of them."""

DIM, WORDS = 128, 50
OTHERS = ("all", "parameters", "words")


class SmallPrograms:
    """Functions of a vector of 128 numbers."""

    def __init__(self, lib):
        self.lib, nn = lib, lib.nn
        self.layers = nn.ModuleDict({
            "linear": nn.Linear(DIM, DIM), "wide": nn.Linear(512, 512),
            "out": nn.Linear(DIM, WORDS), "cell": nn.GRUCell(DIM, DIM),
            "word": nn.Embedding(WORDS, DIM),
        })  # fmt: skip
        self.calls = 0
        self.matrix = nn.Parameter(lib.randn(4, 4))

    def pointwise(self, x):
        for _ in range(10):
            x = (x * 0.9).tanh()
        return x

    def short(self, x):
        return x[:4] + 1

    def matrix_vector(self, x):
        y = x[:4]
        for _ in range(10):
            y = self.lib.tanh(self.matrix @ y)
        return y

    def linear_layer(self, x):
        return self.layers["linear"](x)

    def three_layers(self, x):
        for _ in range(3):
            x = self.layers["linear"](x).relu()
        return x

    def wide_layers(self, x):
        wide = self.layers["wide"]
        return wide(wide(self.lib.cat([x] * 4)).relu())

    def rows(self, x):
        functional = self.lib.nn.functional
        return functional.log_softmax(functional.layer_norm(x, (DIM,)), -1)[3]

    def joins(self, x):
        states = [x]
        for _ in range(6):
            states.append(self.lib.cat([states[-1], states[0]])[:DIM])
        return self.lib.stack(states).mean(0)

    def halves(self, x):
        y = x.abs()
        while y.sum() > 1:
            y = y * 0.6
        return y

    def branch(self, x):
        return self.layers["linear"](x) if x.sum() > 0 else x * 2

    def halting(self, x):
        total, steps = 0.0, 0
        while total < 0.9 and steps < 8:
            x = self.lib.tanh(self.layers["linear"](x))
            total += float(self.lib.sigmoid(x.sum() * 0.1 + 0.2))
            steps += 1
        return x

    def greedy(self, x):
        h, word = x[None], 1
        for _ in range(10):
            h = self.layers["cell"](self.layers["word"](self.lib.tensor([word])), h)
            word = int(self.layers["out"](h).argmax())
        return h

    def rows_of_a_table(self, x):
        table = self.layers["word"].weight
        return sum((table[k] for k in self.words()), x)

    def products_of_rows(self, x):
        table, words = self.layers["word"].weight, self.words()
        return sum(table[a] @ table[b] for a, b in zip(words, words[1:])) + x[0]

    def pieces_of_a_matrix(self, x):
        words = self.words()
        return sum(self.matrix[a % 4, b % 4] for a, b in zip(words, words[1:])) * x

    def slopes(self, x):
        for k in range(4):
            x = self.lib.nn.functional.leaky_relu(x - 0.1, 0.01 * (len(self.words()) + k))
        return x

    def layer_drop(self, x):
        for _ in range(4):
            if self.lib.rand(1).item() < 0.7:
                x = self.layers["linear"](x).relu()
        return x

    def medium(self, x):
        return self.pointwise(x.repeat(16))

    def words(self):
        """Three to eight, other ones in each call."""
        self.calls += 1
        first = self.calls * 17 % 101
        return [(first + 7 * k) % WORDS for k in range(3 + first % 6)]

    def parameters(self):
        return [*self.layers.parameters(), self.matrix]

    def all(self):
        """By name."""
        methods = [name for name in vars(SmallPrograms) if not name.startswith("_")]
        return {name: getattr(self, name) for name in methods if name not in OTHERS}


def step(lib, run, parameters, grad, backward=True):
    """A callable: `run()`, which returns tensors; by `grad` and `backward` that of their sum."""

    def go():
        with lib.set_grad_enabled(grad):
            outs = run()
        if grad and backward:
            loss = sum(out.sum() for out in outs)
            if loss.requires_grad:
                loss.backward()
            for p in parameters:
                p.grad = None

    return go
