"""A recursive neural tensor network (Socher et al. 2013, EMNLP): a label at every node.

The paper's vectors have 25 to 35 numbers: the tensor grows with the cube of that.
"""

from batching.structures import binary_tree, depths, generator, whole

DIM, CLASSES, WORDS = 32, 5, 100


def make(lib, dim=DIM):
    nn = lib.nn

    class TensorNetwork(nn.Module):
        def __init__(self):
            super().__init__()
            self.lib = lib
            self.word = nn.Embedding(WORDS, dim)
            self.linear = nn.Linear(2 * dim, dim)
            self.tensor = nn.Parameter(lib.randn(2 * dim, 2 * dim * dim) / (2 * dim))
            self.out = nn.Linear(dim, CLASSES)

        def loss(self, tree):
            """A node's vector and the loss of all nodes below it and its own."""
            label, below = tree
            if isinstance(below, int):
                h, loss = lib.tanh(self.word(lib.tensor([below]))), 0.0
            else:
                (h_l, loss_l), (h_r, loss_r) = self.loss(below[0]), self.loss(below[1])
                x = lib.cat([h_l, h_r], dim=1)
                products = x @ (x @ self.tensor).view(2 * dim, dim)
                h, loss = lib.tanh(products + self.linear(x)), loss_l + loss_r
            scores = self.out(h)
            return h, loss + nn.functional.cross_entropy(scores, lib.tensor([label]))

    return TensorNetwork()


def examples(lib, seed, n, dim=DIM):
    """Trees `(label, word)` or `(label, (tree, tree))`."""
    rng = generator(seed)

    def labelled(tree):
        below = tuple(map(labelled, tree)) if isinstance(tree, tuple) else tree
        return whole(rng, 0, CLASSES - 1), below

    return [
        labelled(binary_tree(rng, whole(rng, 10, 40), lambda: whole(rng, 0, WORDS - 1)))
        for _ in range(n)
    ]


def one(model, tree):
    return model.loss(tree)[1]


def by_hand(model, examples):
    """By depth, the deepest first; the scores and losses of all nodes at the end."""
    lib = model.lib
    levels = depths(examples, lambda tree: () if isinstance(tree[1], int) else tree[1])
    owners = [list(range(len(examples)))]
    for level in levels[:-1]:
        pairs = [o for (_, below), o in zip(level, owners[-1]) if not isinstance(below, int)]
        owners.append([o for o in pairs for _ in range(2)])
    words = [[below for _, below in level if isinstance(below, int)] for level in levels]
    leaves = lib.tanh(model.word(lib.tensor([word for level in words for word in level])))
    h, vectors = None, []
    for level, leaf in zip(reversed(levels), reversed(leaves.split([len(w) for w in words]))):
        if h is None:
            h = leaf
        else:
            x = h.view(h.shape[0] // 2, -1)
            rows, width = x.shape
            products = x.unsqueeze(1) @ (x @ model.tensor).view(rows, width, width // 2)
            h = lib.tanh(products.squeeze(1) + model.linear(x))
            if len(leaf):
                inner = [not isinstance(below, int) for _, below in level]
                order = sorted(range(len(level)), key=lambda i: not inner[i])
                places = sorted(range(len(level)), key=order.__getitem__)
                h = lib.cat([h, leaf])[lib.tensor(places)]
        vectors.append(h)
    labels = lib.tensor([label for level in reversed(levels) for label, _ in level])
    scores = model.out(lib.cat(vectors))
    losses = lib.nn.functional.cross_entropy(scores, labels, reduction="none")
    owner = lib.tensor([o for level in reversed(owners) for o in level])
    return losses.new_zeros(len(examples)).index_add(0, owner, losses)
