"""An N-ary Tree-LSTM (Tai et al. 2015, arXiv:1503.00075): weights of its own for each position.

Children are in order, at most three, and a node may have fewer; every node has a word.
"""

from batching.structures import depths, generator, tree_loss, whole

DIM, CHILDREN, CLASSES, WORDS = 128, 3, 5, 100


def make(lib, dim=DIM):
    nn = lib.nn

    class NaryTreeLSTM(nn.Module):
        def __init__(self):
            super().__init__()
            self.lib = lib
            size = (3 + CHILDREN) * dim
            self.word, self.gates = nn.Embedding(WORDS, dim), nn.Linear(dim, size)
            self.below = nn.ModuleList(
                [nn.Linear(dim, size, bias=False) for _ in range(CHILDREN)]
            )  # fmt: skip
            self.out = nn.Linear(dim, CLASSES)

        def state(self, tree):
            word, children = tree
            states = [self.state(child) for child in children]
            gates = self.gates(self.word(lib.tensor([word])))
            for below, (h, _) in zip(self.below, states):
                gates = gates + below(h)
            i, o, u, *forget = gates.chunk(3 + CHILDREN, dim=1)
            c = lib.sigmoid(i) * lib.tanh(u)
            for f, (_, c_k) in zip(forget, states):
                c = c + lib.sigmoid(f) * c_k
            return lib.sigmoid(o) * lib.tanh(c), c

    return NaryTreeLSTM()


def examples(lib, seed, n, dim=DIM):
    """Pairs of a tree `(word, [tree, ...])` of 10 to 40 words and a label of shape (1,)."""
    rng = generator(seed)

    def tree():
        nodes = [(whole(rng, 0, WORDS - 1), []) for _ in range(whole(rng, 10, 40))]
        free = nodes[:1]
        for node in nodes[1:]:
            parent = free[whole(rng, 0, len(free) - 1)]
            parent[1].append(node)
            free.append(node)
            if len(parent[1]) == CHILDREN:
                free = [other for other in free if other is not parent]
        return nodes[0]

    return [(tree(), lib.tensor([whole(rng, 0, CLASSES - 1)])) for _ in range(n)]


one = tree_loss


def by_hand(model, examples):
    """By depth, the deepest first; one product for the children at each position of a level."""
    lib = model.lib
    levels = depths([tree for tree, _ in examples], lambda tree: tree[1])
    x = model.gates(model.word(lib.tensor([word for level in levels for word, _ in level])))
    h = c = None
    for level, gates in zip(reversed(levels), reversed(x.split([len(level) for level in levels]))):
        at = [(parent, k) for parent, (_, below) in enumerate(level) for k in range(len(below))]
        kept = []
        for k, below in enumerate(model.below):
            children = [i for i, (_, position) in enumerate(at) if position == k]
            if children:
                parents = lib.tensor([at[i][0] for i in children])
                children = lib.tensor(children)
                gates = gates.index_add(0, parents, below(h[children]))
                kept.append((k, parents, children))
        i, o, u, *forget = gates.chunk(3 + CHILDREN, dim=1)
        new = lib.sigmoid(i) * lib.tanh(u)
        for k, parents, children in kept:
            new = new.index_add(0, parents, lib.sigmoid(forget[k][parents]) * c[children])
        h, c = lib.sigmoid(o) * lib.tanh(new), new
    labels = lib.cat([label for _, label in examples])
    return lib.nn.functional.cross_entropy(model.out(h), labels, reduction="none")
