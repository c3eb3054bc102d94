"""A child-sum Tree-LSTM (Tai et al. 2015, arXiv:1503.00075): a node has any number of children."""

from batching.structures import depths, generator, tree_loss, whole

DIM, CLASSES, WORDS = 128, 5, 100


def make(lib, dim=DIM):
    nn = lib.nn

    class ChildSumTreeLSTM(nn.Module):
        def __init__(self):
            super().__init__()
            self.lib = lib
            self.word = nn.Embedding(WORDS, dim)
            self.gates_x, self.forget_x = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
            self.gates_h = nn.Linear(dim, 3 * dim, bias=False)
            self.forget_h = nn.Linear(dim, dim, bias=False)
            self.out = nn.Linear(dim, CLASSES)

        def state(self, tree):
            word, children = tree
            states = [self.state(child) for child in children]
            x = self.word(lib.tensor([word]))
            gates = self.gates_x(x)
            if states:
                gates = gates + self.gates_h(sum(h for h, _ in states))
            i, o, u = gates.chunk(3, dim=1)
            c = lib.sigmoid(i) * lib.tanh(u)
            forget = self.forget_x(x)
            for h_k, c_k in states:
                c = c + lib.sigmoid(forget + self.forget_h(h_k)) * c_k
            return lib.sigmoid(o) * lib.tanh(c), c

    return ChildSumTreeLSTM()


def examples(lib, seed, n, dim=DIM):
    """Pairs of a tree `(word, [tree, ...])` of 10 to 40 words and a label of shape (1,)."""
    rng = generator(seed)

    def tree():
        nodes = [(whole(rng, 0, WORDS - 1), []) for _ in range(whole(rng, 10, 40))]
        for i in range(1, len(nodes)):
            nodes[whole(rng, 0, i - 1)][1].append(nodes[i])
        return nodes[0]

    return [(tree(), lib.tensor([whole(rng, 0, CLASSES - 1)])) for _ in range(n)]


one = tree_loss


def by_hand(model, examples):
    """By depth, the deepest first; the sums over children are additions at the parents' places."""
    lib = model.lib
    levels = depths([tree for tree, _ in examples], lambda tree: tree[1])
    sizes = [len(level) for level in levels]
    x = model.word(lib.tensor([word for level in levels for word, _ in level]))
    gates, forgets = model.gates_x(x).split(sizes), model.forget_x(x).split(sizes)
    h = c = None
    for level, gate, forget in zip(*map(reversed, (levels, gates, forgets))):
        if h is not None:
            parents = lib.tensor([i for i, (_, below) in enumerate(level) for _ in below])
            sums = h.new_zeros(len(level), h.shape[1])
            gate = gate + model.gates_h(sums.index_add(0, parents, h))
            kept = lib.sigmoid(forget[parents] + model.forget_h(h)) * c
        i, o, u = gate.chunk(3, dim=1)
        new = lib.sigmoid(i) * lib.tanh(u)
        c = new if h is None else new.index_add(0, parents, kept)
        h = lib.sigmoid(o) * lib.tanh(c)
    labels = lib.cat([label for _, label in examples])
    return lib.nn.functional.cross_entropy(model.out(h), labels, reduction="none")
