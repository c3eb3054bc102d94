"""A binary Tree-LSTM (Tai et al. 2015, arXiv:1503.00075) that classifies a tree by its root."""

from batching.structures import binary_tree, depths, generator, tree_loss, whole

DIM, CLASSES, WORDS = 128, 5, 100


def make(lib, dim=DIM):
    nn = lib.nn

    class TreeLSTM(nn.Module):
        def __init__(self):
            super().__init__()
            self.lib = lib
            self.leaf = nn.Embedding(WORDS, 2 * dim)
            self.node = nn.Linear(2 * dim, 5 * dim)
            self.out = nn.Linear(dim, CLASSES)

        def merge(self, h, c_l, c_r):
            """The state over two: h is theirs side by side."""
            i, f_l, f_r, o, u = self.node(h).chunk(5, dim=1)
            c = (
                lib.sigmoid(i) * lib.tanh(u)
                + lib.sigmoid(f_l) * c_l
                + lib.sigmoid(f_r) * c_r
            )  # fmt: skip
            return lib.sigmoid(o) * lib.tanh(c), c

        def state(self, tree):
            if not isinstance(tree, tuple):
                return self.leaf(lib.tensor([tree])).chunk(2, dim=1)
            (h_l, c_l), (h_r, c_r) = self.state(tree[0]), self.state(tree[1])
            return self.merge(lib.cat([h_l, h_r], dim=1), c_l, c_r)

    return TreeLSTM()


def examples(lib, seed, n, dim=DIM):
    """Pairs of a tree, nested pairs over words, and a label of shape (1,)."""
    rng = generator(seed)
    return [
        (
            binary_tree(rng, whole(rng, 10, 40), lambda: whole(rng, 0, WORDS - 1)),
            lib.tensor([whole(rng, 0, CLASSES - 1)]),
        )
        for _ in range(n)
    ]


one = tree_loss


def by_hand(model, examples):
    """By depth, the deepest first: the children of a level's nodes are exactly the level below."""
    lib = model.lib
    levels = depths([tree for tree, _ in examples], lambda t: t if isinstance(t, tuple) else ())
    words = [[tree for tree in level if not isinstance(tree, tuple)] for level in levels]
    states = model.leaf(lib.tensor([word for level in words for word in level]))
    leaves = states.split([len(level) for level in words])
    h = c = None
    for level, state in zip(reversed(levels), reversed(leaves)):
        h_leaf, c_leaf = state.chunk(2, dim=1)
        if h is None:
            h, c = h_leaf, c_leaf
            continue
        pairs = h.shape[0] // 2
        c_l, c_r = c.view(pairs, 2, -1).unbind(1)
        h, c = model.merge(h.reshape(pairs, -1), c_l, c_r)
        if len(h_leaf):
            order = lib.tensor(_places(level, pairs))
            h, c = lib.cat([h, h_leaf])[order], lib.cat([c, c_leaf])[order]
    labels = lib.cat([label for _, label in examples])
    return lib.nn.functional.cross_entropy(model.out(h), labels, reduction="none")


def _places(level, inner):
    """Where each tree of a level is in the list of its inner nodes, then its leaves."""
    places, leaf, node = [], inner, 0
    for tree in level:
        if isinstance(tree, tuple):
            places.append(node)
            node += 1
        else:
            places.append(leaf)
            leaf += 1
    return places
